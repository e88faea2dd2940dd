//! Devices, images and oracles that the tests of this room share.
#![allow(dead_code)] // Each test program uses its own part.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use atrest_device::{BlockDevice, Cause, DeviceError, Geometry, Operation};
use atrest_filetree::{Cursor, Entry, FileTree, Kind, TreeError, TreePath, Wanted};
use atrest_inside::{Access, Damage};
use atrest_testkit::Random;
use atrest_testkit::oracle::{Outcome, Program};

/// A device in memory, which can be told to fail.
pub struct Memory {
    bytes: RwLock<Vec<u8>>,
    /// Requests that still succeed.
    pub patience: AtomicU64,
    pub reads: AtomicU64,
    pub flushes: AtomicU64,
}

impl Memory {
    pub fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self {
            bytes: RwLock::new(bytes),
            patience: AtomicU64::new(u64::MAX),
            reads: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
        })
    }

    pub fn load(path: &Path) -> Arc<Self> {
        Self::new(fs::read(path).expect("the image is there"))
    }

    pub fn store(&self, path: &Path) {
        fs::write(path, &*self.bytes.read().expect("not poisoned")).expect("the image can be written");
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.read().expect("not poisoned").clone()
    }

    fn spend(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        let left = self.patience.load(Ordering::Relaxed);
        if left == 0 {
            return Err(DeviceError::new(operation, offset, len, Cause::Os(5)));
        }
        self.patience.store(left.saturating_sub(u64::from(left != u64::MAX)), Ordering::Relaxed);
        Ok(())
    }
}

impl BlockDevice for Memory {
    fn size(&self) -> u64 {
        self.bytes.read().expect("not poisoned").len() as u64
    }

