//! A volume of LUKS1 that Debian's cryptsetup made is re-encrypted, under both names, and Debian's opens it again. It is one of LUKS2
//! meanwhile, which either program goes on with.

use atrest_testkit::Campaign;

use crate::common::Scratch;
use crate::common::kills::killed_at_writes;

/// A volume `vol` of LUKS1 with the file `plain` in it, whose keyslots 0 and 3 open with `key` and `other`.
fn stage(options: &str) -> (Scratch, String) {
    let scratch = Scratch::new();
    scratch.file("key", "correct horse");
    scratch.file("other", "battery staple");
    let head = "set -e; ln -sf $ATREST cryptsetup; JUDGE=$(command -v cryptsetup); \
        C='--pbkdf pbkdf2 --pbkdf-force-iterations 1000'; theirs() { $JUDGE -q \"$@\"; }; \
        ours() { $ATREST reencrypt --quiet --key-file key --also-key-file other $C \"$@\" vol; }; \
        named() { ./cryptsetup reencrypt -q -d key $C \"$@\" vol; }; \
        opens() { theirs open --test-passphrase -S 0 -d key vol; theirs open --test-passphrase -S 3 -d other vol; }; \
        same() { rm -f out; $ATREST decrypt --quiet --key-file key vol out; cmp plain out; theirs isLuks --type luks1 vol; }; \
        vk() { theirs luksDump --dump-volume-key -d key vol | tail -4; }; ";
    let script = format!(
        "truncate -s 5099520 vol; chmod 600 key other; \
         theirs luksFormat --type luks1 {options} --pbkdf-force-iterations 1000 vol key; \
         offset=$(theirs luksDump vol | sed -n 's/^Payload offset://p'); \
         head -c $((5099520 - offset * 512)) /dev/urandom > plain; \
         theirs luksAddKey -d key -S 3 --pbkdf-force-iterations 1000 vol other; \
         $ATREST encrypt --quiet --key-file key plain vol; same; "
    );
    scratch.bash(&format!("{head}{script}")).ok();
    (scratch, head.into())
}

#[test]
fn a_volume_of_luks1_has_a_new_key_and_its_keyslots_afterwards() {
    for options in ["-s 256 -h sha1", "-s 512 -h sha256", "-s 512 -h sha512"] {
        let (scratch, head) = stage(options);
        let script = "before=$(vk); cp vol was; ours; test \"$before\" != \"$(vk)\"; opens; same; \
            cmp -s -i 2097152 -n 512 was vol && exit 9; \
            theirs luksDump was | grep 'Hash spec' | cmp - <(theirs luksDump vol | grep 'Hash spec'); \
            ours --key-size 512 --cipher aes-xts-plain64; opens; same; \
            theirs luksKillSlot -d key vol 3; named; theirs open --test-passphrase -S 0 -d key vol; same";
        scratch.bash(&format!("{head}{script}")).ok();
    }
}

/// The eight longer keyslots of LUKS1 have no room before the data, which moves.
#[test]
fn data_of_luks1_moves_back_where_a_longer_key_needs_room() {
    let (scratch, head) = stage("-s 128 -c aes-cbc-essiv:sha256 --align-payload 2048");
    let script = "theirs luksKillSlot -d key vol 3; cp vol was; cp plain all; head -c -524288 all > plain; \
        if $ATREST reencrypt --key-file key --key-size 256 $C vol; then exit 9; fi; cmp vol was; \
        for by in \
            'named -s 256 --reduce-device-size 1024S' \
            '$ATREST --yes reencrypt --key-file key --key-size 256 --reduce-device-size 512K $C vol' \
            'named -s 256 --init-only --reduce-device-size 512K; theirs isLuks --type luks2 vol; ./cryptsetup reencrypt -q -d key --resume-only vol'; \
        do cp was vol; eval \"$by\"; same; theirs open --test-passphrase -S 0 -d key vol; \
            theirs luksDump vol | grep -q 'Payload offset:.*3072'; theirs luksDump vol | grep -q 'MK bits:.*256'; \
        done";
    scratch.bash(&format!("{head}{script}")).ok();
}

