//! Certificates for TLS, made by OpenSSL for one test: an authority, a server and a client, in directories as nbdkit, QEMU
//! and libnbd want them. They are valid for two days, and nobody keeps them.

use std::fs;
use std::path::PathBuf;

use crate::Scratch;

/// One authority and what it has signed.
#[derive(Debug)]
pub struct Pki {
    scratch: Scratch,
    algorithm: String,
}

impl Default for Pki {
    fn default() -> Self {
        Self::new()
    }
}

impl Pki {
    /// An authority and certificates with keys on the curve P-256.
    ///
    /// # Panics
    /// When OpenSSL is missing or refuses; so do all others here.
    pub fn new() -> Self {
        Self::with_keys("ec -pkeyopt ec_paramgen_curve:P-256")
    }

    /// An authority and certificates with keys of a kind, named as OpenSSL's `req -newkey` takes it.
    pub fn with_keys(keys: &str) -> Self {
        let pki = Self { scratch: Scratch::new(), algorithm: keys.into() };
        pki.openssl(&format!(
            "req -x509 -newkey {keys} -nodes -keyout ca-key.pem -out ca-cert.pem -days 2 -subj /CN=authority \
             -addext keyUsage=critical,keyCertSign,cRLSign"
        ));
        pki.sign("server", "serverAuth", "subjectAltName=IP:127.0.0.1,DNS:localhost");
        pki.sign("client", "clientAuth", "");
        for holder in ["server", "client", "nobody"] {
            let directory = pki.scratch.directory(holder);
            fs::copy(pki.scratch.path("ca-cert.pem"), directory.join("ca-cert.pem")).expect("a copy");
            for part in ["cert", "key"].map(|part| format!("{holder}-{part}.pem")) {
                if holder != "nobody" {
                    fs::rename(pki.scratch.path(&part), directory.join(&part)).expect("a certificate");
                }
            }
        }
        pki
    }

    /// What a server needs: `ca-cert.pem`, `server-cert.pem`, `server-key.pem`. The certificate is for 127.0.0.1 and
    /// localhost.
    pub fn server(&self) -> PathBuf {
        self.scratch.path("server")
    }

    /// What a client needs: `ca-cert.pem`, `client-cert.pem`, `client-key.pem`.
    pub fn client(&self) -> PathBuf {
        self.scratch.path("client")
    }

    /// What a client has that has no certificate: `ca-cert.pem`.
    pub fn nobody(&self) -> PathBuf {
        self.scratch.path("nobody")
    }

    /// Gives the server a revocation list, with the client on it or with nobody. One that has run out is of the last century.
    pub fn revoke(&self, client: bool, has_run_out: bool) {
        let list = self.revocation_list("client", client, has_run_out);
        fs::rename(list, self.server().join("ca-crl.pem")).expect("a revocation list");
    }

    /// Makes a revocation list, with the server or the client on it or with nobody. One that has run out is of the last
    /// century.
    pub fn revocation_list(&self, holder: &str, revoked: bool, has_run_out: bool) -> PathBuf {
        self.scratch.file("index", b"");
        self.scratch.file("number", b"01\n");
        let words =
            "[ca]\ndefault_ca = it\n[it]\ndatabase = index\ncrlnumber = number\ndefault_md = sha256\n";
        self.scratch.file("config", words);
        let ca = "ca -config config -keyfile ca-key.pem -cert ca-cert.pem";
        if revoked {
            self.openssl(&format!("{ca} -revoke {holder}/{holder}-cert.pem"));
        }
        let times = match has_run_out {
            true => "-crl_lastupdate 990101000000Z -crl_nextupdate 990102000000Z",
            false => "-crldays 2",
        };
        self.openssl(&format!("{ca} -gencrl {times} -out list.pem"));
        self.scratch.path("list.pem")
    }

    fn sign(&self, name: &str, usage: &str, more: &str) {
        let extensions = format!(
            "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature,keyEncipherment\n\
             extendedKeyUsage={usage}\n{more}\n"
        );
        self.scratch.file("extensions", extensions);
        let keys = &self.algorithm;
        self.openssl(&format!(
            "req -newkey {keys} -nodes -keyout {name}-key.pem -out request -subj /CN={name}"
        ));
        self.openssl(&format!(
            "x509 -req -in request -CA ca-cert.pem -CAkey ca-key.pem -CAcreateserial -days 2 \
             -extfile extensions -out {name}-cert.pem"
        ));
    }

    fn openssl(&self, words: &str) {
        self.scratch.tool("openssl").words(words).ok();
    }
}
