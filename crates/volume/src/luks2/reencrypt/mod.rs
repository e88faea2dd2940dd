//! Re-encryption by LUKS2's own format, so that cryptsetup resumes what is begun here and the other way round.
//!
//! This room keeps the metadata: what the next hot zone is, what the header says before and after it, and when something
//! may be forgotten. Moving the data is the engine's. For each zone, in this order, each step durable before the next:
//! what protects the zone goes to the keyslot's area; the header says that the zone is hot; the zone is written; the header
//! says that it is done. Header copies are written one after the other, as for every change.

mod begin;
mod decrypt;
mod encrypt;
mod error;
mod zone;

use core::str::FromStr;

use atrest_cipher::{CipherSpec, Mapper, MapperOptions};
use atrest_device::{LockMode, Media};
use atrest_format::luks2::{
    Checksums, Digest, Header, Metadata, ReencryptMode, Reencryption, Requirement, Resilience, Segment,
    SegmentKind,
};
use atrest_kdf::Hash;
use atrest_secret::{Locked, SecretBytes};

pub use begin::{ReencryptOptions, ResilienceKind};
pub use decrypt::DecryptOptions;
pub use encrypt::{Conversion, EncryptOptions, begin_encryption, interrupted_conversion};
pub use error::ReencryptError;
pub use zone::Zone;

use zone::{Course, Kind, unit_of};

use super::{Luks2, keyslot, media, session};
use crate::lock::MetadataLock;
use crate::{ChangeError, Devices, Passphrase, UnlockError, UnlockOptions, Volume, VolumeFormat, VolumeKey};

/// Most bytes under one hash: more than the sector of any device.
const MAX_HASHED: u32 = 64 << 10;

/// A re-encryption in progress, whose keys are known and verify it.
pub struct Rewriting<'a> {
    devices: Devices<'a>,
    volume: Luks2,
    course: Course,
    old: Option<Locked<Mapper>>,
    new: Option<Locked<Mapper>>,
    protection: Protection,
    /// Both forms of all data, for whoever serves the volume meanwhile.
    sides: Option<Sides>,
}

/// All data as it was and as it will be, of which each byte is in one of the two.
pub struct Sides {
    /// As it was.
    pub old: crate::Segment,
    /// As it will be.
    pub new: crate::Segment,
}

/// How the engine protects a zone before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Not at all.
    None,
    /// What the zone held goes to the area.
    Journal,
    /// Of each of its sectors the hash of what it held goes to the area.
    Checksum {
        /// The hash.
        hash: Hash,
        /// Bytes under one hash.
        sector: u32,
    },
    /// What is read is not overwritten.
    Elsewhere,
}

