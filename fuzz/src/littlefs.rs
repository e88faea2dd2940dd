//! The check of littlefs's metadata, and the library behind it.

use std::collections::BTreeSet;

use atrest_device::{BlockDevice as _, FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};
use atrest_littlefs::{FormatOptions, Kind, LittleFs, OpenMode, Version, check, format, probe};

use crate::medium::{Keeps, Medium};
use crate::{Image, crc};

const BLOCK: usize = 512;
const BLOCKS: usize = 32;
/// Reads, programs and erases after which a filesystem is taken to have no end.
const PATIENCE: u64 = 500_000;

/// An image of 32 blocks, inverted so that what is erased takes no room. With flag 1 the checksums of all commits are made right
/// first; with flag 2 the filesystem is changed, too.
pub fn littlefs(data: &[u8]) {
    let (flags, mut bytes) = decode(data);
    if flags & 1 != 0 {
        bytes.chunks_exact_mut(BLOCK).for_each(seal);
    }
    let place = |at: u64, len: usize| bytes.get(at as usize..)?.get(..len);
    let _ = probe(|at, buf| place(at, buf.len()).map(|from| buf.copy_from_slice(from)).is_some());
    read(&bytes);
    if flags & 2 != 0 {
        write(&bytes);
    }
}

fn decode(data: &[u8]) -> (u8, Vec<u8>) {
    let (flags, image) = Image::decode(data);
    let mut bytes = vec![0; BLOCK * BLOCKS];
    let len = bytes.len().min(image.size() as usize);
    image.read_at(0, &mut bytes[..len]).expect("inside");
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
    (flags, bytes)
}

/// The paths in the filesystem of an input; `None` if it is refused.
pub fn littlefs_listing(data: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut device = Patient::new(&decode(data).1);
    let mut fs = LittleFs::mount(&mut device, false).ok()?;
    Some(list(&mut fs)?.into_iter().map(|(path, _, _)| path).collect())
}

fn geometry() -> FlashGeometry {
    FlashGeometry::new(16, 16, BLOCK as u32, BLOCKS as u64).expect("a geometry")
}

/// Makes the checksums of a block's commits right, as far as its tags lead. Each tag is stored XORed with the one before.
fn seal(block: &mut [u8]) {
    let (mut at, mut previous) = (4, u32::MAX);
    let mut sum = crc::update(u32::MAX, &block[..4]);
    while let Some(stored) = block.get(at..).and_then(|rest| rest.first_chunk()).copied() {
        let tag = u32::from_be_bytes(stored) ^ previous;
        let len = if tag & 0x3ff == 0x3ff { 0 } else { (tag & 0x3ff) as usize };
        if tag >> 31 == 1 || at + 4 + len > block.len() {
            return;
        }
        sum = crc::update(sum, &stored);
        let data = &mut block[at + 4..at + 4 + len];
        if tag >> 27 & 0xf == 0b1010 {
            let Some(place) = data.first_chunk_mut::<4>() else { return };
            *place = sum.to_le_bytes();
            sum = u32::MAX;
            previous = tag ^ (tag >> 20 & 1) << 31;
        } else {
            sum = crc::update(sum, data);
            previous = tag;
        }
        at += 4 + len;
    }
}

/// A device that gives up in the end.
struct Patient {
    medium: Medium,
    left: u64,
}

impl Patient {
    fn new(bytes: &[u8]) -> Self {
        let mut medium = Medium::new(geometry(), Keeps::Card);
        medium.bytes.copy_from_slice(bytes);
        Self { medium, left: PATIENCE }
    }

    fn spend(&mut self, operation: FlashOperation, address: u64) -> Result<(), FlashError> {
        self.left = self.left.saturating_sub(1);
        match self.left {
            0 => Err(FlashError::new(operation, address, 0, FlashCause::Driver(99))),
            _ => Ok(()),
        }
    }
}

impl FlashDevice for &mut Patient {
    fn geometry(&self) -> FlashGeometry {
        self.medium.geometry()
    }
    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.spend(FlashOperation::Read, address)?;
        self.medium.read(address, buf)
    }
    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.spend(FlashOperation::Prog, address)?;
        self.medium.prog(address, data)
    }
    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.spend(FlashOperation::Erase, address)?;
        self.medium.bytes[address as usize..][..len as usize].fill(0xff);
        self.medium.erase(address, len)
    }
    fn sync(&mut self) -> Result<(), FlashError> {
        self.medium.sync()
    }
}

/// A path of names and what is there.
type Listed = BTreeSet<(Vec<u8>, bool, u64)>;

/// Everything in a filesystem; `None` if something can't be read. Directories are in one place, so that this ends.
fn list<D: FlashDevice>(fs: &mut LittleFs<D>) -> Option<Listed> {
    let (mut found, mut ahead, mut whole) = (Listed::new(), vec![Vec::new()], true);
    while let Some(dir) = ahead.pop() {
        let Ok(entries) = fs.read_dir(&dir) else {
            whole = false;
            continue;
        };
        for entry in entries {
            assert!(!entry.name.is_empty() && !entry.name.contains(&b'/') && !entry.name.contains(&0));
            let path = [&dir[..], b"/", &entry.name].concat();
            assert!(path.len() <= BLOCK * BLOCKS, "directories contain each other");
            let is_dir = entry.kind == Kind::Directory;
            if is_dir {
                ahead.push(path.clone());
            }
            assert!(found.insert((path, is_dir, entry.size)), "an entry comes twice");
        }
    }
    whole.then_some(found)
}

