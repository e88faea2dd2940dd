//! Certificates, revocation lists and private keys, in the files that nbdkit, QEMU and libnbd know (nbdkit-tls(1)).

use core::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atrest_secret::SecretBytes;
use rustix::fs::OFlags;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{Error, InconsistentKeys};
use zeroize::Zeroize;

/// The authority that signs the other side's certificates.
const CA_CERT: &str = "ca-cert.pem";
/// What that authority has revoked. It may be absent.
const CA_CRL: &str = "ca-crl.pem";

/// Longest file of certificates, in bytes.
const MAX_CERTIFICATES: usize = 1 << 20;
/// Longest file of a key, in bytes.
const MAX_KEY: usize = 64 << 10;

/// The authorities of a directory.
pub fn authorities(directory: &Path) -> Result<RootCertStore, TlsError> {
    let path = directory.join(CA_CERT);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&path)? {
        roots.add(certificate).map_err(|error| unusable(&path, error))?;
    }
    Ok(roots)
}

/// What they have revoked; `None` if the directory has no list.
pub fn revoked(directory: &Path) -> Result<Option<Vec<CertificateRevocationListDer<'static>>>, TlsError> {
    let path = directory.join(CA_CRL);
    match read(&path) {
        Ok(text) => objects(&path, &text, "revocation list").map(Some),
        Err(TlsError::Read { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A certificate, with those between it and its authority, and its key.
pub fn certified(directory: &Path, certificate: &str, key: &str) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(&directory.join(certificate))?;
    let key_path = directory.join(key);
    let certified = CertifiedKey::new(chain, private_key(&key_path)?);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(error) => Err(unusable(&key_path, error)),
    }
}

/// Why certificates or keys can't be used.
#[non_exhaustive]
#[derive(Debug)]
pub enum TlsError {
    /// A file can't be read.
    Read {
        /// Its path.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
    /// A file is longer than any that makes sense.
    TooLong {
        /// Its path.
        path: PathBuf,
        /// The most bytes that it may have.
        max: usize,
    },
    /// Other users can read or change the private key, or it is theirs.
    Exposed {
        /// Its path.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
        /// Its owner.
        owner: u32,
    },
    /// A file has nothing of what it should hold.
    Nothing {
        /// Its path.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
    },
    /// No certificate can be for this name: it is neither one of DNS nor an IP address.
    Name {
        /// The name.
        name: String,
    },
    /// What a file holds can't be used.
    Unusable {
        /// Its path.
        path: PathBuf,
        /// Why.
        error: Box<dyn core::error::Error + Send + Sync>,
    },
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::Read { path, error } => write!(f, "cannot read {}: {error}", path.display()),
            TlsError::TooLong { path, max } => {
                write!(f, "{} is longer than the {max} bytes that such a file may have", path.display())
            }
            TlsError::Exposed { path, mode, owner } => write!(
                f,
                "the private key {} can be read or changed by other users (mode {mode:03o}, owner {owner})",
                path.display()
            ),
            TlsError::Nothing { path, what } => {
                write!(f, "{} holds no {what} in PEM form", path.display())
            }
            TlsError::Name { name } => {
                write!(
                    f,
                    "{name:?} is neither a name of DNS nor an IP address, so no certificate can be for it"
                )
            }
            TlsError::Unusable { path, error } => write!(f, "cannot use {}: {error}", path.display()),
        }
    }
}

impl core::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            TlsError::Read { error, .. } => Some(error),
            TlsError::Unusable { error, .. } => Some(&**error),
            _ => None,
        }
    }
}

pub fn unusable(path: &Path, error: impl Into<Box<dyn core::error::Error + Send + Sync>>) -> TlsError {
    TlsError::Unusable { path: path.into(), error: error.into() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    objects(path, &read(path)?, "certificate")
}

/// All objects of a kind; text between them and other objects are passed over.
fn objects<T: PemObject>(path: &Path, text: &[u8], what: &'static str) -> Result<Vec<T>, TlsError> {
    let objects: Vec<T> = T::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(path, error.to_string()))?;
    match objects.is_empty() {
        true => Err(TlsError::Nothing { path: path.into(), what }),
        false => Ok(objects),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |error| TlsError::Read { path: path.into(), error };
    let mut text = Vec::new();
    open(path)?.take(MAX_CERTIFICATES as u64 + 1).read_to_end(&mut text).map_err(failed)?;
    match text.len() {
        ..=MAX_CERTIFICATES => Ok(text),
        _ => Err(TlsError::TooLong { path: path.into(), max: MAX_CERTIFICATES }),
    }
}

/// Loads the private key. Our copies of its bytes are wiped.
fn private_key(path: &Path) -> Result<Arc<dyn SigningKey>, TlsError> {
    let failed = |error| TlsError::Read { path: path.into(), error };
    let mut file = open(path)?;
    let metadata = file.metadata().map_err(failed)?;
    let (mode, owner) = (metadata.mode() & 0o777, metadata.uid());
    if is_exposed(mode, owner, rustix::process::geteuid().as_raw()) {
        return Err(TlsError::Exposed { path: path.into(), mode, owner });
    }
    let mut text = SecretBytes::zeroed(MAX_KEY + 1);
    let mut len = 0;
    while len < text.len() {
        match file.read(&mut text[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    if len > MAX_KEY {
        return Err(TlsError::TooLong { path: path.into(), max: MAX_KEY });
    }
    let nothing = |_| TlsError::Nothing { path: path.into(), what: "private key without a password" };
    let mut key = PrivateKeyDer::from_pem_slice(&text[..len]).map_err(nothing)?;
    let signing = ring::sign::any_supported_type(&key);
    key.zeroize();
    signing.map_err(|error| unusable(path, error))
}

/// PostgreSQL's rule: only the user may be able to read a key of their own. A key of root's may be readable by a group,
/// such as Debian's `ssl-cert`.
fn is_exposed(mode: u32, owner: u32, user: u32) -> bool {
    match owner {
        0 => mode & 0o037 != 0,
        _ => owner != user || mode & 0o077 != 0,
    }
}

/// Opens a regular file: nothing that could keep us waiting.
fn open(path: &Path) -> Result<File, TlsError> {
    let failed = |error| TlsError::Read { path: path.into(), error };
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .map_err(failed)?;
    match file.metadata().map_err(failed)?.is_file() {
        true => Ok(file),
        false => Err(failed(io::Error::other("it is not a regular file"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_others_can_read_or_change_is_exposed() {
        for (mode, owner, user, exposed) in [
            (0o600, 1000, 1000, false),
            (0o400, 1000, 1000, false),
            (0o640, 1000, 1000, true),
            (0o604, 1000, 1000, true),
            (0o620, 1000, 1000, true),
            (0o640, 0, 1000, false),
            (0o640, 0, 0, false),
            (0o660, 0, 0, true),
            (0o644, 0, 0, true),
            (0o600, 1001, 1000, true),
            (0o600, 1001, 0, true),
        ] {
            assert_eq!(is_exposed(mode, owner, user), exposed, "{mode:o} {owner} {user}");
        }
    }
}
