//! The record of the trusted store: the newest history that counts. It is no secret, and it needs no tag: nobody else writes it.

use atrest_codec::{Le, decode, encode};
use atrest_device::TRUSTED_RECORD_LEN;

use super::{Chain, FormatError, FormatId, MOST_NUMBER, VERSION};

/// The first half of a chain value.
type Half = [u8; 16];

const MARK: [u8; 2] = [0x95, 0x76];

/// What a trusted store holds for a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The session that wrote it was closed in good order: it goes on no more.
    pub closed: bool,
    /// The volume.
    pub format: FormatId,
    /// Number of the newest log object that counts.
    pub number: u64,
    /// Chain value after it. While a journal is in use, its second half is 0 and counts for nothing.
    pub chain: Chain,
    /// The record of the journal up to which it counts, if a journal is in use.
    pub journal: Option<JournalPoint>,
    /// First bytes of the salt of the session that wrote that object.
    pub session: [u8; 12],
}

/// A point in a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalPoint {
    /// Number of the journal's newest record that counts, 0 for none. It has 48 bits.
    pub number: u64,
    /// The first half of the journal's chain value after it.
    pub chain: Half,
}

impl Record {
    /// Its bytes.
    pub fn encode(&self) -> [u8; TRUSTED_RECORD_LEN] {
        let (in_use, chain, rest): (u8, Chain, [u8; 6]) = match &self.journal {
            None => (0, self.chain, [0; 6]),
            Some(point) => {
                let (rest, _): ([u8; 6], [u8; 2]) = decode(&point.number.to_le_bytes());
                (1, encode((half(&self.chain), point.chain)), rest)
            }
        };
        let flags = [u8::from(self.closed), in_use];
        encode((MARK, Le(VERSION), flags, (self.format, Le(self.number), chain, self.session), rest))
    }

    /// The record that these bytes are.
    ///
    /// # Errors
    /// [`FormatError::Foreign`], [`FormatError::Version`], [`FormatError::Layout`] or [`FormatError::Limit`].
    pub fn decode(bytes: &[u8; TRUSTED_RECORD_LEN]) -> Result<Self, FormatError> {
        type Fields = ([u8; 2], Le<u16>, [u8; 2], (FormatId, Le<u64>, Chain, [u8; 12]), [u8; 6]);
        let (mark, Le(version), flags, (format, Le(number), chain, session), rest): Fields = decode(bytes);
        if mark != MARK {
            return Err(FormatError::Foreign);
        }
        if version != VERSION {
            return Err(FormatError::Version { version });
        }
        let (closed, chain, journal) = match (flags, rest) {
            ([closed @ (0 | 1), 0], [0, 0, 0, 0, 0, 0]) => (closed == 1, chain, None),
            ([0, 1], rest) => {
                let (of_log, of_journal): (Half, Half) = decode(&chain);
                let number = u64::from_le_bytes(encode((rest, [0; 2])));
                let point = JournalPoint { number, chain: of_journal };
                (false, encode((of_log, [0; 16])), Some(point))
            }
            _ => return Err(FormatError::Layout),
        };
        if number > MOST_NUMBER {
            return Err(FormatError::Limit);
        }
        Ok(Self { closed, format, number, chain, journal, session })
    }

    /// Whether this is the chain value at its number.
    pub fn is_at(&self, chain: &Chain) -> bool {
        match self.journal {
            None => self.chain == *chain,
            Some(_) => half(&self.chain) == half(chain),
        }
    }
}

/// The first half of a chain value.
pub fn half(chain: &Chain) -> Half {
    let (first, _): (Half, Half) = decode(chain);
    first
}
