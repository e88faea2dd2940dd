//! dm-crypt's cipher strings, parsed and printed (kernel, `Documentation/admin-guide/device-mapper/dm-crypt.rst`).

mod error;
mod key_lens;
mod parse;

use core::fmt;
use core::str::FromStr;

pub use error::{Feature, SpecError};

use crate::hash::Hash;
use crate::mode::Mode;
use crate::mode::facts::{Primitives, Template};
use crate::tweak::NumberForm;

/// A cipher, its mode and its IV rule, such as `aes-xts-plain64`, `aes-cbc-essiv:sha256` or
/// `capi:xts(aes)-plain64`. Prints what dm-crypt reads; the shorthands `aes` and `aes-plain` print as
/// `aes-cbc-plain`, which they mean, and Adiantum's `xchacha12,aes,nhpoly1305` as `xchacha12,aes`. HPolyC, which
/// dm-crypt lacks, goes by names of the same form, as do our own XEX with one key (`aes-xex1-plain64`) and ChaCha with a
/// unit's number for a nonce (`chacha20-stream-plain64`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CipherSpec {
    pub(crate) cipher: Cipher,
    pub(crate) mode: Mode,
    pub(crate) iv: IvRule,
    /// How many keys take turns: a power of two up to [`MAX_KEYS`](crate::mode::facts::MAX_KEYS).
    keys: usize,
    form: Form,
}

/// A block cipher, or the primitives of a wide-block one, keyless and modeless.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// FIPS 197.
    Aes,
    /// The AES finalist Serpent.
    Serpent,
    /// The AES finalist Twofish.
    Twofish,
    /// RFC 3713.
    Camellia,
    /// GOST R 34.12-2015 (RFC 7801), which no kernel has: for volumes of VeraCrypt.
    Kuznyechik,
    /// XChaCha12 with AES-256 for one block per data unit, as Adiantum and HPolyC combine them.
    XChaCha12Aes,
    /// XChaCha20 with AES-256 likewise.
    XChaCha20Aes,
    /// Blowfish, with blocks of eight bytes: for old volumes.
    Blowfish,
    /// RFC 2144, with blocks of eight bytes: for old volumes.
    Cast5,
    /// Triple DES with three keys, with blocks of eight bytes: for old volumes.
    Des3Ede,
    /// Speck128, which Linux had from version 4.17 to 4.19: for volumes of that time, not recommended.
    Speck128,
    /// NOEKEON with the key used directly, which no kernel has: to compare, not recommended.
    Noekeon,
    /// ChaCha with 12 rounds, as a stream cipher.
    ChaCha12,
    /// ChaCha with 20 rounds (RFC 8439), as a stream cipher.
    ChaCha20,
    /// dm-crypt's `cipher_null`, which leaves data as it is. Known so that it can be refused by name.
    Null,
}

/// How a number becomes an IV, and how that is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IvRule {
    pub(crate) number: NumberForm,
    /// Encrypts the written number under this hash of the key.
    pub(crate) essiv: Option<Hash>,
    /// A rule that does more with the key than that.
    pub(crate) keyed: Option<KeyedRule>,
    /// Whether the string names a rule at all; ECB needs none.
    named: bool,
}

/// Rules that use the key itself, or parts of it that are theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyedRule {
    /// BitLocker's: the byte offset, encrypted under the data's key.
    Eboiv,
    /// BitLocker's with its diffuser: the byte offset, encrypted under the data's key, and the diffuser under a second key.
    Elephant,
    /// loop-AES's with 64 keys and, in its third mode, a seed.
    Lmk,
    /// TrueCrypt's before version 4.1, with whitening.
    Tcw,
}

/// The notation that the string used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `aes-cbc-essiv:sha256`
    Classic,
    /// `capi:cbc(aes)-essiv:sha256`
    Capi,
    /// `capi:essiv(cbc(aes),sha256)-plain64`
    CapiEssiv,
}

/// Mode and IV rule in dm-crypt's classic notation, such as `xts-plain64`: the second of the two fields in which
/// LUKS1 keeps a specification. Prints itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CipherMode {
    mode: Mode,
    iv: IvRule,
}

impl CipherSpec {
    /// From the two fields of a LUKS1 header, such as `aes` and `xts-plain64`.
    ///
    /// # Errors
    ///
    /// The [`SpecError`] says what of the two fields is unknown, missing or not supported.
    pub fn from_parts(cipher_name: &str, cipher_mode: &str) -> Result<Self, SpecError> {
        parse::parts(cipher_name, cipher_mode)
    }

    /// A mode with plain64 IVs.
    pub(crate) fn plain64(cipher: Cipher, mode: Mode) -> Self {
        let iv = IvRule { number: NumberForm::Plain64, essiv: None, keyed: None, named: true };
        Self { cipher, mode, iv, keys: 1, form: Form::Classic }
    }

    /// Whether this is dm-crypt's `cipher_null`, which encrypts nothing and must be refused wherever data or a key
    /// is meant to be secret.
    pub fn is_null(&self) -> bool {
        self.cipher == Cipher::Null
    }

