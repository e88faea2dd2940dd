//! One header copy as a whole, and which of the two copies counts.

use alloc::vec::Vec;

use super::{BinaryHeader, CopyKind, HeaderError, Metadata};

/// A header copy that passed every rule.
#[derive(Clone, Debug)]
pub struct Header {
    /// The binary part.
    pub binary: BinaryHeader,
    /// The JSON metadata.
    pub metadata: Metadata,
}

/// What was found in the places of the two copies, with at least one good copy.
#[derive(Clone, Debug)]
pub struct HeaderPair {
    /// The newest good copy.
    pub header: Header,
    /// What is wrong with the first copy, if anything.
    pub primary: Option<HeaderError>,
    /// What is wrong with the second copy, if anything.
    pub secondary: Option<HeaderError>,
}

impl Header {
    /// Parses a whole copy found at `offset` of its device.
    ///
    /// # Errors
    /// Fails where [`BinaryHeader::parse`] or [`Metadata::parse`] does.
    pub fn parse(bytes: &[u8], copy: CopyKind, offset: u64) -> Result<Self, HeaderError> {
        let (binary, json) = BinaryHeader::parse(bytes, copy, offset)?;
        let metadata = Metadata::parse(json)?;
        Ok(Self { binary, metadata })
    }

    /// The bytes of a whole copy; `salt` is random and different for each.
    ///
    /// # Errors
    /// Fails where [`BinaryHeader::encode`] does.
    pub fn encode(&self, copy: CopyKind, salt: &[u8; 64]) -> Result<Vec<u8>, HeaderError> {
        self.binary.encode(copy, salt, &self.metadata.to_json())
    }

    /// Bytes that header copies and keyslots area take together.
    pub fn total_size(&self) -> u64 {
        self.metadata.keyslots_end()
    }

    fn says_the_same_as(&self, other: &Self) -> bool {
        self.binary == other.binary && self.metadata.to_json() == other.metadata.to_json()
    }
}

impl HeaderPair {
    /// Picks the copy that counts: the good one, or of two good ones the newer, or the first.
    ///
    /// # Errors
    /// If neither is good: both reasons, that of the primary copy first.
    pub fn choose(
        primary: Result<Header, HeaderError>,
        secondary: Result<Header, HeaderError>,
    ) -> Result<Self, (HeaderError, HeaderError)> {
        match (primary, secondary) {
            (Ok(first), Ok(second)) => Ok(Self::newer(first, second)),
            (Ok(header), Err(damage)) => Ok(Self { header, primary: None, secondary: Some(damage) }),
            (Err(damage), Ok(header)) => Ok(Self { header, primary: Some(damage), secondary: None }),
            (Err(first), Err(second)) => Err((first, second)),
        }
    }

    fn newer(first: Header, second: Header) -> Self {
        let (a, b) = (first.binary.sequence, second.binary.sequence);
        if a < b {
            let outdated = HeaderError::Outdated { sequence: a, newest: b };
            return Self { header: second, primary: Some(outdated), secondary: None };
        }
        let secondary = match first.says_the_same_as(&second) {
            _ if a > b => Some(HeaderError::Outdated { sequence: b, newest: a }),
            true => None,
            false => Some(HeaderError::Differs),
        };
        Self { header: first, primary: None, secondary }
    }
}
