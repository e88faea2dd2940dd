//! Someone who has seen every state of a medium and puts back, moves or damages what is on it.

use std::fmt;
use std::sync::Arc;

use super::image::{Block, ERASED, FlashImage};
use super::power_cut::FlashRecording;
use super::refusals::Withheld;
use crate::Random;

/// Every version of every block that a recording saw.
#[derive(Clone, Debug)]
pub struct Adversary {
    blocks: Vec<Vec<Arc<Block>>>,
    images: Vec<FlashImage>,
    withheld: Vec<Withheld>,
}

/// Something done to a medium behind its owner's back. Its `Display` form names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Inverts a bit.
    FlipBit {
        /// Index of the block.
        block: usize,
        /// Byte in it.
        byte: usize,
        /// Bit in that, from the lowest.
        bit: u8,
    },
    /// Fills a unit with random bytes.
    Scramble {
        /// Index of the block.
        block: usize,
        /// Index of the unit in it.
        unit: usize,
        /// Of the bytes.
        seed: u64,
    },
    /// Puts back what a unit held in an earlier version of its block.
    ReplayUnit {
        /// Index of the block.
        block: usize,
        /// Index of the unit in it.
        unit: usize,
        /// Version of the block.
        version: usize,
    },
    /// Puts back an earlier version of a block.
    ReplayBlock {
        /// Index of the block.
        block: usize,
        /// Which version.
        version: usize,
    },
    /// Puts back the whole medium as it was before an operation of the recording.
    ReplayImage {
        /// Which operation.
        step: usize,
    },
    /// Exchanges two units: block and unit of each.
    SwapUnits {
        /// One.
        a: (usize, usize),
        /// The other.
        b: (usize, usize),
    },
    /// Exchanges two blocks.
    SwapBlocks {
        /// One.
        a: usize,
        /// The other.
        b: usize,
    },
    /// Makes the units of a block blank, from one of them to the last.
    Truncate {
        /// Index of the block.
        block: usize,
        /// First unit that goes.
        from: usize,
    },
    /// Puts the bytes of a program that was refused in their place.
    Deliver {
        /// Which one.
        program: usize,
    },
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FlipBit { block, byte, bit } => write!(f, "flip bit {bit} of byte {byte} in block {block}"),
            Self::Scramble { block, unit, seed } => write!(f, "scramble unit {block}.{unit}, seed {seed}"),
            Self::ReplayUnit { block, unit, version } => {
                write!(f, "put version {version} of unit {block}.{unit} back")
            }
            Self::ReplayBlock { block, version } => write!(f, "put version {version} of block {block} back"),
            Self::ReplayImage { step } => write!(f, "put the image before operation {step} back"),
            Self::SwapUnits { a, b } => write!(f, "swap units {}.{} and {}.{}", a.0, a.1, b.0, b.1),
            Self::SwapBlocks { a, b } => write!(f, "swap blocks {a} and {b}"),
            Self::Truncate { block, from } => write!(f, "truncate block {block} from unit {from} on"),
            Self::Deliver { program } => write!(f, "deliver refused program {program}"),
        }
    }
}

impl Adversary {
    /// One who watched the whole recording.
    ///
    /// # Panics
    /// When nothing was recorded.
    pub fn new(recording: &FlashRecording) -> Self {
        let images: Vec<FlashImage> = recording.images().cloned().collect();
        let count = images.first().expect("a recording with an image").geometry().block_count() as usize;
        let mut blocks = vec![Vec::<Arc<Block>>::new(); count];
        for image in &images {
            for (index, versions) in blocks.iter_mut().enumerate() {
                let block = image.block(index);
                if versions.last().is_none_or(|last| !Arc::ptr_eq(last, block)) {
                    versions.push(Arc::clone(block));
                }
            }
        }
        Self { blocks, images, withheld: Vec::new() }
    }

