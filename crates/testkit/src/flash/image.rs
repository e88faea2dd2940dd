//! What a flash medium holds: blocks that snapshots share until they change, and what a torn operation makes of them.

use std::fmt;
use std::sync::Arc;

use atrest_device::FlashGeometry;

use crate::Random;

/// What every byte of a blank unit reads as.
pub const ERASED: u8 = 0xff;

/// The contents of a medium and the state of its units. A clone shares all blocks until one of the two changes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlashImage {
    geometry: FlashGeometry,
    blocks: Vec<Arc<Block>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    bytes: Vec<u8>,
    units: Vec<Unit>,
}

/// State of a prog unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Erased and not touched since.
    Blank,
    /// Programmed, or left by a torn operation: it may not be programmed before an erase.
    Used,
    /// Used, and not readable any more.
    Uncorrectable,
}

/// How far an operation came when the power failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// It had not begun.
    Clean,
    /// A first part of its bytes is as it was to be, the rest as it was.
    Bytes,
    /// Of the bits that were to change some did, anywhere.
    Bits,
    /// Anything stands there.
    Garbage,
    /// What stands there can't be read: the medium's code finds more errors than it corrects.
    Uncorrectable,
}

impl Tear {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Clean, Self::Bytes, Self::Bits, Self::Garbage, Self::Uncorrectable];
}

impl fmt::Display for Tear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clean => "not begun",
            Self::Bytes => "torn between bytes",
            Self::Bits => "torn between bits",
            Self::Garbage => "leaving garbage",
            Self::Uncorrectable => "leaving what cannot be read",
        })
    }
}

impl FlashImage {
    /// An erased medium.
    ///
    /// # Panics
    /// When it would not fit into memory.
    pub fn erased(geometry: FlashGeometry) -> Self {
        let blank = Arc::new(Block {
            bytes: vec![ERASED; geometry.erase_size() as usize],
            units: vec![Unit::Blank; geometry.units_per_block() as usize],
        });
        let count = usize::try_from(geometry.block_count()).expect("a medium that fits into memory");
        Self { geometry, blocks: vec![blank; count] }
    }

    /// A medium that holds these bytes. Units of nothing but 0xFF are blank.
    ///
    /// # Panics
    /// When the bytes are not as many as the geometry says.
    pub fn from_bytes(geometry: FlashGeometry, bytes: &[u8]) -> Self {
        assert_eq!(bytes.len() as u64, geometry.size(), "an image of another size");
        let mut image = Self::erased(geometry);
        for (block, content) in image.blocks.iter_mut().zip(bytes.chunks(geometry.erase_size() as usize)) {
            let unit_of = |unit: &[u8]| if is_erased(unit) { Unit::Blank } else { Unit::Used };
            let units = content.chunks(geometry.prog_size() as usize).map(unit_of).collect();
            *block = Arc::new(Block { bytes: content.to_vec(), units });
        }
        image
    }

    /// Sizes of the medium.
    pub fn geometry(&self) -> FlashGeometry {
        self.geometry
    }

