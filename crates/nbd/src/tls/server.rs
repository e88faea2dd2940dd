//! What a server shows its clients, and whom it lets in.

use core::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{Error, ServerConfig, ServerConnection, version};

use super::files::{TlsError, authorities, certified, revoked, unusable};
use super::session::Session;
use crate::wire::WireError;

const SERVER_CERT: &str = "server-cert.pem";
const SERVER_KEY: &str = "server-key.pem";

/// What a server needs for TLS: its certificate and key, and whether clients need certificates too.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    verifies_peer: bool,
}

impl Tls {
    /// Loads the files of a directory: `server-cert.pem` (the server's certificate, and those between it and its
    /// authority) and `server-key.pem`. With `verify_peer` also `ca-cert.pem`, whose authorities sign the certificates
    /// of clients, and `ca-crl.pem` if there is one; then no client without such a certificate is served.
    ///
    /// TLS 1.3 and 1.2 are spoken, both with forward secrecy. No session is resumed.
    ///
    /// # Errors
    /// [`TlsError::Read`] and [`TlsError::TooLong`] for a file that can't be read, [`TlsError::Exposed`] for a
    /// private key that other users can read. [`TlsError::Nothing`] and [`TlsError::Unusable`] for a file that does
    /// not hold what it should.
    pub fn load(directory: &Path, verify_peer: bool) -> Result<Self, TlsError> {
        let certified = certified(directory, SERVER_CERT, SERVER_KEY)?;
        let unusable = |error: Error| unusable(directory, error);
        let versions = [&version::TLS13, &version::TLS12];
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&versions)
            .map_err(unusable)?;
        let builder = match verify_peer {
            true => builder.with_client_cert_verifier(verifier(directory)?),
            false => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        // Each connection shows its certificate, and there is no key of tickets to keep.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), verifies_peer: verify_peer })
    }

    /// The beginning of one client's connection.
    pub(crate) fn begin(&self) -> Result<Session, WireError> {
        Ok(Session::new(ServerConnection::new(self.config.clone()).map_err(WireError::tls)?))
    }

    /// Whether only clients with a certificate of the authority are served.
    pub fn verifies_peer(&self) -> bool {
        self.verifies_peer
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("verifies_peer", &self.verifies_peer).finish_non_exhaustive()
    }
}

/// Lets in who has a certificate of the directory's authority that is not revoked and has not run out.
fn verifier(directory: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let roots = Arc::new(authorities(directory)?);
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
    if let Some(lists) = revoked(directory)? {
        // What a list that has run out says of today is not known, so nobody gets in.
        builder = builder.with_crls(lists).enforce_revocation_expiration();
    }
    builder.build().map_err(|error| unusable(directory, error))
}
