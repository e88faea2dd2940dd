//! The choice between vector instruction sets for what surrounds AES in wide-block ciphers.

#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
use super::lanes;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
use super::lanes::Neon;
#[cfg(target_arch = "x86_64")]
use super::lanes::{Avx2, Avx512, Sse2};

/// Vector instructions that this CPU can run. Like [`crate::BackendChoice`] a proof, which detection alone can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorChoice(VectorKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VectorKind {
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

impl VectorChoice {
    /// No vectors, for any CPU.
    pub const fn portable() -> Self {
        Self(VectorKind::Portable)
    }

    /// The fastest of [`VectorChoice::detected`].
    pub fn best() -> Self {
        Self::detected().next().unwrap_or(Self::portable())
    }

    /// Everything this CPU can run, fastest first. The portable one is always there.
    pub fn detected() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let fast = [
            lanes::detect_avx512().map(VectorKind::Avx512),
            lanes::detect_avx2().map(VectorKind::Avx2),
            Some(VectorKind::Sse2(Sse2::of_every_cpu())),
        ];
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        let fast = [lanes::detect_neon().map(VectorKind::Neon)];
        #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
        let fast: [Option<VectorKind>; 0] = [];
        fast.into_iter().flatten().chain([VectorKind::Portable]).map(Self)
    }

    /// The detected choice of that name, as [`VectorChoice::name`] prints it.
    pub fn named(name: &str) -> Option<Self> {
        Self::detected().find(|choice| choice.name() == name)
    }

    /// A short name: `portable`, `sse2`, `avx2`, `avx512`, `neon`.
    pub fn name(self) -> &'static str {
        match self.0 {
            VectorKind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            VectorKind::Sse2(_) => "sse2",
            #[cfg(target_arch = "x86_64")]
            VectorKind::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            VectorKind::Avx512(_) => "avx512",
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            VectorKind::Neon(_) => "neon",
        }
    }

    pub(crate) fn kind(self) -> VectorKind {
        self.0
    }
}
