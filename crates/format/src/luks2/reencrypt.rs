//! A re-encryption in progress, as the metadata describes it (LUKS2 specification, section 3.7 and cryptsetup 2.6.1).
//!
//! The volume is a row of active segments: what is done, at most one *hot zone* that is being rewritten (flag
//! `in-reencryption`), and what is still to be done. Backup segments behind them remember the whole state before and
//! after. A keyslot of type `reencrypt` says how a hot zone survives a crash; its area holds what that needs. The digest
//! of that keyslot binds keyslot and backup segments to the volume keys.

use alloc::string::String;
use alloc::vec::Vec;

use super::view::{AreaKind, KeyslotKind, Requirement, Segment, SegmentKind, SegmentSize};
use super::{Digest, Metadata};

/// The first version with a verification.
const VERIFIED: u8 = 2;
/// The version of a decryption that moves its data.
const MOVES_FORWARD: u8 = 3;
/// Longest text that takes part in the verification.
const MAX_TEXT: usize = 64;
/// The flag of the segment that is rewritten now.
pub(super) const HOT: &str = "in-reencryption";

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReencryptMode {
    /// Plaintext becomes a volume.
    Encrypt,
    /// A volume gets another key, cipher or data unit.
    Reencrypt,
    /// A volume becomes plaintext.
    Decrypt,
}

/// In which order hot zones follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReencryptDirection {
    /// From the start of the data.
    Forward,
    /// From its end.
    Backward,
}

/// How a hot zone survives a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resilience {
    /// It does not.
    None,
    /// The area holds the zone as it was.
    Journal,
    /// The area holds a hash of each sector as it was.
    Checksum(Checksums),
    /// The zone is written somewhere else than it is read from.
    DataShift(Shift),
    /// The zone is written somewhere else than it is read from. Where the two overlap, the area holds a journal.
    DataShiftJournal(Shift),
    /// The zone is written somewhere else than it is read from. Where the two overlap, the area holds hashes.
    DataShiftChecksum(Checksums, Shift),
}

/// Hashes of a hot zone's sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksums {
    /// Name of the hash.
    pub hash: String,
    /// Bytes under one hash: a power of two, at least 512.
    pub sector_size: u32,
}

/// By how many bytes data moves: a multiple of 512, not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift(pub u64);

/// A re-encryption that is complete in itself: there is everything by which it can be verified and resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reencryption {
    /// Number of the reencrypt keyslot.
    pub keyslot: u32,
    /// What is being done.
    pub mode: ReencryptMode,
    /// In which order.
    pub direction: ReencryptDirection,
    /// How a hot zone survives.
    pub resilience: Resilience,
    /// First byte of the area for journal or hashes, on the header device.
    pub area_offset: u64,
    /// Bytes in it.
    pub area_size: u64,
    /// Number at the end of the requirement's name: 1 without any, 2, or 3 for decryption with a data shift.
    pub version: u8,
    /// The active segments, in the order of the data.
    pub active: Vec<Segment>,
    /// Digests of the first of them.
    pub first_digests: Vec<u32>,
    /// Which of them is the hot zone.
    pub hot: Option<usize>,
    /// All data before.
    pub previous: Segment,
    /// All data afterwards.
    pub last: Segment,
    /// Where the head of the data was moved to, to make room for the header.
    pub moved: Option<Segment>,
    /// Digest of the key before; none if there was no encryption.
    pub digest_previous: Option<u32>,
    /// Digest of the key afterwards; none if there will be no encryption.
    pub digest_last: Option<u32>,
}

/// Why a re-encryption can't be resumed from its metadata.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReencryptionFault {
    /// None is in progress.
    None,
    /// It was begun by the old `cryptsetup-reencrypt`, which only that program finishes.
    Offline,
    /// It has no verification, as cryptsetup before 2.4.3 began them.
    Unverifiable,
    /// The keyslot's area is of a type that is not known.
    Area,
    /// There must be one segment `backup-previous` and one `backup-final`, at most one `backup-moved-segment`, and at most
    /// one active segment `in-reencryption`.
    Segments,
    /// A segment belongs to another key than its place says.
    Digests,
    /// A text is too long to be verified.
    TextLength,
}

impl ReencryptMode {
    /// Its name in the JSON text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Encrypt => "encrypt",
            Self::Reencrypt => "reencrypt",
            Self::Decrypt => "decrypt",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Encrypt, Self::Reencrypt, Self::Decrypt].into_iter().find(|mode| mode.name() == name)
    }
}

impl ReencryptDirection {
    /// Its name in the JSON text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Forward, Self::Backward].into_iter().find(|direction| direction.name() == name)
    }
}

