//! VeraCrypt volumes: how long it takes to find out how one was made, and a cascade through NBD.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use atrest_cipher::{CipherSpec, DataUnitIndex, Mapper, MapperOptions};
use atrest_device::BlockDevice;
use atrest_engine::{Access, Disk, DiskOptions, FileDevice};
use atrest_kdf::Hash;
use atrest_kdf::tcrypt::KeyFiles;
use atrest_open::Held;
use atrest_secret::{Locked, OsRandom, Passphrase};
use atrest_testkit::tcrypt::Tcrypt;
use atrest_volume::tcrypt::{LockedTcrypt, NewPassword, NewTcrypt, TcryptOptions, chain_named, create};
use atrest_volume::{Cascade, Protection, UnlockOptions};

use crate::Plan;
use crate::faces::{Ours, nbdcopy};
use crate::measure::{Contender, Spent, medians, spent};
use crate::report::Report;
use crate::volume::fill;

/// The hashes of VeraCrypt that cryptsetup has here, each with the PIM that makes as many iterations as without one (for RIPEMD-160 331 fewer):
/// with a PIM it tries VeraCrypt's derivation alone. BLAKE2s and Streebog it has not.
const THEIRS: [(&str, u32); 4] = [("sha512", 485), ("ripemd160", 640), ("whirlpool", 485), ("sha256", 485)];
const PASSWORD: &str = "benchmark";

pub fn measure(plan: &Plan, dir: &Path, report: &mut Report) -> Result<(), Box<dyn Error>> {
    search(plan, dir, report)?;
    cascade(plan, dir, report)
}

/// cryptsetup tries one derivation after the other, and takes as long as all of them together. Where the kernel lends it no ciphers it
/// can't go on to the next one: so each is told to it, and they are added up.
fn search(plan: &Plan, dir: &Path, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let plain = dir.join("plain");
    fs::write(&plain, [0; 6144])?;
    for (hash, pim) in THEIRS {
        let iterations = 15_000 + 1000 * pim;
        let password = PASSWORD.as_bytes().to_vec();
        let volume = Tcrypt { magic: "VERA", hash, iterations, password, ..Tcrypt::default() };
        volume.make(&dir.join(hash), 262_144 + 6144, &plain);
    }
    let noise = dir.join("noise");
    fs::write(&noise, atrest_testkit::Random::new(3).bytes(1 << 20))?;
    let options = TcryptOptions::default();
    // One at a time, on one core.
    let each = ["sha512", "sha256", "blake2s-256", "ripemd160", "whirlpool", "stribog512"];
    let narrowed = each.map(|hash| TcryptOptions {
        hash: Some(hash.into()),
        family: Some(atrest_kdf::tcrypt::Family::VeraCrypt),
        ..TcryptOptions::default()
    });
    let mut contenders = vec![
        Contender::new("all derivations", || tried(&noise, &options)),
        Contender::new("all of cryptsetup's", || {
            let seconds: Result<Vec<f64>, _> =
                THEIRS.iter().map(|(hash, pim)| theirs(dir, hash, *pim)).collect();
            Ok(1.0 / seconds?.iter().sum::<f64>())
        }),
    ];
    for (hash, options) in each.iter().zip(&narrowed) {
        let noise = &noise;
        contenders.push(Contender::new(*hash, move || tried(noise, options)));
    }
    for (hash, pim) in THEIRS {
        let speed = move || Ok(1.0 / theirs(dir, hash, pim)?);
        contenders.push(Contender::new(format!("{hash}, cryptsetup"), speed));
    }
    let names: Vec<String> = contenders.iter().map(|contender| contender.name.clone()).collect();
    let speeds = medians(&mut contenders, plan.rounds.min(3))?;
    let seconds = |name: &str| {
        let at = names.iter().position(|other| other == name);
        at.map_or("–".to_owned(), |at| format!("{:.2}", 1.0 / speeds[at]))
    };
    let ratio = speeds[1] / speeds[0];
    let verdict = if ratio <= 0.25 { "reached" } else { "**missed**" };
    let mut rows = vec![vec![
        "all that each of the two knows".to_owned(),
        seconds("all derivations"),
        seconds("all of cryptsetup's"),
        format!("{ratio:.3}, ≤ 0.25 {verdict}"),
    ]];
    for hash in each {
        let theirs = format!("{hash}, cryptsetup");
        rows.push(vec![format!("VeraCrypt's with {hash}"), seconds(hash), seconds(&theirs), String::new()]);
    }
    report.table(
        "VeraCrypt: a volume of which neither hash nor cipher is known",
        "Seconds, elapsed, until a wrong password is refused. atrest makes ten derivations on all cores. \
         cryptsetup works on one core. Its four longest derivations ran in a process each, and their times \
         are added up. It has no BLAKE2s and no Streebog.",
        &["derivations", "atrest", "cryptsetup", "atrest by cryptsetup"],
        rows,
    );
    Ok(())
}

