//! Copies out of hostile and ordinary trees.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::common::{Memory, open, path, pattern, run, sample_tree, walk};
use atrest_filetree::{
    CopyError, CopyOptions, CopyProgress, CopySummary, FileTree, Kind, TreeError, TreePath, WalkError,
    copy_in, copy_out,
};
use atrest_testkit::Scratch;

const ALL: CopyOptions =
    CopyOptions { recursive: true, overwrite: false, preserve_permissions: true, keep_going: false };

fn ext4(dir: &Path, from: &Path) -> Box<dyn FileTree> {
    let image = dir.join("image");
    let _ = fs::remove_file(&image);
    run("mke2fs", &[&"-q", &"-F", &"-t", &"ext4", &"-d", &from, &image, &"64M"]);
    open(Memory::load(&image))
}

#[test]
fn a_tree_comes_out_with_contents_links_modes_times_and_holes() {
    let dir = Scratch::new();
    let (from, to) = (dir.path("from"), dir.path("to"));
    sample_tree(&from);
    let tree = ext4(dir.as_path(), &from);
    #[derive(Default)]
    struct Count {
        bytes: u64,
        started: u64,
        skipped: Vec<Kind>,
    }
    impl CopyProgress for Count {
        fn started(&mut self, _: &TreePath, _: Kind, _: u64) {
            self.started += 1;
        }
        fn advanced(&mut self, bytes: u64) {
            self.bytes += bytes;
        }
        fn skipped(&mut self, _: &TreePath, kind: Kind) {
            self.skipped.push(kind);
        }
    }
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:")).expect("it has a line");
    let umask = u32::from_str_radix(umask.trim(), 8).expect("octal");
    let mut count = Count::default();
    let summary = copy_out(&*tree, &TreePath::root(), &to, &ALL, &mut count).expect("it copies");
    assert_eq!((summary.bytes, summary.links, summary.skipped), (count.bytes, 2, 1));
    assert_eq!(count.skipped, [Kind::Pipe]);
    assert_eq!(count.started, summary.files + summary.directories + summary.links);
    for relative in walk(&from) {
        let (a, b) = (from.join(&relative), to.join(&relative));
        let stat = fs::symlink_metadata(&a).expect("listed");
        if relative == Path::new("pipe") {
            assert!(!b.exists());
            continue;
        }
        let copy = fs::symlink_metadata(&b).unwrap_or_else(|error| panic!("{b:?}: {error}"));
        assert_eq!(copy.file_type(), stat.file_type(), "{b:?}");
        if stat.is_file() {
            assert!(fs::read(&a).expect("readable") == fs::read(&b).expect("readable"), "{b:?}");
        }
        if stat.is_symlink() {
            assert_eq!(fs::read_link(&a).expect("a link"), fs::read_link(&b).expect("a link"));
        } else if relative != Path::new("") {
            // Set-user-ID does not travel.
            assert_eq!(copy.mode() & 0o7777, stat.mode() & 0o777 & !umask, "{b:?}");
        }
        if relative != Path::new("") {
            assert_eq!(copy.mtime(), stat.mtime(), "{b:?}");
        }
    }
    let sparse = fs::metadata(to.join("sparse")).expect("there");
    assert!(sparse.blocks() * 512 < 100_000, "the holes were filled: {} blocks", sparse.blocks());

    // Into an existing directory; then again, with and without leave to overwrite.
    let into = dir.path("into");
    fs::create_dir(&into).expect("writable");
    copy_out(&*tree, &path("deep"), &into, &ALL, &mut ()).expect("it copies");
    assert_eq!(fs::read(into.join("deep/er/and/deeper/leaf")).expect("readable"), b"leaf");
    let exists = copy_out(&*tree, &path("deep"), &into, &ALL, &mut ());
    assert!(matches!(exists, Err(CopyError::Host { errno: 17, .. })), "{exists:?}");
    let over = CopyOptions { overwrite: true, ..ALL };
    copy_out(&*tree, &path("deep"), &into, &over, &mut ()).expect("it copies again");
    let single = CopyOptions::default();
    assert!(matches!(copy_out(&*tree, &path("deep"), &into, &single, &mut ()), Err(CopyError::Tree { .. })));
    copy_out(&*tree, &path("block"), &into.join("renamed"), &single, &mut ()).expect("it copies");
    assert!(fs::read(into.join("renamed")).expect("readable") == pattern(2, 4096));
}

