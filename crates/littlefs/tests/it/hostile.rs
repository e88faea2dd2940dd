//! Images that somebody made to do harm: metadata whose checksums are right and whose contents are not. Each is refused or
//! used, and comes to an end either way.

use std::cell::Cell;
use std::rc::Rc;

use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};
use atrest_littlefs::{
    Damage, FormatOptions, Kind, LittleFs, LittleFsError, MAX_ATTRIBUTE_LEN, MountError, OpenMode, format,
    probe,
};
use atrest_testkit::flash::{BadBlock, EmulatedFlash, FlashImage, SharedFlash};
use atrest_testkit::{Campaign, Random};

const BLOCK: usize = 512;
const BLOCKS: u64 = 48;
/// The tag that says where a directory lies.
const DIRECTORY: u32 = 0x200;

fn geometry() -> FlashGeometry {
    FlashGeometry::new(16, 16, BLOCK as u32, BLOCKS).expect("a geometry")
}

/// A device that gives up after so many transfers: what would run for ever ends with an error.
struct Patient {
    flash: EmulatedFlash,
    left: Rc<Cell<u64>>,
}

impl Patient {
    fn spend(&self, operation: FlashOperation, address: u64) -> Result<(), FlashError> {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.unwrap_or(0));
        left.map(drop).ok_or(FlashError::new(operation, address, 0, FlashCause::Driver(99)))
    }
}

impl FlashDevice for Patient {
    fn geometry(&self) -> FlashGeometry {
        self.flash.geometry()
    }
    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.spend(FlashOperation::Read, address)?;
        self.flash.read(address, buf)
    }
    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.spend(FlashOperation::Prog, address)?;
        self.flash.prog(address, data)
    }
    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.spend(FlashOperation::Erase, address)?;
        self.flash.erase(address, len)
    }
    fn sync(&mut self) -> Result<(), FlashError> {
        self.flash.sync()
    }
}

/// Directories in directories, files of all kinds, an attribute.
fn sample() -> Vec<u8> {
    let mut flash = EmulatedFlash::new(geometry());
    let device = format(&mut flash, &FormatOptions::default()).expect("format");
    let mut fs = LittleFs::mount(device, true).expect("mount");
    for dir in ["a", "a/b", "c"] {
        fs.mkdir(dir.as_bytes()).expect("a directory");
    }
    for (name, len) in
        [("inline", 30), ("a/large", 3000), ("a/b/larger", 5000), ("c/empty", 0), ("c/two", 700)]
    {
        let file = fs.open(name.as_bytes(), OpenMode::New).expect("a file");
        fs.write_at(&file, 0, &vec![7; len]).expect("written");
        fs.close(file).expect("closed");
    }
    for number in 0..12 {
        let name = format!("c/{number}");
        let file = fs.open(name.as_bytes(), OpenMode::New).expect("a file");
        fs.write_at(&file, 0, name.as_bytes()).expect("written");
        fs.close(file).expect("closed");
    }
    fs.set_attribute(b"inline", 0x74, b"attribute").expect("set");
    fs.remove(b"c/3").expect("removed");
    fs.rename(b"c/4", b"a/4").expect("renamed");
    fs.unmount().expect("unmount");
    flash.image().to_bytes()
}

/// A log as its tags and their data, to change and to write again with checksums that are right.
struct Log {
    revision: [u8; 4],
    tags: Vec<(u32, Vec<u8>)>,
}

fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

fn is_checksum(tag: u32) -> bool {
    tag >> 27 & 0xf == 0b1010
}

