mod comparing;
mod resumption;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use atrest_cipher::{DataUnitIndex, Mapper, MapperOptions};
use atrest_device::{Cause, Geometry, Operation};
use atrest_secret::Locked;
use atrest_testkit::fault::Fault;
use atrest_testkit::{FaultDevice, Random, Scratch};
use atrest_volume::{Segment, Volume, VolumeFormat};

use super::*;
use crate::DiskOptions;

const OFFSET: u64 = 32 << 10;
const LEN: usize = 9 << 20;
const UUID: &str = "7d5e3c8e-54a9-4d6e-9f43-2f1c8a5f0b11";

fn mapper(key: u8) -> Mapper {
    let key: Vec<u8> = (0..64).map(|i| key.wrapping_add(i)).collect();
    let options = MapperOptions { data_unit: 4096, ..MapperOptions::default() };
    Mapper::new(&"aes-xts-plain64".parse().expect("a cipher"), &key, &options).expect("a mapper")
}

fn disk_with(media: Arc<FaultDevice>, key: u8, uuid: &str) -> Disk {
    let len = media.size() - OFFSET;
    let segment =
        Segment { start: 0, len, media_offset: OFFSET, protection: Locked::new(mapper(key)).into() };
    let volume = Volume::new(VolumeFormat::Luks2, vec![segment]).with_uuid(uuid);
    Disk::new(media, volume, DiskOptions::default()).expect("it fits")
}

/// An empty volume.
fn fresh() -> (Arc<FaultDevice>, Disk) {
    let media = Arc::new(FaultDevice::zeroed(LEN + OFFSET as usize));
    (media.clone(), disk_with(media, 1, UUID))
}

/// A volume that holds `plaintext`.
fn filled(plaintext: &[u8]) -> (Arc<FaultDevice>, Disk) {
    let mut image = vec![0; OFFSET as usize];
    image.extend_from_slice(plaintext);
    mapper(1).encrypt(DataUnitIndex(0), &mut image[OFFSET as usize..]).expect("whole units");
    let media = Arc::new(FaultDevice::new(image));
    (media.clone(), disk_with(media, 1, UUID))
}

fn quiet() -> impl Progress {
    |_: u64, _: u64| {}
}

/// A path for a checkpoint, in a directory of its own.
fn place() -> (Scratch, std::path::PathBuf) {
    let dir = Scratch::new();
    let path = dir.path("out.atrest-checkpoint");
    (dir, path)
}

/// What a checkpoint says is done.
fn noted(path: &Path) -> u64 {
    let text = std::fs::read_to_string(path).expect("a checkpoint");
    let done = text.lines().find_map(|line| line.strip_prefix("done ")).expect("a line");
    done.parse().expect("a number")
}

/// A device that counts how much is asked of it and sets a flag after that.
struct Trip<'a> {
    inner: &'a FaultDevice,
    after: u64,
    count: std::sync::atomic::AtomicU64,
    flag: &'a AtomicBool,
}

impl<'a> Trip<'a> {
    fn new(inner: &'a FaultDevice, after: u64, flag: &'a AtomicBool) -> Self {
        Self { inner, after, count: 0.into(), flag }
    }

    fn step(&self) {
        if self.count.fetch_add(1, Ordering::AcqRel) >= self.after {
            self.flag.store(true, Ordering::Release);
        }
    }
}

impl BlockDevice for Trip<'_> {
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
        self.step();
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.step();
        self.inner.write_at(offset, data)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush()
    }
}

