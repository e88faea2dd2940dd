//! What a layer between a cipher and a medium needs: a keyed cipher that encrypts runs of data units in place.

use crate::run::{DataUnitIndex, RunError};

/// A keyed, length-preserving cipher over runs of data units (IEEE 1619-2018, 3.1: the bytes under one tweak), in place.
///
/// Implemented by [`Mapper`](crate::Mapper) and by the types that are one cipher alone, so that what is generic over it costs the code of
/// one cipher only.
pub trait DataUnitCipher {
    /// Bytes under one tweak.
    fn data_unit(&self) -> usize;

    /// A part of a data unit can be encrypted without the rest of it if it begins and ends at a multiple of so many
    /// bytes: 16 for XTS, the data unit for wide-block modes and CBC. Media can be programmed in multiples of this.
    fn granularity(&self) -> usize {
        self.data_unit()
    }

    /// Encrypts a run: whole data units, of which the first has index `first`.
    ///
    /// # Errors
    ///
    /// * [`RunError::PartialDataUnit`] if the run is not a whole number of data units.
    /// * [`RunError::SingleSnapshot`] or [`RunError::KeyRefused`], as [`Mapper::encrypt`](crate::Mapper::encrypt) says.
    /// * [`RunError::Alignment`] or [`RunError::Engine`] if an AES engine does not take the buffer, or fails.
    fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError>;

    /// Decrypts a run: whole data units, of which the first has index `first`.
    ///
    /// # Errors
    ///
    /// * [`RunError::PartialDataUnit`] if the run is not a whole number of data units.
    /// * [`RunError::KeyRefused`], as [`Mapper::decrypt`](crate::Mapper::decrypt) says.
    /// * [`RunError::Alignment`] or [`RunError::Engine`] if an AES engine does not take the buffer, or fails.
    fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError>;

    /// Encrypts what begins at byte `offset` of data unit `unit` and may go on into the units after it. Offset and
    /// length are multiples of [`DataUnitCipher::granularity`], the offset lies in the unit.
    ///
    /// # Errors
    ///
    /// * [`RunError::Granularity`] if offset or length is no multiple of the granularity.
    /// * [`RunError::BehindDataUnit`] if the offset lies behind the data unit.
    /// * [`RunError::SingleSnapshot`] or [`RunError::KeyRefused`], as [`Mapper::encrypt`](crate::Mapper::encrypt) says.
    /// * [`RunError::Alignment`] or [`RunError::Engine`] if an AES engine does not take the buffer, or fails.
    fn encrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        RunError::check_part(offset, bytes.len(), self.data_unit(), self.data_unit())?;
        self.encrypt(unit, bytes)
    }

    /// Decrypts what [`DataUnitCipher::encrypt_at`] encrypts.
    ///
    /// # Errors
    ///
    /// * [`RunError::Granularity`] if offset or length is no multiple of the granularity.
    /// * [`RunError::BehindDataUnit`] if the offset lies behind the data unit.
    /// * [`RunError::KeyRefused`], as [`Mapper::decrypt`](crate::Mapper::decrypt) says.
    /// * [`RunError::Alignment`] or [`RunError::Engine`] if an AES engine does not take the buffer, or fails.
    fn decrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        RunError::check_part(offset, bytes.len(), self.data_unit(), self.data_unit())?;
        self.decrypt(unit, bytes)
    }
}

impl<C: DataUnitCipher + ?Sized> DataUnitCipher for &C {
    fn data_unit(&self) -> usize {
        (**self).data_unit()
    }

    fn granularity(&self) -> usize {
        (**self).granularity()
    }

    fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        (**self).encrypt(first, run)
    }

    fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        (**self).decrypt(first, run)
    }

    fn encrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        (**self).encrypt_at(unit, offset, bytes)
    }

    fn decrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        (**self).decrypt_at(unit, offset, bytes)
    }
}

/// A [`DataUnitCipher`] that lets others run while it works: a peripheral. Every `DataUnitCipher` is one that never waits.
///
/// A future that is dropped leaves the bytes in no state to be used.
pub trait AsyncDataUnitCipher {
    /// Bytes under one tweak.
    fn data_unit(&self) -> usize;

    /// What a part of a data unit begins and ends at multiples of ([`DataUnitCipher::granularity`]).
    fn granularity(&self) -> usize;

    /// Encrypts what begins at byte `offset` of data unit `unit` and may go on into the units after it. Offset and length are
    /// multiples of the granularity, the offset lies in the unit.
    ///
    /// # Errors
    ///
    /// Those of [`DataUnitCipher::encrypt_at`].
    fn encrypt_at(
        &mut self,
        unit: DataUnitIndex,
        offset: usize,
        bytes: &mut [u8],
    ) -> impl Future<Output = Result<(), RunError>>;

    /// Decrypts what [`AsyncDataUnitCipher::encrypt_at`] encrypts.
    ///
    /// # Errors
    ///
    /// Those of [`DataUnitCipher::decrypt_at`].
    fn decrypt_at(
        &mut self,
        unit: DataUnitIndex,
        offset: usize,
        bytes: &mut [u8],
    ) -> impl Future<Output = Result<(), RunError>>;
}

impl<C: DataUnitCipher> AsyncDataUnitCipher for C {
    fn data_unit(&self) -> usize {
        DataUnitCipher::data_unit(self)
    }

    fn granularity(&self) -> usize {
        DataUnitCipher::granularity(self)
    }

    async fn encrypt_at(
        &mut self,
        unit: DataUnitIndex,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<(), RunError> {
        DataUnitCipher::encrypt_at(self, unit, offset, bytes)
    }

    async fn decrypt_at(
        &mut self,
        unit: DataUnitIndex,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<(), RunError> {
        DataUnitCipher::decrypt_at(self, unit, offset, bytes)
    }
}

/// The methods of [`DataUnitCipher`], by the inherent ones of the same names.
macro_rules! by_inherent_methods {
    () => {
        fn data_unit(&self) -> usize {
            self.data_unit()
        }

        fn granularity(&self) -> usize {
            self.granularity()
        }

        fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
            self.encrypt(first, run)
        }

        fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
            self.decrypt(first, run)
        }

        fn encrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
            self.encrypt_at(unit, offset, bytes)
        }

        fn decrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
            self.decrypt_at(unit, offset, bytes)
        }
    };
}

pub(crate) use by_inherent_methods;
