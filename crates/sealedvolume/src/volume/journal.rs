//! The journal: what was flushed is kept on a local device until log objects hold it (FORMATS.md, "Journal of a sealed volume").

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use atrest_device::{BlockDevice, Cause};
use atrest_secret::Random;

use super::{OpenError, VolumeError};
use crate::format::{
    Aead, BLOCK_LEN, Chain, Extent, FormatError, JOURNAL_HEAD, JournalHead, JournalKeys, JournalMark,
    JournalPoint, JournalRecord, Keys, MOST_BLOCKS, MOST_RECORDS, RECORD_FRONT, RecordFront, half, most_room,
};

const HEAD: u64 = JOURNAL_HEAD as u64;

/// A journal, and how it is worked with.
pub struct JournalSettings {
    /// Where it is. All of the device belongs to it, and to it alone.
    pub device: Arc<dyn BlockDevice>,
    /// What was flushed is stored after so much time at the latest, or a flush waits for that.
    pub max_lag: Duration,
}

impl fmt::Debug for JournalSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalSettings").field("max_lag", &self.max_lag).finish_non_exhaustive()
    }
}

/// The one of an opening for writing.
pub(crate) struct Journal {
    pub(crate) synced: Arc<Synced>,
    pub(crate) id: NonZeroU64,
    /// Number of the last record whose changes are all in sealed objects.
    pub(crate) covered: u64,
    /// Number of the last record whose changes are all in the batch or in sealed objects.
    pub(crate) applied: u64,
    /// A log object with changes that no record has: a flush waits until it is stored, and records until it is anchored.
    pub(crate) owed: Option<u64>,
    keys: JournalKeys,
    half_len: u64,
    /// Which half is written, the number of its first record, and from which of its bytes on.
    half: u64,
    first: u64,
    at: u64,
    /// Number of the last record, in the other half: it is begun anew when that is covered by what is stored.
    other_last: u64,
    number: u64,
    chain: Chain,
    /// Log objects that may not be stored yet, with what they cover.
    sealed: VecDeque<(u64, u64)>,
    /// Number of the last record that stored objects cover.
    stored: u64,
}

/// What of a journal is durable. Whoever flushes has it, beside whoever writes.
pub(crate) struct Synced {
    device: Arc<dyn BlockDevice>,
    /// The newest record, and the chain value after it.
    appended: Mutex<(u64, Chain)>,
    /// The same of what is durable.
    durable: Mutex<(u64, Chain)>,
}

impl Synced {
    fn new(device: Arc<dyn BlockDevice>, newest: (u64, Chain)) -> Self {
        Self { device, appended: Mutex::new(newest), durable: Mutex::new(newest) }
    }

    /// Makes everything durable that was appended up to a record. Those who wait here share one flush.
    pub(crate) fn reach(&self, number: u64) -> Result<(), VolumeError> {
        let mut durable = lock(&self.durable);
        if durable.0 >= number {
            return Ok(());
        }
        let newest = *lock(&self.appended);
        self.device.flush().map_err(|error| VolumeError::Journal(error.cause))?;
        *durable = newest;
        Ok(())
    }

    /// The newest record that is durable.
    pub(crate) fn point(&self) -> JournalPoint {
        let (number, chain) = *lock(&self.durable);
        JournalPoint { number, chain: half(&chain) }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner) // intended: what is in it is copied whole.
}

/// A journal as it was found.
pub(crate) struct Found {
    device: Arc<dyn BlockDevice>,
    half_len: u64,
    /// The heads that can be read, of both halves.
    heads: [Option<JournalHead>; 2],
    keys: JournalKeys,
}

