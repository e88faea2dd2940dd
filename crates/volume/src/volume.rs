//! An unlocked volume: where each run of plaintext lies on the media, and what protects it there.

use core::any::Any;
use core::fmt;
use core::ops::Range;
use std::sync::Arc;

use crate::{CryptFlags, CryptTarget, Protection, VolumeFormat, VolumeKey};

/// A run of plaintext that has one protection and is stored in one piece.
pub struct Segment {
    /// First byte of the plaintext, a multiple of the data unit.
    pub start: u64,
    /// Bytes of plaintext, a multiple of the data unit. The ciphertext is as long.
    pub len: u64,
    /// First byte of the ciphertext on the data device.
    pub media_offset: u64,
    /// Protects the segment's data units, counted from 0 at `start`.
    pub protection: Protection,
}

/// A volume whose key is known: segments in the order of their plaintext, without gaps.
pub struct Volume {
    format: VolumeFormat,
    segments: Vec<Segment>,
    targets: Vec<CryptTarget>,
    size: u64,
    uuid: Option<String>,
    keyslot: Option<u32>,
    flags: CryptFlags,
    read_only: bool,
    protected: Option<Range<u64>>,
    sealed: Option<SealedKey>,
    lock: Option<Arc<dyn Any + Send + Sync>>,
}

/// The key of a volume whose data lies in sealed objects.
pub struct SealedKey {
    /// Identifier that keeps volumes under one key apart.
    pub format: [u8; 16],
    /// The volume key, 32 bytes.
    pub key: VolumeKey,
}

impl Volume {
    /// A volume made of `segments`, which must follow one another from plaintext byte 0.
    pub fn new(format: VolumeFormat, segments: Vec<Segment>) -> Self {
        debug_assert!(segments.first().is_none_or(|first| first.start == 0));
        // cannot overflow: segments lie inside their device and do not overlap.
        let size = segments.last().map_or(0, |last| last.start.saturating_add(last.len));
        Self {
            format,
            segments,
            targets: Vec::new(),
            size,
            uuid: None,
            keyslot: None,
            flags: CryptFlags::default(),
            read_only: false,
            protected: None,
            sealed: None,
            lock: None,
        }
    }

    /// Sets the UUID that the header has.
    pub fn with_uuid(mut self, uuid: impl Into<String>) -> Self {
        self.uuid = Some(uuid.into());
        self
    }

    /// Sets the keyslot that unlocked the volume.
    pub fn with_keyslot(mut self, keyslot: Option<u32>) -> Self {
        self.keyslot = keyslot;
        self
    }

    /// Sets what dm-crypt has to be told of each segment.
    pub fn with_targets(mut self, targets: Vec<CryptTarget>) -> Self {
        self.targets = targets;
        self
    }

    /// Sets how the header asks dm-crypt to work.
    pub fn with_flags(mut self, flags: CryptFlags) -> Self {
        self.flags = flags;
        self
    }

    /// Sets whether the volume is for reading only.
    pub fn with_read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Sets bytes of plaintext that nobody may write: a hidden volume lies there. The first write that would ends all writing.
    pub fn with_protected(mut self, range: Range<u64>) -> Self {
        self.protected = Some(range);
        self
    }

    /// Sets the key by which sealed objects are opened, which are all that there is of the data.
    pub fn with_sealed(mut self, sealed: SealedKey) -> Self {
        self.sealed = Some(sealed);
        self
    }

    /// Keeps a lock as long as the volume. One in the middle of its re-encryption is as it is here only until somebody goes on with that.
    pub fn with_lock(mut self, lock: Arc<dyn Any + Send + Sync>) -> Self {
        self.lock = Some(lock);
        self
    }

    /// The lock that is to be kept as long as the volume is used.
    pub fn lock(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.lock.clone()
    }

    /// The key of the sealed objects, if the data lies in some. Then there are no segments.
    pub fn sealed(&self) -> Option<&SealedKey> {
        self.sealed.as_ref()
    }

    /// Bytes of plaintext that nobody may write.
    pub fn protected(&self) -> Option<&Range<u64>> {
        self.protected.as_ref()
    }

    /// The format of its header.
    pub fn format(&self) -> VolumeFormat {
        self.format
    }

    /// Bytes of plaintext.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes in the largest data unit of any segment: what reads and writes should be aligned to.
    pub fn data_unit(&self) -> usize {
        // intended: an empty volume has units of a sector.
        self.segments.iter().map(|segment| segment.protection.data_unit()).max().unwrap_or(512)
    }

    /// The segments, in the order of their plaintext.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// What dm-crypt has to be told of each segment; empty unless [`UnlockOptions::keep_key`](crate::UnlockOptions::keep_key)
    /// was set.
    pub fn targets(&self) -> &[CryptTarget] {
        &self.targets
    }

    /// Takes the segments out, for an engine that keeps them.
    pub fn into_segments(self) -> Vec<Segment> {
        self.segments
    }

    /// Whether writes must be refused.
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// Shows only the first `size` bytes, rounded down to a data unit. A size beyond the end changes nothing.
    pub fn limit(&mut self, size: u64) {
        if size >= self.size {
            return;
        }
        let kept = |start: u64, len: u64, unit: u64| {
            // intended: nothing is left of what begins behind the end. A data unit is never 0.
            let kept = size.saturating_sub(start).min(len);
            kept.saturating_sub(kept.checked_rem(unit).unwrap_or(0))
        };
        self.segments.retain_mut(|segment| {
            segment.len = kept(segment.start, segment.len, segment.protection.data_unit() as u64);
            segment.len > 0
        });
        self.targets.retain_mut(|target| {
            target.len = kept(target.start, target.len, target.data_unit.into());
            target.len > 0
        });
        // cannot overflow: only shorter than what `new` has added up.
        self.size = self.segments.last().map_or(0, |last| last.start.saturating_add(last.len));
    }

    /// UUID from the header; plain volumes have none.
    pub fn uuid(&self) -> Option<&str> {
        self.uuid.as_deref()
    }

    /// The keyslot that unlocked it; none if the volume key was given.
    pub fn keyslot(&self) -> Option<u32> {
        self.keyslot
    }

    /// How the header asks dm-crypt to work.
    pub fn flags(&self) -> CryptFlags {
        self.flags
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("start", &self.start)
            .field("len", &self.len)
            .field("media_offset", &self.media_offset)
            .field("protection", &self.protection)
            .finish()
    }
}

impl fmt::Debug for SealedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealedKey(..)")
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume")
            .field("format", &self.format)
            .field("segments", &self.segments)
            .field("uuid", &self.uuid)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}
