//! The NBD server against a client that speaks byte by byte: what the protocol says, and what it forbids.

use crate::common;
use crate::common::raw::*;
use crate::common::{BLOCK, Memory, Serving};
use atrest_attach::nbd::{BindError, Endpoint, Options, RunError, Server};
use atrest_device::Cause;
use atrest_testkit::{Campaign, Scratch, needs, wait_until};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const SIZE: u64 = 8 << 20;
const EPERM: u32 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const EOVERFLOW: u32 = 75;
const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
const DF: u16 = 4;
const REQ_ONE: u16 = 8;

fn serving() -> (Arc<Memory>, Serving) {
    let memory = Arc::new(Memory::new(SIZE));
    (memory.clone(), Serving::start(memory))
}

#[test]
fn long_reads_return_every_byte_with_simple_and_structured_replies() {
    let (memory, serving) = serving();
    let expected = memory.copy();
    for (offset, len) in [(0, SIZE as usize), (1, 1 << 20), (4095, 2), (300_001, 777_777), (SIZE - 1, 1)] {
        let mut raw = Raw::transmission(&serving.socket, true);
        raw.request(READ, 0, 7, offset, len as u32);
        let (data, errors) = raw.structured_read(7, offset, len);
        assert!(errors.is_empty() && data == expected[offset as usize..][..len], "structured {offset} {len}");
        let mut raw = Raw::transmission(&serving.socket, false);
        raw.request(READ, 0, 8, offset, len as u32);
        assert_eq!(raw.reply(), Reply::Simple { error: 0, cookie: 8 });
        assert!(raw.take_vec(len) == expected[offset as usize..][..len], "simple {offset} {len}");
    }
}

#[test]
fn long_and_unaligned_writes_store_every_byte() {
    let (memory, serving) = serving();
    let mut expected = memory.copy();
    for structured in [true, false] {
        let mut raw = Raw::transmission(&serving.socket, structured);
        for (round, (offset, len)) in
            [(0, 5 << 20), (13, 3 << 20), (4097, 1), (SIZE - 9, 9)].iter().enumerate()
        {
            let data: Vec<u8> = (0..*len).map(|i| (i as u64 * 31 + offset + round as u64) as u8).collect();
            raw.request(WRITE, FUA, 9, *offset, *len as u32);
            raw.send(&data);
            assert_eq!(raw.reply(), Reply::Simple { error: 0, cookie: 9 });
            expected[*offset as usize..][..*len].copy_from_slice(&data);
            assert!(memory.copy() == expected, "{offset} {len}");
        }
    }
}

#[test]
fn a_read_error_is_reported_at_its_offset_and_the_rest_is_delivered() {
    let (memory, serving) = serving();
    let broken = 700;
    *memory.broken.lock().unwrap() = Some((broken, Cause::Os(5)));
    let mut raw = Raw::transmission(&serving.socket, true);
    raw.request(READ, 0, 1, 0, SIZE as u32);
    let (data, errors) = raw.structured_read(1, 0, SIZE as usize);
    assert_eq!(errors, [(EIO, broken * BLOCK)]);
    let expected = memory.copy();
    let chunk = 256 << 10;
    let hurt = (broken * BLOCK) as usize / chunk;
    for (index, (got, want)) in data.chunks(chunk).zip(expected.chunks(chunk)).enumerate() {
        assert!(index == hurt || got == want, "chunk {index}");
    }
    // Without structured replies, an error after the header can only be told by hanging up.
    let mut raw = Raw::transmission(&serving.socket, false);
    raw.request(READ, 0, 2, 0, SIZE as u32);
    assert_eq!(raw.reply(), Reply::Simple { error: 0, cookie: 2 });
    let mut rest = Vec::new();
    let hung_up = raw.stream.read_to_end(&mut rest);
    assert!(
        hung_up.as_ref().map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |_| true),
        "{hung_up:?}"
    );
    assert!(rest.len() < SIZE as usize);
    // An error before the header is told in it.
    let mut raw = Raw::transmission(&serving.socket, false);
    raw.request(READ, 0, 3, broken * BLOCK, 512);
    assert_eq!(raw.reply(), Reply::Simple { error: EIO, cookie: 3 });
}

