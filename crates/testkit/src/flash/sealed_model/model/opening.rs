//! Opening: what is on the medium is held against the record, and accepted once.

use super::super::world::{BLOCKS, Trust, UNITS, World};
use super::damage::{Holes, corrected_ticket};
use super::fast::Reach;
use super::{
    Epoch, Flaw, MOST_TICKETS, Model, READS, RESERVE, Record, Refusal, Stamp, Stop, open_first, open_ticket,
    open_unit,
};

/// What the medium shows, if the record confirms it.
struct Found {
    torn: Option<usize>,
    top: u64,
    newest: Option<u64>,
}

/// What is found while the medium is read.
#[derive(Default)]
pub(super) struct Seen {
    /// Epoch and number of units of what is anchored.
    pub base: [Option<(Epoch, usize)>; BLOCKS],
    /// Serial, block and cell of what is newer than the record.
    pub newer: Vec<(u64, usize, usize)>,
    pub tickets: Vec<(u64, Stamp)>,
    /// More tickets than a window has, or two for one block.
    overfull: bool,
    pub holes: Holes,
    top: u64,
}

impl Model {
    pub(in crate::flash::sealed_model) fn mount(world: &mut World, flaw: Option<Flaw>) -> Result<Self, Stop> {
        let mut model = Self::unknown(world, flaw);
        let opened = match world.trust {
            Trust::Record => world.truth.clone(),
            Trust::Counter => {
                let held = model.store.load(world)?;
                world.anchored(held)
            }
        };
        let record = opened.record.expect("formatted");
        world.opened = opened;
        let found = model.confirm(world, &record)?;
        world.by_serials = model.unread;
        if world.trust == Trust::Counter {
            world.accept(world.opened.number);
        }
        if record.clean {
            if world.trust == Trust::Counter {
                model.store.claim(world)?;
            }
            model.resume(world, &record);
        } else {
            model.recover(world, &record, found.torn, found.top, found.newest)?;
        }
        Ok(model)
    }

    /// By serials, if that is asked for and enough; else by all units; at last past what fails.
    fn confirm(&mut self, world: &mut World, record: &Record) -> Result<Found, Stop> {
        if world.on_read {
            for reach in [Reach::Serials, Reach::Ends] {
                if let Ok(found) = self.compare(world, record, reach) {
                    self.unread = true;
                    return Ok(found);
                }
            }
            if self.has(Flaw::NoFullLook) {
                return Err(Stop::Refused(Refusal::NotAnchored));
            }
        }
        match self.compare(world, record, Reach::Units) {
            // What fails may be damage, and the record confirm the rest.
            Err(Stop::Refused(why @ (Refusal::Gap | Refusal::NotAnchored))) => {
                self.compare(world, record, Reach::PastDamage).map_err(|_| Stop::Refused(why))
            }
            found => found,
        }
    }

    /// The state of a block by its units, up to the first that does not verify.
    pub(super) fn read_block(
        &mut self,
        world: &mut World,
        record: &Record,
        block: usize,
        seen: &mut Seen,
    ) -> Result<(), Stop> {
        let Some(epoch) = open_first(world, block) else { return Ok(()) };
        self.epoch[block] = epoch;
        let (mut anchored, mut last) = (0, 0);
        for unit in 0..UNITS {
            let Some((serial, data)) = open_unit(world, block, unit, epoch) else { break };
            if serial <= last {
                return Err(Stop::Refused(Refusal::NotAnchored));
            }
            last = serial;
            seen.top = seen.top.max(serial);
            self.fill[block] += 1;
            self.contents[block].push(data);
            if serial >= record.anchor {
                seen.holes.foreign |= epoch.session != record.session;
                seen.newer.push((serial, block, unit));
            } else {
                anchored += 1;
            }
        }
        if self.fill[block] == 0 {
            self.epoch[block] = Epoch::default();
            return Ok(());
        }
        if epoch < record.anchor {
            seen.base[block] = Some((epoch, anchored));
        }
        if let Some(ticket) = open_ticket(world, block, epoch).filter(|(serial, _)| *serial >= record.anchor)
        {
            seen.holes.foreign |= epoch.session != record.session;
            seen.note_ticket(block, ticket);
        }
        Ok(())
    }

