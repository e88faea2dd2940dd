//! LUKS2 to LUKS1. The header of LUKS1 takes the first two sectors, and its keyslots the areas that they have.

use atrest_device::{Cause, DeviceError, Media, Operation};
use atrest_format::luks2::{
    AF_STRIPES, AreaKind, DigestKind, Header as Header2, Kdf, Keyslot, KeyslotKind, Metadata, Priority,
    SegmentKind, SegmentSize,
};
use atrest_kdf::Hash;
use atrest_keyslot::luks1::{
    AREA_ALIGNMENT, DIGEST_LEN, HEADER_LEN, Header, HeaderParts, SALT_LEN, SLOTS, STRIPES, area_sectors,
};

use super::arrange::{self, Move};
use super::{ConvertError, Obstacle, SECTOR, marker};
use crate::luks2::media;

pub fn to_luks1(device: &dyn Media) -> Result<(), ConvertError> {
    if device.is_read_only() {
        return Err(DeviceError::new(Operation::Write, 0, 0, Cause::ReadOnly).into());
    }
    let pair = media::read_pair(device)?;
    // From the first write on until the last one the second copy is the only one.
    if pair.primary.is_some() || pair.secondary.is_some() {
        return Err(Obstacle::Damaged.into());
    }
    // It goes back in front of its data, and not here.
    if pair.header.metadata.tokens().iter().any(marker::is_kept) {
        return Err(Obstacle::Tokens.into());
    }
    let (moves, metadata) = arranged(&pair.header.metadata, device.size())?;
    let header = in_their_places(&Header2 { metadata, ..pair.header.clone() }, device.size())?;
    arrange::carry_out(device, &moves)?;
    let mut bytes = [0; 2 * SECTOR];
    // cannot be shorter: a header has 592 bytes.
    bytes.get_mut(..HEADER_LEN).unwrap_or_default().copy_from_slice(&header.encode());
    let (first, second) = bytes.split_at(SECTOR);
    device.write_at(SECTOR as u64, second)?;
    device.flush()?;
    device.write_at(0, first)?;
    device.flush()?;
    // What is left of both copies, up to where the areas of keyslots in use begin at the earliest.
    let behind = bytes.len() as u64;
    // cannot be less: both copies have 32 KiB.
    device.write_zeroes(behind, pair.header.metadata.keyslots_start().saturating_sub(behind))?;
    device.flush()?;
    Ok(())
}

/// The metadata with keyslot areas where those of LUKS1 can be, and what is to be moved for that.
fn arranged(metadata: &Metadata, device: u64) -> Result<(Vec<Move>, Metadata), ConvertError> {
    let Some(first) = metadata.keyslots().first() else { return Err(Obstacle::NoKeyslot.into()) };
    let [segment] = metadata.segments() else { return Err(Obstacle::Segments.into()) };
    let len = area_sectors(first.key_len as usize, STRIPES).next_multiple_of(AREA_ALIGNMENT.into());
    // cannot overflow: an area has less than 2^17 sectors.
    let len = len.saturating_mul(SECTOR as u64);
    arrange::plan(metadata, len, if segment.offset == 0 { device } else { segment.offset })
}

/// The header of LUKS1 whose keyslots in use have the places that they have now.
fn in_their_places(old: &Header2, device: u64) -> Result<Header, ConvertError> {
    let mut header = with_default_places(old)?;
    let mut in_use = [None; SLOTS];
    for keyslot in old.metadata.keyslots() {
        let fault = Obstacle::Keyslot { slot: keyslot.id };
        let sector = u32::try_from(keyslot.area.offset / 512).map_err(|_| fault)?;
        *in_use.get_mut(number(&old.metadata, keyslot.id)).ok_or(fault)? = Some(sector);
    }
    let [segment] = old.metadata.segments() else { return Err(Obstacle::Segments.into()) };
    let end = if segment.offset == 0 { device } else { segment.offset };
    // cannot be longer: a key has 32 bits of length in both.
    let key_len = u32::try_from(header.key_len()).map_err(|_| Obstacle::NoRoom)?;
    header.place_areas(&places(&in_use, key_len, end)?).map_err(|_| Obstacle::NoRoom)?;
    Ok(header)
}

