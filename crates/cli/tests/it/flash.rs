//! Encrypted flash on the desk: an image as a chip or card holds it, its keys, and the files in it.

use std::fs;

use crate::common::{Ran, Scratch};

const SIZES: [&str; 6] = ["--type", "flash", "--erase-size", "4096", "--prog-size", "16"];
const CHEAP: [&str; 4] = ["--kdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];

/// A card `card` of 1 MiB that opens with the key file `key`.
fn with_card() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    format(&scratch, &["--size", "1M", "card"]).ok();
    scratch
}

fn format(scratch: &Scratch, more: &[&str]) -> Ran {
    scratch.atrest(&[&["format", "--key-file", "key"], &SIZES[..], &CHEAP, more].concat())
}

fn bytes(scratch: &Scratch, name: &str) -> Vec<u8> {
    fs::read(scratch.path(name)).expect("the image")
}

#[test]
fn files_go_in_and_come_out() {
    let scratch = with_card();
    scratch.bash("mkdir -p in/deep/er; head -c 100000 /dev/urandom > in/deep/er/noise; echo hello > in/hello; : > in/empty").ok();
    let run = |line: &str| scratch.bash(&format!("K='--key-file key'; {line}"));
    run("$ATREST cp -r $K in card:/ && $ATREST cp -r $K card:/in out && diff -r in out").ok();
    assert_eq!(run("$ATREST cat $K card /in/hello").ok().stdout, "hello\n");
    assert_eq!(run("$ATREST ls $K card /in").ok().stdout, "deep\nempty\nhello\n");
    run("$ATREST mkdir $K card /logs/2026").fails(4, "no such file");
    run("$ATREST mkdir -p $K card /logs/2026 && $ATREST mkdir -p $K card /logs/2026").ok();
    run("$ATREST mkdir $K card /logs").fails(5, "exists");
    run("$ATREST rm $K card /in").fails(4, "/in: the directory is not empty");
    run("$ATREST rm $K card /").fails(4, "/: the directory is not empty");
    run("$ATREST cat $K card /in/none").fails(4, "/in/none: no such file");
    let before = run("$ATREST df --json $K card").ok().json();
    assert_eq!(
        (&before["filesystem"], &before["block_size"], &before["blocks"]),
        (&"LittleFS".into(), &4096.into(), &254.into())
    );
    run("$ATREST rm -r $K card /in").ok();
    let after = run("$ATREST df --json $K card").ok().json();
    assert!(after["free"].as_u64() > before["free"].as_u64().map(|free| free + 90_000));
    assert_eq!(run("$ATREST ls $K card /").ok().stdout, "logs\n");
    // Nothing of the plaintext is on the card, and what was never used is as on a new chip.
    let image = bytes(&scratch, "card");
    assert!(!image.windows(8).any(|window| window == b"littlefs"));
    assert!(image.chunks(4096).any(|block| block.iter().all(|byte| *byte == 0xff)));
    // A full card says so and keeps what it has.
    scratch.bash("head -c 2M /dev/urandom > large").ok();
    run("$ATREST cp $K large card:/").fails(4, "no space");
    assert_eq!(run("$ATREST ls $K card /").ok().stdout, "logs\n");
}

#[test]
fn a_mounted_card_is_a_directory() {
    let scratch = with_card();
    scratch.bash("mkdir mnt; echo 'for cp' > file").ok();
    let mount = |line: &str| {
        scratch.bash(&format!(
            "$ATREST mount --key-file key card mnt --run sh -c 'cd \"$ATREST_PATH\" && {line}'"
        ))
    };
    mount("mkdir a && cp ../file a/ && mv a b && $ATREST status && $ATREST info ../card").ok();
    assert_eq!(scratch.atrest(&["cat", "--key-file", "key", "card", "/b/file"]).ok().stdout, "for cp\n");
    let read_only =
        "$ATREST mount --read-only --key-file key card mnt --run sh -c 'cat mnt/b/file; ! touch mnt/x'";
    let before = bytes(&scratch, "card");
    assert_eq!(scratch.bash(read_only).ok().stdout, "for cp\n");
    assert!(bytes(&scratch, "card") == before, "reading wrote");
    scratch.atrest(&["mount", "--key-file", "key", "card", "absent"]).fails(4, "absent");
}

