//! A cipher for tests: it inverts every other bit, and refuses what it is told to. And an error of a card.

use core::fmt;

use atrest_cipher::{DataUnitCipher, DataUnitIndex, RunError};

/// What it takes, and the data unit that it refuses, after it has seen the bytes.
#[derive(Clone, Copy)]
pub(crate) struct Stub {
    pub(crate) data_unit: usize,
    pub(crate) granularity: usize,
    pub(crate) refuses: Option<u64>,
}

impl Stub {
    pub(crate) const fn of(data_unit: usize, granularity: usize) -> Self {
        Self { data_unit, granularity, refuses: None }
    }

    /// What the refused unit is refused with.
    pub(crate) const REFUSAL: RunError = RunError::PartialDataUnit { len: 7, data_unit: 7 };
}

impl DataUnitCipher for Stub {
    fn data_unit(&self) -> usize {
        self.data_unit
    }

    fn granularity(&self) -> usize {
        self.granularity
    }

    fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        let units = first.0..first.0 + (run.len() / self.data_unit) as u64;
        if self.refuses.is_some_and(|refused| units.contains(&refused)) {
            return Err(Self::REFUSAL);
        }
        run.iter_mut().for_each(|byte| *byte ^= 0x55);
        Ok(())
    }

    fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.encrypt(first, run)
    }
}

/// A card's own error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed(pub(crate) u8);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failure {}", self.0)
    }
}

impl core::error::Error for Failed {}
