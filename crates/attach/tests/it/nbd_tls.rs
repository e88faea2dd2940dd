//! NBD over TLS with the clients that people use: libnbd and QEMU (GnuTLS), fio, and OpenSSL.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;

use crate::common::raw::*;
use crate::common::{Memory, Serving, run, try_run};
use atrest_attach::nbd::{BindError, Endpoint, Options, Server, Tls, TlsError};
use atrest_testkit::oracle::Program;
use atrest_testkit::{Pki, Scratch};

const SIZE: u64 = 8 << 20;

/// Options of a server with these certificates.
pub fn with_tls(pki: &Pki, verify_peer: bool) -> Options {
    Options { tls: Some(Tls::load(&pki.server(), verify_peer).unwrap()), ..Options::default() }
}

/// What libnbd is told, and where its certificates are. On a Unix socket it does not look at the server's.
pub fn uri(serving: &Serving, certificates: &Path) -> String {
    let uri = &serving.uri;
    let joint = if uri.contains('?') { '&' } else { '?' };
    format!("{uri}{joint}tls-certificates={}", certificates.display())
}

/// On a port, where clients look at the server's certificate.
fn serving(pki: &Pki, verify_peer: bool) -> (Arc<Memory>, Serving) {
    let memory = Arc::new(Memory::new(SIZE));
    (memory.clone(), Serving::by_tcp(memory, with_tls(pki, verify_peer)))
}

/// A program of QEMU's, with GnuTLS's words for what is spoken. It looks at the server's certificate.
fn qemu(program: &str, serving: &Serving, certificates: &Path, priority: &str, words: &[&str]) -> Program {
    let port = serving.uri.trim_matches(|letter: char| !letter.is_ascii_digit()).rsplit(':').next().unwrap();
    let credentials = format!("tls-creds-x509,id=t,dir={},endpoint=client{priority}", certificates.display());
    let image = format!("driver=raw,file.driver=nbd,file.host=127.0.0.1,file.port={port},file.tls-creds=t");
    let (command, words) = words.split_at(usize::from(program == "qemu-img"));
    let program = Program::named(program).args(command).args(["--object", &credentials, "--image-opts"]);
    program.args(words).arg(image)
}

#[test]
fn libnbd_reads_and_writes_every_byte_over_several_connections() {
    let pki = Pki::new();
    for (verify_peer, certificates) in [(false, pki.nobody()), (true, pki.client())] {
        let (memory, serving) = serving(&pki, verify_peer);
        assert!(serving.uri.starts_with("nbds://"), "{}", serving.uri);
        let uri = uri(&serving, &certificates);
        let info = run("nbdinfo", &[&uri]);
        assert!(info.contains("newstyle-fixed with TLS, using structured packets"), "{info}");
        let file = serving.directory.path("copy");
        let file = file.to_str().unwrap();
        run("nbdcopy", &["--connections=4", &uri, file]);
        assert!(fs::read(file).unwrap() == memory.copy());
        let other: Vec<u8> = memory.copy().into_iter().rev().collect();
        fs::write(file, &other).unwrap();
        run("nbdcopy", &["--connections=4", "--flush", file, &uri]);
        assert!(memory.copy() == other);
        // One request and reply of the whole size.
        let long = format!("--request-size={SIZE}");
        run("nbdcopy", &["--synchronous", &long, "--connections=1", file, &uri]);
        run("nbdcopy", &["--synchronous", &long, "--connections=1", &uri, file]);
        assert!(fs::read(file).unwrap() == other && memory.copy() == other);
    }
}

/// fio can't be told of certificates: nbdkit, which can, stands between.
#[test]
fn nbdkit_hands_on_what_fio_verifies_with_many_requests_under_way() {
    let pki = Pki::new();
    let memory = Arc::new(Memory::new(SIZE));
    let serving = Serving::with(memory.clone(), with_tls(&pki, true));
    let fio = "fio --name=verify --ioengine=nbd --uri=\"$uri\" --size=8M --verify=crc32c --verify_state_save=0 --rw=randrw";
    let before = memory.copy();
    Program::named("nbdkit")
        .words("-U - nbd tls=require")
        .arg(format!("tls-certificates={}", pki.client().display()))
        .arg(format!("socket={}", serving.socket.display()))
        .arg("--run")
        .arg(format!("{fio} --bs=4k --iodepth=32 && {fio} --bs=300k --iodepth=8"))
        .ok();
    assert!(memory.copy() != before, "nothing was written");
}

