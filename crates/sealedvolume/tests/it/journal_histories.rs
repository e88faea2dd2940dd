//! Random histories of volumes with a journal: what was flushed is there, whatever machine, process, store and whoever visits the disk do.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use atrest_device::BlockDevice as _;
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{Keys, LogObject, open_log};
use atrest_sealedvolume::volume::{
    Access, Freshness, JournalSettings, Observer, OpenError, Patience, Settings, VolumeError,
};
use atrest_secret::VolumeKey;
use atrest_testkit::{Campaign, Random};

use crate::rig::disk::Disk;
use crate::rig::trusted::{Contents, Held};
use crate::rig::wild::{Client, Mode, Wild, flip};

const BLOCKS: usize = 9;
/// Blocks after which a log object is sealed: few, so that many are.
const BATCH: usize = 4;

/// What each block holds: the number of the write, 0 for zeros.
type State = [u64; BLOCKS];

struct World {
    random: Random,
    mode: Mode,
    trusted: bool,
    every: u32,
    store: Wild,
    cell: Arc<Mutex<Contents>>,
    disk: Arc<Disk>,
    /// The journal at earlier times.
    earlier: Vec<Vec<u8>>,
    keys: Keys,
    openings: u64,
    written: u64,
    /// What the volume has held, one change after the other.
    states: Vec<State>,
    /// What it holds at least: that was flushed.
    flushed: usize,
    /// What the store holds of that at least.
    stored: usize,
    /// Somebody has gone on without the journal, in which something may be left.
    left: bool,
    /// Somebody has changed store or journal.
    tampered: bool,
    totals: Totals,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    openings: u64,
    flushes: u64,
    replayed: u64,
    refused: u64,
    crashes: u64,
    attacks: u64,
    forgone: u64,
    closed: u64,
}

/// How an opening treats the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    With,
    Without,
    Forgo,
}

struct Opened {
    volume: SealedVolume,
    has_journal: bool,
    client: Arc<Client>,
}

/// What the newest session began behind.
#[derive(Default)]
struct Begun(Mutex<Option<LogObject>>);

impl Observer for Begun {
    fn sealed(&self, object: &LogObject) {
        if object.summary.begin {
            *self.0.lock().expect("no panic") = Some(object.clone());
        }
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mode = *random.pick(&[Mode::Honest, Mode::Flaky, Mode::Flaky, Mode::Evil, Mode::Evil]);
        let trusted = random.below(4) != 0;
        // Whoever lies may undo what is not anchored.
        let every = if mode == Mode::Evil { 1 } else { *random.pick(&[1, 1, 3]) };
        let contents = Contents {
            record: None,
            holder: 0,
            earlier: Vec::new(),
            random: Random::new(seed ^ 77),
            fails: false,
        };
        let least = JournalSettings::least_size(BATCH) as usize;
        let size = least * random.pick(&[1, 1, 2]);
        let lie = *random.pick(&[0, 1, 3]);
        let mut world = Self {
            mode,
            trusted,
            every,
            store: Wild::new(Random::new(seed ^ 99), lie),
            cell: Arc::new(Mutex::new(contents)),
            disk: Arc::new(Disk::new(size)),
            earlier: Vec::new(),
            keys: Keys::new(&VolumeKey::copy_from(&[7; 32]), [3; 16]).expect("keys"),
            openings: 0,
            written: 0,
            states: vec![[0; BLOCKS]],
            flushed: 0,
            stored: 0,
            left: false,
            tampered: false,
            totals: Totals::default(),
            random,
        };
        let client = world.store.client();
        let (mut freshness, mut settings) = (world.freshness(&client), world.settings(Use::Without));
        let (store, keys) = (client, world.keys.clone());
        SealedVolume::format(store, keys, &mut freshness, (BLOCKS as u64, 3), &mut settings)
            .expect("a new volume");
        world.cell.lock().expect("the cell").fails = true;
        world
    }

    fn freshness(&self, client: &Arc<Client>) -> Freshness {
        if !self.trusted {
            return Freshness::Nothing;
        }
        let (cell, client) = (Arc::clone(&self.cell), Arc::clone(client));
        Freshness::Record(Box::new(Held { cell, opening: self.openings, client }))
    }

