//! Mappings of dm-integrity and dm-verity alone, against those of Debian's integritysetup and veritysetup.

use std::fs;

use atrest_testkit::atrest::binary;
use atrest_testkit::kernel::Kernel;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Campaign, Random, Scratch};

use super::put_programs;

/// Options of format and open, of format alone, and of open alone.
const INTEGRITY: &[(&str, &str, &str)] = &[
    ("", "", ""),
    ("--integrity sha256", "--sector-size 4096", "--journal-watermark 66 --journal-commit-time 500"),
    (
        "--integrity hmac-sha256 --integrity-key-file /share/key --integrity-key-size 32 --journal-integrity hmac-sha1 --journal-integrity-key-file /share/key --journal-integrity-key-size 16",
        "--tag-size 32",
        "",
    ),
    (
        "--integrity sha1 --journal-crypt cbc-aes --journal-crypt-key-file /share/key --journal-crypt-key-size 32",
        "",
        "",
    ),
    ("", "", "-B --bitmap-sectors-per-bit 1024 --bitmap-flush-time 500"),
    ("", "", "-D --allow-discards"),
    ("", "--interleave-sectors 1024", "-R"),
    ("--data-device /dev/vdb", "", ""),
];
const VERITY: &[(&str, &str, &str)] = &[
    ("", "", ""),
    ("--fec-device /dev/vdc --fec-roots 4", "", "--ignore-zero-blocks"),
    ("--no-superblock --salt 00ff", "", ""),
    ("", "--data-block-size 1024 --hash sha512", "--check-at-most-once"),
    ("", "--salt -", "--panic-on-corruption"),
    ("", "--format 0", "--restart-on-corruption --ignore-zero-blocks"),
    ("", "", "--ignore-corruption"),
];
/// How many of each kind the ordinary test takes.
const SAMPLE: usize = 3;
const SIZE: usize = 4 << 20;

#[test]
fn mappings_of_integrity_and_verity_are_those_of_debians_tools() {
    let share = Scratch::new();
    fs::write(share.path("key"), Random::new(5).bytes(64)).expect("write a key");
    put_programs(&share, &[("atrest", binary())]);
    let mut kernel = Kernel::script("stacked.sh").share(share.as_path());
    for name in ["a", "b", "c"] {
        let image = share.path(name);
        fs::write(&image, vec![0; SIZE]).expect("write an image");
        kernel = kernel.disk(&image);
    }
    sign(&share);
    let mut lines = String::new();
    let mut count = 0;
    for (kind, all) in [("integritysetup", INTEGRITY), ("veritysetup", VERITY)] {
        for (both, format, open) in Campaign::matrix("mappings of integrity and verity", SAMPLE).chosen(all) {
            lines.push_str(&format!("{kind}|{both}|{format}|{open}\n"));
            count += 1;
        }
    }
    fs::write(share.path("mappings"), lines).expect("write the list");
    let told = kernel.ok("").text();
    assert_eq!(told.lines().filter(|line| line.ends_with(": same")).count(), count + 2, "{told}");
}

/// A signature as of a root hash, by a key that nobody trusts.
fn sign(share: &Scratch) {
    let openssl = |words: &str| Program::named("openssl").words(words).current_dir(share.as_path()).ok();
    openssl("req -x509 -newkey rsa:2048 -nodes -keyout signer.key -out signer.pem -subj /CN=nobody");
    fs::write(share.path("root"), "00".repeat(32)).expect("write a root hash");
    openssl(
        "smime -sign -nocerts -noattr -binary -in root -inkey signer.key -signer signer.pem -outform der -out signature",
    );
}
