//! The second look: what units that fail prove, and what may stand behind them.

use atrest_device::FlashCause;

use super::super::damage::MOST_OTHERS;
use super::{ANCHOR, ByHand, LIMIT, Volume, epoch, foreign, stamp};

/// So many that no single block of all may be something else.
const MANY: u32 = 5;

fn damaged(blocks: u32) -> ByHand {
    let mut hand = ByHand::new();
    hand.damage(blocks);
    hand
}

fn tampered(volume: &mut Volume, block: u32, unit: u32) {
    let found = volume.cells.open_unit(block, unit, volume.state(block).epoch());
    assert_eq!(found, Ok(None));
    assert!(volume.state(block).is_closed(), "a block with a unit that fails takes no more");
}

#[test]
fn each_unit_that_fails_between_others_has_taken_a_serial() {
    for (behind, opens) in [(13, true), (40, true), (12, false), (11, false), (10, false), (9, false)] {
        let mut hand = damaged(MANY);
        hand.anchored(1, &[10, 11, 12, behind], 4);
        hand.spoil(1, 1);
        hand.spoil(1, 2);
        if opens { tampered(&mut hand.opens(&[0, 4]), 1, 1) } else { hand.is_refused() }
    }
}

#[test]
fn two_units_of_a_block_never_have_one_serial_nor_fall() {
    for (second, damage) in [(10, 0), (9, 0), (10, MANY), (9, MANY)] {
        let mut hand = damaged(damage);
        hand.anchored(1, &[10, second], 2);
        hand.is_refused();
    }
}

#[test]
fn a_unit_that_fails_between_newer_ones_counts_as_one_serial() {
    // Serials of the third unit of block 1, and of block 2.
    let look = |third: u64, next: u64| {
        let mut hand = ByHand::new();
        hand.block(1, &[ANCHOR, ANCHOR + 1, third]);
        hand.spoil(1, 1);
        hand.block(2, &[next]);
        hand
    };
    tampered(&mut look(ANCHOR + 2, ANCHOR + 3).opens(&[0, 3, 1]), 1, 1);
    look(ANCHOR + 3, ANCHOR + 4).has_a_gap();
    look(ANCHOR + 2, ANCHOR + 4).has_a_gap();
    // Four are counted, and the newest is the fourth: a unit that has its serial from nowhere would hide that one was cut off.
    look(ANCHOR + 1, ANCHOR + 3).has_a_gap();
}

/// What stands there, with one wrong bit, is old: it can't have been there.
#[test]
fn what_fails_between_newer_units_is_newer_whatever_it_says() {
    let mut hand = ByHand::new();
    hand.block(1, &[ANCHOR, 5, ANCHOR + 2]);
    hand.flip(1, 1, 20);
    hand.block(2, &[ANCHOR + 3]);
    hand.opens(&[0, 3, 1]);
}

/// An erase that failed has left the first units, and some behind a unit that is gone.
#[test]
fn a_block_may_end_at_the_first_unit_that_fails() {
    for serials in [&[10, 11, 12][..], &[10, 11, 12, 13, 14]] {
        let mut hand = damaged(MANY);
        hand.anchored(1, serials, 1);
        (1..serials.len() as u32).step_by(2).for_each(|unit| hand.spoil(1, unit));
        hand.opens(&[0, 1]);
        let mut hand = damaged(MANY);
        hand.anchored(1, serials, 2);
        (1..serials.len() as u32).step_by(2).for_each(|unit| hand.spoil(1, unit));
        hand.is_refused();
    }
}

/// Reading on past damage is for what was damaged when the volume was opened.
#[test]
fn a_block_without_damage_is_not_taken_for_damaged() {
    let mut hand = damaged(1);
    hand.anchored(1, &[10, 11, 12], 3);
    hand.block(2, &[ANCHOR, ANCHOR + 1]);
    let volume = hand.opens(&[0, 3, 2]);
    assert!(volume.is_damaged());
    assert!(!volume.state(1).is_closed() && !volume.state(2).is_closed());
}

