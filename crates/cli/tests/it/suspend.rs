//! `suspend` and `resume` of what a process serves: its clients wait, and its memory has no key.

mod aes;

use atrest_secret::SecretBytes;
use atrest_testkit::Random;
use atrest_testkit::memory::{PIECE, found_in, found_outside_in, pieces};
use atrest_testkit::needs::{self, wait_until};

use crate::common::{CHEAP, Ran, Scratch};

/// What a test looks for in memory, which no other memory has by chance.
const PASSPHRASE: &[u8] = b"the quick suspended fox jumps over no lazy dogs";

const NOWHERE: [u64; 0] = [];

/// A volume that is served, and closed when the test ends, also by a failure.
struct Served {
    scratch: Scratch,
    name: String,
}

impl Served {
    /// By NBD on the socket `socket`, with these options beside.
    fn by_nbd(scratch: Scratch, args: &[&str]) -> Self {
        let socket = scratch.path("socket");
        let socket = socket.to_str().expect("plain letters").to_owned();
        Self::by(scratch, &[&["--nbd", &socket], args].concat())
    }

    fn by(scratch: Scratch, args: &[&str]) -> Self {
        let name = scratch.session();
        scratch.atrest(&[&["open", "--daemon", "--name", &name, "--key-file", "key"], args].concat()).ok();
        Self { scratch, name }
    }

    fn suspend(&self) -> Ran {
        self.scratch.atrest(&["suspend", &self.name])
    }

    fn resume(&self, key_file: &str) -> Ran {
        self.scratch.atrest(&["resume", &self.name, "--key-file", key_file])
    }

    fn status(&self) -> serde_json::Value {
        self.scratch.atrest(&["status", "--json", &self.name]).ok().json()[0].clone()
    }

    fn process(&self) -> u64 {
        self.status()["process"]["pid"].as_u64().expect("a number")
    }

    /// Requests that have begun and not ended.
    fn in_flight(&self, operation: &str) -> u64 {
        self.status()["metrics"]["operations"][operation]["in_flight"].as_u64().expect("a number")
    }

    /// Starts a line of bash that goes on beside the test, and leaves its exit status in a file.
    fn beside(&self, line: &str, status: &str) {
        // Nothing of it may hold the pipes that the test waits at.
        let line = format!("(timeout 120 bash -c '{line}'; echo $? > {status}) > {status}.out 2>&1 &");
        self.scratch.bash(&line).ok();
    }

    fn ended(&self, status: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.scratch.path(status)).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    }

    #[track_caller]
    fn waits_for(&self, status: &str, code: &str) {
        wait_until("a client goes on", || self.ended(status).is_some());
        // intended: without words the code alone tells.
        let said = std::fs::read_to_string(self.scratch.path(format!("{status}.out"))).unwrap_or_default();
        assert_eq!(self.ended(status).as_deref(), Some(code), "{said}");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.scratch.atrest(&["close", &self.name]);
    }
}

/// A client that writes a pattern to a place in steps of 256 KiB, makes it durable, and reads it back.
fn pattern(byte: u8, at: u32) -> String {
    // What was read is told; that it is the pattern, by the status.
    let at = at * 256;
    format!(
        "set -o pipefail; qemu-io -f raw -c \"write -P {byte} {at}k 64k\" -c flush -c \"read -P {byte} {at}k 64k\" \
         \"nbd+unix:///?socket=$PWD/socket\" 2>&1 | tee /dev/stderr | grep -q \"^read 65536/65536\""
    )
}

/// By cryptsetup, with a volume key that the test knows.
fn with_known_key(args: &str, key_size: usize) -> (Scratch, Vec<u8>) {
    let scratch = Scratch::new();
    scratch.file("key", PASSPHRASE);
    scratch.file("other", b"battery staple, or what it was");
    let key = Random::new(19).bytes(key_size / 8);
    scratch.file("volume-key", &key);
    let format = format!(
        "truncate -s 32M vol && cryptsetup luksFormat -q --pbkdf-force-iterations 1000 --key-file key \
         --volume-key-file volume-key --key-size {key_size} {args} vol"
    );
    scratch.bash(&format).ok();
    (scratch, key)
}

