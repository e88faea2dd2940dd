//! ext2, ext3 and ext4 images made by e2fsprogs, read by us, by debugfs and by an independent library.

use crate::common;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::common::{Keeps, Memory, assert_same, damage, open, path, pattern, read, run, sample_tree};
use atrest_filetree::{FileTree, Kind, Note, TreeError};
use atrest_inside::Damage;
use atrest_probe::FilesystemKind;
use atrest_testkit::Scratch;

const POSIX: Keeps = Keeps { posix: true };

/// Makes an image of `size` from the directory `from`.
fn mkfs(image: &Path, from: &Path, options: &str, size: &str) {
    let mut args: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"-q", &"-F"];
    let options: Vec<&str> = options.split_whitespace().collect();
    for option in &options {
        args.push(option);
    }
    args.extend([&"-d" as &dyn AsRef<std::ffi::OsStr>, &from, &image, &size]);
    run("mke2fs", &args);
}

fn debugfs(image: &Path, script: &str) -> String {
    let commands = image.with_extension("debugfs");
    fs::write(&commands, script).expect("writable");
    let output = run("debugfs", &[&"-w", &"-f", &commands, &image]);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_variant_of_the_format_reads_as_the_host_wrote_it() {
    let dir = Scratch::new();
    let from = dir.path("from");
    sample_tree(&from);
    let variants = [
        ("ext4", "-t ext4", FilesystemKind::Ext4),
        ("ext4 with 1 KiB blocks", "-t ext4 -b 1024", FilesystemKind::Ext4),
        ("ext4 with 2 KiB blocks and large inodes", "-t ext4 -b 2048 -I 512", FilesystemKind::Ext4),
        ("ext4 with 64 KiB blocks", "-t ext4 -b 65536", FilesystemKind::Ext4),
        ("ext4 with data in inodes", "-t ext4 -O inline_data", FilesystemKind::Ext4),
        ("ext4 with data in large inodes", "-t ext4 -O inline_data -I 1024", FilesystemKind::Ext4),
        (
            "ext4 without checksums and 64-bit numbers",
            "-t ext4 -O ^metadata_csum,^64bit",
            FilesystemKind::Ext4,
        ),
        ("ext4 with a checksum seed", "-t ext4 -O metadata_csum_seed", FilesystemKind::Ext4),
        ("ext4 without a journal", "-t ext4 -O ^has_journal", FilesystemKind::Ext4),
        ("ext4 with descriptors spread", "-t ext4 -O meta_bg,^resize_inode -b 1024", FilesystemKind::Ext4),
        ("ext4 with two superblock copies", "-t ext4 -O sparse_super2,^resize_inode", FilesystemKind::Ext4),
        ("ext4 with big clusters", "-t ext4 -O bigalloc -C 16384", FilesystemKind::Ext4),
        ("ext4 that ignores case", "-t ext4 -O casefold -E encoding=utf8", FilesystemKind::Ext4),
        ("ext4 ready for encryption and verity", "-t ext4 -O encrypt,verity", FilesystemKind::Ext4),
        ("ext3", "-t ext3", FilesystemKind::Ext3),
        ("ext2", "-t ext2 -b 1024", FilesystemKind::Ext2),
        ("ext2 without types in directories", "-t ext2 -O ^filetype", FilesystemKind::Ext2),
    ];
    for (name, options, kind) in variants {
        let image = dir.path("image");
        let _ = fs::remove_file(&image);
        mkfs(&image, &from, options, "64M");
        // Hash trees, which mke2fs does not make itself. 1 means that it changed something.
        let checked = common::try_run("e2fsck", &[&"-fyD", &image]);
        assert!(matches!(checked.code, Some(0 | 1)), "{name}: {checked:?}");
        let tree = open(Memory::load(&image));
        assert_eq!(tree.about().name, kind.name(), "{name}");
        assert_eq!(tree.about().notes, [], "{name}");
        println!("{name}");
        assert_same(&*tree, "", &from, POSIX);
    }
}

#[test]
fn extents_that_were_never_written_read_as_zeros() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    fs::create_dir(&from).expect("writable");
    // Fill the media with something, free it again, and let a file claim it without writing.
    fs::write(from.join("secret"), pattern(1, 6 << 20)).expect("writable");
    mkfs(&image, &from, "-t ext4 -b 4096", "16M");
    debugfs(
        &image,
        "rm secret\nwrite /dev/null claimed\nsif claimed size 4194304\nfallocate claimed 0 1023\n",
    );
    let before = fs::read(&image).expect("readable");
    let tree = open(Memory::new(before.clone()));
    let ours = read(&*tree, &path("claimed"));
    assert_eq!(ours.len(), 4 << 20);
    assert!(ours.iter().all(|&byte| byte == 0), "stale contents of the media are shown");
    let dumped = dir.path("dumped");
    debugfs(&image, &format!("dump claimed {}\n", dumped.display()));
    assert!(fs::read(dumped).expect("dumped") == ours, "debugfs reads something else");

    // Why this room has a reader of its own: delete it when the library passes.
    let library =
        ext4_view::Ext4::load(Box::new(before)).expect("it opens").read("/claimed").expect("it reads");
    assert_ne!(library, ours, "ext4-view is right about unwritten extents by now");
}

