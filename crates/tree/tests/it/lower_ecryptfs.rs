//! What is eCryptfs' own about a lower directory: keys that are missing, files without a header, links, and sizes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};

use atrest_filetree::posix::{Errno, New, Node};
use atrest_secret::OsRandom;
use atrest_testkit::Scratch;
use atrest_tree::ecryptfs::{
    EcryptfsError, EncryptedFile, FileCipher, FileOptions, Keys, MetadataPlace, NameCipher,
};
use atrest_tree::lower::{EcryptfsLayer, FoundNames, LowerPosix, look_at};

use crate::lower::{Made, OTHERS, OURS, ROOT, contents, layer, lower_file, open, options, write};

fn names(keys: &Made) -> NameCipher {
    NameCipher::new(&keys.0, keys.1[1], FileCipher::Aes128, 16).expect("a key for names")
}

#[test]
fn a_key_that_is_not_there_is_missed_before_anything_is_made() {
    let new =
        |options: FileOptions, names| EcryptfsLayer::new(OURS.0.clone(), options, names, false).map(drop);
    new(options(&OURS, MetadataPlace::File), Some(OURS.1[1])).expect("both are there");
    for (options, names, missing) in [
        (options(&OTHERS, MetadataPlace::File), None, OTHERS.1[0]),
        (options(&OURS, MetadataPlace::File), Some(OTHERS.1[1]), OTHERS.1[1]),
    ] {
        match new(options, names) {
            Err(EcryptfsError::NoKey { wanted }) => assert_eq!(wanted, [missing]),
            other => panic!("{other:?}"),
        }
    }
    let scratch = Scratch::new();
    let other = LowerPosix::open(scratch.as_path(), layer(&OTHERS, MetadataPlace::File, false, false), true);
    let other = other.expect("a directory");
    write(&other, Node::ROOT, b"file", b"contents of others");
    drop(other);
    let target = names(&OTHERS).encode(b"a target").expect("short");
    symlink(OsStr::from_bytes(&target), scratch.path("link")).expect("room");
    let mut damaged = names(&OURS).encode(b"a target").expect("short");
    *damaged.last_mut().expect("long") ^= 1;
    damaged.truncate(damaged.len() - 4);
    symlink(OsStr::from_bytes(&damaged), scratch.path("broken")).expect("room");
    symlink("in/plain", scratch.path("plain")).expect("room");
    let tree = open("whatever is there", scratch.as_path(), true);
    let node = |name: &[u8]| tree.lookup(Node::ROOT, name).expect("it is shown").node;
    let file = node(b"file");
    assert_eq!(tree.open(file, false).map(drop), Err(Errno::NOKEY));
    assert_eq!(tree.open(file, true).map(drop), Err(Errno::NOKEY));
    // The header tells the size to everybody.
    assert_eq!(tree.attributes(file).expect("it is there").metadata.size, 18);
    assert_eq!(tree.read_link(node(b"link")), Err(Errno::NOKEY));
    assert_eq!(tree.read_link(node(b"broken")), Err(Errno::IO));
    assert_eq!(tree.read_link(node(b"plain")), Ok(b"in/plain".to_vec()));
    let size = |name: &[u8]| tree.attributes(node(name)).expect("it is there").metadata.size;
    assert_eq!(size(b"link"), target.len() as u64, "what the lower link has");
    assert_eq!(size(b"plain"), 8);
}

#[test]
fn targets_of_links_are_encrypted_as_long_as_they_fit() {
    let scratch = Scratch::new();
    let tree = open("names and contents", scratch.as_path(), true);
    let link = |name: &[u8], len| tree.make(Node::ROOT, name, New::Link { target: &vec![b't'; len] }, ROOT);
    let longest =
        (1..4095).rev().find(|len| names(&OURS).encode(&vec![b't'; *len]).expect("short").len() <= 4095);
    let longest = longest.expect("a length");
    let made = link(b"longest", longest).expect("it fits");
    assert_eq!(made.metadata.size, longest as u64);
    assert_eq!(tree.read_link(made.node), Ok(vec![b't'; longest]));
    assert!(
        fs::read_link(lower_file(scratch.as_path()))
            .expect("a link")
            .as_os_str()
            .as_bytes()
            .starts_with(b"ECRYPTFS")
    );
    assert_eq!(link(b"longer", longest + 1), Err(Errno::NAMETOOLONG));
    assert_eq!(link(b"far longer", 9000), Err(Errno::NAMETOOLONG));
}

