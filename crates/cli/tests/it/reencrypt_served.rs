//! A volume that begins to be re-encrypted while a process serves it: asked of that process, stopped, gone on with, killed.

use crate::common::{CHEAP, Ran, Scratch};

/// A volume with 24 MiB of noise that is served by NBD, until this is dropped.
struct Served {
    scratch: Scratch,
    name: String,
}

impl Served {
    fn new() -> Self {
        let scratch = Scratch::new();
        scratch.file("key", "correct horse");
        scratch.file("wrong", "wrong");
        let script = format!(
            "head -c 25165824 /dev/urandom > plain; truncate -s 40M vol; chmod 600 key wrong; \
             cryptsetup luksFormat -q --type luks2 --sector-size 512 {CHEAP} vol key; \
             $ATREST encrypt --quiet --key-file key plain vol",
            CHEAP = CHEAP.join(" ")
        );
        scratch.bash(&format!("set -e; {script}")).ok();
        let name = scratch.session();
        let served = Self { scratch, name };
        served.open(&[]);
        served
    }

    fn open(&self, options: &[&str]) {
        let socket = self.scratch.path("socket");
        let socket = socket.to_str().expect("plain letters");
        let words = ["open", "--daemon", "--name", &self.name, "--key-file", "key", "--nbd", socket, "vol"];
        self.scratch.atrest(&[&words[..], options].concat()).ok();
    }

    fn reencrypt(&self, words: &[&str]) -> Ran {
        let cheap = if words.contains(&"--stop") { &[][..] } else { &CHEAP };
        self.scratch.atrest(&[&["reencrypt", "--json", &self.name], words, cheap].concat())
    }

    fn begin(&self, words: &[&str]) -> Ran {
        self.reencrypt(&[&["--online", "--key-file", "key"], words].concat())
    }

    fn is_marked(&self) -> bool {
        self.scratch.bash("$ATREST info --json vol").ok().stdout.contains("online-reencrypt")
    }

    /// What a client reads is what was written.
    fn check(&self) {
        let script = "nbdcopy \"nbd+unix:///?socket=$PWD/socket\" out && cmp -n 25165824 plain out";
        self.scratch.bash(script).ok();
    }

    /// Bytes of the volume that are as before.
    fn volume_key(&self) -> String {
        let script = "cryptsetup luksDump -q --dump-volume-key --key-file key vol 2>/dev/null | tail -4";
        self.scratch.bash(script).ok().stdout
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.scratch.atrest(&["close", &self.name]);
    }
}

#[test]
fn a_process_reencrypts_what_it_serves_when_it_is_asked_and_has_an_ordinary_volume_afterwards() {
    let served = Served::new();
    let before = served.volume_key();
    served.begin(&["--key-file", "wrong"]).fails(1, "cannot be used multiple times");
    served.reencrypt(&["--online", "--key-file", "wrong"]).fails(2, "wrong passphrase");
    served.reencrypt(&["--stop"]).fails(2, "not being re-encrypted");
    assert!(!served.is_marked());
    assert_eq!(served.begin(&["--sector-size", "4096"]).ok().json()["reencryption"], "done");
    assert!(!served.is_marked() && served.volume_key() != before);
    served.check();
    // Its key can be taken away, and it is re-encrypted once more.
    served.scratch.atrest(&["suspend", &served.name]).ok();
    served.scratch.atrest(&["resume", &served.name, "--key-file", "key"]).ok();
    served.begin(&[]).ok();
    served.check();
    served.scratch.atrest(&["close", &served.name]).ok();
    served.scratch.bash("cryptsetup open --test-passphrase --key-file key vol").ok();
    served
        .scratch
        .bash("rm out; $ATREST decrypt --quiet --key-file key vol out && cmp -n 25165824 plain out")
        .ok();
}

#[test]
fn it_is_stopped_and_gone_on_with_by_the_process_by_another_and_by_cryptsetup() {
    let served = Served::new();
    served.begin(&["--init-only"]).ok();
    let stopped = served.reencrypt(&["--stop"]).ok().json();
    // A machine that is fast may be done by then, which is no failure.
    assert!(["stopped", "done"].iter().any(|word| stopped["reencryption"] == **word), "{stopped}");
    served.check();
    if stopped["reencryption"] == "stopped" {
        assert!(served.is_marked());
        served.scratch.atrest(&["suspend", &served.name]).fails(2, "being re-encrypted");
        assert_eq!(served.begin(&[]).ok().json()["reencryption"], "done");
        assert!(!served.is_marked());
    }
    for resume in [
        "$ATREST reencrypt --quiet --resume --key-file key vol",
        "cryptsetup reencrypt -q --resume-only --force-offline-reencrypt --key-file key vol",
    ] {
        served.begin(&["--init-only"]).ok();
        // Neither is anything lost by a kill, nor by an orderly end.
        served
            .scratch
            .bash(&format!(
                "kill -9 $($ATREST status --json {} | grep -o '\"pid\":[0-9]*' | cut -d: -f2); sleep 0.2",
                served.name
            ))
            .ok();
        served.scratch.atrest(&["close", &served.name]);
        if served.is_marked() {
            served.scratch.bash(resume).ok();
        }
        assert!(!served.is_marked());
        served.open(&[]);
        served.check();
    }
}

