//! What can go wrong with a lower file, with the numbers a person needs.

use core::fmt;
use std::io;

use atrest_filetree::{LowerError, TreeError};
use atrest_secret::RandomError;

use super::{FileCipher, Signature};

/// A lower file could not be opened, read or written.
#[non_exhaustive]
#[derive(Debug)]
pub enum EcryptfsError {
    /// The lower file failed.
    Io(io::Error),
    /// There is no header of eCryptfs, neither in the file nor beside it: it is not encrypted, or its header is lost.
    NoHeader {
        /// Bytes in the lower file.
        len: u64,
    },
    /// A field of the header can't be right.
    Header(HeaderDamage),
    /// The packets with the wrapped keys can't be read.
    Packets(PacketDamage),
    /// The header is of a version after 3.
    Version(u8),
    /// The header says that extents carry HMACs, which no kernel ever wrote.
    Hmac,
    /// No cipher has this number.
    UnknownCipher(u8),
    /// The cipher takes no key of this length.
    KeyLength {
        /// The cipher.
        cipher: FileCipher,
        /// Bytes in the key.
        len: usize,
    },
    /// None of the keys at hand is one that the file can be opened with.
    NoKey {
        /// The signatures of those that would.
        wanted: Vec<Signature>,
    },
    /// The file can only be opened with a public-key module, which is not supported.
    PublicKey {
        /// The signature of its key.
        signature: Signature,
    },
    /// The lower file ends before the extents that its size asks for.
    Truncated {
        /// The first extent that is not there in full.
        extent: u64,
        /// Bytes of contents that the header claims.
        size: u64,
        /// Bytes in the lower file.
        lower: u64,
    },
    /// The file can't become that large.
    TooLarge {
        /// Bytes asked for.
        size: u64,
    },
    /// A passphrase has more bytes than eCryptfs takes.
    PassphraseTooLong {
        /// Bytes in it.
        len: usize,
    },
    /// A name was to be encrypted, and no key for names is set.
    NoNameKey,
    /// A name or link target is too long to be encrypted.
    NameTooLong {
        /// Bytes in it.
        len: usize,
    },
    /// The random source failed.
    Random(RandomError),
}

/// What can't be right in a header.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderDamage {
    /// It ends early.
    Short {
        /// Bytes that there are.
        len: usize,
    },
    /// The size is more than a file can have.
    Size(u64),
    /// The flags do not say that the file is encrypted.
    NotEncrypted {
        /// The flags.
        flags: u32,
    },
    /// The contents begin inside the header, or nowhere.
    Extents {
        /// Bytes in an extent of the header.
        extent: u32,
        /// Such extents before the contents.
        count: u16,
    },
}

/// What can't be right in a packet.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketDamage {
    /// It goes on behind the end of the header.
    Short {
        /// Byte of the packets at which it begins.
        at: usize,
    },
    /// Its length is written in a form that is not in use, or is not one that it can have.
    Length {
        /// Byte of the packets at which it begins.
        at: usize,
    },
    /// A field is not as every writer writes it.
    Field {
        /// Byte of the packets at which it begins.
        at: usize,
    },
    /// It wraps a key for a cipher of this number, which none has.
    Cipher {
        /// The number.
        code: u8,
    },
    /// Another packet must be here.
    Unexpected {
        /// Byte of the packets at which it begins.
        at: usize,
        /// Its tag.
        tag: u8,
    },
    /// There is none.
    None,
}

impl fmt::Display for HeaderDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { len } => write!(f, "it ends after {len} bytes"),
            Self::Size(size) => write!(f, "no file has {size} bytes"),
            Self::NotEncrypted { flags } => {
                write!(f, "its flags {flags:#x} do not say that the file is encrypted")
            }
            Self::Extents { extent, count } => {
                write!(f, "the contents can't begin after {count} extents of {extent} bytes")
            }
        }
    }
}

impl fmt::Display for PacketDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { at } => write!(f, "the packet at byte {at} ends early"),
            Self::Length { at } => write!(f, "the packet at byte {at} has an impossible length"),
            Self::Field { at } => write!(f, "the packet at byte {at} has an impossible field"),
            Self::Cipher { code } => write!(f, "no cipher has the number {code:#04x}"),
            Self::Unexpected { at, tag } => {
                write!(f, "a packet of tag {tag:#04x} at byte {at} has no place there")
            }
            Self::None => f.write_str("there is no packet"),
        }
    }
}

