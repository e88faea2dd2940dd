//! The nodes that somebody knows, by their numbers: where each is found, and the descriptors of a few of them.
//!
//! A process may have a few thousand descriptors, and a tree millions of files. So a node is remembered by its directory and its
//! name there. It is opened when it is needed, and is still itself if device and number are the same. Only what has lost its
//! name can't be found again: it keeps its descriptor until it is forgotten.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atrest_filetree::posix::{Errno, Node, Outcome};
use rustix::fs::{FileType, Mode, Stat};

use super::open::OpenState;
use crate::flags;

/// What is in the lower directory under a number.
pub(super) struct LowerNode<F> {
    pub number: Node,
    pub which: Which,
    pub kind: FileType,
    pub open: Mutex<OpenState<F>>,
}

impl<F> LowerNode<F> {
    fn new(number: Node, stat: &Stat) -> Arc<Self> {
        let (which, kind) = (Which::of(stat), FileType::from_raw_mode(stat.st_mode));
        Arc::new(Self { number, which, kind, open: Mutex::default() })
    }

    pub fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    pub fn state(&self) -> MutexGuard<'_, OpenState<F>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file of the system: its device and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Which(u64, u64);

impl Which {
    pub fn of(stat: &Stat) -> Self {
        Self(stat.st_dev, stat.st_ino)
    }
}

/// Where a node is found: a name in a directory.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub parent: Node,
    pub name: Box<[u8]>,
}

impl Place {
    pub fn new(parent: Node, name: &[u8]) -> Self {
        Self { parent, name: name.into() }
    }
}

/// What leads to a node.
pub(super) enum Way {
    /// A descriptor of the node itself.
    Held(Arc<OwnedFd>),
    /// A descriptor of its directory, and its name there.
    Named(Arc<OwnedFd>, Box<[u8]>),
}

pub(super) struct Nodes<F> {
    table: Mutex<Table<F>>,
    root: Which,
    /// Descriptors that are held of nodes that have names.
    most: usize,
}

struct Table<F> {
    by_number: HashMap<Node, Known<F>>,
    /// Numbers of what is on another device than the root, or has a number that is taken.
    foreign: HashMap<Which, Node>,
    /// Nodes that were opened, those that were opened first in front. One may be in it that is closed or forgotten.
    held: VecDeque<Node>,
}

struct Known<F> {
    node: Arc<LowerNode<F>>,
    references: u64,
    /// Nodes that are found in it, which keep it known.
    children: u64,
    /// None for the root, and for what has lost its name: these keep their descriptors.
    place: Option<Place>,
    /// Opened with `O_PATH`.
    fd: Option<Arc<OwnedFd>>,
    /// The descriptor was used since it came to the front of those that are held.
    used: bool,
}

/// Numbers that no filesystem gives, for what is mounted below the lower directory.
const FOREIGN: u64 = 1 << 63;
/// What such a number has of the file's own; there is room for others behind the largest.
const OWN: u64 = (FOREIGN >> 1) - 1;

impl<F> Nodes<F> {
    /// The nodes below a directory, of which at most so many descriptors are held.
    pub fn new(root: OwnedFd, stat: &Stat, most: usize) -> Self {
        let node = LowerNode::new(Node::ROOT, stat);
        let known =
            Known { node, references: 1, children: 0, place: None, fd: Some(Arc::new(root)), used: false };
        let by_number = HashMap::from([(Node::ROOT, known)]);
        let table = Table { by_number, foreign: HashMap::new(), held: VecDeque::new() };
        Self { table: Mutex::new(table), root: Which::of(stat), most }
    }

    pub fn get(&self, number: Node) -> Outcome<Arc<LowerNode<F>>> {
        self.table().by_number.get(&number).map(|known| Arc::clone(&known.node)).ok_or(Errno::STALE)
    }

    /// The node of a file of the system, if it is known.
    pub fn known(&self, stat: &Stat) -> Option<Arc<LowerNode<F>>> {
        let table = self.table();
        let which = Which::of(stat);
        let number = match table.foreign.get(&which) {
            Some(number) => *number,
            None => self.plain_number(which)?,
        };
        table.by_number.get(&number).map(|known| Arc::clone(&known.node)).filter(|node| node.which == which)
    }

