//! What the register says of a driver, and clearing away what one has left behind.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::process::Process;
use super::state::path_json;
use crate::driver::Driven;
use crate::fuse::MountId;

/// The driver of a file system, which stands on a mounted file of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driver {
    /// Its name.
    pub program: String,
    /// The directory in which the files are, an absolute path.
    #[serde(with = "path_json")]
    pub directory: PathBuf,
    /// Which of the mounts that the directory may have.
    pub mount: MountId,
    /// Absent for the kernel.
    process: Option<Process>,
}

/// How long a driver without a volume may take to see that there is nothing left for it to do.
const TO_END: Duration = Duration::from_secs(2);

impl Driver {
    pub(super) fn of(driven: &Driven) -> Self {
        let pid = driven.pid().and_then(|pid| i32::try_from(pid).ok());
        Self {
            program: driven.server().into(),
            directory: driven.directory().into(),
            mount: driven.id(),
            process: pid.and_then(|pid| Process::of(pid).ok()),
        }
    }

    /// The driver's process id, if it has a process.
    pub fn pid(&self) -> Option<i32> {
        self.process.as_ref().map(|process| process.pid)
    }

    /// Takes its mount away and ends it. Its volume is gone: it can't save anything any more.
    pub(super) fn clear(&self) {
        // Nothing else can be done if it can't be unmounted.
        let _ = self.mount.unmount(&self.directory, true);
        let Some(process) = &self.process else { return };
        if let Ok(Some(handle)) = process.handle()
            && process.is_alive()
            && handle.terminate().is_ok()
            && !handle.wait(TO_END).unwrap_or(true)
        {
            let _ = handle.kill();
        }
    }
}
