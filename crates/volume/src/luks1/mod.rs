//! LUKS1 volumes (LUKS On-Disk Format Specification 1.2.3).
//!
//! The format has one header and no checksum, so it can't promise what LUKS2 can; the order of writes here gets out
//! of it what there is. Each function says what a power loss in its middle leaves, on media that write a 512-byte
//! sector whole or not at all. docs/FORMATS.md has the whole table.

mod backup;
mod change;
mod create;
mod info;
pub(crate) mod media;

use atrest_cipher::{KeyError, MapperOptions};
use atrest_device::{LockMode, Media, SECTOR_SIZE};
use atrest_kdf::KdfError;
use atrest_keyslot::luks1::{self, Header, SlotError};
use atrest_secret::SecretBytes;

pub use backup::{header_backup, header_restore, repair};
pub use create::format;

use crate::data_mapper::data_mapper;
use crate::lock::MetadataLock;
use crate::{
    CryptTarget, Devices, Info, OpenError, Passphrase, Segment, UnlockError, UnlockOptions, Volume,
    VolumeFormat, VolumeKey,
};

/// A LUKS1 header that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Luks1 {
    header: Header,
}

impl Luks1 {
    /// Reads the header under a shared lock.
    ///
    /// # Errors
    /// [`OpenError::NotLuks`], [`OpenError::UnknownVersion`] or [`OpenError::Luks1`] if there is no LUKS1
    /// header that can be used, [`OpenError::Device`] if reading fails.
    pub fn read(header: &dyn Media) -> Result<Self, OpenError> {
        let _lock = MetadataLock::take(header, LockMode::Shared)?;
        Ok(Self { header: media::read_header(header)? })
    }

    /// UUID.
    pub fn uuid(&self) -> &str {
        self.header.uuid()
    }

    /// Everything that the header says.
    pub fn info(&self) -> Info {
        info::info(&self.header)
    }

    /// Checks that the data can be where the header says. Needs no key.
    ///
    /// # Errors
    /// [`UnlockError::DataOverHeader`] if the data would lie over the header,
    /// [`UnlockError::DataDeviceTooSmall`] if the device ends before it begins.
    pub fn check_place(&self, devices: Devices<'_>) -> Result<(), UnlockError> {
        self.data_place(devices).map(drop)
    }

    /// Unlocks with a passphrase.
    ///
    /// # Errors
    /// Fails where [`LockedVolume::unlock`](crate::LockedVolume::unlock) does.
    pub fn unlock(
        &self,
        devices: Devices<'_>,
        passphrase: &Passphrase,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        let place = self.data_place(devices)?;
        let (slot, key) = self.volume_key(devices.header, passphrase, options.slot)?;
        Ok(self.open(place, &key, options)?.with_keyslot(Some(slot)))
    }

    /// Unlocks with the volume key, which is checked against the header's digest.
    ///
    /// # Errors
    /// [`UnlockError::WrongVolumeKey`] if the header's digest is of another key, and what
    /// [`check_place`](Self::check_place) finds. [`UnlockError::UnsupportedCipher`] or [`UnlockError::Key`]
    /// if this build can't use it.
    pub fn unlock_with_key(
        &self,
        devices: Devices<'_>,
        key: &VolumeKey,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        let place = self.data_place(devices)?;
        self.check_key(key)?;
        self.open(place, key, options)
    }

