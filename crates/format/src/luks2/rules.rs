//! Rules that relate parts of the metadata to each other: bounds, overlaps, references, keys and their ciphers.

use core::str::FromStr;

use atrest_cipher::CipherSpec;

use super::reencrypt::HOT;
use super::view::{AreaKind, Keyslot, KeyslotKind, Requirement, Segment, SegmentKind, SegmentSize};
use super::{
    AREA_ALIGNMENT, HEADER_IN_FILE, HEADER_SIZES, HeaderError, MAX_BYTES, MAX_KEYSLOTS_SIZE, Metadata, Place,
    Section, area_size,
};

/// Applies every rule; `json_size` is the size of the JSON area in bytes.
pub(crate) fn check(metadata: &Metadata, json_size: u64) -> Result<(), HeaderError> {
    sizes(metadata, json_size)?;
    references(metadata)?;
    segments(metadata)?;
    data_start(metadata)?;
    areas(metadata)?;
    keys(metadata)?;
    sealed(metadata)?;
    reencryption(metadata)
}

fn sizes(metadata: &Metadata, must: u64) -> Result<(), HeaderError> {
    let config = metadata.config();
    if config.json_size != must || !HEADER_SIZES.iter().any(|size| size.checked_sub(4096) == Some(must)) {
        return Err(HeaderError::JsonSize { claims: config.json_size, must });
    }
    let (place, value) = (Section::Config.itself().at("keyslots_size"), config.keyslots_size);
    if !value.is_multiple_of(AREA_ALIGNMENT) {
        return Err(HeaderError::Misaligned { place, value, multiple: AREA_ALIGNMENT });
    }
    if value > MAX_KEYSLOTS_SIZE {
        return Err(HeaderError::OutOfBounds { place, value });
    }
    Ok(())
}

fn references(metadata: &Metadata) -> Result<(), HeaderError> {
    let keyslots_exist =
        |ids: &[u32], place: Place| match ids.iter().all(|id| metadata.keyslot(*id).is_some()) {
            true => Ok(()),
            false => Err(HeaderError::UnknownReference { place }),
        };
    for token in metadata.tokens() {
        keyslots_exist(&token.keyslots, Section::Tokens.member(token.id).at("keyslots"))?;
    }
    for digest in metadata.digests() {
        let item = Section::Digests.member(digest.id);
        keyslots_exist(&digest.keyslots, item.at("keyslots"))?;
        let known = |id: &u32| metadata.segments().iter().any(|segment| segment.id == *id);
        if !digest.segments.iter().all(known) {
            return Err(HeaderError::UnknownReference { place: item.at("segments") });
        }
    }
    for keyslot in metadata.keyslots() {
        let digests = metadata.digests().iter().filter(|digest| digest.keyslots.contains(&keyslot.id));
        // At most MAX_DIGESTS.
        let count = digests.count() as u32;
        if count != 1 && matches!(keyslot.kind, KeyslotKind::Luks2 { .. }) {
            return Err(HeaderError::KeyslotDigests { keyslot: keyslot.id, count });
        }
    }
    for segment in metadata.segments() {
        if matches!(segment.kind, SegmentKind::Crypt { .. } | SegmentKind::Sealed { .. })
            && metadata.digest_of_segment(segment.id).is_none()
        {
            return Err(HeaderError::SegmentWithoutDigest { segment: segment.id });
        }
    }
    Ok(())
}

