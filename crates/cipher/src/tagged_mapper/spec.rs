//! Which cipher makes the tags: dm-crypt's authenticated ciphers, by the two names that LUKS2 and cryptsetup give them.

use core::fmt;

use super::hmac::Mac;
use crate::spec::{Cipher, CipherSpec, SpecError};
use crate::tweak::NumberForm;

/// An authenticated cipher of dm-crypt's, such as `aes-gcm-random` with `aead` or `aes-xts-plain64` with `hmac(sha256)`. Prints
/// what dm-crypt reads: `capi:gcm(aes)-random`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedSpec {
    pub(crate) kind: Kind,
    pub(crate) iv: IvSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// NIST SP 800-38D.
    Gcm(Cipher),
    /// RFC 4309: the key ends with three bytes of salt.
    Ccm(Cipher),
    /// RFC 8439.
    ChaCha20Poly1305,
    Aegis128,
    Aegis256,
    /// A cipher, and a MAC over what it made. Its IV rule is unused if IVs are random.
    Authenc(CipherSpec, Mac),
}

/// Where IVs come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IvSource {
    /// The tag's end.
    Random,
    /// The unit's number. Of an [`Authenc`](Kind::Authenc) its specification knows more.
    Number(NumberForm),
}

/// Why there is no authenticated cipher of two names.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaggedSpecError {
    /// No such cipher is known, or the two names do not belong together.
    Unknown,
    /// The MAC's key never leaves special hardware (`phmac`).
    ProtectedKey,
    /// The cipher below the MAC is not accepted.
    Cipher(SpecError),
}

impl fmt::Display for TaggedSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("the authenticated cipher is not known"),
            Self::ProtectedKey => f.write_str("the key of the MAC is one that only special hardware can use"),
            Self::Cipher(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for TaggedSpecError {}

/// The longest name of a cipher with its mode that is looked at.
const LONGEST: usize = 64;

impl TaggedSpec {
    /// From the names of the cipher and of what makes the tags, as a LUKS2 segment has them: `aes-xts-random` and `hmac(sha256)`.
    ///
    /// # Errors
    /// The [`TaggedSpecError`] says what of the two names is not known or not accepted.
    pub fn new(encryption: &str, integrity: &str) -> Result<Self, TaggedSpecError> {
        if integrity.starts_with("phmac(") {
            return Err(TaggedSpecError::ProtectedKey);
        }
        let (cipher, iv) = encryption.rsplit_once('-').ok_or(TaggedSpecError::Unknown)?;
        if integrity == "aead" || integrity == "poly1305" {
            let iv = match iv {
                "random" => IvSource::Random,
                "plain" => IvSource::Number(NumberForm::Plain),
                "plain64" => IvSource::Number(NumberForm::Plain64),
                _ => return Err(TaggedSpecError::Unknown),
            };
            let kind = match (integrity, cipher) {
                ("aead", "aegis128") => Kind::Aegis128,
                ("aead", "aegis256") => Kind::Aegis256,
                ("poly1305", "chacha20") => Kind::ChaCha20Poly1305,
                ("aead", _) => match cipher.split_once('-') {
                    Some((block, "gcm")) => Kind::Gcm(block_cipher(block)?),
                    Some((block, "ccm")) => Kind::Ccm(block_cipher(block)?),
                    _ => return Err(TaggedSpecError::Unknown),
                },
                _ => return Err(TaggedSpecError::Unknown),
            };
            return Ok(Self { kind, iv });
        }
        let mac = Mac::from_name(integrity).ok_or(TaggedSpecError::Unknown)?;
        let (block, mode) = cipher.split_once('-').ok_or(TaggedSpecError::Unknown)?;
        let (mode, _) = mode.split_once('-').unwrap_or((mode, ""));
        block_cipher(block)?;
        if !matches!(mode, "xts" | "cbc") {
            return Err(TaggedSpecError::Unknown);
        }
        let (spec, iv) = match iv {
            // As if IVs were numbers.
            "random" => (with_numbers(cipher)?, IvSource::Random),
            _ => {
                let spec: CipherSpec = encryption.parse().map_err(TaggedSpecError::Cipher)?;
                let iv = IvSource::Number(spec.iv.number);
                (spec, iv)
            }
        };
        if spec.has_keyed_iv() {
            return Err(TaggedSpecError::Unknown);
        }
        Ok(Self { kind: Kind::Authenc(spec, mac), iv })
    }

    /// Bytes that the MAC's key has if nothing else is said: as many as its tag. None of a cipher that makes tags itself.
    pub fn mac_key_len(&self) -> Option<usize> {
        match &self.kind {
            Kind::Authenc(_, mac) => Some(mac.tag_len()),
            _ => None,
        }
    }

    /// Lengths of the cipher's own keys that fit, in bytes, shortest first. A MAC's key comes on top.
    pub fn cipher_key_lens(&self) -> &'static [usize] {
        match &self.kind {
            Kind::Gcm(_) => &[16, 24, 32],
            // With the salt.
            Kind::Ccm(_) => &[19, 27, 35],
            Kind::ChaCha20Poly1305 | Kind::Aegis256 => &[32],
            Kind::Aegis128 => &[16],
            Kind::Authenc(spec, _) => spec.key_lens(),
        }
    }

    /// Whether a key of that many bytes fits, the MAC's own among them. `mac_key_len` is what is said of that one: `None` is
    /// [`TaggedSpec::mac_key_len`].
    pub fn key_len_is_valid(&self, len: usize, mac_key_len: Option<usize>) -> bool {
        let rest = match (&self.kind, mac_key_len) {
            (Kind::Authenc(_, mac), said) => len.checked_sub(said.unwrap_or(mac.tag_len())),
            (_, None) => Some(len),
            (_, Some(_)) => None,
        };
        rest.is_some_and(|rest| self.cipher_key_lens().contains(&rest) && mac_key_len != Some(0))
    }

    /// Bytes beside each data unit: the tag, and behind it the IV if it is a random one.
    pub fn tag_len(&self) -> usize {
        self.mac_len() + self.random_len()
    }

    /// Bytes of random IV at the end of those.
    pub fn random_len(&self) -> usize {
        match self.iv {
            IvSource::Random => self.iv_len(),
            IvSource::Number(_) => 0,
        }
    }

    /// Whether a data unit that is written twice is written under the same nonce, which would give plaintext and keys away.
    pub fn repeats_nonces(&self) -> bool {
        !matches!(self.kind, Kind::Authenc(..)) && self.iv != IvSource::Random
    }

    /// Bytes of tag alone.
    pub(crate) fn mac_len(&self) -> usize {
        match &self.kind {
            Kind::Authenc(_, mac) => mac.tag_len(),
            _ => 16,
        }
    }

    /// Bytes in an IV.
    pub(crate) fn iv_len(&self) -> usize {
        match self.kind {
            Kind::Gcm(_) | Kind::ChaCha20Poly1305 => 12,
            Kind::Ccm(_) => 8,
            Kind::Aegis128 | Kind::Authenc(..) => 16,
            Kind::Aegis256 => 32,
        }
    }
}

