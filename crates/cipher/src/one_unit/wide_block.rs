//! Wide-block ciphers for one data unit of any length from 16 bytes on, with a tweak of any length.

use core::fmt;

use crate::block::Direction;
use crate::key_error::KeyError;
use crate::keyed::AnyKeyed;
use crate::mode::Mode;
use crate::options::MapperOptions;
use crate::run::without_traces;
use crate::spec::{Cipher, CipherSpec};

/// Why a data unit was refused. Nothing was written.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WideBlockError {
    /// A data unit has at least one cipher block.
    TooShort {
        /// Bytes in the data unit.
        len: usize,
    },
    /// Source and destination differ in length.
    LengthMismatch {
        /// Bytes in the source.
        src: usize,
        /// Bytes in the destination.
        dst: usize,
    },
}

impl fmt::Display for WideBlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { len } => write!(f, "a wide-block cipher needs at least 16 bytes, not {len}"),
            Self::LengthMismatch { src, dst } => {
                write!(f, "the source has {src} bytes but the destination has {dst}")
            }
        }
    }
}

impl core::error::Error for WideBlockError {}

/// Declares the type of one such cipher.
macro_rules! wide_block {
    ($(#[$doc:meta])* $name:ident, $mode:expr) => {
        $(#[$doc])*
        pub struct $name(AnyKeyed);

        impl $name {
            /// Expands a key. Of the options, backend and vectors count.
            ///
            /// # Errors
            ///
            /// * [`KeyError::Length`] if the cipher takes no key of this length, or does not go with the mode.
            /// * [`KeyError::NullCipher`] for the null cipher.
            pub fn new(cipher: Cipher, key: &[u8], options: &MapperOptions) -> Result<Self, KeyError> {
                let spec = CipherSpec::plain64(cipher, $mode);
                AnyKeyed::new(&spec, key, options).map(Self)
            }

            /// Encrypts a data unit in place, under a tweak that no other unit has.
            ///
            /// # Errors
            ///
            /// [`WideBlockError::TooShort`] if the data unit has less than 16 bytes.
            pub fn encrypt(&self, tweak: &[u8], unit: &mut [u8]) -> Result<(), WideBlockError> {
                apply(&self.0, Direction::Encrypt, tweak, None, unit)
            }

            /// Decrypts a data unit in place.
            ///
            /// # Errors
            ///
            /// [`WideBlockError::TooShort`] if the data unit has less than 16 bytes.
            pub fn decrypt(&self, tweak: &[u8], unit: &mut [u8]) -> Result<(), WideBlockError> {
                apply(&self.0, Direction::Decrypt, tweak, None, unit)
            }

            /// Encrypts a data unit from `src` to `dst`, which are equally long.
            ///
            /// # Errors
            ///
            /// * [`WideBlockError::LengthMismatch`] if source and destination differ in length.
            /// * [`WideBlockError::TooShort`] if the data unit has less than 16 bytes.
            pub fn encrypt_to(&self, tweak: &[u8], src: &[u8], dst: &mut [u8]) -> Result<(), WideBlockError> {
                apply(&self.0, Direction::Encrypt, tweak, Some(src), dst)
            }

            /// Decrypts a data unit from `src` to `dst`, which are equally long.
            ///
            /// # Errors
            ///
            /// * [`WideBlockError::LengthMismatch`] if source and destination differ in length.
            /// * [`WideBlockError::TooShort`] if the data unit has less than 16 bytes.
            pub fn decrypt_to(&self, tweak: &[u8], src: &[u8], dst: &mut [u8]) -> Result<(), WideBlockError> {
                apply(&self.0, Direction::Decrypt, tweak, Some(src), dst)
            }

            /// Name of the implementation in use.
            pub fn backend_name(&self) -> &'static str {
                self.0.backend_name()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    };
}

wide_block!(
    /// A keyed Adiantum (Crowley and Biggers, IACR ToSC 2018(4)) of XChaCha12 or XChaCha20, AES-256, NH and Poly1305,
    /// made from [`Cipher::XChaCha12Aes`] or [`Cipher::XChaCha20Aes`] and a key of 32 bytes. Wipes itself on drop.
    Adiantum,
    Mode::Adiantum
);
wide_block!(
    /// A keyed HPolyC: Adiantum's predecessor, whose hash is Poly1305 alone: slower, with a smaller key in memory.
    /// Made as [`Adiantum`] is. Its tweaks are usually of 12 bytes.
    HPolyC,
    Mode::HPolyC
);

wide_block!(
    /// A keyed HCTR2 (Crowley, Huckleberry and Biggers, 2021) of a block cipher with blocks of 16 bytes, usually
    /// [`Cipher::Aes`], and a key of the cipher's length. Its tweaks are usually of 32 bytes. Wipes itself on drop.
    Hctr2,
    Mode::Hctr2
);

fn apply(
    keyed: &AnyKeyed,
    direction: Direction,
    tweak: &[u8],
    src: Option<&[u8]>,
    dst: &mut [u8],
) -> Result<(), WideBlockError> {
    if let Some(src) = src.filter(|src| src.len() != dst.len()) {
        return Err(WideBlockError::LengthMismatch { src: src.len(), dst: dst.len() });
    }
    if dst.len() < 16 {
        return Err(WideBlockError::TooShort { len: dst.len() });
    }
    without_traces(|| keyed.wide_unit(direction, tweak, src, dst));
    Ok(())
}
