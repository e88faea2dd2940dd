//! Making a volume, and opening one: which history counts, and the begin of a session.

use std::sync::Arc;

use atrest_device::TrustedStore;
use atrest_secret::Random;

use super::anchor::Anchor;
use super::batch::Batch;
use super::cache::Cache;
use super::core::{Core, Writer};
use super::journal::JournalSettings;
use super::objects::Objects;
use super::random::Shared;
use super::state::State;
use super::takeover::{Found, Taken};
use super::uploads::Uploads;
use super::warm::Warm;
use super::{Access, Freshness, OpenError, Origin, SealedVolume, Settings, VolumeError};
use crate::format::{
    FormatError, JournalPoint, Keys, Kind, LogObject, MOST_BLOCKS, MOST_WINDOW, Record, Root, SealedLog,
    Summary, names, open_log, open_log_front, open_root, seal_log, seal_root,
};
use crate::store::{ObjectStore, Put, StoreError};

/// Checkpoints that are tried, the newest first.
const CHECKPOINTS: usize = 6;
/// How often a session tries to begin.
const BEGINS: u32 = 4;
/// Bytes of a log object that are fetched to follow the log.
const FRONT: usize = 16 << 10;

impl SealedVolume {
    /// Makes a volume of `blocks` blocks in an empty store. `window` numbers may be under way at once; it never changes. `keys` has
    /// an identifier that was drawn for this volume.
    ///
    /// # Errors
    /// [`OpenError::NotEmpty`], [`OpenError::Size`], or what store and trusted store fail with.
    pub fn format(
        store: Arc<dyn ObjectStore>,
        keys: Keys,
        freshness: &mut Freshness,
        (blocks, window): (u64, u8),
        settings: &mut Settings,
    ) -> Result<(), OpenError> {
        let origin = Origin { blocks, map: None, keys: Vec::new() };
        Self::format_clone(store, keys, freshness, (origin, window), settings)
    }

    /// Makes a volume that begins with what a snapshot of another one holds. That one has to keep the snapshot for the clone before
    /// ([`keep_for`](Self::keep_for)).
    ///
    /// # Errors
    /// Those of [`format`](Self::format).
    pub fn format_clone(
        store: Arc<dyn ObjectStore>,
        keys: Keys,
        freshness: &mut Freshness,
        (origin, window): (Origin, u8),
        settings: &mut Settings,
    ) -> Result<(), OpenError> {
        let Origin { blocks, map, keys: other_keys } = origin;
        if blocks == 0 || blocks > MOST_BLOCKS || window == 0 || window > MOST_WINDOW {
            return Err(OpenError::Size);
        }
        let objects = Objects::new(store, keys, settings);
        for kind in [Kind::Log, Kind::Map, Kind::Checkpoint] {
            if !objects.list(kind)?.is_empty() {
                return Err(OpenError::NotEmpty);
            }
        }
        let mut session = [0; 32];
        settings.random.fill(&mut session)?;
        let prelude = objects.prelude(&mut *settings.random, Kind::Checkpoint, 0, session)?;
        let chain = objects.keys.chain(&[0; 32], &prelude, &[])?;
        let snapshots = Vec::new();
        let trusted = matches!(freshness, Freshness::Record(_));
        let (number, successor, ordinal) = (0, 1, 0);
        let root = Root {
            number,
            chain,
            successor,
            session,
            ordinal,
            window,
            trusted,
            blocks,
            journal: None,
            map,
            keys: other_keys,
            snapshots,
        };
        let (_, bytes) = seal_root(&objects.keys, prelude, &root)?;
        match objects.put(&names::checkpoint(0), &bytes) {
            Ok(()) => {}
            Err(VolumeError::Unreachable(StoreError::Name)) => return Err(OpenError::NotEmpty),
            Err(VolumeError::Unreachable(error)) => return Err(error.into()),
            Err(_) => return Err(OpenError::Contested { number: 0 }),
        }
        if let Freshness::Record(trusted) = freshness {
            let format = objects.keys.format();
            let (journal, session) = (None, first_of(&session));
            let record = Record { closed: true, format, number: 0, chain, journal, session };
            trusted.store(&record.encode())?;
        }
        Ok(())
    }

