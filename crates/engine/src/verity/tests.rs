//! Trees against those of Debian's veritysetup, in both directions.

use std::path::Path;
use std::sync::{Arc, Mutex};

use atrest_device::{BlockDevice, Cause};
use atrest_testkit::fault::Fault;
use atrest_testkit::oracle::{Outcome, Program};
use atrest_testkit::{Campaign, FaultDevice, Random, Scratch};

use super::*;
use crate::verity::reed_solomon::Code;
use crate::{Access, FileDevice};

const UUID: &str = "a60c98d2-ae9b-4865-bfcb-b4e3ace11033";
const UUID_BYTES: [u8; 16] =
    [0xa6, 0x0c, 0x98, 0xd2, 0xae, 0x9b, 0x48, 0x65, 0xbf, 0xcb, 0xb4, 0xe3, 0xac, 0xe1, 0x10, 0x33];

/// A way of formatting.
#[derive(Clone, Debug)]
struct Case {
    hash: &'static str,
    hash_type: HashType,
    data_block: u32,
    hash_block: u32,
    blocks: u64,
    salt: Vec<u8>,
    superblock: bool,
    /// Where the tree is. 0 is a file of its own, else the data's.
    offset: u64,
    fec: Option<FecOptions>,
}

impl Case {
    fn draw(random: &mut Random) -> Self {
        let hashes = [
            "sha1",
            "sha256",
            "sha512",
            "sha224",
            "sha384",
            "sha3-256",
            "blake2b-512",
            "blake2s-256",
            "ripemd160",
        ];
        let data_block = 512 << random.below(5);
        let fec = random.below(2) == 1;
        let hash_block = if fec { data_block } else { 512 << random.below(5) };
        // One block alone has no tree: Debian's file ends behind the superblock, its parity covers other blocks, and it repairs nothing.
        let blocks = match random.below(4) {
            0 => 2 + random.below(3),
            _ => 2 + random.below(700),
        };
        let salt_len = *random.pick(&[0, 1, 3, 16, 32, 64, 255, 256]);
        let end = (blocks * u64::from(data_block)).next_multiple_of(hash_block.into());
        let offset = if random.below(3) == 0 { end } else { 0 };
        let roots = 2 + random.below(23) as u32;
        Self {
            hash: *random.pick(&hashes),
            hash_type: *random.pick(&[HashType::ChromeOs, HashType::Normal]),
            data_block,
            hash_block,
            blocks,
            salt: random.bytes(salt_len),
            superblock: random.below(3) != 0,
            offset,
            fec: fec.then_some(FecOptions { roots, offset: 512 * random.below(3) }),
        }
    }