impl Luks2 {
    /// Goes on with the re-encryption in progress. The passphrase must open a keyslot of each key. Writes nothing.
    ///
    /// Where all data is done, the new key is enough: cryptsetup destroys the old keyslots before it removes the mark.
    ///
    /// # Errors
    /// [`ReencryptError::State`] if none is in progress that can be resumed here, [`ReencryptError::Change`]
    /// if the passphrase does not open a keyslot of each key, [`ReencryptError::OldKeyGone`] if none of the
    /// old key is left and data needs it. [`ReencryptError::NotVerified`] if the metadata was changed without
    /// the keys, [`ReencryptError::Row`], [`ReencryptError::DeviceSize`] or [`ReencryptError::UnknownKind`]
    /// if it describes no step that is known.
    pub fn resume_reencryption<'a>(
        &self,
        devices: Devices<'a>,
        passphrase: &Passphrase,
    ) -> Result<Rewriting<'a>, ReencryptError> {
        Ok(self.resume_with_keys(devices, passphrase)?.0)
    }

    /// Opens a volume whose re-encryption is unfinished, in its present state. The passphrase must open a keyslot of each key.
    ///
    /// # Errors
    /// [`UnlockError::ReencryptionInProgress`] if a zone is half-written, so that it must be recovered first,
    /// or if the re-encryption can't be resumed for another reason. [`UnlockError::WrongPassphrase`] and its
    /// like as in [`unlock`](Self::unlock).
    pub(super) fn unlock_unfinished(
        &self,
        devices: Devices<'_>,
        passphrase: &Passphrase,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        let unfinished = |error| match error {
            ReencryptError::Change(change) => match *change {
                ChangeError::Unlock(error) => error,
                _ => UnlockError::ReencryptionInProgress,
            },
            _ => UnlockError::ReencryptionInProgress,
        };
        // dm-crypt would need the keys, and no other keyslot than one of each key is of use.
        if options.keep_key || options.slot.is_some() {
            return Err(UnlockError::ReencryptionInProgress);
        }
        let (rewriting, old, new) = self.resume_with_keys(devices, passphrase).map_err(unfinished)?;
        let volume = rewriting.into_volume(old.as_ref(), new.as_ref()).map_err(unfinished)?;
        let read_only = options.read_only || devices.data.is_read_only();
        volume.map(|volume| volume.with_read_only(read_only)).ok_or(UnlockError::ReencryptionInProgress)
    }

    fn resume_with_keys<'a>(
        &self,
        devices: Devices<'a>,
        passphrase: &Passphrase,
    ) -> Result<(Rewriting<'a>, Option<VolumeKey>, Option<VolumeKey>), ReencryptError> {
        self.check_requirements_known()?;
        let state = self.metadata().reencryption()?;
        let key_of = |digest: Option<u32>| -> Result<Option<VolumeKey>, UnlockError> {
            digest.map(|digest| self.key_of_digest(devices.header, passphrase, digest)).transpose()
        };
        let old = match key_of(state.digest_previous) {
            Ok(old) => old,
            Err(error) if is_lost(&error) => {
                let rewriting = self.resume_without_old_key(devices, passphrase, state, error)?;
                return Ok((rewriting, None, None));
            }
            Err(error) => return Err(error.into()),
        };
        let new = match state.digest_last {
            same if same == state.digest_previous => {
                old.as_ref().map(|key| VolumeKey::copy_from(key.expose()))
            }
            other => key_of(other)?,
        };
        let rewriting = Rewriting::new(devices, self.clone(), state, old.as_ref(), new.as_ref())?;
        Ok((rewriting, old, new))
    }

    /// Goes on where the passphrase opens no keyslot of the old key, as `refused` says. Only the end can be reached: no
    /// data is read or written, so nothing has to be verified with the old key.
    fn resume_without_old_key<'a>(
        &self,
        devices: Devices<'a>,
        passphrase: &Passphrase,
        state: Reencryption,
        refused: UnlockError,
    ) -> Result<Rewriting<'a>, ReencryptError> {
        let digests = self.metadata().digests();
        let mut of_old = digests.iter().filter(|digest| Some(digest.id) == state.digest_previous);
        let none_left = of_old.all(|digest| digest.keyslots.is_empty());
        if state.mode == ReencryptMode::Decrypt {
            // Only plaintext is left where all is done, for which there is no key.
            let course = Course::new(state, devices, self.header_size())?;
            return match none_left && course.only_marked() {
                true => Rewriting::from_parts(devices, self.clone(), course, None, None),
                false if none_left => Err(ReencryptError::OldKeyGone),
                false => Err(refused.into()),
            };
        }
        let last = state.digest_last.filter(|last| Some(*last) != state.digest_previous);
        let Some(last) = last else { return Err(refused.into()) };
        let new = match self.key_of_digest(devices.header, passphrase, last) {
            Err(error) if is_lost(&error) => return Err(refused.into()),
            new => new?,
        };
        let course = Course::new(state, devices, self.header_size())?;
        match course.only_marked() {
            true => Rewriting::from_parts(devices, self.clone(), course, None, Some(&new)),
            false if none_left => Err(ReencryptError::OldKeyGone),
            false => Err(refused.into()),
        }
    }

    fn key_of_digest(
        &self,
        header: &dyn Media,
        passphrase: &Passphrase,
        digest: u32,
    ) -> Result<VolumeKey, UnlockError> {
        let bound = self.metadata().digests().iter().find(|candidate| candidate.id == digest);
        // intended: no digest, no keyslots.
        let slots = bound.map(|digest| digest.keyslots.clone()).unwrap_or_default();
        let mut failure = UnlockError::WrongPassphrase;
        for slot in slots {
            match self.keyslot_key(header, passphrase, Some(slot)) {
                Ok((_, key)) => return Ok(key),
                Err(UnlockError::WrongPassphrase) => {}
                Err(other) => failure = other,
            }
        }
        Err(failure)
    }
}

