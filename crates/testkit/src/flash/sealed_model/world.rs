//! The medium, an honest twin of it that nobody attacks, the trusted record, and what has truly happened.

use std::collections::BTreeMap;

use super::model::{Policy, Record};
use super::run::Violation;
use crate::Random;

mod truth;

/// Erase blocks.
pub const BLOCKS: usize = 6;
/// Units in a block; the cell behind them is the slot for a ticket.
pub const UNITS: usize = 4;
/// Cells in a block.
pub const MARKED_CELLS: usize = UNITS + 1;

/// A cell's content, by its number in the world's list. 0 is blank.
pub type Cell = usize;

/// What can stand in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing.
    Blank,
    /// Anything.
    Garbage,
    /// A sealed cell, some part of which (0 serial, 1 data, 2 tag) was changed.
    Forged(Cell, u8),
    /// A sealed cell that reads right every other time.
    Marginal(Cell),
    /// A unit.
    Unit {
        /// Where it was sealed for, and under which epoch and serial.
        block: usize,
        /// Index in the block.
        unit: usize,
        /// Serial of the block's first unit.
        epoch: u64,
        /// Its own.
        serial: u64,
        /// What it holds.
        data: u64,
    },
    /// A ticket.
    Ticket {
        /// The block with the slot.
        block: usize,
        /// Epoch of that.
        epoch: u64,
        /// Its own.
        serial: u64,
        /// Block, epoch and fill of what is to be erased.
        victim: (usize, u64, usize),
    },
}

/// How the power failed in an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It did not.
    None,
    /// Before anything had happened.
    Before,
    /// In the middle.
    Torn,
    /// When everything had happened.
    After,
}

/// Something that the model did to medium or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Programmed a cell.
    Prog {
        /// Index of the block.
        block: usize,
        /// Index in it.
        cell: usize,
        /// What was to be programmed.
        content: Cell,
        /// What stands there now.
        left: Cell,
        /// Whether it came to that.
        cut: Cut,
    },
    /// Erased a block.
    Erase {
        /// Index of the block.
        block: usize,
        /// What stands there now.
        left: [Cell; MARKED_CELLS],
        /// Whether it came to that.
        cut: Cut,
    },
    /// Synced the medium.
    Sync(Cut),
    /// Wrote the store.
    Store {
        /// What was to be stored.
        record: Record,
        /// Whether it was.
        landed: bool,
        /// Whether the power failed.
        cut: Cut,
    },
}

/// The power is off.
#[derive(Debug)]
pub struct PowerLoss;

/// What was done to the contents since the record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The block may be gone: announced, or erased.
    Doubtful(usize),
    Unit(usize, usize, u64),
}

/// Contents of each block, as a user sees them.
pub(super) type Contents = Vec<Vec<u64>>;

/// See the module.
#[derive(Clone, Debug)]
pub struct World {
    /// Whether operations are durable in the order in which they return.
    pub ordered: bool,
    /// Where erases are announced.
    pub policy: Policy,
    /// Whether programs are read back.
    pub read_back: bool,
    /// Whether torn cells may read right every other time.
    pub marginal: bool,
    /// What the medium holds.
    pub medium: Vec<[Cell; MARKED_CELLS]>,
    pub(super) honest: Vec<[Cell; MARKED_CELLS]>,
    /// What each cell number stands for.
    pub cells: Vec<Content>,
    pub(super) record: Option<Record>,
    /// What is anchored of each block, as the record's tag would confirm it.
    pub(super) sum: Vec<(usize, u64, usize)>,
    pub(super) fuse: Option<u64>,
    pub(super) random: Random,
    /// What was ever sent to each cell, and the medium at some times.
    pub(super) history: Vec<[Vec<Cell>; MARKED_CELLS]>,
    pub(super) snapshots: Vec<Vec<[Cell; MARKED_CELLS]>>,
    pub(super) base: Contents,
    pub(super) changes: Vec<Change>,
    pub(super) done: usize,
    pub(super) victim: Option<usize>,
    /// A block whose last unit was reported as not stored.
    spoilt: Option<usize>,
    unsynced: BTreeMap<usize, Vec<[Cell; MARKED_CELLS]>>,
    serials: std::collections::BTreeSet<u64>,
    /// Everything since it was emptied.
    pub events: Vec<Event>,
    pub(super) violation: Option<Violation>,
    pub(super) counts: [u64; 3],
}

const BLANK: [Cell; MARKED_CELLS] = [0; MARKED_CELLS];

impl World {
    pub(super) fn new(
        random: Random,
        ordered: bool,
        policy: Policy,
        read_back: bool,
        marginal: bool,
    ) -> Self {
        Self {
            ordered,
            policy,
            read_back,
            marginal,
            medium: vec![BLANK; BLOCKS],
            honest: vec![BLANK; BLOCKS],
            cells: vec![Content::Blank],
            record: None,
            sum: Vec::new(),
            fuse: None,
            random,
            history: vec![Default::default(); BLOCKS],
            snapshots: Vec::new(),
            base: vec![Vec::new(); BLOCKS],
            changes: Vec::new(),
            done: 0,
            victim: None,
            spoilt: None,
            unsynced: BTreeMap::new(),
            serials: Default::default(),
            events: Vec::new(),
            violation: None,
            counts: [0; 3],
        }
    }

