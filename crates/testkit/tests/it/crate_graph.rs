//! ARCHITECTURE.md says which crate imports which; `cargo metadata` says which does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use atrest_testkit::oracle::{Program, workspace};
use serde_json::Value;

const PREFIX: &str = "atrest-";

type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn the_imports_are_those_that_the_architecture_names() {
    let table = std::fs::read_to_string(workspace().join("ARCHITECTURE.md")).expect("read ARCHITECTURE.md");
    let errors = violations(&named(&table), &imports(&metadata()));
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn only_tests_use_testkit() {
    for (room, imports) in imports(&metadata()) {
        assert!(!imports.contains("testkit"), "{room} imports testkit outside its tests");
    }
}

#[test]
fn no_std_rooms_say_so() {
    let table = std::fs::read_to_string(workspace().join("ARCHITECTURE.md")).expect("read ARCHITECTURE.md");
    let mut checked = 0;
    for cells in rows(&table) {
        if cells[1].starts_with("no_std") {
            let room = cells[0].trim_matches('`');
            let source = workspace().join("crates").join(room).join("src/lib.rs");
            let text = std::fs::read_to_string(&source).expect("read lib.rs");
            assert!(text.contains("no_std"), "{room} is no_std by the plan, but its lib.rs does not say so");
            checked += 1;
        }
    }
    assert!(checked >= 4, "the table lists only {checked} no_std rooms");
}

#[test]
fn an_import_too_many_or_too_few_an_unknown_room_and_a_cycle_are_found() {
    let table = "```text imports\na: –\nb:\n    a\nc: b\n```\n";
    let graph = |edges: &[(&str, &[&str])]| -> Graph {
        edges
            .iter()
            .map(|(room, imports)| (room.to_string(), imports.iter().map(|i| i.to_string()).collect()))
            .collect()
    };
    let good = graph(&[("a", &[]), ("b", &["a"]), ("c", &["b"])]);
    assert_eq!(violations(&named(table), &good), Vec::<String>::new());
    let upward = graph(&[("a", &["b"]), ("b", &[]), ("c", &["b"])]);
    assert_eq!(
        violations(&named(table), &upward),
        [
            "a imports b, which ARCHITECTURE.md does not name",
            "b does not import a, which ARCHITECTURE.md names"
        ]
    );
    let unlisted = graph(&[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("d", &[])]);
    assert_eq!(violations(&named(table), &unlisted), ["d is missing from the imports in ARCHITECTURE.md"]);
    let gone = graph(&[("a", &[]), ("b", &["a"])]);
    assert_eq!(
        violations(&named(table), &gone),
        ["c is in the imports of ARCHITECTURE.md but does not exist"]
    );
    let cyclic = "```text imports\na: b\nb: a\n```\n";
    let found = violations(&named(cyclic), &graph(&[("a", &["b"]), ("b", &["a"])]));
    assert_eq!(
        found,
        [
            "the imports of ARCHITECTURE.md have a cycle through a",
            "the imports of ARCHITECTURE.md have a cycle through b"
        ]
    );
}

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    Program::at(cargo)
        .words("metadata --format-version 1 --no-deps --offline")
        .current_dir(workspace())
        .ok()
        .json()
}

/// The imports among our own rooms, without those of tests. What does not lie in `crates/` is no room: `fuzz/` looks into all.
fn imports(metadata: &Value) -> Graph {
    let mut graph = Graph::new();
    let rooms = workspace().join("crates");
    for package in metadata["packages"].as_array().expect("packages") {
        let manifest = package["manifest_path"].as_str().expect("a path");
        if !Path::new(manifest).starts_with(&rooms) {
            continue;
        }
        let name = package["name"].as_str().expect("a name");
        let room = name
            .strip_prefix(PREFIX)
            .unwrap_or_else(|| panic!("the package {name} is not called {PREFIX}ROOM"));
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        let ours = dependencies.iter().filter(|dependency| dependency["kind"].as_str() != Some("dev"));
        let names = ours.filter_map(|dependency| dependency["name"].as_str()?.strip_prefix(PREFIX));
        graph.insert(room.to_string(), names.map(str::to_string).collect());
    }
    graph
}

/// The rows of the table whose first heading is "crate", each with its cells.
fn rows(document: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = document.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    lines.take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 3, "a row of the table has no three cells: {line}");
        cells
    })
}

/// The block of ARCHITECTURE.md that begins with "text imports": a crate and what it imports. Lines that begin with spaces go on.
fn named(document: &str) -> Graph {
    let mut graph = Graph::new();
    let mut current = String::new();
    let block = document.lines().skip_while(|line| *line != "```text imports").skip(1);
    for line in block.take_while(|line| *line != "```") {
        let mut list = line;
        if !line.starts_with(' ') {
            let (name, rest) =
                line.split_once(':').unwrap_or_else(|| panic!("no crate before a colon: {line}"));
            assert!(!graph.contains_key(name), "{name} is in the imports of ARCHITECTURE.md twice");
            (current, list) = (name.to_string(), rest);
        }
        let names = list.split(',').map(str::trim).filter(|name| !matches!(*name, "" | "–" | "-"));
        graph.entry(current.clone()).or_default().extend(names.map(str::to_string));
    }
    assert!(!graph.is_empty(), "ARCHITECTURE.md has no block of imports");
    graph
}

fn violations(named: &Graph, actual: &Graph) -> Vec<String> {
    let mut errors = Vec::new();
    for (room, imports) in actual {
        let Some(named) = named.get(room) else {
            errors.push(format!("{room} is missing from the imports in ARCHITECTURE.md"));
            continue;
        };
        let too_many = imports.difference(named);
        errors.extend(
            too_many.map(|import| format!("{room} imports {import}, which ARCHITECTURE.md does not name")),
        );
        let too_few = named.difference(imports);
        errors.extend(
            too_few.map(|import| format!("{room} does not import {import}, which ARCHITECTURE.md names")),
        );
    }
    for room in named.keys() {
        if !actual.contains_key(room) {
            errors.push(format!("{room} is in the imports of ARCHITECTURE.md but does not exist"));
        }
        if reachable(named, room).contains(room) {
            errors.push(format!("the imports of ARCHITECTURE.md have a cycle through {room}"));
        }
    }
    errors
}

fn reachable(graph: &Graph, from: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from.to_string()];
    while let Some(room) = open.pop() {
        for next in graph.get(&room).into_iter().flatten() {
            if seen.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    seen
}
