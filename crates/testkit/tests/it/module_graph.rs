//! Modules that import each other in a circle can only be read all at once. A crate that is free of circles stays so.
//!
//! The modules of a folder are compared, each together with all that lies below it. A folder's own file and what lies
//! below it may use each other: they are one thing. Unit tests may use whatever they like.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use atrest_testkit::oracle::workspace;

/// Crates without circles, whose `lib.rs` lists the modules bottom up, in groups with empty lines between them.
const CRATES: &[&str] = &["cipher"];

/// A module by its names from the root of the crate on.
type Module = Vec<String>;

#[test]
fn no_modules_import_each_other_in_a_circle() {
    for name in CRATES {
        let circles = circles(&sources(name));
        assert!(circles.is_empty(), "{name}: modules import each other in a circle\n{}", circles.join("\n"));
    }
}

#[test]
fn a_module_imports_none_that_lib_rs_lists_further_down() {
    for name in CRATES {
        let wrong = upward(&sources(name));
        assert!(wrong.is_empty(), "{name}: lib.rs lists modules bottom up, but\n{}", wrong.join("\n"));
    }
}

#[test]
fn a_circle_that_is_planted_is_found() {
    let planted = |module: &[&str], line: &str| {
        let mut sources = sources("cipher");
        let module: Module = module.iter().map(|name| name.to_string()).collect();
        sources.get_mut(&module).expect("a module of that name").push_str(line);
        sources
    };
    let upwards = planted(&["block"], "\nuse crate::mode::ecb::EcbBackend;\n");
    // Whatever lies between the two is in the circle, too.
    assert!(
        matches!(&circles(&upwards)[..], [circle] if circle.starts_with("block, ") && circle.contains("mode"))
    );
    assert_eq!(upward(&upwards), ["block imports mode"]);
    let between_modes = planted(&["mode", "xts"], "\nfn lazy() { super::xex1::lazy(); }\n");
    assert_eq!(circles(&between_modes), ["mode::xex1, mode::xts"]);
    // Downwards, in a comment or in a test it is none.
    for line in [
        "\nuse crate::block::xor;\n",
        "\n// use crate::mapper::Mapper;\n",
        "\nmod tests { use crate::mapper::Mapper; }\n",
    ] {
        assert_eq!(circles(&planted(&["mode", "ecb"], line)), Vec::<String>::new(), "{line}");
    }
}

#[test]
fn an_import_is_seen_in_whatever_form_it_is_written() {
    for import in [
        "use crate::b::f;",
        "use crate::{a, b::{self, g as h}};",
        "use crate::{\n    b,\n};",
        "fn f() { crate::b::f::<u8>() }",
        "macro_rules! m { () => { $crate::b::f() } }",
        "use super::b::*;",
    ] {
        let sources = [("a", import), ("b", "use crate::a::f;")];
        let sources = sources.map(|(name, text)| (vec![name.to_string()], text.to_string()));
        assert_eq!(circles(&BTreeMap::from(sources)), ["a, b"], "{import}");
    }
}

/// The text of each module of a crate, without comments and unit tests. The root has no name.
fn sources(name: &str) -> BTreeMap<Module, String> {
    let mut sources = BTreeMap::new();
    read(&workspace().join("crates").join(name).join("src"), &mut Vec::new(), &mut sources);
    assert!(sources.len() > 1, "{name} has no modules");
    sources
}

fn read(directory: &Path, module: &mut Module, sources: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(directory).expect("a directory of the source") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name in UTF-8").to_string();
        let own_file = matches!(name.as_str(), "mod" | "lib");
        if !own_file {
            module.push(name);
        }
        if path.is_dir() {
            read(&path, module, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.insert(module.clone(), fs::read_to_string(&path).expect("a source file"));
        }
        if !own_file {
            module.pop();
        }
    }
}

