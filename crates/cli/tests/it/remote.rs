//! Volumes on NBD exports, by their URIs. nbdkit and qemu-nbd serve them; cryptsetup and our own program look at the files
//! behind them afterwards.

use std::fs;

use atrest_testkit::{NbdServer, Pki};

use crate::common::{CHEAP, Scratch};

const KEY: [&str; 2] = ["--key-file", "key"];

/// A volume that cryptsetup made, with an ext4 in it that mke2fs made from `files`. The plaintext is `raw`.
fn volume(kind: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse");
    let files = scratch.directory("files");
    fs::write(files.join("hello"), "hello, world\n").expect("a file");
    fs::write(files.join("numbers"), (0..200_000u32).flat_map(u32::to_le_bytes).collect::<Vec<_>>())
        .expect("it");
    scratch.bash("truncate -s 20M vol; truncate -s 4M raw && mkfs.ext4 -q -d files raw").ok();
    let format = format!(
        "cryptsetup luksFormat -q --type {kind} --pbkdf pbkdf2 --pbkdf-force-iterations 1000 vol key"
    );
    scratch.bash(&format).ok();
    scratch.atrest(&["encrypt", "--key-file", "key", "raw", "vol"]).ok();
    scratch
}

/// Serves a file of the directory.
fn serve(scratch: &Scratch, name: &str, filters: &[&str], parameters: &[&str]) -> NbdServer {
    let filters = filters.iter().map(|filter| format!("--filter={filter}"));
    let file = [String::from("file"), scratch.path(name).display().to_string()];
    NbdServer::nbdkit(filters.chain(file).chain(parameters.iter().map(|word| (*word).to_owned())))
}

#[test]
fn what_lies_on_an_export_is_read_like_a_file() {
    for kind in ["luks1", "luks2"] {
        let scratch = volume(kind);
        let server = serve(&scratch, "vol", &[], &[]);
        let uri = &server.uri();
        let with_key = |words: &[&str]| scratch.atrest(&[words, &KEY].concat()).ok();
        assert_eq!(with_key(&["cat", uri, "/hello"]).stdout, "hello, world\n");
        assert_eq!(with_key(&["ls", uri]).stdout, "hello\nlost+found\nnumbers\n");
        with_key(&["cp", &format!("{uri}:/numbers"), "out"]);
        assert!(scratch.read("out") == scratch.read("files/numbers"));
        assert_eq!(with_key(&["df", "--json", uri]).json(), with_key(&["df", "--json", "vol"]).json());
        with_key(&["decrypt", uri, "plain"]);
        scratch.bash("cmp --bytes $((4 << 20)) raw plain").ok();
        with_key(&["key", "test", uri]);
        let info = |place: &str| scratch.atrest(&["info", "--json", place]).ok().json();
        assert_eq!(info(uri)["uuid"], info("vol")["uuid"]);
        scratch.atrest(&["header", "backup", uri, "remote"]).ok();
        scratch.atrest(&["header", "backup", "vol", "local"]).ok();
        assert!(scratch.read("remote") == scratch.read("local"));
    }
}

#[test]
fn an_export_is_not_mapped_and_nothing_is_served() {
    let scratch = volume("luks2");
    let server = serve(&scratch, "vol", &[], &[]);
    scratch.bash("mkdir mnt").ok();
    let open = ["open", "--map", &server.uri(), "--fuse", "mnt", "--daemon"];
    let refused = scratch.atrest(&[&open[..], &KEY].concat());
    let refused = refused.fails(4, "a file or block device of this machine");
    assert!(refused.stderr.contains("leave --map out"), "{}", refused.stderr);
    assert!(fs::read_dir(scratch.path("mnt")).expect("the directory").next().is_none());
}

#[test]
fn one_connection_is_enough_for_a_server_that_ends_with_its_first_client() {
    let scratch = volume("luks2");
    for words in [&["cat", "/hello"][..], &["info"], &["header", "backup", "saved"], &["key", "test"]] {
        let server = NbdServer::qemu(["--format=raw", scratch.path("vol").to_str().expect("plain letters")]);
        let (command, rest) = words.split_at(if words[0] == "header" || words[0] == "key" { 2 } else { 1 });
        let key: &[&str] = if ["cat", "key"].contains(&words[0]) { &KEY } else { &[] };
        scratch.atrest(&[command, &[&server.uri()], rest, key].concat()).ok();
    }
    let server = NbdServer::qemu(["--format=raw", scratch.path("vol").to_str().expect("plain letters")]);
    scratch.atrest(&[&["format", "--yes", &server.uri()], &KEY[..], &CHEAP].concat()).ok();
}