#[test]
fn qemu_reads_and_writes_by_tls_1_3_and_1_2_with_forward_secrecy_alone() {
    // RSA keys can do both, with and without forward secrecy.
    let pki = Pki::with_keys("rsa:2048");
    let (memory, serving) = serving(&pki, true);
    let io = |priority: &str, commands: &[&str]| {
        let words: Vec<&str> = commands.iter().flat_map(|command| ["-c", command]).collect();
        qemu("qemu-io", &serving, &pki.client(), priority, &words).run()
    };
    let spoken = |version: &str| format!(",priority=NORMAL:-VERS-ALL:+VERS-TLS{version}");
    for (fill, priority) in [(1, spoken("1.3")), (2, spoken("1.2")), (3, String::new())] {
        let mut expected = memory.copy();
        expected[1000..71_000].fill(fill);
        let write = format!("write -P {fill} 1000 70000");
        let read = format!("read -P {fill} 1000 70000");
        let done = io(&priority, &[&write, &read, "flush"]);
        assert!(done.is_ok() && !done.text().contains("verification failed"), "{done:?}");
        assert!(memory.copy() == expected, "{priority}");
    }
    let file = serving.directory.path("raw");
    fs::write(&file, memory.copy()).unwrap();
    let file = file.to_str().unwrap();
    let other = format!("driver=raw,file.driver=file,file.filename={file}");
    qemu("qemu-img", &serving, &pki.client(), "", &["compare", &other]).ok();

    for refused in [
        spoken("1.1"),
        spoken("1.0"),
        // The server's RSA key as what keeps the session secret.
        format!("{}:-KX-ALL:+RSA", spoken("1.2")),
    ] {
        let done = io(&refused, &["read 0 512"]);
        assert!(!done.is_ok() && !done.text().contains("read 512/512"), "{refused}: {done:?}");
    }
}

#[test]
fn each_side_serves_or_asks_nobody_but_who_has_a_certificate_of_the_authority() {
    let (pki, other) = (Pki::new(), Pki::new());
    let (_memory, serving) = serving(&pki, true);
    let size = |certificates: &Path| try_run("nbdinfo", &["--size", &uri(&serving, certificates)]);
    let qemu = |certificates: &Path| {
        let program = qemu("qemu-io", &serving, certificates, "", &["-c", "read 0 512"]).run();
        program.is_ok() && program.text().contains("read 512/512")
    };
    assert!(size(&pki.client()).is_ok() && qemu(&pki.client()));
    assert!(!size(&pki.nobody()).is_ok() && !qemu(&pki.nobody()), "a client without a certificate");
    // Trusts the server, and shows a certificate of another authority.
    let mixed = Scratch::new();
    fs::copy(pki.client().join("ca-cert.pem"), mixed.path("ca-cert.pem")).unwrap();
    for name in ["client-cert.pem", "client-key.pem"] {
        fs::copy(other.client().join(name), mixed.path(name)).unwrap();
    }
    assert!(!size(mixed.as_path()).is_ok() && !qemu(mixed.as_path()), "a certificate of somebody else");
    // Has a certificate, and does not trust the server.
    fs::copy(other.client().join("ca-cert.pem"), mixed.path("ca-cert.pem")).unwrap();
    for name in ["client-cert.pem", "client-key.pem"] {
        fs::copy(pki.client().join(name), mixed.path(name)).unwrap();
    }
    let refused = size(mixed.as_path());
    assert!(!refused.is_ok() && refused.messages().contains("certificate verification"), "{refused:?}");
    assert!(!qemu(mixed.as_path()));
    // A certificate of the authority that is for something else.
    for (name, server) in [("client-cert.pem", "server-cert.pem"), ("client-key.pem", "server-key.pem")] {
        fs::copy(pki.server().join(server), mixed.path(name)).unwrap();
    }
    fs::copy(pki.client().join("ca-cert.pem"), mixed.path("ca-cert.pem")).unwrap();
    assert!(!size(mixed.as_path()).is_ok(), "the certificate of a server");
    assert!(size(&pki.client()).is_ok(), "the server goes on");
}

