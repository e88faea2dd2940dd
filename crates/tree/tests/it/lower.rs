//! Lower directories with POSIX behaviour, asked as a mount would ask them: as they are, and through eCryptfs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use atrest_filetree::posix::{
    Attributes, Change, Errno, New, NewTime, Node, Outcome, Owner, PosixEntry, PosixTree, Rename, SetXattr,
};
use atrest_filetree::{Cursor, Kind, Timestamp};
use atrest_secret::Passphrase;
use atrest_testkit::{Scratch, needs};
use atrest_tree::ecryptfs::{FileCipher, FileOptions, Keys, MetadataPlace, NameCipher, Signature};
use atrest_tree::lower::{EcryptfsLayer, Identity, LowerError, LowerPosix};

pub const ROOT: Owner = Owner { uid: 0, gid: 0 };

/// Keys of a tree, and the signatures for contents and for names.
pub struct Made(pub Keys, pub [Signature; 2]);

pub fn made(passphrase: &[u8]) -> Made {
    let mut keys = Keys::new();
    let signatures = keys.add_passphrase(&Passphrase::copy_from(passphrase)).expect("a passphrase");
    Made(keys, signatures)
}

pub static OURS: LazyLock<Made> = LazyLock::new(|| made(b"correct horse"));
pub static OTHERS: LazyLock<Made> = LazyLock::new(|| made(b"battery staple"));

pub fn options(keys: &Made, place: MetadataPlace) -> FileOptions {
    let signatures = vec![keys.1[0]];
    FileOptions { cipher: FileCipher::Aes128, key_len: 16, signatures, place, encrypted_names: false }
}

pub fn layer(keys: &Made, place: MetadataPlace, names: bool, passthrough: bool) -> EcryptfsLayer {
    let names = names.then_some(keys.1[1]);
    EcryptfsLayer::new(keys.0.clone(), options(keys, place), names, passthrough).expect("the keys are there")
}

/// What stands between tree and directory.
const KINDS: [&str; 4] = ["as it is", "names and contents", "contents", "headers in attributes"];

pub fn open(kind: &str, lower: &Path, writable: bool) -> Box<dyn PosixTree> {
    // What else is held of a node is its name.
    let few = |layer| LowerPosix::open_holding(lower, layer, writable, 1).expect("a directory that is free");
    let through = |layer| -> Box<dyn PosixTree> {
        Box::new(LowerPosix::open(lower, layer, writable).expect("a directory that is free"))
    };
    match kind {
        "as it is" => {
            Box::new(LowerPosix::open(lower, Identity, writable).expect("a directory that is free"))
        }
        "names and contents" => through(layer(&OURS, MetadataPlace::File, true, false)),
        "as it is, by names" => Box::new(
            LowerPosix::open_holding(lower, Identity, writable, 0).expect("a directory that is free"),
        ),
        "names and contents, by names" => Box::new(few(layer(&OURS, MetadataPlace::File, true, false))),
        "contents" => through(layer(&OURS, MetadataPlace::File, false, false)),
        "headers in attributes" => through(layer(&OURS, MetadataPlace::Xattr, true, false)),
        "whatever is there" => through(layer(&OURS, MetadataPlace::File, true, true)),
        other => panic!("{other}"),
    }
}

/// A writable tree of each kind in turn, over a directory of its own.
fn each(check: impl Fn(&str, &dyn PosixTree, &Path)) {
    for kind in KINDS {
        let scratch = Scratch::new();
        check(kind, &*open(kind, scratch.as_path(), true), scratch.as_path());
    }
}

/// Makes a file that holds these bytes.
pub fn write(tree: &dyn PosixTree, parent: Node, name: &[u8], bytes: &[u8]) -> Node {
    let (attributes, opened) = tree.create(parent, name, 0o644, ROOT).expect("a new file");
    opened.file.write_at(0, bytes).expect("room");
    attributes.node
}

pub fn contents(tree: &dyn PosixTree, node: Node) -> Outcome<Vec<u8>> {
    let mut bytes = vec![0; 1 << 20];
    let len = tree.open(node, false)?.file.read_at(0, &mut bytes)?;
    bytes.truncate(len);
    Ok(bytes)
}

