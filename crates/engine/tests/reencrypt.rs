//! Re-encryption in place under power loss: every state in which a cut can leave the media is resumed, and must hold every
//! byte of the data. With checksums the media tears writes between the sectors that they cover; with a journal, or where
//! data moves, anywhere.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use atrest_device::{BlockDevice, Cause, DeviceError, Geometry, Operation, Unshared};
use atrest_engine::reencrypt::{RewriteError, RewriteOptions, Rewritten, run};
use atrest_engine::{Disk, DiskOptions};
use atrest_testkit::fault::Fault;
use atrest_testkit::power_loss::{Limits, Tearing};
use atrest_testkit::{Campaign, FaultDevice, Random};
use atrest_volume::luks2::reencrypt::{
    DecryptOptions, EncryptOptions, NewKey, ReencryptError, ReencryptKeys, ReencryptOptions, ResilienceKind,
    Rewriting, begin_encryption, begin_encryption_with_key, interrupted_conversion,
};
use atrest_volume::luks2::{Luks2, format};
use atrest_volume::{
    Credential, Devices, FormatOptions, KeyslotOptions, Passphrase, PbkdfKind, PbkdfOptions, UnlockError,
    UnlockOptions, VolumeKey, header_backup,
};

#[path = "reencrypt/luks1.rs"]
mod luks1;
#[path = "reencrypt/luks1_kept.rs"]
mod luks1_kept;
#[path = "reencrypt/online.rs"]
mod online;

/// Bytes in front of the data, and by which it moves.
const HEAD: u64 = 1 << 20;
const MAX_ZONE: u64 = 96 << 10;
/// What is moved at once where a header goes.
const LONGEST_HEAD: u64 = 128 << 10;

/// What lies in front of data whose header is elsewhere.
const FRONT: u64 = 1 << 20;

/// By which the data moves behind a header that stays. Larger than some zones, and smaller than others would be.
const SHIFT: u64 = 64 << 10;

type Window = atrest_testkit::Window<Arc<FaultDevice>>;

/// What is done, and to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// A volume gets another key, and this data unit.
    Reencrypt { from: u32, to: u32, resilience: ResilienceKind },
    /// A volume gets another key, and its data moves back by a [`SHIFT`].
    Shift,
    /// A volume gets the key that is given, and loses its keyslots.
    ByKey(ResilienceKind),
    /// Plaintext becomes a volume with the header in front of it.
    Move,
    /// Plaintext that is shorter than the header becomes a volume with the header in front of it.
    MoveLittle,
    /// Plaintext becomes a volume with the header in front of it, and without a keyslot.
    MoveByKey,
    /// Plaintext becomes a volume with the header elsewhere.
    Detached(ResilienceKind),
    /// Plaintext becomes a volume with the header elsewhere, and [`FRONT`] bytes in front of it stay.
    DetachedBehind(ResilienceKind),
    /// A volume whose header is elsewhere becomes plaintext.
    Decrypt(ResilienceKind),
    /// A volume becomes plaintext where its header was, by a copy of that header.
    DecryptOver(ResilienceKind),
}

impl Job {
    fn has_own_header(self) -> bool {
        matches!(self, Self::Detached(_) | Self::DetachedBehind(_) | Self::Decrypt(_) | Self::DecryptOver(_))
    }

    fn moves(self) -> bool {
        matches!(self, Self::Move | Self::MoveLittle | Self::MoveByKey)
    }

    /// Bytes in front of the plaintext on its device.
    fn front(self) -> u64 {
        if matches!(self, Self::DetachedBehind(_)) { FRONT } else { 0 }
    }

    /// Whether the data stays in its place.
    fn stays(self) -> bool {
        !self.moves() && !matches!(self, Self::DecryptOver(_) | Self::Shift)
    }

    /// Whether volume keys are given, and no keyslot is left.
    fn is_by_key(self) -> bool {
        matches!(self, Self::ByKey(_) | Self::MoveByKey)
    }

    fn decrypts(self) -> bool {
        matches!(self, Self::Decrypt(_) | Self::DecryptOver(_))
    }
}

const JOBS: [(Job, Tearing); 17] = [
    (Job::Reencrypt { from: 512, to: 512, resilience: ResilienceKind::Checksum }, Tearing::BetweenSectors),
    (Job::Reencrypt { from: 512, to: 4096, resilience: ResilienceKind::Checksum }, Tearing::None),
    (Job::Reencrypt { from: 4096, to: 512, resilience: ResilienceKind::Journal }, Tearing::Inside),
    (Job::Reencrypt { from: 4096, to: 4096, resilience: ResilienceKind::Journal }, Tearing::Inside),
    (Job::Shift, Tearing::Inside),
    (Job::ByKey(ResilienceKind::Journal), Tearing::Inside),
    (Job::Move, Tearing::Inside),
    (Job::MoveLittle, Tearing::Inside),
    (Job::MoveByKey, Tearing::Inside),
    (Job::Detached(ResilienceKind::Checksum), Tearing::BetweenSectors),
    (Job::Detached(ResilienceKind::Journal), Tearing::Inside),
    (Job::DetachedBehind(ResilienceKind::Checksum), Tearing::BetweenSectors),
    (Job::DetachedBehind(ResilienceKind::Journal), Tearing::Inside),
    (Job::Decrypt(ResilienceKind::Checksum), Tearing::BetweenSectors),
    (Job::Decrypt(ResilienceKind::Journal), Tearing::Inside),
    (Job::DecryptOver(ResilienceKind::Checksum), Tearing::BetweenSectors),
    (Job::DecryptOver(ResilienceKind::Journal), Tearing::Inside),
];

