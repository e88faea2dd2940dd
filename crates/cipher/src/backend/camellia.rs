//! Camellia: 64 blocks at once where the CPU has the instructions, otherwise the library's.

#[cfg(target_arch = "x86_64")]
use super::planes::Planes;
use super::vectors::VectorChoice;
use crate::block::{Block, BlockCipher, Direction};
#[cfg(target_arch = "x86_64")]
use crate::camellia::Schedule;
use crate::library::LibraryCamellia;

/// A keyed Camellia. Wipes itself on drop.
pub(crate) struct Camellia {
    library: LibraryCamellia,
    /// With the schedules of encryption and of decryption.
    #[cfg(target_arch = "x86_64")]
    wide: Option<(Planes, [Schedule; 2])>,
}

impl Camellia {
    /// Expands a key of 16, 24 or 32 bytes; `None` for other lengths.
    pub(crate) fn new(key: &[u8], vectors: VectorChoice) -> Option<Self> {
        let library = LibraryCamellia::new(key)?;
        #[cfg(target_arch = "x86_64")]
        {
            let wide = match vectors.has_avx512().then(Planes::detect).flatten() {
                Some(planes) => Some((planes, Schedule::both(key)?)),
                None => None,
            };
            Some(Self { library, wide })
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = vectors;
            Some(Self { library })
        }
    }
}

impl BlockCipher for Camellia {
    fn is_constant_time(&self) -> bool {
        false
    }

    #[cfg(target_arch = "x86_64")]
    fn is_wide(&self) -> bool {
        self.wide.is_some()
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        self.apply(Direction::Encrypt, blocks);
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        self.apply(Direction::Decrypt, blocks);
    }

    fn apply(&self, direction: Direction, blocks: &mut [Block]) {
        #[cfg(target_arch = "x86_64")]
        let blocks = match (&self.wide, direction) {
            (Some((planes, [forwards, _])), Direction::Encrypt) => planes.camellia(forwards, blocks),
            (Some((planes, [_, backwards])), Direction::Decrypt) => planes.camellia(backwards, blocks),
            (None, _) => blocks,
        };
        self.library.apply(direction, blocks);
    }
}
