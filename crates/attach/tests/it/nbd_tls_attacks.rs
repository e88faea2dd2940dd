//! NBD over TLS against clients without it, clients that speak it wrong, and attackers between client and server.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::nbd_tls::{uri, with_tls};
use crate::common::raw::*;
use crate::common::{BLOCK, Memory, Serving, run, try_run};
use atrest_attach::nbd::Options;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Campaign, Pki, Random, Scratch, wait_until};

const SIZE: u64 = 8 << 20;
const NAME: &str = "confidential";
const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const UNSUPPORTED: u32 = 1 << 31 | 1;
const INVALID: u32 = 1 << 31 | 3;
const TLS_REQUIRED: u32 = 1 << 31 | 5;

fn serving(pki: &Pki) -> (Arc<Memory>, Serving) {
    let memory = Arc::new(Memory::new(SIZE));
    let options = Options { export: NAME.into(), ..with_tls(pki, false) };
    (memory.clone(), Serving::with(memory, options))
}

/// A server that serves a client as it should.
#[track_caller]
fn is_well(serving: &Serving, pki: &Pki) {
    assert_eq!(run("nbdinfo", &["--size", &uri(serving, &pki.nobody())]).trim(), SIZE.to_string());
}

/// Everything that still comes, and whether the server ended it: a reset is an end, silence is none.
fn rest(stream: &mut UnixStream) -> Vec<u8> {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("it hangs: {error}"),
        _ => rest,
    }
}

