//! Protectors: each has the volume master key, wrapped by a key that something else yields.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use atrest_codec::Reader;
use atrest_secret::SecretArray;

use super::KEY_LEN;
use super::entry::{Entry, EntryError, value};
use super::guid::Guid;

/// What opens a protector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Nothing: the key lies beside it (protection is suspended).
    ClearKey,
    /// A TPM.
    Tpm,
    /// A startup key, in a file.
    StartupKey,
    /// A TPM with a PIN.
    TpmPin,
    /// A recovery password.
    RecoveryPassword,
    /// A smart card, or a certificate.
    SmartCard,
    /// A password.
    Password,
    /// Something else, by its number.
    Other(u16),
}

/// A protector.
#[derive(Debug)]
pub struct Protector {
    /// Its name for machines.
    pub guid: Guid,
    /// What opens it.
    pub protection: Protection,
    /// Its name for people.
    pub name: Option<String>,
    /// Salt of a password's derivation.
    pub salt: Option<[u8; 16]>,
    /// The key of [`Protection::ClearKey`].
    pub clear_key: Option<SecretArray<KEY_LEN>>,
    /// The volume master key.
    pub wrapped: Option<Wrapped>,
}

/// What AES-CCM wraps, without associated data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapped {
    /// Nonce.
    pub nonce: [u8; 12],
    /// Tag.
    pub tag: [u8; 16],
    /// Ciphertext: 12 bytes and a key.
    pub ciphertext: Vec<u8>,
}

impl Wrapped {
    /// Keys have 64 bytes at most.
    const MOST: usize = 12 + 64;

    pub(super) fn read(entry: &Entry<'_>) -> Result<Self, EntryError> {
        let mut reader = Reader::new(entry.data);
        let short = |_| entry.short();
        let (nonce, tag) = (reader.array().map_err(short)?, reader.array().map_err(short)?);
        let ciphertext = reader.rest();
        if ciphertext.is_empty() || ciphertext.len() > Self::MOST {
            return Err(entry.short());
        }
        Ok(Self { nonce, tag, ciphertext: ciphertext.into() })
    }
}

/// Bytes of text, which are copied.
const MOST_TEXT: usize = 1024;

/// UTF-16, up to a zero. What is no character is replaced.
pub(super) fn text(data: &[u8]) -> String {
    let units = data.as_chunks::<2>().0.iter().take(MOST_TEXT);
    let units = units.map(|unit| u16::from_le_bytes(*unit)).take_while(|unit| *unit != 0);
    char::decode_utf16(units).map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// A key that is not wrapped: a method, which nobody needs, and the key.
pub(super) fn clear_key(entry: &Entry<'_>) -> Result<SecretArray<KEY_LEN>, EntryError> {
    let mut reader = Reader::new(entry.data);
    let bytes = reader.le32().and_then(|_| reader.array_ref::<KEY_LEN>()).map_err(|_| entry.short())?;
    reader.finish().map_err(|_| entry.short())?;
    let mut key = SecretArray::zeroed();
    key.copy_from_slice(bytes);
    Ok(key)
}

impl Protector {
    /// Bytes before the entries inside.
    const FIELDS: usize = 28;

    pub(super) fn read(entry: &Entry<'_>) -> Result<Self, EntryError> {
        let mut reader = Reader::new(entry.data);
        let fields = (|| {
            let guid = Guid(reader.array()?);
            // When it was changed, and a number that is not known.
            reader.bytes(10)?;
            Ok((guid, reader.le16()?))
        })();
        let (guid, protection) = fields.map_err(|_: atrest_codec::ReadError| entry.short())?;
        let mut protector = Self {
            guid,
            protection: Protection::numbered(protection),
            name: None,
            salt: None,
            clear_key: None,
            wrapped: None,
        };
        for inner in entry.inside(Self::FIELDS)? {
            let inner = inner?;
            match inner.value {
                value::TEXT if protector.name.is_none() => protector.name = Some(text(inner.data)),
                value::STRETCHED => {
                    let mut reader = Reader::new(inner.data);
                    let salt = reader.le32().and_then(|_| reader.array()).map_err(|_| inner.short())?;
                    inner.once(&mut protector.salt, salt)?;
                }
                value::AES_CCM => inner.once(&mut protector.wrapped, Wrapped::read(&inner)?)?,
                value::KEY if protector.protection == Protection::ClearKey => {
                    inner.once(&mut protector.clear_key, clear_key(&inner)?)?;
                }
                // What a TPM, a smart card or a person that changes the protector needs.
                _ => {}
            }
        }
        Ok(protector)
    }
}

impl Protection {
    fn numbered(number: u16) -> Self {
        match number {
            0x0000 => Self::ClearKey,
            0x0100 => Self::Tpm,
            0x0200 => Self::StartupKey,
            0x0500 => Self::TpmPin,
            0x0800 => Self::RecoveryPassword,
            0x1000 => Self::SmartCard,
            0x2000 => Self::Password,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClearKey => "clear key",
            Self::Tpm => "TPM",
            Self::StartupKey => "startup key",
            Self::TpmPin => "TPM and PIN",
            Self::RecoveryPassword => "recovery password",
            Self::SmartCard => "smart card",
            Self::Password => "password",
            Self::Other(number) => return write!(f, "protection {number:#06x}"),
        })
    }
}
