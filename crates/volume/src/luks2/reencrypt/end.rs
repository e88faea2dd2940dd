//! The end of a re-encryption: what is left behind is wiped, and the header says that it is done.

use atrest_format::luks2::{Requirement, Segment};

use super::zone::Kind;
use super::{ReencryptError, Rewriting};
use crate::ChangeError;
use crate::luks2::media;

impl Rewriting<'_> {
    /// Ends a re-encryption of which all data is done.
    ///
    /// # Errors
    /// [`ReencryptError::Wipe`] if the old head or the old keyslots could not be wiped,
    /// [`ReencryptError::Change`] if the header can't be written. The data is complete all the same.
    pub fn finish(&mut self) -> Result<(), ReencryptError> {
        let left = self.course.left_behind();
        // The last zone is read there until the header no longer says that it is under way.
        let read_until_then = self.course.kind == Kind::BehindHeader;
        if let Some((offset, len)) = left.filter(|_| !read_until_then) {
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
        if let Some((offset, len)) = left.filter(|_| read_until_then) {
            media::wipe(self.devices.data, offset, len).map_err(wipe_error)?;
        }
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
}

fn wipe_error(error: ChangeError) -> ReencryptError {
    ReencryptError::Wipe(Box::new(error))
}
