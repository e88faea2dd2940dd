//! Sizes of flash: what sealing leaves of them by default, and what a header says that somebody made up.

use std::fs;

use crate::common::{CHEAP, Scratch};
use serde_json::json;

/// Of the erase blocks behind the header LittleFS is given 92 % at least: the rest is serials, tags, ticket slots and what is left over at
/// the end of a block. Nothing is left out but the header's own blocks.
#[test]
fn a_sealed_volume_has_92_percent_of_the_blocks_behind_its_header() {
    let scratch = Scratch::new();
    scratch.file("key", b"k");
    for (number, (erase, more)) in [
        (4096_u64, &["--aead", "ascon-aead128"][..]),
        (4096, &["--aead", "chacha20-poly1305"]),
        (4096, &["--aead", "aes-gcm", "--tickets", "store"]),
        (4096, &["--prog-size", "1"]),
        (4096, &["--prog-size", "4"]),
        (4096, &["--prog-size", "8"]),
        (8192, &[]),
        (32768, &["--aead", "ascon-aead128"]),
        (65536, &["--aead", "ascon-aead128"]),
        (65536, &["--prog-size", "1"]),
        // As cards have by default.
        (4096, &["--prog-size", "512", "--read-size", "512", "--unit-size", "476", "--tickets", "store"]),
    ]
    .into_iter()
    .enumerate()
    {
        let (card, store, erase_size) =
            (format!("card{number}"), format!("store{number}"), erase.to_string());
        let format =
            ["format", &card, "--type", "sealed", "--store", &store, "--key-file", "key", "--size", "1M"];
        scratch.atrest(&[&format[..], &["--erase-size", &erase_size], more, &CHEAP].concat()).ok();
        let behind = (1 << 20) - 2 * erase;
        let df = scratch.atrest(&["df", "--json", "--key-file", "key", "--store", &store, &card]).ok().json();
        let size = df["size"].as_u64().expect("a number");
        assert!(size * 100 >= behind * 92, "{more:?}, {erase}: {size} of {behind} bytes");
        // What `info` says is that, too.
        let info = scratch.atrest(&["info", "--json", &card]).ok().json();
        let sealing = &info["sealing"];
        let number = |value: &serde_json::Value| value.as_u64().expect("a number");
        let in_block = number(&sealing["units_per_block"]) * number(&sealing["unit_size"]);
        assert_eq!((info["data_offset"].as_u64(), in_block * (behind / erase)), (Some(2 * erase), size));
    }
}

/// A header as somebody else writes it, whose checksum fits, on a file with holes that is as large as it says.
fn hostile(scratch: &Scratch, sizes: [u64; 4], sealed: bool) {
    let header = json!({
        "cipher": if sealed { "chacha20-poly1305" } else { "aes-xts-plain64" }, "level": if sealed { 2 } else { 0 },
        "tag": if sealed { 16 } else { 0 }, "store": u8::from(sealed), "tickets": 0, "sequence": 1,
        "uuid": "101112131415161718191a1b1c1d1e1f", "sizes": sizes, "unit": if sealed { 52 } else { 512 },
        "key": if sealed { "5a".repeat(32) } else { format!("{}{}", "5a".repeat(32), "a5".repeat(32)) },
        "slots": { "0": { "kdf": "01e8030000", "salt": "b1".repeat(16), "passphrase": "battery" } },
    });
    let _ = fs::remove_file(scratch.path("card"));
    let file = fs::File::create(scratch.path("card")).expect("a file");
    file.set_len(sizes[2] * sizes[3]).expect("a file with holes");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/flash_header.py");
    scratch.tool("python3", &[script, "make", "card", &header.to_string()]).ok();
}

#[test]
fn absurd_sizes_in_a_header_are_refused_before_memory_is_taken() {
    let scratch = Scratch::new();
    scratch.file("key", b"battery");
    scratch.file("store", [0; 80]);
    // It would be sooner or later, with less memory than these sizes ask for.
    let limited = |line: &str| scratch.bash(&format!("ulimit -v 900000; $ATREST {line}"));
    let gib = 1_u64 << 30;
    for (sizes, says) in [
        ([1, gib, gib, 5], "prog units of 1073741824 bytes"),
        ([1 << 21, 1 << 21, 1 << 21, 5], "prog units of 2097152 bytes"),
        ([1, 1, 2 * gib, 5], "erase blocks of 2147483648"),
    ] {
        for sealed in [false, true] {
            hostile(&scratch, sizes, sealed);
            let before = allocated(&scratch);
            let store = if sealed { " --store store" } else { "" };
            for line in [
                String::from("info card"),
                String::from("key list card"),
                String::from("key test --key-file key card"),
                String::from("repair --yes card"),
                String::from("erase --yes card"),
                format!("ls --key-file key card{store}"),
                format!("mkdir --key-file key card /x{store}"),
            ] {
                let refused = limited(&line).fails(4, says);
                assert_eq!(refused.stderr.lines().count(), 2, "{line}: {}", refused.stderr);
            }
            assert_eq!(allocated(&scratch), before, "it was written");
        }
    }
    // More erase blocks than there is memory for, in a volume that opens otherwise.
    hostile(&scratch, [1, 1, 128, 1 << 31], true);
    let before = allocated(&scratch);
    limited("key test --key-file key card").ok();
    let read = limited("ls --key-file key card --without-freshness").fails(3, "bytes of memory");
    assert!(read.stderr.contains("more memory"), "{}", read.stderr);
    assert_eq!(allocated(&scratch), before, "it was written");
    // Nor is such a volume made.
    for kind in ["flash", "sealed --store new"] {
        let made = limited(&format!(
            "format card2 --type {kind} --size 8M --prog-size 2M --erase-size 2M --key-file key"
        ));
        let refused = made.fails(1, "prog units of 2097152 bytes");
        assert!(refused.stderr.contains("smaller --prog-size"), "{}", refused.stderr);
    }
    assert!(!scratch.path("card2").exists() && !scratch.path("new").exists());
}

#[test]
fn pages_as_large_as_any_chips_hold_files() {
    let scratch = Scratch::new();
    scratch.file("key", b"k");
    scratch.file("text", "some text\n".repeat(10_000));
    for (kind, more) in [("flash", ""), ("sealed", "--store new")] {
        let unit = if kind == "sealed" { "--unit-size 60000" } else { "" };
        let cheap = CHEAP.join(" ");
        let line = format!(
            "K='--key-file key {more}'; $ATREST format {kind} --type {kind} $K --size 8M --prog-size 64K --erase-size 256K \
             {unit} {cheap} && $ATREST cp $K text {kind}:/ && $ATREST cat $K {kind} /text | cmp - text"
        );
        scratch.bash(&line).ok();
    }
}

/// Blocks of the file that are not holes.
fn allocated(scratch: &Scratch) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(scratch.path("card")).expect("the card").blocks()
}
