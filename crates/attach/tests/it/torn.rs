//! Readers beside partial writes, through every face and down to media that show every write half done.

use super::faces::{Face, Mounted, QUEUES, Secured, Virtual};
use crate::common::{Serving, run};
use atrest_device::BlockDevice;
use atrest_engine::{Disk, DiskOptions};
use atrest_testkit::{Campaign, DiscardDevice, Random, TornDevice};
use atrest_volume::UnlockOptions;
use atrest_volume::plain::{self, PlainKey, PlainOptions};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

pub const UNIT: usize = 4096;
/// Ciphers whose torn data units decrypt to garbage: in some bytes, and in all.
pub const CIPHERS: [&str; 2] = ["aes-cbc-plain64", "xchacha12,aes-adiantum-plain64"];

/// An encrypted volume on `media` with data units of 4 KiB.
pub fn volume(media: Arc<dyn BlockDevice>, cipher: &str) -> Arc<Disk> {
    let options =
        PlainOptions { data_unit: 4096, iv_large: true, ..PlainOptions::new(cipher.parse().unwrap(), 32) };
    let key = Random::new(7).bytes(32);
    let unlock = UnlockOptions::default();
    let volume = plain::open(&*media, &options, PlainKey::KeyFile(&key), &unlock).unwrap();
    let mut options = DiskOptions::default();
    options.allow_discards = true;
    Arc::new(Disk::new(media, volume, options).unwrap())
}

/// One writer changes a few bytes of a data unit, or bytes of several. While its write is half done on the media, a reader
/// asks for the bytes around.
fn a_reader_beside_a_partial_write_waits_for_it<F: Face>() {
    for cipher in CIPHERS {
        for (from, to) in [(UNIT + 100, UNIT + 110), (UNIT - 3, UNIT + 3), (UNIT + 512, 3 * UNIT + 512)] {
            let (from, to) = (from / F::SECTOR * F::SECTOR, to.next_multiple_of(F::SECTOR));
            let media = Arc::new(TornDevice::new(8 * UNIT, 4096, Duration::from_millis(300)));
            let volume = volume(media.clone(), cipher);
            let initial = Random::new(3).bytes(8 * UNIT);
            volume.write_at(0, &initial).unwrap();
            let face = F::start(volume);
            let (mut writer, mut reader) = (face.connect(), face.connect());
            thread::scope(|scope| {
                scope.spawn(move || writer.write(from as u64, &vec![9; to - from]).unwrap());
                media.wait_for_half_a_write();
                assert_eq!(reader.read(0, from).unwrap(), initial[..from], "{cipher}: before {from}..{to}");
                assert_eq!(
                    reader.read(to as u64, 8 * UNIT - to).unwrap(),
                    initial[to..],
                    "{cipher}: behind {from}..{to}"
                );
            });
            assert_eq!(reader.read(from as u64, to - from).unwrap(), vec![9; to - from]);
        }
    }
}

/// A long read takes the data units from where the media has them in memory. One of them is being written in part.
fn a_long_read_beside_a_partial_write_waits_for_it<F: Face>() {
    const UNITS: usize = 16;
    for cipher in CIPHERS {
        let (from, to) = (5 * UNIT + 512, 5 * UNIT + 1024);
        let media = Arc::new(TornDevice::new(UNITS * UNIT, 4096, Duration::from_millis(300)));
        let volume = volume(media.clone(), cipher);
        let initial = Random::new(4).bytes(UNITS * UNIT);
        volume.write_at(0, &initial).unwrap();
        let face = F::start(volume);
        let (mut writer, mut reader) = (face.connect(), face.connect());
        let mut written = initial.clone();
        written[from..to].fill(9);
        thread::scope(|scope| {
            scope.spawn(move || writer.write(from as u64, &vec![9; to - from]).unwrap());
            media.wait_for_half_a_write();
            let seen = reader.read(0, UNITS * UNIT).unwrap();
            assert!(
                seen == initial || seen == written,
                "{cipher}: neither from before the write nor after it"
            );
        });
        assert!(reader.read(0, UNITS * UNIT).unwrap() == written, "{cipher}");
        assert!(media.lent() > 0, "{cipher}: long reads are not lent");
    }
}

