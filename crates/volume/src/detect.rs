//! Which format a device holds, and one face for the operations that LUKS1 and LUKS2 share.

use atrest_device::Media;

use crate::{
    ChangeError, Credential, Devices, FormatError, FormatOptions, Info, KeyslotOptions, OpenError,
    Passphrase, Priority, Relabel, RestoreOptions, UnlockError, UnlockOptions, Volume, VolumeFormat,
    VolumeKey, luks1, luks2,
};

/// A volume of which the header was read, but whose key is not known.
#[derive(Debug)]
pub enum LockedVolume {
    /// LUKS version 1.
    Luks1(luks1::Luks1),
    /// LUKS version 2.
    Luks2(luks2::Luks2),
}

/// Sends a call to whatever format it is.
macro_rules! each {
    ($volume:expr, $inner:ident => $call:expr) => {
        match $volume {
            LockedVolume::Luks1($inner) => $call,
            LockedVolume::Luks2($inner) => $call,
        }
    };
}

impl LockedVolume {
    /// Reads the header on `header` under a shared lock. Writes nothing, also when a copy is damaged.
    ///
    /// # Errors
    /// [`OpenError::NotLuks`] or [`OpenError::UnknownVersion`] if there is no LUKS header,
    /// [`OpenError::Luks1`] or [`OpenError::Luks2`] with what is wrong if no copy of it can be used,
    /// [`OpenError::Device`] if reading fails.
    pub fn read(header: &dyn Media) -> Result<Self, OpenError> {
        match version(header) {
            Some(1) => luks1::Luks1::read(header).map(Self::Luks1),
            // A LUKS2 header whose first copy is destroyed has no magic at byte 0.
            Some(2) | None => luks2::Luks2::read(header).map(Self::Luks2),
            Some(version) => Err(OpenError::UnknownVersion { version }),
        }
    }

    /// Format.
    pub fn format(&self) -> VolumeFormat {
        match self {
            Self::Luks1(_) => VolumeFormat::Luks1,
            Self::Luks2(_) => VolumeFormat::Luks2,
        }
    }

    /// UUID.
    pub fn uuid(&self) -> &str {
        each!(self, volume => volume.uuid())
    }

    /// Everything that the header says.
    pub fn info(&self) -> Info {
        each!(self, volume => volume.info())
    }

    /// Checks that the data can be where the header says, and not over the header itself. Needs no key, so that it can be
    /// told before one is asked for. Unlocking checks it again.
    ///
    /// # Errors
    /// [`UnlockError::DataOverHeader`] if the data would lie over the header. For LUKS1 also
    /// [`UnlockError::DataDeviceTooSmall`] if the device ends before the data begins.
    pub fn check_place(&self, devices: Devices<'_>) -> Result<(), UnlockError> {
        each!(self, volume => volume.check_place(devices))
    }

    /// Unlocks with a passphrase. Takes the memory and time that the keyslots ask for.
    ///
    /// [`UnlockError::ReencryptionInProgress`], [`UnlockError::UnsupportedRequirement`],
    /// [`UnlockError::Opal`], [`UnlockError::InlineTags`] and the other `Unsupported` variants if this program
    /// can't serve the volume. What [`check_place`](Self::check_place) finds, and [`UnlockError::DataDeviceTooSmall`].
    ///
    /// # Errors
    /// [`UnlockError::WrongPassphrase`] if no keyslot opens with it, [`UnlockError::WrongPassphraseOrDamaged`] if one
    /// that might is damaged. [`UnlockError::KeyslotDamaged`], [`UnlockError::Kdf`], [`UnlockError::NotEnoughMemory`]
    /// or [`UnlockError::Device`] if a keyslot could not be tried, and no other one opens.
    /// [`UnlockError::NoSuchKeyslot`], [`UnlockError::Unbound`] or [`UnlockError::NoKeyslot`] if there is none to try.
    ///
    /// [`UnlockError::ReencryptionInProgress`], [`UnlockError::UnsupportedRequirement`],
    /// [`UnlockError::Opal`], [`UnlockError::InlineTags`] and the other `Unsupported` variants if this program
    /// can't serve the volume. What [`check_place`](Self::check_place) finds, and [`UnlockError::DataDeviceTooSmall`].
    pub fn unlock(
        &self,
        devices: Devices<'_>,
        passphrase: &Passphrase,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        self.check_expected(options)?;
        each!(self, volume => volume.unlock(devices, passphrase, options))
    }

