//! Waiting for changes of the mount table: proc_pid_mounts(5), "a process that polls it is woken".

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::fuse::MountId;

/// The mount table of this process. What changes after it was opened wakes whoever polls it.
pub(super) struct MountTable(File);

impl MountTable {
    pub fn open() -> io::Result<Self> {
        File::open("/proc/self/mountinfo").map(Self)
    }

    pub fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.0, PollFlags::PRI)
    }
}

/// Waits until a mount of the kernel's own is gone from a directory and from everywhere else. `file` is what its loop device
/// stands on.
pub(super) fn wait_until_unmounted(directory: &Path, id: MountId, file: MountId) -> io::Result<()> {
    let table = MountTable::open()?;
    loop {
        let is_there = MountId::at(directory).is_ok_and(|found| found == id);
        // One that is covered by another mount is listed still. The number of a loop device that has let go may be another's.
        let is_elsewhere = || id.is_mounted() && !atrest_engine::loop_devices_on(file.device()).is_empty();
        if !is_there && !is_elsewhere() {
            return Ok(());
        }
        match poll(&mut [table.poll_fd()], None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