impl Log {
    /// None for a block that is no log.
    fn read(block: &[u8]) -> Option<Self> {
        let (mut at, mut previous, mut tags) = (4, u32::MAX, Vec::new());
        while at + 4 <= block.len() {
            let tag = u32::from_be_bytes(block[at..at + 4].try_into().expect("4 bytes")) ^ previous;
            let len = if tag & 0x3ff == 0x3ff { 0 } else { (tag & 0x3ff) as usize };
            if tag >> 31 != 0 || at + 4 + len > block.len() {
                break;
            }
            tags.push((tag, block[at + 4..at + 4 + len].to_vec()));
            previous = if is_checksum(tag) { tag ^ (tag >> 20 & 1) << 31 } else { tag };
            at += 4 + len;
        }
        let known = tags.iter().any(|(tag, _)| is_checksum(*tag));
        known.then(|| Self { revision: block[..4].try_into().expect("4 bytes"), tags })
    }

    /// As much of it as a block has room for.
    fn write(&self, block: &mut [u8]) {
        let (mut out, mut previous) = (self.revision.to_vec(), u32::MAX);
        let mut crc = crc32(u32::MAX, &out);
        for (tag, data) in &self.tags {
            let len = if tag & 0x3ff == 0x3ff { 0 } else { (tag & 0x3ff) as usize };
            let stored = (tag ^ previous).to_be_bytes();
            crc = crc32(crc, &stored);
            out.extend(stored);
            let mut data = data.clone();
            data.resize(len, 0xff);
            if is_checksum(*tag) {
                data[..4.min(len)].copy_from_slice(&crc.to_le_bytes()[..4.min(len)]);
                crc = u32::MAX;
            } else {
                crc = crc32(crc, &data);
            }
            out.extend(data);
            previous = if is_checksum(*tag) { tag ^ (tag >> 20 & 1) << 31 } else { *tag };
        }
        out.truncate(block.len());
        block[..out.len()].copy_from_slice(&out);
        block[out.len()..].fill(0xff);
    }

    fn change(&mut self, random: &mut Random) {
        let index = random.below(self.tags.len() as u64) as usize;
        let kinds = [
            0x101, 0x102, 0x100, 0x001, 0x002, 0x0ff, 0x200, 0x201, 0x202, 0x3aa, 0x401, 0x4ff, 0x5ff, 0x600,
            0x601, 0x7ff, 0x500, 0x501,
        ];
        let (tag, data) = &mut self.tags[index];
        match random.below(8) {
            0 => *tag = *tag & 0x000f_ffff | random.pick(&kinds) << 20,
            1 => *tag = *tag & !0x000f_fc00 | (random.below(0x400) as u32) << 10,
            2 => *tag = *tag & !0x000f_fc00 | (random.below(6) as u32) << 10,
            3 => *tag = *tag & !0x3ff | *random.pick(&[0, 1, 3, 4, 7, 8, 12, 24, 60, 0x3fe, 0x3ff]),
            4 if data.len() >= 4 => {
                let word = random.below(data.len() as u64 / 4) as usize * 4;
                let values = [
                    0,
                    1,
                    2,
                    3,
                    5,
                    9,
                    BLOCKS as u32 - 1,
                    BLOCKS as u32,
                    0x7fff_ffff,
                    0x8000_0000,
                    u32::MAX,
                    5000,
                ];
                data[word..word + 4].copy_from_slice(&random.pick(&values).to_le_bytes());
            }
            5 if !data.is_empty() => {
                let at = random.below(data.len() as u64) as usize;
                data[at] = *random.pick(&[0, b'/', b'.', 0xff, 0x80, b'a']);
            }
            6 => {
                let copy = self.tags[index].clone();
                let to = random.below(self.tags.len() as u64) as usize;
                self.tags.insert(to, copy);
            }
            _ => {
                self.tags.remove(index);
            }
        }
    }
}

/// What the entries of directories name their blocks with.
fn pairs(bytes: &[u8]) -> Vec<Vec<u8>> {
    let logs = bytes.chunks(BLOCK).filter_map(Log::read);
    let tags = logs.flat_map(|log| log.tags);
    tags.filter(|(tag, data)| tag >> 20 == DIRECTORY && data.len() == 8).map(|(_, data)| data).collect()
}