/// A device on which a job is done: the header's part, if it has one of its own, and the data's.
struct Bench {
    device: Arc<FaultDevice>,
    header: Option<Window>,
    data: Window,
    job: Job,
    /// Bytes of the data that the job is of.
    part: Option<u64>,
}

impl Bench {
    fn new(image: Vec<u8>, job: Job) -> Self {
        let device = Arc::new(FaultDevice::new(image));
        let size = device.size();
        let window = |offset, size| Window { device: device.clone(), offset, size };
        let (header, data) = match job {
            job if job.has_own_header() => (Some(window(0, HEAD)), window(HEAD, size - HEAD)),
            _ => (None, window(0, size)),
        };
        Self { header, data, job, part: None, device }
    }

    fn devices(&self) -> Devices<'_> {
        match &self.header {
            Some(header) => Devices::detached(header, &self.data),
            None => Devices::together(&self.data),
        }
    }

    /// All plaintext, by the header as it is.
    fn plaintext(&self, len: usize) -> Vec<u8> {
        let luks = Luks2::read(self.devices().header).expect("the header is read");
        let unlock = UnlockOptions::default();
        let volume = match self.job.is_by_key() {
            false => luks.unlock(self.devices(), &passphrase(), &unlock).expect("it opens"),
            true => {
                let mut opened = keys()
                    .into_iter()
                    .filter_map(|key| luks.unlock_with_key(self.devices(), &key, &unlock).ok());
                opened.next().expect("one of the keys opens it")
            }
        };
        let data = Window { device: self.device.clone(), offset: self.data.offset, size: self.data.size };
        let disk = Disk::new(Arc::new(data), volume, DiskOptions::default()).expect("a disk");
        let mut plaintext = vec![0; len];
        disk.read_at(0, &mut plaintext).expect("the plaintext is read");
        plaintext
    }

    fn begin_and_run(&self) -> Result<Rewritten, RewriteError> {
        self.begin_and_run_in(zones())
    }

    fn begin_and_run_in(&self, zones: RewriteOptions<'_>) -> Result<Rewritten, RewriteError> {
        run(&mut self.begin_only()?, zones, &mut |_, _| ())
    }

    fn begin_only(&self) -> Result<Rewriting<'_>, ReencryptError> {
        let passphrase = passphrase();
        match self.job {
            Job::Reencrypt { to, resilience, .. } => {
                let luks = Luks2::read(self.devices().header).expect("the header is read");
                let options = ReencryptOptions {
                    data_unit: Some(to),
                    resilience,
                    part: self.part,
                    keyslot: keyslot(),
                    ..ReencryptOptions::default()
                };
                luks.begin_reencryption(self.devices(), &[(&passphrase, None)], &options)
            }
            Job::Shift => {
                let luks = Luks2::read(self.devices().header).expect("the header is read");
                let options = ReencryptOptions {
                    shift: Some(SHIFT),
                    part: self.part,
                    keyslot: keyslot(),
                    ..ReencryptOptions::default()
                };
                luks.begin_reencryption(self.devices(), &[(&passphrase, None)], &options)
            }
            Job::ByKey(resilience) => {
                let luks = Luks2::read(self.devices().header).expect("the header is read");
                let [old, new] = keys();
                let key = NewKey::Given(new);
                let options = ReencryptOptions {
                    key,
                    without_keyslots: true,
                    resilience,
                    part: self.part,
                    keyslot: keyslot(),
                    ..ReencryptOptions::default()
                };
                luks.begin_reencryption_with_key(self.devices(), &old, &options)
            }
            Job::MoveByKey => {
                let [_, new] = keys();
                let format = FormatOptions { data_offset: Some(HEAD), volume_key: Some(new), ..options() };
                let options = EncryptOptions { format, part: self.part, ..EncryptOptions::default() };
                begin_encryption_with_key(self.devices(), options)
            }
            Job::Decrypt(resilience) | Job::DecryptOver(resilience) => {
                let luks = Luks2::read(self.devices().header).expect("the header is read");
                let head = Some(LONGEST_HEAD);
                let part = self.part;
                let options = DecryptOptions {
                    resilience,
                    head,
                    part,
                    keyslot: keyslot(),
                    ..DecryptOptions::default()
                };
                let credential = Credential::Passphrase(&passphrase, None);
                luks.begin_decryption(self.devices(), credential, &options)
            }
            Job::Move | Job::MoveLittle | Job::Detached(_) | Job::DetachedBehind(_) => {
                let resilience = match self.job {
                    Job::Detached(kind) | Job::DetachedBehind(kind) => kind,
                    _ => ResilienceKind::default(),
                };
                let data_offset = match self.job.moves() {
                    true => Some(HEAD),
                    false => Some(self.job.front()).filter(|front| *front > 0),
                };
                let format = FormatOptions { data_offset, ..options() };
                let options = EncryptOptions { format, resilience, hash: None, part: self.part };
                begin_encryption(self.devices(), &passphrase, options)
            }
        }
    }

    /// What a person does after the power is back. `Ok(false)`: nothing had begun.
    fn resume(&self) -> Result<bool, RewriteError> {
        self.resume_in(zones())
    }

    fn resume_in(&self, zones: RewriteOptions<'_>) -> Result<bool, RewriteError> {
        if self.job.moves()
            && Luks2::read(self.devices().header).is_err()
            && let Some(conversion) = interrupted_conversion(&self.data, HEAD)?
        {
            conversion.complete(&self.data)?;
        }
        let Ok(luks) = Luks2::read(self.devices().header) else { return Ok(false) };
        let resumed = match self.job.is_by_key() {
            true => luks.resume_reencryption_with(self.devices(), ReencryptKeys::of_volume_keys(&keys())),
            false => luks.resume_reencryption(self.devices(), &passphrase()),
        };
        let mut rewriting = match resumed {
            // It had not begun, or was done.
            Err(ReencryptError::State(_)) => return Ok(true),
            other => other?,
        };
        if let Some(part) = self.part {
            rewriting.limit_to(part)?;
        }
        run(&mut rewriting, zones, &mut |_, _| ()).map(|_| true)
    }

    /// Everything is there, whatever had happened.
    fn check(&self, plaintext: &[u8], begun: bool) {
        let decrypted = self.job.decrypts() && {
            let luks = Luks2::read(self.devices().header).expect("the header is read");
            luks.metadata().digests().iter().all(|digest| digest.segments.is_empty())
        };
        let mut front = vec![0; self.job.front() as usize];
        self.data.read_at(0, &mut front).expect("the front is read");
        assert!(front.iter().all(|byte| *byte == 0xEE), "what lies in front of the data has changed");
        if begun && !decrypted {
            assert!(self.plaintext(plaintext.len()) == plaintext, "the plaintext differs");
            return;
        }
        let mut data = vec![0; plaintext.len()];
        self.data.read_at(self.job.front(), &mut data).expect("the data is read");
        assert!(data == plaintext, "no key is there, and the data is not what it was");
    }
}

