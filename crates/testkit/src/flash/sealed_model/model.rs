//! The algorithm, on ideal cells.

use super::world::{BLOCKS, Change, Content, Contents, Fault, Trust, UNITS, World};

mod answer;
mod cells;
mod counter;
mod damage;
mod epoch;
mod fast;
mod flaw;
mod opening;

pub use answer::{Answer, Refusal, Stop};
use cells::{open_first, open_ticket, open_unit, salt_at, steady};
use counter::CounterStore;
pub use epoch::Epoch;
pub use flaw::Flaw;

/// Block, epoch, fill.
pub type Stamp = (usize, Epoch, usize);

/// What is anchored, but for the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The next serial.
    pub anchor: u64,
    /// Blocks of earlier epochs are not appended to.
    pub start: u64,
    /// Of who wrote it: what is newer was sealed in no other.
    pub session: u64,
    /// Closed in good order.
    pub clean: bool,
    /// What was to be erased.
    pub victim: Option<Stamp>,
}

/// Where erases are announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// In blocks begun since power-on.
    Slot,
    /// In the record.
    Store,
}

/// A record takes serials of this many bits at most, so that a counter says which can have been used.
const SERIALS: u32 = 16;
/// Serials in a window.
pub(super) const RESERVE: u64 = 32;
const MOST_TICKETS: usize = 6;
const SLOTS: usize = 4;
/// Reads of a cell before it is given up, and of the newest one before it is believed.
const READS: usize = 3;

/// A volume that is open.
#[derive(Clone, Debug)]
pub struct Model {
    policy: Policy,
    flaw: Option<Flaw>,
    read_back: bool,
    /// Drawn when it was opened.
    session: u64,
    /// Of each block.
    pub epoch: [Epoch; BLOCKS],
    /// Units in each block.
    pub fill: [usize; BLOCKS],
    /// What they hold.
    pub contents: Contents,
    erased: [bool; BLOCKS],
    closed: [bool; BLOCKS],
    in_flight: [bool; BLOCKS],
    /// The next serial.
    pub next: u64,
    anchor: u64,
    limit: u64,
    start: u64,
    clean: bool,
    changed: bool,
    gap: bool,
    tampered: bool,
    damaged: bool,
    /// The record has confirmed what was begun before, and nobody has read it.
    unread: bool,
    tickets: usize,
    slots: Vec<usize>,
    store: CounterStore,
}

impl Model {
    fn unknown(world: &mut World, flaw: Option<Flaw>) -> Self {
        let session = if flaw.is_some_and(Flaw::has_one_salt) { 0 } else { world.session() };
        Self {
            policy: world.policy,
            flaw,
            read_back: world.read_back,
            session,
            epoch: [Epoch::default(); BLOCKS],
            fill: [0; BLOCKS],
            contents: vec![Vec::new(); BLOCKS],
            erased: [false; BLOCKS],
            closed: [false; BLOCKS],
            in_flight: [false; BLOCKS],
            next: 1,
            anchor: 0,
            limit: 0,
            start: 1,
            clean: false,
            changed: false,
            gap: false,
            tampered: false,
            damaged: false,
            unread: false,
            tickets: 0,
            slots: Vec::new(),
            store: CounterStore::new(flaw),
        }
    }

