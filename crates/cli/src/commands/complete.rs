//! `atrest complete`: what the word under the cursor can be, where only the program knows it. The scripts of `atrest completions` ask it.
//!
//! It answers from the definitions, the list of open volumes, names of the configuration, and headers: never from a passphrase, and without a
//! question. Whatever can't be read gives no candidates.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use atrest_engine::Access;
use atrest_measure::CIPHERS;
use atrest_open::Device;
use atrest_volume::{Info, LockedVolume};
use clap::{Arg, Command, CommandFactory};

use super::{mapping, serve};
use crate::args::Cli;
use crate::args::tools::CompleteArgs;
use crate::config::Config;
use crate::failure::Failure;
use crate::output::Output;

/// What a word is a name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// An open volume.
    Volume,
    /// A volume that the configuration names, or a file.
    Place,
    /// A keyslot that is in use.
    Keyslot,
    /// A keyslot that is free.
    FreeKeyslot,
    /// A token.
    Token,
    Cipher,
    KeySize,
    Hash,
}

/// Keyslots that are offered as free.
const SLOTS: u32 = 8;
/// Ciphers of new volumes that no table of speeds has.
const MORE_CIPHERS: [&str; 3] = ["aes-gcm-random", "chacha20-random", "aegis128-random"];
const KEY_SIZES: [&str; 5] = ["128", "192", "256", "384", "512"];
const HASHES: [&str; 8] =
    ["sha256", "sha512", "sha1", "sha3-256", "ripemd160", "whirlpool", "blake2b-512", "blake2s-256"];

pub fn complete(args: &CompleteArgs, output: &Output) -> Result<(), Failure> {
    let (found, with_files) = candidates(&args.words, output);
    let lines: String = found.iter().map(|candidate| format!("{candidate}\n")).collect();
    // An empty line in front tells the script of a shell that a file is meant as well.
    let mark = if with_files && !found.is_empty() { "\n" } else { "" };
    output.report(&found, &format!("{mark}{lines}"))
}

/// What the last word can be, in order, and whether it can be a file, too. Nothing where only a file or a word of the definitions is meant.
fn candidates(words: &[OsString], output: &Output) -> (Vec<String>, bool) {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Some((current, before)) = words.split_last() else { return (Vec::new(), false) };
    let mut root = Cli::command();
    root.build();
    let Some((kind, prefix)) = kind_of(&root, before, current) else { return (Vec::new(), false) };
    // cannot miss: the prefix is the beginning of the word.
    let begun = current.strip_prefix(&prefix).unwrap_or(current);
    let all = match kind {
        Kind::Volume => volumes(output),
        Kind::Place => named_volumes(before),
        Kind::Keyslot | Kind::FreeKeyslot | Kind::Token => {
            // intended: where no header tells, nothing is offered.
            before.iter().find_map(|word| of_header(kind, word)).unwrap_or_default()
        }
        Kind::Cipher => CIPHERS.iter().map(|(name, _)| *name).chain(MORE_CIPHERS).map(String::from).collect(),
        Kind::KeySize => KEY_SIZES.map(String::from).to_vec(),
        Kind::Hash => HASHES.map(String::from).to_vec(),
    };
    let mut seen = BTreeSet::new();
    let fitting =
        all.into_iter().filter(|candidate| candidate.starts_with(begun) && seen.insert(candidate.clone()));
    (fitting.map(|candidate| format!("{prefix}{candidate}")).collect(), kind == Kind::Place)
}

