//! Journals: what each rule is for. `journal_histories.rs` tries everything at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use atrest_device::{BlockDevice as _, Cause, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError};
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{JOURNAL_HEAD, Keys, Record};
use atrest_sealedvolume::store::{MemoryStore, ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::{Access, Freshness, JournalSettings, OpenError, Settings, VolumeError};
use atrest_secret::VolumeKey;
use atrest_testkit::wait_until;

use crate::rig::disk::Disk;
use crate::rig::plain::{Cell, Plain, settings};
use crate::rig::through::through;

const BATCH: usize = 8;
const HOUR: Duration = Duration::from_secs(3600);

/// A store that stores nothing while it is shut.
#[derive(Default)]
struct Door {
    objects: MemoryStore,
    shut: AtomicBool,
    /// Of log objects behind so many it says that it stores them, and does not; 0 for none.
    honest: AtomicU64,
    /// Of log objects behind so many it takes none; 0 for all.
    most: AtomicU64,
    /// Log objects that were put.
    logs: AtomicU64,
}

impl ObjectStore for Door {
    through!(objects: put, get, get_range, list_after, delete);

    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        if self.shut.load(Ordering::SeqCst) {
            return Err(StoreError::Silent);
        }
        let is_log = name.starts_with('l');
        let before = self.logs.fetch_add(u64::from(is_log), Ordering::SeqCst);
        let honest = self.honest.load(Ordering::SeqCst);
        if is_log && honest > 0 && before >= honest {
            return Ok(Put::Stored);
        }
        let most = self.most.load(Ordering::SeqCst);
        if is_log && most > 0 && before >= most {
            return Err(StoreError::Silent);
        }
        self.objects.put_new(name, bytes)
    }
}

struct Rig {
    plain: Plain,
    door: Arc<Door>,
    disk: Arc<Disk>,
}

impl Rig {
    fn new() -> Self {
        let door = Arc::new(Door::default());
        let plain = Plain::new(Arc::clone(&door) as _, 256, 1);
        Self { plain, door, disk: Arc::new(Disk::new(JournalSettings::least_size(BATCH) as usize)) }
    }

    fn settings(&self, max_lag: Duration, forgo_journal: bool) -> Settings {
        let journal = JournalSettings { device: Arc::clone(&self.disk) as _, max_lag };
        Settings { journal: Some(journal), forgo_journal, ..settings(BATCH) }
    }

    fn open(&self) -> Result<SealedVolume, OpenError> {
        self.plain.open_with(Access::Write, self.settings(HOUR, false))
    }

    fn forgo(&self) -> Result<SealedVolume, OpenError> {
        self.plain.open_with(Access::Write, self.settings(HOUR, true))
    }

    fn shut(&self, shut: bool) {
        self.door.shut.store(shut, Ordering::SeqCst);
    }
}

fn write(volume: &SealedVolume, block: u64, value: u8) {
    volume.write_at(block * 4096, &[value; 4096]).expect("it is written");
}

fn byte(volume: &SealedVolume, block: u64) -> u8 {
    let mut buf = [0; 4096];
    volume.read_at(block * 4096, &mut buf).expect("it is read");
    assert!(buf.iter().all(|byte| *byte == buf[0]), "a block is of two writes");
    buf[0]
}

#[test]
fn a_flush_rests_on_the_journal_while_the_store_takes_nothing_and_the_next_opening_stores_it() {
    let rig = Rig::new();
    let volume = rig.open().expect("it opens");
    write(&volume, 1, 1);
    volume.flush().expect("a flush");
    rig.shut(true);
    write(&volume, 2, 2);
    volume.discard(4096, 4096).expect("a trim");
    volume.flush().expect("a flush while the store takes nothing");
    drop(volume);
    rig.shut(false);
    // Nobody opens it past the journal.
    assert_eq!(rig.plain.open(Access::Write).err(), Some(OpenError::JournalNeeded));
    assert_eq!(rig.plain.open(Access::Read).err(), Some(OpenError::JournalNeeded));
    let early = rig.plain.open_with(Access::Read, Settings { forgo_journal: true, ..settings(BATCH) });
    assert_eq!(byte(&early.expect("whoever wants reads what is stored"), 2), 0);

    let volume = rig.open().expect("it opens");
    assert_eq!((byte(&volume, 1), byte(&volume, 2)), (0, 2));
    volume.close().expect("it is closed");
    // Nothing is owed now, with the journal or without.
    for journal in [false, true] {
        let volume = if journal { rig.open() } else { rig.plain.open(Access::Write) }.expect("it opens");
        assert_eq!((byte(&volume, 1), byte(&volume, 2)), (0, 2));
        volume.close().expect("it is closed");
    }
}

