//! The client against nbdkit and qemu-nbd: what they serve is in a file, which is compared.

use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;

use atrest_device::{BlockDevice, Cause, Media};
use atrest_nbd::{ConnectError, Export, Options, Uri};
use atrest_testkit::{NbdServer, Random, Scratch, wait_until};

use crate::common::{connect, try_connect};

const SIZE: usize = 3 << 20;

/// A file of random bytes, and what it holds.
fn file(scratch: &Scratch, name: &str) -> (PathBuf, Vec<u8>) {
    let bytes = Random::new(SIZE as u64).bytes(SIZE);
    (scratch.file(name, &bytes), bytes)
}

fn nbdkit(filters: &[&str], path: &std::path::Path, parameters: &[&str]) -> NbdServer {
    let filters = filters.iter().map(|filter| format!("--filter={filter}"));
    let file = [String::from("file"), path.display().to_string()];
    let parameters = parameters.iter().map(|parameter| (*parameter).to_owned());
    NbdServer::nbdkit(filters.chain(file).chain(parameters))
}

/// Reads and writes here and there, of which the file must have each byte afterwards.
fn reads_and_writes(export: &Export, path: &std::path::Path, mut bytes: Vec<u8>) {
    assert_eq!(export.size(), bytes.len() as u64);
    let mut random = Random::new(7);
    for len in [1, 2, 511, 512, 513, 4096, 5000, 65_536, 100_001, SIZE] {
        let at = random.index(SIZE - len + 1);
        let mut read = vec![0; len];
        export.read_at(at as u64, &mut read).expect("reads");
        assert!(read == bytes[at..at + len], "{len} bytes at {at}");
        let other = random.bytes(len);
        export.write_at(at as u64, &other).expect("writes");
        bytes[at..at + len].copy_from_slice(&other);
    }
    export.write_zeroes(1000, 300_000).expect("writes zeros");
    bytes[1000..301_000].fill(0);
    export.flush().expect("flushes");
    assert!(fs::read(path).expect("the file") == bytes);
    let mut all = vec![1; SIZE];
    export.read_media_at(0, &mut all).expect("reads");
    assert!(all == bytes);
    for (offset, len) in [(SIZE as u64, 1), (u64::MAX, 2), (0, SIZE + 1)] {
        let error = export.read_at(offset, &mut vec![0; len]).expect_err("outside");
        assert_eq!(error.cause, Cause::OutOfBounds { size: SIZE as u64 });
    }
}

#[test]
fn nbdkit_gets_and_gives_every_byte() {
    let scratch = Scratch::new();
    for (name, filters, parameters) in [
        ("plain", &[][..], &[][..]),
        ("one connection", &["multi-conn"], &["multi-conn-mode=disable"]),
        ("no parallel requests", &["noparallel"], &["serialize=all-requests"]),
        ("without flush", &["fua"], &["fuamode=emulate"]),
        ("large blocks", &["blocksize-policy"], &["blocksize-minimum=4096", "blocksize-error-policy=error"]),
        (
            "small requests",
            &["blocksize-policy"],
            &["blocksize-maximum=8192", "blocksize-error-policy=error"],
        ),
    ] {
        let (path, bytes) = file(&scratch, name);
        let server = nbdkit(filters, &path, parameters);
        let export = connect(&server.uri());
        reads_and_writes(&export, &path, bytes);
    }
}

#[test]
fn nbdkit_without_what_is_new_gets_and_gives_every_byte() {
    let scratch = Scratch::new();
    for flag in ["--no-sr", "--mask-handshake=0", "--mask-handshake=1", "--newstyle"] {
        let (path, bytes) = file(&scratch, flag);
        let server = NbdServer::nbdkit([flag, "file", path.to_str().expect("plain letters")]);
        let export = connect(&server.uri());
        reads_and_writes(&export, &path, bytes);
    }
    let (path, _) = file(&scratch, "oldstyle");
    let server = NbdServer::nbdkit(["--oldstyle", "file", path.to_str().expect("plain letters")]);
    assert!(matches!(try_connect(&server.uri()), Err(ConnectError::Oldstyle)));
}