/// What is meant at the cursor, and what of the word stands in front of it: `--cipher=` for example.
fn kind_of(root: &Command, before: &[String], current: &str) -> Option<(Kind, String)> {
    let mut command = root;
    let mut top = None;
    let mut place = 0;
    let mut waiting: Option<&Arg> = None;
    let mut only_places = false;
    for word in before.iter().skip(1) {
        if waiting.take().is_some() {
            continue;
        }
        if word == "--" {
            only_places = true;
        } else if let (false, Some(option)) = (only_places, option(command, word)) {
            waiting = option.filter(|arg| wants_value(arg) && !word.contains('='));
        } else if let (0, Some(sub)) = (place, command.find_subcommand(word)) {
            command = sub;
            top.get_or_insert(sub.get_name());
        } else {
            place += 1;
        }
    }
    if let Some(arg) = waiting {
        return Some((named(arg.get_id().as_str())?, String::new()));
    }
    if let (false, Some((name, _))) =
        (only_places, current.split_once('=').filter(|_| current.starts_with("--")))
    {
        let arg = option(command, name).flatten()?;
        return Some((named(arg.get_id().as_str())?, format!("{name}=")));
    }
    if current.starts_with('-') && !only_places {
        return None;
    }
    let takes_all = |arg: &&Arg| arg.get_num_args().is_some_and(|range| range.max_values() > 1);
    let arg = match command.get_positionals().nth(place) {
        Some(arg) => arg,
        None => command.get_positionals().last().filter(takes_all)?,
    };
    let kind = positional(command.get_name(), arg.get_id().as_str());
    Some((kind.or_else(|| volume_place(top?, command.get_name(), arg.get_id().as_str()))?, String::new()))
}

/// The definition of an option, if the word is one: `Some(None)` is an option that nobody knows.
fn option<'a>(command: &'a Command, word: &str) -> Option<Option<&'a Arg>> {
    let name = word.split('=').next().unwrap_or(word);
    if let Some(long) = name.strip_prefix("--") {
        let is = |arg: &&Arg| {
            // intended: no aliases are an empty list.
            arg.get_long() == Some(long) || arg.get_all_aliases().unwrap_or_default().contains(&long)
        };
        return Some(command.get_arguments().find(is));
    }
    let letter = name.strip_prefix('-')?.chars().last()?;
    Some(command.get_arguments().find(|arg| arg.get_short() == Some(letter)))
}

fn wants_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && arg.get_num_args().is_none_or(|range| range.min_values() > 0)
}

/// What the value of an option is.
fn named(id: &str) -> Option<Kind> {
    match id {
        "key_slot" | "drop_slot" => Some(Kind::Keyslot),
        "new_key_slot" => Some(Kind::FreeKeyslot),
        "token_id" => Some(Kind::Token),
        "cipher" | "keyslot_cipher" => Some(Kind::Cipher),
        "key_size" | "keyslot_key_size" => Some(Kind::KeySize),
        "hash" => Some(Kind::Hash),
        _ => None,
    }
}

/// What an argument without a name is.
fn positional(command: &str, id: &str) -> Option<Kind> {
    match (command, id) {
        ("close" | "status" | "suspend" | "resume" | "resize" | "lock" | "keys", "name") => {
            Some(Kind::Volume)
        }
        (_, "slot") => Some(Kind::Keyslot),
        ("remove" | "export" | "unassign", "id") => Some(Kind::Token),
        _ => None,
    }
}

/// Whether an argument is a volume that can be named. What makes a volume, or destroys something of it, is given its path: a key press too many must not name one.
fn volume_place(top: &str, command: &str, id: &str) -> Option<Kind> {
    if matches!((top, command), ("key", "kill" | "remove") | ("header", "restore")) {
        return None;
    }
    let is_named = match id {
        "path" => matches!(
            top,
            "open"
                | "info"
                | "uuid"
                | "is-luks"
                | "repair"
                | "key"
                | "header"
                | "token"
                | "convert"
                | "reencrypt"
                | "scrub"
                | "hand-over"
                | "snapshot"
                | "gc"
                | "clone"
                | "flatten"
                | "rekey"
        ),
        "volume" => matches!(top, "decrypt" | "df" | "mount"),
        "places" => matches!(top, "ls" | "cat" | "mkdir" | "rm" | "mv"),
        "paths" => top == "cp",
        _ => false,
    };
    is_named.then_some(Kind::Place)
}

/// The volumes that the configuration names: the one of these words, or the one in its usual place.
fn named_volumes(before: &[String]) -> Vec<String> {
    let after = before
        .iter()
        .zip(before.iter().skip(1))
        .find(|(word, _)| *word == "--config")
        .map(|(_, file)| file.as_str());
    let file = after.or_else(|| before.iter().find_map(|word| word.strip_prefix("--config=")));
    match Config::load(file.map(Path::new)) {
        Ok(config) => config.names().map(String::from).collect(),
        // intended: one that can't be read or believed names nothing. Every other command tells that.
        Err(_) => Vec::new(),
    }
}

