//! One wrong bit put right: in which cells, and up to which serial.

use super::{ANCHOR, ByHand, LIMIT, epoch};

/// The serial of a unit that lacks one bit, and where the bit is.
fn found(hand: &mut ByHand, unit: u32, first: u64) -> Option<u64> {
    hand.cells.correct_unit(1, unit, epoch(first), LIMIT).expect("read").map(|found| found.serial)
}

#[test]
fn a_serial_at_the_limit_is_the_end_and_nothing_is_put_right_that_has_it() {
    for (serial, stands) in [(1, true), (LIMIT - 1, true), (LIMIT, false), (LIMIT + 1, false), (0, false)] {
        let mut hand = ByHand::new();
        hand.unit(1, 3, epoch(10), serial);
        hand.flip(1, 3, 20);
        assert_eq!(found(&mut hand, 3, 10), stands.then_some(serial), "{serial}");
        assert_eq!(hand.cells.serial_of(1, 3, LIMIT), Ok(stands.then_some(serial)), "{serial}");
    }
}

#[test]
fn the_first_unit_has_the_epoch_for_serial() {
    let mut hand = ByHand::new();
    hand.unit(1, 0, epoch(10), 11);
    assert_eq!(hand.cells.open_unit(1, 0, epoch(10)), Ok(None));
    hand.flip(1, 0, 20);
    assert_eq!(found(&mut hand, 0, 10), None);
    hand.unit(1, 0, epoch(10), 10);
    assert_eq!(hand.cells.open_unit(1, 0, epoch(10)), Ok(Some(10)));
    hand.flip(1, 0, 20);
    assert_eq!(found(&mut hand, 0, 10), Some(10));
}

#[test]
fn any_bit_of_payload_serial_and_tag_is_put_right_and_two_are_not() {
    for byte in 0..72 + 5 + 16 {
        let mut hand = ByHand::new();
        hand.unit(1, 3, epoch(10), ANCHOR);
        hand.flip(1, 3, byte);
        assert_eq!(found(&mut hand, 3, 10), Some(ANCHOR), "byte {byte}");
        hand.flip(1, 3, (byte + 1) % 93);
        assert_eq!(found(&mut hand, 3, 10), None, "bytes {byte} and the next");
    }
}
