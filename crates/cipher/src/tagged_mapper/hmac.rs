//! HMAC (RFC 2104) with a key that is hashed once: what is left of it is the state after each of the two pads.

use crate::key_error::KeyError;

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
    HmacSha256(Hmac<sha2::Sha256>),
    #[cfg(feature = "sha2")]
    HmacSha512(Hmac<sha2::Sha512>),
}

impl KeyedMac {
    /// Takes a key of any length.
    pub(crate) fn new(mac: Mac, key: &[u8]) -> Result<Self, KeyError> {
        #[cfg(not(any(feature = "sha1", feature = "sha2")))]
        let _ = key;
        match mac {
            #[cfg(feature = "sha1")]
            Mac::HmacSha1 => Ok(Self::HmacSha1(Hmac::new::<64>(key))),
            #[cfg(feature = "sha2")]
            Mac::HmacSha256 => Ok(Self::HmacSha256(Hmac::new::<64>(key))),
            #[cfg(feature = "sha2")]
            Mac::HmacSha512 => Ok(Self::HmacSha512(Hmac::new::<128>(key))),
            #[cfg(not(feature = "sha1"))]
            Mac::HmacSha1 => Err(KeyError::NotBuilt { feature: "sha1" }),
            #[cfg(not(feature = "sha2"))]
            Mac::HmacSha256 | Mac::HmacSha512 => Err(KeyError::NotBuilt { feature: "sha2" }),
        }
    }

    /// Writes the MAC of three pieces, one after the other, to the start of `tag`.
    pub(crate) fn mac(&self, pieces: [&[u8]; 3], tag: &mut [u8]) {
        #[cfg(not(any(feature = "sha1", feature = "sha2")))]
        let _ = (pieces, tag);
        match *self {
            #[cfg(feature = "sha1")]
            Self::HmacSha1(ref hmac) => hmac.mac(pieces, tag),
            #[cfg(feature = "sha2")]
            Self::HmacSha256(ref hmac) => hmac.mac(pieces, tag),
            #[cfg(feature = "sha2")]
            Self::HmacSha512(ref hmac) => hmac.mac(pieces, tag),
        }
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
    /// For a hash with blocks of `BLOCK` bytes.
    fn new<const BLOCK: usize>(key: &[u8]) -> Self {
        let mut pad = atrest_secret::SecretArray::<BLOCK>::zeroed();
        if key.len() > BLOCK {
            let mut digest = D::digest(key);
            pad.iter_mut().zip(digest.iter()).for_each(|(to, from)| *to = *from);
            atrest_secret::wipe(&mut digest);
        } else {
            pad.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
        }
        let mut keyed = |byte: u8| {
            pad.iter_mut().for_each(|key| *key ^= byte);
            D::new_with_prefix(&pad[..])
        };
        let inner = keyed(0x36);
        let outer = keyed(0x36 ^ 0x5c);
        Self { inner, outer }
    }

    fn mac(&self, pieces: [&[u8]; 3], tag: &mut [u8]) {
        let mut inner = self.inner.clone();
        pieces.into_iter().for_each(|piece| inner.update(piece));
        let digest = self.outer.clone().chain_update(inner.finalize()).finalize();
        tag.iter_mut().zip(digest.iter()).for_each(|(to, from)| *to = *from);
    }
}
