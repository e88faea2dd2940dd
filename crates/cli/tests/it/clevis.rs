//! Volumes that clevis bound to servers, TPMs and thresholds of them, and those that we bind: clevis 19, jose and tang of Debian.

use std::time::{Duration, Instant};

use atrest_testkit::oracle::Program;
use atrest_testkit::tang::{LIES, SLOW_LIES};
use atrest_testkit::{Campaign, Swtpm, Tang};

use crate::common::{Ran, Scratch};

/// `clevis luks bind` of `vol`.
fn bind(scratch: &Scratch, tpm: Option<&Swtpm>, pin: &str, config: &str) {
    let program = Program::named("clevis").words("luks bind -y -d vol -k key").arg(pin).arg(config);
    let program = program.current_dir(scratch.as_path());
    let tcti = tpm.map_or(String::new(), Swtpm::tcti);
    program.env("TPM2TOOLS_TCTI", tcti).ok();
    tpm.inspect(|tpm| tpm.forget());
}

fn test(scratch: &Scratch, tpm: Option<&Swtpm>, token: u32) -> Ran {
    let line = format!("key test vol --token-only --token-id {token}");
    let place = tpm.map_or("/nowhere/tpm".into(), Swtpm::place);
    let program = scratch.program(env!("CARGO_BIN_EXE_atrest")).words(&line).env("ATREST_TPM", place);
    program.without_terminal().run().into()
}

#[test]
fn servers_open_what_clevis_bound_to_them_and_clevis_what_we_bind() {
    let tang = Tang::new();
    let scratch = Scratch::with_volume();
    let (url, print) = (&tang.url, tang.thumbprint());
    bind(&scratch, None, "tang", &format!(r#"{{"url":"{url}","thp":"{print}"}}"#));
    test(&scratch, None, 0).ok();
    let add = |print: &str| {
        scratch.atrest(&["key", "add", "vol", "--key-file", "key", "--tang", url, "--thumbprint", print])
    };
    add("somebody-else").fails(2, "no key of");
    add(&print).ok();
    test(&scratch, None, 1).ok();
    let passphrase =
        Program::named("clevis").words("luks pass -d vol -s 2").current_dir(scratch.as_path()).ok();
    scratch.file("passphrase", passphrase.text());
    scratch.atrest(&["key", "test", "vol", "--key-file", "passphrase", "--key-slot", "2"]).ok();
    let list = scratch.atrest(&["key", "list", "vol"]).ok().stdout;
    assert_eq!(list.matches(&format!("the server \"{url}\"\n")).count(), 2, "{list}");
    // Its keys are deleted.
    for entry in std::fs::read_dir(tang.keys.as_path()).expect("keys") {
        std::fs::remove_file(entry.expect("a key").path()).expect("deleted");
    }
    test(&scratch, None, 0).fails(2, "has no such key any more");
}

#[test]
fn thresholds_open_with_as_many_as_they_say_and_no_fewer() {
    let (one, two, tpm) = (Tang::new(), Tang::new(), Swtpm::new());
    let scratch = Scratch::with_volume();
    let pin = |tang: &Tang| format!(r#"{{"url":"{}","thp":"{}"}}"#, tang.url, tang.thumbprint());
    let nowhere = "http://127.0.0.1:1";
    tpm.extend(7);
    bind(&scratch, Some(&tpm), "tpm2", "{}");
    bind(&scratch, Some(&tpm), "tpm2", r#"{"pcr_bank":"sha256","pcr_ids":"7"}"#);
    let nested = format!(r#"{{"t":1,"pins":{{"tang":{}}}}}"#, pin(&two));
    let shares = format!(r#"{{"t":2,"pins":{{"tang":{},"tpm2":{{}},"sss":{nested}}}}}"#, pin(&one));
    bind(&scratch, Some(&tpm), "sss", &shares);
    for token in 0..3 {
        test(&scratch, Some(&tpm), token).ok();
    }
    // Two servers without the TPM, and then the TPM with one.
    test(&scratch, None, 2).ok();
    test(&scratch, None, 0).fails(2, "there is no TPM at /nowhere/tpm");
    for entry in std::fs::read_dir(one.keys.as_path()).expect("keys") {
        std::fs::remove_file(entry.expect("a key").path()).expect("deleted");
    }
    test(&scratch, Some(&tpm), 2).ok();
    test(&scratch, None, 2).fails(2, "1 of the 2 shares that it needs can be had");
    tpm.extend(7);
    test(&scratch, Some(&tpm), 1).fails(2, "PCR 7 of the TPM has changed since it was enrolled");
    let add = scratch.atrest(&["key", "add", "vol", "--key-file", "key", "--tang", nowhere]);
    add.fails(4, "can't be reached");
}

/// Whatever a server answers, it opens nothing, keeps nobody from a passphrase, and is left in the end.
#[test]
fn a_hostile_server_opens_nothing_within_bounded_time() {
    let tang = Tang::new();
    let scratch = Scratch::with_volume();
    let (url, print) = (tang.url.as_str(), tang.thumbprint());
    let add = ["key", "add", "vol", "--key-file", "key", "--tang", url];
    scratch.atrest(&[&add[..], &["--thumbprint", &print]].concat()).ok();
    let vol = scratch.read("vol");
    // One that costs all of a server's time is enough for `make test`.
    let slow = if Campaign::is_full() { SLOW_LIES } else { &SLOW_LIES[..1] };
    for (what, answer) in LIES.iter().chain(slow) {
        tang.answers(Some(*answer));
        let begun = Instant::now();
        let told = test(&scratch, None, 0).fails(2, "token 0 (clevis)");
        println!("{what}: {}", told.stderr.trim_end());
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {:?}", begun.elapsed());
    }
    // Nor is it trusted where it says what its keys are.
    for (what, answer) in LIES {
        tang.answers(Some(*answer));
        let told = scratch.atrest(&[&add[..], &["--thumbprint", &print]].concat());
        assert!(told.code == 2 || told.code == 4, "{what}: {} {}", told.code, told.stderr);
        // Its last line says what was wrong.
        assert!(!told.stderr.is_empty() && !told.stderr.contains("panicked"), "{what}: {}", told.stderr);
    }
    assert!(scratch.read("vol") == vol, "nothing is written");
    scratch.atrest(&["key", "test", "vol", "--key-file", "key"]).ok();
    tang.answers(None);
    test(&scratch, None, 0).ok();
}
