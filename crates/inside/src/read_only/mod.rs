//! File systems that are only read: what NTFS, exFAT and others have in common once their nodes can be found.
//!
//! A file system says what lies in a directory and what in a node ([`Nodes`]). [`ReadTree`] makes a [`FileTree`] of that: it
//! walks paths, keeps the names of directories that were looked into, and refuses a directory that is found in two places,
//! so that no walk runs in a circle.

mod text;

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use atrest_filetree::{
    About, Cursor, Entry, FileTree, Kind, Listed, Metadata, Space, Stop, TreeError, TreePath, Wanted,
};

pub(crate) use text::{folded, utf16};

use crate::ext4::read_ahead;

/// Directories whose names are kept for look-ups.
const CACHED_DIRECTORIES: usize = 16;
/// Names kept of all of them together, at some 150 bytes each. A larger directory is read on each look-up instead.
const CACHED_NAMES: usize = 500_000;
/// Nodes kept by their paths, besides the newest.
const FOUND: usize = 7;
/// Bytes handed over at once by `read_to`.
const PIECE: usize = 1 << 20;

/// A file system, as far as it differs from others.
pub(crate) trait Nodes: Send + Sync {
    /// What a directory says of an entry: enough to open it.
    type Found: Clone + PartialEq + Send + Sync;
    /// An open file, link or directory, shared by its copies.
    type Node: Clone + Send + Sync;
    /// What a directory is known by, wherever it is entered.
    type Id: Copy + Eq + Hash + Send;

    /// What kind of file system it is.
    fn about(&self) -> About;

    /// How full it is.
    ///
    /// # Errors
    /// Those of every method of [`FileTree`].
    fn space(&self) -> Result<Space, TreeError>;

    /// The directory at the top.
    ///
    /// # Errors
    /// Those of every method of [`FileTree`].
    fn root(&self) -> Result<Self::Node, TreeError>;

    /// Opens what an entry stands for.
    ///
    /// # Errors
    /// Those of every method of [`FileTree`].
    fn open(&self, found: &Self::Found) -> Result<Self::Node, TreeError>;

    /// What a node is known by.
    fn id(&self, node: &Self::Node) -> Self::Id;

    /// The entries of a directory, with valid names, in the order in which they are stored. No more than the device has room for.
    ///
    /// # Errors
    /// Those of every method of [`FileTree`].
    fn entries(&self, directory: &Self::Node) -> Result<Vec<Stored<Self::Found>>, TreeError>;

    /// A name as it is compared where capitals do not count; `None` where they do.
    fn folded(&self, name: &[u8]) -> Option<Vec<u8>>;

    /// What is known about a node.
    ///
    /// # Errors
    /// Those of every method of [`FileTree`].
    fn metadata(&self, node: &Self::Node) -> Result<Metadata, TreeError>;

    /// Reads a file from a byte on, which lies inside of it with all of the buffer.
    ///
    /// # Errors
    /// Those of every method of [`FileTree`].
    fn read(&self, node: &Self::Node, offset: u64, buf: &mut [u8]) -> Result<(), TreeError>;

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`TreeError::NotALink`] for anything else, and those of every method of [`FileTree`].
    fn target(&self, node: &Self::Node) -> Result<Vec<u8>, TreeError>;
}

/// An entry of a directory.
#[derive(Clone)]
pub(crate) struct Stored<F> {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: Kind,
    /// Number that a person sees.
    pub(crate) inode: u64,
    pub(crate) found: F,
}

/// The entries of one directory, and where each name is among them.
struct Known<F> {
    entries: Vec<Stored<F>>,
    names: HashMap<Vec<u8>, usize>,
}

/// A directory and what is in it.
type Looked<N> = (<N as Nodes>::Node, Arc<Known<<N as Nodes>::Found>>);
/// By which entry of which directory each directory was entered.
type Entered<N> = HashMap<<N as Nodes>::Id, (<N as Nodes>::Id, usize)>;
/// Directories, the most recently used last.
type Remembered<N> = Vec<(<N as Nodes>::Id, Arc<Known<<N as Nodes>::Found>>)>;