#[test]
fn an_independent_library_reads_the_same() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    sample_tree(&from);
    fs::remove_file(from.join("empty")).expect("there"); // It rejects times before 1970.
    mkfs(&image, &from, "-t ext4 -b 1024", "64M");
    let bytes = fs::read(&image).expect("readable");
    let library = ext4_view::Ext4::load(Box::new(bytes.clone())).expect("it opens");
    let tree = open(Memory::new(bytes));
    let mut compared = 0;
    for relative in common::walk(&from) {
        let name = format!("/{}", relative.display());
        let Ok(found) = library.symlink_metadata(name.as_str()) else { continue };
        let inner = path(&name);
        let ours = tree.metadata(&inner).expect("we find it too");
        assert_eq!((ours.size, ours.mode, ours.uid), (found.len(), found.mode(), found.uid()), "{name}");
        assert_eq!(ours.modified.nanoseconds, found.modified().nanoseconds(), "{name}");
        if found.file_type().is_regular_file() {
            assert!(read(&*tree, &inner) == library.read(name.as_str()).expect("it reads"), "{name}");
        }
        compared += 1;
    }
    assert!(compared > 700, "only {compared} entries compared");
}

#[test]
fn old_inodes_without_room_for_nanoseconds_and_large_numbers_of_groups_read() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    fs::create_dir(&from).expect("writable");
    for i in 0..300 {
        fs::create_dir(from.join(format!("d{i}"))).expect("writable");
        fs::write(from.join(format!("d{i}/f")), pattern(i, 5000)).expect("writable");
    }
    // Reaches into the third level of a block map, and ends with a hole.
    let sparse = fs::File::create(from.join("sparse")).expect("writable");
    for (at, seed) in [(11 << 10, 1), (300 << 10, 2), (70 << 20, 3)] {
        std::os::unix::fs::FileExt::write_all_at(&sparse, &pattern(seed, 5000), at).expect("writable");
    }
    sparse.set_len(80_000_000).expect("writable");
    for options in [
        "-t ext2 -b 1024 -I 128 -g 256 -r 0",
        "-t ext4 -b 1024 -I 128 -g 256 -O meta_bg,^resize_inode,^metadata_csum",
    ] {
        let _ = fs::remove_file(&image);
        mkfs(&image, &from, options, "24M");
        assert_same(&*open(Memory::load(&image)), "", &from, POSIX);
    }
}

