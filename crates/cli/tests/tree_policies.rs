//! `atrest tree policies`, on a filesystem that google/fscrypt itself set up (crates/tree/tests/protectors/make.sh).

mod common;

use common::Scratch;

#[test]
fn what_fscrypt_lists_is_listed() {
    let scratch = Scratch::new();
    scratch.tool("fscrypt", &["--version"]).ok();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tree/tests/protectors/make.sh");
    scratch.bash(&format!("unshare --mount --propagation private bash '{script}' \"$PWD\"")).ok();
    let status = scratch.bash("cat status").ok().stdout;

    let report = scratch.atrest(&["tree", "policies", "--json", "data.img"]).ok().json();
    let text = scratch.atrest(&["tree", "policies", "data.img"]).ok().stdout;
    let list = |name: &str| report[name].as_array().expect("a list").clone();
    assert_eq!((list("policies").len(), list("protectors").len(), list("links").len()), (5, 5, 1));
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