/// What of the metadata there is to say in a header of LUKS1, with the places that its keyslots have by default.
pub(super) fn with_default_places(old: &Header2) -> Result<Header, ConvertError> {
    let (metadata, binary) = (&old.metadata, &old.binary);
    let config = metadata.config();
    if !config.requirements.is_empty() {
        return Err(Obstacle::Requirements.into());
    }
    if !metadata.tokens().iter().all(marker::is_marker) {
        return Err(Obstacle::Tokens.into());
    }
    if !config.flags.is_empty() || !binary.label.as_str().is_empty() || !binary.subsystem.as_str().is_empty()
    {
        return Err(Obstacle::Texts.into());
    }
    let [segment] = metadata.segments() else { return Err(Obstacle::Segments.into()) };
    let SegmentKind::Crypt { encryption, sector_size, iv_tweak: 0, integrity: None } = &segment.kind else {
        return Err(Obstacle::Segments.into());
    };
    if *sector_size != 512 {
        return Err(Obstacle::DataUnit { bytes: *sector_size }.into());
    }
    if segment.size != SegmentSize::Dynamic || !segment.offset.is_multiple_of(SECTOR as u64) {
        return Err(Obstacle::Segments.into());
    }
    let data_sector = u32::try_from(segment.offset / 512).map_err(|_| Obstacle::Segments)?;
    let [digest] = metadata.digests() else { return Err(Obstacle::Digests.into()) };
    let DigestKind::Pbkdf2 { hash, iterations, salt, digest } = &digest.kind else {
        return Err(Obstacle::Digests.into());
    };
    // PBKDF2 makes a longer digest of the same first bytes.
    let digest = digest.first_chunk::<DIGEST_LEN>().ok_or(Obstacle::Digests)?;
    let known = Hash::named(hash).map_err(|_| Obstacle::Digests)?;
    let (cipher_name, cipher_mode) =
        encryption.split_once('-').filter(|(name, _)| !name.contains(':')).ok_or(Obstacle::Cipher)?;
    let Some(first) = metadata.keyslots().first() else { return Err(Obstacle::NoKeyslot.into()) };
    let parts = HeaderParts {
        cipher_name,
        cipher_mode,
        hash: known,
        key_len: first.key_len as usize,
        uuid: binary.uuid.as_str(),
        data_sector: Some(data_sector),
        alignment: AREA_ALIGNMENT,
        digest: *digest,
        digest_salt: *salt,
        digest_iterations: *iterations,
    };
    let mut header = Header::new(&parts).map_err(|_| Obstacle::NoRoom)?;
    for keyslot in metadata.keyslots() {
        let fault = Obstacle::Keyslot { slot: keyslot.id };
        let (iterations, salt) = slot(keyslot, first.key_len, encryption, hash).ok_or(fault)?;
        let number = number(metadata, keyslot.id);
        if header.is_in_use(number) {
            return Err(fault.into());
        }
        header.use_slot(number, iterations, salt).map_err(|_| fault)?;
    }
    Ok(header)
}

/// The number that a keyslot has in LUKS1.
pub(super) fn number(metadata: &Metadata, keyslot: u32) -> usize {
    // intended: it keeps its number where it was none of LUKS1.
    marker::number(metadata, keyslot).unwrap_or(keyslot) as usize
}

/// Iterations and salt of a keyslot that LUKS1 could have.
fn slot(keyslot: &Keyslot, key_len: u32, encryption: &str, hash: &str) -> Option<(u32, [u8; SALT_LEN])> {
    let KeyslotKind::Luks2 { af, kdf: Kdf::Pbkdf2 { hash: kdf_hash, iterations, salt } } = &keyslot.kind
    else {
        return None;
    };
    let AreaKind::Raw { encryption: area_encryption, key_len: area_key_len } = &keyslot.area.kind else {
        return None;
    };
    let same = keyslot.key_len == key_len
        && *area_key_len == key_len
        && area_encryption == encryption
        && af.stripes == AF_STRIPES
        && af.hash == hash
        && kdf_hash == hash
        && keyslot.priority == Priority::Normal;
    same.then_some((*iterations, *salt))
}

/// A place for each of the eight keyslots: those in use keep theirs, the others get what is left, from the front.
fn places(in_use: &[Option<u32>; SLOTS], key_len: u32, end: u64) -> Result<[u32; SLOTS], ConvertError> {
    let len = area_sectors(key_len as usize, STRIPES).next_multiple_of(AREA_ALIGNMENT.into());
    let mut taken: Vec<u64> = in_use.iter().flatten().copied().map(u64::from).collect();
    let mut places = [0; SLOTS];
    for (place, used) in places.iter_mut().zip(in_use) {
        if let Some(sector) = used {
            *place = *sector;
            continue;
        }
        let mut at = u64::from(AREA_ALIGNMENT);
        // cannot overflow: sectors of areas are numbers of 32 bits, and areas have less than 2^17 of them.
        while let Some(other) =
            taken.iter().find(|other| at < other.saturating_add(len) && **other < at.saturating_add(len))
        {
            // cannot overflow: as above.
            at = other.saturating_add(len);
        }
        // cannot overflow: as above.
        if at.saturating_add(len) > end / 512 {
            return Err(Obstacle::NoRoom.into());
        }
        taken.push(at);
        *place = u32::try_from(at).map_err(|_| Obstacle::NoRoom)?;
    }
    Ok(places)
}
