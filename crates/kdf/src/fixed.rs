//! Each [`enum@Hash`] as a type. What is generic over one contains that hash alone, which a microcontroller's few kilobytes
//! of flash ask for.

#[cfg(feature = "blake2")]
use blake2::digest::consts::{U16, U20, U28, U32, U48, U64};
use digest::block_api::BlockSizeUser;
use digest::{Digest, FixedOutputReset};

use crate::Hash;
#[cfg(any(feature = "blake2", feature = "ripemd", feature = "streebog", feature = "whirlpool"))]
use crate::pbkdf2::chains;
#[cfg(any(feature = "blake2", feature = "sha3"))]
use crate::pbkdf2::chains::Cloning;
use crate::pbkdf2::chains::{Iterated, Lanes, WideSha512, narrow};

/// One of the types of this module.
pub trait FixedHash: Digests {
    /// The hash that the type names, as a value.
    const HASH: Hash;
}

/// Hashes the concatenation of `parts` with `H`. Writes the first `out.len()` bytes of the digest, or all of it when `out`
/// is longer, and returns how many bytes those are. [`digest`](crate::digest()) takes the hash as a value.
pub fn digest<H: FixedHash>(parts: &[&[u8]], out: &mut [u8]) -> usize {
    let mut state = H::Digest::new();
    for part in parts {
        Digest::update(&mut state, part);
    }
    let mut full = state.finalize();
    let len = out.len().min(full.len());
    out[..len].copy_from_slice(&full[..len]);
    atrest_secret::wipe(&mut full);
    len
}

/// Out of reach from outside, so that no other type can be a [`FixedHash`].
mod sealed {
    use super::{BlockSizeUser, Digest, FixedOutputReset, Iterated};

    /// What computes a hash.
    pub trait Digests {
        /// The hash itself.
        type Digest: Digest + FixedOutputReset + BlockSizeUser + Clone;
        /// HMAC with it, iterated.
        type Chain: Iterated<Self::Digest>;
    }
}
pub(crate) use sealed::Digests;

macro_rules! fixed {
    ($($(#[cfg($($on:tt)*)])? #[doc = $doc:literal] $name:ident: $digest:ty, $chain:ty;)*) => {$(
        $(#[cfg($($on)*)])?
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}

        $(#[cfg($($on)*)])?
        impl FixedHash for $name {
            const HASH: Hash = Hash::$name;
        }

        $(#[cfg($($on)*)])?
        impl Digests for $name {
            type Digest = $digest;
            type Chain = $chain;
        }
    )*};
}

fixed! {
    #[cfg(feature = "sha1")]
    /// SHA-1, 20 bytes. Only for headers that already name it.
    Sha1: sha1::Sha1, narrow::Sha1;
    /// SHA-224, 28 bytes.
    Sha224: sha2::Sha224, narrow::Sha224;
    /// SHA-256, 32 bytes.
    Sha256: sha2::Sha256, Lanes;
    /// SHA-384, 48 bytes.
    Sha384: sha2::Sha384, narrow::Sha384;
    /// SHA-512, 64 bytes.
    Sha512: sha2::Sha512, WideSha512;
    #[cfg(feature = "sha3")]
    /// SHA3-224, 28 bytes.
    Sha3_224: sha3::Sha3_224, Cloning<sha3::Sha3_224>;
    #[cfg(feature = "sha3")]
    /// SHA3-256, 32 bytes.
    Sha3_256: sha3::Sha3_256, Cloning<sha3::Sha3_256>;
    #[cfg(feature = "sha3")]
    /// SHA3-384, 48 bytes.
    Sha3_384: sha3::Sha3_384, Cloning<sha3::Sha3_384>;
    #[cfg(feature = "sha3")]
    /// SHA3-512, 64 bytes.
    Sha3_512: sha3::Sha3_512, Cloning<sha3::Sha3_512>;
    #[cfg(feature = "ripemd")]
    /// RIPEMD-160, 20 bytes.
    Ripemd160: ripemd::Ripemd160, chains::Ripemd160;
    #[cfg(feature = "whirlpool")]
    /// Whirlpool (ISO/IEC 10118-3), 64 bytes.
    Whirlpool: whirlpool::Whirlpool, chains::Whirlpool;
    #[cfg(feature = "streebog")]
    /// Streebog-512 (RFC 6986), 64 bytes.
    Streebog512: streebog::Streebog512, chains::Streebog512;
    #[cfg(feature = "blake2")]
    /// BLAKE2b with 20 bytes of output.
    Blake2b160: blake2::Blake2b<U20>, Cloning<blake2::Blake2b<U20>>;
    #[cfg(feature = "blake2")]
    /// BLAKE2b with 32 bytes of output.
    Blake2b256: blake2::Blake2b<U32>, Cloning<blake2::Blake2b<U32>>;
    #[cfg(feature = "blake2")]
    /// BLAKE2b with 48 bytes of output.
    Blake2b384: blake2::Blake2b<U48>, Cloning<blake2::Blake2b<U48>>;
    #[cfg(feature = "blake2")]
    /// BLAKE2b with 64 bytes of output.
    Blake2b512: blake2::Blake2b<U64>, Cloning<blake2::Blake2b<U64>>;
    #[cfg(feature = "blake2")]
    /// BLAKE2s with 16 bytes of output.
    Blake2s128: blake2::Blake2s<U16>, Cloning<blake2::Blake2s<U16>>;
    #[cfg(feature = "blake2")]
    /// BLAKE2s with 20 bytes of output.
    Blake2s160: blake2::Blake2s<U20>, Cloning<blake2::Blake2s<U20>>;
    #[cfg(feature = "blake2")]
    /// BLAKE2s with 28 bytes of output.
    Blake2s224: blake2::Blake2s<U28>, Cloning<blake2::Blake2s<U28>>;
    #[cfg(feature = "blake2")]
    /// BLAKE2s with 32 bytes of output.
    Blake2s256: blake2::Blake2s<U32>, chains::Blake2s256;
}
