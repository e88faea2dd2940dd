//! An adversary who has seen everything that was ever sent to the medium, and does to it as he likes.

use super::world::{BLOCKS, Content, MARKED_CELLS, UNITS, World};

/// One to six changes.
pub(super) fn attack(world: &mut World) {
    let count = *world.random.pick(&[1, 1, 1, 2, 3, 6]);
    for _ in 0..count {
        change(world);
    }
}

fn change(world: &mut World) {
    let (kind, block) = (world.random.below(11), below(world, BLOCKS));
    let cell = below(world, MARKED_CELLS);
    match kind {
        0 if !world.history[block][cell].is_empty() => {
            let seen = world.history[block][cell].clone();
            world.medium[block][cell] = *world.random.pick(&seen);
        }
        1 | 2 if !world.snapshots.is_empty() => {
            let from = world.snapshots.len().saturating_sub(12);
            let at = from + below(world, world.snapshots.len() - from);
            let snapshot = world.snapshots[at].clone();
            if kind == 1 {
                world.medium = snapshot;
            } else {
                world.medium[block] = snapshot[block];
            }
        }
        3 => world.medium[block][cell] = world.cell(Content::Garbage),
        4 => world.medium[block] = [0; MARKED_CELLS],
        5 => world.medium[block][cell.min(UNITS)..UNITS].fill(0),
        6 => {
            let other = below(world, BLOCKS);
            world.medium.swap(block, other);
        }
        7 => {
            let (other, from) = (below(world, BLOCKS), below(world, MARKED_CELLS));
            world.medium[block][cell] = world.medium[other][from];
        }
        8 => {
            let of = world.medium[block][cell];
            if matches!(world.cells[of], Content::Unit { .. } | Content::Ticket { .. }) {
                let part = world.random.below(3) as u8;
                world.medium[block][cell] = world.cell(Content::Forged(of, part));
            }
        }
        9 => rewind(world),
        10 if !world.history[block][0].is_empty() => rebuild(world, block),
        _ => {}
    }
}

/// Undoes the newest serials: an honest-looking beginning, or nearly.
fn rewind(world: &mut World) {
    let mut seen = Vec::new();
    for block in 0..BLOCKS {
        for cell in 0..MARKED_CELLS {
            match world.cells[world.medium[block][cell]] {
                Content::Unit { serial, .. } | Content::Ticket { serial, .. } => {
                    seen.push((serial, block, cell))
                }
                _ => {}
            }
        }
    }
    seen.sort_unstable();
    let count = 1 + below(world, 4);
    for (_, block, cell) in seen.into_iter().rev().take(count) {
        world.medium[block][cell] = 0;
    }
}

/// Makes a block of what its cells have held lately.
fn rebuild(world: &mut World, block: usize) {
    for cell in 0..MARKED_CELLS {
        let seen = world.history[block][cell].clone();
        let lately = &seen[seen.len().saturating_sub(3)..];
        let take = !lately.is_empty() && (cell == 0 || world.random.below(5) > 0);
        world.medium[block][cell] = if take { *world.random.pick(lately) } else { 0 };
    }
}

fn below(world: &mut World, bound: usize) -> usize {
    world.random.below(bound as u64) as usize
}
