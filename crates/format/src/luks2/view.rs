//! The JSON metadata as types. Numbers of keyslots and the like are the names of their JSON members.

use alloc::string::String;
use alloc::vec::Vec;

use super::{ReencryptDirection, ReencryptMode, Resilience, SALT_LEN};

/// A keyslot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyslot {
    /// Its number.
    pub id: u32,
    /// Bytes in the key that it holds.
    pub key_len: u32,
    /// When it is tried.
    pub priority: Priority,
    /// Where its key material lies.
    pub area: Area,
    /// What kind of keyslot it is.
    pub kind: KeyslotKind,
}

/// Kinds of keyslots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyslotKind {
    /// A key, wrapped with a passphrase.
    Luks2 {
        /// Anti-forensic splitter.
        af: Af,
        /// Key derivation.
        kdf: Kdf,
    },
    /// State of a re-encryption.
    Reencrypt {
        /// What is being done.
        mode: ReencryptMode,
        /// In which order.
        direction: ReencryptDirection,
    },
    /// A type that is not known; it is kept as it is.
    Unknown(String),
}

/// When a keyslot is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// Only when asked for by number.
    Ignore,
    /// After the preferred ones.
    #[default]
    Normal,
    /// First.
    Prefer,
}

/// The anti-forensic splitter of LUKS1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Af {
    /// Stripes; always [`AF_STRIPES`](super::AF_STRIPES).
    pub stripes: u32,
    /// Hash of the diffusion.
    pub hash: String,
}

/// A key derivation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kdf {
    /// PBKDF2 with HMAC.
    Pbkdf2 {
        /// Hash.
        hash: String,
        /// Iterations, at least 1.
        iterations: u32,
        /// Salt.
        salt: [u8; SALT_LEN],
    },
    /// Argon2i.
    Argon2i(Argon2),
    /// Argon2id.
    Argon2id(Argon2),
    /// A type that is not known.
    Unknown(String),
}

/// Cost of an Argon2 key derivation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argon2 {
    /// Passes, at least 1.
    pub time: u32,
    /// Memory in KiB, at least 8 per lane.
    pub memory_kib: u32,
    /// Lanes, at least 1.
    pub lanes: u32,
    /// Salt.
    pub salt: [u8; SALT_LEN],
}

/// A keyslot area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// First byte on the header device.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// What is in it.
    pub kind: AreaKind,
}

impl Area {
    /// First byte behind it on the header device.
    pub fn end(&self) -> u64 {
        // cannot overflow: what is read lies in the keyslots area (rules::areas), and what is made does so, too.
        self.offset.saturating_add(self.size)
    }
}

/// Contents of a keyslot area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AreaKind {
    /// Encrypted key material.
    Raw {
        /// Cipher, in dm-crypt's form.
        encryption: String,
        /// Bytes in the cipher's key.
        key_len: u32,
    },
    /// What a re-encryption needs after a crash.
    Reencrypt(Resilience),
    /// Something else; its type.
    Other(String),
}

/// A token: how another program finds a passphrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its number.
    pub id: u32,
    /// Type.
    pub kind: String,
    /// Keyslots that it opens.
    pub keyslots: Vec<u32>,
}

/// A run of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number.
    pub id: u32,
    /// First byte on the data device.
    pub offset: u64,
    /// Length.
    pub size: SegmentSize,
    /// Flags. A flag that starts with `backup-` marks a segment that is no part of the volume now.
    pub flags: Vec<String>,
    /// What kind of segment it is.
    pub kind: SegmentKind,
}

/// Length of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentSize {
    /// Up to the end of the device.
    Dynamic,
    /// Bytes.
    Fixed(u64),
}

/// Kinds of segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// Encrypted data.
    Crypt {
        /// Cipher, in dm-crypt's form.
        encryption: String,
        /// Bytes in a data unit: 512, 1024, 2048 or 4096.
        sector_size: u32,
        /// Number added to every IV, in 512-byte sectors.
        iv_tweak: u64,
        /// Integrity tags beside the data.
        integrity: Option<Integrity>,
    },
    /// Data that is not encrypted; only while a re-encryption is in progress.
    Linear,
    /// `atrest-sealed`: the data lies in sealed objects beside the header, and not on the data device.
    Sealed {
        /// Identifier that keeps volumes under one key apart.
        format: [u8; 16],
    },
    /// A type that is not known.
    Unknown(String),
}

