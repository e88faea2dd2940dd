//! What callers choose: devices, credentials, keyslot costs and format parameters. Plain data.

use core::time::Duration;
use std::sync::Arc;

use atrest_cipher::{BackendChoice, CipherSpec, TaggedSpec};
use atrest_device::Media;
use atrest_kdf::{Argon2Cost, Hash};
use serde::Serialize;

use crate::luks2::{HeaderPolicy, PinRecord, VolumeKeyId};
use crate::{OptionError, Passphrase, UnlockError, VolumeKey};

/// Format of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeFormat {
    /// LUKS version 1.
    Luks1,
    /// LUKS version 2.
    Luks2,
    /// dm-crypt without a header.
    Plain,
    /// TrueCrypt or VeraCrypt.
    Tcrypt,
    /// loop-AES.
    LoopAes,
    /// BitLocker.
    BitLocker,
    /// FileVault 2.
    FileVault,
}

/// Where header and data live. Without a detached header they are one device.
#[derive(Clone, Copy)]
pub struct Devices<'a> {
    /// Holds the header and the keyslot areas.
    pub header: &'a dyn Media,
    /// Holds the encrypted data.
    pub data: &'a dyn Media,
    /// The header is detached: the data starts where the header says, 0 by default.
    pub detached: bool,
}

impl<'a> Devices<'a> {
    /// Header and data on one device.
    pub fn together(device: &'a dyn Media) -> Self {
        Self { header: device, data: device, detached: false }
    }

    /// A header on a device of its own.
    pub fn detached(header: &'a dyn Media, data: &'a dyn Media) -> Self {
        Self { header, data, detached: true }
    }
}

/// What proves that the caller may have the volume key.
#[derive(Clone, Copy, Debug)]
pub enum Credential<'a> {
    /// A passphrase, tried on one keyslot or on all in the order of their priority.
    Passphrase(&'a Passphrase, Option<u32>),
    /// The volume key itself; it is checked against the header's digest.
    VolumeKey(&'a VolumeKey),
}

/// How a volume is unlocked.
#[derive(Clone, Debug, Default)]
pub struct UnlockOptions {
    /// Only this keyslot. Otherwise all, preferred ones first, ignored ones never.
    pub slot: Option<u32>,
    /// The volume refuses writes.
    pub read_only: bool,
    /// Accept an XTS key whose halves are equal. Such a volume is read-only.
    pub allow_equal_xts_halves: bool,
    /// Write although the cipher is safe for a single snapshot only. Without this, such a volume is read-only.
    pub single_snapshot: bool,
    /// Keep the volume key, for dm-crypt ([`Volume::targets`](crate::Volume::targets)). Otherwise only its expanded form is kept.
    /// An authenticated volume can be unlocked for dm-crypt only.
    pub keep_key: bool,
    /// The data device is a store of sealed objects. A header that says so is refused without this, and any other one with it.
    pub sealed: bool,
    /// Cipher backend; `None` picks the best that the machine has.
    pub backend: Option<BackendChoice>,
    /// What the header may say (LUKS2). It is checked before a key is tried.
    pub policy: Option<Arc<HeaderPolicy>>,
    /// The volume key must be this one (LUKS2).
    pub expected_key: Option<VolumeKeyId>,
    /// The newest pinned header that a trusted store has seen: the header must be it, or a newer one of the same volume (LUKS2).
    pub seen: Option<PinRecord>,
}

impl UnlockOptions {
    /// Whether the caller knows of the volume what only a LUKS2 header answers.
    pub fn expects(&self) -> bool {
        self.policy.is_some() || self.expected_key.is_some() || self.seen.is_some()
    }

    /// Checks that a key is the one that the caller expects.
    ///
    /// # Errors
    /// [`UnlockError::OtherVolumeKey`].
    pub fn check_key(&self, key: &VolumeKey) -> Result<(), UnlockError> {
        let by_policy = self.policy.as_ref().and_then(|policy| policy.key.clone());
        for expected in by_policy.into_iter().chain(self.expected_key.map(|id| id.to_string())) {
            let found = VolumeKeyId::of(key).to_string();
            if !found.eq_ignore_ascii_case(&expected) {
                return Err(UnlockError::OtherVolumeKey { expected, found });
            }
        }
        Ok(())
    }
}

/// Order in which keyslots are tried. LUKS1 knows only `Normal`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Only when asked for by number.
    Ignore,
    /// After the preferred ones.
    #[default]
    Normal,
    /// First.
    Prefer,
}

