//! What is said of a cipher beside its key: how data units are numbered, and which implementations to use.

use crate::backend::{BackendChoice, VectorChoice};
use crate::key_error::KeyError;
use crate::run::{DataUnitIndex, Position, RunError};

/// What a mapper is told beside cipher and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapperOptions {
    /// Bytes under one tweak: a multiple of 16, at least 16.
    pub data_unit: usize,
    /// Added to the IV number of every data unit, in the unit in which IVs count.
    pub iv_offset: u64,
    /// Whether IVs count data units. Otherwise they count 512-byte sectors, as LUKS wants it; data units below 512
    /// bytes count as one each.
    pub iv_large: bool,
    /// Whether an XTS key with two equal halves is accepted. For reading what others wrote, never for new volumes.
    pub allow_equal_xts_halves: bool,
    /// Whether a cipher that is safe for one snapshot only may encrypt
    /// ([`CipherSpec::is_single_snapshot`](crate::CipherSpec::is_single_snapshot)). It always decrypts.
    pub single_snapshot: bool,
    /// Which implementation of AES to use; `None` is the best there is.
    pub backend: Option<BackendChoice>,
    /// Which vector instructions ChaCha and the wide-block ciphers use beside AES; `None` is the best there are, or none where
    /// `backend` asks for the portable AES.
    pub vectors: Option<VectorChoice>,
}

impl Default for MapperOptions {
    /// 512-byte data units numbered from 0, nothing relaxed, the best backend.
    fn default() -> Self {
        Self {
            data_unit: 512,
            iv_offset: 0,
            iv_large: false,
            allow_equal_xts_halves: false,
            single_snapshot: false,
            backend: None,
            vectors: None,
        }
    }
}

impl MapperOptions {
    /// The vector instructions to use: none beside the portable AES, if nothing else is said.
    pub(crate) fn vectors_or_best(&self) -> VectorChoice {
        match (self.vectors, self.backend) {
            (Some(vectors), _) => vectors,
            (None, Some(backend)) if backend == BackendChoice::portable() => VectorChoice::portable(),
            (None, _) => VectorChoice::best(),
        }
    }
}

/// How the data units of a segment are numbered.
pub(crate) struct Numbering {
    pub(crate) data_unit: usize,
    first: u64,
    step: u64,
}

impl Numbering {
    /// Of nothing yet: zeros, so that a `static` takes no room in flash.
    pub(crate) const EMPTY: Self = Self { data_unit: 0, first: 0, step: 0 };

    /// As the options say.
    pub(crate) fn new(options: &MapperOptions) -> Result<Self, KeyError> {
        let data_unit = options.data_unit;
        if data_unit == 0 || !data_unit.is_multiple_of(16) {
            return Err(KeyError::DataUnit { len: data_unit });
        }
        let step = if options.iv_large { 1 } else { (data_unit / 512).max(1) as u64 };
        Ok(Self { data_unit, first: options.iv_offset, step })
    }

    /// Where a run of `len` bytes from unit `first` on is. Nothing, if there are no bytes.
    pub(crate) fn position(&self, first: DataUnitIndex, len: usize) -> Result<Option<Position>, RunError> {
        if !len.is_multiple_of(self.data_unit) {
            return Err(RunError::PartialDataUnit { len, data_unit: self.data_unit });
        }
        Ok((len > 0).then(|| self.start(first, 0)))
    }

    /// Where `len` bytes from byte `offset` of unit `unit` on are, for a cipher of this granularity.
    pub(crate) fn position_at(
        &self,
        unit: DataUnitIndex,
        offset: usize,
        len: usize,
        granularity: usize,
    ) -> Result<Option<Position>, RunError> {
        RunError::check_part(offset, len, self.data_unit, granularity)?;
        Ok((len > 0).then(|| self.start(unit, offset / 16)))
    }

    fn start(&self, unit: DataUnitIndex, skipped: usize) -> Position {
        // dm-crypt's numbers wrap at 2^64 as well.
        let number = self.first.wrapping_add(unit.0.wrapping_mul(self.step));
        Position { number, step: self.step, unit_blocks: self.data_unit / 16, skipped }
    }
}
