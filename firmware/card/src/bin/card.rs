//! The whole card: derive with Catena, open, mount LittleFS, read and write files, change the passphrase, crypto-erase, format.
#![no_std]
#![no_main]

use atrest_cipher::{AesXts, KeyPlace, MapperOptions};
use atrest_flash::{
    CryptFlash, Existing, FlashHeader, FlashHeaderError, FormatOptions, LittlefsGeometry, LittlefsStorage,
    NewSlot,
};
use atrest_keyslot::flash::{ChipKdfs, FlashCipher, FlashKey, KdfCost, Protection};
use firmware_card::files::read;
use firmware_card::medium::{BLOCK_COUNT, BLOCK_SIZE, Medium, PROG_SIZE};
use firmware_card::task::{Task, task};
use firmware_card::{Memory, board, done};
use littlefs2::consts::{U1, U256};
use littlefs2::fs::Filesystem;
use littlefs2::path;

/// What is behind the header.
struct Sizes;

impl LittlefsGeometry for Sizes {
    const READ_SIZE: usize = PROG_SIZE;
    const PROG_SIZE: usize = PROG_SIZE;
    const BLOCK_SIZE: usize = BLOCK_SIZE;
    const BLOCK_COUNT: usize = BLOCK_COUNT - 2;
    type CACHE_SIZE = U256;
    type LOOKAHEAD_SIZE = U1;
}

/// 8 KiB of work area. A board with RAM to spare takes a garlic of 12, 128 KiB.
const COST: KdfCost = KdfCost::catena(8);

static WORK_AREA: Memory<[u8; 8 << 10]> = Memory::new([0; 8 << 10]);
static PLACE: Memory<KeyPlace<AesXts>> = Memory::new(KeyPlace::<AesXts>::empty());

#[board::entry]
fn main() -> ! {
    // SAFETY: the entry point runs once.
    let (mut medium, memory, place) = unsafe { (Medium::take(), WORK_AREA.take(), PLACE.take()) };
    let mut task = task();
    let mut watchdog = 0_u32;
    let mut kdf = ChipKdfs { memory, between: |_| watchdog += 1 };
    match task.verb {
        b'f' => format(&mut medium, &mut task, &mut kdf, place),
        b'u' => use_files(&mut medium, &task, &mut kdf, place),
        b'c' => change(&mut medium, &mut task, &mut kdf),
        b'e' => erase(&mut medium, &task, &mut kdf),
        _ => board::fail(),
    }
    board::print("watchdog", 0, watchdog);
    done(semihosting::fs::write(c"card.out", medium.bytes()));
    board::exit()
}

type Kdf<'a, F> = ChipKdfs<'a, F>;
type Header<'a> = FlashHeader<&'a mut Medium, [u8; 64]>;

/// Opens the header, makes good what a power loss may have left, and unlocks.
fn unlocked<'a>(
    medium: &'a mut Medium,
    passphrase: &[u8],
    kdf: &mut Kdf<'_, impl FnMut(u64)>,
    key: &mut FlashKey,
) -> Result<(Header<'a>, usize), FlashHeaderError> {
    let mut header = FlashHeader::open(medium, [0; 64])?;
    header.repair()?;
    let slot = header.unlock(None, passphrase, kdf, None, key)?;
    Ok((header, slot))
}

fn format(
    medium: &mut Medium,
    task: &mut Task,
    kdf: &mut Kdf<'_, impl FnMut(u64)>,
    place: &mut KeyPlace<AesXts>,
) {
    let options = FormatOptions {
        cipher: FlashCipher::AesXts,
        key_len: 32,
        data_unit: 512,
        protection: Protection::Encrypted,
        existing: Existing::Refuse,
    };
    let first =
        NewSlot { passphrase: task.passphrase, cost: COST, kdf, device: None, random: &mut task.entropy };
    let mut key = FlashKey::empty();
    let header = done(FlashHeader::format(medium, [0; 64], &options, first, &mut key));
    let mut storage = storage(header, &key, place);
    done(Filesystem::format(&mut storage));
    done(Filesystem::mount_and_then(&mut storage, |files| {
        files.create_dir(path!("/made"))?;
        files.write(path!("/made/on the chip.txt"), b"formatted on the chip")
    }));
}

fn use_files(
    medium: &mut Medium,
    task: &Task,
    kdf: &mut Kdf<'_, impl FnMut(u64)>,
    place: &mut KeyPlace<AesXts>,
) {
    let mut key = FlashKey::empty();
    let (header, _) = done(unlocked(medium, task.passphrase, kdf, &mut key));
    let mut storage = storage(header, &key, place);
    done(Filesystem::mount_and_then(&mut storage, |files| {
        read(files, path!("/from the desk.bin"))?;
        files.rename(path!("/from the desk.bin"), path!("/read.bin"))?;
        files.write(path!("/from the chip.txt"), b"written on the chip")
    }));
}

fn change(medium: &mut Medium, task: &mut Task, kdf: &mut Kdf<'_, impl FnMut(u64)>) {
    let mut key = FlashKey::empty();
    let (mut header, slot) = done(unlocked(medium, task.passphrase, kdf, &mut key));
    let passphrase = task.new_passphrase;
    let new = NewSlot { passphrase, cost: COST, kdf, device: None, random: &mut task.entropy };
    done(header.change_key(slot, &key, new, None));
}

fn erase(medium: &mut Medium, task: &Task, kdf: &mut Kdf<'_, impl FnMut(u64)>) {
    let mut key = FlashKey::empty();
    let (mut header, _) = done(unlocked(medium, task.passphrase, kdf, &mut key));
    done(header.erase_keys(None));
    if unlocked(medium, task.passphrase, kdf, &mut key).map(|_| ()) != Err(FlashHeaderError::NoKeyslots) {
        board::fail();
    }
}

/// LittleFS's storage: encrypted, behind the header.
fn storage<'a>(
    header: Header<'a>,
    key: &FlashKey,
    place: &'a mut KeyPlace<AesXts>,
) -> LittlefsStorage<impl atrest_device::FlashDevice + 'a, Sizes> {
    let cipher = done(place.expand(key.expose(), &MapperOptions::default()));
    let data = done(CryptFlash::new(done(header.into_data()), &*cipher, [0; 256]));
    done(LittlefsStorage::new(data))
}
