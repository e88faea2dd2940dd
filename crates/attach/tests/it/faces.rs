//! One client for each face, so that a campaign runs against all of them: NBD, NBD over TLS, FUSE and vhost-user.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atrest_attach::fuse::{self, Mount};
use atrest_device::BlockDevice;
use atrest_testkit::nbd::NbdClient;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Pki, Scratch, wait_until};

use super::nbd_tls::with_tls;
use super::vhost_user;
use crate::common::Serving;
use crate::common::guest::{DATA, Descriptor, Guest, NEXT, NO_STATUS, OK, WRITE, header};
use crate::transport::by_transport;

/// One client of a face.
pub trait Client: Send {
    fn read(&mut self, offset: u64, len: usize) -> io::Result<Vec<u8>>;
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;
    fn flush(&mut self) -> io::Result<()>;
}

/// A served volume to which clients can connect.
pub trait Face {
    /// What offsets and lengths are multiples of.
    const SECTOR: usize = 1;
    /// Whether the volume is flushed when a client leaves.
    const FLUSHES_WHEN_CLOSED: bool = false;
    fn start(volume: Arc<dyn BlockDevice>) -> Self;
    /// At most [`QUEUES`] clients work at a time.
    fn connect(&self) -> Box<dyn Client>;
}

impl Client for NbdClient {
    fn read(&mut self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        NbdClient::read(self, offset, len as u32)
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        NbdClient::write(self, offset, data)
    }
    fn flush(&mut self) -> io::Result<()> {
        NbdClient::flush(self)
    }
}

impl Face for Serving {
    fn start(volume: Arc<dyn BlockDevice>) -> Self {
        Serving::start(volume)
    }
    fn connect(&self) -> Box<dyn Client> {
        Box::new(NbdClient::connect(&self.socket).unwrap())
    }
}

/// NBD over TLS. The client is libnbd and GnuTLS in nbdkit, which hands on each request of a client of its own socket.
pub struct Secured {
    relay: Relay,
    _serving: Serving,
    _pki: Pki,
}

impl Face for Secured {
    fn start(volume: Arc<dyn BlockDevice>) -> Self {
        let pki = Pki::new();
        let serving = Serving::with(volume, with_tls(&pki, true));
        let relay = Relay::new(&pki, &format!("socket={}", serving.socket.display()));
        Secured { relay, _serving: serving, _pki: pki }
    }
    fn connect(&self) -> Box<dyn Client> {
        self.relay.connect()
    }
}

/// nbdkit, which speaks TLS for clients that do not.
pub struct Relay {
    nbdkit: Child,
    socket: PathBuf,
    _directory: Scratch,
}

impl Relay {
    /// To a server that is named as nbdkit's plugin nbd wants it.
    pub fn new(pki: &Pki, server: &str) -> Relay {
        let directory = Scratch::new();
        let (socket, ready) = (directory.path("socket"), directory.path("ready"));
        let mut nbdkit = Program::named("nbdkit")
            .words("--foreground --exit-with-parent --unix")
            .arg(&socket)
            .arg("--pidfile")
            .arg(&ready)
            .words("nbd tls=require")
            .arg(format!("tls-certificates={}", pki.client().display()))
            .arg(server)
            .into_command();
        let nbdkit = nbdkit.stderr(Stdio::null()).spawn().unwrap();
        // Its socket is there before it listens, this file after that.
        wait_until("nbdkit listens", || ready.exists());
        Relay { nbdkit, socket, _directory: directory }
    }

    pub fn connect(&self) -> Box<dyn Client> {
        Box::new(NbdClient::connect(&self.socket).unwrap())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.nbdkit.kill();
        let _ = self.nbdkit.wait();
    }
}

