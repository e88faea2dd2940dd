//! A directory for one test, and programs that run in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::oracle::Program;

/// A directory that goes when the test ends.
#[derive(Debug)]
pub struct Scratch(TempDir);

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    /// An empty directory.
    ///
    /// # Panics
    /// When it cannot be made; so do all others here when they fail.
    pub fn new() -> Self {
        Self::within(std::env::temp_dir())
    }

    /// An empty directory in another one, such as a file system that a test needs.
    pub fn within(directory: impl AsRef<Path>) -> Self {
        let directory = directory.as_ref();
        let made = tempfile::Builder::new().prefix("atrest-").tempdir_in(directory);
        Self(made.unwrap_or_else(|error| panic!("no scratch directory in {}: {error}", directory.display())))
    }

    /// The directory itself.
    pub fn as_path(&self) -> &Path {
        self.0.path()
    }

    /// The path of what has this name in it, whether it is there or not.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file that is its owner's only.
    pub fn file(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("close the file to others");
        path
    }

    /// Makes a directory.
    pub fn directory(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("make {}: {error}", path.display()));
        path
    }

    /// What a file holds.
    pub fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
    }

    /// The permission bits of a file.
    pub fn mode(&self, name: impl AsRef<Path>) -> u32 {
        fs::metadata(self.path(name)).expect("the metadata of a file").permissions().mode() & 0o7777
    }

    /// A program that runs in the directory. What is open in it is listed nowhere else.
    pub fn program(&self, path: impl AsRef<std::ffi::OsStr>) -> Program {
        Program::at(path).current_dir(self.as_path()).env("XDG_RUNTIME_DIR", self.as_path())
    }

    /// An installed program that runs in the directory; see [`tool`](crate::oracle::tool).
    pub fn tool(&self, name: &str) -> Program {
        self.program(crate::oracle::tool(name))
    }
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        self.as_path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_all_that_is_in_it() {
        let scratch = Scratch::new();
        let (place, file) = (scratch.as_path().to_path_buf(), scratch.file("one", b"1"));
        assert_eq!((scratch.read("one"), scratch.mode("one")), (b"1".to_vec(), 0o600));
        assert_eq!(scratch.tool("ls").ok().text(), "one\n");
        drop(scratch);
        assert!(!file.exists() && !place.exists());
    }
}
