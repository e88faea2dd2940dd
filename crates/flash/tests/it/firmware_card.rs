//! The program of `firmware/card` in emulators of a Cortex-M4 and an RV32IMC: images travel both ways, files are read and written, the
//! passphrase is changed, the keys are erased, and what unlocking takes of flash and RAM stays within its budget.

use std::fs;
use std::path::Path;

use crate::header::{Seeded, XTS, geometry, open};
use atrest_cipher::{AesXts, CipherSpec, DataUnitIndex, Mapper, MapperOptions};
use atrest_device::{FlashDevice, FlashGeometry, FlashRegion};
use atrest_flash::{
    CryptFlash, FlashHeader, FlashHeaderError, FormatOptions, LittlefsGeometry, LittlefsStorage, NewSlot,
};
use atrest_keyslot::flash::{AnyKdf, FlashCipher, FlashKey, HEADER_LEN, KdfCost, SlotError};
use atrest_testkit::firmware::{
    Board, Build, Counted, boards, figure, flash_size, fnv, hold_table, static_ram,
};
use atrest_testkit::flash::{EmulatedFlash, FlashImage, SharedFlash};
use atrest_testkit::oracle::workspace;
use atrest_testkit::{Random, Scratch};
use littlefs2::consts::{U1, U256};
use littlefs2::fs::Filesystem;
use littlefs2::io;
use littlefs2::path;

/// firmware/card/src/medium.rs.
fn medium() -> FlashGeometry {
    geometry(16, 16, 4096, 64)
}

struct Sizes;

impl LittlefsGeometry for Sizes {
    const READ_SIZE: usize = 16;
    const PROG_SIZE: usize = 16;
    const BLOCK_SIZE: usize = 4096;
    const BLOCK_COUNT: usize = 62;
    type CACHE_SIZE = U256;
    type LOOKAHEAD_SIZE = U1;
}

const OPTIONS: FormatOptions = FormatOptions { cipher: FlashCipher::AesXts, key_len: 32, ..XTS };

/// What the program is told: firmware/card/src/task.rs.
fn task(verb: u8, passphrase: &str, new_passphrase: &str) -> Vec<u8> {
    let mut bytes = vec![verb];
    for text in [passphrase, new_passphrase] {
        bytes.push(text.len() as u8);
        bytes.extend(text.bytes());
        bytes.resize(bytes.len() + 31 - text.len(), 0);
    }
    let entropy = Random::new(77).bytes(256 - bytes.len());
    [bytes, entropy].concat()
}

/// Runs a program over an image. Gives what it prints and, if it writes one, the image afterwards.
fn run(board: &Board, program: &Path, image: &[u8], task: &[u8]) -> (String, Option<Vec<u8>>) {
    let directory = Scratch::new();
    fs::write(directory.path("card.img"), image).expect("an image");
    fs::write(directory.path("task"), task).expect("a task");
    let files = [("card.img", board.medium), ("task", board.medium + (1 << 20))];
    let text = board.run(program, directory.as_path(), &files);
    (text, fs::read(directory.path("card.out")).ok())
}

fn shared(bytes: &[u8]) -> SharedFlash {
    SharedFlash::new(EmulatedFlash::with_image(FlashImage::from_bytes(medium(), bytes)))
}

fn bytes(medium: &SharedFlash) -> Vec<u8> {
    medium.lock().image().to_bytes()
}

/// A volume made here.
fn formatted(cost: KdfCost, passphrase: &str, options: &FormatOptions) -> (SharedFlash, FlashKey) {
    let medium = SharedFlash::new(EmulatedFlash::new(medium()));
    let mut key = FlashKey::empty();
    let mut random = Seeded(Random::new(5));
    let first = NewSlot {
        passphrase: passphrase.as_bytes(),
        cost,
        kdf: &mut AnyKdf,
        device: None,
        random: &mut random,
    };
    FlashHeader::format(medium.clone(), [0; 64], options, first, &mut key).expect("formatting");
    (medium, key)
}

