//! Sizes: a volume that is full of single blocks, each in another object than its neighbour, which a store makes up as it is asked for them.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use atrest_device::{BlockDevice as _, TRUSTED_RECORD_LEN};
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{
    Aead, FANOUT, FormatId, Keys, Kind, Node, Part, Prelude, Record, Root, Run, names, seal_node, seal_root,
    slot_offset, span,
};
use atrest_sealedvolume::header::{HeaderObject, NewHeader};
use atrest_sealedvolume::store::{ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::{Access, Freshness, Settings};
use atrest_secret::VolumeKey;
use atrest_testkit::{Campaign, Random, Scratch};

use crate::rig::plain::Cell;

const FORMAT: FormatId = [5; 16];
const SESSION: [u8; 32] = [6; 32];
/// Blocks in each log object.
const SLOTS: u32 = 2048;
/// Number of the first log object: as many bytes long as that of the last.
const FIRST: u64 = 1 << 21;
/// Odd, and so chosen that no two blocks of a leaf lie in one object.
const STRIDE: u64 = 40_503;

/// A store that holds a full volume of 2^`bits` blocks, without holding it.
struct Full {
    keys: Keys,
    bits: u32,
    /// Bytes of a node of each level, without tags.
    lens: Vec<u32>,
    /// What was stored since, but for log objects, whose bytes are forgotten.
    written: Scratch,
    logs: Mutex<BTreeMap<u64, usize>>,
    asked: AtomicU32,
}

impl Full {
    fn new(bits: u32) -> Self {
        let keys = Keys::new(&VolumeKey::copy_from(&[9; 32]), FORMAT).expect("keys");
        let (lens, written) = (Vec::new(), Scratch::new());
        for kind in ["m", "c", "h"] {
            written.directory(kind);
        }
        let (logs, asked) = (Mutex::default(), AtomicU32::new(0));
        let mut full = Self { keys, bits, lens, written, logs, asked };
        let mut level = 0;
        while span(level) <= 1 << bits {
            let (made, _) =
                seal_node(&full.keys, full.map(level, 0, 0), &full.node(level, 0)).expect("a node");
            full.lens.push(made.summary_len);
            level += 1;
        }
        if span(level - 1) < 1 << bits {
            let (made, _) =
                seal_node(&full.keys, full.map(level, 0, 0), &full.node(level, 0)).expect("a node");
            full.lens.push(made.summary_len);
        }
        full
    }

    /// The object and the slot of a block.
    fn place(&self, block: u64) -> (u64, u32) {
        let mixed = (block / u64::from(SLOTS) + STRIDE * block) % self.objects();
        (FIRST + mixed, (block % u64::from(SLOTS)) as u32)
    }

    /// The block in a slot of an object: the one whose place it is.
    fn block(&self, number: u64, slot: u32) -> u64 {
        let inverse = (0..6).fold(1_u64, |inverse, _| {
            inverse.wrapping_mul(2_u64.wrapping_sub(STRIDE_TIMES.wrapping_mul(inverse)))
        });
        // With block = 2048 q + slot: mixed = q + STRIDE (2048 q + slot), all modulo the number of objects.
        let rest = (number - FIRST).wrapping_sub(STRIDE * u64::from(slot));
        let high = rest.wrapping_mul(inverse) % self.objects();
        high * u64::from(SLOTS) + u64::from(slot)
    }

    fn objects(&self) -> u64 {
        (1 << self.bits) / u64::from(SLOTS)
    }

    fn log(&self, number: u64) -> Prelude {
        let mut salt = [1; 16];
        salt[8..].copy_from_slice(&number.to_le_bytes());
        let (kind, aead, slots, summary_len) = (Kind::Log, Aead::Aes256Gcm, SLOTS, 5000);
        Prelude { kind, aead, slots, summary_len, number, format: FORMAT, session: SESSION, salt, epoch: 0 }
    }

    fn map(&self, level: u32, number: u64, summary_len: u32) -> Prelude {
        let mut salt = [2; 16];
        salt[7] = level as u8;
        salt[8..].copy_from_slice(&number.to_le_bytes());
        let (kind, aead, slots) = (Kind::Map, Aead::Aes256Gcm, level);
        Prelude { kind, aead, slots, summary_len, number, format: FORMAT, session: SESSION, salt, epoch: 0 }
    }

    fn node(&self, level: u32, number: u64) -> Node {
        let Some(below) = level.checked_sub(1) else {
            let run = |block| {
                let (object, slot) = self.place(block);
                Run { start: block, len: 1, place: Some((self.log(object), slot)) }
            };
            let first = number * span(0);
            return Node { children: Vec::new(), runs: (first..first + span(0)).map(run).collect() };
        };
        let all = (1_u64 << self.bits).div_ceil(span(below));
        let children = number * FANOUT..((number + 1) * FANOUT).min(all);
        let child = |child| self.map(below, child, self.lens[below as usize]);
        Node { children: children.map(child).collect(), runs: Vec::new() }
    }

    /// The checkpoint that closed the volume.
    fn checkpoint(&self) -> (Record, Vec<u8>) {
        let (number, chain) = (FIRST + self.objects(), [3; 32]);
        let level = self.lens.len() as u32 - 1;
        let map = Some(self.map(level, 0, self.lens[level as usize]));
        let root = Root {
            number,
            chain,
            successor: number + 1,
            session: SESSION,
            ordinal: 1,
            window: 32,
            trusted: true,
            blocks: 1 << self.bits,
            journal: None,
            map,
            keys: Vec::new(),
            snapshots: Vec::new(),
        };
        let prelude = Prelude { kind: Kind::Checkpoint, ..self.map(0, number, 0) };
        let (_, bytes) = seal_root(&self.keys, prelude, &root).expect("a root");
        let session = [6; 12];
        (Record { closed: true, format: FORMAT, number, chain, journal: None, session }, bytes)
    }

    fn made_up(&self, name: &str, offset: u64, len: usize) -> Option<Vec<u8>> {
        if let Some(salt) = names::salt(name).filter(|salt| salt[..7] == [2; 7]) {
            let (level, number) =
                (u32::from(salt[7]), u64::from_le_bytes(salt[8..].try_into().expect("eight")));
            let (_, bytes) =
                seal_node(&self.keys, self.map(level, number, 0), &self.node(level, number)).expect("a node");
            return Some(cut(&bytes, offset, len));
        }
        let number = names::number(name).filter(|number| (FIRST..FIRST + self.objects()).contains(number))?;
        let object = self.log(number);
        let slot = ((offset - slot_offset(&object, 0).expect("a slot")) / 4112) as u32;
        assert!(slot < SLOTS && len == 4112 && offset == slot_offset(&object, slot).expect("a slot"));
        let block = self.block(number, slot);
        let mut data = contents(block).to_vec();
        let cipher = self.keys.known(&object).expect("its key");
        let tag = cipher.seal(Part::Block(slot), &block.to_le_bytes(), &mut data).expect("sealed");
        data.extend_from_slice(&tag);
        Some(data)
    }
}

/// The numbers that a block's number times the stride and its share of an object make, for each object.
const STRIDE_TIMES: u64 = 1 + STRIDE * SLOTS as u64;

fn contents(block: u64) -> [u8; 4096] {
    let mut data = [1; 4096];
    data[..8].copy_from_slice(&block.to_le_bytes());
    data
}

fn cut(bytes: &[u8], offset: u64, len: usize) -> Vec<u8> {
    let from = (offset as usize).min(bytes.len());
    bytes[from..(from + len).min(bytes.len())].to_vec()
}

impl ObjectStore for Full {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match names::number(name).filter(|_| name.starts_with('l')) {
            Some(number) => drop(self.logs.lock().expect("the logs").insert(number, bytes.len())),
            None => fs::write(self.written.path(name), bytes).expect("written"),
        }
        Ok(Put::Stored)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.put_new(name, bytes).map(|_| ())
    }

    fn get(&self, name: &str, _: usize) -> Result<Option<Vec<u8>>, StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(fs::read(self.written.path(name)).ok())
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>, StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match fs::read(self.written.path(name)) {
            Ok(bytes) => Ok(Some(cut(&bytes, offset, len))),
            Err(_) => Ok(self.made_up(name, offset, len)),
        }
    }

    fn list_after(&self, kind: Kind, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let folder = match kind {
            Kind::Checkpoint => "c",
            Kind::Header => "h",
            Kind::Log | Kind::Map => return Ok(Vec::new()),
        };
        let mut all = Vec::new();
        for entry in fs::read_dir(self.written.path(folder)).expect("the directory") {
            let name = format!("{folder}/{}", entry.expect("an entry").file_name().display());
            if after.is_none_or(|after| name.as_str() > after) {
                all.push(name);
            }
        }
        all.sort();
        Ok(all)
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        // intended: a made up object is deleted by being forgotten, and log objects have no file.
        let _ = fs::remove_file(self.written.path(name));
        Ok(())
    }
}

