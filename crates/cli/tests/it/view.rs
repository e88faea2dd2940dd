//! How much of a volume is shown and how, and what is refused before a passphrase is asked for.

use std::fs;
use std::os::unix::fs::FileExt;

use crate::common::Scratch;

/// The beginning of IEEE 1619's first vector: zeros under an AES-256-bit XTS key of zeros, data unit 0.
const VECTOR: &str = "917cf69ebd68b2ec9b9fe9a3eadda692cd43d2f59598ed858c02c2652fbf922e";

#[test]
fn a_key_with_equal_halves_is_read_if_asked_for_and_never_written() {
    let scratch = Scratch::new();
    scratch.file("key", "k");
    scratch.file("vk", [0; 32]);
    let vector: Vec<u8> =
        (0..32).map(|at| u8::from_str_radix(&VECTOR[2 * at..2 * at + 2], 16).expect("hexadecimal")).collect();
    let format = "luksFormat -q -c aes-xts-plain64 -s 256 --volume-key-file vk --key-file key";
    for (name, more, data) in [
        ("one", "--type luks1 --pbkdf-force-iterations 1000", 2 << 20),
        ("two", "--type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --sector-size 512", 16 << 20),
        ("plain", "", 0),
    ] {
        scratch.bash(&format!("truncate -s 20M {name}")).ok();
        let open: &[&str] = if more.is_empty() {
            &["--type", "plain", "-c", "aes-xts-plain64", "-s", "256", "--key-file", "vk"]
        } else {
            let words: Vec<&str> = format.split(' ').chain(more.split(' ')).chain([name]).collect();
            scratch.tool("cryptsetup", &words).ok();
            &["--key-file", "key"]
        };
        let volume = fs::OpenOptions::new().write(true).open(scratch.path(name)).expect("the volume");
        volume.write_all_at(&vector, data).expect("written");
        let before = fs::read(scratch.path(name)).expect("the volume");

        let out = format!("{name}.out");
        let decrypt = [&["decrypt", name, &out, "--size", "512"], open].concat();
        let ran = scratch.atrest(&decrypt);
        assert!(ran.code != 0 && ran.stderr.contains("--allow-equal-xts-halves"), "{name}: {}", ran.stderr);
        assert!(!scratch.path(&out).exists());
        let allow = "--allow-equal-xts-halves";
        scratch.atrest(&[&decrypt[..], &[allow]].concat()).ok();
        assert_eq!(fs::read(scratch.path(&out)).expect("the plaintext")[..32], [0; 32], "{name}");

        // Everything that looks inside reads it too; there is nothing to be found.
        scratch.atrest(&[&["ls", name, allow], open].concat()).fails(4, "no known filesystem");
        scratch.atrest(&[&["cat", name, "/x", allow], open].concat()).fails(4, "no known filesystem");
        let outward = format!("{name}:/x");
        scratch.atrest(&[&["cp", &outward, "copy", allow], open].concat()).fails(4, "no known filesystem");
        // Nothing writes.
        scratch.file("src", "plaintext");
        scratch.atrest(&[&["cp", "src", &outward, allow], open].concat()).fails(1, "for reading");
        scratch.atrest(&[&["encrypt", "--yes", "src", name, allow], open].concat()).fails(1, "for reading");

        let run = ["--nbd", "--run", "sh", "-c", "nbdinfo --is readonly \"$ATREST_URI\""];
        let serve = [&["open", name, allow], open, &run].concat();
        scratch.atrest(&serve).fails(0, "can only be read");
        assert!(fs::read(scratch.path(name)).expect("the volume") == before, "{name} was written");
    }
}

#[test]
fn a_view_has_a_size_that_is_possible() {
    let scratch = Scratch::with_volume();
    let key = ["--key-file", "key"];
    let decrypt = |size: &str, says: &str, code: i32| {
        scratch
            .atrest(&[&["decrypt", "vol", "out", "--yes", "--size", size], &key[..]].concat())
            .fails(code, says);
    };
    decrypt("0", "512 bytes would be", 1);
    decrypt("1", "512 bytes would be", 1);
    decrypt("1000", "512 bytes would be", 1);
    decrypt("512", "4096 bytes would be", 1);
    decrypt("8704", "8192 bytes would be", 1);
    decrypt("1T", "more than the 4194304 bytes", 1);
    assert!(!scratch.path("out").exists());
    decrypt("8K", "", 0);
    assert_eq!(fs::metadata(scratch.path("out")).expect("the plaintext").len(), 8192);

    scratch.file("plain", vec![0; 8192]);
    scratch.file("vk", (0..32).collect::<Vec<u8>>());
    let plain = ["--type", "plain", "-c", "aes-cbc-plain", "-s", "256", "--key-file", "vk", "plain", "p.out"];
    let of_size = |size: &str| scratch.atrest(&[&["decrypt", "--size", size], &plain[..]].concat());
    of_size("1000").fails(1, "512 bytes would be");
    of_size("0").fails(1, "512 bytes would be");
    of_size("1024").ok();
    assert_eq!(fs::metadata(scratch.path("p.out")).expect("the plaintext").len(), 1024);
    // A hash that does nothing is worth a word, as in cryptsetup.
    let ran = scratch.atrest(&[&["decrypt", "--yes", "--hash", "sha256"], &plain[..]].concat()).ok();
    assert!(ran.stderr.contains("--hash is ignored"), "{}", ran.stderr);
    // So is one that nobody knows.
    let ran = scratch.atrest(&[&["decrypt", "--yes", "--hash", "md5000"], &plain[..]].concat()).ok();
    assert!(ran.stderr.contains("--hash is ignored"), "{}", ran.stderr);
}