#[test]
fn what_fails_between_an_old_unit_and_a_newer_one_is_old_if_its_bits_say_so() {
    for (serial, anchored) in [(991, 2), (ANCHOR - 1, 2), (ANCHOR, 1)] {
        let mut hand = damaged(MANY);
        let newest = if serial == ANCHOR { ANCHOR + 1 } else { ANCHOR };
        hand.anchored(1, &[990, serial, newest], anchored);
        hand.flip(1, 1, 20);
        tampered(&mut hand.opens(&[0, 3]), 1, 1);
    }
    // One that says nothing is newer: two serials are missing otherwise.
    let mut hand = damaged(MANY);
    hand.anchored(1, &[990, ANCHOR, ANCHOR + 1, ANCHOR + 2], 1);
    hand.spoil(1, 1);
    hand.opens(&[0, 4]);
}

#[test]
fn a_last_unit_with_one_wrong_bit_was_there_if_its_serial_rises() {
    for (serial, opens) in [(11, true), (10, false), (9, false)] {
        let mut hand = damaged(MANY);
        hand.anchored(1, &[10, serial], 2);
        hand.flip(1, 1, 20);
        if opens { tampered(&mut hand.opens(&[0, 2]), 1, 1) } else { hand.is_refused() }
    }
    for (third, opens) in [(13, true), (12, false), (11, false)] {
        let mut hand = damaged(MANY);
        hand.anchored(1, &[10, 12, third], 3);
        hand.flip(1, 1, 20);
        hand.flip(1, 2, 20);
        if opens { drop(hand.opens(&[0, 3])) } else { hand.is_refused() }
    }
}

#[test]
fn a_newer_last_unit_with_one_wrong_bit_counts_from_the_first_new_serial_on() {
    for first in [990, ANCHOR] {
        let mut hand = ByHand::new();
        let second = if first == ANCHOR { ANCHOR + 1 } else { ANCHOR };
        if first == 990 {
            hand.anchored(1, &[990, second], 1)
        } else {
            hand.block(1, &[first, second])
        }
        hand.flip(1, 1, 20);
        hand.block(2, &[second + 1]);
        tampered(&mut hand.opens(&[0, 2, 1]), 1, 1);
    }
}

/// Behind an old unit that fails nothing new counts: it is as if power had been lost before it.
#[test]
fn a_newer_unit_with_a_wrong_bit_behind_an_old_one_is_left_out() {
    let mut hand = damaged(1);
    hand.anchored(1, &[10, 11, ANCHOR], 2);
    hand.flip(1, 1, 20);
    hand.flip(1, 2, 20);
    hand.opens(&[0, 2]);
}

#[test]
fn a_block_whose_first_unit_has_a_wrong_bit_holds_what_the_record_says() {
    for fill in [0, 2, 3, 4] {
        let mut hand = damaged(MANY);
        hand.block(1, &[10, 11, 12, 13]);
        hand.flip(1, 0, 20);
        hand.flip(1, 2, 20);
        hand.flip(1, 3, 20);
        hand.confirm(stamp(1, 10, fill));
        hand.opens(&[0, fill]);
    }
    let mut hand = damaged(MANY);
    hand.anchored(1, &[10, 11, 12], 1);
    hand.flip(1, 0, 20);
    hand.is_refused();
}

/// Of two blocks that may both be void one is.
#[test]
fn the_record_chooses_between_blocks_that_look_alike() {
    for (one, other) in [(1, 0), (0, 1), (1, 1), (0, 0)] {
        let mut hand = damaged(MANY);
        for (block, fill) in [(1, one), (2, other)] {
            hand.anchored(block, &[10 * u64::from(block)], fill);
            hand.flip(block, 0, 20);
        }
        hand.opens(&[0, one, other]);
    }
}

#[test]
fn twelve_blocks_may_be_one_thing_or_another_and_no_more() {
    let most = MOST_OTHERS as u32;
    // What can be one thing only takes no room among them.
    let mut hand = damaged(most);
    hand.block(1, &[ANCHOR, ANCHOR + 1, ANCHOR + 2]);
    hand.spoil(1, 1);
    hand.anchored(2, &[10, 11], 2);
    hand.opens(&[0, 3, 2]);
    damaged(most + 1).is_refused();
}

#[test]
fn beside_four_blocks_one_more_may_be_anything_and_beside_five_none() {
    for beside in [0, 4, MANY] {
        let mut hand = damaged(beside);
        hand.anchored(1, &[10, 11, 12], 3);
        hand.spoil(1, 2);
        if beside <= 4 { tampered(&mut hand.opens(&[0, 3]), 1, 2) } else { hand.is_refused() }
    }
}