#[test]
fn device_errors_become_the_protocol_s_numbers() {
    let (memory, serving) = serving();
    for (cause, errno) in [
        (Cause::NoSpace, ENOSPC),
        (Cause::Os(28), ENOSPC),
        (Cause::Os(122), ENOSPC),
        (Cause::ReadOnly, EPERM),
        (Cause::Os(5), EIO),
        (Cause::EarlierFlushFailed, EIO),
        (Cause::Gone, EIO),
    ] {
        for (structured, len) in [(true, 4096), (false, 4096), (true, 1 << 20), (false, 1 << 20)] {
            *memory.broken.lock().unwrap() = Some((1, cause));
            let mut raw = Raw::transmission(&serving.socket, structured);
            raw.request(WRITE, 0, 1, 4096, len);
            raw.send(&vec![1; len as usize]);
            assert_eq!(raw.error(), errno, "{cause:?}");
            // The stream is still in step.
            raw.request(FLUSH, 0, 2, 0, 0);
            assert_eq!(raw.reply(), Reply::Simple { error: 0, cookie: 2 });
        }
    }
    memory.flush_fails.store(true, Ordering::SeqCst);
    let mut raw = Raw::transmission(&serving.socket, true);
    raw.request(FLUSH, 0, 2, 0, 0);
    assert_eq!(raw.error(), EIO);
    *memory.broken.lock().unwrap() = None;
    raw.request(WRITE, FUA, 2, 0, 4096);
    raw.send(&[0; 4096]);
    assert_eq!(raw.error(), EIO, "a forced write succeeds only if its flush does");
}

#[test]
fn flush_and_fua_reach_the_device_from_every_connection() {
    let (memory, serving) = serving();
    let mut first = Raw::transmission(&serving.socket, true);
    let mut second = Raw::transmission(&serving.socket, false);
    first.request(WRITE, 0, 1, 0, 4096);
    first.send(&[1; 4096]);
    first.reply();
    assert_eq!(memory.flushes.load(Ordering::SeqCst), 0);
    second.request(FLUSH, 0, 2, 0, 0);
    second.reply();
    assert_eq!(memory.flushes.load(Ordering::SeqCst), 1);
    for (command, len) in [(WRITE_ZEROES, 4096), (TRIM, 4096), (WRITE, 0)] {
        let before = memory.flushes.load(Ordering::SeqCst);
        first.request(command, FUA, 3, 0, len);
        assert_eq!(first.reply(), Reply::Simple { error: 0, cookie: 3 });
        assert_eq!(memory.flushes.load(Ordering::SeqCst), before + 1, "command {command}");
    }
}

