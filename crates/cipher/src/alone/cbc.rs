//! AES-CBC with ESSIV alone, in code for any CPU.

use digest::Digest;

use super::{Expand, Plain64};
use crate::backend::PortableAes;
use crate::block::Direction;
use crate::key_error::KeyError;
use crate::mode::cbc::CbcBackend;
use crate::options::MapperOptions;
use crate::run::{Position, Run};
use crate::tweak::{NumberForm, TweakRule, Units};

/// `aes-cbc-essiv:sha256`. Its key has 16, 24 or 32 bytes.
pub type AesCbcEssiv = Plain64<CbcEssivKeys>;

/// [`AesCbcEssiv`]'s.
pub struct CbcEssivKeys {
    data: PortableAes,
    ivs: PortableAes,
}

impl Expand for CbcEssivKeys {
    const NAME: &str = "AesCbcEssiv";
    const TAKES_PARTS: bool = false;
    const EMPTY: Self = Self { data: PortableAes::EMPTY, ivs: PortableAes::EMPTY };

    fn expand(&mut self, key: &[u8], _: &MapperOptions) -> Result<(), KeyError> {
        let mut digest = sha2::Sha256::digest(key);
        let both = self.data.expand(key).and_then(|()| self.ivs.expand(&digest));
        atrest_secret::wipe(&mut digest);
        if both.is_none() {
            self.data.wipe();
            self.ivs.wipe();
            return Err(KeyError::Length { len: key.len() });
        }
        Ok(())
    }

    fn run(&self, direction: Direction, position: Position, run: Run<'_>) {
        let rule = TweakRule::Encrypted(NumberForm::Plain64, &self.ivs);
        let units = Units::new(rule, position.number, position.step, position.unit_blocks);
        self.data.cbc(direction, units, run);
    }
}