impl<'a> Rewriting<'a> {
    fn new(
        devices: Devices<'a>,
        volume: Luks2,
        state: Reencryption,
        old: Option<&VolumeKey>,
        new: Option<&VolumeKey>,
    ) -> Result<Self, ReencryptError> {
        let digest = volume.metadata().reencryption_digest(&state).ok_or(ReencryptError::NotVerified)?;
        if !keyslot::verifies(digest, &verification(&state, old, new)?)? {
            return Err(ReencryptError::NotVerified);
        }
        let course = Course::new(state, devices, volume.header_size())?;
        Self::from_parts(devices, volume, course, old, new)
    }

    /// For a course that is verified, or of which only the end is left.
    fn from_parts(
        devices: Devices<'a>,
        volume: Luks2,
        course: Course,
        old_key: Option<&VolumeKey>,
        new_key: Option<&VolumeKey>,
    ) -> Result<Self, ReencryptError> {
        let state = &course.state;
        let with = |segment: &Segment, key: Option<&VolumeKey>| match key {
            Some(key) => mapper(segment, key),
            None => Ok(None),
        };
        let (old, new) = (with(&state.previous, old_key)?, with(&state.last, new_key)?);
        let protection = protection(&state.resilience)?;
        let side = |segment: &Segment, key| -> Result<crate::Segment, ReencryptError> {
            let protection =
                with(segment, key)?.map_or(crate::Protection::Identity, crate::Protection::Mapper);
            Ok(crate::Segment { start: 0, len: course.total, media_offset: segment.offset, protection })
        };
        let sides = match matches!(course.kind, Kind::Forward | Kind::Backward) {
            true => Some(Sides { old: side(&state.previous, old_key)?, new: side(&state.last, new_key)? }),
            false => None,
        };
        Ok(Self { devices, volume, course, old, new, protection, sides })
    }

    /// Takes out what serves the volume meanwhile, once. `None` where data moves, or if it was taken.
    pub fn take_sides(&mut self) -> Option<Sides> {
        self.sides.take()
    }

    /// Whether zones follow one another from the end of the data.
    pub fn is_backward(&self) -> bool {
        matches!(self.course.kind, Kind::Backward | Kind::AwayFromHeader)
    }

    /// The volume in its present state, as long as nobody goes on with the re-encryption. `None` if a zone is half-written, or if the key of a segment was not given.
    ///
    /// # Errors
    /// [`ReencryptError::Change`] if a segment can't be served.
    pub fn into_volume(
        self,
        old_key: Option<&VolumeKey>,
        new_key: Option<&VolumeKey>,
    ) -> Result<Option<Volume>, ReencryptError> {
        if self.course.state.hot.is_some() {
            return Ok(None);
        }
        let state = &self.course.state;
        let device = self.devices.data.size();
        let (mut segments, mut start) = (Vec::new(), 0_u64);
        for segment in &state.active {
            let is_new = self.course.is_new(segment)?;
            let key = if is_new { new_key } else { old_key };
            let protection = match (&segment.kind, key) {
                (SegmentKind::Linear, _) => crate::Protection::Identity,
                (_, Some(key)) => crate::Protection::Mapper(mapper_at(segment, key)?),
                // All data is done, and the passphrase of one key alone was asked for.
                (_, None) => return Ok(None),
            };
            // intended: what is left of the data; the row was compared with it.
            let left = self.course.total.saturating_sub(start);
            let len = super::unlock::run(segment, device).min(left);
            segments.push(crate::Segment { start, len, media_offset: segment.offset, protection });
            // cannot overflow: not more than all data.
            start = start.saturating_add(len);
        }
        Ok(Some(Volume::new(VolumeFormat::Luks2, segments).with_uuid(self.volume.uuid())))
    }

