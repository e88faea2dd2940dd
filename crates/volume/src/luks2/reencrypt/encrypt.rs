//! Plaintext that becomes a volume where it is.
//!
//! With a detached header nothing but that header is written before the first zone. With the header in front of the data,
//! the head of the plaintext has to make room first, and no single write can put a header in its place. So the order is: the
//! head is copied to the end of the device; a *note* with every byte that is going to be written goes into the gap in front
//! of that copy; the keyslot; the second header copy; the first one. Whoever finds a head that is neither the old one nor a
//! header, and a good note, completes it ([`interrupted_conversion`]). The first zones overwrite the note. Where there is less
//! data than the header takes, the note lies behind the header's first keyslot, and is overwritten with the plaintext there.

use atrest_device::{Cause, DeviceError, LockMode, Media, Operation};
use atrest_format::luks2::{
    CopyKind, Header, HeaderPair, ReencryptMode, Resilience, Segment, SegmentKind, SegmentSize, Shift,
};
use atrest_kdf::{Hash, digest};
use atrest_secret::{OsRandom, Random, SecretBytes};

use super::begin::{Beginning, check_course};
use super::zone::{Kind, linear};
use super::{ReencryptError, ResilienceKind, Rewriting};
use crate::lock::MetadataLock;
use crate::luks2::keyslot::Sealed;
use crate::luks2::{Luks2, create};
use crate::{ChangeError, Devices, FormatError, FormatOptions, OptionError, Passphrase};

/// Bytes in front of the moved head that the note may take.
const NOTE_ROOM: u64 = 1 << 20;
const NOTE_MAGIC: [u8; 16] = *b"ATREST-IN-PLACE1";
/// Bytes that are copied or compared at a time.
const STEP: usize = 1 << 20;
const SECTOR: usize = 512;

/// How plaintext is to be encrypted.
#[derive(Debug, Default)]
pub struct EncryptOptions {
    /// Header, cipher, first keyslot. `data_offset` is by how much the data moves. With a detached header nothing moves: the
    /// data begins there, and what lies in front of it stays as it is. Data units are of 512 bytes unless it says otherwise, as
    /// file systems may have blocks of less than 4096.
    pub format: FormatOptions,
    /// How zones survive, with a detached header.
    pub resilience: ResilienceKind,
    /// Hash of the sectors; `None` is SHA-256.
    pub hash: Option<Hash>,
    /// Bytes of the data that it is of, from the first one; `None` is all of it.
    pub part: Option<u64>,
}

/// A header that is about to be put in front of plaintext, with all its bytes.
#[derive(Debug)]
pub struct Conversion {
    shift: u64,
    writes: Vec<Write>,
}

/// In the order in which they become durable.
#[derive(Debug)]
struct Write {
    offset: u64,
    bytes: Vec<u8>,
}

/// Begins the encryption of what is on the data device. When this returns, the header is durable.
///
/// With a detached header the data has not been touched. Otherwise its last `2 · data_offset` bytes must be free. The head of
/// the data has been moved there: its first `data_offset` bytes, or all of it if it has less.
///
/// # Errors
/// Before anything is written: [`ReencryptError::NoSpaceBehind`] if the data ends too near to the end of the
/// device, [`ReencryptError::Misaligned`] or [`ReencryptError::NoRoom`] if data or header do not permit it,
/// [`ReencryptError::Format`] for options that can't be used.
///
/// [`ReencryptError::Change`] or [`ReencryptError::Format`] if a device fails. [`interrupted_conversion`]
/// then finds what is to be completed, and without a note the data is where it was.
pub fn begin_encryption<'a>(
    devices: Devices<'a>,
    passphrase: &Passphrase,
    options: EncryptOptions,
) -> Result<Rewriting<'a>, ReencryptError> {
    begin(devices, Some(passphrase), options)
}

