//! Serpent by whatever vector instructions there are.

use super::hardware::VectorKind;
#[cfg(target_arch = "aarch64")]
use super::lanes::Neon;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
use super::lanes::serpent::SerpentInstructions;
#[cfg(target_arch = "x86_64")]
use super::lanes::{Avx2, Avx512, Sse2};
#[cfg(target_arch = "x86_64")]
use super::masks::{self, Masks};
use super::vectors::VectorChoice;
use crate::block::{Block, BlockCipher, Direction};
use crate::serpent::Keys;

/// A keyed Serpent.
pub(crate) struct Serpent {
    keys: Keys,
    cpu: Cpu,
    /// Where 64 blocks at once are faster than few.
    #[cfg(target_arch = "x86_64")]
    masks: Option<Masks>,
}

/// The instructions for it: the proof that the CPU has them. What only Poly1305 has a use for is left out.
enum Cpu {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Sse2(Sse2),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    Neon(Neon),
}

impl Serpent {
    /// Expands a key of 16 to 32 bytes; `None` for other lengths.
    pub(crate) fn new(key: &[u8], vectors: VectorChoice) -> Option<Self> {
        let cpu = match vectors.kind() {
            VectorKind::Portable => Cpu::Portable,
            #[cfg(target_arch = "x86_64")]
            VectorKind::Sse2(cpu) => Cpu::Sse2(cpu),
            #[cfg(target_arch = "x86_64")]
            VectorKind::Avx2(cpu) => Cpu::Avx2(cpu),
            #[cfg(target_arch = "x86_64")]
            VectorKind::Avx512(cpu) => Cpu::Avx512(cpu),
            #[cfg(target_arch = "x86_64")]
            VectorKind::Avx512Ifma(_) => Cpu::Avx512(Avx512::detect()?),
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            VectorKind::Neon(cpu) => Cpu::Neon(cpu),
        };
        Some(Self {
            keys: Keys::new(key)?,
            #[cfg(target_arch = "x86_64")]
            masks: if matches!(cpu, Cpu::Avx512(_)) { Masks::detect() } else { None },
            cpu,
        })
    }
}

impl BlockCipher for Serpent {
    fn is_constant_time(&self) -> bool {
        true
    }

    #[cfg(target_arch = "x86_64")]
    fn is_wide(&self) -> bool {
        self.masks.is_some()
    }

    #[cfg(target_arch = "x86_64")]
    fn mask(&self, blocks: &mut [Block], masks: &[Block]) {
        masks::mask(self.masks, blocks, masks);
    }

    #[cfg(target_arch = "x86_64")]
    fn doublings(&self, first: u128, to: &mut [Block]) -> u128 {
        masks::doublings(self.masks, first, to)
    }

    fn encrypt(&self, blocks: &mut [Block]) {
        self.apply(Direction::Encrypt, blocks);
    }

    fn decrypt(&self, blocks: &mut [Block]) {
        self.apply(Direction::Decrypt, blocks);
    }

    fn apply(&self, direction: Direction, blocks: &mut [Block]) {
        match (&self.cpu, blocks.len()) {
            #[allow(unreachable_patterns, reason = "where there are no vectors")]
            (Cpu::Portable, _) | (_, 1) => {
                for block in blocks {
                    match direction {
                        Direction::Encrypt => self.keys.encrypt(block),
                        Direction::Decrypt => self.keys.decrypt(block),
                    }
                }
            }
            #[cfg(target_arch = "x86_64")]
            (Cpu::Sse2(cpu), _) => cpu.serpent(&self.keys, direction, blocks),
            #[cfg(target_arch = "x86_64")]
            (Cpu::Avx2(cpu), _) => cpu.serpent(&self.keys, direction, blocks),
            #[cfg(target_arch = "x86_64")]
            (Cpu::Avx512(cpu), _) => cpu.serpent(&self.keys, direction, blocks),
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            (Cpu::Neon(cpu), _) => cpu.serpent(&self.keys, direction, blocks),
        }
    }
}
