//! One mount's requests: taken from the kernel, answered by a [`Filesystem`], on as many threads as there are.
//!
//! There are two ways to the kernel, and one dispatcher behind both. `/dev/fuse` is always there ([`device`]): two system
//! calls for every request. Where the kernel offers rings of io_uring (Linux 6.14 and later, `fuse.enable_uring`), one call brings a reply
//! there and the next request back ([`ring`]), on the processor on which the caller runs.

mod device;
mod dispatch;
mod notifier;
#[cfg_attr(not(target_pointer_width = "64"), path = "no_ring.rs")]
mod ring;
#[cfg(target_pointer_width = "64")]
mod seat;
// Half of it is for rings.
#[cfg_attr(not(target_pointer_width = "64"), allow(dead_code))]
mod stop;
#[cfg(target_pointer_width = "64")]
#[allow(unsafe_code)]
mod uring;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use device::Channel;
pub use notifier::Notifier;
use ring::Rings;
use stop::Stop;

use super::Options;
use super::filesystem::Filesystem;
use super::protocol::Wishes;
use super::protocol::abi::init_flag;

/// A mount whose requests are being answered.
pub struct Session {
    threads: Vec<JoinHandle<io::Result<()>>>,
    notifier: Notifier,
    /// With rings of io_uring: what ends all threads when one of them can't go on.
    stop: Option<Stop>,
}

/// Why a session can't start.
pub enum StartError {
    /// The kernel offered rings, and did not take ours. The mount is useless: it may hold all requests back.
    Rings,
    Failed(io::Error),
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Session {
    /// Agrees with the kernel on how they talk, and starts to answer.
    ///
    /// # Errors
    /// [`StartError::Rings`] if root has turned rings off meanwhile. Otherwise the system's error if the kernel can't be asked,
    /// threads can't be started, or the mount has gone.
    pub fn start(
        filesystem: &Arc<dyn Filesystem>,
        kernel: OwnedFd,
        options: &Options,
    ) -> Result<Self, StartError> {
        let kernel = Arc::new(kernel);
        let first = Channel::new(kernel.clone());
        // Once rings are agreed on, the kernel sends nothing until all of them are there. So they are made before.
        let mut rings = None;
        first.agree(|offer| {
            if options.rings && offer.has_rings() && ring::are_offered() {
                rings = Rings::prepare(options.threads).ok();
            }
            let wish = if rings.is_some() { init_flag::OVER_IO_URING } else { 0 };
            Wishes(filesystem.wishes() | wish)
        })?;
        let mut session = Self { threads: Vec::new(), notifier: Notifier::new(&kernel), stop: None };
        let Some(rings) = rings else {
            for _ in 1..options.threads.max(1) {
                session.answer_on(first.another()?, filesystem.clone())?;
            }
            session.answer_on(first, filesystem.clone())?;
            return Ok(session);
        };
        // If root has turned rings off since the offer, the kernel has taken the answer as one without. If he turns them on again, it
        // takes rings nevertheless, and refuses their replies once he turns them off. So he must not have, before and after.
        if !ring::are_offered() {
            return Err(StartError::Rings);
        }
        // Before any thread waits at the device: it would hold a mount whose rings were not taken.
        let stop = rings.stop();
        session.threads = rings.start(&kernel, filesystem).map_err(|_| StartError::Rings)?;
        // With rings, what comes by the device is what needs no answer.
        session.answer_on(first.stopped_by(stop.clone())?, filesystem.clone())?;
        session.stop = Some(stop);
        Ok(session)
    }

    fn answer_on(&mut self, channel: Channel, filesystem: Arc<dyn Filesystem>) -> io::Result<()> {
        let thread = std::thread::Builder::new().name("fuse".into());
        self.threads.push(thread.spawn(move || channel.serve(&*filesystem))?);
        Ok(())
    }

    /// The way to tell the kernel something without being asked.
    pub fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// Whether rings of io_uring carry the requests.
    pub fn has_rings(&self) -> bool {
        self.stop.is_some()
    }

    /// Whether rings failed, so that nothing answers any more.
    pub fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(Stop::is_given)
    }

    /// Waits until it is unmounted and nobody uses it any more.
    ///
    /// # Errors
    /// The first error with which a thread gave up.
    pub fn wait(self) -> io::Result<()> {
        let mut outcome = Ok(());
        for thread in self.threads {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
            outcome = outcome.and(ended);
        }
        outcome
    }
}
