//! What the option parser stops at, said as all other errors are: what is wrong, and what to do. People who know cryptsetup get
//! our name for what they asked for.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::args::Cli;
use crate::args::secrets::PLACES;
use crate::failure::Failure;

/// Actions of cryptsetup 2.8 that have another name here, and what people type who know other programs.
const ACTIONS: &[(&[&str], &str)] = &[
    (&["luksFormat"], "`atrest format` makes a volume"),
    (
        &["luksOpen", "plainOpen", "create"],
        "`atrest open` unlocks a volume: --fuse DIR, --nbd or, as cryptsetup does, --dm NAME; plain mode is --type plain",
    ),
    (
        &[
            "luksClose",
            "plainClose",
            "loopaesClose",
            "tcryptClose",
            "bitlkClose",
            "fvault2Close",
            "remove",
            "umount",
            "unmount",
        ],
        "`atrest close` closes a volume",
    ),
    (
        &["loopaesOpen", "tcryptOpen", "tcryptDump"],
        "`atrest open` with --type loopaes or --type tcrypt opens them; ls, cat and cp take these options, too",
    ),
    (
        &["bitlkOpen", "fvault2Open"],
        "`atrest open` opens BitLocker and FileVault volumes, too, and `atrest ls` and `cp` read their files",
    ),
    (&["bitlkDump", "fvault2Dump"], "`atrest info` shows what opens the volume"),
    (&["luksAddKey"], "`atrest key add` adds a passphrase"),
    (&["luksRemoveKey"], "`atrest key remove` removes a passphrase"),
    (&["luksChangeKey"], "`atrest key change` replaces a passphrase"),
    (&["luksConvertKey"], "`atrest key change --keep-passphrase` derives a key in another way"),
    (&["luksKillSlot"], "`atrest key kill` wipes a keyslot by its number"),
    (&["luksUUID"], "`atrest uuid` prints the UUID, and `atrest header set --uuid` sets it"),
    (&["isLuks"], "`atrest is-luks` ends with code 4 if a file or device is not a LUKS volume"),
    (&["luksDump"], "`atrest info` shows the header"),
    (&["luksErase"], "`atrest erase` wipes all keyslots"),
    (&["luksHeaderBackup"], "`atrest header backup` saves the header"),
    (&["luksHeaderRestore"], "`atrest header restore` brings a saved header back"),
    (&["luksSuspend"], "`atrest suspend` stops a volume and wipes its key"),
    (&["luksResume"], "`atrest resume` lets it go on"),
    (&["benchmark"], "`atrest bench` measures"),
    (&["refresh"], "`atrest open --refresh --dm NAME` gives a mapping other options in place"),
    (
        &["init", "new"],
        "`atrest format` makes a volume, and `atrest mount` begins an encrypted folder in an empty directory",
    ),
    (&["dump", "show"], "`atrest info` shows the header"),
    (&["list"], "`atrest status` lists the open volumes, `atrest ls` the files in one"),
    (&["verify"], "`atrest verity verify` checks a tree, `atrest scrub` an authenticated volume"),
    (&["copy"], "`atrest cp` copies files into and out of a volume"),
    (&["passwd"], "`atrest key change` replaces a passphrase"),
];

