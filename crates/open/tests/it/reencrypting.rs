//! A volume whose re-encryption was cut off at any write opens for writing, whatever had reached the media, and also where the header
//! lies in a file of its own. What can't be opened is refused before anything is written.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atrest_device::BlockDevice;
use atrest_engine::reencrypt::{RewriteError, RewriteOptions, run};
use atrest_engine::{Access, Disk, DiskOptions};
use atrest_open::{
    Background, Device, Error, Format, Held, Key, NoOtherKey, OneKey, Options, Progress, Refused, Serve,
};
use atrest_testkit::power_loss::{Limits, PowerLoss};
use atrest_testkit::{Campaign, FaultDevice, Random, Scratch, Window};
use atrest_volume::luks2::reencrypt::{
    DecryptOptions, EncryptOptions, ReencryptKeys, ReencryptOptions, ResilienceKind, begin_encryption,
};
use atrest_volume::luks2::{Luks2, format};
use atrest_volume::{
    Credential, Devices, FormatOptions, KeyslotOptions, Passphrase, PbkdfKind, PbkdfOptions, UnlockError,
    UnlockOptions,
};

const HEAD: u64 = 1 << 20;
const LEN: usize = 96 << 10;
const ZONE: u64 = 32 << 10;

/// The header and the data behind it.
fn windows(device: &FaultDevice) -> (Window<&FaultDevice>, Window<&FaultDevice>) {
    let header = Window { device, offset: 0, size: HEAD };
    (header, Window { device, offset: HEAD, size: LEN as u64 })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// The header is in front of the data.
    Rekey,
    /// The header is in a file.
    Encrypt,
    /// The header is in a file.
    Decrypt,
}

const JOBS: [(Job, ResilienceKind); 4] = [
    (Job::Decrypt, ResilienceKind::Checksum),
    (Job::Rekey, ResilienceKind::Checksum),
    (Job::Encrypt, ResilienceKind::Journal),
    (Job::Decrypt, ResilienceKind::Journal),
];

fn passphrase() -> Passphrase {
    Passphrase::copy_from(b"correct horse")
}

fn keyslot() -> KeyslotOptions {
    let kind = Some(PbkdfKind::Pbkdf2);
    let pbkdf = PbkdfOptions { kind, forced_iterations: Some(1000), ..PbkdfOptions::default() };
    KeyslotOptions { pbkdf, ..KeyslotOptions::default() }
}

/// All writes of a job, which begin with header and data one behind the other.
struct Recorded {
    job: Job,
    device: FaultDevice,
    plaintext: Vec<u8>,
}

impl Recorded {
    fn new(job: Job, resilience: ResilienceKind, random: &mut Random) -> Self {
        let plaintext = random.bytes(LEN);
        let size = HEAD + LEN as u64;
        let media = Arc::new(FaultDevice::zeroed(size as usize));
        let data_offset = Some(if job == Job::Rekey { HEAD } else { 0 });
        let key_len = Some(32);
        let keyslots_size = Some(HEAD - (32 << 10));
        let options = FormatOptions {
            data_offset,
            data_unit: Some(512),
            key_len,
            keyslots_size,
            keyslot: keyslot(),
            ..FormatOptions::default()
        };
        if job == Job::Encrypt {
            media.write_at(HEAD, &plaintext).expect("it fits");
        } else {
            let (header, data) = windows(&media);
            let devices = match job {
                Job::Rekey => Devices::together(&*media),
                _ => Devices::detached(&header, &data),
            };
            let luks = format(devices, &passphrase(), &options).expect("a volume");
            let volume = luks.unlock(devices, &passphrase(), &UnlockOptions::default()).expect("it opens");
            let encrypted = match job {
                Job::Rekey => media.clone(),
                _ => Arc::new(FaultDevice::zeroed(LEN)),
            };
            let disk = Disk::new(encrypted.clone(), volume, DiskOptions::default()).expect("a disk");
            disk.write_at(0, &plaintext).expect("written");
            let image = encrypted.image();
            media.write_at(HEAD, &image[image.len() - LEN..]).expect("it fits");
        }
        let device = FaultDevice::new(media.image());
        {
            let (header, data) = windows(&device);
            let devices = match job {
                Job::Rekey => Devices::together(&device),
                _ => Devices::detached(&header, &data),
            };
            let passphrase = passphrase();
            let begun = match job {
                Job::Rekey => {
                    let options =
                        ReencryptOptions { resilience, keyslot: keyslot(), ..ReencryptOptions::default() };
                    let luks = Luks2::read(&device).expect("a header");
                    luks.begin_reencryption(devices, &[(&passphrase, None)], &options)
                }
                Job::Encrypt => {
                    let format = FormatOptions { data_offset: None, ..options };
                    let options = EncryptOptions { format, resilience, ..EncryptOptions::default() };
                    begin_encryption(devices, &passphrase, options)
                }
                Job::Decrypt => {
                    let options =
                        DecryptOptions { resilience, keyslot: keyslot(), ..DecryptOptions::default() };
                    let luks = Luks2::read(&header).expect("a header");
                    luks.begin_decryption(devices, Credential::Passphrase(&passphrase, None), &options)
                }
            };
            let mut options = RewriteOptions::default();
            (options.threads, options.zone) = (1, ZONE);
            run(&mut begun.expect("it begins"), options, &mut |_, _| ()).expect("it is done");
        }
        Self { job, device, plaintext }
    }
}

