//! Adiantum, the header and PBKDF2.
#![no_std]
#![no_main]

use atrest_cipher::{AdiantumPlain64, KeyPlace};
use atrest_keyslot::flash::Pbkdf2Kdf;
use firmware_card::{Memory, board, unlock};

#[board::entry]
fn main() -> ! {
    static PLACE: Memory<KeyPlace<AdiantumPlain64>> = Memory::new(KeyPlace::<AdiantumPlain64>::empty());
    static BOUNCE: Memory<[u8; 512]> = Memory::new([0; 512]);
    // SAFETY: the entry point runs once.
    let (place, bounce) = unsafe { (PLACE.take(), BOUNCE.take()) };
    unlock::measure(place, bounce, &mut Pbkdf2Kdf(|_| {}));
    board::exit()
}
