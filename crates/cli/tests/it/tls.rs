//! `open --nbd-tcp` with TLS and without.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use atrest_testkit::Pki;

use crate::common::Scratch;

const KEY: [&str; 2] = ["--key-file", "key"];

/// A volume, and certificates in the directories `server` and `client` beside it.
fn volume_and_certificates() -> Scratch {
    let (scratch, pki) = (Scratch::with_volume(), Pki::new());
    for (name, from) in [("server", pki.server()), ("client", pki.client())] {
        let directory = scratch.directory(name);
        for entry in fs::read_dir(from).expect("the certificates") {
            let path = entry.expect("a file").path();
            fs::copy(&path, directory.join(path.file_name().expect("a name"))).expect("a copy");
        }
    }
    scratch
}

fn open(scratch: &Scratch, more: &[&str]) -> crate::common::Ran {
    scratch.atrest(&[&["open", "vol"], &KEY[..], more].concat())
}

/// In the directory with the certificates of a client; `$DIR` is put behind the URI.
const COPY: &str = "nbdcopy new \"$ATREST_URI?tls-certificates=$PWD/client\" && \
                    nbdcopy \"$ATREST_URI?tls-certificates=$PWD/client\" back && \
                    echo \"$ATREST_URI\" && nbdinfo \"nbd${ATREST_URI#nbds}\"; echo $?";

#[test]
fn what_a_client_writes_by_tls_is_in_the_volume_and_nobody_is_served_without() {
    let scratch = volume_and_certificates();
    scratch.atrest(&[&["decrypt", "vol", "old"], &KEY[..]].concat()).ok();
    let new: Vec<u8> = scratch.read("old").iter().enumerate().map(|(at, byte)| byte ^ at as u8).collect();
    scratch.file("new", &new);
    let tcp = ["--nbd-tcp", "127.0.0.1:0", "--tls-cert", "server"];
    let run = ["--run", "bash", "-c", COPY];

    let ran = open(&scratch, &[&tcp[..], &["--tls-verify-peer"], &run].concat()).ok();
    assert!(ran.stdout.starts_with("nbds://127.0.0.1:"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("\n1\n") && !ran.stdout.contains("export-size"), "{}", ran.stdout);
    assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
    assert!(scratch.read("back") == new);
    scratch.atrest(&[&["decrypt", "vol", "plain"], &KEY[..]].concat()).ok();
    assert!(scratch.read("plain") == new, "another program reads the same");

    // A client that shows no certificate, where it needs one and where it does not.
    scratch.bash("mkdir nobody && cp client/ca-cert.pem nobody").ok();
    let info = "nbdinfo --size \"$ATREST_URI?tls-certificates=$PWD/nobody\"";
    let run = ["--run", "bash", "-c", info];
    let refused = open(&scratch, &[&tcp[..], &["--tls-verify-peer"], &run].concat());
    assert!(refused.code == 1 && refused.stdout.is_empty(), "{}{}", refused.stdout, refused.stderr);
    let served = open(&scratch, &[&tcp[..], &run].concat()).fails(0, "clients need no certificate");
    assert_eq!(served.stdout.trim(), new.len().to_string());
}

#[test]
fn a_daemon_tells_where_it_serves_by_tls() {
    let scratch = volume_and_certificates();
    let name = scratch.session();
    // Relative: the daemon leaves the directory it was started in.
    let words = ["--daemon", "--json", "--name", &name, "--nbd-tcp", "127.0.0.1:0", "--tls-cert", "server"];
    let ready = open(&scratch, &words).ok().json();
    let status = scratch.atrest(&["status", "--json", &name]).ok().json();
    scratch.atrest(&["close", &name]).ok();
    let uri = ready["uri"].as_str().expect("a URI");
    assert!(uri.starts_with("nbds://127.0.0.1:"), "{uri}");
    assert_eq!(status[0]["kind"]["nbd-tcp"]["uri"], uri, "{status}");
}

#[test]
fn other_machines_are_served_by_tls_or_by_who_says_that_it_is_insecure() {
    let scratch = volume_and_certificates();
    let everywhere = ["--nbd-tcp", "0.0.0.0:0"];
    let run = ["--run", "sh", "-c", "echo $ATREST_URI"];
    open(&scratch, &[&everywhere[..], &run].concat()).fails(1, "other machines");
    open(&scratch, &[&everywhere[..], &run].concat()).fails(1, "--tls-cert DIR");
    let secure = ["--tls-cert", "server", "--tls-verify-peer"];
    let ran = open(&scratch, &[&everywhere[..], &secure, &run].concat()).ok();
    assert!(ran.stdout.starts_with("nbds://0.0.0.0:"), "{}", ran.stdout);
    let ran = open(&scratch, &[&everywhere[..], &["--insecure"], &run].concat()).fails(0, "on the way");
    assert!(ran.stdout.starts_with("nbd://0.0.0.0:"), "{}", ran.stdout);
}

#[test]
fn options_of_tls_that_mean_nothing_are_refused() {
    let scratch = volume_and_certificates();
    let tcp = ["--nbd-tcp", "127.0.0.1:0"];
    for other in [["--nbd", "sock"], ["--fuse", "mnt"], ["--dm", "name"]] {
        for option in [&["--tls-cert", "server"][..], &["--insecure"]] {
            open(&scratch, &[&other[..], option].concat()).fails(1, "cannot be used with");
        }
    }
    open(&scratch, &[&tcp[..], &["--tls-verify-peer"]].concat()).fails(1, "--tls-cert");
    open(&scratch, &[&tcp[..], &["--tls-cert", "server", "--insecure"]].concat()).fails(1, "cannot be used");
}

/// Before anybody types a passphrase: there is no terminal, so a question would be another error.
#[test]
fn certificates_that_do_not_do_are_told_before_a_passphrase_is_wanted() {
    let scratch = volume_and_certificates();
    let open = || {
        let tls = ["--nbd-tcp", "127.0.0.1:0", "--tls-cert", "server", "--tls-verify-peer"];
        scratch.atrest(&[&["open", "vol"], &tls[..]].concat())
    };
    open().fails(1, "terminal");
    let key = scratch.path("server/server-key.pem");
    fs::set_permissions(&key, Permissions::from_mode(0o644)).expect("open it to others");
    open().fails(2, "chmod 600 server/server-key.pem");
    fs::remove_file(&key).expect("remove it");
    open().fails(4, "server/server-key.pem");
    scratch.file("server/server-key.pem", b"no key");
    open().fails(1, "holds no private key");
    scratch.file("server/ca-crl.pem", b"no list");
    scratch.bash("cp client/client-key.pem server/server-key.pem").ok();
    open().fails(1, "cannot use server/server-key.pem");
}
