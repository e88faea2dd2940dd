//! Keyslots added, changed and removed; labels, UUID and priorities set; damaged header copies repaired.

use core::str::FromStr;

use atrest_cipher::CipherSpec;
use atrest_device::Media;
use atrest_format::luks2::{
    CopyKind, Keyslot, KeyslotKind, MAX_KEYSLOTS, Metadata, SegmentKind, Token, area_size,
};
use atrest_kdf::Hash;

use super::keyslot::{self, Plan, Sealed};
use super::session::Session;
use super::{Luks2, create, media};
use crate::{
    ChangeError, Credential, CryptFlags, KeyslotOptions, OptionError, Passphrase, PbkdfKind, Priority,
    Relabel, UnlockError, VolumeKey,
};

impl Luks2 {
    /// Adds a keyslot that opens with `new`. Its area is durable before the header lists it. Returns its number.
    ///
    /// # Errors
    /// Fails where [`LockedVolume::add_key`](crate::LockedVolume::add_key) does.
    pub fn add_key(
        &mut self,
        header: &dyn Media,
        existing: Credential<'_>,
        new: &Passphrase,
        options: &KeyslotOptions,
    ) -> Result<u32, ChangeError> {
        let mut session = Session::begin(self, header)?;
        let (id, sealed, next) = with_new_key(&mut session, existing, new, options)?;
        store(&mut session, &sealed, next)?;
        session.finish(self);
        Ok(id)
    }

    /// Adds a keyslot, and a token under the first free number that says what opens it, whose text `token` makes for the keyslot's number. One
    /// header lists both. Returns both numbers.
    ///
    /// # Errors
    /// [`ChangeError::TokenInUse`] if no number is free, [`ChangeError::BadToken`] if the text is no token object. Otherwise it fails where
    /// [`add_key`](Self::add_key) does.
    pub fn add_key_with_token(
        &mut self,
        header: &dyn Media,
        existing: Credential<'_>,
        new: &Passphrase,
        options: &KeyslotOptions,
        token: &dyn Fn(u32) -> String,
    ) -> Result<(u32, u32), ChangeError> {
        let mut session = Session::begin(self, header)?;
        let number = session.metadata().free_token().ok_or(ChangeError::TokenInUse)?;
        let (id, sealed, next) = with_new_key(&mut session, existing, new, options)?;
        let next = next.with_token(number, &token(id)).map_err(|_| ChangeError::BadToken)?;
        store(&mut session, &sealed, next)?;
        session.finish(self);
        Ok((id, number))
    }

    /// Adds a keyslot for a key of its own, which encrypts no data here. Returns its number.
    ///
    /// # Errors
    /// [`ChangeError::NoFreeDigest`] if all digests are in use. Otherwise it fails where
    /// [`add_key`](Self::add_key) does, credentials aside.
    pub fn add_unbound_key(
        &mut self,
        header: &dyn Media,
        key: &VolumeKey,
        new: &Passphrase,
        options: &KeyslotOptions,
    ) -> Result<u32, ChangeError> {
        let mut session = Session::begin(self, header)?;
        let id = free_slot(&session, options.slot)?;
        let digest = session.metadata().free_digest().ok_or(ChangeError::NoFreeDigest)?;
        let forced = options.pbkdf.forced_iterations.is_some();
        let hash = options.af_hash.unwrap_or(Hash::Sha256);
        let digest = keyslot::new_digest::<ChangeError>(digest, key, hash, forced, vec![id], Vec::new())?;
        let sealed = seal(&session, id, key, new, options)?;
        let next = session.metadata().with_unbound_keyslot(&sealed.keyslot, &digest);
        store(&mut session, &sealed, next.map_err(ChangeError::Header)?)?;
        session.finish(self);
        Ok(id)
    }

    /// Replaces the passphrase `old` by `new`. The new area is durable and both header copies list it before the old
    /// area is wiped. Returns the keyslot's number, which stays unless `options.slot` names another.
    ///
    /// # Errors
    /// Fails where [`LockedVolume::change_key`](crate::LockedVolume::change_key) does.
    pub fn change_key(
        &mut self,
        header: &dyn Media,
        old: &Passphrase,
        slot: Option<u32>,
        new: &Passphrase,
        options: &KeyslotOptions,
    ) -> Result<u32, ChangeError> {
        let mut session = Session::begin(self, header)?;
        let (from, key) = session.keyslot_key(old, slot)?;
        let to = match options.slot {
            Some(to) if to != from => free_slot(&session, Some(to))?,
            _ => from,
        };
        let before = session.metadata().keyslot(from).cloned();
        let before = before.ok_or(ChangeError::NoSuchKeyslot { slot: from })?;
        let mut sealed = seal(&session, to, &key, new, options)?;
        sealed.keyslot.priority = before.priority;
        let next = session.metadata().with_keyslot_replaced(from, &sealed.keyslot);
        store(&mut session, &sealed, next.map_err(ChangeError::Header)?)?;
        let wiped = media::wipe(header, before.area.offset, before.area.size);
        session.finish(self);
        wiped.map(|()| to)
    }

