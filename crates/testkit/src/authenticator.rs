//! A FIDO2 security key in software, on a Unix socket: in Python, with the cryptography of OpenSSL, so that it shares no mistake with ours.

use std::process::{Child, Stdio};

use serde_json::{Map, Value, json};

use crate::oracle::Program;
use crate::{Scratch, needs};

/// What a security key is like.
#[derive(Clone, Debug)]
pub struct SecurityKeyKind {
    /// Its PIN.
    pub pin: Option<&'static str>,
    /// How to agree on a key with it, in its order of preference.
    pub protocols: Vec<u8>,
    /// What it says of itself.
    pub options: Vec<(&'static str, bool)>,
    /// Whether it wants to be touched, which then happens.
    pub touch: bool,
    /// What it does wrong.
    pub fault: Option<&'static str>,
}

impl Default for SecurityKeyKind {
    /// One of today without a PIN.
    fn default() -> Self {
        Self {
            pin: None,
            protocols: vec![2, 1],
            options: vec![("up", true), ("pinUvAuthToken", true)],
            touch: true,
            fault: None,
        }
    }
}

/// A security key that is plugged in until this is dropped.
#[derive(Debug)]
pub struct SoftKey {
    child: Child,
    place: Scratch,
}

impl SoftKey {
    /// Plugs a new one in.
    pub fn new(kind: &SecurityKeyKind) -> Self {
        let place = Scratch::new();
        let source = place.file("hidraw.c", include_str!("hidraw.c"));
        Program::named("cc")
            .words("-shared -fPIC -O1 -Wall -Wextra -Werror -o")
            .arg(place.path("hidraw.so"))
            .arg(source)
            .ok();
        let child = start(&place, kind);
        Self { child, place }
    }

    /// Unplugs it, and plugs it in again, with its secrets, as one of this kind.
    pub fn replugged(&mut self, kind: &SecurityKeyKind) {
        self.stop();
        self.child = start(&self.place, kind);
    }

    /// What `ATREST_FIDO2` says, for our programs.
    pub fn place(&self) -> String {
        format!("unix:{}", self.place.path("key").display())
    }

    /// A program for which the key is the device [`DEVICE`](Self::DEVICE), and the only one that libfido2 finds.
    pub fn seen_by(&self, program: Program) -> Program {
        program
            .env("LD_PRELOAD", self.place.path("hidraw.so"))
            .env("ATREST_TEST_HIDRAW", self.place.path("key"))
    }

    /// What the key is called there.
    pub const DEVICE: &str = "/dev/hidraw-atrest";

    fn stop(&mut self) {
        // One that ended by itself is none to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(self.place.path("key"));
    }
}

impl Drop for SoftKey {
    fn drop(&mut self) {
        self.stop();
    }
}

fn start(place: &Scratch, kind: &SecurityKeyKind) -> Child {
    let options: Map<String, Value> =
        kind.options.iter().map(|(name, value)| ((*name).into(), json!(value))).collect();
    let wanted = json!({
        "path": place.path("key"), "state": place.path("state"), "pin": kind.pin, "protocols": kind.protocols,
        "options": options, "touch": kind.touch, "fault": kind.fault,
    });
    // Debian's own Python, which has Debian's python3-cryptography.
    let python = Program::at("/usr/bin/python3");
    let mut command =
        python.arg("-c").arg(include_str!("authenticator.py")).arg(wanted.to_string()).into_command();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("python3 starts");
    needs::wait_until("the security key listens", || {
        std::os::unix::net::UnixStream::connect(place.path("key")).is_ok()
    });
    child
}
