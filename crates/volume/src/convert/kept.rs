//! The header of a volume of LUKS1 that lies in a file while the volume is re-encrypted: there each keyslot has room for a second place,
//! which the header in front of the data may not have.
//!
//! A power loss at any moment leaves one header that counts, on media that write a 512-byte sector whole or not at all:
//!
//! 1. [`export_meanwhile`] makes the file, as a header of LUKS2. The header in front of the data stays and counts.
//! 2. [`set_aside`] gives that one another magic, in its first sector. From now on the file counts.
//! 3. [`import`] writes a header of LUKS1 in front of the data. Its first sector, which has the magic, comes last. From then on the file
//!    has no use.

use atrest_device::{Cause, DeviceError, LockMode, Media, Operation};
use atrest_format::luks2::{DigestKind, Header as Header2, Metadata, Requirement};
use atrest_keyslot::luks1::{HEADER_LEN, Header, MAGIC, SET_ASIDE_MAGIC};
use atrest_secret::{OsRandom, Random};

use super::{ConvertError, Obstacle, SECTOR, marker, to_luks1, to_luks2};
use crate::lock::MetadataLock;
use crate::luks1::media as media1;
use crate::luks2::{Luks2, media};
use crate::{ChangeError, LockedVolume};

/// Where a header of LUKS1 has its UUID, and how many bytes that has at most.
const UUID: (usize, usize) = (168, 40);
/// Bytes that are overwritten at once.
const CHUNK: u64 = 1 << 20;

/// What lies in front of the data of a volume whose header is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// The header that the file was made of. It does not count: the file does.
    SetAside,
    /// The header that the file was made of, and not a byte of it is another one. It counts.
    Exported,
    /// The header that was made of the file, or one with its key. It counts, and the file has no use.
    PutBack,
    /// Something else: the header of another volume, or of this one at another time.
    Other,
}

/// Writes the header of a volume of LUKS1 to `to` as one of LUKS2. What `to` had is lost. Nobody may have the volume open.
///
/// # Errors
/// As [`convert`](super::convert). Nothing is written in front of the data.
pub fn export_meanwhile(from: &dyn Media, to: &dyn Media) -> Result<LockedVolume, ConvertError> {
    let lock = MetadataLock::take(from, LockMode::Shared)?;
    to_luks2::copy_to_luks2(from, to)?;
    drop(lock);
    Ok(LockedVolume::read(to)?)
}

/// UUID of a header that [`set_aside`] or cryptsetup's own re-encryption has given another magic; `None` if there is no such header.
///
/// # Errors
/// [`DeviceError`] if the device can't be read.
pub fn uuid_set_aside(device: &dyn Media) -> Result<Option<String>, DeviceError> {
    let header = bytes_of(device)?;
    Ok(header.filter(|header| header.starts_with(&SET_ASIDE_MAGIC)).map(|header| uuid_in(&header)))
}

/// What lies in front of the data of a volume whose header `kept` is.
///
/// # Errors
/// [`DeviceError`] if the device can't be read.
pub fn front(device: &dyn Media, kept: &Luks2) -> Result<Front, DeviceError> {
    Ok(bytes_of(device)?.map_or(Front::Other, |header| compare(&header, kept.metadata(), kept.uuid())))
}

/// What lies there on the media itself, after all that was written is durable.
///
/// # Errors
/// [`DeviceError`] if the device can't be flushed or read.
pub fn durable_front(device: &dyn Media, kept: &Luks2) -> Result<Front, DeviceError> {
    device.flush()?;
    let block = (device.geometry().physical_block as usize).max(media1::HEADER_AREA);
    let mut bytes = vec![0; block];
    device.read_media_at(0, &mut bytes)?;
    // cannot be shorter: it is a block.
    Ok(bytes.first_chunk().map_or(Front::Other, |header| compare(header, kept.metadata(), kept.uuid())))
}

/// What [`front`] finds there.
fn compare(bytes: &[u8; HEADER_LEN], kept: &Metadata, uuid: &str) -> Front {
    let mut header = *bytes;
    let is_aside = header.starts_with(&SET_ASIDE_MAGIC);
    if is_aside {
        with_magic(&mut header, MAGIC);
    }
    let exported = marker::exported(kept);
    let is_exported = exported.as_ref().is_some_and(|exported| exported.is_of(&header));
    let is_of_its_sector = exported.is_some_and(|exported| exported.is_of_its_first_sector(&header));
    match is_aside {
        // Its second sector may be the new one already.
        true if is_of_its_sector => Front::SetAside,
        false if is_exported => Front::Exported,
        false if !is_in_progress(kept) && has_its_key(&header, kept, uuid) => Front::PutBack,
        _ => Front::Other,
    }
}

fn has_its_key(header: &[u8], kept: &Metadata, uuid: &str) -> bool {
    let Ok(header) = Header::parse(header) else { return false };
    let digest = kept.digest_of_segment(0).map(|digest| &digest.kind);
    let Some(DigestKind::Pbkdf2 { salt, digest, .. }) = digest else { return false };
    header.uuid() == uuid && salt == header.digest_salt() && digest.starts_with(header.digest())
}

fn is_in_progress(kept: &Metadata) -> bool {
    kept.config().requirements.iter().any(Requirement::is_reencryption)
}

