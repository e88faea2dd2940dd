//! A mapping whose volume is re-encrypted while it is open.
//!
//! The kernel encrypts, so it has to know which form each byte has. For each zone:
//!
//! 1. A table is loaded, beside the one in use, in which the zone fails and all else is as it was.
//! 2. The mapping is suspended: what was begun is done, and everything else waits.
//! 3. The zone is rewritten on the device below, and the header says so.
//! 4. The table for afterwards is loaded, and the mapping goes on with it.
//!
//! When step 3 fails, the zone may be half-written, and the mapping goes on with the table of step 1. When this process is killed there, all
//! I/O waits until somebody goes on with the re-encryption, or closes the mapping and opens it again. Whoever lets the mapping go on without
//! knowing of this gets the table of step 1, too. What the kernel would refuse in step 4 it is asked for before the first zone.
//!
//! While I/O waits, this process must not wait for it. All its memory is locked, it asks the kernel to free no memory by writing, and a
//! header on a file system that lies on the mapping is refused.

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atrest_engine::reencrypt::{RewriteError, Served};
use atrest_secret::{OsRandom, Random, SecretBytes};
use atrest_volume::luks2::reencrypt::{ReencryptError, Rewriting, SegmentKeys, Zone};
use atrest_volume::{CryptFlags, CryptTarget, Volume, VolumeFormat, VolumeKey};

use super::control::Control;
use super::error::DmError;
use super::message::{self, Message};
use super::parts::{self, Part};
use super::place::lies_on;
use super::status::Mapping;
use super::table::{self, KeyPlace};
use super::{change, check_name, encrypted, keyring, sys, uuid};

/// Bytes of a zone that the kernel is asked about: whatever its length is, the targets are the same.
const TRIAL: u64 = 1 << 20;

/// A mapping that follows the re-encryption of its volume. It is asked for the zones by the thread that made it.
pub struct Remapped {
    control: Control,
    tables: Tables,
    keys: Keys,
    state: Mutex<State>,
    /// The device below, to drop what is remembered of it.
    below: File,
}

/// What makes the tables of a mapping.
struct Tables {
    mapping: Mapping,
    /// What all of it lies on.
    device: u64,
    flags: CryptFlags,
}

/// The keys of both sides; plaintext has none.
pub struct Keys {
    /// Of what has not been done yet.
    pub old: Option<VolumeKey>,
    /// Of what is done.
    pub new: Option<VolumeKey>,
}

impl Keys {
    fn of_segments(&self) -> SegmentKeys<'_> {
        SegmentKeys { old: self.old.as_ref(), new: self.new.as_ref(), keep: true }
    }
}

#[derive(Default)]
struct State {
    /// The zone that is rewritten while I/O waits.
    entered: Option<Entered>,
    error: Option<DmError>,
}

/// A zone that was entered, and not left yet.
struct Entered {
    before: Volume,
    zone: Range<u64>,
    after: Volume,
    /// It is rewritten, and the header says so.
    is_done: bool,
}

/// A line of a table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    /// First byte and bytes.
    place: (u64, u64),
    kind: &'static str,
    line: SecretBytes,
}