    /// The node that was found at a place, with one reference more.
    pub fn refer(&self, place: Place, stat: &Stat) -> Arc<LowerNode<F>> {
        let mut table = self.table();
        let number = self.number(&mut table, stat);
        let known = table.by_number.entry(number).or_insert_with(|| Known {
            node: LowerNode::new(number, stat),
            references: 0,
            children: 0,
            place: None,
            fd: None,
            used: false,
        });
        // intended: a node with so many references is never forgotten.
        known.references = known.references.saturating_add(1);
        let node = Arc::clone(&known.node);
        // Of several names, the one that was seen last is there most likely.
        if number != Node::ROOT && known.place.as_ref() != Some(&place) {
            drop(table.settle(number, Some(place)));
        }
        node
    }

    /// A node that is known, with one reference more.
    pub fn refer_again(&self, number: Node) -> Outcome<Arc<LowerNode<F>>> {
        let mut table = self.table();
        let known = table.by_number.get_mut(&number).ok_or(Errno::STALE)?;
        // intended: a node with so many references is never forgotten.
        known.references = known.references.saturating_add(1);
        Ok(Arc::clone(&known.node))
    }

    /// A descriptor of a node, opened with `O_PATH`. Names do not change meanwhile: the caller sees to that.
    ///
    /// # Errors
    /// [`Errno::STALE`] if it is not where it was found, and the system's numbers.
    pub fn descriptor(&self, node: &LowerNode<F>) -> Outcome<Arc<OwnedFd>> {
        let mut below = Vec::new();
        let mut number = node.number;
        let mut table = self.table();
        let mut fd = loop {
            let known = table.by_number.get_mut(&number).ok_or(Errno::STALE)?;
            if let Some(fd) = &known.fd {
                known.used = true;
                break Arc::clone(fd);
            }
            let place = known.place.as_ref().ok_or(Errno::STALE)?;
            below.push((Arc::clone(&known.node), place.name.clone()));
            number = place.parent;
            // Somebody else has moved directories, so that places lead in a circle.
            if below.len() > table.by_number.len() {
                return Err(Errno::STALE);
            }
        };
        drop(table);
        while let Some((node, name)) = below.pop() {
            fd = Arc::new(open_as(&*fd, &name, node.which)?);
            self.hold(node.number, &fd);
        }
        Ok(fd)
    }

    /// What leads to a node without opening it. Names do not change meanwhile: the caller sees to that.
    pub fn way(&self, node: &LowerNode<F>) -> Outcome<Way> {
        let place = {
            let mut table = self.table();
            let known = table.by_number.get_mut(&node.number).ok_or(Errno::STALE)?;
            match (&known.fd, &known.place) {
                (Some(fd), _) => {
                    known.used = true;
                    return Ok(Way::Held(Arc::clone(fd)));
                }
                (None, Some(place)) => place.clone(),
                (None, None) => return Err(Errno::STALE),
            }
        };
        let parent = self.get(place.parent)?;
        Ok(Way::Named(self.descriptor(&parent)?, place.name))
    }

    /// Keeps a descriptor, and closes others that were not used lately.
    fn hold(&self, number: Node, fd: &Arc<OwnedFd>) {
        let mut closed = Vec::new();
        let mut table = self.table();
        let Some(known) = table.by_number.get_mut(&number).filter(|known| known.fd.is_none()) else { return };
        known.fd = Some(Arc::clone(fd));
        known.used = false;
        table.held.push_back(number);
        while table.held.len() > self.most {
            let Some(first) = table.held.pop_front() else { break };
            let Some(known) = table.by_number.get_mut(&first) else { continue };
            if core::mem::take(&mut known.used) {
                table.held.push_back(first);
            } else if known.place.is_some() {
                closed.extend(known.fd.take());
            }
        }
        // Closing may take its time.
        drop(table);
        drop(closed);
    }

    /// What has this name loses it, and keeps a descriptor instead. Returns where it was found, to be told by
    /// [`moved`](Self::moved) if it keeps its name after all.
    pub fn lost(&self, node: &LowerNode<F>, fd: Arc<OwnedFd>) -> Option<Place> {
        let mut table = self.table();
        let known = table.by_number.get_mut(&node.number)?;
        known.fd.get_or_insert(fd);
        let place = known.place.clone();
        let gone = table.settle(node.number, None);
        drop(table);
        drop(gone);
        place
    }

