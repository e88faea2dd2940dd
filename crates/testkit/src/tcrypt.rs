//! TrueCrypt and VeraCrypt volumes made by libgcrypt and Python's hashlib: no package of Debian makes those of VeraCrypt.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::oracle::Program;

/// A volume to make.
#[derive(Clone)]
pub struct Tcrypt {
    /// `TRUE` or `VERA`.
    pub magic: &'static str,
    /// The hash of the derivation.
    pub hash: &'static str,
    /// Its iterations.
    pub iterations: u32,
    /// Ciphers in the order in which they encrypt, joined by dashes.
    pub chain: &'static str,
    /// The password.
    pub password: Vec<u8>,
    /// Files that are mixed into it.
    pub key_files: Vec<PathBuf>,
    /// `normal`, `hidden`, `backup`, or `old`: a header of version 3.
    pub place: &'static str,
    /// Other bytes in the decrypted header, by their offset there. The checksums are right all the same.
    pub change: Vec<(usize, Vec<u8>)>,
}

impl Default for Tcrypt {
    /// A TrueCrypt volume that is quickly opened.
    fn default() -> Self {
        Self {
            magic: "TRUE",
            hash: "sha512",
            iterations: 1000,
            chain: "aes",
            password: b"correct horse".to_vec(),
            key_files: Vec::new(),
            place: "normal",
            change: Vec::new(),
        }
    }
}

impl Tcrypt {
    /// Makes it at `path`, of so many bytes, with the plaintext that `plain` holds. What is there already is kept but for header and data.
    pub fn make(&self, path: &Path, size: usize, plain: &Path) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let change: Vec<_> = self.change.iter().map(|(at, bytes)| (at, hex(bytes))).collect();
        let wanted = json!({
            "path": path, "plain": plain, "size": size, "magic": self.magic, "hash": self.hash, "iterations": self.iterations,
            "chain": self.chain, "password": hex(&self.password), "key_files": self.key_files, "place": self.place,
            "change": change,
        });
        Program::named("python3").arg("-c").arg(include_str!("tcrypt.py")).arg(wanted.to_string()).ok();
    }
}
