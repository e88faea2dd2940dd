//! The handshake of NBD alone, against a short model of it (doc/proto.md of the NBD project, "Newstyle negotiation").

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use atrest_attach::nbd::{Endpoint, Options, Server, Tls};

use crate::faces::directory;
use crate::{Image, Reader};

const EXPORT: &[u8] = b"fuzz";
const SIZE: u64 = 1 << 20;
const OPTION: u64 = 0x4948_4156_454f_5054;
const REPLY: u64 = 0x0003_e889_0455_65a9;
const CONTEXT: &[u8] = b"base:allocation";

/// Options that mean something.
const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const STARTTLS: u32 = 5;
const INFO: u32 = 6;
const GO: u32 = 7;
const STRUCTURED: u32 = 8;
const LIST_META: u32 = 9;
const SET_META: u32 = 10;

/// Replies to them. Errors have their highest bit set.
const ACK: u32 = 1;
const SERVER: u32 = 2;
const INFORMATION: u32 = 3;
const META: u32 = 4;
const UNSUPPORTED: u32 = 1 << 31 | 1;
const INVALID: u32 = 1 << 31 | 3;
const TLS_REQUIRED: u32 = 1 << 31 | 5;
const UNKNOWN: u32 = 1 << 31 | 6;
const TOO_BIG: u32 = 1 << 31 | 9;

/// What a client sends: the input itself, or options put together by it, to a server with TLS or without. The server answers
/// as the model does.
pub fn nbd_handshake(data: &[u8]) {
    let (tls, whole, data) = match data.split_first() {
        Some((&0xff, rest)) => (false, true, rest),
        Some((&0xfe, rest)) => (true, false, rest),
        Some((&0xfd, rest)) => (true, true, rest),
        _ => (false, false, data),
    };
    let stream = match whole {
        true => data.to_vec(),
        false => made(&mut Unstructured::new(data)).unwrap_or_default(),
    };
    let (expected, used) = Model { tls, ..Model::default() }.run(&stream);
    let answered = answers(if tls { tls_server() } else { server() }, &stream[..used]);
    let whole = answered.len() == expected.len()
        && answered.iter().zip(&expected).all(|(answered, expected)| expected.is(answered));
    assert!(whole, "{answered:x?}\nfor {expected:x?}");
}

/// Flags and options, most of which a server takes.
fn made(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut stream = vec![0, 0, 0, *u.choose(&[3, 3, 3, 1, 0, 2, 7])?];
    for _ in 0..u.int_in_range(0..=8)? {
        let number =
            *u.choose(&[GO, INFO, STRUCTURED, SET_META, LIST_META, LIST, EXPORT_NAME, ABORT, 5, 11])?;
        let mut data = match number {
            GO | INFO => {
                const ASKED: &[&[u8]] = &[&[], &[0, 0], &[0, 3], &[0, 1, 0, 3], &[0, 0, 0, 9]];
                let requests = *u.choose(ASKED)?;
                let count = (requests.len() / 2) as u16;
                [&string(u)?[..], &count.to_be_bytes(), requests].concat()
            }
            SET_META | LIST_META => {
                let queries = u.int_in_range(0..=3)?;
                let mut data = [&string(u)?[..], &(queries as u32).to_be_bytes()].concat();
                for _ in 0..queries {
                    data.extend(string(u)?);
                }
                data
            }
            EXPORT_NAME => string(u)?.split_off(4),
            _ => vec![7; u.int_in_range(0..=1)?],
        };
        if u.ratio(1, 4)? && !data.is_empty() {
            let at = u.choose_index(data.len())?;
            data[at] = u.arbitrary()?;
        }
        let len = match u.int_in_range(0..=15)? {
            0 => *u.choose(&[0, 1, 16 << 10, 17 << 10, 1 << 20, (1 << 20) + 1, u32::MAX])?,
            _ => data.len() as u32,
        };
        // A length that is not the data's takes what comes then for its data.
        data.resize(data.len().max((len as usize).min(20 << 10)), 0);
        stream.extend([&OPTION.to_be_bytes()[..], &number.to_be_bytes(), &len.to_be_bytes(), &data].concat());
    }
    if u.ratio(1, 8)? {
        let at = u.choose_index(stream.len())?;
        stream.truncate(at);
    }
    Ok(stream)
}

/// A string behind its length.
fn string(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    const LONG: &[u8] = &[b'x'; 4097];
    let text = *u.choose(&[EXPORT, b"", CONTEXT, b"base:", b"other", LONG.split_at(4096).0, LONG])?;
    Ok([&(text.len() as u32).to_be_bytes()[..], text].concat())
}