impl Remapped {
    /// The mapping of that name, whose volume `rewriting` is the re-encryption of. If another process was killed while it waited, it goes on
    /// with what the header says now. `header` is the file that a detached header lies in.
    ///
    /// # Errors
    /// [`DmError::OtherVolume`] if it is not this volume, in the state that the header tells; [`DmError::HeaderAbove`] if the header lies on
    /// it. Otherwise why the kernel does not tell, or does not take the table of the state that the header tells.
    pub fn new(
        name: &str,
        rewriting: &Rewriting<'_>,
        keys: Keys,
        header: Option<&Path>,
    ) -> Result<Self, DmError> {
        let control = Control::open()?;
        let mapping = encrypted(&control, name)?;
        let other = || DmError::OtherVolume { name: name.into() };
        let found = control.status(name)?.ok_or_else(|| DmError::NotOpen { name: name.into() })?;
        if let Some(header) = header.filter(|header| lies_on(header, found.device)) {
            return Err(DmError::HeaderAbove { name: name.into(), path: header.into() });
        }
        let now = volume(rewriting.as_it_is(&keys.of_segments()))?;
        let is_same = found.uuid == uuid(name, &now) && mapping.sectors * 512 == rewriting.total();
        let now_rows = read(&control, name)?;
        let device = one_device(&now_rows).filter(|_| is_same && mapping.tags.is_none()).ok_or_else(other)?;
        let below = below(&mapping)?;
        let was_left = is_left(&mapping, &now_rows);
        let flags = mapping.crypt_flags();
        let tables = Tables { mapping, device, flags };
        let remapped = Self { control, tables, keys, state: Mutex::default(), below };
        // One that nothing protects is hot, too, and told by the rewriting.
        let is_hot = !matches!(rewriting.interrupted(), Ok(None));
        match (was_left, is_hot) {
            // The zone is entered first of all, and its table is the next one.
            (true, true) => {}
            (true, false) => {
                let table = remapped.tables.message(&now, None)?;
                change::put_right(&remapped.control, name, table)?;
            }
            (false, true) => return Err(other()),
            (false, false) if remapped.tables.rows(&now, None)?.iter().eq(&now_rows) => {}
            (false, false) => return Err(other()),
        }
        if !was_left {
            // Otherwise it has taken them before.
            remapped.ask(rewriting)?;
        }
        stay_in_memory()?;
        Ok(remapped)
    }

    /// Why a zone was not entered or left.
    pub fn take_error(&self) -> Option<DmError> {
        self.state().error.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load(&self, volume: &Volume, hole: Option<&Range<u64>>) -> Result<(), DmError> {
        self.control.load(self.tables.message(volume, hole)?)
    }

    /// Asks the kernel whether it would take the tables of this re-encryption, and changes nothing.
    fn ask(&self, rewriting: &Rewriting<'_>) -> Result<(), DmError> {
        // intended: why there is no zone, the rewriting tells.
        let Ok(Some(zone)) = rewriting.next(TRIAL) else { return Ok(()) };
        let after = volume(rewriting.volume_after(&zone, &self.keys.of_segments()))?;
        let taken = self.load(&after, None);
        self.control.clear(&self.tables.mapping.name)?;
        taken
    }

    fn try_enter(&self, rewriting: &Rewriting<'_>, zone: &Zone) -> Result<(), DmError> {
        let keys = self.keys.of_segments();
        let before = volume(rewriting.as_it_is(&keys))?;
        let after = volume(rewriting.volume_after(zone, &keys))?;
        let zone = zone.offset..zone.offset + zone.len;
        self.load(&before, Some(&zone))?;
        self.control.suspend_at_once(&self.tables.mapping.name)?;
        self.state().entered = Some(Entered { before, zone, after, is_done: false });
        // What was written through the mapping must be durable before it is hashed, or after a power loss an older sector would be taken for
        // one that is rewritten. And what was read of the device may be older than that.
        read_anew(&self.below, &self.tables.mapping)
    }

    fn try_leave(&self) -> Result<(), DmError> {
        // cannot be missing: who leaves has entered.
        let mut entered = self.state().entered.take().ok_or(DmError::Answer)?;
        entered.is_done = true;
        let left = self.go_on_with(&entered.after, None);
        if left.is_err() {
            // It waits still, and `fail` lets it go on.
            self.state().entered = Some(entered);
        }
        left
    }

    fn go_on_with(&self, volume: &Volume, hole: Option<&Range<u64>>) -> Result<(), DmError> {
        self.load(volume, hole)?;
        change::go_on(&self.control, &self.tables.mapping.name)
    }

    /// Lets it go on after a failure: with the zone if that is done, or else without. The kernel throws a table away that it does not take,
    /// so each is loaded anew.
    fn give_up(&self, entered: &Entered) -> Result<(), DmError> {
        if entered.is_done && (self.go_on_with(&entered.after, None).is_ok() || self.goes_on()?) {
            return Ok(());
        }
        self.go_on_with(&entered.before, Some(&entered.zone)).or_else(|error| {
            // By the table in use alone, the zone would be read and written in its old form: better that it waits.
            let found = self.control.status(&self.tables.mapping.name)?;
            match found.is_some_and(|found| found.loaded) {
                true => change::go_on(&self.control, &self.tables.mapping.name),
                false => Err(error),
            }
        })
    }

    /// Whether no I/O waits: the last table was taken, also if udev has not heard of it.
    fn goes_on(&self) -> Result<bool, DmError> {
        let found = self.control.status(&self.tables.mapping.name)?;
        Ok(found.is_some_and(|found| !found.suspended))
    }

    fn noted(&self, result: Result<(), DmError>) -> Result<(), RewriteError> {
        result.map_err(|error| {
            self.state().error = Some(error);
            RewriteError::Served
        })
    }
}

impl Tables {
    /// The table of a volume in which `hole` can't be read or written.
    fn rows(&self, volume: &Volume, hole: Option<&Range<u64>>) -> Result<Vec<Row>, DmError> {
        let keys = KeyPlace::choose(volume, !self.mapping.keyring && self.mapping.key_bits > 0)?;
        let mut rows = Vec::new();
        for part in parts::of(volume)? {
            let (start, len) = match &part {
                Part::Crypt(target) => (target.start, target.len),
                Part::Clear(segment) | Part::Zeros(segment) => (segment.start, segment.len),
            };
            let whole = start..start + len;
            // intended: no hole is one behind everything.
            let hole = hole.cloned().unwrap_or(u64::MAX..u64::MAX);
            let in_hole = whole.start.max(hole.start)..whole.end.min(hole.end);
            let pieces = [whole.start..whole.end.min(hole.start), whole.start.max(hole.end)..whole.end];
            for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
                rows.push(self.row(&part, start, &piece, &keys));
            }
            if !in_hole.is_empty() {
                let place = (in_hole.start, in_hole.end - in_hole.start);
                rows.push(Row { place, kind: "error", line: SecretBytes::copy_from(b"") });
            }
        }
        rows.sort_by_key(|row| row.place);
        Ok(rows)
    }

