//! `atrest reencrypt`, and what `atrest encrypt --in-place` shares with it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::format::{PbkdfArgs, PbkdfKind};
use super::secrets::PassphraseArgs;
use super::size::{parse_key_bits, parse_size};

/// Give a LUKS volume a new volume key, another cipher or (LUKS2) another sector size, in place; or make plaintext of it.
///
/// Interrupted at any moment it goes on with --resume; cryptsetup can resume it (but for --spare-header), and this what cryptsetup began.
/// Until it is done the volume opens only with a passphrase that opens a keyslot of each key. Every passphrase is asked for (or given by
/// --key-file and --also-key-file) and gets a keyslot of the new key, with a new number; the old keyslots are wiped at the end. A LUKS1
/// volume is one of LUKS2 meanwhile, and its keyslots keep their numbers.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  atrest reencrypt /dev/sdx1
  atrest reencrypt --resume /dev/sdx1
  atrest reencrypt secret.img --sector-size 4096 --key-file key.bin
  atrest reencrypt secret.img --cipher aes-xts-plain64 --key-size 512 --key-file a.key --also-key-file b.key
  atrest reencrypt secret.img --key-file a.key --drop-slot 1 --resilience journal --json
  atrest reencrypt /dev/sdx1 --decrypt --header header.img
  atrest reencrypt --reduce-device-size 16M /dev/sdx1
  atrest reencrypt --spare-header /root/sdx1.header /dev/sdx1
  atrest reencrypt --online secret --key-file key.bin
  atrest reencrypt /dev/sdx1 --volume-key-file old.key --new-volume-key-file new.key
  atrest reencrypt /dev/sdx1 --init-only && atrest open /dev/sdx1 --nbd --reencrypt")]
pub struct ReencryptArgs {
    /// File, block device or NBD URI that holds the volume.
    pub path: PathBuf,
    /// The header lies in this file instead of in front of the data. With --decrypt: or it goes there, if there is no such file.
    #[arg(long, value_name = "FILE")]
    pub header: Option<PathBuf>,
    /// LUKS1: where the header has no room for a second place of each keyslot, keep it in this new file until it is done. Nothing can be
    /// read without that file meanwhile: after an interruption name it again, or with --resume and --header. At the end the header is
    /// in front of the data again, and the file is removed.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["header", "decrypt", "online", "stop", "reduce_device_size"])]
    pub spare_header: Option<PathBuf>,
    /// Make plaintext of the volume where it is. Its header is kept in the file that --header names: without that file nothing can
    /// be read until this is done. Data behind a header moves to the front of PATH.
    #[arg(long, requires = "header", conflicts_with_all = ["resume", "cipher", "key_size", "sector_size", "keep_key", "also_key_file", "drop_slot"])]
    pub decrypt: bool,
    /// Begin, and leave all data to a later --resume, or to `atrest open --reencrypt`; with --online, to the process that serves it.
    #[arg(long, conflicts_with = "resume")]
    pub init_only: bool,
    /// While it is open: PATH is what `atrest open` serves, or its name. The process that serves it does the work, or goes on with
    /// what was stopped in it. Where the kernel has it open (--dm), this process does the work, and its mapping waits for each zone.
    /// Ctrl-C stops it.
    #[arg(long, conflicts_with = "device_size")]
    pub online: bool,
    /// Stop the re-encryption of a volume that is open. It goes on being served; --online goes on with the work.
    #[arg(long, conflicts_with_all = ["online", "init_only", "decrypt", "resume", "resume_if_begun", "cipher", "key_size", "sector_size", "keep_key", "also_key_file", "drop_slot", "volume_key_file", "new_volume_key_file", "key_file", "passphrase_fd"])]
    pub stop: bool,
    /// Go on with what was interrupted, whoever began it: encryption in place, too.
    #[arg(long, conflicts_with_all = ["cipher", "key_size", "sector_size", "keep_key", "also_key_file", "drop_slot", "resilience", "resilience_hash"])]
    pub resume: bool,
    /// Go on if one was begun, as --resume does; otherwise begin one.
    #[arg(long, conflicts_with = "resume")]
    pub resume_if_begun: bool,
    /// New cipher as dm-crypt writes it [default: the one it has].
    #[arg(long, short = 'c', value_name = "SPEC")]
    pub cipher: Option<String>,
    /// Size of the new volume key in bits [default: that of the old one].
    #[arg(long, short = 's', value_name = "BITS", value_parser = parse_key_bits, conflicts_with = "keep_key")]
    pub key_size: Option<u32>,
    /// Bytes encrypted under one IV afterwards: 512, 1024, 2048 or 4096 [default: as it is].
    #[arg(long, value_name = "BYTES")]
    pub sector_size: Option<u32>,
    /// Keep the volume key, and change the sector size or the cipher alone. Of LUKS1: only make all keyslots anew, by another hash
    /// or another cost.
    #[arg(long)]
    pub keep_key: bool,
    /// The volume key that it has, instead of a passphrase: also of a volume without keyslots. --resume needs each key that no passphrase
    /// opens.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key_slot", "also_key_file", "words"])]
    pub volume_key_file: Option<PathBuf>,
    /// The new volume key [default: a random one]. Of a device such as /dev/urandom it is as long as --key-size says, or the old one.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keep_key", "decrypt"])]
    pub new_volume_key_file: Option<PathBuf>,
    /// Make no keyslots for the new key, and let all others go: then the new volume key alone opens it.
    #[arg(long, requires = "new_volume_key_file")]
    pub no_keyslots: bool,
    /// Try this keyslot only.
    #[arg(long, short = 'S', value_name = "N")]
    pub key_slot: Option<u32>,
    /// Key file of one more keyslot that is to open the volume afterwards. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub also_key_file: Vec<PathBuf>,
    /// Let this keyslot go, as no passphrase is given for it. May be given several times.
    #[arg(long, value_name = "N")]
    pub drop_slot: Vec<u32>,
    /// Let all keyslots go for which no passphrase is given.
    #[arg(long, conflicts_with_all = ["decrypt", "resume", "stop", "drop_slot"])]
    pub drop_others: bool,
    /// Move the data back by so much, to give the header more room. What the volume has at its end is lost: shrink the filesystem
    /// in it by that first.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with_all = ["decrypt", "online", "stop", "resume", "device_size", "resilience", "resilience_hash"])]
    pub reduce_device_size: Option<u64>,
    #[command(flatten)]
    pub zones: ZoneArgs,
    #[command(flatten)]
    pub pbkdf: PbkdfArgs,
    #[command(flatten)]
    pub passphrase: PassphraseArgs,
}