    /// The device that is rewritten.
    pub fn data(&self) -> &'a dyn Media {
        self.devices.data
    }

    /// What is being done.
    pub fn mode(&self) -> ReencryptMode {
        self.course.state.mode
    }

    /// The volume as its header is now.
    pub fn volume(&self) -> &Luks2 {
        &self.volume
    }

    /// Bytes of data in all.
    pub fn total(&self) -> u64 {
        self.course.total
    }

    /// Bytes that are done.
    ///
    /// # Errors
    /// [`ReencryptError::Row`] if the segments are of no step of this re-encryption.
    pub fn done(&self) -> Result<u64, ReencryptError> {
        self.course.done()
    }

    /// Decrypts what was there; `None` if that is plaintext.
    pub fn old(&self) -> Option<&Mapper> {
        self.old.as_deref()
    }

    /// Encrypts what is to be there; `None` if that is plaintext.
    pub fn new_mapper(&self) -> Option<&Mapper> {
        self.new.as_deref()
    }

    /// How a zone is protected.
    pub fn protection(&self, zone: &Zone) -> Protection {
        match self.course.in_place(zone) {
            true => self.protection,
            false => Protection::Elsewhere,
        }
    }

    /// The zone that was hot when the last run stopped.
    ///
    /// # Errors
    /// [`ReencryptError::Unprotected`] if nothing protects it, [`ReencryptError::Protection`] if its
    /// protection does not fit, [`ReencryptError::Row`] as in [`done`](Self::done).
    pub fn interrupted(&self) -> Result<Option<Zone>, ReencryptError> {
        let zone = self.course.hot_zone()?;
        if let Some(zone) = &zone {
            match self.protection(zone) {
                Protection::None => {
                    return Err(ReencryptError::Unprotected { offset: zone.offset, len: zone.len });
                }
                Protection::Elsewhere => {}
                Protection::Journal | Protection::Checksum { .. }
                    if self.area_needed(zone.len)? > self.area().1 =>
                {
                    return Err(ReencryptError::Protection);
                }
                Protection::Journal | Protection::Checksum { .. } => {}
            }
        }
        Ok(zone)
    }

    /// The next zone, of at most `most` bytes if its size is free.
    ///
    /// # Errors
    /// [`ReencryptError::NoRoom`] if the area does not protect even the smallest zone,
    /// [`ReencryptError::Misaligned`] if the data is no multiple of what is protected.
    pub fn next(&self, most: u64) -> Result<Option<Zone>, ReencryptError> {
        let align = u64::from(self.alignment());
        let area = self.area().1;
        let room = match self.protection {
            Protection::None | Protection::Elsewhere => u64::MAX,
            Protection::Journal => area,
            Protection::Checksum { hash, sector } => {
                // cannot be divided by 0: a digest has bytes.
                let hashes = area.checked_div(hash.output_len() as u64).unwrap_or(0);
                // intended: an area for more hashes than the device has sectors bounds nothing.
                hashes.saturating_mul(sector.into())
            }
        };
        let most = most.min(room).max(align);
        // cannot be less: a remainder. Nothing is aligned to 0 bytes.
        let most = most.saturating_sub(most.checked_rem(align).unwrap_or(0));
        let zone = self.course.next(most)?;
        if let (Kind::OverHeader, Some(zone)) = (self.course.kind, &zone) {
            // The head, whose length is what it is; or what is written elsewhere.
            return match self.course.in_place(zone) && self.area_needed(zone.len)? > area {
                true => Err(ReencryptError::NoRoom),
                false => Ok(Some(*zone)),
            };
        }
        match zone {
            Some(zone) if zone.len > room => Err(ReencryptError::NoRoom),
            Some(zone)
                if matches!(self.protection, Protection::Checksum { .. })
                    && !zone.len.is_multiple_of(align) =>
            {
                Err(ReencryptError::Misaligned { size: self.course.total, multiple: align })
            }
            zone => Ok(zone),
        }
    }

    /// What zones begin at and are multiples of: the data units before and after, and what is under one hash.
    pub fn alignment(&self) -> u32 {
        let units = unit_of(&self.course.state.previous).max(unit_of(&self.course.state.last));
        match self.protection {
            Protection::Checksum { sector, .. } => units.max(sector),
            _ => units.max(self.devices.data.geometry().logical_block),
        }
    }

    /// Writes what protects `zone`, durably, and then lets the header say that it is hot. `protection` is the journal or the
    /// hashes, or empty.
    ///
    /// # Errors
    /// [`ReencryptError::Protection`] if `protection` does not fit its area, [`ReencryptError::Change`] if
    /// the header can't be written. No data of the zone may be written then.
    pub fn heat(&mut self, zone: &Zone, protection: &[u8]) -> Result<(), ReencryptError> {
        let (offset, size) = self.area();
        if protection.len() as u64 > size {
            return Err(ReencryptError::Protection);
        }
        let layout = self.course.hot(zone)?;
        let next = self.volume.metadata().compose().segments(&layout.segments, &layout.digests).finish();
        let next = next.map_err(ChangeError::Header)?;
        if !protection.is_empty() {
            self.devices.header.write_at(offset, protection)?;
            self.devices.header.flush()?;
        }
        self.commit(next)
    }

    /// Lets the header say that `zone` is done; its data must be durable. With the last zone the re-encryption ends, and what
    /// it leaves behind is wiped: then this returns true, and nothing else may be asked for.
    ///
    /// # Errors
    /// [`ReencryptError::Change`] if the header can't be written: the zone stays hot.
    /// [`ReencryptError::Wipe`] if everything is done but what is left behind could not be wiped.
    pub fn cool(&mut self, zone: &Zone) -> Result<bool, ReencryptError> {
        let done = self.course.done_with(zone)?;
        let all = done >= self.course.total;
        // A volume with one segment that is still marked would be taken for one at its beginning, and be decrypted again; so
        // where no plaintext waits to be wiped, the last zone and the mark go at once.
        if all && self.course.kind != Kind::AwayFromHeader {
            return self.finish().map(|()| true);
        }
        let layout = self.course.after(done)?;
        let next = self.volume.metadata().compose().segments(&layout.segments, &layout.digests).finish();
        self.commit(next.map_err(ChangeError::Header)?)?;
        if all { self.finish().map(|()| true) } else { Ok(false) }
    }

    /// Reads the area of the interrupted zone's journal or hashes from byte `skip` on.
    ///
    /// # Errors
    /// [`ReencryptError::Protection`] for bytes behind the area, [`ReencryptError::Change`] if they can't be
    /// read.
    pub fn read_protection(&self, skip: u64, buf: &mut [u8]) -> Result<(), ReencryptError> {
        let (offset, size) = self.area();
        let end = skip.checked_add(buf.len() as u64).filter(|end| *end <= size);
        end.ok_or(ReencryptError::Protection)?;
        // cannot overflow: inside the keyslot area.
        Ok(self.devices.header.read_at(offset.saturating_add(skip), buf)?)
    }

    /// Ends a re-encryption of which all data is done.
    ///
    /// # Errors
    /// [`ReencryptError::Wipe`] if the old head or the old keyslots could not be wiped,
    /// [`ReencryptError::Change`] if the header can't be written. The data is complete all the same.
    pub fn finish(&mut self) -> Result<(), ReencryptError> {
        if let Some((offset, len)) = self.course.left_behind() {
            media::wipe(self.devices.data, offset, len).map_err(wipe_error)?;
        }
        if let Some(moved) = &self.course.state.moved
            && self.course.kind == Kind::AwayFromHeader
            && let atrest_format::luks2::SegmentSize::Fixed(size) = moved.size
        {
            // The head of the plaintext: as long as it is there, the header knows of it.
            media::wipe(self.devices.data, moved.offset, size).map_err(wipe_error)?;
        }
        let (area, size) = self.area();
        let metadata = self.volume.metadata();
        let verification = metadata.reencryption_digest(&self.course.state).map(|digest| digest.id);
        let layout = self.course.after(self.course.total)?;
        let active = layout.segments.iter().filter(|segment| !segment.is_backup()).cloned();
        let active: Vec<Segment> = active.collect();
        let digests: Vec<(u32, Vec<u32>)> = layout
            .digests
            .into_iter()
            .map(|(digest, ids)| {
                (digest, ids.into_iter().filter(|id| active.iter().any(|s| s.id == *id)).collect())
            })
            .collect();
        let requirements = metadata.config().requirements.iter().filter(|r| !r.is_reencryption()).cloned();
        let requirements: Vec<Requirement> = requirements.collect();
        let mut next = metadata.compose().segments(&active, &digests).requirements(&requirements);
        next = next.without_keyslot(self.course.state.keyslot);
        if let Some(digest) = verification {
            next = next.without_digest(digest);
        }
        self.commit(next.finish().map_err(ChangeError::Header)?)?;
        self.forget_old_key(area, size)
    }

    /// Wipes the area of the zones, and the keyslots of the key that encrypts nothing any more.
    fn forget_old_key(&mut self, area: u64, size: u64) -> Result<(), ReencryptError> {
        let header = self.devices.header;
        media::wipe(header, area, size).map_err(wipe_error)?;
        let state = &self.course.state;
        let Some(old) = state.digest_previous.filter(|old| Some(*old) != state.digest_last) else {
            return Ok(());
        };
        let metadata = self.volume.metadata();
        let slots = metadata.digests().iter().find(|digest| digest.id == old).map(|digest| &digest.keyslots);
        // intended: no digest, no keyslots.
        let slots: Vec<u32> = slots.cloned().unwrap_or_default();
        let mut next = metadata.compose();
        for slot in &slots {
            if let Some(keyslot) = metadata.keyslot(*slot) {
                let (offset, size) = (keyslot.area.offset, keyslot.area.size);
                media::wipe(header, offset, size).map_err(wipe_error)?;
            }
            next = next.without_keyslot(*slot);
        }
        let next = next.without_digest(old).finish().map_err(ChangeError::Header)?;
        self.commit(next)
    }

    fn area(&self) -> (u64, u64) {
        (self.course.state.area_offset, self.course.state.area_size)
    }

    /// Bytes of the area that a zone's protection takes.
    fn area_needed(&self, len: u64) -> Result<u64, ReencryptError> {
        match self.protection {
            Protection::Checksum { hash, sector }
                if len.is_multiple_of(sector.into()) && sector == self.alignment() =>
            {
                // cannot be divided by 0: checksums have sectors of 512 bytes at least.
                let hashes = len.checked_div(sector.into()).unwrap_or(0);
                // intended: more bytes than an area can have are refused.
                Ok(hashes.saturating_mul(hash.output_len() as u64))
            }
            Protection::Checksum { .. } => Err(ReencryptError::Protection),
            Protection::Journal => Ok(len),
            Protection::None | Protection::Elsewhere => Ok(0),
        }
    }

    /// Writes the next header, under the metadata lock, unless somebody else has changed it.
    fn commit(&mut self, metadata: Metadata) -> Result<(), ReencryptError> {
        let header = self.devices.header;
        let _lock = MetadataLock::take(header, LockMode::Exclusive)?;
        let found = media::read_pair(header).map_err(ChangeError::Open)?;
        let (now, known) = (&found.header.binary, &self.volume.pair.header.binary);
        if now.uuid != known.uuid || now.sequence != known.sequence {
            return Err(ChangeError::ChangedMeanwhile.into());
        }
        let mut binary = known.clone();
        binary.sequence = binary.sequence.checked_add(1).ok_or(ChangeError::SequenceExhausted)?;
        session::check_fits(&metadata, &binary)?;
        let next = Header { binary, metadata };
        media::write_pair(header, &found, &next)?;
        self.volume.pair = found;
        self.volume.pair.header = next;
        (self.volume.pair.primary, self.volume.pair.secondary) = (None, None);
        if let Ok(state) = self.volume.metadata().reencryption() {
            self.course = Course::new(state, self.devices, self.volume.header_size())?;
        }
        Ok(())
    }
}

