//! What is on a device, against libblkid: images as the tools of each format make them, and bytes by which it knows others.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use atrest_probe::{Foreign, detect, foreign};
use atrest_testkit::oracle::{Program, tool};
use atrest_testkit::{FaultDevice, Scratch};

/// The first 8 MiB of a file, as a device.
fn start(path: &Path) -> FaultDevice {
    let mut bytes = Vec::new();
    File::open(path).expect("opens").take(8 << 20).read_to_end(&mut bytes).expect("reads");
    FaultDevice::new(bytes)
}

/// blkid's word for what is in a file; empty if it knows none.
fn blkid(path: &Path) -> String {
    Program::named("blkid").words("-p -o value -s TYPE").arg(path).run().text().trim().into()
}

fn ours(path: &Path) -> String {
    let found = detect(&start(path)).expect("no I/O error");
    found.map_or(String::new(), |kind| kind.blkid_name().into())
}

/// blkid's word, MiB of the image, and the line of shell that makes the file `image` or fills it.
const MADE: [(&str, u64, &str); 28] = [
    ("ext2", 8, "mke2fs -q -t ext2 image"),
    ("ext3", 8, "mke2fs -q -t ext3 image"),
    ("ext4", 8, "mke2fs -q -t ext4 image"),
    ("vfat", 2, "mkfs.vfat -F 12 image"),
    ("vfat", 16, "mkfs.vfat -F 16 image"),
    ("vfat", 64, "mkfs.vfat -F 32 image"),
    ("exfat", 8, "mkfs.exfat image"),
    ("ntfs", 8, "mkfs.ntfs -F -Q image"),
    ("xfs", 320, "mkfs.xfs -q image"),
    ("btrfs", 120, "mkfs.btrfs -q image"),
    ("f2fs", 64, "mkfs.f2fs -q image"),
    ("nilfs2", 140, "mkfs.nilfs2 -q image"),
    ("jfs", 17, "mkfs.jfs -q image"),
    ("reiserfs", 40, "mkfs.reiserfs -ff -q image"),
    ("minix", 4, "mkfs.minix -1 image"),
    ("minix", 4, "mkfs.minix -2 image"),
    ("minix", 4, "mkfs.minix -3 image"),
    ("udf", 8, "mkudffs image"),
    ("udf", 8, "mkudffs --blocksize 4096 image"),
    ("iso9660", 0, "xorriso -as mkisofs -quiet -o image files"),
    ("squashfs", 0, "mksquashfs files image -quiet -noappend"),
    ("erofs", 0, "mkfs.erofs image files"),
    ("cramfs", 0, "mkfs.cramfs files image"),
    ("cramfs", 0, "mkfs.cramfs -N big files image"),
    ("swap", 4, "mkswap -q image"),
    ("swap", 4, "mkswap -q -p 65536 image"),
    (
        "crypto_LUKS",
        32,
        "echo key | cryptsetup -q luksFormat --pbkdf-force-iterations 1000 --pbkdf pbkdf2 image",
    ),
    ("DM_verity_hash", 0, "truncate -s 1M data && veritysetup format data image"),
];

#[test]
fn what_the_tools_of_a_format_make_is_what_blkid_calls_it() {
    let mut differ = Vec::new();
    for (kind, mebibytes, line) in MADE {
        let directory = Scratch::new();
        let image = directory.path("image");
        if mebibytes != 0 {
            File::create(&image).expect("create").set_len(mebibytes << 20).expect("a size");
        }
        let programs = line.split("&&").filter_map(|part| part.split_whitespace().next());
        programs.for_each(|program| drop(tool(program)));
        let script = format!("mkdir files && echo hello > files/letter && {line}");
        Program::named("sh").current_dir(directory.as_path()).args(["-c", &script]).run();
        let found = (blkid(&image), ours(&image));
        if found != (String::from(kind), String::from(kind)) {
            differ.push((line, found));
        }
    }
    assert!(differ.is_empty(), "{differ:?}");
}

