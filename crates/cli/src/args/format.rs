//! `atrest format` and the options that say how a keyslot is protected.

use std::path::PathBuf;
use std::time::Duration;

use atrest_engine::keyring;
use clap::{Args, ValueEnum};

use super::flash::SizesArgs;
use super::secrets::PassphraseArgs;
use super::size::{parse_key_bits, parse_size, parse_time};
use super::tcrypt::NewTcryptArgs;

/// Make a new encrypted volume. What was on PATH can't be read afterwards.
///
/// The volume gets a fresh random volume key and one passphrase. With --size PATH is created (mode 0600) or, if it
/// exists, must hold no data; without it PATH is an existing file or block device, used as large as it is.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest format --size 1G secret.img
  atrest format --size 1G --key-file key.bin --cipher aes-xts-plain64 --key-size 512 secret.img
  atrest format --type luks1 --pbkdf-force-iterations 100000 old.img
  atrest format --header head.img --offset 0 --sector-size 4096 /dev/sdx1
  atrest format --size 1G --integrity hmac-sha256 --sector-size 4096 authenticated.img
  atrest format --type veracrypt --size 1G --cipher aes-twofish-serpent --hash whirlpool --hidden-size 200M container.hc
  atrest format card.img --type flash --size 16M --erase-size 4096 --prog-size 16 --kdf catena
  atrest format card.img --type sealed --store card.store --size 16M --aead chacha20-poly1305 --kdf catena
  atrest format file:///srv/volume --type sealed --size 2T --store volume.store
  printf %s \"$PASS\" | atrest format --size 64M --passphrase-fd 0 --yes scripted.img")]
pub struct FormatArgs {
    /// File, block device or NBD URI that becomes the volume.
    pub path: PathBuf,
    /// Kind of header. `flash` makes encrypted flash with an empty LittleFS in it, which microcontrollers open. `sealed` authenticates it:
    /// changed data is detected, and with the trusted store (--store) also older data, unless the store is put back together with it.
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t = LuksType::Luks2)]
    pub kind: LuksType,
    /// Create the file with this size, headers included (units: K, M, G, T).
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Cipher as dm-crypt writes it [default: aes-xts-plain64]. VeraCrypt: the ciphers, the innermost first, such as serpent-twofish-aes, or by
    /// VeraCrypt's own name [default: aes]. Not recommended: speck128, noekeon, blowfish, cast5,
    /// des3_ede, and any cipher in ECB.
    #[arg(long, short = 'c', value_name = "SPEC")]
    pub cipher: Option<String>,
    /// Volume key size in bits [default: the cipher's longest: 512 for aes-xts, 256 for aes-cbc].
    #[arg(long, short = 's', value_name = "BITS", value_parser = parse_key_bits)]
    pub key_size: Option<u32>,
    /// Bytes encrypted under one IV: 512, 1024, 2048 or 4096 (LUKS2) [default: 4096 where size and media allow].
    #[arg(long, value_name = "BYTES")]
    pub sector_size: Option<u32>,
    /// Authenticate every sector (LUKS2): hmac-sha256, hmac-sha512 or hmac-sha1 beside aes-xts-plain64, aes-xts-random or a cipher in CBC;
    /// poly1305 with chacha20-random; aead with aes-gcm-random, aes-ccm-random or aegis128-random. Data that was changed is an error
    /// then. Data that was put back is not noticed, unless IVs are random and only a part of it was.
    #[arg(long, short = 'I', value_name = "KIND")]
    pub integrity: Option<String>,
    /// Write no zeros over the data of an authenticated volume. What was never written can't be read then.
    #[arg(long, requires = "integrity")]
    pub integrity_no_wipe: bool,
    /// Lay tags out for kernels before 5.11, which takes more room.
    #[arg(long, requires = "integrity")]
    pub integrity_legacy_padding: bool,
    /// Key size of an HMAC in bits [default: as long as its tag].
    #[arg(long, value_name = "BITS", value_parser = parse_key_bits, requires = "integrity")]
    pub integrity_key_size: Option<u32>,
    /// Label of the volume (LUKS2).
    #[arg(long, value_name = "LABEL")]
    pub label: Option<String>,
    /// Subsystem label of the volume (LUKS2).
    #[arg(long, value_name = "NAME")]
    pub subsystem: Option<String>,
    /// UUID of the volume [default: a random one].
    #[arg(long, value_name = "UUID")]
    pub uuid: Option<String>,
    /// Keyslot for the first passphrase.
    #[arg(long, short = 'S', value_name = "N")]
    pub key_slot: Option<u32>,
    /// Size of one header copy (LUKS2): 16K, 32K, … 4M.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub luks2_metadata_size: Option<u64>,
    /// Size of the area that holds the keyslots (LUKS2).
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub luks2_keyslots_size: Option<u64>,
    /// Align the start of the data to this many 512-byte sectors.
    #[arg(long, value_name = "SECTORS", conflicts_with = "offset")]
    pub align_payload: Option<u64>,
    /// Start of the data in 512-byte sectors.
    #[arg(long, value_name = "SECTORS")]
    pub offset: Option<u64>,
    /// Put the header in this file instead of in front of the data (created if missing, mode 0600).
    #[arg(long, value_name = "FILE")]
    pub header: Option<PathBuf>,
    /// Use the volume key in this file instead of a random one.
    #[arg(long, value_name = "FILE")]
    pub volume_key_file: Option<PathBuf>,
    /// Use the volume key that is this key of the kernel's keyring.
    #[arg(long, value_name = "KEY", conflicts_with = "volume_key_file")]
    pub volume_key_keyring: Option<keyring::Name>,
    #[command(flatten)]
    pub flash: SizesArgs,
    #[command(flatten)]
    pub tcrypt: NewTcryptArgs,
    #[command(flatten)]
    pub pbkdf: PbkdfArgs,
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
}

