//! Adding, changing and removing keyslots, in an order that survives a power loss as well as one header allows.

use atrest_device::{LockMode, Media};
use atrest_kdf::{Hash, calibrate};
use atrest_keyslot::luks1::{self, SALT_LEN, SLOTS, SlotError};
use atrest_secret::{OsRandom, Random};

use super::{Luks1, media, unlock_error};
use crate::lock::MetadataLock;
use crate::{
    ChangeError, Credential, KeyslotOptions, OptionError, Passphrase, PbkdfKind, PbkdfOptions, Priority,
    Relabel, VolumeKey,
};

impl Luks1 {
    /// Adds a keyslot that opens with `new`; returns its number.
    ///
    /// The area is made durable first, then the header lists it. A power loss leaves the keyslot listed and good, or
    /// not listed. (A torn header write can leave keyslot 6 listed with half its salt: it does not open, and was
    /// never acknowledged.)
    ///
    /// # Errors
    /// Fails where [`LockedVolume::add_key`](crate::LockedVolume::add_key) does. LUKS1 has eight keyslots,
    /// and PBKDF2 with the header's hash.
    pub fn add_key(
        &mut self,
        header: &dyn Media,
        existing: Credential<'_>,
        new: &Passphrase,
        options: &KeyslotOptions,
    ) -> Result<u32, ChangeError> {
        self.refresh(header)?;
        self.check_options(options)?;
        let number = self.free_slot(options.slot)?;
        self.check_area(header, number)?;
        let key = match existing {
            Credential::Passphrase(passphrase, slot) => self.volume_key(header, passphrase, slot)?.1,
            Credential::VolumeKey(key) => {
                self.check_key(key)?;
                VolumeKey::copy_from(key.expose())
            }
        };
        let sealed = self.seal(number, new, &options.pbkdf, &key)?;
        let _lock = self.lock_unchanged(header)?;
        self.install(header, &sealed)?;
        Ok(slot_number(number))
    }

    /// Replaces the passphrase `old` by `new`; returns the number of the new keyslot, which is another one.
    ///
    /// The new keyslot is durable before the old one goes, so one of the two passphrases opens at any moment. Each
    /// keyslot of LUKS1 has one area, so this takes a free keyslot, unless `options.slot` names the old keyslot itself. Then
    /// it is overwritten where it is, and a power loss in that moment loses it.
    ///
    /// # Errors
    /// [`ChangeError::NoFreeKeyslot`] with all eight in use. Otherwise it fails where
    /// [`LockedVolume::change_key`](crate::LockedVolume::change_key) does.
    pub fn change_key(
        &mut self,
        header: &dyn Media,
        old: &Passphrase,
        slot: Option<u32>,
        new: &Passphrase,
        options: &KeyslotOptions,
    ) -> Result<u32, ChangeError> {
        self.refresh(header)?;
        self.check_options(options)?;
        let (old_slot, key) = self.volume_key(header, old, slot)?;
        let old_number = old_slot as usize;
        let number = if options.slot == Some(old_slot) { old_number } else { self.free_slot(options.slot)? };
        self.check_area(header, number)?;
        let sealed = self.seal(number, new, &options.pbkdf, &key)?;
        let _lock = self.lock_unchanged(header)?;
        self.install(header, &sealed)?;
        if number != old_number {
            self.destroy(header, old_number)?;
        }
        Ok(slot_number(number))
    }

    /// Removes the keyslot that opens with the passphrase; returns its number. See [`kill_slot`](Self::kill_slot).
    ///
    /// # Errors
    /// Fails where [`LockedVolume::remove_key`](crate::LockedVolume::remove_key) does.
    pub fn remove_key(
        &mut self,
        header: &dyn Media,
        passphrase: &Passphrase,
        last_may_go: bool,
    ) -> Result<u32, ChangeError> {
        self.refresh(header)?;
        let (slot, _) = self.volume_key(header, passphrase, None)?;
        self.check_last(slot, last_may_go)?;
        let _lock = self.lock_unchanged(header)?;
        self.destroy(header, slot as usize)?;
        Ok(slot)
    }

    /// Removes a keyslot by its number.
    ///
    /// Its area is overwritten, which is made durable and verified on the media; only then the header forgets it.
    /// After a power loss it may still be listed, but never opens once the area has gone.
    ///
    /// # Errors
    /// Fails where [`LockedVolume::kill_slot`](crate::LockedVolume::kill_slot) does. [`ChangeError::Option`]
    /// if the keyslot's area is not on the device.
    pub fn kill_slot(&mut self, header: &dyn Media, slot: u32, last_may_go: bool) -> Result<(), ChangeError> {
        self.refresh(header)?;
        if !self.header.is_in_use(slot as usize) {
            return Err(ChangeError::NoSuchKeyslot { slot });
        }
        self.check_last(slot, last_may_go)?;
        self.check_area(header, slot as usize)?;
        let _lock = self.lock_unchanged(header)?;
        self.destroy(header, slot as usize)
    }

