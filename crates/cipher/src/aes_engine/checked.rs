//! An engine that has to show first that it does what software does: a peripheral that is clocked wrongly, a driver for another
//! revision of a chip, or DMA to where it does not reach, are found before anything is written with them.

use core::fmt;

use atrest_secret::{constant_time_eq, wipe};

use super::{AesEngine, AsyncAesEngine, SoftwareEngine, XtsKey};
use crate::block::{Block, Direction};
use crate::key_error::KeyError;
use crate::options::MapperOptions;

/// An engine whose first results after each start are compared with those of software: `N` cipher blocks encrypted with the data
/// key, as many decrypted, and as many tweaks. By default that is a data unit of 512 bytes of each.
///
/// After a difference nothing goes through any more. When all three have been compared, the software's copy of the keys is wiped.
///
/// ```
/// use atrest_cipher::{CheckedEngine, EngineXts, MapperOptions, SharedEngineXts, SoftwareEngine};
///
/// # fn example(key: &[u8; 32]) -> Result<(), atrest_cipher::KeyError> {
/// let options = MapperOptions::default();
/// let peripheral = SoftwareEngine::new(key, &options)?; // your chip's, in earnest
/// let engine = CheckedEngine::<_>::new(peripheral, key, &options)?;
/// let cipher = SharedEngineXts::<_, 8>::new(EngineXts::new(engine, &options)?); // for CryptFlash
/// # Ok(())
/// # }
/// # example(&core::array::from_fn(|i| i as u8)).unwrap();
/// ```
pub struct CheckedEngine<E, const N: usize = 32> {
    engine: E,
    check: Check<N>,
}

/// What is left to be compared.
struct Check<const N: usize> {
    software: SoftwareEngine,
    /// Blocks of each [`kind`].
    left: [usize; KINDS],
    /// What software makes of the blocks that the engine has. Zeros between calls.
    room: [Block; N],
    has_differed: bool,
}

/// Why a checked engine did not encrypt or decrypt.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckedEngineError<E> {
    /// The engine failed.
    Engine(E),
    /// The engine does not compute AES, or not with this key. It is not asked again.
    Differs,
}

impl<E, const N: usize> CheckedEngine<E, N> {
    /// Compares an engine with software. The key is the engine's: that of the data, then one of the same length for the tweaks.
    ///
    /// # Errors
    ///
    /// * [`KeyError::Length`] if AES takes no two keys of half this length.
    /// * [`KeyError::EqualXtsHalves`] if both halves are the same and the options do not allow that.
    pub fn new(engine: E, key: &[u8], options: &MapperOptions) -> Result<Self, KeyError> {
        const { assert!(N > 0, "there is nothing to compare") };
        let software = SoftwareEngine::new(key, options)?;
        let check = Check { software, left: [N; KINDS], room: [[0; 16]; N], has_differed: false };
        Ok(Self { engine, check })
    }

    /// Whether all that is to be compared has been, and was the same.
    pub fn is_checked(&self) -> bool {
        !self.check.has_differed && self.check.left == [0; KINDS]
    }

    /// Gives the engine back.
    pub fn into_engine(self) -> E {
        self.engine
    }
}

impl<E: AesEngine, const N: usize> AesEngine for CheckedEngine<E, N> {
    const ALIGNMENT: usize = E::ALIGNMENT;

    type Error = CheckedEngineError<E::Error>;

    fn apply(&mut self, key: XtsKey, direction: Direction, blocks: &mut [Block]) -> Result<(), Self::Error> {
        let expected = self.check.expect(key, direction, blocks)?;
        self.engine.apply(key, direction, blocks).map_err(CheckedEngineError::Engine)?;
        expected.compare(blocks)
    }
}

impl<E: AsyncAesEngine, const N: usize> AsyncAesEngine for CheckedEngine<E, N> {
    const ALIGNMENT: usize = E::ALIGNMENT;

    type Error = CheckedEngineError<E::Error>;

    async fn apply(
        &mut self,
        key: XtsKey,
        direction: Direction,
        blocks: &mut [Block],
    ) -> Result<(), Self::Error> {
        let expected = self.check.expect(key, direction, blocks)?;
        self.engine.apply(key, direction, blocks).await.map_err(CheckedEngineError::Engine)?;
        expected.compare(blocks)
    }
}

const KINDS: usize = 3;

/// What is compared by itself: peripherals have a key schedule, and often an error, of their own for each.
fn kind(key: XtsKey, direction: Direction) -> usize {
    match (key, direction) {
        (XtsKey::Data, Direction::Encrypt) => 0,
        (XtsKey::Data, Direction::Decrypt) => 1,
        (XtsKey::Tweak, _) => 2,
    }
}

impl<const N: usize> Check<N> {
    /// Computes what an engine is to make of the first blocks.
    fn expect<E>(
        &mut self,
        key: XtsKey,
        direction: Direction,
        blocks: &[Block],
    ) -> Result<Expected<'_, N>, CheckedEngineError<E>> {
        if self.has_differed {
            return Err(CheckedEngineError::Differs);
        }
        let kind = kind(key, direction);
        let compared = self.left[kind].min(blocks.len());
        let room = &mut self.room[..compared];
        room.copy_from_slice(&blocks[..compared]);
        let Ok(()) = self.software.apply(key, direction, room);
        Ok(Expected { check: self, kind, compared })
    }
}

/// What the engine is to make of the blocks that it has. Wiped when dropped, whether it was compared or nobody waited for the engine.
struct Expected<'a, const N: usize> {
    check: &'a mut Check<N>,
    kind: usize,
    compared: usize,
}

impl<const N: usize> Expected<'_, N> {
    fn compare<E>(self, blocks: &mut [Block]) -> Result<(), CheckedEngineError<E>> {
        let expected = self.check.room[..self.compared].as_flattened();
        if !constant_time_eq(expected, blocks[..self.compared].as_flattened()) {
            self.check.has_differed = true;
            wipe(blocks.as_flattened_mut());
            return Err(CheckedEngineError::Differs);
        }
        self.check.left[self.kind] -= self.compared;
        if self.compared > 0 && self.check.left == [0; KINDS] {
            self.check.software.wipe();
        }
        Ok(())
    }
}

impl<const N: usize> Drop for Expected<'_, N> {
    fn drop(&mut self) {
        wipe(self.check.room[..self.compared].as_flattened_mut());
    }
}

impl<E, const N: usize> fmt::Debug for CheckedEngine<E, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedEngine").field("is_checked", &self.is_checked()).finish_non_exhaustive()
    }
}

impl<E: fmt::Display> fmt::Display for CheckedEngineError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => error.fmt(f),
            Self::Differs => f.write_str("the AES engine computes something else than AES with this key"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for CheckedEngineError<E> {}
