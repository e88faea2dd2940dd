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
    // SAFETY: the entry point runs once.
    let (place, memory) = unsafe { (PLACE.take(), WORK_AREA.take()) };
    unlock::measure(place, &mut ChipKdfs { memory, between: |_| {} });
    board::exit()
}
