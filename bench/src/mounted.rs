//! The mounted volume under fio: encrypted against the same server with an identity mapper, and the same with requests on
//! rings of io_uring against requests by `/dev/fuse`. Everything lies in files on tmpfs.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atrest_attach::fuse::{self, Mount};
use atrest_engine::Disk;
use atrest_testkit::rings::with_rings;

use crate::Plan;
use crate::measure::{Contender, medians};
use crate::report::{Report, verdict};
use crate::small::{A_SECOND, fio, identity};
use crate::volume::VolumeFile;

/// What fio does, and the ratios to reach: to the identity mapper, and by rings to the same without them.
struct Work {
    title: &'static str,
    /// Whether our file is mapped (`open --map`).
    mapped: bool,
    arguments: &'static [&'static str],
    identity: Option<f64>,
    rings: Option<f64>,
}

const WORKS: [Work; 9] = [
    Work {
        title: "reads of 1 MiB in order, two threads",
        mapped: false,
        arguments: &["--rw=read", "--bs=1M", "--numjobs=2", "--offset_increment=50%", "--size=50%"],
        identity: Some(0.90),
        rings: None,
    },
    Work {
        title: "the same, `--map`",
        mapped: true,
        arguments: &["--rw=read", "--bs=1M", "--numjobs=2", "--offset_increment=50%", "--size=50%"],
        identity: Some(0.90),
        rings: None,
    },
    Work {
        title: "reads of 1 MiB in order, one thread",
        mapped: false,
        arguments: &["--rw=read", "--bs=1M"],
        identity: None,
        rings: None,
    },
    Work {
        title: "the same, `--map`",
        mapped: true,
        arguments: &["--rw=read", "--bs=1M"],
        identity: Some(0.90),
        rings: None,
    },
    Work {
        title: "writes of 1 MiB in order, one thread",
        mapped: false,
        arguments: &["--rw=write", "--bs=1M"],
        identity: None,
        rings: None,
    },
    Work {
        title: "4 KiB reads, one at a time",
        mapped: false,
        arguments: &["--rw=randread", "--bs=4k"],
        identity: Some(0.90),
        rings: Some(1.7),
    },
    Work {
        title: "4 KiB reads, 16 threads",
        mapped: false,
        arguments: &["--rw=randread", "--bs=4k", "--numjobs=16"],
        identity: Some(0.90),
        rings: None,
    },
    Work {
        title: "4 KiB writes, one at a time",
        mapped: false,
        arguments: &["--rw=randwrite", "--bs=4k"],
        identity: None,
        rings: None,
    },
    Work {
        title: "4 KiB reads, asynchronous, 32 at a time",
        mapped: false,
        arguments: &["--rw=randread", "--bs=4k", "--ioengine=libaio", "--iodepth=32"],
        identity: None,
        rings: None,
    },
];

pub fn measure(
    plan: &Plan,
    volume: &VolumeFile,
    dir: &Path,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let plain_file = dir.join("plain.img");
    std::fs::copy(&volume.path, &plain_file)?;
    let mut mounts = Vec::new();
    let mut places = Vec::new();
    for (number, rings) in [(0, false), (1, true)] {
        let disks = [
            ("encrypted", volume.open_to_write()?),
            ("plain", identity(&plain_file)?),
            ("mapped", volume.open_mapped()?),
        ];
        for (name, disk) in disks {
            let mount = mount(disk, &dir.join(format!("{name}-{number}")), rings)?;
            places.push(mount.place());
            mounts.push(mount);
        }
    }
    let mut rows = Vec::new();
    for work in &WORKS {
        let [unmapped, plain, mapped, unmapped_rings, plain_rings, mapped_rings] = &places[..] else {
            return Err("there are six mounts".into());
        };
        let places = match work.mapped {
            false => [unmapped, plain, unmapped_rings, plain_rings],
            true => [mapped, plain, mapped_rings, plain_rings],
        };
        rows.push(row(plan, work, &places, volume.size)?);
    }
    for mount in mounts {
        mount.unmounter().unmount()?;
        mount.wait()?;
    }
    std::fs::remove_file(&plain_file)?;
    report.table(
        &format!("FUSE: a mounted LUKS1 volume of {} MiB under fio, requests in a second", volume.size >> 20),
        "Direct I/O. Server and reader share the cores. \"Identity\" is the same server with an identity \
         mapper. Rings are those of io_uring, where the kernel has `fuse.enable_uring`. Without them requests \
         come by `/dev/fuse`. Behind each peer's figure is the ratio of atrest to the peer.",
        &["work", "atrest", "identity", "atrest, rings", "identity, rings", "rings to none"],
        rows,
    );
    Ok(())
}

fn row(plan: &Plan, work: &Work, places: &[&PathBuf], size: u64) -> Result<Vec<String>, Box<dyn Error>> {
    let names = ["atrest", "identity", "atrest, rings", "identity, rings"];
    let mut contenders: Vec<_> = names
        .iter()
        .zip(places)
        .map(|(name, place)| {
            Contender::new(*name, move || {
                let common = ["--ioengine=psync", "--direct=1", "--thread"].map(str::to_owned);
                let place = [format!("--filename={}", place.display()), format!("--filesize={size}")];
                let own = work.arguments.iter().map(|&argument| argument.to_owned());
                let lasting = A_SECOND.map(str::to_owned);
                fio(lasting.into_iter().chain(common).chain(place).chain(own))
            })
        })
        .collect();
    let speeds = medians(&mut contenders, plan.rounds.min(5))?;
    let [ours, plain, ours_by_rings, plain_by_rings] = speeds[..] else {
        return Err("there are four of them".into());
    };
    let judged = |ratio: f64, target: Option<f64>| match target {
        Some(target) => format!("{ratio:.2} {}", verdict(ratio, target)),
        None => format!("{ratio:.2}"),
    };
    Ok(vec![
        work.title.to_owned(),
        format!("{ours:.0}"),
        format!("{plain:.0}: {}", judged(ours / plain, work.identity)),
        format!("{ours_by_rings:.0}"),
        format!("{plain_by_rings:.0}: {}", judged(ours_by_rings / plain_by_rings, work.identity)),
        judged(ours_by_rings / ours, work.rings),
    ])
}

fn mount(disk: Disk, at: &Path, rings: bool) -> Result<Mount, Box<dyn Error>> {
    std::fs::create_dir(at)?;
    let options = fuse::Options { rings, ..fuse::Options::default() };
    let mount = || fuse::mount(Arc::new(disk), at, &options);
    if !rings {
        return Ok(mount()?);
    }
    let (mount, offered) = with_rings(mount);
    if !offered {
        return Err("this kernel has no FUSE over io_uring (Linux 6.14): leave FUSE out with --only".into());
    }
    Ok(mount?)
}
