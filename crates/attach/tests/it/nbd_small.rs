//! Small requests, which come many in one packet and are answered many in one: each is answered once, rightly, and
//! without waiting for another that waits.

use crate::common::raw::*;
use crate::common::{BLOCK, Memory, Serving};
use atrest_device::Cause;
use atrest_testkit::{Random, wait_until};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SIZE: u64 = 4 << 20;
const LEN: u32 = BLOCK as u32;
const FUA: u16 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

fn serving() -> (Arc<Memory>, Serving) {
    let memory = Arc::new(Memory::new(SIZE));
    (memory.clone(), Serving::start(memory))
}

/// What a request is answered with.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Data(Vec<u8>),
    Error(u32),
    Done,
}

/// The next answer and its cookie. Reads are structured, of one chunk.
fn answer(raw: &mut Raw) -> (u64, Answer) {
    match raw.reply() {
        Reply::Simple { error: 0, cookie } => (cookie, Answer::Done),
        Reply::Simple { error, cookie } => (cookie, Answer::Error(error)),
        Reply::Chunk { kind: 1, cookie, payload, flags } => {
            assert_eq!(flags, 1, "the only chunk is the last");
            (cookie, Answer::Data(payload[8..].to_vec()))
        }
        Reply::Chunk { kind: 0, cookie, .. } => (cookie, Answer::Data(Vec::new())),
        Reply::Chunk { kind: 0x8001 | 0x8002, cookie, payload, .. } => {
            (cookie, Answer::Error(u32::from_be_bytes(payload[..4].try_into().unwrap())))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn many_requests_in_one_packet_are_each_answered_once_and_rightly() {
    let (memory, serving) = serving();
    let broken = 101;
    *memory.broken.lock().unwrap() = Some((broken, Cause::Os(5)));
    let mut expected = memory.copy();
    let mut random = Random::new(31);
    for _ in 0..20 {
        let mut raw = Raw::transmission(&serving.socket, true);
        let (mut packet, mut answers) = (Vec::new(), BTreeMap::new());
        // Requests that are under way together must not touch the same bytes: each block is drawn once.
        let mut blocks: Vec<u64> = (0..SIZE / BLOCK).collect();
        for cookie in 0..200_u64 {
            let block = blocks.swap_remove(random.below(blocks.len() as u64) as usize);
            let at = block * BLOCK;
            let range = at as usize..at as usize + BLOCK as usize;
            let (request, answer) = match random.below(8) {
                0..3 => (wire(READ, 0, cookie, at, LEN), Answer::Data(expected[range].to_vec())),
                3..6 => {
                    let data = random.bytes(BLOCK as usize);
                    let request = [wire(WRITE, 0, cookie, at, LEN), data.clone()].concat();
                    if block != broken {
                        expected[range].copy_from_slice(&data);
                    }
                    (request, Answer::Done)
                }
                // Those that go another way stand between them.
                6 => {
                    let data = random.bytes(100);
                    let flags = if random.below(2) == 0 { FUA } else { 0 };
                    if block != broken {
                        expected[range.start + 7..range.start + 107].copy_from_slice(&data);
                    }
                    ([wire(WRITE, flags, cookie, at + 7, 100), data].concat(), Answer::Done)
                }
                _ => match random.below(5) {
                    0 => (wire(FLUSH, 0, cookie, 0, 0), Answer::Done),
                    1 => (wire(READ, 0, cookie, SIZE, 1), Answer::Error(EINVAL)),
                    2 => ([wire(WRITE, 0, cookie, SIZE - 1, 2), vec![0; 2]].concat(), Answer::Error(ENOSPC)),
                    3 => (wire(READ, 0, cookie, at, 0), Answer::Data(Vec::new())),
                    _ => (wire(99, 0, cookie, at, LEN), Answer::Error(EINVAL)),
                },
            };
            let touches = request.len() > 28 || matches!(answer, Answer::Data(ref data) if !data.is_empty());
            let is_broken = block == broken && touches && !matches!(answer, Answer::Error(_));
            answers.insert(cookie, if is_broken { Answer::Error(EIO) } else { answer });
            packet.extend(request);
        }
        let mut sender = raw.stream.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || std::io::Write::write_all(&mut sender, &packet).unwrap());
            while !answers.is_empty() {
                let (cookie, answer) = answer(&mut raw);
                let wanted = answers.remove(&cookie).unwrap_or_else(|| panic!("{cookie} is answered twice"));
                assert!(answer == wanted, "request {cookie}");
            }
        });
        raw.request(DISCONNECT, 0, 0, 0, 0);
        assert!(raw.is_closed());
    }
    assert!(memory.copy() == expected, "a write is lost, or went elsewhere");
}

