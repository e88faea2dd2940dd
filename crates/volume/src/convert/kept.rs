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
use atrest_format::luks2::{Digest, DigestKind, Header as Header2};
use atrest_keyslot::luks1::{HEADER_LEN, Header, MAGIC, SET_ASIDE_MAGIC};
use atrest_secret::{OsRandom, Random};

use super::{ConvertError, Obstacle, SECTOR, to_luks1, to_luks2};
use crate::lock::MetadataLock;
use crate::luks1::media as media1;
use crate::luks2::{Luks2, media};
use crate::{ChangeError, LockedVolume, OpenError};

/// Where a header of LUKS1 has its UUID, and how many bytes that has at most.
const UUID: (usize, usize) = (168, 40);
/// Bytes that are overwritten at once.
const CHUNK: u64 = 1 << 20;

/// What lies in front of the data of a volume whose header is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// A header of this volume that does not count: the file does.
    SetAside,
    /// A header of this volume that counts, for a key that the file has, too.
    Counts,
    /// Something else.
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
    let mut bytes = [0; HEADER_LEN];
    if device.size() < bytes.len() as u64 {
        return Ok(None);
    }
    device.read_at(0, &mut bytes)?;
    Ok(match bytes.starts_with(&SET_ASIDE_MAGIC) {
        true => Some(uuid_in(&bytes)),
        false => None,
    })
}

/// What lies in front of the data of a volume whose header `kept` is.
///
/// # Errors
/// [`DeviceError`] if the device can't be read.
pub fn front(device: &dyn Media, kept: &Luks2) -> Result<Front, DeviceError> {
    if let Some(uuid) = uuid_set_aside(device)? {
        return Ok(if uuid == kept.uuid() { Front::SetAside } else { Front::Other });
    }
    let header = match media1::read_header(device) {
        Ok(header) => header,
        Err(OpenError::Device(error)) => return Err(error),
        Err(_) => return Ok(Front::Other),
    };
    let has = |digest: &Digest| matches!(&digest.kind, DigestKind::Pbkdf2 { salt, digest, .. } if salt == header.digest_salt() && digest.starts_with(header.digest()));
    let counts = header.uuid() == kept.uuid() && kept.metadata().digests().iter().any(has);
    Ok(if counts { Front::Counts } else { Front::Other })
}

/// Lets the header in `kept` count in place of the one in front of the data. Does nothing if it does already.
///
/// # Errors
/// [`Obstacle::Front`] if the header in front of the data is another one, or counts although `kept` has begun; and [`ConvertError::Change`] if the device fails.
pub fn set_aside(device: &dyn Media, kept: &Luks2) -> Result<(), ConvertError> {
    let _lock = MetadataLock::take(device, LockMode::Exclusive)?;
    match front(device, kept)? {
        Front::SetAside => return Ok(()),
        // One that has begun was set aside before: what counts now is of a later time.
        Front::Counts if kept.metadata().config().requirements.is_empty() => {}
        Front::Counts | Front::Other => return Err(Obstacle::Front.into()),
    }
    let mut sector = [0; SECTOR];
    device.read_at(0, &mut sector)?;
    // cannot be shorter: a sector has 512 bytes.
    sector.get_mut(..MAGIC.len()).unwrap_or_default().copy_from_slice(&SET_ASIDE_MAGIC);
    device.write_at(0, &sector)?;
    device.flush()?;
    Ok(())
}

/// Writes the header in `kept` in front of the data as one of LUKS1, where [`set_aside`] has left another one. Keyslots have the numbers that
/// they had, and the places that LUKS1 gives them by default.
///
/// # Errors
/// [`Obstacle::Front`] if no header was set aside there; else as [`convert`](super::convert). It can be done again.
pub fn import(kept: &dyn Media, device: &dyn Media) -> Result<LockedVolume, ConvertError> {
    if device.is_read_only() {
        return Err(DeviceError::new(Operation::Write, 0, 0, Cause::ReadOnly).into());
    }
    let lock = MetadataLock::take(device, LockMode::Exclusive)?;
    let pair = media::read_pair(kept)?;
    if pair.primary.is_some() || pair.secondary.is_some() {
        return Err(Obstacle::Damaged.into());
    }
    if uuid_set_aside(device)?.as_deref() != Some(pair.header.binary.uuid.as_str()) {
        return Err(Obstacle::Front.into());
    }
    let header = to_luks1::with_default_places(&pair.header)?;
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

/// Up to the first zero byte. Of what is no text something else than any UUID comes.
fn uuid_in(header: &[u8; HEADER_LEN]) -> String {
    let (offset, len) = UUID;
    let field = header.iter().skip(offset).take(len);
    field.take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect()
}