    /// A piece of a part that begins at `start`.
    fn row(&self, part: &Part<'_>, start: u64, piece: &Range<u64>, keys: &KeyPlace) -> Row {
        let place = (piece.start, piece.end - piece.start);
        let skip = piece.start - start;
        match part {
            Part::Crypt(target) => {
                let target = CryptTarget {
                    start: place.0,
                    len: place.1,
                    media_offset: target.media_offset + skip,
                    cipher: target.cipher.clone(),
                    key: VolumeKey::copy_from(target.key.expose()),
                    digest: target.digest,
                    iv_offset: target.iv_offset + skip / 512,
                    data_unit: target.data_unit,
                    iv_large: target.iv_large,
                    tags: target.tags,
                };
                let line = table::line(&target, keys, (self.device, target.media_offset), self.flags);
                Row { place, kind: "crypt", line }
            }
            Part::Clear(segment) | Part::Zeros(segment) => {
                let line = parts::linear(self.device, segment.media_offset + skip);
                Row { place, kind: "linear", line: SecretBytes::copy_from(line.as_bytes()) }
            }
        }
    }

    /// The table of a volume as a message to the kernel, likewise.
    fn message(&self, volume: &Volume, hole: Option<&Range<u64>>) -> Result<Message, DmError> {
        let mut table = Message::new(&self.mapping.name);
        table.read_only(self.mapping.read_only);
        for Row { place: (start, len), kind, line } in &self.rows(volume, hole)? {
            table.target(*start, *len, kind, line);
        }
        Ok(table)
    }
}

impl Served for Remapped {
    fn enter(&self, rewriting: &Rewriting<'_>, zone: &Zone) -> Result<(), RewriteError> {
        self.noted(self.try_enter(rewriting, zone))
    }

    fn leave(&self) -> Result<(), RewriteError> {
        self.noted(self.try_leave())
    }

