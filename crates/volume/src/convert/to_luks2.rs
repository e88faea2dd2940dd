//! LUKS1 to LUKS2. Both header copies take the first 32 KiB, where the area of keyslot 0 begins in LUKS1. All other areas stay where
//! they are.

use atrest_device::{Cause, DeviceError, Media, Operation};
use atrest_format::luks2::{
    AF_STRIPES, AREA_ALIGNMENT, Af, Area, AreaKind, BINARY_SIZE, BinaryHeader, Checksum, Config, CopyKind,
    Digest, DigestKind, HEADER_SIZES, Header as Header2, Kdf, Keyslot, KeyslotKind, MAX_KEYSLOTS_SIZE,
    Metadata, Priority, Segment, SegmentKind, SegmentSize, area_size,
};
use atrest_keyslot::luks1::{HEADER_LEN, Header, SLOTS};

use super::{ConvertError, Obstacle, SECTOR, marker};
use crate::luks1::media as media1;
use crate::luks2::{media, session};

/// Bytes in both header copies, of the smallest size: more is not needed for eight keyslots.
const HEADERS: u64 = 2 * HEADER_SIZES[0];
/// How long the keyslots area is at most where no data ends it: up to where data would begin by default.
pub(super) const DETACHED_END: u64 = 16 << 20;
/// Keyslots whose place is said in the header's first sector, which is written whole or not at all.
const IN_FIRST_SECTOR: usize = 6;

/// What is moved, and how.
struct Move {
    slot: usize,
    from: u64,
    to: u64,
    /// The old header that says so, in its first sector alone.
    header: Header,
}

pub fn to_luks2(device: &dyn Media, meanwhile: bool) -> Result<(), ConvertError> {
    if device.is_read_only() {
        return Err(DeviceError::new(Operation::Write, 0, 0, Cause::ReadOnly).into());
    }
    let old = media1::read_header(device)?;
    let end = end(device, &old)?;
    let moved = plan(&old, end)?;
    let places = moved.as_ref().map_or(&old, |moved| &moved.header);
    let metadata = metadata(places, end, &|slot| places.area(slot).map(|(offset, _)| offset))?;
    let metadata = with_data_at(&metadata, data_offset(&old))?;
    let metadata = if meanwhile { marker::marked(metadata)? } else { metadata };
    let header = Header2 { binary: binary(&old), metadata };
    session::check_fits(&header.metadata, &header.binary)?;
    let len = area_size(key_len(&old)?);
    if let Some(moved) = &moved {
        let area_len = old.area(moved.slot).map(|(_, len)| len).ok_or(Obstacle::NoRoom)?;
        let mut area = vec![0; area_len];
        device.read_at(moved.from, &mut area)?;
        device.write_at(moved.to, &area)?;
        device.flush()?;
        media1::write_header(device, &moved.header)?;
    }
    media::write_copy(device, &header, CopyKind::Secondary)?;
    media::write_primary_over(device, &header)?;
    if let Some(moved) = moved {
        // What the header copies have left of the old area: without its beginning nothing can be made of it, but it has no use.
        // cannot overflow: an area lies on the device.
        let old_end = moved.from.saturating_add(len).min(end);
        // cannot be less: an area is longer than both copies.
        media::wipe(device, HEADERS, old_end.saturating_sub(HEADERS))?;
    }
    Ok(())
}