/// Searches in a second.
fn tried(noise: &Path, options: &TcryptOptions) -> Result<f64, Box<dyn Error>> {
    let device = FileDevice::open(noise, Access::ReadOnly)?;
    let locked = LockedTcrypt::read(&device, options)?;
    let begun = Instant::now();
    match atrest_open::try_tcrypt(&locked, &Passphrase::copy_from(b"another"), None) {
        Err(_) => Ok(1.0 / begun.elapsed().as_secs_f64()),
        Ok(_) => Err("noise has opened".into()),
    }
}

/// Seconds that cryptsetup takes with the right hash.
fn theirs(dir: &Path, hash: &str, pim: u32) -> Result<f64, Box<dyn Error>> {
    let begun = Instant::now();
    let mut child = Command::new("cryptsetup")
        .args([
            "open",
            "--type",
            "tcrypt",
            "--test-passphrase",
            "--batch-mode",
            "--cipher",
            "aes",
            "--hash",
            hash,
        ])
        .arg(format!("--veracrypt-pim={pim}"))
        .arg(dir.join(hash))
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|_| "cryptsetup is missing: run scripts/setup")?;
    child.stdin.take().ok_or("no pipe")?.write_all(PASSWORD.as_bytes())?;
    match child.wait()?.success() {
        true => Ok(begun.elapsed().as_secs_f64()),
        false => Err(format!("cryptsetup does not open the volume with {hash}").into()),
    }
}

const CASCADE: [&str; 3] = ["aes", "twofish", "serpent"];
/// What threads take at once.
const PIECE: usize = 256 << 10;

/// The cascade through NBD and over memory, and each of its ciphers alone over memory, on as many threads as there are cores. The same server with
/// an identity mapper shows what is left for ciphers to be fast in.
fn cascade(plan: &Plan, dir: &Path, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let size = plan.size;
    let path = dir.join("cascade.hc");
    make(&path, size)?;
    let serve = |disk: Disk, name: &str| Ours::start(Arc::new(disk), dir.join(name));
    let held = || Held::open(&path, None, false).map_err(|error| error.error);
    let server = serve(opened(held()?)?, "cascade.sock")?;
    let mapped = serve(opened(held()?.mapped().map_err(|error| error.error)?)?, "mapped.sock")?;
    let plain = Disk::identity(Arc::new(FileDevice::open(&path, Access::ReadOnly)?), DiskOptions::default())?;
    let plain = serve(plain, "plain.sock")?;
    let threads = thread::available_parallelism()?.get();
    let key: Vec<u8> = (0..64).map(|index| index * 11 + 3).collect();
    let mapper = |name: &str| {
        let spec: CipherSpec = format!("{name}-xts-plain64").parse()?;
        Ok(Locked::try_new_with(|| Mapper::new(&spec, &key, &MapperOptions::default()))?)
    };
    let mappers: Vec<_> = CASCADE.into_iter().map(mapper).collect::<Result<_, Box<dyn Error>>>()?;
    let layers: Vec<_> = CASCADE.into_iter().map(mapper).collect::<Result<_, Box<dyn Error>>>()?;
    let together = Cascade::new(layers).map_err(|error| format!("{error:?}"))?;
    let together = Protection::Cascade(together);
    let all_three =
        |first, run: &mut [u8]| together.decrypt(first, run).map_err(|error| format!("{error:?}"));
    let mut contenders = vec![
        Contender::new("cascade by NBD", || nbdcopy(&server.socket, size)),
        Contender::new("cascade by NBD, --map", || nbdcopy(&mapped.socket, size)),
        Contender::new("identity by NBD", || nbdcopy(&plain.socket, size)),
        Contender::new("cascade", || in_the_cache(&all_three, size as usize, threads)),
    ];
    let alone = contenders.len();
    for (name, mapper) in CASCADE.iter().zip(&mappers) {
        let decrypt = |first, run: &mut [u8]| mapper.decrypt(first, run).map_err(|error| error.to_string());
        let run = move || in_the_cache(&decrypt, size as usize, threads);
        contenders.push(Contender::new(format!("{name} alone"), run));
    }
    let names: Vec<String> = contenders.iter().map(|contender| contender.name.clone()).collect();
    let spent = spent(&mut contenders, plan.rounds.min(5), size)?;
    drop(contenders);
    server.stop()?;
    mapped.stop()?;
    plain.stop()?;
    table(&names, &spent, alone, report);
    Ok(())
}

