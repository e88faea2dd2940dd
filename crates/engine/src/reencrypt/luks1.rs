//! Re-encryption of a volume of LUKS1, which has no means of its own to survive a crash in the middle of one. Its header becomes one of
//! LUKS2 for that time, and one of LUKS1 again at the end; both changes survive a crash themselves.
//!
//! Whether all that will be possible is tried before on a copy of the header in memory: nothing is written for nothing.

use std::sync::{Mutex, PoisonError};

use atrest_device::{BlockDevice, Cause, DeviceError, Geometry, Media, Operation, Unshared};
use atrest_kdf::Hash;
use atrest_volume::luks2::reencrypt::{NewKey, ReencryptError, ReencryptOptions, Rewriting};
use atrest_volume::{
    ConvertError, Devices, Info, LockedVolume, OpenError, Passphrase, PbkdfKind, VolumeFormat, VolumeKey,
    convert, convert_meanwhile,
};

/// Bytes of a header that are tried in memory at most: both copies of LUKS2's, and its longest keyslots area.
const LONGEST: u64 = (32 << 10) + (128 << 20);
/// Bytes of a header that has a device of its own.
const DETACHED: u64 = 16 << 20;
/// Iterations of the keyslots that are tried.
const FEW: u32 = 1000;

/// Why a volume of LUKS1 is not re-encrypted.
#[non_exhaustive]
#[derive(Debug, PartialEq, Eq)]
pub enum Luks1Error {
    /// The header can't be one of LUKS2 meanwhile, or not one of LUKS1 afterwards.
    Convert(ConvertError),
    /// The re-encryption can't begin.
    Reencrypt(Box<ReencryptError>),
    /// Data would move back, but its header lies elsewhere and gets no room by that.
    ShiftDetached,
    /// Data would move back further than the longest header reaches.
    ShiftTooFar {
        /// Bytes by which it can move at most; none if it is as far back already.
        most: u64,
    },
    /// It does not begin, and keyslots that were to go are gone: they had to make room first.
    Dropped {
        /// Their numbers.
        slots: Vec<u32>,
        /// Why it does not begin.
        error: Box<Luks1Error>,
    },
}

impl std::fmt::Display for Luks1Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Convert(error) => error.fmt(f),
            Self::Reencrypt(error) => error.fmt(f),
            Self::ShiftDetached => f.write_str(
                "the header lies elsewhere: it needs no room in front of the data, which can't move back",
            ),
            Self::ShiftTooFar { most } => write!(f, "the data can move back by {most} bytes at most"),
            Self::Dropped { slots, error } => {
                write!(
                    f,
                    "keyslots {slots:?} are removed already, but the re-encryption does not begin: {error}"
                )
            }
        }
    }
}

impl std::error::Error for Luks1Error {}

impl From<ConvertError> for Luks1Error {
    fn from(error: ConvertError) -> Self {
        Self::Convert(error)
    }
}

impl From<ReencryptError> for Luks1Error {
    fn from(error: ReencryptError) -> Self {
        Self::Reencrypt(Box::new(error))
    }
}

impl From<OpenError> for Luks1Error {
    fn from(error: OpenError) -> Self {
        Self::Convert(error.into())
    }
}

/// Begins it. New keyslots are by PBKDF2, and by the hash that the options or else the header name, whatever else the options say of them.
/// When [`run`](super::run) is done, [`end_luks1`] makes a volume of LUKS1 of it again; so it does if this fails after the header was written.
///
/// # Errors
/// [`Luks1Error`]. Nothing is written if the volume could not be one of LUKS2 meanwhile, with room for a second keyslot for each
/// passphrase, or not one of LUKS1 afterwards, or if its data would move for nothing. What is written stays where the media fails
/// after that; [`Luks1Error::Dropped`] names the keyslots that are gone then.
pub fn begin_luks1<'a>(
    data: &'a dyn Media,
    header: Option<&'a dyn Media>,
    passphrases: &[(&Passphrase, Option<u32>)],
    options: &ReencryptOptions,
) -> Result<Rewriting<'a>, Luks1Error> {
    let devices = Devices::with_header(header, data);
    let info = LockedVolume::read(devices.header)?.info();
    let options = with_pbkdf2(options, &info);
    let offset = data_offset(&info);
    // Where data moves back, the header of LUKS1 may reach into what it leaves free.
    // intended: a shift beyond all devices is refused as such when the re-encryption begins.
    let room = offset.saturating_add(options.shift.unwrap_or(0));
    if options.shift.is_some() {
        check_shift(header.is_some(), offset, room)?;
    }
    let rehearsed = |early: &[u32]| rehearse(devices, header.is_some(), room, passphrases, &options, early);
    let mut early = Vec::new();
    match rehearsed(&early) {
        Ok(()) => {}
        // The keyslots that the caller gives up may take the room that is missing. If it can begin without them, they are removed
        // first; else they stay, too.
        Err(_) if !options.drop_slots.is_empty() => {
            early = not_carried(devices.header, passphrases, &options.drop_slots)?;
            rehearsed(&early)?;
        }
        Err(error) => return Err(error),
    }
    let mut gone = Vec::new();
    let begun = drop_early(devices.header, &early, &mut gone).and_then(|()| {
        let locked = convert_meanwhile(devices.header)?;
        let luks2 = locked.luks2().ok_or(OpenError::NotLuks)?;
        Ok(luks2.begin_reencryption(devices, passphrases, &options)?)
    });
    begun.map_err(|error| match gone.is_empty() {
        true => error,
        false => Luks1Error::Dropped { slots: gone, error: Box::new(error) },
    })
}