#[test]
fn a_revoked_certificate_is_refused_and_so_is_everybody_under_a_list_that_has_run_out() {
    let pki = Pki::new();
    for (revoked, has_run_out, is_served) in
        [(false, false, true), (true, false, false), (false, true, false)]
    {
        pki.revoke(revoked, has_run_out);
        let (_memory, serving) = serving(&pki, true);
        let size = try_run("nbdinfo", &["--size", &uri(&serving, &pki.client())]);
        assert_eq!(size.is_ok(), is_served, "{size:?}");
    }
}

/// OpenSSL's client knows no NBD: the test says the words before TLS, and hands the rest on.
#[test]
fn a_client_may_change_its_keys_and_is_told_when_the_connection_ends_in_order() {
    let pki = Pki::new();
    let serving = Serving::with(Arc::new(Memory::new(SIZE)), with_tls(&pki, false));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut client = Program::named("openssl")
        .words("s_client -verify_return_error -verify_hostname localhost -CAfile")
        .arg(pki.nobody().join("ca-cert.pem"))
        .args(["-connect", &address])
        .into_command()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (to_client, _) = listener.accept().unwrap();
    let mut raw = Raw::connect(&serving.socket);
    assert_eq!(raw.option(STARTTLS, &[]), [(ACK, vec![])]);
    raw.stream.set_read_timeout(None).unwrap();
    let relays = [
        relay(to_client.try_clone().unwrap(), raw.stream.try_clone().unwrap()),
        relay(raw.stream.try_clone().unwrap(), to_client.try_clone().unwrap()),
    ];
    let mut stdin = client.stdin.take().unwrap();
    let mut stdout = client.stdout.take().unwrap();
    let mut errors = BufReader::new(client.stderr.take().unwrap());
    for _ in 0..3 {
        // A wish for new keys on both sides.
        stdin.write_all(b"K\n").unwrap();
        let mut line = String::new();
        while !line.contains("KEYUPDATE") {
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "OpenSSL has ended");
        }
        let list = [&b"IHAVEOPT"[..], &3u32.to_be_bytes(), &0u32.to_be_bytes()].concat();
        stdin.write_all(&list).unwrap();
        // Its name (none) and the end of the list.
        let reply =
            [&REPLY_MAGIC[..], &3u32.to_be_bytes(), &1u32.to_be_bytes(), &0u32.to_be_bytes()].concat();
        read_until(&mut stdout, &reply);
    }
    serving.stop().unwrap();
    let mut last = String::new();
    stdout.read_to_string(&mut last).unwrap();
    errors.read_to_string(&mut last).unwrap();
    assert!(last.contains("closed") && !last.contains("eof"), "{last}");
    client.wait().unwrap();
    for relay in relays {
        relay.join().unwrap();
    }
}

const REPLY_MAGIC: [u8; 8] = 0x0003_e889_0455_65a9_u64.to_be_bytes();

/// Reads until these bytes have come.
fn read_until(from: &mut impl Read, wanted: &[u8]) {
    let mut read = Vec::new();
    while !read.ends_with(wanted) {
        let mut byte = [0];
        from.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error}: {read:x?}"));
        read.push(byte[0]);
    }
}

/// Half a connection.
pub trait Half: Read + Write + Send + 'static {
    fn end(&self);
}

