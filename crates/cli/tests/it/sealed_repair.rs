//! Damage to sealed flash on the desk: a wrong bit hides no file, what can't be restored is named, and `repair` mends what it can.

use crate::common::Scratch;
use crate::common::sealed::{BLOCK, DATA, STRIDE, UNITS, bytes, run, unit_at, with_card};

const FILES: [&str; 4] = ["/one", "/two", "/dir/three", "/dir/four"];

/// A card with four files of some length in two directories.
fn card() -> Scratch {
    let scratch = with_card();
    for (at, name) in FILES.iter().enumerate() {
        let text: String = (0..400 + 300 * at).map(|line| format!("{name}, line {line}\n")).collect();
        scratch.file(name.rsplit('/').next().expect("a name"), text);
    }
    run(&scratch, "$ATREST mkdir $K card /dir && $ATREST cp $K one card:/one && $ATREST cp $K two card:/two")
        .ok();
    run(&scratch, "$ATREST cp $K three card:/dir/three && $ATREST cp $K four card:/dir/four").ok();
    scratch
}

/// Blocks and units that hold something.
fn used(card: &[u8]) -> Vec<(usize, usize)> {
    let all = (DATA / BLOCK..card.len() / BLOCK).flat_map(|block| (0..UNITS).map(move |unit| (block, unit)));
    all.filter(|(block, unit)| card[block * BLOCK + unit_at(*unit)..][..STRIDE] != [0xff; STRIDE]).collect()
}

fn expected(scratch: &Scratch, name: &str) -> Vec<u8> {
    bytes(scratch, name.rsplit('/').next().expect("a name"))
}

#[test]
fn one_wrong_bit_hides_no_file_and_is_put_right() {
    let scratch = card();
    let (good, store) = (bytes(&scratch, "card"), bytes(&scratch, "store"));
    let used = used(&good);
    assert!(used.len() > 60, "{} units", used.len());
    // First, middle and last units, in payload, serial and tag.
    let places = used.iter().step_by(used.len() / 14);
    for ((block, unit), byte) in places.zip([9, 430, 424, 428, 440, 0].into_iter().cycle()) {
        let mut bad = good.clone();
        bad[block * BLOCK + unit_at(*unit) + byte] ^= 0x10;
        scratch.file("card", &bad);
        let what = format!("byte {byte} of unit {unit} of block {block}");
        let ls = run(&scratch, "$ATREST ls $K card / && $ATREST ls $K card /dir").ok();
        for name in ["one", "two", "dir", "three", "four"] {
            assert!(ls.stdout.contains(name), "{what}: {}", ls.stdout);
        }
        assert!(ls.stderr.contains("some units are not as they were stored"), "{what}: {}", ls.stderr);
        for name in FILES {
            let cat = run(&scratch, &format!("$ATREST cat $K card {name}")).ok();
            assert!(cat.raw == expected(&scratch, name), "{what}: {name}");
        }
        run(&scratch, "$ATREST key test $K card").ok();
        assert!(bytes(&scratch, "card") == bad, "{what}: readers write nothing");
        run(&scratch, "$ATREST repair $K card").fails(1, "with one wrong bit");
        assert!(bytes(&scratch, "card") == bad, "{what}: not asked");
        let repaired = run(&scratch, "$ATREST repair $K --yes --json card").ok().json();
        let units = serde_json::json!([{ "block": block, "unit": unit, "state": "restored" }]);
        assert_eq!((&repaired["repaired"], &repaired["units"]), (&true.into(), &units), "{what}");
        assert_eq!((&repaired["files"], &repaired["anchored_anew"]), (&serde_json::json!([]), &false.into()));
        assert!(bytes(&scratch, "card") == good, "{what}: it is as it was");
        assert!(bytes(&scratch, "store") == store);
    }
    let nothing = run(&scratch, "$ATREST repair $K card").ok();
    assert!(nothing.stdout.contains("nothing needs repair"), "{}", nothing.stdout);
    // It can be written, too, with the bit still wrong.
    let (block, unit) = used[used.len() / 3];
    let mut bad = good.clone();
    bad[block * BLOCK + unit_at(unit) + 5] ^= 1;
    scratch.file("card", &bad);
    run(&scratch, "$ATREST cp $K one card:/five && $ATREST rm $K card /one").ok();
    assert!(run(&scratch, "$ATREST cat $K card /five").ok().raw == expected(&scratch, "one"));
    run(&scratch, "$ATREST repair $K --yes card").ok();
}

