//! What the fast opening of sealed flash reads, and when it reads more: after a power loss, and where serials stand that were not
//! sealed for their places.

use std::cell::Cell;
use std::rc::Rc;

use crate::any::{AnyVolume, any_flash, any_store};
use crate::sealed::{Units, VOLUME_KEY};
use atrest_cipher::aead::AsconAead128;
use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry};
use atrest_flash::sealed::{
    BlockState, SealedError, SealedKey, SealedLayout, SealedMedium, SealedOptions, Tickets, Verify,
};
use atrest_secret::OsRandom;
use atrest_testkit::flash::{EmulatedFlash, SharedFlash, TrustedMemory};

type Volume = AnyVolume<'static, AsconAead128>;

/// Of 4 KiB.
const BLOCKS: u64 = 64;

const OPTIONS: SealedOptions = SealedOptions {
    payload: 256,
    tickets: Tickets::Slot,
    medium: SealedMedium::Ordered,
    anchor_every: u32::MAX,
    reserve: 12,
    read_back: false,
    verify: Verify::OnRead,
};

/// A medium that counts the bytes read of it.
struct Counting {
    medium: SharedFlash,
    read: Rc<Cell<u64>>,
}

impl FlashDevice for Counting {
    fn geometry(&self) -> FlashGeometry {
        self.medium.geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.read.set(self.read.get() + buf.len() as u64);
        self.medium.read(address, buf)
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.medium.prog(address, data)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.medium.erase(address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.medium.sync()
    }

    fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        self.medium.is_blank(address, len, scratch)
    }
}

struct Bench {
    medium: SharedFlash,
    store: TrustedMemory,
    layout: SealedLayout,
    read: Rc<Cell<u64>>,
}

impl Bench {
    fn new(read_size: u32, prog_size: u32) -> Self {
        let geometry = FlashGeometry::new(read_size, prog_size, 4096, BLOCKS).expect("a geometry");
        let layout = SealedLayout::new(geometry, OPTIONS.payload, 16, OPTIONS.tickets).expect("a layout");
        let medium = SharedFlash::new(EmulatedFlash::new(geometry));
        Self { medium, store: TrustedMemory::new(), layout, read: Rc::default() }
    }

    fn open(&self, verify: Verify, uuid: u8, mount: bool) -> Result<Volume, SealedError> {
        let medium = any_flash(Counting { medium: self.medium.clone(), read: self.read.clone() });
        let store = any_store(self.store.clone());
        let key = SealedKey { volume_key: &VOLUME_KEY, uuid: &[uuid; 16], header: None };
        let (table, buffer) =
            (vec![BlockState::default(); BLOCKS as usize], vec![0; self.layout.buffer_len() as usize]);
        let options = SealedOptions { verify, ..OPTIONS };
        let open = if mount { Volume::mount } else { Volume::format };
        open(medium, store, &key, options, table, buffer, &mut OsRandom)
    }

    /// A volume with full blocks, some with fewer units, and some that nobody has used.
    fn filled(&self, uuid: u8) -> Volume {
        let mut volume = self.open(Verify::OnRead, uuid, false).expect("format");
        for block in 0..BLOCKS - 20 {
            volume.clear(block).expect("erase");
            let units = if block % 4 == 0 {
                block % u64::from(self.layout.units())
            } else {
                self.layout.units().into()
            };
            (0..units).for_each(|unit| volume.put(block, unit, block as u8).expect("program"));
        }
        volume
    }

    /// Bytes read by an opening of a copy.
    fn bytes(&self, verify: Verify) -> u64 {
        let copy = Self {
            medium: SharedFlash::new(self.medium.lock().clone()),
            store: TrustedMemory::with_record(self.store.record()),
            layout: self.layout,
            read: Rc::default(),
        };
        let mut volume = copy.open(verify, 1, true).expect("mount");
        let bytes = copy.read.get();
        // Whatever was read, all that was stored is there.
        for block in [1, 7, BLOCKS - 21] {
            let unit = volume.unit(block, 1).expect("a unit");
            assert!(unit.iter().all(|byte| *byte == block as u8));
        }
        assert_eq!(volume.unit(BLOCKS - 1, 0), Err(FlashCause::Void { block: BLOCKS - 1 }));
        bytes
    }

