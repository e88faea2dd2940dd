//! Clients read and write while the volume is rewritten. Cut at any write, what they had flushed is there.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use atrest_engine::reencrypt::{Online, Served, recover_interrupted};
use atrest_volume::luks2::reencrypt::Rewriting;

use super::*;

const UNIT: usize = 512;
const UNITS: usize = (260 << 10) / UNIT;

/// What a unit holds in its `version`th form.
fn content(unit: usize, version: u32) -> Vec<u8> {
    let mut bytes = Random::new((unit as u64) << 32 | u64::from(version)).bytes(UNIT);
    bytes[..4].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// A client and what it has written: the newest version of each unit, and what they were at each flush that succeeded.
struct Client {
    random: Random,
    versions: Vec<u32>,
    flushed: Vec<Vec<u32>>,
}

impl Client {
    fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), versions: vec![0; UNITS], flushed: vec![vec![0; UNITS]] }
    }

    /// One write and one read somewhere, and a flush now and then.
    fn step(&mut self, disk: &Online, device: &FaultDevice) -> Result<(), DeviceError> {
        let count = 1 + self.random.below(24) as usize;
        let first = self.random.below((UNITS - count) as u64) as usize;
        let units = first..first + count;
        units.clone().for_each(|unit| self.versions[unit] += 1);
        let data: Vec<u8> = units.flat_map(|unit| content(unit, self.versions[unit])).collect();
        disk.write_at((first * UNIT) as u64, &data)?;
        if self.random.below(4) == 0 {
            disk.flush()?;
            self.flushed.push(self.versions.clone());
            device.acknowledge(self.flushed.len() as u64 - 1);
        }
        let at = self.random.below((UNITS - 40) as u64) as usize;
        let mut read = vec![0; 40 * UNIT];
        disk.read_at((at * UNIT) as u64, &mut read)?;
        for (unit, found) in (at..).zip(read.chunks(UNIT)) {
            assert!(found == content(unit, self.versions[unit]), "unit {unit} is not what was written last");
        }
        Ok(())
    }

    /// Whether every unit is what it was at the last flush that `device` was told of, or newer.
    fn check(&self, plaintext: &[u8], flush: usize, what: &str) {
        for (unit, found) in plaintext.chunks(UNIT).enumerate() {
            let version = u32::from_le_bytes(found[..4].try_into().expect("4 bytes"));
            let known = (self.flushed[flush][unit]..=self.versions[unit]).contains(&version);
            assert!(known && found == content(unit, version), "{what}: unit {unit} is lost");
        }
    }
}

const JOBS: [Job; 5] = [
    Job::Reencrypt { from: 512, to: 512, resilience: ResilienceKind::Checksum },
    Job::Reencrypt { from: 512, to: 512, resilience: ResilienceKind::Journal },
    Job::Detached(ResilienceKind::Checksum),
    Job::Decrypt(ResilienceKind::Checksum),
    Job::Decrypt(ResilienceKind::Journal),
];

/// A device of which every unit has its first version.
fn fresh(job: Job) -> Bench {
    let plaintext: Vec<u8> = (0..UNITS).flat_map(|unit| content(unit, 0)).collect();
    let (bench, _) = with_plaintext(plaintext, job);
    bench.device.forget();
    bench
}

impl Bench {
    fn begin(&self) -> Rewriting<'_> {
        self.begin_only().expect("it begins")
    }

    fn online(&self, rewriting: &mut Rewriting<'_>) -> Online {
        let media = Window { device: self.device.clone(), offset: self.data.offset, size: self.data.size };
        let done = rewriting.done().expect("a row");
        Online::new(Arc::new(media), rewriting, done, &DiskOptions::default())
            .expect("fits")
            .expect("in place")
    }

    /// All plaintext, whether it is encrypted by now or not.
    fn whole(&self) -> Vec<u8> {
        let luks = Luks2::read(self.devices().header).expect("the header is read");
        if luks.metadata().digests().iter().all(|digest| digest.segments.is_empty()) {
            let mut data = vec![0; UNITS * UNIT];
            self.data.read_at(0, &mut data).expect("the data is read");
            return data;
        }
        self.plaintext(UNITS * UNIT)
    }
}

