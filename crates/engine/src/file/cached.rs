//! What reads that may not wait come to on file systems that know no such reads.

use std::fs::File;
use std::sync::OnceLock;

/// `f_type` of tmpfs (statfs(2)).
const TMPFS: u32 = 0x0102_1994;

/// Asked for once, when a file system has said that it knows no reads of the page cache alone (`RWF_NOWAIT`).
#[derive(Debug)]
pub struct WithoutCache(OnceLock<InMemory>);

/// Whether a file lies in memory, with no media to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InMemory(pub bool);

impl WithoutCache {
    pub fn new() -> Self {
        Self(OnceLock::new())
    }

    /// `None` as long as the file system has not said so.
    pub fn known(&self) -> Option<InMemory> {
        self.0.get().copied()
    }

    /// The file system has said so. One that can't be asked is taken for one with media.
    pub fn ask(&self, file: &File) -> InMemory {
        *self.0.get_or_init(|| {
            let found = rustix::fs::fstatfs(file);
            InMemory(found.is_ok_and(|found| i128::from(found.f_type) == i128::from(TMPFS)))
        })
    }
}