/// Options of cryptsetup 2.8 that have another name here, another command, or none.
const OPTIONS: &[(&[&str], &str)] = &[
    (&["--batch-mode"], "--yes answers all questions in advance"),
    (
        &["--tries", "-T"],
        "a passphrase can be typed three times; with --key-file or --passphrase-fd it is tried once",
    ),
    (&["--timeout", "-t"], "a question waits for an answer; `timeout 30 atrest …` ends it"),
    (&["--test-passphrase"], "`atrest key test` tries a passphrase"),
    (&["--readonly", "-r"], "--read-only refuses writes"),
    (&["--new-keyfile"], "--new-key-file FILE gives the new passphrase"),
    (&["--master-key-file"], "--volume-key-file FILE gives the volume key"),
    (&["--dump-volume-key", "--dump-master-key"], "`atrest key export` writes the volume key to a file"),
    (&["--dump-json-metadata"], "`atrest info --metadata` shows it"),
    (&["--header-backup-file"], "the backup is the path behind the volume"),
    (&["--json-file"], "the file is the path behind the volume"),
    (
        &["--token-id", "--token-only", "--token-type"],
        "commands that take a passphrase take it from a token: `atrest open`, `atrest key test` and others",
    ),
    (
        &["--disable-external-tokens", "--external-tokens-path"],
        "no libraries of tokens are loaded; --key-file or --passphrase-fd leaves tokens aside",
    ),
    (&["--token-replace"], "`atrest token remove` makes room, then `atrest token import` fills it"),
    (&["--new-token-id"], "`atrest token import --token-id N` gives the number"),
    (&["-M"], "--type says which kind of volume it is"),
    (&["-o"], "--offset says where the data begins"),
    (&["-b", "--device-size"], "--size takes bytes, or a number with a unit"),
    (&["-p"], "--skip gives the number of the first sector's IV"),
    (&["-l"], "--keyfile-size says how much of a key file counts"),
    (
        &["-I", "--integrity", "--integrity-key-size", "--integrity-no-wipe", "--integrity-legacy-padding"],
        "`atrest format --integrity KIND` makes an authenticated volume; what opens it needs no option",
    ),
    (
        &["--integrity-inline"],
        "tags lie beside the data here; `cryptsetup` puts them into the sectors of a device that has room there",
    ),
    (
        &["--hw-opal", "--hw-opal-only", "--hw-opal-factory-reset"],
        "atrest encrypts itself, and uses no encryption of drives",
    ),
    (
        &["--decrypt"],
        "`atrest reencrypt --decrypt --header FILE` decrypts a volume where it is; `atrest decrypt` writes its plaintext elsewhere",
    ),
    (
        &["--encrypt", "-N", "--new", "--reduce-device-size"],
        "`atrest encrypt --in-place` encrypts a device where it is",
    ),
    (&["--resume-only"], "--resume goes on with a re-encryption"),
    (
        &[
            "--init-only",
            "--active-name",
            "--force-offline-reencrypt",
            "--hotzone-size",
            "--resilience",
            "--resilience-hash",
            "-B",
            "--block-size",
        ],
        "`atrest reencrypt` takes it, or knows it without being told: `atrest reencrypt --help`",
    ),
    (
        &[
            "--new-key-size",
            "--new-key-slot",
            "--new-key-description",
            "--new-volume-key-file",
            "--new-volume-key-keyring",
        ],
        "`atrest key add` and `atrest reencrypt` take what is new: their --help lists it",
    ),
    (&["--keep-key"], "`atrest key change --keep-passphrase` derives a key anew and keeps the volume key"),
    (
        &["--force-no-keyslots"],
        "`atrest reencrypt --no-keyslots` makes a volume that only its volume key opens",
    ),
    (&["--unbound"], "`atrest key add --unbound` adds a key that opens no data"),
    (&["--priority"], "`atrest key priority` sets it"),
    (&["--persistent"], "`atrest open --dm NAME --persistent` writes options of the kernel into the header"),
    (&["--deferred", "--cancel-deferred"], "`atrest close` takes it"),
    (&["--shared", "--refresh", "--allow-discards"], "`atrest open` takes it"),
    (&["--use-random", "--use-urandom"], "keys come from the kernel's random source, which needs no choice"),
    (&["--force-password"], "passphrases are not judged, so that none has to be forced"),
    (
        &[
            "--disable-locks",
            "--disable-blkid",
            "--use-directio",
            "--use-fsync",
            "--serialize-memory-hard-pbkdf",
            "--write-log",
            "--perf-high_priority",
            "--test-args",
        ],
        "it needs no choice here: leave it out",
    ),
    (
        &["--progress-frequency", "--progress-json"],
        "a terminal shows how far it is; --json gives lines for programs",
    ),
    (
        &["--veracrypt", "--disable-veracrypt"],
        "--type tcrypt is both, --type truecrypt and --type veracrypt are one of them",
    ),
    (&["--verbose", "-v", "--debug", "--debug-json"], "nothing more can be told; --json gives all there is"),
];

/// What is wrong with a command line, as a failure like every other. None if help or the version was asked for. `words` are those
/// behind the program's name.
pub fn failure(error: &clap::Error, words: impl Iterator<Item = OsString>) -> Option<Failure> {
    let is_answer = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    (!is_answer).then(|| answer(error).unwrap_or_else(|| in_the_parsers_words(error, &command_of(words))))
}