    fn fail(&self) {
        let entered = self.state().entered.take();
        let given_up = entered.map_or(Ok(()), |entered| self.give_up(&entered));
        let mut state = self.state();
        // The first error is the one to tell.
        if state.error.is_none() {
            state.error = given_up.err();
        }
    }

    fn is_elsewhere(&self) -> bool {
        true
    }
}

/// Whether a mapping waits, or a zone of it fails: a process was killed that re-encrypted it, or could not write.
fn is_left(mapping: &Mapping, rows: &[Row]) -> bool {
    mapping.suspended || rows.iter().any(|row| row.kind == "error")
}

/// What state somebody has left a mapping in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It goes on.
    Whole,
    /// All I/O waits, by the table that is in use: somebody has suspended it.
    Suspended,
    /// All I/O waits for another table, or a part fails, as after a re-encryption that was cut off.
    CutOff,
}

/// How a mapping of LUKS2 was left.
///
/// # Errors
/// Why the kernel does not tell.
pub fn left(mapping: &Mapping) -> Result<Left, DmError> {
    let (control, name) = (Control::open()?, &mapping.name);
    let rows = read(&control, name)?;
    let found = control.status(name)?.ok_or_else(|| DmError::NotOpen { name: name.clone() })?;
    Ok(how_left(found.suspended, found.loaded, &rows))
}

/// A re-encryption loads a table before I/O waits; who suspends a mapping loads none. And a volume of which nothing is re-encrypted has one
/// row.
fn how_left(suspended: bool, loaded: bool, rows: &[Row]) -> Left {
    match (suspended, rows) {
        _ if rows.iter().any(|row| row.kind == "error") => Left::CutOff,
        (true, [_]) if !loaded => Left::Suspended,
        (true, _) => Left::CutOff,
        (false, _) => Left::Whole,
    }
}

/// What data is to be encrypted with, for a kernel that is asked whether it would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The cipher by dm-crypt's own name.
    pub cipher: String,
    /// Bytes in its key.
    pub key_len: usize,
    /// Bytes in a data unit.
    pub data_unit: u32,
}

/// Checks before a re-encryption begins that a mapping can follow it: what [`Remapped::new`] would find out when the header says already
/// that it has begun. `header` is the file that a detached header lies in. The kernel is asked for `new` beside the table in use, with a
/// key that encrypts nothing, and forgets it again.
///
/// # Errors
/// [`DmError::OtherVolume`] if it is not `size` bytes of one device, [`DmError::Fixed`] if it has tags, and [`DmError::HeaderAbove`] if the
/// header lies on it. [`DmError::Table`] if the kernel does not take the new cipher.
pub fn check_can_follow(
    mapping: &Mapping,
    size: u64,
    header: Option<&Path>,
    new: Option<&Trial>,
) -> Result<(), DmError> {
    let (control, name) = (Control::open()?, &mapping.name);
    let found = control.status(name)?.ok_or_else(|| DmError::NotOpen { name: name.clone() })?;
    if mapping.tags.is_some() {
        return Err(DmError::Fixed { name: name.clone() });
    }
    if let Some(header) = header.filter(|header| lies_on(header, found.device)) {
        return Err(DmError::HeaderAbove { name: name.clone(), path: header.into() });
    }
    let is_same = mapping.sectors.checked_mul(512) == Some(size);
    let device = one_device(&read(&control, name)?).filter(|_| is_same);
    let device = device.ok_or_else(|| DmError::OtherVolume { name: name.clone() })?;
    new.map_or(Ok(()), |new| try_out(&control, mapping, device, new))
}

