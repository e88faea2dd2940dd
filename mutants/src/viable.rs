//! Finds the mutants that do not compile, by building all of them and leaving out those where the compiler complains.

use std::collections::{BTreeMap, BTreeSet, hash_map::DefaultHasher};
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::build::{self, Built, CompilerError, Span};
use crate::instrument::{Place, instrument};
use crate::mutant::Mutant;
use crate::suite::Program;
use crate::tree::Tree;

/// After so many builds, every mutant around an error is left out, and not the innermost alone.
const PATIENCE: usize = 6;
/// More builds than this mean that the errors are not from mutants.
const BUILDS: usize = 40;

/// Builds the tests of packages in a copy with mutants.
pub struct Builder<'m> {
    /// The copy.
    pub tree: &'m Tree,
    /// The directory for what cargo builds.
    pub target: PathBuf,
    /// Mutants by file, those of each file in the order of the search.
    pub mutants: BTreeMap<&'m str, Vec<&'m Mutant>>,
    /// The text of those files, without mutants.
    pub sources: BTreeMap<String, String>,
    /// Files that differ from the repository for another reason.
    pub manifests: BTreeMap<String, String>,
    /// Where the list of mutants that do not compile is kept.
    pub store: PathBuf,
}

impl Builder<'_> {
    /// Returns the test programs of `packages` and the numbers of the mutants that do not compile.
    pub fn build(&self, packages: &BTreeSet<&str>) -> Result<(Vec<Program>, BTreeSet<u32>), String> {
        let mut unviable = self.known()?;
        let mut texts = self.manifests.clone();
        let mut places = BTreeMap::new();
        for name in self.mutants.keys() {
            texts.insert(name.to_string(), self.write(name, &unviable, &mut places)?);
        }
        self.tree.copy(&texts)?;
        for round in 0..BUILDS {
            eprintln!("build {}: {} mutants do not compile so far", round + 1, unviable.len());
            let errors = match build::build(&self.tree.copy, &self.target, packages)? {
                Built::Programs(programs) => {
                    self.keep(&unviable)?;
                    return Ok((programs, unviable));
                }
                Built::Errors(errors) => errors,
            };
            let blame = |error: &CompilerError| match &error.not_const {
                Some(function) => self.in_constant(function),
                None => blamed(error, &places, round >= PATIENCE),
            };
            let dropped: Vec<(String, u32)> =
                errors.iter().flat_map(blame).filter(|(_, id)| !unviable.contains(id)).collect();
            if dropped.is_empty() {
                let texts: Vec<_> = errors.into_iter().map(|error| error.text).take(3).collect();
                return Err(format!("this does not compile, with or without mutants:\n{}", texts.join("\n")));
            }
            unviable.extend(dropped.iter().map(|(_, id)| id));
            let files: BTreeSet<_> = dropped.into_iter().map(|(file, _)| file).collect();
            for name in files {
                let text = self.write(&name, &unviable, &mut places)?;
                self.tree.write(&name, &text)?;
            }
        }
        Err(format!("there are still errors after {BUILDS} builds"))
    }

    /// Returns the text of a file with all mutants but the unviable ones, and notes where they are.
    fn write(
        &self,
        name: &str,
        unviable: &BTreeSet<u32>,
        places: &mut BTreeMap<String, Vec<Place>>,
    ) -> Result<String, String> {
        let source = self.source(name)?;
        let all = self.mutants.get(name).map(Vec::as_slice).unwrap_or_default();
        let viable: Vec<_> = all.iter().copied().filter(|mutant| !unviable.contains(&mutant.id)).collect();
        let instrumented = instrument(source, &viable);
        places.insert(name.into(), instrumented.places);
        Ok(instrumented.text)
    }

    /// Returns the mutants of the function with this path, which must stay `const`: of all with its name, if need be.
    fn in_constant(&self, path: &str) -> Vec<(String, u32)> {
        let simple = |path: &str| path.split('<').next().unwrap_or_default().to_owned();
        let ends = |path: &str, count: usize| -> Vec<String> {
            let parts = path.split("::").filter(|part| !part.starts_with('<') && !part.ends_with('>'));
            parts.map(simple).collect::<Vec<_>>().into_iter().rev().take(count).collect()
        };
        for count in [2, 1] {
            let wanted = ends(path, count);
            let all = self.mutants.values().flatten().filter(|mutant| mutant.constant.is_some());
            let named = all.filter(|mutant| ends(&mutant.function, count) == wanted);
            let named: Vec<_> = named.map(|mutant| (mutant.file.clone(), mutant.id)).collect();
            if !named.is_empty() {
                return named;
            }
        }
        Vec::new()
    }

    fn source(&self, name: &str) -> Result<&str, String> {
        self.sources.get(name).map(String::as_str).ok_or_else(|| format!("{name} was not read"))
    }

    fn path_of_kept(&self, name: &str) -> PathBuf {
        self.store.join(format!("{}.json", name.replace('/', "-")))
    }

    /// Returns what earlier builds found out about files that are still the same.
    fn known(&self) -> Result<BTreeSet<u32>, String> {
        let mut unviable = BTreeSet::new();
        for (name, mutants) in &self.mutants {
            let Ok(text) = fs::read_to_string(self.path_of_kept(name)) else { continue };
            let kept: Value = serde_json::from_str(&text).unwrap_or_default();
            if kept["source"].as_u64() != Some(hash(self.source(name)?)) {
                continue;
            }
            let names: BTreeSet<_> =
                kept["unviable"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            unviable.extend(
                mutants.iter().filter(|mutant| names.contains(&*mutant.name())).map(|mutant| mutant.id),
            );
        }
        Ok(unviable)
    }

    fn keep(&self, unviable: &BTreeSet<u32>) -> Result<(), String> {
        fs::create_dir_all(&self.store).map_err(|error| format!("{}: {error}", self.store.display()))?;
        for (name, mutants) in &self.mutants {
            let names: Vec<_> = mutants
                .iter()
                .filter(|mutant| unviable.contains(&mutant.id))
                .map(|mutant| mutant.name())
                .collect();
            let kept = json!({ "source": hash(self.source(name)?), "unviable": names });
            write(&self.path_of_kept(name), &kept.to_string())?;
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Returns the mutants, with their files, that must have caused an error.
fn blamed(
    error: &CompilerError,
    places: &BTreeMap<String, Vec<Place>>,
    impatient: bool,
) -> Vec<(String, u32)> {
    let spans: Vec<(&Span, &[Place])> =
        error.spans.iter().filter_map(|span| Some((span, places.get(&span.file)?.as_slice()))).collect();
    // The compiler names text of a mutant, first of all as the place of the error.
    for primary in [true, false] {
        let inside = |place: &Place, span: &Span| {
            let own = |range: &std::ops::Range<usize>| {
                range.start <= span.bytes.start && span.bytes.end <= range.end
            };
            own(&place.open) || own(&place.close)
        };
        let owners = pick(&spans, |span, place| span.primary == primary && inside(place, span));
        if !owners.is_empty() {
            return owners;
        }
    }
    let around = pick(&spans, |span, place| place.surrounds(&span.bytes) || place.owns(&span.bytes));
    if !around.is_empty() {
        let innermost = around.len() - 1;
        return if impatient { around } else { vec![around[innermost].clone()] };
    }
    pick(&spans, |span, place| place.body.start < span.bytes.end && span.bytes.start < place.body.end)
}

fn pick(spans: &[(&Span, &[Place])], wanted: impl Fn(&Span, &Place) -> bool) -> Vec<(String, u32)> {
    let picked = spans.iter().flat_map(|(span, places)| {
        places.iter().filter(|place| wanted(span, place)).map(|place| (span.file.clone(), place.id))
    });
    picked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two mutants of one function, the second inside the first one: `{ ..1.. { ..2.. } ... }`.
    fn places() -> BTreeMap<String, Vec<Place>> {
        let outer = Place { id: 1, open: 10..20, close: 80..90, body: 0..100 };
        let inner = Place { id: 2, open: 30..40, close: 60..70, body: 0..100 };
        BTreeMap::from([("x.rs".into(), vec![outer, inner])])
    }

    fn blame(bytes: &[(usize, usize)], impatient: bool) -> Vec<u32> {
        let spans = bytes.iter().enumerate().map(|(index, (start, end))| Span {
            file: "x.rs".into(),
            bytes: *start..*end,
            primary: index == 0,
        });
        let error = CompilerError { spans: spans.collect(), not_const: None, text: String::new() };
        blamed(&error, &places(), impatient).into_iter().map(|(_, id)| id).collect()
    }

    #[test]
    fn the_mutant_at_an_error_is_blamed() {
        assert_eq!(blame(&[(12, 15)], false), [1]);
        assert_eq!(blame(&[(60, 70)], false), [2]);
        assert_eq!(blame(&[(45, 50)], false), [2], "the original between the parts of the inner one");
        assert_eq!(blame(&[(45, 50)], true), [1, 2]);
        assert_eq!(blame(&[(72, 75)], false), [1], "between the ends of both");
        assert_eq!(blame(&[(0, 5), (62, 65)], false), [2], "a note tells which");
        assert_eq!(blame(&[(0, 5)], false), [1, 2], "somewhere in the function");
        assert_eq!(blame(&[(200, 205)], false), [0; 0], "in another function");
    }
}
