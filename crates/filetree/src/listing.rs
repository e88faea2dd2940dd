//! Directories in portions: a listing goes on at a cursor, so that no directory has to be in memory as a whole.

/// A place between two entries of a directory. Only the tree that gave it knows where that is.
///
/// It stays good while entries are added and removed: what is in the directory all the time is listed exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor(pub u64);

impl Cursor {
    /// Before the first entry.
    pub const START: Self = Self(0);
}
