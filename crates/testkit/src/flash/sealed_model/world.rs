//! The medium, an honest twin of it that nobody attacks, the trusted record, and what has truly happened.

use std::collections::BTreeMap;

use super::model::{Policy, Record, Stamp};
use super::run::Violation;
use crate::Random;

mod counter;
mod damage;
mod event;
mod truth;

pub use counter::{Entry, LOG_CELLS, LOG_PAGES, Log, Pages, Unstepped};
pub(super) use damage::Damage;
pub use event::{Cell, Content, Cut, Event, Trust};
pub(super) use truth::Truth;

/// Erase blocks.
pub const BLOCKS: usize = 6;
/// Units in a block; the cell behind them is the slot for a ticket.
pub const UNITS: usize = 4;
/// Cells in a block.
pub const MARKED_CELLS: usize = UNITS + 1;

/// Why an operation did not come to its end.
#[derive(Debug)]
pub enum Fault {
    /// The power is off.
    PowerLoss,
    /// Medium or store reports an error.
    Refused,
}

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
    pub(super) damage: Damage,
    /// Whether the opening that is under way, or was last, goes by serials.
    pub(super) by_serials: bool,
    /// Whether the medium was attacked since an opening took it over, or it was exchanged for the honest one.
    pub(super) attacked: bool,
    /// What each cell number stands for.
    pub cells: Vec<Content>,
    /// What is trusted.
    pub trust: Trust,
    /// What is anchored and has happened since.
    pub(super) truth: Truth,
    /// What may be anchored as well: writes of the record that did not come to their end.
    pub(super) others: Vec<Truth>,
    /// What the last opening found anchored.
    pub(super) opened: Truth,
    /// Everything that ever was to be anchored, behind nothing.
    pub(super) attempts: Vec<Truth>,
    /// Whether the volume is being opened: what the medium shows was accepted by who anchors it.
    pub(super) opening: bool,
    /// Counter and log, if that is the store.
    pub log: Log,
    /// Whether the counter says now and then that it failed.
    pub flaky: bool,
    /// Whether units are verified when they are read, rather than when the volume is opened.
    pub on_read: bool,
    /// Whether an adversary on the bus refuses operations now and then.
    pub refusing: bool,
    /// Programs that were refused: block, cell, and what was to be programmed.
    pub(super) withheld: Vec<(usize, usize, Cell)>,
    /// Operations that were refused.
    pub(super) refusals: u64,
    pub(super) fuse: Option<u64>,
    pub(super) random: Random,
    /// What was ever sent to each cell, and the medium at some times.
    pub(super) history: Vec<[Vec<Cell>; MARKED_CELLS]>,
    pub(super) snapshots: Vec<Snapshot>,
    /// Versions of a block, on the honest medium and on the undamaged one.
    unsynced: BTreeMap<usize, Vec<[[Cell; MARKED_CELLS]; 2]>>,
    /// Serials that sealed, and in which session.
    serials: std::collections::BTreeSet<(u64, u64)>,
    /// Sessions so far, of copies and of volumes made again, too.
    sessions: u64,
    /// Everything since it was emptied.
    pub events: Vec<Event>,
    pub(super) violation: Option<Violation>,
    pub(super) counts: [u64; 3],
}

/// A medium, and the pages of the log.
pub(super) type Snapshot = (Vec<[Cell; MARKED_CELLS]>, Pages);

const BLANK: [Cell; MARKED_CELLS] = [0; MARKED_CELLS];

