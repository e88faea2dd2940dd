//! Links and other files that are not what their contents say: Microsoft's MS-FSCC, section 2.1.2, what WSL stores, and the links
//! that ntfs-3g makes as Interix did.

use atrest_codec::{Reader, Record};
use atrest_filetree::Kind;

use super::units;
use crate::read_only::utf16;

pub(super) enum Reparse {
    /// A link, with its target as a path of this system.
    Target(Vec<u8>),
    /// A socket, pipe or device of WSL.
    Special(Kind),
    /// Another program keeps the contents; its tag.
    Other(u32),
}

/// What a reparse point says; `None` if it is damaged.
pub(super) fn parse(stored: &[u8]) -> Option<Reparse> {
    let header = Record::<8>::new(stored.first_chunk()?);
    let data = stored.get(8..)?.get(..usize::from(header.le16::<4>()))?;
    Some(match header.le32::<0>() {
        // A mount point, also called a junction, and a symbolic link, which has flags before its names.
        0xa000_0003 => Reparse::Target(names(data, 8)?),
        0xa000_000c => Reparse::Target(names(data, 12)?),
        0xa000_001d => Reparse::Target(data.get(4..)?.to_vec()),
        0x8000_0023 => Reparse::Special(Kind::Socket),
        0x8000_0024 => Reparse::Special(Kind::Pipe),
        0x8000_0025 => Reparse::Special(Kind::CharDevice),
        0x8000_0026 => Reparse::Special(Kind::BlockDevice),
        tag => Reparse::Other(tag),
    })
}

/// The name for people, or if there is none the one for the system, of those that begin at byte `at`.
fn names(data: &[u8], at: usize) -> Option<Vec<u8>> {
    let places = Record::<8>::new(data.first_chunk()?);
    let name = |start: u16, len: u16| {
        let bytes = Reader::at(data.get(at..)?, start.into()).ok()?.bytes(len.into()).ok()?;
        Some(utf16(units(bytes).map(|unit| if unit == u16::from(b'\\') { u16::from(b'/') } else { unit })))
    };
    let for_people = name(places.le16::<4>(), places.le16::<6>())?;
    if !for_people.is_empty() {
        return Some(for_people);
    }
    let for_system = name(places.le16::<0>(), places.le16::<2>())?;
    Some(for_system.strip_prefix(b"/??/").map_or_else(|| for_system.clone(), <[u8]>::to_vec))
}

/// The target of a link of Interix, by the contents of a file of the system.
pub(super) fn interix(data: &[u8]) -> Option<Vec<u8>> {
    data.strip_prefix(b"IntxLNK\x01").map(|target| utf16(units(target)))
}
