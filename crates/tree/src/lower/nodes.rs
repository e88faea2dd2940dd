//! The nodes that somebody knows, by their numbers.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use atrest_filetree::posix::{Errno, Node, Outcome};
use rustix::fs::{FileType, Stat};

use super::open::OpenState;

/// What is in the lower directory under a number.
pub(super) struct LowerNode<F> {
    pub number: Node,
    /// Opened with `O_PATH`.
    pub fd: OwnedFd,
    pub kind: FileType,
    pub open: Mutex<OpenState<F>>,
}

impl<F> LowerNode<F> {
    pub fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    /// A name by which the system finds it again below `/proc/self/fd`.
    pub fn proc_name(&self) -> String {
        self.fd.as_raw_fd().to_string()
    }

    pub fn state(&self) -> MutexGuard<'_, OpenState<F>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Nodes<F> {
    table: Mutex<Table<F>>,
    root: Which,
}

/// A file of the system.
type Which = (u64, u64);

struct Table<F> {
    by_number: HashMap<Node, Known<F>>,
    /// Numbers of what is on another device than the root, or has a number that is taken.
    foreign: HashMap<Which, Node>,
}

struct Known<F> {
    node: Arc<LowerNode<F>>,
    references: u64,
}

/// Numbers that no filesystem gives, for what is mounted below the lower directory.
const FOREIGN: u64 = 1 << 63;
/// What such a number has of the file's own; there is room for others behind the largest.
const OWN: u64 = (FOREIGN >> 1) - 1;

impl<F> Nodes<F> {
    pub fn new(root: OwnedFd, stat: &Stat) -> Self {
        let node = Arc::new(LowerNode {
            number: Node::ROOT,
            fd: root,
            kind: FileType::Directory,
            open: Mutex::default(),
        });
        let known = Known { node, references: 1 };
        let table = Table { by_number: HashMap::from([(Node::ROOT, known)]), foreign: HashMap::new() };
        Self { table: Mutex::new(table), root: which(stat) }
    }

    pub fn get(&self, number: Node) -> Outcome<Arc<LowerNode<F>>> {
        self.table().by_number.get(&number).map(|known| Arc::clone(&known.node)).ok_or(Errno::STALE)
    }

    /// The node of a descriptor, with one reference more.
    pub fn refer(&self, fd: OwnedFd, stat: &Stat) -> Arc<LowerNode<F>> {
        let which = which(stat);
        let mut table = self.table();
        let number = self.number(&mut table, which);
        let known = table.by_number.entry(number).or_insert_with(|| Known {
            node: Arc::new(LowerNode {
                number,
                fd,
                kind: FileType::from_raw_mode(stat.st_mode),
                open: Mutex::default(),
            }),
            references: 0,
        });
        // intended: a node with so many references is never forgotten.
        known.references = known.references.saturating_add(1);
        Arc::clone(&known.node)
    }

    /// The number of what a directory entry says, as far as that is known without looking.
    pub fn number_of_entry(&self, inode: u64) -> Node {
        self.plain_number((self.root.0, inode)).unwrap_or(Node(inode | FOREIGN))
    }

    fn number(&self, table: &mut Table<F>, which: Which) -> Node {
        if let Some(number) = self.plain_number(which) {
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
        if known.references == 0 && number != Node::ROOT {
            let gone = table.by_number.remove(&number);
            if number.0 >= FOREIGN {
                table.foreign.retain(|_, foreign| *foreign != number);
            }
            // Closing may take its time.
            drop(table);
            drop(gone);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table<F>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn which(stat: &Stat) -> Which {
    (stat.st_dev, stat.st_ino)
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

    fn at(device: u64, inode: u64) -> (OwnedFd, Stat) {
        let (fd, mut stat) = descriptor();
        (stat.st_dev, stat.st_ino) = (device, inode);
        (fd, stat)
    }

    fn nodes() -> Nodes<()> {
        let (fd, stat) = at(7, 100);
        Nodes::new(fd, &stat)
    }

    #[test]
    fn a_node_has_the_number_that_its_filesystem_gives_it() {
        let nodes = nodes();
        let number = |device, inode| {
            let (fd, stat) = at(device, inode);
            nodes.refer(fd, &stat).number
        };
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
        let refer = |device, inode| {
            let (fd, stat) = at(device, inode);
            nodes.refer(fd, &stat).number
        };
        assert_ne!(refer(8, 0), refer(7, FOREIGN));
        let (a, b, c) = (refer(8, 50), refer(9, 50), refer(8, 100));
        assert!([a, b, c].iter().all(|number| number.0 >= FOREIGN));
        assert!(a != b && a != c && b != c);
        assert_eq!((refer(8, 50), refer(9, 50)), (a, b), "they keep them");
        assert_eq!(a, Node(FOREIGN + 50));
        assert_eq!(refer(9, FOREIGN | 60), Node(FOREIGN + 60));
        nodes.forget(a, 1);
        nodes.get(a).expect("one reference is left");
        nodes.forget(a, 1);
        assert!(nodes.get(a).is_err());
        assert!(nodes.table().foreign.values().all(|number| *number != a), "its number is free again");
        assert!(nodes.table().foreign.values().any(|number| *number == b));
        nodes.get(b).expect("the other one stays");
        assert_eq!(refer(10, 50), a);
    }

    #[test]
    fn the_last_reference_closes_the_descriptor() {
        let nodes = nodes();
        let (fd, stat) = at(7, 2);
        let node = nodes.refer(fd, &stat);
        assert_eq!(node.proc_name(), node.fd.as_raw_fd().to_string());
        assert!(node.is_file());
        let (fd, stat) = at(7, 2);
        assert!(Arc::ptr_eq(&node, &nodes.refer(fd, &stat)), "the first descriptor stays");
        let weak = Arc::downgrade(&node);
        drop(node);
        nodes.forget(Node(2), 1);
        assert!(weak.upgrade().is_some());
        nodes.forget(Node(2), 1);
        assert!(weak.upgrade().is_none());
        nodes.forget(Node(2), 1);
        nodes.forget(Node::ROOT, 5);
        nodes.get(Node::ROOT).expect("the top stays");
    }
}
