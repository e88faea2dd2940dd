//! AES-XTS, the header and PBKDF2 and Catena.
#![no_std]
#![no_main]

use atrest_cipher::{AesXts, KeyPlace};
use atrest_keyslot::flash::ChipKdfs;
use firmware_card::{Memory, board, unlock};

#[board::entry]
fn main() -> ! {
    static PLACE: Memory<KeyPlace<AesXts>> = Memory::new(KeyPlace::<AesXts>::empty());
    static WORK_AREA: Memory<[u8; 8 << 10]> = Memory::new([0; 8 << 10]);
    static BOUNCE: Memory<[u8; 128]> = Memory::new([0; 128]);
    // SAFETY: the entry point runs once.
    let (place, bounce, memory) = unsafe { (PLACE.take(), BOUNCE.take(), WORK_AREA.take()) };
    unlock::measure(place, bounce, &mut ChipKdfs { memory, between: |_| {} });
    board::exit()
}
