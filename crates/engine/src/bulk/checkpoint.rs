//! How far an interrupted run had come: a small text file beside the output.
//!
//! ```text
//! atrest-checkpoint 1
//! direction decrypt
//! volume 7d5e…-…            (UUID, or - if it has none)
//! volume-size 4278190080    (bytes of plaintext)
//! source-size 4278190080    (bytes to be done)
//! modified 1730000000.5     (of the source, or -)
//! fingerprint 3b1f…         (SHA-256, below)
//! done 00000000002147483648 (bytes from the beginning that are durable)
//! sum 90aa…                 (SHA-256 of all lines before)
//! ```
//!
//! It is there, with nothing done, before the first byte of the output is written: a run that can't keep one must not
//! begin. Every later one is written to a file of mode 0600 beside it, made durable and renamed, after the data that it
//! vouches for is durable. Where the media is too full for that file, the old one is rewritten in place: it has room, as
//! it is as long as any of this run (`done` has 20 digits), and its sum tells if power fails meanwhile. The fingerprint is taken over the *ciphertext* of the first and the last MiB, for encryption over the
//! ciphertext that will be: so it tells nothing of the plaintext to whoever finds the file, and depends on the key too.

#[cfg(test)]
mod tests;

use core::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use atrest_device::{BlockDevice, Cause, DeviceError};
use atrest_kdf::Hash;

use super::BulkError;
use crate::{Disk, sys};

/// Bytes at either end that the fingerprint covers, a multiple of every data unit.
const ENDS: u64 = 1 << 20;
/// A checkpoint is no longer than this.
const MAX_LEN: u64 = 4096;

/// Where the checkpoint of a run is kept: `OUTPUT.atrest-checkpoint`. If the output is a block device, beside which
/// nothing should be put, then `INPUT.atrest-checkpoint`; if both are block devices there is no place for one.
pub fn checkpoint_path(output: &Path, input: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::FileTypeExt;
    let is_device = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|metadata| {
            metadata.file_type().is_block_device() || metadata.file_type().is_char_device()
        })
    };
    let beside = [output, input].into_iter().find(|path| !is_device(path))?;
    let mut name = beside.file_name()?.to_os_string();
    name.push(".atrest-checkpoint");
    Some(beside.with_file_name(name))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Encrypt,
    Decrypt,
}

/// In what a checkpoint differs from the run that should be resumed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// It was made by an encryption, not a decryption, or the other way round.
    Direction,
    /// It was made with another volume.
    Volume,
    /// The source is another one, or has changed since.
    Source,
    /// The output does not hold what was written, in the chunk at this offset.
    Output {
        /// First byte of the chunk.
        offset: u64,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direction => f.write_str("it was made in the other direction"),
            Self::Volume => f.write_str("it was made with another volume"),
            Self::Source => f.write_str("the source is another one or was changed"),
            Self::Output { offset } => write!(f, "the output was changed near offset {offset}"),
        }
    }
}

/// What a checkpoint is bound to.
#[derive(Debug)]
pub struct Binding {
    direction: Direction,
    volume: String,
    source: String,
}

impl Binding {
    /// Binds to a source of `total` bytes; `ciphertext` gives the ciphertext at an offset.
    pub fn new(
        direction: Direction,
        total: u64,
        disk: &Disk,
        modified: Option<SystemTime>,
        ciphertext: impl Fn(u64, usize) -> Result<Vec<u8>, DeviceError>,
    ) -> Result<Self, DeviceError> {
        let first = ciphertext(0, total.min(ENDS) as usize)?;
        // intended: all of a source that is shorter.
        let last_at = total.saturating_sub(ENDS) / ENDS * ENDS;
        let last = ciphertext(last_at, (total - last_at) as usize)?;
        let fingerprint = sha256(&[&first, &last]);
        let modified = modified.map_or("-".to_owned(), since_1970);
        Ok(Self {
            direction,
            volume: format!("volume {}\nvolume-size {}\n", disk.uuid().unwrap_or("-"), disk.size()),
            source: format!("source-size {total}\nmodified {modified}\nfingerprint {fingerprint}\n"),
        })
    }

    fn head(&self) -> &'static str {
        match self.direction {
            Direction::Encrypt => "atrest-checkpoint 1\ndirection encrypt\n",
            Direction::Decrypt => "atrest-checkpoint 1\ndirection decrypt\n",
        }
    }
}