fn segments(metadata: &Metadata) -> Result<(), HeaderError> {
    let all = metadata.segments();
    let count = all.iter().take_while(|segment| !segment.is_backup()).count();
    let numbered = all.iter().zip(0_u32..).take(count).all(|(segment, id)| segment.id == id);
    let backups_last = all.iter().skip(count).all(Segment::is_backup);
    // As in cryptsetup: the first backup has a number that could be that of a segment.
    let first_backup = all.get(count).map(|backup| usize::try_from(backup.id));
    let backups_near = first_backup.is_none_or(|id| id.is_ok_and(|id| id < all.len()));
    if count == 0 || !numbered || !backups_last || !backups_near {
        return Err(HeaderError::SegmentNumbers);
    }
    let active = || all.iter().take(count);
    // cannot be less: count is not 0.
    for segment in active().take(count.saturating_sub(1)) {
        if segment.size == SegmentSize::Dynamic {
            return Err(HeaderError::SegmentAfterDynamic { segment: segment.id });
        }
    }
    for a in active() {
        let end = match a.size {
            SegmentSize::Dynamic => Some(u64::MAX),
            SegmentSize::Fixed(size) => a.offset.checked_add(size),
        };
        let end = end.ok_or(HeaderError::SegmentOverlap { a: a.id, b: a.id })?;
        for b in active().filter(|b| b.id != a.id) {
            if (a.offset..end).contains(&b.offset) {
                return Err(HeaderError::SegmentOverlap { a: a.id.min(b.id), b: a.id.max(b.id) });
            }
        }
    }
    // Backup segments as well: re-encryption computes with them.
    for segment in all {
        let item = Section::Segments.member(segment.id);
        let size = match segment.size {
            SegmentSize::Dynamic => 0,
            SegmentSize::Fixed(size) => size,
        };
        for (place, value) in [(item.at("offset"), segment.offset), (item.at("size"), size)] {
            if value > MAX_BYTES {
                return Err(HeaderError::OutOfBounds { place, value });
            }
        }
    }
    Ok(())
}

/// Data at offset 0 means a detached header, which has no data behind it. So has one that says that it lies in a file.
fn data_start(metadata: &Metadata) -> Result<(), HeaderError> {
    if metadata.tokens().iter().any(|token| token.kind.starts_with(HEADER_IN_FILE)) {
        return Ok(());
    }
    let crypt = metadata.segments().iter().filter(|s| matches!(s.kind, SegmentKind::Crypt { .. }));
    let end = metadata.keyslots_end();
    match crypt.map(|segment| segment.offset).min() {
        Some(data) if data != 0 && data < end => Err(HeaderError::KeyslotsReachData { end, data }),
        _ => Ok(()),
    }
}

fn areas(metadata: &Metadata) -> Result<(), HeaderError> {
    let (start, end) = (metadata.keyslots_start(), metadata.keyslots_end());
    for a in metadata.keyslots() {
        let (offset, size) = (a.area.offset, a.area.size);
        let out = HeaderError::AreaOutOfBounds { keyslot: a.id, offset, size };
        let area_end = offset.checked_add(size).filter(|_| size > 0).ok_or(out)?;
        if offset < start || area_end > end {
            return Err(out);
        }
        let (place, value) = (Section::Keyslots.member(a.id).at("area.offset"), offset);
        if !value.is_multiple_of(AREA_ALIGNMENT) {
            return Err(HeaderError::Misaligned { place, value, multiple: AREA_ALIGNMENT });
        }
        let overlaps = |b: &&Keyslot| b.id != a.id && (offset..area_end).contains(&b.area.offset);
        if let Some(b) = metadata.keyslots().iter().find(overlaps) {
            return Err(HeaderError::AreaOverlap { a: a.id.min(b.id), b: a.id.max(b.id) });
        }
    }
    Ok(())
}

