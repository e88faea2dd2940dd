//! NTFS: images made by mkfs.ntfs and filled by ntfs-3g, read by us and by ntfs-3g.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{Keeps, Memory, assert_same, damage, open, path, pattern, read, run, try_run};
use atrest_filetree::{Kind, Note, TreeError, TreePath};
use atrest_inside::{Access, Damage, Feature, Unsupported, open_tree};
use atrest_testkit::Scratch;

const NAMES: Keeps = Keeps { posix: false };

/// A directory at which a driver serves an image; it ends when this is dropped.
pub struct Mounted<'a> {
    at: &'a Path,
    /// A loop device, for a driver that takes nothing else.
    device: Option<String>,
}

impl<'a> Mounted<'a> {
    pub fn ntfs(image: &Path, at: &'a Path, options: &str) -> Self {
        fs::create_dir_all(at).expect("writable");
        run("ntfs-3g", &[&"-o", &options, &image, &at]);
        Self { at, device: None }
    }

    pub fn exfat(image: &Path, at: &'a Path) -> Self {
        fs::create_dir_all(at).expect("writable");
        let device = run("losetup", &[&"--find", &"--show", &image]).stdout;
        let device = String::from_utf8(device).expect("text").trim().to_owned();
        run("mount.exfat-fuse", &[&device, &at]);
        Self { at, device: Some(device) }
    }

    pub fn at(&self) -> &'a Path {
        self.at
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let begun = Instant::now();
        while try_run("fusermount3", &[&"-u", &self.at]).code != Some(0) {
            assert!(begun.elapsed() < Duration::from_secs(60), "the file system stays mounted");
            std::thread::sleep(Duration::from_millis(20));
        }
        if let Some(device) = &self.device {
            run("losetup", &[&"--detach", device]);
        }
    }
}

/// Sets an extended attribute, by which ntfs-3g takes what it has no other words for.
fn set(file: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(file, name, value, rustix::fs::XattrFlags::empty())
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

fn mkfs(image: &Path, mebibytes: u64, options: &[&str]) {
    fs::File::create(image).and_then(|file| file.set_len(mebibytes << 20)).expect("writable");
    let mut words: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"-F", &"-Q", &"-q", &"-L", &"Größe"];
    options.iter().for_each(|option| words.push(option));
    words.push(&image);
    run("mkfs.ntfs", &words);
}

/// Files of all sizes and shapes that every one of these file systems can hold.
pub fn fill(root: &Path) {
    let file = |name: &str, data: &[u8]| fs::write(root.join(name), data).expect("writable");
    fs::create_dir_all(root.join("deep/er/and/deeper")).expect("writable");
    fs::create_dir_all(root.join("many")).expect("writable");
    for (name, len) in
        [("empty", 0), ("one", 1), ("inline", 300), ("block-1", 4095), ("block", 4096), ("block+1", 4097)]
    {
        file(name, &pattern(len as u64, len));
    }
    file("large", &pattern(4, 3_000_001));
    file("ümläut – ∑ \u{1f600}.txt", b"unicode");
    file("a name that is rather longer than eight plus three.html", b"long");
    file(&"n".repeat(250), b"the longest");
    file("deep/er/and/deeper/leaf", b"leaf");
    for i in 0..400 {
        file(&format!("many/file number {i:04}"), format!("{i}").as_bytes());
    }
    // Pieces of two files in turns, so that neither lies in one run.
    let (a, b) = (fs::File::create(root.join("turns a")), fs::File::create(root.join("turns b")));
    let (a, b) = (a.expect("writable"), b.expect("writable"));
    for turn in 0..60 {
        a.write_all_at(&pattern(turn, 4096), turn * 4096).expect("writable");
        b.write_all_at(&pattern(turn + 1000, 4096), turn * 4096).expect("writable");
    }
}

