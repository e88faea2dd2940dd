//! A plain volume is not opened over something else without a question.

use std::fs;

use crate::common::{CHEAP, Scratch, sealed};

/// Everything that fills a device and is known by its signature, and what the question says of it. Made by its own tools
/// where they are at hand.
const MADE: [(&str, &str, &str); 10] = [
    ("luks1", "$ATREST format --type luks1 --size 20M --key-file key m $C", "a LUKS volume"),
    ("luks2", "$ATREST format --size 20M --key-file key m $C", "a LUKS volume"),
    (
        "luks2 second copy",
        "$ATREST format --size 20M --key-file key m $C && dd if=/dev/urandom of=m bs=4096 count=1 conv=notrunc status=none",
        "a LUKS volume",
    ),
    (
        "flash",
        "$ATREST format --type flash --size 1M --kdf pbkdf2 --pbkdf-force-iterations 1000 --key-file key m",
        "encrypted flash",
    ),
    ("ext4", "mke2fs -q -t ext4 m 8M", "a filesystem (ext4)"),
    ("FAT", "truncate -s 8M m && mkfs.fat m", "a filesystem (FAT)"),
    ("swap", "truncate -s 8M m && mkswap m", "swap space"),
    ("GPT", "truncate -s 8M m && sgdisk -n 1:2048:8191 m", "a GPT partition table"),
    (
        "GPT at the end",
        "truncate -s 8M m && sgdisk -n 1:2048:8191 m && dd if=/dev/zero of=m bs=1M count=1 conv=notrunc status=none",
        "a GPT partition table",
    ),
    ("MBR", "truncate -s 8M m && echo '2048,4096,83' | sfdisk -q m", "an MBR partition table"),
];

/// Signatures that are written by hand, and what the question says of them: offset in bytes, signature, words. The last one
/// lies 8192 bytes before the end.
const WRITTEN: [(u64, &[u8], &str); 8] = [
    (0, b"XFSB", "XFS"),
    (0x10040, b"_BHRfS_M", "Btrfs"),
    (8, b"littlefs", "LittleFS"),
    (512, b"LABELONE", "LVM"),
    (4096, b"\xfc\x4e\x2b\xa9", "RAID"),
    (8 << 20, b"\xfc\x4e\x2b\xa9", "RAID"),
    (65526, b"SWAPSPACE2", "swap"),
    (0, b"integrt\0", "dm-integrity"),
];

const PLAIN: &str = "--type plain -c aes-xts-plain64 -s 512 --key-file key";

/// Every command that writes to a plain volume asks; those that read warn.
fn asks(scratch: &Scratch, name: &str, says: &str) {
    let before = fs::read(scratch.path("m")).expect("the image");
    let run = |line: &str| scratch.bash(&format!("P='{PLAIN}'; $ATREST {line}"));
    for line in [
        "open m --nbd ./sock $P --run true",
        "open m --fuse dir $P --run true",
        "mount m dir $P --run true",
        "encrypt $P src m",
        "cp $P src m:/f",
        "mkdir $P m /d",
        "rm $P m /f",
    ] {
        let ran = run(line).fails(1, "there is no terminal to ask on");
        assert!(ran.stderr.contains(says) && ran.stderr.contains("--yes"), "{name}: {line}: {}", ran.stderr);
        assert!(fs::read(scratch.path("m")).expect("the image") == before, "{name}: {line} wrote");
    }
    let read = run("open m --nbd ./sock $P --read-only --run true").ok();
    assert!(read.stderr.contains("warning") && read.stderr.contains(says), "{name}: {}", read.stderr);
    let read = run("decrypt $P m out").ok();
    assert!(read.stderr.contains("warning") && read.stderr.contains(says), "{name}: {}", read.stderr);
    fs::remove_file(scratch.path("out")).expect("the noise");
    assert!(fs::read(scratch.path("m")).expect("the image") == before, "{name}: reading wrote");
    let yes = run("open m --nbd ./sock $P --yes --run true").ok();
    assert!(!yes.stderr.contains("warning"), "{name}: {}", yes.stderr);
}

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("key", vec![b'k'; 63].into_iter().chain([b'e']).collect::<Vec<u8>>());
    scratch.bash("mkdir dir; echo x > src").ok();
    scratch
}

#[test]
fn what_tools_make_is_asked_about() {
    for (name, make, says) in MADE {
        let scratch = scratch();
        scratch.bash(&format!("C='{}'; {make}", CHEAP.join(" "))).ok();
        asks(&scratch, name, says);
    }
    let sealed = sealed::with_card();
    sealed.bash("mv card m; mkdir dir; echo x > src; head -c 64 /dev/urandom > key").ok();
    asks(&sealed, "sealed", "sealed flash");
}

#[test]
fn every_other_signature_is_asked_about() {
    for (at, bytes, says) in WRITTEN {
        let scratch = scratch();
        let mut image = vec![0; 16 << 20];
        // The last one counts from the end.
        let at = if at == 8 << 20 { image.len() - 8192 } else { at as usize };
        image[at..at + bytes.len()].copy_from_slice(bytes);
        scratch.file("m", &image);
        asks(&scratch, says, says);
    }
}

#[test]
fn what_is_somewhere_else_on_the_device_is_not_asked_about() {
    let scratch = scratch();
    let run = |line: &str| scratch.bash(&format!("P='{PLAIN}'; $ATREST {line}"));
    // A plain volume as it looks: noise.
    scratch.bash("head -c 8M /dev/urandom > m").ok();
    let quiet = run("open m --nbd ./sock $P --run true").ok();
    assert_eq!(quiet.stderr, "");
    // Room on a partitioned disk that no partition has.
    scratch.bash("truncate -s 0 m; truncate -s 8M m; sgdisk -n 1:2048:4095 -n 2:8192:9999 m").ok();
    assert_eq!(run("open m --nbd ./sock $P --offset 4096 --size 2M --run true").ok().stderr, "");
    for (offset, size) in [("0", "1M"), ("3072", "1M"), ("4096", "3M"), ("12288", "2M")] {
        let ran = run(&format!("open m --nbd ./sock $P --offset {offset} --size {size} --run true"));
        ran.fails(1, "GPT partition table");
    }
    // What begins where the volume would.
    scratch.bash("head -c 2M /dev/urandom > m; mke2fs -q -t ext4 fs 4M && cat fs >> m").ok();
    assert_eq!(run("open m --nbd ./sock $P --offset 2048 --run true").ok().stderr, "");
    run("open m --nbd ./sock $P --offset 4096 --run true").fails(1, "a filesystem (ext4)");
}
