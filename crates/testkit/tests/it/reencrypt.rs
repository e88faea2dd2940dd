//! Re-encryption in place by the real programs: `kill -9` at seeded random moments, resumed by us or by cryptsetup, whoever
//! began it. Power losses, which also tear and reorder writes, are simulated in the room `engine`.
//!
//! cryptsetup re-encrypts image files on the host; `--force-offline-reencrypt` tells it that nobody uses them.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use atrest_testkit::atrest::{FAST_PBKDF2, atrest, write_key};
use atrest_testkit::cryptsetup::cryptsetup;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Campaign, Random, Scratch};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// Plaintext becomes a volume, with the header in front of it.
    Move,
    /// Plaintext becomes a volume with a header elsewhere.
    Detached,
    /// A volume gets another key.
    Rekey,
    /// A volume with a header elsewhere becomes plaintext.
    Decrypt,
    /// A volume becomes plaintext, which moves to where its header was.
    DecryptOver,
}

impl Job {
    fn has_own_header(self) -> bool {
        matches!(self, Self::Detached | Self::Decrypt | Self::DecryptOver)
    }

    fn decrypts(self) -> bool {
        matches!(self, Self::Decrypt | Self::DecryptOver)
    }
}

/// Who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Us,
    Cryptsetup,
}

/// An ext4 with files of random bytes, where it is to be encrypted, and the sums of its files.
struct Stage {
    directory: Scratch,
    image: PathBuf,
    header: PathBuf,
    key: PathBuf,
    job: Job,
    resilience: &'static str,
    /// Bytes of the plaintext.
    len: u64,
}

impl Stage {
    fn new(job: Job, resilience: &'static str, mib: u64, random: &mut Random) -> Self {
        let directory = Scratch::new();
        let path = |name: &str| directory.path(name);
        let (image, header, tree) = (path("image"), path("header"), path("tree"));
        let key = write_key(directory.as_path(), "key", b"correct horse");
        fs::create_dir(&tree).expect("a directory");
        let mut sums = String::new();
        for number in 0..mib / 2 {
            let len = 1_000_000 + random.below(700_000) as usize;
            let bytes = random.bytes(len);
            fs::write(tree.join(format!("f{number}")), &bytes).expect("a file");
            sums.push_str(&format!("f{number}\n"));
        }
        let outcome = Program::named("sha256sum").args(sums.lines()).current_dir(&tree).ok();
        fs::write(path("sums"), outcome.stdout).expect("the sums");
        let plain = path("plain");
        let size = format!("{mib}m");
        Program::named("mkfs.ext4").args(["-q", "-b", "4096", "-d"]).arg(&tree).arg(&plain).arg(size).ok();
        fs::remove_dir_all(&tree).expect("remove the tree");
        let stage = Self { image, header, key, job, resilience, len: mib << 20, directory };
        match job {
            Job::Move => {
                fs::rename(&plain, &stage.image).expect("rename");
                let file = fs::OpenOptions::new().write(true).open(&stage.image).expect("open");
                file.set_len((mib + 32) << 20).expect("room at the end");
            }
            Job::Detached => fs::rename(&plain, &stage.image).expect("rename"),
            Job::Decrypt => {
                fs::rename(&plain, &stage.image).expect("rename");
                let program = stage.ours("encrypt --in-place --yes").words(FAST_PBKDF2);
                program.arg("--header").arg(&stage.header).arg(&stage.image).ok();
                fs::copy(&stage.header, stage.directory.path("header.was")).expect("the header");
            }
            Job::Rekey | Job::DecryptOver => {
                let size = format!("--yes --size {}M {FAST_PBKDF2}", mib + 16);
                atrest("format --key-file").arg(&stage.key).words(&size).arg(&stage.image).ok();
                atrest("encrypt --key-file").arg(&stage.key).arg(&plain).arg(&stage.image).ok();
                fs::remove_file(&plain).expect("remove");
            }
        }
        stage
    }

    /// Everything as it was before the job.
    fn restore(&self, image: &Path) {
        fs::copy(image, &self.image).expect("the image as it was");
        match self.job {
            Job::Decrypt => drop(fs::copy(self.directory.path("header.was"), &self.header)),
            _ => drop(fs::remove_file(&self.header)),
        }
    }