/// Rewrites one or more logs; says where.
fn attack(bytes: &mut [u8], random: &mut Random) {
    let logs: Vec<usize> =
        (0..BLOCKS as usize).filter(|block| Log::read(&bytes[block * BLOCK..][..BLOCK]).is_some()).collect();
    let pairs = pairs(bytes);
    for _ in 0..1 + random.below(3) {
        let block = *random.pick(&logs);
        let range = block * BLOCK..(block + 1) * BLOCK;
        let Some(mut log) = Log::read(&bytes[range.clone()]) else { continue };
        for _ in 0..1 + random.below(2) {
            if !log.tags.is_empty() {
                log.change(random);
            }
        }
        // A directory in a second place.
        let directories = log.tags.iter_mut().filter(|(tag, data)| tag >> 20 == DIRECTORY && data.len() == 8);
        for (_, data) in directories {
            if random.below(4) == 0 {
                data.clone_from(random.pick(&pairs));
            }
        }
        // Newer than its other half, most of the time.
        let revision = u32::from_le_bytes(log.revision).wrapping_add(random.below(3) as u32);
        log.revision = revision.to_le_bytes();
        log.write(&mut bytes[range]);
    }
}

/// Reads and changes everything that can be reached. Errors are as good as success; only an end is asked for.
fn use_all(fs: &mut LittleFs<Patient>, dir: &str, depth: usize, visits: &mut usize) {
    *visits += 1;
    if depth > 20 || *visits > 500 {
        return;
    }
    for entry in fs.read_dir(dir.as_bytes()).unwrap_or_default() {
        let path = format!("{dir}/{}", String::from_utf8_lossy(&entry.name));
        if entry.kind == Kind::Directory {
            use_all(fs, &path, depth + 1, visits);
        } else if let Ok(file) = fs.open(path.as_bytes(), OpenMode::ReadWrite) {
            let mut buf = vec![0; 2000];
            let mut at = 0;
            while let Ok(len @ 1..) = fs.read_at(&file, at, &mut buf) {
                at += len as u64;
            }
            let end = fs.file_size(&file).unwrap_or(0);
            let _ = fs.write_at(&file, end / 2, &[1; 40]);
            let _ = fs.truncate(&file, end / 3);
            let _ = fs.close(file);
        }
        let _ = fs.attribute(path.as_bytes(), 0x74);
        let _ = fs.rename(path.as_bytes(), format!("{path}.moved").as_bytes());
        let _ = fs.remove(format!("{path}.moved").as_bytes());
    }
    let _ = fs.mkdir(format!("{dir}/new").as_bytes());
    let _ = fs.space();
}

/// A directory takes two blocks, and is in one place.
fn count_directories(fs: &mut LittleFs<Patient>) {
    let (mut ahead, mut count) = (vec![String::new()], 0);
    while let Some(dir) = ahead.pop() {
        count += 1;
        assert!(count <= BLOCKS / 2, "more directories than blocks for them");
        let entries = fs.read_dir(dir.as_bytes()).unwrap_or_default();
        let inner = entries.into_iter().filter(|entry| entry.kind == Kind::Directory);
        ahead.extend(inner.map(|entry| format!("{dir}/{}", String::from_utf8_lossy(&entry.name))));
    }
}

/// Mounts to read and to write; returns whether it was let through.
fn survive(bytes: &[u8], limit: u64) -> bool {
    let _ = probe(|at, buf| {
        bytes
            .get(at as usize..)
            .and_then(|rest| rest.get(..buf.len()))
            .map(|from| buf.copy_from_slice(from))
            .is_some()
    });
    let mut mounted = false;
    for writable in [false, true] {
        let left = Rc::new(Cell::new(limit));
        let flash = EmulatedFlash::with_image(FlashImage::from_bytes(geometry(), bytes));
        if let Ok(mut fs) = LittleFs::mount(Patient { flash, left: left.clone() }, writable) {
            count_directories(&mut fs);
            use_all(&mut fs, "", 0, &mut 0);
            let _ = fs.unmount();
            mounted = true;
        }
        assert!(left.get() > 0, "it did not come to an end by itself");
    }
    mounted
}

