//! `kill -9` of `atrest open` at seeded random moments, behind every face. What was acknowledged and flushed is there
//! when the volume is opened again.
//!
//! A kill counts only if it landed while the client had requests under way.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use atrest_testkit::atrest::{FAST_PBKDF2, Served, VolumeFile};
use atrest_testkit::crash::Blocks;
use atrest_testkit::cryptsetup::Cryptsetup;
use atrest_testkit::nbd::NbdClient;
use atrest_testkit::oracle::Program;
use atrest_testkit::rings::with_rings;
use atrest_testkit::{Campaign, Pki, Random, Scratch};

use super::faces::{Client, Machine, Relay, open_file};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 1024;

/// A face of the program, as it is opened and connected to.
trait Door {
    fn open(volume: &VolumeFile, directory: &Scratch) -> (Served, Self);
    fn connect(&self) -> Box<dyn Client>;
}

struct Nbd(PathBuf);

impl Door for Nbd {
    fn open(volume: &VolumeFile, directory: &Scratch) -> (Served, Self) {
        let socket = directory.path("socket");
        (Served::start(volume.program("open", "").arg("--nbd").arg(&socket)), Nbd(socket))
    }
    fn connect(&self) -> Box<dyn Client> {
        Box::new(NbdClient::connect(&self.0).expect("connect to the server"))
    }
}

struct Tls {
    relay: Relay,
    _pki: Pki,
}

impl Door for Tls {
    fn open(volume: &VolumeFile, _: &Scratch) -> (Served, Self) {
        let pki = Pki::new();
        let open = volume.program("open", "--nbd-tcp 127.0.0.1:0 --tls-verify-peer");
        let served = Served::start(open.arg("--tls-cert").arg(pki.server()));
        let uri = served.announced.strip_prefix("ready ").expect("where it listens");
        assert!(uri.starts_with("nbds://127.0.0.1:"), "{uri}");
        let relay = Relay::new(&pki, &format!("uri={uri}"));
        (served, Tls { relay, _pki: pki })
    }
    fn connect(&self) -> Box<dyn Client> {
        self.relay.connect()
    }
}

/// With requests by rings of io_uring, or by `/dev/fuse`.
struct Mounted<const RINGS: bool>(PathBuf);

impl<const RINGS: bool> Door for Mounted<RINGS> {
    fn open(volume: &VolumeFile, directory: &Scratch) -> (Served, Self) {
        let mount = directory.directory("mount");
        let start = || Served::start(volume.program("open", "").arg("--fuse").arg(&mount));
        let served = if RINGS { with_rings(start).0 } else { start() };
        (served, Mounted(mount))
    }
    fn connect(&self) -> Box<dyn Client> {
        open_file(&self.0.join("volume"))
    }
}

impl<const RINGS: bool> Drop for Mounted<RINGS> {
    fn drop(&mut self) {
        // The dead mount of a server that was killed.
        Program::named("umount").arg("--lazy").arg(&self.0).run();
    }
}

struct VhostUser(Machine);

impl Door for VhostUser {
    fn open(volume: &VolumeFile, directory: &Scratch) -> (Served, Self) {
        let socket = directory.path("socket");
        let served = Served::start(volume.program("open", "").arg("--vhost-user").arg(&socket));
        let machine = Machine::new(&socket);
        (served, VhostUser(machine))
    }
    fn connect(&self) -> Box<dyn Client> {
        self.0.connect()
    }
}

fn flushed_writes_survive_a_killed_server<D: Door>(name: &'static str) {
    let (mut kills, mut written) = (0, 0);
    Campaign::new(name, 3, 200).run(|seed, random| {
        let directory = Scratch::new();
        let unit = if seed % 2 == 0 { 512 } else { 4096 };
        let options = format!("{FAST_PBKDF2} --sector-size {unit}");
        let volume = VolumeFile::format(directory.as_path(), "volume.img", "24M", &options);
        let mut blocks = Blocks::new(BLOCK, decrypted(&volume, directory.as_path()));
        let (mut server, door) = D::open(&volume, &directory);
        let mut client = door.connect();
        let id = server.id().to_string();
        let end = Instant::now() + Duration::from_micros(2_000 + random.below(60_000));
        let killer = thread::spawn(move || {
            // Sleeping alone is too coarse for what lies between two writes.
            thread::sleep(end.saturating_duration_since(Instant::now() + Duration::from_millis(1)));
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            Program::named("kill").args(["-s", "KILL", &id]).ok();
        });
        let (acknowledged, flushed) = write_until_cut_off(&mut *client, &mut blocks, random);
        killer.join().expect("the killer");
        assert_eq!(server.wait_for_signal(), Some(libc::SIGKILL), "the server did not end by the kill");
        drop((client, door));

        let lost = blocks.lost(&decrypted(&volume, directory.as_path()), unit);
        assert!(
            lost.is_empty(),
            "blocks {lost:?} hold neither what was flushed nor what was written since \
             ({acknowledged} writes acknowledged, {flushed} of them flushed)"
        );
        Cryptsetup::new(&volume.path, &volume.key).assert_opens();
        kills += 1;
        written += acknowledged;
    });
    println!(
        "{name}: {kills} kills landed, {written} writes were acknowledged before them, none that was flushed is lost"
    );
}

/// Ends only when the server is cut off in the middle of it. How many writes were acknowledged, and how many of them
/// flushed.
fn write_until_cut_off(client: &mut dyn Client, blocks: &mut Blocks, random: &mut Random) -> (u64, u64) {
    let (mut acknowledged, mut flushed) = (0, 0);
    loop {
        let number = random.below(BLOCKS);
        let bytes = random.bytes(BLOCK);
        blocks.write(number, bytes.clone());
        if client.write(number * BLOCK as u64, &bytes).is_err() {
            return (acknowledged, flushed);
        }
        acknowledged += 1;
        if random.below(4) == 0 {
            if client.flush().is_err() {
                return (acknowledged, flushed);
            }
            flushed = acknowledged;
            blocks.flushed();
        }
        assert!(acknowledged < 1_000_000, "the server was never killed");
    }
}

fn decrypted(volume: &VolumeFile, directory: &Path) -> Vec<u8> {
    let out = directory.join("plain.bin");
    let _ = fs::remove_file(&out);
    volume.decrypt(&out);
    fs::read(&out).expect("the plaintext")
}

#[test]
fn writes_by_nbd_that_were_flushed_survive_a_killed_server() {
    flushed_writes_survive_a_killed_server::<Nbd>("kills during NBD writes");
}

#[test]
fn writes_by_nbd_over_tls_that_were_flushed_survive_a_killed_server() {
    flushed_writes_survive_a_killed_server::<Tls>("kills during NBD writes over TLS");
}

#[test]
fn writes_by_fuse_that_were_flushed_survive_a_killed_server() {
    flushed_writes_survive_a_killed_server::<Mounted<false>>("kills during FUSE writes");
}

#[test]
fn writes_by_fuse_on_rings_that_were_flushed_survive_a_killed_server() {
    flushed_writes_survive_a_killed_server::<Mounted<true>>("kills during FUSE writes on rings");
}

#[test]
fn writes_by_vhost_user_that_were_flushed_survive_a_killed_server() {
    flushed_writes_survive_a_killed_server::<VhostUser>("kills during vhost-user writes");
}
