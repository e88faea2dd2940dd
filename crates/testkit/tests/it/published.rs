//! The crates as they would be published: what their manifests say, what is in them, and that all have one version.
//!
//! `scripts/check packages` has cargo make every package, and build it from what is in it.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use atrest_testkit::oracle::{Program, workspace};
use serde_json::Value;

/// What is not published.
const PRIVATE: [&str; 2] = ["atrest-fuzz", "atrest-testkit"];
/// The program: its README shows commands, and no Rust.
const PROGRAM: &str = "atrest-cli";
/// What crates.io takes, at most.
const MOST_KEYWORDS: usize = 5;
const LONGEST_KEYWORD: usize = 20;
/// The categories of crates.io that are in use here. A new one is looked up at https://crates.io/category_slugs first.
const CATEGORIES: &[&str] = &[
    "asynchronous",
    "authentication",
    "command-line-utilities",
    "cryptography",
    "data-structures",
    "development-tools::profiling",
    "embedded",
    "encoding",
    "external-ffi-bindings",
    "filesystem",
    "hardware-support",
    "memory-management",
    "network-programming",
    "no-std",
    "no-std::no-alloc",
    "os::linux-apis",
    "parser-implementations",
];

fn cargo(words: &str) -> Program {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    Program::at(cargo).words(words).current_dir(workspace())
}

fn packages() -> Vec<Value> {
    let mut metadata = cargo("metadata --format-version 1 --no-deps --offline").ok().json();
    let Value::Array(packages) = metadata["packages"].take() else { panic!("no packages") };
    packages
}

fn published() -> Vec<Value> {
    let all = packages();
    let private: BTreeSet<&str> = all
        .iter()
        .filter(|package| !package["publish"].is_null())
        .map(|package| text(package, "name"))
        .collect();
    assert_eq!(private, PRIVATE.into(), "these alone have `publish = false`");
    all.into_iter().filter(|package| package["publish"].is_null()).collect()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("{field} is missing: {value}"))
}

fn list<'a>(value: &'a Value, field: &str) -> Vec<&'a str> {
    let items = value[field].as_array().unwrap_or_else(|| panic!("{field} is missing"));
    items.iter().map(|item| item.as_str().expect("a text")).collect()
}

fn folder(package: &Value) -> PathBuf {
    Path::new(text(package, "manifest_path")).parent().expect("its folder").to_owned()
}

fn version() -> String {
    let packages = packages();
    let program = packages.iter().find(|package| text(package, "name") == PROGRAM).expect("the program");
    text(program, "version").to_owned()
}

#[test]
fn every_manifest_says_what_a_registry_shows() {
    for package in published() {
        let name = text(&package, "name");
        assert!(text(&package, "description").len() > 20, "{name} has no description");
        assert_eq!(text(&package, "license"), "MIT OR Apache-2.0", "{name}");
        assert!(text(&package, "repository").starts_with("https://"), "{name}");
        let keywords = list(&package, "keywords");
        assert!((1..=MOST_KEYWORDS).contains(&keywords.len()), "{name} has the keywords {keywords:?}");
        for keyword in keywords {
            let plain = keyword.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            assert!(
                plain && keyword.len() <= LONGEST_KEYWORD,
                "{name}: crates.io takes no keyword {keyword:?}"
            );
        }
        let categories = list(&package, "categories");
        assert!((1..=MOST_KEYWORDS).contains(&categories.len()), "{name} has the categories {categories:?}");
        for category in categories {
            assert!(CATEGORIES.contains(&category), "{name}: is {category:?} a category of crates.io?");
        }
    }
}

#[test]
fn all_crates_have_one_version_and_need_each_other_in_that_version() {
    let version = version();
    for package in published() {
        let name = text(&package, "name");
        assert_eq!(text(&package, "version"), version, "{name}");
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            if dependency["path"].is_null() {
                continue;
            }
            let (needs, wanted) = (text(dependency, "name"), text(dependency, "req"));
            // cargo leaves a dev-dependency without a version out of what it publishes.
            let left_out = dependency["kind"].as_str() == Some("dev") && wanted == "*";
            assert!(left_out || wanted == format!("^{version}"), "{name} needs {needs} in version {wanted}");
            assert!(left_out || !PRIVATE.contains(&needs), "{name} needs {needs}, which is not published");
        }
    }
    let read = |path: &str| std::fs::read_to_string(workspace().join(path)).expect(path);
    assert!(read("contrib/esp-idf/idf_component.yml").contains(&format!("version: \"{version}\"")));
    let first = read("CHANGELOG.md").lines().find(|line| line.starts_with("## [")).map(str::to_owned);
    assert!(
        first.expect("an entry").starts_with(&format!("## [{version}]")),
        "CHANGELOG.md begins with another version"
    );
}