#[test]
fn hostile_metadata_are_refused_or_harmless() {
    let whole = sample();
    let (mut refused, mut used) = (0_u32, 0_u32);
    Campaign::new("hostile littlefs", 3000, 200_000).run(|_, random: &mut Random| {
        let mut bytes = whole.clone();
        attack(&mut bytes, random);
        if survive(&bytes, 2_000_000) { used += 1 } else { refused += 1 }
    });
    println!("hostile littlefs: {refused} refused, {used} used");
    assert!(refused + used < 1000 || refused > 0 && used > 0);
}

#[test]
fn garbage_is_refused_or_harmless() {
    let whole = sample();
    Campaign::new("garbage littlefs", 500, 20_000).run(|_, random: &mut Random| {
        let mut bytes = whole.clone();
        for _ in 0..1 + random.below(6) {
            let (at, len) = (random.below(bytes.len() as u64) as usize, 1 + random.below(300) as usize);
            let end = (at + len).min(bytes.len());
            random.fill(&mut bytes[at..end]);
        }
        survive(&bytes, 2_000_000);
    });
}

/// Changes the first log in which `change` finds something to change, in both halves of its pair.
fn with_change(change: impl Fn(&mut Log) -> bool) -> Result<(), MountError> {
    let mut bytes = sample();
    let mut changed = false;
    for block in bytes.chunks_mut(BLOCK) {
        if let Some(mut log) = Log::read(block)
            && change(&mut log)
        {
            log.write(block);
            changed = true;
        }
    }
    assert!(changed, "nothing to change");
    let flash = EmulatedFlash::with_image(FlashImage::from_bytes(geometry(), &bytes));
    LittleFs::mount(flash, true).map(drop)
}

/// The sample itself passes; each of these defects alone is refused by its name.
#[test]
fn each_defect_is_named() {
    assert_eq!(with_change(|_| true), Ok(()), "written again unchanged");
    // The library takes the data of these for pointers into its own memory.
    for kind in [0x101_u32, 0x102] {
        let planted = with_change(|log| {
            log.tags.insert(log.tags.len() - 1, (kind << 20 | 8, vec![0x41; 8]));
            true
        });
        assert!(
            matches!(planted, Err(MountError::Damaged(Damage::Tag { kind: found, .. })) if u32::from(found) == kind)
        );
    }
    let set = |kind: u32, word: usize, value: u32| {
        with_change(|log| {
            let mut found = false;
            for (_, data) in
                log.tags.iter_mut().filter(|(tag, data)| tag >> 20 == kind && data.len() >= word * 4 + 4)
            {
                data[word * 4..word * 4 + 4].copy_from_slice(&value.to_le_bytes());
                found = true;
            }
            found
        })
    };
    assert!(matches!(set(0x200, 0, 4000), Err(MountError::Damaged(Damage::Tag { kind: 0x200, .. }))));
    assert!(matches!(set(0x202, 0, 4000), Err(MountError::Damaged(Damage::Tag { kind: 0x202, .. }))));
    assert!(matches!(set(0x202, 1, 1 << 31), Err(MountError::Damaged(Damage::Tag { kind: 0x202, .. }))));
    assert!(matches!(
        set(0x600, 0, 0),
        Err(MountError::Damaged(Damage::EndlessList { .. } | Damage::Tag { .. }))
    ));
    // Two directories of the root in one place, and one that is in itself.
    for pair in pairs(&sample()) {
        let shared = with_change(|log| {
            let directories =
                log.tags.iter_mut().filter(|(tag, data)| tag >> 20 == DIRECTORY && data.len() == 8);
            directories.map(|(_, data)| data.clone_from(&pair)).count() > 0
        });
        assert!(matches!(shared, Err(MountError::Damaged(Damage::SharedDirectory { .. }))), "{shared:?}");
    }
    // Two entries of one directory with one name.
    let same = with_change(|log| {
        let mut names =
            log.tags.iter_mut().filter(|(tag, data)| matches!(tag >> 20, 1 | 2) && data.len() == 1);
        let Some((_, first)) = names.next() else { return false };
        let second = names.next().filter(|(_, second)| second != first);
        second.map(|(_, second)| second.clone_from(first)).is_some()
    });
    assert!(matches!(same, Err(MountError::Damaged(Damage::SameName { .. }))), "{same:?}");
    let superblock = |word: usize, value: u32| {
        with_change(|log| {
            let found = log.tags.iter_mut().find(|(tag, data)| tag >> 20 == 0x201 && data.len() == 24);
            found
                .map(|(_, data)| data[word * 4..word * 4 + 4].copy_from_slice(&value.to_le_bytes()))
                .is_some()
        })
    };
    assert_eq!(superblock(0, 0x0003_0000), Err(MountError::Version { version: 0x0003_0000 }));
    assert!(matches!(superblock(1, 4096), Err(MountError::OtherGeometry { block_size: 4096, .. })));
    assert!(matches!(superblock(2, 47), Err(MountError::OtherGeometry { block_count: 47, .. })));
    assert_eq!(superblock(3, 256), Err(MountError::Damaged(Damage::Limit { value: 256 })));
}