fn passphrase() -> Passphrase {
    Passphrase::copy_from(b"correct horse")
}

/// The volume keys before and afterwards, where they are given.
fn keys() -> [VolumeKey; 2] {
    [7_u8, 9].map(|seed| VolumeKey::copy_from(&Random::new(seed.into()).bytes(32)))
}

fn keyslot() -> KeyslotOptions {
    let pbkdf = PbkdfOptions {
        kind: Some(PbkdfKind::Pbkdf2),
        forced_iterations: Some(1000),
        ..PbkdfOptions::default()
    };
    KeyslotOptions { pbkdf, ..KeyslotOptions::default() }
}

fn options() -> FormatOptions {
    // Room for four keyslots and a journal.
    FormatOptions {
        key_len: Some(32),
        keyslots_size: Some(HEAD - (32 << 10)),
        keyslot: keyslot(),
        ..FormatOptions::default()
    }
}

fn zones() -> RewriteOptions<'static> {
    let mut zones = RewriteOptions::default();
    (zones.threads, zones.zone) = (1, MAX_ZONE);
    zones
}

/// A device before the job, and the plaintext on it.
fn before(job: Job, random: &mut Random) -> (Bench, Vec<u8>) {
    let len = match job {
        Job::MoveLittle => 300 << 10,
        // Two whole shifts and a part of one.
        Job::Move | Job::MoveByKey => (HEAD * 5 / 2) as usize / 4096 * 4096,
        Job::DecryptOver(_) => (HEAD * 5 / 4) as usize / 4096 * 4096,
        _ => 260 << 10,
    };
    before_of(len, job, random)
}

/// A device before the job with `len` bytes of plaintext on it, and that plaintext.
fn before_of(len: usize, job: Job, random: &mut Random) -> (Bench, Vec<u8>) {
    with_plaintext(random.bytes(len), job)
}

