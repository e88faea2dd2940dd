//! Sealed volumes, by the URL of their store: made, opened, filled and read by every command that takes a volume, and refused where an
//! older state is put back.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::common::{CHEAP, Scratch};

const KEY: [&str; 2] = ["--key-file", "key"];
const STORE: [&str; 2] = ["--store", "store"];

struct Volume {
    scratch: Scratch,
    url: String,
}

impl Volume {
    /// A volume of 64 MiB with a trusted store.
    fn new() -> Self {
        let scratch = Scratch::new();
        scratch.file("key", b"correct horse\n");
        let url = format!("file://{}", scratch.path("vol").display());
        let volume = Self { scratch, url };
        volume.run(&["format"], &[&["--type", "sealed", "--size", "64M"], &STORE[..], &CHEAP].concat()).ok();
        volume
    }

    /// A command on the volume, with its key.
    fn run(&self, command: &[&str], options: &[&str]) -> crate::common::Ran {
        self.scratch.atrest(&[command, &[&self.url], &KEY, options].concat())
    }

    /// A command on the volume, with its key and its trusted store.
    fn with_store(&self, command: &[&str], options: &[&str]) -> crate::common::Ran {
        self.run(command, &[&STORE, options].concat())
    }

    /// An ext4 image with a file `name`, encrypted into the volume.
    fn fill(&self, name: &str, contents: &[u8]) {
        let scratch = &self.scratch;
        fs::create_dir_all(scratch.path("files")).expect("a directory");
        fs::write(scratch.path("files").join(name), contents).expect("a file");
        scratch.file("plain", []);
        scratch.tool("truncate", &["-s", "64M", "plain"]).ok();
        scratch.tool("mke2fs", &["-q", "-t", "ext4", "-d", "files", "plain"]).ok();
        scratch.atrest(&[&["encrypt", "plain", &self.url, "--yes"], &KEY[..], &STORE].concat()).ok();
    }

    fn copy(&self, to: &str) {
        self.scratch.tool("cp", &["-a", "vol", to]).ok();
    }
}

fn count(directory: &Path) -> usize {
    fs::read_dir(directory).expect("a directory").count()
}

#[test]
fn a_file_that_goes_in_comes_out_by_name_and_the_volume_comes_out_whole() {
    let volume = Volume::new();
    let numbers: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    volume.fill("numbers", &numbers);
    assert!(volume.with_store(&["ls"], &[]).ok().stdout.contains("numbers"));
    let scratch = &volume.scratch;
    let read = scratch.atrest(&[&["cat", &volume.url, "/numbers"], &KEY[..], &STORE].concat()).ok();
    assert!(read.raw == numbers);
    let source = format!("{}:/numbers", volume.url);
    scratch.atrest(&[&["cp", &source, "out"], &KEY[..], &STORE].concat()).ok();
    assert!(scratch.read("out") == numbers);
    scratch.atrest(&[&["decrypt", &volume.url, "whole"], &KEY[..], &STORE].concat()).ok();
    scratch.tool("cmp", &["plain", "whole"]).ok();
    scratch.tool("e2fsck", &["-fn", "whole"]).ok();
    // Holes stay holes on the way in and out: most of the file system was never written.
    let taken = fs::metadata(scratch.path("whole")).expect("the file").blocks() * 512;
    assert!(taken < 32 << 20, "{taken} bytes");
    volume.with_store(&["scrub"], &[]).ok();
    // What was never written takes no room, and nothing of what was is readable.
    let info = scratch.atrest(&["info", "--json", &volume.url]).ok().json();
    assert!(info["stored"]["log_objects"]["bytes"].as_u64().expect("bytes") < 8 << 20, "{info}");
    let found = scratch.bash("grep -rl numbers vol || true").ok();
    assert_eq!(found.stdout, "");
}

