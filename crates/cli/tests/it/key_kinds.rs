//! Keyslots wiped by what opens them, and keyslots for machines with little memory.

use atrest_testkit::{SecurityKeyKind, SoftKey, cryptsetup};

use crate::common::{Ran, Scratch};

/// A volume with a keyslot of each kind: 0 by `key`, 1 by a recovery key, 2 by a security key, 3 by a keyring, 4 by `other`, 5 not of the data.
fn volume(key: &SoftKey) -> Scratch {
    let scratch = Scratch::with_volume();
    scratch.file("other", "other");
    scratch.file("third", "third");
    scratch.file("fourth", "fourth");
    let add = |line: &str| {
        let program = scratch.program(env!("CARGO_BIN_EXE_atrest")).words(&format!("key add vol {line}"));
        Ran::from(program.env("ATREST_FIDO2", key.place()).without_terminal().run()).ok();
    };
    let cheap = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    add("--key-file key --recovery");
    add("--key-file key --fido2");
    add(&format!("--key-file key --new-key-file third {cheap}"));
    scratch.atrest(&["token", "add", "vol", "--key-description", "atrest:none", "--key-slot", "3"]).ok();
    add(&format!("--key-file key --new-key-file other {cheap}"));
    add(&format!("--unbound --key-size 256 --new-key-file fourth --new-key-slot 5 {cheap}"));
    scratch
}

/// Numbers of keyslots and of tokens.
fn left(scratch: &Scratch) -> (Vec<u64>, Vec<u64>) {
    let dump = cryptsetup::cryptsetup("luksDump --dump-json-metadata").arg(scratch.path("vol")).ok().json();
    let numbers = |name: &str| {
        let object = dump[name].as_object().expect("an object");
        let mut numbers: Vec<u64> = object.keys().map(|key| key.parse().expect("a number")).collect();
        numbers.sort_unstable();
        numbers
    };
    (numbers("keyslots"), numbers("tokens"))
}

#[test]
fn keyslots_go_by_what_opens_them_and_their_tokens_with_them() {
    let scratch = volume(&SoftKey::new(&SecurityKeyKind::default()));
    assert_eq!(left(&scratch), (vec![0, 1, 2, 3, 4, 5], vec![0, 1, 2]));
    let remove = |line: &str| {
        let program = scratch.program(env!("CARGO_BIN_EXE_atrest")).words(&format!("key remove vol {line}"));
        Ran::from(program.without_terminal().run())
    };
    remove("--kind tpm2 --yes").fails(1, "no keyslot is of this kind");
    scratch.file("wrong", "wrong");
    remove("--kind recovery --key-file wrong").fails(2, "wrong passphrase");
    remove("--kind passphrase --key-file key").fails(1, "keyslot 0, which would go");
    // An unbound keyslot stays, but opens no data.
    remove("--kind fido2 --key-file fourth").fails(1, "which opens no data");
    assert_eq!(left(&scratch), (vec![0, 1, 2, 3, 4, 5], vec![0, 1, 2]), "nothing was written");
    let said = remove("--kind recovery,fido2 --key-file key --json").ok().stdout;
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said, serde_json::json!({ "keyslots": [1, 2], "tokens": [0, 1] }));
    assert_eq!(left(&scratch), (vec![0, 3, 4, 5], vec![2]));
    for slot in ["0", "4"] {
        let file = if slot == "0" { "key" } else { "other" };
        scratch.atrest(&["key", "test", "vol", "--key-file", file, "--key-slot", slot]).ok();
    }
    // The passphrases go, and the one in the keyring stays.
    remove("--kind passphrase --yes").ok();
    assert_eq!(left(&scratch), (vec![3, 5], vec![2]));
    // The last one is asked about, whatever is given.
    remove("--kind keyring --key-file third").fails(1, "--yes");
    assert_eq!(left(&scratch).0, [3, 5]);
    remove("--kind keyring --yes").ok();
    assert_eq!(left(&scratch), (vec![5], vec![]));
}

#[test]
fn a_keyslot_for_a_small_machine_takes_half_of_its_memory_and_info_tells_what_does_not_fit() {
    let scratch = Scratch::with_volume();
    scratch.file("new", "new");
    let add = |line: &str| {
        scratch.atrest(
            &format!("key add vol --key-file key --new-key-file new {line}").split(' ').collect::<Vec<_>>(),
        )
    };
    add("--pbkdf argon2id --for-memory 8M --for-time 20ms").ok();
    let dump = cryptsetup::cryptsetup("luksDump --dump-json-metadata").arg(scratch.path("vol")).ok().json();
    assert_eq!(dump["keyslots"]["1"]["kdf"]["type"], "argon2id");
    let kib = dump["keyslots"]["1"]["kdf"]["memory"].as_u64().expect("a number");
    assert!((32..=4096).contains(&kib), "{kib}");
    add("--for-memory 8M --pbkdf-memory 4096").fails(1, "cannot be used with");
    add("--for-time 2 --for-memory 8M").fails(1, "a time is a number and a unit");
    add("--for-memory 32K").fails(1, "Argon2 takes 32 KiB at least");
    let needs = kib.to_string() + "K";
    let fits = scratch.atrest(&["info", "vol", "--for-memory", &needs]).ok();
    assert!(!fits.stderr.contains("needs"), "{}", fits.stderr);
    let less = (kib - 1).to_string() + "K";
    let warned = scratch.atrest(&["info", "vol", "--for-memory", &less]).ok().stderr;
    let expected = format!("keyslot 1 needs {kib} KiB of memory, and that machine has {} KiB", kib - 1);
    assert!(warned.contains(&expected), "{warned}");
}
