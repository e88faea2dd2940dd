//! FAT images made by mkfs.vfat and mtools, read and written by us, checked by fsck.vfat and read back by mtools.

use crate::common;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::common::{Keeps, Memory, assert_same, open, path, pattern, read, run, try_run, write};
use atrest_filetree::{CopyOptions, Kind, Timestamp, TreeError, TreePath, copy_in, copy_out};
use atrest_inside::Access;
use atrest_probe::FilesystemKind;
use atrest_testkit::Scratch;

const PLAIN: Keeps = Keeps { posix: false };

/// Size in KiB, options of mkfs.vfat, and what comes out.
const VARIANTS: [(&str, &str, FilesystemKind); 6] = [
    ("720", "", FilesystemKind::Fat12),
    ("8192", "-F 12", FilesystemKind::Fat12),
    ("20480", "-F 16", FilesystemKind::Fat16),
    ("20480", "-F 16 -S 4096 -s 1 -f 1", FilesystemKind::Fat16),
    ("40960", "-F 32", FilesystemKind::Fat32),
    ("70000", "-F 32 -S 1024 -s 1", FilesystemKind::Fat32),
];

fn mkfs(image: &Path, kib: &str, options: &str) {
    let _ = fs::remove_file(image);
    let options: Vec<&str> = options.split_whitespace().collect();
    let mut args: Vec<&dyn AsRef<OsStr>> = vec![&"-C", &"-n", &"LABEL"];
    for option in &options {
        args.push(option);
    }
    args.extend([&image as &dyn AsRef<OsStr>, &kib]);
    run("mkfs.vfat", &args);
}

/// fsck.vfat finds nothing to repair.
fn assert_clean(device: &Memory, image: &Path) {
    device.store(image);
    let output = try_run("fsck.vfat", &[&"-n", &"-v", &image]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.is_ok(), "fsck.vfat finds:\n{text}");
    for complaint in
        ["Dirty bit", "wrong", "does not match", "differences", "Unclean", "Free cluster summary"]
    {
        assert!(!text.contains(complaint), "fsck.vfat finds:\n{text}");
    }
}

fn sample(root: &Path) {
    fs::create_dir_all(root.join("sub dir/second/third")).expect("writable");
    for (name, len) in [
        ("EMPTY", 0),
        ("ONE.TXT", 1),
        ("lower.txt", 511),
        ("A mixed Case name that is long.jpeg", 2048),
        ("sub dir/cluster.bin", 4096),
        ("sub dir/cluster+1.bin", 4097),
        ("sub dir/second/bigger.dat", 150_000),
        ("sub dir/second/third/ümläut – ∑.txt", 70_001),
    ] {
        fs::write(root.join(name), pattern(len as u64, len)).expect("writable");
    }
    for i in 0..90 {
        fs::write(root.join(format!("sub dir/second/third/numbered file {i:03}")), format!("{i}"))
            .expect("writable");
    }
}

#[test]
fn files_written_by_mtools_read_the_same() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    fs::create_dir(&from).expect("writable");
    sample(&from);
    // mtools would need to be told the character set.
    fs::remove_file(from.join("sub dir/second/third/ümläut – ∑.txt")).expect("there");
    for (kib, options, kind) in VARIANTS {
        println!("{kib} {options}");
        mkfs(&image, kib, options);
        for entry in fs::read_dir(&from).expect("a directory") {
            run("mcopy", &[&"-s", &"-m", &"-i", &image, &entry.expect("readable").path(), &"::/"]);
        }
        let device = Memory::load(&image);
        let before = device.bytes();
        let tree = open(device.clone());
        assert_eq!((tree.about().name, &tree.about().label[..]), (kind.name(), &b"LABEL"[..]));
        assert_same(&*tree, "", &from, PLAIN);
        let modified = fs::metadata(from.join("ONE.TXT")).and_then(|m| m.modified()).expect("a time");
        let modified = modified.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
        assert_eq!(
            tree.metadata(&path("one.txt")).expect("case is ignored").modified.seconds as u64,
            modified & !1
        );
        tree.flush().expect("nothing to do");
        drop(tree);
        assert!(device.bytes() == before, "reading has written");
    }
}

