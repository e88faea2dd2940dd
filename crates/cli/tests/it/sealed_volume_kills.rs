//! The server of a sealed volume is killed in the middle of writes, again and again: the ext4 inside is the one of the last flush that was
//! acknowledged, or of the one under way, to the byte, and e2fsck finds nothing wrong with it. Half of the volumes have a journal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use atrest_device::BlockDevice;
use atrest_nbd::{Export, Options, Uri};
use atrest_testkit::Campaign;

use crate::common::{CHEAP, Scratch};

const BLOCK: usize = 4096;
/// Images of one ext4, each with a file more; the first one follows the last.
const IMAGES: usize = 6;
/// Times that one volume's server is killed.
const KILLS: usize = 3;
const OPTIONS: [&str; 4] = ["--key-file", "key", "--store", "store"];
const JOURNAL: [&str; 6] = ["--journal", "journal", "--journal-size", "32M", "--max-lag", "1"];

/// The ext4 after each of its changes.
pub fn images() -> Vec<Vec<u8>> {
    let scratch = Scratch::new();
    scratch.bash("truncate -s 4M image && mke2fs -q -t ext4 -O ^has_journal -b 4096 image").ok();
    let mut images = vec![scratch.read("image")];
    for number in 1..IMAGES {
        scratch.file("file", vec![number as u8; number * 30_000]);
        scratch.tool("debugfs", &["-w", "-R", &format!("write file file-{number}"), "image"]).ok();
        images.push(scratch.read("image"));
    }
    images
}

/// Writes what differs between two images.
fn change(export: &Export, from: &[u8], to: &[u8]) -> bool {
    let blocks = from.chunks(BLOCK).zip(to.chunks(BLOCK)).enumerate();
    blocks
        .filter(|(_, (from, to))| from != to)
        .all(|(at, (_, to))| export.write_at((at * BLOCK) as u64, to).is_ok())
}

/// How many flushes of a writer were acknowledged.
pub struct Flushed(AtomicU64);

impl Flushed {
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Waits until there are so many.
    pub fn wait_for(&self, wanted: u64) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while self.count() < wanted {
            assert!(Instant::now() < deadline, "nothing is written");
            thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Writes one image after the other, from that of `state` on, into the volume that is open by that name, until its server is killed:
/// when `meanwhile` returns. Returns how many flushes were acknowledged.
pub fn killed(
    scratch: &Scratch,
    name: &str,
    images: &[Vec<u8>],
    state: usize,
    meanwhile: impl FnOnce(&Flushed),
) -> usize {
    let told = scratch.atrest(&["status", name, "--json"]).ok().json();
    let uri = told[0]["kind"]["nbd-unix"]["uri"].as_str().expect("a URI").to_owned();
    let process = told[0]["process"]["pid"].as_u64().expect("a process");
    let export = Export::connect(Uri::parse(&uri).expect("a URI"), true, Options::default());
    let export = export.expect("it connects");
    let flushed = Flushed(AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for at in state.. {
                let (from, to) = (&images[at % IMAGES], &images[(at + 1) % IMAGES]);
                if !change(&export, from, to) || export.flush().is_err() {
                    return;
                }
                flushed.0.fetch_add(1, Ordering::Release);
            }
        });
        meanwhile(&flushed);
        let gone = format!("kill -9 {process}; while kill -0 {process} 2> /dev/null; do sleep 0.01; done");
        scratch.bash(&gone).ok();
    });
    flushed.count() as usize
}

/// The state that the file `whole` holds: that of the last flush that was acknowledged, or of the one under way.
pub fn found(scratch: &Scratch, images: &[Vec<u8>], acknowledged: usize) -> usize {
    let whole = scratch.read("whole");
    let state = (acknowledged..=acknowledged + 1).find(|at| whole == images[at % IMAGES]);
    scratch.tool("e2fsck", &["-fn", "whole"]).ok();
    state.unwrap_or_else(|| panic!("not the ext4 after flush {acknowledged}"))
}

#[test]
fn the_file_system_in_a_killed_volume_is_that_of_the_last_flush() {
    let images = images();
    Campaign::new("kills of a sealed volume's server", 2, 70).run(|seed, random| {
        let journal: &[&str] = if seed % 2 == 0 { &JOURNAL } else { &[] };
        let scratch = Scratch::new();
        scratch.file("key", b"correct horse\n");
        scratch.file("first", &images[0]);
        let url = format!("file://{}", scratch.path("vol").display());
        let run = |words: &[&str]| scratch.atrest(&[words, &OPTIONS].concat()).ok();
        scratch
            .atrest(&[&["format", &url, "--type", "sealed", "--size", "4M"], &OPTIONS[..], &CHEAP].concat())
            .ok();
        run(&["encrypt", "first", &url, "--yes"]);
        let name = format!("sealed-{}-{seed}", std::process::id());
        let mut state = 0;
        for _ in 0..KILLS {
            let open = [&["open", &url, "--nbd", "--daemon", "--name", &name], journal].concat();
            run(&open);
            let (wanted, pause) = (1 + random.below(30), Duration::from_micros(random.below(4000)));
            let acknowledged = state
                + killed(&scratch, &name, &images, state, |flushed| {
                    flushed.wait_for(wanted);
                    thread::sleep(pause);
                });
            if !journal.is_empty() {
                // What the journal holds is stored.
                run(&open);
                scratch.atrest(&["close", &name]).ok();
            }
            run(&["decrypt", &url, "whole", "--yes"]);
            state = found(&scratch, &images, acknowledged);
        }
        run(&["gc", &url]);
        run(&["decrypt", &url, "whole", "--yes"]);
        assert_eq!(found(&scratch, &images, state), state);
    });
}
