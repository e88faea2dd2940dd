//! Walks through trees that may be hostile: bounded in depth and number, and no directory is entered twice.
//!
//! A damaged or forged filesystem can make a directory its own ancestor, or let two directories hold the same third one.
//! The first makes a naive walk endless, the second makes it exponential. Every walk of this project goes through [`Walk`].

use core::fmt;
use std::collections::HashMap;
use std::vec;

use crate::error::TreeError;
use crate::path::TreePath;
use crate::tree::{Capacity, Entry, FileTree, Kind, Metadata};

/// Levels of directories that a walk descends. Copies hold a file descriptor for each.
pub const MAX_DEPTH: usize = 200;
/// Bytes that an entry takes at least: 32 in FAT, 12 in ext, 17 in LittleFS.
const ENTRY: u64 = 12;

/// A walk through everything below an entry, the entry itself included.
///
/// After an error the walk goes on with the next entry, so that a caller may leave out what is damaged; it ends after
/// [`WalkError::TooMany`].
pub struct Walk<'t> {
    tree: &'t dyn FileTree,
    /// Metadata is read of every entry.
    looks: bool,
    start: Option<TreePath>,
    /// Directories on the way down, with what is still to come of them.
    levels: Vec<(Visit, vec::IntoIter<Entry>)>,
    /// The first path of each directory, by its inode: as metadata have it, or in a walk by names as directories do.
    seen: HashMap<u64, TreePath>,
    limit: u64,
    visited: u64,
}

/// A step of a walk.
#[derive(Clone, Debug)]
pub enum Step {
    /// A directory, before what is in it.
    Enter(Visit),
    /// A directory that was entered, after what is in it.
    Leave(Visit),
    /// Anything else.
    Leaf(Visit),
}

/// An entry that a walk has come to.
#[derive(Clone, Debug)]
pub struct Visit {
    /// Where it is.
    pub path: TreePath,
    /// What it is: by its metadata, or in a walk by names what its directory says.
    pub kind: Kind,
    /// Directories above it that belong to the walk.
    pub depth: usize,
    /// Its metadata, unless the walk goes by names alone.
    pub metadata: Option<Metadata>,
}

impl<'t> Walk<'t> {
    /// A walk that reads the metadata of every entry.
    pub fn new(tree: &'t dyn FileTree, from: &TreePath) -> Self {
        let about = tree.about();
        let limit = if about.capacity == Capacity::Unbounded { u64::MAX } else { about.size / ENTRY };
        let (levels, seen) = Default::default();
        Self { tree, looks: true, start: Some(from.clone()), levels, seen, limit, visited: 0 }
    }

    /// A walk that believes what directories say of their entries, and reads metadata of the start alone.
    pub fn by_names(tree: &'t dyn FileTree, from: &TreePath) -> Self {
        Self { looks: false, ..Self::new(tree, from) }
    }

    /// Leaves out the rest of the directory that was entered last, which is not told as left either.
    pub fn leave_out(&mut self) {
        self.levels.pop();
    }

    fn visit(&mut self, path: TreePath, entry: Option<&Entry>) -> Result<Step, WalkError> {
        let metadata = match entry {
            Some(_) if !self.looks => None,
            _ => Some(self.tree.metadata(&path).map_err(|error| self.failed(&path, error))?),
        };
        let (kind, inode) = match (&metadata, entry) {
            (Some(found), _) if self.looks => (found.kind, found.inode),
            (_, Some(entry)) => (entry.kind, entry.inode),
            // Numbers in directories need not be those that metadata show, on some hosts.
            (Some(found), None) => (found.kind, 0),
            (None, None) => (Kind::File, 0),
        };
        let metadata = metadata.filter(|_| self.looks);
        let visit = Visit { path: path.clone(), kind, depth: self.levels.len(), metadata };
        if kind != Kind::Directory {
            return Ok(Step::Leaf(visit));
        }
        if visit.depth >= MAX_DEPTH {
            return Err(WalkError::TooDeep { path, limit: MAX_DEPTH });
        }
        if let Some(first) = self.seen.get(&inode).filter(|_| inode != 0) {
            return Err(WalkError::Twice { first: first.clone(), second: path });
        }
        let entries = self.tree.list(&path).map_err(|error| self.failed(&path, error))?;
        self.seen.insert(inode, path);
        self.levels.push((visit.clone(), entries.into_iter()));
        Ok(Step::Enter(visit))
    }

