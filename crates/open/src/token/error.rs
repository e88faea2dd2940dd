//! Why a token has not opened a volume.

use core::fmt;

/// Why a token has not opened a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// Its type is none that can be used here.
    UnknownType,
    /// It says which keyslot a recovery key opens, and a person types that key.
    Typed,
    /// It is for a smart card, whose library this program can't load.
    NoCards,
    /// It opens no keyslot.
    NoKeyslots,
    /// It does not have the fields of its type.
    Malformed,
    /// The kernel's keyring has no such key.
    NoKey {
        /// What the key is called.
        description: String,
    },
    /// The key is there, or was, and can't be read.
    Keyring {
        /// What the key is called.
        description: String,
        /// What the kernel says.
        error: String,
    },
    /// It needs a PIN, and nobody has typed one.
    PinNeeded,
    /// The PIN was wrong, so often that no other is asked for.
    WrongPin,
    /// It has a field that is not understood here, and may ask for more than is done.
    UnknownField {
        /// What the field is called.
        name: String,
    },
    /// Deriving the PIN failed: it asks for more memory or time than there is.
    Derivation {
        /// What failed.
        error: String,
    },
    /// The TPM did not do it.
    #[cfg(feature = "tpm")]
    Tpm(atrest_tpm::TpmError),
    /// The security key did not do it.
    #[cfg(feature = "fido2")]
    Fido2(atrest_fido2::Fido2Error),
    /// The smart card did not do it.
    #[cfg(feature = "pkcs11")]
    Pkcs11(super::pkcs11::Pkcs11Error),
    /// It was bound by a pin of clevis that is not known here.
    UnknownPin {
        /// What the pin is called.
        name: String,
    },
    /// It is no address of a server, or not one that can be used: `http` alone is.
    BadUrl {
        /// The address.
        url: String,
    },
    /// A server can't be reached.
    Unreachable {
        /// Its address.
        url: String,
        /// What happened.
        error: String,
    },
    /// A server has answered with an error.
    Refused {
        /// Its address.
        url: String,
        /// The status of HTTP.
        status: u16,
    },
    /// A server's answer makes no sense.
    BadAnswer,
    /// A server's list of keys is not signed by all keys that sign.
    BadAdvertisement,
    /// The key that was restored is not the one: a server or a TPM has given a wrong one, or the token was changed.
    WrongKey,
    /// Too few of those that have shares could be asked.
    TooFew {
        /// How many have opened theirs.
        opened: usize,
        /// How many are needed.
        needed: usize,
        /// Why the others have not.
        why: String,
    },
    /// Those that have shares take too long, all together.
    TooLong,
    /// No random numbers could be had.
    NoRandom,
    /// None of its keyslots opens with what it has.
    Wrong,
    /// Too few of several factors are there.
    FactorsMissing {
        /// How many have given their share.
        opened: usize,
        /// How many are needed.
        needed: usize,
        /// What each of the others says.
        missing: Vec<String>,
    },
    /// What gave the secret is not the factor that was enrolled.
    OtherFactor,
    /// The passphrase of a factor is wrong.
    WrongPassphrase,
    /// Nobody has typed what it asks for.
    NothingTyped,
    /// A factor's share is not the one that was made for it, or the list of factors is another.
    ShareChanged,
    /// The list of factors is not the one that was made by whoever knew the volume key.
    NotAuthentic,
    /// There is no factor with this number.
    NoFactor {
        /// The number.
        number: u8,
    },
    /// It would be the same thing as another factor.
    SameThing {
        /// Number of that one.
        number: u8,
    },
}

#[cfg(feature = "tpm")]
impl From<atrest_tpm::TpmError> for TokenError {
    fn from(error: atrest_tpm::TpmError) -> Self {
        match error {
            atrest_tpm::TpmError::WrongPin => Self::WrongPin,
            error => Self::Tpm(error),
        }
    }
}

#[cfg(feature = "fido2")]
impl From<atrest_fido2::Fido2Error> for TokenError {
    fn from(error: atrest_fido2::Fido2Error) -> Self {
        match error {
            atrest_fido2::Fido2Error::WrongPin => Self::WrongPin,
            error => Self::Fido2(error),
        }
    }
}