/// The command that these words begin with: `atrest key add` of `key add --slot x`.
fn command_of(words: impl Iterator<Item = OsString>) -> String {
    let mut path = String::from("atrest");
    let mut command = Cli::command();
    for word in words.filter(|word| !word.as_encoded_bytes().starts_with(b"-")) {
        let Some(found) = command.find_subcommand(&word).cloned() else { break };
        path = format!("{path} {}", found.get_name());
        command = found;
    }
    path
}

/// What the parser says: in one line what is wrong, in another what it advises.
fn in_the_parsers_words(error: &clap::Error, command: &str) -> Failure {
    let text = error.render().to_string();
    let mut paragraphs = text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty());
    // intended: an error without words has none.
    let what = paragraphs.next().unwrap_or_default();
    let what: Vec<&str> = what.lines().map(str::trim).collect();
    let what = what.join(" ");
    let mut advice: Vec<String> = Vec::new();
    for paragraph in paragraphs {
        for tip in paragraph.lines().filter_map(|line| line.trim().strip_prefix("tip: ")) {
            // Hardly anybody means a value that begins like an option.
            if !tip.starts_with("to pass '-") {
                advice.push(tip.to_owned());
            }
        }
    }
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "));
    if let (true, Some(usage)) = (advice.is_empty(), usage.filter(|usage| usage.len() < 90)) {
        advice.push(format!("usage: {usage}"));
    }
    advice.push(format!("`{command} -h` shows what it takes"));
    Failure::parameters(what.strip_prefix("error: ").unwrap_or(&what)).hint(advice.join("; "))
}

/// A sentence for an error of the parser, where there is a better one than its own.
pub fn answer(error: &clap::Error) -> Option<Failure> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let name = text(ContextKind::InvalidSubcommand)?;
            let found = find(ACTIONS, name)?;
            Some(Failure::parameters(format!("there is no command {name}")).hint(found))
        }
        ErrorKind::UnknownArgument => {
            let name = text(ContextKind::InvalidArg)?;
            let found = find(OPTIONS, name)?;
            Some(Failure::parameters(format!("{name} is no option of this command")).hint(found))
        }
        ErrorKind::InvalidValue => {
            let kind = text(ContextKind::InvalidValue).filter(|kind| matches!(*kind, "luks1" | "luks2"))?;
            text(ContextKind::InvalidArg).filter(|arg| arg.starts_with("--type"))?;
            Some(
                Failure::parameters(format!("--type {kind} is for `atrest format`"))
                    .hint("leave it out: the header says whether it is LUKS1 or LUKS2"),
            )
        }
        ErrorKind::ValueValidation => {
            // The value may be the passphrase of somebody who has misunderstood the option.
            text(ContextKind::InvalidArg).filter(|arg| arg.starts_with("--passphrase-from"))?;
            Some(
                Failure::parameters(format!("--passphrase-from: {PLACES}"))
                    .hint("it says where the passphrase is, and never what it is"),
            )
        }
        ErrorKind::MissingRequiredArgument => {
            let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
                return None;
            };
            // `--any N FACTOR... PATH` takes the path for one more factor.
            if missing.iter().any(|arg| arg == "<PATH>")
                && error.to_string().contains(" key add ")
                && used(error, "--any")
            {
                return Some(
                    Failure::parameters(
                        "the volume is missing: --any takes every word behind it for a factor",
                    )
                    .hint("name the volume first: atrest key add VOLUME --any 2 tpm2 passphrase"),
                );
            }
            let is_face = |arg: &String| arg.contains("--nbd") && arg.contains("--fuse");
            missing.iter().any(is_face).then(no_face)
        }
        _ => None,
    }
}

/// Whether an option was given, as the usage of what was given tells.
fn used(error: &clap::Error, option: &str) -> bool {
    error.to_string().lines().any(|line| line.starts_with("Usage: ") && line.contains(option))
}

/// What is said where nothing says how a volume is served.
pub fn no_face() -> Failure {
    Failure::parameters("how the volume is to be served is missing").hint(
        "--fuse DIR shows it as the file DIR/volume, --nbd serves it over NBD, --vhost-user to a virtual machine, --dm NAME maps it as root; `atrest mount` \
         shows the files in it",
    )
}