    /// All bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.blocks.iter().flat_map(|block| block.bytes.iter().copied()).collect()
    }

    /// The bytes of a prog unit.
    pub fn unit(&self, block: usize, unit: usize) -> &[u8] {
        &self.blocks[block].bytes[self.range(unit)]
    }

    /// Whether a prog unit has not been touched since its block was erased.
    pub fn is_blank(&self, block: usize, unit: usize) -> bool {
        self.blocks[block].units[unit] == Unit::Blank
    }

    /// Units of a block that are not blank.
    pub fn used_units(&self, block: usize) -> usize {
        self.blocks[block].units.iter().filter(|unit| **unit != Unit::Blank).count()
    }

    /// Changes one bit, whatever the rules of the medium say.
    pub fn flip(&mut self, block: usize, byte: usize, bit: u8) {
        let unit = byte / self.geometry.prog_size() as usize;
        let block = Arc::make_mut(&mut self.blocks[block]);
        block.bytes[byte] ^= 1 << bit;
        block.units[unit] = Unit::Used;
    }

    /// Puts bytes into a unit, whatever the rules of the medium say. Nothing but 0xFF makes it blank.
    pub fn put_unit(&mut self, block: usize, unit: usize, bytes: &[u8]) {
        let range = self.range(unit);
        let block = Arc::make_mut(&mut self.blocks[block]);
        block.bytes[range].copy_from_slice(bytes);
        block.units[unit] = if is_erased(bytes) { Unit::Blank } else { Unit::Used };
    }

    pub(super) fn block(&self, block: usize) -> &Arc<Block> {
        &self.blocks[block]
    }

    pub(super) fn put_block(&mut self, block: usize, content: Arc<Block>) {
        self.blocks[block] = content;
    }

    /// Whether a read of this range meets a unit that can't be read.
    pub(super) fn is_readable(&self, block: usize, start: usize, len: usize) -> bool {
        let prog = self.geometry.prog_size() as usize;
        let last = (start + len).div_ceil(prog);
        self.blocks[block].units[start / prog..last].iter().all(|unit| *unit != Unit::Uncorrectable)
    }

    pub(super) fn read(&self, block: usize, start: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.blocks[block].bytes[start..][..into.len()]);
    }

    /// Programs a unit as a medium does: bits go from 1 to 0 only.
    pub(super) fn prog(&mut self, block: usize, unit: usize, data: &[u8]) {
        let range = self.range(unit);
        let block = Arc::make_mut(&mut self.blocks[block]);
        for (cell, new) in block.bytes[range].iter_mut().zip(data) {
            *cell &= new;
        }
        block.units[unit] = Unit::Used;
    }

    /// Erases a block.
    pub(super) fn erase(&mut self, block: usize) {
        let block = Arc::make_mut(&mut self.blocks[block]);
        block.bytes.fill(ERASED);
        block.units.fill(Unit::Blank);
    }

    /// Programs a unit and loses power meanwhile.
    pub(super) fn tear_prog(
        &mut self,
        block: usize,
        unit: usize,
        data: &[u8],
        tear: Tear,
        random: &mut Random,
    ) {
        if tear == Tear::Clean {
            return;
        }
        let range = self.range(unit);
        let block = Arc::make_mut(&mut self.blocks[block]);
        let target: Vec<u8> =
            block.bytes[range.clone()].iter().zip(data).map(|(old, new)| old & new).collect();
        let state = torn(&mut block.bytes[range], &target, tear, random);
        block.units[unit] = state;
    }

    /// Erases a block and loses power meanwhile. What looks erased afterwards is not to be trusted: no unit is blank.
    pub(super) fn tear_erase(&mut self, block: usize, tear: Tear, random: &mut Random) {
        if tear == Tear::Clean {
            return;
        }
        let block = Arc::make_mut(&mut self.blocks[block]);
        let target = vec![ERASED; block.bytes.len()];
        let state = torn(&mut block.bytes, &target, tear, random);
        for unit in &mut block.units {
            // A code that covers each unit fails in some of them.
            let readable = state == Unit::Used || random.below(2) == 0;
            *unit = if readable { Unit::Used } else { Unit::Uncorrectable };
        }
    }

    fn range(&self, unit: usize) -> std::ops::Range<usize> {
        let prog = self.geometry.prog_size() as usize;
        unit * prog..(unit + 1) * prog
    }
}

/// Leaves `cells` somewhere on the way to `target`.
pub(super) fn torn(cells: &mut [u8], target: &[u8], tear: Tear, random: &mut Random) -> Unit {
    match tear {
        Tear::Clean => {}
        Tear::Bytes => {
            // From one byte to all but one; a unit of a single byte is torn between its bits elsewhere.
            let arrived = 1 + random.below((cells.len() as u64 - 1).max(1)) as usize;
            cells[..arrived].copy_from_slice(&target[..arrived]);
        }
        Tear::Bits => {
            for (cell, new) in cells.iter_mut().zip(target) {
                *cell ^= (*cell ^ new) & random.draw() as u8;
            }
        }
        Tear::Garbage => random.fill(cells),
        Tear::Uncorrectable => {
            random.fill(cells);
            return Unit::Uncorrectable;
        }
    }
    Unit::Used
}

fn is_erased(unit: &[u8]) -> bool {
    unit.iter().all(|byte| *byte == ERASED)
}
