//! Beside a counter: which serials a record may allow, and what an opening claims.

use std::cell::RefCell;
use std::rc::Rc;

use atrest_device::{FlashCause, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError};
use atrest_secret::Random;
use atrest_testkit::flash::TrustedMemory;

use super::super::error::SealedError;
use super::super::options::SealedOptions;
use super::super::record::Record;
use super::super::serial::SERIAL_END;
use super::super::volume::SealedFlash;
use super::std::vec::Vec;
use super::{
    BLOCKS, BlockState, ByHand, FIRST, KEY, OPTIONS, OsRandom, RESERVE, SealedKey, SharedFlash, std, vec,
};

/// A store of which a counter says how many records it can have held. Its clones are one store.
#[derive(Clone)]
struct Beside(TrustedMemory, Rc<RefCell<Said>>);

#[derive(Default)]
struct Said {
    records: Option<u64>,
    claims: u32,
    /// Of claims, and of the question how many records there were.
    error: Option<TrustedStoreError>,
}

impl Beside {
    fn new(store: TrustedMemory, records: Option<u64>) -> Self {
        Self(store, Rc::new(RefCell::new(Said { records, ..Said::default() })))
    }

    fn claims(&self) -> u32 {
        self.1.borrow().claims
    }
}

impl TrustedStore for Beside {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        self.0.load()
    }

    fn claim(&mut self) -> Result<(), TrustedStoreError> {
        let mut said = self.1.borrow_mut();
        said.claims += 1;
        if said.records.is_none() { said.error.map_or(Ok(()), Err) } else { Ok(()) }
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        self.0.store(record)
    }

    fn stored_at_most(&mut self) -> Result<Option<u64>, TrustedStoreError> {
        let said = self.1.borrow();
        match said.error {
            Some(error) if said.records.is_some() => Err(error),
            _ => Ok(said.records),
        }
    }
}

type Volume =
    SealedFlash<atrest_cipher::aead::ChaCha20Poly1305, SharedFlash, Beside, Vec<BlockState>, Vec<u8>>;

/// Mounts, adopts or formats.
type How = fn(
    SharedFlash,
    Beside,
    &SealedKey<'_>,
    SealedOptions,
    Vec<BlockState>,
    Vec<u8>,
    &mut dyn Random,
) -> Result<Volume, SealedError>;

fn open(hand: &ByHand, store: &Beside, how: How) -> Result<Volume, SealedError> {
    let (table, buffer) = (vec![BlockState::VOID; BLOCKS as usize], vec![0; FIRST]);
    how(hand.medium.clone(), store.clone(), &KEY, hand.options, table, buffer, &mut OsRandom)
}

const WINDOW: u64 = 1 << RESERVE;
/// Serials that a record allows beside a counter: docs/SEALED-FLASH.md.
const SHARE: u64 = 1 << 16;

#[test]
fn a_record_allows_no_serial_behind_those_of_its_number() {
    let record = |limit: u64| {
        let hand = ByHand::new();
        Record { anchor: limit - WINDOW, ..hand.record }
    };
    for records in [0, 1, 7, (1 << 24) - 2] {
        let unused = (records + 1) * SHARE;
        assert_eq!(record(unused).check_counter(Some(records)), Ok(()), "{records}");
        let behind = SealedError::CounterBehind { limit: unused + 1, unused };
        assert_eq!(record(unused + 1).check_counter(Some(records)), Err(behind), "{records}");
    }
    // No number of records has the last serials, nor one that is not a counter's any more.
    for records in [(1 << 24) - 1, u64::MAX - 1, u64::MAX] {
        assert_eq!(record(SERIAL_END).check_counter(Some(records)), Ok(()), "{records}");
        let behind = SealedError::CounterBehind { limit: SERIAL_END + 1, unused: SERIAL_END };
        assert_eq!(record(SERIAL_END + 1).check_counter(Some(records)), Err(behind), "{records}");
    }
    assert_eq!(record(SERIAL_END + 1).check_counter(None), Ok(()), "without a counter nothing is known");
}

#[test]
fn a_record_of_another_counter_is_refused_and_nothing_is_changed() {
    let hand = |limit: u64, clean: bool| {
        let mut hand = ByHand::new();
        (hand.record.anchor, hand.record.clean) = (limit - WINDOW, clean);
        hand.anchored(1, &[10], 1);
        hand
    };
    let cases: [(How, bool); 3] = [(Volume::mount, false), (Volume::mount, true), (Volume::adopt, false)];
    for (how, clean) in cases {
        let store = |hand: &ByHand| Beside::new(hand.store(), Some(4));
        let within = hand(5 * SHARE, clean);
        assert!(open(&within, &store(&within), how).is_ok());
        let behind = hand(5 * SHARE + 1, clean);
        let store = store(&behind);
        let before = (store.0.record(), behind.medium.lock().image().to_bytes());
        let refused = SealedError::CounterBehind { limit: 5 * SHARE + 1, unused: 5 * SHARE };
        assert_eq!(open(&behind, &store, how).map(drop), Err(refused));
        assert!((store.0.record(), behind.medium.lock().image().to_bytes()) == before && store.claims() == 0);
    }
}

