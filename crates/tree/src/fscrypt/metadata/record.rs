//! Policies and protectors as they lie in their files: google/fscrypt's messages `PolicyData` and `ProtectorData`.

use atrest_filetree::KeyName;
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
///
/// # Errors
/// [`RecordDamage::Malformed`] if it is no message of this kind, [`RecordDamage::Field`] if a field is missing or
/// impossible. [`RecordDamage::Costs`] if hashing would cost more, or less, than is accepted.
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
///
/// # Errors
/// [`RecordDamage::Malformed`] if it is no message of this kind, [`RecordDamage::Field`] if a field is missing or
/// impossible.
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

#[cfg(test)]
mod tests {
    use super::*;

    const DESCRIPTOR: &[u8] = b"746031dd818d3a85";
    const IDENTIFIER: &[u8] = b"63f29193c25decb7b69d05c6f0d8974c";

    /// A field of a message.
    #[derive(Clone)]
    enum Field {
        Number(u64),
        Bytes(Vec<u8>),
    }

    fn varint(mut number: u64, out: &mut Vec<u8>) {
        while number > 0x7f {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    }

    fn message(fields: &[(u64, Field)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, field) in fields {
            match field {
                Field::Number(value) => {
                    varint(number << 3, &mut out);
                    varint(*value, &mut out);
                }
                Field::Bytes(bytes) => {
                    varint(number << 3 | 2, &mut out);
                    varint(bytes.len() as u64, &mut out);
                    out.extend(bytes);
                }
            }
        }
        out
    }

    fn bytes(bytes: impl Into<Vec<u8>>) -> Field {
        Field::Bytes(bytes.into())
    }

    fn key(iv: usize, encrypted: usize, hmac: usize) -> Field {
        bytes(message(&[(1, bytes(vec![1; iv])), (2, bytes(vec![2; encrypted])), (3, bytes(vec![3; hmac]))]))
    }

    fn costs(time: u64, memory: u64, lanes: u64, fixed: u64) -> Field {
        let numbers = [(2, time), (3, memory), (4, lanes), (5, fixed)];
        bytes(message(&numbers.map(|(field, number)| (field, Field::Number(number)))))
    }

    fn protector() -> Vec<(u64, Field)> {
        vec![
            (1, bytes(DESCRIPTOR)),
            (2, Field::Number(1)),
            (3, bytes("a name")),
            (4, costs(2, 512, 2, 1)),
            (5, bytes([7; 16])),
            (6, Field::Number(1000)),
            (7, key(16, 32, 32)),
        ]
    }

    /// One field of it is another, or missing.
    fn with(mut fields: Vec<(u64, Field)>, number: u64, field: Option<Field>) -> Vec<u8> {
        match field {
            None => fields.retain(|(found, _)| *found != number),
            Some(field) => fields
                .iter_mut()
                .filter(|(found, _)| *found == number)
                .for_each(|(_, old)| *old = field.clone()),
        }
        message(&fields)
    }

    fn field(name: &'static str) -> RecordDamage {
        RecordDamage::Field { name }
    }

    #[test]
    fn a_protector_has_each_of_its_fields_or_is_damaged() {
        let good = parse_protector(&message(&protector())).expect("whole");
        let cost = Argon2Cost { kind: Argon2Kind::Id, time: 2, memory_kib: 512, lanes: 2 };
        let hashing = Hashing { cost, salt: [7; 16] };
        assert_eq!(good.source, ProtectorSource::LoginPassphrase { uid: 1000, hashing });
        assert_eq!((good.name.as_str(), good.descriptor.to_string().as_bytes()), ("a name", DESCRIPTOR));
        let wrapped = WrappedKey { iv: [1; 16], encrypted: vec![2; 32], hmac: [3; 32] };
        assert_eq!(good.key, wrapped);
        let source = |number| parse_protector(&with(protector(), 2, Some(Field::Number(number))));
        assert_eq!(source(2).expect("custom").source, ProtectorSource::CustomPassphrase(hashing));
        assert_eq!(source(3).expect("raw").source, ProtectorSource::RawKey);
        for (number, bad, damage) in [
            (1, None, field("protector_descriptor")),
            (1, Some(bytes(&DESCRIPTOR[1..])), field("protector_descriptor")),
            (1, Some(bytes(IDENTIFIER)), field("protector_descriptor")),
            (1, Some(Field::Number(1)), RecordDamage::Malformed),
            (2, None, field("source")),
            (2, Some(Field::Number(0)), field("source")),
            (2, Some(Field::Number(4)), field("source")),
            (2, Some(bytes("1")), RecordDamage::Malformed),
            (3, Some(bytes([0xff])), field("name")),
            (5, None, field("salt")),
            (5, Some(bytes([7; 15])), field("salt")),
            (5, Some(bytes([7; 17])), field("salt")),
            (6, Some(Field::Number(1 << 32)), field("uid")),
            (7, None, field("encrypted_key")),
            (7, Some(key(16, 31, 32)), field("encrypted_key")),
            (7, Some(key(16, 64, 32)), field("encrypted_key")),
            (7, Some(key(15, 32, 32)), field("IV")),
            (7, Some(key(16, 32, 31)), field("hmac")),
            (4, Some(costs(2, 1 << 32, 2, 1)), field("memory")),
            (4, Some(costs(1 << 32, 512, 2, 1)), field("time")),
            (4, Some(costs(2, 512, 1 << 32, 1)), field("parallelism")),
        ] {
            let found = parse_protector(&with(protector(), number, bad));
            assert_eq!(found, Err(damage), "field {number}");
        }
        for (number, lost) in [(3, false), (6, false), (4, true)] {
            assert_eq!(parse_protector(&with(protector(), number, None)).is_err(), lost, "field {number}");
        }
        // What a newer release has is left alone; what is there twice is no accident.
        let mut more = protector();
        more.push((99, bytes("later")));
        assert_eq!(parse_protector(&message(&more)), Ok(good));
        for (number, again) in protector() {
            let mut twice = protector();
            twice.push((number, again));
            assert_eq!(parse_protector(&message(&twice)), Err(RecordDamage::Malformed), "field {number}");
        }
    }

    #[test]
    fn lanes_are_those_that_the_release_used_that_wrote_them() {
        let lanes = |lanes, fixed| {
            let found = parse_protector(&with(protector(), 4, Some(costs(1, 1 << 15, lanes, fixed))));
            match found.map(|protector| protector.source) {
                Ok(ProtectorSource::LoginPassphrase { hashing, .. }) => Ok(hashing.cost.lanes),
                Ok(other) => panic!("{other:?}"),
                Err(damage) => Err(damage),
            }
        };
        assert_eq!((lanes(2, 0), lanes(2, 1)), (Ok(2), Ok(2)));
        assert_eq!(lanes(0x0103, 0), Ok(3));
        assert_ne!(lanes(0x0103, 1), Ok(3));
        assert!(matches!(lanes(0x0100, 0), Err(RecordDamage::Costs(_))));
    }

    fn policy() -> Vec<(u64, Field)> {
        let slot = message(&[(1, bytes(DESCRIPTOR)), (2, key(16, 64, 32))]);
        vec![(1, bytes(IDENTIFIER)), (2, options(32, 1, 4, 2)), (3, bytes(slot.clone())), (3, bytes(slot))]
    }

    fn options(padding: u64, contents: u64, names: u64, version: u64) -> Field {
        let numbers = [(1, padding), (2, contents), (3, names), (4, version)];
        bytes(message(&numbers.map(|(field, number)| (field, Field::Number(number)))))
    }

    #[test]
    fn a_policy_has_each_of_its_fields_or_is_damaged() {
        let good = parse_policy(&message(&policy())).expect("whole");
        assert_eq!((good.contents, good.filenames, good.padding, good.keys.len()), (1, 4, 32, 2));
        assert_eq!(good.key_name.to_string().as_bytes(), IDENTIFIER);
        assert_eq!(good.keys[0].key.encrypted, [2; 64]);
        for padding in [4, 8, 16, 32] {
            let found = parse_policy(&with(policy(), 2, Some(options(padding, 1, 4, 2))));
            assert_eq!(found.map(|policy| u64::from(policy.padding)), Ok(padding));
        }
        let slot = |descriptor: &[u8], encrypted| {
            Some(bytes(message(&[(1, bytes(descriptor)), (2, key(16, encrypted, 32))])))
        };
        for (number, bad, damage) in [
            (1, None, field("key_descriptor")),
            (1, Some(bytes(DESCRIPTOR)), field("key_descriptor")),
            (2, None, field("padding")),
            (2, Some(options(0, 1, 4, 2)), field("padding")),
            (2, Some(options(12, 1, 4, 2)), field("padding")),
            (2, Some(options(0x104, 1, 4, 2)), field("padding")),
            (2, Some(options(32, 0, 4, 2)), field("contents")),
            (2, Some(options(32, 256, 4, 2)), field("contents")),
            (2, Some(options(32, 1, 0, 2)), field("filenames")),
            (2, Some(options(32, 1, 257, 2)), field("filenames")),
            (2, Some(options(32, 1, 4, 0)), field("key_descriptor")),
            (2, Some(options(32, 1, 4, 1)), field("key_descriptor")),
            (2, Some(options(32, 1, 4, 3)), field("policy_version")),
            (3, slot(&DESCRIPTOR[1..], 64), field("protector_descriptor")),
            (3, slot(DESCRIPTOR, 32), field("encrypted_key")),
            (3, Some(Field::Number(1)), RecordDamage::Malformed),
        ] {
            assert_eq!(parse_policy(&with(policy(), number, bad)), Err(damage), "field {number}");
        }
        // Version 1, or written before there were versions.
        for version in [0, 1] {
            let fields = vec![(1, bytes(DESCRIPTOR)), (2, options(32, 1, 4, version))];
            let old = parse_policy(&message(&fields)).expect("whole");
            assert!(matches!(old.key_name, KeyName::Descriptor(_)) && old.keys.is_empty());
            let new = parse_policy(&with(fields, 2, Some(options(32, 1, 4, 2))));
            assert_eq!(new, Err(field("key_descriptor")));
        }
    }
}
