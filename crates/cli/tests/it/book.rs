//! Every command that a page of the documentation shows is run, or names the test that runs it. `scripts/blocks` does that; here it has
//! the program that was just built, and is shown to notice what is wrong with a page.

use std::path::Path;

use crate::common::{Ran, Scratch};

const ATREST: &str = env!("CARGO_BIN_EXE_atrest");

/// The folder with the scripts.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn script(scratch: &Scratch, name: &str, args: &[&str]) -> Ran {
    let path = root().join("scripts").join(name).canonicalize().expect("the script");
    let mut all = vec![path.to_str().expect("plain letters")];
    all.extend(args);
    scratch.tool("python3", &all)
}

/// What `scripts/blocks` says of a page with this text.
fn page(text: &str) -> Ran {
    let scratch = Scratch::new();
    scratch.file("page.md", text);
    script(&scratch, "blocks", &["--program", ATREST, "page.md"])
}

#[test]
fn every_command_of_the_book_runs_or_names_the_test_that_runs_it() {
    let ran = script(&Scratch::new(), "blocks", &["--program", ATREST, "--all"]);
    println!("{}", ran.stdout);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
}

#[test]
fn a_page_whose_commands_work_passes_with_every_question_answered() {
    let page = page(
        "# Page\n\n```sh\natrest format --size 20M disk.img\n```\n\nThen again, over what is there:\n\n\
         \x20   atrest format disk.img\n    atrest key test disk.img   # a remark\n",
    );
    assert_eq!(page.code, 0, "{}", page.stdout);
    assert!(page.stdout.contains("2 blocks ran"), "{}", page.stdout);
}

#[test]
fn a_command_that_fails_fails_its_page_with_the_line_and_what_was_said() {
    let page = page("# Page\n\n```sh\ntrue\n```\n\nText.\n\n```sh\natrest info missing.img\n```\n");
    assert_eq!(page.code, 1);
    assert!(page.stdout.contains("page.md:9: ended with 4"), "{}", page.stdout);
    assert!(page.stdout.contains("missing.img"), "{}", page.stdout);
}

#[test]
fn a_block_that_does_not_run_says_why_and_which_test_runs_it() {
    let this = "a_block_that_does_not_run_says_why_and_which_test_runs_it";
    let marked = page(&format!("<!-- not run: needs a board; book::{this} -->\n\n    flash it\n"));
    assert_eq!(marked.code, 0, "{}", marked.stdout);
    assert!(marked.stdout.contains("not run, 1 blocks: needs a board"), "{}", marked.stdout);

    let nameless = page("<!-- not run: needs a board -->\n```sh\nflash it\n```\n");
    assert!(nameless.stdout.contains("page.md:2: the comment must be"), "{}", nameless.stdout);
    let unknown = page("<!-- not run: needs a board; no_test_of_that_name -->\n```sh\nflash it\n```\n");
    assert!(unknown.stdout.contains("no test or script no_test_of_that_name"), "{}", unknown.stdout);
    let speechless = page("# Page\n\n```\natrest info disk.img\n```\n");
    assert!(
        speechless.stdout.contains("page.md:3: commands in a fence without a language"),
        "{}",
        speechless.stdout
    );
    assert_eq!([nameless.code, unknown.code, speechless.code], [1; 3]);
}

#[test]
fn what_is_in_a_fence_of_another_language_is_no_command_and_what_comes_before_is_done() {
    let page = page(
        "```text\nnot a command\n```\n\n* An item\n\n  that goes on, indented.\n\n\
         <!-- before: mkdir given -->\n```sh\ncd given\n```\n",
    );
    assert_eq!(page.code, 0, "{}", page.stdout);
    assert!(page.stdout.contains("1 blocks ran"), "{}", page.stdout);
}

/// What `scripts/prose` says of a page with this text.
fn prose(text: &str) -> Ran {
    let scratch = Scratch::new();
    scratch.file("page.md", text);
    script(&scratch, "prose", &["page.md"])
}

#[test]
fn a_page_that_is_hard_to_read_is_told_what_is_too_long() {
    let short = "One idea has its own sentence. The next one follows.\n";
    let ran =
        prose(&format!("# Title\n\n* an item with `code in it`\n\n{short}\n    a listing of any length\n"));
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    assert!(ran.stdout.contains("4.7 words in 3 sentences, 0 faults"), "{}", ran.stdout);

    let long_sentence = format!("{} end.", "word ".repeat(30));
    assert!(prose(&long_sentence).stdout.contains("31.0 words in the average sentence, 20 at most"));
    let paragraph = "Ten words are in each sentence of this long paragraph. ".repeat(10).replace(". ", ".\n");
    assert!(prose(&paragraph).stdout.contains("page.md:1: a paragraph of 100 words, 90 at most"));
    let line = format!("{}.\n", "lettersinaword ".repeat(9).trim());
    assert!(prose(&line).stdout.contains("page.md:1: a line of 135 characters, 120 at most"));
    for bad in [long_sentence, paragraph, line] {
        assert_eq!(prose(&bad).code, 1);
    }
}

#[test]
fn the_linter_of_style_names_each_planted_fault_by_its_rule_and_place() {
    let scratch = Scratch::new();
    let lint = |text: &str| {
        scratch.file("page.md", text);
        let path = root().join("scripts/style").canonicalize().expect("the script");
        scratch.tool("bash", &[path.to_str().expect("plain letters"), "page.md"])
    };
    let clean = lint(
        "# Title\n\nOne idea has its own sentence.\n\n    the the listing of a file system\n\n`file system` is code.\n",
    );
    assert_eq!((clean.code, clean.stdout.as_str()), (0, ""), "{}", clean.stderr);

    let long = format!("{}end.\n", "word another ".repeat(20));
    for (planted, place, said) in [
        ("The change was found\nout.", ":1:12:Atrest.Words:", "write “detected” instead of “was found out”"),
        (
            "| head |\n|---|\n| a file system |",
            ":3:5:Atrest.Names:",
            "write “filesystem” instead of “file system”",
        ),
        ("It is very small.", ":1:7:Atrest.Vague:", "“very” says nothing"),
        ("The key is\n\n* in the the file", ":3:6:Atrest.Repeated:", "“the” stands twice"),
        (long.as_str(), ":1:1:Atrest.LongestSentence:", "a sentence of more than 40 words"),
    ] {
        let ran = lint(planted);
        assert_eq!(ran.code, 1, "{planted}: {}", ran.stderr);
        assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
        assert!(ran.stdout.contains(place) && ran.stdout.contains(said), "{planted}: {}", ran.stdout);
    }
    std::fs::remove_file(scratch.path("page.md")).expect("it is there");
    assert_eq!(
        scratch.tool("bash", &[root().join("scripts/style").to_str().expect("plain"), "page.md"]).code,
        2
    );
}

#[test]
fn abbreviations_numbers_and_code_end_no_sentence_and_tables_may_hold_long_links() {
    let ran = prose("A disk, e.g. of 1.5 GB, is read by `dd if=a. of=b`. It works.\n");
    assert!(ran.stdout.contains("in 2 sentences, 0 faults"), "{}", ran.stdout);
    let row = format!("| name | link |\n|---|---|\n| a | [b](https://example.com/{}) |\n", "x".repeat(150));
    assert_eq!(prose(&row).code, 0);
}
