//! What a trusted store holds: records, and the logs in which stores that are not atomic keep them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::OnceLock;

use arbitrary::{Result, Unstructured};
use atrest_device::{FlashDevice as _, FlashGeometry, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError};
use atrest_flash::sealed::store::{
    CounterStore, ENTRY_LEN, ElementSlots, FRAME_LEN, MonotonicCounter, PageStore, SlotStore,
};
use atrest_flash::sealed::{RecordFields, SealedError, SealedMedium, SealedOptions};

use super::rig::{BLOCKS, Bench, KEY, PAYLOAD, Record, State, UNITS, address, bytes_of, fits, read_all};
use crate::crc32;
use crate::medium::{Keeps, Medium};

/// A record, or the log that it is in, changed by somebody.
pub fn sealed_store(data: &[u8]) {
    let mut u = Unstructured::new(data);
    // Where the input ends nothing more is changed.
    let _ = match u.int_in_range(0..=3) {
        Ok(0) => record(&mut u),
        Ok(1) => pages(&mut u),
        Ok(2) => slots(&mut u),
        _ => counter(&mut u),
    };
}

/// Overwrites some bytes, or inverts a bit.
fn edit(bytes: &mut [u8], u: &mut Unstructured<'_>) -> Result<()> {
    let at = u.choose_index(bytes.len())?;
    match u.int_in_range(0..=2)? {
        0 => bytes[at] = u.arbitrary()?,
        1 => bytes[at] ^= 1 << u.int_in_range(0..=7)?,
        _ => {
            let len = u.int_in_range(1..=8)?.min(bytes.len() - at);
            bytes[at..at + len].fill(u.arbitrary()?);
        }
    }
    Ok(())
}

/// A volume as it was after each operation, and the record that the store then held.
struct Moment {
    record: usize,
    medium: Medium,
    state: State,
}

struct History {
    records: Vec<Record>,
    moments: Vec<Moment>,
}

const OPTIONS: SealedOptions = SealedOptions {
    payload: 90,
    tickets: atrest_flash::sealed::Tickets::Slot,
    medium: SealedMedium::Ordered,
    anchor_every: 1,
    reserve: 4,
    read_back: true,
    verify: atrest_flash::sealed::Verify::OnRead,
};

/// Blocks begun, filled and erased again, with syncs between them.
fn history() -> &'static History {
    static HISTORY: OnceLock<History> = OnceLock::new();
    HISTORY.get_or_init(|| {
        let bench = Bench::new(OPTIONS);
        let mut volume = bench.format();
        let mut history = History { records: Vec::new(), moments: Vec::new() };
        let mut state: State = vec![Vec::new(); BLOCKS];
        for step in 0_u32..36 {
            let block = [0, 1, 1, 2, 0, 3, 1][step as usize % 7];
            match step % 5 {
                0 => {
                    volume.erase(address(block, 0), (UNITS * PAYLOAD) as u64).expect("a good medium");
                    state[block].clear();
                }
                4 => volume.sync().expect("a good medium"),
                _ if state[block].len() < UNITS => {
                    let place = address(block, state[block].len());
                    if volume.prog(place, &bytes_of(Some(step + 1))).is_ok() {
                        state[block].push(Some(step + 1));
                    }
                }
                _ => {}
            }
            let record = bench.record.get().expect("it was formatted");
            if history.records.last() != Some(&record) {
                history.records.push(record);
            }
            let (medium, record) = (bench.medium.borrow().copy(), history.records.len() - 1);
            history.moments.push(Moment { record, medium, state: state.clone() });
        }
        history
    })
}