impl Resilience {
    /// Its name in the JSON text.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Journal => "journal",
            Self::Checksum(_) => "checksum",
            Self::DataShift(_) => "datashift",
            Self::DataShiftJournal(_) => "datashift-journal",
            Self::DataShiftChecksum(..) => "datashift-checksum",
        }
    }

    /// Hashes of sectors, if there are any.
    pub fn checksums(&self) -> Option<&Checksums> {
        match self {
            Self::Checksum(checksums) | Self::DataShiftChecksum(checksums, _) => Some(checksums),
            _ => None,
        }
    }

    /// By how many bytes data moves, if it does.
    pub fn shift(&self) -> Option<u64> {
        match self {
            Self::DataShift(shift) | Self::DataShiftJournal(shift) | Self::DataShiftChecksum(_, shift) => {
                Some(shift.0)
            }
            _ => None,
        }
    }
}

impl Metadata {
    /// The re-encryption in progress.
    ///
    /// # Errors
    /// [`ReencryptionFault::None`] if none is in progress. [`ReencryptionFault::Offline`] if another program has to finish
    /// it, [`ReencryptionFault::Unverifiable`] if it needs a verification first. The others say what of it is damaged or
    /// not known.
    pub fn reencryption(&self) -> Result<Reencryption, ReencryptionFault> {
        let found = self.any_reencryption()?;
        match found.version < VERIFIED || self.reencryption_digest(&found).is_none() {
            true => Err(ReencryptionFault::Unverifiable),
            false => Ok(found),
        }
    }

    /// The re-encryption in progress that nothing verifies, with the version that it has once something does.
    ///
    /// # Errors
    /// As [`reencryption`](Self::reencryption); [`ReencryptionFault::None`] also if there is a verification.
    pub fn unverified_reencryption(&self) -> Result<Reencryption, ReencryptionFault> {
        let mut found = self.any_reencryption()?;
        if found.version >= VERIFIED && self.reencryption_digest(&found).is_some() {
            return Err(ReencryptionFault::None);
        }
        let moves_forward = found.mode == ReencryptMode::Decrypt && found.moved.is_some();
        let journaled =
            matches!(found.resilience, Resilience::DataShiftJournal(_) | Resilience::DataShiftChecksum(..));
        found.version = if moves_forward && journaled { MOVES_FORWARD } else { VERIFIED };
        Ok(found)
    }

    fn any_reencryption(&self) -> Result<Reencryption, ReencryptionFault> {
        use ReencryptionFault as Fault;
        let version = self.reencryption_version()?;
        let find = |keyslot: &&super::Keyslot| matches!(keyslot.kind, KeyslotKind::Reencrypt { .. });
        let keyslot = self.keyslots().iter().find(find).ok_or(Fault::None)?;
        let KeyslotKind::Reencrypt { mode, direction } = keyslot.kind else { return Err(Fault::None) };
        let AreaKind::Reencrypt(resilience) = &keyslot.area.kind else { return Err(Fault::Area) };
        let active: Vec<Segment> = self.segments().iter().filter(|s| !s.is_backup()).cloned().collect();
        let is_hot = |segment: &Segment| segment.has_flag(HOT);
        if active.iter().filter(|segment| is_hot(segment)).count() > 1 {
            return Err(Fault::Segments);
        }
        let previous = self.only_flagged("backup-previous")?.ok_or(Fault::Segments)?;
        let last = self.only_flagged("backup-final")?.ok_or(Fault::Segments)?;
        let found = Reencryption {
            keyslot: keyslot.id,
            mode,
            direction,
            resilience: resilience.clone(),
            area_offset: keyslot.area.offset,
            area_size: keyslot.area.size,
            version,
            first_digests: self.digests_of(active.first()),
            hot: active.iter().position(is_hot),
            active,
            digest_previous: self.digest_of_segment(previous.id).map(|digest| digest.id),
            digest_last: self.digest_of_segment(last.id).map(|digest| digest.id),
            moved: self.only_flagged("backup-moved-segment")?.cloned(),
            previous: previous.clone(),
            last: last.clone(),
        };
        self.check_digests(&found)?;
        Ok(found)
    }

    /// The requirements of a re-encryption in progress, in the version that it has now.
    pub fn requirements_of(&self, reencryption: &Reencryption) -> Vec<Requirement> {
        let others = self.config().requirements.iter().filter(|requirement| !requirement.is_reencryption());
        let mut all: Vec<Requirement> = others.cloned().collect();
        all.push(Requirement::OnlineReencrypt(alloc::format!("online-reencrypt-v{}", reencryption.version)));
        all
    }

    /// The digest that binds keyslot and backup segments to the keys.
    pub fn reencryption_digest(&self, reencryption: &Reencryption) -> Option<&Digest> {
        self.digest_of_keyslot(reencryption.keyslot)
    }

    fn reencryption_version(&self) -> Result<u8, ReencryptionFault> {
        let mut version = Err(ReencryptionFault::None);
        for requirement in &self.config().requirements {
            version = match requirement {
                Requirement::OfflineReencrypt => Err(ReencryptionFault::Offline),
                Requirement::OnlineReencrypt(name) => match name.as_str() {
                    "online-reencrypt-v2" => Ok(VERIFIED),
                    "online-reencrypt-v3" => Ok(MOVES_FORWARD),
                    _ => Ok(1),
                },
                _ => continue,
            };
        }
        version
    }

