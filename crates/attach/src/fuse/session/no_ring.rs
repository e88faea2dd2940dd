//! Rings of io_uring where there are none: the crate below them knows processors of 64 bits alone. `/dev/fuse` is the way.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::stop::Stop;
use crate::fuse::filesystem::Filesystem;

/// Of these there are none.
pub struct Rings(Infallible);

impl Rings {
    /// # Errors
    /// Always.
    pub fn prepare(_threads: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn stop(&self) -> Stop {
        match self.0 {}
    }

    pub fn start(
        self,
        _kernel: &Arc<OwnedFd>,
        _filesystem: &Arc<dyn Filesystem>,
    ) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
        match self.0 {}
    }
}

pub fn are_offered() -> bool {
    false
}