    /// Opens a volume. For writing a session begins: an object that fences whoever wrote before is stored, and anchored.
    ///
    /// # Errors
    /// [`OpenError`]. Nothing was written unless a session could begin.
    pub fn open(
        store: Arc<dyn ObjectStore>,
        keys: Keys,
        freshness: Freshness,
        access: Access,
        mut settings: Settings,
    ) -> Result<Self, OpenError> {
        let objects = Objects::new(store, keys, &settings);
        let unverified = matches!(freshness, Freshness::Unverified);
        let mut trusted = match freshness {
            Freshness::Record(trusted) => Some(trusted),
            Freshness::Nothing | Freshness::Unverified => None,
        };
        let may_lack = unverified && access == Access::Read;
        if access == Access::Read {
            let loaded = load_with(&objects, trusted.as_mut(), &settings)?;
            if loaded.state.trusted && trusted.is_none() && !may_lack {
                return Err(OpenError::StoreNeeded);
            }
            if loaded.state.journal.is_some() && !settings.forgo_journal {
                return Err(OpenError::JournalNeeded);
            }
            let cache = Cache::new(settings.cached_blocks);
            let warm = Warm::new(settings.parallel.get(), settings.cached_blocks);
            let core = Core { objects: Arc::new(loaded.objects), state: loaded.state, cache, writer: None };
            return Ok(Self::of(core, warm));
        }
        for attempt in 1..=BEGINS {
            let loaded = load_with(&objects, trusted.as_mut(), &settings)?;
            if loaded.state.trusted && trusted.is_none() {
                return Err(OpenError::StoreNeeded);
            }
            if attempt == 1
                && let Some(trusted) = &mut trusted
            {
                trusted.claim()?;
            }
            let (mut state, objects) = (loaded.state, loaded.objects);
            let point = loaded.record.and_then(|record| record.journal).filter(|_| !loaded.journal_ended);
            let journal = take_journal(&objects, &state, point, &mut settings)?;
            state.journal = journal.as_ref().map(|taken| taken.journal.mark());
            let begin = seal_begin(&objects, &state, &mut settings)?;
            if let Some(observer) = &settings.observer {
                observer.sealed(&begin.object);
            }
            let each = settings.anchor_every.get() == 1;
            match place_begin(&objects, &state, &begin, trusted.is_some(), each)? {
                Place::Taken => {}
                Place::Unreadable if attempt == BEGINS => {
                    return Err(OpenError::Unreadable { number: state.successor });
                }
                Place::Unreadable | Place::Contested => continue,
            }
            state.step(&begin.object);
            let (store, traffic) = (objects.store.clone(), objects.traffic.clone());
            // Behind a journal threads store, while nobody waits for it.
            let behind = if journal.is_some() { 2 } else { 1 };
            let threads = settings.parallel.max(settings.store_threads).get().max(behind);
            let at_once = (threads, state.window);
            let uploads = Arc::new(Uploads::new(store, traffic, objects.patience, at_once, state.head));
            let of = (objects.keys.format(), first_of(&state.session));
            let synced = journal.as_ref().map(|taken| Arc::clone(&taken.journal.synced));
            let anchor = Anchor::new(trusted, synced, settings.anchor_every, of);
            let (journal, owed) = match journal {
                Some(Taken { journal, owed }) => (Some(journal), owed),
                None => (None, Vec::new()),
            };
            let writer = Writer {
                random: Shared::new(settings.random),
                observer: settings.observer,
                batch: if journal.is_some() { Batch::recorded() } else { Batch::default() },
                journal,
                batch_blocks: batch_blocks(settings.batch),
                uploads,
                failed: false,
                anchor: Arc::new(anchor),
                checkpoints: vec![loaded.checkpoint],
                checkpoint_every: settings.checkpoint_every,
                map_buffer: settings.map_buffer,
                since_checkpoint: loaded.replayed + 1,
                checkpoint_delay: 0,
                is_checkpointing: false,
                taken_up: 0,
                settling: 0,
                pending: None,
            };
            let cache = Cache::new(settings.cached_blocks);
            let mut core = Core { objects: Arc::new(objects), state, cache, writer: Some(writer) };
            // Before anything is acknowledged: what this history has not taken can't come back then.
            core.anchor(core.state.head, false).map_err(|error| match error {
                VolumeError::Trusted(error) => OpenError::Trusted(error),
                _ => OpenError::Random,
            })?;
            core.replay(&owed)?;
            let warm = Warm::new(settings.parallel.get(), settings.cached_blocks);
            let mut volume = Self::of(core, warm);
            if let Some(JournalSettings { max_lag, .. }) = settings.journal {
                volume.keep_up(max_lag)?;
            }
            return Ok(volume);
        }
        let loaded = load_with(&objects, trusted.as_mut(), &settings)?;
        Err(OpenError::Contested { number: loaded.state.successor })
    }
}

/// The journal that a session begins with.
fn take_journal(
    objects: &Objects,
    state: &State,
    point: Option<JournalPoint>,
    settings: &mut Settings,
) -> Result<Option<Taken>, OpenError> {
    let forgo = settings.forgo_journal;
    let Some(JournalSettings { device, .. }) = &settings.journal else {
        return match state.journal {
            Some(_) if !forgo => Err(OpenError::JournalNeeded),
            _ => Ok(None),
        };
    };
    let found = Found::look(Arc::clone(device), &objects.keys, batch_blocks(settings.batch))?;
    let with = (&mut *settings.random as &mut dyn Random, settings.aead);
    found.take(state.journal, point, (forgo, state.blocks), with).map(Some)
}

