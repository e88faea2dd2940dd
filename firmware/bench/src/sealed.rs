//! What authenticated flash costs: a cipher alone on units of 256 bytes, and transfers through `SealedFlash`, whose medium
//! is memory.

use core::hint::black_box;

use atrest_cipher::aead::Aead;
use atrest_device::{
    FlashDevice, FlashError, FlashGeometry, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError,
};
use atrest_flash::sealed::{BlockState, SealedFlash, SealedKey, SealedOptions};

use crate::{Memory, board, done, empty, fingerprint, stack};

/// Bytes in a unit.
pub const UNIT: usize = 256;
/// Bytes in a run of units.
const RUN: usize = 16 * UNIT;
/// With such blocks of the medium, units have 256 bytes.
const BLOCK: usize = 64 << 10;
const BLOCKS: usize = 2;
/// Bytes that a unit takes on the medium: payload, serial, tag.
const STRIDE: usize = UNIT + 5 + 16;
/// Unit 0 has the salt of its block behind it, twice.
const FIRST: usize = STRIDE + 14;

const OPTIONS: SealedOptions = SealedOptions {
    payload: UNIT as u32,
    tickets: atrest_flash::sealed::Tickets::Slot,
    medium: atrest_flash::sealed::SealedMedium::Ordered,
    anchor_every: 1,
    reserve: 12,
    // The price of a second look is that of opening.
    read_back: false,
    verify: atrest_flash::sealed::Verify::OnRead,
};

/// A volume with all that it needs.
pub type Volume<A> =
    SealedFlash<A, Ram, Nowhere, &'static mut [BlockState; BLOCKS], &'static mut [u8; FIRST]>;

static MEDIUM: Memory<[u8; BLOCK * BLOCKS]> = Memory::new([0; BLOCK * BLOCKS]);
static TABLE: Memory<[BlockState; BLOCKS]> = Memory::new([BlockState::VOID; BLOCKS]);
static BUFFER: Memory<[u8; FIRST]> = Memory::new([0; FIRST]);
static DATA: Memory<[u8; RUN]> = Memory::new([0; RUN]);

/// Makes the entry point of a program that measures an [`Aead`].
#[macro_export]
macro_rules! sealed_program {
    ($cipher:ty) => {
        #[$crate::board::entry]
        fn main() -> ! {
            static PLACE: $crate::Memory<Option<$crate::sealed::Volume<$cipher>>> = $crate::Memory::new(None);
            // SAFETY: the entry point runs once.
            $crate::sealed::measure::<$cipher>(unsafe { PLACE.take() });
            $crate::board::exit()
        }
    };
}

/// Prints every figure of a cipher.
pub fn measure<A: Aead + 'static>(place: &'static mut Option<Volume<A>>) {
    let counter = board::Counter::start();
    board::print("calibration", 0, counter.instructions(|| board::steps(10_000)));
    let nothing = counter.instructions(|| empty(black_box(&mut [0; 16])));
    let key: [u8; 32] = core::array::from_fn(|i| i as u8);
    let key = black_box(&key);
    // SAFETY: this runs once.
    let (medium, table, buffer, data) =
        unsafe { (MEDIUM.take(), TABLE.take(), BUFFER.take(), &mut DATA.take()[..]) };

    medium.fill(0xff);
    alone::<A>(&counter, nothing, key, &mut data[..UNIT]);

    let setup = counter.instructions(|| format(place, medium, table, buffer, key)) - nothing;
    board::print("format", 0, setup);
    let Some(volume) = place else { board::fail() };
    done(volume.erase(0, volume.geometry().erase_size().into()));
    // The first change of a session is anchored before it begins, and every unit at the start of a block remembered.
    done(volume.prog(0, &data[..UNIT]));
    let mut at = UNIT as u64;
    for len in [UNIT, RUN] {
        let data = &mut data[..len];
        data.fill(0x5a);
        board::print("prog", len, counter.instructions(|| prog(volume, at, data)) - nothing);
        data.fill(0);
        board::print("read", len, counter.instructions(|| read(volume, at, data)) - nothing);
        board::print("damaged", len, data.iter().filter(|byte| **byte != 0x5a).count() as u32);
        at += len as u64;
    }
    board::print("anchor", 0, counter.instructions(|| anchor(volume)) - nothing);
    board::print("stack prog", 0, stack::used(|| prog(volume, at, &data[..UNIT])));
    board::print("stack read", 0, stack::used(|| read(volume, at, &mut data[..UNIT])));
    board::print("stack anchor", 0, stack::used(|| anchor(volume)));
    board::print("key", 0, size_of::<A>() as u32);
}

