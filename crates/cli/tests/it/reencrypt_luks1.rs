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
        "head -c 3002368 /dev/urandom > plain; truncate -s 5099520 vol; chmod 600 key other; \
         theirs luksFormat --type luks1 {options} --pbkdf-force-iterations 1000 vol key; \
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
    refused(&[&both[..], &["--keep-key"]].concat(), 1, "nothing of a LUKS1 volume would change");
    refused(&[&both[..], &["--pbkdf", "argon2id"]].concat(), 1, "not for LUKS1");
    refused(&["--key-file", "key"], 1, "no passphrase was given for keyslots [3]");
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
