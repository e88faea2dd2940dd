//! ext4 images that we build, judged by e2fsck, read by debugfs and by our own reader.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::SystemTime;

use crate::common::{Keeps, Memory, assert_same, open, pattern, run, sample_tree};
use atrest_filetree::{CopyProgress, Kind, TreePath};
use atrest_inside::{BuildError, BuildOptions, BuildSummary, Source, build_image};
use atrest_testkit::{Scratch, wait_until};

const POSIX: Keeps = Keeps { posix: true };
const UUID: &str = "6f1e5a3c-0f0b-4b57-9d53-0a4a4b6a8e11";

fn build(from: &Path, image: &Path, options: &BuildOptions) -> Result<BuildSummary, BuildError> {
    build_image(&Source::scan(from, None)?, image, options, &mut ())
}

/// Fails unless e2fsck finds nothing to say.
fn check(image: &Path) {
    run("e2fsck", &[&"-fn", &image]);
}

/// What debugfs says to one command.
fn debugfs(image: &Path, command: &str) -> String {
    String::from_utf8_lossy(&run("debugfs", &[&"-R", &command, &image]).stdout).into_owned()
}

#[test]
fn a_tree_is_built_with_everything_in_it() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    sample_tree(&from);
    fs::hard_link(from.join("large"), from.join("deep/er/second name")).expect("linked");
    for (name, value) in [("user.short", &b"v"[..]), ("user.long", &pattern(9, 2500)), ("user.empty", b"")] {
        rustix::fs::setxattr(from.join("large"), name, value, rustix::fs::XattrFlags::empty())
            .expect("an attribute is set");
    }
    // An extent tree of two levels: every second block is a hole.
    let holes = fs::File::create(from.join("holes")).expect("created");
    for i in 0..900_u64 {
        holes.write_all_at(&pattern(i, 4096), i * 8192).expect("written");
    }
    let built = build(&from, &image, &BuildOptions::default()).expect("built");
    check(&image);
    assert_same(&*open(Memory::load(&image)), "/", &from, POSIX);
    assert_eq!((built.links, built.special, built.encrypted), (2, 1, 0));
    assert_eq!(built.size, fs::metadata(&image).expect("there").len());

    let attributes = debugfs(&image, "ea_list large");
    for name in ["user.short (1)", "user.long (2500)", "user.empty (0)"] {
        assert!(attributes.contains(name), "{name} in {attributes}");
    }
    let stat = debugfs(&image, "stat large");
    assert!(stat.contains("Links: 2"), "{stat}");
    // The same blocks are data, and no others.
    let stat = debugfs(&image, "stat holes");
    // 900 blocks, and a tree that has three of 340 entries each, in 512 bytes.
    assert!(stat.contains("Blockcount: 7224"), "{stat}");
    let dump = dir.path("dump");
    for name in ["holes", "large", "many/file number 0699", "sparse"] {
        run("debugfs", &[&"-R", &format!("dump \"{name}\" {}", dump.display()), &image]);
        let same = fs::read(&dump).expect("dumped") == fs::read(from.join(name)).expect("readable");
        assert!(same, "debugfs reads other contents of {name}");
    }
}

#[test]
fn files_and_directories_reach_over_many_groups() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    fs::create_dir_all(from.join("wide")).expect("made");
    for i in 0..9000 {
        fs::write(from.join(format!("wide/a name of medium length, number {i}")), [1; 3]).expect("written");
    }
    // Longer than an extent can be, and than what a group has left.
    let mut large = fs::File::create(from.join("large")).expect("created");
    for seed in 0..150 {
        large.write_all(&pattern(seed, 1 << 20)).expect("written");
    }
    let options = BuildOptions { size: Some(700 << 20), ..BuildOptions::default() };
    build(&from, &image, &options).expect("built");
    check(&image);
    assert_same(&*open(Memory::load(&image)), "/", &from, POSIX);
}

#[test]
fn a_tree_lies_in_a_directory_of_the_image() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    sample_tree(&from);
    let source = Source::scan(&from, Some(b"inner")).expect("scanned");
    build_image(&source, &image, &BuildOptions::default(), &mut ()).expect("built");
    check(&image);
    let tree = open(Memory::load(&image));
    assert_same(&*tree, "/inner", &from, POSIX);
    let mut names: Vec<_> =
        tree.list(&TreePath::root()).expect("listed").into_iter().map(|entry| entry.name).collect();
    names.sort();
    assert_eq!(names, [b"inner".to_vec(), b"lost+found".to_vec()]);
}

