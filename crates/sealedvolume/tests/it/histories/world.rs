//! One volume, from its format to the end of its history.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use atrest_device::{BlockDevice as _, Cause, DeviceError, TRUSTED_RECORD_LEN};
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{Aead, Keys, Record, open_root};
use atrest_sealedvolume::volume::{
    Access, Freshness, Garbage, Head, OpenError, Patience, Settings, VolumeError,
};
use atrest_secret::VolumeKey;
use atrest_testkit::Random;

use crate::rig::bytes;
use crate::rig::trusted::{Contents, Held};
use crate::rig::truth::{BLOCKS, SIZE, Spy, State, Truth};
use crate::rig::wild::{Client, Mode, Wild, flip};

/// Numbers that may be under way: few, so that the window is met.
const WINDOW: u8 = 3;
const HALF: usize = 2048;

pub struct World {
    pub random: Random,
    /// What the store may do.
    pub mode: Mode,
    /// Whether there is a trusted store.
    pub trusted: bool,
    pub anchor_every: u32,
    pub store: Wild,
    pub cell: Arc<Mutex<Contents>>,
    pub truth: Arc<Mutex<Truth>>,
    /// Heads whose flush was acknowledged.
    pub acked: Vec<Head>,
    /// The record was put back.
    pub rolled: bool,
    /// The store was attacked since it was last honest.
    pub tampered: bool,
    /// The writer that counts: the last one that opened.
    pub live: u64,
    pub totals: Totals,
    keys: Keys,
    /// Requests that an opening asks at once.
    parallel: usize,
    store_threads: usize,
    openings: u64,
    written: u64,
}

/// One opening.
pub struct Opened {
    pub volume: SealedVolume,
    pub spy: Arc<Spy>,
    pub client: Arc<Client>,
    pub opening: u64,
    /// Found, and not collected.
    pub garbage: Option<Garbage>,
    /// A write failed for good: whether it is to be seen is nobody's promise.
    pub uncertain: Cell<bool>,
}

/// Threads may still be about to send something: the process ends before the next one begins.
impl Drop for Opened {
    fn drop(&mut self) {
        self.client.end();
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub openings: u64,
    pub refused_openings: u64,
    pub flushes: u64,
    pub reads: u64,
    pub read_errors: u64,
    pub attacks: u64,
    pub snapshots: u64,
    pub flips: u64,
    pub sleepers: u64,
    pub moved: u64,
    pub made_again: u64,
    pub crashes: u64,
    pub refused_puts: u64,
    pub late_puts: u64,
    pub lies: u64,
    pub deletes: u64,
}

/// Why work on a volume ended.
pub enum Stop {
    Crash,
    Alarm(VolumeError),
    Device(DeviceError),
}

impl World {
    pub fn new(seed: u64, (parallel, store_threads): (usize, usize)) -> Self {
        let mut random = Random::new(seed);
        let mode =
            *random.pick(&[Mode::Honest, Mode::Flaky, Mode::Flaky, Mode::Evil, Mode::Evil, Mode::Evil]);
        let trusted = random.below(4) != 0;
        let anchor_every = *random.pick(&[1, 1, 3]);
        let lie = *random.pick(&[2, 5, 12]);
        let cell = Contents {
            record: None,
            holder: 0,
            earlier: Vec::new(),
            random: Random::new(seed ^ 77),
            fails: false,
        };
        let mut world = Self {
            mode,
            trusted,
            anchor_every,
            store: Wild::new(Random::new(seed ^ 99), lie),
            cell: Arc::new(Mutex::new(cell)),
            truth: Arc::default(),
            acked: Vec::new(),
            rolled: false,
            tampered: false,
            live: 0,
            totals: Totals::default(),
            keys: keys([0; 16]),
            parallel,
            store_threads,
            openings: 0,
            written: 0,
            random,
        };
        world.make();
        world
    }

