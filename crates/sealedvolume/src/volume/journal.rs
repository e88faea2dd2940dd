//! The journal: what was flushed is kept on a local device until log objects hold it (FORMATS.md, "Journal of a sealed volume").

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU32;
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
/// Bytes of a half that flushes leave for the empty records of openings.
const RESERVE: u64 = 64 << 10;

/// A journal, and how it is worked with.
pub struct JournalSettings {
    /// Where it is. All of the device belongs to it, and to it alone.
    pub device: Arc<dyn BlockDevice>,
    /// What was flushed is stored after so much time at the latest, or a flush waits for that.
    pub max_lag: Duration,
}

impl JournalSettings {
    /// Bytes that a device must have, for log objects that are sealed after so many blocks.
    pub fn least_size(batch: usize) -> u64 {
        // intended: more than any device has.
        most_room(batch).saturating_add(HEAD + RESERVE).saturating_mul(2)
    }
}

impl fmt::Debug for JournalSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalSettings").field("max_lag", &self.max_lag).finish_non_exhaustive()
    }
}

/// The one of an opening for writing.
pub(crate) struct Journal {
    pub(crate) synced: Arc<Synced>,
    pub(crate) id: NonZeroU32,
    /// The last record whose changes are all in sealed objects.
    pub(crate) covered: Point,
    /// The last record whose changes are all in the batch or in sealed objects.
    pub(crate) applied: Point,
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
    last: Point,
    /// Where the last record lies, and what is before it, if it is empty.
    empty: Option<(u64, Point)>,
    /// Log objects that may not be stored yet, with what they cover.
    sealed: VecDeque<(u64, u64)>,
    /// Number of the last record that stored objects cover.
    stored: u64,
}

/// A record, and the journal's chain value after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) number: u64,
    pub(crate) chain: Chain,
}

/// What of a journal is durable. Whoever flushes has it, beside whoever writes.
pub(crate) struct Synced {
    device: Arc<dyn BlockDevice>,
    /// The newest record.
    appended: Mutex<Point>,
    /// The newest that is durable.
    durable: Mutex<Point>,
}

impl Synced {
    fn new(device: Arc<dyn BlockDevice>, newest: Point) -> Self {
        Self { device, appended: Mutex::new(newest), durable: Mutex::new(newest) }
    }

    /// Makes everything durable that was appended up to a record. Those who wait here share one flush.
    pub(crate) fn reach(&self, number: u64) -> Result<(), VolumeError> {
        let mut durable = lock(&self.durable);
        if durable.number >= number {
            return Ok(());
        }
        let newest = *lock(&self.appended);
        self.device.flush().map_err(|error| VolumeError::Journal(error.cause))?;
        *durable = newest;
        Ok(())
    }