#[test]
fn qemu_gets_and_gives_every_byte() {
    let scratch = Scratch::new();
    let (path, bytes) = file(&scratch, "raw");
    let image = path.to_str().expect("plain letters");
    let words = ["--persistent", "--format=raw", "--export-name=disk", image];
    let server = NbdServer::qemu(words);
    assert!(matches!(try_connect(&server.uri_of("other")), Err(ConnectError::UnknownExport)));
    reads_and_writes(&connect(&server.uri_of("disk")), &path, bytes);
}

#[test]
fn many_threads_share_one_connection_and_several() {
    let scratch = Scratch::new();
    for parameters in [&[][..], &["multi-conn-mode=disable"]] {
        let (path, bytes) = file(&scratch, "shared");
        let server = nbdkit(&["multi-conn", "delay"], &path, &[&["rdelay=1ms"], parameters].concat());
        let export = connect(&server.uri());
        let (threads, part) = (16, SIZE / 16);
        let together = Barrier::new(threads);
        thread::scope(|scope| {
            for thread in 0..threads {
                let (export, bytes, together) = (&export, &bytes, &together);
                scope.spawn(move || {
                    let mut random = Random::new(thread as u64);
                    let start = thread * part;
                    let mut mine = bytes[start..start + part].to_vec();
                    together.wait();
                    for _ in 0..40 {
                        let at = random.index(part);
                        let len = 1 + random.index(part - at);
                        let mut read = vec![0; len];
                        export.read_at((start + at) as u64, &mut read).expect("reads");
                        assert!(read == mine[at..at + len]);
                        let other = random.bytes(len);
                        export.write_at((start + at) as u64, &other).expect("writes");
                        mine[at..at + len].copy_from_slice(&other);
                        if random.below(8) == 0 {
                            export.flush().expect("flushes");
                        }
                    }
                    let mut all = vec![0; part];
                    export.read_at(start as u64, &mut all).expect("reads");
                    assert!(all == mine);
                });
            }
        });
    }
}

/// Neighbours in one block of 64 KiB, of which the server takes whole ones only.
#[test]
fn writers_of_parts_of_one_block_lose_nothing() {
    let scratch = Scratch::new();
    let (path, _) = file(&scratch, "blocks");
    let parameters = ["blocksize-minimum=65536", "blocksize-preferred=65536", "blocksize-error-policy=error"];
    let server = nbdkit(&["blocksize-policy"], &path, &parameters);
    let export = connect(&server.uri());
    thread::scope(|scope| {
        // One who writes all of the next block, beside one who writes a part of it.
        scope.spawn(|| {
            for round in 0..100 {
                export.write_at(65_536, &[round; 65_536]).expect("writes");
                let mut read = [0; 1000];
                export.read_at(100_000, &mut read).expect("reads");
                assert_eq!(read, [round; 1000]);
            }
        });
        scope.spawn(|| (0..200).for_each(|_| export.write_at(70_000, &[0xaa; 100]).expect("writes")));
        for thread in 0..8_u8 {
            let export = &export;
            scope.spawn(move || {
                for round in 0..50_u8 {
                    let at = u64::from(thread) * 1000;
                    export.write_at(at, &[round ^ thread; 1000]).expect("writes");
                    let mut read = [0; 1000];
                    export.read_at(at, &mut read).expect("reads");
                    assert_eq!(read, [round ^ thread; 1000]);
                }
            });
        }
    });
}

#[test]
fn holes_are_found_and_ranges_given_back() {
    let scratch = Scratch::new();
    let path = scratch.file("sparse", []);
    let sparse = fs::File::options().write(true).open(&path).expect("the file");
    sparse.set_len(8 << 20).expect("a hole");
    let server = nbdkit(&[], &path, &[]);
    let export = connect(&server.uri());
    let all = export.extent(0, 8 << 20).expect("block status");
    assert!(all.hole && all.len == 8 << 20, "{all:?}");
    export.write_at(4 << 20, &[1; 1 << 20]).expect("writes");
    export.flush().expect("flushes");
    let before = export.extent(1 << 20, 7 << 20).expect("block status");
    assert!(before.hole && before.len == 3 << 20, "{before:?}");
    let data = export.extent((4 << 20) + 1, 1000).expect("block status");
    assert!(!data.hole && data.len <= 1000 && data.len > 0, "{data:?}");
    export.discard(4 << 20, 1 << 20).expect("trims");
    let given_back = export.extent(4 << 20, 1 << 20).expect("block status");
    assert!(given_back.hole, "{given_back:?}");

    let server = nbdkit(&["noextents"], &path, &[]);
    let export = connect(&server.uri());
    assert!(!export.extent(0, 8 << 20).expect("no answer is one").hole);
}

