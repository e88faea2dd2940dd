//! Passphrases and volume keys that are keys of the kernel's keyring, and volume keys that are put there. Debian's cryptsetup says what the
//! volume key is, and which passphrases open the volume. Everything happens in a session keyring of its own.

use std::os::unix::fs::symlink;

use crate::common::Scratch;
use crate::keyring_tokens::in_session;

/// A volume of Debian's with the passphrase `horse` in `key`, its volume key in `vk`, and a link to this program.
fn prepared() -> Scratch {
    let scratch = Scratch::new();
    symlink(env!("CARGO_BIN_EXE_atrest"), scratch.path("cryptsetup")).expect("a link");
    scratch
}

const WRONG: &str = "atrest: vol: wrong passphrase: no keyslot opens with it";
const CHECK: &str = "  check keyboard layout, Caps Lock and a newline at the end of a key file; `atrest key list` shows the keyslots";
const EXPORTED: &str = "  --volume-key-file takes the file that `atrest key export` wrote";

const BEGIN: &str = r#"
set -u; umask 077
truncate -s 20M vol && echo -n horse > key && echo -n staple > other
cryptsetup luksFormat -q $CHEAP vol key && cryptsetup luksDump -q --dump-volume-key --volume-key-file vk -d key vol > /dev/null
told() { echo "$* -> $("$PROGRAM" "$@" < /dev/null > out 2> err; echo $?)"; cat err; }
opens() { cryptsetup open --test-passphrase -d "$1" ${2:-vol} && echo "Debian opens it with $1"; }
has() { keyctl pipe "$(keyctl search "$1" "$2" "$3")" | cmp - vk && echo "$2 $3 is the volume key"; }
"#;

fn in_names(script: &str) -> Vec<String> {
    told_in(&prepared(), script)
}

fn told_in(scratch: &Scratch, script: &str) -> Vec<String> {
    let told = in_session(scratch, "./cryptsetup", &format!("{BEGIN}{script}"));
    told.lines().map(str::to_owned).collect()
}

