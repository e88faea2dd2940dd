//! What the answers of a medium mean for one cell, and which bytes of it are asked for.

use atrest_cipher::KeyError;
use atrest_cipher::aead::{Aead, ChaCha20Poly1305, OpenError, SealError};
use atrest_device::{FlashCause, FlashGeometry};
use atrest_testkit::flash::{EmulatedFlash, SharedFlash};

use super::super::cells::Cells;
use super::super::error::SealedError;
use super::super::mount::cells;
use super::super::options::SealedOptions;
use super::scripted::Scripted;
use super::std::vec::Vec;
use super::{
    ANCHOR, ByHand, ERASE, FIRST, FOREIGN, KEY, LIMIT, OPTIONS, SALT, STRIDE, epoch, place, stamp, vec,
};

type On = Cells<ChaCha20Poly1305, Scripted, Vec<u8>>;

/// Block 1 has two units.
fn scripted() -> (ByHand, Scripted, On) {
    let mut hand = ByHand::new();
    hand.anchored(1, &[10, 11], 2);
    let medium = Scripted::new(&hand.medium);
    let cells = cells(medium.clone(), &KEY, &OPTIONS, vec![0; FIRST]).expect("cells");
    (hand, medium, cells)
}

const BUS: FlashCause = FlashCause::Driver(5);
const BAD: FlashCause = FlashCause::BadBlock { block: 1 };

#[test]
fn what_a_medium_can_not_read_is_nothing_and_a_bus_that_fails_is_an_error() {
    for (cause, unreadable) in [(FlashCause::Uncorrectable, true), (BAD, true), (BUS, false)] {
        let (_hand, medium, mut cells) = scripted();
        medium.1.borrow_mut().read = Some((0..2 * ERASE as u64, cause));
        let nothing = |found: Result<bool, FlashCause>, what: &str| {
            assert_eq!(found, if unreadable { Ok(true) } else { Err(cause) }, "{what}: {cause:?}");
        };
        nothing(cells.open_first(1).map(|found| found.is_none()), "first");
        nothing(cells.open_unit(1, 1, epoch(10)).map(|found| found.is_none()), "unit");
        nothing(cells.open_ticket(1, epoch(10)).map(|found| found.is_none()), "ticket");
        nothing(cells.salts(1).map(|found| found.is_none()), "salts");
        nothing(cells.correct_first(1, LIMIT).map(|found| found.is_none()), "first with a bit");
        nothing(cells.correct_unit(1, 1, epoch(10), LIMIT).map(|found| found.is_none()), "unit with a bit");
        nothing(cells.correct_ticket(1, epoch(10), LIMIT).map(|found| found.is_none()), "ticket with a bit");
        nothing(cells.serial_of(1, 1, LIMIT).map(|found| found.is_none()), "serial");
        nothing(cells.wrong_salt_bit(1, epoch(10)).map(|found| found.is_none()), "salt");
        nothing(cells.last(1, epoch(10)).map(|found| found == 0), "last");
    }
}

#[test]
fn who_can_not_say_what_is_blank_is_answered_for_by_who_asks() {
    let unknown = FlashCause::Unsupported;
    let wrong = FlashCause::Uncorrectable;
    // Blank from a unit on, whether something was programmed there, whether something may stand there.
    let table = [
        (unknown, Err(unknown), Ok(false), Ok(true)),
        (wrong, Ok(false), Ok(true), Ok(true)),
        (BAD, Err(BAD), Ok(true), Ok(true)),
        (BUS, Err(BUS), Err(BUS), Err(BUS)),
    ];
    for (cause, blank, programmed, may_stand) in table {
        let (_hand, medium, mut cells) = scripted();
        medium.1.borrow_mut().query = Some(cause);
        assert_eq!(cells.is_blank_from(1, 5), blank, "{cause:?}");
        assert_eq!(cells.is_programmed(1, 5), programmed, "{cause:?}");
        assert_eq!(cells.may_stand(1, 5), may_stand, "{cause:?}");
    }
}

