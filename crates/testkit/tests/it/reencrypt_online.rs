//! `kill -9` of a server that re-encrypts what it serves, while a client writes. The next open serves the volume and goes on, or
//! cryptsetup goes on offline; and the other way round. Nothing that was flushed is lost.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use atrest_testkit::atrest::{FAST_PBKDF2, Served, VolumeFile, atrest, write_key};
use atrest_testkit::crash::Blocks;
use atrest_testkit::cryptsetup::cryptsetup;
use atrest_testkit::nbd::NbdClient;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Campaign, Random, Scratch};

const BLOCK: usize = 4096;
const BLOCKS: u64 = (24 << 20) / BLOCK as u64;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Rekey,
    /// A new key, asked of the process that serves the volume already.
    Asked,
    Encrypt,
    Decrypt,
}

/// Who goes on after a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Online,
    Offline,
    Cryptsetup,
}

/// A volume that is being re-encrypted, and what a client has written to it.
struct Stage {
    directory: Scratch,
    image: PathBuf,
    header: Option<PathBuf>,
    key: PathBuf,
    blocks: Blocks,
}

impl Stage {
    /// The job has begun, and no data has been touched.
    fn new(job: Job, resilience: &str, by_cryptsetup: bool, random: &mut Random) -> Self {
        let directory = Scratch::new();
        let (plain, image) = (directory.path("plain"), directory.path("image"));
        let key = write_key(directory.as_path(), "key", b"correct horse");
        let contents = random.bytes(BLOCKS as usize * BLOCK);
        fs::write(&plain, &contents).expect("a file");
        let header = matches!(job, Job::Encrypt | Job::Decrypt).then(|| directory.path("header"));
        let blocks = Blocks::new(BLOCK, contents);
        let stage = Self { image, header, key, blocks, directory };
        let begin = |ours: &str, theirs: &str| {
            let program = match by_cryptsetup {
                false => stage.ours(ours).words("--init-only").words(FAST_PBKDF2),
                true => stage.theirs(theirs).words("--init-only"),
            };
            // Decryption makes no keyslot, and cryptsetup then takes no options for one.
            let program =
                if by_cryptsetup && job != Job::Decrypt { program.words(FAST_PBKDF2) } else { program };
            stage.at(program.words(&format!("--resilience {resilience}"))).ok();
        };
        match job {
            Job::Rekey | Job::Asked => {
                let volume = VolumeFile { path: stage.image.clone(), key: stage.key.clone() };
                volume.run("format", &format!("--yes --size 40M {FAST_PBKDF2}")).expect_code(0);
                volume.encrypt(&plain);
                if job == Job::Rekey {
                    begin("reencrypt", "");
                }
            }
            Job::Encrypt => {
                fs::rename(&plain, &stage.image).expect("rename");
                begin("encrypt --in-place --yes", "--encrypt");
            }
            Job::Decrypt => {
                fs::rename(&plain, &stage.image).expect("rename");
                stage.at(stage.ours("encrypt --in-place --yes").words(FAST_PBKDF2)).ok();
                begin("reencrypt --decrypt --yes", "--decrypt");
            }
        }
        stage
    }

    fn ours(&self, words: &str) -> Program {
        atrest(words).arg("--key-file").arg(&self.key)
    }

    fn theirs(&self, words: &str) -> Program {
        let program = cryptsetup("reencrypt --force-offline-reencrypt --key-file").arg(&self.key);
        program.words(words).current_dir(self.directory.as_path())
    }

    fn at(&self, program: Program) -> Program {
        match &self.header {
            Some(header) => program.arg("--header").arg(header).arg(&self.image),
            None => program.arg(&self.image),
        }
    }

    fn info(&self) -> serde_json::Value {
        atrest("info --json").arg(self.header.as_ref().unwrap_or(&self.image)).ok().json()
    }

    fn in_progress(&self) -> bool {
        self.info().to_string().contains("online-reencrypt")
    }

    fn serve(&self, words: &str) -> (Served, NbdClient) {
        let socket = self.directory.path("socket");
        let program = self.ours("open").words(words).arg("--nbd").arg(&socket);
        let served = Served::start(self.at(program).env("XDG_RUNTIME_DIR", self.directory.as_path()));
        let client = NbdClient::connect(&socket).expect("connect");
        (served, client)
    }

    /// Asks the process that serves it to begin, or to go on, or to stop.
    fn ask(&self, words: &str) {
        let program = atrest("reencrypt").words(words).env("XDG_RUNTIME_DIR", self.directory.as_path());
        program.arg(&self.image).ok();
    }

    /// Begins while the volume is served, and now and then stops and goes on.
    fn begin_served(&mut self, client: &mut NbdClient, resilience: &str, random: &mut Random) {
        self.work(client, random, Duration::from_millis(20));
        let key = self.key.to_str().expect("plain letters");
        let begin = format!("--online --init-only --key-file {key} {FAST_PBKDF2} --resilience {resilience}");
        self.ask(&begin);
        if random.below(2) == 0 {
            let time = Duration::from_millis(random.below(60));
            self.work(client, random, time);
            self.ask("--stop");
            self.work(client, random, Duration::from_millis(20));
            if self.in_progress() {
                self.ask("--online --init-only");
            }
        }
    }