#[test]
fn flushes_become_few_objects_and_one_that_waits_goes_up_by_itself() {
    let rig = Rig::new();
    let volume = rig.open().expect("it opens");
    let before = rig.door.logs.load(Ordering::SeqCst);
    for value in 1..=40 {
        write(&volume, u64::from(value) % 5, value);
        volume.flush().expect("a flush");
    }
    // What does not fit the journal must be stored, so a few are.
    let made = rig.door.logs.load(Ordering::SeqCst) - before;
    assert!(made <= 20, "{made} objects for 40 flushes");
    assert!(rig.disk.flushes() >= 40, "each flush is one of the disk");
    drop(volume);

    let lag = Duration::from_millis(40);
    let volume = rig.plain.open_with(Access::Write, rig.settings(lag, false)).expect("it opens");
    write(&volume, 9, 9);
    volume.flush().expect("a flush");
    let stored = || rig.plain.open_with(Access::Read, Settings { forgo_journal: true, ..settings(BATCH) });
    wait_until("it is stored", || byte(&stored().expect("it opens"), 9) == 9);
    drop(volume);
}

/// A journal does not let more wait than is said: then a flush waits for the store, and fails with it.
#[test]
fn what_waits_for_longer_than_it_may_is_waited_for() {
    let rig = Rig::new();
    let volume = rig.plain.open_with(Access::Write, rig.settings(Duration::ZERO, false)).expect("it opens");
    rig.shut(true);
    write(&volume, 1, 1);
    std::thread::sleep(Duration::from_millis(2));
    let told = volume.flush().expect_err("the store takes nothing");
    assert_eq!(told.cause, Cause::Silent);
    assert_eq!(volume.flush().expect_err("it failed").cause, Cause::EarlierFlushFailed);
    drop(volume);
    rig.shut(false);
    assert_eq!(byte(&rig.open().expect("it opens"), 1), 1, "it was in the journal all the same");
}

#[test]
fn an_older_journal_another_one_or_none_is_told_and_nothing_is_written() {
    let rig = Rig::new();
    let volume = rig.open().expect("it opens");
    write(&volume, 1, 1);
    volume.flush().expect("a flush");
    let older = rig.disk.bytes();
    write(&volume, 1, 2);
    volume.flush().expect("a flush");
    let newest = rig.disk.bytes();
    drop(volume);
    let objects = rig.plain.objects();

    let other = {
        let other = Rig { plain: Plain::in_memory(256), ..Rig::new() };
        let keys = Keys::new(&VolumeKey::copy_from(&[9; 32]), [2; 16]).expect("keys");
        let plain = Plain { keys, ..Plain::new(Arc::new(MemoryStore::new()), 256, 2) };
        let other = Rig { plain, ..other };
        drop(other.open().expect("another volume"));
        other.disk.bytes()
    };
    let mut foreign = newest.clone();
    foreign[0] ^= 1;
    let mut cut = newest.clone();
    cut[4096..].fill(0);
    let blank = vec![0; newest.len()];
    for (what, bytes, error) in [
        ("an older one", &older, OpenError::JournalOlder { anchored: 2, found: 1 }),
        ("one that was cut", &cut, OpenError::JournalOlder { anchored: 2, found: 0 }),
        ("another volume's", &other, OpenError::JournalOfAnother),
        ("what is no journal", &foreign, OpenError::JournalForeign),
        ("a new one", &blank, OpenError::JournalNeeded),
    ] {
        rig.disk.put(bytes);
        assert_eq!(rig.open().err(), Some(error), "{what}");
        assert!(rig.disk.bytes() == *bytes, "{what} was written to");
    }
    assert!(rig.plain.objects() == objects, "something was stored");
    rig.disk.put(&newest);
    assert_eq!(byte(&rig.open().expect("it opens"), 1), 2);
}

