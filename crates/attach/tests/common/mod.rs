//! A device in memory that can be slow, fail and count, a server around it, and the tools that tests call.
#![allow(dead_code, missing_docs)] // Each test binary uses its own part of this.

#[cfg(feature = "vhost-user")]
pub mod guest;
pub mod raw;

use atrest_attach::nbd::{Endpoint, Options, RunError, Server, Shutdown};
use atrest_device::{BlockDevice, Cause, DeviceError, Extent, Geometry, Operation};
use atrest_testkit::oracle::{Outcome, Program};
use atrest_testkit::{Random, Scratch};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes per block of [`Memory`], which discards and finds holes in whole blocks.
pub const BLOCK: u64 = 4096;

pub struct Memory {
    pub bytes: Mutex<Vec<u8>>,
    /// Which blocks are holes.
    pub holes: Mutex<Vec<bool>>,
    pub read_only: bool,
    pub flushes: AtomicU64,
    pub discards: AtomicU64,
    /// Operations that touch this block fail with this cause.
    pub broken: Mutex<Option<(u64, Cause)>>,
    /// While closed, writes wait.
    gate: (Mutex<bool>, Condvar),
    pub waiting: AtomicU64,
    pub flush_fails: AtomicBool,
    /// A flush came while a write waited.
    pub flushed_early: AtomicBool,
    /// While closed, flushes wait.
    pub flush_gate: (Mutex<bool>, Condvar),
}

impl Memory {
    pub fn new(size: u64) -> Memory {
        Memory {
            bytes: Mutex::new(Random::new(1).bytes(size as usize)),
            holes: Mutex::new(vec![false; (size / BLOCK) as usize]),
            read_only: false,
            flushes: AtomicU64::new(0),
            discards: AtomicU64::new(0),
            broken: Mutex::new(None),
            gate: (Mutex::new(true), Condvar::new()),
            waiting: AtomicU64::new(0),
            flush_fails: AtomicBool::new(false),
            flushed_early: AtomicBool::new(false),
            flush_gate: (Mutex::new(true), Condvar::new()),
        }
    }

    pub fn read_only(size: u64) -> Memory {
        Memory { read_only: true, ..Memory::new(size) }
    }

    pub fn copy(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    pub fn open_gate(&self, open: bool) {
        *self.gate.0.lock().unwrap() = open;
        self.gate.1.notify_all();
    }

    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check_range(operation, offset, len)?;
        match *self.broken.lock().unwrap() {
            Some((block, cause)) if (offset / BLOCK..(offset + len).div_ceil(BLOCK)).contains(&block) => {
                Err(DeviceError::new(operation, block * BLOCK, BLOCK, cause))
            }
            _ => Ok(()),
        }
    }
}

impl BlockDevice for Memory {
    fn size(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }
    fn geometry(&self) -> Geometry {
        Geometry { logical_block: BLOCK as u32, ..Geometry::default() }
    }
    fn is_read_only(&self) -> bool {
        self.read_only
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check(Operation::Read, offset, buf.len() as u64)?;
        buf.copy_from_slice(&self.bytes.lock().unwrap()[offset as usize..][..buf.len()]);
        Ok(())
    }
    /// Every second block is at hand.
    fn read_if_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DeviceError> {
        if !(offset / BLOCK).is_multiple_of(2) {
            return Ok(false);
        }
        self.read_at(offset, buf).map(|()| true)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        assert!(!self.read_only, "a write reached a read-only device");
        let mut open = self.gate.0.lock().unwrap();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while !*open {
            open = self.gate.1.wait(open).unwrap();
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        drop(open);
        self.check(Operation::Write, offset, data.len() as u64)?;
        self.bytes.lock().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
        let blocks = (offset / BLOCK) as usize..(offset + data.len() as u64).div_ceil(BLOCK) as usize;
        self.holes.lock().unwrap()[blocks].fill(false);
        Ok(())
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        self.flushed_early.fetch_or(self.waiting.load(Ordering::SeqCst) > 0, Ordering::SeqCst);
        let mut open = self.flush_gate.0.lock().unwrap();
        while !*open {
            open = self.flush_gate.1.wait(open).unwrap();
        }
        drop(open);
        if self.flush_fails.load(Ordering::SeqCst) {
            return Err(DeviceError::new(Operation::Flush, 0, 0, Cause::Os(5)));
        }
        Ok(())
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check(Operation::Discard, offset, len)?;
        let (start, end) = (offset.next_multiple_of(BLOCK), (offset + len) / BLOCK * BLOCK);
        if start >= end {
            return Ok(());
        }
        self.discards.fetch_add(1, Ordering::SeqCst);
        self.bytes.lock().unwrap()[start as usize..end as usize].fill(0);
        self.holes.lock().unwrap()[(start / BLOCK) as usize..(end / BLOCK) as usize].fill(true);
        Ok(())
    }
    fn extent(&self, offset: u64, len: u64) -> Result<Extent, DeviceError> {
        self.check(Operation::Read, offset, len)?;
        let holes = self.holes.lock().unwrap();
        let blocks = &holes[(offset / BLOCK) as usize..(offset + len).div_ceil(BLOCK) as usize];
        let hole = blocks.first().copied().unwrap_or(false);
        let same = blocks.iter().take_while(|&&other| other == hole).count() as u64;
        Ok(Extent { len: (same * BLOCK).saturating_sub(offset % BLOCK).min(len), hole })
    }
}

/// A server on a socket in a directory of its own.
pub struct Serving {
    pub directory: Scratch,
    pub socket: PathBuf,
    pub uri: String,
    pub shutdown: Shutdown,
    pub thread: Option<JoinHandle<Result<(), RunError>>>,
}

impl Serving {
    pub fn start(device: Arc<dyn BlockDevice>) -> Serving {
        Serving::with(device, Options { grace: Duration::from_secs(20), ..Options::default() })
    }

    pub fn with(device: Arc<dyn BlockDevice>, options: Options) -> Serving {
        Serving::at(device, options, Endpoint::Unix)
    }

    /// On a port of this machine.
    pub fn by_tcp(device: Arc<dyn BlockDevice>, options: Options) -> Serving {
        Serving::at(device, options, |_| Endpoint::Tcp("127.0.0.1:0".parse().unwrap()))
    }

    fn at(device: Arc<dyn BlockDevice>, options: Options, endpoint: fn(PathBuf) -> Endpoint) -> Serving {
        let directory = Scratch::new();
        let socket = directory.path("socket");
        let server = Server::bind(device, &endpoint(socket.clone()), options).unwrap();
        let (uri, shutdown) = (server.uri(), server.shutdown());
        let thread = Some(std::thread::spawn(|| server.run()));
        Serving { directory, socket, uri, shutdown, thread }
    }

    pub fn stop(mut self) -> Result<(), RunError> {
        self.shutdown.start();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.shutdown.start();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs a tool and returns what it prints; its failure fails the test.
#[track_caller]
pub fn run(program: &str, arguments: &[&str]) -> String {
    try_run(program, arguments).expect_code(0).text()
}

pub fn try_run(program: &str, arguments: &[&str]) -> Outcome {
    Program::named(program).args(arguments).run()
}

/// The example `serve_file`, which `cargo test` builds beside the tests.
pub fn serve_file() -> Command {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().and_then(Path::parent).unwrap().join("examples/serve_file");
    assert!(
        example.exists(),
        "{} is missing: build the examples (cargo build --examples)",
        example.display()
    );
    Command::new(example)
}
