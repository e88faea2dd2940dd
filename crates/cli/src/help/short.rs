//! `-h` of one command: what most people need, on one screen.

use clap::{Arg, Command};

use super::examples;

/// Options that stand in a group of their own in `--help`, and that most people need.
const NEEDED: &[&str] = &["kind", "key_file", "new_key_file", "json", "yes", "quiet", "driver"];

/// Options of a group that a command is about: with it most people need them.
const OF_COMMAND: &[(&str, &[&str])] = &[
    ("atrest tree check", &["ecryptfs_passphrase_file", "wrapped_passphrase"]),
    ("atrest tree export", &["ecryptfs_passphrase_file", "wrapped_passphrase"]),
    ("atrest tree build", &["policy", "encrypt", "fscrypt_key"]),
    ("atrest tree unlock", &["fscrypt_key", "fscrypt_protector"]),
    ("atrest image", &["erase_size", "store"]),
    ("atrest snapshot add", &["store"]),
    ("atrest snapshot remove", &["store"]),
    ("atrest snapshot release", &["store"]),
    ("atrest snapshot list", &["store"]),
    ("atrest gc", &["store"]),
    ("atrest flatten", &["store"]),
    ("atrest key add", &["tpm2", "fido2", "recovery"]),
    ("atrest scrub", &["header"]),
    ("atrest fit build", &["sign_key"]),
    ("atrest initramfs build", &["crypttab", "modules_dir"]),
    ("atrest initramfs add", &["crypttab"]),
    ("atrest verity open", &["hash_offset"]),
];

/// Options of a volume that is made, which few people need.
const RARE_OF_VOLUMES: &[&str] = &[
    "sector_size",
    "integrity_no_wipe",
    "integrity_legacy_padding",
    "integrity_key_size",
    "subsystem",
    "uuid",
    "key_slot",
    "luks2_metadata_size",
    "luks2_keyslots_size",
    "align_payload",
    "offset",
    "volume_key_file",
    "volume_key_keyring",
];

/// Options of a command, or of all commands in a group, by the name of its definition, that few people need.
const RARE: &[(&str, &[&str])] = &[
    // Of sealed volumes alone.
    ("atrest key", &["store"]),
    ("atrest token", &["store"]),
    ("atrest info", &["store", "for_memory"]),
    ("atrest uuid", &["store"]),
    ("atrest is-luks", &["store"]),
    ("atrest header backup", &["store"]),
    ("atrest header set", &["store"]),
    ("atrest key add", &["unbound", "key_size", "priority", "new_token_id"]),
    (
        "atrest open",
        &[
            "nbd_tcp",
            "allow_discards",
            "reencrypt",
            "map",
            "threads",
            "metrics",
            "refresh",
            "persistent",
            "shared",
            "link_vk_to_keyring",
        ],
    ),
    ("atrest mount", &["metrics", "name", "remove", "run"]),
    ("atrest fit build", &["entry", "fdt_load", "ramdisk_load", "external"]),
    ("atrest verity open", &["nbd_tcp", "threads", "metrics"]),
    ("atrest format", RARE_OF_VOLUMES),
    ("atrest image", RARE_OF_VOLUMES),
    ("atrest image", &["cipher", "key_size", "integrity", "label", "header"]),
    (
        "atrest reencrypt",
        &[
            "init_only",
            "stop",
            "resume_if_begun",
            "keep_key",
            "volume_key_file",
            "new_volume_key_file",
            "no_keyslots",
            "drop_slot",
            "drop_others",
        ],
    ),
];

/// The usage of a command whose own is longer than a line.
const USAGES: &[(&str, &str)] = &[
    (
        "atrest open",
        "atrest open [OPTIONS] PATH <--fuse DIR | --nbd [SOCKET] | --vhost-user SOCKET | --dm NAME>",
    ),
    (
        "atrest verity open",
        "atrest verity open [OPTIONS] <--fuse DIR | --nbd [SOCKET] | …> <DATA> <TREE> [ROOT_HASH]",
    ),
    ("atrest fit build", "atrest fit build [OPTIONS] -o FILE --arch NAME --kernel FILE --load ADDRESS"),
];