#[test]
fn json_is_spoken_by_readiness_and_warnings_too() {
    let scratch = Scratch::with_volume();
    let name = scratch.session();
    scratch.bash("chmod 644 key").ok();
    let open = ["open", "--json", "--daemon", "--name", &name, "--nbd", "sock", "--key-file", "key", "vol"];
    let ran = scratch.atrest(&open).ok();
    let ready = ran.json();
    scratch.atrest(&["close", &name]).ok();
    assert_eq!((&ready["event"], &ready["name"]), (&"ready".into(), &name.as_str().into()), "{ready}");
    assert!(ready["uri"].as_str().is_some_and(|uri| uri.starts_with("nbd+unix://")), "{ready}");
    let warning: serde_json::Value = serde_json::from_str(ran.stderr.trim_end()).expect("a line of JSON");
    assert!(warning["warning"].as_str().is_some_and(|text| text.contains("chmod 600")), "{warning}");

    fs::create_dir(scratch.path("mnt")).expect("the mount point");
    let open = ["open", "--json", "--daemon", "--name", &name, "--fuse", "mnt", "--key-file", "key", "vol"];
    let ready = scratch.atrest(&open).ok().json();
    scratch.atrest(&["close", &name]).ok();
    assert!(ready["path"].as_str().is_some_and(|path| path.ends_with("mnt/volume")), "{ready}");
}

#[test]
fn what_cannot_be_served_is_told_before_a_passphrase_is_wanted() {
    let scratch = Scratch::with_volume();
    scratch.bash("mkdir full && touch full/x && touch file && mkdir mnt").ok();
    // There is no terminal, so a question would be another error.
    let open = |face: &[&str]| scratch.atrest(&[&["open", "vol"], face].concat());
    open(&["--nbd", "--run", "true"]).fails(1, "terminal");
    open(&["--nbd", "file"]).fails(1, "not a socket");
    open(&["--nbd", "absent/socket"]).fails(4, "absent/socket");
    open(&["--nbd-tcp", "0.0.0.0:0"]).fails(1, "other machines");
    open(&["--fuse", "absent"]).fails(4, "absent");
    open(&["--fuse", "file"]).fails(1, "not a directory");
    open(&["--fuse", "full"]).fails(5, "not empty");
    open(&["--fuse", "mnt", "--run", "no-such-command-here"]).fails(1, "no-such-command-here");
    open(&["--fuse", "mnt", "--run", "./file"]).fails(1, "./file");

    let name = scratch.session();
    let key = ["--key-file", "key"];
    let serve = ["open", "--daemon", "--name", &name, "--read-only", "vol"];
    scratch.atrest(&[&serve[..], &key, &["--nbd", "sock"]].concat()).ok();
    open(&["--read-only", "--nbd", "sock"]).fails(5, "another server answers");
    let taken = scratch.atrest(&[&serve[..], &["--nbd"]].concat());
    scratch.atrest(&["close", &name]).ok();
    taken.fails(5, &format!("a volume named {name} is open already"));
}

#[test]
fn an_image_that_is_cut_off_is_told_from_one_that_is_no_volume() {
    let scratch = Scratch::with_volume();
    let whole = fs::read(scratch.path("vol")).expect("the volume");
    for len in [100, 2000, 4095, 16 << 10, 1 << 20] {
        scratch.file("cut", &whole[..len]);
        let ran = scratch.atrest(&["info", "cut"]).fails(4, "the LUKS2 header is cut off");
        assert!(ran.stderr.contains("was the image cut off?"), "{}", ran.stderr);
    }
    scratch.file("cut", &whole[1..2000]);
    scratch.atrest(&["info", "cut"]).fails(4, "not a LUKS volume");
}
