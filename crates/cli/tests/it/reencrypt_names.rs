//! `reencrypt` by cryptsetup's name: what is begun under either name, either program finishes.

use crate::common::Scratch;

const CHEAP: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";

/// A volume `vol` with the file `plain` in it, and functions for both programs.
fn stage() -> (Scratch, String) {
    let scratch = Scratch::new();
    scratch.file("key", "correct horse");
    let head = format!(
        "set -e; ln -sf $ATREST cryptsetup; JUDGE=$(command -v cryptsetup); \
         ours() {{ ./cryptsetup \"$@\"; }}; theirs() {{ $JUDGE \"$@\"; }}; \
         no() {{ if \"$@\"; then exit 9; fi; }}; \
         O='-q --force-offline-reencrypt -d key'; C='{CHEAP}'; "
    );
    let script = "head -c 3000000 /dev/urandom > plain; truncate -s 19779584 vol; chmod 600 key; \
                  theirs luksFormat -q --type luks2 $C vol key; $ATREST encrypt --quiet --key-file key plain vol; cp vol was; ";
    scratch.bash(&format!("{head}{script}")).ok();
    (scratch, head)
}

#[test]
fn a_volume_is_decrypted_and_encrypted_under_either_name() {
    let (scratch, head) = stage();
    for (begin, resume) in [("ours", "theirs"), ("theirs", "ours"), ("ours", "ours")] {
        let script = format!(
            "rm -f h; cp was vol; {begin} reencrypt $O --decrypt --init-only --header h vol; \
             {resume} reencrypt $O --resilience checksum --resume-only --header h vol; cmp -n 3000000 plain vol; \
             rm h; {begin} reencrypt $O $C --encrypt --init-only --header h vol; \
             {resume} reencrypt $O --resilience checksum --resume-only --header h vol; no cmp -s -n 512 plain vol; \
             $ATREST decrypt --quiet --key-file key --header h vol out; cmp -n 3000000 plain out; rm out"
        );
        scratch.bash(&format!("{head}{script}")).ok();
    }
}

#[test]
fn a_cipher_takes_the_place_of_one_with_longer_keys_under_either_name() {
    let (scratch, head) = stage();
    for (begin, resume) in [("ours", "theirs"), ("theirs", "ours"), ("ours", "ours")] {
        let script = format!(
            "cp was vol; {begin} reencrypt $O $C -c aes-cbc-essiv:sha256 -s 256 --init-only vol; \
             {resume} reencrypt $O --resilience checksum --resume-only vol; theirs luksDump vol | grep -q 'cipher: aes-cbc-essiv:sha256'; \
             theirs open --test-passphrase -d key vol; \
             $ATREST decrypt --quiet --key-file key vol out; cmp -n 3000000 plain out; rm out"
        );
        scratch.bash(&format!("{head}{script}")).ok();
    }
}

#[test]
fn data_moves_behind_a_larger_header_under_either_name() {
    let (scratch, head) = stage();
    for (begin, resume) in [("ours", "theirs"), ("theirs", "ours"), ("ours", "ours"), ("theirs", "theirs")] {
        let script = format!(
            "cp was vol; {begin} reencrypt $O $C --reduce-device-size 1M --init-only vol; \
             $ATREST decrypt --quiet --key-file key vol out; cmp -n 1953792 plain out; rm out; \
             {resume} reencrypt $O --resume-only vol; \
             theirs luksDump vol | grep -q 'offset: 17825792 \\[bytes\\]'; theirs open --test-passphrase -d key vol; \
             $ATREST decrypt --quiet --key-file key vol out; cmp -n 1953792 plain out; rm out"
        );
        scratch.bash(&format!("{head}{script}")).ok();
    }
    // Nothing is given up unasked.
    scratch.bash("cp was vol").ok();
    scratch
        .bash("$ATREST reencrypt --key-file key --reduce-device-size 1M vol")
        .fails(1, "the last 1048576 bytes");
    scratch
        .bash("$ATREST --yes reencrypt --key-file key --reduce-device-size 1000 vol")
        .fails(1, "a multiple of 512 bytes");
    scratch
        .bash("$ATREST --yes reencrypt --key-file key --reduce-device-size 1T vol")
        .fails(1, "the data has not that many");
    scratch.bash("cmp was vol").ok();
}