impl Found {
    /// Looks at a device that is named as the journal, for objects of so many blocks. Nothing is written.
    pub(crate) fn look(device: Arc<dyn BlockDevice>, keys: &Keys, batch: usize) -> Result<Self, OpenError> {
        let half_len = device.size() / 2 / HEAD * HEAD;
        // intended: more than any device has.
        let least = most_room(batch).saturating_add(HEAD);
        if half_len < least {
            return Err(OpenError::JournalSize { least: least.saturating_mul(2) }); // intended: as above.
        }
        if device.is_read_only() {
            return Err(OpenError::Journal(Cause::ReadOnly));
        }
        let mut heads = [None; 2];
        let mut own = keys.journal(keys.epoch())?;
        for (which, place) in heads.iter_mut().enumerate() {
            let mut bytes = [0; JOURNAL_HEAD];
            read(&*device, which as u64 * half_len, &mut bytes).map_err(OpenError::Journal)?;
            if bytes == [0; JOURNAL_HEAD] {
                continue;
            }
            let (head, format) = match JournalHead::peek(&bytes) {
                Ok(peeked) => peeked,
                Err(error @ FormatError::Version { .. }) => return Err(error.into()),
                Err(_) => return Err(OpenError::JournalForeign),
            };
            if format != keys.format() {
                return Err(OpenError::JournalOfAnother);
            }
            // What is not whole was being begun when the machine stopped: nothing lies behind it. Neither does behind one of a key that
            // nothing needs any more.
            let Ok(of_epoch) = keys.journal(head.epoch) else { continue };
            if let Ok(head) = of_epoch.open_head(&bytes) {
                *place = Some(head);
                own = of_epoch;
            }
        }
        if let [Some(first), Some(second)] = heads
            && (first.id, first.epoch) != (second.id, second.epoch)
        {
            return Err(OpenError::JournalForeign);
        }
        Ok(Self { device, half_len, heads, keys: own })
    }

    /// The half with the newest head.
    fn newest(&self) -> Option<(u64, JournalHead)> {
        let heads = (0..).zip(self.heads).filter_map(|(which, head)| Some((which, head?)));
        heads.max_by_key(|(_, head)| head.first)
    }

    /// The half with the older head.
    fn older(&self) -> Option<(u64, JournalHead)> {
        let (newest, _) = self.newest()?;
        let which = 1 - newest;
        self.heads.get(which as usize).copied().flatten().map(|head| (which, head))
    }

    /// Takes the journal over for a session: what the log covers, and what the trusted record names, decide what is owed. `forgo`: what the
    /// journal holds is given up.
    pub(crate) fn take(
        self,
        mark: Option<JournalMark>,
        point: Option<JournalPoint>,
        (forgo, blocks): (bool, u64),
        random: &mut dyn Random,
    ) -> Result<Taken, OpenError> {
        let Some((newest, head)) = self.newest() else {
            return match mark {
                Some(_) if !forgo => Err(OpenError::JournalNeeded),
                _ => self.begin(random),
            };
        };
        // What is given up need not fit the volume.
        let blocks = if forgo { MOST_BLOCKS } else { blocks };
        let mut walk = Walk { half: newest, at: HEAD, number: head.first - 1, chain: head.before };
        let covered = match mark {
            Some(mark) if mark.id == head.id => mark.covered,
            Some(_) if !forgo => return Err(OpenError::JournalNeeded),
            // The log owes nothing to it: what is in it belongs to no history that counts.
            _ => {
                while self.next(&mut walk, MOST_BLOCKS)?.is_some() {}
                if walk.number >= head.first && !forgo {
                    return Err(OpenError::JournalLeft { records: walk.number - head.first + 1 });
                }
                walk.number
            }
        };
        let mut owed = Vec::new();
        let mut named = point.filter(|point| point.number > covered && !forgo);
        if covered < walk.number && !forgo {
            // What is owed begins in the older half.
            let gap = OpenError::JournalGap { covered, first: head.first };
            let (which, older) = self.older().filter(|(_, older)| older.first <= covered + 1).ok_or(gap)?;
            let mut before = Walk { half: which, at: HEAD, number: older.first - 1, chain: older.before };
            self.collect(&mut before, blocks, (covered, &mut named), &mut owed)?;
            if (before.number, before.chain) != (head.first - 1, head.before) {
                return Err(OpenError::JournalGap { covered: before.number, first: head.first });
            }
        }
        self.collect(&mut walk, blocks, (covered, &mut named), &mut owed)?;
        if let Some(named) = named {
            return Err(OpenError::JournalOlder { anchored: named.number, found: walk.number });
        }
        let lost = covered > walk.number;
        let number = covered.max(walk.number);
        let applied = if forgo { number } else { covered };
        let Self { device, half_len, keys, .. } = self;
        let mut journal = Journal {
            synced: Arc::new(Synced::new(device, (number, walk.chain))),
            id: head.id,
            covered: applied,
            applied,
            owed: None,
            keys,
            half_len,
            half: walk.half,
            first: head.first,
            at: walk.at,
            other_last: head.first - 1,
            number,
            chain: walk.chain,
            sealed: VecDeque::new(),
            stored: applied,
        };
        // What a process has written that was killed may be in memory alone.
        journal.flush()?;
        if lost || forgo {
            // What is given up is behind it then, or the end that was not durable though the log has it.
            owed.clear();
            journal.begin_half()?;
            journal.flush()?;
        }
        Ok(Taken { journal, owed })
    }

