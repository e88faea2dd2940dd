//! TLS, with the authorities that this machine trusts.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore, version};

use crate::CloudError;

/// Where distributions keep the certificates of all authorities in one file.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Longest such file.
const MOST: u64 = 8 << 20;

/// A client that trusts the authorities of a file, or those of this machine.
pub(crate) fn config(authorities: Option<&Path>) -> Result<Arc<ClientConfig>, CloudError> {
    let path = match authorities {
        Some(path) => path,
        None => BUNDLES.iter().map(Path::new).find(|path| path.exists()).ok_or(CloudError::NoAuthorities)?,
    };
    let unusable = || CloudError::File { path: path.into() };
    let mut text = Vec::new();
    let file = File::open(path).map_err(|_| unusable())?;
    let len = file.take(MOST + 1).read_to_end(&mut text).map_err(|_| unusable())?;
    if len as u64 > MOST {
        return Err(unusable());
    }
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        // One that can't be used is no reason to trust none of the others.
        let _ = roots.add(certificate.map_err(|_| unusable())?);
    }
    if roots.is_empty() {
        return Err(CloudError::NoAuthorities);
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(|_| CloudError::NoAuthorities)?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
