//! The figures of a served volume: what faces count, and a server of figures that nobody can hold up.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use atrest_attach::metrics::{AskError, Metrics, Operation, OperationMetrics, Server, Socket, ask};
use atrest_attach::nbd::BindError;
use atrest_attach::session::Watched;
use atrest_device::{BlockDevice, Cause};
use atrest_testkit::oracle::Program;
use atrest_testkit::{Scratch, needs, wait_until};

use crate::common::{BLOCK, Memory, Serving, run, try_run};

const SIZE: u64 = 8 << 20;
const SOON: Duration = Duration::from_secs(20);

/// A device whose figures are told.
struct Told {
    device: Arc<Memory>,
    watched: Arc<Watched>,
    directory: Scratch,
    _server: Server,
}

impl Told {
    fn new() -> Told {
        let device = Arc::new(Memory::new(SIZE));
        let watched = Arc::new(Watched::new(device.clone()));
        let directory = Scratch::new();
        let socket = Socket::bind(&directory.path("metrics")).expect("a socket");
        let server = Server::start(vec![socket], "vol", watched.clone()).expect("a server");
        Told { device, watched, directory, _server: server }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path("metrics")
    }

    fn ask(&self) -> Metrics {
        ask(&self.socket(), SOON).expect("figures")
    }

    fn of(&self, operation: Operation) -> OperationMetrics {
        self.ask().operations.remove(&operation).expect("every operation is there")
    }

    /// Says something, and returns what comes until the connection ends.
    fn say(&self, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(self.socket()).expect("it listens");
        stream.set_read_timeout(Some(SOON)).expect("a socket");
        // What is longer than a request may find nobody who reads it.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).expect("text")
    }

    fn curl(&self, path: &str) -> String {
        let socket = self.socket();
        let socket = socket.to_str().expect("plain letters");
        run("curl", &["--silent", "--fail", "--unix-socket", socket, &format!("http://localhost{path}")])
    }
}

#[test]
fn figures_of_nbd_are_those_of_its_clients_load() {
    let told = Told::new();
    let serving = Serving::start(told.watched.clone());
    let io = |commands: &[&str]| {
        let words: Vec<&str> = commands.iter().flat_map(|command| ["-c", *command]).collect();
        run("qemu-io", &[&["-f", "raw", "--cache=none"], &words[..], &[&serving.uri]].concat());
    };
    // Whatever opening it takes is no part of the load.
    io(&[]);
    let before = told.ask();
    io(&["read 0 4k", "read 4k 4k", "read 8k 64k", "write 0 4k", "write 64k 128k", "flush"]);
    let after = told.ask();
    let grown = |operation: Operation| {
        let (before, after) = (&before.operations[&operation], &after.operations[&operation]);
        assert_eq!((after.errors, after.in_flight), (0, 0), "{operation:?}");
        (after.requests - before.requests, after.bytes - before.bytes)
    };
    assert_eq!(grown(Operation::Read), (3, (4 + 4 + 64) << 10));
    assert_eq!(grown(Operation::Write), (2, (4 + 128) << 10));
    // QEMU flushes once more when it closes.
    assert!(grown(Operation::Flush).0 >= 1);
    // A long request counts as the parts that the server cuts it into.
    let reads = told.of(Operation::Read);
    io(&["read 0 1M"]);
    let parts = told.of(Operation::Read);
    assert_eq!((parts.requests - reads.requests, parts.bytes - reads.bytes), (4, 1 << 20));
    serving.stop().expect("stops in order");
}

#[test]
fn a_failing_device_is_counted_and_a_failed_flush_is_told() {
    let told = Told::new();
    let serving = Serving::start(told.watched.clone());
    *told.device.broken.lock().unwrap() = Some((2, Cause::Os(5)));
    for at in ["8k", "12k"] {
        let read = try_run("qemu-io", &["-f", "raw", "-c", &format!("read {at} 4k"), &serving.uri]);
        assert_eq!(read.is_ok(), at == "12k", "{at}");
    }
    let read = told.of(Operation::Read);
    assert!(read.errors >= 1 && read.errors < read.requests, "{read:?}");
    assert!(!told.ask().failed && told.curl("/metrics").contains("atrest_volume_failed{volume=\"vol\"} 0"));
    told.device.flush_fails.store(true, std::sync::atomic::Ordering::SeqCst);
    told.watched.flush().expect_err("it fails");
    assert_eq!(told.of(Operation::Flush).errors, 1);
    assert!(told.ask().failed && told.curl("/metrics").contains("atrest_volume_failed{volume=\"vol\"} 1"));
    told.device.flush_fails.store(false, std::sync::atomic::Ordering::SeqCst);
    serving.stop().expect("stops in order");
}

