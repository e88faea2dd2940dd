//! A TPM in a real kernel: `atrest unlock` asks for its PIN, and atrest-init opens the root by it and measures that.

use std::fs;

use atrest_testkit::atrest::{VolumeFile, atrest, binary, init_binary, write_key};
use atrest_testkit::kernel::Kernel;
use atrest_testkit::oracle::tool;
use atrest_testkit::{Scratch, Swtpm};

use super::put_programs;

const COST: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
/// For a security key that nobody has.
const ABSENT: &str = r#"{"type":"systemd-fido2","keyslots":["0"],"fido2-credential":"AQI=",
    "fido2-salt":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","fido2-clientPin-required":false,"fido2-up-required":true}"#;

#[test]
fn a_tpm_opens_the_root_at_boot_before_anybody_waits_for_a_security_key() {
    let share = Scratch::new();
    put_programs(&share, &[("atrest", binary()), ("atrest-init", init_binary())]);
    fs::copy(tool("script"), share.path("script")).expect("copy script");

    let key = write_key(share.as_path(), "key", b"correct horse");
    let pin = write_key(share.as_path(), "pin", b"2718");
    let token = share.file("token", ABSENT);
    let mut tpm = Swtpm::new();
    // As the guest's firmware leaves it: the separator of the TCG's specification for PC clients, four bytes of 0xff.
    tpm.tool("tpm2_pcrextend 7:sha256=ad95131bc0b799c0b1af477fb14fcf26a6a9f76079e48bf090acb7e8367bfd0e");
    let volume = |name: &str, more: &str| {
        let volume = VolumeFile { path: share.path(name), key: key.clone() };
        volume.run("format", &format!("--yes --size 36M --type luks2 {COST}")).expect_code(0);
        atrest("token import").arg(&volume.path).arg(&token).ok();
        let place = tpm.place();
        volume.program("key add", &format!("--tpm2 --pcrs 7+15 {more}")).env("ATREST_TPM", place).ok();
        volume.path
    };
    let root = volume("root.img", "");
    let pinned = volume("pinned.img", &format!("--pin-file {}", pin.display()));
    let kernel = Kernel::script("tpm.sh").share(share.as_path()).disk(&root).disk(&pinned);
    let told = kernel.tpm(&tpm.plugged_in()).ok("").text();
    let good: Vec<&str> = told.lines().filter_map(|line| line.strip_suffix(": good")).collect();
    assert_eq!(good, ["TPM2 and PIN", "root by TPM2", "once a root is open"], "{told}");
}