    fn salt_text(&self) -> String {
        match self.salt.is_empty() {
            true => "-".into(),
            false => self.salt.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    fn together(&self) -> Together {
        Together { data_tree: self.offset != 0, ..Together::default() }
    }

    fn layout(&self, tree_size: u64) -> Result<Layout, VerityError> {
        let sizes = (self.data_block, self.hash_block);
        let parameters = Parameters::check(self.hash_type, self.hash, sizes, self.blocks, &self.salt);
        let place = TreePlace { offset: self.offset, superblock: self.superblock };
        let layout = Layout::new(parameters.map_err(VerityError::Parameter)?, place)?;
        let tree_size = tree_size.max(layout.tree().end_bytes());
        match self.fec {
            Some(options) => layout.with_fec(options, tree_size, self.together()),
            None => Ok(layout),
        }
    }

    /// The options that say it.
    fn options(&self) -> Vec<String> {
        let mut options = vec![
            format!("--hash={}", self.hash),
            format!("--format={}", self.hash_type.number()),
            format!("--data-block-size={}", self.data_block),
            format!("--hash-block-size={}", self.hash_block),
            format!("--data-blocks={}", self.blocks),
            format!("--salt={}", self.salt_text()),
        ];
        if !self.superblock {
            options.push("--no-superblock".into());
        }
        options.extend(self.place_options());
        options
    }

    /// Those that a superblock does not say.
    fn place_options(&self) -> Vec<String> {
        let mut options = Vec::new();
        if self.offset != 0 {
            options.push(format!("--hash-offset={}", self.offset));
        }
        if let Some(fec) = self.fec {
            options.push("--fec-device=fec".into());
            options.push(format!("--fec-roots={}", fec.roots));
            options.push(format!("--fec-offset={}", fec.offset));
        }
        options
    }

    fn tree_file(&self) -> &'static str {
        if self.offset == 0 { "tree" } else { "data" }
    }

    fn debian(&self, directory: &Path, action: &str, root: Option<&str>) -> Outcome {
        let options = match action == "verify" && self.superblock {
            true => self.place_options(),
            false => self.options(),
        };
        let uuid = (action == "format" && self.superblock).then(|| format!("--uuid={UUID}"));
        let program = Program::named("veritysetup").current_dir(directory);
        program.args(options).args(uuid).args([action, "data", self.tree_file()]).args(root).run()
    }

    fn files(&self, directory: &Path, access: Access) -> Parts {
        let open = |name: &str, access| -> Arc<dyn BlockDevice> {
            Arc::new(FileDevice::open(directory.join(name), access).expect(name))
        };
        let tree = open(self.tree_file(), access);
        let data = if self.offset == 0 { open("data", Access::ReadOnly) } else { Arc::clone(&tree) };
        Parts { data, tree, parity: self.fec.map(|_| open("fec", access)) }
    }

    /// Makes the tree in the files of a directory.
    fn build(&self, directory: &Path) -> Digest {
        let size = |name: &str| std::fs::metadata(directory.join(name)).map_or(0, |found| found.len());
        let grow = |name: &str, len: u64| {
            let mut options = std::fs::OpenOptions::new();
            let file =
                options.write(true).create(true).truncate(false).open(directory.join(name)).expect("a file");
            file.set_len(len.max(size(name))).expect("room");
        };
        let layout = self.layout(size(self.tree_file())).expect("a layout");
        grow(self.tree_file(), layout.tree().needed_bytes());
        if let Some(fec) = layout.fec() {
            grow("fec", fec.end());
        }
        let parts = self.files(directory, Access::ReadWrite);
        let superblock = Superblock { uuid: UUID_BYTES, parameters: layout.parameters().clone() };
        build(&parts, self.together(), &layout, Some(&superblock), &mut pace(&mut |_, _| {})).expect("a tree")
    }

    fn check(&self, directory: &Path, root: &[u8]) -> Result<Report, VerityError> {
        let parts = self.files(directory, Access::ReadOnly);
        let layout = self.layout(parts.tree.size())?;
        check(parts, layout, root, Extent::All, &mut pace(&mut |_, _| {}))
    }
}

fn pace(progress: &mut dyn crate::bulk::Progress) -> Pace<'_> {
    Pace { threads: 2, cancel: None, progress, done: 0, total: 0 }
}

/// The root hash that veritysetup prints.
fn root_of(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("Root hash:")).expect("a root hash").trim()
}

fn copied(from: &Scratch, names: &[&str]) -> Scratch {
    let to = Scratch::new();
    for name in names {
        if from.path(name).exists() {
            std::fs::copy(from.path(name), to.path(name)).expect("a copy");
        }
    }
    to
}

const FILES: [&str; 3] = ["data", "tree", "fec"];

#[test]
fn trees_and_parity_are_those_of_veritysetup_byte_for_byte() {
    Campaign::new("verity", 30, 400).run(|number, random| {
        let case = Case::draw(random);
        let ours = Scratch::new();
        ours.file("data", random.bytes((case.blocks * u64::from(case.data_block)) as usize));
        if case.offset == 0 && random.below(4) == 0 {
            // What follows the tree is covered, too.
            ours.file("tree", random.bytes(case.hash_block as usize * 900));
        }
        let theirs = copied(&ours, &FILES);
        let made = case.debian(theirs.as_path(), "format", None);
        if !made.is_ok() {
            // Two hashes must fit into a block. There is nothing else that it refuses here.
            let refused = case.layout(0).expect_err(&made.messages());
            assert!(matches!(refused, VerityError::Tree(TreeError::Digest { .. })), "{case:?}: {refused}");
            return;
        }
        let text = made.text();
        let root = case.build(ours.as_path());
        assert_eq!(root.to_string(), root_of(&text), "{number}: {case:?}");
        for name in FILES {
            if theirs.path(name).exists() {
                assert!(ours.read(name) == theirs.read(name), "{number}: {name} of {case:?}");
            }
        }
        case.debian(ours.as_path(), "verify", Some(&root.to_string())).expect_code(0);
        let report = case.check(theirs.as_path(), root.as_bytes()).expect("a report");
        assert!(report.is_good() && report.repaired.is_empty(), "{case:?}: {report:?}");
    });
}

