//! Media that are laid by hand, cell by cell, and what an opening says of each: one for each condition that decides what counts.

mod correcting;
mod counting;
mod header;
mod in_use;
mod looking_again;
mod media;
mod opening;
mod reading;
mod scripted;
mod tickets;
mod writing;

extern crate std;

use std::vec;
use std::vec::Vec;

use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_device::FlashGeometry;
use atrest_secret::OsRandom;
use atrest_testkit::flash::{EmulatedFlash, SharedFlash, TrustedMemory};

use super::cells::Cells;
use super::error::SealedError;
use super::header::AnchoredHeader;
use super::keys::SealedKey;
use super::layout::Tickets;
use super::mount::cells;
use super::options::{SealedMedium, SealedOptions, Verify};
use super::record::{Record, Stamp, Stored};
use super::rotation::Rotation;
use super::serial::{Epoch, Salt};
use super::table::BlockState;
use super::volume::SealedFlash;

const KEY: SealedKey<'_> = SealedKey { volume_key: &[7; 32], uuid: &[9; 16], header: None };
const BLOCKS: u64 = 20;
const FIRST: usize = 128;
const STRIDE: usize = 96;
const SLOT: usize = 64;
const ERASE: usize = FIRST + 9 * STRIDE + SLOT;
const OPTIONS: SealedOptions = SealedOptions {
    payload: 64,
    tickets: Tickets::Slot,
    medium: SealedMedium::Ordered,
    anchor_every: 1,
    reserve: RESERVE,
    read_back: true,
    verify: Verify::AtOpening,
};
const RESERVE: u8 = 5;
/// Of the record: what is newer has serials from here on, and below the limit.
const ANCHOR: u64 = 1_000;
const LIMIT: u64 = ANCHOR + (1 << RESERVE);
/// Of the session that wrote the record, and of a copy of the volume.
const SALT: Salt = [1, 2, 3, 4, 5, 6, 7];
const FOREIGN: Salt = [1, 2, 3, 4, 5, 6, 8];

type Volume = SealedFlash<ChaCha20Poly1305, SharedFlash, TrustedMemory, Vec<BlockState>, Vec<u8>>;

/// A medium, and the record that is to confirm it.
struct ByHand {
    medium: SharedFlash,
    cells: Cells<ChaCha20Poly1305, SharedFlash, Vec<u8>>,
    record: Record,
    sum: u128,
    options: SealedOptions,
    /// Blocks with a wrong bit.
    damaged: u32,
}

impl ByHand {
    fn new() -> Self {
        Self::with(OPTIONS)
    }

    fn with(options: SealedOptions) -> Self {
        let geometry = FlashGeometry::new(1, 32, ERASE as u32, BLOCKS).expect("a geometry");
        let medium = SharedFlash::new(EmulatedFlash::new(geometry));
        let cells = cells::<ChaCha20Poly1305, _, _>(medium.clone(), &KEY, &options, vec![0; FIRST]);
        let cells = cells.expect("cells");
        let record = Record {
            mark: cells.keys.mark,
            clean: false,
            cached: false,
            reserve: RESERVE,
            anchor: ANCHOR,
            salt: SALT,
            victim: None,
            rotation: Rotation::default(),
        };
        Self { medium, cells, record, sum: 0, options, damaged: 0 }
    }

    /// Seals one unit. What stood there is gone.
    fn unit(&mut self, block: u32, unit: u32, epoch: Epoch, serial: u64) {
        self.wipe(block, unit);
        self.cells.prog_unit(block, unit, epoch, serial, Some(&[block as u8; 72])).expect("program");
    }

    /// Seals the units of a block from the first on, under these serials.
    fn block(&mut self, block: u32, serials: &[u64]) {
        let epoch = epoch(serials[0]);
        for (unit, serial) in (0..).zip(serials) {
            self.unit(block, unit, epoch, *serial);
        }
    }

    /// Seals the units of a block under these serials, and has the record confirm the first `fill` of them.
    fn anchored(&mut self, block: u32, serials: &[u64], fill: u32) {
        self.block(block, serials);
        self.confirm(stamp(block, serials[0], fill));
    }

    fn confirm(&mut self, stamp: Stamp) {
        self.sum = self.sum.wrapping_add(self.cells.keys.share(stamp));
    }

