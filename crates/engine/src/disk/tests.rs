use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use atrest_cipher::{DataUnitIndex, Mapper, MapperOptions};
use atrest_device::Extent;
use atrest_secret::Locked;
use atrest_testkit::fault::Fault;
use atrest_testkit::{DiscardDevice, FaultDevice, Random, Scratch, TornDevice};
use atrest_volume::{Cascade, CryptFlags, Segment, VolumeFormat};

use super::bytes::Cut;
use super::*;
use crate::{Access, FileDevice};

const MEDIA: usize = 5 << 20;

fn mapper(cipher: &str, data_unit: usize, key: u8) -> Mapper {
    let key: Vec<u8> = (0..32).map(|i| key.wrapping_mul(37).wrapping_add(i)).collect();
    let options = MapperOptions { data_unit, ..MapperOptions::default() };
    Mapper::new(&cipher.parse().expect("a cipher"), &key, &options).expect("a mapper")
}

/// Two segments with different keys and data units, the second one first on the media.
fn layout() -> [(u64, u64, u64, Mapper); 2] {
    [
        (0, 3 << 20, 1_500_160, mapper("aes-xts-plain64", 512, 1)),
        (3 << 20, 1 << 20, 4096, mapper("aes-cbc-plain64", 4096, 2)),
    ]
}

fn volume() -> Volume {
    let segments = layout()
        .into_iter()
        .map(|(start, len, media_offset, mapper)| Segment {
            start,
            len,
            media_offset,
            protection: Locked::new(mapper).into(),
        })
        .collect();
    Volume::new(VolumeFormat::Luks2, segments)
}

/// What the media must hold for a plaintext, one data unit at a time.
fn reference(plaintext: &[u8], media: &mut [u8]) {
    for (start, len, media_offset, mapper) in layout() {
        let unit = mapper.data_unit();
        let plaintext = &plaintext[start as usize..(start + len) as usize];
        let media = &mut media[media_offset as usize..(media_offset + len) as usize];
        for (index, (from, to)) in plaintext.chunks(unit).zip(media.chunks_mut(unit)).enumerate() {
            to.copy_from_slice(from);
            mapper.encrypt(DataUnitIndex(index as u64), to).expect("a whole unit");
        }
    }
}

fn disk_on(media: Arc<dyn BlockDevice>, threads: usize) -> Disk {
    Disk::new(media, volume(), DiskOptions { threads, ..DiskOptions::default() }).expect("it fits")
}

fn read(disk: &dyn BlockDevice, offset: u64, len: usize) -> Vec<u8> {
    let mut buf = vec![0xee; len];
    disk.read_at(offset, &mut buf).expect("read");
    buf
}

#[test]
fn any_sequence_of_reads_and_writes_leaves_what_a_unit_by_unit_reference_leaves() {
    for threads in [1, 2, 3] {
        let mut random = Random::new(0x5eed + threads as u64);
        let base = random.bytes(MEDIA);
        let media = Arc::new(FaultDevice::new(base.clone()));
        let disk = disk_on(media.clone(), threads);
        let size = disk.size() as usize;
        assert_eq!(size, 4 << 20);
        let mut model = read(&disk, 0, size);
        let mut expected = base.clone();
        reference(&model, &mut expected);
        assert_eq!(expected, base, "reading is the inverse of the reference");
        for round in 0..150 {
            let longest = *random.pick(&[1, 600, 5000, 100_000, size]);
            let len = random.below(longest as u64 + 1) as usize;
            let mut offset = random.below((size - len) as u64 + 1);
            if random.below(3) == 0 {
                offset = offset / 4096 * 4096;
            }
            let range = offset as usize..offset as usize + len;
            match random.below(4) {
                0 => {
                    let data = random.bytes(len);
                    disk.write_at(offset, &data).expect("written");
                    model[range].copy_from_slice(&data);
                }
                1 => {
                    let mut data = random.bytes(len);
                    model[range].copy_from_slice(&data);
                    disk.write_consuming(offset, &mut data).expect("written");
                }
                2 if round % 5 == 0 => {
                    disk.write_zeroes(offset, len as u64).expect("zeroed");
                    model[range].fill(0);
                }
                _ => assert_eq!(read(&disk, offset, len), model[range], "{len} bytes at {offset}"),
            }
        }
        let mut buf = vec![0; 10_000];
        disk.read_at((3 << 20) - 4999, &mut buf).expect("read");
        assert_eq!(buf, model[(3 << 20) - 4999..][..10_000]);
        reference(&model, &mut expected);
        assert_eq!(media.image(), expected, "threads: {threads}; bytes outside the segments stay too");
    }
}

