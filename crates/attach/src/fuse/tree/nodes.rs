//! The kernel's numbers for files, and the paths behind them.

use std::collections::HashMap;

use atrest_filetree::TreePath;

use crate::fuse::protocol::abi::ROOT;

/// Which number means which path. A number lives as long as the kernel remembers it, whatever becomes of the file.
pub struct Nodes {
    by_number: HashMap<u64, Node>,
    by_path: HashMap<TreePath, u64>,
    next: u64,
}

struct Node {
    /// None once the file was removed.
    path: Option<TreePath>,
    /// Times that the kernel was told of it.
    lookups: u64,
}

impl Nodes {
    pub fn new() -> Self {
        let root = Node { path: Some(TreePath::root()), lookups: 1 };
        Self {
            by_number: HashMap::from([(ROOT, root)]),
            by_path: HashMap::from([(TreePath::root(), ROOT)]),
            next: ROOT + 1,
        }
    }

    /// Where a node is now.
    pub fn path(&self, number: u64) -> Option<TreePath> {
        self.by_number.get(&number)?.path.clone()
    }

    /// The number of a path that the kernel is told of.
    pub fn told(&mut self, path: &TreePath) -> u64 {
        let number = *self.by_path.entry(path.clone()).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        let node =
            self.by_number.entry(number).or_insert_with(|| Node { path: Some(path.clone()), lookups: 0 });
        node.lookups += 1;
        number
    }

    /// The names under their directories, and the numbers, that the kernel may have kept.
    pub fn known(&self) -> (Vec<(u64, Vec<u8>)>, Vec<u64>) {
        let entry = |path: &TreePath| {
            let directory = self.by_path.get(&path.parent()?)?;
            Some((*directory, path.name()?.to_vec()))
        };
        let entries = self.by_path.keys().filter_map(entry).collect();
        (entries, self.by_number.keys().copied().collect())
    }

    /// The kernel has forgotten so many of the times that it was told.
    pub fn forget(&mut self, number: u64, times: u64) {
        let Some(node) = self.by_number.get_mut(&number) else { return };
        // intended: a node that is forgotten more often than it was told is forgotten.
        node.lookups = node.lookups.saturating_sub(times);
        if node.lookups == 0 && number != ROOT {
            if let Some(path) = &node.path {
                self.by_path.remove(path);
            }
            self.by_number.remove(&number);
        }
    }

    /// The entry at a path is gone.
    pub fn removed(&mut self, path: &TreePath) {
        if let Some(number) = self.by_path.remove(path)
            && let Some(node) = self.by_number.get_mut(&number)
        {
            node.path = None;
        }
    }

    /// An entry, and all that is below it, has another path.
    pub fn renamed(&mut self, from: &TreePath, to: &TreePath) {
        self.removed(to);
        let moved: Vec<(TreePath, TreePath, u64)> = self
            .by_path
            .iter()
            .filter_map(|(path, number)| Some((path.clone(), rebased(path, from, to)?, *number)))
            .collect();
        for (old, new, number) in moved {
            self.by_path.remove(&old);
            if let Some(node) = self.by_number.get_mut(&number) {
                node.path = Some(new.clone());
            }
            self.by_path.insert(new, number);
        }
    }
}

/// `path` with `from` at its front replaced by `to`; none if it is not there.
fn rebased(path: &TreePath, from: &TreePath, to: &TreePath) -> Option<TreePath> {
    let mut names = path.components();
    for name in from.components() {
        if names.next() != Some(name) {
            return None;
        }
    }
    names.try_fold(to.clone(), |path, name| path.join(name).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).expect("a path")
    }

    #[test]
    fn numbers_follow_what_is_moved_and_outlive_what_is_removed() {
        let mut nodes = Nodes::new();
        let [dir, file, other] = ["a", "a/b/file", "ab"].map(|text| nodes.told(&path(text)));
        assert_eq!(nodes.told(&path("a")), dir);
        nodes.renamed(&path("a"), &path("c/d"));
        assert_eq!(nodes.path(dir), Some(path("c/d")));
        assert_eq!(nodes.path(file), Some(path("c/d/b/file")));
        assert_eq!(nodes.path(other), Some(path("ab")));
        nodes.renamed(&path("ab"), &path("c/d/b/file"));
        assert_eq!((nodes.path(file), nodes.path(other)), (None, Some(path("c/d/b/file"))));
        nodes.removed(&path("c/d"));
        assert_eq!(nodes.path(dir), None);
        assert_ne!(nodes.told(&path("c/d")), dir, "what is there now is another one");
        assert_eq!(nodes.known().0, [], "the kernel was told of no directory in which one is");
        let (c, d) = (nodes.told(&path("c")), nodes.told(&path("c/d")));
        let (mut entries, numbers) = nodes.known();
        entries.sort_by_key(|entry| entry.0);
        assert_eq!(entries, [(ROOT, b"c".to_vec()), (c, b"d".to_vec())]);
        assert!([ROOT, dir, file, other, c, d].iter().all(|number| numbers.contains(number)));
        nodes.forget(d, 2);
        nodes.forget(other, 1);
        assert_eq!(nodes.path(other), None);
        assert_eq!(nodes.path(ROOT), Some(TreePath::root()));
    }
}
