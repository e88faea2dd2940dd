//! The NBD server against the clients that people use: libnbd's tools, QEMU's and fio.

use crate::common::{Memory, Serving, run, try_run};
use atrest_attach::nbd::{Endpoint, Options, Server};
use atrest_testkit::Scratch;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SIZE: u64 = 32 << 20;

fn serving() -> (Arc<Memory>, Serving) {
    let memory = Arc::new(Memory::new(SIZE));
    (memory.clone(), Serving::start(memory))
}

#[test]
fn nbdinfo_reports_what_is_offered() {
    let (memory, serving) = serving();
    let info = run("nbdinfo", &["--json", &serving.uri]);
    for fact in [
        "\"export-size\": 33554432",
        "\"structured\": true",
        "\"is_read_only\": false",
        "\"can_df\": true",
        "\"can_flush\": true",
        "\"can_fua\": true",
        "\"can_multi_conn\": true",
        "\"can_trim\": true",
        "\"can_zero\": true",
        "\"can_fast_zero\": false",
        "\"block_size_minimum\": 1",
        "\"block_size_preferred\": 4096",
        "\"block_size_maximum\": 33554432",
        "base:allocation",
    ] {
        assert!(info.contains(fact), "{fact} is not in {info}");
    }
    memory.holes.lock().unwrap()[1..3].fill(true);
    let map = run("nbdinfo", &["--map", "--json", &serving.uri]);
    let words: String = map.split_whitespace().collect();
    assert!(words.contains("\"offset\":4096,\"length\":8192,\"type\":3"), "{map}");
    let list = run("nbdinfo", &["--list", &serving.uri]);
    assert!(list.contains("export=\"\""), "{list}");
    drop(serving);
    let serving = Serving::start(Arc::new(Memory::read_only(SIZE)));
    assert!(run("nbdinfo", &[&serving.uri]).contains("is_read_only: true"));
}

#[test]
fn nbdcopy_reads_and_writes_every_byte_over_several_connections() {
    let (memory, serving) = serving();
    let file = serving.directory.path("copy");
    let file = file.to_str().unwrap();
    run("nbdcopy", &["--connections=4", &serving.uri, file]);
    assert!(std::fs::read(file).unwrap() == memory.copy());
    let other = Memory::new(SIZE).copy().into_iter().rev().collect::<Vec<u8>>();
    std::fs::write(file, &other).unwrap();
    run("nbdcopy", &["--connections=4", "--flush", file, &serving.uri]);
    assert!(memory.copy() == other);
    assert!(memory.flushes.load(Ordering::SeqCst) > 0);
    // Without structured replies and several connections, in large requests.
    run("nbdcopy", &["--synchronous", "--request-size=33554432", "--connections=1", &serving.uri, file]);
    assert!(std::fs::read(file).unwrap() == other);
}

#[test]
fn qemu_img_converts_compares_and_maps() {
    let (memory, serving) = serving();
    let file = serving.directory.path("qcow2");
    let file = file.to_str().unwrap();
    run("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &serving.uri, file]);
    run("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", &serving.uri, file]);
    memory.bytes.lock().unwrap().fill(7);
    assert!(!try_run("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", &serving.uri, file]).is_ok());
    run("qemu-img", &["convert", "-n", "-W", "-f", "qcow2", "-O", "raw", file, &serving.uri]);
    run("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", &serving.uri, file]);
}

#[test]
fn qemu_io_sees_zeros_trims_and_errors() {
    let (memory, serving) = serving();
    let mut expected = memory.copy();
    let script = |commands: &[&str]| {
        let mut arguments = vec!["-f", "raw"];
        for command in commands {
            arguments.extend(["-c", command]);
        }
        arguments.push(&serving.uri);
        try_run("qemu-io", &arguments)
    };
    let done = script(&["write -P 0x5a 1000 70000", "write -z 1M 2M", "read -P 0x5a 1000 70000", "flush"]);
    assert!(done.is_ok(), "{done:?}");
    expected[1000..71000].fill(0x5a);
    expected[1 << 20..3 << 20].fill(0);
    assert!(memory.copy() == expected);
    assert!(script(&["discard 4M 1M"]).is_ok());
    assert!(memory.discards.load(Ordering::SeqCst) > 0);
    *memory.broken.lock().unwrap() = Some((8191, atrest_device::Cause::Os(5)));
    let failed = script(&["read 0 32M"]);
    let text = String::from_utf8_lossy(&failed.stdout) + String::from_utf8_lossy(&failed.stderr);
    assert!(text.contains("Input/output error"), "{text}");
    let refused = Serving::start(Arc::new(Memory::read_only(SIZE)));
    let write = try_run("qemu-io", &["-f", "raw", "-c", "write 0 4096", &refused.uri]);
    assert!(!write.is_ok());
}

#[test]
fn fio_verifies_what_it_wrote_at_random_with_many_requests_under_way() {
    let (_memory, serving) = serving();
    let uri = format!("--uri={}", serving.uri);
    let common =
        ["--name=verify", "--ioengine=nbd", &uri, "--size=32M", "--verify=crc32c", "--verify_state_save=0"];
    for mode in
        [&["--rw=randwrite", "--bs=4k", "--iodepth=32"], &["--rw=randwrite", "--bs=300k", "--iodepth=8"]]
    {
        run("fio", &[&common[..], &mode[..]].concat());
    }
    run("fio", &[&common[..], &["--rw=randtrim", "--bs=64k", "--do_verify=0", "--iodepth=4"]].concat());
}

#[test]
fn tcp_serves_on_loopback() {
    let memory = Arc::new(Memory::new(SIZE));
    let endpoint = Endpoint::Tcp("127.0.0.1:0".parse().unwrap());
    let server = Server::bind(memory.clone(), &endpoint, Options::default()).unwrap();
    let (uri, shutdown) = (server.uri(), server.shutdown());
    assert!(!uri.ends_with(":0/"), "{uri} has the port that was chosen");
    let thread = std::thread::spawn(|| server.run());
    let scratch = Scratch::new();
    run("nbdcopy", &[&uri, scratch.file("copy", b"").to_str().unwrap()]);
    assert!(scratch.read("copy") == memory.copy());
    shutdown.start();
    thread.join().unwrap().unwrap();
}