    fn settings(&mut self, with: Use) -> Settings {
        let device = Arc::clone(&self.disk) as _;
        let lag = *self.random.pick(&[0, 1, 20, 3_600_000]);
        let journal = JournalSettings { device, max_lag: Duration::from_millis(lag) };
        Settings {
            batch: BATCH,
            anchor_every: NonZeroU32::new(self.every).expect("not 0"),
            checkpoint_every: 8,
            cached_blocks: 3,
            map_buffer: *self.random.pick(&[0, 4, 8192]),
            parallel: NonZeroUsize::new(1 + self.random.index(3)).expect("not 0"),
            patience: Patience {
                tries: NonZeroU32::new(6).expect("not 0"),
                first_pause: Duration::ZERO,
                ..Patience::default()
            },
            journal: (with == Use::With || with == Use::Forgo && self.random.below(2) == 0)
                .then_some(journal),
            forgo_journal: with == Use::Forgo,
            ..Settings::default()
        }
    }

    fn open(&mut self, with: Use) -> Result<Opened, (OpenError, bool)> {
        self.totals.openings += 1;
        self.openings += 1;
        let client = self.store.client();
        let (freshness, settings) = (self.freshness(&client), self.settings(with));
        let has_journal = settings.journal.is_some();
        let begun = Arc::<Begun>::default();
        let settings = Settings { observer: Some(Arc::clone(&begun) as _), ..settings };
        if with == Use::Forgo {
            // Somebody has decided that what only the journal has is not wanted, whether that opens the volume or not.
            self.flushed = self.stored;
            self.left = true;
        }
        let (store, keys) = (Arc::clone(&client) as _, self.keys.clone());
        let opened = SealedVolume::open(store, keys, freshness, Access::Write, settings);
        if let Some(begin) = begun.0.lock().expect("no panic").take() {
            self.accepted(&begin);
        }
        match opened {
            Ok(volume) => {
                self.left &= !has_journal;
                Ok(Opened { volume, has_journal, client })
            }
            Err(error) => {
                let dead = client.is_dead();
                client.end();
                Err((error, dead))
            }
        }
    }

    /// What was shown and accepted counts as stored from now on, also what the store had refused before.
    fn accepted(&mut self, begin: &LogObject) {
        let mut inner = self.store.inner();
        let (mut number, mut chain) = (begin.summary.before, begin.summary.before_chain);
        loop {
            let name = format!("l/{number:016x}");
            let all = inner.sent.get(&name).cloned().unwrap_or_default(); // intended: a volume's first state is no object.
            let opened = all.iter().filter_map(|sent| Some((sent, open_log(&self.keys, number, sent).ok()?)));
            let Some((sent, object)) = opened.into_iter().find(|(_, object)| object.chain == chain) else {
                return;
            };
            inner.honest.insert(name, Arc::clone(sent));
            (number, chain) = (object.summary.before, object.summary.before_chain);
        }
    }

    /// Reads everything. It must be a state that the volume had, at least as new as what was flushed or, without the journal, stored. `false`
    /// where not everything can be read.
    fn check(&mut self, opened: &Opened, with: Use) -> bool {
        let mut state = [0; BLOCKS];
        let caused = self.mode == Mode::Evil || self.tampered;
        for (block, held) in state.iter_mut().enumerate() {
            let mut buf = [0; 4096];
            let read = (0..20).find_map(|_| opened.volume.read_at(block as u64 * 4096, &mut buf).ok());
            match read.ok_or_else(|| opened.volume.read_at(block as u64 * 4096, &mut buf)) {
                Ok(()) => {
                    let (first, rest) = buf.split_first_chunk::<8>().expect("a block");
                    *held = u64::from_le_bytes(*first);
                    assert!(rest.chunks(8).all(|bytes| bytes == first), "a block is of two writes");
                }
                Err(_) if caused || opened.client.is_dead() => return false,
                Err(error) => panic!("an error without a cause: {error:?}"),
            }
        }
        if caused && !self.trusted {
            // Whoever has store and journal may show one beside an older one of the other. Each block was written so all the same.
            for (block, held) in state.iter().enumerate() {
                assert!(self.states.iter().any(|had| had[block] == *held), "block {block} never held {held}");
            }
            // What is shown next may be any of them again.
            self.states.push(state);
            (self.flushed, self.stored) = (self.states.len() - 1, 0);
            return true;
        }
        let floor = if with == Use::Forgo { self.stored } else { self.flushed };
        let found = self.states.iter().rposition(|had| *had == state);
        let found = found.unwrap_or_else(|| {
            panic!(
                "opened {with:?} at what it never held: {state:?} of {:?}",
                &self.states[self.states.len().saturating_sub(12)..]
            )
        });
        assert!(
            found >= floor,
            "opened {with:?} at change {found} of {}, and {floor} was flushed",
            self.states.len() - 1
        );
        self.states.truncate(found + 1);
        self.flushed = self.states.len() - 1;
        self.stored = self.stored.min(self.flushed);
        true
    }

