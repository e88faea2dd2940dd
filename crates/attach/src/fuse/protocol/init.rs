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

    /// Whether requests can come on rings of io_uring.
    pub fn has_rings(&self) -> bool {
        self.flags & init_flag::OVER_IO_URING != 0
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

#[cfg(test)]
mod tests {
    use super::*;

    fn message(fields: &[u32]) -> Vec<u8> {
        fields.iter().flat_map(|field| field.to_ne_bytes()).collect()
    }

    #[test]
    fn what_both_have_is_agreed_on() {
        let high = (init_flag::OVER_IO_URING >> 32) as u32;
        let low = (init_flag::MAX_PAGES | init_flag::INIT_EXT | init_flag::ASYNC_DIO) as u32;
        let offer = Offer::parse(&message(&[7, 45, 1 << 30, low, high, 0, 0])).unwrap();
        let agreed = offer.agree(Wishes(init_flag::OVER_IO_URING | init_flag::DO_READDIRPLUS));
        let both = init_flag::MAX_PAGES | init_flag::INIT_EXT | init_flag::OVER_IO_URING;
        assert_eq!(agreed, Agreed { flags: both, minor: VERSION.1, max_readahead: MAX_TRANSFER });
        // struct fuse_init_out: version, readahead, flags, background, congestion, write, granularity, pages, alignment, flags.
        let bytes = agreed.encode();
        let number = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let found = [0, 4, 8, 12, 20, 24, 32].map(number);
        assert_eq!(found, [7, 42, MAX_TRANSFER, both as u32, MAX_TRANSFER, 1, high]);
        assert_eq!(bytes[16..20], [64_u16.to_ne_bytes(), 48_u16.to_ne_bytes()].concat());
        assert_eq!(bytes[28..30], 256_u16.to_ne_bytes());
    }

    #[test]
    fn a_kernel_without_the_second_word_of_flags_is_understood_and_one_too_old_is_not() {
        let offer = Offer::parse(&message(&[7, 31, 4096, 1])).unwrap();
        let agreed = offer.agree(Wishes(init_flag::OVER_IO_URING));
        assert_eq!(agreed, Agreed { flags: init_flag::ASYNC_READ, minor: 31, max_readahead: 4096 });
        assert!(!offer.is_ahead() && Offer::parse(&message(&[8, 0, 0, 0])).unwrap().is_ahead());
        for (major, minor) in [(6, 99), (7, 22)] {
            assert_eq!(
                Offer::parse(&message(&[major, minor, 0, 0])),
                Err(InitError::Version { major, minor })
            );
        }
        let cut = message(&[7, 31, 4096, init_flag::INIT_EXT as u32]);
        for len in 0..=cut.len() {
            assert!(matches!(Offer::parse(&cut[..len]), Err(InitError::Message(_))), "{len}");
        }
    }
}