/// Begins the encryption of what is on the data device, with the volume key that the options have, and without a keyslot: whoever
/// has that key must keep it.
///
/// # Errors
/// As [`begin_encryption`]; [`ReencryptError::NotKept`] if the options have no volume key.
pub fn begin_encryption_with_key(
    devices: Devices<'_>,
    options: EncryptOptions,
) -> Result<Rewriting<'_>, ReencryptError> {
    match options.format.volume_key {
        Some(_) => begin(devices, None, options),
        None => Err(ReencryptError::NotKept),
    }
}

fn begin<'a>(
    devices: Devices<'a>,
    passphrase: Option<&Passphrase>,
    mut options: EncryptOptions,
) -> Result<Rewriting<'a>, ReencryptError> {
    for device in [devices.header, devices.data] {
        if device.is_read_only() {
            return Err(DeviceError::new(Operation::Write, 0, 0, Cause::ReadOnly).into());
        }
    }
    options.format.data_unit.get_or_insert(512);
    let size = devices.data.size();
    let shift = options.format.data_offset.filter(|_| !devices.detached);
    let (active, backups) = match shift {
        Some(shift) => moving(size, shift)?,
        None if devices.detached => {
            // intended: without an offset the data begins with its device.
            let all = linear(options.format.data_offset.unwrap_or(0), SegmentSize::Dynamic);
            (vec![all.clone()], vec![(all, "backup-previous")])
        }
        None => return Err(OptionError::DataOffset { bytes: 0, header: NOTE_ROOM }.into()),
    };
    // Tags take room that is not there.
    if options.format.tags.is_some() {
        return Err(OptionError::NotInFormat.into());
    }
    let plan = create::plan(devices, &options.format)?;
    let key = plan.key();
    let (header, sealed) = match passphrase {
        Some(passphrase) => {
            let (header, sealed) = create::build(&plan, passphrase, &options.format)?;
            (header, Some(sealed))
        }
        None => (create::build_without_keyslot(&plan, &options.format)?, None),
    };
    let last = Segment {
        flags: Vec::new(),
        ..header.metadata.segments().first().cloned().ok_or(FormatError::Header)?
    };
    let block = match &last.kind {
        SegmentKind::Crypt { sector_size, .. } => devices.data.geometry().logical_block.max(*sector_size),
        _ => return Err(FormatError::Header.into()),
    };
    let mut beginning = Beginning::with(header.metadata.clone(), &options.format.keyslot);
    let resilience = match shift {
        Some(shift) => Resilience::DataShift(Shift(shift)),
        None => beginning.resilience(options.resilience, options.hash, block),
    };
    let mut marked: Vec<(&Segment, &str, Option<u32>)> =
        backups.iter().map(|(segment, flag)| (segment, *flag, None)).collect();
    marked.push((&last, "backup-final", Some(0)));
    beginning.mark(ReencryptMode::Encrypt, active, &marked, None, resilience)?;
    let metadata = beginning.verified(None, Some(key))?;
    let checksums = shift.is_none() && options.resilience == ResilienceKind::Checksum;
    check_course(&metadata, devices, block, checksums, options.part)?;
    let header = Header { metadata, ..header };
    let _lock = MetadataLock::take(devices.header, LockMode::Exclusive)?;
    let conversion =
        // intended: a header of its own needs no shift.
        Conversion::new(&header, shift.unwrap_or(0), sealed)?;
    match shift {
        Some(_) => conversion.begin(devices.data)?,
        None => {
            create::fill_random(
                devices.header,
                header.metadata.keyslots_start(),
                header.metadata.config().keyslots_size,
            )?;
            conversion.write(devices.header)?;
        }
    }
    let volume =
        Luks2 { pair: HeaderPair { header, primary: None, secondary: None }, pin: None, expected: None };
    let state = volume.metadata().reencryption()?;
    Rewriting::new(devices, volume, state, None, Some(key))?.of_part(options.part)
}

