//! An engine below whatever is generic over ciphers: encrypted flash, encrypted cards.

use core::cell::RefCell;
use core::fmt;

use super::{AesEngine, EngineError, EngineXts};
use crate::block::{Block, Direction};
use crate::data_unit::DataUnitCipher;
use crate::run::{DataUnitIndex, RunError};

/// An [`EngineXts`] as a [`DataUnitCipher`], with room for the tweaks of `N` data units: a run of so many, or of a part of
/// them, is two calls of the engine. One thread uses it at a time.
pub struct SharedEngineXts<E, const N: usize> {
    data_unit: usize,
    inner: RefCell<Inner<E, N>>,
}

struct Inner<E, const N: usize> {
    xts: EngineXts<E>,
    tweaks: Tweaks<N>,
}

/// Aligned to the cache lines of any chip, which is more than any DMA asks for.
#[repr(align(64))]
pub(super) struct Tweaks<const N: usize>(pub(super) [Block; N]);

impl<const N: usize> Tweaks<N> {
    pub(super) const EMPTY: Self = {
        assert!(N > 0, "there is no room for the tweak of a single data unit");
        Self([[0; 16]; N])
    };
}

/// What is generic over ciphers has no error of the engine's own.
pub(super) fn run_error<E>(error: EngineError<E>) -> RunError {
    match error {
        EngineError::Run(error) => error,
        EngineError::Alignment { alignment } => RunError::Alignment { alignment },
        EngineError::NoRoomForTweaks | EngineError::Engine(_) => RunError::Engine,
    }
}

impl<E: AesEngine, const N: usize> SharedEngineXts<E, N> {
    /// Gives the engine room for its tweaks.
    pub const fn new(xts: EngineXts<E>) -> Self {
        let data_unit = xts.0.numbering.data_unit;
        Self { data_unit, inner: RefCell::new(Inner { xts, tweaks: Tweaks::EMPTY }) }
    }

    /// Gives the engine back.
    pub fn into_inner(self) -> EngineXts<E> {
        self.inner.into_inner().xts
    }

    fn apply(
        &self,
        direction: Direction,
        unit: DataUnitIndex,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<(), RunError> {
        // Only an engine that calls its own cipher would find it in use.
        let Ok(mut inner) = self.inner.try_borrow_mut() else { return Err(RunError::Engine) };
        let Inner { xts, tweaks } = &mut *inner;
        let done = match direction {
            Direction::Encrypt => xts.encrypt_at(unit, offset, bytes, &mut tweaks.0),
            Direction::Decrypt => xts.decrypt_at(unit, offset, bytes, &mut tweaks.0),
        };
        done.map_err(run_error)
    }

    fn apply_whole(
        &self,
        direction: Direction,
        first: DataUnitIndex,
        run: &mut [u8],
    ) -> Result<(), RunError> {
        if !run.len().is_multiple_of(self.data_unit) {
            return Err(RunError::PartialDataUnit { len: run.len(), data_unit: self.data_unit });
        }
        self.apply(direction, first, 0, run)
    }
}

impl<E: AesEngine, const N: usize> DataUnitCipher for SharedEngineXts<E, N> {
    fn data_unit(&self) -> usize {
        self.data_unit
    }

    fn granularity(&self) -> usize {
        16
    }

    fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.apply_whole(Direction::Encrypt, first, run)
    }

    fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.apply_whole(Direction::Decrypt, first, run)
    }

    fn encrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Encrypt, unit, offset, bytes)
    }

    fn decrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Decrypt, unit, offset, bytes)
    }
}

impl<E, const N: usize> fmt::Debug for SharedEngineXts<E, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedEngineXts(..)")
    }
}
