//! When checkpoints are made, what they vouch for, and what is resumed into a file.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use atrest_testkit::needs::wait_until;

use super::*;

const STEP: u64 = CHUNK as u64;

/// Runs a decryption into a file until it comes to `bad`, which can't be read. Heals the media.
fn interrupted(media: &FaultDevice, disk: &Disk, out: &Path, options: BulkOptions<'_>, bad: u64) {
    media.fail(Fault::UnreadableRange { offset: OFFSET + bad, len: 512 });
    let destination = Destination::look(out, false).expect("usable");
    let failed = decrypt_to(disk, destination, options, &mut quiet()).expect_err("unreadable");
    assert!(matches!(failed, BulkError::Read(_)), "{failed}");
    media.heal();
}

fn resume(disk: &Disk, out: &Path, options: BulkOptions<'_>) -> Result<Summary, BulkError> {
    let destination = Destination::look(out, true).expect("usable");
    decrypt_to(disk, destination, BulkOptions { resume: true, ..options }, &mut quiet())
}

#[test]
fn a_file_is_resumed_where_it_ended_and_zeros_are_written_over_what_lies_there() {
    let mut plaintext = Random::new(21).bytes(LEN);
    plaintext[LEN / 2..].fill(0);
    let (media, disk) = filled(&plaintext);
    let (dir, checkpoint) = place();
    let options = BulkOptions { threads: 1, checkpoint: Some(&checkpoint), ..BulkOptions::default() };
    let out = dir.path("out");
    interrupted(&media, &disk, &out, options, 4 * STEP + 1);
    assert_eq!((noted(&checkpoint), dir.read("out").len()), (4 * STEP, LEN));

    // Somebody else's bytes in the part that is to come.
    let mut file = dir.read("out");
    file[LEN - 5000..].fill(0xEE);
    dir.file("out", &file);
    let summary = resume(&disk, &out, options).expect("resumed");
    assert_eq!((summary.resumed_from, summary.bytes), (4 * STEP, LEN as u64));
    assert!(dir.read("out") == plaintext);
    assert!(!checkpoint.exists());
}

#[test]
fn a_new_file_keeps_holes_for_zeros() {
    let mut plaintext = vec![0; LEN];
    plaintext[..100].fill(1);
    let (_media, disk) = filled(&plaintext);
    let dir = Scratch::new();
    dir.file("old", vec![2; LEN]);
    for name in ["new", "old"] {
        let destination = Destination::look(&dir.path(name), false).expect("usable");
        decrypt_to(&disk, destination, BulkOptions::default(), &mut quiet()).expect("decrypted");
        assert!(dir.read(name) == plaintext, "{name}");
        let stored = std::fs::metadata(dir.path(name)).expect("the file").blocks() * 512;
        assert!(stored < LEN as u64 / 2, "{name}: {stored} bytes are stored");
    }
}

#[test]
fn a_file_that_is_resumed_must_have_room_for_all() {
    let plaintext = Random::new(22).bytes(LEN);
    let (media, disk) = filled(&plaintext);
    let (dir, checkpoint) = place();
    let options = BulkOptions { threads: 1, checkpoint: Some(&checkpoint), ..BulkOptions::default() };
    let out = dir.path("out");
    interrupted(&media, &disk, &out, options, 4 * STEP);
    let kept = std::fs::read(&checkpoint).expect("a checkpoint");
    let file = std::fs::OpenOptions::new().write(true).open(&out).expect("the file");

    file.set_len(LEN as u64 - 1).expect("cut off");
    let has = LEN as u64 - 1;
    assert_eq!(resume(&disk, &out, options), Err(BulkError::DestinationTooSmall { needs: LEN as u64, has }));
    assert_eq!(std::fs::read(&checkpoint).expect("a checkpoint"), kept);
    file.set_len(LEN as u64 + 4096).expect("made longer");
    resume(&disk, &out, options).expect("resumed into a longer file");
    assert!(dir.read("out")[..LEN] == plaintext);
}

