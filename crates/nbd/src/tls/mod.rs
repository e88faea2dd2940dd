//! TLS under NBD: 1.3, and 1.2 with forward secrecy, by rustls. Certificates are in files with the names that nbdkit and
//! QEMU give them.

mod client;
mod files;
mod server;
mod session;

pub use client::ClientTls;
pub use files::TlsError;
pub use server::Tls;
pub(crate) use session::Session;
