//! What waits while a volume is served that is being re-encrypted: 4 KiB reads, one at a time, against the same volume at rest. It lies in
//! a file on tmpfs.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use atrest_engine::reencrypt::{Online, RewriteError, RewriteOptions, Served, run};
use atrest_engine::{Access, DiskOptions, FileDevice};
use atrest_secret::Passphrase;
use atrest_volume::luks2::reencrypt::{ReencryptOptions, ResilienceKind};
use atrest_volume::{Devices, LockedVolume};

use crate::Plan;
use crate::faces::Ours;
use crate::report::{Report, verdict};
use crate::small::{A_SECOND, fio_output};
use crate::volume::{PASSPHRASE, luks_format};

/// Bytes that `atrest open --reencrypt` rewrites at once.
const ZONE: u64 = 1 << 20;
/// Large enough that a second does not finish it. The file has holes, which are rewritten, too.
const SIZE: u64 = 4 << 30;
const HEADER: u64 = 16 << 20;

pub fn measure(plan: &Plan, dir: &Path, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let mut rows = Vec::new();
    for (name, resilience) in [("checksum", ResilienceKind::Checksum), ("journal", ResilienceKind::Journal)] {
        let (mut idle, mut busy, mut rates) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..plan.rounds.min(5) {
            let round = round(dir, resilience)?;
            idle.push(round.idle);
            busy.push(round.busy);
            rates.push(round.rewritten as f64 / 1e6);
        }
        let [idle, busy, rate] = [idle, busy, rates].map(median);
        let ratio = busy / idle;
        rows.push(vec![
            name.to_owned(),
            format!("{idle:.0}"),
            format!("{busy:.0}"),
            format!("{ratio:.1}"),
            format!("{rate:.0}"),
            verdict(5.0 / ratio, 1.0),
        ]);
    }
    report.table(
        "NBD: a LUKS2 volume that is re-encrypted while it is served",
        "The times are the 99th percentile of 4 KiB reads, one at a time, in microseconds. The last figure is \
         MB that were re-encrypted in that second. The goal is at most 5 times as long.",
        &["resilience", "at rest", "meanwhile", "ratio", "MB/s", "target"],
        rows,
    );
    Ok(())
}

/// Of one volume.
struct Round {
    idle: f64,
    busy: f64,
    rewritten: u64,
}

fn round(dir: &Path, resilience: ResilienceKind) -> Result<Round, Box<dyn Error>> {
    let path = dir.join("online.luks");
    drop(FileDevice::create(&path, HEADER + SIZE)?);
    luks_format(&path, "luks2", &["--sector-size", "4096"])?;
    let file = Arc::new(FileDevice::open(&path, Access::ReadWriteExclusive)?);
    let devices = Devices::together(&*file);
    let locked = LockedVolume::read(devices.header)?;
    let luks2 = locked.luks2().ok_or("cryptsetup made no LUKS2 volume")?;
    let passphrase = Passphrase::copy_from(PASSPHRASE.as_bytes());
    let options = ReencryptOptions { resilience, ..ReencryptOptions::default() };
    let mut rewriting = luks2.begin_reencryption(devices, &[(&passphrase, None)], &options)?;
    let options = DiskOptions::default();
    let online = Online::new(file.clone(), &mut rewriting, 0, &options)?.ok_or("its data moves")?;
    let online = Arc::new(online);
    let server = Ours::start(online.clone(), dir.join("online.sock"))?;
    let idle = ninety_ninth(&server.socket)?;
    let cancel = AtomicBool::new(false);
    let (busy, rewritten) = thread::scope(|scope| {
        let (rewriting, cancel, online) = (&mut rewriting, &cancel, &online);
        let work = scope.spawn(move || {
            let mut options = RewriteOptions::default();
            (options.threads, options.zone) = (1, ZONE);
            (options.cancel, options.online) = (Some(cancel), Some(&**online as &dyn Served));
            let mut done = 0;
            let result = run(rewriting, options, &mut |now: u64, _: u64| done = now);
            (result.map(drop), done)
        });
        let busy = ninety_ninth(&server.socket);
        cancel.store(true, Ordering::Relaxed);
        let (result, rewritten) = work.join().map_err(|_| "the re-encryption panicked")?;
        match result {
            Err(RewriteError::Cancelled { .. }) => Ok((busy?, rewritten)),
            Err(error) => Err(error.into()),
            Ok(()) => Err(Box::<dyn Error>::from("it was done sooner than fio")),
        }
    })?;
    server.stop()?;
    std::fs::remove_file(&path)?;
    Ok(Round { idle, busy, rewritten })
}

/// Microseconds in which 99 of 100 reads have their answer.
fn ninety_ninth(socket: &Path) -> Result<f64, Box<dyn Error>> {
    let arguments = [
        "--ioengine=nbd".to_owned(),
        format!("--uri=nbd+unix:///?socket={}", socket.display()),
        "--rw=randread".to_owned(),
        "--bs=4k".to_owned(),
        "--iodepth=1".to_owned(),
        format!("--size={SIZE}"),
        "--percentile_list=99".to_owned(),
    ];
    let line = fio_output(A_SECOND.map(str::to_owned).into_iter().chain(arguments))?;
    // fio(1), "Terse output": field 18 is the first percentile of the reads' completion latencies, as `99.000000%=microseconds`.
    let field = line.split(';').nth(17).and_then(|field| field.strip_prefix("99.000000%="));
    Ok(field.ok_or("fio printed no percentile")?.parse()?)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
