//! AES-XTS alone.

use atrest_secret::constant_time_eq;

use super::{Expand, Plain64};
use crate::backend::{AnyAes, BackendChoice, Kind, MadeOfAes, PortableAes, for_any_aes, make_with_aes};
use crate::block::Direction;
use crate::key_error::KeyError;
use crate::mode::AnyMode;
use crate::mode::xts::{XtsBackend, XtsUnits};
use crate::options::MapperOptions;
use crate::run::{Position, Run};
use crate::tweak::{NumberForm, TweakRule, Units};

/// `aes-xts-plain64`. Its key is that of the data, then one of the same length for the tweaks (32, 48 or 64 bytes in all).
pub type AesXts = Plain64<XtsKeys>;

/// [`AesXts`]'s.
pub struct XtsKeys(AnyAes<Pairs>);

/// The two keys of XTS.
pub(crate) struct XtsPair<C> {
    pub(crate) data: C,
    pub(crate) tweak: C,
}

/// A pair with whichever AES.
struct Pairs;

impl MadeOfAes for Pairs {
    type With<C: AnyMode> = XtsPair<C>;
}

impl Expand for XtsKeys {
    const NAME: &str = "AesXts";
    const TAKES_PARTS: bool = true;
    const EMPTY: Self = Self(AnyAes::Portable(XtsPair::EMPTY));

    fn expand(&mut self, key: &[u8], options: &MapperOptions) -> Result<(), KeyError> {
        let backend = options.backend.unwrap_or_else(BackendChoice::best);
        #[allow(irrefutable_let_patterns, reason = "where there is no other AES")]
        if let (Kind::Portable, AnyAes::Portable(pair)) = (backend.kind(), &mut self.0) {
            return pair.expand(key, options);
        }
        let made = halves(key, options).and_then(|(data, tweak)| {
            let wrong_length = KeyError::Length { len: key.len() };
            Ok(make_with_aes!(backend, expand => XtsPair {
                data: expand(data).ok_or(wrong_length)?,
                tweak: expand(tweak).ok_or(wrong_length)?,
            }))
        });
        self.0 = made.inspect_err(|_| *self = Self::EMPTY)?;
        Ok(())
    }

    fn run(&self, direction: Direction, position: Position, run: Run<'_>) {
        for_any_aes!(&self.0, pair => pair.run(direction, position, run));
    }
}

impl XtsPair<PortableAes> {
    pub(crate) const EMPTY: Self = Self { data: PortableAes::EMPTY, tweak: PortableAes::EMPTY };

    /// Expands both in place. After an error, nothing of a key is left.
    pub(crate) fn expand(&mut self, key: &[u8], options: &MapperOptions) -> Result<(), KeyError> {
        let expanded = halves(key, options).and_then(|(data, tweak)| {
            let both = self.data.expand(data).and_then(|()| self.tweak.expand(tweak));
            both.ok_or(KeyError::Length { len: key.len() })
        });
        if expanded.is_err() {
            self.data.wipe();
            self.tweak.wipe();
        }
        expanded
    }
}

/// The keys of data and tweaks.
fn halves<'a>(key: &'a [u8], options: &MapperOptions) -> Result<(&'a [u8], &'a [u8]), KeyError> {
    if !key.len().is_multiple_of(2) {
        return Err(KeyError::Length { len: key.len() });
    }
    let (data, tweak) = key.split_at(key.len() / 2);
    if !options.allow_equal_xts_halves && constant_time_eq(data, tweak) {
        return Err(KeyError::EqualXtsHalves);
    }
    Ok((data, tweak))
}

impl<C: XtsBackend> XtsPair<C> {
    fn run(&self, direction: Direction, position: Position, run: Run<'_>) {
        let rule = TweakRule::Number(NumberForm::Plain64);
        let units = Units::new(rule, position.number, position.step, position.unit_blocks);
        let units = XtsUnits { tweak_cipher: &self.tweak, units };
        self.data.xts_from(direction, units, position.skipped, run);
    }
}
