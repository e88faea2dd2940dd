//! File systems in partitions, and file systems that are not read here.

use std::fs;
use std::path::Path;

use crate::common::{Memory, path, read, run};
use atrest_device::BlockDevice;
use atrest_filetree::TreeError;
use atrest_inside::{ChoiceError, Unsupported, filesystem_device, open_tree};
use atrest_probe::partition::partitions;
use atrest_probe::{FilesystemKind, Window, detect};
use atrest_testkit::{Random, Scratch};

/// An EFI system partition of 3 MiB, and a third partition behind it.
fn gpt(image: &Path) -> Vec<u8> {
    fs::write(image, vec![0; 16 << 20]).expect("writable");
    run("sgdisk", &[&"-o", &"-n1:2048:+3M", &"-t1:ef00", &"-c1:EFI ∑ystem", &"-n3:0:0", &"-c3:root", &image]);
    fs::read(image).expect("readable")
}

#[test]
fn a_filesystem_inside_a_partition_opens_through_a_window() {
    let dir = Scratch::new();
    let (image, part) = (dir.path("image"), dir.path("part"));
    let mut disk = gpt(&image);
    run("mkfs.vfat", &[&"-C", &part, &"3072"]);
    let file = dir.path("hello.txt");
    fs::write(&file, "hello").expect("writable");
    run("mcopy", &[&"-i", &part, &file, &"::/"]);
    disk[1 << 20..4 << 20].copy_from_slice(&fs::read(&part).expect("readable"));
    let device = Memory::new(disk);
    let table = partitions(&*device).expect("readable").expect("there");
    let partition = &table.partitions[0];
    let window = Window::new(device.clone(), partition.start, partition.len).expect("inside");
    assert!(window.write_at(window.size() - 1, b"xx").is_err(), "a write left the window");
    assert!(window.read_at(u64::MAX, &mut [0; 2]).is_err());
    let tree = open_tree(std::sync::Arc::new(window), atrest_inside::Access::ReadOnly).expect("it opens");
    assert_eq!(read(&*tree, &path("hello.txt")), b"hello");
    // The filesystem itself holds no partitions, though its boot sector ends like an MBR.
    let window = Window::new(device.clone(), partition.start, partition.len).expect("inside");
    assert_eq!(partitions(&window), Ok(None));
    assert!(Window::new(device.clone(), (16 << 20) - 512, 1024).is_err());

    // It is the only one here, so nobody has to choose it; the other can be chosen all the same.
    let chosen = |number| filesystem_device(device.clone(), number);
    assert_eq!(chosen(None).expect("the only one").size(), 3 << 20);
    assert_eq!(chosen(Some(1)).expect("the same").size(), 3 << 20);
    assert_eq!(chosen(Some(3)).expect("there").size(), table.partitions[1].len);
    let absent = chosen(Some(2)).err().expect("not there");
    assert!(matches!(absent, ChoiceError::NoSuchPartition { number: 2, .. }));
    let shown: Vec<_> = absent.candidates().iter().map(ToString::to_string).collect();
    assert_eq!(shown[0], "1: FAT12 EFI ∑ystem (3145728 bytes)");
    assert!(shown[1].starts_with("3: unknown root ("), "{shown:?}");

    let mut both = device.bytes();
    both.copy_within(1 << 20..4 << 20, usize::try_from(table.partitions[1].start).expect("small"));
    let both = filesystem_device(Memory::new(both), None).err().expect("two");
    assert!(matches!(both, ChoiceError::Several { .. }));
    let mut none = device.bytes();
    none[1 << 20..4 << 20].fill(0);
    let none = filesystem_device(Memory::new(none), None).err().expect("none");
    assert!(matches!(none, ChoiceError::NoFilesystem { .. }));
    // Without a table the device is all there is.
    let whole = Memory::new(fs::read(&part).expect("readable"));
    assert_eq!(filesystem_device(whole.clone(), None).expect("all of it").size(), 3 << 20);
    assert!(matches!(filesystem_device(whole, Some(1)), Err(ChoiceError::NoTable)));
}

#[test]
fn other_filesystems_are_named() {
    let dir = Scratch::new();
    let image = dir.path("image");
    let refused = |kind| Some(Unsupported::Filesystem(kind).into());
    let open = |bytes: Vec<u8>| open_tree(Memory::new(bytes), atrest_inside::Access::ReadOnly).err();

    fs::write(&image, vec![0; 320 << 20]).expect("writable");
    run("mkfs.xfs", &[&"-q", &image]);
    assert_eq!(open(fs::read(&image).expect("readable")[..1 << 20].to_vec()), refused(FilesystemKind::Xfs));
    fs::write(&image, vec![0; 1 << 20]).expect("writable");
    run("mkswap", &[&"-q", &image]);
    assert_eq!(open(fs::read(&image).expect("readable")), refused(FilesystemKind::Swap));
    for (version, kind) in [("luks1", FilesystemKind::Luks1), ("luks2", FilesystemKind::Luks2)] {
        fs::write(&image, vec![0; 32 << 20]).expect("writable");
        let key = dir.path("key");
        fs::write(&key, "x").expect("writable");
        let args: [&dyn AsRef<std::ffi::OsStr>; 9] = [
            &"luksFormat",
            &"-q",
            &"--type",
            &version,
            &"--pbkdf",
            &"pbkdf2",
            &"--pbkdf-force-iterations=1000",
            &image,
            &key,
        ];
        run("cryptsetup", &args);
        assert_eq!(open(fs::read(&image).expect("readable")), refused(kind));
    }
    assert_eq!(open(vec![0; 1 << 20]), Some(TreeError::UnknownFilesystem));
    assert_eq!(open(Vec::new()), Some(TreeError::UnknownFilesystem));
    let noise = Random::new(1).bytes(100_000);
    assert_eq!(detect(&*Memory::new(noise)), Ok(None));
    let text = TreeError::from(Unsupported::Filesystem(FilesystemKind::Btrfs)).to_string();
    assert_eq!(text, "Btrfs was found, which cannot be read here");
}
