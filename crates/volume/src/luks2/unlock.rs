//! From a passphrase or a volume key to a volume.

use core::str::FromStr;

use atrest_cipher::{CipherSpec, Mapper, MapperOptions};
use atrest_device::{LockMode, Media};
use atrest_format::luks2::{
    Kdf, Keyslot, KeyslotKind, Priority, Requirement, Segment as FormatSegment, SegmentKind, SegmentSize,
};
use atrest_secret::Locked;

use super::authenticated::{self, Authentication};
use super::pin::PinError;
use super::{Luks2, keyslot};
use crate::convert::{Front, front};
use crate::data_mapper::data_mapper;
use crate::lock::MetadataLock;
use crate::{
    CryptFlags, CryptTarget, Devices, Passphrase, SealedKey, Segment, UnlockError, UnlockOptions, Volume,
    VolumeFormat, VolumeKey,
};

/// Bytes in a block of a sealed volume.
pub(super) const SEALED_BLOCK: u32 = 4096;

/// The fewest iterations of PBKDF2 with which cryptsetup has ever made a keyslot, of LUKS1 as of LUKS2.
const LEAST_ITERATIONS: u32 = 1000;
/// The least work of Argon2, in passes over a KiB: 4 passes over 32 KiB. Early ones of cryptsetup took fewer KiB, and more passes.
const LEAST_WORK: u64 = 4 * 32;

/// Which keyslots may answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Those whose key encrypts the data.
    Data,
    /// All, unbound ones last.
    Any,
}

impl Luks2 {
    /// Unlocks with a passphrase: all keyslots of the data's key, preferred ones first, ignored ones only by number.
    ///
    /// # Errors
    /// Fails where [`LockedVolume::unlock`](crate::LockedVolume::unlock) does.
    pub fn unlock(
        &self,
        devices: Devices<'_>,
        passphrase: &Passphrase,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        self.check_policy(options)?;
        if self.check_usable() == Err(UnlockError::ReencryptionInProgress) {
            self.refuse_pinned_unfinished()?;
            return self.unlock_unfinished(devices, passphrase, options);
        }
        self.check_usable()?;
        self.check_place(devices)?;
        let (slot, key) = self.open_keyslot(devices.header, passphrase, options.slot, Purpose::Data)?;
        self.volume(devices, &key, Some(slot), options)
    }

    /// Unlocks with the volume key, which is checked against the digest.
    ///
    /// # Errors
    /// Fails where [`LockedVolume::unlock_with_key`](crate::LockedVolume::unlock_with_key) does.
    pub fn unlock_with_key(
        &self,
        devices: Devices<'_>,
        key: &VolumeKey,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        self.check_policy(options)?;
        self.check_usable()?;
        self.check_place(devices)?;
        self.check_volume_key(key)?;
        self.volume(devices, key, None, options)
    }

    /// The volume key and the keyslot that held it.
    ///
    /// # Errors
    /// Fails where [`LockedVolume::volume_key`](crate::LockedVolume::volume_key) does.
    pub fn volume_key(
        &self,
        header: &dyn Media,
        passphrase: &Passphrase,
        slot: Option<u32>,
    ) -> Result<(u32, VolumeKey), UnlockError> {
        let (slot, key) = self.volume_key_of_any_header(header, passphrase, slot)?;
        self.check_pin(&key)?;
        Ok((slot, key))
    }

    /// The volume key and the keyslot that held it, also where the header is not as it was pinned: for who shows what was changed.
    ///
    /// # Errors
    /// As [`volume_key`](Self::volume_key), but for the pin.
    pub fn volume_key_of_any_header(
        &self,
        header: &dyn Media,
        passphrase: &Passphrase,
        slot: Option<u32>,
    ) -> Result<(u32, VolumeKey), UnlockError> {
        self.check_usable()?;
        self.open_keyslot(header, passphrase, slot, Purpose::Data)
    }

    /// A pinned header asks for no re-encryption: none begins on it.
    fn refuse_pinned_unfinished(&self) -> Result<(), UnlockError> {
        match self.is_pinned() {
            false => Ok(()),
            true => {
                let fields = vec!["config.requirements: a re-encryption was begun".into()];
                Err(UnlockError::Pin(PinError::Changed { fields }))
            }
        }
    }

