//! What a person is told when encrypted flash can't be used: what happened, what it means, what to try.

use std::io;

use atrest_device::{FlashCause, FlashError, GeometryError, TrustedStoreError};
use atrest_engine::TrustedFileError;
use atrest_engine::flash::{DetectError, FlashOpenError};
use atrest_flash::sealed::{LayoutError, SealedError};
use atrest_flash::{AnchorError, FlashHeaderError};
use atrest_kdf::KdfError;
use atrest_keyslot::flash::{DeriveError, HeaderError, MAX_PASSPHRASE_LEN, SlotError};

use crate::errors::too_much_work;
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
            FlashOpenError::Detect(DetectError::Truncated { .. }) => Self::new(Code::Device, error).hint(CUT),
            FlashOpenError::Detect(DetectError::Header(HeaderError::Version { .. })) => {
                Self::new(Code::Device, error).hint("a newer version of this program may know it")
            }
            FlashOpenError::Detect(DetectError::Header(_)) => Self::new(Code::Device, error).hint(DAMAGED),
            FlashOpenError::TooSmall(_) => Self::new(Code::Device, error).hint(CUT),
            FlashOpenError::Store(store) => of_store(store),
            FlashOpenError::Sealed(sealed) => of_sealed(sealed),
            FlashOpenError::UnitsTooLarge { .. } => Self::new(Code::Device, error)
                .hint("whoever made this header did not make it for flash; nothing was written, and nothing in it can be used"),
            FlashOpenError::NotEnoughMemory { .. } => Self::new(Code::Memory, error)
                .hint("sealed flash keeps a few bytes for each erase block: use a machine with more memory, or larger --erase-size for a new volume"),
            FlashOpenError::Geometry(GeometryError::Zero) => {
                Self::parameters(error).hint("choose a larger --size, and units that are not 0")
            }
            FlashOpenError::Geometry(_) => Self::parameters(error)
                .hint("--erase-size is a multiple of --prog-size, and that one of --read-size"),
            FlashOpenError::Layer(_) => Self::parameters(error)
                .hint("wide-block ciphers and CBC program whole data units: see --sector-size"),
            FlashOpenError::Key(_) => Self::parameters(error),
            FlashOpenError::StoreNeeded => Self::parameters(error).hint(
                "--store FILE names it; --without-freshness reads without, and can't tell an older state from the newest",
            ),
            FlashOpenError::StoreElsewhere => Self::new(Code::Device, error)
                .hint("the chip that has the counter opens it; --without-freshness reads it here"),
            FlashOpenError::NotSealed => {
                Self::parameters(error).hint("leave --store and --without-freshness out")
            }
            _ => Self::new(Code::Device, error),
        }
    }
}

/// Who makes the files that --store names.
pub const STORES: &str = "--store names the file that `atrest format --type sealed --store` made with the volume, or `atrest header pin --store` for its header";

fn of_store(error: TrustedFileError) -> Failure {
    const WHERE: &str = STORES;
    const LOST: &str = "bring a copy of the store that was used last; without one, --without-freshness reads what is on the medium";
    match error {
        TrustedFileError::Missing | TrustedFileError::Empty => Failure::new(Code::Device, error).hint(LOST),
        TrustedFileError::LinkToNothing => Failure::new(Code::Device, error)
            .hint("bring back what the link leads to, such as the disk it is on, or name another file"),
        TrustedFileError::Busy => Failure::new(Code::Busy, error)
            .hint("`atrest status` shows what is open; two volumes, or two copies of one, never share a store"),
        TrustedFileError::Replaced => Failure::new(Code::Device, error).hint(
            "whatever removed it, bring back the file that was there; what was synced before is on the medium",
        ),
        TrustedFileError::Owner { .. } => Failure::new(Code::Refused, error)
            .hint("let that user run the command, or make the store yours with `chown` first"),
        TrustedFileError::Os(errno) => Failure::io(&io::Error::from_raw_os_error(errno)),
        _ => Failure::new(Code::Device, error).hint(WHERE),
    }
}

/// A store that fails while it is used.
pub fn of_trusted(error: TrustedStoreError) -> Failure {
    match error {
        TrustedStoreError::Driver(errno) => match io::Error::from_raw_os_error(errno) {
            error if error.kind() == io::ErrorKind::NotFound => of_store(TrustedFileError::Replaced),
            error => Failure::io(&error).within("the trusted store can't be written"),
        },
        TrustedStoreError::Busy => of_store(TrustedFileError::Busy),
        error => Failure::new(Code::Device, error),
    }
}

