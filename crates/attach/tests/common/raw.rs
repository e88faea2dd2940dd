//! A client that can say anything, right or wrong.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub const STARTTLS: u32 = 5;
pub const GO: u32 = 7;
pub const STRUCTURED_REPLY: u32 = 8;
pub const LIST_META_CONTEXT: u32 = 9;
pub const SET_META_CONTEXT: u32 = 10;
pub const ACK: u32 = 1;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISCONNECT: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const WRITE_ZEROES: u16 = 6;
pub const BLOCK_STATUS: u16 = 7;

pub struct Raw {
    pub stream: UnixStream,
}

/// A request's header.
pub fn wire(command: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut wire = 0x2560_9513u32.to_be_bytes().to_vec();
    wire.extend(flags.to_be_bytes());
    wire.extend(command.to_be_bytes());
    wire.extend(cookie.to_be_bytes());
    wire.extend(offset.to_be_bytes());
    wire.extend(len.to_be_bytes());
    wire
}

/// One reply message: a simple reply or a chunk.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    Simple { error: u32, cookie: u64 },
    Chunk { flags: u16, kind: u16, cookie: u64, payload: Vec<u8> },
}

impl Raw {
    /// Connects and exchanges the flags.
    pub fn connect(socket: &Path) -> Raw {
        let mut raw = Raw { stream: UnixStream::connect(socket).unwrap() };
        raw.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let greeting: [u8; 18] = raw.take();
        assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
        raw.send(&3u32.to_be_bytes());
        raw
    }

    /// Into transmission, with structured replies and block status or without.
    pub fn transmission(socket: &Path, structured: bool) -> Raw {
        let mut raw = Raw::connect(socket);
        if structured {
            assert_eq!(raw.option(STRUCTURED_REPLY, &[]), [(ACK, vec![])]);
            let query = b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation";
            let replies = raw.option(SET_META_CONTEXT, query);
            assert_eq!(replies[0], (4, b"\0\0\0\x01base:allocation".to_vec()));
        }
        assert_eq!(raw.option(GO, &[0; 6]).last(), Some(&(ACK, vec![])));
        raw
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub fn take_vec(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// True if the server has closed the connection and sent nothing more.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0))
    }

    /// Sends an option and takes replies until one that ends it.
    pub fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send_option(option, data);
        self.option_replies(option)
    }

    pub fn option_replies(&mut self, option: u32) -> Vec<(u32, Vec<u8>)> {
        let mut replies = Vec::new();
        loop {
            let magic: [u8; 8] = self.take();
            assert_eq!(u64::from_be_bytes(magic), 0x0003_e889_0455_65a9);
            assert_eq!(u32::from_be_bytes(self.take()), option);
            let kind = u32::from_be_bytes(self.take());
            let len = u32::from_be_bytes(self.take());
            replies.push((kind, self.take_vec(len as usize)));
            if kind == ACK || kind >= 1 << 31 {
                return replies;
            }
        }
    }

    pub fn send_option(&mut self, option: u32, data: &[u8]) {
        let mut wire = b"IHAVEOPT".to_vec();
        wire.extend(option.to_be_bytes());
        wire.extend((data.len() as u32).to_be_bytes());
        wire.extend(data);
        self.send(&wire);
    }

    pub fn request(&mut self, command: u16, flags: u16, cookie: u64, offset: u64, len: u32) {
        self.send(&wire(command, flags, cookie, offset, len));
    }

    /// Takes one message; a simple reply's data is left to the caller.
    pub fn reply(&mut self) -> Reply {
        match u32::from_be_bytes(self.take()) {
            0x6744_6698 => Reply::Simple {
                error: u32::from_be_bytes(self.take()),
                cookie: u64::from_be_bytes(self.take()),
            },
            0x668e_33ef => {
                let flags = u16::from_be_bytes(self.take());
                let kind = u16::from_be_bytes(self.take());
                let cookie = u64::from_be_bytes(self.take());
                let len = u32::from_be_bytes(self.take());
                Reply::Chunk { flags, kind, cookie, payload: self.take_vec(len as usize) }
            }
            other => panic!("{other:#x} starts no reply"),
        }
    }

    /// The error number of a reply that consists of one message.
    pub fn error(&mut self) -> u32 {
        match self.reply() {
            Reply::Simple { error, .. } => error,
            Reply::Chunk { flags: 1, kind: 0x8001 | 0x8002, payload, .. } => {
                u32::from_be_bytes(payload[..4].try_into().unwrap())
            }
            other => panic!("{other:?} is no error"),
        }
    }

    /// A whole structured read: its data by offset, its errors with their offsets.
    pub fn structured_read(&mut self, cookie: u64, offset: u64, len: usize) -> (Vec<u8>, Vec<(u32, u64)>) {
        let (mut data, mut errors, mut covered) = (vec![0; len], Vec::new(), 0);
        loop {
            let Reply::Chunk { flags, kind, cookie: got, payload } = self.reply() else {
                panic!("a simple reply to a read");
            };
            assert_eq!(got, cookie);
            match kind {
                1 => {
                    let at = u64::from_be_bytes(payload[..8].try_into().unwrap()) - offset;
                    data[at as usize..][..payload.len() - 8].copy_from_slice(&payload[8..]);
                    covered += payload.len() - 8;
                }
                0x8002 => {
                    let error = u32::from_be_bytes(payload[..4].try_into().unwrap());
                    let at = u64::from_be_bytes(payload[payload.len() - 8..].try_into().unwrap());
                    errors.push((error, at));
                }
                other => panic!("chunk of type {other:#x}"),
            }
            if flags & 1 != 0 {
                assert!(covered == len || !errors.is_empty(), "{covered} of {len} bytes came");
                return (data, errors);
            }
        }
    }
}