impl Half for UnixStream {
    fn end(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl Half for std::net::TcpStream {
    fn end(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

/// Hands on what comes until nothing more does.
fn relay(mut from: impl Half, mut to: impl Half) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        to.end();
    })
}

#[test]
fn other_machines_are_served_with_tls_or_where_somebody_wants_it_otherwise() {
    let pki = Pki::new();
    let bind = |address: &str, options: Options| {
        Server::bind(Arc::new(Memory::new(SIZE)), &Endpoint::Tcp(address.parse().unwrap()), options)
    };
    for address in ["0.0.0.0:0", "[::ffff:0.0.0.0]:0"] {
        let refused = bind(address, Options::default()).err();
        assert!(matches!(refused, Some(BindError::NotLoopback { .. })), "{address}: {refused:?}");
        let insecure = bind(address, Options { insecure: true, ..Options::default() }).unwrap();
        assert!(insecure.uri().starts_with("nbd://"), "{}", insecure.uri());
        assert!(insecure.warning().is_some_and(|warning| warning.contains("on the way")));
        let secure = bind(address, with_tls(&pki, true)).unwrap();
        assert!(secure.uri().starts_with("nbds://") && secure.warning().is_none());
        let open = bind(address, with_tls(&pki, false)).unwrap();
        assert!(open.warning().is_some_and(|warning| warning.contains("no certificate")));
    }
    let local = bind("127.0.0.1:0", Options::default()).unwrap();
    assert!(local.warning().is_some_and(|warning| warning.contains("this machine")));
}

#[test]
fn a_server_is_known_by_its_address_to_which_its_certificate_belongs() {
    let pki = Pki::new();
    let (_memory, serving) = serving(&pki, true);
    let uri = uri(&serving, &pki.client());
    run("nbdinfo", &["--size", &uri]);
    run("nbdinfo", &["--size", &uri.replace("127.0.0.1", "localhost")]);
    // The machine answers to this, too.
    let other = try_run("nbdinfo", &["--size", &uri.replace("127.0.0.1", "127.0.0.2")]);
    assert!(!other.is_ok(), "{other:?}");
}

#[test]
fn files_that_do_not_do_are_refused_by_what_is_wrong() {
    let (pki, other) = (Pki::new(), Pki::new());
    let place = Scratch::new();
    let names = ["ca-cert.pem", "server-cert.pem", "server-key.pem"];
    let fresh = || {
        for name in names {
            let _ = fs::remove_file(place.path(name));
            fs::copy(pki.server().join(name), place.path(name)).unwrap();
        }
    };
    let load = || Tls::load(place.as_path(), true);
    fresh();
    assert!(load().is_ok_and(|tls| tls.verifies_peer()));
    for mode in [0o640, 0o604, 0o660] {
        // What belongs to root may be readable by a group.
        let of_root = rustix::process::geteuid().is_root() && mode == 0o640;
        fs::set_permissions(place.path("server-key.pem"), Permissions::from_mode(mode)).unwrap();
        match load() {
            Ok(_) => assert!(of_root, "{mode:o}"),
            Err(TlsError::Exposed { mode: found, .. }) => assert!(found == mode && !of_root, "{mode:o}"),
            Err(error) => panic!("{error}"),
        }
    }
    for name in names {
        fresh();
        fs::remove_file(place.path(name)).unwrap();
        let missing = load();
        assert!(matches!(&missing, Err(TlsError::Read { path, .. }) if path.ends_with(name)), "{missing:?}");
        place.tool("mkfifo").arg(name).arg("--mode=600").ok();
        let pipe = load();
        assert!(matches!(&pipe, Err(TlsError::Read { path, .. }) if path.ends_with(name)), "{pipe:?}");
        fs::remove_file(place.path(name)).unwrap();
        place.file(name, b"nothing\n");
        let empty = load();
        assert!(matches!(&empty, Err(TlsError::Nothing { path, .. }) if path.ends_with(name)), "{empty:?}");
        place.file(name, vec![b'x'; (1 << 20) + 1]);
        let long = load();
        assert!(matches!(&long, Err(TlsError::TooLong { path, .. }) if path.ends_with(name)), "{long:?}");
    }
    fresh();
    // Nobody lets a certificate without a list pass where a list is there.
    place.file("ca-crl.pem", b"nothing\n");
    assert!(matches!(load(), Err(TlsError::Nothing { what: "revocation list", .. })));
    assert!(Tls::load(place.as_path(), false).is_ok_and(|tls| !tls.verifies_peer()));
    fs::remove_file(place.path("ca-crl.pem")).unwrap();
    place.file("server-key.pem", fs::read(other.server().join("server-key.pem")).unwrap());
    assert!(matches!(load(), Err(TlsError::Unusable { .. })), "a key of another certificate");
    // One with a password, for which there is nowhere to ask.
    fresh();
    place.tool("openssl").words("pkcs8 -topk8 -in server-key.pem -out locked -passout pass:x").ok();
    place.file("server-key.pem", place.read("locked"));
    let locked = load();
    assert!(
        matches!(locked, Err(TlsError::Nothing { what: "private key without a password", .. })),
        "{locked:?}"
    );
}