fn keys(metadata: &Metadata) -> Result<(), HeaderError> {
    for segment in metadata.segments() {
        if let SegmentKind::Crypt { encryption, .. } = &segment.kind {
            let place = Section::Segments.member(segment.id).at("encryption");
            if encryption.is_empty() {
                return Err(HeaderError::Missing(place));
            }
            not_null(encryption, place)?;
        }
    }
    for keyslot in metadata.keyslots() {
        // It holds no key, and says so by one byte.
        if matches!(keyslot.kind, KeyslotKind::Reencrypt { .. }) && keyslot.key_len != 1 {
            let place = Section::Keyslots.member(keyslot.id).at("key_size");
            return Err(HeaderError::OutOfBounds { place, value: keyslot.key_len.into() });
        }
        let (KeyslotKind::Luks2 { .. }, AreaKind::Raw { encryption, key_len }) =
            (&keyslot.kind, &keyslot.area.kind)
        else {
            continue;
        };
        let item = Section::Keyslots.member(keyslot.id);
        not_null(encryption, item.at("area.encryption"))?;
        if !fits(encryption, *key_len) {
            return Err(HeaderError::KeyLength { place: item.at("area.key_size"), bytes: (*key_len).into() });
        }
        let place = item.at("key_size");
        if keyslot.key_len == 0 {
            return Err(HeaderError::OutOfBounds { place, value: 0 });
        }
        // The last stripe is padded to a sector; cryptsetup rounds the area up further.
        // cannot overflow: a number of 32 bits times 4000.
        let needs = u64::from(keyslot.key_len).saturating_mul(4000).next_multiple_of(512);
        debug_assert!(needs <= area_size(keyslot.key_len));
        if keyslot.area.size < needs {
            return Err(HeaderError::AreaTooSmall { keyslot: keyslot.id, has: keyslot.area.size, needs });
        }
        let digest = metadata.digest_of_keyslot(keyslot.id);
        for segment in metadata.segments() {
            let bound = digest.is_some_and(|digest| digest.segments.contains(&segment.id));
            // What is rewritten now belongs to both keys, and its cipher is that of the new one.
            let of_several = |id: u32| {
                metadata.digests().iter().filter(|digest| digest.segments.contains(&id)).count() > 1
            };
            if segment.has_flag(HOT) && of_several(segment.id) {
                continue;
            }
            let SegmentKind::Crypt { encryption, integrity: None, .. } = &segment.kind else { continue };
            if bound && !fits(encryption, keyslot.key_len) {
                return Err(HeaderError::KeyLength { place, bytes: keyslot.key_len.into() });
            }
        }
    }
    Ok(())
}

/// A cipher that is not known can't be judged here; unlocking says so.
fn fits(encryption: &str, key_len: u32) -> bool {
    let Ok(bytes) = usize::try_from(key_len) else { return false };
    CipherSpec::from_str(encryption).map_or(true, |spec| spec.key_len_is_valid(bytes))
}

fn not_null(encryption: &str, place: Place) -> Result<(), HeaderError> {
    let null = CipherSpec::from_str(encryption).is_ok_and(|spec| spec.is_null());
    // Also in spellings that our parser does not take.
    match null || encryption.contains("cipher_null") || encryption.contains("null)") {
        true => Err(HeaderError::NullCipher(place)),
        false => Ok(()),
    }
}

/// A sealed volume is one segment, and programs that don't know that are kept from it by the requirement.
fn sealed(metadata: &Metadata) -> Result<(), HeaderError> {
    let count = metadata.segments().iter().filter(|s| matches!(s.kind, SegmentKind::Sealed { .. })).count();
    let required = metadata.config().requirements.contains(&Requirement::Sealed);
    let alone = metadata.segments().len() == 1;
    match required == (count == 1) && (count == 0 || alone) {
        true => Ok(()),
        false => Err(HeaderError::Sealed),
    }
}

/// One keyslot and one requirement belong together. A version that is not known may keep what it needs elsewhere.
fn reencryption(metadata: &Metadata) -> Result<(), HeaderError> {
    let keyslots = metadata.keyslots().iter();
    let count = keyslots.filter(|keyslot| matches!(keyslot.kind, KeyslotKind::Reencrypt { .. })).count();
    let requirements = &metadata.config().requirements;
    let of_any_version = requirements.iter().filter(|requirement| requirement.is_any_online_reencryption());
    let known = |requirement: &Requirement| matches!(requirement, Requirement::OnlineReencrypt(_));
    let fits = match (of_any_version.count(), count) {
        (0, 0) | (1, 1) => true,
        (1, 0) => !requirements.iter().any(known),
        _ => false,
    };
    if fits { Ok(()) } else { Err(HeaderError::ReencryptionState) }
}