type Marked = (Segment, &'static str);

/// Active and backup segments of data whose head moves to the end of the device.
fn moving(size: u64, shift: u64) -> Result<(Vec<Segment>, Vec<Marked>), ReencryptError> {
    // intended: what overflows is larger than every device.
    let needs = shift.saturating_mul(2);
    let too_small = ReencryptError::NoSpaceBehind { needs, has: size };
    let total = size.checked_sub(needs).filter(|total| *total > 0 && shift >= NOTE_ROOM).ok_or(too_small)?;
    // cannot be less: compared above.
    let head = linear(size.saturating_sub(shift), SegmentSize::Fixed(shift.min(total)));
    let mut active = vec![head.clone()];
    if total > shift {
        // cannot be less: compared above.
        active.push(Segment { id: 1, ..linear(shift, SegmentSize::Fixed(total.saturating_sub(shift))) });
    }
    let previous = linear(0, SegmentSize::Fixed(total));
    Ok((active, vec![(head, "backup-moved-segment"), (previous, "backup-previous")]))
}

/// Looks for a conversion that was interrupted while the header was being written: there is a good note for a header at
/// `shift`, and the head of the device is the moved head but for what the note says. `None` if there is nothing to complete:
/// no note, or nothing of it has been written yet.
///
/// # Errors
/// [`ReencryptError::Change`] if the device can't be read.
pub fn interrupted_conversion(device: &dyn Media, shift: u64) -> Result<Option<Conversion>, ReencryptError> {
    let Some(conversion) = Conversion::read_note(device, shift)? else { return Ok(None) };
    Ok(match conversion.compare(device)? {
        Head::Begun => Some(conversion),
        Head::Untouched | Head::Foreign => None,
    })
}

/// Where the note is: in front of the moved head.
fn note_at(size: u64, shift: u64) -> Option<u64> {
    size.checked_sub(shift)?.checked_sub(NOTE_ROOM)
}

/// What the head of a device is, beside the moved head and what a conversion writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    /// The moved head.
    Untouched,
    /// The moved head, but for sectors that are already what they are to be, or torn on the way there.
    Begun,
    /// Something else: it has been written since.
    Foreign,
}

impl Conversion {
    fn new(header: &Header, shift: u64, sealed: Option<Sealed>) -> Result<Self, ReencryptError> {
        let mut writes = Vec::new();
        if let Some(Sealed { keyslot, material: mut bytes, .. }) = sealed {
            let stripes = bytes.len();
            // The whole area: behind the last stripe there is plaintext.
            bytes.resize(usize::try_from(keyslot.area.size).map_err(|_| FormatError::Header)?, 0);
            if let Some(padding) = bytes.get_mut(stripes..) {
                OsRandom.fill(padding).map_err(ChangeError::Random)?;
            }
            writes.push(Write { offset: keyslot.area.offset, bytes });
        }
        // The second copy alone would lie beside the superblock of the plaintext, from where cryptsetup does not go on.
        for copy in [CopyKind::Primary, CopyKind::Secondary] {
            let mut salt = [0; 64];
            OsRandom.fill(&mut salt).map_err(ChangeError::Random)?;
            let bytes = header.encode(copy, &salt).map_err(ChangeError::Header)?;
            let offset = if copy == CopyKind::Primary { 0 } else { header.binary.header_size };
            writes.push(Write { offset, bytes });
        }
        Ok(Self { shift, writes })
    }