fn with_plaintext(plaintext: Vec<u8>, job: Job) -> (Bench, Vec<u8>) {
    let len = plaintext.len();
    let mut image = Vec::new();
    match job {
        Job::Reencrypt { .. } | Job::ByKey(_) | Job::Shift => {
            let from = if let Job::Reencrypt { from, .. } = job { from } else { 512 };
            let [old, _] = keys();
            let volume_key = job.is_by_key().then_some(old);
            // What a shift loses lies behind the plaintext.
            let lost = if job == Job::Shift { SHIFT as usize } else { 0 };
            let device = FaultDevice::zeroed(HEAD as usize + len + lost);
            let format_options =
                FormatOptions { data_unit: Some(from), data_offset: Some(HEAD), volume_key, ..options() };
            let luks = format(Devices::together(&device), &passphrase(), &format_options).expect("a volume");
            let volume = luks.unlock(Devices::together(&device), &passphrase(), &UnlockOptions::default());
            let media = Arc::new(device);
            let disk =
                Disk::new(media.clone(), volume.expect("it opens"), DiskOptions::default()).expect("a disk");
            disk.write_at(0, &plaintext).expect("the plaintext is written");
            image = media.image();
        }
        Job::Move | Job::MoveLittle | Job::MoveByKey => {
            image.extend(&plaintext);
            image.resize(len + 2 * HEAD as usize, 0xEE);
        }
        Job::Detached(_) => {
            image.resize(HEAD as usize, 0);
            image.extend(&plaintext);
        }
        Job::DetachedBehind(_) => {
            image.resize(HEAD as usize, 0);
            image.resize((HEAD + FRONT) as usize, 0xEE);
            image.extend(&plaintext);
        }
        Job::Decrypt(_) | Job::DecryptOver(_) => {
            let over = if matches!(job, Job::DecryptOver(_)) { HEAD as usize } else { 0 };
            let header = FaultDevice::zeroed(HEAD as usize);
            let data = Arc::new(FaultDevice::zeroed(over + len));
            let devices =
                if over > 0 { Devices::together(&*data) } else { Devices::detached(&header, &*data) };
            let format_options =
                FormatOptions { data_unit: Some(512), data_offset: Some(over as u64), ..options() };
            let luks = format(devices, &passphrase(), &format_options).expect("a volume");
            let volume = luks.unlock(devices, &passphrase(), &UnlockOptions::default()).expect("it opens");
            if over > 0 {
                header.write_at(0, &header_backup(&*data).expect("a backup")).expect("it fits");
            }
            let disk = Disk::new(data.clone(), volume, DiskOptions::default()).expect("a disk");
            disk.write_at(0, &plaintext).expect("the plaintext is written");
            image = header.image();
            image.extend(data.image());
        }
    }
    (Bench::new(image, job), plaintext)
}

#[test]
fn every_job_is_done_and_its_header_is_an_ordinary_one() {
    for (job, _) in JOBS {
        let (bench, plaintext) = before(job, &mut Random::new(1));
        let image = bench.device.image();
        let done = bench.begin_and_run().expect("it is done");
        assert_eq!(
            (done.bytes, done.resumed_from, done.recovered),
            (plaintext.len() as u64, 0, false),
            "{job:?}"
        );
        bench.check(&plaintext, true);
        let luks = Luks2::read(bench.devices().header).expect("the header is read");
        let metadata = luks.metadata();
        assert!(metadata.config().requirements.is_empty(), "{job:?}");
        let digests = if job.decrypts() { 0 } else { 1 };
        let keyslots = if job.decrypts() || job.is_by_key() { 0 } else { 1 };
        assert_eq!(
            (metadata.segments().len(), metadata.keyslots().len(), metadata.digests().len()),
            (1, keyslots, digests)
        );
        if matches!(job, Job::DecryptOver(_)) {
            check_that_no_ciphertext_is_left(&image, &bench.device.image(), plaintext.len());
        }
        if job == Job::Shift {
            let (before, after) = (&image[HEAD as usize..], &bench.device.image()[HEAD as usize..]);
            let kept =
                before.chunks(512).zip(after.chunks(512)).take(SHIFT as usize / 512).filter(|(a, b)| a == b);
            assert_eq!(kept.count(), 0, "ciphertext of the old key is left where the data began");
        }
        if matches!(job, Job::Reencrypt { .. } | Job::ByKey(_)) {
            check_that_the_old_key_is_gone(&image, &bench.device.image());
        }
        if job.moves() {
            // Nothing of the plaintext is left: neither in the head's old place nor where it had been moved to.
            let image = bench.device.image();
            let places = plaintext.chunks_exact(4096).step_by(7);
            let mut heads = places.map(|piece| piece.first_chunk::<16>().expect("16 bytes"));
            let left: std::collections::HashSet<&[u8]> = image.chunks_exact(16).collect();
            assert!(heads.all(|head| !left.contains(head.as_slice())), "plaintext is left on the device");
        }
    }
}

