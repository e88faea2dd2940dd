//! The ciphers that this library was built with.

#[cfg(feature = "adiantum")]
use atrest_cipher::AdiantumPlain64;
#[cfg(feature = "aes-xts")]
use atrest_cipher::AesXts;
use atrest_cipher::{DataUnitCipher, MapperOptions};
use atrest_keyslot::flash::FlashCipher;

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
    /// Expands a volume key.
    #[cfg_attr(
        not(any(feature = "aes-xts", feature = "adiantum")),
        allow(unused_variables, unreachable_code)
    )]
    pub(crate) fn expand(&mut self, cipher: FlashCipher, data_unit: u32, key: &[u8]) -> Result<(), Status> {
        *self = Self::Nothing;
        // Counted in sectors of 512 bytes, as the header's volumes are.
        if !(512..=4096).contains(&data_unit) || !data_unit.is_power_of_two() {
            return Err(Status::Option);
        }
        let options = MapperOptions { data_unit: data_unit as usize, ..MapperOptions::default() };
        match cipher {
            #[cfg(feature = "aes-xts")]
            FlashCipher::AesXts => {
                *self = Self::AesXts(AesXts::new(key, &options).map_err(|_| Status::KeyLength)?);
            }
            #[cfg(feature = "adiantum")]
            FlashCipher::Adiantum12 => {
                *self = Self::Adiantum(AdiantumPlain64::new(key, &options).map_err(|_| Status::KeyLength)?);
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
