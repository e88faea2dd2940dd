//! A program in C, built with the header and linked with the library, opens what Rust has made, and the other way round.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};

use atrest_capi::{Status, WORDS};
use atrest_cipher::{CipherSpec, Mapper, MapperOptions};
use atrest_device::{FlashDevice, FlashError, FlashGeometry, FlashOperation};
use atrest_flash::{CryptFlash, Existing, FlashHeader, FormatOptions, NewSlot};
use atrest_kdf::{CatenaCost, CatenaGraph};
use atrest_keyslot::flash::{AnyKdf, FlashCipher, FlashKey, KdfCost, Protection};
use atrest_secret::OsRandom;
use atrest_testkit::Scratch;
use atrest_testkit::oracle::Program;

/// Sizes as in `card.c`.
const PROG: u32 = 16;
const ERASE: u32 = 4096;
const BLOCKS: u64 = 32;

#[test]
fn c_and_rust_open_each_others_volumes() {
    let scratch = Scratch::new();
    let program = build(scratch.as_path());
    for (cipher, key_len) in
        [(FlashCipher::AesXts, 64), (FlashCipher::AesXts, 32), (FlashCipher::Adiantum12, 32)]
    {
        let image = scratch.path("card.img");
        std::fs::write(&image, made(cipher, key_len)).expect("write the image");
        Program::at(&program).arg(&image).ok();
        read_back(cipher, std::fs::read(&image).expect("read the image"));
    }
}

#[test]
fn the_header_for_c_has_every_status_under_its_number() {
    let text = std::fs::read_to_string(here("include/atrest.h")).expect("read atrest.h");
    for status in Status::ALL {
        let mut name = String::from("ATREST");
        for letter in format!("{status:?}").chars() {
            if letter.is_uppercase() {
                name.push('_');
            }
            name.extend(letter.to_uppercase());
        }
        let line = format!("    {name} = {},", *status as i32);
        assert!(text.lines().any(|other| other == line), "atrest.h lacks {line:?}");
    }
    let in_header =
        text.lines().filter(|line| line.starts_with("    ATREST_") && line.contains(" = ")).count();
    assert_eq!(in_header, Status::ALL.len());
    assert!(
        text.contains(&format!("#define ATREST_FLASH_WORDS {WORDS}\n")),
        "atrest.h lends other than {WORDS} words"
    );
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Builds the program against the library that cargo has built for this test.
fn build(scratch: &Path) -> PathBuf {
    let this = std::env::current_exe().expect("the test's own path");
    let library = std::fs::read_dir(this.parent().expect("its directory"))
        .expect("list it")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libatrest_capi") && name.ends_with(".a")
        })
        .max_by_key(|path| path.metadata().and_then(|data| data.modified()).expect("its time"))
        .expect("libatrest_capi.a beside the test");
    let program = scratch.join("card");
    Program::named("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(here("include"))
        .arg(here("tests/card.c"))
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .ok();
    program
}

/// A card with a text in its second block.
fn made(cipher: FlashCipher, key_len: u8) -> Vec<u8> {
    let mut card = Card(vec![0xff; (u64::from(ERASE) * BLOCKS) as usize]);
    let options = FormatOptions {
        cipher,
        key_len,
        data_unit: 512,
        protection: Protection::Encrypted,
        existing: Existing::Refuse,
    };
    let mut key = FlashKey::empty();
    let slot = NewSlot {
        passphrase: b"tiger",
        cost: KdfCost::Catena(CatenaCost {
            graph: CatenaGraph::BitReversal,
            lambda: 2,
            min_garlic: 8,
            garlic: 8,
        }),
        kdf: &mut AnyKdf,
        device: None,
        random: &mut OsRandom,
    };
    let header =
        FlashHeader::format(&mut card, [0; PROG as usize], &options, slot, &mut key).expect("format");
    let mapper = mapper(cipher, &key);
    let mut data = CryptFlash::new(header.into_data().expect("data"), mapper, [0; 512]).expect("set up");
    let mut text = [0; 512];
    text[..32].copy_from_slice(b"written in Rust, to be read in C");
    data.prog(ERASE.into(), &text).expect("program");
    drop(data);
    card.0
}

/// What the program has left.
fn read_back(cipher: FlashCipher, image: Vec<u8>) {
    let mut card = Card(image);
    let mut key = FlashKey::empty();
    let header = FlashHeader::open(&mut card, [0; PROG as usize]).expect("open");
    assert!(header.unlock(None, b"tiger", &mut AnyKdf, None, &mut key).is_err(), "the old passphrase opens");
    header.unlock(None, b"lion", &mut AnyKdf, None, &mut key).expect("the new passphrase");
    let mut data =
        CryptFlash::new(header.into_data().expect("data"), mapper(cipher, &key), [0; 512]).expect("set up");
    let mut text = [0; 512];
    data.read(u64::from(ERASE) + 512, &mut text).expect("read");
    assert_eq!(&text[..32], b"written in C, to be read in Rust");
}

/// A cipher as the rest of the project has it, not by the library that is tested.
fn mapper(cipher: FlashCipher, key: &FlashKey) -> Mapper {
    let spec: CipherSpec = cipher.name().parse().expect("a specification");
    Mapper::new(&spec, key.expose(), &MapperOptions::default()).expect("a good key")
}

/// NOR flash in memory.
struct Card(Vec<u8>);

impl FlashDevice for Card {
    fn geometry(&self) -> FlashGeometry {
        FlashGeometry::new(1, PROG, ERASE, BLOCKS).expect("sizes")
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.geometry().check(FlashOperation::Read, address, buf.len() as u64)?;
        buf.copy_from_slice(&self.0[address as usize..][..buf.len()]);
        Ok(())
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.geometry().check(FlashOperation::Prog, address, data.len() as u64)?;
        self.0[address as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.geometry().check(FlashOperation::Erase, address, len)?;
        self.0[address as usize..][..len as usize].fill(0xff);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        Ok(())
    }
}
