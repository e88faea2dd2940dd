//! `make bench`: atrest against its peers, in one process, interleaved; medians; ratios to BENCHMARKS.md. With `--only` they are printed.
//!
//! `atrest-bench [--quick] [--size MIB] [--dir DIR] [--cold-dir DIR] [--out FILE]
//! [--only ciphers|kdf|decrypt|nbd|small|fuse|tagged|online|cold|veracrypt]... [--cipher NAME]...`
//!
//! The files of the engine's lines lie in DIR, by default in memory (`/dev/shm`), so that what is measured is the
//! engine and not the disk. The cold file lies in --cold-dir, by default where temporary files do. A peer that is missing
//! fails with the command that installs it.

mod buffer;
mod case;
mod ciphers;
mod cold;
mod decrypt;
mod faces;
mod kdf;
mod limit;
mod machine;
mod measure;
mod mounted;
mod online;
mod peers;
mod report;
mod small;
mod tagged;
mod targets;
mod veracrypt;
mod volume;

use std::error::Error;
use std::path::{Path, PathBuf};

use report::Report;

/// What is measured and where.
pub struct Plan {
    /// Rounds of everything that takes seconds.
    pub rounds: usize,
    /// Rounds of about two milliseconds.
    pub slices: usize,
    /// Rounds of a sweep through memory.
    pub sweeps: usize,
    /// Bytes in the volume.
    pub size: u64,
    /// Where files are made.
    pub dir: PathBuf,
    /// Where files are made that lie on a disk.
    pub cold_dir: PathBuf,
}

fn main() {
    if let Err(error) = run() {
        eprintln!("atrest-bench: {error}");
        std::process::exit(1);
    }
}

/// What `--only` may name.
const PARTS: [&str; 10] =
    ["ciphers", "kdf", "decrypt", "nbd", "small", "fuse", "tagged", "online", "cold", "veracrypt"];

fn part(name: String) -> Result<String, String> {
    match PARTS.contains(&name.as_str()) {
        true => Ok(name),
        false => Err(format!("--only {name}: there are {}; say --only once for each", PARTS.join(", "))),
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut plan = Plan {
        rounds: 7,
        slices: 31,
        sweeps: 11,
        size: 1 << 30,
        dir: "/dev/shm".into(),
        cold_dir: std::env::temp_dir(),
    };
    let mut out = None;
    let mut only = Vec::new();
    let mut named = Vec::new();
    let mut args = std::env::args().skip(1);
    let words: Vec<String> = std::env::args().skip(1).collect();
    while let Some(word) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--quick" => plan = Plan { rounds: 3, slices: 11, sweeps: 3, size: 256 << 20, ..plan },
            "--size" => plan.size = value()?.parse::<u64>()? << 20,
            "--dir" => plan.dir = value()?.into(),
            "--cold-dir" => plan.cold_dir = value()?.into(),
            "--out" => out = Some(value()?.into()),
            "--only" => only.push(part(value()?)?),
            "--cipher" => named.push(value()?),
            // What `decrypt::peak_memory` runs in a process of its own.
            "--decrypt-once" => return decrypt::once(Path::new(&value()?), Path::new(&value()?)),
            _ => return Err(format!("unknown argument {word}").into()),
        }
    }
    let wanted = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
    let mut report = Report::new(&root, &words);
    if wanted("ciphers") || wanted("kdf") {
        let peers = peers::Peers::load()?;
        report.fact(&format!("Peers: {}", peers.versions.join("; ")));
        if wanted("ciphers") {
            if let Some(unknown) =
                named.iter().find(|name| !case::Cipher::ALL.iter().any(|cipher| cipher.title() == *name))
            {
                let known = case::Cipher::ALL.map(case::Cipher::title).join(", ");
                return Err(format!("no cipher called {unknown}; there are {known}").into());
            }
            let is_named =
                |cipher: &case::Cipher| named.is_empty() || named.iter().any(|name| name == cipher.title());
            for cipher in case::Cipher::ALL.into_iter().filter(is_named) {
                ciphers::measure(&plan, cipher, &peers, &mut report)?;
            }
        }
        if wanted("kdf") {
            kdf::measure(&plan, &peers, &mut report)?;
        }
    }
    if ["decrypt", "nbd", "small", "fuse"].iter().any(|name| wanted(name)) {
        let scratch = tempfile::tempdir_in(&plan.dir)?;
        let volume = volume::create(scratch.path(), plan.size)?;
        if wanted("decrypt") {
            decrypt::measure(&plan, &volume, scratch.path(), &mut report)?;
        }
        if wanted("nbd") {
            faces::nbd(&plan, &volume, scratch.path(), &mut report)?;
        }
        if wanted("small") {
            small::measure(&plan, &volume, scratch.path(), &mut report)?;
        }
        if wanted("fuse") {
            mounted::measure(&plan, &volume, scratch.path(), &mut report)?;
        }
    }
    if wanted("tagged") {
        let scratch = tempfile::tempdir_in(&plan.dir)?;
        tagged::measure(&plan, scratch.path(), &mut report)?;
    }
    if wanted("online") {
        let scratch = tempfile::tempdir_in(&plan.dir)?;
        online::measure(&plan, scratch.path(), &mut report)?;
    }
    if wanted("veracrypt") {
        let scratch = tempfile::tempdir_in(&plan.dir)?;
        veracrypt::measure(&plan, scratch.path(), &mut report)?;
    }
    if wanted("cold") {
        cold::measure(&plan, &mut report)?;
    }
    // A part of it is printed, and takes the place of nothing.
    if only.is_empty() {
        out = out.or_else(|| Some(root.join("BENCHMARKS.md")));
    }
    if let Some(out) = out {
        report.write(&out)?;
        println!("written to {}", out.display());
    }
    Ok(())
}
