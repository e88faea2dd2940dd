//! An engine for chips that have none, and for tests.

use core::convert::Infallible;
use core::fmt;

use super::{AesEngine, XtsKey};
use crate::alone::XtsPair;
use crate::backend::PortableAes;
use crate::block::{BlockCipher, Direction};
use crate::key_error::KeyError;
use crate::options::MapperOptions;

/// AES in constant-time code for any CPU. Wipes itself on drop.
pub struct SoftwareEngine(XtsPair<PortableAes>);

impl SoftwareEngine {
    /// Expands a key: that of the data, then one of the same length for the tweaks (32, 48 or 64 bytes in all). Of the
    /// options, that about equal halves counts.
    ///
    /// # Errors
    ///
    /// * [`KeyError::Length`] if AES takes no two keys of half this length.
    /// * [`KeyError::EqualXtsHalves`] if both halves are the same and the options do not allow that.
    pub fn new(key: &[u8], options: &MapperOptions) -> Result<Self, KeyError> {
        let mut pair = XtsPair::EMPTY;
        pair.expand(key, options)?;
        Ok(Self(pair))
    }

    /// Wipes the keys. What is encrypted afterwards is worthless.
    pub(super) fn wipe(&mut self) {
        self.0.data.wipe();
        self.0.tweak.wipe();
    }
}

impl AesEngine for SoftwareEngine {
    const ALIGNMENT: usize = 1;

    type Error = Infallible;

    fn apply(
        &mut self,
        key: XtsKey,
        direction: Direction,
        blocks: &mut [[u8; 16]],
    ) -> Result<(), Infallible> {
        match key {
            XtsKey::Data => self.0.data.apply(direction, blocks),
            XtsKey::Tweak => self.0.tweak.apply(direction, blocks),
        }
        Ok(())
    }
}

impl fmt::Debug for SoftwareEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SoftwareEngine(..)")
    }
}
