//! Policies and protectors from the command line, of a filesystem that google/fscrypt itself set up
//! (crates/tree/tests/protectors/make.sh).

use crate::common::{Ran, Scratch};

/// `data.img` and `system.img`, and the secrets of their protectors.
fn made_by_fscrypt() -> Scratch {
    let scratch = Scratch::new();
    scratch.tool("fscrypt", &["--version"]).ok();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tree/tests/protectors/make.sh");
    scratch.bash(&format!("unshare --mount --propagation private bash '{script}' \"$PWD\"")).ok();
    scratch.bash("chmod 600 raw.key recovery").ok();
    for (name, secret) in [
        ("mine.txt", "correct horse\n"),
        ("second.txt", "battery staple"),
        ("old.txt", "open sesame\n"),
        ("lanes.txt", "many lanes\n"),
        ("login.txt", "lögin pass\n"),
    ] {
        scratch.file(name, secret);
    }
    scratch
}

#[test]
fn what_fscrypt_lists_is_listed() {
    let scratch = made_by_fscrypt();
    let status = scratch.bash("cat status").ok().stdout;

    let report = scratch.atrest(&["tree", "policies", "--json", "data.img"]).ok().json();
    let text = scratch.atrest(&["tree", "policies", "data.img"]).ok().stdout;
    let list = |name: &str| report[name].as_array().expect("a list").clone();
    assert_eq!((list("policies").len(), list("protectors").len(), list("links").len()), (6, 6, 1));
    assert_eq!(list("damaged").len(), 0);
    for policy in list("policies") {
        let name = policy["descriptor"].as_str().expect("text");
        let old = name.len() == 16;
        assert!(status.contains(name) && text.contains(name), "{name}: {status}");
        assert_eq!(policy["version"], if old { 1 } else { 2 });
        assert_eq!(policy["padding"], if old { 16 } else { 32 });
        assert_eq!(
            (&policy["contents"], &policy["names"]),
            (&"AES-256-XTS".into(), &"AES-256-CBC-CTS".into())
        );
    }
    for protector in list("protectors") {
        let row = format!(
            "{}  No       {} \"{}\"",
            protector["descriptor"].as_str().expect("text"),
            if protector["source"] == "raw_key" { "raw key protector" } else { "custom protector" },
            protector["name"].as_str().expect("text")
        );
        assert!(status.contains(&row), "{row}: {status}");
    }
    assert_eq!(list("links")[0]["target"], "PATH=/");

    let system = scratch.atrest(&["tree", "policies", "--json", "system.img"]).ok().json();
    let login = &system["protectors"][0];
    assert_eq!((&login["source"], &login["uid"]), (&"pam_passphrase".into(), &4242.into()));
    assert_eq!(login["argon2id"], serde_json::json!({ "time": 2, "memory_kib": 512, "lanes": 2 }));
}

#[test]
fn a_filesystem_without_them_and_what_is_no_filesystem_are_told_apart() {
    let scratch = Scratch::new();
    scratch.bash("truncate -s 8M plain.img && mkfs.ext4 -q plain.img; truncate -s 8M zeros").ok();
    scratch.atrest(&["tree", "policies", "plain.img"]).fails(4, "no directory .fscrypt");
    scratch.atrest(&["tree", "policies", "zeros"]).fails(4, "zeros");
    scratch.atrest(&["tree", "policies", "nowhere"]).fails(4, "nowhere");
}

/// What the directories hold that can be read with these protectors.
fn read(scratch: &Scratch, protectors: &[&str]) -> Vec<String> {
    let given: Vec<&str> = protectors.iter().flat_map(|name| ["--fscrypt-protector", name]).collect();
    let directories = ["custom", "shared", "raw", "login", "lanes", "old"];
    let read = directories.into_iter().filter(|directory| {
        let ran = scratch.atrest(&[&["cat", "data.img", &format!("/{directory}/file")][..], &given].concat());
        let found = ran.stdout == format!("what {directory} holds\n");
        assert_eq!((ran.code == 0, ran.stdout.is_empty()), (found, !found), "{directory}: {}", ran.stderr);
        found
    });
    read.map(str::to_owned).collect()
}