#[test]
fn sources_of_any_length_are_encrypted_as_the_mapper_does_it_and_come_back() {
    for (index, len) in
        [0, 1, 511, 4096, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 77, LEN].into_iter().enumerate()
    {
        let plaintext = Random::new(len as u64).bytes(len);
        let (media, disk) = fresh();
        let before = {
            let mut buf = vec![0; LEN];
            disk.read_at(0, &mut buf).expect("read");
            buf
        };
        let options = BulkOptions { threads: index % 3 + 1, ..BulkOptions::default() };
        let source = FaultDevice::new(plaintext.clone());
        let summary = encrypt(&source, &disk, options, &mut quiet()).expect("encrypted");
        assert_eq!((summary.bytes, summary.resumed_from), (len as u64, 0));
        let mut expected = before;
        expected[..len].copy_from_slice(&plaintext);
        let (reference, _) = filled(&expected);
        assert!(media.image() == reference.image(), "length {len}: the rest of the volume stays as it is");
        assert!(media.counts().1 > 0, "made durable");

        let destination = FaultDevice::zeroed(LEN + 5);
        let summary = decrypt(&disk, &destination, options, &mut quiet()).expect("decrypted");
        assert_eq!(summary.bytes, LEN as u64);
        assert!(destination.image()[..LEN] == expected, "length {len}");
        assert!(destination.counts().1 > 0, "made durable");
    }
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let (media, disk) = fresh();
    let source = FaultDevice::zeroed(LEN + 1);
    assert_eq!(
        encrypt(&source, &disk, BulkOptions::default(), &mut quiet()),
        Err(BulkError::SourceTooLarge { source: LEN as u64 + 1, volume: LEN as u64 })
    );
    let destination = FaultDevice::zeroed(LEN - 1);
    assert_eq!(
        decrypt(&disk, &destination, BulkOptions::default(), &mut quiet()),
        Err(BulkError::DestinationTooSmall { needs: LEN as u64, has: LEN as u64 - 1 })
    );
    destination.fail(Fault::ReadOnly);
    let exact = FaultDevice::zeroed(LEN);
    exact.fail(Fault::ReadOnly);
    assert_eq!(decrypt(&disk, &exact, BulkOptions::default(), &mut quiet()), Err(BulkError::ReadOnly));
    assert_eq!((media.counts(), destination.counts(), exact.counts()), ((0, 0), (0, 0), (0, 0)));
}

