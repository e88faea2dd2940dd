//! Adiantum and HPolyC alone, in code for any CPU.

use atrest_secret::SecretArray;

use super::{Expand, Plain64};
use crate::backend::PortableAes;
use crate::block::Direction;
use crate::chacha::{ChaChaRounds, StreamKey};
use crate::key_error::KeyError;
use crate::mode::adiantum::{self, DerivedHash, NhHash, PolyHash};
use crate::options::MapperOptions;
use crate::run::{Position, Run};
use crate::tweak::{NumberForm, TweakRule, Units};

/// `xchacha12,aes-adiantum-plain64`, or with 20 rounds `xchacha20,aes-adiantum-plain64`. Its key has 32 bytes.
pub type AdiantumPlain64<const ROUNDS: usize = 12> = Plain64<WideBlockKeys<NhHash, ROUNDS>>;

/// `xchacha12,aes-hpolyc-plain64`, or with 20 rounds `xchacha20,aes-hpolyc-plain64`: less code and a smaller expanded key
/// than [`AdiantumPlain64`]. Its key has 32 bytes.
pub type HPolyCPlain64<const ROUNDS: usize = 12> = Plain64<WideBlockKeys<PolyHash, ROUNDS>>;

/// Those of [`AdiantumPlain64`] and [`HPolyCPlain64`].
pub struct WideBlockKeys<H, const ROUNDS: usize> {
    cipher: PortableAes,
    stream: StreamKey,
    hash: H,
}

impl<H: DerivedHash, const ROUNDS: usize> WideBlockKeys<H, ROUNDS> {
    const ROUNDS: ChaChaRounds = match ROUNDS {
        12 => ChaChaRounds::Twelve,
        20 => ChaChaRounds::Twenty,
        _ => panic!("XChaCha has 12 or 20 rounds"),
    };
}

impl<H: DerivedHash, const ROUNDS: usize> Expand for WideBlockKeys<H, ROUNDS> {
    const NAME: &str = H::NAME;
    const TAKES_PARTS: bool = false;
    const EMPTY: Self = Self { cipher: PortableAes::EMPTY, stream: StreamKey::EMPTY, hash: H::EMPTY };

    fn expand(&mut self, key: &[u8], _: &MapperOptions) -> Result<(), KeyError> {
        let wrong_length = KeyError::Length { len: key.len() };
        let Ok(key) = key.try_into() else {
            self.stream.wipe();
            self.hash.wipe();
            self.cipher.wipe();
            return Err(wrong_length);
        };
        self.stream.set(key, Self::ROUNDS);
        let mut block_key = SecretArray::<32>::zeroed();
        self.hash.derive(&self.stream, &mut block_key);
        self.cipher.expand(&block_key[..]).ok_or(wrong_length)
    }

    fn run(&self, direction: Direction, position: Position, run: Run<'_>) {
        let rule = TweakRule::Number(NumberForm::Plain64);
        let units = Units::new(rule, position.number, position.step, position.unit_blocks);
        adiantum::portable_run((&self.stream, &self.hash), &self.cipher, direction, units, run);
    }
}
