//! The headers of replies, simple and structured (doc/proto.md of the NBD project, "Transmission phase").

use atrest_codec::{Be, decode};

use super::input::Input;
use crate::error::Broken;
use crate::proto::{SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC};
use crate::wire::{Wire, WireError};

/// Why a connection can't go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It ended.
    Closed,
    /// The server keeps silent.
    Silent,
    /// The server broke the protocol.
    Broken(Broken),
}

impl From<WireError> for Loss {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Silent => Self::Silent,
            WireError::Closed | WireError::Tls(_) => Self::Closed,
        }
    }
}

impl From<Broken> for Loss {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

/// The header of a simple reply or of a chunk.
#[derive(Clone, Copy, Debug)]
pub enum Header {
    /// Data follow if a read succeeded.
    Simple { cookie: u64, error: u32 },
    /// `len` bytes follow.
    Chunk { cookie: u64, flags: u16, kind: u16, len: u32 },
}

impl Header {
    /// Waits for one.
    pub fn read(wire: &Wire, input: &mut Input) -> Result<Self, Loss> {
        match u32::from_be_bytes(input.array(wire)?) {
            SIMPLE_REPLY_MAGIC => {
                let (Be(error), Be(cookie)): (Be<u32>, Be<u64>) = decode(&input.array::<12>(wire)?);
                Ok(Self::Simple { cookie, error })
            }
            STRUCTURED_REPLY_MAGIC => {
                let (Be(flags), Be(kind), Be(cookie), Be(len)): (Be<u16>, Be<u16>, Be<u64>, Be<u32>) =
                    decode(&input.array::<16>(wire)?);
                Ok(Self::Chunk { cookie, flags, kind, len })
            }
            found => Err(Broken::Magic { found: found.into() }.into()),
        }
    }

    pub fn cookie(&self) -> u64 {
        let (Self::Simple { cookie, .. } | Self::Chunk { cookie, .. }) = self;
        *cookie
    }
}
