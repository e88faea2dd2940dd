//! The kernel's dm-integrity as the judge, both ways: what it laid out and wrote is read here, also out of the journal that a crash leaves;
//! and what is laid out and written here it reads, also out of a journal of ours.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use atrest_format::integrity::{Bitmap, Layout};
use atrest_testkit::kernel::Kernel;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Campaign, Random, Scratch};

use super::*;

/// What the kernel lays out: name, options of `format`, the hash, whether the journal has a keyed hash.
const THEIRS: &[(&str, &str, &str, bool)] = &[
    ("crc32c", "--integrity crc32c", "crc32c", false),
    (
        "hmac-mac",
        "--integrity hmac-sha256 --tag-size 32 --sector-size 4096 --integrity-key-file /share/key --integrity-key-size 40 --journal-integrity hmac-sha256 --journal-integrity-key-file /share/key --journal-integrity-key-size 40",
        "hmac-sha256",
        true,
    ),
    ("ctr", "--integrity sha256 CIPHER ctr-aes", "sha256", false),
    ("bitmap", "--integrity crc32c --integrity-bitmap-mode --bitmap-sectors-per-bit 256", "crc32c", false),
    ("sha256", "--integrity sha256 --sector-size 4096", "sha256", false),
    ("crc32-legacy", "--integrity crc32 --sector-size 1024 --integrity-legacy-padding", "crc32", false),
    ("xxhash64", "--integrity xxhash64 --interleave-sectors 1024 --sector-size 2048", "xxhash64", false),
    ("blake2b", "--integrity blake2b-256 --tag-size 32 --sector-size 4096", "blake2b-256", false),
    ("sha1", "--integrity sha1 --tag-size 20", "sha1", false),
    ("cbc", "--integrity crc32c CIPHER cbc-aes", "crc32c", false),
    (
        "hmac-legacy",
        "--integrity hmac-sha512 --tag-size 64 --integrity-key-file /share/key --integrity-key-size 40 --integrity-legacy-hmac",
        "hmac-sha512",
        false,
    ),
];
/// Options of `open` that `format` has not.
const BITMAP: &str = " --integrity-bitmap-mode --bitmap-sectors-per-bit 256";
/// Options of `format` that `open` has not.
const ONLY_FORMAT: [&str; 4] = ["--tag-size", "--sector-size", "--interleave-sectors", "--journal-size"];
/// How many devices of the kernel and of ours the sample has.
const SAMPLE: usize = 4;
/// What stands for `CIPHER`.
const CIPHER: &str = "--journal-crypt-key-file /share/key --journal-crypt-key-size 32 --journal-crypt";
const SIZE: usize = 6 << 20;
/// 4096-byte blocks that the kernel writes: where, and how many.
const WRITES: [(usize, usize); 4] = [(100, 64), (3, 5), (110, 7), (900, 1)];

/// The options of `open` for what `format` was told.
fn opening(format: &str) -> String {
    let mut words = format.split(' ');
    let mut left = Vec::new();
    while let Some(word) = words.next() {
        if ONLY_FORMAT.contains(&word) {
            words.next();
        } else if !word.starts_with("--integrity-legacy") {
            left.push(word);
        }
    }
    left.join(" ")
}

/// Lays out a device of ours, writes through it, and returns its data. With `dirty` what was written last is in the journal alone, as after
/// a crash behind the commit; in bitmap mode it is marked, and has wrong tags.
fn write_ours(kind: Kind, mode: Mode, dirty: bool, image: &Path) -> Vec<u8> {
    let media = kind.made(SIZE, 0);
    let superblock = Superblock::parse(&media.image()).expect("a superblock");
    let unit = u64::from(kind.unit);
    let mut model = vec![0; superblock.provided as usize];
    let mut random = Random::new(5);
    let mut write = |open: &Integrity, count: usize| {
        for _ in 0..count {
            let units = 1 + random.below(40);
            let first = random.below(superblock.provided / unit - units);
            let run = random.bytes((units * unit) as usize);
            open.write(first * unit, &mut run.clone()).expect("written");
            model[(first * unit) as usize..][..run.len()].copy_from_slice(&run);
        }
        open.flush().expect("flushed");
    };
    let open = kind.open(media.clone(), 0, mode);
    for _ in 0..6 {
        write(&open, 5);
    }
    let before = media.image();
    // No more than one commit takes.
    write(&open, 1);
    if dirty && mode == Mode::Bitmap {
        let mut after = media.image();
        spoil_marked(&mut after);
        drop(open);
        fs::write(image, after).expect("an image");
        return model;
    }
    drop(open);
    let mut after = media.image();
    if dirty {
        let layout = Layout::new(&superblock, SIZE as u64, None).expect("it lies there");
        let home = layout.section_at(layout.sections()) as usize;
        assert!(after[home..] != before[home..], "something was put in its place");
        after[home..].copy_from_slice(&before[home..]);
    }
    fs::write(image, after).expect("an image");
    model
}