#[test]
fn times_reach_from_1901_to_2446_with_nanoseconds() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    fs::create_dir(&from).expect("writable");
    fs::write(from.join("file"), b"").expect("writable");
    // Kernel documentation, "Inode Timestamps": the two extra bits and the sign of the 32-bit seconds.
    for (seconds, extra, expected) in [
        (0x8000_0000_u32, 0_u32, -0x8000_0000_i64),
        (0x7fff_ffff, 0, 0x7fff_ffff),
        (0x8000_0000, 1, 0x8000_0000),
        (0x0000_0000, 1, 0x1_0000_0000),
        (0x7fff_ffff, 3, 0x3_7fff_ffff),
    ] {
        mkfs(&image, &from, "-t ext4", "8M");
        let extra = extra | 123_456_789 << 2;
        debugfs(&image, &format!("sif file mtime @{seconds}\nsif file mtime_extra {extra}\n"));
        let found = open(Memory::load(&image)).metadata(&path("file")).expect("it is there").modified;
        assert_eq!((found.seconds, found.nanoseconds), (expected, 123_456_789));
        fs::remove_file(&image).expect("there");
    }
}

/// Fills a journal with debugfs, then compares what we read with what e2fsck makes of it.
fn check_replay(
    options: &str,
    script: impl Fn(&Path, &[u64]) -> String,
    alter: fn(&Path),
    transactions: u32,
) {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    fs::create_dir(&from).expect("writable");
    fs::write(from.join("file"), pattern(1, 40 << 10)).expect("writable");
    fs::write(from.join("other"), pattern(2, 40 << 10)).expect("writable");
    mkfs(&image, &from, options, "32M");
    let blocks = blocks_of(&image, "file");
    let output = debugfs(&image, &script(dir.as_path(), &blocks));
    assert!(!output.contains("rror"), "{output}");
    alter(&image);
    let dirty = fs::read(&image).expect("readable");
    let tree = open(Memory::new(dirty.clone()));
    let notes = tree.about().notes;
    assert!(
        matches!(notes[..], [Note::JournalReplayed { transactions: n, .. }] if n == transactions),
        "{notes:?} instead of {transactions} transactions"
    );
    let ours = (read(&*tree, &path("file")), read(&*tree, &path("other")));
    let checked = common::try_run("e2fsck", &[&"-fy", &image]);
    assert!(matches!(checked.code, Some(0 | 1)), "{checked:?}");
    let clean = fs::read(&image).expect("readable");
    assert_ne!(clean, dirty, "there was nothing to replay");
    let tree = open(Memory::new(clean));
    assert_eq!(tree.about().notes, []);
    assert!(ours.0 == read(&*tree, &path("file")), "replay differs from e2fsck's");
    assert!(ours.1 == read(&*tree, &path("other")), "replay differs from e2fsck's");
    assert!(ours.0 != pattern(1, 40 << 10), "the journal changed nothing that is visible");
}

