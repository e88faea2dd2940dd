//! A LUKS2 volume whose re-encryption was cut, and perhaps changed since: header, area and data, resumed.
//!
//! Keys and salts are drawn anew in each process; what is done to them is the input's alone.

use std::sync::{Arc, OnceLock, RwLock};

use arbitrary::{Result, Unstructured};
use atrest_device::{BlockDevice, DeviceError, Geometry, Operation, Unshared};
use atrest_engine::reencrypt::{RewriteOptions, run};
use atrest_engine::{Disk, DiskOptions};
use atrest_format::luks2::{CopyKind, Header, Metadata};
use atrest_volume::luks2::reencrypt::{
    EncryptOptions, ReencryptError, ReencryptOptions, ResilienceKind, begin_encryption,
    interrupted_conversion,
};
use atrest_volume::luks2::{Luks2, format};
use atrest_volume::{Devices, FormatOptions, KeyslotOptions, PbkdfKind, PbkdfOptions, UnlockOptions};

use serde_json::Value;

use crate::luks::{is_cheap, passphrase};
use crate::mutate_json;

const ZONE: u64 = 8 << 10;
const DATA: usize = 24 << 10;

/// A device in memory that remembers its writes and loses its power after some.
struct Medium {
    bytes: RwLock<Vec<u8>>,
    writes: RwLock<Vec<(usize, Vec<u8>)>>,
}

impl Medium {
    fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { bytes: RwLock::new(bytes), writes: RwLock::default() })
    }

    fn written(&self) -> usize {
        self.writes.read().unwrap().len()
    }
}

impl BlockDevice for Medium {
    fn size(&self) -> u64 {
        self.bytes.read().unwrap().len() as u64
    }

