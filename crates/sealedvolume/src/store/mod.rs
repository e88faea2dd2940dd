//! Where objects are kept. A volume asks little of it: whole objects under names, made only where none has the name.

mod directory;
mod error;
mod memory;
mod open_files;
mod traffic;

pub use directory::DirectoryStore;
pub use error::StoreError;
pub use memory::MemoryStore;
pub(crate) use traffic::{Counted, Traffic};

use std::fs::File;
use std::time::Duration;

use crate::format::Kind;

/// A place for objects, shared by threads and by several writers.
///
/// Names are those of [`format::names`](crate::format::names); a store may refuse all others. Nothing that it says is believed
/// without proof, but two things are asked of an honest one: what was stored is there later, and
/// [`put_new`](Self::put_new) gives a name to one of those who ask at once. Calls block; a store over a network brings its own
/// runtime, retries nothing by itself, and ends each call in a bounded time.
pub trait ObjectStore: Send + Sync {
    /// Stores an object, unless there is one of that name. Once it returns [`Put::Stored`] the object survives a loss of power.
    /// It returns [`Put::Exists`] only for an object that does, too.
    ///
    /// # Errors
    /// [`StoreError`]. The object may be there all the same, or come later.
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError>;

    /// Stores an object in the place of another one of that name, if there is one.
    ///
    /// # Errors
    /// [`StoreError`]. Either of the two may be there.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError>;

    /// The bytes of an object, or `None` where the store says that there is none.
    ///
    /// # Errors
    /// [`StoreError::TooLong`] if there are more than `most`. Any other [`StoreError`] if the store did not answer: that is never
    /// told as `None`.
    fn get(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, StoreError>;

    /// Bytes of an object from `offset` on: `len`, or fewer where it ends.
    ///
    /// # Errors
    /// [`StoreError`] if the store did not answer.
    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>, StoreError>;

    /// Puts bytes of an object from `offset` on into `out`, if nobody has to wait for them. `None` if somebody has to, or if `out` would not
    /// be filled: then [`get_range`](Self::get_range) tells why.
    fn read_if_cached(&self, name: &str, offset: u64, out: &mut [u8]) -> Option<()> {
        let _ = (name, offset, out);
        None
    }

    /// Names of objects of a kind, in ascending order, behind `after`: some of them, and none only at the end.
    ///
    /// # Errors
    /// [`StoreError`].
    fn list_after(&self, kind: Kind, after: Option<&str>) -> Result<Vec<String>, StoreError>;

    /// Names as [`list_after`](Self::list_after) has them, and whether there may be more. A store that knows spares the question.
    ///
    /// # Errors
    /// [`StoreError`].
    fn list_some(&self, kind: Kind, after: Option<&str>) -> Result<Names, StoreError> {
        let names = self.list_after(kind, after)?;
        let more = !names.is_empty();
        Ok(Names { names, more })
    }

    /// Bytes in an object, or `None` where the store says that there is none. It is for statistics: nothing rests on it.
    ///
    /// # Errors
    /// [`StoreError`] if the store did not answer.
    fn len_of(&self, name: &str) -> Result<Option<u64>, StoreError> {
        Ok(self.get(name, crate::format::MOST_OBJECT)?.map(|bytes| bytes.len() as u64))
    }

    /// Names as [`list_after`](Self::list_after) has them, with the bytes in each object. It is for statistics: nothing rests on it.
    ///
    /// # Errors
    /// [`StoreError`].
    fn list_lens_after(&self, kind: Kind, after: Option<&str>) -> Result<Vec<(String, u64)>, StoreError> {
        let mut found = Vec::new();
        for name in self.list_after(kind, after)? {
            // intended: one that has gone meanwhile takes no room.
            let len = self.len_of(&name)?.unwrap_or(0);
            found.push((name, len));
        }
        Ok(found)
    }

    /// Finds out whether [`put_new`](Self::put_new) keeps its word, before a volume is made or written here. It may store an object of
    /// another name than a volume's. A store that is known to keep it says so at once.
    ///
    /// # Errors
    /// [`StoreError::Unconditional`] if an object was stored in the place of another one.
    fn probe(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// No request is to take longer than this from now on, where the store can see to that.
    fn wait_at_most(&self, limit: Duration) {
        let _ = limit;
    }

    /// Keeps other processes of this machine from writing here, for as long as what it returns lives. A store that can't do that, or that no
    /// other process can reach, returns nothing: the format fences whoever wrote before.
    ///
    /// # Errors
    /// [`StoreError::Held`] if another process writes here.
    fn hold(&self) -> Result<Option<File>, StoreError> {
        Ok(None)
    }

    /// Keeps other processes of this machine from collecting here, for as long as what it returns lives. Where that can't be, nothing is returned.
    ///
    /// # Errors
    /// [`StoreError::Held`] if another process collects.
    fn hold_to_read(&self) -> Result<Option<File>, StoreError> {
        Ok(None)
    }

    /// Keeps other processes of this machine from reading here, for as long as what it returns lives: whoever collects takes away what
    /// they still look for. A store that can't do that returns nothing.
    ///
    /// # Errors
    /// [`StoreError::Read`] if another process reads.
    fn hold_to_collect(&self) -> Result<Option<File>, StoreError> {
        Ok(None)
    }

    /// Takes an object away. One that is not there is no error.
    ///
    /// # Errors
    /// [`StoreError`]. The object may be gone all the same.
    fn delete(&self, name: &str) -> Result<(), StoreError>;
}

/// Some names of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// In ascending order.
    pub names: Vec<String>,
    /// Whether there may be more behind them. There are none behind no names.
    pub more: bool,
}

impl Names {
    /// All names of a kind, in ascending order. `list` asks for those behind one.
    pub(crate) fn all(
        mut list: impl FnMut(Option<&str>) -> Result<Self, StoreError>,
    ) -> Result<Vec<String>, StoreError> {
        let mut all: Vec<String> = Vec::new();
        loop {
            let some = list(all.last().map(String::as_str))?;
            let before = all.len();
            for name in some.names {
                if all.last().is_none_or(|last| *last < name) {
                    all.push(name);
                }
            }
            if all.len() == before || !some.more {
                return Ok(all);
            }
        }
    }
}

/// What became of a [`put_new`](ObjectStore::put_new).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object is stored.
    Stored,
    /// Another one has the name, or the same one from an earlier try.
    Exists,
}
