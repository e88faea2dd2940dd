//! The first look: what is anchored, what is newer, and which serials may be there.

use std::cell::Cell;
use std::vec;

use atrest_device::FlashDevice;
use atrest_secret::OsRandom;
use atrest_testkit::flash::WrongReads;

use super::super::error::SealedError;
use super::super::layout::Tickets;
use super::super::options::SealedOptions;
use super::super::record::Stamp;
use super::super::serial::SERIAL_END;
use super::super::table::BlockState;
use super::super::volume::SealedFlash;
use super::{
    ANCHOR, BLOCKS, ByHand, ERASE, FIRST, KEY, LIMIT, OPTIONS, RESERVE, Volume, foreign, place, stamp, std,
};

#[test]
fn the_limit_is_the_end_of_serials_and_is_not_used() {
    for (cached, serial, opens) in [(true, LIMIT - 1, true), (true, LIMIT, false), (false, LIMIT, false)] {
        let mut hand = ByHand::new();
        hand.record.cached = cached;
        hand.block(1, &[serial]);
        match opens {
            true => drop(hand.opens(&[0, 1])),
            false => {
                let older = SealedError::StoreOlder { limit: LIMIT, found: LIMIT };
                assert_eq!(hand.mount().map(drop), Err(older));
            }
        }
    }
    let mut hand = ByHand::new();
    hand.record.clean = true;
    hand.block(1, &[ANCHOR]);
    let older = SealedError::StoreOlder { limit: ANCHOR, found: ANCHOR };
    assert_eq!(hand.mount().map(drop), Err(older), "a closed volume has nothing newer");
}

/// An opening goes on behind all that the record allows; the last serial of all is left.
#[test]
fn recovery_takes_the_last_window_and_none_behind_it() {
    let size = 1 << RESERVE;
    for (back, opens) in [(2 * size + 1, true), (2 * size, false), (size + 1, false)] {
        let mut hand = ByHand::new();
        hand.record.anchor = SERIAL_END - back;
        hand.anchored(1, &[10], 1);
        let store = hand.store();
        let table = vec![BlockState::VOID; BLOCKS as usize];
        let opened = Volume::mount(
            hand.medium.clone(),
            store.clone(),
            &KEY,
            hand.options,
            table,
            vec![0; FIRST],
            &mut OsRandom,
        );
        if opens {
            let volume = opened.expect("one window is left");
            assert_eq!((volume.next, volume.limit), (SERIAL_END - size - 1, SERIAL_END - 1));
        } else {
            assert_eq!(opened.map(drop), Err(SealedError::WornOut));
            assert_eq!(store.record(), hand.store().record(), "nothing is changed");
        }
    }
}

#[test]
fn what_is_newer_has_no_gap_whatever_the_order_of_its_blocks() {
    let look = |missing: Option<u64>, cached: bool| {
        let mut hand = ByHand::new();
        hand.record.cached = cached;
        let blocks = [(1, ANCHOR + 3), (2, ANCHOR + 1), (3, ANCHOR + 2), (4, ANCHOR)];
        for (block, serial) in blocks.into_iter().filter(|(_, serial)| Some(*serial) != missing) {
            hand.block(block, &[serial]);
        }
        hand
    };
    look(None, false).opens(&[0, 1, 1, 1, 1]);
    look(Some(ANCHOR), false).has_a_gap();
    look(Some(ANCHOR + 2), false).has_a_gap();
    look(Some(ANCHOR + 3), false).opens(&[0, 0, 1, 1, 1]);
    // A cache may have lost any of them.
    look(Some(ANCHOR), true).opens(&[0, 1, 1, 1, 0]);
}

#[test]
fn what_is_newer_is_of_the_session_that_wrote_the_record() {
    let mut hand = ByHand::new();
    hand.unit(1, 0, foreign(ANCHOR), ANCHOR);
    hand.is_refused();
    // What is old may be of any.
    let mut hand = ByHand::new();
    hand.unit(1, 0, foreign(10), 10);
    hand.confirm(Stamp { block: 1, epoch: foreign(10), fill: 1 });
    hand.opens(&[0, 1]);
}

