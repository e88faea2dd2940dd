//! What opens of the cells on the medium.

use super::super::world::{Cell, Content, UNITS, World};
use super::{Epoch, Stamp};

/// The epoch of a block by its first unit, whichever was sealed for that place.
pub(super) fn open_first(world: &mut World, block: usize) -> Option<Epoch> {
    let cell = readable(world, block, 0)?;
    match world.cells[cell] {
        Content::Unit { block: b, unit: 0, epoch, .. } => (b == block).then_some(epoch),
        _ => None,
    }
}

/// The session whose salt stands behind the first unit of a block.
pub(super) fn salt_at(world: &World, block: usize) -> Option<u64> {
    let mut cell = world.medium[block][0];
    while let Content::Forged(of, _) | Content::Marginal(of) | Content::Claim(of, _) = world.cells[cell] {
        cell = of;
    }
    match world.cells[cell] {
        Content::Unit { unit: 0, epoch, .. } => Some(epoch.session),
        _ => None,
    }
}

/// Serial and data of a unit that was sealed for this place and epoch.
pub(super) fn open_unit(world: &mut World, block: usize, unit: usize, epoch: Epoch) -> Option<(u64, u64)> {
    let cell = readable(world, block, unit)?;
    match world.cells[cell] {
        Content::Unit { block: b, unit: u, epoch: e, serial, data } => {
            ((b, u, e) == (block, unit, epoch)).then_some((serial, data))
        }
        _ => None,
    }
}

pub(super) fn open_ticket(world: &mut World, block: usize, epoch: Epoch) -> Option<(u64, Stamp)> {
    let cell = readable(world, block, UNITS)?;
    match world.cells[cell] {
        Content::Ticket { block: b, epoch: e, serial, victim } => {
            ((b, e) == (block, epoch)).then_some((serial, victim))
        }
        _ => None,
    }
}

/// What a cell reads as this time.
fn readable(world: &mut World, block: usize, cell: usize) -> Option<Cell> {
    steady(world, world.medium[block][cell])
}

/// What stands behind a cell that may read right every other time.
pub(super) fn steady(world: &mut World, mut cell: Cell) -> Option<Cell> {
    while let Content::Marginal(of) = world.cells[cell] {
        if world.random.below(2) == 0 {
            return None;
        }
        cell = of;
    }
    Some(cell)
}