#[test]
fn neither_the_volume_key_nor_its_round_keys_are_in_the_memory_of_a_process_that_is_suspended() {
    needs::root("reading another process's memory");
    for args in
        ["--type luks2 --pbkdf pbkdf2 --cipher aes-xts-plain64", "--type luks1 --cipher aes-xts-plain64"]
    {
        let (scratch, key) = with_known_key(args, 512);
        let rounds: Vec<SecretBytes> = key.chunks(32).flat_map(aes::round_keys).collect();
        assert_eq!(rounds.len(), 2 * (15 + 13));
        let served = Served::by_nbd(scratch, &["vol"]);
        let process = served.process();
        served.scratch.bash(&pattern(7, 1)).ok();
        // The search finds what is there: the key's four pieces are the first round keys of each half.
        let (here, all) = (found_in(process, &pieces(&key)), found_in(process, &rounds));
        assert!(here.len() >= 4 && all.len() >= 2 * 15, "{args}: {} and {}", here.len(), all.len());
        served.suspend().ok();
        assert_eq!(found_in(process, &pieces(&key)), NOWHERE, "{args}");
        assert_eq!(found_in(process, &rounds), NOWHERE, "{args}");
        // The passphrase went when the volume was opened.
        assert_eq!(found_in(process, &[SecretBytes::copy_from(&PASSPHRASE[..PIECE])]), NOWHERE);
        served.resume("key").ok();
        served.scratch.bash(&pattern(8, 2)).ok();
        assert!(!found_in(process, &pieces(&key)).is_empty());
        served.suspend().ok();
        assert_eq!(found_in(process, &pieces(&key)), NOWHERE, "{args}: a second time");
        assert_eq!(found_in(process, &rounds), NOWHERE, "{args}: a second time");
    }
}

/// In the program itself: the compiler joins other frames in it than in a test, and what is wiped has to reach as deep.
#[test]
fn a_thread_that_waits_for_its_client_has_no_key_on_its_stack() {
    needs::root("reading another process's memory");
    for (cipher, key_size) in [("aes-xts-plain64", 512), ("aes-cbc-essiv:sha256", 256)] {
        let args = "--type luks2 --pbkdf pbkdf2 --keyslot-cipher aes-xts-plain64 --keyslot-key-size 512";
        let (scratch, key) = with_known_key(&format!("{args} --cipher {cipher}"), key_size);
        let served = Served::by_nbd(scratch, &["vol"]);
        // It stays connected until it is ended.
        let client = "echo $$ > process; exec qemu-io -f raw -c \"write 512k 512\" -c \"read 512k 64k\" -c \"write 1M 64k\" \
                      -c \"sleep 60000\" \"nbd+unix:///?socket=$PWD/socket\"";
        served.beside(client, "client");
        wait_until("requests are answered", || {
            let status = served.status();
            let requests = |operation: &str| status["metrics"]["operations"][operation]["requests"].as_u64();
            requests("write") >= Some(2) && requests("read") >= Some(1) && served.in_flight("write") == 0
        });
        let process = served.process();
        assert!(!found_in(process, &pieces(&key)).is_empty(), "{cipher}");
        assert_eq!(found_outside_in(process, &pieces(&key)), NOWHERE, "{cipher}");
        served.scratch.bash("kill $(cat process)").ok();
        served.waits_for("client", "143");
    }
}

