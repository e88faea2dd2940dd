//! A server that breaks the protocol, in the handshake and in its replies. What it says lies in the socket before the client
//! begins: a client that trusted it would hang, panic, or take wrong data for right ones.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use atrest_device::{BlockDevice, Cause};
use atrest_nbd::proto::{allocation, chunk, errno, export_flag, info, option, option_reply};
use atrest_nbd::wire::WireError;
use atrest_nbd::{Broken, ConnectError, Export, Options, Uri};
use atrest_testkit::{Campaign, Scratch};

const SIZE: u64 = 1 << 20;
const FLAGS: u16 = export_flag::HAS_FLAGS | export_flag::SEND_FLUSH | export_flag::SEND_TRIM;
/// The context's number.
const CONTEXT: u32 = 9;

/// What a client says in a negotiation: flags, an option without data, one with the context, and the one that asks for the
/// export.
const NEGOTIATION: usize = 4 + 16 + (16 + 4 + 4 + 4 + 15) + (16 + 4 + 2 + 2);

fn greeting(flags: u16) -> Vec<u8> {
    [b"NBDMAGIC", b"IHAVEOPT", &flags.to_be_bytes()[..]].concat()
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let head = [option, kind, data.len() as u32].map(u32::to_be_bytes).concat();
    [&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], &head, data].concat()
}

fn about(kind: u16, data: &[u8]) -> Vec<u8> {
    reply(option::GO, option_reply::INFO, &[&kind.to_be_bytes()[..], data].concat())
}

fn export(size: u64) -> Vec<u8> {
    about(info::EXPORT, &[&size.to_be_bytes()[..], &FLAGS.to_be_bytes()].concat())
}

fn blocks(minimum: u32, preferred: u32, maximum: u32) -> Vec<u8> {
    about(info::BLOCK_SIZE, &[minimum, preferred, maximum].map(u32::to_be_bytes).concat())
}

fn ack(option: u32) -> Vec<u8> {
    reply(option, option_reply::ACK, &[])
}

fn context() -> Vec<u8> {
    let data = [&CONTEXT.to_be_bytes()[..], b"base:allocation"].concat();
    [reply(option::SET_META_CONTEXT, option_reply::META_CONTEXT, &data), ack(option::SET_META_CONTEXT)]
        .concat()
}

/// A handshake that offers everything.
fn handshake() -> Vec<u8> {
    [greeting(3), ack(option::STRUCTURED_REPLY), context(), export(SIZE), ack(option::GO)].concat()
}

/// A handshake without structured replies.
fn old_handshake() -> Vec<u8> {
    let no = reply(option::STRUCTURED_REPLY, option_reply::ERR_UNSUPPORTED, b"no");
    [greeting(3), no, export(SIZE), ack(option::GO)].concat()
}

