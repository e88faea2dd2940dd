//! A sealed volume on a real server of S3. Its own server is killed in the middle of writes, again and again, and now and then that of S3
//! as well: the ext4 inside is the one of the last flush that was acknowledged, or of the one under way, to the byte.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use atrest_device::BlockDevice;
use atrest_nbd::{Export, Options, Uri};
use atrest_testkit::{Campaign, S3Server};

use crate::common::{CHEAP, Scratch};
use crate::sealed_volume_kills::{IMAGES, change, images};
use crate::sealed_volume_s3::at;

/// Times that one volume's server is killed. In the second of them that of S3 is killed before.
const KILLS: usize = 4;
const OPTIONS: [&str; 4] = ["--key-file", "key", "--store", "store"];

#[test]
fn the_file_system_on_s3_is_that_of_the_last_flush_whoever_is_killed() {
    let images = images();
    Campaign::new("kills of a sealed volume on S3, and of its server", 1, 50).run(|seed, random| {
        let mut server = S3Server::new();
        let scratch = Scratch::new();
        scratch.file("key", b"correct horse\n");
        scratch.file("first", &images[0]);
        let url = format!("s3://{}/v", S3Server::BUCKET);
        let run = |server: &S3Server, words: &[&str]| at(server, &scratch, &[words, &OPTIONS].concat()).ok();
        run(&server, &[&["format", &url, "--type", "sealed", "--size", "4M"], &CHEAP[..]].concat());
        run(&server, &["encrypt", "first", &url, "--yes"]);
        let name = format!("s3-{}-{seed}", std::process::id());
        let mut state = 0;
        for kill in 0..KILLS {
            run(&server, &["open", &url, "--nbd", "--daemon", "--name", &name]);
            let told = scratch.atrest(&["status", &name, "--json"]).ok().json();
            let uri = told[0]["kind"]["nbd-unix"]["uri"].as_str().expect("a URI").to_owned();
            let process = told[0]["process"]["pid"].as_u64().expect("a process");
            let export = Export::connect(Uri::parse(&uri).expect("a URI"), true, Options::default());
            let export = export.expect("it connects");
            let flushes = AtomicU64::new(0);
            let (wanted, pause) = (1 + random.below(10), Duration::from_micros(random.below(20_000)));
            let away = Duration::from_millis(random.below(300));
            thread::scope(|scope| {
                scope.spawn(|| {
                    for at in state.. {
                        let (from, to) = (&images[at % IMAGES], &images[(at + 1) % IMAGES]);
                        if !change(&export, from, to) || export.flush().is_err() {
                            return;
                        }
                        flushes.fetch_add(1, Ordering::Release);
                    }
                });
                let until = |wanted: u64| {
                    let deadline = Instant::now() + Duration::from_secs(120);
                    while flushes.load(Ordering::Acquire) < wanted {
                        assert!(Instant::now() < deadline, "nothing is written");
                        thread::sleep(Duration::from_micros(200));
                    }
                };
                until(wanted);
                thread::sleep(pause);
                if kill == 1 {
                    server.kill();
                    thread::sleep(away);
                    server.restart();
                    // Who writes has waited, and goes on. The one under way when it was killed may be the first.
                    until(flushes.load(Ordering::Acquire) + 2);
                }
                let gone =
                    format!("kill -9 {process}; while kill -0 {process} 2> /dev/null; do sleep 0.01; done");
                scratch.bash(&gone).ok();
            });
            let acknowledged = state + flushes.load(Ordering::Acquire) as usize;
            run(&server, &["decrypt", &url, "whole", "--yes"]);
            let whole = scratch.read("whole");
            let found = (acknowledged..=acknowledged + 1).find(|at| whole == images[at % IMAGES]);
            state = found.unwrap_or_else(|| panic!("kill {kill}: not the ext4 after flush {acknowledged}"));
            scratch.tool("e2fsck", &["-fn", "whole"]).ok();
        }
        run(&server, &["gc", &url]);
        run(&server, &["decrypt", &url, "whole", "--yes"]);
        assert!(scratch.read("whole") == images[state % IMAGES]);
    });
}
