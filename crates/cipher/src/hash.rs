//! The hashes that ESSIV takes, by the kernel's names.

use core::fmt;

use atrest_secret::SecretArray;

/// A hash function of the kernel's crypto API, which this build contains.
#[derive(Clone, Copy)]
pub(crate) struct Hash {
    name: &'static str,
    len: usize,
    function: Function,
}

/// Writes a digest at the start of the buffer.
type Function = fn(&[u8], &mut [u8; Hash::MAX_LEN]);

/// A function if its cargo feature is on.
macro_rules! built {
    ($feature:literal, $digest:ty) => {{
        #[cfg(feature = $feature)]
        let function: Result<Function, &'static str> = Ok(run::<$digest>);
        #[cfg(not(feature = $feature))]
        let function: Result<Function, &'static str> = Err($feature);
        function
    }};
}

/// Name, digest length, function or the feature that would bring it.
const HASHES: [(&str, usize, Result<Function, &str>); 25] = [
    ("sha1", 20, built!("sha1", sha1::Sha1)),
    ("sha224", 28, built!("sha2", sha2::Sha224)),
    ("sha256", 32, built!("sha2", sha2::Sha256)),
    ("sha384", 48, built!("sha2", sha2::Sha384)),
    ("sha512", 64, built!("sha2", sha2::Sha512)),
    ("sha3-224", 28, built!("sha3", sha3::Sha3_224)),
    ("sha3-256", 32, built!("sha3", sha3::Sha3_256)),
    ("sha3-384", 48, built!("sha3", sha3::Sha3_384)),
    ("sha3-512", 64, built!("sha3", sha3::Sha3_512)),
    ("rmd128", 16, built!("ripemd", ripemd::Ripemd128)),
    ("rmd160", 20, built!("ripemd", ripemd::Ripemd160)),
    ("rmd256", 32, built!("ripemd", ripemd::Ripemd256)),
    ("rmd320", 40, built!("ripemd", ripemd::Ripemd320)),
    // wp384 and wp256 are the first 48 and 32 bytes of Whirlpool (kernel crypto/wp512.c).
    ("wp512", 64, built!("whirlpool", whirlpool::Whirlpool)),
    ("wp384", 48, built!("whirlpool", whirlpool::Whirlpool)),
    ("wp256", 32, built!("whirlpool", whirlpool::Whirlpool)),
    ("whirlpool", 64, built!("whirlpool", whirlpool::Whirlpool)),
    ("blake2b-160", 20, built!("blake2", blake2::Blake2b<digest::consts::U20>)),
    ("blake2b-256", 32, built!("blake2", blake2::Blake2b<digest::consts::U32>)),
    ("blake2b-384", 48, built!("blake2", blake2::Blake2b<digest::consts::U48>)),
    ("blake2b-512", 64, built!("blake2", blake2::Blake2b<digest::consts::U64>)),
    ("blake2s-128", 16, built!("blake2", blake2::Blake2s<digest::consts::U16>)),
    ("blake2s-160", 20, built!("blake2", blake2::Blake2s<digest::consts::U20>)),
    ("blake2s-224", 28, built!("blake2", blake2::Blake2s<digest::consts::U28>)),
    ("blake2s-256", 32, built!("blake2", blake2::Blake2s<digest::consts::U32>)),
];

/// Why there is no hash of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoHash {
    /// None is called so.
    Unknown,
    /// This build was made without it.
    NotBuilt {
        /// The cargo feature that brings it.
        feature: &'static str,
    },
}

impl Hash {
    /// Bytes in the longest digest.
    pub(crate) const MAX_LEN: usize = 64;

    /// The hash of that name.
    pub(crate) fn from_name(name: &str) -> Result<Self, NoHash> {
        let known = HASHES.iter().find(|(known, ..)| *known == name);
        let (name, len, function) = known.copied().ok_or(NoHash::Unknown)?;
        match function {
            Ok(function) => Ok(Self { name, len, function }),
            Err(feature) => Err(NoHash::NotBuilt { feature }),
        }
    }

    /// The kernel's name.
    pub(crate) fn name(self) -> &'static str {
        self.name
    }

    /// Bytes in a digest.
    pub(crate) fn output_len(self) -> usize {
        self.len
    }

    /// What `make` makes of the digest of `data`, which is wiped after that.
    pub(crate) fn digest_then<T>(self, data: &[u8], make: impl FnOnce(&[u8]) -> T) -> T {
        let mut digest = SecretArray::<{ Self::MAX_LEN }>::zeroed();
        self.digest(data, &mut digest);
        make(&digest[..self.output_len().min(Self::MAX_LEN)])
    }

    /// Hashes `data`; the digest is the first [`Hash::output_len`] bytes of `out`.
    pub(crate) fn digest(self, data: &[u8], out: &mut [u8; Self::MAX_LEN]) {
        (self.function)(data, out);
    }
}

/// No two hashes share a name.
impl PartialEq for Hash {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Hash {}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({})", self.name)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(any(
    feature = "blake2",
    feature = "ripemd",
    feature = "sha1",
    feature = "sha2",
    feature = "sha3",
    feature = "whirlpool"
))]
fn run<D: digest::Digest>(data: &[u8], out: &mut [u8; Hash::MAX_LEN]) {
    let mut digest = D::digest(data);
    for (to, from) in out.iter_mut().zip(digest.iter()) {
        *to = *from;
    }
    atrest_secret::wipe(&mut digest);
}