    /// `false` if the session is over.
    fn work(&mut self, opened: &Opened) -> bool {
        let volume = &opened.volume;
        let kind = self.random.below(20);
        let done = match kind {
            0..10 => {
                self.written += 1;
                let mut state = *self.states.last().expect("a state");
                let first = self.random.index(BLOCKS);
                let len = 1 + self.random.index(3.min(BLOCKS - first));
                let (offset, bytes) = (first as u64 * 4096, len as u64 * 4096);
                let number = if self.random.below(6) == 0 { 0 } else { self.written };
                state[first..first + len].fill(number);
                // In one request, which may be cut in the middle: block by block then.
                for done in 1..len {
                    let mut cut = *self.states.last().expect("a state");
                    cut[first..first + done].copy_from_slice(&state[first..first + done]);
                    if number != 0 {
                        self.states.push(cut);
                    }
                }
                self.states.push(state);
                match number {
                    0 => volume.discard(offset, bytes),
                    number => volume.write_at(offset, &number.to_le_bytes().repeat(512 * len)),
                }
                .is_ok()
            }
            10..16 => {
                let done = volume.flush().is_ok();
                if done {
                    self.totals.flushes += 1;
                    self.flushed = self.states.len() - 1;
                }
                done
            }
            16 => self.settled(volume.checkpoint()),
            17 => self.settled(volume.add_snapshot("one").map(drop)),
            18 => match volume.compact(70, 4).and_then(|_| volume.garbage()) {
                Ok(garbage) => match volume.collect(garbage) {
                    Err(VolumeError::Unreachable(_)) => !opened.client.is_dead(),
                    done => done.is_ok(),
                },
                // What is damaged or refused is no end.
                Err(_) => volume.discard(0, 0).is_ok(),
            },
            _ => {
                self.earlier.push(self.disk.bytes());
                true
            }
        };
        done && !opened.client.is_dead()
    }

    /// Something was done that stores everything before it.
    fn settled(&mut self, done: Result<(), VolumeError>) -> bool {
        if done.is_ok() {
            self.flushed = self.states.len() - 1;
            self.stored = self.flushed;
        }
        done.is_ok()
    }

    fn tamper(&mut self) {
        (self.tampered, self.totals.attacks) = (true, self.totals.attacks + 1);
        let mut bytes = self.disk.bytes();
        match self.random.below(5) {
            0 if !self.earlier.is_empty() => bytes.clone_from(self.random.pick(&self.earlier)),
            0 | 1 => bytes = Vec::clone(&flip(&bytes, &mut self.random)),
            2 => {
                let at = self.random.index(bytes.len());
                bytes[at..].fill(0);
            }
            3 if !self.earlier.is_empty() => {
                // Blocks of another time.
                let other = self.random.pick(&self.earlier);
                let at = self.random.index(bytes.len() / 4096) * 4096;
                bytes[at..at + 4096].copy_from_slice(&other[at..at + 4096]);
            }
            _ => {
                let mut inner = self.store.inner();
                let inner = &mut *inner;
                let logs: Vec<String> =
                    inner.objects.keys().filter(|name| name.starts_with('l')).cloned().collect();
                logs.iter().rev().take(1 + self.random.index(3)).for_each(|name| {
                    inner.objects.remove(name);
                });
            }
        }
        self.disk.put(&bytes);
    }