#[test]
fn a_flipped_bit_is_found_or_repaired_where_veritysetup_finds_or_repairs_it() {
    let (mut found, mut repaired) = (0, 0);
    Campaign::new("verity flips", 40, 400).run(|number, random| {
        let mut case = Case::draw(random);
        if case.layout(0).is_err() {
            return;
        }
        if case.fec.is_some() && case.offset != 0 {
            case.fec = None;
        }
        let scratch = Scratch::new();
        scratch.file("data", random.bytes((case.blocks * u64::from(case.data_block)) as usize));
        let root = case.build(scratch.as_path());
        let name = if random.below(3) == 0 { case.tree_file() } else { "data" };
        let mut bytes = scratch.read(name);
        let first = match name == "tree" {
            true => case.layout(0).expect("a layout").tree().first() * u64::from(case.hash_block),
            false => 0,
        };
        let Some(len) = (bytes.len() as u64).checked_sub(first).filter(|len| *len > 0) else { return };
        let at = (first + random.below(len)) as usize;
        bytes[at] ^= 1 << random.below(8);
        scratch.file(name, &bytes);
        let report = case.check(scratch.as_path(), root.as_bytes()).expect("a report");
        let theirs = case.debian(scratch.as_path(), "verify", Some(&root.to_string()));
        assert_eq!(report.is_good(), theirs.is_ok(), "{number}: byte {at} of {name}, {case:?}: {report:?}");
        match report.is_good() {
            true => repaired += usize::from(!report.repaired.is_empty()),
            false => {
                found += 1;
                assert!(case.fec.is_none(), "one byte can be repaired: {case:?}");
            }
        }
    });
    let one = !Campaign::is_full() && !Campaign::is_sample();
    assert!(one || found > 5 && repaired > 5, "{found} found, {repaired} repaired");
}

/// A tree in memory.
struct Made {
    data: Arc<FaultDevice>,
    tree: Arc<FaultDevice>,
    parity: Arc<FaultDevice>,
    layout: Layout,
    root: Digest,
    plain: Vec<u8>,
}

const BLOCK: usize = 512;

fn made(blocks: usize, roots: Option<u32>) -> Made {
    let mut random = Random::new(7);
    let plain = random.bytes(blocks * BLOCK);
    let sizes = (BLOCK as u32, BLOCK as u32);
    let parameters =
        Parameters::check(HashType::Normal, "sha256", sizes, blocks as u64, b"salt").expect("legal");
    let mut layout = Layout::new(parameters, TreePlace { offset: 0, superblock: true }).expect("a layout");
    let tree = Arc::new(FaultDevice::zeroed(layout.tree().end_bytes() as usize));
    if let Some(roots) = roots {
        let options = FecOptions { roots, offset: 0 };
        layout = layout.with_fec(options, tree.size(), Together::default()).expect("a code");
    }
    let parity_len = layout.fec().map_or(512, |fec| fec.end() as usize);
    let data = Arc::new(FaultDevice::new(plain.clone()));
    let parity = Arc::new(FaultDevice::zeroed(parity_len));
    let mut this = Made { data, tree, parity, layout, root: Digest::new(&[]).expect("short"), plain };
    let superblock = Superblock { uuid: UUID_BYTES, parameters: this.layout.parameters().clone() };
    let none = &mut |_, _| {};
    let built = build(&this.parts(), Together::default(), &this.layout, Some(&superblock), &mut pace(none));
    this.root = built.expect("a tree");
    this
}

impl Made {
    fn parts(&self) -> Parts {
        let parity = self.layout.fec().map(|_| Arc::clone(&self.parity) as Arc<dyn BlockDevice>);
        Parts { data: self.data.clone(), tree: self.tree.clone(), parity }
    }

