//! A volume that is open, and begins to be re-encrypted while it is served; or goes on with that.
//!
//! The work has a thread of its own, which holds media, header and keys. It can be stopped between two zones and let go on. Whoever
//! serves the volume is asked to change its device twice: for the one that knows both forms of the data, and, when all is done, for an
//! ordinary one with the new key.

use core::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use atrest_device::Media;
use atrest_engine::reencrypt::{Online, RewriteError, RewriteOptions, Served, run};
use atrest_engine::{Access, Disk, ReencryptionLock};
use atrest_volume::luks2::reencrypt::{ReencryptKeys, Rewriting};
use atrest_volume::{Devices, LockedVolume, UnlockError, VolumeKey};

use crate::reopen::is_marked;
use crate::{Device, Reopen, ReopenError};

/// Bytes that are rewritten at once: writes to them wait meanwhile, for the time of some flushes.
pub const ZONE: u64 = 1 << 20;

/// What is served from now on.
pub enum Serve {
    /// The volume while it is re-encrypted, and what tells that its old form is the one that was served before
    /// ([`Online::likeness_before`]).
    Online(Arc<Online>, Vec<u8>),
    /// The volume with its new key.
    Done(Disk),
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It goes on.
    Running {
        /// Bytes of data that are done.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// It was stopped.
    Stopped {
        /// Bytes of data that are done.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// All is done.
    Done,
    /// All is done. The volume is still served by what knows both keys, because an ordinary one could not be put in its place: this is why.
    Kept(String),
    /// It has failed: everything can be read, and nothing is written any more.
    Failed(String),
}

/// A re-encryption that goes on beside the serving, until this is dropped.
#[must_use]
pub struct Background {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// Ends a run between two zones.
    cancel: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
    state: Mutex<State>,
    turned: Condvar,
}

enum State {
    Running,
    Stopped,
    Done,
    Kept(String),
    Failed(String),
    /// Nobody waits for it any more.
    Ending,
}

impl Background {
    /// Whether a volume can be re-encrypted while it is served, as far as is known before its header says that this has begun. One that
    /// says so already is for [`start`](Self::start) to judge.
    ///
    /// # Errors
    /// Why it can't.
    pub fn check(reopen: &Reopen) -> Result<(), String> {
        let possible = |reopen: &Reopen| -> Result<(), Why> {
            is_writable(reopen)?;
            let locked = LockedVolume::read(reopen.header())?;
            let is_luks2 = locked.luks2().is_some();
            // Nothing is changed any more before it is gone on with, and then it is asked how much there is.
            if is_luks2 && is_marked(&locked) {
                return Ok(());
            }
            match reopen.room()?.filter(|_| is_luks2) {
                None => Err(Why(OTHER_KIND.into())),
                Some(room) if room.bytes != reopen.size.load(Ordering::Acquire) => Err(Why(PART.into())),
                Some(_) => Ok(()),
            }
        };
        possible(reopen).map_err(|why| why.0)
    }

    /// Goes on with the re-encryption of the volume of `reopen`, whose header says that one has begun and that nothing is done yet, with the
    /// keys of both sides. `serve` changes what is served, and refuses what is not the same volume. Returns when it runs.
    ///
    /// # Errors
    /// Why it can't go on. The volume is served as before then.
    pub fn start(
        reopen: Arc<Reopen>,
        keys: Vec<VolumeKey>,
        serve: impl Fn(Serve) -> Result<(), String> + Send + 'static,
    ) -> Result<Self, String> {
        let shared = Arc::new(Shared {
            cancel: AtomicBool::new(false),
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            state: Mutex::new(State::Running),
            turned: Condvar::new(),
        });
        let (begun, begins) = mpsc::channel();
        let works = shared.clone();
        let thread = std::thread::Builder::new()
            .name("reencrypt".into())
            .spawn(move || {
                let _ends = Ends(&works);
                work(&works, &reopen, &keys, &serve, &begun);
            })
            .map_err(|error| error.to_string())?;
        let background = Self { shared, thread: Some(thread) };
        match begins.recv() {
            Ok(Ok(())) => Ok(background),
            Ok(Err(why)) => Err(why),
            Err(_) => Err("its thread has ended".into()),
        }
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let (done, total) =
            (self.shared.done.load(Ordering::Acquire), self.shared.total.load(Ordering::Acquire));
        match &*self.shared.state() {
            State::Running | State::Ending => Progress::Running { done, total },
            State::Stopped => Progress::Stopped { done, total },
            State::Done => Progress::Done,
            State::Kept(why) => Progress::Kept(why.clone()),
            State::Failed(why) => Progress::Failed(why.clone()),
        }
    }

    /// Stops as soon as the zone is done that is being rewritten. Returns when it has stopped, or is done.
    pub fn stop(&self) {
        self.shared.cancel.store(true, Ordering::Release);
        let state = self.shared.state();
        let stopped = self.shared.turned.wait_while(state, |state| matches!(state, State::Running));
        drop(stopped.unwrap_or_else(PoisonError::into_inner));
    }

    /// Lets it go on after [`stop`](Self::stop). Otherwise nothing changes.
    pub fn go_on(&self) {
        let mut state = self.shared.state();
        if matches!(*state, State::Stopped) {
            self.shared.cancel.store(false, Ordering::Release);
            *state = State::Running;
            self.shared.turned.notify_all();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.shared.cancel.store(true, Ordering::Release);
        let mut state = self.shared.state();
        if matches!(*state, State::Running | State::Stopped) {
            *state = State::Ending;
        }
        self.shared.turned.notify_all();
        drop(state);
        if let Some(thread) = self.thread.take() {
            // A panic there has been told, and the data is as after a crash.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what has become of it, unless nobody waits.
    fn turn(&self, to: State) {
        let mut state = self.state();
        if !matches!(*state, State::Ending) {
            *state = to;
        }
        self.turned.notify_all();
    }

    /// Waits while it is stopped. Returns whether it goes on.
    fn wait(&self) -> bool {
        let state = self.turned.wait_while(self.state(), |state| matches!(state, State::Stopped));
        matches!(*state.unwrap_or_else(PoisonError::into_inner), State::Running)
    }
}

/// Whoever waits for the thread must not wait for one that has ended.
struct Ends<'a>(&'a Shared);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if matches!(*state, State::Running | State::Stopped) {
            *state = State::Failed("its thread has ended".into());
        }
        self.0.turned.notify_all();
    }
}

const OTHER_KIND: &str =
    "only volumes of LUKS2 are re-encrypted while they are served, and not those with tags";
const PART: &str = "it shows a part of its data alone";

type Change<'a> = &'a dyn Fn(Serve) -> Result<(), String>;

fn work(
    shared: &Shared,
    reopen: &Reopen,
    keys: &[VolumeKey],
    serve: Change<'_>,
    begun: &mpsc::Sender<Result<(), String>>,
) {
    // A detached header was opened for reading. It stays locked by that.
    let header = match reopen.header_path.as_ref().map(|path| Device::open(path, Access::ReadWrite)) {
        None => None,
        Some(Ok(header)) => Some(header),
        Some(Err(error)) => return drop(begun.send(Err(error.to_string()))),
    };
    let header = header.as_ref().map(|header| header as &dyn Media);
    let devices = Devices::with_header(header, &*reopen.media);
    let mut rewriting = match begin(shared, reopen, devices, keys) {
        Ok(rewriting) => rewriting,
        Err(why) => return drop(begun.send(Err(why.to_string()))),
    };
    // Also while it is stopped.
    let _lock = match ReencryptionLock::take(rewriting.volume().uuid()) {
        Ok(Some(lock)) => lock,
        Ok(None) => return drop(begun.send(Err(RewriteError::Running.to_string()))),
        Err(cause) => return drop(begun.send(Err(cause.to_string()))),
    };
    let online = match online(reopen, &mut rewriting, serve) {
        Ok(online) => online,
        Err(why) => return drop(begun.send(Err(why.to_string()))),
    };
    // Whoever asked may have gone; the work is begun.
    let _ = begun.send(Ok(()));
    loop {
        let mut options = RewriteOptions::default();
        (options.threads, options.zone) = (1, ZONE);
        (options.cancel, options.online) = (Some(&shared.cancel), Some(&*online as &dyn Served));
        let result = run(&mut rewriting, options, &mut |done, _| shared.done.store(done, Ordering::Release));
        match result {
            Ok(_) => break,
            Err(RewriteError::Cancelled { .. }) => {
                shared.turn(State::Stopped);
                if !shared.wait() {
                    return;
                }
            }
            Err(error) => return shared.turn(State::Failed(error.to_string())),
        }
    }
    let is_plaintext = rewriting.new_mapper().is_none();
    drop(rewriting);
    if is_plaintext {
        // No key opens it any more. What serves it goes on.
        return shared.turn(State::Done);
    }
    match renewed(reopen, keys).and_then(|disk| serve(Serve::Done(disk))) {
        Ok(()) => shared.turn(State::Done),
        Err(why) => shared.turn(State::Kept(why)),
    }
}

/// The volume with whichever of the keys is its key by now.
fn renewed(reopen: &Reopen, keys: &[VolumeKey]) -> Result<Disk, String> {
    for key in keys.iter().rev() {
        match reopen.open(key.expose()) {
            Ok(disk) => return Ok(disk),
            Err(ReopenError::Unlock(UnlockError::WrongVolumeKey)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("its header has neither key, and so was changed by somebody else".into())
}

/// Why it can't go on, in words.
struct Why(String);

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Why {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

fn begin<'a>(
    shared: &Shared,
    reopen: &Reopen,
    devices: Devices<'a>,
    keys: &[VolumeKey],
) -> Result<Rewriting<'a>, Why> {
    is_writable(reopen)?;
    let locked = LockedVolume::read(devices.header)?;
    let Some(luks2) = locked.luks2() else {
        return Err(Why(OTHER_KIND.into()));
    };
    let rewriting = luks2.resume_reencryption_with(devices, ReencryptKeys::of_volume_keys(keys))?;
    // What is served is all in its old form.
    if rewriting.done()? != 0 || rewriting.interrupted()?.is_some() {
        return Err(Why("somebody else has gone on with its re-encryption since it was opened".into()));
    }
    if rewriting.total() != reopen.size.load(Ordering::Acquire) {
        return Err(Why(PART.into()));
    }
    shared.total.store(rewriting.total(), Ordering::Release);
    Ok(rewriting)
}

fn is_writable(reopen: &Reopen) -> Result<(), Why> {
    match reopen.disk.read_only || reopen.unlock.read_only {
        true => Err(Why("it was opened for reading alone".into())),
        false => Ok(()),
    }
}

fn online(reopen: &Reopen, rewriting: &mut Rewriting<'_>, serve: Change<'_>) -> Result<Arc<Online>, Why> {
    let online = Online::new(reopen.media.clone(), rewriting, 0, &reopen.disk)?.ok_or_else(|| {
        Why("its data moves to another place, which can't be done while it is served".into())
    })?;
    let before = online.likeness_before()?;
    let online = Arc::new(match &reopen.header {
        Some(header) => online.with_header(header.clone()),
        None => online,
    });
    serve(Serve::Online(online.clone(), before)).map_err(Why)?;
    Ok(online)
}
