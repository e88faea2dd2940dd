//! `decrypt` against a pread/pwrite copy by as many threads, and against itself on one core.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use atrest_engine::FileDevice;
use atrest_engine::bulk::{self, BulkOptions};
use atrest_measure::{self as measure, BenchOptions};

use crate::Plan;
use crate::machine::on_cores;
use crate::measure::{Contender, medians};
use crate::report::{Report, verdict};
use crate::volume::VolumeFile;

/// Bytes that the copy reads and writes at a time; what was fastest here.
const COPY_CHUNK: usize = 256 << 10;

pub fn measure(
    plan: &Plan,
    volume: &VolumeFile,
    dir: &Path,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    let out = dir.join("plaintext");
    let gb = volume.size as f64 / 1e9;
    let disk = volume.open()?;
    let copied = |threads: usize| {
        let begun = Instant::now();
        copy(&volume.path, &out, volume.size, threads)?;
        let seconds = begun.elapsed().as_secs_f64();
        std::fs::remove_file(&out)?;
        Ok(gb / seconds)
    };
    let decrypted = |threads: usize| {
        let destination = FileDevice::create(&out, volume.size)?;
        let mut options = BulkOptions::default();
        options.threads = threads;
        let summary = bulk::decrypt(&disk, &destination, options, &mut |_: u64, _: u64| {})?;
        std::fs::remove_file(&out)?;
        Ok(gb / summary.written.as_secs_f64())
    };
    let mut contenders = [
        Contender::new("copy, two cores", || on_cores(2, || copied(2))),
        Contender::new("copy, one core", || on_cores(1, || copied(1))),
        Contender::new("decrypt, two cores", || on_cores(2, || decrypted(2))),
        Contender::new("decrypt, one core", || on_cores(1, || decrypted(1))),
    ];
    let speeds = medians(&mut contenders, plan.rounds)?;
    drop(contenders);
    let [copy2, copy1, two, one] = speeds[..] else { return Err("a contender is missing".into()) };
    let alone = mapper_alone()?;
    // Both cores busy all the time with nothing but the copy's work and the cipher's.
    let limit = 2.0 / (1.0 / copy1 + 1.0 / alone);
    let row = |what: &str, speed: f64, against: f64, target: Option<f64>| {
        let ratio = speed / against;
        vec![
            what.to_owned(),
            format!("{speed:.2}"),
            format!("{against:.2}"),
            format!("{ratio:.2}"),
            target.map_or("–".into(), |target| verdict(ratio, target)),
        ]
    };
    report.table(
        &format!("`decrypt` of a {} MiB LUKS1 volume (512-byte data units)", volume.size >> 20),
        &format!(
            "GB/s until everything is written, before it is made durable (files in `{}`). The copy reads the \
             ciphertext and writes it.",
            plan.dir.display()
        ),
        &["what", "GB/s", "against", "ratio", "target"],
        vec![
            row("two cores, against a two-thread pread/pwrite copy", two, copy2, Some(0.9)),
            row("two cores, against itself on one", two, one, Some(1.7)),
            row("two cores, against the limit: twice a core that copies and decrypts", two, limit, None),
            row("that limit, against the two-thread copy", limit, copy2, None),
            row("one core, against the copy on one", one, copy1, None),
            row("the copy, two threads against one", copy2, copy1, None),
        ],
    );
    let peak = peak_memory(volume, &out)?;
    let below = if peak < 64 << 10 { "reached" } else { "**missed**" };
    report.line(&format!(
        "Peak resident memory of that run: {:.1} MiB (target < 64 MiB: {below}).",
        peak as f64 / 1024.0
    ));
    Ok(())
}

/// The mapper's speed on one core with data in the cache, in GB/s.
fn mapper_alone() -> Result<f64, Box<dyn Error>> {
    let mut options = BenchOptions::default();
    options.data_units = vec![512];
    options.memory = 0;
    options.threads = vec![1];
    let mut speed = 0.0;
    let spec = "aes-xts-plain64".parse()?;
    on_cores(1, || measure::cipher(&spec, 512, &options, &mut |row| speed = row.decrypt / 1e9))?;
    Ok(speed)
}

/// Decrypts in this process, which does nothing else, and prints its peak resident memory in KiB.
pub fn once(volume: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    let volume = VolumeFile { path: volume.to_path_buf(), size: 0 };
    let disk = volume.open()?;
    let destination = FileDevice::create(out, atrest_device::BlockDevice::size(&disk))?;
    bulk::decrypt(&disk, &destination, BulkOptions::default(), &mut |_: u64, _: u64| {})?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    println!("{}", peak.trim().trim_end_matches(" kB"));
    Ok(())
}

fn peak_memory(volume: &VolumeFile, out: &Path) -> Result<u64, Box<dyn Error>> {
    let output =
        Command::new(std::env::current_exe()?).arg("--decrypt-once").args([&*volume.path, out]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    std::fs::remove_file(out)?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

fn copy(from: &Path, to: &Path, size: u64, threads: usize) -> io::Result<()> {
    let from = File::open(from)?;
    let to = OpenOptions::new().write(true).create_new(true).open(to)?;
    to.set_len(size)?;
    let next = AtomicU64::new(0);
    let work = || -> io::Result<()> {
        let mut buf = vec![0; COPY_CHUNK];
        loop {
            let offset = next.fetch_add(COPY_CHUNK as u64, Ordering::Relaxed);
            if offset >= size {
                return Ok(());
            }
            let len = (size - offset).min(COPY_CHUNK as u64) as usize;
            from.read_exact_at(&mut buf[..len], offset)?;
            to.write_all_at(&buf[..len], offset)?;
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
