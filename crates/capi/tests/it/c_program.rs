//! A program in C, built with the header and linked with the library, opens what Rust has made, and the other way round.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};

use atrest_capi::{BLOCK_STATE, SEALED_WORDS, Status, WORDS, atrest_message};
use atrest_cipher::{CipherSpec, Mapper, MapperOptions};
use atrest_device::{FlashDevice, FlashError, FlashGeometry, FlashOperation, TRUSTED_RECORD_LEN};
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
    let program = build(scratch.as_path(), "card.c", &[]);
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
fn the_header_for_c_has_every_status_and_cipher_under_its_number_and_every_size() {
    let text = std::fs::read_to_string(here("include/atrest.h")).expect("read atrest.h");
    let list = |name: &str| {
        let (_, list) = text.split_once(&format!("enum {name} {{\n")).expect("a list");
        list.split_once("};").expect("its end").0
    };
    let (statuses, ciphers) = (list("atrest_status"), list("atrest_cipher"));
    for status in Status::ALL {
        let mut name = String::from("ATREST");
        for letter in format!("{status:?}").chars() {
            if letter.is_uppercase() {
                name.push('_');
            }
            name.extend(letter.to_uppercase());
        }
        let line = format!("    {name} = {}", *status as i32);
        assert!(statuses.lines().any(|other| other.trim_end_matches(',') == line), "atrest.h lacks {line:?}");
    }
    // Texts are found by their place.
    for (place, status) in Status::ALL.iter().enumerate() {
        assert_eq!(*status as i32, -(place as i32));
    }
    let message = |status| {
        // SAFETY: it is always there, and ends with a zero.
        unsafe { std::ffi::CStr::from_ptr(atrest_message(status)) }.to_str().expect("ASCII")
    };
    assert_eq!((message(0), message(-1)), ("done", "the medium failed"));
    assert_eq!(message(Status::NoMap as i32), "there is no key-value map on the volume");
    for other in [1, -(Status::ALL.len() as i32), i32::MIN, i32::MAX] {
        assert_eq!(message(other), "not a status of this library");
    }
    assert_eq!(statuses.lines().filter(|line| line.contains(" = ")).count(), Status::ALL.len());
    for (name, size) in [
        ("FLASH_WORDS", WORDS),
        ("SEALED_WORDS", SEALED_WORDS),
        ("BLOCK_STATE", BLOCK_STATE),
        ("RECORD_LEN", TRUSTED_RECORD_LEN),
    ] {
        assert!(text.contains(&format!("#define ATREST_{name} {size}\n")), "{name} is other than {size}");
    }
    for cipher in FlashCipher::ALL {
        let number = format!(" = {}", cipher.code());
        let known = ciphers
            .lines()
            .any(|line| line.split([',', '/']).next().is_some_and(|line| line.trim_end().ends_with(&number)));
        let is_here = cipher.is_aead() || matches!(cipher, FlashCipher::AesXts | FlashCipher::Adiantum12);
        assert_eq!(known, is_here, "{cipher:?}");
    }
}

pub(crate) fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Builds a program against the library that cargo has built for this test.
pub(crate) fn build(scratch: &Path, source: &str, more: &[PathBuf]) -> PathBuf {
    build_with(scratch, source, more, &[])
}

/// Builds a program with flags of its own.
pub(crate) fn build_with(scratch: &Path, source: &str, more: &[PathBuf], flags: &[String]) -> PathBuf {
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
    let program = scratch.join(source).with_extension("");
    Program::named("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(here("include"))
        .args(flags)
        .arg(here("tests").join(source))
        .args(more)
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .ok();
    program
}

#[test]
fn the_header_is_c99_and_cpp_without_a_warning() {
    let scratch = Scratch::new();
    for (compiler, standard, name) in [
        ("gcc", "c99", "only.c"),
        ("arm-none-eabi-gcc", "c99", "only.c"),
        ("arm-none-eabi-g++", "c++11", "only.cpp"),
        ("arm-none-eabi-g++", "c++17", "only.cpp"),
    ] {
        let source = scratch.path(name);
        // Structs are zeroed as each language does it, and functions are found under C's names.
        let text = "#include \"atrest.h\"\n\
            struct atrest_sealed_options options;\n\
            int open_it(struct atrest_flash *flash) { return atrest_flash_sync(flash); }\n";
        std::fs::write(&source, text).expect("a source");
        let object = scratch.path("only.o");
        Program::named(compiler)
            .arg(format!("-std={standard}"))
            .args(["-ffreestanding", "-Wall", "-Wextra", "-pedantic", "-Werror", "-I"])
            .arg(here("include"))
            .arg("-c")
            .arg(&source)
            .arg("-o")
            .arg(&object)
            .ok();
        let object = std::fs::read(&object).expect("an object");
        let mangled = object.windows(21).any(|name| name == b"_Z17atrest_flash_sync");
        assert!(object.windows(17).any(|name| name == b"atrest_flash_sync") && !mangled, "{compiler}");
    }
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