/// Kinds of LUKS header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LuksType {
    /// LUKS2: two header copies, Argon2, tokens, large data units.
    Luks2,
    /// LUKS1: one header, PBKDF2, eight keyslots.
    Luks1,
    /// VeraCrypt: a header that can't be told from noise, whose copy is near the end, and a hidden volume if wished.
    Veracrypt,
    /// Encrypted flash: a header of 512 bytes in two copies, four keyslots.
    Flash,
    /// Sealed flash: the same header; every unit has a tag, and a trusted store beside the medium says how new it is.
    Sealed,
}

/// How a passphrase is stretched and how its keyslot is encrypted.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Keyslot protection")]
pub struct PbkdfArgs {
    /// Function that stretches the passphrase, --kdf for short [default: argon2id for LUKS2, pbkdf2 for LUKS1, catena for flash and sealed].
    #[arg(long, visible_alias = "kdf", value_name = "KIND", value_enum)]
    pub pbkdf: Option<PbkdfKind>,
    /// Hash of PBKDF2, the AF splitter and (LUKS1) the digest [default: sha256]. VeraCrypt: sha512, sha256, blake2s-256, whirlpool, stribog512
    /// [default: sha512; `key change`: as it was].
    #[arg(long, value_name = "HASH")]
    pub hash: Option<String>,
    /// Time that one try of a passphrase shall take on this machine; 0 is the default [default: 2000].
    #[arg(long, short = 'i', value_name = "MS", conflicts_with = "pbkdf_force_iterations")]
    pub iter_time: Option<u32>,
    /// Memory of Argon2 at most, in KiB [default: 1048576, or half of what this machine has].
    #[arg(long, value_name = "KIB")]
    pub pbkdf_memory: Option<u32>,
    /// Memory of the machine that will unlock, as in 512M: Argon2 takes half of it at most. `info --for-memory` tells later whether it fits.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with_all = ["pbkdf_memory", "pbkdf_force_iterations"])]
    pub for_memory: Option<u64>,
    /// Time that one try of a passphrase shall take, as in 2s or 1500ms, on a machine as fast as this one [default: 2s].
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with_all = ["iter_time", "pbkdf_force_iterations"])]
    pub for_time: Option<Duration>,
    /// Lanes of Argon2 at most [default: 4, or the number of processors].
    #[arg(long, value_name = "N")]
    pub pbkdf_parallel: Option<u32>,
    /// Use exactly this many iterations (passes, for Argon2) and measure nothing.
    #[arg(long, value_name = "N")]
    pub pbkdf_force_iterations: Option<u32>,
    /// Memory of Catena (flash): 2 to this power times 32 bytes [default: 12, which is 128 KiB].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=30))]
    pub garlic: Option<u8>,
    /// Cipher of the keyslot area (LUKS2) [default: aes-xts-plain64].
    #[arg(long, value_name = "SPEC", requires = "keyslot_key_size")]
    pub keyslot_cipher: Option<String>,
    /// Key size of the keyslot area's cipher in bits (LUKS2) [default: 512].
    #[arg(long, value_name = "BITS", value_parser = parse_key_bits)]
    pub keyslot_key_size: Option<u32>,
}

impl PbkdfArgs {
    /// Whether one of them says how a passphrase is derived.
    #[cfg(feature = "whole")]
    pub fn has_cost(&self) -> bool {
        self.pbkdf.is_some()
            || self.iter_time.is_some()
            || self.pbkdf_memory.is_some()
            || self.for_memory.is_some()
            || self.for_time.is_some()
            || self.pbkdf_parallel.is_some()
            || self.pbkdf_force_iterations.is_some()
    }

    /// Whether one of them says something of a keyslot whatever opens it.
    #[cfg(feature = "whole")]
    pub fn has_area(&self) -> bool {
        self.keyslot_cipher.is_some() || self.keyslot_key_size.is_some()
    }
}

/// Functions that stretch a passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PbkdfKind {
    /// PBKDF2-HMAC.
    Pbkdf2,
    /// Argon2i.
    Argon2i,
    /// Argon2id.
    Argon2id,
    /// Catena-BRG with SHA-256 (flash).
    Catena,
}