#[test]
fn no_link_on_the_host_is_followed_below_the_target() {
    let dir = Scratch::new();
    let (from, to, outside) = (dir.path("from"), dir.path("to"), dir.path("outside"));
    fs::create_dir_all(from.join("sub")).expect("writable");
    fs::write(from.join("sub/file"), "new").expect("writable");
    fs::write(from.join("plain"), "new").expect("writable");
    let tree = ext4(dir.as_path(), &from);
    fs::create_dir_all(&outside).expect("writable");
    fs::write(outside.join("plain"), "old").expect("writable");
    fs::create_dir_all(&to).expect("writable");
    for overwrite in [false, true] {
        let options = CopyOptions { overwrite, ..ALL };
        let _ = fs::remove_file(to.join("plain"));
        let _ = fs::remove_file(to.join("sub"));
        symlink(&outside, to.join("sub")).expect("links can be made");
        // A link that is named as the target is the user's own.
        let mine = dir.path(format!("mine-{overwrite}"));
        fs::create_dir(&mine).expect("writable");
        symlink(&mine, to.join("mine")).expect("links can be made");
        let copied = copy_out(&*tree, &TreePath::root(), &to.join("mine"), &options, &mut ());
        assert!(copied.is_ok() && mine.join("sub/file").exists(), "{copied:?}");
        fs::remove_file(to.join("mine")).expect("there");
        // One that only has the name of what is copied may come from an earlier copy, and so may one further down.
        let refused = copy_out(&*tree, &path("sub"), &to, &options, &mut ());
        assert!(matches!(refused, Err(CopyError::Host { .. })), "{refused:?}");
        let refused = copy_out(&*tree, &TreePath::root(), &to, &options, &mut ());
        assert!(matches!(refused, Err(CopyError::Host { .. })), "{refused:?}");
        assert!(!outside.join("file").exists(), "a link was followed");
        let _ = fs::remove_file(to.join("plain"));
        symlink(outside.join("plain"), to.join("plain")).expect("links can be made");
        let copied = copy_out(&*tree, &path("plain"), &to, &options, &mut ());
        assert_eq!(copied.is_ok(), overwrite, "{copied:?}");
        assert_eq!(fs::read(outside.join("plain")).expect("readable"), b"old", "a link was followed");
    }
    assert!(fs::symlink_metadata(to.join("plain")).expect("there").is_file());
}

