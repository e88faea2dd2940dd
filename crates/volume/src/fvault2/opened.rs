//! From a password to the keys of the data, and the data.

use atrest_cipher::{CipherSpec, MapperOptions};
use atrest_format::fvault2::{HEADER_LEN, KEY_LEN, WrappedKek};
use atrest_kdf::{Hash, digest, pbkdf2};
use atrest_keyslot::wrap::{WrapError, unwrap};
use atrest_secret::{SecretArray, SecretBytes};

use super::{FileVaultError, LockedFileVault};
use crate::data_mapper::data_mapper;
use crate::{CryptTarget, Passphrase, Segment, UnlockError, UnlockOptions, Volume, VolumeFormat, VolumeKey};

const CIPHER: &str = "aes-xts-plain64";

impl LockedFileVault {
    /// The keys of the data, opened by a password or a recovery key (with its dashes); of the user with the number `only`, if it is given.
    ///
    /// # Errors
    /// [`UnlockError::NoSuchKeyslot`] if there is no such user, [`FileVaultError::NotOpened`] if none opens, [`UnlockError::Kdf`] if a derivation is cancelled or takes too long.
    pub fn unlock(&self, password: &Passphrase, only: Option<u32>) -> Result<VolumeKey, UnlockError> {
        let all = self.context.keks.iter().zip(0_u32..);
        let keks: Vec<_> = all.filter(|(_, user)| only.is_none_or(|only| only == *user)).collect();
        if let Some(slot) = only.filter(|_| keks.is_empty()) {
            return Err(UnlockError::NoSuchKeyslot { slot });
        }
        for (kek, _) in &keks {
            let Some(kek) = opened(kek, password)? else { continue };
            for wrapped in &self.context.keys {
                let mut key = SecretArray::<KEY_LEN>::zeroed();
                match unwrap(&*kek, wrapped, &mut *key) {
                    Ok(()) => return Ok(self.with_tweak_key(&key)),
                    Err(WrapError::Check) => {}
                    // cannot happen: the lengths are those of the format.
                    Err(_) => return Err(UnlockError::UnsupportedType),
                }
            }
        }
        Err(FileVaultError::NotOpened { users: keks.len() }.into())
    }

    /// The tweak key is a hash of the data's key and of the volume's family.
    fn with_tweak_key(&self, key: &[u8; KEY_LEN]) -> VolumeKey {
        let mut both = SecretBytes::zeroed(32);
        if let Some((data, tweak)) = both.split_at_mut_checked(KEY_LEN) {
            data.copy_from_slice(key);
            digest(Hash::Sha256, &[key, &self.volume.family.0], tweak);
        }
        VolumeKey::new(both)
    }

    /// Checks what can be checked without a key.
    ///
    /// # Errors
    /// [`FileVaultError::Conversion`] for a volume that is not encrypted as a whole, [`FileVaultError::Extents`] if its data can't be where the
    /// metadata says.
    pub fn check(&self, device: u64) -> Result<(), UnlockError> {
        if let Some(status) = self.context.conversion.as_ref().filter(|status| *status != "Complete") {
            return Err(FileVaultError::Conversion(status.clone()).into());
        }
        self.pieces(device).map(|_| ()).ok_or(FileVaultError::Extents.into())
    }

    /// Where the data is: start, length and place of each piece. `None` unless they follow one another, on this device.
    fn pieces(&self, device: u64) -> Option<Vec<(u64, u64, u64)>> {
        let block = u64::from(self.header.block_size);
        let mut extents = self.extents.clone();
        extents.sort_unstable_by_key(|extent| extent.logical);
        let (mut pieces, mut end) = (Vec::new(), 0_u64);
        for extent in extents {
            let (start, place) = (extent.logical.checked_mul(block)?, extent.physical.checked_mul(block)?);
            let left = self.volume.size.checked_sub(end)?;
            let len = extent.blocks.checked_mul(block)?.min(left);
            let behind = place.checked_add(len)?;
            if extent.volume != 0 || start != end || behind > device.min(self.header.size) {
                return None;
            }
            if len > 0 {
                pieces.push((start, len, place));
            }
            end = end.checked_add(len)?;
        }
        let mut used: Vec<_> = pieces.iter().map(|(_, len, place)| (*place, *len)).collect();
        used.extend(self.reserved()?);
        used.sort_unstable();
        let apart = used
            .array_windows()
            .all(|[(place, len), (next, _)]| place.checked_add(*len).is_some_and(|end| end <= *next));
        (apart && end == self.volume.size && end.is_multiple_of(512)).then_some(pieces)
    }

    /// What data must not lie over, as writing it would end the volume: first byte and length of the header, of each copy of the metadata
    /// in clear, and of the encrypted metadata, none of them twice.
    fn reserved(&self) -> Option<Vec<(u64, u64)>> {
        let mut copies = self.header.copies;
        copies.sort_unstable();
        let mut reserved = vec![(0, HEADER_LEN as u64), self.metadata];
        let mut before = 0;
        for copy in copies {
            // What is not used is 0.
            if copy != before {
                let place = copy.checked_mul(self.header.block_size.into())?;
                reserved.push((place, self.header.copy_len.into()));
            }
            before = copy;
        }
        Some(reserved)
    }

    /// The volume on a device of so many bytes.
    ///
    /// # Errors
    /// What [`check`](Self::check) fails with; [`FileVaultError::KeyLen`] or [`UnlockError::Key`] for keys that can't be used.
    pub fn volume(
        &self,
        key: &VolumeKey,
        device: u64,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        self.check(device)?;
        if key.len() != 2 * KEY_LEN {
            return Err(FileVaultError::KeyLen { has: key.len() }.into());
        }
        let spec: CipherSpec = CIPHER.parse().map_err(UnlockError::UnsupportedCipher)?;
        let (mut segments, mut targets, mut weak) = (Vec::new(), Vec::new(), false);
        for (start, len, media_offset) in self.pieces(device).ok_or(FileVaultError::Extents)? {
            let numbering = MapperOptions { iv_offset: start / 512, ..MapperOptions::default() };
            let (mapper, for_reading) =
                data_mapper(&spec, key, options, numbering).map_err(UnlockError::Key)?;
            weak |= for_reading;
            segments.push(Segment { start, len, media_offset, protection: mapper.into() });
            if options.keep_key {
                targets.push(CryptTarget {
                    start,
                    len,
                    media_offset,
                    cipher: CIPHER.into(),
                    key: VolumeKey::copy_from(key.expose()),
                    digest: None,
                    iv_offset: start / 512,
                    data_unit: 512,
                    iv_large: false,
                    tags: None,
                });
            }
        }
        Ok(Volume::new(VolumeFormat::FileVault, segments)
            .with_uuid(self.volume.family.to_string())
            .with_targets(targets)
            .with_read_only(options.read_only || weak))
    }
}

/// A key of keys; `None` if the password is of another one.
fn opened(kek: &WrappedKek, password: &Passphrase) -> Result<Option<SecretArray<KEY_LEN>>, UnlockError> {
    let mut derived = SecretArray::<KEY_LEN>::zeroed();
    pbkdf2(Hash::Sha256, password.expose(), &kek.salt, kek.iterations, &mut *derived)?;
    let mut key = SecretArray::<KEY_LEN>::zeroed();
    match unwrap(&*derived, &kek.wrapped, &mut *key) {
        Ok(()) => Ok(Some(key)),
        Err(WrapError::Check) => Ok(None),
        // cannot happen: the lengths are those of the format.
        Err(_) => Err(UnlockError::UnsupportedType),
    }
}