/// Loads a table with another cipher beside the one in use, and clears it.
fn try_out(control: &Control, mapping: &Mapping, device: u64, new: &Trial) -> Result<(), DmError> {
    let mut key = SecretBytes::zeroed(new.key_len);
    let no_random = |_| DmError::System { request: "random bytes", error: std::io::ErrorKind::Other.into() };
    OsRandom.fill(&mut key).map_err(no_random)?;
    let (size, media_offset) = (mapping.sectors * 512, mapping.offset * 512);
    // What is left of a data unit at the end is refused by the re-encryption, in its own words.
    let len = size - size % u64::from(new.data_unit).max(512);
    let target = CryptTarget {
        start: 0,
        len,
        media_offset,
        cipher: new.cipher.clone(),
        key: VolumeKey::new(key),
        digest: None,
        iv_offset: 0,
        data_unit: new.data_unit,
        iv_large: false,
        tags: None,
    };
    let line = table::line(&target, &KeyPlace::Table, (device, media_offset), mapping.crypt_flags());
    let mut message = Message::new(&mapping.name);
    message.read_only(mapping.read_only);
    message.target(0, len, "crypt", &line);
    let taken = control.load(message);
    control.clear(&mapping.name)?;
    taken
}

/// Lets a mapping go on that was left in the last step of a re-encryption, after which the header tells of none: `volume` is what it is now.
///
/// # Errors
/// [`DmError::OtherVolume`] if the mapping is of another volume or size, or why the kernel does not take the table.
pub fn settle(mapping: &Mapping, volume: &Volume) -> Result<(), DmError> {
    let control = Control::open()?;
    let other = || DmError::OtherVolume { name: mapping.name.clone() };
    let rows = read(&control, &mapping.name)?;
    let is_same = mapping.tags.is_none() && mapping.sectors * 512 == volume.size();
    let device = one_device(&rows).filter(|_| is_same).ok_or_else(other)?;
    let tables = Tables { mapping: mapping.clone(), device, flags: mapping.crypt_flags() };
    change::put_right(&control, &mapping.name, tables.message(volume, None)?)
}

fn volume(made: Result<Option<Volume>, ReencryptError>) -> Result<Volume, DmError> {
    made.ok().flatten().ok_or(DmError::NoKey)
}

/// The UUID of the volume of LUKS2 that a mapping is of, by the mapping's own. `None` if it is of none.
///
/// # Errors
/// Why the kernel does not tell.
pub fn volume_uuid(name: &str) -> Result<Option<String>, DmError> {
    check_name(name)?;
    let found = Control::open()?.status(name)?;
    Ok(found.and_then(|found| parse_uuid(&found.uuid)))
}

fn parse_uuid(of_mapping: &str) -> Option<String> {
    let digits = of_mapping.strip_prefix("CRYPT-LUKS2-")?.get(..32)?;
    let cuts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
    let groups: Option<Vec<&str>> = cuts.iter().map(|(from, to)| digits.get(*from..*to)).collect();
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(groups?.join("-"))
}

/// Checks that a mapping is of the volume of LUKS2 with this UUID.
///
/// # Errors
/// [`DmError::OtherVolume`] if it is not.
pub fn check_volume(mapping: &Mapping, volume: &str) -> Result<(), DmError> {
    let name = &mapping.name;
    let found = Control::open()?.status(name)?.ok_or_else(|| DmError::NotOpen { name: name.clone() })?;
    let of_luks2 = Volume::new(VolumeFormat::Luks2, Vec::new()).with_uuid(volume);
    match found.uuid == uuid(name, &of_luks2) {
        true => Ok(()),
        false => Err(DmError::OtherVolume { name: name.clone() }),
    }
}

/// Checks that a mapping has the key of a volume of LUKS2 that this digest is of, as far as the key's name in the kernel's keyring tells:
/// a volume may have been re-encrypted meanwhile by another mapping.
///
/// # Errors
/// [`DmError::OtherVolume`] if it has another one, or why the kernel does not tell.
pub fn check_key(mapping: &Mapping, volume: &str, digest: u32) -> Result<(), DmError> {
    let rows = read(&Control::open()?, &mapping.name)?;
    let name = keyring::description(volume, digest);
    match rows.iter().all(|row| may_have_key(row, &name)) {
        true => Ok(()),
        false => Err(DmError::OtherVolume { name: mapping.name.clone() }),
    }
}

