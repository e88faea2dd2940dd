//! Trees that contain themselves: every walk ends, with an error that names both places, and nothing is removed.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Memory, open, path, pattern, read, run, write};
use atrest_filetree::{
    About, Capacity, CopyError, CopyOptions, CopySummary, Entry, FileTree, Kind, MAX_DEPTH, Metadata, Space,
    Step, TreeError, TreePath, Walk, WalkError, copy_in, copy_out, remove,
};
use atrest_inside::Damage;
use atrest_testkit::Scratch;

const ALL: CopyOptions =
    CopyOptions { recursive: true, overwrite: false, preserve_permissions: false, keep_going: false };

/// A tree that counts what is asked of it, and fails the test that asks for more than this.
struct Counted {
    tree: Box<dyn FileTree>,
    asked: AtomicUsize,
    limit: usize,
}

impl Counted {
    fn new(tree: Box<dyn FileTree>, limit: usize) -> Self {
        Self { tree, asked: AtomicUsize::new(0), limit }
    }

    fn count(&self) {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        assert!(asked < self.limit, "a walk does not end: more than {} requests", self.limit);
    }
}

impl FileTree for Counted {
    fn about(&self) -> About {
        self.tree.about()
    }
    fn space(&self) -> Result<Space, TreeError> {
        self.tree.space()
    }
    fn metadata(&self, path: &TreePath) -> Result<Metadata, TreeError> {
        self.count();
        self.tree.metadata(path)
    }
    fn list(&self, path: &TreePath) -> Result<Vec<Entry>, TreeError> {
        self.count();
        self.tree.list(path)
    }
    fn read_at(&self, path: &TreePath, offset: u64, buf: &mut [u8]) -> Result<usize, TreeError> {
        self.count();
        self.tree.read_at(path, offset, buf)
    }
    fn remove(&self, path: &TreePath) -> Result<(), TreeError> {
        self.count();
        self.tree.remove(path)
    }
    fn check_unshared(&self, path: &TreePath) -> Result<(), WalkError> {
        self.tree.check_unshared(path)
    }
}

/// The 1.4 MB image of a FAT with these directories, then these files.
fn fat(image: &Path, directories: &[&str], files: &[&str]) -> Vec<u8> {
    let _ = fs::remove_file(image);
    run("mkfs.vfat", &[&"-C", &image, &"1440"]);
    let device = Memory::load(image);
    let tree = open(device.clone());
    for name in directories {
        tree.make_dir(&path(name)).expect("made");
    }
    for name in files {
        write(&*tree, &path(name), &pattern(1, 2000)).expect("written");
    }
    tree.flush().expect("flushed");
    device.bytes()
}

/// Where the first cluster of an entry is stored; its name is unique.
fn entry(bytes: &[u8], short: &str) -> usize {
    let mut padded = short.as_bytes().to_vec();
    padded.resize(11, b' ');
    bytes.windows(11).position(|window| window == padded).expect("the entry is there") + 26
}

/// Makes one entry lead where another one leads.
fn lead(bytes: &mut [u8], from: &str, to: &str) {
    let (from, to) = (entry(bytes, from), entry(bytes, to));
    bytes.copy_within(to..to + 2, from);
}

fn cluster(bytes: &[u8], short: &str) -> u32 {
    let at = entry(bytes, short);
    u16::from_le_bytes([bytes[at], bytes[at + 1]]).into()
}

/// The 12 bits that the table has for a cluster, in both copies: 512-byte sectors, one reserved, nine in each table.
fn link(bytes: &mut [u8], cluster: u32, next: u32) {
    for table in [512, 512 * 10] {
        let at = table + (cluster + cluster / 2) as usize;
        let old = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let new = match cluster % 2 {
            0 => old & 0xf000 | next as u16,
            _ => old & 0xf | (next as u16) << 4,
        };
        bytes[at..at + 2].copy_from_slice(&new.to_le_bytes());
    }
}

