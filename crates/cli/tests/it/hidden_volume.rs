//! A hidden volume of VeraCrypt whose outer one is written through the doors that users have: NBD and FUSE. Writes into it are refused, also many
//! at once, and the server may be killed at any moment. Both volumes have what they should have afterwards.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use atrest_testkit::Random;
use atrest_testkit::atrest::Served;
use atrest_testkit::nbd::NbdClient;

use crate::common::Scratch;

const SIZE: u64 = 900 << 10;
const HIDDEN: u64 = 96 << 10;
/// Bytes of the outer volume, and how many of them lie in front of the hidden one.
const OUTER: u64 = SIZE - 262_144;
const FIRST: u64 = OUTER - HIDDEN;
const TYPE: [&str; 6] = ["--type", "veracrypt", "--veracrypt-pim", "1", "--hash", "sha512"];
const OPEN: [&str; 7] =
    ["--key-file", "outer", "--protect-hidden", "--protect-key-file", "inner", "--protect-pim", "1"];

/// A volume with a hidden one in it, whose plaintext is in `letters`.
fn with_hidden() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("outer", b"the outer one");
    scratch.file("inner", b"the inner one");
    scratch.file("letters", Random::new(9).bytes(HIDDEN as usize));
    let (size, hidden) = (SIZE.to_string(), HIDDEN.to_string());
    let new = [
        "format",
        "vol",
        "--size",
        &size,
        "--hidden-size",
        &hidden,
        "--key-file",
        "outer",
        "--hidden-key-file",
        "inner",
    ];
    scratch.atrest(&[&new[..], &TYPE].concat()).ok();
    let inner = ["--yes", "--quiet", "--tcrypt-hidden", "--key-file", "inner"];
    scratch.atrest(&[&["encrypt", "letters", "vol"], &inner[..], &TYPE].concat()).ok();
    scratch
}

/// The part of the file that is the hidden volume's: its headers and its data.
fn hidden_part(scratch: &Scratch) -> Vec<u8> {
    let file = fs::read(scratch.path("vol")).expect("the volume");
    let (data, copy) = ((131_072 + FIRST) as usize, (SIZE - 65_536) as usize);
    [&file[65_536..131_072], &file[data..data + HIDDEN as usize], &file[copy..]].concat()
}

/// Fails unless the hidden volume still opens, to the same plaintext.
#[track_caller]
fn hidden_is_whole(scratch: &Scratch) {
    let inner = ["--yes", "--quiet", "--tcrypt-hidden", "--key-file", "inner"];
    scratch.atrest(&[&["decrypt", "vol", "found"], &inner[..], &TYPE].concat()).ok();
    assert_eq!(scratch.bash("cmp letters found").ok().stdout, "");
}

/// The plaintext of the outer volume.
fn outer(scratch: &Scratch) -> Vec<u8> {
    let words = ["decrypt", "vol", "outside", "--yes", "--quiet", "--key-file", "outer"];
    scratch.atrest(&[&words[..], &TYPE].concat()).ok();
    fs::read(scratch.path("outside")).expect("the plaintext")
}

fn served(scratch: &Scratch, face: &str, at: &Path) -> Served {
    let program = scratch.program(env!("CARGO_BIN_EXE_atrest")).words("open vol");
    Served::start(program.arg(face).arg(at).args(TYPE).args(OPEN))
}