#[test]
fn a_volume_key_of_the_keyring_opens_and_adds_as_one_in_a_file_does() {
    let told = in_names(
        r#"
keyctl padd user right @s < vk > /dev/null; keyctl padd user wrong @s < <(head -c 64 /dev/zero) > /dev/null
keyctl padd user short @s < key > /dev/null; keyctl padd logon a:b @s < vk > /dev/null
number=$(keyctl search @s user right)
told open --test-passphrase --volume-key-keyring right vol
told open --test-passphrase --volume-key-keyring %user:right vol
told open --test-passphrase --volume-key-keyring $number vol | sed s/$number/N/
told open --test-passphrase --volume-key-keyring wrong vol
told open --test-passphrase --volume-key-keyring short vol
told open --test-passphrase --volume-key-keyring none vol
told open --test-passphrase --volume-key-keyring %logon:a:b vol
told open --test-passphrase --volume-key-keyring %user vol | head -1
told luksAddKey -q $CHEAP --volume-key-keyring right vol other; opens other
told luksFormat -q $CHEAP --volume-key-keyring right made other
truncate -s 20M made; told luksFormat -q $CHEAP --volume-key-keyring right made other
cryptsetup luksDump -q --dump-volume-key --volume-key-file vk2 -d other made > /dev/null; cmp vk vk2 && echo same
"#,
    );
    let cheap = crate::common::CHEAP.join(" ");
    let expected = [
        "open --test-passphrase --volume-key-keyring right vol -> 0",
        "open --test-passphrase --volume-key-keyring %user:right vol -> 0",
        "open --test-passphrase --volume-key-keyring N vol -> 0",
        "open --test-passphrase --volume-key-keyring wrong vol -> 2",
        "atrest: vol: this volume key does not belong to the volume",
        EXPORTED,
        "open --test-passphrase --volume-key-keyring short vol -> 2",
        "atrest: vol: this volume key does not belong to the volume",
        EXPORTED,
        "open --test-passphrase --volume-key-keyring none vol -> 1",
        "atrest: the kernel's keyring has no key \"none\" of type user",
        "  `keyctl show` lists what this session has",
        "open --test-passphrase --volume-key-keyring %logon:a:b vol -> 1",
        "atrest: the key \"a:b\" of type logon can't be read: Operation not supported",
        "  only the kernel reads keys of type logon: take one of type user",
        "open --test-passphrase --volume-key-keyring %user vol -> 1",
        &format!("luksAddKey -q {cheap} --volume-key-keyring right vol other -> 0"),
        "Debian opens it with other",
        &format!("luksFormat -q {cheap} --volume-key-keyring right made other -> 4"),
        "atrest: made: there is no such file",
        "  --size SIZE creates it, as in --size 1G",
        &format!("luksFormat -q {cheap} --volume-key-keyring right made other -> 0"),
        "same",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_passphrase_of_the_keyring_is_asked_for_by_its_description() {
    let told = in_names(
        r#"
keyctl padd user old @s < key > /dev/null; keyctl padd user new @s < other > /dev/null
told open --test-passphrase --key-description old vol
told open --test-passphrase --key-description new vol
told open --test-passphrase --key-description none vol
told luksDump --dump-volume-key --key-description old -q vol
cryptsetup luksDump --dump-volume-key -d key -q vol | cmp - out && echo "the same words"
told luksAddKey -q $CHEAP --key-description old --new-key-description new vol; opens other
truncate -s 20M made; told luksFormat -q $CHEAP --key-description new made; opens other made
told luksRemoveKey -q --key-description new vol
opens other
"#,
    );
    let cheap = crate::common::CHEAP.join(" ");
    let expected = [
        "open --test-passphrase --key-description old vol -> 0",
        "open --test-passphrase --key-description new vol -> 2",
        WRONG,
        CHECK,
        "open --test-passphrase --key-description none vol -> 1",
        "atrest: the kernel's keyring has no key \"none\" of type user",
        "  `keyctl show` lists what this session has",
        "luksDump --dump-volume-key --key-description old -q vol -> 0",
        "the same words",
        &format!("luksAddKey -q {cheap} --key-description old --new-key-description new vol -> 0"),
        "Debian opens it with other",
        &format!("luksFormat -q {cheap} --key-description new made -> 0"),
        "Debian opens it with other",
        "luksRemoveKey -q --key-description new vol -> 1",
        "atrest: --key-description has no meaning for luksRemoveKey here",
        "  leave it out: it belongs to other actions",
        "Debian opens it with other",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_volume_key_is_put_into_the_keyring_that_is_named() {
    let told = in_names(
        r#"
keyctl newring mine @s > /dev/null; ring=$(keyctl search @s keyring mine); keyctl padd user key @s < key > /dev/null
to() { told open --test-passphrase -d key --link-vk-to-keyring "$@" vol; }
to @s::vk; has @s user vk
keyctl padd user vk @s < key > /dev/null; to @s::%user:vk; has @s user vk
to %:mine::a:b; has $ring user a:b
to mine::c; has $ring user c
to $ring::%logon:d:e | sed s/$ring/RING/; keyctl list $ring | grep -c 'logon: d:e'
to mine::%logon:none
to none::vk
to $(keyctl search @s user key)::vk | sed 's/[0-9]*::/NUMBER::/'
to @t::vk | head -2
told open --test-passphrase -d other --link-vk-to-keyring mine::never vol; keyctl list $ring | grep -c never
keyctl padd user given @s < vk > /dev/null
told open --test-passphrase --volume-key-keyring given --link-vk-to-keyring mine::again vol; has $ring user again
"#,
    );
    let test = "open --test-passphrase -d key --link-vk-to-keyring";
    let expected = [
        &format!("{test} @s::vk vol -> 0"),
        "user vk is the volume key",
        &format!("{test} @s::%user:vk vol -> 0"),
        "user vk is the volume key",
        &format!("{test} %:mine::a:b vol -> 0"),
        "user a:b is the volume key",
        &format!("{test} mine::c vol -> 0"),
        "user c is the volume key",
        &format!("{test} RING::%logon:d:e vol -> 0"),
        "1",
        &format!("{test} mine::%logon:none vol -> 4"),
        "atrest: --link-vk-to-keyring: the keyring does not take the key: Invalid argument",
        "  a key of type logon has a colon in its description, and the keyring must be one that may be written",
        &format!("{test} none::vk vol -> 1"),
        "atrest: --link-vk-to-keyring: there is no such keyring",
        "  `keyctl show` lists what this session has",
        &format!("{test} NUMBER::vk vol -> 1"),
        "atrest: --link-vk-to-keyring: that is a key, and no keyring",
        &format!("{test} @t::vk vol -> 1"),
        "atrest: invalid value '@t::vk' for '--link-vk-to-keyring <KEYRING::KEY>': @t and @p end with this program, and the key with \
         them: @s, @u and @us stay",
        "open --test-passphrase -d other --link-vk-to-keyring mine::never vol -> 2",
        WRONG,
        CHECK,
        "0",
        "open --test-passphrase --volume-key-keyring given --link-vk-to-keyring mine::again vol -> 0",
        "user again is the volume key",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_volume_that_is_served_gives_its_key_to_the_keyring_and_is_resumed_by_it() {
    let scratch = prepared();
    let path = scratch.path("vol");
    let told = told_in(
        &scratch,
        r#"
export XDG_RUNTIME_DIR=$PWD ATREST_FACE=nbd
told open -d key --link-vk-to-keyring @s::vk vol name; has @s user vk
told luksSuspend name; keyctl padd user wrong @s < <(head -c 64 /dev/urandom) > /dev/null
told luksResume --volume-key-keyring wrong name; told luksResume --volume-key-keyring vk name
told luksSuspend name; told luksResume -d key --link-vk-to-keyring @s::resumed name; has @s user resumed
told luksSuspend name; truncate -s 20M twin; cryptsetup luksFormat -q $CHEAP twin key
dd if=twin of=vol bs=1M count=16 conv=notrunc status=none
told luksResume -d key --link-vk-to-keyring @s::other name | head -2; keyctl list @s | grep -c other
told close name; has @s user vk
told open -d key --link-vk-to-keyring @s::taken --face fuse:none vol name | head -1; keyctl list @s | grep -c taken
told open -d key --link-vk-to-keyring @s::vk --type plain vol name | head -2
keyctl padd user a:b @s < key > before; told open -d key --link-vk-to-keyring @s::a:b --face fuse:none vol name | head -1
keyctl search @s user a:b | cmp - before && keyctl pipe $(cat before) | cmp - key && echo "the key of before is there"
keyctl padd logon a:b @s < key > before; told open -d key --link-vk-to-keyring @s::%logon:a:b --face fuse:none vol name | head -1
keyctl search @s logon a:b | cmp - before && echo "and so is the other"
"#,
    );
    let expected = [
        "open -d key --link-vk-to-keyring @s::vk vol name -> 0",
        "user vk is the volume key",
        "luksSuspend name -> 0",
        "luksResume --volume-key-keyring wrong name -> 2",
        &format!("atrest: {}: this volume key does not belong to the volume", path.display()),
        EXPORTED,
        "luksResume --volume-key-keyring vk name -> 0",
        "luksSuspend name -> 0",
        "luksResume -d key --link-vk-to-keyring @s::resumed name -> 0",
        "user resumed is the volume key",
        "luksSuspend name -> 0",
        "luksResume -d key --link-vk-to-keyring @s::other name -> 2",
        "atrest: name: it has another volume key, or another size, than before; it stays suspended",
        "0",
        "close name -> 0",
        "user vk is the volume key",
        "open -d key --link-vk-to-keyring @s::taken --face fuse:none vol name -> 4",
        "0",
        "open -d key --link-vk-to-keyring @s::vk --type plain vol name -> 1",
        "atrest: --link-vk-to-keyring is for LUKS",
        "open -d key --link-vk-to-keyring @s::a:b --face fuse:none vol name -> 4",
        "the key of before is there",
        "open -d key --link-vk-to-keyring @s::%logon:a:b --face fuse:none vol name -> 4",
        "and so is the other",
    ];
    assert_eq!(told, expected);
}