/// No walk of any kind goes on for ever, and nothing changes.
fn assert_bounded(bytes: &[u8], what: &str, dir: &Path) -> Result<u64, WalkError> {
    let device = Memory::new(bytes.to_vec());
    let tree = Counted::new(open(device.clone()), 5000);
    let removed = remove(&tree, &TreePath::root(), true);
    tree.flush().expect("nothing to do");
    assert!(device.bytes() == bytes, "{what}: something was removed");
    for keep_going in [false, true] {
        let to = dir.join("to");
        let options = CopyOptions { keep_going, ..ALL };
        let copied = copy_out(&tree, &TreePath::root(), &to, &options, &mut ());
        match copied {
            Ok(CopySummary { bytes, .. }) if keep_going => assert!(bytes < 1_474_560, "{what}"),
            Err(CopyError::Walk(_) | CopyError::Tree { .. }) => {}
            copied => panic!("{what}: {copied:?}"),
        }
        let _ = fs::remove_dir_all(&to);
    }
    // Whoever goes by paths alone, as programs do in a mounted tree.
    let mut ahead = vec![TreePath::root()];
    while let Some(at) = ahead.pop() {
        for found in tree.list(&at).unwrap_or_default() {
            let inner = at.join(&found.name).expect("a name");
            if found.kind == Kind::Directory {
                ahead.push(inner);
            }
        }
    }
    removed
}

#[test]
fn no_walk_through_a_fat_that_contains_itself_goes_on_for_ever() {
    let dir = Scratch::new();
    let image = dir.path("image");
    let shared = |bytes: &[u8], what: &str, short: &str, first: &str, second: &str| {
        let cluster = cluster(bytes, short);
        let (first, second) = (path(first), path(second));
        let expected = Err(WalkError::SharedCluster { cluster, first, second });
        assert_eq!(assert_bounded(bytes, what, dir.as_path()), expected, "{what}");
    };
    // Circles of one, two and many directories.
    let mut bytes = fat(&image, &["AAA", "AAA/BBB"], &[]);
    lead(&mut bytes, "BBB", "AAA");
    shared(&bytes, "a directory that is its own parent", "AAA", "AAA", "AAA/BBB");
    let mut bytes = fat(&image, &["AAA", "AAA/BBB", "AAA/BBB/CCC", "AAA/BBB/DDD"], &["AAA/X"]);
    lead(&mut bytes, "CCC", "AAA");
    lead(&mut bytes, "DDD", "AAA");
    shared(&bytes, "a circle of two, twice", "AAA", "AAA", "AAA/BBB/DDD");
    let deep: Vec<String> =
        (0..40).map(|i| (0..=i).map(|i| format!("D{i:02}")).collect::<Vec<_>>().join("/")).collect();
    let names: Vec<&str> = deep.iter().map(String::as_str).collect();
    let mut bytes = fat(&image, &names, &[]);
    lead(&mut bytes, "D39", "D00");
    shared(&bytes, "a circle of forty", "D00", "D00", names[39]);
    // Each of twenty directories has the next one twice: a million paths.
    let mut directories: Vec<String> = Vec::new();
    for i in 0..20 {
        let above: String = (0..i).map(|i| format!("D{i:02}/")).collect();
        directories.extend(["D", "E"].map(|kind| format!("{above}{kind}{i:02}")));
    }
    let names: Vec<&str> = directories.iter().map(String::as_str).collect();
    let mut bytes = fat(&image, &names, &[]);
    for i in 0..20 {
        lead(&mut bytes, &format!("E{i:02}"), &format!("D{i:02}"));
    }
    let removed = assert_bounded(&bytes, "directories in two places", dir.as_path());
    assert!(matches!(removed, Err(WalkError::SharedCluster { .. })), "{removed:?}");
    // What belongs to two at once.
    let mut bytes = fat(&image, &["AAA", "BBB"], &["AAA/X", "BBB/Y"]);
    lead(&mut bytes, "X", "BBB");
    shared(&bytes, "a file that is a directory", "BBB", "BBB", "AAA/X");
    let mut bytes = fat(&image, &["AAA", "BBB"], &["AAA/X", "BBB/Y"]);
    lead(&mut bytes, "Y", "X");
    shared(&bytes, "two files in one place", "X", "BBB/Y", "AAA/X");
    let mut bytes = fat(&image, &["AAA", "BBB"], &["AAA/X", "BBB/Y"]);
    let (last, joined) = (cluster(&bytes, "X") + 3, cluster(&bytes, "Y") + 1);
    link(&mut bytes, last, joined);
    let (first, second) = (path("BBB/Y"), path("AAA/X"));
    let expected = Err(WalkError::SharedCluster { cluster: joined, first, second });
    assert_eq!(assert_bounded(&bytes, "two chains that meet", dir.as_path()), expected);
    // Chains that are circles.
    let mut bytes = fat(&image, &["AAA"], &["AAA/X"]);
    let first = cluster(&bytes, "X");
    link(&mut bytes, first + 3, first);
    let endless = TreeError::from(Damage::EndlessChain);
    let removed = remove(&*open(Memory::new(bytes.clone())), &TreePath::root(), true);
    assert_eq!(removed, Err(WalkError::Tree { path: path("AAA/X"), error: endless }));
    // One that the length of the file would end.
    let mut bytes = fat(&image, &["AAA"], &["AAA/X"]);
    let first = cluster(&bytes, "X");
    link(&mut bytes, first + 1, first);
    let read = open(Memory::new(bytes)).read_at(&path("AAA/X"), 0, &mut [0; 10]);
    assert_eq!(read, Err(TreeError::from(Damage::EndlessChain)));
    let mut bytes = fat(&image, &["AAA"], &["AAA/X"]);
    let first = cluster(&bytes, "AAA");
    link(&mut bytes, first, first);
    let removed = assert_bounded(&bytes, "a directory whose chain is a circle", dir.as_path());
    assert!(matches!(removed, Err(WalkError::Tree { .. })), "{removed:?}");
}

