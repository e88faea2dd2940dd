//! `contrib/esp-idf` and `contrib/zephyr`, compiled against mocked headers and run here over flash in memory. Their own build systems have not
//! seen them.

use std::fs;
use std::path::{Path, PathBuf};

use atrest_testkit::Scratch;
use atrest_testkit::oracle::{Program, workspace};

use crate::c_program::{build_with, here};

/// What Kconfig would say.
const ZEPHYR: [&str; 6] = [
    "-DCONFIG_ATREST_ERASE_SIZE=1024",
    "-DCONFIG_ATREST_STORE_ERASE_SIZE=1024",
    "-DCONFIG_ATREST_ITS_BLOCKS=16",
    "-DCONFIG_ATREST_ITS_UNIT=64",
    "-DCONFIG_ATREST_ITS_ENTRIES=8",
    "-DCONFIG_SECURE_STORAGE_ITS_MAX_DATA_SIZE=128",
];

fn contrib(path: &str) -> PathBuf {
    workspace().join("contrib").join(path)
}

fn include(path: &Path) -> String {
    format!("-I{}", path.display())
}

#[test]
fn the_component_for_esp_idf_keeps_storage_on_partitions() {
    let scratch = Scratch::new();
    let flags = [include(&contrib("esp-idf/include")), include(&here("tests/mocks/esp-idf"))];
    let sources = [contrib("esp-idf/src/atrest_esp.c"), here("psa/psa_its.c")];
    let program = build_with(scratch.as_path(), "esp_idf.c", &sources, &flags);
    let ran = Program::at(&program).run();
    assert!(ran.is_ok(), "{}", ran.text());
}

#[test]
fn the_module_for_zephyr_is_its_internal_trusted_storage() {
    let scratch = Scratch::new();
    let mut flags = vec![include(&contrib("zephyr/include")), include(&here("tests/mocks/zephyr"))];
    flags.extend(ZEPHYR.map(str::to_owned));
    let sources = [contrib("zephyr/src/flash.c"), contrib("zephyr/src/its.c")];
    let program = build_with(scratch.as_path(), "zephyr.c", &sources, &flags);
    let flash = scratch.path("flash");
    let start = |what: &str| {
        let ran = Program::at(&program).arg(what).arg(&flash).run();
        assert!(ran.is_ok(), "{what}: {}", ran.text());
    };
    start("first");
    let early = fs::read(&flash).expect("flash");
    start("again");
    let late = fs::read(&flash).expect("flash");
    // An older chip beside the newest store, and an erased one.
    let chip = 8 * 1024;
    for attacked in [&early[..chip], &vec![0xff; chip]] {
        fs::write(&flash, [attacked, &late[chip..]].concat()).expect("flash");
        start("attacked");
    }
}

/// The listings of both pages, as the compilers for chips see them.
#[test]
fn the_listings_of_the_pages_compile() {
    let scratch = Scratch::new();
    for (platform, mocks) in [("esp-idf", "tests/mocks/esp-idf"), ("zephyr", "tests/mocks/zephyr")] {
        let page = fs::read_to_string(contrib(platform).join("README.md")).expect("a page");
        let listings: Vec<&str> =
            page.split("```c\n").skip(1).filter_map(|rest| rest.split("\n```").next()).collect();
        assert_eq!(listings.len(), 1, "{platform}");
        let source = scratch.path("listing.c");
        fs::write(&source, format!("{}\n", listings[0])).expect("a source");
        Program::named("gcc")
            .words("-std=c11 -Wall -Wextra -Wpedantic -Werror -c")
            .args([
                include(&contrib(platform).join("include")),
                include(&here("include")),
                include(&here(mocks)),
            ])
            .arg(&source)
            .arg("-o")
            .arg(scratch.path("listing.o"))
            .ok();
    }
}

/// What is said about where this was run stays true only as long as somebody says it.
#[test]
fn each_platform_says_what_of_it_was_run() {
    for platform in ["esp-idf", "zephyr"] {
        let page = fs::read_to_string(contrib(platform).join("README.md")).expect("a page");
        assert!(page.contains("**Not run on hardware.**") && page.contains("mocked headers"), "{platform}");
        // Options that the page and the sources name are those of Kconfig.
        let options = fs::read_to_string(contrib(platform).join("Kconfig")).expect("options");
        let mut named = Vec::new();
        for source in fs::read_dir(contrib(platform).join("src")).expect("sources") {
            named.push(fs::read_to_string(source.expect("a source").path()).expect("a source"));
        }
        named.push(fs::read_to_string(contrib(platform).join("CMakeLists.txt")).expect("a build"));
        named.push(page);
        for text in &named {
            for option in text.split("CONFIG_ATREST").skip(1) {
                let name =
                    option.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next();
                let line = format!("config ATREST{}\n", name.expect("a name"));
                assert!(options.contains(&line), "{platform} has no {line}");
            }
        }
    }
}