/// A copy of the options in which new keyslots are such as LUKS1 has.
pub(super) fn with_pbkdf2(options: &ReencryptOptions, info: &Info) -> ReencryptOptions {
    let mut options = copy_of(options);
    let of_header = info.digests.first().and_then(|digest| Hash::from_name(digest.hash.as_deref()?));
    let keyslot = &mut options.keyslot;
    let hash = keyslot.pbkdf.hash.or(of_header);
    keyslot.pbkdf.kind.get_or_insert(PbkdfKind::Pbkdf2);
    (keyslot.pbkdf.hash, keyslot.af_hash) = (hash, hash);
    options
}

fn copy_of(options: &ReencryptOptions) -> ReencryptOptions {
    ReencryptOptions {
        key: match &options.key {
            NewKey::Random => NewKey::Random,
            NewKey::Keep => NewKey::Keep,
            NewKey::Anew => NewKey::Anew,
            NewKey::Given(key) => NewKey::Given(VolumeKey::copy_from(key.expose())),
        },
        key_len: options.key_len,
        keyslot: options.keyslot.clone(),
        cipher: options.cipher.clone(),
        data_unit: options.data_unit,
        without_keyslots: options.without_keyslots,
        resilience: options.resilience,
        hash: options.hash,
        part: options.part,
        shift: options.shift,
        drop_slots: options.drop_slots.clone(),
    }
}

/// Where the data begins.
pub(super) fn data_offset(info: &Info) -> u64 {
    // intended: every header of LUKS1 has a segment.
    info.segments.first().map_or(0, |segment| segment.offset)
}

/// Refuses to move data back where that gives the header no room, or further than [`HeaderCopy`] holds, in which what is left in
/// front of it is wiped, too. `room` is what the header would have then.
fn check_shift(detached: bool, offset: u64, room: u64) -> Result<(), Luks1Error> {
    if detached {
        return Err(Luks1Error::ShiftDetached);
    }
    match room <= LONGEST {
        true => Ok(()),
        // intended: none if it begins behind that already.
        false => Err(Luks1Error::ShiftTooFar { most: LONGEST.saturating_sub(offset) }),
    }
}

/// Makes a volume of LUKS1 of one whose re-encryption is done, or had not begun.
///
/// What a power loss may have left is put right first: a damaged copy of the header, and keyslots of the old key, which opens nothing any
/// more.
///
/// # Errors
/// [`ConvertError`] as in [`convert`]. It stays one of LUKS2 then, and can be used.
pub fn end_luks1(header: &dyn Media) -> Result<LockedVolume, ConvertError> {
    let offset = data_offset(&LockedVolume::read(header)?.info());
    ended(&HeaderCopy::of(header, offset)?)?;
    ended(header)
}

fn ended(header: &dyn Media) -> Result<LockedVolume, ConvertError> {
    put_right(header)?;
    convert(header, VolumeFormat::Luks1)
}

/// Puts right what a power loss may have left: a damaged copy of the header, and keyslots of the old key.
pub(super) fn put_right(header: &dyn Media) -> Result<(), ConvertError> {
    let mut locked = LockedVolume::read(header)?;
    let info = locked.info();
    if info.copies.iter().any(|copy| copy.damage.is_some()) {
        locked.repair(header)?;
    }
    for keyslot in info.keyslots {
        let is_ours = locked.luks2().is_some_and(|luks2| luks2.is_of_luks1(keyslot.id));
        if is_ours && !locked.opens_data(keyslot.id) {
            locked.kill_slot(header, keyslot.id, false)?;
        }
    }
    Ok(())
}