#[test]
fn an_export_that_can_only_be_read_is_only_read() {
    let scratch = Scratch::new();
    let (path, bytes) = file(&scratch, "read-only");
    let server = NbdServer::nbdkit(["--readonly", "file", path.to_str().expect("plain letters")]);
    assert!(matches!(try_connect(&server.uri()), Err(ConnectError::ReadOnly)));
    let export = Export::connect(Uri::parse(&server.uri()).expect("a URI"), false, Options::default());
    let export = export.expect("connects");
    assert!(export.is_read_only());
    assert_eq!(export.write_at(0, &[1]).expect_err("refused").cause, Cause::ReadOnly);
    export.flush().expect("nothing is to be flushed");
    let mut read = vec![0; SIZE];
    export.read_at(0, &mut read).expect("reads");
    assert!(read == bytes);
}

/// nbdkit's error filter fails as its file says, with the errors that the protocol knows.
#[test]
fn what_the_server_says_of_a_failure_is_told() {
    let scratch = Scratch::new();
    let (path, bytes) = file(&scratch, "failing");
    let trigger = scratch.path("fail");
    for (error, cause) in [
        ("EIO", Cause::Os(5)),
        ("ENOSPC", Cause::NoSpace),
        ("EPERM", Cause::ReadOnly),
        ("ENOMEM", Cause::Os(12)),
    ] {
        let parameters = [
            format!("error-pwrite={error}"),
            "error-pwrite-rate=100%".into(),
            format!("error-pwrite-file={}", trigger.display()),
        ];
        let server = nbdkit(&["error"], &path, &parameters.each_ref().map(String::as_str));
        let export = connect(&server.uri());
        export.write_at(10, &bytes[10..20]).expect("writes");
        fs::write(&trigger, b"").expect("the trigger");
        assert_eq!(export.write_at(10, &[1; 10]).expect_err("fails").cause, cause, "{error}");
        // The connection goes on.
        let mut read = [0; 10];
        export.read_at(10, &mut read).expect("reads");
        assert_eq!(read, bytes[10..20]);
        fs::remove_file(&trigger).expect("the trigger");
        export.write_at(10, &bytes[10..20]).expect("writes");
    }
}

#[test]
fn a_read_that_fails_in_the_middle_is_an_error_and_no_zeros() {
    let scratch = Scratch::new();
    let (path, bytes) = file(&scratch, "failing");
    for flags in [&[][..], &["--no-sr"]] {
        let words = ["--filter=error", "file", path.to_str().expect("plain letters")];
        let more = ["error-pread=EIO", "error-pread-rate=50%"];
        let server = NbdServer::nbdkit([flags, &words[..], &more].concat());
        let export = connect(&server.uri());
        let (mut failed, mut read) = (0, vec![0; 100_000]);
        for at in (0..100).map(|step| step * 1000) {
            match export.read_at(at as u64, &mut read) {
                Ok(()) => assert!(read == bytes[at..at + read.len()]),
                Err(error) => {
                    assert_eq!(error.cause, Cause::Os(5));
                    failed += 1;
                }
            }
        }
        assert!((1..100).contains(&failed), "{failed} reads failed");
    }
}

#[test]
fn a_failed_flush_is_the_last_word() {
    let scratch = Scratch::new();
    let trigger = scratch.file("fail", b"");
    let flush = format!("flush=if test -e {}; then echo EIO it fails >&2; exit 1; fi", trigger.display());
    let server = NbdServer::nbdkit([
        "eval",
        "get_size=echo 1048576",
        "pread=head -c $3 /dev/zero",
        "pwrite=cat >/dev/null",
        "can_flush=exit 0",
        &flush,
    ]);
    let export = connect(&server.uri());
    export.write_at(0, &[1]).expect("writes");
    assert_eq!(export.flush().expect_err("fails").cause, Cause::Os(5));
    fs::remove_file(&trigger).expect("the trigger");
    assert_eq!(export.flush().expect_err("fails").cause, Cause::EarlierFlushFailed);
    assert_eq!(export.write_at(0, &[1]).expect_err("fails").cause, Cause::EarlierFlushFailed);
}

