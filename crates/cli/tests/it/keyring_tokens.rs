//! Tokens whose passphrase is a key in the kernel's keyring, judged by Debian's cryptsetup: which it opens, and how it ends where it
//! opens none. Everything happens in a session keyring of its own.

use std::os::unix::fs::symlink;

use atrest_testkit::oracle::tool;

use crate::common::{CHEAP, Scratch};

/// What the keyring has in turn, and what is asked for then. CHEAP is there for new keyslots. Every line ends with a number.
const SCRIPT: &str = r#"
set -u
fresh() {
    rm -f vol && truncate -s 20M vol
    echo -n horse > key && echo -n staple > other && echo -n battery > new
    cryptsetup luksFormat -q $CHEAP vol key && cryptsetup luksAddKey -q $CHEAP -d key vol other
    cryptsetup token add vol --key-description atrest:a --token-id 3 -S0
    cryptsetup token add vol --key-description atrest:b --token-id 1 --unbound
    cryptsetup token add vol --key-description atrest:b --token-id 2 -S0
    echo '{"type":"some","keyslots":["0"]}' | cryptsetup token import vol --token-id 0
}
told() { echo "$* -> $("$PROGRAM" "$@" < /dev/null > out 2> err; echo $?)"; }
opens() { told open --test-passphrase "$@" vol; }
fresh
opens --token-only
keyctl add user atrest:a wrong @s > /dev/null; opens --token-only; opens --token-only --token-id 3
keyctl add user atrest:a horse @s > /dev/null
opens; opens --token-only
for id in 0 1 2 3 4 44; do opens --token-only --token-id $id; done
opens --token-only --token-type luks2-keyring; opens --token-only --token-type some; opens --token-only --token-type none
opens --token-id 2 --key-file other; opens --token-id 9 --key-file other; opens --token-id 9 --key-file new
opens --token-only --key-file other --token-id 2
for id in 0 1 2 3 4; do told luksAddKey -q $CHEAP --token-id $id vol new; done
told luksAddKey -q $CHEAP --token-id 3 --key-file new vol key
for id in 0 1 2 3; do told luksAddKey -q $CHEAP -d key -S1$id --new-token-id $id vol; done
opens --token-only --token-id 3
told luksAddKey -q $CHEAP --token-id 3 --new-token-id 3 vol
keyctl add user atrest:b other @s > /dev/null
told luksAddKey -q $CHEAP --token-type luks2-keyring --new-token-id 1 vol; opens --token-only --token-id 1
echo battery | "$PROGRAM" luksAddKey -q $CHEAP --token-id 3 -S20 vol; echo -n battery | cryptsetup open --test-passphrase -S20 vol; echo $?
told luksDump vol; sed -n '/^Tokens/,/^Digests/p' out
keyctl revoke $(keyctl search @s user atrest:a); opens --token-only --token-id 3
fresh; keyctl unlink $(keyctl search @s user atrest:b) @s 2> /dev/null
cryptsetup luksFormat -q --type luks1 $CHEAP vol key; opens --token-only
"#;

/// Runs a script in a session keyring of its own, with `$PROGRAM`: what it prints.
pub fn in_session(scratch: &Scratch, program: &str, script: &str) -> String {
    scratch.file("script", script.as_bytes());
    let (keyctl, cheap) = (tool("keyctl"), CHEAP.join(" "));
    let line =
        format!("CHEAP={cheap:?} PROGRAM={program:?} {} session - bash script 2> log", keyctl.display());
    scratch.bash(&line).ok().stdout
}

#[test]
fn tokens_of_the_keyring_open_what_they_open_in_debian() {
    let told = |program| {
        let scratch = Scratch::new();
        symlink(env!("CARGO_BIN_EXE_atrest"), scratch.path("cryptsetup")).expect("a link");
        in_session(&scratch, program, SCRIPT)
    };
    let (ours, theirs) = (told("./cryptsetup"), told("cryptsetup"));
    assert!(theirs.contains("--token-only --token-id 3 vol -> 0\n"), "the keyring works: {theirs}");
    assert_eq!(ours, theirs, "ours, and Debian's");
}

#[test]
fn a_token_opens_a_volume_without_a_question() {
    let scratch = Scratch::with_volume();
    let said = in_session(
        &scratch,
        env!("CARGO_BIN_EXE_atrest"),
        r#"
told() { echo "$* -> $("$PROGRAM" "$@" < /dev/null > out 2> err; echo $?)"; cat err; }
cryptsetup token add vol --key-description atrest:c --token-id 2 -S0
told decrypt vol plain
told decrypt vol plain --token-only
told decrypt vol plain --token-id 5
keyctl padd user atrest:c @s < key > /dev/null
told decrypt vol plain
told key test vol
told key test vol --token-id 2 --quiet
told key test vol --token-only --key-slot 0 --quiet
told key test vol --token-only --key-slot 1 --quiet
told key export vol vk --token-type luks2-keyring --yes --quiet
told key add vol --new-token-id 2 --volume-key-file vk --quiet
told key test vol --token-only --key-slot 1 --quiet
told decrypt vol again --token-only --volume-key-file vk
told decrypt vol again --type plain -c aes-xts-plain64 -s 256 --hash sha256 --token-only
keyctl add user atrest:c other @s > /dev/null
told decrypt vol again --token-only
told decrypt vol again --token-id 2 --key-file key
cmp plain again
"#,
    );
    let terminal = "atrest: there is no terminal to ask for the passphrase on";
    let missing = r#"token 2 (luks2-keyring): the kernel's keyring has no key "atrest:c" of type user"#;
    let instead = "  give it by --key-file FILE, --key-file - (standard input) or --passphrase-fd N";
    let only = "  leave --token-only out, and a passphrase is asked for";
    let wrong = "token 2 (luks2-keyring): no keyslot of it opens with its passphrase";
    let alone =
        "atrest: a volume key is the key itself: --token-id, --token-type and --token-only do not go with it";
    let expected = [
        "decrypt vol plain -> 1",
        &format!("{terminal}; {missing}"),
        instead,
        "decrypt vol plain --token-only -> 2",
        &format!("atrest: vol: {missing}"),
        only,
        "decrypt vol plain --token-id 5 -> 1",
        "atrest: vol: there is no token 5",
        "  `atrest token list` shows which there are",
        "decrypt vol plain -> 0",
        "key test vol -> 1",
        terminal,
        instead,
        "key test vol --token-id 2 --quiet -> 0",
        "key test vol --token-only --key-slot 0 --quiet -> 0",
        "key test vol --token-only --key-slot 1 --quiet -> 2",
        &format!("atrest: vol: {wrong}"),
        only,
        "key export vol vk --token-type luks2-keyring --yes --quiet -> 0",
        "key add vol --new-token-id 2 --volume-key-file vk --quiet -> 0",
        "key test vol --token-only --key-slot 1 --quiet -> 0",
        "decrypt vol again --token-only --volume-key-file vk -> 1",
        alone,
        "decrypt vol again --type plain -c aes-xts-plain64 -s 256 --hash sha256 --token-only -> 1",
        "atrest: a plain volume has no header, which could have tokens",
        "decrypt vol again --token-only -> 2",
        &format!("atrest: vol: {wrong}"),
        only,
        "decrypt vol again --token-id 2 --key-file key -> 0",
        &format!("atrest: warning: {wrong}"),
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}
