//! `atrest tree build`, from the command line.

use crate::common;
use crate::common::Scratch;

const UUID: &str = "6f1e5a3c-0f0b-4b57-9d53-0a4a4b6a8e11";

fn with_tree() -> Scratch {
    let scratch = Scratch::new();
    scratch.bash("mkdir -p tree/d/e; echo text > tree/d/file; ln -s file tree/d/link").ok();
    scratch
}

#[test]
fn an_image_is_built_and_e2fsck_finds_it_clean() {
    let scratch = with_tree();
    let built = scratch
        .atrest(&["tree", "build", "--json", "tree", "img", "--label", "home", "--uuid", UUID])
        .ok()
        .json();
    assert_eq!((&built["files"], &built["directories"], &built["links"]), (&1.into(), &3.into(), &1.into()));
    assert_eq!((&built["encrypted"], &built["bytes"]), (&0.into(), &5.into()));
    scratch.tool("e2fsck", &["-fn", "img"]).ok();
    let dump = scratch.tool("dumpe2fs", &["-h", "img"]).ok().stdout;
    assert!(dump.contains("home") && dump.contains(UUID), "{dump}");
    let text = scratch.tool("debugfs", &["-R", "cat /d/file", "img"]).ok();
    assert_eq!(text.stdout, "text\n");
}

#[test]
fn what_exists_stays_without_yes() {
    let scratch = with_tree();
    scratch.file("img", b"somebody else's");
    scratch.atrest(&["tree", "build", "tree", "img"]).fails(5, "--yes replaces it");
    assert_eq!(scratch.bash("cat img").ok().stdout, "somebody else's");
    scratch.atrest(&["tree", "build", "--yes", "tree", "img"]).ok();
    scratch.tool("e2fsck", &["-fn", "img"]).ok();
    scratch.bash("mkdir dir").ok();
    scratch.atrest(&["tree", "build", "--yes", "tree", "dir"]).fails(5, "no regular file");
}

#[test]
fn wrong_arguments_are_named_and_nothing_is_made() {
    let scratch = with_tree();
    scratch.atrest(&["tree", "build", "nowhere", "img"]).fails(4, "nowhere");
    scratch.atrest(&["tree", "build", "tree", "img", "--uuid", "1234"]).fails(1, "a UUID is written as in");
    scratch.atrest(&["tree", "build", "tree", "img", "--into", "lost+found"]).fails(1, "not lost+found");
    scratch.atrest(&["tree", "build", "tree", "img", "--label", "longer than sixteen"]).fails(1, "16 bytes");
    scratch.bash("head -c 2M /dev/urandom > tree/large").ok();
    scratch.atrest(&["tree", "build", "tree", "img", "--size", "1M"]).fails(4, "does not fit");
    scratch.bash("! ls -A | grep img").ok();
}

/// `tree build tree img` with these words behind it.
fn build(scratch: &Scratch, words: &str) -> common::Ran {
    let mut arguments = vec!["tree", "build", "tree", "img"];
    arguments.extend(words.split_whitespace());
    scratch.atrest(&arguments)
}

#[test]
fn encrypted_trees_are_clean_and_nothing_of_them_is_legible() {
    let scratch = with_tree();
    scratch.file("key", [7; 64]);
    scratch.bash("for i in $(seq 400); do echo legible > tree/d/e/legible-$i; ln -s legible tree/d/e/link-$i; done").ok();
    for words in [
        "--policy v2",
        "--policy v1:Adiantum:direct:pad=4",
        "--policy v2:iv-ino-lblk-64 --into legacy",
        "--encrypt d=v2:AES-256-XTS:AES-256-HCTR2",
    ] {
        let built = build(&scratch, &format!("--json --yes --fscrypt-key key {words}")).ok().json();
        // Two directories, a file and a link; 400 of each; perhaps the directory around them.
        let around = u64::from(words.contains("--into"));
        assert_eq!(built["encrypted"], 804 + around, "{words}");
        scratch.tool("e2fsck", &["-fn", "img"]).ok();
        scratch.bash("! grep -q legible img").ok();
    }
}

