//! docs/FIRMWARE.md needs no other file: its listings, written as a crate outside this tree, build against packaged crates, run in the
//! emulator by the commands that stand there, and print what stands there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use atrest_testkit::Scratch;
use atrest_testkit::firmware::is_blessed;
use atrest_testkit::oracle::{Outcome, Program, tool, workspace};
use serde_json::Value;

/// Cold, all of it takes half a minute of a processor.
const LIMIT: Duration = Duration::from_secs(400);

#[test]
fn the_programs_of_the_guide_print_what_it_says() {
    tool("qemu-system-arm");
    tool("arm-none-eabi-gcc");
    let page = fs::read_to_string(workspace().join("docs/FIRMWARE.md")).expect("the guide");
    let lock = workspace().join("firmware/guide.lock");
    let target = workspace().join("target/guide");
    forget_earlier(&target);

    let outside = Scratch::new();
    let listings = listings(&page);
    for (name, text) in &listings {
        let path = outside.path(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a listing");
    }
    let manifest = &listings.iter().find(|(name, _)| name == "Cargo.toml").expect("a manifest").1;
    let crates = packaged(manifest, &target, outside.as_path());
    let patched = crates.iter().map(|name| format!("{name} = {{ path = \"crates/{name}\" }}\n"));
    let manifest = format!("{manifest}\n[patch.crates-io]\n{}", patched.collect::<String>());
    fs::write(outside.path("Cargo.toml"), manifest).expect("a manifest");
    if lock.exists() {
        fs::copy(&lock, outside.path("Cargo.lock")).expect("the lock file");
    }
    if is_blessed() {
        cargo(outside.as_path(), &target, "metadata --format-version 1").expect_code(0);
        fs::copy(outside.path("Cargo.lock"), &lock).expect("the lock file can be written");
    }

    let built = cargo(outside.as_path(), &target, "build --quiet --locked --release --bins");
    assert!(built.is_ok() && built.messages().is_empty(), "{}", built.messages());
    let sessions = sessions(&page);
    for (command, expected) in &sessions {
        let command = command.strip_prefix("cargo ").expect("a command of cargo");
        let ran = cargo(outside.as_path(), &target, &format!("{command} --quiet --locked"));
        assert_eq!(
            (ran.code, ran.text().as_str()),
            (Some(0), expected.as_str()),
            "{command}:\n{}",
            ran.messages()
        );
    }
    let programs = listings.iter().filter(|(name, _)| name.starts_with("src/bin/")).count();
    assert!(
        programs >= 3 && sessions.len() == programs,
        "{programs} programs, {} of them run",
        sessions.len()
    );
}

/// What earlier runs, which lay elsewhere, have left of their own. What they share stays built.
fn forget_earlier(target: &Path) {
    let built = target.join("thumbv7em-none-eabi/release");
    for directory in ["deps", ".fingerprint", "build", "incremental"] {
        for entry in fs::read_dir(built.join(directory)).into_iter().flatten() {
            let entry = entry.expect("an entry");
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.contains("atrest") || name.contains("recorder") {
                let path = entry.path();
                let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
                removed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
        }
    }
}

/// Packages the crates that a manifest names and those that they are made of, and unpacks them into `crates`. Gives their names.
fn packaged(manifest: &str, target: &Path, outside: &Path) -> BTreeSet<String> {
    let metadata =
        cargo(&workspace(), target, "metadata --no-deps --locked --format-version 1").expect_code(0).json();
    let mut names: BTreeSet<String> = manifest
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .filter(|(name, _)| name.starts_with("atrest-"))
        .map(|(name, _)| name.to_owned())
        .collect();
    loop {
        let more: BTreeSet<String> = names.iter().flat_map(|name| made_of(&metadata, name)).collect();
        let before = names.len();
        names.extend(more);
        if names.len() == before {
            break;
        }
    }
    let selection: String = names.iter().map(|name| format!(" --package {name}")).collect();
    let package = format!("package --quiet --locked --no-verify --allow-dirty{selection}");
    cargo(&workspace(), target, &package).expect_code(0);
    for name in &names {
        let version = package_named(&metadata, name)["version"].as_str().expect("a version").to_owned();
        let archive: PathBuf = target.join(format!("package/{name}-{version}.crate"));
        let place = outside.join("crates").join(name);
        fs::create_dir_all(&place).expect("a directory");
        Program::named("tar").words("--strip-components 1 -xzf").arg(archive).arg("-C").arg(place).ok();
    }
    names
}

/// The crates of this workspace that a crate is made of, tests aside.
fn made_of(metadata: &Value, name: &str) -> Vec<String> {
    let dependencies = package_named(metadata, name)["dependencies"].as_array().expect("dependencies");
    let ours = dependencies.iter().filter(|other| other["kind"].is_null() && !other["path"].is_null());
    ours.map(|other| other["name"].as_str().expect("a name").to_owned()).collect()
}

fn package_named<'a>(metadata: &'a Value, name: &str) -> &'a Value {
    let packages = metadata["packages"].as_array().expect("packages");
    packages.iter().find(|package| package["name"] == name).unwrap_or_else(|| panic!("no crate {name}"))
}

fn cargo(directory: &Path, target: &Path, words: &str) -> Outcome {
    Program::at(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .words(words)
        .env("CARGO_TARGET_DIR", target)
        // Only what the guide says counts.
        .env("CARGO_INCREMENTAL", "0")
        .current_dir(directory)
        .limit(LIMIT)
        .run()
}

/// Fenced blocks of the page, each without its fences.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = page.split("\n```").collect();
    assert!(parts.len() % 2 == 1, "a listing without an end");
    parts.iter().skip(1).step_by(2).map(|block| block.split_once('\n').expect("a language")).collect()
}

/// Those that are files: the first line is a comment with a path.
fn listings(page: &str) -> Vec<(String, String)> {
    let named = |(language, text): (&str, &str)| {
        let first = text.lines().next()?;
        let path = match language {
            "rust" => first.strip_prefix("// ")?,
            "toml" => first.strip_prefix("# ")?,
            "c" | "ld" => first.strip_prefix("/* ")?.strip_suffix(" */")?,
            _ => return None,
        };
        Some((path.to_owned(), format!("{text}\n")))
    };
    blocks(page).into_iter().filter_map(named).collect()
}

/// Those that show a command and what it prints.
fn sessions(page: &str) -> Vec<(String, String)> {
    let session = |(language, text): (&str, &str)| {
        let (command, printed) = text.strip_prefix("$ ")?.split_once('\n')?;
        (language == "text").then(|| (command.to_owned(), format!("{printed}\n")))
    };
    blocks(page).into_iter().filter_map(session).collect()
}

#[test]
fn files_and_commands_of_a_page_are_told_apart() {
    let page = "Text.\n\n```rust\n// src/a.rs\nfn a() {}\n```\n\n```text\n$ cargo run\nsays\n```\n\n```c\nint main;\n```\nEnd.\n";
    assert_eq!(listings(page), [("src/a.rs".to_owned(), "// src/a.rs\nfn a() {}\n".to_owned())]);
    assert_eq!(sessions(page), [("cargo run".to_owned(), "says\n".to_owned())]);
}