/// Of LUKS1 that is the new key in every version of cryptsetup, 2.8 too.
#[test]
fn a_volume_key_that_is_given_is_the_new_one_of_luks1_under_cryptsetups_name() {
    let (scratch, head) = stage("-s 256 -h sha256");
    let script = "theirs luksKillSlot -d key vol 3; before=$(vk); named --volume-key-file /dev/urandom; \
        test \"$before\" != \"$(vk)\"; same; theirs luksDump vol | grep -q 'MK bits:.*256'; \
        named -s 512 --master-key-file /dev/urandom; same; theirs luksDump vol | grep -q 'MK bits:.*512'; \
        head -c 32 /dev/urandom > new; chmod 600 new; \
        named -s 256 --volume-key-file new --init-only; ./cryptsetup reencrypt -q -d key --volume-key-file new vol; same; \
        theirs luksDump --dump-volume-key --volume-key-file out.vk -d key vol > /dev/null; cmp new out.vk; cp vol still; \
        if named -s 512 --volume-key-file new; then exit 9; fi; cmp vol still";
    scratch.bash(&format!("{head}{script}")).ok();
}

#[test]
fn keyslots_of_luks1_are_made_anew_for_the_key_that_it_has() {
    let (scratch, head) = stage("-s 512 -h sha1");
    let script = "before=$(vk); cp vol was; spec() { theirs luksDump vol | sed -n 's/^Hash spec:[[:space:]]*//p'; }; \
        kept() { test \"$before\" = \"$(vk)\"; cmp -i 2097152 was vol; same; }; \
        ours --keep-key --hash sha512; kept; opens; test $(spec) = sha512; \
        theirs luksKillSlot -d key vol 3; \
        named --keep-key --hash sha256 --pbkdf-force-iterations 1001; kept; test $(spec) = sha256; \
        theirs luksDump vol | grep -q 'Iterations:.*1001'; cp vol still; \
        if named --keep-key --pbkdf-force-iterations 999; then exit 9; fi; cmp vol still; \
        named --keep-key --init-only; theirs isLuks --type luks2 vol; \
        ./cryptsetup reencrypt -q -d key --resume-only vol; kept";
    scratch.bash(&format!("{head}{script}")).ok();
}

/// Also where eight keyslots leave no room for another.
#[test]
fn a_keyslot_that_is_named_is_the_only_one_afterwards() {
    let (scratch, head) = stage("-s 512");
    let script = "used() { theirs luksDump vol | grep -c 'Key Slot.*ENABLED'; }; cp vol was; \
        ./cryptsetup reencrypt -q -d other -S 3 $C vol; test $(used) = 1; theirs open --test-passphrase -S 3 -d other vol; \
        rm -f out; $ATREST decrypt --quiet --key-file other vol out; cmp plain out; \
        cp was vol; for slot in 1 2 4 5 6 7; do theirs luksAddKey -d key -S $slot --pbkdf-force-iterations 1000 vol key; done; \
        cp vol still; if ours; then exit 9; fi; cmp vol still; \
        test $(used) = 8; named -S 0; test $(used) = 1; theirs open --test-passphrase -S 0 -d key vol; same";
    scratch.bash(&format!("{head}{script}")).ok();
}

/// Six more keyslots, that open with `key`: in front of the data is no room for a second place of each.
const EIGHT: &str = "for slot in 1 2 4 5 6 7; do theirs luksAddKey -d key -S $slot --pbkdf-force-iterations 1000 vol key; done; cp vol full; ";
/// What they have to do with each other afterwards.
const ALL: &str = "all() { test $(theirs luksDump vol | grep -c 'Key Slot.*ENABLED') = 8; opens; theirs open --test-passphrase -S 7 -d key vol; same; }; ";

