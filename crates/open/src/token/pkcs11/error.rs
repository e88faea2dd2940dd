//! Why a smart card has not helped.

use core::fmt;

/// Why a smart card has not helped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pkcs11Error {
    /// The library that knows the cards can't be loaded.
    NoModule {
        /// What it is called.
        module: String,
        /// Why not.
        error: String,
    },
    /// It is no URI of a smart card.
    BadUri {
        /// Its beginning.
        uri: String,
    },
    /// The URI says something that is not done.
    UriWith {
        /// What that is called.
        name: String,
    },
    /// No card that is plugged in is meant.
    NoCard,
    /// Several cards may be meant.
    SeveralCards {
        /// How many.
        count: usize,
    },
    /// The card has no key on a curve that may be meant.
    NoCurveKey,
    /// The card has no RSA key that may be meant.
    NoKey,
    /// Several keys of the card may be meant.
    SeveralKeys {
        /// How many.
        count: usize,
    },
    /// The key is of a size that is not used.
    BadKey,
    /// After too many wrong PINs the card takes none.
    Locked,
    /// After the next wrong PIN the card takes none.
    LastTry,
    /// The key is another than the one for which the secret was encrypted, or the secret was changed.
    NotDecrypted,
    /// The card or its library did not do it.
    Failed {
        /// What they say.
        error: String,
    },
}

impl fmt::Display for Pkcs11Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoModule { module, error } => {
                write!(f, "the library for smart cards, {module}, can't be loaded: {error}")
            }
            Self::BadUri { uri } => {
                write!(f, "{uri:?} is no URI of a smart card, as in pkcs11:token=NAME;object=KEY")
            }
            Self::UriWith { name } => {
                write!(f, "the URI of a smart card has {name:?}, which is not used here")
            }
            Self::NoCard => f.write_str("the smart card is not plugged in"),
            Self::SeveralCards { count } => write!(f, "{count} smart cards are plugged in that may be meant"),
            Self::NoCurveKey => f.write_str("the smart card has no such key on a curve"),
            Self::NoKey => f.write_str("the smart card has no such RSA key"),
            Self::SeveralKeys { count } => write!(f, "the smart card has {count} keys that may be meant"),
            Self::BadKey => f.write_str("the key of the smart card is of a size that is not used"),
            Self::Locked => f.write_str("the smart card is locked, as too many PINs were wrong"),
            Self::LastTry => f.write_str("one more wrong PIN locks the smart card"),
            Self::NotDecrypted => {
                f.write_str("the smart card has another key than the one that was enrolled")
            }
            Self::Failed { error } => write!(f, "the smart card did not do it: {error}"),
        }
    }
}

impl core::error::Error for Pkcs11Error {}
