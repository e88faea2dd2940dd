//! Mounting by mount(8) and fstab, and at login by a unit of the user's systemd.

use crate::common::{Ran, Scratch};

/// Encrypted flash with a note in it, its key, and a directory to mount it in.
fn card() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    std::fs::create_dir(scratch.path("content")).expect("a directory");
    std::fs::create_dir(scratch.path("mnt")).expect("a directory");
    scratch.file("content/note", b"buy milk\n");
    let image = ["image", "content", "card.img", "--type", "flash", "--size", "1M", "--key-file", "key"];
    scratch.atrest(&image).ok();
    scratch
}

/// Runs a script as root in a mount namespace of its own in which /sbin/mount.atrest is this program.
fn with_helper(scratch: &Scratch, script: &str) -> Ran {
    assert!(
        rustix::process::geteuid().is_root(),
        "mount(8) starts no helper but as root: run this test as root"
    );
    let begin = r#"
set -eu
sbin=$(readlink -f /sbin); mkdir -p real new
mount --bind "$sbin" real
for file in real/*; do ln -s "$PWD/$file" new/; done
ln -sf "$ATREST" new/mount.atrest
mount --bind new "$sbin"
"#;
    scratch.file("script", format!("{begin}{script}").as_bytes());
    scratch.bash("unshare --mount --propagation private bash script")
}

#[test]
fn mount_and_fstab_mount_and_umount_ends_the_program() {
    let scratch = card();
    let here = scratch.as_path().display().to_string();
    scratch.file(
        "fstab",
        format!(
            "{here}/card.img {here}/mnt atrest noauto,nofail,x-systemd.automount,ro,key-file={here}/key 0 0\n"
        )
        .as_bytes(),
    );
    let ran = with_helper(
        &scratch,
        r#"
mount -t atrest card.img mnt -o key-file=key
cat mnt/note; echo eggs > mnt/more; findmnt -no FSTYPE mnt
umount mnt
for i in $(seq 100); do "$ATREST" status | grep -q card || break; sleep 0.1; done
mount --fstab fstab "$PWD/mnt"
cat mnt/more; echo no > mnt/note || echo read-only
umount mnt
mount -t atrest card.img mnt -o key-file=key,colour=red || echo "code $?"
mount -t atrest card.img mnt -o key-file=missing || echo "code $?"
mount -f -t atrest card.img mnt -o key-file=missing && echo fake
"#,
    )
    .ok();
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "buy milk");
    assert!(lines[1].starts_with("fuse"), "{lines:?}");
    assert_eq!(lines[2..], ["eggs", "read-only", "code 1", "code 32", "fake"]);
    assert!(ran.stderr.contains("colour=red is no option of mount -t atrest"), "{}", ran.stderr);
    assert!(ran.stderr.contains("missing: there is no such key file"), "{}", ran.stderr);
}

#[test]
fn noexec_holds_whoever_shows_the_files() {
    let scratch = card();
    scratch.file("pass", b"correct horse");
    let ran = with_helper(
        &scratch,
        r#"
mkdir lower shown
folder() { "$ATREST" mount lower shown --daemon --quiet --ecryptfs-passphrase-file pass "$@" > told; }
folder --noexec
findmnt -no OPTIONS shown | tr , '\n' | grep exec
"$ATREST" close lower --quiet
folder
findmnt -no OPTIONS shown | tr , '\n' | grep exec || echo may run
"$ATREST" close lower --quiet
mount -t atrest card.img mnt -o key-file=key,noexec
findmnt -no OPTIONS mnt | tr , '\n' | grep exec
umount mnt
"#,
    )
    .ok();
    assert_eq!(ran.stdout, "noexec\nmay run\nnoexec\n");
}

/// `atrest` as a user with this configuration directory.
fn user(scratch: &Scratch, words: &[&str]) -> Ran {
    let program = scratch.program(env!("CARGO_BIN_EXE_atrest")).args(words);
    program.env("XDG_CONFIG_HOME", scratch.path("config")).without_terminal().run().into()
}

#[test]
fn a_unit_mounts_at_login_what_the_command_would_have_mounted() {
    let scratch = card();
    let words = ["mount", "card.img", "mnt", "--key-file", "key", "--at-login", "--name", "card_1"];
    let told = user(&scratch, &words).ok();
    assert!(told.stdout.contains("systemctl --user enable --now atrest-card_1.service"), "{}", told.stdout);
    assert_eq!(told.stderr, "");
    let path = scratch.path("config/systemd/user/atrest-card_1.service");
    scratch
        .program(atrest_testkit::oracle::tool("systemd-analyze"))
        .args(["verify", "--user", "--man=no", path.to_str().expect("plain letters")])
        .env("HOME", scratch.as_path())
        .ok();
    let unit = std::fs::read_to_string(&path).expect("the unit");
    assert!(unit.contains("\nType=notify\n") && unit.contains("\nWantedBy=default.target\n"), "{unit}");
    // What systemd would start mounts the directory.
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let script = format!(
        "cd / && cd '{}' && ({line} > out 2> err & echo $! > pid); \
         for i in $(seq 200); do [ -e mnt/note ] && break; sleep 0.05; done; cat mnt/note err >&2; cat mnt/note; \"$ATREST\" close card_1",
        scratch.as_path().display()
    );
    let ran = scratch.bash(&script).ok();
    assert!(ran.stdout.starts_with("buy milk\n"), "{}", ran.stdout);
    // Once more it is written anew; another program's unit is left alone.
    user(&scratch, &words).ok();
    let gone = user(&scratch, &[&words[..], &["--remove"]].concat()).ok();
    assert!(gone.stdout.contains("is removed"), "{}", gone.stdout);
    assert!(!path.exists());
    user(&scratch, &[&words[..], &["--remove"]].concat()).fails(4, "there is no such unit");
    std::fs::write(&path, "[Service]\nExecStart=/bin/true\n").expect("another's unit");
    user(&scratch, &words).fails(5, "this unit was not written by atrest");
    user(&scratch, &[&words[..], &["--remove"]].concat()).fails(5, "this unit was not written by atrest");
}

#[test]
fn a_unit_whose_volume_would_ask_is_warned_of() {
    let scratch = card();
    let told = user(&scratch, &["mount", "card.img", "mnt", "--at-login"]).ok();
    assert!(told.stderr.contains("nobody can be asked for a passphrase at login"), "{}", told.stderr);
    assert!(scratch.path("config/systemd/user/atrest-card.service").exists());
    user(&scratch, &["mount", "card.img", ".", "--at-login"]).fails(5, "mounts another volume");
    user(&scratch, &["mount", "card.img", "none", "--at-login"]).fails(1, "no directory to mount it in");
    let bad = ["mount", "card.img", "mnt\nExecStartPre=/bin/false", "--at-login"];
    user(&scratch, &bad).fails(1, "control characters");
    user(&scratch, &["mount", "card.img", "mnt", "--remove"]).fails(1, "--at-login");
}
