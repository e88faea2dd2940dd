//! The beginning of a re-encryption: new keyslots, the keyslot that says how zones survive, backup segments. All of it is
//! decided first; then the keyslots' areas are written, and one change of the header begins it.

use atrest_cipher::{CipherSpec, Mapper, MapperOptions};
use atrest_device::Media;
use atrest_format::luks2::{
    Area, AreaKind, Checksums, Digest, DigestKind, Kdf, Keyslot, KeyslotKind, Metadata, Priority,
    ReencryptDirection, ReencryptMode, Requirement, Resilience, SALT_LEN, Segment, SegmentKind, Shift,
    area_size,
};
use atrest_kdf::Hash;
use atrest_secret::{OsRandom, with_wiped_stack};

use super::zone::{Course, unit_of};
use super::{ReencryptError, Rewriting, verification_digest};
use crate::luks2::keyslot::{self, Plan, Sealed};
use crate::luks2::session::Session;
use crate::luks2::{Luks2, create};
use crate::{
    ChangeError, Devices, FormatError, KeyslotOptions, OptionError, Passphrase, Pbkdf, PbkdfKind,
    PbkdfOptions, UnlockError, VolumeKey,
};

/// How a hot zone is to survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResilienceKind {
    /// By hashes of its sectors, each of which the media writes as a whole or not at all.
    #[default]
    Checksum,
    /// By a copy.
    Journal,
    /// Not at all.
    None,
}

/// The volume key afterwards.
#[derive(Debug, Default)]
pub enum NewKey {
    /// A random one.
    #[default]
    Random,
    /// The one that the volume has, with its keyslots: the data unit or the cipher changes.
    Keep,
    /// The one that the volume has, in new keyslots.
    Anew,
    /// This one.
    Given(VolumeKey),
}

/// What a volume is to be re-encrypted to.
#[derive(Debug, Default)]
pub struct ReencryptOptions {
    /// Cipher; `None` keeps it.
    pub cipher: Option<CipherSpec>,
    /// Bytes in the new volume key; `None` is as many as now, or what the new cipher takes.
    pub key_len: Option<usize>,
    /// Bytes in a data unit; `None` keeps it.
    pub data_unit: Option<u32>,
    /// Where the new volume key comes from.
    pub key: NewKey,
    /// No keyslot holds the new key: whoever has it must keep it. All keyslots of the old one go.
    pub without_keyslots: bool,
    /// How zones survive.
    pub resilience: ResilienceKind,
    /// Hash of the sectors; `None` is SHA-256.
    pub hash: Option<Hash>,
    /// Bytes of the data that it is of, from the first one; `None` is all of it.
    pub part: Option<u64>,
    /// Bytes by which the data moves back, to give the header more room. As many are lost at the end of the device. It says how zones
    /// survive, too: none is written where it is read.
    pub shift: Option<u64>,
    /// Keyslots that may be lost.
    pub drop_slots: Vec<u32>,
    /// How the new keyslots are made. `slot` is not used: they get free numbers.
    pub keyslot: KeyslotOptions,
}

