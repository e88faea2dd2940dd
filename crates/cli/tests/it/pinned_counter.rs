//! Pinned headers whose freshness a counter of the TPM says, with a software TPM, an honest one and one that lies.

use std::time::{Duration, Instant};

use atrest_secret::VolumeKey;
use atrest_testkit::cryptsetup::cryptsetup;
use atrest_testkit::liar::{self, TPM_LIES};
use atrest_testkit::{FaultDevice, Swtpm};
use atrest_volume::luks2::{Luks2, NewPin};

use crate::common::{CHEAP, Ran, Scratch};

const STORE: &str = "--store tpm2:0x01800a01";

fn at(scratch: &Scratch, place: &str, line: &str) -> Ran {
    scratch
        .program(env!("CARGO_BIN_EXE_atrest"))
        .words(line)
        .env("ATREST_TPM", place)
        .without_terminal()
        .run()
        .into()
}

#[test]
fn an_older_pinned_header_is_refused_by_the_tpm_whatever_changed_it() {
    let mut tpm = Swtpm::new();
    let scratch = Scratch::with_volume();
    let run = |tpm: &Swtpm, line: &str| at(&scratch, &tpm.place(), line);
    let decrypt = format!("decrypt vol - --key-file key {STORE}");
    run(&tpm, &decrypt).fails(2, "the header is not pinned");
    run(&tpm, &format!("header pin vol --key-file key {STORE}")).ok();
    run(&tpm, &decrypt).ok();
    cryptsetup("open --test-passphrase --key-file key vol").current_dir(scratch.as_path()).ok();
    // Keys and the counter outlast a reset.
    tpm.reboot();
    run(&tpm, &decrypt).ok();
    for (name, text) in [("new", "new"), ("newer", "newer"), ("token", r#"{"type":"some","keyslots":[]}"#)] {
        scratch.file(name, text);
    }
    let cheap = CHEAP.join(" ");
    for change in [
        format!("key add vol --key-file key --new-key-file new {cheap}"),
        format!("key change vol --key-file new --new-key-file newer {cheap}"),
        "key priority vol 1 prefer --key-file key".into(),
        "token import vol token --token-id 5 --key-file key".into(),
        "token remove vol 5 --key-file key".into(),
        "header set vol --label name --key-file key".into(),
        "key remove vol --key-file newer".into(),
        format!("key add vol --key-file key --new-key-file new --new-key-slot 2 {cheap}"),
        "key kill vol 2 --key-file key".into(),
        "header pin vol --key-file key".into(),
    ] {
        let before = scratch.read("vol");
        run(&tpm, &format!("{change} {STORE}")).ok();
        let after = scratch.read("vol");
        scratch.file("vol", before.clone());
        run(&tpm, "decrypt vol - --key-file key").ok();
        run(&tpm, &decrypt).fails(2, "the header is an older one of this volume");
        // Nor is anything built upon it.
        let label = format!("header set vol --label other --key-file key {STORE}");
        run(&tpm, &label).fails(2, "the header is an older one of this volume");
        run(&tpm, &format!("key test vol --key-file key {STORE}")).fails(2, "an older one");
        assert!(scratch.read("vol") == before, "{change}: nothing is written");
        scratch.file("vol", after);
        run(&tpm, &decrypt).ok();
        run(&tpm, &format!("key test vol --key-file key {STORE}")).ok();
    }
    // A change without the store, or a cut before it was told: the next opening tells it.
    let before = scratch.read("vol");
    run(&tpm, "header set vol --label another --key-file key").ok();
    scratch.file("after", scratch.read("vol"));
    scratch.file("vol", before.clone());
    run(&tpm, &decrypt).ok();
    scratch.file("vol", scratch.read("after"));
    run(&tpm, &decrypt).ok();
    scratch.file("vol", before);
    run(&tpm, &decrypt).fails(2, "an older one");
    // Whoever put it back says so.
    run(&tpm, &format!("header pin vol --key-file key {STORE}")).fails(2, "an older one");
    run(&tpm, &format!("header pin vol --key-file key {STORE} --accept --yes")).ok();
    run(&tpm, &decrypt).ok();
    scratch.file("vol", scratch.read("after"));
    run(&tpm, &decrypt).fails(2, "an older one");
}

/// The counter was not told of some changes: their headers have the values that come next.
#[test]
fn a_new_pin_is_newer_than_headers_that_the_tpm_was_not_told_of() {
    let tpm = Swtpm::new();
    let scratch = Scratch::with_volume();
    let run = |line: &str| at(&scratch, &tpm.place(), line);
    let (pin, decrypt) =
        (format!("header pin vol --key-file key {STORE}"), format!("decrypt vol - --key-file key {STORE}"));
    run(&pin).ok();
    let mut older = vec![scratch.read("vol")];
    for label in ["a", "b", "c"] {
        run(&format!("header set vol --label {label} --key-file key")).ok();
        older.push(scratch.read("vol"));
    }
    run(&pin).ok();
    let newest = scratch.read("vol");
    for header in older {
        scratch.file("vol", header);
        run(&decrypt).fails(2, "the header is an older one of this volume");
    }
    scratch.file("vol", newest);
    run(&decrypt).ok();
    // A counter that the header names, and that somebody took away, says nothing.
    tpm.tool("tpm2_nvundefine -C o 0x01800a01");
    run(&pin).fails(2, "the TPM has no counter at 0x01800a01");
    run(&format!("{pin} --accept")).fails(1, "is gone from the TPM");
    assert!(!has_counter(&tpm), "none is made");
    let before = scratch.read("vol");
    run(&format!("{pin} --accept --yes")).ok();
    run(&decrypt).ok();
    scratch.file("vol", before);
    run(&decrypt).fails(2, "the header is an older one of this volume");
}

#[test]
fn no_counter_is_made_before_everybody_was_asked() {
    let tpm = Swtpm::new();
    let scratch = Scratch::with_volume();
    let vol = scratch.read("vol");
    scratch.file("policy", "{}");
    let pin = format!("header pin vol --key-file key {STORE} --policy policy");
    at(&scratch, &tpm.place(), &pin).fails(1, "policy is replaced");
    assert!(scratch.read("vol") == vol, "nothing is written");
    assert!(!has_counter(&tpm), "none is made");
    at(&scratch, &tpm.place(), &format!("{pin} --yes")).ok();
    assert!(has_counter(&tpm));
}

/// By tpm2-tools, which list all that the TPM keeps.
fn has_counter(tpm: &Swtpm) -> bool {
    tpm.tool("tpm2_getcap handles-nv-index").text().to_lowercase().contains("0x1800a01")
}

#[test]
fn a_counter_is_of_one_header_and_of_one_tpm() {
    let (tpm, other) = (Swtpm::new(), Swtpm::new());
    let scratch = Scratch::with_volume();
    let run = |tpm: &Swtpm, line: &str| at(&scratch, &tpm.place(), line);
    let pin = format!("header pin vol --key-file key {STORE}");
    let decrypt = format!("decrypt vol - --key-file key {STORE}");
    run(&tpm, &pin).ok();
    let vol = scratch.read("vol");
    run(&other, &decrypt).fails(2, "the TPM has no key");
    run(&other, &format!("header pin copy --key-file key {STORE}")).fails(4, "copy");
    scratch.file("copy", vol.clone());
    // Its own TPM is another one then, and the header of before is refused there.
    run(&other, &format!("header pin copy --key-file key {STORE}")).ok();
    run(&other, &decrypt).fails(2, "the TPM's storage key is not the one");
    run(&tpm, "decrypt vol - --key-file key --store tpm2:0x01800a02").fails(2, "names another counter");
    for bad in ["tpm2:", "tpm2:1", "tpm2:0x81000001", "tpm2:0x01800a01x"] {
        run(&tpm, &format!("decrypt vol - --key-file key --store {bad}")).fails(1, "tpm2:0x01800000");
        run(&tpm, &format!("header pin vol --key-file key --store {bad}")).fails(1, "tpm2:0x01800000");
    }
    at(&scratch, "tcp:127.0.0.1:1", &decrypt).fails(2, "there is no TPM at 127.0.0.1:1");
    assert!(scratch.read("vol") == vol, "nothing is written");
    // A counter that is there already is not taken silently.
    scratch.file("vol", vol);
    run(&tpm, "token remove vol 0").ok();
    run(&tpm, &decrypt).fails(2, "the header is not pinned");
    run(&tpm, "format --yes second --size 20M --key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000")
        .ok();
    run(&tpm, &format!("header pin second --key-file key {STORE}")).fails(1, "has a counter at");
    // Made anew it begins above: what was pinned with the old one is older.
    tpm.tool("tpm2_nvundefine -C o 0x01800a01");
    run(&tpm, &format!("header pin second --key-file key {STORE}")).ok();
    run(&tpm, &format!("decrypt second - --key-file key {STORE}")).ok();
    scratch.file("vol", scratch.read("copy"));
    run(&tpm, &format!("key add second --key-file key --new-key-file key {STORE} {}", CHEAP.join(" "))).ok();
}

#[test]
fn a_tpm_that_refuses_or_answers_without_end_opens_nothing_within_bounded_time() {
    let tpm = Swtpm::new();
    let scratch = Scratch::with_volume();
    at(&scratch, &tpm.place(), &format!("header pin vol --key-file key {STORE}")).ok();
    let vol = scratch.read("vol");
    for (answer, said) in TPM_LIES {
        let place = liar::tpm(*answer);
        let begun = Instant::now();
        at(&scratch, &place, &format!("decrypt vol - --key-file key {STORE}")).fails(2, said);
        let change = format!("header set vol --label new --key-file key {STORE}");
        at(&scratch, &place, &change).fails(2, said);
        assert!(begun.elapsed() < Duration::from_secs(60), "{said}: {:?}", begun.elapsed());
    }
    assert!(scratch.read("vol") == vol, "nothing is written");
    // Without the store it opens: the header is as it was.
    at(&scratch, "tcp:127.0.0.1:1", "decrypt vol - --key-file key").ok();
}

/// Pins the header so many times more, and tells no TPM.
fn pinned_untold(scratch: &Scratch, times: u64) {
    let key = VolumeKey::copy_from(&scratch.read("vk"));
    let device = FaultDevice::new(scratch.read("vol"));
    let mut luks2 = Luks2::read(&device).expect("a header");
    for _ in 0..times {
        luks2.pin(&device, &key, &NewPin::default()).expect("pins");
    }
    scratch.file("vol", device.image());
}

/// What opens, and catches up then, is not taken for the header of another volume by what changes it.
#[test]
fn a_header_that_the_tpm_was_not_told_of_for_long_is_changed_once_it_was_opened() {
    let tpm = Swtpm::new();
    let scratch = Scratch::with_volume();
    let run = |line: &str| at(&scratch, &tpm.place(), line);
    let label = format!("header set vol --label name --key-file key {STORE}");
    let pin = format!("header pin vol --key-file key {STORE}");
    let decrypt = format!("decrypt vol - --key-file key {STORE}");
    run(&pin).ok();
    run("key export vol vk --key-file key --yes").ok();
    pinned_untold(&scratch, 992);
    run(&label).ok();
    pinned_untold(&scratch, 992);
    run(&pin).ok();
    for untold in [993, 1000] {
        pinned_untold(&scratch, untold);
        let before = scratch.read("vol");
        for line in [&label, &pin, &format!("{pin} --accept --yes")] {
            let told = run(line).fails(2, &format!("has not been told of the last {untold} changes"));
            assert!(told.stderr.contains("`atrest open --store tpm2:INDEX` tells it"), "{}", told.stderr);
        }
        assert!(scratch.read("vol") == before, "nothing is written");
        run(&decrypt).ok();
        run(&label).ok();
    }
    pinned_untold(&scratch, 1001);
    for line in [&label, &pin, &decrypt] {
        run(line).fails(2, "far newer than the TPM's counter");
    }
}