/// A volume with a record that it had, or another, or one that somebody has changed.
fn record(u: &mut Unstructured<'_>) -> Result<()> {
    let History { records, moments } = history();
    let (chosen, moment) = (u.choose_index(records.len())?, u.choose(moments)?);
    let mut record = records[chosen];
    for _ in 0..u.int_in_range(0..=3)? {
        edit(&mut record, u)?;
    }
    fields(&record);
    let bench = Bench::with(moment.medium.copy(), Some(record), OPTIONS);
    match bench.mount() {
        Ok(mut volume) => {
            let genuine = records.iter().position(|genuine| *genuine == said(record));
            let genuine = genuine.expect("a record that was never stored opens a volume");
            let seen = read_all(&mut volume);
            // Nothing older than when it was stored, which was at the end of an operation or before. What is newer may be there:
            // the store itself is not what somebody puts back.
            let stored = moments.iter().take_while(|moment| moment.record < genuine).count();
            let mut since = moments[stored.saturating_sub(1)..].iter();
            let fits = |state: &State| seen.iter().zip(state).all(|(seen, held)| fits(seen, held));
            assert!(since.any(|moment| fits(&moment.state)), "undetected under record {genuine}: {seen:?}");
        }
        Err(SealedError::Medium(cause)) => panic!("{cause}"),
        Err(error) => {
            assert!(said(record) != records[moment.record], "a false alarm: {error}");
            assert!(bench.medium.borrow().bytes == moment.medium.bytes, "a refused medium was changed");
            assert_eq!(bench.record.get(), Some(record), "a refused medium has changed the store");
        }
    }
    Ok(())
}

/// What a record says. Where it names no block that is to be erased, what stands in that place says nothing.
fn said(mut record: Record) -> Record {
    if record[3] & 2 == 0 {
        record[16..34].fill(0);
    }
    record
}

/// What is said without a key is what FORMATS.md says where it lies.
fn fields(record: &Record) {
    let number = |at: usize, len: usize| {
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(&record[at..at + len]);
        u64::from_le_bytes(bytes)
    };
    let (version, reserve) = (record[2], record[3] >> 3);
    match RecordFields::read(record) {
        Ok(read) => {
            assert!(version == 2 && (3..=31).contains(&reserve));
            let RecordFields { closed, anchor, reserve: read, header } = read;
            assert_eq!((closed, anchor, read), (record[3] & 1 == 1, number(4, 5), reserve));
            assert_eq!(header, number(34, 6));
        }
        Err(SealedError::EarlierVersion) => assert!(version < 2),
        Err(SealedError::HandedOver { header }) => {
            assert_eq!((version, reserve, header), (2, 0, number(34, 6)));
        }
        Err(error) => {
            assert_eq!(error, SealedError::LaterVersion);
            assert!(version > 2 || (1..3).contains(&reserve));
        }
    }
    assert_eq!(RecordFields::of(record), RecordFields::read(record).ok());
}

/// Three erase blocks for a log.
fn log() -> Medium {
    let geometry = FlashGeometry::new(1, 16, 512, 3).expect("a geometry");
    Medium::new(geometry, Keeps::Order)
}

/// A record that no other test writes.
fn numbered(number: u8) -> Record {
    [number; TRUSTED_RECORD_LEN]
}

/// Bytes of a frame, and of an entry beside a counter, in prog units.
const FRAME: usize = FRAME_LEN.next_multiple_of(16);
const ENTRY: usize = ENTRY_LEN.next_multiple_of(16);

/// Sequence number and record of a frame whose checksum is right.
fn whole(frame: &[u8]) -> Option<(u32, Record)> {
    let (body, sum) = frame[..FRAME_LEN].split_at(FRAME_LEN - 4);
    let (record, sequence) = body.split_at(TRUSTED_RECORD_LEN);
    let le32 = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
    (le32(sum) == crc32(body)).then(|| (le32(sequence), record.try_into().expect("a record")))
}

