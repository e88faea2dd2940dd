//! Sealed flash on the desk: what is refused, by what is wrong with card, store or options, and that nothing is written then.

use std::fs;

use crate::common::Scratch;
use crate::common::sealed::{BLOCK, CHEAP, DATA, STRIDE, UNITS, bytes, format, run, unit_at, with_card};

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
    refused(&new.0, Some(&new.1[..79]), 4, "it has 79 bytes, and a trusted store has 80");
    refused(&new.0, Some(&[&new.1[..], b"\n"].concat()), 4, "it has 81 bytes");
    refused(&new.0, Some(&new.0), 4, "it has 1048576 bytes");
    refused(&new.0, Some(&[0; 80]), 4, "it is no trusted store, or one of a later version");
    refused(&new.0, Some(&theirs), 4, "belongs to another volume");
    let mut forged = new.1.clone();
    forged[70] ^= 1;
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
    // Units by their places. One that fails costs itself (sealed_repair.rs), a block that has none left is refused.
    let used: Vec<(usize, usize)> = (DATA / BLOCK..256)
        .flat_map(|block| (0..UNITS).map(move |unit| (block, unit)))
        .filter(|(block, unit)| new.0[block * BLOCK + unit_at(*unit)..][..STRIDE] != [0xff; STRIDE])
        .collect();
    let tamper = |card: &mut [u8], (block, unit): (usize, usize)| {
        card[block * BLOCK + unit_at(unit) + 20..][..20].iter_mut().for_each(|byte| *byte ^= 0x5a);
    };
    for (block, _) in [used[0], used[used.len() / 2], used[used.len() - 1]] {
        let mut tampered = new.0.clone();
        let lost = used.iter().filter(|(at, _)| *at == block);
        lost.for_each(|place| tamper(&mut tampered, *place));
        refused(&tampered, Some(&new.1), 4, &format!("unit 0 of erase block {block}"));
    }
    // Of all of them the first four.
    let mut tampered = new.0.clone();
    used.iter().for_each(|place| tamper(&mut tampered, *place));
    let places = used[..4].iter().map(|(block, unit)| format!("unit {unit} of erase block {block}"));
    let places: Vec<String> = places.collect();
    let said = format!("{} and {} more does not verify", places.join(", "), used.len() - 4);
    refused(&tampered, Some(&new.1), 4, &said);
}

fn refused_once(scratch: &Scratch, card: &[u8], store: &[u8]) {
    scratch.file("bad", card);
    scratch.file("stored", store);
    scratch
        .atrest(&["ls", "--key-file", "key", "--store", "stored", "bad"])
        .fails(4, "trusted store knows it");
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
