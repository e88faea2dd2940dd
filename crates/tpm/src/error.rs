//! What goes wrong with a TPM, in words of its user.

use core::fmt;

use atrest_codec::ReadError;

/// Why a TPM has not done what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TpmError {
    /// There is no TPM at this place.
    NoDevice {
        /// The path or the address.
        place: String,
    },
    /// The variable that names the TPM has another form.
    BadPlace {
        /// What it says.
        place: String,
    },
    /// Writing to it or reading from it failed.
    Io(String),
    /// It did not answer in time.
    Slow,
    /// An answer does not have the form that it must have.
    Malformed,
    /// A structure is longer than a TPM takes.
    TooLong,
    /// It answered with a code that has no line of its own here.
    Code {
        /// The command.
        command: u32,
        /// The code (part 2, "Response Codes").
        code: u32,
    },
    /// The PIN was wrong.
    WrongPin,
    /// Too many wrong PINs were tried, and it takes none for a while.
    LockedOut,
    /// The sealed object belongs to another TPM, to one that was cleared, or is damaged.
    OtherTpm,
    /// The key above the object is not the one that the object was sealed under.
    OtherParent,
    /// No key is kept at this handle.
    NoSuchKey {
        /// The handle.
        handle: u32,
    },
    /// The key at this handle is no storage key that the TPM has made itself.
    ForeignKey {
        /// The handle.
        handle: u32,
    },
    /// The password of its owner is set and is not known here.
    OwnerAuth,
    /// The PCRs are not as they were.
    PcrsChanged {
        /// The mask: bit n is PCR n.
        mask: u32,
    },
    /// The policy is not met, though the PCRs that are named seem right.
    PolicyUnmet,
    /// PCRs changed again and again while they were looked at.
    Restless,
    /// The hash algorithm has no bank of PCRs in it.
    NoBank,
    /// The PCRs are all zeros or all ones in every bank: nothing was measured into them, and they show nothing.
    Unused {
        /// The mask.
        mask: u32,
    },
    /// An answer was changed on its way.
    Tampered,
    /// Its keys are of a kind by which nothing can be protected on the way.
    NoCurve,
    /// No signature fits the machine as it is, for these PCRs.
    NoSignature {
        /// The mask: bit n is PCR n.
        mask: u32,
    },
    /// The key that signs policies, or the file of signatures, can't be read.
    BadSignatures,
    /// The index is none that the owner of a TPM gives away.
    BadIndex {
        /// The index.
        index: u32,
    },
    /// There is no counter at this index.
    NoCounter {
        /// The index.
        index: u32,
    },
    /// Something else than a counter of a pinned header is at this index.
    NotOurCounter {
        /// The index.
        index: u32,
    },
    /// The TPM has no room for one more counter.
    NoRoom,
    /// No random numbers could be had.
    NoRandom,
}

impl From<ReadError> for TpmError {
    fn from(_: ReadError) -> Self {
        Self::Malformed
    }
}

impl From<atrest_secret::RandomError> for TpmError {
    fn from(_: atrest_secret::RandomError) -> Self {
        Self::NoRandom
    }
}

/// The PCRs of a mask as people write them: `7+11`.
pub struct Mask(pub u32);

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pcrs = (0..32).filter(|pcr| self.0 >> pcr & 1 == 1).map(|pcr: u32| pcr.to_string());
        f.write_str(&pcrs.collect::<Vec<_>>().join("+"))
    }
}

impl fmt::Display for TpmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevice { place } => write!(f, "there is no TPM at {place}"),
            Self::BadPlace { place } => {
                write!(f, "ATREST_TPM is {place:?}, neither a path nor tcp:HOST:PORT nor unix:PATH")
            }
            Self::Io(error) => write!(f, "the TPM can't be reached: {error}"),
            Self::Slow => f.write_str("the TPM does not answer"),
            Self::Malformed => f.write_str("the TPM's answer makes no sense"),
            Self::TooLong => f.write_str("it is longer than a TPM takes"),
            Self::Code { command, code } => {
                write!(f, "the TPM answered command {command:#x} with error {code:#x}")
            }
            Self::WrongPin => f.write_str("the PIN is wrong"),
            Self::LockedOut => {
                f.write_str("the TPM is locked after too many wrong PINs and takes none for a while")
            }
            Self::OtherTpm => {
                f.write_str("it was sealed by another TPM, or by this one before it was cleared")
            }
            Self::OtherParent => {
                f.write_str("the TPM's storage key is not the one under which it was sealed")
            }
            Self::NoSuchKey { handle } => write!(f, "the TPM has no key {handle:#x}"),
            Self::ForeignKey { handle } => write!(
                f,
                "the key {handle:#x} of the TPM is no storage key that it has made itself: somebody may know it"
            ),
            Self::OwnerAuth => {
                f.write_str("the TPM's owner has a password, without which no key can be made")
            }
            Self::PcrsChanged { mask } if mask.count_ones() == 1 => {
                write!(f, "PCR {} of the TPM has changed since it was enrolled", Mask(*mask))
            }
            Self::PcrsChanged { mask } => {
                write!(f, "the PCRs {} of the TPM have changed since it was enrolled", Mask(*mask))
            }
            Self::PolicyUnmet => f.write_str("the machine is not in the state for which it was sealed"),
            Self::Restless => f.write_str("the TPM's PCRs change while they are looked at"),
            Self::NoBank => f.write_str("the TPM keeps no PCRs with this hash"),
            Self::Unused { mask } => write!(
                f,
                "nothing was measured into PCR {} of the TPM, which would protect nothing",
                Mask(*mask)
            ),
            Self::Tampered => f.write_str("the TPM's answer was changed on its way"),
            Self::NoCurve => {
                f.write_str("the TPM has no key on P-256, by which the secret is protected on its way")
            }
            Self::NoSignature { mask } => {
                write!(f, "no signature fits PCR {} of this machine", Mask(*mask))
            }
            Self::BadSignatures => f.write_str("the key or the signatures of its policy can't be read"),
            Self::BadIndex { index } => {
                write!(f, "{index:#010x} is no place for a counter: those are from 0x01800000 to 0x01bfffff")
            }
            Self::NoCounter { index } => write!(f, "the TPM has no counter at {index:#010x}"),
            Self::NotOurCounter { index } => {
                write!(f, "what the TPM has at {index:#010x} is no counter of a pinned header")
            }
            Self::NoRoom => f.write_str("the TPM has no room for one more counter"),
            Self::NoRandom => f.write_str("the random source failed"),
        }
    }
}

impl core::error::Error for TpmError {}