/// Changes frames, most of them with checksums that are right afterwards.
fn edit_frames<'b>(frames: impl Iterator<Item = &'b mut [u8]>, u: &mut Unstructured<'_>) -> Result<()> {
    let mut frames: Vec<_> = frames.collect();
    for _ in 0..u.int_in_range(0..=3)? {
        let chosen = u.choose_index(frames.len())?;
        let frame = &mut frames[chosen][..FRAME_LEN];
        edit(frame, u)?;
        if u.ratio(3, 4)? {
            let sum = crc32(&frame[..FRAME_LEN - 4]);
            frame[FRAME_LEN - 4..].copy_from_slice(&sum.to_le_bytes());
        }
    }
    Ok(())
}

/// The record of the highest number; of the first that has it.
fn newest<'b>(frames: impl Iterator<Item = &'b [u8]>) -> Option<(u32, Record)> {
    frames.filter_map(whole).reduce(|newest, next| if newest.0 < next.0 { next } else { newest })
}

fn cells(bytes: &[u8], len: usize) -> impl Iterator<Item = &[u8]> {
    bytes.chunks_exact(512).flat_map(move |block| block.chunks_exact(len))
}

/// A store in pages of flash.
fn pages(u: &mut Unstructured<'_>) -> Result<()> {
    let mut medium = log();
    let mut store = PageStore::<_, FRAME>::new(&mut medium).expect("large enough");
    for number in 0..u.int_in_range(0..=14)? {
        store.store(&numbered(number)).expect("a good medium");
    }
    let frames = medium.bytes.chunks_exact_mut(512).flat_map(|block| block.chunks_exact_mut(FRAME));
    edit_frames(frames, u)?;
    let held = newest(cells(&medium.bytes, FRAME));
    let load = |medium: &mut Medium| PageStore::<_, FRAME>::new(medium).expect("large enough").load();
    match load(&mut medium) {
        Ok(found) => assert_eq!(found, held.map(|(_, record)| record)),
        Err(error) => assert_eq!((error, held), (TrustedStoreError::Damaged, None)),
    }
    // Power may fail meanwhile.
    medium.left = if u.arbitrary()? { Some(u.int_in_range(0..=3)?) } else { None };
    let stored = PageStore::<_, FRAME>::new(&mut medium).expect("large enough").store(&numbered(200));
    match stored {
        Ok(()) => assert_eq!(load(&mut medium), Ok(Some(numbered(200)))),
        Err(TrustedStoreError::WornOut) => assert_eq!(held.map(|(number, _)| number), Some(u32::MAX)),
        Err(error) => {
            assert!(!medium.has_power, "{error}");
            medium.restart(0);
            // What was there, or what was being written.
            if let (Ok(found), Some((_, held))) = (load(&mut medium), held) {
                assert!(found == Some(held) || found == Some(numbered(200)), "{found:?}");
            }
        }
    }
    Ok(())
}

/// Two slots of an element.
struct Element([[u8; FRAME_LEN]; 2]);

impl ElementSlots for &mut Element {
    fn read(&mut self, slot: u8, out: &mut [u8; FRAME_LEN]) -> core::result::Result<(), TrustedStoreError> {
        *out = self.0[usize::from(slot)];
        Ok(())
    }

    fn write(&mut self, slot: u8, bytes: &[u8; FRAME_LEN]) -> core::result::Result<(), TrustedStoreError> {
        self.0[usize::from(slot)] = *bytes;
        Ok(())
    }
}

/// A store in the slots of an element.
fn slots(u: &mut Unstructured<'_>) -> Result<()> {
    let mut element = Element([[0; FRAME_LEN]; 2]);
    let mut store = SlotStore::new(&mut element);
    for number in 0..u.int_in_range(0..=3)? {
        store.store(&numbered(number)).expect("a good element");
    }
    edit_frames(element.0.iter_mut().map(|slot| &mut slot[..]), u)?;
    let held = newest(element.0.iter().map(|slot| &slot[..]));
    match SlotStore::new(&mut element).load() {
        Ok(found) => assert_eq!(found, held.map(|(_, record)| record)),
        Err(error) => assert_eq!((error, held), (TrustedStoreError::Damaged, None)),
    }
    match SlotStore::new(&mut element).store(&numbered(200)) {
        Ok(()) => {
            assert_eq!(SlotStore::new(&mut element).load(), Ok(Some(numbered(200))));
            // The record before it is still there, should this one be torn.
            let kept = held.is_none_or(|held| element.0.iter().any(|slot| whole(slot) == Some(held)));
            assert!(kept, "the newest record was overwritten");
        }
        Err(error) => {
            assert_eq!(error, TrustedStoreError::WornOut);
            assert_eq!(held.map(|(number, _)| number), Some(u32::MAX));
        }
    }
    Ok(())
}