/// Three writers own slots of a few bytes beside one another; a reader looks at those that nobody owns.
fn writers_of_parts_disturb_neither_one_another_nor_readers<F: Face>() {
    const WRITERS: usize = 3;
    let slot_len = F::SECTOR.max(128);
    let slots = 3 * UNIT / slot_len;
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
                        let slot = random.below(slots as u64 / 4) * 4 + writer as u64;
                        let data = random.bytes(slot_len);
                        client.write(slot * slot_len as u64, &data).unwrap();
                        assert_eq!(
                            client.read(slot * slot_len as u64, slot_len).unwrap(),
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
                    let seen = client.read(0, slots * slot_len).unwrap();
                    for slot in (WRITERS..slots).step_by(4) {
                        let range = slot * slot_len..(slot + 1) * slot_len;
                        assert_eq!(seen[range.clone()], initial[range], "{cipher}: slot {slot}");
                    }
                }
            });
        });
    }
}

/// Writes of one case. Their slots are smaller than a data unit, and lie beside one another.
const WRITES: usize = 1000;
/// Units that all writers share.
const SHARED: usize = 8;

/// Writers change slots of their own, over and over and all at once. In the end each holds what was written there last.
fn no_write_of_a_part_is_lost<F: Face>(name: &'static str) {
    const WRITERS: usize = 5;
    const { assert!(WRITERS < QUEUES) };
    let mut written = 0;
    Campaign::new(name, 1, 18).run(|_, random| {
        let slot_len = F::SECTOR.max(128);
        let slots = (SHARED * UNIT / slot_len / WRITERS * WRITERS) as u64;
        let media = Arc::new(TornDevice::new(SHARED * UNIT, 4096, Duration::from_micros(50)));
        let volume = volume(media, CIPHERS[1]);
        let mut expected = random.bytes(SHARED * UNIT);
        volume.write_at(0, &expected).unwrap();
        let face = F::start(volume.clone());
        let last: Vec<(usize, Vec<u8>)> = thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS as u64)
                .map(|writer| {
                    let (mut client, mut random) = (face.connect(), Random::new(random.draw()));
                    scope.spawn(move || {
                        let write = |_| {
                            let slot = random.below(slots / WRITERS as u64) * WRITERS as u64 + writer;
                            let data = random.bytes(slot_len);
                            client.write(slot * slot_len as u64, &data).unwrap();
                            (slot as usize * slot_len, data)
                        };
                        (0..WRITES / WRITERS).map(write).collect::<Vec<_>>()
                    })
                })
                .collect();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        written += last.len();
        for (at, data) in &last {
            expected[*at..][..slot_len].copy_from_slice(data);
        }
        let mut found = vec![0; SHARED * UNIT];
        volume.read_at(0, &mut found).unwrap();
        let lost = (0..SHARED * UNIT / slot_len)
            .filter(|slot| found[slot * slot_len..][..slot_len] != expected[slot * slot_len..][..slot_len]);
        assert_eq!(lost.count(), 0, "slots lost in {} writes", last.len());
    });
    println!("{name}: {written} writes, none lost");
}

/// The tests of one face.
macro_rules! face {
    ($name:ident, $face:ty, $writes:literal) => {
        mod $name {
            use super::*;

            #[test]
            fn a_reader_beside_a_partial_write_waits_for_it() {
                super::a_reader_beside_a_partial_write_waits_for_it::<$face>();
            }

            #[test]
            fn a_long_read_beside_a_partial_write_waits_for_it() {
                super::a_long_read_beside_a_partial_write_waits_for_it::<$face>();
            }

            #[test]
            fn writers_of_parts_disturb_neither_one_another_nor_readers() {
                super::writers_of_parts_disturb_neither_one_another_nor_readers::<$face>();
            }

            #[test]
            fn no_write_of_a_part_is_lost_beside_others_in_its_data_unit() {
                no_write_of_a_part_is_lost::<$face>($writes);
            }
        }
    };
}

face!(nbd, Serving, "writes of parts by NBD");
face!(nbd_tls, Secured, "writes of parts by NBD over TLS");
face!(mounted_file, Mounted<false>, "writes of parts by FUSE");
face!(mounted_file_by_rings, Mounted<true>, "writes of parts by FUSE on rings");
face!(vhost_user, Virtual, "writes of parts by vhost-user");

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
