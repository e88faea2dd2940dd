//! Sealed flash over NOR flash, under a key that the chip keeps, with its trusted store in two pages of the chip's own: make a volume as a
//! factory does, open it as each start does, erase, program, read, close.
#![no_std]
#![no_main]

use core::hint::black_box;

use atrest_cipher::aead::AsconAead128;
use atrest_device::{FlashDevice, FlashGeometry};
use atrest_flash::NorDriver;
use atrest_flash::sealed::store::{FRAME_LEN, PageStore};
use atrest_flash::sealed::{BlockState, SealedFlash, SealedKey, SealedLayout, SealedOptions, Tickets};
use atrest_secret::{Random, RandomError};
use firmware_board::{Memory, Nor, done, entry, exit, print, stack};

const BLOCKS: usize = 16;
const PAYLOAD: u32 = 256;
const LAYOUT: SealedLayout = match FlashGeometry::new(1, 16, 4096, BLOCKS as u64) {
    Ok(medium) => match SealedLayout::new(medium, PAYLOAD, 16, Tickets::Slot) {
        Ok(layout) => layout,
        Err(_) => panic!("a layout"),
    },
    Err(_) => panic!("a geometry"),
};
const CELL: usize = LAYOUT.buffer_len() as usize;
const UNIT: usize = LAYOUT.payload() as usize;
/// Bytes that a record takes in a page.
const FRAME: usize = FRAME_LEN.next_multiple_of(16);

type Chip = Nor<0, { BLOCKS * 4096 }>;
/// Two pages behind it.
type Pages = Nor<{ BLOCKS * 4096 }, 8192>;
type Volume<'a> = SealedFlash<
    AsconAead128,
    NorDriver<&'a mut Chip>,
    PageStore<NorDriver<&'a mut Pages>, FRAME>,
    &'a mut [BlockState; BLOCKS],
    &'a mut [u8; CELL],
>;

static TABLE: Memory<[BlockState; BLOCKS]> = Memory::new([BlockState::VOID; BLOCKS]);
static BUFFER: Memory<[u8; CELL]> = Memory::new([0; CELL]);
static UNIT_BUFFER: Memory<[u8; UNIT]> = Memory::new([7; UNIT]);

struct Parts {
    chip: Chip,
    pages: Pages,
    table: &'static mut [BlockState; BLOCKS],
    buffer: &'static mut [u8; CELL],
}

/// Bytes that are not random: an emulator has nothing better. A chip has a random source.
struct Counting(u8);

impl Random for Counting {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        for byte in out {
            self.0 += 1;
            *byte = self.0;
        }
        Ok(())
    }
}

#[entry]
fn main() -> ! {
    // SAFETY: the entry point runs once.
    let (mut parts, unit) = unsafe {
        let (table, buffer) = (TABLE.take(), BUFFER.take());
        (Parts { chip: Chip::take(), pages: Pages::take(), table, buffer }, UNIT_BUFFER.take())
    };
    // New flash.
    done(embedded_storage::nor_flash::NorFlash::erase(&mut parts.chip, 0, (BLOCKS * 4096) as u32));
    done(embedded_storage::nor_flash::NorFlash::erase(&mut parts.pages, 0, 8192));
    let mut random = Counting(0);
    let made = stack::used(|| make(&mut parts, &mut random));
    let used = stack::used(|| work(&mut parts, &mut random, unit));
    print("stack", 0, made.max(used));
    print("data", 0, u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]]));
    exit()
}

/// A chip has the key in fuses or protected flash; the identifier is another one for each volume that is made.
const KEY: SealedKey<'static> =
    SealedKey { volume_key: b"thirty-two bytes that nobody has", uuid: b"sixteen of these", header: None };

#[inline(never)]
fn make(parts: &mut Parts, random: &mut dyn Random) {
    let (device, store) = drivers(&mut parts.chip, &mut parts.pages);
    let options = SealedOptions { payload: PAYLOAD, ..SealedOptions::default() };
    let mut volume: Volume<'_> =
        done(SealedFlash::format(device, store, &KEY, options, parts.table, parts.buffer, random));
    done(volume.close());
}

#[inline(never)]
fn work(parts: &mut Parts, random: &mut dyn Random, unit: &mut [u8; UNIT]) {
    let (device, store) = drivers(&mut parts.chip, &mut parts.pages);
    let options = SealedOptions { payload: PAYLOAD, ..SealedOptions::default() };
    let mut volume: Volume<'_> =
        done(SealedFlash::try_mount(device, store, &KEY, options, parts.table, parts.buffer, random));
    done(volume.erase(0, LAYOUT.geometry().erase_size().into()));
    done(volume.prog(0, black_box(&unit[..])));
    done(volume.sync());
    unit.fill(0);
    done(volume.read(0, unit));
    done(volume.close());
}

fn drivers<'a>(
    chip: &'a mut Chip,
    pages: &'a mut Pages,
) -> (NorDriver<&'a mut Chip>, PageStore<NorDriver<&'a mut Pages>, FRAME>) {
    (done(NorDriver::new(chip)), done(PageStore::new(done(NorDriver::new(pages)))))
}