    /// A new volume under the same key, in the same store. What was there is given up, and stays known to whoever attacks.
    fn make(&mut self) {
        self.store.inner().clear();
        let mut format = [0; 16];
        self.random.fill(&mut format);
        self.keys = keys(format);
        let client = self.store.client();
        let mut freshness = self.freshness(&client, 0);
        let mut settings = self.settings();
        {
            let mut cell = self.cell.lock().expect("the cell");
            (cell.fails, cell.holder, cell.record) = (false, 0, None);
            cell.earlier.clear();
        }
        self.store.inner().mode = Mode::Honest;
        SealedVolume::format(client, self.keys.clone(), &mut freshness, (SIZE, WINDOW), &mut settings)
            .expect("a new volume");
        let name = "c/0000000000000000";
        let root = self.store.inner().objects[name].clone();
        let (_, root) = open_root(&self.keys, 0, &root).expect("its root");
        self.truth.lock().expect("the truth").root(Head { number: 0, chain: root.chain });
        (self.acked, self.tampered, self.live) = (Vec::new(), false, 0);
        self.cell.lock().expect("the cell").fails = true;
    }

    fn settings(&mut self) -> Settings {
        let none = Duration::ZERO;
        Settings {
            aead: *self.random.pick(&[Aead::Aes256Gcm, Aead::ChaCha20Poly1305]),
            batch: 3,
            anchor_every: NonZeroU32::new(self.anchor_every).expect("not 0"),
            checkpoint_every: 12,
            cached_blocks: *self.random.pick(&[0, 3, 100]),
            cached_map: *self.random.pick(&[1, 20_000]),
            map_buffer: *self.random.pick(&[0, 4, 12, 8192]),
            parallel: NonZeroUsize::new(self.parallel).expect("not 0"),
            store_threads: NonZeroUsize::new(self.store_threads).expect("not 0"),
            patience: Patience {
                tries: NonZeroU32::new(5).expect("not 0"),
                first_pause: none,
                ..Patience::default()
            },
            ..Settings::default()
        }
    }

    fn freshness(&self, client: &Arc<Client>, opening: u64) -> Freshness {
        if !self.trusted {
            return Freshness::Nothing;
        }
        let (cell, client) = (Arc::clone(&self.cell), Arc::clone(client));
        Freshness::Record(Box::new(Held { cell, opening, client }))
    }

    /// The head that the record names, if there is one.
    pub fn anchored(&self) -> Option<Head> {
        let record = self.cell.lock().expect("the cell").record.filter(|_| self.trusted)?;
        let record = Record::decode(&record).expect("a record");
        Some(Head { number: record.number, chain: record.chain })
    }

    /// Opens the volume, and checks that it may be opened there.
    pub fn open(&mut self, access: Access) -> Result<Opened, (OpenError, bool)> {
        self.totals.openings += 1;
        self.openings += 1;
        let opening = self.openings;
        let client = self.store.client();
        let anchored = self.anchored();
        let spy = Arc::new(Spy {
            truth: Arc::clone(&self.truth),
            opening,
            state: Mutex::default(),
            found: Mutex::default(),
        });
        let freshness = self.freshness(&client, opening);
        let settings = Settings { observer: Some(Arc::clone(&spy) as _), ..self.settings() };
        let store = Arc::clone(&client) as _;
        let volume = SealedVolume::open(store, self.keys.clone(), freshness, access, settings);
        if let Some(found) = *spy.found.lock().expect("the head") {
            self.accepted(&found);
        }
        let volume = volume.map_err(|error| (error, client.is_dead()))?;
        let found = match access {
            Access::Read => volume.head().expect("a head"),
            Access::Write => spy.found.lock().expect("the head").expect("a session began"),
        };
        self.check_opened(found, anchored);
        {
            let truth = self.truth.lock().expect("the truth");
            let node = truth.node(&found.chain).expect("it was checked");
            *spy.state.lock().expect("the state") = node.state;
        }
        if access == Access::Write {
            self.live = opening;
        }
        Ok(Opened { volume, spy, client, opening, garbage: None, uncertain: Cell::new(false) })
    }

