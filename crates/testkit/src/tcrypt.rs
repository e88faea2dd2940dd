//! TrueCrypt and VeraCrypt volumes made by libgcrypt and Python's hashlib: no package of Debian makes those of VeraCrypt.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::oracle::Program;

/// VeraCrypt's ciphers and cascades that libgcrypt, cryptsetup and the kernel have, too, each in the order in which it encrypts. Those with
/// Kuznyechik are missing: none of the three has it.
pub const CHAINS: [&str; 10] = [
    "aes",
    "serpent",
    "twofish",
    "camellia",
    "twofish-aes",
    "serpent-twofish-aes",
    "aes-serpent",
    "aes-twofish-serpent",
    "serpent-twofish",
    "serpent-camellia",
];

/// A volume to make.
#[derive(Clone)]
pub struct Tcrypt {
    /// `TRUE` or `VERA`.
    pub magic: &'static str,
    /// The hash of the derivation.
    pub hash: &'static str,
    /// Its iterations.
    pub iterations: u32,
    /// `xts` or `cbc`, or `lrw` for a cipher with blocks of eight bytes.
    pub mode: &'static str,
    /// Ciphers in the order in which they encrypt, joined by dashes.
    pub chain: &'static str,
    /// The password.
    pub password: Vec<u8>,
    /// Files that are mixed into it.
    pub key_files: Vec<PathBuf>,
    /// `normal`, `hidden`, `backup`, `old`: a header of version 3, or 2 in CBC and LRW; or `system`, whose data begins with byte 65536 of the drive.
    pub place: &'static str,
    /// The first byte of a system on its drive, if it is not 65536.
    pub start: Option<u64>,
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
            mode: "xts",
            chain: "aes",
            password: b"correct horse".to_vec(),
            key_files: Vec::new(),
            place: "normal",
            start: None,
            change: Vec::new(),
        }
    }
}

/// One bit of a header that is changed.
#[derive(Clone, Copy, Debug)]
pub struct Defect {
    /// Its byte: of 448 in the decrypted header, or of 512 as it is stored.
    pub at: usize,
    /// Its number in the byte.
    pub bit: u64,
    /// Whether it is one of the decrypted header. The checksums are right all the same.
    pub decrypted: bool,
}

/// A header that libgcrypt has decrypted, and the volume that it describes.
#[derive(Debug, PartialEq, Eq)]
pub struct ReadTcrypt {
    /// Version and least program; bytes of the hidden volume, of data, where data begins, and bytes that are encrypted; flags and sector size.
    pub fields: Vec<u64>,
    /// The plaintext.
    pub plain: Vec<u8>,
}

impl Tcrypt {
    /// Reads the volume at `path`; `place` can be `hidden-backup`, too. Fails unless the header decrypts and both checksums are right.
    pub fn read(&self, path: &Path) -> ReadTcrypt {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let wanted = json!({
            "read": true, "path": path, "magic": self.magic, "hash": self.hash, "iterations": self.iterations, "chain": self.chain,
            "password": hex(&self.password), "key_files": self.key_files, "place": self.place,
        });
        let ran =
            Program::named("python3").arg("-c").arg(include_str!("tcrypt.py")).arg(wanted.to_string()).ok();
        let read: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
        let fields =
            read["fields"].as_array().expect("a list").iter().map(|field| field.as_u64().expect("a number"));
        let digits = read["plain"].as_str().expect("a text").as_bytes();
        let digit = |digit: u8| char::from(digit).to_digit(16).expect("a digit") as u8;
        let plain = digits.as_chunks().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect();
        ReadTcrypt { fields: fields.collect(), plain }
    }

    /// Makes it at `path`, of so many bytes, with the plaintext that `plain` holds. What is there already is kept but for header and data.
    pub fn make(&self, path: &Path, size: usize, plain: &Path) {
        self.make_with_defects(path, size, plain, &[], Path::new(""));
    }

    /// Makes it, and writes its header with each of the defects to `headers`, 512 bytes for each.
    pub fn make_with_defects(
        &self,
        path: &Path,
        size: usize,
        plain: &Path,
        defects: &[Defect],
        headers: &Path,
    ) {
        let defects: Vec<_> =
            defects.iter().map(|defect| (defect.at, defect.bit, defect.decrypted)).collect();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let change: Vec<_> = self.change.iter().map(|(at, bytes)| (at, hex(bytes))).collect();
        let wanted = json!({
            "path": path, "plain": plain, "size": size, "magic": self.magic, "hash": self.hash, "iterations": self.iterations,
            "mode": self.mode, "chain": self.chain, "password": hex(&self.password), "key_files": self.key_files, "place": self.place,
            "change": change, "start": self.start, "defects": defects, "headers": headers,
        });
        Program::named("python3").arg("-c").arg(include_str!("tcrypt.py")).arg(wanted.to_string()).ok();
    }
}
