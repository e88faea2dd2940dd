//! Opening a medium of which something was damaged: units that fail are gone past, where it is proven that they were there.

use super::super::world::{BLOCKS, Content, UNITS, World};
use super::{
    Epoch, Flaw, Model, RESERVE, Record, Refusal, Stamp, Stop, open_first, open_ticket, open_unit, salt_at,
};

/// So many serials before that of a later unit the first unit of its block is looked for.
const SEARCH: u64 = 256;
/// Blocks that may be something else, at most.
const MOST_OTHERS: usize = 12;
/// Beside so many of them a single other one is looked for.
const MOST_BESIDE: usize = 4;

/// What is found on the way past units that fail, and without.
#[derive(Default)]
pub(super) struct Holes {
    /// Of those the ones that are newer than the record.
    pub in_flight: usize,
    /// Newer blocks whose first unit is lost altogether: from the next opening on the record alone proves them.
    pub lost: usize,
    /// What older blocks may be instead of what they are taken for.
    pub others: Vec<Stamp>,
    /// Something newer than the record was sealed in another session than that of the record.
    pub foreign: bool,
}

impl Holes {
    fn may_be(&mut self, other: Stamp) {
        if self.others.len() < MOST_OTHERS {
            self.others.push(other);
        }
    }
}

/// Epoch and number of anchored units.
type Base = Option<(Epoch, usize)>;

impl Model {
    /// Whether what fails in a block was known to do so when the volume was opened.
    pub fn is_hole(&self, block: usize) -> bool {
        self.damaged && self.fill[block] > 0 && self.closed[block]
    }

    /// Whether the volume was opened past something that fails.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// Nothing is known of any block.
    pub(super) fn forget(&mut self) {
        (0..BLOCKS).for_each(|block| self.make_void(block));
        self.closed = [false; BLOCKS];
    }

    /// The state of a block: what is anchored of it, and its ticket if that is newer than the record.
    pub(super) fn look_past(
        &mut self,
        world: &mut World,
        record: &Record,
        block: usize,
        newer: &mut Vec<(u64, usize, usize)>,
        holes: &mut Holes,
    ) -> Result<(Base, Option<(u64, Stamp)>), Stop> {
        let (anchor, limit) = (record.anchor, record.anchor + RESERVE);
        let whole = open_first(world, block);
        // Newer than the record, and of another session: what of that does not verify is nothing.
        let own = |epoch: &Epoch| *epoch < anchor || epoch.session == record.session;
        let put_right = || corrected_first(world, block, limit).filter(own);
        let epoch = match whole.or_else(put_right) {
            Some(epoch) => epoch,
            None => match lost_epoch(world, block, limit) {
                Some(epoch) if epoch >= anchor && own(&epoch) => {
                    holes.lost += 1;
                    if holes.lost > 1 {
                        return Err(Stop::Refused(Refusal::NotAnchored));
                    }
                    epoch
                }
                _ => return Ok((None, None)),
            },
        };
        let mut serials = vec![(0, epoch.serial)];
        let mut hole = whole.is_none().then_some(0);
        for unit in 1..UNITS {
            let Some((serial, _)) = open_unit(world, block, unit, epoch) else { continue };
            let (at, last) = serials[serials.len() - 1];
            if serial < last + (unit - at) as u64 {
                return Err(Stop::Refused(Refusal::NotAnchored));
            }
            if serial >= anchor {
                let known = |between: &usize| {
                    corrected(world, block, *between, epoch, limit).is_some_and(|serial| serial < anchor)
                };
                let border = (at + 1..unit).filter(|_| last < anchor).rev().find(known);
                if let Some(border) = border {
                    serials.push((border, anchor - 1));
                }
                holes.in_flight += unit - 1 - border.unwrap_or(at);
            }
            if unit - at > 1 {
                hole = hole.or(Some(at + 1));
            }
            serials.push((unit, serial));
        }
        // Units behind the last may be such with a wrong bit.
        let (at, mut last) = serials[serials.len() - 1];
        let (mut fill, mut longer, mut is_whole) = (at + 1, at + 1, hole.is_none());
        while longer < UNITS
            && let Some(serial) = corrected(world, block, longer, epoch, limit)
            && serial > last
        {
            (last, longer) = (serial, longer + 1);
            if serial >= anchor && fill + 1 == longer {
                serials.push((fill, serial));
                (fill, is_whole) = (longer, false);
            }
        }
        if self.has(Flaw::HoleAtEnd) && fill < UNITS && world.medium[block][fill] != 0 {
            (holes.in_flight, fill, longer) = (holes.in_flight + 1, fill + 1, longer + 1);
            is_whole = false;
        }
        let anchored = serials.iter().filter(|(_, serial)| *serial < anchor).map(|(unit, _)| unit + 1).max();
        let ticket =
            open_ticket(world, block, epoch).or_else(|| corrected_ticket(world, block, epoch, limit));
        // One of another session is of a copy, and announces nothing here.
        let ticket = ticket.filter(|(serial, _)| *serial >= anchor && epoch.session == record.session);
        holes.foreign |= (ticket.is_some() || serials.iter().any(|(_, serial)| *serial >= anchor))
            && epoch.session != record.session;
        let is_old = anchored == Some(fill);
        if is_old && whole.is_none() {
            (fill..=longer).for_each(|held| holes.may_be((block, epoch, held)));
            return Ok((None, ticket));
        }
        if is_old && longer > fill {
            holes.may_be((block, epoch, longer));
        }
        if let Some(hole) = hole.filter(|_| is_old) {
            holes.may_be((block, epoch, hole));
        }
        newer.extend(
            serials
                .iter()
                .filter(|(_, serial)| *serial >= anchor)
                .map(|(unit, serial)| (*serial, block, *unit)),
        );
        self.hold(world, block, epoch, fill);
        self.closed[block] = !is_whole;
        let base = anchored.filter(|_| epoch < anchor).map(|anchored| (epoch, anchored));
        Ok((base, ticket))
    }

