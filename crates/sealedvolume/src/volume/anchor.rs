//! The record in the trusted store. Whoever writes it keeps only those waiting who want it written, too: one record counts for all of them.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atrest_device::TrustedStore;

use super::journal::Synced;
use super::{Head, VolumeError};
use crate::format::{FormatId, JournalPoint, Record};

/// That of one session.
pub(crate) struct Anchor {
    format: FormatId,
    session: [u8; 12],
    /// It is written at every so many flushes.
    every: NonZeroU32,
    inner: Mutex<Inner>,
    /// Nothing more is written.
    stopped: AtomicBool,
    /// Number of the newest log object that the record names. Without a trusted store there is none.
    reached: AtomicU64,
}

struct Inner {
    trusted: Option<Box<dyn TrustedStore + Send>>,
    /// The journal, while it is in use.
    journal: Option<Arc<Synced>>,
    anchored: Option<(Head, Option<JournalPoint>)>,
    flushes: u32,
    /// It is being written, or whoever wrote it has panicked: nobody knows what it holds.
    unsure: bool,
}

impl Anchor {
    pub(crate) fn new(
        trusted: Option<Box<dyn TrustedStore + Send>>,
        journal: Option<Arc<Synced>>,
        every: NonZeroU32,
        (format, session): (FormatId, [u8; 12]),
    ) -> Self {
        let reached = AtomicU64::new(0);
        let inner = Mutex::new(Inner { trusted, journal, anchored: None, flushes: 0, unsure: false });
        Self { format, session, every, inner, stopped: AtomicBool::new(false), reached }
    }

    /// By policy, or by `force`, writes the record of the point that `stored` tells, and of what of the journal is durable, unless somebody has
    /// written that or a later one. All of the history up to there is stored.
    pub(crate) fn reach(&self, stored: impl FnOnce() -> Head, force: bool) -> Result<(), VolumeError> {
        let mut inner = self.lock();
        if inner.trusted.is_none() {
            return Ok(());
        }
        // Others have stored more while this one waited here.
        let (head, point) = (stored(), inner.point());
        if inner.anchored.is_some_and(|(anchored, journal)| {
            anchored.number >= head.number
                && journal.map(|journal| journal.number) >= point.map(|point| point.number)
        }) {
            return Ok(());
        }
        inner.flushes = inner.flushes.wrapping_add(1);
        match force || inner.flushes.is_multiple_of(self.every.get()) {
            true => self.store(&mut inner, head, false),
            // The session has ended while this one waited here.
            false if inner.unsure || self.stopped.load(Ordering::Acquire) => {
                Err(VolumeError::EarlierFlushFailed)
            }
            false => Ok(()),
        }
    }

    /// Writes the record of a point.
    pub(crate) fn write(&self, head: Head, closed: bool) -> Result<(), VolumeError> {
        self.store(&mut self.lock(), head, closed)
    }

    /// Number of the newest log object that nobody can take back unnoticed, of those up to `stored`.
    pub(crate) fn reached(&self, stored: u64) -> u64 {
        self.reached.load(Ordering::Acquire).min(stored)
    }

    /// Writes nothing from now on.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// The journal is in use no more.
    pub(crate) fn end_journal(&self) {
        self.lock().journal = None;
    }

    fn store(&self, inner: &mut Inner, head: Head, closed: bool) -> Result<(), VolumeError> {
        if inner.unsure || self.stopped.load(Ordering::Acquire) {
            return Err(VolumeError::EarlierFlushFailed);
        }
        let Head { number, chain } = head;
        let journal = inner.point();
        let record = Record { closed, format: self.format, number, chain, journal, session: self.session };
        if let Some(trusted) = &mut inner.trusted {
            // Nobody knows what it holds after an error, or a panic.
            inner.unsure = true;
            trusted.store(&record.encode()).inspect_err(|_| self.stop())?;
            inner.unsure = false;
            self.reached.store(number, Ordering::Release);
        }
        inner.anchored = Some((head, journal));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner) // intended: `unsure` tells of a store that panicked.
    }
}

impl Inner {
    /// What of the journal is durable.
    fn point(&self) -> Option<JournalPoint> {
        self.journal.as_ref().map(|journal| journal.point())
    }
}