    /// A journal on a device that holds none.
    fn begin(self, random: &mut dyn Random) -> Result<Taken, OpenError> {
        let mut id = [0; 8];
        random.fill(&mut id)?;
        let id = NonZeroU64::new(u64::from_le_bytes(id)).ok_or(OpenError::Random)?;
        let Self { device, half_len, keys, .. } = self;
        let chain = keys.first_chain(id);
        // A head that could not be read must not be found beside the new one.
        let blank = device.write_at(half_len, &[0; JOURNAL_HEAD]).and_then(|()| device.flush());
        blank.map_err(|error| OpenError::Journal(error.cause))?;
        let mut journal = Journal {
            synced: Arc::new(Synced::new(device, (0, chain))),
            id,
            covered: 0,
            applied: 0,
            owed: None,
            keys,
            half_len,
            half: 1,
            first: 0,
            at: half_len,
            other_last: 0,
            number: 0,
            chain,
            sealed: VecDeque::new(),
            stored: 0,
        };
        journal.begin_half()?;
        journal.flush()?;
        Ok(Taken { journal, owed: Vec::new() })
    }

    /// Goes on to the end of a half. Where records lie that are not covered is collected; the one that is named must have its chain value.
    fn collect(
        &self,
        walk: &mut Walk,
        blocks: u64,
        (covered, named): (u64, &mut Option<JournalPoint>),
        owed: &mut Vec<Place>,
    ) -> Result<(), OpenError> {
        loop {
            if let Some(point) = *named
                && point.number == walk.number
            {
                if point.chain != half(&walk.chain) {
                    return Err(OpenError::JournalOlder { anchored: point.number, found: walk.number });
                }
                *named = None;
            }
            let (before, at) = (walk.chain, walk.half * self.half_len + walk.at);
            let Some(len) = self.next(walk, blocks)? else { return Ok(()) };
            if walk.number > covered {
                owed.push(Place { number: walk.number, before, at, len });
            }
        }
    }

    /// Goes on to the next record of a half, and returns its length; `None` at the first that does not follow.
    fn next(&self, walk: &mut Walk, blocks: u64) -> Result<Option<usize>, OpenError> {
        let mut front = [0; RECORD_FRONT];
        if walk.at >= self.half_len {
            return Ok(None);
        }
        let at = walk.half * self.half_len + walk.at;
        read(&*self.device, at, &mut front).map_err(OpenError::Journal)?;
        let Ok(front) = RecordFront::decode(&front) else { return Ok(None) };
        if front.room() > self.half_len - walk.at {
            return Ok(None);
        }
        let mut bytes = vec![0; front.len()];
        read(&*self.device, at, &mut bytes).map_err(OpenError::Journal)?;
        let Some((_, JournalHead { id, .. })) = self.newest() else { return Ok(None) };
        match self.keys.open((id, walk.number + 1, &walk.chain), &bytes, blocks) {
            Ok((record, chain)) => {
                walk.at += front.room();
                (walk.number, walk.chain) = (record.number, chain);
                Ok(Some(front.len()))
            }
            // A tag that fits was made by a session of ours, which writes no such record.
            Err(error @ (FormatError::Limit | FormatError::Layout)) => Err(error.into()),
            Err(_) => Ok(None),
        }
    }
}

