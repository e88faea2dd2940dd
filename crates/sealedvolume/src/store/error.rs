//! Why a store did not do what it was asked.

use core::fmt;

/// Why a store failed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The operating system's error number.
    Os(i32),
    /// It did not answer in time.
    Silent,
    /// It refused, with this status of its protocol.
    Refused {
        /// The status.
        status: u16,
    },
    /// Its certificate is not trusted, or there is no TLS with it.
    Untrusted,
    /// What it answered is none of its protocol's answers.
    Malformed,
    /// It overwrites objects where it was asked for a new one.
    Unconditional,
    /// The object is longer than any that the format allows.
    TooLong,
    /// The name is none that a sealed volume gives.
    Name,
    /// Another process of this machine writes to it.
    Held,
    /// Another process of this machine reads it.
    Read,
    /// What was stored earlier may not have survived, so nothing more is acknowledged.
    EarlierFailure,
}

impl StoreError {
    /// Whether another try may succeed. A store that says that a request is wrong, or not permitted, says so again.
    pub fn may_pass(&self) -> bool {
        match self {
            // Time-out, conflict, too early, too many (RFC 9110, RFC 8470, RFC 6585).
            Self::Refused { status } => {
                !(300..500).contains(status) || matches!(status, 408 | 409 | 425 | 429)
            }
            Self::Untrusted | Self::Unconditional | Self::TooLong => false,
            Self::Os(_)
            | Self::Silent
            | Self::Malformed
            | Self::Name
            | Self::Held
            | Self::Read
            | Self::EarlierFailure => true,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Os(errno) => write!(f, "operating system error {errno}"),
            Self::Silent => f.write_str("the store did not answer in time"),
            Self::Refused { status } => write!(f, "the store refused it (status {status})"),
            Self::Untrusted => f.write_str("the store's certificate is not trusted, or it speaks no TLS"),
            Self::Malformed => f.write_str("the store's answer is not of its protocol"),
            Self::Unconditional => {
                f.write_str("the store overwrites objects where it was asked to make a new one")
            }
            Self::TooLong => f.write_str("the object is longer than the format allows"),
            Self::Name => f.write_str("the name is none of a sealed volume's"),
            Self::Held => f.write_str("another process of this machine has it open for writing"),
            Self::Read => f.write_str("another process of this machine has it open for reading"),
            Self::EarlierFailure => f.write_str("the store could not keep what it was given earlier"),
        }
    }
}

impl core::error::Error for StoreError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_or_not_permitted_is_asked_once() {
        let may_pass = |status| StoreError::Refused { status }.may_pass();
        assert!([408, 409, 425, 429, 500, 503].into_iter().all(may_pass) && StoreError::Silent.may_pass());
        assert!(
            ![301, 400, 401, 403, 404, 412, 499].into_iter().any(may_pass)
                && !StoreError::Untrusted.may_pass()
        );
    }
}
