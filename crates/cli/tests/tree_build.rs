//! `atrest tree build`, from the command line.

mod common;

use common::Scratch;

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
