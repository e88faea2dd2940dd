//! tcplay, which makes and reads TrueCrypt volumes and shares no code with us. It takes block devices alone: loop devices, for which
//! the tests need root. What it would map it can't here, where there is no device-mapper.

use std::path::Path;

use crate::oracle::{Outcome, Program};

/// A file as the loop device that tcplay is shown. Dropping it detaches the device.
#[derive(Debug)]
pub struct Tcplay {
    device: String,
}

impl Tcplay {
    /// Attaches a file.
    pub fn attach(file: &Path) -> Self {
        let device = Program::named("losetup").words("--find --show").arg(file).ok().text();
        Self { device: device.trim().into() }
    }

    /// Makes a volume of all of it, and does not fill it with noise.
    pub fn make(&self, password: &str, hash: &str, chain: &str) {
        let words = format!("--create --insecure-erase --weak-keys --pbkdf-prf={hash} --cipher={chain}");
        self.run(password, &words).expect_code(0);
    }

    /// What it tells of the volume, of which `words` may name another header; `None` if the password does not open it.
    pub fn info(&self, password: &str, words: &str) -> Option<String> {
        let outcome = self.run(password, &format!("--info {words}"));
        let told = outcome.text();
        match outcome.code {
            Some(0) => Some(told),
            _ => {
                assert!(told.contains("Incorrect password or not a TrueCrypt volume"), "{told}");
                None
            }
        }
    }

    fn run(&self, password: &str, words: &str) -> Outcome {
        crate::oracle::tool("tcplay");
        let python = Program::named("python3").arg("-c").arg(include_str!("tcplay.py")).arg(password);
        python.words(words).arg(format!("--device={}", self.device)).run()
    }
}

impl Drop for Tcplay {
    fn drop(&mut self) {
        Program::named("losetup").arg("--detach").arg(&self.device).run();
    }
}
