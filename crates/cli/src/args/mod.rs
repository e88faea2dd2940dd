//! What can be written on the command line: clap definitions only, one file for each group of commands.
//! The published form of this vocabulary is docs/CLI.md; a test holds the two together.

pub mod bulk;
pub mod convert;
pub mod driver;
pub mod ecryptfs;
pub mod enrol;
pub mod factor;
pub mod fit;
pub mod flash;
pub mod format;
pub mod fscrypt;
pub mod header;
pub mod initramfs;
pub mod inside;
pub mod key;
pub mod mapped;
pub mod mount_tree;
pub mod open;
pub mod reencrypt;
pub mod scrub;
#[cfg(feature = "whole")]
pub mod sealed;
pub mod secrets;
pub mod size;
pub mod tcrypt;
pub mod token;
pub mod tools;
pub mod tree;
pub mod tree_keys;
pub mod unlock;
pub mod verity;

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

/// Encrypted disks, folders, flash cards and boot images, opened without root: LUKS, VeraCrypt, BitLocker, eCryptfs and more.
#[derive(Debug, Parser)]
#[command(
    name = "atrest",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_long_help = "Exit codes: 0 done, 1 wrong parameters, 2 no permission or bad passphrase, 3 out of memory, \
                       4 wrong device (not a volume, damaged, I/O error), 5 exists already or busy."
)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// Takes paths, also the empty one, which clap's own parser refuses.
pub fn any_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// Options that every command takes.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Report as JSON on standard output, errors as one JSON line on standard error.
    #[arg(long, global = true)]
    pub json: bool,
    /// Say nothing but what was asked for and errors. Unlike cryptsetup's -q, this answers no question: --yes does.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Answer YES to every question about overwriting or destroying data. It has no short form: cryptsetup's -y is --verify-passphrase.
    #[arg(long, global = true)]
    pub yes: bool,
    /// Seconds of processor time that a passphrase's key derivation may take. A header that asks for more is refused [default: 600].
    #[arg(long, global = true, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_kdf_time: Option<u64>,
    /// Read defaults and the names of volumes from this file; '' reads none [default: $ATREST_CONFIG, or
    /// ~/.config/atrest/config.toml].
    #[arg(long, global = true, value_name = "FILE", value_parser = any_path(), value_hint = clap::ValueHint::FilePath)]
    #[cfg_attr(not(feature = "whole"), arg(hide = true))]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Format(format::FormatArgs),
    Info(header::InfoArgs),
    Uuid(header::UuidArgs),
    IsLuks(header::IsLuksArgs),
    Open(open::OpenArgs),
    Close(open::CloseArgs),
    Status(open::StatusArgs),
    Suspend(mapped::SuspendArgs),
    Resume(mapped::ResumeArgs),
    Resize(mapped::ResizeArgs),
    #[cfg(feature = "whole")]
    Unlock(unlock::BootUnlockArgs),
    #[command(subcommand)]
    Key(key::KeyCommand),
    #[command(subcommand)]
    Header(header::HeaderCommand),
    #[command(subcommand)]
    Token(token::TokenCommand),
    Convert(convert::ConvertArgs),
    Erase(header::EraseArgs),
    Repair(header::RepairArgs),
    #[cfg(feature = "whole")]
    HandOver(flash::HandOverArgs),
    #[cfg(feature = "whole")]
    #[command(subcommand)]
    Snapshot(sealed::SnapshotCommand),
    #[cfg(feature = "whole")]
    Gc(sealed::GcArgs),
    #[cfg(feature = "whole")]
    Clone(sealed::CloneArgs),
    #[cfg(feature = "whole")]
    Flatten(sealed::FlattenArgs),
    #[cfg(feature = "whole")]
    Rekey(sealed::RekeyArgs),
    Encrypt(bulk::EncryptArgs),
    Decrypt(bulk::DecryptArgs),
    Reencrypt(reencrypt::ReencryptArgs),
    Scrub(scrub::ScrubArgs),
    #[cfg(feature = "whole")]
    Ls(inside::LsArgs),
    #[cfg(feature = "whole")]
    Cat(inside::CatArgs),
    #[cfg(feature = "whole")]
    Cp(inside::CpArgs),
    #[cfg(feature = "whole")]
    Mkdir(inside::MkdirArgs),
    #[cfg(feature = "whole")]
    Rm(inside::RmArgs),
    #[cfg(feature = "whole")]
    Mv(inside::MvArgs),
    #[cfg(feature = "whole")]
    Df(inside::DfArgs),
    #[cfg(feature = "whole")]
    Mount(inside::MountArgs),
    #[cfg(feature = "whole")]
    Image(flash::ImageArgs),
    #[cfg(feature = "whole")]
    #[command(subcommand)]
    Fit(fit::FitCommand),
    #[cfg(feature = "whole")]
    #[command(subcommand)]
    Initramfs(initramfs::InitramfsCommand),
    #[cfg(feature = "whole")]
    #[command(subcommand)]
    Tree(tree::TreeCommand),
    #[command(subcommand)]
    Verity(verity::VerityCommand),
    #[cfg(feature = "whole")]
    Passphrase(tools::PassphraseCommandArgs),
    #[cfg(feature = "whole")]
    #[command(subcommand)]
    Kdf(tools::KdfCommand),
    #[cfg(feature = "whole")]
    Bench(tools::BenchArgs),
    #[cfg(feature = "whole")]
    Config(tools::ConfigArgs),
    #[cfg(feature = "whole")]
    Completions(tools::CompletionsArgs),
    #[cfg(feature = "whole")]
    #[command(hide = true)]
    Complete(tools::CompleteArgs),
    #[cfg(feature = "whole")]
    Man(tools::ManArgs),
}
