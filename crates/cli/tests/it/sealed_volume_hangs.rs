//! A sealed volume on a server of S3 that hangs, breaks off in the middle of a body, or answers late: who reads is told so after the time that
//! --patience names, and reads again later; what was asked of the server is shown.

use std::thread;
use std::time::{Duration, Instant};

use atrest_device::BlockDevice;
use atrest_nbd::{Export, Options, Uri};
use atrest_testkit::{Manner, S3Proxy, S3Server};

use crate::common::{CHEAP, Ran, Scratch};

const OPTIONS: [&str; 4] = ["--key-file", "key", "--store", "store"];
const PATIENCE: Duration = Duration::from_secs(2);
/// Only a test that fails waits so long: one request may have begun just before the end.
const LONG: Duration = Duration::from_secs(60);

/// A command that finds the server through the proxy.
pub fn through(server: &S3Server, proxy: &S3Proxy, scratch: &Scratch, args: &[&str]) -> Ran {
    let mut program = scratch.program(env!("CARGO_BIN_EXE_atrest")).args(args).without_terminal();
    for (name, value) in server.environment() {
        let way = format!("http://127.0.0.1:{}", proxy.port());
        program = program.env(name, if name == "AWS_ENDPOINT_URL_S3" { &way } else { &value });
    }
    program.run().into()
}

#[test]
fn who_reads_from_a_store_that_hangs_is_told_in_time_and_reads_again_later() {
    let server = S3Server::new();
    let proxy = S3Proxy::new(server.port(), Duration::from_millis(3));
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    let url = format!("s3://{}/v", S3Server::BUCKET);
    let run = |words: &[&str]| through(&server, &proxy, &scratch, words);
    run(&[&["format", &url, "--type", "sealed", "--size", "64M"], &OPTIONS[..], &CHEAP].concat()).ok();
    let name = format!("hangs-{}", std::process::id());
    let open = ["open", &url, "--nbd", "--daemon", "--name", &name, "--patience", "2"];
    let export = || {
        run(&[&open[..], &OPTIONS].concat()).ok();
        let told = scratch.atrest(&["status", &name, "--json"]).ok().json();
        let uri = told[0]["kind"]["nbd-unix"]["uri"].as_str().expect("a URI").to_owned();
        Export::connect(Uri::parse(&uri).expect("a URI"), true, Options::default()).expect("it connects")
    };
    let data: Vec<u8> = (0..4_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 23) as u8 | 1).collect();
    let volume = export();
    volume.write_at(0, &data).expect("written");
    volume.flush().expect("flushed");
    drop(volume);
    run(&["close", &name]).ok();

    let volume = export();
    let read = |at: usize| {
        let mut read = vec![0; 64 << 10];
        volume.read_at(at as u64, &mut read).map(|()| read == data[at..at + (64 << 10)])
    };
    assert_eq!(read(0).ok(), Some(true));
    proxy.counts();
    proxy.answer(Manner::Silent);
    let begun = Instant::now();
    // Several at once, which do not wait for one another.
    let failed = thread::scope(|scope| {
        let read = &read;
        let all: Vec<_> = (1..6).map(|part| scope.spawn(move || read(part * (512 << 10)).is_err())).collect();
        all.into_iter().all(|one| one.join().expect("no panic"))
    });
    let took = begun.elapsed();
    assert!(failed && took >= PATIENCE && took < LONG, "{took:?}");
    // What is in memory is read all the same.
    assert_eq!(read(0).ok(), Some(true));
    proxy.answer(Manner::Usual);
    thread::sleep(Duration::from_secs(2));
    for part in 1..8 {
        assert_eq!(read(part * (512 << 10)).ok(), Some(true), "part {part}");
    }
    let metrics = &scratch.atrest(&["status", &name, "--json"]).ok().json()[0]["metrics"]["store"];
    let count = |kind: &str| metrics["requests"][kind].as_u64().expect("a figure");
    assert!(count("get") > 8 && count("list") >= 1 && count("put_new") >= 1, "{metrics}");
    assert!(metrics["failed"].as_u64() >= Some(1), "{metrics}");
    assert!(metrics["received_bytes"].as_u64() >= Some(8 * (64 << 10)), "{metrics}");
    let shown = scratch.atrest(&["status", &name]).ok().stdout;
    assert!(shown.contains("store: ") && shown.contains(" put_new"), "{shown}");
    let info = run(&["info", &url]).ok().stdout;
    assert!(info.contains(&format!("open as {name}: store: ")), "{info}");
    assert!(run(&["info", "--json", &url]).ok().json()["open"][&name]["requests"]["get"].as_u64() > Some(8));

    // Half a body is none, whether its length was told or not.
    run(&["close", &name]).ok();
    for manner in [Manner::Half, Manner::HalfWithoutLength] {
        proxy.answer(Manner::Usual);
        let volume = export();
        proxy.answer(manner);
        let mut read = vec![0; 64 << 10];
        assert!(volume.read_at(1 << 20, &mut read).is_err(), "{manner:?}");
        proxy.answer(Manner::Usual);
        thread::sleep(Duration::from_secs(2));
        volume.read_at(1 << 20, &mut read).expect("read");
        assert!(read == data[1 << 20..(1 << 20) + (64 << 10)], "{manner:?}");
        drop(volume);
        run(&["close", &name]).ok();
    }
}

#[test]
fn a_flush_to_a_store_that_hangs_fails_for_good_and_readers_do_not_wait_for_it() {
    let server = S3Server::new();
    let proxy = S3Proxy::new(server.port(), Duration::ZERO);
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    let url = format!("s3://{}/v", S3Server::BUCKET);
    let run = |words: &[&str]| through(&server, &proxy, &scratch, words);
    run(&[&["format", &url, "--type", "sealed", "--size", "64M"], &OPTIONS[..], &CHEAP].concat()).ok();
    let name = format!("waits-{}", std::process::id());
    run(&[&["open", &url, "--nbd", "--daemon", "--name", &name, "--patience", "3"], &OPTIONS[..]].concat())
        .ok();
    let told = scratch.atrest(&["status", &name, "--json"]).ok().json();
    let uri = told[0]["kind"]["nbd-unix"]["uri"].as_str().expect("a URI").to_owned();
    let volume =
        Export::connect(Uri::parse(&uri).expect("a URI"), true, Options::default()).expect("it connects");
    volume.write_at(0, &[7; 8192]).expect("written");
    volume.flush().expect("flushed");
    volume.write_at(8192, &[8; 8192]).expect("written");
    proxy.answer(Manner::Silent);
    thread::scope(|scope| {
        let flush = scope.spawn(|| volume.flush());
        thread::sleep(Duration::from_millis(300));
        let begun = Instant::now();
        let mut read = vec![0; 8192];
        volume.read_at(8192, &mut read).expect("what is on its way is read");
        assert!(read == [8; 8192] && begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
        assert!(flush.join().expect("no panic").is_err());
    });
    proxy.answer(Manner::Usual);
    assert!(volume.write_at(0, &[9; 4096]).is_err() && volume.flush().is_err());
    drop(volume);
    // What was acknowledged is there.
    scratch.atrest(&["close", &name]);
    let read = run(&[&["decrypt", &url, "whole"], &OPTIONS[..]].concat());
    read.ok();
    assert!(scratch.read("whole")[..8192] == [7; 8192]);
}