/// The names of the open volumes: those that we serve, and those of the kernel, where they may be seen.
fn volumes(output: &Output) -> Vec<String> {
    let served = serve::registry(output).and_then(|registry| Ok(registry.list()?));
    // intended: what can't be listed is not offered.
    let served = served.unwrap_or_default().into_iter().map(|entry| entry.name);
    let mapped = mapping::list().unwrap_or_default().into_iter().map(|mapping| mapping.name);
    served.chain(mapped).collect()
}

/// Numbers in the header of the volume at `path`, if one is there.
fn of_header(kind: Kind, path: &str) -> Option<Vec<String>> {
    let info = header(Path::new(path))?;
    let used = || info.keyslots.iter().map(|slot| slot.id);
    let numbers: Vec<u32> = match kind {
        Kind::Token => info.tokens.iter().map(|token| token.id).collect(),
        Kind::FreeKeyslot => (0..SLOTS).filter(|slot| used().all(|used| used != *slot)).collect(),
        _ => used().collect(),
    };
    Some(numbers.iter().map(u32::to_string).collect())
}

/// The header of a LUKS volume in a file or on a device. A server is not asked: that may take long.
fn header(path: &Path) -> Option<Info> {
    if atrest_open::is_url(path) || !path.exists() || path.is_dir() {
        return None;
    }
    let device = Device::open(path, Access::ReadOnly).ok()?;
    Some(LockedVolume::read(&device).ok()?.info())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(line: &str) -> Option<(Kind, String)> {
        let mut root = Cli::command();
        root.build();
        let words: Vec<String> = line.split(' ').map(String::from).collect();
        let (current, before) = words.split_last().expect("a word");
        kind_of(&root, before, current)
    }

    #[test]
    fn what_is_meant_is_known_from_the_words_before() {
        let of = |kind| Some((kind, String::new()));
        for (line, expected) in [
            ("atrest close ", of(Kind::Volume)),
            ("atrest close se", of(Kind::Volume)),
            ("atrest close --deferred se", of(Kind::Volume)),
            ("atrest status ", of(Kind::Volume)),
            ("atrest key kill vol ", of(Kind::Keyslot)),
            ("atrest key kill ", None),
            ("atrest --quiet key kill vol ", of(Kind::Keyslot)),
            ("atrest open vol -S ", of(Kind::Keyslot)),
            ("atrest open vol --key-slot ", of(Kind::Keyslot)),
            ("atrest open vol --key-slot=", Some((Kind::Keyslot, "--key-slot=".into()))),
            ("atrest key add vol --new-key-slot ", of(Kind::FreeKeyslot)),
            ("atrest token remove vol ", of(Kind::Token)),
            ("atrest format -c ", of(Kind::Cipher)),
            ("atrest format --cipher=aes", Some((Kind::Cipher, "--cipher=".into()))),
            ("atrest bench --cipher aes-cbc-essiv:s", of(Kind::Cipher)),
            ("atrest format --hash ", of(Kind::Hash)),
            ("atrest format --key-size ", of(Kind::KeySize)),
            ("atrest open ", of(Kind::Place)),
            ("atrest --quiet open --nbd -- ph", of(Kind::Place)),
            ("atrest mount ", of(Kind::Place)),
            ("atrest mount photos ", None),
            ("atrest key list ", of(Kind::Place)),
            ("atrest snapshot list ", of(Kind::Place)),
            ("atrest ls ", of(Kind::Place)),
            ("atrest cp letter photos", of(Kind::Place)),
            ("atrest cp one two ", of(Kind::Place)),
            ("atrest verity open ", None),
            ("atrest tree check ", None),
            ("atrest erase ", None),
            ("atrest key remove ", None),
            ("atrest header restore ", None),
            ("atrest encrypt ", None),
            ("atrest format ", None),
            ("atrest format --key-file ", None),
            ("atrest ", None),
            ("atrest nothing ", None),
            ("atrest close -", None),
            ("atrest close one ", None),
        ] {
            assert_eq!(kind(line), expected, "{line}");
        }
    }
}
