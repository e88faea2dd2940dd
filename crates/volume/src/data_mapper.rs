//! From cipher and key to the mapper of a volume's data, with what its owner has accepted. The same for every format.

use atrest_cipher::{CipherSpec, KeyError, Mapper, MapperOptions};
use atrest_secret::Locked;

use crate::{UnlockOptions, VolumeKey};

/// The mapper for data, and whether it is for reading only: XTS halves that are equal, accepted on request, or a cipher
/// for a single snapshot.
pub(crate) fn data_mapper(
    cipher: &CipherSpec,
    key: &VolumeKey,
    options: &UnlockOptions,
    mapper: MapperOptions,
) -> Result<(Locked<Mapper>, bool), KeyError> {
    let strict = MapperOptions {
        allow_equal_xts_halves: false,
        single_snapshot: options.single_snapshot,
        backend: options.backend,
        ..mapper
    };
    let expand = |options| Locked::try_new_with(|| Mapper::new(cipher, key.expose(), &options));
    match expand(strict) {
        Err(KeyError::EqualXtsHalves) if options.allow_equal_xts_halves => {
            Ok((expand(MapperOptions { allow_equal_xts_halves: true, ..strict })?, true))
        }
        other => Ok((other?, cipher.is_single_snapshot() && !options.single_snapshot)),
    }
}

#[cfg(test)]
mod tests {
    use atrest_cipher::BackendChoice;

    use super::*;

    #[test]
    fn the_caller_chooses_the_implementation_and_whether_weak_keys_may_be_read() {
        let made = |cipher: &str, key: &[u8], options: &UnlockOptions| {
            let cipher = cipher.parse().expect("known");
            let made = data_mapper(&cipher, &VolumeKey::copy_from(key), options, MapperOptions::default());
            made.map(|(mapper, weak)| (mapper.backend_name(), weak))
        };
        let key: Vec<u8> = (0..64).collect();
        let portable = UnlockOptions { backend: Some(BackendChoice::portable()), ..UnlockOptions::default() };
        assert_eq!(made("aes-xts-plain64", &key, &portable), Ok(("portable", false)));
        assert_eq!(made("aes-ctr-plain64", &key[..32], &portable), Ok(("portable", true)));
        let again = UnlockOptions { single_snapshot: true, ..portable.clone() };
        assert_eq!(made("aes-ctr-plain64", &key[..32], &again), Ok(("portable", false)));
        let weak = [7; 64];
        assert_eq!(made("aes-xts-plain64", &weak, &portable), Err(KeyError::EqualXtsHalves));
        let accept = UnlockOptions { allow_equal_xts_halves: true, ..portable };
        assert_eq!(made("aes-xts-plain64", &weak, &accept), Ok(("portable", true)));
        assert_eq!(made("aes-xts-plain64", &key, &accept), Ok(("portable", false)));
    }
}