/// What a cut program or erase has left did not verify at the opening after it, and does now.
#[test]
fn one_block_may_show_one_unit_or_one_content_more_than_is_anchored() {
    for (fill, opens) in [(3, true), (2, true), (1, false), (0, true)] {
        let mut hand = ByHand::new();
        hand.anchored(1, &[10, 11, 12], fill);
        hand.block(2, &[ANCHOR, ANCHOR + 1]);
        // The second look takes any number for one block.
        let volume = hand.opens(&[0, fill, 2]);
        assert_eq!(volume.is_damaged(), !opens);
    }
    let mut hand = ByHand::new();
    hand.anchored(1, &[10, 11], 1);
    hand.anchored(2, &[20, 21], 1);
    hand.is_refused();
}

#[test]
fn a_refusal_names_the_newest_serial() {
    let mut hand = ByHand::new();
    hand.anchored(1, &[ANCHOR, ANCHOR + 1], 2);
    hand.block(2, &[10]);
    let refused = SealedError::NotAnchored { anchor: ANCHOR, newest: ANCHOR + 1 };
    assert_eq!(hand.mount().map(drop), Err(refused));
}

/// Opens a medium of which three bytes fade after so many reads: what the first blocks hold, and whether they are closed.
fn fading(hand: &ByHand, block: u32, byte: usize, reads: u32) -> Result<[(u32, bool); 5], SealedError> {
    fading_in(hand, block, byte, (reads, 3))
}

/// Opens a medium of which `bytes` bytes, from `byte` of a block on, fade after so many reads: what the first blocks hold,
/// and whether they are closed.
fn fading_in(
    hand: &ByHand,
    block: u32,
    byte: usize,
    (reads, bytes): (u32, usize),
) -> Result<[(u32, bool); 5], SealedError> {
    let (at, mut left) = ((block as usize * ERASE + byte) as u64, reads);
    let medium = WrongReads(hand.medium.clone(), |address: u64, buf: &mut [u8]| {
        assert!(!buf.is_empty(), "drivers need not know what that is");
        if (address..address + buf.len() as u64).contains(&at) {
            match left.checked_sub(1) {
                Some(less) => left = less,
                None => (0..bytes).for_each(|byte| buf[(at - address) as usize + byte] ^= 1),
            }
        }
    });
    let (table, buffer) = (vec![BlockState::VOID; BLOCKS as usize], vec![0; FIRST]);
    let volume: SealedFlash<atrest_cipher::aead::ChaCha20Poly1305, _, _, _, _> =
        SealedFlash::mount(medium, hand.store(), &KEY, hand.options, table, buffer, &mut OsRandom)?;
    assert_eq!(volume.is_damaged(), hand.damaged > 0, "the first look suffices");
    Ok([0, 1, 2, 3, 4].map(|block| (volume.state(block).fill(), volume.state(block).is_closed())))
}

const VOID: (u32, bool) = (0, true);

#[test]
fn the_newest_unit_counts_if_it_reads_right_three_times() {
    let mut hand = ByHand::new();
    hand.block(1, &[ANCHOR, ANCHOR + 1]);
    for (reads, fill) in [(1, 1), (2, 1), (3, 2)] {
        let found = fading(&hand, 1, place(1), reads);
        assert_eq!(found, Ok([VOID, (fill, false), VOID, VOID, VOID]), "{reads}");
    }
    // The only one.
    let mut hand = ByHand::new();
    hand.block(1, &[ANCHOR]);
    assert_eq!(fading(&hand, 1, 0, 1), Ok([VOID; 5]));
    // As if nothing had been there, so that nothing is missing before it.
    let mut hand = ByHand::new();
    hand.block(1, &[ANCHOR + 1]);
    assert_eq!(fading(&hand, 1, 0, 1), Ok([VOID; 5]));
    hand.has_a_gap();
}

/// Nothing is appended to a block that is about to be erased. The second look takes what is left of it, and says so.
#[test]
fn an_announced_block_whose_newer_unit_fades_is_damaged() {
    let mut hand = ByHand::new();
    hand.anchored(1, &[990, ANCHOR], 1);
    hand.record.victim = Some(stamp(1, 990, 1));
    hand.damaged = 1;
    assert_eq!(fading(&hand, 1, place(1), 1), Ok([VOID, (1, false), VOID, VOID, VOID]));
}

