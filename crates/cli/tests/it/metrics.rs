//! The figures of open volumes, as `status` and `--metrics` tell them.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::Scratch;

/// A volume that is open in the background until the test ends, also by a failure.
struct Open<'a> {
    scratch: &'a Scratch,
    name: String,
}

impl<'a> Open<'a> {
    fn new(scratch: &'a Scratch, command: &str, args: &[&str]) -> Self {
        let name = scratch.session();
        let open = [command, "vol", "--key-file", "key", "--daemon", "--name", &name];
        scratch.atrest(&[&open[..], args].concat()).ok();
        Self { scratch, name }
    }

    fn entry(&self) -> Value {
        self.scratch.atrest(&["status", "--json", &self.name]).ok().json()[0].clone()
    }

    fn number(&self, operation: &str, of: &str) -> u64 {
        let entry = self.entry();
        entry["metrics"]["operations"][operation][of].as_u64().unwrap_or_else(|| panic!("{entry}"))
    }

    fn text(&self) -> String {
        self.scratch.atrest(&["status", &self.name]).ok().stdout
    }

    fn pid(&self) -> String {
        self.entry()["process"]["pid"].to_string()
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.scratch.atrest(&["close", &self.name]);
    }
}

#[test]
fn what_dd_reads_and_writes_through_fuse_is_what_status_tells() {
    let scratch = Scratch::with_volume();
    scratch.bash("mkdir mnt").ok();
    let open = Open::new(&scratch, "open", &["--fuse", "mnt", "--metrics", "metrics"]);
    assert!(open.text().ends_with("\n  no requests yet\n"), "{}", open.text());
    scratch.bash("dd if=mnt/volume of=/dev/null bs=4k count=64 iflag=direct").ok();
    assert_eq!((open.number("read", "requests"), open.number("read", "bytes")), (64, 64 << 12));
    scratch.bash("dd if=/dev/urandom of=mnt/volume bs=64k count=16 oflag=direct conv=notrunc,fsync").ok();
    assert_eq!(open.number("write", "bytes"), 16 << 16);
    assert_eq!((open.number("read", "errors"), open.number("write", "errors")), (0, 0));
    assert!(open.number("flush", "requests") >= 1);
    // The same by the other way, and for a person.
    let told = scratch.bash("curl -sf --unix-socket metrics http://localhost/metrics").ok().stdout;
    let name = &open.name;
    let line = format!("atrest_request_bytes_total{{volume=\"{name}\",operation=\"write\"}} 1048576");
    assert!(told.lines().any(|found| found == line), "{told}");
    let text = open.text();
    let read = text.lines().find(|line| line.starts_with("  read: ")).expect("a line");
    assert!(
        read.starts_with("  read: 64 requests, 262144 bytes (256 KiB), 0 errors, 0 in flight, p50 ≤ "),
        "{read}"
    );
    assert!(!text.contains("discard"), "{text}");
    // A list for a person has a line for each volume, and asks nobody.
    let list = scratch.atrest(&["status"]).ok().stdout;
    assert!(list.contains(name.as_str()) && !list.contains("64 requests"), "{list}");
    assert_eq!(scratch.bash("stat -c %a metrics").ok().stdout, "600\n");
    drop(open);
    assert!(!scratch.path("metrics").exists());
}

#[test]
fn files_that_a_reader_here_shows_are_counted_at_the_volume_below_them() {
    let scratch = Scratch::with_volume();
    scratch.bash("mkdir mnt files && head -c 500000 /dev/urandom > files/a").ok();
    let make =
        ["open", "vol", "--key-file", "key", "--nbd", "--name", &scratch.session(), "--run", "sh", "-c"];
    let fill = "truncate -s 3M ext4 && mkfs.ext4 -q -d files ext4 && nbdcopy ext4 \"$ATREST_URI\"";
    scratch.atrest(&[&make[..], &[fill]].concat()).ok();
    let open = Open::new(&scratch, "mount", &["mnt", "--metrics", "metrics"]);
    scratch.bash("cmp mnt/a files/a").ok();
    assert!(open.number("read", "bytes") >= 500_000);
    let told = scratch.bash("curl -sf --unix-socket metrics http://localhost/metrics").ok().stdout;
    assert!(told.contains("atrest_request_bytes_total{"), "{told}");
}

