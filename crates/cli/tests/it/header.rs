//! The header as a whole: what a restore may replace, what a change of names and tokens does, and what is shown of it.

use std::fs;

use crate::common::{CHEAP, Scratch};

/// A LUKS2 header with this UUID and this start of the data, in MiB, in a volume of 40 MiB.
fn volume(scratch: &Scratch, name: &str, uuid: &str, data_mib: u64) {
    let offset = format!("{}", data_mib * 2048);
    let mut args = vec!["format", "--size", "40M", "--key-file", "key", "--uuid", uuid, "--offset", &offset];
    args.extend(CHEAP);
    args.push(name);
    scratch.atrest(&args).ok();
}

#[test]
fn yes_does_not_restore_the_header_of_another_volume_or_layout() {
    const OURS: &str = "2e8a3a4c-6f0e-4b55-9c9c-3d0a0c6f2a11";
    const OTHER: &str = "2e8a3a4c-6f0e-4b55-9c9c-3d0a0c6f2a12";
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse");
    volume(&scratch, "vol", OURS, 16);
    for (name, uuid, data_mib, says) in
        [("moved", OURS, 8, "another data offset"), ("other", OTHER, 16, "another volume")]
    {
        volume(&scratch, name, uuid, data_mib);
        scratch.atrest(&["header", "backup", name, &format!("{name}.header")]).ok();
        let before = fs::read(scratch.path("vol")).expect("the volume");
        let backup = format!("{name}.header");
        scratch.atrest(&["header", "restore", "--yes", "vol", &backup]).fails(4, says);
        assert!(fs::read(scratch.path("vol")).expect("the volume") == before, "{name} was written");
        let forced = ["header", "restore", "--replace-other-volume", "vol", &backup];
        scratch.atrest(&forced).fails(1, "--yes");
        assert!(fs::read(scratch.path("vol")).expect("the volume") == before, "{name} was written");
        scratch.bash("cp vol copy").ok();
        let forced = ["header", "restore", "--replace-other-volume", "--yes", "copy", &backup];
        scratch.atrest(&forced).ok();
        assert_eq!(scratch.atrest(&["info", "--json", "copy"]).ok().json()["uuid"], uuid);
    }
}

#[test]
fn a_luks2_backup_is_another_volume_to_a_luks1_volume() {
    let scratch = Scratch::with_volume_of("luks1");
    volume(&scratch, "two", "2e8a3a4c-6f0e-4b55-9c9c-3d0a0c6f2a11", 16);
    scratch.atrest(&["header", "backup", "two", "two.header"]).ok();
    let before = fs::read(scratch.path("vol")).expect("the volume");
    scratch.atrest(&["header", "restore", "--yes", "vol", "two.header"]).fails(4, "another volume");
    assert!(fs::read(scratch.path("vol")).expect("the volume") == before);
    scratch.atrest(&["header", "restore", "--yes", "--replace-other-volume", "vol", "two.header"]).ok();
    assert_eq!(scratch.atrest(&["info", "--json", "vol"]).ok().json()["format"], "luks2");
}

#[test]
fn names_are_set_all_together_or_not_at_all() {
    let scratch = Scratch::with_volume();
    let before = fs::read(scratch.path("vol")).expect("the volume");
    let sequence = |scratch: &Scratch| {
        scratch.atrest(&["info", "--json", "vol"]).ok().json()["sequence"].as_u64().expect("a number")
    };
    let first = sequence(&scratch);
    scratch.atrest(&["header", "set", "vol", "--label", "x", "--uuid", "bad"]).fails(1, "UUID");
    assert!(fs::read(scratch.path("vol")).expect("the volume") == before, "half of it was done");
    let uuid = "2e8a3a4c-6f0e-4b55-9c9c-3d0a0c6f2a11";
    scratch.atrest(&["header", "set", "vol", "--label", "x", "--uuid", uuid]).ok();
    assert_eq!(sequence(&scratch), first + 1, "one change of the header");

    let old = Scratch::with_volume_of("luks1");
    let before = fs::read(old.path("vol")).expect("the volume");
    old.atrest(&["header", "set", "vol", "--label", "x", "--uuid", uuid]).fails(1, "format");
    assert!(fs::read(old.path("vol")).expect("the volume") == before);
}

#[test]
fn an_iteration_time_of_zero_is_the_default() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse");
    let kdf = |name: &str, time: &str, pbkdf: &str| {
        let mut args = vec!["format", "--size", "20M", "--key-file", "key", "-i", time, "--pbkdf", pbkdf];
        args.extend(["--pbkdf-memory", "131072", name]);
        scratch.atrest(&args).ok();
        scratch.atrest(&["info", "--json", name]).ok().json()["keyslots"][0]["kdf"].clone()
    };
    let iterations = kdf("zero", "0", "pbkdf2")["iterations"].as_u64().expect("a number");
    assert!(iterations > 20_000, "two seconds are more than {iterations} iterations anywhere");
    // The least that a short time gives, as in cryptsetup.
    assert_eq!(kdf("short", "1", "argon2id")["memory_kib"], 65536);
}

