//! Startup keys: files that Windows names GUID.BEK.

use core::fmt;

use atrest_codec::Record;
use atrest_secret::SecretArray;

use super::KEY_LEN;
use super::entry::{Entries, Entry, kind, value};
use super::guid::Guid;
use super::protector::clear_key;

/// Bytes before the entry.
const HEADER: usize = 48;
/// Bytes of the entry before those inside it.
const FIELDS: usize = 24;

/// What such a file has.
pub struct StartupKey {
    /// The protector that it opens.
    pub protector: Guid,
    /// The key.
    pub key: SecretArray<KEY_LEN>,
}

impl StartupKey {
    /// Reads a file; `None` if it is no startup key.
    pub fn read(file: &[u8]) -> Option<Self> {
        let (header, entries) = file.split_first_chunk::<HEADER>()?;
        let header = Record::new(header);
        let len = u32::try_from(file.len()).ok()?;
        let is_one = [header.le32::<0>(), header.le32::<4>(), header.le32::<8>(), header.le32::<12>()]
            == [len, 1, HEADER as u32, len];
        let entry = Entries::new(entries).next().filter(|_| is_one)?.ok()?;
        let is_key = entry.kind == kind::STARTUP_KEY && entry.value == value::EXTERNAL_KEY;
        let mut key = None;
        for inner in Some(entry).filter(|_| is_key)?.inside(FIELDS).ok()? {
            let inner: Entry<'_> = inner.ok()?;
            // Beside it are a name, and the volume's GUID in newer files.
            if inner.value == value::KEY {
                inner.once(&mut key, clear_key(&inner).ok()?).ok()?;
            }
        }
        Some(Self { protector: Guid(*header.array::<16, 16>()), key: key? })
    }
}

impl fmt::Debug for StartupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartupKey").field("protector", &self.protector).finish_non_exhaustive()
    }
}