    /// Moves the head, leaves the note, and writes the header.
    fn begin(&self, device: &dyn Media) -> Result<(), ReencryptError> {
        let size = device.size();
        let note = self.note(size);
        if note.len() as u64 > NOTE_ROOM {
            return Err(OptionError::MetadataSize { bytes: note.len() as u64 }.into());
        }
        // Of little data the note lies where keyslots will be: in front of it there must be room for what is written.
        // intended: what overflows is larger than every device.
        let end = |write: &Write| write.offset.saturating_add(write.bytes.len() as u64);
        // intended: nothing is written, nothing is needed.
        let ends = self.writes.iter().map(end).max().unwrap_or(0);
        // intended: what overflows is larger than every device.
        let needs = ends.saturating_add(NOTE_ROOM).saturating_add(self.shift);
        let at = note_at(size, self.shift).filter(|_| size >= needs);
        let at = at.ok_or(ReencryptError::NoSpaceBehind { needs, has: size })?;
        // cannot overflow: it is in front of the moved head.
        copy(device, 0, at.saturating_add(NOTE_ROOM), self.head(size))?;
        device.write_at(at, &note)?;
        device.flush()?;
        self.write(device)?;
        self.forget_note(device)
    }

    /// Bytes of the data that are moved: a shift, or all of it.
    fn head(&self, size: u64) -> u64 {
        // intended: a device without two shifts has no data.
        self.shift.min(size.saturating_sub(self.shift.saturating_mul(2)))
    }

    /// Writes keyslot and header, as often as it takes.
    ///
    /// # Errors
    /// [`ReencryptError::Change`] if the device fails. It can be called again.
    pub fn complete(&self, device: &dyn Media) -> Result<(), ReencryptError> {
        let _lock = MetadataLock::take(device, LockMode::Exclusive)?;
        self.write(device)?;
        self.forget_note(device)
    }

    fn write(&self, device: &dyn Media) -> Result<(), ReencryptError> {
        for write in &self.writes {
            device.write_at(write.offset, &write.bytes)?;
            device.flush()?;
        }
        Ok(())
    }

    /// Overwrites the note once the header is whole, and nobody reads it again. It has the first keyslot, which may be removed one day.
    fn forget_note(&self, device: &dyn Media) -> Result<(), ReencryptError> {
        let size = device.size();
        if let Some(at) = note_at(size, self.shift) {
            create::fill_random(device, at, self.note(size).len() as u64)?;
        }
        Ok(device.flush()?)
    }

    /// Magic, size of the device, shift, and for each write its offset, length and bytes; then SHA-256 of all that.
    fn note(&self, size: u64) -> Vec<u8> {
        let mut note = NOTE_MAGIC.to_vec();
        for number in [size, self.shift, self.writes.len() as u64] {
            note.extend_from_slice(&number.to_be_bytes());
        }
        for write in &self.writes {
            note.extend_from_slice(&write.offset.to_be_bytes());
            note.extend_from_slice(&(write.bytes.len() as u64).to_be_bytes());
            note.extend_from_slice(&write.bytes);
        }
        let mut sum = [0; 32];
        digest(Hash::Sha256, &[&note], &mut sum);
        note.extend_from_slice(&sum);
        note
    }

    fn read_note(device: &dyn Media, shift: u64) -> Result<Option<Self>, ReencryptError> {
        let size = device.size();
        // intended: what overflows is larger than every device.
        let has_data = shift >= NOTE_ROOM && size > shift.saturating_mul(2);
        let Some(at) = note_at(size, shift).filter(|_| has_data) else { return Ok(None) };
        let mut note = vec![0; NOTE_ROOM as usize];
        device.read_at(at, &mut note)?;
        Ok(Self::parse(&note, size).filter(|found| found.shift == shift))
    }

