//! What is read through NBD: an encrypted volume against the same server with an identity mapper, and
//! against the peers' servers.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use atrest_attach::nbd;
use atrest_device::BlockDevice;

use crate::Plan;
use crate::measure::{Contender, medians};
use crate::report::{Report, verdict};
use crate::volume::{PASSPHRASE, VolumeFile};

pub fn nbd(plan: &Plan, volume: &VolumeFile, dir: &Path, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let encrypted = Ours::start(Arc::new(volume.open()?), dir.join("encrypted.sock"))?;
    let plain = Ours::start(Arc::new(volume.open_plain()?), dir.join("plain.sock"))?;
    let nbdkit = Theirs::start(
        Command::new("nbdkit")
            .args(["--foreground", "--readonly", "--exit-with-parent", "--filter=luks", "--unix"])
            .arg(dir.join("nbdkit.sock"))
            .args(["file", &volume.path.to_string_lossy(), &format!("passphrase={PASSPHRASE}")]),
        dir.join("nbdkit.sock"),
    )?;
    let qemu = Theirs::start(
        Command::new("qemu-nbd")
            .args(["--read-only", "--persistent", "--shared=8", "--cache=writeback", "--socket"])
            .arg(dir.join("qemu.sock"))
            .arg(format!("--object=secret,id=key,data={PASSPHRASE}"))
            .arg("--image-opts")
            .arg(format!(
                "driver=luks,key-secret=key,file.driver=file,file.filename={}",
                volume.path.display()
            )),
        dir.join("qemu.sock"),
    )?;
    let read = |socket: &Path| nbdcopy(socket, volume.size);
    let mut contenders = [
        Contender::new("atrest", || read(&encrypted.socket)),
        Contender::new("identity", || read(&plain.socket)),
        Contender::new("nbdkit", || read(&nbdkit.socket)),
        Contender::new("qemu-nbd", || read(&qemu.socket)),
    ];
    let speeds = medians(&mut contenders, plan.rounds)?;
    drop(contenders);
    let ours = speeds[0];
    let rows =
        [("the same server, identity mapper", 0.85), ("nbdkit --filter=luks", 4.0), ("qemu-nbd, LUKS1", 4.0)]
            .into_iter()
            .zip(&speeds[1..])
            .map(|((name, target), peer)| row(name, ours, *peer, target))
            .collect();
    report.table(
        &format!("NBD: reading a {} MiB LUKS1 volume by `nbdcopy SOCKET null:`", volume.size >> 20),
        "GB/s. Server and client share the cores.",
        &["against", "atrest", "peer", "ratio", "target"],
        rows,
    );
    encrypted.stop()?;
    plain.stop()
}

fn row(name: &str, ours: f64, peer: f64, target: f64) -> Vec<String> {
    let ratio = ours / peer;
    vec![
        name.to_owned(),
        format!("{ours:.2}"),
        format!("{peer:.2}"),
        format!("{ratio:.2}"),
        verdict(ratio, target),
    ]
}

/// One of our servers, in a thread of this process.
pub struct Ours {
    pub socket: PathBuf,
    shutdown: nbd::Shutdown,
    thread: JoinHandle<Result<(), nbd::RunError>>,
}

impl Ours {
    pub fn start(disk: Arc<dyn BlockDevice>, socket: PathBuf) -> Result<Self, Box<dyn Error>> {
        let endpoint = nbd::Endpoint::Unix(socket.clone());
        let server = nbd::Server::bind(disk, &endpoint, nbd::Options::default())?;
        let shutdown = server.shutdown();
        Ok(Self { socket, shutdown, thread: thread::spawn(move || server.run()) })
    }

    pub fn stop(self) -> Result<(), Box<dyn Error>> {
        self.shutdown.start();
        self.thread.join().map_err(|_| "the server panicked")?.map_err(Into::into)
    }
}

/// A peer's server, ended when dropped.
pub struct Theirs {
    child: Child,
    pub socket: PathBuf,
}

impl Theirs {
    pub fn start(command: &mut Command, socket: PathBuf) -> Result<Self, Box<dyn Error>> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .spawn()
            .map_err(|_| format!("{name} is missing: run scripts/setup"))?;
        let mut this = Self { child, socket };
        for _ in 0..200 {
            if this.socket.exists() {
                return Ok(this);
            }
            if let Some(status) = this.child.try_wait()? {
                return Err(format!("{name} ended with {status}").into());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(format!("{name} does not listen").into())
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// GB/s at which an export is read.
pub fn nbdcopy(socket: &Path, size: u64) -> Result<f64, Box<dyn Error>> {
    let begun = Instant::now();
    let status = Command::new("nbdcopy")
        .arg(format!("nbd+unix:///?socket={}", socket.display()))
        .arg("null:")
        .status()
        .map_err(|_| "nbdcopy is missing: run scripts/setup")?;
    if !status.success() {
        return Err(format!("nbdcopy ended with {status}").into());
    }
    // The identity mapper shows the header too, 2 MiB more: less than one in a hundred, and not in our favour.
    Ok(size as f64 / begun.elapsed().as_secs_f64() / 1e9)
}