fn find(table: &[(&[&str], &'static str)], name: &str) -> Option<&'static str> {
    // `--tries=3` and `-T3` as well.
    let name = name.split('=').next().unwrap_or(name);
    table.iter().find(|(names, _)| names.contains(&name)).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// What is said of this command line.
    fn said(words: &[&str]) -> Option<String> {
        let error = Cli::try_parse_from([&["atrest"], words].concat()).expect_err("refused");
        answer(&error).map(|failure| failure.what().to_owned())
    }

    #[test]
    fn every_action_of_cryptsetup_is_a_command_here_or_is_answered() {
        let help = atrest_testkit::oracle::Program::named("cryptsetup").arg("--help").ok().text();
        let actions = help.split("<action> is one of:").nth(1).expect("a list of actions");
        let ours: Vec<String> =
            Cli::command().get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
        let mut count = 0;
        for line in
            actions.lines().map_while(|line| line.strip_prefix('\t').or(line.is_empty().then_some("")))
        {
            let Some(action) = line.split(' ').next().filter(|action| !action.is_empty()) else { continue };
            count += 1;
            if !ours.iter().any(|name| name == action) {
                assert_eq!(said(&[action]), Some(format!("there is no command {action}")));
            }
        }
        assert!(count > 20, "only {count} actions were found");
    }

    #[test]
    fn no_answer_is_given_to_what_is_a_command_here() {
        for name in ACTIONS.iter().flat_map(|(names, _)| names.iter()) {
            assert_eq!(said(&[name]), Some(format!("there is no command {name}")));
        }
    }

    /// Every option of a command, with dashes.
    fn options_of(command: &clap::Command) -> Vec<String> {
        let long = command.get_arguments().filter_map(|arg| arg.get_long()).map(|name| format!("--{name}"));
        let short =
            command.get_arguments().filter_map(|arg| arg.get_short()).map(|letter| format!("-{letter}"));
        long.chain(short).collect()
    }

    #[test]
    fn every_option_of_cryptsetup_is_taken_by_its_command_here_or_answered() {
        let mut everywhere: Vec<String> = Vec::new();
        crate::docs::each_command(&mut |_, command| everywhere.extend(options_of(command)));
        let is_unknown = |name: &String| !everywhere.contains(name) && find(OPTIONS, name).is_none();
        let unknown: Vec<String> =
            crate::options_of_peers::names_of_cryptsetup().into_iter().filter(is_unknown).collect();
        assert!(
            unknown.is_empty(),
            "these are no options here, and nobody says what to do instead: {unknown:?}"
        );
        for name in OPTIONS.iter().flat_map(|(names, _)| names.iter()) {
            assert_eq!(
                said(&["passphrase", name]),
                Some(format!("{name} is no option of this command")),
                "{name}"
            );
        }
    }

    #[test]
    fn every_command_that_an_answer_names_is_there() {
        let mut commands = vec!["atrest …".to_owned()];
        crate::docs::each_command(&mut |path, _| commands.push(path.to_owned()));
        for (_, text) in ACTIONS.iter().chain(OPTIONS) {
            for quoted in text.split('`').skip(1).step_by(2).filter(|quoted| quoted.starts_with("atrest ")) {
                assert!(commands.iter().any(|command| quoted.starts_with(command.as_str())), "{quoted}");
            }
        }
    }

    #[test]
    fn what_the_parser_says_has_the_form_of_every_other_error() {
        let text = |words: &[&str]| {
            let error = Cli::try_parse_from([&["atrest"], words].concat()).expect_err("refused");
            let failure = failure(&error, words.iter().map(OsString::from)).expect("no answer");
            (failure.what().to_owned(), failure.text(false))
        };
        for words in [
            &["info"][..],
            &["info", "--nothing-like-it", "x"],
            &["format", "--size", "many", "x"],
            &["format", "--type", "luks3", "x"],
            &["open", "x", "--nbd", "--fuse", "d"],
            &["nothing-like-it"],
        ] {
            let (what, text) = text(words);
            assert!(!what.is_empty() && !what.contains("error:"), "{text}");
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.len(), 2, "{text}");
            assert!(lines[0].starts_with("atrest: ") && lines[1].starts_with("  "), "{text}");
        }
        assert_eq!(text(&["info"]).0, "the following required arguments were not provided: <PATH>");
        assert!(text(&["info", "--jso", "x"]).1.contains("--json"));
        // Also where the parser names no command in what it says.
        let (_, text) = text(&["--quiet", "key", "add", "--slot", "many", "x"]);
        assert!(text.contains("`atrest key add -h` shows what it takes"), "{text}");
    }
}
