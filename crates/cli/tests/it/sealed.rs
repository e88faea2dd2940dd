//! Sealed flash on the desk: files in an image or on a card whose every change is found out, and the trusted store beside it.

use std::fs;

use crate::common::Scratch;
use crate::common::sealed::{BLOCK, CHEAP, DATA, UNITS, bytes, format, run, with_card};

#[test]
fn files_go_in_and_come_out() {
    let scratch = with_card();
    scratch
        .bash(
            "mkdir -p in/deep/er; head -c 100000 /dev/urandom > in/deep/er/noise; echo hello > in/hello; : > in/empty",
        )
        .ok();
    let run = |line: &str| run(&scratch, line);
    run("$ATREST cp -r $K in card:/ && $ATREST cp -r $K card:/in out && diff -r in out").ok();
    assert_eq!(run("$ATREST cat $K card /in/hello").ok().stdout, "hello\n");
    run("$ATREST mkdir -p $K card /logs/2026 && $ATREST rm -r $K card /in/deep").ok();
    let listed = run("$ATREST ls $K card / && $ATREST ls $K card /in").ok();
    assert_eq!((listed.stdout.as_str(), listed.stderr.as_str()), ("in\nlogs\nempty\nhello\n", ""));
    // 9 units of 424 bytes with serial and tag in each block of 4096, a salt in 16 and a slot of 48.
    let space = run("$ATREST df --json $K card").ok().json();
    assert_eq!((&space["block_size"], &space["blocks"]), (&(UNITS * 424).into(), &254.into()));
    let image = bytes(&scratch, "card");
    assert!(!image.windows(8).any(|window| window == b"littlefs"));
    assert_eq!(bytes(&scratch, "store").len(), 80);
    assert_eq!((scratch.mode("card"), scratch.mode("store")), (0o600, 0o600));
    // Reading changes neither.
    let before = (image, bytes(&scratch, "store"));
    run("$ATREST ls $K card / && $ATREST df $K card && $ATREST cp $K card:/in/hello copy").ok();
    assert!((bytes(&scratch, "card"), bytes(&scratch, "store")) == before, "reading wrote");
    // A full card says so and keeps what it has.
    scratch.bash("head -c 2M /dev/urandom > large").ok();
    let full = run("$ATREST cp $K large card:/").fails(4, "no space");
    assert!(full.stderr.contains("remove something first"), "{}", full.stderr);
    assert_eq!(run("$ATREST ls $K card /").ok().stdout, "in\nlogs\n");
}

#[test]
fn every_cipher_seals_with_every_key_and_tag_that_it_has() {
    let scratch = Scratch::new();
    scratch.file("key", b"k");
    scratch.file("text", "some text\n".repeat(500));
    let kinds: [(&str, &[&str], &[&str]); 4] = [
        ("ascon-aead128", &["128"], &["16"]),
        ("chacha20-poly1305", &["256"], &["16"]),
        ("aes-ccm", &["128", "256"], &["12", "16"]),
        ("aes-gcm", &["128", "256"], &["12", "16"]),
    ];
    let mut made = 0;
    for (aead, keys, tags) in kinds {
        for (key, tag) in keys.iter().flat_map(|key| tags.iter().map(move |tag| (key, tag))) {
            made += 1;
            let (card, store) = (format!("card{made}"), format!("store{made}"));
            let options = ["--aead", aead, "--key-size", key, "--tag-size", tag, "--tickets", "store"];
            format(
                &scratch,
                &card,
                &store,
                &[&options[..], &["--unit-size", "200", "--size", "128K"]].concat(),
            )
            .ok();
            let open = ["--key-file", "key", "--store", &store];
            scratch.atrest(&[&["cp", "text", &format!("{card}:/")], &open[..]].concat()).ok();
            let back = scratch.atrest(&[&["cat", &card, "/text"], &open[..]].concat()).ok();
            assert_eq!(back.stdout, "some text\n".repeat(500), "{options:?}");
            let info = scratch.atrest(&["info", "--json", "--store", &store, &card]).ok().json();
            let bits: u32 = key.parse().expect("a number");
            assert_eq!((&info["cipher"], &info["key_bits"]), (&aead.into(), &bits.into()));
            assert_eq!(info["sealing"]["tag_size"].to_string(), **tag);
            assert_eq!((&info["sealing"]["tickets"], &info["sealed"]), (&"store".into(), &true.into()));
            assert_eq!(info["sealing"]["store"]["closed"], true);
        }
    }
    assert_eq!(made, 10);
}