fn blocks_of(image: &Path, file: &str) -> Vec<u64> {
    let listed = run("debugfs", &[&"-R", &format!("blocks {file}"), &image]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    text.split_whitespace().map(|number| number.parse().expect("a block number")).collect()
}

/// Moves the log of a journal without checksums so that it starts just before the journal's end and goes on at its start.
fn rotate_journal(image: &Path) {
    let mut bytes = fs::read(image).expect("readable");
    let blocks: Vec<usize> = blocks_of(image, "<8>").into_iter().map(|b| b as usize * 1024).collect();
    let head = blocks[0];
    let field =
        |at: usize| u32::from_be_bytes(bytes[head + at..head + at + 4].try_into().expect("4 bytes")) as usize;
    let (len, first, start) = (field(16), field(20), field(28));
    // `blocks` lists the map's own blocks among the journal's: tell them apart by counting only as many as there are.
    let log: Vec<usize> = journal_blocks(&blocks, len)[first..len].to_vec();
    let old: Vec<Vec<u8>> = log.iter().map(|&at| bytes[at..at + 1024].to_vec()).collect();
    let shift = len - start - 3;
    for (i, block) in old.iter().enumerate() {
        let at = log[(i + shift) % log.len()];
        bytes[at..at + 1024].copy_from_slice(block);
    }
    bytes[head + 28..head + 32].copy_from_slice(&((start + shift) as u32).to_be_bytes());
    fs::write(image, bytes).expect("writable");
}

/// Leaves out the indirect blocks of a block map, which lie between the blocks of data they map (12 first, then 256 each).
fn journal_blocks(blocks: &[usize], len: usize) -> Vec<usize> {
    if blocks.len() == len {
        return blocks.to_vec();
    }
    let mut data = blocks[..12].to_vec();
    let mut rest = &blocks[12..];
    data.extend(&rest[1..257]);
    rest = &rest[258..];
    while !rest.is_empty() && data.len() < len {
        let take = (rest.len() - 1).min(256);
        data.extend(&rest[1..1 + take]);
        rest = &rest[1 + take..];
    }
    data
}

/// A file of whole blocks for debugfs to put into the journal.
fn blocks_file(dir: &Path, name: &str, bytes: &[u8]) -> String {
    let file = dir.join(name);
    fs::write(&file, bytes).expect("writable");
    file.display().to_string()
}

#[test]
fn a_journal_is_replayed_in_memory_as_e2fsck_replays_it_on_the_media() {
    for options in [
        "-t ext4 -b 4096",
        "-t ext4 -b 1024",
        "-t ext4 -b 4096 -O ^64bit,^metadata_csum",
        "-t ext4 -b 1024 -O ^64bit",
        "-t ext3 -b 1024",
    ] {
        let size: usize = if options.contains("1024") { 1024 } else { 4096 };
        println!("{options}");
        check_replay(
            options,
            |dir, blocks| {
                let first = blocks_file(dir, "first", &pattern(10, 3 * size));
                // Contents that begin with the journal's magic number must be escaped in it.
                let mut magic = pattern(11, size);
                magic[..4].copy_from_slice(&0xc03b_3998_u32.to_be_bytes());
                let second = blocks_file(dir, "second", &magic);
                let third = blocks_file(dir, "third", &pattern(12, size));
                let checksums = if options.contains("^metadata_csum") || options.contains("ext3") {
                    ""
                } else {
                    " -c -v 3"
                };
                format!(
                    "jo{checksums}\njw -b {},{},{} {first}\njw -b {} {second}\njw -b {} {third}\njw -r {}\njc\n",
                    blocks[0], blocks[1], blocks[2], blocks[3], blocks[1], blocks[2]
                )
            },
            |_| {},
            4,
        );
    }
}

#[test]
fn a_log_that_runs_over_the_journals_end_goes_on_at_its_start() {
    check_replay(
        "-t ext3 -b 1024",
        |dir, blocks| {
            let data: Vec<String> =
                (0..4).map(|i| blocks_file(dir, &format!("data{i}"), &pattern(20 + i, 2048))).collect();
            (0..4).fold("jo\n".to_owned(), |script, i| {
                format!("{script}jw -b {},{} {}\n", blocks[2 * i], blocks[2 * i + 1], data[i])
            }) + "jc\n"
        },
        rotate_journal,
        4,
    );
}

#[test]
fn transactions_without_a_commit_record_do_not_count() {
    check_replay(
        "-t ext4 -b 1024",
        |dir, blocks| {
            let first = blocks_file(dir, "first", &pattern(10, 1024));
            let second = blocks_file(dir, "second", &pattern(11, 1024));
            format!("jo -c -v 3\njw -b {} {first}\njw -b {} -c {second}\njc\n", blocks[0], blocks[1])
        },
        |_| {},
        1,
    );
}

#[test]
fn encrypted_inodes_and_other_obstacles_have_errors_of_their_own() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    sample_tree(&from);
    mkfs(&image, &from, "-t ext4 -O encrypt", "32M");
    // Sets the flag by which the kernel marks encrypted inodes; EXTENTS stays.
    debugfs(&image, "sif one flags 0x80800\nsif many flags 0x80800\n");
    let tree = open(Memory::load(&image));
    assert!(matches!(tree.read_at(&path("one"), 0, &mut [0; 8]), Err(TreeError::Encrypted { .. })));
    // Names that were never encrypted are shown as if they were, as the kernel does.
    let shown = tree.list(&path("many")).expect("names without a key");
    assert!(shown.iter().all(|entry| entry.name.len() > 10 && !entry.name.starts_with(b"file")), "{shown:?}");
    assert_eq!(tree.metadata(&path("many")).map(|m| m.kind), Ok(Kind::Directory));
    assert_eq!(tree.metadata(&path("nowhere")).map(|m| m.kind), Err(TreeError::NotFound));
    assert_eq!(tree.metadata(&path("block/x")).map(|m| m.kind), Err(TreeError::NotADirectory));
    assert_eq!(tree.metadata(&path("link/and")).map(|m| m.kind), Err(TreeError::NotADirectory));
    assert_eq!(tree.read_at(&path("deep"), 0, &mut [0; 8]), Err(TreeError::IsADirectory));
    assert_eq!(tree.read_at(&path("pipe"), 0, &mut [0; 8]), Err(TreeError::NotAFile));
    assert_eq!(tree.read_link(&path("block")), Err(TreeError::NotALink));
    assert_eq!(tree.make_dir(&path("new")), Err(TreeError::ReadOnly));
    assert_eq!(tree.read_at(&path("block"), 5000, &mut [0; 8]), Ok(0));
    let resolved =
        atrest_filetree::resolve(&*tree, b"link/../er/and/./deeper/leaf", atrest_filetree::LastLink::Follow);
    assert_eq!(resolved, Ok(path("deep/er/and/deeper/leaf")));

    let mut cut = fs::read(&image).expect("readable");
    cut.truncate(20 << 20);
    let error = atrest_inside::open_tree(Memory::new(cut), atrest_inside::Access::ReadOnly).err();
    assert_eq!(error, Some(TreeError::LargerThanDevice { needs: 32 << 20, has: 20 << 20 }));
}