impl core::fmt::Debug for Rewriting<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Rewriting").field("state", &self.course.state).finish_non_exhaustive()
    }
}

/// Whether a key can't be had from its keyslots with this passphrase, so that they may be destroyed.
fn is_lost(error: &UnlockError) -> bool {
    matches!(
        error,
        UnlockError::WrongPassphrase
            | UnlockError::WrongPassphraseOrDamaged { .. }
            | UnlockError::KeyslotDamaged { .. }
    )
}

fn wipe_error(error: ChangeError) -> ReencryptError {
    ReencryptError::Wipe(Box::new(error))
}

/// What the digest of a re-encryption is a digest of.
fn verification(
    state: &Reencryption,
    old: Option<&VolumeKey>,
    new: Option<&VolumeKey>,
) -> Result<VolumeKey, ReencryptError> {
    let prefix = state.verification_prefix();
    let metadata = state.verified_metadata()?;
    let new = new.filter(|_| state.digest_last != state.digest_previous);
    let parts =
        [Some(prefix.as_slice()), old.map(VolumeKey::expose), new.map(VolumeKey::expose), Some(&metadata)];
    let len = parts.iter().flatten().map(|part| part.len()).sum();
    let mut whole = SecretBytes::zeroed(len);
    for (place, byte) in whole.iter_mut().zip(parts.iter().flatten().flat_map(|part| part.iter())) {
        *place = *byte;
    }
    Ok(VolumeKey::new(whole))
}

