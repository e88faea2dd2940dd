//! Unlock, decrypt a unit, encrypt and program one: what a program without a file system needs at least. The programs that
//! call this tell by their size and by the figures that they print what a feature takes.
//!
//! Each phase is a function of its own, so that its locals are gone when the next one begins; and the header is where the data will
//! be, for who has the key needs it no more.

use core::hint::black_box;

use atrest_cipher::{KeyPlace, Keys, MapperOptions, Plain64};
use atrest_device::{FlashDevice, FlashRegion};
use atrest_flash::{CryptFlash, FlashHeader};
use atrest_keyslot::flash::{Derive, FlashKey, HEADER_LEN, Header};

use crate::medium::{BLOCK_SIZE, Medium, PROG_SIZE};
use crate::task::{Task, task};
use crate::{Memory, board, done, stack};

/// The header, and then a data unit, which has as many bytes.
type Buffer = [u8; HEADER_LEN];

static BUFFER: Memory<Buffer> = Memory::new([0; HEADER_LEN]);

/// Does the work and prints the stack that it took, that of parsing the header, and the bytes that it read.
///
/// What is programmed is encrypted in `bounce`: the longer, the fewer runs that takes.
pub fn measure<K: Keys>(
    place: &'static mut KeyPlace<Plain64<K>>,
    bounce: &'static mut [u8],
    kdf: &mut dyn Derive,
) {
    // SAFETY: taken once.
    let (mut medium, buffer) = unsafe { (Medium::take(), BUFFER.take()) };
    let task = task();
    done(medium.read(0, buffer));
    board::print("header", 0, stack::used(|| parse(buffer)));
    board::print("stack", 0, stack::used(|| work(&mut medium, place, kdf, &task, buffer, bounce)));
    board::print("data", 0, u32::from_le_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]));
}

#[inline(never)]
fn parse(buffer: &Buffer) {
    black_box(done(Header::parse(black_box(buffer))).sequence());
}

#[inline(never)]
fn work<K: Keys>(
    medium: &mut Medium,
    place: &mut KeyPlace<Plain64<K>>,
    kdf: &mut dyn Derive,
    task: &Task,
    buffer: &mut Buffer,
    bounce: &mut [u8],
) {
    let mut key = FlashKey::empty();
    let data = unlock(medium, kdf, task, buffer, &mut key);
    let cipher = done(place.expand(key.expose(), &MapperOptions::default()));
    key.clear();
    transfer(data, cipher, buffer, bounce);
}

type Opened<'m, 'b> = FlashHeader<&'m mut Medium, [u8; PROG_SIZE], &'b mut Buffer>;

#[inline(never)]
fn open<'m, 'b>(medium: &'m mut Medium, buffer: &'b mut Buffer) -> Opened<'m, 'b> {
    done(FlashHeader::open_in(medium, [0; PROG_SIZE], buffer))
}

/// Fills in the key, and gives what is behind the header.
#[inline(never)]
fn unlock<'m>(
    medium: &'m mut Medium,
    kdf: &mut dyn Derive,
    task: &Task,
    buffer: &mut Buffer,
    key: &mut FlashKey,
) -> FlashRegion<&'m mut Medium> {
    let header = open(medium, buffer);
    done(header.unlock(None, task.passphrase, kdf, None, key));
    done(header.into_data())
}

/// Reads the first unit of the data, and programs it where the data ends.
#[inline(never)]
fn transfer<K: Keys>(
    data: FlashRegion<&mut Medium>,
    cipher: &Plain64<K>,
    unit: &mut Buffer,
    bounce: &mut [u8],
) {
    let mut data = done(CryptFlash::new(data, cipher, bounce));
    done(data.read(0, unit));
    let last = data.geometry().size() - BLOCK_SIZE as u64;
    done(data.prog(last, black_box(&unit[..])));
}