#[test]
fn what_we_write_checks_clean_and_mtools_reads_it() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    fs::create_dir(&from).expect("writable");
    sample(&from);
    run("touch", &[&"-d", &"2019-08-07 06:05:04", &from.join("ONE.TXT")]);
    for (kib, options, _) in VARIANTS {
        println!("{kib} {options}");
        mkfs(&image, kib, options);
        let device = Memory::load(&image);
        let tree = open(device.clone());
        let all =
            CopyOptions { recursive: true, overwrite: false, preserve_permissions: true, keep_going: false };
        let summary = copy_in(&from, &*tree, &path("copied"), &all, &mut ()).expect("it fits");
        assert_eq!((summary.files, summary.directories, summary.skipped), (98, 4, 0));
        assert_same(&*tree, "copied", &from, PLAIN);
        assert_clean(&device, &image);
        let again = copy_in(&from.join("ONE.TXT"), &*tree, &path("copied"), &all, &mut ());
        assert!(again.is_err(), "a file was overwritten unasked");

        let back = dir.path("back");
        fs::create_dir(&back).expect("writable");
        run("mcopy", &[&"-s", &"-m", &"-i", &image, &"::/copied", &back]);
        for relative in common::walk(&from) {
            let (ours, theirs) = (from.join(&relative), back.join("copied").join(&relative));
            if ours.is_file() && ours.to_string_lossy().is_ascii() {
                assert!(
                    fs::read(&ours).expect("readable") == fs::read(&theirs).expect("mtools found it"),
                    "{theirs:?}"
                );
            }
        }
        let time = fs::metadata(back.join("copied/ONE.TXT")).and_then(|m| m.modified()).expect("a time");
        assert_eq!(time.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs(), 1_565_157_904);
        fs::remove_dir_all(back).expect("removable");

        // A second opening finds the same, and out of it comes what went in.
        drop(tree);
        let tree = open(device.clone());
        let out = dir.path("out");
        copy_out(&*tree, &path("copied"), &out, &all, &mut ()).expect("it copies");
        assert_same(&*tree, "copied", &out, PLAIN);
        assert_eq!(common::walk(&out).len(), common::walk(&from).len());
        fs::remove_dir_all(out).expect("removable");
    }
}

#[test]
fn changes_in_place_leave_a_clean_filesystem() {
    let dir = Scratch::new();
    let image = dir.path("image");
    for (kib, options, _) in VARIANTS {
        println!("{kib} {options}");
        mkfs(&image, kib, options);
        let device = Memory::load(&image);
        let tree = open(device.clone());
        tree.make_dir(&path("d")).expect("made");
        assert_eq!(tree.make_dir(&path("D")), Err(TreeError::Exists));
        tree.make_dir(&path("d/inner")).expect("made");
        let mut model = pattern(1, 100_000);
        write(&*tree, &path("d/file"), &model).expect("written");
        // Grow, overwrite across a cluster border, cut, empty, fill again.
        tree.write_at(&path("d/file"), 100_000, &pattern(2, 20_000)).expect("appended");
        model.extend_from_slice(&pattern(2, 20_000));
        tree.write_at(&path("d/file"), 4000, &pattern(3, 9000)).expect("overwritten");
        model[4000..13_000].copy_from_slice(&pattern(3, 9000));
        assert!(read(&*tree, &path("d/file")) == model);
        assert_eq!(
            tree.write_at(&path("d/file"), 120_001, b"x"),
            Err(TreeError::BeyondEnd { size: 120_000 })
        );
        for size in [65_536, 65_000, 1, 0] {
            tree.truncate(&path("d/file"), size).expect("cut");
            model.truncate(size as usize);
            assert!(read(&*tree, &path("d/file")) == model);
        }
        write(&*tree, &path("d/file"), &pattern(4, 50_000)).expect("written again");
        write(&*tree, &path("D/FILE"), &pattern(5, 10_000)).expect("replaced");
        assert!(read(&*tree, &path("d/file")) == pattern(5, 10_000));
        let time = Timestamp { seconds: 1_000_000_000, nanoseconds: 0 };
        tree.set_modified(&path("d/file"), time).expect("set");
        assert_eq!(tree.metadata(&path("d/file")).expect("there").modified, time);
        assert_eq!(tree.remove(&path("d")), Err(TreeError::NotEmpty));
        for i in 0..40 {
            write(&*tree, &path(&format!("d/a rather long name of a file {i}")), &pattern(i, 700))
                .expect("written");
        }
        for i in 0..40 {
            tree.remove(&path(&format!("d/a rather long name of a file {i}"))).expect("removed");
        }
        tree.remove(&path("d/inner")).expect("removed");
        tree.flush().expect("flushed");
        assert!(device.flushes.load(Ordering::Relaxed) > 0);
        assert_clean(&device, &image);
        let names: Vec<_> =
            tree.list(&path("d")).expect("a directory").into_iter().map(|e| (e.name, e.kind)).collect();
        assert_eq!(names, [(b"file".to_vec(), Kind::File)]);
        tree.remove(&path("d/file")).expect("removed");
        tree.remove(&path("d")).expect("removed");
        tree.flush().expect("flushed");
        assert_clean(&device, &image);
        assert_eq!(tree.list(&TreePath::root()).expect("a directory"), []);
    }
}

