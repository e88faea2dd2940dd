//! A header that describes data on another device is never served as if it were the volume, by whatever name it is given.

use std::fs;

use crate::common::{CHEAP, Ran, Scratch, luks2};

/// A detached header `h` of the data in `d`, for the key file `key`, and files for commands to work on.
fn detached(kind: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    scratch.bash("mkdir dir; head -c 65536 /dev/urandom > src").ok();
    let small = ["--luks2-keyslots-size", "1M"];
    let mut args = vec!["format", "--type", kind, "--key-file", "key", "--header", "h", "--size", "4M", "d"];
    args.extend(CHEAP);
    if kind == "luks2" {
        args.extend(small);
    }
    scratch.atrest(&args).ok();
    scratch
}

/// Every command that gives data out or takes it in.
const LINES: [&str; 11] = [
    "open $V --nbd ./sock $K --run true",
    "open $V --nbd ./sock $K --read-only --run true",
    "open $V --fuse dir $K --run true",
    "mount $V dir $K --run true",
    "encrypt $K src $V",
    "decrypt $K $V out",
    "ls $K $V /",
    "cat $K $V /f",
    "cp $K src $V:/f",
    "mkdir $K $V /m",
    "df $K $V",
];

fn run(scratch: &Scratch, volume: &str, key: &str, line: &str) -> Ran {
    scratch.bash(&format!("exec 5<>{volume}; V={volume}; K='{key}'; $ATREST {line}"))
}

/// Fails unless every command refuses the volume before it asks for a passphrase, and writes nothing.
fn refused(scratch: &Scratch, volume: &str, header: &str, lines: &[&str]) {
    let path = if volume.starts_with("/dev") { "h" } else { volume };
    let before = fs::read(scratch.path(path)).expect("the header");
    for line in lines {
        for key in ["key", "absent"] {
            // It is told before the passphrase is asked for, also from a key file that is not there.
            let ran = run(scratch, volume, &format!("--key-file {key} {header}"), line);
            // A file that a loop device has a part of is in use by that.
            let busy = volume.starts_with("/dev") != header.contains("/dev") && ran.code == 5;
            assert!(busy || ran.stderr.contains("would lie over the header"), "{line}: {}", ran.stderr);
            ran.fails(if busy { 5 } else { 4 }, if busy { "busy" } else { "--header" });
            assert!(
                fs::read(scratch.path(path)).expect("the header") == before,
                "{volume} {header}: {line} wrote"
            );
            assert!(!scratch.path("out").exists());
        }
    }
}

#[test]
fn a_detached_header_alone_is_refused_as_cryptsetup_refuses_it() {
    for kind in ["luks1", "luks2"] {
        let scratch = detached(kind);
        let peer = scratch.tool("cryptsetup", &["open", "--key-file", "key", "h", "nothing"]);
        peer.fails(1, "only for detached LUKS header");
        refused(&scratch, "h", "", &LINES);
        scratch.bash("cp h copy; ln h hard; ln -s h soft").ok();
        scratch.atrest(&["header", "backup", "h", "backup"]).ok();
        for name in ["backup", "copy", "hard", "soft"] {
            refused(&scratch, name, "", &LINES[..5]);
        }
        // The header can be looked at and its keys changed, and with the data it opens.
        scratch.atrest(&["info", "h"]).ok();
        scratch.atrest(&["key", "test", "--key-file", "key", "h"]).ok();
        scratch.atrest(&["encrypt", "--key-file", "key", "--header", "h", "src", "d"]).ok();
        scratch.bash("$ATREST decrypt --key-file key --header h d out && cmp -n 65536 src out").ok();
    }
}

#[test]
fn data_that_looks_like_flash_is_data_where_a_header_is_named() {
    let scratch = detached("luks2");
    scratch
        .bash("$ATREST format --type flash --size 1M --key-file key card && dd if=card of=d conv=notrunc")
        .ok();
    scratch.atrest(&["decrypt", "--key-file", "key", "d", "out"]).fails(4, "it is encrypted flash");
    scratch.atrest(&["decrypt", "--key-file", "key", "--header", "h", "d", "out"]).ok();
    assert_eq!(fs::metadata(scratch.path("out")).expect("the plaintext").len(), 4 << 20);
}

