//! What an opening writes, and what is told of units afterwards.

use atrest_device::{FlashCause, FlashDevice};

use super::super::error::SealedError;
use super::super::options::SealedMedium;
use super::super::verdict::UnitState;
use super::{
    ANCHOR, BLOCKS, BlockState, ByHand, ERASE, FIRST, KEY, LIMIT, OPTIONS, OsRandom, RESERVE, Stamp,
};
use super::{SealedOptions, TrustedMemory, Volume, foreign, stamp, vec};

/// Opens it beside a store that stays in sight.
pub(super) fn open(hand: &ByHand) -> (Volume, TrustedMemory) {
    let store = hand.store();
    let (table, buffer) = (vec![BlockState::VOID; BLOCKS as usize], vec![0; FIRST]);
    let (medium, kept) = (hand.medium.clone(), store.clone());
    let volume = Volume::mount(medium, kept, &KEY, hand.options, table, buffer, &mut OsRandom);
    (volume.expect("it is confirmed"), store)
}

pub(super) fn address(volume: &Volume, block: u64, unit: u64) -> u64 {
    block * u64::from(volume.geometry().erase_size()) + unit * u64::from(volume.geometry().prog_size())
}

pub(super) fn read(volume: &mut Volume, block: u64, unit: u64) -> Result<(), FlashCause> {
    let at = address(volume, block, unit);
    volume.read(at, &mut [0; 72]).map_err(|error| error.cause)
}

#[test]
fn opening_a_closed_volume_writes_nothing_but_a_smaller_reserve() {
    for (reserve, writes) in [(RESERVE + 1, 0), (RESERVE, 0), (RESERVE - 1, 1)] {
        let mut hand = ByHand::with(SealedOptions { reserve, ..OPTIONS });
        hand.record.clean = true;
        hand.anchored(1, &[10], 1);
        let (volume, store) = open(&hand);
        assert_eq!(store.count(), writes, "{reserve}");
        assert_eq!(volume.next, ANCHOR, "no serial is skipped");
        assert_eq!(store.record().expect("a record")[3] >> 3, reserve.min(RESERVE));
    }
}

#[test]
fn a_block_whose_erase_was_cut_is_named_in_the_record_before_it_is_erased() {
    for medium in [SealedMedium::Ordered, SealedMedium::Card] {
        let mut hand = ByHand::with(SealedOptions { medium, ..OPTIONS });
        hand.anchored(1, &[10, 11], 2);
        hand.record.victim = Some(stamp(1, 10, 2));
        hand.wipe(1, 1);
        let (volume, store) = open(&hand);
        assert_eq!(volume.state(1).fill(), 0);
        let record = store.record().expect("a record");
        assert_eq!((record[3] & 2, record[16]), (2, 1), "it names block 1");
        // Erasing a card need not change anything.
        let left = if medium == SealedMedium::Card { 0 } else { 0xff };
        let bytes = hand.medium.lock().image().to_bytes();
        assert!(bytes[ERASE..ERASE + FIRST].iter().all(|byte| *byte == left), "{medium:?}");
    }
}

/// A store that is older than the medium is not a matter of damage.
#[test]
fn a_serial_behind_the_limit_is_not_explained_by_damage() {
    let mut hand = ByHand::new();
    hand.unit(3, 0, foreign(10), 10);
    hand.confirm(Stamp { block: 3, epoch: foreign(10), fill: 1 });
    hand.ticket_of(3, foreign(10), LIMIT, stamp(1, 20, 2));
    let older = SealedError::StoreOlder { limit: LIMIT, found: LIMIT };
    assert_eq!(hand.mount().map(drop), Err(older));
}

#[test]
fn a_wrong_salt_is_told_of_the_first_unit_alone() {
    let mut hand = ByHand::new();
    hand.anchored(1, &[10, 11], 2);
    hand.medium.lock().image_mut().flip(1, FIRST - 1, 4);
    let (mut volume, _) = open(&hand);
    let bit = (FIRST as u32 - 1) * 8 + 4;
    assert_eq!(volume.unit_state(1, 0), Ok(UnitState::OneBit { bit }));
    assert_eq!(volume.unit_state(1, 1), Ok(UnitState::Whole));
}

#[test]
fn nothing_is_put_right_behind_the_units_that_a_block_holds() {
    let mut hand = ByHand::new();
    hand.damage(5);
    hand.anchored(1, &[10, 11], 1);
    hand.flip(1, 1, 20);
    let (mut volume, _) = open(&hand);
    assert_eq!(volume.unit_state(1, 1), Ok(UnitState::Absent));
    assert_eq!(volume.correct(1, 1, &mut [0; 72]), Ok(false));
}

#[test]
fn a_unit_of_this_session_is_put_right_as_well() {
    let mut hand = ByHand::new();
    let (mut volume, _) = open(&hand);
    let (at, block) = (address(&volume, 2, 0), volume.geometry().erase_size());
    volume.erase(at, block.into()).expect("erase");
    volume.prog(at, &[6; 72]).expect("program");
    hand.flip(2, 0, 20);
    assert_eq!(volume.unit_state(2, 0), Ok(UnitState::OneBit { bit: 20 * 8 + 3 }));
    // A buffer that no unit fills is the caller's fault, and says nothing of the unit.
    assert_eq!(volume.correct(2, 0, &mut [0; 73]), Err(FlashCause::OutOfBounds { size: 72 }));
    let mut payload = [0; 72];
    assert_eq!((volume.correct(2, 0, &mut payload), payload), (Ok(true), [6; 72]));
}

#[test]
fn a_volume_that_a_unit_has_stopped_is_not_closed_in_good_order() {
    let mut hand = ByHand::new();
    hand.record.clean = true;
    hand.anchored(1, &[10], 1);
    let (mut volume, _) = open(&hand);
    assert_eq!(volume.close(), Ok(()));
    hand.spoil(1, 0);
    assert_eq!(read(&mut volume, 1, 0), Err(FlashCause::Tampered { block: 1, unit: 0 }));
    assert_eq!((volume.close(), volume.anchor()), (Err(FlashCause::Stopped), Err(FlashCause::Stopped)));
}
