//! PBKDF2-HMAC-SHA256 on several output blocks side by side, one file per instruction set, and the choice between them.
//!
//! The output blocks of PBKDF2 (RFC 8018, section 5.2) do not depend on each other. One block is a chain that leaves
//! most of a CPU idle; two fill it, and a keyslot of 64 bytes has two. In the chain every message is a digest and
//! the same padding, so that it stays in registers from the first iteration to the last.
//!
//! This is the only module with `unsafe`. A [`Sha256Backend`] is a proof: the ones that need CPU features are built by
//! detection only, so holding one makes the calls behind it sound.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod cpu;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod lanes;
mod portable;
#[cfg(target_arch = "x86_64")]
pub(crate) mod sha512;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod sha_ni;

#[cfg(target_arch = "x86_64")]
pub(crate) use lanes::Sha512Lanes;
#[cfg(all(
    target_arch = "x86_64",
    any(feature = "blake2", feature = "ripemd", feature = "streebog", feature = "whirlpool")
))]
pub(crate) use lanes::beside;

/// A state or digest of SHA-256.
pub(crate) type Words = [u32; 8];

/// Most output blocks that any hash works on side by side.
pub(crate) const MOST_BLOCKS: usize = if cfg!(all(target_arch = "x86_64", feature = "ripemd")) {
    10
} else if cfg!(all(target_arch = "x86_64", feature = "blake2")) {
    6
} else {
    MAX_BLOCKS
};

/// Most output blocks that SHA-256 works on side by side.
pub(crate) const MAX_BLOCKS: usize = if cfg!(target_arch = "x86_64") {
    4
} else if cfg!(target_pointer_width = "64") {
    2
} else {
    // A microcontroller does one thing at a time, and the second block's state would be its stack.
    1
};

/// The states of HMAC-SHA256 after its inner and its outer key block.
pub(crate) struct Keyed {
    pub(crate) inner: Words,
    pub(crate) outer: Words,
}

/// An implementation of iterated HMAC-SHA256 that this CPU can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sha256Backend(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    ShaNi(sha_ni::ShaNi),
    #[cfg(target_arch = "x86_64")]
    Avx512(lanes::Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx(lanes::Avx),
}

impl Sha256Backend {
    /// Code for any CPU.
    pub const fn portable() -> Self {
        Self(Kind::Portable)
    }

    /// The fastest of [`Sha256Backend::detected`].
    pub fn best() -> Self {
        Self::detected().next().unwrap_or(Self::portable())
    }

    /// Everything this CPU can run, fastest first. The portable one is always there.
    pub fn detected() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let fast = {
            let cpu = cpu::Cpu::ask();
            [
                sha_ni::detect(cpu).map(Kind::ShaNi),
                lanes::detect_avx512(cpu).map(Kind::Avx512),
                lanes::detect_avx(cpu).map(Kind::Avx),
            ]
        };
        #[cfg(not(target_arch = "x86_64"))]
        let fast: [Option<Kind>; 0] = [];
        fast.into_iter().flatten().chain([Kind::Portable]).map(Self)
    }

    /// The detected backend of that name, as [`Sha256Backend::name`] prints it.
    pub fn named(name: &str) -> Option<Self> {
        Self::detected().find(|backend| backend.name() == name)
    }

    /// A short name: `portable`; on x86-64 `sha-ni`, `avx512-lanes` or `avx-lanes`.
    pub const fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::ShaNi(_) => "sha-ni",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(_) => "avx512-lanes",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx(_) => "avx-lanes",
        }
    }

    /// Replaces each of `u` by what `count` runs of HMAC make of it, and XORs what each run yields to its `t`.
    /// There are as many of `t` as of `u`, at most [`MAX_BLOCKS`].
    pub(crate) fn iterate(self, key: &Keyed, u: &mut [Words], t: &mut [Words], count: u32) {
        debug_assert!(u.len() == t.len() && u.len() <= MAX_BLOCKS);
        match self.0 {
            Kind::Portable => portable::iterate(key, u, t, count),
            #[cfg(target_arch = "x86_64")]
            Kind::ShaNi(proof) => proof.iterate(key, u, t, count),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(proof) => proof.iterate(key, u, t, count),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx(proof) => proof.iterate(key, u, t, count),
        }
    }
}

/// The second half of every message: padding of 32 bytes after a key block of 64 (FIPS 180-4, section 5.1.1).
const PADDING: Words = [0x8000_0000, 0, 0, 0, 0, 0, 0, (64 + 32) * 8];

/// FIPS 180-4, section 4.2.2.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];
