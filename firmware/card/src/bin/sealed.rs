//! A sealed card: mount LittleFS, read a file, write another, close in good order. Medium and trusted store go back to the host.
#![no_std]
#![no_main]

use atrest_flash::{LittlefsGeometry, LittlefsStorage};
use atrest_keyslot::flash::Pbkdf2Kdf;
use firmware_card::files::read;
use firmware_card::sealed::{BLOCKS, Chip, LAYOUT, Volume};
use firmware_card::task::task;
use firmware_card::{board, done, stack};
use littlefs2::consts::{U1, U424};
use littlefs2::fs::Filesystem;
use littlefs2::path;

/// What is behind the header.
struct Sizes;

impl LittlefsGeometry for Sizes {
    const READ_SIZE: usize = LAYOUT.payload() as usize;
    const PROG_SIZE: usize = LAYOUT.payload() as usize;
    const BLOCK_SIZE: usize = LAYOUT.geometry().erase_size() as usize;
    const BLOCK_COUNT: usize = BLOCKS;
    type CACHE_SIZE = U424;
    type LOOKAHEAD_SIZE = U1;
}

#[board::entry]
fn main() -> ! {
    // SAFETY: the entry point runs once.
    let mut chip = unsafe { Chip::take() };
    let mut task = task();
    let stack = stack::used(|| chip.run(&mut task, &mut Pbkdf2Kdf(|_| {}), use_files));
    board::print("stack", 0, stack);
    done(semihosting::fs::write(c"card.out", chip.medium()));
    done(semihosting::fs::write(c"store.out", chip.store()));
    board::exit()
}

/// Prints a checksum of one file, and writes another.
#[inline(never)]
fn use_files(volume: &mut Volume<'_, '_>) {
    let mut storage = done(LittlefsStorage::<_, Sizes>::new(volume));
    done(Filesystem::mount_and_then(&mut storage, |files| {
        read(files, path!("/from the desk.bin"))?;
        files.write(path!("/from the chip.txt"), b"written on the chip")
    }));
}