    /// Writes until the time is over. The server is there all the while.
    fn work(&mut self, client: &mut NbdClient, random: &mut Random, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let block = random.below(BLOCKS);
            let bytes = random.bytes(BLOCK);
            self.blocks.write(block, bytes.clone());
            client.write(block * BLOCK as u64, &bytes).expect("written");
            if random.below(8) == 0 {
                client.flush().expect("flushed");
                self.blocks.flushed();
            }
        }
    }

    /// Everything that was flushed is there. It is what later rounds begin with.
    fn check(&mut self, client: &mut NbdClient, what: &str) {
        let mut found = Vec::new();
        for at in (0..BLOCKS * BLOCK as u64).step_by(1 << 20) {
            found.extend(client.read(at, 1 << 20).expect("read"));
        }
        self.compare(found, what);
    }

    fn compare(&mut self, found: Vec<u8>, what: &str) {
        let lost = self.blocks.lost(&found, 512);
        assert!(lost.is_empty(), "{what}: blocks {lost:?} are lost");
        self.blocks = Blocks::new(BLOCK, found);
    }

    /// Ends the job where it stands.
    fn finish(&mut self, next: Next) {
        match next {
            Next::Online => {
                let (served, client) = self.serve("--reencrypt");
                let end = Instant::now() + Duration::from_secs(60);
                while self.in_progress() {
                    assert!(Instant::now() < end, "it does not end");
                    std::thread::sleep(Duration::from_millis(20));
                }
                drop(client);
                served.stop();
            }
            Next::Offline => drop(self.at(self.ours("reencrypt --resume")).ok()),
            Next::Cryptsetup => {
                if !self.info()["reencryption"]["hot"].is_null() {
                    self.at(cryptsetup("repair --key-file").arg(&self.key)).ok();
                }
                if self.in_progress() {
                    self.at(self.theirs("--resume-only")).ok();
                }
            }
        }
        assert!(!self.in_progress());
    }

    /// The whole plaintext, as a program that knows nothing of us reads it where there is one.
    fn whole(&self) -> Vec<u8> {
        let is_plain = self.info()["segments"][0]["kind"] == "linear";
        if is_plain {
            return fs::read(&self.image).expect("read");
        }
        let out = self.directory.path("out");
        self.at(self.ours("decrypt")).arg(&out).ok();
        let mut whole = fs::read(&out).expect("read");
        fs::remove_file(&out).expect("remove");
        whole.truncate(BLOCKS as usize * BLOCK);
        whole
    }
}

const JOBS: [(Job, &str); 7] = [
    (Job::Rekey, "checksum"),
    (Job::Decrypt, "checksum"),
    (Job::Asked, "checksum"),
    (Job::Rekey, "journal"),
    (Job::Asked, "journal"),
    (Job::Encrypt, "checksum"),
    (Job::Decrypt, "journal"),
];

#[test]
fn a_server_that_is_killed_while_it_reencrypts_loses_nothing() {
    let (mut kills, mut unfinished) = (0, 0);
    Campaign::new("kills during online re-encryption", 5, 100).run(|seed, random| {
        let (job, resilience) = JOBS[(seed as usize - 1) % JOBS.len()];
        let by_cryptsetup = random.below(2) == 0;
        let next = [Next::Online, Next::Offline, Next::Cryptsetup][seed as usize % 3];
        let what = format!("{job:?} by {resilience}, cryptsetup's: {by_cryptsetup}, then {next:?}");
        let mut stage = Stage::new(job, resilience, by_cryptsetup, random);
        for round in 0..2 {
            let is_asked = job == Job::Asked && round == 0;
            if !is_asked && !stage.in_progress() {
                break;
            }
            let (mut served, mut client) = stage.serve(if is_asked { "" } else { "--reencrypt" });
            stage.check(&mut client, &what);
            if is_asked {
                stage.begin_served(&mut client, resilience, random);
            }
            let time = Duration::from_millis(random.below(250));
            stage.work(&mut client, random, time);
            served.crash();
            kills += 1;
        }
        if stage.in_progress() {
            unfinished += 1;
            if random.below(2) == 0 {
                // Served without going on: what was half-written is completed, and no more.
                let (served, mut client) = stage.serve("");
                stage.check(&mut client, &what);
                stage.work(&mut client, random, Duration::from_millis(30));
                client.flush().expect("flushed");
                stage.blocks.flushed();
                drop(client);
                served.stop();
            }
            if stage.in_progress() {
                stage.finish(next);
            }
        }
        let whole = stage.whole();
        stage.compare(whole, &what);
    });
    println!(
        "online re-encryption: {kills} kills, {unfinished} of the jobs were finished by another program or process"
    );
}

#[test]
fn a_server_that_is_stopped_leaves_what_the_next_one_goes_on_with() {
    let mut random = Random::new(31);
    let mut stage = Stage::new(Job::Rekey, "checksum", false, &mut random);
    let (served, mut client) = stage.serve("--reencrypt");
    stage.work(&mut client, &mut random, Duration::from_millis(40));
    client.flush().expect("flushed");
    stage.blocks.flushed();
    drop(client);
    served.stop();
    let info = stage.info();
    assert!(info["reencryption"]["hot"].is_null(), "between two zones");
    // Others read it meanwhile, and cryptsetup goes on.
    let whole = stage.whole();
    stage.compare(whole, "stopped");
    if stage.in_progress() {
        stage.finish(Next::Cryptsetup);
    }
    let whole = stage.whole();
    stage.compare(whole, "at the end");
}
