//! Takes libraries that the workspace has already built, so that only its own packages are built again.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Fills `target`, if there is none yet, with the libraries in `from`, the target directory of the workspace.
pub fn seed(root: &Path, from: &Path, target: &Path) -> Result<(), String> {
    if target.exists() || !from.join("debug").exists() {
        return Ok(());
    }
    let libraries = libraries(root)?;
    // What has a fingerprint is complete; so those come first, in case that cargo is building.
    for part in [".fingerprint", "build", "deps"] {
        let (from, to) = (from.join("debug").join(part), target.join("debug").join(part));
        if from.is_dir() {
            seed_directory(&from, &to, &libraries).map_err(|error| format!("{}: {error}", from.display()))?;
        }
    }
    Ok(())
}

/// Returns the names of all packages that come from a registry.
fn libraries(root: &Path) -> Result<BTreeSet<String>, String> {
    let arguments = ["metadata", "--offline", "--locked", "--format-version", "1"];
    let output = Command::new("cargo").current_dir(root).args(arguments).output();
    let output = output.map_err(|error| format!("cargo: {error}"))?;
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let names = packages.filter(|package| !package["source"].is_null()).flat_map(|package| {
        let targets = package["targets"].as_array().into_iter().flatten().map(|target| &target["name"]);
        targets.chain([&package["name"]]).filter_map(Value::as_str).map(|name| name.replace('-', "_"))
    });
    Ok(names.collect())
}

fn seed_directory(from: &Path, to: &Path, libraries: &BTreeSet<String>) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let Some((stem, _)) = name.rsplit_once('-') else { continue };
        let stem = stem.replace('-', "_");
        if libraries.contains(&stem) || stem.strip_prefix("lib").is_some_and(|stem| libraries.contains(stem))
        {
            take(&entry.path(), &to.join(&*name))?;
        }
    }
    Ok(())
}

/// Copies a file or a directory with its times, by which cargo tells what is fresh.
fn take(from: &Path, to: &Path) -> std::io::Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            take(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::copy(from, to)?;
    let modified = from.metadata()?.modified()?;
    fs::File::options().append(true).open(to)?.set_modified(modified)
}
