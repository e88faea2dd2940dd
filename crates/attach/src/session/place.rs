//! Which directory holds the state files, and whether it may be believed.
//!
//! Root uses `/run/atrest`. Others use `$XDG_RUNTIME_DIR/atrest`, or `/tmp/atrest-UID` where that variable names no
//! directory of theirs. Anybody can make a directory of that name in /tmp. One that belongs to somebody else is never
//! used, and does not keep its victim from working either: then `/tmp/atrest-UID-2` is taken, or the next one that is
//! free. A directory of the user's own that exists already goes before one that would have to be made, so that all
//! commands find the same one.

use core::fmt;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::{Uid, geteuid};

use super::{Registry, SessionError};

/// Why a directory is not used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// It is a file, a link or something else.
    NotADirectory,
    /// It belongs to another user.
    Owner {
        /// That user's number.
        uid: u32,
    },
    /// Its mode lets others write to it.
    Mode {
        /// The permission bits.
        mode: u32,
    },
    /// It is the directory for temporary files, in which everybody can replace what belongs to others: it is not sticky.
    NotSticky {
        /// The permission bits.
        mode: u32,
    },
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotADirectory => f.write_str("it is no directory"),
            Self::Owner { uid } => write!(f, "it belongs to another user (number {uid})"),
            Self::Mode { mode } => write!(f, "others can write to it (mode {mode:04o})"),
            Self::NotSticky { mode } => {
                write!(f, "others can replace what lies in it (mode {mode:04o} without the sticky bit)")
            }
        }
    }
}

const TEMPORARY: &str = "/tmp";
/// Directories in /tmp that are tried.
const PLACES: u32 = 16;
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o022;

impl Registry {
    /// This user's registry. Its directory is made if need be.
    ///
    /// # Errors
    /// [`SessionError::File`] if the directory can't be made, [`SessionError::Untrusted`] if others could
    /// change it.
    pub fn open() -> Result<Self, SessionError> {
        let uid = geteuid();
        if uid.is_root() {
            return Self::at("/run/atrest".into());
        }
        match runtime(uid, std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)) {
            Some(runtime) => Self::at(runtime.join("atrest")),
            None => Self::temporary(Path::new(TEMPORARY), uid),
        }
    }

    /// A registry in a directory of one's own choice.
    ///
    /// # Errors
    /// [`SessionError::File`] if the directory can't be made, [`SessionError::Untrusted`] if others could
    /// change it.
    pub fn at(path: PathBuf) -> Result<Self, SessionError> {
        // A daemon leaves the directory in which it was started.
        let path = std::path::absolute(&path).map_err(|error| SessionError::File { path, error })?;
        make(&path)?;
        check(&path, geteuid())?;
        Ok(Self { path, passed_over: None })
    }

    /// Why it does not lie where it usually does: somebody else has that directory.
    pub fn passed_over(&self) -> Option<&SessionError> {
        self.passed_over.as_ref()
    }

    /// A registry in a directory in which everybody can make directories.
    pub(super) fn temporary(parent: &Path, uid: Uid) -> Result<Self, SessionError> {
        check_parent(parent, uid)?;
        let path = |number: u32| match number {
            1 => parent.join(format!("atrest-{}", uid.as_raw())),
            number => parent.join(format!("atrest-{}-{number}", uid.as_raw())),
        };
        let mut passed_over = None;
        let mut free = None;
        for path in (1..=PLACES).map(path) {
            match check(&path, uid) {
                Ok(()) => return Ok(Self { path, passed_over }),
                Err(SessionError::File { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                    free.get_or_insert(path);
                }
                // One's own can be mended, and may hold what is open.
                Err(error @ SessionError::Untrusted { why: Distrust::Mode { .. }, .. }) => return Err(error),
                Err(error) => drop(passed_over.get_or_insert(error)),
            }
        }
        match (free, passed_over) {
            (Some(path), passed_over) => {
                make(&path)?;
                check(&path, uid)?;
                Ok(Self { path, passed_over })
            }
            (None, Some(error)) => Err(error),
            (None, None) => {
                Err(SessionError::File { path: parent.into(), error: io::ErrorKind::NotFound.into() })
            }
        }
    }
}

/// The runtime directory that the environment names, if it is there and is this user's. Sessions of `su` and cron may
/// have inherited that of another user, or be told of one that nobody made.
pub(super) fn runtime(uid: Uid, named: Option<PathBuf>) -> Option<PathBuf> {
    named.filter(|path| {
        path.is_absolute() && path.metadata().is_ok_and(|found| found.is_dir() && found.uid() == uid.as_raw())
    })
}

fn make(path: &Path) -> Result<(), SessionError> {
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(SessionError::File { path: path.into(), error })
        }
        _ => Ok(()),
    }
}

/// Whether a directory is the user's, and nobody else can write to it.
fn check(path: &Path, uid: Uid) -> Result<(), SessionError> {
    let found = std::fs::symlink_metadata(path);
    let found = found.map_err(|error| SessionError::File { path: path.into(), error })?;
    let mode = found.mode() & 0o7777;
    let why = match () {
        () if found.uid() != uid.as_raw() => Distrust::Owner { uid: found.uid() },
        () if !found.is_dir() => Distrust::NotADirectory,
        () if mode & OTHERS_WRITE != 0 => Distrust::Mode { mode },
        () => return Ok(()),
    };
    Err(SessionError::Untrusted { path: path.into(), why })
}

/// Whether what a user makes in a directory stays that user's.
fn check_parent(path: &Path, uid: Uid) -> Result<(), SessionError> {
    let found = std::fs::metadata(path).map_err(|error| SessionError::File { path: path.into(), error })?;
    let mode = found.mode() & 0o7777;
    let why = match () {
        () if found.uid() != 0 && found.uid() != uid.as_raw() => Distrust::Owner { uid: found.uid() },
        () if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 => Distrust::NotSticky { mode },
        () => return Ok(()),
    };
    Err(SessionError::Untrusted { path: path.into(), why })
}
