//! A volume of LUKS1 that Debian's cryptsetup made is re-encrypted, under both names, and Debian's opens it again. It is one of LUKS2
//! meanwhile, which either program goes on with.

use crate::common::Scratch;

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
        scratch.atrest(&[command, "vol"]).fails(4, "re-encryption by cryptsetup was interrupted");
        assert!(scratch.read("vol") == before, "{command}");
    }
}