#[test]
fn a_file_without_a_header_is_plain_empty_or_refused() {
    let scratch = Scratch::new();
    let lower = scratch.as_path();
    scratch.file("plain", b"not encrypted");
    for (kind, readable) in [("whatever is there", true), ("contents", false)] {
        for writable in [false, true] {
            let tree = open(kind, lower, writable);
            let node = tree.lookup(Node::ROOT, b"plain").expect("it is shown").node;
            let read = contents(&*tree, node);
            let expected = if readable { Ok(b"not encrypted".to_vec()) } else { Err(Errno::IO) };
            assert_eq!(read, expected, "{kind}, {writable}");
        }
    }
    let tree = open("whatever is there", lower, true);
    let node = tree.lookup(Node::ROOT, b"plain").expect("it is shown").node;
    let opened = tree.open(node, true).expect("as it is");
    opened.file.write_at(0, b"NOT").and_then(|()| opened.file.sync(true)).expect("room");
    opened.file.allocate(0, 0, 20).expect("room");
    assert_eq!(tree.attributes(node).expect("there").metadata.size, 20);
    drop((opened, tree));
    assert_eq!(scratch.read("plain"), b"NOT encrypted\0\0\0\0\0\0\0");
    fs::remove_file(lower.join("plain")).expect("there");

    // Made, and then nothing was written: a header, unless it is to stay as it is, or can't be written.
    scratch.file("empty", b"");
    let tree = open("contents", lower, false);
    let node = tree.lookup(Node::ROOT, b"empty").expect("it is shown").node;
    assert_eq!(tree.attributes(node).expect("there").metadata.size, 0);
    let opened = tree.open(node, false).expect("to be read");
    assert_eq!(opened.file.read_at(0, &mut [0; 9]), Ok(0));
    assert_eq!(opened.file.write_at(0, b"x"), Err(Errno::ROFS));
    assert_eq!(opened.file.allocate(0, 0, 9), Err(Errno::ROFS));
    opened.file.sync(false).expect("nothing to do");
    drop((opened, tree));
    let tree = open("whatever is there", lower, true);
    let node = tree.lookup(Node::ROOT, b"empty").expect("it is shown").node;
    tree.open(node, true).expect("as it is").file.write_at(0, b"plain").expect("room");
    drop(tree);
    assert_eq!(scratch.read("empty"), b"plain");
    scratch.file("empty", b"");
    let tree = open("contents", lower, true);
    let node = tree.lookup(Node::ROOT, b"empty").expect("it is shown").node;
    tree.open(node, true).expect("it is given a header").file.write_at(0, b"secret").expect("room");
    assert_eq!(contents(&*tree, node), Ok(b"secret".to_vec()));
    let file = fs::File::open(lower.join("empty")).expect("a lower file");
    assert_eq!(EncryptedFile::header(&file).expect("a header").0.size, 6);
}

/// A header that is not ours to keep in mind: it is looked at again as soon as the lower file has another time.
#[test]
fn a_size_is_looked_at_again_when_the_lower_file_has_changed() {
    let scratch = Scratch::new();
    let tree = open("contents", scratch.as_path(), true);
    let node = write(&*tree, Node::ROOT, b"file", &[1; 3000]);
    let size = || tree.attributes(node).expect("it is there").metadata.size;
    assert_eq!((size(), size()), (3000, 3000));
    let lower = fs::File::options().read(true).write(true).open(scratch.path("file")).expect("a lower file");
    for (size_now, seconds) in [(2000_u64, 1), (1000, 2)] {
        lower.write_all_at(&size_now.to_be_bytes(), 0).expect("room");
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        lower.set_modified(time).expect("ours");
        assert_eq!((size(), size()), (size_now, size_now));
    }
    let handle = tree.open(node, true).expect("ours");
    handle.file.write_at(0, &[2; 9000]).expect("room");
    assert_eq!(size(), 9000);
    drop(handle);
    assert_eq!(size(), 9000);
}

#[test]
fn a_directory_is_looked_at_before_it_is_mounted() {
    let look = |scratch: &Scratch, keys: &Keys| look_at(scratch.as_path(), keys);
    let scratch = Scratch::new();
    assert_eq!(look(&scratch, &OURS.0).expect("a directory"), FoundNames::None);
    scratch.file("plain", b"plain");
    assert_eq!(look(&scratch, &OURS.0).expect("a directory"), FoundNames::Plain);
    let name = names(&OURS).encode(b"name").expect("short");
    scratch.directory(OsStr::from_bytes(&name));
    assert_eq!(look(&scratch, &OURS.0).expect("a directory"), FoundNames::Encrypted);
    match look(&scratch, &OTHERS.0) {
        Err(EcryptfsError::NoKey { wanted }) => assert_eq!(wanted, [OURS.1[1]]),
        other => panic!("{other:?}"),
    }
    // Names in plain, contents of others: one file tells, wherever it lies among the first.
    let scratch = Scratch::new();
    let make = |name: &str, keys: &Made| {
        let file = fs::File::options().read(true).write(true).create_new(true).open(scratch.path(name));
        let options = options(keys, MetadataPlace::File);
        EncryptedFile::create(file.expect("a new file"), &keys.0, &options, &mut OsRandom).expect("made");
    };
    (0..15).for_each(|i| make(&format!("ours-{i}"), &OURS));
    assert_eq!(look(&scratch, &OURS.0).expect("a directory"), FoundNames::Plain);
    make("theirs", &OTHERS);
    match look(&scratch, &OURS.0) {
        Err(EcryptfsError::NoKey { wanted }) => assert_eq!(wanted, [OTHERS.1[0]]),
        other => panic!("{other:?}"),
    }
    assert!(matches!(look_at(&scratch.path("missing"), &OURS.0), Err(EcryptfsError::Io(_))));
}