/// A running server of its own.
fn server() -> &'static PathBuf {
    static SERVER: OnceLock<PathBuf> = OnceLock::new();
    SERVER.get_or_init(|| run("handshake.sock", None))
}

/// Another one, whose clients have to begin with TLS.
fn tls_server() -> &'static PathBuf {
    static SERVER: OnceLock<PathBuf> = OnceLock::new();
    SERVER.get_or_init(|| {
        let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=fuzz";
        let made = Command::new("openssl")
            .args(words.split(' '))
            .args(["-keyout", "server-key.pem", "-out", "server-cert.pem"])
            .current_dir(directory())
            .output();
        assert!(made.expect("openssl is installed: run scripts/setup").status.success());
        run("tls.sock", Some(Tls::load(directory(), false).expect("a certificate and its key")))
    })
}

fn run(socket: &str, tls: Option<Tls>) -> PathBuf {
    let path = directory().join(socket);
    let options = Options { export: "fuzz".into(), workers: 1, tls, ..Options::default() };
    let server = Server::bind(Image::new(SIZE, &[]), &Endpoint::Unix(path.clone()), options);
    let server = server.expect("the socket can be bound");
    std::thread::spawn(move || server.run());
    path
}

/// Everything that the server says behind its greeting.
fn answers(server: &PathBuf, stream: &[u8]) -> Vec<Answer> {
    let mut client = UnixStream::connect(server).expect("the server accepts");
    client.set_read_timeout(Some(Duration::from_secs(20))).expect("a valid timeout");
    let mut greeting = [0; 18];
    client.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
    let mut replies = client.try_clone().expect("a second handle");
    // The server may well be stuck on its replies until they are read.
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        match replies.read_to_end(&mut said) {
            // One that resets the connection has ended it, too.
            Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("it hangs: {error}"),
            _ => said,
        }
    });
    let _ = client.write_all(stream);
    let _ = client.shutdown(Shutdown::Write);
    parse(&reader.join().expect("the server ends what it begins"))
}

/// Replies, or what an old client gets instead.
fn parse(said: &[u8]) -> Vec<Answer> {
    let (mut reader, mut answers) = (Reader(said), Vec::new());
    while !reader.0.is_empty() {
        if u64::from_be_bytes(*reader.0.first_chunk().expect("8 bytes")) != REPLY {
            answers.push(Answer::Terms(reader.0.to_vec()));
            break;
        }
        let (_, option, kind): ([u8; 8], _, _) = (reader.array(), reader.array(), reader.array());
        let len = u32::from_be_bytes(reader.array()) as usize;
        let data = reader.bytes(len);
        assert_eq!(data.len(), len, "a reply that is cut off");
        answers.push(Answer::Reply(u32::from_be_bytes(option), u32::from_be_bytes(kind), data.to_vec()));
    }
    answers
}

/// What a server says.
#[derive(Debug)]
enum Answer {
    /// Option, kind and data.
    Reply(u32, u32, Vec<u8>),
    /// Size, flags and padding.
    Terms(Vec<u8>),
}

impl Answer {
    /// Errors may say what they like.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Reply(a, kind, _), Self::Reply(b, other, _)) if kind >> 31 == 1 => (a, kind) == (b, other),
            (Self::Reply(a, kind, data), Self::Reply(b, other, has)) => (a, kind, data) == (b, other, has),
            (Self::Terms(a), Self::Terms(b)) => a == b,
            _ => false,
        }
    }
}

/// The negotiation as the protocol describes it.
#[derive(Default)]
struct Model {
    /// TLS has to come first. The model ends where it comes.
    tls: bool,
    structured: bool,
    answers: Vec<Answer>,
}

impl Model {
    /// All answers, and the bytes after which no more options are read.
    fn run(mut self, stream: &[u8]) -> (Vec<Answer>, usize) {
        let mut left = stream;
        if let Some(flags) = take(&mut left, 4)
            && let [0, 0, 0, flags @ 0..=3] = *flags
        {
            let mut options = 0;
            while options < 512 && self.option(&mut left, flags & 2 != 0).is_some() {
                options += 1;
            }
        }
        (self.answers, stream.len() - left.len())
    }

    fn reply(&mut self, option: u32, kind: u32, data: &[u8]) {
        self.answers.push(Answer::Reply(option, kind, data.to_vec()));
    }

