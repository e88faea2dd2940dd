//! Twofish: 64 blocks at once where the CPU has the instructions, otherwise each by tables.

#[cfg(target_arch = "x86_64")]
use super::masks;
#[cfg(target_arch = "x86_64")]
use super::planes::Wide;
use super::vectors::VectorChoice;
use crate::block::{Block, BlockCipher, Direction};
use crate::twofish::Keyed;
#[cfg(target_arch = "x86_64")]
use crate::twofish::Tables;

/// A keyed Twofish. Wipes itself on drop.
pub(crate) struct Twofish {
    keyed: Keyed,
    #[cfg(target_arch = "x86_64")]
    wide: Option<Wide<Tables>>,
}

impl Twofish {
    /// Expands a key of 16, 24 or 32 bytes; `None` for other lengths.
    pub(crate) fn new(key: &[u8], #[allow(unused_variables)] vectors: VectorChoice) -> Option<Self> {
        let keyed = Keyed::new(key)?;
        Some(Self {
            #[cfg(target_arch = "x86_64")]
            wide: Wide::new(vectors, || Some(keyed.tables())),
            keyed,
        })
    }
}

impl BlockCipher for Twofish {
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
            Some(wide) => wide.planes.twofish((self.keyed.subkeys(), &wide.tables), direction, blocks),
            None => blocks,
        };
        self.keyed.apply(direction, blocks);
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for Twofish {
    fn drop(&mut self) {
        use zeroize::Zeroize;
        if let Some(wide) = &mut self.wide {
            wide.tables.zeroize();
        }
    }
}