    fn run(&mut self) {
        for _ in 0..3 + self.random.below(6) {
            {
                let fuse = (self.random.below(3) == 0).then(|| 1 + self.random.below(60) as u32);
                let mut inner = self.store.inner();
                (inner.mode, inner.fuse) = (self.mode, fuse);
            }
            let honest = self.disk.bytes();
            if self.mode == Mode::Evil && self.random.below(3) == 0 {
                self.tamper();
            }
            let shown = self.disk.bytes();
            let with =
                *self.random.pick(&[Use::With, Use::With, Use::With, Use::With, Use::Without, Use::Forgo]);
            let opened = match self.open(with) {
                Ok(opened) => opened,
                Err((error, dead)) => {
                    self.totals.refused += 1;
                    if self.disk.bytes() == shown {
                        self.disk.put(&honest);
                    }
                    self.refused(error, dead, with);
                    continue;
                }
            };
            self.totals.replayed += 1;
            self.totals.forgone += u64::from(with == Use::Forgo);
            if !opened.has_journal {
                self.disk.put(&honest);
            }
            let mut goes_on = self.check(&opened, with);
            if goes_on && with == Use::Forgo {
                self.stored = self.flushed;
            }
            self.cell.lock().expect("the cell").fails = self.random.below(4) == 0;
            if self.random.below(12) == 0 {
                self.disk.fail_after(self.random.below(20));
            }
            for _ in 0..self.random.below(40) {
                goes_on = goes_on && self.work(&opened);
            }
            let outage = goes_on && self.mode == Mode::Flaky && self.random.below(4) == 0;
            self.store.inner().refuse = outage;
            for _ in 0..8 {
                goes_on = goes_on && self.work(&opened);
            }
            self.store.inner().refuse = false;
            if goes_on && self.random.below(3) == 0 && self.settled(opened.volume.close()) {
                self.totals.closed += 1;
            }
            opened.client.end();
            drop(opened);
            self.totals.crashes += 1;
            match self.random.below(2) {
                0 => {
                    let mut random = Random::new(self.random.draw());
                    self.disk.crash(&mut random);
                }
                _ => self.disk.kill(),
            }
        }
        self.finish();
    }

    /// An opening that was refused must have had a reason, and nothing may be lost by it.
    fn refused(&mut self, error: OpenError, dead: bool, with: Use) {
        match (with, error) {
            (Use::Without, OpenError::JournalNeeded) => return,
            (Use::With, OpenError::JournalLeft { .. }) if self.left => return,
            _ => {}
        }
        let caused = dead || self.mode == Mode::Evil || self.tampered;
        let by_store = matches!(
            error,
            OpenError::Unreachable(_)
                | OpenError::Trusted(_)
                | OpenError::Replay(_)
                | OpenError::Contested { .. }
        );
        assert!(
            caused || by_store && self.mode != Mode::Honest || by_store && self.trusted,
            "a false alarm: {error:?}"
        );
        if self.mode == Mode::Evil {
            self.store.inner().repent();
        }
        self.tampered = false;
    }

    /// Everybody is honest: all that was flushed is there.
    fn finish(&mut self) {
        if self.mode == Mode::Evil && (!self.trusted || self.tampered) {
            return;
        }
        {
            let mut inner = self.store.inner();
            inner.fuse = None;
            if self.mode == Mode::Evil {
                inner.repent();
            }
            inner.mode = Mode::Honest;
        }
        self.mode = Mode::Honest;
        self.cell.lock().expect("the cell").fails = false;
        let with = if self.left { Use::Forgo } else { Use::With };
        let opened =
            self.open(with).unwrap_or_else(|(error, _)| panic!("a false alarm at the end: {error:?}"));
        assert!(self.check(&opened, with), "everybody is honest");
        opened.volume.close().expect("it is closed");
        drop(opened);
        let opened = self.open(Use::Without).unwrap_or_else(|(error, _)| panic!("it was closed: {error:?}"));
        assert!(self.check(&opened, Use::Without), "everybody is honest");
        assert!(!self.store.inner().reused, "two objects were sealed alike");
    }
}

#[test]
fn what_was_flushed_to_a_journal_is_not_lost_and_no_older_state_is_accepted() {
    let mut totals = Totals::default();
    Campaign::new("sealed volume, journal", 150, 100_000).run(|seed, _| {
        let mut world = World::new(seed);
        world.run();
        let more = world.totals;
        totals = Totals {
            openings: totals.openings + more.openings,
            flushes: totals.flushes + more.flushes,
            replayed: totals.replayed + more.replayed,
            refused: totals.refused + more.refused,
            crashes: totals.crashes + more.crashes,
            attacks: totals.attacks + more.attacks,
            forgone: totals.forgone + more.forgone,
            closed: totals.closed + more.closed,
        };
    });
    println!("{totals:?}");
    if Campaign::is_sample() {
        assert!(totals.openings > 500 && totals.replayed > 200 && totals.refused > 20, "{totals:?}");
        assert!(totals.flushes > 1000 && totals.attacks > 20 && totals.closed > 20, "{totals:?}");
    }
}
