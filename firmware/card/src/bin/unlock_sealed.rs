//! Sealed flash, the header and PBKDF2, without a file system.
#![no_std]
#![no_main]

use core::hint::black_box;

use atrest_device::FlashDevice;
use atrest_keyslot::flash::Pbkdf2Kdf;
use firmware_card::sealed::{Chip, LAYOUT, Volume};
use firmware_card::task::task;
use firmware_card::{Memory, board, done, stack};

type Unit = [u8; LAYOUT.payload() as usize];

#[board::entry]
fn main() -> ! {
    static UNIT: Memory<Unit> = Memory::new([0; LAYOUT.payload() as usize]);
    // SAFETY: the entry point runs once.
    let (mut chip, unit) = unsafe { (Chip::take(), UNIT.take()) };
    let mut task = task();
    let work = |volume: &mut Volume<'_, '_>| transfer(volume, unit);
    let stack = stack::used(|| chip.run(&mut task, &mut Pbkdf2Kdf(|_| {}), work));
    board::print("stack", 0, stack);
    // Behind a revision and a tag littlefs has its name.
    board::print("data", 0, u32::from_le_bytes([unit[8], unit[9], unit[10], unit[11]]));
    board::exit()
}

/// Reads the first unit of the data, moves it to the last block, and reads it there.
#[inline(never)]
fn transfer(volume: &mut Volume<'_, '_>, unit: &mut Unit) {
    done(volume.read(0, unit));
    let geometry = volume.geometry();
    let last = geometry.size() - u64::from(geometry.erase_size());
    done(volume.erase(last, geometry.erase_size().into()));
    done(volume.prog(last, black_box(&unit[..])));
    unit.fill(0);
    done(volume.read(last, unit));
}