#[test]
fn nothing_is_left_in_the_clear_by_mistake() {
    let scratch = with_tree();
    scratch.file("key", [7; 64]);
    scratch.file("other", [8; 64]);
    scratch.file("short", [7; 15]);
    scratch.file("weak", [7; 16]);
    let fails = |words: &str, says: &str| {
        build(&scratch, words).fails(1, says);
        scratch.bash("! ls -A | grep img").ok();
    };
    fails("--fscrypt-key key", "no --policy");
    build(&scratch, "--policy v2").fails(1, "--fscrypt-key");
    fails("--fscrypt-key key --encrypt d", "no policy says how");
    fails("--fscrypt-key short --policy v2", "16 to 64 bytes, not 15");
    fails("--fscrypt-key weak --policy v2", "at least 32 bytes, not 16");
    fails("--fscrypt-key nowhere --policy v2", "nowhere");
    fails(
        "--fscrypt-key key --policy v2:key=00112233445566778899aabbccddeeff",
        "is the key 00112233445566778899aabbccddeeff",
    );
    fails("--fscrypt-key key --fscrypt-key other --policy v2", "several keys");
    fails("--fscrypt-key key --encrypt d=v2:pad=5", "\"pad=5\" is no part of a policy");
    fails("--fscrypt-key key --encrypt d=v2 --encrypt d/e=v1", "no other can begin here");
    fails("--fscrypt-key key --encrypt d=v2 --encrypt d=v2", "no other can begin here");
    fails("--fscrypt-key key --encrypt /=v2", "must be a directory below the root");
    fails("--fscrypt-key key --encrypt d/file=v2", "must be a directory below the root");
    fails("--fscrypt-key key --encrypt nothing=v2", "must be a directory below the root");
    scratch.bash("mkdir tree/f; ln tree/d/file tree/f/again").ok();
    fails("--fscrypt-key key --encrypt d=v2", "one file can't obey both");
    fails("--fscrypt-key key --policy v2 --encrypt d --encrypt f=v2:pad=4", "one file can't obey both");
    build(&scratch, "--fscrypt-key key --policy v2").ok();
    scratch.bash("rm img; echo in the clear > tree/top").ok();
    fails("--fscrypt-key key --policy v2", "would stay in the clear");
    scratch.bash("mkdir tree/g; ln -s $(printf '%04094d' 0) tree/g/long 2> /dev/null || ln -s $(printf '%04093d' 0) tree/g/long").ok();
    build(&scratch, "--fscrypt-key key --encrypt g=v2").fails(1, "can't be stored encrypted");
}

#[test]
fn chacha20_is_written_only_if_nobody_sees_it_twice() {
    let scratch = with_tree();
    scratch.file("key", [7; 64]);
    let words = "--policy v2:ChaCha20 --fscrypt-key key";
    build(&scratch, words).fails(1, "a single snapshot").fails(1, "--single-snapshot");
    let own = "--encrypt d=v2:ChaCha20 --fscrypt-key key";
    build(&scratch, own).fails(1, "a single snapshot");
    for refused in ["v1:ChaCha20", "v2:ChaCha20:direct", "v2:AES-256-XTS:ChaCha20"] {
        build(&scratch, &format!("--policy {refused} --fscrypt-key key --single-snapshot"))
            .fails(1, "encryption");
    }
    scratch.bash("! ls -A | grep img").ok();
    build(&scratch, &format!("{words} --single-snapshot")).ok();
    scratch.tool("e2fsck", &["-fn", "img"]).ok();
    let cat = ["cat", "img", "/d/file", "--fscrypt-key", "key"];
    assert_eq!(scratch.atrest(&cat).ok().stdout, "text\n");
    scratch.bash("cp img before; echo TEXT > new").ok();
    let overwrite = ["cp", "new", "img:/d/file", "--yes", "--fscrypt-key", "key"];
    scratch.atrest(&overwrite).fails(2, "two snapshots").fails(2, "--single-snapshot");
    scratch.bash("cmp img before").ok();
    scratch.atrest(&[&overwrite[..], &["--single-snapshot"]].concat()).ok();
    assert_eq!(scratch.atrest(&cat).ok().stdout, "TEXT\n");
}