/// A volume with one flush, and a copy of it with all that belongs to it.
fn two_copies() -> (Rig, Rig) {
    let rig = Rig::new();
    let volume = rig.open().expect("it opens");
    write(&volume, 1, 1);
    volume.flush().expect("a flush");
    drop(volume);
    let copy = Rig::new();
    for (name, bytes) in rig.plain.objects() {
        copy.door.objects.put(&name, &bytes).expect("a copy");
    }
    copy.disk.put(&rig.disk.bytes());
    *copy.plain.cell.0.lock().expect("the cell") = *rig.plain.cell.0.lock().expect("the cell");
    (rig, copy)
}

/// A volume is copied with all that belongs to it, and both copies are written: neither takes the other's journal.
#[test]
fn the_journal_of_another_copy_of_the_volume_is_told_by_its_chain_value() {
    let (rig, copy) = two_copies();
    for (rig, value) in [(&rig, 2), (&copy, 3)] {
        let volume = rig.open().expect("it opens");
        write(&volume, 2, value);
        volume.flush().expect("a flush");
    }
    let (own, others) = (rig.disk.bytes(), copy.disk.bytes());
    rig.disk.put(&others);
    let told = rig.open().err();
    assert!(
        matches!(told, Some(OpenError::JournalOlder { anchored, found }) if anchored == found),
        "{told:?}"
    );
    rig.disk.put(&own);
    let volume = rig.open().expect("it opens");
    assert_eq!((byte(&volume, 1), byte(&volume, 2)), (1, 2));

    // Here everything is stored, so that the trusted store names no record that is owed. There more was flushed.
    volume.checkpoint().expect("everything is stored");
    drop(volume);
    let own = rig.disk.bytes();
    let volume = copy.open().expect("it opens");
    for value in 4..6 {
        write(&volume, 3, value);
        volume.flush().expect("a flush");
    }
    drop(volume);
    rig.disk.put(&copy.disk.bytes());
    let told = rig.open().err();
    assert!(matches!(told, Some(OpenError::JournalBranch { .. })), "{told:?}");
    rig.disk.put(&own);
    assert_eq!(byte(&rig.open().expect("it opens"), 3), 0);
}

/// The other copy's journal ends with the very record up to which the log covers the own one.
#[test]
fn the_journal_of_another_copy_is_told_where_both_end_with_the_same_number() {
    let (rig, copy) = two_copies();
    for (rig, value, is_stored) in [(&rig, 2, true), (&copy, 3, false)] {
        let volume = rig.open().expect("it opens");
        write(&volume, 2, value);
        volume.flush().expect("a flush");
        if is_stored {
            volume.checkpoint().expect("everything is stored");
        }
        drop(volume);
    }
    let own = rig.disk.bytes();
    rig.disk.put(&copy.disk.bytes());
    let told = rig.open().err();
    assert!(matches!(told, Some(OpenError::JournalBranch { .. })), "{told:?}");
    rig.disk.put(&own);
    assert_eq!(byte(&rig.open().expect("it opens"), 2), 2);
}

