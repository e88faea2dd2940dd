//! cryptsetup's options, and the actions that they go with. Held against Debian's cryptsetup by a test, option by option and
//! action by action.

use super::action::Action;
use super::action::Action::*;

/// What follows an option's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    None,
    /// Any text.
    Text,
    /// A whole number.
    Number,
    /// A whole number of bytes, or of what the unit behind it says.
    Size,
}

/// One option.
#[derive(Debug)]
pub struct Opt {
    /// Its name, without the two dashes.
    pub name: &'static str,
    /// Its letter.
    pub letter: Option<char>,
    /// What follows.
    pub value: Value,
    /// The actions that take it; none means all of them. Many that all actions take have a meaning with few.
    pub with: &'static [Action],
}

const fn any(name: &'static str, letter: Option<char>, value: Value) -> Opt {
    Opt { name, letter, value, with: &[] }
}

const fn with(name: &'static str, letter: Option<char>, value: Value, with: &'static [Action]) -> Opt {
    Opt { name, letter, value, with }
}

const MAKES_KEYSLOTS: &[Action] = &[Reencrypt, Format, AddKey, ChangeKey, ConvertKey];
const MEASURES: &[Action] = &[Benchmark, Reencrypt, Format, AddKey, ChangeKey, ConvertKey];
const FORMATS: &[Action] = &[Reencrypt, Format];
const OPENS: &[Action] = &[Open, Refresh];
const OPENS_TCRYPT: &[Action] = &[Open, Refresh, TcryptDump];

use Value::{None as Flag, Number, Size, Text};

/// All options of cryptsetup, and two of ours: `--face` and `--store`.
pub const OPTIONS: &[Opt] = &[
    any("active-name", None, Text),
    with("align-payload", None, Number, FORMATS),
    with("allow-discards", None, Flag, OPENS),
    any("batch-mode", Some('q'), Flag),
    with("cancel-deferred", None, Flag, &[Close]),
    any("block-size", Some('B'), Number),
    any("cipher", Some('c'), Text),
    any("debug", None, Flag),
    any("debug-json", None, Flag),
    any("decrypt", None, Flag),
    with("deferred", None, Flag, &[Close]),
    with("device-size", None, Size, &[Open, Resize, Reencrypt, Refresh]),
    with("disable-blkid", None, Flag, FORMATS),
    any("disable-external-tokens", None, Flag),
    any("disable-keyring", None, Flag),
    any("disable-locks", None, Flag),
    with("disable-veracrypt", None, Flag, OPENS_TCRYPT),
    any("dump-json-metadata", None, Flag),
    any("dump-master-key", None, Flag),
    any("dump-volume-key", None, Flag),
    any("encrypt", None, Flag),
    any("external-tokens-path", None, Text),
    any("face", None, Text),
    any("force-password", None, Flag),
    with("force-no-keyslots", None, Flag, &[Reencrypt]),
    with("force-offline-reencrypt", None, Flag, &[Reencrypt]),
    any("hash", Some('h'), Text),
    any("header", None, Text),
    any("header-backup-file", None, Text),
    with("hotzone-size", None, Size, &[Reencrypt]),
    with("hw-opal", None, Flag, &[Format]),
    with("hw-opal-factory-reset", None, Flag, &[Erase]),
    with("hw-opal-only", None, Flag, &[Format]),
    any("init-only", None, Flag),
    with("integrity", Some('I'), Text, FORMATS),
    with("integrity-inline", None, Flag, &[Format]),
    any("integrity-key-size", None, Number),
    any("integrity-legacy-padding", None, Flag),
    any("integrity-no-journal", None, Flag),
    with("integrity-no-wipe", None, Flag, FORMATS),
    with("iter-time", Some('i'), Number, MEASURES),
    with("iv-large-sectors", None, Flag, OPENS),
    any("json-file", None, Text),
    with("keep-key", None, Flag, &[Reencrypt]),
    any("key-description", None, Text),
    any("key-file", Some('d'), Text),
    with("key-size", Some('s'), Number, &[Open, Benchmark, Reencrypt, Refresh, Format, AddKey]),
    with(
        "key-slot",
        Some('S'),
        Number,
        &[Open, Reencrypt, Config, Refresh, Format, AddKey, ChangeKey, ConvertKey, Dump, Resume, Token],
    ),
    any("keyfile-offset", None, Number),
    any("keyfile-size", Some('l'), Number),
    with("keyslot-cipher", None, Text, MAKES_KEYSLOTS),
    with("keyslot-key-size", None, Number, MAKES_KEYSLOTS),
    with("label", None, Text, &[Reencrypt, Config, Format]),
    with("link-vk-to-keyring", None, Text, &[Open, Refresh, Resume]),
    with("luks2-keyslots-size", None, Size, FORMATS),
    with("luks2-metadata-size", None, Size, FORMATS),
    any("master-key-file", None, Text),
    any("new", Some('N'), Flag),
    with("new-key-description", None, Text, &[AddKey]),
    with("new-key-size", None, Number, &[Reencrypt]),
    with("new-key-slot", None, Number, &[AddKey]),
    with("new-keyfile", None, Text, &[AddKey]),
    any("new-keyfile-offset", None, Number),
    any("new-keyfile-size", None, Number),
    with("new-token-id", None, Number, &[AddKey]),
    with("new-volume-key-file", None, Text, &[Reencrypt]),
    with("new-volume-key-keyring", None, Text, &[Reencrypt]),
    with("offset", Some('o'), Number, &[Open, Reencrypt, Refresh, Format]),
    with("pbkdf", None, Text, MEASURES),
    with("pbkdf-force-iterations", None, Number, MAKES_KEYSLOTS),
    any("pbkdf-memory", None, Number),
    any("pbkdf-parallel", None, Number),
    any("perf-high_priority", None, Flag),
    any("perf-no_read_workqueue", None, Flag),
    any("perf-no_write_workqueue", None, Flag),
    any("perf-same_cpu_crypt", None, Flag),
    any("perf-submit_from_crypt_cpus", None, Flag),
    with("persistent", None, Flag, OPENS),
    with("priority", None, Text, &[Config]),
    any("progress-frequency", None, Number),
    with("progress-json", None, Flag, FORMATS),
    any("readonly", Some('r'), Flag),
    any("reduce-device-size", None, Size),
    with("refresh", None, Flag, OPENS),
    any("resilience", None, Text),
    any("resilience-hash", None, Text),
    any("resume-only", None, Flag),
    with("sector-size", None, Number, &[Open, Reencrypt, Refresh, Format]),
    with("serialize-memory-hard-pbkdf", None, Flag, OPENS),
    with("shared", None, Flag, OPENS),
    with("size", Some('b'), Number, &[Open, Resize, Refresh]),
    with("skip", Some('p'), Number, OPENS),
    with("store", None, Text, &[Config]),
    with("subsystem", None, Text, &[Reencrypt, Config, Format]),
    with("tcrypt-backup", None, Flag, OPENS_TCRYPT),
    with("tcrypt-hidden", None, Flag, OPENS_TCRYPT),
    with("tcrypt-system", None, Flag, OPENS_TCRYPT),
    any("test-args", None, Flag),
    with("test-passphrase", None, Flag, OPENS),
    any("timeout", Some('t'), Number),
    any("token-id", None, Number),
    any("token-only", None, Flag),
    with("token-replace", None, Flag, &[Token]),
    any("token-type", None, Text),
    any("tries", Some('T'), Number),
    any("type", Some('M'), Text),
    with("unbound", None, Flag, &[Open, Refresh, AddKey, Dump, Token]),
    any("use-directio", None, Flag),
    any("use-fsync", None, Flag),
    with("use-random", None, Flag, FORMATS),
    with("use-urandom", None, Flag, FORMATS),
    with("uuid", None, Text, &[Reencrypt, Format, Uuid]),
    any("veracrypt", None, Flag),
    with("veracrypt-pim", None, Number, OPENS_TCRYPT),
    any("veracrypt-query-pim", None, Flag),
    any("verbose", Some('v'), Flag),
    any("verify-passphrase", Some('y'), Flag),
    any("volume-key-file", None, Text),
    any("volume-key-keyring", None, Text),
    any("write-log", None, Flag),
];

