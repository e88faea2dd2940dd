//! A sealed volume with a journal: flushes go on while its server of S3 is gone, survive a kill, and are never passed over in silence.

use std::time::Duration;

use atrest_device::BlockDevice;
use atrest_nbd::{Export, Options, Uri};
use atrest_testkit::{Manner, S3Proxy, S3Server, wait_until};

use crate::common::{CHEAP, Ran, Scratch};
use crate::sealed_volume_hangs::through;

const OPTIONS: [&str; 4] = ["--key-file", "key", "--store", "store"];
const JOURNAL: [&str; 4] = ["--journal", "journal", "--journal-size", "64M"];
const BLOCK: u64 = 4096;

struct Rig {
    server: S3Server,
    proxy: S3Proxy,
    scratch: Scratch,
    url: String,
    name: String,
}

impl Rig {
    fn new() -> Self {
        let server = S3Server::new();
        let proxy = S3Proxy::new(server.port(), Duration::ZERO);
        let scratch = Scratch::new();
        scratch.file("key", b"correct horse\n");
        let (url, name) =
            (format!("s3://{}/v", S3Server::BUCKET), format!("journal-{}", scratch.path("").display()));
        let name = name.replace('/', "-");
        let rig = Self { server, proxy, scratch, url, name };
        rig.run(&[&["format", &rig.url, "--type", "sealed", "--size", "64M"], &CHEAP[..]].concat()).ok();
        rig
    }

    fn run(&self, words: &[&str]) -> Ran {
        through(&self.server, &self.proxy, &self.scratch, &[words, &OPTIONS].concat())
    }

    fn open(&self) -> Ran {
        let words = ["open", &self.url, "--nbd", "--daemon", "--name", &self.name, "--patience", "60"];
        self.run(&[&words[..], &JOURNAL].concat())
    }

    /// The volume that is open, and its process.
    fn export(&self) -> (Export, u64) {
        let told = self.scratch.atrest(&["status", &self.name, "--json"]).ok().json();
        let uri = Uri::parse(told[0]["kind"]["nbd-unix"]["uri"].as_str().expect("a URI")).expect("a URI");
        let process = told[0]["process"]["pid"].as_u64().expect("a process");
        (Export::connect(uri, true, Options::default()).expect("it connects"), process)
    }

    /// Seconds for which what waits longest to be stored has waited, as `status` tells it.
    fn lag(&self) -> f64 {
        let told = self.scratch.atrest(&["status", &self.name, "--json"]).ok().json();
        told[0]["metrics"]["store"]["lag_seconds"].as_f64().expect("a lag")
    }

    fn kill(&self, process: u64) {
        let gone = format!("kill -9 {process}; while kill -0 {process} 2> /dev/null; do sleep 0.01; done");
        self.scratch.bash(&gone).ok();
    }
}

fn byte(export: &Export, block: u64) -> u8 {
    let mut read = [0; BLOCK as usize];
    export.read_at(block * BLOCK, &mut read).expect("read");
    read[0]
}