    pub(super) fn cell(&mut self, content: Content) -> Cell {
        self.cells.push(content);
        self.cells.len() - 1
    }

    fn tick(&mut self) -> Cut {
        match &mut self.fuse {
            None => Cut::None,
            Some(0) => *self.random.pick(&[Cut::Before, Cut::Torn, Cut::After]),
            Some(left) => {
                *left -= 1;
                Cut::None
            }
        }
    }

    fn lose(&mut self) -> PowerLoss {
        self.fuse = None;
        if !self.ordered {
            for (block, versions) in std::mem::take(&mut self.unsynced) {
                let kept = self.random.below(versions.len() as u64 + 1) as usize;
                if let Some(version) = versions.get(kept) {
                    self.honest[block] = *version;
                    self.medium[block] = *version;
                }
            }
        }
        self.unsynced.clear();
        PowerLoss
    }

    fn keep(&mut self, block: usize) {
        self.unsynced.entry(block).or_default().push(self.honest[block]);
    }

    fn torn(&mut self, of: Cell) -> Cell {
        if self.marginal && of != 0 && self.random.below(3) == 0 {
            return self.cell(Content::Marginal(of));
        }
        self.cell(Content::Garbage)
    }

    pub(super) fn prog(
        &mut self,
        block: usize,
        cell: usize,
        content: Cell,
        change: Change,
    ) -> Result<(), PowerLoss> {
        self.changes.push(change);
        self.history[block][cell].push(content);
        self.counts[1] += 1;
        self.keep(block);
        let (honest, medium) = (self.honest[block][cell], self.medium[block][cell]);
        if honest != 0 && honest == medium {
            self.violate("a unit was programmed twice");
        }
        let cut = self.tick();
        let mut left = medium;
        if cut != Cut::Before {
            let value = if cut == Cut::Torn { self.torn(content) } else { content };
            let spoilt = self.cell(Content::Garbage);
            self.honest[block][cell] = if honest == 0 { value } else { spoilt };
            left = if medium == 0 { value } else { spoilt };
            self.medium[block][cell] = left;
        }
        self.events.push(Event::Prog { block, cell, content, left, cut });
        self.finish(cut)
    }

    /// A cell turned out not to hold what was programmed: so it is on the honest twin.
    pub(super) fn spoil(&mut self, block: usize, cell: usize) {
        self.honest[block][cell] = self.cell(Content::Garbage);
        self.spoilt = Some(block);
    }

    /// `counted` is not the case for a block that is scrubbed, in which nothing is that anybody could see.
    pub(super) fn erase(&mut self, block: usize, counted: bool) -> Result<(), PowerLoss> {
        if counted {
            self.changes.push(Change::Doubtful(block));
        }
        self.counts[2] += 1;
        self.keep(block);
        let cut = self.tick();
        match cut {
            Cut::Before => {}
            Cut::Torn => {
                for cell in 0..MARKED_CELLS {
                    let roll = self.random.below(20);
                    if roll < 14 {
                        let left = if roll < 7 { 0 } else { self.torn(self.medium[block][cell]) };
                        self.honest[block][cell] = left;
                        self.medium[block][cell] = left;
                    }
                }
            }
            Cut::None | Cut::After => {
                self.honest[block] = BLANK;
                self.medium[block] = BLANK;
            }
        }
        self.events.push(Event::Erase { block, left: self.medium[block], cut });
        let done = self.done;
        let result = self.finish(cut);
        if !counted {
            self.done = done;
        }
        result
    }

    fn finish(&mut self, cut: Cut) -> Result<(), PowerLoss> {
        if matches!(cut, Cut::None | Cut::After) {
            self.done = self.changes.len();
        }
        if cut == Cut::None { Ok(()) } else { Err(self.lose()) }
    }

    pub(super) fn sync(&mut self) -> Result<(), PowerLoss> {
        let cut = self.tick();
        self.events.push(Event::Sync(cut));
        if cut != Cut::None {
            return Err(self.lose());
        }
        self.unsynced.clear();
        Ok(())
    }

    /// Replaces the record: whole or not at all.
    pub(super) fn store(
        &mut self,
        record: Record,
        sum: Vec<(usize, u64, usize)>,
        contents: Contents,
    ) -> Result<(), PowerLoss> {
        self.counts[0] += 1;
        let cut = self.tick();
        let landed = match cut {
            Cut::Before => false,
            Cut::Torn => self.random.below(2) == 0,
            Cut::None | Cut::After => true,
        };
        self.events.push(Event::Store { record, landed, cut });
        if landed {
            self.record = Some(record);
            self.base = contents;
            self.changes.clear();
            self.done = 0;
            self.spoilt = None;
            self.victim = record.victim.map(|(block, ..)| block);
            self.sum = sum;
        }
        if cut == Cut::None { Ok(()) } else { Err(self.lose()) }
    }

    /// A serial seals once.
    pub(super) fn seal(&mut self, serial: u64) {
        if !self.serials.insert(serial) {
            self.violate("a serial sealed twice");
        }
    }

    pub(super) fn violate(&mut self, what: Violation) {
        self.violation.get_or_insert(what);
    }
}