/// A file system that is only read.
pub(crate) struct ReadTree<N: Nodes> {
    nodes: N,
    directories: Mutex<Remembered<N>>,
    /// There is one entry only for each in a sound file system.
    entered: Mutex<Entered<N>>,
    /// What was found last by paths, so that reading a file in parts does not open it again for each.
    found: Mutex<VecDeque<(TreePath, N::Node)>>,
}

impl<N: Nodes> ReadTree<N> {
    /// A tree of these nodes.
    ///
    /// # Errors
    /// A file system without a readable root is not worth opening.
    pub(crate) fn new(nodes: N) -> Result<Self, TreeError> {
        let tree =
            Self { nodes, directories: Mutex::default(), entered: Mutex::default(), found: Mutex::default() };
        let root = tree.nodes.root()?;
        tree.known(&root)?;
        Ok(tree)
    }

    fn find(&self, path: &TreePath) -> Result<N::Node, TreeError> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, node)) = found.iter().find(|(known, _)| known == path) {
            return Ok(node.clone());
        }
        drop(found);
        let node = self.look_up(path)?;
        found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.truncate(FOUND);
        found.push_front((path.clone(), node.clone()));
        Ok(node)
    }

    fn look_up(&self, path: &TreePath) -> Result<N::Node, TreeError> {
        let mut node = self.nodes.root()?;
        for name in path.components() {
            if self.nodes.metadata(&node)?.kind != Kind::Directory {
                return Err(TreeError::NotADirectory);
            }
            let known = self.known(&node)?;
            let folded = || known.names.get(&self.nodes.folded(name)?);
            let at = known.names.get(name).or_else(folded).copied().ok_or(TreeError::NotFound)?;
            node = self.below(&node, &known, at)?;
        }
        Ok(node)
    }

    /// What an entry of a directory stands for.
    fn below(&self, directory: &N::Node, known: &Known<N::Found>, at: usize) -> Result<N::Node, TreeError> {
        let stored = known.entries.get(at).ok_or(TreeError::NotFound)?;
        let node = self.nodes.open(&stored.found)?;
        if self.nodes.metadata(&node)?.kind == Kind::Directory {
            let (id, place) = (self.nodes.id(&node), (self.nodes.id(directory), at));
            let root = self.nodes.id(&self.nodes.root()?);
            let mut entered = self.entered.lock().unwrap_or_else(PoisonError::into_inner);
            if id == root || *entered.entry(id).or_insert(place) != place {
                return Err(TreeError::SharedDirectory { inode: stored.inode });
            }
        }
        Ok(node)
    }

    /// The entries of a directory, from memory if they were read before.
    fn known(&self, directory: &N::Node) -> Result<Arc<Known<N::Found>>, TreeError> {
        let id = self.nodes.id(directory);
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = directories.iter().position(|(known, _)| *known == id) {
            let found = directories.remove(at);
            let known = found.1.clone();
            directories.push(found);
            return Ok(known);
        }
        drop(directories);
        let entries = self.nodes.entries(directory)?;
        let mut names = HashMap::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            // The first of two equal names counts, in a damaged directory.
            names.entry(entry.name.clone()).or_insert(at);
        }
        for (at, entry) in entries.iter().enumerate() {
            if let Some(folded) = self.nodes.folded(&entry.name) {
                names.entry(folded).or_insert(at);
            }
        }
        let known = Arc::new(Known { entries, names });
        self.remember(id, &known);
        Ok(known)
    }

    /// Keeps the names of a directory, and fewer of others if need be.
    fn remember(&self, id: N::Id, new: &Arc<Known<N::Found>>) {
        if new.names.len() > CACHED_NAMES {
            return;
        }
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = |all: &Remembered<N>| {
            // cannot overflow: the names are in memory.
            all.iter().fold(new.names.len(), |sum, (_, known)| sum.saturating_add(known.names.len()))
        };
        while directories.len() >= CACHED_DIRECTORIES || kept(&directories) > CACHED_NAMES {
            directories.remove(0);
        }
        directories.push((id, new.clone()));
    }

    fn directory(&self, path: &TreePath) -> Result<Looked<N>, TreeError> {
        let node = self.find(path)?;
        if self.nodes.metadata(&node)?.kind != Kind::Directory {
            return Err(TreeError::NotADirectory);
        }
        let known = self.known(&node)?;
        Ok((node, known))
    }

    /// A file and its size.
    fn file(&self, path: &TreePath) -> Result<(N::Node, u64), TreeError> {
        let node = self.find(path)?;
        let metadata = self.nodes.metadata(&node)?;
        match metadata.kind {
            Kind::File => Ok((node, metadata.size)),
            Kind::Directory => Err(TreeError::IsADirectory),
            _ => Err(TreeError::NotAFile),
        }
    }

    /// Reads what there is of a file from a byte on.
    fn part(&self, node: &N::Node, size: u64, offset: u64, buf: &mut [u8]) -> Result<usize, TreeError> {
        // intended: nothing is left behind the end. More than memory has is more than the buffer takes.
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buf.len().min(left);
        // cannot miss: the length is at most that of the buffer.
        let buf = buf.get_mut(..len).unwrap_or(&mut []);
        if !buf.is_empty() {
            self.nodes.read(node, offset, buf)?;
        }
        Ok(len)
    }
}