/// A record has what was written between two flushes, in the order of places. However much of a journal is stored when the session ends that has
/// taken it over, that is a state that the volume had.
#[test]
fn what_is_stored_of_a_journal_ends_with_a_whole_record() {
    const RECORDS: [u64; 3] = [3, 2, 2];
    let mut counts = BTreeSet::new();
    for (objects, waits) in (1..4).flat_map(|objects| [(objects, false), (objects, true)]) {
        let rig = Rig::new();
        let volume = rig.open().expect("it opens");
        rig.shut(true);
        for (record, blocks) in RECORDS.iter().enumerate() {
            (0..*blocks).rev().for_each(|block| write(&volume, record as u64 * 16 + block, 1));
            volume.flush().expect("a flush");
        }
        drop(volume);
        // One of them may be about to store something.
        wait_until("its threads have ended", || Arc::strong_count(&rig.door) == 2);
        rig.shut(false);
        rig.door.most.store(rig.door.logs.load(Ordering::SeqCst) + objects, Ordering::SeqCst);
        // Batches of another size, so that they do not end where those before ended.
        let settings = Settings { batch: 4, ..rig.settings(HOUR, false) };
        if let Ok(volume) = rig.plain.open_with(Access::Write, settings)
            && waits
        {
            // It fails where the store takes nothing more.
            let _ = volume.checkpoint();
        }
        rig.door.most.store(0, Ordering::SeqCst);
        let volume = rig.forgo().expect("it opens");
        let stored = RECORDS.iter().enumerate().map(|(record, blocks)| {
            let stored = (0..*blocks).filter(|block| byte(&volume, record as u64 * 16 + block) == 1).count();
            assert!(stored == 0 || stored as u64 == *blocks, "{stored} of {blocks} blocks of a record");
            stored > 0
        });
        let stored: Vec<bool> = stored.collect();
        assert!(stored.is_sorted_by(|before, after| before >= after), "{stored:?}");
        counts.insert(stored.iter().filter(|stored| **stored).count());
    }
    assert_eq!(counts, BTreeSet::from([0, 1, 3]), "records that one more object brings");
}

/// What a power loss took away, and the next session has not seen, does not come back later: whoever kept the lost end of the journal.
#[test]
fn what_was_lost_with_the_power_does_not_come_back() {
    let rig = Rig::new();
    let volume = rig.open().expect("it opens");
    write(&volume, 1, 1);
    volume.flush().expect("a flush");
    let flushed = rig.disk.bytes();
    rig.shut(true);
    // A full batch is recorded, and nobody has synchronised that.
    (1..=BATCH as u64).for_each(|block| write(&volume, block, 5));
    let lost = rig.disk.bytes();
    assert!(lost != flushed, "nothing is recorded");
    drop(volume);
    rig.shut(false);

    rig.disk.put(&flushed);
    let volume = rig.open().expect("it opens");
    assert_eq!((byte(&volume, 1), byte(&volume, 2)), (1, 0));
    volume.add_snapshot("as it is").expect("a snapshot");
    drop(volume);
    let newest = rig.disk.bytes();
    rig.disk.put(&lost);
    let told = rig.open().err();
    assert!(
        matches!(told, Some(OpenError::JournalOlder { .. } | OpenError::JournalBranch { .. })),
        "{told:?}"
    );
    rig.disk.put(&newest);
    let volume = rig.open().expect("it opens");
    assert_eq!((byte(&volume, 1), byte(&volume, 2)), (1, 0));
}

/// A trusted store that is read, and fails when it is written.
struct Stuck(Cell);

impl TrustedStore for Stuck {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        self.0.load()
    }

    fn store(&mut self, _: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        Err(TrustedStoreError::Driver(5))
    }
}

/// A session that has begun without the journal, and was not anchored, gives up nothing of it. One that has begun a journal, and was not anchored
/// either, asks for that journal.
#[test]
fn a_begin_that_is_not_anchored_takes_nothing_away() {
    let rig = Rig::new();
    let begin = |settings: Settings| {
        let freshness = Freshness::Record(Box::new(Stuck(rig.plain.cell.clone())));
        let (store, keys) = (Arc::clone(&rig.plain.store), rig.plain.keys.clone());
        let told = SealedVolume::open(store, keys, freshness, Access::Write, settings).err();
        assert_eq!(told, Some(OpenError::Trusted(TrustedStoreError::Driver(5))));
    };
    begin(rig.settings(HOUR, false));
    assert_eq!(rig.plain.open(Access::Write).err(), Some(OpenError::JournalNeeded));
    let volume = rig.open().expect("it opens");
    write(&volume, 1, 1);
    volume.flush().expect("a flush");
    drop(volume);
    let older = rig.disk.bytes();
    let volume = rig.open().expect("it opens");
    write(&volume, 1, 2);
    volume.flush().expect("a flush");
    drop(volume);
    begin(Settings { forgo_journal: true, ..settings(BATCH) });
    assert_eq!(rig.plain.open(Access::Write).err(), Some(OpenError::JournalNeeded));
    let newer = rig.disk.bytes();
    rig.disk.put(&older);
    assert!(matches!(rig.open().err(), Some(OpenError::JournalOlder { .. })));
    rig.disk.put(&newer);
    assert_eq!(byte(&rig.open().expect("it opens"), 1), 2);
}

