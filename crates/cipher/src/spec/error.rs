//! Why a cipher string was refused.

use core::fmt;

/// Why a cipher string was refused.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// Not of the form `cipher[:keycount]-mode-iv[:options]` or `capi:…`.
    Syntax,
    /// No cipher of that name is known.
    UnknownCipher,
    /// No mode of that name is known.
    UnknownMode,
    /// No IV rule of that name is known.
    UnknownIv,
    /// No hash of that name is known.
    UnknownHash,
    /// The mode needs an IV rule and the string names none.
    MissingIv,
    /// `essiv` needs a hash and the string names none.
    MissingHash,
    /// An IV rule without options was given some.
    UnexpectedIvOptions,
    /// The number of keys is not a power of two.
    KeyCount {
        /// Keys asked for.
        count: u32,
    },
    /// `essiv` keys the cipher with the digest, and the cipher takes no key of that length.
    EssivHashLength {
        /// Bytes in the digest.
        len: usize,
    },
    /// The mode is not made of that cipher.
    Combination,
    /// The IV rule encrypts a cipher block, and the mode's IVs are of another length.
    IvLength {
        /// Bytes in an IV.
        len: usize,
    },
    /// A stream cipher would encrypt several data units with the same keystream, or parts of it.
    Keystream,
    /// A good string that asks for something this build was made without.
    NotBuilt {
        /// The cargo feature of this crate that brings it.
        feature: &'static str,
    },
    /// A good string that asks for something this version does not have.
    Unsupported {
        /// What it asks for.
        feature: Feature,
    },
}

/// Things dm-crypt has and this version has not.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Adiantum with other primitives than XChaCha12 or XChaCha20, AES and NHPoly1305.
    Adiantum,
    /// Authenticated modes (GCM, AEGIS, authenc …).
    Authenticated,
    /// Modes other than those named here.
    OtherMode,
    /// More than one key (`aes:64-…`) where it is not made for that, or more than 64.
    MultiKey,
    /// loop-AES IVs with another mode than CBC.
    Lmk,
    /// TrueCrypt's old CBC IVs and whitening with another mode than CBC.
    Tcw,
    /// BitLocker's CBC IVs with another mode than CBC.
    Eboiv,
    /// BitLocker's diffuser with another cipher than AES in CBC.
    Elephant,
    /// Random IVs.
    RandomIv,
    /// CAST6.
    Cast6,
    /// Ciphers other than those named here.
    OtherCipher,
    /// The MD5 family of hashes and other old ones.
    OldHash,
    /// A composition in the kernel's `capi:` notation.
    CapiTemplate,
}

impl Feature {
    /// What a person calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Adiantum => "Adiantum with these primitives",
            Self::Authenticated => "authenticated encryption",
            Self::OtherMode => "this mode",
            Self::MultiKey => "this number of keys",
            Self::Lmk => "the IV rule lmk without CBC",
            Self::Tcw => "the IV rule tcw without CBC",
            Self::Eboiv => "the IV rule eboiv without CBC",
            Self::Elephant => "the IV rule elephant without AES in CBC",
            Self::RandomIv => "the IV rule random",
            Self::Cast6 => "CAST6",
            Self::OtherCipher => "this cipher",
            Self::OldHash => "this hash",
            Self::CapiTemplate => "this capi: composition",
        }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => f.write_str("not a cipher string of the form cipher-mode-iv"),
            Self::UnknownCipher => f.write_str("the cipher string names an unknown cipher"),
            Self::UnknownMode => f.write_str("the cipher string names an unknown mode"),
            Self::UnknownIv => f.write_str("the cipher string names an unknown IV rule"),
            Self::UnknownHash => f.write_str("the cipher string names an unknown hash"),
            Self::MissingIv => f.write_str("the cipher string names no IV rule, which its mode needs"),
            Self::MissingHash => f.write_str("the IV rule essiv needs a hash, as in essiv:sha256"),
            Self::UnexpectedIvOptions => f.write_str("the IV rule takes no options"),
            Self::KeyCount { count } => write!(f, "the number of keys, {count}, is not a power of two"),
            Self::EssivHashLength { len } => {
                write!(f, "essiv would key the cipher with a digest of {len} bytes, which it does not take")
            }
            Self::Combination => f.write_str("the mode does not go with this cipher"),
            Self::IvLength { len } => {
                write!(f, "the IV rule makes IVs of 16 bytes, and the mode takes {len}")
            }
            Self::Keystream => f.write_str(
                "the IV rule would encrypt data units with the same keystream; chacha20-stream-plain64 does not",
            ),
            Self::NotBuilt { feature } => {
                write!(f, "this program was built without the cipher feature \"{feature}\"")
            }
            Self::Unsupported { feature } => write!(f, "{} is not supported yet", feature.name()),
        }
    }
}

impl core::error::Error for SpecError {}
