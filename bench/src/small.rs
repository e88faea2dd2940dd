//! Small requests over NBD, by fio's NBD client (libnbd): an encrypted volume against nbdkit serving a plain file, against
//! nbdkit's own LUKS filter, and against this server without encryption. Everything lies in files on tmpfs.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use atrest_engine::{Access, Disk, DiskOptions, FileDevice};

use crate::Plan;
use crate::faces::{Ours, Theirs};
use crate::measure::{Contender, medians};
use crate::report::{Report, verdict};
use crate::volume::{PASSPHRASE, VolumeFile};

/// What fio does, and the ratios to reach: to nbdkit with a plain file, to nbdkit's LUKS filter, to the identity mapper.
pub struct Work {
    pub title: &'static str,
    pub rw: &'static str,
    pub block: &'static str,
    pub depth: u32,
    pub clients: u32,
    pub plain: Option<f64>,
    pub luks: f64,
    pub identity: Option<f64>,
    /// Whether our file is mapped (`open --map`).
    pub mapped: bool,
}

const fn small(title: &'static str, rw: &'static str, depth: u32, clients: u32, plain: f64) -> Work {
    Work {
        title,
        rw,
        block: "4k",
        depth,
        clients,
        plain: Some(plain),
        luks: 2.0,
        identity: None,
        mapped: false,
    }
}

const WORKS: [Work; 10] = [
    small("4 KiB reads, one at a time", "randread", 1, 1, 1.5),
    small("4 KiB writes, one at a time", "randwrite", 1, 1, 1.3),
    small("4 KiB reads, 16 at a time", "randread", 16, 1, 1.1),
    small("4 KiB writes, 32 at a time", "randwrite", 32, 1, 1.1),
    small("4 KiB, 70 % reads, 16 at a time", "randrw", 16, 1, 1.1),
    small("4 KiB reads, 8 clients with 8 each", "randread", 8, 8, 1.1),
    small("4 KiB writes, 8 clients with 8 each", "randwrite", 8, 8, 1.1),
    Work {
        title: "reads of 256 KiB in order, 8 at a time",
        rw: "read",
        block: "256k",
        depth: 8,
        clients: 1,
        plain: None,
        luks: 4.0,
        identity: Some(0.90),
        mapped: false,
    },
    Work {
        title: "the same, `--map`",
        rw: "read",
        block: "256k",
        depth: 8,
        clients: 1,
        plain: None,
        luks: 4.0,
        identity: Some(0.90),
        mapped: true,
    },
    Work {
        title: "writes of 256 KiB in order, 8 at a time",
        rw: "write",
        block: "256k",
        depth: 8,
        clients: 1,
        plain: None,
        luks: 4.0,
        identity: Some(0.85),
        mapped: false,
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
    let encrypted = Ours::start(Arc::new(volume.open_to_write()?), dir.join("small.sock"))?;
    let mapped = Ours::start(Arc::new(volume.open_mapped()?), dir.join("small-mapped.sock"))?;
    let identity = Ours::start(Arc::new(identity(&plain_file)?), dir.join("small-plain.sock"))?;
    let nbdkit = |socket: &str, arguments: &[&str]| {
        let socket = dir.join(socket);
        let mut command = Command::new("nbdkit");
        command.args(["--foreground", "--exit-with-parent", "--unix"]).arg(&socket).args(arguments);
        Theirs::start(&mut command, socket)
    };
    let plain = nbdkit("nbdkit-plain.sock", &["file", &plain_file.to_string_lossy()])?;
    let luks = nbdkit(
        "nbdkit-luks.sock",
        &["--filter=luks", "file", &volume.path.to_string_lossy(), &format!("passphrase={PASSPHRASE}")],
    )?;
    let mut rows = Vec::new();
    for work in &WORKS {
        let load = |socket: &PathBuf| {
            let socket = socket.clone();
            move || load(work, &socket, volume.size)
        };
        let mut contenders = [
            Contender::new("atrest", load(if work.mapped { &mapped.socket } else { &encrypted.socket })),
            Contender::new("nbdkit, plain file", load(&plain.socket)),
            Contender::new("nbdkit, LUKS filter", load(&luks.socket)),
            Contender::new("identity", load(&identity.socket)),
        ];
        let speeds = medians(&mut contenders, plan.rounds.min(5))?;
        let ratio = |peer: f64, target: Option<f64>| {
            let ratio = speeds[0] / peer;
            match target {
                Some(target) => format!("{ratio:.2} {}", verdict(ratio, target)),
                None => format!("{ratio:.2}"),
            }
        };
        rows.push(vec![
            work.title.to_owned(),
            format!("{:.0}", speeds[0]),
            format!("{:.0}: {}", speeds[1], ratio(speeds[1], work.plain)),
            format!("{:.0}: {}", speeds[2], ratio(speeds[2], Some(work.luks))),
            format!("{:.0}: {}", speeds[3], ratio(speeds[3], work.identity)),
        ]);
    }
    report.table(
        "NBD: requests in a second, by fio",
        "Server and client share the cores. Behind each peer's figure is the ratio of atrest to the peer.",
        &["work", "atrest", "nbdkit, plain file", "nbdkit --filter=luks", "the same server, identity mapper"],
        rows,
    );
    encrypted.stop()?;
    mapped.stop()?;
    identity.stop()
}

/// The file as it is.
pub fn identity(path: &Path) -> Result<Disk, Box<dyn Error>> {
    let file = FileDevice::open(path, Access::ReadWrite)?;
    Ok(Disk::identity(Arc::new(file), DiskOptions::default())?)
}

/// Requests in a second, by a server.
pub fn load(work: &Work, socket: &Path, size: u64) -> Result<f64, Box<dyn Error>> {
    let lasting = A_SECOND.map(str::to_owned);
    let own = [
        "--ioengine=nbd".to_owned(),
        format!("--uri=nbd+unix:///?socket={}", socket.display()),
        format!("--rw={}", work.rw),
        format!("--bs={}", work.block),
        format!("--iodepth={}", work.depth),
        format!("--numjobs={}", work.clients),
        format!("--size={size}"),
    ];
    fio(lasting.into_iter().chain(own))
}

/// Has fio work for a second, whatever it gets done.
pub const A_SECOND: [&str; 2] = ["--time_based", "--runtime=1"];

/// Requests in a second.
pub fn fio(arguments: impl IntoIterator<Item = String>) -> Result<f64, Box<dyn Error>> {
    let line = fio_output(arguments)?;
    // fio(1), "Terse output": requests in a second are fields 8 (reads) and 49 (writes).
    let field = |index: usize| -> Result<f64, Box<dyn Error>> {
        Ok(line.split(';').nth(index - 1).ok_or("fio printed too little")?.parse()?)
    };
    Ok(field(8)? + field(49)?)
}

/// What fio prints of its work: fields with semicolons between them.
pub fn fio_output(arguments: impl IntoIterator<Item = String>) -> Result<String, Box<dyn Error>> {
    let output = Command::new("fio")
        .args(["--name=small", "--minimal"])
        .args(["--group_reporting", "--rwmixread=70", "--norandommap", "--randrepeat=0"])
        .args(arguments)
        .output()
        .map_err(|_| "fio is missing: run scripts/setup")?;
    if !output.status.success() {
        return Err(format!("fio failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().find(|line| line.starts_with("3;")).ok_or("fio printed no result")?.to_owned())
}