    /// An adversary who has refused these programs before, and can deliver them.
    pub fn with_withheld(self, withheld: Vec<Withheld>) -> Self {
        Self { withheld, ..self }
    }

    /// An adversary who has also watched a copy of the volume on another machine, in `recording`.
    pub fn with_copy(mut self, recording: &FlashRecording) -> Self {
        let Self { blocks, images, .. } = Self::new(recording);
        self.blocks.iter_mut().zip(blocks).for_each(|(versions, more)| versions.extend(more));
        self.images.extend(images);
        self
    }

    /// Programs that were refused.
    pub fn withheld(&self) -> usize {
        self.withheld.len()
    }

    /// Versions of a block that were seen.
    pub fn versions(&self, block: usize) -> usize {
        self.blocks[block].len()
    }

    /// Some attack.
    pub fn draw(&self, random: &mut Random) -> Attack {
        let geometry = self.images[0].geometry();
        let (blocks, units) = (self.blocks.len() as u64, u64::from(geometry.units_per_block()));
        let block = random.below(blocks) as usize;
        let unit = random.below(units) as usize;
        let version = random.below(self.blocks[block].len() as u64) as usize;
        match random.below(if self.withheld.is_empty() { 8 } else { 10 }) {
            0 => {
                let byte = random.below(u64::from(geometry.erase_size())) as usize;
                Attack::FlipBit { block, byte, bit: random.below(8) as u8 }
            }
            1 => Attack::Scramble { block, unit, seed: random.draw() },
            2 => Attack::ReplayUnit { block, unit, version },
            3 => Attack::ReplayBlock { block, version },
            4 => Attack::ReplayImage { step: random.below(self.images.len() as u64) as usize },
            5 => {
                let b = (random.below(blocks) as usize, random.below(units) as usize);
                Attack::SwapUnits { a: (block, unit), b }
            }
            6 => Attack::SwapBlocks { a: block, b: random.below(blocks) as usize },
            8.. => Attack::Deliver { program: random.below(self.withheld.len() as u64) as usize },
            _ => Attack::Truncate { block, from: unit },
        }
    }

    /// Carries an attack out. Says whether it changed any byte.
    pub fn attack(&self, image: &mut FlashImage, attack: Attack) -> bool {
        let before = image.clone();
        let prog = image.geometry().prog_size() as usize;
        match attack {
            Attack::FlipBit { block, byte, bit } => image.flip(block, byte, bit),
            Attack::Scramble { block, unit, seed } => {
                image.put_unit(block, unit, &Random::new(seed).bytes(prog));
            }
            Attack::ReplayUnit { block, unit, version } => {
                let mut seen = before.clone();
                seen.put_block(block, Arc::clone(&self.blocks[block][version]));
                image.put_unit(block, unit, seen.unit(block, unit));
            }
            Attack::ReplayBlock { block, version } => {
                image.put_block(block, Arc::clone(&self.blocks[block][version]));
            }
            Attack::ReplayImage { step } => *image = self.images[step].clone(),
            Attack::Deliver { program } => {
                let (address, bytes) = &self.withheld[program];
                let erase = u64::from(image.geometry().erase_size());
                let (block, first) = ((address / erase) as usize, (address % erase) as usize / prog);
                for (unit, bytes) in (first..).zip(bytes.chunks(prog)) {
                    image.put_unit(block, unit, bytes);
                }
            }
            Attack::SwapUnits { a, b } => {
                image.put_unit(a.0, a.1, before.unit(b.0, b.1));
                image.put_unit(b.0, b.1, before.unit(a.0, a.1));
            }
            Attack::SwapBlocks { a, b } => {
                image.put_block(a, Arc::clone(before.block(b)));
                image.put_block(b, Arc::clone(before.block(a)));
            }
            Attack::Truncate { block, from } => {
                for unit in from..image.geometry().units_per_block() as usize {
                    image.put_unit(block, unit, &vec![ERASED; prog]);
                }
            }
        }
        image.to_bytes() != before.to_bytes()
    }
}