#[test]
fn nothing_is_freed_in_a_fat_with_shared_clusters_and_files_can_still_be_read_and_made() {
    let dir = Scratch::new();
    let mut bytes = fat(&dir.path("image"), &["AAA"], &["AAA/X", "Y", "Z"]);
    lead(&mut bytes, "Y", "X");
    let shared = cluster(&bytes, "X");
    let damage = || TreeError::from(Damage::SharedCluster(shared));
    let device = Memory::new(bytes);
    let tree = open(device.clone());
    let before = device.bytes();
    assert_eq!(tree.remove(&path("Z")), Err(damage()), "what it frees may be another's");
    assert_eq!(tree.truncate(&path("Y"), 1), Err(damage()));
    assert_eq!(write(&*tree, &path("Y"), b"x"), Err(damage()));
    let over = tree.rename(&path("Z"), &path("Y"), atrest_filetree::IfExists::Replace);
    assert_eq!(over, Err(damage()));
    tree.flush().expect("nothing to do");
    assert!(device.bytes() == before, "something was written");
    assert!(read(&*tree, &path("Y")) == pattern(1, 2000));
    write(&*tree, &path("new"), b"new").expect("what is free is free");
    tree.flush().expect("flushed");
    assert_eq!(read(&*open(Memory::new(device.bytes())), &path("new")), b"new");
}

#[test]
fn no_walk_through_an_ext4_that_contains_itself_goes_on_for_ever() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    let mut deep = from.clone();
    for i in 0..20 {
        fs::create_dir_all(deep.join(format!("e{i:02}"))).expect("writable");
        deep.push(format!("d{i:02}"));
    }
    fs::create_dir_all(&deep).expect("writable");
    run("mke2fs", &[&"-q", &"-F", &"-t", &"ext4", &"-O", &"^metadata_csum", &"-d", &from, &image, &"4M"]);
    let mut bytes = fs::read(&image).expect("readable");
    // Each has the next one twice.
    let at = |bytes: &[u8], name: &str| {
        let tail = [&[3, 2], name.as_bytes()].concat();
        bytes.windows(5).position(|window| window == tail).expect("the entry is there") - 6
    };
    for i in 0..20 {
        let (from, to) = (at(&bytes, &format!("d{i:02}")), at(&bytes, &format!("e{i:02}")));
        bytes.copy_within(from..from + 4, to);
    }
    let tree = Counted::new(open(Memory::new(bytes.clone())), 5000);
    let copied = copy_out(&tree, &TreePath::root(), &dir.path("to"), &ALL, &mut ());
    assert!(matches!(copied, Err(CopyError::Walk(WalkError::Twice { .. }))), "{copied:?}");
    let options = CopyOptions { keep_going: true, ..ALL };
    let summary =
        copy_out(&tree, &TreePath::root(), &dir.path("all"), &options, &mut ()).expect("what can be");
    assert_eq!(
        (summary.directories, summary.failed),
        (22, 20),
        "the root, lost+found and each of the others once"
    );
    let mut ahead = vec![TreePath::root()];
    while let Some(at) = ahead.pop() {
        let inner =
            tree.list(&at).unwrap_or_default().into_iter().filter(|found| found.kind == Kind::Directory);
        ahead.extend(inner.map(|found| at.join(&found.name).expect("a name")));
    }
    // And the root in itself.
    let place = at(&bytes, "d00");
    bytes[place..place + 4].copy_from_slice(&2_u32.to_le_bytes());
    let tree = open(Memory::new(bytes));
    let root = TreeError::SharedDirectory { inode: 2 };
    assert_eq!(tree.list(&path("d00")), Err(root));
}

