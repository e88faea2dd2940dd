//! dm-integrity's superblock, journal and tags: opened for reading, and then for writing.

use std::sync::Arc;

use atrest_device::BlockDevice;
use atrest_engine::integrity::{Integrity, Mode, NewIntegrity, OpenOptions, create, read_superblock};
use atrest_volume::integrity::{Checksum, Hash};

use crate::Image;

/// Units that are read and written.
const UNITS: u64 = 32;

fn open(image: &Arc<Image>, mode: Mode, read_only: bool) -> Option<Integrity> {
    let superblock = read_superblock(&**image, 0).ok()?;
    let hash = Hash::new("crc32c".parse().expect("known"), None).expect("it has no key");
    let salt = superblock.flags.fixed_hmac.then_some(superblock.salt);
    let checksum = Checksum::new(hash, superblock.data_unit as usize, superblock.tag_len.into()).ok()?;
    let mut options = OpenOptions::default();
    (options.mode, options.read_only, options.unkeyed) = (mode, read_only, true);
    Integrity::open(image.clone(), 0, Box::new(checksum.with_salt(salt)), options).ok()
}

/// What an image has behind its superblock. Nothing is written by a reader, and what a writer replays a reader has seen before.
pub fn integrity(data: &[u8]) {
    let (flags, image) = Image::decode(data);
    let Some(reader) = open(&image, Mode::Journal, true) else { return };
    let unit = reader.data_unit();
    let units = (reader.size() / unit as u64).min(UNITS);
    let read = |open: &Integrity| {
        let unit_at = |number: u64| {
            let mut run = vec![1; unit];
            let outcome = open.read(number * unit as u64, &mut run);
            outcome.map(|()| run).map_err(|error| error.cause)
        };
        (0..units).map(unit_at).collect::<Vec<_>>()
    };
    let seen = read(&reader);
    assert_eq!(image.writes(), 0, "a reader has written");
    drop(reader);
    let mode = match flags & 3 {
        0 => Mode::Journal,
        1 => Mode::Direct,
        _ => Mode::Bitmap,
    };
    let Some(writer) = open(&image, mode, false) else {
        // A bitmap for all data may not fit.
        assert_eq!((mode, image.writes()), (Mode::Bitmap, 0), "what can be read can be written");
        return;
    };
    if mode != Mode::Bitmap {
        // A coarser bitmap than the one that was found marks more.
        assert_eq!(read(&writer), seen);
    }
    writer.write(0, &mut vec![7; unit]).expect("it lies on the device");
    drop(writer);
    let again = open(&image, mode, true).expect("what was written opens");
    assert_eq!(read(&again)[0], Ok(vec![7; unit]));
}

/// A device with a journal that is still to be replayed, whose bytes are the same each time.
pub fn integrity_seed() -> Vec<u8> {
    let image = Image::new(64 << 10, &[]);
    let mut new = NewIntegrity::default();
    // Long tags make short sections.
    (new.data_unit, new.tag_len, new.interleave, new.journal, new.legacy_hmac) =
        (512, 400, 16, Some(32), true);
    let superblock = create(image.clone(), 0, new).expect("there is room");
    let whole = |image: &Image| {
        let mut bytes = vec![0; image.size() as usize];
        image.read_at(0, &mut bytes).expect("it is in memory");
        bytes
    };
    let before = whole(&image);
    let writer = open(&image, Mode::Journal, false).expect("it was laid out");
    for number in 0..9 {
        writer.write(number * 512, &mut [number as u8; 512]).expect("there is room");
    }
    drop(writer);
    // The journal as it is now, and everything behind it as it was.
    let home = 4096 + 16 * 512 * superblock.journal_sections as usize;
    let mut bytes = whole(&image);
    bytes[home..].copy_from_slice(&before[home..]);
    Image::encode(0, &bytes)
}