    fn geometry(&self) -> Geometry {
        Geometry::default()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> core::result::Result<(), DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        buf.copy_from_slice(&self.bytes.read().unwrap()[offset as usize..][..buf.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> core::result::Result<(), DeviceError> {
        self.check_range(Operation::Write, offset, data.len() as u64)?;
        self.bytes.write().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
        self.writes.write().unwrap().push((offset as usize, data.to_vec()));
        Ok(())
    }

    fn flush(&self) -> core::result::Result<(), DeviceError> {
        Ok(())
    }
}

impl Unshared for Medium {}

/// A part of a device, so that one record has the order of writes to header and data.
struct Window {
    media: Arc<Medium>,
    start: u64,
    size: u64,
}

impl BlockDevice for Window {
    fn size(&self) -> u64 {
        self.size
    }
    fn geometry(&self) -> Geometry {
        Geometry::default()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> core::result::Result<(), DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        self.media.read_at(self.start + offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> core::result::Result<(), DeviceError> {
        self.check_range(Operation::Write, offset, data.len() as u64)?;
        self.media.write_at(self.start + offset, data)
    }
    fn flush(&self) -> core::result::Result<(), DeviceError> {
        Ok(())
    }
}

impl Unshared for Window {}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// A volume gets another key.
    Reencrypt(ResilienceKind),
    /// Plaintext becomes a volume with the header elsewhere.
    Detached(ResilienceKind),
    /// Plaintext becomes a volume with the header in front of it.
    Move,
}

const JOBS: [Job; 5] = [
    Job::Reencrypt(ResilienceKind::Checksum),
    Job::Reencrypt(ResilienceKind::Journal),
    Job::Detached(ResilienceKind::Checksum),
    Job::Detached(ResilienceKind::Journal),
    Job::Move,
];

impl Job {
    /// Bytes of the header, and by which data moves that it is put in front of.
    fn head(self) -> usize {
        // What moves leaves room for a note of 1 MiB.
        if self == Self::Move { 1 << 20 } else { 512 << 10 }
    }
}

/// Header and data on one device.
struct Bench {
    media: Arc<Medium>,
    header: Option<Window>,
    data: Window,
}

impl Bench {
    fn new(bytes: Vec<u8>, job: Job) -> Self {
        let media = Medium::new(bytes);
        let size = media.size();
        let window = |start, size| Window { media: media.clone(), start, size };
        let head = job.head() as u64;
        let (header, data) = match job {
            Job::Detached(_) => (Some(window(0, head)), window(head, size - head)),
            _ => (None, window(0, size)),
        };
        Self { header, data, media }
    }

    fn devices(&self) -> Devices<'_> {
        match &self.header {
            Some(header) => Devices::detached(header, &self.data),
            None => Devices::together(&self.data),
        }
    }

    /// All plaintext, by the header as it is.
    fn plaintext(&self, len: usize) -> Vec<u8> {
        let luks = Luks2::read(self.devices().header).expect("a header");
        let volume = luks.unlock(self.devices(), &passphrase(), &UnlockOptions::default());
        let volume = volume.expect("the passphrase opens it as before");
        let data = Window { media: self.media.clone(), start: self.data.start, size: self.data.size };
        let disk = Disk::new(Arc::new(data), volume, DiskOptions::default()).expect("a disk");
        let mut plaintext = vec![0; len];
        disk.read_at(0, &mut plaintext).expect("it was that long");
        plaintext
    }
}

/// A job that was done: the device before it, every write in order, and the plaintext.
struct Done {
    job: Job,
    before: Vec<u8>,
    writes: Vec<(usize, Vec<u8>)>,
    plaintext: Vec<u8>,
}

fn options(job: Job) -> FormatOptions {
    let pbkdf = PbkdfOptions {
        kind: Some(PbkdfKind::Pbkdf2),
        forced_iterations: Some(1000),
        ..PbkdfOptions::default()
    };
    FormatOptions {
        key_len: Some(32),
        metadata_size: Some(16384),
        keyslots_size: Some(job.head() as u64 - (32 << 10)),
        keyslot: KeyslotOptions { pbkdf, ..KeyslotOptions::default() },
        ..FormatOptions::default()
    }
}

fn zones() -> RewriteOptions<'static> {
    let mut zones = RewriteOptions::default();
    (zones.threads, zones.zone) = (1, ZONE);
    zones
}

impl Done {
    fn new(job: Job) -> Self {
        let head = job.head();
        // Of what moves there is as much as the header takes, at least.
        let len = if job == Job::Move { head + DATA } else { DATA };
        let plaintext: Vec<u8> = (0..len).map(|at| (at / 512 * 7 + at % 251) as u8).collect();
        let before = match job {
            Job::Reencrypt(_) => encrypted(&plaintext, job),
            Job::Detached(_) => [&vec![0; head], &plaintext[..]].concat(),
            Job::Move => [&plaintext[..], &vec![0; 2 * head]].concat(),
        };
        let bench = Bench::new(before.clone(), job);
        let passphrase = passphrase();
        let rewriting = match job {
            Job::Reencrypt(resilience) => {
                let luks = Luks2::read(&bench.data).expect("a header");
                let keyslot = options(job).keyslot;
                let options = ReencryptOptions { resilience, keyslot, ..ReencryptOptions::default() };
                luks.begin_reencryption(bench.devices(), &[(&passphrase, None)], &options)
            }
            Job::Detached(resilience) => {
                let options = EncryptOptions { format: options(job), resilience, hash: None, part: None };
                begin_encryption(bench.devices(), &passphrase, options)
            }
            Job::Move => {
                let format = FormatOptions { data_offset: Some(head as u64), ..options(job) };
                let options = EncryptOptions { format, ..EncryptOptions::default() };
                begin_encryption(bench.devices(), &passphrase, options)
            }
        };
        let mut rewriting = rewriting.expect("it begins");
        run(&mut rewriting, zones(), &mut |_, _| ()).expect("it ends");
        drop(rewriting);
        let writes = core::mem::take(&mut *bench.media.writes.write().unwrap());
        Self { job, before, writes, plaintext }
    }

    /// What a power loss leaves after so many writes.
    fn after(&self, writes: usize) -> Vec<u8> {
        let mut bytes = self.before.clone();
        for (start, data) in &self.writes[..writes] {
            bytes[*start..*start + data.len()].copy_from_slice(data);
        }
        bytes
    }
}

/// A volume with its header in front that holds this.
fn encrypted(plaintext: &[u8], job: Job) -> Vec<u8> {
    let media = Medium::new(vec![0; job.head() + plaintext.len()]);
    let options = FormatOptions { data_offset: Some(job.head() as u64), ..options(job) };
    let luks = format(Devices::together(&*media), &passphrase(), &options).expect("it fits");
    let volume = luks.unlock(Devices::together(&*media), &passphrase(), &UnlockOptions::default());
    let disk = Disk::new(media.clone(), volume.expect("it opens"), DiskOptions::default()).expect("a disk");
    disk.write_at(0, plaintext).expect("it fits");
    drop(disk);
    media.bytes.read().unwrap().clone()
}

/// What was changed since power failed.
#[derive(Clone, Copy, Debug, Default)]
struct Changed {
    /// The metadata, in both copies of the header, with checksums that are right.
    metadata: bool,
    /// Keyslot areas, or the data.
    bytes: bool,
}

/// Where a job is cut, and what is changed afterwards.
pub fn reencrypt(data: &[u8]) {
    // Where the input ends nothing more is changed.
    let _ = resumed(&mut Unstructured::new(data));
}

fn resumed(u: &mut Unstructured<'_>) -> Result<()> {
    static DONE: [OnceLock<Done>; JOBS.len()] = [const { OnceLock::new() }; JOBS.len()];
    let number = u.choose_index(JOBS.len())?;
    let done = DONE[number].get_or_init(|| Done::new(JOBS[number]));
    let mut bytes = done.after(u.int_in_range(0..=done.writes.len())?);
    let verified = verified(&bytes);
    let mut changed = Changed::default();
    for _ in 0..u.int_in_range(0..=3)? {
        match u.int_in_range(0..=3)? {
            0 => {
                let seed: u32 = u.arbitrary()?;
                let change = |text: &str| mutate_json(text.as_bytes(), seed.into());
                changed.metadata |= change_metadata(&mut bytes, change);
            }
            1 => {
                let (field, value) = (u.choose(&FIELDS)?, u.choose(&VALUES)?);
                let change = |text: &str| set_field(text, field, value);
                changed.metadata |= change_metadata(&mut bytes, change);
            }
            2 => {
                changed.bytes = true;
                overwrite(&mut bytes[32 << 10..done.job.head()], u)?;
            }
            _ => {
                changed.bytes = true;
                overwrite(&mut bytes[done.job.head()..], u)?;
            }
        }
    }
    if metadata(&bytes).is_some_and(|(_, metadata)| !is_cheap(&metadata)) {
        return Ok(());
    }
    let bench = Bench::new(bytes, done.job);
    resume(&bench, done, changed, verified.as_deref());
    Ok(())
}

fn overwrite(bytes: &mut [u8], u: &mut Unstructured<'_>) -> Result<()> {
    let at = u.choose_index(bytes.len())?;
    let len = u.int_in_range(1..=4096)?.min(bytes.len() - at);
    bytes[at..at + len].fill(u.arbitrary()?);
    Ok(())
}

/// The newer good copy of a header, with its bytes' place, and its metadata.
fn metadata(bytes: &[u8]) -> Option<(Header, Metadata)> {
    let copy = |kind, at: usize| Header::parse(bytes.get(at..at + 16384)?, kind, at as u64).ok();
    let copies = [copy(CopyKind::Primary, 0), copy(CopyKind::Secondary, 16384)];
    let newest = copies.into_iter().flatten().max_by_key(|header| header.binary.sequence)?;
    let metadata = newest.metadata.clone();
    Some((newest, metadata))
}

/// What the keys stand for in the metadata, if a re-encryption is under way.
fn verified(bytes: &[u8]) -> Option<Vec<u8>> {
    metadata(bytes)?.1.reencryption().ok()?.verified_metadata().ok()
}

/// What the keys stand for: fields of the keyslot that holds the re-encryption, and of segments as they were or will be.
const FIELDS: [&str; 12] = [
    "/keyslots/mode",
    "/keyslots/direction",
    "/keyslots/area/type",
    "/keyslots/area/hash",
    "/keyslots/area/sector_size",
    "/keyslots/area/offset",
    "/keyslots/area/size",
    "/segments/offset",
    "/segments/size",
    "/segments/sector_size",
    "/segments/encryption",
    "/segments/type",
];
const VALUES: [&str; 16] = [
    "\"reencrypt\"",
    "\"encrypt\"",
    "\"decrypt\"",
    "\"forward\"",
    "\"backward\"",
    "\"none\"",
    "\"journal\"",
    "\"checksum\"",
    "\"sha1\"",
    "\"sha512\"",
    "512",
    "4096",
    "\"524288\"",
    "\"dynamic\"",
    "\"aes-cbc-essiv:sha256\"",
    "\"linear\"",
];

/// Sets a field of the keyslot of the re-encryption, or of all segments that are marked.
fn set_field(text: &str, field: &str, value: &str) -> Option<Vec<u8>> {
    let mut json: Value = serde_json::from_str(text).ok()?;
    let value: Value = serde_json::from_str(value).ok()?;
    let (part, rest) = field[1..].split_once('/')?;
    let items = json.get_mut(part)?.as_object_mut()?.values_mut();
    let meant = |item: &&mut Value| {
        item["type"] == "reencrypt" || item["flags"].as_array().is_some_and(|flags| !flags.is_empty())
    };
    for item in items.filter(meant) {
        *item.pointer_mut(&format!("/{rest}"))? = value.clone();
    }
    serde_json::to_vec(&json).ok()
}

/// Changes the metadata and writes both copies. False if there is no header, or the change can't be written.
fn change_metadata(bytes: &mut [u8], change: impl Fn(&str) -> Option<Vec<u8>>) -> bool {
    let Some((header, metadata)) = metadata(bytes) else { return false };
    let Some(text) = change(&metadata.to_json()) else { return false };
    let Ok(text) = String::from_utf8(text) else { return false };
    for (kind, at) in [(CopyKind::Primary, 0), (CopyKind::Secondary, 16384)] {
        let Ok(copy) = header.binary.encode(kind, &[3; 64], &text) else { return false };
        bytes[at..at + copy.len()].copy_from_slice(&copy);
    }
    true
}

/// What a person does after power is back.
fn resume(bench: &Bench, done: &Done, changed: Changed, verified_before: Option<&[u8]>) {
    let untouched = !changed.metadata && !changed.bytes;
    if done.job == Job::Move
        && Luks2::read(&bench.data).is_err()
        && let Ok(Some(conversion)) = interrupted_conversion(&bench.data, done.job.head() as u64)
    {
        conversion.complete(&bench.data).expect("a good device");
    }
    let written = bench.media.written();
    let Ok(luks) = Luks2::read(bench.devices().header) else {
        if untouched {
            let mut data = vec![0; done.plaintext.len()];
            bench.data.read_at(0, &mut data).expect("it was that long");
            assert!(data == done.plaintext, "no header is there, and the data is not what it was");
        }
        return;
    };
    let verified = luks.metadata().reencryption().ok().and_then(|state| state.verified_metadata().ok());
    let resumed = luks.resume_reencryption(bench.devices(), &passphrase());
    assert_eq!(bench.media.written(), written, "looking at a re-encryption writes");
    let mut rewriting = match resumed {
        Ok(rewriting) => rewriting,
        // It had not begun, or was done.
        Err(ReencryptError::State(_)) if untouched => {
            assert!(bench.plaintext(done.plaintext.len()) == done.plaintext, "the plaintext differs");
            return;
        }
        Err(error) => {
            assert!(!untouched, "it is not resumed: {error}");
            return;
        }
    };
    // What the keys stand for can't be changed by somebody who has none of them, but where it no longer counts.
    let only_marked = rewriting.done().is_ok_and(|done| done == rewriting.total());
    assert!(only_marked || verified.as_deref() == verified_before, "forged metadata is resumed");
    let ended = run(&mut rewriting, zones(), &mut |_, _| ());
    drop(rewriting);
    if untouched {
        ended.unwrap_or_else(|error| panic!("it does not end: {error}"));
        assert!(bench.plaintext(done.plaintext.len()) == done.plaintext, "the plaintext differs");
    } else if ended.is_ok() {
        let luks = Luks2::read(bench.devices().header).expect("what was written");
        assert!(luks.metadata().reencryption().is_err(), "it is still under way");
    }
}
