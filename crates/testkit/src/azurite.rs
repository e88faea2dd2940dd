//! A server of Azure Blob Storage with a directory behind it (Azurite), which can be stopped and started again.

use std::fs::File;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::Scratch;
use crate::needs::wait_until;
use crate::s3_server::{cached, free_port};

/// Where `scripts/setup` puts it.
const PLACE: &str = "atrest/azurite-3.37.0/node_modules/azurite/dist/src/blob/main.js";
const ACCOUNT: &str = "atresttest";
const KEY: &str = "bm90IGEgc2VjcmV0IG9mIGFueWJvZHk=";
/// What it says once it listens.
const LISTENS: &str = "successfully listens";

/// A server that runs until this is dropped, with one container.
#[derive(Debug)]
pub struct Azurite {
    child: Child,
    data: Scratch,
    port: u16,
    /// Certificate and key, if it speaks TLS.
    tls: Option<PathBuf>,
}

impl Azurite {
    /// The name of its container.
    pub const CONTAINER: &str = "disks";

    /// Starts a new one.
    ///
    /// # Panics
    /// When it is missing.
    pub fn new() -> Self {
        Self::with(Scratch::new(), None)
    }

    /// Starts a new one that speaks TLS, with what [`Pki::server`](crate::Pki::server) has. It takes tokens as well as keys.
    ///
    /// # Panics
    /// When it is missing.
    pub fn with_tls(directory: PathBuf) -> Self {
        // Its container is made in the clear.
        let mut made = Self::new();
        made.stop();
        made.tls = Some(directory);
        made.restart();
        made
    }

    fn with(data: Scratch, tls: Option<PathBuf>) -> Self {
        let (child, port) = loop {
            let port = free_port();
            // Somebody else may have been faster.
            if let Some(child) = start(&data, port, tls.as_deref()) {
                break (child, port);
            }
        };
        let made = Self { child, data, port, tls };
        made.ask(&["make", Self::CONTAINER], "");
        made
    }

    /// Stops it, whatever it does, by SIGTERM: it writes what it has in memory only every few seconds, or then. Objects stay.
    pub fn stop(&mut self) {
        if self.child.try_wait().expect("a child").is_some() {
            return;
        }
        let stopped = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill starts");
        assert!(stopped.success(), "it can be stopped");
        wait_until("Azurite has ended", || self.child.try_wait().expect("a child").is_some());
    }

    /// Starts it again, at the same port.
    pub fn restart(&mut self) {
        self.stop();
        let mut new = None;
        wait_until("Azurite has its port again", || {
            new = start(&self.data, self.port, self.tls.as_deref());
            new.is_some()
        });
        self.child = new.expect("it was waited for");
    }

    /// What our program finds it by, and is known to it by: by a key of the account.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut environment = self.place();
        environment.push(("AZURE_STORAGE_KEY", KEY.into()));
        environment
    }

    /// What our program finds it by, without credentials.
    pub fn place(&self) -> Vec<(&'static str, String)> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        vec![
            ("AZURE_STORAGE_ACCOUNT", ACCOUNT.into()),
            ("AZURE_STORAGE_SERVICE_ENDPOINT", format!("{scheme}://127.0.0.1:{}/{ACCOUNT}", self.port)),
            ("AZURE_CONFIG_DIR", "/nonexistent".into()),
        ]
    }

    /// A connection string with the account's key.
    pub fn connection_string(&self) -> String {
        let endpoint = format!("http://127.0.0.1:{}/{ACCOUNT}", self.port);
        format!(
            "DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint};"
        )
    }

    /// A shared access signature of the account with these permissions, such as `rl`.
    pub fn signature(&self, permissions: &str) -> String {
        self.ask(&["signature", permissions], "").trim().into()
    }

    /// Makes empty blobs of these names, in which nothing needs to be encoded.
    pub fn put_all(&self, names: &[String]) {
        self.ask(&["put", Self::CONTAINER], &names.join("\n"));
    }

    /// Removes the container.
    pub fn remove_container(&self) {
        self.ask(&["remove", Self::CONTAINER], "");
    }

    /// The port at which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory with all that it keeps. It is whole while the server is stopped.
    pub fn data(&self) -> &Path {
        self.data.as_path()
    }

    fn ask(&self, words: &[&str], input: &str) -> String {
        self.data.file("input", input);
        let mut program = Command::new("node");
        program.args(["-e", include_str!("azurite.js"), ACCOUNT, KEY, &self.port.to_string()]).args(words);
        program.stdin(File::open(self.data.path("input")).expect("it was written"));
        let ran = program.output().expect("node starts");
        assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }
}

impl Default for Azurite {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Azurite {
    fn drop(&mut self) {
        // What it keeps goes, too. One that ended by itself is none to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that listens; `None` if it ended because somebody else has the port.
fn start(data: &Scratch, port: u16, tls: Option<&Path>) -> Option<Child> {
    let mut server = Command::new("node");
    server.args(["-e", include_str!("azurite_start.js")]).arg(cached(PLACE));
    server.args(["--disableTelemetry", "--blobPort", &port.to_string()]);
    server.arg("--location").arg(data.as_path());
    if let Some(directory) = tls {
        server.arg("--cert").arg(directory.join("server-cert.pem"));
        server.arg("--key").arg(directory.join("server-key.pem"));
        server.args(["--oauth", "basic"]);
    }
    server.env("AZURITE_ACCOUNTS", format!("{ACCOUNT}:{KEY}"));
    let said = data.path("said");
    let out = File::create(&said).expect("a file");
    let errors = out.try_clone().expect("a file");
    server.stdin(Stdio::null()).stdout(out).stderr(errors);
    let mut child = server.spawn().expect("node is missing: `scripts/setup` installs it");
    wait_until("Azurite listens or ends", || {
        let listens = std::fs::read_to_string(&said).is_ok_and(|text| text.contains(LISTENS));
        listens && TcpStream::connect(("127.0.0.1", port)).is_ok()
            || child.try_wait().expect("a child").is_some()
    });
    child.try_wait().expect("a child").is_none().then_some(child)
}