#[test]
fn checksums_catch_flipped_bits_in_metadata() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    fs::create_dir(&from).expect("writable");
    fs::write(from.join("file"), b"contents").expect("writable");
    mkfs(&image, &from, "-t ext4 -b 4096", "16M");
    let good = fs::read(&image).expect("readable");
    let place = |what: &str| -> usize {
        let output = run("debugfs", &[&"-R", &what, &image]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split_whitespace()
            .filter_map(|word| word.trim_end_matches(',').parse().ok())
            .next_back()
            .expect("a number")
    };
    let mut bytes = good.clone();
    bytes[1024 + 0x10] ^= 1;
    let opened = atrest_inside::open_tree(Memory::new(bytes), atrest_inside::Access::ReadOnly);
    assert_eq!(opened.err(), Some(Damage::SuperblockChecksum.into()));

    let mut bytes = good.clone();
    bytes[4096 + 4] ^= 1;
    let opened = atrest_inside::open_tree(Memory::new(bytes), atrest_inside::Access::ReadOnly);
    assert_eq!(opened.err(), Some(Damage::GroupDescriptor { group: 0 }.into()));

    let root = place("blocks /");
    let mut bytes = good.clone();
    bytes[root * 4096 + 30] ^= 1;
    let tree = open(Memory::new(bytes));
    assert!(matches!(damage(&tree.list(&path(""))), Some(Damage::Directory { inode: 2, .. })));

    // The second inode of 256 bytes: both halves of its checksum, a field behind the first 128 bytes, and what is behind all.
    let table = place("imap /");
    for at in [0x7c, 0x7d, 0x82, 0x83, 0x94, 0xf0] {
        let mut bytes = good.clone();
        bytes[table * 4096 + 256 + at] ^= 1;
        let opened = atrest_inside::open_tree(Memory::new(bytes), atrest_inside::Access::ReadOnly);
        assert_eq!(opened.err(), Some(Damage::InodeChecksum(2).into()), "byte {at:#x}");
    }

    // The superblock of a journal that is to be replayed: a byte that means nothing, and two of the checksum.
    let block = dir.path("block");
    fs::write(&block, pattern(1, 4096)).expect("writable");
    debugfs(&image, &format!("jo -c -v 3\njw -b 3000 {}\njc\n", block.display()));
    let good = fs::read(&image).expect("readable");
    let is_journal = |block: &[u8]| block.starts_with(&[0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, 4]);
    let journal = good.chunks(4096).position(is_journal).expect("a journal");
    open(Memory::new(good.clone()));
    for at in [0x70, 0xfc, 0xff, 0x100] {
        let mut bytes = good.clone();
        bytes[journal * 4096 + at] ^= 1;
        let opened = atrest_inside::open_tree(Memory::new(bytes), atrest_inside::Access::ReadOnly);
        assert_eq!(opened.err(), Some(Damage::Journal { block: 0 }.into()), "byte {at:#x}");
    }
}