/// How data is rewritten in place.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "In place")]
pub struct ZoneArgs {
    /// How what is being rewritten survives a crash [default: checksum].
    #[arg(long, value_name = "KIND", value_enum)]
    pub resilience: Option<ResilienceArg>,
    /// Hash of the checksums [default: sha256].
    #[arg(long, value_name = "HASH")]
    pub resilience_hash: Option<String>,
    /// Rewrite at most this much at once [default: 128M, or what journal or checksums have room for].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub hotzone_size: Option<u64>,
    /// Rewrite so much from the beginning of the data alone, where it does not move. What lies behind can't be read afterwards.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub device_size: Option<u64>,
}

/// How a zone survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ResilienceArg {
    /// Hashes of its sectors are kept: the media must write each sector whole or not at all.
    Checksum,
    /// A copy of it is kept.
    Journal,
    /// Nothing is kept: a crash destroys what was being rewritten.
    None,
}

/// Encryption where the plaintext is.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "In place")]
pub struct InPlaceArgs {
    /// Encrypt SRC itself, and make a LUKS2 volume of it. Its header goes in front of the data, which moves back: the end of SRC must be
    /// free (--reduce-device-size). With --header it goes there, and the data stays where it is.
    #[arg(long)]
    pub in_place: bool,
    /// Begin, and leave all data to a later --resume.
    #[arg(long, requires = "in_place")]
    pub init_only: bool,
    /// Have the kernel open it under this name as soon as it has begun, and go on while it is open (with --init-only: leave that to a
    /// later `reencrypt --resume --online`).
    #[arg(long, value_name = "NAME", requires = "in_place", conflicts_with_all = ["resume", "device_size"])]
    pub dm: Option<String>,
    /// How much of the end of SRC is free: the filesystem must have been shrunk by that. Half of it becomes the header [default: 32M].
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "in_place")]
    pub reduce_device_size: Option<u64>,
    /// With --header: the data begins there, and what lies in front of it stays as it is [default: 0].
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "in_place", conflicts_with = "resume")]
    pub data_offset: Option<u64>,
    #[command(flatten)]
    pub zones: ZoneArgs,
    /// Function that stretches the passphrase [default: argon2id].
    #[arg(long, value_name = "KIND", value_enum, requires = "in_place")]
    pub pbkdf: Option<PbkdfKind>,
    /// Time that one try of a passphrase shall take on this machine [default: 2000].
    #[arg(
        long,
        short = 'i',
        value_name = "MS",
        requires = "in_place",
        conflicts_with = "pbkdf_force_iterations"
    )]
    pub iter_time: Option<u32>,
    /// Memory of Argon2 at most, in KiB.
    #[arg(long, value_name = "KIB", requires = "in_place")]
    pub pbkdf_memory: Option<u32>,
    /// Lanes of Argon2 at most.
    #[arg(long, value_name = "N", requires = "in_place")]
    pub pbkdf_parallel: Option<u32>,
    /// Use exactly this many iterations (passes, for Argon2) and measure nothing.
    #[arg(long, value_name = "N", requires = "in_place")]
    pub pbkdf_force_iterations: Option<u32>,
    /// Label of the volume.
    #[arg(long, value_name = "LABEL", requires = "in_place")]
    pub label: Option<String>,
    /// Make no keyslot: --volume-key-file is the key, and alone opens the volume.
    #[arg(long, requires_all = ["in_place", "volume_key_file"])]
    pub no_keyslots: bool,
    /// UUID of the volume [default: a random one].
    #[arg(long, value_name = "UUID", requires = "in_place")]
    pub uuid: Option<String>,
}

impl InPlaceArgs {
    /// How the first keyslot is protected.
    pub fn pbkdf(&self, hash: Option<&String>) -> PbkdfArgs {
        PbkdfArgs {
            pbkdf: self.pbkdf,
            hash: hash.cloned(),
            iter_time: self.iter_time,
            pbkdf_memory: self.pbkdf_memory,
            pbkdf_parallel: self.pbkdf_parallel,
            pbkdf_force_iterations: self.pbkdf_force_iterations,
            ..PbkdfArgs::default()
        }
    }
}