#[test]
fn keys_come_and_go() {
    let scratch = with_card();
    for (name, text) in [("two", "battery"), ("three", "staple"), ("wrong", "x")] {
        scratch.file(name, text);
    }
    let info = scratch.atrest(&["info", "--json", "card"]).ok().json();
    assert_eq!(
        (&info["format"], &info["cipher"], &info["key_bits"]),
        (&"flash".into(), &"aes-xts-plain64".into(), &512.into())
    );
    assert_eq!(
        (&info["erase_size"], &info["prog_size"], &info["blocks"]),
        (&4096.into(), &16.into(), &256.into())
    );
    assert_eq!(info["keyslots"][0]["kdf"], "pbkdf2");
    assert!(scratch.atrest(&["info", "card"]).ok().stdout.contains("encrypted flash"));
    let key = |verb: &str, more: &[&str]| scratch.atrest(&[&["key", verb, "card"], more].concat());
    key("add", &["--key-file", "wrong", "--new-key-file", "two", "--kdf", "catena"])
        .fails(2, "wrong passphrase");
    key("add", &["--key-file", "key", "--new-key-file", "two", "--kdf", "catena"]).ok();
    assert_eq!(key("test", &["--key-file", "two", "--json"]).ok().json()["keyslot"], 1);
    assert!(
        key("list", &[]).ok().stdout.contains("catena-brg, garlic 12, 128 KiB"),
        "{}",
        key("list", &[]).stdout
    );
    key("change", &[&["--key-file", "key", "--new-key-file", "three"], &CHEAP[..]].concat()).ok();
    key("test", &["--key-file", "key"]).fails(2, "wrong passphrase");
    assert_eq!(scratch.atrest(&["ls", "--key-file", "three", "card"]).ok().stdout, "");
    key("remove", &["--key-file", "two"]).ok();
    key("test", &["--key-file", "two"]).fails(2, "wrong passphrase");
    key("remove", &["--key-file", "three"]).fails(1, "last passphrase");
    key("kill", &["0"]).fails(1, "last passphrase");
    key("kill", &["3", "--yes"]).fails(1, "keyslot 3 holds no key");
    key("export", &["vk", "--yes"]).fails(4, "it is flash");
    key("add", &["--key-file", "three", "--new-key-file", "two", "--new-key-slot", "9"])
        .fails(1, "there is no keyslot 9: they are numbered from 0 to 3");
    scratch.atrest(&["header", "backup", "card", "copy"]).fails(4, "whole copies of the image");
    scratch.atrest(&["open", "card", "--nbd", "--key-file", "three"]).fails(4, "atrest mount");
    scratch.atrest(&["erase", "card"]).fails(1, "--yes");
    assert_eq!(scratch.atrest(&["erase", "--yes", "card"]).ok().stdout, "card: 1 keyslot wiped\n");
    key("test", &["--key-file", "three"]).fails(2, "crypto-erased");
    scratch.atrest(&["ls", "--key-file", "three", "card"]).fails(2, "crypto-erased");
}

#[test]
fn a_directory_becomes_an_image_in_one_call() {
    let scratch = Scratch::new();
    scratch.file("key", b"k");
    scratch.bash("mkdir -p in/a; echo one > in/a/1; echo two > in/2").ok();
    let image =
        [&["image", "in", "card.bin", "--key-file", "key", "--size", "256K"], &SIZES[..], &CHEAP].concat();
    let made = scratch.atrest(&[&image[..], &["--json"]].concat()).ok().json();
    assert_eq!((&made["files"], &made["bytes"]), (&2.into(), &8.into()));
    scratch.bash("mkdir one; echo 1 > one/1").ok();
    let one = ["image", "one", "one.bin", "--key-file", "key", "--size", "64K"];
    let told = scratch.atrest(&[&one[..], &SIZES, &CHEAP].concat()).ok().stdout;
    assert!(told.starts_with("one.bin: 1 file, 0 directories, 2 bytes; UUID "), "{told}");
    assert_eq!(scratch.mode("card.bin"), 0o600);
    scratch.bash("$ATREST cp -r --key-file key card.bin:/ out && diff -r in out").ok();
    scratch.atrest(&image).fails(5, "exists");
    scratch.bash("head -c 400K /dev/zero > in/large; rm card.bin").ok();
    scratch.atrest(&image).fails(4, "no space");
    assert!(!scratch.path("card.bin").exists(), "half an image is none");
    scratch.atrest(&["image", "in", "x.bin", "--key-file", "key", "--size", "1M"]).fails(1, "--type flash");
}

