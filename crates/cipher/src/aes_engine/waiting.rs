//! An engine that is waited for, below whatever is generic over ciphers: encrypted flash under an executor.

use core::fmt;

use super::shared::{Tweaks, run_error};
use super::{AsyncAesEngine, AsyncEngineXts};
use crate::data_unit::AsyncDataUnitCipher;
use crate::run::{DataUnitIndex, RunError};

/// An [`AsyncEngineXts`] as an [`AsyncDataUnitCipher`], with room for the tweaks of `N` data units: a run of so many, or of a
/// part of them, is two calls of the engine, and other tasks run during both.
pub struct AsyncEngineCipher<E, const N: usize> {
    xts: AsyncEngineXts<E>,
    tweaks: Tweaks<N>,
}

impl<E: AsyncAesEngine, const N: usize> AsyncEngineCipher<E, N> {
    /// Gives the engine room for its tweaks.
    pub const fn new(xts: AsyncEngineXts<E>) -> Self {
        Self { xts, tweaks: Tweaks::EMPTY }
    }

    /// Gives the engine back.
    pub fn into_inner(self) -> AsyncEngineXts<E> {
        self.xts
    }
}

impl<E: AsyncAesEngine, const N: usize> AsyncDataUnitCipher for AsyncEngineCipher<E, N> {
    fn data_unit(&self) -> usize {
        self.xts.data_unit()
    }

    fn granularity(&self) -> usize {
        16
    }

    async fn encrypt_at(
        &mut self,
        unit: DataUnitIndex,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<(), RunError> {
        self.xts.encrypt_at(unit, offset, bytes, &mut self.tweaks.0).await.map_err(run_error)
    }

    async fn decrypt_at(
        &mut self,
        unit: DataUnitIndex,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<(), RunError> {
        self.xts.decrypt_at(unit, offset, bytes, &mut self.tweaks.0).await.map_err(run_error)
    }
}

/// Lent: what encrypts with it gives nothing back.
impl<E: AsyncAesEngine, const N: usize> AsyncDataUnitCipher for &mut AsyncEngineCipher<E, N> {
    fn data_unit(&self) -> usize {
        (**self).data_unit()
    }

    fn granularity(&self) -> usize {
        (**self).granularity()
    }

    async fn encrypt_at(
        &mut self,
        unit: DataUnitIndex,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<(), RunError> {
        (**self).encrypt_at(unit, offset, bytes).await
    }

    async fn decrypt_at(
        &mut self,
        unit: DataUnitIndex,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<(), RunError> {
        (**self).decrypt_at(unit, offset, bytes).await
    }
}

impl<E, const N: usize> fmt::Debug for AsyncEngineCipher<E, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AsyncEngineCipher(..)")
    }
}