#[test]
fn replies_do_not_wait_for_a_write_that_waits_nor_do_later_requests() {
    let (memory, serving) = serving();
    memory.open_gate(false);
    for round in 0..4 {
        let mut raw = Raw::transmission(&serving.socket, true);
        let mut packet = wire(READ, 0, 1, 0, LEN);
        packet.extend(wire(WRITE, 0, 2, 2 * BLOCK, LEN));
        packet.extend([7; BLOCK as usize]);
        packet.extend(wire(READ, 0, 3, 4 * BLOCK, LEN));
        raw.send(&packet);
        // Both reads are answered while the write waits.
        let expected = |at: u64| Answer::Data(memory.copy()[at as usize..][..BLOCK as usize].to_vec());
        let answers = BTreeMap::from([answer(&mut raw), answer(&mut raw)]);
        assert_eq!(answers, BTreeMap::from([(1, expected(0)), (3, expected(4 * BLOCK))]));
        // Further writes wait beside it, as many as there are other workers, and keep nobody from reading.
        raw.request(WRITE, 0, 4, 6 * BLOCK, LEN);
        raw.send(&[8; BLOCK as usize]);
        wait_until("both writes are under way", || memory.waiting.load(Ordering::SeqCst) == 2);
        raw.request(READ, 0, 5, 8 * BLOCK, LEN);
        assert_eq!(answer(&mut raw), (5, expected(8 * BLOCK)));
        memory.open_gate(true);
        let answers = BTreeMap::from([answer(&mut raw), answer(&mut raw)]);
        assert_eq!(answers, BTreeMap::from([(2, Answer::Done), (4, Answer::Done)]), "round {round}");
        wait_until("both writes have ended", || memory.waiting.load(Ordering::SeqCst) == 0);
        memory.open_gate(false);
    }
    memory.open_gate(true);
}

#[test]
fn a_reply_does_not_wait_for_writes_that_keep_all_workers_busy() {
    let (memory, serving) = serving();
    memory.open_gate(false);
    let mut raw = Raw::transmission(&serving.socket, true);
    // From now on the server takes as much off the socket as there is.
    raw.request(READ, 0, 99, 0, LEN);
    assert_eq!(answer(&mut raw).0, 99);
    let mut packet = wire(READ, 0, 100, 0, LEN);
    for cookie in 0..20 {
        packet.extend(wire(WRITE, 0, cookie, (cookie + 2) * BLOCK, LEN));
        packet.extend([7; BLOCK as usize]);
    }
    raw.send(&packet);
    assert_eq!(answer(&mut raw), (100, Answer::Data(memory.copy()[..BLOCK as usize].to_vec())));
    memory.open_gate(true);
    let answered: BTreeMap<_, _> = (0..20).map(|_| answer(&mut raw)).collect();
    assert_eq!(answered, (0..20).map(|cookie| (cookie, Answer::Done)).collect());
}

