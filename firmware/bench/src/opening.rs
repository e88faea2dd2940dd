//! What opening a sealed volume costs whose medium is memory: reading every unit, reading serials, and after a power loss.

use core::hint::black_box;

use atrest_cipher::aead::Aead;
use atrest_device::{
    FlashDevice, FlashError, FlashGeometry, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError,
};
use atrest_flash::sealed::{
    BlockState, SealedFlash, SealedKey, SealedLayout, SealedMedium, SealedOptions, Tickets, Verify,
};

use crate::sealed::Counted;
use crate::{Memory, board, done, empty};

const BLOCK: usize = 4 << 10;
/// A sixteenth of a MiB, of which the counter counts every instruction.
const BLOCKS: usize = 16;
/// Units that are newer than the record when the power is lost.
const NEWER: u64 = 8;

const OPTIONS: SealedOptions = SealedOptions {
    payload: 256,
    tickets: Tickets::Slot,
    medium: SealedMedium::Ordered,
    anchor_every: 1,
    reserve: 12,
    read_back: false,
    verify: Verify::OnRead,
};

const LAYOUT: SealedLayout = match FlashGeometry::new(1, 1, BLOCK as u32, BLOCKS as u64) {
    Ok(medium) => match SealedLayout::new(medium, OPTIONS.payload, 16, OPTIONS.tickets) {
        Ok(layout) => layout,
        Err(_) => panic!("units fit"),
    },
    Err(_) => panic!("a geometry"),
};
const CELL: usize = LAYOUT.buffer_len() as usize;

type Volume<'a, A> = SealedFlash<A, &'a mut Ram, &'a mut Kept, &'a mut [BlockState], &'a mut [u8]>;

static MEDIUM: Memory<[u8; BLOCK * BLOCKS]> = Memory::new([0; BLOCK * BLOCKS]);
static TABLE: Memory<[BlockState; BLOCKS]> = Memory::new([BlockState::VOID; BLOCKS]);
static BUFFER: Memory<[u8; CELL]> = Memory::new([0; CELL]);

/// Makes the entry point of a program that measures openings with an [`Aead`].
#[macro_export]
macro_rules! opening_program {
    ($cipher:ty) => {
        #[$crate::board::entry]
        fn main() -> ! {
            $crate::opening::measure::<$cipher>();
            $crate::board::exit()
        }
    };
}

/// Medium, store and memory of a volume.
struct Parts {
    medium: Ram,
    store: Kept,
    table: &'static mut [BlockState; BLOCKS],
    buffer: &'static mut [u8; CELL],
}

/// Prints every figure. Every unit of the volume is in use.
pub fn measure<A: Aead>() {
    let counter = board::Counter::start();
    board::print("calibration", 0, counter.instructions(|| board::steps(10_000)));
    let nothing = counter.instructions(|| empty(black_box(&mut [0; 16])));
    // SAFETY: this runs once.
    let (bytes, table, buffer) = unsafe { (MEDIUM.take(), TABLE.take(), BUFFER.take()) };
    bytes.fill(0xff);
    let mut parts = Parts { medium: Ram { bytes, read: 0, reads: 0 }, store: Kept(None), table, buffer };
    fill::<A>(&mut parts);
    for (what, verify) in [("every unit", Verify::AtOpening), ("serials", Verify::OnRead)] {
        opening::<A>(what, &mut parts, verify, &counter, nothing);
    }
    let mut volume = open::<A>(&mut parts, Verify::OnRead, true);
    done(volume.erase(0, LAYOUT.geometry().erase_size().into()));
    let unit = u64::from(LAYOUT.payload());
    for at in 0..NEWER {
        done(volume.prog(at * unit, &[0x5b; LAYOUT.payload() as usize]));
    }
    drop(volume);
    opening::<A>("power loss", &mut parts, Verify::OnRead, &counter, nothing);
}

fn fill<A: Aead>(parts: &mut Parts) {
    let mut volume = open::<A>(parts, Verify::OnRead, false);
    let (payload, units) = (u64::from(LAYOUT.payload()), LAYOUT.units());
    for block in 0..BLOCKS as u64 {
        let start = block * payload * u64::from(units);
        done(volume.erase(start, LAYOUT.geometry().erase_size().into()));
        for unit in 0..units {
            done(volume.prog(start + payload * u64::from(unit), &[0x5a; LAYOUT.payload() as usize]));
        }
    }
    done(volume.close());
}

fn opening<A: Aead>(what: &str, parts: &mut Parts, verify: Verify, counter: &board::Counter, nothing: u32) {
    (parts.medium.read, parts.medium.reads) = (0, 0);
    let instructions = counter.instructions(|| drop(black_box(open::<A>(parts, verify, true)))) - nothing;
    board::print(what, 0, instructions);
    board::print(what, 1, parts.medium.read);
    board::print(what, 2, parts.medium.reads);
}

#[inline(never)]
fn open<A: Aead>(parts: &mut Parts, verify: Verify, mount: bool) -> Volume<'_, A> {
    let key = SealedKey { volume_key: black_box(&[7; 32]), uuid: &[7; 16], header: None };
    let options = SealedOptions { verify, ..OPTIONS };
    let Parts { medium, store, table, buffer } = parts;
    let (table, buffer) = (&mut table[..], &mut buffer[..]);
    match mount {
        true => done(SealedFlash::mount(medium, store, &key, options, table, buffer, &mut Counted)),
        false => done(SealedFlash::format(medium, store, &key, options, table, buffer, &mut Counted)),
    }
}

/// A medium that copies, and counts what is read.
struct Ram {
    bytes: &'static mut [u8],
    read: u32,
    reads: u32,
}

impl Ram {
    fn range(&mut self, address: u64, len: usize) -> &mut [u8] {
        &mut self.bytes[address as usize..][..len]
    }
}

impl FlashDevice for &mut Ram {
    fn geometry(&self) -> FlashGeometry {
        LAYOUT.medium()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.read += buf.len() as u32;
        self.reads += 1;
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

/// A trusted store in memory.
struct Kept(Option<[u8; TRUSTED_RECORD_LEN]>);

impl TrustedStore for &mut Kept {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        Ok(self.0)
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        self.0 = Some(*record);
        Ok(())
    }
}
