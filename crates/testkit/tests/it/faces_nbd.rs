//! An open volume over NBD, used by the clients that people use: libnbd, nbdcopy, fio and QEMU.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use atrest_testkit::atrest::{FAST_PBKDF2, Served, VolumeFile, atrest};
use atrest_testkit::nbd::NbdClient;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Random, Scratch};

struct Export {
    directory: Scratch,
    volume: VolumeFile,
    socket: PathBuf,
}

impl Export {
    fn new(options: &str) -> Self {
        let directory = Scratch::new();
        let volume =
            VolumeFile::format(directory.as_path(), "volume.img", "32M", &format!("{FAST_PBKDF2} {options}"));
        let socket = directory.path("socket");
        Self { directory, volume, socket }
    }

    fn serve(&self, options: &str) -> Served {
        let program = self.volume.program("open", options).arg("--nbd").arg(&self.socket);
        Served::start(program.env("XDG_RUNTIME_DIR", self.directory.as_path()))
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }

    fn client(&self) -> NbdClient {
        NbdClient::connect(&self.socket).expect("connect to the server")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path(name)
    }

    fn plaintext(&self) -> Vec<u8> {
        let out = self.path("plain.bin");
        let _ = fs::remove_file(&out);
        self.volume.decrypt(&out);
        fs::read(&out).expect("the plaintext")
    }
}

fn random_file(path: &Path, len: u64) -> Vec<u8> {
    let bytes = Random::new(len).bytes(len as usize);
    fs::write(path, &bytes).expect("write a file");
    bytes
}

#[test]
fn nbdinfo_sees_the_size_and_what_the_server_can_do() {
    let export = Export::new("");
    let size = export.plaintext().len() as u64;
    let server = export.serve("");
    let info = Program::named("nbdinfo").arg("--json").arg(export.uri()).ok().json();
    let entry = &info["exports"][0];
    assert_eq!(entry["export-size"], size);
    assert_eq!(info["protocol"], "newstyle-fixed");
    assert_eq!(info["structured"], true, "{info}");
    for (capability, expected) in [
        ("is_read_only", false),
        ("can_flush", true),
        ("can_fua", true),
        ("can_zero", true),
        ("can_multi_conn", true),
    ] {
        assert_eq!(entry[capability], expected, "{capability}");
    }
    let mode = fs::metadata(&export.socket).expect("the socket").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "the socket's mode is {mode:o}");
    server.stop();
    assert!(!export.socket.exists(), "the socket is left behind");
}

#[test]
fn nbdcopy_writes_and_reads_what_decrypt_gives() {
    for options in ["--sector-size 512", "--sector-size 4096", "--type luks1"] {
        let export = Export::new(options);
        let size = export.plaintext().len() as u64;
        let source = export.path("source.bin");
        let bytes = random_file(&source, size);
        let server = export.serve("");
        Program::named("nbdcopy").arg("--flush").arg(&source).arg(export.uri()).ok();
        let back = export.path("back.bin");
        Program::named("nbdcopy").arg(export.uri()).arg(&back).ok();
        assert!(fs::read(&back).expect("the copy") == bytes, "{options}: read over NBD");
        server.stop();
        assert!(export.plaintext() == bytes, "{options}: decrypt");
    }
}

#[test]
fn fio_verifies_random_writes_of_all_sizes() {
    let export = Export::new("");
    let server = export.serve("");
    Program::named("fio")
        .words("--name=verify --ioengine=nbd --rw=randwrite --bsrange=512-128k --bs_unaligned=0 --blockalign=512")
        .words("--size=8m --iodepth=16 --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=1 --fsync=32 --output-format=terse")
        .arg(format!("--uri={}", export.uri()))
        .current_dir(export.directory.as_path())
        .ok();
    server.stop();
}

#[test]
fn qemu_reads_writes_zeroes_and_compares() {
    let export = Export::new("--sector-size 4096");
    let before = export.plaintext();
    let server = export.serve("");
    Program::named("qemu-io")
        .args([
            "-f",
            "raw",
            "-c",
            "write -P 0x11 0 64k",
            "-c",
            "write -z 4k 8k",
            "-c",
            "write -P 0x22 700 1000",
        ])
        .args([
            "-c",
            "write -f -P 0x33 1m 512",
            "-c",
            "flush",
            "-c",
            "read -P 0x11 12k 4k",
            "-c",
            "read -P 0 4k 8k",
        ])
        .arg(export.uri())
        .ok();
    let image = export.path("image.raw");
    Program::named("qemu-img").args(["convert", "-f", "raw", "-O", "raw"]).arg(export.uri()).arg(&image).ok();
    Program::named("qemu-img").args(["compare", "-f", "raw", "-F", "raw"]).arg(export.uri()).arg(&image).ok();
    server.stop();
    let mut expected = before;
    expected[..65536].fill(0x11);
    expected[4096..12288].fill(0);
    expected[700..1700].fill(0x22);
    expected[1 << 20..][..512].fill(0x33);
    assert!(export.plaintext() == expected, "decrypt sees other bytes than qemu wrote");
}

#[test]
fn holes_of_the_media_are_data_and_never_read_as_zeros() {
    let export = Export::new("");
    let plain = export.plaintext();
    let server = export.serve("");
    let mut client = export.client();
    let read = client.read(1 << 20, 4096).expect("read");
    assert!(read == plain[1 << 20..][..4096], "NBD and decrypt differ");
    assert!(read.iter().any(|&byte| byte != 0), "an encrypted hole reads as zeros");
    let map = Program::named("nbdinfo").args(["--map", "--json"]).arg(export.uri()).ok().json();
    for extent in map.as_array().expect("extents") {
        assert_eq!(extent["type"], 0, "an extent is announced as a hole: {extent}");
    }
    server.stop();
}