fn holds(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

/// Where TLS is to come next.
fn before_tls(serving: &Serving) -> Raw {
    let mut raw = Raw::connect(&serving.socket);
    assert_eq!(raw.option(STARTTLS, &[]), [(ACK, vec![])]);
    raw
}

#[test]
fn a_client_without_tls_learns_neither_size_nor_name() {
    let pki = Pki::new();
    let (_memory, serving) = serving(&pki);
    let export = [&(NAME.len() as u32).to_be_bytes()[..], NAME.as_bytes(), &[0; 2]].concat();
    let mut raw = Raw::connect(&serving.socket);
    let mut told = Vec::new();
    for option in [0, 3, 4, 6, 7, 8, 9, 10, 11, 1000, u32::MAX] {
        for data in [&b""[..], &[0; 6], &export, &[0; 20 << 10]] {
            let replies = raw.option(option, data);
            assert!(matches!(&replies[..], [(TLS_REQUIRED, _)]), "{option}: {replies:?}");
            told.extend(replies.into_iter().flat_map(|(_, text)| text));
        }
    }
    // Words with TLS do not do either, and leave all as it was.
    assert!(matches!(raw.option(STARTTLS, b"x")[..], [(INVALID, _)]));
    assert!(matches!(raw.option(GO, &[0; 6])[..], [(TLS_REQUIRED, _)]));
    assert!(!holds(&told, NAME.as_bytes()) && !holds(&told, &SIZE.to_be_bytes()));
    assert_eq!(raw.option(ABORT, &[]), [(ACK, vec![])]);
    assert!(raw.is_closed());
    for name in [&b""[..], NAME.as_bytes(), b"other"] {
        let mut raw = Raw::connect(&serving.socket);
        raw.send_option(EXPORT_NAME, name);
        assert!(raw.is_closed());
    }
    // What people use says so.
    let plain = format!("nbd+unix:///?socket={}", serving.socket.display());
    for (program, words) in [("nbdinfo", &[][..]), ("nbdinfo", &["--list"]), ("qemu-img", &["info"])] {
        let refused = try_run(program, &[words, &[&plain]].concat());
        let text = refused.text() + &refused.messages();
        assert!(!refused.is_ok() && !text.contains(NAME) && !text.contains(&SIZE.to_string()), "{text}");
    }
    is_well(&serving, &pki);
}

#[test]
fn a_server_without_tls_says_so() {
    let serving = Serving::start(Arc::new(Memory::new(SIZE)));
    let mut raw = Raw::connect(&serving.socket);
    assert!(matches!(raw.option(STARTTLS, &[])[..], [(UNSUPPORTED, _)]));
    let secure = serving.uri.replace("nbd+unix", "nbds+unix");
    let refused = try_run("nbdinfo", &["--size", &secure]);
    assert!(!refused.is_ok(), "a client that wants TLS goes on without");
}

/// CVE-2021-3716 of nbdkit: an attacker puts options in front of the handshake, and they count under TLS.
#[test]
fn what_comes_in_the_clear_behind_the_wish_for_tls_is_never_taken_for_something_under_tls() {
    let pki = Pki::new();
    let (_memory, serving) = serving(&pki);
    let option = |number: u32, data: &[u8]| {
        [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
    };
    let hello = client_hello();
    let (start, structured, go) = (option(STARTTLS, &[]), option(STRUCTURED_REPLY, &[]), option(GO, &[0; 6]));
    for injected in [&structured[..], &go, &structured[..1], &hello, &[0]] {
        // In one piece: not even TLS is begun.
        let mut raw = Raw::connect(&serving.socket);
        raw.send(&[&start[..], injected].concat());
        assert_eq!(rest(&mut raw.stream), b"", "{injected:x?}");
    }
    for injected in [&structured[..], &go, &[&structured[..], &hello].concat()] {
        // Once TLS is awaited: it is no TLS.
        let mut raw = before_tls(&serving);
        raw.send(injected);
        let _ = raw.stream.shutdown(std::net::Shutdown::Write);
        let said = rest(&mut raw.stream);
        assert!(!holds(&said, &0x0003_e889_0455_65a9_u64.to_be_bytes()), "{said:x?}");
        // At most an alert.
        assert!(matches!(&said[..], [] | [0x15, ..]) && said.len() < 32, "{said:x?}");
    }
    is_well(&serving, &pki);
}

/// The first words of OpenSSL's client.
fn client_hello() -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = Program::named("openssl")
        .words("s_client -connect")
        .arg(listener.local_addr().unwrap().to_string())
        .into_command();
    let mut client =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut header = [0; 5];
    stream.read_exact(&mut header).unwrap();
    let mut body = vec![0; usize::from(u16::from_be_bytes([header[3], header[4]]))];
    stream.read_exact(&mut body).unwrap();
    drop(stream);
    client.kill().unwrap();
    client.wait().unwrap();
    [&header[..], &body].concat()
}

#[test]
fn malformed_handshakes_end_and_harm_nobody() {
    let pki = Pki::new();
    let (_memory, serving) = serving(&pki);
    let hello = client_hello();
    let attack = |bytes: &[u8]| {
        let mut raw = before_tls(&serving);
        // The server may have enough of it before it has all.
        let _ = raw.stream.write_all(bytes);
        let _ = raw.stream.shutdown(std::net::Shutdown::Write);
        let said = rest(&mut raw.stream);
        assert!(!holds(&said, NAME.as_bytes()) && !holds(&said, &SIZE.to_be_bytes()), "{bytes:x?}");
    };
    let campaign = Campaign::new("nbd tls handshakes", 150, 4000);
    campaign.run(|_, random| {
        let len = hello.len() as u64;
        match random.below(5) {
            // Cut off anywhere.
            0 => attack(&hello[..random.below(len) as usize]),
            // Noise, with a header of TLS or without.
            1 => {
                let len = random.below(70_000) as usize;
                attack(&random.bytes(len));
            }
            2 => {
                let len = random.below(70_000) as u16;
                let kind = 0x14 + random.below(5) as u8;
                let body = random.bytes(usize::from(len));
                attack(&[&[kind, 3, 3][..], &len.to_be_bytes(), &body].concat());
            }
            // Bytes of a good one changed.
            3 => {
                let mut changed = hello.clone();
                for _ in 0..=random.below(4) {
                    changed[random.below(len) as usize] = random.below(256) as u8;
                }
                attack(&changed);
            }
            // In many small records, or many times.
            _ => {
                let step = 1 + random.below(40) as usize;
                let record = |piece: &[u8]| [&[0x16, 3, 1, 0, piece.len() as u8][..], piece].concat();
                let split: Vec<u8> = hello[5..].chunks(step).flat_map(record).collect();
                attack(&split.repeat(1 + random.below(3) as usize));
            }
        }
    });
    is_well(&serving, &pki);
}

/// A client that begins TLS and falls silent is one that has not finished its handshake.
#[test]
fn half_open_handshakes_end_in_time_and_make_room() {
    let pki = Pki::new();
    let hello = client_hello();
    let (_memory, serving) = serving(&pki);
    let half = |_| {
        let mut raw = before_tls(&serving);
        raw.send(&hello[..hello.len() / 2]);
        raw
    };
    // More than are let in at a time; the server waits 30 seconds for each.
    let mut waiting: Vec<Raw> = (0..40).map(half).collect();
    is_well(&serving, &pki);
    for raw in &mut waiting[..8] {
        assert_eq!(rest(&mut raw.stream), b"", "the oldest have made room");
    }
    drop(waiting);

    let quick = Options { handshake: Duration::from_millis(200), ..with_tls(&pki, false) };
    let serving = Serving::with(Arc::new(Memory::new(SIZE)), quick);
    let mut raw = before_tls(&serving);
    raw.send(&hello[..hello.len() / 2]);
    assert_eq!(rest(&mut raw.stream), b"", "nobody waits longer");
}

/// What an attacker does to the bytes of one direction.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// Nothing is sent on from this byte on.
    Cut(u64),
    /// A bit of this byte is another one.
    Flip(u64),
}

