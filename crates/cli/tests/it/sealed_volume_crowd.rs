//! Many requests of one client of NBD to a sealed volume on a server of S3 that answers late: as many are under way there at once.

use std::thread;
use std::time::Duration;

use atrest_device::BlockDevice;
use atrest_nbd::{Export, Options, Uri};
use atrest_testkit::{S3Proxy, S3Server, wait_until};

use crate::common::{CHEAP, Scratch};
use crate::sealed_volume_hangs::through;

const OPTIONS: [&str; 4] = ["--key-file", "key", "--store", "store"];
/// Requests of the client at once.
const CROWD: usize = 32;
const BLOCK: usize = 4096;

#[test]
fn random_reads_of_one_client_are_all_under_way_at_once_and_a_write_with_a_flush_is_one_request() {
    let server = S3Server::new();
    let proxy = S3Proxy::new(server.port(), Duration::ZERO);
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    let data: Vec<u8> = (0..8_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 23) as u8 | 1).collect();
    scratch.file("plain", &data);
    let url = format!("s3://{}/v", S3Server::BUCKET);
    let run = |words: &[&str]| through(&server, &proxy, &scratch, &[words, &OPTIONS].concat()).ok();
    run(&[&["format", &url, "--type", "sealed", "--size", "8M"], &CHEAP[..]].concat());
    run(&["encrypt", "plain", &url, "--yes"]);
    let name = format!("crowd-{}", std::process::id());
    run(&["open", &url, "--nbd", "--daemon", "--name", &name]);
    let told = scratch.atrest(&["status", &name, "--json"]).ok().json();
    let uri = Uri::parse(told[0]["kind"]["nbd-unix"]["uri"].as_str().expect("a URI")).expect("a URI");
    // As programs do that know of one connection.
    let mut options = Options::default();
    options.connections = 1;
    let export = Export::connect(uri, true, options).expect("it connects");
    let read = |block: usize| {
        let mut read = vec![0; BLOCK];
        export.read_at((block * BLOCK) as u64, &mut read).expect("read");
        assert!(read == data[block * BLOCK..][..BLOCK], "block {block}");
    };
    read(2047);
    // Far from one another, and in no order that anybody could read ahead in.
    let crowd = |behind: usize| {
        thread::scope(|scope| {
            for one in 0..CROWD {
                let read = &read;
                scope.spawn(move || read(one * 997 % CROWD * 60 + behind));
            }
        });
    };
    proxy.counts();
    proxy.most_ranges();
    // However much else the machine has to do: the first is answered when all of them are there.
    proxy.gather(CROWD);
    crowd(25);
    let (counts, most) = (proxy.counts(), proxy.most_ranges());
    assert!(most >= CROWD, "{most} at once, {counts:?}");
    // A block and its tag for each, and nothing of its neighbours. One that was asked for again has come once or twice.
    let (few, block) = (CROWD as u64..2 * CROWD as u64, (BLOCK + 16) as u64);
    assert!(few.contains(&counts.requests["GET"]) && counts.requests.len() == 1, "{counts:?}");
    let mut received = counts.received;
    wait_until("all answers are counted", || {
        received += proxy.counts().received;
        received >= CROWD as u64 * block
    });
    assert!(received.is_multiple_of(block) && few.contains(&(received / block)), "{received} bytes");

    export.write_at(0, &[7; BLOCK]).expect("written");
    export.flush().expect("flushed");
    let counts = proxy.counts();
    assert_eq!((counts.requests.get("PUT-NEW"), counts.requests.len()), (Some(&1), 1), "{counts:?}");
    assert!((BLOCK as u64..BLOCK as u64 + 1024).contains(&counts.sent), "{counts:?}");
    drop(export);
    scratch.atrest(&["close", &name]).ok();
}
