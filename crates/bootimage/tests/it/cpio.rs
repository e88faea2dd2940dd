//! Archives against Debian's cpio, and streams against gzip, xz and zstd, both ways.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use atrest_bootimage::compress::{CompressError, Compression, pack, unpack_all, unpack_one};
use atrest_bootimage::cpio::{
    Archive, Content, CpioError, Kind, Limits, PathError, read_archive, read_chain,
};
use atrest_testkit::Scratch;
use atrest_testkit::oracle::Program;
use atrest_testkit::random::Random;

/// 300,000 bytes that compress to about half, the same in every run.
fn sample() -> Vec<u8> {
    let mut random = Random::new(7);
    let noise = random.bytes(75_000);
    noise.iter().flat_map(|byte| [b'a', *byte, b'b', byte & 15]).collect()
}

fn archive() -> Archive {
    let mut archive = Archive::new();
    let nowhere = |_: &str| false;
    let mut add =
        |path: &str, mode, content| archive.add(path, mode, content, &nowhere).expect("can be added");
    add("/init", 0o755, Content::File(sample().into()));
    add("etc/atrest/modules", 0o644, Content::File(b"kernel/a.ko\n".to_vec().into()));
    add("etc/key", 0o400, Content::File(vec![0, 1, 2].into()));
    add("empty", 0o600, Content::File(Vec::new().into()));
    add("bin/sh", 0o777, Content::Symlink(b"busybox".to_vec()));
    add("tmp", 0o1777, Content::Directory);
    archive
}

#[test]
fn cpio_extracts_what_we_write() {
    let directory = Scratch::new();
    let file = archive().to_newc(1_700_000_000);
    assert_eq!(file, archive().to_newc(1_700_000_000), "not the same twice");
    let out = Program::named("cpio")
        .words("-i -m --quiet")
        .current_dir(directory.as_path())
        .stdin(file.to_vec())
        .ok();
    assert_eq!(out.messages(), "");
    let at = |name: &str| directory.path(name);
    let mode = |name: &str| fs::metadata(at(name)).expect("is there").permissions().mode() & 0o7777;
    assert_eq!(fs::read(at("init")).expect("readable"), sample());
    assert_eq!(fs::read(at("etc/atrest/modules")).expect("readable"), b"kernel/a.ko\n");
    assert_eq!(fs::read_link(at("bin/sh")).expect("a link"), Path::new("busybox"));
    assert_eq!([mode("init"), mode("etc/key"), mode("empty"), mode("tmp")], [0o755, 0o400, 0o600, 0o1777]);
    assert_eq!(mode("etc/atrest"), 0o755);
}

#[test]
fn devices_are_listed_by_cpio_with_their_numbers() {
    let mut archive = Archive::new();
    archive.add("dev/console", 0o600, Content::CharDevice(5, 1), &|_| false).expect("can be added");
    archive.add("dev/vda", 0o660, Content::BlockDevice(254, 16), &|_| false).expect("can be added");
    let listed = Program::named("cpio").words("-itv --quiet").stdin(archive.to_newc(0).to_vec()).ok().text();
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1][..6], ["crw-------", "1", "root", "root", "5,", "1"], "{listed}");
    assert_eq!(lines[2][..6], ["brw-rw----", "1", "root", "root", "254,", "16"], "{listed}");
}

#[test]
fn we_read_what_cpio_writes() {
    let directory = Scratch::new();
    let at = |name: &str| directory.path(name);
    fs::create_dir_all(at("usr/bin")).expect("made");
    fs::write(at("usr/bin/tool"), sample()).expect("written");
    fs::hard_link(at("usr/bin/tool"), at("usr/bin/other")).expect("linked");
    fs::set_permissions(at("usr/bin/tool"), PermissionsExt::from_mode(0o750)).expect("set");
    symlink("usr/bin", at("bin")).expect("linked");
    fs::write(at("a file with blanks and \u{fc}"), b"x").expect("written");
    for format in ["newc", "crc"] {
        let names = ".\nusr\nusr/bin\nusr/bin/tool\nusr/bin/other\nbin\na file with blanks and \u{fc}\n";
        let file =
            Program::named("cpio").args(["-o", "--quiet", "-H", format]).current_dir(directory.as_path());
        let file = file.stdin(names).ok().stdout;
        let (entries, end) = read_archive(&file, 0).expect("an archive");
        assert!(file[end..].iter().all(|&byte| byte == 0));
        let names: Vec<String> = entries.iter().map(|entry| entry.name_text()).collect();
        // cpio writes the content of a file with several names with the last of them.
        assert_eq!(
            names,
            ["", "usr", "usr/bin", "bin", "a file with blanks and \u{fc}", "usr/bin/tool", "usr/bin/other"]
                .map(String::from)
                .to_vec()
                .tap_sorted_like(&names),
            "{format}"
        );
        let entry =
            |name: &str| entries.iter().find(|entry| entry.name == name.as_bytes()).expect("is there");
        assert_eq!(entry("usr/bin/tool").kind(), Kind::File);
        assert_eq!(entry("usr/bin/tool").mode & 0o7777, 0o750);
        assert_eq!(entry("usr/bin/tool").inode, entry("usr/bin/other").inode);
        assert_eq!(entry("usr/bin/tool").links, 2);
        let content = [entry("usr/bin/tool"), entry("usr/bin/other")].map(|entry| &file[entry.data.clone()]);
        assert!(content.contains(&sample().as_slice()) && content.contains(&&[][..]), "{format}");
        assert_eq!(&file[entry("bin").data.clone()], b"usr/bin");
        assert_eq!(entry("bin").kind(), Kind::Symlink);
    }
    for format in ["odc", "bin"] {
        let file =
            Program::named("cpio").args(["-o", "--quiet", "-H", format]).current_dir(directory.as_path());
        let file = file.stdin("usr\n").ok().stdout;
        let error = read_archive(&file, 0).expect_err("the kernel does not take it");
        assert!(
            matches!(error, CpioError::OldFormat { offset: 0 } | CpioError::Unknown { offset: 0 }),
            "{error}"
        );
    }
}

