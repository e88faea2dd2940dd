//! Contents of ext4 overwritten in place, judged by e2fsck and debugfs.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::common::{Memory, path, pattern, read, run, sample_tree};
use atrest_filetree::{CopyError, CopyOptions, FileTree, Timestamp, TreeError, copy_in};
use atrest_inside::{Access, Feature, open_tree};
use atrest_testkit::{Random, Scratch};

fn image(dir: &Path, options: &str) -> Arc<Memory> {
    let (from, image) = (dir.join("from"), dir.join("image"));
    if !from.exists() {
        sample_tree(&from);
    }
    let _ = fs::remove_file(&image);
    let mut args: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"-q", &"-F"];
    let options: Vec<&str> = options.split_whitespace().collect();
    options.iter().for_each(|option| args.push(option));
    args.extend([&"-d" as &dyn AsRef<std::ffi::OsStr>, &from, &image, &"24M"]);
    run("mke2fs", &args);
    Memory::load(&image)
}

fn open(device: &Arc<Memory>) -> Box<dyn FileTree> {
    open_tree(device.clone(), Access::ReadWrite).expect("the filesystem opens")
}

/// Stores the image and has e2fsck look at it.
fn check(device: &Memory, dir: &Path) {
    let image = dir.join("image");
    device.store(&image);
    run("e2fsck", &[&"-fn", &image]);
}

#[test]
fn contents_are_overwritten_wherever_a_part_begins_and_ends() {
    let dir = Scratch::new();
    for options in ["-t ext4", "-t ext4 -b 1024", "-t ext2 -b 2048", "-t ext4 -O ^metadata_csum -I 512"] {
        let device = image(dir.as_path(), options);
        let tree = open(&device);
        assert!(tree.overwrites() && !tree.about().writable);
        let mut random = Random::new(7);
        for name in ["large", "block", "block+1", "block-1"] {
            let file = path(name);
            let mut expected = read(&*tree, &file);
            for round in 0..40 {
                let at = random.index(expected.len() + 1);
                let len = random
                    .index((expected.len() - at).min(if round % 4 == 0 { usize::MAX } else { 9000 }) + 1);
                let data = pattern(round, len);
                tree.write_at(&file, at as u64, &data).expect("overwritten");
                expected[at..at + len].copy_from_slice(&data);
                assert!(read(&*tree, &file) == expected, "{name}, {options}: {len} bytes at {at}");
            }
            tree.set_modified(&file, Timestamp { seconds: 1_600_000_000, nanoseconds: 5 }).expect("set");
            tree.flush().expect("flushed");
            assert!(read(&*open(&device), &file) == expected, "{name} is stored");
            check(&device, dir.as_path());
            let dump = dir.path("dump");
            run("debugfs", &[&"-R", &format!("dump {name} {}", dump.display()), &dir.path("image")]);
            assert!(fs::read(&dump).expect("dumped") == expected, "debugfs reads {name}");
            let stat = run("debugfs", &[&"-R", &format!("stat {name}"), &dir.path("image")]);
            let stat = String::from_utf8_lossy(&stat.stdout).into_owned();
            assert!(stat.contains("mtime: 0x5f5e1000"), "{stat}");
        }
    }
}

#[test]
fn what_would_need_allocation_is_refused_before_anything_is_written() {
    let dir = Scratch::new();
    let device = image(dir.as_path(), "-t ext4 -b 4096");
    let before = device.bytes();
    let tree = open(&device);
    let refused = |name: &str, at: u64, len: usize| tree.write_at(&path(name), at, &pattern(1, len));
    assert_eq!(refused("block", 1, 4096), Err(TreeError::CannotGrow { size: 4096 }));
    assert_eq!(refused("block", 4097, 0), Err(TreeError::CannotGrow { size: 4096 }));
    assert_eq!(refused("block", u64::MAX, 2), Err(TreeError::CannotGrow { size: 4096 }));
    // The first MiB is a hole, and the write would begin before it ends.
    assert_eq!(
        refused("sparse", (1 << 20) - 5, 10),
        Err(TreeError::NotAllocated { offset: (1 << 20) - 4096 })
    );
    assert_eq!(refused("sparse", 1 << 20, 9000), Err(TreeError::NotAllocated { offset: (1 << 20) + 8192 }));
    assert_eq!(refused("deep", 0, 1), Err(TreeError::IsADirectory));
    assert_eq!(refused("pipe", 0, 1), Err(TreeError::NotAFile));
    assert_eq!(refused("nothing", 0, 1), Err(TreeError::NotFound));
    assert_eq!(tree.truncate(&path("block"), 0), Err(TreeError::ReadOnly));
    assert!(device.bytes() == before, "something was written");

    let read_only = open_tree(device.clone(), Access::ReadOnly).expect("opened");
    assert!(!read_only.overwrites());
    assert_eq!(read_only.write_at(&path("block"), 0, b"x"), Err(TreeError::ReadOnly));
}

