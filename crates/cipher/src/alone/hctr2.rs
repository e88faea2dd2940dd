//! HCTR2 alone, in code for any CPU.

use super::{Expand, Plain64};
use crate::backend::{PolyvalKey, PortableAes};
use crate::block::Direction;
use crate::key_error::KeyError;
use crate::mode::hctr2::{self, Hctr2Key};
use crate::options::MapperOptions;
use crate::run::{Position, Run};
use crate::tweak::{NumberForm, TweakRule, Units};

/// `aes-hctr2-plain64`. Its key has 16, 24 or 32 bytes.
pub type Hctr2Plain64 = Plain64<Hctr2Keys>;

/// [`Hctr2Plain64`]'s.
pub struct Hctr2Keys {
    cipher: PortableAes,
    key: Hctr2Key<PolyvalKey>,
}

impl Expand for Hctr2Keys {
    const NAME: &str = "Hctr2Plain64";
    const TAKES_PARTS: bool = false;
    const EMPTY: Self = Self { cipher: PortableAes::EMPTY, key: Hctr2Key::EMPTY };

    fn expand(&mut self, key: &[u8], _: &MapperOptions) -> Result<(), KeyError> {
        if self.cipher.expand(key).is_none() {
            self.cipher.wipe();
            self.key.wipe();
            return Err(KeyError::Length { len: key.len() });
        }
        self.key.set(&self.cipher);
        Ok(())
    }

    fn run(&self, direction: Direction, position: Position, run: Run<'_>) {
        let rule = TweakRule::Number(NumberForm::Plain64);
        let units = Units::new(rule, position.number, position.step, position.unit_blocks);
        hctr2::run(&self.cipher, &self.key, direction, units, run);
    }
}
