//! What a volume held after each object that was ever sealed: the oracle.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use atrest_sealedvolume::format::{Chain, LogObject, Operation};
use atrest_sealedvolume::volume::{Head, Observer};

/// Blocks that are written: of two leaves of the map.
pub const BLOCKS: [u64; 8] = [0, 1, 2, 3, 4095, 4096, (1 << 18) + 7, (1 << 24) + 9];
pub const SIZE: u64 = (1 << 24) + 10;

/// What each half of a block was written with; 0 where it never was, or was trimmed.
pub type State = [[u64; 2]; BLOCKS.len()];

/// The volume after one object.
#[derive(Clone, Debug)]
pub struct Node {
    pub parent: Option<Chain>,
    pub begin: bool,
    /// Which opening sealed it.
    pub opening: u64,
    pub state: State,
    pub snapshots: BTreeMap<u64, State>,
    pub head: Head,
    pub salt: [u8; 16],
}

#[derive(Default)]
pub struct Truth {
    nodes: HashMap<Chain, Node>,
}

impl Truth {
    /// The history begins anew.
    pub fn root(&mut self, head: Head) {
        let state = [[0; 2]; BLOCKS.len()];
        let snapshots = BTreeMap::new();
        self.nodes.clear();
        let root = Node { parent: None, begin: false, opening: 0, state, snapshots, head, salt: [0; 16] };
        self.nodes.insert(head.chain, root);
    }

    pub fn node(&self, chain: &Chain) -> Option<&Node> {
        self.nodes.get(chain)
    }

    /// The nodes from one back to the beginning.
    pub fn back(&self, chain: &Chain) -> impl Iterator<Item = &Node> {
        std::iter::successors(self.nodes.get(chain), |node| self.nodes.get(node.parent.as_ref()?))
    }

    pub fn is_before(&self, earlier: &Chain, later: &Chain) -> bool {
        self.back(later).any(|node| node.head.chain == *earlier)
    }
}

/// Writes down what one opening seals.
pub struct Spy {
    pub truth: Arc<Mutex<Truth>>,
    pub opening: u64,
    /// What the volume holds now, written or not.
    pub state: Mutex<State>,
    /// Head before the opening's begin.
    pub found: Mutex<Option<Head>>,
}

impl Observer for Spy {
    fn sealed(&self, object: &LogObject) {
        let mut truth = self.truth.lock().expect("the truth");
        let (prelude, summary) = (&object.prelude, &object.summary);
        let head = Head { number: prelude.number, chain: object.chain };
        // At a history that was never written nothing can be checked: the test sees that by its head.
        let parent = truth.node(&summary.before_chain).cloned();
        if summary.begin {
            *self.found.lock().expect("the head") =
                Some(Head { number: summary.before, chain: summary.before_chain });
        }
        let Some(parent) = parent else { return };
        let state = if summary.begin { parent.state } else { *self.state.lock().expect("the state") };
        let mut snapshots = parent.snapshots;
        for operation in &summary.operations {
            match operation {
                Operation::SnapshotAdded { id, .. } => snapshots.insert(*id, parent.state),
                Operation::SnapshotRemoved { id } => snapshots.remove(id),
                Operation::Resized { .. }
                | Operation::SnapshotCloned { .. }
                | Operation::CloneGone { .. } => None,
            };
        }
        let (parent, begin, salt) = (Some(parent.head.chain), summary.begin, prelude.salt);
        let node = Node { parent, begin, opening: self.opening, state, snapshots, head, salt };
        truth.nodes.entry(head.chain).or_insert(node);
    }
}