#[test]
fn hostile_names_and_circles_stop_a_copy() {
    let dir = Scratch::new();
    let (from, to, image) = (dir.path("from"), dir.path("to"), dir.path("image"));
    fs::create_dir_all(from.join("victim/aa")).expect("writable");
    fs::write(from.join("victim/bbb"), "x").expect("writable");
    run("mke2fs", &[&"-q", &"-F", &"-t", &"ext4", &"-O", &"^metadata_csum", &"-d", &from, &image, &"16M"]);
    let good = fs::read(&image).expect("readable");
    let patched = |old: &[u8], new: &[u8]| {
        let mut bytes = good.clone();
        // Inode, record length, name length, type, name.
        let at = bytes.windows(old.len()).position(|window| window == old).expect("the entry is there");
        bytes[at..at + new.len()].copy_from_slice(new);
        open(Memory::new(bytes))
    };
    for hostile in [&b"\x03\x01/bb"[..], b"\x03\x01b\0b", b"\x03\x01../"] {
        let tree = patched(b"\x03\x01bbb", hostile);
        let copied = copy_out(&*tree, &path("victim"), &to, &ALL, &mut ());
        assert!(matches!(copied, Err(CopyError::Tree { .. })), "{hostile:?}: {copied:?}");
        assert!(!to.exists(), "something is made of a directory that can't be read");
    }
    // The directory `aa` becomes its own parent: entry inode number of `victim`.
    let listed = run("debugfs", &[&"-R", &"ls -l victim", &image]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let number = |name: &str| -> u32 {
        let line = text.lines().find(|line| line.ends_with(&format!(" {name}"))).expect("listed");
        line.split_whitespace().next().expect("a number").parse().expect("a number")
    };
    let (own, child) = (number("."), number("aa"));
    let entry = |inode: u32| [&inode.to_le_bytes()[..], b"\x0c\x00\x02\x02aa"].concat();
    let tree = patched(&entry(child), &entry(own));
    let copied = copy_out(&*tree, &path("victim"), &to, &ALL, &mut ());
    let twice = WalkError::Twice { first: path("victim"), second: path("victim/aa") };
    assert_eq!(copied, Err(CopyError::Walk(twice)));
    // Whoever lists it meets the same directory at once, and no deeper.
    assert!(tree.list(&path("victim")).is_ok());
    let number = u64::from(own);
    let shared = TreeError::SharedDirectory { inode: number };
    assert_eq!(tree.list(&path("victim/aa")), Err(shared.clone()));
    assert_eq!(tree.metadata(&path("victim/aa/aa")), Err(shared));
}

#[test]
fn circles_in_fat_and_sources_that_are_no_files_stop_a_copy() {
    let dir = Scratch::new();
    let (image, to) = (dir.path("image"), dir.path("to"));
    run("mkfs.vfat", &[&"-C", &image, &"1440"]);
    let device = Memory::load(&image);
    let tree = open(device.clone());
    for name in ["a", "a/b", "a/c"] {
        tree.make_dir(&path(name)).expect("made");
    }
    tree.flush().expect("flushed");
    drop(tree);
    let mut bytes = device.bytes();
    // Both b and c become a itself: without a limit that is 2^depth directories.
    let first_cluster = |bytes: &[u8], name: &[u8; 11]| {
        let at = bytes.windows(11).position(|window| window == name).expect("there");
        (at + 26, [bytes[at + 26], bytes[at + 27]])
    };
    let (_, a) = first_cluster(&bytes, b"A          ");
    for name in [b"B          ", b"C          "] {
        let (at, _) = first_cluster(&bytes, name);
        bytes[at..at + 2].copy_from_slice(&a);
    }
    let tree = open(Memory::new(bytes));
    let copied = copy_out(&*tree, &path("a"), &to, &ALL, &mut ());
    let cluster = u32::from(u16::from_le_bytes(a));
    let shared = |copied: Result<_, CopyError>, first: &str, second: &str| {
        let (first, second) = (path(first), path(second));
        assert_eq!(copied, Err(CopyError::Walk(WalkError::SharedCluster { cluster, first, second })));
    };
    shared(copied, "a", "a/c");
    let removed = atrest_filetree::remove(&*tree, &path("a"), true);
    shared(removed.map_err(CopyError::from).map(|_| CopySummary::default()), "a", "a/c");
    assert_eq!(tree.list(&path("a")).expect("there").len(), 2, "nothing is removed");

    let tree = open(Memory::load(&image));
    let pipe = dir.path("pipe");
    run("mkfifo", &[&pipe]);
    assert!(copy_in(&pipe, &*tree, &TreePath::root(), &ALL, &mut ()).is_err());
    let tree_dir = dir.path("tree");
    fs::create_dir(&tree_dir).expect("writable");
    fs::rename(&pipe, tree_dir.join("pipe")).expect("movable");
    symlink("/etc/passwd", tree_dir.join("link")).expect("links can be made");
    fs::write(tree_dir.join("file"), "x").expect("writable");
    fs::set_permissions(tree_dir.join("file"), fs::Permissions::from_mode(0o600)).expect("chmod");
    let summary = copy_in(&tree_dir, &*tree, &TreePath::root(), &ALL, &mut ()).expect("it copies");
    assert_eq!((summary.files, summary.directories, summary.skipped), (1, 1, 2));
    assert_eq!(tree.list(&path("tree")).expect("there").len(), 1);
}