#[test]
fn a_mounted_card_is_a_directory_and_an_end_by_force_is_recovered_from() {
    let scratch = with_card();
    scratch.bash("mkdir mnt; echo text > file").ok();
    let script = "cd \"$ATREST_PATH\" && mkdir a && cp ../file a/ && mv a b && $ATREST status";
    run(&scratch, &format!("$ATREST mount $K card mnt --run sh -c '{script}'")).ok();
    assert_eq!(run(&scratch, "$ATREST cat $K card /b/file").ok().stdout, "text\n");
    let closed = bytes(&scratch, "store");
    // Killed while it is mounted: what was synced is there, and reading takes nothing over.
    let killed = "$ATREST mount $K card mnt --run sh -c 'cp file mnt/c && sync mnt/c && kill -9 $PPID'; fusermount3 -u -z mnt";
    run(&scratch, killed);
    let left = (bytes(&scratch, "card"), bytes(&scratch, "store"));
    assert_ne!(left.1, closed, "it was in use");
    let read = run(&scratch, "$ATREST cat $K card /c").ok();
    assert_eq!(read.stdout, "text\n");
    assert!(read.stderr.contains("not closed in good order"), "{}", read.stderr);
    assert!((bytes(&scratch, "card"), bytes(&scratch, "store")) == left, "reading wrote");
    assert!(scratch.atrest(&["info", "--store", "store", "card"]).ok().stdout.contains("NOT closed"));
    run(&scratch, "$ATREST mkdir $K card /d").ok();
    // A store that is taken away meanwhile: nothing more is acknowledged, and what was before is there.
    let away = "$ATREST mount $K card mnt --run sh -c 'mv store away; cp file mnt/e && sync mnt/e'";
    run(&scratch, away).fails(1, "Input/output error");
    scratch.bash("test ! -e store && mv away store").ok();
    let after = run(&scratch, "$ATREST ls $K card /").ok();
    assert_eq!((after.stdout.as_str(), after.stderr.as_str()), ("b\nc\nd\n", ""));
}

/// On a card erasing does nothing: what a block held is overwritten, and old units in it do not count.
#[test]
fn a_block_device_is_a_card() {
    let scratch = Scratch::new();
    scratch.file("key", b"k");
    let user = scratch.bash("id -u").ok().stdout;
    assert_eq!(user, "0\n", "a loop device needs root: run this test as root");
    scratch.bash("mkdir -p in/a; head -c 100000 /dev/urandom > in/a/noise; echo hello > in/hello").ok();
    let script = "truncate -s 2M file && C=$(losetup --find --show file) && trap \"losetup --detach $C\" EXIT && set -e; \
         K='--key-file key --store store'; \
         $ATREST format $C --type sealed --erase-size 32K $K --yes --kdf pbkdf2 --pbkdf-force-iterations 1000; \
         for n in 1 2 3; do $ATREST cp -r $K in $C:/; $ATREST cp -r $K $C:/in out; diff -r in out; rm -r out; \
         $ATREST rm -r $K $C /in; head -c $((n * 30000)) /dev/urandom > in/a/noise; done; \
         $ATREST cp -r $K in $C:/; $ATREST info --json --store store $C; \
         AT=$((2 * 32768 + 100)); WAS=$(od -An -tu1 -j $AT -N 1 $C); \
         printf \"\\\\x$(printf %02x $((255 - WAS)))\" | dd of=$C bs=1 seek=$AT count=1 conv=notrunc status=none";
    let told = scratch.bash(&format!("{script}; {}", "! $ATREST ls $K $C / 2> refused")).ok();
    let document = told.stdout.split_once('{').map(|(_, json)| format!("{{{json}")).expect("JSON");
    let info: serde_json::Value = serde_json::from_str(&document).expect("JSON");
    assert_eq!((&info["prog_size"], &info["sealing"]["unit_size"]), (&512.into(), &488.into()));
    let refused = fs::read_to_string(scratch.path("refused")).expect("what it said");
    assert!(refused.contains("trusted store knows it"), "{refused}");
}