#[test]
fn a_request_that_hangs_is_in_flight_and_the_figures_are_told_meanwhile() {
    let told = Told::new();
    told.device.open_gate(false);
    std::thread::scope(|scope| {
        for at in 0..3 {
            let watched = &told.watched;
            scope.spawn(move || watched.write_at(at * BLOCK, &[0; 512]).expect("written"));
        }
        wait_until("three writes hang", || told.of(Operation::Write).in_flight == 3);
        assert_eq!(told.of(Operation::Write).requests, 0);
        let line = "atrest_requests_in_flight{volume=\"vol\",operation=\"write\"} 3";
        assert!(told.curl("/metrics").lines().any(|found| found == line));
        told.device.open_gate(true);
    });
    let write = told.of(Operation::Write);
    assert_eq!((write.in_flight, write.requests, write.bytes), (0, 3, 3 * 512));
    assert!(write.seconds > 0.0);
}

/// Reads the text as Prometheus' own library for Python does, and checks histograms as its server does.
const PARSE: &str = r#"
import sys
try:
    from prometheus_client.parser import text_string_to_metric_families as parse
except ImportError:
    sys.exit("python3-prometheus-client is missing; scripts/setup installs it")
families = {family.name: family for family in parse(sys.stdin.read())}
print("families", *sorted(families))
for family in families.values():
    assert family.documentation and family.type in ("counter", "gauge", "histogram"), family
def value(name, **labels):
    found = [s.value for f in families.values() for s in f.samples if s.name == name and s.labels == {"volume": "vol", **labels}]
    assert len(found) == 1, (name, labels, found)
    return found[0]
for operation in ("read", "write", "flush", "discard", "write_zeroes", "extent"):
    buckets = [(float(s.labels["le"]), s.value) for s in families["atrest_request_duration_seconds"].samples
               if s.name.endswith("_bucket") and s.labels["operation"] == operation]
    assert len(buckets) == 25 and buckets == sorted(buckets) and buckets[-1][0] == float("inf"), buckets
    assert [count for _, count in buckets] == sorted(count for _, count in buckets), buckets
    count = value("atrest_request_duration_seconds_count", operation=operation)
    assert buckets[-1][1] == count == value("atrest_requests_total", operation=operation)
    total = value("atrest_request_duration_seconds_sum", operation=operation)
    longest = [le for le, n in buckets if n == count][0]
    assert total <= count * longest, (total, count, longest)
    print(operation, int(count), int(value("atrest_request_bytes_total", operation=operation)),
          int(value("atrest_request_errors_total", operation=operation)))
print("size", int(value("atrest_volume_size_bytes")))
"#;

#[test]
fn the_text_is_read_by_prometheus_own_parser() {
    let told = Told::new();
    let mut block = vec![0; 4096];
    told.watched.read_at(0, &mut block).expect("read");
    assert!(told.watched.read_if_cached(0, &mut block).expect("read"));
    assert!(!told.watched.read_if_cached(4096, &mut block).expect("not read"));
    told.watched.read_at(SIZE, &mut block).expect_err("outside");
    told.watched.write_at(512, &block).expect("written");
    told.watched.write_consuming(0, &mut block[..1]).expect("written");
    told.watched.flush().expect("flushed");
    told.watched.discard(0, 8192).expect("discarded");
    told.watched.write_zeroes(0, 5000).expect("written");
    told.watched.extent(0, SIZE).expect("an extent");
    let page = told.curl("/metrics");
    // Debian's own, which Debian's packages are for.
    let parsed = Program::at("/usr/bin/python3")
        .args(["-c", PARSE])
        .stdin(page.into_bytes())
        .run()
        .expect_code(0)
        .text();
    let expected = "families atrest_build_info atrest_request_bytes atrest_request_duration_seconds \
                    atrest_request_errors atrest_requests atrest_requests_in_flight atrest_volume_failed \
                    atrest_volume_size_bytes\n\
                    read 3 8192 1\nwrite 2 4097 0\nflush 1 0 0\ndiscard 1 8192 0\nwrite_zeroes 1 5000 0\n\
                    extent 1 0 0\nsize 8388608\n";
    assert_eq!(parsed, expected);
}

