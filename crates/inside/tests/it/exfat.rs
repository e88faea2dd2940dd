//! exFAT: images made by exfatprogs and filled by exfat-fuse, read by us and checked by fsck.exfat.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::common::{Keeps, Memory, assert_same, damage, open, path, read, run};
use crate::ntfs::{Mounted, fill};
use atrest_filetree::{Note, TreeError, TreePath};
use atrest_inside::{Access, Damage, open_tree};
use atrest_testkit::Scratch;
use atrest_testkit::oracle::Program;

fn mkfs(image: &Path, mebibytes: u64, cluster: &str) {
    fs::File::create(image).and_then(|file| file.set_len(mebibytes << 20)).expect("writable");
    let made = Program::named("mkfs.exfat").env("LC_ALL", "C.UTF-8");
    made.args(["-c", cluster, "-L", "Größe"]).arg(image).ok();
}

#[test]
fn what_exfat_fuse_writes_is_read() {
    let dir = Scratch::new();
    let (image, mounted, host) = (dir.path("image"), dir.path("mounted"), dir.path("host"));
    fs::create_dir(&host).expect("writable");
    fill(&host);
    for cluster in ["512", "4K", "128K"] {
        mkfs(&image, if cluster == "128K" { 120 } else { 20 }, cluster);
        let times = {
            let mounted = Mounted::exfat(&image, &mounted);
            fill(mounted.at());
            // Clusters that are claimed and were never written.
            fs::File::create(mounted.at().join("claimed"))
                .and_then(|file| file.set_len(100_000))
                .expect("writable");
            run("touch", &[&"-d", &"2001-02-03 04:05:06", &mounted.at().join("one")]);
            let stat = fs::metadata(mounted.at().join("one")).expect("a file");
            (stat.mtime(), stat.atime())
        };
        run("fsck.exfat", &[&"-n", &image]);
        let tree = open(Memory::load(&image));
        let about = tree.about();
        assert_eq!(
            (about.name, about.label.as_slice(), about.writable),
            ("exFAT", "Größe".as_bytes(), false)
        );
        assert_eq!(about.notes, [], "{cluster}");
        let names =
            |tree: &dyn atrest_filetree::FileTree| tree.list(&TreePath::root()).expect("it lists").len();
        assert_eq!(names(&*tree), fs::read_dir(&host).expect("a directory").count() + 1);
        assert!(read(&*tree, &path("/claimed")) == vec![0; 100_000], "stale contents of the media are shown");
        fs::write(host.join("claimed"), vec![0; 100_000]).expect("writable");
        assert_same(&*tree, "", &host, Keeps { posix: false });
        fs::remove_file(host.join("claimed")).expect("there");
        assert_eq!(read(&*tree, &path("/DEEP/er/AND/deeper/LEAF")), b"leaf");
        let one = tree.metadata(&path("/one")).expect("a file");
        assert_eq!((one.modified.seconds, one.accessed.seconds), times);
        let space = tree.space().expect("a bitmap");
        let told = String::from_utf8(run("dump.exfat", &[&image]).stdout).expect("text");
        let free = told.lines().find_map(|line| line.strip_prefix("Free Clusters:")).expect("a line");
        let all = told.lines().find_map(|line| line.strip_prefix("Cluster Count:")).expect("a line");
        assert_eq!(
            (space.blocks.to_string(), space.free.to_string()),
            (all.trim().into(), free.trim().into())
        );
    }
}

/// An image with a directory, whose file of 9000 bytes is a chain of clusters of 512 bytes.
fn chained(dir: &Path) -> Vec<u8> {
    let (image, mounted) = (dir.join("image"), dir.join("mounted"));
    mkfs(&image, 4, "512");
    {
        let mounted = Mounted::exfat(&image, &mounted);
        fs::create_dir(mounted.at().join("dir")).expect("writable");
        let (file, other) = (mounted.at().join("dir/file"), mounted.at().join("other"));
        for turn in 1..=9 {
            fs::write(&other, vec![8; turn * 1000]).expect("writable");
            let mut open = fs::File::options().append(true).create(true).open(&file).expect("writable");
            std::io::Write::write_all(&mut open, &[turn as u8; 1000]).expect("writable");
        }
    }
    fs::read(&image).expect("readable")
}

/// The first place of these bytes in an image.
fn place(image: &[u8], bytes: &[u8]) -> usize {
    image.windows(bytes.len()).position(|found| found == bytes).expect("it is in the image")
}

fn le32(image: &[u8], at: usize) -> usize {
    u32::from_le_bytes(image[at..at + 4].try_into().expect("4 bytes")) as usize
}

/// Makes the sum of a boot sector right.
fn seal(image: &mut [u8]) {
    let sum = (0..11 * 512)
        .filter(|at| ![106, 107, 112].contains(at))
        .fold(0_u32, |sum, at| sum.rotate_right(1).wrapping_add(image[at].into()));
    image[11 * 512..12 * 512].as_chunks_mut().0.iter_mut().for_each(|word| *word = sum.to_le_bytes());
}

