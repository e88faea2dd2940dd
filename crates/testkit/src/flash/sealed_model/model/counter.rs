//! A store on the medium itself, for which only a counter vouches.
//!
//! Each entry of the log has a number, and counts while the counter shows that. Whoever finds one writes it again under the next number and
//! increments the counter: now nobody else can have written anything for the number after that. Once more, and
//! one entry alone counts. From there on each record takes one increment.

use super::super::world::{Content, Entry, LOG_CELLS, World};
use super::{Flaw, Refusal, Stop};

/// What is in memory of the log.
#[derive(Clone, Debug, Default)]
pub(super) struct CounterStore {
    flaw: Option<Flaw>,
    /// Where the next entry goes: page and index.
    next: (usize, usize),
    /// Whether this opening has incremented the counter to what it shows, so that nobody else writes for its next value.
    own: bool,
    /// What counts.
    held: Option<usize>,
    /// Whether anything has counted since the volume was opened.
    seen: bool,
}

impl CounterStore {
    pub(super) fn new(flaw: Option<Flaw>) -> Self {
        Self { flaw, ..Self::default() }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// What counts, and from now on alone does.
    pub(super) fn load(&mut self, world: &mut World) -> Result<usize, Stop> {
        self.look(world);
        if self.has(Flaw::TakeNext) && self.find(world, 1) {
            world.step()?;
        }
        let Some(held) = self.held else { return Err(Stop::Refused(Refusal::NoRecord)) };
        self.seen = true;
        world.log.choices += u64::from(held != world.truth.number);
        let claims = if self.has(Flaw::NoClaim) || self.has(Flaw::TakeNext) {
            self.own = true;
            0
        } else if self.has(Flaw::OneClaim) {
            1
        } else {
            2
        };
        for _ in 0..claims {
            self.put(world, held)?;
        }
        world.settle(held);
        Ok(held)
    }

    pub(super) fn store(&mut self, world: &mut World, attempt: usize) -> Result<(), Stop> {
        if !self.own {
            self.look(world);
            match self.held {
                Some(held) => self.put(world, held)?,
                // What there was is gone: incrementing would lose it for good.
                None if self.seen => return Err(Stop::Store),
                None => world.step()?,
            }
        }
        self.put(world, attempt)?;
        world.stored(attempt);
        Ok(())
    }

    /// Looks for what counts, and for the place behind everything in its page.
    fn look(&mut self, world: &mut World) {
        self.find(world, 0);
    }

    fn find(&mut self, world: &mut World, ahead: u64) -> bool {
        let number = world.log.counter + ahead;
        let mut found = None;
        let mut free = [0; 2];
        for (page, index) in (0..2).flat_map(|page| (0..LOG_CELLS).map(move |index| (page, index))) {
            if world.log.pages[page][index] == 0 {
                continue;
            }
            free[page] = index + 1;
            if let Some(entry) = entry(world, page, index).filter(|entry| entry.number == number) {
                found = Some((page, entry.attempt));
            }
        }
        if ahead > 0 && found.is_none() {
            return false;
        }
        self.held = found.map(|(_, attempt)| attempt);
        self.next = match found {
            Some((page, _)) => (page, free[page]),
            None if free == [0; 2] => (0, 0),
            None => (1, LOG_CELLS),
        };
        found.is_some()
    }

    /// Writes an entry for the next number and increments the counter to that.
    fn put(&mut self, world: &mut World, attempt: usize) -> Result<(), Stop> {
        self.own &= self.has(Flaw::KeepClaim);
        if self.has(Flaw::StepFirst) {
            world.step()?;
        }
        let ahead = u64::from(!self.has(Flaw::StepFirst));
        let entry_for = Entry { number: world.log.counter + ahead, attempt };
        if self.next.1 >= LOG_CELLS {
            let page = if self.has(Flaw::OnePage) { self.next.0 } else { 1 - self.next.0 };
            world.log_erase(page)?;
            self.next = (page, 0);
        }
        let (page, index) = self.next;
        self.next.1 += 1;
        world.log_prog(page, index, entry_for)?;
        if !self.has(Flaw::NoSync) {
            world.sync()?;
        }
        if entry(world, page, index) != Some(entry_for) {
            return Err(Stop::Store);
        }
        if ahead > 0 {
            world.step()?;
        }
        (self.own, self.seen) = (true, true);
        Ok(())
    }
}

/// What an entry of the log reads as this time.
fn entry(world: &mut World, page: usize, index: usize) -> Option<Entry> {
    let cell = super::steady(world, world.log.pages[page][index])?;
    match world.cells[cell] {
        Content::Entry(entry) => Some(entry),
        _ => None,
    }
}
