//! `open --dm` against cryptsetup in a real kernel: the same tables, and each closes what the other has opened.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use atrest_testkit::atrest::{VolumeFile, binary, write_key};
use atrest_testkit::kernel::Kernel;
use atrest_testkit::{Campaign, Random, Scratch};

use super::put_programs;

/// Volumes by name, with the options of `format`; without any it is plain, and has no header. The first ones are the sample.
const VOLUMES: &[(&str, &str)] = &[
    ("luks2-512", "--type luks2 --sector-size 512"),
    ("plain", ""),
    ("luks1", "--type luks1"),
    ("luks2-4096", "--type luks2 --sector-size 4096"),
    ("adiantum", "--type luks2 --sector-size 4096 --cipher xchacha12,aes-adiantum-plain64 --key-size 256"),
    ("aes-128", "--type luks2 --sector-size 1024 --key-size 256"),
    ("serpent", "--type luks2 --sector-size 2048 --cipher serpent-xts-plain64"),
    ("essiv", "--type luks1 --cipher aes-cbc-essiv:sha256 --key-size 256"),
    ("twofish", "--type luks2 --sector-size 512 --cipher twofish-cbc-plain64 --key-size 256"),
    ("lrw", "--type luks1 --cipher aes-lrw-benbi --key-size 384"),
    ("elephant", "--type luks2 --sector-size 512 --cipher aes-cbc-elephant --key-size 512"),
];
/// Volumes with tags, by the options of cryptsetup's `luksFormat`. The first one is the sample. Each is opened in the ways below.
const TAGGED: &[(&str, &str)] = &[
    ("xts-hmac-4k", "-c aes-xts-plain64 -s 512 --integrity hmac-sha256 --sector-size 4096"),
    ("xts-hmac", "-c aes-xts-plain64 -s 512 --integrity hmac-sha256"),
    ("xts-random-hmac", "-c aes-xts-random -s 512 --integrity hmac-sha256"),
    ("essiv-hmac", "-c aes-cbc-essiv:sha256 -s 256 --integrity hmac-sha256"),
    ("gcm-random", "-c aes-gcm-random -s 256 --integrity aead"),
    ("chacha20-poly1305", "-c chacha20-random -s 256 --integrity poly1305"),
    ("aegis128", "-c aegis128-random -s 128 --integrity aead"),
];
/// How many volumes, and how many ways to open each, the ordinary test takes.
const SAMPLE: (usize, usize) = (3, 1);
/// How many volumes one boot has: all of them would take half an hour.
const PER_BOOT: usize = 4;
/// Ways to open each volume with tags. One by turns is the sample.
const TAGGED_WAYS: [&str; 3] = ["", "--disable-keyring --perf-no_read_workqueue", "--integrity-no-journal"];

/// Ways to open a volume with a header, in options that cryptsetup has too.
const WAYS: &[&str] = &[
    "",
    "--allow-discards --disable-keyring",
    "--read-only",
    "--perf-same_cpu_crypt --perf-submit_from_crypt_cpus --perf-no_read_workqueue --perf-no_write_workqueue",
    "--disable-keyring",
    "--allow-discards",
    "--perf-no_read_workqueue --read-only",
    "--perf-same_cpu_crypt --disable-keyring --allow-discards",
];
/// Ways to open a plain one.
const PLAIN_WAYS: &[&str] = &[
    "--cipher aes-xts-plain64 --key-size 512",
    "--cipher aes-cbc-essiv:sha256 --key-size 256 --skip 7 --offset 2048",
    "--cipher aes-xts-plain64 --key-size 256 --sector-size 4096 --iv-large-sectors --skip 8",
    "--cipher xchacha20,aes-adiantum-plain64 --key-size 256 --sector-size 4096 --read-only",
    "--cipher serpent-cbc-plain64 --key-size 256",
    "--cipher twofish-cbc-plain --key-size 256",
    "--cipher aes-cbc-tcw --key-size 512",
    "--cipher aes-xts-plain64 --key-size 512 --sector-size 2048 --allow-discards",
];

#[test]
fn mappings_are_those_of_cryptsetup() {
    let share = Scratch::new();
    let key = write_key(share.as_path(), "key", &Random::new(5).bytes(256));
    write_key(share.as_path(), "second", b"battery staple");
    put_programs(&share, &[("atrest", binary())]);

    let (volumes, ways) = if Campaign::is_full() { (VOLUMES.len(), usize::MAX) } else { SAMPLE };
    let tagged = if Campaign::is_full() { TAGGED } else { &TAGGED[..1] };
    let tagged_ways = Campaign::matrix("ways to open a volume with tags", 1).chosen(&TAGGED_WAYS);
    fs::write(share.path("ways"), tagged_ways.join("\n") + "\n").expect("write the list");
    let mut same = 0;
    let boots = VOLUMES[..volumes].chunks(PER_BOOT);
    let last = boots.len() - 1;
    for (i, volumes) in boots.enumerate() {
        let tagged = if i == last { tagged } else { &[] };
        same += boot(&share, &key, (volumes, i * PER_BOOT), ways, (tagged, tagged_ways.len()));
    }
    println!("kernel: {same} mappings are those of cryptsetup");
}

/// Runs the volumes, of which the first has that number, in one boot, and gives how many mappings were the same: all.
fn boot(
    share: &Scratch,
    key: &Path,
    (volumes, first): (&[(&str, &str)], usize),
    ways: usize,
    (tagged, tagged_ways): (&[(&str, &str)], usize),
) -> usize {
    let mut kernel = Kernel::script("mapping.sh").share(share.as_path());
    let mut lines = String::new();
    let mut count = 0;
    for (number, ((name, options), letter)) in volumes.iter().zip('a'..='z').enumerate() {
        let volume = VolumeFile { path: share.path(format!("{name}.img")), key: key.into() };
        let opening = if options.is_empty() {
            fs::write(&volume.path, Random::new(17).bytes(4 << 20)).expect("write an image");
            PLAIN_WAYS
        } else {
            let cost = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
            let cost = if options.contains("luks1") { "--pbkdf-force-iterations 1000" } else { cost };
            volume.run("format", &format!("--yes --size 20M {cost} {options}")).expect_code(0);
            WAYS
        };
        // Each volume begins with another way, so that the sample has several.
        let opening = opening.iter().cycle().skip(first + number).take(ways.min(opening.len()));
        for (i, way) in opening.enumerate() {
            let plain = if options.is_empty() { "--type plain " } else { "" };
            // The first way of each from a file, too, which takes a loop device.
            let places = [format!("/dev/vd{letter}"), format!("file:{name}.img")];
            for place in places.iter().take(if i == 0 { 2 } else { 1 }) {
                writeln!(lines, "{name} {place} {plain}{way}").expect("write to a string");
                count += 1;
            }
        }
        kernel = kernel.disk(&volume.path);
    }
    fs::write(share.path("mappings"), lines).expect("write the list");
    let lines: String = tagged.iter().map(|(name, options)| format!("{name} {options}\n")).collect();
    fs::write(share.path("tagged"), lines).expect("write the list");
    count += tagged_ways * tagged.len();
    let told = kernel.ok("").text();
    let same = told.lines().filter(|line| line.ends_with(": same")).count();
    assert_eq!((same, told.lines().last()), (count, Some("bad input: refused")), "{told}");
    same
}