#[test]
fn every_cipher_of_the_header_holds_files() {
    let scratch = Scratch::new();
    scratch.file("key", b"k");
    scratch.file("text", "some text\n".repeat(500));
    let ciphers = [
        "xchacha12,aes-adiantum-plain64",
        "aes-cbc-essiv:sha256",
        "aes-hctr2-plain64",
        "serpent-xts-plain64",
    ];
    for (index, cipher) in ciphers.iter().enumerate() {
        let name = format!("card{index}");
        format(&scratch, &["--cipher", cipher, "--sector-size", "1024", "--size", "128K", &name]).ok();
        scratch.atrest(&["cp", "--key-file", "key", "text", &format!("{name}:/")]).ok();
        let back = scratch.atrest(&["cat", "--key-file", "key", &name, "/text"]).ok();
        assert_eq!(back.stdout, "some text\n".repeat(500), "{cipher}");
    }
}

#[test]
fn what_is_wrong_with_a_card_is_named_and_nothing_is_written() {
    let scratch = with_card();
    let whole = bytes(&scratch, "card");
    let refused = |content: &[u8], code: i32, text: &str| {
        scratch.file("bad", content);
        for command in [&["ls"][..], &["df"], &["rm", "-r"], &["mkdir"]] {
            let path: &[&str] = if command[0] == "df" { &[] } else { &["/x"] };
            let ran =
                scratch.atrest(&[command, &["--key-file", "key", "bad"], path].concat()).fails(code, text);
            assert!(ran.stderr.lines().count() >= 2, "no advice: {}", ran.stderr);
        }
        assert!(bytes(&scratch, "bad") == content, "{text}: something was written");
    };
    // Cut in size, within the header, behind it, and further on.
    refused(&whole[..8], 4, "the flash header is cut off: there are 8 bytes in all");
    refused(&whole[..511], 4, "the flash header is cut off: there are 511 bytes in all");
    refused(&whole[..512], 4, "the volume has 1048576 bytes, the medium only 512");
    refused(&whole[..900_000], 4, "the volume has 1048576 bytes");
    refused(&whole[..8192], 4, "the volume has 1048576 bytes");
    // Foreign.
    refused(&[0xff; 65536], 4, "not a LUKS volume, nor encrypted flash");
    refused(&vec![0; 65536], 4, "not a LUKS volume, nor encrypted flash");
    // Both copies half-written.
    let mut torn = whole.clone();
    for copy in [0, 4096] {
        torn[copy + 300..copy + 4096].fill(0xff);
    }
    refused(&torn, 4, "half-written or damaged");
    // Metadata of the filesystem overwritten; the keys are right.
    let mut damaged = whole.clone();
    damaged[8192..24576].fill(0x55);
    refused(&damaged, 4, "LittleFS is damaged");
    // One copy half-written: read by the other one, and mended when asked.
    let mut half = whole.clone();
    half[300..4096].fill(0xff);
    scratch.file("half", &half);
    scratch.atrest(&["ls", "--key-file", "key", "half"]).ok();
    assert!(bytes(&scratch, "half") == half, "reading wrote");
    assert!(scratch.atrest(&["info", "half"]).ok().stdout.contains("DAMAGED"));
    scratch.atrest(&["repair", "half"]).fails(1, "--yes");
    scratch.atrest(&["repair", "--yes", "half"]).ok();
    assert!(!scratch.atrest(&["info", "half"]).ok().stdout.contains("DAMAGED"));
}