/// What the check lets through is mounted and read, twice the same, and nothing is written.
fn read(bytes: &[u8]) {
    let mut device = Patient::new(bytes);
    let Ok(summary) = check(&mut &mut device) else {
        assert!(LittleFs::mount(&mut device, true).is_err(), "it is mounted without the check");
        assert_eq!(device.medium.writes, 0, "a filesystem that is refused was changed");
        return;
    };
    assert!((1..=BLOCKS / 2).contains(&summary.directories), "{} directories", summary.directories);
    let mut listed = Vec::new();
    for _ in 0..2 {
        let Ok(mut fs) = LittleFs::mount(&mut device, false) else { break };
        assert_eq!(fs.was_interrupted(), summary.interrupted);
        let found = list(&mut fs);
        if let Some(found) = &found
            && !summary.interrupted
        {
            let directories = found.iter().filter(|(_, is_dir, _)| *is_dir).count();
            let files = found.len() - directories;
            // A directory that no entry leads to was checked, and is not found.
            let checked = directories < summary.directories && files <= summary.files;
            assert!(checked, "{directories} directories and {files} files of {summary:?}");
        }
        contents(&mut fs, found.iter().flatten());
        listed.push(found);
    }
    assert!(listed.windows(2).all(|pair| pair[0] == pair[1]), "it is listed as another the second time");
    assert!(device.left > 0, "reading has no end");
    assert!(device.medium.writes == 0 && device.medium.bytes == bytes, "reading has written");
}

fn contents<'a, D: FlashDevice>(
    fs: &mut LittleFs<D>,
    listed: impl Iterator<Item = &'a (Vec<u8>, bool, u64)>,
) {
    let mut buf = vec![0; 2000];
    for (path, _, size) in listed.filter(|(_, is_dir, _)| !is_dir) {
        let _ = fs.attribute(path, 0x74);
        let Ok(file) = fs.open(path, OpenMode::Read) else { continue };
        assert_eq!(fs.file_size(&file), Ok(*size));
        let (mut at, last) = (0, (BLOCK * BLOCKS * 2) as u64);
        while let Ok(len @ 1..) = fs.read_at(&file, at, &mut buf) {
            at += len as u64;
            // More than the medium has is the same blocks again.
            if at > last {
                break;
            }
        }
        assert!(at <= *size, "more was read than there is");
        let _ = fs.close(file);
    }
    let _ = fs.space();
}

/// Whatever a filesystem is, changing it comes to an end.
fn write(bytes: &[u8]) {
    let mut device = Patient::new(bytes);
    let Ok(mut fs) = LittleFs::mount(&mut device, true) else { return };
    let listed = list(&mut fs).unwrap_or_default();
    for (path, is_dir, size) in listed.into_iter().take(12) {
        let moved = [&path[..], b".moved"].concat();
        if is_dir {
            let _ = fs.mkdir(&[&path[..], b"/new"].concat());
        } else if let Ok(file) = fs.open(&path, OpenMode::ReadWrite) {
            let _ = fs.write_at(&file, size / 2, &[1; 40]);
            let _ = fs.truncate(&file, size / 3);
            let _ = fs.close(file);
        }
        let _ = fs.set_attribute(&path, 0x74, b"attribute");
        let _ = fs.rename(&path, &moved);
        let _ = fs.remove(&moved);
    }
    let _ = fs.unmount();
    assert!(device.left > 0, "changing has no end");
}

/// A filesystem for the seeds: directories in directories, files of all kinds, an attribute, what was removed and renamed.
pub fn littlefs_seed(version: Version, files: usize) -> Vec<u8> {
    let mut device = Patient::new(&[0xff; BLOCK * BLOCKS]);
    format(&mut device, &FormatOptions { version }).expect("a good medium");
    let mut fs = LittleFs::mount(&mut device, true).expect("an empty filesystem");
    for dir in [&b"a"[..], b"a/b", b"c"] {
        fs.mkdir(dir).expect("a directory");
    }
    for (name, len) in
        [(&b"inline"[..], 30), (b"a/large", 1200), (b"a/b/empty", 0), (b"c/two", 700)].into_iter().take(files)
    {
        let file = fs.open(name, OpenMode::New).expect("a file");
        fs.write_at(&file, 0, &vec![7; len]).expect("room");
        fs.close(file).expect("closed");
    }
    for number in 0..files as u8 {
        let name = [b"c/", &[b'0' + number][..]].concat();
        let file = fs.open(&name, OpenMode::New).expect("a file");
        fs.close(file).expect("closed");
    }
    if files > 3 {
        fs.set_attribute(b"inline", 0x74, b"attribute").expect("set");
        fs.remove(b"c/1").expect("removed");
        fs.rename(b"c/2", b"a/2").expect("renamed");
    }
    fs.unmount().expect("closed");
    device.medium.bytes.iter().map(|byte| !byte).collect()
}
