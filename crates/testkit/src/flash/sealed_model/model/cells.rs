//! What opens of the cells on the medium.

use super::super::world::{Cell, Content, UNITS, World};
use super::Stamp;

/// Serial and data of a unit that was sealed for this place and epoch. Without an epoch, of a first unit whichever it is.
pub(super) fn open_unit(
    world: &mut World,
    block: usize,
    unit: usize,
    epoch: Option<u64>,
) -> Option<(u64, u64)> {
    let cell = readable(world, block, unit)?;
    match world.cells[cell] {
        Content::Unit { block: b, unit: u, epoch: e, serial, data } => {
            let fits = (b, u, e) == (block, unit, epoch.unwrap_or(serial));
            (fits && (unit > 0 || serial == e)).then_some((serial, data))
        }
        _ => None,
    }
}

pub(super) fn open_ticket(world: &mut World, block: usize, epoch: u64) -> Option<(u64, Stamp)> {
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
