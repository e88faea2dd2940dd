//! `atrest image`, and the sizes of a flash medium.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::format::FormatArgs;
use super::secrets::PassphraseArgs;
use super::size::parse_size;

/// Sizes of a flash medium. They are in the header afterwards, and need not be said again.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Flash")]
pub struct SizesArgs {
    /// Bytes in an erase block of the flash [default: 4096].
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub erase_size: Option<u64>,
    /// Bytes programmed at least [default: 16 for files, 512 for cards].
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub prog_size: Option<u64>,
    /// Bytes read at least [default: 1 for files, 512 for cards].
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub read_size: Option<u64>,
    /// Make no LittleFS inside: for firmware that keeps something else there.
    #[arg(long)]
    pub empty: bool,
    #[command(flatten)]
    pub sealed: SealedArgs,
}

/// What a sealed volume is made of. All but the trusted store is in the header afterwards.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Sealed flash (--type sealed)")]
pub struct SealedArgs {
    /// Trusted store of the new volume: a small file that says how new the medium is, without which it can't be written any
    /// more. Keep it where nobody writes who can write the medium.
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Cipher that encrypts and authenticates: ascon-aead128, chacha20-poly1305, aes-ccm or aes-gcm [default:
    /// chacha20-poly1305].
    #[arg(long, value_name = "NAME")]
    pub aead: Option<String>,
    /// Bytes of tag in each unit: 16, or 12 with aes-ccm and aes-gcm [default: 16].
    #[arg(long, value_name = "BYTES")]
    pub tag_size: Option<u8>,
    /// Bytes of content in each unit, about: an erase block is divided evenly [default: 424 for files, 476 for cards].
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub unit_size: Option<u64>,
    /// Where an erase is announced [default: slot].
    #[arg(long, value_name = "WHERE", value_enum)]
    pub tickets: Option<TicketsKind>,
}

/// Where the erase of a block is announced before it destroys what the block held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TicketsKind {
    /// In a slot of another block: costs space and a small program for each erase.
    Slot,
    /// In the trusted store: costs a write of the store for each erase.
    Store,
}

/// Make a flashable image of a directory: encrypted or sealed flash with a LittleFS that holds its files.
///
/// The same as `format --type flash --size …` and `cp -r`; the image appears once it is complete.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest image ./content card.bin --type flash --size 16M
  atrest image ./content chip.bin --type flash --size 8M --prog-size 256 --kdf pbkdf2 --key-file key
  atrest image ./content card.bin --type sealed --store card.store --size 16M --aead ascon-aead128")]
pub struct ImageArgs {
    /// Directory whose contents go into the image.
    pub source: PathBuf,
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Hand a sealed volume over to another trusted store, and make the old one void.
///
/// Afterwards the volume opens with the new store only. The old store and every copy of it are refused.
#[derive(Args, Debug)]
#[command(after_long_help = "\
The volume is opened first, with the old store. Then the header is written anew, which only the new store names. Wherever the command is
interrupted, one of the stores opens the volume and the other one does not. Run it again to finish it.

Examples:
  atrest hand-over card.img --store card.store --to /media/stick/card.store
  atrest hand-over card.img --store card.store --to new.store --key-file key")]
pub struct HandOverArgs {
    /// File or block device that holds the volume.
    pub path: PathBuf,
    /// Trusted store that the volume has.
    #[arg(long, value_name = "FILE")]
    pub store: PathBuf,
    /// Trusted store that it gets: a file that does not exist, or is empty.
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    #[command(flatten)]
    pub secret: PassphraseArgs,
}
