//! A file that is not in memory: through the mounted volume, and the plain file read by the same client; and what is read ahead.
//!
//! Both lie on the disk of `--cold-dir`. Before each run the system forgets what it has cached of them.

use std::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use atrest_attach::fuse;

use crate::Plan;
use crate::measure::{Contender, medians};
use crate::report::Report;
use crate::small::fio;
use crate::volume;

struct Work {
    title: &'static str,
    arguments: [&'static str; 2],
    /// How many there are in a run.
    requests: u64,
}

const WORKS: [Work; 2] = [
    Work { title: "reads of 1 MiB in order", arguments: ["--rw=read", "--bs=1M"], requests: 256 },
    Work { title: "random reads of 4 KiB", arguments: ["--rw=randread", "--bs=4k"], requests: 4096 },
];

/// Somebody's file, and the file on the disk behind it.
struct Place {
    read: PathBuf,
    stored: PathBuf,
}

pub fn measure(plan: &Plan, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir_in(&plan.cold_dir)?;
    let volume = volume::create(scratch.path(), plan.size)?;
    let plain = scratch.path().join("plain.img");
    fs::copy(&volume.path, &plain)?;
    let at = scratch.path().join("mount");
    fs::create_dir(&at)?;
    let mount = fuse::mount(Arc::new(volume.open()?), &at, &fuse::Options::default())?;
    let places = [
        Place { read: mount.place(), stored: volume.path.clone() },
        Place { read: plain.clone(), stored: plain },
    ];
    let mut rows = Vec::new();
    for work in &WORKS {
        rows.push(row(plan, work, &places, volume.size)?);
    }
    mount.unmounter().unmount()?;
    mount.wait()?;
    report.table(
        &format!("A cold file: a LUKS1 volume of {} MiB on disk, mounted, against the plain file", plan.size >> 20),
        "fio, one thread. The plain file is read through the page cache, the volume through FUSE's server. \
         The ratio is the mounted volume by the plain file. \"Read from the disk\" is bytes for each request. \
         Bytes beyond its size were read ahead.",
        &["work", "atrest, requests/s", "plain file", "ratio", "read from the disk, atrest", "plain file"],
        rows,
    );
    Ok(())
}

fn row(plan: &Plan, work: &Work, places: &[Place; 2], size: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let mut for_each = [Vec::new(), Vec::new()];
    let speeds = {
        let mut contenders: Vec<_> = ["atrest", "plain file"]
            .into_iter()
            .zip(places)
            .zip(&mut for_each)
            .map(|((name, place), for_each)| {
                Contender::new(name, move || {
                    let (speed, bytes) = run(work, place, size)?;
                    for_each.push(bytes);
                    Ok(speed)
                })
            })
            .collect();
        medians(&mut contenders, plan.rounds.min(5))?
    };
    let [ours, theirs] = speeds[..] else { return Err("there are two of them".into()) };
    let [ours_read, theirs_read] = for_each.map(|mut bytes: Vec<f64>| {
        bytes.sort_by(f64::total_cmp);
        format!("{:.0} KiB", bytes[bytes.len() / 2] / 1024.0)
    });
    let ratio = format!("{:.2}", ours / theirs);
    Ok(vec![
        work.title.to_owned(),
        format!("{ours:.0}"),
        format!("{theirs:.0}"),
        ratio,
        ours_read,
        theirs_read,
    ])
}

/// Requests in a second, and bytes that the disk was asked for, for each of them.
fn run(work: &Work, place: &Place, size: u64) -> Result<(f64, f64), Box<dyn Error>> {
    forget(&place.stored)?;
    let before = read_from(&place.stored)?;
    let filename = format!("--filename={}", place.read.display());
    // Each run asks for other places.
    let seed = format!("--randseed={before}");
    let requests = format!("--number_ios={}", work.requests);
    let common = ["--ioengine=psync", "--readonly", "--invalidate=0"].map(str::to_owned);
    let own = work.arguments.map(str::to_owned);
    let speed =
        fio(common.into_iter().chain([filename, seed, requests, format!("--size={size}")]).chain(own))?;
    let read = read_from(&place.stored)? - before;
    Ok((speed, read as f64 / work.requests as f64))
}

/// Has the system forget what it has cached of a file.
fn forget(path: &Path) -> Result<(), Box<dyn Error>> {
    let status = Command::new("dd")
        .args(["iflag=nocache", "count=0", "status=none"])
        .arg(format!("if={}", path.display()))
        .status()?;
    if status.success() { Ok(()) } else { Err("dd failed".into()) }
}

/// Bytes that the disk of a file has been asked for since the system began (Linux, Documentation/block/stat.rst).
fn read_from(path: &Path) -> Result<u64, Box<dyn Error>> {
    let device = fs::metadata(path)?.dev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    let place = format!("/sys/dev/block/{major}:{minor}/stat");
    let stat = fs::read_to_string(&place)
        .map_err(|_| format!("{} is on no disk (no {place}): choose another --cold-dir", path.display()))?;
    let sectors = stat.split_whitespace().nth(2).ok_or("the disk tells nothing")?;
    Ok(sectors.parse::<u64>()? * 512)
}
