//! The programs `sealed` and `unlock_sealed` of `firmware/card` in emulators of a Cortex-M4 and an RV32IMC: a sealed card of the desk's
//! travels there and back with its trusted store, what was changed or put back meanwhile is refused, and what the programs take of
//! flash and RAM stays within what was measured.

use std::fs;
use std::path::PathBuf;

use atrest_testkit::atrest::{atrest, write_key};
use atrest_testkit::firmware::{
    Board, Build, Counted, boards, figure, flash_size, fnv, hold_table, static_ram,
};
use atrest_testkit::oracle::{Program, workspace};
use atrest_testkit::{Random, Scratch};

/// firmware/card/src/medium.rs and task.rs: where the program expects the task, and the pages of its trusted store.
const TASK: u64 = 1 << 20;
const PAGES: u64 = 3 << 20;
const PAGE: usize = 4096;
/// Bytes that a unit takes.
const STRIDE: usize = 448;

/// A directory with the card, its store, and what is taken to them.
struct Bench {
    directory: Scratch,
    board: &'static Board,
    program: PathBuf,
}

/// Program, and what it has on board.
const PROGRAMS: [(&str, &str); 2] = [
    ("unlock_sealed", "sealed flash, Ascon-AEAD128, header, PBKDF2"),
    ("sealed", "the same and LittleFS, with files read and written"),
];

/// Both programs, and one that does nothing.
fn build(board: &Board) -> PathBuf {
    board.build(Build::Compact, &["nothing", "unlock_sealed", "sealed"])
}

impl Bench {
    /// `atrest` makes the card, of 64 blocks, with a file in it.
    fn new(board: &'static Board, program: PathBuf, content: &[u8]) -> Self {
        let bench = Self { directory: Scratch::new(), board, program };
        fs::create_dir(bench.path("in")).expect("a directory");
        fs::write(bench.path("in/from the desk.bin"), content).expect("a file");
        write_key(bench.directory.as_path(), "key", b"on the desk");
        let options = "--aead ascon-aead128 --kdf pbkdf2 --pbkdf-force-iterations 1000";
        bench
            .desk("image --type sealed --size 256K")
            .words(options)
            .words("--key-file key --store card.store in card.img")
            .ok();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn desk(&self, words: &str) -> Program {
        atrest(words).current_dir(self.directory.as_path())
    }

    /// A command on a volume with its store and its key.
    fn opens(&self, command: &str) -> Program {
        self.desk(command).words("--key-file key --store card.store")
    }

    /// Runs the program over a card and the pages of a store, and gives what it prints.
    fn chip(&self, card: &[u8], store: &[u8]) -> String {
        for name in ["card.out", "store.out"] {
            let _ = fs::remove_file(self.path(name));
        }
        let passphrase = b"on the desk";
        let mut task = vec![0; 256];
        task[1] = passphrase.len() as u8;
        task[2..2 + passphrase.len()].copy_from_slice(passphrase);
        // The board's random source.
        atrest_secret::Random::fill(&mut atrest_secret::OsRandom, &mut task[65..]).expect("random bytes");
        for (name, bytes) in [("task", &task[..]), ("card.in", card), ("store.in", store)] {
            fs::write(self.path(name), bytes).expect("a file");
        }
        let at = self.board.medium;
        let files = [("card.in", at), ("task", at + TASK), ("store.in", at + PAGES)];
        self.board.run(&self.program, self.directory.as_path(), &files)
    }

    /// The program says that it refuses, and leaves nothing.
    fn refuses(&self, card: &[u8], store: &[u8], saying: &str) {
        let output = self.chip(card, store);
        assert!(output.starts_with(saying), "{}: {saying} expected:\n{output}", self.board.name);
        assert!(!self.path("card.out").exists() && !self.path("store.out").exists(), "something was written");
    }
}

/// CRC-32 as in zip.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1));
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// Two pages with one record, as FORMATS.md has them: the record, its number, a checksum of both.
fn pages(record: &[u8]) -> Vec<u8> {
    assert_eq!(record.len(), 80);
    let numbered = [record, &1_u32.to_le_bytes()].concat();
    let mut pages = [&numbered[..], &crc32(&numbered).to_le_bytes()].concat();
    pages.resize(2 * PAGE, 0xff);
    pages
}

/// The record that counts in such pages: that of the whole frame with the highest number.
fn record(pages: &[u8]) -> Vec<u8> {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
    let frames = pages.chunks(PAGE).flat_map(|page| page.chunks_exact(96));
    let whole = frames.filter(|frame| crc32(&frame[..84]) == word(&frame[84..88]));
    whole.max_by_key(|frame| word(&frame[80..84])).expect("a record")[..80].to_vec()
}

/// To the chip, back to the desk, which writes too, and to the chip again.
#[test]
fn a_sealed_card_and_its_store_travel_between_desk_and_chip() {
    for board in boards() {
        let mut content = Random::new(6).bytes(10_000);
        let bench = Bench::new(board, build(board).join("sealed"), &content);
        let mut card = bench.read("card.img");
        for trip in [1, 2] {
            let output = bench.chip(&card, &pages(&bench.read("card.store")));
            let (read, expected) = (figure(&output, "read"), fnv(&content));
            assert_eq!(read, expected, "{}, {trip}: other bytes than the desk's", board.name);
            assert!(bench.read("card.out") != card, "nothing was written");
            fs::write(bench.path("card.store"), record(&bench.read("store.out"))).expect("a store");

            let from_chip = bench.opens("cat card.out").arg("/from the chip.txt").ok();
            assert_eq!(
                (from_chip.text().as_str(), from_chip.messages().as_str()),
                ("written on the chip", "")
            );
            let back = format!("back.{trip}");
            bench.opens("cp").args(["card.out:/from the desk.bin", &back]).ok();
            assert!(bench.read(&back) == content, "{}, {trip}: the file has changed", board.name);

            content = Random::new(7).bytes(20_000);
            fs::write(bench.path("from the desk.bin"), &content).expect("a file");
            bench.opens("cp --yes").args(["from the desk.bin", "card.out:/"]).ok();
            card = bench.read("card.out");
        }
    }
}

#[test]
fn what_was_changed_or_put_back_is_refused_by_a_chip() {
    for board in boards() {
        let bench = Bench::new(board, build(board).join("sealed"), &Random::new(6).bytes(10_000));
        let (card, store) = (bench.read("card.img"), pages(&bench.read("card.store")));
        let is_used = |block: usize, unit| {
            card[block * PAGE + unit * STRIDE..][..STRIDE].iter().any(|byte| *byte != 0xff)
        };
        let inside = (2..64).find(|block| is_used(*block, 5)).expect("a block with six units");
        // A block of which nothing is left, not even serials: units that fail cost themselves, and the volume opens without them.
        for block in [2, inside] {
            let mut changed = card.clone();
            for unit in (0..PAGE / STRIDE).filter(|unit| is_used(block, *unit)) {
                changed[block * PAGE + unit * STRIDE + 100..][..STRIDE - 100]
                    .iter_mut()
                    .for_each(|byte| *byte ^= 0x5a);
            }
            bench.refuses(&changed, &store, &format!("tampered,{block},0\n"));
        }
        bench.refuses(&card, &vec![0xff; 2 * PAGE], "store empty,");

        bench.chip(&card, &store);
        let (newer, newer_store) = (bench.read("card.out"), bench.read("store.out"));
        bench.refuses(&card, &newer_store, "older,");
        bench.refuses(&newer, &store, "store older,");
        assert!(
            bench.chip(&newer, &newer_store).contains("read,10000,"),
            "what belongs together does not open"
        );
    }
}

/// What the table of docs/FLASH.md begins with.
const TABLE: &str =
    "| program | board | code | static RAM | stack | RAM in all |\n|---|---|---:|---:|---:|---:|\n";

/// The table's rows.
fn rows(figures: &str) -> String {
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [board, bin, code, fixed, stack] = fields[..] else { panic!("firmware/sealed.tsv: {line}") };
        let (_, program) = PROGRAMS.into_iter().find(|(name, _)| *name == bin).expect("a program");
        let bytes = |field: &str| field.parse::<u64>().expect("bytes");
        format!("| {program} | {board} | {code} | {fixed} | {stack} | {} |\n", bytes(fixed) + bytes(stack))
    };
    figures.lines().map(row).collect()
}