impl fmt::Display for EcryptfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NoHeader { len } => {
                write!(
                    f,
                    "the lower file of {len} bytes has no eCryptfs header: it is not encrypted, or damaged"
                )
            }
            Self::Header(damage) => write!(f, "the eCryptfs header is damaged: {damage}"),
            Self::Packets(damage) => write!(f, "the eCryptfs header is damaged: {damage}"),
            Self::Version(version) => write!(f, "eCryptfs headers of version {version} are not known"),
            Self::Hmac => f.write_str("the header asks for HMACs, which nothing ever wrote"),
            Self::UnknownCipher(code) => write!(f, "no cipher has the number {code:#04x}"),
            Self::KeyLength { cipher, len } => write!(f, "{cipher} takes no key of {len} bytes here"),
            Self::NoKey { wanted } => {
                f.write_str("none of the keys given opens it: it wants the one with signature ")?;
                for (i, signature) in wanted.iter().enumerate() {
                    write!(f, "{}{signature}", if i == 0 { "" } else { " or " })?;
                }
                Ok(())
            }
            Self::PublicKey { signature } => {
                write!(
                    f,
                    "it is wrapped for the public key with signature {signature}, which is not supported"
                )
            }
            Self::Truncated { extent, size, lower } => write!(
                f,
                "the lower file ends after {lower} bytes, within extent {extent}, but the header says {size} bytes of contents"
            ),
            Self::TooLarge { size } => write!(f, "a file can't have {size} bytes"),
            Self::PassphraseTooLong { len } => {
                write!(f, "eCryptfs takes passphrases of at most 64 bytes, not of {len}")
            }
            Self::NoNameKey => f.write_str("no key is set to encrypt names with"),
            Self::NameTooLong { len } => write!(f, "a name of {len} bytes is too long once it is encrypted"),
            Self::Random(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for EcryptfsError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Random(error) => Some(error),
            _ => None,
        }
    }
}

/// As a tree of files reports it, which has no room for all of it.
impl From<EcryptfsError> for TreeError {
    fn from(error: EcryptfsError) -> Self {
        Self::Lower(match error {
            EcryptfsError::Io(error) => LowerError::Host {
                errno: error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error()),
            },
            EcryptfsError::NoHeader { len } => LowerError::NoHeader { len },
            EcryptfsError::NoKey { wanted } => match wanted.first() {
                Some(signature) => LowerError::NoKey { signature: signature.0 },
                None => LowerError::Header,
            },
            EcryptfsError::PublicKey { signature } => LowerError::PublicKey { signature: signature.0 },
            EcryptfsError::Truncated { extent, size, lower } => LowerError::Truncated { extent, size, lower },
            EcryptfsError::Version(_) | EcryptfsError::Hmac | EcryptfsError::UnknownCipher(_) => {
                LowerError::UnknownHeader
            }
            EcryptfsError::NameTooLong { len } => return Self::UnsupportedName { len },
            _ => LowerError::Header,
        })
    }
}

impl From<io::Error> for EcryptfsError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustix::io::Errno> for EcryptfsError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}

impl From<HeaderDamage> for EcryptfsError {
    fn from(damage: HeaderDamage) -> Self {
        Self::Header(damage)
    }
}

impl From<PacketDamage> for EcryptfsError {
    fn from(damage: PacketDamage) -> Self {
        match damage {
            PacketDamage::Cipher { code } => Self::UnknownCipher(code),
            damage => Self::Packets(damage),
        }
    }
}

impl From<RandomError> for EcryptfsError {
    fn from(error: RandomError) -> Self {
        Self::Random(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_lower_file_is_not_merged_on_the_way_up() {
        use EcryptfsError as Error;
        let signature = Signature([3; 8]);
        let (aes, os) = (FileCipher::Aes128, io::Error::from_raw_os_error);
        for (error, expected) in [
            (Error::Io(os(28)), LowerError::Host { errno: 28 }),
            (Error::Io(io::ErrorKind::WriteZero.into()), LowerError::Host { errno: 5 }),
            (Error::NoHeader { len: 7 }, LowerError::NoHeader { len: 7 }),
            (
                Error::NoKey { wanted: vec![signature, Signature([4; 8])] },
                LowerError::NoKey { signature: [3; 8] },
            ),
            (Error::NoKey { wanted: Vec::new() }, LowerError::Header),
            (Error::PublicKey { signature }, LowerError::PublicKey { signature: [3; 8] }),
            (
                Error::Truncated { extent: 1, size: 2, lower: 3 },
                LowerError::Truncated { extent: 1, size: 2, lower: 3 },
            ),
            (HeaderDamage::Size(1).into(), LowerError::Header),
            (PacketDamage::None.into(), LowerError::Header),
            (PacketDamage::Cipher { code: 99 }.into(), LowerError::UnknownHeader),
            (Error::Version(4), LowerError::UnknownHeader),
            (Error::Hmac, LowerError::UnknownHeader),
            (Error::KeyLength { cipher: aes, len: 5 }, LowerError::Header),
        ] {
            let shown = format!("{error:?}");
            assert_eq!(TreeError::from(error), TreeError::Lower(expected), "{shown}");
        }
        let long = TreeError::from(Error::NameTooLong { len: 300 });
        assert_eq!(long, TreeError::UnsupportedName { len: 300 });
        use core::error::Error as _;
        let with_source = |error: Error| error.source().is_some();
        assert!(with_source(Error::Io(os(28))) && with_source(Error::Random(RandomError)));
        assert!(!with_source(Error::Hmac));
        let code = EcryptfsError::from(PacketDamage::Cipher { code: 99 });
        assert!(matches!(code, Error::UnknownCipher(99)));
        assert!(matches!(Error::from(PacketDamage::None), Error::Packets(PacketDamage::None)));
        assert!(
            matches!(Error::from(rustix::io::Errno::NOSPC), Error::Io(error) if error.raw_os_error() == Some(28))
        );
    }
}