/// A trusted store that takes no record without a journal.
struct BeforeTheEnd(Cell);

impl TrustedStore for BeforeTheEnd {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        self.0.load()
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        match Record::decode(record).expect("a record").journal {
            Some(_) => self.0.store(record),
            None => Err(TrustedStoreError::Driver(5)),
        }
    }
}

/// The record still names a record of a journal that was closed. Of another journal, which came into use since, it says nothing.
#[test]
fn what_the_record_names_of_a_journal_that_was_closed_is_not_looked_for_in_the_next_one() {
    let mut rig = Rig::new();
    let open = |rig: &Rig, trusted: Box<dyn TrustedStore + Send>| {
        let (store, keys) = (Arc::clone(&rig.plain.store), rig.plain.keys.clone());
        SealedVolume::open(store, keys, Freshness::Record(trusted), Access::Write, rig.settings(HOUR, false))
    };
    let volume = open(&rig, Box::new(BeforeTheEnd(rig.plain.cell.clone()))).expect("it opens");
    for value in 1..=3 {
        write(&volume, 1, value);
        volume.flush().expect("a flush");
    }
    assert!(volume.close().is_err(), "the last record is not written");
    let other = Arc::new(Disk::new(rig.disk.bytes().len()));
    let closed = std::mem::replace(&mut rig.disk, other);
    let told = open(&rig, Box::new(Stuck(rig.plain.cell.clone()))).err();
    assert_eq!(told, Some(OpenError::Trusted(TrustedStoreError::Driver(5))));
    let volume = rig.open().expect("it opens with the journal that came into use");
    assert_eq!(byte(&volume, 1), 3);
    write(&volume, 1, 4);
    volume.flush().expect("a flush");
    drop(volume);
    let used = std::mem::replace(&mut rig.disk, closed);
    assert_eq!(rig.open().err(), Some(OpenError::JournalNeeded));
    rig.disk = used;
    assert_eq!(byte(&rig.open().expect("it opens"), 1), 4);
}

/// Whoever learns that somebody else writes acknowledges nothing any more, though the journal would take it.
#[test]
fn a_writer_that_was_fenced_flushes_nothing_to_its_journal() {
    let rig = Rig::new();
    let first = rig.open().expect("it opens");
    let other = rig.plain.open_with(Access::Write, Settings { forgo_journal: true, ..settings(BATCH) });
    drop(other.expect("another writer"));
    // A full batch is stored by a thread, which meets the other one's begin.
    for block in 1..=BATCH as u64 {
        // The last one may be told already.
        let _ = first.write_at(block * 4096, &[1; 4096]);
    }
    wait_until("it is told", || first.flush().is_err());
    assert_eq!(first.flush().expect_err("it is fenced").cause, Cause::EarlierFlushFailed);
}

/// Two journals of one volume: one that is empty does not stand for the one that flushes are in.
#[test]
fn another_journal_of_the_volume_is_not_the_one_that_is_needed() {
    let rig = Rig::new();
    rig.open().expect("it opens").close().expect("it is closed");
    let empty = rig.disk.bytes();
    rig.disk.put(&vec![0; empty.len()]);
    let volume = rig.open().expect("it opens");
    write(&volume, 1, 1);
    volume.flush().expect("a flush");
    drop(volume);
    let needed = rig.disk.bytes();
    rig.disk.put(&empty);
    assert_eq!(rig.open().err(), Some(OpenError::JournalNeeded));
    assert!(rig.disk.bytes() == empty, "it was written to");
    rig.disk.put(&needed);
    assert_eq!(byte(&rig.open().expect("it opens"), 1), 1);
}