impl Luks2 {
    /// Begins a re-encryption: each passphrase (of a keyslot, or of whichever it opens) gets a keyslot for the new key. The
    /// old ones go at the end.
    ///
    /// When this returns, header and keyslots are durable and no data has been touched.
    ///
    /// # Errors
    /// Before anything is written: [`ReencryptError::InProgress`], [`ReencryptError::KeyslotsLeft`] if a
    /// keyslot has neither a passphrase here nor leave to go, [`ReencryptError::NoRoom`],
    /// [`ReencryptError::Misaligned`] or [`ReencryptError::DeviceSize`] if header or data do not permit it,
    /// [`ReencryptError::Format`] for a cipher or key that can't be used. [`ReencryptError::Change`] if a
    /// passphrase opens nothing.
    ///
    /// [`ReencryptError::Change`] with [`ChangeError::Device`] if the device fails. The volume is then as
    /// before, or the re-encryption has begun.
    pub fn begin_reencryption<'a>(
        &self,
        devices: Devices<'a>,
        passphrases: &[(&Passphrase, Option<u32>)],
        options: &ReencryptOptions,
    ) -> Result<Rewriting<'a>, ReencryptError> {
        self.begin(devices, options, |volume| open_all(volume, devices.header, passphrases))
    }

    /// Begins a re-encryption with the volume key instead of a passphrase, also of a volume without keyslots. No keyslot is made for
    /// the new key, which is one that was given, or is kept.
    ///
    /// # Errors
    /// As [`begin_reencryption`](Self::begin_reencryption). Before anything is written also
    /// [`ReencryptError::NotKept`] if nobody would have the new key, and [`ReencryptError::Change`] with
    /// [`UnlockError::WrongVolumeKey`] if `key` is of another volume.
    pub fn begin_reencryption_with_key<'a>(
        &self,
        devices: Devices<'a>,
        key: &VolumeKey,
        options: &ReencryptOptions,
    ) -> Result<Rewriting<'a>, ReencryptError> {
        self.begin(devices, options, |volume| {
            volume.check_volume_key(key)?;
            Ok((Carried::new(), VolumeKey::copy_from(key.expose())))
        })
    }

    fn begin<'a, 'p>(
        &self,
        devices: Devices<'a>,
        options: &ReencryptOptions,
        open: impl FnOnce(&Self) -> Result<(Carried<'p>, VolumeKey), ReencryptError>,
    ) -> Result<Rewriting<'a>, ReencryptError> {
        let requirements = &self.metadata().config().requirements;
        if requirements.iter().any(Requirement::is_reencryption) {
            return Err(ReencryptError::InProgress);
        }
        self.check_counts(devices)?;
        let mut session = Session::begin(self, devices.header)?;
        session.refuse_pinned()?;
        let previous = only_segment(session.metadata())?;
        let target = target(&previous, options)?;
        let (mut slots, old) = open(&session.volume)?;
        if options.without_keyslots {
            slots.clear();
        }
        let new = new_key(&old, &target, &slots, options)?;
        check_key(&target, &new)?;
        let keeps = matches!(options.key, NewKey::Keep);
        if !keeps && !options.without_keyslots {
            check_carried(&session.volume, &slots, &options.drop_slots)?;
        }
        let mut plan = Beginning::new(session.metadata().clone(), options);
        let digest_old = session.metadata().digest_of_segment(0).map(|digest| digest.id);
        let digest_new = match keeps {
            true => digest_old.ok_or(UnlockError::WrongVolumeKey)?,
            false => plan.add_keyslots(&slots, &new, &target)?,
        };
        let last = Segment {
            kind: SegmentKind::Crypt {
                encryption: target.cipher.to_string(),
                sector_size: target.data_unit,
                iv_tweak: 0,
                integrity: None,
            },
            // intended: what lies behind the end of every device is refused below.
            offset: previous.offset.saturating_add(options.shift.unwrap_or(0)),
            ..previous.clone()
        };
        let resilience = |plan: &Beginning<'_>, block| match options.shift {
            Some(shift) => Resilience::DataShift(Shift(shift)),
            None => plan.resilience(options.resilience, options.hash, block),
        };
        let block = devices.data.geometry().logical_block.max(unit_of(&previous)).max(target.data_unit);
        plan.mark(
            ReencryptMode::Reencrypt,
            vec![Segment { id: 0, ..previous.clone() }],
            &[(&previous, "backup-previous", digest_old), (&last, "backup-final", Some(digest_new))],
            digest_old,
            resilience(&plan, block),
        )?;
        let metadata = plan.verified(Some(&old), Some(&new))?;
        let checksums = options.shift.is_none() && options.resilience == ResilienceKind::Checksum;
        check_course(&metadata, devices, block, checksums, options.part)?;
        let next = session.next(metadata)?;
        for sealed in &plan.sealed {
            session
                .device
                .write_at(sealed.keyslot.area.offset, &sealed.material)
                .map_err(ChangeError::Device)?;
        }
        session.device.flush().map_err(ChangeError::Device)?;
        session.commit(next)?;
        let volume = session.volume;
        let state = volume.metadata().reencryption()?;
        Rewriting::new(devices, volume, state, Some(&old), Some(&new))?.of_part(options.part)
    }
}

/// Whether zones of the new re-encryption can be made at all, said before anything is written.
pub(super) fn check_course(
    metadata: &Metadata,
    devices: Devices<'_>,
    block: u32,
    checksums: bool,
    part: Option<u64>,
) -> Result<(), ReencryptError> {
    let course = Course::new(metadata.reencryption()?, devices, metadata.keyslots_end())?;
    let course = match part {
        Some(part) => course.limited(part, block.into())?,
        None => course,
    };
    if checksums && !course.total.is_multiple_of(block.into()) {
        return Err(ReencryptError::Misaligned { size: course.total, multiple: block.into() });
    }
    Ok(())
}

