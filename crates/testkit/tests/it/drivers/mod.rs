//! `atrest mount --driver`: what is inside a volume, mounted by the driver that others keep, as an ordinary user. Judges are the
//! file systems' own checkers, on the decrypted image, and a list of files that a script in Python made and expects.

mod endings;
mod kernel;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use atrest_testkit::atrest::{FAST_PBKDF2, binary};
use atrest_testkit::oracle::{Outcome, Program, workspace};
use atrest_testkit::{Campaign, again, needs};
use serde_json::Value;

use crate::unprivileged::{User, done_with_usual_devices};

/// Set where a test runs again in a mount namespace in which users may let others see what they have mounted.
const OTHERS_MAY_LOOK: &str = "ATREST_OTHERS_MAY_LOOK";

/// A user with a volume, and the script that makes files.
struct Desk {
    user: User,
    /// A name that no other test uses.
    name: String,
}

impl Desk {
    /// A volume of this size, in which `make` has made a file system of `$ATREST_PATH`.
    fn new(user: User, size: &str, make: &str) -> Self {
        fs::copy(workspace().join("crates/testkit/tests/it/drivers/files.py"), user.path("files.py"))
            .expect("copy the script");
        let home = user.path("").canonicalize().expect("the home");
        let name = home.file_name().and_then(|name| name.to_str()).expect("plain letters").to_owned();
        let desk = Self { user, name };
        desk.user.shell("(umask 077; printf 'correct horse' > key)");
        desk.user.atrest(&format!("format --yes --size {size} --key-file key volume.img {FAST_PBKDF2}")).ok();
        let run = ["--name", &desk.name, "--run", "sh", "-c", make];
        desk.user.atrest("open volume.img --key-file key --fuse mount").args(run).ok();
        desk
    }

    /// `atrest mount` in the background, not started yet.
    fn mount(&self, options: &str) -> Program {
        let name = ["--name", &self.name];
        self.user.atrest("mount volume.img mount --key-file key --daemon").args(name).words(options)
    }

    fn close(&self) -> Program {
        self.user.atrest("close").arg(&self.name)
    }

    fn python(&self, words: &str) -> String {
        self.user.shell(&format!("python3 -B files.py {words}")).text()
    }

    /// What `status` says of the volume; none if it says nothing.
    fn status(&self) -> Option<Value> {
        let listed = self.user.atrest("status --json").ok().json();
        let entries = listed.as_array().expect("a list");
        entries.iter().find(|entry| entry["name"] == self.name.as_str()).cloned()
    }

    /// Whether anything is mounted in this home, or in the directory in which its files for drivers are.
    fn has_mounts(&self) -> bool {
        let home = self.user.path("").canonicalize().expect("the home");
        let table = fs::read_to_string("/proc/self/mountinfo").expect("the mount table");
        table.contains(&format!("{}/", home.display()))
    }

    /// The plaintext in a file.
    fn decrypted(&self) {
        let _ = fs::remove_file(self.user.path("plain.img"));
        self.user.atrest("decrypt volume.img plain.img --key-file key").ok();
    }
}

impl Drop for Desk {
    /// A test that fails leaves no process behind, which would hold its mounts.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let listed = self.user.atrest("status --json").run().text();
            let entries: Vec<Value> = serde_json::from_str(&listed).unwrap_or_default();
            let ours = entries.iter().filter(|entry| entry["name"] == self.name.as_str());
            for pid in ours.filter_map(|entry| entry["process"]["pid"].as_i64()) {
                Program::named("kill").args(["-9", &pid.to_string()]).run();
            }
            self.close().run();
        }
    }
}

/// Runs the test again where users may let others see what they mount. Returns whether that was done. Nor does a test that runs
/// beside it, in a mount namespace of its own, hold a copy of what is mounted there.
fn done_where_others_may_look(user: &User) -> bool {
    if std::env::var_os(OTHERS_MAY_LOOK).is_some() {
        return false;
    }
    needs::root("letting others look, which /etc/fuse.conf allows,");
    fs::create_dir(user.path("device")).expect("make a directory");
    fs::write(user.path("fuse.conf"), "user_allow_other\n").expect("write fuse.conf");
    let script = "mount --bind \"$0/fuse.conf\" /etc/fuse.conf && \
                  mount -t tmpfs -o dev tmpfs \"$0/device\" && mknod -m 666 \"$0/device/fuse\" c 10 229 && \
                  mount --bind \"$0/device/fuse\" /dev/fuse && exec \"$@\"";
    Program::named("unshare")
        .args(["--mount", "sh", "-c", script])
        .arg(user.path(""))
        .args(again::command_line())
        .env("ATREST_BIN", binary())
        .env(OTHERS_MAY_LOOK, "1")
        .ok()
        .expect_one_passed();
    true
}