/// Rewrites all while a client works. Until `stop` is asked for, if it is.
fn served(bench: &Bench, client: &mut Client, stop: Option<u64>) -> Result<Rewritten, RewriteError> {
    let mut rewriting = bench.begin();
    let online = bench.online(&mut rewriting);
    let (cancel, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut zones = zones();
    (zones.zone, zones.online, zones.cancel) = (24 << 10, Some(&online as &dyn Served), Some(&cancel));
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let mut progress = |done, _| {
                if stop.is_some_and(|stop| done >= stop) {
                    cancel.store(true, Ordering::Release);
                }
                // The client comes in between, also where there is one processor.
                std::thread::sleep(Duration::from_micros(200));
            };
            let result = run(&mut rewriting, zones, &mut progress);
            ended.store(true, Ordering::Release);
            result
        });
        while !ended.load(Ordering::Acquire) {
            client.step(&online, &bench.device).expect("it is served");
        }
        for _ in 0..10 {
            client.step(&online, &bench.device).expect("it is still served");
        }
        work.join().expect("no panic")
    })
}

#[test]
fn a_volume_is_served_while_it_is_rewritten() {
    for job in JOBS {
        let bench = fresh(job);
        let mut client = Client::new(3);
        let done = served(&bench, &mut client, None).expect("it is done");
        assert_eq!(done.bytes, (UNITS * UNIT) as u64, "{job:?}");
        let versions = client.versions.clone();
        client.flushed.push(versions);
        client.check(&bench.whole(), client.flushed.len() - 1, "at the end");
        let luks = Luks2::read(bench.devices().header).expect("the header is read");
        assert!(luks.metadata().config().requirements.is_empty());
    }
}

#[test]
fn stopped_between_zones_it_is_opened_as_it_is_and_resumed() {
    for job in JOBS {
        let bench = fresh(job);
        let mut client = Client::new(4);
        let stopped = served(&bench, &mut client, Some(100 << 10)).expect_err("it is stopped");
        assert!(matches!(stopped, RewriteError::Cancelled { done: 1.., .. }), "{stopped:?}");
        let versions = client.versions.clone();
        client.flushed.push(versions);
        let last = client.flushed.len() - 1;
        client.check(&bench.plaintext(UNITS * UNIT), last, "as it was stopped");
        assert_eq!(bench.resume(), Ok(true));
        client.check(&bench.whole(), last, "at the end");
    }
}

#[test]
fn what_was_flushed_is_there_after_a_power_loss() {
    let mut visited = 0;
    Campaign::new("power loss during online re-encryption", 1, 200).run(|seed, _| {
        let job = JOBS[(seed as usize - 1) % JOBS.len()];
        let bench = fresh(job);
        let mut client = Client::new(seed);
        served(&bench, &mut client, None).expect("it is done");
        let limits =
            Limits { tearing: Tearing::BetweenSectors, seed, exhaustive: 3, sampled: 4, ..Limits::default() };
        let stride = if Campaign::is_full() { 7 } else { 41 };
        let mut number = seed as usize;
        bench.device.recording().for_each_power_loss(&limits, |aftermath| {
            number += 1;
            if !number.is_multiple_of(stride) {
                return;
            }
            visited += 1;
            let what = format!("{job:?} {}", aftermath.power_loss);
            let flush = aftermath.acknowledged.last().map_or(0, |flush| *flush as usize);
            let after = Bench::new(aftermath.image, job);
            if !after.resume().unwrap_or_else(|e| panic!("{what}: {e}")) {
                // No header yet, or plaintext without one.
                let mut data = vec![0; UNITS * UNIT];
                after.data.read_at(0, &mut data).expect("the data is read");
                return client.check(&data, flush, &what);
            }
            client.check(&after.whole(), flush, &what);
        });
    });
    println!("online re-encryption: {visited} states after a power loss were resumed");
}