/// Each opening takes room in the journal, also one that comes to nothing. However many there are, one that succeeds finds room, wherever in
/// a half the last record ends that fits.
#[test]
fn openings_that_come_to_nothing_do_not_use_the_journal_up() {
    for more in (0..20).map(|heads| 2 * heads * JOURNAL_HEAD) {
        let mut rig = Rig::new();
        rig.disk = Arc::new(Disk::new(JournalSettings::least_size(BATCH) as usize + more));
        let volume = rig.open().expect("it opens");
        rig.shut(true);
        let mut value = 0;
        while volume.flush().is_ok() {
            value += 1;
            write(&volume, 1, value);
        }
        drop(volume);
        for _ in 0..40 {
            assert!(rig.open().is_err(), "nothing can be stored");
        }
        rig.shut(false);
        let volume = rig.open().expect("it opens");
        assert_eq!(byte(&volume, 1), value - 1, "the last one was not flushed");
        volume.close().expect("it is closed");
    }
}

/// Whoever goes on without the journal gives up what only it holds. It is not overwritten by mistake, and not replayed later.
#[test]
fn what_was_given_up_stays_in_the_journal_until_somebody_says_that_it_goes() {
    let rig = Rig::new();
    let volume = rig.open().expect("it opens");
    write(&volume, 1, 1);
    volume.flush().expect("a flush");
    drop(volume);
    let volume = rig.plain.open_with(Access::Write, Settings { forgo_journal: true, ..settings(BATCH) });
    let volume = volume.expect("without the journal");
    assert_eq!(byte(&volume, 1), 0);
    write(&volume, 2, 2);
    volume.close().expect("it is closed");

    let left = rig.disk.bytes();
    assert_eq!(rig.open().err(), Some(OpenError::JournalLeft { records: 1 }));
    assert!(rig.disk.bytes() == left, "what is left was written to");
    let volume = rig.forgo().expect("somebody says that it goes");
    assert_eq!((byte(&volume, 1), byte(&volume, 2)), (0, 2));
    write(&volume, 3, 3);
    volume.flush().expect("a flush");
    drop(volume);
    let volume = rig.open().expect("it opens");
    assert_eq!([1, 2, 3].map(|block| byte(&volume, block)), [0, 2, 3]);
}

/// Every bit of a journal in which flushes wait: what is flipped is noticed, or was of nothing that counts.
#[test]
fn a_flipped_bit_of_a_journal_is_never_read_as_data() {
    // Heads, records, and the zeros behind them.
    let parts = [0..100, 4000..4200, 8100..8400, 12_250..12_400, 16_380..16_500];
    let (mut refused, mut alike) = (0, 0);
    for at in parts.into_iter().flatten() {
        let rig = Rig::new();
        let volume = rig.open().expect("it opens");
        for value in 1..=2 {
            write(&volume, value, value as u8);
            volume.flush().expect("a flush");
        }
        drop(volume);
        let mut bytes = rig.disk.bytes();
        bytes[at] ^= 1 << (at % 8);
        rig.disk.put(&bytes);
        match rig.open() {
            Err(
                OpenError::JournalOlder { .. }
                | OpenError::JournalForeign
                | OpenError::JournalOfAnother
                | OpenError::JournalNeeded
                | OpenError::Limit(_),
            ) => {
                refused += 1;
                assert!(rig.disk.bytes() == bytes, "byte {at}: what was refused was written to");
            }
            Err(error) => panic!("byte {at}: {error:?}"),
            Ok(volume) => {
                assert_eq!((byte(&volume, 1), byte(&volume, 2)), (1, 2), "byte {at}");
                alike += 1;
            }
        }
    }
    println!("{refused} refused, {alike} of no account");
    assert!(refused > 400 && alike > 50, "{refused} and {alike}");
}

/// Records that are owed lie in both halves: one that is missing in the middle is not passed over.
#[test]
fn a_record_that_is_missing_between_others_is_told() {
    let rig = Rig::new();
    let volume = rig.open().expect("it opens");
    rig.shut(true);
    for value in 1..=6 {
        write(&volume, 1, value);
        volume.flush().expect("a flush");
    }
    drop(volume);
    rig.shut(false);
    let good = rig.disk.bytes();
    assert!(good[good.len() / 2..].iter().any(|byte| *byte != 0), "the second half is not in use");
    // Head, and two records of two blocks: the third.
    let mut bytes = good.clone();
    bytes[5 * 4096 + 100] ^= 1;
    rig.disk.put(&bytes);
    assert_eq!(rig.open().err(), Some(OpenError::JournalGap { covered: 2, first: 5 }));
    rig.disk.put(&good);
    assert_eq!(byte(&rig.open().expect("it opens"), 1), 6);
}

