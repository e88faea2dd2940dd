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
        unused_variables,
        reason = "the commands that are not reached are left out by the linker"
    )
)]

mod amount;
mod args;
mod asked;
mod commands;
mod cryptsetup;
#[cfg(test)]
mod docs;
mod errors;
mod failure;
mod flash_errors;
mod integritysetup;
#[cfg(test)]
mod letters;
mod meter;
#[cfg(test)]
mod options_of_peers;
mod output;
mod popt;
mod progress;
mod prompt;
mod secrets;
mod stacked;
mod streams;
mod usage;
mod veritysetup;

use std::process::ExitCode;
use std::time::Duration;

use atrest_kdf::WorkLimit;
use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, GlobalArgs};
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
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    let output = Output::new(&cli.global);
    limit_work(&cli.global, &output);
    let result = commands::run(&cli, &output);
    output.warn_if_unlocked();
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.print(output.is_json());
            ExitCode::from(failure.code())
        }
    }
}

/// Bounds what a header may ask of this machine, and tells of what takes long.
fn limit_work(global: &GlobalArgs, output: &Output) {
    let announce =
        (!output.is_json() && !output.is_quiet()).then_some(progress::announce_derivation as fn(_));
    WorkLimit::set_default(Duration::from_secs(global.max_kdf_time), announce);
}

/// Help and version are answers; everything else that the parser stops at is a wrong parameter, which cryptsetup
/// reports as 1 where clap would say 2.
fn refused(error: &clap::Error) -> ExitCode {
    match usage::answer(error) {
        Some(failure) if error.kind() == ErrorKind::InvalidSubcommand => {
            // Said in cryptsetup's words it may be a whole command.
            let ours = cryptsetup::in_our_words(std::env::args_os().skip(1));
            match ours {
                Some(command) => failure.hint(format!("here: {command}")).print(false),
                None => failure.print(false),
            }
        }
        Some(failure) => failure.print(false),
        // If nobody reads the help there is nobody to tell.
        None => drop(error.print()),
    }
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(Failure::parameters("").code()),
    }
}