    /// What was shown and accepted counts as stored from now on.
    fn accepted(&self, found: &Head) {
        let (truth, mut inner) = (self.truth.lock().expect("the truth"), self.store.inner());
        for node in truth.back(&found.chain) {
            let name = format!("l/{:016x}", node.head.number);
            let sent = inner.sent.get(&name);
            let sent = sent.and_then(|sent| sent.iter().find(|sent| bytes::salt(sent) == node.salt));
            if let Some(sent) = sent.cloned() {
                inner.honest.insert(name, sent);
            }
        }
    }

    /// A write, of one block, of half a block, or a trim.
    fn write(&mut self, opened: &Opened) -> Result<(), Stop> {
        self.written += 1;
        let index = self.random.index(BLOCKS.len());
        let offset = BLOCKS[index] * 4096;
        let mut state = opened.spy.state.lock().expect("the state");
        let before = *state;
        let bytes = self.written.to_le_bytes();
        let (kind, volume) = (self.random.below(10), &opened.volume);
        match kind {
            0 => state[index] = [0; 2],
            1 => state[0..4].fill([0; 2]),
            2 | 3 => state[index][0] = self.written,
            4 => state[index][1] = self.written,
            _ => state[index] = [self.written; 2],
        }
        drop(state);
        let done = match kind {
            0 => volume.discard(offset, 4096),
            1 => volume.discard(0, 4096 * 4 + 100),
            2 | 3 => volume.write_at(offset, &bytes.repeat(HALF / 8)),
            4 => volume.write_at(offset + HALF as u64, &bytes.repeat(HALF / 8)),
            _ => volume.write_at(offset, &bytes.repeat(512)),
        };
        if done.is_err() {
            if volume.discard(0, 0).is_ok() {
                // The other half could not be read: nothing was written.
                assert!(matches!(kind, 2..=4), "a write of whole blocks failed, and the volume goes on");
                *opened.spy.state.lock().expect("the state") = before;
            } else {
                opened.uncertain.set(true);
            }
        }
        self.device(opened, done)
    }

    /// A flush that was acknowledged holds from now on.
    pub fn flush(&mut self, opened: &Opened) -> Result<(), Stop> {
        let done = opened.volume.flush();
        self.device(opened, done)?;
        self.totals.flushes += 1;
        self.acked.push(opened.volume.head().expect("a head"));
        Ok(())
    }

    fn device(&self, opened: &Opened, done: Result<(), DeviceError>) -> Result<(), Stop> {
        match done {
            Ok(()) => Ok(()),
            Err(_) if opened.client.is_dead() => Err(Stop::Crash),
            Err(error) => Err(Stop::Device(error)),
        }
    }

    fn told<T>(&self, opened: &Opened, done: Result<T, VolumeError>) -> Result<T, Stop> {
        match done {
            Ok(done) => Ok(done),
            Err(_) if opened.client.is_dead() => Err(Stop::Crash),
            Err(error) => Err(Stop::Alarm(error)),
        }
    }

    /// Something that a writer does. What the store or damage refuses to one operation does not end the next one.
    pub fn work(&mut self, opened: &mut Opened, operations: u64) -> Result<(), Stop> {
        for _ in 0..operations {
            let stop = match self.random.below(100) {
                0..50 => self.write(opened),
                50..54 => self.burst(opened),
                54..74 => self.flush(opened),
                74..80 => self.told(opened, opened.volume.checkpoint()),
                80..85 => {
                    self.totals.snapshots += 1;
                    self.told(opened, opened.volume.add_snapshot("one")).map(|_| ())
                }
                85..87 => match self.told(opened, opened.volume.snapshots()) {
                    Ok(there) if !there.is_empty() => {
                        let id = self.random.pick(&there).id;
                        self.told(opened, opened.volume.remove_snapshot(id))
                    }
                    other => other.map(|_| ()),
                },
                87..91 => {
                    self.told(opened, opened.volume.compact(70, 4)).map(|moved| self.totals.moved += moved)
                }
                91..96 => self.collect(opened),
                _ => {
                    self.check_reads(opened, false);
                    Ok(())
                }
            };
            match stop {
                Err(Stop::Alarm(
                    VolumeError::Damaged { .. }
                    | VolumeError::Missing { .. }
                    | VolumeError::Map { .. }
                    | VolumeError::Snapshot { .. },
                )) => {
                    assert!(self.mode == Mode::Evil || self.tampered, "damage without a cause");
                    self.totals.read_errors += 1;
                }
                Err(Stop::Device(DeviceError { cause: Cause::Tag { .. } | Cause::Tampered, .. })) => {
                    assert!(self.mode == Mode::Evil || self.tampered, "damage without a cause");
                    self.totals.read_errors += 1;
                }
                other => other?,
            }
            if opened.client.is_dead() {
                return Err(Stop::Crash);
            }
        }
        Ok(())
    }

