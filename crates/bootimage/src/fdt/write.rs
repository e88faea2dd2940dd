//! From a tree to a blob, by the library dtoolkit.

use std::fmt;

use dtoolkit::memreserve::MemoryReservation;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};

use super::{MAX_DEPTH, Node, Tree};

/// A tree that no blob can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// It would be larger than 2 GiB, more than U-Boot can count.
    TooLarge,
    /// Nodes are nested too deeply.
    TooDeep,
    /// A name that is empty, not printable, too long, or twice in one node.
    Name(String),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => f.write_str("it would be larger than 2 GiB; keep the data outside of the tree"),
            Self::TooDeep => f.write_str("nodes are nested too deeply"),
            Self::Name(name) => write!(f, "{name:?} can't be a name here, or is there twice"),
        }
    }
}

impl std::error::Error for WriteError {}

/// U-Boot has 200 bytes for the path of a node that is signed.
const NAME_MAX: usize = 150;
const SIZE_MAX: usize = i32::MAX as usize;
/// Where the header has the CPU that boots, which the library does not write.
const BOOT_CPU: usize = 28;

impl Tree<'_> {
    /// The blob, in version 17. The same tree gives the same blob.
    ///
    /// # Errors
    /// [`WriteError`] if the tree would be larger than 2 GiB, is nested deeper than [`MAX_DEPTH`], or has a
    /// name that no tree can have.
    pub fn to_blob(&self) -> Result<Vec<u8>, WriteError> {
        // intended: what overflows is too large.
        if size(&self.root, 0)?.saturating_add(self.reservations.len().saturating_mul(16)) > SIZE_MAX {
            return Err(WriteError::TooLarge);
        }
        let mut tree = DeviceTree::new();
        tree.root = convert(&self.root)?;
        tree.memory_reservations =
            self.reservations.iter().map(|&(address, size)| MemoryReservation::new(address, size)).collect();
        let mut blob = tree.to_dtb();
        if let Some(field) = blob.get_mut(BOOT_CPU..BOOT_CPU + 4) {
            field.copy_from_slice(&self.boot_cpu.to_be_bytes());
        }
        Ok(blob)
    }
}

fn convert(node: &Node<'_>) -> Result<DeviceTreeNode, WriteError> {
    let mut new = DeviceTreeNode::new_unchecked(node.name.as_str());
    for (name, value) in &node.properties {
        if !is_name(name) || dtoolkit::Node::property(&&new, name).is_some() {
            return Err(WriteError::Name(name.clone()));
        }
        new.add_property(DeviceTreeProperty::new_unchecked(name.as_str(), value.as_ref()));
    }
    for child in &node.children {
        if !is_name(&child.name)
            || child.name.contains('/')
            || dtoolkit::Node::child(&&new, &child.name).is_some()
        {
            return Err(WriteError::Name(child.name.clone()));
        }
        new.add_child(convert(child)?);
    }
    Ok(new)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Upper bound of the blob's size; the names count as if each were there once for each property.
fn size(node: &Node<'_>, depth: usize) -> Result<usize, WriteError> {
    if depth == MAX_DEPTH {
        return Err(WriteError::TooDeep);
    }
    let own: usize = node.properties.iter().map(|(name, value)| name.len() + value.len() + 20).sum();
    // intended: what overflows is too large.
    let mut total = own.saturating_add(node.name.len() + 16);
    for child in &node.children {
        // intended: what overflows is too large.
        total = total.saturating_add(size(child, depth + 1)?);
    }
    Ok(total)
}
