//! A log on the medium and a counter that only rises: what a store is made of where nothing else can be trusted.

use super::{BLANK, Cell, Content, Cut, Damage, Event, Fault, MARKED_CELLS, Trust, Truth, World};

/// Pages of the log: one of them may be bad.
pub const LOG_PAGES: usize = 3;
/// Entries in a page of the log.
pub const LOG_CELLS: usize = 3;

/// What stands in the pages of the log.
pub type Pages = [[Cell; LOG_CELLS]; LOG_PAGES];

/// Why the counter was not incremented, or was.
#[derive(Debug)]
pub enum Unstepped {
    /// The power is off.
    PowerLoss,
    /// It says that it failed; it may have done it.
    Failed,
}

/// An entry of the log: what was to be anchored, under a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What the counter has to show for this to count.
    pub number: u64,
    /// Which of all attempts at anchoring something.
    pub attempt: usize,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// What the counter shows.
    pub counter: u64,
    /// What stands in the pages.
    pub pages: Pages,
    /// A page that is not erased any more, and where programs leave nothing or garbage, and that does not say so.
    pub(in crate::flash::sealed_model) bad: Option<usize>,
    /// The counter said since this was last taken that it failed.
    pub(in crate::flash::sealed_model) failed: bool,
    /// Pages as the last sync left them, if they have changed since.
    pub(super) unsynced: Option<Pages>,
    /// All entries that were ever sent to the medium, and what that held then.
    pub(in crate::flash::sealed_model) history: Vec<(Cell, Vec<[Cell; MARKED_CELLS]>)>,
    /// The newest that was programmed in whole, and is not lost, for each number.
    whole: std::collections::BTreeMap<u64, (Cell, Entry)>,
    /// Times that an opening was shown another one of those that could be anchored than the newest.
    pub(in crate::flash::sealed_model) choices: u64,
    /// Increments.
    pub(in crate::flash::sealed_model) steps: u64,
}

impl World {
    pub(in crate::flash::sealed_model) fn log_prog(
        &mut self,
        page: usize,
        index: usize,
        entry: Entry,
    ) -> Result<(), Fault> {
        let content = self.cell(Content::Entry(entry));
        self.log.history.push((content, self.medium.clone()));
        self.keep_log();
        let cut = self.tick();
        let mut left = self.log.pages[page][index];
        let extent = self.extent(cut);
        if extent != Cut::Before {
            let value = match extent {
                _ if self.log.bad == Some(page) => 0,
                Cut::Torn => self.torn(content),
                _ => content,
            };
            left = if left == 0 { value } else { self.cell(Content::Garbage) };
            self.log.pages[page][index] = left;
        }
        if left == content {
            self.log.whole.insert(entry.number, (content, entry));
        }
        let record = self.attempts[entry.attempt].record.expect("an attempt");
        self.events.push(Event::LogProg { page, index, content, entry: (record, entry.number), left, cut });
        self.ended(cut)
    }

    pub(in crate::flash::sealed_model) fn log_erase(&mut self, page: usize) -> Result<(), Fault> {
        self.keep_log();
        let cut = self.tick();
        let extent = self.extent(cut);
        for index in 0..LOG_CELLS {
            let old = self.log.pages[page][index];
            self.log.pages[page][index] = match extent {
                Cut::Before | Cut::Refused => old,
                _ if self.log.bad == Some(page) => old,
                Cut::None | Cut::After => 0,
                Cut::Torn => match self.random.below(3) {
                    0 => 0,
                    1 => old,
                    _ => self.torn(old),
                },
            };
        }
        self.events.push(Event::LogErase { page, left: self.log.pages[page], cut });
        self.ended(cut)
    }

    /// Increments the counter. What the newest entry for its value anchors is the truth from now on, if nobody interferes.
    pub(in crate::flash::sealed_model) fn step(&mut self) -> Result<(), Unstepped> {
        let (cut, refused) = match self.tick() {
            Cut::Refused => (Cut::None, true),
            cut => (cut, false),
        };
        let failed = refused || cut == Cut::None && self.flaky && self.random.below(40) == 0;
        let landed = match cut {
            Cut::Before => false,
            Cut::None if !failed => true,
            Cut::None | Cut::Torn | Cut::Refused => self.random.below(2) == 0,
            Cut::After => true,
        };
        self.events.push(Event::Step { landed, cut, failed });
        if landed {
            self.log.steps += 1;
            self.log.counter += 1;
            if let Some((_, entry)) = self.log.whole.get(&self.log.counter) {
                self.may_be_anchored(entry.attempt);
            }
        }
        self.log.failed |= failed;
        match cut {
            Cut::None if failed => Err(Unstepped::Failed),
            Cut::None => Ok(()),
            _ => {
                self.lose();
                Err(Unstepped::PowerLoss)
            }
        }
    }

    /// An attempt that has become the truth; what was before may be too, to who has not heard that it came to its end.
    fn may_be_anchored(&mut self, attempt: usize) {
        if let Some(other) = self.others.iter_mut().find(|other| other.number == attempt) {
            std::mem::swap(&mut self.truth, other);
            other.medium = std::mem::replace(&mut self.honest, self.truth.medium.clone());
            other.damage = std::mem::replace(&mut self.damage, self.truth.damage.clone());
        }
    }

    /// What was anchored when an attempt was, and has happened since.
    pub(in crate::flash::sealed_model) fn anchored(&self, attempt: usize) -> Truth {
        let known = self.others.iter().chain([&self.truth]).find(|truth| truth.number == attempt);
        known.unwrap_or(&self.attempts[attempt]).clone()
    }

    /// An opening has found this anchored, and the medium fits: it goes on from it, but may still be cut off.
    pub(in crate::flash::sealed_model) fn accept(&mut self, attempt: usize) {
        if !self.others.iter().chain([&self.truth]).any(|truth| truth.number == attempt) {
            self.violate("an anchor of an earlier time was taken");
            self.truth = self.attempts[attempt].clone();
        }
    }

    /// An opening that has accepted this comes to its end: from now on nothing else is anchored.
    pub(in crate::flash::sealed_model) fn settle(&mut self, attempt: usize) {
        self.accept(attempt);
        self.may_be_anchored(attempt);
        self.others.clear();
    }

    /// Everything is gone that anybody can write, and a volume is to be made under the same key.
    pub(in crate::flash::sealed_model) fn wipe(&mut self) {
        self.medium.fill(BLANK);
        self.honest.fill(BLANK);
        self.damage = Damage::none();
        self.attacked = false;
        self.log.pages = Pages::default();
        self.log.whole.clear();
        self.others.clear();
        self.truth = Truth::default();
    }

    /// A write of the record has come to its end.
    pub(in crate::flash::sealed_model) fn stored(&mut self, attempt: usize) {
        self.may_be_anchored(attempt);
        self.others.clear();
    }

    /// Puts the log back to what the honest one holds for the counter: the one entry that matters.
    pub(in crate::flash::sealed_model) fn restore_log(&mut self) {
        if self.trust == Trust::Counter {
            let content = self.log.whole.get(&self.log.counter).map_or(0, |(cell, _)| *cell);
            self.log.pages = Pages::default();
            self.log.pages[0][0] = content;
        }
    }

    fn keep_log(&mut self) {
        self.log.unsynced.get_or_insert(self.log.pages);
    }

    /// A medium with a cache may have lost what was not synced.
    pub(super) fn lose_log(&mut self) {
        if let Some(before) = self.log.unsynced.take()
            && !self.ordered
            && self.random.below(2) == 0
        {
            self.log.pages = before;
        }
    }
}