#[test]
fn a_hole_in_the_media_reads_as_the_decryption_of_zeros_and_is_never_reported() {
    let media = Arc::new(FaultDevice::zeroed(MEDIA));
    let disk = disk_on(media.clone(), 2);
    let mut zeros = vec![0; 512];
    mapper("aes-xts-plain64", 512, 1).decrypt(DataUnitIndex(3), &mut zeros).expect("a unit");
    assert_eq!(read(&disk, 3 * 512, 512), zeros);
    assert_ne!(zeros, vec![0; 512]);
    assert_eq!(disk.extent(0, disk.size()).expect("extent"), Extent { len: disk.size(), hole: false });
    disk.write_zeroes(0, disk.size()).expect("zeroed");
    let holds_zeros = media.image().chunks(512).skip(1_500_160 / 512).take(6144).any(|s| s == [0; 512]);
    assert!(!holds_zeros, "zeros are written encrypted");
    assert_eq!(read(&disk, 0, 4 << 20), vec![0; 4 << 20]);
}

#[test]
fn discards_reach_the_media_only_when_allowed_and_only_in_whole_units() {
    let media = || Arc::new(DiscardDevice::zeroed(MEDIA));

    let silent = media();
    disk_on(silent.clone(), 1).discard(0, 4 << 20).expect("ignored");
    assert_eq!(silent.discards(), []);
    assert_eq!(silent.media.counts(), (0, 0));

    let told = media();
    let options = DiskOptions { allow_discards: true, ..DiskOptions::default() };
    let disk = Disk::new(told.clone(), volume(), options).expect("it fits");
    disk.discard(100, (3 << 20) + 5000 - 100).expect("passed on");
    assert_eq!(told.discards(), [(1_500_160 + 512, (3 << 20) - 512), (4096, 4096)]);
    disk.discard(700, 300).expect("less than a unit");
    assert_eq!(told.discards().len(), 2);

    let flagged = media();
    let volume = volume().with_flags(CryptFlags { allow_discards: true, ..CryptFlags::default() });
    let disk = Disk::new(flagged.clone(), volume, DiskOptions::default()).expect("it fits");
    disk.discard(0, 512).expect("ignored");
    assert_eq!(flagged.discards(), [], "the flag in the header is nobody's permission");
}

#[test]
fn a_failed_flush_is_the_last_word() {
    let media = Arc::new(FaultDevice::zeroed(MEDIA));
    let disk = disk_on(media.clone(), 1);
    disk.write_at(0, &[1; 512]).expect("written");
    disk.flush().expect("flushed");
    media.fail(Fault::FailingFlush { number: 1 });
    disk.flush().expect_err("it fails");
    media.heal();
    assert_eq!(disk.flush().expect_err("sticky").cause, Cause::EarlierFlushFailed);
    assert_eq!(disk.write_at(0, &[1; 512]).expect_err("sticky").cause, Cause::EarlierFlushFailed);
    assert_eq!(disk.write_zeroes(0, 512).expect_err("sticky").cause, Cause::EarlierFlushFailed);
    assert_eq!(disk.discard(0, 512).expect_err("sticky").cause, Cause::EarlierFlushFailed);
    read(&disk, 0, 512);
}

