//! `atrest passphrase`, `kdf`, `bench`, `completions` and `man`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Make a passphrase of random words, and print it on standard output.
///
/// The words are those of BIP 39 in English; each is worth 11 bits. At a prompt with --words four letters of each are
/// enough. It is not a wallet's mnemonic: there is no checksum.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest passphrase
  atrest passphrase --words 12
  atrest format disk.img --words")]
pub struct PassphraseCommandArgs {
    /// How many words, 6 to 24.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(6..=24))]
    pub words: u8,
}

/// Compare key derivations.
#[derive(Debug, Subcommand)]
pub enum KdfCommand {
    Cost(KdfCostArgs),
}

/// Show what key derivations cost here, on microcontrollers, and whoever guesses.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest kdf cost
  atrest kdf cost --json")]
pub struct KdfCostArgs {}

/// Show which configuration file is read, and what it says.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest config
  atrest config --json | jq '.volumes | keys'")]
pub struct ConfigArgs {}

/// Measure ciphers and key derivation on this machine, like `cryptsetup benchmark`.
///
/// Shows the ciphers that volumes have on one screen. With --all there is a line for each cipher, data unit, place and number of cores.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest bench
  atrest bench --cipher aes-xts-plain64 --key-size 512
  atrest bench --all
  atrest bench --table adiantum
  atrest bench --table energy --mcu-ua-per-mhz 28 --messages-mib-per-day 4
  atrest bench io /var/tmp --table zynq
  atrest bench --json")]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    /// Measure every cipher and hash, in sectors of 512 and 4096 bytes, in the cache and in memory: some 190 lines.
    #[arg(long, conflicts_with_all = ["cipher", "table"])]
    pub all: bool,
    /// Measure this cipher only.
    #[arg(long, short = 'c', value_name = "SPEC")]
    pub cipher: Option<String>,
    /// Key size in bits [default: the cipher's longest].
    #[arg(long, short = 's', value_name = "BITS", value_parser = super::size::parse_key_bits, requires = "cipher")]
    pub key_size: Option<u32>,
    /// Leave the ciphers out, and measure every hash.
    #[arg(long, conflicts_with = "cipher")]
    pub kdf_only: bool,
    /// Measure what a published table lists, and print its figures beside ours; or compute the energy that encryption costs a
    /// microcontroller.
    #[arg(long, value_enum, conflicts_with_all = ["cipher", "kdf_only"])]
    pub table: Option<Table>,
    #[command(flatten)]
    pub energy: EnergyArgs,
}

/// What the table of energy is computed from.
#[derive(Args, Debug)]
#[command(next_help_heading = "Inputs of --table energy")]
pub struct EnergyArgs {
    /// Current of the controller, in µA for each MHz [default: 79].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub mcu_ua_per_mhz: Option<f64>,
    /// Clock of the controller, in MHz [default: 80].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub mcu_mhz: Option<f64>,
    /// Cycles for an instruction [default: 1].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub cycles_per_instruction: Option<f64>,
    /// Supply of controller and flash chip, in volts [default: 3.3].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub volts: Option<f64>,
    /// Current of the flash chip while its bus is used, in mA [default: 16].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub read_ma: Option<f64>,
    /// Current of the flash chip that programs or erases, in mA [default: 15].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub program_ma: Option<f64>,
    /// Bytes in a page [default: 256].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub page_bytes: Option<f64>,
    /// Time to program a page, in ms [default: 0.25].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub page_ms: Option<f64>,
    /// Time to erase 4 KiB, in ms [default: 25].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub sector_ms: Option<f64>,
    /// Speed of the bus, in MB/s [default: 10].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub bus_mb_per_s: Option<f64>,
    /// Time that each transfer takes beside its bytes, in µs [default: 2].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub read_us: Option<f64>,
    /// Size of the flash chip, in MiB [default: 32].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub chip_mib: Option<f64>,
    /// Data that are written once, in MiB [default: 16].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub tiles_mib: Option<f64>,
    /// Messages of a day, in MiB [default: 1].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub messages_mib_per_day: Option<f64>,
    /// Bytes in a message [default: 1024].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub message_bytes: Option<f64>,
    /// Times a day that a sealed volume is anchored [default: 24].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub anchors_per_day: Option<f64>,
    /// Years [default: 10].
    #[arg(long, value_name = "NUMBER", requires = "table")]
    pub years: Option<f64>,
}

/// A published table, or one that is computed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Table {
    /// Ciphers for CPUs on which AES is slow (the slides on Adiantum, 2019).
    Adiantum,
    /// Ways to compute AES-128-XTS (an article on the ESP32, 2025).
    Esp32,
    /// Energy, time and wear that encryption costs a microcontroller with a flash chip: computed from counted instructions and data sheets.
    Energy,
}

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    Io(BenchIoArgs),
}

/// Measure writing and reading, plain and encrypted in turn, on a medium of this machine.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Writing ends when everything is on the medium. Before reading caches are dropped: all of the kernel's as root, the file's own
pages otherwise. A DIRECTORY gets a file without a name, which is gone afterwards; the data of a DEVICE is overwritten, and
it is asked about first.

Examples:
  atrest bench io /var/tmp --table zynq
  atrest bench io . --table zynq --largest 200M --svg speed.svg
  atrest bench io /var/tmp --table lg --svg cores.svg
  atrest bench io /dev/sdx --table zynq --yes")]
pub struct BenchIoArgs {
    /// Directory or block device.
    pub place: PathBuf,
    /// Whose method is followed.
    #[arg(long, value_enum)]
    pub table: IoTable,
    /// Leave out sizes above this.
    #[arg(long, value_name = "SIZE", default_value = "2000M", value_parser = super::size::parse_size)]
    pub largest: u64,
    /// Seconds for each figure of random requests.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub time: u64,
    /// Write the charts of the sequential speeds to this new file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// A published table of speeds on a medium.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum IoTable {
    /// 10 to 2000 MiB in sequence, 4 KiB at random (an article on the Zynq UltraScale+).
    Zynq,
    /// Files that are plain, on volumes, or encrypted each by itself as fscrypt and eCryptfs do it, with 1, 2 and all cores, with and without
    /// read-ahead, decrypted on one thread and on several (slides by LG, 2016). A DIRECTORY with room for five times 256 MiB.
    Lg,
}

/// Print a completion script for a shell.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest completions bash > ~/.local/share/bash-completion/completions/atrest
  atrest completions zsh > ~/.zfunc/_atrest")]
pub struct CompletionsArgs {
    /// Which shell.
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// List what the last word of a command line can be: a volume, a keyslot, a cipher. Completion scripts ask this.
///
/// It reads definitions, headers, the list of open volumes and the names in the configuration. It asks nothing. It prints nothing where only
/// a file is meant. An empty line comes first where a file can stand as well.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest complete -- atrest close \"\"
  atrest complete -- atrest open secret.img --key-slot \"\"")]
pub struct CompleteArgs {
    /// The words up to the cursor, the program's name first; the last one may be empty.
    #[arg(last = true, value_name = "WORD")]
    pub words: Vec<OsString>,
}

/// Write the manual pages: one file for each command and format into DIR, or the main page to standard output.
///
/// Pages of commands end in .1, pages of formats in .5.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  atrest man | man -l -
  atrest man pages && man -l pages/atrest-luks.5")]
pub struct ManArgs {
    /// Directory to write to; it is made if it is missing.
    pub dir: Option<PathBuf>,
}