/// `alone` is the first of the ciphers that are alone.
fn table(names: &[String], spent: &[Spent], alone: usize, report: &mut Report) {
    let elapsed = |spent: &Spent| 1.0 / spent.speed;
    let sum = |of: &dyn Fn(&Spent) -> f64| spent[alone..].iter().map(of).sum::<f64>();
    let (ciphers, busy) = (sum(&elapsed), sum(&|spent| spent.own + spent.others));
    let mut rows = Vec::new();
    for (at, (name, spent)) in names.iter().zip(spent).enumerate() {
        let mut row = vec![name.clone(), format!("{:.3}", spent.speed)];
        row.extend([spent.own, spent.others].map(|seconds| format!("{seconds:.3}")));
        let (ratio, of_time) = (ciphers / elapsed(spent), busy / (spent.own + spent.others));
        row.extend(match (at, name.starts_with("cascade")) {
            (0, _) => {
                [format!("{ratio:.2}, {}", crate::report::verdict(ratio, 0.9)), format!("{of_time:.2}")]
            }
            (_, true) => [ratio, of_time].map(|ratio| format!("{ratio:.2}")),
            _ => [String::new(), String::new()],
        });
        rows.push(row);
    }
    report.table(
        "VeraCrypt: AES(Twofish(Serpent)) read through NBD against its ciphers alone",
        "GB/s by `nbdcopy SOCKET null:`, and the seconds that all cores together were busy for a GB: in this process, \
         which is the server, and in the client. Server and client share the cores. What is not by NBD is decrypted \
         in the cache, in data units of 512 bytes, on all cores. The ratios are the time of the three ciphers alone by that of \
         the cascade, elapsed and of the cores. \"Identity\" is the same server with an identity mapper.",
        &["what", "GB/s", "server", "client", "ratio", "ratio of the cores' time"],
        rows,
    );
    let (identity, client) = (&spent[2], spent[0].others);
    report.line(&format!(
        "If the ciphers took as long as alone, and NBD as long as with the identity mapper, {:.2} would be the ratio, and {:.2} that of the \
         cores' time. If the server took no time but that of its ciphers, {:.2} would be the latter. The client takes the rest.",
        ciphers / (ciphers + elapsed(identity)),
        busy / (busy + identity.own + identity.others),
        busy / (busy + client),
    ));
}

/// A volume whose data is noise: any ciphertext is the encryption of something.
fn make(path: &Path, size: u64) -> Result<(), Box<dyn Error>> {
    let file = FileDevice::create(path, size + 262_144)?;
    let passphrase = Passphrase::copy_from(PASSWORD.as_bytes());
    let key_files = KeyFiles::default();
    let password =
        NewPassword { passphrase: &passphrase, key_files: &key_files, pim: Some(1), hash: Hash::Sha512 };
    let chain = chain_named("aes-twofish-serpent").ok_or("no such cascade")?;
    create(&file, &NewTcrypt { chain, password, hidden: None }, &mut OsRandom, None)?;
    fill(&file, 131_072..131_072 + size)
}

/// The plaintext of what [`make`] makes.
fn opened(held: Held) -> Result<Disk, Box<dyn Error>> {
    let options = TcryptOptions { pim: Some(1), hash: Some("sha512".into()), ..TcryptOptions::default() };
    let locked = LockedTcrypt::read(held.header(), &options)?;
    let passphrase = Passphrase::copy_from(PASSWORD.as_bytes());
    let opened = atrest_open::try_tcrypt(&locked, &passphrase, None)?;
    let options = UnlockOptions { read_only: true, ..UnlockOptions::default() };
    let volume = opened.volume(held.media().size(), &options)?;
    let mut options = DiskOptions::default();
    options.read_only = true;
    Ok(held.disk(volume, options)?)
}

/// Decrypts data units, of which the first has that number.
type Decrypt<'a> = dyn Fn(DataUnitIndex, &mut [u8]) -> Result<(), String> + Sync + 'a;

/// GB/s over as many bytes, by that many threads.
fn in_the_cache(decrypt: &Decrypt<'_>, size: usize, threads: usize) -> Result<f64, Box<dyn Error>> {
    let begun = Instant::now();
    let done: Result<Vec<()>, String> = thread::scope(|scope| {
        let work = || {
            let mut piece = vec![7; PIECE];
            for number in 0..size / threads / PIECE {
                decrypt(DataUnitIndex((number * PIECE / 512) as u64), &mut piece)?;
            }
            Ok(())
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = |thread: thread::ScopedJoinHandle<'_, Result<(), String>>| {
            thread.join().map_err(|_| "a thread panicked".to_owned())?
        };
        running.into_iter().map(ended).collect()
    });
    done?;
    Ok(size as f64 / begun.elapsed().as_secs_f64() / 1e9)
}