/// Cipher, data unit and key length of the new data.
pub(super) struct Target {
    pub(super) cipher: CipherSpec,
    pub(super) data_unit: u32,
    key_len: Option<usize>,
}

pub(super) fn only_segment(metadata: &Metadata) -> Result<Segment, ReencryptError> {
    match metadata.segments() {
        [only] if matches!(&only.kind, SegmentKind::Crypt { integrity: None, .. }) => Ok(only.clone()),
        [Segment { kind: SegmentKind::Crypt { integrity: Some(_), .. }, .. }] => {
            Err(UnlockError::Authenticated.into())
        }
        _ => Err(UnlockError::UnsupportedType.into()),
    }
}

fn target(previous: &Segment, options: &ReencryptOptions) -> Result<Target, ReencryptError> {
    let SegmentKind::Crypt { encryption, sector_size, .. } = &previous.kind else {
        return Err(UnlockError::UnsupportedType.into());
    };
    let cipher = match &options.cipher {
        Some(cipher) => cipher.clone(),
        None => encryption.parse().map_err(UnlockError::UnsupportedCipher)?,
    };
    if cipher.is_null() {
        return Err(OptionError::NullCipher.into());
    }
    if cipher.is_single_snapshot() {
        return Err(OptionError::SingleSnapshot.into());
    }
    let data_unit = options.data_unit.unwrap_or(*sector_size);
    if !matches!(data_unit, 512 | 1024 | 2048 | 4096) {
        return Err(OptionError::DataUnit { bytes: data_unit }.into());
    }
    let key_len = options.key_len.or_else(|| options.cipher.as_ref().map(create::default_key_len));
    Ok(Target { cipher, data_unit, key_len })
}

fn check_key(target: &Target, key: &VolumeKey) -> Result<(), ReencryptError> {
    if !target.cipher.key_len_is_valid(key.len()) {
        return Err(OptionError::KeyLength { bytes: key.len(), takes: target.cipher.key_lens() }.into());
    }
    let unit = MapperOptions { data_unit: target.data_unit as usize, ..MapperOptions::default() };
    with_wiped_stack(|| Mapper::new(&target.cipher, key.expose(), &unit).map(drop))
        .map_err(|error| FormatError::Key(error).into())
}

/// Keyslots of the data, each with the passphrase that opens it.
type Carried<'p> = Vec<(u32, &'p Passphrase)>;

/// Opens the data's keyslot of every passphrase.
fn open_all<'p>(
    volume: &Luks2,
    header: &dyn Media,
    passphrases: &[(&'p Passphrase, Option<u32>)],
) -> Result<(Carried<'p>, VolumeKey), ReencryptError> {
    let mut slots: Vec<(u32, &Passphrase)> = Vec::new();
    let mut found = None;
    for (passphrase, slot) in passphrases {
        let (slot, key) = volume.volume_key(header, passphrase, *slot)?;
        if slots.iter().all(|(known, _)| *known != slot) {
            slots.push((slot, passphrase));
        }
        found = Some(key);
    }
    Ok((slots, found.ok_or(UnlockError::WrongPassphrase)?))
}

/// The volume key afterwards, which somebody must have: a keyslot, or whoever gave it.
fn new_key(
    old: &VolumeKey,
    target: &Target,
    slots: &Carried<'_>,
    options: &ReencryptOptions,
) -> Result<VolumeKey, ReencryptError> {
    match &options.key {
        NewKey::Keep if options.without_keyslots => Err(ReencryptError::NotKept),
        NewKey::Anew if slots.is_empty() => Err(ReencryptError::NotKept),
        NewKey::Keep | NewKey::Anew => Ok(VolumeKey::copy_from(old.expose())),
        NewKey::Given(new) if new == old => Err(ReencryptError::SameKey),
        NewKey::Given(new) => Ok(VolumeKey::copy_from(new.expose())),
        NewKey::Random if slots.is_empty() => Err(ReencryptError::NotKept),
        NewKey::Random => {
            let len = target.key_len.unwrap_or(old.len());
            Ok(VolumeKey::generate(len, &mut OsRandom).map_err(ChangeError::Random)?)
        }
    }
}

/// Every keyslot of the data is carried over, or may go.
fn check_carried(volume: &Luks2, slots: &Carried<'_>, may_go: &[u32]) -> Result<(), ReencryptError> {
    let kept = |slot: &u32| slots.iter().any(|(known, _)| known == slot) || may_go.contains(slot);
    let of_data = volume.metadata().digest_of_segment(0).map(|digest| digest.keyslots.clone());
    // intended: no digest, no keyslots.
    let left: Vec<u32> = of_data.unwrap_or_default().into_iter().filter(|slot| !kept(slot)).collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(ReencryptError::KeyslotsLeft { slots: left }),
    }
}