/// A server that writes down what it was asked.
#[test]
fn what_must_be_durable_is_flushed_or_written_through() {
    let scratch = Scratch::new();
    let log = scratch.file("log", b"");
    for (flush, fua, expected) in
        [("exit 0", "echo none", "write \nflush\nread\n"), ("exit 3", "echo native", "write fua\nread\n")]
    {
        fs::write(&log, b"").expect("the log");
        let note = |what: &str| format!("echo \"{what}\" >> {}", log.display());
        let server = NbdServer::nbdkit([
            "eval".into(),
            "get_size=echo 1048576".into(),
            format!("pread={}; head -c $3 /dev/zero", note("read")),
            format!("pwrite={}; cat >/dev/null", note("write $5")),
            format!("flush={}", note("flush")),
            format!("can_flush={flush}"),
            format!("can_fua={fua}"),
        ]);
        let export = connect(&server.uri());
        export.write_at(0, &[1; 4096]).expect("writes");
        export.read_media_at(0, &mut [0; 4096]).expect("reads");
        assert_eq!(fs::read_to_string(&log).expect("the log"), expected);
    }
}

#[test]
fn a_server_that_dies_takes_every_waiting_request_along() {
    let scratch = Scratch::new();
    let (path, _) = file(&scratch, "dying");
    let mut server = nbdkit(&["delay"], &path, &["rdelay=300"]);
    let export = connect(&server.uri());
    thread::scope(|scope| {
        let readers: Vec<_> = (0..6)
            .map(|at| {
                scope.spawn({
                    let export = &export;
                    move || export.read_at(at, &mut [0; 4096]).expect_err("the server is dead").cause
                })
            })
            .collect();
        // A write is not delayed: once it is through, the server has the connection.
        export.write_at(0, &[1]).expect("writes");
        server.kill();
        for reader in readers {
            assert_eq!(reader.join().expect("ends"), Cause::Gone);
        }
    });
    assert_eq!(export.read_at(0, &mut [0]).expect_err("gone").cause, Cause::Gone);
    assert_eq!(export.write_at(0, &[0]).expect_err("gone").cause, Cause::Gone);
    assert_eq!(export.flush().expect_err("gone").cause, Cause::Gone);
    assert!(matches!(try_connect(&server.uri()), Err(ConnectError::Connect(_))));
}

#[test]
fn more_connections_are_opened_when_requests_would_wait_and_all_are_closed() {
    let scratch = Scratch::new();
    let (path, _) = file(&scratch, "several");
    let sockets = |id: u32| {
        let fds = fs::read_dir(format!("/proc/{id}/fd")).expect("its descriptors");
        fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok())
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count()
    };
    let server = nbdkit(&["delay"], &path, &["rdelay=200ms"]);
    let export = connect(&server.uri());
    export.read_at(0, &mut [0]).expect("reads");
    let alone = sockets(server.id());
    thread::scope(|scope| {
        for at in 0..12 {
            let export = &export;
            scope.spawn(move || export.read_at(at, &mut [0; 16]).expect("reads"));
        }
    });
    let together = sockets(server.id());
    assert!((alone + 1..=alone + 3).contains(&together), "{alone} sockets, then {together}");
    drop(export);
    wait_until("all connections are closed", || sockets(server.id()) == alone - 1);
}

#[test]
fn who_is_not_there_and_who_is_no_server_is_told() {
    let scratch = Scratch::new();
    let nobody = format!("nbd+unix:///?socket={}", scratch.path("nobody").display());
    assert!(matches!(try_connect(&nobody), Err(ConnectError::Connect(_))));
    assert!(matches!(try_connect("nbd://name.invalid/"), Err(ConnectError::Resolve(_))));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    drop(listener);
    assert!(matches!(try_connect(&format!("nbd://127.0.0.1:{port}")), Err(ConnectError::Connect(_))));
}

#[test]
fn tcp_and_ipv6_reach_a_server() {
    let scratch = Scratch::new();
    let (path, bytes) = file(&scratch, "tcp");
    let server = NbdServer::nbdkit_by_tcp(["file", path.to_str().expect("plain letters")]);
    reads_and_writes(&connect(&server.uri()), &path, bytes);
}