#[test]
fn curl_and_scrapers_are_answered_as_http_wants_it() {
    let told = Told::new();
    let socket = told.socket();
    let head =
        run("curl", &["-sSI", "--unix-socket", socket.to_str().expect("plain letters"), "http://x/metrics"]);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{head}");
    let len: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .and_then(|len| len.trim().parse().ok())
        .expect("a length");
    assert_eq!(told.curl("/metrics").len(), len);
    serde_json::from_str::<Metrics>(&told.curl("/metrics.json")).expect("JSON");
    // One byte at a time, as a request may come.
    let mut slow = UnixStream::connect(&socket).expect("it listens");
    for byte in b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n" {
        slow.write_all(&[*byte]).expect("it reads");
    }
    let mut answer = String::new();
    slow.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with('\n'), "{answer}");
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", "405"),
        ("nonsense\r\n\r\n", "400"),
        ("GET /metrics HTTP/3.7\r\n\r\n", "505"),
    ] {
        let answer = told.say(request.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
    }
}

#[test]
fn a_huge_request_is_refused_after_as_much_as_a_request_can_be() {
    let told = Told::new();
    let long = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; 16 << 20]].concat();
    let answer = told.say(&long);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let long = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; 8 << 10], b"\r\n\r\n"].concat();
    assert!(told.say(&long).starts_with("HTTP/1.1 431 "));
    told.ask();
}

#[test]
fn clients_that_are_slow_or_many_or_do_not_read_keep_nobody_from_the_figures() {
    let told = Told::new();
    let connect = || UnixStream::connect(told.socket()).expect("it listens");
    // More than have a place, and each says a little and stays.
    let mut slow: Vec<UnixStream> = Vec::new();
    for each in 0..200 {
        let mut stream = connect();
        stream.write_all(b"GET /metr").expect("it reads");
        slow.push(stream);
        if each % 20 == 0 {
            let begun = Instant::now();
            told.ask();
            assert!(begun.elapsed() < Duration::from_secs(4), "after {each}: {:?}", begun.elapsed());
        }
    }
    // Whoever came first had to make room, and the newest is still there.
    let (mut first, mut last) = (slow.remove(0), slow.pop().expect("some"));
    first.set_read_timeout(Some(SOON)).expect("a socket");
    assert!(matches!(first.read(&mut [0]), Ok(0) | Err(_)));
    last.write_all(b"ics HTTP/1.1\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    last.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // Those that ask and never read.
    let deaf: Vec<UnixStream> = (0..100)
        .map(|_| {
            let mut stream = connect();
            stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it reads");
            stream
        })
        .collect();
    told.ask();
    drop((slow, deaf));
}

#[test]
fn a_client_that_says_one_byte_now_and_then_is_let_go_after_its_time() {
    let told = Told::new();
    let mut slow = UnixStream::connect(told.socket()).expect("it listens");
    let begun = Instant::now();
    let let_go = || slow.write_all(b"G").is_err();
    wait_until("it is let go", {
        let mut let_go = let_go;
        move || {
            std::thread::sleep(Duration::from_millis(100));
            let_go()
        }
    });
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
    told.ask();
}

#[test]
fn the_server_ends_at_once_whoever_is_connected_and_its_socket_goes_with_it() {
    let Told { directory, _server, .. } = Told::new();
    let path = directory.path("metrics");
    let mut clients: Vec<UnixStream> =
        (0..5).map(|_| UnixStream::connect(&path).expect("it listens")).collect();
    clients[0].write_all(b"GET /me").expect("it reads");
    let begun = Instant::now();
    drop(_server);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(!path.exists());
    assert!(matches!(ask(&path, SOON), Err(AskError::Absent)));
}

#[test]
fn the_socket_is_its_owners_alone_and_others_get_nothing_even_if_it_is_opened_to_them() {
    needs::root("connecting as another user");
    let told = Told::new();
    let socket = told.socket();
    let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&socket), 0o600);
    // Others may enter every directory above it, so the socket alone decides.
    std::fs::set_permissions(told.directory.as_path(), PermissionsExt::from_mode(0o755)).expect("its owner");
    let as_other = || {
        let socket = socket.to_str().expect("plain letters");
        let curl = ["curl", "-sS", "--max-time", "20", "--unix-socket", socket, "http://localhost/metrics"];
        try_run("setpriv", &[&["--reuid=65534", "--regid=65534", "--clear-groups"], &curl[..]].concat())
    };
    let refused = as_other();
    assert_eq!(refused.code, Some(7), "{refused:?}");
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666)).expect("its owner");
    let refused = as_other();
    assert!(!refused.is_ok() && refused.stdout.is_empty(), "{refused:?}");
    told.ask();
}