fn listed(tree: &dyn PosixTree, node: Node) -> Vec<PosixEntry> {
    let mut entries = tree.open_directory(node).and_then(|directory| directory.entries()).expect("readable");
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

fn directory(tree: &dyn PosixTree, name: &[u8], mode: u32) -> Node {
    tree.make(Node::ROOT, name, New::Directory { mode }, ROOT).expect("a new directory").node
}

/// All but the time of the last access, which changes when it is looked for.
fn but_access(mut attributes: Attributes) -> Attributes {
    attributes.metadata.accessed = Timestamp::default();
    attributes
}

fn size(tree: &dyn PosixTree, node: Node) -> u64 {
    tree.attributes(node).expect("it is there").metadata.size
}

#[test]
fn what_is_made_is_shown_as_it_was_asked_for() {
    needs::root("making device nodes");
    each(|kind, tree, _| {
        assert!(tree.is_writable(), "{kind}");
        let device = |mode, device| New::Node { mode, device };
        let news = [
            (&b"block"[..], device(0o060_640, 0x701), Kind::BlockDevice),
            (b"character", device(0o020_666, 0x103), Kind::CharDevice),
            (b"directory", New::Directory { mode: 0o750 }, Kind::Directory),
            (b"link", New::Link { target: b"where/it/leads" }, Kind::Link),
            (b"pipe", device(0o010_604, 0), Kind::Pipe),
            (b"regular", device(0o100_600, 0), Kind::File),
            (b"socket", device(0o140_777, 0), Kind::Socket),
            (b"untyped", device(0o666, 0), Kind::File),
        ];
        let mut made: Vec<Attributes> = Vec::new();
        for (name, new, wanted) in news {
            let attributes = tree.make(Node::ROOT, name, new, ROOT).unwrap_or_else(|e| panic!("{kind}: {e}"));
            assert_eq!(attributes.metadata.kind, wanted, "{kind}");
            // Whatever mask the process has.
            match new {
                New::Directory { mode } | New::Node { mode, .. } => {
                    assert_eq!(u32::from(attributes.metadata.mode), mode & 0o7777, "{kind}: {wanted:?}");
                }
                New::Link { target } => assert_eq!(attributes.metadata.size, target.len() as u64, "{kind}"),
            }
            if let New::Node { device, .. } = new {
                assert_eq!(attributes.device, u64::from(device), "{kind}: {wanted:?}");
            }
            assert_eq!(attributes.metadata.inode, attributes.node.0);
            let found = tree.lookup(Node::ROOT, name).map(but_access);
            assert_eq!(found, Ok(but_access(attributes.clone())), "{kind}");
            assert_eq!(tree.make(Node::ROOT, name, new, ROOT), Err(Errno::EXIST), "{kind}");
            made.push(attributes);
        }
        let shown = news.iter().zip(&made).map(|((name, _, wanted), attributes)| PosixEntry {
            name: name.to_vec(),
            kind: Some(*wanted),
            node: attributes.node,
            attributes: None,
            next: Cursor::START,
        });
        let listed =
            listed(tree, Node::ROOT).into_iter().map(|entry| PosixEntry { next: Cursor::START, ..entry });
        assert_eq!(listed.collect::<Vec<_>>(), shown.collect::<Vec<_>>(), "{kind}");
        assert_eq!(tree.read_link(made[3].node).expect("a link"), b"where/it/leads");
        assert!(tree.read_link(made[5].node).is_err(), "{kind}: no link");
        assert_eq!(tree.open(made[4].node, false).map(drop), Err(Errno::INVAL), "{kind}: a pipe");
        assert_eq!(tree.open_directory(made[5].node).map(drop), Err(Errno::NOTDIR), "{kind}");
        assert_eq!(tree.lookup(Node::ROOT, b"nothing"), Err(Errno::NOENT), "{kind}");
        tree.open_directory(Node::ROOT).expect("the top").sync().expect("a directory");
        tree.flush().expect("a filesystem");
    });
}

#[test]
fn a_file_reads_as_it_was_written_and_outlives_its_names() {
    each(|kind, tree, lower| {
        let (made, opened) = tree.create(Node::ROOT, b"file", 0o640, ROOT).expect("a new file");
        assert!(!opened.unchanged, "{kind}");
        assert_eq!((made.metadata.kind, made.metadata.size, made.metadata.mode), (Kind::File, 0, 0o640));
        assert_eq!(tree.create(Node::ROOT, b"file", 0o640, ROOT).map(drop), Err(Errno::EXIST), "{kind}");
        opened.file.write_at(0, b"plain to see").expect("room");
        opened.file.write_at(5000, b"behind a gap").expect("room");
        assert_eq!(size(tree, made.node), 5012, "{kind}: while it is open");
        let second = tree.open(made.node, false).expect("a second handle");
        assert!(second.unchanged, "{kind}: one system has both");
        let mut part = [9; 20];
        assert_eq!(second.file.read_at(4998, &mut part), Ok(14), "{kind}");
        assert_eq!(&part[..14], b"\0\0behind a gap", "{kind}");
        assert_eq!(second.file.read_at(5012, &mut part), Ok(0), "{kind}");
        second.file.sync(false).and_then(|()| second.file.sync(true)).expect("durable");
        let below = fs::read(lower_file(lower)).expect("a lower file");
        assert_eq!(below.starts_with(b"plain to see"), kind == "as it is", "{kind}");
        assert_eq!(below.windows(8).any(|window| window == b"plain to"), kind == "as it is", "{kind}");
        let stat = fs::metadata(lower_file(lower)).expect("a lower file");
        let shown = tree.attributes(made.node).expect("it is there").metadata;
        assert_eq!((shown.inode, shown.allocated), (stat.ino(), stat.blocks() * 512), "{kind}");
        let times = (stat.mtime(), stat.atime(), stat.ctime());
        assert_eq!((shown.modified.seconds, shown.accessed.seconds, shown.changed.seconds), times, "{kind}");
        assert_eq!(i64::from(shown.modified.nanoseconds), stat.mtime_nsec(), "{kind}");
        tree.remove(Node::ROOT, b"file", false).expect("it has the name");
        assert_eq!(tree.lookup(Node::ROOT, b"file"), Err(Errno::NOENT), "{kind}");
        assert_eq!(tree.attributes(made.node).expect("it is open").metadata.links, 0, "{kind}");
        assert_eq!(second.file.read_at(0, &mut part[..12]), Ok(12), "{kind}");
        assert_eq!(&part[..12], b"plain to see", "{kind}");
        assert_eq!(listed(tree, Node::ROOT), [], "{kind}");
    });
}

/// The only file of a directory.
pub fn lower_file(lower: &Path) -> PathBuf {
    let mut entries = fs::read_dir(lower).expect("a directory").map(|entry| entry.expect("an entry").path());
    let file = entries.next().expect("a file");
    assert_eq!(entries.next(), None);
    file
}

#[test]
fn names_that_no_directory_has_are_refused() {
    each(|kind, tree, _| {
        let long = vec![b'n'; 800];
        write(tree, Node::ROOT, b"x", b"");
        for (name, error) in [
            (&b""[..], Errno::INVAL),
            (b".", Errno::INVAL),
            (b"..", Errno::INVAL),
            (b"a/b", Errno::INVAL),
            (b"a\0b", Errno::INVAL),
            (&long[..200], Errno::NOENT),
            (&long[..256], Errno::NAMETOOLONG),
            (&long, Errno::NAMETOOLONG),
        ] {
            // The longest name is shorter where it is encrypted.
            let encrypts = !matches!(kind, "as it is" | "contents");
            let error = if name.len() == 200 && encrypts { Errno::NAMETOOLONG } else { error };
            assert_eq!(tree.lookup(Node::ROOT, name), Err(error), "{kind}: {}", name.len());
            assert_eq!(tree.remove(Node::ROOT, name, false), Err(error), "{kind}: {}", name.len());
            if error != Errno::NOENT {
                let made = tree.make(Node::ROOT, name, New::Directory { mode: 0o700 }, ROOT);
                assert_eq!(made, Err(error), "{kind}: {}", name.len());
                let renamed = tree.rename((Node::ROOT, b"x"), (Node::ROOT, name), Rename::Replace);
                assert_eq!(renamed, Err(error), "{kind}: {}", name.len());
                let created = tree.create(Node::ROOT, name, 0o600, ROOT).map(drop);
                assert_eq!(created, Err(error), "{kind}: {}", name.len());
            }
        }
        let longest = tree.space().expect("a filesystem").name_len as usize;
        assert_eq!(longest, if matches!(kind, "as it is" | "contents") { 255 } else { 143 }, "{kind}");
        write(tree, Node::ROOT, &long[..longest], b"");
        let over = tree.create(Node::ROOT, &long[..=longest], 0o600, ROOT).map(drop);
        assert_eq!(over, Err(Errno::NAMETOOLONG), "{kind}");
    });
}

#[test]
fn names_are_removed_linked_and_moved_as_posix_has_it() {
    each(|kind, tree, _| {
        let inner = directory(tree, b"directory", 0o755);
        let one = write(tree, inner, b"one", b"1");
        let two = write(tree, Node::ROOT, b"two", b"22");
        assert_eq!(tree.remove(Node::ROOT, b"directory", false), Err(Errno::ISDIR), "{kind}");
        assert_eq!(tree.remove(Node::ROOT, b"directory", true), Err(Errno::NOTEMPTY), "{kind}");
        assert_eq!(tree.remove(Node::ROOT, b"two", true), Err(Errno::NOTDIR), "{kind}");
        // Two names, one file.
        let linked = tree.link(one, Node::ROOT, b"one again").expect("a link");
        assert_eq!((linked.node, linked.metadata.links), (one, 2), "{kind}");
        let link = tree.make(Node::ROOT, b"link", New::Link { target: b"nowhere" }, ROOT).expect("a link");
        let linked = tree.link(link.node, inner, b"link again").expect("a link to a link");
        assert_eq!((linked.node, linked.metadata.kind), (link.node, Kind::Link), "{kind}");
        // A name that is taken, in each of the ways.
        let place = |name| (Node::ROOT, name);
        let found = |name| tree.lookup(Node::ROOT, name).map(|found| found.node);
        let kept = tree.rename((inner, b"one"), place(&b"two"[..]), Rename::NoReplace);
        assert_eq!((kept, found(b"two")), (Err(Errno::EXIST), Ok(two)), "{kind}");
        tree.rename((inner, b"one"), place(&b"two"[..]), Rename::Exchange).expect("both are there");
        assert_eq!(found(b"two"), Ok(one), "{kind}");
        assert_eq!(tree.lookup(inner, b"one").map(|found| found.node), Ok(two), "{kind}");
        tree.rename((inner, b"one"), place(&b"three"[..]), Rename::NoReplace).expect("it is free");
        tree.rename(place(&b"three"[..]), place(&b"two"[..]), Rename::Replace).expect("it goes");
        assert_eq!((found(b"two"), found(b"three")), (Ok(two), Err(Errno::NOENT)), "{kind}");
        assert_eq!(tree.attributes(one).expect("it is known").metadata.links, 1, "{kind}");
        assert_eq!(contents(tree, two), Ok(b"22".to_vec()), "{kind}");
        tree.remove(inner, b"link again", false).expect("it is there");
        tree.remove(Node::ROOT, b"directory", true).expect("it is empty");
        assert_eq!(found(b"directory"), Err(Errno::NOENT), "{kind}");
    });
}

#[test]
fn attributes_that_are_set_are_set_and_the_others_stay() {
    needs::root("giving files away");
    each(|kind, tree, _| {
        let node = write(tree, Node::ROOT, b"file", &[7; 9000]);
        // So that nobody reads the header meanwhile, which is an access.
        let _open = tree.open(node, false).expect("ours");
        let at = |seconds| Timestamp { seconds, nanoseconds: 123_456_789 };
        let set = |change: &Change| tree.set_attributes(node, change).expect("ours").metadata;
        let times = |metadata: &atrest_filetree::Metadata| (metadata.accessed, metadata.modified);
        let both = Change {
            accessed: Some(NewTime::At(at(1_000_000))),
            modified: Some(NewTime::At(at(-5))),
            ..Change::default()
        };
        assert_eq!(times(&set(&both)), (at(1_000_000), at(-5)), "{kind}");
        let one = set(&Change { modified: Some(NewTime::At(at(77))), ..Change::default() });
        assert_eq!(times(&one), (at(1_000_000), at(77)), "{kind}");
        let other = set(&Change { accessed: Some(NewTime::At(at(88))), ..Change::default() });
        assert_eq!(times(&other), (at(88), at(77)), "{kind}");
        let now = set(&Change { accessed: Some(NewTime::Now), ..Change::default() });
        assert!(now.accessed.seconds > 1_700_000_000 && now.modified == at(77), "{kind}: {now:?}");
        let mode = set(&Change { mode: Some(0o104_751), ..Change::default() });
        assert_eq!((mode.mode, mode.uid, mode.size), (0o4751, 0, 9000), "{kind}");
        let group = set(&Change { gid: Some(70_000), ..Change::default() });
        assert_eq!((group.uid, group.gid), (0, 70_000), "{kind}");
        let user = set(&Change { uid: Some(1000), ..Change::default() });
        assert_eq!((user.uid, user.gid), (1000, 70_000), "{kind}");
        let cut = set(&Change { size: Some(100), ..Change::default() });
        assert_eq!(cut.size, 100, "{kind}");
        let grown = set(&Change { size: Some(5000), ..Change::default() });
        assert_eq!(grown.size, 5000, "{kind}");
        let mut expected = vec![7; 100];
        expected.resize(5000, 0);
        assert_eq!(contents(tree, node), Ok(expected), "{kind}");
        let top = directory(tree, b"directory", 0o755);
        let sized = tree.set_attributes(top, &Change { size: Some(0), ..Change::default() });
        assert_eq!(sized, Err(Errno::INVAL), "{kind}: a directory");
    });
}

#[test]
fn what_is_new_belongs_to_whoever_made_it_or_to_the_group_of_its_directory() {
    needs::root("giving files away");
    each(|kind, tree, lower| {
        let (owner, mode) = (Owner { uid: 1000, gid: 1001 }, 0o640);
        let owned = |made: &Attributes| (made.metadata.uid, made.metadata.gid, made.metadata.mode);
        let make = |parent, name: &[u8], new| tree.make(parent, name, new, owner).expect("room");
        let (file, _) = tree.create(Node::ROOT, b"file", 0o666, owner).expect("room");
        assert_eq!(owned(&file), (1000, 1001, 0o666), "{kind}");
        let inner = make(Node::ROOT, b"directory", New::Directory { mode: 0o777 });
        assert_eq!(owned(&inner), (1000, 1001, 0o777), "{kind}");
        let link = make(Node::ROOT, b"link", New::Link { target: b"x" });
        assert_eq!((link.metadata.uid, link.metadata.gid), (1000, 1001), "{kind}");
        // The bit hands the group on, and itself to directories.
        let change = Change { gid: Some(70), mode: Some(0o2770), ..Change::default() };
        tree.set_attributes(inner.node, &change).expect("ours");
        let node = New::Node { mode: 0o100_000 | mode, device: 0 };
        assert_eq!(owned(&make(inner.node, b"file", node)), (1000, 70, 0o640), "{kind}");
        let below = make(inner.node, b"directory", New::Directory { mode: 0o750 });
        assert_eq!(owned(&below), (1000, 70, 0o2750), "{kind}");
        let with_bit = make(inner.node, b"with the bit", New::Directory { mode: 0o2710 });
        assert_eq!(owned(&with_bit), (1000, 70, 0o2710), "{kind}");
        assert!(fs::read_dir(lower).expect("a directory").count() == 3, "{kind}");
    });
}

#[test]
fn set_user_id_goes_from_files_and_from_nothing_else() {
    needs::root("others lose the bits by the system");
    each(|kind, tree, _| {
        let file = write(tree, Node::ROOT, b"file", b"program");
        let inner = directory(tree, b"directory", 0o755);
        let mode = |node| tree.attributes(node).expect("it is there").metadata.mode;
        for (before, after) in [(0o6755, 0o755), (0o4711, 0o711), (0o2755, 0o755), (0o1644, 0o1644)] {
            let change = Change { mode: Some(before), ..Change::default() };
            tree.set_attributes(file, &change).expect("ours");
            tree.drop_set_ids(file).expect("ours");
            assert_eq!(mode(file), after, "{kind}: {before:o}");
        }
        let change = Change { mode: Some(0o2755), ..Change::default() };
        tree.set_attributes(inner, &change).expect("ours");
        tree.drop_set_ids(inner).expect("nothing to do");
        assert_eq!(mode(inner), 0o2755, "{kind}");
    });
}

#[test]
fn a_tree_that_is_only_read_changes_nothing() {
    for kind in KINDS {
        let scratch = Scratch::new();
        let tree = open(kind, scratch.as_path(), true);
        write(&*tree, Node::ROOT, b"file", b"contents");
        tree.make(Node::ROOT, b"directory", New::Directory { mode: 0o700 }, ROOT).expect("room");
        drop(tree);
        let tree = open(kind, scratch.as_path(), false);
        assert!(!tree.is_writable(), "{kind}");
        let file = tree.lookup(Node::ROOT, b"file").expect("it is there");
        let refused = [
            tree.set_attributes(file.node, &Change { mode: Some(0), ..Change::default() }).map(drop),
            tree.set_attributes(file.node, &Change { size: Some(0), ..Change::default() }).map(drop),
            tree.make(Node::ROOT, b"x", New::Directory { mode: 0o700 }, ROOT).map(drop),
            tree.make(Node::ROOT, b"x", New::Link { target: b"x" }, ROOT).map(drop),
            tree.create(Node::ROOT, b"x", 0o600, ROOT).map(drop),
            tree.link(file.node, Node::ROOT, b"x").map(drop),
            tree.remove(Node::ROOT, b"file", false),
            tree.remove(Node::ROOT, b"directory", true),
            tree.rename((Node::ROOT, b"file"), (Node::ROOT, b"x"), Rename::Replace),
            tree.open(file.node, true).map(drop),
            tree.set_xattr(file.node, b"user.x", b"x", SetXattr::Any),
            tree.remove_xattr(file.node, b"user.x"),
        ];
        for (i, refused) in refused.into_iter().enumerate() {
            assert_eq!(refused, Err(Errno::ROFS), "{kind}: {i}");
        }
        let opened = tree.open(file.node, false).expect("to be read");
        // What the kernel would not let through.
        for refused in [opened.file.write_at(0, b"x"), opened.file.allocate(0, 0, 9999)] {
            assert!(refused.is_err(), "{kind}");
        }
        assert_eq!(contents(&*tree, file.node), Ok(b"contents".to_vec()), "{kind}");
        let found = tree.lookup(Node::ROOT, b"file").map(but_access);
        assert_eq!(found, Ok(but_access(file)), "{kind}");
    }
}

#[test]
fn a_directory_has_one_who_writes_or_many_who_read() {
    let scratch = Scratch::new();
    let open = |writable| LowerPosix::open(scratch.as_path(), Identity, writable);
    let writer = open(true).expect("it is free");
    for writable in [true, false] {
        assert!(matches!(open(writable), Err(LowerError::InUse)), "{writable}");
    }
    drop(writer);
    let readers = (open(false).expect("it is free"), open(false).expect("to be read"));
    assert!(matches!(open(true), Err(LowerError::InUse)));
    drop(readers);
    open(true).expect("it is free again");
    let missing = LowerPosix::open(&scratch.path("missing"), Identity, false);
    assert!(matches!(missing, Err(LowerError::Directory(_))), "{missing:?}");
    let file = scratch.file("file", b"");
    assert!(matches!(LowerPosix::open(&file, Identity, false), Err(LowerError::Directory(_))));
}

#[test]
fn a_node_is_known_as_long_as_somebody_refers_to_it() {
    each(|kind, tree, _| {
        let node = write(tree, Node::ROOT, b"file", b"contents");
        for _ in 0..2 {
            tree.lookup(Node::ROOT, b"file").expect("it is there");
        }
        // One from its making, two from looking.
        tree.forget(node, 2);
        tree.attributes(node).expect("it is known");
        tree.forget(node, 1);
        assert_eq!(tree.attributes(node), Err(Errno::STALE), "{kind}");
        tree.forget(node, 1);
        assert_eq!(tree.lookup(Node::ROOT, b"file").map(|found| found.node), Ok(node), "{kind}");
        tree.forget(node, 5);
        assert_eq!(tree.attributes(node), Err(Errno::STALE), "{kind}");
        tree.forget(Node::ROOT, 1000);
        tree.attributes(Node::ROOT).expect("the top is always known");
        assert_eq!(tree.attributes(Node(u64::MAX)), Err(Errno::STALE), "{kind}");
        assert_eq!(tree.lookup(Node(u64::MAX), b"file"), Err(Errno::STALE), "{kind}");
        // What failed refers to nothing: one forget is enough for one success.
        let again = tree.lookup(Node::ROOT, b"file").expect("it is there").node;
        tree.create(Node::ROOT, b"file", 0o600, ROOT).map(drop).expect_err("it is there");
        tree.forget(again, 1);
        assert_eq!(tree.attributes(again), Err(Errno::STALE), "{kind}");
    });
}

#[test]
fn a_file_is_unchanged_only_if_nobody_changed_it_since_it_was_closed() {
    each(|kind, tree, lower| {
        let node = write(tree, Node::ROOT, b"file", &[1; 5000]);
        let opened = |write| tree.open(node, write).expect("it is there").unchanged;
        assert!(opened(false) && opened(true), "{kind}: only we wrote it");
        let file = fs::File::options().write(true).open(lower_file(lower)).expect("a lower file");
        file.set_modified(std::time::UNIX_EPOCH).expect("ours");
        assert!(!opened(false), "{kind}: somebody touched it");
        assert!(opened(false), "{kind}");
        tree.set_attributes(node, &Change { size: Some(10), ..Change::default() }).expect("ours");
        assert!(!opened(false), "{kind}: it was cut while nobody had it open");
        let handle = tree.open(node, true).expect("it is there");
        file.set_modified(std::time::UNIX_EPOCH).expect("ours");
        assert!(opened(false), "{kind}: who has it open sees every change");
        handle.file.write_at(10, b"more").expect("room");
        tree.set_attributes(node, &Change { size: Some(12), ..Change::default() }).expect("ours");
        let mut bytes = [0; 20];
        assert_eq!(handle.file.read_at(8, &mut bytes), Ok(4), "{kind}");
        assert_eq!(&bytes[..4], b"\x01\x01mo", "{kind}");
    });
}

#[test]
fn attributes_of_the_system_s_and_of_the_mapper_are_out_of_reach() {
    each(|kind, tree, lower| {
        let node = write(tree, Node::ROOT, b"file", b"contents");
        let link = tree.make(Node::ROOT, b"link", New::Link { target: b"x" }, ROOT).expect("room").node;
        let path = fs::read_dir(lower).expect("a directory").map(|entry| entry.expect("an entry").path());
        let path = path.into_iter().find(|path| path.is_file()).expect("the file");
        let long = vec![b'v'; 2000];
        for (name, value) in
            [(&b"user.short"[..], &b"value"[..]), (b"user.empty", b""), (b"user.long", &long)]
        {
            let set = |how| tree.set_xattr(node, name, value, how);
            assert_eq!(tree.xattr(node, name), Err(Errno::NODATA), "{kind}");
            assert_eq!(set(SetXattr::Replace), Err(Errno::NODATA), "{kind}");
            set(SetXattr::Create).expect("it is new");
            assert_eq!(set(SetXattr::Create), Err(Errno::EXIST), "{kind}");
            set(SetXattr::Replace).and_then(|()| set(SetXattr::Any)).expect("it is there");
            assert_eq!(tree.xattr(node, name), Ok(value.to_vec()), "{kind}");
        }
        // An access control list of the lower file: user 1000 may read.
        let mut acl = 2_u32.to_le_bytes().to_vec();
        for (tag, rights, id) in
            [(1_u16, 6_u16, u32::MAX), (2, 4, 1000), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 4, u32::MAX)]
        {
            acl.extend([&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat());
        }
        let name = b"system.posix_acl_access";
        let any = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&path, &name[..], &acl, any).expect("a filesystem with access control lists");
        assert_eq!(tree.xattr(node, name), Err(Errno::OPNOTSUPP), "{kind}");
        assert_eq!(tree.set_xattr(node, name, &acl, SetXattr::Any), Err(Errno::OPNOTSUPP), "{kind}");
        assert_eq!(tree.remove_xattr(node, name), Err(Errno::OPNOTSUPP), "{kind}");
        // Links have none.
        assert_eq!(tree.set_xattr(link, b"user.x", b"x", SetXattr::Any), Err(Errno::OPNOTSUPP), "{kind}");
        assert_eq!(tree.xattrs(link), Ok(Vec::new()), "{kind}");
        let own = b"user.ecryptfs";
        let mut shown: Vec<_> = [&b"user.empty"[..], b"user.long", b"user.short"].map(<[u8]>::to_vec).into();
        if kind == "as it is" {
            tree.set_xattr(node, own, b"x", SetXattr::Any).expect("an attribute as any other");
            shown.insert(0, own.to_vec());
        } else {
            assert_eq!(tree.xattr(node, own), Err(Errno::NODATA), "{kind}");
            assert_eq!(tree.set_xattr(node, own, b"x", SetXattr::Any), Err(Errno::PERM), "{kind}");
            assert_eq!(tree.remove_xattr(node, own), Err(Errno::NODATA), "{kind}");
        }
        let names = tree.xattrs(node).expect("names");
        assert_eq!(names.last(), Some(&0), "{kind}");
        let mut names: Vec<_> =
            names[..names.len() - 1].split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
        names.sort();
        assert_eq!(names, shown, "{kind}");
        tree.remove_xattr(node, b"user.short").expect("it is there");
        assert_eq!(tree.remove_xattr(node, b"user.short"), Err(Errno::NODATA), "{kind}");
        assert_eq!(contents(tree, node), Ok(b"contents".to_vec()), "{kind}");
    });
}