    /// Removes the keyslot that opens with the passphrase. Returns its number.
    ///
    /// # Errors
    /// Fails where [`LockedVolume::remove_key`](crate::LockedVolume::remove_key) does.
    pub fn remove_key(
        &mut self,
        header: &dyn Media,
        passphrase: &Passphrase,
        last_may_go: bool,
    ) -> Result<u32, ChangeError> {
        let mut session = Session::begin(self, header)?;
        let (slot, _) = session.keyslot_key(passphrase, None)?;
        remove(&mut session, slot, last_may_go)?;
        session.finish(self);
        Ok(slot)
    }

    /// Removes a keyslot by its number.
    ///
    /// # Errors
    /// Fails where [`LockedVolume::kill_slot`](crate::LockedVolume::kill_slot) does.
    pub fn kill_slot(&mut self, header: &dyn Media, slot: u32, last_may_go: bool) -> Result<(), ChangeError> {
        let mut session = Session::begin(self, header)?;
        remove(&mut session, slot, last_may_go)?;
        session.finish(self);
        Ok(())
    }

    /// Removes several keyslots, and the tokens that open none of the others. All areas are wiped before the one header that forgets them is
    /// written. Returns the numbers of the tokens.
    ///
    /// # Errors
    /// [`ChangeError::NoSuchKeyslot`] if one of them is not there, [`ChangeError::LastKeyslot`] if nothing would open the data any more and
    /// `last_may_go` is not set. Otherwise it fails where [`LockedVolume::kill_slot`](crate::LockedVolume::kill_slot) does.
    pub fn remove_keyslots(
        &mut self,
        header: &dyn Media,
        slots: &[u32],
        last_may_go: bool,
    ) -> Result<Vec<u32>, ChangeError> {
        let mut session = Session::begin(self, header)?;
        let metadata = session.metadata();
        let opens = |keyslot: &Keyslot| {
            matches!(keyslot.kind, KeyslotKind::Luks2 { .. }) && session.volume.opens_data(keyslot.id)
        };
        let mut areas = Vec::new();
        let mut last = None;
        for slot in slots {
            let keyslot = metadata.keyslot(*slot).ok_or(ChangeError::NoSuchKeyslot { slot: *slot })?;
            areas.push((keyslot.area.offset, keyslot.area.size));
            last = Some(*slot).filter(|_| opens(keyslot)).or(last);
        }
        let stays = metadata.keyslots().iter().any(|keyslot| !slots.contains(&keyslot.id) && opens(keyslot));
        if let Some(slot) = last.filter(|_| !stays && !last_may_go) {
            return Err(ChangeError::LastKeyslot { slot });
        }
        let goes = last.is_some() && !stays;
        let orphaned = |token: &&Token| {
            !token.keyslots.is_empty() && token.keyslots.iter().all(|slot| slots.contains(slot))
        };
        let tokens: Vec<u32> = metadata.tokens().iter().filter(orphaned).map(|token| token.id).collect();
        let mut next = metadata.without_keyslots(slots).map_err(ChangeError::Header)?;
        for token in &tokens {
            next = next.without_token(*token).map_err(ChangeError::Header)?;
        }
        if goes {
            session.leave_pin();
        }
        let next = session.next(next)?;
        for (offset, size) in areas {
            media::wipe(header, offset, size)?;
        }
        session.commit(next)?;
        session.finish(self);
        Ok(tokens)
    }

    /// Wipes the whole keyslots area and forgets every keyslot. The data and its description stay.
    ///
    /// # Errors
    /// Fails where [`LockedVolume::erase`](crate::LockedVolume::erase) does.
    pub fn erase(&mut self, header: &dyn Media) -> Result<(), ChangeError> {
        let mut session = Session::begin(self, header)?;
        let metadata = session.metadata();
        let (start, size) = (metadata.keyslots_start(), metadata.config().keyslots_size);
        let ids: Vec<u32> = metadata.keyslots().iter().map(|keyslot| keyslot.id).collect();
        let without = metadata.without_keyslots(&ids).map_err(ChangeError::Header)?;
        // Nobody has to show a key to destroy all of them.
        session.leave_pin();
        let next = session.next(without)?;
        media::wipe(header, start, size)?;
        session.commit(next)?;
        session.finish(self);
        Ok(())
    }

