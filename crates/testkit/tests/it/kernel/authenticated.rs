//! Authenticated LUKS2 volumes, between us and a real kernel: what we write it reads, with every tag, and what it writes we read; by
//! cryptsetup's `luksFormat` and by ours. Then a byte is turned over, and the unit that it lies in is not read.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use atrest_testkit::atrest::{FAST_PBKDF2, VolumeFile, atrest, write_key};
use atrest_testkit::kernel::Kernel;
use atrest_testkit::{Campaign, Random, Scratch};

/// The options of cryptsetup's `luksFormat`, which are those of `format`.
const CIPHERS: [(&str, &str); 11] = [
    ("aegis128", "--cipher aegis128-random --key-size 128 --integrity aead"),
    ("xts-sha256", "--cipher aes-xts-plain64 --key-size 512 --integrity hmac-sha256"),
    ("gcm", "--cipher aes-gcm-random --key-size 256 --integrity aead"),
    ("chacha20", "--cipher chacha20-random --key-size 256 --integrity poly1305"),
    ("xts-random-sha512", "--cipher aes-xts-random --key-size 256 --integrity hmac-sha512"),
    ("essiv-sha256", "--cipher aes-cbc-essiv:sha256 --key-size 256 --integrity hmac-sha256"),
    ("ccm", "--cipher aes-ccm-random --key-size 280 --integrity aead"),
    ("serpent-sha1", "--cipher serpent-xts-plain64 --key-size 512 --integrity hmac-sha1"),
    ("gcm-128", "--cipher aes-gcm-random --key-size 128 --integrity aead"),
    ("serpent-gcm", "--cipher serpent-gcm-random --key-size 256 --integrity aead"),
    ("xts-128-sha256", "--cipher aes-xts-plain64 --key-size 256 --integrity hmac-sha256"),
];
/// How many of all combinations the ordinary test takes.
const SAMPLE: usize = 3;
/// How many volumes of ours one boot has, and as many of cryptsetup's.
const PER_BOOT: usize = 8;
/// Bytes of a volume, with a header of 2 MiB.
const SIZE: usize = 6 << 20;

#[derive(Clone)]
struct Case {
    name: String,
    options: String,
    /// The kernel writes without a journal.
    direct: bool,
}

impl Case {
    /// What `open` is told besides.
    fn how(&self) -> &'static str {
        if self.direct { "--integrity-no-journal" } else { "-" }
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, options) in CIPHERS {
        for (sector, direct) in [(4096, false), (512, true), (512, false), (4096, true)] {
            let way = if direct { "direct" } else { "journal" };
            let options = format!("{options} --sector-size {sector}");
            cases.push(Case { name: format!("{name}-{sector}-{way}"), options, direct });
        }
    }
    cases
}

#[test]
fn authenticated_volumes_are_read_and_written_by_us_and_the_kernel() {
    let share = Scratch::new();
    let key = write_key(share.as_path(), "key", &Random::new(5).bytes(256));
    let cases = cases();
    let chosen = Campaign::matrix("authenticated volumes in the kernel", SAMPLE).chosen(&cases);
    for cases in chosen.chunks(PER_BOOT) {
        boot(&share, &key, cases);
    }
    println!("kernel: {} authenticated volumes are read and written both ways", chosen.len());
}

fn boot(share: &Scratch, key: &Path, cases: &[Case]) {
    let mut kernel = Kernel::script("authenticated.sh").share(share.as_path());
    let mut lines = String::new();
    let mut noise = Random::new(cases.len() as u64);
    let place = |name: &str| VolumeFile { path: share.path(format!("{name}.img")), key: key.into() };
    for case in cases {
        let Case { name, options, .. } = case;
        let ours = place(name);
        let small = "--luks2-metadata-size 16K --luks2-keyslots-size 1M --offset 4096";
        ours.run("format", &format!("--yes --size {SIZE} {FAST_PBKDF2} {small} {options}")).expect_code(0);
        let plain = share.path(format!("{name}.plain"));
        ours.decrypt(&plain);
        let zeros = fs::read(&plain).expect("read the plaintext");
        assert!(!zeros.is_empty() && zeros.iter().all(|byte| *byte == 0), "{name}: a new volume is zeros");
        fs::write(&plain, noise.bytes(zeros.len())).expect("write the plaintext");
        fs::write(share.path(format!("{name}.new")), noise.bytes(zeros.len())).expect("write the plaintext");
        ours.encrypt(&plain);
        let theirs = place(&format!("{name}-theirs"));
        fs::write(&theirs.path, vec![0; SIZE]).expect("write an image");
        kernel = kernel.disk(&ours.path).disk(&theirs.path);
        writeln!(lines, "{name} {} {options}", case.how()).expect("write to a string");
    }
    fs::write(share.path("volumes"), lines).expect("write the list");
    let told = kernel.ok("").text();
    assert_eq!(told.lines().filter(|line| line.ends_with(": same")).count(), cases.len(), "{told}");
    for Case { name, .. } in cases {
        let new = fs::read(share.path(format!("{name}.new"))).expect("read the plaintext");
        for volume in [place(name), place(&format!("{name}-theirs"))] {
            let out = share.path("out");
            volume.decrypt(&out);
            let read = fs::read(&out).expect("read the plaintext");
            assert!(new.starts_with(&read), "{name}: we read something else");
            assert!(new.len() - read.len() < 128 << 10, "{name}: {} of {} bytes", read.len(), new.len());
            fs::remove_file(&out).expect("remove the plaintext");
            let mut image = fs::read(&volume.path).expect("read the image");
            // Data lies at the end, whatever the tags before it take.
            image[SIZE - (128 << 10)] ^= 1;
            fs::write(&volume.path, image).expect("write the image");
            let read = atrest("decrypt --no-checkpoint --key-file").arg(key).arg(&volume.path).arg(&out);
            let refused = read.run().expect_code(4).messages();
            assert!(refused.contains("its tag is wrong"), "{name}: {refused}");
            fs::remove_file(&volume.path).expect("remove the image");
            if out.exists() {
                fs::remove_file(&out).expect("remove the plaintext");
            }
        }
    }
}