    fn digests_of(&self, segment: Option<&Segment>) -> Vec<u32> {
        let Some(segment) = segment else { return Vec::new() };
        let bound = self.digests().iter().filter(|digest| digest.segments.contains(&segment.id));
        bound.map(|digest| digest.id).collect()
    }

    fn only_flagged(&self, flag: &str) -> Result<Option<&Segment>, ReencryptionFault> {
        let mut flagged = self.segments().iter().filter(|segment| segment.has_flag(flag));
        match (flagged.next(), flagged.next()) {
            (found, None) => Ok(found),
            _ => Err(ReencryptionFault::Segments),
        }
    }

    /// What is done belongs to the new key, what is to be done to the old one, and the hot zone to both.
    fn check_digests(&self, reencryption: &Reencryption) -> Result<(), ReencryptionFault> {
        let Reencryption { mode, digest_previous: old, digest_last: new, .. } = reencryption;
        let fits = match mode {
            ReencryptMode::Encrypt => old.is_none() && new.is_some(),
            ReencryptMode::Reencrypt => old.is_some() && new.is_some(),
            ReencryptMode::Decrypt => old.is_some() && new.is_none(),
        };
        let both = [*old, *new];
        let known = |segment: &Segment| {
            let mut bound = self.digests().iter().filter(|digest| digest.segments.contains(&segment.id));
            bound.all(|digest| both.contains(&Some(digest.id)))
        };
        match fits && reencryption.active.iter().all(known) {
            true => Ok(()),
            false => Err(ReencryptionFault::Digests),
        }
    }
}

impl Reencryption {
    /// How what the verification digest is made of begins. The keys follow, the old one first (a key that stays the same once),
    /// and then [`verified_metadata`](Self::verified_metadata).
    pub fn verification_prefix(&self) -> [u8; 2] {
        // cannot overflow: the version is 2 or 3.
        [b'v', b'0'.saturating_add(self.version)]
    }

    /// What is verified: how zones are protected, and the backup segments.
    ///
    /// # Errors
    /// [`ReencryptionFault::TextLength`] if a text is longer than any that is verified,
    /// [`ReencryptionFault::Segments`] if a backup segment is of a kind that is not known.
    pub fn verified_metadata(&self) -> Result<Vec<u8>, ReencryptionFault> {
        let mut out = Serial(Vec::new());
        for text in [self.mode.name(), self.direction.name(), self.resilience.name()] {
            out.text(text)?;
        }
        out.number(self.area_offset);
        out.number(self.area_size);
        if let Some(checksums) = self.resilience.checksums() {
            out.text(&checksums.hash)?;
            out.0.extend_from_slice(&checksums.sector_size.to_be_bytes());
        }
        if let Some(shift) = self.resilience.shift() {
            out.number(shift);
        }
        for segment in [Some(&self.previous), Some(&self.last), self.moved.as_ref()].into_iter().flatten() {
            out.segment(segment)?;
        }
        Ok(out.0)
    }
}

/// Texts without a length, numbers big-endian.
struct Serial(Vec<u8>);

impl Serial {
    fn text(&mut self, text: &str) -> Result<(), ReencryptionFault> {
        if text.len() > MAX_TEXT {
            return Err(ReencryptionFault::TextLength);
        }
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_be_bytes());
    }

    fn segment(&mut self, segment: &Segment) -> Result<(), ReencryptionFault> {
        let kind = match &segment.kind {
            SegmentKind::Crypt { .. } => "crypt",
            SegmentKind::Linear => "linear",
            SegmentKind::Sealed { .. } | SegmentKind::Unknown(_) => return Err(ReencryptionFault::Segments),
        };
        self.text(kind)?;
        self.number(segment.offset);
        match segment.size {
            SegmentSize::Dynamic => self.text("dynamic")?,
            SegmentSize::Fixed(bytes) => self.number(bytes),
        }
        if let SegmentKind::Crypt { encryption, sector_size, iv_tweak, .. } = &segment.kind {
            self.number(*iv_tweak);
            self.text(encryption)?;
            self.0.extend_from_slice(&sector_size.to_be_bytes());
        }
        Ok(())
    }
}

impl core::fmt::Display for ReencryptionFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::None => "no re-encryption is in progress",
            Self::Offline => "the re-encryption was begun by cryptsetup-reencrypt, which alone can finish it",
            Self::Unverifiable => {
                "the re-encryption has no verification; `atrest repair` adds it once the header was looked at (`atrest info`)"
            }
            Self::Area => "the re-encryption protects its zones in a way that is not known",
            Self::Segments => "the segments of the re-encryption don't fit together",
            Self::Digests => "the segments of the re-encryption belong to other keys than they must",
            Self::TextLength => "a text in the re-encryption's metadata is too long",
        })
    }
}

impl core::error::Error for ReencryptionFault {}
