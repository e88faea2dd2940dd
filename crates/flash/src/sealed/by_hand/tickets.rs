//! Erases that were announced: what a ticket makes of its block.

use super::std::vec::Vec;
use super::{ANCHOR, BLOCKS, ByHand, FOREIGN, epoch, foreign, stamp};

const MANY: u32 = 5;

/// A block begun since the record, with a ticket in its slot.
fn announce(hand: &mut ByHand, home: u32, serial: u64, victim: super::Stamp) {
    hand.block(home, &[serial]);
    hand.ticket(home, serial, serial + 1, victim);
}

/// Blocks 1 and 2 of so many units, all anchored, with a ticket each.
fn two_announced(damage: u32, units: u64) -> ByHand {
    let mut hand = ByHand::new();
    hand.damage(damage);
    for (block, home) in [(1, 3), (2, 4)] {
        let first = 10 * u64::from(block);
        let serials: Vec<u64> = (first..first + units).collect();
        hand.anchored(block, &serials, units as u32);
        announce(&mut hand, home, ANCHOR + 2 * u64::from(block - 1), stamp(block, first, units as u32));
    }
    hand
}

#[test]
fn announced_blocks_may_be_whole_or_gone_and_several_of_them() {
    for (damage, whole) in [(0, true), (0, false), (MANY, true), (MANY, false)] {
        let mut hand = two_announced(damage, 2);
        if !whole {
            for (block, unit) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
                hand.wipe(block, unit);
            }
        }
        let left = if whole { 2 } else { 0 };
        hand.opens(&[0, left, left, 1, 1]);
    }
}

#[test]
fn a_block_that_was_erased_and_begun_again_is_what_it_holds_now() {
    for damage in [0, MANY] {
        let mut hand = ByHand::new();
        hand.damage(damage);
        hand.confirm(stamp(1, 10, 2));
        announce(&mut hand, 3, ANCHOR, stamp(1, 10, 2));
        hand.block(1, &[ANCHOR + 2, ANCHOR + 3]);
        hand.opens(&[0, 2, 0, 1]);
        // Announced in the record, and begun with the first serial behind it.
        let mut hand = ByHand::new();
        hand.damage(damage);
        hand.confirm(stamp(1, 10, 2));
        hand.record.victim = Some(stamp(1, 10, 2));
        hand.block(1, &[ANCHOR]);
        hand.opens(&[0, 1]);
    }
}

#[test]
fn one_cut_erase_leaves_a_block_void_and_two_are_refused() {
    for (damage, torn) in [(0, 1), (0, 2), (MANY, 1), (MANY, 2)] {
        let mut hand = two_announced(damage, 2);
        (1..=torn).for_each(|block| hand.wipe(block, 1));
        if torn == 1 { drop(hand.opens(&[0, 0, 2, 1, 1])) } else { hand.is_refused() }
    }
}

/// It may be the one whose erase was cut. One erase at most was.
#[test]
fn of_announced_blocks_with_units_that_fail_one_is_void() {
    let two = |torn: bool| {
        let mut hand = two_announced(MANY, 3);
        if torn {
            hand.wipe(1, 2)
        } else {
            hand.spoil(1, 1)
        }
        hand.spoil(2, 1);
        hand
    };
    two(false).opens(&[0, 0, 3, 1, 1]);
    two(true).opens(&[0, 0, 3, 1, 1]);
    // The first one announced is gone altogether: the erase that was cut is the other's.
    let mut hand = two(false);
    (0..3).for_each(|unit| hand.wipe(1, unit));
    hand.opens(&[0, 0, 0, 1, 1]);
}

#[test]
fn a_ticket_is_of_this_window_and_this_session() {
    for damage in [0, MANY] {
        // Of an earlier window: its block holds something else since.
        let mut hand = ByHand::new();
        hand.damage(damage);
        hand.anchored(3, &[10], 1);
        hand.ticket(3, 10, ANCHOR - 1, stamp(1, 5, 1));
        hand.anchored(1, &[20, 21], 2);
        assert_eq!(hand.opens(&[0, 2, 0, 1]).is_damaged(), damage > 0);
        // With the first serial of this one.
        let mut hand = ByHand::new();
        hand.damage(damage);
        hand.anchored(3, &[10], 1);
        hand.ticket(3, 10, ANCHOR, stamp(1, 5, 1));
        hand.confirm(stamp(1, 5, 1));
        assert_eq!(hand.opens(&[0, 0, 0, 1]).is_damaged(), damage > 0);
        // In a block of another session, which takes none: planted from a copy of the volume, as damage.
        let mut hand = ByHand::new();
        hand.damage(damage);
        hand.unit(3, 0, foreign(10), 10);
        hand.confirm(super::Stamp { block: 3, epoch: foreign(10), fill: 1 });
        hand.ticket_of(3, foreign(10), ANCHOR, stamp(1, 20, 2));
        hand.anchored(1, &[20, 21], 2);
        assert_ne!(epoch(10).salt, FOREIGN);
        hand.opens(&[0, 2, 0, 1]);
    }
}

#[test]
fn a_ticket_with_one_wrong_bit_counts() {
    let mut hand = ByHand::new();
    hand.confirm(stamp(1, 10, 2));
    announce(&mut hand, 3, ANCHOR, stamp(1, 10, 2));
    hand.medium.lock().image_mut().flip(3, super::ERASE - super::SLOT + 4, 1);
    // The newest cell of all is read again, and no wrong bit makes it one that fades.
    hand.opens(&[0, 0, 0, 1]);
    hand.block(4, &[ANCHOR + 2]);
    hand.opens(&[0, 0, 0, 1, 1]);
}

/// Before a block with something newer in it is erased the record is written: a ticket names what is anchored.
#[test]
fn a_ticket_for_a_block_that_is_in_flight_is_refused() {
    for damage in [0, MANY] {
        let mut hand = ByHand::new();
        hand.damage(damage);
        hand.anchored(1, &[990, ANCHOR], 1);
        announce(&mut hand, 3, ANCHOR + 1, stamp(1, 990, 2));
        hand.is_refused();
    }
}

#[test]
fn more_tickets_than_a_window_has_and_two_for_one_block_are_refused() {
    for (tickets, opens) in [(6, true), (7, false)] {
        let mut hand = ByHand::new();
        for at in 0..tickets {
            hand.anchored(10 + at, &[10 + u64::from(at)], 1);
            let victim = stamp(10 + at, 10 + u64::from(at), 1);
            announce(&mut hand, at, ANCHOR + 2 * u64::from(at), victim);
        }
        assert_eq!(hand.mount().is_ok(), opens, "{tickets}");
    }
    for in_record in [true, false] {
        let mut hand = ByHand::new();
        hand.confirm(stamp(1, 10, 2));
        hand.confirm(stamp(1, 10, 2));
        if in_record {
            hand.record.victim = Some(stamp(1, 10, 2));
            announce(&mut hand, 3, ANCHOR, stamp(1, 10, 2));
        } else {
            announce(&mut hand, 3, ANCHOR, stamp(1, 10, 2));
            announce(&mut hand, 4, ANCHOR + 2, stamp(1, 10, 2));
        }
        hand.is_refused();
    }
}

#[test]
fn a_ticket_for_a_block_that_the_medium_does_not_have_is_refused() {
    let mut hand = ByHand::new();
    hand.confirm(stamp(BLOCKS as u32, 10, 2));
    announce(&mut hand, 3, ANCHOR, stamp(BLOCKS as u32, 10, 2));
    hand.is_refused();
}