/// The volume as its last writer has closed it, and its trusted store.
fn closed(bits: u32) -> (Arc<Full>, Cell) {
    let full = Arc::new(Full::new(bits));
    let (record, checkpoint) = full.checkpoint();
    full.put(&names::checkpoint(record.number), &checkpoint).expect("it is stored");
    let patience = Settings::default().patience;
    assert!(HeaderObject::create(&*full, patience, NewHeader::new()).expect("it answers"), "there was none");
    let record: [u8; TRUSTED_RECORD_LEN] = record.encode();
    (full, Cell(Arc::new(Mutex::new(Some(record)))))
}

fn open(full: &Arc<Full>, cell: &Cell, access: Access) -> SealedVolume {
    open_with(full, cell, access, Settings::default())
}

fn open_with(full: &Arc<Full>, cell: &Cell, access: Access, settings: Settings) -> SealedVolume {
    let header = HeaderObject::open(full.clone(), Settings::default().patience, false).expect("it answers");
    assert!(header.is_some(), "there is a header");
    let freshness = Freshness::Record(Box::new(cell.clone()));
    SealedVolume::open(full.clone(), full.keys.clone(), freshness, access, settings).expect("it opens")
}

fn check(volume: &SealedVolume, block: u64) {
    let mut data = [0; 4096];
    volume.read_at(block * 4096, &mut data).expect("a read");
    assert!(data == contents(block), "block {block}");
}

