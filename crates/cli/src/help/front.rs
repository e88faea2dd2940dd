//! `atrest -h` and `atrest --help`: the commands in groups, not in one long list.

use std::fmt::Write as _;

use clap::Command;

/// A group of commands, each with what it does: those that `-h` shows, and those that `--help` shows as well.
type Group = (&'static str, &'static [(&'static str, &'static str)], &'static [(&'static str, &'static str)]);

const GROUPS: &[Group] = &[
    (
        "Make, open, close",
        &[
            ("format", "Make a volume, a flash card or a sealed volume"),
            ("open", "Serve the plaintext as one file, over NBD, to a VM, or as a block device"),
            ("mount", "Show the files inside as a directory; begin or open an encrypted folder"),
            ("close", "Write everything back and stop serving"),
            ("status", "Show what is open"),
            ("info", "Show what a header says"),
        ],
        &[
            ("resize", "Make an open or sealed volume larger or smaller"),
            ("suspend", "Stop an open volume and wipe its key from memory"),
            ("resume", "Let a suspended volume go on"),
            ("unlock", "Open what /etc/crypttab names, at boot"),
            ("uuid", "Print the UUID of a LUKS volume"),
            ("is-luks", "Say by the exit code whether it is a LUKS volume"),
        ],
    ),
    (
        "Files inside, without mounting",
        &[("ls", "List files inside a volume"), ("cp", "Copy files out of a volume, or into one")],
        &[
            ("cat", "Write files from inside to standard output"),
            ("mkdir", "Make directories inside"),
            ("mv", "Move or rename files inside"),
            ("rm", "Remove files inside"),
            ("df", "Show how full the filesystem inside is"),
            ("tree", "Encrypted directories: eCryptfs, and ext4 with fscrypt"),
        ],
    ),
    (
        "Keys and headers",
        &[
            ("key", "Add, change, remove and test passphrases, TPMs, security keys"),
            ("header", "Save, restore, relabel and pin a header"),
        ],
        &[
            ("token", "Tokens: what else than a passphrase opens a volume"),
            ("passphrase", "Make a passphrase of random words"),
            ("kdf", "Compare what guessing passphrases costs"),
            ("repair", "Mend a damaged header"),
            ("erase", "Destroy all keys, so that nobody reads the data again"),
        ],
    ),
    (
        "Encrypt, decrypt, change",
        &[
            ("encrypt", "Fill a volume, or encrypt a device where it is"),
            ("decrypt", "Write the whole plaintext elsewhere"),
            ("reencrypt", "Give a volume another volume key or cipher, where it is"),
        ],
        &[
            ("convert", "Turn LUKS1, VeraCrypt or loop-AES into LUKS2"),
            ("scrub", "Check every sector of an authenticated volume"),
        ],
    ),
    (
        "Flash cards and sealed volumes",
        &[("image", "Make an encrypted card image of a directory")],
        &[
            ("snapshot", "Keep, list and give up states of a sealed volume"),
            ("clone", "Make a sealed volume that begins with a snapshot"),
            ("flatten", "Let a clone stand alone"),
            ("gc", "Free room in the store of a sealed volume"),
            ("rekey", "Give a sealed volume another volume key"),
            ("hand-over", "Move a sealed volume to another trusted store"),
        ],
    ),
    (
        "Boot images",
        &[],
        &[
            ("verity", "Hash trees over data that is only read (dm-verity)"),
            ("fit", "U-Boot's images: kernel, device trees, initramfs"),
            ("initramfs", "The small filesystem that unlocks at boot"),
        ],
    ),
    (
        "This machine",
        &[("bench", "Measure ciphers and key derivation")],
        &[
            ("config", "Show named volumes and defaults, and where they are from"),
            ("completions", "Print a completion script for a shell"),
            ("man", "Write the manual pages"),
        ],
    ),
];

const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}{after-help}";
const SHORT_END: &str = "\
Examples:
  atrest format --size 1G secret.img
  atrest mount secret.img mnt --driver --daemon

`atrest COMMAND -h` explains a command. `atrest --help` lists all of them.";
const LONG_END: &str = "\
Options:
  --json                    Answer in JSON; errors are one line of JSON on standard error.
  -q, --quiet               Say nothing but what was asked for, and errors.
  --yes                     Answer YES to every question about overwriting or destroying data.
  --max-kdf-time SECONDS    Refuse a header whose key derivation takes longer.
  --config FILE             Take named volumes and defaults from this file.
  -V, --version             Print the version.

Examples:
  atrest format --size 1G secret.img
  atrest mount secret.img mnt --driver --daemon
  atrest mount ~/.Private ~/Private --type ecryptfs --daemon
  atrest image ./content card.bin --type flash --size 16M

Exit codes:
  0 done, 1 wrong parameters, 2 no permission or bad passphrase, 3 out of memory,
  4 wrong device (not a volume, damaged, I/O error), 5 exists already or busy

`atrest COMMAND -h` explains a command in short, `atrest COMMAND --help` all of it.";

/// Below so many columns, what a command does stands under its name.
const NARROW: usize = 60;

/// The definitions with the commands in groups, for a screen of so many columns.
pub fn shaped(root: Command, columns: usize) -> Command {
    let narrow = columns < NARROW;
    let short = listed(&root, false, narrow);
    let long = listed(&root, true, narrow);
    root.help_template(TEMPLATE)
        .after_help(format!("{short}\n{SHORT_END}"))
        .after_long_help(format!("{long}\n{LONG_END}"))
}

/// The groups, a line for each command that this build has, or two where the screen is narrow.
fn listed(root: &Command, all: bool, narrow: bool) -> String {
    let mut groups = Vec::new();
    for (heading, first, more) in GROUPS {
        let more = if all { more } else { &[][..] };
        let there = |name: &str| root.get_subcommands().any(|sub| sub.get_name() == name);
        let mut text = String::new();
        for (name, what) in first.iter().chain(more).filter(|(name, _)| there(name)) {
            // Writing to a String can't fail.
            let _ = match narrow {
                false => writeln!(text, "  {name:<12}{what}"),
                true => writeln!(text, "  {name}\n      {what}"),
            };
        }
        if !text.is_empty() {
            groups.push(format!("{heading}:\n{text}"));
        }
    }
    groups.join("\n")
}

#[cfg(all(test, feature = "whole"))]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_stands_in_one_group_and_fits_a_line() {
        let root = crate::args::Cli::command();
        let listed_names: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, first, more)| first.iter().chain(*more))
            .map(|(name, _)| *name)
            .collect();
        for sub in root.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let count = listed_names.iter().filter(|name| **name == sub.get_name()).count();
            assert_eq!(count, 1, "{} stands in {count} groups", sub.get_name());
        }
        let shown = root.get_subcommands().filter(|sub| !sub.is_hide_set()).count();
        assert_eq!(listed_names.len(), shown, "a group names a command that is not there");
        for line in listed(&root, true, false).lines() {
            assert!(line.len() <= 86, "{line}");
        }
    }
}