#[test]
fn media_errors_are_reported_at_the_position_in_the_plaintext() {
    let media = Arc::new(FaultDevice::zeroed(MEDIA));
    let disk = disk_on(media.clone(), 2);
    media.fail(Fault::UnreadableRange { offset: 1_500_160 + 1_000_000, len: 1 });
    let error = disk.read_at(0, &mut vec![0; 4 << 20]).expect_err("unreadable");
    assert_eq!(
        (error.operation, error.offset, error.cause),
        (Operation::Read, 1_000_000, Cause::Os(libc::EIO))
    );
    read(&disk, 0, 999_936);
    media.heal();
    media.fail(Fault::ShrunkTo { size: 1_500_160 });
    assert_eq!(disk.read_at(512, &mut [0; 100]).expect_err("shrunk").cause, Cause::UnexpectedEnd);
    media.heal();
    media.fail(Fault::NoSpaceFrom { offset: 1_500_160 + 2_000_000 });
    let error = disk.write_at(1_999_872, &[0; 1024]).expect_err("full");
    assert_eq!((error.operation, error.cause), (Operation::Write, Cause::NoSpace));
    assert!((1_999_872..2_000_896).contains(&error.offset), "{error}");
    assert_eq!(
        disk.write_at(1_999_990, &[0; 20]).expect_err("full").cause,
        Cause::NoSpace,
        "read-modify-write too"
    );
}

#[test]
fn a_read_only_volume_or_media_refuses_every_change() {
    let media = Arc::new(FaultDevice::zeroed(MEDIA));
    let disks = [
        Disk::new(media.clone(), volume().with_read_only(true), DiskOptions::default()),
        Disk::new(media.clone(), volume(), DiskOptions { read_only: true, ..DiskOptions::default() }),
        {
            let media = Arc::new(FaultDevice::zeroed(MEDIA));
            media.fail(Fault::ReadOnly);
            Disk::new(media, volume(), DiskOptions::default())
        },
    ];
    for disk in disks {
        let disk = disk.expect("it fits");
        assert!(disk.is_read_only());
        assert_eq!(disk.write_at(0, &[0; 512]).expect_err("refused").cause, Cause::ReadOnly);
        assert_eq!(disk.write_zeroes(0, 512).expect_err("refused").cause, Cause::ReadOnly);
        assert_eq!(disk.discard(0, 512).expect_err("refused").cause, Cause::ReadOnly);
    }
    assert_eq!(media.counts(), (0, 0));
}

#[test]
fn units_that_are_encrypted_elsewhere_are_neither_read_nor_written_as_they_are() {
    let encrypted = Locked::new(mapper("aes-xts-plain64", 4096, 1)).into();
    let elsewhere = Protection::Elsewhere { data_unit: 4096 };
    let segments = [(0, encrypted), (8192, elsewhere)].map(|(start, protection)| Segment {
        start,
        len: 8192,
        media_offset: start,
        protection,
    });
    let volume = Volume::new(VolumeFormat::Luks2, segments.into());
    let media = Arc::new(FaultDevice::zeroed(1 << 20));
    let disk = Disk::new(media.clone(), volume, DiskOptions::default()).expect("it fits");
    for (offset, len) in [(8192, 4096), (8200, 16), (4096, 8192)] {
        let mut bytes = vec![0; len];
        assert_eq!(disk.read_at(offset, &mut bytes).expect_err("no key here").cause, Cause::Unsupported);
        assert_eq!(disk.write_at(offset, &bytes).expect_err("no key here").cause, Cause::Unsupported);
    }
    let mut stored = [1; 8192];
    media.read_at(8192, &mut stored).expect("it is there");
    assert_eq!(stored, [0; 8192]);
}

