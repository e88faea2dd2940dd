//! What both kernels are asked: a manifest of everything in a mounted tree, compared with what is read from its image.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use atrest_engine::{Access, FileDevice};
use atrest_filetree::{Encryption, FileTree, Kind, TreePath};
use atrest_inside::open_tree_with;
use atrest_secret::SecretBytes;
use atrest_tree::fscrypt::Keyring;
use sha2::{Digest, Sha256};

/// What there is to know about an entry: kind and permissions, inode, size, owner, links, time, contents or target.
#[derive(Debug, PartialEq, Eq)]
pub struct Fact {
    pub mode: u32,
    pub inode: u64,
    pub size: u64,
    pub owner: (u32, u32),
    pub links: u64,
    pub modified: (i64, i64),
    /// SHA-256 of a file, the target of a link. None where it can't be read.
    pub contents: Option<Vec<u8>>,
}

/// By path, without a slash in front.
pub type Facts = BTreeMap<Vec<u8>, Fact>;

/// A master key that a test uses, `len` bytes long.
pub fn master_key(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 11 + 5) as u8).collect()
}

/// A keyring with this key under its own names, and under `descriptor`.
pub fn keyring(key: &[u8], descriptor: [u8; 8]) -> Arc<Keyring> {
    let keyring = Keyring::new();
    keyring.add(SecretBytes::copy_from(key)).expect("a master key");
    keyring.add_descriptor(descriptor, SecretBytes::copy_from(key)).expect("a master key");
    Arc::new(keyring)
}

/// Opens the image.
pub fn open(image: &Path, keyring: Arc<Keyring>) -> Box<dyn FileTree> {
    let device = FileDevice::open(image, Access::ReadOnly).expect("an image");
    open_tree_with(Arc::new(device), atrest_inside::Access::ReadOnly, Some(keyring as Arc<dyn Encryption>))
        .expect("an ext4")
}

/// What the kernel says of everything below a directory. The contents of files only if the key is there.
pub fn of_kernel(root: &Path, unlocked: bool) -> Facts {
    let mut facts = Facts::new();
    let mut left = vec![root.to_path_buf()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(&dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            let metadata = path.symlink_metadata().expect("metadata");
            let kind = metadata.mode() & 0o170_000;
            let contents = match kind {
                0o120_000 => Some(path.read_link().expect("a link").as_os_str().as_bytes().to_vec()),
                0o100_000 if unlocked => Some(hash_file(&path)),
                _ => None,
            };
            let inner = path.strip_prefix(root).expect("below the root").as_os_str().as_bytes().to_vec();
            facts.insert(
                inner,
                Fact {
                    mode: metadata.mode(),
                    inode: metadata.ino(),
                    size: metadata.size(),
                    owner: (metadata.uid(), metadata.gid()),
                    links: metadata.nlink(),
                    modified: (metadata.mtime(), metadata.mtime_nsec()),
                    contents,
                },
            );
            if kind == 0o040_000 {
                left.push(path);
            }
        }
    }
    facts
}

fn hash_file(path: &Path) -> Vec<u8> {
    let mut file = std::fs::File::open(path).expect("a file");
    let (mut hasher, mut piece) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match std::io::Read::read(&mut file, &mut piece).expect("contents") {
            0 => return hasher.finalize().to_vec(),
            len => hasher.update(&piece[..len]),
        }
    }
}

/// What we read of everything in a tree.
pub fn of_image(tree: &dyn FileTree, unlocked: bool) -> Facts {
    let mut facts = Facts::new();
    let mut left = vec![TreePath::root()];
    while let Some(dir) = left.pop() {
        for entry in tree.list(&dir).unwrap_or_else(|error| panic!("{dir}: {error}")) {
            let path = dir.join(&entry.name).expect("a path");
            let fail = |error| -> ! { panic!("{path}: {error}") };
            let metadata = tree.metadata(&path).unwrap_or_else(|error| fail(error));
            assert_eq!((metadata.inode, metadata.kind), (entry.inode, entry.kind), "{path}");
            let kind: u32 = match metadata.kind {
                Kind::Pipe => 0o010_000,
                Kind::CharDevice => 0o020_000,
                Kind::Directory => 0o040_000,
                Kind::BlockDevice => 0o060_000,
                Kind::File => 0o100_000,
                Kind::Link => 0o120_000,
                Kind::Socket => 0o140_000,
            };
            let contents = match metadata.kind {
                Kind::Link => Some(tree.read_link(&path).unwrap_or_else(|error| fail(error))),
                Kind::File if unlocked => {
                    let mut hasher = Sha256::new();
                    let read = tree.read_to(&path, &mut |piece| {
                        hasher.update(piece);
                        Ok(())
                    });
                    assert_eq!(read, Ok(metadata.size), "{path}");
                    Some(hasher.finalize().to_vec())
                }
                _ => None,
            };
            let inner = path.components().collect::<Vec<_>>().join(&b'/');
            facts.insert(
                inner,
                Fact {
                    mode: kind | u32::from(metadata.mode),
                    inode: metadata.inode,
                    size: metadata.size,
                    owner: (metadata.uid, metadata.gid),
                    links: metadata.links.into(),
                    modified: (metadata.modified.seconds, metadata.modified.nanoseconds.into()),
                    contents,
                },
            );
            if entry.kind == Kind::Directory {
                left.push(path);
            }
        }
    }
    facts
}

