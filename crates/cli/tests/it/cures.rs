//! Refusals whose cure once was a wrong one, or none: what is said there helps.

use crate::common::{CHEAP, Ran, Scratch};

/// Fails unless the refusal says this and proposes that.
#[track_caller]
fn cure(ran: Ran, code: i32, what: &str, hint: &str) {
    assert_eq!((ran.code, ran.stderr), (code, format!("atrest: {what}\n  {hint}\n")));
}

#[test]
fn data_that_moves_by_a_wrong_distance_is_told_the_right_one() {
    let scratch = Scratch::with_volume();
    let before = std::fs::read(scratch.path("vol")).expect("the volume");
    let by = |distance: &str| {
        scratch.atrest(&["reencrypt", "vol", "--reduce-device-size", distance, "--key-file", "key", "--yes"])
    };
    cure(
        by("512"),
        1,
        "vol: --reduce-device-size 512 leaves a part of a sector or block",
        "give up a multiple of 4096 bytes",
    );
    cure(
        by("20M"),
        1,
        "vol: --reduce-device-size gives up 20971520 bytes, and the data has not that many",
        "`atrest info` shows the size of the data",
    );
    assert!(std::fs::read(scratch.path("vol")).expect("the volume") == before, "nothing was written");
}

#[test]
fn plaintext_without_room_for_the_header_is_told_how_much_there_is() {
    let scratch = Scratch::new();
    scratch.file("key", "k");
    scratch.file("plain", vec![0x5a; 20 << 20]);
    let by = |distance: &str| {
        let words = [
            "encrypt",
            "--in-place",
            "plain",
            "--reduce-device-size",
            distance,
            "--key-file",
            "key",
            "--yes",
        ];
        scratch.atrest(&[&words[..], &CHEAP].concat())
    };
    cure(
        by("1M"),
        1,
        "--reduce-device-size must be at least 2097152, of which the header takes half",
        "the header has room for its keyslots with 32M, as without the option; --header FILE needs no room on the device",
    );
    cure(
        by("20M"),
        1,
        "plain: 20971520 bytes are too few for --reduce-device-size 20971520",
        "--reduce-device-size 18874368 is the most there; --header FILE needs no room on the device",
    );
    let elsewhere = ["encrypt", "--in-place", "plain", "--data-offset", "1M", "--key-file", "key", "--yes"];
    cure(
        scratch.atrest(&elsewhere),
        1,
        "--data-offset is for data whose header is elsewhere",
        "--header FILE names the place of the header; without it the data moves by half of --reduce-device-size",
    );
    assert!(
        std::fs::read(scratch.path("plain")).expect("it is there") == vec![0x5a; 20 << 20],
        "nothing was written"
    );
    // What is proposed is possible.
    by("18874368").ok();
    scratch.atrest(&["key", "test", "plain", "--key-file", "key"]).ok();
    scratch.file("plain", vec![0x5a; 1 << 20]);
    cure(
        by("16M"),
        1,
        "plain: the device has 1048576 bytes, which are too few to give up the last 16777216 for the header",
        "use --header FILE, which needs no room on the device",
    );
}

#[test]
fn without_proc_a_volume_is_made_all_the_same() {
    let scratch = Scratch::new();
    scratch.file("key", "correct horse\n");
    scratch
        .bash(&format!(
            "unshare --mount sh -c 'mount -t tmpfs none /proc && $ATREST format --size 20M --key-file key {} vol'",
            CHEAP.join(" ")
        ))
        .ok();
    scratch.bash("cryptsetup open --test-passphrase --key-file key vol").ok();
    assert_eq!(scratch.bash("ls -A").ok().stdout, "key\nvol\n");
}

#[test]
fn factors_before_the_volume_and_volumes_without_factors() {
    let scratch = Scratch::with_volume();
    cure(
        scratch.atrest(&["key", "add", "--any", "2", "passphrase", "recovery", "vol"]),
        1,
        "the volume is missing: --any takes every word behind it for a factor",
        "name the volume first: atrest key add VOLUME --any 2 tpm2 passphrase",
    );
    cure(
        scratch.atrest(&["key", "replace", "vol", "1", "recovery", "--key-file", "key"]),
        1,
        "vol: the volume has no token with several factors",
        "`atrest key add --any 2 tpm2 fido2 passphrase` makes one; `atrest key change` replaces a passphrase",
    );
}

#[test]
fn a_decryption_that_stopped_before_it_wrote_anything_says_that_it_starts_again() {
    let scratch = Scratch::with_volume();
    // As a kill leaves it between the checkpoint and the file.
    scratch.atrest(&["decrypt", "vol", "whole", "--key-file", "key"]).ok();
    scratch.file("out.atrest-checkpoint", "{}");
    let again = scratch.atrest(&["decrypt", "vol", "out", "--key-file", "key"]).ok();
    assert!(
        again.stderr.contains("this run starts again; an interrupted run left out.atrest-checkpoint, and --resume goes on with it"),
        "{}",
        again.stderr
    );
    scratch.bash("cmp whole out").ok();
}
