//! How far file systems reach, by the programs that make them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use atrest_probe::reach;
use atrest_testkit::oracle::Program;
use atrest_testkit::{FaultDevice, Scratch};

/// The name under which it is known, the program with its options, and what stands behind the path.
const MADE: [(&str, &str, &str); 8] = [
    ("ext2/3/4", "mkfs.ext4 -q -F -b 1024", "51200k"),
    ("ext2/3/4", "mkfs.ext4 -q -F -b 4096 -O 64bit", "51200k"),
    ("ext2/3/4", "mkfs.ext4 -q -F -t ext2 -b 4096", "51200k"),
    ("XFS", "mkfs.xfs -q -f -d size=314572800", ""),
    ("btrfs", "mkfs.btrfs -q -f -b 125829120", ""),
    ("FAT", "mkfs.fat -F 16", "51200"),
    ("FAT", "mkfs.fat -F 32 -S 4096", "307200"),
    ("swap", "mkswap -q", "51200"),
];

/// The first MiB of a file, as a device.
fn start(path: &Path) -> FaultDevice {
    let mut bytes = Vec::new();
    File::open(path).expect("opens").take(1 << 20).read_to_end(&mut bytes).expect("reads");
    FaultDevice::new(bytes)
}

#[test]
fn what_was_made_of_a_part_of_the_device_reaches_so_far() {
    for (name, line, behind) in MADE {
        let directory = Scratch::new();
        let path = directory.path("image");
        File::create(&path).and_then(|file| file.set_len(400 << 20)).expect("an image");
        let (program, options) = line.split_once(' ').expect("options");
        Program::named(program).words(options).arg(&path).words(behind).ok();
        let found = reach::of(&start(&path)).expect("reads");
        let bytes = match name {
            "XFS" => 300 << 20,
            "btrfs" => 120 << 20,
            "FAT" if behind == "307200" => 300 << 20,
            _ => 50 << 20,
        };
        let found = found.unwrap_or_else(|| panic!("{line}: nothing is recognised"));
        // mkfs.fat leaves out what is less than a track of 63 sectors.
        let less = if name == "FAT" { 63 * 4096 } else { 1 };
        assert_eq!(found.name, name, "{line}");
        assert!(found.bytes <= bytes && bytes - found.bytes < less, "{line}: {} of {bytes}", found.bytes);
    }
}

#[test]
fn nothing_is_recognised_where_nothing_is() {
    let directory = Scratch::new();
    for (name, bytes) in [("empty", 0), ("short", 700), ("zeros", 1 << 20)] {
        let path = directory.path(name);
        std::fs::write(&path, vec![0; bytes]).expect("an image");
        assert_eq!(reach::of(&start(&path)).expect("reads"), None);
    }
}

#[test]
fn whoever_must_shrink_is_told_how() {
    let told = reach::how_to_shrink("ext2/3/4", "/dev/sdx1", 1 << 30);
    assert!(told.contains("resize2fs /dev/sdx1 1048576K"), "{told}");
}