/// Blocks after which a log object is sealed.
fn batch_blocks(wanted: usize) -> usize {
    wanted.clamp(1, 8192)
}

/// The record of this volume.
fn record(trusted: &mut Box<dyn TrustedStore + Send>, objects: &Objects) -> Result<Record, OpenError> {
    let bytes = trusted.load()?.ok_or(OpenError::NoRecord)?;
    let record = Record::decode(&bytes).map_err(OpenError::Record)?;
    if record.format != objects.keys.format() {
        return Err(OpenError::AnotherVolume);
    }
    Ok(record)
}

/// The history that counts beside the record. Where it seems not to fit, somebody may have gone on since the record was read.
fn load_with(
    objects: &Objects,
    mut trusted: Option<&mut Box<dyn TrustedStore + Send>>,
    settings: &Settings,
) -> Result<Loaded, OpenError> {
    let mut before = None;
    loop {
        let record = trusted.as_deref_mut().map(|trusted| record(trusted, objects)).transpose()?;
        match load(objects, record.as_ref(), settings) {
            Err(OpenError::StoreOlder { .. } | OpenError::RolledBack { .. }) if record != before => {
                before = record
            }
            loaded => return loaded.map(|loaded| Loaded { record, ..loaded }),
        }
    }
}

struct Loaded {
    state: State,
    record: Option<Record>,
    /// With all keys that the checkpoint names.
    objects: Objects,
    checkpoint: (u64, [u8; 16]),
    /// Log objects behind the checkpoint.
    replayed: u64,
    /// Behind the record its session has ended its journal: what the record names of it is stored.
    journal_ended: bool,
}

/// The history that counts: of the newest checkpoint from which the log reaches the record.
fn load(objects: &Objects, record: Option<&Record>, settings: &Settings) -> Result<Loaded, OpenError> {
    let mut why = None;
    for name in objects.list(Kind::Checkpoint)?.iter().rev().take(CHECKPOINTS) {
        let Some(number) = names::number(name) else { continue };
        let bytes = match objects.get(name) {
            Ok(Some(bytes)) => bytes,
            Ok(None) | Err(StoreError::TooLong) => continue,
            Err(error) => return Err(error.into()),
        };
        let (prelude, root) = match open_root(&objects.keys, number, &bytes) {
            Ok(opened) => opened,
            Err(error) => {
                why = why.or(Some(OpenError::Damaged(error)));
                continue;
            }
        };
        // Whatever an older checkpoint would say: from a record that was put back the log could be read to its end, but what was
        // collected there would make room for a begin.
        if let Some(record) = record.filter(|record| root.number > record.number) {
            return Err(OpenError::StoreOlder { anchored: record.number, found: root.number });
        }
        let objects = objects.with(prelude.epoch, &root.keys, settings.stores.as_ref())?;
        let state = State::of(root, settings.cached_map);
        match follow(&objects, state, record) {
            Ok((state, replayed, journal_ended)) => {
                let checkpoint = (number, prelude.salt);
                return Ok(Loaded { state, record: None, objects, checkpoint, replayed, journal_ended });
            }
            Err(error @ OpenError::Unreachable(_)) => return Err(error),
            // A history that was read says more than a checkpoint that was not.
            Err(error) => {
                why = match why {
                    None | Some(OpenError::Damaged(_)) => Some(error),
                    told => told,
                }
            }
        }
    }
    Err(why.unwrap_or(OpenError::NoVolume)) // intended: no reason, because there was no checkpoint.
}

/// Reads on from a checkpoint to the end of the log, which must have met the record. Also how many objects that are, and whether the session of
/// the record has ended its journal behind it.
fn follow(
    objects: &Objects,
    mut state: State,
    record: Option<&Record>,
) -> Result<(State, u64, bool), OpenError> {
    let mut met = match record {
        None => true,
        Some(record) => meets(&state, record)?,
    };
    let (mut replayed, mut begun, mut journal_ended) = (0, false, false);
    while let Some(object) = next(objects, &state)? {
        if let Some(record) = record
            && met
        {
            let anchored_session = first_of(&object.prelude.session) == record.session;
            if object.summary.begin {
                begun = true;
            } else if anchored_session && record.closed {
                break; // a session that was closed wrote nothing more that counts
            } else if begun || !anchored_session {
                let found = object.prelude.number;
                return Err(OpenError::StoreOlder { anchored: record.number, found });
            } else {
                journal_ended |= object.summary.journal.is_none();
            }
        }
        let owed = state.journal;
        state.step(&object);
        replayed += 1;
        if met && object.summary.begin && record.is_some() {
            // A session that had nothing anchored yet has taken nothing of what is owed. If nothing was, the record may have been put back:
            // then something may be in the journal that it names.
            state.journal = owed.or(state.journal);
        }
        if let Some(record) = record
            && !met
        {
            met = meets(&state, record)?;
            if !met && state.head.number > record.number {
                return Err(OpenError::RolledBack { anchored: record.number, found: state.head.number });
            }
        }
    }
    match record {
        Some(record) if !met => {
            Err(OpenError::RolledBack { anchored: record.number, found: state.head.number })
        }
        _ => Ok((state, replayed, journal_ended)),
    }
}