    fn geometry(&self) -> Geometry {
        Geometry::default()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        self.spend(Operation::Read, offset, buf.len() as u64)?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        let bytes = self.bytes.read().expect("not poisoned");
        buf.copy_from_slice(&bytes[offset as usize..offset as usize + buf.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Write, offset, data.len() as u64)?;
        self.spend(Operation::Write, offset, data.len() as u64)?;
        let mut bytes = self.bytes.write().expect("not poisoned");
        bytes[offset as usize..offset as usize + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.spend(Operation::Flush, 0, 0)?;
        self.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Runs a tool and fails with what it said unless it ends well.
#[track_caller]
pub fn run(program: &str, args: &[&dyn AsRef<OsStr>]) -> Outcome {
    try_run(program, args).expect_code(0)
}

pub fn try_run(program: &str, args: &[&dyn AsRef<OsStr>]) -> Outcome {
    let tool = Program::named(program).env("TZ", "UTC").env("MTOOLS_SKIP_CHECK", "1");
    tool.args(args.iter().map(|arg| arg.as_ref())).run()
}

pub fn path(text: &str) -> TreePath {
    TreePath::parse(text).expect("a valid path")
}

pub fn open(device: Arc<Memory>) -> Box<dyn FileTree> {
    atrest_inside::open_tree(device, Access::ReadWrite).expect("the filesystem opens")
}

/// What is damaged, if a tree says that its filesystem is.
pub fn damage<T>(answer: &Result<T, TreeError>) -> Option<Damage> {
    match answer {
        Err(error @ TreeError::Corrupt(_)) => error.fault().copied(),
        _ => None,
    }
}

/// The whole contents of a file.
pub fn read(tree: &dyn FileTree, file: &TreePath) -> Vec<u8> {
    let mut bytes = Vec::new();
    tree.read_to(file, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })
    .unwrap_or_else(|error| panic!("{file}: {error}"));
    bytes
}

pub fn write(tree: &dyn FileTree, file: &TreePath, mut data: &[u8]) -> Result<u64, TreeError> {
    tree.write_from(file, &mut |buf| {
        let len = buf.len().min(data.len());
        buf[..len].copy_from_slice(&data[..len]);
        data = &data[len..];
        Ok(len)
    })
}

/// Bytes that differ everywhere, from a seed.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    Random::new(seed).bytes(len)
}

/// A directory on the host that holds one of everything a file tree can hold.
pub fn sample_tree(root: &Path) {
    let file = |name: &[u8], data: &[u8]| {
        fs::write(root.join(OsStr::from_bytes(name)), data).expect("the sample can be written");
    };
    fs::create_dir_all(root.join("deep/er/and/deeper")).expect("the sample can be written");
    fs::create_dir(root.join("many")).expect("the sample can be written");
    file(b"empty", b"");
    file(b"one", b"1");
    file(b"block-1", &pattern(1, 4095));
    file(b"block", &pattern(2, 4096));
    file(b"block+1", &pattern(3, 4097));
    file(b"large", &pattern(4, 3_000_001));
    file(b"inline", &pattern(5, 100));
    file("ümläut – ∑.txt".as_bytes(), b"unicode");
    file(b"not\xffutf8", b"bytes");
    file(b"a name that is rather longer than eight plus three.html", b"long");
    file(b"deep/er/and/deeper/leaf", b"leaf");
    for i in 0..700 {
        file(format!("many/file number {i:04}").as_bytes(), format!("{i}").as_bytes());
    }
    let sparse = fs::File::create(root.join("sparse")).expect("the sample can be written");
    // Whole blocks, for mke2fs rounds sizes up where it also stores data in inodes.
    for (at, seed) in [(1 << 20, 6), (1221 * 4096, 7)] {
        std::os::unix::fs::FileExt::write_all_at(&sparse, &pattern(seed, 8192), at).expect("writable");
    }
    std::os::unix::fs::symlink("deep/er", root.join("link")).expect("links can be made");
    std::os::unix::fs::symlink(format!("/{}", "long/".repeat(60)), root.join("long-link"))
        .expect("links can be made");
    fs::set_permissions(root.join("one"), fs::Permissions::from_mode(0o4751)).expect("chmod");
    fs::set_permissions(root.join("deep"), fs::Permissions::from_mode(0o700)).expect("chmod");
    run("mkfifo", &[&root.join("pipe")]);
    // mke2fs cuts later times than 2038 off.
    for (name, time) in [("one", "2001-02-03 04:05:06"), ("empty", "1969-07-20 20:17:40")] {
        run("touch", &[&"-d", &time, &root.join(name)]);
    }
}

/// Every entry below `dir` on the host, relative, with `dir` itself as the empty path.
pub fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    let mut at = 0;
    while at < found.len() {
        let here = found[at].clone();
        if fs::symlink_metadata(dir.join(&here)).expect("it was listed").is_dir() {
            for entry in fs::read_dir(dir.join(&here)).expect("a directory") {
                found.push(here.join(entry.expect("readable").file_name()));
            }
        }
        at += 1;
    }
    found
}

/// Which properties a filesystem keeps.
#[derive(Clone, Copy)]
pub struct Keeps {
    pub posix: bool,
}

/// Asserts that `tree` below `at` is the host's directory `dir`: names, kinds, contents, links; with `posix` modes and times.
pub fn assert_same(tree: &dyn FileTree, at: &str, dir: &Path, keeps: Keeps) {
    for relative in walk(dir) {
        let host = dir.join(&relative);
        let stat = fs::symlink_metadata(&host).expect("it was listed");
        let inner =
            TreePath::parse([at.as_bytes(), b"/", relative.as_os_str().as_bytes()].concat()).expect("valid");
        let found = tree.metadata(&inner).unwrap_or_else(|error| panic!("{inner}: {error}"));
        let kind = match stat.file_type() {
            t if t.is_dir() => Kind::Directory,
            t if t.is_symlink() => Kind::Link,
            t if t.is_fifo() => Kind::Pipe,
            _ => Kind::File,
        };
        assert_eq!(found.kind, kind, "{inner}");
        if keeps.posix && !relative.as_os_str().is_empty() {
            assert_eq!(u32::from(found.mode), stat.mode() & 0o7777, "{inner}");
            assert_eq!((found.uid, found.gid), (stat.uid(), stat.gid()), "{inner}");
            assert_eq!(found.modified.seconds, stat.mtime(), "{inner}");
        }
        match kind {
            Kind::File => {
                assert_eq!(found.size, stat.len(), "{inner}");
                assert!(
                    read(tree, &inner) == fs::read(&host).expect("readable"),
                    "contents of {inner} differ"
                );
            }
            Kind::Link => {
                let target = fs::read_link(&host).expect("a link");
                assert_eq!(tree.read_link(&inner).expect("a link"), target.as_os_str().as_bytes(), "{inner}");
            }
            Kind::Directory => {
                assert_portions(tree, &inner);
                let mut ours: Vec<Vec<u8>> =
                    tree.list(&inner).expect("a directory").into_iter().map(|entry| entry.name).collect();
                let mut theirs: Vec<Vec<u8>> = fs::read_dir(&host)
                    .expect("a directory")
                    .map(|entry| entry.expect("readable").file_name().as_bytes().to_vec())
                    .collect();
                ours.retain(|name| name != b"lost+found");
                ours.sort();
                theirs.sort();
                assert_eq!(ours, theirs, "{inner}");
            }
            _ => {}
        }
    }
}

/// A directory in portions of any size is the directory, with the metadata that each path has.
pub fn assert_portions(tree: &dyn FileTree, dir: &TreePath) {
    let sorted = |mut entries: Vec<Entry>| {
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries
    };
    let whole = sorted(tree.list(dir).expect("it lists"));
    for entries in [1, 7, 64, usize::MAX] {
        if entries == 1 && whole.len() > 300 {
            continue;
        }
        let (mut from, mut all) = (Cursor::START, Vec::new());
        loop {
            let wanted = Wanted { entries, metadata: entries != 7 };
            let portion = tree.list_from(dir, from, wanted).expect("it lists");
            let Some(last) = portion.last() else { break };
            assert!(portion.len() <= entries && last.next > from, "{dir}: {last:?}");
            from = last.next;
            for listed in portion {
                let path = dir.join(&listed.entry.name).expect("a name");
                let expected = wanted.metadata.then(|| tree.metadata(&path));
                assert_eq!(listed.metadata, expected, "{path}");
                all.push(listed.entry);
            }
        }
        assert_eq!(sorted(all), whole, "{dir}: {entries} at once");
    }
}

/// Reads all of a tree, as a hostile image's victim would, without expecting anything. Returns how many entries there were.
pub fn exhaust(tree: &dyn FileTree) -> usize {
    let mut seen = 0;
    let mut ahead = vec![TreePath::root()];
    while let Some(dir) = ahead.pop() {
        if seen > 2000 || dir.components().count() > 12 {
            continue;
        }
        for from in [0, 1, 12, 1000, 4096 * 3 + 5, u64::MAX] {
            let _ = tree.list_from(&dir, Cursor(from), Wanted { entries: 50, metadata: true });
        }
        let Ok(entries) = tree.list(&dir) else { continue };
        for entry in entries.into_iter().take(300) {
            seen += 1;
            let path = dir.join(&entry.name).expect("listed names are valid");
            let _ = tree.metadata(&path);
            match entry.kind {
                Kind::Directory => ahead.push(path),
                Kind::Link => drop(tree.read_link(&path)),
                _ => {
                    let mut left = 1 << 22;
                    let _ = tree.read_to(&path, &mut |piece| {
                        left -= piece.len() as i64;
                        if left < 0 { Err(atrest_filetree::Stop) } else { Ok(()) }
                    });
                    let _ = tree.read_at(&path, 70_000, &mut [0; 512]);
                }
            }
        }
    }
    seen
}