    /// One object is refused for a while, and those behind it are stored.
    fn burst(&mut self, opened: &Opened) -> Result<(), Stop> {
        self.flush(opened)?;
        let head = opened.volume.head().expect("a head");
        let begin = self.truth.lock().expect("the truth").node(&head.chain).is_some_and(|node| node.begin);
        let next = head.number + if begin { u64::from(WINDOW) } else { 1 };
        self.store.inner().stuck = Some(format!("l/{next:016x}"));
        let mut done = Ok(());
        for _ in 0..6 + self.random.below(10) {
            done = done.and_then(|()| self.write(opened));
        }
        self.store.inner().stuck = None;
        done
    }

    fn collect(&mut self, opened: &mut Opened) -> Result<(), Stop> {
        let garbage = self.told(opened, opened.volume.garbage())?;
        if self.mode != Mode::Evil && self.random.below(4) == 0 {
            opened.garbage = Some(garbage); // and sleeps
            return Ok(());
        }
        match opened.volume.collect(garbage) {
            // What the store refuses to delete is asked for again another time.
            Err(VolumeError::Unreachable(_)) if !opened.client.is_dead() => Ok(()),
            other => self.told(opened, other),
        }
    }

    /// The whole history.
    pub fn run(&mut self) {
        let mut sleepers: Vec<Opened> = Vec::new();
        for _ in 0..2 + self.random.below(6) {
            let honest = if self.mode == Mode::Evil { Mode::Evil } else { Mode::Honest };
            let mode = if self.random.below(5) == 0 { honest } else { self.mode };
            let fuse = (self.random.below(3) == 0).then(|| 1 + self.random.below(80) as u32);
            {
                let mut inner = self.store.inner();
                (inner.mode, inner.fuse) = (mode, fuse);
            }
            self.live = 0;
            let Some(mut opened) = self.open_or_recover() else { continue };
            if self.rolled && self.mode == Mode::Evil {
                return;
            }
            if self.mode == Mode::Honest && !self.tampered && self.random.below(2) == 0 {
                self.check_flip(&opened);
            }
            let again = self.session(&mut opened);
            self.store.inner().fuse = None;
            assert!(!self.store.inner().reused, "one key and nonce for different contents");
            match again {
                Then::Dropped => {}
                Then::Sleeps => sleepers.push(opened),
                Then::MadeAgain => {
                    self.totals.made_again += 1;
                    // None of their threads stores anything in what is new.
                    drop(opened);
                    sleepers.clear();
                    self.make();
                    continue;
                }
            }
            if !sleepers.is_empty() && self.mode != Mode::Evil && self.random.below(5) < 3 {
                let sleeper = sleepers.swap_remove(self.random.index(sleepers.len()));
                self.wake(sleeper);
            }
            if self.mode == Mode::Evil && self.random.below(5) < 3 {
                self.tamper();
            }
            let earlier = self.cell.lock().expect("the cell").earlier.clone();
            if self.trusted && !earlier.is_empty() && self.random.below(20) == 0 {
                let old: [u8; TRUSTED_RECORD_LEN] = *self.random.pick(&earlier);
                self.cell.lock().expect("the cell").record = Some(old);
                self.rolled = true;
            }
        }
        self.finish();
    }

