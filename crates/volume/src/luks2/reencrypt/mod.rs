//! Re-encryption by LUKS2's own format, so that cryptsetup resumes what is begun here and the other way round.
//!
//! This room keeps the metadata: what the next hot zone is, what the header says before and after it, and when something
//! may be forgotten. Moving the data is the engine's. For each zone, in this order, each step durable before the next:
//! what protects the zone goes to the keyslot's area; the header says that the zone is hot; the zone is written; the header
//! says that it is done. Header copies are written one after the other, as for every change.

mod begin;
mod decrypt;
mod encrypt;
mod end;
mod error;
mod interrupted;
mod keys;
mod resume;
mod zone;

use atrest_cipher::Mapper;
use atrest_device::{LockMode, Media};
use atrest_format::luks2::{Header, Metadata, ReencryptMode, Reencryption, Segment, SegmentKind};
use atrest_kdf::Hash;
use atrest_secret::Locked;

pub use begin::{NewKey, ReencryptOptions, ResilienceKind};
pub use decrypt::DecryptOptions;
pub use encrypt::{
    Conversion, EncryptOptions, begin_encryption, begin_encryption_with_key, interrupted_conversion,
};
pub use error::ReencryptError;
pub use interrupted::Unfinished;
pub use resume::ReencryptKeys;
pub use zone::Zone;

use keys::{mapper, mapper_at, protection, target, verification, verification_digest};
use zone::{Course, Kind, unit_of};

use super::{Luks2, keyslot, media, session};
use crate::lock::MetadataLock;
use crate::{ChangeError, CryptFlags, Devices, Volume, VolumeFormat, VolumeKey};

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