/// Orders names as another list has them; names that the other lacks stay and fail the comparison.
trait SortedLike {
    fn tap_sorted_like(self, other: &[String]) -> Self;
}

impl SortedLike for Vec<String> {
    fn tap_sorted_like(mut self, other: &[String]) -> Self {
        self.sort_by_key(|name| other.iter().position(|known| known == name));
        self
    }
}

const PROGRAMS: [(Compression, &str, &str); 3] = [
    (Compression::Gzip, "gzip", "-c"),
    (Compression::Xz, "xz", "-c --check=crc32"),
    (Compression::Zstd, "zstd", "-c -q -19"),
];

#[test]
fn streams_are_those_of_the_programs_both_ways() {
    for content in [sample(), Vec::new(), vec![0; 3_000_000]] {
        for (compression, program, options) in PROGRAMS {
            let theirs = Program::named(program).words(options).stdin(content.clone()).ok().stdout;
            assert_eq!(Compression::detect(&theirs), Some(compression));
            let (unpacked, used) = unpack_one(compression, &theirs, 1 << 22).expect("unpacks");
            assert!(unpacked == content && used == theirs.len(), "{program}");
            let ours = pack(compression, &content).expect("packs");
            assert_eq!(ours, pack(compression, &content).expect("packs"), "{program}: not the same twice");
            let unpacked = Program::named(program).words("-d -c -q").stdin(ours.clone()).ok().stdout;
            assert!(unpacked == content, "{program} unpacks ours to something else");
            // What follows a stream is not touched, and a limit is one.
            let followed = [ours.as_slice(), b"0707"].concat();
            assert_eq!(
                unpack_one(compression, &followed, 1 << 22).expect("unpacks").1,
                ours.len(),
                "{program}"
            );
            if let Some(limit) = (content.len() as u64).checked_sub(1) {
                let error = unpack_one(compression, &theirs, limit).expect_err("too large");
                assert!(matches!(error, CompressError::TooLarge { .. }), "{program}: {error}");
            }
        }
    }
    // Two members, as `cat a.gz b.gz` makes them.
    for (compression, program, options) in PROGRAMS {
        let one = Program::named(program).words(options).stdin("one").ok().stdout;
        assert_eq!(unpack_all(compression, &one.repeat(2), 100).expect("unpacks"), b"oneone", "{program}");
        assert!(unpack_all(compression, &one.repeat(2), 5).is_err(), "{program}");
        assert!(unpack_all(compression, &[&one[..], b"?"].concat(), 100).is_err(), "{program}");
    }
}

#[test]
fn the_kernel_s_xz_is_asked_for_nothing_it_lacks() {
    let ours = pack(Compression::Xz, &sample()).expect("packs");
    let directory = Scratch::new();
    let path = directory.path("sample.xz");
    fs::write(&path, ours).expect("written");
    let listed = Program::named("xz").words("--list -vv").arg(&path).ok().text();
    assert!(listed.contains("CRC32") && listed.contains("--lzma2=dict=8MiB"), "{listed}");
    assert!(!["x86", "arm", "CRC64"].iter().any(|other| listed.contains(other)), "{listed}");
}