    /// Where the serial of a unit stands in its block.
    fn serial_at(&self, unit: u32) -> usize {
        (self.layout.unit_address(0, unit) + u64::from(self.layout.payload())) as usize
    }

    /// Writes into a block, whatever stands there.
    fn write(&self, block: usize, at: usize, bytes: &[u8]) {
        let mut medium = self.medium.lock();
        let prog = self.layout.medium().prog_size() as usize;
        for (at, byte) in (at..).zip(bytes) {
            let stands = medium.image().unit(block, at / prog)[at % prog];
            (0..8)
                .filter(|bit| (stands ^ byte) >> bit & 1 == 1)
                .for_each(|bit| medium.image_mut().flip(block, at, bit));
        }
    }

    fn unit(&self, block: usize, unit: u32) -> Vec<u8> {
        let bytes = self.medium.lock().image().to_bytes();
        bytes[block * 4096 + self.layout.unit_address(0, unit) as usize..][..self.layout.stride() as usize]
            .to_vec()
    }
}

#[test]
fn a_volume_closed_in_good_order_opens_with_a_twentieth_of_the_bytes() {
    for (read_size, prog_size) in [(1, 1), (1, 16), (4, 16), (16, 16)] {
        let bench = Bench::new(read_size, prog_size);
        bench.filled(1).close().expect("close");
        let [every, serials] = [Verify::AtOpening, Verify::OnRead].map(|verify| bench.bytes(verify));
        println!("reads of {read_size}: {every} bytes, {serials} by serials");
        assert!(serials * 20 <= every, "{read_size}: {serials} of {every}");
        assert!(every > 150_000, "everything is read");
    }
}

/// Of an anchored volume that was not closed a serial more is read of each block that holds something: in the slot.
#[test]
fn after_a_power_loss_with_nothing_newer_an_opening_reads_five_bytes_more_of_each_block() {
    let bench = Bench::new(1, 16);
    let mut volume = bench.filled(1);
    volume.anchor().expect("anchor");
    let anchored = bench.bytes(Verify::OnRead);
    volume.close().expect("close");
    let units = u64::from(bench.layout.units());
    let held = (0..BLOCKS - 20).filter(|block| block % 4 != 0 || block % units != 0).count() as u64;
    assert_eq!(anchored, bench.bytes(Verify::OnRead) + 5 * held);
}

/// What is newer than the record is read, with its block, and otherwise nothing but a serial in each slot.
#[test]
fn after_a_power_loss_an_opening_reads_the_blocks_with_newer_units_as_well() {
    let bench = Bench::new(1, 16);
    bench.filled(1).close().expect("close");
    let closed = bench.bytes(Verify::OnRead);
    let mut volume = bench.open(Verify::OnRead, 1, true).expect("mount");
    for block in [2, 3, 4] {
        volume.clear(block).expect("erase");
        (0..3).for_each(|unit| volume.put(block, unit, 9).expect("program"));
    }
    drop(volume);
    let lost = bench.bytes(Verify::OnRead);
    println!("{closed} bytes after a close, {lost} after a power loss");
    // Three blocks with newer units, and three that were announced: perhaps the same.
    assert!(lost > closed + 3 * 3 * 256 && lost < closed + 5 * BLOCKS + 6 * 2 * 4096, "{lost}, {closed}");
}