#[test]
fn what_is_written_to_an_export_is_in_the_file_behind_it() {
    let scratch = volume("luks2");
    scratch.file("new", b"battery staple");
    scratch.bash("mkfs.ext4 -q -F other 4M && cp vol saved").ok();
    let server = serve(&scratch, "vol", &[], &[]);
    let uri = &server.uri();
    let test =
        |key: &str| scratch.tool("cryptsetup", &["open", "--test-passphrase", "--key-file", key, "vol"]);

    scratch.atrest(&[&["key", "add", uri, "--new-key-file", "new"], &KEY[..], &CHEAP].concat()).ok();
    test("new").ok();
    scratch.atrest(&["key", "remove", uri, "--key-file", "new"]).ok();
    assert_eq!(test("new").code, 2);
    scratch.atrest(&["header", "set", uri, "--label", "remote"]).ok();
    assert!(scratch.tool("cryptsetup", &["luksDump", "vol"]).ok().stdout.contains("remote"));

    let encrypt = [&["encrypt", "other", uri], &KEY[..]].concat();
    scratch.atrest(&encrypt).fails(1, "holds a filesystem (ext4)");
    scratch.atrest(&[&encrypt[..], &["--yes"]].concat()).ok();
    scratch.atrest(&[&["decrypt", "vol", "plain"], &KEY[..]].concat()).ok();
    scratch.bash("cmp --bytes $((4 << 20)) other plain").ok();

    scratch.atrest(&["erase", uri]).fails(1, "wiped");
    test("key").ok();
    scratch.atrest(&["header", "backup", uri, "header"]).ok();
    scratch.atrest(&["erase", "--yes", uri]).ok();
    assert_ne!(test("key").code, 0);
    scratch.atrest(&["header", "restore", "--yes", uri, "header"]).ok();
    test("key").ok();
}

#[test]
fn both_sides_of_a_copy_can_be_exports() {
    let scratch = volume("luks2");
    scratch.bash("truncate -s 4M target && truncate -s 20M second && mkfs.ext4 -q -F source 4M").ok();
    let (vol, source) = (serve(&scratch, "vol", &[], &[]), serve(&scratch, "source", &[], &[]));
    let target = serve(&scratch, "target", &[], &[]);
    let run = |words: &[&str]| scratch.atrest(&[words, &KEY].concat());
    run(&["encrypt", "--yes", &source.uri(), &vol.uri()]).ok();
    run(&["decrypt", &vol.uri(), &target.uri()]).fails(1, "whatever the server has there");
    run(&["decrypt", "--yes", "--resume", &vol.uri(), &target.uri()]).fails(1, "no checkpoint");
    run(&["decrypt", "--yes", "--size", "4M", &vol.uri(), &target.uri()]).ok();
    scratch.bash("cmp source target").ok();
    run(&["decrypt", &vol.uri(), &vol.uri()]).fails(1, "the same file");
}

#[test]
fn an_export_is_formatted_only_if_that_is_confirmed_and_keeps_its_size() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse");
    scratch.bash("truncate -s 20M disk; truncate -s 16M header").ok();
    let server = serve(&scratch, "disk", &[], &[]);
    let uri = &server.uri();
    let format = |more: &[&str]| scratch.atrest(&[&["format", uri], &KEY[..], &CHEAP, more].concat());
    format(&[]).fails(1, "whatever the server has there");
    assert!(scratch.read("disk").iter().all(|byte| *byte == 0), "a refused command writes nothing");
    format(&["--yes", "--size", "30M"]).fails(1, "an export has the size it has");
    format(&["--yes", "--type", "flash"]).fails(4, "an NBD export");
    format(&["--yes"]).ok();
    scratch.tool("cryptsetup", &["open", "--test-passphrase", "--key-file", "key", "disk"]).ok();
    let header = serve(&scratch, "header", &[], &[]);
    format(&["--yes", "--header", &header.uri()]).ok();
    scratch
        .tool("cryptsetup", &["open", "--test-passphrase", "--key-file", "key", "--header", "header", "disk"])
        .ok();
    scratch.atrest(&[&["key", "test", uri, "--header", &header.uri()], &KEY[..]].concat()).ok();
}

#[test]
fn files_are_written_into_a_fat_on_an_export() {
    let scratch = Scratch::with_volume();
    scratch.bash("truncate -s 4M fat && mkfs.vfat fat").ok();
    let server = serve(&scratch, "vol", &[], &[]);
    let uri = &server.uri();
    let run = |words: &[&str]| scratch.atrest(&[words, &KEY].concat()).ok();
    run(&["encrypt", "fat", uri]);
    run(&["mkdir", uri, "/logs"]);
    run(&["cp", "key", &format!("{uri}:/logs/key")]);
    run(&["decrypt", "vol", "plain"]);
    scratch.bash("fsck.vfat -n plain && mtype -i plain ::/logs/key | cmp - key").ok();
    run(&["rm", "-r", uri, "/logs"]);
    assert_eq!(run(&["ls", uri]).stdout, "");
}