/// A zone that can't be written: reads go on, also of the zone, and nothing is written any more.
#[test]
fn when_the_rewriting_fails_everything_can_be_read_and_nothing_written() {
    let job = JOBS[0];
    let bench = fresh(job);
    let mut rewriting = bench.begin();
    let online = bench.online(&mut rewriting);
    bench.device.fail(Fault::UnwritableRange { offset: HEAD + (100 << 10), len: 512 });
    let mut zones = zones();
    (zones.zone, zones.online) = (24 << 10, Some(&online as &dyn Served));
    run(&mut rewriting, zones, &mut |_, _| ()).expect_err("a sector can't be written");
    let mut all = vec![0; UNITS * UNIT];
    online.read_at(0, &mut all).expect("it is read");
    let client = Client::new(1);
    client.check(&all, 0, "after the failure");
    let begun = Instant::now();
    for at in [0, 100 << 10, 200 << 10] {
        let refused = online.write_at(at, &[1; 512]).expect_err("refused");
        assert_eq!(refused.cause, Cause::EarlierFlushFailed);
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
    online.flush().expect_err("refused");
    drop((online, rewriting));
    bench.device.heal();
    // A writer opens it again: the zone is recovered, and the rest is left.
    let luks = Luks2::read(bench.devices().header).expect("the header is read");
    let shut = luks.unlock(bench.devices(), &passphrase(), &UnlockOptions::default());
    assert_eq!(shut.err(), Some(UnlockError::ReencryptionInProgress));
    let mut again = luks.resume_reencryption(bench.devices(), &passphrase()).expect("resumed");
    assert!(matches!(recover_interrupted(&mut again), Ok(false)));
    drop(again);
    client.check(&bench.plaintext(UNITS * UNIT), 0, "after the recovery");
}

/// A device whose writes of the data panic, as a mistake of this program would.
struct Mistaken(Window);

impl BlockDevice for Mistaken {
    fn size(&self) -> u64 {
        self.0.size()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        assert!(offset < HEAD, "a mistake");
        self.0.write_at(offset, data)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.0.flush()
    }
}

impl Unshared for Mistaken {}

#[test]
fn a_panic_of_the_rewriting_lets_nobody_wait_for_ever() {
    let bench = fresh(JOBS[0]);
    drop(bench.begin());
    let window = || Window { device: bench.device.clone(), offset: bench.data.offset, size: bench.data.size };
    let mistaken = Mistaken(window());
    let luks = Luks2::read(&mistaken).expect("the header is read");
    let devices = Devices::together(&mistaken);
    let mut rewriting = luks.resume_reencryption(devices, &passphrase()).expect("resumed");
    let online = Online::new(Arc::new(window()), &mut rewriting, 0, &DiskOptions::default());
    let online = Arc::new(online.expect("fits").expect("in place"));
    let mut zones = zones();
    (zones.zone, zones.online) = (24 << 10, Some(&*online as &dyn Served));
    let run = || run(&mut rewriting, zones, &mut |_, _| ());
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).expect_err("a panic");
    let (told, tells) = std::sync::mpsc::channel();
    let writer = online.clone();
    std::thread::spawn(move || told.send(writer.write_at(0, &[1; 512]).map_err(|error| error.cause)));
    let refused = tells.recv_timeout(Duration::from_secs(20)).expect("the write comes back");
    assert_eq!(refused, Err(Cause::EarlierFlushFailed));
    let mut all = vec![0; UNITS * UNIT];
    online.read_at(0, &mut all).expect("it is read");
    Client::new(1).check(&all, 0, "after the panic");
}

/// A device that notes in which order it and others are written and flushed.
struct Noted {
    inner: Window,
    name: &'static str,
    log: Arc<Mutex<Vec<(&'static str, &'static str)>>>,
}

impl Noted {
    fn note(&self, what: &'static str) {
        self.log.lock().expect("no panic").push((self.name, what));
    }
}

impl BlockDevice for Noted {
    fn size(&self) -> u64 {
        self.inner.size()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.note("write");
        self.inner.write_at(offset, data)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.note("flush");
        self.inner.flush()
    }
}

impl Unshared for Noted {}

/// With a header on a device of its own, nothing else would flush what clients wrote before its hashes count.
#[test]
fn what_was_written_to_a_zone_is_flushed_before_its_hashes_are_written() {
    let bench = fresh(Job::Decrypt(ResilienceKind::Checksum));
    drop(bench.begin());
    let log: Arc<Mutex<Vec<_>>> = Arc::default();
    let noted = |name, of: &Window| {
        let inner = Window { device: bench.device.clone(), offset: of.offset, size: of.size };
        Arc::new(Noted { inner, name, log: log.clone() })
    };
    let header = noted("header", bench.header.as_ref().expect("a header of its own"));
    let data = noted("data", &bench.data);
    let luks = Luks2::read(&*header).expect("the header is read");
    let devices = Devices::detached(&*header, &*data);
    let mut rewriting = luks.resume_reencryption(devices, &passphrase()).expect("resumed");
    let online = Online::new(data.clone(), &mut rewriting, 0, &DiskOptions::default());
    let online = online.expect("fits").expect("in place");
    online.write_at((UNITS * UNIT - 512) as u64, &[7; 512]).expect("written");
    let mut zones = zones();
    (zones.zone, zones.online) = (24 << 10, Some(&online as &dyn Served));
    run(&mut rewriting, zones, &mut |_, _| ()).expect("it is done");
    let log = log.lock().expect("no panic");
    assert_eq!(log[..3], [("data", "write"), ("data", "flush"), ("header", "write")]);
}
