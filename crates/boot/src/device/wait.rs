//! Waiting for devices: the kernel tells of each that comes, whether udev runs or not.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

/// The kernel's own events, not those that udev sends on.
const KERNEL_GROUP: u32 = 1;
/// Longest pause between two looks: a file can appear, and a device become usable, without an event.
const PAUSE: Duration = Duration::from_millis(500);
/// Largest event.
const EVENT: usize = 8 << 10;

/// Tells when something about devices changes.
pub struct Events(Option<OwnedFd>);

impl Events {
    /// Listens from now on. Where the kernel offers no such socket, time alone tells.
    pub fn listen() -> Self {
        Self(Self::socket().ok())
    }

    fn socket() -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::DGRAM;
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, Some(KOBJECT_UEVENT))?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, KERNEL_GROUP))?;
        Ok(socket)
    }

    /// Waits until something changes, for half a second at most, and never beyond `end`.
    pub fn wait(&self, end: Option<Instant>) {
        // intended: after the end no time is left.
        let left = end.map_or(PAUSE, |end| end.saturating_duration_since(Instant::now()).min(PAUSE));
        let Some(socket) = &self.0 else { return std::thread::sleep(left) };
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut ready = [PollFd::new(socket, PollFlags::IN)];
        if !matches!(poll(&mut ready, Some(&left)), Ok(count) if count > 0) {
            return;
        }
        // What it was does not matter: everything is looked at again. A lost event (ENOBUFS) is one, too.
        let mut event = [0; EVENT];
        for _ in 0..1024 {
            if rustix::net::recv(socket, &mut event[..], RecvFlags::DONTWAIT).is_err() {
                break;
            }
        }
    }
}

/// Calls `look` until it finds something, at once and after every change, until `end`; without one, for ever.
pub fn wait_for<T>(events: &Events, end: Option<Instant>, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return None;
        }
        events.wait(end);
    }
}
