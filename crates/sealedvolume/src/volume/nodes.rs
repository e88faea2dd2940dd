//! Nodes of the map in memory, and how others get there: once for all who need one, and without the volume.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::VolumeError;
use super::cache::{Cache, Known};
use super::map::Loaded;
use super::objects::Objects;
use crate::format::{Prelude, names, node_place, open_node, span};

/// Nodes by their salts.
pub(crate) type Nodes = Cache<[u8; 16], Loaded>;

/// Nodes that one lookup has fetched. The cache may be too small for them, and the lookup needs them all.
#[derive(Default)]
pub(crate) struct Fetched(BTreeMap<[u8; 16], Arc<Loaded>>);

impl Fetched {
    pub(crate) fn add(&mut self, node: &Prelude, loaded: Arc<Loaded>) {
        self.0.insert(node.salt, loaded);
    }

    /// A node that is here, or in memory for everybody.
    pub(crate) fn find(&self, nodes: &Nodes, node: &Prelude) -> Option<Arc<Loaded>> {
        self.0.get(&node.salt).cloned().or_else(|| nodes.find(&node.salt))
    }
}

/// What keeps a lookup from its end.
pub(crate) enum Lacks {
    /// This node is not in memory.
    Node(Prelude),
    Error(VolumeError),
}

impl From<VolumeError> for Lacks {
    fn from(error: VolumeError) -> Self {
        Self::Error(error)
    }
}

impl Nodes {
    /// A node, from memory or from the store.
    pub(crate) fn get(&self, objects: &Objects, node: &Prelude) -> Result<Arc<Loaded>, VolumeError> {
        match self.take_off(node.salt) {
            Known::Here(loaded) => Ok(loaded),
            Known::Nowhere => self.fetch(objects, node),
            Known::Flying => match self.wait(&node.salt) {
                Some(loaded) => Ok(loaded),
                // It did not come, or is too heavy to be kept.
                None => load(objects, node).map(Arc::new),
            },
        }
    }

    /// Fetches a node for all who wait for it. Whoever calls was told that it is nowhere.
    pub(crate) fn fetch(&self, objects: &Objects, node: &Prelude) -> Result<Arc<Loaded>, VolumeError> {
        let _landing = Landing { nodes: self, salt: node.salt };
        let loaded = Arc::new(load(objects, node)?);
        self.keep(node.salt, loaded.bytes(), Arc::clone(&loaded));
        Ok(loaded)
    }
}

/// A node is on its way. Whatever becomes of this thread, nobody waits for it for ever.
struct Landing<'a> {
    nodes: &'a Nodes,
    salt: [u8; 16],
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        self.nodes.land(std::iter::once(self.salt));
    }
}

/// A node of the store, verified: its second copy where the first one is not what was written, and both once more.
fn load(objects: &Objects, node: &Prelude) -> Result<Loaded, VolumeError> {
    let store = objects.store_of(node);
    for second in [false, true, false, true] {
        let (offset, len) = node_place(node, second)?;
        let name = names::map(&node.salt);
        let Some(sealed) = objects.again(|| store.get_range(&name, offset, len), |_| true)? else {
            continue;
        };
        if let Ok(opened) = open_node(&objects.keys, node, second, &sealed) {
            return Ok(Loaded::of(opened));
        }
    }
    Err(VolumeError::Map { block: node.number * span(node.slots) })
}
