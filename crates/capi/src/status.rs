//! What functions return, and what it means in words.

use core::ffi::{c_char, c_int};

use atrest_device::{FlashCause, FlashError, TrustedStoreError};
#[cfg(feature = "sealed")]
use atrest_flash::sealed::SealedError;
use atrest_flash::{AnchorError, CryptFlashError, FlashHeaderError};
use atrest_keyslot::flash::{HeaderError, SlotError};

macro_rules! statuses {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        /// The values of `enum atrest_status`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Status {
            $(#[doc = $text] $name = $code,)*
        }

        impl Status {
            /// All of them, each at the place of its number less its sign.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }

        /// The text of each, and one for numbers that are none.
        const TEXT: &str = concat!($($text, "\0",)* "not a status of this library\0");
    };
}

statuses! {
    Ok = 0, "done";
    Medium = -1, "the medium failed";
    Argument = -2, "an argument is missing, or a range is not made of whole units inside the volume";
    NoHeader = -3, "no header: the medium is erased or holds something else; format it with atrest";
    Damaged = -4, "both copies of the header are damaged, or contradict each other";
    Version = -5, "the header or the trusted store is of another version than this library";
    Geometry = -6, "the header was made for a medium of other sizes, or the medium is cut";
    Passphrase = -7, "no keyslot opens with this passphrase";
    PassphraseLength = -8, "a passphrase has 1 to 4096 bytes";
    NoKeys = -9, "no keyslot holds a key: the volume was crypto-erased";
    NotHere = -10, "this library was built without that cipher or key derivation";
    Memory = -11, "the buffer or the memory for the key derivation is too small";
    Device = -12, "the keyslot needs the secret of the chip that made it";
    Random = -13, "the random source failed, and nothing was written";
    Corrupt = -14, "the block is worn out or damaged, or was to be programmed twice";
    NotWritten = -15, "what was written does not read back; open the volume again";
    OldCopyRemains = -16, "the change is made, but a copy of the header may still hold the state before it; try again";
    Closed = -17, "the volume is not open";
    NotRewritten = -18, "the keys are destroyed, but the header without keys could not be written to both copies";
    NotBlank = -19, "something is there that formatting would destroy";
    KeyLength = -20, "the key is missing, all zeros, or of a length that the cipher does not take";
    Option = -21, "an option has a value that is not possible, or does not go with the medium";
    Store = -22, "the trusted store failed";
    StoreEmpty = -23, "the trusted store holds nothing: no volume was made with it, or it was wiped";
    StoreDamaged = -24, "what the trusted store holds is damaged, or was never a record";
    StoreInUse = -25, "the trusted store holds the record of a volume, and is in use";
    StoreSize = -26, "the trusted store has too little room";
    OtherVolume = -27, "the trusted store belongs to another volume, or key, cipher or sizes are others than at formatting";
    NotAnchored = -28, "the medium is not as the trusted store knows it: an older state was put back, or it was changed or damaged";
    StoreOlder = -29, "the trusted store is older than the medium";
    HeaderOlder = -30, "an older header was put back";
    HeaderOther = -31, "the header is not the one that the trusted store names";
    HandedOver = -32, "the volume was handed over to another trusted store";
    Tampered = -33, "a unit is not what was stored there";
    Stopped = -34, "nothing is written any more, because a unit was found that is not what was stored";
    WornOut = -35, "the numbers for sealing or the trusted store are used up: copy the files to a new volume";
    KeyInUse = -36, "the medium holds data under this key and identifier: take a new identifier or a new key";
    NotSealed = -37, "the header is of a volume of the other kind: encrypted, or sealed";
    StoreNeeded = -38, "the header of a sealed volume is changed together with its trusted store";
    NoMap = -39, "there is no key-value map on the volume";
}

impl From<Status> for c_int {
    fn from(status: Status) -> Self {
        status as Self
    }
}

/// In one piece, of which a linker leaves nothing where nobody asks for texts.
static TEXTS: [u8; TEXT.len()] = {
    let mut bytes = [0; TEXT.len()];
    bytes.copy_from_slice(TEXT.as_bytes());
    bytes
};

/// A text for a status, in ASCII, for ever.
#[unsafe(no_mangle)]
pub extern "C" fn atrest_message(status: c_int) -> *const c_char {
    let number = status.checked_neg().and_then(|number| usize::try_from(number).ok());
    let number = number.filter(|number| *number < Status::ALL.len()).unwrap_or(Status::ALL.len());
    let mut texts = TEXTS.split_inclusive(|byte| *byte == 0);
    // cannot be missing: there is one more text than there are statuses.
    texts.nth(number).map_or(core::ptr::null(), |text| text.as_ptr().cast())
}

/// A result as C wants it.
pub(crate) fn returned(result: Result<(), Status>) -> c_int {
    result.err().unwrap_or(Status::Ok).into()
}

impl From<FlashError> for Status {
    fn from(error: FlashError) -> Self {
        error.cause.into()
    }
}