#[test]
fn what_is_suspended_when_its_header_is_marked_is_resumed_and_reencrypted_then() {
    let served = Served::new();
    served.scratch.atrest(&["suspend", &served.name]).ok();
    // As the header is when both are asked for at once. cryptsetup does not look at the lock on a file.
    let begin = "cryptsetup reencrypt -q --init-only --force-offline-reencrypt --key-file key $CHEAP vol";
    served.scratch.bash(&begin.replace("$CHEAP", &CHEAP.join(" "))).ok();
    assert!(served.is_marked());
    served.scratch.atrest(&["resume", &served.name, "--key-file", "wrong"]).fails(2, "wrong passphrase");
    served.scratch.atrest(&["resume", &served.name, "--key-file", "key"]).ok();
    served.check();
    assert_eq!(served.begin(&[]).ok().json()["reencryption"], "done");
    assert!(!served.is_marked());
    served.check();
}

#[test]
fn what_can_not_be_reencrypted_while_it_is_served_is_refused_before_its_header_changes() {
    let served = Served::new();
    let refused = |options: &[&str], why: &str| {
        served.scratch.atrest(&["close", &served.name]).ok();
        let before = served.scratch.read("vol");
        served.open(options);
        served.begin(&[]).fails(2, why);
        assert!(served.scratch.read("vol") == before, "{options:?}");
    };
    let before = served.scratch.read("vol");
    served.scratch.atrest(&["suspend", &served.name]).ok();
    served.begin(&[]).fails(2, "suspended already");
    assert!(served.scratch.read("vol") == before);
    served.scratch.atrest(&["resume", &served.name, "--key-file", "key"]).ok();
    refused(&["--read-only"], "for reading alone");
    refused(&["--size", "1M"], "a part of its data");
    refused(&["--reencrypt"], "opened with --reencrypt");
    served.scratch.atrest(&["close", &served.name]).ok();
    let script = "truncate -s 0 vol; truncate -s 8M vol; cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 vol key";
    served.scratch.bash(script).ok();
    served.open(&[]);
    refused(&[], "only volumes of LUKS2");
    let nobody = served.scratch.atrest(&["reencrypt", "--online", "nobody-serves-this", "--key-file", "key"]);
    nobody.fails(4, "neither a process of yours nor the kernel has nobody-serves-this open");
}

/// As after a begin whose process was ended before it could ask: no one key would open the volume again.
#[test]
fn what_is_marked_is_not_suspended_as_nobody_could_resume_it() {
    let served = Served::new();
    let script = "cryptsetup reencrypt -q --init-only --key-file key vol";
    served.scratch.bash(&format!("{script} {}", CHEAP.join(" "))).ok();
    assert!(served.is_marked());
    served.scratch.atrest(&["suspend", &served.name]).fails(2, "could not be resumed");
    served.check();
    assert_eq!(served.begin(&[]).ok().json()["reencryption"], "done");
    served.check();
}

#[test]
fn a_new_key_that_a_device_gave_is_kept_by_a_keyslot_or_refused() {
    let served = Served::new();
    let before = served.scratch.read("vol");
    let new = ["--new-volume-key-file", "/dev/urandom", "--key-size", "512"];
    served.begin(&[&new[..], &["--no-keyslots"]].concat()).fails(1, "nobody would have");
    assert!(served.scratch.read("vol") == before);
    assert_eq!(served.begin(&new).ok().json()["reencryption"], "done");
    served.check();
}

#[test]
fn what_becomes_plaintext_while_it_is_served_is_done_and_goes_on_being_served() {
    let served = Served::new();
    served.scratch.atrest(&["close", &served.name]).ok();
    let script = format!(
        "set -e; rm vol; truncate -s 25165824 vol; cryptsetup luksFormat -q --type luks2 --header h {CHEAP} vol key; \
         $ATREST encrypt --quiet --header h --key-file key plain vol; chmod 600 h; \
         $ATREST reencrypt --quiet --yes --decrypt --init-only --header h --key-file key {CHEAP} vol",
        CHEAP = CHEAP.join(" ")
    );
    served.scratch.bash(&script).ok();
    served.open(&["--header", "h"]);
    assert_eq!(served.begin(&["--header", "h"]).ok().json()["reencryption"], "done");
    served.check();
    served.scratch.atrest(&["close", &served.name]).ok();
    served.scratch.bash("cmp plain vol").ok();
}