    /// The newest record that is durable.
    pub(crate) fn point(&self) -> JournalPoint {
        let Point { number, chain } = *lock(&self.durable);
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
        let least = JournalSettings::least_size(batch);
        if half_len < least / 2 {
            return Err(OpenError::JournalSize { least });
        }
        if device.is_read_only() {
            return Err(OpenError::Journal(Cause::ReadOnly));
        }
        let mut heads = [None; 2];
        let (mut own, mut foreign) = (keys.journal(keys.epoch())?, false);
        for (which, place) in heads.iter_mut().enumerate() {
            let mut bytes = [0; JOURNAL_HEAD];
            read(&*device, which as u64 * half_len, &mut bytes).map_err(OpenError::Journal)?;
            if bytes == [0; JOURNAL_HEAD] {
                continue;
            }
            let (head, format) = match JournalHead::peek(&bytes) {
                Ok(peeked) => peeked,
                Err(error @ FormatError::Version { .. }) => return Err(error.into()),
                Err(_) => {
                    foreign = true;
                    continue;
                }
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
        // Beside a head of ours it is one that was being begun or wiped, sector by sector.
        if foreign && heads == [None; 2] {
            return Err(OpenError::JournalForeign);
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
        (random, aead): (&mut dyn Random, Aead),
    ) -> Result<Taken, OpenError> {
        let Some((newest, head)) = self.newest() else {
            return match mark {
                Some(_) if !forgo => Err(OpenError::JournalNeeded),
                _ => self.begin(random),
            };
        };
        let (walk, covered, owed) = match mark {
            _ if forgo => (self.walk(newest, &head).at_end(&self)?, None, Vec::new()),
            Some(mark) if mark.id == head.id => self.owed(mark, point, blocks)?,
            Some(_) => return Err(OpenError::JournalNeeded),
            // The log owes nothing to it: what is in it belongs to no history that counts.
            None => (self.left()?, None, Vec::new()),
        };
        let (first, last) = (walk.first, walk.last);
        let Self { device, half_len, keys, .. } = self;
        let mut journal = Journal {
            synced: Arc::new(Synced::new(device, last)),
            id: head.id,
            covered: last,
            applied: last,
            owed: None,
            keys,
            half_len,
            half: walk.half,
            first,
            at: walk.at,
            other_last: first - 1,
            last,
            empty: walk.empty,
            sealed: VecDeque::new(),
            stored: covered.map_or(last.number, |covered| covered.number),
        };
        journal.put_behind((random, aead), point)?;
        // What a process has written that was killed may be in memory alone.
        journal.flush()?;
        let covered = covered.unwrap_or(journal.last); // intended: nothing is owed, so that all of it is covered.
        (journal.covered, journal.applied) = (covered, covered);
        Ok(Taken { journal, owed })
    }

    /// Where the journal ends, what of it is covered, and what is owed behind that, if anything is.
    fn owed(
        &self,
        mark: JournalMark,
        point: Option<JournalPoint>,
        blocks: u64,
    ) -> Result<(Walk, Option<Point>, Vec<Place>), OpenError> {
        let covered = mark.covered;
        let heads = [self.newest(), self.older()];
        let gap = |first| OpenError::JournalGap { covered, first };
        let begins = heads.iter().flatten().find(|(_, head)| head.first <= covered + 1);
        let (half, head) =
            begins.ok_or(gap(heads.iter().flatten().map(|(_, head)| head.first).min().unwrap_or(0)))?; // intended: there is one.
        let mut walk = self.walk(*half, head);
        let mut found =
            Owed { named: point.filter(|point| point.number > covered), at: None, changes: false };
        let mut owed = Vec::new();
        loop {
            found.look(&walk.last, mark)?;
            let (at, before) = (walk.place(self.half_len), walk.last);
            if let Some((len, is_empty)) = walk.next(self, blocks)? {
                let after = walk.last;
                found.changes |= !is_empty && after.number >= covered;
                if after.number > covered {
                    owed.push(Place { before, after, at, len });
                }
                continue;
            }
            // The other half goes on where this one ends, or lies before it.
            match heads.iter().flatten().find(|(_, other)| other.first > walk.first) {
                None => break,
                Some((half, head))
                    if (head.first - 1, head.before) == (walk.last.number, walk.last.chain) =>
                {
                    walk = self.walk(*half, head);
                }
                Some((_, head)) => {
                    return Err(OpenError::JournalGap { covered: walk.last.number, first: head.first });
                }
            }
        }
        if let Some(named) = found.named {
            return Err(OpenError::JournalOlder { anchored: named.number, found: walk.last.number });
        }
        match (found.at, found.changes) {
            // A later one of another history, or of before.
            (None, true) => Err(OpenError::JournalBranch { covered }),
            (_, false) => Ok((walk, None, Vec::new())),
            (Some(_), true) if owed.is_empty() => Ok((walk, None, owed)),
            (Some(at), true) => Ok((walk, Some(at), owed)),
        }
    }

    /// Where the journal ends, if nothing in it is left of a history that does not count.
    fn left(&self) -> Result<Walk, OpenError> {
        let mut records = 0;
        let mut end = None;
        for (half, head) in [self.older(), self.newest()].into_iter().flatten() {
            let mut walk = self.walk(half, &head);
            while let Some((_, is_empty)) = walk.next(self, MOST_BLOCKS)? {
                records += u64::from(!is_empty);
            }
            end = Some(walk);
        }
        match end {
            Some(end) if records == 0 => Ok(end),
            _ => Err(OpenError::JournalLeft { records }),
        }
    }

    fn walk(&self, half: u64, head: &JournalHead) -> Walk {
        let last = Point { number: head.first - 1, chain: head.before };
        Walk { id: head.id, half, first: head.first, at: HEAD, last, empty: None }
    }

    /// A journal on a device that holds none.
    fn begin(self, random: &mut dyn Random) -> Result<Taken, OpenError> {
        let mut id = [0; 4];
        random.fill(&mut id)?;
        let id = NonZeroU32::MIN | u32::from_le_bytes(id);
        let Self { device, half_len, keys, .. } = self;
        let chain = keys.first_chain(id);
        // A head that could not be read must not be found beside the new one.
        let blank = device.write_at(half_len, &[0; JOURNAL_HEAD]).and_then(|()| device.flush());
        blank.map_err(|error| OpenError::Journal(error.cause))?;
        let none = Point { number: 0, chain };
        let mut journal = Journal {
            synced: Arc::new(Synced::new(device, none)),
            id,
            covered: none,
            applied: none,
            owed: None,
            keys,
            half_len,
            half: 1,
            first: 0,
            at: half_len,
            other_last: 0,
            last: none,
            empty: None,
            sealed: VecDeque::new(),
            stored: 0,
        };
        journal.begin_half()?;
        journal.flush()?;
        Ok(Taken { journal, owed: Vec::new() })
    }
}

/// What is looked for in a journal.
struct Owed {
    /// The record that the trusted store names, until it is found.
    named: Option<JournalPoint>,
    /// The record up to which the log covers it, where the chain value is that of the log.
    at: Option<Point>,
    /// A record from that on changes something.
    changes: bool,
}

impl Owed {
    fn look(&mut self, last: &Point, mark: JournalMark) -> Result<(), OpenError> {
        if last.number == mark.covered && mark.is_at(&last.chain) {
            self.at = Some(*last);
        }
        match self.named.filter(|named| named.number == last.number) {
            Some(named) if named.chain != half(&last.chain) => {
                Err(OpenError::JournalOlder { anchored: named.number, found: last.number })
            }
            Some(_) => {
                self.named = None;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// A place in a half, and the record before it.
struct Walk {
    id: NonZeroU32,
    half: u64,
    first: u64,
    at: u64,
    last: Point,
    /// Where the record before it lies, and what is before that, if it is empty.
    empty: Option<(u64, Point)>,
}

impl Walk {
    fn place(&self, half_len: u64) -> u64 {
        self.half * half_len + self.at
    }

    fn at_end(mut self, found: &Found) -> Result<Self, OpenError> {
        // What is given up need not fit the volume.
        while self.next(found, MOST_BLOCKS)?.is_some() {}
        Ok(self)
    }

    /// Goes on to the next record of the half, and returns its length and whether it is empty; `None` at the first that does not follow.
    fn next(&mut self, found: &Found, blocks: u64) -> Result<Option<(usize, bool)>, OpenError> {
        if self.at >= found.half_len {
            return Ok(None);
        }
        let (mut front, at) = ([0; RECORD_FRONT], self.place(found.half_len));
        read(&*found.device, at, &mut front).map_err(OpenError::Journal)?;
        let Ok(front) = RecordFront::decode(&front) else { return Ok(None) };
        if front.room() > found.half_len - self.at {
            return Ok(None);
        }
        let mut bytes = vec![0; front.record_len()];
        read(&*found.device, at, &mut bytes).map_err(OpenError::Journal)?;
        match found.keys.open((self.id, self.last.number + 1, &self.last.chain), &bytes, blocks) {
            Ok((record, chain)) => {
                let is_empty = record.is_empty();
                self.empty = is_empty.then_some((self.at, self.last));
                self.at += front.room();
                self.last = Point { number: record.number, chain };
                Ok(Some((front.record_len(), is_empty)))
            }
            // A tag that fits was made by a session of ours, which writes no such record.
            Err(error @ (FormatError::Limit | FormatError::Layout)) => Err(error.into()),
            Err(_) => Ok(None),
        }
    }
}

/// A record that is owed.
pub(crate) struct Place {
    before: Point,
    pub(crate) after: Point,
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
        JournalMark::new(self.id, self.covered.number, &self.covered.chain)
    }

    /// A record that is owed, read again.
    pub(crate) fn read(&self, place: &Place, blocks: u64) -> Result<JournalRecord, VolumeError> {
        let mut bytes = vec![0; place.len];
        read(&*self.synced.device, place.at, &mut bytes).map_err(VolumeError::Journal)?;
        let (record, _) =
            self.keys.open((self.id, place.after.number, &place.before.chain), &bytes, blocks)?;
        Ok(record)
    }

    /// A log object is sealed.
    pub(crate) fn sealed(&mut self, number: u64) {
        self.sealed.push_back((number, self.covered.number));
    }

    /// Appends a record, if there is room for it.
    pub(crate) fn append(
        &mut self,
        random: &mut dyn Random,
        aead: Aead,
        (extents, blocks): (&[Extent], &[&[u8; BLOCK_LEN]]),
        stored: u64,
    ) -> Result<bool, VolumeError> {
        while let Some((_, covered)) = self.sealed.pop_front_if(|(number, _)| *number <= stored) {
            self.stored = covered;
        }
        let (bytes, after) = self.sealed_record((random, aead), extents, blocks)?;
        if self.at + bytes.len() as u64 + RESERVE > self.half_len {
            if self.stored < self.other_last || HEAD + bytes.len() as u64 + RESERVE > self.half_len {
                return Ok(false);
            }
            self.begin_half()?;
        }
        self.put(&bytes, after)?;
        (self.applied, self.empty) = (after, None);
        Ok(true)
    }

    /// Appends an empty record: nothing that an earlier session left behind what it found can follow then, whoever restores it.
    fn put_behind(
        &mut self,
        with: (&mut dyn Random, Aead),
        point: Option<JournalPoint>,
    ) -> Result<(), VolumeError> {
        if self.at + HEAD > self.half_len {
            match self.empty {
                _ if self.stored >= self.other_last => self.begin_half()?,
                // Openings that came to nothing have used up the room.
                Some((at, before)) if point.is_none_or(|point| point.number < self.last.number) => {
                    (self.at, self.last) = (at, before);
                }
                _ => return Err(VolumeError::Limit(FormatError::Limit)),
            }
        }
        let (bytes, after) = self.sealed_record(with, &[], &[])?;
        self.put(&bytes, after)
    }

    fn sealed_record(
        &self,
        (random, aead): (&mut dyn Random, Aead),
        extents: &[Extent],
        blocks: &[&[u8; BLOCK_LEN]],
    ) -> Result<(Vec<u8>, Point), VolumeError> {
        let mut salt = [0; 16];
        random.fill(&mut salt)?;
        let number = self.last.number + 1;
        let at = (self.id, number, &self.last.chain);
        let (bytes, chain) = self.keys.seal(at, (aead, salt), extents, blocks)?;
        Ok((bytes, Point { number, chain }))
    }

    fn put(&mut self, bytes: &[u8], after: Point) -> Result<(), VolumeError> {
        let at = self.half * self.half_len + self.at;
        let written = self.synced.device.write_at(at, bytes);
        written.map_err(|error| VolumeError::Journal(error.cause))?;
        self.at += bytes.len() as u64;
        self.last = after;
        *lock(&self.synced.appended) = after;
        Ok(())
    }

    /// Nothing is in it any more, and everything is stored.
    pub(crate) fn end(&mut self) -> Result<(), VolumeError> {
        self.begin_half()?;
        self.flush()?;
        // What is in the other half is covered, and nobody is to take it for what was left.
        let wiped = self.synced.device.write_at((1 - self.half) * self.half_len, &[0; JOURNAL_HEAD]);
        wiped.map_err(|error| VolumeError::Journal(error.cause))?;
        self.flush()
    }

    /// Begins the half that is not written, behind the last record, unless the one that is written has no record. All that is in it is covered.
    pub(crate) fn begin_half(&mut self) -> Result<(), VolumeError> {
        if self.first == self.last.number + 1 {
            return Ok(());
        }
        if self.last.number >= MOST_RECORDS - 2 {
            return Err(VolumeError::Limit(FormatError::Limit));
        }
        // The records before it must be there once the head is.
        self.flush()?;
        let which = 1 - self.half;
        let (epoch, id, first, before) = (self.keys.epoch(), self.id, self.last.number + 1, self.last.chain);
        let head = self.keys.encode_head(&JournalHead { epoch, id, first, before });
        let written = self.synced.device.write_at(which * self.half_len, &head);
        written.map_err(|error| VolumeError::Journal(error.cause))?;
        (self.half, self.first, self.at, self.other_last) = (which, first, HEAD, self.last.number);
        self.empty = None;
        Ok(())
    }

    /// Makes everything durable that was appended.
    pub(crate) fn flush(&self) -> Result<(), VolumeError> {
        let newest = self.last;
        self.synced.device.flush().map_err(|error| VolumeError::Journal(error.cause))?;
        *lock(&self.synced.durable) = newest;
        Ok(())
    }

    /// Number of the newest record.
    pub(crate) fn number(&self) -> u64 {
        self.last.number
    }

    /// All that it holds is in the batch or in sealed objects.
    pub(crate) fn is_applied(&mut self) {
        self.applied = self.last;
    }
}

fn read(device: &dyn BlockDevice, at: u64, out: &mut [u8]) -> Result<(), Cause> {
    device.read_at(at, out).map_err(|error| error.cause)
}
