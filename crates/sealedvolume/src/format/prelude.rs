//! What stands in clear before each object, and again behind it. The object's key is made of it, so that all of it is bound.

use atrest_codec::{Le, decode, encode};

use super::{
    Aead, FormatError, FormatId, MOST_LEVEL, MOST_NODE, MOST_NUMBER, MOST_ROOT, MOST_SLOTS, MOST_SUMMARY,
    VERSION,
};

/// Bytes in a prelude.
pub const PRELUDE_LEN: usize = 128;
const MAGIC: [u8; 8] = *b"\x93atsvol\n";

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Written blocks with a summary: data segment and commit in one.
    Log,
    /// A part of the map from addresses to places in log objects.
    Map,
    /// A state of the volume: the root of the map, and the place in the log.
    Checkpoint,
    /// The keyslots: a LUKS2 header as it is, without a prelude.
    Header,
}

/// The identity of an object: two objects that differ have different preludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prelude {
    /// What it is.
    pub kind: Kind,
    /// How it is sealed.
    pub aead: Aead,
    /// Blocks in a log object, the level of a map object, 0 in others.
    pub slots: u32,
    /// Bytes of the summary, the node or the root, without tags.
    pub summary_len: u32,
    /// Number of a log object, number of the log object before a checkpoint, or which node of its level a map object is.
    pub number: u64,
    /// The volume.
    pub format: FormatId,
    /// Drawn at each opening for writing.
    pub session: [u8; 32],
    /// Drawn for each object.
    pub salt: [u8; 16],
    /// Which of the keys that the volume has had, counted from 0.
    pub epoch: u32,
}

impl Prelude {
    /// The part that the key is made of.
    pub fn identity(&self) -> [u8; 96] {
        let kind = match self.kind {
            Kind::Log => 1,
            Kind::Map => 2,
            Kind::Checkpoint => 3,
            // Never sealed, and never read as a prelude.
            Kind::Header => 4,
        };
        encode((
            MAGIC,
            Le(VERSION),
            [kind, self.aead.number()],
            Le(self.slots),
            Le(self.summary_len),
            Le(self.epoch),
            (Le(self.number), self.format, self.session, self.salt),
        ))
    }

    /// All of it, with the commitment to the key.
    pub fn encode(&self, commitment: [u8; 32]) -> [u8; PRELUDE_LEN] {
        encode((self.identity(), commitment))
    }

    /// The prelude that these bytes are, and the commitment, which the caller compares.
    ///
    /// # Errors
    /// [`FormatError::Foreign`], [`FormatError::Version`], [`FormatError::Limit`]; [`FormatError::Layout`] for a kind or a
    /// cipher that there is not.
    pub fn decode(bytes: &[u8; PRELUDE_LEN]) -> Result<(Self, [u8; 32]), FormatError> {
        type Numbers = (Le<u32>, Le<u32>, Le<u32>, Le<u64>);
        type Fields = ([u8; 8], Le<u16>, [u8; 2], Numbers, (FormatId, [u8; 32], [u8; 16], [u8; 32]));
        let (magic, Le(version), [kind, aead], numbers, (format, session, salt, commitment)): Fields =
            decode(bytes);
        let (Le(slots), Le(summary_len), Le(epoch), Le(number)) = numbers;
        if magic != MAGIC {
            return Err(FormatError::Foreign);
        }
        if version != VERSION {
            return Err(FormatError::Version { version });
        }
        let (kind, most, slots_fit) = match kind {
            1 => (Kind::Log, MOST_SUMMARY, slots <= MOST_SLOTS),
            2 => (Kind::Map, MOST_NODE, slots <= MOST_LEVEL),
            3 => (Kind::Checkpoint, MOST_ROOT, slots == 0),
            _ => return Err(FormatError::Layout),
        };
        if !slots_fit || summary_len > most || number > MOST_NUMBER {
            return Err(FormatError::Limit);
        }
        let aead = Aead::from_number(aead).ok_or(FormatError::Layout)?;
        Ok((Self { kind, aead, slots, summary_len, number, format, session, salt, epoch }, commitment))
    }
}
