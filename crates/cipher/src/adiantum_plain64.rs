//! Adiantum and nothing else, for programs that count their bytes of code: see [`crate::AesXts`].

use core::fmt;

use atrest_secret::SecretArray;

use crate::backend::{PortableAes, VectorChoice};
use crate::block::Direction;
use crate::chacha::{ChaChaRounds, StreamKey};
use crate::mapper::{KeyError, MapperOptions, Numbering};
use crate::mode::adiantum::{HashKeys, WideBlock};
use crate::run::{DataUnitIndex, Run, RunError};
use crate::spec::Cipher;
use crate::tweak::{NumberForm, TweakRule, Units};

/// `xchacha12,aes-adiantum-plain64` or `xchacha20,aes-adiantum-plain64` over runs of data units, in code for any CPU: gives
/// the same bytes as the mapper of that name. Wipes itself on drop.
pub struct AdiantumPlain64 {
    cipher: PortableAes,
    wide: WideBlock,
    numbering: Numbering,
}

impl AdiantumPlain64 {
    /// Expands a key of 32 bytes for [`Cipher::XChaCha12Aes`] or [`Cipher::XChaCha20Aes`]. Of the options, those about
    /// the numbers of data units count.
    pub fn new(cipher: Cipher, key: &[u8], options: &MapperOptions) -> Result<Self, KeyError> {
        let wrong_length = KeyError::Length { len: key.len() };
        let numbering = Numbering::new(options)?;
        let rounds = match cipher {
            Cipher::XChaCha12Aes => ChaChaRounds::Twelve,
            Cipher::XChaCha20Aes => ChaChaRounds::Twenty,
            _ => return Err(wrong_length),
        };
        let stream = StreamKey::new(key.try_into().map_err(|_| wrong_length)?, rounds);
        let mut block_key = SecretArray::<32>::zeroed();
        let hash = HashKeys::adiantum(&stream, &mut block_key);
        let cipher = PortableAes::new(&block_key[..]).ok_or(wrong_length)?;
        Ok(Self { cipher, wide: WideBlock { stream, hash, vectors: VectorChoice::portable() }, numbering })
    }

    /// Bytes under one tweak.
    pub fn data_unit(&self) -> usize {
        self.numbering.data_unit
    }

    /// Encrypts a run in place: whole data units, of which the first has index `first`.
    pub fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Encrypt, first, run)
    }

    /// Decrypts a run in place: whole data units, of which the first has index `first`.
    pub fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Decrypt, first, run)
    }

    fn apply(&self, direction: Direction, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        if let Some(position) = self.numbering.position(first, run.len())? {
            let rule = TweakRule::Number(NumberForm::Plain64);
            let units = Units::new(rule, position.number, position.step, position.unit_blocks);
            self.wide.portable_run(&self.cipher, direction, units, Run::in_place(run));
        }
        Ok(())
    }
}

impl fmt::Debug for AdiantumPlain64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdiantumPlain64(..)")
    }
}