/// Whether a history is where the record is. At its number it must have its chain value.
fn meets(state: &State, record: &Record) -> Result<bool, OpenError> {
    if state.head.number != record.number {
        return Ok(false);
    }
    if !record.is_at(&state.head.chain) {
        return Err(OpenError::RolledBack { anchored: record.number, found: state.head.number });
    }
    Ok(true)
}

/// The next object of the log, if there is one that belongs there: of the checkpoint's own key, as somebody else may have an earlier one.
fn next(objects: &Objects, state: &State) -> Result<Option<LogObject>, OpenError> {
    let follows = |object: &LogObject| objects.made(&object.prelude) && state.is_followed_by(object);
    Ok(log_object(objects, state.successor)?.filter(follows))
}

/// Log object `number`, if it can be read, by its first bytes where they are whole.
pub(super) fn log_object(objects: &Objects, number: u64) -> Result<Option<LogObject>, StoreError> {
    let name = names::log(number);
    let Some(front) = objects.get_range(&name, 0, FRONT)? else { return Ok(None) };
    let opened = match open_log_front(&objects.keys, number, &front) {
        Ok(Err(more)) => match objects.get_range(&name, 0, more)? {
            Some(front) => open_log_front(&objects.keys, number, &front),
            None => return Ok(None),
        },
        opened => opened,
    };
    if let Ok(Ok(object)) = opened {
        return Ok(Some(object));
    }
    match objects.get(&name) {
        Ok(whole) => Ok(whole.and_then(|whole| open_log(&objects.keys, number, &whole).ok())),
        Err(StoreError::TooLong) => Ok(None),
        Err(error) => Err(error),
    }
}

fn seal_begin(objects: &Objects, state: &State, settings: &mut Settings) -> Result<SealedLog, OpenError> {
    let mut session = [0; 32];
    settings.random.fill(&mut session)?;
    let number = state.successor;
    let prelude = objects.prelude(&mut *settings.random, Kind::Log, number, session)?;
    let summary = Summary {
        begin: true,
        ordinal: state.ordinal.checked_add(1).ok_or(FormatError::Limit)?,
        before: state.head.number,
        before_chain: state.head.chain,
        successor: number + state.window,
        tags: [0; 32],
        blocks: state.blocks,
        journal: state.journal,
        extents: Vec::new(),
        operations: Vec::new(),
    };
    if summary.successor > crate::format::MOST_NUMBER {
        return Err(OpenError::Limit(FormatError::Limit));
    }
    Ok(seal_log(&objects.keys, prelude, summary, &[])?)
}

/// What became of the begin of a session.
enum Place {
    Taken,
    /// Another object has the number: the log is read on.
    Contested,
    /// Something has the number that is no object of the volume.
    Unreadable,
}

/// Stores the begin of a session. `held`: the trusted store is, so that nobody else writes; `each`: it names each flush.
fn place_begin(
    objects: &Objects,
    state: &State,
    begin: &SealedLog,
    held: bool,
    each: bool,
) -> Result<Place, OpenError> {
    let number = begin.object.prelude.number;
    let name = names::log(number);
    match objects.again(|| objects.store.put_new(&name, &begin.bytes), |_| true)? {
        Put::Stored => return Ok(Place::Taken),
        Put::Exists if objects.holds(&name, &begin.bytes)? => return Ok(Place::Taken),
        Put::Exists => {}
    }
    let there = log_object(objects, number)?;
    let off = match &there {
        // A branch of ours that somebody had hidden, or what an earlier key has made.
        Some(there) => there.summary.before_chain != state.head.chain || !objects.made(&there.prelude),
        // A copy that was cut short, for one. No flush was acknowledged with it: the record would name it.
        None => each,
    };
    if held && off {
        // It can't be conditional: something has the name. Nobody else who holds the store puts anything in its place meanwhile; who has a copy of
        // the store is met by the number behind, which is stored with a condition (THREAT-MODEL.md).
        objects.again(|| objects.store.put(&name, &begin.bytes), |_| true)?;
        return Ok(Place::Taken);
    }
    Ok(if there.is_some() { Place::Contested } else { Place::Unreadable })
}

pub(super) fn first_of(session: &[u8; 32]) -> [u8; 12] {
    let mut first = [0; 12];
    first.copy_from_slice(&session[..12]);
    first
}