    /// The whole job, by one of the two.
    fn begin(&self, who: Who) -> Program {
        let hot = "--hotzone-size 4M";
        let shielded = format!("{hot} --resilience {}", self.resilience);
        match (who, self.job) {
            (Who::Us, Job::Move) => self.ours("encrypt --in-place --yes").words(FAST_PBKDF2).arg(&self.image),
            (Who::Us, Job::Detached) => {
                let program = self.ours("encrypt --in-place --yes").words(FAST_PBKDF2).words(&shielded);
                program.arg("--header").arg(&self.header).arg(&self.image)
            }
            (Who::Us, Job::Rekey) => {
                self.ours("reencrypt").words(FAST_PBKDF2).words(&shielded).arg(&self.image)
            }
            (Who::Us, Job::Decrypt | Job::DecryptOver) => {
                let program = self.ours("reencrypt --decrypt --yes").words(FAST_PBKDF2).words(&shielded);
                program.arg("--header").arg(&self.header).arg(&self.image)
            }
            (Who::Cryptsetup, Job::Decrypt | Job::DecryptOver) => {
                let program = self.theirs("--decrypt").words(&shielded);
                program.arg("--header").arg(&self.header).arg(&self.image)
            }
            (Who::Cryptsetup, Job::Move) => {
                let program = self.theirs("--encrypt --reduce-device-size 32M");
                program.words(FAST_PBKDF2).arg(&self.image)
            }
            (Who::Cryptsetup, Job::Detached) => {
                let program = self.theirs("--encrypt").words(FAST_PBKDF2).words(&shielded);
                program.arg("--header").arg(&self.header).arg(&self.image)
            }
            (Who::Cryptsetup, Job::Rekey) => {
                self.theirs("").words(FAST_PBKDF2).words(&shielded).arg(&self.image)
            }
        }
    }

    fn resume(&self, who: Who) -> Program {
        let program = match who {
            Who::Us if self.job == Job::Rekey || self.job.decrypts() => self.ours("reencrypt --resume"),
            Who::Us => self.ours("encrypt --in-place --resume --yes"),
            Who::Cryptsetup => self.theirs("--resume-only"),
        };
        match self.job.has_own_header() {
            true => program.arg("--header").arg(&self.header).arg(&self.image),
            false => program.arg(&self.image),
        }
    }

    fn ours(&self, words: &str) -> Program {
        atrest(words).arg("--key-file").arg(&self.key)
    }

    fn theirs(&self, words: &str) -> Program {
        // It leaves a file where it runs when it is killed before there is a header.
        let program =
            cryptsetup("reencrypt --force-offline-reencrypt --key-file").arg(&self.key).words(words);
        program.current_dir(self.directory.as_path())
    }

    /// Whether a re-encryption is in progress; `None` if there is no header.
    fn in_progress(&self) -> Option<bool> {
        let header = self.header_path();
        let outcome = atrest("info --json").arg(header).run();
        outcome.is_ok().then(|| outcome.text().contains("online-reencrypt"))
    }

    /// Resumes to the end. While the moved head is being wiped, when all data is done, cryptsetup 2.6.1 can't go on, not even if it
    /// was cryptsetup that was killed there; we can.
    ///
    /// At its end cryptsetup destroys the old keyslots before it removes the mark. Killed in between, it can't resume; we can.
    fn finish(&self, who: Who) {
        let (only_the_end, old_key_is_gone) = (self.only_the_end_is_left(), self.old_key_is_gone());
        if who == Who::Cryptsetup && self.is_hot() {
            // cryptsetup recovers a half-written zone by another command, which we have, too.
            let repair = match self.resilience {
                "journal" => atrest("repair --yes --key-file"),
                _ => cryptsetup("repair --key-file"),
            };
            let repair = repair.arg(&self.key);
            match self.job.has_own_header() {
                true => repair.arg("--header").arg(&self.header).arg(&self.image).ok(),
                false => repair.arg(&self.image).ok(),
            };
            assert!(!self.is_hot(), "the zone is done");
        }
        if self.in_progress() == Some(false) {
            // It was the last zone.
            return;
        }
        let short_head = self.only_a_short_head_is_left();
        let outcome = self.resume(who).run();
        if who == Who::Cryptsetup && only_the_end && self.job == Job::Move && !outcome.is_ok() {
            assert!(outcome.messages().contains("Failed to set device segments"), "{}", outcome.messages());
            println!("re-encryption: killed while the moved head was being wiped; finished by us");
            self.resume(Who::Us).ok();
        } else if who == Who::Cryptsetup && old_key_is_gone && !outcome.is_ok() {
            println!(
                "re-encryption: killed between destroying the old key and removing the mark; finished by us"
            );
            self.resume(Who::Us).ok();
        } else if who == Who::Cryptsetup && short_head {
            // It takes the head for as long as the data moves, for which the journal has no room.
            assert_eq!(self.resilience, "journal");
            let refusal = outcome.messages();
            assert!(refusal.contains("Failed to write reencryption resilience metadata"), "{refusal}");
            println!("re-encryption: killed before a head that cryptsetup has no room for; finished by us");
            self.resume(Who::Us).ok();
        } else {
            outcome.expect_code(0);
        }
    }