/// The modules of each circle, among modules of the same folder.
fn circles(sources: &BTreeMap<Module, String>) -> Vec<String> {
    let mut graph: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
    let imports = imports(sources);
    for (from, to) in &imports {
        let shared = from.iter().zip(to).take_while(|(from, to)| from == to).count();
        if shared < from.len() && shared < to.len() {
            graph.entry(&from[..=shared]).or_default().insert(&to[..=shared]);
        }
    }
    let circles: BTreeSet<Vec<&[String]>> = graph
        .keys()
        .filter(|module| reachable(&graph, module).contains(*module))
        .map(|module| {
            let reached = reachable(&graph, module);
            reached.into_iter().filter(|other| reachable(&graph, other).contains(module)).collect()
        })
        .collect();
    let named = |circle: Vec<&[String]>| circle.iter().map(|module| module.join("::")).collect::<Vec<_>>();
    circles.into_iter().map(|circle| named(circle).join(", ")).collect()
}

fn reachable<'a>(
    graph: &BTreeMap<&'a [String], BTreeSet<&'a [String]>>,
    from: &[String],
) -> BTreeSet<&'a [String]> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&[String]> = graph.get(from).into_iter().flatten().copied().collect();
    while let Some(module) = open.pop() {
        if seen.insert(module) {
            open.extend(graph.get(module).into_iter().flatten());
        }
    }
    seen
}

/// Imports from a group of `lib.rs` into one further down.
fn upward(sources: &BTreeMap<Module, String>) -> Vec<String> {
    let mut group = 0;
    let mut groups = BTreeMap::new();
    for line in sources[&Vec::new()].lines() {
        let declared = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ");
        match declared.and_then(|rest| rest.strip_suffix(';')) {
            Some(name) => _ = groups.insert(name.to_string(), group),
            None => group += usize::from(line.is_empty()),
        }
    }
    let mut wrong = BTreeSet::new();
    for (from, to) in imports(sources) {
        if let ([from, ..], [to, ..]) = (&from[..], &to[..])
            && groups[from] < groups[to]
        {
            wrong.insert(format!("{from} imports {to}"));
        }
    }
    wrong.into_iter().collect()
}

/// Which module names which.
fn imports(sources: &BTreeMap<Module, String>) -> BTreeSet<(Module, Module)> {
    let mut imports = BTreeSet::new();
    for (module, text) in sources {
        for path in paths(&without_comments_and_tests(text)) {
            let mut names = path.iter().peekable();
            let mut to = if path[0] == "crate" { Vec::new() } else { module.clone() };
            while let Some(name) = names.next_if(|name| matches!(name.as_str(), "crate" | "self" | "super")) {
                if name == "super" {
                    to.pop();
                }
            }
            to.extend(names.cloned());
            while !sources.contains_key(&to) && to.pop().is_some() {}
            imports.insert((module.clone(), to));
        }
    }
    imports
}

fn without_comments_and_tests(text: &str) -> String {
    let code = text.split_once("mod tests {").map_or(text, |(code, _)| code);
    code.lines()
        .map(|line| line.split_once("//").map_or(line, |(code, _)| code))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Every path that begins with `crate`, `self` or `super`, each branch of a tree for itself.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for (at, _) in text.match_indices("::") {
        let head = text[..at].rsplit(|c: char| !is_of_a_name(c)).next().expect("at least an empty piece");
        let before = &text[..at - head.len()];
        if matches!(head, "crate" | "self" | "super") && !before.ends_with("::") {
            branches(&text[at + 2..], vec![head.to_string()], &mut paths);
        }
    }
    paths
}

/// The paths of a tree that begins here, below `stem`; gives back what comes after it.
fn branches<'a>(text: &'a str, mut stem: Vec<String>, paths: &mut Vec<Vec<String>>) -> &'a str {
    let mut text = text.trim_start();
    if let Some(mut inner) = text.strip_prefix('{') {
        loop {
            inner = branches(inner, stem.clone(), paths).trim_start();
            // What a branch is called here does not matter.
            let end = inner.find([',', '}']).unwrap_or(inner.len());
            match inner.get(end..end + 1) {
                Some(",") => inner = &inner[end + 1..],
                Some(_) => return &inner[end + 1..],
                None => return "",
            }
        }
    }
    let name = text.split(|c: char| !is_of_a_name(c)).next().expect("at least an empty piece");
    text = &text[name.len()..];
    if !name.is_empty() {
        stem.push(name.to_string());
    }
    match text.strip_prefix("::") {
        Some(rest) if !name.is_empty() => branches(rest, stem, paths),
        _ => {
            paths.push(stem);
            text
        }
    }
}

fn is_of_a_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
