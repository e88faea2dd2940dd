//! A volume without its store: how often a cell is read, and what the answers of a medium make of a block.

use std::cell::Cell;

use atrest_cipher::aead::ChaCha20Poly1305;
use atrest_device::{FlashCause, FlashDevice};
use atrest_testkit::flash::{SharedFlash, WrongReads};

use super::super::error::SealedError;
use super::super::options::{SealedMedium, SealedOptions};
use super::super::reader::SealedReader;
use super::super::verdict::Verdict;
use super::scripted::Scripted;
use super::std::vec::Vec;
use super::{BLOCKS, BlockState, ByHand, ERASE, FIRST, KEY, OPTIONS, place, std, vec};

type Reader<D> = SealedReader<ChaCha20Poly1305, D, Vec<BlockState>, Vec<u8>>;

fn open<D: FlashDevice>(medium: D, options: SealedOptions) -> Result<Reader<D>, SealedError> {
    let (table, buffer) = (vec![BlockState::VOID; BLOCKS as usize], vec![0; FIRST]);
    SealedReader::open_without_freshness(medium, &KEY, options, table, buffer)
}

/// The first byte of a unit.
fn read<D: FlashDevice>(reader: &mut Reader<D>, block: u64, unit: u64) -> Result<u8, FlashCause> {
    let mut bytes = [0x5a; 72];
    let size = reader.geometry();
    let address = block * u64::from(size.erase_size()) + unit * u64::from(size.prog_size());
    reader.read(address, &mut bytes).map(|()| bytes[0]).map_err(|error| error.cause)
}

/// Block 1 has three units.
fn three() -> ByHand {
    let mut hand = ByHand::new();
    hand.block(1, &[10, 11, 12]);
    hand
}

/// Makes a byte of block 1 read wrong so many times.
fn marginal(byte: usize, wrong: &Cell<u32>) -> impl FnMut(u64, &mut [u8]) {
    let at = (ERASE + byte) as u64;
    move |address: u64, buf: &mut [u8]| {
        if (address..address + buf.len() as u64).contains(&at)
            && let Some(less) = wrong.get().checked_sub(1)
        {
            wrong.set(less);
            buf[(at - address) as usize] ^= 1;
        }
    }
}

/// Once while all blocks are looked at, and three times before it is said to be lost.
#[test]
fn a_marginal_first_or_last_unit_is_read_four_times_before_a_reader_gives_it_up() {
    for (unit, kept) in [(0, 0), (2, 2)] {
        for (wrong, whole) in [(0, true), (1, true), (2, true), (3, true), (4, false)] {
            let (hand, wrong_reads) = (three(), Cell::new(wrong));
            let medium = WrongReads(hand.medium.clone(), marginal(place(unit), &wrong_reads));
            let mut reader = open(medium, OPTIONS).expect("a reader");
            assert_eq!(wrong_reads.get(), 0, "all of them happened while it was opened");
            let expected = if whole { Ok(1) } else { Err(FlashCause::Tampered { block: 1, unit: kept }) };
            assert_eq!(read(&mut reader, 1, u64::from(unit)), expected, "unit {unit}, {wrong} wrong reads");
            let verdict = reader.verdict(1, unit).expect("a verdict");
            assert_eq!(matches!(verdict, Verdict::Sealed { .. }), whole, "unit {unit}, {wrong} wrong reads");
            // What stands before it is there in any case, and so is what stands behind, if it is.
            assert_eq!(read(&mut reader, 1, 1).is_ok(), whole || unit == 2);
            assert_eq!(read(&mut reader, 1, 3), if whole { Ok(0) } else { expected });
        }
    }
}

#[test]
fn a_marginal_unit_is_read_three_times_whenever_it_is_asked_for() {
    let (hand, wrong) = (three(), Cell::new(0));
    let medium = WrongReads(hand.medium.clone(), marginal(place(1), &wrong));
    let mut reader = open(medium, OPTIONS).expect("a reader");
    for (times, found) in [(1, true), (2, true), (3, false)] {
        wrong.set(times);
        let expected = if found { Ok(1) } else { Err(FlashCause::Tampered { block: 1, unit: 1 }) };
        assert_eq!(read(&mut reader, 1, 1), expected, "{times} wrong reads");
        wrong.set(times);
        let expected = if found { Verdict::Sealed { serial: 11 } } else { Verdict::Tampered };
        assert_eq!(reader.verdict(1, 1), Ok(expected), "{times} wrong reads");
    }
}

