//! One function for each command: arguments → one call into the rooms below → text or JSON.

mod bench;
mod bench_energy;
mod bench_io;
mod bench_lg;
mod bench_screen;
mod bench_table;
pub mod bitlocker;
#[cfg(feature = "whole")]
mod boot;
mod bulk;
#[cfg(feature = "whole")]
mod complete;
#[cfg(feature = "whole")]
mod completions;
mod convert;
#[cfg(feature = "whole")]
mod copy;
mod drive;
mod ecryptfs;
mod enrol;
#[cfg(feature = "whole")]
mod factors;
#[cfg(feature = "whole")]
mod files;
mod fit;
mod flash;
pub mod foreign;
mod format;
#[cfg_attr(not(feature = "whole"), path = "fresh_nowhere.rs")]
mod fresh;
mod fscrypt;
pub mod fvault2;
pub mod header;
mod initramfs;
mod inside;
mod integrity;
mod kdf;
mod key;
mod link;
mod listing;
pub mod mapping;
mod metrics;
mod mount;
mod mount_tree;
mod online;
pub mod options;
mod passphrase;
mod pin;
#[cfg(feature = "whole")]
mod places;
mod policies;
mod preflight;
mod protectors;
mod recover;
mod reencrypt;
mod reencrypt_luks1;
mod reencrypt_mapped;
mod reencrypt_served;
#[cfg(feature = "whole")]
mod remember;
pub mod scrub;
#[cfg(feature = "whole")]
mod sealed;
pub mod serve;
mod suspend;
pub mod target;
mod text;
pub mod time;
mod token;
pub mod tokens;
mod tools;
mod tree;
mod tree_keys;
mod unlock;
mod veracrypt;
pub mod verity;

#[cfg(feature = "whole")]
use crate::args::ecryptfs::TreePassphraseCommand;
#[cfg(feature = "whole")]
use crate::args::fit::FitCommand;
use crate::args::header::HeaderCommand;
#[cfg(feature = "whole")]
use crate::args::initramfs::InitramfsCommand;
use crate::args::key::KeyCommand;
use crate::args::token::TokenCommand;
#[cfg(feature = "whole")]
use crate::args::tools::KdfCommand;
#[cfg(feature = "whole")]
use crate::args::tree::TreeCommand;
use crate::args::verity::VerityCommand;
use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::output::Output;

#[cfg(feature = "whole")]
pub use places::split as place_of;
pub use reencrypt::is_marked;
pub use serve::{place, registry};

