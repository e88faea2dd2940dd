//! The names of cryptsetup: whoever starts this program as `cryptsetup` or `atrest-cryptsetup` gets cryptsetup's actions, options and
//! exit codes. docs/CRYPTSETUP.md says which there are.
//!
//! A command line is read by cryptsetup's rules ([`words`]) and held against its tables ([`action`], [`option`]). It then becomes a
//! command line of `atrest` ([`translate`]), or a report in cryptsetup's form ([`dump`], [`report`]).

mod action;
mod benchmark;
mod bitlk;
mod check;
mod dump;
mod fvault2;
mod line;
mod option;
mod reencrypted;
pub mod report;
mod tcrypt;
mod translate;
mod volume_key;
mod words;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::args::secrets::PassphraseArgs;
use crate::args::{Cli, GlobalArgs};
use crate::failure::Failure;
use crate::meter::Lines;
use crate::output::{Output, Questions, plain};
use crate::secrets::Source;
use crate::{commands, usage};
#[cfg(test)]
pub use option::OPTIONS;
use translate::Job;
use words::{Answer, Request};

/// Whether a program of this name is to behave as cryptsetup.
pub fn is_meant(program: Option<&OsStr>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_name());
    name.is_some_and(|name| name == "cryptsetup" || name == "atrest-cryptsetup")
}