#[test]
fn eight_keyslots_of_luks1_are_made_anew_while_the_header_is_in_a_file() {
    let (scratch, head) = stage("-s 512");
    let script = "said() { for slot in 0 1 2 3 4 5 6 7; do if [ $slot = 3 ]; then cat other; else cat key; fi; echo; done | \
            ./cryptsetup reencrypt -q $C \"$@\" vol; }; \
        before=$(vk); said; all; test \"$before\" != \"$(vk)\"; ! ls LUKS-*; before=$(vk); \
        said --keep-key --hash sha512; all; test \"$before\" = \"$(vk)\"; ! ls LUKS-*; \
        said --init-only; test -e LUKS-*.header; if theirs isLuks vol; then exit 9; fi; \
        test $(stat -c %a LUKS-*.header) = 600; \
        mkdir elsewhere; cp vol begun; \
        if (cd elsewhere; ../cryptsetup reencrypt -q -d ../key --resume-only ../vol) 2> message; then exit 9; fi; \
        grep 'its header is in a file' message; cmp vol begun; \
        $ATREST decrypt --quiet --key-file other --header LUKS-*.header vol out2; cmp plain out2; rm out2; \
        ./cryptsetup reencrypt -q -d other --resume-only vol; all; ! ls LUKS-*; \
        said -s 256 -c aes-cbc-essiv:sha256; all";
    scratch.bash(&format!("{head}{EIGHT}{ALL}{script}")).ok();
}

/// What was interrupted is gone on with, and a file that has no use any more goes.
#[test]
fn a_header_in_a_file_goes_back_in_front_of_its_data() {
    let (scratch, head) = stage("-s 512");
    let script = "K='--key-file key --also-key-file other'; for slot in 1 2 4 5 6 7; do \
            printf \"horse $slot\" > k$slot; chmod 600 k$slot; theirs luksAddKey -d key -S $slot --pbkdf-force-iterations 1000 vol k$slot; \
            K=\"$K --also-key-file k$slot\"; done; cp vol full; \
        all() { test $(theirs luksDump vol | grep -c 'Key Slot.*ENABLED') = 8; opens; \
            for slot in 1 2 4 5 6 7; do theirs open --test-passphrase -S $slot -d k$slot vol; done; same; }; \
        eight() { $ATREST reencrypt --quiet $K $C \"$@\" vol; }; spare='--spare-header kept'; \
        if eight 2> message; then exit 9; fi; grep -e '--spare-header FILE' message; cmp vol full; \
        eight $spare; all; test ! -e kept; \
        cp full vol; eight $spare --init-only; cp kept begun; cp vol aside; \
        if cmp -s full vol; then exit 9; fi; \
        theirs luksHeaderBackup --header-backup-file backup full; truncate -s 20M two.img; \
        theirs luksFormat --type luks2 $C two.img key; theirs luksHeaderBackup --header-backup-file two two.img; \
        for of in backup two; do if $ATREST --yes header restore vol $of 2> message; then exit 9; fi; \
            grep 'another volume' message; cmp vol aside; done; \
        if $ATREST --yes encrypt --in-place --reduce-device-size 2M --key-file key vol 2> message; then exit 9; fi; \
        grep 'its header is in a file' message; cmp vol aside; \
        if eight 2> message; then exit 9; fi; grep 'its header is in a file' message; cmp vol aside; \
        $ATREST reencrypt --quiet --resume --key-file k4 $spare vol; all; test ! -e kept; \
        for later in full vol; do cp begun kept; cp $later later; \
            if $ATREST reencrypt --resume --header kept --key-file k4 later 2> message; then exit 9; fi; \
            grep 'this header does not count' message; cmp $later later; done; \
        cp begun kept; cp aside vol; $ATREST reencrypt --quiet --resume --header kept --key-file k4 vol; all; test ! -e kept; \
        rm -f begun; echo other > kept; cp full vol; if eight $spare 2> message; then exit 9; fi; \
        grep 'the file is there already' message; cmp vol full; echo other | cmp - kept; rm kept; \
        theirs luksKillSlot -d key vol 7; theirs luksKillSlot -d key vol 6; theirs luksKillSlot -d key vol 5; \
        theirs luksKillSlot -d key vol 4; theirs luksKillSlot -d key vol 2; \
        K='--key-file key --also-key-file other --also-key-file k1'; eight --spare-header none/kept; opens; same";
    scratch.bash(&format!("{head}{script}")).ok();
    scratch
        .atrest(&["reencrypt", "--spare-header", "a", "--header", "b", "vol"])
        .fails(1, "cannot be used with");
}

