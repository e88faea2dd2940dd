//! Directories in portions: a listing goes on at a cursor, so that no directory has to be in memory as a whole.

use std::collections::BinaryHeap;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use crate::error::TreeError;
use crate::tree::{Entry, Metadata};

/// A place between two entries of a directory. Only the tree that gave it knows where that is.
///
/// It stays good while entries are added and removed: what is in the directory all the time is listed exactly once. It has 63 bits,
/// as positions in files have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor(pub u64);

impl Cursor {
    /// Before the first entry.
    pub const START: Self = Self(0);
}

/// What is wanted of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// At most so many entries.
    pub entries: usize,
    /// Their metadata as well.
    pub metadata: bool,
}

/// An entry of a portion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The entry.
    pub entry: Entry,
    /// Its metadata if they were wanted, or why they can't be told.
    pub metadata: Option<Result<Metadata, TreeError>>,
    /// The place behind it.
    pub next: Cursor,
}

/// The first entries behind a place in the order of the hashes of their names, for trees that know no places of their own.
///
/// Whatever is added and removed, a name keeps its hash. The key is this process's own, so that nobody finds names of the same hash.
/// An entry has something with it, which is left alone. No more entries than are wanted are in memory.
#[derive(Debug)]
pub struct ByHash<T> {
    from: Cursor,
    most: usize,
    first: BinaryHeap<Hashed<T>>,
}

impl<T> ByHash<T> {
    /// The first entries behind a place, at most so many.
    pub fn new(from: Cursor, most: usize) -> Self {
        Self { from, most, first: BinaryHeap::new() }
    }

    /// Looks at one entry.
    pub fn add(&mut self, entry: Entry, with: T) {
        let place = place_of(&entry.name);
        if place <= self.from {
            return;
        }
        self.first.push(Hashed { place, entry, with });
        if self.first.len() > self.most {
            self.first.pop();
        }
    }

    /// The entries, each with the place behind it.
    pub fn finish(self) -> Vec<(Cursor, Entry, T)> {
        let sorted = self.first.into_sorted_vec().into_iter();
        sorted.map(|Hashed { place, entry, with }| (place, entry, with)).collect()
    }
}

fn place_of(name: &[u8]) -> Cursor {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    // The place behind a name is not the start.
    Cursor((KEY.hash_one(name) >> 1).max(1))
}

#[derive(Debug)]
struct Hashed<T> {
    place: Cursor,
    entry: Entry,
    with: T,
}

impl<T> PartialEq for Hashed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl<T> Eq for Hashed<T> {}

impl<T> PartialOrd for Hashed<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Hashed<T> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.place.cmp(&other.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Kind;

    fn portion(from: Cursor, most: usize) -> Vec<(Cursor, Entry, u64)> {
        let mut portion = ByHash::new(from, most);
        for number in 0..100 {
            let name = format!("name {number}").into_bytes();
            portion.add(Entry { name, kind: Kind::File, inode: 0 }, number);
        }
        portion.finish()
    }

    #[test]
    fn portions_have_each_name_once_and_no_more_than_was_wanted() {
        for most in [1, 2, 7, 100, 1000] {
            let (mut from, mut seen) = (Cursor::START, Vec::new());
            loop {
                let portion = portion(from, most);
                assert!(portion.len() <= most && portion.is_sorted_by_key(|(place, ..)| *place));
                let Some((last, ..)) = portion.last() else { break };
                assert!(*last > from && last.0 < 1 << 63);
                from = *last;
                seen.extend(portion.into_iter().map(|(.., number)| number));
            }
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..100), "{most}");
        }
        assert_eq!(portion(Cursor::START, 0), []);
    }
}