/// Behind the plaintext, where the end of the ciphertext was, nothing of it is left, nor of the old header in front.
fn check_that_no_ciphertext_is_left(before: &[u8], after: &[u8], len: usize) {
    let device = |image: &[u8]| image[HEAD as usize..].to_vec();
    let (before, after) = (device(before), device(after));
    assert_eq!(before.len(), after.len());
    let kept = before[len..].chunks(512).zip(after[len..].chunks(512)).filter(|(a, b)| a == b).count();
    assert_eq!(kept, 0, "sectors of the ciphertext are left");
    assert!(Luks2::read(&FaultDevice::new(after)).is_err(), "the old header is left");
}

/// Of the keyslot of the old key no sector is left, and of the data, before or after, nothing in the header.
fn check_that_the_old_key_is_gone(before: &[u8], after: &[u8]) {
    let old = Luks2::read(&FaultDevice::new(before.to_vec())).expect("the header is read");
    let area = &old.metadata().keyslot(0).expect("the old keyslot").area;
    // The key in its stripes, which end before the area does.
    let material = area.offset as usize..area.offset as usize + 32 * 4000;
    let sectors =
        |image: &[u8]| image[material.clone()].chunks_exact(512).map(<[u8]>::to_vec).collect::<Vec<_>>();
    assert!(sectors(before).iter().all(|sector| sector.iter().any(|byte| *byte != 0)), "a keyslot");
    let kept = sectors(before).iter().zip(sectors(after)).filter(|(old, new)| *old == new).count();
    assert_eq!(kept, 0, "sectors of the old keyslot are left");
    let (header, data) = after.split_at(HEAD as usize);
    let in_data: std::collections::HashSet<&[u8]> =
        before[HEAD as usize..].chunks_exact(16).chain(data.chunks_exact(16)).collect();
    assert!(!header.chunks_exact(16).any(|piece| in_data.contains(piece)), "a journal is left");
}

#[test]
fn a_power_loss_at_any_write_loses_nothing() {
    let mut visited = 0;
    Campaign::new("power loss during re-encryption", JOBS.len(), 40).run(|seed, random| {
        let (job, tearing) = JOBS[(seed as usize - 1) % JOBS.len()];
        let (bench, plaintext) = before(job, random);
        bench.device.forget();
        bench.begin_and_run().expect("it is done");
        let limits = Limits { tearing, seed, ..Limits::default() };
        visited += resume_after_power_losses(&bench, &limits, 11, random, |after, begun| {
            after.check(&plaintext, begun);
        });
    });
    println!("re-encryption: {visited} states after a power loss were resumed");
}

/// Resumes what a power loss can leave of the job that was recorded: every state in a full campaign, otherwise one in `stride`. Returns
/// how many.
fn resume_after_power_losses(
    recorded: &Bench,
    limits: &Limits,
    stride: u64,
    random: &mut Random,
    check: impl Fn(&Bench, bool),
) -> usize {
    let job = recorded.job;
    let stride = if Campaign::is_full() { 1 } else { stride };
    let (mut number, skip, mut visited) = (0, random.below(stride), 0);
    recorded.device.recording().for_each_power_loss(limits, |aftermath| {
        number += 1;
        if number % stride != skip {
            return;
        }
        visited += 1;
        let mut after = Bench::new(aftermath.image, job);
        after.part = recorded.part;
        let begun = after.resume().unwrap_or_else(|e| panic!("{job:?} {}: {e}", aftermath.power_loss));
        check(&after, begun);
    });
    visited
}

/// What lies behind the part is not touched, whatever happens.
#[test]
fn a_power_loss_while_a_part_is_rewritten_loses_nothing_of_it() {
    const PART: u64 = 200 << 10;
    let mut visited = 0;
    let in_place: Vec<(Job, Tearing)> = JOBS.into_iter().filter(|(job, _)| job.stays()).collect();
    Campaign::new("power loss during re-encryption of a part", 3, in_place.len() * 4).run(|seed, random| {
        let (job, tearing) = in_place[(seed as usize - 1) % in_place.len()];
        let (mut bench, plaintext) = before(job, random);
        bench.part = Some(PART);
        let (part, behind) = (&plaintext[..PART as usize], (HEAD + job.front() + PART) as usize..);
        let untouched = bench.device.image()[behind.clone()].to_vec();
        bench.device.forget();
        let done = bench.begin_and_run().expect("it is done");
        assert_eq!((done.bytes, done.resumed_from), (PART, 0), "{job:?}");
        bench.check(part, true);
        assert!(bench.device.image()[behind.clone()] == untouched, "{job:?}");
        let limits = Limits { tearing, seed, ..Limits::default() };
        visited += resume_after_power_losses(&bench, &limits, 17, random, |after, begun| {
            after.check(part, begun);
            assert!(after.device.image()[behind.clone()] == untouched, "{job:?}");
        });
    });
    println!("re-encryption: {visited} states of a part after a power loss were resumed");
}