/// Bytes of an image of zeros, each with its place.
type Bytes<'a> = &'a [(usize, &'a [u8])];

fn image(pieces: Bytes<'_>) -> Vec<u8> {
    let mut image = vec![0; 4 << 20];
    for (at, bytes) in pieces {
        image[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    image
}

#[test]
fn what_no_tool_here_makes_is_what_blkid_calls_it() {
    let uberblock = 0x00ba_b10c_u64.to_le_bytes();
    let swapped = 0x00ba_b10c_u64.to_be_bytes();
    let ring = |at: usize, of: &'static [u8]| -> Vec<(usize, &'static [u8])> {
        (0..4).map(|block| (at + 1024 * block, of)).collect()
    };
    let (uberblock, swapped): (&'static [u8], &'static [u8]) =
        (uberblock.to_vec().leak(), swapped.to_vec().leak());
    let gfs2 =
        [&[1, 0x16, 0x19, 0x70, 0, 0, 0, 1][..], &[0; 16], &1801_u32.to_be_bytes(), &1900_u32.to_be_bytes()]
            .concat();
    let made: &[(&str, Bytes<'_>)] = &[
        (
            "BitLocker",
            &[(0, b"\xeb\x58\x90-FVE-FS-"), (176, &[0, 0, 1]), (0x1_0000, b"-FVE-FS-\x40\0\x02\0")],
        ),
        ("apfs", &[(32, b"NXSB\0\x10\0\0"), (24, &[1, 0, 0, 0x80]), (8, &[1]), (16, &[1])]),
        ("zfs_member", &ring(128 << 10, uberblock)),
        ("zfs_member", &ring(384 << 10, swapped)),
        ("", &ring(128 << 10, uberblock)[..3]),
        ("hfs", &[(1024, b"BD"), (1024 + 20, &[0, 0, 2, 0]), (1024 + 18, &[0, 9])]),
        ("reiser4", &[(0x1_0000, b"ReIsEr4")]),
        ("romfs", &[(0, b"-rom1fs-")]),
        ("ubi", &[(0, b"UBI#")]),
        ("ubifs", &[(0, b"\x31\x18\x10\x06")]),
        ("gfs2", &[(0x1_0000, &gfs2)]),
        ("swsuspend", &[(4086, b"S1SUSPEND\0")]),
        ("ReFS", &[(0, b"\0\0\0ReFS\0")]),
        ("DM_integrity", &[(0, b"integrt\0\x04")]),
        ("vdo", &[(0, b"dmvdo001")]),
    ];
    let directory = Scratch::new();
    let path = directory.path("image");
    let mut differ = Vec::new();
    for (kind, pieces) in made {
        // libblkid takes nothing shorter for some of them.
        std::fs::write(&path, image(pieces)).expect("write");
        File::options().write(true).open(&path).and_then(|file| file.set_len(80 << 20)).expect("a size");
        let found = (blkid(&path), ours(&path));
        if found != (String::from(*kind), String::from(*kind)) {
            differ.push((kind, found));
        }
    }
    assert!(differ.is_empty(), "{differ:?}");
}

/// libblkid of Debian 12 knows neither of them. Places by libfvde's "FileVault Drive Encryption", and the kernel's bcachefs_format.h.
#[test]
fn what_blkid_does_not_know_yet_is_named() {
    let name = |pieces: Bytes<'_>| {
        let found = detect(&FaultDevice::new(image(pieces))).expect("no I/O error");
        found.map(atrest_probe::FilesystemKind::name)
    };
    let bcachefs =
        [0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9, 0xd9, 0x6a, 0x60, 0xcf, 0x80, 0x3d, 0xf7, 0xef];
    assert_eq!(name(&[(4096 + 24, &bcachefs)]), Some("bcachefs"));
    let core_storage: Bytes<'_> = &[(8, &[1, 0]), (88, b"CS")];
    assert_eq!(name(core_storage), Some("CoreStorage, which FileVault 2 encrypts"));
    let device = FaultDevice::new(image(core_storage));
    assert_eq!(foreign(&device).expect("no I/O error"), Foreign::FileVault);
    assert_eq!(name(&[(8, &[2, 0]), (88, b"CS")]), None);
}

/// Two bytes are no proof: each field that is looked at beside them can deny it.
#[test]
fn two_bytes_alone_are_nothing() {
    let nilfs2: Bytes<'_> = &[(1024, &[2, 0, 0, 0, 0, 0, 0x34, 0x34, 0x18, 1])];
    let minix: Bytes<'_> = &[(1024, &[1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0]), (1040, &[0x7f, 0x13])];
    let third: Bytes<'_> = &[(1024, &[1, 0, 0, 0]), (1048, &[0x5a, 0x4d, 0, 0, 0, 4])];
    let hfs: Bytes<'_> = &[(1024, b"BD"), (1024 + 20, &[0, 0, 2, 0])];
    let gfs2: Bytes<'_> = &[(0x1_0000, &[1, 0x16, 0x19, 0x70, 0, 0, 0, 1]), (0x1_0018, &[0, 0, 7, 9])];
    let known = |bytes: Vec<u8>| detect(&FaultDevice::new(bytes)).expect("no I/O error").is_some();
    let changes = [
        (nilfs2, &[(1024, 1), (1030, 0), (1033, 5), (1044, 7)][..]),
        (minix, &[(1024, 0), (1028, 0), (1030, 0), (1034, 11), (1040, 0)]),
        (third, &[(1024, 0), (1048, 0), (1053, 0)]),
        (hfs, &[(1024, 0), (1046, 0), (1047, 1)]),
        (gfs2, &[(0x1_0000, 0), (0x1_0007, 2), (0x1_001a, 5)]),
    ];
    for (pieces, fields) in changes {
        assert!(known(image(pieces)), "{pieces:?}");
        for (at, byte) in fields {
            let mut image = image(pieces);
            image[*at] = *byte;
            assert!(!known(image), "{pieces:?} with {byte} at {at}");
        }
    }
}
