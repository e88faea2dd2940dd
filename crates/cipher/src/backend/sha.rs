//! SHA-2 of many messages at once, where vector instructions make it faster than one after the other.

#[cfg(target_arch = "x86_64")]
use super::hardware::VectorKind;
#[cfg(target_arch = "x86_64")]
use super::lanes::{
    Avx2, Avx512,
    sha2::{Messages, ShaInstructions},
};
use super::vectors::VectorChoice;
use crate::sha2_pads::{Pads, Sha2};
use crate::tweak::Associated;

/// HMAC with SHA-2 by vectors. A proof, as [`VectorChoice`] is one.
#[derive(Clone, Copy)]
pub(crate) struct ShaVectors {
    cpu: Cpu,
    #[cfg(target_arch = "x86_64")]
    sha: Sha2,
    /// From how many messages on they are faster than the library, which takes one after the other.
    from: usize,
}

#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
enum Cpu {
    Avx512(Avx512),
    Avx2(Avx2),
}

/// There are none.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy)]
enum Cpu {}

impl ShaVectors {
    /// Those of a choice, if it has any that are worth it.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn of(choice: VectorChoice, sha: Sha2) -> Option<Self> {
        let (cpu, from) = match (choice.kind(), sha) {
            (VectorKind::Avx512Ifma(_) | VectorKind::Avx512(_), sha) => {
                let from = if sha == Sha2::Sha256 && super::cpu::Cpu::ask().has_sha() { 7 } else { 3 };
                (Cpu::Avx512(Avx512::detect()?), from)
            }
            (VectorKind::Avx2(_), Sha2::Sha256) if super::cpu::Cpu::ask().has_sha() => return None,
            (VectorKind::Avx2(cpu), _) => (Cpu::Avx2(cpu), 3),
            (VectorKind::Sse2(_) | VectorKind::Portable, _) => return None,
        };
        Some(Self { cpu, sha, from })
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn of(_: VectorChoice, _: Sha2) -> Option<Self> {
        None
    }

    /// Of so many messages, those that are worth it: all, or all but some at the end.
    pub(crate) fn worth(self, messages: usize) -> usize {
        let rest = messages % self.lanes();
        if rest < self.from { messages - rest } else { messages }
    }

    fn lanes(self) -> usize {
        #[cfg(target_arch = "x86_64")]
        match (self.cpu, self.sha) {
            (Cpu::Avx512(_), Sha2::Sha256) => 16,
            (Cpu::Avx512(_), Sha2::Sha512) | (Cpu::Avx2(_), Sha2::Sha256) => 8,
            (Cpu::Avx2(_), Sha2::Sha512) => 4,
        }
        #[cfg(not(target_arch = "x86_64"))]
        match self.cpu {}
    }

    /// Writes the MAC of each unit of `unit` bytes, a multiple of 128, to the start of its tag.
    pub(crate) fn hmac(
        self,
        pads: &Pads,
        (data, unit): (&[u8], usize),
        associated: &[Associated],
        tags: &mut [[u8; 64]],
    ) {
        #[cfg(target_arch = "x86_64")]
        {
            let messages = Messages { data, unit, associated };
            match self.cpu {
                Cpu::Avx512(cpu) => cpu.hmac(self.sha, pads, messages, tags),
                Cpu::Avx2(cpu) => cpu.hmac(self.sha, pads, messages, tags),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (pads, data, unit, associated, tags);
            match self.cpu {}
        }
    }
}
