//! TLS under NBD: 1.3, and 1.2 with forward secrecy, by rustls. Certificates are in files with the names that nbdkit and
//! QEMU give them.

mod credentials;
mod session;

pub use credentials::{Tls, TlsError};
pub(super) use session::Session;