#[test]
fn what_has_no_block_device_has_no_figures_and_metrics_of_it_are_refused() {
    let scratch = Scratch::new();
    scratch.file("key", b"correct horse\n");
    scratch.bash("mkdir content mnt lower").ok();
    let image = ["image", "content", "vol", "--type", "flash", "--size", "1M", "--key-file", "key"];
    scratch.atrest(&image).ok();
    let why = "--metrics has no figures of encrypted flash and of directories";
    // Before a passphrase is asked for.
    scratch.atrest(&["mount", "vol", "mnt", "--metrics", "metrics"]).fails(1, why);
    scratch.atrest(&["mount", "lower", "mnt", "--metrics", "metrics"]).fails(1, why);
    assert!(!scratch.path("metrics").exists());
    let open = Open::new(&scratch, "mount", &["mnt"]);
    let entry = open.entry();
    assert!(entry["metrics"].is_null() && entry["read_only"].is_boolean(), "{entry}");
    assert_eq!(entry["no_metrics"], "the process that serves it offers no figures");
    assert!(open.text().ends_with("\n  no figures: the process that serves it offers no figures\n"));
}

#[test]
fn a_process_that_hangs_is_listed_without_figures_and_holds_nobody_up() {
    let scratch = Scratch::with_volume();
    let open = Open::new(&scratch, "open", &["--nbd", "socket"]);
    let pid = open.pid();
    scratch.bash(&format!("kill -STOP {pid}")).ok();
    let begun = Instant::now();
    let (entry, text) = (open.entry(), open.text());
    let took = begun.elapsed();
    scratch.bash(&format!("kill -CONT {pid}")).ok();
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(entry["metrics"].is_null(), "{entry}");
    assert_eq!(entry["no_metrics"], "the process that serves it has not answered within 2 s");
    assert!(
        text.contains("read-write")
            && text.contains("  no figures: the process that serves it has not answered")
    );
    assert_eq!(open.number("read", "errors"), 0);
}

#[test]
fn a_volume_that_an_older_version_serves_is_listed_without_figures() {
    let scratch = Scratch::with_volume();
    let open = Open::new(&scratch, "open", &["--nbd"]);
    let socket = open.entry()["kind"]["nbd-unix"]["socket"].as_str().expect("a path").to_owned();
    let figures = socket.strip_suffix(".sock").expect("the session's own").to_owned() + ".metrics";
    assert_eq!(scratch.bash(&format!("stat -c %a {figures}")).ok().stdout, "600\n");
    // It has no such socket.
    std::fs::remove_file(&figures).expect("it is there");
    let entry = open.entry();
    assert!(entry["metrics"].is_null() && entry["name"] == open.name.as_str(), "{entry}");
    assert_eq!(entry["no_metrics"], "the process that serves it offers no figures");
    assert!(open.text().contains("read-write"));
}

#[test]
fn a_process_that_was_killed_leaves_nothing_that_is_in_the_way() {
    let scratch = Scratch::with_volume();
    let args = ["--vhost-user", "socket", "--metrics", "metrics"];
    let open = Open::new(&scratch, "open", &args);
    assert_eq!(open.number("write", "requests"), 0);
    let pid = open.pid();
    scratch.bash(&format!("kill -9 {pid}; while kill -0 {pid} 2> /dev/null; do sleep 0.01; done")).ok();
    scratch.atrest(&["status", &open.name]).fails(4, "no open volume is called");
    // What --metrics made is the next one's to take.
    assert!(scratch.path("metrics").exists());
    let again = Open::new(&scratch, "open", &args);
    assert_eq!(again.number("read", "requests"), 0);
    scratch.bash("curl -sf --unix-socket metrics http://localhost/metrics | grep -q atrest_build_info").ok();
    // One that is in use is not, which is said before a passphrase is asked for.
    scratch.bash("cp vol other").ok();
    let with = |metrics| scratch.atrest(&["open", "other", "--nbd", "nbd", "--metrics", metrics]);
    with("metrics").fails(5, "another server answers on");
    with("key").fails(1, "is not a socket");
}