/// Options whose hardware or kernel is missing, which, and what to do.
pub const WITHOUT_MEANS: &[(&str, &str, &str)] = &[
    ("hw-opal", OPAL, "leave it out: the data is encrypted in software then"),
    ("hw-opal-factory-reset", OPAL, "cryptsetup 2.7 and later, or sedutil, resets such a drive"),
    ("hw-opal-only", OPAL, "leave it out: the data is encrypted in software then"),
    (
        "integrity-inline",
        "it needs a drive with room for tags in its sectors",
        "leave it out: tags lie in areas of their own then",
    ),
    (
        "new-volume-key-keyring",
        "a re-encryption takes its new volume key from a file, or draws one",
        "put it into a file that only root can read, and give --new-volume-key-file",
    ),
    (
        "perf-high_priority",
        "it needs a kernel from 6.10 on, and is not asked for here yet",
        "leave it out: nothing but its speed depends on it",
    ),
];

const OPAL: &str = "drives that encrypt themselves (OPAL) are not spoken to";

/// Options that change nothing here, and why nothing is lost by that: keys come from the kernel's random source in any case,
/// passphrases are not judged, locks are always taken, tokens of others are never loaded, what a device holds is told only where
/// somebody is asked, and there is no more to tell. The last four are of the program that re-encrypted before there was an action for
/// it: ours writes as it must for every power loss to be survived.
pub const WITHOUT_EFFECT: &[&str] = &[
    "use-random",
    "use-urandom",
    "force-password",
    "disable-blkid",
    "disable-keyring",
    "disable-locks",
    "disable-external-tokens",
    "external-tokens-path",
    "debug",
    "debug-json",
    "progress-frequency",
    "active-name",
    "test-args",
    "verbose",
    "batch-mode",
    "tries",
    "timeout",
    "block-size",
    "use-directio",
    "use-fsync",
    "write-log",
];
