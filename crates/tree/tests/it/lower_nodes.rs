//! Nodes of a lower tree that holds no descriptors: each is found by its name, and is nothing else than what it was.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use atrest_filetree::posix::{Change, Errno, New, Node, Rename};
use atrest_testkit::Scratch;

use crate::lower::{ROOT, contents, open, write};

const KINDS: [&str; 2] = ["as it is, by names", "names and contents, by names"];

/// Somebody else puts another file in its place.
#[test]
fn a_node_is_never_another_file_that_has_its_name() {
    let scratch = Scratch::new();
    let lower = scratch.directory("lower");
    let tree = open("as it is, by names", &lower, true);
    for name in ["file", "other"] {
        fs::write(lower.join(name), name).expect("room");
    }
    let node = tree.lookup(Node::ROOT, b"file").expect("it is there").node;
    assert_eq!(contents(&*tree, node), Ok(b"file".to_vec()));
    fs::rename(lower.join("other"), lower.join("file")).expect("it is there");
    let change = Change { mode: Some(0o600), ..Change::default() };
    assert_eq!(tree.attributes(node), Err(Errno::STALE));
    assert_eq!(tree.set_attributes(node, &change), Err(Errno::STALE));
    assert_eq!(tree.open(node, false).map(drop), Err(Errno::STALE));
    assert_eq!(tree.xattrs(node), Err(Errno::STALE));
    assert_eq!(tree.link(node, Node::ROOT, b"link"), Err(Errno::STALE));
    let now = tree.lookup(Node::ROOT, b"file").expect("another one").node;
    assert_ne!(now, node);
    assert_eq!(contents(&*tree, now), Ok(b"other".to_vec()));
    fs::remove_file(lower.join("file")).expect("it is there");
    assert_eq!(tree.attributes(now), Err(Errno::STALE));
    assert_eq!(tree.open(now, true).map(drop), Err(Errno::STALE));
}

/// Nor does a directory lead anywhere else once somebody has put a link in its place.
#[test]
fn a_link_in_place_of_a_directory_leads_nowhere() {
    let scratch = Scratch::new();
    let (lower, outside) = (scratch.directory("lower"), scratch.directory("outside"));
    fs::create_dir_all(lower.join("a/b")).expect("room");
    fs::write(lower.join("a/b/file"), b"inside").expect("room");
    fs::create_dir_all(outside.join("b")).expect("room");
    fs::write(outside.join("b/file"), b"outside").expect("room");
    let tree = open("as it is, by names", &lower, true);
    let a = tree.lookup(Node::ROOT, b"a").expect("it is there").node;
    let b = tree.lookup(a, b"b").expect("it is there").node;
    let file = tree.lookup(b, b"file").expect("it is there").node;
    fs::rename(lower.join("a"), scratch.path("a")).expect("it is there");
    for instead in [&outside, &scratch.path("a")] {
        symlink(instead, lower.join("a")).expect("room");
        for node in [a, b, file] {
            assert_eq!(tree.attributes(node), Err(Errno::STALE));
        }
        assert_eq!(tree.lookup(b, b"file"), Err(Errno::STALE));
        assert_eq!(tree.create(b, b"new", 0o600, ROOT).map(drop), Err(Errno::STALE));
        assert_eq!(tree.open_directory(a).map(drop), Err(Errno::STALE));
        assert_eq!(tree.remove(b, b"file", false), Err(Errno::STALE));
        fs::remove_file(lower.join("a")).expect("the link");
    }
    fs::rename(scratch.path("a"), lower.join("a")).expect("it is there");
    assert_eq!(contents(&*tree, file), Ok(b"inside".to_vec()));
    assert_eq!(fs::read_dir(outside.join("b")).expect("a directory").count(), 1);
}

/// What is asked about a node waits until its name is where it is said to be.
#[test]
fn a_node_is_found_while_its_name_and_those_above_it_change() {
    for kind in KINDS {
        let scratch = Scratch::new();
        let tree = &*open(kind, scratch.as_path(), true);
        let directory = |parent, name: &[u8]| {
            tree.make(parent, name, New::Directory { mode: 0o700 }, ROOT).expect("room").node
        };
        let (top, inner) = (directory(Node::ROOT, b"top"), directory(Node::ROOT, b"inner"));
        let file = write(tree, inner, b"file", b"contents");
        let ended = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        assert_eq!(tree.attributes(file).expect("it is known").metadata.size, 8, "{kind}");
                        assert_eq!(contents(tree, file), Ok(b"contents".to_vec()), "{kind}");
                    }
                });
            }
            for _ in 0..150 {
                let moves = [
                    ((Node::ROOT, b"inner"), (top, b"other")),
                    ((inner, b"file\0"), (Node::ROOT, b"again")),
                    ((top, b"other"), (Node::ROOT, b"inner")),
                    ((Node::ROOT, b"again"), (inner, b"file\0")),
                ];
                for ((from, name), (to, new)) in moves {
                    let named = |name: &'static [u8; 5]| name.strip_suffix(b"\0").unwrap_or(name);
                    tree.rename((from, named(name)), (to, named(new)), Rename::Replace).expect("it is there");
                }
            }
            ended.store(true, Ordering::Relaxed);
        });
    }
}

/// Two names, of which one goes: the node is found by the other one once that was seen, and meanwhile all the same.
#[test]
fn a_file_with_two_names_stays_when_one_of_them_goes() {
    for kind in KINDS {
        let scratch = Scratch::new();
        let tree = open(kind, scratch.as_path(), true);
        let node = write(&*tree, Node::ROOT, b"one", b"contents");
        assert_eq!(tree.link(node, Node::ROOT, b"two").map(|found| found.node), Ok(node));
        tree.remove(Node::ROOT, b"two", false).expect("it is there");
        assert_eq!(tree.attributes(node).expect("it is known").metadata.links, 1, "{kind}");
        assert_eq!(tree.lookup(Node::ROOT, b"one").map(|found| found.node), Ok(node), "{kind}");
        tree.link(node, Node::ROOT, b"three").expect("room");
        // Both are the same file: nothing changes.
        tree.rename((Node::ROOT, b"one"), (Node::ROOT, b"three"), Rename::Replace).expect("both are there");
        tree.remove(Node::ROOT, b"one", false).expect("it is still there");
        assert_eq!(contents(&*tree, node), Ok(b"contents".to_vec()), "{kind}");
        tree.remove(Node::ROOT, b"three", false).expect("it is there");
        assert_eq!(tree.attributes(node).expect("it is known").metadata.links, 0, "{kind}");
        assert_eq!(
            contents(&*tree, node),
            Ok(b"contents".to_vec()),
            "{kind}: it was open while it had a name"
        );
    }
}