/// Each of these says by itself what it means; the hints say what to try on a desk.
fn of_sealed(error: SealedError) -> Failure {
    const LOOK: &str = "nothing was changed; --without-freshness reads what is there, and says which unit is not as it was sealed; `atrest repair --store` can anchor that anew";
    match error {
        SealedError::StoreEmpty => of_store(TrustedFileError::Empty),
        SealedError::OtherVolume => Failure::new(Code::Device, "the trusted store belongs to another volume")
            .hint("--store names the one that was made with this volume, or the chip's own copy of it"),
        SealedError::LaterVersion => Failure::new(Code::Device, error),
        SealedError::StoreOlder { .. } => Failure::new(Code::Device, error).hint(
            "did another computer, or the chip, use the medium with a store of its own since? Bring that one",
        ),
        SealedError::NotAnchored { .. } | SealedError::Gap { .. } => {
            Failure::new(Code::Device, error).hint(LOOK)
        }
        SealedError::HeaderOlder { .. } | SealedError::HeaderOther { .. } => {
            Failure::new(Code::Device, error).hint(HEADER)
        }
        SealedError::HandedOver { .. } => {
            Failure::new(Code::Device, error).hint("`atrest hand-over --to` named the other one")
        }
        SealedError::StoreInUse => Failure::new(Code::Busy, error),
        SealedError::Layout(LayoutError::OtherPayload { .. }) => Failure::new(Code::Device, error),
        SealedError::Layout(_) => {
            Failure::parameters(error)
                .hint("choose --unit-size and --erase-size that go together; --tickets store spares the slot in each block")
        }
        SealedError::Medium(cause) => Failure::new(Code::Device, cause),
        _ => Failure::new(Code::Device, error),
    }
}

const HEADER: &str = "nothing was changed; bring back the newest header, from a copy of the image; or `atrest repair --store` takes the header that is there, \
     after a question";

/// A store that does not follow a change of the header.
fn of_anchor(error: FlashHeaderError, why: AnchorError) -> Failure {
    match why {
        AnchorError::Store(store) => of_trusted(store).within(match error {
            FlashHeaderError::NotSettled { .. } => "the change is made, but the store still allows the header before it",
            _ => "nothing was changed",
        }),
        AnchorError::Older { .. } | AnchorError::Other { .. }
            if matches!(error, FlashHeaderError::NotAnnounced { .. }) =>
        {
            Failure::new(Code::Device, error).hint(HEADER)
        }
        AnchorError::InUse => Failure::new(Code::Busy, error).hint(
            "it is of a hand-over that was interrupted before the volume was used with the old store again: move it away and run the \
             command again",
        ),
        _ => Failure::new(Code::Device, error),
    }
}

impl From<FlashError> for Failure {
    fn from(error: FlashError) -> Self {
        let cause = error.cause;
        match cause {
            FlashCause::Tampered { .. } => Self::new(Code::Device, error).hint(
                "it was changed, moved, put back, or the medium is failing; nothing is written to the volume any more. Copy what can \
                 still be read. Without the trusted store a unit that a power loss has torn looks the same: bring the store, \
                 or see --assume-torn",
            ),
            FlashCause::Stopped => Self::new(Code::Device, cause),
            FlashCause::TrustedStore(store) => of_trusted(store),
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
            FlashHeaderError::AnchorNeeded => Self::parameters(error).hint(
                "name it by --store: it then refuses copies of the earlier header, which removed passphrases still open",
            ),
            FlashHeaderError::NotAnnounced { error: why } => of_anchor(error, why),
            FlashHeaderError::NotSettled { error: why } => of_anchor(error, why),
            FlashHeaderError::OldCopyRemains { .. } => Self::new(Code::Device, error).hint(
                "the medium is failing: treat the old passphrase as still valid, and copy what it holds",
            ),
            FlashHeaderError::NotDestroyed { .. } => Self::new(Code::Device, error).hint(
                "the medium is failing: treat the old passphrases as still valid, and run the command again",
            ),
            FlashHeaderError::NotRewritten { in_other: true, .. } => Self::new(Code::Device, error)
                .hint("the medium is failing: trust it with nothing new; `atrest repair` writes the copy again"),
            FlashHeaderError::NotRewritten { .. } => Self::new(Code::Device, error)
                .hint("no passphrase opens it any more; the medium is failing, trust it with nothing new"),
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
        SlotError::Derive(DeriveError::Kdf(kdf @ KdfError::TooMuchWork { .. })) => too_much_work(kdf),
        SlotError::Derive(DeriveError::Kdf(_)) => {
            Failure::new(Code::Memory, error).hint("close other programs, or use a machine with more memory")
        }
        error => Failure::new(Code::Device, error),
    }
}
