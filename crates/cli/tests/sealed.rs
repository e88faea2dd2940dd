//! Sealed flash on the desk: an image whose every change is found out, and the trusted store beside it.

mod common;

use std::fs;

use common::{Ran, Scratch};

const CHEAP: [&str; 4] = ["--kdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
/// Behind the header of two blocks.
const DATA: usize = 8192;
const BLOCK: usize = 4096;
/// Bytes that a unit takes.
const STRIDE: usize = 288;

/// A card `card` of 1 MiB with the store `store`, that opens with the key file `key`.
fn with_card() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    format(&scratch, "card", "store", &["--size", "1M"]).ok();
    scratch
}

fn format(scratch: &Scratch, card: &str, store: &str, more: &[&str]) -> Ran {
    let args = ["format", card, "--type", "sealed", "--store", store, "--key-file", "key"];
    scratch.atrest(&[&args, &CHEAP[..], more].concat())
}

fn bytes(scratch: &Scratch, name: &str) -> Vec<u8> {
    fs::read(scratch.path(name)).expect("the file")
}

/// A command on `card` with its store and its key.
fn run(scratch: &Scratch, line: &str) -> Ran {
    scratch.bash(&format!("K='--key-file key --store store'; {line}"))
}

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
    // 14 units of 264 bytes with serial and tag in each block of 4096, and a slot of 32.
    let space = run("$ATREST df --json $K card").ok().json();
    assert_eq!((&space["block_size"], &space["blocks"]), (&(14 * 264).into(), &254.into()));
    let image = bytes(&scratch, "card");
    assert!(!image.windows(8).any(|window| window == b"littlefs"));
    assert_eq!(bytes(&scratch, "store").len(), 40);
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
    scratch.bash("mkdir stick && cp store stick/").ok();
    let away = "$ATREST mount --key-file key --store stick/store card mnt --run sh -c 'mv stick away; cp file mnt/e && sync mnt/e'";
    let ended = scratch.bash(away);
    assert_ne!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    scratch.bash("mv away/store store").ok();
    let after = run(&scratch, "$ATREST ls $K card /").ok();
    assert_eq!((after.stdout.as_str(), after.stderr.as_str()), ("b\nc\nd\n", ""));
}

/// On a card erasing does nothing: what a block held is overwritten, and old units in it do not count.
#[test]
fn a_block_device_is_a_card() {
    let scratch = Scratch::new();
    scratch.file("key", b"k");
    if scratch.bash("id -u").ok().stdout != "0\n" {
        // Only root can attach a loop device. Anyone can be refused one.
        let refused = format(&scratch, "/dev/loop0", "store", &["--yes"]);
        assert!(matches!(refused.code, 2 | 4), "{}", refused.stderr);
        return;
    }
    scratch.bash("mkdir -p in/a; head -c 100000 /dev/urandom > in/a/noise; echo hello > in/hello").ok();
    let script = "truncate -s 2M file && C=$(losetup --find --show file) && trap \"losetup --detach $C\" EXIT && set -e; \
         K='--key-file key --store store'; \
         $ATREST format $C --type sealed --erase-size 32K $K --yes --kdf pbkdf2 --pbkdf-force-iterations 1000; \
         for n in 1 2 3; do $ATREST cp -r $K in $C:/; $ATREST cp -r $K $C:/in out; diff -r in out; rm -r out; \
         $ATREST rm -r $K $C /in; head -c $((n * 30000)) /dev/urandom > in/a/noise; done; \
         $ATREST cp -r $K in $C:/; $ATREST info --json --store store $C; cp file copy; \
         dd if=/dev/zero of=$C bs=1 seek=$((2 * 32768 + 100)) count=1 conv=notrunc status=none";
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
    scratch.atrest(&nowhere).fails(4, "no such file");
    assert!(!scratch.path("card.bin").exists());
}

