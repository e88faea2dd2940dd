//! An adversary who has seen everything that was ever sent to the medium, and does to it as he likes.

use super::world::{BLOCKS, Cell, Content, LOG_CELLS, LOG_PAGES, MARKED_CELLS, Trust, UNITS, World};

/// One to six changes.
pub(super) fn attack(world: &mut World) {
    let count = *world.random.pick(&[1, 1, 1, 2, 3, 6]);
    for _ in 0..count {
        change(world);
    }
}

fn change(world: &mut World) {
    if !world.withheld.is_empty() && world.random.below(4) == 0 {
        // What was refused comes now.
        let (block, cell, content) = *world.random.pick(&world.withheld.clone());
        world.medium[block][cell] = content;
        return;
    }
    if world.on_read && world.random.below(5) == 0 {
        claim(world);
        return;
    }
    let kinds = if world.trust == Trust::Counter { 22 } else { 11 };
    let (kind, block) = (world.random.below(kinds), below(world, BLOCKS));
    let cell = below(world, MARKED_CELLS);
    match kind {
        0 if !world.history[block][cell].is_empty() => {
            let seen = world.history[block][cell].clone();
            world.medium[block][cell] = *world.random.pick(&seen);
        }
        1 | 2 if !world.snapshots.is_empty() => {
            let from = world.snapshots.len().saturating_sub(12);
            let at = from + below(world, world.snapshots.len() - from);
            let (medium, log) = world.snapshots[at].clone();
            if kind == 1 {
                (world.medium, world.log.pages) = (medium, log);
            } else {
                world.medium[block] = medium[block];
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
        11.. => change_log(world, kind),
        _ => {}
    }
}

/// Makes a change to the log that a counter vouches for. Some kinds roll the medium back as well.
fn change_log(world: &mut World, kind: u64) {
    let (page, index) = (below(world, LOG_PAGES), below(world, LOG_CELLS));
    let counter = world.log.counter;
    match kind {
        // An entry that counts, or will when the counter is incremented; with the medium as it was then, or without.
        11..=17 => {
            let wanted = counter + world.random.below(2);
            let known = world.log.history.iter().map(|(cell, _)| *cell);
            let fitting: Vec<usize> = (0..)
                .zip(known)
                .filter(|(_, cell)| number_of(&world.cells, *cell) == Some(wanted))
                .map(|(at, _)| at)
                .collect();
            if !fitting.is_empty() {
                let (cell, medium) = world.log.history[*world.random.pick(&fitting)].clone();
                for entry in world.log.pages.as_flattened_mut() {
                    if number_of(&world.cells, *entry) == Some(wanted) {
                        *entry = 0;
                    }
                }
                world.log.pages[page][index] = cell;
                if kind <= 13 {
                    world.medium = medium;
                }
            }
        }
        18 if !world.log.history.is_empty() => {
            let at = below(world, world.log.history.len());
            world.log.pages[page][index] = world.log.history[at].0;
        }
        19 => world.log.pages[page][index] = world.cell(Content::Garbage),
        20 => {
            let of = world.log.pages[page][index];
            if matches!(world.cells[of], Content::Entry(_)) {
                let part = world.random.below(3) as u8;
                world.log.pages[page][index] = world.cell(Content::Forged(of, part));
            }
        }
        _ => match world.random.below(3) {
            0 => world.log.pages.swap(page, (page + 1) % LOG_PAGES),
            1 => world.log.pages[page] = [0; LOG_CELLS],
            _ => world.log.pages[page][index] = 0,
        },
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

/// Writes serials of its own choice into a block: near those that stand there, or near those that are used next.
fn claim(world: &mut World) {
    let block = below(world, BLOCKS);
    let near =
        if world.random.below(2) == 0 { newest(world) } else { serial_of(world, world.medium[block][0]) };
    let (first, count) = (below(world, MARKED_CELLS), 1 + below(world, 3));
    let mut serial = (near + world.random.below(8)).saturating_sub(world.random.below(8));
    for cell in first..MARKED_CELLS.min(first + count) {
        let seen = world.history[block][cell].clone();
        if seen.is_empty() {
            continue;
        }
        let of = *world.random.pick(&seen);
        world.medium[block][cell] = world.cell(Content::Claim(of, serial));
        serial += 1 + world.random.below(2);
    }
}

/// The newest serial on the medium.
fn newest(world: &World) -> u64 {
    world.medium.iter().flatten().map(|cell| serial_of(world, *cell)).max().unwrap_or(0)
}

/// That of a sealed cell.
fn serial_of(world: &World, cell: Cell) -> u64 {
    match world.cells[cell] {
        Content::Unit { serial, .. } | Content::Ticket { serial, .. } => serial,
        _ => 0,
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

/// The number of an entry of the log.
fn number_of(cells: &[Content], cell: Cell) -> Option<u64> {
    match cells[cell] {
        Content::Entry(entry) => Some(entry.number),
        _ => None,
    }
}

fn below(world: &mut World, bound: usize) -> usize {
    world.random.below(bound as u64) as usize
}