/// A key derivation with its cost, as a keyslot stores it (the salt is drawn when the keyslot is written).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pbkdf {
    /// PBKDF2 with HMAC.
    Pbkdf2 {
        /// The HMAC's hash.
        hash: Hash,
        /// Iterations.
        iterations: u32,
    },
    /// Argon2i or Argon2id.
    Argon2(Argon2Cost),
}

/// Kind of key derivation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PbkdfKind {
    /// PBKDF2 with HMAC; the only one that LUKS1 has.
    Pbkdf2,
    /// Argon2i.
    Argon2i,
    /// Argon2id, LUKS2's default.
    Argon2id,
}

/// How costly a passphrase guess is made.
#[derive(Clone, Debug)]
pub struct PbkdfOptions {
    /// Kind; `None` is the format's default (PBKDF2 for LUKS1, Argon2id for LUKS2).
    pub kind: Option<PbkdfKind>,
    /// PBKDF2's hash; `None` is the format's hash (SHA-256 by default).
    pub hash: Option<Hash>,
    /// Time that an unlock should take on this machine.
    pub time: Duration,
    /// Argon2's memory at most; `None` is 1 GiB or half of the machine's memory, whatever is less.
    pub memory_kib: Option<u32>,
    /// Argon2's lanes at most; `None` is 4 or the number of processors, whatever is less.
    pub lanes: Option<u32>,
    /// Iterations (PBKDF2) or passes (Argon2) without calibration. Memory and lanes are then taken as given.
    pub forced_iterations: Option<u32>,
}

impl Default for PbkdfOptions {
    fn default() -> Self {
        Self {
            kind: None,
            hash: None,
            time: Duration::from_secs(2),
            memory_kib: None,
            lanes: None,
            forced_iterations: None,
        }
    }
}

/// How a new keyslot is made.
#[derive(Clone, Debug, Default)]
pub struct KeyslotOptions {
    /// Its number; `None` is the first free one.
    pub slot: Option<u32>,
    /// Cost of a guess.
    pub pbkdf: PbkdfOptions,
    /// LUKS2: cipher of the keyslot area; `None` is the data's own if it can encrypt an area, otherwise aes-xts-plain64.
    pub area_cipher: Option<CipherSpec>,
    /// LUKS2: key length of the area's cipher in bytes.
    pub area_key_len: Option<usize>,
    /// LUKS2: hash of the anti-forensic splitter; `None` keeps SHA-256.
    pub af_hash: Option<Hash>,
    /// LUKS2: order in which it is tried.
    pub priority: Priority,
}

/// How a volume is created. `Default` is what cryptsetup 2.6.1 does by default.
#[derive(Debug, Default)]
pub struct FormatOptions {
    /// Cipher of the data; `None` is aes-xts-plain64.
    pub cipher: Option<CipherSpec>,
    /// Length of the volume key in bytes; `None` is 64 for XTS modes, 32 otherwise, or the cipher's only one.
    pub key_len: Option<usize>,
    /// LUKS2: tags beside the data, and the cipher that makes them; `cipher` is not looked at then, and `key_len` does not count the MAC's
    /// key. dm-integrity's layout, which keeps the tags, is not written by [`format`](crate::format()).
    pub tags: Option<TagOptions>,
    /// LUKS2: the data lies in sealed objects, of a volume with this identifier, whose key has 32 bytes. Nothing is said of a cipher then.
    pub sealed: Option<[u8; 16]>,
    /// LUKS2: bytes in a data unit (sector size), 512 to 4096; `None` follows the data device.
    pub data_unit: Option<u32>,
    /// Hash of the anti-forensic splitter and the volume key's digest, and of PBKDF2 unless its options say otherwise;
    /// `None` is SHA-256.
    pub hash: Option<Hash>,
    /// UUID; `None` draws a random one.
    pub uuid: Option<String>,
    /// LUKS2: label, at most 47 bytes.
    pub label: Option<String>,
    /// LUKS2: subsystem, at most 47 bytes.
    pub subsystem: Option<String>,
    /// Where the data starts on the data device, in bytes.
    pub data_offset: Option<u64>,
    /// Multiple that the data offset is rounded up to, in bytes; `None` follows the data device. `data_offset` wins.
    pub data_alignment: Option<u64>,
    /// LUKS2: bytes in one header copy: 16 KiB · 2^n, up to 4 MiB; `None` is 16 KiB.
    pub metadata_size: Option<u64>,
    /// LUKS2: bytes for keyslot areas; `None` is what is left before the data, at most 128 MiB.
    pub keyslots_size: Option<u64>,
    /// The volume key; `None` draws a random one.
    pub volume_key: Option<VolumeKey>,
    /// The first keyslot.
    pub keyslot: KeyslotOptions,
}