    fn open(&self, options: VerityOptions) -> VerityDevice {
        VerityDevice::new(self.parts(), self.layout.clone(), self.root.as_bytes(), options).expect("it fits")
    }

    fn report(&self) -> Report {
        let none = &mut |_, _| {};
        check(self.parts(), self.layout.clone(), self.root.as_bytes(), Extent::All, &mut pace(none))
            .expect("a report")
    }
}

fn flip(device: &FaultDevice, at: u64) {
    let mut byte = [0];
    device.read_at(at, &mut byte).expect("inside");
    device.write_at(at, &[byte[0] ^ 0x40]).expect("inside");
}

#[test]
fn every_range_reads_as_it_was_written() {
    let made = made(700, None);
    let device = made.open(VerityOptions::default());
    let mut random = Random::new(1);
    for _ in 0..300 {
        let offset = random.index(made.plain.len());
        let len = random.index(made.plain.len() - offset + 1).min(if random.below(8) == 0 {
            1 << 20
        } else {
            3000
        });
        let mut buf = vec![0; len];
        device.read_at(offset as u64, &mut buf).expect("it verifies");
        assert!(buf == made.plain[offset..offset + len], "{len} bytes at {offset}");
    }
    assert!(device.read_at(made.plain.len() as u64, &mut [0]).is_err());
    assert_eq!(device.write_at(0, &[0]).expect_err("read-only").cause, Cause::ReadOnly);
}

#[test]
fn each_changed_block_is_an_error_with_its_number_and_the_others_are_data() {
    let made = made(700, None);
    for block in [0_u64, 1, 15, 16, 17, 350, 698, 699] {
        flip(&made.data, block * 512 + 77);
        let device = made.open(VerityOptions::default());
        let mut all = vec![1; made.plain.len()];
        let error = device.read_at(0, &mut all).expect_err("one block is bad");
        assert_eq!((error.cause, error.offset), (Cause::WrongHash { level: 0, block }, block * 512));
        for other in 0..700_u64 {
            let mut buf = [1; BLOCK];
            let read = device.read_at(other * 512, &mut buf);
            let at = other as usize * BLOCK;
            match other == block {
                true => assert!(read.is_err() && buf == [0; BLOCK], "never data"),
                false => assert!(read.is_ok() && buf[..] == made.plain[at..at + BLOCK], "block {other}"),
            }
        }
        let report = made.report();
        assert_eq!(report.bad.iter().copied().collect::<Vec<_>>(), [BlockPlace { height: 0, block }]);
        assert_eq!((report.bad_data, report.unknown), (1, 0));
        flip(&made.data, block * 512 + 77);
    }
    assert!(made.report().is_good());
}

#[test]
fn a_check_up_to_the_first_bad_block_repairs_what_it_can_and_tries_no_more_after_one_that_it_can_t() {
    let made = made(700, Some(4));
    let report = || {
        let none = &mut |_, _| {};
        let mut pace = Pace { threads: 1, ..pace(none) };
        check(made.parts(), made.layout.clone(), made.root.as_bytes(), Extent::ToFirstBad, &mut pace)
            .expect("a report")
    };
    flip(&made.data, 5);
    let whole = report();
    assert!(whole.is_good() && !whole.ended_early, "{whole:?}");
    assert_eq!(whole.repaired.iter().copied().collect::<Vec<_>>(), [BlockPlace { height: 0, block: 0 }]);
    // Noise over everything behind: nothing of it can be repaired, and it is said of the first block alone.
    let noise = [0x5a_u8; 512 * 600];
    made.data.write_at(100 * 512, &noise).expect("inside");
    let ended = report();
    assert!(!ended.is_good() && ended.ended_early);
    assert_eq!((ended.bad.len(), ended.bad_data, ended.unknown), (1, 1, 0));
    // A bad block of the tree ends it, too, and so do bytes beside the hashes.
    let top = made.layout.tree().levels()[2].first * 512;
    flip(&made.tree, top + 3);
    let other = report();
    assert!(other.ended_early && other.bad.len() <= 2, "{other:?}");
}