    /// The key of any keyslot, unbound ones included, and the keyslot's number.
    ///
    /// # Errors
    /// Fails where [`LockedVolume::test_passphrase`](crate::LockedVolume::test_passphrase) does.
    pub fn keyslot_key(
        &self,
        header: &dyn Media,
        passphrase: &Passphrase,
        slot: Option<u32>,
    ) -> Result<(u32, VolumeKey), UnlockError> {
        self.check_requirements_known()?;
        let (slot, key) = self.open_keyslot(header, passphrase, slot, Purpose::Any)?;
        if self.opens_data(slot) {
            self.check_pin(&key)?;
        }
        Ok((slot, key))
    }

    /// Which keyslot opens with the passphrase; unbound ones count too.
    ///
    /// # Errors
    /// Fails where [`LockedVolume::test_passphrase`](crate::LockedVolume::test_passphrase) does.
    pub fn test_passphrase(
        &self,
        header: &dyn Media,
        passphrase: &Passphrase,
        slot: Option<u32>,
    ) -> Result<u32, UnlockError> {
        self.keyslot_key(header, passphrase, slot).map(|(slot, _)| slot)
    }

    /// Fails if the header asks for something that we don't know. Keyslots can be opened during a re-encryption.
    pub(super) fn check_requirements_known(&self) -> Result<(), UnlockError> {
        let requirements = &self.metadata().config().requirements;
        let names: Vec<String> = requirements
            .iter()
            .filter(|requirement| matches!(requirement, Requirement::Unknown(_)))
            .map(|requirement| requirement.name().into())
            .collect();
        if requirements.contains(&Requirement::InlineHwTags) {
            Err(UnlockError::InlineTags)
        } else if requirements.iter().any(|requirement| matches!(requirement, Requirement::Opal(_))) {
            Err(UnlockError::Opal)
        } else if !names.is_empty() {
            Err(UnlockError::UnsupportedRequirement { names })
        } else {
            Ok(())
        }
    }

    /// Fails if the header asks for something that we don't do.
    pub(super) fn check_usable(&self) -> Result<(), UnlockError> {
        let requirements = &self.metadata().config().requirements;
        if requirements.iter().any(Requirement::is_reencryption) {
            return Err(UnlockError::ReencryptionInProgress);
        }
        self.check_requirements_known()
    }

    /// Checks that no segment of whatever type reaches into the header. Needs no key.
    ///
    /// # Errors
    /// [`UnlockError::DataOverHeader`] if one does.
    pub fn check_place(&self, devices: Devices<'_>) -> Result<(), UnlockError> {
        self.check_counts(devices)?;
        let here = |segment: &&FormatSegment| {
            !segment.is_backup() && !matches!(segment.kind, SegmentKind::Sealed { .. })
        };
        for segment in self.metadata().segments().iter().filter(here) {
            devices.check_apart(self.header_size(), segment.offset, run(segment, devices.data.size()))?;
        }
        Ok(())
    }

    /// Checks that this header counts, if it lies in a file while the volume's own is set aside: an older one would have the data encrypted
    /// twice.
    pub(super) fn check_counts(&self, devices: Devices<'_>) -> Result<(), UnlockError> {
        match !self.is_kept() || front(devices.data, self)? == Front::SetAside {
            true => Ok(()),
            false => Err(UnlockError::NotItsFront),
        }
    }

    /// Checks that `key` is the key of the data.
    ///
    /// # Errors
    /// [`UnlockError::WrongVolumeKey`] if it is not, or if the key derivation of its digest fails.
    pub fn check_volume_key(&self, key: &VolumeKey) -> Result<(), UnlockError> {
        let digest = self.metadata().digest_of_segment(0).ok_or(UnlockError::WrongVolumeKey)?;
        match keyslot::verifies(digest, key)? {
            true => Ok(()),
            false => Err(UnlockError::WrongVolumeKey),
        }
    }

