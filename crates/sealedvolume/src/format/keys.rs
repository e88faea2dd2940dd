//! Keys: one for each object, made of the volume key and of all that stands in clear before the object.

use core::fmt;
use std::sync::Arc;

use atrest_cipher::aead::{Aead as _, ChaCha20Poly1305};
use atrest_cipher::{AesGcm, KeyError};
use atrest_kdf::Prf;
use atrest_secret::{VolumeKey, constant_time_eq};

use super::journal::JournalKeys;
use super::prelude::{PRELUDE_LEN, Prelude};
use super::{Chain, FormatError, FormatId, OtherKey, TAG_LEN};

const OBJECT: &[u8] = b"atrest sealed volume 1 object";
/// Whether two keys are the same is asked of what they make of this.
const CHECK: &[u8] = b"atrest sealed volume 1 check";
const CHAIN: &[u8] = b"atrest sealed volume 1 chain";
const JOURNAL: &[u8] = b"atrest sealed volume 1 journal";

/// How objects are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aead {
    /// AES-256 in GCM.
    Aes256Gcm,
    /// ChaCha20 and Poly1305.
    ChaCha20Poly1305,
}

/// What of an object is sealed: a part of its nonces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A block, by its slot.
    Block(u32),
    /// The first copy of a log object's summary.
    SummaryA,
    /// The second copy.
    SummaryB,
    /// The first copy of a node of the map.
    NodeA,
    /// The second copy.
    NodeB,
    /// The first copy of a root.
    RootA,
    /// The second copy.
    RootB,
}

/// The keys of a volume: the one that it has now, and those of objects that an earlier key or another volume has made.
#[derive(Clone)]
pub struct Keys {
    own: OneKey,
    others: Arc<Vec<OneKey>>,
}

/// A volume key, as it is used.
#[derive(Clone)]
struct OneKey {
    format: FormatId,
    epoch: u32,
    objects: Prf,
    chain: Prf,
}

impl OneKey {
    fn new(key: &VolumeKey, format: FormatId, epoch: u32) -> Result<Self, KeyError> {
        if key.len() != 32 {
            return Err(KeyError::Length { len: key.len() });
        }
        let objects = Prf::extract(&format, key.expose());
        let chain = Prf::new(&objects.expand::<32>(&[CHAIN]));
        Ok(Self { format, epoch, objects, chain })
    }

    fn derive(&self, prelude: &Prelude) -> (ObjectCipher, [u8; 32]) {
        let both = self.objects.expand::<64>(&[OBJECT, &prelude.identity()]);
        let (key, commitment) = both.split_at(32);
        let mut out = [0; 32];
        out.iter_mut().zip(commitment).for_each(|(to, from)| *to = *from);
        (ObjectCipher::new(prelude.aead, key), out)
    }
}

impl Keys {
    /// Keys of the volume that has this format's identifier, from its first volume key, of 32 bytes.
    ///
    /// # Errors
    /// [`KeyError::Length`] if the volume key has another length.
    pub fn new(key: &VolumeKey, format: FormatId) -> Result<Self, KeyError> {
        Self::at_epoch(key, format, 0)
    }

    /// Keys of a volume that has had so many volume keys before this one.
    ///
    /// # Errors
    /// [`KeyError::Length`] if the volume key has another length.
    pub fn at_epoch(key: &VolumeKey, format: FormatId, epoch: u32) -> Result<Self, KeyError> {
        Ok(Self { own: OneKey::new(key, format, epoch)?, others: Arc::new(Vec::new()) })
    }

    /// These keys, with the volume's own as one that so many others came before.
    pub fn at(&self, epoch: u32) -> Self {
        Self { own: OneKey { epoch, ..self.own.clone() }, others: Arc::clone(&self.others) }
    }

    /// Whether this is the volume's present key.
    pub fn are_of(&self, key: &VolumeKey) -> bool {
        let same =
            |other: OneKey| constant_time_eq(&self.own.objects.tag(&[CHECK]), &other.objects.tag(&[CHECK]));
        OneKey::new(key, self.own.format, self.own.epoch).is_ok_and(same)
    }