#[test]
fn segments_that_fit_neither_the_media_nor_one_another_are_refused() {
    let media = |size| Arc::new(FaultDevice::zeroed(size)) as Arc<dyn BlockDevice>;
    let segment = |start, len, media_offset| Segment {
        start,
        len,
        media_offset,
        protection: Locked::new(mapper("aes-xts-plain64", 4096, 1)).into(),
    };
    let new = |segments| {
        let volume = Volume::new(VolumeFormat::Plain, segments);
        Disk::new(media(1 << 20), volume, DiskOptions::default()).expect_err("refused")
    };
    assert_eq!(
        new(vec![segment(0, 1 << 20, 4096)]),
        DiskError::MediaTooSmall { needs: 1_052_672, has: 1 << 20 }
    );
    assert_eq!(new(vec![segment(0, 4608, 0)]), DiskError::PartialDataUnit { len: 4608, data_unit: 4096 });
    assert_eq!(
        new(vec![segment(0, 4096, 0), segment(8192, 4096, 8192)]),
        DiskError::Gap { expected: 4096, found: 8192 }
    );
    let len = u64::MAX / 4096 * 4096;
    assert_eq!(new(vec![segment(0, len, 8192)]), DiskError::Overflow { media_offset: 8192, len });
}

#[test]
fn ranges_outside_the_disk_are_refused_before_anything_is_read_or_written() {
    let media = Arc::new(FaultDevice::zeroed(MEDIA));
    let disk = disk_on(media.clone(), 1);
    let size = disk.size();
    let outside = Cause::OutOfBounds { size };
    for (offset, len) in [(size, 1), (size - 1, 2), (u64::MAX, 2)] {
        assert_eq!(disk.read_at(offset, &mut vec![0; len]).expect_err("outside").cause, outside);
        assert_eq!(disk.write_at(offset, &vec![0; len]).expect_err("outside").cause, outside);
        assert_eq!(disk.write_zeroes(offset, len as u64).expect_err("outside").cause, outside);
        assert_eq!(disk.discard(offset, len as u64).expect_err("outside").cause, outside);
    }
    assert_eq!(media.counts(), (0, 0));
    disk.read_at(size, &mut []).expect("nothing at the end is inside");
}

#[test]
fn the_identity_disk_shows_the_media_itself() {
    let mut random = Random::new(7);
    let bytes = random.bytes(3 << 20);
    let media = Arc::new(FaultDevice::new(bytes[..(3 << 20) - 100].to_vec()));
    let disk = Disk::identity(media.clone(), DiskOptions::default()).expect("it fits");
    assert_eq!(disk.size(), (3 << 20) - 512, "whole sectors");
    assert_eq!(read(&disk, 1, 2 << 20), bytes[1..(2 << 20) + 1]);
    disk.write_at(700, &[9; 3000]).expect("written");
    assert_eq!(media.image()[700..3700], [9; 3000]);
    assert_eq!(media.image()[3700..], bytes[3700..(3 << 20) - 100]);
}

#[test]
fn the_logical_block_is_the_data_unit() {
    let disk = disk_on(Arc::new(FaultDevice::zeroed(MEDIA)), 1);
    assert_eq!(disk.geometry().logical_block, 4096);
    assert_eq!(disk.data_unit(), 4096);
}

#[test]
fn an_encrypted_disk_can_be_the_media_of_another() {
    let outer = Arc::new(disk_on(Arc::new(FaultDevice::zeroed(MEDIA)), 2));
    let segment = Segment {
        start: 0,
        len: 3 << 20,
        media_offset: 512,
        protection: Locked::new(mapper("aes-xts-plain64", 512, 9)).into(),
    };
    let volume = Volume::new(VolumeFormat::Plain, vec![segment]);
    let disk = Disk::new(outer, volume, DiskOptions::default()).expect("it fits");
    let data = Random::new(3).bytes(3 << 20);
    disk.write_at(0, &data).expect("written");
    assert_eq!(read(&disk, 0, 3 << 20), data);
}

