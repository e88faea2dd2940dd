//! What functions return, and what it means in words.

use core::ffi::{CStr, c_char, c_int};

use atrest_device::{FlashCause, FlashError};
use atrest_flash::{CryptFlashError, FlashHeaderError};
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
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            const fn text(code: c_int) -> &'static CStr {
                match code {
                    $($code => const {
                        match CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()) {
                            Ok(text) => text,
                            Err(_) => panic!("a zero byte in a text"),
                        }
                    },)*
                    _ => c"not a status of this library",
                }
            }
        }
    };
}

statuses! {
    Ok = 0, "done";
    Medium = -1, "the medium failed";
    Argument = -2, "an argument is missing, or a range is not made of whole units inside the volume";
    NoHeader = -3, "no header: the medium is erased or holds something else; format it with atrest";
    Damaged = -4, "both copies of the header are damaged, or contradict each other";
    Version = -5, "the header is of a newer version than this library";
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
}

impl From<Status> for c_int {
    fn from(status: Status) -> Self {
        status as Self
    }
}

/// A text for a status, in ASCII, for ever.
#[unsafe(no_mangle)]
pub extern "C" fn atrest_message(status: c_int) -> *const c_char {
    Status::text(status).as_ptr()
}

/// A result as C wants it.
pub(crate) fn returned(result: Result<(), Status>) -> c_int {
    result.err().unwrap_or(Status::Ok).into()
}

impl From<FlashError> for Status {
    fn from(error: FlashError) -> Self {
        match error.cause {
            FlashCause::OutOfBounds { .. } | FlashCause::Misaligned { .. } => Self::Argument,
            FlashCause::BadBlock { .. }
            | FlashCause::Uncorrectable
            | FlashCause::AlreadyProgrammed { .. } => Self::Corrupt,
            FlashCause::BufferTooSmall { .. } => Self::Memory,
            _ => Self::Medium,
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
            FlashHeaderError::OldCopyRemains { .. } => Self::OldCopyRemains,
            FlashHeaderError::NotRewritten { .. } => Self::NotRewritten,
            FlashHeaderError::NotWritten { .. } | FlashHeaderError::WornOut | FlashHeaderError::Reopen => {
                Self::NotWritten
            }
            _ => Self::Argument,
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
            SlotError::Random => Self::Random,
            _ => Self::Argument,
        }
    }
}