/// A directory that has itself in it, under other numbers each time: nothing but the limits of the walk ends it.
struct Endless {
    inside: usize,
    /// The number of all of them, or 0 where directories have none.
    inode: u64,
    /// Below so many levels directories are empty.
    levels: usize,
    /// What can't be listed.
    damaged: Option<TreePath>,
    removed: AtomicUsize,
}

impl Endless {
    fn new(inside: usize) -> Self {
        Self { inside, inode: 0, levels: usize::MAX, damaged: None, removed: AtomicUsize::new(0) }
    }
}

impl FileTree for Endless {
    fn about(&self) -> About {
        About {
            name: "endless",
            label: Vec::new(),
            id: String::new(),
            size: 12 * 1000,
            capacity: Capacity::Dense,
            block_size: 512,
            writable: false,
            notes: Vec::new(),
        }
    }
    fn space(&self) -> Result<Space, TreeError> {
        Err(TreeError::Unsupported)
    }
    fn metadata(&self, _: &TreePath) -> Result<Metadata, TreeError> {
        Ok(Metadata {
            kind: Kind::Directory,
            size: 0,
            mode: 0,
            uid: 0,
            gid: 0,
            links: 1,
            inode: self.inode,
            allocated: 0,
            modified: Default::default(),
            accessed: Default::default(),
            changed: Default::default(),
        })
    }
    fn list(&self, path: &TreePath) -> Result<Vec<Entry>, TreeError> {
        if self.damaged.as_ref() == Some(path) {
            return Err(TreeError::from(Damage::EndlessChain));
        }
        if path.to_string().matches('/').count() > self.levels {
            return Ok(Vec::new());
        }
        let entry =
            |i: usize| Entry { name: format!("{i}").into_bytes(), kind: Kind::Directory, inode: self.inode };
        Ok((0..self.inside).map(entry).collect())
    }
    fn remove(&self, _: &TreePath) -> Result<(), TreeError> {
        self.removed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn read_at(&self, _: &TreePath, _: u64, _: &mut [u8]) -> Result<usize, TreeError> {
        Err(TreeError::IsADirectory)
    }
}

#[test]
fn a_walk_has_a_limit_of_its_own_to_depth_and_number() {
    let deep = Endless::new(1);
    let steps: Vec<_> = Walk::new(&deep, &TreePath::root()).collect();
    let entered = steps.iter().filter(|step| matches!(step, Ok(Step::Enter(_)))).count();
    let left = steps.iter().filter(|step| matches!(step, Ok(Step::Leave(_)))).count();
    assert_eq!((entered, left), (MAX_DEPTH, MAX_DEPTH));
    let errors: Vec<_> = steps.iter().filter_map(|step| step.as_ref().err()).collect();
    assert!(matches!(errors[..], [WalkError::TooDeep { limit: MAX_DEPTH, .. }]), "{errors:?}");
    assert!(matches!(remove(&deep, &TreePath::root(), true), Err(WalkError::TooDeep { .. })));
    let wide = Endless::new(10);
    for walk in [Walk::new(&wide, &TreePath::root()), Walk::by_names(&wide, &TreePath::root())] {
        let mut steps = 0;
        let last = walk.inspect(|_| steps += 1).last();
        assert!(matches!(last, Some(Err(WalkError::TooMany { limit: 1000, .. }))), "{last:?}");
        assert!(steps < 3000, "{steps} steps");
    }
}

/// Whatever a filesystem itself looks for, a walk enters no directory twice.
#[test]
fn a_walk_enters_no_number_twice() {
    let same = Endless { inode: 7, ..Endless::new(2) };
    let steps: Vec<_> = Walk::new(&same, &TreePath::root()).collect();
    let twice = |step: &Result<Step, WalkError>| {
        let places = ["/0", "/1"].map(path);
        matches!(step, Err(WalkError::Twice { first, second }) if first.is_root() && places.contains(second))
    };
    assert_eq!((steps.len(), steps.iter().filter(|step| twice(step)).count()), (4, 2), "{steps:?}");
    let steps: Vec<_> = Walk::by_names(&same, &TreePath::root()).collect();
    let entered = steps.iter().filter(|step| matches!(step, Ok(Step::Enter(_)))).count();
    assert_eq!(entered, 2, "the root, whose number no directory says, and one of its own: {steps:?}");
}

#[test]
fn nothing_is_removed_beside_what_cannot_be_listed() {
    let sound = Endless { levels: 2, ..Endless::new(2) };
    assert_eq!(remove(&sound, &TreePath::root(), true), Ok(sound.removed.load(Ordering::Relaxed) as u64));
    assert!(sound.removed.load(Ordering::Relaxed) > 5);
    let damaged = Endless { levels: 2, damaged: Some(path("/1/1")), ..Endless::new(2) };
    let removed = remove(&damaged, &TreePath::root(), true);
    assert!(matches!(removed, Err(WalkError::Tree { .. })), "{removed:?}");
    assert_eq!(damaged.removed.load(Ordering::Relaxed), 0);
}

#[test]
fn links_on_the_host_that_lead_back_are_left_out() {
    let dir = Scratch::new();
    let from = dir.path("from");
    fs::create_dir_all(from.join("a/b")).expect("writable");
    for (link, target) in [("a/self", "."), ("a/b/up", "../.."), ("a/b/round", "round")] {
        std::os::unix::fs::symlink(target, from.join(link)).expect("links can be made");
    }
    let tree = open(Memory::new(fat(&dir.path("image"), &[], &[])));
    let copied = copy_in(&from, &*tree, &TreePath::root(), &ALL, &mut ()).expect("it ends");
    assert_eq!((copied.directories, copied.skipped, copied.files), (3, 3, 0));
}

#[test]
fn files_in_one_place_are_not_copied_to_more_than_the_filesystem_has() {
    let dir = Scratch::new();
    let (image, to) = (dir.path("image"), dir.path("to"));
    let names: Vec<String> = (0..20).map(|i| format!("F{i:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let bytes = fat(&image, &[], &names);
    let device = Memory::new(bytes);
    let tree = open(device.clone());
    write(&*tree, &path("BIG"), &pattern(2, 500_000)).expect("written");
    tree.flush().expect("flushed");
    let mut bytes = device.bytes();
    let big = entry(&bytes, "BIG");
    for name in names {
        let at = entry(&bytes, name);
        // The cluster and the size.
        bytes.copy_within(big..big + 6, at);
    }
    let tree = open(Memory::new(bytes));
    let options = CopyOptions { keep_going: true, ..ALL };
    let summary = copy_out(&*tree, &TreePath::root(), &to, &options, &mut ()).expect("as much as can be");
    assert_eq!((summary.files, summary.failed, summary.bytes), (2, 19, 1_000_000));
}

/// Zeros take no room on the host; but a FAT has no holes, and what it shows is more than it has.
#[test]
fn files_of_zeros_in_one_place_of_a_fat_are_not_copied_either() {
    let dir = Scratch::new();
    let device = Memory::new(fat(&dir.path("image"), &[], &["F00", "F01", "F02"]));
    let tree = open(device.clone());
    write(&*tree, &path("BIG"), &[0; 500_000]).expect("written");
    tree.flush().expect("flushed");
    let mut bytes = device.bytes();
    let big = entry(&bytes, "BIG");
    for name in ["F00", "F01", "F02"] {
        let at = entry(&bytes, name);
        bytes.copy_within(big..big + 6, at);
    }
    let tree = open(Memory::new(bytes));
    let options = CopyOptions { keep_going: true, ..ALL };
    let to = dir.path("to");
    let summary = copy_out(&*tree, &TreePath::root(), &to, &options, &mut ()).expect("as much as can be");
    assert_eq!((summary.files, summary.failed), (2, 2));
}

/// An ext4 of four megabytes with twenty files, one of which has two megabytes. `edit` is debugfs's, and may make others lead to its blocks.
fn ext4_with_a_large_file(dir: &Path, edit: &str) -> Vec<u8> {
    let (from, image, script) = (dir.join("from"), dir.join("image"), dir.join("script"));
    let _ = fs::remove_file(&image);
    fs::create_dir_all(&from).expect("writable");
    for i in 0..20 {
        fs::write(from.join(format!("f{i:02}")), pattern(i, 1000)).expect("writable");
    }
    fs::write(from.join("large"), pattern(3, 2_000_000)).expect("writable");
    // A file with room for little of what it shows.
    let sparse = fs::File::create(from.join("sparse")).expect("writable");
    sparse.set_len(1 << 30).expect("a hole");
    // A block in every four: with the holes between it is larger than the filesystem.
    let mut dotted = vec![0; 5 << 20];
    dotted.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    fs::write(from.join("dotted"), dotted).expect("writable");
    fs::write(&script, edit).expect("writable");
    run(
        "mke2fs",
        &[
            &"-q",
            &"-F",
            &"-t",
            &"ext4",
            &"-b",
            &"1024",
            &"-O",
            &"^has_journal,^metadata_csum,^inline_data",
            &"-d",
            &from,
            &image,
            &"4M",
        ],
    );
    run("debugfs", &[&"-w", &"-f", &script, &image]);
    fs::read(&image).expect("readable")
}

#[test]
fn files_of_an_ext4_with_the_same_blocks_are_not_copied_to_more_than_the_filesystem_has() {
    let dir = Scratch::new();
    // Where inodes lie: their contents are moved from one to another.
    let bytes = ext4_with_a_large_file(dir.as_path(), "");
    let map = |bytes: &[u8], large: usize, others: &[usize], links: u8| {
        let mut bytes = bytes.to_vec();
        for at in others {
            // Size, blocks, flags and the extents.
            for field in [4..8, 28..36, 40..100] {
                bytes.copy_within(large + field.start..large + field.end, at + field.start);
            }
            bytes[at + 26] = links;
        }
        bytes
    };
    let inode = |name: &str| {
        let shown = run("debugfs", &[&"-R", &format!("imap {name}"), &dir.path("image")]).stdout;
        let shown = String::from_utf8(shown).expect("text");
        let (block, offset) =
            shown.split_once("located at block ").expect(&shown).1.split_once(", offset ").expect("both");
        let offset = usize::from_str_radix(offset.trim().trim_start_matches("0x"), 16).expect("a number");
        block.parse::<usize>().expect("a number") * 1024 + offset
    };
    let names: Vec<String> = (0..20).map(|i| format!("f{i:02}")).collect();
    let others: Vec<usize> = names.iter().map(|name| inode(name)).collect();

    let whole = open(Memory::new(bytes.clone()));
    let copied =
        copy_out(&*whole, &TreePath::root(), &dir.path("whole"), &ALL, &mut ()).expect("it is sound");
    assert_eq!((copied.files, copied.failed), (23, 0), "a hole has no room, and takes none");

    for links in [1, 2] {
        let tree = open(Memory::new(map(&bytes, inode("large"), &others, links)));
        let to = |name: &str| dir.path(format!("{name}{links}"));
        let failed = copy_out(&*tree, &TreePath::root(), &to("to"), &ALL, &mut ());
        assert!(matches!(failed, Err(CopyError::LargerThanFilesystem { size: 0x40_0000, .. })), "{failed:?}");
        let options = CopyOptions { keep_going: true, ..ALL };
        let summary =
            copy_out(&*tree, &TreePath::root(), &to("all"), &options, &mut ()).expect("as much as can be");
        assert_eq!(summary.files + summary.failed, 23, "{summary:?}");
        assert!(summary.failed >= 18 && summary.bytes <= (1 << 30) + (9 << 20), "{summary:?}");
    }
}

/// A file has its room once, whatever its names are; but it has no more names than it counts.
#[test]
fn hard_links_of_an_ext4_are_all_copied_and_forged_ones_are_not() {
    let dir = Scratch::new();
    let links: String = (0..9).map(|i| format!("ln large link{i}\n")).collect();
    let counted = format!("{links}set_inode_field large links_count 10\n");
    let tree = open(Memory::new(ext4_with_a_large_file(dir.as_path(), &counted)));
    let copied = copy_out(&*tree, &TreePath::root(), &dir.path("sound"), &ALL, &mut ()).expect("it is sound");
    assert_eq!((copied.files, copied.failed), (32, 0));
    for count in [1, 2] {
        let forged = format!("{links}set_inode_field large links_count {count}\n");
        let tree = open(Memory::new(ext4_with_a_large_file(dir.as_path(), &forged)));
        let failed = copy_out(&*tree, &TreePath::root(), &dir.path(format!("forged{count}")), &ALL, &mut ());
        assert!(matches!(failed, Err(CopyError::LargerThanFilesystem { .. })), "{count}: {failed:?}");
    }
}
