//! Data units with something beside each: a tag that authenticates it, a random IV, or a checksum.
//!
//! Where they lie on the media, and how both get there together, is not known here.

use crate::run::{DataUnitIndex, RunError};

/// What lies between data units and the media, where each unit has bytes of its own beside it: its *tag*, as dm-integrity calls all
/// of them.
///
/// A run is a whole number of data units, and its tags lie one behind the other in the units' order: `units * tag_len` bytes. The end
/// of a tag is the random IV, where there is one. Implementations wipe their keys when they are dropped, and are used by several threads
/// at once.
pub trait Tagged: Send + Sync {
    /// Bytes in a data unit: 512, 1024, 2048 or 4096.
    fn data_unit(&self) -> usize;

    /// Bytes beside each data unit.
    fn tag_len(&self) -> usize;

    /// Bytes at the end of each tag that the caller fills with fresh random bytes before [`seal`](Self::seal).
    fn random_len(&self) -> usize;

    /// Encrypts a run in place, where there is a cipher, and makes the tags. The last [`random_len`](Self::random_len) bytes of each tag
    /// are the caller's.
    ///
    /// # Errors
    /// [`RunError::PartialDataUnit`] if the run is no whole number of data units, [`RunError::LengthMismatch`] if the tags are not as
    /// long as this many units want. Nothing was written then.
    fn seal(&self, first: DataUnitIndex, run: &mut [u8], tags: &mut [u8]) -> Result<(), RunError>;

    /// Checks a run, and decrypts it in place where there is a cipher. `forged` hears of each unit whose tag does not fit, in order; such
    /// a unit is zeros then, never plaintext.
    ///
    /// # Errors
    /// Those of [`seal`](Self::seal).
    fn open(
        &self,
        first: DataUnitIndex,
        run: &mut [u8],
        tags: &[u8],
        forged: &mut dyn FnMut(DataUnitIndex),
    ) -> Result<(), RunError>;
}
