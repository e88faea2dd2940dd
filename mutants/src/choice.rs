//! Which mutants there are, and which of them the user wants.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::find::{self, Found};
use crate::mutant::Mutant;
use crate::options::Options;
use crate::rooms::{self, ROOMS, Room};

/// How many numbers the mutants of a package have, so that they stay the same when another package changes.
const NUMBERS: u32 = 20_000;

/// Returns the mutants of all rooms with their numbers.
pub fn all(root: &Path) -> Result<Found, String> {
    let mut found = Found::default();
    let directories: BTreeSet<_> = ROOMS.iter().map(Room::directory).collect();
    for (first, directory) in (1..).step_by(NUMBERS as usize).zip(directories) {
        let before = found.mutants.len();
        find::in_package(root, directory, |file| rooms::room_of(file).is_some(), &mut found)?;
        if found.mutants.len() - before > NUMBERS as usize {
            return Err(format!("{directory} has too many mutants"));
        }
        (first..).zip(&mut found.mutants[before..]).for_each(|(id, mutant)| mutant.id = id);
    }
    Ok(found)
}

/// Returns the mutants that the options ask for, before a sample is drawn.
pub fn chosen<'m>(options: &Options, mutants: &'m [Mutant]) -> Result<Vec<&'m Mutant>, String> {
    let survivors = options.survivors_of.as_deref().map(survivors).transpose()?;
    let asked_for = |mutant: &&Mutant| {
        (options.only.is_empty() || options.only.iter().any(|path| mutant.file.starts_with(path)))
            && options.name.as_ref().is_none_or(|text| mutant.name().contains(text))
            && (mutant.classic || !options.classic)
            && survivors.as_ref().is_none_or(|survivors| survivors.contains(&identity(mutant)))
    };
    let chosen: Vec<_> = mutants.iter().filter(asked_for).collect();
    if chosen.is_empty() { Err("no mutant is chosen".into()) } else { Ok(chosen) }
}

/// What stays the same when lines move.
type Identity = (String, String, String);

fn identity(mutant: &Mutant) -> Identity {
    (mutant.file.clone(), mutant.description(), mutant.source.clone())
}

/// Returns the mutants that no test noticed according to a report.
fn survivors(path: &Path) -> Result<BTreeSet<Identity>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    let report: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let left =
        |mutant: &&Value| matches!(mutant["verdict"].as_str(), Some("survived" | "unreached" | "not run"));
    let mutants = report["mutants"].as_array().into_iter().flatten().filter(left);
    Ok(mutants
        .map(|mutant| (word(&mutant["file"]), word(&mutant["description"]), word(&mutant["source"])))
        .collect())
}