impl FormatOptions {
    /// Bytes of the volume key by what is said of it: the cipher's and the MAC's.
    pub fn volume_key_len(&self) -> usize {
        match &self.tags {
            Some(tags) => tags.key_len(self.key_len),
            // That of aes-xts-plain64 is 64.
            None => {
                self.key_len.unwrap_or_else(|| self.cipher.as_ref().map_or(64, crate::luks2::default_key_len))
            }
        }
    }
}

/// Tags of a new volume, and the cipher that makes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagOptions {
    /// The cipher by dm-crypt's name: `aes-xts-plain64`, `aes-gcm-random` …
    pub encryption: String,
    /// What makes the tags: `hmac(sha256)`, `poly1305`, or `aead` if the cipher does.
    pub integrity: String,
    /// Both, understood.
    spec: TaggedSpec,
    /// Bytes of the MAC's key; `None` is as many as its tag has.
    mac_key_len: Option<usize>,
}

impl TagOptions {
    /// From the two names, and the bytes of the MAC's key (`None`: as many as its tag has).
    ///
    /// # Errors
    /// [`OptionError::Tags`] if they are not known or do not belong together, [`OptionError::RepeatedNonces`] if data that is written
    /// twice would give plaintext and keys away, [`OptionError::MacKeyLength`] for a MAC's key where there is no MAC, or one of no bytes.
    pub fn new(encryption: &str, integrity: &str, mac_key_len: Option<usize>) -> Result<Self, OptionError> {
        let spec = TaggedSpec::new(encryption, integrity).map_err(OptionError::Tags)?;
        if spec.repeats_nonces() {
            return Err(OptionError::RepeatedNonces);
        }
        if let Some(bytes) = mac_key_len
            && (spec.mac_key_len().is_none() || !(1..=512).contains(&bytes))
        {
            return Err(OptionError::MacKeyLength { bytes });
        }
        let mac_key_len = mac_key_len.filter(|bytes| Some(*bytes) != spec.mac_key_len());
        Ok(Self { encryption: encryption.into(), integrity: integrity.into(), spec, mac_key_len })
    }

    /// The cipher.
    pub fn spec(&self) -> &TaggedSpec {
        &self.spec
    }

    /// Bytes of the MAC's key, if it is not as many as its tag has.
    pub fn mac_key_len(&self) -> Option<usize> {
        self.mac_key_len
    }

    /// Bytes of the volume key, where the cipher's own key has so many.
    pub(crate) fn key_len(&self, cipher: Option<usize>) -> usize {
        // intended: a cipher that makes its tags itself has no other key.
        let mac = self.mac_key_len.or(self.spec.mac_key_len()).unwrap_or(0);
        let lens = self.spec.cipher_key_lens();
        let usual = [64, 32].into_iter().find(|len| lens.contains(len)).or(lens.last().copied());
        // cannot overflow: lengths of keys. intended: a key of no bytes is refused for a cipher that has no keys.
        cipher.or(usual).unwrap_or(0).saturating_add(mac)
    }
}

/// New names of a volume. What is `None` stays; an empty label or subsystem removes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relabel<'a> {
    /// Label (LUKS2).
    pub label: Option<&'a str>,
    /// Subsystem (LUKS2).
    pub subsystem: Option<&'a str>,
    /// UUID.
    pub uuid: Option<&'a str>,
}

/// How a header backup is restored.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestoreOptions {
    /// Restore over a header of another volume, or where sizes or the data offset differ.
    pub replace_other: bool,
    /// The device is for the header alone; the data is on another one. Otherwise a backup of a detached header is
    /// restored over such a header only: anywhere else it would overwrite the beginning of the data.
    pub detached: bool,
}