    /// A block holds so many units; of those that fail nobody knows the contents but the world.
    pub(super) fn hold(&mut self, world: &World, block: usize, epoch: Epoch, fill: usize) {
        (self.epoch[block], self.fill[block]) = (epoch, fill);
        let sealed = |unit: usize| {
            world.cells.iter().rev().find_map(|cell| match *cell {
                Content::Unit { block: b, unit: u, epoch: e, data, .. } => {
                    ((b, u, e) == (block, unit, epoch)).then_some(data)
                }
                _ => None,
            })
        };
        self.contents[block] = (0..fill).map(|unit| sealed(unit).unwrap_or(u64::MAX)).collect();
    }

    /// Looks for the blocks that are not as they were taken: any of those that may be something else, or a single one of all.
    pub(super) fn explain(
        &mut self,
        world: &mut World,
        found: &[Stamp],
        record: &Record,
        holes: &Holes,
    ) -> bool {
        let anchored = world.opened.sum.clone();
        let of = |sum: &[Stamp], block| sum.iter().find(|stamp| stamp.0 == block).copied();
        let differing: Vec<usize> =
            (0..BLOCKS).filter(|block| of(found, *block) != of(&anchored, *block)).collect();
        let other = |block: &usize| of(&anchored, *block).filter(|stamp| holes.others.contains(stamp));
        let others: Vec<Stamp> = differing.iter().filter_map(other).collect();
        let rest: Vec<usize> = differing.into_iter().filter(|block| other(block).is_none()).collect();
        let explained = match rest.as_slice() {
            [] => true,
            [block] if others.is_empty() || holes.others.len() <= MOST_BESIDE => {
                self.explain_one(world, *block, found, record)
            }
            _ => false,
        };
        if explained {
            for (block, epoch, fill) in others {
                self.hold(world, block, epoch, fill);
                self.closed[block] = true;
            }
        }
        explained
    }