#[test]
fn a_changed_block_of_the_tree_fails_what_it_vouches_for_and_nothing_else() {
    let made = made(700, None);
    let levels = made.layout.tree().levels().to_vec();
    assert_eq!(levels.iter().map(|level| level.blocks).collect::<Vec<_>>(), [44, 3, 1]);
    for (level, block, unknown) in [(0, 5, 16), (0, 43, 12), (1, 1, 256), (1, 2, 188), (2, 0, 700)] {
        let at = (levels[level].first + block) * 512 + 3;
        flip(&made.tree, at);
        let report = made.report();
        let place = BlockPlace { height: level as u8 + 1, block };
        assert_eq!(report.bad.iter().copied().collect::<Vec<_>>(), [place]);
        assert_eq!((report.bad_data, report.unknown), (0, unknown), "{place:?}");
        assert_eq!(report.is_root_wrong(&made.layout), level == 2);
        let device = made.open(VerityOptions::default());
        let readable = (0..700).filter(|block| device.read_at(block * 512, &mut [0; BLOCK]).is_ok()).count();
        assert_eq!(readable as u64, 700 - unknown);
        flip(&made.tree, at);
    }
}

#[test]
fn the_root_hash_of_another_tree_is_told_from_a_changed_block() {
    let made = made(700, None);
    let none = &mut |_, _| {};
    let mut against = |root: &[u8]| {
        check(made.parts(), made.layout.clone(), root, Extent::All, &mut pace(none)).expect("a report")
    };
    let mut report = against(&[0x5a; 32]);
    assert_eq!(report.other_root.take(), Some(made.root));
    assert!(!report.is_good() && report.is_root_wrong(&made.layout));
    flip(&made.data, 0);
    assert_eq!(against(&[0x5a; 32]).other_root, None);
    assert_eq!(against(made.root.as_bytes()).other_root, None);
}

#[test]
fn bytes_beside_the_hashes_are_told_only_where_the_hash_above_vouches_for_them() {
    // Whoever made the tree may leave anything there; veritysetup refuses it, the kernel does not look.
    let made = made(20, None);
    let tree = made.layout.tree().clone();
    let mut top = vec![0; BLOCK];
    let at = tree.levels()[1].first * 512;
    made.tree.read_at(at, &mut top).expect("inside");
    *top.last_mut().expect("a byte") = 1;
    made.tree.write_at(at, &top).expect("inside");
    let root = made.layout.hasher.digest(&top);
    let none = &mut |_, _| {};
    let report = check(made.parts(), made.layout.clone(), root.as_bytes(), Extent::All, &mut pace(none))
        .expect("a report");
    assert!(!report.is_good() && report.bad.is_empty());
    assert_eq!(report.spare.iter().copied().collect::<Vec<_>>(), [BlockPlace { height: 2, block: 0 }]);
}

#[test]
fn blocks_that_fail_are_repaired_as_far_as_the_code_reaches_and_are_told() {
    let made = made(700, Some(4));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let open = || {
        let heard = Arc::clone(&heard);
        let repaired: Box<Repaired> = Box::new(move |place| heard.lock().expect("a list").push(place));
        made.open(VerityOptions { repaired: Some(repaired), ..VerityOptions::default() })
    };
    let rounds = made.layout.fec().expect("a code").rounds();
    // Two blocks of one round are half of the roots; three are more than errors can be found, though fewer than can be erased.
    for block in [5, 5 + rounds] {
        (0..BLOCK as u64).for_each(|byte| flip(&made.data, block * 512 + byte));
    }
    let level = made.layout.tree().levels()[0];
    flip(&made.tree, (level.first + 2) * 512 + 9);
    let mut all = vec![0; made.plain.len()];
    let device = open();
    device.read_at(0, &mut all).expect("repaired");
    assert!(all == made.plain);
    let places = [(0, 5), (0, 5 + rounds), (1, 2)].map(|(height, block)| BlockPlace { height, block });
    let mut told = heard.lock().expect("a list").clone();
    told.sort_unstable();
    told.dedup();
    assert_eq!(told, places);
    assert!(device.repaired() >= 3);
    let report = made.report();
    assert!(report.is_good(), "{report:?}");
    assert_eq!(report.repaired.iter().copied().collect::<Vec<_>>(), places);
    // An erased block, and one error elsewhere: more than two errors anywhere.
    (0..BLOCK as u64).for_each(|byte| flip(&made.data, (5 + 2 * rounds) * 512 + byte));
    let error = open().read_at(5 * 512, &mut [0; BLOCK]).expect_err("three");
    assert_eq!(error.cause, Cause::WrongHash { level: 0, block: 5 });
    assert!(!made.report().is_good());
}