impl<N: Nodes> FileTree for ReadTree<N> {
    fn about(&self) -> About {
        self.nodes.about()
    }

    fn space(&self) -> Result<Space, TreeError> {
        self.nodes.space()
    }

    fn metadata(&self, path: &TreePath) -> Result<Metadata, TreeError> {
        self.nodes.metadata(&self.find(path)?)
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Entry>, TreeError> {
        let (_, known) = self.directory(path)?;
        Ok(known.entries.iter().map(entry).collect())
    }

    /// A cursor is the number of an entry: nothing here adds or removes any.
    fn list_from(&self, path: &TreePath, from: Cursor, wanted: Wanted) -> Result<Vec<Listed>, TreeError> {
        let (node, known) = self.directory(path)?;
        // intended: behind the end of what memory holds there is nothing.
        let from = usize::try_from(from.0).unwrap_or(usize::MAX);
        let portion = known.entries.iter().enumerate().skip(from).take(wanted.entries);
        let listed = portion.map(|(at, stored)| {
            let look = || self.nodes.metadata(&self.below(&node, &known, at)?);
            let metadata = wanted.metadata.then(look);
            // cannot overflow: entries are counted in memory.
            Listed { entry: entry(stored), metadata, next: Cursor((at as u64).saturating_add(1)) }
        });
        Ok(listed.collect())
    }

    fn read_at(&self, path: &TreePath, offset: u64, buf: &mut [u8]) -> Result<usize, TreeError> {
        let (node, size) = self.file(path)?;
        self.part(&node, size, offset, buf)
    }

    fn read_to(
        &self,
        path: &TreePath,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), Stop>,
    ) -> Result<u64, TreeError> {
        let (node, size) = self.file(path)?;
        let piece = |buf: &mut Vec<u8>, offset: u64| {
            // intended: nothing is left behind the end.
            let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(PIECE);
            buf.resize(left.min(PIECE), 0);
            self.part(&node, size, offset, buf)
        };
        if size > PIECE as u64 {
            return read_ahead(size, &piece, sink);
        }
        let mut buf = Vec::new();
        let len = piece(&mut buf, 0)?;
        if len > 0 {
            // cannot miss: the piece has as many bytes.
            sink(buf.get(..len).unwrap_or(&[])).map_err(|Stop| TreeError::Stopped { at: 0 })?;
        }
        Ok(len as u64)
    }

    fn read_link(&self, path: &TreePath) -> Result<Vec<u8>, TreeError> {
        self.nodes.target(&self.find(path)?)
    }
}

fn entry<F>(stored: &Stored<F>) -> Entry {
    Entry { name: stored.name.clone(), kind: stored.kind, inode: stored.inode }
}