    pub(super) fn format(world: &mut World, flaw: Option<Flaw>) -> Result<Self, Stop> {
        let mut model = Self::unknown(world, flaw);
        if world.trust == Trust::Counter && !model.has(Flaw::FormatAtOne) {
            // Whatever was sealed before, under whatever records: serials below this one alone.
            model.next = (world.log.counter + 1) << SERIALS;
            model.start = model.next;
        }
        model.write_record(world, false, None)?;
        Ok(model)
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Whether a block takes another unit.
    pub fn is_open(&self, block: usize) -> bool {
        match self.fill[block] {
            0 => self.erased[block],
            _ => self.epoch[block] >= self.start && !self.closed[block],
        }
    }

    fn stamp(&self, block: usize) -> Stamp {
        (block, self.epoch[block], self.fill[block])
    }

    /// What is held of all blocks that are not void.
    pub(super) fn held(&self) -> Vec<Stamp> {
        (0..BLOCKS).map(|block| self.stamp(block)).filter(|(_, _, fill)| *fill > 0).collect()
    }

    fn write_record(&mut self, world: &mut World, clean: bool, victim: Option<usize>) -> Result<(), Stop> {
        if self.tampered {
            return Err(Stop::Tampered);
        }
        world.sync()?;
        let sum = self.held();
        let (anchor, start, session) = (self.next, self.start, self.session);
        let record = Record { anchor, start, session, clean, victim: victim.map(|block| self.stamp(block)) };
        let attempt = world.attempt(record, sum, self.contents.clone());
        let stored = match world.trust {
            Trust::Record => world.store(attempt).map_err(|fault| match fault {
                Fault::PowerLoss => Stop::PowerLoss,
                Fault::Refused => Stop::Store,
            }),
            Trust::Counter => self.store.store(world, attempt),
        };
        if stored.is_err() {
            // Whether this is anchored nobody knows: nothing is changed before something is.
            self.gap |= !self.has(Flaw::GoOn);
            return stored;
        }
        (self.anchor, self.limit, self.clean) = (self.next, self.next + RESERVE, clean);
        (self.changed, self.gap, self.tickets) = (victim.is_some(), false, 0);
        self.in_flight = [false; BLOCKS];
        Ok(())
    }

    pub(super) fn sync(&mut self, world: &mut World, anchor: bool) -> Result<(), Stop> {
        let write = if anchor { self.changed || self.tampered } else { self.changed && !world.ordered };
        if write {
            return self.write_record(world, false, None);
        }
        Ok(world.sync()?)
    }

    pub(super) fn close(&mut self, world: &mut World) -> Result<(), Stop> {
        if self.clean && !self.tampered {
            return Ok(world.sync()?);
        }
        self.write_record(world, true, None)
    }

    fn begin_change(&mut self, world: &mut World) -> Result<(), Stop> {
        if self.tampered {
            return Err(Stop::Tampered);
        }
        if self.clean && self.has(Flaw::NoDirtyMark) {
            self.clean = false;
        }
        if self.clean || self.gap {
            self.write_record(world, false, None)?;
        }
        self.changed = true;
        Ok(())
    }

    fn serial(&mut self, world: &mut World) -> Result<u64, Stop> {
        if self.next >= self.limit {
            self.write_record(world, false, None)?;
            self.changed = true;
        }
        self.next += 1;
        Ok(self.next - 1)
    }

    pub(super) fn prog(&mut self, world: &mut World, block: usize, data: u64) -> Result<(), Stop> {
        let unit = self.fill[block];
        if !self.is_open(block) || unit >= UNITS {
            return Err(Stop::Closed);
        }
        self.begin_change(world)?;
        let serial = self.serial(world)?;
        if unit == 0 {
            self.epoch[block] = Epoch { serial, session: self.session };
        }
        self.fill[block] += 1;
        self.contents[block].push(data);
        self.in_flight[block] = true;
        world.seal(serial, self.epoch[block].session);
        let cell = world.cell(Content::Unit { block, unit, epoch: self.epoch[block], serial, data });
        let epoch = self.epoch[block];
        match world.prog(block, unit, cell, Change::Unit(block, unit, data)) {
            Err(Fault::PowerLoss) => return Err(Stop::PowerLoss),
            Err(Fault::Refused) => {
                // What verifies counts.
                let stored = open_unit(world, block, unit, epoch).is_some();
                if !stored {
                    world.spoil(block, unit);
                }
                return Err(self.put_back(world, block, unit + usize::from(stored), Stop::Medium));
            }
            Ok(()) if self.read_back && open_unit(world, block, unit, epoch).is_none() => {
                world.spoil(block, unit);
                return Err(self.put_back(world, block, unit, Stop::Bad));
            }
            Ok(()) => {}
        }
        if unit == 0 {
            if self.slots.len() == SLOTS {
                self.slots.remove(0);
            }
            self.slots.push(block);
        }
        Ok(())
    }

    pub(super) fn erase(&mut self, world: &mut World, block: usize) -> Result<(), Stop> {
        if self.tampered {
            return Err(Stop::Tampered);
        }
        if self.in_flight[block] && !self.has(Flaw::Destroy) {
            self.write_record(world, false, None)?;
        }
        self.slots.retain(|slot| *slot != block);
        if self.fill[block] == 0 {
            self.begin_change(world)?;
        } else {
            if !self.announce(world, block)? && !self.has(Flaw::NoIntent) {
                self.write_record(world, false, Some(block))?;
            }
            self.changed = true;
        }
        match world.erase(block, true) {
            Err(Fault::PowerLoss) => return Err(Stop::PowerLoss),
            Err(Fault::Refused) => {
                let epoch = self.epoch[block];
                let opens = |unit: &usize| open_unit(world, block, *unit, epoch).is_some();
                let held = (0..self.fill[block]).take_while(opens).count();
                world.spoil_from(block, held);
                return Err(self.put_back(world, block, held, Stop::Medium));
            }
            Ok(()) => {}
        }
        self.epoch[block] = Epoch::default();
        self.fill[block] = 0;
        self.contents[block].clear();
        self.erased[block] = true;
        self.closed[block] = false;
        Ok(())
    }

    /// After a program or erase that failed: the block holds so many units and takes no more, which is anchored at once if it can be.
    fn put_back(&mut self, world: &mut World, block: usize, fill: usize, why: Stop) -> Stop {
        self.fill[block] = fill;
        self.contents[block].truncate(fill);
        self.closed[block] = true;
        self.in_flight[block] = fill > 0;
        if fill == 0 {
            self.epoch[block] = Epoch::default();
            self.erased[block] = false;
        }
        self.slots.retain(|slot| *slot != block);
        (self.changed, self.gap) = (true, true);
        match self.write_record(world, false, None) {
            Err(Stop::PowerLoss) => Stop::PowerLoss,
            _ => why,
        }
    }

    fn announce(&mut self, world: &mut World, block: usize) -> Result<bool, Stop> {
        let room = self.tickets < MOST_TICKETS && self.next < self.limit;
        if self.policy == Policy::Store || self.clean || self.gap || !room {
            return Ok(false);
        }
        let Some(home) = self.slots.pop() else { return Ok(false) };
        let victim = (block, self.epoch[block], self.fill[block]);
        let serial = self.serial(world)?;
        self.tickets += 1;
        self.changed = true;
        self.in_flight[home] = true;
        let epoch = self.epoch[home];
        world.seal(serial, epoch.session);
        let cell = world.cell(Content::Ticket { block: home, epoch, serial, victim });
        let done = world.prog(home, UNITS, cell, Change::Doubtful(block));
        if matches!(done, Err(Fault::PowerLoss)) {
            return Err(Stop::PowerLoss);
        }
        if done.is_err() || self.read_back && open_ticket(world, home, epoch) != Some((serial, victim)) {
            self.gap = true;
            return Ok(false);
        }
        if !world.ordered
            && let Err(fault) = world.sync()
        {
            // The block is announced by this ticket or by the next record, never by two tickets.
            self.gap |= !self.has(Flaw::AnnounceTwice);
            return Err(fault.into());
        }
        Ok(true)
    }

    pub(super) fn read(&mut self, world: &mut World, block: usize, unit: usize) -> Answer {
        if unit >= self.fill[block] {
            return match self.is_open(block) {
                true => Answer::Open,
                false if self.fill[block] == 0 => Answer::Void,
                false => Answer::Closed,
            };
        }
        let mut epoch = self.epoch[block];
        if self.has(Flaw::SaltFromMedium) {
            epoch.session = salt_at(world, block).unwrap_or(epoch.session);
        }
        for _ in 0..READS {
            if let Some((_, data)) = open_unit(world, block, unit, epoch) {
                return Answer::Data(data);
            }
        }
        if self.unread && self.epoch[block] < self.start {
            // As if it had been known to fail when the volume was opened.
            (self.damaged, self.closed[block]) = (true, true);
        }
        self.tampered |= !self.is_hole(block);
        Answer::Tampered
    }
}