/// Found by the campaign, case 64098: an id far behind the others is a directory of hundreds of places in few bytes.
#[test]
fn a_directory_with_a_gap_between_its_entries_is_refused() {
    // The entry that was made last moves to another place with all that is its own, if it is at the end of the directory.
    let moved = |to: u32| {
        with_change(|log| {
            let Some(name) = log.tags.iter().rposition(|(tag, _)| matches!(tag >> 20, 1 | 2)) else {
                return false;
            };
            let id = log.tags[name].0 >> 10 & 0x3ff;
            let is_last = log.tags.iter().all(|(tag, _)| tag >> 30 != 0 || tag >> 10 & 0x3ff <= id);
            // Without the tag that makes it: that one counts places, too.
            let Some(made) = log.tags.iter().position(|(tag, _)| *tag >> 10 == 0x401 << 10 | id) else {
                return false;
            };
            if !is_last || made > name {
                return false;
            }
            log.tags.remove(made);
            let own = log.tags[made..].iter_mut().filter(|(tag, _)| *tag >> 10 & 0x3ff == id);
            own.for_each(|(tag, _)| *tag = *tag & !0x000f_fc00 | to.max(id) << 10);
            true
        })
    };
    assert_eq!(moved(0), Ok(()), "a name at the end makes its place itself");
    for to in [12, 948, 1022] {
        assert!(matches!(moved(to), Err(MountError::Damaged(Damage::Gap { .. }))), "{to}: {:?}", moved(to));
    }
}

#[test]
fn a_name_without_contents_is_refused() {
    let bare = with_change(|log| {
        let before = log.tags.len();
        log.tags.retain(|(tag, _)| !matches!(tag >> 20, 0x201 | 0x202) || *tag >> 10 & 0x3ff == 0);
        log.tags.len() < before
    });
    assert!(matches!(bare, Err(MountError::Damaged(Damage::Gap { .. }))), "{bare:?}");
}

/// An image whose root goes on where its directory `a` was, with an entry or without.
fn with_continuation(fill: bool) -> Result<Vec<String>, MountError> {
    let mut flash = EmulatedFlash::new(geometry());
    let device = format(&mut flash, &FormatOptions::default()).expect("format");
    let mut fs = LittleFs::mount(device, true).expect("mount");
    fs.mkdir(b"a").expect("a directory");
    if fill {
        let file = fs.open(b"a/x", OpenMode::New).expect("a file");
        fs.close(file).expect("closed");
    }
    fs.unmount().expect("unmount");
    let mut bytes = flash.image().to_bytes();
    let block = &mut bytes[BLOCK..2 * BLOCK];
    let mut root = Log::read(block).expect("the root, where `a` was made");
    root.tags.retain(|(tag, _)| *tag >> 10 & 0x3ff != 1);
    let tail = root.tags.iter_mut().find(|(tag, _)| tag >> 20 == 0x600).expect("the list goes on");
    tail.0 |= 1 << 20;
    root.write(block);
    let mut fs =
        LittleFs::mount(EmulatedFlash::with_image(FlashImage::from_bytes(geometry(), &bytes)), true)?;
    let entries = fs.read_dir(b"").expect("listed");
    Ok(entries.into_iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect())
}

