//! The mutants that no test can notice, from a file that tells why.
//!
//! An entry has three lines: the name of the mutant without line and column, the line of the source, and the reason.
//! Where a line has the same operator twice, ` #2` behind the name means the second one.

use std::collections::BTreeSet;

use crate::mutant::Mutant;

const SOURCE: &str = "    | ";
const REASON: &str = "    because ";

/// Returns the numbers of the mutants that the text of the file names.
///
/// It is an error if an entry names no mutant, or more than one.
pub fn equivalent(text: &str, mutants: &[Mutant]) -> Result<BTreeSet<u32>, String> {
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (mut found, mut errors) = (BTreeSet::new(), Vec::new());
    while let Some(name) = lines.next() {
        let source = lines.next().and_then(|line| line.strip_prefix(SOURCE));
        let reason = lines.next().and_then(|line| line.strip_prefix(REASON));
        let (Some(source), Some(_)) = (source, reason) else {
            return Err(format!("{name}\nis not followed by a line with `{SOURCE}` and one with `{REASON}`"));
        };
        match named(name, source, mutants) {
            Ok(id) if found.insert(id) => {}
            Ok(_) => errors.push(format!("{name}\nstands there twice")),
            Err(count) => errors.push(format!("{name}\n{SOURCE}{source}\nnames {count} mutants")),
        }
    }
    if errors.is_empty() { Ok(found) } else { Err(errors.join("\n")) }
}

/// Returns an entry for a mutant, in which the reason is missing.
pub fn entry(mutant: &Mutant, mutants: &[Mutant]) -> String {
    let same = |other: &&Mutant| {
        (&other.file, &other.source, other.description())
            == (&mutant.file, &mutant.source, mutant.description())
    };
    let place = mutants.iter().filter(same).position(|other| other.id == mutant.id);
    let which = match (mutants.iter().filter(same).count(), place) {
        (2.., Some(place)) => format!(" #{}", place + 1),
        _ => String::new(),
    };
    format!("{}: {}{which}\n{SOURCE}{}\n{REASON}…\n", mutant.file, mutant.description(), mutant.source)
}

fn named(name: &str, source: &str, mutants: &[Mutant]) -> Result<u32, usize> {
    let (name, which) = match name.rsplit_once(" #") {
        Some((name, which)) => (name, which.parse::<usize>().ok()),
        None => (name, None),
    };
    let same = |mutant: &&Mutant| {
        mutant.source == source.trim() && format!("{}: {}", mutant.file, mutant.description()) == name
    };
    let matching: Vec<_> = mutants.iter().filter(same).collect();
    match (matching.as_slice(), which) {
        ([one], None) => Ok(one.id),
        (several, Some(which)) if (1..=several.len()).contains(&which) => Ok(several[which - 1].id),
        (several, _) => Err(several.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::{entry as entry_of, equivalent};
    use crate::find;

    #[test]
    fn an_entry_names_one_mutant() {
        let source = "fn f(a: u8) -> bool {\n    let b = a < 3;\n    b && a < 5 && a < 7\n}\n";
        let mut mutants = find::in_source("x.rs", source).expect("it parses");
        (0..).zip(&mut mutants).for_each(|(id, mutant)| mutant.id = id);
        let entry = |which: &str, line: &str| {
            format!(
                "# A list.\nx.rs: replace < with <= in f{which}\n    | {line}\n    because it is a test.\n"
            )
        };
        let found = |which, line| equivalent(&entry(which, line), &mutants).map(|ids| ids.len());
        assert_eq!(found("", "let b = a < 3;"), Ok(1));
        assert_eq!(found(" #2", "b && a < 5 && a < 7"), Ok(1));
        assert!(found("", "b && a < 5 && a < 7").is_err_and(|error| error.contains("names 2 mutants")));
        assert!(found("", "let b = a < 4;").is_err_and(|error| error.contains("names 0 mutants")));
        assert!(found(" #3", "b && a < 5 && a < 7").is_err());
        assert!(equivalent("x.rs: replace < with <= in f\n", &mutants).is_err(), "it has no reason");
        let all: String = mutants.iter().map(|mutant| entry_of(mutant, &mutants)).collect();
        assert_eq!(equivalent(&all, &mutants).map(|ids| ids.len()), Ok(mutants.len()), "{all}");
        let twice = entry("", "let b = a < 3;").repeat(2);
        assert!(equivalent(&twice, &mutants).is_err_and(|error| error.contains("twice")));
    }
}
