//! The record of the trusted store: the newest history that counts. It is no secret, and it needs no tag: nobody else writes it.

use atrest_codec::{Le, decode, encode};
use atrest_device::TRUSTED_RECORD_LEN;

use super::{Chain, FormatError, FormatId, MOST_NUMBER, VERSION};

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
    /// Chain value after it.
    pub chain: Chain,
    /// First bytes of the salt of the session that wrote that object.
    pub session: [u8; 12],
}

impl Record {
    /// Its bytes.
    pub fn encode(&self) -> [u8; TRUSTED_RECORD_LEN] {
        let flags = u8::from(self.closed);
        encode((
            MARK,
            Le(VERSION),
            [flags, 0],
            (self.format, Le(self.number), self.chain, self.session),
            [0; 6],
        ))
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
        let closed = match flags {
            [0, 0] => false,
            [1, 0] => true,
            _ => return Err(FormatError::Layout),
        };
        if rest != [0; 6] {
            return Err(FormatError::Layout);
        }
        if number > MOST_NUMBER {
            return Err(FormatError::Limit);
        }
        Ok(Self { closed, format, number, chain, session })
    }
}