#[test]
fn data_that_is_shorter_than_its_header_moves_as_a_whole_under_either_name() {
    let (scratch, head) = stage();
    // 2^15 lines of 32 bytes, each once.
    scratch
        .bash("seq -f 'plaintext of line %013.0f' 32768 > little; grep -qaF 'plaintext of line' little")
        .ok();
    for (begin, resume) in [("ours", "theirs"), ("theirs", "ours"), ("ours", "ours"), ("theirs", "theirs")] {
        let script = format!(
            "cp little v; truncate -s 17M v; \
             {begin} reencrypt $O $C --encrypt --reduce-device-size 16M --init-only v; \
             $ATREST decrypt --quiet --key-file key v out; cmp -n 1048576 little out; rm out; \
             {resume} reencrypt $O --resume-only v; theirs luksDump v | grep -q 'offset: 8388608 \\[bytes\\]'; \
             theirs open --test-passphrase -d key v; \
             $ATREST decrypt --quiet --key-file key v out; cmp -n 1048576 little out; rm out; \
             no grep -qaF 'plaintext of line' v"
        );
        scratch.bash(&format!("{head}{script}")).ok();
    }
}

/// Where a header is elsewhere nothing moves, whatever is to be reduced: room in front of the data is left for it.
#[test]
fn data_that_begins_later_is_encrypted_from_there_under_either_name() {
    let (scratch, head) = stage();
    scratch.bash("head -c 14M /dev/urandom > p; tail -c +4194305 p > behind").ok();
    let check = "cmp -n 4194304 p v; no cmp -s behind <(tail -c +4194305 v); \
                 $ATREST decrypt --quiet --key-file key --header h v out; cmp behind out; rm out";
    for (begin, resume) in [("ours", "theirs"), ("theirs", "ours"), ("ours", "ours")] {
        let script = format!(
            "rm -f h; cp p v; {begin} reencrypt $O $C --encrypt --init-only --header h --offset 8192 v; \
             {resume} reencrypt $O --resume-only --header h v; {check}"
        );
        scratch.bash(&format!("{head}{script}")).ok();
    }
    for who in ["ours", "theirs"] {
        let script = format!(
            "rm -f h; cp p v; \
             {who} reencrypt $O $C --encrypt --header h --offset 8192 --reduce-device-size 4M v; {check}; \
             ours luksHeaderRestore -q --header-backup-file h v; theirs open --test-passphrase -d key v; \
             $ATREST decrypt --quiet --key-file key v out; cmp behind out; rm out"
        );
        scratch.bash(&format!("{head}{script}")).ok();
    }
    let script =
        "rm -f h; cp p v; ours reencrypt $O $C --encrypt --header h --offset 8192 --reduce-device-size 5M v";
    scratch.bash(&format!("{head}{script}")).fails(1, "--offset leaves less");
    scratch.bash("cmp p v; test ! -e h").ok();
    for offset in ["8K", "1000", "14M", "15M"] {
        let script = format!(
            "$ATREST --yes encrypt --in-place --key-file key {CHEAP} --header h --data-offset {offset} v"
        );
        let ran = scratch.bash(&script);
        assert!(matches!(ran.code, 1 | 4), "{offset}: {} {}", ran.code, ran.stderr);
        scratch.bash("cmp p v; test ! -e h").ok();
    }
}

/// Makes of a re-encryption what such a version would have begun: both copies of the header get other JSON.
const OLD_HEADER: &str = r"
import hashlib, json, sys

SIZE = 16384
with open(sys.argv[1], 'r+b') as device:
    for copy in (0, SIZE):
        device.seek(copy)
        head = bytearray(device.read(SIZE))
        text = json.loads(head[4096:].rstrip(b'\0'))
        slot = next(number for number, keyslot in text['keyslots'].items() if keyslot['type'] == 'reencrypt')
        text['digests'] = {number: digest for number, digest in text['digests'].items() if slot not in digest['keyslots']}
        text['config']['requirements']['mandatory'] = ['online-reencrypt']
        head[4096:] = json.dumps(text).encode().ljust(SIZE - 4096, b'\0')
        head[448:512] = bytes(64)
        head[448:480] = hashlib.sha256(head).digest()
        device.seek(copy)
        device.write(head)
";

