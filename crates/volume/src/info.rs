//! What a header says, as plain data for text and JSON output. No secrets: salts and digests are in the header anyway.

use serde::Serialize;

use crate::{Priority, VolumeFormat};

/// Everything that a header says.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// Format.
    pub format: VolumeFormat,
    /// UUID.
    pub uuid: String,
    /// LUKS2 label, empty if there is none.
    pub label: String,
    /// LUKS2 subsystem, empty if there is none.
    pub subsystem: String,
    /// LUKS2 sequence number of the header that is used.
    pub sequence: Option<u64>,
    /// Bytes in one header copy: LUKS2 metadata size, LUKS1 592.
    pub metadata_size: u64,
    /// Bytes for keyslot areas.
    pub keyslots_size: u64,
    /// The header copies, in the order of the media.
    pub copies: Vec<CopyInfo>,
    /// Persistent activation flags, such as `allow-discards`.
    pub flags: Vec<String>,
    /// Mandatory requirements.
    pub requirements: Vec<String>,
    /// Requirements that this version does not know; the volume can't be unlocked or changed.
    pub unknown_requirements: Vec<String>,
    /// Data segments, in the order of their numbers.
    pub segments: Vec<SegmentInfo>,
    /// Keyslots in use, in the order of their numbers.
    pub keyslots: Vec<KeyslotInfo>,
    /// Tokens, in the order of their numbers.
    pub tokens: Vec<TokenInfo>,
    /// Digests of volume keys.
    pub digests: Vec<DigestInfo>,
    /// The re-encryption in progress.
    pub reencryption: Option<ReencryptionInfo>,
}

/// A re-encryption in progress. Nothing of it is verified: that takes the keys.
#[derive(Clone, Debug, Serialize)]
pub struct ReencryptionInfo {
    /// `encrypt`, `reencrypt` or `decrypt`.
    pub mode: &'static str,
    /// `forward` or `backward`.
    pub direction: &'static str,
    /// How a zone survives a crash: `checksum`, `journal`, `none`, `datashift` …
    pub resilience: &'static str,
    /// Hash of the checksums.
    pub hash: Option<String>,
    /// Bytes under one checksum.
    pub checksum_sector: Option<u32>,
    /// By how many bytes the data moves.
    pub shift: Option<u64>,
    /// First byte and length, on the data device, of the zone that was being rewritten.
    pub hot: Option<(u64, Option<u64>)>,
}

/// One copy of the header.
#[derive(Clone, Debug, Serialize)]
pub struct CopyInfo {
    /// Byte offset on the header device.
    pub offset: u64,
    /// What is wrong with it; `None` if it is intact and up to date.
    pub damage: Option<String>,
}

/// A data segment.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentInfo {
    /// Number.
    pub id: u32,
    /// Type: `crypt` or `linear`.
    pub kind: String,
    /// Byte offset on the data device.
    pub offset: u64,
    /// Bytes; `None` is everything up to the end of the device.
    pub size: Option<u64>,
    /// Cipher in dm-crypt's form.
    pub cipher: String,
    /// Bytes in the volume key, if a digest or keyslot tells.
    pub key_len: Option<u64>,
    /// Bytes in a data unit.
    pub data_unit: u32,
    /// Number added to every IV, in 512-byte sectors.
    pub iv_offset: u64,
    /// Integrity type, if there is one.
    pub integrity: Option<String>,
    /// Bytes of the volume key that are the MAC's, where the header says so.
    pub integrity_key_len: Option<u32>,
    /// Flags, such as `backup-final`.
    pub flags: Vec<String>,
}

/// A keyslot.
#[derive(Clone, Debug, Serialize)]
pub struct KeyslotInfo {
    /// Number.
    pub id: u32,
    /// Type: `luks1`, `luks2`, `reencrypt`, or one that is not known.
    pub kind: String,
    /// Bytes in the key that it holds.
    pub key_len: u64,
    /// Order in which it is tried.
    pub priority: Priority,
    /// Its key belongs to no segment.
    pub unbound: bool,
    /// Key derivation.
    pub kdf: Option<KdfInfo>,
    /// Anti-forensic stripes.
    pub af_stripes: Option<u32>,
    /// Hash of the anti-forensic splitter.
    pub af_hash: Option<String>,
    /// Where the key material lies.
    pub area: Option<AreaInfo>,
    /// Digest of its key.
    pub digest: Option<u32>,
}

/// A key derivation.
#[derive(Clone, Debug, Serialize)]
pub struct KdfInfo {
    /// `pbkdf2`, `argon2i` or `argon2id`.
    pub kind: String,
    /// PBKDF2's hash.
    pub hash: Option<String>,
    /// PBKDF2's iterations or Argon2's passes.
    pub iterations: u32,
    /// Argon2's memory in KiB.
    pub memory_kib: Option<u32>,
    /// Argon2's lanes.
    pub lanes: Option<u32>,
    /// Salt, in hexadecimal.
    pub salt: String,
}

/// A keyslot area.
#[derive(Clone, Debug, Serialize)]
pub struct AreaInfo {
    /// Byte offset on the header device.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Cipher in dm-crypt's form.
    pub cipher: Option<String>,
    /// Bytes in the cipher's key.
    pub key_len: Option<u32>,
}

/// A token.
#[derive(Clone, Debug, Serialize)]
pub struct TokenInfo {
    /// Number.
    pub id: u32,
    /// Type, such as `systemd-tpm2`.
    pub kind: String,
    /// Keyslots that it opens.
    pub keyslots: Vec<u32>,
    /// Of a token of the kernel's keyring: what the key is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_description: Option<String>,
}

/// A digest of a volume key.
#[derive(Clone, Debug, Serialize)]
pub struct DigestInfo {
    /// Number.
    pub id: u32,
    /// Type: `pbkdf2`.
    pub kind: String,
    /// Its hash.
    pub hash: Option<String>,
    /// Its iterations.
    pub iterations: Option<u32>,
    /// Salt, in hexadecimal.
    pub salt: Option<String>,
    /// The digest, in hexadecimal.
    pub digest: Option<String>,
    /// Keyslots that hold the key.
    pub keyslots: Vec<u32>,
    /// Segments that the key encrypts.
    pub segments: Vec<u32>,
}