#[test]
fn clients_wait_while_a_volume_is_suspended_and_none_of_their_requests_is_lost() {
    let served = Served::by_nbd(Scratch::with_volume(), &["vol"]);
    served.scratch.file("wrong", b"correct horse");
    served.scratch.bash(&pattern(1, 1)).ok();
    served.suspend().ok();
    assert_eq!(served.status()["suspended"], true);
    let before = served.scratch.read("vol");
    served.beside(&pattern(2, 2), "writer");
    // One that comes and leaves meanwhile.
    let left = format!("! timeout 2 bash -c '{}'", pattern(3, 3));
    served.scratch.bash(&left).ok();
    wait_until("requests wait", || served.in_flight("write") == 2);
    served.suspend().fails(2, "suspended already");
    served.resume("wrong").fails(2, "wrong passphrase");
    let line = served.scratch.atrest(&["status", &served.name]).ok().stdout;
    assert!(line.contains("read-write, suspended"), "{line}");
    assert!(served.ended("writer").is_none() && served.scratch.read("vol") == before);
    served.resume("key").ok();
    served.waits_for("writer", "0");
    assert!(served.status().get("suspended").is_none());
    served.resume("key").fails(1, "is not suspended");
    served.scratch.bash(&pattern(4, 4)).ok();
    served.scratch.atrest(&["close", &served.name]).ok();
    // It is on the media, for a process that knows nothing of all this.
    served.scratch.bash("$ATREST decrypt vol out --key-file key").ok();
    let out = served.scratch.read("out");
    for byte in [1_u8, 2, 4] {
        assert_eq!(out[usize::from(byte) << 18..][..65536], [byte; 65536], "pattern {byte}");
    }
}

#[test]
fn one_that_is_closed_while_it_is_suspended_says_whether_something_is_lost_and_one_that_is_killed_leaves_nothing()
 {
    let scratch = Scratch::with_volume();
    let served = Served::by_nbd(scratch, &["vol"]);
    served.suspend().ok();
    served.scratch.atrest(&["close", &served.name]).ok();
    let served = Served::by_nbd(Scratch::with_volume(), &["vol"]);
    served.suspend().ok();
    served.beside(&pattern(1, 1), "writer");
    wait_until("a write waits", || served.in_flight("write") == 1);
    served.scratch.atrest(&["close", &served.name]).fails(4, "closed while it was suspended");
    served.waits_for("writer", "1");
    let again = ["open", "--daemon", "--name", &served.name, "--key-file", "key", "--nbd", "socket", "vol"];
    served.scratch.atrest(&again).ok();
    served.suspend().ok();
    let process = served.process();
    served
        .scratch
        .bash(&format!("kill -9 {process}; while kill -0 {process} 2> /dev/null; do sleep 0.01; done"))
        .ok();
    served.scratch.atrest(&["status", &served.name]).fails(4, "no open volume is called");
    served.scratch.atrest(&again).ok();
    served.scratch.bash(&pattern(5, 5)).ok();
}

#[test]
fn a_file_and_a_volume_with_tags_and_one_that_is_mapped_are_suspended_as_well() {
    needs::root("mounting");
    let scratch = Scratch::with_volume();
    scratch.bash("mkdir m").ok();
    let served = Served::by(scratch, &["--fuse", "m", "--map", "vol"]);
    served
        .scratch
        .bash("head -c 65536 /dev/zero | tr \"\\0\" x | dd of=m/volume bs=64K seek=3 conv=notrunc,fsync")
        .ok();
    served.suspend().ok();
    served.beside(
        "dd if=m/volume bs=64K skip=3 count=1 | cmp - <(head -c 65536 /dev/zero | tr \"\\0\" x)",
        "reader",
    );
    wait_until("a read waits", || served.in_flight("read") > 0);
    assert!(served.ended("reader").is_none());
    // In use, so it stays.
    served.scratch.atrest(&["close", &served.name]).fails(5, "stays open");
    served.resume("key").ok();
    served.waits_for("reader", "0");
    served.suspend().ok();
    served.scratch.atrest(&["close", &served.name]).ok();

    for integrity in ["hmac-sha256", "aead"] {
        let cipher = if integrity == "aead" { "aes-gcm-random" } else { "aes-xts-plain64" };
        let scratch = Scratch::new();
        scratch.file("key", b"correct horse\n");
        let format = [
            "format",
            "--size",
            "20M",
            "--key-file",
            "key",
            "--integrity",
            integrity,
            "--cipher",
            cipher,
            "vol",
        ];
        scratch.atrest(&[&format[..], &CHEAP].concat()).ok();
        let served = Served::by_nbd(scratch, &["vol"]);
        served.scratch.bash(&pattern(1, 1)).ok();
        served.suspend().ok();
        served.beside(&pattern(2, 2), "writer");
        wait_until("a write waits", || served.in_flight("write") == 1);
        served.resume("key").ok();
        served.waits_for("writer", "0");
        served.scratch.bash(&pattern(3, 3)).ok();
    }
}