    /// Overwrites all eight areas, also those of free keyslots, then lists no keyslot. A power loss leaves some
    /// keyslots that open and some that do not; calling it again goes on.
    ///
    /// # Errors
    /// Fails where [`LockedVolume::erase`](crate::LockedVolume::erase) does. [`ChangeError::Option`] if an
    /// area is not on the device: nothing was written then.
    pub fn erase(&mut self, header: &dyn Media) -> Result<(), ChangeError> {
        self.refresh(header)?;
        for number in 0..SLOTS {
            self.check_area(header, number)?;
        }
        let _lock = self.lock_unchanged(header)?;
        let mut erased = self.header.clone();
        for number in 0..SLOTS {
            if let Some((offset, len)) = erased.area(number) {
                media::wipe(header, offset, len)?;
            }
            erased.free_slot(number);
        }
        media::write_header(header, &erased)?;
        self.header = erased;
        Ok(())
    }

    /// Sets the UUID if one is given. The other names are LUKS2's.
    ///
    /// # Errors
    /// [`ChangeError::NotInFormat`] for a label or subsystem. Otherwise it fails where
    /// [`set_uuid`](Self::set_uuid) does.
    pub fn relabel(&mut self, header: &dyn Media, new: &Relabel<'_>) -> Result<(), ChangeError> {
        if new.label.is_some() || new.subsystem.is_some() {
            return Err(ChangeError::NotInFormat);
        }
        new.uuid.map_or(Ok(()), |uuid| self.set_uuid(header, uuid))
    }

    /// Sets the UUID, which lies in one sector: a power loss leaves the old one or the new one.
    ///
    /// # Errors
    /// [`ChangeError::Option`] if the text is no UUID. Otherwise as all [changes of a
    /// header](crate::LockedVolume::add_key).
    pub fn set_uuid(&mut self, header: &dyn Media, uuid: &str) -> Result<(), ChangeError> {
        crate::uuid::check(uuid)?;
        self.refresh(header)?;
        let _lock = self.lock_unchanged(header)?;
        let mut renamed = self.header.clone();
        renamed.set_uuid(uuid).map_err(|_| OptionError::Uuid)?;
        media::write_header(header, &renamed)?;
        self.header = renamed;
        Ok(())
    }

    /// Rewrites what is damaged from what is intact. A header that could be read is intact: see [`repair`](super::repair).
    ///
    /// # Errors
    /// Fails where [`repair`](super::repair) does.
    pub fn repair(&mut self, header: &dyn Media) -> Result<(), ChangeError> {
        *self = super::repair(header)?;
        Ok(())
    }

    /// Takes over changes that others made since the header was read, as long as it is the same volume.
    fn refresh(&mut self, device: &dyn Media) -> Result<(), ChangeError> {
        let fresh = Self::read(device)?.header;
        if fresh.digest() != self.header.digest() || fresh.digest_salt() != self.header.digest_salt() {
            return Err(ChangeError::ChangedMeanwhile);
        }
        self.header = fresh;
        Ok(())
    }

    /// The exclusive lock, if the header is still what the preparations were made for.
    fn lock_unchanged<'a>(&self, device: &'a dyn Media) -> Result<MetadataLock<'a>, ChangeError> {
        let lock = MetadataLock::take(device, LockMode::Exclusive)?;
        if media::read_header(device)? == self.header { Ok(lock) } else { Err(ChangeError::ChangedMeanwhile) }
    }

    /// The free keyslot that is asked for, or the first one.
    pub(super) fn free_slot(&self, asked: Option<u32>) -> Result<usize, ChangeError> {
        match asked {
            Some(slot) if slot as usize >= SLOTS => {
                Err(OptionError::SlotNumber { slot, count: SLOTS as u32 }.into())
            }
            Some(slot) if self.header.is_in_use(slot as usize) => Err(ChangeError::KeyslotInUse { slot }),
            Some(slot) => Ok(slot as usize),
            None => {
                (0..SLOTS).find(|&number| !self.header.is_in_use(number)).ok_or(ChangeError::NoFreeKeyslot)
            }
        }
    }

    fn check_options(&self, options: &KeyslotOptions) -> Result<(), ChangeError> {
        let hash = self.header.hash().ok_or(crate::UnlockError::UnsupportedHash)?;
        Ok(check_options(options, hash)?)
    }

    fn check_last(&self, slot: u32, last_may_go: bool) -> Result<(), ChangeError> {
        let others = (0..SLOTS).filter(|&number| number != slot as usize && self.header.is_in_use(number));
        if others.count() == 0 && !last_may_go { Err(ChangeError::LastKeyslot { slot }) } else { Ok(()) }
    }

    /// Whether a keyslot's area lies inside the device.
    pub(super) fn check_area(&self, device: &dyn Media, number: usize) -> Result<(), ChangeError> {
        let (offset, len) = self
            .header
            .area(number)
            .ok_or(OptionError::SlotNumber { slot: slot_number(number), count: SLOTS as u32 })?;
        // cannot overflow: sectors are numbers of 32 bits, areas at most 32 MiB.
        let needs = offset.saturating_add(len as u64);
        if needs > device.size() {
            return Err(OptionError::DeviceTooSmall { needs, has: device.size() }.into());
        }
        Ok(())
    }

    /// Everything about a new keyslot, ready to be written. Takes as long as unlocking it will.
    fn seal(
        &self,
        number: usize,
        passphrase: &Passphrase,
        pbkdf: &PbkdfOptions,
        key: &VolumeKey,
    ) -> Result<Sealed, ChangeError> {
        let hash = self.header.hash().ok_or(crate::UnlockError::UnsupportedHash)?;
        let iterations = iterations(pbkdf, hash, key.len());
        Sealed::new(&self.header, number, passphrase, iterations, key)
    }

    /// Writes the area, makes it durable, lists the keyslot.
    fn install(&mut self, device: &dyn Media, sealed: &Sealed) -> Result<(), ChangeError> {
        let mut listed = self.header.clone();
        sealed.list(&mut listed);
        device.write_at(sealed.offset, &sealed.area)?;
        device.flush()?;
        media::write_header(device, &listed)?;
        self.header = listed;
        Ok(())
    }

    /// Wipes the area, verifies that, forgets the keyslot.
    fn destroy(&mut self, device: &dyn Media, number: usize) -> Result<(), ChangeError> {
        let (offset, len) =
            self.header.area(number).ok_or(ChangeError::NoSuchKeyslot { slot: slot_number(number) })?;
        media::wipe(device, offset, len)?;
        let mut forgotten = self.header.clone();
        forgotten.free_slot(number);
        media::write_header(device, &forgotten)?;
        self.header = forgotten;
        Ok(())
    }
}

