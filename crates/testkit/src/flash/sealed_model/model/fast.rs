//! The fast opening: what the medium holds by the serials that stand in its cells, if the record confirms it.

use super::super::world::{BLOCKS, Cell, Content, UNITS, World};
use super::opening::Seen;
use super::{Epoch, Flaw, Model, Policy, Record, Stop, open_unit};

/// How much of what is older than the record is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Serials and salts.
    Serials,
    /// The first unit and the last one, too.
    Ends,
    /// Every unit.
    Units,
    /// Every unit, past those that fail.
    PastDamage,
}

impl Reach {
    pub(super) fn is_fast(self) -> bool {
        matches!(self, Self::Serials | Self::Ends)
    }
}

/// What bytes that nobody has sealed show for a serial: no volume comes so far.
const FAR: u64 = (1 << 40) - 2;
/// Stands behind a first cell that is none.
const NO_SESSION: u64 = u64::MAX;

impl Model {
    /// Whether units older than the opening have not been verified.
    pub fn is_unread(&self) -> bool {
        self.unread
    }

    /// Units that are held, of which the medium has something else now.
    pub fn failing(&self, world: &mut World) -> Vec<(usize, usize)> {
        let held = (0..BLOCKS).flat_map(|block| (0..self.fill[block]).map(move |unit| (block, unit)));
        held.filter(|(block, unit)| open_unit(world, *block, *unit, self.epoch[*block]).is_none()).collect()
    }

    pub(super) fn read_by_serials(
        &mut self,
        world: &mut World,
        record: &Record,
        block: usize,
        reach: Reach,
        seen: &mut Seen,
    ) -> Result<(), Stop> {
        let Some(first) = standing(world, block, 0).filter(|serial| *serial > 0) else { return Ok(()) };
        let Some(session) = session_behind(world, block) else {
            return self.read_block(world, record, block, seen);
        };
        let epoch = Epoch { serial: first, session };
        let mut serials = vec![(0, first)];
        let (mut fill, mut end) = (1, UNITS);
        while fill < end {
            let unit = fill + (end - fill) / 2;
            let (_, last) = serials[serials.len() - 1];
            match standing(world, block, unit).filter(|serial| *serial > last) {
                Some(serial) => {
                    serials.push((unit, serial));
                    fill = unit + 1;
                }
                None => end = unit,
            }
        }
        let (_, last) = serials[serials.len() - 1];
        if last >= record.anchor && self.has(Flaw::NewerUnread) {
            let anchored = (0..fill).filter(|unit| standing(world, block, *unit) < Some(record.anchor));
            let anchored = anchored.count();
            seen.base[block] = (anchored > 0).then_some((epoch, anchored));
            for unit in anchored..fill {
                let serial = standing(world, block, unit).unwrap_or(FAR);
                seen.newer.push((serial.max(record.anchor), block, unit));
            }
            self.hold(world, block, epoch, fill);
            return Ok(());
        }
        // Where tickets are in the store, blocks have no slot.
        let has_ticket = !record.clean
            && world.policy == Policy::Slot
            && standing(world, block, UNITS).is_some_and(|serial| serial >= record.anchor);
        let fails = |world: &mut World| {
            [0, fill - 1].into_iter().any(|unit| open_unit(world, block, unit, epoch).is_none())
        };
        if last >= record.anchor || has_ticket || reach == Reach::Ends && fails(world) {
            return self.read_block(world, record, block, seen);
        }
        self.hold(world, block, epoch, fill);
        seen.base[block] = Some((epoch, fill));
        Ok(())
    }

    /// What was announced for an erase is read unit by unit: a cut one may have left serials alone.
    pub(super) fn read_announced(
        &mut self,
        world: &mut World,
        record: &Record,
        seen: &mut Seen,
    ) -> Result<(), Stop> {
        for (_, (block, ..)) in seen.tickets.clone() {
            let all = Some((self.epoch[block], self.fill[block]));
            if self.fill[block] > 0 && seen.base[block] == all && !self.has(Flaw::AnnouncedUnread) {
                self.make_void(block);
                seen.base[block] = None;
                self.read_block(world, record, block, seen)?;
            }
        }
        Ok(())
    }
}

/// The serial that stands in a cell, whoever has put it there.
fn standing(world: &World, block: usize, cell: usize) -> Option<u64> {
    shown(world, world.medium[block][cell], cell == UNITS)
}

fn shown(world: &World, cell: Cell, in_slot: bool) -> Option<u64> {
    match world.cells[cell] {
        Content::Blank | Content::Entry(_) => None,
        Content::Garbage => Some(FAR),
        Content::Marginal(of) => shown(world, of, in_slot),
        Content::Forged(of, part) => shown(world, of, in_slot).map(|serial| serial ^ u64::from(part == 0)),
        Content::Claim(of, claimed) => {
            let fits = in_slot == matches!(world.cells[of], Content::Ticket { .. });
            if fits { Some(claimed) } else { shown(world, of, in_slot) }
        }
        // In a place of another size something else stands where a serial is looked for.
        Content::Unit { serial, .. } => Some(if in_slot { FAR } else { serial }),
        Content::Ticket { serial, .. } => in_slot.then_some(serial),
    }
}

/// The session whose salt stands behind the first unit of a block, if it stands there twice.
fn session_behind(world: &World, block: usize) -> Option<u64> {
    let mut cell = world.medium[block][0];
    while let Content::Forged(of, _) | Content::Marginal(of) | Content::Claim(of, _) = world.cells[cell] {
        cell = of;
    }
    match world.cells[cell] {
        Content::Unit { unit: 0, epoch, .. } => Some(epoch.session),
        Content::Unit { .. } => Some(NO_SESSION),
        _ => None,
    }
}