/// Lets the header in `kept` count in place of the one in front of the data. Does nothing if it does already.
///
/// # Errors
/// [`Obstacle::LaterFront`] if the one in front of the data counts and is not the one that `kept` was made of, to the byte, or `kept` has
/// begun; [`Obstacle::OtherFront`] if it is of another volume; [`ConvertError::Change`] if the device fails.
pub fn set_aside(device: &dyn Media, kept: &Luks2) -> Result<(), ConvertError> {
    let _lock = MetadataLock::take(device, LockMode::Exclusive)?;
    match front(device, kept)? {
        Front::SetAside => return Ok(()),
        // One that has begun was set aside before: what counts now is of a later time.
        Front::Exported if !is_in_progress(kept.metadata()) => {}
        Front::Exported | Front::PutBack => return Err(Obstacle::LaterFront.into()),
        Front::Other => return Err(Obstacle::OtherFront.into()),
    }
    let mut sector = [0; SECTOR];
    device.read_at(0, &mut sector)?;
    with_magic(&mut sector, SET_ASIDE_MAGIC);
    device.write_at(0, &sector)?;
    device.flush()?;
    Ok(())
}

fn with_magic(header: &mut [u8], magic: [u8; MAGIC.len()]) {
    header.iter_mut().zip(magic).for_each(|(byte, with)| *byte = with);
}

/// Writes the header in `kept` in front of the data as one of LUKS1, where [`set_aside`] has left another one. Keyslots have the numbers that
/// they had, and the places that LUKS1 gives them by default.
///
/// # Errors
/// [`Obstacle::OtherFront`] if no header was set aside there of which `kept` was made; else as [`convert`](super::convert). It can be done again.
pub fn import(kept: &dyn Media, device: &dyn Media) -> Result<LockedVolume, ConvertError> {
    if device.is_read_only() {
        return Err(DeviceError::new(Operation::Write, 0, 0, Cause::ReadOnly).into());
    }
    let lock = MetadataLock::take(device, LockMode::Exclusive)?;
    let pair = media::read_pair(kept)?;
    if pair.primary.is_some() || pair.secondary.is_some() {
        return Err(Obstacle::Damaged.into());
    }
    let header = to_luks1::with_default_places(&pair.header)?;
    let found = bytes_of(device)?;
    let is_aside =
        |header| compare(&header, &pair.header.metadata, pair.header.binary.uuid.as_str()) == Front::SetAside;
    if !found.is_some_and(is_aside) {
        return Err(Obstacle::OtherFront.into());
    }
    // What LUKS1 had there, also where its keyslots lay elsewhere.
    // cannot overflow: a number of 32 bits.
    let data = u64::from(header.data_sector()).saturating_mul(SECTOR as u64);
    overwrite(device, media1::HEADER_AREA as u64, data.min(to_luks2::DETACHED_END).max(header.areas_end()))?;
    copy_areas(kept, device, &pair.header, &header)?;
    let mut bytes = [0; media1::HEADER_AREA];
    // cannot be shorter: a header has 592 bytes.
    bytes.get_mut(..HEADER_LEN).unwrap_or_default().copy_from_slice(&header.encode());
    let (first, behind) = bytes.split_at(SECTOR);
    device.write_at(SECTOR as u64, behind)?;
    device.flush()?;
    device.write_at(0, first)?;
    device.flush()?;
    // Reading takes it again.
    drop(lock);
    Ok(LockedVolume::read(device)?)
}

fn copy_areas(from: &dyn Media, to: &dyn Media, old: &Header2, new: &Header) -> Result<(), ConvertError> {
    for keyslot in old.metadata.keyslots() {
        let fault = Obstacle::Keyslot { slot: keyslot.id };
        let (offset, len) = new.area(to_luks1::number(&old.metadata, keyslot.id)).ok_or(fault)?;
        let mut area = vec![0; len];
        from.read_at(keyslot.area.offset, &mut area)?;
        to.write_at(offset, &area)?;
    }
    Ok(())
}

/// By random bytes.
fn overwrite(device: &dyn Media, from: u64, to: u64) -> Result<(), ConvertError> {
    let mut noise = vec![0; CHUNK as usize];
    let mut at = from;
    while at < to {
        // cannot be less: the loop ends there.
        let len = to.saturating_sub(at).min(CHUNK);
        // cannot be longer: that is its length.
        let noise = noise.get_mut(..len as usize).unwrap_or_default();
        OsRandom.fill(noise).map_err(ChangeError::from)?;
        device.write_at(at, noise)?;
        // cannot overflow: it is `to` at most.
        at = at.saturating_add(len);
    }
    Ok(())
}

/// The bytes of a header, whatever they are; `None` if the device has fewer.
fn bytes_of(device: &dyn Media) -> Result<Option<[u8; HEADER_LEN]>, DeviceError> {
    let mut bytes = [0; HEADER_LEN];
    if device.size() < bytes.len() as u64 {
        return Ok(None);
    }
    device.read_at(0, &mut bytes)?;
    Ok(Some(bytes))
}

/// Up to the first zero byte. Of what is no text something else than any UUID comes.
fn uuid_in(header: &[u8; HEADER_LEN]) -> String {
    let (offset, len) = UUID;
    let field = header.iter().skip(offset).take(len);
    field.take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect()
}
