//! One wrong bit put right: in which cells, and up to which serial.

use std::cell::Cell;

use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_testkit::flash::WrongReads;

use super::super::cells::Cells;
use super::super::correct::Corrected;
use super::super::mount::cells;
use super::std::vec::Vec;
use super::{
    ANCHOR, ByHand, ERASE, FIRST, FOREIGN, KEY, LIMIT, OPTIONS, SALT, SLOT, epoch, place, stamp, std, vec,
};

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

/// The bit that is tried stands in what is read again each time. What reads otherwise then is no cell with one wrong bit.
#[test]
fn a_unit_whose_serial_changes_between_two_reads_is_not_put_right() {
    for (changes_at, found) in [(u32::MAX, true), (1, false), (2, false), (30, false)] {
        let mut hand = ByHand::new();
        hand.unit(1, 3, epoch(10), 13);
        hand.flip(1, 3, 20);
        let (at, reads) = ((ERASE + place(3) + 72) as u64, Cell::new(0));
        let medium = WrongReads(hand.medium.clone(), |address: u64, buf: &mut [u8]| {
            if (address..address + buf.len() as u64).contains(&at) {
                buf[(at - address) as usize] ^= u8::from(reads.get() >= changes_at);
                reads.set(reads.get() + 1);
            }
        });
        let cells = cells::<ChaCha20Poly1305, _, _>(medium, &KEY, &OPTIONS, vec![0; FIRST]);
        let mut cells: Cells<_, _, Vec<u8>> = cells.expect("cells");
        let expected = found.then_some(Corrected { serial: 13, bit: 20 * 8 + 3 });
        assert_eq!(cells.correct_unit(1, 3, epoch(10), LIMIT), Ok(expected), "{changes_at}");
    }
}

#[test]
fn the_bit_that_is_wrong_is_named_and_the_payload_is_what_was_stored() {
    for (byte, bit) in [(0, 3), (20, 163), (71, 571), (72, 579), (76, 611), (77, 619), (92, 739)] {
        let mut hand = ByHand::new();
        hand.unit(1, 3, epoch(10), 13);
        hand.flip(1, 3, byte);
        let corrected = Some(Corrected { serial: 13, bit });
        assert_eq!(hand.cells.correct_unit(1, 3, epoch(10), LIMIT), Ok(corrected));
        assert_eq!(hand.cells.buffer()[..72], [1; 72], "byte {byte}");
    }
    // Filling behind the tag is nobody's.
    let mut hand = ByHand::new();
    hand.unit(1, 3, epoch(10), 13);
    hand.flip(1, 3, 93);
    assert_eq!(hand.cells.open_unit(1, 3, epoch(10)), Ok(Some(13)));
}

#[test]
fn a_ticket_is_put_right_in_any_bit_and_under_its_own_salt_and_limit() {
    for (serial, stands) in [(12, true), (LIMIT - 1, true), (LIMIT, false)] {
        for byte in [0, 17, 18, 22, 23, 38] {
            let mut hand = ByHand::new();
            hand.unit(1, 0, epoch(10), 10);
            hand.ticket(1, 10, serial, stamp(2, 20, 3));
            assert_eq!(hand.cells.open_ticket(1, epoch(10)), Ok(Some((serial, stamp(2, 20, 3)))));
            hand.medium.lock().image_mut().flip(1, ERASE - SLOT + byte, 0);
            assert_eq!(hand.cells.open_ticket(1, epoch(10)), Ok(None));
            let found = hand.cells.correct_ticket(1, epoch(10), LIMIT);
            // Of the serial another bit may be wrong, below the limit.
            if stands {
                assert_eq!(found, Ok(Some((serial, stamp(2, 20, 3)))), "{serial}, byte {byte}");
            } else {
                assert_eq!(found, Ok(None), "{serial}, byte {byte}");
            }
            assert_eq!(hand.cells.correct_ticket(1, super::foreign(10), LIMIT), Ok(None));
        }
    }
}

#[test]
fn a_first_unit_is_put_right_under_either_salt_and_below_the_limit() {
    for (serial, stands) in [(10, true), (LIMIT - 1, true), (LIMIT, false)] {
        for other_salt in [None, Some(FIRST - 8), Some(FIRST - 1)] {
            let mut hand = ByHand::new();
            hand.unit(1, 0, epoch(serial), serial);
            hand.flip(1, 0, 20);
            if let Some(byte) = other_salt {
                // 7 becomes 8.
                (0..4).for_each(|bit| hand.medium.lock().image_mut().flip(1, byte, bit));
            }
            let found = hand.cells.correct_first(1, LIMIT);
            assert_eq!(found, Ok(stands.then_some(epoch(serial))), "{serial}, {other_salt:?}");
        }
    }
    let mut hand = ByHand::new();
    hand.unit(1, 0, epoch(10), 10);
    hand.flip(1, 0, 20);
    hand.flip(1, 0, 21);
    assert_eq!(hand.cells.correct_first(1, LIMIT), Ok(None));
    assert_ne!(SALT, FOREIGN);
}
