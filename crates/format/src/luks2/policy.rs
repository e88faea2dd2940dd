//! A header policy: what a LUKS2 header may say. It is a file beside the volume, and lies in the token of a pinned header.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use base64ct::{Base64, Encoding};
use serde::{Deserialize, Serialize};

use super::view::{
    AreaKind, Argon2, DigestKind, Kdf, Keyslot, KeyslotKind, Segment, SegmentKind, SegmentSize,
};
use super::{Header, Metadata, PIN_TOKEN};

/// The only version there is.
const VERSION: u32 = 1;
/// What a keyslot that a token opens may cost at least: its secret has full entropy, and all who make such keyslots make them so.
const TOKEN_ITERATIONS: u32 = 1000;

/// What a header may say. Lists have what is allowed; an empty one allows nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HeaderPolicy {
    version: u32,
    /// The volume's UUID.
    pub uuid: String,
    /// Identifier of the volume key, as [`atrest open --expect-key`](crate) takes it; in a token there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The header must be pinned, and its counter at least this one; in a token there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<u64>,
    /// Ciphers of segments, those of authenticated ones with their tags: `aes-xts-random hmac(sha256)`.
    pub ciphers: Vec<String>,
    /// Bytes of the volume key.
    pub key_bytes: Vec<u32>,
    /// Bytes in a data unit.
    pub sector_sizes: Vec<u32>,
    /// Where segments lie: offset, size and IV offset of each.
    pub segments: Vec<String>,
    /// Ciphers of keyslot areas with the bytes of their keys: `aes-xts-plain64 64`.
    pub keyslot_ciphers: Vec<String>,
    /// Hashes of key derivations, anti-forensic splitters and digests.
    pub hashes: Vec<String>,
    /// Least iterations of PBKDF2 where a person types the passphrase; without it there is no such keyslot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pbkdf2: Option<u32>,
    /// Least iterations of PBKDF2 where a token names the keyslot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pbkdf2_of_tokens: Option<u32>,
    /// Least cost of Argon2i.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argon2i: Option<Argon2Floor>,
    /// Least cost of Argon2id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argon2id: Option<Argon2Floor>,
    /// Types of tokens.
    pub tokens: Vec<String>,
    /// Persistent flags.
    pub flags: Vec<String>,
    /// Mandatory requirements.
    pub requirements: Vec<String>,
}

/// The least that Argon2 may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Argon2Floor {
    /// Passes.
    pub time: u32,
    /// Memory in KiB.
    pub memory: u32,
}

/// What a header says that a policy does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFault {
    /// The field, such as `segments.0.encryption`.
    pub field: String,
    /// What it says.
    pub says: String,
    /// What is allowed.
    pub allowed: String,
}