#[test]
fn a_cascade_is_a_disk_on_a_disk_on_a_disk() {
    const LEN: u64 = 3 << 20;
    let ciphers = ["aes-xts-plain64", "xchacha12,aes-adiantum-plain64", "aes-cbc-plain64"];
    let mappers = || ciphers.iter().zip(1..).map(|(cipher, key)| Locked::new(mapper(cipher, 512, key)));
    let cascade = Cascade::new(mappers().collect()).expect("units of one size");
    let segment =
        Segment { start: 0, len: LEN, media_offset: 4096, protection: Protection::Cascade(cascade) };
    let volume = Volume::new(VolumeFormat::Plain, vec![segment]);
    let media = Arc::new(FaultDevice::zeroed(MEDIA));
    let disk = Disk::new(media.clone(), volume, DiskOptions::default()).expect("it fits");
    let stacked_media = Arc::new(FaultDevice::zeroed(MEDIA));
    let mut stacked: Arc<dyn BlockDevice> = stacked_media.clone();
    let mut offset = 4096;
    for mapper in mappers().collect::<Vec<_>>().into_iter().rev() {
        let layer = Disk::of_mapper(stacked, mapper, offset, LEN, DiskOptions::default()).expect("it fits");
        (stacked, offset) = (Arc::new(layer), 0);
    }
    let mut random = Random::new(7);
    for (at, len) in [(0, LEN as usize), (1000, 3), (511, 4098), (77_777, 1 << 20)] {
        let data = random.bytes(len);
        disk.write_at(at, &data).expect("written");
        stacked.write_at(at, &data).expect("written");
        assert_eq!(read(&disk, at, len), data);
    }
    disk.write_zeroes(5000, 9000).expect("zeroed");
    stacked.write_zeroes(5000, 9000).expect("zeroed");
    assert!(media.image()[4096..][..LEN as usize] == stacked_media.image()[4096..][..LEN as usize]);
    assert_eq!(read(&disk, 0, LEN as usize), read(&*stacked, 0, LEN as usize));
}

/// A mapped file that counts the runs that it lends, by whether they are short.
struct Lending {
    file: FileDevice,
    lent: [AtomicUsize; 2],
}

impl BlockDevice for Lending {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn geometry(&self) -> Geometry {
        self.file.geometry()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.file.write_at(offset, data)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.file.flush()
    }

    fn lend(&self, offset: u64, len: usize, take: &mut dyn FnMut(&[u8])) -> bool {
        self.lent[usize::from(len >= LENT_MIN)].fetch_add(1, Ordering::Relaxed);
        self.file.lend(offset, len, take)
    }
}

/// A file with the volume's ciphertext, mapped, and the plaintext.
fn mapped(scratch: &Scratch) -> (FileDevice, Vec<u8>, std::path::PathBuf) {
    let plaintext = Random::new(11).bytes(4 << 20);
    let mut media = vec![0; MEDIA];
    reference(&plaintext, &mut media);
    let path = scratch.file("media", &media);
    let mut file = FileDevice::open(&path, Access::ReadWriteExclusive).expect("a file");
    file.map().expect("a mapping");
    (file, plaintext, path)
}

#[test]
fn a_mapped_file_reads_as_one_that_is_not() {
    let scratch = Scratch::new();
    let (file, mut plaintext, _) = mapped(&scratch);
    let lending = Arc::new(Lending { file, lent: Default::default() });
    let disk = disk_on(lending.clone(), 2);
    let mut random = Random::new(12);
    for step in 0..200 {
        let len = random.below(1 << 20) as usize + 1;
        let offset = random.below((plaintext.len() - len) as u64 + 1);
        if step % 4 == 0 {
            let data = random.bytes(len.min(70_000));
            disk.write_at(offset, &data).expect("written");
            plaintext[offset as usize..][..data.len()].copy_from_slice(&data);
        }
        assert!(read(&disk, offset, len) == plaintext[offset as usize..][..len], "{offset} {len}");
    }
    let [short, long] = [0, 1].map(|which: usize| lending.lent[which].load(Ordering::Relaxed));
    assert!(long > 100, "long runs come from the mapping, {long} did");
    assert_eq!(short, 0, "short ones are read");
}

