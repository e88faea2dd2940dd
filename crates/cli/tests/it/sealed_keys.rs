//! Passphrases of sealed flash on the desk: they are changed with the trusted store, a header of before is refused, and the volume goes from
//! one store to another.

use crate::common;
use std::fs;

use crate::common::Scratch;
use crate::common::kills::killed_at_writes;
use crate::common::sealed::{CHEAP, DATA, bytes, format, run, with_card};
use atrest_device::{FlashDevice, FlashGeometry, TRUSTED_RECORD_LEN};
use atrest_flash::FlashHeader;
use atrest_flash::sealed::{BlockState, RecordFields, SealedFlash, SealedKey, SealedLayout, SealedOptions};
use atrest_keyslot::flash::{AnyKdf, FlashKey};
use atrest_secret::OsRandom;
use atrest_testkit::flash::{EmulatedFlash, FlashImage, SharedFlash, TrustedMemory};

const OLDER: &str = "an older header was put back";
const OTHER: &str = "is not the one that the trusted store names";

/// A card with a second passphrase, in the file `two`.
fn with_two() -> Scratch {
    let scratch = with_card();
    scratch.file("two", b"battery staple");
    scratch.file("text", "some text\n".repeat(500));
    run(&scratch, "$ATREST cp $K text card:/text").ok();
    key(&scratch, &["add", "--new-key-file", "two"]).ok();
    scratch
}

/// A change of the keyslots of `card`, with its store.
fn key(scratch: &Scratch, more: &[&str]) -> common::Ran {
    let cost: &[&str] = if matches!(more[0], "add" | "change") { &CHEAP } else { &[] };
    let store = ["--store", "store", "card"];
    let opens: &[&str] = if more.contains(&"--key-file") { &[] } else { &["--key-file", "key"] };
    scratch.atrest(&[&["key", more[0]], &store[..], opens, &more[1..], cost].concat())
}

fn put_header(scratch: &Scratch, header: &[u8]) {
    let mut card = bytes(scratch, "card");
    card[..DATA].copy_from_slice(&header[..DATA]);
    scratch.file("card", card);
}

#[test]
fn without_the_store_no_passphrase_is_changed() {
    let scratch = with_two();
    let before = (bytes(&scratch, "card"), bytes(&scratch, "store"));
    for line in [
        "key add --key-file key --new-key-file two card",
        "key change --key-file key --new-key-file two --garlic 8 card",
        "key remove --key-file two card",
        "key kill --key-file key card 1",
        "key kill --yes card 1",
    ] {
        let refused = scratch.bash(&format!("$ATREST {line}")).fails(1, "with its trusted store only");
        assert!(refused.stderr.contains("--store"), "{}", refused.stderr);
    }
    // A store that somebody uses is no store for a change.
    let inner = "$ATREST key kill --yes --store store card 1";
    scratch
        .bash(&format!(
            "mkdir mnt; $ATREST mount --key-file key --store store card mnt --run sh -c '{inner}'"
        ))
        .fails(5, "the trusted store is in use");
    assert!(bytes(&scratch, "card")[..DATA] == before.0[..DATA]);
    scratch.file("card", &before.0);
    scratch.file("store", &before.1);
    // By number, with the store and no passphrase.
    scratch.atrest(&["key", "kill", "--yes", "--store", "store", "card", "1"]).ok();
    put_header(&scratch, &before.0);
    scratch.atrest(&["ls", "--store", "store", "--key-file", "two", "card"]).fails(4, OLDER);
    // The end of a volume needs none, and the next one is told by its own.
    scratch.file("card", &before.0);
    scratch.file("store", &before.1);
    scratch.atrest(&["erase", "--yes", "card"]).ok();
    put_header(&scratch, &before.0);
    run(&scratch, "$ATREST ls $K card").ok();
    scratch.atrest(&["erase", "--yes", "--store", "store", "card"]).ok();
    put_header(&scratch, &before.0);
    run(&scratch, "$ATREST ls $K card").fails(4, OLDER);
}

#[test]
fn a_volume_that_is_anchored_elsewhere_is_told_by_name() {
    let scratch = with_two();
    let sealed_by = |freshness: u8| {
        let resum = format!(
            "import hashlib; d = bytearray(open('card', 'rb').read())\nfor c in 0, {}:\n  d[c + 14] = {freshness}; \
             d[c + 480:c + 512] = hashlib.sha256(d[c:c + 480]).digest()\nopen('elsewhere', 'wb').write(d)",
            DATA / 2
        );
        scratch.tool("python3", &["-c", &resum]).ok();
        bytes(&scratch, "elsewhere")
    };
    let add = "$ATREST key add --key-file key --new-key-file two";
    let before = sealed_by(2);
    for line in [&format!("{add} elsewhere"), "$ATREST key kill --yes elsewhere 1"] {
        let refused = scratch.bash(line).fails(4, "anchored by a counter in a chip");
        assert!(refused.stderr.contains("changed on the chip"), "{}", refused.stderr);
    }
    scratch.bash(&format!("{add} --store store elsewhere")).fails(4, "anchored by a counter in a chip");
    assert!(bytes(&scratch, "elsewhere") == before);
    // Nothing names the header of a volume without freshness. (The passphrase is bound to what the header was.)
    sealed_by(0);
    scratch.bash(&format!("{add} elsewhere")).fails(2, "wrong passphrase");
    scratch.atrest(&["key", "kill", "--yes", "elsewhere", "1"]).ok();
}

