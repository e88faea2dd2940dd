//! Whether there is a carry-less multiplier, which is a CPU feature of its own beside AES.

/// Proof that the CPU has a carry-less multiplier: PCLMULQDQ on x86-64, PMULL on aarch64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Multiplier(());

impl Multiplier {
    /// Asks the CPU, or whoever knows.
    pub(crate) fn detect() -> Option<Self> {
        is_there().then_some(Self(()))
    }
}

#[cfg(target_arch = "x86_64")]
fn is_there() -> bool {
    crate::backend::cpu::Cpu::ask().pclmul
}

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
fn is_there() -> bool {
    // To the compiler, the feature `aes` includes PMULL.
    if cfg!(all(target_feature = "neon", target_feature = "aes")) {
        return true;
    }
    #[cfg(all(feature = "std", not(target_os = "none")))]
    if std::arch::is_aarch64_feature_detected!("pmull") {
        return true;
    }
    false
}

#[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
fn is_there() -> bool {
    false
}