impl HeaderPolicy {
    /// Reads a policy.
    ///
    /// # Errors
    /// What is wrong with the text, in a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let policy: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match policy.version {
            VERSION => Ok(policy),
            version => Err(format!("version {version} of header policies is not known")),
        }
    }

    /// Its JSON text.
    pub fn to_json(&self) -> String {
        // cannot fail: texts and numbers.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What this header says, and nothing else. Of derivations the cheapest of each kind is the floor.
    pub fn of(header: &Header) -> Self {
        let metadata = &header.metadata;
        let mut policy = Self {
            version: VERSION,
            uuid: header.binary.uuid.as_str().into(),
            key: None,
            pinned: None,
            ciphers: Vec::new(),
            key_bytes: Vec::new(),
            sector_sizes: Vec::new(),
            segments: metadata.segments().iter().map(place_of).collect(),
            keyslot_ciphers: Vec::new(),
            hashes: hashes(metadata).into_iter().map(|(_, hash)| hash).collect(),
            pbkdf2: None,
            pbkdf2_of_tokens: None,
            argon2i: None,
            argon2id: None,
            tokens: token_types(metadata).map(|(_, kind)| kind).collect(),
            flags: metadata.config().flags.clone(),
            requirements: requirements(metadata),
        };
        for segment in metadata.segments() {
            if let Some((cipher, sector_size)) = cipher_of(segment) {
                policy.ciphers.push(cipher);
                policy.sector_sizes.push(sector_size);
            }
        }
        for keyslot in metadata.keyslots() {
            policy.key_bytes.push(keyslot.key_len);
            policy.keyslot_ciphers.extend(area_cipher(keyslot));
            let KeyslotKind::Luks2 { kdf, .. } = &keyslot.kind else { continue };
            match kdf {
                Kdf::Pbkdf2 { iterations, .. } => match is_of_token(metadata, keyslot.id) {
                    true => lower(&mut policy.pbkdf2_of_tokens, *iterations),
                    false => lower(&mut policy.pbkdf2, *iterations),
                },
                Kdf::Argon2i(cost) => floor(&mut policy.argon2i, cost),
                Kdf::Argon2id(cost) => floor(&mut policy.argon2id, cost),
                Kdf::Unknown(_) => {}
            }
        }
        // Tokens that are enrolled later have keyslots like these.
        policy.pbkdf2_of_tokens = policy.pbkdf2_of_tokens.map(|least| least.min(TOKEN_ITERATIONS));
        let lists = [
            &mut policy.ciphers,
            &mut policy.segments,
            &mut policy.keyslot_ciphers,
            &mut policy.hashes,
            &mut policy.tokens,
            &mut policy.flags,
            &mut policy.requirements,
        ];
        for list in lists {
            list.sort();
            list.dedup();
        }
        for list in [&mut policy.key_bytes, &mut policy.sector_sizes] {
            list.sort_unstable();
            list.dedup();
        }
        policy
    }

    /// Checks what a header says, without a key.
    ///
    /// # Errors
    /// The first field that says what is not allowed.
    pub fn check(&self, header: &Header) -> Result<(), PolicyFault> {
        let metadata = &header.metadata;
        let uuid = header.binary.uuid.as_str();
        if uuid != self.uuid {
            return Err(fault("uuid".into(), uuid, &self.uuid));
        }
        self.check_segments(metadata)?;
        for keyslot in metadata.keyslots() {
            self.check_keyslot(metadata, keyslot)?;
        }
        for (field, hash) in hashes(metadata) {
            one_of(field, hash, &self.hashes)?;
        }
        for digest in metadata.digests() {
            if let DigestKind::Unknown(kind) = &digest.kind {
                return Err(fault(format!("digests.{}.type", digest.id), kind, "pbkdf2"));
            }
        }
        for (id, kind) in token_types(metadata) {
            one_of(format!("tokens.{id}.type"), kind, &self.tokens)?;
        }
        for flag in &metadata.config().flags {
            one_of("config.flags".into(), flag.clone(), &self.flags)?;
        }
        for requirement in requirements(metadata) {
            one_of("config.requirements".into(), requirement, &self.requirements)?;
        }
        Ok(())
    }

    fn check_segments(&self, metadata: &Metadata) -> Result<(), PolicyFault> {
        for segment in metadata.segments() {
            let at = |field: &str| format!("segments.{}.{field}", segment.id);
            let Some((cipher, sector_size)) = cipher_of(segment) else {
                let kind = match &segment.kind {
                    SegmentKind::Unknown(kind) => kind.as_str(),
                    _ => "linear",
                };
                return Err(fault(at("type"), kind, "crypt"));
            };
            one_of(at("encryption"), cipher, &self.ciphers)?;
            if !self.sector_sizes.contains(&sector_size) {
                let allowed = listed(self.sector_sizes.iter());
                return Err(fault(at("sector_size"), &sector_size.to_string(), &allowed));
            }
            one_of(at("offset, size and iv_tweak"), place_of(segment), &self.segments)?;
        }
        match metadata.segments().len() {
            len if len == self.segments.len() => Ok(()),
            len => Err(fault("segments".into(), &len.to_string(), &self.segments.len().to_string())),
        }
    }

    fn check_keyslot(&self, metadata: &Metadata, keyslot: &Keyslot) -> Result<(), PolicyFault> {
        let at = |field: &str| format!("keyslots.{}.{field}", keyslot.id);
        let KeyslotKind::Luks2 { kdf, .. } = &keyslot.kind else {
            return Err(fault(at("type"), "another one", "luks2"));
        };
        if !self.key_bytes.contains(&keyslot.key_len) {
            let allowed = listed(self.key_bytes.iter());
            return Err(fault(at("key_size"), &keyslot.key_len.to_string(), &allowed));
        }
        // intended: an area of another kind has no cipher, which no policy lists.
        one_of(at("area.encryption"), area_cipher(keyslot).unwrap_or_default(), &self.keyslot_ciphers)?;
        let argon2 = |kind: &str, floor: Option<Argon2Floor>, cost: &Argon2| match floor {
            None => Err(fault(at("kdf.type"), kind, "others")),
            Some(floor) if cost.time < floor.time => {
                Err(fault(at("kdf.time"), &cost.time.to_string(), &at_least(floor.time)))
            }
            Some(floor) if cost.memory_kib < floor.memory => {
                Err(fault(at("kdf.memory"), &cost.memory_kib.to_string(), &at_least(floor.memory)))
            }
            Some(_) => Ok(()),
        };
        match kdf {
            Kdf::Unknown(kind) => Err(fault(at("kdf.type"), kind, "others")),
            Kdf::Argon2i(cost) => argon2("argon2i", self.argon2i, cost),
            Kdf::Argon2id(cost) => argon2("argon2id", self.argon2id, cost),
            Kdf::Pbkdf2 { iterations, .. } => {
                let of_tokens = self.pbkdf2_of_tokens.filter(|_| is_of_token(metadata, keyslot.id));
                match of_tokens.or(self.pbkdf2) {
                    None => Err(fault(at("kdf.type"), "pbkdf2", "others")),
                    Some(least) if *iterations < least => {
                        Err(fault(at("kdf.iterations"), &iterations.to_string(), &at_least(least)))
                    }
                    Some(_) => Ok(()),
                }
            }
        }
    }
}