/// A store that is not the right one, and a card that is not as the store knows it: all are refused for what they are, by readers and
/// writers alike, and nothing is changed.
#[test]
fn card_and_store_that_do_not_go_together_are_refused_by_what_is_wrong() {
    let scratch = with_card();
    scratch.file("text", "some text\n".repeat(2000));
    let fresh = (bytes(&scratch, "card"), bytes(&scratch, "store"));
    run(&scratch, "$ATREST cp $K text card:/one").ok();
    let old = (bytes(&scratch, "card"), bytes(&scratch, "store"));
    run(&scratch, "$ATREST cp $K text card:/two").ok();
    let new = (bytes(&scratch, "card"), bytes(&scratch, "store"));
    format(&scratch, "other", "theirs", &["--size", "1M"]).ok();
    let theirs = bytes(&scratch, "theirs");

    let refused = |card: &[u8], store: Option<&[u8]>, code: i32, says: &str| {
        scratch.file("bad", card);
        let _ = fs::remove_file(scratch.path("stored"));
        if let Some(store) = store {
            scratch.file("stored", store);
        }
        for command in [&["ls"][..], &["df"], &["rm", "-r"], &["mkdir"], &["key", "test"]] {
            let path: &[&str] = if matches!(command[0], "df" | "key") { &[] } else { &["/x"] };
            let options = ["--key-file", "key", "--store", "stored", "bad"];
            let ran = scratch.atrest(&[command, &options[..], path].concat()).fails(code, says);
            assert!(ran.stderr.lines().count() >= 2, "{command:?}: no advice: {}", ran.stderr);
        }
        assert!(bytes(&scratch, "bad") == card, "{says}: the card was written");
        let left = fs::read(scratch.path("stored")).ok();
        assert!(left.as_deref() == store, "{says}: the store was written");
    };
    // The store.
    refused(&new.0, None, 4, "there is no such trusted store");
    refused(&new.0, Some(b""), 4, "the trusted store is empty");
    refused(&new.0, Some(&new.1[..39]), 4, "it has 39 bytes, and a trusted store has 40");
    refused(&new.0, Some(&[&new.1[..], b"\n"].concat()), 4, "it has 41 bytes");
    refused(&new.0, Some(&new.0), 4, "it has 1048576 bytes");
    refused(&new.0, Some(&[0; 40]), 4, "it is no trusted store, or one of a later version");
    refused(&new.0, Some(&theirs), 4, "belongs to another volume");
    let mut forged = new.1.clone();
    forged[39] ^= 1;
    refused(&new.0, Some(&forged), 4, "not as the trusted store knows it");
    refused(&new.0, Some(&old.1), 4, "the trusted store is older than the medium");
    refused(&new.0, Some(&fresh.1), 4, "the trusted store is older than the medium");
    // The card: put back as a whole, or a block of it.
    refused(&old.0, Some(&new.1), 4, "an older state was put back");
    refused(&fresh.0, Some(&new.1), 4, "an older state was put back");
    let changed = (0..old.0.len() / BLOCK).filter(|block| {
        let range = block * BLOCK..(block + 1) * BLOCK;
        old.0[range.clone()] != new.0[range]
    });
    let (mut spliced, mut blocks) = (new.0.clone(), 0);
    for block in changed {
        let range = block * BLOCK..(block + 1) * BLOCK;
        spliced[range.clone()].copy_from_slice(&old.0[range.clone()]);
        refused_once(&scratch, &spliced, &new.1);
        spliced[range.clone()].copy_from_slice(&new.0[range]);
        blocks += 1;
    }
    assert!(blocks > 5, "{blocks} blocks");
    // Cut in size.
    refused(&new.0[..900_000], Some(&new.1), 4, "the volume has 1048576 bytes");
    // Foreign, blank, half-written in both copies.
    let mut torn = new.0.clone();
    for copy in [0, BLOCK] {
        torn[copy + 300..copy + BLOCK].fill(0xff);
    }
    refused(&torn, Some(&new.1), 4, "half-written or damaged");
    // Foreign.
    refused(&[0xff; 65536], Some(&new.1), 1, "are for the files and the keyslots of sealed flash");
    // Another geometry in both copies of the header, with checksums that fit: the passphrase is bound to what it was.
    for (field, value) in [(44, 32), (60, 128)] {
        let resum = format!(
            "import hashlib; d = bytearray(open('card', 'rb').read())\nfor c in 0, {BLOCK}:\n  d[c + {field}] = {value}; \
             d[c + 480:c + 512] = hashlib.sha256(d[c:c + 480]).digest()\nopen('changed', 'wb').write(d)"
        );
        scratch.tool("python3", &["-c", &resum]).ok();
        refused(&bytes(&scratch, "changed"), Some(&new.1), 2, "wrong passphrase");
    }
    // A changed bit in a unit is named by its place.
    let used: Vec<(usize, usize)> = (DATA / BLOCK..256)
        .flat_map(|block| (0..14).map(move |unit| (block, unit)))
        .filter(|(block, unit)| new.0[block * BLOCK + unit * STRIDE..][..STRIDE] != [0xff; STRIDE])
        .collect();
    for (block, unit) in [used[0], used[used.len() / 2], used[used.len() - 1]] {
        let mut tampered = new.0.clone();
        tampered[block * BLOCK + unit * STRIDE + 20] ^= 0x10;
        refused(&tampered, Some(&new.1), 4, &format!("unit {unit} of erase block {block} does not verify"));
    }
}

