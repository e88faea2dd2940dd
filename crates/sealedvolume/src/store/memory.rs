//! A store in memory, for tests and programs that keep a volume for as long as they run.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Names, ObjectStore, Put, StoreError};
use crate::format::{Kind, names};

/// Objects in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl MemoryStore {
    /// A store without objects.
    pub fn new() -> Self {
        Self::default()
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        // Every change is one call of the map: a thread that panics leaves none half done.
        self.objects.lock().unwrap_or_else(PoisonError::into_inner) // intended: what another thread left is whole.
    }
}

impl ObjectStore for MemoryStore {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put, StoreError> {
        names::kind(name).ok_or(StoreError::Name)?;
        let mut objects = self.objects();
        if objects.contains_key(name) {
            return Ok(Put::Exists);
        }
        objects.insert(name.to_owned(), bytes.to_vec());
        Ok(Put::Stored)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        names::kind(name).ok_or(StoreError::Name)?;
        self.objects().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn get(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, StoreError> {
        match self.objects().get(name) {
            Some(bytes) if bytes.len() > most => Err(StoreError::TooLong),
            other => Ok(other.cloned()),
        }
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let range = |bytes: &Vec<u8>| {
            let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
            rest.map(|rest| rest[..len.min(rest.len())].to_vec()).unwrap_or_default() // intended: nothing is there behind the end.
        };
        Ok(self.objects().get(name).map(range))
    }

    /// All at once.
    fn list_some(&self, kind: Kind, after: Option<&str>) -> Result<Names, StoreError> {
        Ok(Names { names: self.list_after(kind, after)?, more: false })
    }

    fn list_after(&self, kind: Kind, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        let behind = |name: &&String| after.is_none_or(|after| name.as_str() > after);
        let objects = self.objects();
        let all = objects.keys().filter(|name| names::kind(name) == Some(kind));
        Ok(all.filter(behind).take(1000).cloned().collect())
    }

    fn delete(&self, name: &str) -> Result<(), StoreError> {
        self.objects().remove(name);
        Ok(())
    }
}