/// Whether a token says that it opens the keyslot.
fn is_of_token(metadata: &Metadata, keyslot: u32) -> bool {
    metadata.tokens().iter().any(|token| token.keyslots.contains(&keyslot))
}

/// Numbers and types of all tokens but pins.
fn token_types(metadata: &Metadata) -> impl Iterator<Item = (u32, String)> {
    let tokens = metadata.tokens().iter().filter(|token| token.kind != PIN_TOKEN);
    tokens.map(|token| (token.id, token.kind.clone()))
}

fn requirements(metadata: &Metadata) -> Vec<String> {
    metadata.config().requirements.iter().map(|requirement| requirement.name().into()).collect()
}

fn hashes(metadata: &Metadata) -> Vec<(String, String)> {
    let mut hashes = Vec::new();
    for keyslot in metadata.keyslots() {
        let KeyslotKind::Luks2 { af, kdf } = &keyslot.kind else { continue };
        hashes.push((format!("keyslots.{}.af.hash", keyslot.id), af.hash.clone()));
        if let Kdf::Pbkdf2 { hash, .. } = kdf {
            hashes.push((format!("keyslots.{}.kdf.hash", keyslot.id), hash.clone()));
        }
    }
    for digest in metadata.digests() {
        if let DigestKind::Pbkdf2 { hash, .. } = &digest.kind {
            hashes.push((format!("digests.{}.hash", digest.id), hash.clone()));
        }
    }
    hashes
}

/// The cipher with its tags, and the sector size; `None` for what is not encrypted.
fn cipher_of(segment: &Segment) -> Option<(String, u32)> {
    if let SegmentKind::Sealed { format } = &segment.kind {
        return Some((format!("atrest-sealed {}", Base64::encode_string(format)), 4096));
    }
    let SegmentKind::Crypt { encryption, sector_size, integrity, .. } = &segment.kind else { return None };
    let cipher = match integrity {
        None => encryption.clone(),
        Some(integrity) => format!("{encryption} {}", integrity.kind),
    };
    Some((cipher, *sector_size))
}

fn place_of(segment: &Segment) -> String {
    let size = match segment.size {
        SegmentSize::Dynamic => "dynamic".to_string(),
        SegmentSize::Fixed(size) => size.to_string(),
    };
    let iv_tweak = match &segment.kind {
        SegmentKind::Crypt { iv_tweak, .. } => *iv_tweak,
        _ => 0,
    };
    format!("{} {size} {iv_tweak}", segment.offset)
}

fn area_cipher(keyslot: &Keyslot) -> Option<String> {
    match &keyslot.area.kind {
        AreaKind::Raw { encryption, key_len } => Some(format!("{encryption} {key_len}")),
        _ => None,
    }
}

fn lower(least: &mut Option<u32>, value: u32) {
    *least = Some(least.map_or(value, |least| least.min(value)));
}

fn floor(least: &mut Option<Argon2Floor>, cost: &Argon2) {
    let cost = Argon2Floor { time: cost.time, memory: cost.memory_kib };
    *least = Some(least.map_or(cost, |least| Argon2Floor {
        time: least.time.min(cost.time),
        memory: least.memory.min(cost.memory),
    }));
}

fn one_of(field: String, says: String, allowed: &[String]) -> Result<(), PolicyFault> {
    match allowed.contains(&says) {
        true => Ok(()),
        false => Err(fault(field, &says, &listed(allowed.iter()))),
    }
}

fn listed(all: impl Iterator<Item = impl ToString>) -> String {
    let all: Vec<String> = all.map(|one| one.to_string()).collect();
    if all.is_empty() { "none".into() } else { all.join(" or ") }
}

fn at_least(least: u32) -> String {
    format!("at least {least}")
}

fn fault(field: String, says: &str, allowed: &str) -> PolicyFault {
    PolicyFault { field, says: says.into(), allowed: allowed.into() }
}

impl fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, says, allowed } = self;
        write!(f, "{} is {}; allowed is {}", clean(field), clean(says), clean(allowed))
    }
}

/// What a header says, for people: no control characters, and not without end.
fn clean(text: &str) -> String {
    text.chars().take(120).map(|c| if c.is_control() { '?' } else { c }).collect()
}