/// The command of `atrest` that does what these words ask cryptsetup for, if there is one that does.
pub fn in_our_words(words: impl Iterator<Item = OsString>) -> Option<String> {
    let Ok(Answer::Request(request)) = words::read(words) else { return None };
    check::check(&request).ok()?;
    let jobs = translate::translate(&request).ok()?;
    let [Job::Atrest(words)] = jobs.as_slice() else { return None };
    let dashed = |word: &&OsString| word.as_encoded_bytes().starts_with(b"-");
    // Only operands that look like options need to be kept apart from them.
    let behind = words.iter().skip_while(|word| *word != "--").skip(1);
    let needed = behind.clone().any(|word| dashed(&word));
    let shown = words.iter().filter(|word| *word != "--quiet" && (needed || *word != "--"));
    let mut command = String::from("atrest");
    for word in shown {
        command.push(' ');
        command.push_str(&quoted(&word.to_string_lossy()));
    }
    Some(plain(&command).to_string())
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(harmless) {
        true => String::from(word),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Does what the words ask for.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let checked = words::read(words).and_then(|answer| match answer {
        Answer::Request(request) => check::check(&request).map(|()| Answer::Request(request)),
        answer => Ok(answer),
    });
    let request = match Answer::request(checked) {
        Ok(request) => request,
        Err(code) => return code,
    };
    if request.has("test-args") {
        println!("No action taken. Invoked with --test-args option.");
        return ExitCode::SUCCESS;
    }
    let code = match perform(&request) {
        Ok(code) => code,
        Err(failure) => {
            failure.print(false);
            failure.code()
        }
    };
    if request.has("verbose") {
        println!("{}", ended(code));
    }
    ExitCode::from(code)
}

/// What cryptsetup's --verbose says at the end.
pub fn ended(code: u8) -> String {
    let what = match code {
        0 => return String::from("Command successful."),
        1 => "wrong or missing parameters",
        2 => "no permission or bad passphrase",
        3 => "out of memory",
        4 => "wrong device or file specified",
        5 => "device already exists or device is busy",
        _ => "unknown error",
    };
    format!("Command failed with code -{code} ({what}).")
}

fn perform(request: &Request) -> Result<u8, Failure> {
    let mut code = 0;
    for job in translate::translate(request)? {
        code = match job {
            Job::Atrest(words) => atrest(request, words)?,
            Job::Dump => dump::dump(request)?,
            Job::Tcrypt { words, shown } => {
                tcrypt::dump(request, words, shown, &output(request, &answers(request)))?
            }
            Job::BitlkDump(words) => bitlk::dump(request, words, &output(request, &answers(request)))?,
            Job::BitlkTest(words) => bitlk::test(words, &output(request, &answers(request)))?,
            Job::Fvault2Dump(words) => fvault2::dump(request, words, &output(request, &answers(request)))?,
            Job::Fvault2Test(words) => fvault2::test(words, &output(request, &answers(request)))?,
            Job::Fvault2Check(words) => fvault2::check(words)?,
            Job::BitlkCheck(words) => bitlk::check(words)?,
            Job::Benchmark => benchmark::benchmark(request)?,
            Job::VolumeKey => {
                volume_key::dump(request, &source(request), &output(request, &answers(request)))?
            }
            Job::Uuid => report::uuid(request)?,
            Job::IsLuks => report::is_luks(request)?,
            Job::Status(name) => {
                report::status(request.text("header").map(Path::new), &name, &output(request, &globals()))?
            }
        };
        if code != 0 {
            break;
        }
    }
    Ok(code)
}

/// Runs a command of `atrest`.
fn atrest(request: &Request, words: Vec<OsString>) -> Result<u8, Failure> {
    let mut line = vec![OsString::from("atrest")];
    if request.has("batch-mode") {
        line.push("--yes".into());
    }
    line.extend(words);
    let cli = Cli::try_parse_from(line).map_err(|error| refused(&error))?;
    let output = output(request, &cli.global);
    crate::limit_work(&cli.global, &output);
    let result = commands::run(&cli, &output);
    output.warn_if_unlocked();
    result
}

/// A value that `atrest` does not take.
fn refused(error: &clap::Error) -> Failure {
    usage::answer(error).unwrap_or_else(|| {
        let text = error.to_string();
        // intended: an error always has a first line, and an empty one says as little.
        let line = text.lines().next().unwrap_or_default();
        Failure::parameters(line.strip_prefix("error: ").unwrap_or(line))
    })
}

/// Of what only tells.
fn globals() -> GlobalArgs {
    GlobalArgs { json: false, quiet: true, yes: false, max_kdf_time: None, config: None }
}

/// Of what asks before it tells: -q answers.
fn answers(request: &Request) -> GlobalArgs {
    GlobalArgs { yes: request.has("batch-mode"), ..globals() }
}

/// Where the passphrase comes from.
fn source(request: &Request) -> Source {
    let key_file = request.text("key-file").map(PathBuf::from);
    let of_file = key_file.is_some();
    Source::from(&PassphraseArgs {
        key_file,
        keyfile_offset: request.number("keyfile-offset").filter(|_| of_file),
        keyfile_size: request.number("keyfile-size").filter(|bytes| of_file && *bytes > 0),
        key_description: request.text("key-description").map(|name| name.to_string_lossy().into_owned()),
        verify_passphrase: request.has("verify-passphrase"),
        ..PassphraseArgs::default()
    })
}

/// Passphrases come from standard input where it is no terminal.
fn output(request: &Request, globals: &GlobalArgs) -> Output {
    let mut questions = Questions { from_stdin: true, tokens_first: true, ..Questions::default() };
    if let Some(tries) = request.number("tries") {
        // intended: that many are without end.
        questions.tries = u32::try_from(tries).unwrap_or(u32::MAX).max(1);
    }
    // 0 is without end, as with cryptsetup.
    questions.timeout = request.number("timeout").filter(|seconds| *seconds > 0).map(Duration::from_secs);
    // Of a key file they say where its key is, and of standard input where a passphrase is.
    if !request.has("key-file") {
        // intended: from the beginning.
        questions.skip = request.number("keyfile-offset").unwrap_or(0);
        questions.bytes = request.number("keyfile-size");
    }
    // intended: without a number there is none.
    let seconds = request.number("progress-frequency").unwrap_or(0);
    let lines = Lines::asked(request.has("progress-json"), seconds, request.has("batch-mode"));
    Output::new(globals).asking(questions).telling(lines)
}
