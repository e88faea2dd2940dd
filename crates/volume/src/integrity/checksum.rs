//! Tags without a cipher: each is the hash of the data unit and its number.

use core::fmt;

use atrest_cipher::{DataUnitIndex, RunError, Tagged};
use atrest_secret::constant_time_eq;

use super::Hash;

/// What the kernel puts into the tag of a data unit that was discarded.
const DISCARDED: u8 = 0xf6;

/// Data units with a hash beside each, as dm-integrity makes it when it stands alone.
#[derive(Debug)]
pub struct Checksum {
    hash: Hash,
    unit: usize,
    tag: usize,
    salt: Option<[u8; 16]>,
    takes_discarded: bool,
}

/// Why no checksum can be made so.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumError {
    /// The data unit is not 512, 1024, 2048 or 4096 bytes.
    DataUnit(usize),
    /// A tag has at least one byte.
    Tag,
}

impl Checksum {
    /// Hashes data units of `unit` bytes to tags of `tag` bytes: digests that are cut off or filled up with zeros.
    ///
    /// # Errors
    /// [`ChecksumError`] if data units or tags can't have that length.
    pub fn new(hash: Hash, unit: usize, tag: usize) -> Result<Self, ChecksumError> {
        if !matches!(unit, 512 | 1024 | 2048 | 4096) {
            return Err(ChecksumError::DataUnit(unit));
        }
        if tag == 0 {
            return Err(ChecksumError::Tag);
        }
        Ok(Self { hash, unit, tag, salt: None, takes_discarded: false })
    }

    /// Begins every hash with a salt, which the superblock has (`fix_hmac`).
    #[must_use]
    pub fn with_salt(mut self, salt: Option<[u8; 16]>) -> Self {
        self.salt = salt;
        self
    }

    /// Takes what was discarded as it is, like the kernel with `allow_discards`. Whoever can write to the media can say so of any unit.
    #[must_use]
    pub fn with_discards(mut self, takes_discarded: bool) -> Self {
        self.takes_discarded = takes_discarded;
        self
    }

    fn sum(&self, number: u64, unit: &[u8], tag: &mut [u8]) {
        let sector = number.wrapping_mul((self.unit >> 9) as u64).to_le_bytes();
        match &self.salt {
            Some(salt) => self.hash.digest(&[salt, &sector, unit], tag),
            None => self.hash.digest(&[&sector, unit], tag),
        }
    }

    fn check(&self, run: &[u8], tags: &[u8]) -> Result<(), RunError> {
        if !run.len().is_multiple_of(self.unit) {
            return Err(RunError::PartialDataUnit { len: run.len(), data_unit: self.unit });
        }
        let wanted = run.len().checked_div(self.unit).and_then(|units| units.checked_mul(self.tag));
        match wanted == Some(tags.len()) {
            true => Ok(()),
            false => Err(RunError::LengthMismatch { src: run.len(), dst: tags.len() }),
        }
    }
}

impl Tagged for Checksum {
    fn data_unit(&self) -> usize {
        self.unit
    }

    fn tag_len(&self) -> usize {
        self.tag
    }

    fn random_len(&self) -> usize {
        0
    }

    fn seal(&self, first: DataUnitIndex, run: &mut [u8], tags: &mut [u8]) -> Result<(), RunError> {
        self.check(run, tags)?;
        for ((unit, tag), number) in
            run.chunks_exact(self.unit).zip(tags.chunks_exact_mut(self.tag)).zip(first.0..)
        {
            self.sum(number, unit, tag);
        }
        Ok(())
    }

    fn open(
        &self,
        first: DataUnitIndex,
        run: &mut [u8],
        tags: &[u8],
        forged: &mut dyn FnMut(DataUnitIndex),
    ) -> Result<(), RunError> {
        self.check(run, tags)?;
        let mut expected = vec![0; self.tag];
        for ((unit, tag), number) in
            run.chunks_exact_mut(self.unit).zip(tags.chunks_exact(self.tag)).zip(first.0..)
        {
            self.sum(number, unit, &mut expected);
            let is_discarded = self.takes_discarded && tag.iter().all(|byte| *byte == DISCARDED);
            if !constant_time_eq(&expected, tag) && !is_discarded {
                unit.fill(0);
                forged(DataUnitIndex(number));
            }
        }
        Ok(())
    }
}

impl fmt::Display for ChecksumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DataUnit(len) => {
                write!(f, "data units of {len} bytes can't be: there are 512, 1024, 2048 and 4096")
            }
            Self::Tag => f.write_str("a tag has at least one byte"),
        }
    }
}

impl core::error::Error for ChecksumError {}
