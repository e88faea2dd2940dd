//! Sealed volumes on a server that speaks Google's API: commands take the URL, whoever is killed loses no flush that was acknowledged, and
//! what is no store to rely on is refused with words that help.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use atrest_testkit::{Campaign, GcsServer, Pki};

use crate::common::{CHEAP, Ran, Scratch};
use crate::sealed_volume_kills::{found, images, killed};

/// Times that one volume's server is killed. In the second of them that of the store is killed before.
const KILLS: usize = 3;
const OPTIONS: [&str; 4] = ["--key-file", "key", "--store", "store"];

/// A command that finds the server.
fn at(server: &GcsServer, scratch: &Scratch, args: &[&str]) -> Ran {
    with(&server.environment(), scratch, args)
}

fn with(environment: &[(&str, String)], scratch: &Scratch, args: &[&str]) -> Ran {
    let mut program = scratch.program(env!("CARGO_BIN_EXE_atrest")).args(args).without_terminal();
    for (name, value) in environment {
        program = program.env(name, value);
    }
    program.run().into()
}

#[test]
fn a_volume_on_google_is_used_by_commands_and_an_older_one_is_noticed() {
    let server = GcsServer::new();
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    let url = format!("gs://{}/my volume/1", GcsServer::BUCKET);
    let run = |words: &[&str]| at(&server, &scratch, words);
    let ours = |words: &[&str]| run(&[words, &OPTIONS].concat());
    let format = [&["format", &url, "--type", "sealed", "--size", "64M"], &OPTIONS[..], &CHEAP].concat();
    run(&format).ok();
    run(&[&format[..], &["--yes"]].concat()).fails(5, "a volume is there already");
    let noise: Vec<u8> = (0..2_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::create_dir(scratch.path("files")).expect("a directory");
    scratch.file("files/noise", &noise);
    scratch.bash("truncate -s 64M plain && mke2fs -q -t ext4 -d files plain").ok();
    ours(&["encrypt", "plain", &url, "--yes"]).ok();
    assert!(ours(&["cat", &url, "/noise"]).ok().raw == noise);
    ours(&["snapshot", "add", &url, "monday"]).ok();
    let bucket = server.bucket().display().to_string();
    // With what the server notes of each file.
    scratch.bash(&format!("cp -a '{bucket}' older && cp store older-store")).ok();
    scratch.bash("truncate -s 64M empty && mke2fs -q -t ext4 empty").ok();
    ours(&["encrypt", "empty", &url, "--yes"]).ok();
    assert!(!ours(&["ls", &url]).ok().stdout.contains("noise"));
    assert!(ours(&["ls", &url, "--snapshot", "monday"]).ok().stdout.contains("noise"));
    ours(&["snapshot", "remove", &url, "monday"]).ok();
    ours(&["gc", &url]).ok();
    ours(&["resize", &url, "--size", "80M"]).ok();
    ours(&["scrub", &url]).ok();
    ours(&["decrypt", &url, "whole"]).ok();
    scratch.tool("e2fsck", &["-fn", "whole"]).ok();
    let info = run(&["info", "--json", &url]).ok().json();
    assert_eq!(info["stored"]["headers"]["objects"], 1, "{info}");
    assert!(info["stored"]["log_objects"]["bytes"].as_u64().expect("bytes") > 0, "{info}");
    // Somebody puts the older objects back.
    scratch.bash(&format!("rm -r '{bucket}' && cp -a older '{bucket}'")).ok();
    ours(&["ls", &url]).fails(4, "the store shows an older state");
    let older = ["ls", &url, "--key-file", "key", "--store", "older-store"];
    assert!(run(&older).ok().stdout.contains("noise"), "with a store as old they are the volume");
    // A bucket that was copied to a directory is the volume, too.
    let copy = format!("file://{}", scratch.path("older/my volume/1").display());
    scratch.atrest(&["ls", &copy, "--key-file", "key", "--store", "older-store"]).ok();
}

#[test]
fn the_file_system_on_google_is_that_of_the_last_flush_whoever_is_killed() {
    let images = images();
    Campaign::new("kills of a sealed volume on Google's API, and of its server", 1, 20).run(
        |seed, random| {
            let mut server = GcsServer::new();
            let scratch = Scratch::new();
            scratch.file("key", b"correct horse\n");
            scratch.file("first", &images[0]);
            let url = format!("gs://{}/v", GcsServer::BUCKET);
            let run =
                |server: &GcsServer, words: &[&str]| at(server, &scratch, &[words, &OPTIONS].concat()).ok();
            run(&server, &[&["format", &url, "--type", "sealed", "--size", "4M"], &CHEAP[..]].concat());
            run(&server, &["encrypt", "first", &url, "--yes"]);
            let name = format!("gs-{}-{seed}", std::process::id());
            let mut state = 0;
            for kill in 0..KILLS {
                run(&server, &["open", &url, "--nbd", "--daemon", "--name", &name]);
                let (wanted, pause) = (1 + random.below(10), Duration::from_micros(random.below(20_000)));
                let away = Duration::from_millis(random.below(300));
                let acknowledged = state
                    + killed(&scratch, &name, &images, state, |flushed| {
                        flushed.wait_for(wanted);
                        thread::sleep(pause);
                        if kill == 1 {
                            server.kill();
                            thread::sleep(away);
                            server.restart();
                            // Who writes has waited, and goes on. The one under way when it was killed may be the first.
                            flushed.wait_for(flushed.count() + 2);
                        }
                    });
                run(&server, &["decrypt", &url, "whole", "--yes"]);
                state = found(&scratch, &images, acknowledged);
            }
            run(&server, &["gc", &url]);
            run(&server, &["decrypt", &url, "whole", "--yes"]);
            assert_eq!(found(&scratch, &images, state), state);
        },
    );
}

/// A server that answers each request so.
fn service(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // It asks little enough to come in one piece, and may have gone.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address.to_string()
}

#[test]
fn a_store_or_credentials_that_are_not_to_be_relied_on_are_refused_with_words_that_help() {
    let server = GcsServer::new();
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    let format = |environment: &[(&str, String)], url: &str| {
        let words = ["format", url, "--type", "sealed", "--size", "1M", "--key-file", "key"];
        let ran = with(environment, &scratch, &[&words[..], &CHEAP].concat());
        assert!(!ran.stderr.contains("AWS_") && !ran.stderr.contains("If-None-Match"), "{}", ran.stderr);
        ran
    };
    let there = server.environment();
    format(&there, "gs://UPPER/v").fails(1, "gs://disks/laptop");
    format(&there, "gs://disks//v").fails(1, "gs://BUCKET/PREFIX");
    format(&there, "gs://none/v").fails(4, "is there such a bucket?");
    at(&server, &scratch, &["info", "gs://disks/v"]).fails(4, "no sealed volume is there");
    let heedless = service("HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\n{\"kind\":\"storage#objects\"}");
    format(&[("STORAGE_EMULATOR_HOST", heedless)], "gs://disks/v").fails(4, "ifGenerationMatch");
    let closed = service("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    format(&[("STORAGE_EMULATOR_HOST", closed)], "gs://disks/v").fails(2, "GOOGLE_APPLICATION_CREDENTIALS");
    let tls = GcsServer::with_tls(Pki::new().server());
    format(&tls.environment(), "gs://disks/v").fails(2, "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE");

    let home = ("HOME", scratch.as_path().display().to_string());
    let nobody = [home.clone(), ("GCE_METADATA_HOST", "127.0.0.1:1".to_owned())];
    format(&nobody, "gs://disks/v").fails(2, "gcloud auth application-default login");
    let file = |text: &str| {
        let path = scratch.file("credentials", text).display().to_string();
        format(&[home.clone(), ("GOOGLE_APPLICATION_CREDENTIALS", path)], "gs://disks/v")
    };
    file("{\"type\":\"external_account\"}").fails(2, "external_account, which is not supported");
    file("none").fails(1, "credentials can't be read");
    let refusing = service("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let user = "\"type\":\"authorized_user\",\"client_id\":\"a\",\"client_secret\":\"hidden\",\"refresh_token\":\"hidden\"";
    let refused = file(&format!("{{{user},\"token_uri\":\"http://{refusing}/\"}}"));
    assert!(!refused.stderr.contains("hidden"), "{}", refused.stderr);
    refused.fails(2, "Google gives no token for the credentials (status 400)");
}