#[test]
fn requests_outside_the_export_and_with_wrong_flags_are_refused_and_change_nothing() {
    let (memory, serving) = serving();
    let before = memory.copy();
    let mut raw = Raw::transmission(&serving.socket, true);
    for (command, flags, offset, len, errno) in [
        (READ, 0, SIZE, 1, EINVAL),
        (READ, 0, SIZE - 1, 2, EINVAL),
        (READ, 0, u64::MAX, 1, EINVAL),
        (READ, 0, u64::MAX - 5, u32::MAX, EINVAL),
        (READ, 0, 0, (32 << 20) + 1, EINVAL),
        (READ, 0, 0, u32::MAX, EINVAL),
        (READ, DF, 0, (256 << 10) + 1, EOVERFLOW),
        (READ, NO_HOLE, 0, 512, EINVAL),
        (READ, 1 << 9, 0, 512, EINVAL),
        (WRITE, 0, SIZE, 512, ENOSPC),
        (WRITE, 0, u64::MAX - 100, 512, ENOSPC),
        (WRITE, DF, 0, 512, EINVAL),
        (WRITE_ZEROES, 0, SIZE - 1, 2, ENOSPC),
        (WRITE_ZEROES, 1 << 4, 0, 512, EINVAL),
        (TRIM, 0, SIZE, 1, EINVAL),
        (TRIM, REQ_ONE, 0, 512, EINVAL),
        (BLOCK_STATUS, 0, SIZE, 1, EINVAL),
        (BLOCK_STATUS, 0, 0, 0, EINVAL),
        (5, 0, 0, 512, EINVAL),
        (99, 0, 0, 0, EINVAL),
    ] {
        raw.request(command, flags, 5, offset, len);
        if command == WRITE {
            raw.send(&vec![0xee; len as usize]);
        }
        assert_eq!(raw.error(), errno, "command {command} flags {flags} offset {offset} len {len}");
    }
    assert!(memory.copy() == before);
    // A write that is longer than can rightly come is refused, and its payload not waited for.
    raw.request(WRITE, 0, 6, 0, u32::MAX);
    assert_eq!(raw.error(), EINVAL);
    assert!(raw.is_closed());
    // Block status needs a context.
    let mut plain = Raw::transmission(&serving.socket, false);
    plain.request(BLOCK_STATUS, 0, 7, 0, 512);
    assert_eq!(plain.error(), EINVAL);
}

/// 256 KiB, as the documentation of the server says, is the longest.
#[test]
fn the_longest_read_in_one_piece_is_given_in_one_piece() {
    let (memory, serving) = serving();
    let mut raw = Raw::transmission(&serving.socket, true);
    raw.request(READ, DF, 3, 512, 256 << 10);
    let Reply::Chunk { flags: 1, kind: 1, cookie: 3, payload } = raw.reply() else { panic!("no such chunk") };
    assert_eq!(payload[..8], 512_u64.to_be_bytes());
    assert!(payload[8..] == memory.copy()[512..][..256 << 10], "other bytes");
}

#[test]
fn what_is_not_offered_is_refused_by_name() {
    let (_, serving) = serving();
    let mut raw = Raw::connect(&serving.socket);
    let (start_tls, unknown, unsupported) = (5, 99, 0x8000_0001);
    assert_eq!(raw.option(start_tls, &[]), [(unsupported, b"TLS is not offered".to_vec())]);
    assert_eq!(raw.option(unknown, &[]), [(unsupported, b"the option is not known".to_vec())]);
    // And the handshake goes on.
    assert_eq!(raw.option(GO, &[0; 6]).last(), Some(&(ACK, vec![])));
}

#[test]
fn a_read_only_export_says_so_and_refuses_writes() {
    let memory = Arc::new(Memory::read_only(SIZE));
    let before = memory.copy();
    let serving = Serving::start(memory.clone());
    let mut raw = Raw::connect(&serving.socket);
    let replies = raw.option(GO, &[0; 6]);
    let flags = u16::from_be_bytes(replies[0].1[10..12].try_into().unwrap());
    assert_eq!(flags & 0b100_0011, 0b11, "HAS_FLAGS and READ_ONLY without WRITE_ZEROES");
    for command in [WRITE, WRITE_ZEROES, TRIM] {
        raw.request(command, 0, 1, 0, 4096);
        if command == WRITE {
            raw.send(&[1; 4096]);
        }
        assert_eq!(raw.error(), EPERM);
    }
    raw.request(READ, 0, 2, 0, 16);
    assert_eq!(raw.reply(), Reply::Simple { error: 0, cookie: 2 });
    assert_eq!(raw.take_vec(16), before[..16]);
    drop(raw);
    serving.stop().unwrap();
    assert_eq!(memory.flushes.load(Ordering::SeqCst), 0);
}

