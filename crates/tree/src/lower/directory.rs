//! Open directories, read in portions.
//!
//! A cursor is what the lower filesystem says of the place behind an entry (`d_off` of `getdents64(2)`), by which it goes on itself.
//! So names that are added and removed meanwhile have the effect that they have on the lower directory.

use std::collections::VecDeque;
use std::fs::File;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atrest_filetree::posix::{Attributes, EntrySink, Errno, Look, Node, Outcome, PosixDirectory, PosixEntry};
use atrest_filetree::{Cursor, Kind, Timestamp};
use rustix::fs::{FileType, RawDir, SeekFrom, Stat};

use super::Layer;
use super::attributes::open_to_read;
use super::nodes::Place;
use super::tree::Inner;

/// Bytes that the system is asked for at once: some hundred names.
const PORTION: usize = 32 << 10;

pub(super) struct OpenDirectory<M: Layer> {
    tree: Arc<Inner<M>>,
    number: Node,
    directory: File,
    reading: Mutex<Reading>,
}

/// What was read of the directory and not yet taken.
#[derive(Default)]
struct Reading {
    /// Where the first of them lies.
    at: u64,
    ahead: VecDeque<LowerEntry>,
}

struct LowerEntry {
    name: Vec<u8>,
    kind: FileType,
    inode: u64,
    next: u64,
}

impl LowerEntry {
    fn is_dots(&self) -> bool {
        matches!(&self.name[..], b"." | b"..")
    }
}

impl<M: Layer> OpenDirectory<M> {
    /// A directory that was opened. One reference to its node is given back when this is dropped.
    pub fn new(tree: Arc<Inner<M>>, number: Node, directory: File) -> Self {
        Self { tree, number, directory, reading: Mutex::default() }
    }

    /// Moves to a place, which costs nothing where the last read has ended.
    fn seek(&self, from: Cursor) -> Outcome<MutexGuard<'_, Reading>> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        // What is read from the start is read anew.
        if from == Cursor::START || reading.at != from.0 {
            reading.ahead.clear();
            rustix::fs::seek(&self.directory, SeekFrom::Start(from.0))?;
            reading.at = from.0;
        }
        Ok(reading)
    }

    /// Reads the next portion. There is none at the end.
    fn read_ahead(&self, reading: &mut Reading) -> Outcome<()> {
        let mut buffer = [MaybeUninit::uninit(); PORTION];
        let mut portion = RawDir::new(&self.directory, &mut buffer);
        while let Some(entry) = portion.next() {
            let entry = match entry {
                // The directory was removed: nothing is in it.
                Err(Errno::NOENT) => break,
                entry => entry?,
            };
            reading.ahead.push_back(LowerEntry {
                name: entry.file_name().to_bytes().to_vec(),
                kind: entry.file_type(),
                inode: entry.ino(),
                next: entry.next_entry_cookie(),
            });
            if portion.is_buffer_empty() {
                break;
            }
        }
        Ok(())
    }

    /// What an entry looks like, with one reference more. None where that can't be told, as when its name is gone.
    fn look(&self, entry: &LowerEntry) -> Option<Attributes> {
        let tree = &*self.tree;
        let is_new = || tree.nodes.get(tree.nodes.number_of_entry(entry.inode)).is_err();
        if entry.kind != FileType::RegularFile || !tree.layer.maps_sizes() || !is_new() {
            return tree.refer((self.number, &self.directory), &entry.name).ok();
        }
        // A file that must be looked into is opened at once.
        let opened = {
            let _still = tree.names_stay();
            open_to_read(&self.directory, &entry.name).ok().and_then(|file| {
                let stat = rustix::fs::fstat(&file).ok()?;
                let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                let place = Place::new(self.number, &entry.name);
                is_file.then(|| (tree.nodes.refer(place, &stat), stat, file))
            })
        };
        match opened {
            Some((node, stat, file)) => tree.told(&node, &stat, || Ok(file)).ok(),
            None => tree.refer((self.number, &self.directory), &entry.name).ok(),
        }
    }

    fn shown(&self, entry: &LowerEntry, name: Vec<u8>, look: Look) -> PosixEntry {
        let attributes = if look == Look::Attributes && !entry.is_dots() { self.look(entry) } else { None };
        let node = match &attributes {
            // What is above the top is nobody's business.
            _ if self.number == Node::ROOT && entry.is_dots() => Some(Node::ROOT),
            found => found.as_ref().map(|found| found.node),
        };
        PosixEntry {
            name,
            kind: kind_of(entry.kind),
            node: node.unwrap_or_else(|| self.tree.nodes.number_of_entry(entry.inode)),
            attributes,
            next: Cursor(entry.next),
        }
    }
}

impl<M: Layer> PosixDirectory for OpenDirectory<M> {
    fn read(&self, from: Cursor, look: Look, sink: &mut dyn EntrySink) -> Outcome<()> {
        let reading = &mut *self.seek(from)?;
        let mut taken = false;
        loop {
            if reading.ahead.is_empty() {
                match self.read_ahead(reading) {
                    Ok(()) => {}
                    // The next call meets it again.
                    Err(_) if taken => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            let Some(entry) = reading.ahead.front() else { return Ok(()) };
            let name = self.tree.layer.plain_name(&entry.name).into_owned();
            if !sink.has_room(&name) {
                return Ok(());
            }
            let shown = self.shown(entry, name, look);
            if sink.take(&shown).is_break() {
                if let Some(attributes) = shown.attributes {
                    self.tree.nodes.forget(attributes.node, 1);
                }
                return Ok(());
            }
            taken = true;
            reading.at = entry.next;
            reading.ahead.pop_front();
        }
    }

    fn sync(&self) -> Outcome<()> {
        rustix::fs::fsync(&self.directory)
    }
}

impl<M: Layer> Drop for OpenDirectory<M> {
    fn drop(&mut self) {
        self.tree.nodes.forget(self.number, 1);
    }
}

/// What an entry is; none if the directory does not tell.
pub(crate) fn kind_of(kind: FileType) -> Option<Kind> {
    Some(match kind {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        FileType::Fifo => Kind::Pipe,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        _ => return None,
    })
}

/// When a lower file was last changed and read, and when its metadata were last changed.
pub(crate) fn times(stat: &Stat) -> [Timestamp; 3] {
    // A processor of 32 bits has another type for nanoseconds. They are less than 10^9.
    [
        (stat.st_mtime, stat.st_mtime_nsec as u32),
        (stat.st_atime, stat.st_atime_nsec as u32),
        (stat.st_ctime, stat.st_ctime_nsec as u32),
    ]
    .map(|(seconds, nanoseconds)| Timestamp { seconds, nanoseconds })
}