/// A key that lies in the table itself, or that somebody else has given a name, may be the one.
fn may_have_key(row: &Row, name: &str) -> bool {
    let key = row.line.split(|byte| *byte == b' ').nth(1).filter(|_| row.kind == "crypt");
    let text = key.and_then(|key| core::str::from_utf8(key).ok()?.strip_prefix(':')?.splitn(3, ':').nth(2));
    text.is_none_or(|text| !text.starts_with("cryptsetup:") || text == name)
}

/// The table that a mapping has.
fn read(control: &Control, name: &str) -> Result<Vec<Row>, DmError> {
    let table = control.table(name)?;
    let row = |target: &message::Target<'_>| {
        let kind = ["crypt", "linear", "error"].into_iter().find(|kind| *kind == target.kind)?;
        let place = (target.start.checked_mul(512)?, target.sectors.checked_mul(512)?);
        Some(Row { place, kind, line: SecretBytes::copy_from(target.line.trim_ascii_end()) })
    };
    let targets = table.targets().ok_or(DmError::Answer)?;
    targets.iter().map(row).collect::<Option<Vec<Row>>>().ok_or_else(|| DmError::Fixed { name: name.into() })
}

/// The device that all of a table lies on.
fn one_device(rows: &[Row]) -> Option<u64> {
    let device = |row: &Row| {
        let words = row.line.split(|byte| *byte == b' ');
        let place = if row.kind == "crypt" { 3 } else { 0 };
        let (major, minor) = core::str::from_utf8(words.clone().nth(place)?).ok()?.split_once(':')?;
        Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
    };
    let mut devices = rows.iter().filter(|row| row.kind != "error").map(device);
    let first = devices.next()??;
    devices.all(|device| device == Some(first)).then_some(first)
}

/// The device that a mapping lies on.
fn below(mapping: &Mapping) -> Result<File, DmError> {
    let path = &mapping.device;
    let below = OpenOptions::new().read(true).open(path);
    below.map_err(|error| DmError::Device { path: path.clone(), error })
}

/// Makes durable what was written through a mapping that waits, and forgets what was read of its device before.
fn read_anew(below: &File, mapping: &Mapping) -> Result<(), DmError> {
    let forget = || sys::ioctl_none(below.as_fd(), sys::FLUSH_BUFFERS);
    let fresh = below.sync_all().and_then(|()| forget().map(drop));
    fresh.map_err(|error| DmError::Device { path: mapping.device.clone(), error })
}

fn stay_in_memory() -> Result<(), DmError> {
    sys::stay_in_memory().map_err(|error| DmError::System { request: "lock of memory", error })
}

/// A mapping whose I/O waits while the head of its data moves over the header. It waits until [`go_on`](Self::go_on), or until
/// [`Remapped::new`] gives it the table of what has begun then; and likewise if this process is killed.
#[derive(Debug)]
pub struct Paused {
    control: Control,
    name: String,
}

impl Paused {
    /// Lets it go on as it was.
    ///
    /// # Errors
    /// Why the kernel does not do that. It waits then.
    pub fn go_on(self) -> Result<(), DmError> {
        change::go_on(&self.control, &self.name)
    }
}

/// Lets a mapping wait for the beginning of a decryption that moves the data of `volume`, which it is. What was written through it is
/// durable then, and is read of the device below. The table that it has is loaded beside the one in use: so others know that it was left.
///
/// # Errors
/// [`DmError::OtherVolume`] if it is not this volume, or why the kernel does not do it. It goes on then.
pub fn pause(mapping: &Mapping, volume: &Volume) -> Result<Paused, DmError> {
    let (control, name) = (Control::open()?, mapping.name.clone());
    let other = || DmError::OtherVolume { name: name.clone() };
    let found = control.status(&name)?.ok_or_else(|| DmError::NotOpen { name: name.clone() })?;
    let rows = read(&control, &name)?;
    let is_same = mapping.tags.is_none()
        && found.uuid == uuid(&name, volume)
        && mapping.sectors.checked_mul(512) == Some(volume.size());
    let device = one_device(&rows).filter(|_| is_same).ok_or_else(other)?;
    let tables = Tables { mapping: mapping.clone(), device, flags: mapping.crypt_flags() };
    if !tables.rows(volume, None)?.iter().eq(&rows) {
        return Err(other());
    }
    let below = below(mapping)?;
    stay_in_memory()?;
    control.load(tables.message(volume, None)?)?;
    let waits = control.suspend_at_once(&name).and_then(|()| read_anew(&below, mapping));
    match waits {
        Ok(()) => Ok(Paused { control, name }),
        Err(error) => {
            // The first error is the one to tell.
            let _ = change::go_on(&control, &name);
            Err(error)
        }
    }
}

