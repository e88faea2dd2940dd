//! Sealed flash on the desk, read without its trusted store: what is found out all the same, and what is not.

use crate::common::sealed::{BLOCK, DATA, STRIDE, UNITS, bytes, run, unit_at, with_card};

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
    tampered[file * BLOCK + unit_at(3) + 20] ^= 1;
    scratch.file("card", &tampered);
    let found = alone("$ATREST cat $A card /one > /dev/null; $ATREST cat $A card /two > /dev/null");
    let place = format!("unit 3 of erase block {file} is not what was stored there");
    assert!(found.stderr.contains(&place), "{place}: {}", found.stderr);
}

/// littlefs keeps metadata twice, and would go on with what is older if one half were void, or ended early. So the first and the last unit
/// of each block are changed: what is listed then is what was stored last, or nothing.
#[test]
fn without_the_store_no_changed_unit_makes_a_card_show_what_is_older() {
    const NEWEST: &str = "four\none\nthree\ntwo\n";
    let scratch = with_card();
    scratch.file("text", "some text\n".repeat(500));
    for name in ["one", "two", "three"] {
        run(&scratch, &format!("$ATREST cp $K text card:/{name}")).ok();
    }
    // A change of one commit, so that the two halves of the metadata differ.
    run(&scratch, "$ATREST mkdir $K card /four").ok();
    let card = bytes(&scratch, "card");
    let list =
        |more: &str| scratch.bash(&format!("$ATREST ls --key-file key --without-freshness {more} card /"));
    assert_eq!(list("").ok().stdout, NEWEST);
    let is_used =
        |block: usize, unit: usize| card[block * BLOCK + unit_at(unit)..][..STRIDE] != [0xff; STRIDE];
    let (mut refused, mut older) = (0, 0);
    for block in (DATA / BLOCK..256).filter(|block| is_used(*block, 0)) {
        let last = (0..UNITS).rev().find(|unit| is_used(block, *unit)).expect("a unit");
        for unit in [0, last] {
            let mut changed = card.clone();
            changed[block * BLOCK + unit_at(unit) + 20] ^= 0x10;
            scratch.file("card", &changed);
            let strict = list("");
            if strict.code == 0 {
                assert_eq!(strict.stdout, NEWEST, "unit {unit} of block {block}");
            } else {
                let place = format!("unit {unit} of erase block {block} is not what was stored there");
                let told = strict.fails(4, &place);
                assert!(told.stderr.contains("--assume-torn"), "{}", told.stderr);
                refused += 1;
            }
            let lenient = list("--assume-torn");
            if lenient.code == 0 {
                assert!(lenient.stderr.contains("as those count as torn"), "{}", lenient.stderr);
                older += i32::from(lenient.stdout != NEWEST);
            }
        }
    }
    assert!(refused >= 3 && older > 0, "{refused} refused; {older} would have shown what is older");
    // Beside a store, or without being asked to do without, it means nothing.
    for (more, says) in [("--store store", "cannot be used with"), ("", "--without-freshness")] {
        scratch.bash(&format!("$ATREST ls --key-file key {more} --assume-torn card /")).fails(1, says);
    }
}