#[test]
fn flushes_go_on_while_the_server_is_gone_and_outlive_a_kill() {
    let rig = Rig::new();
    rig.open().ok();
    let (export, process) = rig.export();
    export.write_at(BLOCK, &[1; BLOCK as usize]).expect("written");
    export.flush().expect("flushed");
    rig.proxy.answer(Manner::Silent);
    for block in 2..40 {
        export.write_at(block * BLOCK, &[block as u8; BLOCK as usize]).expect("written");
        export.flush().expect("flushed, and the server is gone");
    }
    let waits = rig.lag();
    assert!(waits > 0.0, "38 flushes are not stored: {waits}");
    let told = rig.scratch.atrest(&["status", &rig.name]).ok();
    assert!(told.stdout.contains("not stored yet waits for "), "{}", told.stdout);
    rig.kill(process);
    drop(export);
    rig.proxy.answer(Manner::Usual);

    // Nobody passes over what only the journal has.
    for words in [&["ls", &rig.url][..], &["decrypt", &rig.url, "out"], &["snapshot", "add", &rig.url, "one"]]
    {
        let refused = rig.run(words);
        assert!(refused.stderr.contains("journal"), "{words:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("--without-journal"), "{words:?}: {}", refused.stderr);
    }
    rig.run(&["decrypt", &rig.url, "early", "--without-journal"]).ok();
    assert_eq!(rig.scratch.read("early")[2 * BLOCK as usize], 0, "it was not stored yet");

    rig.open().ok();
    let (export, _) = rig.export();
    assert_eq!(byte(&export, 1), 1);
    (2..40).for_each(|block| assert_eq!(byte(&export, block), block as u8));
    wait_until("all is stored", || rig.lag() == 0.0);
    drop(export);
    rig.scratch.atrest(&["close", &rig.name]).ok();
    // It was closed in good order: nothing is owed.
    rig.run(&["decrypt", &rig.url, "whole"]).ok();
    let whole = rig.scratch.read("whole");
    (1..40).for_each(|block| assert_eq!(whole[block * BLOCK as usize], block as u8));
}

#[test]
fn a_journal_is_made_for_a_volume_that_opens_and_belongs_to_it_alone() {
    let rig = Rig::new();
    rig.scratch.file("wrong", b"horse\n");
    let open = |words: &[&str]| {
        let server = [&["open", &rig.url, "--nbd", "--daemon", "--name", &rig.name][..], words].concat();
        through(&rig.server, &rig.proxy, &rig.scratch, &server)
    };
    let journal = |key: &'static str| ["--key-file", key, "--store", "store", "--journal", "journal"];
    // With a wrong passphrase nothing is made.
    assert!(open(&journal("wrong")).stderr.contains("passphrase"));
    assert!(!rig.scratch.path("journal").exists());
    // What is there is not overwritten.
    rig.scratch.file("journal", vec![7; 64 << 20]);
    let refused = open(&journal("key"));
    assert!(refused.stderr.contains("holds something else"), "{}", refused.stderr);
    assert!(rig.scratch.read("journal").iter().all(|byte| *byte == 7), "it was written to");
    rig.scratch.file("journal", [0; 8192]);
    let refused = open(&journal("key"));
    assert!(refused.stderr.contains("at least"), "{}", refused.stderr);
    std::fs::remove_file(rig.scratch.path("journal")).expect("it goes");
    let refused = open(&[&OPTIONS[..], &["--journal", "."]].concat());
    assert!(refused.stderr.contains("regular file"), "{}", refused.stderr);
    let refused = open(&[&OPTIONS[..], &["--max-lag", "5"]].concat());
    assert!(refused.stderr.contains("--journal FILE"), "{}", refused.stderr);
    let refused = open(&[&OPTIONS[..], &["--journal", "missing/journal"]].concat());
    assert!(refused.stderr.contains("No such file or directory\n"), "{}", refused.stderr);

    rig.open().ok();
    let (export, process) = rig.export();
    export.write_at(0, &[1; BLOCK as usize]).expect("written");
    export.flush().expect("flushed");
    drop(export);
    rig.kill(process);
    // Another volume does not take it.
    let url = format!("file://{}", rig.scratch.path("vol").display());
    let other = ["--key-file", "key"];
    rig.scratch
        .atrest(&[&["format", &url, "--type", "sealed", "--size", "64M"], &other[..], &CHEAP].concat())
        .ok();
    let other = [&["open", &url, "--nbd", "--daemon", "--name", "other"], &other[..], &JOURNAL].concat();
    let refused = rig.scratch.atrest(&other);
    assert!(refused.stderr.contains("another volume"), "{}", refused.stderr);
    // Whoever gives up what it holds says so, and what it holds stays there until somebody says that that goes, too.
    rig.run(&["snapshot", "add", &rig.url, "one", "--without-journal"]).ok();
    assert!(rig.open().stderr.contains("1 flushes that are not part of the volume"));
    rig.run(&["snapshot", "add", &rig.url, "two", "--journal", "journal", "--without-journal"]).ok();
    rig.open().ok();
    assert_eq!(byte(&rig.export().0, 0), 0);
    rig.scratch.atrest(&["close", &rig.name]).ok();
    // A LUKS2 volume has none.
    rig.scratch.atrest(&[&["format", "img", "--size", "20M", "--key-file", "key"], &CHEAP[..]].concat()).ok();
    let refused = rig.scratch.atrest(&["ls", "img", "--key-file", "key", "--journal", "journal"]);
    assert!(refused.stderr.contains("sealed volumes"), "{}", refused.stderr);
}
