//! What `CryptFlash` costs beside its cipher: transfers of several sizes to a medium that is not there, and the cipher alone
//! over the same ranges.
#![no_std]
#![no_main]

use core::hint::black_box;

use atrest_cipher::{AesXts, DataUnitIndex};
use atrest_device::{FlashDevice, FlashError, FlashGeometry};
use atrest_flash::CryptFlash;
use firmware_bench::{Alone, Memory, Subject, board, done};

type Key = Alone<AesXts, 32>;

/// Where the transfers begin: in the middle of a data unit.
const ADDRESS: u64 = 8192 + 64;

/// Bytes of the largest transfer.
const MOST: usize = 4096;

#[board::entry]
fn main() -> ! {
    static PLACE: Memory<Key> = Memory::new(Key::EMPTY);
    static BOUNCE: Memory<[u8; MOST]> = Memory::new([0; MOST]);
    static DATA: Memory<[u8; MOST]> = Memory::new([0; MOST]);
    let key: [u8; 32] = core::array::from_fn(|i| i as u8);
    // SAFETY: the entry point runs once, and takes each of them once.
    let (place, bounce, data) = unsafe { (PLACE.take(), BOUNCE.take(), DATA.take()) };
    let cipher = black_box(place.expand(black_box(&key), 512));
    let mut flash = done(CryptFlash::new(Nowhere, cipher, &mut bounce[..]));
    let flash = black_box(&mut flash);
    let counter = board::Counter::start();
    for len in [16, 64, 512, MOST] {
        let data = black_box(&mut data[..len]);
        let (unit, offset) = (DataUnitIndex(ADDRESS / 512), (ADDRESS % 512) as usize);
        let run = |what: &str, instructions| board::print(what, len, instructions);
        run("encrypt", counter.instructions(|| done(cipher.encrypt_at(unit, offset, data))));
        run("prog", counter.instructions(|| done(flash.prog(ADDRESS, data))));
        run("decrypt", counter.instructions(|| done(cipher.decrypt_at(unit, offset, data))));
        run("read", counter.instructions(|| done(flash.read(ADDRESS, data))));
    }
    board::exit()
}

/// A medium that takes and gives nothing.
struct Nowhere;

impl FlashDevice for Nowhere {
    fn geometry(&self) -> FlashGeometry {
        done(FlashGeometry::new(1, 16, 4096, 16))
    }

    #[inline(never)]
    fn read(&mut self, _address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        black_box(buf);
        Ok(())
    }

    #[inline(never)]
    fn prog(&mut self, _address: u64, data: &[u8]) -> Result<(), FlashError> {
        black_box(data);
        Ok(())
    }

    fn erase(&mut self, _address: u64, _len: u64) -> Result<(), FlashError> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        Ok(())
    }
}