/// Where the journal has no room, changes are sealed without a record. No record is appended behind them while a store that hides the object
/// could not be found out: it would be applied without what came before it.
#[test]
fn nothing_is_recorded_behind_changes_that_a_store_can_take_back() {
    let rig = Rig::new();
    let volume = rig.open().expect("it opens");
    rig.shut(true);
    // The journal has no room when two halves are full of what is not stored.
    let recorded = || rig.disk.bytes();
    let (mut before, mut value) = (Vec::new(), 0);
    while before != recorded() {
        before = recorded();
        value += 1;
        write(&volume, 1, value);
        if value < 9 {
            volume.flush().expect("a flush");
        }
    }
    // One object waits, which covers the first half. Behind it comes one that no record has.
    let logs = rig.door.logs.load(Ordering::SeqCst);
    (10..10 + BATCH as u64).for_each(|block| write(&volume, block, 1));
    rig.door.honest.store(logs + 1, Ordering::SeqCst);
    rig.shut(false);
    let put = |wanted: u64| wait_until("it is put", || rig.door.logs.load(Ordering::SeqCst) >= logs + wanted);
    put(2);
    (20..20 + BATCH as u64).for_each(|block| write(&volume, block, 2));
    put(3);
    drop(volume);
    rig.door.honest.store(0, Ordering::SeqCst);
    let volume = rig.open().expect("it opens");
    assert_eq!([byte(&volume, 1), byte(&volume, 10), byte(&volume, 20)], [8, 0, 0]);
}

#[test]
fn what_is_owed_outlives_every_power_loss_while_it_is_stored() {
    for writes in 0..40 {
        let rig = Rig::new();
        let volume = rig.open().expect("it opens");
        rig.shut(true);
        for value in 1..=6 {
            write(&volume, value, value as u8);
            volume.flush().expect("a flush");
        }
        drop(volume);
        rig.shut(false);
        // The next session is cut off after so many writes and flushes of the disk, and the one after it finds all.
        rig.disk.fail_after(writes);
        if let Ok(volume) = rig.open() {
            let _ = volume.write_at(9 * 4096, &[9; 4096]);
            let _ = volume.close();
        }
        rig.disk.crash(&mut atrest_testkit::Random::new(writes));
        let volume = match rig.open() {
            Ok(volume) => volume,
            Err(error) => panic!("after {writes} writes: {error:?}"),
        };
        assert_eq!(
            [1, 2, 3, 4, 5, 6].map(|block| byte(&volume, block)),
            [1, 2, 3, 4, 5, 6],
            "after {writes} writes"
        );
    }
}

#[test]
fn the_record_names_the_journal_while_it_is_in_use_and_no_longer() {
    let rig = Rig::new();
    let record = || {
        let bytes = rig.plain.cell.0.lock().expect("the cell").expect("a record");
        Record::decode(&bytes).expect("a record")
    };
    let volume = rig.open().expect("it opens");
    assert_eq!(record().journal.map(|point| point.number), Some(0));
    write(&volume, 1, 1);
    volume.flush().expect("a flush");
    assert_eq!(record().journal.map(|point| point.number), Some(1));
    let key = |byte| VolumeKey::copy_from(&[byte; 32]);
    assert_eq!(volume.rekey(&key(9), &key(8), || Ok(())), Err(VolumeError::JournalInUse));
    volume.close().expect("it is closed");
    assert_eq!((record().journal, record().closed), (None, true));
}

#[test]
fn a_journal_that_is_too_small_or_fails_is_told() {
    let mut rig = Rig::new();
    let least = JournalSettings::least_size(BATCH);
    rig.disk = Arc::new(Disk::new(least as usize - 4096));
    assert_eq!(rig.open().err(), Some(OpenError::JournalSize { least }));
    let rig = Rig::new();
    let volume = rig.open().expect("it opens");
    write(&volume, 1, 1);
    rig.disk.fail_after(0);
    assert_eq!(volume.flush().expect_err("the disk fails").cause, Cause::Os(5));
    assert_eq!(volume.flush().expect_err("it failed").cause, Cause::EarlierFlushFailed);
}