#[test]
fn what_ntfs_3g_writes_is_read() {
    let dir = Scratch::new();
    let (image, mounted) = (dir.path("image"), dir.path("mounted"));
    for options in [&[][..], &["-c", "512"], &["-c", "65536"], &["-s", "4096"], &["-s", "1024", "-c", "2048"]]
    {
        mkfs(&image, 40, options);
        let host = dir.path("host");
        let _ = fs::remove_dir_all(&host);
        fs::create_dir(&host).expect("writable");
        fill(&host);
        {
            let mounted = Mounted::ntfs(&image, &mounted, "rw,compression");
            fill(mounted.at);
            let sparse = [(1 << 20, 6), (9_000_000, 7)];
            for root in [mounted.at, host.as_path()] {
                let file = fs::File::create(root.join("sparse")).expect("writable");
                for (at, seed) in sparse {
                    file.write_all_at(&pattern(seed, 8192), at).expect("writable");
                }
                file.set_len(12_345_678).expect("writable");
                symlink("deep/er", root.join("link")).expect("writable");
                fs::hard_link(root.join("one"), root.join("two")).expect("writable");
            }
        }
        let tree = open(Memory::load(&image));
        let about = tree.about();
        assert_eq!((about.name, about.label.as_slice(), about.writable), ("NTFS", "Größe".as_bytes(), false));
        assert_eq!(about.notes, [], "{options:?}");
        assert_same(&*tree, "", &host, NAMES);
        assert_eq!(tree.metadata(&path("/two")).expect("a file").links, 2);
        // Capitals do not count, but what is written the same comes first.
        assert_eq!(read(&*tree, &path("/DEEP/er/AND/deeper/LEAF")), b"leaf");
        let space = tree.space().expect("a bitmap");
        let told = String::from_utf8(run("ntfsinfo", &[&"-m", &image]).stdout).expect("text");
        let number = |name: &str| -> u64 {
            let line = told.lines().find_map(|line| line.trim().strip_prefix(name)).expect("a line");
            line.trim_start_matches(':').split_whitespace().next().expect("a word").parse().expect("a number")
        };
        assert_eq!(
            (space.blocks, space.free),
            (number("Volume Size in Clusters"), number("Free Clusters")),
            "{told}"
        );
    }
}

#[test]
fn compressed_files_are_expanded() {
    let dir = Scratch::new();
    let (image, mounted, host) = (dir.path("image"), dir.path("mounted"), dir.path("host"));
    mkfs(&image, 40, &["-c", "4096"]);
    // What is stored as it is, what is packed, and both in turns, and zeros.
    let text: Vec<u8> =
        (0..60_000_u32).flat_map(|n| format!("line {} of it\n", n * n % 977).into_bytes()).collect();
    let mut mixed = text[..300_000].to_vec();
    mixed[70_000..170_000].copy_from_slice(&pattern(3, 100_000));
    mixed[200_000..270_000].fill(0);
    let files = [
        ("text", text),
        ("noise", pattern(9, 200_000)),
        ("mixed", mixed),
        ("short", b"aaaaaaaaaaaaaaaaaaaaaaa".repeat(90)),
    ];
    fs::create_dir_all(host.join("packed")).expect("writable");
    {
        let mounted = Mounted::ntfs(&image, &mounted, "rw,compression");
        let packed = mounted.at.join("packed");
        fs::create_dir(&packed).expect("writable");
        // The attribute of a directory whose new files are compressed: FILE_ATTRIBUTE_COMPRESSED, lowest byte first.
        set(&packed, "system.ntfs_attrib", &[0, 8, 0, 0]);
        for (name, data) in &files {
            fs::write(packed.join(name), data).expect("writable");
            fs::write(host.join("packed").join(name), data).expect("writable");
        }
    }
    let tree = open(Memory::load(&image));
    assert_same(&*tree, "", &host, NAMES);
    let metadata = tree.metadata(&path("/packed/text")).expect("a file");
    assert!(metadata.size > 500_000, "{metadata:?}");
    let info = run("ntfsinfo", &[&"-F", &"packed/text", &image]);
    assert!(String::from_utf8_lossy(&info.stdout).contains("COMPRESSED"), "ntfs-3g has not compressed it");
    // Any part is the part.
    for (at, len) in [(0, 10), (65_535, 2), (65_536, 70_000), (100_001, 299), (600_000, 100)] {
        let mut part = vec![0; len];
        let count = tree.read_at(&path("/packed/text"), at as u64, &mut part).expect("it reads");
        assert_eq!(part[..count], files[0].1[at..at + count], "at {at}");
    }
}

#[test]
fn a_file_of_many_pieces_has_a_list_of_attributes() {
    let dir = Scratch::new();
    let (image, mounted) = (dir.path("image"), dir.path("mounted"));
    mkfs(&image, 60, &["-c", "512"]);
    let data = pattern(1, 3000 * 1024);
    {
        let mounted = Mounted::ntfs(&image, &mounted, "rw");
        let file = fs::File::create(mounted.at.join("pieces")).expect("writable");
        // Every second KiB stays a hole, so that each is a run of its own.
        for piece in 0..3000 {
            file.write_all_at(&data[piece * 1024..][..1024], piece as u64 * 2048).expect("writable");
        }
    }
    let tree = open(Memory::load(&image));
    let ours = read(&*tree, &path("/pieces"));
    assert_eq!(ours.len(), 2999 * 2048 + 1024);
    for piece in 0..3000 {
        assert!(ours[piece * 2048..][..1024] == data[piece * 1024..][..1024], "piece {piece}");
        assert!(ours[piece * 2048 + 1024..].iter().take(1024).all(|byte| *byte == 0), "behind piece {piece}");
    }
    let info = run("ntfsinfo", &[&"-F", &"pieces", &image]);
    assert!(String::from_utf8_lossy(&info.stdout).contains("ATTRIBUTE_LIST"), "it fits into one record");
}

