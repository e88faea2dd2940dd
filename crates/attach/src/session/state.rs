//! One state file: how it is written, locked, read and judged.
//!
//! The serving process holds a lock (flock(2)) on its file from before the file has its name until the process ends. The
//! lock, not /proc, says whether it lives: /proc may hide other processes (`hidepid`), and ids are used again.

use super::process::Process;
use super::{Entry, Kind, SessionError};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Longest state file that is read, in bytes.
const MAX_FILE: u64 = 64 << 10;

/// What a state file holds.
pub(super) enum Content {
    Absent,
    Live(Entry),
    /// Its process is gone and left word of what it could not save.
    Failed(Entry),
    /// Its process is gone, or (`None`) nobody holds it and it can't be understood.
    Stale(Option<Kind>),
    /// Somebody holds it, in a language that this version does not understand.
    Foreign,
}

/// Reads and judges a state file.
pub(super) fn read_entry(path: &Path) -> Result<Content, SessionError> {
    let failed = |error| SessionError::File { path: path.into(), error };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::Absent),
        Err(error) => return Err(failed(error)),
    };
    let mut text = Vec::new();
    (&file).take(MAX_FILE).read_to_end(&mut text).map_err(failed)?;
    let held = Held::of(&file);
    Ok(match serde_json::from_slice::<Entry>(&text) {
        Ok(mut entry) => {
            entry.alive = held.is_alive(Some(&entry.process));
            match (entry.alive, &entry.failed) {
                (true, _) => Content::Live(entry),
                (false, Some(_)) => Content::Failed(entry),
                (false, None) if entry.kind.driver().is_some() && entry.process.is_of_this_boot() => {
                    // Its mount must not vanish unseen: who writes there would write in the clear to the directory below.
                    entry.failed = Some(format!(
                        "process {}, which served it, was killed; what its driver had not written yet is lost",
                        entry.process.pid
                    ));
                    Content::Failed(entry)
                }
                (false, None) => Content::Stale(Some(entry.kind)),
            }
        }
        Err(_) => {
            let owner = serde_json::from_slice::<Owner>(&text).ok().map(|owner| owner.process);
            if held.is_alive(owner.as_ref()) { Content::Foreign } else { Content::Stale(None) }
        }
    })
}

/// The part that every version's file has.
#[derive(Deserialize)]
struct Owner {
    process: Process,
}

/// What the lock says.
enum Held {
    Yes,
    No,
    /// The file system has no such locks.
    Unknown,
}

impl Held {
    /// Whoever looks shares the lock for a moment, which no owner ever sees: it locks the file before others can find it.
    fn of(file: &File) -> Self {
        match flock(file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Held::No,
            Err(Errno::WOULDBLOCK) => Held::Yes,
            Err(_) => Held::Unknown,
        }
    }

    /// A file without a lock may be that of a process that could not take one, which /proc may know.
    fn is_alive(&self, process: Option<&Process>) -> bool {
        match self {
            Held::Yes => true,
            Held::No => process.is_some_and(Process::is_alive),
            Held::Unknown => process.is_none_or(Process::may_be_alive),
        }
    }
}

/// Writes the entry beside its file, to be renamed. The file stays locked for as long as it is open.
pub(super) fn write_temporary(file: &Path, entry: &Entry) -> io::Result<(PathBuf, File)> {
    let path = file.with_file_name(format!(".{}.{}", entry.name, std::process::id()));
    let json = serde_json::to_vec_pretty(entry)?;
    let _ = std::fs::remove_file(&path);
    let mut out = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
    // Without locks /proc has to do.
    let _ = flock(&out, FlockOperation::NonBlockingLockExclusive);
    out.write_all(&json)?;
    Ok((path, out))
}

/// A path in JSON: text, or for one that is not UTF-8 `{"hex": …, "text": …}`, its bytes and something to show.
pub(super) mod path_json {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Shape {
        Text(String),
        Bytes { hex: String, text: String },
    }

    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        let shape = match path.to_str() {
            Some(text) => Shape::Text(text.into()),
            None => Shape::Bytes {
                hex: path.as_os_str().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect(),
                text: path.to_string_lossy().into_owned(),
            },
        };
        shape.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        match Shape::deserialize(deserializer)? {
            Shape::Text(text) => Ok(text.into()),
            Shape::Bytes { hex, .. } => match bytes(hex.as_bytes()) {
                Some(bytes) => Ok(OsString::from_vec(bytes).into()),
                None => Err(D::Error::custom("the path's bytes are not hexadecimal")),
            },
        }
    }

    fn bytes(hex: &[u8]) -> Option<Vec<u8>> {
        let (pairs, []) = hex.as_chunks::<2>() else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        pairs.iter().map(|&[high, low]| Some((digit(high)? << 4 | digit(low)?) as u8)).collect()
    }
}
