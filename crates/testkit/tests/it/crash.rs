//! `kill -9` at seeded random moments: during key changes and bulk encryption. Servers are killed in `kills` of `atrest-attach`.
//!
//! A kill counts only if it landed while the operation was in flight: the process must have ended by the signal, and
//! not by itself. Afterwards what had been acknowledged must hold, nothing that was removed may come back, and both
//! programs must open the header. Power losses, which also tear and reorder writes, are simulated in the room `volume`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use atrest_testkit::atrest::{FAST_ARGON2ID, FAST_PBKDF2, VolumeFile, atrest, write_key};
use atrest_testkit::cryptsetup::Cryptsetup;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Campaign, Random, Scratch};

/// How an operation that was to be killed ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// By the signal, so it was in flight.
    Killed,
    /// By itself and with success, before the signal was sent: it is acknowledged.
    Completed,
}

/// Starts an operation and kills it: a random time after its start, or a random time after its first visible write.
fn kill(program: Program, watched: &Path, random: &mut Random, typical: Duration) -> End {
    let line = program.line();
    let before = fingerprint(watched);
    let mut child = program.start();
    if random.below(3) > 0 {
        let deadline = Instant::now() + Duration::from_secs(60);
        while fingerprint(watched) == before && running(&mut child) && Instant::now() < deadline {
            std::hint::spin_loop();
        }
        wait(Duration::from_micros(random.below(1 + typical.as_micros() as u64 / 4)));
    } else {
        wait(Duration::from_micros(random.below(1 + typical.as_micros() as u64)));
    }
    let _ = child.kill();
    let status = child.wait().expect("wait for the operation");
    match (status.signal(), status.code()) {
        (Some(libc::SIGKILL), _) => End::Killed,
        (_, Some(0)) => End::Completed,
        _ => panic!("`{line}` ended with {status}"),
    }
}

fn running(child: &mut Child) -> bool {
    matches!(child.try_wait(), Ok(None))
}