    /// What a tree's failure means here: one that knows its directories does not know their paths.
    fn failed(&self, path: &TreePath, error: TreeError) -> WalkError {
        let first = match error {
            TreeError::SharedDirectory { inode } => self.seen.get(&inode),
            _ => None,
        };
        match first {
            Some(first) => WalkError::Twice { first: first.clone(), second: path.clone() },
            None => WalkError::Tree { path: path.clone(), error },
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<Step, WalkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(start) = self.start.take() {
            return Some(self.visit(start, None));
        }
        let (directory, entries) = self.levels.last_mut()?;
        let Some(entry) = entries.next() else {
            return self.levels.pop().map(|(directory, _)| Ok(Step::Leave(directory)));
        };
        let path = directory.path.join(&entry.name);
        let path = match path {
            Ok(path) => path,
            Err(error) => {
                return Some(Err(WalkError::Tree { path: directory.path.clone(), error: error.into() }));
            }
        };
        if self.visited >= self.limit {
            self.levels.clear();
            return Some(Err(WalkError::TooMany { path, limit: self.limit }));
        }
        self.visited += 1;
        Some(self.visit(path, Some(&entry)))
    }
}

/// Removes an entry, with `recursive` everything in it as well, and returns how many entries that were. The root itself stays.
///
/// Everything is looked through before the first entry is removed: in a damaged filesystem nothing is.
///
/// # Errors
/// [`WalkError::Tree`] if there is no such entry, if it can't be removed ([`FileTree::remove`]) or if the tree fails. The other
/// [`WalkError`]s, before anything is removed, if what is below the entry is too damaged or too deep for a walk.
pub fn remove(tree: &dyn FileTree, path: &TreePath, recursive: bool) -> Result<u64, WalkError> {
    // What a removal frees must belong to nothing else, wherever that is.
    tree.check_unshared(&TreePath::root())?;
    let failed = |path: &TreePath, error| WalkError::Tree { path: path.clone(), error };
    if !recursive {
        tree.remove(path).map_err(|error| failed(path, error))?;
        return Ok(1);
    }
    for step in Walk::by_names(tree, path) {
        step?;
    }
    let mut removed = 0;
    for step in Walk::by_names(tree, path) {
        if let Step::Leaf(Visit { path, .. }) | Step::Leave(Visit { path, .. }) = step?
            && !path.is_root()
        {
            tree.remove(&path).map_err(|error| failed(&path, error))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Why a walk could not go on at an entry.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkError {
    /// The tree failed.
    Tree {
        /// At this entry.
        path: TreePath,
        /// In this way.
        error: TreeError,
    },
    /// Directories are nested more deeply than a walk follows.
    TooDeep {
        /// Here.
        path: TreePath,
        /// The limit.
        limit: usize,
    },
    /// There are more entries than have room in the filesystem: it is damaged.
    TooMany {
        /// The first of those that can't be.
        path: TreePath,
        /// Entries that there can be at most.
        limit: u64,
    },
    /// A directory is found in two places, one of which may be inside it: the filesystem is damaged.
    Twice {
        /// Where it was found first.
        first: TreePath,
        /// Where it was found again.
        second: TreePath,
    },
    /// Two entries claim the same cluster: the filesystem is damaged.
    SharedCluster {
        /// The cluster.
        cluster: u32,
        /// One of them.
        first: TreePath,
        /// The other one.
        second: TreePath,
    },
}

impl fmt::Display for WalkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree { path, error } => write!(f, "{path}: {error}"),
            Self::TooDeep { path, limit } => {
                write!(f, "{path}: directories are nested more than {limit} deep")
            }
            Self::TooMany { path, limit } => {
                write!(f, "{path}: the filesystem has room for {limit} entries and shows more; it is damaged")
            }
            Self::Twice { first, second } => {
                write!(f, "{first} and {second} are the same directory; the filesystem is damaged")
            }
            Self::SharedCluster { cluster, first, second } => {
                write!(f, "cluster {cluster} belongs to both {first} and {second}; the filesystem is damaged")
            }
        }
    }
}

impl core::error::Error for WalkError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Tree { error, .. } => Some(error),
            _ => None,
        }
    }
}