#[test]
fn room_is_that_of_the_lower_filesystem() {
    each(|kind, tree, lower| {
        let (ours, theirs) = (tree.space().expect("room"), rustix::fs::statvfs(lower).expect("room"));
        assert_eq!(u64::from(ours.block_size), theirs.f_frsize, "{kind}");
        assert_eq!((ours.blocks, ours.nodes), (theirs.f_blocks, theirs.f_files), "{kind}");
        // Others write at the same time: near, and neither a constant nor each other's.
        let near = |a: u64, b: u64| a.abs_diff(b) <= b / 4;
        assert!(near(ours.free, theirs.f_bfree) && near(ours.available, theirs.f_bavail), "{kind}");
        assert!(near(ours.free_nodes, theirs.f_ffree), "{kind}");
    });
}

/// `fallocate(2)`: what it makes longer, what it zeroes, and what is not to be had.
#[test]
fn room_is_set_aside_and_ranges_are_zeroed() {
    const KEEP: u32 = 1;
    const PUNCH: u32 = 2;
    const COLLAPSE: u32 = 8;
    const ZERO: u32 = 16;
    each(|kind, tree, lower| {
        let (made, opened) = tree.create(Node::ROOT, b"file", 0o600, ROOT).expect("room");
        let len = 200_000;
        let whole = |expected: &[u8], what: &str| {
            assert_eq!(size(tree, made.node), expected.len() as u64, "{kind}: {what}");
            assert!(contents(tree, made.node).expect("readable") == expected, "{kind}: {what}");
        };
        let mut expected = vec![3; len];
        opened.file.write_at(0, &expected).expect("room");
        let allocate = |mode, offset, len| opened.file.allocate(mode, offset, len);
        let room = |lower: &Path| fs::metadata(lower_file(lower)).expect("a file").blocks() * 512;
        allocate(KEEP, 0, 400_000).expect("room");
        whole(&expected, "only room");
        assert!(room(lower) >= 400_000, "{kind}: {}", room(lower));
        allocate(0, 100, 50).expect("it is there");
        whole(&expected, "inside");
        allocate(0, len as u64 - 10, 20).expect("room");
        expected.resize(len + 10, 0);
        whole(&expected, "longer");
        allocate(PUNCH | KEEP, 4000, 150_000).expect("inside");
        expected[4000..154_000].fill(0);
        whole(&expected, "punched");
        expected.fill(5);
        opened.file.write_at(0, &expected).expect("room");
        allocate(PUNCH | KEEP, 200_000, 50_000).expect("beyond the end");
        expected[200_000..].fill(0);
        whole(&expected, "punched to the end");
        if kind != "as it is" {
            // What the lower filesystem can do of these is its own affair.
            allocate(ZERO | KEEP, 100, 1000).expect("inside");
            expected[100..1100].fill(0);
            whole(&expected, "zeroed");
            allocate(ZERO | KEEP, 190_000, 100_000).expect("beyond the end");
            expected[190_000..].fill(0);
            whole(&expected, "zeroed to the end");
            allocate(ZERO, 150_000, 100_000).expect("beyond the end");
            expected.resize(250_000, 0);
            expected[150_000..].fill(0);
            whole(&expected, "zeroed and longer");
            for mode in [PUNCH, COLLAPSE, ZERO | PUNCH, KEEP | COLLAPSE, 1 << 30] {
                assert_eq!(allocate(mode, 0, 4096), Err(Errno::OPNOTSUPP), "{kind}: {mode}");
            }
            assert_eq!(allocate(0, u64::MAX, 2), Err(Errno::FBIG), "{kind}");
            assert_eq!(allocate(0, 0, 1 << 63), Err(Errno::FBIG), "{kind}");
            whole(&expected, "as before");
        } else {
            assert!(allocate(PUNCH, 0, 4096).is_err(), "holes leave the size alone");
        }
    });
}

