//! Directories that ext4 encrypts (fscrypt), from the command line: read with and without keys, and locked while they are mounted.

use crate::common::Scratch;
use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;

/// An image with two encrypted directories, and their key.
fn image() -> Scratch {
    let scratch = Scratch::new();
    scratch.bash("mkdir -p tree/a/sub tree/b && echo hello > tree/a/hello && ln -s hello tree/a/link").ok();
    scratch.bash("head -c 3M /dev/urandom > tree/a/sub/big && echo two > tree/b/two").ok();
    scratch.bash("umask 077; head -c 64 /dev/urandom > key; head -c 32 /dev/urandom > other").ok();
    scratch.atrest(&["tree", "build", "tree", "img", "--policy", "v2", "--fscrypt-key", "key"]).ok();
    scratch
}

#[test]
fn files_are_read_with_their_key() {
    let scratch = image();
    let listed = scratch.atrest(&["ls", "img", "/a", "--fscrypt-key", "other", "--fscrypt-key", "key"]).ok();
    assert_eq!(listed.stdout, "hello\nlink\nsub\n");
    assert_eq!(scratch.atrest(&["cat", "img", "/a/link", "--fscrypt-key", "key"]).ok().stdout, "hello\n");
    scratch.atrest(&["cp", "-r", "img:/a", "out", "--fscrypt-key", "key"]).ok();
    scratch.bash("diff -r --no-dereference tree/a out").ok();
    scratch.bash("head -c 3M /dev/zero > zeros").ok();
    scratch.atrest(&["cp", "zeros", "img:/a/sub/big", "--yes", "--fscrypt-key", "key"]).ok();
    scratch.bash("e2fsck -fn img").ok();
    scratch.atrest(&["cp", "img:/a/sub/big", "back", "--fscrypt-key", "key"]).ok();
    scratch.bash("cmp zeros back").ok();
}

#[test]
fn without_the_key_names_say_nothing_and_files_are_refused() {
    let scratch = image();
    for key in [&[][..], &["--fscrypt-key", "other"]] {
        let ran = |words: &[&str]| scratch.atrest(&[words, key].concat());
        assert_eq!(ran(&["ls", "img", "/"]).ok().stdout, "a\nb\nlost+found\n");
        let names = ran(&["ls", "img", "/a"]).ok().stdout;
        assert_eq!(names.lines().count(), 3);
        assert!(!names.contains("hello") && !names.contains("sub"), "{names}");
        ran(&["cat", "img", "/a/hello"]).fails(2, "/a: inode").fails(2, "its key");
        for name in names.lines() {
            let inner = format!("/a/{name}");
            let cat = ran(&["cat", "img", &inner]);
            assert!(cat.stdout.is_empty(), "{name} was read without its key");
        }
    }
    // Nothing is made under names that are not the true ones.
    scratch.atrest(&["cp", "-r", "img:/a", "out"]).fails(2, "its key");
    scratch.bash("! test -e out").ok();
    scratch.bash("head -c 15 key > short").ok();
    scratch.atrest(&["ls", "img", "/a", "--fscrypt-key", "short"]).fails(1, "16 to 64 bytes, not 15");
    // What is meant for a volume is not taken for something else.
    scratch.atrest(&["ls", "img", "/", "--key-file", "key"]).fails(4, "not a LUKS volume");
}

#[test]
fn keys_come_and_go_while_the_files_are_mounted() {
    let scratch = image();
    scratch.bash("mkdir m").ok();
    scratch.atrest(&["mount", "img", "m", "--daemon", "--name", "fscrypt-test", "--fscrypt-key", "key"]).ok();
    let lock = |words: &[&str]| scratch.atrest(&[&["tree"], words].concat());
    scratch.bash("diff -r --no-dereference tree/a m/a").ok();
    let keys = lock(&["keys", "fscrypt-test"]).ok().stdout;
    assert_eq!(keys.lines().count(), 2, "a key has an identifier and a descriptor: {keys}");

    lock(&["lock", "fscrypt-test", keys.lines().next_back().expect("an identifier")]).ok();
    assert_eq!(lock(&["keys", "fscrypt-test"]).ok().stdout, "no keys\n");
    scratch.bash("! cat m/a/hello && ls m/a | wc -l | grep -x 3 && ! ls m/a | grep -x hello").ok();
    lock(&["unlock", "fscrypt-test", "--fscrypt-key", "other"]).ok();
    scratch.bash("! cat m/a/hello").ok();
    lock(&["unlock", "fscrypt-test", "--fscrypt-key", "key"]).ok();
    scratch.bash("diff -r --no-dereference tree/a m/a").ok();

    lock(&["lock", "fscrypt-test", "0011223344556677"]).fails(2, "there is no key 0011223344556677");
    lock(&["unlock", "fscrypt-test", "--fscrypt-key", "tree/a/hello"]).fails(2, "16 to 64 bytes, not 6");
    scratch.bash("diff -r --no-dereference tree/b m/b").ok();
    lock(&["lock", "fscrypt-test"]).ok();
    assert_eq!(lock(&["keys", "fscrypt-test"]).ok().stdout, "no keys\n");
    scratch.atrest(&["close", "fscrypt-test"]).ok();
    lock(&["keys", "fscrypt-test"]).fails(4, "no open volume is called fscrypt-test");
}

#[test]
fn a_file_that_is_open_when_its_key_goes_says_that_the_key_is_missing() {
    let scratch = image();
    scratch.bash("mkdir m").ok();
    let name = scratch.session();
    let mount = ["mount", "img", "m", "--daemon", "--name", &name, "--fscrypt-key", "key"];
    scratch.atrest(&mount).ok();
    let open = |path: &str| fs::File::open(scratch.path(path)).expect("its key is there");
    let (mut top, deep, big) = (open("m/a/hello"), open("m/a/sub/big"), open("m/a/sub"));
    let mut text = String::new();
    top.read_to_string(&mut text).expect("its key is there");
    assert_eq!(text, "hello\n");
    scratch.atrest(&["tree", "lock", &name]).ok();
    let missing = |result: std::io::Result<usize>| {
        let error = result.expect_err("its key is gone");
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOKEY.raw_os_error()), "{error}");
    };
    missing(top.read_at(&mut [0; 100], 0));
    missing(deep.read_at(&mut [0; 100], 2 << 20));
    missing(big.metadata().map(|_| 0));
    // Who looks by name is told that there is no such name, as the kernel does.
    scratch.bash("! cat m/a/hello 2> said && grep -q 'No such file' said").ok();
    scratch.atrest(&["tree", "unlock", &name, "--fscrypt-key", "key"]).ok();
    assert_eq!(top.read_at(&mut [0; 100], 0).expect("its key is there again"), 6);
    let mut read = vec![0; 3 << 20];
    deep.read_exact_at(&mut read, 0).expect("its key is there again");
    assert!(read == fs::read(scratch.path("tree/a/sub/big")).expect("the original"));
    drop((top, deep, big));
    scratch.atrest(&["close", &name]).ok();
}