#[test]
fn sequential_reads_reach_the_media_in_large_pieces_and_failures_keep_their_cause() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    fs::create_dir(&from).expect("writable");
    fs::write(from.join("large"), pattern(1, 16 << 20)).expect("writable");
    mkfs(&image, &from, "-t ext4", "64M");
    let device = Memory::load(&image);
    let tree = open(device.clone());
    let before = device.reads.load(std::sync::atomic::Ordering::Relaxed);
    assert!(read(&*tree, &path("large")) == pattern(1, 16 << 20));
    let reads = device.reads.load(std::sync::atomic::Ordering::Relaxed) - before;
    assert!(reads <= 24, "{reads} reads for 16 MiB");
    device.patience.store(3, std::sync::atomic::Ordering::Relaxed);
    let mut total = 0;
    let error = tree.read_to(&path("large"), &mut |piece| {
        total += piece.len();
        Ok(())
    });
    assert!(matches!(error, Err(TreeError::Device(_))), "{error:?}");
    assert!(total < 16 << 20);
    let shared: Arc<dyn FileTree> = Arc::from(tree);
    fn is_shareable(_: &(impl Send + Sync + ?Sized)) {}
    is_shareable(&*shared);
}

#[test]
fn an_inline_directory_of_which_a_part_is_lost_is_no_shorter_directory() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    fs::create_dir_all(from.join("d")).expect("writable");
    for name in ["one", "two", "three"] {
        fs::write(from.join("d").join(name), "").expect("writable");
    }
    mkfs(&image, &from, "-t ext4 -O inline_data,^metadata_csum -I 256", "4M");
    let listed = |image: &Path| open(Memory::load(image)).list(&path("d"));
    assert_eq!(listed(&image).expect("whole").len(), 3);
    // Entries behind the first sixty bytes would lie in an attribute, and there is none.
    debugfs(&image, "sif d size 100\n");
    let refused = listed(&image);
    assert!(matches!(damage(&refused), Some(Damage::Directory { at: 60, .. })), "{refused:?}");
}

#[test]
fn a_directory_is_no_larger_than_its_filesystem() {
    let dir = Scratch::new();
    let (from, image) = (dir.path("from"), dir.path("image"));
    fs::create_dir_all(from.join("d")).expect("writable");
    mkfs(&image, &from, "-t ext4 -O ^metadata_csum", "4M");
    debugfs(&image, "sif d size 4194304\n");
    let listed = |image: &Path| open(Memory::load(image)).list(&path("d"));
    // As large as the filesystem: read, up to the hole.
    assert!(!matches!(damage(&listed(&image)), Some(Damage::Directory { at: 0, .. })));
    debugfs(&image, "sif d size 4195328\n");
    let refused = listed(&image);
    assert!(matches!(damage(&refused), Some(Damage::Directory { at: 0, .. })), "{refused:?}");
}
