//! HMAC (RFC 2104) with a key that is hashed once: what is left of it is the state after each of the two pads.

#[cfg(any(feature = "sha1", feature = "sha2"))]
use atrest_secret::SecretArray;

use super::units::AnyTag;
#[cfg(feature = "sha2")]
use crate::backend::ShaVectors;
use crate::backend::VectorChoice;
use crate::key_error::KeyError;
#[cfg(feature = "sha2")]
use crate::sha2_pads::{Pads, Sha2};
use crate::tweak::Associated;

/// What makes the tags beside a cipher that makes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mac {
    HmacSha1,
    HmacSha256,
    HmacSha512,
}

impl Mac {
    const ALL: [Self; 3] = [Self::HmacSha1, Self::HmacSha256, Self::HmacSha512];

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mac| mac.name() == name)
    }

    /// The kernel's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::HmacSha1 => "hmac(sha1)",
            Self::HmacSha256 => "hmac(sha256)",
            Self::HmacSha512 => "hmac(sha512)",
        }
    }

    /// Bytes in a tag.
    pub(crate) fn tag_len(self) -> usize {
        match self {
            Self::HmacSha1 => 20,
            Self::HmacSha256 => 32,
            Self::HmacSha512 => 64,
        }
    }
}

/// A keyed MAC. The hashes wipe themselves on drop.
#[allow(clippy::large_enum_variant, reason = "there is no heap to put the large one on")]
pub(crate) enum KeyedMac {
    #[cfg(feature = "sha1")]
    HmacSha1(Hmac<sha1::Sha1>),
    #[cfg(feature = "sha2")]
    HmacSha256(HmacSha2<sha2::Sha256>),
    #[cfg(feature = "sha2")]
    HmacSha512(HmacSha2<sha2::Sha512>),
}

impl KeyedMac {
    /// Takes a key of any length.
    pub(crate) fn new(mac: Mac, key: &[u8], vectors: VectorChoice) -> Result<Self, KeyError> {
        #[cfg(not(feature = "sha1"))]
        let _ = key;
        #[cfg(not(feature = "sha2"))]
        let _ = vectors;
        match mac {
            #[cfg(feature = "sha1")]
            Mac::HmacSha1 => Ok(Self::HmacSha1(Hmac::new(&block_of::<sha1::Sha1, 64>(key)))),
            #[cfg(feature = "sha2")]
            Mac::HmacSha256 => {
                let key = block_of::<sha2::Sha256, 64>(key);
                Ok(Self::HmacSha256(HmacSha2::new(Sha2::Sha256, &key, vectors)))
            }
            #[cfg(feature = "sha2")]
            Mac::HmacSha512 => {
                let key = block_of::<sha2::Sha512, 128>(key);
                Ok(Self::HmacSha512(HmacSha2::new(Sha2::Sha512, &key, vectors)))
            }
            #[cfg(not(feature = "sha1"))]
            Mac::HmacSha1 => Err(KeyError::NotBuilt { feature: "sha1" }),
            #[cfg(not(feature = "sha2"))]
            Mac::HmacSha256 | Mac::HmacSha512 => Err(KeyError::NotBuilt { feature: "sha2" }),
        }
    }

    /// Writes the MAC of each unit of `unit` bytes, and of what is authenticated before it, to the start of its tag.
    pub(crate) fn macs(&self, (data, unit): (&[u8], usize), associated: &[Associated], tags: &mut [AnyTag]) {
        #[cfg(not(any(feature = "sha1", feature = "sha2")))]
        let _ = (data, unit, associated, tags);
        match *self {
            #[cfg(feature = "sha1")]
            Self::HmacSha1(ref hmac) => hmac.macs((data, unit), associated, tags),
            #[cfg(feature = "sha2")]
            Self::HmacSha256(ref hmac) => hmac.macs((data, unit), associated, tags),
            #[cfg(feature = "sha2")]
            Self::HmacSha512(ref hmac) => hmac.macs((data, unit), associated, tags),
        }
    }
}

/// The key as a block of the hash: filled up with zeros, or the hash of what is longer.
#[cfg(any(feature = "sha1", feature = "sha2"))]
fn block_of<D: digest::Digest, const BLOCK: usize>(key: &[u8]) -> SecretArray<BLOCK> {
    let mut block = SecretArray::<BLOCK>::zeroed();
    if key.len() > BLOCK {
        let mut digest = D::digest(key);
        block.iter_mut().zip(digest.iter()).for_each(|(to, from)| *to = *from);
        atrest_secret::wipe(&mut digest);
    } else {
        block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    }
    block
}

/// HMAC with SHA-2: by vectors, where there are units enough.
#[cfg(feature = "sha2")]
pub(crate) struct HmacSha2<D> {
    alone: Hmac<D>,
    together: Option<(ShaVectors, Pads)>,
}

#[cfg(feature = "sha2")]
impl<D: digest::Digest + Clone> HmacSha2<D> {
    fn new<const BLOCK: usize>(sha: Sha2, key: &[u8; BLOCK], vectors: VectorChoice) -> Self {
        let together = ShaVectors::of(vectors, sha).map(|vectors| (vectors, Pads::new(sha, key)));
        Self { alone: Hmac::new(key), together }
    }

    fn macs(&self, (data, unit): (&[u8], usize), associated: &[Associated], tags: &mut [AnyTag]) {
        let together = self.together.as_ref().map_or(0, |(vectors, _)| vectors.worth(tags.len()));
        let (data, rest) = data.split_at(together * unit);
        let (associated, rest_associated) = associated.split_at(together);
        let (tags, rest_tags) = tags.split_at_mut(together);
        if let Some((vectors, pads)) = &self.together {
            vectors.hmac(pads, (data, unit), associated, tags);
        }
        self.alone.macs((rest, unit), rest_associated, rest_tags);
    }
}

/// The hash after the inner pad and after the outer one.
#[cfg(any(feature = "sha1", feature = "sha2"))]
pub(crate) struct Hmac<D> {
    inner: D,
    outer: D,
}

#[cfg(any(feature = "sha1", feature = "sha2"))]
impl<D: digest::Digest + Clone> Hmac<D> {
    /// For a hash with blocks of `BLOCK` bytes, of which the key is one.
    fn new<const BLOCK: usize>(key: &[u8; BLOCK]) -> Self {
        let mut pad = SecretArray::<BLOCK>::zeroed();
        let mut keyed = |byte: u8| {
            pad.iter_mut().zip(key).for_each(|(pad, key)| *pad = key ^ byte);
            D::new_with_prefix(&pad[..])
        };
        let inner = keyed(0x36);
        let outer = keyed(0x5c);
        Self { inner, outer }
    }

    fn macs(&self, (data, unit): (&[u8], usize), associated: &[Associated], tags: &mut [AnyTag]) {
        for ((data, associated), tag) in data.chunks(unit).zip(associated).zip(tags) {
            let inner = self.inner.clone().chain_update(associated).chain_update(data);
            let digest = self.outer.clone().chain_update(inner.finalize()).finalize();
            tag.iter_mut().zip(digest.iter()).for_each(|(to, from)| *to = *from);
        }
    }
}