#[test]
fn zeros_are_written_and_trims_are_handed_on() {
    let (memory, serving) = serving();
    let mut raw = Raw::transmission(&serving.socket, true);
    let mut expected = memory.copy();
    for (flags, offset, len) in
        [(0, 4096, 4 << 20), (NO_HOLE, 5 << 20, 1 << 20), (0, 11, 17), (0, 4090, 5000)]
    {
        raw.request(WRITE_ZEROES, flags, 1, offset, len);
        assert_eq!(raw.reply(), Reply::Simple { error: 0, cookie: 1 });
        expected[offset as usize..][..len as usize].fill(0);
        assert!(memory.copy() == expected, "{offset} {len}");
    }
    raw.request(TRIM, 0, 2, 6 << 20, 8192);
    assert_eq!(raw.reply(), Reply::Simple { error: 0, cookie: 2 });
    assert_eq!(memory.discards.load(Ordering::SeqCst), 1);
}

#[test]
fn block_status_tells_holes_only_where_the_device_does() {
    let (memory, serving) = serving();
    memory.holes.lock().unwrap()[2..5].fill(true);
    let mut raw = Raw::transmission(&serving.socket, true);
    let mut status = |flags, offset, len| {
        raw.request(BLOCK_STATUS, flags, 1, offset, len);
        let Reply::Chunk { flags: 1, kind: 5, payload, .. } = raw.reply() else { panic!("no block status") };
        assert_eq!(payload[..4], [0, 0, 0, 1]);
        let words: Vec<u32> =
            payload[4..].chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
        words.chunks(2).map(|extent| (extent[0], extent[1])).collect::<Vec<_>>()
    };
    let rest = SIZE as u32 - 5 * 4096;
    assert_eq!(status(0, 0, SIZE as u32), [(8192, 0), (3 * 4096, 3), (rest, 0)]);
    assert_eq!(status(REQ_ONE, 0, SIZE as u32), [(8192, 0)]);
    assert_eq!(status(0, 8193, 4096), [(4096, 3)]);
    assert_eq!(status(0, 8191, 2), [(1, 0), (1, 3)]);
}

#[test]
fn options_are_answered_as_the_protocol_says() {
    let memory = Arc::new(Memory::new(SIZE));
    let options = Options { export: "disk".into(), ..Options::default() };
    let serving = Serving::with(memory, options);
    let mut raw = Raw::connect(&serving.socket);
    let kinds = |replies: Vec<(u32, Vec<u8>)>| replies.into_iter().map(|reply| reply.0).collect::<Vec<_>>();
    assert_eq!(raw.option(3, &[]), [(2, b"\0\0\0\x04disk".to_vec()), (ACK, vec![])]);
    assert_eq!(kinds(raw.option(3, b"x")), [0x8000_0003]);
    assert_eq!(kinds(raw.option(5, &[])), [0x8000_0001], "STARTTLS");
    assert_eq!(kinds(raw.option(4711, b"what")), [0x8000_0001]);
    assert_eq!(kinds(raw.option(GO, b"\0\0\0\x05other\0\0")), [0x8000_0006]);
    assert_eq!(kinds(raw.option(GO, b"\0\0\0\xffdisk\0\0")), [0x8000_0003]);
    assert_eq!(kinds(raw.option(4711, &vec![0; 100_000])), [0x8000_0009], "too big, and still in step");
    let query = b"\0\0\0\x04disk\0\0\0\x01\0\0\0\x0fbase:allocation";
    assert_eq!(kinds(raw.option(SET_META_CONTEXT, query)), [0x8000_0003], "needs structured replies");
    assert_eq!(kinds(raw.option(STRUCTURED_REPLY, b"x")), [0x8000_0003]);
    assert_eq!(kinds(raw.option(STRUCTURED_REPLY, &[])), [ACK]);
    assert_eq!(kinds(raw.option(LIST_META_CONTEXT, b"\0\0\0\0\0\0\0\0")), [4, ACK]);
    assert_eq!(kinds(raw.option(LIST_META_CONTEXT, b"\0\0\0\0\0\0\0\x01\0\0\0\x02x:")), [ACK]);
    assert_eq!(kinds(raw.option(SET_META_CONTEXT, query)), [4, ACK]);
    let info = raw.option(6, b"\0\0\0\x04disk\0\x02\0\x01\0\x03");
    assert_eq!(info[1], (3, b"\0\x01disk".to_vec()));
    assert_eq!(info[2], (3, b"\0\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0".to_vec()));
    assert_eq!(kinds(info), [3, 3, 3, ACK]);
    assert_eq!(kinds(raw.option(2, &[])), [ACK]);
    assert!(raw.is_closed());
    // The old way in, with and without the padding.
    for (client_flags, tail) in [(1u32, 134), (3, 10)] {
        let mut stream = UnixStream::connect(&serving.socket).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        stream.write_all(&client_flags.to_be_bytes()).unwrap();
        let mut raw = Raw { stream };
        raw.send_option(1, b"disk");
        assert_eq!(raw.take_vec(tail)[..8], SIZE.to_be_bytes());
        raw.request(READ, 0, 1, 0, 8);
        assert_eq!(raw.reply(), Reply::Simple { error: 0, cookie: 1 });
    }
}

