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

    /// Fails if the data can't be where the header says, such as over the header itself. Needs no key, so that it can be told
    /// before one is asked for. Unlocking checks it again.
    pub fn check_place(&self, devices: Devices<'_>) -> Result<(), UnlockError> {
        each!(self, volume => volume.check_place(devices))
    }

    /// Unlocks with a passphrase. Takes the memory and time that the keyslots ask for.
    pub fn unlock(
        &self,
        devices: Devices<'_>,
        passphrase: &Passphrase,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        each!(self, volume => volume.unlock(devices, passphrase, options))
    }

    /// Unlocks with the volume key itself.
    pub fn unlock_with_key(
        &self,
        devices: Devices<'_>,
        key: &VolumeKey,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        each!(self, volume => volume.unlock_with_key(devices, key, options))
    }

    /// The volume key and the keyslot that held it.
    pub fn volume_key(
        &self,
        header: &dyn Media,
        passphrase: &Passphrase,
        slot: Option<u32>,
    ) -> Result<(u32, VolumeKey), UnlockError> {
        each!(self, volume => volume.volume_key(header, passphrase, slot))
    }

    /// Which keyslot opens with the passphrase; unbound keyslots count too.
    pub fn test_passphrase(
        &self,
        header: &dyn Media,
        passphrase: &Passphrase,
        slot: Option<u32>,
    ) -> Result<u32, UnlockError> {
        each!(self, volume => volume.test_passphrase(header, passphrase, slot))
    }

    /// Adds a keyslot that opens with `new`. Returns its number.
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
    pub fn remove_key(
        &mut self,
        header: &dyn Media,
        passphrase: &Passphrase,
        last_may_go: bool,
    ) -> Result<u32, ChangeError> {
        each!(self, volume => volume.remove_key(header, passphrase, last_may_go))
    }

    /// Removes a keyslot by its number. The last one goes only if `last_may_go`.
    pub fn kill_slot(&mut self, header: &dyn Media, slot: u32, last_may_go: bool) -> Result<(), ChangeError> {
        each!(self, volume => volume.kill_slot(header, slot, last_may_go))
    }

    /// Whether a keyslot's key is the one of the data.
    pub fn opens_data(&self, slot: u32) -> bool {
        self.info().keyslots.iter().any(|keyslot| keyslot.id == slot && !keyslot.unbound)
    }

    /// Whether nothing would open the data without this keyslot.
    pub fn is_last_keyslot(&self, slot: u32) -> Result<bool, ChangeError> {
        let keyslots = self.info().keyslots;
        if !keyslots.iter().any(|keyslot| keyslot.id == slot) {
            return Err(ChangeError::NoSuchKeyslot { slot });
        }
        let other = keyslots.iter().any(|keyslot| keyslot.id != slot && !keyslot.unbound);
        Ok(self.opens_data(slot) && !other)
    }

    /// Wipes every keyslot. The data stays where it is; without a header backup nobody can read it again.
    pub fn erase(&mut self, header: &dyn Media) -> Result<(), ChangeError> {
        each!(self, volume => volume.erase(header))
    }

    /// Rewrites what is damaged from what is intact.
    pub fn repair(&mut self, header: &dyn Media) -> Result<(), ChangeError> {
        each!(self, volume => volume.repair(header))
    }

    /// Sets label and subsystem (LUKS2 only) and UUID, each if given. Everything is checked first, and then one header
    /// write changes all of them.
    pub fn relabel(&mut self, header: &dyn Media, new: &Relabel<'_>) -> Result<(), ChangeError> {
        each!(self, volume => volume.relabel(header, new))
    }

    /// Sets the order in which a keyslot is tried. LUKS2 only.
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

    /// The LUKS2 volume, to change what only LUKS2 has. Fails with [`ChangeError::NotInFormat`] for LUKS1.
    pub fn luks2_mut(&mut self) -> Result<&mut luks2::Luks2, ChangeError> {
        match self {
            Self::Luks1(_) => Err(ChangeError::NotInFormat),
            Self::Luks2(volume) => Ok(volume),
        }
    }
}

/// Creates a volume. All that was in the header's place is overwritten; the data is left as it is.
pub fn format(
    devices: Devices<'_>,
    format: VolumeFormat,
    passphrase: &Passphrase,
    options: &FormatOptions,
) -> Result<LockedVolume, FormatError> {
    match format {
        VolumeFormat::Luks1 => luks1::format(devices, passphrase, options).map(LockedVolume::Luks1),
        VolumeFormat::Luks2 => luks2::format(devices, passphrase, options).map(LockedVolume::Luks2),
        VolumeFormat::Plain => Err(FormatError::Option(crate::OptionError::NotInFormat)),
    }
}

/// The header with its keyslot areas, in the form of cryptsetup's `luksHeaderBackup`.
pub fn header_backup(header: &dyn Media) -> Result<Vec<u8>, OpenError> {
    match version(header) {
        Some(1) => luks1::header_backup(header),
        Some(2) | None => luks2::header_backup(header),
        Some(version) => Err(OpenError::UnknownVersion { version }),
    }
}

/// Writes a header backup back. Everything is checked before the first byte is written.
pub fn header_restore(header: &dyn Media, backup: &[u8], options: RestoreOptions) -> Result<(), ChangeError> {
    match version_of(backup) {
        Some(1) => luks1::header_restore(header, backup, options),
        Some(2) => luks2::header_restore(header, backup, options),
        Some(version) => Err(ChangeError::BadBackup(OpenError::UnknownVersion { version })),
        None => Err(ChangeError::BadBackup(OpenError::NotLuks)),
    }
}

/// Rewrites what is damaged from what is intact, also where the damage keeps [`LockedVolume::read`] from reading.
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