#[test]
fn a_run_cancelled_anywhere_is_resumed_to_the_same_result() {
    let plaintext = Random::new(5).bytes(LEN - 12_345);
    let mut random = Random::new(17);
    let mut resumed = 0;
    for round in 0..10 {
        let (_dir, path) = place();
        let stop = AtomicBool::new(false);
        let options = BulkOptions {
            threads: round % 4 + 1,
            checkpoint: Some(&path),
            checkpoint_every: 1,
            cancel: Some(&stop),
            ..BulkOptions::default()
        };
        let source = FaultDevice::new(plaintext.clone());
        let (media, disk) = fresh();
        let mut resume = false;
        let mut runs = 0;
        loop {
            stop.store(false, Ordering::Release);
            // Two reads are for the fingerprint, one for checking the output.
            let trip = Trip::new(&source, 3 + random.below(9), &stop);
            runs += 1;
            match encrypt(&trip, &disk, BulkOptions { resume, ..options }, &mut quiet()) {
                Ok(summary) => {
                    resumed += u64::from(summary.resumed_from > 0);
                    break;
                }
                Err(BulkError::Cancelled { done, total }) => {
                    assert!(done < total && total == plaintext.len() as u64);
                    assert!(path.exists());
                    resume = true;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(!path.exists(), "nothing is left to resume");
        let mut image = plaintext.clone();
        image.resize(LEN, 0);
        let mut written = vec![0; plaintext.len()];
        disk.read_at(0, &mut written).expect("read");
        assert!(written == plaintext, "encrypted in {runs} runs");
        drop(media);

        let (_media, disk) = filled(&image);
        let destination = FaultDevice::zeroed(LEN);
        let mut resume = false;
        loop {
            stop.store(false, Ordering::Release);
            let trip = Trip::new(&destination, 2 + random.below(9), &stop);
            match decrypt(&disk, &trip, BulkOptions { resume, ..options }, &mut quiet()) {
                Ok(_) => break,
                Err(BulkError::Cancelled { .. }) => resume = true,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(destination.image() == image, "decrypted");
    }
    assert!(resumed > 4, "only {resumed} runs were resumed in the middle");
}

#[test]
fn a_read_error_names_its_offset_and_the_run_goes_on_from_there_once_it_is_gone() {
    let plaintext = Random::new(6).bytes(LEN);
    let (media, disk) = filled(&plaintext);
    let (_dir, path) = place();
    let bad = 5_000_000;
    media.fail(Fault::UnreadableRange { offset: OFFSET + bad, len: 512 });
    let options = BulkOptions { checkpoint: Some(&path), ..BulkOptions::default() };
    let destination = FaultDevice::zeroed(LEN);
    let Err(BulkError::Read(error)) = decrypt(&disk, &destination, options, &mut quiet()) else {
        panic!("it must fail");
    };
    assert_eq!((error.operation, error.offset, error.cause), (Operation::Read, bad, Cause::Os(libc::EIO)));
    media.heal();
    let writes = destination.counts().0;
    let options = BulkOptions { resume: true, ..options };
    let summary = decrypt(&disk, &destination, options, &mut quiet()).expect("resumed");
    assert_eq!(summary.resumed_from, bad / CHUNK as u64 * CHUNK as u64);
    assert!(destination.counts().0 - writes <= (LEN as u64 - summary.resumed_from).div_ceil(CHUNK as u64));
    assert!(destination.image() == plaintext);
}

#[test]
fn a_full_destination_is_reported_with_the_offset() {
    let (_media, disk) = filled(&Random::new(7).bytes(LEN));
    let destination = FaultDevice::zeroed(LEN);
    destination.fail(Fault::NoSpaceFrom { offset: 3_000_000 });
    let options = BulkOptions { threads: 1, ..BulkOptions::default() };
    let Err(BulkError::Write(error)) = decrypt(&disk, &destination, options, &mut quiet()) else {
        panic!("it must fail");
    };
    assert_eq!(error.cause, Cause::NoSpace);
    assert_eq!(error.offset, 3_000_000 / CHUNK as u64 * CHUNK as u64);
}

#[test]
fn a_source_that_shrinks_is_reported() {
    let (_media, disk) = fresh();
    let source = FaultDevice::new(Random::new(8).bytes(LEN));
    source.fail(Fault::ShrunkTo { size: 1 << 20 });
    let Err(BulkError::Read(error)) = encrypt(&source, &disk, BulkOptions::default(), &mut quiet()) else {
        panic!("it must fail");
    };
    assert_eq!(error.cause, Cause::UnexpectedEnd);
}

#[test]
fn no_checkpoint_vouches_for_data_that_could_not_be_made_durable() {
    let (_media, disk) = filled(&Random::new(9).bytes(LEN));
    let destination = FaultDevice::zeroed(LEN);
    destination.fail(Fault::FailingFlush { number: 0 });
    let (_dir, path) = place();
    let options = BulkOptions { checkpoint: Some(&path), checkpoint_every: 1, ..BulkOptions::default() };
    let result = decrypt(&disk, &destination, options, &mut quiet());
    assert!(matches!(result, Err(BulkError::Flush(_) | BulkError::Write(_))), "{result:?}");
    assert_eq!(noted(&path), 0);
}

#[test]
fn a_checkpoint_fits_only_the_run_that_made_it() {
    let plaintext = Random::new(10).bytes(LEN);
    let (media, disk) = filled(&plaintext);
    let (_dir, path) = place();
    let destination = FaultDevice::zeroed(LEN);
    let stop = AtomicBool::new(false);
    let modified = Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123));
    let options = BulkOptions {
        threads: 1,
        checkpoint: Some(&path),
        cancel: Some(&stop),
        source_modified: modified,
        ..BulkOptions::default()
    };
    let trip = Trip::new(&destination, 8, &stop);
    assert!(matches!(decrypt(&disk, &trip, options, &mut quiet()), Err(BulkError::Cancelled { .. })));
    stop.store(false, Ordering::Release);
    let before = (destination.image(), std::fs::read(&path).expect("a checkpoint"));
    let resume = BulkOptions { resume: true, ..options };
    let refused = |disk: &Disk, options, expected| {
        let result = decrypt(disk, &destination, options, &mut quiet());
        assert_eq!(result, Err(expected));
    };
    let mismatch = BulkError::CheckpointMismatch;

    refused(&disk_with(media.clone(), 1, "another"), resume, mismatch(Mismatch::Volume));
    refused(&disk, BulkOptions { source_modified: None, ..resume }, mismatch(Mismatch::Source));
    let end = OFFSET + LEN as u64 - 100;
    let byte = media.image()[end as usize];
    media.write_at(end, &[!byte]).expect("written");
    refused(&disk, resume, mismatch(Mismatch::Source));
    media.write_at(end, &[byte]).expect("written");
    let source = FaultDevice::new(plaintext.clone());
    let (_other, other) = fresh();
    assert_eq!(encrypt(&source, &other, resume, &mut quiet()), Err(mismatch(Mismatch::Direction)));
    let replaced = FaultDevice::zeroed(LEN);
    let result = decrypt(&disk, &replaced, resume, &mut quiet());
    assert!(matches!(result, Err(BulkError::CheckpointMismatch(Mismatch::Output { .. }))), "{result:?}");

    let text = String::from_utf8(before.1.clone()).expect("text");
    let (_, done) = text.split_once("\ndone ").expect("a line");
    let done = done.lines().next().expect("a number");
    for damaged in
        [text.replace(&format!("done {done}"), "done 9000000"), text[..60].to_owned(), String::new()]
    {
        std::fs::write(&path, damaged).expect("written");
        refused(&disk, resume, BulkError::CheckpointDamaged);
    }
    // Numbers that no run writes, with the right sum.
    let (body, _) = text.rsplit_once("sum ").expect("a line");
    for number in [done.trim_start_matches('0').to_owned(), format!("+{}", &done[1..]), format!("0{done}")] {
        let body = body.replace(&format!("done {done}"), &format!("done {number}"));
        let mut sum = [0; 32];
        atrest_kdf::digest(atrest_kdf::Hash::Sha256, &[body.as_bytes()], &mut sum);
        let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
        std::fs::write(&path, format!("{body}sum {sum}\n")).expect("written");
        refused(&disk, resume, BulkError::CheckpointDamaged);
    }
    std::fs::write(&path, [0xff; 10_000]).expect("written");
    refused(&disk, resume, BulkError::CheckpointDamaged);
    std::fs::remove_file(&path).expect("removed");
    refused(&disk, resume, BulkError::NoCheckpoint);
    refused(&disk, BulkOptions { checkpoint: None, ..resume }, BulkError::NoCheckpoint);

    assert!(destination.image() == before.0, "a refused resumption writes nothing");
    std::fs::write(&path, before.1).expect("written");
    let summary = decrypt(&disk, &destination, resume, &mut quiet()).expect("resumed");
    assert_eq!(summary.resumed_from, done.parse::<u64>().expect("a number"));
    assert!(destination.image() == plaintext);
}

#[test]
fn an_encryption_checkpoint_depends_on_the_key_and_tells_nothing_of_the_plaintext() {
    let (_dir, path) = place();
    let source = FaultDevice::zeroed(LEN);
    let stop = AtomicBool::new(false);
    let options =
        BulkOptions { threads: 1, checkpoint: Some(&path), cancel: Some(&stop), ..BulkOptions::default() };
    let media = Arc::new(FaultDevice::zeroed(LEN + OFFSET as usize));
    let mut fingerprints = Vec::new();
    for key in [1, 100] {
        stop.store(false, Ordering::Release);
        let disk = disk_with(media.clone(), key, UUID);
        let trip = Trip::new(&source, 5, &stop);
        assert!(matches!(encrypt(&trip, &disk, options, &mut quiet()), Err(BulkError::Cancelled { .. })));
        let text = std::fs::read_to_string(&path).expect("a checkpoint");
        fingerprints
            .push(text.lines().find(|line| line.starts_with("fingerprint")).expect("a line").to_owned());
    }
    assert_ne!(fingerprints[0], fingerprints[1]);
}

#[test]
fn a_new_run_replaces_an_old_checkpoint_before_it_writes() {
    let (_media, disk) = filled(&Random::new(11).bytes(LEN));
    let (_dir, path) = place();
    std::fs::write(&path, "old").expect("written");
    let destination = FaultDevice::zeroed(LEN);
    destination.fail(Fault::UnwritableRange { offset: 0, len: LEN as u64 });
    destination.fail(Fault::FailingFlush { number: 0 });
    let options = BulkOptions { checkpoint: Some(&path), ..BulkOptions::default() };
    decrypt(&disk, &destination, options, &mut quiet()).expect_err("unwritable");
    assert_eq!(noted(&path), 0);
}

#[test]
fn a_run_that_can_keep_no_checkpoint_does_not_begin() {
    let (_media, disk) = filled(&Random::new(14).bytes(LEN));
    let destination = FaultDevice::zeroed(LEN);
    let (dir, _) = place();
    let path = dir.path("gone").join("out.atrest-checkpoint");
    let options = BulkOptions { checkpoint: Some(&path), ..BulkOptions::default() };
    let result = decrypt(&disk, &destination, options, &mut quiet());
    assert_eq!(result, Err(BulkError::CheckpointFile(Cause::Os(libc::ENOENT))));
    assert_eq!(destination.counts(), (0, 0));
}

#[test]
fn a_destination_is_touched_only_when_nothing_refuses_the_run_any_more() {
    let plaintext = Random::new(16).bytes(LEN);
    let (_media, disk) = filled(&plaintext);
    let (dir, checkpoint) = place();
    let nowhere = dir.path("gone").join("out.atrest-checkpoint");
    let (new, old) = (dir.path("new"), dir.path("old"));
    std::fs::write(&old, "contents").expect("written");
    let names = || std::fs::read_dir(dir.as_path()).expect("a directory").count();

    let run = |path: &Path, options: BulkOptions<'_>| {
        let destination = Destination::look(path, options.resume).expect("usable");
        decrypt_to(&disk, destination, options, &mut quiet())
    };
    let unkept = BulkOptions { checkpoint: Some(&nowhere), ..BulkOptions::default() };
    for path in [&new, &old] {
        assert_eq!(run(path, unkept), Err(BulkError::CheckpointFile(Cause::Os(libc::ENOENT))));
    }
    assert!(!new.exists());
    assert_eq!(std::fs::read(&old).expect("still there"), b"contents");

    // The other way round: the checkpoint can be kept, the destination can't be made.
    let kept = BulkOptions { checkpoint: Some(&checkpoint), ..BulkOptions::default() };
    let refused = run(&dir.path("gone").join("out"), kept).expect_err("no directory");
    assert!(matches!(refused, BulkError::Destination(error) if error.cause == Cause::Os(libc::ENOENT)));
    assert_eq!(names(), 1, "no checkpoint of a run that never was");

    // Nobody else may use what is about to be overwritten.
    let held = Destination::look(&old, false).expect("usable");
    assert_eq!(Destination::look(&old, false).expect_err("in use").cause, Cause::Busy);
    drop(held);

    // Without a checkpoint an old one goes too: it would vouch for what is overwritten.
    std::fs::write(&checkpoint, "old").expect("written");
    for path in [&new, &old] {
        run(path, BulkOptions { without_checkpoint: true, ..kept }).expect("decrypted");
        assert!(std::fs::read(path).expect("read") == plaintext);
    }
    assert_eq!(names(), 2);
}

#[test]
fn an_output_that_is_gone_is_not_resumed() {
    // All zeros, so that a new file would look like what had been written.
    let (_media, disk) = filled(&vec![0; LEN]);
    let (dir, checkpoint) = place();
    let options = BulkOptions { threads: 1, checkpoint: Some(&checkpoint), ..BulkOptions::default() };
    let full = FaultDevice::zeroed(LEN);
    full.fail(Fault::NoSpaceFrom { offset: 3_000_000 });
    decrypt(&disk, &full, options, &mut quiet()).expect_err("full");
    assert!(noted(&checkpoint) > 0);
    let path = dir.path("out");
    let destination = Destination::look(&path, true).expect("usable");
    let gone = BulkError::CheckpointMismatch(Mismatch::Output { offset: 0 });
    let resume = BulkOptions { resume: true, ..options };
    assert_eq!(decrypt_to(&disk, destination, resume, &mut quiet()), Err(gone));
    assert!(!path.exists());
}

#[test]
fn a_run_that_runs_out_of_room_is_resumed_once_there_is_some() {
    let plaintext = Random::new(15).bytes(LEN);
    let (_media, disk) = filled(&plaintext);
    let destination = FaultDevice::zeroed(LEN);
    destination.fail(Fault::NoSpaceFrom { offset: 3_000_000 });
    let (dir, path) = place();
    let options = BulkOptions { threads: 1, checkpoint: Some(&path), ..BulkOptions::default() };
    decrypt(&disk, &destination, options, &mut quiet()).expect_err("full");
    assert_eq!(noted(&path), 3_000_000 / CHUNK as u64 * CHUNK as u64);
    assert_eq!(std::fs::read_dir(dir.as_path()).expect("a directory").count(), 1, "nothing else is left");
    destination.heal();
    let options = BulkOptions { resume: true, ..options };
    let summary = decrypt(&disk, &destination, options, &mut quiet()).expect("resumed");
    assert!(summary.resumed_from > 0);
    assert!(destination.image() == plaintext);
}

#[test]
fn sparse_output_leaves_zeros_out_and_reads_the_same() {
    let mut plaintext = vec![0; LEN];
    plaintext[100_000..200_000].copy_from_slice(&Random::new(12).bytes(100_000));
    let (_media, disk) = filled(&plaintext);
    let destination = FaultDevice::zeroed(LEN);
    let options = BulkOptions { sparse: true, ..BulkOptions::default() };
    decrypt(&disk, &destination, options, &mut quiet()).expect("decrypted");
    assert!(destination.image() == plaintext);
    assert!(destination.counts().0 <= 4, "{:?}", destination.counts());
}

#[test]
fn progress_never_goes_back_and_ends_at_the_total() {
    let (_media, disk) = filled(&Random::new(13).bytes(LEN));
    let mut seen = Vec::new();
    let destination = FaultDevice::zeroed(LEN);
    decrypt(&disk, &destination, BulkOptions::default(), &mut |done, total| seen.push((done, total)))
        .expect("decrypted");
    assert!(seen.is_sorted());
    assert_eq!((seen[0].0, seen[seen.len() - 1]), (0, (LEN as u64, LEN as u64)));
}

#[test]
fn checkpoints_lie_beside_the_output_but_never_beside_a_device() {
    let beside = |output: &str, input: &str| checkpoint_path(Path::new(output), Path::new(input));
    assert_eq!(beside("/x/vol.img", "/y/src"), Some("/x/vol.img.atrest-checkpoint".into()));
    assert_eq!(beside("out", "/y/src"), Some("out.atrest-checkpoint".into()));
    assert_eq!(beside("/dev/null", "/y/src"), Some("/y/src.atrest-checkpoint".into()));
    assert_eq!(beside("/dev/null", "/dev/full"), None);
}
