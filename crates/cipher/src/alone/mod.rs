//! Ciphers one at a time, for programs that count their bytes of code and stack: a [`Mapper`](crate::Mapper) has every
//! cipher, mode and IV rule in it, and a linker can't know which of them a key will ask for.

#[cfg(feature = "sha2")]
mod cbc;
mod hctr2;
mod wide;
mod xts;

use core::fmt;

use crate::block::Direction;
use crate::data_unit::{DataUnitCipher, by_inherent_methods};
use crate::key_error::KeyError;
use crate::options::{MapperOptions, Numbering};
use crate::run::{DataUnitIndex, Position, Run, RunError, without_traces};

#[cfg(feature = "sha2")]
pub use cbc::AesCbcEssiv;
pub use hctr2::Hctr2Plain64;
pub use wide::{AdiantumPlain64, HPolyCPlain64};
pub use xts::AesXts;
pub(crate) use xts::XtsPair;

/// One cipher over runs of data units, whose IVs are made of their numbers in 64 bits: gives the same bytes as the mapper of that
/// name. Wipes itself on drop.
///
/// See [`AesXts`], [`AdiantumPlain64`], [`HPolyCPlain64`], [`Hctr2Plain64`] and `AesCbcEssiv`.
pub struct Plain64<K> {
    keys: K,
    numbering: Numbering,
}

/// Memory for an expanded key, which is made in it: no part of it was ever on the stack, and none is copied.
///
/// ```
/// use atrest_cipher::{AesXts, DataUnitIndex, KeyPlace, MapperOptions};
///
/// # let key: [u8; 32] = core::array::from_fn(|i| i as u8);
/// let mut place = KeyPlace::<AesXts>::empty(); // on a chip in a `static`
/// let xts = place.expand(&key, &MapperOptions::default())?;
/// xts.encrypt(DataUnitIndex(3), &mut [0; 512])?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct KeyPlace<C>(C);

/// The expanded key of one cipher. Only this crate has such types.
pub trait Keys: Expand {}

impl<K: Expand> Keys for K {}

/// What nobody else need know of them.
pub trait Expand: Sized {
    /// Name of the cipher's type.
    const NAME: &str;
    /// Whether a run may begin and end within a data unit, at any multiple of 16 bytes.
    const TAKES_PARTS: bool;
    /// Memory for the key.
    const EMPTY: Self;

    /// Expands a key in place. After an error, nothing of a key is left.
    ///
    /// # Errors
    ///
    /// * [`KeyError::Length`] if the cipher takes no key of this length.
    /// * [`KeyError::EqualXtsHalves`] if both halves of an XTS key are the same and the options do not allow that.
    fn expand(&mut self, key: &[u8], options: &MapperOptions) -> Result<(), KeyError>;

    /// Encrypts or decrypts a run.
    fn run(&self, direction: Direction, position: Position, run: Run<'_>);
}

impl<K: Keys> KeyPlace<Plain64<K>> {
    /// Without a key.
    pub const fn empty() -> Self {
        Self(Plain64 { keys: K::EMPTY, numbering: Numbering::EMPTY })
    }

    /// Expands a key, as [`Plain64::new`] does. What was here before is gone, also after an error.
    ///
    /// # Errors
    ///
    /// * [`KeyError::Length`] if the cipher takes no key of this length.
    /// * [`KeyError::EqualXtsHalves`] if both halves of an XTS key are the same and the options do not allow that.
    /// * [`KeyError::DataUnit`] if a data unit has no bytes, or no multiple of 16.
    pub fn expand(&mut self, key: &[u8], options: &MapperOptions) -> Result<&mut Plain64<K>, KeyError> {
        self.0.keys.expand(key, options)?;
        self.0.numbering = Numbering::new(options)?;
        Ok(&mut self.0)
    }
}

impl<K: Keys> Plain64<K> {
    /// Expands a key. Of the options, those about the numbers of data units count, and for XTS those about equal halves
    /// and the backend. Takes more stack than [`KeyPlace::expand`].
    ///
    /// # Errors
    ///
    /// * [`KeyError::Length`] if the cipher takes no key of this length.
    /// * [`KeyError::EqualXtsHalves`] if both halves of an XTS key are the same and the options do not allow that.
    /// * [`KeyError::DataUnit`] if a data unit has no bytes, or no multiple of 16.
    pub fn new(key: &[u8], options: &MapperOptions) -> Result<Self, KeyError> {
        let mut place = KeyPlace::empty();
        place.expand(key, options)?;
        Ok(place.0)
    }