/// What a power loss left, in files.
struct Left {
    data: PathBuf,
    header: Option<PathBuf>,
}

impl Left {
    fn new(scratch: &Scratch, job: Job, image: &[u8]) -> Self {
        let (header, data) = image.split_at(HEAD as usize);
        match job {
            Job::Rekey => Self { data: scratch.file("data", image), header: None },
            _ => Self { data: scratch.file("data", data), header: Some(scratch.file("header", header)) },
        }
    }

    fn luks(&self) -> Option<Luks2> {
        let device = FaultDevice::new(fs::read(self.header.as_ref().unwrap_or(&self.data)).expect("a file"));
        Luks2::read(&device).ok()
    }

    fn open(&self, slot: Option<u32>, write: bool) -> Result<Disk, Error<NoOtherKey>> {
        let mut options = Options::default();
        (options.header, options.write) = (self.header.as_deref(), write);
        options.unlock.slot = slot;
        let mut key = OneKey::new(Key::Passphrase(passphrase()));
        atrest_open::open(&self.data, &Format::ByHeader, &mut key, &options)
    }

    fn bytes(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        let read = |path: &PathBuf| fs::read(path).expect("a file");
        (read(&self.data), self.header.as_ref().map(read))
    }
}

fn is_unfinished(opened: Result<Disk, Error<NoOtherKey>>) -> bool {
    let refused = UnlockError::ReencryptionInProgress;
    matches!(opened, Err(Error::Unlock(Refused::Attempt(error))) if error == refused)
}

/// Checks one state. Returns whether a zone was hot, and whether it was the last of them.
fn check(scratch: &Scratch, recorded: &Recorded, state: &PowerLoss, image: &[u8]) -> (bool, bool) {
    let what = format!("{:?}, {state}", recorded.job);
    let left = Left::new(scratch, recorded.job, image);
    let bytes = left.bytes();
    let Some(luks) = left.luks().filter(|luks| !luks.metadata().config().requirements.is_empty()) else {
        return (false, false);
    };
    let is_hot = luks.metadata().reencryption().expect("a state").hot.is_some();
    if is_hot {
        // Who reads alone completes nothing, and who could not open it afterwards neither.
        assert!(is_unfinished(left.open(None, false)), "{what}");
        assert!(is_unfinished(left.open(Some(0), true)), "{what}");
        assert!(left.bytes() == bytes, "{what}: it was written to");
    }
    let disk = left.open(None, true).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut found = vec![0; LEN];
    disk.read_at(0, &mut found).expect("it is read");
    assert!(found == recorded.plaintext, "{what}: the plaintext differs");
    drop(disk);
    let again = left.luks().expect("a header");
    let ended = again.metadata().config().requirements.is_empty();
    assert!(ended || again.metadata().reencryption().expect("a state").hot.is_none(), "{what}");
    (is_hot, is_hot && ended)
}

#[test]
fn what_was_cut_off_in_the_middle_of_a_zone_opens_for_writing() {
    let (mut states, mut hot, mut last) = (0, 0, 0);
    Campaign::new("opening after a power loss during re-encryption", 2, 40).run(|seed, random| {
        let (job, resilience) = JOBS[(seed as usize - 1) % JOBS.len()];
        let recorded = Recorded::new(job, resilience, random);
        let scratch = Scratch::new();
        let limits = Limits { seed, exhaustive: 2, sampled: 4, ..Limits::default() };
        recorded.device.recording().for_each_power_loss(&limits, |aftermath| {
            let (is_hot, is_last) = check(&scratch, &recorded, &aftermath.power_loss, &aftermath.image);
            states += 1;
            hot += u32::from(is_hot);
            last += u32::from(is_last);
        });
    });
    println!(
        "opened {states} states after a power loss, {hot} with a half-written zone, {last} with the last"
    );
    assert!(hot > 0 && last > 0);
}