#[test]
fn a_volume_on_an_export_is_served_again() {
    let scratch = volume("luks2");
    let server = serve(&scratch, "vol", &[], &[]);
    let uri = server.uri();
    let run = "nbdcopy \"$ATREST_URI\" copy && $0 status --json > status";
    let atrest = env!("CARGO_BIN_EXE_atrest");
    let open = ["open", &uri, "--nbd", "socket", "--run", "bash", "-c", run, atrest];
    scratch.atrest(&[&open[..1], &KEY, &open[1..]].concat()).ok();
    scratch.bash("cmp --bytes $((4 << 20)) raw copy").ok();
    let status: serde_json::Value = serde_json::from_slice(&scratch.read("status")).expect("JSON");
    let paths: Vec<_> =
        status.as_array().expect("a list").iter().map(|entry| entry["path"].as_str()).collect();
    assert!(paths.contains(&Some(uri.as_str())), "{paths:?}");
    // Two layers of the same kind: the plaintext of a volume is the export of the next one.
    let twice = "$0 cat --key-file key \"$ATREST_URI\" /hello 2>&1; $0 ls \"$ATREST_URI\" | head -1";
    let open = ["open", &uri, "--nbd", "socket", "--run", "bash", "-c", twice, atrest];
    let ran = scratch.atrest(&[&open[..1], &KEY, &open[1..]].concat()).ok();
    assert!(
        ran.stdout.contains("it is not a LUKS volume") && ran.stdout.ends_with("hello\n"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_daemon_keeps_its_export() {
    let scratch = volume("luks2");
    let server = serve(&scratch, "vol", &[], &[]);
    let name = scratch.session();
    scratch
        .atrest(
            &[&["open", "--daemon", "--name", &name, "--nbd", "socket", &server.uri()], &KEY[..]].concat(),
        )
        .ok();
    let copied =
        scratch.bash("nbdcopy 'nbd+unix:///?socket=socket' copy && cmp --bytes $((4 << 20)) raw copy");
    scratch.atrest(&["close", &name]).ok();
    copied.ok();
}

#[test]
fn a_volume_on_an_export_is_reencrypted_and_goes_on_after_an_interruption() {
    let scratch = volume("luks2");
    let server = serve(&scratch, "vol", &[], &[]);
    let uri = server.uri();
    scratch.atrest(&[&["reencrypt", &uri, "--yes"], &KEY[..], &CHEAP].concat()).ok();
    scratch.atrest(&[&["decrypt", "vol", "plain"], &KEY[..]].concat()).ok();
    scratch.bash("cmp --bytes $((4 << 20)) raw plain").ok();
    // Writes fail from some time on; what is there then goes on from there.
    let trigger = format!("error-pwrite-file={}", scratch.path("fail").display());
    let failing =
        serve(&scratch, "vol", &["error"], &["error-pwrite=EIO", "error-pwrite-rate=30%", &trigger]);
    scratch.file("fail", b"");
    let words = ["reencrypt", "--hotzone-size", "256K", "--yes", &failing.uri()];
    scratch.atrest(&[&words[..], &KEY, &CHEAP].concat()).fails(4, "failed");
    fs::remove_file(scratch.path("fail")).expect("the trigger");
    let resumed = scratch.atrest(&[&["reencrypt", "--resume", &uri], &KEY[..]].concat());
    // The first write may have been the one that failed.
    if resumed.code != 0 {
        assert!(resumed.stderr.contains("no re-encryption"), "{}", resumed.stderr);
    }
    scratch.atrest(&[&["decrypt", "--yes", "vol", "plain"], &KEY[..]].concat()).ok();
    scratch.bash("cmp --bytes $((4 << 20)) raw plain").ok();
}

#[test]
fn tls_is_spoken_and_its_errors_say_what_to_do() {
    let scratch = volume("luks2");
    let (pki, other) = (Pki::new(), Pki::new());
    let tls = format!("--tls-certificates={}", pki.server().display());
    let image = scratch.path("vol");
    let server =
        NbdServer::nbdkit_by_tcp(["--tls=require", &tls, "file", image.to_str().expect("plain letters")]);
    let cat = |uri: &str| scratch.atrest(&["cat", "--key-file", "key", uri, "/hello"]);
    assert_eq!(cat(&server.tls_uri(&pki.client())).ok().stdout, "hello, world\n");
    cat(&server.uri()).fails(2, "nbds:// and nbds+unix:// speak TLS");
    cat(&server.uri().replace("nbd:", "nbds:")).fails(1, "?tls-certificates=DIR");
    cat(&server.tls_uri(&other.client())).fails(4, "ca-cert.pem");
    cat(&format!("{}&tls-hostname=example.com", server.tls_uri(&pki.client()))).fails(4, "tls-hostname=NAME");
    cat(&server.tls_uri(scratch.as_path())).fails(1, "cannot read");
    let plain = serve(&scratch, "vol", &[], &[]);
    cat(&plain.tls_uri(&pki.client())).fails(4, "does not offer TLS");
}

#[test]
fn what_can_not_be_done_with_an_export_is_refused_with_what_can() {
    let scratch = volume("luks2");
    let server = serve(&scratch, "vol", &[], &[]);
    let uri = server.uri();
    let run = |words: &[&str]| scratch.atrest(&[words, &KEY].concat());
    let refused = run(&["open", "--dm", &format!("test-{}", scratch.session()), &uri]);
    // Without device-mapper that is said first.
    assert!(
        refused.stderr.contains("nbd-client") || refused.stderr.contains("device-mapper"),
        "{}",
        refused.stderr
    );
    assert_ne!(refused.code, 0);
    scratch.atrest(&["cat", "nbd+unix:///?socket=nobody", "/x"]).fails(4, "is the server running");
    scratch.atrest(&["cat", "nbd://name.invalid", "/x"]).fails(4, "the host can't be found");
    scratch.atrest(&["cat", "nbd+ssh://host", "/x"]).fails(1, "no scheme of NBD");
    scratch.atrest(&["cat", "nbd+unix:///x", "/x"]).fails(1, "?socket=PATH");
    scratch.bash("printf 'SSH-2.0-x\\r\\n and then some' > words").ok();

    let served = NbdServer::qemu(
        ["--persistent", "--format=raw", "--export-name=one", "vol"]
            .map(|word| if word == "vol" { scratch.path("vol").display().to_string() } else { word.into() }),
    );
    run(&["cat", &served.uri(), "/hello"]).fails(4, "no such export");
    assert_eq!(run(&["cat", &served.uri_of("one"), "/hello"]).ok().stdout, "hello, world\n");
    let image = scratch.path("vol");
    let read_only = NbdServer::nbdkit(["--readonly", "file", image.to_str().expect("plain letters")]);
    run(&["key", "kill", "--yes", &read_only.uri(), "0"]).fails(2, "read only");
    assert_eq!(run(&["cat", &read_only.uri(), "/hello"]).ok().stdout, "hello, world\n");

    scratch.bash("$ATREST format --type flash --size 1M --erase-size 4K --key-file key card").ok();
    let card = serve(&scratch, "card", &[], &[]);
    run(&["ls", &card.uri()]).fails(4, "copy the export to a file");
    scratch.atrest(&["info", &card.uri()]).fails(4, "not a LUKS volume");
}

#[test]
fn a_server_that_fails_and_one_that_dies_end_the_command_with_a_reason() {
    let scratch = volume("luks2");
    let failing = serve(&scratch, "vol", &["error"], &["error-pread=EIO", "error-pread-rate=100%"]);
    let ran = scratch.atrest(&[&["cat", &failing.uri(), "/hello"], &KEY[..]].concat());
    ran.fails(4, "read of");

    let trigger = format!("error-pwrite-file={}", scratch.path("fail").display());
    let full =
        serve(&scratch, "vol", &["error"], &["error-pwrite=ENOSPC", "error-pwrite-rate=100%", &trigger]);
    scratch.file("fail", b"");
    let encrypt = ["encrypt", "--yes", "raw", &full.uri()];
    scratch.atrest(&[&encrypt[..], &KEY].concat()).fails(4, "no space is left");

    // It ends while a copy waits for its data.
    let mut dying = serve(&scratch, "vol", &["delay"], &["rdelay=50ms"]);
    let uri = dying.uri();
    let mut child = scratch
        .atrest_command(&["decrypt", "--key-file", "key", "--no-checkpoint", "--json", &uri, "plain"])
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("atrest starts");
    atrest_testkit::wait_until("the copy has begun", || scratch.path("plain").exists());
    dying.kill();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("its messages"), &mut said).expect("text");
    let code = child.wait().expect("its end").code();
    assert!(code == Some(4) && said.contains("the device is gone"), "{code:?} {said}");
}