#[cfg(feature = "pkcs11")]
impl From<super::pkcs11::Pkcs11Error> for TokenError {
    fn from(error: super::pkcs11::Pkcs11Error) -> Self {
        Self::Pkcs11(error)
    }
}

impl TokenError {
    /// Why a token of a type that is not known here can't be used.
    pub(super) fn unknown(kind: &str) -> Self {
        match kind {
            "systemd-pkcs11" => Self::NoCards,
            super::recovery::KIND_NAME => Self::Typed,
            _ => Self::UnknownType,
        }
    }

    /// Whether it is a token to use, and only its passphrase is missing or wrong.
    pub fn is_refusal(&self) -> bool {
        !matches!(
            self,
            Self::UnknownType
                | Self::Typed
                | Self::NoCards
                | Self::NoKeyslots
                | Self::Malformed
                | Self::UnknownField { .. }
        )
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownType => f.write_str("its type can't be used here"),
            Self::Typed => f.write_str("a recovery key is typed in place of a passphrase, or given as a key file"),
            Self::NoCards => f.write_str(
                "this program can't load the library of a smart card; `atrest` that was built for this system, not a static one, does",
            ),
            Self::NoKeyslots => f.write_str("it opens no keyslot"),
            Self::Malformed => f.write_str("it does not have the fields of its type"),
            Self::NoKey { description } => {
                write!(f, "the kernel's keyring has no key {:?} of type user", description)
            }
            Self::Keyring { description, error } => {
                write!(f, "the key {description:?} in the kernel's keyring can't be read: {error}")
            }
            Self::PinNeeded => f.write_str("it needs a PIN"),
            Self::WrongPin => f.write_str("the PIN is wrong"),
            Self::UnknownField { name } => {
                write!(f, "its field {name} asks for something that can't be done here")
            }
            Self::Derivation { error } => write!(f, "its PIN can't be derived: {error}"),
            #[cfg(feature = "tpm")]
            Self::Tpm(error) => error.fmt(f),
            #[cfg(feature = "fido2")]
            Self::Fido2(error) => error.fmt(f),
            #[cfg(feature = "pkcs11")]
            Self::Pkcs11(error) => error.fmt(f),
            Self::UnknownPin { name } => write!(f, "clevis' pin {name:?} can't be used here"),
            Self::BadUrl { url } => write!(f, "{url:?} is no address of the form http://HOST[:PORT]"),
            Self::Unreachable { url, error } => write!(f, "the server {url} can't be reached: {error}"),
            Self::Refused { url, status: 404 } => write!(f, "the server {url} has no such key any more"),
            Self::Refused { url, status } => write!(f, "the server {url} refuses with status {status}"),
            Self::BadAnswer => f.write_str("the server's answer makes no sense"),
            Self::BadAdvertisement => f.write_str("the server's list of keys is not signed by its keys"),
            Self::WrongKey => f.write_str(
                "what was restored is not its key: the server has other keys, or the token was changed",
            ),
            Self::TooFew { opened, needed, why } => {
                write!(f, "{opened} of the {needed} shares that it needs can be had: {why}")
            }
            Self::TooLong => f.write_str("it was not asked, as the others took too long"),
            Self::NoRandom => f.write_str("the random source failed"),
            Self::Wrong => f.write_str("no keyslot of it opens with its passphrase"),
            Self::FactorsMissing { opened, needed, missing } => {
                // cannot be less: with as many as are needed it opens.
                let more = needed.saturating_sub(*opened);
                write!(f, "{needed} of its factors must be there, {opened} are, and {more} more must come: ")?;
                f.write_str(&missing.join("; "))
            }
            Self::OtherFactor => f.write_str("it is another one than was enrolled"),
            Self::WrongPassphrase => f.write_str("the passphrase is wrong"),
            Self::NothingTyped => f.write_str("nobody has typed it"),
            Self::ShareChanged => {
                f.write_str("its share or the list of factors was changed since it was enrolled")
            }
            Self::NotAuthentic => f.write_str(
                "the list of its factors does not belong to this volume key: it was changed, or the volume was re-encrypted",
            ),
            Self::NoFactor { number } => write!(f, "it has no factor {number}"),
            Self::SameThing { number } => {
                write!(f, "it would be the same thing as factor {number}, which counts once")
            }
        }
    }
}

impl core::error::Error for TokenError {}