/// Runs the command and returns the exit code.
pub fn run(cli: &Cli, output: &Output) -> Result<u8, Failure> {
    match &cli.command {
        Command::Format(args) => format::format(args, output)?,
        Command::Info(args) => header::info(args, output)?,
        Command::Uuid(args) => header::uuid(args, output)?,
        Command::IsLuks(args) => return header::is_luks(args, output),
        Command::Open(args) => return serve::open(args, output),
        Command::Close(args) => serve::close(args, output)?,
        Command::Status(args) => serve::status(args, output)?,
        Command::Suspend(args) => suspend::suspend(args, output)?,
        Command::Resume(args) => suspend::resume(args, output)?,
        Command::Resize(args) => suspend::resize(args, output)?,
        #[cfg(feature = "whole")]
        Command::Unlock(args) => return boot::unlock(args, output),
        Command::Key(KeyCommand::Add(args)) => key::add(args, output)?,
        Command::Key(KeyCommand::Change(args)) => key::change(args, output)?,
        #[cfg(feature = "whole")]
        Command::Key(KeyCommand::Replace(args)) => factors::replace(args, output)?,
        Command::Key(KeyCommand::Remove(args)) => key::remove(args, output)?,
        Command::Key(KeyCommand::Kill(args)) => key::kill(args, output)?,
        Command::Key(KeyCommand::Test(args)) => key::test(args, output)?,
        Command::Key(KeyCommand::List(args)) => key::list(args, output)?,
        Command::Key(KeyCommand::Export(args)) => key::export(args, output)?,
        Command::Key(KeyCommand::Priority(args)) => key::priority(args, output)?,
        #[cfg(feature = "whole")]
        Command::Key(KeyCommand::Remember(args)) => remember::remember(args, output)?,
        #[cfg(feature = "whole")]
        Command::Key(KeyCommand::Forget(args)) => remember::forget(args, output)?,
        Command::Header(HeaderCommand::Backup(args)) => header::backup(args, output)?,
        Command::Header(HeaderCommand::Restore(args)) => header::restore(args, output)?,
        Command::Header(HeaderCommand::Set(args)) => header::set(args, output)?,
        Command::Header(HeaderCommand::Pin(args)) => pin::pin(args, output)?,
        Command::Token(TokenCommand::List(args)) => token::list(args, output)?,
        Command::Token(TokenCommand::Add(args)) => token::add(args, output)?,
        Command::Token(TokenCommand::Unassign(args)) => token::unassign(args, output)?,
        Command::Token(TokenCommand::Export(args)) => token::export(args, output)?,
        Command::Token(TokenCommand::Import(args)) => token::import(args, output)?,
        Command::Token(TokenCommand::Remove(args)) => token::remove(args, output)?,
        Command::Convert(args) => convert::convert(args, output)?,
        Command::Erase(args) => header::erase(args, output)?,
        Command::Repair(args) => header::repair(args, output)?,
        #[cfg(feature = "whole")]
        Command::HandOver(args) if sealed::is_meant(&args.path) => sealed::hand_over(args, output)?,
        #[cfg(feature = "whole")]
        Command::HandOver(args) => flash::hand_over(args, output)?,
        #[cfg(feature = "whole")]
        Command::Snapshot(command) => sealed::snapshot(command, output)?,
        #[cfg(feature = "whole")]
        Command::Gc(args) => sealed::gc(args, output)?,
        #[cfg(feature = "whole")]
        Command::Clone(args) => sealed::clone(args, output)?,
        #[cfg(feature = "whole")]
        Command::Flatten(args) => sealed::flatten(args, output)?,
        #[cfg(feature = "whole")]
        Command::Rekey(args) => sealed::rekey(args, output)?,
        Command::Encrypt(args) => bulk::encrypt(args, output)?,
        Command::Decrypt(args) => bulk::decrypt(args, output)?,
        Command::Reencrypt(args) => reencrypt::reencrypt(args, output)?,
        Command::Scrub(args) => return scrub::scrub(args, output),
        #[cfg(feature = "whole")]
        Command::Ls(args) => return files::ls(args, output),
        #[cfg(feature = "whole")]
        Command::Cat(args) => files::cat(args, output)?,
        #[cfg(feature = "whole")]
        Command::Cp(args) => return copy::cp(args, output),
        #[cfg(feature = "whole")]
        Command::Mkdir(args) => files::mkdir(args, output)?,
        #[cfg(feature = "whole")]
        Command::Rm(args) => files::rm(args, output)?,
        #[cfg(feature = "whole")]
        Command::Mv(args) => files::mv(args, output)?,
        #[cfg(feature = "whole")]
        Command::Df(args) => files::df(args, output)?,
        #[cfg(feature = "whole")]
        Command::Mount(args) => return mount::mount(args, output),
        #[cfg(feature = "whole")]
        Command::Image(args) => flash::image(args, output)?,
        #[cfg(feature = "whole")]
        Command::Fit(FitCommand::Build(args)) => fit::build(args, output)?,
        #[cfg(feature = "whole")]
        Command::Fit(FitCommand::Info(args)) => fit::info(args, output)?,
        #[cfg(feature = "whole")]
        Command::Fit(FitCommand::Verify(args)) => fit::verify(args, output)?,
        #[cfg(feature = "whole")]
        Command::Fit(FitCommand::Script(args)) => fit::script(args, output)?,
        #[cfg(feature = "whole")]
        Command::Initramfs(InitramfsCommand::Build(args)) => initramfs::build(args, output)?,
        #[cfg(feature = "whole")]
        Command::Initramfs(InitramfsCommand::Add(args)) => initramfs::add(args, output)?,
        #[cfg(feature = "whole")]
        Command::Initramfs(InitramfsCommand::Info(args)) => initramfs::info(args, output)?,
        #[cfg(feature = "whole")]
        Command::Tree(TreeCommand::Build(args)) => tree::build(args, output)?,
        #[cfg(feature = "whole")]
        Command::Tree(TreeCommand::Policies(args)) => policies::policies(args, output)?,
        #[cfg(feature = "whole")]
        Command::Tree(TreeCommand::Check(args)) => return ecryptfs::check(args, output),
        #[cfg(feature = "whole")]
        Command::Tree(TreeCommand::Export(args)) => return ecryptfs::export(args, output),
        #[cfg(feature = "whole")]
        Command::Tree(TreeCommand::Unlock(args)) => tree_keys::unlock(args, output)?,
        #[cfg(feature = "whole")]
        Command::Tree(TreeCommand::Lock(args)) => tree_keys::lock(args, output)?,
        #[cfg(feature = "whole")]
        Command::Tree(TreeCommand::Keys(args)) => tree_keys::keys(args, output)?,
        #[cfg(feature = "whole")]
        Command::Tree(TreeCommand::Passphrase(command)) => match command {
            TreePassphraseCommand::Wrap(args) => ecryptfs::wrap(args, output)?,
            TreePassphraseCommand::Unwrap(args) => ecryptfs::unwrap(args, output)?,
            TreePassphraseCommand::Change(args) => ecryptfs::change(args, output)?,
        },
        Command::Verity(VerityCommand::Format(args)) => verity::format(args, output)?,
        Command::Verity(VerityCommand::Verify(args)) => verity::verify(args, output)?,
        Command::Verity(VerityCommand::Open(args)) => return verity::open(args, output),
        Command::Verity(VerityCommand::Dump(args)) => verity::dump(args, output)?,
        #[cfg(feature = "whole")]
        Command::Passphrase(args) => passphrase::passphrase(args, output)?,
        #[cfg(feature = "whole")]
        Command::Kdf(KdfCommand::Cost(_)) => kdf::cost(output)?,
        #[cfg(feature = "whole")]
        Command::Bench(args) => bench::bench(args, output)?,
        // It is shown by who reads it.
        #[cfg(feature = "whole")]
        Command::Config(_) => {}
        #[cfg(feature = "whole")]
        Command::Completions(args) => completions::completions(args)?,
        #[cfg(feature = "whole")]
        Command::Complete(args) => complete::complete(args, output)?,
        #[cfg(feature = "whole")]
        Command::Man(args) => tools::man(args)?,
    }
    Ok(0)
}