impl World {
    pub(super) fn new(
        random: Random,
        ordered: bool,
        policy: Policy,
        read_back: bool,
        marginal: bool,
        trust: Trust,
    ) -> Self {
        Self {
            ordered,
            policy,
            read_back,
            marginal,
            medium: vec![BLANK; BLOCKS],
            honest: vec![BLANK; BLOCKS],
            damage: Damage::none(),
            by_serials: false,
            attacked: false,
            cells: vec![Content::Blank],
            trust,
            truth: Truth::default(),
            others: Vec::new(),
            opened: Truth::default(),
            attempts: vec![Truth::default()],
            opening: false,
            log: Log::default(),
            flaky: false,
            on_read: false,
            refusing: false,
            withheld: Vec::new(),
            refusals: 0,
            fuse: None,
            random,
            history: vec![Default::default(); BLOCKS],
            snapshots: Vec::new(),
            unsynced: BTreeMap::new(),
            serials: Default::default(),
            sessions: 0,
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
        if self.refusing && self.random.below(12) == 0 {
            self.refusals += 1;
            return Cut::Refused;
        }
        match &mut self.fuse {
            None => Cut::None,
            Some(0) => *self.random.pick(&[Cut::Before, Cut::Torn, Cut::After]),
            Some(left) => {
                *left -= 1;
                Cut::None
            }
        }
    }

    /// What comes of an operation.
    fn ended(&mut self, cut: Cut) -> Result<(), Fault> {
        match cut {
            Cut::None => Ok(()),
            Cut::Refused => Err(Fault::Refused),
            Cut::Before | Cut::Torn | Cut::After => Err(self.lose()),
        }
    }

    /// How far an operation comes: one that is refused may have done nothing, a part, or all.
    fn extent(&mut self, cut: Cut) -> Cut {
        match cut {
            Cut::Refused => *self.random.pick(&[Cut::Before, Cut::Before, Cut::Torn, Cut::After]),
            cut => cut,
        }
    }

    fn lose(&mut self) -> Fault {
        self.fuse = None;
        if !self.ordered {
            for (block, versions) in std::mem::take(&mut self.unsynced) {
                let kept = self.random.below(versions.len() as u64 + 1) as usize;
                if let Some([honest, undamaged]) = versions.get(kept) {
                    self.honest[block] = *honest;
                    self.medium[block] = *honest;
                    self.damage.undamaged[block] = *undamaged;
                }
            }
        }
        self.unsynced.clear();
        self.lose_log();
        Fault::PowerLoss
    }

    fn keep(&mut self, block: usize) {
        let versions = self.unsynced.entry(block).or_default();
        versions.push([self.honest[block], self.damage.undamaged[block]]);
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
    ) -> Result<(), Fault> {
        self.truth.changes.push(change);
        self.history[block][cell].push(content);
        self.counts[1] += 1;
        self.keep(block);
        let (honest, medium) = (self.honest[block][cell], self.medium[block][cell]);
        if honest != 0 && honest == medium {
            self.violate("a unit was programmed twice");
        }
        let cut = self.tick();
        if cut == Cut::Refused {
            // The latest few.
            self.withheld.push((block, cell, content));
            if self.withheld.len() > 4 {
                self.withheld.remove(0);
            }
        }
        let mut left = medium;
        let extent = self.extent(cut);
        if extent != Cut::Before {
            let value = if extent == Cut::Torn { self.torn(content) } else { content };
            let spoilt = self.cell(Content::Garbage);
            self.honest[block][cell] = if honest == 0 { value } else { spoilt };
            let undamaged = &mut self.damage.undamaged[block][cell];
            *undamaged = if *undamaged == 0 { value } else { spoilt };
            left = if medium == 0 { value } else { spoilt };
            self.medium[block][cell] = left;
        }
        self.events.push(Event::Prog { block, cell, content, left, cut });
        self.finish(cut)
    }

    /// A cell turned out not to hold what was programmed: so it is on the honest twin.
    pub(super) fn spoil(&mut self, block: usize, cell: usize) {
        self.honest[block][cell] = self.cell(Content::Garbage);
        self.damage.undamaged[block][cell] = self.honest[block][cell];
        self.truth.spoilt = Some(block);
    }

    /// An erase failed. What verifies before this cell counts from now on, and nothing verifies from it on: so it is on the honest twin.
    pub(super) fn spoil_from(&mut self, block: usize, cell: usize) {
        self.honest[block][..cell].copy_from_slice(&self.medium[block][..cell]);
        for cell in cell..UNITS {
            if self.honest[block][cell] != 0 {
                self.honest[block][cell] = self.cell(Content::Garbage);
            }
        }
        self.damage.undamaged[block][..UNITS].copy_from_slice(&self.honest[block][..UNITS]);
    }

    /// `counted` is not the case for a block that is scrubbed, in which nothing is that anybody could see.
    pub(super) fn erase(&mut self, block: usize, counted: bool) -> Result<(), Fault> {
        if counted {
            self.truth.changes.push(Change::Doubtful(block));
        }
        self.counts[2] += 1;
        self.keep(block);
        let cut = self.tick();
        match self.extent(cut) {
            Cut::Before | Cut::Refused => {}
            Cut::Torn => {
                for cell in 0..MARKED_CELLS {
                    let roll = self.random.below(20);
                    if roll < 14 {
                        let left = if roll < 7 { 0 } else { self.torn(self.medium[block][cell]) };
                        self.honest[block][cell] = left;
                        self.damage.undamaged[block][cell] = left;
                        self.medium[block][cell] = left;
                    }
                }
            }
            Cut::None | Cut::After => {
                self.honest[block] = BLANK;
                self.damage.undamaged[block] = BLANK;
                self.medium[block] = BLANK;
            }
        }
        self.events.push(Event::Erase { block, left: self.medium[block], cut });
        let done = self.truth.done;
        let result = self.finish(cut);
        if !counted {
            self.truth.done = done;
        }
        result
    }

    fn finish(&mut self, cut: Cut) -> Result<(), Fault> {
        if matches!(cut, Cut::None | Cut::After) {
            self.truth.done = self.truth.changes.len();
        }
        self.ended(cut)
    }

    pub(super) fn sync(&mut self) -> Result<(), Fault> {
        let cut = self.tick();
        self.events.push(Event::Sync(cut));
        self.ended(cut)?;
        self.unsynced.clear();
        self.log.unsynced = None;
        Ok(())
    }

    /// What is to be anchored from here on.
    pub(super) fn attempt(&mut self, record: Record, sum: Vec<Stamp>, contents: Contents) -> usize {
        let number = self.attempts.len();
        self.counts[0] += 1;
        let mut truth = Truth::anchored(number, record, sum, contents);
        (truth.medium, truth.damage) = match self.opening {
            true => (self.medium.clone(), self.damage_once_held(&truth.sum)),
            false => (self.honest.clone(), self.damage.clone()),
        };
        if self.trust == Trust::Counter {
            self.others.push(truth.clone());
        }
        self.attempts.push(truth);
        number
    }

    /// Replaces the record: whole or not at all.
    pub(super) fn store(&mut self, attempt: usize) -> Result<(), Fault> {
        let cut = self.tick();
        let landed = match cut {
            Cut::Before => false,
            Cut::Torn | Cut::Refused => self.random.below(2) == 0,
            Cut::None | Cut::After => true,
        };
        let record = self.attempts[attempt].record.expect("an attempt");
        self.events.push(Event::Store { record, landed, cut });
        if landed {
            self.truth = self.attempts[attempt].clone();
            if self.opening {
                let held = self.truth.sum.clone();
                self.take_over(&held);
            }
        }
        self.ended(cut)
    }

    /// A salt that nobody else has.
    pub(super) fn session(&mut self) -> u64 {
        self.sessions += 1;
        self.sessions
    }

    /// A serial seals once in a session: they make the nonce.
    pub(super) fn seal(&mut self, serial: u64, session: u64) {
        if !self.serials.insert((serial, session)) {
            self.violate("a serial sealed twice");
        }
    }

    /// A copy of medium and store, which somebody uses on another machine. Nobody attacks it.
    pub(super) fn copied(&self) -> Self {
        let mut copy = self.clone();
        copy.medium.clone_from(&self.honest);
        copy.attacked = false;
        (copy.fuse, copy.refusing) = (None, false);
        copy
    }

    /// The adversary has seen everything that was done to a copy.
    pub(super) fn has_seen(&mut self, copy: Self) {
        (self.cells, self.history, self.snapshots) = (copy.cells, copy.history, copy.snapshots);
        (self.serials, self.sessions, self.random) = (copy.serials, copy.sessions, copy.random);
        if let Some(violation) = copy.violation {
            self.violate(violation);
        }
    }

    pub(super) fn violate(&mut self, what: Violation) {
        self.violation.get_or_insert(what);
    }
}
