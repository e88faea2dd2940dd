//! A command that works on a whole sealed volume on a server of S3 is killed at one of its requests, which the server has carried out: the volume
//! opens, holds what it held, and the command does its work when it is run again.

use std::time::Duration;

use atrest_testkit::{Campaign, Random, S3Proxy, S3Server, wait_until};

use crate::common::{CHEAP, Ran, Scratch};
use crate::sealed_volume_hangs::through;

const MIB: usize = 1 << 20;
const STORE: [&str; 2] = ["--store", "store"];
const KEY: [&str; 2] = ["--key-file", "key"];
const NEW_KEY: [&str; 2] = ["--key-file", "new-key"];
const NEW: [&str; 2] = ["--new-key-file", "new-key"];
const SNAPSHOT: &str = "monday";
/// More requests than any of the commands has here.
const REQUESTS: u64 = 45;

/// What is killed.
#[derive(Clone, Copy, Debug)]
enum Work {
    Rekey,
    Clone,
    Flatten,
    Collect,
    Grow,
    Shrink,
}

const ALL: [Work; 6] = [Work::Rekey, Work::Clone, Work::Flatten, Work::Collect, Work::Grow, Work::Shrink];

struct Bench {
    server: S3Server,
    proxy: S3Proxy,
    scratch: Scratch,
    url: String,
    clone: String,
    /// What the snapshot holds, and what the volume does now.
    before: Vec<u8>,
    now: Vec<u8>,
}

fn noise(seed: u32) -> Vec<u8> {
    let mixed = |at: u32| (at ^ seed).wrapping_mul(2_654_435_761).rotate_left(seed % 13) >> 11;
    (0..2 * MIB as u32).map(|at| mixed(at) as u8).collect()
}

impl Bench {
    /// A volume of 2 MiB with a snapshot, and much that only the snapshot, or nothing, needs.
    fn new() -> Self {
        let server = S3Server::new();
        let proxy = S3Proxy::new(server.port(), Duration::ZERO);
        let scratch = Scratch::new();
        scratch.file("key", b"correct horse\n");
        scratch.file("new-key", b"battery staple\n");
        let [url, clone] = ["v", "w"].map(|name| format!("s3://{}/{name}", S3Server::BUCKET));
        let (before, mut now) = (noise(1), noise(2));
        now[MIB / 2..MIB].fill(0);
        let bench = Self { server, proxy, scratch, url, clone, before, now };
        let format = ["--type", "sealed", "--size", "2M"];
        bench.run(&["format", &bench.url], &[&format[..], &KEY, &STORE, &CHEAP]).ok();
        bench.fill(&bench.before);
        bench.run(&["snapshot", "add", &bench.url, SNAPSHOT], &[&KEY, &STORE]).ok();
        bench.fill(&noise(3));
        bench.fill(&bench.now);
        bench
    }

    fn run(&self, command: &[&str], options: &[&[&str]]) -> Ran {
        let words: Vec<&str> =
            command.iter().copied().chain(options.iter().copied().flatten().copied()).collect();
        through(&self.server, &self.proxy, &self.scratch, &words)
    }

    fn fill(&self, data: &[u8]) {
        self.scratch.file("plain", data);
        self.run(&["encrypt", "plain", &self.url, "--yes"], &[&KEY, &STORE]).ok();
    }

    /// The words of the command.
    fn words(&self, work: Work) -> Vec<&str> {
        let (url, clone) = (self.url.as_str(), self.clone.as_str());
        let mut words = match work {
            Work::Rekey => [&["rekey", url, "--yes"], &NEW[..], &CHEAP].concat(),
            Work::Clone => self.clone_words(),
            Work::Flatten => return [&["flatten", clone], &NEW_KEY[..], &["--store", "store2"]].concat(),
            Work::Collect => vec!["gc", url],
            Work::Grow => vec!["resize", url, "--size", "3M"],
            Work::Shrink => vec!["resize", url, "--size", "1M", "--yes"],
        };
        words.extend([KEY, STORE].concat());
        words
    }

    fn clone_words(&self) -> Vec<&str> {
        [&["clone", &self.url, SNAPSHOT, &self.clone], &NEW[..], &["--new-store", "store2"], &CHEAP].concat()
    }