    /// Whether the program resumes from here without another command: cryptsetup does not from everywhere.
    fn goes_on_by_itself(&self, who: Who) -> bool {
        let stops = || {
            self.is_hot() || self.only_the_end_is_left() || self.old_key_is_gone() || self.ends_over_header()
        };
        who == Who::Us || !stops()
    }

    /// Whether a decryption over the header has come to its head. From there cryptsetup 2.6.1 does not go on with what it began: it
    /// takes the head for longer than it is, and what is done but still marked for ciphertext, which it decrypts once more.
    fn ends_over_header(&self) -> bool {
        self.job == Job::DecryptOver && self.active_kinds().last().is_none_or(|last| last == "linear")
    }

    /// Whether nothing but a moved head is left that is shorter than the data moves.
    fn only_a_short_head_is_left(&self) -> bool {
        let shorter = || self.info()["segments"][0]["size"].as_u64().is_some_and(|size| size < 16 << 20);
        self.ends_over_header() && self.active_kinds() == ["crypt", "linear"] && shorter()
    }

    fn info(&self) -> serde_json::Value {
        atrest("info --json").arg(self.header_path()).ok().json()
    }

    /// The kinds of the segments that are no backups.
    fn active_kinds(&self) -> Vec<String> {
        let info = self.info();
        let segments = info["segments"].as_array().expect("segments");
        let is_backup = |flag: &serde_json::Value| flag.as_str().is_some_and(|flag| flag.contains("backup"));
        let active = segments
            .iter()
            .filter(|segment| !segment["flags"].as_array().is_some_and(|flags| flags.iter().any(is_backup)));
        active.map(|segment| segment["kind"].as_str().expect("a kind").to_owned()).collect()
    }

    fn header_path(&self) -> &Path {
        if self.job.has_own_header() { &self.header } else { &self.image }
    }

    /// Whether the header says that all is plaintext.
    fn is_decrypted(&self) -> bool {
        let info = atrest("info --json").arg(self.header_path()).ok().json();
        info["segments"][0]["kind"] == "linear" && self.in_progress() == Some(false)
    }

    /// Whether no keyslot is left of a key that segments belong to.
    fn old_key_is_gone(&self) -> bool {
        let header = self.header_path();
        let info = atrest("info --json").arg(header).ok().json();
        let empty = |value: &serde_json::Value| value.as_array().is_none_or(Vec::is_empty);
        let digests = info["digests"].as_array().expect("digests");
        digests.iter().any(|digest| empty(&digest["keyslots"]) && !empty(&digest["segments"]))
    }

    /// Whether a zone may be half-written.
    fn is_hot(&self) -> bool {
        let header = self.header_path();
        !atrest("info --json").arg(header).ok().json()["reencryption"]["hot"].is_null()
    }

    /// Whether all data is done and only the header does not say so.
    fn only_the_end_is_left(&self) -> bool {
        let header = self.header_path();
        let info = atrest("info --json").arg(header).ok().json();
        let segments = info["segments"].as_array().expect("segments");
        let flags = |segment: &serde_json::Value| segment["flags"].as_array().map_or(0, Vec::len);
        let active: Vec<_> = segments.iter().filter(|segment| flags(segment) == 0).collect();
        let hot = info["reencryption"]["hot"].is_null();
        hot && active.len() == 1 && active[0]["kind"] == "crypt" && active[0]["size"].is_null()
    }