#[test]
fn a_mapped_file_that_was_cut_off_is_an_error_where_it_is_cut() {
    let scratch = Scratch::new();
    let (file, plaintext, path) = mapped(&scratch);
    let disk = disk_on(Arc::new(file), 1);
    // The second segment lies at the beginning.
    std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .expect("a file")
        .set_len(1_500_160 + 100_000)
        .expect("cut");
    let mut buf = vec![0xee; 1 << 20];
    let error = disk.read_at(0, &mut buf).expect_err("cut off");
    assert_eq!(error.cause, Cause::UnexpectedEnd);
    assert!(error.offset <= 100_000, "{error:?}");
    for (offset, len) in [(0, 65_536), (3 << 20, 1 << 20)] {
        assert!(read(&disk, offset, len) == plaintext[offset as usize..][..len], "what is there is read");
    }
}

/// Bytes of each data unit are changed while all units are decrypted where they lie in memory.
#[test]
fn a_reader_of_a_mapped_file_never_sees_a_unit_that_is_half_written() {
    const UNITS: usize = 16;
    const LEN: usize = UNITS * 4096;
    for cipher in TEARING {
        let scratch = Scratch::new();
        let path = scratch.file("media", vec![0; LEN]);
        let mut file = FileDevice::open(path, Access::ReadWriteExclusive).expect("a file");
        file.map().expect("a mapping");
        let mapper = Locked::new(mapper(cipher, 4096, 5));
        let disk = Disk::of_mapper(Arc::new(file), mapper, 0, LEN as u64, DiskOptions::default());
        let disk = disk.expect("it fits");
        disk.write_at(0, &[1; LEN]).expect("written");
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut random = Random::new(6);
                while !ended.load(Ordering::Relaxed) {
                    let unit = random.below(UNITS as u64);
                    disk.write_at(unit * 4096 + 100, &[random.below(256) as u8; 3]).expect("written");
                }
            });
            for _ in 0..500 {
                let mut seen = read(&disk, 0, LEN);
                seen.chunks_mut(4096).for_each(|unit| unit[100..103].fill(1));
                let wrong = seen.iter().position(|byte| *byte != 1);
                if wrong.is_some() {
                    ended.store(true, Ordering::Relaxed);
                }
                assert_eq!(wrong, None, "{cipher}");
            }
            ended.store(true, Ordering::Relaxed);
            writer.join().expect("it writes");
        });
    }
}

/// Ciphers whose torn data units decrypt to garbage: in some bytes, and in all.
const TEARING: [&str; 2] = ["aes-cbc-plain64", "xchacha12,aes-adiantum-plain64"];

/// A disk with data units of 4 KiB on media that show their writes half done.
fn torn_disk(cipher: &str, units: usize, patience: Duration) -> (Arc<TornDevice>, Disk) {
    let len = units * 4096;
    let media = Arc::new(TornDevice::new(len, 4096, patience));
    let segment = Segment {
        start: 0,
        len: len as u64,
        media_offset: 0,
        protection: Locked::new(mapper(cipher, 4096, 5)).into(),
    };
    let volume = Volume::new(VolumeFormat::Plain, vec![segment]);
    let disk = Disk::new(media.clone(), volume, DiskOptions::default()).expect("it fits");
    (media, disk)
}

#[test]
fn a_reader_beside_a_partial_write_waits_for_it() {
    type Change = fn(&Disk);
    let changes: [(Change, usize, usize); 4] = [
        (|disk| disk.write_at(4096 + 100, &[9; 10]).expect("written"), 4196, 4206),
        (|disk| disk.write_consuming(4096 + 100, &mut [9; 10]).expect("written"), 4196, 4206),
        (|disk| disk.write_at(4000, &[9; 5000]).expect("written"), 4000, 9000),
        (|disk| disk.write_zeroes(4096 + 100, 10).expect("zeroed"), 4196, 4206),
    ];
    for cipher in TEARING {
        for (change, from, to) in changes {
            let (media, disk) = torn_disk(cipher, 4, Duration::from_millis(100));
            let initial = Random::new(12).bytes(4 * 4096);
            disk.write_at(0, &initial).expect("written");
            thread::scope(|scope| {
                scope.spawn(|| change(&disk));
                media.wait_for_half_a_write();
                let (before, behind) = (read(&disk, 0, from), read(&disk, to as u64, 4 * 4096 - to));
                assert_eq!(before, initial[..from], "{cipher}: bytes before {from}..{to}");
                assert_eq!(behind, initial[to..], "{cipher}: bytes behind {from}..{to}");
            });
        }
    }
}

