//! What serving a volume leaves in this process's memory: its key and round keys lie in locked pages only, also after
//! reads and writes through NBD, FUSE and vhost-user.
//!
//! A test program of its own, because it reads all its memory and other tests would leave their keys there.

mod common;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use atrest_attach::{fuse, vhost_user};
use atrest_cipher::{BackendChoice, CipherSpec};
use atrest_device::BlockDevice;
use atrest_engine::{Disk, DiskOptions};
use atrest_secret::{OsRandom, Random, SecretBytes};
use atrest_testkit::memory::{PIECE, found_outside, pieces, round_keys};
use atrest_testkit::{Scratch, wait_until};
use atrest_volume::plain::{self, PlainKey, PlainOptions};
use atrest_volume::{UnlockOptions, VolumeKey};
use common::guest::{Guest, OK};
use common::{Memory, Serving, run};

const SIZE: u64 = 2 << 20;

/// Cipher and bytes of key.
const CIPHERS: [(&str, usize); 6] = [
    ("aes-xts-plain64", 32),
    ("aes-xts-plain64", 64),
    ("aes-cbc-essiv:sha256", 32),
    ("xchacha12,aes-adiantum-plain64", 32),
    ("aes-hctr2-plain64", 32),
    ("serpent-xts-plain64", 64),
];

/// A volume with a fresh key, as plaintext, and what must not be found.
fn volume(cipher: &str, key_len: usize, backend: BackendChoice) -> (Arc<dyn BlockDevice>, Vec<SecretBytes>) {
    let cipher: CipherSpec = cipher.parse().expect("a cipher");
    let key = VolumeKey::generate(key_len, &mut OsRandom).expect("random");
    let media = Memory::new(SIZE);
    let options = PlainOptions::new(cipher, key_len);
    let unlock = UnlockOptions { backend: Some(backend), ..UnlockOptions::default() };
    let volume = plain::open(&media, &options, PlainKey::KeyFile(key.expose()), &unlock).expect("opens");
    let mapper = volume.segments()[0].protection.mapper().expect("one cipher");
    let mut needles = pieces(key.expose());
    // The portable backend keeps every bit as a byte, which does not look random.
    if mapper.backend_name() != "portable" {
        needles.extend(round_keys(mapper));
    }
    let disk = Disk::new(Arc::new(media), volume, DiskOptions::default()).expect("a disk");
    (Arc::new(disk), needles)
}

/// Reads and writes, small and large, by programs that are not this process.
fn through_nbd(disk: Arc<dyn BlockDevice>) -> Serving {
    let serving = Serving::start(disk);
    let file = serving.directory.path("copy");
    let file = file.to_str().expect("plain letters");
    run("nbdcopy", &["--connections=4", &serving.uri, file]);
    run("nbdcopy", &["--connections=4", "--flush", file, &serving.uri]);
    run("nbdcopy", &["--synchronous", "--request-size=4096", "--connections=1", &serving.uri, file]);
    serving
}

struct Mounted {
    mount: Option<fuse::Mount>,
    _directory: Scratch,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(mount) = self.mount.take() {
            wait_until("nobody uses the file", || {
                !matches!(mount.unmounter().unmount(), Err(fuse::UnmountError::Busy))
            });
            mount.wait().expect("it ended");
        }
    }
}

fn through_fuse(disk: Arc<dyn BlockDevice>) -> Mounted {
    let directory = Scratch::new();
    let point = directory.path("m");
    std::fs::create_dir(&point).expect("created");
    let mount = fuse::mount(disk, &point, &fuse::Options::default()).expect("FUSE: run scripts/setup");
    let file = OpenOptions::new().read(true).write(true).open(mount.place()).expect("opens");
    let mut data = vec![0; 1 << 20];
    for (offset, len) in [(0, 1 << 20), (4096, 4096), (12_345, 17), (1 << 19, 512)] {
        file.read_exact_at(&mut data[..len], offset).expect("read");
        file.write_all_at(&data[..len], offset + (1 << 20)).expect("written");
    }
    file.sync_all().expect("flushed");
    Mounted { mount: Some(mount), _directory: directory }
}

fn through_vhost_user(disk: Arc<dyn BlockDevice>) -> (Guest, Scratch, vhost_user::Shutdown) {
    let directory = Scratch::new();
    let options = vhost_user::Options::default();
    let server = vhost_user::Server::bind(disk, &directory.path("s"), options).expect("bound");
    let shutdown = server.shutdown();
    std::thread::spawn(move || server.run());
    let mut guest = Guest::connect(&directory.path("s"), 1, 0);
    for (sector, len) in [(0, 1 << 20), (8, 4096), (3, 512)] {
        let (status, data) = guest.read(sector, len);
        assert_eq!((status, guest.write(sector + 2048, &data)), (OK, OK));
    }
    (guest, directory, shutdown)
}

#[test]
fn serving_leaves_keys_in_locked_memory_only() {
    // The search itself finds what is there.
    let mut there = vec![0; 64];
    OsRandom.fill(&mut there).expect("random");
    let at = there.as_ptr() as u64;
    assert!(found_outside(&pieces(&there[7..7 + PIECE])).contains(&(at + 7)), "the search finds nothing");

    let mut wrong = Vec::new();
    for (number, (cipher, key_len)) in CIPHERS.into_iter().enumerate() {
        let mut backends: Vec<_> = BackendChoice::detected().collect();
        // What a backend keeps is the round keys of AES: the modes are tried on the first and on the last, the portable one.
        if number > 1 {
            backends = vec![backends[0], backends[backends.len() - 1]];
        }
        for backend in backends {
            let (disk, needles) = volume(cipher, key_len, backend);
            let t0 = std::time::Instant::now();
            let serving = through_nbd(disk.clone());
            let t1 = t0.elapsed();
            let mounted = through_fuse(disk.clone());
            let (guest, _directory, shutdown) = through_vhost_user(disk);
            let t2 = t0.elapsed();
            // Some of the threads have ended, others wait for requests.
            let found = found_outside(&needles);
            println!("{cipher} {} {t1:?} {t2:?} {:?}", backend.name(), t0.elapsed());
            drop((serving, mounted, guest));
            shutdown.start();
            if !found.is_empty() {
                wrong.push(format!("{cipher}, {key_len} bytes, {}: {found:x?}", backend.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
