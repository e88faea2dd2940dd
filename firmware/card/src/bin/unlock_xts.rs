//! AES-XTS, the header and PBKDF2.
#![no_std]
#![no_main]

use atrest_cipher::{AesXts, KeyPlace};
use atrest_keyslot::flash::Pbkdf2Kdf;
use firmware_card::{Memory, board, unlock};

#[board::entry]
fn main() -> ! {
    static PLACE: Memory<KeyPlace<AesXts>> = Memory::new(KeyPlace::<AesXts>::empty());
    static BOUNCE: Memory<[u8; 128]> = Memory::new([0; 128]);
    // SAFETY: the entry point runs once.
    let (place, bounce) = unsafe { (PLACE.take(), BOUNCE.take()) };
    unlock::measure(place, bounce, &mut Pbkdf2Kdf(|_| {}));
    board::exit()
}
