//! The workers of a connection under many schedules: each request is answered once and in whole, what an answer says is
//! so, and the connection ends, whatever the client does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use atrest_codec::{Be, decode, encode};
use atrest_testkit::schedules::device::{Done, HalfDone};
use atrest_testkit::schedules::pipe::Pipe;
use atrest_testkit::schedules::{Planted, find, hold, thread};

use super::connection::serve;
use super::handshake::{Export, Terms};
use super::proto::{REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk, command_flag};
use super::stream::{Input, Output};
use crate::pieces::CHUNK;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;

const SIZE: usize = 3 * CHUNK;
/// A request that three parts are made of.
const LONG: usize = CHUNK + 200;
const LONG_AT: u64 = CHUNK as u64 - 100;

/// The client's end of a connection.
struct Client {
    to_server: Pipe,
    from_server: Pipe,
}

impl Client {
    fn send(&self, command: u16, flags: u16, cookie: u64, offset: u64, len: usize) {
        let header: [u8; 28] =
            encode((Be(REQUEST_MAGIC), Be(flags), Be(command), Be(cookie), Be(offset), Be(len as u32)));
        self.to_server.send(&header);
    }

    fn write(&self, flags: u16, cookie: u64, offset: u64, data: &[u8]) {
        self.send(WRITE, flags, cookie, offset, data.len());
        self.to_server.send(data);
    }

    /// The next message: its cookie, whether it is the last for that, its kind (0 if it has none), and its payload.
    fn receive(&self, read: &BTreeMap<u64, usize>) -> Option<(u64, bool, u16, Vec<u8>)> {
        let mut start = [0; 16];
        if !self.from_server.receive(&mut start) {
            return None;
        }
        let (Be(magic), Be(error), Be(cookie)): (Be<u32>, Be<u32>, Be<u64>) = decode(&start);
        if magic == SIMPLE_REPLY_MAGIC {
            assert_eq!(error, 0, "request {cookie}");
            // intended: only reads have a payload.
            let mut data = vec![0; read.get(&cookie).copied().unwrap_or(0)];
            assert!(self.from_server.receive(&mut data), "a reply is cut");
            return Some((cookie, true, 0, data));
        }
        assert_eq!(magic, STRUCTURED_REPLY_MAGIC, "messages are mixed");
        let (_, Be(flags), Be(kind), Be(cookie)): (Be<u32>, Be<u16>, Be<u16>, Be<u64>) = decode(&start);
        let mut len = [0; 4];
        assert!(self.from_server.receive(&mut len), "a reply is cut");
        let mut payload = vec![0; u32::from_be_bytes(len) as usize];
        assert!(self.from_server.receive(&mut payload), "a reply is cut");
        Some((cookie, flags & chunk::FLAG_DONE != 0, kind, payload))
    }
}

/// Serves a client with three workers, on a medium that holds fives.
fn served(
    structured: bool,
    bad: Option<u64>,
    client: impl FnOnce(&Client, &HalfDone) + Send,
) -> Arc<HalfDone> {
    let medium = Arc::new(HalfDone::new(vec![5; SIZE]).with_bad(bad));
    let export = Export { name: String::new(), device: medium.clone(), tls: None };
    let ends = Client { to_server: Pipe::default(), from_server: Pipe::default() };
    let input = Input { from_client: ends.to_server.clone() };
    let output = Output { to_client: ends.from_server.clone(), from_client: ends.to_server.clone() };
    let (terms, stop) = (Terms { structured, allocation: false }, AtomicBool::new(false));
    thread::scope(|scope| {
        let (ends, medium) = (&ends, &medium);
        scope.spawn(move || client(ends, medium));
        // Not here: shuttle wakes whoever has opened a scope when all of its threads have ended, whatever that waits for.
        let (export, stop) = (&export, &stop);
        scope.spawn(move || {
            serve(export, terms, input, output, 3, stop);
            ends.from_server.close();
        });
    });
    medium
}

/// Reads and writes at once, whose answers the client sorts out by their cookies.
fn ask_much_at_once(structured: bool) {
    let medium = served(structured, None, |client, _| {
        client.write(0, 1, 10, &[1; 20]);
        client.write(0, 2, LONG_AT, &[2; LONG]);
        client.send(READ, 0, 3, LONG_AT, LONG);
        client.send(READ, 0, 4, 0, 100);
        client.send(FLUSH, 0, 5, 0, 0);
        client.send(DISCONNECT, 0, 6, 0, 0);
        let reads = BTreeMap::from([(3, LONG), (4, 100)]);
        let mut answered = Vec::new();
        let mut long = vec![0; LONG];
        let mut bytes = 0;
        while let Some((cookie, is_last, kind, payload)) = client.receive(&reads) {
            assert!(!answered.contains(&cookie), "more after the last answer to {cookie}");
            if is_last {
                answered.push(cookie);
            }
            match (cookie, kind) {
                (3, chunk::OFFSET_DATA) => {
                    let (offset, data) = payload.split_first_chunk().expect("an offset");
                    let at = (u64::from_be_bytes(*offset) - LONG_AT) as usize;
                    long[at..at + data.len()].copy_from_slice(data);
                    bytes += data.len();
                }
                (3, 0) => (long, bytes) = (payload, LONG),
                (4, chunk::OFFSET_DATA) => assert_eq!(payload.len(), 108),
                _ => {}
            }
        }
        answered.sort_unstable();
        assert_eq!((answered, bytes), (vec![1, 2, 3, 4, 5], LONG));
        assert!(long.iter().all(|byte| matches!(byte, 2 | 5)));
    });
    let mut expected = vec![5; SIZE];
    expected[10..30].fill(1);
    expected[LONG_AT as usize..][..LONG].fill(2);
    assert!(medium.bytes() == expected, "a write is lost");
}

