//! The server is killed while files are written.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atrest_testkit::Random;
use atrest_testkit::campaign::Campaign;

use super::Mounted;

const EXTENT: usize = 4096;
const EXTENTS: usize = 64;

/// What one file holds: the number of the round that wrote an extent last, and was synced, and of those that may have.
struct Written {
    synced: Vec<u8>,
    begun: Vec<u8>,
}

/// Writes extents round after round until the server is gone.
fn write(path: &Path, random: &mut Random, stop: &AtomicBool) -> Written {
    let mut written = Written { synced: vec![0; EXTENTS], begun: vec![0; EXTENTS] };
    let Ok(file) = File::options().read(true).write(true).create_new(true).open(path) else { return written };
    for round in 1..=250_u8 {
        let mut touched = Vec::new();
        for _ in 0..8 {
            let first = random.below(EXTENTS as u64) as usize;
            let count = (1 + random.below(6) as usize).min(EXTENTS - first);
            touched.extend(first..first + count);
            written.begun[first..first + count].fill(round);
            let data = vec![round; count * EXTENT];
            if stop.load(Ordering::Relaxed) || file.write_all_at(&data, (first * EXTENT) as u64).is_err() {
                return written;
            }
        }
        if file.sync_data().is_err() {
            return written;
        }
        touched.into_iter().for_each(|extent| written.synced[extent] = round);
        // Files come and go meanwhile, so that a kill may find one half made.
        let short = path.with_extension(format!("{}", round % 4));
        let _ = fs::write(&short, [round; 100]).and_then(|()| fs::rename(&short, path.with_extension("x")));
    }
    written
}

/// Appends records until the server is gone, cuts the file to nothing now and then, and returns how many of them were synced at
/// least. A record is how often the file was cut before, and its own number.
fn append(path: &Path, random: &mut Random, stop: &AtomicBool) -> u32 {
    let Ok(file) = File::options().append(true).create_new(true).open(path) else { return 0 };
    let (mut cuts, mut next, mut synced) = (0_u64, 0_u32, 0);
    while !stop.load(Ordering::Relaxed) {
        if random.below(200) == 0 {
            // What is cut off was synced, and may be gone from now on.
            (cuts, next, synced) = (cuts + 1, 0, 0);
            if file.set_len(0).is_err() {
                break;
            }
        }
        let count = 1 + random.below(3000) as u32;
        let records: Vec<u8> =
            (next..next + count).flat_map(|n| (cuts << 32 | u64::from(n)).to_be_bytes()).collect();
        if (&file).write_all(&records).is_err() {
            break;
        }
        next += count;
        if random.below(4) == 0 {
            if file.sync_data().is_err() {
                break;
            }
            synced = next;
        }
    }
    synced
}

/// Holds a file of records against what was synced of it.
fn check_records(path: &Path, synced: u32) -> usize {
    let data = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound && synced == 0 => return 0,
        data => data.unwrap_or_else(|error| panic!("{}: {error}", path.display())),
    };
    let (records, rest) = data.as_chunks::<8>();
    let first = records.first().map_or(0, |first| u64::from_be_bytes(*first));
    assert_eq!(first as u32, 0, "{} does not begin with the first record", path.display());
    for (expected, record) in (first..).zip(records) {
        assert_eq!(u64::from_be_bytes(*record), expected, "{}", path.display());
    }
    assert!(records.len() >= synced as usize, "{} of {synced} synced records are there", records.len());
    // The size is that of a whole write or, as everywhere, of a part of one that the kernel split.
    assert!(rest.is_empty() || data.len() % EXTENT == 0, "{} ends within a record", path.display());
    records.len()
}

#[test]
fn what_was_synced_is_there_after_a_kill_and_every_file_opens() {
    let (mut kills, mut files, mut extents, mut synced_extents, mut records) = (0, 0, 0, 0, 0);
    Campaign::new("kills of an eCryptfs mount", 3, 100).run(|seed, random| {
        let mut mounted =
            Mounted::new(["--type ecryptfs", "--type ecryptfs --ecryptfs-xattr"][seed as usize % 2]);
        let paths: Vec<_> = (0..3).map(|n| mounted.path().join(format!("f{n}"))).collect();
        let pause = Duration::from_millis(20 + random.below(400));
        let stop = AtomicBool::new(false);
        let appended = mounted.path().join("appended");
        let (written, synced): (Vec<Written>, u32) = std::thread::scope(|scope| {
            let writers: Vec<_> = (0_u64..)
                .zip(&paths)
                .map(|(n, path)| {
                    let stop = &stop;
                    scope.spawn(move || write(path, &mut Random::new(seed * 10 + n), stop))
                })
                .collect();
            let appender = {
                let (path, stop) = (&appended, &stop);
                scope.spawn(move || append(path, &mut Random::new(seed * 10 + 9), stop))
            };
            std::thread::sleep(pause);
            mounted.crash();
            stop.store(true, Ordering::Relaxed);
            let written = writers.into_iter().map(|writer| writer.join().expect("a writer")).collect();
            (written, appender.join().expect("an appender"))
        });
        kills += 1;
        mounted.start();
        records += check_records(&appended, synced);
        for (path, written) in paths.iter().zip(written) {
            let begun = written.begun.iter().any(|round| *round > 0);
            let data = match fs::read(path) {
                Ok(data) => data,
                Err(error) => {
                    assert!(!begun, "{}: {error}", path.display());
                    continue;
                }
            };
            for (number, (synced, begun)) in written.synced.iter().zip(&written.begun).enumerate() {
                let extent = data.get(number * EXTENT..(number + 1) * EXTENT);
                let Some(extent) = extent else {
                    assert_eq!(*synced, 0, "{}: synced extent {number} is gone", path.display());
                    continue;
                };
                extents += 1;
                synced_extents += usize::from(*synced > 0);
                assert!(
                    extent.iter().all(|byte| *byte == extent[0]),
                    "extent {number} is neither old nor new"
                );
                assert!((*synced..=*begun).contains(&extent[0]), "extent {number} is of round {}", extent[0]);
            }
        }
        for entry in fs::read_dir(mounted.path()).expect("list") {
            let path = entry.expect("an entry").path();
            fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            files += 1;
        }
        mounted.stop();
    });
    println!(
        "{kills} kills, after which {files} files opened; {extents} extents, of which {synced_extents} had been synced, and \
         {records} appended records were as they must be"
    );
}
