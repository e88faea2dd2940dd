//! What a person is told when encrypted flash can't be used: what happened, what it means, what to try.

use atrest_engine::flash::{DetectError, FlashOpenError};
use atrest_flash::FlashHeaderError;
use atrest_keyslot::flash::{DeriveError, HeaderError, MAX_PASSPHRASE_LEN, SlotError};

use crate::failure::{Code, Failure};

const CUT: &str = "was the image cut off, or is the card smaller than it says? Nothing was written";
const DAMAGED: &str =
    "`atrest repair` mends one copy from the other; a volume both of whose copies are damaged is lost";

impl From<FlashOpenError> for Failure {
    fn from(error: FlashOpenError) -> Self {
        match error {
            FlashOpenError::Header(header) => header.into(),
            FlashOpenError::Detect(DetectError::Device(device)) => device.into(),
            FlashOpenError::Detect(DetectError::NotFlash) => Self::new(Code::Device, error)
                .hint("`atrest format --type flash` makes one, and loses what is there"),
            FlashOpenError::Detect(DetectError::Header(HeaderError::Version { .. })) => {
                Self::new(Code::Device, error).hint("a newer version of this program may know it")
            }
            FlashOpenError::Detect(DetectError::Header(_)) => Self::new(Code::Device, error).hint(DAMAGED),
            FlashOpenError::TooSmall(_) => Self::new(Code::Device, error).hint(CUT),
            FlashOpenError::Geometry(_) => Self::parameters(error)
                .hint("--erase-size is a multiple of --prog-size, and that one of --read-size"),
            FlashOpenError::Layer(_) => Self::parameters(error)
                .hint("wide-block ciphers and CBC program whole data units: see --sector-size"),
            FlashOpenError::Key(_) => Self::parameters(error),
            FlashOpenError::Sealed => Self::new(Code::Device, error).hint(
                "sealed volumes are opened by the firmware that made them; this program does not do it yet",
            ),
            _ => Self::new(Code::Device, error),
        }
    }
}

impl From<FlashHeaderError> for Failure {
    fn from(error: FlashHeaderError) -> Self {
        match error {
            FlashHeaderError::Slot { error: slot, .. } => of_slot(slot),
            FlashHeaderError::Header(HeaderError::Params(_)) => Self::parameters(error),
            FlashHeaderError::Header(_) => Self::new(Code::Device, error).hint(DAMAGED),
            FlashHeaderError::CopiesDisagree => Self::new(Code::Device, error)
                .hint("was a card written in part over another one? Write the whole image again"),
            FlashHeaderError::OtherGeometry { .. } => Self::new(Code::Device, error)
                .hint("the header says which sizes the volume was made for; leave the options out"),
            FlashHeaderError::CutInSize { .. } => Self::new(Code::Device, error).hint(CUT),
            FlashHeaderError::NoKeyslots => Self::new(Code::Refused, error)
                .hint("what is on it can't be had back; `atrest format` makes a new one"),
            FlashHeaderError::SlotNotInUse { .. } | FlashHeaderError::SlotInUse { .. } => {
                Self::parameters(error).hint("`atrest key list` shows the keyslots; there are four")
            }
            FlashHeaderError::NoFreeSlot => Self::parameters(error).hint("`atrest key remove` frees one"),
            FlashHeaderError::LastKey { .. } => {
                Self::parameters(error).hint("`atrest erase` is the command that makes a volume unreadable")
            }
            FlashHeaderError::OldCopyRemains { .. } => Self::new(Code::Device, error).hint(
                "the medium is failing: treat the old passphrase as still valid, and copy what it holds",
            ),
            _ => Self::new(Code::Device, error),
        }
    }
}

fn of_slot(error: SlotError) -> Failure {
    match error {
        SlotError::WrongKey => Failure::new(Code::Refused, "wrong passphrase: no keyslot opens with it").hint(
            "check keyboard layout, Caps Lock and a newline at the end of a key file; a header that was changed on purpose opens with no passphrase",
        ),
        SlotError::EmptyPassphrase | SlotError::PassphraseTooLong { .. } => Failure::parameters(error)
            .hint(format!("encrypted flash takes 1 to {MAX_PASSPHRASE_LEN} bytes; --keyfile-size takes a part of a key file")),
        SlotError::NeedsDevice => {
            Failure::new(Code::Refused, error).hint("open it with that chip, or with a passphrase of another keyslot")
        }
        SlotError::Cost(_) => Failure::parameters(error).hint("ask for less work"),
        SlotError::Derive(DeriveError::Kdf(_)) => {
            Failure::new(Code::Memory, error).hint("close other programs, or use a machine with more memory")
        }
        error => Failure::new(Code::Device, error),
    }
}
