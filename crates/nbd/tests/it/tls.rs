//! The client under TLS, with nbdkit's server (GnuTLS).

use std::path::Path;

use atrest_device::BlockDevice;
use atrest_nbd::tls::TlsError;
use atrest_nbd::wire::WireError;
use atrest_nbd::{ConnectError, Export};
use atrest_testkit::{NbdServer, Pki, Random, Scratch};

use crate::common::{connect, try_connect};

const SIZE: usize = 1 << 20;

/// A server that shows what `pki` says it is.
fn serving(pki: &Pki, more: &[&str], path: &Path) -> NbdServer {
    NbdServer::nbdkit_by_tcp(words(pki, more, path))
}

fn words(pki: &Pki, more: &[&str], path: &Path) -> Vec<String> {
    let tls = [String::from("--tls=require"), format!("--tls-certificates={}", pki.server().display())];
    let file = [String::from("file"), path.display().to_string()];
    tls.into_iter().chain(more.iter().map(|word| (*word).to_owned())).chain(file).collect()
}

/// Whether TLS failed for a reason that says this.
fn tls_failed(connected: Result<Export, ConnectError>, says: &str) {
    let error = connected.expect_err("is not trusted");
    assert!(matches!(error, ConnectError::Wire(WireError::Tls(_))), "{error:?}");
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn every_byte_goes_over_several_connections_under_tls() {
    let scratch = Scratch::new();
    let mut bytes = Random::new(3).bytes(SIZE);
    let path = scratch.file("disk", &bytes);
    for keys in ["ec -pkeyopt ec_paramgen_curve:P-256", "rsa:2048"] {
        let pki = Pki::with_keys(keys);
        let server = serving(&pki, &["--tls-verify-peer"], &path);
        let export = connect(&server.tls_uri(&pki.client()));
        std::thread::scope(|scope| {
            for (index, part) in bytes.chunks_mut(SIZE / 8).enumerate() {
                let export = &export;
                scope.spawn(move || {
                    let (at, mut read) = ((index * SIZE / 8) as u64, vec![0; part.len()]);
                    export.read_at(at, &mut read).expect("reads");
                    assert!(read == part);
                    part.reverse();
                    export.write_at(at, part).expect("writes");
                });
            }
        });
        export.flush().expect("flushes");
        assert!(std::fs::read(&path).expect("the file") == bytes);
    }
}

#[test]
fn a_server_is_trusted_by_its_authority_its_name_and_its_date() {
    let scratch = Scratch::new();
    let path = scratch.file("disk", vec![7; SIZE]);
    let (pki, other) = (Pki::new(), Pki::new());
    let server = serving(&pki, &[], &path);
    let uri = server.tls_uri(&pki.nobody());
    connect(&uri);
    connect(&format!("{uri}&tls-hostname=localhost"));
    tls_failed(try_connect(&format!("{uri}&tls-hostname=example.com")), "not valid for name");
    tls_failed(try_connect(&server.tls_uri(&other.client())), "invalid peer certificate");
    let odd = try_connect(&format!("{uri}&tls-hostname=a%20b")).expect_err("no name");
    assert!(matches!(odd, ConnectError::Tls(TlsError::Name { .. })), "{odd:?}");

    // A Unix socket's server is on this host.
    let server = NbdServer::nbdkit(words(&pki, &[], &path));
    let uri = server.tls_uri(&pki.nobody());
    connect(&uri);
    tls_failed(try_connect(&format!("{uri}&tls-hostname=example.com")), "not valid for name");
}

#[test]
fn a_revoked_server_is_not_trusted() {
    let scratch = Scratch::new();
    let path = scratch.file("disk", vec![7; SIZE]);
    let pki = Pki::new();
    let server = serving(&pki, &[], &path);
    for (revoked, has_run_out, says) in
        [(false, false, None), (true, false, Some("Revoked")), (false, true, Some("list expired"))]
    {
        let list = pki.revocation_list("server", revoked, has_run_out);
        std::fs::copy(list, pki.nobody().join("ca-crl.pem")).expect("a copy");
        let connected = try_connect(&server.tls_uri(&pki.nobody()));
        match says {
            Some(says) => tls_failed(connected, says),
            None => drop(connected.expect("connects")),
        }
    }
}

#[test]
fn a_server_that_wants_to_know_its_clients_gets_their_certificate() {
    let scratch = Scratch::new();
    let path = scratch.file("disk", vec![7; SIZE]);
    let pki = Pki::new();
    let server = serving(&pki, &["--tls-verify-peer"], &path);
    connect(&server.tls_uri(&pki.client()));
    // Under TLS 1.3 a client learns that it is not wanted once it asks for something.
    let error = try_connect(&server.tls_uri(&pki.nobody())).expect_err("is not let in");
    assert!(matches!(error, ConnectError::Wire(_)), "{error:?}");
    std::fs::remove_file(pki.client().join("client-key.pem")).expect("a key");
    let error = try_connect(&server.tls_uri(&pki.client())).expect_err("half a pair");
    assert!(matches!(error, ConnectError::Tls(TlsError::Read { .. })), "{error:?}");
}

#[test]
fn with_tls_and_without_are_not_mixed_up() {
    let scratch = Scratch::new();
    let path = scratch.file("disk", vec![7; SIZE]);
    let pki = Pki::new();
    let server = serving(&pki, &[], &path);
    assert!(matches!(try_connect(&server.uri()), Err(ConnectError::TlsRequired)));
    assert!(matches!(
        try_connect(&server.uri().replace("nbd://", "nbds://")),
        Err(ConnectError::NoCertificates)
    ));
    for flag in ["--tls=off", "--mask-handshake=0"] {
        let server = NbdServer::nbdkit_by_tcp([flag, "file", path.to_str().expect("plain letters")]);
        assert!(matches!(try_connect(&server.tls_uri(&pki.client())), Err(ConnectError::TlsRefused { .. })));
    }
}
