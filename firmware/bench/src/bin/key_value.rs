//! A key-value map on a medium that is memory: what it costs above the flash below it.
#![no_std]
#![no_main]

use core::hint::black_box;

use atrest_device::{FlashDevice, FlashError, FlashGeometry};
use atrest_keyvalue::{IndexEntry, KeyValue, MapKey, MapOptions};
use firmware_bench::{Memory, board, done, empty, stack};

const BLOCK: usize = 4096;
const BLOCKS: usize = 4;
/// Bytes in a unit.
const UNIT: usize = 32;
const NAMES: usize = 32;
/// Bytes in a value.
const LEN: usize = 64;

const OPTIONS: MapOptions = MapOptions { longest: LEN as u16, spares: 1 };

type Map = KeyValue<Ram, &'static mut [IndexEntry], &'static mut [u8]>;

static MEDIUM: Memory<[u8; BLOCK * BLOCKS]> = Memory::new([0; BLOCK * BLOCKS]);
static INDEX: Memory<[IndexEntry; NAMES]> = Memory::new([IndexEntry::EMPTY; NAMES]);
static BUFFER: Memory<[u8; UNIT]> = Memory::new([0; UNIT]);
static PLACE: Memory<Option<Map>> = Memory::new(None);

#[board::entry]
fn main() -> ! {
    let counter = board::Counter::start();
    board::print("calibration", 0, counter.instructions(|| board::steps(10_000)));
    let nothing = counter.instructions(|| empty(black_box(&mut [0; 16])));
    let key: [u8; 32] = core::array::from_fn(|i| i as u8);
    let key = black_box(&key);
    // SAFETY: the entry point runs once.
    let (medium, index, buffer, place) =
        unsafe { (MEDIUM.take(), INDEX.take(), BUFFER.take(), PLACE.take()) };
    medium.fill(0xff);
    let format = counter.instructions(|| start(place, true, Ram(medium), index, buffer, key));
    board::print("format", 0, format - nothing);
    let Some(map) = place else { board::fail() };
    for name in 0..NAMES as u8 {
        set(map, name, name);
    }
    board::print("set", LEN, counter.instructions(|| set(map, 1, 0x5a)) - nothing);
    let mut out = [0; LEN];
    board::print("get", LEN, counter.instructions(|| get(map, 1, &mut out)) - nothing);
    board::print("damaged", LEN, out.iter().filter(|byte| **byte != 0x5a).count() as u32);
    // Until every block has been begun, and values are moved.
    let mut dearest = 0;
    for round in 0..200 {
        dearest = dearest.max(counter.instructions(|| set(map, 2, round)) - nothing);
    }
    board::print("dearest set", LEN, dearest);
    board::print("stack set", 0, stack::used(|| set(map, 3, 3)));
    board::print("stack get", 0, stack::used(|| get(map, 3, &mut out)));
    let Some(map) = place.take() else { board::fail() };
    // SAFETY: the map that had them is gone; nothing else refers to them.
    let (index, buffer) = unsafe { (INDEX.take(), BUFFER.take()) };
    let ram = map.into_device();
    let open = counter.instructions(|| start(place, false, ram, index, buffer, key));
    board::print("open", 0, open - nothing);
    let Some(map) = place else { board::fail() };
    get(map, 2, &mut out);
    board::print("damaged", LEN, out.iter().filter(|byte| **byte != 199).count() as u32);
    board::print("map", 0, size_of::<Map>() as u32);
    board::exit()
}

#[inline(never)]
fn start(
    place: &mut Option<Map>,
    new: bool,
    ram: Ram,
    index: &'static mut [IndexEntry],
    buffer: &'static mut [u8],
    volume_key: &[u8],
) {
    let key = MapKey { volume_key, uuid: &[7; 16] };
    let open = if new { Map::format } else { Map::open };
    *place = Some(done(open(ram, &key, OPTIONS, index, buffer)));
}

#[inline(never)]
fn set(map: &mut Map, name: u8, byte: u8) {
    done(map.set(black_box(&[name]), black_box(&[byte; LEN])));
}

#[inline(never)]
fn get(map: &mut Map, name: u8, out: &mut [u8; LEN]) {
    if !matches!(map.get(black_box(&[name]), black_box(out)), Ok(Some(_))) {
        board::fail()
    }
}

/// A medium that copies.
struct Ram(&'static mut [u8]);

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
