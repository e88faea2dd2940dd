//! The listing of tests/README.md, which shows how a command is tested. What the page shows is what runs here.

use crate::common::Scratch;

#[test]
fn info_names_the_cipher_and_refuses_what_is_no_volume() {
    let scratch = Scratch::with_volume();
    let told = scratch.atrest(&["info", "--json", "vol"]).ok().json();
    assert_eq!(told["segments"][0]["cipher"], "aes-xts-plain64");
    scratch.tool("cryptsetup", &["isLuks", "vol"]).ok();
    scratch.file("zeros", [0; 4096]);
    scratch.atrest(&["info", "zeros"]).fails(4, "not a LUKS volume");
    assert_eq!(scratch.read("zeros"), [0; 4096]);
}

#[test]
fn the_listing_of_the_readme_is_a_test_that_runs() {
    let readme = include_str!("../../../../tests/README.md");
    let (_, after) = readme.split_once("```rust\n").expect("a listing");
    let (listing, _) = after.split_once("```").expect("the end of the listing");
    assert!(listing.lines().count() <= 12, "ten lines, and the two that make a function of them");
    assert!(include_str!("readme.rs").contains(listing), "not in readme.rs:\n{listing}");
}
