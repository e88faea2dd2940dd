//! Damaged and hostile images: whatever they hold, we return, with an error or without.
//!
//! A seeded sample of what the fuzz targets do at length.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common::{Memory, exhaust, path, pattern, run, write};
use crate::ntfs::Mounted;
use atrest_filetree::TreePath;
use atrest_inside::{Access, open_tree};
use atrest_probe::partition::partitions;
use atrest_testkit::{Campaign, Random, Scratch};

/// Small images of every kind, with something in them.
fn images(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let from = dir.join("from");
    fs::create_dir_all(from.join("a/b")).expect("writable");
    for (name, len) in [("a/file", 3000), ("a/b/other file with a long name", 20_000), ("top", 90)] {
        fs::write(from.join(name), pattern(len as u64, len)).expect("writable");
    }
    std::os::unix::fs::symlink("a/b", from.join("link")).expect("links can be made");
    let image = dir.join("image");
    let mut images = Vec::new();
    for options in [
        "-t ext4 -b 1024 -N 32",
        "-t ext4 -b 1024 -N 32 -O ^metadata_csum,^has_journal",
        "-t ext4 -b 1024 -N 32 -O ^metadata_csum,inline_data,^has_journal",
        "-t ext2 -b 1024 -N 32",
    ] {
        let _ = fs::remove_file(&image);
        let mut args: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"-q", &"-F", &"-d", &from];
        let options_list: Vec<&str> = options.split_whitespace().collect();
        for option in &options_list {
            args.push(option);
        }
        args.extend([&image as &dyn AsRef<std::ffi::OsStr>, &"2M"]);
        run("mke2fs", &args);
        images.push((options.to_owned(), fs::read(&image).expect("readable")));
    }
    // One with a journal to replay, without checksums in the way.
    let _ = fs::remove_file(&image);
    run("mke2fs", &[&"-q", &"-F", &"-t", &"ext3", &"-b", &"1024", &"-d", &from, &image, &"3M"]);
    let block = dir.join("block");
    fs::write(&block, pattern(1, 2048)).expect("writable");
    let script = dir.join("script");
    fs::write(&script, format!("jo\njw -b 100,101 {}\njw -r 100\njw -b 102 {0}\njc\n", block.display()))
        .expect("writable");
    run("debugfs", &[&"-w", &"-f", &script, &image]);
    images.push(("ext3 with a journal".into(), fs::read(&image).expect("readable")));
    for (kib, options) in [("512", "-F12"), ("8300", "-F16"), ("33300", "-F32")] {
        let _ = fs::remove_file(&image);
        run("mkfs.vfat", &[&"-C", &"-s", &"1", &options, &image, &kib]);
        run("mcopy", &[&"-s", &"-i", &image, &from.join("a"), &from.join("top"), &"::/"]);
        images.push((format!("FAT {options}"), fs::read(&image).expect("readable")));
    }
    let mounted = dir.join("mounted");
    for name in ["NTFS", "exFAT"] {
        fs::File::create(&image).and_then(|file| file.set_len(2 << 20)).expect("writable");
        let mounted = match name {
            "NTFS" => {
                run("mkfs.ntfs", &[&"-F", &"-Q", &"-q", &"-c", &"512", &image]);
                Mounted::ntfs(&image, &mounted, "rw")
            }
            _ => {
                run("mkfs.exfat", &[&"-b", &"4K", &"-c", &"512", &image]);
                Mounted::exfat(&image, &mounted)
            }
        };
        run("cp", &[&"-r", &from.join("a"), &from.join("top"), &mounted.at()]);
        drop(mounted);
        images.push((name.into(), fs::read(&image).expect("readable")));
    }
    images
}

/// Changes a few bytes, where there is something more often than where there is nothing.
fn mutate(random: &mut Random, bytes: &mut [u8], used: &[usize]) {
    for _ in 0..1 + random.below(6) {
        let block = *random.pick(used) * 512;
        let at = (block + random.index(512)).min(bytes.len() - 8);
        let value = random.draw();
        match random.below(5) {
            0 => bytes[at] ^= 1 << (value % 8),
            1 => bytes[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes()),
            2 => bytes[at..at + 2].copy_from_slice(&[0xff, 0xff]),
            3 => bytes[at..at + 4].copy_from_slice(&(value as u32 % 5000).to_le_bytes()),
            _ => bytes[at] = value as u8,
        }
    }
}

/// All that a victim may do with an image.
fn use_it(bytes: Vec<u8>) -> usize {
    let device = Memory::new(bytes);
    let _ = partitions(&*device);
    let Ok(tree) = open_tree(device.clone(), Access::ReadWrite) else { return 0 };
    let seen = exhaust(&*tree);
    for name in ["a", "a/b", ""] {
        let name = path(name);
        let _ = write(&*tree, &name.join("new file").expect("valid"), &pattern(1, 3000));
        let _ = write(&*tree, &name.join("file").expect("valid"), &pattern(1, 5000));
        let _ = tree.write_at(&name.join("file").expect("valid"), 100, &pattern(1, 9000));
        let _ = tree.make_dir(&name.join("new directory").expect("valid"));
        let _ = tree.remove(&name.join("file").expect("valid"));
    }
    let _ = tree.flush();
    seen
}

#[test]
fn mutated_images_neither_panic_nor_hang() {
    let dir = Scratch::new();
    for (name, good) in images(dir.as_path()) {
        let used: Vec<usize> =
            good.chunks(512).enumerate().filter(|(_, c)| c.iter().any(|&b| b != 0)).map(|(i, _)| i).collect();
        assert!(use_it(good.clone()) >= 4, "{name}");
        let (mut opened, mut slowest) = (0, Duration::ZERO);
        Campaign::new("hostile images", 150, 4000).run(|_, random| {
            let mut bytes = good.clone();
            mutate(random, &mut bytes, &used);
            let started = Instant::now();
            let seen = use_it(bytes);
            slowest = slowest.max(started.elapsed());
            opened += u64::from(seen > 0);
            assert!(started.elapsed() < Duration::from_secs(30), "{name}: {:?}", started.elapsed());
        });
        println!("{name}: {opened} opened, slowest {slowest:?}");
        assert!(opened > 0, "{name}: no mutated image was ever opened");
    }
}

#[test]
fn truncated_images_end_with_an_error() {
    let dir = Scratch::new();
    for (name, good) in images(dir.as_path()) {
        let step = (good.len() / 40).max(1);
        for len in (0..600).step_by(37).chain((600..good.len()).step_by(step)) {
            let opened = open_tree(Memory::new(good[..len].to_vec()), Access::ReadOnly);
            assert!(opened.is_err(), "{name} cut to {len} bytes opens");
        }
    }
}

#[test]
fn every_failing_read_is_reported() {
    let dir = Scratch::new();
    for (name, good) in images(dir.as_path()) {
        let file = path("a/b/other file with a long name");
        for patience in 0..60 {
            let device = Memory::new(good.clone());
            device.patience.store(patience, Ordering::Relaxed);
            let result = open_tree(device.clone(), Access::ReadOnly).and_then(|tree| {
                tree.list(&TreePath::root()).and_then(|_| tree.read_to(&file, &mut |_| Ok(())))
            });
            match result {
                Err(atrest_filetree::TreeError::Device(_)) => {}
                Ok(20_000) => break,
                other => panic!("{name} after {patience} requests: {other:?}"),
            }
            assert!(patience < 59, "{name} never ends");
        }
    }
}
