//! An image made by Debian's kernel in emulation, which has ciphers that the running one may lack.

use std::fs;
use std::path::Path;

use atrest_filetree::{FileTree, TreePath};
use atrest_testkit::kernel::Kernel;
use atrest_testkit::{Campaign, Scratch};
use atrest_tree::fscrypt::Keyring;

use crate::fscrypt::common::{Fact, Facts, assert_same, keyring, master_key, of_image, open};

const DESCRIPTOR: [u8; 8] = [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77];

/// Name, version, modes of contents and names, flags, whether it is casefolded: lines for the guest. These are always there.
const ALWAYS: [&str; 5] = [
    "v2-pad16 2 1 4 0x02 -",
    REFUSED,
    "v2-fold 2 1 4 0x02 fold",
    "v2-fold-adiantum-direct 2 9 9 0x04 fold",
    "clear - - - - -",
];
/// These take turns.
const CASES: [&str; 13] = [
    "v2-pad4 2 1 4 0x00 -",
    "v2-pad8 2 1 4 0x01 -",
    "v2-pad32 2 1 4 0x03 -",
    "v2-essiv 2 5 6 0x03 -",
    "v2-essiv-pad4 2 5 6 0x00 -",
    "v2-adiantum 2 9 9 0x03 -",
    "v2-adiantum-direct 2 9 9 0x07 -",
    "v2-lblk64 2 1 4 0x0b -",
    "v2-lblk32 2 1 4 0x13 -",
    "v1-xts 1 1 4 0x03 -",
    "v1-essiv 1 5 6 0x01 -",
    "v1-adiantum 1 9 9 0x03 -",
    "v1-adiantum-direct 1 9 9 0x06 -",
];
const SAMPLE: usize = 6;
/// Debian's kernel is built without HCTR2. Should it have it one day, this is to be said here.
const REFUSED: &str = "v2-hctr2 2 1 10 0x03 -";
/// Entries of a directory that the guest filled.
const ENTRIES: usize = 76;
/// And of the one that has more in whole campaigns: a large file, and a directory with a name of each length from 1 to 255.
const MORE: usize = 1 + 1 + 255;

