//! Names and texts that others chose: paths that are not UTF-8, headers that would steer a terminal, permissions that
//! would give the plaintext away.

use std::fs;

use crate::common::{CHEAP, Scratch};

#[test]
fn a_path_that_is_not_utf8_works_with_json() {
    let scratch = Scratch::with_volume();
    scratch.file("token", r#"{"type":"test","keyslots":["0"]}"#);
    let cheap = CHEAP.join(" ");
    for line in [
        &format!("format --size 20M --key-file key {cheap} --header $'head\\xff' $'bad\\xff.img'"),
        "info --header $'head\\xff' $'bad\\xff.img'",
        "header backup vol $'backup\\xff'",
        "--yes header restore vol $'backup\\xff'",
        "--yes header restore --header $'head\\xff' $'bad\\xff.img' $'backup\\xff' --replace-other-volume",
        "header set --header $'head\\xff' $'bad\\xff.img' --label x",
        "key list --header $'head\\xff' $'bad\\xff.img'",
        "key test --key-file key --header $'head\\xff' $'bad\\xff.img'",
        "--yes key export --key-file key vol $'vk\\xff'",
        "token import vol token",
        "token export vol 0 $'token\\xff'",
        "erase --yes --header $'head\\xff' $'bad\\xff.img'",
    ] {
        let ran = scratch.bash(&format!("$ATREST --json {line}")).ok();
        let answer = ran.json();
        assert!(answer.is_object() || answer.is_array(), "{line}");
    }
    let ran = scratch.bash("$ATREST --json info $'absent\\xff'").fails(4, "absent");
    serde_json::from_str::<serde_json::Value>(&ran.stderr).expect("one line of JSON");
}

#[test]
fn what_a_header_says_steers_no_terminal_and_forges_no_line() {
    let scratch = Scratch::with_volume();
    let hostile = "\x1b[2J\x07\n      keyslot 7  fake";
    scratch
        .file("token", r#"{"type":"t\u001b]0;title\u0007\n      keyslot 7  fake\u009b2J","keyslots":["0"]}"#);
    let shown = [
        scratch.atrest(&["header", "set", "vol", "--label", hostile, "--subsystem", hostile]).ok(),
        scratch.atrest(&["token", "import", "vol", "token"]).ok(),
        scratch.atrest(&["info", "vol"]).ok(),
        scratch.atrest(&["token", "list", "vol"]).ok(),
        scratch.atrest(&["key", "list", "vol"]).ok(),
        scratch.bash("$ATREST info $'n\\n\\e[31m'").fails(4, "no such file"),
        scratch.bash("$ATREST erase $'./../'${PWD##*/}$'/vol'").fails(1, "--yes"),
    ];
    for ran in shown {
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        assert!(!text.lines().any(|line| line.trim_start().starts_with("keyslot 7")), "{text:?}");
    }
    assert_eq!(scratch.bash("$ATREST info $'n\\nx'").fails(4, "n\\nx").stderr.lines().count(), 1);
    // JSON escapes by itself and keeps the bytes.
    assert_eq!(scratch.atrest(&["info", "--json", "vol"]).ok().json()["label"], hostile);
}

/// A volume `vol` with ext4 in it, which holds `tree` as the shell line `make` leaves it.
fn with_tree(make: &str) -> Scratch {
    let scratch = Scratch::with_volume();
    scratch.bash(&format!("mkdir tree && cd tree && {make}")).ok();
    scratch.bash("mke2fs -q -t ext4 -O ^has_journal -d tree plain 4M").ok();
    scratch.atrest(&["encrypt", "--key-file", "key", "plain", "vol"]).ok();
    scratch
}

#[test]
fn copies_are_private_unless_permissions_are_asked_for() {
    let scratch =
        with_tree("mkdir d && echo a > d/open && cp d/open d/tool && chmod 666 d/open && chmod 777 d/tool d");
    scratch.bash("umask 0; $ATREST cp -r --key-file key vol:/d private").ok();
    for (name, mode) in [("private", 0o700), ("private/open", 0o600), ("private/tool", 0o700)] {
        assert_eq!(scratch.mode(name), mode, "{name}");
    }
    for (umask, mask) in [("0", 0o777), ("027", 0o750), ("077", 0o700)] {
        let to = format!("kept{umask}");
        scratch.bash(&format!("umask {umask}; $ATREST cp -rp --key-file key vol:/d {to}")).ok();
        for (name, mode) in [("", 0o777), ("/open", 0o666), ("/tool", 0o777)] {
            assert_eq!(scratch.mode(format!("{to}{name}")), mode & mask, "{name} with umask {umask}");
        }
    }
}

#[test]
fn a_file_is_replaced_only_by_a_whole_one() {
    let scratch = with_tree("head -c 3000000 /dev/urandom > big && echo new > small");
    scratch.file("out", "precious");
    // Files may grow to 1 MiB.
    let limited = "trap '' XFSZ; ulimit -f 1024; $ATREST cp --yes --key-file key vol:/big out";
    scratch.bash(limited).fails(4, "no space");
    assert_eq!(fs::read(scratch.path("out")).expect("the old file"), b"precious");
    scratch.bash("ln -s elsewhere link; mkdir dir").ok();
    for to in ["out", "link"] {
        scratch.atrest(&["cp", "--yes", "--key-file", "key", "vol:/small", to]).ok();
        assert_eq!(fs::read(scratch.path(to)).expect("the new file"), b"new\n");
    }
    assert!(!scratch.path("elsewhere").exists(), "a link was followed");
    let left = scratch.bash("ls -A | grep '^[.]atrest' || true").ok().stdout;
    assert_eq!(left, "");
}