#[test]
fn a_full_filesystem_says_so_keeps_what_it_had_and_stays_clean() {
    let dir = Scratch::new();
    let image = dir.path("image");
    for (kib, options, _) in [VARIANTS[0], VARIANTS[2], VARIANTS[4]] {
        mkfs(&image, kib, options);
        let device = Memory::load(&image);
        let tree = open(device.clone());
        write(&*tree, &path("kept"), &pattern(1, 100_000)).expect("written");
        let size = device.bytes().len();
        assert_eq!(write(&*tree, &path("too large"), &pattern(2, size)), Err(TreeError::NoSpace));
        assert_eq!(tree.metadata(&path("too large")).map(|m| m.size), Err(TreeError::NotFound));
        tree.flush().expect("flushed");
        assert_clean(&device, &image);
        assert!(read(&*tree, &path("kept")) == pattern(1, 100_000));
        // A successor that does not fit leaves the file as it was.
        assert_eq!(write(&*tree, &path("kept"), &pattern(2, size)), Err(TreeError::NoSpace));
        tree.flush().expect("flushed");
        assert_clean(&device, &image);
        assert!(read(&*tree, &path("kept")) == pattern(1, 100_000));
        // The room is there again.
        write(&*tree, &path("fits"), &pattern(3, size / 2)).expect("written");
        assert!(read(&*tree, &path("fits")) == pattern(3, size / 2));
        tree.flush().expect("flushed");
        assert_clean(&device, &image);
    }
    // The root directory of FAT12 holds 112 entries on this image.
    mkfs(&image, "720", "");
    let device = Memory::load(&image);
    let tree = open(device.clone());
    let full = (0..200).find_map(|i| write(&*tree, &path(&format!("FILE{i}")), b"").err());
    assert_eq!(full, Some(TreeError::NoSpace));
    tree.flush().expect("flushed");
    assert_clean(&device, &image);
}