#[test]
fn what_is_wrong_with_a_cipher_is_said_when_a_volume_is_made_and_shown() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse");
    for (cipher, warns, says) in [
        ("speck128-xts-plain64", true, "speck128-xts-plain64 (not recommended), key"),
        ("noekeon-xts-plain64", true, "noekeon-xts-plain64 (not recommended), key"),
        ("camellia-xts-plain64", false, "camellia-xts-plain64 (not constant-time), key"),
        ("capi:cts(cbc(aes))-plain64", false, "capi:cts(cbc(aes))-plain64, key"),
    ] {
        let mut args = vec!["format", "--yes", "--size", "20M", "--key-file", "key", "--cipher", cipher];
        args.extend(CHEAP);
        args.push("vol");
        let made = scratch.atrest(&args).ok();
        assert_eq!(made.stderr.contains("not recommended for new volumes"), warns, "{}", made.stderr);
        let shown = scratch.atrest(&["info", "vol"]).ok();
        assert!(shown.stdout.contains(says), "{}", shown.stdout);
        // Opening needs nothing to be said.
        let read = scratch.atrest(&["key", "test", "--key-file", "key", "vol"]).ok();
        assert!(!read.stderr.contains("recommended"), "{}", read.stderr);
        fs::remove_file(scratch.path("vol")).expect("remove the volume");
    }
}

#[test]
fn labels_uuid_and_priority_are_set() {
    let scratch = Scratch::with_volume();
    let uuid = "2e8a3a4c-6f0e-4b55-9c9c-3d0a0c6f2a11";
    scratch
        .atrest(&["header", "set", "--label", "archive", "--subsystem", "tape", "--uuid", uuid, "vol"])
        .ok();
    let info = scratch.atrest(&["info", "--json", "vol"]).ok().json();
    assert_eq!(
        (&info["label"], &info["subsystem"], &info["uuid"]),
        (&"archive".into(), &"tape".into(), &uuid.into())
    );
    let dump = scratch.tool("cryptsetup", &["luksDump", "vol"]).ok().stdout;
    assert!(dump.contains("archive") && dump.contains("tape") && dump.contains(uuid), "{dump}");
    scratch.atrest(&["header", "set", "vol"]).fails(1, "--label");
    scratch.atrest(&["key", "priority", "vol", "0", "ignore"]).ok();
    scratch.atrest(&["key", "test", "--key-file", "key", "vol"]).fails(1, "no keyslot that could be tried");
    scratch.atrest(&["key", "test", "--key-file", "key", "--key-slot", "0", "vol"]).ok();
    scratch.atrest(&["key", "priority", "vol", "0", "prefer"]).ok();
    assert!(scratch.tool("cryptsetup", &["luksDump", "vol"]).ok().stdout.contains("Priority:   preferred"));
    scratch.atrest(&["key", "priority", "vol", "7", "prefer"]).fails(1, "keyslot 7");
    let old = Scratch::with_volume_of("luks1");
    old.atrest(&["header", "set", "--label", "x", "vol"]).fails(1, "format");
    old.atrest(&["key", "priority", "vol", "0", "prefer"]).fails(1, "format");
}

#[test]
fn tokens_go_in_and_come_out_as_they_were() {
    let scratch = Scratch::with_volume();
    let token = r#"{"type":"my-token","keyslots":["0"],"note":"as it was"}"#;
    scratch.file("token", token);
    assert_eq!(scratch.atrest(&["token", "import", "--json", "vol", "token"]).ok().json()["token"], 0);
    let over_stdin = ["token", "import", "--token-id", "4", "vol"];
    scratch.atrest_with_input(&over_stdin, token.as_bytes()).ok();
    scratch.atrest_with_input(&over_stdin, token.as_bytes()).fails(5, "--token-replace");
    scratch.atrest_with_input(&[&over_stdin[..], &["--token-replace"]].concat(), token.as_bytes()).ok();
    let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    assert_eq!(parsed(&scratch.atrest(&["token", "export", "vol", "0"]).ok().stdout), parsed(token));
    let theirs = scratch.tool("cryptsetup", &["token", "export", "--token-id", "4", "vol"]).ok().stdout;
    assert_eq!(parsed(&theirs), parsed(token));
    scratch.atrest(&["token", "export", "vol", "0", "out"]).ok();
    assert_eq!(scratch.mode("out"), 0o600);
    assert_eq!(
        scratch.atrest(&["token", "list", "--json", "vol"]).ok().json().as_array().map(Vec::len),
        Some(2)
    );
    scratch.atrest(&["token", "remove", "vol", "0"]).ok();
    scratch.atrest(&["token", "remove", "vol", "0"]).fails(1, "token 0");
    scratch.atrest(&["token", "export", "vol", "0"]).fails(1, "token 0");
    scratch.file("bad", r#"{"no":"type"}"#);
    scratch.atrest(&["token", "import", "vol", "bad"]).fails(1, "token");
    Scratch::with_volume_of("luks1").atrest(&["token", "remove", "vol", "0"]).fails(1, "format");
}