/// A link of the lower directory, or one in place of a directory, leads nowhere.
#[test]
fn no_link_leads_out_of_the_lower_directory() {
    let scratch = Scratch::new();
    let (lower, outside) = (scratch.directory("lower"), scratch.directory("outside"));
    fs::write(outside.join("secret"), b"secret").expect("room");
    symlink(&outside, lower.join("link")).expect("room");
    symlink(outside.join("secret"), lower.join("file")).expect("room");
    for kind in ["as it is", "contents"] {
        let tree = open(kind, &lower, true);
        let link = tree.lookup(Node::ROOT, b"link").expect("the link itself");
        assert_eq!(link.metadata.kind, Kind::Link, "{kind}");
        assert_eq!(tree.lookup(link.node, b"secret"), Err(Errno::NOTDIR), "{kind}");
        assert!(tree.open_directory(link.node).is_err(), "{kind}");
        assert_eq!(tree.create(link.node, b"new", 0o600, ROOT).map(drop), Err(Errno::NOTDIR), "{kind}");
        let file = tree.lookup(Node::ROOT, b"file").expect("the link itself");
        assert_eq!(tree.open(file.node, true).map(drop), Err(Errno::INVAL), "{kind}");
        assert_eq!(tree.create(Node::ROOT, b"file", 0o600, ROOT).map(drop), Err(Errno::EXIST), "{kind}");
    }
    assert_eq!(fs::read(outside.join("secret")).expect("untouched"), b"secret");
    assert_eq!(fs::read_dir(&outside).expect("a directory").count(), 1);
}

