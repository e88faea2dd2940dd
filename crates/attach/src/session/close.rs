//! Closing an open volume from another process: it is asked to end and waited for.

use super::{Content, Entry, Kind, Registry, SessionError, read_entry, remove_remains};
use crate::fuse::UnmountError;
use core::fmt;
use std::io;
use std::time::Duration;

/// Why a volume can't be closed.
#[non_exhaustive]
#[derive(Debug)]
pub enum CloseError {
    /// No open volume has that name or path.
    NotOpen {
        /// What was asked for.
        name: String,
    },
    /// The mounted file is in use; the volume stays open.
    Busy {
        /// The volume's name.
        name: String,
    },
    /// The serving process was told to end and has not ended yet.
    Timeout {
        /// The volume's name.
        name: String,
        /// The serving process's id.
        pid: i32,
        /// How long it was waited for.
        waited: Duration,
    },
    /// It is closed, but what was written may not be on the media, or its mount is still there.
    Failed {
        /// The volume's name.
        name: String,
        /// What the serving process could not do.
        failure: String,
    },
    /// The serving process was killed before it had closed the volume.
    Killed {
        /// The volume's name.
        name: String,
        /// The serving process's id.
        pid: i32,
    },
    /// The registry can't be used.
    Session(SessionError),
    /// The operating system refused.
    System(io::Error),
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseError::NotOpen { name } => write!(f, "no open volume is called {name}"),
            CloseError::Busy { name } => write!(f, "{name} stays open: its file is in use"),
            CloseError::Timeout { name, pid, waited } => write!(
                f,
                "process {pid}, which serves {name}, was told to end and has not after {} s",
                waited.as_secs()
            ),
            CloseError::Failed { name, failure } => {
                write!(f, "{name} is closed, but not in order: {failure}")
            }
            CloseError::Killed { name, pid } => write!(
                f,
                "process {pid}, which served {name}, was killed before it had closed the volume; unflushed writes may be lost"
            ),
            CloseError::Session(error) => write!(f, "{error}"),
            CloseError::System(error) => write!(f, "cannot close the volume: {error}"),
        }
    }
}

impl core::error::Error for CloseError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            CloseError::Session(error) => Some(error),
            CloseError::System(error) => Some(error),
            _ => None,
        }
    }
}

impl Registry {
    /// Closes a volume by name or path. When it returns, everything is flushed and the serving process is gone.
    /// One that could not flush everything is closed too, and [`CloseError::Failed`] says so.
    ///
    /// A mounted volume is unmounted first, so one that is in use stays as it is ([`CloseError::Busy`]).
    pub fn close(&self, name_or_path: &str, limit: Duration) -> Result<Entry, CloseError> {
        let found = self.find(name_or_path).map_err(CloseError::Session)?;
        let Some(entry) = found else { return Err(CloseError::NotOpen { name: name_or_path.into() }) };
        let Some(handle) = entry.process.handle().map_err(CloseError::System)? else {
            return self.outcome(entry);
        };
        let unmounted = match &entry.kind {
            Kind::Fuse { directory, mount } => match mount.unmount(directory, false) {
                Ok(()) => true,
                Err(UnmountError::Busy) => return Err(CloseError::Busy { name: entry.name }),
                // It is on its way out already, something covers it, or only its own process may unmount it.
                Err(_) => false,
            },
            Kind::NbdUnix { .. } | Kind::NbdTcp { .. } => false,
        };
        if !unmounted {
            handle.terminate().map_err(CloseError::System)?;
        }
        if !handle.wait(limit).map_err(CloseError::System)? {
            return Err(CloseError::Timeout { name: entry.name, pid: entry.process.pid, waited: limit });
        }
        self.outcome(entry)
    }

    /// What a process that has ended left behind: nothing if all went well.
    fn outcome(&self, entry: Entry) -> Result<Entry, CloseError> {
        let file = self.file(&entry.name);
        let _locked = self.lock().map_err(CloseError::Session)?;
        match read_entry(&file).map_err(CloseError::Session)? {
            Content::Failed(left) if left.process == entry.process => {
                remove_remains(&left.kind);
                let removed = std::fs::remove_file(&file);
                removed.map_err(|error| CloseError::Session(SessionError::File { path: file, error }))?;
                Err(CloseError::Failed { name: left.name, failure: left.failed.unwrap_or_default() })
            }
            Content::Stale(Some(_)) => {
                Self::sweep(&file).map_err(CloseError::Session)?;
                Err(CloseError::Killed { name: entry.name, pid: entry.process.pid })
            }
            // It cleared up after itself; another volume may have the name already.
            _ => Ok(entry),
        }
    }
}