/// All is done, and so it is said; but both keys stay where they are.
#[test]
fn what_is_reencrypted_is_no_failure_where_no_ordinary_disk_takes_its_place() {
    let media = FaultDevice::zeroed(HEAD as usize + LEN);
    let keyslots_size = Some(HEAD - (32 << 10));
    let made = FormatOptions {
        data_offset: Some(HEAD),
        key_len: Some(32),
        keyslots_size,
        keyslot: keyslot(),
        ..FormatOptions::default()
    };
    format(Devices::together(&media), &passphrase(), &made).expect("a volume");
    let scratch = Scratch::new();
    let path = scratch.file("volume", media.image());
    let held = Held::open(&path, None, true).expect("free");
    let key = Key::Passphrase(passphrase());
    let unlocked = held.locked(&Format::ByHeader).expect("a header").try_key(&key, &UnlockOptions::default());
    let how = (Format::ByHeader, UnlockOptions::default());
    let (_disk, reopen) =
        held.disk_for_long(unlocked.expect("it opens"), DiskOptions::default(), how).expect("a disk");
    let header = Device::open(&path, Access::ReadWrite).expect("opened");
    let devices = Devices::together(&header);
    let options = ReencryptOptions { keyslot: keyslot(), ..ReencryptOptions::default() };
    let luks = Luks2::read(&header).expect("a header");
    drop(luks.begin_reencryption(devices, &[(&passphrase(), None)], &options).expect("it begins"));
    let luks = Luks2::read(&header).expect("a header");
    let keys =
        luks.reencryption_keys(devices, ReencryptKeys::of_passphrase(&passphrase())).expect("both keys");
    let serve = |what: Serve| match what {
        Serve::Online(..) => Ok(()),
        Serve::Done(_) => Err("it does not fit".into()),
    };
    let reopen = reopen.expect("it was opened by a path");
    let background = Background::start(Arc::new(reopen), keys, serve).expect("it runs");
    let end = Instant::now() + Duration::from_secs(60);
    while matches!(background.progress(), Progress::Running { .. }) {
        assert!(Instant::now() < end, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(background.progress(), Progress::Kept("it does not fit".into()));
    assert!(Luks2::read(&header).expect("a header").metadata().config().requirements.is_empty());
}

/// By cryptsetup's lock: as long as somebody else has it, a volume in the middle of its re-encryption is not what its header says for long.
#[test]
fn nobody_opens_what_another_process_is_reencrypting() {
    let (scratch, mut random) = (Scratch::new(), Random::new(6));
    let recorded = Recorded::new(Job::Rekey, ResilienceKind::Checksum, &mut random);
    let begun = FaultDevice::new(recorded.device.image());
    let options =
        ReencryptOptions { resilience: ResilienceKind::Checksum, keyslot: keyslot(), ..Default::default() };
    let luks = Luks2::read(&begun).expect("a header");
    drop(
        luks.begin_reencryption(Devices::together(&begun), &[(&passphrase(), None)], &options)
            .expect("begun"),
    );
    let left = Left::new(&scratch, Job::Rekey, &begun.image());
    let path = format!("/run/cryptsetup/LN_LUKS2-reencryption-{}", luks.uuid());
    let somebody = fs::File::create(&path).expect("the lock file");
    somebody.lock().expect("locked");
    for write in [false, true] {
        let refused = left.open(None, write);
        let is_busy = matches!(&refused, Err(Error::Unlock(Refused::Attempt(UnlockError::ReencryptionRuns))));
        assert!(is_busy, "{:?}", refused.err());
    }
    let device = FaultDevice::new(begun.image());
    let luks = Luks2::read(&device).expect("a header");
    let rewriting = luks.resume_reencryption(Devices::together(&device), &passphrase());
    let running = run(&mut rewriting.expect("it resumes"), RewriteOptions::default(), &mut |_, _| ());
    assert_eq!(running, Err(RewriteError::Running));
    drop(somebody);
    let disk = left.open(None, true).expect("nobody has it");
    let other = || {
        let file = fs::File::open(&path).expect("the lock file");
        matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock))
    };
    assert!(other(), "whoever writes has the lock");
    drop(disk);
    assert!(fs::metadata(&path).is_err(), "the lock file is left");
}
