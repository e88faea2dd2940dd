//! Policies and protectors as they lie in their files: google/fscrypt's messages `PolicyData` and `ProtectorData`.

use atrest_inside::KeyName;
use atrest_kdf::{Argon2Cost, Argon2Kind};

use super::error::RecordDamage;
use super::hex::{ProtectorDescriptor, key_name};
use super::wire::{Fields, Malformed, Value};
use super::wrap::WrappedKey;

/// Bytes of a protector's key.
pub(super) const PROTECTOR_KEY: usize = 32;
/// Bytes of a policy's master key.
pub(super) const POLICY_KEY: usize = 64;

/// Something that a person has, and a key that it unlocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protector {
    /// Its name for programs.
    pub descriptor: ProtectorDescriptor,
    /// Its name for people; empty for login passphrases.
    pub name: String,
    /// What unlocks it.
    pub source: ProtectorSource,
    pub(super) key: WrappedKey,
}

/// What unlocks a protector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectorSource {
    /// The passphrase by which a user logs in.
    LoginPassphrase {
        /// The user.
        uid: u32,
        /// How it is hashed.
        hashing: Hashing,
    },
    /// A passphrase of its own.
    CustomPassphrase(Hashing),
    /// A key of 32 bytes.
    RawKey,
}

/// How a passphrase becomes a key: Argon2id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hashing {
    /// At which costs, inside the limits of [`Argon2Cost::check`].
    pub cost: Argon2Cost,
    /// With which salt.
    pub salt: [u8; 16],
}

/// A master key and what is encrypted with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The name of its key; its kind is the version of the policy.
    pub key_name: KeyName,
    /// Number of the mode for contents, as [`EncryptionMode`](crate::fscrypt::EncryptionMode) has it.
    pub contents: u8,
    /// Number of the mode for names.
    pub filenames: u8,
    /// Names are padded to multiples of so many bytes: 4, 8, 16 or 32.
    pub padding: u8,
    /// Its key, wrapped for each of its protectors.
    pub keys: Vec<PolicyKeySlot>,
}

/// A policy's key, wrapped for one protector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyKeySlot {
    /// The protector.
    pub protector: ProtectorDescriptor,
    pub(super) key: WrappedKey,
}

/// Parses a file of `.fscrypt/protectors`.
pub fn parse_protector(file: &[u8]) -> Result<Protector, RecordDamage> {
    let [descriptor, source, name, costs, salt, uid, key] = fields(file, [1, 2, 3, 4, 5, 6, 7])?;
    let hashing = || -> Result<Hashing, RecordDamage> {
        let salt = bytes(salt)?.try_into().map_err(|_| RecordDamage::Field { name: "salt" })?;
        Ok(Hashing { cost: parse_costs(bytes(costs)?)?, salt })
    };
    let source = match number(source)? {
        1 => {
            let uid = u32::try_from(number(uid)?).map_err(|_| RecordDamage::Field { name: "uid" })?;
            ProtectorSource::LoginPassphrase { uid, hashing: hashing()? }
        }
        2 => ProtectorSource::CustomPassphrase(hashing()?),
        3 => ProtectorSource::RawKey,
        _ => return Err(RecordDamage::Field { name: "source" }),
    };
    Ok(Protector {
        descriptor: ProtectorDescriptor::parse(bytes(descriptor)?)
            .ok_or(RecordDamage::Field { name: "protector_descriptor" })?,
        name: String::from_utf8(bytes(name)?.to_vec()).map_err(|_| RecordDamage::Field { name: "name" })?,
        source,
        key: parse_key(bytes(key)?, PROTECTOR_KEY)?,
    })
}