/// cryptsetup before 2.4.3 bound a re-encryption to no key.
#[test]
fn a_verification_is_added_after_a_question_by_whoever_has_each_key() {
    let (scratch, head) = stage();
    scratch.file("wrong", "wrong");
    scratch.file("old.py", OLD_HEADER);
    let begin = "cp was vol; theirs reencrypt $O $C --init-only vol; python3 old.py vol; cp vol old";
    scratch.bash(&format!("{head}{begin}")).ok();
    let unchanged = || scratch.bash("cmp old vol").ok();
    scratch.bash("$ATREST decrypt --key-file key vol out").fails(4, "a re-encryption is not finished");
    scratch.bash("$ATREST reencrypt --resume --key-file key vol").fails(4, "has no verification");
    scratch.bash("$ATREST repair --key-file key vol").fails(1, "nothing shows that it was begun by somebody");
    scratch.bash("$ATREST --yes repair --key-file wrong vol").fails(2, "wrong passphrase");
    unchanged();
    for (repair, resume) in [("ours", "theirs"), ("theirs", "ours"), ("ours", "ours")] {
        let script = format!(
            "cp old vol; {repair} repair -q -d key vol; theirs luksDump vol | grep -q online-reencrypt-v2; \
             theirs repair -q -d key vol; ours repair -q -d key vol; no $ATREST repair --key-file wrong vol; \
             {resume} reencrypt $O --resume-only vol; $ATREST decrypt --quiet --key-file key vol out; \
             cmp -n 3000000 plain out; rm out"
        );
        scratch.bash(&format!("{head}{script}")).ok();
    }
}

#[test]
fn what_was_begun_is_gone_on_with_without_being_told_and_opened_meanwhile() {
    let (scratch, head) = stage();
    let script = "ours reencrypt $O $C --init-only vol; \
                  $ATREST decrypt --quiet --key-file key vol out; cmp -n 3000000 plain out; rm out; \
                  ours reencrypt $O $C vol; theirs luksDump vol | grep -q reencrypt && exit 9; \
                  $ATREST decrypt --quiet --key-file key vol out; cmp -n 3000000 plain out; \
                  theirs open --test-passphrase -d key vol";
    scratch.bash(&format!("{head}{script}")).ok();
}

/// The header is exported only by whoever can open it, and nothing is moved over what is not this volume's.
#[test]
fn nothing_is_decrypted_over_what_is_not_the_volumes_header() {
    let (scratch, _) = stage();
    let before = scratch.read("vol");
    scratch.file("wrong", "wrong");
    let run = |line: &str| scratch.bash(&format!("$ATREST --yes reencrypt --decrypt --header h {line}"));
    run("--key-file wrong vol").fails(2, "wrong passphrase");
    assert!(!scratch.path("h").exists() && scratch.read("vol") == before);
    scratch.bash("$ATREST header backup --quiet vol h; chmod 600 h; head -c 16777216 /dev/urandom > v; tail -c +16777217 vol >> v; mv v vol").ok();
    let foreign = scratch.read("vol");
    run("--key-file key vol").fails(4, "not the header of this volume");
    assert!(scratch.read("vol") == foreign);
    // A front that was half moved, or is empty, is.
    scratch.bash("cp was vol; dd if=vol of=vol bs=4096 skip=4096 count=100 conv=notrunc status=none; dd if=/dev/zero of=vol bs=1 count=8 conv=notrunc status=none").ok();
    run("--key-file key vol").ok();
    assert!(scratch.read("vol")[..3_000_000] == scratch.read("plain"));
}

#[test]
fn a_volume_is_served_while_it_is_reencrypted() {
    let (scratch, _) = stage();
    let script = "set -e; $ATREST reencrypt --quiet --init-only --key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000 vol
        export XDG_RUNTIME_DIR=$PWD
        $ATREST open vol --key-file key --nbd ./s --reencrypt --run bash -c '
            while $ATREST info --json vol | grep -q online-reencrypt; do sleep 0.05; done; nbdcopy \"$ATREST_URI\" out' 2>said
        cmp -n 3000000 plain out; grep 're-encryption is done' said
        $ATREST open vol --key-file key --nbd ./s --reencrypt --run nbdcopy 'nbd+unix:///?socket=./s' again; cmp out again";
    scratch.bash(script).ok();
    let refused = scratch.bash("$ATREST open vol --key-file key --nbd --reencrypt --key-slot 1 --run true");
    refused.fails(1, "whole LUKS2 volume");
}