#[test]
fn header_and_data_are_one_file_by_whatever_path() {
    for kind in ["luks1", "luks2"] {
        let scratch = detached(kind);
        scratch.bash("ln h hard; ln -s h soft; ln -s hard softer").ok();
        for volume in ["h", "hard", "soft"] {
            for header in ["h", "./h", "hard", "softer", "/proc/self/fd/5"] {
                refused(&scratch, volume, &format!("--header {header}"), &LINES[..6]);
            }
        }
        // A volume with its header in front may name itself, by any path.
        scratch
            .atrest(&[
                "format",
                "--type",
                kind,
                "--size",
                "20M",
                "--key-file",
                "key",
                "v",
                CHEAP[0],
                CHEAP[1],
                CHEAP[2],
                CHEAP[3],
            ])
            .ok();
        scratch.bash("ln v vv").ok();
        for header in ["v", "vv", "/proc/self/fd/5"] {
            run(&scratch, "v", &format!("--key-file key --header {header}"), "encrypt $K src $V").ok();
        }
    }
}

#[test]
fn header_and_data_are_one_file_also_through_a_loop_device() {
    let scratch = detached("luks2");
    let attach = |more: &str| {
        let ran = scratch.bash(&format!("losetup -f --show {more} h")).ok();
        ran.stdout.trim_end().to_owned()
    };
    // The second one begins behind the first page of the header, so that it is another device with a part of the same bytes.
    for more in ["", "-o 4096"] {
        let device = attach(more);
        let refuse = || {
            refused(&scratch, &device, "--header h", &LINES[..6]);
            if more.is_empty() {
                refused(&scratch, &device, "", &LINES[..6]);
                refused(&scratch, "h", &format!("--header {device}"), &LINES[..6]);
            }
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(refuse));
        scratch.bash(&format!("losetup -d {device}")).ok();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

#[test]
fn an_offset_of_zero_that_somebody_set_is_refused() {
    let scratch = detached("luks2");
    let mut args = vec!["format", "--size", "20M", "--key-file", "key", "v"];
    args.extend(CHEAP);
    scratch.atrest(&args).ok();
    let image = fs::read(scratch.path("v")).expect("the volume");
    let moved = luks2::with(&image, |metadata| metadata["segments"]["0"]["offset"] = "0".into());
    scratch.file("moved", moved);
    refused(&scratch, "moved", "", &LINES);
    // Two segments, of which one is where it belongs.
    let second = luks2::with(&image, |metadata| {
        let mut first = metadata["segments"]["0"].clone();
        metadata["segments"]["1"] = first.clone();
        first["size"] = "4096".into();
        first["offset"] = "0".into();
        metadata["segments"]["0"] = first;
        metadata["digests"]["0"]["segments"] = serde_json::json!(["0", "1"]);
    });
    scratch.file("second", second);
    refused(&scratch, "second", "", &LINES);
}

#[test]
fn nothing_is_reencrypted_formatted_or_restored_over_its_own_header() {
    let scratch = detached("luks2");
    scratch.bash("ln h hard").ok();
    let before = fs::read(scratch.path("h")).expect("the header");
    let cheap = CHEAP.join(" ");
    let run = |line: &str| scratch.bash(&format!("$ATREST {line} --key-file key {cheap}"));
    // cryptsetup 2.6.1 does it, and destroys the header.
    run("reencrypt h").fails(4, "would lie over the header");
    run("reencrypt --header hard h").fails(1, "--header names the volume itself");
    run("format --yes --header hard h").fails(1, "--header names the volume itself");
    scratch.atrest(&["header", "backup", "h", "backup"]).ok();
    scratch.bash("head -c 4M /dev/urandom > data").ok();
    let data = fs::read(scratch.path("data")).expect("the data");
    for more in ["", "--replace-other-volume", "--header data"] {
        let ran = scratch.bash(&format!("$ATREST --yes header restore data backup {more}"));
        ran.fails(4, "would overwrite the beginning of the data");
        assert!(
            fs::read(scratch.path("data")).expect("the data") == data,
            "{more}: the data was overwritten"
        );
    }
    scratch.bash("$ATREST --yes header restore h backup").ok();
    scratch.bash("truncate -s 2M new; $ATREST --yes header restore --header new d backup").ok();
    assert!(fs::read(scratch.path("new")).expect("the header")[32768..1 << 20] == before[32768..1 << 20]);
    // The header file of data that was encrypted where it is.
    scratch.bash("mke2fs -q -t ext4 -O ^has_journal fs 4M").ok();
    run("encrypt --in-place --yes fs --header hp").ok();
    refused(&scratch, "hp", "", &LINES);
    run("reencrypt hp").fails(4, "would lie over the header");
}
