//! Sealed volumes of the ciphers that this library was built with. Each is code of its own.
#![cfg_attr(
    not(any(feature = "ascon", feature = "chacha20poly1305", feature = "ccm", feature = "gcm")),
    allow(unused, clippy::needless_pass_by_value, reason = "without a cipher there is no volume")
)]

use atrest_cipher::aead::Aead;
#[cfg(feature = "ascon")]
use atrest_cipher::aead::AsconAead128;
#[cfg(feature = "chacha20poly1305")]
use atrest_cipher::aead::ChaCha20Poly1305;
#[cfg(feature = "ccm")]
use atrest_cipher::aead::{Aes128Ccm, Aes256Ccm};
#[cfg(feature = "gcm")]
use atrest_cipher::aead::{Aes128Gcm, Aes256Gcm};
use atrest_device::{FlashCause, FlashDevice, FlashRegion};
use atrest_flash::sealed::{BlockState, SealedFlash, SealedKey, SealedOptions};
use atrest_keyslot::flash::FlashCipher;
use atrest_secret::Random;

use crate::lent::Lent;
use crate::medium::Driver;
use crate::status::Status;
use crate::store::Kept;

/// Bytes in the tags of all of them. Shorter ones are for the desk.
pub(crate) const TAG_LEN: u8 = 16;

/// A volume of one of them.
type Of<A> = SealedFlash<A, FlashRegion<Driver>, Kept, Lent<BlockState>, Lent<u8>>;

/// What a volume is opened or made of.
pub(crate) struct Setup<'a> {
    pub(crate) cipher: FlashCipher,
    pub(crate) device: FlashRegion<Driver>,
    pub(crate) store: Kept,
    pub(crate) table: Lent<BlockState>,
    pub(crate) buffer: Lent<u8>,
    pub(crate) key: SealedKey<'a>,
    pub(crate) options: SealedOptions,
    pub(crate) random: &'a mut dyn Random,
}

/// An open volume, whose cipher nobody needs to know any more.
pub(crate) trait Plain: FlashDevice {
    fn anchored(&mut self) -> Result<(), FlashCause>;
    fn closed(&mut self) -> Result<(), FlashCause>;
    fn health(&self) -> Status;
}

impl<A: Aead> Plain for Of<A> {
    fn anchored(&mut self) -> Result<(), FlashCause> {
        self.anchor()
    }

    fn closed(&mut self) -> Result<(), FlashCause> {
        self.close()
    }

    fn health(&self) -> Status {
        match (self.is_stopped(), self.is_damaged()) {
            (true, _) => Status::Stopped,
            (false, true) => Status::Tampered,
            (false, false) => Status::Ok,
        }
    }
}

macro_rules! ciphers {
    ($($feature:literal $name:ident: $cipher:ident with keys of $lens:pat => here;)*) => {
        /// An open volume of any of them.
        #[allow(clippy::large_enum_variant, reason = "there is no heap to put it on")]
        pub(crate) enum Volume {
            /// None is open.
            Nothing,
            $(#[cfg(feature = $feature)] $name(Of<$name>),)*
        }

        impl Volume {
            /// Makes an empty volume.
            pub(crate) fn make(&mut self, it: Setup<'_>) -> Result<(), Status> {
                let Setup { cipher, device, store, table, buffer, key, options, random } = it;
                match (cipher, key.volume_key.len()) {
                    $(#[cfg(feature = $feature)]
                    (FlashCipher::$cipher, $lens) => {
                        *self = Self::$name(SealedFlash::format(device, store, &key, options, table, buffer, random)?);
                    })*
                    (cipher, _) => return Err(refused(cipher)),
                }
                Ok(())
            }

            /// Opens a volume.
            pub(crate) fn mount(&mut self, it: Setup<'_>) -> Result<(), Status> {
                let Setup { cipher, device, store, table, buffer, key, options, random } = it;
                match (cipher, key.volume_key.len()) {
                    $(#[cfg(feature = $feature)]
                    (FlashCipher::$cipher, $lens) => {
                        *self = Self::$name(SealedFlash::mount(device, store, &key, options, table, buffer, random)?);
                    })*
                    (cipher, _) => return Err(refused(cipher)),
                }
                Ok(())
            }

            /// The volume, if one is open.
            pub(crate) fn plain(&mut self) -> Result<&mut dyn Plain, Status> {
                match self {
                    Self::Nothing => Err(Status::Closed),
                    $(#[cfg(feature = $feature)] Self::$name(volume) => Ok(volume),)*
                }
            }
        }

        /// Why no volume has this cipher with the key.
        #[allow(unreachable_patterns, reason = "some take keys of two lengths")]
        fn refused(cipher: FlashCipher) -> Status {
            match cipher {
                $(#[cfg(feature = $feature)] FlashCipher::$cipher => Status::KeyLength,)*
                _ => Status::NotHere,
            }
        }

        /// Whether this library has the cipher.
        pub(crate) fn is_here(cipher: FlashCipher) -> bool {
            refused(cipher) == Status::KeyLength
        }
    };
}

ciphers! {
    "ascon" AsconAead128: Ascon128 with keys of 16..=64 => here;
    "chacha20poly1305" ChaCha20Poly1305: ChaCha20Poly1305 with keys of 32..=64 => here;
    "ccm" Aes128Ccm: AesCcm with keys of 16 => here;
    "ccm" Aes256Ccm: AesCcm with keys of 32 => here;
    "gcm" Aes128Gcm: AesGcm with keys of 16 => here;
    "gcm" Aes256Gcm: AesGcm with keys of 32 => here;
}