/// Stands between a client and the server.
fn between(
    serving: &Serving,
    place: &Scratch,
    to_server: Option<Attack>,
    to_client: Option<Attack>,
) -> String {
    let path = place.path("between");
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let server = serving.socket.clone();
    thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = UnixStream::connect(server).unwrap();
        let halves = [
            (client.try_clone().unwrap(), server.try_clone().unwrap(), to_server),
            (server, client, to_client),
        ];
        for (from, to, attack) in halves {
            thread::spawn(move || hand_on(from, to, attack));
        }
    });
    format!("nbds+unix:///?socket={}", path.display())
}

fn hand_on(mut from: UnixStream, mut to: UnixStream, attack: Option<Attack>) {
    let (mut at, mut buffer) = (0, vec![0; 32 << 10]);
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        let bytes = &mut buffer[..len];
        let within = |byte: u64| (at..at + len as u64).contains(&byte).then(|| (byte - at) as usize);
        match attack {
            Some(Attack::Flip(byte)) => {
                if let Some(index) = within(byte) {
                    bytes[index] ^= 4;
                }
            }
            Some(Attack::Cut(byte)) => {
                if let Some(index) = within(byte) {
                    let _ = to.write_all(&bytes[..index]);
                    break;
                }
            }
            None => {}
        }
        if to.write_all(bytes).is_err() {
            break;
        }
        at += len as u64;
    }
    for stream in [from, to] {
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

/// The client is told of it, and nothing is stored that it did not send.
#[test]
fn what_an_attacker_changes_or_cuts_is_noticed_on_both_sides() {
    let pki = Pki::new();
    let place = Scratch::new();
    let (memory, serving) = serving(&pki);
    let old = memory.copy();
    let new: Vec<u8> = old.iter().map(|byte| !byte).collect();
    let file = place.file("new", &new);
    let copy = |to_server, to_client, upload: bool| {
        let uri = between(&serving, &place, to_server, to_client);
        let uri = format!("{uri}&tls-certificates={}", pki.nobody().display());
        let copy = place.path("copy");
        let ends = if upload { [file.to_str().unwrap(), &uri] } else { [&uri[..], copy.to_str().unwrap()] };
        try_run("nbdcopy", &["--connections=1", ends[0], ends[1]]).is_ok()
    };
    assert!(copy(None, None, true) && memory.copy() == new, "without an attack all is well");
    assert!(copy(None, None, false) && place.read("copy") == new);
    let mut random = Random::new(7);
    // Bytes of the handshake, and bytes of the data.
    let mut places: Vec<u64> = (0..3).map(|_| 60 + random.below(200)).collect();
    places.extend((0..4).map(|_| 5000 + random.below(SIZE / 2)));
    for byte in places {
        for attack in [Attack::Flip(byte), Attack::Cut(byte)] {
            memory.bytes.lock().unwrap().copy_from_slice(&old);
            assert!(!copy(Some(attack), None, true), "{attack:?} of what is written");
            assert!(!copy(None, Some(attack), false), "{attack:?} of what is read");
            // The server has read what it will read of the attacked connection when the next client is served.
            is_well(&serving, &pki);
            let stored = memory.copy();
            let block = BLOCK as usize;
            let blocks = stored.chunks(block).zip(old.chunks(block)).zip(new.chunks(block));
            let is_whole = |((stored, old), new): ((&[u8], &[u8]), &[u8])| stored == old || stored == new;
            assert!(blocks.into_iter().all(is_whole), "{attack:?}: a block is neither old nor new");
        }
    }
}

/// What waits to go out keeps nothing from coming in.
#[test]
fn a_client_that_does_not_read_its_replies_is_still_read() {
    let pki = Pki::new();
    let (memory, serving) = serving(&pki);
    let stalled = Program::named("python3")
        .arg("-c")
        .arg(include_str!("../common/stalled.py"))
        .arg(&serving.socket)
        .into_command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut stalled = stalled.unwrap();
    // It asks for more than the sockets hold, then writes as much, and reads nothing.
    wait_until("what it wrote is stored", || memory.copy().iter().all(|byte| *byte == 7));
    is_well(&serving, &pki);
    // It reads after all, and everything is there.
    let mut stdin = stalled.stdin.take().unwrap();
    stdin.write_all(b"go\n").unwrap();
    let mut said = String::new();
    stalled.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(stalled.wait().unwrap().success(), "{said}");
    assert_eq!(said.trim(), "all replies are here");
}
