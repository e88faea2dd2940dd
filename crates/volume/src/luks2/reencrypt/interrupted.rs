//! Whether a re-encryption stopped in the middle of a zone.

use crate::luks2::Luks2;

impl Luks2 {
    /// Whether a re-encryption that can be resumed here was interrupted in the middle of a zone: that zone has to be completed before
    /// anything else can be read there.
    pub fn is_interrupted(&self) -> bool {
        self.metadata().reencryption().is_ok_and(|state| state.hot.is_some())
    }
}