#[test]
fn a_reserve_of_more_than_a_record_may_allow_is_refused_beside_a_counter_alone() {
    for (reserve, records, opens) in [(16, Some(4), true), (17, Some(4), false), (17, None, true)] {
        let outcome = |result: Result<Volume, SealedError>| {
            let expected = if opens { Ok(()) } else { Err(SealedError::Option) };
            assert_eq!(result.map(drop), expected, "{reserve}, {records:?}");
        };
        let mut hand = ByHand::with(SealedOptions { reserve, ..OPTIONS });
        let empty = Beside::new(TrustedMemory::new(), records);
        outcome(open(&hand, &empty, Volume::format));
        assert_eq!(empty.0.record().is_some(), opens, "nothing is stored");
        outcome(open(&hand, &empty, Volume::format_over));
        hand.anchored(1, &[10], 1);
        outcome(open(&hand, &Beside::new(hand.store(), records), Volume::mount));
        outcome(open(&hand, &Beside::new(hand.store(), records), Volume::adopt));
    }
}

#[test]
fn a_volume_made_beside_a_counter_begins_behind_all_that_it_can_have_seen() {
    for (records, first) in [(None, 1), (Some(0), SHARE), (Some(6), 7 * SHARE)] {
        let store = Beside::new(TrustedMemory::new(), records);
        let volume = open(&ByHand::new(), &store, Volume::format).expect("format");
        assert_eq!((volume.next, volume.start, volume.anchor), (first, first, first));
    }
    for records in [(1 << 24) - 1, u64::MAX] {
        let store = Beside::new(TrustedMemory::new(), Some(records));
        let refused = open(&ByHand::new(), &store, Volume::format).map(drop);
        assert_eq!((refused, store.0.record()), (Err(SealedError::WornOut), None));
    }
}

/// The record that is written is one more than those that there were.
#[test]
fn no_record_is_written_that_allows_more_than_its_number_does() {
    let store = Beside::new(TrustedMemory::new(), Some(0));
    let mut volume = open(&ByHand::new(), &store, Volume::format).expect("format");
    for (records, end) in [(0, 2 * SHARE), (1, 3 * SHARE), ((1 << 24) - 3, ((1 << 24) - 1) * SHARE)] {
        store.1.borrow_mut().records = Some(records);
        volume.next = end - WINDOW;
        assert_eq!(volume.close(), Ok(()), "{records}");
        (volume.next, volume.clean) = (end - WINDOW + 1, false);
        let before = store.0.record();
        assert_eq!(volume.close(), Err(FlashCause::WornOut), "{records}");
        assert_eq!(store.0.record(), before);
        volume.clean = false;
    }
    for records in [(1 << 24) - 2, u64::MAX] {
        store.1.borrow_mut().records = Some(records);
        (volume.next, volume.clean) = (1, false);
        assert_eq!(volume.close(), Err(FlashCause::WornOut), "{records}");
    }
    store.1.borrow_mut().error = Some(TrustedStoreError::Driver(2));
    assert_eq!(volume.close(), Err(FlashCause::TrustedStore(TrustedStoreError::Driver(2))));
}

#[test]
fn a_record_that_nobody_replaces_is_claimed_once_and_one_that_is_replaced_is_not() {
    for (clean, claims, writes) in [(true, 1, 0), (false, 0, 1)] {
        let mut hand = ByHand::new();
        hand.record.clean = clean;
        hand.anchored(1, &[10], 1);
        let store = Beside::new(hand.store(), None);
        open(&hand, &store, Volume::mount).expect("mount");
        assert_eq!((store.claims(), store.0.count()), (claims, writes), "closed: {clean}");
    }
    let mut hand = ByHand::new();
    hand.record.clean = true;
    hand.anchored(1, &[10], 1);
    let store = Beside::new(hand.store(), None);
    let failed = TrustedStoreError::WornOut;
    store.1.borrow_mut().error = Some(failed);
    assert_eq!(open(&hand, &store, Volume::mount).map(drop), Err(SealedError::Store(failed)));
    // Not before the medium is found to be good.
    hand.wipe(1, 0);
    let store = Beside::new(hand.store(), None);
    assert!(open(&hand, &store, Volume::mount).is_err() && store.claims() == 0);
}

#[test]
fn a_counter_that_fails_opens_and_makes_nothing() {
    let failed = TrustedStoreError::Driver(9);
    let silent = |store: TrustedMemory| {
        let store = Beside::new(store, Some(4));
        store.1.borrow_mut().error = Some(failed);
        store
    };
    let mut hand = ByHand::new();
    assert_eq!(
        open(&hand, &silent(hand.store()), Volume::format_over).map(drop),
        Err(SealedError::Store(failed))
    );
    hand.anchored(1, &[10], 1);
    let opening: [How; 2] = [Volume::mount, Volume::adopt];
    for how in opening {
        assert_eq!(open(&hand, &silent(hand.store()), how).map(drop), Err(SealedError::Store(failed)));
    }
}