    /// Rewrites a damaged or outdated header copy from the good one.
    ///
    /// # Errors
    /// Fails where [`LockedVolume::repair`](crate::LockedVolume::repair) does.
    pub fn repair(&mut self, header: &dyn Media) -> Result<(), ChangeError> {
        let mut session = Session::begin_any(header)?;
        let pair = &mut session.volume.pair;
        let copy = match (pair.primary, pair.secondary) {
            (Some(_), _) => CopyKind::Primary,
            (None, Some(_)) => CopyKind::Secondary,
            (None, None) => return Err(ChangeError::NothingToRepair),
        };
        media::write_copy(header, &pair.header, copy)?;
        (pair.primary, pair.secondary) = (None, None);
        session.finish(self);
        Ok(())
    }

    /// Sets the order in which a keyslot is tried.
    ///
    /// # Errors
    /// Fails where [`LockedVolume::set_priority`](crate::LockedVolume::set_priority) does.
    pub fn set_priority(
        &mut self,
        header: &dyn Media,
        slot: u32,
        priority: Priority,
    ) -> Result<(), ChangeError> {
        let mut session = Session::begin(self, header)?;
        if session.metadata().keyslot(slot).is_none() {
            return Err(ChangeError::NoSuchKeyslot { slot });
        }
        let next = session.metadata().with_priority(slot, create::priority(priority));
        let next = session.next(next.map_err(ChangeError::Header)?)?;
        session.commit(next)?;
        session.finish(self);
        Ok(())
    }

    /// Sets how the header asks dm-crypt to work; what it has asked for until now is forgotten.
    ///
    /// # Errors
    /// As all [changes of a header](crate::LockedVolume::add_key).
    pub fn set_flags(&mut self, header: &dyn Media, flags: CryptFlags) -> Result<(), ChangeError> {
        let mut session = Session::begin(self, header)?;
        let next = session.metadata().with_flags(&flags.names());
        let next = session.next(next.map_err(ChangeError::Header)?)?;
        session.commit(next)?;
        session.finish(self);
        Ok(())
    }

    /// Sets label, subsystem and UUID, each if given, in one change: all of them or none.
    ///
    /// # Errors
    /// Fails where [`LockedVolume::relabel`](crate::LockedVolume::relabel) does.
    pub fn relabel(&mut self, header: &dyn Media, new: &Relabel<'_>) -> Result<(), ChangeError> {
        for text in [new.label, new.subsystem].into_iter().flatten() {
            create::check_label(text)?;
        }
        if let Some(uuid) = new.uuid {
            crate::uuid::check(uuid)?;
        }
        let mut session = Session::begin(self, header)?;
        let mut next = session.next(session.metadata().clone())?;
        if let Some(label) = new.label {
            next.binary.label = label.into();
        }
        if let Some(subsystem) = new.subsystem {
            next.binary.subsystem = subsystem.into();
        }
        if let Some(uuid) = new.uuid {
            next.binary.uuid = uuid.to_ascii_lowercase().into();
        }
        session.commit(next)?;
        session.finish(self);
        Ok(())
    }

    /// Sets label and subsystem, each if given; an empty one removes it.
    ///
    /// # Errors
    /// Fails where [`relabel`](Self::relabel) does.
    pub fn set_label(
        &mut self,
        header: &dyn Media,
        label: Option<&str>,
        subsystem: Option<&str>,
    ) -> Result<(), ChangeError> {
        self.relabel(header, &Relabel { label, subsystem, uuid: None })
    }

    /// Sets the UUID.
    ///
    /// # Errors
    /// Fails where [`relabel`](Self::relabel) does.
    pub fn set_uuid(&mut self, header: &dyn Media, uuid: &str) -> Result<(), ChangeError> {
        self.relabel(header, &Relabel { uuid: Some(uuid), ..Relabel::default() })
    }
}