#[test]
fn a_run_that_had_done_nothing_is_resumed_without_its_output() {
    let plaintext = Random::new(23).bytes(LEN);
    let (_media, disk) = filled(&plaintext);
    let (dir, checkpoint) = place();
    let options = BulkOptions { threads: 1, checkpoint: Some(&checkpoint), ..BulkOptions::default() };
    let out = dir.path("out");
    let full = FaultDevice::zeroed(LEN);
    full.fail(Fault::NoSpaceFrom { offset: 0 });
    decrypt(&disk, &full, options, &mut quiet()).expect_err("full");
    assert_eq!(noted(&checkpoint), 0);

    // A place where no file can be made takes the checkpoint from nobody.
    let nowhere = dir.path("gone").join("out");
    let refused = resume(&disk, &nowhere, options).expect_err("no directory");
    assert!(matches!(refused, BulkError::Destination(error) if error.cause == Cause::Os(libc::ENOENT)));
    assert_eq!(noted(&checkpoint), 0);

    resume(&disk, &out, options).expect("resumed");
    assert!(dir.read("out") == plaintext);
}

#[test]
fn every_byte_at_either_end_of_the_source_is_bound_to_the_checkpoint() {
    let (media, disk) = filled(&Random::new(24).bytes(LEN));
    let (_dir, path) = place();
    let destination = FaultDevice::zeroed(LEN);
    let options = BulkOptions { threads: 1, checkpoint: Some(&path), ..BulkOptions::default() };
    destination.fail(Fault::NoSpaceFrom { offset: 5 * STEP });
    decrypt(&disk, &destination, options, &mut quiet()).expect_err("full");
    destination.heal();
    let resume = BulkOptions { resume: true, ..options };
    for at in [0, (1 << 20) - 1, LEN as u64 - (1 << 20), LEN as u64 - 1] {
        let byte = media.image()[(OFFSET + at) as usize];
        media.write_at(OFFSET + at, &[!byte]).expect("written");
        let result = decrypt(&disk, &destination, resume, &mut quiet());
        assert_eq!(result, Err(BulkError::CheckpointMismatch(Mismatch::Source)), "byte {at}");
        media.write_at(OFFSET + at, &[byte]).expect("written");
    }
    // And the size of the volume, of which a part was read.
    let shorter = Arc::new(FaultDevice::new(media.image()[..OFFSET as usize + LEN - 4096].to_vec()));
    let result = decrypt(&disk_with(shorter, 1, UUID), &destination, resume, &mut quiet());
    assert_eq!(result, Err(BulkError::CheckpointMismatch(Mismatch::Volume)));

    // Of the output it is the last chunk that counts, to its ends.
    for at in [4 * STEP, 5 * STEP - 1] {
        let byte = destination.image()[at as usize];
        destination.write_at(at, &[!byte]).expect("written");
        let changed = Mismatch::Output { offset: 4 * STEP };
        let result = decrypt(&disk, &destination, resume, &mut quiet());
        assert_eq!(result, Err(BulkError::CheckpointMismatch(changed)), "byte {at}");
        destination.write_at(at, &[byte]).expect("written");
    }
    assert_eq!(decrypt(&disk, &destination, resume, &mut quiet()).expect("resumed").resumed_from, 5 * STEP);
}

#[test]
fn what_could_not_be_made_durable_after_an_error_is_not_done() {
    let (_media, disk) = filled(&Random::new(25).bytes(LEN));
    let destination = FaultDevice::zeroed(LEN);
    destination.fail(Fault::NoSpaceFrom { offset: 3_000_000 });
    destination.fail(Fault::FailingFlush { number: 0 });
    let (_dir, path) = place();
    let options = BulkOptions { threads: 1, checkpoint: Some(&path), ..BulkOptions::default() };
    let result = decrypt(&disk, &destination, options, &mut quiet());
    assert!(matches!(result, Err(BulkError::Write(error)) if error.cause == Cause::NoSpace), "{result:?}");
    assert_eq!(noted(&path), 0);
}

/// A destination that does something before it writes.
struct Before<'a> {
    inner: FaultDevice,
    each: &'a (dyn Fn(u64, &FaultDevice) + Sync),
}

impl BlockDevice for Before<'_> {
    fn size(&self) -> u64 {
        self.inner.size()
    }
    fn geometry(&self) -> Geometry {
        Geometry::default()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        (self.each)(offset, &self.inner);
        self.inner.write_at(offset, data)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush()
    }
}