    /// The volume's own key with those that a root names, and no others.
    ///
    /// # Errors
    /// [`KeyError::Length`] if one has another length than 32 bytes.
    pub fn with(&self, others: &[OtherKey]) -> Result<Self, KeyError> {
        let others = others.iter().map(|other| OneKey::new(&other.key, other.format, other.epoch));
        Ok(Self { own: self.own.clone(), others: Arc::new(others.collect::<Result<_, _>>()?) })
    }

    /// The identifier of the format.
    pub fn format(&self) -> FormatId {
        self.own.format
    }

    /// How many keys the volume had before this one.
    pub fn epoch(&self) -> u32 {
        self.own.epoch
    }

    /// The cipher of an object that is to be made with the volume's present key, and the prelude that stands before it.
    pub fn seal(&self, prelude: &Prelude) -> (ObjectCipher, [u8; PRELUDE_LEN]) {
        let (cipher, commitment) = self.own.derive(prelude);
        (cipher, prelude.encode(commitment))
    }

    /// The cipher of an object that is to be read, if the prelude before it is of this volume and was made with one of its keys.
    ///
    /// # Errors
    /// What [`Prelude::decode`] finds, [`FormatError::AnotherVolume`] or [`FormatError::Key`].
    pub fn open(&self, bytes: &[u8; PRELUDE_LEN]) -> Result<(ObjectCipher, Prelude), FormatError> {
        let (prelude, stated) = Prelude::decode(bytes)?;
        if prelude.format != self.own.format {
            return Err(FormatError::AnotherVolume);
        }
        // intended: which of its keys the present one is, nobody knows before a checkpoint was opened. The commitment decides.
        let (cipher, commitment) = self.of(&prelude).unwrap_or(&self.own).derive(&prelude);
        if constant_time_eq(&commitment, &stated) { Ok((cipher, prelude)) } else { Err(FormatError::Key) }
    }

    /// The cipher of the object that has this identity, whatever stands before what the store shows in its place.
    ///
    /// # Errors
    /// [`FormatError::Key`] if it was made with a key that is not here.
    pub fn known(&self, prelude: &Prelude) -> Result<ObjectCipher, FormatError> {
        Ok(self.of(prelude)?.derive(prelude).0)
    }

    /// The chain value after a log object: of the one before it, its prelude and its summary in clear.
    ///
    /// # Errors
    /// [`FormatError::Key`] if it was made with a key that is not here.
    pub fn chain(&self, before: &Chain, prelude: &Prelude, summary: &[u8]) -> Result<Chain, FormatError> {
        let of = self.of(prelude)?;
        Ok(*of.chain.whole(&[before, &prelude.encode(of.derive(prelude).1), summary]))
    }

    /// The key of the volume's journals that were begun in a key epoch.
    ///
    /// # Errors
    /// [`FormatError::Key`] if the key of that epoch is not here.
    pub fn journal(&self, epoch: u32) -> Result<JournalKeys, FormatError> {
        let key = self.at_place(self.own.format, epoch)?;
        Ok(JournalKeys { format: key.format, epoch, prf: Prf::new(&key.objects.expand::<32>(&[JOURNAL])) })
    }

    fn of(&self, prelude: &Prelude) -> Result<&OneKey, FormatError> {
        self.at_place(prelude.format, prelude.epoch)
    }

    fn at_place(&self, format: FormatId, epoch: u32) -> Result<&OneKey, FormatError> {
        core::iter::once(&self.own)
            .chain(self.others.iter())
            .find(|key| (key.format, key.epoch) == (format, epoch))
            .ok_or(FormatError::Key)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(..)")
    }
}

/// The key of one object.
pub struct ObjectCipher(Cipher);

enum Cipher {
    Gcm(Box<AesGcm<32>>),
    ChaCha(Box<ChaCha20Poly1305>),
}

impl ObjectCipher {
    #[allow(clippy::expect_used, reason = "the key is half of 64 bytes, which is what both ciphers take")]
    pub(super) fn new(aead: Aead, key: &[u8]) -> Self {
        Self(match aead {
            Aead::Aes256Gcm => Cipher::Gcm(Box::new(AesGcm::new(key).expect("32 bytes"))),
            Aead::ChaCha20Poly1305 => Cipher::ChaCha(Box::new(ChaCha20Poly1305::new(key).expect("32 bytes"))),
        })
    }

