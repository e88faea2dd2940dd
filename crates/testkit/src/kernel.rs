//! A stock Debian kernel under emulation, as the judge of what dm-crypt and ext4 really do.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use crate::Campaign;
use crate::oracle::{Outcome, Program, tool, workspace};

/// One boot of the kernel that runs one script and powers off.
#[derive(Debug)]
pub struct Kernel {
    program: Program,
    script: PathBuf,
}

impl Kernel {
    /// A run of a script below `tests/kernel`.
    pub fn script(name: &str) -> Self {
        // Its own message is clearer than the one of a program that misses it.
        tool("qemu-system-x86_64");
        let root = workspace();
        // Whole campaigns take half an hour where the machine is busy.
        let limit = if Campaign::is_full() { 3600 } else { 1200 };
        let program = Program::at(tool("python3"))
            .arg(root.join("scripts/kernel-oracle"))
            .limit(Duration::from_secs(limit + 300))
            .arg(format!("--timeout={limit}"));
        Self { program, script: root.join("tests/kernel").join(name) }
    }

    /// Attaches an image as the next `/dev/vdX`.
    #[must_use]
    pub fn disk(mut self, image: &Path) -> Self {
        self.program = self.program.arg("--disk").arg(image);
        self
    }

    /// Attaches what a vhost-user server has behind this socket as the next `/dev/vdX`. `,queues=N` may follow the path.
    #[must_use]
    pub fn vhost_user(mut self, socket: &Path) -> Self {
        self.program = self.program.arg("--vhost-user").arg(socket);
        self
    }

    /// Packs one more module of the kernel.
    #[must_use]
    pub fn module(mut self, name: &str) -> Self {
        self.program = self.program.arg("--module").arg(name);
        self
    }

    /// Gives the guest the TPM that is reached by this control socket of swtpm: `/dev/tpmrm0`.
    #[must_use]
    pub fn tpm(mut self, socket: &Path) -> Self {
        self.program = self.program.arg("--tpm").arg(socket);
        self
    }

    /// Mounts a directory of the host on `/share`.
    #[must_use]
    pub fn share(mut self, directory: &Path) -> Self {
        self.program = self.program.arg("--share").arg(directory);
        self
    }

    /// Boots, with words as the script's arguments, whatever status it ends with.
    pub fn run(self, words: &str) -> Outcome {
        let outcome = self.program.arg(self.script).words(words).run();
        assert_ne!(outcome.code, Some(125), "the oracle itself failed:\n{}", outcome.messages());
        assert_ne!(outcome.code, Some(124), "the guest hung:\n{}\n{}", outcome.text(), outcome.messages());
        outcome
    }

    /// Boots and does not wait: for a guest that is to be killed. The program that is returned kills the
    /// emulator when it gets SIGTERM.
    pub fn start(self, words: &str) -> Child {
        self.program.arg(self.script).words(words).start()
    }

    /// Boots and expects that the script succeeds.
    pub fn ok(self, words: &str) -> Outcome {
        self.run(words).expect_code(0)
    }
}