/// The keys with which a volume in the middle of its re-encryption is put together.
#[derive(Clone, Copy)]
pub struct SegmentKeys<'a> {
    /// Of what has not been done yet; `None` for plaintext.
    pub old: Option<&'a VolumeKey>,
    /// Of what is done; `None` for plaintext.
    pub new: Option<&'a VolumeKey>,
    /// Keep them beside each segment, for dm-crypt ([`Volume::targets`]).
    pub keep: bool,
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

    /// Goes on with the first `bytes` of the data alone, a multiple of [`alignment`](Self::alignment). What lies behind them stays as it
    /// is, and can't be read when the old key has gone.
    ///
    /// # Errors
    /// [`ReencryptError::Part`] if that is more than there is or less than is done, if it was begun with another
    /// part, or if data moves. [`ReencryptError::Misaligned`] if it is no such multiple. It is then as before.
    pub fn limit_to(&mut self, bytes: u64) -> Result<(), ReencryptError> {
        let course = Course::new(self.course.state.clone(), self.devices, self.volume.header_size())?;
        self.course = course.limited(bytes, self.alignment().into())?;
        if let Some(Sides { old, new }) = &mut self.sides {
            (old.len, new.len) = (bytes, bytes);
        }
        Ok(())
    }

    /// Takes out what serves the volume meanwhile, once. `None` where data moves, or if it was taken.
    pub fn take_sides(&mut self) -> Option<Sides> {
        self.sides.take()
    }

    /// Whether data moves to another place, so that nothing can serve it meanwhile.
    pub fn moves(&self) -> bool {
        matches!(self.course.kind, Kind::BehindHeader | Kind::AwayFromHeader | Kind::OverHeader)
    }

    /// The volume when all is done. `None` where data moves, or if the sides were taken.
    pub fn into_done(self) -> Option<Volume> {
        let Sides { new, .. } = self.sides?;
        Some(Volume::new(VolumeFormat::Luks2, vec![new]).with_uuid(self.volume.uuid()))
    }

    /// Of a part alone, where one was asked for.
    fn of_part(mut self, part: Option<u64>) -> Result<Self, ReencryptError> {
        part.map_or(Ok(()), |part| self.limit_to(part)).map(|()| self)
    }

    /// Whether zones follow one another from the end of the data.
    pub fn is_backward(&self) -> bool {
        matches!(self.course.kind, Kind::Backward | Kind::BehindHeader | Kind::AwayFromHeader)
    }

    /// The volume in its present state, as long as nobody goes on with the re-encryption. `None` if a zone is half-written, or if the key of a segment was not given.
    ///
    /// # Errors
    /// [`ReencryptError::Change`] if a segment can't be served.
    pub fn into_volume(self, keys: &SegmentKeys<'_>) -> Result<Option<Volume>, ReencryptError> {
        match self.course.state.hot {
            Some(_) => Ok(None),
            None => self.volume_of(&self.course.state.active, self.course.done()?, keys),
        }
    }

    /// The volume as it is once the zone that was interrupted is done. `None` if none was, or if the key of a segment was not given.
    pub(super) fn volume_recovered(&self, keys: &SegmentKeys<'_>) -> Result<Option<Volume>, ReencryptError> {
        let Some(zone) = self.interrupted()? else { return Ok(None) };
        self.volume_after(&zone, keys)
    }

    /// The volume as it is once `zone`, the interrupted one or the next, is done. `None` if the key of a segment was not given.
    ///
    /// # Errors
    /// [`ReencryptError::Row`] for another zone, [`ReencryptError::Change`] if a segment can't be served.
    pub fn volume_after(
        &self,
        zone: &Zone,
        keys: &SegmentKeys<'_>,
    ) -> Result<Option<Volume>, ReencryptError> {
        let done = self.course.done_with(zone)?;
        let row = self.course.after(done)?.segments;
        let row: Vec<Segment> = row.into_iter().filter(|segment| !segment.is_backup()).collect();
        self.volume_of(&row, done, keys)
    }

    /// The volume as the header has it; as it was before the zone, if one is hot. `None` if the key of a segment was not given.
    ///
    /// # Errors
    /// [`ReencryptError::Row`] if the segments are of no step, [`ReencryptError::Change`] if a segment can't be served.
    pub fn as_it_is(&self, keys: &SegmentKeys<'_>) -> Result<Option<Volume>, ReencryptError> {
        let done = self.course.done()?;
        if self.course.state.hot.is_none() {
            return self.volume_of(&self.course.state.active, done, keys);
        }
        let row = self.course.after(done)?.segments;
        let row: Vec<Segment> = row.into_iter().filter(|segment| !segment.is_backup()).collect();
        self.volume_of(&row, done, keys)
    }

    /// The volume of a row of segments, when `done` bytes are done and no zone is hot.
    fn volume_of(
        &self,
        row: &[Segment],
        done: u64,
        keys: &SegmentKeys<'_>,
    ) -> Result<Option<Volume>, ReencryptError> {
        let device = self.devices.data.size();
        let (mut segments, mut targets, mut start) = (Vec::new(), Vec::new(), 0_u64);
        for (index, segment) in row.iter().enumerate() {
            let state = &self.course.state;
            let (key, digest) = match self.course.is_new(segment, index == 0, done) {
                true => (keys.new, state.digest_last),
                false => (keys.old, state.digest_previous),
            };
            // intended: what is left of the data; the row was compared with it.
            let left = self.course.total.saturating_sub(start);
            let len = super::unlock::run(segment, device).min(left);
            if len == 0 {
                continue;
            }
            let protection = match (&segment.kind, key) {
                (SegmentKind::Linear, _) => crate::Protection::Identity,
                (_, Some(key)) => {
                    if keys.keep {
                        targets.push(target(segment, (start, len), key, digest)?);
                    }
                    crate::Protection::Mapper(mapper_at(segment, key)?)
                }
                // All data is done, and the passphrase of one key alone was asked for.
                (_, None) => return Ok(None),
            };
            segments.push(crate::Segment { start, len, media_offset: segment.offset, protection });
            // cannot overflow: not more than all data.
            start = start.saturating_add(len);
        }
        let flags = self.volume.metadata().config().flags.iter().map(String::as_str);
        Ok(Some(
            Volume::new(VolumeFormat::Luks2, segments)
                .with_uuid(self.volume.uuid())
                .with_targets(targets)
                .with_flags(CryptFlags::from_names(flags)),
        ))
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

#[cfg(test)]
mod tests;