    /// Unlocks with the volume key itself.
    ///
    /// # Errors
    /// [`UnlockError::WrongVolumeKey`] if the header's digest is of another key. Otherwise it fails where
    /// [`unlock`](Self::unlock) does, keyslots aside.
    pub fn unlock_with_key(
        &self,
        devices: Devices<'_>,
        key: &VolumeKey,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        self.check_expected(options)?;
        each!(self, volume => volume.unlock_with_key(devices, key, options))
    }

    /// Fails for what only a LUKS2 header answers, if this is none: an attacker may have put LUKS1 in its place.
    fn check_expected(&self, options: &UnlockOptions) -> Result<(), UnlockError> {
        match self {
            Self::Luks1(_) if options.expects() => Err(UnlockError::Pin(luks2::PinError::NotLuks2)),
            _ => Ok(()),
        }
    }

    /// The volume key and the keyslot that held it.
    ///
    /// # Errors
    /// What [`unlock`](Self::unlock) fails with before it looks at the data.
    pub fn volume_key(
        &self,
        header: &dyn Media,
        passphrase: &Passphrase,
        slot: Option<u32>,
    ) -> Result<(u32, VolumeKey), UnlockError> {
        each!(self, volume => volume.volume_key(header, passphrase, slot))
    }

    /// Which keyslot opens with the passphrase; unbound keyslots count too.
    ///
    /// # Errors
    /// What [`unlock`](Self::unlock) fails with before it looks at the data, but for [`UnlockError::Unbound`]
    /// and [`UnlockError::ReencryptionInProgress`].
    pub fn test_passphrase(
        &self,
        header: &dyn Media,
        passphrase: &Passphrase,
        slot: Option<u32>,
    ) -> Result<u32, UnlockError> {
        each!(self, volume => volume.test_passphrase(header, passphrase, slot))
    }

    /// Adds a keyslot that opens with `new`. Returns its number.
    ///
    /// # Errors
    /// Before anything is written: [`ChangeError::Unlock`] if `existing` does not open the volume, or the
    /// header asks for what is not known here, [`ChangeError::NoFreeKeyslot`], [`ChangeError::KeyslotInUse`],
    /// [`ChangeError::NoRoomForKeyslot`] or [`ChangeError::MetadataFull`] if there is no place,
    /// [`ChangeError::Option`] for options that the format does not have, [`ChangeError::Kdf`] or
    /// [`ChangeError::NotEnoughMemory`] for a cost that this machine can't pay.
    /// [`ChangeError::ChangedMeanwhile`] if another volume's header is there by now, [`ChangeError::Open`] if
    /// none is.
    ///
    /// [`ChangeError::Device`] if the device fails. The volume then opens as before, and perhaps with `new`.
    /// All changes of a header can fail with [`ChangeError::ChangedMeanwhile`], [`ChangeError::Open`] and
    /// [`ChangeError::Device`].
    pub fn add_key(
        &mut self,
        header: &dyn Media,
        existing: Credential<'_>,
        new: &Passphrase,
        options: &KeyslotOptions,
    ) -> Result<u32, ChangeError> {
        each!(self, volume => volume.add_key(header, existing, new, options))
    }

    /// Replaces the passphrase `old` by `new`, the new keyslot durable before the old one goes. Returns the number
    /// of the keyslot that opens with `new`: the old one's in LUKS2, a free one in LUKS1, unless `options.slot` names another.
    ///
    /// # Errors
    /// Fails where [`add_key`](Self::add_key) does, and leaves `old` then. [`ChangeError::WipeNotVerified`]
    /// if `new` opens the volume and the old keyslot's area could not be overwritten.
    pub fn change_key(
        &mut self,
        header: &dyn Media,
        old: &Passphrase,
        slot: Option<u32>,
        new: &Passphrase,
        options: &KeyslotOptions,
    ) -> Result<u32, ChangeError> {
        each!(self, volume => volume.change_key(header, old, slot, new, options))
    }