    fn ticket(&mut self, home: u32, epoch: u64, serial: u64, victim: Stamp) {
        self.ticket_of(home, self::epoch(epoch), serial, victim);
    }

    fn ticket_of(&mut self, home: u32, epoch: Epoch, serial: u64, victim: Stamp) {
        self.cells.prog_ticket(home, epoch, serial, victim).expect("program");
    }

    /// Inverts one bit of a unit.
    fn flip(&mut self, block: u32, unit: u32, byte: usize) {
        let at = place(unit) + byte;
        self.medium.lock().image_mut().flip(block as usize, at, 3);
    }

    /// Makes a unit unreadable, but for the salts behind the first one.
    fn spoil(&mut self, block: u32, unit: u32) {
        (0..STRIDE - 3).for_each(|byte| self.flip(block, unit, byte));
    }

    fn wipe(&mut self, block: u32, unit: u32) {
        let len = if unit == 0 { FIRST } else { STRIDE };
        for at in (place(unit)..place(unit) + len).step_by(32) {
            self.medium.lock().image_mut().put_unit(block as usize, at / 32, &[0xff; 32]);
        }
    }

    /// Makes an opening look a second time: one wrong bit in each of so many blocks of one unit, the last ones. More than four, and no block may be
    /// anything but what it is taken for, or one of the answers that are noted of it.
    fn damage(&mut self, blocks: u32) {
        for block in (BLOCKS as u32 - blocks)..BLOCKS as u32 {
            self.anchored(block, &[900 + u64::from(block)], 1);
            self.flip(block, 0, 11);
        }
        self.damaged = blocks;
    }

    fn store(&self) -> TrustedMemory {
        let tag = self.cells.keys.anchor(self.sum, &self.record.body());
        let stored = Stored { record: self.record, tag, header: AnchoredHeader::default() };
        TrustedMemory::with_record(Some(stored.to_bytes()))
    }

    fn mount(&self) -> Result<Volume, SealedError> {
        let (table, buffer) = (vec![BlockState::VOID; BLOCKS as usize], vec![0; FIRST]);
        Volume::mount(self.medium.clone(), self.store(), &KEY, self.options, table, buffer, &mut OsRandom)
    }

    fn adopt(&self) -> Result<Volume, SealedError> {
        let (table, buffer) = (vec![BlockState::VOID; BLOCKS as usize], vec![0; FIRST]);
        Volume::adopt(self.medium.clone(), self.store(), &KEY, self.options, table, buffer, &mut OsRandom)
    }

    /// Opens it: the first blocks hold so many units, the damaged ones one each, and the others none.
    #[track_caller]
    fn opens(&self, fills: &[u32]) -> Volume {
        let volume = self.mount().expect("it is confirmed");
        let damaged = (BLOCKS as u32 - self.damaged)..BLOCKS as u32;
        for block in 0..BLOCKS as u32 {
            let expected = fills.get(block as usize).copied().unwrap_or(damaged.contains(&block).into());
            assert_eq!(volume.state(block).fill(), expected, "block {block}");
        }
        volume
    }

    #[track_caller]
    fn is_refused(&self) {
        let before = self.medium.lock().image().to_bytes();
        let error = self.mount().map(drop).expect_err("nothing confirms it");
        assert!(matches!(error, SealedError::NotAnchored { .. }), "{error:?}");
        assert!(before == self.medium.lock().image().to_bytes(), "nothing is changed");
    }

    #[track_caller]
    fn has_a_gap(&self) {
        let error = self.mount().map(drop).expect_err("serials are missing");
        assert!(matches!(error, SealedError::Gap { .. }), "{error:?}");
    }
}

fn epoch(serial: u64) -> Epoch {
    Epoch { serial, salt: SALT }
}

fn foreign(serial: u64) -> Epoch {
    Epoch { serial, salt: FOREIGN }
}

fn stamp(block: u32, serial: u64, fill: u32) -> Stamp {
    Stamp { block, epoch: epoch(serial), fill }
}

/// The first byte of a unit in its block.
fn place(unit: u32) -> usize {
    let head = if unit == 0 { 0 } else { FIRST - STRIDE };
    head + unit as usize * STRIDE
}
