//! OpenSSL 4.0 from the sources that a crate brings: built when the benchmark first runs, kept beside its program.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where its libcrypto lies, built below `dir` if it is not there yet, which takes some minutes.
pub fn build(dir: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let target = match std::env::consts::ARCH {
        "x86_64" => "linux-x86_64",
        "aarch64" => "linux-aarch64",
        other => return Err(format!("no OpenSSL 4.0 is built for {other}").into()),
    };
    let dir = dir.join(format!("openssl-{}", openssl_src::version()));
    let done = dir.join("libcrypto.so.4");
    if done.exists() {
        return Ok(done);
    }
    eprintln!("building OpenSSL {}", openssl_src::version());
    // A build that was interrupted is not gone on with. Configure builds outside of its sources, and these stay as they are.
    let unfinished = dir.with_extension("unfinished");
    if unfinished.exists() {
        std::fs::remove_dir_all(&unfinished)?;
    }
    std::fs::create_dir_all(&unfinished)?;
    let log = unfinished.join("build.log");
    let run = |program: &str, args: &[&str]| -> Result<(), Box<dyn Error>> {
        let out = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
        let status = Command::new(program)
            .args(args)
            .current_dir(&unfinished)
            // What cargo's own make hands on is not for this one.
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL")
            .stderr(out.try_clone()?)
            .stdout(out)
            .status()
            .map_err(|error| format!("{program} can't be run ({error}): run scripts/setup"))?;
        if status.success() { Ok(()) } else { Err(format!("{program} failed, see {}", log.display()).into()) }
    };
    let configure = openssl_src::source_dir().join("Configure");
    let configure = configure.to_str().ok_or("a path that is not UTF-8")?;
    let nowhere = ["--prefix=/nonexistent", "--openssldir=/nonexistent"];
    let without = ["no-shared", "no-module", "no-tests", "no-docs", "no-apps", "no-comp", "no-legacy"];
    run("perl", &[&[configure, target], &nowhere[..], &without[..]].concat())?;
    let jobs = format!("-j{}", std::thread::available_parallelism().map_or(1, usize::from));
    run("make", &["-s", &jobs, "build_generated"])?;
    run("make", &["-s", &jobs, "libcrypto.a"])?;
    // The crate's sources lack what OpenSSL's own shared library needs. This one calls nothing but itself, whatever
    // else of the same names is in the process.
    let whole = ["-Wl,-Bsymbolic", "-Wl,--whole-archive", "libcrypto.a", "-Wl,--no-whole-archive"];
    run("cc", &[&["-shared", "-o", "libcrypto.so.4"], &whole[..]].concat())?;
    std::fs::rename(&unfinished, &dir)?;
    Ok(done)
}