#[test]
fn a_name_that_is_not_open_is_told_as_close_tells_it() {
    let scratch = Scratch::new();
    for command in ["close", "suspend", "resume", "resize"] {
        for name in ["never-opened", "never opened"] {
            scratch.atrest(&[command, name]).fails(4, &format!("no open volume is called {name}"));
        }
    }
}

#[test]
fn what_can_not_be_suspended_says_so_by_name_and_goes_on() {
    let scratch = Scratch::with_volume();
    scratch.file("plain-key", Random::new(1).bytes(32));
    scratch.bash("truncate -s 8M plain").ok();
    let name = scratch.session();
    let plain = [
        "open",
        "--daemon",
        "--name",
        &name,
        "--nbd",
        "socket",
        "--type",
        "plain",
        "--cipher",
        "aes-xts-plain64",
        "--key-size",
        "256",
        "--key-file",
        "plain-key",
        "plain",
    ];
    scratch.atrest(&plain).ok();
    scratch.atrest(&["suspend", &name]).fails(2, "it has no header");
    scratch.bash(&pattern(1, 1)).ok();
    scratch.atrest(&["close", &name]).ok();
    let served = Served::by_nbd(scratch, &["--reencrypt", "vol"]);
    served.suspend().fails(2, "opened with --reencrypt");
    served.scratch.bash(&pattern(1, 1)).ok();
}

#[test]
fn a_header_that_has_another_volume_key_by_now_does_not_go_on() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    let format = |header: &str| {
        let line = format!(
            "truncate -s 8M vol && cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \
             --key-file key --header {header} vol"
        );
        scratch.bash(&line).ok();
    };
    format("header");
    format("another");
    let served = Served::by_nbd(scratch, &["--header", "header", "vol"]);
    served.scratch.bash(&pattern(1, 1)).ok();
    served.suspend().ok();
    let resume = |header: &str| {
        served.scratch.atrest(&["resume", &served.name, "--key-file", "key", "--header", header])
    };
    resume("another").fails(2, "it stays suspended");
    // Also where the header that the process itself has open was written over.
    served.scratch.bash("cp header backup && cat another > header").ok();
    resume("header").fails(2, "it has another volume key");
    served.scratch.bash("cat backup > header").ok();
    resume("header").ok();
    served.scratch.bash(&pattern(2, 2)).ok();
}

#[test]
fn cryptsetups_names_suspend_what_a_process_serves() {
    let served = Served::by_nbd(Scratch::with_volume(), &["vol"]);
    served.scratch.bash("ln -s \"$ATREST\" cryptsetup").ok();
    let run = |line: &str| served.scratch.bash(&format!("./cryptsetup {line}"));
    let name = &served.name;
    run(&format!("luksSuspend {name}")).ok();
    let status = run(&format!("status {name}")).ok().stdout;
    assert!(status.contains("mode:    read/write (suspended)"), "{status}");
    run(&format!("luksResume {name} --key-file key")).ok();
    let status = run(&format!("status {name}")).ok().stdout;
    assert!(!status.contains("suspended"), "{status}");
    served.scratch.bash(&pattern(1, 1)).ok();
}
