//! `--progress-json` and `--progress-frequency` under the names of cryptsetup and integritysetup, judged by what Debian's cryptsetup prints.

use std::os::unix::fs::symlink;

use crate::common::{CHEAP, Ran, Scratch};

fn names() -> Scratch {
    let scratch = Scratch::new();
    for name in ["cryptsetup", "integritysetup"] {
        symlink(env!("CARGO_BIN_EXE_atrest"), scratch.path(name)).expect("a link");
    }
    scratch.bash("umask 077; echo -n horse > key; truncate -s 24M vol twin").ok();
    scratch
}

fn run(scratch: &Scratch, name: &str, words: &[&str]) -> Ran {
    scratch.program(scratch.path(name)).args(words).without_terminal().run().into()
}

/// The names of the fields in their order, which are the same in each line, and what the last line says of device, sizes and time left.
fn shape(stdout: &str) -> (Vec<String>, [String; 4]) {
    let mut names: Vec<Vec<String>> = Vec::new();
    let mut last = Default::default();
    for line in stdout.lines() {
        let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).expect(line);
        let text = |name: &str| fields[name].as_str().expect("a string").to_owned();
        ["speed", "time_ms"].iter().for_each(|name| assert!(text(name).parse::<u64>().is_ok(), "{line}"));
        last = ["device", "device_bytes", "device_size", "eta_ms"].map(text);
        names.push(line.split('"').skip(1).step_by(4).map(str::to_owned).collect());
    }
    names.dedup();
    assert_eq!(names.len(), 1, "{stdout}");
    (names.remove(0), last)
}

#[test]
fn a_reencryption_tells_how_far_it_is_as_in_debian() {
    let scratch = names();
    for volume in ["vol", "twin"] {
        let words = [&["luksFormat", "-q"][..], &CHEAP[..], &[volume, "key"]].concat();
        assert_eq!(scratch.tool("cryptsetup", &words).code, 0);
    }
    let reencrypt = |volume| {
        [
            &["reencrypt", "-q", "-d", "key", "--force-offline-reencrypt", "--progress-json"][..],
            &CHEAP[..],
            &[volume],
        ]
        .concat()
    };
    let theirs = scratch.tool("cryptsetup", &reencrypt("twin")).reports(0).stdout;
    let ours = run(&scratch, "cryptsetup", &reencrypt("vol")).reports(0).stdout;
    let ((their_names, their_last), (our_names, our_last)) = (shape(&theirs), shape(&ours));
    assert_eq!(our_names, their_names, "{ours}{theirs}");
    assert_eq!(our_last[1..], their_last[1..], "{ours}{theirs}");
    assert!(our_last[0].ends_with("vol") && their_last[0].ends_with("twin"), "{ours}{theirs}");
    assert_eq!(our_last[3], "0");
    let reencrypt = |volume| {
        let options = ["reencrypt", "-d", "key", "--force-offline-reencrypt", "--progress-frequency", "60"];
        [&options[..], &CHEAP[..], &[volume]].concat()
    };
    let theirs = scratch.tool("cryptsetup", &reencrypt("twin")).reports(0).stdout;
    let ours = run(&scratch, "cryptsetup", &reencrypt("vol")).reports(0).stdout;
    // Debian's begins with a sentence of its own.
    let theirs = theirs.lines().last().expect("a line");
    let written = |told: &str| {
        told.strip_prefix("Finished, time 0").and_then(|told| told.split(", ").nth(1).map(str::to_owned))
    };
    assert!(written(theirs).is_some_and(|bytes| bytes.ends_with("MiB written")), "{theirs}");
    assert_eq!((written(&ours), ours.lines().count()), (written(theirs), 1), "{ours}{theirs}");
}

#[test]
fn a_wipe_tells_how_far_it_is() {
    let scratch = names();
    let words = [
        &["luksFormat", "-q", "--progress-json", "--integrity", "hmac-sha256"][..],
        &CHEAP[..],
        &["vol", "key"],
    ]
    .concat();
    let luks = run(&scratch, "cryptsetup", &words).reports(0).stdout;
    let alone =
        run(&scratch, "integritysetup", &["format", "-q", "--progress-json", "twin"]).reports(0).stdout;
    for (told, device) in [(luks, "vol"), (alone, "twin")] {
        let (names, [path, done, total, left]) = shape(&told);
        assert_eq!(names.len(), 6, "{told}");
        assert_eq!((path.as_str(), left.as_str(), &done), (device, "0", &total), "{told}");
        assert!(total.parse::<u64>().expect("bytes") > 4 << 20, "{told}");
    }
    let told = run(&scratch, "integritysetup", &["format", "-q", "twin"]).reports(0).stdout;
    assert_eq!(told, "", "nothing was asked for");
}