#[test]
fn a_header_of_before_is_refused_until_its_owner_takes_it() {
    let scratch = with_two();
    let before = bytes(&scratch, "card");
    let info = scratch.atrest(&["info", "--json", "--store", "store", "card"]).ok().json();
    assert_eq!((&info["sequence"], &info["sealing"]["store"]["header"]), (&2.into(), &2.into()));
    key(&scratch, &["remove", "--key-file", "two"]).ok();
    let (newest, store) = (bytes(&scratch, "card"), bytes(&scratch, "store"));
    // With both copies put back everybody is refused, whatever passphrase he has.
    put_header(&scratch, &before);
    let put_back = bytes(&scratch, "card");
    for file in ["key", "two"] {
        for command in [&["ls"][..], &["df"], &["mkdir"], &["key", "test"], &["key", "remove"]] {
            let path: &[&str] = if matches!(command[0], "df" | "key") { &[] } else { &["/x"] };
            let options = ["--key-file", file, "--store", "store", "card"];
            let ran = scratch.atrest(&[command, &options[..], path].concat()).fails(4, OLDER);
            assert!(ran.stderr.contains("atrest repair --store"), "{command:?}: {}", ran.stderr);
        }
        key(&scratch, &["add", "--key-file", file, "--new-key-file", "key"]).fails(4, OLDER);
    }
    assert!(bytes(&scratch, "card") == put_back && bytes(&scratch, "store") == store, "it was written");
    // One copy alone does not count beside the newest.
    let mut one = newest.clone();
    one[..DATA / 2].copy_from_slice(&before[..DATA / 2]);
    scratch.file("card", &one);
    scratch.atrest(&["ls", "--key-file", "two", "--store", "store", "card"]).fails(2, "wrong passphrase");
    run(&scratch, "$ATREST ls $K card").ok();
    // Under a newer number it is somebody's.
    scratch.file("card", &put_back);
    let resum = format!(
        "import hashlib; d = bytearray(open('card', 'rb').read())\nfor c in 0, {}:\n  s = d[c:c + 512].index(b'\\x02' + b'\\0' * 7)\n  \
         d[c + s] = 9; d[c + 480:c + 512] = hashlib.sha256(d[c:c + 480]).digest()\nopen('card', 'wb').write(d)",
        DATA / 2
    );
    scratch.tool("python3", &["-c", &resum]).ok();
    let forged = scratch.atrest(&["info", "--json", "card"]).ok().json();
    if forged["sequence"] == 9 {
        run(&scratch, "$ATREST ls --key-file two --store store card").fails(4, OTHER);
    } else {
        panic!("the number is elsewhere: {forged}");
    }
    // Taken after a question, with all that is behind it.
    scratch.file("card", &put_back);
    let asked = run(&scratch, "$ATREST repair $K card").fails(1, "passphrases that were removed may open");
    assert!(asked.stderr.contains("an older header"), "{}", asked.stderr);
    assert!(bytes(&scratch, "card") == put_back && bytes(&scratch, "store") == store, "not asked");
    let report = run(&scratch, "$ATREST repair $K --yes --json card").ok().json();
    let said = (&report["repaired"], &report["header_anchored_anew"], &report["anchored_anew"]);
    assert_eq!(said, (&true.into(), &true.into(), &false.into()));
    let text = scratch.atrest(&["cat", "--key-file", "two", "--store", "store", "card", "/text"]).ok();
    assert!(text.raw == bytes(&scratch, "text"));
    put_header(&scratch, &newest);
    run(&scratch, "$ATREST ls $K card").fails(4, OTHER);
    // Medium and header of before, together.
    let store = bytes(&scratch, "store");
    put_header(&scratch, &put_back);
    run(&scratch, "$ATREST rm $K card /text").ok();
    run(&scratch, "$ATREST key kill $K card 1").ok();
    scratch.file("card", &put_back);
    let report = run(&scratch, "$ATREST repair $K --yes --json card").ok().json();
    let said = (&report["header_anchored_anew"], &report["anchored_anew"]);
    assert_eq!(said, (&true.into(), &true.into()));
    run(&scratch, "$ATREST cat $K card /text").ok();
    assert!(bytes(&scratch, "store") != store);
}