#[test]
fn keyslots_lie_in_the_store_and_are_changed_as_those_of_every_volume() {
    let volume = Volume::new();
    let scratch = &volume.scratch;
    scratch.file("second", b"battery staple\n");
    volume.run(&["key", "test"], &[]).ok();
    volume.run(&["key", "add"], &[&["--new-key-file", "second"], &CHEAP[..]].concat()).ok();
    assert_eq!(volume.scratch.atrest(&["key", "list", "--json", &volume.url]).ok().json()[1]["id"], 1);
    let second = ["--key-file", "second"];
    scratch.atrest(&[&["key", "test", &volume.url], &second[..]].concat()).ok();
    scratch.atrest(&[&["key", "remove", &volume.url], &KEY[..]].concat()).ok();
    volume.run(&["key", "test"], &[]).fails(2, "passphrase");
    scratch.atrest(&[&["ls", &volume.url], &second[..], &STORE].concat()).fails(4, "file");
    // The header that had the passphrase is gone, and a header is one object.
    assert_eq!(count(&scratch.path("vol/h")), 1);
    // cryptsetup shows what it is, finds the passphrase right, and changes nothing.
    let header = scratch.bash("echo vol/h/*").ok().stdout.trim().to_owned();
    let dump = scratch.tool("cryptsetup", &["luksDump", &header]);
    assert!(dump.stdout.contains("atrest-sealed"), "{}{}", dump.stdout, dump.stderr);
    scratch.tool("cryptsetup", &["open", "--test-passphrase", "--key-file", "second", &header]).ok();
    let before = scratch.read(&header);
    let changed = scratch.tool("cryptsetup", &["-q", "luksAddKey", "--key-file", "second", &header, "key"]);
    assert!(changed.code != 0 && changed.stderr.contains("requirements"), "{}", changed.stderr);
    assert!(scratch.read(&header) == before);
    // In a file of its own it is no volume.
    scratch.atrest(&[&["ls", &header], &second[..]].concat()).fails(4, "sealed volume");
}

#[test]
fn an_older_state_is_refused_by_the_trusted_store_and_read_only_by_request() {
    let volume = Volume::new();
    volume.fill("first", b"1");
    volume.copy("old");
    volume.fill("second", b"2");
    let scratch = &volume.scratch;
    scratch.tool("mv", &["vol", "new"]).ok();
    scratch.tool("mv", &["old", "vol"]).ok();
    volume.with_store(&["ls"], &[]).fails(4, "older state");
    // Without the store it is not opened by mistake, and never written.
    volume.run(&["ls"], &[]).fails(1, "trusted store");
    let listed = volume.run(&["ls"], &["--without-freshness"]).ok().stdout;
    assert!(listed.contains("first") && !listed.contains("second"), "{listed}");
    volume.run(&["mkdir"], &["/x", "--without-freshness"]).fails(1, "--without-freshness is for reading");
    scratch.tool("rm", &["-r", "vol"]).ok();
    scratch.tool("mv", &["new", "vol"]).ok();
    assert!(volume.with_store(&["ls"], &[]).ok().stdout.contains("second"));
    // An object that is missing, and one of which a bit is changed, are told.
    scratch.bash("for f in $(ls vol/l | sort | tail -n 3); do printf x | dd of=vol/l/$f bs=1 seek=5000 conv=notrunc; done").ok();
    assert_ne!(volume.with_store(&["scrub"], &[]).code, 0);
}

