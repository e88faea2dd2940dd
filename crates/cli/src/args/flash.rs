//! `atrest image`, and the sizes of a flash medium.

use std::path::PathBuf;

use clap::Args;

use super::format::FormatArgs;
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
}

/// Make a flashable image of a directory: encrypted flash with a LittleFS that holds its files.
///
/// The same as `format --type flash --size …` and `cp -r`; the image appears once it is complete.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest image ./content card.bin --type flash --size 16M
  atrest image ./content chip.bin --type flash --size 8M --prog-size 256 --kdf pbkdf2 --key-file key")]
pub struct ImageArgs {
    /// Directory whose contents go into the image.
    pub source: PathBuf,
    #[command(flatten)]
    pub format: FormatArgs,
}