#[test]
fn a_second_choice_of_contexts_replaces_the_first_also_where_it_fails() {
    const NONE: &[u8] = b"\0\0\0\0\0\0\0\0";
    const ANOTHER: &[u8] = b"\0\0\0\0\0\0\0\x01\0\0\0\x03x:y";
    const OTHER_EXPORT: &[u8] = b"\0\0\0\x05other\0\0\0\0";
    const TOO_LONG: &[u8] = b"\0\0\0\0\0\0\0\x01\0\0\0\x03x:";
    let allocation: &[u8] = b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation";
    let (_memory, serving) = serving();
    for (second, served) in
        [(allocation, true), (NONE, false), (ANOTHER, false), (OTHER_EXPORT, false), (TOO_LONG, false)]
    {
        let mut raw = Raw::connect(&serving.socket);
        assert_eq!(raw.option(STRUCTURED_REPLY, &[]), [(ACK, vec![])]);
        raw.option(SET_META_CONTEXT, allocation);
        raw.option(SET_META_CONTEXT, second);
        let started = raw.option(GO, b"\0\0\0\0\0\0");
        assert_eq!(started.last().map(|reply| reply.0), Some(ACK));
        raw.request(BLOCK_STATUS, 0, 1, 0, 4096);
        let Reply::Chunk { kind, payload, .. } = raw.reply() else { panic!("no chunk") };
        assert_eq!(kind == 5, served, "{second:?}");
        if !served {
            assert_eq!(payload[..4], libc::EINVAL.to_be_bytes(), "{second:?}");
        }
    }
}

#[test]
fn a_broken_handshake_ends_the_connection() {
    let (_memory, serving) = serving();
    // Unknown client flags.
    let mut stream = UnixStream::connect(&serving.socket).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(&0x8000_0003u32.to_be_bytes()).unwrap();
    assert!(Raw { stream }.is_closed());
    // A wrong magic number, a name that no export has, a length that nobody may name.
    let mut raw = Raw::connect(&serving.socket);
    raw.send(b"IHAVEOPX\0\0\0\x07\0\0\0\0");
    assert!(raw.is_closed());
    let mut raw = Raw::connect(&serving.socket);
    raw.send_option(1, b"nothing");
    assert!(raw.is_closed());
    let mut raw = Raw::connect(&serving.socket);
    raw.send(b"IHAVEOPT\0\0\0\x07\xff\xff\xff\xff");
    assert!(raw.is_closed());
    // Options without end.
    let mut raw = Raw::connect(&serving.socket);
    let mut answered = 0;
    raw.stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    while answered < 100_000 {
        let option = b"IHAVEOPT\0\0\0\x08\0\0\0\0";
        if raw.stream.write_all(option).is_err() || raw.stream.read_exact(&mut [0; 20]).is_err() {
            break;
        }
        answered += 1;
    }
    assert!(answered < 1000, "{answered} options were answered");
}