/// Block ciphers with blocks of 16 bytes, for which the kernel has these modes.
fn block_cipher(name: &str) -> Result<Cipher, TaggedSpecError> {
    let known = [Cipher::Aes, Cipher::Serpent, Cipher::Twofish, Cipher::Camellia];
    known.into_iter().find(|cipher| cipher.name() == name).ok_or(TaggedSpecError::Unknown)
}

/// A cipher in a mode, with plain64.
fn with_numbers(cipher: &str) -> Result<CipherSpec, TaggedSpecError> {
    let mut text = [0; LONGEST];
    let parts = cipher.bytes().chain(*b"-plain64");
    let len = parts.clone().count();
    let to = text.get_mut(..len).ok_or(TaggedSpecError::Unknown)?;
    to.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
    let text = core::str::from_utf8(to).map_err(|_| TaggedSpecError::Unknown)?;
    text.parse().map_err(TaggedSpecError::Cipher)
}

impl fmt::Display for TaggedSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Gcm(cipher) => write!(f, "capi:gcm({})", cipher.name())?,
            Kind::Ccm(cipher) => write!(f, "capi:rfc4309(ccm({}))", cipher.name())?,
            Kind::ChaCha20Poly1305 => f.write_str("capi:rfc7539(chacha20,poly1305)")?,
            Kind::Aegis128 => f.write_str("capi:aegis128")?,
            Kind::Aegis256 => f.write_str("capi:aegis256")?,
            Kind::Authenc(spec, mac) => {
                let mode = spec.mode.facts().name;
                write!(f, "capi:authenc({},{mode}({}))", mac.name(), spec.cipher_name())?;
            }
        }
        match (self.iv, &self.kind) {
            (IvSource::Random, _) => f.write_str("-random"),
            (_, Kind::Authenc(spec, _)) => write!(f, "-{}", spec.iv),
            (IvSource::Number(form), _) => write!(f, "-{}", form.name()),
        }
    }
}
