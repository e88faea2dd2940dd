//! Sealed volumes on a real server of S3: every command takes the URL, and refuses what is no store to rely on.

use atrest_testkit::S3Server;

use crate::common::{CHEAP, Ran, Scratch};

const OPTIONS: [&str; 4] = ["--key-file", "key", "--store", "store"];

/// A command that finds the server.
pub fn at(server: &S3Server, scratch: &Scratch, args: &[&str]) -> Ran {
    with(&server.environment(), scratch, args)
}

/// A command in an environment with more variables.
pub fn with(environment: &[(&str, String)], scratch: &Scratch, args: &[&str]) -> Ran {
    let mut program = scratch.program(env!("CARGO_BIN_EXE_atrest")).args(args).without_terminal();
    for (name, value) in environment {
        program = program.env(name, value);
    }
    program.run().into()
}

#[test]
fn a_volume_on_s3_is_used_by_the_commands_that_a_directory_is_used_by() {
    let server = S3Server::new();
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    scratch.file("second", b"battery staple\n");
    let url = format!("s3://{}/my volume/1", S3Server::BUCKET);
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
    assert!(ours(&["ls", &url]).ok().stdout.contains("noise"));
    assert!(ours(&["cat", &url, "/noise"]).ok().raw == noise);
    let source = format!("{url}:/noise");
    ours(&["cp", &source, "out"]).ok();
    assert!(scratch.read("out") == noise);
    ours(&["snapshot", "add", &url, "monday"]).ok();
    scratch.bash("truncate -s 64M empty && mke2fs -q -t ext4 empty").ok();
    ours(&["encrypt", "empty", &url, "--yes"]).ok();
    assert!(!ours(&["ls", &url]).ok().stdout.contains("noise"));
    assert!(ours(&["ls", &url, "--snapshot", "monday"]).ok().stdout.contains("noise"));
    assert_eq!(ours(&["snapshot", "list", &url, "--json"]).ok().json()[0]["name"], "monday");
    ours(&["snapshot", "remove", &url, "monday"]).ok();
    ours(&["gc", &url]).ok();
    ours(&["resize", &url, "--size", "80M"]).ok();
    ours(&["scrub", &url]).ok();
    ours(&["decrypt", &url, "whole"]).ok();
    scratch.tool("e2fsck", &["-fn", "whole"]).ok();
    // The header, and keys.
    run(&[&["key", "add", &url, "--key-file", "key", "--new-key-file", "second"], &CHEAP[..]].concat()).ok();
    run(&["key", "test", &url, "--key-file", "second"]).ok();
    run(&["header", "backup", &url, "backup"]).ok();
    let bucket = server.bucket();
    scratch.bash(&format!("truncate -s 100 '{}'/my\\ volume/1/h/*", bucket.display())).ok();
    run(&["info", &url]).fails(4, "header restore");
    run(&["header", "restore", &url, "backup", "--yes"]).ok();
    run(&["hand-over", &url, "--store", "store", "--to", "other", "--key-file", "second"]).ok();
    ours(&["ls", &url]).fails(4, "older than the volume");
    let info = run(&["info", "--json", &url]).ok().json();
    assert_eq!(info["stored"]["headers"]["objects"], 1, "{info}");
    assert!(info["stored"]["log_objects"]["bytes"].as_u64().expect("bytes") > 0, "{info}");
    // A bucket that was copied to a directory is the volume, too.
    let copy = format!("file://{}", bucket.join("my volume/1").display());
    scratch.atrest(&["ls", &copy, "--key-file", "second", "--store", "other"]).ok();
}

#[test]
fn a_store_that_is_not_known_not_there_or_not_to_be_relied_on_is_refused() {
    let server = S3Server::new();
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    let format = |url: &str| {
        let words = ["format", url, "--type", "sealed", "--size", "1M", "--key-file", "key"];
        [&words[..], &CHEAP].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let run = |environment: &[(&str, String)], words: &[String]| {
        with(environment, &scratch, &words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let environment = server.environment();
    let url = format!("s3://{}/v", S3Server::BUCKET);
    for other in ["azure://disks/v", "https://example.org/v", "ftp://disks"] {
        run(&environment, &format(other)).fails(1, "s3://BUCKET/PREFIX");
    }
    run(&environment, &format("s3://UPPER/v")).fails(1, "no bucket can have this name");
    run(&environment, &format("s3://none/v")).fails(4, "is there such a bucket?");
    let mut wrong = environment.clone();
    wrong[2].1 = "another".into();
    run(&wrong, &format(&url)).fails(2, "credentials");
    let none = [("AWS_EC2_METADATA_DISABLED", "true".to_owned())];
    run(&none, &format(&url)).fails(2, "AWS_ACCESS_KEY_ID");
    at(&server, &scratch, &["info", &url]).fails(4, "no sealed volume is there");
    let heedless = S3Server::without_conditions();
    run(&heedless.environment(), &format(&url)).fails(4, "If-None-Match");
    assert!(!heedless.bucket().join("v/h").exists(), "nothing of a volume was stored");
    // Nor is one written that lies there, as a copy.
    run(&environment, &format(&url)).ok();
    let copied = format!("cp -r '{}' '{}'", server.bucket().join("v").display(), heedless.bucket().display());
    scratch.bash(&copied).ok();
    at(&heedless, &scratch, &["snapshot", "list", &url, "--key-file", "key"]).ok();
    at(&heedless, &scratch, &["snapshot", "add", &url, "x", "--key-file", "key"]).fails(4, "If-None-Match");
}
