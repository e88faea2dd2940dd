//! Directories of a lower tree read in portions, as `readdir`, `telldir`, `seekdir` and `rewinddir` have it in POSIX.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use atrest_filetree::Cursor;
use atrest_filetree::posix::{EntrySink, Errno, Look, New, Node, PosixDirectory, PosixEntry, PosixTree};
use atrest_testkit::{Random, Scratch};

use crate::lower::{ROOT, open, write};

/// Through all that names and sizes go through.
const KINDS: [&str; 3] = ["as it is", "names and contents", "headers in attributes"];

/// Takes as many entries as it has room for.
struct Room {
    left: usize,
    taken: Vec<PosixEntry>,
}

impl EntrySink for Room {
    fn has_room(&self, _: &[u8]) -> bool {
        self.left > 0
    }

    fn take(&mut self, entry: &PosixEntry) -> ControlFlow<()> {
        assert!(self.left > 0, "it said that there is no room");
        self.left -= 1;
        self.taken.push(entry.clone());
        ControlFlow::Continue(())
    }
}

fn some(directory: &dyn PosixDirectory, from: Cursor, most: usize, look: Look) -> Vec<PosixEntry> {
    let mut room = Room { left: most, taken: Vec::new() };
    directory.read(from, look, &mut room).expect("readable");
    room.taken
}

fn whole(directory: &dyn PosixDirectory, portion: usize) -> Vec<PosixEntry> {
    let (mut all, mut from) = (Vec::new(), Cursor::START);
    loop {
        let more = some(directory, from, portion, Look::Names);
        let Some(last) = more.last() else { return all };
        from = last.next;
        all.extend(more);
    }
}

fn name(number: usize) -> String {
    format!("a file of number {number:05}")
}

fn with_files(tree: &dyn PosixTree, count: usize) {
    for number in 0..count {
        let node = write(tree, Node::ROOT, name(number).as_bytes(), &vec![0; number % 7]);
        tree.forget(node, 1);
    }
}

/// `ls -f` of coreutils shows a directory in the order in which the system gives it.
#[test]
fn a_directory_is_read_in_the_order_of_the_lower_one_however_small_the_portions() {
    let scratch = Scratch::new();
    let lower = scratch.directory("lower");
    for number in 0..1500 {
        fs::write(lower.join(name(number)), b"").expect("room");
    }
    let listed = scratch.tool("ls").args(["-f", "lower"]).ok().text();
    let expected: Vec<&str> = listed.lines().collect();
    assert_eq!(expected.len(), 1502);
    let tree = open("as it is", &lower, false);
    let directory = tree.open_directory(Node::ROOT).expect("a directory");
    for portion in [1, 7, 1000, usize::MAX] {
        let names = whole(&*directory, portion).into_iter().map(|entry| entry.name);
        assert!(names.eq(expected.iter().map(|name| name.as_bytes().to_vec())), "{portion}");
    }
}

#[test]
fn what_is_there_all_the_time_is_listed_once_whatever_is_added_and_removed_meanwhile() {
    for kind in KINDS {
        let scratch = Scratch::new();
        let tree = open(kind, scratch.as_path(), true);
        with_files(&*tree, 800);
        let directory = tree.open_directory(Node::ROOT).expect("a directory");
        let mut random = Random::new(11);
        let (mut seen, mut from) = (BTreeMap::new(), Cursor::START);
        // Those of even numbers stay.
        let (mut odd, mut new) = ((0..400).map(|i| 2 * i + 1).collect::<Vec<usize>>(), 0);
        loop {
            let more = some(&*directory, from, 1 + random.below(60) as usize, Look::Names);
            let Some(last) = more.last() else { break };
            from = last.next;
            for entry in more {
                *seen.entry(entry.name).or_insert(0) += 1;
            }
            for _ in 0..8 {
                if let Some(last) = odd.len().checked_sub(1) {
                    let gone = odd.swap_remove(random.below(last as u64 + 1) as usize);
                    tree.remove(Node::ROOT, name(gone).as_bytes(), false).expect("it is there");
                }
                tree.forget(write(&*tree, Node::ROOT, format!("new {new}").as_bytes(), b"x"), 1);
                new += 1;
            }
        }
        assert!(seen.values().all(|times| *times == 1), "{kind}");
        for number in (0..800).step_by(2) {
            assert!(seen.contains_key(name(number).as_bytes()), "{kind}: {number}");
        }
        // From the start it is read anew.
        let now: BTreeSet<Vec<u8>> = whole(&*directory, 100).into_iter().map(|entry| entry.name).collect();
        let left = (0..800).step_by(2).chain(odd).map(|number| name(number).into_bytes());
        let new = (0..new).map(|number| format!("new {number}").into_bytes());
        let dots = [b".".to_vec(), b"..".to_vec()];
        assert_eq!(now, left.chain(new).chain(dots).collect(), "{kind}");
    }
}

#[test]
fn a_listing_goes_on_from_any_place_that_it_came_by() {
    for kind in KINDS {
        let scratch = Scratch::new();
        let tree = open(kind, scratch.as_path(), true);
        with_files(&*tree, 600);
        let directory = tree.open_directory(Node::ROOT).expect("a directory");
        let all = whole(&*directory, 50);
        for at in [0, 1, 2, 49, 50, 300, 601, 5, 599] {
            let rest = some(&*directory, all[at].next, usize::MAX, Look::Names);
            assert_eq!(rest, all[at + 1..], "{kind}: {at}");
            let next = some(&*directory, all[at].next, 1, Look::Names);
            assert_eq!(next, all[at + 1..][..next.len()], "{kind}: {at}");
        }
    }
}