#[test]
fn a_reply_does_not_wait_for_what_a_large_write_still_has_to_bring() {
    let (memory, serving) = serving();
    let mut raw = Raw::transmission(&serving.socket, true);
    raw.request(READ, 0, 99, 0, LEN);
    assert_eq!(answer(&mut raw).0, 99);
    let large = 32 * LEN;
    raw.send(&[wire(READ, 0, 1, 0, LEN), wire(WRITE, 0, 2, 4 * BLOCK, large)].concat());
    assert_eq!(answer(&mut raw).0, 1);
    raw.send(&vec![5; large as usize]);
    assert_eq!(answer(&mut raw), (2, Answer::Done));
    assert!(memory.copy()[4 * BLOCK as usize..][..large as usize].iter().all(|byte| *byte == 5));
}

#[test]
fn what_was_asked_before_a_client_leaves_or_talks_nonsense_is_answered() {
    let (memory, serving) = serving();
    let read = |cookie| wire(READ, 0, cookie, 0, LEN);
    let block = memory.copy()[..BLOCK as usize].to_vec();
    let endings: [(&str, Vec<u8>); 4] = [
        ("a good bye", wire(DISCONNECT, 0, 9, 0, 0)),
        ("nonsense", vec![0xaa; 28]),
        ("half a header", wire(READ, 0, 9, 0, LEN)[..20].to_vec()),
        ("half a write", [wire(WRITE, 0, 9, 0, LEN), vec![9; 1000]].concat()),
    ];
    for (ending, bytes) in endings {
        let mut raw = Raw::transmission(&serving.socket, true);
        raw.send(&[read(1), read(2), bytes].concat());
        raw.stream.shutdown(Shutdown::Write).unwrap();
        for cookie in [1, 2] {
            assert_eq!(answer(&mut raw), (cookie, Answer::Data(block.clone())), "{ending}");
        }
        assert!(raw.is_closed(), "{ending}");
    }
    assert_eq!(memory.copy()[..BLOCK as usize], block, "half a write was written");
}

#[test]
fn small_writes_that_were_answered_are_covered_by_a_flush_that_comes_later() {
    let (memory, serving) = serving();
    let mut raw = Raw::transmission(&serving.socket, true);
    for round in 1..50_u64 {
        let mut packet = Vec::new();
        for cookie in 0..10 {
            packet.extend(wire(WRITE, 0, cookie, cookie * BLOCK, LEN));
            packet.extend([round as u8; BLOCK as usize]);
        }
        raw.send(&packet);
        for _ in 0..10 {
            assert_eq!(answer(&mut raw).1, Answer::Done);
        }
        raw.request(FLUSH, 0, 77, 0, 0);
        assert_eq!(answer(&mut raw), (77, Answer::Done));
        assert_eq!(memory.flushes.load(Ordering::SeqCst), round);
        assert!(memory.copy()[..10 * BLOCK as usize].iter().all(|byte| *byte == round as u8));
    }
}

#[test]
fn a_client_that_does_not_read_gets_no_more_than_the_socket_holds_and_delays_nobody() {
    let (memory, serving) = serving();
    let mut stalled = Raw::transmission(&serving.socket, true);
    stalled.stream.set_nonblocking(true).unwrap();
    // Until nothing more is taken: the server waits for its replies to be read.
    let request = wire(READ, 0, 1, 0, LEN);
    let mut sent = 0_u64;
    while let Ok(bytes) = std::io::Write::write(&mut stalled.stream, &request[(sent % 28) as usize..]) {
        sent += bytes as u64;
    }
    let mut lively = Raw::transmission(&serving.socket, true);
    for cookie in 0..50 {
        lively.request(READ, 0, cookie, 0, LEN);
        assert_eq!(answer(&mut lively).0, cookie);
    }
    // It reads at last: every whole request is answered.
    stalled.stream.set_nonblocking(false).unwrap();
    stalled.stream.shutdown(Shutdown::Write).unwrap();
    let mut received = Vec::new();
    stalled.stream.read_to_end(&mut received).unwrap();
    let reply = 28 + BLOCK;
    assert_eq!(received.len() as u64, sent / 28 * reply);
    let block = &memory.copy()[..BLOCK as usize];
    assert!(received.chunks_exact(reply as usize).all(|reply| &reply[28..] == block));
}