    /// The file system is clean, every file is what it was, and both programs open an ordinary volume.
    fn check(&self) {
        assert_eq!(self.in_progress(), Some(false));
        let plain = self.directory.path("plain");
        let _ = fs::remove_file(&plain);
        let decrypted = self.is_decrypted();
        let program = self.ours("decrypt");
        match self.job.has_own_header() {
            _ if decrypted => drop(fs::copy(&self.image, &plain).expect("copy")),
            true => {
                drop(program.arg("--header").arg(&self.header).arg(&self.image).arg(&plain).ok());
            }
            false => drop(program.arg(&self.image).arg(&plain).ok()),
        }
        self.check_files(&plain);
        if !decrypted {
            cryptsetup("open --test-passphrase --key-file").arg(&self.key).arg(self.header_path()).ok();
        }
    }

    /// The file system and all its files are whole in this image.
    fn check_files(&self, plain: &Path) {
        let file = fs::OpenOptions::new().write(true).open(plain).expect("open");
        file.set_len(self.len).expect("the file system's own size");
        Program::named("e2fsck").args(["-f", "-n"]).arg(plain).ok();
        let out = self.directory.path("out");
        fs::create_dir(&out).expect("a directory");
        let dump = format!("rdump / {}", out.display());
        Program::named("debugfs").args(["-R", &dump]).arg(plain).ok();
        Program::named("sha256sum").args(["--quiet", "-c", "../sums"]).current_dir(&out).ok();
        fs::remove_dir_all(&out).expect("remove");
    }
}

/// Runs a program and kills it after a random part of the time that it typically takes. Whether it was in flight.
fn kill(program: Program, random: &mut Random, typical: Duration) -> bool {
    let line = program.line();
    let mut child = program.start();
    let end = Instant::now() + Duration::from_micros(random.below(1 + typical.as_micros() as u64));
    while Instant::now() < end && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_micros(200));
    }
    let _ = child.kill();
    let status = child.wait().expect("wait for the program");
    match (status.signal(), status.code()) {
        (Some(libc::SIGKILL), _) => true,
        (_, Some(0)) => false,
        _ => panic!("`{line}` ended with {status}"),
    }
}

const JOBS: [(Job, &str); 9] = [
    (Job::Move, "checksum"),
    (Job::Rekey, "checksum"),
    (Job::Detached, "journal"),
    (Job::Rekey, "journal"),
    (Job::Detached, "checksum"),
    (Job::Decrypt, "checksum"),
    (Job::DecryptOver, "checksum"),
    (Job::Decrypt, "journal"),
    (Job::DecryptOver, "journal"),
];

/// Kills `first` in flight, once more perhaps while it resumes, and lets `then` finish it. Returns how many kills landed.
fn killed_and_resumed(stage: &Stage, first: Who, then: Who, random: &mut Random, copy: &Path) -> usize {
    fs::copy(&stage.image, copy).expect("keep the image");
    let begun = Instant::now();
    stage.begin(first).ok();
    let mut typical = begun.elapsed();
    stage.check();
    for _ in 0..60 {
        stage.restore(copy);
        if !kill(stage.begin(first), random, typical) {
            // Too late: earlier the next time.
            typical = typical * 3 / 4;
            continue;
        }
        let mut landed = 1;
        let head = || fs::read(&stage.image).expect("read")[..1 << 20].to_vec();
        match stage.in_progress() {
            // Killed before there was a header: nothing has happened, or we complete it.
            None if stage.job == Job::Move
                && first == Who::Us
                && head() != fs::read(copy).expect("read")[..1 << 20] =>
            {
                stage.resume(Who::Us).ok();
            }
            None if stage.job != Job::Rekey => {
                stage.begin(first).ok();
            }
            // cryptsetup makes the header in steps, of which the mark is the last; the data is still as it was.
            Some(false)
                if stage.job == Job::Detached
                    && first == Who::Cryptsetup
                    && fs::read(&stage.image).expect("read") == fs::read(copy).expect("read") =>
            {
                fs::remove_file(&stage.header).expect("remove the unfinished header");
                stage.begin(first).ok();
            }
            // The header's copy is there, and perhaps a part of the head has been moved. cryptsetup has no way on from here.
            Some(false) if stage.job.decrypts() => {
                if !stage.is_decrypted() {
                    stage.begin(Who::Us).ok();
                }
            }
            Some(false) => {
                // Before the beginning, or after the end: then old keyslots may be left.
                if stage.job != Job::Rekey {
                    stage.check();
                    return landed;
                }
            }
            _ => {
                let again = random.below(3) == 0 && stage.goes_on_by_itself(first);
                if again && kill(stage.resume(first), random, typical / 2) {
                    landed += 1;
                }
                if stage.in_progress() == Some(true) {
                    stage.finish(then);
                }
            }
        }
        stage.check();
        return landed;
    }
    panic!("no kill landed in {:?} {}", stage.job, stage.resilience);
}