    /// Whether a keyslot's key encrypts the data.
    pub(super) fn opens_data(&self, slot: u32) -> bool {
        let digest = self.metadata().digest_of_keyslot(slot);
        digest.is_some_and(|digest| digest.segments.contains(&0))
    }

    /// Whether a keyslot is left that opens the data.
    pub fn has_keyslot(&self) -> bool {
        let keyslots = self.metadata().keyslots();
        keyslots.iter().any(|slot| matches!(slot.kind, KeyslotKind::Luks2 { .. }) && self.opens_data(slot.id))
    }

    fn open_keyslot(
        &self,
        header: &dyn Media,
        passphrase: &Passphrase,
        slot: Option<u32>,
        purpose: Purpose,
    ) -> Result<(u32, VolumeKey), UnlockError> {
        let order = self.order(slot, purpose)?;
        let mut failure = UnlockError::WrongPassphrase;
        let mut refused = false;
        for candidate in order {
            match self.try_keyslot(header, candidate, passphrase) {
                Ok(key) => return Ok((candidate.id, key)),
                Err(other) => {
                    refused |= other == UnlockError::WrongPassphrase;
                    if severity(&other) > severity(&failure) {
                        failure = other;
                    }
                }
            }
        }
        Err(match failure {
            // Most likely a typing error: a dead keyslot beside an intact one must not send anyone to a backup.
            UnlockError::KeyslotDamaged { slot, .. } if refused => {
                UnlockError::WrongPassphraseOrDamaged { slot }
            }
            other => other,
        })
    }

    /// Keyslots in the order in which they are tried.
    fn order(&self, slot: Option<u32>, purpose: Purpose) -> Result<Vec<&Keyslot>, UnlockError> {
        let usable = |keyslot: &&Keyslot| matches!(keyslot.kind, KeyslotKind::Luks2 { .. });
        if let Some(slot) = slot {
            let keyslot = self.metadata().keyslot(slot).filter(usable);
            let keyslot = keyslot.ok_or(UnlockError::NoSuchKeyslot { slot })?;
            if purpose == Purpose::Data && !self.opens_data(slot) {
                return Err(UnlockError::Unbound { slot });
            }
            return Ok(vec![keyslot]);
        }
        let keyslots = self.metadata().keyslots().iter().filter(usable);
        let mut order: Vec<&Keyslot> = keyslots
            .filter(|keyslot| keyslot.priority != Priority::Ignore)
            .filter(|keyslot| purpose == Purpose::Any || self.opens_data(keyslot.id))
            .collect();
        order.sort_by_key(|keyslot| (!self.opens_data(keyslot.id), keyslot.priority != Priority::Prefer));
        match order.is_empty() {
            true => Err(UnlockError::NoKeyslot),
            false => Ok(order),
        }
    }

    fn try_keyslot(
        &self,
        header: &dyn Media,
        keyslot: &Keyslot,
        passphrase: &Passphrase,
    ) -> Result<VolumeKey, UnlockError> {
        let digest = self.metadata().digest_of_keyslot(keyslot.id).ok_or(UnlockError::UnsupportedType)?;
        check_cost(keyslot)?;
        let candidate = {
            let _lock = MetadataLock::take(header, LockMode::Shared)?;
            keyslot::open(header, keyslot, passphrase)?
        };
        match (keyslot::verifies(digest, &candidate.key)?, candidate.damage) {
            (true, _) => Ok(candidate.key),
            (false, Some(offset)) => Err(UnlockError::KeyslotDamaged { slot: keyslot.id, offset }),
            (false, None) => Err(UnlockError::WrongPassphrase),
        }
    }

