//! The hash functions that LUKS headers, keyslots and plain mode name, behind one type.

use core::fmt;

use digest::Digest;

use crate::fixed::Digests;

/// A hash function, chosen at run time by the name in a header.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hash {
    /// SHA-1, 20 bytes. Only for headers that already name it.
    Sha1,
    /// SHA-224, 28 bytes.
    Sha224,
    /// SHA-256, 32 bytes.
    Sha256,
    /// SHA-384, 48 bytes.
    Sha384,
    /// SHA-512, 64 bytes.
    Sha512,
    /// SHA3-224, 28 bytes.
    Sha3_224,
    /// SHA3-256, 32 bytes.
    Sha3_256,
    /// SHA3-384, 48 bytes.
    Sha3_384,
    /// SHA3-512, 64 bytes.
    Sha3_512,
    /// RIPEMD-160, 20 bytes.
    Ripemd160,
    /// Whirlpool (ISO/IEC 10118-3), 64 bytes.
    Whirlpool,
    /// BLAKE2b with 20 bytes of output.
    Blake2b160,
    /// BLAKE2b with 32 bytes of output.
    Blake2b256,
    /// BLAKE2b with 48 bytes of output.
    Blake2b384,
    /// BLAKE2b with 64 bytes of output.
    Blake2b512,
    /// BLAKE2s with 16 bytes of output.
    Blake2s128,
    /// BLAKE2s with 20 bytes of output.
    Blake2s160,
    /// BLAKE2s with 28 bytes of output.
    Blake2s224,
    /// BLAKE2s with 32 bytes of output.
    Blake2s256,
}

/// Runs `$body` with `$H` standing for the [`FixedHash`](crate::fixed::FixedHash) that `$hash` names.
macro_rules! with_hash {
    ($hash:expr, $H:ident => $body:expr) => {
        match $hash {
            $crate::Hash::Sha1 => {
                type $H = $crate::fixed::Sha1;
                $body
            }
            $crate::Hash::Sha224 => {
                type $H = $crate::fixed::Sha224;
                $body
            }
            $crate::Hash::Sha256 => {
                type $H = $crate::fixed::Sha256;
                $body
            }
            $crate::Hash::Sha384 => {
                type $H = $crate::fixed::Sha384;
                $body
            }
            $crate::Hash::Sha512 => {
                type $H = $crate::fixed::Sha512;
                $body
            }
            $crate::Hash::Sha3_224 => {
                type $H = $crate::fixed::Sha3_224;
                $body
            }
            $crate::Hash::Sha3_256 => {
                type $H = $crate::fixed::Sha3_256;
                $body
            }
            $crate::Hash::Sha3_384 => {
                type $H = $crate::fixed::Sha3_384;
                $body
            }
            $crate::Hash::Sha3_512 => {
                type $H = $crate::fixed::Sha3_512;
                $body
            }
            $crate::Hash::Ripemd160 => {
                type $H = $crate::fixed::Ripemd160;
                $body
            }
            $crate::Hash::Whirlpool => {
                type $H = $crate::fixed::Whirlpool;
                $body
            }
            $crate::Hash::Blake2b160 => {
                type $H = $crate::fixed::Blake2b160;
                $body
            }
            $crate::Hash::Blake2b256 => {
                type $H = $crate::fixed::Blake2b256;
                $body
            }
            $crate::Hash::Blake2b384 => {
                type $H = $crate::fixed::Blake2b384;
                $body
            }
            $crate::Hash::Blake2b512 => {
                type $H = $crate::fixed::Blake2b512;
                $body
            }
            $crate::Hash::Blake2s128 => {
                type $H = $crate::fixed::Blake2s128;
                $body
            }
            $crate::Hash::Blake2s160 => {
                type $H = $crate::fixed::Blake2s160;
                $body
            }
            $crate::Hash::Blake2s224 => {
                type $H = $crate::fixed::Blake2s224;
                $body
            }
            $crate::Hash::Blake2s256 => {
                type $H = $crate::fixed::Blake2s256;
                $body
            }
        }
    };
}
pub(crate) use with_hash;

impl Hash {
    /// Every hash, in the order in which a table of them is printed.
    pub const ALL: [Hash; 19] = [
        Hash::Sha1,
        Hash::Sha224,
        Hash::Sha256,
        Hash::Sha384,
        Hash::Sha512,
        Hash::Sha3_224,
        Hash::Sha3_256,
        Hash::Sha3_384,
        Hash::Sha3_512,
        Hash::Ripemd160,
        Hash::Whirlpool,
        Hash::Blake2b160,
        Hash::Blake2b256,
        Hash::Blake2b384,
        Hash::Blake2b512,
        Hash::Blake2s128,
        Hash::Blake2s160,
        Hash::Blake2s224,
        Hash::Blake2s256,
    ];

    /// Longest output of any hash, in bytes.
    pub const MAX_OUTPUT_LEN: usize = 64;

    /// The hash that a header's text names. Case does not matter, as in cryptsetup's cryptographic libraries; the
    /// kernel's `rmd160` and `wp512` and OpenSSL's `blake2b512` and `blake2s256` are accepted beside the usual names.
    pub fn from_name(name: &str) -> Option<Hash> {
        let alias = [
            ("rmd160", Hash::Ripemd160),
            ("wp512", Hash::Whirlpool),
            ("blake2b512", Hash::Blake2b512),
            ("blake2s256", Hash::Blake2s256),
        ];
        Hash::ALL
            .into_iter()
            .map(|hash| (hash.name(), hash))
            .chain(alias)
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, hash)| hash)
    }

    /// The name that cryptsetup writes into headers.
    pub const fn name(self) -> &'static str {
        match self {
            Hash::Sha1 => "sha1",
            Hash::Sha224 => "sha224",
            Hash::Sha256 => "sha256",
            Hash::Sha384 => "sha384",
            Hash::Sha512 => "sha512",
            Hash::Sha3_224 => "sha3-224",
            Hash::Sha3_256 => "sha3-256",
            Hash::Sha3_384 => "sha3-384",
            Hash::Sha3_512 => "sha3-512",
            Hash::Ripemd160 => "ripemd160",
            Hash::Whirlpool => "whirlpool",
            Hash::Blake2b160 => "blake2b-160",
            Hash::Blake2b256 => "blake2b-256",
            Hash::Blake2b384 => "blake2b-384",
            Hash::Blake2b512 => "blake2b-512",
            Hash::Blake2s128 => "blake2s-128",
            Hash::Blake2s160 => "blake2s-160",
            Hash::Blake2s224 => "blake2s-224",
            Hash::Blake2s256 => "blake2s-256",
        }
    }

    /// Bytes of output.
    pub fn output_len(self) -> usize {
        with_hash!(self, H => <H as Digests>::Digest::output_size())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Hashes the concatenation of `parts`. Writes the first `out.len()` bytes of the digest, or all of it when `out` is
/// longer, and returns how many bytes those are.
pub fn digest(hash: Hash, parts: &[&[u8]], out: &mut [u8]) -> usize {
    with_hash!(hash, H => crate::fixed::digest::<H>(parts, out))
}
