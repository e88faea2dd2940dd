//! The choice between vector instruction sets for what surrounds AES in wide-block ciphers.

use super::hardware::{VectorKind, for_any_vectors};
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
use super::lanes;
use crate::block::{BlockCipher, Direction};
use crate::chacha::StreamKey;
use crate::chacha_poly;
use crate::mode::adiantum::{self, AdiantumBackend, HashKeys};
use crate::mode::stream::{self, StreamBackend};
use crate::run::Run;
use crate::tweak::Units;

/// Vector instructions that this CPU can run. Like [`crate::BackendChoice`] a proof, which detection alone can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorChoice(VectorKind);

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
        VectorKind::detected().map(Self)
    }

    /// The detected choice of that name, as [`VectorChoice::name`] prints it.
    pub fn named(name: &str) -> Option<Self> {
        Self::detected().find(|choice| choice.name() == name)
    }

    /// A short name: `portable`, `sse2`, `avx2`, `avx512`, `avx512-ifma`, `neon`.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Whether AVX-512 is part of it.
    #[cfg(all(target_arch = "x86_64", any(feature = "camellia", feature = "twofish")))]
    pub(crate) fn has_avx512(self) -> bool {
        matches!(self.0, VectorKind::Avx512(_) | VectorKind::Avx512Ifma(_))
    }

    pub(crate) fn kind(self) -> VectorKind {
        self.0
    }
}

impl AdiantumBackend for VectorChoice {
    fn run<C: BlockCipher>(
        self,
        keys: (&StreamKey, &HashKeys),
        cipher: &C,
        direction: Direction,
        units: Units<'_, C>,
        run: Run<'_>,
    ) {
        for_any_vectors!(self, cpu => lanes::run::run(cpu, keys, cipher, direction, units, run), {
            adiantum::portable_run(keys, cipher, direction, units, run)
        })
    }

    fn unit<C: BlockCipher>(
        self,
        keys: (&StreamKey, &HashKeys),
        cipher: &C,
        direction: Direction,
        tweak: &[u8],
        unit: &mut [u8],
    ) {
        for_any_vectors!(self, cpu => lanes::run::unit(cpu, keys, cipher, direction, tweak, unit), {
            adiantum::portable_unit(keys, cipher, direction, tweak, unit)
        })
    }
}

impl StreamBackend for VectorChoice {
    fn stream(
        self,
        key: &StreamKey,
        unit_blocks: usize,
        nonce: impl Fn(usize) -> [u8; stream::IV_LEN],
        run: Run<'_>,
    ) {
        for_any_vectors!(self, cpu => lanes::run::stream(cpu, key, unit_blocks, nonce, run), {
            stream::portable(key, unit_blocks, nonce, run)
        })
    }
}

impl VectorChoice {
    /// ChaCha20 and Poly1305 over data units.
    pub(crate) fn chacha_poly(self, job: chacha_poly::Job<'_>) {
        for_any_vectors!(self, cpu => lanes::run::chacha_poly(cpu, job), { chacha_poly::portable(job) })
    }
}