/// Sleeping is too coarse for the microseconds between two writes.
fn wait(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Enough of a volume to see that something was written to its header, its keyslots or its data.
fn fingerprint(path: &Path) -> Vec<u8> {
    let Ok(file) = fs::File::open(path) else { return Vec::new() };
    let mut seen = vec![0; 64 * 1024];
    let header = file.read_at(&mut seen[..32 * 1024], 0).unwrap_or(0);
    seen.truncate(header);
    // The first bytes of keyslot areas (4 KiB aligned in LUKS1 and LUKS2) and of the data.
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let mut probe = [0; 16];
    for offset in (32 * 1024..size.min(3 << 20)).step_by(4096).chain((3 << 20..size).step_by(1 << 20)) {
        if file.read_at(&mut probe, offset).is_ok() {
            seen.extend(probe);
        }
    }
    seen
}

/// What is known about the passphrases of a volume.
#[derive(Default)]
struct Model {
    opening: BTreeSet<PathBuf>,
    removed: BTreeSet<PathBuf>,
}

impl Model {
    /// Compares the volume with what was acknowledged. Passphrases of the operation that was cut off may be either way:
    /// they are looked up, and at least one of them must open if one of them did before.
    fn check(&mut self, volume: &VolumeFile, undecided: &[PathBuf], one_of_them: bool) {
        for key in &self.opening {
            assert!(
                volume.opens_with(key),
                "the passphrase in {} was acknowledged and is lost",
                key.display()
            );
        }
        for key in &self.removed {
            assert!(!volume.opens_with(key), "the removed passphrase in {} opens again", key.display());
        }
        let mut open = 0;
        for key in undecided {
            if volume.opens_with(key) {
                open += 1;
                self.opening.insert(key.clone());
            } else {
                self.removed.insert(key.clone());
            }
        }
        assert!(
            !one_of_them || open > 0,
            "neither the old nor the new passphrase opens after a cut-off change"
        );
        let anchor = self.opening.first().expect("a volume always has a passphrase");
        Cryptsetup::new(&volume.path, anchor).assert_opens();
    }
}

#[test]
fn key_changes_that_are_killed_lose_no_key_and_bring_none_back() {
    let mut kills = 0;
    Campaign::new("kills during key changes", 2, 44).run(|seed, random| {
        let directory = Scratch::new();
        let (version, kdf) = if seed % 3 == 0 { ("luks1", FAST_PBKDF2) } else { ("luks2", FAST_ARGON2ID) };
        let volume =
            VolumeFile::format(directory.as_path(), "volume.img", "24M", &format!("--type {version} {kdf}"));
        let mut model = Model::default();
        model.opening.insert(volume.key.clone());
        let started = Instant::now();
        let first = write_key(directory.as_path(), "first", b"first");
        volume.program("key add", kdf).arg("--new-key-file").arg(&first).ok();
        let typical = started.elapsed();
        model.opening.insert(first);
        let (mut landed, mut number) = (0, 0);
        while landed < 3 {
            number += 1;
            assert!(number < 100, "only {landed} kills landed in {number} operations");
            let new =
                write_key(directory.as_path(), &format!("key{number}"), format!("key {number}").as_bytes());
            // Never the anchor, so that every operation can be authorised.
            let old = model.opening.iter().find(|key| **key != volume.key).cloned();
            let end = match (random.below(3), old) {
                (0, Some(old)) if model.opening.len() > 2 => {
                    let program = atrest("key remove --yes --key-file").arg(&old).arg(&volume.path);
                    let end = kill(program, &volume.path, random, typical);
                    model.opening.remove(&old);
                    match end {
                        End::Completed => _ = model.removed.insert(old),
                        End::Killed => model.check(&volume, &[old], false),
                    }
                    end
                }
                (1, Some(old)) => {
                    let program = atrest("key change --key-file")
                        .arg(&old)
                        .words(kdf)
                        .arg("--new-key-file")
                        .arg(&new)
                        .arg(&volume.path);
                    let end = kill(program, &volume.path, random, typical);
                    model.opening.remove(&old);
                    match end {
                        End::Completed => {
                            model.removed.insert(old);
                            model.opening.insert(new);
                        }
                        End::Killed => model.check(&volume, &[old, new], true),
                    }
                    end
                }
                _ => {
                    let program = volume.program("key add", kdf).arg("--new-key-file").arg(&new);
                    let end = kill(program, &volume.path, random, typical);
                    match end {
                        End::Completed => _ = model.opening.insert(new),
                        End::Killed => model.check(&volume, &[new], false),
                    }
                    end
                }
            };
            if end == End::Killed {
                landed += 1;
            }
            // Keyslots of cut-off operations are in use for nothing; make room before they run out.
            if model.opening.len() > 4 {
                let spare =
                    model.opening.iter().rev().find(|key| **key != volume.key).cloned().expect("five keys");
                atrest("key remove --yes --key-file").arg(&spare).arg(&volume.path).ok();
                model.opening.remove(&spare);
                model.removed.insert(spare);
            }
        }
        model.check(&volume, &[], false);
        kills += landed;
    });
    println!("crash: {kills} kills landed during key changes");
}

#[test]
fn bulk_encryption_that_is_killed_is_resumed_to_the_same_bytes() {
    let mut kills = 0;
    Campaign::new("kills during bulk encryption", 3, 40).run(|seed, random| {
        let directory = Scratch::new();
        let version = if seed % 4 == 0 { "luks1" } else { "luks2" };
        let volume = VolumeFile::format(
            directory.as_path(),
            "volume.img",
            "112M",
            &format!("--type {version} {FAST_PBKDF2}"),
        );
        let source = directory.path("source.bin");
        let mut bytes = random.bytes(1 << 20);
        let plain: Vec<u8> = (0..90u8)
            .flat_map(|part| {
                bytes.rotate_left(usize::from(part) + 1);
                bytes.clone()
            })
            .collect();
        fs::write(&source, &plain).expect("write the source");
        let run = |resume: &str| {
            atrest("encrypt --key-file").arg(&volume.key).words(resume).arg(&source).arg(&volume.path)
        };
        let mut landed = 0;
        let mut typical = Duration::from_millis(400);
        for attempt in 0..40 {
            let resume = if landed > 0 { "--resume" } else { "" };
            match kill(run(resume), &volume.path, random, typical) {
                End::Killed => landed += 1,
                // Too late: the next attempt starts again and is killed earlier.
                End::Completed => typical /= 2,
            }
            assert!(volume.opens_with(&volume.key), "the header no longer opens after kill {landed}");
            Cryptsetup::new(&volume.path, &volume.key).assert_opens();
            if landed > 0 {
                break;
            }
            assert!(attempt < 39, "no kill landed during bulk encryption");
        }
        // The checkpoint stands before the first byte of the output is written.
        let checkpoint = directory.path("volume.img.atrest-checkpoint");
        if checkpoint.exists() {
            run("--resume").ok();
        } else {
            let resumed = run("--resume").run();
            assert!(
                resumed.messages().contains("there is no checkpoint to resume from"),
                "{}",
                resumed.messages()
            );
            run("").ok();
        }
        assert!(!checkpoint.exists(), "a finished run leaves no checkpoint");
        let out = directory.path("out.bin");
        volume.decrypt(&out);
        let decrypted = fs::read(&out).expect("the plaintext");
        assert!(decrypted[..plain.len()] == plain, "the resumed encryption has other bytes");
        kills += landed;
    });
    println!("crash: {kills} kills landed during bulk encryption");
}