#[test]
fn an_outer_volume_that_is_written_by_nbd_leaves_the_hidden_one_alone() {
    let scratch = with_hidden();
    let socket = scratch.path("socket");
    let before = hidden_part(&scratch);
    // The first request that touches the hidden volume, of each kind.
    type Request = fn(&mut NbdClient) -> std::io::Result<()>;
    let requests: [Request; 5] = [
        |client| client.write(FIRST, &[1; 512]),
        |client| client.write(FIRST - 1, &[1; 2]),
        |client| client.write(FIRST - 2048, &[1; 4096]),
        |client| client.write_zeroes(OUTER - 512, 512),
        |client| client.write(OUTER - 1, &[1]),
    ];
    for (number, request) in requests.into_iter().enumerate() {
        let mut server = served(&scratch, "--nbd", &socket);
        let mut client = NbdClient::connect(&socket).expect("connects");
        let mark = [number as u8 + 1; 4096];
        client.write(0, &mark).expect("in front of it");
        client.write(FIRST - 4096, &mark).expect("up to it");
        client.flush().expect("flushes");
        let error = request(&mut client).expect_err("it is protected");
        assert!(!error.to_string().is_empty());
        // From then on nothing is written, by any client, and everything is read.
        client.write(8192, &[9; 512]).expect_err("after a refused write");
        let mut another = NbdClient::connect(&socket).expect("connects");
        another.write(8192, &[9; 512]).expect_err("after a refused write of another client");
        another.write_zeroes(0, 512).expect_err("after a refused write of another client");
        assert_eq!(another.read(0, 4096).expect("reads"), mark);
        assert_eq!(another.read(FIRST - 4096, 4096).expect("reads"), mark);
        server.crash();
        let _ = fs::remove_file(&socket);
        assert!(hidden_part(&scratch) == before, "request {number} has written into the hidden volume");
        let plain = outer(&scratch);
        assert!(plain[..4096] == mark && plain[(FIRST - 4096) as usize..FIRST as usize] == mark);
        assert!(plain[8192..8704] != [9; 512]);
    }
    // A request of more bytes than the server writes at once may have been done in part: in front of the hidden volume.
    let mut server = served(&scratch, "--nbd", &socket);
    let mut client = NbdClient::connect(&socket).expect("connects");
    client.write(0, &[1; OUTER as usize]).expect_err("it is protected");
    server.crash();
    let _ = fs::remove_file(&socket);
    assert!(hidden_part(&scratch) == before, "a long request has written into the hidden volume");
    hidden_is_whole(&scratch);
    // Opened again, it is written again.
    let server = served(&scratch, "--nbd", &socket);
    let mut client = NbdClient::connect(&socket).expect("connects");
    client.write(8192, &[9; 512]).expect("nothing was refused yet");
    client.disconnect().expect("leaves");
    server.stop();
    assert!(outer(&scratch)[8192..8704] == [9; 512]);
}

/// Four clients write everywhere in front of the hidden volume while a fifth writes into it; the server is killed at another moment each time.
#[test]
fn writes_of_many_clients_and_a_kill_leave_the_hidden_volume_alone() {
    let scratch = with_hidden();
    let socket = scratch.path("socket");
    let before = hidden_part(&scratch);
    for round in 0..6_u64 {
        let mut server = served(&scratch, "--nbd", &socket);
        let writers: Vec<_> = (0..4_u64)
            .map(|number| {
                let mut client = NbdClient::connect(&socket).expect("connects");
                thread::spawn(move || {
                    let mut random = Random::new(round * 4 + number);
                    let mut written = 0;
                    for _ in 0..20_000 {
                        let len = 1 + random.index(9000);
                        let at = random.below(FIRST - len as u64 + 1);
                        if client.write(at, &random.bytes(len)).is_err() {
                            break;
                        }
                        written += 1;
                    }
                    written
                })
            })
            .collect();
        let mut attacker = NbdClient::connect(&socket).expect("connects");
        thread::sleep(Duration::from_millis(20 * (round + 1)));
        let mut random = Random::new(round);
        let refused: Vec<bool> = (0..50)
            .map(|_| attacker.write(FIRST + random.below(HIDDEN - 600), &random.bytes(600)).is_err())
            .collect();
        assert!(refused.iter().all(|refused| *refused), "a write into the hidden volume was not refused");
        server.crash();
        let _ = fs::remove_file(&socket);
        let written: Vec<u64> = writers.into_iter().map(|writer| writer.join().expect("a writer")).collect();
        assert!(written.iter().sum::<u64>() > 0, "nobody wrote anything");
        assert!(hidden_part(&scratch) == before, "round {round}");
    }
    hidden_is_whole(&scratch);
}

#[test]
fn an_outer_volume_that_is_mounted_by_fuse_leaves_the_hidden_one_alone() {
    let scratch = with_hidden();
    let place = scratch.path("mount");
    fs::create_dir(&place).expect("a directory");
    let before = hidden_part(&scratch);
    for killed in [false, true] {
        let mut server = served(&scratch, "--fuse", &place);
        let shown = fs::read_dir(&place).expect("a list").next().expect("a file").expect("a file").path();
        let file = OpenOptions::new().read(true).write(true).open(&shown).expect("opens");
        file.write_all_at(&[7; 8192], 0).expect("in front of it");
        file.sync_all().expect("flushes");
        // Pages are written when they are synced, and a page may reach into it.
        let written = file.write_all_at(&[8; 512], FIRST).and_then(|()| file.sync_all());
        assert!(written.is_err(), "it is protected");
        let after = file.write_all_at(&[9; 512], 8192).and_then(|()| file.sync_all());
        assert!(after.is_err(), "after a refused write");
        let mut read = [0; 8192];
        file.read_exact_at(&mut read, 0).expect("reads");
        assert_eq!(read, [7; 8192]);
        drop(file);
        if killed {
            server.crash();
            scratch.bash("fusermount3 -u mount || umount -l mount").ok();
        } else {
            server.stop();
        }
        assert!(hidden_part(&scratch) == before, "something was written into the hidden volume");
        assert!(outer(&scratch)[..8192] == [7; 8192]);
    }
    hidden_is_whole(&scratch);
}