    /// Reads the medium and holds it against the record.
    fn compare(&mut self, world: &mut World, record: &Record, reach: Reach) -> Result<Found, Stop> {
        let refused = |why| Err(Stop::Refused(why));
        let limit = record.anchor + RESERVE;
        let past = reach == Reach::PastDamage;
        self.forget();
        self.damaged = past;
        let mut seen = Seen::default();
        seen.tickets.extend(record.victim.map(|victim| (0, victim)));
        for block in 0..BLOCKS {
            if past {
                let (anchored, ticket) =
                    self.look_past(world, record, block, &mut seen.newer, &mut seen.holes)?;
                seen.base[block] = anchored;
                ticket.into_iter().for_each(|ticket| seen.note_ticket(block, ticket));
            } else if reach.is_fast() {
                self.read_by_serials(world, record, block, reach, &mut seen)?;
            } else {
                self.read_block(world, record, block, &mut seen)?;
            }
        }
        if reach.is_fast() {
            self.read_announced(world, record, &mut seen)?;
        }
        let Seen { mut base, mut newer, mut tickets, mut overfull, holes, top } = seen;
        overfull |= tickets.iter().filter(|(serial, _)| *serial > 0).count() > MOST_TICKETS;
        let last = newer.iter().map(|(serial, ..)| *serial).max();
        let ticket = |world: &mut World, block, epoch| {
            let ticket = open_ticket(world, block, epoch);
            ticket.or_else(|| past.then(|| corrected_ticket(world, block, epoch, limit)).flatten())
        };
        self.take_back_marginal(world, &mut newer, &mut tickets, ticket);
        let mut newest = newer.iter().map(|(serial, ..)| *serial).max();
        if past && newest != last {
            // Serials have no gap, which is checked next: the one before it may be that of a unit that fails.
            newest = last.map(|last| last - 1).filter(|_| newer.len() + holes.in_flight > 0);
        }
        if newest.is_some_and(|newest| record.clean || newest >= limit) {
            return refused(Refusal::Future);
        }
        if overfull || holes.foreign && !self.has(Flaw::AnySession) {
            return refused(Refusal::NotAnchored);
        }
        let gapless =
            newest.is_none_or(|newest| newest + 1 - record.anchor == (newer.len() + holes.in_flight) as u64);
        if world.ordered && !gapless && !self.has(Flaw::Mix) {
            return refused(Refusal::Gap);
        }
        let mut torn = Vec::new();
        for &(_, (block, epoch, fill)) in &tickets {
            let is_old = self.fill[block] > 0 && self.epoch[block] < record.anchor;
            if is_old && self.fill[block] != base[block].map_or(0, |(_, anchored)| anchored) {
                return refused(Refusal::NotAnchored);
            }
            let differs = is_old && base[block] != Some((epoch, fill));
            if differs && !self.has(Flaw::Partial) {
                torn.push(block);
                self.make_void(block);
            }
            if !(self.has(Flaw::Partial) && is_old) {
                base[block] = Some((epoch, fill));
            }
        }
        if torn.len() > 1 {
            return refused(Refusal::NotAnchored);
        }
        if past && torn.is_empty() {
            // A cut erase may have left a block with units that fail, too; one at most.
            let damaged = tickets.iter().map(|(_, (block, ..))| *block).find(|block| {
                let (epoch, fill) = (self.epoch[*block], self.fill[*block]);
                fill > 0
                    && epoch < record.anchor
                    && (0..fill).any(|unit| open_unit(world, *block, unit, epoch).is_none())
            });
            damaged.into_iter().for_each(|block| self.make_void(block));
            torn.extend(damaged);
        }
        let sum: Vec<Stamp> = (0..BLOCKS)
            .filter_map(|block| base[block].map(|(epoch, fill)| (block, epoch, fill)))
            .filter(|(_, _, fill)| *fill > 0)
            .collect();
        if sum != world.opened.sum {
            let anchored = world.opened.sum.clone();
            let explained = match reach {
                Reach::Serials | Reach::Ends => self.has(Flaw::Unsummed),
                Reach::Units => self.without_one(&sum, &anchored, record.anchor),
                Reach::PastDamage => holes.lost == 0 && self.explain(world, &sum, record, &holes),
            };
            if !explained {
                return refused(Refusal::NotAnchored);
            }
        }
        Ok(Found { torn: torn.first().copied(), top, newest })
    }