#[test]
fn what_is_at_hand_is_read_without_waiting_and_nothing_else_is() {
    let (media, disk) = torn_disk("aes-xts-plain64", 8, Duration::from_millis(100));
    let initial = Random::new(13).bytes(8 * 4096);
    disk.write_at(0, &initial).expect("written");
    let at_hand = |offset: u64, len: usize| {
        let mut buf = vec![0; len];
        disk.read_if_cached(offset, &mut buf).expect("no error").then_some(buf)
    };
    for (offset, len) in [(0, 4096), (4096, 2 * 4096), (0, 8 * 4096), (4096, 0)] {
        let expected = &initial[offset..offset + len];
        assert_eq!(at_hand(offset as u64, len).as_deref(), Some(expected), "{len} bytes at {offset}");
    }
    // A part of a data unit is read by the other way.
    for (offset, len) in [(1, 4096), (0, 4095), (4096, 5000)] {
        assert_eq!(at_hand(offset, len), None, "{len} bytes at {offset}");
    }
    assert_eq!(
        disk.read_if_cached(8 * 4096, &mut [0; 1]).expect_err("behind the end").cause,
        Cause::OutOfBounds { size: 8 * 4096 }
    );
    // While somebody changes a part of a unit, a read of it would have to wait.
    thread::scope(|scope| {
        scope.spawn(|| disk.write_at(4096 + 100, &[9; 10]).expect("written"));
        media.wait_for_half_a_write();
        assert_eq!(at_hand(4096, 4096), None);
    });
    assert_eq!(at_hand(4096, 4096).expect("nobody writes")[100..110], [9; 10]);
    // Media that can't tell; and a range of two segments.
    let slow = disk_on(Arc::new(FaultDevice::zeroed(MEDIA)), 1);
    assert_eq!(slow.read_if_cached(0, &mut [0; 4096]), Ok(false));
    let two = disk_on(Arc::new(TornDevice::new(MEDIA, 512, Duration::ZERO)), 1);
    assert_eq!(two.read_if_cached((3 << 20) - 4096, &mut [0; 4096]), Ok(true));
    assert_eq!(two.read_if_cached((3 << 20) - 4096, &mut [0; 8192]), Ok(false));
}

#[test]
fn ranges_are_cut_into_one_run_or_into_two_runs_and_whole_units() {
    let cut = |skip, len| {
        let Cut { head, whole, tail } = Cut::new(4096, skip, len);
        (head, whole, tail)
    };
    assert_eq!(cut(0, 0), (0, 0, 0));
    assert_eq!(cut(0, 4096), (0, 4096, 0));
    assert_eq!(cut(0, 1 << 20), (0, 1 << 20, 0));
    assert_eq!(cut(1, 1), (1, 0, 0));
    assert_eq!(cut(4095, 2), (2, 0, 0));
    assert_eq!(cut(0, 65_535), (65_535, 0, 0));
    assert_eq!(cut(1, 65_535), (65_535, 0, 0), "64 KiB less a byte");
    assert_eq!(cut(1, 65_536), (4095, 15 * 4096, 1));
    assert_eq!(cut(0, 65_537), (0, 65_536, 1));
    let long = Cut::new(1 << 20, 7, 1 << 20);
    assert_eq!((long.head, long.whole, long.tail), ((1 << 20) - 7, 0, 7), "no run is longer than a unit");
}

