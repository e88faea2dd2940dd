//! Implementations of AES and of what wide-block ciphers put around it, one file per instruction set, and the choice
//! between them.
//!
//! This is the only module with `unsafe`. A [`BackendChoice`] is a proof: the ones that need CPU features are built by
//! detection only, so holding one makes the calls behind it sound. It is made once, when a key is set up.

#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
#[allow(unsafe_code)]
mod aegis;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod aesni;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
#[allow(unsafe_code)]
mod armv8;
#[cfg(feature = "camellia")]
mod camellia;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod cpu;
pub(crate) mod hardware;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
#[allow(unsafe_code)]
pub(crate) mod lanes;
#[cfg(all(any(feature = "camellia", feature = "serpent", feature = "twofish"), target_arch = "x86_64"))]
#[allow(unsafe_code)]
mod masks;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
#[allow(unsafe_code)]
mod multiplier;
#[cfg(all(any(feature = "camellia", feature = "twofish"), target_arch = "x86_64"))]
#[allow(unsafe_code)]
mod planes;
pub(crate) mod polyval;
#[allow(unsafe_code)]
pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod powers;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
#[allow(unsafe_code)]
mod register;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod rounds;
mod schedule;
#[cfg(feature = "serpent")]
mod serpent;
#[cfg(feature = "sha2")]
mod sha;
#[cfg(feature = "twofish")]
mod twofish;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod vaes;
mod vectors;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
#[allow(unsafe_code)]
mod wide;

#[cfg(feature = "camellia")]
pub(crate) use camellia::Camellia;
pub(crate) use hardware::{AnyAes, Kind, MadeOfAes, VectorKind, for_any_aes, make_with_aes};
pub(crate) use polyval::PolyvalKey;
pub(crate) use portable::PortableAes;
#[cfg(feature = "serpent")]
pub(crate) use serpent::Serpent;
#[cfg(feature = "sha2")]
pub(crate) use sha::ShaVectors;
#[cfg(feature = "twofish")]
pub(crate) use twofish::Twofish;
pub use vectors::VectorChoice;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
pub(crate) use wide::Wide;

use self::hardware::for_any_kind;
use crate::aegis::Job;

/// An implementation of AES that this CPU can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendChoice(Kind);

impl BackendChoice {
    /// Constant-time code for any CPU.
    pub const fn portable() -> Self {
        Self(Kind::Portable)
    }

    /// The fastest of [`BackendChoice::detected`].
    pub fn best() -> Self {
        Self::detected().next().unwrap_or(Self::portable())
    }

    /// Everything this CPU can run, fastest first. The portable one is always there.
    pub fn detected() -> impl Iterator<Item = Self> {
        Kind::detected().map(Self)
    }

    /// The detected backend of that name, as [`BackendChoice::name`] prints it.
    pub fn named(name: &str) -> Option<Self> {
        Self::detected().find(|choice| choice.name() == name)
    }

    /// The ARMv8 Cryptography Extension on the caller's word, for systems that this crate can't ask.
    ///
    /// # Safety
    ///
    /// The CPU has Advanced SIMD and the AES instructions, and they are enabled.
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    #[allow(unsafe_code)]
    pub const unsafe fn assume_armv8_ce() -> Self {
        // SAFETY: the caller's word.
        Self(Kind::ArmCe(unsafe { armv8::ArmCe::assume() }))
    }

    /// A short name: `portable`; on x86-64 `vaes-512`, `vaes-256`, `aes-ni`, or `aes-ni-sse` on a CPU without AVX; on
    /// aarch64 `armv8-ce`.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    pub(crate) fn kind(self) -> Kind {
        self.0
    }

    /// Encrypts or decrypts the units of a job with AEGIS in place, and makes their tags.
    pub(crate) fn aegis<const N: usize, const OPEN: bool>(self, job: Job<'_, N>) {
        for_any_kind!(self, cpu => aegis::Aegis::aegis::<N, OPEN>(cpu, job), {
            crate::aegis::portable::<N, OPEN>(job, portable::rounds)
        })
    }
}