    /// The volume key and the number of the keyslot that held it. All keyslots are tried if `slot` is `None`; a
    /// keyslot whose area can't be read does not keep the others from being tried.
    ///
    /// # Errors
    /// [`UnlockError::WrongPassphrase`] if no keyslot opens with it,
    /// [`UnlockError::WrongPassphraseOrDamaged`] if one that might is damaged.
    /// [`UnlockError::KeyslotDamaged`], [`UnlockError::Device`] or [`UnlockError::Kdf`] with the first
    /// keyslot that could not be tried. [`UnlockError::NoSuchKeyslot`] or [`UnlockError::NoKeyslot`] if there
    /// is none to try.
    pub fn volume_key(
        &self,
        header: &dyn Media,
        passphrase: &Passphrase,
        slot: Option<u32>,
    ) -> Result<(u32, VolumeKey), UnlockError> {
        let candidates = match slot {
            Some(slot) => slot..=slot,
            None => 0..=luks1::SLOTS as u32,
        };
        let mut failure = None;
        let (mut tried, mut refused) = (false, false);
        for number in candidates.filter(|&number| self.header.is_in_use(number as usize)) {
            tried = true;
            match self.try_slot(header, number, passphrase) {
                Ok(key) => return Ok((number, key)),
                Err(UnlockError::WrongPassphrase) => refused = true,
                // Another keyslot may open.
                Err(
                    error @ (UnlockError::KeyslotDamaged { .. }
                    | UnlockError::Device(_)
                    | UnlockError::Kdf(KdfError::TooMuchWork { .. })),
                ) => {
                    failure.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(match (failure, tried, slot) {
            // Most likely a typing error: a dead keyslot beside an intact one must not send anyone to a backup.
            (Some(UnlockError::KeyslotDamaged { slot, .. }), ..) if refused => {
                UnlockError::WrongPassphraseOrDamaged { slot }
            }
            (Some(failure), ..) => failure,
            (None, true, _) => UnlockError::WrongPassphrase,
            (None, false, Some(slot)) => UnlockError::NoSuchKeyslot { slot },
            (None, false, None) => UnlockError::NoKeyslot,
        })
    }

    /// The number of a keyslot that opens with the passphrase.
    ///
    /// # Errors
    /// Fails where [`volume_key`](Self::volume_key) does.
    pub fn test_passphrase(
        &self,
        header: &dyn Media,
        passphrase: &Passphrase,
        slot: Option<u32>,
    ) -> Result<u32, UnlockError> {
        self.volume_key(header, passphrase, slot).map(|(slot, _)| slot)
    }

    fn try_slot(
        &self,
        device: &dyn Media,
        slot: u32,
        passphrase: &Passphrase,
    ) -> Result<VolumeKey, UnlockError> {
        let number = slot as usize;
        let (offset, len) = self.header.area(number).ok_or(UnlockError::NoSuchKeyslot { slot })?;
        // cannot overflow: sectors are numbers of 32 bits, areas at most 32 MiB.
        if offset.saturating_add(len as u64) > device.size() {
            return Err(UnlockError::KeyslotDamaged { slot, offset: device.size() });
        }
        let mut area = SecretBytes::zeroed(len);
        {
            let _lock = MetadataLock::take(device, LockMode::Shared)?;
            device.read_at(offset, &mut area)?;
        }
        let damage = media::repeated_byte(&area);
        let mut key = SecretBytes::zeroed(self.header.key_len());
        match luks1::open(&self.header, number, passphrase.expose(), &mut area, &mut key) {
            Ok(()) => Ok(VolumeKey::new(key)),
            Err(SlotError::WrongKey) => Err(match damage {
                // cannot overflow: a place inside the area.
                Some(at) => UnlockError::KeyslotDamaged { slot, offset: offset.saturating_add(at) },
                None => UnlockError::WrongPassphrase,
            }),
            Err(error) => Err(unlock_error(error, slot)),
        }
    }

    fn check_key(&self, key: &VolumeKey) -> Result<(), UnlockError> {
        luks1::check_key(&self.header, key.expose()).map_err(|error| match error {
            SlotError::WrongKey | SlotError::BufferLen { .. } => UnlockError::WrongVolumeKey,
            other => unlock_error(other, 0),
        })
    }

    /// First byte and length of the data on its device.
    fn data_place(&self, devices: Devices<'_>) -> Result<(u64, u64), UnlockError> {
        // cannot overflow: a number of 32 bits times 512.
        let start = u64::from(self.header.data_sector()).saturating_mul(SECTOR_SIZE);
        let has = devices.data.size();
        // intended: no sectors behind the end, which is refused below.
        let len = has.saturating_sub(start);
        devices.check_apart(self.header.areas_end(), start, len)?;
        let sectors = len / SECTOR_SIZE;
        if sectors == 0 {
            // cannot overflow: a number of 32 bits times 512 before it.
            return Err(UnlockError::DataDeviceTooSmall { needs: start.saturating_add(SECTOR_SIZE), has });
        }
        // cannot overflow: whole sectors of the device.
        Ok((start, sectors.saturating_mul(SECTOR_SIZE)))
    }

    fn open(
        &self,
        (media_offset, len): (u64, u64),
        key: &VolumeKey,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        let cipher = self.header.cipher().map_err(UnlockError::UnsupportedCipher)?;
        if cipher.is_null() {
            return Err(UnlockError::Key(KeyError::NullCipher));
        }
        let (mapper, weak) = data_mapper(&cipher, key, options, MapperOptions::default())?;
        let segment = Segment { start: 0, len, media_offset, protection: mapper.into() };
        let target = options.keep_key.then(|| CryptTarget {
            start: 0,
            len,
            media_offset,
            cipher: cipher.to_string(),
            key: VolumeKey::copy_from(key.expose()),
            digest: None,
            iv_offset: 0,
            data_unit: 512,
            iv_large: false,
            tags: None,
        });
        Ok(Volume::new(VolumeFormat::Luks1, vec![segment])
            .with_uuid(self.uuid())
            .with_targets(target.into_iter().collect())
            .with_read_only(options.read_only || weak))
    }
}

/// What a keyslot error means when a volume is unlocked.
fn unlock_error(error: SlotError, slot: u32) -> UnlockError {
    match error {
        SlotError::NotInUse => UnlockError::NoSuchKeyslot { slot },
        SlotError::UnsupportedHash => UnlockError::UnsupportedHash,
        SlotError::UnsupportedCipher(error) => UnlockError::UnsupportedCipher(error),
        SlotError::NullCipher => UnlockError::Key(KeyError::NullCipher),
        SlotError::KeyLenForCipher { bytes } => UnlockError::Key(KeyError::Length { len: bytes }),
        SlotError::Kdf(error) => error.into(),
        SlotError::Af(error) => error.into(),
        SlotError::Area(error) => error.into(),
        SlotError::WrongKey => UnlockError::WrongPassphrase,
        // Buffers have the lengths that the header says.
        _ => UnlockError::UnsupportedType,
    }
}

#[cfg(test)]
mod tests {
    use atrest_keyslot::af::AfError;
    use atrest_keyslot::area::AreaError;
    use atrest_testkit::FaultDevice;

    use super::*;
    use crate::{ChangeError, OptionError};

    fn volume() -> Luks1 {
        let header = Header::new(&luks1::HeaderParts {
            cipher_name: "aes",
            cipher_mode: "cbc-essiv:sha256",
            hash: atrest_kdf::Hash::Sha256,
            key_len: 16,
            uuid: "01234567-89ab-4def-8123-456789abcdef",
            data_sector: Some(0),
            alignment: 1,
            digest: [1; 20],
            digest_salt: [2; 32],
            digest_iterations: 1000,
        });
        Luks1 { header: header.expect("a header") }
    }

    #[test]
    fn a_new_keyslot_is_one_of_eight_and_free() {
        let mut volume = volume();
        volume.header.use_slot(0, 1000, [3; 32]).expect("a slot");
        assert_eq!((volume.free_slot(None), volume.free_slot(Some(7))), (Ok(1), Ok(7)));
        assert_eq!(volume.free_slot(Some(0)), Err(ChangeError::KeyslotInUse { slot: 0 }));
        for slot in [8, u32::MAX] {
            let number = OptionError::SlotNumber { slot, count: 8 };
            assert_eq!(volume.free_slot(Some(slot)), Err(number.into()));
        }
        (1..8).for_each(|slot| volume.header.use_slot(slot, 1000, [3; 32]).expect("a slot"));
        assert_eq!(volume.free_slot(None), Err(ChangeError::NoFreeKeyslot));
    }

    #[test]
    fn what_a_keyslot_can_not_have_is_refused_before_it_is_derived() {
        use crate::{KeyslotOptions, PbkdfOptions, Priority};
        let check = |options: &KeyslotOptions| change::check_options(options, atrest_kdf::Hash::Sha256);
        let slot = |slot: u32| KeyslotOptions { slot: Some(slot), ..KeyslotOptions::default() };
        let forced = |iterations: u32| KeyslotOptions {
            pbkdf: PbkdfOptions { forced_iterations: Some(iterations), ..PbkdfOptions::default() },
            ..KeyslotOptions::default()
        };
        assert_eq!((check(&slot(7)), check(&forced(1000))), (Ok(()), Ok(())));
        for number in [8, u32::MAX] {
            assert_eq!(check(&slot(number)), Err(OptionError::SlotNumber { slot: number, count: 8 }));
        }
        assert_eq!(check(&forced(999)), Err(OptionError::Pbkdf));
        let preferred = KeyslotOptions { priority: Priority::Prefer, ..KeyslotOptions::default() };
        assert_eq!(check(&preferred), Err(OptionError::NotInFormat));
    }

    #[test]
    fn the_area_of_a_keyslot_may_end_with_its_device() {
        let volume = volume();
        let (offset, len) = volume.header.area(3).expect("an area");
        let needs = offset + len as u64;
        let check = |size: u64| volume.check_area(&FaultDevice::zeroed(size as usize), 3);
        assert_eq!((check(needs), check(needs + 1)), (Ok(()), Ok(())));
        let small = OptionError::DeviceTooSmall { needs, has: needs - 1 };
        assert_eq!(check(needs - 1), Err(small.into()));
    }

    #[test]
    fn a_keyslot_that_cannot_be_made_is_no_credential_that_is_wrong() {
        use atrest_secret::RandomError;
        for (error, expected) in [
            (SlotError::Kdf(KdfError::Cancelled), ChangeError::Kdf(KdfError::Cancelled)),
            (
                SlotError::Kdf(KdfError::NotEnoughMemory { needs: 2, has: 1 }),
                ChangeError::NotEnoughMemory { needs: 2, has: 1 },
            ),
            (SlotError::Af(AfError::TooLarge), ChangeError::Af(AfError::TooLarge)),
            (SlotError::Af(AfError::Random(RandomError)), ChangeError::Random(RandomError)),
            (SlotError::Area(AreaError::NullCipher), ChangeError::Area(AreaError::NullCipher)),
            (SlotError::UnsupportedHash, ChangeError::Unlock(UnlockError::UnsupportedHash)),
        ] {
            assert_eq!(change::seal_error(error, 5), expected);
        }
    }

    #[test]
    fn the_failure_of_a_keyslot_keeps_its_name() {
        let length = KeyError::Length { len: 17 };
        let spec = || "of-tomorrow-x".parse::<atrest_cipher::CipherSpec>().expect_err("unknown");
        for (error, expected) in [
            (SlotError::NotInUse, UnlockError::NoSuchKeyslot { slot: 5 }),
            (SlotError::UnsupportedHash, UnlockError::UnsupportedHash),
            (SlotError::UnsupportedCipher(spec()), UnlockError::UnsupportedCipher(spec())),
            (SlotError::NullCipher, UnlockError::Key(KeyError::NullCipher)),
            (SlotError::KeyLenForCipher { bytes: 17 }, UnlockError::Key(length)),
            (SlotError::Kdf(KdfError::NoIterations), UnlockError::Kdf(KdfError::NoIterations)),
            (
                SlotError::Kdf(KdfError::NotEnoughMemory { needs: 2, has: 1 }),
                UnlockError::NotEnoughMemory { needs: 2, has: 1 },
            ),
            (SlotError::Af(AfError::TooLarge), UnlockError::Af(AfError::TooLarge)),
            (SlotError::Area(AreaError::Key(length)), UnlockError::Key(length)),
            (SlotError::Area(AreaError::NullCipher), UnlockError::Area(AreaError::NullCipher)),
            (SlotError::WrongKey, UnlockError::WrongPassphrase),
            (SlotError::BufferLen { has: 1, needs: 2 }, UnlockError::UnsupportedType),
        ] {
            assert_eq!(unlock_error(error, 5), expected);
        }
    }
}