#[test]
fn a_kill_at_any_write_of_a_change_leaves_a_volume_that_opens() {
    let scratch = with_two();
    let before = (bytes(&scratch, "card"), bytes(&scratch, "store"));
    let begin = || {
        scratch.file("card", &before.0);
        scratch.file("store", &before.1);
    };
    let mut removed = 0;
    let line = "key remove --key-file two --store store card";
    let kills = killed_at_writes(&scratch, line, 1, begin, |at| {
        run(&scratch, "$ATREST ls $K card").ok();
        let two = scratch.atrest(&["ls", "--key-file", "two", "--store", "store", "card"]);
        assert!(two.code == 0 || two.stderr.contains("wrong passphrase"), "{at}: {}", two.stderr);
        if two.code == 0 {
            return;
        }
        removed += 1;
        // What was cut short is over once it was repaired.
        run(&scratch, "$ATREST repair $K --yes card").ok();
        put_header(&scratch, &before.0);
        scratch.atrest(&["ls", "--key-file", "two", "--store", "store", "card"]).fails(4, OLDER);
    });
    assert!(removed > 2 && kills > 6, "{removed} {kills}");
}

#[test]
fn a_volume_is_handed_over_and_the_old_store_is_void() {
    let scratch = with_two();
    scratch.file("copy", bytes(&scratch, "store"));
    format(&scratch, "other", "theirs", &["--size", "256K"]).ok();
    let before = (bytes(&scratch, "card"), bytes(&scratch, "store"));
    let theirs = bytes(&scratch, "theirs");
    let hand = |line: &str| scratch.bash(&format!("$ATREST hand-over --key-file key {line}"));
    for (line, code, says) in [
        ("card --store store --to store", 1, "names the old store"),
        ("card --store store --to card", 1, "names the volume itself"),
        ("card --store card --to new", 1, "names the volume itself"),
        ("card --store theirs --to new", 4, "belongs to another volume"),
        ("card --store store --to theirs", 5, "holds a record already"),
        ("card --store nowhere --to new", 4, "no such trusted store"),
        ("card --store store --to no/such", 4, "no such directory"),
        ("card --store store --to key", 4, "and a trusted store has"),
        ("key --store store --to new", 4, "no flash header"),
    ] {
        hand(line).fails(code, says);
        assert!(!scratch.path("new").exists(), "{line}");
        assert!((bytes(&scratch, "card"), bytes(&scratch, "store")) == before, "{line}: it was written");
        assert!(bytes(&scratch, "theirs") == theirs, "{line}");
    }
    scratch
        .bash("echo wrong > wrong; $ATREST hand-over --key-file wrong card --store store --to new")
        .fails(2, "wrong passphrase");
    let done = hand("--json card --store store --to new").ok().json();
    assert_eq!((&done["store"], &done["finished"]), (&"new".into(), &false.into()));
    let open = |store: &str| scratch.atrest(&["ls", "--key-file", "two", "--store", store, "card"]);
    assert_eq!(open("new").ok().stdout, "text\n");
    let void = open("store").fails(4, "was handed over to another trusted store");
    assert!(void.stderr.contains("header number 3"), "{}", void.stderr);
    open("copy").fails(4, OTHER);
    scratch.atrest(&["info", "--store", "store", "card"]).fails(4, "was handed over");
    scratch
        .atrest(&["repair", "--yes", "--key-file", "key", "--store", "store", "card"])
        .fails(4, "handed over");
    // Again: there is nothing left to do.
    let again = hand("--json card --store store --to new").ok().json();
    assert_eq!(again["finished"], true);
    hand("card --store store --to newer").fails(4, "was handed over");
    hand("card --store copy --to newer").fails(4, OTHER);
    assert!(!scratch.path("newer").exists());
    // And on, from hand to hand.
    hand("card --store new --to newer").ok();
    open("new").fails(4, "was handed over");
    open("newer").ok();
    hand("card --store store --to new").fails(4, "was handed over");
}