fn refused_once(scratch: &Scratch, card: &[u8], store: &[u8]) {
    scratch.file("bad", card);
    scratch.file("stored", store);
    scratch
        .atrest(&["ls", "--key-file", "key", "--store", "stored", "bad"])
        .fails(4, "trusted store knows it");
}

#[test]
fn without_the_store_a_card_is_read_by_name_only_and_with_a_warning() {
    let scratch = with_card();
    scratch.file("text", "some text\n".repeat(2000));
    run(&scratch, "$ATREST cp $K text card:/one").ok();
    let old = bytes(&scratch, "card");
    run(&scratch, "$ATREST cp $K text card:/two").ok();
    let alone = |line: &str| scratch.bash(&format!("A='--key-file key --without-freshness'; {line}"));
    for command in ["ls", "df"] {
        let refused =
            scratch.atrest(&[command, "--key-file", "key", "card"]).fails(1, "its trusted store is needed");
        assert!(refused.stderr.contains("--without-freshness"), "{}", refused.stderr);
    }
    let before = bytes(&scratch, "card");
    let read = alone("$ATREST cat $A card /two | cmp - text && $ATREST ls $A card /").ok();
    assert_eq!(read.stdout, "one\ntwo\n");
    assert_eq!(read.stderr.matches("read without its trusted store").count(), 2, "{}", read.stderr);
    assert!(alone("$ATREST ls --json $A card /").ok().stderr.starts_with("{\"warning\":"));
    for line in ["mkdir $A card /x", "rm $A card /one", "cp $A text card:/three"] {
        alone(&format!("$ATREST {line}")).fails(1, "--without-freshness is for reading");
    }
    alone("$ATREST ls $A --store store card").fails(1, "cannot be used with");
    assert!(bytes(&scratch, "card") == before);
    // What it does not find out, and what it does.
    scratch.file("card", &old);
    assert_eq!(alone("$ATREST ls $A card /").ok().stdout, "one\n");
    let mut tampered = before;
    let used = |block: &usize| tampered[block * BLOCK..][..4] != [0xff; 4];
    let file = (DATA / BLOCK + 2..256).find(used).expect("a block of a file");
    tampered[file * BLOCK + 3 * STRIDE + 20] ^= 1;
    scratch.file("card", &tampered);
    let found = alone("$ATREST cat $A card /one > /dev/null; $ATREST cat $A card /two > /dev/null");
    let place = format!("unit 3 of erase block {file} is not what was stored there");
    assert!(found.stderr.contains(&place), "{place}: {}", found.stderr);
}

/// littlefs keeps metadata twice, and would go on with what is older if one half were void, or ended early. So the first and the last unit
/// of each block are changed: what is listed then is what was stored last, or nothing.
#[test]
fn without_the_store_no_changed_unit_makes_a_card_show_what_is_older() {
    let scratch = with_card();
    scratch.file("text", "some text\n".repeat(500));
    for name in ["one", "two", "three"] {
        run(&scratch, &format!("$ATREST cp $K text card:/{name}")).ok();
    }
    let card = bytes(&scratch, "card");
    let list =
        |more: &str| scratch.bash(&format!("$ATREST ls --key-file key --without-freshness {more} card /"));
    assert_eq!(list("").ok().stdout, "one\nthree\ntwo\n");
    let is_used =
        |block: usize, unit: usize| card[block * BLOCK + unit * STRIDE..][..STRIDE] != [0xff; STRIDE];
    let (mut refused, mut older) = (0, 0);
    for block in (DATA / BLOCK..256).filter(|block| is_used(*block, 0)) {
        let last = (0..14).rev().find(|unit| is_used(block, *unit)).expect("a unit");
        for unit in [0, last] {
            let mut changed = card.clone();
            changed[block * BLOCK + unit * STRIDE + 20] ^= 0x10;
            scratch.file("card", &changed);
            let strict = list("");
            if strict.code == 0 {
                assert_eq!(strict.stdout, "one\nthree\ntwo\n", "unit {unit} of block {block}");
            } else {
                let place = format!("unit {unit} of erase block {block} is not what was stored there");
                let told = strict.fails(4, &place);
                assert!(told.stderr.contains("--assume-torn"), "{}", told.stderr);
                refused += 1;
            }
            let lenient = list("--assume-torn");
            if lenient.code == 0 {
                assert!(lenient.stderr.contains("as those count as torn"), "{}", lenient.stderr);
                older += i32::from(lenient.stdout != "one\nthree\ntwo\n");
            }
        }
    }
    assert!(refused >= 3 && older > 0, "{refused} refused; {older} would have shown what is older");
    // Beside a store, or without being asked to do without, it means nothing.
    for (more, says) in [("--store store", "cannot be used with"), ("", "--without-freshness")] {
        scratch.bash(&format!("$ATREST ls --key-file key {more} --assume-torn card /")).fails(1, says);
    }
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
    scratch
        .atrest(&["key", "change", "card", "--key-file", "key", "--new-key-file", "two", "--garlic", "8"])
        .ok();
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
    scratch.atrest(&["repair", "--yes", "card", "--store", "theirs-not"]).fails(4, "no such trusted store");
    scratch.atrest(&["repair", "--yes", "card", "--store", "store"]).ok();
    scratch.atrest(&["erase", "--yes", "card", "--store", "store"]).ok();
    scratch.atrest(&["ls", "card", "--key-file", "two", "--store", "store"]).fails(2, "crypto-erased");
    // Volumes without a store have no use for one.
    scratch.atrest(&["info", "--store", "store", "key"]).fails(1, "keyslots of sealed flash");
}

