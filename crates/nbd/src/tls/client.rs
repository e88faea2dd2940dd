//! Which server a client trusts, and what it shows it.

use core::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, Error, version};

use super::files::{TlsError, authorities, certified, revoked, unusable};
use super::session::Session;
use crate::wire::WireError;

const CLIENT_CERT: &str = "client-cert.pem";
const CLIENT_KEY: &str = "client-key.pem";

/// What a client needs for TLS with one server.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl ClientTls {
    /// Loads the files of a directory, to speak with the server of this name or IP address: `ca-cert.pem`, whose
    /// authorities sign the certificates of servers, and `ca-crl.pem` if there is one. If the directory has
    /// `client-cert.pem` and `client-key.pem`, the server is shown that certificate.
    ///
    /// TLS 1.3 and 1.2 are spoken, both with forward secrecy.
    ///
    /// # Errors
    /// [`TlsError::Name`] if the name is neither one of DNS nor an IP address; otherwise those of
    /// [`Tls::load`](super::Tls::load).
    pub fn load(directory: &Path, name: &str) -> Result<Self, TlsError> {
        let name = ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name { name: name.into() })?;
        let provider = Arc::new(ring::default_provider());
        let roots = Arc::new(authorities(directory)?);
        let mut verifier = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
        if let Some(lists) = revoked(directory)? {
            // What a list that has run out says of today is not known, so no server is trusted.
            verifier = verifier.with_crls(lists).enforce_revocation_expiration();
        }
        let verifier = verifier.build().map_err(|error| unusable(directory, error))?;
        let versions = [&version::TLS13, &version::TLS12];
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error: Error| unusable(directory, error))?
            .with_webpki_verifier(verifier);
        // One of the two files alone is a mistake, which loading both tells.
        let has_own = [CLIENT_CERT, CLIENT_KEY].iter().any(|file| directory.join(file).exists());
        let mut config = match has_own {
            true => builder.with_client_cert_resolver(own(certified(directory, CLIENT_CERT, CLIENT_KEY)?)),
            false => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), name })
    }

    /// The beginning of a connection.
    pub(crate) fn begin(&self) -> Result<Session, WireError> {
        let connection = ClientConnection::new(self.config.clone(), self.name.clone());
        Ok(Session::new(connection.map_err(WireError::tls)?))
    }
}

fn own(certified: CertifiedKey) -> Arc<dyn ResolvesClientCert> {
    Arc::new(SingleCertAndKey::from(certified))
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("name", &self.name).finish_non_exhaustive()
    }
}
