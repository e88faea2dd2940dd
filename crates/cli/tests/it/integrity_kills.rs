//! A server of dm-integrity is killed in the middle of writes: what was flushed is there, and no tag is wrong.

use std::os::unix::fs::symlink;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use atrest_device::BlockDevice;
use atrest_nbd::{Export, Options, Uri};
use atrest_testkit::{Campaign, Random};

use crate::common::{Ran, Scratch};

const BLOCK: u64 = 4096;
/// Blocks that are written, so that many are written again.
const BLOCKS: u64 = 150;

/// How a device is made and opened.
const KINDS: [(&str, &str); 4] = [
    ("--integrity crc32c", ""),
    ("--integrity crc32c", "-B --bitmap-sectors-per-bit 256 --bitmap-flush-time 5"),
    (
        "--integrity sha256 --journal-crypt ctr-aes --journal-crypt-key-file key --journal-crypt-key-size 32",
        "",
    ),
    ("--integrity hmac-sha256 --integrity-key-file key --integrity-key-size 40", "-B"),
];

/// Writes that have begun, in order, and how many of them were flushed.
#[derive(Default)]
struct Written {
    /// First block, blocks, and the number that their bytes follow from.
    begun: Vec<(u64, u64, u64)>,
    flushed: usize,
}

fn bytes_of(number: u64, block: u64) -> Vec<u8> {
    Random::new(number << 20 | block).bytes(BLOCK as usize)
}

/// Writes until the server is gone, or `most` writes.
fn write(export: &Export, seed: u64, written: &Mutex<Written>, count: &AtomicU64) {
    let mut random = Random::new(seed);
    for number in 1..100_000 {
        let len = 1 + random.below(4);
        let first = random.below(BLOCKS - len);
        written.lock().expect("not poisoned").begun.push((first, len, number));
        let data: Vec<u8> = (first..first + len).flat_map(|block| bytes_of(number, block)).collect();
        if export.write_at(first * BLOCK, &data).is_err() {
            return;
        }
        if random.below(5) == 0 {
            let begun = written.lock().expect("not poisoned").begun.len();
            if export.flush().is_err() {
                return;
            }
            written.lock().expect("not poisoned").flushed = begun;
        }
        count.fetch_add(1, Ordering::Release);
    }
}

#[test]
fn what_was_flushed_survives_a_kill_of_the_server_and_no_tag_is_wrong() {
    Campaign::new("kills of a server of dm-integrity", 3, 200).run(|seed, random| {
        let (kind, how) = KINDS[seed as usize % KINDS.len()];
        let scratch = Scratch::new();
        symlink(env!("CARGO_BIN_EXE_atrest"), scratch.path("integritysetup")).expect("a link");
        scratch.file("key", [7; 64]);
        scratch.bash("truncate -s 4M dev").ok();
        let run = |words: String| -> Ran {
            let program = scratch.program(scratch.path("integritysetup"));
            program.args(words.split_ascii_whitespace()).without_terminal().run().into()
        };
        run(format!("format -q dev {kind}")).reports(0);
        let name = format!("killed-{}-{seed}", std::process::id());
        let open = || {
            run(format!("open --face nbd dev {name} {kind} {how}")).reports(0);
            let told = scratch.program(env!("CARGO_BIN_EXE_atrest")).args(["status", &name, "--json"]).run();
            let told: serde_json::Value = serde_json::from_str(&told.expect_code(0).text()).expect("JSON");
            let find = |key: &str| find(&told, key).unwrap_or_else(|| panic!("no {key} in {told}")).clone();
            let uri = find("uri").as_str().expect("text").to_owned();
            let export = Export::connect(Uri::parse(&uri).expect("a URI"), true, Options::default());
            (export.expect("it connects"), find("pid").as_u64().expect("a number"))
        };
        let (export, process) = open();
        let (written, count) = (Mutex::new(Written::default()), AtomicU64::new(0));
        let wanted = 1 + random.below(150);
        thread::scope(|scope| {
            scope.spawn(|| write(&export, seed, &written, &count));
            let deadline = Instant::now() + Duration::from_secs(120);
            while count.load(Ordering::Acquire) < wanted {
                assert!(Instant::now() < deadline, "nothing is written");
                thread::sleep(Duration::from_micros(200));
            }
            let gone =
                format!("kill -9 {process}; while kill -0 {process} 2> /dev/null; do sleep 0.01; done");
            scratch.bash(&gone).ok();
        });
        drop(export);
        let (export, _) = open();
        let Written { begun, flushed } = written.into_inner().expect("not poisoned");
        for block in 0..BLOCKS {
            let mut found = vec![0; BLOCK as usize];
            let read = export.read_at(block * BLOCK, &mut found);
            read.unwrap_or_else(|error| panic!("{kind} {how}: block {block}: {error}"));
            let touch = |(first, len, _): &(u64, u64, u64)| (*first..first + len).contains(&block);
            let durable = begun[..flushed].iter().rposition(touch);
            let later = begun[durable.unwrap_or(0)..].iter().filter(|write| touch(write));
            let versions: Vec<Vec<u8>> = later.map(|(_, _, number)| bytes_of(*number, block)).collect();
            let zeros = vec![0; BLOCK as usize];
            // A write of many units may be there in part: each of them is old or new.
            for (at, unit) in found.chunks(512).enumerate() {
                let old = durable.is_none() && zeros[..512] == *unit;
                let is = versions.iter().any(|version| version[at * 512..][..512] == *unit);
                assert!(old || is, "{kind} {how}: block {block} after {} of {} writes", flushed, begun.len());
            }
        }
        drop(export);
        run(format!("close {name}")).reports(0);
    });
}

/// The first value of a key, however deep.
fn find<'v>(value: &'v serde_json::Value, key: &str) -> Option<&'v serde_json::Value> {
    match value {
        serde_json::Value::Object(members) => {
            members.get(key).or_else(|| members.values().find_map(|value| find(value, key)))
        }
        serde_json::Value::Array(all) => all.iter().find_map(|value| find(value, key)),
        _ => None,
    }
}