    /// Whether a block is shorter, longer or not void.
    fn explain_one(&mut self, world: &mut World, block: usize, found: &[Stamp], record: &Record) -> bool {
        let anchored = world.opened.sum.clone();
        let was = anchored.iter().find(|stamp| stamp.0 == block);
        let shown = found.iter().find(|stamp| stamp.0 == block);
        let wanted = was.map_or(0, |(_, _, fill)| *fill);
        if self.fill[block] > 0 {
            let (epoch, fill) = (self.epoch[block], self.fill[block]);
            if shown != Some(&(block, epoch, fill)) || epoch >= record.anchor {
                return false;
            }
            if was.is_some_and(|(_, anchored, _)| *anchored != epoch) {
                return false;
            }
        } else if shown.is_some()
            || lost_epoch(world, block, record.anchor + RESERVE) != was.map(|(_, epoch, _)| *epoch)
            || was.is_none_or(|(_, epoch, _)| *epoch >= record.anchor)
        {
            return false;
        }
        let proven = match (self.fill[block], was) {
            (0, Some(&(_, epoch, _))) => {
                let verifies = |unit: &usize| open_unit(world, block, *unit, epoch).is_some();
                (1..UNITS).rev().find(verifies).unwrap_or(0) + 1
            }
            (fill, _) => fill,
        };
        if self.fill[block] == 0 && wanted < proven {
            return false;
        }
        if (proven..wanted).any(|unit| world.medium[block][unit] == 0) {
            return false;
        }
        match was {
            Some(&(_, epoch, fill)) => self.hold(world, block, epoch, fill),
            None => self.make_void(block),
        }
        self.closed[block] = true;
        true
    }
}

/// The serial of a unit that opens once a bit of it is put right.
fn corrected(world: &World, block: usize, unit: usize, epoch: Epoch, limit: u64) -> Option<u64> {
    let Content::Forged(of, _) = world.cells[world.medium[block][unit]] else { return None };
    match world.cells[of] {
        Content::Unit { block: b, unit: u, epoch: e, serial, .. } => {
            ((b, u, e) == (block, unit, epoch) && serial < limit).then_some(serial)
        }
        _ => None,
    }
}

/// The epoch of a block whose first unit opens once a bit of it is put right.
fn corrected_first(world: &World, block: usize, limit: u64) -> Option<Epoch> {
    let Content::Forged(of, _) = world.cells[world.medium[block][0]] else { return None };
    match world.cells[of] {
        Content::Unit { block: b, unit: 0, epoch, .. } => (b == block && epoch < limit).then_some(epoch),
        _ => None,
    }
}

pub(super) fn corrected_ticket(
    world: &World,
    block: usize,
    epoch: Epoch,
    limit: u64,
) -> Option<(u64, Stamp)> {
    let Content::Forged(of, _) = world.cells[world.medium[block][UNITS]] else { return None };
    match world.cells[of] {
        Content::Ticket { block: b, epoch: e, serial, victim } => {
            ((b, e) == (block, epoch) && serial < limit).then_some((serial, victim))
        }
        _ => None,
    }
}

/// The epoch of a block whose first unit is lost, by a unit behind it, under the salt that stands behind the lost
/// one.
fn lost_epoch(world: &World, block: usize, limit: u64) -> Option<Epoch> {
    if world.medium[block][0] == 0 {
        return None;
    }
    let salt = salt_at(world, block)?;
    for unit in 1..UNITS {
        let cell = world.cells[world.medium[block][unit]];
        let (stands, opens) = match cell {
            Content::Unit { block: b, unit: u, epoch, serial, .. } => {
                (serial, (b, u, epoch.session) == (block, unit, salt) && epoch <= serial)
            }
            Content::Forged(of, part) => match world.cells[of] {
                Content::Unit { serial, .. } => (serial ^ u64::from(part == 0), false),
                _ => continue,
            },
            _ => continue,
        };
        if stands == 0 || stands >= limit {
            continue;
        }
        let Some(newest) = stands.checked_sub(unit as u64) else { continue };
        if let Content::Unit { epoch, .. } = cell
            && opens
            && (newest.saturating_sub(SEARCH)..=newest).contains(&epoch.serial)
        {
            return Some(epoch);
        }
    }
    None
}