/// Metadata that grows into that of a re-encryption, and the keyslots that it will list.
pub(super) struct Beginning<'o> {
    metadata: Metadata,
    options: &'o KeyslotOptions,
    pub(super) sealed: Vec<Sealed>,
    verification: u32,
}

impl<'o> Beginning<'o> {
    fn new(metadata: Metadata, options: &'o ReencryptOptions) -> Self {
        Self::with(metadata, &options.keyslot)
    }

    pub(super) fn with(metadata: Metadata, options: &'o KeyslotOptions) -> Self {
        Self { metadata, options, sealed: Vec::new(), verification: 0 }
    }

    /// A keyslot of the new key for every passphrase. Returns the digest of that key, which there is without keyslots, too.
    fn add_keyslots(
        &mut self,
        slots: &[(u32, &Passphrase)],
        key: &VolumeKey,
        target: &Target,
    ) -> Result<u32, ReencryptError> {
        let forced = self.options.pbkdf.forced_iterations.is_some();
        let id = self.metadata.free_digest().ok_or(ChangeError::NoFreeDigest)?;
        let hash = self.options.af_hash.unwrap_or(Hash::Sha256);
        if slots.is_empty() {
            let digest = keyslot::new_digest::<ChangeError>(id, key, hash, forced, Vec::new(), Vec::new())?;
            let with = self.metadata.compose().digest(&digest).finish();
            self.metadata = with.map_err(ChangeError::Header)?;
            return Ok(id);
        }
        let (area_cipher, area_key_len) = create::area_cipher(self.options, Some(&target.cipher), key.len())?;
        let mut resolved: Vec<(PbkdfKind, Pbkdf)> = Vec::new();
        for (old, passphrase) in slots {
            let kind = self.kind_like(*old);
            let pbkdf = match resolved.iter().find(|(known, _)| *known == kind) {
                Some((_, pbkdf)) => *pbkdf,
                None => {
                    // Calibrated by the clock, which takes seconds: once for each kind.
                    let pbkdf =
                        self.options.pbkdf.resolve::<ChangeError>(kind, Hash::Sha256, area_key_len)?;
                    resolved.push((kind, pbkdf));
                    pbkdf
                }
            };
            let slot = self.metadata.free_keyslot().ok_or(ChangeError::NoFreeKeyslot)?;
            // intended: no area is large enough for a key that is longer than 4 GiB.
            let needs = area_size(u32::try_from(key.len()).unwrap_or(u32::MAX));
            let offset = self.metadata.free_area(needs).ok_or(ChangeError::NoRoomForKeyslot { needs })?;
            // intended: a keyslot that is not there has no priority of its own.
            let before = self.metadata.keyslot(*old).map(|keyslot| keyslot.priority).unwrap_or_default();
            let plan = Plan {
                id: slot,
                pbkdf,
                area_cipher: area_cipher.clone(),
                area_key_len,
                af_hash: hash,
                priority: before,
            };
            let sealed = keyslot::seal::<ChangeError>(&plan, offset, key, passphrase)?;
            let with = match self.sealed.is_empty() {
                true => {
                    let digest =
                        keyslot::new_digest::<ChangeError>(id, key, hash, forced, vec![slot], Vec::new())?;
                    self.metadata.with_unbound_keyslot(&sealed.keyslot, &digest)
                }
                false => self.metadata.with_keyslot(&sealed.keyslot, id),
            };
            let with = with.and_then(|metadata| metadata.compose().tokens_also(*old, slot).finish());
            self.metadata = with.map_err(ChangeError::Header)?;
            self.sealed.push(sealed);
        }
        Ok(id)
    }

    /// The kind of key derivation that a keyslot has, for the one that takes its place, unless anything is said of that.
    fn kind_like(&self, slot: u32) -> PbkdfKind {
        let PbkdfOptions { forced_iterations: None, memory_kib: None, lanes: None, .. } = &self.options.pbkdf
        else {
            return PbkdfKind::Argon2id;
        };
        match self.metadata.keyslot(slot).map(|keyslot| &keyslot.kind) {
            Some(KeyslotKind::Luks2 { kdf: Kdf::Pbkdf2 { .. }, .. }) => PbkdfKind::Pbkdf2,
            Some(KeyslotKind::Luks2 { kdf: Kdf::Argon2i(_), .. }) => PbkdfKind::Argon2i,
            _ => PbkdfKind::Argon2id,
        }
    }

