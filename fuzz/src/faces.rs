//! What clients, state files and checkpoint files say.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};
use std::time::Duration;

use atrest_attach::nbd::{Endpoint, Options, Server};
use atrest_attach::session::Registry;
use atrest_engine::bulk::{self, BulkOptions};
use atrest_engine::{Disk, DiskOptions};
use atrest_kdf::{Hash, digest};
use tempfile::TempDir;

use crate::Image;

/// A directory in memory if there is one, kept for as long as the process lives.
pub(crate) fn directory() -> &'static PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let shared = PathBuf::from("/dev/shm");
        let made = if shared.is_dir() { TempDir::new_in(shared) } else { TempDir::new() };
        made.expect("a temporary directory").keep()
    })
}

/// Panics of any thread: the server's are not the caller's.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts the panics of all threads from now on.
pub(crate) fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            hook(info);
        }));
    });
}

/// Whether a thread has panicked since they are counted.
pub(crate) fn has_panicked() -> bool {
    PANICS.load(Ordering::SeqCst) > 0
}

/// A running server on a device of 1 MiB.
fn server() -> &'static Endpoint {
    static SERVER: OnceLock<Endpoint> = OnceLock::new();
    SERVER.get_or_init(|| {
        watch_panics();
        let endpoint = Endpoint::Unix(directory().join("nbd.sock"));
        let image = Image::new(1 << 20, &[0x5a; 4096]);
        let options = Options { export: "fuzz".into(), workers: 2, ..Options::default() };
        let server = Server::bind(image, &endpoint, options).expect("the socket can be bound");
        std::thread::spawn(move || server.run());
        endpoint
    })
}

/// Everything that a client sends, from its flags on, to the real server.
pub fn nbd(data: &[u8]) {
    let Endpoint::Unix(socket) = server() else { return };
    let mut client = UnixStream::connect(socket).expect("the server accepts");
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("a valid timeout");
    client.set_write_timeout(Some(Duration::from_secs(20))).expect("a valid timeout");
    let mut replies = client.try_clone().expect("a second handle");
    // The server may well be stuck on its replies until they are read.
    let reader = std::thread::spawn(move || {
        let mut buf = vec![0; 1 << 16];
        loop {
            match replies.read(&mut buf) {
                Ok(0) => return true,
                Ok(_) => {}
                // A server that resets the connection has ended it too.
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    });
    let _ = client.write_all(data);
    let _ = client.shutdown(Shutdown::Write);
    assert!(reader.join().expect("it only reads"), "the server leaves a client hanging");
    assert!(!has_panicked(), "the server has panicked");
}

/// A state file of an open volume.
pub fn session(data: &[u8]) {
    let registry = Registry::at(directory().join("sessions")).expect("a directory of our own");
    let file = directory().join("sessions/volume.json");
    std::fs::write(&file, data).expect("writable");
    let listed = registry.list().expect("a bad file is no failure of the registry");
    let found = registry.find("volume").expect("a bad file is no failure of the registry");
    assert_eq!(listed.is_empty(), found.is_none());
    assert!(listed.iter().all(|entry| entry.name == "volume"));
}

/// A checkpoint file, for a decryption that wants to go on.
pub fn checkpoint(data: &[u8]) {
    let path = directory().join("checkpoint");
    let mut text = data.to_vec();
    // With the right checksum, so that the rest is looked at.
    if let Some(at) = text.windows(4).rposition(|window| window == b"sum ") {
        let mut sum = [0; 32];
        digest(Hash::Sha256, &[&text[..at]], &mut sum);
        text.truncate(at + 4);
        text.extend(sum.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()));
        text.push(b'\n');
    }
    for contents in [data, &text] {
        let Some(from) = resumes(&path, contents) else { continue };
        // It is as long as those that a run writes, and says the same.
        let text = std::str::from_utf8(contents).expect("a text");
        assert!(text.contains(&format!("\ndone {from:020}\nsum ")), "resumed at {from}: {text}");
        for len in [0, 1, contents.len() / 2, contents.len() - 65, contents.len() - 2, contents.len() - 1] {
            assert_eq!(resumes(&path, &contents[..len]), None, "{len} of {} bytes", contents.len());
        }
        assert_eq!(resumes(&path, &[contents, b"\n"].concat()), None, "one byte more");
    }
}

/// Where a decryption goes on with this checkpoint, if it does.
fn resumes(path: &std::path::Path, contents: &[u8]) -> Option<u64> {
    std::fs::write(path, contents).expect("writable");
    let (disk, out) = disk_and_destination();
    let mut options = BulkOptions::default();
    (options.threads, options.checkpoint, options.resume) = (1, Some(path), true);
    match bulk::decrypt(&disk, &*out, options, &mut |_, _| {}) {
        Ok(summary) => {
            assert!(summary.resumed_from <= summary.bytes);
            Some(summary.resumed_from)
        }
        Err(_) => {
            assert_eq!(out.writes(), 0, "a refused checkpoint had something written");
            None
        }
    }
}

pub(crate) fn disk_and_destination() -> (Disk, std::sync::Arc<Image>) {
    let media = Image::new(65536, &[0x33; 65536]);
    let disk = Disk::identity(media, DiskOptions::default()).expect("a device of whole sectors");
    (disk, Image::new(65536, &[0x33; 65536]))
}

/// The checkpoint that an interrupted decryption leaves, for the seeds.
pub fn checkpoint_seed() -> Vec<u8> {
    let path = directory().join("seed");
    let (disk, out) = disk_and_destination();
    let cancel = std::sync::atomic::AtomicBool::new(true);
    let mut options = BulkOptions::default();
    (options.threads, options.checkpoint, options.cancel) = (1, Some(path.as_path()), Some(&cancel));
    let _ = bulk::decrypt(&disk, &*out, options, &mut |_, _| {});
    std::fs::read(&path).unwrap_or_default()
}
