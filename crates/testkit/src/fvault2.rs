//! FileVault 2 volumes made by libgcrypt and Python's hashlib: no package of Debian makes any.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::oracle::Program;

/// A volume to make.
#[derive(Clone)]
pub struct FileVault {
    /// What opens it.
    pub passwords: Vec<&'static str>,
    /// Iterations of PBKDF2.
    pub iterations: u32,
    /// Status of the conversion; nothing is said if it is empty.
    pub status: &'static str,
    /// Blocks of 4096 bytes: where they are in the logical volume, how many, where on the device, and on which.
    pub extents: Vec<(u64, u64, u64, u64)>,
    /// Bytes of the compressed list of keys; 0 if it is not compressed. A file with the keys has a multiple of so many bytes.
    pub packed: u32,
    /// A value stands elsewhere than where it belongs, which names it.
    pub referred: bool,
    /// The group has another logical volume.
    pub second: bool,
    /// The keys lie in this file.
    pub wipekey: Option<PathBuf>,
}

impl FileVault {
    /// Bytes of the device.
    pub const SIZE: u64 = 0x80000;

    /// Makes it at `path`, with the plaintext that `plain` holds.
    pub fn make(&self, path: &Path, plain: &Path) {
        let wanted = json!({
            "path": path, "plain": plain, "passwords": self.passwords, "iterations": self.iterations, "status": self.status,
            "extents": self.extents, "packed": self.packed, "referred": self.referred,
            "second": self.second, "wipekey": self.wipekey,
        });
        Program::named("python3").arg("-c").arg(include_str!("fvault2.py")).arg(wanted.to_string()).ok();
    }
}

impl Default for FileVault {
    /// A volume with a cheap password, as cryptsetup takes it.
    fn default() -> Self {
        Self {
            passwords: vec!["correct horse"],
            iterations: 1000,
            status: "Complete",
            extents: vec![(0, 16, 64, 0)],
            packed: 0,
            referred: false,
            second: false,
            wipekey: None,
        }
    }
}