/// A part is chosen before the first zone, and not where data moves.
#[test]
fn another_part_than_can_be_is_refused_and_nothing_is_written() {
    for (job, _) in JOBS {
        let (mut bench, plaintext) = before(job, &mut Random::new(3));
        let moves = !job.stays();
        let of = plaintext.len() as u64;
        for asked in [0, of + 4096, 4096, 4097] {
            bench.part = Some(asked);
            bench.device.forget();
            let refused = match bench.begin_only() {
                Err(refused) => refused,
                Ok(_) if asked == 4096 && !moves => break,
                Ok(_) => panic!("{job:?} of {asked} bytes has begun"),
            };
            let expected = match asked {
                4097 => continue,
                _ => ReencryptError::Part { asked, of },
            };
            assert_eq!(refused, expected, "{job:?}");
            assert!(bench.device.recording().events().is_empty(), "{job:?} {asked}: it was written");
        }
        if moves {
            continue;
        }
        let passphrase = passphrase();
        // The whole is a part, too, as long as nothing is done; of a multiple of the data unit.
        let luks = Luks2::read(bench.devices().header).expect("the header is read");
        let keys = keys();
        let with = match job.is_by_key() {
            true => ReencryptKeys::of_volume_keys(&keys),
            false => ReencryptKeys { passphrase: Some(&passphrase), ..ReencryptKeys::default() },
        };
        let resume = || luks.resume_reencryption_with(bench.devices(), with).expect("begun");
        assert_eq!(resume().limit_to(of), Ok(()));
        let mut rewriting = resume();
        let odd = ReencryptError::Misaligned { size: 4097, multiple: rewriting.alignment().into() };
        assert_eq!(rewriting.limit_to(4097), Err(odd));
        assert_eq!(rewriting.limit_to(8192), Ok(()));
        assert_eq!(rewriting.total(), 8192);
        assert_eq!(rewriting.limit_to(16_384), Ok(()), "nothing is done");
        let zone = rewriting.next(4096).expect("a zone").expect("not done");
        rewriting.heat(&zone, &[]).expect("hot");
        assert_eq!(rewriting.limit_to(8192), Err(ReencryptError::Part { asked: 8192, of: 16_384 }));
    }
}

#[test]
fn a_second_power_loss_during_the_recovery_loses_nothing() {
    let mut visited = 0;
    Campaign::new("two power losses during re-encryption", JOBS.len(), 1100).run(|seed, random| {
        let (job, tearing) = JOBS[(seed as usize - 1) % JOBS.len()];
        let (bench, plaintext) = before(job, random);
        bench.device.forget();
        bench.begin_and_run().expect("it is done");
        let limits = Limits { tearing, seed, ..Limits::default() };
        let recording = bench.device.recording();
        let count = recording.for_each_power_loss(&limits, |_| ()) as u64;
        let (mut number, chosen) = (0, random.below(count));
        recording.for_each_power_loss(&limits, |aftermath| {
            number += 1;
            if number - 1 != chosen {
                return;
            }
            let first = Bench::new(aftermath.image, job);
            first.resume().unwrap_or_else(|e| panic!("{job:?} {}: {e}", aftermath.power_loss));
            let again = first.device.recording();
            let count = again.for_each_power_loss(&limits, |_| ()) as u64;
            let picks: Vec<u64> = (0..6).map(|_| random.below(count.max(1))).collect();
            let mut number = 0;
            again.for_each_power_loss(&limits, |second| {
                number += 1;
                if !picks.contains(&(number - 1)) {
                    return;
                }
                visited += 1;
                let after = Bench::new(second.image, job);
                let begun = after.resume().unwrap_or_else(|e| {
                    panic!("{job:?} {}, then {}: {e}", aftermath.power_loss, second.power_loss)
                });
                after.check(&plaintext, begun);
            });
        });
    });
    println!("re-encryption: {visited} states after a second power loss were resumed");
}

#[test]
fn a_wrong_passphrase_is_refused_and_nothing_is_written() {
    let job = JOBS[0].0;
    let (bench, _) = before(job, &mut Random::new(5));
    bench.device.fail(Fault::GoneAfter { writes: 12 });
    let stopped = bench.begin_and_run().expect_err("the power fails");
    assert!(matches!(stopped, RewriteError::Data(_) | RewriteError::State(_)), "{stopped:?}");
    let after = Bench::new(bench.device.image(), job);
    let luks = Luks2::read(after.devices().header).expect("the header is read");
    let wrong =
        luks.resume_reencryption(after.devices(), &Passphrase::copy_from(b"wrong")).expect_err("refused");
    assert_eq!(wrong, UnlockError::WrongPassphrase.into());
    assert_eq!(after.device.counts(), (0, 0));
}

