//! Unlock, decrypt a unit, encrypt and program one: what a program without a file system needs at least. The programs that
//! call this tell by their size and by the figures that they print what a feature takes.

use core::hint::black_box;

use atrest_cipher::{KeyPlace, Keys, MapperOptions, Plain64};
use atrest_device::FlashDevice;
use atrest_flash::{CryptFlash, FlashHeader};
use atrest_keyslot::flash::{Derive, FlashKey};

use crate::medium::{BLOCK_SIZE, Medium, PROG_SIZE};
use crate::task::{Task, task};
use crate::{board, done, stack};

/// Does the work and prints the stack that it took, and the bytes that it read.
pub fn measure<K: Keys>(place: &'static mut KeyPlace<Plain64<K>>, kdf: &mut dyn Derive) {
    // SAFETY: taken once.
    let mut medium = unsafe { Medium::take() };
    let task = task();
    let mut first = [0; 4];
    board::print("stack", 0, stack::used(|| first = work(&mut medium, place, kdf, &task)));
    board::print("data", 0, u32::from_le_bytes(first));
}

/// The first bytes of the data.
#[inline(never)]
fn work<K: Keys>(
    medium: &mut Medium,
    place: &mut KeyPlace<Plain64<K>>,
    kdf: &mut dyn Derive,
    task: &Task,
) -> [u8; 4] {
    let mut key = FlashKey::empty();
    let header = done(FlashHeader::open(&mut *medium, [0; PROG_SIZE]));
    done(header.unlock(None, task.passphrase, kdf, None, &mut key));
    let cipher = done(place.expand(key.expose(), &MapperOptions::default()));
    key.clear();
    let mut data = done(CryptFlash::new(done(header.into_data()), &*cipher, [0; 512]));
    let mut unit = [0; 512];
    done(data.read(0, &mut unit));
    let last = data.geometry().size() - BLOCK_SIZE as u64;
    done(data.prog(last, black_box(&unit)));
    [unit[0], unit[1], unit[2], unit[3]]
}
