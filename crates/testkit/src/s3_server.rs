//! A server of S3 with a directory behind it (versitygw), which can be killed and started again.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use crate::Scratch;
use crate::needs::wait_until;

/// Where `scripts/setup` puts it.
const PLACE: &str = "atrest/versitygw-1.8.0/versitygw";
const ID: &str = "atrest-test";
const SECRET: &str = "not a secret of anybody";

/// A server that runs until this is dropped, with one bucket.
#[derive(Debug)]
pub struct S3Server {
    child: Child,
    data: Scratch,
    port: u16,
    kind: Kind,
}

/// How it is started.
#[derive(Debug)]
enum Kind {
    Usual,
    /// Nothing is kept that a condition could be held against.
    Heedless,
    /// By TLS, with the certificate and key in a directory.
    Tls(PathBuf),
}

impl S3Server {
    /// The name of its bucket.
    pub const BUCKET: &str = "disks";

    /// Starts a new one.
    ///
    /// # Panics
    /// When it is missing.
    pub fn new() -> Self {
        Self::with(Kind::Usual)
    }

    /// Starts a new one that overwrites objects where it is asked for new ones: that keeps nothing that a condition could be held against.
    ///
    /// # Panics
    /// When it is missing.
    pub fn without_conditions() -> Self {
        Self::with(Kind::Heedless)
    }

    /// Starts a new one that speaks TLS, with what [`Pki::server`](crate::Pki::server) has.
    ///
    /// # Panics
    /// When it is missing.
    pub fn with_tls(directory: PathBuf) -> Self {
        Self::with(Kind::Tls(directory))
    }

    fn with(kind: Kind) -> Self {
        let data = Scratch::new();
        fs::create_dir(data.path(Self::BUCKET)).expect("a directory");
        let (child, port) = loop {
            let port = free_port();
            // Somebody else may have been faster.
            if let Some(child) = start(&data, port, &kind) {
                break (child, port);
            }
        };
        Self { child, data, port, kind }
    }

    /// Kills it, whatever it does. Objects stay.
    pub fn kill(&mut self) {
        // One that ended by itself is none to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again, at the same port.
    pub fn restart(&mut self) {
        self.kill();
        let mut new = None;
        wait_until("the server of S3 has its port again", || {
            new = start(&self.data, self.port, &self.kind);
            new.is_some()
        });
        self.child = new.expect("it was waited for");
    }

    /// What our program finds it by, and is known to it by.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let scheme = if let Kind::Tls(_) = self.kind { "https" } else { "http" };
        vec![
            ("AWS_ENDPOINT_URL_S3", format!("{scheme}://127.0.0.1:{}", self.port)),
            ("AWS_ACCESS_KEY_ID", ID.into()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.replace(' ', "-")),
            ("AWS_CONFIG_FILE", "/dev/null".into()),
            ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null".into()),
        ]
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

impl Default for S3Server {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What `scripts/setup` puts at a place below the user's cache.
///
/// # Panics
/// When it is missing.
pub(crate) fn cached(place: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let program = cache.expect("a home").join(place);
    assert!(program.exists(), "{} is missing: `scripts/setup` installs it", program.display());
    program
}

/// A port that nobody has, and that no connection is given when it is made: it has to be free when the server comes back.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let place =
            std::process::id().wrapping_mul(61).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed).into());
        let port = 10_000 + (place % 20_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A server that listens; `None` if it ended because somebody else has the port.
fn start(data: &Scratch, port: u16, kind: &Kind) -> Option<Child> {
    let mut server = Command::new(cached(PLACE));
    server.args(["--quiet", "--keep-alive", "--port", &format!("127.0.0.1:{port}")]);
    if let Kind::Tls(directory) = kind {
        server.arg("--cert").arg(directory.join("server-cert.pem"));
        server.arg("--key").arg(directory.join("server-key.pem"));
    }
    server.arg("posix");
    if let Kind::Heedless = kind {
        server.arg("--nometa");
    }
    server.arg(data.as_path());
    server.env("ROOT_ACCESS_KEY", ID).env("ROOT_SECRET_KEY", SECRET.replace(' ', "-"));
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = server.spawn().expect("the server starts");
    wait_until("the server of S3 listens or ends", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok() || child.try_wait().expect("a child").is_some()
    });
    // It has had the time to fail if another one answers at its port.
    std::thread::sleep(Duration::from_millis(20));
    child.try_wait().expect("a child").is_none().then_some(child)
}