#[test]
fn a_volume_of_16_tib_opens_with_8_requests_with_its_header_and_the_begin_of_a_session() {
    let (full, cell) = closed(32);
    for access in [Access::Read, Access::Write] {
        full.asked.store(0, Ordering::Relaxed);
        let volume = open(&full, &cell, access);
        let asked = full.asked.load(Ordering::Relaxed);
        assert_eq!(volume.size(), 16 << 40);
        assert!(asked <= 8, "{asked} requests");
        // The rest of the map comes as it is needed: a node of each level, and the block.
        check(&volume, (1 << 32) - 1);
        let asked = full.asked.load(Ordering::Relaxed) - asked;
        assert_eq!(asked, 6);
    }
}

const CHILD: &str = "ATREST_SEALED_VOLUME_MEMORY";

/// Reads, writes and checkpoints of a volume of 1 TiB, by a process of its own, whose memory is measured.
#[test]
fn a_full_volume_of_1_tib_takes_64_mib_of_memory() {
    if env::var_os(CHILD).is_some() {
        return work();
    }
    let name = "size::a_full_volume_of_1_tib_takes_64_mib_of_memory";
    let child = Command::new(env::current_exe().expect("this program"))
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}\n{}", String::from_utf8_lossy(&child.stderr));
    let number = |what: &str| -> u64 {
        let (_, behind) = said.split_once(what).unwrap_or_else(|| panic!("no {what} in {said}"));
        behind.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
    };
    let (before, most) = (number("before:"), number("most:"));
    println!("{} KiB", most - before);
    assert!(most - before <= 64 << 10, "{} KiB", most - before);
}

fn work() {
    let (full, cell) = closed(28);
    let mut random = Random::new(1);
    println!("before: {}", memory("VmRSS:"));
    // As on S3, whose cache is the larger one: 20 MiB of blocks.
    let cached_blocks = 5120;
    let volume = open_with(&full, &cell, Access::Write, Settings { cached_blocks, ..Settings::default() });
    for _ in 0..100 {
        check(&volume, random.below(1 << 28));
    }
    // Of two leaves, so that it takes less time; each block lies in an object of its own.
    for block in 0..=cached_blocks as u64 {
        check(&volume, (1 << 27) + block);
    }
    let rounds = if Campaign::is_full() { 6 } else { 1 };
    for _ in 0..rounds {
        // As much as goes between two checkpoints: 64 objects of 2048 blocks, each block at a place of its own. The map has as many runs if blocks
        // are trimmed, which takes less time.
        for nth in 0..64 * 2048 {
            let offset = random.below(1 << 28) * 4096;
            match Campaign::is_full() || nth % 16 == 0 {
                true => volume.write_at(offset, &[7; 4096]).expect("a write"),
                false => volume.discard(offset, 4096).expect("a trim"),
            }
        }
        volume.flush().expect("a flush");
        for _ in 0..60 {
            let block = random.below(1 << 28);
            let mut data = [0; 4096];
            // What was written lies in objects whose bytes are forgotten: here the map is what counts.
            if volume.read_at(block * 4096, &mut data).is_ok() {
                assert!(data == contents(block) || data == [0; 4096]);
            }
        }
    }
    if Campaign::is_full() {
        let usage = volume.usage().expect("it is counted");
        assert_eq!(usage.live, 1 << 28);
    }
    volume.close().expect("closed");
    println!("most: {}", memory("VmHWM:"));
}

/// KiB that the kernel says of this process.
fn memory(what: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("it is there");
    let line = status.lines().find_map(|line| line.strip_prefix(what)).expect("the line");
    line.split_whitespace().next().expect("a number").parse().expect("a number")
}
