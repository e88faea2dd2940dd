//! The ciphers that this library was built with.

#[cfg(feature = "adiantum")]
use atrest_cipher::AdiantumPlain64;
#[cfg(feature = "aes-xts")]
use atrest_cipher::AesXts;
use atrest_cipher::{DataUnitCipher, MapperOptions};
use atrest_keyslot::flash::{FlashCipher, FlashKey, Params, Protection};

use crate::status::Status;

/// An expanded key of any of them.
#[allow(clippy::large_enum_variant, reason = "there is no heap to put it on")]
pub(crate) enum Cipher {
    /// None.
    Nothing,
    #[cfg(feature = "aes-xts")]
    AesXts(AesXts),
    #[cfg(feature = "adiantum")]
    Adiantum(AdiantumPlain64),
}

impl Cipher {
    /// Expands a volume key for the cipher that the header names.
    #[cfg_attr(not(any(feature = "aes-xts", feature = "adiantum")), allow(unused_variables))]
    pub(crate) fn expand(&mut self, params: &Params, key: &FlashKey) -> Result<(), Status> {
        *self = Self::Nothing;
        if params.protection != Protection::Encrypted {
            return Err(Status::NotHere);
        }
        let options = MapperOptions { data_unit: params.data_unit as usize, ..MapperOptions::default() };
        match params.cipher {
            #[cfg(feature = "aes-xts")]
            FlashCipher::AesXts => {
                *self = Self::AesXts(AesXts::new(key.expose(), &options).map_err(|_| Status::Damaged)?);
            }
            #[cfg(feature = "adiantum")]
            FlashCipher::Adiantum12 => {
                let cipher = AdiantumPlain64::new(key.expose(), &options).map_err(|_| Status::Damaged)?;
                *self = Self::Adiantum(cipher);
            }
            _ => return Err(Status::NotHere),
        }
        Ok(())
    }

    /// The expanded one, if there is one.
    pub(crate) fn expanded(&self) -> Option<&dyn DataUnitCipher> {
        match self {
            Self::Nothing => None,
            #[cfg(feature = "aes-xts")]
            Self::AesXts(cipher) => Some(cipher),
            #[cfg(feature = "adiantum")]
            Self::Adiantum(cipher) => Some(cipher),
        }
    }
}