    /// The newest cell is read again; if it does not open every time it is taken as not there.
    fn take_back_marginal(
        &mut self,
        world: &mut World,
        newer: &mut Vec<(u64, usize, usize)>,
        tickets: &mut Vec<(u64, Stamp)>,
        ticket: impl Fn(&mut World, usize, Epoch) -> Option<(u64, Stamp)>,
    ) {
        let Some(&(serial, block, cell)) = newer.iter().max() else { return };
        let epoch = self.epoch[block];
        for _ in 1..READS {
            let opens = match cell {
                UNITS => ticket(world, block, epoch).is_some(),
                unit => open_unit(world, block, unit, epoch).is_some(),
            };
            if opens {
                continue;
            }
            newer.retain(|(found, ..)| *found != serial);
            if cell == UNITS {
                tickets.retain(|(found, _)| *found != serial);
            } else if cell == 0 {
                self.make_void(block);
            } else {
                self.fill[block] = cell;
                self.contents[block].truncate(cell);
            }
            return;
        }
    }

    /// Looks for one block that shows more than is anchored: a unit more, or anything at all.
    fn without_one(&mut self, found: &[Stamp], anchored: &[Stamp], anchor: u64) -> bool {
        for (at, &(block, epoch, fill)) in found.iter().enumerate() {
            if self.epoch[block] != epoch || self.fill[block] != fill || epoch >= anchor {
                continue;
            }
            let mut candidate = found.to_vec();
            candidate[at].2 = fill - 1;
            if fill > 1 && candidate == anchored {
                self.fill[block] = fill - 1;
                self.contents[block].pop();
                self.closed[block] = true;
                return true;
            }
            candidate.remove(at);
            if candidate == anchored {
                self.make_void(block);
                return true;
            }
        }
        false
    }

    pub(super) fn make_void(&mut self, block: usize) {
        self.epoch[block] = Epoch::default();
        self.fill[block] = 0;
        self.contents[block].clear();
    }

    fn resume(&mut self, world: &World, record: &Record) {
        // Blocks begun before take no more units: whether one was closed by a failure is not known any more.
        (self.next, self.anchor, self.start) = (record.anchor, record.anchor, record.anchor);
        (self.limit, self.clean) = (record.anchor + RESERVE, true);
        if !self.has(Flaw::Reopen) && !self.has(Flaw::NoBlankCheck) {
            return;
        }
        self.start = record.start;
        for block in 0..BLOCKS {
            let junk = world.medium[block][self.fill[block]..UNITS].iter().any(|cell| *cell != 0);
            self.closed[block] |= junk && self.has(Flaw::Reopen);
        }
    }

    fn recover(
        &mut self,
        world: &mut World,
        record: &Record,
        torn: Option<usize>,
        top: u64,
        newest: Option<u64>,
    ) -> Result<(), Stop> {
        let limit = record.anchor + RESERVE;
        (self.next, self.start) = (limit, limit);
        if self.has(Flaw::MediumCounter) {
            self.next = record.anchor.max(top + 1);
            self.start = self.next;
        }
        if self.has(Flaw::Append) {
            self.start = record.start;
        }
        if self.has(Flaw::NoCloseWindow) {
            (self.anchor, self.limit) = (record.anchor, limit);
            self.next = newest.map_or(record.anchor, |newest| newest + 1);
            return Ok(());
        }
        if self.has(Flaw::ScrubFirst)
            && let Some(block) = torn
        {
            world.erase(block, false)?;
        }
        let scrub = torn.filter(|_| !self.has(Flaw::ScrubFirst) && !self.has(Flaw::NoScrub));
        self.write_record(world, false, scrub)?;
        if let Some(block) = scrub {
            self.changed = true;
            world.erase(block, false)?;
        }
        Ok(())
    }
}

impl Seen {
    /// What stands in the slot of a block, and is newer than the record.
    fn note_ticket(&mut self, block: usize, (serial, victim): (u64, Stamp)) {
        self.newer.push((serial, block, UNITS));
        self.overfull |= self.tickets.iter().any(|(_, known)| known.0 == victim.0);
        self.tickets.push((serial, victim));
    }
}
