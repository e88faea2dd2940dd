//! A software TPM (swtpm), which systemd-cryptenroll, clevis and tpm2-tools use as well.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::oracle::{Outcome, Program};
use crate::{Scratch, needs};

/// A TPM that runs until this is dropped. Its seeds are its own; its PCRs are as after a reset.
#[derive(Debug)]
pub struct Swtpm {
    child: Child,
    state: Scratch,
    port: u16,
}

impl Swtpm {
    /// Starts a new one.
    ///
    /// # Panics
    /// When it is missing.
    pub fn new() -> Self {
        let state = Scratch::new();
        let (child, port) = start(&state);
        Self { child, state, port }
    }

    /// Starts one that was made before, of the file in which it keeps its seeds and keys.
    ///
    /// # Panics
    /// When it is missing.
    pub fn of(kept: &[u8]) -> Self {
        let state = Scratch::new();
        state.file("tpm2-00.permall", kept);
        let (child, port) = start(&state);
        Self { child, state, port }
    }

    /// Resets the machine: PCRs begin anew, and keys stay.
    pub fn reboot(&mut self) {
        self.stop();
        (self.child, self.port) = start(&self.state);
    }

    /// Becomes the TPM of a guest, once: the socket by which QEMU has it. Nobody reaches it by its port any more.
    ///
    /// # Panics
    /// When it does not start.
    pub fn plugged_in(&mut self) -> PathBuf {
        self.stop();
        let control = self.state.path("control");
        let program = Program::named("swtpm").words("socket --tpm2 --tpmstate");
        let program = program.arg(format!("dir={}", self.state.as_path().display())).arg("--ctrl");
        let mut command = program.arg(format!("type=unixio,path={}", control.display())).into_command();
        self.child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("swtpm starts");
        needs::wait_until("the TPM has a socket", || control.exists());
        control
    }

    /// What `ATREST_TPM` says, for our programs.
    pub fn place(&self) -> String {
        format!("tcp:127.0.0.1:{}", self.port)
    }

    /// What programs of tpm2-tss call it.
    pub fn tcti(&self) -> String {
        format!("swtpm:host=127.0.0.1,port={}", self.port)
    }

    /// The port at which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs a program of tpm2-tools with these words.
    pub fn tool(&self, words: &str) -> Outcome {
        let (name, words) = words.split_once(' ').unwrap_or((words, ""));
        Program::named(name)
            .words(words)
            .env("TPM2TOOLS_TCTI", self.tcti())
            .current_dir(self.state.as_path())
            .ok()
    }

    /// Extends a PCR of the SHA-1 and SHA-256 banks.
    pub fn extend(&self, pcr: u32) {
        let (sha1, sha256) = ("1b".repeat(20), "2c".repeat(32));
        self.tool(&format!("tpm2_pcrextend {pcr}:sha1={sha1},sha256={sha256}"));
    }

    /// Gives back the sessions and objects that programs of tpm2-tss have left: no resource manager stands between.
    pub fn forget(&self) {
        for kind in ["-t", "-s", "-l"] {
            self.tool(&format!("tpm2_flushcontext -Q {kind}"));
        }
    }

    fn stop(&mut self) {
        // One that ended by itself is none to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Default for Swtpm {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Swtpm {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Two ports in a row are what tpm2-tss wants. Somebody else may take them first, and then it is tried with others.
fn start(state: &Scratch) -> (Child, u16) {
    for _ in 0..20 {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("its address").port();
        let Some(control) = port.checked_add(1) else { continue };
        if TcpListener::bind(("127.0.0.1", control)).is_err() {
            continue;
        }
        drop(free);
        let line = format!(
            "socket --tpm2 --server type=tcp,port={port} --ctrl type=tcp,port={control} \
             --flags not-need-init,startup-clear --tpmstate"
        );
        let mut command = Program::named("swtpm")
            .words(&line)
            .arg(format!("dir={}", state.as_path().display()))
            .into_command();
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("swtpm starts");
        for _ in 0..500 {
            if child.try_wait().expect("its state").is_some() {
                break;
            }
            if TcpStream::connect(("127.0.0.1", control)).is_ok() {
                return (child, port);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
    panic!("swtpm does not start; it wants two ports in a row")
}
