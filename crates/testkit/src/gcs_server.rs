//! A server of Google Cloud Storage with a directory behind it (fake-gcs-server), which can be killed and started again.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use crate::Scratch;
use crate::needs::wait_until;

/// Where `scripts/setup` puts it.
const PLACE: &str = "atrest/fake-gcs-server-1.56.1/fake-gcs-server";
/// Takes away what it was writing when it was killed: files without what it notes of each, which it does last. It would list nothing else
/// as long as they are there, and has acknowledged none of them.
const SWEEP: &str = r#"
import os, sys
NOTES = ".metadata"
for folder, _, names in os.walk(sys.argv[1]):
    for path in (os.path.join(folder, name) for name in names if not name.endswith(NOTES)):
        try:
            os.path.exists(path + NOTES) or os.getxattr(path, "user.metadata")
        except OSError:
            os.remove(path)
"#;

/// A server that runs until this is dropped, with one bucket.
#[derive(Debug)]
pub struct GcsServer {
    child: Child,
    data: Scratch,
    port: u16,
    /// The directory of a certificate and its key, where it speaks TLS.
    tls: Option<PathBuf>,
}

impl GcsServer {
    /// The name of its bucket.
    pub const BUCKET: &str = "disks";

    /// Starts a new one.
    ///
    /// # Panics
    /// When it is missing.
    pub fn new() -> Self {
        Self::with(None)
    }

    /// Starts a new one that speaks TLS, with what [`Pki::server`](crate::Pki::server) has.
    ///
    /// # Panics
    /// When it is missing.
    pub fn with_tls(directory: PathBuf) -> Self {
        Self::with(Some(directory))
    }

    fn with(tls: Option<PathBuf>) -> Self {
        let data = Scratch::new();
        fs::create_dir(data.path(Self::BUCKET)).expect("a directory");
        let (child, port) = loop {
            let port = free_port();
            // Somebody else may have been faster.
            if let Some(child) = start(&data, port, tls.as_ref()) {
                break (child, port);
            }
        };
        Self { child, data, port, tls }
    }

    /// Kills it, whatever it does. Objects that it has acknowledged stay.
    pub fn kill(&mut self) {
        // One that ended by itself is none to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again, at the same port.
    pub fn restart(&mut self) {
        self.kill();
        self.data.tool("python3").args(["-c", SWEEP, Self::BUCKET]).ok();
        let mut new = None;
        wait_until("the server of Google Cloud Storage has its port again", || {
            new = start(&self.data, self.port, self.tls.as_ref());
            new.is_some()
        });
        self.child = new.expect("it was waited for");
    }

    /// Where it is, as the variables of Google's tools name it.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// What our program finds it by. It asks nobody who he is.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![("STORAGE_EMULATOR_HOST", self.url())]
    }

    /// The port at which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of its bucket: a file for each object.
    pub fn bucket(&self) -> PathBuf {
        self.data.path(Self::BUCKET)
    }
}

impl Default for GcsServer {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for GcsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn program() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let program = cache.expect("a home").join(PLACE);
    assert!(program.exists(), "{} is missing: `scripts/setup` installs it", program.display());
    program
}

/// A port that nobody has, and that no connection is given when it is made: it has to be free when the server comes back.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let place =
            std::process::id().wrapping_mul(67).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed).into());
        let port = 10_000 + (place % 20_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A server that listens; `None` if it ended because somebody else has the port.
fn start(data: &Scratch, port: u16, tls: Option<&PathBuf>) -> Option<Child> {
    let mut server = Command::new(program());
    server.args(["-host", "127.0.0.1", "-port", &port.to_string(), "-log-level", "error"]);
    server.args(["-backend", "filesystem", "-filesystem-root"]).arg(data.as_path());
    match tls {
        None => server.args(["-scheme", "http"]),
        Some(directory) => {
            server.args(["-scheme", "https", "-cert-location"]).arg(directory.join("server-cert.pem"));
            server.arg("-private-key-location").arg(directory.join("server-key.pem"))
        }
    };
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = server.spawn().expect("the server starts");
    wait_until("the server of Google Cloud Storage listens or ends", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok() || child.try_wait().expect("a child").is_some()
    });
    // It has had the time to fail if another one answers at its port.
    std::thread::sleep(Duration::from_millis(20));
    child.try_wait().expect("a child").is_none().then_some(child)
}