fn unlocked(medium: &SharedFlash, passphrase: &str) -> Result<FlashKey, FlashHeaderError> {
    let mut key = FlashKey::empty();
    open(medium.clone())?.unlock(None, passphrase.as_bytes(), &mut AnyKdf, None, &mut key)?;
    Ok(key)
}

/// LittleFS on a medium, here.
fn with_files<T>(
    medium: &SharedFlash,
    key: &FlashKey,
    format: bool,
    work: impl FnOnce(&Filesystem<'_, LittlefsStorage<Data, Sizes>>) -> io::Result<T>,
) -> T {
    let cipher = AesXts::new(key.expose(), &MapperOptions::default()).expect("a key");
    let data = open(medium.clone()).expect("a header").into_data().expect("the data");
    let data: Data = CryptFlash::new(data, cipher, [0; 256]).expect("sizes that fit");
    let mut storage = LittlefsStorage::new(data).expect("sizes that fit");
    if format {
        Filesystem::format(&mut storage).expect("formatting");
    }
    Filesystem::mount_and_then(&mut storage, work).expect("a file system")
}

type Data = CryptFlash<FlashRegion<SharedFlash>, AesXts, [u8; 256]>;

#[test]
fn a_card_travels_between_desk_and_chip() {
    for board in boards() {
        let card = board.build(Build::Compact, &["card"]).join("card");
        let (desk, key) = formatted(KdfCost::catena(8), "on the desk", &OPTIONS);
        let content = Random::new(6).bytes(10_000);
        with_files(&desk, &key, true, |files| files.write(path!("/from the desk.bin"), &content));

        let (output, image) = run(board, &card, &bytes(&desk), &task(b'u', "on the desk", ""));
        assert_eq!(figure(&output, "read"), fnv(&content), "{}: other bytes than the desk's", board.name);
        assert!(figure(&output, "watchdog") > 5, "the derivation lets others run");
        let chip = shared(&image.expect("an image"));
        let key = unlocked(&chip, "on the desk").expect("the same passphrase");
        with_files(&chip, &key, false, |files| {
            assert_eq!(files.read::<64>(path!("/from the chip.txt"))?, b"written on the chip");
            assert_eq!(files.read::<16384>(path!("/read.bin"))?[..], content[..]);
            assert!(!files.exists(path!("/from the desk.bin")));
            Ok(())
        });

        let (_, image) = run(board, &card, &bytes(&chip), &task(b'c', "on the desk", "on the chip"));
        let changed = shared(&image.expect("an image"));
        let wrong = FlashHeaderError::Slot { slot: 0, error: SlotError::WrongKey };
        assert_eq!(unlocked(&changed, "on the desk").map(|_| ()), Err(wrong));
        let after = unlocked(&changed, "on the chip").expect("the new passphrase");
        assert_eq!(after.expose(), key.expose());
        with_files(&changed, &after, false, |files| {
            assert_eq!(files.read::<64>(path!("/from the chip.txt"))?, b"written on the chip");
            Ok(())
        });

        let (_, image) = run(board, &card, &bytes(&changed), &task(b'e', "on the chip", ""));
        let erased = shared(&image.expect("an image"));
        for passphrase in ["on the desk", "on the chip"] {
            assert_eq!(unlocked(&erased, passphrase).map(|_| ()), Err(FlashHeaderError::NoKeyslots));
        }

        let (_, image) = run(board, &card, &[0xff; 64 * 4096], &task(b'f', "made there", ""));
        let made = shared(&image.expect("an image"));
        let key = unlocked(&made, "made there").expect("the passphrase");
        with_files(&made, &key, false, |files| {
            assert_eq!(files.read::<64>(path!("/made/on the chip.txt"))?, b"formatted on the chip");
            Ok(())
        });
    }
}

/// Programs that unlock, read and write without a file system, with what each has on board.
const PROGRAMS: [(&str, &str); 3] = [
    ("unlock_xts", "AES-XTS, header, PBKDF2"),
    ("unlock_adiantum", "Adiantum, header, PBKDF2"),
    ("unlock_xts_catena", "AES-XTS, header, PBKDF2, Catena"),
];

/// What the table of docs/FLASH.md begins with.
const TABLE: &str = "| program | board | code | static RAM | stack | RAM in all | stack to parse the header |\n|---|---|---:|---:|---:|---:|---:|\n";

/// The table's rows.
fn rows(figures: &str) -> String {
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [board, bin, code, fixed, stack, header] = fields[..] else {
            panic!("firmware/card.tsv: {line}")
        };
        let (_, program) = PROGRAMS.into_iter().find(|(name, _)| *name == bin).expect("a program");
        let bytes = |field: &str| field.parse::<u64>().expect("bytes");
        format!(
            "| {program} | {board} | {code} | {fixed} | {stack} | {} | {header} |\n",
            bytes(fixed) + bytes(stack)
        )
    };
    figures.lines().map(row).collect()
}