    /// Opens the volume; where that is refused, the store becomes honest, and then it must open.
    fn open_or_recover(&mut self) -> Option<Opened> {
        match self.open(Access::Write) {
            Ok(opened) => return Some(opened),
            Err((_, true)) => return None,
            Err((_, false)) => {}
        }
        self.totals.refused_openings += 1;
        {
            let mut inner = self.store.inner();
            inner.fuse = None;
        }
        if self.rolled || (self.mode == Mode::Evil && !self.trusted) {
            return None;
        }
        {
            let mut inner = self.store.inner();
            if self.mode == Mode::Evil {
                inner.repent();
                self.tampered = false;
            }
            inner.mode = Mode::Honest;
        }
        match self.open(Access::Write) {
            Ok(opened) => {
                self.check_reads(&opened, false);
                self.store.inner().mode = self.mode;
                Some(opened)
            }
            Err((_, true) | (OpenError::Trusted(_), _)) => None,
            Err((error, false)) => panic!("a false alarm at opening: {error:?}"),
        }
    }

    fn session(&mut self, opened: &mut Opened) -> Then {
        if self.random.below(2) == 0 {
            let mut inner = self.store.inner();
            let now = inner.objects.clone();
            inner.earlier.push(now);
        }
        if self.random.below(4) == 0 {
            self.refused_and_closed(opened);
            return Then::Dropped;
        }
        let operations = 2 + self.random.below(24);
        match self.work(opened, operations) {
            Ok(()) => {}
            Err(Stop::Crash) => return Then::Dropped,
            Err(Stop::Alarm(error)) => {
                self.check_alarm(opened, matches!(error, VolumeError::Fenced { .. }));
                return Then::Dropped;
            }
            Err(Stop::Device(error)) => {
                self.check_alarm(opened, error.cause == Cause::Busy);
                return Then::Dropped;
            }
        }
        if self.mode == Mode::Honest && self.random.below(3) == 0 {
            match self.open(Access::Read) {
                Ok(reader) => {
                    self.check_reads(&reader, false);
                }
                Err((_, true)) => return Then::Dropped,
                Err((error, false)) => panic!("a reader is refused: {error:?}"),
            }
        }
        match self.random.below(10) {
            0 => Then::MadeAgain,
            1..6 => {
                let closed = opened.volume.close();
                if closed.is_ok() {
                    self.acked.push(opened.volume.head().expect("a head"));
                }
                Then::Dropped
            }
            _ if self.mode != Mode::Evil => Then::Sleeps,
            _ => Then::Dropped,
        }
    }

    /// A flush is refused, the volume is closed, another session writes; then the refused bytes are there after all.
    fn refused_and_closed(&mut self, opened: &mut Opened) {
        self.store.inner().fuse = None;
        let _ = self.flush(opened);
        for _ in 0..1 + self.random.below(2) {
            let _ = self.write(opened);
        }
        let before = self.store.inner().objects.clone();
        let mode = self.store.inner().mode;
        {
            let mut inner = self.store.inner();
            (inner.refuse, inner.mode) = (true, Mode::Flaky);
        }
        let _ = self.flush(opened);
        {
            let mut inner = self.store.inner();
            (inner.refuse, inner.mode) = (false, mode);
        }
        if opened.volume.close().is_ok() {
            self.acked.push(opened.volume.head().expect("a head"));
        }
        // It is closed: a thread of it that sends its object as late as after the next session, and is shown what that one's number was given
        // to, has nobody to tell that it is stored.
        opened.client.end();
        if self.mode != Mode::Evil {
            return;
        }
        self.store.inner().mode = Mode::Honest;
        let Ok(mut next) = self.open(Access::Write) else { return };
        for _ in 0..1 + self.random.below(3) {
            let _ = self.write(&next);
            let _ = self.flush(&next);
        }
        if self.random.below(2) == 0 {
            let _ = self.work(&mut next, 2);
        }
        {
            let mut inner = self.store.inner();
            let refused: BTreeMap<_, _> = inner
                .sent
                .iter()
                .filter(|(name, sent)| name.starts_with('l') && !before.contains_key(*name) && sent.len() > 1)
                .map(|(name, sent)| (name.clone(), sent.clone()))
                .collect();
            for (name, sent) in refused {
                let supplied = Arc::clone(self.random.pick(&sent));
                inner.objects.insert(name, supplied);
                self.tampered = true;
            }
        }
        self.check_reads(&next, true);
    }

