//! What we depend on: no crate in two versions without a reason, and no licence that ours does not go with.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use atrest_testkit::oracle::{Program, workspace};
use serde_json::Value;

/// Crates that are in the tree twice, and whose fault it is. An entry that is no longer true fails the test too.
const TWICE: &[(&str, &str)] = &[
    ("getrandom", "ring, which rustls computes with"),
    (
        "syn",
        "the derive macros of zeroize, bitbybit (embedded-sdmmc) and zerocopy (dtoolkit); at build time only",
    ),
    ("bitflags", "the second release by vmm-sys-util, which the crates for vhost-user use"),
    ("shlex", "the bindgen that littlefs2-sys builds with; at build time only"),
];

/// Licences under which a dependency may be used, one of which must be offered.
const LICENCES: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "0BSD",
];

/// The directories with a lock file, each with a target that its programs are built for.
const WORKSPACES: &[(&str, &str)] = &[
    ("", HOST),
    ("bench", HOST),
    ("firmware", "thumbv7em-none-eabi"),
    ("firmware/aes", "thumbv8m.main-none-eabihf"),
    ("firmware/aes", "riscv32imc-unknown-none-elf"),
    ("firmware/esp32c3", "riscv32imc-unknown-none-elf"),
    ("mutants", HOST),
    ("tests/emulated-cpu", HOST),
];
const HOST: &str = "x86_64-unknown-linux-gnu";

/// The packages that a workspace's programs are made of.
fn packages(directory: &str, target: &str) -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut metadata = Program::at(cargo)
        .words("metadata --format-version 1 --locked --filter-platform")
        .arg(target)
        .current_dir(workspace().join(directory))
        .ok()
        .json();
    let used: BTreeSet<String> = metadata["resolve"]["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .filter_map(|node| node["id"].as_str().map(str::to_string))
        .collect();
    let Value::Array(packages) = metadata["packages"].take() else { panic!("no packages") };
    packages
        .into_iter()
        .filter(|package| package["id"].as_str().is_some_and(|id| used.contains(id)))
        .collect()
}

/// Directories below `directory` that have a lock file, by their paths in the workspace.
fn lock_files(directory: &Path, found: &mut BTreeSet<String>) {
    if directory.join("Cargo.lock").is_file() {
        let path = directory.strip_prefix(workspace()).expect("a directory of the workspace");
        found.insert(path.to_str().expect("a name in UTF-8").to_string());
    }
    for entry in fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        let name = entry.file_name();
        // What is built has lock files of its own, and is not ours.
        let ours = !name.to_string_lossy().starts_with('.') && name != "target";
        if ours && entry.file_type().expect("a type").is_dir() {
            lock_files(&entry.path(), found);
        }
    }
}

#[test]
fn no_crate_is_there_twice() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages("", HOST) {
        let text = |field: &str| package[field].as_str().expect("text").to_string();
        versions.entry(text("name")).or_default().insert(text("version"));
    }
    let twice: BTreeMap<_, _> = versions.into_iter().filter(|(_, versions)| versions.len() > 1).collect();
    for (name, found) in &twice {
        assert!(
            TWICE.iter().any(|(known, _)| known == name),
            "{name} is in the tree as {found:?} without a reason"
        );
    }
    for (name, reason) in TWICE {
        assert!(
            twice.contains_key(*name),
            "{name} is no longer there twice ({reason}): take it off the list"
        );
    }
}

#[test]
fn every_licence_goes_with_ours() {
    let mut locked = BTreeSet::new();
    lock_files(&workspace(), &mut locked);
    let looked_at: BTreeSet<String> = WORKSPACES.iter().map(|(directory, _)| directory.to_string()).collect();
    assert_eq!(locked, looked_at, "the directories with a lock file, and those that are looked at");
    for package in WORKSPACES.iter().flat_map(|(directory, target)| packages(directory, target)) {
        let name = &package["name"];
        let licence = package["license"].as_str().unwrap_or_else(|| panic!("{name} names no licence"));
        // "A OR B" lets us choose; "A AND B" wants both; the old form "A/B" means OR.
        let allowed = |term: &str| LICENCES.contains(&term.trim().trim_matches(['(', ')']));
        let choices = licence.replace('/', " OR ");
        let fits = choices.split(" OR ").any(|choice| choice.split(" AND ").all(allowed))
            // A parenthesised choice inside a conjunction, as in "(MIT OR Apache-2.0) AND Unicode-3.0".
            || choices.split(" AND ").all(|part| part.split(" OR ").any(allowed));
        assert!(fits, "{name} is licensed under {licence}");
    }
}