    /// Bytes under one tweak.
    pub fn data_unit(&self) -> usize {
        self.numbering.data_unit
    }

    /// What a part of a data unit must begin at and be a multiple of to be encrypted alone: 16 bytes for XTS, else the
    /// data unit.
    pub fn granularity(&self) -> usize {
        if K::TAKES_PARTS { 16 } else { self.data_unit() }
    }

    /// Encrypts a run in place: whole data units, of which the first has index `first`.
    ///
    /// # Errors
    ///
    /// [`RunError::PartialDataUnit`] if the run is not a whole number of data units.
    pub fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Encrypt, first, None, run)
    }

    /// Decrypts a run in place: whole data units, of which the first has index `first`.
    ///
    /// # Errors
    ///
    /// [`RunError::PartialDataUnit`] if the run is not a whole number of data units.
    pub fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Decrypt, first, None, run)
    }

    /// Encrypts in place what begins at byte `offset` of data unit `unit` and may go on into the units after it. Offset
    /// and length are multiples of [`Plain64::granularity`], the offset lies in the unit.
    ///
    /// # Errors
    ///
    /// * [`RunError::Granularity`] if offset or length is no multiple of the granularity.
    /// * [`RunError::BehindDataUnit`] if the offset lies behind the data unit.
    pub fn encrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        self.apply_at(Direction::Encrypt, unit, offset, bytes)
    }

    /// Decrypts in place what [`Plain64::encrypt_at`] encrypts.
    ///
    /// # Errors
    ///
    /// * [`RunError::Granularity`] if offset or length is no multiple of the granularity.
    /// * [`RunError::BehindDataUnit`] if the offset lies behind the data unit.
    pub fn decrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        self.apply_at(Direction::Decrypt, unit, offset, bytes)
    }

    /// Encrypts a run from `src` to `dst`, which are equally long.
    ///
    /// # Errors
    ///
    /// * [`RunError::LengthMismatch`] if source and destination differ in length.
    /// * [`RunError::PartialDataUnit`] if the run is not a whole number of data units.
    pub fn encrypt_to(&self, first: DataUnitIndex, src: &[u8], dst: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Encrypt, first, Some(src), dst)
    }

    /// Decrypts a run from `src` to `dst`, which are equally long.
    ///
    /// # Errors
    ///
    /// * [`RunError::LengthMismatch`] if source and destination differ in length.
    /// * [`RunError::PartialDataUnit`] if the run is not a whole number of data units.
    pub fn decrypt_to(&self, first: DataUnitIndex, src: &[u8], dst: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Decrypt, first, Some(src), dst)
    }

    fn apply(
        &self,
        direction: Direction,
        first: DataUnitIndex,
        src: Option<&[u8]>,
        dst: &mut [u8],
    ) -> Result<(), RunError> {
        let len = dst.len();
        // Made no sooner than here: so a linker sees that a program never has a source.
        let run = match src {
            Some(src) => Run::between(src, dst)?,
            None => Run::in_place(dst),
        };
        if let Some(position) = self.numbering.position(first, len)? {
            without_traces(|| self.keys.run(direction, position, run));
        }
        Ok(())
    }

    fn apply_at(
        &self,
        direction: Direction,
        unit: DataUnitIndex,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<(), RunError> {
        let granularity = self.granularity();
        if let Some(position) = self.numbering.position_at(unit, offset, bytes.len(), granularity)? {
            without_traces(|| self.keys.run(direction, position, Run::in_place(bytes)));
        }
        Ok(())
    }
}

impl<K: Keys> DataUnitCipher for Plain64<K> {
    by_inherent_methods!();
}

impl<K: Keys> fmt::Debug for Plain64<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(K::NAME)?;
        f.write_str("(..)")
    }
}

impl<C> fmt::Debug for KeyPlace<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPlace(..)")
    }
}
