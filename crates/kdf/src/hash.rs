//! The hash functions that LUKS headers, keyslots and plain mode name, behind one type.

use core::fmt;

use digest::Digest;

use crate::fixed::Digests;

/// A hash function, chosen at run time by the name in a header.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hash {
    /// SHA-1, 20 bytes. Only for headers that already name it.
    #[cfg(feature = "sha1")]
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
    #[cfg(feature = "sha3")]
    Sha3_224,
    /// SHA3-256, 32 bytes.
    #[cfg(feature = "sha3")]
    Sha3_256,
    /// SHA3-384, 48 bytes.
    #[cfg(feature = "sha3")]
    Sha3_384,
    /// SHA3-512, 64 bytes.
    #[cfg(feature = "sha3")]
    Sha3_512,
    /// RIPEMD-160, 20 bytes.
    #[cfg(feature = "ripemd")]
    Ripemd160,
    /// Whirlpool (ISO/IEC 10118-3), 64 bytes.
    #[cfg(feature = "whirlpool")]
    Whirlpool,
    /// Streebog-512 (RFC 6986), 64 bytes.
    #[cfg(feature = "streebog")]
    Streebog512,
    /// BLAKE2b with 20 bytes of output.
    #[cfg(feature = "blake2")]
    Blake2b160,
    /// BLAKE2b with 32 bytes of output.
    #[cfg(feature = "blake2")]
    Blake2b256,
    /// BLAKE2b with 48 bytes of output.
    #[cfg(feature = "blake2")]
    Blake2b384,
    /// BLAKE2b with 64 bytes of output.
    #[cfg(feature = "blake2")]
    Blake2b512,
    /// BLAKE2s with 16 bytes of output.
    #[cfg(feature = "blake2")]
    Blake2s128,
    /// BLAKE2s with 20 bytes of output.
    #[cfg(feature = "blake2")]
    Blake2s160,
    /// BLAKE2s with 28 bytes of output.
    #[cfg(feature = "blake2")]
    Blake2s224,
    /// BLAKE2s with 32 bytes of output.
    #[cfg(feature = "blake2")]
    Blake2s256,
}