/// A keyslot in memory: its area as it will be written, and what the header will say.
pub(super) struct Sealed {
    number: usize,
    iterations: u32,
    salt: [u8; SALT_LEN],
    pub(super) offset: u64,
    pub(super) area: Vec<u8>,
}

impl Sealed {
    pub(super) fn new(
        header: &luks1::Header,
        number: usize,
        passphrase: &Passphrase,
        iterations: u32,
        key: &VolumeKey,
    ) -> Result<Self, ChangeError> {
        let slot = slot_number(number);
        let (offset, len) =
            header.area(number).ok_or(OptionError::SlotNumber { slot, count: SLOTS as u32 })?;
        let mut salt = [0; SALT_LEN];
        OsRandom.fill(&mut salt)?;
        // Ciphertext when `seal` returns, and wiped by it when it fails.
        let mut area = vec![0; len];
        luks1::seal(
            header,
            number,
            passphrase.expose(),
            (iterations, &salt),
            key.expose(),
            &mut OsRandom,
            &mut area,
        )
        .map_err(|error| seal_error(error, slot))?;
        Ok(Self { number, iterations, salt, offset, area })
    }

    /// Puts the keyslot into the header.
    pub(super) fn list(&self, header: &mut luks1::Header) {
        // Cannot fail: the number exists and there is at least one iteration, or `new` had failed.
        let _ = header.use_slot(self.number, self.iterations, self.salt);
    }
}

/// What a keyslot error means when a keyslot is made: no credential was wrong, unless the header itself asks for what is not known.
pub(super) fn seal_error(error: SlotError, slot: u32) -> ChangeError {
    match error {
        SlotError::Kdf(error) => error.into(),
        SlotError::Af(error) => error.into(),
        SlotError::Area(error) => ChangeError::Area(error),
        other => ChangeError::Unlock(unlock_error(other, slot)),
    }
}

/// Whether the options are such that LUKS1 has: PBKDF2 with the header's hash, no choice for the area.
pub(super) fn check_options(options: &KeyslotOptions, hash: Hash) -> Result<(), OptionError> {
    let pbkdf = &options.pbkdf;
    if !matches!(pbkdf.kind, None | Some(PbkdfKind::Pbkdf2))
        || pbkdf.hash.is_some_and(|asked| asked != hash)
        || pbkdf.forced_iterations.is_some_and(|forced| forced < calibrate::MIN_PBKDF2_ITERATIONS)
    {
        return Err(OptionError::Pbkdf);
    }
    if options.area_cipher.is_some()
        || options.area_key_len.is_some()
        || options.af_hash.is_some_and(|asked| asked != hash)
        || options.priority != Priority::Normal
    {
        return Err(OptionError::NotInFormat);
    }
    match options.slot {
        Some(slot) if slot as usize >= SLOTS => Err(OptionError::SlotNumber { slot, count: SLOTS as u32 }),
        _ => Ok(()),
    }
}

/// Iterations that were asked for, or as many as take the time that was asked for.
pub(super) fn iterations(pbkdf: &PbkdfOptions, hash: Hash, key_len: usize) -> u32 {
    pbkdf.forced_iterations.unwrap_or_else(|| calibrate::pbkdf2_iterations(hash, key_len, pbkdf.time))
}

fn slot_number(number: usize) -> u32 {
    // cannot fail: there are eight keyslots.
    u32::try_from(number).unwrap_or(u32::MAX)
}