    fn parse(note: &[u8], size: u64) -> Option<Self> {
        let (magic, mut rest) = note.split_at_checked(NOTE_MAGIC.len())?;
        if magic != NOTE_MAGIC || number(&mut rest)? != size {
            return None;
        }
        let shift = number(&mut rest)?;
        // Nothing but the place of the header is ever written, and not the note itself.
        let reach = shift.min(note_at(size, shift)?);
        let count = number(&mut rest).filter(|count| *count <= 8)?;
        let mut writes = Vec::new();
        for _ in 0..count {
            let offset = number(&mut rest)?;
            let len = usize::try_from(number(&mut rest)?).ok()?;
            let (bytes, behind) = rest.split_at_checked(len)?;
            rest = behind;
            let end = offset.checked_add(len as u64)?;
            if end > reach || !offset.is_multiple_of(SECTOR as u64) || !len.is_multiple_of(SECTOR) {
                return None;
            }
            writes.push(Write { offset, bytes: bytes.to_vec() });
        }
        let covered = note.get(..note.len().checked_sub(rest.len())?)?;
        let mut sum = [0; 32];
        digest(Hash::Sha256, &[covered], &mut sum);
        (rest.get(..32)? == sum).then_some(Self { shift, writes })
    }

    fn compare(&self, device: &dyn Media) -> Result<Head, ReencryptError> {
        // cannot be less: the device has two shifts at least.
        let moved = device.size().saturating_sub(self.shift);
        // Plaintext, as in `copy`.
        let (mut now, mut then) = (SecretBytes::zeroed(STEP), SecretBytes::zeroed(STEP));
        let mut head = Head::Untouched;
        let (mut at, end) = (0_u64, self.head(device.size()));
        while at < end {
            // cannot be less: the loop ends there.
            let len = usize::try_from(end.saturating_sub(at)).unwrap_or(STEP).min(STEP);
            let (Some(now), Some(then)) = (now.get_mut(..len), then.get_mut(..len)) else { break };
            device.read_at(at, now)?;
            // cannot overflow: the moved head ends with the device.
            device.read_at(moved.saturating_add(at), then)?;
            for (index, (now, then)) in now.chunks(SECTOR).zip(then.chunks(SECTOR)).enumerate() {
                if now == then {
                    continue;
                }
                // cannot overflow: inside the head of the device.
                let offset = at.saturating_add((index as u64).saturating_mul(SECTOR as u64));
                // A sector may be torn: then each of its bytes is the old or the new one.
                let either = |new: &[u8]| {
                    now.iter().zip(then).zip(new).all(|((now, old), new)| now == old || now == new)
                };
                if !self.sector(offset).is_some_and(either) {
                    return Ok(Head::Foreign);
                }
                head = Head::Begun;
            }
            // cannot overflow: the loop ends there.
            at = at.saturating_add(len as u64);
        }
        Ok(head)
    }

    /// What is to be in a sector, if it is to be changed.
    fn sector(&self, offset: u64) -> Option<&[u8]> {
        self.writes.iter().find_map(|write| {
            let skip = usize::try_from(offset.checked_sub(write.offset)?).ok()?;
            write.bytes.get(skip..skip.checked_add(SECTOR)?)
        })
    }
}

impl Rewriting<'_> {
    /// Fills what is unused between header and data with random bytes, while no zone has been rewritten: the head of the
    /// plaintext was there.
    ///
    /// # Errors
    /// [`ReencryptError::Change`] or [`ReencryptError::Format`] if the device fails, [`ReencryptError::Row`]
    /// as in [`done`](Self::done).
    pub fn bury_head(&self) -> Result<(), ReencryptError> {
        let moves = self.course.kind == Kind::AwayFromHeader;
        if !moves || self.course.state.hot.is_some() || self.course.done()? != 0 {
            return Ok(());
        }
        let metadata = self.volume.metadata();
        // The area of the zones holds nothing when what is read is not overwritten.
        let keys = metadata.keyslots().iter().filter(|keyslot| keyslot.id != self.course.state.keyslot);
        let mut used: Vec<(u64, u64)> =
            keys.map(|keyslot| (keyslot.area.offset, keyslot.area.end())).collect();
        used.push((self.course.state.last.offset, u64::MAX));
        used.sort_unstable();
        let mut at = metadata.keyslots_start();
        for (from, to) in used {
            if at < from {
                // cannot be less: compared above.
                create::fill_random(self.devices.header, at, from.saturating_sub(at))?;
            }
            at = at.max(to);
        }
        Ok(self.devices.header.flush()?)
    }
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (bytes, behind) = rest.split_first_chunk::<8>()?;
    *rest = behind;
    Some(u64::from_be_bytes(*bytes))
}