    pub(super) fn resilience(&self, kind: ResilienceKind, hash: Option<Hash>, block: u32) -> Resilience {
        match kind {
            ResilienceKind::None => Resilience::None,
            ResilienceKind::Journal => Resilience::Journal,
            ResilienceKind::Checksum => Resilience::Checksum(Checksums {
                hash: hash.unwrap_or(Hash::Sha256).name().into(),
                sector_size: block,
            }),
        }
    }

    /// Adds the reencrypt keyslot, the backup segments and the requirement. `active_digest` is that of the active segments' key.
    pub(super) fn mark(
        &mut self,
        mode: ReencryptMode,
        mut segments: Vec<Segment>,
        backups: &[(&Segment, &str, Option<u32>)],
        active_digest: Option<u32>,
        resilience: Resilience,
    ) -> Result<(), ReencryptError> {
        let encrypted = segments.iter().filter(|segment| matches!(segment.kind, SegmentKind::Crypt { .. }));
        let encrypted: Vec<u32> = encrypted.map(|segment| segment.id).collect();
        let mut digests: Vec<(u32, Vec<u32>)> =
            active_digest.map(|digest| (digest, encrypted)).into_iter().collect();
        for (segment, flag, digest) in backups {
            // cannot fail: there are at most 32 segments.
            let id = u32::try_from(segments.len()).unwrap_or(u32::MAX);
            segments.push(Segment { id, flags: vec![(*flag).into()], ..(*segment).clone() });
            if let Some(digest) = digest {
                match digests.iter_mut().find(|(known, _)| known == digest) {
                    Some((_, bound)) => bound.push(id),
                    None => digests.push((*digest, vec![id])),
                }
            }
        }
        // Unbound keys stay unbound; the digests of segments are all named here.
        let shifts = matches!(resilience, Resilience::DataShift(Shift(_)));
        let room = match shifts {
            true => self.metadata.free_area(4096).map(|offset| (offset, 4096)),
            false => self.metadata.largest_free_area(),
        };
        let (offset, size) = room.ok_or(ReencryptError::NoRoom)?;
        let id = self.metadata.free_keyslot().ok_or(ChangeError::NoFreeKeyslot)?;
        self.verification = self.metadata.free_digest().ok_or(ChangeError::NoFreeDigest)?;
        // Decryption where the data is goes backward, as cryptsetup has it: a header with one active segment tells its beginning.
        let moves_forward = resilience.shift().is_some() && !shifts;
        let direction = match mode {
            _ if shifts => ReencryptDirection::Backward,
            ReencryptMode::Decrypt if !moves_forward => ReencryptDirection::Backward,
            _ => ReencryptDirection::Forward,
        };
        let keyslot = Keyslot {
            id,
            key_len: 1,
            priority: Priority::Ignore,
            area: Area { offset, size, kind: AreaKind::Reencrypt(resilience) },
            kind: KeyslotKind::Reencrypt { mode, direction },
        };
        // Stands in until the whole is there that the real one is made of.
        let digest = Digest {
            id: self.verification,
            keyslots: vec![id],
            segments: Vec::new(),
            kind: DigestKind::Pbkdf2 {
                hash: Hash::Sha256.name().into(),
                iterations: 1,
                salt: [0; SALT_LEN],
                digest: vec![0; Hash::Sha256.output_len()],
            },
        };
        let mut requirements = self.metadata.config().requirements.clone();
        let version = if moves_forward { "online-reencrypt-v3" } else { "online-reencrypt-v2" };
        requirements.push(Requirement::OnlineReencrypt(version.into()));
        let next = self.metadata.compose().keyslot(&keyslot).digest(&digest).segments(&segments, &digests);
        self.metadata = next.requirements(&requirements).finish().map_err(ChangeError::Header)?;
        Ok(())
    }

    /// The whole, with the digest that binds it to the keys.
    pub(super) fn verified(
        &self,
        old: Option<&VolumeKey>,
        new: Option<&VolumeKey>,
    ) -> Result<Metadata, ReencryptError> {
        let state = self.metadata.reencryption()?;
        let forced = self.options.pbkdf.forced_iterations.is_some();
        let digest = verification_digest(&state, old, new, self.verification, forced)?;
        Ok(self.metadata.compose().digest(&digest).finish().map_err(ChangeError::Header)?)
    }
}