#[test]
fn what_is_killed_is_resumed_and_no_byte_is_lost() {
    let mut kills = 0;
    Campaign::new("kills during re-encryption", 2, 200).run(|seed, random| {
        let (job, resilience) = JOBS[(seed as usize - 1) % JOBS.len()];
        let stage = Stage::new(job, resilience, 64, random);
        let copy = stage.directory.path("copy");
        kills += killed_and_resumed(&stage, Who::Us, Who::Us, random, &copy);
    });
    println!("re-encryption: {kills} kills landed");
}

#[test]
fn a_large_one_is_killed_and_resumed() {
    let mut kills = 0;
    // In the sample as large as the others, and as it is once.
    let mib = if Campaign::is_full() { 512 } else { 64 };
    Campaign::new("kills during re-encryption of a large file system", 1, 5).run(|seed, random| {
        let (job, resilience) = JOBS[(seed as usize + 2) % JOBS.len()];
        let stage = Stage::new(job, resilience, mib, random);
        let copy = stage.directory.path("copy");
        kills += killed_and_resumed(&stage, Who::Us, Who::Us, random, &copy);
    });
    println!("re-encryption: {kills} kills landed");
}

#[test]
fn cryptsetup_resumes_what_we_began_and_we_what_it_began() {
    let mut kills = 0;
    let cells: Vec<(Job, &str, Who)> = JOBS
        .iter()
        .flat_map(|(job, kind)| [(*job, *kind, Who::Us), (*job, *kind, Who::Cryptsetup)])
        .collect();
    Campaign::new("kills between us and cryptsetup", 8, 180).run(|seed, random| {
        let (job, resilience, first) = cells[(seed as usize - 1) % cells.len()];
        let then = if first == Who::Us { Who::Cryptsetup } else { Who::Us };
        let stage = Stage::new(job, resilience, 24, random);
        let copy = stage.directory.path("copy");
        kills += killed_and_resumed(&stage, first, then, random, &copy);
    });
    println!("re-encryption: {kills} kills landed between us and cryptsetup");
}

#[test]
fn what_is_only_initialised_is_resumed_by_the_other() {
    for (job, resilience) in JOBS {
        let stage = Stage::new(job, resilience, 24, &mut Random::new(77));
        stage.begin(Who::Cryptsetup).arg("--init-only").ok();
        let info = atrest("info").arg(stage.header_path()).ok().text();
        assert!(info.contains("in progress"), "{info}");
        // A volume whose header lies in front is read as it is meanwhile.
        let shown = stage.directory.path("shown");
        let read = stage.ours("decrypt").arg(&stage.image).arg(&shown).run();
        assert_eq!(read.is_ok(), !job.has_own_header(), "{job:?}: {}", read.messages());
        if read.is_ok() {
            stage.check_files(&shown);
        }
        stage.resume(Who::Us).ok();
        stage.check();
    }
}

#[test]
fn a_file_system_that_reaches_too_far_stays_as_it_is() {
    let stage = Stage::new(Job::Detached, "none", 24, &mut Random::new(5));
    let before = fs::read(&stage.image).expect("read");
    let refused = stage
        .ours("encrypt --in-place --yes --reduce-device-size 4M")
        .words(FAST_PBKDF2)
        .arg(&stage.image)
        .run();
    assert_eq!(refused.code, Some(4), "{}", refused.messages());
    // A file is made longer; resize2fs would cut it.
    assert!(refused.messages().contains("truncate -s 29360128 "), "{}", refused.messages());
    assert!(fs::read(&stage.image).expect("read") == before, "it was written");
}