/// What somebody else puts into the lower directory in plain is shown under its own name, and never hides what is encrypted.
#[test]
fn plain_names_are_found_where_names_are_encrypted() {
    let scratch = Scratch::new();
    let lower = scratch.as_path();
    let tree = open("whatever is there", lower, true);
    fs::write(lower.join("plain"), b"not encrypted").expect("room");
    let plain = tree.lookup(Node::ROOT, b"plain").expect("it is shown").node;
    assert_eq!(contents(&*tree, plain), Ok(b"not encrypted".to_vec()));
    let encrypted = write(&*tree, Node::ROOT, b"both", b"encrypted");
    fs::write(lower.join("both"), b"not encrypted").expect("room");
    assert_eq!(tree.lookup(Node::ROOT, b"both").map(|found| found.node), Ok(encrypted));
    assert_eq!(contents(&*tree, encrypted), Ok(b"encrypted".to_vec()));
    // The spelling in the lower directory is no second name.
    let spelling =
        fs::read_dir(lower).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    let spelling =
        spelling.into_iter().find(|name| name.as_bytes().starts_with(b"ECRYPTFS")).expect("encrypted");
    assert!(tree.lookup(Node::ROOT, spelling.as_bytes()).is_err());
    fs::write(lower.join(OsStr::from_bytes(b"ECRYPTFS_FNEK_ENCRYPTED.broken")), b"").expect("room");
    tree.lookup(Node::ROOT, b"ECRYPTFS_FNEK_ENCRYPTED.broken")
        .expect("what can't be decrypted is shown as it is");
    tree.remove(Node::ROOT, b"plain", false).expect("it is there");
    assert!(!lower.join("plain").exists());
    tree.remove(Node::ROOT, b"both", false).expect("the one that is encrypted");
    assert_eq!(fs::read(lower.join("both")).expect("it stays"), b"not encrypted");
    // Names that no directory has, but that decrypt well, are shown as they stand there.
    let names = NameCipher::new(&OURS.0, OURS.1[1], FileCipher::Aes128, 16).expect("a key for names");
    for name in [&b".."[..], b".", b"a/b"] {
        let lower_name = names.encode(name).expect("short");
        fs::write(lower.join(OsStr::from_bytes(&lower_name)), b"").expect("room");
        let entries = listed(&*tree, Node::ROOT);
        assert!(entries.iter().any(|entry| entry.name == lower_name), "{name:?}");
        assert!(entries.iter().all(|entry| entry.name != name), "{name:?}");
        assert_eq!(tree.lookup(Node::ROOT, name), Err(Errno::INVAL), "{name:?}");
        tree.remove(Node::ROOT, &lower_name, false).expect("by the name that is shown");
    }
    let pipe = tree.make(Node::ROOT, b"pipe", New::Node { mode: 0o010_600, device: 0 }, ROOT).expect("room");
    assert_eq!(pipe.metadata.kind, Kind::Pipe);
    let below = fs::read_dir(lower).expect("a directory").map(|entry| entry.expect("an entry"));
    let below: Vec<_> = below.filter(|entry| entry.file_type().expect("a type").is_fifo()).collect();
    assert!(below[0].file_name().as_bytes().starts_with(b"ECRYPTFS"), "{below:?}");
    assert_eq!(below[0].metadata().expect("there").permissions().mode() & 0o7777, 0o600);
}
