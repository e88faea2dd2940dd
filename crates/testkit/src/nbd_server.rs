//! NBD servers that know nothing of our code: nbdkit and qemu-nbd.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::process::{Child, Stdio};

use crate::Scratch;
use crate::oracle::Program;

/// A server that runs until this is dropped. Its socket listens before it starts, so nobody has to wait for it, and no port
/// is taken by somebody else.
#[derive(Debug)]
pub struct NbdServer {
    child: Child,
    /// Where its socket is, if it has one of its own.
    _scratch: Scratch,
    address: String,
}

impl NbdServer {
    /// Starts nbdkit on a Unix socket with these arguments.
    ///
    /// # Panics
    /// When it is missing; so do all others here.
    pub fn nbdkit<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Self {
        Self::on_socket("nbdkit", &["--foreground"], arguments)
    }

    /// Starts nbdkit on a port of 127.0.0.1.
    pub fn nbdkit_by_tcp<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("127.0.0.1:{}", listener.local_addr().expect("its address").port());
        Self::start("nbdkit", &["--foreground"], arguments, listener.into(), Scratch::new(), address)
    }

    /// Starts qemu-nbd on a Unix socket with these arguments. It serves until the last client has gone unless one of them
    /// is `--persistent`.
    pub fn qemu<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Self {
        Self::on_socket("qemu-nbd", &[], arguments)
    }

    fn on_socket<A: AsRef<OsStr>>(
        program: &str,
        first: &[&str],
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        let scratch = Scratch::new();
        let path = scratch.path("nbd.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let address = format!("?socket={}", path.display());
        Self::start(program, first, arguments, listener.into(), scratch, address)
    }

    /// By the protocol of systemd (sd_listen_fds(3)), which both programs know: the socket is descriptor 3.
    fn start<A: AsRef<OsStr>>(
        program: &str,
        first: &[&str],
        arguments: impl IntoIterator<Item = A>,
        listener: OwnedFd,
        scratch: Scratch,
        address: String,
    ) -> Self {
        let mut command = Program::named("bash")
            .args(["-c", "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\""])
            .arg(crate::oracle::tool(program))
            .args(first)
            .args(arguments)
            .into_command();
        command.stdin(Stdio::from(listener)).stdout(Stdio::null());
        let child = command.spawn().expect("the server starts");
        Self { child, _scratch: scratch, address }
    }

    /// The URI of its default export.
    pub fn uri(&self) -> String {
        self.uri_of("")
    }

    /// The URI of an export.
    pub fn uri_of(&self, export: &str) -> String {
        self.with_scheme("nbd", export)
    }

    /// The URI of its default export under TLS, with a client's directory of certificates.
    pub fn tls_uri(&self, certificates: &std::path::Path) -> String {
        let uri = self.with_scheme("nbds", "");
        let joint = if uri.contains('?') { '&' } else { '?' };
        format!("{uri}{joint}tls-certificates={}", certificates.display())
    }

    fn with_scheme(&self, scheme: &str, export: &str) -> String {
        match self.address.strip_prefix('?') {
            Some(socket) => format!("{scheme}+unix:///{export}?{socket}"),
            None => format!("{scheme}://{}/{export}", self.address),
        }
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, as a power loss of its machine would.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("its end");
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        // One that ended by itself is none to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