impl From<FlashCause> for Status {
    fn from(cause: FlashCause) -> Self {
        match cause {
            FlashCause::OutOfBounds { .. } | FlashCause::Misaligned { .. } => Self::Argument,
            FlashCause::BadBlock { .. }
            | FlashCause::Uncorrectable
            | FlashCause::AlreadyProgrammed { .. }
            | FlashCause::Void { .. }
            | FlashCause::Closed { .. }
            | FlashCause::OutOfOrder { .. } => Self::Corrupt,
            FlashCause::BufferTooSmall { .. } => Self::Memory,
            FlashCause::Tampered { .. } => Self::Tampered,
            FlashCause::Stopped => Self::Stopped,
            FlashCause::WornOut => Self::WornOut,
            FlashCause::TrustedStore(error) => error.into(),
            _ => Self::Medium,
        }
    }
}

impl From<TrustedStoreError> for Status {
    fn from(error: TrustedStoreError) -> Self {
        match error {
            TrustedStoreError::Damaged => Self::StoreDamaged,
            TrustedStoreError::TooSmall { .. } => Self::StoreSize,
            TrustedStoreError::WornOut => Self::WornOut,
            TrustedStoreError::Busy => Self::StoreInUse,
            _ => Self::Store,
        }
    }
}

impl From<CryptFlashError> for Status {
    fn from(error: CryptFlashError) -> Self {
        match error {
            CryptFlashError::BounceTooSmall { .. } => Self::Memory,
            _ => Self::Geometry,
        }
    }
}

impl From<FlashHeaderError> for Status {
    fn from(error: FlashHeaderError) -> Self {
        match error {
            FlashHeaderError::Flash(error) => error.into(),
            FlashHeaderError::Header(HeaderError::Blank | HeaderError::Foreign) => Self::NoHeader,
            FlashHeaderError::Header(HeaderError::Version { .. }) => Self::Version,
            FlashHeaderError::Header(_) | FlashHeaderError::CopiesDisagree => Self::Damaged,
            FlashHeaderError::OtherGeometry { .. } | FlashHeaderError::CutInSize { .. } => Self::Geometry,
            FlashHeaderError::ScratchTooSmall { .. } => Self::Memory,
            FlashHeaderError::NoKeyslots => Self::NoKeys,
            FlashHeaderError::Slot { error, .. } => error.into(),
            FlashHeaderError::OldCopyRemains { .. } | FlashHeaderError::NotSettled { .. } => {
                Self::OldCopyRemains
            }
            FlashHeaderError::NotRewritten { .. } => Self::NotRewritten,
            FlashHeaderError::NotWritten { .. }
            | FlashHeaderError::NotDestroyed { .. }
            | FlashHeaderError::WornOut
            | FlashHeaderError::Reopen => Self::NotWritten,
            FlashHeaderError::NotBlank => Self::NotBlank,
            FlashHeaderError::AnchorNeeded => Self::StoreNeeded,
            FlashHeaderError::NotAnnounced { error } => error.into(),
            _ => Self::Argument,
        }
    }
}

impl From<AnchorError> for Status {
    fn from(error: AnchorError) -> Self {
        match error {
            AnchorError::Store(error) => error.into(),
            AnchorError::Empty => Self::StoreEmpty,
            AnchorError::HandedOver { .. } => Self::HandedOver,
            AnchorError::InUse => Self::StoreInUse,
            AnchorError::Older { .. } => Self::HeaderOlder,
            AnchorError::Other { .. } => Self::HeaderOther,
            AnchorError::WornOut => Self::WornOut,
            _ => Self::Version,
        }
    }
}

impl From<SlotError> for Status {
    fn from(error: SlotError) -> Self {
        use atrest_keyslot::flash::DeriveError;
        match error {
            SlotError::EmptyPassphrase | SlotError::PassphraseTooLong { .. } => Self::PassphraseLength,
            SlotError::WrongKey => Self::Passphrase,
            SlotError::NeedsDevice | SlotError::Device(_) => Self::Device,
            SlotError::Derive(DeriveError::NotHere(_)) => Self::NotHere,
            SlotError::Derive(_) => Self::Memory,
            SlotError::Cost(_) => Self::Option,
            SlotError::Random => Self::Random,
            _ => Self::Argument,
        }
    }
}

#[cfg(feature = "sealed")]
impl From<SealedError> for Status {
    fn from(error: SealedError) -> Self {
        match error {
            SealedError::Layout(_) | SealedError::Option | SealedError::ShortLived { .. } => Self::Option,
            SealedError::Key(_) | SealedError::NoKey => Self::KeyLength,
            SealedError::TableTooSmall { .. } | SealedError::BufferTooSmall { .. } => Self::Memory,
            SealedError::Random => Self::Random,
            SealedError::EarlierVersion | SealedError::LaterVersion => Self::Version,
            SealedError::Medium(cause) => cause.into(),
            SealedError::Store(error) => error.into(),
            SealedError::StoreEmpty => Self::StoreEmpty,
            SealedError::OtherVolume => Self::OtherVolume,
            SealedError::StoreOlder { .. } => Self::StoreOlder,
            SealedError::NotAnchored { .. } | SealedError::Gap { .. } => Self::NotAnchored,
            SealedError::StoreInUse => Self::StoreInUse,
            SealedError::KeyInUse { .. } => Self::KeyInUse,
            SealedError::HeaderOlder { .. } => Self::HeaderOlder,
            SealedError::HeaderOther { .. } => Self::HeaderOther,
            SealedError::HandedOver { .. } => Self::HandedOver,
            SealedError::WornOut => Self::WornOut,
            // A counter that is behind: no store of this library has one.
            _ => Self::Store,
        }
    }
}