#[test]
fn names_that_fat_cannot_hold_and_misplaced_operations_have_errors_of_their_own() {
    let dir = Scratch::new();
    let image = dir.path("image");
    mkfs(&image, "8192", "-F 12");
    let device = Memory::load(&image);
    let tree = open(device.clone());
    for name in ["a:b", "a*b", "a?b", "q\"q", "a\\b", "pipe|", "trailing.", "trailing ", "x\u{1}y"] {
        let result = write(&*tree, &path(name), b"");
        assert_eq!(result, Err(TreeError::UnsupportedName { len: name.len() }), "{name}");
    }
    let bytes = TreePath::parse(b"not\xffutf8".as_slice()).expect("valid");
    assert_eq!(write(&*tree, &bytes, b""), Err(TreeError::UnsupportedName { len: 8 }));
    assert_eq!(write(&*tree, &path("a/b"), b""), Err(TreeError::NotFound));
    assert_eq!(write(&*tree, &TreePath::root(), b""), Err(TreeError::IsADirectory));
    write(&*tree, &path("file"), b"x").expect("written");
    assert_eq!(write(&*tree, &path("file/b"), b""), Err(TreeError::NotADirectory));
    assert_eq!(tree.read_link(&path("file")), Err(TreeError::NotALink));
    assert_eq!(tree.list(&path("file")), Err(TreeError::NotADirectory));
    assert_eq!(tree.read_at(&path("file"), 1, &mut [0; 4]), Ok(0));
    assert_eq!(tree.remove(&path("nothing")), Err(TreeError::NotFound));
    tree.flush().expect("flushed");
    assert_clean(&device, &image);

    let read_only = atrest_inside::open_tree(Memory::load(&image), Access::ReadOnly).expect("it opens");
    assert_eq!(write(&*read_only, &path("new"), b""), Err(TreeError::ReadOnly));
    assert_eq!(read_only.remove(&path("file")), Err(TreeError::ReadOnly));
    assert!(!read_only.about().writable);
}

#[test]
fn a_failing_device_is_reported_as_such_and_nothing_is_written_after_it() {
    let dir = Scratch::new();
    let image = dir.path("image");
    mkfs(&image, "20480", "-F 16");
    let device = Memory::load(&image);
    let tree = open(device.clone());
    write(&*tree, &path("file"), &pattern(1, 10_000_000)).expect("written");
    device.patience.store(2, Ordering::Relaxed);
    let failed = write(&*tree, &path("second"), &pattern(2, 9_000_000));
    assert!(matches!(failed, Err(TreeError::Device(_))), "{failed:?}");
    device.patience.store(u64::MAX, Ordering::Relaxed);
    let before = device.bytes();
    assert_eq!(write(&*tree, &path("third"), b"x"), Err(TreeError::EarlierWriteFailed));
    assert_eq!(tree.flush(), Err(TreeError::EarlierWriteFailed));
    drop(tree);
    assert!(device.bytes() == before, "something was written after the failure");

    // Removing meets a failure at each request in turn.
    let device = Memory::load(&image);
    let tree = open(device.clone());
    for i in 0..3 {
        write(&*tree, &path(&format!("f{i}")), &pattern(i, 5_000_000)).expect("written");
    }
    tree.flush().expect("flushed");
    drop(tree);
    let good = device.bytes();
    for patience in 0..40 {
        let device = Memory::new(good.clone());
        let tree = open(device.clone());
        device.patience.store(patience, Ordering::Relaxed);
        let removed = tree.remove(&path("f1"));
        device.patience.store(u64::MAX, Ordering::Relaxed);
        assert!(removed.is_ok() || matches!(removed, Err(TreeError::Device(_))), "{removed:?}");
        let flushed = tree.flush();
        if removed.is_ok() && patience > 0 {
            assert_eq!(flushed, Ok(()));
            assert_clean(&device, &image);
            return;
        }
    }
    panic!("removing needs more than 40 requests");
}

#[test]
fn no_more_clusters_are_free_than_there_are() {
    let dir = Scratch::new();
    let (image, file) = (dir.path("image"), dir.path("file"));
    mkfs(&image, "40960", "-F 32 -s 1");
    fs::write(&file, pattern(1, 100_000)).expect("written");
    run("mcopy", &[&"-i", &image, &file, &"::/file"]);
    let mut bytes = fs::read(&image).expect("readable");
    let tree = open(Memory::new(bytes.clone()));
    let blocks = u32::try_from(tree.space().expect("counted").blocks).expect("clusters");
    // The information sector says that all are free, though a file has some.
    bytes[512 + 488..512 + 492].copy_from_slice(&blocks.to_le_bytes());
    let tree = atrest_inside::open_tree(Memory::new(bytes), Access::ReadWrite).expect("a tree");
    tree.remove(&path("/file")).expect("removed");
    tree.flush().expect("flushed");
    assert_eq!(tree.space().expect("counted").free, u64::from(blocks));
}