#[test]
fn a_kill_at_any_write_loses_nothing_of_a_volume_whose_header_is_in_a_file() {
    let (scratch, head) = stage("-s 512");
    let script = "for slot in 1 2; do printf \"horse $slot\" > k$slot; chmod 600 k$slot; \
        theirs luksAddKey -d key -S $slot --pbkdf-force-iterations 1000 vol k$slot; done; cp vol full";
    scratch.bash(&format!("{head}{script}")).ok();
    let line = "reencrypt --quiet --key-file key --also-key-file other --also-key-file k1 --also-key-file k2 --spare-header kept \
        --pbkdf-force-iterations 1000 --hotzone-size 1M vol";
    let begin = || {
        scratch.bash("rm -f kept; cp full vol").ok();
    };
    let every = if Campaign::is_full() { 1 } else { 29 };
    let mut resumed = 0;
    let kills = killed_at_writes(&scratch, line, every, begin, |at| {
        let script = "if [ -e kept ]; then echo kept; $ATREST reencrypt --quiet --resume --header kept --key-file other vol 2> message || \
            grep 'had not begun' message; test ! -e kept; fi; opens; same";
        let looked = scratch.bash(&format!("{head}{script}"));
        assert_eq!(looked.code, 0, "{at}: {}", looked.stderr);
        resumed += usize::from(looked.stdout.starts_with("kept"));
    });
    println!("LUKS1, header in a file: {kills} kills, {resumed} resumed");
    assert!(kills > 6 && resumed > 1, "{kills} {resumed}");
}

#[test]
fn what_was_interrupted_is_gone_on_with_by_either_program_and_is_one_of_luks1_again() {
    let (scratch, head) = stage("-s 512");
    for resume in [
        "$ATREST reencrypt --quiet --resume --key-file key vol",
        "./cryptsetup reencrypt -q --resume-only -d key vol",
        "theirs reencrypt --resume-only --force-offline-reencrypt -d key vol; $ATREST reencrypt --resume --key-file key vol | grep 'all was done'",
    ] {
        let script = format!(
            "ours --init-only; theirs isLuks --type luks2 vol; theirs open --test-passphrase -d other vol; \
             $ATREST decrypt --quiet --key-file other vol out2; cmp plain out2; rm out2; \
             {resume}; opens; same"
        );
        scratch.bash(&format!("{head}{script}")).ok();
    }
    // Nothing was begun, or it is done.
    let words = ["reencrypt", "--resume", "--key-file", "key", "vol"];
    scratch.atrest(&words).fails(1, "no re-encryption of this LUKS1 volume is in progress");
}

#[test]
fn what_luks1_does_not_have_is_refused_and_nothing_is_written() {
    let (scratch, _) = stage("-s 512");
    let before = scratch.read("vol");
    let refused = |words: &[&str], code: i32, what: &str| {
        scratch.atrest(&[&["reencrypt", "vol"], words].concat()).fails(code, what);
        assert!(scratch.read("vol") == before, "{what}");
    };
    let both = ["--key-file", "key", "--also-key-file", "other"];
    refused(&[&both[..], &["--sector-size", "4096"]].concat(), 1, "not for LUKS1");
    refused(
        &[&both[..], &["--keep-key", "--cipher", "aes-xts-plain64"]].concat(),
        1,
        "with its key kept, only",
    );
    refused(&[&both[..], &["--pbkdf", "argon2id"]].concat(), 1, "not for LUKS1");
    refused(&["--key-file", "key"], 1, "no passphrase was given for keyslots [3]");
    refused(
        &[&both[..], &["--yes", "--reduce-device-size", "128M"]].concat(),
        1,
        "the data can move back by 132153344 bytes at most",
    );
    scratch.bash("head -c 4M vol > header").ok();
    refused(
        &[&both[..], &["--yes", "--header", "header", "--reduce-device-size", "64K"]].concat(),
        1,
        "leave --reduce-device-size out: all data stays",
    );
    scratch.file("wrong", "wrong");
    refused(&["--key-file", "wrong", "--also-key-file", "other"], 2, "wrong passphrase");
    // A header of cryptsetup's own re-encryption, which differs in the magic alone.
    scratch.bash("printf 'LUKS\\336\\255' | dd of=vol conv=notrunc status=none").ok();
    let before = scratch.read("vol");
    for command in ["reencrypt", "info", "ls"] {
        scratch.atrest(&[command, "vol"]).fails(4, "whose re-encryption was interrupted");
        assert!(scratch.read("vol") == before, "{command}");
    }
}
