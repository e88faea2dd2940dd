//! `atrest`, the command line of the project. It holds no logic: arguments become one call into the rooms below,
//! the answer becomes text or JSON and an exit code. docs/CLI.md is its published contract.
//!
//! It is a library with one function, and the program calls that: so `scripts/static` can have all of this made for size,
//! and the link of the whole program with the ciphers made for speed.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "whole"),
    allow(
        dead_code,
        unused_imports,
        unused_mut,
        unused_variables,
        reason = "the commands that are not reached are left out by the linker"
    )
)]

mod amount;
mod args;
mod asked;
mod bars;
mod colour;
mod commands;
#[cfg(feature = "whole")]
mod config;
mod cryptsetup;
#[cfg(test)]
mod docs;
mod errors;
mod failure;
mod flash_errors;
mod help;
mod integritysetup;
#[cfg(test)]
mod letters;
mod man;
mod meter;
#[cfg(feature = "whole")]
mod mounter;
#[cfg(test)]
mod options_of_peers;
mod output;
mod popt;
mod progress;
mod prompt;
mod secrets;
mod spelled;
mod stacked;
mod streams;
mod usage;
mod veritysetup;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use atrest_kdf::WorkLimit;
use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Command, GlobalArgs};
use failure::Failure;
use output::Output;

/// The whole program: what it was called, what it was asked and what it answered, as an exit code of docs/CLI.md.
pub fn main() -> ExitCode {
    // A driver that this program has started may have started it again.
    if let Some(status) = atrest_attach::driver::play_role() {
        return ExitCode::from(status);
    }
    atrest_secret::forbid_core_dumps();
    let mut words = std::env::args_os();
    let program = words.next();
    if cryptsetup::is_meant(program.as_deref()) {
        return cryptsetup::run(words);
    }
    if integritysetup::is_meant(program.as_deref()) {
        return integritysetup::run(words);
    }
    if veritysetup::is_meant(program.as_deref()) {
        return veritysetup::run(words);
    }
    #[cfg(feature = "whole")]
    if mounter::is_meant(program.as_deref()) {
        return mount(words);
    }
    run(program.into_iter().chain(words).collect())
}

/// Mounts as mount(8) asks for it.
#[cfg(feature = "whole")]
fn mount(words: impl Iterator<Item = OsString>) -> ExitCode {
    match mounter::read(words) {
        Ok(mounter::Asked::Nothing) => ExitCode::SUCCESS,
        Ok(mounter::Asked::Mount(ours)) => {
            // Who calls mount(8) waits for no word of readiness. Without /dev/null there is one.
            let nowhere = std::fs::File::options().write(true).open("/dev/null");
            let _ = nowhere.map(|nowhere| rustix::stdio::dup2_stdout(&nowhere));
            let ended = run(std::iter::once("mount.atrest".into()).chain(ours).collect());
            if ended == ExitCode::SUCCESS { ended } else { ExitCode::from(mounter::MOUNT_FAILED) }
        }
        Err(failure) => {
            failure.print(false);
            ExitCode::from(failure.code())
        }
    }
}

/// Does what these words ask for, the first of which is the program.
fn run(words: Vec<OsString>) -> ExitCode {
    let words = spelled::as_options(words);
    let mut cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    let output = Output::new(&cli.global);
    #[cfg(feature = "whole")]
    let prepared = prepare(&mut cli, &output);
    #[cfg(not(feature = "whole"))]
    let prepared = Ok(());
    limit_work(&cli.global, &output);
    let result = prepared.and_then(|()| perform(&cli, &words, &output));
    output.warn_if_unlocked();
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.print(output.is_json());
            ExitCode::from(failure.code())
        }
    }
}

/// Completes what is asked for by the configuration.
#[cfg(feature = "whole")]
fn prepare(cli: &mut Cli, output: &Output) -> Result<(), Failure> {
    // These open no volume, and help to mend a configuration.
    if matches!(
        cli.command,
        Command::Complete(_) | Command::Completions(_) | Command::Man(_) | Command::Config(_)
    ) {
        return Ok(());
    }
    let config = config::Config::load(cli.global.config.as_deref())?;
    cli.global.max_kdf_time = cli.global.max_kdf_time.or(config.max_kdf_time());
    config::apply(&mut cli.command, &config, output)
}

fn perform(cli: &Cli, words: &[OsString], output: &Output) -> Result<u8, Failure> {
    #[cfg(feature = "whole")]
    match &cli.command {
        Command::Config(_) => {
            config::show(cli.global.config.as_deref(), output)?;
            return Ok(0);
        }
        Command::Mount(args) if args.at_login => {
            let words = words.get(1..).unwrap_or_default(); // intended: a program without words.
            config::at_login(args, cli.global.config.as_deref(), words, output)?;
            return Ok(0);
        }
        _ => {}
    }
    commands::run(cli, output)
}

/// Bounds what a header may ask of this machine, and tells of what takes long.
fn limit_work(global: &GlobalArgs, output: &Output) {
    let announce =
        (!output.is_json() && !output.is_quiet()).then_some(progress::announce_derivation as fn(_));
    let limit = global.max_kdf_time.map_or(WorkLimit::DEFAULT, Duration::from_secs);
    WorkLimit::set_default(limit, announce);
}

/// Help and version are answers; everything else that the parser stops at is a wrong parameter, which cryptsetup
/// reports as 1 where clap would say 2.
fn refused(error: &clap::Error) -> ExitCode {
    let words = || std::env::args_os().skip(1);
    let Some(failure) = usage::failure(error, words()) else { return answered(error) };
    // Said in cryptsetup's words it may be a whole command.
    let ours =
        (error.kind() == ErrorKind::InvalidSubcommand).then(|| cryptsetup::in_our_words(words())).flatten();
    let failure = match ours {
        Some(command) => failure.hint(format!("here: {command}")),
        None => failure,
    };
    // Whoever reads JSON reads the parser's errors, too.
    failure.print(words().any(|word| word == "--json"));
    ExitCode::from(failure.code())
}

/// Prints help or the version. If nobody reads it there is nobody to tell.
fn answered(error: &clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::DisplayVersion {
        drop(error.print());
        return ExitCode::SUCCESS;
    }
    // The words are read once more, by definitions that show less. A program with cryptsetup's words alone has no room for them.
    let shaped = cfg!(feature = "whole").then(|| help::command().try_get_matches().err()).flatten();
    drop(shaped.as_ref().unwrap_or(error).print());
    match error.kind() {
        ErrorKind::DisplayHelp => ExitCode::SUCCESS,
        _ => ExitCode::from(Failure::parameters("").code()),
    }
}