fn part(cookie: u64, flags: u16, kind: u16, data: &[u8]) -> Vec<u8> {
    let head = [&0x668e_33ef_u32.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes()].concat();
    [&head[..], &cookie.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

/// A chunk whose header says another length.
fn long_part(kind: u16, len: u32, data: &[u8]) -> Vec<u8> {
    let mut part = part(1, chunk::FLAG_DONE, kind, data);
    part[16..20].copy_from_slice(&len.to_be_bytes());
    part
}

fn data(flags: u16, offset: u64, bytes: &[u8]) -> Vec<u8> {
    part(1, flags, chunk::OFFSET_DATA, &[&offset.to_be_bytes()[..], bytes].concat())
}

fn hole(flags: u16, offset: u64, len: u32) -> Vec<u8> {
    part(1, flags, chunk::OFFSET_HOLE, &[&offset.to_be_bytes()[..], &len.to_be_bytes()].concat())
}

fn status(context: u32, extents: &[(u32, u32)]) -> Vec<u8> {
    let extents = extents.iter().flat_map(|(len, flags)| [len.to_be_bytes(), flags.to_be_bytes()].concat());
    let data: Vec<u8> = context.to_be_bytes().into_iter().chain(extents).collect();
    part(1, chunk::FLAG_DONE, chunk::BLOCK_STATUS, &data)
}

fn failure(flags: u16, kind: u16, error: u32, text: &[u8]) -> Vec<u8> {
    let mut data = [&error.to_be_bytes()[..], &(text.len() as u16).to_be_bytes(), text].concat();
    if kind == chunk::ERROR_OFFSET {
        data.extend(0_u64.to_be_bytes());
    }
    part(1, flags, kind, &data)
}

fn simple(cookie: u64, error: u32, data: &[u8]) -> Vec<u8> {
    [&0x6744_6698_u32.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes(), data].concat()
}

/// A client of a server that says this and nothing more. The thread takes what the client says.
fn client(says: &[u8], end: bool) -> (Result<Export, ConnectError>, JoinHandle<()>) {
    let (mut server, socket) = UnixStream::pair().expect("a pair of sockets");
    let says = says.to_vec();
    let thread = thread::spawn(move || {
        // A client that has heard enough hangs up.
        let told = server.write_all(&says);
        if end && told.is_ok() {
            let _ = server.shutdown(Shutdown::Write);
        }
        let mut sink = [0; 4096];
        // Also a connection that was reset has ended.
        while let Ok(1..) = server.read(&mut sink) {}
    });
    let mut options = Options::default();
    options.handshake = Duration::from_secs(if end { 60 } else { 1 });
    options.silence = options.handshake;
    let uri = Uri::parse("nbd+unix:///?socket=here").expect("a URI");
    (Export::negotiate(socket.into(), uri, true, options), thread)
}

fn refused(says: &[&[u8]]) -> ConnectError {
    let (connected, thread) = client(&says.concat(), true);
    let error = connected.err().unwrap_or_else(|| panic!("{says:x?} is taken"));
    thread.join().expect("the client hangs up");
    error
}

/// What one operation gives after a good handshake, and whether the connection goes on.
fn after<T>(handshake: &[u8], says: &[u8], operation: impl FnOnce(&Export) -> T) -> (T, bool) {
    let (connected, thread) = client(&[handshake, says].concat(), true);
    let export = connected.expect("connects");
    let outcome = operation(&export);
    // A connection that is lost says how. One that goes on meets the end of what the server says.
    let error = export.read_at(0, &mut [0]).expect_err("nothing more comes");
    drop(export);
    thread.join().expect("the client hangs up");
    (outcome, error.cause == Cause::Gone)
}

fn read(handshake: &[u8], says: &[u8], len: usize) -> Result<Vec<u8>, Cause> {
    let (read, _) = after(handshake, says, |export| {
        let mut buf = vec![0xaa; len];
        export.read_at(100, &mut buf).map(|()| buf).map_err(|error| error.cause)
    });
    read
}

#[test]
fn a_handshake_that_breaks_the_protocol_is_refused_by_name() {
    let broken = |says: &[&[u8]]| match refused(says) {
        ConnectError::Broken(broken) => broken,
        error => panic!("{error:?}"),
    };
    let (start, structured) = (greeting(3), ack(option::STRUCTURED_REPLY));
    let go = |says: &[u8]| [&start[..], &structured, &context(), says].concat();
    assert!(matches!(refused(&[b"SSH-2.0-OpenSSH_9.6 and more"]), ConnectError::NotNbd));
    assert!(matches!(refused(&[b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53", &[0; 136]]), ConnectError::Oldstyle));
    let mut odd = structured.clone();
    odd[0] = 1;
    assert_eq!(broken(&[&start, &odd]), Broken::Magic { found: 0x0103_e889_0455_65a9 });
    assert_eq!(broken(&[&start, &ack(option::GO)]), Broken::Option { found: option::GO });
    let kind = option_reply::SERVER;
    assert_eq!(broken(&[&start, &reply(option::STRUCTURED_REPLY, kind, &[])]), Broken::Kind { found: kind });
    let mut long = structured.clone();
    long[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(broken(&[&start, &long]), Broken::Length { len: u32::MAX });
    let other = reply(option::SET_META_CONTEXT, option_reply::META_CONTEXT, b"\0\0\0\x01qemu:dirty");
    assert_eq!(broken(&[&start, &structured, &other]), Broken::Kind { found: option_reply::META_CONTEXT });
    let many = context()[..39].repeat(65);
    assert_eq!(broken(&[&start, &structured, &many]), Broken::TooMany);

    assert_eq!(broken(&[&go(&ack(option::GO))]), Broken::NoSize);
    assert_eq!(broken(&[&go(&about(info::EXPORT, &[0; 9]))]), Broken::Length { len: 11 });
    assert_eq!(broken(&[&go(&about(info::BLOCK_SIZE, &[0; 13]))]), Broken::Length { len: 15 });
    assert_eq!(broken(&[&go(&reply(option::GO, option_reply::INFO, &[0]))]), Broken::Length { len: 1 });
    assert_eq!(broken(&[&go(&about(info::NAME, b"x").repeat(65))]), Broken::TooMany);
    assert_eq!(broken(&[&go(&reply(option::GO, kind, &[]))]), Broken::Kind { found: kind });
    let error = refused(&[&go(&reply(option::GO, option_reply::ERR_POLICY, b"no"))]);
    assert!(matches!(error, ConnectError::Refused { reply: option_reply::ERR_POLICY }));
    for (minimum, preferred, maximum) in [
        (0, 4096, 1 << 20),
        (3, 4096, 1 << 20),
        (1 << 17, 1 << 17, 1 << 20),
        (512, 256, 1 << 20),
        (512, 5000, 1 << 20),
        (4096, 4096, 512),
        (4096, 4096, 5000),
    ] {
        let says = go(&[blocks(minimum, preferred, maximum), export(SIZE), ack(option::GO)].concat());
        assert!(
            matches!(refused(&[&says]), ConnectError::BlockSizes { .. }),
            "{minimum} {preferred} {maximum}"
        );
    }
    for size in [1 << 63, u64::MAX] {
        let error = refused(&[&go(&[export(size), ack(option::GO)].concat())]);
        assert!(matches!(error, ConnectError::TooLarge { .. }), "{error:?}");
    }
}

#[test]
fn a_connection_that_is_cut_off_anywhere_is_an_error() {
    let bytes = [5; 300];
    let replies = [data(0, 100, &bytes[..200]), hole(chunk::FLAG_DONE, 300, 100)].concat();
    let whole = handshake();
    for len in 0..whole.len() {
        let (connected, thread) = client(&whole[..len], true);
        let error = connected.expect_err("it is cut off");
        assert!(matches!(error, ConnectError::Wire(WireError::Closed)), "{len}: {error:?}");
        thread.join().expect("the client hangs up");
    }
    let mut expected = bytes;
    expected[200..].fill(0);
    assert_eq!(read(&whole, &replies, 300), Ok(expected.to_vec()));
    for len in 0..replies.len() {
        assert_eq!(read(&whole, &replies[..len], 300), Err(Cause::Gone), "{len}");
    }
    let reply = simple(1, 0, &bytes);
    assert_eq!(read(&old_handshake(), &reply, 300), Ok(bytes.to_vec()));
    for len in 0..reply.len() {
        assert_eq!(read(&old_handshake(), &reply[..len], 300), Err(Cause::Gone), "{len}");
    }
}

#[test]
fn a_server_that_never_answers_is_left() {
    let begun = Instant::now();
    let (connected, thread) = client(&greeting(3), false);
    assert!(matches!(connected.expect_err("silence"), ConnectError::Wire(WireError::Silent)));
    thread.join().expect("the client hangs up");

    let (connected, thread) = client(&handshake(), false);
    let export = connected.expect("connects");
    let many = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|at| {
                scope.spawn({
                    let export = &export;
                    move || export.read_at(at, &mut [0]).expect_err("silence").cause
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("ends")).collect::<Vec<_>>()
    });
    assert_eq!(many, [Cause::Silent; 4]);
    assert_eq!(export.write_at(0, &[0]).expect_err("lost").cause, Cause::Silent);
    drop(export);
    thread.join().expect("the client hangs up");
    assert!(begun.elapsed() < Duration::from_secs(30), "it waited {:?}", begun.elapsed());
}

#[test]
fn a_reply_that_breaks_the_protocol_ends_the_connection() {
    const DONE: u16 = chunk::FLAG_DONE;
    let whole = data(DONE, 100, &[1; 50]);
    assert_eq!(read(&handshake(), &whole, 50), Ok(vec![1; 50]));
    let text = [b'x'; 5000];
    for (name, says) in [
        ("no magic", b"SSH-2.0-OpenSSH".repeat(4)),
        ("another's cookie", part(2, DONE, chunk::NONE, &[])),
        ("no cookie", part(0, DONE, chunk::NONE, &[])),
        ("a simple reply to a read", simple(1, 0, &[1; 50])),
        ("nothing", part(1, DONE, chunk::NONE, &[])),
        ("nothing, but long", part(1, DONE, chunk::NONE, &[0])),
        ("too little", data(DONE, 100, &[1; 49])),
        ("a gap", [data(0, 100, &[1; 20]), data(DONE, 121, &[1; 29])].concat()),
        ("too much", data(DONE, 100, &[1; 51])),
        ("before the range", data(DONE, 99, &[1; 50])),
        ("behind the range", data(DONE, 150, &[1])),
        ("far away", data(DONE, u64::MAX, &[1; 50])),
        ("twice", [data(0, 100, &[1; 50]), data(DONE, 100, &[1; 50])].concat()),
        ("an overlap", [data(0, 100, &[1; 30]), data(DONE, 129, &[1; 21])].concat()),
        ("an empty chunk", [data(0, 100, &[]), data(DONE, 100, &[1; 50])].concat()),
        ("no offset", long_part(chunk::OFFSET_DATA, 7, &[0; 7])),
        ("an immense chunk", long_part(chunk::OFFSET_DATA, u32::MAX, &100_u64.to_be_bytes())),
        ("an empty hole", [hole(0, 100, 0), whole.clone()].concat()),
        ("a long hole", hole(DONE, 100, 51)),
        ("an immense hole", hole(DONE, 100, u32::MAX)),
        ("a hole of another length", long_part(chunk::OFFSET_HOLE, 11, &[0; 11])),
        ("block status", status(CONTEXT, &[(50, 0)])),
        ("an unknown chunk", part(1, DONE, 77, &[])),
        ("an error without a number", failure(DONE, chunk::ERROR, 0, b"")),
        ("a short error", long_part(chunk::ERROR, 5, &[0; 5])),
        ("an immense error", failure(DONE, chunk::ERROR, 5, &text)),
    ] {
        assert_eq!(read(&handshake(), &says, 50), Err(Cause::BrokenProtocol), "{name}");
    }
    // Without structured replies there are no chunks.
    assert_eq!(read(&old_handshake(), &whole, 50), Err(Cause::BrokenProtocol));
    // Parts of one byte each, of which every second one is missing.
    let crumbs: Vec<u8> = (0..300).flat_map(|at| data(0, 100 + 2 * at, &[1])).collect();
    assert_eq!(read(&handshake(), &crumbs, 600), Err(Cause::BrokenProtocol));
    // Backwards is allowed.
    let backwards: Vec<u8> =
        (0..50).rev().flat_map(|at| data(if at == 0 { DONE } else { 0 }, 100 + at, &[at as u8])).collect();
    assert_eq!(read(&handshake(), &backwards, 50), Ok((0..50).collect()));
}

/// A server that goes on like this once it has heard all of the negotiation. Its socket stays open until it is joined.
fn client_of_one_that_listens(
    goes_on: impl FnOnce(&mut UnixStream) + Send + 'static,
) -> (Export, JoinHandle<UnixStream>) {
    let (mut server, socket) = UnixStream::pair().expect("a pair of sockets");
    let thread = thread::spawn(move || {
        server.write_all(&handshake()).expect("the client listens");
        server.read_exact(&mut [0; NEGOTIATION]).expect("options");
        goes_on(&mut server);
        server
    });
    let uri = Uri::parse("nbd+unix:///?socket=here").expect("a URI");
    (Export::negotiate(socket.into(), uri, true, Options::default()).expect("connects"), thread)
}

#[test]
fn a_second_reply_to_one_request_ends_the_connection() {
    const DONE: u16 = chunk::FLAG_DONE;
    let nothing = |cookie| part(cookie, DONE, chunk::NONE, &[]);
    // Whichever of them reads has the other's replies before its own.
    for (one, other) in [(1, 2), (2, 1)] {
        let says = [nothing(one), nothing(one), nothing(other)].concat();
        let (export, thread) = client_of_one_that_listens(move |server| {
            server.read_exact(&mut [0; 2 * 28]).expect("requests");
            server.write_all(&says).expect("the client listens");
        });
        let causes = thread::scope(|scope| {
            let flushes =
                [(); 2].map(|()| scope.spawn(|| export.discard(0, 512).err().map(|error| error.cause)));
            flushes.map(|flush| flush.join().expect("ends"))
        });
        assert!(causes.contains(&Some(Cause::BrokenProtocol)), "{causes:?}");
        drop(thread.join().expect("the server ends"));
    }
}

#[test]
fn who_is_sending_learns_that_the_connection_is_lost() {
    let (told, has_read) = mpsc::channel();
    let (export, thread) = client_of_one_that_listens(move |server| {
        server.read_exact(&mut [0; 28]).expect("a read");
        told.send(()).expect("the test waits");
        // Enough of the write to know that it is under way.
        server.read_exact(&mut [0; 1000]).expect("a write");
        server.write_all(&b"SSH-2.0-OpenSSH".repeat(4)).expect("the client listens");
    });
    let begun = Instant::now();
    thread::scope(|scope| {
        let reader = scope.spawn(|| export.read_at(0, &mut [0; 512]).expect_err("no reply").cause);
        has_read.recv().expect("the server hears of it");
        let writer = scope.spawn(|| export.write_at(0, &vec![1; 1 << 20]).expect_err("nobody reads").cause);
        assert_eq!(reader.join().expect("ends"), Cause::BrokenProtocol);
        assert_eq!(writer.join().expect("ends"), Cause::BrokenProtocol);
    });
    assert!(begun.elapsed() < Options::default().silence / 2);
    drop(thread.join().expect("the server ends"));
}

/// A handshake that offers several connections to an export of this size.
fn several(size: u64) -> Vec<u8> {
    let flags = FLAGS | export_flag::CAN_MULTI_CONN;
    let terms = about(info::EXPORT, &[&size.to_be_bytes()[..], &flags.to_be_bytes()].concat());
    [greeting(3), ack(option::STRUCTURED_REPLY), context(), terms, ack(option::GO)].concat()
}

/// A server whose second connection is to an export of this size, and ends at its first request. Requests on the first one are
/// answered, the first of them once the second connection was used or refused.
fn two_connections(size: u64) -> (Result<(), Cause>, Result<(), Cause>, Result<(), Cause>) {
    let scratch = Scratch::new();
    let path = scratch.path("s");
    let listener = UnixListener::bind(&path).expect("a socket");
    let uri = Uri::parse(&format!("nbd+unix:///?socket={}", path.display())).expect("a URI");
    let (has_come, told) = mpsc::channel();
    thread::spawn(move || {
        let (mut first, _) = listener.accept().expect("a client");
        first.write_all(&several(SIZE)).expect("it listens");
        first.read_exact(&mut [0; NEGOTIATION + 28]).expect("a request");
        has_come.send(()).expect("the test waits");
        let (mut second, _) = listener.accept().expect("the client again");
        second.write_all(&several(size)).expect("it listens");
        // Its request, or its goodbye.
        let _ = second.read_exact(&mut [0; NEGOTIATION + 28]);
        drop(second);
        for cookie in 1.. {
            let answer = part(cookie, chunk::FLAG_DONE, chunk::NONE, &[]);
            if first.write_all(&answer).is_err() || first.read_exact(&mut [0; 28]).is_err() {
                return;
            }
        }
    });
    let export = Export::connect(uri, true, Options::default()).expect("connects");
    let discard = || export.discard(0, 512).map_err(|error| error.cause);
    thread::scope(|scope| {
        let one = scope.spawn(discard);
        told.recv().expect("the first request has come");
        let two = scope.spawn(discard);
        let (one, two) = (one.join().expect("ends"), two.join().expect("ends"));
        (one, two, discard())
    })
}

#[test]
fn one_lost_connection_is_the_end_of_all() {
    assert_eq!(two_connections(SIZE), (Ok(()), Err(Cause::Gone), Err(Cause::Gone)));
}

#[test]
fn a_connection_to_something_else_is_not_used() {
    assert_eq!(two_connections(SIZE / 2), (Ok(()), Ok(()), Ok(())));
}

#[test]
fn errors_of_the_server_leave_the_connection_as_it_is() {
    const DONE: u16 = chunk::FLAG_DONE;
    let failing = |handshake: &[u8], says: &[u8]| {
        let (cause, goes_on) =
            after(handshake, says, |export| export.read_at(100, &mut [0; 50]).expect_err("fails").cause);
        assert!(goes_on, "the connection is lost");
        cause
    };
    for (error, cause) in [
        (errno::EPERM, Cause::Os(1)),
        (errno::EIO, Cause::Os(5)),
        (errno::ENOMEM, Cause::Os(12)),
        (errno::EINVAL, Cause::Os(22)),
        (errno::ENOSPC, Cause::NoSpace),
        (errno::EOVERFLOW, Cause::Os(75)),
        (errno::ENOTSUP, Cause::Unsupported),
        (errno::ESHUTDOWN, Cause::Gone),
        // Numbers that the protocol does not have.
        (99, Cause::Os(5)),
        (u32::MAX, Cause::Os(5)),
    ] {
        assert_eq!(failing(&old_handshake(), &simple(1, error, &[])), cause);
        assert_eq!(failing(&handshake(), &failure(DONE, chunk::ERROR, error, b"why")), cause);
        assert_eq!(failing(&handshake(), &failure(DONE, chunk::ERROR_OFFSET, error, b"")), cause);
        // Some of it had come, and more comes.
        let half = [
            data(0, 100, &[1; 20]),
            failure(0, chunk::ERROR_OFFSET, error, b"why"),
            data(0, 130, &[1; 20]),
            part(1, DONE, chunk::NONE, &[]),
        ];
        assert_eq!(failing(&handshake(), &half.concat()), cause);
    }
}

#[test]
fn block_status_is_checked() {
    let extent = |says: &[u8]| {
        let (extent, _) = after(&handshake(), says, |export| export.extent(100, 5000));
        extent.map(|extent| (extent.len, extent.hole)).map_err(|error| error.cause)
    };
    let hole = allocation::HOLE | allocation::ZERO;
    assert_eq!(extent(&status(CONTEXT, &[(700, hole), (9, 0)])), Ok((700, true)));
    assert_eq!(extent(&status(CONTEXT, &[(u32::MAX, allocation::ZERO)])), Ok((5000, false)));
    for (name, says) in [
        ("another context", status(CONTEXT + 1, &[(700, hole)])),
        ("no extent", status(CONTEXT, &[])),
        ("an empty extent", status(CONTEXT, &[(0, hole)])),
        ("half an extent", long_part(chunk::BLOCK_STATUS, 8, &[0; 8])),
        (
            "immense",
            long_part(chunk::BLOCK_STATUS, 4 + (64 << 10), &[0, 0, 0, CONTEXT as u8, 0, 0, 2, 0, 0, 0, 0, 0]),
        ),
        ("nothing", part(1, chunk::FLAG_DONE, chunk::NONE, &[])),
        ("a simple reply", simple(1, 0, &[])),
        ("data", data(chunk::FLAG_DONE, 100, &[1; 50])),
    ] {
        assert_eq!(extent(&says), Err(Cause::BrokenProtocol), "{name}");
    }
}

/// What was right, with bytes changed: whatever a read gives then, it ends, and the connection with it.
#[test]
fn changed_bytes_end_in_an_error_or_in_data() {
    let replies = [data(0, 100, &[1; 30]), hole(0, 130, 10), data(chunk::FLAG_DONE, 140, &[1; 10])].concat();
    let whole = [handshake(), replies].concat();
    Campaign::new("changed bytes of an NBD server", 300, 20_000).run(|_, random| {
        let mut says = whole.clone();
        for _ in 0..1 + random.below(3) {
            let at = random.index(says.len());
            says[at] = match random.below(4) {
                0 => 0,
                1 => 0xff,
                2 => says[at] ^ 1 << random.below(8),
                _ => random.draw() as u8,
            };
        }
        let (connected, thread) = client(&says, true);
        if let Ok(export) = connected {
            let mut buf = [0; 50];
            if export.size() >= 150 {
                let _ = export.read_at(100, &mut buf);
            }
        }
        thread.join().expect("the client hangs up");
    });
}