#[test]
fn a_block_is_blank_from_the_unit_behind_its_last_one_on_and_its_slot_is_no_unit() {
    let (mut hand, _medium, mut cells) = scripted();
    hand.ticket(1, 10, 12, stamp(2, 20, 1));
    let blank: Vec<_> = (0..=10).map(|unit| cells.is_blank_from(1, unit).expect("asked")).collect();
    assert_eq!(blank, [false, false, true, true, true, true, true, true, true, true, true]);
    for unit in 0..4 {
        assert_eq!(cells.is_programmed(1, unit), Ok(unit < 2), "{unit}");
        assert_eq!(cells.may_stand(1, unit), Ok(unit < 2), "{unit}");
    }
}

#[test]
fn what_a_medium_refuses_is_told() {
    let (_hand, medium, mut cells) = scripted();
    {
        let mut script = medium.1.borrow_mut();
        (script.prog, script.erase, script.sync) = (Some(BUS), Some(BAD), Some(FlashCause::Driver(6)));
    }
    assert_eq!(cells.prog_unit(2, 0, epoch(20), 20, None), Err(BUS));
    assert_eq!(cells.prog_ticket(2, epoch(20), 21, stamp(1, 10, 2)), Err(BUS));
    assert_eq!(cells.overwrite(2), Err(BUS));
    assert_eq!((cells.erase(2), cells.sync()), (Err(BAD), Err(FlashCause::Driver(6))));
}

/// Where the salts have prog units of their own, the rest of unit 0 may be beyond reading.
#[test]
fn the_salts_are_read_without_the_rest_of_unit_0() {
    let (_hand, medium, mut cells) = scripted();
    medium.1.borrow_mut().read = Some((ERASE as u64..(ERASE + STRIDE) as u64, FlashCause::Uncorrectable));
    assert_eq!(cells.salts(1), Ok(Some([SALT; 2])));
    assert_eq!(medium.1.borrow().reads, [((ERASE + STRIDE) as u64, FIRST - STRIDE)]);
    assert_eq!(cells.wrong_salt_bit(1, epoch(10)), Ok(None));
}

/// Of large prog units, where the salts stand within the stride.
#[test]
fn the_salts_are_the_end_of_unit_0_where_they_have_no_prog_unit_of_their_own() {
    let geometry = FlashGeometry::new(1, 64, 1024, 4).expect("a geometry");
    let medium = SharedFlash::new(EmulatedFlash::new(geometry));
    let mut cells =
        cells::<ChaCha20Poly1305, _, _>(medium.clone(), &KEY, &OPTIONS, vec![0; 256]).expect("cells");
    assert_eq!((cells.layout.head(), cells.layout.stride()), (0, 128));
    cells.prog_unit(1, 0, epoch(10), 10, Some(&[3; 64])).expect("program");
    assert_eq!(cells.salts(1), Ok(Some([SALT; 2])));
    assert_eq!(cells.open_first(1), Ok(Some(epoch(10))));
    let bit = (126 * 8) + 2;
    medium.lock().image_mut().flip(1, 126, 2);
    assert_eq!(cells.wrong_salt_bit(1, epoch(10)), Ok(Some(bit)));
    assert_eq!(cells.open_first(1), Ok(Some(epoch(10))), "the other salt is right");
}

#[test]
fn the_first_wrong_bit_of_the_two_salts_is_told() {
    for (flips, bit) in [
        (&[(114, 0)][..], Some(114 * 8)),
        (&[(127, 7)], Some(127 * 8 + 7)),
        (&[(121, 3), (115, 6), (115, 1)], Some(115 * 8 + 1)),
        (&[(113, 0)], None),
    ] {
        let (hand, _medium, mut cells) = scripted();
        flips.iter().for_each(|(byte, bit)| hand.medium.lock().image_mut().flip(1, *byte, *bit));
        assert_eq!(cells.wrong_salt_bit(1, epoch(10)), Ok(bit), "{flips:?}");
    }
}

