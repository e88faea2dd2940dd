//! What can stand on the medium, and what can happen to it.

use super::{Entry, LOG_CELLS, MARKED_CELLS};
use crate::flash::sealed_model::model::{Epoch, Record, Stamp};

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
    /// A sealed cell with another serial, which an adversary has made up, and other data.
    Claim(Cell, u64),
    /// A sealed cell that reads right every other time.
    Marginal(Cell),
    /// A unit.
    Unit {
        /// Where it was sealed for, and under which epoch and serial.
        block: usize,
        /// Index in the block.
        unit: usize,
        /// Of its block.
        epoch: Epoch,
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
        epoch: Epoch,
        /// Its own.
        serial: u64,
        /// Block, epoch and fill of what is to be erased.
        victim: Stamp,
    },
    /// An entry of the log that a counter vouches for.
    Entry(Entry),
}

/// How an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It did not.
    None,
    /// It reports an error, and nothing, all or a part of it has happened. The power stays on.
    Refused,
    /// The power failed before anything had happened.
    Before,
    /// The power failed in the middle.
    Torn,
    /// The power failed when everything had happened.
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
    /// Programmed an entry of the log that a counter vouches for.
    LogProg {
        /// Index of the page.
        page: usize,
        /// Index in it.
        index: usize,
        /// What was to be programmed.
        content: Cell,
        /// Record and number in that.
        entry: (Record, u64),
        /// What stands there now.
        left: Cell,
        /// Whether it came to that.
        cut: Cut,
    },
    /// Erased a page of the log.
    LogErase {
        /// Index of the page.
        page: usize,
        /// What stands there now.
        left: [Cell; LOG_CELLS],
        /// Whether it came to that.
        cut: Cut,
    },
    /// Incremented the counter.
    Step {
        /// Whether it was.
        landed: bool,
        /// Whether the power failed.
        cut: Cut,
        /// Whether it said that it failed.
        failed: bool,
    },
}

/// What the adversary can't touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// A record.
    Record,
    /// A number that only rises; records are on the medium.
    Counter,
}