/// Bytes of code beyond a program that does nothing, static RAM and stack: `firmware/sealed.tsv`, within 3 %. With ATREST_BLESS set
/// they are written there and to docs/FLASH.md.
#[test]
fn sealed_flash_takes_no_more_of_a_chip_than_was_measured() {
    let mut counted = String::new();
    for board in boards() {
        let directory = build(board);
        let empty = flash_size(&directory.join("nothing"));
        for (bin, _) in PROGRAMS {
            let program = directory.join(bin);
            let (code, fixed) = (flash_size(&program) - empty, static_ram(&program));
            let bench = Bench::new(board, program, b"here");
            let output = bench.chip(&bench.read("card.img"), &pages(&bench.read("card.store")));
            let (what, expected) = match bin {
                "unlock_sealed" => ("data", u64::from(u32::from_le_bytes(*b"litt"))),
                _ => ("read", fnv(b"here")),
            };
            assert_eq!(figure(&output, what), expected, "{bin} on {}", board.name);
            let stack = figure(&output, "stack");
            counted += &format!("{}\t{bin}\t{code}\t{fixed}\t{stack}\n", board.name);
        }
    }
    let what = "board, program, bytes of code, of static RAM, of stack";
    Counted { lines: &counted, names: 2, what }.hold(&workspace().join("firmware/sealed.tsv"));
    let committed = fs::read_to_string(workspace().join("firmware/sealed.tsv")).expect("the figures");
    hold_table(&workspace().join("docs/FLASH.md"), TABLE, &rows(&committed));
}