/// The mounted file: direct I/O, so that every read and write reaches the volume as it is.
impl Client for File {
    fn read(&mut self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut data = vec![0; len];
        self.read_exact_at(&mut data, offset)?;
        Ok(data)
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_all_at(data, offset)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

pub fn open_file(path: &Path) -> Box<dyn Client> {
    Box::new(OpenOptions::new().read(true).write(true).open(path).unwrap())
}

/// A mounted volume, with requests by rings of io_uring or by `/dev/fuse`.
pub struct Mounted<const RINGS: bool> {
    mount: Option<Mount>,
    pub file: PathBuf,
    _directory: Scratch,
}

impl<const RINGS: bool> Face for Mounted<RINGS> {
    const FLUSHES_WHEN_CLOSED: bool = true;
    fn start(volume: Arc<dyn BlockDevice>) -> Self {
        let directory = Scratch::new();
        let mount = by_transport(RINGS, &fuse::Options::default(), |options| {
            fuse::mount(volume, directory.as_path(), options)
        });
        Mounted { file: mount.place(), mount: Some(mount), _directory: directory }
    }
    fn connect(&self) -> Box<dyn Client> {
        open_file(&self.file)
    }
}

impl<const RINGS: bool> Drop for Mounted<RINGS> {
    fn drop(&mut self) {
        if let Some(mount) = self.mount.take() {
            let _ = mount.unmounter().detach();
        }
    }
}

/// Queues of a guest, each of which is a client.
pub const QUEUES: usize = 8;
/// Bytes of the guest's memory that a queue has for a request and its data.
const ROOM: u64 = 1 << 20;
/// Of the header, and of nothing else but the status.
const HEADER: u64 = 16;

pub struct Virtual {
    guest: Machine,
    _serving: vhost_user::Serving,
}

impl Face for Virtual {
    const SECTOR: usize = 512;
    fn start(volume: Arc<dyn BlockDevice>) -> Self {
        let serving = vhost_user::Serving::start(volume);
        Virtual { guest: Machine::new(&serving.socket), _serving: serving }
    }
    fn connect(&self) -> Box<dyn Client> {
        self.guest.connect()
    }
}

/// A guest whose queues are driven by different threads.
pub struct Machine {
    guest: Arc<Mutex<Guest>>,
    connected: AtomicUsize,
}

impl Machine {
    pub fn new(socket: &Path) -> Machine {
        let guest = Arc::new(Mutex::new(Guest::connect(socket, QUEUES, 0)));
        Machine { guest, connected: AtomicUsize::new(0) }
    }

    pub fn connect(&self) -> Box<dyn Client> {
        let queue = self.connected.fetch_add(1, Ordering::Relaxed) % QUEUES;
        Box::new(Driver { guest: self.guest.clone(), queue })
    }
}

/// The driver of one queue.
struct Driver {
    guest: Arc<Mutex<Guest>>,
    queue: usize,
}

impl Driver {
    fn guest(&self) -> std::sync::MutexGuard<'_, Guest> {
        self.guest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a request of a header, `data` for the device and `room` for what it writes. The guest's other queues go on
    /// meanwhile.
    fn request(&self, kind: u32, offset: u64, data: &[u8], room: usize) -> io::Result<Vec<u8>> {
        let (at, queue) = (DATA + self.queue as u64 * ROOM, self.queue);
        let (behind, status) = (at + HEADER, at + HEADER + (data.len() + room) as u64);
        assert!(status < at + ROOM, "a request is longer than the queue's memory");
        let part = |address, len, flags, next| Descriptor { address, len, flags, next };
        let mut chain = vec![part(at, HEADER as u32, NEXT, 1)];
        if !data.is_empty() {
            chain.push(part(behind, data.len() as u32, NEXT, 2));
        }
        if room > 0 {
            chain.push(part(behind, room as u32, NEXT | WRITE, 2));
        }
        chain.push(part(status, 1, WRITE, 0));
        {
            let mut guest = self.guest();
            guest.write_memory(at, &[&header(kind, offset / 512)[..], data].concat());
            guest.write_memory(status, &[NO_STATUS]);
            guest.put(queue, 0, &chain);
            guest.offer(queue, 0);
        }
        while self.guest().given_back_already(queue).is_none() {
            if self.guest().is_left() {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        let guest = self.guest();
        match guest.read_memory(status, 1)[0] {
            OK => Ok(guest.read_memory(behind, room)),
            status => Err(io::Error::other(format!("status {status}"))),
        }
    }
}

impl Client for Driver {
    fn read(&mut self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        self.request(0, offset, &[], len)
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.request(1, offset, data, 0).map(drop)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.request(4, 0, &[], 0).map(drop)
    }
}