#[test]
fn a_full_block_may_have_lost_its_last_unit() {
    let mut hand = ByHand::new();
    hand.anchored(1, &[10, 11, 12, 13, 14, 15, 16, 17, 18, 19], 10);
    hand.spoil(1, 9);
    tampered(&mut hand.opens(&[0, 10]), 1, 9);
}

/// Behind its last unit nothing is asked for, nor behind the end of the medium.
#[test]
fn a_full_block_at_the_end_of_the_medium_is_read_past_damage() {
    let last = super::BLOCKS as u32 - 1;
    for spoilt in [0, 3, 8, 9] {
        let mut hand = ByHand::new();
        hand.anchored(last, &[10, 11, 12, 13, 14, 15, 16, 17, 18, 19], 10);
        if spoilt == 0 {
            hand.flip(last, 0, 20)
        } else {
            hand.spoil(last, spoilt)
        }
        let mut volume = hand.mount().expect("it is confirmed");
        assert_eq!(volume.state(last).fill(), 10, "unit {spoilt}");
        tampered(&mut volume, last, spoilt);
    }
}

#[test]
fn a_unit_that_is_gone_without_a_trace_was_cut_off() {
    let mut hand = ByHand::new();
    hand.anchored(1, &[10, 11], 2);
    hand.wipe(1, 1);
    hand.is_refused();
    // Behind it something stands: it does not prove the one before.
    let mut hand = ByHand::new();
    hand.anchored(1, &[10, 11, 12, 13], 4);
    hand.wipe(1, 2);
    hand.spoil(1, 3);
    hand.is_refused();
    // Before one that verifies it is proven.
    let mut hand = ByHand::new();
    hand.anchored(1, &[10, 11, 12, 13], 4);
    hand.wipe(1, 1);
    hand.spoil(1, 3);
    hand.opens(&[0, 4]);
}

#[test]
fn without_its_first_unit_a_block_holds_all_that_verifies_or_more() {
    for (fill, opens) in [(1, false), (2, false), (3, true), (4, true), (5, false)] {
        let mut hand = ByHand::new();
        hand.anchored(1, &[10, 11, 12, 13], fill);
        hand.spoil(1, 0);
        hand.spoil(1, 3);
        if opens { tampered(&mut hand.opens(&[0, fill]), 1, 0) } else { hand.is_refused() }
    }
    let mut hand = ByHand::new();
    hand.anchored(1, &[10, 11], 1);
    hand.spoil(1, 0);
    hand.is_refused();
}

#[test]
fn a_lost_first_unit_is_found_within_256_serials_of_a_later_one() {
    for (serial, opens) in [(956, true), (957, true), (958, false)] {
        let mut hand = ByHand::new();
        hand.anchored(1, &[700, serial], 2);
        hand.spoil(1, 0);
        if opens { drop(hand.opens(&[0, 2])) } else { hand.is_refused() }
    }
    // The first of all serials is one.
    let mut hand = ByHand::new();
    hand.anchored(1, &[1, 2], 2);
    hand.spoil(1, 0);
    hand.opens(&[0, 2]);
}

#[test]
fn a_lost_first_unit_is_found_under_either_salt() {
    for copy in [0, 1] {
        let mut hand = ByHand::new();
        hand.anchored(1, &[10, 11], 2);
        hand.spoil(1, 0);
        hand.medium.lock().image_mut().flip(1, super::FIRST - 14 + 7 * copy, 2);
        hand.opens(&[0, 2]);
    }
}

#[test]
fn a_first_unit_with_a_wrong_bit_is_found_under_either_salt() {
    for copy in [0, 1] {
        let mut hand = damaged(MANY);
        hand.anchored(1, &[10, 11], 2);
        hand.flip(1, 0, 20);
        hand.medium.lock().image_mut().flip(1, super::FIRST - 14 + 7 * copy, 2);
        hand.opens(&[0, 2]);
        // And one without.
        let mut hand = ByHand::new();
        hand.anchored(1, &[10, 11], 2);
        hand.medium.lock().image_mut().flip(1, super::FIRST - 14 + 7 * copy, 2);
        assert!(!hand.opens(&[0, 2]).is_damaged());
    }
}