#[test]
fn a_block_that_cannot_be_read_is_made_anew() {
    let made = made(700, Some(2));
    let fault = |block: u64| Fault::UnreadableRange { offset: block * 512, len: 512 };
    made.data.fail(fault(8));
    made.data.fail(fault(8 + made.layout.fec().expect("a code").rounds()));
    let device = made.open(VerityOptions::default());
    let mut all = vec![0; made.plain.len()];
    device.read_at(0, &mut all).expect("two of two roots are erased");
    assert!(all == made.plain);
}

#[test]
fn codewords_are_corrected_up_to_the_bound_and_never_into_another_length() {
    let mut random = Random::new(3);
    for _ in 0..400 {
        let roots = 2 + random.index(23);
        let code = Code::new(roots);
        let mut word = [0; 255];
        random.fill(&mut word[..255 - roots]);
        let mut parity = vec![0; roots];
        word[..255 - roots].iter().for_each(|byte| code.feed(&mut parity, std::slice::from_ref(byte)));
        word[255 - roots..].copy_from_slice(&parity);
        let erasures = random.index(roots + 1);
        let errors = random.index((roots - erasures) / 2 + 1);
        let mut places: Vec<u8> = (0..255).collect();
        for at in 0..erasures + errors {
            let other = at + random.index(255 - at);
            places.swap(at, other);
        }
        let mut damaged = word;
        for (at, place) in places[..erasures + errors].iter().enumerate() {
            // An erased byte may be right by chance.
            let change = if at < erasures { random.draw() as u8 } else { 1 + random.below(255) as u8 };
            damaged[usize::from(*place)] ^= change;
        }
        let wrong = damaged.iter().zip(&word).filter(|(a, b)| a != b).count();
        assert_eq!(
            code.correct(&mut damaged, &places[..erasures]),
            Some(wrong),
            "{roots} roots, {erasures}, {errors}"
        );
        assert!(damaged == word);
    }
}

#[test]
fn blocks_of_zeros_need_not_be_read_if_that_is_asked_for() {
    let mut made = made(40, None);
    made.data = Arc::new(FaultDevice::zeroed(40 * BLOCK));
    let none = &mut |_, _| {};
    made.root =
        build(&made.parts(), Together::default(), &made.layout, None, &mut pace(none)).expect("a tree");
    flip(&made.data, 7 * 512);
    let mut block = [1; BLOCK];
    let usual = made.open(VerityOptions::default());
    assert_eq!(
        usual.read_at(7 * 512, &mut block).expect_err("bad").cause,
        Cause::WrongHash { level: 0, block: 7 }
    );
    let zeros = made.open(VerityOptions { ignore_zero_blocks: true, ..VerityOptions::default() });
    zeros.read_at(7 * 512, &mut block).expect("zeros");
    assert_eq!(block, [0; BLOCK]);
}