    /// Removes the keyslot that opens with the passphrase. Returns its number. The last one goes only if `last_may_go`.
    ///
    /// # Errors
    /// [`ChangeError::Unlock`] if no keyslot opens with the passphrase. Otherwise it fails where
    /// [`kill_slot`](Self::kill_slot) does.
    pub fn remove_key(
        &mut self,
        header: &dyn Media,
        passphrase: &Passphrase,
        last_may_go: bool,
    ) -> Result<u32, ChangeError> {
        each!(self, volume => volume.remove_key(header, passphrase, last_may_go))
    }

    /// Removes a keyslot by its number. The last one goes only if `last_may_go`.
    ///
    /// # Errors
    /// [`ChangeError::NoSuchKeyslot`] if it holds no key, [`ChangeError::LastKeyslot`] if it is the last one
    /// and may not go. [`ChangeError::WipeNotVerified`] if its area could not be overwritten: it is still
    /// listed then. Otherwise as all [changes of a header](Self::add_key).
    pub fn kill_slot(&mut self, header: &dyn Media, slot: u32, last_may_go: bool) -> Result<(), ChangeError> {
        each!(self, volume => volume.kill_slot(header, slot, last_may_go))
    }

    /// Whether a keyslot's key is the one of the data.
    pub fn opens_data(&self, slot: u32) -> bool {
        self.info().keyslots.iter().any(|keyslot| keyslot.id == slot && !keyslot.unbound)
    }

    /// Whether nothing would open the data without this keyslot.
    ///
    /// # Errors
    /// [`ChangeError::NoSuchKeyslot`] if there is no such keyslot.
    pub fn is_last_keyslot(&self, slot: u32) -> Result<bool, ChangeError> {
        let keyslots = self.info().keyslots;
        if !keyslots.iter().any(|keyslot| keyslot.id == slot) {
            return Err(ChangeError::NoSuchKeyslot { slot });
        }
        let other = keyslots.iter().any(|keyslot| keyslot.id != slot && !keyslot.unbound);
        Ok(self.opens_data(slot) && !other)
    }

    /// Wipes every keyslot. The data stays where it is; without a header backup nobody can read it again.
    ///
    /// # Errors
    /// [`ChangeError::WipeNotVerified`] or [`ChangeError::Device`] if an area could not be overwritten:
    /// keyslots may still open. Otherwise as all [changes of a header](Self::add_key).
    pub fn erase(&mut self, header: &dyn Media) -> Result<(), ChangeError> {
        each!(self, volume => volume.erase(header))
    }

    /// Rewrites what is damaged from what is intact.
    ///
    /// # Errors
    /// [`ChangeError::NothingToRepair`] if nothing is damaged. Otherwise as all [changes of a
    /// header](Self::add_key).
    pub fn repair(&mut self, header: &dyn Media) -> Result<(), ChangeError> {
        each!(self, volume => volume.repair(header))
    }

    /// Sets label and subsystem (LUKS2 only) and UUID, each if given. Everything is checked first, and then one header
    /// write changes all of them.
    ///
    /// # Errors
    /// [`ChangeError::NotInFormat`] for a label of LUKS1, [`ChangeError::Option`] for a name that is too long
    /// or a UUID that is none. Otherwise as all [changes of a header](Self::add_key).
    pub fn relabel(&mut self, header: &dyn Media, new: &Relabel<'_>) -> Result<(), ChangeError> {
        each!(self, volume => volume.relabel(header, new))
    }

    /// Sets the order in which a keyslot is tried. LUKS2 only.
    ///
    /// # Errors
    /// [`ChangeError::NotInFormat`] for LUKS1, [`ChangeError::NoSuchKeyslot`] if there is no such keyslot.
    /// Otherwise as all [changes of a header](Self::add_key).
    pub fn set_priority(
        &mut self,
        header: &dyn Media,
        slot: u32,
        priority: Priority,
    ) -> Result<(), ChangeError> {
        self.luks2_mut()?.set_priority(header, slot, priority)
    }

    /// The LUKS2 volume, for what only LUKS2 has: tokens, unbound keyslots.
    pub fn luks2(&self) -> Option<&luks2::Luks2> {
        match self {
            Self::Luks1(_) => None,
            Self::Luks2(volume) => Some(volume),
        }
    }

    /// The LUKS2 volume, to change what only LUKS2 has.
    ///
    /// # Errors
    /// [`ChangeError::NotInFormat`] for LUKS1.
    pub fn luks2_mut(&mut self) -> Result<&mut luks2::Luks2, ChangeError> {
        match self {
            Self::Luks1(_) => Err(ChangeError::NotInFormat),
            Self::Luks2(volume) => Ok(volume),
        }
    }
}