#[test]
fn two_builds_with_one_uuid_and_time_are_alike() {
    let dir = Scratch::new();
    let from = dir.path("from");
    sample_tree(&from);
    let options =
        BuildOptions { uuid: Some(UUID.into()), time: Some(1_500_000_000), ..BuildOptions::default() };
    let images = ["a", "b"].map(|name| {
        let image = dir.path(name);
        build(&from, &image, &options).expect("built");
        check(&image);
        // Access times change between the two, and it is another second for mke2fs.
        let now = || SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970").as_secs();
        let built = now();
        wait_until("the next second has begun", || now() > built);
        fs::read(&image).expect("read")
    });
    assert!(images[0] == images[1], "the images differ");
    let stat = debugfs(&dir.path("a"), "stat block");
    assert!(stat.contains("mtime: 0x59682f00"), "a later time is cut off: {stat}");
}

/// Does something to the source when a file is begun.
struct Meddler<F: FnMut()>(&'static str, F);

impl<F: FnMut()> CopyProgress for Meddler<F> {
    fn started(&mut self, path: &TreePath, _kind: Kind, _size: u64) {
        if path.to_string() == self.0 {
            (self.1)();
        }
    }
}

#[test]
fn a_build_that_fails_leaves_nothing_and_touches_nothing() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    sample_tree(&from);
    let only_source = |case: &str| {
        let names: Vec<_> = fs::read_dir(dir.as_path())
            .expect("listed")
            .map(|entry| entry.expect("listed").file_name())
            .collect();
        assert_eq!(names, ["from"], "{case}");
    };

    // 8 MiB have a place for a journal but not for the tree.
    let small = BuildOptions { size: Some(8 << 20), ..BuildOptions::default() };
    assert_eq!(build(&from, &image, &small), Err(BuildError::NoSpace { size: 8 << 20 }));
    only_source("no space");
    let tiny = BuildOptions { size: Some(4096), ..BuildOptions::default() };
    assert!(matches!(build(&from, &image, &tiny), Err(BuildError::Mke2fs { .. })));
    only_source("smaller than a filesystem");

    let file = from.join("large");
    let grown = || {
        let mut file = fs::OpenOptions::new().append(true).open(&file).expect("opened");
        file.write_all(b"more").expect("written");
    };
    let shrunk = || fs::OpenOptions::new().write(true).open(&file).expect("opened").set_len(77).expect("cut");
    let replaced = || {
        fs::remove_file(&file).expect("removed");
        fs::write(&file, b"another").expect("written");
    };
    let linked = || {
        fs::remove_file(&file).expect("removed");
        std::os::unix::fs::symlink("/etc/passwd", &file).expect("linked");
    };
    let gone = || fs::remove_file(&file).expect("removed");
    let changes: [(&str, &dyn Fn()); 5] = [
        ("grown", &grown),
        ("shrunk", &shrunk),
        ("replaced", &replaced),
        ("linked", &linked),
        ("gone", &gone),
    ];
    for (case, change) in changes {
        let source = Source::scan(&from, None).expect("scanned");
        let failed = build_image(&source, &image, &BuildOptions::default(), &mut Meddler("/large", change));
        assert_eq!(failed, Err(BuildError::SourceChanged { path: file.clone() }), "{case}");
        only_source(case);
        let _ = fs::remove_file(&file);
        fs::write(&file, pattern(4, 100_000)).expect("written");
    }

    fs::write(from.join("lost+found"), b"").expect("written");
    let taken = BuildError::LostAndFound { path: from.join("lost+found") };
    assert_eq!(build(&from, &image, &BuildOptions::default()), Err(taken));
    only_source("lost+found");
    fs::remove_file(from.join("lost+found")).expect("removed");

    fs::write(&image, b"somebody else's").expect("written");
    let exists = BuildError::Host { path: image.clone(), errno: 17 };
    assert_eq!(build(&from, &image, &BuildOptions::default()), Err(exists));
    let replace = BuildOptions { replace: true, size: Some(4096), ..BuildOptions::default() };
    assert!(build(&from, &image, &replace).is_err());
    assert_eq!(fs::read(&image).expect("read"), b"somebody else's");
    let replace = BuildOptions { replace: true, ..BuildOptions::default() };
    build(&from, &image, &replace).expect("built");
    check(&image);
}