impl std::fmt::Debug for Remapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remapped").field("name", &self.tables.mapping.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uuid_of_a_volume_is_in_that_of_its_mapping() {
        let of = "CRYPT-LUKS2-2cb54a5c2c9c4d0db0b56a0d0d6f5d33-root";
        assert_eq!(parse_uuid(of).as_deref(), Some("2cb54a5c-2c9c-4d0d-b0b5-6a0d0d6f5d33"));
        for none in [
            "CRYPT-LUKS1-2cb54a5c2c9c4d0db0b56a0d0d6f5d33-root",
            "CRYPT-LUKS2-root",
            "CRYPT-LUKS2-\u{20ac}2cb54a5c2c9c4d0db0b56a0d0d6f5",
        ] {
            assert_eq!(parse_uuid(none), None, "{none}");
        }
    }

    fn row(start: u64, kind: &'static str, line: &str) -> Row {
        Row { place: (start, 512), kind, line: SecretBytes::copy_from(line.as_bytes()) }
    }

    #[test]
    fn a_key_of_the_keyring_tells_by_its_name_of_which_digest_it_is() {
        let name = keyring::description("2cb54a5c-2c9c-4d0d-b0b5-6a0d0d6f5d33", 1);
        let of = |key: &str| row(0, "crypt", &format!("aes-xts-plain64 {key} 0 7:1 8"));
        assert!(may_have_key(&of(&format!(":64:logon:{name}")), &name));
        for other in ["2cb54a5c-2c9c-4d0d-b0b5-6a0d0d6f5d33-d0", "2cb54a5c-2c9c-4d0d-b0b5-6a0d0d6f5d33-d11"] {
            assert!(!may_have_key(&of(&format!(":64:logon:cryptsetup:{other}")), &name), "{other}");
        }
        for untold in ["-", "00112233", ":64:user:mine"] {
            assert!(may_have_key(&of(untold), &name), "{untold}");
        }
        assert!(may_have_key(&row(0, "linear", "7:1 8"), &name));
    }

    #[test]
    fn a_table_lies_on_one_device_or_on_none() {
        let crypt = || row(0, "crypt", "aes-xts-plain64 - 0 7:1 8");
        let one = Some(rustix::fs::makedev(7, 1));
        assert_eq!(one_device(&[crypt(), row(512, "error", ""), row(1024, "linear", "7:1 9")]), one);
        assert_eq!(one_device(&[crypt(), row(512, "linear", "7:2 9")]), None, "on two");
        for none in [row(0, "error", ""), row(0, "linear", "x 9"), row(0, "crypt", "aes - 0")] {
            assert_eq!(one_device(&[none]), None);
        }
    }

    #[test]
    fn who_suspends_a_mapping_leaves_no_table_beside_it() {
        let crypt = || row(0, "crypt", "aes-xts-plain64 - 0 7:1 8");
        let (one, two, hole) =
            ([crypt()], [crypt(), row(512, "linear", "7:1 9")], [crypt(), row(512, "error", "")]);
        assert_eq!(how_left(false, false, &one), Left::Whole);
        assert_eq!(how_left(true, false, &one), Left::Suspended);
        assert_eq!(how_left(true, true, &one), Left::CutOff);
        assert_eq!(how_left(true, false, &two), Left::CutOff);
        assert_eq!(how_left(false, false, &hole), Left::CutOff);
    }
}