#[test]
fn every_crate_has_a_readme_whose_example_is_a_doc_test() {
    for package in published() {
        let name = text(&package, "name");
        let readme = std::fs::read_to_string(folder(&package).join("README.md")).expect("a README.md");
        assert!(readme.starts_with(&format!("# {name}\n")), "{name}: the README begins with another title");
        assert!(
            readme.lines().all(|line| line.chars().count() <= 120),
            "{name}: a line of the README is too long"
        );
        assert!(
            !readme.lines().any(|line| line.starts_with("# Ok")),
            "{name}: what rustdoc hides is shown elsewhere"
        );
        if name == PROGRAM {
            continue;
        }
        assert!(readme.contains("```rust"), "{name}: the README has no example");
        let library = std::fs::read_to_string(folder(&package).join("src/lib.rs")).expect("src/lib.rs");
        let tested = "#[cfg(doctest)]\n#[doc = include_str!(\"../README.md\")]\nstruct Readme;";
        assert!(library.contains(tested), "{name}: nothing tests the README; src/lib.rs wants\n{tested}");
    }
}

#[test]
fn a_package_has_its_source_and_licences_and_neither_tests_nor_corpora() {
    let mut words = "package --list --allow-dirty --offline --workspace".to_owned();
    for name in PRIVATE {
        words += &format!(" --exclude {name}");
    }
    let told = cargo(&words).ok().text();
    let files: Vec<&str> = told.lines().collect();
    let crates = published().len();
    for name in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "Cargo.toml", "src/lib.rs"] {
        assert_eq!(files.iter().filter(|file| **file == name).count(), crates, "packages with {name}");
    }
    for file in files {
        let top = file.split('/').next().expect("a first part");
        let made = ["Cargo.toml", "Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json"];
        let known =
            ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "build.rs", "src", "include", "man", "psa"];
        assert!(made.contains(&top) || known.contains(&top), "{file} is in a package");
    }
}

#[test]
fn no_crate_includes_a_file_that_its_package_has_not() {
    let mut looked_at = 0;
    for package in published() {
        let folder = folder(&package);
        let packed = packed_folders(&folder);
        for source in sources(&folder.join("src")) {
            let code = std::fs::read_to_string(&source).expect("a source");
            let mut before = "";
            for line in code.lines() {
                if let Some(path) = included(line) {
                    looked_at += 1;
                    let file = normal(&source.parent().expect("its folder").join(path));
                    let inside = packed.iter().any(|name| file.starts_with(folder.join(name)));
                    let tested_only = before.trim() == "#[cfg(doctest)]";
                    assert!(inside || tested_only, "{} includes {path}", source.display());
                }
                before = line;
            }
        }
    }
    assert!(looked_at >= published().len(), "only {looked_at} files are included");
}

/// The path that a line includes, or how it begins.
fn included(line: &str) -> Option<&str> {
    let rest = line.split_once("include_str!(").or_else(|| line.split_once("include_bytes!("))?.1;
    let path = rest.strip_prefix("concat!(").unwrap_or(rest).strip_prefix('"')?;
    Some(path.split_once('"')?.0)
}

/// The folders of a crate that its package has: those that its manifest or the workspace's lists as `"/NAME/**"`.
fn packed_folders(folder: &Path) -> Vec<String> {
    let read = |path: &Path| std::fs::read_to_string(path.join("Cargo.toml")).expect("a manifest");
    let (own, ours) = (read(folder), read(&workspace()));
    let list = |manifest: &str| Some(manifest.split_once("\ninclude = [")?.1.split_once(']')?.0.to_owned());
    let list = list(&own).or_else(|| list(&ours)).expect("a list of what is packed");
    let names = list.split('"').filter_map(|entry| entry.strip_prefix('/')?.strip_suffix("/**"));
    names.map(str::to_owned).collect()
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            part => normal.push(part),
        }
    }
    normal
}

/// All sources below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(sources(&path)),
            false if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            false => {}
        }
    }
    found
}
