//! Debian's cryptsetup on the host, without device-mapper: headers, keyslots and volume keys.

use std::path::{Path, PathBuf};

use crate::oracle::{Outcome, Program};

/// `cryptsetup --batch-mode` with these words as arguments.
pub fn cryptsetup(words: &str) -> Program {
    Program::named("cryptsetup").arg("--batch-mode").words(words)
}

/// A volume and a passphrase file, seen through cryptsetup.
#[derive(Clone, Debug)]
pub struct Cryptsetup {
    path: PathBuf,
    key: PathBuf,
}

impl Cryptsetup {
    /// A volume with the passphrase file to use.
    pub fn new(path: &Path, key: &Path) -> Self {
        Self { path: path.to_path_buf(), key: key.to_path_buf() }
    }

    /// `cryptsetup luksFormat` of an existing file.
    pub fn format(&self, options: &str) {
        cryptsetup("luksFormat").words(options).arg(&self.path).arg(&self.key).ok();
    }

    /// `cryptsetup open --test-passphrase`, whatever it answers: 0 yes, 2 no.
    pub fn test(&self, options: &str) -> Outcome {
        cryptsetup("open --test-passphrase --key-file").arg(&self.key).words(options).arg(&self.path).run()
    }

    /// Fails unless the passphrase opens the volume.
    pub fn assert_opens(&self) {
        self.test("").expect_code(0);
    }

    /// Fails unless the passphrase is refused as a bad one.
    pub fn assert_refuses(&self) {
        self.test("").expect_code(2);
    }

    /// `cryptsetup luksAddKey` of another passphrase file.
    pub fn add_key(&self, new: &Path, options: &str) {
        cryptsetup("luksAddKey --key-file").arg(&self.key).words(options).arg(&self.path).arg(new).ok();
    }

    /// `cryptsetup luksDump`.
    pub fn dump(&self) -> String {
        cryptsetup("luksDump").arg(&self.path).ok().text()
    }

    /// The JSON area of a LUKS2 header.
    pub fn json(&self) -> serde_json::Value {
        cryptsetup("luksDump --dump-json-metadata").arg(&self.path).ok().json()
    }

    /// The volume key, as `luksDump --dump-volume-key` writes it.
    pub fn volume_key(&self, scratch: &Path) -> Vec<u8> {
        let file = scratch.join("volume-key-of-cryptsetup");
        let _ = std::fs::remove_file(&file);
        cryptsetup("luksDump --dump-volume-key --key-file")
            .arg(&self.key)
            .arg("--volume-key-file")
            .arg(&file)
            .arg(&self.path)
            .ok();
        let key = std::fs::read(&file).expect("cryptsetup wrote the volume key");
        std::fs::remove_file(&file).expect("remove the volume key");
        key
    }

    /// Any other command on the volume: `COMMAND --key-file KEY OPTIONS PATH`.
    pub fn run(&self, command: &str, options: &str) -> Program {
        cryptsetup(command).arg("--key-file").arg(&self.key).words(options).arg(&self.path)
    }
}