/// Gives a unit in each marked region a wrong tag, as a crash can.
fn spoil_marked(image: &mut [u8]) {
    let superblock = Superblock::parse(image).expect("a superblock");
    assert!(superblock.flags.dirty_bitmap, "it was not closed");
    let layout = Layout::new(&superblock, SIZE as u64, None).expect("it lies there");
    let mut marked = Bitmap::clear(&layout, superblock.log2_units_per_bit).expect("it fits");
    let end = 4096 + marked.bytes().len();
    marked.bytes_mut().copy_from_slice(&image[4096..end]);
    let (mut from, mut spoilt) = (0, 0);
    while let Some(units) = marked.next(from) {
        image[layout.span(units.start, 1).expect("a unit").tags as usize] ^= 1;
        (from, spoilt) = (units.end, spoilt + 1);
    }
    assert!(spoilt > 0, "nothing is marked");
}

/// What the kernel left marked, with wrong tags there, and what is left of that here in each way to write.
fn check_marked(name: &str, live: &[u8], plain: &[u8]) {
    let mut image = live.to_vec();
    spoil_marked(&mut image);
    for mode in [Mode::Bitmap, Mode::Journal, Mode::Direct] {
        let media = Arc::new(FaultDevice::new(image.clone()));
        let superblock = read_superblock(&*media, 0).expect("a superblock");
        let options = OpenOptions { mode, unkeyed: true, ..OpenOptions::default() };
        let open = Integrity::open(media.clone(), 0, checksum("crc32c", &superblock), options).expect(name);
        open.wait_until_recalculated().expect("computed");
        drop(open);
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let open = Integrity::open(media, 0, checksum("crc32c", &superblock), options).expect("all has tags");
        let mut found = vec![0; plain.len()];
        for (run, number) in found.chunks_mut(1 << 16).zip(0..) {
            open.read(number << 16, run).unwrap_or_else(|error| panic!("{name} {mode:?}: {error}"));
        }
        assert!(found == plain, "{name} {mode:?}");
    }
}

/// What of the kernel's data is not read here.
fn check_theirs(share: &Path, (name, _, hashed, mac): (&str, &str, &str, bool)) {
    let plain = fs::read(share.join(format!("{name}.plain"))).expect("the data");
    for (state, read_only) in [("live", true), ("live", false), ("closed", true), ("closed", false)] {
        let image = fs::read(share.join(format!("{name}.{state}"))).expect("an image");
        let media = Arc::new(FaultDevice::new(image));
        let superblock = read_superblock(&*media, 0).expect("a superblock");
        assert_eq!(superblock.provided, plain.len() as u64, "{name}");
        let journal_hash = mac.then(|| hash("hmac-sha256"));
        let unkeyed = !hashed.starts_with("hmac");
        let cipher = matches!(name, "cbc" | "ctr").then(|| format!("{name}-aes"));
        let journal_cipher =
            cipher.map(|cipher| (cipher.parse().expect("known"), SecretBytes::copy_from(&KEY[..32])));
        let options =
            OpenOptions { read_only, journal_hash, journal_cipher, unkeyed, ..OpenOptions::default() };
        let open = Integrity::open(media, 0, checksum(hashed, &superblock), options).expect(name);
        let unit = superblock.data_unit as usize;
        let mut run = vec![0; unit];
        for (data, number) in plain.chunks(unit).zip(0..) {
            open.read(number * unit as u64, &mut run)
                .unwrap_or_else(|error| panic!("{name} {state}: {error}"));
            assert!(run == data, "{name} {state}: unit {number}");
        }
    }
    let live = fs::read(share.join(format!("{name}.live"))).expect("an image");
    if name == "bitmap" {
        check_marked(name, &live, &plain);
    }
    // And it is laid out as we do it.
    let image = fs::read(share.join(format!("{name}.closed"))).expect("an image");
    let theirs = Superblock::parse(&image).expect("a superblock");
    let created = Layout::create(&NewLayout {
        data_unit: theirs.data_unit,
        tag_len: theirs.tag_len,
        interleave: 1 << theirs.log2_interleave,
        journal: None,
        flags: theirs.flags,
        salt: theirs.salt,
        size: SIZE as u64,
        data_size: None,
    });
    // It keeps what it was told when it was opened.
    let log2_units_per_bit = theirs.log2_units_per_bit;
    let created = created.map(|created| Superblock { log2_units_per_bit, ..created });
    assert_eq!(created, Ok(theirs), "{name}");
}