/// Bytes of code beyond a program that does nothing, static RAM and stack of each program, and stack of parsing the header:
/// `firmware/card.tsv`, within 3 %. `make bench-embedded` writes it.
#[test]
fn unlocking_takes_no_more_of_a_chip_than_was_measured() {
    let mut counted = String::new();
    for board in boards() {
        let bins = PROGRAMS.map(|(bin, _)| bin);
        let directory = board.build(Build::Compact, &[&["nothing"], &bins[..]].concat());
        let empty = flash_size(&directory.join("nothing"));
        for (bin, _) in PROGRAMS {
            let program = directory.join(bin);
            let cost = match bin {
                "unlock_xts_catena" => KdfCost::catena(8),
                _ => KdfCost::Pbkdf2 { iterations: 100 },
            };
            let cipher = if bin == "unlock_adiantum" { FlashCipher::Adiantum12 } else { FlashCipher::AesXts };
            let (medium, key) = formatted(cost, "pass", &FormatOptions { cipher, ..OPTIONS });
            let mut data = open(medium.clone()).expect("a header").into_data().expect("the data");
            let specification: CipherSpec = cipher.name().parse().expect("a cipher");
            let mapper = Mapper::new(&specification, key.expose(), &MapperOptions::default()).expect("a key");
            let mut unit = [0; 512];
            unit[..4].copy_from_slice(b"here");
            mapper.encrypt(DataUnitIndex(0), &mut unit).expect("a unit");
            data.prog(0, &unit).expect("a program");
            let (output, _) = run(board, &program, &bytes(&medium), &task(0, "pass", ""));
            let read = u64::from(u32::from_le_bytes(*b"here"));
            assert_eq!(figure(&output, "data"), read, "{bin} on {}", board.name);
            let (code, stack, header) =
                (flash_size(&program) - empty, figure(&output, "stack"), figure(&output, "header"));
            // What the program lends Catena.
            let work_area = if bin == "unlock_xts_catena" { 8 << 10 } else { 0 };
            let fixed = static_ram(&program) - work_area;
            counted += &format!("{}\t{bin}\t{code}\t{fixed}\t{stack}\t{header}\n", board.name);
        }
    }
    let what =
        "board, program, bytes of code, of static RAM, of stack, and of stack while the header is parsed";
    let counted = Counted { lines: &counted, names: 2, what }.hold(&workspace().join("firmware/card.tsv"));
    let committed = fs::read_to_string(workspace().join("firmware/card.tsv")).expect("the figures");
    hold_table(&workspace().join("docs/FLASH.md"), TABLE, &rows(&committed));
    for (name, is) in counted {
        let [code, fixed, stack, header] = is[..] else { panic!("{name}: {is:?}") };
        assert!(HEADER_LEN as u64 + header <= 1 << 10, "{name}: {header} bytes of stack to parse the header");
        if name.ends_with(" unlock_xts") {
            assert!(fixed + stack < 4 << 10, "{name}: {fixed} bytes of static RAM and {stack} of stack");
        }
        if name == "Cortex-M4 unlock_xts" {
            assert!(code < 24 << 10, "{name}: {code} bytes of code");
        }
    }
}