/// Makes files through a driver, closes, has the checker look, and compares what a second mount shows.
fn files_are_there_and_in_order(desk: &Desk, campaign: Campaign, count: usize, check: &str) {
    let count = if Campaign::is_full() { count } else { count / 50 };
    for seed in campaign.seeds() {
        desk.user.shell("test -z \"$(ls mount)\"");
        desk.mount("--driver").ok();
        desk.user.shell("find mount -mindepth 1 -not -name lost+found -delete");
        let expected = desk.python(&format!("make mount {seed} {count}"));
        expect_same(&expected, &desk.python("list mount"));
        desk.close().ok();
        assert!(!desk.has_mounts() && desk.status().is_none());
        desk.decrypted();
        let checked: Outcome = desk.user.shell(check);
        println!("{}", checked.text());
        desk.mount("--driver --read-only").ok();
        assert!(desk.user.try_shell("touch mount/new").code != Some(0), "it can be written");
        expect_same(&expected, &desk.python("list mount"));
        desk.close().ok();
    }
}

/// Names the lines that two lists of files do not have in common.
#[track_caller]
fn expect_same(expected: &str, found: &str) {
    let [expected, found] = [expected, found].map(|list| list.lines().collect::<BTreeSet<&str>>());
    let missing: Vec<_> = expected.difference(&found).collect();
    let other: Vec<_> = found.difference(&expected).collect();
    assert!(missing.is_empty() && other.is_empty(), "missing: {missing:#?}, instead: {other:#?}");
    assert!(!expected.is_empty());
}

const EXT4: &str = "mkfs.ext4 -q $ATREST_PATH";

#[test]
fn ext4_is_written_by_an_ordinary_user_and_e2fsck_finds_nothing() {
    let user = User::new();
    if done_with_usual_devices(&user) {
        return;
    }
    let desk = Desk::new(user, "400M", EXT4);
    let campaign = Campaign::new("ext4 by fuse2fs", 1, 3);
    files_are_there_and_in_order(&desk, campaign, 10_000, "e2fsck -f -n plain.img");
    // Our own reader sees the same.
    desk.user.shell("mkdir out");
    desk.user.atrest("cp -r volume.img:/ out/all --key-file key").ok();
    let inside = desk.python("list out/all");
    desk.mount("--driver --read-only").ok();
    let mounted = desk.python("list mount");
    expect_same(&mounted, &inside);
    desk.close().ok();
}

#[test]
fn ntfs_is_written_by_an_ordinary_user_and_ntfsfix_finds_nothing() {
    let user = User::new();
    if done_where_others_may_look(&user) {
        return;
    }
    let desk = Desk::new(user, "400M", "mkfs.ntfs -q -F -Q $ATREST_PATH");
    let campaign = Campaign::new("NTFS by ntfs-3g", 1, 3);
    files_are_there_and_in_order(&desk, campaign, 10_000, "ntfsfix -n plain.img && ntfsinfo -m plain.img");
    // What it may see is the user's alone all the same.
    desk.mount("--driver").ok();
    let private = desk.status().expect("it is open")["kind"]["fuse"]["directory"].clone();
    let private = Path::new(private.as_str().expect("a path")).parent().expect("its parent").to_owned();
    let stranger = Program::named("setpriv")
        .args(["--reuid=65533", "--regid=65533", "--clear-groups", "--inh-caps=-all", "ls"])
        .arg(private)
        .run();
    assert!(!stranger.is_ok(), "a stranger sees the plaintext: {}", stranger.text());
    desk.close().ok();
}

#[test]
fn exfat_is_written_by_an_ordinary_user_and_fsck_exfat_finds_nothing() {
    let user = User::new();
    if done_with_usual_devices(&user) {
        return;
    }
    let desk = Desk::new(user, "400M", "mkfs.exfat $ATREST_PATH");
    let campaign = Campaign::new("exFAT by exfat-fuse", 1, 3);
    files_are_there_and_in_order(&desk, campaign, 10_000, "fsck.exfat -n plain.img");
}

#[test]
fn a_driver_that_an_ordinary_user_cannot_use_is_refused_and_says_what_helps() {
    let user = User::new();
    if done_with_usual_devices(&user) {
        return;
    }
    let desk = Desk::new(user, "48M", "mkfs.ntfs -q -F -Q $ATREST_PATH");
    let refused = desk.mount("--loop").run().expect_code(2);
    assert!(refused.messages().contains("--loop needs root"), "{}", refused.messages());
    let refused = desk.mount("").run().expect_code(2);
    assert!(refused.messages().contains("user_allow_other` into /etc/fuse.conf"), "{}", refused.messages());
    assert!(!desk.has_mounts() && desk.status().is_none());
    desk.user.shell("test -z \"$(ls run/atrest)\"");
}