/// Something stands behind the units that verify, or the medium says so.
#[test]
fn a_reader_takes_what_a_medium_does_not_know_for_blank_and_what_is_bad_for_used() {
    let bad = FlashCause::BadBlock { block: 1 };
    let tampered = |block| Err(FlashCause::Tampered { block, unit: if block == 1 { 3 } else { 0 } });
    for (cause, unknown) in
        [(FlashCause::Unsupported, true), (bad, false), (FlashCause::Uncorrectable, false)]
    {
        let hand = three();
        let medium = Scripted::new(&hand.medium);
        medium.1.borrow_mut().query = Some(cause);
        let mut reader = open(medium, OPTIONS).expect("a reader");
        assert_eq!(read(&mut reader, 1, 2), Ok(1), "{cause:?}");
        assert_eq!(read(&mut reader, 1, 3), if unknown { Ok(0) } else { tampered(1) }, "{cause:?}");
        let void = Err(FlashCause::Void { block: 2 });
        assert_eq!(read(&mut reader, 2, 0), if unknown { void } else { tampered(2) }, "{cause:?}");
        // The same answers to who asks for a verdict.
        let verdict = if unknown { Verdict::Absent } else { Verdict::Tampered };
        assert_eq!((reader.verdict(1, 3), reader.verdict(2, 0)), (Ok(verdict), Ok(verdict)), "{cause:?}");
    }
    let bus = FlashCause::Driver(5);
    let hand = three();
    let medium = Scripted::new(&hand.medium);
    medium.1.borrow_mut().query = Some(bus);
    assert_eq!(open(medium.clone(), OPTIONS).map(drop), Err(SealedError::Medium(bus)));
    // One that fails when it is asked for a verdict.
    medium.1.borrow_mut().query = Some(bad);
    let mut reader = open(medium.clone(), OPTIONS).expect("a reader");
    medium.1.borrow_mut().query = Some(bus);
    assert_eq!(reader.verdict(1, 3), Err(bus));
    assert_eq!(reader.verdict(1, 2), Ok(Verdict::Sealed { serial: 12 }), "nothing to be asked");
}

#[test]
fn a_card_is_not_asked_what_is_blank() {
    let mut hand = three();
    hand.spoil(1, 2);
    let medium = Scripted::new(&hand.medium);
    let card = SealedOptions { medium: SealedMedium::Card, ..OPTIONS };
    let mut reader = open(medium.clone(), card).expect("a reader");
    assert_eq!((read(&mut reader, 1, 1), read(&mut reader, 1, 2)), (Ok(1), Ok(0)));
    assert_eq!(medium.1.borrow().queries, 0);
    assert!(open(medium.clone(), OPTIONS).is_ok());
    assert!(medium.1.borrow().queries > 0);
}

#[test]
fn a_bus_that_fails_opens_and_reads_nothing() {
    let hand = three();
    let medium = Scripted::new(&hand.medium);
    let bus = FlashCause::Driver(5);
    let mut reader = open(medium.clone(), OPTIONS).expect("a reader");
    medium.1.borrow_mut().read = Some((0..u64::MAX, bus));
    assert_eq!((read(&mut reader, 1, 0), reader.verdict(1, 0)), (Err(bus), Err(bus)));
    assert_eq!(open(medium, OPTIONS).map(drop), Err(SealedError::Medium(bus)));
}

#[test]
fn a_reader_answers_for_units_that_the_medium_has() {
    let hand = three();
    let mut reader = open(hand.medium.clone(), OPTIONS).expect("a reader");
    let size = reader.geometry();
    assert_eq!((size.prog_size(), size.block_count()), (72, BLOCKS));
    let outside = Err(FlashCause::OutOfBounds { size: size.size() });
    assert_eq!(reader.verdict(BLOCKS as u32 - 1, 9), Ok(Verdict::Absent));
    assert_eq!(reader.verdict(BLOCKS as u32, 0), outside);
    assert_eq!(reader.verdict(0, 10), outside);
    let blank = |reader: &mut Reader<SharedFlash>, address, len| {
        reader.is_blank(address, len, &mut []).map_err(|error| error.cause)
    };
    assert_eq!(blank(&mut reader, 0, 72), Ok(false), "nothing can be programmed");
    assert_eq!(blank(&mut reader, size.size(), 72), Err(FlashCause::OutOfBounds { size: size.size() }));
    let mut whole = [0; 216];
    reader.read(u64::from(size.erase_size()), &mut whole).expect("three units");
    assert_eq!(whole, [1; 216]);
    let misaligned = reader.read(1, &mut whole).map_err(|error| error.cause);
    assert_eq!(misaligned, Err(FlashCause::Misaligned { multiple: 72 }));
    assert_eq!(reader.sync(), Ok(()));
    for refused in [reader.prog(0, &[0; 72]), reader.erase(0, size.erase_size().into())] {
        assert_eq!(refused.map_err(|error| error.cause), Err(FlashCause::ReadOnly));
    }
}
