//! A server of S3 that refuses, does what it refuses, repeats, reorders, hangs, and then behaves, while a sealed volume on it is written by NBD:
//! every flush is acknowledged in the end, and what was flushed is there when the volume is opened again.

use std::thread;
use std::time::Duration;

use atrest_device::BlockDevice;
use atrest_nbd::{Export, Options, Uri};
use atrest_testkit::{Manner, S3Proxy, S3Server, wait_until};

use crate::common::{CHEAP, Scratch};
use crate::sealed_volume_hangs::through;

const OPTIONS: [&str; 4] = ["--key-file", "key", "--store", "store"];
const BLOCK: usize = 4096;
const WRITERS: usize = 4;
/// Blocks of each writer.
const EACH: usize = 6;
/// A block that is read from the store in each round, so far from the others that nobody fetches it ahead.
const COLD: usize = 4095;

fn contents(at: usize, version: u8) -> Vec<u8> {
    (0..BLOCK).map(|byte| (byte * 31 + at * 7 + usize::from(version) * 101) as u8 | 1).collect()
}

#[test]
fn what_was_flushed_is_there_whatever_the_store_did_before_it_behaved() {
    let server = S3Server::new();
    let proxy = S3Proxy::new(server.port(), Duration::ZERO);
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    let url = format!("s3://{}/v", S3Server::BUCKET);
    let run = |words: &[&str]| through(&server, &proxy, &scratch, &[words, &OPTIONS].concat()).ok();
    run(&[&["format", &url, "--type", "sealed", "--size", "16M"], &CHEAP[..]].concat());
    let name = format!("adversary-{}", std::process::id());
    let open = || {
        run(&["open", &url, "--nbd", "--daemon", "--name", &name, "--patience", "60"]);
        let told = scratch.atrest(&["status", &name, "--json"]).ok().json();
        let uri = Uri::parse(told[0]["kind"]["nbd-unix"]["uri"].as_str().expect("a URI")).expect("a URI");
        Export::connect(uri, true, Options::default()).expect("it connects")
    };
    let manners = [
        Manner::Refused,
        Manner::RefusedAndDone,
        Manner::Twice,
        Manner::Reordered,
        Manner::Silent,
        Manner::Half,
    ];
    for (number, manner) in (1_u8..).zip(manners) {
        let holds = |export: &Export, version: u8| {
            for at in 0..WRITERS * EACH {
                let mut read = vec![0; BLOCK];
                export.read_at((at * BLOCK) as u64, &mut read).expect("read");
                assert!(read == contents(at, version), "block {at}, {manner:?}");
            }
        };
        let export = open();
        match number {
            1 => export.write_at((COLD * BLOCK) as u64, &contents(COLD, 0)).expect("written"),
            _ => holds(&export, 2 * (number - 1)),
        }
        proxy.answer(manner);
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let export = &export;
                scope.spawn(move || {
                    for version in [2 * number - 1, 2 * number] {
                        for at in writer * EACH..(writer + 1) * EACH {
                            export.write_at((at * BLOCK) as u64, &contents(at, version)).expect("written");
                            if at % 2 == 0 {
                                export.flush().expect("flushed");
                            }
                        }
                        export.flush().expect("flushed");
                    }
                });
            }
            let read = scope.spawn(|| {
                let mut read = vec![0; BLOCK];
                export.read_at((COLD * BLOCK) as u64, &mut read).expect("read");
                assert!(read == contents(COLD, 0), "{manner:?}");
            });
            // It behaves after a while, and not before somebody has met what it does.
            thread::sleep(Duration::from_millis(400));
            wait_until("a request meets it", || proxy.met(manner) > 0);
            if manner == Manner::Half {
                assert!(!read.is_finished(), "half a body is taken for a block");
            }
            proxy.answer(Manner::Usual);
        });
        holds(&export, 2 * number);
        drop(export);
        // Each time one way to end: in good order, or not.
        if number % 2 == 0 {
            scratch.atrest(&["close", &name]).ok();
        } else {
            let process =
                scratch.atrest(&["status", &name, "--json"]).ok().json()[0]["process"]["pid"].clone();
            let gone =
                format!("kill -9 {process}; while kill -0 {process} 2> /dev/null; do sleep 0.01; done");
            scratch.bash(&gone).ok();
        }
    }
    run(&["scrub", &url]);
    run(&["gc", &url]);
    run(&["decrypt", &url, "whole"]);
    let whole = scratch.read("whole");
    let last = 2 * manners.len() as u8;
    assert!((0..WRITERS * EACH).all(|at| whole[at * BLOCK..][..BLOCK] == contents(at, last)));
    assert!(whole[COLD * BLOCK..] == contents(COLD, 0));
}