/// Fails with what differs, not with everything.
pub fn assert_same(kernel: &Facts, ours: &Facts, what: &str) {
    let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    for (name, fact) in kernel {
        match ours.get(name) {
            None => panic!(
                "{what}: {} is missing; we have {:?}",
                shown(name),
                ours.keys().map(|n| shown(n)).take(20).collect::<Vec<_>>()
            ),
            Some(other) => assert_eq!(fact, other, "{what}: {} (kernel, ours)", shown(name)),
        }
    }
    for name in ours.keys() {
        assert!(kernel.contains_key(name), "{what}: {} is not there for the kernel", shown(name));
    }
}

/// Fills a directory with names of all lengths, files of many sizes, links, holes and directories in it.
pub fn fill(dir: &Path, names: usize, large: Option<u64>) {
    use std::ffi::OsStr;
    use std::io::{Seek, SeekFrom, Write};
    let bytes = |len: usize, seed: usize| -> Vec<u8> {
        (0..len).map(|i| (i.wrapping_mul(31) ^ (i >> 8) ^ seed.wrapping_mul(97)) as u8).collect()
    };
    let write = |name: &[u8], data: &[u8]| {
        std::fs::write(dir.join(OsStr::from_bytes(name)), data).expect("a file");
    };
    write(b"empty", b"");
    for (seed, len) in
        [1, 15, 16, 17, 511, 512, 1023, 4095, 4096, 4097, 8192, 65_536, 100_001].into_iter().enumerate()
    {
        write(format!("{len} bytes").as_bytes(), &bytes(len, seed));
    }
    // A link has its length beside it in its block, and the kernel counts a NUL.
    let longest = rustix::fs::statvfs(dir).expect("a filesystem").f_bsize as usize - 3;
    // Every length from 1 to 255 has its turn, and no name is text only.
    for i in 0..names {
        let len = 1 + i * 254 / names.saturating_sub(1).max(1);
        let mut name: Vec<u8> = (0..len).map(|at| 1 + ((i * 7 + at * 13) % 254) as u8).collect();
        name.iter_mut().filter(|byte| **byte == b'/').for_each(|byte| *byte = 0xff);
        write(&name, &bytes(i, i));
        if i % 8 == 0 {
            let target: Vec<u8> = (0..1 + i * (longest - 1) / (names.saturating_sub(1) / 8 * 8).max(1))
                .map(|at| if at % 9 == 8 { b'/' } else { b't' })
                .collect();
            std::os::unix::fs::symlink(OsStr::from_bytes(&target), dir.join(format!("link {i}")))
                .expect("a link");
        }
    }
    metadata_of_all_kinds(dir);
    let mut sparse = std::fs::File::create(dir.join("sparse")).expect("a file");
    for at in [5_000_u64, 300_000, 3_000_000] {
        sparse.seek(SeekFrom::Start(at)).expect("a place");
        sparse.write_all(&bytes(9_000, at as usize)).expect("data");
    }
    sparse.set_len(5_000_000).expect("a size");
    // Allocated and never written.
    let reserved = std::fs::File::create(dir.join("reserved")).expect("a file");
    rustix::fs::fallocate(&reserved, rustix::fs::FallocateFlags::empty(), 0, 200_000).expect("room");
    let mut deep = dir.to_path_buf();
    for level in 0..8 {
        deep.push(format!("level {level}"));
        std::fs::create_dir(&deep).expect("a directory");
        std::fs::write(deep.join("here"), bytes(level * 700, level)).expect("a file");
    }
    if let Some(len) = large {
        let mut file = std::fs::File::create(dir.join("large")).expect("a file");
        let piece = bytes(1 << 20, 77);
        for _ in 0..len >> 20 {
            file.write_all(&piece).expect("data");
        }
    }
}

/// Owners, permissions, times, second names and special files, and extended attributes in a block of their own.
fn metadata_of_all_kinds(dir: &Path) {
    use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
    let (owned, twice) = (dir.join("1 bytes"), dir.join("4097 bytes"));
    std::os::unix::fs::chown(&owned, Some(1000), Some(70_000)).expect("root");
    rustix::fs::chmod(&owned, Mode::from_raw_mode(0o4751)).expect("root");
    std::fs::hard_link(&twice, dir.join("second name")).expect("a link");
    for (name, len) in [("user.short", 5), ("user.long", 700)] {
        rustix::fs::setxattr(&twice, name, &vec![b'a'; len], XattrFlags::empty()).expect("room");
    }
    let pipe = dir.join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o604), 0).expect("a pipe");
    for (name, tv_sec) in [("15 bytes", -1_000_000_000), ("16 bytes", 5_000_000_000)] {
        let time = Timespec { tv_sec, tv_nsec: 123_456_789 };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, dir.join(name), &times, AtFlags::empty()).expect("a time");
    }
}
