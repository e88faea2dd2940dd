//! What kernel and server agree on before anything else.

use core::fmt;

use atrest_codec::{ReadError, Reader, encode};

use super::Native;
use super::abi::{OLDEST_MINOR, VERSION, init_flag};

/// Largest read or write in one request, in bytes.
pub const MAX_TRANSFER: u32 = 1 << 20;
/// Bytes of a page as MAX_PAGES counts them, at least.
const PAGE: u32 = 4096;
/// Requests that the kernel may have under way without a caller that waits: read-ahead above all.
const MAX_BACKGROUND: u16 = 64;

/// What the kernel offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub major: u32,
    pub minor: u32,
    max_readahead: u32,
    pub flags: u64,
}

/// What a file system would like to have ([`init_flag`]), where the kernel offers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes(pub u64);

/// What they agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    pub flags: u64,
    minor: u32,
    max_readahead: u32,
}

/// Why there is no agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitError {
    /// The first message is not one.
    Message(ReadError),
    /// The kernel has a version that is not spoken here.
    Version { major: u32, minor: u32 },
}

impl fmt::Display for InitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(error) => write!(f, "the kernel's first message is damaged: {error}"),
            Self::Version { major, minor } => {
                write!(
                    f,
                    "the kernel speaks version {major}.{minor} of FUSE's protocol, which is not supported"
                )
            }
        }
    }
}

impl core::error::Error for InitError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Message(error) => Some(error),
            Self::Version { .. } => None,
        }
    }
}

impl Offer {
    /// Reads `struct fuse_init_in`, of which kernels before 5.17 send the first half alone. Whatever follows is for servers
    /// that know more.
    pub fn parse(message: &[u8]) -> Result<Self, InitError> {
        let mut reader = Reader::new(message);
        let field = |reader: &mut Reader<'_>| -> Result<u32, InitError> {
            let Native(number) = reader.field().map_err(InitError::Message)?;
            Ok(number)
        };
        let [major, minor] = [field(&mut reader)?, field(&mut reader)?];
        if major < VERSION.0 || major == VERSION.0 && minor < OLDEST_MINOR {
            return Err(InitError::Version { major, minor });
        }
        let [max_readahead, low] = [field(&mut reader)?, field(&mut reader)?];
        let mut flags = u64::from(low);
        if flags & init_flag::INIT_EXT != 0 {
            flags |= u64::from(field(&mut reader)?) << 32;
        }
        Ok(Self { major, minor, max_readahead, flags })
    }

    /// Whether the kernel is ahead by a major version: it then asks again, in the version that it is answered with.
    pub fn is_ahead(&self) -> bool {
        self.major > VERSION.0
    }

    /// Takes of the wishes what the kernel offers.
    pub fn agree(&self, wishes: Wishes) -> Agreed {
        let always = init_flag::ASYNC_READ | init_flag::BIG_WRITES | init_flag::MAX_PAGES;
        let wanted = always | wishes.0 | init_flag::INIT_EXT;
        Agreed {
            flags: self.flags & wanted,
            minor: self.minor.min(VERSION.1),
            max_readahead: self.max_readahead.min(MAX_TRANSFER),
        }
    }
}

impl Agreed {
    /// `struct fuse_init_out`.
    pub fn encode(&self) -> [u8; 64] {
        let [low, high] = [self.flags as u32, (self.flags >> 32) as u32];
        let congested = MAX_BACKGROUND / 4 * 3;
        let nanoseconds = 1_u32;
        let pages = (MAX_TRANSFER / PAGE) as u16;
        encode((
            (Native(VERSION.0), Native(self.minor), Native(self.max_readahead), Native(low)),
            (Native(MAX_BACKGROUND), Native(congested), Native(MAX_TRANSFER), Native(nanoseconds)),
            (Native(pages), [0; 2], Native(high)),
            [0; 28],
        ))
    }
}
