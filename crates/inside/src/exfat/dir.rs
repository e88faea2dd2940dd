//! Directories: sections 6 and 7 of the specification.

use atrest_codec::Record;
use atrest_filetree::{Kind, Timestamp, TreeError, is_valid_name};

use super::Opened;
use super::boot::Volume;
use crate::fat::timestamp;
use crate::fault::Damage;
use crate::read_only::utf16;

/// Bytes in an entry.
const LEN: usize = 32;
/// Bytes read at once.
const PIECE: usize = 64 << 10;
/// The specification allows no larger directory.
const MAX_DIRECTORY: u64 = 256 << 20;

/// Kinds of entries. Bit 7 says that one is in use, bit 6 that it goes on from another.
mod kind {
    pub(super) const BITMAP: u8 = 0x81;
    pub(super) const LABEL: u8 = 0x83;
    pub(super) const FILE: u8 = 0x85;
    pub(super) const STREAM: u8 = 0xc0;
    pub(super) const NAME: u8 = 0xc1;
}

/// What the entries of a file say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    attributes: u16,
    /// First cluster.
    pub(super) first: u32,
    /// Bytes in it.
    pub(super) len: u64,
    /// Bytes that were written.
    pub(super) valid: u64,
    /// Its clusters adjoin.
    pub(super) adjoin: bool,
    pub(super) created: Timestamp,
    pub(super) modified: Timestamp,
    pub(super) accessed: Timestamp,
}

impl Entry {
    /// The root directory, which no entry describes.
    pub(super) fn root(first: u32, len: u64) -> Self {
        Self { attributes: 0x10, first, len, valid: len, adjoin: false, ..Self::nothing() }
    }

    fn nothing() -> Self {
        let (created, modified, accessed) = Default::default();
        Self { attributes: 0, first: 0, len: 0, valid: 0, adjoin: false, created, modified, accessed }
    }

    pub(super) fn kind(&self) -> Kind {
        if self.attributes & 0x10 != 0 { Kind::Directory } else { Kind::File }
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.attributes & 1 != 0
    }
}

/// What is in a directory.
pub(super) enum Listed {
    File(Vec<u8>, Entry),
    Label(Vec<u8>),
    Bitmap(Entry),
}

/// Hands over all that is in a directory.
pub(super) fn each(
    volume: &Volume,
    directory: &Opened,
    with: &mut dyn FnMut(Listed) -> Result<(), TreeError>,
) -> Result<(), TreeError> {
    let inode = u64::from(directory.entry.first);
    let len = directory.entry.len;
    if len > MAX_DIRECTORY {
        return Err(Damage::Directory { inode, at: MAX_DIRECTORY }.into());
    }
    let (mut at, mut set, mut expected) = (0_u64, Vec::<[u8; LEN]>::new(), 0_usize);
    let mut piece = Vec::new();
    while at < len {
        // cannot be less: the loop's condition.
        piece.resize(usize::try_from(len.saturating_sub(at)).unwrap_or(PIECE).min(PIECE), 0);
        directory.read(volume, at, &mut piece)?;
        for (entry, place) in piece.as_chunks::<LEN>().0.iter().zip((at..).step_by(LEN)) {
            let bad = || TreeError::from(Damage::Directory { inode, at: place });
            let [kind, count, ..] = *entry;
            if expected != 0 {
                // In use, and going on from the one before.
                if kind & 0xc0 != 0xc0 {
                    return Err(bad());
                }
                set.push(*entry);
                if set.len() == expected {
                    let (name, file) = file(&set).ok_or_else(bad)?;
                    if !is_valid_name(&name) {
                        return Err(Damage::Name { inode }.into());
                    }
                    with(Listed::File(name, file))?;
                    (expected, set) = (0, Vec::new());
                }
                continue;
            }
            match kind {
                // Nothing was ever behind it.
                0 => return Ok(()),
                kind::FILE if !(2..=18).contains(&count) => return Err(bad()),
                kind::FILE => {
                    set.push(*entry);
                    // cannot overflow: 19 at most.
                    expected = usize::from(count).saturating_add(1);
                }
                kind::LABEL => with(Listed::Label(label(entry).ok_or_else(bad)?))?,
                kind::BITMAP => {
                    let record = Record::new(entry);
                    let (first, len) = (record.le32::<20>(), record.le64::<24>());
                    with(Listed::Bitmap(Entry { first, len, valid: len, ..Entry::nothing() }))?;
                }
                // Not in use, or nothing that a reader needs.
                _ => {}
            }
        }
        // cannot overflow: it stays within the directory.
        at = at.saturating_add(piece.len() as u64);
    }
    match expected {
        0 => Ok(()),
        _ => Err(Damage::Directory { inode, at }.into()),
    }
}

fn label(entry: &[u8; LEN]) -> Option<Vec<u8>> {
    let [_, len, ..] = *entry;
    let units = entry.get(2..24)?.get(..usize::from(len).checked_mul(2)?)?;
    Some(utf16(units.as_chunks().0.iter().map(|unit| u16::from_le_bytes(*unit))))
}

/// The name of a file and what is said of it, by all entries of its set.
fn file(set: &[[u8; LEN]]) -> Option<(Vec<u8>, Entry)> {
    let (first, rest) = set.split_first()?;
    let (stream, names) = rest.split_first()?;
    let sum = set.as_flattened().iter().enumerate().fold(0_u16, |sum, (at, byte)| match at {
        2 | 3 => sum,
        _ => sum.rotate_right(1).wrapping_add((*byte).into()),
    });
    let (file, stored) = (Record::new(first), Record::new(stream));
    let [kind, flags, _, name_len] = *stored.array::<0, 4>();
    (file.le16::<2>() == sum && kind == kind::STREAM && name_len != 0).then_some(())?;
    let parts = usize::from(name_len).div_ceil(15);
    let mut units = Vec::new();
    for part in names.get(..parts)? {
        (part.first() == Some(&kind::NAME)).then_some(())?;
        units.extend(part.get(2..)?.as_chunks().0.iter().map(|unit| u16::from_le_bytes(*unit)));
    }
    let (len, valid) = (stored.le64::<24>(), stored.le64::<8>());
    (valid <= len).then_some(())?;
    let [created, modified] = *file.array::<20, 2>();
    let [created_zone, modified_zone, accessed_zone] = *file.array::<22, 3>();
    let entry = Entry {
        attributes: file.le16::<4>(),
        first: stored.le32::<20>(),
        len,
        valid,
        adjoin: flags & 2 != 0,
        created: time(file.le32::<8>(), created, created_zone),
        modified: time(file.le32::<12>(), modified, modified_zone),
        accessed: time(file.le32::<16>(), 0, accessed_zone),
    };
    Some((utf16(units.get(..usize::from(name_len))?.iter().copied()), entry))
}

/// A time: date and time as FAT has them, hundredths of a second, and if bit 7 of the last byte is set, quarters of an hour east of UTC.
fn time(stored: u32, hundredths: u8, zone: u8) -> Timestamp {
    // cannot miss: 16 bits each.
    let (date, clock) =
        (u16::try_from(stored >> 16).unwrap_or(0), u16::try_from(stored & 0xffff).unwrap_or(0));
    let local = timestamp(date, clock, hundredths);
    let quarters = match zone & 0x80 {
        0 => 0,
        // Seven bits with a sign.
        _ => i64::from((zone << 1).cast_signed() >> 1),
    };
    // cannot overflow: years have four digits.
    Timestamp { seconds: local.seconds.saturating_sub(quarters.saturating_mul(900)), ..local }
}