    /// A node is found somewhere else from now on.
    pub fn moved(&self, node: &LowerNode<F>, place: Place) {
        let gone = self.table().settle(node.number, Some(place));
        drop(gone);
    }

    /// The number of what a directory entry says, as far as that is known without looking.
    pub fn number_of_entry(&self, inode: u64) -> Node {
        self.plain_number(Which(self.root.0, inode)).unwrap_or(Node(inode | FOREIGN))
    }

    fn number(&self, table: &mut Table<F>, stat: &Stat) -> Node {
        let which = Which::of(stat);
        let plain = self.plain_number(which);
        if let Some(number) = plain.filter(|number| table.is_or_can_be(*number, stat)) {
            return number;
        }
        // cannot overflow: less than FOREIGN is added.
        let next = FOREIGN.saturating_add(which.1 & OWN);
        let by_number = &table.by_number;
        *table.foreign.entry(which).or_insert_with(|| {
            // Two devices may have files of the same number.
            (next..).map(Node).find(|number| !by_number.contains_key(number)).unwrap_or(Node(next))
        })
    }

    /// The number of what lies in the same filesystem as the root: its own, as programs expect to see it.
    fn plain_number(&self, which: Which) -> Option<Node> {
        if which == self.root {
            return Some(Node::ROOT);
        }
        (which.0 == self.root.0 && which.1 > Node::ROOT.0 && which.1 < FOREIGN).then_some(Node(which.1))
    }

    pub fn forget(&self, number: Node, times: u64) {
        let mut table = self.table();
        let Some(known) = table.by_number.get_mut(&number) else { return };
        // intended: a node that is forgotten more often than it was told is forgotten.
        known.references = known.references.saturating_sub(times);
        let gone = table.clear(number);
        // Closing may take its time.
        drop(table);
        drop(gone);
    }

    fn table(&self) -> MutexGuard<'_, Table<F>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> Table<F> {
    /// Whether a number is free, or that of the same kind of file: somebody else may have removed one and made another, which the
    /// system gives the same number.
    fn is_or_can_be(&self, number: Node, stat: &Stat) -> bool {
        let kind = FileType::from_raw_mode(stat.st_mode);
        self.by_number.get(&number).is_none_or(|known| known.node.kind == kind)
    }

    /// Sets where a node is found. Returns what is not known any more.
    #[must_use]
    fn settle(&mut self, number: Node, place: Option<Place>) -> Vec<Known<F>> {
        if let Some(parent) = place.as_ref().and_then(|place| self.by_number.get_mut(&place.parent)) {
            // cannot overflow: each is a node in memory.
            parent.children = parent.children.saturating_add(1);
        }
        let Some(known) = self.by_number.get_mut(&number) else { return Vec::new() };
        match core::mem::replace(&mut known.place, place) {
            Some(before) => self.left(before.parent),
            None => {
                // A descriptor that it kept without a name counts among those that are held.
                if known.fd.is_some() {
                    self.held.push_back(number);
                }
                Vec::new()
            }
        }
    }

    /// One node less is found in a directory. Returns what is not known any more.
    fn left(&mut self, parent: Node) -> Vec<Known<F>> {
        let Some(known) = self.by_number.get_mut(&parent) else { return Vec::new() };
        // cannot be less: this one was counted.
        known.children = known.children.saturating_sub(1);
        self.clear(parent)
    }

    /// Takes out a node that nothing refers to, and those above it of which that is true then.
    fn clear(&mut self, number: Node) -> Vec<Known<F>> {
        let mut gone = Vec::new();
        let mut next = Some(number);
        while let Some(number) = next.take() {
            let is_needed = |known: &Known<F>| known.references > 0 || known.children > 0;
            if number == Node::ROOT || self.by_number.get(&number).is_none_or(is_needed) {
                break;
            }
            let Some(known) = self.by_number.remove(&number) else { break };
            if number.0 >= FOREIGN {
                self.foreign.remove(&known.node.which);
            }
            if let Some(parent) = known.place.as_ref().and_then(|place| {
                let parent = self.by_number.get_mut(&place.parent)?;
                // cannot be less: this one was counted.
                parent.children = parent.children.saturating_sub(1);
                Some(place.parent)
            }) {
                next = Some(parent);
            }
            gone.push(known);
        }
        gone
    }
}

