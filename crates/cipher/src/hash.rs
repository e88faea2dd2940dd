//! The hashes that ESSIV takes, by the kernel's names.

use core::fmt;

use atrest_secret::SecretArray;
use digest::Digest;
use digest::consts::{U16, U20, U28, U32, U48, U64};

/// A hash function of the kernel's crypto API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash(usize);

type Function = fn(&[u8], &mut [u8; Hash::MAX_LEN]);

/// Name, digest length, function. The functions write a digest at the start of the buffer.
const HASHES: [(&str, usize, Function); 25] = [
    ("sha1", 20, run::<sha1::Sha1>),
    ("sha224", 28, run::<sha2::Sha224>),
    ("sha256", 32, run::<sha2::Sha256>),
    ("sha384", 48, run::<sha2::Sha384>),
    ("sha512", 64, run::<sha2::Sha512>),
    ("sha3-224", 28, run::<sha3::Sha3_224>),
    ("sha3-256", 32, run::<sha3::Sha3_256>),
    ("sha3-384", 48, run::<sha3::Sha3_384>),
    ("sha3-512", 64, run::<sha3::Sha3_512>),
    ("rmd128", 16, run::<ripemd::Ripemd128>),
    ("rmd160", 20, run::<ripemd::Ripemd160>),
    ("rmd256", 32, run::<ripemd::Ripemd256>),
    ("rmd320", 40, run::<ripemd::Ripemd320>),
    // wp384 and wp256 are the first 48 and 32 bytes of Whirlpool (kernel crypto/wp512.c).
    ("wp512", 64, run::<whirlpool::Whirlpool>),
    ("wp384", 48, run::<whirlpool::Whirlpool>),
    ("wp256", 32, run::<whirlpool::Whirlpool>),
    ("whirlpool", 64, run::<whirlpool::Whirlpool>),
    ("blake2b-160", 20, run::<blake2::Blake2b<U20>>),
    ("blake2b-256", 32, run::<blake2::Blake2b<U32>>),
    ("blake2b-384", 48, run::<blake2::Blake2b<U48>>),
    ("blake2b-512", 64, run::<blake2::Blake2b<U64>>),
    ("blake2s-128", 16, run::<blake2::Blake2s<U16>>),
    ("blake2s-160", 20, run::<blake2::Blake2s<U20>>),
    ("blake2s-224", 28, run::<blake2::Blake2s<U28>>),
    ("blake2s-256", 32, run::<blake2::Blake2s<U32>>),
];

impl Hash {
    /// Bytes in the longest digest.
    pub(crate) const MAX_LEN: usize = 64;

    /// The hash of that name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        HASHES.iter().position(|(known, ..)| *known == name).map(Self)
    }

    fn entry(self) -> (&'static str, usize, Function) {
        HASHES.get(self.0).copied().unwrap_or(HASHES[0])
    }

    /// The kernel's name.
    pub(crate) fn name(self) -> &'static str {
        self.entry().0
    }

    /// Bytes in a digest.
    pub(crate) fn output_len(self) -> usize {
        self.entry().1
    }

    /// What `make` makes of the digest of `data`, which is wiped after that.
    pub(crate) fn digest_then<T>(self, data: &[u8], make: impl FnOnce(&[u8]) -> T) -> T {
        let mut digest = SecretArray::<{ Self::MAX_LEN }>::zeroed();
        self.digest(data, &mut digest);
        make(&digest[..self.output_len().min(Self::MAX_LEN)])
    }

    /// Hashes `data`; the digest is the first [`Hash::output_len`] bytes of `out`.
    pub(crate) fn digest(self, data: &[u8], out: &mut [u8; Self::MAX_LEN]) {
        self.entry().2(data, out);
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn run<D: Digest>(data: &[u8], out: &mut [u8; Hash::MAX_LEN]) {
    let mut digest = D::digest(data);
    for (to, from) in out.iter_mut().zip(digest.iter()) {
        *to = *from;
    }
    atrest_secret::wipe(&mut digest);
}