/// Integrity protection of a segment by dm-integrity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integrity {
    /// Type, such as `hmac(sha256)` or `aead`.
    pub kind: String,
    /// Journal encryption, `none` so far.
    pub journal_encryption: String,
    /// Journal integrity, `none` so far.
    pub journal_integrity: String,
    /// Bytes of the volume key that are the MAC's, where they are said (cryptsetup 2.8 and later).
    pub key_size: Option<u32>,
}

/// The digest of a key, by which it is recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Its number.
    pub id: u32,
    /// Keyslots that hold the key.
    pub keyslots: Vec<u32>,
    /// Segments that the key encrypts; none for an unbound key.
    pub segments: Vec<u32>,
    /// What kind of digest it is.
    pub kind: DigestKind,
}

/// Kinds of digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DigestKind {
    /// PBKDF2 with HMAC over the key.
    Pbkdf2 {
        /// Hash.
        hash: String,
        /// Iterations, at least 1.
        iterations: u32,
        /// Salt.
        salt: [u8; SALT_LEN],
        /// The digest, 20 to 64 bytes.
        digest: Vec<u8>,
    },
    /// A type that is not known.
    Unknown(String),
}

/// Sizes, flags and requirements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes in the JSON area.
    pub json_size: u64,
    /// Bytes in the keyslots area.
    pub keyslots_size: u64,
    /// Persistent activation flags.
    pub flags: Vec<String>,
    /// What a program must know before it may touch the volume.
    pub requirements: Vec<Requirement>,
}

/// Name of the segment and of the requirement of a sealed volume.
pub(super) const SEALED: &str = "atrest-sealed";

/// A mandatory requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// `offline-reencrypt`.
    OfflineReencrypt,
    /// `online-reencrypt` in any version; its name.
    OnlineReencrypt(String),
    /// `inline-hw-tags`.
    InlineHwTags,
    /// `opal` in any version; its name.
    Opal(String),
    /// `atrest-sealed`: the data lies in sealed objects (FORMATS.md, "Sealed volumes").
    Sealed,
    /// One that is not known; its name.
    Unknown(String),
}

impl Segment {
    /// Whether it has a flag.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|has| has == flag)
    }

    /// Whether it only remembers a state before or after a re-encryption.
    pub fn is_backup(&self) -> bool {
        self.flags.iter().any(|flag| flag.starts_with("backup-"))
    }
}

impl Requirement {
    /// Its name in the JSON text.
    pub fn name(&self) -> &str {
        match self {
            Self::OfflineReencrypt => "offline-reencrypt",
            Self::InlineHwTags => "inline-hw-tags",
            Self::Sealed => SEALED,
            Self::OnlineReencrypt(name) | Self::Opal(name) | Self::Unknown(name) => name,
        }
    }

    /// Whether a re-encryption is in progress.
    pub fn is_reencryption(&self) -> bool {
        matches!(self, Self::OfflineReencrypt | Self::OnlineReencrypt(_))
    }

    /// Whether it is named as some version of `online-reencrypt`, be it one of tomorrow.
    pub(super) fn is_any_online_reencryption(&self) -> bool {
        match self.name().strip_prefix("online-reencrypt") {
            Some("") => true,
            Some(rest) => rest.strip_prefix("-v").is_some_and(|version| {
                !version.is_empty() && version.bytes().all(|digit| digit.is_ascii_digit())
            }),
            None => false,
        }
    }

    pub(crate) fn from_name(name: String) -> Self {
        match name.as_str() {
            "offline-reencrypt" => Self::OfflineReencrypt,
            "inline-hw-tags" => Self::InlineHwTags,
            SEALED => Self::Sealed,
            "online-reencrypt" | "online-reencrypt-v2" | "online-reencrypt-v3" => Self::OnlineReencrypt(name),
            "opal" | "opal-v2" => Self::Opal(name),
            _ => Self::Unknown(name),
        }
    }
}
