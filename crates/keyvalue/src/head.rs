//! What each entry begins with. FORMATS.md, "Key-value map".

use atrest_codec::{Le, decode, encode};

use crate::key::{ID_LEN, NameId};

/// Bytes before a value.
pub(crate) const HEAD_LEN: usize = FIELDS_LEN + TAG_LEN;
/// Bytes of them that the tag is over.
pub(crate) const FIELDS_LEN: usize = 4 + ID_LEN;
pub(crate) const TAG_LEN: usize = 16;

/// The version of the format, in the heads of blocks.
const VERSION: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name has a value.
    Value,
    /// A name has none any more.
    Removed,
    /// The first unit of a block that counts as it is.
    Begun,
    /// The first unit of a block that counts once all is there that was to be moved to it.
    Moving,
    /// All of that is there.
    Moved,
}

const KINDS: [(Kind, u8); 5] =
    [(Kind::Value, 1), (Kind::Removed, 2), (Kind::Begun, 3), (Kind::Moving, 4), (Kind::Moved, 5)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    /// The caller's byte beside a value; the version in the first unit of a block.
    pub(crate) attribute: u8,
    /// Bytes of a value. In the first unit of a block, units that count of the block begun before it.
    pub(crate) len: u16,
    pub(crate) id: NameId,
}

/// What the first unit of a block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beginning {
    /// Another one for each block that was ever begun.
    pub(crate) sequence: u32,
    /// The blocks that hold the map, this one among them.
    pub(crate) alive: u64,
    /// Units of the block begun before it that count.
    pub(crate) filled: u16,
    /// Whether entries were to be moved to it.
    pub(crate) moving: bool,
}

impl Head {
    pub(crate) fn fields(&self) -> [u8; FIELDS_LEN] {
        // cannot be missing: the table has all kinds.
        let kind = KINDS.iter().find(|(kind, _)| *kind == self.kind).map_or(0, |(_, byte)| *byte);
        encode(([kind, self.attribute], Le(self.len), self.id))
    }

    pub(crate) fn from_fields(fields: &[u8; FIELDS_LEN]) -> Option<Self> {
        let ([kind, attribute], Le(len), id): ([u8; 2], Le<u16>, NameId) = decode(fields);
        let (kind, _) = *KINDS.iter().find(|(_, byte)| *byte == kind)?;
        Some(Self { kind, attribute, len, id })
    }

    /// Bytes behind it.
    pub(crate) fn value_len(&self) -> usize {
        if self.kind == Kind::Value { self.len.into() } else { 0 }
    }

    pub(crate) fn beginning(&self) -> Option<Beginning> {
        let moving = match self.kind {
            Kind::Begun => false,
            Kind::Moving => true,
            _ => return None,
        };
        let (Le(sequence), Le(alive)): (Le<u32>, Le<u64>) = decode(&self.id);
        (self.attribute == VERSION).then_some(Beginning { sequence, alive, filled: self.len, moving })
    }
}

impl Beginning {
    pub(crate) fn head(&self) -> Head {
        let kind = if self.moving { Kind::Moving } else { Kind::Begun };
        Head { kind, attribute: VERSION, len: self.filled, id: encode((Le(self.sequence), Le(self.alive))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_lie_as_documented_and_read_back() {
        let head = Head { kind: Kind::Value, attribute: 7, len: 0x0201, id: *b"abcdefghijkl" };
        assert_eq!(&head.fields(), b"\x01\x07\x01\x02abcdefghijkl");
        assert_eq!(Head::from_fields(&head.fields()), Some(head));
        for kind in [0, 6, 0xff] {
            let mut fields = head.fields();
            fields[0] = kind;
            assert_eq!(Head::from_fields(&fields), None);
        }
        let beginning =
            Beginning { sequence: 0x0403_0201, alive: 0x1817_1615_1413_1211, filled: 0x2221, moving: true };
        let fields = beginning.head().fields();
        assert_eq!(fields, [4, 1, 0x21, 0x22, 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
        assert_eq!(Head::from_fields(&fields).and_then(|head| head.beginning()), Some(beginning));
        let later = Head { attribute: 2, ..beginning.head() };
        assert_eq!((later.beginning(), head.beginning()), (None, None));
    }
}