/// Writes the header to a device of its own, which has room for more, with its keyslots one behind the other.
pub fn copy_to_luks2(from: &dyn Media, to: &dyn Media) -> Result<(), ConvertError> {
    let old = media1::read_header(from)?;
    if old.data_sector() == 0 {
        return Err(Obstacle::Detached.into());
    }
    let mut bytes = [0; HEADER_LEN];
    from.read_at(0, &mut bytes)?;
    let end = DETACHED_END.min(to.size()) & !(AREA_ALIGNMENT - 1);
    let len = area_size(key_len(&old)?);
    let mut places = [None; SLOTS];
    let mut at = HEADERS;
    for (slot, place) in places.iter_mut().enumerate().filter(|(slot, _)| old.is_in_use(*slot)) {
        let (offset, bytes_in_area) = old.area(slot).ok_or(Obstacle::NoRoom)?;
        let mut area = vec![0; bytes_in_area];
        from.read_at(offset, &mut area)?;
        to.write_at(at, &area)?;
        *place = Some(at);
        // cannot overflow: eight areas.
        at = at.saturating_add(len);
    }
    if at > end {
        return Err(Obstacle::NoRoom.into());
    }
    let metadata = metadata(&old, end, &|slot| places.get(slot).copied().flatten())?;
    let metadata = with_data_at(&marker::kept(marker::marked(metadata)?, &bytes)?, data_offset(&old))?;
    let header = Header2 { binary: binary(&old), metadata };
    session::check_fits(&header.metadata, &header.binary)?;
    media::write_copy(to, &header, CopyKind::Secondary)?;
    media::write_primary_over(to, &header)?;
    Ok(())
}

fn key_len(header: &Header) -> Result<u32, ConvertError> {
    u32::try_from(header.key_len()).map_err(|_| Obstacle::Cipher.into())
}

/// First byte behind the keyslots area.
fn end(device: &dyn Media, header: &Header) -> Result<u64, ConvertError> {
    let end = match header.data_sector() {
        0 => DETACHED_END.min(device.size()),
        // cannot overflow: a number of 32 bits.
        sector => u64::from(sector).saturating_mul(SECTOR as u64),
    };
    // cannot overflow: two constants.
    let end = end.min(HEADERS.saturating_add(MAX_KEYSLOTS_SIZE)) & !(AREA_ALIGNMENT - 1);
    if end > HEADERS && end <= device.size() { Ok(end) } else { Err(Obstacle::NoRoom.into()) }
}

/// Finds a place for the area that lies where the header copies will be.
fn plan(old: &Header, end: u64) -> Result<Option<Move>, ConvertError> {
    let areas: [(u64, usize); SLOTS] = core::array::from_fn(|slot| old.area(slot).unwrap_or((0, 0)));
    let in_the_way = |&(slot, area): &(usize, &(u64, usize))| old.is_in_use(slot) && area.0 < HEADERS;
    let mut found = areas.iter().enumerate().filter(in_the_way);
    let Some((slot, &(from, len))) = found.next() else { return Ok(None) };
    // Areas are longer than both copies.
    if found.next().is_some() || slot >= IN_FIRST_SECTOR {
        return Err(Obstacle::NoRoom.into());
    }
    let len = (len as u64).next_multiple_of(AREA_ALIGNMENT);
    let fits = |at: u64| {
        at >= HEADERS && at.is_multiple_of(AREA_ALIGNMENT) && at.checked_add(len).is_some_and(|to| to <= end)
    };
    // cannot overflow: areas lie before 2^41.
    let apart = |at: u64| {
        areas
            .iter()
            .all(|(other, size)| at.saturating_add(len) <= *other || other.saturating_add(*size as u64) <= at)
    };
    let gap = (HEADERS..end).step_by(AREA_ALIGNMENT as usize).find(|at| fits(*at) && apart(*at));
    // Else the place of a free keyslot, which gets this one's.
    let free = areas
        .iter()
        .enumerate()
        .take(IN_FIRST_SECTOR)
        .find(|(other, area)| !old.is_in_use(*other) && fits(area.0));
    let mut sectors: [u32; SLOTS] = core::array::from_fn(|slot| old.slot(slot).map_or(0, |slot| slot.sector));
    let to = match (gap, free) {
        (Some(gap), _) => gap,
        (None, Some((other, area))) => {
            set(&mut sectors, other, from)?;
            area.0
        }
        (None, None) => return Err(Obstacle::NoRoom.into()),
    };
    set(&mut sectors, slot, to)?;
    let mut header = old.clone();
    header.place_areas(&sectors).map_err(|_| Obstacle::NoRoom)?;
    Ok(Some(Move { slot, from, to, header }))
}