#[test]
fn trim_reaches_the_media_only_when_it_is_allowed() {
    for (option, punched) in [("", false), ("--allow-discards", true)] {
        let export = Export::new("");
        let source = export.path("source.bin");
        random_file(&source, 12 << 20);
        export.volume.encrypt(&source);
        let blocks = || fs::metadata(&export.volume.path).expect("the volume").blocks();
        let before = blocks();
        let server = export.serve(option);
        Program::named("qemu-io")
            .args(["-f", "raw", "-d", "unmap", "-c", "discard 4m 4m", "-c", "flush"])
            .arg(export.uri())
            .ok();
        server.stop();
        let freed = (before - blocks()) * 512;
        assert_eq!(freed > 3 << 20, punched, "{option:?}: a trim of 4 MiB freed {freed} bytes");
    }
}

#[test]
fn a_read_only_export_refuses_writes() {
    let export = Export::new("");
    let before = fs::read(&export.volume.path).expect("the volume");
    let server = export.serve("--read-only");
    let info = Program::named("nbdinfo").arg("--json").arg(export.uri()).ok().json();
    assert_eq!(info["exports"][0]["is_read_only"], true);
    let mut client = export.client();
    let refused = client.write(0, &[1; 512]).expect_err("a write to a read-only export");
    assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    client.read(0, 512).expect("the connection goes on");
    server.stop();
    assert!(
        fs::read(&export.volume.path).expect("the volume") == before,
        "a read-only export changed the volume"
    );
}

#[test]
fn ranges_outside_the_export_are_refused_and_the_connection_goes_on() {
    let export = Export::new("");
    let server = export.serve("");
    let mut client = export.client();
    let size = client.size();
    for offset in [size, size - 511, u64::MAX - 100] {
        assert!(client.read(offset, 512).is_err(), "a read at {offset} of {size}");
        assert!(client.write(offset, &[0; 512]).is_err(), "a write at {offset} of {size}");
    }
    client.read(size - 512, 512).expect("the last sector");
    server.stop();
}

#[test]
fn a_client_that_stalls_blocks_no_other() {
    let export = Export::new("");
    let server = export.serve("");
    // One in the middle of the handshake, one in the middle of a write.
    let mut silent = UnixStream::connect(&export.socket).expect("connect");
    let mut greeting = [0; 18];
    silent.read_exact(&mut greeting).expect("the greeting");
    let stalled = export.client();
    let mut raw = stalled.into_stream();
    raw.write_all(&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, 1]).expect("half of a request");
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut other = export.client();
    std::thread::spawn(move || {
        let written =
            other.write(4096, &[7; 4096]).and_then(|()| other.flush()).and_then(|()| other.read(4096, 4096));
        let _ = sender.send(written);
    });
    let read =
        receiver.recv_timeout(Duration::from_secs(20)).expect("the other client is blocked").expect("served");
    assert!(read == [7; 4096]);
    server.stop();
}

#[test]
fn a_volume_that_is_served_for_writing_is_locked() {
    let export = Export::new("");
    let server = export.serve("");
    let second = export.path("second");
    let refused = export.volume.program("open", "").arg("--nbd").arg(&second).run();
    assert_eq!(refused.code, Some(5), "{}", refused.messages());
    let source = export.path("source.bin");
    random_file(&source, 4096);
    let refused = atrest("encrypt --yes --key-file")
        .arg(&export.volume.key)
        .arg(&source)
        .arg(&export.volume.path)
        .run();
    assert_eq!(refused.code, Some(5), "{}", refused.messages());
    server.stop();
}

#[test]
fn a_daemon_is_found_by_status_and_closed_by_close() {
    let export = Export::new("");
    let in_session = |words: &str| atrest(words).env("XDG_RUNTIME_DIR", export.directory.as_path());
    let open =
        in_session("open --daemon --name shelf --key-file").arg(&export.volume.key).arg(&export.volume.path);
    open.arg("--nbd").arg(&export.socket).ok();
    export.client().write(8192, &[9; 4096]).expect("a write");
    let status = in_session("status --json").ok();
    assert!(status.text().contains("shelf"), "{}", status.text());
    in_session("close shelf").ok();
    assert!(!export.socket.exists(), "the socket is left behind");
    assert!(!in_session("status --json").ok().text().contains("shelf"));
    assert!(export.plaintext()[8192..12288] == [9; 4096], "a write that was acknowledged before close");
    let absent = in_session("close shelf").run();
    assert_eq!(absent.code, Some(4), "closing what is not open: {}", absent.messages());
}

#[test]
fn run_serves_for_as_long_as_the_command_and_passes_its_status_on() {
    let export = Export::new("");
    let run = |script: &str| {
        let program = export.volume.program("open", "--nbd").args(["--run", "sh", "-c", script]);
        program.env("XDG_RUNTIME_DIR", export.directory.as_path()).run()
    };
    let size = run("nbdinfo --size \"$ATREST_URI\"").expect_code(0).text();
    assert!(size.lines().any(|line| line.trim() == export.plaintext().len().to_string()), "{size}");
    run("exit 7").expect_code(7);
}
