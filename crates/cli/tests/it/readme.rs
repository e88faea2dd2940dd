//! The listing of tests/README.md, which shows how a command is tested: what the page shows is what runs here. And what README.md
//! promises of itself: few words, and recipes of few commands. `book.rs` runs them.

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

const README: &str = include_str!("../../../../README.md");

#[test]
fn the_readme_has_at_most_400_words_before_its_first_table() {
    let (before, _) = README.split_once("\n|").expect("a table");
    let words = before.split_whitespace().count();
    assert!(words <= 400, "{words} words");
    let first = before.split("\n\n").nth(1).expect("what it is");
    assert_eq!(first.matches(". ").count() + first.matches(".\n").count(), 1, "two sentences: {first}");
    for thing in ["disks", "folders", "flash", "boot"] {
        assert!(first.contains(thing), "{thing} is missing in: {first}");
    }
}

#[test]
fn the_readme_has_three_recipes_of_at_most_five_commands() {
    let mut recipes = 0;
    for (heading, body) in README.split("\n## ").skip(1).filter_map(|section| section.split_once('\n')) {
        if !["A volume", "A folder", "A card"].contains(&heading) {
            continue;
        }
        let block = body.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a recipe");
        let commands: Vec<&str> = block.lines().flat_map(|line| line.split(" && ")).collect();
        assert!(commands.len() <= 5, "{heading} has {commands:?}");
        assert!(commands.iter().any(|command| command.starts_with("atrest ")), "{heading}");
        assert!(!body.contains("not run"), "{heading} is run");
        recipes += 1;
    }
    assert_eq!(recipes, 3);
}

#[test]
fn the_picture_of_speed_is_that_of_the_benchmarks() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/speed-chart");
    Scratch::new().tool("python3", &[script, "--check"]).ok();
}