#[test]
fn a_hand_over_that_is_killed_anywhere_leaves_one_store_and_is_finished_by_the_next() {
    let scratch = with_two();
    let before = (bytes(&scratch, "card"), bytes(&scratch, "store"));
    let begin = || {
        scratch.file("card", &before.0);
        scratch.file("store", &before.1);
        scratch.file("copy", &before.1);
        let _ = fs::remove_file(scratch.path("new"));
    };
    let line = "hand-over --key-file key card --store store --to new";
    let (mut with_old, mut with_new) = (0, 0);
    let kills = killed_at_writes(&scratch, line, 1, begin, |at| {
        let opens = |store: &str| scratch.atrest(&["ls", "--key-file", "two", "--store", store, "card"]).code;
        match (opens("store"), opens("new")) {
            (0, 4) => with_old += 1,
            (4, 0) => with_new += 1,
            codes => panic!("{at}: {codes:?}"),
        }
        scratch.bash(&format!("$ATREST {line}")).ok();
        assert_eq!((opens("store"), opens("copy"), opens("new")), (4, 4, 0), "{at}");
        scratch.atrest(&["ls", "--key-file", "two", "--store", "store", "card"]).fails(4, "handed over");
    });
    assert!(with_old > 2 && with_new > 1 && kills > 6, "{with_old} {with_new} {kills}");
    // Used with the old store after an attempt: what that has left is not the volume's any more, and is not lost without a word.
    begin();
    let trace = fs::read_to_string(scratch.path("trace")).expect("the trace");
    assert!(trace.contains("pwrite64("), "the header is written");
    scratch.bash(&format!(
        "strace -f -qq -o killed -e trace=pwrite64 -e inject=pwrite64:signal=KILL:when=1 $ATREST {line}; true"
    ));
    assert!(scratch.path("new").exists());
    run(&scratch, "$ATREST mkdir $K card /more").ok();
    let held = bytes(&scratch, "new");
    let refused = scratch.bash(&format!("$ATREST {line}")).fails(5, "holds a record already");
    assert!(refused.stderr.contains("move it away"), "{}", refused.stderr);
    assert!(bytes(&scratch, "new") == held);
    scratch.bash(&format!("mv new away; $ATREST {line}")).ok();
    scratch.atrest(&["ls", "--key-file", "two", "--store", "away", "card"]).fails(4, OTHER);
}

/// As a chip leaves it that was built to write its store seldom.
fn with_reserve(scratch: &Scratch, reserve: u8) {
    let geometry = FlashGeometry::new(1, 16, 4096, 256).expect("a geometry");
    let image = FlashImage::from_bytes(geometry, &bytes(scratch, "card"));
    let medium = SharedFlash::new(EmulatedFlash::with_image(image));
    let record: [u8; TRUSTED_RECORD_LEN] = bytes(scratch, "store").try_into().expect("a record");
    let store = TrustedMemory::with_record(Some(record));
    let header = FlashHeader::open(medium.clone(), vec![0; 512]).expect("a header");
    let mut key = FlashKey::empty();
    header.unlock(None, b"correct horse\n", &mut AnyKdf, None, &mut key).expect("the passphrase");
    let (found, params) = (header.found().expect("it"), *header.header().expect("it").params());
    let layout = SealedLayout::of(&params).expect("a layout");
    let options = SealedOptions { reserve, read_back: false, ..SealedOptions::of(&params).expect("sealed") };
    let table = vec![BlockState::default(); layout.medium().block_count() as usize];
    let sealed = SealedKey { volume_key: key.expose(), uuid: key.uuid(), header: Some(found) };
    let (data, buffer) = (header.into_data().expect("data"), vec![0; layout.buffer_len() as usize]);
    let mut volume = SealedFlash::<atrest_cipher::aead::ChaCha20Poly1305, _, _, _, _>::mount(
        data,
        store.clone(),
        &sealed,
        options,
        table,
        buffer,
        &mut OsRandom,
    )
    .expect("it opens");
    let erase = u64::from(FlashDevice::geometry(&volume).erase_size());
    volume.erase(200 * erase, erase).expect("erase");
    let unit = FlashDevice::geometry(&volume).prog_size() as usize;
    volume.prog(200 * erase, &vec![1; unit]).expect("program");
    volume.close().expect("close");
    drop(volume);
    scratch.file("card", medium.lock().image().to_bytes());
    scratch.file("store", store.record().expect("a record"));
}

#[test]
fn repair_makes_power_losses_cheap_again() {
    let scratch = with_two();
    with_reserve(&scratch, 22);
    let reserve = || {
        let record: [u8; TRUSTED_RECORD_LEN] = bytes(&scratch, "store").try_into().expect("a record");
        RecordFields::read(&record).expect("a record").reserve
    };
    assert_eq!(reserve(), 22);
    run(&scratch, "$ATREST ls $K card").ok();
    assert_eq!(reserve(), 22, "readers write nothing");
    let report = run(&scratch, "$ATREST repair $K --json card").ok().json();
    assert_eq!((reserve(), &report["repaired"]), (12, &true.into()));
    let left = report["power_losses_left"].as_u64().expect("a number");
    assert!(left > SealedOptions::power_losses(12) - 2048, "{left}");
    let again = run(&scratch, "$ATREST repair $K card").ok();
    assert!(again.stdout.contains("nothing needs repair"), "{}", again.stdout);
    with_reserve(&scratch, 22);
    let said = run(&scratch, "$ATREST repair $K card").ok();
    assert!(said.stdout.contains("it survives 26"), "{}", said.stdout);
    run(&scratch, "$ATREST cat $K card /text").ok();
}