/// Runs `$body` with `$H` standing for the [`FixedHash`](crate::fixed::FixedHash) that `$hash` names.
macro_rules! with_hash {
    ($hash:expr, $H:ident => $body:expr) => {
        match $hash {
            #[cfg(feature = "sha1")]
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
            #[cfg(feature = "sha3")]
            $crate::Hash::Sha3_224 => {
                type $H = $crate::fixed::Sha3_224;
                $body
            }
            #[cfg(feature = "sha3")]
            $crate::Hash::Sha3_256 => {
                type $H = $crate::fixed::Sha3_256;
                $body
            }
            #[cfg(feature = "sha3")]
            $crate::Hash::Sha3_384 => {
                type $H = $crate::fixed::Sha3_384;
                $body
            }
            #[cfg(feature = "sha3")]
            $crate::Hash::Sha3_512 => {
                type $H = $crate::fixed::Sha3_512;
                $body
            }
            #[cfg(feature = "ripemd")]
            $crate::Hash::Ripemd160 => {
                type $H = $crate::fixed::Ripemd160;
                $body
            }
            #[cfg(feature = "whirlpool")]
            $crate::Hash::Whirlpool => {
                type $H = $crate::fixed::Whirlpool;
                $body
            }
            #[cfg(feature = "streebog")]
            $crate::Hash::Streebog512 => {
                type $H = $crate::fixed::Streebog512;
                $body
            }
            #[cfg(feature = "blake2")]
            $crate::Hash::Blake2b160 => {
                type $H = $crate::fixed::Blake2b160;
                $body
            }
            #[cfg(feature = "blake2")]
            $crate::Hash::Blake2b256 => {
                type $H = $crate::fixed::Blake2b256;
                $body
            }
            #[cfg(feature = "blake2")]
            $crate::Hash::Blake2b384 => {
                type $H = $crate::fixed::Blake2b384;
                $body
            }
            #[cfg(feature = "blake2")]
            $crate::Hash::Blake2b512 => {
                type $H = $crate::fixed::Blake2b512;
                $body
            }
            #[cfg(feature = "blake2")]
            $crate::Hash::Blake2s128 => {
                type $H = $crate::fixed::Blake2s128;
                $body
            }
            #[cfg(feature = "blake2")]
            $crate::Hash::Blake2s160 => {
                type $H = $crate::fixed::Blake2s160;
                $body
            }
            #[cfg(feature = "blake2")]
            $crate::Hash::Blake2s224 => {
                type $H = $crate::fixed::Blake2s224;
                $body
            }
            #[cfg(feature = "blake2")]
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
    pub const ALL: [Hash; COUNT] = [
        #[cfg(feature = "sha1")]
        Hash::Sha1,
        Hash::Sha224,
        Hash::Sha256,
        Hash::Sha384,
        Hash::Sha512,
        #[cfg(feature = "sha3")]
        Hash::Sha3_224,
        #[cfg(feature = "sha3")]
        Hash::Sha3_256,
        #[cfg(feature = "sha3")]
        Hash::Sha3_384,
        #[cfg(feature = "sha3")]
        Hash::Sha3_512,
        #[cfg(feature = "ripemd")]
        Hash::Ripemd160,
        #[cfg(feature = "whirlpool")]
        Hash::Whirlpool,
        #[cfg(feature = "streebog")]
        Hash::Streebog512,
        #[cfg(feature = "blake2")]
        Hash::Blake2b160,
        #[cfg(feature = "blake2")]
        Hash::Blake2b256,
        #[cfg(feature = "blake2")]
        Hash::Blake2b384,
        #[cfg(feature = "blake2")]
        Hash::Blake2b512,
        #[cfg(feature = "blake2")]
        Hash::Blake2s128,
        #[cfg(feature = "blake2")]
        Hash::Blake2s160,
        #[cfg(feature = "blake2")]
        Hash::Blake2s224,
        #[cfg(feature = "blake2")]
        Hash::Blake2s256,
    ];

    /// Longest output of any hash, in bytes.
    pub const MAX_OUTPUT_LEN: usize = 64;

    /// The hash that a header's text names. Case does not matter, as in cryptsetup's cryptographic libraries; the
    /// kernel's `rmd160`, `wp512` and `streebog512` and OpenSSL's `blake2b512` and `blake2s256` are accepted beside the usual names.
    pub fn from_name(name: &str) -> Option<Hash> {
        Hash::named(name).ok()
    }

    /// The hash that a header's text names, as [`Hash::from_name`] finds it.
    ///
    /// # Errors
    /// [`HashError::Unknown`] if there is no hash of that name here, [`HashError::NotBuilt`] if this build was made without it.
    pub fn named(name: &str) -> Result<Hash, HashError> {
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        let known: &str = ALIASES.iter().find(|(alias, _)| is(alias)).map_or(name, |(_, known)| *known);
        let is = |other: &str| other.eq_ignore_ascii_case(known);
        if let Some(hash) = Hash::ALL.into_iter().find(|hash| is(hash.name())) {
            return Ok(hash);
        }
        let optional = OPTIONAL.iter().find(|(_, names)| names.iter().any(|name| is(name)));
        Err(optional.map_or(HashError::Unknown, |(feature, _)| HashError::NotBuilt { feature }))
    }

    /// The name that cryptsetup writes into headers.
    pub const fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "sha1")]
            Hash::Sha1 => "sha1",
            Hash::Sha224 => "sha224",
            Hash::Sha256 => "sha256",
            Hash::Sha384 => "sha384",
            Hash::Sha512 => "sha512",
            #[cfg(feature = "sha3")]
            Hash::Sha3_224 => "sha3-224",
            #[cfg(feature = "sha3")]
            Hash::Sha3_256 => "sha3-256",
            #[cfg(feature = "sha3")]
            Hash::Sha3_384 => "sha3-384",
            #[cfg(feature = "sha3")]
            Hash::Sha3_512 => "sha3-512",
            #[cfg(feature = "ripemd")]
            Hash::Ripemd160 => "ripemd160",
            #[cfg(feature = "whirlpool")]
            Hash::Whirlpool => "whirlpool",
            #[cfg(feature = "streebog")]
            Hash::Streebog512 => "stribog512",
            #[cfg(feature = "blake2")]
            Hash::Blake2b160 => "blake2b-160",
            #[cfg(feature = "blake2")]
            Hash::Blake2b256 => "blake2b-256",
            #[cfg(feature = "blake2")]
            Hash::Blake2b384 => "blake2b-384",
            #[cfg(feature = "blake2")]
            Hash::Blake2b512 => "blake2b-512",
            #[cfg(feature = "blake2")]
            Hash::Blake2s128 => "blake2s-128",
            #[cfg(feature = "blake2")]
            Hash::Blake2s160 => "blake2s-160",
            #[cfg(feature = "blake2")]
            Hash::Blake2s224 => "blake2s-224",
            #[cfg(feature = "blake2")]
            Hash::Blake2s256 => "blake2s-256",
        }
    }

    /// Bytes of output.
    pub fn output_len(self) -> usize {
        with_hash!(self, H => <H as Digests>::Digest::output_size())
    }
}

/// Names that other programs have for a hash, and ours.
const ALIASES: [(&str, &str); 5] = [
    ("streebog512", "stribog512"),
    ("rmd160", "ripemd160"),
    ("wp512", "whirlpool"),
    ("blake2b512", "blake2b-512"),
    ("blake2s256", "blake2s-256"),
];

/// Cargo features, and the names of the hashes that each brings.
const OPTIONAL: [(&str, &[&str]); 6] = [
    (
        "blake2",
        &[
            "blake2b-160",
            "blake2b-256",
            "blake2b-384",
            "blake2b-512",
            "blake2s-128",
            "blake2s-160",
            "blake2s-224",
            "blake2s-256",
        ],
    ),
    ("ripemd", &["ripemd160"]),
    ("sha1", &["sha1"]),
    ("sha3", &["sha3-224", "sha3-256", "sha3-384", "sha3-512"]),
    ("streebog", &["stribog512"]),
    ("whirlpool", &["whirlpool"]),
];

/// Hashes in this build: SHA-2, and what features bring.
const COUNT: usize = 4
    + cfg!(feature = "sha1") as usize
    + cfg!(feature = "ripemd") as usize
    + cfg!(feature = "streebog") as usize
    + cfg!(feature = "whirlpool") as usize
    + 4 * cfg!(feature = "sha3") as usize
    + 8 * cfg!(feature = "blake2") as usize;

/// Why there is no hash of a name.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashError {
    /// No hash of that name is known.
    Unknown,
    /// This build was made without the hash.
    NotBuilt {
        /// The cargo feature of this crate that brings it.
        feature: &'static str,
    },
}

impl fmt::Display for HashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HashError::Unknown => f.write_str("the hash is not known"),
            HashError::NotBuilt { feature } => {
                write!(f, "this program was built without the kdf feature \"{feature}\"")
            }
        }
    }
}

impl core::error::Error for HashError {}

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