/// Those of `slots` that are in use and that no passphrase here opens.
fn not_carried(
    header: &dyn Media,
    passphrases: &[(&Passphrase, Option<u32>)],
    slots: &[u32],
) -> Result<Vec<u32>, Luks1Error> {
    let locked = LockedVolume::read(header)?;
    let mut early: Vec<u32> = locked.info().keyslots.iter().map(|keyslot| keyslot.id).collect();
    early.retain(|slot| slots.contains(slot));
    for (passphrase, slot) in passphrases {
        let (opened, _) = locked.volume_key(header, passphrase, *slot).map_err(ReencryptError::from)?;
        early.retain(|slot| *slot != opened);
    }
    Ok(early)
}

/// Removes keyslots of the old key that are not carried over. Those that it has removed are in `gone`, also where it fails.
fn drop_early(header: &dyn Media, slots: &[u32], gone: &mut Vec<u32>) -> Result<(), Luks1Error> {
    let mut locked = LockedVolume::read(header)?;
    for slot in slots {
        locked
            .kill_slot(header, *slot, false)
            .map_err(|error| Luks1Error::from(ReencryptError::from(error)))?;
        gone.push(*slot);
    }
    Ok(())
}

/// Does all of it to a copy of the header, from which the keyslots in `early` are removed first.
fn rehearse(
    devices: Devices<'_>,
    detached: bool,
    room: u64,
    passphrases: &[(&Passphrase, Option<u32>)],
    options: &ReencryptOptions,
    early: &[u32],
) -> Result<(), Luks1Error> {
    let header = HeaderCopy::of(devices.header, if detached { 0 } else { room })?;
    let (size, geometry) = (devices.data.size(), devices.data.geometry());
    let data = HeaderCopy { bytes: Mutex::default(), size, geometry };
    let quick = quick(options);
    let copies = if detached { Devices::detached(&header, &data) } else { Devices::together(&header) };
    drop_early(&header, early, &mut Vec::new())?;
    let locked = convert_meanwhile(&header)?;
    let luks2 = locked.luks2().ok_or(OpenError::NotLuks)?;
    let mut begun = luks2.begin_reencryption(copies, passphrases, &quick)?;
    // Fails here if not even the smallest zone can be protected.
    begun.next(u64::MAX)?;
    begun.finish()?;
    drop(begun);
    ended(&header)?;
    Ok(())
}

/// A copy of the options with keyslots that take no time to try.
pub(super) fn quick(options: &ReencryptOptions) -> ReencryptOptions {
    let mut quick = copy_of(options);
    let pbkdf = &mut quick.keyslot.pbkdf;
    // Too few are refused here, too.
    pbkdf.forced_iterations = Some(pbkdf.forced_iterations.map_or(FEW, |forced| forced.min(FEW)));
    quick
}

/// A copy of a device's beginning, which alone can be written. Behind it are zeros. Wiped on drop: its keyslots cost next to nothing to try.
pub(super) struct HeaderCopy {
    bytes: Mutex<Vec<u8>>,
    size: u64,
    geometry: Geometry,
}

impl HeaderCopy {
    /// Of a header whose data begins at `offset` on the same device; 0 if the header has one of its own.
    pub(super) fn of(device: &dyn Media, offset: u64) -> Result<Self, OpenError> {
        let size = device.size();
        let len = if offset == 0 { DETACHED.min(size) } else { offset.min(LONGEST).min(size) };
        let mut bytes = vec![0; len as usize];
        device.read_at(0, &mut bytes).map_err(OpenError::Device)?;
        Ok(Self { bytes: Mutex::new(bytes), size, geometry: device.geometry() })
    }

    /// Zeros, all of which can be written.
    pub(super) fn empty(size: u64, geometry: Geometry) -> Self {
        Self { bytes: Mutex::new(vec![0; size as usize]), size, geometry }
    }
}

impl Drop for HeaderCopy {
    fn drop(&mut self) {
        atrest_secret::wipe(self.bytes.get_mut().unwrap_or_else(PoisonError::into_inner));
    }
}

impl BlockDevice for HeaderCopy {
    fn size(&self) -> u64 {
        self.size
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn geometry(&self) -> Geometry {
        self.geometry
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        buf.fill(0);
        // intended: nothing was copied from behind the end.
        let has = bytes.get(offset as usize..).unwrap_or_default();
        let len = has.len().min(buf.len());
        buf[..len].copy_from_slice(&has[..len]);
        Ok(())
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Write, offset, data.len() as u64)?;
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let place = bytes.get_mut(offset as usize..).and_then(|behind| behind.get_mut(..data.len()));
        let no_room = DeviceError::new(Operation::Write, offset, data.len() as u64, Cause::NoSpace);
        place.ok_or(no_room)?.copy_from_slice(data);
        Ok(())
    }
    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Unshared for HeaderCopy {}