/// The cipher on one unit, with as much associated data as `SealedFlash` gives it.
fn alone<A: Aead>(counter: &board::Counter, nothing: u32, key: &[u8], unit: &mut [u8]) {
    let key = &key[..A::KEY_LEN];
    board::print("setup", 0, counter.instructions(|| drop(black_box(A::new(black_box(key))))) - nothing);
    let cipher = done(A::new(key));
    let cipher = black_box(&cipher);
    let associated = black_box(&[1; 14]);
    let nonce = A::Nonce::default();
    let mut tag = None;
    let sealing = counter.instructions(|| tag = Some(seal(cipher, &nonce, associated, unit)));
    board::print("seal", UNIT, sealing - nothing);
    let Some(tag) = tag else { board::fail() };
    board::print("fingerprint", UNIT, fingerprint(unit) ^ fingerprint(tag.as_ref()));
    let opening = counter.instructions(|| open(cipher, &nonce, associated, unit, &tag));
    board::print("open", UNIT, opening - nothing);
    board::print("damaged", 0, unit.iter().filter(|byte| **byte != 0).count() as u32);
}

#[inline(never)]
fn seal<A: Aead>(cipher: &A, nonce: &A::Nonce, associated: &[u8], data: &mut [u8]) -> A::Tag {
    done(cipher.seal(nonce, associated, data))
}

#[inline(never)]
fn open<A: Aead>(cipher: &A, nonce: &A::Nonce, associated: &[u8], data: &mut [u8], tag: &A::Tag) {
    done(cipher.open(nonce, associated, data, tag));
}

#[inline(never)]
fn format<A: Aead>(
    place: &mut Option<Volume<A>>,
    medium: &'static mut [u8],
    table: &'static mut [BlockState; BLOCKS],
    buffer: &'static mut [u8; FIRST],
    key: &[u8],
) {
    let key = SealedKey { volume_key: key, uuid: &[7; 16], header: None };
    *place =
        Some(done(SealedFlash::format(Ram(medium), Nowhere, &key, OPTIONS, table, buffer, &mut Counted)));
}

#[inline(never)]
fn prog<A: Aead>(volume: &mut Volume<A>, at: u64, data: &[u8]) {
    done(volume.prog(at, black_box(data)));
}

#[inline(never)]
fn read<A: Aead>(volume: &mut Volume<A>, at: u64, data: &mut [u8]) {
    done(volume.read(at, black_box(data)));
}

#[inline(never)]
fn anchor<A: Aead>(volume: &mut Volume<A>) {
    done(volume.anchor());
}

/// What is no random source: here nothing is secret.
pub(crate) struct Counted;

impl atrest_secret::Random for Counted {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), atrest_secret::RandomError> {
        (0..).zip(out).for_each(|(byte, to)| *to = byte);
        Ok(())
    }
}

/// A medium that copies.
pub struct Ram(&'static mut [u8]);

impl Ram {
    fn range(&mut self, address: u64, len: usize) -> &mut [u8] {
        &mut self.0[address as usize..][..len]
    }
}

impl FlashDevice for Ram {
    fn geometry(&self) -> FlashGeometry {
        done(FlashGeometry::new(1, 1, BLOCK as u32, BLOCKS as u64))
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        buf.copy_from_slice(self.range(address, buf.len()));
        Ok(())
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.range(address, data.len()).copy_from_slice(data);
        Ok(())
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.range(address, len as usize).fill(0xff);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        Ok(())
    }
}

/// A trusted store that takes everything and keeps nothing.
pub struct Nowhere;

impl TrustedStore for Nowhere {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        Ok(None)
    }

    #[inline(never)]
    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        black_box(record);
        Ok(())
    }
}
