//! The numbers and headers of the NBD protocol (doc/proto.md of the NBD project, sections "Values" and
//! "Message layouts"). Everything on the wire is big-endian. No I/O here.
#![expect(missing_docs, reason = "the names are those of that description")]

use atrest_codec::{Be, decode, encode};

/// The TCP port that the protocol has from IANA.
pub const PORT: u16 = 10809;

/// First 8 bytes that a server sends.
pub const NBD_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT": newstyle negotiation, and the start of every option request.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// What an oldstyle server sends in its place: it negotiates nothing.
pub const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;
/// Start of every option reply.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Start of every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Start of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Start of a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags of the server and of the client: the same two bits mean the same.
pub mod handshake_flag {
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    pub const NO_ZEROES: u16 = 1 << 1;
}

pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

pub mod option_reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    /// What all errors have.
    pub const ERROR: u32 = 1 << 31;
    pub const ERR_UNSUPPORTED: u32 = 0x8000_0001;
    pub const ERR_POLICY: u32 = 0x8000_0002;
    pub const ERR_INVALID: u32 = 0x8000_0003;
    pub const ERR_PLATFORM: u32 = 0x8000_0004;
    pub const ERR_TLS_REQUIRED: u32 = 0x8000_0005;
    pub const ERR_UNKNOWN: u32 = 0x8000_0006;
    pub const ERR_SHUTDOWN: u32 = 0x8000_0007;
    pub const ERR_BLOCK_SIZE_REQUIRED: u32 = 0x8000_0008;
    pub const ERR_TOO_BIG: u32 = 0x8000_0009;
}

pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: what the export offers.
pub mod export_flag {
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

pub mod command_flag {
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
}

pub mod chunk {
    pub const FLAG_DONE: u16 = 1 << 0;
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const OFFSET_HOLE: u16 = 2;
    pub const BLOCK_STATUS: u16 = 5;
    /// What all errors have.
    pub const IS_ERROR: u16 = 1 << 15;
    pub const ERROR: u16 = 0x8001;
    pub const ERROR_OFFSET: u16 = 0x8002;
}

/// Error numbers of replies.
pub mod errno {
    pub const EPERM: u32 = 1;
    pub const EIO: u32 = 5;
    pub const ENOMEM: u32 = 12;
    pub const EINVAL: u32 = 22;
    pub const ENOSPC: u32 = 28;
    pub const EOVERFLOW: u32 = 75;
    pub const ENOTSUP: u32 = 95;
    pub const ESHUTDOWN: u32 = 108;
}

/// Extent flags of the context `base:allocation`.
pub mod allocation {
    pub const HOLE: u32 = 1 << 0;
    pub const ZERO: u32 = 1 << 1;
}

/// The metadata context that tells holes from data: the only one that our server offers and our client asks for.
pub const ALLOCATION_CONTEXT: &str = "base:allocation";
/// Its number in the replies of our server.
pub const ALLOCATION_CONTEXT_ID: u32 = 1;

/// Longest string that the protocol allows, in bytes.
pub const MAX_STRING: usize = 4096;
/// Largest payload of one request in bytes; what clients assume when they ask for no block sizes.
pub const MAX_PAYLOAD: u32 = 32 << 20;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    WriteZeroes,
    BlockStatus,
    /// A number that is not known here.
    Unknown,
}

impl Command {
    /// The flags that may come with the command.
    pub fn flags(self) -> u16 {
        use command_flag::{DF, FUA, NO_HOLE, REQ_ONE};
        match self {
            Command::Read => FUA | DF,
            Command::WriteZeroes => FUA | NO_HOLE,
            Command::BlockStatus => FUA | REQ_ONE,
            Command::Write | Command::Flush | Command::Trim | Command::Disconnect | Command::Unknown => FUA,
        }
    }

    /// Its number on the wire; a command that is not known has none.
    pub fn number(self) -> Option<u16> {
        Some(match self {
            Command::Read => 0,
            Command::Write => 1,
            Command::Disconnect => 2,
            Command::Flush => 3,
            Command::Trim => 4,
            Command::WriteZeroes => 6,
            Command::BlockStatus => 7,
            Command::Unknown => return None,
        })
    }

    fn from_number(number: u16) -> Self {
        match number {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            4 => Command::Trim,
            6 => Command::WriteZeroes,
            7 => Command::BlockStatus,
            _ => Command::Unknown,
        }
    }

    /// Whether the export's contents may change.
    pub fn writes(self) -> bool {
        matches!(self, Command::Write | Command::Trim | Command::WriteZeroes)
    }
}

/// A request header (28 bytes on the wire).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub flags: u16,
    pub command: Command,
    /// Chosen by the client, repeated in every reply.
    pub cookie: u64,
    pub offset: u64,
    pub len: u32,
}

/// A request header as it is sent: magic number, flags, command, cookie, offset, length.
type Wire = (Be<u32>, Be<u16>, Be<u16>, Be<u64>, Be<u64>, Be<u32>);

impl Request {
    pub const SIZE: usize = 28;

    /// `None` if the magic number is wrong: the stream is out of step and can't be followed any further.
    pub fn parse(wire: &[u8; Self::SIZE]) -> Option<Self> {
        let (Be(magic), Be(flags), Be(command), Be(cookie), Be(offset), Be(len)): Wire = decode(wire);
        if magic != REQUEST_MAGIC {
            return None;
        }
        let command = Command::from_number(command);
        Some(Self { flags, command, cookie, offset, len })
    }

    /// The request as it is sent; `None` for a command that is not known.
    pub fn encode(&self) -> Option<[u8; Self::SIZE]> {
        let Self { flags, command, cookie, offset, len } = *self;
        let wire: Wire =
            (Be(REQUEST_MAGIC), Be(flags), Be(command.number()?), Be(cookie), Be(offset), Be(len));
        Some(encode(wire))
    }

    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// A simple reply's header.
pub fn simple_reply(cookie: u64, error: u32) -> [u8; 16] {
    encode((Be(SIMPLE_REPLY_MAGIC), Be(error), Be(cookie)))
}

/// The header of one chunk of a structured reply, with `len` bytes of payload to follow.
pub fn chunk_header(cookie: u64, flags: u16, kind: u16, len: u32) -> [u8; 20] {
    encode((Be(STRUCTURED_REPLY_MAGIC), Be(flags), Be(kind), Be(cookie), Be(len)))
}

/// The header of a data chunk with the file offset of its first byte; `len` bytes of data follow.
pub fn data_chunk_header(cookie: u64, flags: u16, offset: u64, len: u32) -> [u8; 28] {
    encode((chunk_header(cookie, flags, chunk::OFFSET_DATA, len + 8), Be(offset)))
}

/// The header of an option reply, with `len` bytes of data to follow.
pub fn option_reply_header(option: u32, kind: u32, len: u32) -> [u8; 20] {
    encode((Be(OPTION_REPLY_MAGIC), Be(option), Be(kind), Be(len)))
}