#[test]
fn a_chain_of_microcode_and_a_compressed_archive_is_read_whole() {
    let mut microcode = Archive::new();
    microcode
        .add("kernel/x86/microcode/GenuineIntel.bin", 0o644, Content::File(vec![1; 5000].into()), &|_| false)
        .expect("can be added");
    let early = microcode.to_newc(0);
    let main = archive().to_newc(0);
    for (compression, program, options) in PROGRAMS {
        for padding in [0, 4, 512, 1023] {
            let mut file = early.to_vec();
            file.resize(early.len() + padding, 0);
            let compressed = Program::named(program).words(options).stdin(main.to_vec()).ok().stdout;
            file.extend_from_slice(&compressed);
            file.resize(file.len().next_multiple_of(4), 0);
            let third = file.len();
            file.extend_from_slice(&early);
            let segments = read_chain(&file, Limits::default()).expect("a chain");
            let found: Vec<_> = segments.iter().map(|s| (s.offset, s.compression, s.entries.len())).collect();
            let begin = early.len() + padding;
            assert_eq!(
                found,
                [(0, Compression::None, 4), (begin, compression, 9), (third, Compression::None, 4)],
                "{program} {padding}"
            );
            assert_eq!(segments[1].len, compressed.len());
            let init = segments[1].entries.iter().find(|entry| entry.name == b"init").expect("is there");
            assert_eq!(segments[1].data(init), sample());
            let code = &segments[2].entries[3];
            assert_eq!(
                (code.name_text().as_str(), segments[2].data(code)),
                ("kernel/x86/microcode/GenuineIntel.bin", &[1; 5000][..])
            );
        }
    }
}

#[test]
fn every_truncation_is_an_error() {
    let file = archive().to_newc(0);
    for len in (0..file.len()).filter(|len| *len < 3000 || *len > file.len() - 3000 || len % 977 == 0) {
        read_chain(&file[..len], Limits::default()).expect_err("cut off");
    }
    for (compression, program, _) in PROGRAMS {
        let file = pack(compression, &file).expect("packs");
        for len in (0..file.len()).filter(|len| *len < 100 || *len > file.len() - 100 || len % 9777 == 0) {
            let error = read_chain(&file[..len], Limits::default()).expect_err("cut off");
            assert!(
                len < 6 || matches!(error, CpioError::Compressed { offset: 0, .. }),
                "{program} {len}: {error}"
            );
        }
    }
    let cut = &file[..file.len() / 2];
    let message = read_chain(cut, Limits::default()).expect_err("cut off").to_string();
    assert!(message.contains("\"init\" at byte"), "{message}");
}

#[test]
fn hostile_archives_are_refused_where_they_are_wrong() {
    let header = |name: &[u8], name_len: usize, size: &str| {
        let mut file =
            format!("070701{}{size}{}{name_len:08x}{}", "0".repeat(48), "0".repeat(32), "0".repeat(8));
        assert_eq!(file.len(), 110);
        file.push_str(&String::from_utf8_lossy(name));
        let mut file = file.into_bytes();
        file.resize(file.len().next_multiple_of(4), 0);
        file
    };
    let message = |file: &[u8]| read_chain(file, Limits::default()).expect_err("wrong").to_string();
    assert_eq!(
        message(&header(b"x\0", 2, "ffffffff")),
        "the archive is cut off: \"x\" at byte 0 would end at byte 4294967407"
    );
    assert_eq!(message(&header(b"x\0", 0, "00000000")), "at byte 0: a name of 0 bytes that can't be one");
    assert_eq!(
        message(&header(b"x\0", 0xffff_ffff, "00000000")),
        "at byte 0: a name of 4294967295 bytes that can't be one"
    );
    assert_eq!(message(&header(b"xy", 2, "00000000")), "at byte 0: a name of 2 bytes that can't be one");
    assert_eq!(message(&header(b"x\0", 2, "0000+001")), "at byte 0: the field filesize is not a number");
    for name in ["../x", "a/../../x", "/.."] {
        let file = header(format!("{name}\0").as_bytes(), name.len() + 1, "00000000");
        assert!(message(&file).contains("leads out of the archive"), "{name}");
    }
    assert!(message(b"BZh91AY&SY").contains("bzip2"));
    assert!(message(&[0x02, 0x21, 0x4c, 0x18]).contains("lz4"));
    assert!(message(&[0; 100]).contains("without its trailer"));
    assert!(message(&[&archive().to_newc(0)[..], b"junk"].concat()).contains("neither a cpio archive"));
    // A small file that unpacks to more than is allowed.
    let bomb = pack(Compression::Xz, &vec![0; 20_000_000]).expect("packs");
    assert!(bomb.len() < 10_000);
    let error = read_chain(&bomb, Limits { unpacked: 1_000_000 }).expect_err("too large").to_string();
    assert!(error.contains("more than 1000000 bytes"), "{error}");
}

#[test]
fn names_that_lead_elsewhere_are_never_written() {
    let mut archive = Archive::new();
    for name in ["..", "a/../b", "", "/", "a//b", "./a", "a\0b", "TRAILER!!!", "a/"] {
        let result = archive.add(name, 0o644, Content::Directory, &|_| false);
        assert_eq!(result, Err(PathError::Name(name.into())), "{name:?}");
    }
    archive.add("a", 0o644, Content::File(Vec::new().into()), &|_| false).expect("can be added");
    for name in ["a", "a/b"] {
        let result = archive.add(name, 0o644, Content::File(Vec::new().into()), &|_| false);
        assert_eq!(result, Err(PathError::Twice("a".into())), "{name:?}");
    }
    assert_eq!(archive.names().count(), 1);
}
