//! Why a security key has not done what it was asked.

use core::fmt;

/// Why a security key has not done what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fido2Error {
    /// None is plugged in.
    NoDevice,
    /// The one that was named is not there.
    NotThere {
        /// Its path.
        place: String,
    },
    /// There are several, and none was named.
    Several {
        /// How many.
        count: usize,
    },
    /// It is no name of a device.
    BadPlace {
        /// What was named.
        place: String,
    },
    /// Reading or writing failed.
    Io(String),
    /// It did not answer in time.
    Slow,
    /// Its answer makes no sense.
    Malformed,
    /// Another program uses it.
    Busy,
    /// It can't keep secrets: it does not have the extension `hmac-secret`.
    NoSecrets,
    /// It has none of the credentials.
    NotThis,
    /// It does nothing without a PIN.
    PinNeeded,
    /// A PIN is wanted, and it has none.
    NoPin,
    /// A PIN has 4 to 63 bytes.
    BadPin,
    /// The PIN was wrong.
    WrongPin,
    /// Too many wrong PINs since it was plugged in.
    PinLocked,
    /// Too many wrong PINs: it must be reset, which destroys its credentials.
    PinBlocked,
    /// It verifies nobody: it has no fingerprint reader, or none is enrolled.
    NoVerification,
    /// Nobody has touched it in time.
    NotTouched,
    /// Whoever holds it has refused.
    Denied,
    /// It wants to be touched for this.
    TouchNeeded,
    /// It answered with another error.
    Code(u8),
    /// No random numbers could be had.
    NoRandom,
}

impl From<atrest_secret::RandomError> for Fido2Error {
    fn from(_: atrest_secret::RandomError) -> Self {
        Self::NoRandom
    }
}

impl fmt::Display for Fido2Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevice => f.write_str("no security key is plugged in"),
            Self::NotThere { place } => write!(f, "there is no security key at {place}"),
            Self::Several { count } => write!(
                f,
                "{count} security keys are plugged in: leave one alone, or name it by {}",
                crate::FIDO2_VARIABLE
            ),
            Self::BadPlace { place } => {
                write!(f, "{place:?} names no security key: a path or unix:PATH does")
            }
            Self::Io(error) => write!(f, "the security key can't be reached: {error}"),
            Self::Slow => f.write_str("the security key does not answer in time"),
            Self::Malformed => f.write_str("the security key's answer makes no sense"),
            Self::Busy => f.write_str("another program uses the security key"),
            Self::NoSecrets => f.write_str("the security key can't keep secrets (hmac-secret)"),
            Self::NotThis => f.write_str("it is not for the security key that is plugged in"),
            Self::PinNeeded => f.write_str("the security key does nothing without its PIN"),
            Self::NoPin => f.write_str("the security key has no PIN: one must be set first"),
            Self::BadPin => f.write_str("a PIN of a security key has 4 to 63 bytes"),
            Self::WrongPin => f.write_str("the PIN is wrong"),
            Self::PinLocked => {
                f.write_str("too many PINs were wrong: unplug the security key and plug it in again")
            }
            Self::PinBlocked => {
                f.write_str("too many PINs were wrong: the security key takes none until it is reset")
            }
            Self::NoVerification => {
                f.write_str("the security key verifies nobody, by a fingerprint or otherwise")
            }
            Self::NotTouched => f.write_str("nobody has touched the security key in time"),
            Self::Denied => f.write_str("the security key refuses"),
            Self::TouchNeeded => {
                f.write_str("the security key wants to be touched, which was not asked of it")
            }
            Self::Code(code) => write!(f, "the security key answers with the error {code:#04x}"),
            Self::NoRandom => f.write_str("the random source failed"),
        }
    }
}

impl core::error::Error for Fido2Error {}