    /// Runs a command that is killed when the answer to so many requests has come and the next one's does not. Whether it was killed.
    fn killed(&self, work: Work, requests: u64) -> bool {
        self.proxy.hold_after(requests);
        let words = self.words(work);
        let mut program = self.scratch.program(env!("CARGO_BIN_EXE_atrest")).args(&words).without_terminal();
        for (name, value) in self.server.environment() {
            let way = format!("http://127.0.0.1:{}", self.proxy.port());
            program = program.env(name, if name == "AWS_ENDPOINT_URL_S3" { &way } else { &value });
        }
        let mut child = program.start();
        let mut ended = None;
        wait_until("the command ends or waits for an answer", || {
            ended = child.try_wait().expect("it is our child");
            ended.is_some() || self.proxy.holds()
        });
        if ended.is_none() {
            child.kill().expect("it runs");
            child.wait().expect("it is our child");
        }
        self.proxy.hold_after(u64::MAX);
        if let Some(status) = ended {
            assert!(status.success(), "{work:?} after {requests} requests: {status}");
        }
        ended.is_none()
    }

    /// What a volume holds, by whichever of the two keys opens it.
    fn contents(&self, url: &str, store: &str, more: &[&str]) -> Option<Vec<u8>> {
        let out = self.scratch.path("whole");
        // What is left of the last time would be asked for.
        let _ = std::fs::remove_file(&out);
        for key in [KEY, NEW_KEY] {
            let ran = self.run(&["decrypt", url, "whole"], &[&key, &["--store", store], more]);
            if ran.code == 0 {
                return Some(self.scratch.read("whole"));
            }
        }
        None
    }

    /// Neither the volume nor its snapshot has lost anything.
    fn is_whole(&self, size: impl Fn(usize) -> bool) {
        let found = self.contents(&self.url, "store", &[]).expect("the volume opens");
        assert!(size(found.len()), "{} bytes", found.len());
        let (len, zeros) =
            (found.len().min(self.now.len()), |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0));
        assert!(found[..len] == self.now[..len] && zeros(&found[len..]), "the volume holds something else");
        let snapshot = self.contents(&self.url, "store", &["--snapshot", SNAPSHOT]).expect("it opens");
        assert!(snapshot == self.before, "the snapshot holds something else");
    }
}

/// What is run again has to do all that the first one did not.
fn kill(work: Work, random: &mut Random) {
    let bench = Bench::new();
    if let Work::Flatten = work {
        bench.run(&bench.clone_words(), &[&KEY, &STORE]).ok();
    }
    let killed = bench.killed(work, random.below(REQUESTS));
    let (old, new) = match work {
        Work::Grow => (2 * MIB, 3 * MIB),
        Work::Shrink => (2 * MIB, MIB),
        _ => (2 * MIB, 2 * MIB),
    };
    bench.is_whole(|size| size == old || size == new);
    match work {
        Work::Clone => {
            if killed {
                // A clone is a whole one, or none: what there is of it is taken away.
                if let Some(found) = bench.contents(&bench.clone, "store2", &[]) {
                    assert!(found == bench.before);
                }
                let place = bench.server.bucket().join("w");
                let gone = format!("rm -rf '{}' store2", place.display());
                bench.scratch.bash(&gone).ok();
                bench.run(&bench.words(work), &[]).ok();
            }
            assert!(bench.contents(&bench.clone, "store2", &[]) == Some(bench.before.clone()));
        }
        Work::Flatten => {
            assert!(bench.contents(&bench.clone, "store2", &[]) == Some(bench.before.clone()));
            if killed {
                // It may have had nothing more to do.
                let again = bench.run(&bench.words(work), &[]);
                assert!(again.code == 0 || again.stderr.contains("stands alone"), "{}", again.stderr);
            }
            std::fs::remove_dir_all(bench.server.bucket().join("v")).expect("removed");
            assert!(bench.contents(&bench.clone, "store2", &[]) == Some(bench.before));
            return;
        }
        Work::Rekey if killed => {
            // With the key that opens it now.
            let opens = bench.run(&["key", "test", &bench.url], &[&NEW_KEY]).code == 0;
            let key = if opens { NEW_KEY } else { KEY };
            bench.run(&["rekey", &bench.url, "--yes"], &[&NEW, &CHEAP, &key, &STORE]).ok();
            bench.run(&["key", "test", &bench.url], &[&NEW_KEY]).ok();
        }
        _ if killed => drop(bench.run(&bench.words(work), &[]).ok()),
        _ => {}
    }
    bench.is_whole(|size| size == new);
    // Nor when what nothing needs is gone.
    let key = if matches!(work, Work::Rekey) { NEW_KEY } else { KEY };
    bench.run(&["gc", &bench.url], &[&key, &STORE]).ok();
    bench.run(&["scrub", &bench.url], &[&key, &STORE]).ok();
    bench.is_whole(|size| size == new);
}

#[test]
fn whatever_works_on_a_whole_volume_may_be_killed_and_loses_nothing() {
    Campaign::new("kills of rekey, clone, flatten, gc and resize on S3", 2, 240).run(|seed, random| {
        kill(ALL[seed as usize % ALL.len()], random);
    });
}