#[test]
fn attributes_in_a_listing_are_those_that_a_look_up_gives_and_count_as_one() {
    for kind in KINDS {
        let scratch = Scratch::new();
        let lower = scratch.directory("lower");
        let tree = open(kind, &lower, true);
        with_files(&*tree, 100);
        for (name, new) in [
            (&b"directory"[..], New::Directory { mode: 0o750 }),
            (b"link", New::Link { target: b"where/it/leads" }),
            (b"pipe", New::Node { mode: 0o010_604, device: 0 }),
        ] {
            tree.make(Node::ROOT, name, new, ROOT).expect("room");
        }
        fs::write(lower.join("plain"), b"put there by somebody else").expect("room");
        // Nothing is known of what is there.
        drop(tree);
        let tree = open(kind, &lower, true);
        let directory = tree.open_directory(Node::ROOT).expect("a directory");
        let all = some(&*directory, Cursor::START, usize::MAX, Look::Attributes);
        assert_eq!(all.len(), 106, "{kind}");
        for entry in &all {
            let Some(found) = &entry.attributes else {
                assert!(matches!(&entry.name[..], b"." | b".."), "{kind}: {entry:?}");
                continue;
            };
            assert_eq!(found.node, entry.node);
            assert_eq!(entry.kind, Some(found.metadata.kind));
            let mut looked_up = tree.lookup(Node::ROOT, &entry.name).expect("it is there");
            looked_up.metadata.accessed = found.metadata.accessed;
            assert_eq!(*found, looked_up, "{kind}: {:?}", entry.name);
            tree.forget(entry.node, 1);
            tree.attributes(entry.node).expect("one of two references is left");
            tree.forget(entry.node, 1);
            assert_eq!(tree.attributes(entry.node), Err(Errno::STALE), "{kind}: {:?}", entry.name);
        }
    }
}

#[test]
fn an_entry_that_was_not_taken_is_no_reference() {
    let scratch = Scratch::new();
    let tree = open("names and contents", scratch.as_path(), true);
    with_files(&*tree, 3);
    let directory = tree.open_directory(Node::ROOT).expect("a directory");
    let mut refused = None;
    let mut sink = |entry: &PosixEntry| match entry.attributes {
        None => ControlFlow::Continue(()),
        Some(_) => {
            refused = Some(entry.clone());
            ControlFlow::Break(())
        }
    };
    directory.read(Cursor::START, Look::Attributes, &mut sink).expect("readable");
    let refused = refused.expect("there are files");
    assert_eq!(tree.attributes(refused.node), Err(Errno::STALE));
    // The next one that is taken from there is the same.
    let all = whole(&*directory, 1);
    let at = all.iter().position(|entry| entry.name == refused.name).expect("it is there");
    let from = at.checked_sub(1).map_or(Cursor::START, |before| all[before].next);
    let next = some(&*directory, from, 1, Look::Attributes);
    assert_eq!((&next[0].name, next[0].node), (&refused.name, refused.node));
    // Where there is no room, nobody looks.
    let node = next[0].node;
    tree.forget(node, 1);
    assert_eq!(some(&*directory, from, 0, Look::Attributes), []);
    assert_eq!(tree.attributes(node), Err(Errno::STALE));
}

/// Between the reading of names and a look at what they stand for anybody may change something.
#[test]
fn what_goes_while_it_is_listed_is_listed_without_attributes() {
    let scratch = Scratch::new();
    let lower = scratch.directory("lower");
    let remove = |name: &str| fs::remove_file(Path::new(&lower).join(name)).expect("it is there");
    for name in ["a", "b", "c"] {
        fs::write(lower.join(name), b"").expect("room");
    }
    let tree = open("as it is", &lower, false);
    let directory = tree.open_directory(Node::ROOT).expect("a directory");
    let first = some(&*directory, Cursor::START, 3, Look::Names);
    let left: Vec<&str> =
        ["a", "b", "c"].into_iter().filter(|name| name.as_bytes() != first[2].name).collect();
    remove(left[0]);
    let rest = some(&*directory, first[2].next, usize::MAX, Look::Attributes);
    for entry in rest {
        assert_eq!(entry.attributes.is_some(), entry.name == left[1].as_bytes(), "{entry:?}");
    }
    for dots in &whole(&*directory, 1)[..] {
        assert_eq!(dots.node == Node::ROOT, dots.name.starts_with(b"."), "{dots:?}");
    }
    // The directory stays open without its node's being known.
    tree.forget(Node::ROOT, 1);
    assert_eq!(whole(&*directory, 1).len(), 4);
}

/// Also where nothing was taken of what was read.
#[test]
fn from_the_start_a_directory_is_read_anew() {
    let scratch = Scratch::new();
    let tree = open("as it is", scratch.as_path(), true);
    let directory = tree.open_directory(Node::ROOT).expect("a directory");
    assert_eq!(some(&*directory, Cursor::START, 0, Look::Names), []);
    write(&*tree, Node::ROOT, b"new", b"");
    assert!(some(&*directory, Cursor::START, 3, Look::Names).iter().any(|entry| entry.name == b"new"));
}

#[test]
fn nothing_is_in_a_directory_that_was_removed_while_it_was_open() {
    for kind in KINDS {
        let scratch = Scratch::new();
        let tree = open(kind, scratch.as_path(), true);
        let node =
            tree.make(Node::ROOT, b"directory", New::Directory { mode: 0o700 }, ROOT).expect("room").node;
        let directory = tree.open_directory(node).expect("a directory");
        tree.remove(Node::ROOT, b"directory", true).expect("it is empty");
        assert_eq!(directory.entries().expect("it lists"), [], "{kind}");
        let again = tree.open_directory(node).expect("it is known");
        assert_eq!(some(&*again, Cursor::START, 10, Look::Attributes), [], "{kind}");
    }
}