#[test]
fn sizes_and_passphrases_that_cannot_be_are_refused_before_anything_is_made() {
    let scratch = Scratch::new();
    scratch.file("key", b"k");
    scratch.file("none", b"");
    scratch.file("mebibyte", vec![b'x'; 1 << 20]);
    let refused = |more: &[&str], text: &str| {
        let ran = scratch.atrest(&[&["format", "--type", "flash", "new"], more].concat()).fails(1, text);
        assert!(!scratch.path("new").exists(), "{more:?} left a file");
        ran
    };
    let with = |more: &[&'static str]| [&["--key-file", "key", "--size", "64K"], more].concat();
    refused(&with(&["--erase-size", "1000"]), "erase blocks");
    refused(&with(&["--prog-size", "24"]), "24-byte prog units");
    refused(&with(&["--read-size", "32"]), "32-byte read units");
    refused(&with(&["--erase-size", "0"]), "0");
    refused(&with(&["--cipher", "rot13"]), "no cipher \"rot13\"");
    refused(&with(&["--cipher", "ascon-aead128"]), "no cipher");
    refused(&with(&["--key-size", "72"]), "key size");
    refused(&with(&["--kdf", "catena", "--pbkdf-force-iterations", "3"]), "do not go with");
    refused(&with(&["--kdf", "pbkdf2", "--pbkdf-force-iterations", "4294967295"]), "absurdly");
    refused(&with(&["--label", "x"]), "belong to");
    refused(&["--size", "64K", "--key-file", "none"], "is empty");
    refused(&["--size", "64K", "--key-file", "mebibyte"], "1048576 bytes");
    scratch
        .atrest(&["format", "--size", "64K", "--key-file", "key", "--erase-size", "512", "new"])
        .fails(1, "--type flash");
    scratch
        .atrest(&["format", "--size", "64K", "--key-file", "key", "--kdf", "catena", "new"])
        .fails(1, "Catena");
    let card = with_card();
    card.file("none", b"");
    card.file("mebibyte", vec![b'x'; 1 << 20]);
    card.atrest(&["key", "test", "--key-file", "none", "card"]).fails(1, "is empty");
    card.atrest(&["key", "test", "--key-file", "mebibyte", "card"]).fails(1, "1048576 bytes");
}

#[test]
fn nothing_is_formatted_unless_asked_by_name() {
    let scratch = with_card();
    let before = bytes(&scratch, "card");
    // Nor where it would come to nothing.
    let other = |more: &[&str]| {
        let format = ["format", "--type", "flash", "--yes", "--key-file", "key", "card"];
        scratch.atrest(&[&format[..], &CHEAP, more].concat())
    };
    other(&["-c", "aes-hctr2-plain64", "--erase-size", "256"])
        .fails(1, "cipher and medium do not go together");
    other(&["--erase-size", "1M"]).fails(1, "the header alone takes 2 erase blocks");
    other(&["--erase-size", "512K"]).fails(1, "no room for a volume");
    let sealed = ["format", "--type", "sealed", "--store", "store", "--yes", "--key-file", "key", "card"];
    scratch.atrest(&[&sealed[..], &["--unit-size", "5000"]].concat()).fails(1, "take a smaller payload");
    assert!(bytes(&scratch, "card") == before && !scratch.path("store").exists());
    format(&scratch, &["card"]).fails(1, "holds encrypted flash");
    format(&scratch, &["--size", "1M", "card"]).fails(5, "exists already");
    scratch.atrest(&["format", "--key-file", "key", "card"]).fails(1, "holds encrypted flash");
    scratch.atrest(&["cp", "--key-file", "key", "key", "card:/x/y"]).fails(4, "no such file");
    assert!(bytes(&scratch, "card") == before);
    format(&scratch, &["--yes", "card"]).ok();
    assert!(bytes(&scratch, "card")[..512] != before[..512]);
    assert_eq!(scratch.atrest(&["ls", "--key-file", "key", "card"]).ok().stdout, "");
}
