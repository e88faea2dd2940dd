//! What the option parser stops at, for people who know cryptsetup: its names are answered with ours, and what is missing is
//! named in a sentence. Everything else is left to the parser's own words.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::args::secrets::PLACES;
use crate::failure::Failure;

/// Actions of cryptsetup 2.6.1 that have another name here, or none.
const ACTIONS: &[(&[&str], &str)] = &[
    (&["luksFormat"], "`atrest format` makes a volume"),
    (
        &["luksOpen", "plainOpen", "create"],
        "`atrest open` unlocks a volume: --fuse DIR, --nbd or, as cryptsetup does, --dm NAME; plain mode is --type plain",
    ),
    (
        &["luksClose", "plainClose", "loopaesClose", "tcryptClose", "bitlkClose", "remove"],
        "`atrest close` closes a volume",
    ),
    (
        &["loopaesOpen", "tcryptOpen", "tcryptDump"],
        "`atrest open` with --type loopaes or --type tcrypt opens them; ls, cat and cp take these options, too",
    ),
    (
        &["bitlkOpen", "fvault2Open", "bitlkDump", "fvault2Dump"],
        "atrest does not know BitLocker and FileVault volumes; cryptsetup opens them",
    ),
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
];

/// Options of cryptsetup 2.6.1 that have another name here, or none.
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
    (
        &["--token-id", "--token-only", "--token-type", "--disable-external-tokens"],
        "tokens don't unlock anything here",
    ),
    (&["-M"], "--type says which kind of volume it is"),
    (&["-o"], "--offset says where the data begins"),
    (&["-b"], "--size takes bytes, or a number with a unit"),
    (&["-p"], "--skip gives the number of the first sector's IV"),
    (&["-l"], "--keyfile-size says how much of a key file counts"),
    (
        &["-I", "--integrity"],
        "authenticated volumes are made by cryptsetup; `atrest open --dm NAME` opens them",
    ),
    (
        &["--decrypt"],
        "`atrest reencrypt --decrypt --header FILE` decrypts a volume where it is; `atrest decrypt` writes its plaintext elsewhere",
    ),
    (&["--encrypt", "-N", "--new"], "`atrest encrypt --in-place` encrypts a device where it is"),
    (&["--resume-only"], "--resume goes on with a re-encryption"),
    (&["--use-random", "--use-urandom"], "keys come from the kernel's random source, which needs no choice"),
    (&["--force-password"], "passphrases are not judged, so that none has to be forced"),
    (&["--verbose", "-v", "--debug"], "nothing more can be told; --json gives all there is"),
];

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
            let is_face = |arg: &String| arg.contains("--nbd") && arg.contains("--fuse");
            missing.iter().any(is_face).then(no_face)
        }
        _ => None,
    }
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
    use crate::args::Cli;
    use clap::{CommandFactory, Parser};

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
    fn no_answer_is_given_to_what_is_an_option_or_command_here() {
        for (name, _) in ACTIONS.iter().flat_map(|(names, text)| names.iter().map(move |name| (name, text))) {
            assert_eq!(said(&[name]), Some(format!("there is no command {name}")));
        }
        for (names, _) in OPTIONS {
            for name in *names {
                assert_eq!(
                    said(&["info", name]),
                    Some(format!("{name} is no option of this command")),
                    "{name}"
                );
            }
        }
    }
}