#[test]
fn a_client_that_never_finishes_its_handshake_is_dropped() {
    let memory = Arc::new(Memory::new(SIZE));
    let options = Options { handshake: Duration::from_millis(200), ..Options::default() };
    let serving = Serving::with(memory, options);
    let mut raw = Raw::connect(&serving.socket);
    let start = Instant::now();
    assert!(raw.is_closed());
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_request_with_a_wrong_magic_number_ends_the_connection() {
    let (_memory, serving) = serving();
    let mut raw = Raw::transmission(&serving.socket, true);
    raw.send(&[0x55; 28]);
    assert!(raw.is_closed());
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_request_hurts_nobody() {
    let (memory, serving) = serving();
    let before = memory.copy();
    for sent in [5, 28, 28 + 1000, 28 + (1 << 20)] {
        let mut raw = Raw::transmission(&serving.socket, true);
        let mut wire = 0x2560_9513u32.to_be_bytes().to_vec();
        wire.extend([0, 0, 0, 1]);
        wire.extend(1u64.to_be_bytes());
        wire.extend(0u64.to_be_bytes());
        wire.extend((4u32 << 20).to_be_bytes());
        wire.resize(28 + (4 << 20), 0xab);
        raw.send(&wire[..sent]);
    }
    // Reads that nobody waits for.
    let mut raw = Raw::transmission(&serving.socket, true);
    for cookie in 0..50 {
        raw.request(READ, 0, cookie, 0, SIZE as u32);
    }
    drop(raw);
    let mut raw = Raw::transmission(&serving.socket, true);
    raw.request(READ, 0, 1, 4 << 20, 1 << 20);
    let (data, _) = raw.structured_read(1, 4 << 20, 1 << 20);
    assert!(data == before[4 << 20..5 << 20]);
}

#[test]
fn several_requests_are_under_way_at_once_and_answered_out_of_order() {
    let (memory, serving) = serving();
    memory.open_gate(false);
    let mut raw = Raw::transmission(&serving.socket, true);
    raw.request(WRITE, 0, 100, 0, 4096);
    raw.send(&[1; 4096]);
    wait_until("the write is under way", || memory.waiting.load(Ordering::SeqCst) == 1);
    raw.request(READ, 0, 200, 8192, 16);
    let (data, _) = raw.structured_read(200, 8192, 16);
    assert_eq!(data, memory.copy()[8192..8208]);
    memory.open_gate(true);
    assert_eq!(raw.reply(), Reply::Simple { error: 0, cookie: 100 });
}

#[test]
fn a_client_that_does_not_read_its_replies_blocks_no_other_and_no_shutdown() {
    let memory = Arc::new(Memory::new(SIZE));
    let options = Options { grace: Duration::from_millis(300), ..Options::default() };
    let serving = Serving::with(memory.clone(), options);
    let mut stalled = Raw::transmission(&serving.socket, true);
    for cookie in 0..64 {
        stalled.request(READ, 0, cookie, 0, SIZE as u32);
    }
    wait_until("replies wait for it", || rustix::io::ioctl_fionread(&stalled.stream).unwrap() > 0);
    let mut lively = Raw::transmission(&serving.socket, true);
    for cookie in 0..50 {
        lively.request(READ, 0, cookie, 0, 1 << 20);
        let (data, _) = lively.structured_read(cookie, 0, 1 << 20);
        assert!(data == memory.copy()[..1 << 20]);
    }
    let start = Instant::now();
    serving.stop().unwrap();
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(memory.flushes.load(Ordering::SeqCst), 1);
}

#[test]
fn shutdown_finishes_what_is_under_way_then_flushes_then_closes() {
    let (memory, serving) = serving();
    memory.open_gate(false);
    let mut raw = Raw::transmission(&serving.socket, true);
    raw.request(WRITE, 0, 1, 0, 4096);
    raw.send(&[0xcd; 4096]);
    wait_until("the write is under way", || memory.waiting.load(Ordering::SeqCst) == 1);
    serving.shutdown.start();
    wait_until("nobody new is taken", || !serving.socket.exists());
    assert_eq!(memory.flushes.load(Ordering::SeqCst), 0);
    memory.open_gate(true);
    assert_eq!(raw.reply(), Reply::Simple { error: 0, cookie: 1 });
    assert!(raw.is_closed());
    serving.stop().unwrap();
    assert_eq!(memory.flushes.load(Ordering::SeqCst), 1);
    assert!(!memory.flushed_early.load(Ordering::SeqCst), "flushed before the write was done");
    assert_eq!(memory.copy()[..4096], [0xcd; 4096]);
}

#[test]
fn a_failed_last_flush_is_reported() {
    let (memory, serving) = serving();
    memory.flush_fails.store(true, Ordering::SeqCst);
    assert!(matches!(serving.stop(), Err(RunError::Flush(_))));
}

#[test]
fn more_clients_than_allowed_wait_their_turn() {
    let memory = Arc::new(Memory::new(SIZE));
    let options = Options { connections: 1, turn: Duration::from_secs(20), ..Options::default() };
    let serving = Serving::with(memory, options);
    let first = Raw::transmission(&serving.socket, true);
    let mut second = Raw::connect(&serving.socket);
    second.send_option(7, &[0; 6]);
    second.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(second.stream.read_exact(&mut [0; 1]).is_err());
    drop(first);
    second.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(second.option_replies(7).last().unwrap().0, 1);
}

#[test]
fn a_client_beyond_the_limit_is_told_and_idle_handshakes_make_room() {
    let memory = Arc::new(Memory::new(SIZE));
    let options = Options { connections: 2, turn: Duration::from_millis(100), ..Options::default() };
    let serving = Serving::with(memory, options);
    let mut served = [(); 2].map(|()| Raw::transmission(&serving.socket, true));
    let mut third = Raw::connect(&serving.socket);
    third.send_option(7, &[0; 6]);
    let replies = third.option_replies(7);
    assert_eq!(replies[0].0, 0x8000_0002, "{replies:?}");
    assert!(String::from_utf8_lossy(&replies[0].1).contains("connected"));
    // It may look, and the others go on.
    third.send_option(6, &[0; 6]);
    assert_eq!(third.option_replies(6).last().unwrap().0, 1);
    served[0].request(READ, 0, 1, 0, 4096);
    served[0].structured_read(1, 0, 4096);
    // Many that never finish their handshake.
    let idle: Vec<_> = (0..100).map(|_| UnixStream::connect(&serving.socket).unwrap()).collect();
    let mut late = Raw::connect(&serving.socket);
    drop(served);
    late.send_option(7, &[0; 6]);
    assert_eq!(late.option_replies(7).last().unwrap().0, 1);
    drop(idle);
}

#[test]
fn the_socket_is_private_replaces_a_stale_one_and_nothing_else() {
    let memory = Arc::new(Memory::new(SIZE));
    let directory = Scratch::new();
    let path = directory.path("socket");
    let endpoint = Endpoint::Unix(path.clone());
    let bind = || Server::bind(memory.clone(), &endpoint, Options::default());
    drop(UnixListener::bind(&path).unwrap());
    let server = bind().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    assert!(matches!(bind(), Err(BindError::InUse { .. })));
    drop(server);
    assert_eq!(std::fs::read_dir(directory.as_path()).unwrap().count(), 0, "nothing is left behind");
    std::fs::write(&path, b"precious").unwrap();
    assert!(matches!(bind(), Err(BindError::NotASocket { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    std::fs::remove_file(&path).unwrap();
    let long = Endpoint::Unix(directory.path("x".repeat(120)));
    let refused = Server::bind(memory.clone(), &long, Options::default());
    assert!(matches!(refused, Err(BindError::PathTooLong { max: 107, .. })));
    // The name may use all of its 107 bytes.
    let name = "y".repeat(107 - directory.as_path().as_os_str().len() - 1);
    let longest = Endpoint::Unix(directory.path(name));
    let server = Server::bind(memory.clone(), &longest, Options::default()).unwrap();
    let Endpoint::Unix(socket) = server.endpoint() else { panic!() };
    drop(UnixStream::connect(socket).unwrap());
}

/// Conversations that were right until a few bytes changed. The server answers or hangs up; it neither stops nor
/// keeps a thread. A failure prints the seed that repeats it.
#[test]
fn mutated_conversations_neither_stop_the_server_nor_hold_its_threads() {
    let (memory, serving) = serving();
    let mut right = 3u32.to_be_bytes().to_vec();
    for (option, data) in [
        (3u32, &b""[..]),
        (STRUCTURED_REPLY, b""),
        (SET_META_CONTEXT, b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation"),
        (6, b"\0\0\0\0\0\x01\0\x03"),
        (GO, b"\0\0\0\0\0\0"),
    ] {
        right.extend(b"IHAVEOPT");
        right.extend(option.to_be_bytes());
        right.extend((data.len() as u32).to_be_bytes());
        right.extend(data);
    }
    for (command, offset, len) in [
        (READ, 4096u64, 5000u32),
        (WRITE, 100, 50),
        (BLOCK_STATUS, 0, 1 << 20),
        (WRITE_ZEROES, 8192, 300),
        (READ, 0, 600_000),
        (TRIM, 0, 4096),
        (FLUSH, 0, 0),
        (DISCONNECT, 0, 0),
    ] {
        right.extend(0x2560_9513u32.to_be_bytes());
        right.extend([0, 0]);
        right.extend(command.to_be_bytes());
        right.extend(7u64.to_be_bytes());
        right.extend(offset.to_be_bytes());
        right.extend(len.to_be_bytes());
        right.extend(vec![0xaa; if command == WRITE { len as usize } else { 0 }]);
    }
    let (mut conversations, mut answered) = (0, 0);
    let mut buffer = vec![0; 1 << 20];
    Campaign::new("hostile NBD conversations", 400, 20_000).run(|seed, random| {
        let mut wire = right.clone();
        for _ in 0..random.below(4) {
            let at = random.index(wire.len());
            match random.below(4) {
                0 => wire[at] ^= 1 << random.below(8),
                1 => wire[at] = *random.pick(&[0, 0x7f, 0x80, 0xff]),
                2 => wire.truncate(at.max(1)),
                _ => drop(wire.splice(at..at, [0xff; 3])),
            }
        }
        let mut stream = UnixStream::connect(&serving.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // The server may have hung up already.
        let _ = stream.write_all(&wire);
        // Nothing more will come, so the server ends the conversation, too.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        conversations += 1;
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) => answered += len,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => panic!("the server neither answers nor ends: {error}"),
            }
        }
        drop(stream);
        let mut check = Raw::transmission(&serving.socket, true);
        check.request(READ, 0, seed, SIZE - 4096, 4096);
        let (_, errors) = check.structured_read(seed, SIZE - 4096, 4096);
        assert!(errors.is_empty());
    });
    assert!(answered > conversations * 100, "the conversations got somewhere: {answered} bytes came back");
    serving.stop().unwrap();
    // Only a connection's threads hold the export.
    wait_until("all threads let go of the device", || Arc::strong_count(&memory) == 1);
}

/// As root, the test can step down to another user in a child process and try to connect.
#[test]
fn another_user_is_not_served_even_if_the_socket_s_mode_is_widened() {
    needs::root("stepping down to another user");
    let (_memory, serving) = serving();
    std::fs::set_permissions(serving.directory.as_path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&serving.socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    let socket = serving.socket.to_str().unwrap();
    let uri = format!("nbd+unix:///?socket={socket}");
    let step_down = ["--reuid=65534", "--regid=65534", "--clear-groups", "nbdinfo", "--size", &uri];
    assert!(!common::try_run("setpriv", &step_down).is_ok());
    assert_eq!(common::run("nbdinfo", &["--size", &uri]).trim(), SIZE.to_string());
}
