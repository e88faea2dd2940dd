//! A sealed volume on a real server of S3. Its own server is killed in the middle of writes, again and again, and now and then that of S3
//! as well: the ext4 inside is the one of the last flush that was acknowledged, or of the one under way, to the byte.

use std::thread;
use std::time::Duration;

use atrest_testkit::{Campaign, S3Server};

use crate::common::{CHEAP, Scratch};
use crate::sealed_volume_kills::{found, images, killed};
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
            let (wanted, pause) = (1 + random.below(10), Duration::from_micros(random.below(20_000)));
            let away = Duration::from_millis(random.below(300));
            let acknowledged = state
                + killed(&scratch, &name, &images, state, |flushed| {
                    flushed.wait_for(wanted);
                    thread::sleep(pause);
                    if kill == 1 {
                        server.kill();
                        thread::sleep(away);
                        server.restart();
                        // Who writes has waited, and goes on. The one under way when it was killed may be the first.
                        flushed.wait_for(flushed.count() + 2);
                    }
                });
            run(&server, &["decrypt", &url, "whole", "--yes"]);
            state = found(&scratch, &images, acknowledged);
        }
        run(&server, &["gc", &url]);
        run(&server, &["decrypt", &url, "whole", "--yes"]);
        assert_eq!(found(&scratch, &images, state), state);
    });
}
