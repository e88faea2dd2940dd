//! What can be written on integritysetup's command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::args::size::parse_size;

/// dm-integrity devices, with the kernel or without: format, open, close, status, dump, resize, and scrub.
#[derive(Debug, Parser)]
#[command(
    name = "integritysetup",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    disable_version_flag = true
)]
pub struct Args {
    /// What to do.
    #[arg(value_enum, required_unless_present = "version")]
    pub action: Option<Action>,
    /// format DEVICE, open DEVICE NAME, close NAME, status NAME, dump DEVICE, resize NAME, scrub DEVICE
    #[arg(value_name = "OPERAND")]
    pub operands: Vec<PathBuf>,
    /// Print the version.
    #[arg(long, short = 'V')]
    pub version: bool,
    /// Ask no question, and tell nothing.
    #[arg(long, short)]
    pub q: bool,
    /// Ask no question, and tell nothing.
    #[arg(long)]
    pub batch_mode: bool,
    /// Tell how it ended.
    #[arg(long, short)]
    pub verbose: bool,
    /// Taken, and changes nothing: there is no more to tell.
    #[arg(long, hide = true)]
    pub debug: bool,
    /// Taken, and changes nothing: what a device holds is told only where somebody is asked.
    #[arg(long, hide = true)]
    pub disable_blkid: bool,
    /// Hash: crc32c, crc32, xxhash64, sha1, sha256, sha512, blake2b-256, blake2s-256, hmac-sha1, hmac-sha256, hmac-sha512.
    #[arg(long, short = 'I', value_name = "HASH", default_value = "crc32c")]
    pub integrity: String,
    /// File with the key of the hash.
    #[arg(long, value_name = "FILE")]
    pub integrity_key_file: Option<PathBuf>,
    /// Bytes of the key of the hash.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub integrity_key_size: Option<u64>,
    /// Hash of the journal's sections: hmac-sha1, hmac-sha256 or hmac-sha512.
    #[arg(long, value_name = "HASH")]
    pub journal_integrity: Option<String>,
    /// File with the key of the journal's hash.
    #[arg(long, value_name = "FILE")]
    pub journal_integrity_key_file: Option<PathBuf>,
    /// Bytes of the key of the journal's hash.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub journal_integrity_key_size: Option<u64>,
    /// Write without the journal: a crash can leave data whose tags are wrong.
    #[arg(long, short = 'D')]
    pub integrity_no_journal: bool,
    /// Write without the journal, in regions that a bitmap marks: after a crash their tags are computed again.
    #[arg(long, short = 'B')]
    pub integrity_bitmap_mode: bool,
    /// Sectors of data for which a bit of the bitmap stands. By default 32768.
    #[arg(long, value_name = "SECTORS")]
    pub bitmap_sectors_per_bit: Option<u32>,
    /// Milliseconds after which marks are cleared. By default 10000.
    #[arg(long, value_name = "MS")]
    pub bitmap_flush_time: Option<u32>,
    /// Compute all tags from the data as it is, unless that has been done before.
    #[arg(long)]
    pub integrity_recalculate: bool,
    /// Compute all tags from the data as it is.
    #[arg(long)]
    pub integrity_recalculate_reset: bool,
    /// Compute tags with a key also where an attacker could have asked for it.
    #[arg(long)]
    pub integrity_legacy_recalculate: bool,
    /// Device for the data, if it is not behind the tags.
    #[arg(long, value_name = "DEVICE")]
    pub data_device: Option<PathBuf>,
    /// Bytes of a data unit: 512, 1024, 2048 or 4096.
    #[arg(long, short, value_name = "BYTES", default_value_t = 512)]
    pub sector_size: u32,
    /// Bytes of a tag. By default those of the hash.
    #[arg(long, short, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1..))]
    pub tag_size: Option<u16>,
    /// Bytes of the journal.
    #[arg(long, short, value_name = "BYTES", value_parser = parse_size)]
    pub journal_size: Option<u64>,
    /// Sectors of data between tags.
    #[arg(long, value_name = "SECTORS", default_value_t = 0)]
    pub interleave_sectors: u32,
    /// Pad tags to 128 KiB, for old kernels.
    #[arg(long)]
    pub integrity_legacy_padding: bool,
    /// Hash without a salt, for old kernels.
    #[arg(long)]
    pub integrity_legacy_hmac: bool,
    /// Write no zeros with their tags: what was never written can't be read.
    #[arg(long)]
    pub no_wipe: bool,
    /// Only read.
    #[arg(long, short)]
    pub readonly: bool,
    /// Cipher of the journal: cbc-aes or ctr-aes.
    #[arg(long, value_name = "CIPHER")]
    pub journal_crypt: Option<String>,
    /// File with the key of the journal's cipher.
    #[arg(long, value_name = "FILE")]
    pub journal_crypt_key_file: Option<PathBuf>,
    /// Bytes of the key of the journal's cipher.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub journal_crypt_key_size: Option<u64>,
    /// How the data is shown: dm, nbd or fuse:DIR. By default a mapping where the kernel can make one, and else NBD.
    #[arg(long, value_name = "FACE")]
    pub face: Option<String>,
    /// As --face fuse:DIRECTORY.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "face")]
    pub fuse: Option<PathBuf>,
    /// resize: bytes that are shown; 0 for all.
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub device_size: Option<u64>,
    /// resize: sectors of 512 bytes that are shown.
    #[arg(long, short = 'b', value_name = "SECTORS")]
    pub size: Option<u64>,
    /// resize: write zeros to what is new, and do not compute its tags.
    #[arg(long)]
    pub wipe: bool,
    /// format, resize: tell how far it is in lines of JSON on standard output.
    #[arg(long)]
    pub progress_json: bool,
    /// format, resize: tell how far it is in a line every so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub progress_frequency: u64,
    #[command(flatten)]
    pub kernel: Kernel,
    /// Tags in the metadata of a drive's sectors. Refused.
    #[arg(long, hide = true)]
    pub integrity_inline: bool,
}

