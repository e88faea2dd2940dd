//! AES-XTS and nothing else, for programs that count their bytes of code: a [`Mapper`](crate::Mapper) has every cipher,
//! mode and IV rule in it, and a linker can't know which of them a key will ask for.

use core::fmt;

use atrest_secret::constant_time_eq;

use crate::backend::{AnyAes, BackendChoice, MadeOfAes, for_any_aes, make_with_aes};
use crate::block::{BlockCipher, Direction};
use crate::mapper::{KeyError, MapperOptions, Numbering};
use crate::mode::xts::XtsUnits;
use crate::run::{DataUnitIndex, Position, Run, RunError};
use crate::tweak::{NumberForm, TweakRule, Units};

/// `aes-xts-plain64` over runs of data units: gives the same bytes as the mapper of that name. Wipes itself on drop.
pub struct AesXts {
    keys: AnyAes<Pairs>,
    numbering: Numbering,
}

struct Pair<C> {
    data: C,
    tweak: C,
}

/// A pair with whichever AES.
struct Pairs;

impl MadeOfAes for Pairs {
    type With<C: BlockCipher> = Pair<C>;
}

impl AesXts {
    /// Expands a key: that of the data, then one of the same length for the tweaks (32, 48 or 64 bytes in all).
    pub fn new(key: &[u8], options: &MapperOptions) -> Result<Self, KeyError> {
        let numbering = Numbering::new(options)?;
        let backend = options.backend.unwrap_or_else(BackendChoice::best);
        let keys = make_with_aes!(backend, expand => Pair::new(key, options, expand)?);
        Ok(Self { keys, numbering })
    }

    /// Bytes under one tweak.
    pub fn data_unit(&self) -> usize {
        self.numbering.data_unit
    }

    /// What a part of a data unit must begin at and be a multiple of to be encrypted alone: 16 bytes.
    pub fn granularity(&self) -> usize {
        16
    }

    /// Encrypts a run in place: whole data units, of which the first has index `first`.
    pub fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Encrypt, first, run.len(), Run::in_place(run))
    }

    /// Decrypts a run in place: whole data units, of which the first has index `first`.
    pub fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Decrypt, first, run.len(), Run::in_place(run))
    }

    /// Encrypts in place what begins at byte `offset` of data unit `unit` and may go on into the units after it. Offset
    /// and length are multiples of 16 bytes, the offset lies in the unit.
    pub fn encrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        self.apply_at(Direction::Encrypt, unit, offset, bytes)
    }

    /// Decrypts in place what [`AesXts::encrypt_at`] encrypts.
    pub fn decrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        self.apply_at(Direction::Decrypt, unit, offset, bytes)
    }

    /// Encrypts a run from `src` to `dst`, which are equally long.
    pub fn encrypt_to(&self, first: DataUnitIndex, src: &[u8], dst: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Encrypt, first, src.len(), Run::between(src, dst)?)
    }

    /// Decrypts a run from `src` to `dst`, which are equally long.
    pub fn decrypt_to(&self, first: DataUnitIndex, src: &[u8], dst: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Decrypt, first, src.len(), Run::between(src, dst)?)
    }

    fn apply(
        &self,
        direction: Direction,
        first: DataUnitIndex,
        len: usize,
        run: Run<'_>,
    ) -> Result<(), RunError> {
        self.run(direction, self.numbering.position(first, len)?, run);
        Ok(())
    }

    fn apply_at(
        &self,
        direction: Direction,
        unit: DataUnitIndex,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<(), RunError> {
        let position = self.numbering.position_at(unit, offset, bytes.len(), 16)?;
        self.run(direction, position, Run::in_place(bytes));
        Ok(())
    }

    fn run(&self, direction: Direction, position: Option<Position>, run: Run<'_>) {
        if let Some(position) = position {
            for_any_aes!(&self.keys, pair => pair.run(direction, position, run));
        }
    }
}

impl<C: BlockCipher> Pair<C> {
    fn new(
        key: &[u8],
        options: &MapperOptions,
        expand: impl Fn(&[u8]) -> Option<C>,
    ) -> Result<Self, KeyError> {
        let wrong_length = KeyError::Length { len: key.len() };
        if !key.len().is_multiple_of(2) {
            return Err(wrong_length);
        }
        let (data, tweak) = key.split_at(key.len() / 2);
        if !options.allow_equal_xts_halves && constant_time_eq(data, tweak) {
            return Err(KeyError::EqualXtsHalves);
        }
        let expand = |key: &[u8]| expand(key).ok_or(wrong_length);
        Ok(Self { data: expand(data)?, tweak: expand(tweak)? })
    }

    fn run(&self, direction: Direction, position: Position, run: Run<'_>) {
        let rule = TweakRule::Number(NumberForm::Plain64);
        let units = Units::new(rule, position.number, position.step, position.unit_blocks);
        self.data.xts_from(direction, XtsUnits { tweak_cipher: &self.tweak, units }, position.skipped, run);
    }
}

impl fmt::Debug for AesXts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AesXts(..)")
    }
}
