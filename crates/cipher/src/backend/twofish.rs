//! Twofish: 64 blocks at once where the CPU has the instructions, otherwise each by tables.

#[cfg(target_arch = "x86_64")]
use super::planes::Planes;
use super::vectors::VectorChoice;
use crate::block::{Block, BlockCipher, Direction};
use crate::twofish::Keyed;
#[cfg(target_arch = "x86_64")]
use crate::twofish::Tables;

/// A keyed Twofish. Wipes itself on drop.
pub(crate) struct Twofish {
    keyed: Keyed,
    #[cfg(target_arch = "x86_64")]
    wide: Option<(Planes, Tables)>,
}

impl Twofish {
    /// Expands a key of 16, 24 or 32 bytes; `None` for other lengths.
    pub(crate) fn new(key: &[u8], vectors: VectorChoice) -> Option<Self> {
        let keyed = Keyed::new(key)?;
        #[cfg(target_arch = "x86_64")]
        {
            let planes = vectors.has_avx512().then(Planes::detect).flatten();
            let wide = planes.map(|planes| (planes, keyed.tables()));
            Some(Self { keyed, wide })
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = vectors;
            Some(Self { keyed })
        }
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

    fn encrypt(&self, blocks: &mut [Block]) {
        self.apply(Direction::Encrypt, blocks);
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        self.apply(Direction::Decrypt, blocks);
    }

    fn apply(&self, direction: Direction, blocks: &mut [Block]) {
        #[cfg(target_arch = "x86_64")]
        let blocks = match &self.wide {
            Some((planes, tables)) => planes.twofish((self.keyed.subkeys(), tables), direction, blocks),
            None => blocks,
        };
        self.keyed.apply(direction, blocks);
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for Twofish {
    fn drop(&mut self) {
        use zeroize::Zeroize;
        if let Some((_, tables)) = &mut self.wide {
            tables.zeroize();
        }
    }
}
