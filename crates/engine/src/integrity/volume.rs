//! The tags of a new LUKS2 volume.

use std::sync::Arc;

use atrest_device::BlockDevice;
use atrest_format::integrity::{SUPERBLOCK_LEN, Superblock};
use atrest_volume::{Protection, Volume};

use super::{Integrity, IntegrityError, NewIntegrity, OpenOptions, create};

/// Writes a superblock and an empty journal at byte `at` of the media, over what was there, as cryptsetup has the kernel do it.
/// With `legacy_padding` runs of tags are as long as kernels before 5.11 make them.
///
/// # Errors
/// [`IntegrityError::Layout`] if there is no room: nothing was written but zeros in the superblock's place. The error of the media.
pub fn lay_out(
    media: Arc<dyn BlockDevice>,
    at: u64,
    (data_unit, tag_len): (u32, u16),
    legacy_padding: bool,
) -> Result<Superblock, IntegrityError> {
    media.write_zeroes(at, SUPERBLOCK_LEN as u64)?;
    // The salt is for hashes that the kernel makes, of which there is none here.
    create(
        media,
        at,
        NewIntegrity { data_unit, tag_len, legacy_padding, legacy_hmac: true, ..NewIntegrity::default() },
    )
}

/// Writes zeros with their tags over all data of a volume, so that all of it can be read, and tells how many bytes of how many are done.
/// Does nothing to segments without tags.
///
/// # Errors
/// [`IntegrityError`] if the tags are not laid out as the volume says, or the media fails.
pub fn wipe_volume(
    media: &Arc<dyn BlockDevice>,
    volume: Volume,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), IntegrityError> {
    for segment in volume.into_segments() {
        if let Protection::Tagged(tagged) = segment.protection {
            let options = OpenOptions::default();
            Integrity::wipe(Arc::clone(media), segment.media_offset, tagged, options, progress)?;
        }
    }
    Ok(())
}
