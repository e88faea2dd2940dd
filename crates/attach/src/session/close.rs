//! Closing an open volume from another process: it is asked to end and waited for.

use super::process::Handle;
use super::state::{Content, read_entry};
use super::users::{Names, User, users};
use super::{Entry, Kind, Registry, SessionError, remove_remains};
use crate::fuse::UnmountError;
use core::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

/// How long the process of a volume that was unmounted already may take to end before its users are looked for.
const GRACE: Duration = Duration::from_millis(500);

/// Why a volume can't be closed.
#[non_exhaustive]
#[derive(Debug)]
pub enum CloseError {
    /// No open volume has that name or path.
    NotOpen {
        /// What was asked for.
        name: String,
    },
    /// Several open volumes have that path.
    Ambiguous {
        /// Their names.
        names: Vec<String>,
    },
    /// The mounted file is in use; the volume stays open.
    Busy {
        /// The volume's name.
        name: String,
        /// Who uses it, as far as this user may know.
        users: Vec<User>,
    },
    /// It was unmounted lazily (`umount -l`) and is still in use. It closes by itself when the last user ends.
    Detached {
        /// The volume's name.
        name: String,
        /// The serving process's id.
        pid: i32,
        /// Who uses it, as far as this user may know.
        users: Vec<User>,
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
            CloseError::Ambiguous { names } => {
                write!(f, "it is open more than once, as {}", names.join(", "))
            }
            CloseError::Busy { name, users } if users.is_empty() => {
                write!(f, "{name} stays open: its file is in use")
            }
            CloseError::Busy { name, users } => {
                write!(f, "{name} stays open: its file is in use by {}", Names(users))
            }
            CloseError::Detached { name, users, .. } if users.is_empty() => write!(
                f,
                "{name} is unmounted, but in use by a process that you are not shown; it closes when that ends"
            ),
            CloseError::Detached { name, users, .. } => {
                write!(f, "{name} is unmounted, but in use by {}; it closes when they end", Names(users))
            }
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
    ///
    /// A mounted volume is unmounted first, so one that is in use stays as it is. One that was unmounted lazily and is
    /// still in use is not waited for.
    ///
    /// # Errors
    /// [`CloseError::NotOpen`] or [`CloseError::Ambiguous`] if no volume, or several, are meant.
    /// [`CloseError::Busy`] if it is in use and stays open, [`CloseError::Detached`] if it closes by itself
    /// later, [`CloseError::Timeout`] if it has not closed within `limit`.
    ///
    /// [`CloseError::Failed`] or [`CloseError::Killed`] if it is closed, but what was written may not be on
    /// the media. [`CloseError::Session`] or [`CloseError::System`] if nobody can tell.
    pub fn close(&self, name_or_path: impl AsRef<Path>, limit: Duration) -> Result<Entry, CloseError> {
        let name_or_path = name_or_path.as_ref();
        let mut found = self.find_all(name_or_path).map_err(CloseError::Session)?;
        let entry = match found.pop() {
            Some(entry) if found.is_empty() => entry,
            Some(last) => {
                let names = found.into_iter().chain([last]).map(|entry| entry.name).collect();
                return Err(CloseError::Ambiguous { names });
            }
            None => return Err(CloseError::NotOpen { name: name_or_path.to_string_lossy().into_owned() }),
        };
        let Some(handle) = self.handle(&entry)? else {
            return self.outcome(entry);
        };
        // Below a driver is our own mount, which its process takes away when the driver has ended.
        let shown = match &entry.kind {
            Kind::Fuse { driver: Some(driver), .. } => Some((&driver.directory, &driver.mount)),
            Kind::Fuse { directory, mount, .. } => Some((directory, mount)),
            Kind::NbdUnix { .. } | Kind::NbdTcp { .. } | Kind::VhostUser { .. } => None,
        };
        let unmounted = match shown {
            Some((directory, mount)) => match mount.unmount(directory, false) {
                Ok(()) => true,
                Err(UnmountError::Busy) => {
                    return Err(CloseError::Busy { name: entry.name, users: users(mount) });
                }
                Err(UnmountError::NotMounted) => {
                    if !handle.wait(GRACE).map_err(CloseError::System)? {
                        let users = users(mount);
                        if !users.is_empty() || mount.is_connected() {
                            return Err(CloseError::Detached { pid: entry.pid(), name: entry.name, users });
                        }
                    }
                    // Nobody uses it any more: it is on its way out already.
                    false
                }
                // Something covers it, or only its own process may unmount it.
                Err(_) => false,
            },
            None => false,
        };
        if !unmounted {
            handle.terminate().map_err(CloseError::System)?;
        }
        if !handle.wait(limit).map_err(CloseError::System)? {
            return Err(CloseError::Timeout { name: entry.name, pid: entry.process.pid, waited: limit });
        }
        self.outcome(entry)
    }

    /// The serving process; `None` if it is gone.
    fn handle(&self, entry: &Entry) -> Result<Option<Handle>, CloseError> {
        let handle = entry.process.handle().map_err(CloseError::System)?;
        // The id may have changed hands between the look and the opening.
        match read_entry(&self.file(&entry.name)).map_err(CloseError::Session)? {
            Content::Live(now) if now.process == entry.process => Ok(handle),
            _ => Ok(None),
        }
    }

    /// What a process that has ended left behind: nothing if all went well.
    fn outcome(&self, entry: Entry) -> Result<Entry, CloseError> {
        let file = self.file(&entry.name);
        let _locked = self.lock().map_err(CloseError::Session)?;
        match read_entry(&file).map_err(CloseError::Session)? {
            Content::Failed(left) if left.process == entry.process => {
                remove_remains(&file, Some(&left.kind));
                let removed = std::fs::remove_file(&file);
                removed.map_err(|error| CloseError::Session(SessionError::File { path: file, error }))?;
                // intended: the program died without a word.
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
