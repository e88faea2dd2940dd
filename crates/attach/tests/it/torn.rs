//! Readers beside partial writes, through both faces and down to media that show every write half done.

use crate::common::{Serving, run};
use atrest_attach::fuse::{self, Mount};
use atrest_device::BlockDevice;
use atrest_engine::{Disk, DiskOptions};
use atrest_testkit::nbd::NbdClient;
use atrest_testkit::rings::with_rings;
use atrest_testkit::{DiscardDevice, Random, Scratch, TornDevice};
use atrest_volume::UnlockOptions;
use atrest_volume::plain::{self, PlainKey, PlainOptions};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const UNIT: usize = 4096;
/// Ciphers whose torn data units decrypt to garbage: in some bytes, and in all.
const CIPHERS: [&str; 2] = ["aes-cbc-plain64", "xchacha12,aes-adiantum-plain64"];

/// An encrypted volume on `media` with data units of 4 KiB.
fn volume(media: Arc<dyn BlockDevice>, cipher: &str) -> Arc<Disk> {
    let options =
        PlainOptions { data_unit: 4096, iv_large: true, ..PlainOptions::new(cipher.parse().unwrap(), 32) };
    let key = Random::new(7).bytes(32);
    let unlock = UnlockOptions::default();
    let volume = plain::open(&*media, &options, PlainKey::KeyFile(&key), &unlock).unwrap();
    let mut options = DiskOptions::default();
    options.allow_discards = true;
    Arc::new(Disk::new(media, volume, options).unwrap())
}

/// One client of a face.
trait Client: Send {
    fn read(&mut self, offset: u64, len: usize) -> Vec<u8>;
    fn write(&mut self, offset: u64, data: &[u8]);
}

impl Client for NbdClient {
    fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        NbdClient::read(self, offset, len as u32).unwrap()
    }
    fn write(&mut self, offset: u64, data: &[u8]) {
        NbdClient::write(self, offset, data).unwrap();
    }
}

/// The mounted file: direct I/O, so that every read and write reaches the volume as it is.
impl Client for File {
    fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        self.read_exact_at(&mut data, offset).unwrap();
        data
    }
    fn write(&mut self, offset: u64, data: &[u8]) {
        self.write_all_at(data, offset).unwrap();
    }
}

/// A served volume to which any number of clients can connect.
trait Face {
    fn start(volume: Arc<Disk>) -> Self;
    fn connect(&self) -> Box<dyn Client>;
}

impl Face for Serving {
    fn start(volume: Arc<Disk>) -> Self {
        Serving::start(volume)
    }
    fn connect(&self) -> Box<dyn Client> {
        Box::new(NbdClient::connect(&self.socket).unwrap())
    }
}

/// A mounted volume, with requests by rings of io_uring or by `/dev/fuse`.
struct Mounted<const RINGS: bool> {
    mount: Option<Mount>,
    file: PathBuf,
    _directory: Scratch,
}

impl<const RINGS: bool> Face for Mounted<RINGS> {
    fn start(volume: Arc<Disk>) -> Self {
        let directory = Scratch::new();
        let options = fuse::Options { rings: RINGS, ..fuse::Options::default() };
        let mount = || {
            fuse::mount(volume, directory.as_path(), &options)
                .unwrap_or_else(|error| panic!("{error} (run scripts/setup)"))
        };
        let mount = if RINGS { with_rings(mount).0 } else { mount() };
        Mounted { file: mount.place(), mount: Some(mount), _directory: directory }
    }
    fn connect(&self) -> Box<dyn Client> {
        Box::new(OpenOptions::new().read(true).write(true).open(&self.file).unwrap())
    }
}

impl<const RINGS: bool> Drop for Mounted<RINGS> {
    fn drop(&mut self) {
        if let Some(mount) = self.mount.take() {
            let _ = mount.unmounter().detach();
        }
    }
}

/// One writer changes a few bytes of a data unit, or bytes of several. While its write is half done on the media, a reader
/// asks for the bytes around.
fn a_reader_beside_a_partial_write_waits_for_it<F: Face>() {
    for cipher in CIPHERS {
        for (from, to) in [(UNIT + 100, UNIT + 110), (UNIT - 3, UNIT + 3), (UNIT + 512, 3 * UNIT + 512)] {
            let media = Arc::new(TornDevice::new(8 * UNIT, 4096, Duration::from_millis(300)));
            let volume = volume(media.clone(), cipher);
            let initial = Random::new(3).bytes(8 * UNIT);
            volume.write_at(0, &initial).unwrap();
            let face = F::start(volume);
            let (mut writer, mut reader) = (face.connect(), face.connect());
            thread::scope(|scope| {
                scope.spawn(move || writer.write(from as u64, &vec![9; to - from]));
                media.wait_for_half_a_write();
                assert_eq!(reader.read(0, from), initial[..from], "{cipher}: before {from}..{to}");
                assert_eq!(
                    reader.read(to as u64, 8 * UNIT - to),
                    initial[to..],
                    "{cipher}: behind {from}..{to}"
                );
            });
            assert_eq!(reader.read(from as u64, to - from), vec![9; to - from]);
        }
    }
}