    /// `None` if no other one is read.
    fn option(&mut self, left: &mut &[u8], no_zeroes: bool) -> Option<()> {
        let mut head = Reader(take(left, 16)?);
        let (magic, number, len) = (head.array(), u32::from_be_bytes(head.array()), head.array());
        let len = u32::from_be_bytes(len) as usize;
        if u64::from_be_bytes(magic) != OPTION || len > 1 << 20 || number == EXPORT_NAME && len > 16 << 10 {
            return None;
        }
        let data = take(left, len)?;
        match number {
            STARTTLS if self.tls && data.is_empty() => {
                self.reply(number, ACK, &[]);
                return None;
            }
            EXPORT_NAME if self.tls => return None,
            STARTTLS if self.tls && len <= 16 << 10 => {
                self.reply(number, INVALID, &[]);
                return Some(());
            }
            ABORT if self.tls && len <= 16 << 10 => {}
            _ if self.tls => {
                self.reply(number, TLS_REQUIRED, &[]);
                return Some(());
            }
            _ if len > 16 << 10 => {
                self.reply(number, TOO_BIG, &[]);
                return Some(());
            }
            _ => {}
        }
        match number {
            EXPORT_NAME => {
                if is_export(data) {
                    let terms = [&SIZE.to_be_bytes()[..], &self.flags()].concat();
                    let padding = if no_zeroes { 0 } else { 124 };
                    self.answers.push(Answer::Terms([&terms[..], &vec![0; padding]].concat()));
                }
                return None;
            }
            ABORT => {
                self.reply(number, ACK, &[]);
                return None;
            }
            LIST if data.is_empty() => {
                self.reply(number, SERVER, b"\0\0\0\x04fuzz");
                self.reply(number, ACK, &[]);
            }
            STRUCTURED if data.is_empty() => {
                self.structured = true;
                self.reply(number, ACK, &[]);
            }
            LIST | STRUCTURED => self.reply(number, INVALID, &[]),
            INFO | GO => return self.information(number, data),
            LIST_META | SET_META => self.contexts(number, data),
            _ => self.reply(number, UNSUPPORTED, &[]),
        }
        Some(())
    }

    fn information(&mut self, number: u32, data: &[u8]) -> Option<()> {
        let mut left = data;
        let parsed = text(&mut left).and_then(|name| {
            let count = u16::from_be_bytes(*take(&mut left, 2)?.first_chunk()?);
            let requests = take(&mut left, 2 * usize::from(count))?;
            left.is_empty().then_some((name, requests))
        });
        let Some((name, requests)) = parsed else {
            self.reply(number, INVALID, &[]);
            return Some(());
        };
        if !is_export(name) {
            self.reply(number, UNKNOWN, &[]);
            return Some(());
        }
        let terms = [&[0, 0][..], &SIZE.to_be_bytes(), &self.flags()].concat();
        self.reply(number, INFORMATION, &terms);
        let asked = |kind: u8| requests.chunks(2).any(|request| request == [0, kind]);
        if asked(1) {
            self.reply(number, INFORMATION, b"\0\x01fuzz");
        }
        if asked(3) {
            // The smallest block is a byte, the best 4096, and the largest payload 32 MiB.
            self.reply(number, INFORMATION, &[0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0]);
        }
        self.reply(number, ACK, &[]);
        (number == INFO).then_some(())
    }

    fn contexts(&mut self, number: u32, data: &[u8]) {
        let mut left = data;
        let parsed = text(&mut left).and_then(|name| {
            let count = u32::from_be_bytes(*take(&mut left, 4)?.first_chunk()?);
            let queries: Option<Vec<&[u8]>> = (0..count).map(|_| text(&mut left)).collect();
            left.is_empty().then_some((name, queries?))
        });
        match parsed {
            _ if !self.structured => self.reply(number, INVALID, &[]),
            None => self.reply(number, INVALID, &[]),
            Some((name, _)) if !is_export(name) => self.reply(number, UNKNOWN, &[]),
            Some((_, queries)) => {
                let all = number == LIST_META && (queries.is_empty() || queries.contains(&&b"base:"[..]));
                if all || queries.contains(&CONTEXT) {
                    let id = u32::from(number == SET_META).to_be_bytes();
                    self.reply(number, META, &[&id[..], CONTEXT].concat());
                }
                self.reply(number, ACK, &[]);
            }
        }
    }

    /// Flags, flush, FUA, trim, zeroes, several connections; DF with structured replies.
    fn flags(&self) -> [u8; 2] {
        let mut flags = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8;
        if self.structured {
            flags |= 1 << 7;
        }
        u16::to_be_bytes(flags)
    }
}

fn is_export(name: &[u8]) -> bool {
    name.is_empty() || name == EXPORT
}

fn take<'a>(left: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = left.split_at_checked(len)?;
    *left = rest;
    Some(taken)
}

/// A string of 4096 bytes at most behind its length.
fn text<'a>(left: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = u32::from_be_bytes(*take(left, 4)?.first_chunk()?) as usize;
    take(left, len).filter(|text| text.len() <= 4096)
}
