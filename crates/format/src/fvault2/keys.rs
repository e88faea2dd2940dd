//! What the property lists have: the logical volume, and the keys that a password opens.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use atrest_codec::Record;
use base64ct::{Base64, Decoder};

use super::plist::{ContextError, values};
use super::{KEY_LEN, WRAPPED_LEN};

/// A UUID, as its bytes stand in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uuid(pub [u8; 16]);

/// The keys. There is one of each kind for each user, and each recovery key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Keys of keys, wrapped by what a password yields.
    pub keks: Vec<WrappedKek>,
    /// Volume keys, wrapped by a key of keys.
    pub keys: Vec<[u8; WRAPPED_LEN]>,
    /// How far a conversion is, where something is said of it: `Complete` if it is done.
    pub conversion: Option<String>,
}

/// A key that wraps keys, wrapped by PBKDF2-HMAC-SHA-256 of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrappedKek {
    /// Salt.
    pub salt: [u8; 16],
    /// Iterations, 1 to 10^8.
    pub iterations: u32,
    /// The wrapped key.
    pub wrapped: [u8; WRAPPED_LEN],
}

/// The logical volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogicalVolume {
    /// Its family, which goes into the tweak key.
    pub family: Uuid,
    /// Its bytes.
    pub size: u64,
}

const KEK: &str = "PassphraseWrappedKEKStruct";
const KEY: &str = "KEKWrappedVolumeKeyStruct";
/// Bytes of these two.
const KEK_LEN: usize = 284;
const KEY_STRUCT_LEN: usize = 256;
/// Each costs a derivation.
const MOST: usize = 32;
/// Work that nobody waits for.
const MOST_ITERATIONS: u32 = 100_000_000;

impl Context {
    /// Reads the property list with the keys.
    ///
    /// # Errors
    /// [`ContextError`] for what it lacks, or has and can't be used.
    pub fn read(text: &[u8]) -> Result<Self, ContextError> {
        let text = core::str::from_utf8(text).map_err(|_| ContextError::Text)?;
        let (mut keks, mut keys) = (Vec::new(), Vec::new());
        for value in values(text, KEK, "data") {
            let bytes = decoded::<KEK_LEN>(value).ok_or(ContextError::Value(KEK))?;
            let record = Record::new(&bytes);
            let iterations = record.le32::<168>();
            let lens = (record.le32::<4>(), record.le32::<28>());
            if lens != (16, WRAPPED_LEN as u32) || !(1..=MOST_ITERATIONS).contains(&iterations) {
                return Err(ContextError::Value(KEK));
            }
            keks.push(WrappedKek {
                salt: *record.array::<8, 16>(),
                iterations,
                wrapped: *record.array::<32, WRAPPED_LEN>(),
            });
        }
        for value in values(text, KEY, "data") {
            let bytes = decoded::<KEY_STRUCT_LEN>(value).ok_or(ContextError::Value(KEY))?;
            let record = Record::new(&bytes);
            // Other lengths are for other ciphers.
            if record.le32::<4>() == WRAPPED_LEN as u32 {
                keys.push(*record.array::<8, WRAPPED_LEN>());
            }
        }
        if keks.len() > MOST || keys.len() > MOST {
            return Err(ContextError::Keys(MOST));
        }
        match (keks.is_empty(), keys.is_empty()) {
            (true, _) => Err(ContextError::Value(KEK)),
            (false, true) => Err(ContextError::Value(KEY)),
            (false, false) => {
                let conversion = values(text, "ConversionStatus", "string").next().map(String::from);
                Ok(Self { keks, keys, conversion })
            }
        }
    }
}

impl LogicalVolume {
    pub(super) fn read(text: &[u8]) -> Result<Self, ContextError> {
        const SIZE: &str = "com.apple.corestorage.lv.size";
        const FAMILY: &str = "com.apple.corestorage.lv.familyUUID";
        let text = core::str::from_utf8(text).map_err(|_| ContextError::Text)?;
        let size = values(text, SIZE, "integer").next().and_then(number);
        let family = values(text, FAMILY, "string").next().and_then(Uuid::parse);
        Ok(Self {
            size: size.filter(|size| *size > 0).ok_or(ContextError::Value(SIZE))?,
            family: family.ok_or(ContextError::Value(FAMILY))?,
        })
    }
}

/// A number as CoreStorage writes it: hexadecimal.
fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Base64 of exactly so many bytes, with white space anywhere.
fn decoded<const N: usize>(text: &str) -> Option<[u8; N]> {
    let dense: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let mut bytes = [0; N];
    let mut decoder = Decoder::<Base64>::new(&dense).ok()?;
    if decoder.remaining_len() != N {
        return None;
    }
    decoder.decode(&mut bytes).ok()?;
    Some(bytes)
}

impl Uuid {
    fn parse(text: &str) -> Option<Self> {
        let (mut bytes, mut nibbles) = ([0_u8; 16], text.chars().filter(|letter| *letter != '-'));
        for byte in &mut bytes {
            let (high, low) = (nibbles.next()?.to_digit(16)?, nibbles.next()?.to_digit(16)?);
            *byte = u8::try_from(high << 4 | low).ok()?;
        }
        nibbles.next().is_none().then_some(Self(bytes))
    }
}

const _: () = assert!(KEY_LEN + 8 == WRAPPED_LEN);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}
