//! A program or erase whose future was dropped before it was ready. docs/SEALED-FLASH.md, "Futures that are dropped".

use super::record::Stamp;
use super::serial::Epoch;

/// What may have happened to the medium, or not.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// This unit was being programmed.
    Program { block: u32, unit: u32, epoch: Epoch },
    /// This block was being erased.
    Erase { block: u32, before: Stamp },
}

/// Of asynchronous code: what was begun, until its end was seen.
#[derive(Debug)]
pub(crate) struct Unfinished(Option<Step>);

impl Unfinished {
    pub(crate) const fn nothing() -> Self {
        Self(None)
    }

    pub(crate) fn begin(&mut self, step: Step) {
        self.0 = Some(step);
    }

    pub(crate) fn end(&mut self) {
        self.0 = None;
    }

    pub(crate) fn step(&self) -> Option<Step> {
        self.0
    }
}

/// Of blocking code: a call returns when all is done, so that there is nothing to know.
#[derive(Debug)]
pub(crate) struct NeverUnfinished;

impl NeverUnfinished {
    pub(crate) const fn nothing() -> Self {
        Self
    }

    pub(crate) fn begin(&mut self, _: Step) {}

    pub(crate) fn end(&mut self) {}

    pub(crate) fn step(&self) -> Option<Step> {
        None
    }
}