    /// Whether a key of that many bytes fits. Never true of the null cipher.
    pub fn key_len_is_valid(&self, bytes: usize) -> bool {
        self.key_lens().contains(&bytes)
    }

    /// Lengths of the keys that fit, in bytes, shortest first: both halves for XTS, the tweak key included for LRW,
    /// all keys where several take turns, and whatever is the IV rule's.
    pub fn key_lens(&self) -> &'static [usize] {
        key_lens::of(self)
    }

    /// Whether the ciphertext of one moment is all that this keeps secret: whoever sees a data unit before and after
    /// it was written again learns how its plaintext changed. Encrypting with such a cipher must be asked for
    /// ([`MapperOptions::single_snapshot`](crate::MapperOptions::single_snapshot)).
    pub fn is_single_snapshot(&self) -> bool {
        self.mode.facts().single_snapshot
    }

    /// Whether the IV rule does more with the key than ESSIV does, or has keys of its own: eboiv, elephant, lmk, tcw.
    pub fn has_keyed_iv(&self) -> bool {
        self.iv.keyed.is_some()
    }

    /// Whether this is here for volumes that exist already, or to compare, and new ones should take something else: Speck
    /// and NOEKEON, which hardly anyone has reason to trust, Kuznyechik, which no kernel has, ciphers with blocks of eight bytes, and ECB.
    pub fn is_discouraged(&self) -> bool {
        let cipher = matches!(self.cipher, Cipher::Speck128 | Cipher::Noekeon | Cipher::Kuznyechik);
        cipher || self.cipher.has_short_blocks() || self.mode.facts().discouraged
    }

    /// Whether time and memory accesses of its implementation here are independent of key and data, as
    /// [`Mapper::is_constant_time`](crate::Mapper::is_constant_time) tells of a mapper.
    pub fn is_constant_time(&self) -> bool {
        let reads_tables = matches!(self.cipher, Cipher::Twofish | Cipher::Camellia | Cipher::Kuznyechik);
        let cipher = !self.cipher.has_short_blocks() && !reads_tables;
        cipher && self.mode.facts().constant_time
    }

    /// Whether a run may begin and end within a data unit, at any multiple of 16 bytes.
    pub(crate) fn takes_parts(&self) -> bool {
        self.keys == 1 && !self.cipher.has_short_blocks() && self.mode.facts().takes_parts
    }

    /// How many keys take turns.
    pub(crate) fn key_count(&self) -> usize {
        self.keys
    }

    /// What each of the keys is for; the IVs of loop-AES are left out.
    pub(crate) fn with_one_key(&self) -> Self {
        let keyed = self.iv.keyed.filter(|rule| *rule != KeyedRule::Lmk);
        Self { keys: 1, iv: IvRule { keyed, ..self.iv }, ..*self }
    }

    /// The block cipher.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// dm-crypt's name of the block cipher, such as `aes`.
    pub fn cipher_name(&self) -> &'static str {
        self.cipher.name()
    }

    /// Mode and IV rule.
    pub fn mode(&self) -> CipherMode {
        CipherMode { mode: self.mode, iv: self.iv }
    }
}

impl FromStr for CipherSpec {
    type Err = SpecError;

    fn from_str(spec: &str) -> Result<Self, SpecError> {
        parse::spec(spec)
    }
}

impl fmt::Display for CipherSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cipher = self.cipher.name();
        match (self.form, self.iv.essiv) {
            (Form::Classic, _) if self.keys > 1 => write!(f, "{cipher}:{}-{}", self.keys, self.mode()),
            (Form::Classic, _) => write!(f, "{cipher}-{}", self.mode()),
            (Form::CapiEssiv, Some(hash)) => {
                write!(f, "capi:essiv({},{hash})-{}", Composed(self), self.iv.number.name())
            }
            (Form::Capi | Form::CapiEssiv, _) => {
                write!(f, "capi:{}", Composed(self))?;
                if self.iv.named { write!(f, "-{}", self.iv) } else { Ok(()) }
            }
        }
    }
}

/// Mode and cipher as the kernel's crypto API composes them.
struct Composed<'a>(&'a CipherSpec);

impl fmt::Display for Composed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cipher = self.0.cipher.name();
        let facts = self.0.mode.facts();
        match facts.template {
            Template::Bare => f.write_str(cipher),
            Template::Around(inner) => write!(f, "{}({inner}({cipher}))", facts.name),
            Template::OfCipher => write!(f, "{}({cipher})", facts.name),
        }
    }
}

impl fmt::Display for CipherMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mode.facts().name)?;
        if self.iv.named { write!(f, "-{}", self.iv) } else { Ok(()) }
    }
}

impl fmt::Display for IvRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.essiv, self.keyed) {
            (Some(hash), _) => write!(f, "essiv:{hash}"),
            (None, Some(KeyedRule::Eboiv)) => f.write_str("eboiv"),
            (None, Some(KeyedRule::Elephant)) => f.write_str("elephant"),
            (None, Some(KeyedRule::Lmk)) => f.write_str("lmk"),
            (None, Some(KeyedRule::Tcw)) => f.write_str("tcw"),
            (None, None) => f.write_str(self.number.name()),
        }
    }
}

