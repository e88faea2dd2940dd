//! The choice between vector instruction sets for what surrounds AES in wide-block ciphers.

use super::hardware::VectorKind;

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

    pub(crate) fn kind(self) -> VectorKind {
        self.0
    }
}