#[test]
fn the_kernel_reads_what_is_written_here_and_the_other_way_round() {
    let full = Campaign::is_full();
    let share = Scratch::new();
    fs::write(share.path("key"), KEY).expect("the key");
    fs::write(share.path("random"), Random::new(3).bytes(1 << 20)).expect("data");
    let writes: String = WRITES.iter().map(|(seek, count)| format!("{seek} {count}\n")).collect();
    fs::write(share.path("writes"), writes).expect("the list");
    let mut lines = String::new();
    let mut sums = String::new();
    let mut kernel = Kernel::script("integrity.sh").share(share.as_path());
    let mut letters = 'a'..='z';
    let mut attach = |kernel: Kernel, image: &Path| (kernel.disk(image), letters.next().expect("few"));

    let theirs = &THEIRS[..if full { THEIRS.len() } else { SAMPLE }];
    for (name, format, ..) in theirs {
        let format = &format.replace("CIPHER", CIPHER);
        let image = share.path(format!("{name}.img"));
        fs::write(&image, vec![0; SIZE]).expect("an image");
        let letter;
        (kernel, letter) = attach(kernel, &image);
        writeln!(lines, "{name} /dev/vd{letter} write {} | {}", format.replace(BITMAP, ""), opening(format))
            .expect("a line");
    }
    let key = "--integrity-key-file /share/key --integrity-key-size 40";
    let mac = "--journal-integrity hmac-sha256 --journal-integrity-key-file /share/key --journal-integrity-key-size 40";
    let kinds = [KINDS[0], KINDS[2], KINDS[3]];
    let ways = [(Mode::Journal, true), (Mode::Journal, false), (Mode::Direct, false), (Mode::Bitmap, true)];
    for (number, kind) in kinds.into_iter().enumerate() {
        for (way, (mode, dirty)) in ways.into_iter().enumerate() {
            // The sample has a dirty journal with and without a keyed hash, and a dirty bitmap.
            let in_sample = (way == 0 && number < 2) || (way == 3 && number == 0);
            if !full && !in_sample {
                continue;
            }
            let name = format!("ours-{}-{}-{way}", kind.tags, kind.unit);
            let image = share.path(format!("{name}.img"));
            let kind = if mode == Mode::Bitmap { kind.clear() } else { kind };
            let data = write_ours(kind, mode, dirty, &image);
            fs::write(share.path("plain"), data).expect("the data");
            let sum = Program::named("sha256sum").arg(share.path("plain")).ok().text();
            let sum = sum.split(' ').next().expect("a sum").to_owned();
            let letter;
            (kernel, letter) = attach(kernel, &image);
            let keys = if kind.journal_mac { format!("{key} {mac}") } else { String::new() };
            let cipher = kind.cipher.map(|cipher| format!("{CIPHER} {cipher}")).unwrap_or_default(); // intended: none
            let bitmap = if mode == Mode::Bitmap { "--integrity-bitmap-mode" } else { "" };
            let hashed = format!("--integrity {} {keys} {bitmap} {cipher}", kind.tags);
            writeln!(lines, "{name} /dev/vd{letter} read | {hashed}").expect("a line");
            writeln!(sums, "{name}: {sum}").expect("a line");
        }
    }
    fs::write(share.path("lines"), lines).expect("the list");
    let said = kernel.ok("").text();
    for sum in sums.lines() {
        assert!(said.lines().any(|line| line == sum), "{sum} is not in:\n{said}");
    }
    for case in theirs {
        check_theirs(share.as_path(), *case);
    }
    println!("kernel: {} of its devices were read, and it read {}", theirs.len(), sums.lines().count());
}
