//! Structures that end before their fields do. No missing byte reads as zero: the image is damaged, or it is none of ours.

use std::fs;
use std::path::Path;

use crate::common::{Memory, damage, path, run};
use atrest_filetree::TreeError;
use atrest_inside::{Damage, open_tree};
use atrest_probe::{FilesystemKind, detect};
use atrest_testkit::Scratch;

/// A filesystem of 2 MiB with one directory, `sub`, and one file, `sub/only`.
fn image(dir: &Path, options: &[&str]) -> std::path::PathBuf {
    let (from, image) = (dir.join("from"), dir.join("image"));
    fs::create_dir_all(from.join("sub")).expect("writable");
    fs::write(from.join("sub/only"), b"contents").expect("writable");
    let mut args: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"-q", &"-F", &"-d", &from, &"-b", &"1024"];
    options.iter().for_each(|option| args.push(option));
    args.extend([&image as &dyn AsRef<std::ffi::OsStr>, &"2M"]);
    run("mke2fs", &args);
    image
}

fn list(bytes: Vec<u8>) -> Result<usize, TreeError> {
    let tree = open_tree(Memory::new(bytes), atrest_inside::Access::ReadOnly)?;
    Ok(tree.list(&path("/sub"))?.len())
}

#[test]
fn a_directory_in_its_inode_has_room_for_its_entries() {
    let dir = Scratch::new();
    let image = image(dir.as_path(), &["-t", "ext4", "-O", "inline_data,^metadata_csum,^has_journal"]);
    assert_eq!(list(fs::read(&image).expect("readable")), Ok(1));
    // Shorter than the number of the parent and one entry. Read as an empty directory, all names would be gone.
    for size in [1, 3, 4, 5, 11] {
        run("debugfs", &[&"-w", &"-R", &format!("set_inode_field /sub size {size}"), &image]);
        let found = list(fs::read(&image).expect("readable"));
        assert!(matches!(damage(&found), Some(Damage::Directory { .. })), "{size} bytes: {found:?}");
    }
}

#[test]
fn the_entries_of_a_directory_fill_its_block() {
    let dir = Scratch::new();
    let image = image(dir.as_path(), &["-t", "ext2"]);
    let mut bytes = fs::read(&image).expect("readable");
    // The last entry of the directory: inode, length, length of the name, type, name.
    let name = bytes.windows(4).position(|found| found == b"only").expect("the name is in the image");
    let len = u16::from_le_bytes([bytes[name - 4], bytes[name - 3]]);
    assert_eq!((usize::from(len) + name - 8) % 1024, 0, "it is the last entry of the block");
    assert_eq!(list(bytes.clone()), Ok(1));
    // Four bytes are left behind it, in which no entry has room (kernel, `__ext4_check_dir_entry`).
    bytes[name - 4..name - 2].copy_from_slice(&(len - 4).to_le_bytes());
    let found = list(bytes);
    assert!(matches!(damage(&found), Some(Damage::Directory { .. })), "{found:?}");
}

#[test]
fn a_device_that_ends_inside_of_a_superblock_has_no_filesystem() {
    let dir = Scratch::new();
    let bytes = fs::read(image(dir.as_path(), &["-t", "ext4"])).expect("readable");
    assert_eq!(detect(&*Memory::new(bytes.clone())), Ok(Some(FilesystemKind::Ext4)));
    // With zeros in place of its features, an ext4 would be an ext2.
    for len in [1024 + 0x3a, 1024 + 0x60, 1024 + 0x66, 2047] {
        assert_eq!(detect(&*Memory::new(bytes[..len].to_vec())), Ok(None), "{len} bytes");
    }
    assert_eq!(detect(&*Memory::new(bytes[..2048].to_vec())), Ok(Some(FilesystemKind::Ext4)));
}

#[test]
fn nothing_is_read_behind_the_end_of_a_file_in_its_inode() {
    let dir = Scratch::new();
    let image = image(dir.as_path(), &["-t", "ext4", "-O", "inline_data,^has_journal"]);
    let tree = open_tree(Memory::load(&image), atrest_inside::Access::ReadOnly).expect("a tree");
    let mut buf = [0; 4];
    for (offset, len) in [(0, 4), (6, 2), (8, 0), (9, 0), (1000, 0), (u64::MAX, 0)] {
        assert_eq!(tree.read_at(&path("/sub/only"), offset, &mut buf), Ok(len), "at {offset}");
    }
}