#[test]
fn a_lost_unit_is_named_with_its_file_and_everything_else_is_there() {
    let scratch = card();
    let (good, store) = (bytes(&scratch, "card"), bytes(&scratch, "store"));
    let (mut named, mut unnamed, mut unproven) = (0, 0, 0);
    let used = used(&good);
    for (block, unit) in used.iter().step_by(used.len() / 10) {
        let mut bad = good.clone();
        bad[block * BLOCK + unit_at(*unit)..][..STRIDE].iter_mut().for_each(|byte| *byte ^= 0x5a);
        scratch.file("card", &bad);
        let what = format!("unit {unit} of block {block}");
        // The only unit of a block: nothing else proves that the block held it.
        let next = &good[block * BLOCK + unit_at(unit + 1)..][..STRIDE];
        if *unit == 0 && next == [0xff; STRIDE] {
            run(&scratch, "$ATREST ls $K card").fails(4, "trusted store knows it");
            unproven += 1;
            continue;
        }
        let repair = run(&scratch, "$ATREST repair $K --yes --json card");
        repair.fails(4, "can't be restored");
        let report = run(&scratch, "$ATREST repair $K --yes --json card").json();
        let units = serde_json::json!([{ "block": block, "unit": unit, "state": "lost" }]);
        assert_eq!(report["units"], units, "{what}");
        let files = report["files"].as_array().expect("files");
        let lost = |name: &str| {
            files.iter().any(|file| {
                let file = file.as_str().expect("a path");
                file == name || file == "/" || name.starts_with(&format!("{file}/"))
            })
        };
        for name in FILES {
            let cat = run(&scratch, &format!("$ATREST cat $K card {name}"));
            if lost(name) {
                cat.fails(4, "is not what was stored there");
            } else {
                assert!(cat.ok().raw == expected(&scratch, name), "{what}: {name}");
            }
        }
        *(if files.is_empty() { &mut unnamed } else { &mut named }) += 1;
        run(&scratch, "$ATREST key test $K card").ok();
        assert!(bytes(&scratch, "card") == bad, "{what}: nothing can be done");
    }
    assert!(bytes(&scratch, "store") == store);
    println!("{named} lost a file, {unnamed} none, {unproven} were refused");
    assert!(named > 3);
}

#[test]
fn what_the_store_does_not_confirm_is_anchored_anew_when_its_owner_says_so() {
    let scratch = card();
    let old = bytes(&scratch, "card");
    run(&scratch, "$ATREST rm $K card /two").ok();
    let (new, store) = (bytes(&scratch, "card"), bytes(&scratch, "store"));
    scratch.file("card", &old);
    run(&scratch, "$ATREST ls $K card").fails(4, "trusted store knows it");
    run(&scratch, "$ATREST repair $K card").fails(1, "may be older than what was stored last");
    assert!(bytes(&scratch, "card") == old && bytes(&scratch, "store") == store, "not asked");
    let report = run(&scratch, "$ATREST repair $K --yes --json card").ok().json();
    assert_eq!((&report["anchored_anew"], &report["repaired"]), (&true.into(), &true.into()));
    assert!(run(&scratch, "$ATREST cat $K card /two").ok().raw == expected(&scratch, "two"));
    run(&scratch, "$ATREST cp $K one card:/more && $ATREST cat $K card /more").ok();
    // The state that was given up does not come back.
    scratch.file("card", &new);
    run(&scratch, "$ATREST ls $K card").fails(4, "trusted store");
    // A store that is older, or another's, helps nobody.
    scratch.file("card", &new);
    scratch.file("store", [0; 80]);
    run(&scratch, "$ATREST repair $K --yes card").fails(4, "belongs to another volume");
    assert!(bytes(&scratch, "card") == new);
}
