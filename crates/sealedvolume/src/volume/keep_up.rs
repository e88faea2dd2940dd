//! What was flushed to the journal goes up behind it: a thread seals what has waited for long.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::core::Core;
use super::journal::Synced;
use super::{OpenError, SealedVolume, VolumeError};

/// How often it is looked, at least and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// The journal, for whoever flushes.
pub(crate) struct LocalJournal {
    pub(crate) synced: Arc<Synced>,
    /// A flush waits for the store once something has waited to be stored for longer.
    pub(crate) max_lag: Duration,
}

/// The thread of an open volume. It ends when this goes.
pub(crate) struct Behind {
    ends: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SealedVolume {
    /// From now on what was flushed is sealed after half of `max_lag`, so that it is stored before the rest has passed.
    pub(super) fn keep_up(&mut self, max_lag: Duration) -> Result<(), OpenError> {
        let synced = {
            let mut core = self.core()?;
            core.writer()?.journal.as_ref().map(|journal| Arc::clone(&journal.synced))
        };
        let Some(synced) = synced else { return Ok(()) };
        let (ends, end) = channel();
        let core = Arc::downgrade(&self.core);
        let thread = thread::Builder::new().name("journal".into());
        let thread = thread.spawn(move || look(&core, &end, max_lag / 2));
        let thread = thread.map_err(|_| OpenError::Thread)?;
        self._behind = Some(Behind { ends: Some(ends), thread: Some(thread) });
        self.journal = Some(LocalJournal { synced, max_lag });
        Ok(())
    }
}

impl SealedVolume {
    /// For how long what waits longest to be stored has waited: with a journal, since it was written, otherwise since it was sealed.
    pub(super) fn lag(&self) -> Option<Duration> {
        let (uploads, _) = self.uploads.as_ref()?;
        // intended: a volume that has panicked stores nothing any more, and says so to whoever reads or writes.
        let batch = self.core.lock().ok().and_then(|core| core.writer.as_ref()?.batch.since());
        [uploads.oldest(), batch].into_iter().flatten().min().map(|oldest| oldest.elapsed())
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        drop(self.ends.take());
        if let Some(thread) = self.thread.take() {
            // intended: one that has panicked has broken the volume, which says so.
            let _ = thread.join();
        }
    }
}

fn look(core: &Weak<Mutex<Core>>, end: &Receiver<()>, age: Duration) {
    let pause = (age / 2).clamp(LOOKS.0, LOOKS.1);
    while end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let Some(core) = core.upgrade() else { return };
        let Ok(mut core) = core.lock() else { return };
        match core.seal_if_older(age) {
            // intended: the next flush says what is wrong.
            Ok(()) | Err(_) => {}
        }
    }
}

impl Core {
    /// Seals what has been in the batch for so long, unless that would wait for the store.
    fn seal_if_older(&mut self, age: Duration) -> Result<(), VolumeError> {
        let writer = self.writer()?;
        let is_old = writer.batch.since().is_some_and(|since| since.elapsed() >= age);
        if is_old && writer.uploads.has_room() { self.seal_batch() } else { Ok(()) }
    }
}
