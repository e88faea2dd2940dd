//! `resize` of what a process serves.

use crate::common::{CHEAP, Scratch};

/// Closes the volume when the test ends, also by a failure.
struct Open(Scratch, String);

impl Open {
    fn new(scratch: Scratch, args: &[&str]) -> Self {
        let name = scratch.session();
        scratch.atrest(&[&["open", "--daemon", "--name", &name, "--key-file", "key"], args].concat()).ok();
        Self(scratch, name)
    }

    /// Bytes that `resize` says the volume has now.
    #[track_caller]
    fn resize(&self, args: &[&str]) -> u64 {
        let report = self.0.atrest(&[&["resize", "--json", &self.1], args].concat()).ok().json();
        report["size"].as_u64().expect("a number")
    }

    /// What a new client of NBD is told.
    fn of_nbd(&self) -> u64 {
        let told = self.0.bash("nbdinfo --size \"nbd+unix:///?socket=$PWD/socket\"").ok().stdout;
        told.trim().parse().expect("a number")
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.atrest(&["close", &self.1]);
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn a_volume_has_the_size_that_is_asked_for_or_all_that_its_file_has_by_now() {
    for kind in ["luks2", "luks1"] {
        let open = Open::new(Scratch::with_volume_of(kind), &["--nbd", "socket", "vol"]);
        let whole = open.of_nbd();
        assert_eq!(open.resize(&["--size", "1M"]), MIB);
        assert_eq!(open.of_nbd(), MIB);
        open.0.atrest(&["resize", &open.1, "--size", "1000"]).fails(2, "no size for it: a multiple of");
        open.0.atrest(&["resize", &open.1, "--size", "1G"]).fails(2, "no size for it: a multiple of");
        assert_eq!(open.of_nbd(), MIB, "it keeps the one it had");
        assert_eq!(open.resize(&[]), whole);
        let qemu = |words: &str| {
            let line = format!(
                "set -o pipefail; qemu-io -f raw {words} \"nbd+unix:///?socket=$PWD/socket\" 2>&1 | cat"
            );
            let said = open.0.bash(&line).ok().stdout;
            assert!(!said.contains("failed"), "{said}");
        };
        qemu("-c \"write -P 7 1M 64k\" -c flush");
        open.0.bash("truncate -s +8M vol").ok();
        assert_eq!(open.of_nbd(), whole, "nobody has asked for more");
        assert_eq!(open.resize(&[]), whole + 8 * MIB);
        assert_eq!(open.of_nbd(), whole + 8 * MIB);
        qemu(&format!("-c \"write -P 8 {} 64k\" -c flush -c \"read -P 7 1M 64k\"", whole + 7 * MIB));
        // It stays so through a suspension, and the file is not what was asked for by then.
        open.resize(&["--size", "2M"]);
        open.0.atrest(&["suspend", &open.1]).ok();
        open.0.atrest(&["resize", &open.1]).fails(2, "it is suspended");
        open.0.atrest(&["resume", &open.1, "--key-file", "key"]).ok();
        assert_eq!(open.of_nbd(), 2 * MIB);
        open.0.atrest(&["close", &open.1]).ok();
        // What was not shown stays, and another program finds it where it belongs.
        open.0.atrest(&["decrypt", "vol", "out", "--key-file", "key"]).ok();
        let out = open.0.read("out");
        let at = |place: u64| &out[place as usize..][..65536];
        assert_eq!(out.len() as u64, whole + 8 * MIB);
        assert!(at(MIB) == [7; 65536] && at(whole + 7 * MIB) == [8; 65536], "{kind}");
    }
}

#[test]
fn a_file_has_another_size_at_once_and_cryptsetups_names_are_understood() {
    let scratch = Scratch::with_volume();
    scratch.bash("mkdir m && ln -s \"$ATREST\" cryptsetup").ok();
    let open = Open::new(scratch, &["--fuse", "m", "vol"]);
    let size = || -> u64 { open.0.bash("stat -c %s m/volume").ok().stdout.trim().parse().expect("a number") };
    let whole = size();
    assert_eq!(open.resize(&["--size", "1M"]), MIB);
    assert_eq!(size(), MIB);
    open.0.bash(&format!("./cryptsetup resize {} --size 4096", open.1)).ok();
    assert_eq!(size(), 2 * MIB);
    open.0.bash(&format!("./cryptsetup resize {} --device-size 3M", open.1)).ok();
    assert_eq!(size(), 3 * MIB);
    open.0.bash(&format!("./cryptsetup resize {}", open.1)).ok();
    assert_eq!(size(), whole);
    open.0.bash("! dd if=/dev/zero of=m/volume bs=4096 count=1 seek=100000 conv=notrunc 2> /dev/null").ok();
}

#[test]
fn a_volume_whose_size_is_what_it_is_says_so() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    let format = ["format", "--size", "20M", "--key-file", "key", "--integrity", "hmac-sha256", "vol"];
    scratch.atrest(&[&format[..], &CHEAP].concat()).ok();
    let open = Open::new(scratch, &["--nbd", "socket", "vol"]);
    let whole = open.of_nbd();
    open.0.atrest(&["resize", &open.1, "--size", "1M"]).fails(2, "its size is what it is");
    assert_eq!(open.of_nbd(), whole);
}