#[test]
fn nothing_is_overwritten_unless_asked_by_name() {
    let scratch = with_card();
    scratch.file("mine", b"a file of somebody's");
    let before = (bytes(&scratch, "card"), bytes(&scratch, "store"));
    format(&scratch, "card", "store", &[]).fails(1, "holds sealed flash (UUID ");
    format(&scratch, "card", "new", &[]).fails(1, "holds sealed flash");
    format(&scratch, "card", "store", &["--size", "1M"]).fails(5, "exists already");
    let refused = format(&scratch, "second", "store", &["--size", "1M"]);
    refused.fails(1, "is the trusted store of a volume");
    format(&scratch, "second", "mine", &["--size", "1M", "--yes"]).fails(4, "it is no trusted store");
    format(&scratch, "second", "card", &["--size", "1M", "--yes"]).fails(4, "it is no trusted store");
    format(&scratch, "second", "second", &["--size", "1M"]).fails(1, "names the volume itself");
    assert!((bytes(&scratch, "card"), bytes(&scratch, "store")) == before);
    assert_eq!(bytes(&scratch, "mine"), b"a file of somebody's");
    assert!(!scratch.path("second").exists() && !scratch.path("new").exists());
    // Asked: a new volume, and the old store is not its own.
    format(&scratch, "card", "store", &["--yes"]).ok();
    run(&scratch, "$ATREST ls $K card").ok();
    scratch.file("old", &before.1);
    scratch.atrest(&["ls", "--key-file", "key", "--store", "old", "card"]).fails(4, "another volume");
}

#[test]
fn options_that_do_not_go_together_are_refused_before_anything_is_made() {
    let scratch = Scratch::new();
    scratch.file("key", b"k");
    let refused = |more: &[&str], says: &str| {
        let ran = format(&scratch, "new", "store", &[&["--size", "64K"], more].concat()).fails(1, says);
        assert!(!scratch.path("new").exists() && !scratch.path("store").exists(), "{more:?} left a file");
        ran
    };
    refused(&["--aead", "aes-xts-plain64"], "no cipher \"aes-xts-plain64\"");
    refused(&["--cipher", "aes-gcm"], "belong to encrypted flash");
    refused(&["--sector-size", "512"], "belong to encrypted flash");
    refused(&["--aead", "ascon-aead128", "--tag-size", "12"], "no tags of 12 bytes");
    refused(&["--key-size", "128"], "no such key size");
    refused(&["--unit-size", "8"], "units of 8 bytes");
    refused(&["--unit-size", "70000"], "units of 70000 bytes");
    refused(&["--unit-size", "4090"], "take a smaller payload");
    refused(&["--erase-size", "65536"], "no room for a volume");
    refused(&["--erase-size", "512", "--prog-size", "512"], "a unit takes");
    let none = ["format", "new", "--type", "sealed", "--size", "64K", "--key-file", "key"];
    scratch.atrest(&none).fails(1, "needs a trusted store");
    for kind in ["flash", "luks2"] {
        let other =
            ["format", "new", "--type", kind, "--size", "64K", "--key-file", "key", "--aead", "aes-gcm"];
        scratch.atrest(&other).fails(1, "belong to --type sealed");
    }
    // Two blocks of 4 KiB hold a LittleFS, one does not; as a volume for something else it is possible.
    format(&scratch, "new", "store", &["--size", "12K"]).fails(1, "a LittleFS has no room");
    format(&scratch, "new", "store", &["--size", "12K", "--empty"]).ok();
    // What is named for sealed flash alone.
    let encrypted = ["format", "plain", "--type", "flash", "--size", "64K", "--key-file", "key"];
    scratch.atrest(&[&encrypted[..], &CHEAP].concat()).ok();
    for option in [&["--store", "store"][..], &["--without-freshness"]] {
        let ran = scratch.atrest(&[&["ls", "plain", "--key-file", "key"], option].concat());
        ran.fails(1, "is not sealed");
    }
}