#[test]
fn without_protection_an_interrupted_zone_is_named_and_not_touched() {
    let job = Job::Reencrypt { from: 512, to: 512, resilience: ResilienceKind::None };
    let (bench, _) = before(job, &mut Random::new(9));
    bench.device.forget();
    bench.begin_and_run().expect("it is done");
    let mut refused = 0;
    bench.device.recording().for_each_power_loss(&Limits::default(), |aftermath| {
        let after = Bench::new(aftermath.image, job);
        let counts = after.device.counts();
        if let Err(RewriteError::State(state)) = after.resume()
            && let ReencryptError::Unprotected { len, .. } = *state
        {
            assert!(len <= MAX_ZONE && after.device.counts() == counts);
            refused += 1;
        }
    });
    assert!(refused > 0, "no cut fell into a zone");
}

#[test]
fn keyslots_without_a_passphrase_must_be_named() {
    let (bench, plaintext) = before(JOBS[0].0, &mut Random::new(3));
    let mut luks = Luks2::read(bench.devices().header).expect("the header is read");
    let second = Passphrase::copy_from(b"second");
    let credential = Credential::Passphrase;
    luks.add_key(bench.devices().header, credential(&passphrase(), None), &second, &keyslot())
        .expect("added");
    let begin = |passphrases: &[(&Passphrase, Option<u32>)], drop_slots: Vec<u32>| {
        let options = ReencryptOptions { drop_slots, keyslot: keyslot(), ..ReencryptOptions::default() };
        luks.begin_reencryption(bench.devices(), passphrases, &options).map_err(Box::new)
    };
    let counts = bench.device.counts();
    let left = begin(&[(&passphrase(), None)], Vec::new()).expect_err("refused");
    assert_eq!(*left, ReencryptError::KeyslotsLeft { slots: vec![1] });
    assert_eq!(bench.device.counts(), counts, "nothing is written");
    let mut both = begin(&[(&passphrase(), None), (&second, None)], Vec::new()).expect("begun");
    run(&mut both, zones(), &mut |_, _| ()).expect("done");
    bench.check(&plaintext, true);
    let luks = Luks2::read(bench.devices().header).expect("the header is read");
    for passphrase in [passphrase(), second] {
        luks.test_passphrase(bench.devices().header, &passphrase, None).expect("it opens");
    }
    let options =
        ReencryptOptions { drop_slots: vec![0, 1, 2, 3], keyslot: keyslot(), ..ReencryptOptions::default() };
    let mut one =
        luks.begin_reencryption(bench.devices(), &[(&passphrase(), None)], &options).expect("begun");
    run(&mut one, zones(), &mut |_, _| ()).expect("done");
    let luks = Luks2::read(bench.devices().header).expect("the header is read");
    assert_eq!(luks.metadata().keyslots().len(), 1);
    bench.check(&plaintext, true);
}

/// Zones in which each core has several chunks of its own, and one that is shorter.
#[test]
fn cores_that_share_a_zone_do_what_one_does() {
    for (job, _) in JOBS.into_iter().filter(|(job, _)| job.stays()) {
        let (bench, plaintext) = before_of((5 << 19) + 4096, job, &mut Random::new(2));
        let mut zones = zones();
        (zones.threads, zones.zone) = (3, 0);
        let done = bench.begin_and_run_in(zones).expect("it is done");
        assert_eq!(done.bytes, plaintext.len() as u64, "{job:?}");
        bench.check(&plaintext, true);
    }
}

/// Zones of one core and of three. A sector that can't be written ends the run, with chunks written on both sides.
#[test]
fn a_zone_of_many_chunks_is_recovered_whole() {
    for (job, _) in JOBS.into_iter().filter(|(job, _)| job.stays()) {
        for threads in [1, 3] {
            let (bench, plaintext) = before_of((5 << 19) + 4096, job, &mut Random::new(4));
            let mut zones = zones();
            (zones.threads, zones.zone) = (threads, 0);
            let offset = HEAD + job.front() + (3 << 19) + 4096;
            bench.device.fail(Fault::UnwritableRange { offset, len: 512 });
            let stopped = bench.begin_and_run_in(zones).expect_err("a sector can't be written");
            assert!(matches!(stopped, RewriteError::Data(_)), "{stopped}");
            bench.device.heal();
            assert_eq!(bench.resume_in(zones), Ok(true), "{job:?} on {threads}");
            bench.check(&plaintext, true);
        }
    }
}