#[test]
fn a_checkpoint_is_made_as_soon_as_enough_is_new_and_not_before() {
    let (_media, disk) = filled(&Random::new(26).bytes(LEN));
    let (_dir, path) = place();
    let (reports, seen) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    // The report after the next has come to its end when another begins.
    let two_reports = || {
        let until = reports.load(Ordering::Acquire) + 2;
        wait_until("two reports", || reports.load(Ordering::Acquire) >= until);
    };
    let each = |offset: u64, device: &FaultDevice| {
        if offset == STEP {
            two_reports();
        } else if offset == 2 * STEP {
            wait_until("a checkpoint", || noted(&path) == 2 * STEP);
            two_reports();
        } else {
            return;
        }
        seen.lock().expect("no panic").push((offset, noted(&path), device.counts().1));
    };
    let destination = Before { inner: FaultDevice::zeroed(LEN), each: &each };
    let options = BulkOptions {
        threads: 1,
        checkpoint: Some(&path),
        checkpoint_every: 2 * STEP,
        ..BulkOptions::default()
    };
    let begun = Instant::now();
    let mut progress = |_: u64, _: u64| {
        reports.fetch_add(1, Ordering::AcqRel);
    };
    decrypt(&disk, &destination, options, &mut progress).expect("decrypted");
    // Flushed once for the checkpoint, and not again while nothing is new.
    assert_eq!(seen.into_inner().expect("no panic"), [(STEP, 0, 0), (2 * STEP, 2 * STEP, 1)]);
    let most = 2 + begun.elapsed().as_millis() as u64 / 100;
    assert!(reports.into_inner() <= most, "more than ten reports a second");
}

#[test]
fn a_checkpoint_in_the_middle_is_made_after_the_flush_and_only_if_that_succeeds() {
    let (_media, disk) = filled(&Random::new(27).bytes(LEN));
    let (_dir, path) = place();
    let (reports, seen) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let each = |offset: u64, _: &FaultDevice| {
        if offset == STEP {
            // The report after the next has come to its end when another begins.
            let until = reports.load(Ordering::Acquire) + 2;
            wait_until("two reports", || reports.load(Ordering::Acquire) >= until);
            seen.lock().expect("no panic").push(noted(&path));
        }
    };
    let destination = Before { inner: FaultDevice::zeroed(LEN), each: &each };
    destination.inner.fail(Fault::FailingFlush { number: 0 });
    let options =
        BulkOptions { threads: 1, checkpoint: Some(&path), checkpoint_every: 1, ..BulkOptions::default() };
    let mut progress = |_: u64, _: u64| {
        reports.fetch_add(1, Ordering::AcqRel);
    };
    let result = decrypt(&disk, &destination, options, &mut progress);
    assert!(matches!(result, Err(BulkError::Flush(_))), "{result:?}");
    assert_eq!((seen.into_inner().expect("no panic"), noted(&path)), (vec![0], 0));
}

#[test]
fn a_volume_that_is_open_for_reading_is_not_written() {
    let media = Arc::new(FaultDevice::zeroed(LEN + OFFSET as usize));
    let segment = Segment {
        start: 0,
        len: LEN as u64,
        media_offset: OFFSET,
        protection: Locked::new(mapper(1)).into(),
    };
    let volume = Volume::new(VolumeFormat::Luks2, vec![segment]);
    let options = DiskOptions { read_only: true, ..DiskOptions::default() };
    let disk = Disk::new(media.clone(), volume, options).expect("it fits");
    let (_dir, path) = place();
    let options = BulkOptions { checkpoint: Some(&path), ..BulkOptions::default() };
    let source = FaultDevice::zeroed(LEN);
    assert_eq!(encrypt(&source, &disk, options, &mut quiet()), Err(BulkError::ReadOnly));
    assert_eq!((media.counts(), path.exists()), ((0, 0), false));
}

#[test]
fn a_destination_tells_what_it_holds() {
    let dir = Scratch::new();
    dir.file("empty", "");
    dir.file("hole", "");
    let hole = std::fs::OpenOptions::new().write(true).open(dir.path("hole")).expect("a file");
    hole.set_len(1 << 20).expect("made longer");
    dir.file("full", "x");
    for (name, holds) in [("nothing", false), ("empty", false), ("hole", false), ("full", true)] {
        for resume in [false, true] {
            let destination = Destination::look(&dir.path(name), resume).expect("usable");
            assert_eq!(destination.data().map(BlockDevice::size), holds.then_some(1), "{name}");
        }
    }
}

#[test]
fn an_error_has_the_source_that_it_names() {
    let device = DeviceError::new(Operation::Read, 1, 2, Cause::NoSpace);
    let source = |error: BulkError| {
        core::error::Error::source(&error).map(|source| *source.downcast_ref().expect("a device's error"))
    };
    for error in [BulkError::Destination, BulkError::Read, BulkError::Write, BulkError::Flush] {
        assert_eq!(source(error(device)), Some(device));
    }
    assert_eq!(source(BulkError::NoCheckpoint), None);
}
