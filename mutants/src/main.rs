//! Changes atrest in thousands of small ways and names the changes that no test notices.
//!
//! All mutants are built into one program, and a switch picks one at run time: `README.md` tells how.

mod build;
mod cover;
mod crew;
mod equivalent;
mod find;
mod instrument;
mod judge;
mod manifest;
mod mutant;
mod numbers;
mod options;
mod process;
mod report;
mod rooms;
mod sample;
mod seed;
mod suite;
mod tree;
mod viable;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cover::Rig;
use find::Found;
use judge::{Limits, Verdict};
use mutant::Mutant;
use options::Options;
use report::Report;
use rooms::{ROOMS, Room};
use serde_json::Value;
use tree::Tree;
use viable::Builder;

fn main() -> ExitCode {
    if std::env::args().any(|word| word == "--help") {
        println!("{}", options::USAGE);
        return ExitCode::SUCCESS;
    }
    let result = Options::read(std::env::args().skip(1)).and_then(|options| run(&options));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let begin = Instant::now();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("the repository has no root")?;
    let Found { mutants, sources } = all_mutants(root)?;
    let listed =
        fs::read_to_string(root.join("mutants/equivalent.txt")).map_err(|error| error.to_string())?;
    let equivalent =
        equivalent::equivalent(&listed, &mutants).map_err(|error| format!("equivalent.txt: {error}"))?;
    let mut chosen = chosen(options, &mutants)?;
    if chosen.is_empty() {
        return Err("no mutant is chosen".into());
    }
    if options.list {
        chosen.iter().for_each(|mutant| println!("{} [{}]", mutant.name(), mutant.class.name()));
        return Ok(());
    }

    let rooms: Vec<&Room> =
        ROOMS.iter().filter(|room| chosen.iter().any(|mutant| room.has(&mutant.file))).collect();
    let work = root.join("target/mutants");
    let tree = Tree { root: root.into(), copy: work.join("tree") };
    let target = work.join("target");
    fs::create_dir_all(&tree.copy).map_err(|error| format!("{}: {error}", tree.copy.display()))?;
    let alone = fs::File::create(work.join("lock")).map_err(|error| error.to_string())?;
    alone.try_lock().map_err(|_| "another run has not ended yet")?;
    seed::seed(root, &root.join("target"), &target)?;
    let mut by_file: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants.iter().filter(|mutant| rooms.iter().any(|room| room.has(&mutant.file))) {
        by_file.entry(&mutant.file).or_default().push(mutant);
    }
    let packages: BTreeSet<&str> = match options.tests.is_empty() {
        true => rooms.iter().flat_map(|room| room.tests.iter().copied()).collect(),
        false => options.tests.iter().map(String::as_str).collect(),
    };
    let manifests = manifests(&tree, &rooms)?;
    let builder = Builder {
        tree: &tree,
        target: target.clone(),
        mutants: by_file,
        sources,
        manifests,
        store: work.join("unviable"),
    };
    let (programs, unviable) = builder.build(&packages)?;
    eprintln!("built after {} s", begin.elapsed().as_secs());
    if options.build {
        return Ok(());
    }

    let rig = Rig {
        programs,
        atrest: target.join("debug/atrest"),
        store: work.join("coverage"),
        jobs: options.jobs,
    };
    let tests = rig.cover(mutants.iter().map(|mutant| mutant.id).max().unwrap_or(0), options.slow)?;
    print!("{}", report::tests(&rig, &tests));
    eprintln!("all tests ran after {} s", begin.elapsed().as_secs());

    let all = chosen.clone();
    let (unviable, viable): (Vec<_>, Vec<_>) =
        chosen.into_iter().partition(|mutant| unviable.contains(&mutant.id));
    let (equivalent, viable) = viable.into_iter().partition(|mutant| equivalent.contains(&mutant.id));
    chosen = viable;
    let seed = options.seed.map_or_else(|| tree.commit(), Ok)?;
    if let Some(count) = options.sample {
        println!("a sample of {count} with --seed {seed}");
        chosen = sample::sample(chosen, count, seed);
    }
    let deadline = options.minutes.map(|minutes| begin + Duration::from_secs(60 * minutes));
    let limits = Limits { deadline, patience: options.patience };
    let verdicts = judge::judge(&rig, &tests, &chosen, &limits)?;
    let judged: Vec<(&Mutant, Verdict)> = chosen.into_iter().zip(verdicts).collect();
    let report = Report { all, unviable, equivalent, judged };
    println!("{}", report.text());
    println!("{} s", begin.elapsed().as_secs());
    if let Some(path) = &options.json {
        let text = format!("{:#}\n", report.json(seed));
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// How many numbers the mutants of a package have, so that they stay the same when another package changes.
const NUMBERS: u32 = 20_000;

/// Returns the mutants of all rooms with their numbers.
fn all_mutants(root: &Path) -> Result<Found, String> {
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

fn chosen<'m>(options: &Options, mutants: &'m [Mutant]) -> Result<Vec<&'m Mutant>, String> {
    let asked_for = |mutant: &&Mutant| {
        let here = options.only.is_empty() || options.only.iter().any(|path| mutant.file.starts_with(path));
        here && (mutant.classic || !options.classic)
    };
    let mut chosen: Vec<_> = mutants.iter().filter(asked_for).collect();
    if let Some(path) = &options.survivors_of {
        let survivors = survivors(path)?;
        chosen.retain(|mutant| {
            survivors.contains(&(mutant.file.clone(), mutant.description(), mutant.source.clone()))
        });
    }
    Ok(chosen)
}

/// Returns file, description and line of the mutants that no test noticed.
fn survivors(path: &PathBuf) -> Result<BTreeSet<(String, String, String)>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    let report: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mutants = report["mutants"].as_array().into_iter().flatten();
    let left = mutants
        .filter(|mutant| ["survived", "unreached"].contains(&mutant["verdict"].as_str().unwrap_or("")));
    Ok(left
        .map(|mutant| (word(&mutant["file"]), word(&mutant["description"]), word(&mutant["source"])))
        .collect())
}

/// Returns the manifests that differ in the copy.
fn manifests(tree: &Tree, rooms: &[&Room]) -> Result<BTreeMap<String, String>, String> {
    let mut manifests =
        BTreeMap::from([("Cargo.toml".into(), manifest::without_lints(&tree.read("Cargo.toml")?))]);
    for room in rooms {
        let name = format!("{}/Cargo.toml", room.directory());
        let text = manifest::with_switch(&tree.read(&name)?);
        manifests.insert(name, text);
    }
    Ok(manifests)
}