#[test]
fn every_start_and_length_around_the_edges_does_what_a_byte_array_does() {
    for unit in [512, 4096] {
        let media = Arc::new(FaultDevice::zeroed(200_704));
        let mapper = Locked::new(mapper("aes-xts-plain64", unit, 3));
        let segment = Segment { start: 0, len: 200_704, media_offset: 0, protection: mapper.into() };
        let volume = Volume::new(VolumeFormat::Plain, vec![segment]);
        let disk = Disk::new(media, volume, DiskOptions::default()).expect("it fits");
        let size = disk.size();
        let mut model = Random::new(1).bytes(size as usize);
        disk.write_at(0, &model).expect("written");
        let points = [0, 1, 511, 512, 513, 4095, 4096, 4097, 65_535, 65_536, 65_537, size - 4097, size - 1];
        for (round, &start) in points.iter().enumerate() {
            for len in [0, 1, 2, 511, 512, 513, 4096, 8191, 65_535, 65_536, 65_537, 131_072] {
                let len = len.min(size - start);
                let range = start as usize..(start + len) as usize;
                let mut data: Vec<u8> = (0..len).map(|i| (i * 7 + start) as u8).collect();
                match (round + len as usize) % 3 {
                    0 => {
                        disk.write_zeroes(start, len).expect("zeroed");
                        data.fill(0);
                    }
                    1 => disk.write_at(start, &data).expect("written"),
                    _ => disk.write_consuming(start, &mut data.clone()).expect("written"),
                }
                model[range.clone()].copy_from_slice(&data);
                assert_eq!(read(&disk, start, len as usize), model[range], "{len} bytes at {start}");
            }
        }
        assert!(read(&disk, 0, size as usize) == model, "units of {unit} bytes");
    }
}

#[test]
fn writes_to_different_parts_of_a_unit_never_disturb_one_another_or_a_reader() {
    for cipher in TEARING {
        neighbours_stay(cipher);
    }
}

fn neighbours_stay(cipher: &str) {
    const UNIT: usize = 4096;
    const UNITS: usize = 3;
    const SLOT: usize = 128;
    const WRITERS: usize = 3;
    let (_media, disk) = torn_disk(cipher, UNITS + 1, Duration::from_micros(50));
    let disk = &disk;
    let initial = Random::new(11).bytes(UNIT * (UNITS + 1));
    disk.write_at(0, &initial).expect("written");
    let slots = UNIT * UNITS / SLOT;
    thread::scope(|scope| {
        // Each writer owns every fourth slot and checks that it finds there what it wrote last.
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let mut random = Random::new(writer as u64);
                for _ in 0..500 {
                    let slot = random.below(slots as u64 / 4) * 4 + writer as u64;
                    let data = random.bytes(SLOT);
                    disk.write_at(slot * SLOT as u64, &data).expect("written");
                    assert_eq!(read(disk, slot * SLOT as u64, SLOT), data, "slot {slot} of writer {writer}");
                }
            });
        }
        // The slots that nobody writes never change for a reader of whole units.
        scope.spawn(|| {
            for _ in 0..500 {
                let seen = read(disk, 0, UNIT * UNITS);
                for slot in (WRITERS..slots).step_by(4) {
                    let range = slot * SLOT..(slot + 1) * SLOT;
                    assert_eq!(seen[range.clone()], initial[range], "slot {slot}");
                }
            }
        });
        // A writer of whole units, next to a writer of a part of the same one that writes the same bytes.
        scope.spawn(|| {
            let mut random = Random::new(99);
            let last = (UNIT * UNITS) as u64;
            for _ in 0..300 {
                let data = random.bytes(UNIT);
                thread::scope(|pair| {
                    pair.spawn(|| disk.write_at(last, &data).expect("written"));
                    pair.spawn(|| disk.write_at(last + 10, &data[10..20]).expect("written"));
                });
                assert_eq!(read(disk, last, UNIT), data, "an acknowledged write came back undone");
            }
        });
    });
}
