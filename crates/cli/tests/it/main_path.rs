//! The main path: make a volume, serve it, put a filesystem and files in it, get them out again, whole and by name.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::{Child, Stdio};

use crate::common::{CHEAP, Scratch};
use atrest_testkit::wait_until;
use rustix::process::Pid;

/// A volume that is being served; the process is stopped when the test ends.
struct Served {
    child: Child,
    line: String,
}

impl Served {
    fn start(scratch: &Scratch, args: &[&str]) -> Self {
        let mut child = scratch.atrest_command(args).stdout(Stdio::piped()).spawn().expect("atrest starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output"))
            .read_line(&mut line)
            .expect("the ready line");
        assert!(!line.is_empty(), "it ended without a ready line: {:?}", child.wait());
        Self { child, line }
    }

    /// The exit code of one that was told to end already.
    fn ended(mut self) -> i32 {
        self.child.wait().expect("its end").code().unwrap_or(-1)
    }

    fn terminate(mut self) -> i32 {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("the signal");
        self.child.wait().expect("its end").code().unwrap_or(-1)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let pid = Pid::from_child(&self.child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

fn files(scratch: &Scratch) {
    let root = scratch.path("files");
    fs::create_dir_all(root.join("deep/er")).expect("directories");
    fs::write(root.join("hello"), "hello, world\n").expect("a file");
    fs::write(root.join("deep/er/numbers"), (0..100_000u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>())
        .expect("it");
    fs::write(root.join("deep/empty"), "").expect("an empty file");
    std::os::unix::fs::symlink("deep/er/numbers", root.join("link")).expect("a link");
}

#[test]
fn files_that_go_in_through_fuse_come_out_of_the_locked_volume() {
    let scratch = Scratch::with_volume();
    files(&scratch);
    fs::create_dir(scratch.path("mnt")).expect("the mount point");
    let name = scratch.session();
    let served =
        Served::start(&scratch, &["open", "vol", "--fuse", "mnt", "--key-file", "key", "--name", &name]);
    let file = scratch.path("mnt/volume");
    assert!(served.line.contains("mnt/volume"), "{}", served.line);
    assert_eq!(fs::metadata(&file).expect("the served file").len(), 4 << 20);
    // Nobody else writes meanwhile; looking at the header is possible.
    scratch.atrest(&["cat", "--key-file", "key", "vol", "/x"]).fails(5, "busy");
    scratch.atrest(&["info", "vol"]).ok();
    assert!(scratch.is_open("vol"));
    assert!(scratch.atrest(&["status"]).ok().stdout.contains("mnt/volume"));
    assert_eq!(scratch.atrest(&["status", "--json", &name]).ok().json()[0]["read_only"], false);
    scratch.tool("mkfs.ext4", &["-q", "-d", "files", "mnt/volume"]).ok();
    scratch.atrest(&["close", &name]).ok();
    assert_eq!(served.ended(), 0);
    assert!(!scratch.is_open("vol"));
    scratch.atrest(&["close", &name]).fails(4, &name);
    scratch.atrest(&["status", &name]).fails(4, &name);

    let locked = |args: &[&str]| scratch.atrest(&[args, &["--key-file", "key"]].concat());
    let names = locked(&["ls", "vol"]).ok().stdout;
    for name in ["hello", "deep", "link", "lost+found"] {
        assert!(names.lines().any(|line| line == name), "{name} is missing in {names}");
    }
    assert!(locked(&["ls", "-l", "vol", "/deep"]).ok().stdout.contains("empty"));
    let listed = locked(&["ls", "--json", "vol", "/deep/er"]).ok().json();
    assert_eq!(listed[0]["name"], "numbers", "{listed}");
    assert_eq!(listed[0]["size"], 400_000, "{listed}");
    assert_eq!(locked(&["cat", "vol", "/hello"]).ok().stdout, "hello, world\n");
    let numbers = fs::read(scratch.path("files/deep/er/numbers")).expect("the file");
    assert!(locked(&["cat", "vol", "/link"]).ok().raw == numbers, "a link is followed to other bytes");
    locked(&["cat", "vol", "/absent"]).fails(4, "no such file");
    locked(&["cat", "vol", "/deep"]).fails(4, "directory");
    locked(&["cp", "-r", "vol:/", "out"]).ok();
    scratch.bash("rm -rf out/lost+found && diff -r --no-dereference files out").ok();
    locked(&["cp", "vol:/hello", "hello"]).ok();
    assert_eq!(fs::read(scratch.path("hello")).expect("the copy"), b"hello, world\n");
    locked(&["cp", "vol:/hello", "vol:/other"]).fails(1, "VOLUME:/path");
    locked(&["cp", "hello", "other"]).fails(1, "VOLUME:/path");

    locked(&["decrypt", "vol", "plain"]).ok();
    assert_eq!(scratch.mode("plain"), 0o600);
    scratch.tool("e2fsck", &["-fn", "plain"]).ok();
}

#[test]
fn a_signal_writes_everything_back_and_closes() {
    let scratch = Scratch::with_volume();
    fs::create_dir(scratch.path("mnt")).expect("the mount point");
    let served = Served::start(&scratch, &["open", "vol", "--fuse", "mnt", "--key-file", "key"]);
    let file = fs::OpenOptions::new().write(true).open(scratch.path("mnt/volume")).expect("the served file");
    file.write_all_at(b"written through FUSE", 1_000_000).expect("a write");
    drop(file);
    assert_eq!(served.terminate(), 0);
    assert_eq!(fs::read_dir(scratch.path("mnt")).expect("the mount point").count(), 0, "still mounted");
    scratch.atrest(&["decrypt", "--key-file", "key", "vol", "plain"]).ok();
    let plain = fs::read(scratch.path("plain")).expect("the plaintext");
    assert_eq!(&plain[1_000_000..1_000_020], b"written through FUSE");
}

#[test]
fn a_daemon_serves_until_it_is_closed() {
    let scratch = Scratch::with_volume();
    fs::create_dir(scratch.path("mnt")).expect("the mount point");
    let open = ["open", "vol", "--fuse", "mnt", "--daemon", "--key-file", "key"];
    assert!(scratch.atrest(&open).ok().stdout.contains("mnt/volume"));
    assert!(scratch.path("mnt/volume").exists());
    scratch.atrest(&open).fails(5, "busy");
    let path = scratch.path("vol");
    scratch.atrest(&["close", path.to_str().expect("a path")]).ok();
    assert!(!scratch.path("mnt/volume").exists());
}

#[test]
fn a_command_runs_for_as_long_as_the_volume_is_served() {
    let scratch = Scratch::with_volume();
    // `--nbd` without a socket may stand before the path, too.
    let run = |more: &[&str]| {
        scratch.atrest(&[&["open", "--key-file", "key", "--nbd", "vol", "--run"], more].concat())
    };
    let ran = run(&["sh", "-c", "nbdinfo --size \"$ATREST_URI\"; exit 7"]).reports(7);
    assert!(ran.stdout.contains("4194304"), "{}", ran.stdout);
    run(&["no-such-command-here"]).fails(1, "no-such-command-here");
    assert!(!scratch.is_open("vol"));
}

#[test]
fn volumes_of_the_same_name_are_opened_at_the_same_time() {
    let scratch = Scratch::with_volume();
    scratch.bash("mkdir a b c d; for d in a b c d; do cp vol $d/same.img; chmod 600 $d/same.img; done").ok();
    // Each stays open until all are.
    scratch.file("stay", "nbdinfo --size \"$ATREST_URI\"; touch $1/open; until [ -e a/open -a -e b/open -a -e c/open -a -e d/open ]; do sleep 0.01; done");
    let open = "$ATREST open $d/same.img --key-file key --nbd --run sh stay $d";
    let ran = scratch.bash(&format!(
        "for d in a b c d; do {open} & jobs[$!]=1; done; for j in ${{!jobs[@]}}; do wait $j || exit; done"
    ));
    assert_eq!(ran.ok().stdout.matches("4194304").count(), 4);
}

#[test]
fn several_readers_or_one_writer() {
    let scratch = Scratch::with_volume();
    let open = ["open", "vol", "--key-file", "key"];
    let first = Served::start(&scratch, &[&open[..], &["--read-only", "--nbd", "a.sock"]].concat());
    let second = Served::start(&scratch, &[&open[..], &["--read-only", "--nbd", "b.sock"]].concat());
    scratch.atrest(&[&open[..], &["--nbd", "c.sock"]].concat()).fails(5, "busy");
    scratch.bash("printf x | $ATREST format --key-file - --yes vol").fails(5, "busy");
    assert_eq!(first.terminate(), 0);
    assert_eq!(second.terminate(), 0);
}

#[test]
fn a_whole_image_goes_in_and_out() {
    let scratch = Scratch::with_volume();
    let image: Vec<u8> = (0..4u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    scratch.file("disk", &image);
    let summary = scratch.atrest(&["encrypt", "--json", "--yes", "--key-file", "key", "disk", "vol"]).ok();
    let last: serde_json::Value =
        serde_json::from_str(summary.stdout.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["bytes"], image.len(), "{last}");
    scratch.atrest(&["decrypt", "--key-file", "key", "vol", "plain"]).ok();
    assert!(fs::read(scratch.path("plain")).expect("the plaintext") == image, "the plaintext differs");
    scratch.atrest(&["decrypt", "--key-file", "key", "vol", "plain"]).fails(1, "--yes");
    scratch.atrest(&["decrypt", "--yes", "--key-file", "key", "vol", "plain"]).ok();
    scratch.file("large", vec![1; (4 << 20) + 1]);
    scratch
        .atrest(&["encrypt", "--yes", "--key-file", "key", "large", "vol"])
        .fails(4, "the source of 4194305 bytes does not fit in the volume, which holds 4194304");
}

#[test]
fn an_interrupted_run_goes_on_from_its_checkpoint() {
    let scratch = Scratch::new();
    scratch.file("key", "k");
    let format = ["format", "--size", "320M", "--key-file", "key", "vol"];
    scratch.atrest(&[&format[..], &CHEAP].concat()).ok();
    // A signal that comes at once: whatever of the run is done by then must count.
    let decrypt = ["decrypt", "--key-file", "key", "--threads", "1", "--json"];
    let mut child = scratch.atrest_command(&[&decrypt[..], &["vol", "plain"]].concat());
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("atrest starts");
    wait_until("something is written", || {
        assert!(child.try_wait().expect("its state").is_none(), "it ended before anything was written");
        fs::metadata(scratch.path("plain")).is_ok_and(|file| file.blocks() > 0)
    });
    rustix::process::kill_process(Pid::from_child(&child), rustix::process::Signal::INT).expect("the signal");
    let ended = child.wait_with_output().expect("its end");
    let messages = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{messages}");
    assert!(messages.contains("cancelled after") && messages.contains("--resume"), "{messages}");
    assert_eq!(scratch.mode("plain.atrest-checkpoint"), 0o600);
    let checkpoint = fs::read(scratch.path("plain.atrest-checkpoint")).expect("the checkpoint");
    scratch.file("plain.atrest-checkpoint", "rubbish");
    // The hint is what helps, not the option that failed.
    scratch.atrest(&[&decrypt[..], &["--resume", "vol", "plain"]].concat()).fails(4, "leave --resume out");
    scratch.file("plain.atrest-checkpoint", &checkpoint);
    let resumed = scratch.atrest(&[&decrypt[..], &["--resume", "vol", "plain"]].concat()).ok();
    let last: serde_json::Value =
        serde_json::from_str(resumed.stdout.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["bytes"], 304 << 20, "{last}");
    assert!(last["resumed_from"].as_u64().is_some_and(|from| from > 0), "{last}");
    assert!(!scratch.path("plain.atrest-checkpoint").exists());
    scratch.atrest(&[&decrypt[..], &["vol", "whole"]].concat()).ok();
    scratch.bash("cmp plain whole").ok();
    scratch.atrest(&[&decrypt[..], &["--resume", "vol", "whole"]].concat()).fails(1, "no checkpoint");
    // A run that starts anew and dies while it truncates the output must not leave a checkpoint that vouches for it.
    scratch.file("plain.atrest-checkpoint", &checkpoint);
    let killed =
        scratch.bash("ulimit -f 1024; $ATREST decrypt --yes --key-file key vol plain || echo it died").ok();
    assert!(killed.stdout.contains("it died"), "a file of 304 MiB fits into 1 MiB");
    scratch.bash("truncate -s 304M plain").ok();
    let resumed = scratch.atrest(&[&decrypt[..], &["--resume", "vol", "plain"]].concat()).ok();
    assert!(resumed.stdout.contains("\"resumed_from\":0"), "{}", resumed.stdout);
    scratch.bash("cmp plain whole").ok();
}

#[test]
fn a_plain_volume_has_no_header_and_the_right_options() {
    let scratch = Scratch::new();
    scratch.file("pass", "no header\n");
    scratch.file("disk", (0..1u32 << 20).map(|n| (n / 512) as u8).collect::<Vec<_>>());
    scratch.bash("truncate -s 1M vol").ok();
    let plain = ["--type", "plain", "--cipher", "aes-xts-plain64", "--key-size", "256", "--hash", "sha256"];
    let with = |args: &[&str], pass: &[u8]| {
        scratch.atrest_with_input(&[args, &plain, &["--passphrase-fd", "0"]].concat(), pass)
    };
    with(&["encrypt", "--yes", "disk", "vol"], b"no header").ok();
    assert_ne!(fs::read(scratch.path("vol")).ok(), fs::read(scratch.path("disk")).ok());
    with(&["decrypt", "vol", "plain"], b"no header").ok();
    assert!(
        fs::read(scratch.path("plain")).ok() == fs::read(scratch.path("disk")).ok(),
        "the plaintext differs"
    );
    with(&["decrypt", "vol", "other"], b"another").ok();
    assert!(
        fs::read(scratch.path("other")).ok() != fs::read(scratch.path("disk")).ok(),
        "any passphrase opens it"
    );
    // Without a header nothing can be looked up.
    scratch.atrest(&["decrypt", "--type", "plain", "--key-file", "pass", "vol", "x"]).fails(1, "--cipher");
    scratch
        .atrest(&["decrypt", "--cipher", "aes-xts-plain64", "--key-file", "pass", "vol", "x"])
        .fails(1, "plain");
}

#[test]
fn files_are_copied_into_a_fat_volume() {
    let scratch = Scratch::new();
    scratch.file("key", "k");
    let format = ["format", "--size", "40M", "--key-file", "key", "vol"];
    scratch.atrest(&[&format[..], &CHEAP].concat()).ok();
    files(&scratch);
    fs::remove_file(scratch.path("files/link")).expect("FAT has no links");
    fs::create_dir(scratch.path("mnt")).expect("the mount point");
    let run = ["sh", "-c", "mkfs.vfat \"$ATREST_PATH\""];
    scratch
        .atrest(&[&["open", "vol", "--key-file", "key", "--fuse", "mnt", "--run"][..], &run].concat())
        .ok();
    let locked = |args: &[&str]| scratch.atrest(&[args, &["--key-file", "key"]].concat());
    locked(&["cp", "-r", "files", "vol:/"]).ok();
    assert_eq!(locked(&["cat", "vol", "/files/hello"]).ok().stdout, "hello, world\n");
    locked(&["cp", "-r", "vol:/files", "out"]).ok();
    scratch.bash("diff -r files out").ok();
    locked(&["decrypt", "vol", "plain"]).ok();
    scratch.tool("fsck.vfat", &["-n", "plain"]).ok();
}