#[test]
fn a_directory_becomes_an_image_and_its_store_in_one_call() {
    let scratch = Scratch::new();
    scratch.file("key", b"k");
    scratch.bash("mkdir -p in/a; echo one > in/a/1; echo two > in/2").ok();
    let image = [
        &["image", "in", "card.bin", "--type", "sealed", "--store", "card.store", "--size", "256K"][..],
        &["--key-file", "key", "--aead", "ascon-aead128", "--json"],
        &CHEAP,
    ]
    .concat();
    let made = scratch.atrest(&image).ok().json();
    assert_eq!((&made["type"], &made["store"]), (&"sealed".into(), &"card.store".into()));
    assert_eq!((&made["files"], &made["bytes"]), (&2.into(), &8.into()));
    scratch.bash("$ATREST cp -r --key-file key --store card.store card.bin:/ out && diff -r in out").ok();
    // What comes to nothing leaves nothing behind.
    scratch.atrest(&image).fails(5, "exists");
    scratch.bash("head -c 400K /dev/zero > in/large; rm card.bin card.store").ok();
    scratch.atrest(&image).fails(4, "no space");
    assert!(!scratch.path("card.bin").exists() && !scratch.path("card.store").exists());
    // Nor does one whose store can't be written.
    scratch.bash("rm in/large").ok();
    let nowhere: Vec<&str> =
        image.iter().map(|arg| if *arg == "card.store" { "no/such" } else { *arg }).collect();
    scratch.atrest(&nowhere).fails(4, "there is no such directory");
    assert!(!scratch.path("card.bin").exists());
}

#[test]
fn keys_come_and_go_and_a_store_that_is_named_has_to_be_the_right_one() {
    let scratch = with_card();
    scratch.file("two", "battery");
    scratch.file("none", b"");
    scratch.file("mebibyte", vec![b'x'; 1 << 20]);
    format(&scratch, "other", "theirs", &["--size", "1M"]).ok();
    let header = |scratch: &Scratch| bytes(scratch, "card")[..DATA].to_vec();
    let before = header(&scratch);
    let add = ["key", "add", "card", "--key-file", "key", "--new-key-file", "two"];
    let add = |more: &[&str]| scratch.atrest(&[&add[..], &CHEAP, more].concat());
    add(&["--store", "theirs"]).fails(4, "belongs to another volume");
    add(&["--store", "nowhere"]).fails(4, "no such trusted store");
    assert!(header(&scratch) == before, "the header was written");
    add(&["--store", "store"]).ok();
    scratch.atrest(&["key", "test", "card", "--key-file", "two", "--store", "store"]).ok();
    let change = ["key", "change", "card", "--key-file", "key", "--new-key-file", "two", "--garlic", "8"];
    scratch.atrest(&[&change[..], &["--store", "store"]].concat()).ok();
    scratch.atrest(&["ls", "card", "--key-file", "two", "--store", "store"]).ok();
    scratch.atrest(&["key", "remove", "card", "--key-file", "two", "--store", "store"]).ok();
    assert_eq!(
        scratch.atrest(&["key", "list", "card", "--json"]).ok().json().as_array().map(Vec::len),
        Some(1)
    );
    for (file, says) in [("none", "is empty"), ("mebibyte", "1048576 bytes")] {
        scratch.atrest(&["ls", "card", "--key-file", file, "--store", "store"]).fails(1, says);
        scratch.atrest(&["key", "test", "card", "--key-file", file]).fails(1, says);
    }
    scratch.atrest(&["ls", "card", "--key-file", "key", "--store", "store"]).fails(2, "wrong passphrase");
    // One copy of the header half-written, then none of it left.
    let mut half = bytes(&scratch, "card");
    half[300..BLOCK].fill(0xff);
    scratch.file("card", &half);
    scratch.atrest(&["repair", "--yes", "card"]).ok();
    scratch.atrest(&["erase", "--yes", "card"]).ok();
    scratch.atrest(&["ls", "card", "--key-file", "two", "--store", "store"]).fails(2, "crypto-erased");
    // Volumes without a store have no use for one.
    scratch.atrest(&["info", "--store", "store", "key"]).fails(1, "keyslots of sealed flash");
}