/// Three writers own slots of a few bytes beside one another; a reader looks at those that nobody owns.
fn writers_of_parts_disturb_neither_one_another_nor_readers<F: Face>() {
    const SLOT: usize = 128;
    const SLOTS: usize = 3 * UNIT / SLOT;
    const WRITERS: usize = 3;
    for cipher in CIPHERS {
        let volume = volume(Arc::new(TornDevice::new(4 * UNIT, 4096, Duration::from_micros(50))), cipher);
        let initial = Random::new(11).bytes(4 * UNIT);
        volume.write_at(0, &initial).unwrap();
        let face = F::start(volume);
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let mut client = face.connect();
                scope.spawn(move || {
                    let mut random = Random::new(writer as u64);
                    for _ in 0..200 {
                        let slot = random.below(SLOTS as u64 / 4) * 4 + writer as u64;
                        let data = random.bytes(SLOT);
                        client.write(slot * SLOT as u64, &data);
                        assert_eq!(
                            client.read(slot * SLOT as u64, SLOT),
                            data,
                            "{cipher}: slot {slot} of {writer}"
                        );
                    }
                });
            }
            let mut client = face.connect();
            let initial = &initial;
            scope.spawn(move || {
                for _ in 0..400 {
                    let seen = client.read(0, SLOTS * SLOT);
                    for slot in (WRITERS..SLOTS).step_by(4) {
                        let range = slot * SLOT..(slot + 1) * SLOT;
                        assert_eq!(seen[range.clone()], initial[range], "{cipher}: slot {slot}");
                    }
                }
            });
        });
    }
}

#[test]
fn an_nbd_reader_beside_a_partial_write_waits_for_it() {
    a_reader_beside_a_partial_write_waits_for_it::<Serving>();
}

#[test]
fn a_reader_of_the_mounted_file_beside_a_partial_write_waits_for_it() {
    a_reader_beside_a_partial_write_waits_for_it::<Mounted<false>>();
}

#[test]
fn a_reader_by_rings_beside_a_partial_write_waits_for_it() {
    a_reader_beside_a_partial_write_waits_for_it::<Mounted<true>>();
}

#[test]
fn nbd_writers_of_parts_disturb_neither_one_another_nor_readers() {
    writers_of_parts_disturb_neither_one_another_nor_readers::<Serving>();
}

#[test]
fn writers_of_parts_of_the_mounted_file_disturb_neither_one_another_nor_readers() {
    writers_of_parts_disturb_neither_one_another_nor_readers::<Mounted<false>>();
}

#[test]
fn writers_of_parts_by_rings_disturb_neither_one_another_nor_readers() {
    writers_of_parts_disturb_neither_one_another_nor_readers::<Mounted<true>>();
}

/// Several jobs write and verify sectors of 512 bytes, each in its own stripe of every data unit.
fn fio(arguments: &[&str]) {
    let common = [
        "--rw=write",
        "--bs=512",
        "--zonemode=strided",
        "--zonesize=512",
        "--zonerange=2048",
        "--size=64k",
        // Once over the stripe: a second round would overwrite what is yet to be verified.
        "--io_size=16k",
        "--verify=crc32c",
        "--verify_backlog=4",
        "--verify_fatal=1",
        "--verify_state_save=0",
        "--iodepth=8",
        "--offset_increment=512",
        "--numjobs=4",
        "--thread",
        "--name=stripes",
    ];
    run("fio", &[&common[..], arguments].concat());
}

#[test]
fn fio_verifies_sectors_beside_those_that_others_write_through_nbd() {
    let media = Arc::new(TornDevice::new(16 * UNIT + UNIT, 4096, Duration::from_micros(50)));
    let serving = Serving::start(volume(media, CIPHERS[1]));
    fio(&["--ioengine=nbd", &format!("--uri={}", serving.uri)]);
}

fn fio_verifies_sectors_in_the_mounted_file<const RINGS: bool>() {
    let media = Arc::new(TornDevice::new(16 * UNIT + UNIT, 4096, Duration::from_micros(50)));
    let mounted = Mounted::<RINGS>::start(volume(media, CIPHERS[1]));
    fio(&["--ioengine=libaio", "--direct=1", &format!("--filename={}", text(&mounted.file))]);
}

#[test]
fn fio_verifies_sectors_beside_those_that_others_write_in_the_mounted_file() {
    fio_verifies_sectors_in_the_mounted_file::<false>();
}

#[test]
fn fio_verifies_sectors_beside_those_that_others_write_by_rings() {
    fio_verifies_sectors_in_the_mounted_file::<true>();
}

/// QEMU as the client: ranges that begin and end anywhere, up to a device's end that is no whole number of units of
/// the client's own.
#[test]
fn qemu_io_reads_writes_zeros_and_trims_any_bytes_up_to_the_end() {
    let size = 33 * UNIT as u64;
    let media = Arc::new(DiscardDevice::zeroed(size as usize));
    let volume = volume(media.clone(), CIPHERS[1]);
    let mut expected = Random::new(5).bytes(size as usize);
    volume.write_at(0, &expected).unwrap();
    let serving = Serving::start(volume.clone());
    let commands = [
        "write -P 0x5a 4000 70001",
        "read -P 0x5a 4000 70001",
        "write -z 100 9000",
        "read -P 0 100 9000",
        "write -P 0x33 135167 1",
        "read -P 0x33 135167 1",
        "write -z 135160 5",
        "discard 131000 4168",
        "flush",
    ];
    let mut arguments = vec!["-f", "raw"];
    for command in commands {
        arguments.extend(["-c", command]);
    }
    arguments.push(&serving.uri);
    run("qemu-io", &arguments);
    expected[4000..74_001].fill(0x5a);
    expected[100..9100].fill(0);
    expected[135_167] = 0x33;
    expected[135_160..135_165].fill(0);
    let mut found = vec![0; size as usize];
    volume.read_at(0, &mut found).unwrap();
    assert!(found == expected);
    assert_eq!(media.discards(), [(32 * UNIT as u64, UNIT as u64)], "the whole unit, and no more");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