#[test]
fn a_snapshot_keeps_what_was_and_its_room_comes_back_when_it_goes() {
    let volume = Volume::new();
    let noise: Vec<u8> = (0..4_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    volume.fill("monday", &noise);
    let scratch = &volume.scratch;
    let snapshot = |words: &[&str]| scratch.atrest(&[&["snapshot"], words, &KEY[..], &STORE].concat());
    snapshot(&["add", &volume.url, "monday"]).ok();
    snapshot(&["add", &volume.url, "monday"]).fails(1, "already");
    fs::remove_file(scratch.path("files/monday")).expect("it is gone");
    volume.fill("tuesday", b"2");
    assert!(volume.with_store(&["ls"], &["--snapshot", "monday"]).ok().stdout.contains("monday"));
    assert!(!volume.with_store(&["ls"], &[]).ok().stdout.contains("monday"));
    volume.with_store(&["mkdir"], &["/x", "--snapshot", "monday"]).fails(1, "read");
    let over = scratch.atrest(
        &[&["encrypt", "plain", &volume.url, "--snapshot", "monday", "--yes"], &KEY[..], &STORE].concat(),
    );
    assert_ne!(over.code, 0, "{}", over.stderr);
    volume.with_store(&["ls"], &["--snapshot", "friday"]).fails(1, "no such snapshot");
    assert_eq!(snapshot(&["list", &volume.url, "--json"]).ok().json()[0]["name"], "monday");
    let bytes = || {
        let info = scratch.atrest(&["info", "--json", &volume.url]).ok().json();
        info["stored"]["log_objects"]["bytes"].as_u64().expect("bytes")
    };
    // Who reads would miss what is deleted, and who deletes keeps those who would read away.
    let lock = fs::File::open(scratch.path("vol/t/readers")).expect("somebody has read");
    lock.lock_shared().expect("a lock");
    volume.with_store(&["gc"], &[]).fails(5, "open for reading");
    lock.unlock().expect("it was locked");
    lock.lock().expect("a lock");
    volume.with_store(&["ls"], &[]).fails(5, "open for writing");
    snapshot(&["list", &volume.url]).fails(5, "open for writing");
    volume.with_store(&["ls"], &["--snapshot", "monday"]).fails(5, "open for writing");
    drop(lock);
    volume.with_store(&["gc"], &[]).ok();
    let kept = bytes();
    assert!(kept > 4_000_000, "{kept}");
    let source = format!("{}:/monday", volume.url);
    scratch.atrest(&[&["cp", &source, "back", "--snapshot", "monday"], &KEY[..], &STORE].concat()).ok();
    assert!(scratch.read("back") == noise);
    snapshot(&["remove", &volume.url, "monday"]).ok();
    volume.with_store(&["gc"], &[]).ok();
    assert!(bytes() + 3_500_000 < kept, "{} of {kept}", bytes());
    assert!(volume.with_store(&["ls"], &[]).ok().stdout.contains("tuesday"));
    assert!(volume.with_store(&["gc"], &["--dry-run", "--json"]).ok().json()["dead_percent"].is_u64());
}

#[test]
fn a_volume_grows_and_a_store_is_handed_over() {
    let volume = Volume::new();
    volume.fill("first", b"1");
    let scratch = &volume.scratch;
    scratch.atrest(&[&["resize", &volume.url, "--size", "80M"], &KEY[..], &STORE].concat()).ok();
    scratch.atrest(&[&["decrypt", &volume.url, "whole"], &KEY[..], &STORE].concat()).ok();
    assert_eq!(fs::metadata(scratch.path("whole")).expect("it").len(), 80 << 20);
    scratch.atrest(&[&["resize", &volume.url, "--size", "4097"], &KEY[..], &STORE].concat()).fails(1, "size");
    let hand_over = |to: &str| {
        scratch.atrest(&["hand-over", &volume.url, "--store", "store", "--to", to, "--key-file", "key"])
    };
    hand_over("other").ok();
    volume.with_store(&["ls"], &[]).fails(4, "older than the volume");
    assert!(volume.run(&["ls"], &["--store", "other"]).ok().stdout.contains("first"));
    // Killed after the new store named its first state, and before the end: it is finished.
    assert!(hand_over("other").ok().stdout.contains("an earlier hand-over is finished"));
    volume.with_store(&["ls"], &[]).fails(4, "older than the volume");
    assert!(volume.run(&["ls"], &["--store", "other"]).ok().stdout.contains("first"));
    // A store that is behind, or another volume's, is not taken for one that is being handed over to.
    let from = |store: &str, to: &str| {
        scratch.atrest(&["hand-over", &volume.url, "--store", store, "--to", to, "--key-file", "key"])
    };
    from("other", "store").fails(5, "trusted store of a volume already");
    let second = format!("file://{}", scratch.path("second").display());
    let format = ["format", &second, "--type", "sealed", "--size", "64M", "--store", "seconds"];
    scratch.atrest(&[&format[..], &KEY, &CHEAP].concat()).ok();
    from("other", "seconds").fails(5, "trusted store of a volume already");
    from("store", "third").fails(4, "older than the volume");
}

/// Its header objects gone or damaged, a volume opens again with a backup of its header. No other backup is restored there.
#[test]
fn a_header_that_is_gone_or_damaged_is_restored_from_its_backup() {
    let volume = Volume::new();
    volume.fill("file", b"1");
    let scratch = &volume.scratch;
    scratch.atrest(&["header", "backup", &volume.url, "backup"]).ok();
    scratch.file("luks", []);
    scratch.tool("truncate", &["-s", "32M", "luks"]).ok();
    scratch.atrest(&[&["format", "luks", "--yes"], &KEY[..], &CHEAP].concat()).ok();
    scratch.atrest(&["header", "backup", "luks", "other"]).ok();
    for damage in [
        "rm vol/h/*",
        "rm -r vol/h",
        "for f in vol/h/*; do dd if=/dev/zero of=$f bs=64K count=32 conv=notrunc; done",
        "for f in vol/h/*; do truncate -s 100 $f; done",
    ] {
        scratch.bash(damage).ok();
        assert_ne!(volume.with_store(&["ls"], &[]).code, 0, "{damage}");
        let restore = ["header", "restore", &volume.url, "--yes"];
        let other = scratch.atrest(&[&restore[..], &["other", "--replace-other-volume"]].concat());
        other.fails(4, "not of a sealed volume");
        scratch.atrest(&[&restore[..], &["backup"]].concat()).ok();
        assert!(volume.with_store(&["ls"], &[]).ok().stdout.contains("file"), "{damage}");
        assert_eq!(count(&scratch.path("vol/h")), 1, "{damage}");
    }
}

#[test]
fn what_is_no_store_or_does_not_go_with_one_is_refused_before_anything_is_written() {
    let volume = Volume::new();
    let scratch = &volume.scratch;
    let format = |url: &str, options: &[&str]| {
        scratch.atrest(&[&["format", url, "--key-file", "key"], options, &CHEAP[..]].concat())
    };
    let sealed = ["--type", "sealed", "--size", "1M"];
    format(&volume.url, &sealed).fails(5, "not empty");
    let new = format!("file://{}", scratch.path("new").display());
    format(&new, &["--size", "1M"]).fails(1, "--type sealed");
    format(&new, &["--type", "sealed"]).fails(1, "--size");
    format(&new, &["--type", "sealed", "--size", "1100000T"]).fails(1, "1 EiB");
    format(&new, &[&sealed[..], &["--cipher", "aes-xts-plain64"]].concat()).fails(1, "AES-256-GCM");
    format("file://relative", &sealed).fails(1, "absolute path");
    assert!(!scratch.path("new").exists());
    scratch.atrest(&["info", &new]).fails(4, "directory is not there");
    fs::create_dir(scratch.path("empty")).expect("a directory");
    let empty = format!("file://{}", scratch.path("empty").display());
    scratch.atrest(&["info", &empty]).fails(4, "no sealed volume");
    assert_eq!(count(&scratch.path("empty")), 0);
    // Of another kind of volume, and of another volume.
    volume.with_store(&["ls"], &["--header", "key"]).fails(1, "header");
    // A header of another kind in the store: whoever knows its passphrase gets nothing by it.
    let other = ["format", "head", "--size", "2M", "--key-file", "key", "--luks2-keyslots-size", "1M"];
    scratch.atrest(&[&other[..], &["--offset", "3072"], &CHEAP].concat()).ok();
    scratch.bash("cp head vol/h/0000000000000009").ok();
    volume.with_store(&["ls"], &[]).fails(4, "sealed volume");
    volume.run(&["key", "test"], &[]).ok();
    scratch.bash("rm vol/h/0000000000000009").ok();
    volume.with_store(&["open"], &["--dm", "x"]).fails(1, "no kernel knows sealed volumes");
    assert_ne!(scratch.atrest(&["convert", &volume.url, "--type", "luks1"]).code, 0);
    let header = || scratch.bash("cat vol/h/* | sha256sum").ok().stdout;
    let before = header();
    assert_ne!(volume.run(&["reencrypt"], &["--yes"]).code, 0);
    assert_eq!(header(), before);
}

#[test]
fn a_clone_goes_its_own_way_and_stands_alone_once_it_is_flattened() {
    let volume = Volume::new();
    let scratch = &volume.scratch;
    volume.fill("numbers", b"one two three");
    volume.with_store(&["snapshot", "add"], &["monday"]).ok();
    scratch.file("new-key", b"battery staple\n");
    let clone = format!("file://{}", scratch.path("clone").display());
    let new_key = ["--new-key-file", "new-key"];
    let make = |to: &str, name: &str| {
        scratch.atrest(
            &[
                &["clone", &volume.url, name, to][..],
                &KEY,
                &STORE,
                &new_key,
                &["--new-store", "store2"],
                &CHEAP,
            ]
            .concat(),
        )
    };
    make(&clone, "sunday").fails(1, "no such snapshot");
    assert!(!scratch.path("clone").exists());
    let made = make(&clone, "monday").ok();
    make(&clone, "monday").fails(5, "not empty");
    let on_clone = |command: &[&str], options: &[&str]| {
        let own = ["--key-file", "new-key", "--store", "store2"];
        scratch.atrest(&[command, &[&clone], &own, options].concat())
    };
    // What the snapshot held, under a passphrase of its own, and nothing was copied.
    assert!(on_clone(&["ls"], &[]).ok().stdout.contains("numbers"));
    assert_eq!(count(&scratch.path("clone/l")), 0);
    scratch.atrest(&[&["ls", &clone], &KEY[..], &["--store", "store2"]].concat()).fails(2, "passphrase");
    // The parent is filled with something else, and keeps the snapshot.
    fs::remove_file(scratch.path("files/numbers")).expect("removed");
    volume.fill("others", &[7; 100_000]);
    let refused = volume.with_store(&["snapshot", "remove"], &["monday"]);
    refused.fails(5, "clones of the snapshot");
    volume.with_store(&["gc"], &[]).ok();
    assert!(on_clone(&["ls"], &[]).ok().stdout.contains("numbers"));
    // Without its parent it is refused; flattened, it needs none.
    fs::rename(scratch.path("vol"), scratch.path("away")).expect("renamed");
    on_clone(&["ls"], &[]).fails(4, "clone of another one");
    fs::rename(scratch.path("away"), scratch.path("vol")).expect("renamed");
    on_clone(&["flatten"], &[]).ok();
    on_clone(&["flatten"], &[]).fails(1, "stands alone");
    let id = made.stdout.trim().rsplit(' ').next().expect("the identifier").to_owned();
    assert!(volume.with_store(&["snapshot", "list"], &[]).ok().stdout.contains(&id));
    let release = |id: &str| volume.with_store(&["snapshot", "release"], &[id, "--yes"]);
    release("zz").fails(1, "32 hexadecimal digits");
    release(&id).ok();
    release(&id).fails(1, "no snapshot is kept");
    volume.with_store(&["snapshot", "remove"], &["monday"]).ok();
    volume.with_store(&["gc"], &[]).ok();
    fs::rename(scratch.path("vol"), scratch.path("away")).expect("renamed");
    let read =
        scratch.atrest(&["cat", &clone, "/numbers", "--key-file", "new-key", "--store", "store2"]).ok();
    assert_eq!(read.raw, b"one two three");
}

#[test]
fn another_volume_key_opens_what_is_written_from_then_on_and_the_old_one_nothing() {
    let volume = Volume::new();
    let scratch = &volume.scratch;
    volume.fill("numbers", b"one two three");
    scratch.file("new-key", b"battery staple\n");
    let before = scratch.atrest(&["info", "--json", &volume.url]).ok().json();
    scratch.atrest(&["header", "backup", &volume.url, "old-header"]).ok();
    volume.run(&["key", "add"], &[&["--new-key-file", "new-key"], &CHEAP[..]].concat()).ok();
    let done =
        volume.with_store(&["rekey"], &[&["--new-key-file", "new-key", "--yes"], &CHEAP[..]].concat()).ok();
    assert!(done.stdout.contains("a new volume key"), "{}", done.stdout);
    let after = scratch.atrest(&["info", "--json", &volume.url]).ok().json();
    assert_eq!(before["uuid"], after["uuid"]);
    assert_ne!(before["digests"], after["digests"]);
    assert_eq!(after["keyslots"].as_array().map(Vec::len), Some(1));
    volume.with_store(&["ls"], &[]).fails(2, "passphrase");
    let new = ["--key-file", "new-key"];
    let read = || scratch.atrest(&[&["cat", &volume.url, "/numbers"], &new[..], &STORE].concat());
    assert_eq!(read().ok().raw, b"one two three");
    scratch.atrest(&[&["scrub", &volume.url], &new[..], &STORE].concat()).ok();
    // The old header holds a key that opens nothing any more.
    scratch.atrest(&["header", "backup", &volume.url, "new-header"]).ok();
    scratch.atrest(&["header", "restore", &volume.url, "old-header", "--yes"]).ok();
    volume.with_store(&["ls"], &[]).fails(4, "no checkpoint");
    scratch.atrest(&["header", "restore", &volume.url, "new-header", "--yes"]).ok();
    assert_eq!(read().ok().raw, b"one two three");
}

/// It takes its room when it is made: a disk that becomes full later takes nothing from it.
#[test]
fn a_journal_that_finds_no_room_is_not_made_and_the_hint_says_how_it_gets_smaller() {
    let volume = Volume::new();
    fs::create_dir(volume.scratch.path("small")).expect("a directory");
    let open =
        format!("$ATREST open {} --nbd --key-file key --store store --journal small/journal", volume.url);
    let full = "mount -t tmpfs -o size=1M none small";
    let refused =
        volume.scratch.bash(&format!("unshare --mount bash -c '{full} && {open}; ls small >&2; exit 1'"));
    assert!(refused.stderr.contains("no space is left"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--journal-size"), "{}", refused.stderr);
    volume.run(&["info"], &[]).ok();
}
