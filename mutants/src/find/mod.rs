//! Finds the mutants of a package: its modules are followed from the root, and each file is searched.

mod changes;
mod conditions;
mod search;
mod skip;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Item, ItemMod};

use crate::mutant::Mutant;

/// Mutants, and the text of the files in which they are.
#[derive(Default)]
pub struct Found {
    /// The mutants: those of each file together, outer ones before inner ones.
    pub mutants: Vec<Mutant>,
    /// The text of each file.
    pub sources: BTreeMap<String, String>,
}

/// Returns the mutants of the file `name`, whose text is `source`.
#[cfg(test)]
pub fn in_source(name: &str, source: &str) -> syn::Result<Vec<Mutant>> {
    Ok(search::search(name, source, &syn::parse_file(source)?))
}

/// Adds the mutants of the package in `directory`, which is below `root`: of the files that `wanted` accepts.
pub fn in_package(
    root: &Path,
    directory: &str,
    wanted: impl Fn(&str) -> bool,
    found: &mut Found,
) -> Result<(), String> {
    let begin = found.mutants.len();
    let top = PathBuf::from(directory).join("src/lib.rs");
    // Files, and where the modules are that they declare.
    let mut waiting = vec![(top.clone(), PathBuf::from(directory).join("src"))];
    while let Some((path, below)) = waiting.pop() {
        let name = path.to_str().ok_or("a path is not UTF-8")?;
        let source = fs::read_to_string(root.join(&path)).map_err(|error| format!("{name}: {error}"))?;
        let file = syn::parse_file(&source).map_err(|error| format!("{name}: {error}"))?;
        if skip::attributes(&file.attrs) {
            continue;
        }
        if wanted(name) {
            found.mutants.extend(search::search(name, &source, &file));
            found.sources.insert(name.into(), source);
        }
        modules(root, &file.items, &below, &mut waiting)?;
    }
    found.mutants[begin..].sort_by(|one, other| one.file.cmp(&other.file));
    Ok(())
}

/// Adds the files of the modules that `items` declare. `below` is the directory in which those files are.
fn modules(
    root: &Path,
    items: &[Item],
    below: &Path,
    waiting: &mut Vec<(PathBuf, PathBuf)>,
) -> Result<(), String> {
    for item in items {
        let Item::Mod(module) = item else { continue };
        if skip::attributes(&module.attrs) {
            continue;
        }
        let name = module.ident.to_string();
        let inside = below.join(&name);
        match &module.content {
            Some((_, items)) => modules(root, items, &inside, waiting)?,
            None => waiting.push((file_of(root, module, below, &name)?, inside)),
        }
    }
    Ok(())
}

fn file_of(root: &Path, module: &ItemMod, below: &Path, name: &str) -> Result<PathBuf, String> {
    if module.attrs.iter().any(|attribute| attribute.path().is_ident("path")) {
        return Err(format!("{}: module {name} has a path attribute", below.display()));
    }
    let candidates = [below.join(format!("{name}.rs")), below.join(name).join("mod.rs")];
    let missing = || format!("{}: module {name} has no file", below.display());
    candidates.into_iter().find(|path| root.join(path).is_file()).ok_or_else(missing)
}
