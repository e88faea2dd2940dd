//! What an existing initramfs holds once the kernel has unpacked all of it.

use std::collections::BTreeMap;

use crate::cpio::{Kind, Segment};

/// How many links a name may lead through, as in the kernel.
const LINKS: usize = 40;

struct Node {
    kind: Kind,
    target: Vec<u8>,
    links: u32,
}

/// The files of an initramfs, by name.
#[derive(Default)]
pub(super) struct Tree {
    nodes: BTreeMap<Vec<u8>, Node>,
}

impl Tree {
    /// Unpacks all segments, in order: later files take the place of earlier ones. Names that lead through links are
    /// taken as they are written, as every packer writes them.
    pub(super) fn of(segments: &[Segment<'_>]) -> Self {
        let mut tree = Self::default();
        for segment in segments {
            for entry in &segment.entries {
                let target =
                    if entry.kind() == Kind::Symlink { segment.data(entry).to_vec() } else { Vec::new() };
                tree.nodes
                    .insert(entry.name.clone(), Node { kind: entry.kind(), target, links: entry.links });
            }
        }
        tree
    }

    /// Where a name leads when links above it, and with `last` the name itself, are followed.
    fn resolve(&self, name: &str, last: bool) -> Option<Vec<u8>> {
        let mut left: Vec<Vec<u8>> = parts(name.as_bytes());
        let mut at: Vec<Vec<u8>> = Vec::new();
        let mut links = 0;
        while let Some(part) = left.pop() {
            if part == b".." {
                at.pop();
                continue;
            }
            at.push(part);
            match self.nodes.get(&at.join(&b'/')) {
                Some(Node { kind: Kind::Symlink, target, .. }) if last || !left.is_empty() => {
                    links += 1;
                    if links > LINKS {
                        return None;
                    }
                    at.pop();
                    if target.starts_with(b"/") {
                        at.clear();
                    }
                    left.extend(parts(target));
                }
                _ => {}
            }
        }
        Some(at.join(&b'/'))
    }

    /// Whether a name leads to a directory.
    pub(super) fn has_directory(&self, name: &str) -> bool {
        let node = self.resolve(name, true).and_then(|name| self.nodes.get(&name));
        node.is_some_and(|node| node.kind == Kind::Directory)
    }

    /// What would be harmed if a file were unpacked over `name`: the kernel writes into a file with several names, and
    /// can't remove a directory that has files.
    pub(super) fn in_the_way(&self, name: &str) -> Option<&'static str> {
        let node = self.nodes.get(&self.resolve(name, false)?)?;
        match node.kind {
            Kind::Directory => Some("a directory"),
            Kind::File if node.links > 1 => Some("a file with several names, which would all change"),
            _ => None,
        }
    }
}

/// The parts of a name, the first one last.
fn parts(name: &[u8]) -> Vec<Vec<u8>> {
    let parts = name.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.map(<[u8]>::to_vec).rev().collect()
}