#[test]
fn a_process_that_hangs_is_not_waited_for_longer_than_is_said() {
    let directory = Scratch::new();
    let path = directory.path("metrics");
    // It listens and takes nobody.
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let limit = Duration::from_millis(300);
    let silent = |path: &Path, what: &str| {
        let begun = Instant::now();
        let refused = ask(path, limit).expect_err(what);
        assert!(matches!(refused, AskError::Silent { waited } if waited == limit), "{what}: {refused:?}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{what}: {:?}", begun.elapsed());
    };
    silent(&path, "it takes nobody");
    // So many wait that there is no room for one more: a connect that blocks would wait for ever.
    let flags = rustix::net::SocketFlags::NONBLOCK;
    let mut waiting = Vec::new();
    loop {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket_with};
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("a socket");
        match connect(&socket, &SocketAddrUnix::new(&path).expect("short")) {
            Ok(()) => waiting.push(socket),
            Err(error) => break assert_eq!(error, rustix::io::Errno::AGAIN),
        }
    }
    silent(&path, "there is no room");
    drop((waiting, listener));
    // It answers, a byte now and then, and would go on for longer than anybody waits.
    let path = directory.path("endless");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let bytes = (0..400).take_while(|_| {
            std::thread::sleep(Duration::from_millis(50));
            stream.write_all(b"H").is_ok()
        });
        bytes.count()
    });
    silent(&path, "it never ends");
    assert!((2..200).contains(&answering.join().expect("no panic")));
}

#[test]
fn an_answer_that_is_not_understood_is_told_from_none() {
    let directory = Scratch::new();
    let path = directory.path("metrics");
    assert!(matches!(ask(&path, SOON), Err(AskError::Absent)));
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let answering = |answer: &'static [u8]| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("a client");
                // All that is asked, or the end of the connection would be a broken one.
                stream.read_to_end(&mut Vec::new()).expect("it asks");
                stream.write_all(answer).expect("it reads");
            });
            ask(&path, SOON).expect_err("no figures")
        })
    };
    for answer in [
        &b"HTTP/1.1 404 Not Found\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n{\"size\":1,\"failed\":false,\"operations\":{\"teleport\":{}}}",
        b"hello",
    ] {
        assert!(matches!(answering(answer), AskError::Foreign), "{answer:?}");
    }
    assert!(matches!(answering(b""), AskError::Absent));
    drop(listener);
    assert!(matches!(ask(&path, SOON), Err(AskError::Absent)));
}

#[test]
fn a_socket_in_use_and_a_file_are_left_alone_and_a_dead_socket_is_taken_over() {
    let told = Told::new();
    assert!(matches!(Socket::bind(&told.socket()), Err(BindError::InUse { .. })));
    let file = told.directory.file("file", b"mine");
    assert!(matches!(Socket::bind(&file), Err(BindError::NotASocket { .. })));
    let dead = told.directory.path("dead");
    drop(std::os::unix::net::UnixListener::bind(&dead).expect("a socket"));
    drop(Socket::bind(&dead).expect("nobody has it"));
    assert!(!dead.exists());
}