#[test]
fn chains_that_lead_nowhere_are_damage() {
    let dir = Scratch::new();
    let good = chained(dir.as_path());
    let file = path("/dir/file");
    let read = |bytes: Vec<u8>| open(Memory::new(bytes)).read_at(&file, 8900, &mut [0; 10]);
    assert_eq!(read(good.clone()), Ok(10));
    // The entry of the file's stream is behind that of the file and before its name.
    let name = place(&good, b"\xc1\0f\0i\0l\0e\0");
    let stream = name - 32;
    assert_eq!((good[stream], good[stream + 1] & 2), (0xc0, 0), "it is a chain");
    let first = le32(&good, stream + 20);
    let table = le32(&good, 80) * 512;
    let link = |to: u32| {
        let mut bytes = good.clone();
        bytes[table + first * 4..][..4].copy_from_slice(&to.to_le_bytes());
        damage(&read(bytes))
    };
    assert_eq!(link(0), Some(Damage::Cluster(0)));
    assert_eq!(link(1), Some(Damage::Cluster(1)));
    assert_eq!(link(0x0fff_ffff), Some(Damage::Cluster(0x0fff_ffff)));
    assert_eq!(link(0xffff_fff7), Some(Damage::FatStructure));
    assert_eq!(link(u32::MAX), Some(Damage::FatStructure), "it ends before the file does");
    assert_eq!(link(first as u32), Some(Damage::EndlessChain), "one cluster is all of the file");
    // A circle of more clusters, which the file's length would end.
    let mut bytes = good.clone();
    let second = le32(&good, table + first * 4);
    let third = le32(&good, table + second * 4);
    bytes[table + third * 4..][..4].copy_from_slice(&(second as u32).to_le_bytes());
    assert_eq!(damage(&read(bytes)), Some(Damage::EndlessChain));
    // The root directory has no length: a circle must not be followed for ever.
    let mut bytes = good.clone();
    let root = le32(&good, 96);
    bytes[table + root * 4..][..4].copy_from_slice(&(root as u32).to_le_bytes());
    let opened = open_tree(Memory::new(bytes), Access::ReadOnly).map(drop);
    assert_eq!(damage(&opened), Some(Damage::EndlessChain));
}

#[test]
fn sets_of_entries_are_whole_or_damage() {
    let dir = Scratch::new();
    let good = chained(dir.as_path());
    let list = |bytes: Vec<u8>| open(Memory::new(bytes)).list(&path("/dir")).map(|entries| entries.len());
    assert_eq!(list(good.clone()), Ok(1));
    let name = place(&good, b"\xc1\0f\0i\0l\0e\0");
    let file = name - 64;
    assert_eq!(good[file], 0x85);
    // The sum, a count that is too small or too large, a name or a stream out of use, a letter.
    for (at, byte) in [(2, 0), (1, 1), (1, 19), (32, 0x40), (64, 0x41), (66, b'x'), (35, 0), (35, 16)] {
        let mut bytes = good.clone();
        assert_ne!(bytes[file + at], byte);
        bytes[file + at] = byte;
        let found = list(bytes);
        assert!(matches!(damage(&found), Some(Damage::Directory { .. })), "byte {at}: {found:?}");
    }
    // Out of use, all of it is passed over.
    let mut bytes = good;
    for entry in 0..3 {
        bytes[file + entry * 32] &= 0x7f;
    }
    assert_eq!(list(bytes), Ok(0));
}

#[test]
fn boot_sectors_are_checked() {
    let dir = Scratch::new();
    let good = chained(dir.as_path());
    let with = |at: usize, bytes: &[u8], sealed: bool| {
        let mut image = good.clone();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        if sealed {
            seal(&mut image);
        }
        open_tree(Memory::new(image), Access::ReadOnly)
    };
    let failed = |at, bytes: &[u8]| damage(&with(at, bytes, true).map(drop));
    assert_eq!(damage(&with(100, &[1, 2, 3, 4], false).map(drop)), Some(Damage::SuperblockChecksum));
    assert_eq!(with(100, &[1, 2, 3, 4], true).expect("it opens").about().id, "0403-0201");
    // What changes while it is mounted is in no sum.
    let dirty = with(106, &[2], false).expect("it opens");
    assert_eq!(dirty.about().notes, [Note::NotCleanlyUnmounted]);
    let full: [(usize, &[u8]); 9] = [
        (108, &[8]),
        (108, &[13]),
        (109, &[17]),
        (110, &[0]),
        (110, &[3]),
        (105, &[2]),
        (92, &[0, 0, 0, 0]),
        (92, &[0xff, 0xff, 0xff, 0xff]),
        (84, &[1, 0, 0, 0]),
    ];
    for (at, bytes) in full {
        let found = failed(at, bytes);
        assert!(matches!(found, Some(Damage::Superblock(_))), "{at}: {found:?}");
    }
    // A table that reaches into the clusters, and clusters that reach behind the end.
    assert!(matches!(failed(80, &[0xff, 0xff, 0, 0]), Some(Damage::Superblock(_))));
    assert!(matches!(failed(88, &[0, 0x1f, 0, 0]), Some(Damage::Superblock(_))));
    assert_eq!(failed(96, &[0, 0, 0, 0]), Some(Damage::Cluster(0)));
    let larger = with(72, &[0, 0, 1, 0], true).map(drop);
    assert!(matches!(larger, Err(TreeError::LargerThanDevice { .. })), "{larger:?}");
}
