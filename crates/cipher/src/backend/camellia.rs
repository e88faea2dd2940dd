//! Camellia: 64 blocks at once where the CPU has the instructions, otherwise the library's.

#[cfg(target_arch = "x86_64")]
use super::masks;
#[cfg(target_arch = "x86_64")]
use super::planes::Wide;
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
    wide: Option<Wide<[Schedule; 2]>>,
}

impl Camellia {
    /// Expands a key of 16, 24 or 32 bytes; `None` for other lengths.
    pub(crate) fn new(key: &[u8], #[allow(unused_variables)] vectors: VectorChoice) -> Option<Self> {
        Some(Self {
            library: LibraryCamellia::new(key)?,
            #[cfg(target_arch = "x86_64")]
            wide: Wide::new(vectors, || Schedule::both(key)),
        })
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

    #[cfg(target_arch = "x86_64")]
    fn mask(&self, blocks: &mut [Block], masks: &[Block]) {
        masks::mask(self.wide.as_ref().map(|wide| wide.masks), blocks, masks);
    }

    #[cfg(target_arch = "x86_64")]
    fn doublings(&self, first: u128, to: &mut [Block]) -> u128 {
        masks::doublings(self.wide.as_ref().map(|wide| wide.masks), first, to)
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        self.apply(Direction::Encrypt, blocks);
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        self.apply(Direction::Decrypt, blocks);
    }

    fn apply(&self, direction: Direction, blocks: &mut [Block]) {
        #[cfg(target_arch = "x86_64")]
        let blocks = match &self.wide {
            Some(wide) => {
                let [forwards, backwards] = &wide.tables;
                let schedule = if direction == Direction::Encrypt { forwards } else { backwards };
                wide.planes.camellia(schedule, blocks)
            }
            None => blocks,
        };
        self.library.apply(direction, blocks);
    }
}
