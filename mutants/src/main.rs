//! Changes atrest in thousands of small ways and names the changes that no test notices.
//!
//! All mutants are built into one program, and a switch picks one at run time: `README.md` tells how.

mod build;
mod choice;
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
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cover::Rig;
use find::Found;
use judge::Limits;
use mutant::Mutant;
use options::Options;
use report::Report;
use rooms::{ROOMS, Room};
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
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("the repository has no root")?;
    let work = repository.join("target/mutants");
    let only_names = options.list || options.entries;
    let alone = lock(&work, only_names)?;
    let tree = Tree::new(repository, options.commit.clone(), &work)?;
    let Found { mutants, sources } = choice::all(&tree.root)?;
    let equivalent = equivalent::equivalent(&tree.read("mutants/equivalent.txt")?, &mutants)
        .map_err(|error| format!("equivalent.txt: {error}"))?;
    let chosen = choice::chosen(options, &mutants)?;
    if only_names {
        name(options, &chosen, &mutants);
        return Ok(());
    }

    let rooms: Vec<&Room> =
        ROOMS.iter().filter(|room| chosen.iter().any(|mutant| room.has(&mutant.file))).collect();
    let (rig, unviable) = build(options, &tree, &work, &rooms, (&mutants, sources))?;
    eprintln!("built after {} s", begin.elapsed().as_secs());
    if options.build {
        return Ok(());
    }
    let last = mutants.iter().map(|mutant| mutant.id).max().unwrap_or(0);
    let wanted = |name: &str| options.test.as_ref().is_none_or(|text| name.contains(text));
    let tests = rig.cover(last, options.slow, wanted)?;
    print!("{}", report::tests(&rig, &tests));
    eprintln!("all tests ran after {} s", begin.elapsed().as_secs());

    let all = chosen.clone();
    let (unviable, viable): (Vec<_>, Vec<_>) =
        chosen.into_iter().partition(|mutant| unviable.contains(&mutant.id));
    let (equivalent, mut run) = viable.into_iter().partition(|mutant| equivalent.contains(&mutant.id));
    let seed = options.seed.map_or_else(|| tree.commit(), Ok)?;
    if let Some(count) = options.sample {
        println!("a sample of {count}, drawn with --seed {seed}");
        run = sample::sample(run, count, seed);
    }
    let deadline = options.minutes.map(|minutes| begin + Duration::from_secs(60 * minutes));
    let verdicts = judge::judge(&rig, &tests, &run, &Limits { deadline, patience: options.patience })?;
    let report = Report { all, unviable, equivalent, judged: run.into_iter().zip(verdicts).collect() };
    println!("{}\nafter {} s", report.text(), begin.elapsed().as_secs());
    if let Some(path) = &options.json {
        let text = format!("{:#}\n", report.json(seed));
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    drop(alone);
    Ok(())
}

/// Locks the directory in which everything is built. Names alone need no lock.
fn lock(work: &Path, only_names: bool) -> Result<Option<fs::File>, String> {
    if only_names {
        return Ok(None);
    }
    let failed = |error: std::io::Error| format!("{}: {error}", work.display());
    fs::create_dir_all(work).map_err(failed)?;
    let lock = fs::File::create(work.join("lock")).map_err(failed)?;
    lock.try_lock().map_err(|_| "another run has not ended yet")?;
    process::remove_stale();
    Ok(Some(lock))
}

fn name(options: &Options, chosen: &[&Mutant], mutants: &[Mutant]) {
    for mutant in chosen {
        match options.entries {
            true => println!("{}", equivalent::entry(mutant, mutants)),
            false => println!("{} [{}]", mutant.name(), mutant.class.name()),
        }
    }
}

/// Builds the tests with the mutants of some rooms. Returns the numbers of those that do not compile, too.
fn build(
    options: &Options,
    tree: &Tree,
    work: &Path,
    rooms: &[&Room],
    (mutants, sources): (&[Mutant], BTreeMap<String, String>),
) -> Result<(Rig, BTreeSet<u32>), String> {
    let target = work.join("target");
    seed::seed(&tree.root, &tree.repository.join("target"), &target)?;
    let mut by_file: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants.iter().filter(|mutant| rooms.iter().any(|room| room.has(&mutant.file))) {
        by_file.entry(&mutant.file).or_default().push(mutant);
    }
    let packages: BTreeSet<&str> = match options.tests.is_empty() {
        true => rooms.iter().flat_map(|room| room.tests.iter().copied()).collect(),
        false => options.tests.iter().map(String::as_str).collect(),
    };
    let (manifests, store) = (manifests(tree, rooms)?, work.join("unviable"));
    let builder = Builder { tree, target: target.clone(), mutants: by_file, sources, manifests, store };
    let (programs, unviable) = builder.build(&packages)?;
    let rig = Rig {
        programs,
        atrest: target.join("debug/atrest"),
        all_packages: !options.tests.is_empty(),
        store: work.join("coverage"),
        jobs: options.jobs,
    };
    Ok((rig, unviable))
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