/// Unit 0 opens under the second salt if the first is another's.
#[test]
fn a_block_has_the_epoch_under_whose_salt_it_opens() {
    let (hand, _medium, mut cells) = scripted();
    // The last byte of the first salt: 7 becomes 8.
    (0..4).for_each(|bit| hand.medium.lock().image_mut().flip(1, FIRST - 8, bit));
    assert_eq!(cells.salts(1), Ok(Some([FOREIGN, SALT])));
    assert_eq!(cells.open_first(1), Ok(Some(epoch(10))));
    hand.medium.lock().image_mut().flip(1, FIRST - 1, 5);
    assert_eq!(cells.open_first(1), Ok(None));
}

#[test]
fn as_many_units_count_as_verify_from_the_first_on() {
    let mut hand = ByHand::new();
    hand.block(1, &[10, 11, 12, 13]);
    assert_eq!(hand.cells.count(1, epoch(10), 4), 4);
    assert_eq!(hand.cells.count(1, epoch(10), 3), 3, "of no more than were asked for");
    assert_eq!(hand.cells.last(1, epoch(10)), Ok(3));
    hand.spoil(1, 2);
    assert_eq!((hand.cells.count(1, epoch(10), 4), hand.cells.last(1, epoch(10))), (2, Ok(3)));
    assert_eq!(hand.cells.count(1, epoch(9), 4), 0);
}

/// A cell is bound to its block, its number, its kind and its epoch.
#[test]
fn a_cell_opens_in_its_place_and_epoch_alone() {
    let mut hand = ByHand::new();
    hand.block(1, &[10, 11, 12]);
    hand.ticket(1, 10, 13, stamp(2, 20, 1));
    let image = hand.medium.lock().image().to_bytes();
    let copy = |hand: &ByHand, from: usize, to: (usize, u32)| {
        for (unit, bytes) in (place(to.1) / 32..).zip(image[from..][..STRIDE].chunks(32)) {
            hand.medium.lock().image_mut().put_unit(to.0, unit, bytes);
        }
    };
    assert_eq!(hand.cells.open_unit(1, 1, epoch(10)), Ok(Some(11)));
    assert_eq!(hand.cells.open_ticket(1, epoch(10)), Ok(Some((13, stamp(2, 20, 1)))));
    copy(&hand, ERASE + place(1), (1, 2));
    assert_eq!(hand.cells.open_unit(1, 2, epoch(10)), Ok(None), "another unit");
    copy(&hand, ERASE + place(1), (2, 1));
    assert_eq!(hand.cells.open_unit(2, 1, epoch(10)), Ok(None), "another block");
    let elsewhere = super::Epoch { serial: 10, salt: FOREIGN };
    for other in [epoch(9), epoch(11), elsewhere] {
        assert_eq!(hand.cells.open_unit(1, 1, other), Ok(None), "{other:?}");
        assert_eq!(hand.cells.open_ticket(1, other), Ok(None), "{other:?}");
    }
}

#[test]
fn a_unit_without_a_payload_is_ones() {
    let mut hand = ByHand::new();
    hand.cells.prog_unit(1, 0, epoch(10), 10, None).expect("program");
    let mut payload = [0; 72];
    assert_eq!((hand.cells.read_unit(1, 0, epoch(10), &mut payload), payload), (Ok(Some(10)), [0xff; 72]));
    hand.spoil(1, 0);
    let mut payload = [9; 72];
    assert_eq!(hand.cells.read_unit(1, 0, epoch(10), &mut payload), Ok(None));
    assert_eq!(payload, [9; 72], "nothing of a unit that fails is shown");
}

/// A cipher that seals nothing.
struct Refuses;

impl Aead for Refuses {
    const NAME: &'static str = "refuses";
    const KEY_LEN: usize = 16;
    type Nonce = [u8; 12];
    type Tag = [u8; 16];

    fn new(_: &[u8]) -> Result<Self, KeyError> {
        Ok(Self)
    }

    fn seal(&self, _: &[u8; 12], associated: &[u8], data: &mut [u8]) -> Result<[u8; 16], SealError> {
        Err(SealError::TooLong { data: data.len(), associated: associated.len() })
    }