    /// Seals and opens several parts of the object. What `work` returns must not hold secrets by value.
    pub fn several<R>(&self, work: impl FnOnce(Parts<'_>) -> R) -> R {
        match &self.0 {
            Cipher::Gcm(cipher) => cipher.several(|cipher| work(Parts(Several::Gcm(cipher)))),
            Cipher::ChaCha(cipher) => work(Parts(Several::ChaCha(cipher))),
        }
    }

    /// [`Parts::seal`] for one part.
    ///
    /// # Errors
    /// Those of [`Parts::seal`].
    pub fn seal(&self, part: Part, associated: &[u8], data: &mut [u8]) -> Result<[u8; TAG_LEN], FormatError> {
        self.several(|parts| parts.seal(part, associated, data))
    }

    /// [`Parts::open`] for one part.
    ///
    /// # Errors
    /// Those of [`Parts::open`].
    pub fn open(
        &self,
        part: Part,
        associated: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> Result<(), FormatError> {
        self.several(|parts| parts.open(part, associated, data, tag))
    }

    /// Encrypts in place all that this key is for, and returns the tag.
    pub(super) fn seal_whole(&self, data: &mut [u8]) -> Result<[u8; TAG_LEN], FormatError> {
        self.seal(Part::Block(0), &[], data)
    }

    /// Decrypts in place all that this key is for.
    pub(super) fn open_whole(&self, data: &mut [u8], tag: &[u8; TAG_LEN]) -> Result<(), FormatError> {
        self.open(Part::Block(0), &[], data, tag)
    }
}

/// What seals and opens one part of an object after another.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a>(Several<'a>);

#[derive(Clone, Copy, Debug)]
enum Several<'a> {
    Gcm(atrest_cipher::Several<'a, 32>),
    ChaCha(&'a ChaCha20Poly1305),
}

impl Parts<'_> {
    /// Encrypts a part of the object in place, and returns its tag. Each part is sealed once.
    ///
    /// # Errors
    /// [`FormatError::Limit`] if the cipher does not take so many bytes.
    pub fn seal(self, part: Part, associated: &[u8], data: &mut [u8]) -> Result<[u8; TAG_LEN], FormatError> {
        let nonce = part.nonce();
        match self.0 {
            Several::Gcm(cipher) => cipher.seal(&nonce, associated, data),
            Several::ChaCha(cipher) => cipher.seal(&nonce, associated, data),
        }
        .map_err(|_| FormatError::Limit)
    }

    /// Decrypts a part in place. If its tag does not fit, `data` is zeros.
    ///
    /// # Errors
    /// [`FormatError::Tag`].
    pub fn open(
        self,
        part: Part,
        associated: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> Result<(), FormatError> {
        let nonce = part.nonce();
        match self.0 {
            Several::Gcm(cipher) => cipher.open(&nonce, associated, data, tag),
            Several::ChaCha(cipher) => cipher.open(&nonce, associated, data, tag),
        }
        .map_err(|_| FormatError::Tag)
    }
}

impl fmt::Debug for ObjectCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObjectCipher(..)")
    }
}

impl Part {
    /// Slot (4 bytes), part (1), zeros.
    fn nonce(self) -> [u8; 12] {
        let (slot, part) = match self {
            Self::Block(slot) => (slot, 0),
            Self::SummaryA => (0, 1),
            Self::SummaryB => (0, 2),
            Self::NodeA => (0, 3),
            Self::RootA => (0, 4),
            Self::RootB => (0, 5),
            Self::NodeB => (0, 6),
        };
        atrest_codec::encode((atrest_codec::Le(slot), [part], [0; 7]))
    }
}

impl Aead {
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Aes256Gcm => 1,
            Self::ChaCha20Poly1305 => 2,
        }
    }

    pub(super) fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Aes256Gcm),
            2 => Some(Self::ChaCha20Poly1305),
            _ => None,
        }
    }
}