/// The digest by which a re-encryption that is about to begin will be verified.
fn verification_digest(
    state: &Reencryption,
    old: Option<&VolumeKey>,
    new: Option<&VolumeKey>,
    id: u32,
    forced: bool,
) -> Result<Digest, ReencryptError> {
    let data = verification(state, old, new)?;
    Ok(keyslot::new_digest::<ChangeError>(id, &data, Hash::Sha256, forced, vec![state.keyslot], Vec::new())?)
}

fn mapper(segment: &Segment, key: &VolumeKey) -> Result<Option<Locked<Mapper>>, ReencryptError> {
    let SegmentKind::Crypt { encryption, sector_size, .. } = &segment.kind else { return Ok(None) };
    let spec = CipherSpec::from_str(encryption).map_err(UnlockError::UnsupportedCipher)?;
    let options = MapperOptions { data_unit: *sector_size as usize, ..MapperOptions::default() };
    let mapper = Locked::try_new_with(|| Mapper::new(&spec, key.expose(), &options));
    Ok(Some(mapper.map_err(UnlockError::Key)?))
}

/// The mapper of a segment in the middle of the data.
fn mapper_at(segment: &Segment, key: &VolumeKey) -> Result<Locked<Mapper>, ReencryptError> {
    let SegmentKind::Crypt { encryption, sector_size, iv_tweak, .. } = &segment.kind else {
        return Err(ReencryptError::UnknownKind);
    };
    let spec = CipherSpec::from_str(encryption).map_err(UnlockError::UnsupportedCipher)?;
    let options =
        MapperOptions { data_unit: *sector_size as usize, iv_offset: *iv_tweak, ..MapperOptions::default() };
    Ok(Locked::try_new_with(|| Mapper::new(&spec, key.expose(), &options)).map_err(UnlockError::Key)?)
}

fn protection(resilience: &Resilience) -> Result<Protection, ReencryptError> {
    Ok(match resilience {
        Resilience::None => Protection::None,
        Resilience::Journal | Resilience::DataShiftJournal(_) => Protection::Journal,
        // Whoever hashes so much at once is no program that is known.
        Resilience::Checksum(Checksums { sector_size, .. })
        | Resilience::DataShiftChecksum(Checksums { sector_size, .. }, _)
            if *sector_size > MAX_HASHED =>
        {
            return Err(ReencryptError::Protection);
        }
        Resilience::Checksum(Checksums { hash, sector_size })
        | Resilience::DataShiftChecksum(Checksums { hash, sector_size }, _) => Protection::Checksum {
            hash: Hash::from_name(hash).ok_or(UnlockError::UnsupportedHash)?,
            sector: *sector_size,
        },
        Resilience::DataShift(_) => Protection::Elsewhere,
    })
}

#[cfg(test)]
mod tests;
