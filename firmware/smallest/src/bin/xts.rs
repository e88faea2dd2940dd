//! AES-XTS over NOR flash, under a key that the chip keeps: erase, program, read.
#![no_std]
#![no_main]

use core::hint::black_box;

use atrest_cipher::{AesXts, KeyPlace, MapperOptions};
use atrest_device::FlashDevice;
use atrest_flash::{CryptFlash, NorDriver};
use firmware_board::{Memory, Nor, done, entry, exit, print, stack};

type Chip = Nor<0, { 64 << 10 }>;

static PLACE: Memory<KeyPlace<AesXts>> = Memory::new(KeyPlace::<AesXts>::empty());
static BOUNCE: Memory<[u8; 256]> = Memory::new([0; 256]);

#[entry]
fn main() -> ! {
    // SAFETY: the entry point runs once.
    let (mut chip, place, bounce) = unsafe { (Chip::take(), PLACE.take(), BOUNCE.take()) };
    let mut read = 0;
    print("stack", 0, stack::used(|| read = work(&mut chip, place, bounce)));
    print("data", 0, read);
    // What is on the chip, of which the host computes the same.
    let mut stored = [0; 4];
    done(embedded_storage::nor_flash::ReadNorFlash::read(&mut chip, 4096, &mut stored));
    print("stored", 0, u32::from_le_bytes(stored));
    exit()
}

#[inline(never)]
fn work(chip: &mut Chip, place: &mut KeyPlace<AesXts>, bounce: &mut [u8]) -> u32 {
    // A chip has it in fuses or protected flash.
    let key: [u8; 32] = core::array::from_fn(|i| i as u8);
    let cipher = done(place.expand(black_box(&key), &MapperOptions::default()));
    let mut flash = done(CryptFlash::new(done(NorDriver::new(chip)), &*cipher, bounce));
    done(flash.erase(4096, 4096));
    done(flash.prog(4096, black_box(b"thirty-two bytes of a settings!!")));
    let mut back = [0; 4];
    let mut unit = [0; 16];
    done(flash.read(4096, black_box(&mut unit)));
    back.copy_from_slice(&unit[..4]);
    u32::from_le_bytes(back)
}