impl IvRule {
    /// Bytes at the end of a key of `len` bytes that are the rule's.
    pub(crate) fn key_len(self, len: usize) -> usize {
        match self.keyed {
            Some(KeyedRule::Elephant) => len / 2,
            Some(KeyedRule::Tcw) => 32,
            Some(KeyedRule::Eboiv | KeyedRule::Lmk) | None => 0,
        }
    }

    /// Whether data units of that many bytes are what the rule is made for.
    pub(crate) fn takes_unit_of(self, bytes: usize) -> bool {
        match self.keyed {
            Some(KeyedRule::Lmk | KeyedRule::Tcw) => bytes == 512,
            Some(KeyedRule::Elephant) => bytes.is_multiple_of(512),
            Some(KeyedRule::Eboiv) | None => true,
        }
    }
}

impl Cipher {
    /// dm-crypt's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes => "aes",
            Self::Serpent => "serpent",
            Self::Twofish => "twofish",
            Self::Camellia => "camellia",
            Self::Kuznyechik => "kuznyechik",
            Self::Blowfish => "blowfish",
            Self::Cast5 => "cast5",
            Self::Des3Ede => "des3_ede",
            Self::XChaCha12Aes => "xchacha12,aes",
            Self::XChaCha20Aes => "xchacha20,aes",
            Self::Speck128 => "speck128",
            Self::Noekeon => "noekeon",
            Self::ChaCha12 => "chacha12",
            Self::ChaCha20 => "chacha20",
            Self::Null => "cipher_null",
        }
    }

    /// The cargo feature that brings it; empty of those that are always there.
    pub(crate) fn feature(self) -> &'static str {
        match self {
            Self::Aes
            | Self::XChaCha12Aes
            | Self::XChaCha20Aes
            | Self::ChaCha12
            | Self::ChaCha20
            | Self::Null => "",
            Self::Blowfish => "blowfish",
            Self::Camellia => "camellia",
            Self::Cast5 => "cast5",
            Self::Des3Ede => "des",
            Self::Kuznyechik => "kuznyechik",
            Self::Noekeon => "noekeon",
            Self::Serpent => "serpent",
            Self::Speck128 => "speck",
            Self::Twofish => "twofish",
        }
    }

    /// Whether this build contains it.
    fn is_built(self) -> bool {
        let left_out = [
            ("blowfish", !cfg!(feature = "blowfish")),
            ("camellia", !cfg!(feature = "camellia")),
            ("cast5", !cfg!(feature = "cast5")),
            ("des", !cfg!(feature = "des")),
            ("kuznyechik", !cfg!(feature = "kuznyechik")),
            ("noekeon", !cfg!(feature = "noekeon")),
            ("serpent", !cfg!(feature = "serpent")),
            ("speck", !cfg!(feature = "speck")),
            ("twofish", !cfg!(feature = "twofish")),
        ];
        !left_out.contains(&(self.feature(), true))
    }

    /// Whether a key schedule can be made of that many bytes.
    fn takes_key_of(self, bytes: usize) -> bool {
        match self {
            Self::Serpent => (16..=32).contains(&bytes),
            Self::Aes | Self::Twofish | Self::Camellia | Self::Speck128 => matches!(bytes, 16 | 24 | 32),
            Self::Kuznyechik => bytes == 32,
            Self::Noekeon => bytes == 16,
            Self::Blowfish => key_lens::BLOWFISH.contains(&bytes),
            Self::Cast5 => key_lens::CAST5.contains(&bytes),
            Self::Des3Ede => bytes == 24,
            Self::XChaCha12Aes | Self::XChaCha20Aes | Self::ChaCha12 | Self::ChaCha20 | Self::Null => false,
        }
    }

    /// Whether its blocks are shorter than those that the modes of our own are for.
    pub(crate) fn has_short_blocks(self) -> bool {
        matches!(self, Self::Blowfish | Self::Cast5 | Self::Des3Ede)
    }
}

impl Mode {
    /// Whether it is made of that cipher.
    fn takes(self, cipher: Cipher) -> bool {
        let primitives = self.facts().primitives;
        match cipher {
            Cipher::XChaCha12Aes | Cipher::XChaCha20Aes => primitives == Primitives::XChaChaAndAes,
            Cipher::ChaCha12 | Cipher::ChaCha20 => primitives == Primitives::ChaCha,
            Cipher::Blowfish | Cipher::Cast5 | Cipher::Des3Ede => primitives == Primitives::AnyBlockCipher,
            _ => matches!(primitives, Primitives::BlockCipher | Primitives::AnyBlockCipher),
        }
    }
}

impl NumberForm {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Plain => "plain",
            Self::Plain64 => "plain64",
            Self::Plain64Be => "plain64be",
            Self::Benbi => "benbi",
        }
    }
}