#[test]
fn links_of_windows_and_of_wsl_are_links() {
    let dir = Scratch::new();
    let (image, mounted) = (dir.path("image"), dir.path("mounted"));
    mkfs(&image, 10, &[]);
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    // MS-FSCC 2.1.2.4 and 2.1.2.5: places of both names, of a symbolic link its flags, and the names.
    let reparse = |tag: u32, flags: &[u8], system: &str, people: &str| {
        let (system, people) = (wide(system), wide(people));
        let places =
            [0, system.len(), system.len(), people.len()].map(|number| (number as u16).to_le_bytes());
        let data = [&places.concat(), flags, &system, &people].concat();
        [&tag.to_le_bytes()[..], &(data.len() as u16).to_le_bytes(), &[0; 2], &data].concat()
    };
    let plain = |tag: u32, data: &[u8]| {
        [&tag.to_le_bytes()[..], &(data.len() as u16).to_le_bytes(), &[0; 2], data].concat()
    };
    let made = [
        ("symbolic", reparse(0xa000_000c, &[1, 0, 0, 0], r"dir\file", r"dir\file")),
        ("absolute", reparse(0xa000_000c, &[0; 4], r"\??\C:\Users\me", "")),
        // It has no room in its record.
        ("long", reparse(0xa000_000c, &[1, 0, 0, 0], &r"dir\".repeat(200), &r"dir\".repeat(200))),
        ("junction", reparse(0xa000_0003, &[], r"\??\D:\", r"D:\")),
        ("wsl", plain(0xa000_001d, b"\x02\0\0\0../etc/fstab")),
        ("wof", plain(0x8000_0017, &[1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0])),
        ("cloud", plain(0x9000_001a, &[0; 8])),
    ];
    {
        let mounted = Mounted::ntfs(&image, &mounted, "rw,special_files=wsl");
        run("mkfifo", &[&mounted.at.join("fifo")]);
        UnixListener::bind(mounted.at.join("socket")).expect("a socket");
        symlink("deep/er/ü", mounted.at.join("link")).expect("writable");
        for (name, value) in &made {
            let file = mounted.at.join(name);
            if *name == "junction" { fs::create_dir(&file) } else { fs::write(&file, b"") }
                .expect("writable");
            set(&file, "system.ntfs_reparse_data", value);
        }
    }
    let tree = open(Memory::load(&image));
    let target = |name: &str| {
        let name = path(name);
        assert_eq!(tree.metadata(&name).expect("it is there").kind, Kind::Link, "{name}");
        String::from_utf8(tree.read_link(&name).expect("a link")).expect("text")
    };
    assert_eq!(target("/symbolic"), "dir/file");
    assert_eq!(target("/absolute"), "C:/Users/me");
    assert_eq!(target("/long"), "dir/".repeat(200));
    assert_eq!(target("/junction"), "D:/");
    assert_eq!(target("/wsl"), "../etc/fstab");
    assert_eq!(target("/link"), "deep/er/ü");
    let listed = tree.list(&TreePath::root()).expect("it lists");
    let kind = |name: &str| listed.iter().find(|entry| entry.name == name.as_bytes()).map(|entry| entry.kind);
    assert_eq!(
        (kind("symbolic"), kind("junction"), kind("wsl")),
        (Some(Kind::Link), Some(Kind::Link), Some(Kind::Link))
    );
    assert_eq!(
        (kind("fifo"), kind("socket"), kind("wof")),
        (Some(Kind::Pipe), Some(Kind::Socket), Some(Kind::File))
    );
    // An empty file has nothing that could be wrong.
    assert_eq!(tree.read_at(&path("/wof"), 0, &mut [0; 8]), Ok(0));
    assert_eq!(tree.read_at(&path("/cloud"), 0, &mut [0; 8]), Ok(0));
    assert_eq!(tree.read_link(&path("/fifo")), Err(TreeError::NotALink));
}

/// The first place of these bytes in an image.
fn place(image: &[u8], bytes: &[u8]) -> usize {
    image.windows(bytes.len()).position(|found| found == bytes).expect("it is in the image")
}

#[test]
fn what_others_keep_or_encrypt_is_refused_by_name() {
    let dir = Scratch::new();
    let (image, mounted) = (dir.path("image"), dir.path("mounted"));
    mkfs(&image, 10, &[]);
    {
        let mounted = Mounted::ntfs(&image, &mounted, "rw");
        let file = mounted.at.join("kept");
        fs::write(&file, b"not what it contains").expect("writable");
        // WOF, which Windows compresses its own files by.
        set(&file, "system.ntfs_reparse_data", b"\x17\0\0\x80\x08\0\0\0\x01\0\0\0\x02\0\0\0");
        fs::write(mounted.at.join("secret"), b"ciphertext of somebody").expect("writable");
        set(&mounted.at.join("secret"), "system.ntfs_attrib", &[0x20, 0, 0, 0]);
    }
    let mut bytes = fs::read(&image).expect("readable");
    let tree = open(Memory::new(bytes.clone()));
    let refused = tree.read_at(&path("/kept"), 0, &mut [0; 8]).expect_err("refused");
    assert_eq!(refused.fault(), Some(&Unsupported::Feature(Feature::NtfsReparse { tag: 0x8000_0017 })));
    // The attribute of encryption, in the standard information in front of the contents of "secret": ntfs-3g sets none.
    let data = place(&bytes, b"ciphertext of somebody");
    let record = data & !1023;
    let information = record + place(&bytes[record..], &[0x10, 0, 0, 0]) + 24;
    bytes[information + 33] |= 0x40;
    let tree = open(Memory::new(bytes));
    let refused = tree.read_at(&path("/secret"), 0, &mut [0; 8]).expect_err("refused");
    assert_eq!(refused.fault(), Some(&Unsupported::Feature(Feature::NtfsEncryption)));
}

#[test]
fn a_volume_that_was_not_unmounted_says_so() {
    let dir = Scratch::new();
    let image = dir.path("image");
    mkfs(&image, 10, &[]);
    let good = fs::read(&image).expect("readable");
    assert_eq!(open(Memory::new(good.clone())).about().notes, []);
    // $VOLUME_INFORMATION: eight bytes of zeros, version 3.1, flags.
    let table = u64::from_le_bytes(good[48..56].try_into().expect("8 bytes")) as usize * 4096;
    let volume = table + 3 * 1024;
    let version = volume + place(&good[volume..volume + 1024], &[3, 1, 0, 0]);
    let mut dirty = good.clone();
    dirty[version + 2] |= 1;
    assert_eq!(open(Memory::new(dirty)).about().notes, [Note::NotCleanlyUnmounted]);
    let mut newer = good.clone();
    newer[version] = 4;
    let refused = open_tree(Memory::new(newer), Access::ReadOnly).map(drop).expect_err("refused");
    assert_eq!(refused.fault(), Some(&Unsupported::Feature(Feature::NtfsVersion { major: 4, minor: 1 })));
}

/// What is done to a record.
type Change<'a> = &'a dyn Fn(&mut [u8]);

#[test]
fn torn_and_foreign_records_are_damage() {
    let dir = Scratch::new();
    let (image, mounted) = (dir.path("image"), dir.path("mounted"));
    mkfs(&image, 10, &[]);
    {
        let mounted = Mounted::ntfs(&image, &mounted, "rw");
        fs::create_dir(mounted.at.join("dir")).expect("writable");
        fs::write(mounted.at.join("dir/file"), b"some contents of a file").expect("writable");
    }
    let good = fs::read(&image).expect("readable");
    let record = place(&good, b"some contents of a file") & !1023;
    let file = |change: Change<'_>| {
        let mut bytes = good.clone();
        change(&mut bytes[record..record + 1024]);
        let tree = open(Memory::new(bytes));
        tree.read_at(&path("/dir/file"), 0, &mut [0; 4])
    };
    assert_eq!(file(&|_| {}), Ok(4));
    // The end of a stride, the use of the record, its sequence number, its base.
    let changes: [Change<'_>; 5] = [
        &|record| record[511] ^= 1,
        &|record| record[22] &= !1,
        &|record| record[16] ^= 1,
        &|record| record[32] = 1,
        &|record| record[24..28].copy_from_slice(&2000_u32.to_le_bytes()),
    ];
    for (at, change) in changes.iter().enumerate() {
        let found = file(change);
        assert!(matches!(damage(&found), Some(Damage::Inode(_))), "{at}: {found:?}");
    }
    // A device that ends early, and one that ends in the boot sector.
    let short = good[..good.len() - 4096].to_vec();
    assert!(matches!(
        open_tree(Memory::new(short), Access::ReadOnly).map(drop),
        Err(TreeError::LargerThanDevice { .. })
    ));
}