#[test]
fn every_request_is_answered_once_and_in_whole() {
    hold(|| ask_much_at_once(true));
    hold(|| ask_much_at_once(false));
}

/// Some writes take longer than the worker beside them waits, and it takes the socket over.
fn ask_for_little() {
    let medium = served(true, None, |client, _| {
        for cookie in 1..=5 {
            client.write(0, cookie, cookie * 20, &[cookie as u8; 10]);
            client.send(READ, 0, 10 + cookie, 1000 + cookie, 10);
        }
        client.send(DISCONNECT, 0, 99, 0, 0);
        let mut answered = Vec::new();
        while let Some((cookie, is_last, kind, payload)) = client.receive(&BTreeMap::new()) {
            assert!(is_last && !answered.contains(&cookie), "more after the last answer to {cookie}");
            match cookie {
                1..=5 => assert_eq!(kind, 0),
                _ => assert_eq!((kind, &payload[8..]), (chunk::OFFSET_DATA, &[5; 10][..])),
            }
            answered.push(cookie);
        }
        answered.sort_unstable();
        assert_eq!(answered, [1, 2, 3, 4, 5, 11, 12, 13, 14, 15]);
    });
    let mut expected = vec![5; SIZE];
    for cookie in 1..=5 {
        expected[cookie * 20..][..10].fill(cookie as u8);
    }
    assert!(medium.bytes() == expected, "a write is lost");
}

#[test]
fn small_requests_are_answered_once_whoever_has_the_socket() {
    hold(ask_for_little);
}

#[test]
fn parts_that_are_not_counted_at_once_are_found() {
    find(Planted::Addition, || ask_much_at_once(true));
}

#[test]
fn a_worker_that_is_not_woken_is_found() {
    find(Planted::Notification, || ask_much_at_once(true));
}

/// Whether all these writes had ended when a flush began that has ended, too.
fn is_durable(medium: &HalfDone, writes: &[u64]) -> bool {
    let done = medium.done();
    let ended =
        |offset: &u64| done.iter().position(|event| matches!(event, Done::Write(at, _) if at == offset));
    let Some(last) =
        writes.iter().map(ended).collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max())
    else {
        return false;
    };
    done.iter().any(|event| matches!(event, Done::Flush(begun) if *begun > last))
}

#[test]
fn a_flush_and_a_forced_write_are_answered_when_what_they_cover_is_durable() {
    hold(|| {
        served(true, None, |client, medium| {
            let none = BTreeMap::new();
            client.write(0, 1, 10, &[1; 20]);
            // Not waited for: the flush need not cover it.
            client.write(0, 2, 100, &[2; 20]);
            loop {
                if client.receive(&none).expect("an answer").0 == 1 {
                    break;
                }
            }
            client.send(FLUSH, 0, 3, 0, 0);
            client.write(command_flag::FUA, 4, LONG_AT, &[4; LONG]);
            let mut answered = Vec::new();
            while !(answered.contains(&3) && answered.contains(&4)) {
                let (cookie, _, kind, _) = client.receive(&none).expect("an answer");
                assert_eq!(kind, 0, "an error");
                let covered: &[u64] = match cookie {
                    3 => &[10],
                    4 => &[LONG_AT, CHUNK as u64, 2 * CHUNK as u64],
                    _ => continue,
                };
                assert!(is_durable(medium, covered), "{:?}", medium.done());
                answered.push(cookie);
            }
            client.send(DISCONNECT, 0, 6, 0, 0);
        });
    });
}

#[test]
fn an_error_in_one_part_fails_the_whole_request_once() {
    hold(|| {
        served(true, Some(CHUNK as u64 + 5), |client, _| {
            client.write(0, 1, LONG_AT, &[2; LONG]);
            client.send(DISCONNECT, 0, 2, 0, 0);
            let (cookie, is_last, kind, _) = client.receive(&BTreeMap::new()).expect("an answer");
            assert_eq!((cookie, is_last, kind), (1, true, chunk::ERROR_OFFSET));
            assert!(client.receive(&BTreeMap::new()).is_none());
        });
    });
}

#[test]
fn a_client_that_leaves_in_the_middle_gets_no_answer_and_ends_the_connection() {
    hold(|| {
        served(true, None, |client, _| {
            client.send(WRITE, 0, 1, LONG_AT, LONG);
            client.to_server.send(&[2; CHUNK]);
            client.to_server.close();
            assert!(client.receive(&BTreeMap::new()).is_none());
        });
    });
}
