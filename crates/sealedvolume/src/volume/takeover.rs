//! A session takes over the journal that it finds: what the log does not cover of it is owed, if it is of this history.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

use atrest_device::{BlockDevice, Cause};
use atrest_secret::Random;

use super::OpenError;
use super::journal::{HEAD, Journal, JournalSettings, Point, Synced, read};
use crate::format::{
    Aead, FormatError, JOURNAL_HEAD, JournalHead, JournalKeys, JournalMark, JournalPoint, Keys, MOST_BLOCKS,
    RECORD_FRONT, RecordFront, half,
};

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
            is_half_full: false,
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
            // It goes on from another record than the log: of another copy of the volume, or of before.
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
            is_half_full: false,
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
    pub(super) before: Point,
    pub(crate) after: Point,
    pub(super) at: u64,
    pub(super) len: usize,
}

/// A journal that a session has taken over.
pub(crate) struct Taken {
    pub(crate) journal: Journal,
    pub(crate) owed: Vec<Place>,
}