/// Opens with `O_PATH` what has a name, if it is the file that is meant.
///
/// # Errors
/// [`Errno::STALE`] if it is not, and the system's numbers.
pub(super) fn open_as(parent: impl AsFd, name: &[u8], which: Which) -> Outcome<OwnedFd> {
    let fd = rustix::fs::openat(parent, OsStr::from_bytes(name), flags::INNER_PLACE, Mode::empty());
    let fd = fd.map_err(without_name)?;
    if Which::of(&rustix::fs::fstat(&fd)?) == which { Ok(fd) } else { Err(Errno::STALE) }
}

/// The number for a node that is not where it was found.
pub(super) fn without_name(error: Errno) -> Errno {
    if error == Errno::NOENT { Errno::STALE } else { error }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn descriptor() -> (OwnedFd, Stat) {
        let file = File::open("/proc/self/stat").expect("it is there");
        let stat = rustix::fs::fstat(&file).expect("it is open");
        (file.into(), stat)
    }

    fn at(device: u64, inode: u64) -> Stat {
        let (_, mut stat) = descriptor();
        (stat.st_dev, stat.st_ino) = (device, inode);
        stat
    }

    fn nodes() -> Nodes<()> {
        Nodes::new(descriptor().0, &at(7, 100), 16)
    }

    fn place(parent: Node, name: &[u8]) -> Place {
        Place::new(parent, name)
    }

    #[test]
    fn a_node_has_the_number_that_its_filesystem_gives_it() {
        let nodes = nodes();
        let number = |device, inode| nodes.refer(place(Node::ROOT, b"name"), &at(device, inode)).number;
        assert_eq!(number(7, 100), Node::ROOT);
        assert_eq!(number(7, 2), Node(2));
        assert_eq!(number(7, FOREIGN - 1), Node(FOREIGN - 1));
        assert_eq!(nodes.number_of_entry(100), Node::ROOT);
        assert_eq!(nodes.number_of_entry(2), Node(2));
        // Not as the root's, nor as numbers that others have.
        for inode in [0, 1, FOREIGN, FOREIGN + 5] {
            assert!(number(7, inode).0 >= FOREIGN, "{inode}");
            assert!(nodes.number_of_entry(inode).0 >= FOREIGN, "{inode}");
        }
    }

    #[test]
    fn what_is_mounted_below_has_numbers_of_its_own() {
        let nodes = nodes();
        let refer = |device, inode| nodes.refer(place(Node::ROOT, b"name"), &at(device, inode)).number;
        assert_ne!(refer(8, 0), refer(7, FOREIGN));
        let (a, b, c) = (refer(8, 50), refer(9, 50), refer(8, 100));
        assert!([a, b, c].iter().all(|number| number.0 >= FOREIGN));
        assert!(a != b && a != c && b != c);
        assert_eq!((refer(8, 50), refer(9, 50)), (a, b), "they keep them");
        assert_eq!(a, Node(FOREIGN + 50));
        assert_eq!(refer(9, FOREIGN | 60), Node(FOREIGN + 60));
        assert_eq!(nodes.known(&at(8, 50)).map(|node| node.number), Some(a));
        nodes.forget(a, 1);
        nodes.get(a).expect("one reference is left");
        nodes.forget(a, 1);
        assert!(nodes.get(a).is_err() && nodes.known(&at(8, 50)).is_none());
        assert!(nodes.table().foreign.values().all(|number| *number != a), "its number is free again");
        assert!(nodes.table().foreign.values().any(|number| *number == b));
        nodes.get(b).expect("the other one stays");
        assert_eq!(refer(10, 50), a);
    }

    /// Somebody else has removed one and made another, which has got its number.
    #[test]
    fn a_file_of_another_kind_is_another_file() {
        let nodes = nodes();
        let file = at(7, 2);
        let mut directory = file;
        directory.st_mode = file.st_mode & 0o7777 | 0o040_000;
        assert_eq!(nodes.refer(place(Node::ROOT, b"a"), &file).number, Node(2));
        let other = nodes.refer(place(Node::ROOT, b"a"), &directory);
        assert!(other.number.0 >= FOREIGN);
        assert_eq!(other.kind, FileType::Directory);
        assert_eq!(nodes.get(Node(2)).expect("it is known").kind, FileType::RegularFile);
        assert_eq!(nodes.refer(place(Node::ROOT, b"a"), &directory).number, other.number, "it keeps it");
    }

    #[test]
    fn the_last_reference_closes_the_descriptor() {
        let nodes = nodes();
        let node = nodes.refer(place(Node::ROOT, b"a"), &at(7, 2));
        assert!(node.is_file());
        assert!(Arc::ptr_eq(&node, &nodes.refer(place(Node::ROOT, b"b"), &at(7, 2))));
        let fd = Arc::new(descriptor().0);
        nodes.hold(Node(2), &fd);
        assert!(matches!(nodes.way(&node), Ok(Way::Held(held)) if Arc::ptr_eq(&held, &fd)));
        let weak = (Arc::downgrade(&node), Arc::downgrade(&fd));
        drop((node, fd));
        nodes.forget(Node(2), 1);
        assert!(weak.1.upgrade().is_some());
        nodes.forget(Node(2), 1);
        assert!(weak.0.upgrade().is_none() && weak.1.upgrade().is_none());
        nodes.forget(Node(2), 1);
        nodes.forget(Node::ROOT, 5);
        nodes.get(Node::ROOT).expect("the top stays");
    }

    /// Or nobody would find what is in it.
    #[test]
    fn a_directory_is_known_as_long_as_something_in_it_is() {
        let nodes = nodes();
        let [outer, inner, file, other] = [2, 3, 4, 5].map(Node);
        nodes.refer(place(Node::ROOT, b"outer"), &at(7, 2));
        nodes.refer(place(outer, b"inner"), &at(7, 3));
        let node = nodes.refer(place(inner, b"file"), &at(7, 4));
        nodes.refer(place(Node::ROOT, b"other"), &at(7, 5));
        let known = || [outer, inner, file, other].map(|number| nodes.get(number).is_ok());
        for number in [outer, inner, other] {
            nodes.forget(number, 1);
        }
        assert_eq!(known(), [true, true, true, false]);
        nodes.refer(place(Node::ROOT, b"other"), &at(7, 5));
        nodes.moved(&node, place(other, b"file"));
        assert_eq!(known(), [false, false, true, true]);
        nodes.forget(other, 1);
        assert_eq!(known(), [false, false, true, true]);
        let before = nodes.lost(&node, Arc::new(descriptor().0)).expect("it had a name");
        assert_eq!((before.parent, &before.name[..]), (other, &b"file"[..]));
        assert_eq!(known(), [false, false, true, false], "what has no name is nowhere");
        assert!(matches!(nodes.way(&node), Ok(Way::Held(_))));
    }

    #[test]
    fn descriptors_that_were_not_used_lately_are_closed_first() {
        let (root, stat) = descriptor();
        let nodes = Nodes::<()>::new(root, &stat, 2);
        let new = |inode| {
            let node = nodes.refer(place(Node::ROOT, b"name"), &at(9, inode));
            nodes.hold(node.number, &Arc::new(descriptor().0));
            node
        };
        let is_held = |node: &Arc<LowerNode<()>>| {
            nodes.table().by_number.get(&node.number).is_some_and(|known| known.fd.is_some())
        };
        let (a, b) = (new(1), new(2));
        nodes.descriptor(&a).expect("it is held");
        let c = new(3);
        assert_eq!([&a, &b, &c].map(is_held), [true, false, true]);
        // What has no name is kept beside them, and counts again once it has one.
        nodes.lost(&a, Arc::new(descriptor().0));
        let (d, e) = (new(4), new(5));
        assert_eq!([&a, &c, &d, &e].map(is_held), [true, false, true, true]);
        nodes.moved(&a, place(Node::ROOT, b"again"));
        let f = new(6);
        assert_eq!([&a, &d, &e, &f].map(is_held), [true, false, false, true]);
    }

    /// Somebody else moves directories, so that each seems to lie in the other.
    #[test]
    fn places_that_lead_in_a_circle_lead_nowhere() {
        let nodes = nodes();
        nodes.refer(place(Node(3), b"a"), &at(7, 2));
        let b = nodes.refer(place(Node(2), b"b"), &at(7, 3));
        nodes.refer(place(Node(3), b"a"), &at(7, 2));
        assert_eq!(nodes.descriptor(&b).map(drop), Err(Errno::STALE));
        assert!(matches!(nodes.way(&b), Err(Errno::STALE)));
    }
}
