//! HMAC, iterated, with the hashes of TrueCrypt and VeraCrypt beside SHA-2. The 192 bytes of a header are three to ten output blocks, which do
//! not depend on each other: they are lanes of vectors, or vectors that take turns.
#![allow(clippy::needless_range_loop, reason = "constant bounds over several arrays at once, to be unrolled")]

#[cfg(feature = "blake2")]
mod blake2s;
#[cfg(feature = "ripemd")]
mod ripemd160;
#[cfg(any(feature = "streebog", feature = "whirlpool"))]
mod rows;
#[cfg(feature = "streebog")]
mod streebog;
#[cfg(feature = "streebog")]
mod streebog_tables;
#[cfg(feature = "whirlpool")]
mod whirlpool;
#[cfg(any(feature = "blake2", feature = "ripemd"))]
mod words;

use digest::Digest;
use zeroize::Zeroize;

#[cfg(feature = "blake2")]
pub(crate) use blake2s::Blake2s256;
#[cfg(feature = "ripemd")]
pub(crate) use ripemd160::Ripemd160;
#[cfg(feature = "streebog")]
pub(crate) use streebog::Streebog512;
#[cfg(feature = "whirlpool")]
pub(crate) use whirlpool::Whirlpool;

/// Bytes in a block of each of these hashes, and at most in a digest.
pub const BLOCK: usize = 64;

/// The key blocks of HMAC: the key XOR ipad, the key XOR opad. They are hashed again in each call, of which one is thousands of iterations.
pub struct KeyBlocks {
    pub inner: [u8; BLOCK],
    pub outer: [u8; BLOCK],
}

impl Drop for KeyBlocks {
    fn drop(&mut self) {
        self.inner.zeroize();
        self.outer.zeroize();
    }
}

/// A hash that has such an implementation.
pub trait Beside {
    /// The library's.
    type Digest: Digest + Clone;
    /// Output blocks that are worked on at once.
    const WIDTH: usize;
    /// A value says which instructions there are, and is the proof that the CPU has them.
    type Proof: Copy + core::fmt::Debug;

    /// Those that the CPU has, fastest first.
    fn detected() -> impl Iterator<Item = Self::Proof>;

    /// Replaces the digest at the beginning of each of `u` by what `count` runs of HMAC make of it, and XORs what each run yields to its `t`. There are as
    /// many of `t` as of `u`, at most [`Beside::WIDTH`].
    fn iterate(proof: Self::Proof, key: &KeyBlocks, u: &mut [[u8; BLOCK]], t: &mut [[u8; BLOCK]], count: u32);
}
