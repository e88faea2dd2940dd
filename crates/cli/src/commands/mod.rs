//! One function for each command: arguments → one call into the rooms below → text or JSON.

mod bench;
mod bench_energy;
mod bench_io;
mod bench_lg;
mod bench_table;
mod boot;
mod bulk;
mod convert;
mod drive;
mod ecryptfs;
mod fit;
mod flash;
pub mod foreign;
mod format;
mod fscrypt;
pub mod header;
mod initramfs;
mod inside;
mod integrity;
mod kdf;
mod key;
mod listing;
pub mod mapping;
mod metrics;
mod mount;
mod mount_tree;
mod online;
pub mod options;
mod passphrase;
mod policies;
mod preflight;
mod protectors;
mod reencrypt;
pub mod scrub;
pub mod serve;
mod suspend;
pub mod target;
mod text;
mod token;
pub mod tokens;
mod tools;
mod tree;
mod tree_keys;
mod unlock;
pub mod verity;

use crate::args::ecryptfs::TreePassphraseCommand;
use crate::args::fit::FitCommand;
use crate::args::header::HeaderCommand;
use crate::args::initramfs::InitramfsCommand;
use crate::args::key::KeyCommand;
use crate::args::token::TokenCommand;
use crate::args::tools::KdfCommand;
use crate::args::tree::TreeCommand;
use crate::args::verity::VerityCommand;
use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::output::Output;

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
        Command::Unlock(args) => return boot::unlock(args, output),
        Command::Key(KeyCommand::Add(args)) => key::add(args, output)?,
        Command::Key(KeyCommand::Change(args)) => key::change(args, output)?,
        Command::Key(KeyCommand::Remove(args)) => key::remove(args, output)?,
        Command::Key(KeyCommand::Kill(args)) => key::kill(args, output)?,
        Command::Key(KeyCommand::Test(args)) => key::test(args, output)?,
        Command::Key(KeyCommand::List(args)) => key::list(args, output)?,
        Command::Key(KeyCommand::Export(args)) => key::export(args, output)?,
        Command::Key(KeyCommand::Priority(args)) => key::priority(args, output)?,
        Command::Header(HeaderCommand::Backup(args)) => header::backup(args, output)?,
        Command::Header(HeaderCommand::Restore(args)) => header::restore(args, output)?,
        Command::Header(HeaderCommand::Set(args)) => header::set(args, output)?,
        Command::Token(TokenCommand::List(args)) => token::list(args, output)?,
        Command::Token(TokenCommand::Add(args)) => token::add(args, output)?,
        Command::Token(TokenCommand::Unassign(args)) => token::unassign(args, output)?,
        Command::Token(TokenCommand::Export(args)) => token::export(args, output)?,
        Command::Token(TokenCommand::Import(args)) => token::import(args, output)?,
        Command::Token(TokenCommand::Remove(args)) => token::remove(args, output)?,
        Command::Convert(args) => convert::convert(args, output)?,
        Command::Erase(args) => header::erase(args, output)?,
        Command::Repair(args) => header::repair(args, output)?,
        Command::HandOver(args) => flash::hand_over(args, output)?,
        Command::Encrypt(args) => bulk::encrypt(args, output)?,
        Command::Decrypt(args) => bulk::decrypt(args, output)?,
        Command::Reencrypt(args) => reencrypt::reencrypt(args, output)?,
        Command::Scrub(args) => return scrub::scrub(args, output),
        Command::Ls(args) => return inside::ls(args, output),
        Command::Cat(args) => inside::cat(args, output)?,
        Command::Cp(args) => return inside::cp(args, output),
        Command::Mkdir(args) => inside::mkdir(args, output)?,
        Command::Rm(args) => inside::rm(args, output)?,
        Command::Df(args) => inside::df(args, output)?,
        Command::Mount(args) => return mount::mount(args, output),
        Command::Image(args) => flash::image(args, output)?,
        Command::Fit(FitCommand::Build(args)) => fit::build(args, output)?,
        Command::Fit(FitCommand::Info(args)) => fit::info(args, output)?,
        Command::Fit(FitCommand::Verify(args)) => fit::verify(args, output)?,
        Command::Fit(FitCommand::Script(args)) => fit::script(args, output)?,
        Command::Initramfs(InitramfsCommand::Build(args)) => initramfs::build(args, output)?,
        Command::Initramfs(InitramfsCommand::Add(args)) => initramfs::add(args, output)?,
        Command::Initramfs(InitramfsCommand::Info(args)) => initramfs::info(args, output)?,
        Command::Tree(TreeCommand::Build(args)) => tree::build(args, output)?,
        Command::Tree(TreeCommand::Policies(args)) => policies::policies(args, output)?,
        Command::Tree(TreeCommand::Check(args)) => return ecryptfs::check(args, output),
        Command::Tree(TreeCommand::Export(args)) => return ecryptfs::export(args, output),
        Command::Tree(TreeCommand::Unlock(args)) => tree_keys::unlock(args, output)?,
        Command::Tree(TreeCommand::Lock(args)) => tree_keys::lock(args, output)?,
        Command::Tree(TreeCommand::Keys(args)) => tree_keys::keys(args, output)?,
        Command::Tree(TreeCommand::Passphrase(command)) => match command {
            TreePassphraseCommand::Wrap(args) => ecryptfs::wrap(args, output)?,
            TreePassphraseCommand::Unwrap(args) => ecryptfs::unwrap(args, output)?,
            TreePassphraseCommand::Change(args) => ecryptfs::change(args, output)?,
        },
        Command::Verity(VerityCommand::Format(args)) => verity::format(args, output)?,
        Command::Verity(VerityCommand::Verify(args)) => verity::verify(args, output)?,
        Command::Verity(VerityCommand::Open(args)) => return verity::open(args, output),
        Command::Verity(VerityCommand::Dump(args)) => verity::dump(args, output)?,
        Command::Passphrase(args) => passphrase::passphrase(args, output)?,
        Command::Kdf(KdfCommand::Cost(_)) => kdf::cost(output)?,
        Command::Bench(args) => bench::bench(args, output)?,
        Command::Completions(args) => tools::completions(args)?,
        Command::Man(args) => tools::man(args)?,
    }
    Ok(0)
}