fn text(share: &Path, name: &str) -> String {
    fs::read_to_string(share.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The path as [`Facts`] have it; none for the root.
fn inner(name: &str) -> Option<Vec<u8>> {
    name.strip_prefix("./").map(|name| name.as_bytes().to_vec())
}

/// What the guest told. Times have no fraction: its `stat` has none.
fn told(share: &Path, state: &str) -> Facts {
    let mut facts = Facts::new();
    for line in text(share, &format!("{state}.stat")).lines() {
        let fields: Vec<&str> = line.splitn(8, ' ').collect();
        let [mode, inode, size, uid, gid, links, modified, name] = fields[..] else { panic!("{line}") };
        let number = |field: &str| field.parse::<u64>().expect("a number");
        let Some(name) = inner(name) else { continue };
        let fact = Fact {
            mode: u32::from_str_radix(mode, 16).expect("a mode"),
            inode: number(inode),
            size: number(size),
            owner: (number(uid) as u32, number(gid) as u32),
            links: number(links),
            modified: (number(modified) as i64, 0),
            contents: None,
        };
        assert!(facts.insert(name, fact).is_none(), "{line}");
    }
    let mut contents = |name: &str, contents: Vec<u8>| {
        let name = inner(name).expect("a path below the root");
        let fact = facts.get_mut(&name).expect("an entry");
        assert!(fact.contents.replace(contents).is_none());
    };
    let links = text(share, &format!("{state}.links"));
    let mut links = links.lines();
    while let (Some(name), Some(target)) = (links.next(), links.next()) {
        contents(name, target.as_bytes().to_vec());
    }
    if state == "unlocked" {
        for line in text(share, "unlocked.sums").lines() {
            let (hash, name) = line.split_once("  ").expect("a hash and a name");
            let byte = |at| u8::from_str_radix(&hash[at..at + 2], 16).expect("hexadecimal");
            contents(name, (0..64).step_by(2).map(byte).collect());
        }
    }
    facts
}

/// What we read, of the same.
fn ours(tree: &dyn FileTree, unlocked: bool) -> Facts {
    let mut facts = of_image(tree, unlocked);
    facts.retain(|name, _| !name.starts_with(b"lost+found"));
    facts.values_mut().for_each(|fact| fact.modified.1 = 0);
    facts
}

/// In a casefolded directory a name is found by its other spellings, and in any other it is not.
fn other_spellings(tree: &dyn FileTree) {
    let inode = |path: &str| {
        let path = TreePath::parse(path.as_bytes()).expect("a path");
        tree.metadata(&path).map(|metadata| metadata.inode)
    };
    for (name, other) in [
        ("one byte", "ONE Byte"),
        ("\u{c4}\u{d6} Stra\u{df}e", "a\u{308}o\u{308} STRASSE"),
        ("Sub/deeper/nested file", "sUB/DEEPER/Nested File"),
    ] {
        for dir in ["v2-fold", "v2-fold-adiantum-direct"] {
            let found = inode(&format!("{dir}/{other}"));
            assert_eq!(found, inode(&format!("{dir}/{name}")), "{dir}/{other}");
            assert!(found.is_ok(), "{dir}/{other}: {found:?}");
        }
        assert!(inode(&format!("v2-pad16/{name}")).is_ok());
        assert!(inode(&format!("v2-pad16/{other}")).is_err(), "{other}");
    }
}

#[test]
fn what_debians_kernel_wrote_is_read_and_listed_without_keys_as_it_lists_it() {
    let work = Scratch::new();
    let (image, share) = (work.path("image"), work.path("share"));
    fs::create_dir(&share).expect("a directory");
    fs::File::create(&image).and_then(|file| file.set_len(192 << 20)).expect("room");
    // Whole campaigns have a large file, too.
    let large = if Campaign::is_full() { "v2-adiantum" } else { "-" };
    if Campaign::is_full() {
        let numbers = (0..16_u32 << 20).flat_map(u32::to_le_bytes);
        fs::write(share.join("large"), numbers.collect::<Vec<u8>>()).expect("room for 64 MiB");
    }
    let plain: Vec<u8> = (0..40_000_usize).map(|i| (i.wrapping_mul(31) ^ (i >> 8)) as u8).collect();
    let key = master_key(64);
    let mut cases = ALWAYS.to_vec();
    cases.extend(Campaign::matrix("policies of Debian's kernel", SAMPLE).chosen(&CASES));
    for (name, bytes) in
        [("plain", &plain), ("master.key", &key), ("cases", &(cases.join("\n") + "\n").into_bytes())]
    {
        fs::write(share.join(name), bytes).expect("room");
    }
    let said = Kernel::script("fscrypt-write.sh").disk(&image).share(&share).ok(large).text();
    assert_eq!(text(&share, "refused").lines().collect::<Vec<_>>(), ["v2-hctr2"], "{said}");
    let unlocked = told(&share, "unlocked");
    for case in cases.iter().filter(|case| **case != REFUSED) {
        let dir = format!("{}/", case.split(' ').next().expect("a name"));
        let entries = unlocked.keys().filter(|name| name.starts_with(dir.as_bytes())).count();
        let more = if dir.strip_suffix('/') == Some(large) { MORE } else { 0 };
        assert_eq!(entries, ENTRIES + more, "{dir}");
    }
    let tree = open(&image, keyring(&key, DESCRIPTOR));
    assert_same(&unlocked, &ours(&*tree, true), "unlocked");
    other_spellings(&*tree);
    let tree = open(&image, Keyring::new().into());
    assert_same(&told(&share, "locked"), &ours(&*tree, false), "locked");
    println!("{} entries in {} directories are as the kernel says", unlocked.len(), cases.len() - 1);
}