    /// Puts the volume together from its segments.
    pub(super) fn volume(
        &self,
        devices: Devices<'_>,
        key: &VolumeKey,
        slot: Option<u32>,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        self.check_by_key(key, options)?;
        let metadata = self.metadata();
        let sealed = match metadata.segments().first().map(|segment| &segment.kind) {
            Some(SegmentKind::Sealed { format }) => Some(*format),
            _ => None,
        };
        match sealed {
            Some(format) if options.sealed => {
                let key = VolumeKey::copy_from(key.expose());
                return Ok(Volume::new(VolumeFormat::Luks2, Vec::new())
                    .with_uuid(self.uuid())
                    .with_keyslot(slot)
                    .with_read_only(options.read_only)
                    .with_sealed(SealedKey { format, key }));
            }
            None if !options.sealed => {}
            _ => return Err(UnlockError::SealedElsewhere),
        }
        let has = devices.data.size();
        let mut segments = Vec::new();
        let mut targets = Vec::new();
        let mut start = 0_u64;
        let mut read_only = options.read_only || devices.data.is_read_only();
        for segment in metadata.segments().iter().filter(|segment| !segment.is_backup()) {
            let SegmentKind::Crypt { encryption, sector_size, iv_tweak, integrity } = &segment.kind else {
                return Err(UnlockError::UnsupportedType);
            };
            // One key for all; several keys only exist during a re-encryption.
            if metadata.digest_of_segment(segment.id) != metadata.digest_of_segment(0) {
                return Err(UnlockError::ReencryptionInProgress);
            }
            let digest = metadata.digest_of_segment(segment.id).map(|digest| digest.id);
            if let Some(integrity) = integrity {
                // cryptsetup makes them with one segment only.
                if metadata.segments().len() > 1 {
                    return Err(UnlockError::UnsupportedType);
                }
                let authentication = Authentication::new(encryption, integrity, key.len())?;
                read_only |= authentication.spec.repeats_nonces() && !options.single_snapshot;
                let place = (segment.offset, *iv_tweak, *sector_size);
                let target = authenticated::target(devices.data, place, &authentication, key)?;
                let protection = authentication.protection(key, (*iv_tweak, *sector_size), options)?;
                let (media_offset, len) = (target.media_offset, target.len);
                segments.push(Segment { start: target.start, len, media_offset, protection });
                if options.keep_key {
                    targets.push(CryptTarget { digest, ..target });
                }
                break;
            }
            let unit = u64::from(*sector_size);
            let len = match segment.size {
                SegmentSize::Fixed(len) => len,
                SegmentSize::Dynamic => {
                    // intended: nothing is there behind the end, which is refused below. A data unit is never 0.
                    let rest = has.saturating_sub(segment.offset);
                    rest.saturating_sub(rest.checked_rem(unit).unwrap_or(0))
                }
            };
            // cannot overflow: rules::segments bounds both, and a dynamic length ends with the device.
            let end = segment.offset.saturating_add(len.max(unit));
            if end > has {
                return Err(UnlockError::DataDeviceTooSmall { needs: end, has });
            }
            let (mapper, weak) = mapper(encryption, key, *sector_size, *iv_tweak, options)?;
            read_only |= weak;
            segments.push(Segment { start, len, media_offset: segment.offset, protection: mapper.into() });
            if options.keep_key {
                targets.push(CryptTarget {
                    start,
                    len,
                    media_offset: segment.offset,
                    cipher: spec(encryption)?.to_string(),
                    key: VolumeKey::copy_from(key.expose()),
                    digest,
                    iv_offset: *iv_tweak,
                    data_unit: *sector_size,
                    iv_large: false,
                    tags: None,
                });
            }
            // cannot overflow: segments do not overlap, and all lie inside the device.
            start = start.saturating_add(len);
        }
        let flags = CryptFlags::from_names(metadata.config().flags.iter().map(String::as_str));
        Ok(Volume::new(VolumeFormat::Luks2, segments)
            .with_uuid(self.uuid())
            .with_keyslot(slot)
            .with_targets(targets)
            .with_flags(flags)
            .with_read_only(read_only))
    }
}

/// Bytes of a segment on a device of this size.
pub(super) fn run(segment: &FormatSegment, device: u64) -> u64 {
    match segment.size {
        SegmentSize::Fixed(len) => len,
        // intended: nothing is behind the end.
        SegmentSize::Dynamic => device.saturating_sub(segment.offset),
    }
}