/// Parses a file of `.fscrypt/policies`.
pub fn parse_policy(file: &[u8]) -> Result<Policy, RecordDamage> {
    let [descriptor, options] = fields(file, [1, 2])?;
    let [padding, contents, filenames, version] = fields(bytes(options)?, [1, 2, 3, 4])?;
    let mode = |value: Option<Value<'_>>, name| match u8::try_from(number(value)?) {
        Ok(mode) if mode != 0 => Ok(mode),
        _ => Err(RecordDamage::Field { name }),
    };
    let padding = match number(padding)? {
        padding @ (4 | 8 | 16 | 32) => padding as u8,
        _ => return Err(RecordDamage::Field { name: "padding" }),
    };
    let key_name = match (key_name(bytes(descriptor)?), number(version)?) {
        // Before there was a version 2 none was written.
        (Some(name @ KeyName::Descriptor(_)), 0 | 1) => name,
        (Some(name @ KeyName::Identifier(_)), 2) => name,
        (_, 0..=2) => return Err(RecordDamage::Field { name: "key_descriptor" }),
        _ => return Err(RecordDamage::Field { name: "policy_version" }),
    };
    let mut keys = Vec::new();
    for field in Fields(file) {
        if let (3, value) = field? {
            keys.push(parse_slot(bytes(Some(value))?)?);
        }
    }
    Ok(Policy {
        key_name,
        contents: mode(contents, "contents")?,
        filenames: mode(filenames, "filenames")?,
        padding,
        keys,
    })
}

fn parse_slot(message: &[u8]) -> Result<PolicyKeySlot, RecordDamage> {
    let [protector, key] = fields(message, [1, 2])?;
    Ok(PolicyKeySlot {
        protector: ProtectorDescriptor::parse(bytes(protector)?)
            .ok_or(RecordDamage::Field { name: "protector_descriptor" })?,
        key: parse_key(bytes(key)?, POLICY_KEY)?,
    })
}

fn parse_key(message: &[u8], len: usize) -> Result<WrappedKey, RecordDamage> {
    let [iv, encrypted, hmac] = fields(message, [1, 2, 3])?;
    let encrypted = bytes(encrypted)?;
    if encrypted.len() != len {
        return Err(RecordDamage::Field { name: "encrypted_key" });
    }
    Ok(WrappedKey {
        iv: bytes(iv)?.try_into().map_err(|_| RecordDamage::Field { name: "IV" })?,
        encrypted: encrypted.to_vec(),
        hmac: bytes(hmac)?.try_into().map_err(|_| RecordDamage::Field { name: "hmac" })?,
    })
}

fn parse_costs(message: &[u8]) -> Result<Argon2Cost, RecordDamage> {
    let [time, memory, parallelism, truncation_fixed] = fields(message, [2, 3, 4, 5])?;
    let field = |value: Option<Value<'_>>, name| {
        u32::try_from(number(value)?).map_err(|_| RecordDamage::Field { name })
    };
    let mut lanes = field(parallelism, "parallelism")?;
    // Releases before the field `truncation_fixed` took the lowest byte, whatever they wrote.
    if number(truncation_fixed)? == 0 {
        lanes &= 0xff;
    }
    let cost = Argon2Cost {
        kind: Argon2Kind::Id,
        time: field(time, "time")?,
        memory_kib: field(memory, "memory")?,
        lanes,
    };
    cost.check().map_err(RecordDamage::Costs)?;
    Ok(cost)
}

impl From<Malformed> for RecordDamage {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// The fields of these numbers, each at most once; others are left alone, as a newer release may have them.
fn fields<'a, const N: usize>(
    message: &'a [u8],
    numbers: [u64; N],
) -> Result<[Option<Value<'a>>; N], RecordDamage> {
    let mut found = [None; N];
    for field in Fields(message) {
        let (number, value) = field?;
        let places = found.iter_mut().zip(numbers);
        if let Some((place, _)) = places.into_iter().find(|(_, wanted)| *wanted == number)
            && place.replace(value).is_some()
        {
            return Err(RecordDamage::Malformed);
        }
    }
    Ok(found)
}

/// A number; one that is left out is 0.
fn number(value: Option<Value<'_>>) -> Result<u64, RecordDamage> {
    match value {
        None => Ok(0),
        Some(Value::Number(number)) => Ok(number),
        Some(_) => Err(RecordDamage::Malformed),
    }
}

/// Bytes; what is left out is empty.
fn bytes(value: Option<Value<'_>>) -> Result<&[u8], RecordDamage> {
    match value {
        None => Ok(&[]),
        Some(Value::Bytes(bytes)) => Ok(bytes),
        Some(_) => Err(RecordDamage::Malformed),
    }
}
