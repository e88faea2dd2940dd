//! The contents of a directory, as READDIR and READDIRPLUS want them.

use core::time::Duration;

use atrest_codec::{Writer, encode};
use atrest_filetree::Kind;

use super::reply::entry_record;
use super::{FileAttributes, Native, kind_bits};

/// The buffer of one reply, filled entry by entry.
pub struct Listing<'a> {
    space: Writer<'a>,
    left: usize,
    len: usize,
    /// With attributes, and how long they may be believed.
    plus: Option<Duration>,
}

/// Bytes of a record in front of its name, and of an entry before it.
const DIRENT: usize = 24;
const ENTRY: usize = 128;

impl<'a> Listing<'a> {
    /// Of names alone, or with attributes.
    pub fn new(buffer: &'a mut [u8], plus: Option<Duration>) -> Self {
        let left = buffer.len();
        Self { space: Writer::new(buffer), left, len: 0, plus }
    }

    /// Whether entries may have attributes, each of them a lookup of its own.
    pub fn takes_attributes(&self) -> bool {
        self.plus.is_some()
    }

    /// How many more entries there can be room for, whatever their names are. At least one, so that whoever looks for the next finds
    /// out whether there is one.
    pub fn most(&self) -> usize {
        (self.left / self.record_len(b"x")).max(1)
    }

    /// Whether an entry of this name still has room. To be asked before a lookup that the kernel would not learn of.
    pub fn has_room(&self, name: &[u8]) -> bool {
        self.record_len(name) <= self.left
    }

    /// Adds a name; false if it has no room. `next` says where a later request goes on, and is no 0. `number` is what `readdir`
    /// shows.
    pub fn add(&mut self, number: u64, next: u64, kind: Option<Kind>, name: &[u8]) -> bool {
        // Of node 0 the kernel learns nothing.
        self.put(&[0; ENTRY], number, next, kind, name)
    }

    /// Adds a name with what it stands for, which counts as a lookup; false if it has no room, and then it does not.
    pub fn add_found(&mut self, found: &FileAttributes, next: u64, name: &[u8]) -> bool {
        let entry = self.plus.map_or([0; ENTRY], |lifetime| entry_record(found, lifetime));
        self.put(&entry, found.node, next, Some(found.kind), name)
    }

    /// Bytes that it has.
    pub fn len(&self) -> usize {
        self.len
    }

    fn record_len(&self, name: &[u8]) -> usize {
        let entry = if self.plus.is_some() { ENTRY } else { 0 };
        entry + (DIRENT + name.len()).next_multiple_of(8)
    }

    fn put(&mut self, entry: &[u8; ENTRY], number: u64, next: u64, kind: Option<Kind>, name: &[u8]) -> bool {
        let record = self.record_len(name);
        let Ok(name_len) = u32::try_from(name.len()) else { return false };
        if record > self.left {
            return false;
        }
        // As d_type has it.
        let kind = kind.map_or(u32::from(libc::DT_UNKNOWN), |kind| kind_bits(kind) >> 12);
        let head: [u8; DIRENT] = encode((Native(number), Native(next), Native(name_len), Native(kind)));
        let padding = (DIRENT + name.len()).next_multiple_of(8) - (DIRENT + name.len());
        let entry: &[u8] = if self.plus.is_some() { entry } else { &[] };
        let written = self
            .space
            .bytes(entry)
            .and_then(|()| self.space.bytes(&head))
            .and_then(|()| self.space.bytes(name))
            .and_then(|()| self.space.zeros(padding));
        self.left -= record;
        self.len += record;
        written.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_added_until_one_has_no_room() {
        let mut buffer = [0xff; 24 + 8 + 24 + 16];
        let mut listing = Listing::new(&mut buffer, None);
        assert!(listing.add(7, 1, Some(Kind::Directory), b"12345678"));
        assert_eq!(listing.most(), 1, "40 bytes, and an entry has 32");
        assert!(listing.has_room(b"123456789") && !listing.has_room(b"12345678901234567"));
        assert!(!listing.add(8, 2, None, b"12345678901234567"));
        assert!(listing.add(8, 2, None, b"123456789"));
        assert_eq!(listing.len(), 24 + 8 + 24 + 16);
        assert!(!listing.has_room(b"") && !listing.add(9, 3, None, b""));
        let numbers = |at: usize| u64::from_ne_bytes(buffer[at..at + 8].try_into().unwrap());
        assert_eq!([numbers(0), numbers(8), numbers(32), numbers(40)], [7, 1, 8, 2]);
        assert_eq!(buffer[16..32], *b"\x08\0\0\0\x04\0\0\x0012345678".as_slice());
        assert_eq!(buffer[48..72], *b"\x09\0\0\0\0\0\0\x00123456789\0\0\0\0\0\0\0".as_slice());
    }
}
