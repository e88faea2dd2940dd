//! Superblocks as their tools write them, and blkid's word for what they say.

use std::fs::File;
use std::path::Path;

use atrest_probe::partition::{PartitionName, partition_name};
use atrest_probe::{Identity, identity};
use atrest_testkit::oracle::Program;
use atrest_testkit::{FaultDevice, Scratch};

/// The first bytes of a file, as a device that ends with them.
fn device(path: &Path) -> FaultDevice {
    FaultDevice::new(std::fs::read(path).expect("readable"))
}

fn of_bytes(bytes: Vec<u8>) -> Option<Identity> {
    identity(&FaultDevice::new(bytes)).expect("no I/O error")
}

fn run(program: &str, arguments: &[&str]) -> String {
    Program::named(program).args(arguments).ok().text()
}

/// An image that a tool has filled, by what blkid says of it, and by what we say of it.
fn compare(directory: &Path, kind: &str, program: &str, arguments: &[&str]) {
    let path = directory.join(kind);
    File::create(&path).expect("create").set_len(48 << 20).expect("a size");
    let text = path.to_str().expect("text");
    run(program, &[arguments, &[text]].concat());
    let told = run("blkid", &["-p", "-o", "export", text]);
    let value = |name: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_default().replace("\\ ", " ")
    };
    let found =
        identity(&device(&path)).expect("no I/O error").unwrap_or_else(|| panic!("{kind} is not known"));
    let name = found.kind.blkid_name();
    assert_eq!((name, found.uuid, found.label), (kind, value("UUID"), value("LABEL")), "{told}");
    assert_eq!(value("TYPE"), kind);
}

#[test]
fn superblocks_say_what_blkid_says() {
    let directory = Scratch::new();
    let at = directory.as_path();
    compare(at, "ext2", "mke2fs", &["-q", "-F", "-t", "ext2", "-L", "second one"]);
    compare(at, "ext3", "mke2fs", &["-q", "-F", "-t", "ext3", "-L", "third"]);
    compare(at, "ext4", "mke2fs", &["-q", "-F", "-t", "ext4", "-L", "sixteen-bytes-16"]);
    compare(at, "vfat", "mkfs.vfat", &["-n", "STICK"]);
    compare(at, "swap", "mkswap", &["-L", "swapped"]);
    let luks = |options: &[&str]| {
        let key = ["--key-file", "/proc/self/exe", "--keyfile-size", "16"];
        let words = [&["luksFormat", "-q", "--pbkdf-force-iterations", "1000"], &key[..], options].concat();
        compare(at, "crypto_LUKS", "cryptsetup", &words);
    };
    luks(&["--type", "luks2", "--label", "my label", "--pbkdf", "pbkdf2"]);
    std::fs::remove_file(at.join("crypto_LUKS")).expect("remove");
    luks(&["--type", "luks1"]);
    assert_eq!(of_bytes(vec![0; 70000]), None);
}

/// The layouts of xfs, btrfs, f2fs and erofs, by the definitions of their superblocks in the kernel's headers.
#[test]
fn superblocks_that_no_tool_here_writes_are_found_where_the_kernel_has_them() {
    let uuid = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0];
    let image = |parts: &[(usize, &[u8])]| {
        let mut bytes = vec![0; 70000];
        for (at, part) in parts {
            bytes[*at..at + part.len()].copy_from_slice(part);
        }
        of_bytes(bytes).map(|found| (found.kind.blkid_name(), found.uuid, found.label))
    };
    let expected = |kind| Some((kind, "11223344-5566-7788-99aa-bbccddeeff00".into(), String::from("name")));
    assert_eq!(image(&[(0, b"XFSB"), (32, &uuid), (108, b"name")]), expected("xfs"));
    let btrfs = image(&[(0x10040, b"_BHRfS_M"), (0x10020, &uuid), (0x1012b, b"name")]);
    assert_eq!(btrfs, expected("btrfs"));
    let f2fs = image(&[(0x400, &[0x10, 0x20, 0xf5, 0xf2]), (0x46c, &uuid), (0x47c, b"n\0a\0m\0e\0")]);
    assert_eq!(f2fs, expected("f2fs"));
    let erofs = image(&[(0x400, &[0xe2, 0xe1, 0xf5, 0xe0]), (0x430, &uuid), (0x440, b"name")]);
    assert_eq!(erofs, expected("erofs"));
}

#[test]
fn partitions_are_called_what_sfdisk_calls_them() {
    let directory = Scratch::new();
    for (label, named) in [("gpt", true), ("dos", false)] {
        let path = directory.path(label);
        File::create(&path).expect("create").set_len(32 << 20).expect("a size");
        let text = path.to_str().expect("text");
        let name = if named { ", name=\"crypt root\"" } else { "" };
        let script = directory.path("script");
        std::fs::write(&script, format!("label: {label}\nsize=4M\nsize=8M{name}\n")).expect("write");
        run("sh", &["-c", &format!("sfdisk -q {text} < {}", script.display())]);
        let dump = run("sfdisk", &["-d", text]);
        let uuid = if named {
            let line = dump.lines().find(|line| line.contains("crypt root")).expect("the second partition");
            let (_, rest) = line.split_once("uuid=").expect("a UUID");
            rest.split(',').next().expect("a UUID").to_ascii_lowercase()
        } else {
            let line = dump.lines().find_map(|line| line.strip_prefix("label-id: 0x")).expect("a signature");
            format!("{line}-02")
        };
        let found = partition_name(&device(&path), 2).expect("no I/O error").expect("the partition");
        let name = if named { "crypt root" } else { "" };
        assert_eq!((found.uuid, found.name), (uuid, name.into()), "{dump}");
    }
}

#[test]
fn tables_and_superblocks_of_noise_are_nothing() {
    for bytes in [vec![0xa5; 4096], vec![0xa5; 511], Vec::new()] {
        let device = FaultDevice::new(bytes);
        assert_eq!(identity(&device).expect("no I/O error"), None);
        for number in [0, 1, u32::MAX] {
            assert_eq!(partition_name(&device, number).expect("no I/O error"), None::<PartitionName>);
        }
    }
}
