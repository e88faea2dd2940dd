//! Why an export can't be connected to, and how a server can break the protocol.

use core::fmt;
use std::io;

use crate::UriError;
#[cfg(feature = "tls")]
use crate::tls::TlsError;
use crate::wire::WireError;

/// Why an export can't be connected to.
#[non_exhaustive]
#[derive(Debug)]
pub enum ConnectError {
    /// The URI can't be understood.
    Uri(UriError),
    /// The host's name leads to no address.
    Resolve(io::Error),
    /// Nobody answers there, or the system does not let us.
    Connect(io::Error),
    /// A certificate, a key or a name for TLS can't be used.
    #[cfg(feature = "tls")]
    Tls(TlsError),
    /// The URI asks for TLS, and names no directory of certificates.
    NoCertificates,
    /// The URI asks for TLS, which this build does not have.
    NoTls,
    /// The connection ended before all was negotiated.
    Wire(WireError),
    /// What answers is no NBD server.
    NotNbd,
    /// The server speaks the oldstyle protocol, which negotiates nothing.
    Oldstyle,
    /// The server wants TLS, and the URI says that there is none.
    TlsRequired,
    /// The server does not offer TLS, and the URI says that it must.
    TlsRefused {
        /// The reply's number.
        reply: u32,
    },
    /// The server has no export of this name, or shows it to nobody.
    UnknownExport,
    /// The server refuses the export.
    Refused {
        /// The reply's number.
        reply: u32,
    },
    /// The server does not follow the protocol.
    Broken(Broken),
    /// The block sizes that the server asks for are not possible.
    BlockSizes {
        /// The smallest, in bytes.
        minimum: u32,
        /// The best.
        preferred: u32,
        /// The largest.
        maximum: u32,
    },
    /// The server says that the export has more bytes than any file can have.
    TooLarge {
        /// How many.
        size: u64,
    },
    /// The export can only be read, and is to be written.
    ReadOnly,
}

/// How a server broke the protocol.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A message does not begin as such messages do.
    Magic {
        /// How it begins.
        found: u64,
    },
    /// A reply is to an option that was not sent.
    Option {
        /// The option's number.
        found: u32,
    },
    /// A reply to an option or a chunk is of a kind that can't stand there.
    Kind {
        /// The number of the kind.
        found: u32,
    },
    /// A message has a length that is not possible.
    Length {
        /// Its length in bytes.
        len: u32,
    },
    /// More replies came than an option can have.
    TooMany,
    /// The server did not say how large the export is.
    NoSize,
    /// More came in the clear before TLS began.
    BeforeTls,
    /// A reply is to a request that was not made, or is answered already.
    Cookie {
        /// The number in the reply.
        found: u64,
    },
    /// A chunk lies outside what was asked for, or something was sent twice or in too many pieces.
    Chunk {
        /// Where it begins, in the export.
        offset: u64,
        /// Its length in bytes.
        len: u32,
    },
    /// A reply ended before all that was asked for had come.
    Incomplete,
}

impl From<WireError> for ConnectError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl From<Broken> for ConnectError {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl From<UriError> for ConnectError {
    fn from(error: UriError) -> Self {
        Self::Uri(error)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri(error) => write!(f, "the URI: {error}"),
            Self::Resolve(error) => write!(f, "the host can't be found: {error}"),
            Self::Connect(error) => write!(f, "cannot connect: {error}"),
            #[cfg(feature = "tls")]
            Self::Tls(error) => error.fmt(f),
            Self::NoCertificates => f.write_str("TLS needs to know which servers to trust"),
            Self::NoTls => f.write_str("this program was built without TLS"),
            Self::Wire(WireError::Tls(error)) => write!(f, "TLS with the server failed: {error}"),
            Self::Wire(WireError::Closed) => {
                f.write_str("the server closed the connection before all was said")
            }
            Self::Wire(WireError::Silent) => f.write_str("the server does not answer"),
            Self::NotNbd => f.write_str("what answers there is no NBD server"),
            Self::Oldstyle => {
                f.write_str("the server speaks the oldstyle protocol, which negotiates nothing")
            }
            Self::TlsRequired => f.write_str("the server wants TLS"),
            Self::TlsRefused { reply } => write!(f, "the server does not offer TLS (reply {reply:#x})"),
            Self::UnknownExport => f.write_str("the server has no such export"),
            Self::Refused { reply } => write!(f, "the server refuses the export (reply {reply:#x})"),
            Self::Broken(broken) => write!(f, "the server does not follow the protocol: {broken}"),
            Self::BlockSizes { minimum, preferred, maximum } => write!(
                f,
                "the server asks for block sizes that are not possible: {minimum}, {preferred} and {maximum} bytes"
            ),
            Self::TooLarge { size } => {
                write!(f, "the server says that the export has {size} bytes, more than any file")
            }
            Self::ReadOnly => f.write_str("the server lets the export be read only"),
        }
    }
}

impl core::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Uri(error) => Some(error),
            Self::Resolve(error) | Self::Connect(error) => Some(error),
            #[cfg(feature = "tls")]
            Self::Tls(error) => Some(error),
            Self::Wire(error) => Some(error),
            Self::Broken(broken) => Some(broken),
            _ => None,
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic { found } => write!(f, "a message begins with {found:#x}"),
            Self::Option { found } => write!(f, "it replied to option {found}, which was not sent"),
            Self::Kind { found } => write!(f, "a reply of kind {found:#x} can't stand there"),
            Self::Length { len } => write!(f, "a message of {len} bytes can't stand there"),
            Self::TooMany => f.write_str("it sent more replies than an option can have"),
            Self::NoSize => f.write_str("it did not say how large the export is"),
            Self::BeforeTls => f.write_str("it sent more before TLS began"),
            Self::Cookie { found } => write!(f, "it replied to request {found}, which is not waiting"),
            Self::Chunk { offset, len } => {
                write!(f, "{len} bytes at {offset} were not asked for, came twice or in too many pieces")
            }
            Self::Incomplete => f.write_str("a reply ended before all of it had come"),
        }
    }
}

impl core::error::Error for Broken {}