/// The checkpoint of a run.
#[derive(Debug)]
pub struct Checkpoint<'a> {
    path: &'a Path,
    binding: Binding,
}

impl<'a> Checkpoint<'a> {
    pub fn new(path: &'a Path, binding: Binding) -> Self {
        Self { path, binding }
    }

    /// Bytes done according to the file, if it is bound to the same.
    pub fn load(&self, total: u64) -> Result<u64, BulkError> {
        let (binding, mut text) = (&self.binding, String::new());
        match File::open(self.path).and_then(|file| file.take(MAX_LEN).read_to_string(&mut text)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(BulkError::NoCheckpoint),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(BulkError::CheckpointDamaged);
            }
            Err(error) => return Err(failed(&error)),
        }
        let damaged = BulkError::CheckpointDamaged;
        let (body, sum) = text.rsplit_once("sum ").ok_or(damaged)?;
        if sum.strip_suffix('\n') != Some(&sha256(&[body.as_bytes()])) {
            return Err(damaged);
        }
        let mismatch = |mismatch| BulkError::CheckpointMismatch(mismatch);
        let rest = body.strip_prefix(binding.head()).ok_or(mismatch(Mismatch::Direction))?;
        let rest = rest.strip_prefix(&binding.volume).ok_or(mismatch(Mismatch::Volume))?;
        let rest = rest.strip_prefix(&binding.source).ok_or(mismatch(Mismatch::Source))?;
        let done = rest.strip_prefix("done ").and_then(|rest| rest.strip_suffix('\n')).ok_or(damaged)?;
        // As `save` writes it, so that rewriting it in place changes no length.
        let number =
            done.parse().ok().filter(|number: &u64| *number <= total && format!("{number:020}") == done);
        number.ok_or(damaged)
    }

    /// Notes that everything below `done` is durable, which the caller has made sure of.
    pub fn save(&self, done: u64) -> Result<(), BulkError> {
        let mut text = format!("{}{}{}", self.binding.head(), self.binding.volume, self.binding.source);
        // Writing to a string can't fail.
        let _ = writeln!(text, "done {done:020}");
        let sum = sha256(&[text.as_bytes()]);
        let _ = writeln!(text, "sum {sum}");
        let saved = match replace(self.path, text.as_bytes()) {
            Err(error) if sys::cause(&error) == Cause::NoSpace => {
                rewrite(self.path, text.as_bytes()).map_err(|_| error)
            }
            other => other,
        };
        saved.map_err(|error| failed(&error))
    }

    /// The run is finished: there is nothing to resume.
    pub fn remove(self) -> Result<(), BulkError> {
        remove(self.path)
    }
}

/// Removes a checkpoint durably, if there is one. To be called before an output is truncated that a run is to fill
/// anew: a checkpoint that survived it would vouch for bytes that are gone.
pub fn remove(path: &Path) -> Result<(), BulkError> {
    match std::fs::remove_file(path) {
        Ok(()) => File::open(directory(path))
            .and_then(|directory| directory.sync_all())
            .map_err(|error| failed(&error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(&error)),
    }
}

/// A time in seconds, with a sign before those until 1970: two times are never the same text.
fn since_1970(time: SystemTime) -> String {
    let (sign, distance) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => ("", after),
        Err(before) => ("-", before.duration()),
    };
    format!("{sign}{}.{:09}", distance.as_secs(), distance.subsec_nanos())
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Replaces a file durably: at any time it holds either the old or the new contents. On failure nothing else is left.
fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    // intended: a path without a name gives a hidden file beside it.
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let new = path.with_file_name(name);
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(contents).and_then(|()| file.sync_all());
    written.and_then(|()| std::fs::rename(&new, path)).inspect_err(|_| {
        // Of no use; that it can't be removed changes nothing about the error.
        let _ = std::fs::remove_file(&new);
    })?;
    File::open(directory(path))?.sync_all()
}

/// Overwrites a file of the same length durably, without needing room for a second one.
fn rewrite(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    if file.metadata()?.len() != contents.len() as u64 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    file.write_all(contents)?;
    file.sync_all()
}

fn failed(error: &io::Error) -> BulkError {
    let cause: Cause = sys::cause(error);
    BulkError::CheckpointFile(cause)
}

fn sha256(parts: &[&[u8]]) -> String {
    let mut out = [0; 32];
    atrest_kdf::digest(Hash::Sha256, parts, &mut out);
    out.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