#[test]
fn one_newer_block_may_have_lost_its_first_unit_and_nothing_else_is_damaged_then() {
    let lost = |hand: &mut ByHand, block: u32, serial: u64| {
        hand.block(block, &[serial, serial + 1]);
        hand.spoil(block, 0);
    };
    let mut hand = ByHand::new();
    lost(&mut hand, 1, ANCHOR);
    hand.block(2, &[ANCHOR + 2]);
    let mut volume = hand.opens(&[0, 2, 1]);
    tampered(&mut volume, 1, 0);
    // The next opening finds both, and would be the last if the record did not prove them.
    let mut hand = ByHand::new();
    lost(&mut hand, 1, ANCHOR);
    lost(&mut hand, 2, ANCHOR + 2);
    hand.block(3, &[ANCHOR + 4]);
    hand.has_a_gap();
    let mut hand = damaged(1);
    lost(&mut hand, 1, ANCHOR);
    hand.block(2, &[ANCHOR + 2]);
    hand.has_a_gap();
}

/// Damage planted from a copy of the volume, which has used the same serials: it is nothing.
#[test]
fn what_is_newer_and_of_another_session_is_nothing_if_its_first_unit_fails() {
    for spoilt in [false, true] {
        let mut hand = damaged(MANY);
        hand.unit(1, 0, foreign(ANCHOR), ANCHOR);
        hand.unit(1, 1, foreign(ANCHOR), ANCHOR + 1);
        if spoilt {
            hand.spoil(1, 0)
        } else {
            hand.flip(1, 0, 20)
        }
        hand.opens(&[]);
    }
    // If it does not fail it was sealed, and not here.
    let mut hand = ByHand::new();
    hand.unit(1, 0, foreign(ANCHOR), ANCHOR);
    hand.is_refused();
}

#[test]
fn an_old_block_of_another_session_counts_with_damage_as_without() {
    let mut hand = damaged(MANY);
    hand.unit(1, 0, foreign(10), 10);
    hand.unit(1, 1, foreign(10), 11);
    hand.flip(1, 0, 20);
    hand.confirm(super::Stamp { block: 1, epoch: foreign(10), fill: 2 });
    hand.opens(&[0, 2]);
}

#[test]
fn what_the_owner_takes_over_is_what_verifies_or_lacks_one_bit() {
    let mut hand = ByHand::new();
    hand.block(1, &[10, 11]);
    hand.flip(1, 0, 20);
    hand.block(2, &[20, 21, 22, 23]);
    hand.spoil(2, 1);
    hand.spoil(2, 3);
    // Lost first units: nothing tells how old they are.
    hand.block(3, &[ANCHOR, ANCHOR + 1]);
    hand.spoil(3, 0);
    hand.block(4, &[ANCHOR + 2, ANCHOR + 3]);
    hand.spoil(4, 0);
    hand.confirm(stamp(9, 900, 1));
    let mut volume = hand.adopt().expect("adopted");
    let fills = [0, 1, 2, 3, 4].map(|block| volume.state(block).fill());
    assert_eq!(fills, [0, 2, 3, 0, 0]);
    assert!(volume.is_damaged());
    tampered(&mut volume, 1, 0);
    tampered(&mut volume, 2, 1);
    assert_eq!((volume.next, volume.start), (LIMIT, LIMIT), "no serial comes again");
}

#[test]
fn the_owner_takes_over_nothing_that_is_newer_than_the_store() {
    for (serial, taken) in [(LIMIT - 1, true), (LIMIT, false)] {
        let mut hand = ByHand::new();
        hand.unit(1, 0, epoch(serial), serial);
        hand.confirm(stamp(9, 900, 1));
        assert_eq!(hand.adopt().is_ok(), taken, "{serial}");
    }
}

#[test]
fn a_known_loss_stops_nothing_and_a_later_one_everything() {
    let mut hand = damaged(1);
    hand.anchored(1, &[10, 11, 12], 3);
    hand.spoil(1, 1);
    hand.anchored(2, &[20, 21], 2);
    let mut volume = hand.opens(&[0, 3, 2]);
    let read = |volume: &mut Volume, block: u64, unit: u64| {
        use atrest_device::FlashDevice;
        let step = volume.geometry().prog_size();
        let address = block * u64::from(volume.geometry().erase_size()) + unit * u64::from(step);
        volume.read(address, &mut super::vec![0; step as usize]).map_err(|error| error.cause)
    };
    assert_eq!(read(&mut volume, 1, 1), Err(FlashCause::Tampered { block: 1, unit: 1 }));
    assert!(!volume.is_stopped());
    hand.spoil(2, 1);
    assert_eq!(read(&mut volume, 2, 1), Err(FlashCause::Tampered { block: 2, unit: 1 }));
    assert!(volume.is_stopped());
}
