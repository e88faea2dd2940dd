//! A model of sealed flash, short enough to be read: what `atrest_flash::sealed` is run against step by step, and what is
//! attacked by itself, since it is faster by far.
//!
//! Cryptography is ideal here: a cell that was not sealed for its place does not open, and the sum over the blocks is the set of what would
//! be added. [`World`] is the medium, the trusted record and the truth, [`Model`] the algorithm, [`run`] makes volumes, cuts their power
//! and attacks them, and says what went wrong. Earlier designs that do not hold are kept as [`Flaw`]s, so that it is known that this would be seen.

mod attack;
mod model;
mod run;
mod world;

pub use model::{Answer, Epoch, Flaw, Model, Policy, Record, Refusal, Stop};
pub use run::{Op, Outcome, Setup, Statistics, Twin, Violation, run};
pub use world::{
    BLOCKS, Cell, Content, Cut, Entry, Event, LOG_CELLS, LOG_PAGES, Log, MARKED_CELLS, Trust, UNITS, World,
};