/// A place in a half, and the record before it.
struct Walk {
    half: u64,
    at: u64,
    number: u64,
    chain: Chain,
}

/// A record that is owed.
pub(crate) struct Place {
    pub(crate) number: u64,
    before: Chain,
    at: u64,
    len: usize,
}

/// A journal that a session has taken over.
pub(crate) struct Taken {
    pub(crate) journal: Journal,
    pub(crate) owed: Vec<Place>,
}

impl Journal {
    /// What the next log object says.
    pub(crate) fn mark(&self) -> JournalMark {
        JournalMark { id: self.id, covered: self.covered }
    }

    /// A record that is owed, read again.
    pub(crate) fn read(&self, place: &Place, blocks: u64) -> Result<JournalRecord, VolumeError> {
        let mut bytes = vec![0; place.len];
        read(&*self.synced.device, place.at, &mut bytes).map_err(VolumeError::Journal)?;
        let (record, _) = self.keys.open((self.id, place.number, &place.before), &bytes, blocks)?;
        Ok(record)
    }

    /// A log object is sealed.
    pub(crate) fn sealed(&mut self, number: u64) {
        self.sealed.push_back((number, self.covered));
    }

    /// Appends a record, if there is room for it.
    pub(crate) fn append(
        &mut self,
        random: &mut dyn Random,
        aead: Aead,
        (extents, blocks): (&[Extent], &[&[u8; BLOCK_LEN]]),
        stored: u64,
    ) -> Result<bool, VolumeError> {
        let mut salt = [0; 16];
        random.fill(&mut salt)?;
        let number = self.number + 1;
        let (bytes, chain) = self.keys.seal((self.id, number, &self.chain), (aead, salt), extents, blocks)?;
        while let Some((_, covered)) = self.sealed.pop_front_if(|(number, _)| *number <= stored) {
            self.stored = covered;
        }
        if self.at + bytes.len() as u64 > self.half_len {
            if self.stored < self.other_last || HEAD + bytes.len() as u64 > self.half_len {
                return Ok(false);
            }
            self.begin_half()?;
        }
        let at = self.half * self.half_len + self.at;
        let written = self.synced.device.write_at(at, &bytes);
        written.map_err(|error| VolumeError::Journal(error.cause))?;
        self.at += bytes.len() as u64;
        (self.number, self.chain, self.applied) = (number, chain, number);
        *lock(&self.synced.appended) = (number, chain);
        Ok(true)
    }

    /// Begins the half that is not written, behind the last record, unless the one that is written has no record. All that is in it is covered.
    pub(crate) fn begin_half(&mut self) -> Result<(), VolumeError> {
        if self.first == self.number + 1 {
            return Ok(());
        }
        if self.number >= MOST_RECORDS - 1 {
            return Err(VolumeError::Limit(FormatError::Limit));
        }
        // The records before it must be there once the head is.
        self.flush()?;
        let which = 1 - self.half;
        let (epoch, id, first, before) = (self.keys.epoch(), self.id, self.number + 1, self.chain);
        let head = self.keys.encode_head(&JournalHead { epoch, id, first, before });
        let written = self.synced.device.write_at(which * self.half_len, &head);
        written.map_err(|error| VolumeError::Journal(error.cause))?;
        (self.half, self.first, self.at, self.other_last) = (which, first, HEAD, self.number);
        *lock(&self.synced.appended) = (self.number, self.chain);
        Ok(())
    }

    /// Makes everything durable that was appended.
    pub(crate) fn flush(&self) -> Result<(), VolumeError> {
        let newest = (self.number, self.chain);
        self.synced.device.flush().map_err(|error| VolumeError::Journal(error.cause))?;
        *lock(&self.synced.durable) = newest;
        Ok(())
    }

    /// Number of the newest record.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

fn read(device: &dyn BlockDevice, at: u64, out: &mut [u8]) -> Result<(), Cause> {
    device.read_at(at, out).map_err(|error| error.cause)
}