fn copy(device: &dyn Media, from: u64, to: u64, len: u64) -> Result<(), ReencryptError> {
    // Plaintext, which wipes itself.
    let mut buf = SecretBytes::zeroed(STEP);
    let mut done = 0_u64;
    while done < len {
        // cannot be less: the loop ends at the length.
        let step = usize::try_from(len.saturating_sub(done)).unwrap_or(STEP).min(STEP);
        let Some(piece) = buf.get_mut(..step) else { break };
        // cannot overflow: inside the device.
        device.read_at(from.saturating_add(done), piece)?;
        // cannot overflow: inside the device.
        device.write_at(to.saturating_add(done), piece)?;
        // cannot overflow: not beyond the length.
        done = done.saturating_add(step as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use atrest_device::BlockDevice as _;
    use atrest_testkit::FaultDevice;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn conversion(shift: u64, writes: &[(u64, usize)]) -> Conversion {
        let write = |(offset, len): &(u64, usize)| Write { offset: *offset, bytes: vec![7; *len] };
        Conversion { shift, writes: writes.iter().map(write).collect() }
    }

    /// Whether a good note of this conversion is taken for one.
    fn is_read(conversion: &Conversion, size: u64) -> bool {
        let device = FaultDevice::zeroed(size as usize);
        let at = size - conversion.shift - NOTE_ROOM;
        device.write_at(at, &conversion.note(size)).expect("there is room");
        Conversion::read_note(&device, conversion.shift).expect("reads").is_some()
    }

    /// Whoever can write a note has no key: it must not make this program write anything but a header in front of the data.
    #[test]
    fn a_note_writes_whole_sectors_in_front_of_the_data_of_a_medium_that_has_room() {
        let one = [(0, 512)];
        assert!(is_read(&conversion(MIB, &one), 3 * MIB));
        assert!(is_read(&conversion(MIB, &one), 2 * MIB + 512), "as little data as there can be");
        assert!(!is_read(&conversion(MIB, &[(0, 1024)]), 2 * MIB + 512), "the header would lie on the note");
        assert!(!is_read(&conversion(MIB, &one), 2 * MIB), "no data");
        assert!(!is_read(&conversion(MIB - 512, &one), 4 * MIB), "no header is so short");
        for (write, good) in [
            ((MIB - 512, 512), true),
            ((MIB - 512, 1024), false),
            ((MIB, 512), false),
            ((u64::MAX - 511, 512), false),
            ((256, 512), false),
            ((512, 256), false),
        ] {
            assert_eq!(is_read(&conversion(MIB, &[write]), 3 * MIB), good, "{write:?}");
        }
        assert!(is_read(&conversion(MIB, &[(0, 512); 8]), 3 * MIB));
        assert!(!is_read(&conversion(MIB, &[(0, 512); 9]), 3 * MIB));
    }

    #[test]
    fn a_note_that_is_cut_off_or_changed_is_none() {
        let note = conversion(MIB, &[(0, 512), (4096, 1024)]).note(3 * MIB);
        let whole = Conversion::parse(&note, 3 * MIB).expect("good");
        assert_eq!((whole.shift, whole.writes.len()), (MIB, 2));
        assert!(Conversion::parse(&note, 3 * MIB + 512).is_none(), "of another device");
        for len in 0..note.len() {
            assert!(Conversion::parse(&note[..len], 3 * MIB).is_none(), "{len}");
        }
        for at in 0..note.len() {
            let mut other = note.clone();
            other[at] ^= 1;
            assert!(Conversion::parse(&other, 3 * MIB).is_none(), "{at}");
        }
    }
}