#[test]
fn protectors_unlock_what_fscrypt_encrypted() {
    let scratch = made_by_fscrypt();
    let none: [&str; 0] = [];
    assert_eq!(read(&scratch, &[]), none);
    assert_eq!(read(&scratch, &["mine=mine.txt"]), ["custom", "shared"]);
    assert_eq!(read(&scratch, &["second=second.txt", "old=old.txt"]), ["shared", "old"]);
    assert_eq!(read(&scratch, &["token=raw.key", "lanes=lanes.txt"]), ["raw", "lanes"]);
    assert_eq!(read(&scratch, &["Recovery passphrase for login=recovery"]), ["login"]);

    let policies = scratch.atrest(&["tree", "policies", "--json", "data.img"]).ok().json();
    let list = policies["protectors"].as_array().expect("a list");
    let mine = list.iter().find(|protector| protector["name"] == "mine").expect("one of that name");
    let mine = mine["descriptor"].as_str().expect("text");
    assert_eq!(read(&scratch, &[&format!("{mine}=mine.txt")]), ["custom", "shared"]);
    assert_eq!(read(&scratch, &[&format!("data.img:{mine}=mine.txt")]), ["custom", "shared"]);

    // The login protector lies on the other filesystem, and nobody goes there unasked.
    let login = policies["links"][0]["descriptor"].as_str().expect("text");
    let ls = |given: &str| scratch.atrest(&["ls", "data.img", "/login", "--fscrypt-protector", given]);
    let linked = ls(&format!("{login}=login.txt"));
    linked.fails(1, "lies on another filesystem (PATH=/)").fails(1, &format!("PLACE:{login}"));
    assert_eq!(read(&scratch, &[&format!("system.img:{login}=login.txt")]), ["login"]);
    scratch.bash("mkdir host && debugfs -R 'rdump /.fscrypt host' system.img && test -d host/.fscrypt").ok();
    assert_eq!(read(&scratch, &[&format!("host:{login}=login.txt")]), ["login"]);
    ls(&format!("host:{mine}")).fails(1, "host: there is no such protector");
}

#[test]
fn what_unlocks_nothing_says_why() {
    let scratch = made_by_fscrypt();
    let ls =
        |given: &str| -> Ran { scratch.atrest(&["ls", "data.img", "/custom", "--fscrypt-protector", given]) };
    ls("mine=second.txt").fails(2, "does not unlock protector");
    ls("mine=nowhere").fails(1, "no such key file");
    ls("mine").fails(1, "no terminal");
    ls("token").fails(1, "wants a file");
    ls("token=mine.txt").fails(1, "32 bytes, and 14 were given");
    ls("nobody").fails(1, "no such protector").fails(1, "(passphrase \"mine\")");
    ls("=mine.txt").fails(1, "6 protectors could be meant");
    ls("nowhere:0123456789abcdef").fails(4, "nowhere");
    ls("/dev/null:0123456789abcdef").fails(4, "/dev/null");
    scratch.bash("truncate -s 8M plain.img && mkfs.ext4 -q plain.img && mkdir directory").ok();
    let plain = ["ls", "plain.img", "/", "--fscrypt-protector", "mine=mine.txt"];
    scratch.atrest(&plain).fails(4, "no directory .fscrypt");
    scratch.atrest(&["ls", "directory", "/", "--fscrypt-protector", "mine"]).fails(1, "this is a directory");
    // The record is the only one of its name, and no other is harmed.
    scratch.bash("debugfs -R 'ls -p /.fscrypt/protectors' data.img > records").ok();
    let descriptor = ls("nobody")
        .stderr
        .split("protector ")
        .find_map(|part| part.contains("\"mine\"").then(|| part[..16].to_owned()));
    let descriptor = descriptor.expect("it is listed");
    scratch.bash(&format!(
        "printf 'rm /.fscrypt/protectors/{descriptor}\nwrite mine.txt /.fscrypt/protectors/{descriptor}\n' > script;
         debugfs -w -f script data.img"
    )).ok();
    ls(&format!("{descriptor}=mine.txt")).fails(1, "no well-formed record");
    assert_eq!(read(&scratch, &["second=second.txt"]), ["shared"]);
}

#[test]
fn protectors_unlock_while_the_files_are_mounted() {
    let scratch = made_by_fscrypt();
    scratch.bash("mkdir m").ok();
    let name = scratch.session();
    let mount = ["mount", "data.img", "m", "--daemon", "--name", &name, "--fscrypt-protector", "old=old.txt"];
    scratch.atrest(&mount).ok();
    scratch.bash("grep -x 'what old holds' m/old/file && ! cat m/shared/file").ok();
    let unlock = |given: &str| scratch.atrest(&["tree", "unlock", &name, "--fscrypt-protector", given]);
    unlock("second=mine.txt").fails(2, "does not unlock protector");
    unlock("second=second.txt").ok();
    scratch.bash("grep -x 'what shared holds' m/shared/file && ! cat m/raw/file").ok();
    scratch.atrest(&["tree", "unlock", &name]).fails(1, "no key is named");
    scratch.atrest(&["tree", "lock", &name]).ok();
    scratch.bash("! cat m/old/file && ! cat m/shared/file").ok();
    scratch.atrest(&["close", &name]).ok();
}