#[test]
fn what_forbids_writing_is_obeyed() {
    let dir = Scratch::new();
    // What debugfs does to the image, and what is said then.
    let cases = [
        ("set_inode_field block flags 0x80010", TreeError::Protected),
        ("set_inode_field block flags 0x80020", TreeError::Protected),
        ("set_inode_field block flags 0x180000", TreeError::Protected),
        ("feature needs_recovery", TreeError::NotClean),
        ("set_super_value state 0", TreeError::NotClean),
        ("set_super_value state 3", TreeError::NotClean),
        ("feature shared_blocks", Feature::ExtRoCompat(0x4000).into()),
    ];
    for (command, error) in cases {
        image(dir.as_path(), "-t ext4 -b 4096");
        run("debugfs", &[&"-w", &"-R", &command, &dir.path("image")]);
        let device = Memory::load(&dir.path("image"));
        let before = device.bytes();
        let tree = open(&device);
        assert_eq!(tree.write_at(&path("block"), 0, b"x"), Err(error.clone()), "{command}");
        let time = Timestamp { seconds: 1, nanoseconds: 0 };
        assert_eq!(tree.set_modified(&path("block"), time), Err(error), "{command}");
        assert!(device.bytes() == before, "{command}: something was written");
    }
}

#[test]
fn a_copy_takes_the_place_of_a_file_of_the_same_size() {
    let dir = Scratch::new();
    let device = image(dir.as_path(), "-t ext4 -b 4096");
    let tree = open(&device);
    let source = dir.path("new");
    let copy = |len: usize, to: &str, overwrite: bool| {
        fs::write(&source, pattern(77, len)).expect("written");
        run("touch", &[&"-d", &"2011-12-13 14:15:16", &source]);
        let options = CopyOptions { overwrite, ..CopyOptions::default() };
        copy_in(&source, &*tree, &path(to), &options, &mut ())
    };
    let refused = |to: &str, error: TreeError| Err(CopyError::Tree { path: path(to), error });
    let before = device.bytes();
    assert_eq!(copy(3_000_001, "large", false), refused("large", TreeError::Exists));
    let sizes = TreeError::OtherSize { size: 3_000_001, wanted: 3_000_000 };
    assert_eq!(copy(3_000_000, "large", true), refused("large", sizes));
    assert_eq!(copy(10, "not-there", true), refused("not-there", TreeError::ReadOnly));
    assert!(device.bytes() == before, "something was written");

    assert_eq!(copy(3_000_001, "large", true).expect("copied").bytes, 3_000_001);
    check(&device, dir.as_path());
    let tree = open(&device);
    assert!(read(&*tree, &path("large")) == pattern(77, 3_000_001));
    assert_eq!(tree.metadata(&path("large")).expect("there").modified.seconds, 1_323_785_716);
}

#[test]
fn a_power_loss_leaves_every_block_old_or_new() {
    let dir = Scratch::new();
    let device = image(dir.as_path(), "-t ext4 -b 4096");
    let old = read(&*open(&device), &path("large"));
    let new = pattern(99, 2_500_000);
    let fresh = device.bytes();
    for writes in 0..6 {
        let device = Memory::new(fresh.clone());
        let tree = open(&device);
        // The path is known by now, so that what fails is the overwriting.
        tree.read_at(&path("large"), 0, &mut [0; 1]).expect("read");
        device.patience.store(writes, std::sync::atomic::Ordering::Relaxed);
        let whole = tree.write_at(&path("large"), 1234, &new).is_ok();
        device.patience.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
        let found = read(&*open(&device), &path("large"));
        let mut expected = old.clone();
        expected[1234..1234 + new.len()].copy_from_slice(&new);
        for (i, block) in found.chunks(4096).enumerate() {
            let part = i * 4096..i * 4096 + block.len();
            assert!(
                block == &old[part.clone()] || block == &expected[part],
                "block {i} after {writes} requests"
            );
        }
        assert_eq!(whole, found == expected);
        check(&device, dir.as_path());
    }
}