    fn open(&self, _: &[u8; 12], _: &[u8], _: &mut [u8], _: &[u8; 16]) -> Result<(), OpenError> {
        Err(OpenError::Forged)
    }
}

#[test]
fn what_was_not_sealed_is_neither_programmed_nor_left_in_the_buffer() {
    let hand = ByHand::new();
    let mut cells =
        cells::<Refuses, _, _>(hand.medium.clone(), &KEY, &OPTIONS, vec![0; FIRST]).expect("cells");
    let before = hand.medium.lock().image().to_bytes();
    assert_eq!(cells.prog_unit(1, 0, epoch(10), 10, Some(&[0xaa; 72])), Err(FlashCause::Cipher));
    assert!(!cells.buffer().contains(&0xaa), "plaintext in the buffer");
    assert!(hand.medium.lock().image().to_bytes() == before);
}

#[test]
fn too_small_a_buffer_is_refused_by_one_byte() {
    let make = |payload, prog, erase, buffer: usize, options: SealedOptions| {
        let geometry = FlashGeometry::new(1, prog, erase, 4).expect("a geometry");
        let medium = SharedFlash::new(EmulatedFlash::new(geometry));
        let options = SealedOptions { payload, ..options };
        cells::<ChaCha20Poly1305, _, _>(medium, &KEY, &options, vec![0; buffer]).map(drop)
    };
    assert_eq!(make(64, 32, ERASE as u32, FIRST, OPTIONS), Ok(()));
    let refused = SealedError::BufferTooSmall { needs: FIRST as u32, has: FIRST - 1 };
    assert_eq!(make(64, 32, ERASE as u32, FIRST - 1, OPTIONS), Err(refused));
    // The least unit 0 is as long as a ticket.
    assert_eq!(make(4, 1, 1024, 39, OPTIONS), Ok(()));
    let refused = SealedError::BufferTooSmall { needs: 39, has: 38 };
    assert_eq!(make(4, 1, 1024, 38, OPTIONS), Err(refused));
}

#[test]
fn overwriting_destroys_the_first_unit_and_nothing_behind_it() {
    let geometry = FlashGeometry::new(512, 512, 4096, 4).expect("a geometry");
    let mut random = atrest_testkit::Random::new(1);
    let card = atrest_testkit::flash::EmulatedCard::used(geometry, &mut random);
    let mut cells = cells::<ChaCha20Poly1305, _, _>(card, &KEY, &OPTIONS, vec![0; 512]).expect("cells");
    cells.prog_unit(1, 0, epoch(ANCHOR), ANCHOR, None).expect("program");
    cells.prog_unit(1, 1, epoch(ANCHOR), ANCHOR + 1, None).expect("program");
    cells.overwrite(1).expect("overwritten");
    assert_eq!(cells.open_first(1), Ok(None));
    assert_eq!(cells.open_unit(1, 1, epoch(ANCHOR)), Ok(Some(ANCHOR + 1)));
    assert_eq!(cells.serial_of(1, 0, LIMIT), Ok(None), "zeros are no serial");
}

#[test]
fn a_key_or_an_identifier_of_zeros_is_none() {
    let medium = ByHand::new().medium;
    let last = |len: usize| {
        let mut bytes = vec![0; len];
        bytes[len - 1] = 1;
        bytes
    };
    for (volume_key, uuid, is_key) in [
        (last(32), 1, true),
        (last(1), 1 << 127, true),
        (vec![0; 32], 1, false),
        (vec![], 1, false),
        (last(32), 0_u128, false),
    ] {
        let key = super::SealedKey { volume_key: &volume_key, uuid: &uuid.to_be_bytes(), header: None };
        assert_eq!(key.is_filled_in(), is_key, "{volume_key:?}, {uuid}");
        let made = cells::<ChaCha20Poly1305, _, _>(medium.clone(), &key, &OPTIONS, vec![0; FIRST]).map(drop);
        assert_eq!(made, if is_key { Ok(()) } else { Err(SealedError::NoKey) });
    }
}
