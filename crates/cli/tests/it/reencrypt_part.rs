//! `--device-size`: the beginning of the data alone is rewritten, as cryptsetup does it.

use crate::common::Scratch;

const CHEAP: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
const PART: usize = 1 << 20;

/// A volume `vol` with the file `plain` in it, and functions for both programs.
fn stage() -> (Scratch, String) {
    let scratch = Scratch::new();
    scratch.file("key", "correct horse");
    let head = format!(
        "set -e; ln -sf $ATREST cryptsetup; JUDGE=$(command -v cryptsetup); \
         ours() {{ ./cryptsetup \"$@\"; }}; theirs() {{ $JUDGE \"$@\"; }}; \
         O='-q --force-offline-reencrypt -d key'; C='{CHEAP}'; S='--device-size 1M'; "
    );
    let script = "head -c 3000320 /dev/urandom > plain; truncate -s 19777536 vol; chmod 600 key; \
                  theirs luksFormat -q --type luks2 --sector-size 512 $C vol key; \
                  $ATREST encrypt --quiet --key-file key plain vol; cp vol was; ";
    scratch.bash(&format!("{head}{script}")).ok();
    (scratch, head)
}

#[test]
fn a_part_is_rewritten_under_either_name_and_nothing_behind_it() {
    let (scratch, head) = stage();
    let behind = 16_777_216 + PART;
    for (begin, resume) in [("ours", "ours"), ("ours", "theirs"), ("theirs", "ours")] {
        let script = format!(
            "cp was vol; {begin} reencrypt $O $C --init-only vol; {resume} reencrypt $O $S --resume-only vol; \
             theirs luksDump vol | grep -q online-reencrypt && exit 9; \
             $ATREST decrypt --quiet --key-file key vol out; cmp -n {PART} plain out; \
             cmp -s -i {PART} plain out && exit 8; cmp -i {behind} was vol; rm out"
        );
        scratch.bash(&format!("{head}{script}")).ok();
    }
}

#[test]
fn plaintext_is_encrypted_and_a_volume_decrypted_in_part() {
    let (scratch, head) = stage();
    for (begin, resume) in [("ours", "ours"), ("ours", "theirs"), ("theirs", "ours")] {
        let script = format!(
            "cp plain data; {begin} reencrypt $O $C --encrypt --init-only --header h data; \
             {resume} reencrypt $O $S --resume-only --header h data; \
             cmp -s -n 512 plain data && exit 9; cmp -i {PART} plain data; cp data cipher; \
             $ATREST decrypt --quiet --key-file key --header h data out; cmp -n {PART} plain out; rm out; \
             {begin} reencrypt $O --decrypt --init-only --header h data; \
             {resume} reencrypt $O $S --resume-only --header h data; \
             cmp -n {PART} plain data; cmp -i {PART} cipher data; rm h"
        );
        scratch.bash(&format!("{head}{script}")).ok();
    }
}

#[test]
fn a_part_that_there_is_not_is_refused_before_anything_is_written() {
    let (scratch, _) = stage();
    let before = scratch.read("vol");
    for (size, said) in [("4M", "can't be of 4194304 alone"), ("1048577", "not a multiple of 512")] {
        let line = format!("$ATREST --yes reencrypt --key-file key {CHEAP} --device-size {size} vol");
        scratch.bash(&line).fails(1, said);
        assert!(scratch.read("vol") == before, "{size}: it was written");
    }
    let line = format!("$ATREST reencrypt --key-file key {CHEAP} --device-size 1M vol < /dev/null");
    scratch.bash(&line).fails(1, "can't be read afterwards");
    assert!(scratch.read("vol") == before, "it was written");
}