/// The library would list a directory `/` in it, whose path leads to the same directory, without end.
#[test]
fn a_directory_that_goes_on_in_blocks_without_entries_is_refused() {
    assert_eq!(with_continuation(true), Ok(vec!["x".to_owned()]), "the same with an entry");
    let pair = [2, 3];
    let refused = with_continuation(false);
    assert_eq!(refused, Err(MountError::Damaged(Damage::EmptyContinuation { pair })));
}

/// What the library itself leaves of a long directory is let through: first blocks without entries, never later ones.
#[test]
fn a_long_directory_is_mounted_after_each_removal() {
    for backwards in [false, true] {
        let mut flash = EmulatedFlash::new(geometry());
        let device = format(&mut flash, &FormatOptions::default()).expect("format");
        let mut fs = LittleFs::mount(device, true).expect("mount");
        fs.mkdir(b"d").expect("a directory");
        let mut names: Vec<String> = (10..50).map(|number| format!("d/{number}")).collect();
        for name in &names {
            let file = fs.open(name.as_bytes(), OpenMode::New).expect("a file");
            fs.close(file).expect("closed");
        }
        fs.unmount().expect("unmount");
        while let Some(name) = if backwards { names.pop() } else { names.first().cloned() } {
            names.retain(|other| *other != name);
            let mut fs = LittleFs::mount(&mut flash, true).expect("mount");
            fs.remove(name.as_bytes()).expect("removed");
            let left = fs.read_dir(b"d").expect("listed");
            let left: Vec<_> =
                left.iter().map(|entry| format!("d/{}", String::from_utf8_lossy(&entry.name))).collect();
            assert_eq!(left, names);
            fs.unmount().expect("unmount");
        }
    }
}

#[test]
fn an_attribute_that_is_too_long_is_no_lack_of_space() {
    let flash = SharedFlash::new(EmulatedFlash::new(geometry()));
    format(flash.clone(), &FormatOptions::default()).expect("format");
    let mut fs = LittleFs::mount(flash, true).expect("mount");
    let file = fs.open(b"file", OpenMode::New).expect("a file");
    fs.close(file).expect("closed");
    let refused = fs.set_attribute(b"file", 1, &[0; MAX_ATTRIBUTE_LEN + 1]);
    assert_eq!(refused, Err(LittleFsError::AttributeTooLong { len: MAX_ATTRIBUTE_LEN + 1 }));
    // As long as is allowed, but more than a block of this medium has.
    assert_eq!(fs.set_attribute(b"file", 1, &[0; MAX_ATTRIBUTE_LEN]), Err(LittleFsError::NoSpace));
}

#[test]
fn unmounting_that_fails_gives_the_device_back() {
    let flash = SharedFlash::new(EmulatedFlash::new(geometry()));
    format(flash.clone(), &FormatOptions::default()).expect("format");
    let mut fs = LittleFs::mount(flash.clone(), true).expect("mount");
    let file = fs.open(b"file", OpenMode::New).expect("a file");
    fs.write_at(&file, 0, &[7; 4000]).expect("written");
    for block in 0..flash.geometry().block_count() {
        flash.lock().break_block(block as usize, BadBlock::ProgError);
    }
    let failed = fs.unmount().expect_err("nothing can be programmed");
    assert!(LittleFs::mount(failed.device, false).is_ok(), "{:?}", failed.error);
}