/// Options of mappings alone.
#[derive(clap::Args, Debug)]
pub struct Kernel {
    /// Sectors that the kernel buffers.
    #[arg(long, value_name = "SECTORS")]
    pub buffer_sectors: Option<u32>,
    /// Percent of the journal that is filled before the kernel writes it back.
    #[arg(long, value_name = "PERCENT")]
    pub journal_watermark: Option<u32>,
    /// Milliseconds until the kernel commits.
    #[arg(long, value_name = "MS")]
    pub journal_commit_time: Option<u32>,
    /// A mapping that passes discards on.
    #[arg(long)]
    pub allow_discards: bool,
    /// A mapping without journal and without a check.
    #[arg(long, short = 'R')]
    pub integrity_recovery_mode: bool,
    /// close: a mapping goes as soon as nobody uses it.
    #[arg(long)]
    pub deferred: bool,
    /// close: a mapping stays that would have gone.
    #[arg(long)]
    pub cancel_deferred: bool,
}

/// What integritysetup does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Action {
    Format,
    #[value(alias = "create")]
    Open,
    #[value(alias = "remove")]
    Close,
    Status,
    Dump,
    /// One of ours.
    Scrub,
    Resize,
}

impl Kernel {
    /// The first option that is there and can't be had of a process of ours, and why.
    pub fn first(&self) -> Option<(&'static str, &'static str)> {
        [
            (self.allow_discards, "--allow-discards", "what is discarded would have no tags"),
            (
                self.integrity_recovery_mode,
                "--integrity-recovery-mode",
                "data is not handed out without a check",
            ),
            (self.deferred, "--deferred", "close waits until everything is written"),
            (self.cancel_deferred, "--cancel-deferred", "close waits until everything is written"),
        ]
        .into_iter()
        .find_map(|(given, name, why)| given.then_some((name, why)))
    }
}