/// Prepares a keyslot for the volume key that `existing` opens: its number, it, and the metadata that list it. Nothing is written.
fn with_new_key(
    session: &mut Session<'_>,
    existing: Credential<'_>,
    new: &Passphrase,
    options: &KeyslotOptions,
) -> Result<(u32, Sealed, Metadata), ChangeError> {
    let key = session.data_key(existing)?;
    let digest = session.metadata().digest_of_segment(0).map(|digest| digest.id);
    let digest = digest.ok_or(UnlockError::WrongVolumeKey)?;
    let id = free_slot(session, options.slot)?;
    let sealed = seal(session, id, &key, new, options)?;
    let next = session.metadata().with_keyslot(&sealed.keyslot, digest).map_err(ChangeError::Header)?;
    Ok((id, sealed, next))
}

/// The number that a new keyslot gets.
fn free_slot(session: &Session<'_>, wish: Option<u32>) -> Result<u32, ChangeError> {
    match wish {
        None => session.metadata().free_keyslot().ok_or(ChangeError::NoFreeKeyslot),
        Some(slot) if slot >= MAX_KEYSLOTS => {
            Err(OptionError::SlotNumber { slot, count: MAX_KEYSLOTS }.into())
        }
        Some(slot) if session.metadata().keyslot(slot).is_some() => Err(ChangeError::KeyslotInUse { slot }),
        Some(slot) => Ok(slot),
    }
}

/// Prepares a keyslot in a gap of the keyslots area. Nothing is written.
fn seal(
    session: &Session<'_>,
    id: u32,
    key: &VolumeKey,
    passphrase: &Passphrase,
    options: &KeyslotOptions,
) -> Result<Sealed, ChangeError> {
    // intended: no area is large enough for a key that is longer than 4 GiB.
    let needs = area_size(u32::try_from(key.len()).unwrap_or(u32::MAX));
    let offset = session.metadata().free_area(needs).ok_or(ChangeError::NoRoomForKeyslot { needs })?;
    let (cipher, key_len) = area_cipher(session, key, options)?;
    let pbkdf = options.pbkdf.resolve::<ChangeError>(PbkdfKind::Argon2id, Hash::Sha256, key_len)?;
    let plan = Plan {
        id,
        pbkdf,
        area_cipher: cipher,
        area_key_len: key_len,
        af_hash: options.af_hash.unwrap_or(Hash::Sha256),
        priority: create::priority(options.priority),
    };
    keyslot::seal(&plan, offset, key, passphrase)
}

/// The cipher of a new keyslot area: as asked for, or the data's with the length of the data's key.
fn area_cipher(
    session: &Session<'_>,
    key: &VolumeKey,
    options: &KeyslotOptions,
) -> Result<(CipherSpec, usize), ChangeError> {
    let data = session.metadata().segments().first().and_then(|segment| match &segment.kind {
        SegmentKind::Crypt { encryption, .. } => CipherSpec::from_str(encryption).ok(),
        _ => None,
    });
    // Without such a cipher the usual one has its longest key.
    let len = if data.is_some() { key.len() } else { 0 };
    create::area_cipher(options, data.as_ref(), len).map_err(ChangeError::Option)
}

/// Writes a keyslot's area, makes it durable, then writes the headers that list it.
fn store(session: &mut Session<'_>, sealed: &Sealed, next: Metadata) -> Result<(), ChangeError> {
    let next = session.next(next)?;
    session.device.write_at(sealed.keyslot.area.offset, &sealed.material)?;
    session.device.flush()?;
    session.commit(next)
}

/// Wipes a keyslot's area, verifies that on the media, and only then lets the headers forget it.
fn remove(session: &mut Session<'_>, slot: u32, last_may_go: bool) -> Result<(), ChangeError> {
    let metadata = session.metadata();
    let keyslot = metadata.keyslot(slot).ok_or(ChangeError::NoSuchKeyslot { slot })?;
    let opens = |id: u32, kind: &KeyslotKind| {
        matches!(kind, KeyslotKind::Luks2 { .. }) && session.volume.opens_data(id)
    };
    let others = metadata.keyslots().iter().filter(|other| other.id != slot);
    let last = opens(slot, &keyslot.kind) && !others.into_iter().any(|other| opens(other.id, &other.kind));
    if last && !last_may_go {
        return Err(ChangeError::LastKeyslot { slot });
    }
    let (offset, size) = (keyslot.area.offset, keyslot.area.size);
    let without = metadata.without_keyslot(slot).map_err(ChangeError::Header)?;
    if last {
        // As with `erase`, nobody has to show a key to destroy it.
        session.leave_pin();
    }
    let next = session.next(without)?;
    media::wipe(session.device, offset, size)?;
    session.commit(next)
}