fn set(sectors: &mut [u32; SLOTS], slot: usize, byte: u64) -> Result<(), ConvertError> {
    let sector = u32::try_from(byte / 512).map_err(|_| Obstacle::NoRoom)?;
    *sectors.get_mut(slot).ok_or(Obstacle::NoRoom)? = sector;
    Ok(())
}

fn binary(old: &Header) -> BinaryHeader {
    BinaryHeader {
        header_size: HEADER_SIZES[0],
        sequence: 1,
        label: "".into(),
        subsystem: "".into(),
        uuid: old.uuid().into(),
        checksum: Checksum::Sha256,
    }
}

fn data_offset(old: &Header) -> u64 {
    // cannot overflow: a number of 32 bits.
    u64::from(old.data_sector()).saturating_mul(SECTOR as u64)
}

/// With data that begins elsewhere than at 0, where nothing is too long for the place in front of it.
fn with_data_at(metadata: &Metadata, offset: u64) -> Result<Metadata, ConvertError> {
    let segments: Vec<Segment> =
        metadata.segments().iter().cloned().map(|segment| Segment { offset, ..segment }).collect();
    Ok(metadata.compose().segments(&segments, &[(0, vec![0])]).finish()?)
}

/// What the header says, with data that begins at 0.
fn metadata(old: &Header, end: u64, place: &dyn Fn(usize) -> Option<u64>) -> Result<Metadata, ConvertError> {
    let encryption = format!("{}-{}", old.cipher_name(), old.cipher_mode());
    let hash = String::from(old.hash_name());
    let key_len = key_len(old)?;
    let mut keyslots = Vec::new();
    for (number, slot) in old.slots().filter(|(number, _)| old.is_in_use(*number)) {
        // At most seven.
        let id = number as u32;
        if slot.stripes != AF_STRIPES {
            return Err(Obstacle::Keyslot { slot: id }.into());
        }
        let aligned = place(number).filter(|offset| offset.is_multiple_of(AREA_ALIGNMENT));
        let offset = aligned.ok_or(Obstacle::Keyslot { slot: id })?;
        let kdf = Kdf::Pbkdf2 { hash: hash.clone(), iterations: slot.iterations, salt: slot.salt };
        keyslots.push(Keyslot {
            id,
            key_len,
            priority: Priority::Normal,
            area: Area {
                offset,
                size: area_size(key_len),
                kind: AreaKind::Raw { encryption: encryption.clone(), key_len },
            },
            kind: KeyslotKind::Luks2 { af: Af { stripes: AF_STRIPES, hash: hash.clone() }, kdf },
        });
    }
    let segment = Segment {
        id: 0,
        offset: 0,
        size: SegmentSize::Dynamic,
        flags: Vec::new(),
        kind: SegmentKind::Crypt { encryption, sector_size: 512, iv_tweak: 0, integrity: None },
    };
    let digest = Digest {
        id: 0,
        keyslots: keyslots.iter().map(|keyslot| keyslot.id).collect(),
        segments: vec![0],
        kind: DigestKind::Pbkdf2 {
            hash,
            iterations: old.digest_iterations(),
            salt: *old.digest_salt(),
            digest: old.digest().to_vec(),
        },
    };
    let config = Config {
        // cannot be less: a copy has 16 KiB.
        json_size: HEADER_SIZES[0].saturating_sub(BINARY_SIZE as u64),
        // cannot be less: `end` has checked it.
        keyslots_size: end.saturating_sub(HEADERS),
        flags: Vec::new(),
        requirements: Vec::new(),
    };
    Ok(Metadata::create(&keyslots, &[segment], &[digest], &config)?)
}