/// The mapper of a segment, and whether nothing must be written with it.
fn mapper(
    encryption: &str,
    key: &VolumeKey,
    sector_size: u32,
    iv_tweak: u64,
    options: &UnlockOptions,
) -> Result<(Locked<Mapper>, bool), UnlockError> {
    let spec = spec(encryption)?;
    let mapper =
        MapperOptions { data_unit: sector_size as usize, iv_offset: iv_tweak, ..MapperOptions::default() };
    Ok(data_mapper(&spec, key, options, mapper)?)
}

fn spec(encryption: &str) -> Result<CipherSpec, UnlockError> {
    CipherSpec::from_str(encryption).map_err(UnlockError::UnsupportedCipher)
}

/// Fails for a derivation that is cheaper than cryptsetup lets anybody choose: somebody else has written it.
fn check_cost(keyslot: &Keyslot) -> Result<(), UnlockError> {
    let KeyslotKind::Luks2 { kdf, .. } = &keyslot.kind else { return Ok(()) };
    if is_too_cheap(kdf) { Err(UnlockError::TooCheap { slot: keyslot.id }) } else { Ok(()) }
}

fn is_too_cheap(kdf: &Kdf) -> bool {
    match kdf {
        Kdf::Pbkdf2 { iterations, .. } => *iterations < LEAST_ITERATIONS,
        Kdf::Argon2i(cost) | Kdf::Argon2id(cost) => {
            let work = u64::from(cost.time).checked_mul(cost.memory_kib.into());
            work.is_some_and(|work| work < LEAST_WORK)
        }
        Kdf::Unknown(_) => false,
    }
}

/// Of several keyslots' failures the one that a person should hear of.
fn severity(error: &UnlockError) -> u8 {
    match error {
        UnlockError::WrongPassphrase => 0,
        UnlockError::KeyslotDamaged { .. } => 1,
        UnlockError::Device(_) => 3,
        UnlockError::NotEnoughMemory { .. } => 4,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use atrest_format::luks2::{Argon2, SALT_LEN};

    use super::*;

    #[test]
    fn a_segment_reaches_as_far_as_it_says_or_to_the_end_of_its_device() {
        let segment =
            |size| FormatSegment { id: 0, offset: 4096, size, flags: Vec::new(), kind: SegmentKind::Linear };
        assert_eq!(run(&segment(SegmentSize::Fixed(512)), 8192), 512);
        let dynamic = [0, 4095, 4096, 4608, 8192].map(|device| run(&segment(SegmentSize::Dynamic), device));
        assert_eq!(dynamic, [0, 0, 0, 512, 4096]);
    }

    #[test]
    fn what_a_person_can_do_something_about_outweighs_a_wrong_passphrase() {
        let lost = UnlockError::KeyslotDamaged { slot: 0, offset: 0 };
        let memory = UnlockError::NotEnoughMemory { needs: 1, has: 0 };
        let device =
            atrest_device::DeviceError::new(atrest_device::Operation::Read, 0, 0, atrest_device::Cause::Gone);
        let all = [
            UnlockError::WrongPassphrase,
            lost,
            UnlockError::UnsupportedHash,
            UnlockError::Device(device),
            memory,
        ];
        assert_eq!(all.map(|error| severity(&error)), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_cheapest_keyslots_of_cryptsetup_are_tried_and_cheaper_ones_are_not() {
        let salt = [0; SALT_LEN];
        let pbkdf2 = |iterations| is_too_cheap(&Kdf::Pbkdf2 { hash: "sha256".into(), iterations, salt });
        assert_eq!([999, 1000].map(pbkdf2), [true, false]);
        let argon2 = |(time, memory_kib)| {
            let cost = Argon2 { time, memory_kib, lanes: 1, salt };
            let [one, other] =
                [Kdf::Argon2i(cost.clone()), Kdf::Argon2id(cost)].map(|kdf| is_too_cheap(&kdf));
            assert_eq!(one, other);
            one
        };
        // The last but one is that of an image in cryptsetup's tests.
        let costs = [(4, 31), (3, 32), (1, 8), (4, 32), (208, 16), (u32::MAX, u32::MAX)];
        assert_eq!(costs.map(argon2), [true, true, true, false, false, false]);
    }
}