/// The hashes or the journal of a hot zone can't be read: the zone stays hot, and what is written is what was.
#[test]
fn a_zone_whose_protection_is_unreadable_is_not_taken_for_recovered() {
    for kind in [ResilienceKind::Checksum, ResilienceKind::Journal] {
        let (bench, plaintext) = before(Job::Detached(kind), &mut Random::new(6));
        bench.device.fail(Fault::UnwritableRange { offset: HEAD + 4096, len: 512 });
        bench.begin_and_run().expect_err("a sector can't be written");
        bench.device.heal();
        let luks = Luks2::read(bench.devices().header).expect("the header is read");
        let mut areas = luks.metadata().keyslots().iter().map(|keyslot| &keyslot.area);
        let area = areas.find(|area| area.offset + area.size == HEAD).expect("the last area");
        bench.device.fail(Fault::UnreadableRange { offset: area.offset, len: area.size });
        let before = bench.device.image();
        let failed = bench.resume().expect_err("the area can't be read");
        assert!(matches!(failed, RewriteError::State(_)), "{kind:?}: {failed:?}");
        assert!(bench.device.image() == before, "{kind:?}: something was written");
        bench.device.heal();
        assert_eq!(bench.resume(), Ok(true));
        bench.check(&plaintext, true);
    }
}

/// A device that notes what it is told will be read.
struct Announced<'a> {
    data: &'a Window,
    told: Mutex<Vec<(u64, u64)>>,
}

impl BlockDevice for Announced<'_> {
    fn size(&self) -> u64 {
        self.data.size()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn geometry(&self) -> Geometry {
        self.data.geometry()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.data.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.data.write_at(offset, data)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.data.flush()
    }
    fn prefetch(&self, offset: u64, len: u64) {
        self.told.lock().expect("no panic").push((offset, len));
    }
}

impl Unshared for Announced<'_> {}

#[test]
fn what_the_next_zone_will_read_is_announced() {
    let (bench, _) = before(Job::Detached(ResilienceKind::Checksum), &mut Random::new(8));
    let data = Announced { data: &bench.data, told: Mutex::new(Vec::new()) };
    let devices = Devices::detached(bench.header.as_ref().expect("a header of its own"), &data);
    let options =
        EncryptOptions { format: options(), resilience: ResilienceKind::Checksum, hash: None, part: None };
    let mut rewriting = begin_encryption(devices, &passphrase(), options).expect("it begins");
    run(&mut rewriting, zones(), &mut |_, _| ()).expect("it is done");
    let expected = [(96, 96), (192, 96), (260, 68)].map(|(at, len): (u64, u64)| (at << 10, len << 10));
    assert_eq!(data.told.into_inner().expect("no panic"), expected);
}

/// A device of which one read gives the data and an error, and notes where it has put the data.
struct Watched {
    data: Window,
    /// Reads of at least so many bytes to go, 0 once it has failed.
    left: AtomicUsize,
    seen: Mutex<Option<(u64, Vec<u8>)>>,
}

impl BlockDevice for Watched {
    fn size(&self) -> u64 {
        self.data.size()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn geometry(&self) -> Geometry {
        self.data.geometry()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.data.read_at(offset, buf)?;
        if buf.len() < WATCHED || self.left.fetch_sub(1, Ordering::Relaxed) != 1 {
            return Ok(());
        }
        *self.seen.lock().expect("no panic") = Some((buf.as_ptr() as u64, buf.to_vec()));
        Err(DeviceError::new(Operation::Read, offset, buf.len() as u64, Cause::Os(5)))
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.data.write_at(offset, data)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.data.flush()
    }
}

impl Unshared for Watched {}

/// Bytes of the reads that count: those of a zone.
const WATCHED: usize = 32 << 10;

/// The buffers lie in the heap, where what was given back stays until somebody else writes there.
#[test]
fn a_failed_read_leaves_no_plaintext_in_memory() {
    let kinds = [(ResilienceKind::Checksum, 1), (ResilienceKind::Checksum, 2), (ResilienceKind::Journal, 1)];
    for (kind, which) in kinds {
        let (bench, _) = before(Job::Detached(kind), &mut Random::new(5));
        let data = Window { device: bench.device.clone(), offset: bench.data.offset, size: bench.data.size };
        // Made before, or it would lie where the buffer was.
        let mut there = vec![0; MAX_ZONE as usize];
        let (left, seen) = (AtomicUsize::new(which), Mutex::new(None));
        let watched = Watched { data, left, seen };
        let header = bench.header.as_ref().expect("a header of its own");
        let passphrase = passphrase();
        let options = EncryptOptions { format: options(), resilience: kind, hash: None, part: None };
        let devices = Devices::detached(header, &watched);
        let mut rewriting = begin_encryption(devices, &passphrase, options).expect("it begins");
        let failed = run(&mut rewriting, zones(), &mut |_, _| ());
        let (at, plaintext) = watched.seen.lock().expect("no panic").take().expect("a zone was read");
        assert!(matches!(failed, Err(RewriteError::Data(_))), "{failed:?}");
        let there = &mut there[..plaintext.len()];
        let memory = std::fs::File::open("/proc/self/mem").expect("our own memory");
        // Pages that went back to the system hold nothing of ours.
        if memory.read_exact_at(there, at).is_ok() {
            let same = there.chunks(16).zip(plaintext.chunks(16)).filter(|(a, b)| a == b).count();
            assert_eq!(same, 0, "{kind:?}, read {which}: pieces of plaintext are where they were read to");
        }
    }
}