/// How many examples `-h` shows.
const EXAMPLES: usize = 2;

/// The definitions with less in `-h`; `--help` stays as it is.
pub fn shaped(root: Command) -> Command {
    let name = root.get_name().to_owned();
    within(&name, root)
}

fn within(path: &str, command: Command) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .filter(|name| name != "help")
        .collect();
    let command = names.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |sub| within(&format!("{path} {name}"), sub))
    });
    let command = command.mut_args(|arg| shorter(path, arg));
    let command = match USAGES.iter().find(|(of, _)| *of == path) {
        Some((_, usage)) => command.override_usage(*usage),
        None => command,
    };
    let shown = first_examples(&command);
    match shown.is_empty() {
        true => command,
        false => command.after_help(format!("Examples:\n  {}", shown.join("\n  "))),
    }
}

/// Of a command its own first examples; of a group of commands those of its first two.
fn first_examples(command: &Command) -> Vec<String> {
    let mut own = examples(command);
    for turn in 0..EXAMPLES {
        if own.len() < EXAMPLES && command.has_subcommands() {
            own.extend(command.get_subcommands().filter_map(|sub| examples(sub).into_iter().nth(turn)));
        }
    }
    own.truncate(EXAMPLES);
    own
}

/// The option in one sentence, and hidden if few need it.
fn shorter(path: &str, arg: Arg) -> Arg {
    let id = arg.get_id().as_str();
    let within = |of: &str| path == of || path.strip_prefix(of).is_some_and(|rest| rest.starts_with(' '));
    let in_table = |table: &[(&str, &[&str])]| table.iter().any(|(of, ids)| within(of) && ids.contains(&id));
    let rare = in_table(RARE);
    let grouped = arg.get_help_heading().is_some() && !NEEDED.contains(&id) && !in_table(OF_COMMAND);
    let Some(help) = arg.get_help().map(ToString::to_string) else { return arg };
    let long = arg.get_long_help().map_or_else(|| help.clone(), ToString::to_string);
    arg.help(first_sentence(&help)).long_help(long).hide_short_help(rare || grouped)
}

/// The first sentence of what is said of an option, with its default.
fn first_sentence(help: &str) -> String {
    let end = help.match_indices(". ").map(|(at, _)| at).find(|at| {
        help.get(at + 2..)
            .and_then(|rest| rest.chars().next())
            .is_some_and(|c| c.is_uppercase() || "-`".contains(c))
    });
    let Some(first) = end.and_then(|end| help.get(..end)) else {
        return help.trim_end_matches('.').to_owned();
    };
    match (first.contains("[default"), help.rfind("[default")) {
        (false, Some(default)) => {
            // cannot miss: it was just found.
            format!("{first} {}", help.get(default..).unwrap_or_default().trim_end_matches('.'))
        }
        _ => first.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docs::each_command;

    #[test]
    fn a_sentence_ends_where_the_next_one_begins() {
        assert_eq!(first_sentence("Take it. Then go"), "Take it");
        assert_eq!(first_sentence("As in 1. 5 or so"), "As in 1. 5 or so");
        assert_eq!(first_sentence("One only."), "One only");
        assert_eq!(first_sentence("A size. Units: K [default: 4K]."), "A size [default: 4K]");
        assert_eq!(first_sentence("A size [default: 4K]. Units: K"), "A size [default: 4K]");
    }

    #[test]
    fn the_tables_name_what_is_there() {
        let mut found = Vec::new();
        each_command(&mut |path, command| {
            for arg in command.get_arguments() {
                found.push((path.to_owned(), arg.get_id().as_str().to_owned()));
            }
        });
        for id in NEEDED {
            assert!(found.iter().any(|(_, of)| of == id), "no option is called {id}");
        }
        for (path, ids) in RARE.iter().chain(OF_COMMAND) {
            for id in *ids {
                assert!(found.iter().any(|(of, is)| of.starts_with(path) && is == id), "{path} has no {id}");
            }
        }
        for (path, usage) in USAGES {
            assert!(found.iter().any(|(of, _)| of == path) && usage.starts_with(path), "{path}");
        }
    }
}