    /// A writer that was thought dead goes on, after another one has opened.
    fn wake(&mut self, mut sleeper: Opened) {
        let between = self.open(Access::Write).ok();
        if let Some(mut between) = between {
            let _ = self.work(&mut between, 6);
        }
        self.totals.sleepers += 1;
        if let Some(garbage) = sleeper.garbage.take() {
            let _ = sleeper.volume.collect(garbage);
        }
        match self.random.below(3) {
            0 => {
                let _ = self.collect(&mut sleeper);
            }
            1 => {
                if sleeper.volume.close().is_ok() {
                    self.acked.push(sleeper.volume.head().expect("a head"));
                }
            }
            _ => {
                let _ = self.write(&sleeper);
                let _ = self.flush(&sleeper);
                let _ = self.collect(&mut sleeper);
            }
        }
    }

    /// Between sessions: an older store, objects of before, refused ones that are supplied, missing ones, flipped bits.
    fn tamper(&mut self) {
        self.tampered = true;
        self.totals.attacks += 1;
        let mut inner = self.store.inner();
        let inner = &mut *inner;
        let shown: Vec<String> = inner.objects.keys().cloned().collect();
        let sent: Vec<String> = inner.sent.keys().cloned().collect();
        match self.random.below(5) {
            0 if !inner.earlier.is_empty() => inner.objects = self.random.pick(&inner.earlier).clone(),
            0 | 1 => {
                for _ in 0..3 {
                    let name = self.random.pick(&sent).clone();
                    let object = Arc::clone(self.random.pick(&inner.sent[&name]));
                    inner.objects.insert(name, object);
                }
            }
            2 => {
                for (name, objects) in &inner.sent {
                    if objects.len() > 1 || !inner.objects.contains_key(name) {
                        inner.objects.insert(name.clone(), Arc::clone(&objects[0]));
                    }
                }
            }
            3 => {
                let logs: Vec<&String> = shown.iter().filter(|name| name.starts_with('l')).collect();
                let gone = 1 + self.random.index(4);
                logs.iter().rev().take(gone).for_each(|name| {
                    inner.objects.remove(*name);
                });
            }
            _ if !shown.is_empty() => {
                let name = self.random.pick(&shown).clone();
                let flipped = flip(&inner.objects[&name], &mut self.random);
                inner.objects.insert(name, flipped);
            }
            _ => {}
        }
    }

    /// The store is honest: all that was acknowledged is there.
    fn finish(&mut self) {
        self.live = 0;
        if self.rolled || (self.mode == Mode::Evil && !self.trusted) {
            return;
        }
        {
            let mut inner = self.store.inner();
            inner.fuse = None;
            if self.mode == Mode::Evil {
                inner.repent();
                self.tampered = false;
            }
            inner.mode = Mode::Honest;
        }
        let opened = self
            .open(Access::Read)
            .unwrap_or_else(|(error, _)| panic!("a false alarm at the end: {error:?}"));
        self.check_reads(&opened, false);
    }
}

/// What becomes of an opening.
enum Then {
    Dropped,
    Sleeps,
    MadeAgain,
}

impl Totals {
    pub fn add(&mut self, world: &World) {
        let (counts, other) = (world.store.inner().counts, world.totals);
        self.openings += other.openings;
        self.refused_openings += other.refused_openings;
        self.flushes += other.flushes;
        self.reads += other.reads;
        self.read_errors += other.read_errors;
        self.attacks += other.attacks;
        self.snapshots += other.snapshots;
        self.flips += other.flips;
        self.sleepers += other.sleepers;
        self.moved += other.moved;
        self.made_again += other.made_again;
        self.crashes += counts.crashes;
        self.refused_puts += counts.refused;
        self.late_puts += counts.landed;
        self.lies += counts.lies;
        self.deletes += counts.deletes;
    }
}

pub fn expected(state: &State, index: usize) -> Vec<u8> {
    let [first, second] = state[index];
    [first.to_le_bytes().repeat(HALF / 8), second.to_le_bytes().repeat(HALF / 8)].concat()
}

fn keys(format: [u8; 16]) -> Keys {
    Keys::new(&VolumeKey::copy_from(&[7; 32]), format).expect("keys")
}
