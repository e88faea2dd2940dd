//! What the keys of a re-encryption are needed for: the digest that binds it to them, and the mappers of its segments; and
//! how the engine is to protect a zone.

use core::str::FromStr;

use atrest_cipher::{CipherSpec, Mapper, MapperOptions};
use atrest_format::luks2::{Checksums, Digest, Reencryption, Resilience, Segment, SegmentKind};
use atrest_kdf::Hash;
use atrest_secret::{Locked, SecretBytes};

use super::{Protection, ReencryptError};
use crate::luks2::keyslot;
use crate::{ChangeError, CryptTarget, UnlockError, VolumeKey};

/// Most bytes under one hash: more than the sector of any device.
const MAX_HASHED: u32 = 64 << 10;

/// What the digest of a re-encryption is a digest of.
pub(super) fn verification(
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
pub(super) fn verification_digest(
    state: &Reencryption,
    old: Option<&VolumeKey>,
    new: Option<&VolumeKey>,
    id: u32,
    forced: bool,
) -> Result<Digest, ReencryptError> {
    let data = verification(state, old, new)?;
    Ok(keyslot::new_digest::<ChangeError>(id, &data, Hash::Sha256, forced, vec![state.keyslot], Vec::new())?)
}

pub(super) fn mapper(segment: &Segment, key: &VolumeKey) -> Result<Option<Locked<Mapper>>, ReencryptError> {
    let SegmentKind::Crypt { encryption, sector_size, .. } = &segment.kind else { return Ok(None) };
    let spec = CipherSpec::from_str(encryption).map_err(UnlockError::UnsupportedCipher)?;
    let options = MapperOptions { data_unit: *sector_size as usize, ..MapperOptions::default() };
    let mapper = Locked::try_new_with(|| Mapper::new(&spec, key.expose(), &options));
    Ok(Some(mapper.map_err(UnlockError::Key)?))
}

/// The mapper of a segment in the middle of the data.
pub(super) fn mapper_at(segment: &Segment, key: &VolumeKey) -> Result<Locked<Mapper>, ReencryptError> {
    let SegmentKind::Crypt { encryption, sector_size, iv_tweak, .. } = &segment.kind else {
        return Err(ReencryptError::UnknownKind);
    };
    let spec = CipherSpec::from_str(encryption).map_err(UnlockError::UnsupportedCipher)?;
    let options =
        MapperOptions { data_unit: *sector_size as usize, iv_offset: *iv_tweak, ..MapperOptions::default() };
    Ok(Locked::try_new_with(|| Mapper::new(&spec, key.expose(), &options)).map_err(UnlockError::Key)?)
}

/// What dm-crypt has to be told of a segment in the middle of the data, which shows plaintext at `(start, len)`.
pub(super) fn target(
    segment: &Segment,
    (start, len): (u64, u64),
    key: &VolumeKey,
    digest: Option<u32>,
) -> Result<CryptTarget, ReencryptError> {
    let SegmentKind::Crypt { encryption, sector_size, iv_tweak, .. } = &segment.kind else {
        return Err(ReencryptError::UnknownKind);
    };
    let spec = CipherSpec::from_str(encryption).map_err(UnlockError::UnsupportedCipher)?;
    Ok(CryptTarget {
        start,
        len,
        media_offset: segment.offset,
        cipher: spec.to_string(),
        key: VolumeKey::copy_from(key.expose()),
        digest,
        iv_offset: *iv_tweak,
        data_unit: *sector_size,
        iv_large: false,
        tags: None,
    })
}

pub(super) fn protection(resilience: &Resilience) -> Result<Protection, ReencryptError> {
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