/// What a volume key alone opens Debian's cryptsetup judges: it knows the key by its digest, gives it a keyslot, and makes plaintext of
/// the data. (That it can't where the key's digest is not the first one, as it is after every other re-encryption.)
#[test]
fn a_volume_without_keyslots_is_reencrypted_by_its_volume_key() {
    let (scratch, head) = stage();
    let script = "head -c 64 /dev/urandom > old; head -c 64 /dev/urandom > new; head -c 64 /dev/urandom > other; chmod 600 old new other
        keyed() { theirs luksAddKey -q $C -s 512 --volume-key-file new vol key; }
        judged() { rm -f h; theirs reencrypt $O $C vol; theirs reencrypt $O --decrypt --header h vol; cmp -n 3000000 plain vol; }
        theirs luksFormat -q --type luks2 $C --volume-key-file old vol key; $ATREST encrypt --quiet --key-file key plain vol; cp vol was
        N='--volume-key-file old --new-volume-key-file new --new-key-size 512'; O='-q --force-offline-reencrypt -d key'
        no ours reencrypt -q $C $N vol 2> log; grep -q 'keyslots \\[0\\]' log; cmp vol was
        no ours reencrypt -q -d key $C $N --force-no-keyslots vol 2> log; grep -q 'one of the two' log; cmp vol was
        no ours reencrypt -q $C --volume-key-file other --new-volume-key-file new --new-key-size 512 --force-no-keyslots vol 2> log; cmp vol was
        ours reencrypt -q $C $N --force-no-keyslots --init-only vol
        no ours reencrypt -q --resume-only --volume-key-file old --new-volume-key-file other vol 2> log; grep -q 'volume key' log
        ours reencrypt -q --resume-only --volume-key-file old --new-volume-key-file new vol
        no theirs open --test-passphrase -d key vol 2> log
        keyed; judged
        cp was vol; theirs luksErase -q vol; ours reencrypt -q $C $N vol; keyed; judged
        cp was vol; ours reencrypt $O $C --new-volume-key-file new --new-key-size 512 --init-only vol
        theirs reencrypt $O --resume-only vol; theirs luksDump -q --dump-volume-key --volume-key-file found -d key vol > log; cmp found new; judged
        rm h; ours reencrypt -q $C --encrypt --volume-key-file new --force-no-keyslots --init-only --header h vol
        ours reencrypt -q --encrypt --resume-only --volume-key-file new --header h vol; no cmp -s -n 512 plain vol
        theirs luksAddKey -q $C -s 512 --volume-key-file new h key; theirs reencrypt $O --decrypt --header h vol; cmp -n 3000000 plain vol
        cp was vol; rm h; ours reencrypt -q --decrypt --volume-key-file old --header h vol; cmp -n 3000000 plain vol";
    scratch.bash(&format!("{head}{script}")).ok();
}

#[test]
fn a_keyslot_keeps_its_key_derivation_and_the_one_that_is_named_is_the_only_one() {
    let (scratch, head) = stage();
    let script = "dump() { theirs luksDump vol; }; \
        ours reencrypt $O -i 50 vol; dump | grep -q 'PBKDF:.*pbkdf2'; \
        theirs luksAddKey -q -d key -S 7 $C vol plain --new-keyfile-size 20; \
        no ours reencrypt $O $C vol; ours reencrypt $O $C -S 1 vol; \
        test $(dump | grep -c 'luks2$') = 1; theirs open --test-passphrase -d key vol; \
        no theirs open --test-passphrase -d plain -l 20 vol; \
        $ATREST decrypt --quiet --key-file key vol out; cmp -n 3000000 plain out; rm out";
    scratch.bash(&format!("{head}{script}")).ok();
}

/// What the header says counts; nothing is written where the options say something else.
#[test]
fn another_type_or_another_work_than_the_volume_has_is_refused() {
    let (scratch, head) = stage();
    let refused = "refused() { cp vol still; no ours reencrypt $O \"$@\"; cmp vol still; test ! -e h; }; ";
    let script = "cp was vol; refused --type luks1 vol; refused --encrypt --type luks1 --reduce-device-size 4M vol; \
        head -c 9000000 plain > bare; refused --encrypt --type luks1 --reduce-device-size 4M bare; cmp plain bare; \
        for kind in datashift datashift-checksum; do refused --resilience $kind vol; done; \
        for kind in none datashift; do refused --decrypt --header h --resilience $kind vol; done; \
        ours reencrypt $O $C --init-only vol; \
        refused --decrypt vol; refused --decrypt --header h vol; refused --encrypt --reduce-device-size 4M vol; \
        for kind in datashift datashift-journal; do refused --resilience $kind vol; done; \
        ours reencrypt $O --type luks2 --resilience journal vol; \
        cp plain bare; truncate -s 24M bare; ours reencrypt $O $C --encrypt --init-only --reduce-device-size 4M bare; \
        cp bare vol; refused --decrypt vol; for kind in none journal datashift-checksum; do refused --resilience $kind vol; done; \
        ours reencrypt $O --resilience datashift vol; \
        $ATREST decrypt --quiet --key-file key vol out; cmp -n 3000000 plain out; rm out";
    scratch.bash(&format!("{head}{refused}{script}")).ok();
}