/// A counter that others can't lower.
struct Counter(u64);

impl MonotonicCounter for &mut Counter {
    fn value(&mut self) -> core::result::Result<u64, TrustedStoreError> {
        Ok(self.0)
    }

    fn increment(&mut self) -> core::result::Result<(), TrustedStoreError> {
        self.0 += 1;
        Ok(())
    }
}

/// Entries that were ever written beside a counter, with the log in which they lay last.
struct Entries {
    entries: Vec<[u8; ENTRY]>,
    medium: Medium,
    counter: u64,
}

fn entries() -> &'static Entries {
    static ENTRIES: OnceLock<Entries> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let (medium, mut counter) = (RefCell::new(log()), Counter(7));
        let mut written = BTreeSet::new();
        let mut store = CounterStore::<_, _, ENTRY>::new(&medium, &mut counter, &KEY).expect("large enough");
        for number in 0..9 {
            if number == 4 {
                store.claim().expect("a good medium");
            }
            store.store(&numbered(number)).expect("a good medium");
            let medium = medium.borrow();
            let used = cells(&medium.bytes, ENTRY).filter(|cell| cell.iter().any(|byte| *byte != 0xff));
            written.extend(used.map(|cell| <[u8; ENTRY]>::try_from(cell).expect("a cell")));
        }
        drop(store);
        let entries: Vec<_> = written.into_iter().collect();
        assert!(entries.len() >= 11, "{} entries", entries.len());
        Entries { entries, medium: medium.into_inner(), counter: counter.0 }
    })
}

/// A log that anybody can write, beside a counter that nobody can lower.
fn counter(u: &mut Unstructured<'_>) -> Result<()> {
    let Entries { entries, medium, counter } = entries();
    let (mut medium, mut counter) = (medium.copy(), Counter(*counter));
    for _ in 0..u.int_in_range(0..=6)? {
        let mut places: Vec<_> =
            medium.bytes.chunks_exact_mut(512).flat_map(|block| block.chunks_exact_mut(ENTRY)).collect();
        let chosen = u.choose_index(places.len())?;
        match u.int_in_range(0..=3)? {
            0 => places[chosen].fill(0xff),
            1 => edit(places[chosen], u)?,
            _ => places[chosen].copy_from_slice(u.choose(entries)?),
        }
    }
    // It may have risen, and never falls.
    counter.0 += u.int_in_range(0..=2)?;
    let genuine = |record: &Record, number: u64| {
        let is = |entry: &[u8; ENTRY]| {
            entry.starts_with(record) && entry[TRUSTED_RECORD_LEN..][..8] == number.to_le_bytes()
        };
        entries.iter().any(is)
    };
    let shown = counter.0;
    let mut store = CounterStore::<_, _, ENTRY>::new(&mut medium, &mut counter, &KEY).expect("large enough");
    match store.load() {
        Ok(Some(record)) => assert!(genuine(&record, shown), "a record that was not stored under {shown}"),
        Ok(None) => {}
        Err(error) => assert_eq!(error, TrustedStoreError::Damaged),
    }
    if store.store(&numbered(200)).is_ok() {
        drop(store);
        assert!(counter.0 > shown, "a record without an increment");
        let mut store =
            CounterStore::<_, _, ENTRY>::new(&mut medium, &mut counter, &KEY).expect("large enough");
        assert_eq!(store.load(), Ok(Some(numbered(200))));
    }
    Ok(())
}