#[test]
fn parts_that_do_not_fit_are_refused_before_anything_is_written() {
    let made = made(40, Some(2));
    let open = |parts: Parts, root: &[u8]| {
        VerityDevice::new(parts, made.layout.clone(), root, VerityOptions::default()).err()
    };
    assert_eq!(open(made.parts(), &[0; 20]), Some(VerityError::RootHashLen { bytes: 20, needed: 32 }));
    let short = |part: &dyn BlockDevice| Arc::new(FaultDevice::zeroed(part.size() as usize - 512));
    let mut parts = made.parts();
    parts.data = short(&*made.data);
    assert!(matches!(open(parts, &[0; 32]), Some(VerityError::TooShort { part: Part::Data, .. })));
    let mut parts = made.parts();
    parts.tree = short(&*made.tree);
    assert!(matches!(open(parts, &[0; 32]), Some(VerityError::TooShort { part: Part::Tree, .. })));
    let mut parts = made.parts();
    parts.parity = Some(short(&*made.parity));
    assert!(matches!(open(parts, &[0; 32]), Some(VerityError::TooShort { part: Part::Parity, .. })));

    let place = |offset| TreePlace { offset, superblock: true };
    let at = |offset| Layout::new(made.layout.parameters().clone(), place(offset)).expect("a layout");
    let together = Together { data_tree: true, data_parity: true, tree_parity: true };
    let overlap = |first, second| Err(VerityError::Overlap { first, second });
    assert_eq!(at(39 * 512).check_overlap(together), overlap(Part::Data, Part::Tree));
    assert_eq!(at(40 * 512).check_overlap(together), Ok(()));
    let tree_end = at(40 * 512).tree().end_bytes();
    let with = |offset, together| at(40 * 512).with_fec(FecOptions { roots: 2, offset }, tree_end, together);
    assert_eq!(with(tree_end - 512, together).err(), overlap(Part::Tree, Part::Parity).err());
    with(tree_end, together).expect("behind the tree").check_overlap(together).expect("nothing overlaps");
    let data_parity = Together { data_parity: true, ..Together::default() };
    let laid_out = with(39 * 512, data_parity).expect("a code");
    assert_eq!(laid_out.check_overlap(data_parity), overlap(Part::Data, Part::Parity));

    let full = FaultDevice::zeroed(100 * 512);
    let parts = Parts { data: Arc::new(FaultDevice::zeroed(40 * 512)), tree: Arc::new(full), parity: None };
    let none = &mut |_, _| {};
    let refused = build(&parts, together, &at(39 * 512), None, &mut pace(none)).expect_err("they overlap");
    assert!(matches!(refused, VerityError::Overlap { .. }));
    let parts = Parts { data: Arc::new(FaultDevice::zeroed(39 * 512)), ..made.parts() };
    let before = made.tree.image();
    let refused = build(&parts, Together::default(), &made.layout, None, &mut pace(none)).expect_err("short");
    assert!(matches!(refused, VerityError::TooShort { part: Part::Data, .. }));
    assert!(made.tree.image() == before);
}

#[test]
fn a_run_that_stops_or_fails_leaves_no_superblock() {
    let made = made(700, Some(2));
    let superblock = Superblock { uuid: UUID_BYTES, parameters: made.layout.parameters().clone() };
    let run = |tree: &Arc<FaultDevice>, cancel: bool| {
        let parts = Parts { tree: tree.clone(), ..made.parts() };
        let none = &mut |_, _| {};
        let cancel = std::sync::atomic::AtomicBool::new(cancel);
        let mut pace = Pace { cancel: Some(&cancel), ..pace(none) };
        build(&parts, Together::default(), &made.layout, Some(&superblock), &mut pace)
    };
    let empty = || Arc::new(FaultDevice::zeroed(made.tree.size() as usize));
    let has_superblock = |tree: &FaultDevice| tree.image()[..8] != [0; 8];

    let tree = empty();
    assert_eq!(run(&tree, true), Err(VerityError::Cancelled));
    assert!(!has_superblock(&tree));
    let tree = empty();
    tree.fail(Fault::FailingFlush { number: 0 });
    assert!(matches!(run(&tree, false), Err(VerityError::Device { part: Part::Tree, .. })));
    assert!(!has_superblock(&tree), "it is written only after what it stands for is durable");
    let tree = empty();
    assert_eq!(run(&tree, false), Ok(made.root));
    assert!(has_superblock(&tree) && tree.counts().1 >= 2);
}

#[test]
fn progress_ends_at_the_total_that_it_was_told_of() {
    let made = made(700, Some(2));
    let mut last = (0, 0);
    let mut hear = |done, total| last = (done, total);
    build(&made.parts(), Together::default(), &made.layout, None, &mut pace(&mut hear)).expect("a tree");
    assert!(last.0 == last.1 && last.1 > 700 * 512, "{last:?}");
    let mut hear = |done, total| last = (done, total);
    check(made.parts(), made.layout.clone(), made.root.as_bytes(), Extent::All, &mut pace(&mut hear))
        .expect("a report");
    assert_eq!(last, (700 * 512, 700 * 512));
}