/// A torn program, which left its serial, stands behind a block's last unit until that is erased.
#[test]
fn serials_that_a_torn_program_has_left_cost_a_look_at_both_ends_of_each_block() {
    let bench = Bench::new(1, 16);
    bench.filled(1).close().expect("close");
    let (every, serials) = (bench.bytes(Verify::AtOpening), bench.bytes(Verify::OnRead));
    // Block 8 holds eight units; what stands behind them looks newer than those, and older than the record.
    let mut torn = bench.unit(9, 8);
    torn[3] ^= 0xff;
    bench.write(8, bench.layout.unit_address(0, 8) as usize, &torn);
    let ends = bench.bytes(Verify::OnRead);
    println!("{every} bytes, {serials} by serials, {ends} with both ends");
    assert!(ends > 2 * serials && ends < every / 4, "{ends}");
    assert_eq!(bench.bytes(Verify::AtOpening), every);
    // And that of a first unit, in a block that is void.
    let mut torn = bench.unit(9, 0);
    torn[3] ^= 0xff;
    bench.write(BLOCKS as usize - 1, 0, &torn);
    let ends = bench.bytes(Verify::OnRead);
    assert!(ends > 2 * serials && ends < every / 4, "{ends}");
}

/// Blocks that the volume has not used yet may have been another one's.
#[test]
fn what_another_volume_has_left_is_not_taken_for_this_ones() {
    let bench = Bench::new(1, 16);
    bench.filled(2).close().expect("close");
    let other =
        Bench { store: TrustedMemory::new(), medium: bench.medium.clone(), read: Rc::default(), ..bench };
    let mut volume = other.open(Verify::OnRead, 1, false).expect("format");
    for block in [1, 7, BLOCKS - 21] {
        for _ in 0..40 {
            volume.clear(block).expect("erase");
            (0..13).for_each(|unit| volume.put(block, unit, block as u8).expect("program"));
        }
    }
    volume.close().expect("close");
    let (every, fast) = (other.bytes(Verify::AtOpening), other.bytes(Verify::OnRead));
    println!("{every} bytes, {fast} by serials and ends");
    assert!(fast < 2 * every, "{fast}");
}

/// Who writes serials at will makes an opening read more, and it then says what it always says.
#[test]
fn a_serial_that_was_written_by_somebody_else_changes_nothing() {
    let bench = Bench::new(1, 16);
    bench.filled(1).close().expect("close");
    let every = bench.bytes(Verify::AtOpening);
    let inside = bench.serial_at(4);
    // Nothing that a search comes upon: nobody notices before the unit is read.
    let stood = bench.unit(5, 4);
    for serial in [0_u64, 5, 1 << 30, (1 << 40) - 1] {
        let copy = Bench {
            medium: SharedFlash::new(bench.medium.lock().clone()),
            store: bench.store.clone(),
            read: Rc::default(),
            ..bench
        };
        copy.write(5, inside, &serial.to_le_bytes()[..5]);
        let mut volume = copy.open(Verify::OnRead, 1, true).expect("mount");
        assert_eq!(volume.unit(5, 4), Err(FlashCause::Tampered { block: 5, unit: 4 }), "{serial}");
        assert!(volume.is_damaged() && !volume.is_stopped());
        assert!(volume.unit(5, 3).is_ok() && volume.unit(5, 5).is_ok());
    }
    assert_eq!(bench.unit(5, 4), stood);
    // A wrong bit in one copy of a salt costs the block's units a read.
    let salt = (bench.layout.stride() + bench.layout.head()) as usize - 3;
    let serials = bench.bytes(Verify::OnRead);
    bench.medium.lock().image_mut().flip(6, salt, 2);
    let more = bench.bytes(Verify::OnRead) - serials;
    assert!(more > 3_000 && more < 4_500, "{more} bytes more");
    assert_eq!(bench.bytes(Verify::AtOpening), every);
    // The number of units is the record's: one that is cut off is missed.
    let units = bench.layout.units();
    bench.write(
        9,
        bench.layout.unit_address(0, units - 1) as usize,
        &vec![0xff; bench.layout.stride() as usize],
    );
    let refused = bench.open(Verify::OnRead, 1, true).map(drop);
    assert!(matches!(refused, Err(SealedError::NotAnchored { .. })), "{refused:?}");
}