/// Creates a volume. All that was in the header's place is overwritten; the data is left as it is.
///
/// # Errors
/// Before anything is written: [`FormatError::Option`] for options that the format does not have or the
/// devices have no room for, [`FormatError::Key`] for a weak volume key, [`FormatError::Kdf`] or
/// [`FormatError::NotEnoughMemory`] for a cost that this machine can't pay.
///
/// [`FormatError::Device`] or [`FormatError::Random`] if the device or the system's random source fails. What
/// was in the header's place may be gone then.
pub fn format(
    devices: Devices<'_>,
    format: VolumeFormat,
    passphrase: &Passphrase,
    options: &FormatOptions,
) -> Result<LockedVolume, FormatError> {
    match format {
        VolumeFormat::Luks1 => luks1::format(devices, passphrase, options).map(LockedVolume::Luks1),
        VolumeFormat::Luks2 => luks2::format(devices, passphrase, options).map(LockedVolume::Luks2),
        VolumeFormat::Plain
        | VolumeFormat::Tcrypt
        | VolumeFormat::LoopAes
        | VolumeFormat::BitLocker
        | VolumeFormat::FileVault => Err(FormatError::Option(crate::OptionError::NotInFormat)),
    }
}

/// The header with its keyslot areas, in the form of cryptsetup's `luksHeaderBackup`.
///
/// # Errors
/// Fails where [`LockedVolume::read`] does. [`OpenError::BackupTooLarge`] if the areas of a LUKS1 header lie
/// too far behind it.
pub fn header_backup(header: &dyn Media) -> Result<Vec<u8>, OpenError> {
    match version(header) {
        Some(1) => luks1::header_backup(header),
        Some(2) | None => luks2::header_backup(header),
        Some(version) => Err(OpenError::UnknownVersion { version }),
    }
}

/// Writes a header backup back. Everything is checked before the first byte is written.
///
/// # Errors
/// Before anything is written: [`ChangeError::BadBackup`] or [`ChangeError::BackupLength`] if the backup is
/// none, [`ChangeError::BackupOfAnotherVolume`], [`ChangeError::BackupLayoutDiffers`] or
/// [`ChangeError::BackupOfDetachedHeader`] if `options` do not permit to restore it here,
/// [`ChangeError::Unlock`] if it asks for what is not known here, [`ChangeError::Option`] if the device is
/// too small.
///
/// [`ChangeError::Device`] if the device fails. Header and areas may not go together then; restoring again
/// completes it.
pub fn header_restore(header: &dyn Media, backup: &[u8], options: RestoreOptions) -> Result<(), ChangeError> {
    match version_of(backup) {
        Some(1) => luks1::header_restore(header, backup, options),
        Some(2) => luks2::header_restore(header, backup, options),
        Some(version) => Err(ChangeError::BadBackup(OpenError::UnknownVersion { version })),
        None => Err(ChangeError::BadBackup(OpenError::NotLuks)),
    }
}

/// Rewrites what is damaged from what is intact, also where the damage keeps [`LockedVolume::read`] from reading.
///
/// # Errors
/// [`ChangeError::NothingToRepair`] if nothing is damaged, [`ChangeError::Open`] if the damage can't be made
/// up: nothing was written then. Otherwise as all [changes of a header](LockedVolume::add_key).
pub fn repair(header: &dyn Media) -> Result<LockedVolume, ChangeError> {
    if version(header) == Some(1) {
        return luks1::repair(header).map(LockedVolume::Luks1);
    }
    let mut volume = LockedVolume::read(header)?;
    volume.repair(header)?;
    Ok(volume)
}

/// The LUKS version at byte 0 of a device; `None` without the magic, and where it can't be read: a second copy of a
/// LUKS2 header may still be found, and who looks for it reports the failure if there is none.
pub(crate) fn version(header: &dyn Media) -> Option<u16> {
    let mut start = [0; 8];
    header.read_at(0, &mut start).ok()?;
    version_of(&start)
}

pub(crate) fn version_of(bytes: &[u8]) -> Option<u16> {
    match bytes {
        [b'L', b'U', b'K', b'S', 0xBA, 0xBE, high, low, ..] => Some(u16::from_be_bytes([*high, *low])),
        _ => None,
    }
}
