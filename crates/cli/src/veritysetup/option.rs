//! veritysetup's actions and options, and which go together. Held against Debian's veritysetup by a test, pair by pair.

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Format,
    Verify,
    Open,
    Close,
    Status,
    Dump,
}

impl Action {
    /// All actions: name, what follows, and how many words that are at least.
    pub const ALL: [(Action, &str, &str, usize); 6] = [
        (Self::Format, "format", "<data_device> <hash_device>", 2),
        (Self::Verify, "verify", "<data_device> <hash_device> [<root_hash>]", 2),
        (Self::Open, "open", "<data_device> <name> <hash_device> [<root_hash>]", 3),
        (Self::Close, "close", "<name>", 1),
        (Self::Status, "status", "<name>", 1),
        (Self::Dump, "dump", "<hash_device>", 1),
    ];

    /// The action of a name, or of its old name.
    pub fn named(name: &str) -> Option<Self> {
        let name = match name {
            "create" => "open",
            "remove" => "close",
            name => name,
        };
        Self::ALL.iter().find(|(_, known, ..)| *known == name).map(|(action, ..)| *action)
    }
}

/// What follows an option's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    None,
    Text,
    /// A whole number of at most so many bits.
    Number(u32),
}

/// One option.
#[derive(Debug)]
pub struct Opt {
    pub name: &'static str,
    pub letter: Option<char>,
    pub value: Value,
    /// The actions that take it; none means all of them. Many that all actions take have a meaning with few.
    pub with: &'static [Action],
}

const fn opt(name: &'static str, letter: Option<char>, value: Value, with: &'static [Action]) -> Opt {
    Opt { name, letter, value, with }
}

use Action::{Close, Format, Open, Verify};
use Value::{None as Flag, Number, Text};

/// All options of veritysetup, and one of ours: `--face`.
pub const OPTIONS: &[Opt] = &[
    opt("cancel-deferred", None, Flag, &[Close]),
    opt("check-at-most-once", None, Flag, &[]),
    opt("data-block-size", None, Number(32), &[]),
    opt("data-blocks", None, Number(64), &[]),
    opt("debug", None, Flag, &[]),
    opt("deferred", None, Flag, &[Close]),
    opt("error-as-corruption", None, Flag, &[Open]),
    opt("face", None, Text, &[]),
    opt("fec-device", None, Text, &[]),
    opt("fec-offset", None, Number(64), &[]),
    opt("fec-roots", None, Number(32), &[]),
    opt("format", None, Number(32), &[]),
    opt("hash", Some('h'), Text, &[]),
    opt("hash-block-size", None, Number(32), &[]),
    opt("hash-offset", None, Number(64), &[]),
    opt("ignore-corruption", None, Flag, &[Open]),
    opt("ignore-zero-blocks", None, Flag, &[Open]),
    opt("no-superblock", None, Flag, &[]),
    opt("panic-on-corruption", None, Flag, &[Open]),
    opt("restart-on-corruption", None, Flag, &[Open]),
    opt("root-hash-file", None, Text, &[Format, Open, Verify]),
    opt("root-hash-signature", None, Text, &[Open]),
    opt("salt", Some('s'), Text, &[]),
    opt("shared", None, Flag, &[Open]),
    opt("use-tasklets", None, Flag, &[Open]),
    opt("uuid", None, Text, &[]),
    opt("verbose", Some('v'), Flag, &[]),
];

/// Pairs that exclude one another.
pub const EXCLUSIVE: &[(&str, &str)] = &[
    ("ignore-corruption", "restart-on-corruption"),
    ("panic-on-corruption", "restart-on-corruption"),
    ("cancel-deferred", "deferred"),
];

/// What only the kernel's dm-verity does. Where a process of ours serves the data they are refused.
pub const KERNEL: &[&str] = &[
    "check-at-most-once",
    "error-as-corruption",
    "ignore-corruption",
    "panic-on-corruption",
    "restart-on-corruption",
    "use-tasklets",
];
