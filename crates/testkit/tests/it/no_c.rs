//! FUSE and encrypted directories build without a C compiler: littlefs, which is C, is for whoever reads file systems.

use std::collections::BTreeSet;

use atrest_testkit::oracle::{Program, workspace};
use serde_json::Value;

/// Crates whose build scripts compile C, or make bindings of its headers.
const COMPILERS: &[&str] = &["bindgen", "cc", "cmake"];

/// What is called a native library without being one: there shall be one such crate in a program.
const NO_LIBRARIES: &[&str] = &["rayon-core"];

#[test]
fn directories_that_are_encrypted_build_without_a_c_compiler() {
    assert_eq!(c_in(&["--package", "atrest-tree"]), BTreeSet::new());
}

#[test]
fn fuse_builds_without_a_c_compiler() {
    let fuse = ["--package", "atrest-attach", "--no-default-features", "--features", "fuse"];
    assert!(packages(&fuse).iter().any(|(name, _)| name == "io-uring"), "is this FUSE?");
    assert_eq!(c_in(&fuse), BTreeSet::new());
}

/// The cryptography of TLS is partly C. It is in the program, and in nothing that others build upon.
#[test]
fn tls_is_a_feature_that_only_the_program_has() {
    let has_tls = |package: &str| packages(&["--package", package]).iter().any(|(name, _)| name == "rustls");
    assert!(has_tls("atrest-cli"));
    for without in ["atrest-boot", "atrest-tree", "atrest-capi"] {
        assert!(!has_tls(without), "{without}");
    }
}

#[test]
fn a_c_library_is_found() {
    let found = c_in(&["--package", "atrest-inside"]);
    for name in ["bindgen", "cc", "clang-sys"] {
        assert!(found.contains(name), "{name} is not in {found:?}");
    }
}

/// The packages without which a selection can't be built, that compile C or link what was compiled from it.
fn c_in(selection: &[&str]) -> BTreeSet<String> {
    let libraries = libraries();
    let is_c = |(name, version): &(String, String)| {
        COMPILERS.contains(&name.as_str()) || libraries.contains(&(name.clone(), version.clone()))
    };
    packages(selection).into_iter().filter(is_c).map(|(name, _)| name).collect()
}

/// Names and versions of the packages that a selection and its build scripts are made of.
fn packages(selection: &[&str]) -> BTreeSet<(String, String)> {
    let tree = cargo()
        .words("tree --locked --offline --edges normal,build --prefix none")
        .args(selection)
        .ok()
        .text();
    let packages: BTreeSet<_> = tree
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.to_string(), words.next()?.strip_prefix('v')?.to_string()))
        })
        .collect();
    assert!(packages.len() > 20, "{selection:?} is made of no more than {packages:?}");
    packages
}

/// Names and versions of the packages that link a library.
fn libraries() -> BTreeSet<(String, String)> {
    let metadata = cargo().words("metadata --format-version 1 --locked --offline").ok().json();
    let text = |package: &Value, field: &str| package[field].as_str().expect("text").to_string();
    let packages = metadata["packages"].as_array().expect("packages");
    let linked = packages.iter().filter(|package| package["links"].is_string());
    linked
        .map(|package| (text(package, "name"), text(package, "version")))
        .filter(|(name, _)| !NO_LIBRARIES.contains(&name.as_str()))
        .collect()
}

fn cargo() -> Program {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    Program::at(cargo).current_dir(workspace())
}