#[test]
fn a_gap_before_a_newest_unit_that_fades_is_one() {
    let mut hand = ByHand::new();
    hand.block(1, &[ANCHOR, ANCHOR + 1]);
    hand.block(2, &[ANCHOR + 3, ANCHOR + 4]);
    assert!(matches!(fading(&hand, 2, place(1), 1), Err(SealedError::Gap { .. })));
}

#[test]
fn a_newest_ticket_that_fades_is_not_there_and_the_others_are() {
    for gone in [false, true] {
        let mut hand = ByHand::new();
        hand.confirm(stamp(1, 10, 1));
        hand.anchored(2, &[20], 1);
        hand.block(3, &[ANCHOR]);
        hand.ticket(3, ANCHOR, ANCHOR + 1, stamp(1, 10, 1));
        hand.block(4, &[ANCHOR + 2]);
        hand.ticket(4, ANCHOR + 2, ANCHOR + 3, stamp(2, 20, 1));
        if gone {
            hand.wipe(2, 0);
        }
        let found = fading(&hand, 4, ERASE - super::SLOT, 1);
        match gone {
            false => assert_eq!(found, Ok([VOID, VOID, (1, false), (1, false), (1, false)])),
            true => assert!(matches!(found, Err(SealedError::NotAnchored { .. })), "{found:?}"),
        }
    }
}

/// The first look takes no ticket for another one than what stands there. The second puts the bit right.
#[test]
fn a_newest_ticket_that_fades_in_one_bit_is_found_by_the_second_look() {
    let mut hand = ByHand::new();
    hand.confirm(stamp(1, 10, 1));
    hand.block(3, &[ANCHOR]);
    hand.ticket(3, ANCHOR, ANCHOR + 1, stamp(1, 10, 1));
    hand.damaged = 1;
    let found = fading_in(&hand, 3, ERASE - super::SLOT, (1, 1));
    assert_eq!(found, Ok([VOID, VOID, VOID, (1, false), VOID]));
}

#[test]
fn a_block_with_damage_stays_closed_when_its_newest_unit_fades() {
    let mut hand = ByHand::new();
    hand.damage(1);
    hand.block(1, &[ANCHOR, ANCHOR + 1, ANCHOR + 2, ANCHOR + 3]);
    hand.spoil(1, 1);
    assert_eq!(fading(&hand, 1, place(3), 1), Ok([VOID, (3, true), VOID, VOID, VOID]));
}

#[test]
fn no_ticket_is_read_where_there_are_no_slots() {
    for damage in [0, 1] {
        let mut hand = ByHand::with(SealedOptions { tickets: Tickets::Store, ..OPTIONS });
        hand.damage(damage);
        hand.anchored(1, &[10], 1);
        assert_eq!(fading(&hand, 1, 0, u32::MAX), Ok([VOID, (1, false), VOID, VOID, VOID]));
    }
}

/// A cell that reads right the second or the third time only.
#[test]
fn a_unit_is_read_three_times_before_it_fails() {
    let mut hand = ByHand::new();
    hand.anchored(1, &[10, 11], 2);
    for (wrong, reads) in [(0, true), (1, true), (2, true), (3, false)] {
        let left = Cell::new(0u32);
        let (table, buffer) = (vec![BlockState::VOID; BLOCKS as usize], vec![0; FIRST]);
        let medium = WrongReads(hand.medium.clone(), |_, buf: &mut [u8]| {
            if let Some(less) = left.get().checked_sub(1) {
                left.set(less);
                buf[0] ^= 1;
            }
        });
        let mut volume: SealedFlash<atrest_cipher::aead::ChaCha20Poly1305, _, _, _, _> =
            SealedFlash::mount(medium, hand.store(), &KEY, hand.options, table, buffer, &mut OsRandom)
                .expect("mount");
        left.set(wrong);
        let step = volume.geometry().prog_size();
        let block = u64::from(volume.geometry().erase_size());
        assert_eq!(volume.read(block, &mut vec![0; step as usize]).is_ok(), reads, "{wrong} wrong reads");
        assert_eq!(volume.is_stopped(), !reads);
    }
}
