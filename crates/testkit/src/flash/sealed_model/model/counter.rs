//! A store on the medium itself, for which only a counter vouches.
//!
//! Each entry of the log has a number, and counts while the counter shows that. Whoever finds one writes it again under the next number and
//! increments the counter: now nobody else can have written anything for the number after that. Whatever is written for that one alone
//! counts, as soon as the counter shows it: the next record, or what was found once more. From there on each record takes one increment.

use super::super::world::{Content, Entry, Fault, LOG_CELLS, LOG_PAGES, World};
use super::{Flaw, READS, Refusal, Stop};

/// What is in memory of the log.
#[derive(Clone, Debug, Default)]
pub(super) struct CounterStore {
    flaw: Option<Flaw>,
    /// Where the next entry goes: page and index.
    next: (usize, usize),
    /// Whether this opening has incremented the counter to what it shows, so that nobody else writes for its next value.
    own: bool,
    /// What counts, and the page that it is in.
    held: Option<(Entry, usize)>,
    /// What was written last, and may count.
    written: Option<(Entry, usize)>,
}

impl CounterStore {
    pub(super) fn new(flaw: Option<Flaw>) -> Self {
        Self { flaw, ..Self::default() }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// What counts. Nothing is changed.
    pub(super) fn load(&mut self, world: &mut World) -> Result<usize, Stop> {
        self.look(world, 0);
        if self.has(Flaw::TakeNext) && self.look(world, 1) {
            world.step()?;
        }
        let Some((held, _)) = self.held else { return Err(Stop::Refused(Refusal::NoRecord)) };
        world.log.choices += u64::from(held.attempt != world.truth.number);
        self.own = self.has(Flaw::NoClaim) || self.has(Flaw::TakeNext);
        Ok(held.attempt)
    }

    /// What was loaded, and from now on alone counts.
    pub(super) fn claim(&mut self, world: &mut World) -> Result<(), Stop> {
        let Some((held, _)) = self.held else { return Err(Stop::Store) };
        let claims = match self.flaw {
            Some(Flaw::NoClaim | Flaw::TakeNext | Flaw::LazyClaim) => 0,
            Some(Flaw::OneClaim) => 1,
            _ => 2,
        };
        for _ in 0..claims {
            self.put(world, held.attempt)?;
        }
        world.settle(held.attempt);
        Ok(())
    }

    pub(super) fn store(&mut self, world: &mut World, attempt: usize) -> Result<(), Stop> {
        if !self.own {
            self.claim_once(world)?;
        }
        self.put(world, attempt)?;
        world.stored(attempt);
        Ok(())
    }

    /// Makes the next number ours: what counts now goes on to do so under it.
    fn claim_once(&mut self, world: &mut World) -> Result<(), Stop> {
        let counts =
            |entry: &Option<(Entry, usize)>| entry.filter(|(entry, _)| entry.number == world.log.counter);
        let known = counts(&self.held).or(counts(&self.written));
        match known {
            Some((entry, _)) => {
                self.held = known;
                self.put(world, entry.attempt)
            }
            None if self.held.is_some() => Err(Stop::Store),
            None => {
                if self.look(world, 0) {
                    return self.claim_once(world);
                }
                Ok(world.step()?)
            }
        }
    }

    /// Looks for what counts when the counter shows so much more, and for the place behind everything in its page.
    fn look(&mut self, world: &mut World, ahead: u64) -> bool {
        let number = world.log.counter + ahead;
        let mut found = None;
        let mut free = [0; LOG_PAGES];
        for (page, index) in (0..LOG_PAGES).flat_map(|page| (0..LOG_CELLS).map(move |index| (page, index))) {
            if world.log.pages[page][index] == 0 {
                continue;
            }
            free[page] = index + 1;
            let mut reads = (0..READS).map(|_| entry(world, page, index));
            if let Some(entry) = reads.find_map(|read| read.filter(|entry| entry.number == number)) {
                found = Some((entry, page));
            }
        }
        if ahead > 0 && found.is_none() {
            return false;
        }
        self.held = found;
        self.next = match found {
            Some((_, page)) => (page, free[page]),
            None if free == [0; LOG_PAGES] => (0, 0),
            None => (LOG_PAGES - 1, LOG_CELLS),
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
        let entry = Entry { number: world.log.counter + ahead, attempt };
        let page = self.append(world, entry)?;
        self.written = Some((entry, page));
        if ahead > 0 {
            world.step()?;
        }
        (self.own, self.held) = (true, self.written);
        Ok(())
    }

    /// Writes an entry where it then reads right: in the next place, or at the beginning of another page, but not of the one that
    /// holds what counts.
    fn append(&mut self, world: &mut World, wanted: Entry) -> Result<usize, Stop> {
        let (first, index) = self.next;
        if index < LOG_CELLS && self.place(world, first, index, wanted)? {
            return Ok(first);
        }
        if index < LOG_CELLS && self.has(Flaw::StayPut) {
            return Err(Stop::Store);
        }
        let home = self.held.map(|(_, page)| page).filter(|_| !self.has(Flaw::EraseHome));
        for at in 1..=LOG_PAGES {
            let page = match self.flaw {
                Some(Flaw::OnePage) => first,
                Some(Flaw::EraseHome) if at > 1 => first,
                _ => (first + at) % LOG_PAGES,
            };
            if home == Some(page) && !self.has(Flaw::OnePage) {
                continue;
            }
            match world.log_erase(page) {
                Err(Fault::PowerLoss) => return Err(Stop::PowerLoss),
                Err(Fault::Refused) => {}
                Ok(()) if self.place(world, page, 0, wanted)? => return Ok(page),
                Ok(()) => {}
            }
            if self.has(Flaw::StayPut) {
                break;
            }
        }
        Err(Stop::Store)
    }

    /// Writes an entry there; whether it reads right.
    fn place(&mut self, world: &mut World, page: usize, index: usize, wanted: Entry) -> Result<bool, Stop> {
        self.next = (page, index + 1);
        match world.log_prog(page, index, wanted) {
            Err(Fault::PowerLoss) => return Err(Stop::PowerLoss),
            Err(Fault::Refused) => return Ok(false),
            Ok(()) => {}
        }
        if !self.has(Flaw::NoSync) {
            world.sync().map_err(|fault| match fault {
                Fault::PowerLoss => Stop::PowerLoss,
                Fault::Refused => Stop::Store,
            })?;
        }
        Ok((0..READS).all(|_| entry(world, page, index) == Some(wanted)))
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
