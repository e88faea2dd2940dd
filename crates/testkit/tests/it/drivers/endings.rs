//! The ends of a driver and of what serves it, in order and otherwise.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

use atrest_testkit::needs;
use atrest_testkit::oracle::{Program, tool};
use atrest_testkit::wait_until;
use serde_json::Value;

use super::{Desk, EXT4};
use crate::unprivileged::{User, done_with_usual_devices};

/// A mounted ext4 with the file `kept`; none if the test has run in a namespace of its own.
fn mounted(options: &str) -> Option<Desk> {
    let user = User::new();
    if done_with_usual_devices(&user) {
        return None;
    }
    let desk = Desk::new(user, "48M", EXT4);
    desk.mount(options).ok();
    desk.user.shell("echo kept > mount/kept");
    Some(desk)
}

fn driver_pid(status: &Value) -> i64 {
    status["kind"]["fuse"]["driver"]["process"]["pid"].as_i64().expect("the driver's process")
}

fn kill(pid: i64, signal: &str) {
    Program::named("kill").args([signal, &pid.to_string()]).ok();
}

fn is_running(pid: i64) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

impl Desk {
    /// Fails unless everything is clean: no mount, no entry, no leftover, and the file system passes its checker.
    fn expect_clean(&self) {
        assert!(!self.has_mounts() && self.status().is_none());
        self.user.shell("test -z \"$(ls mount)\" && test -z \"$(ls run/atrest)\"");
        self.decrypted();
        self.user.shell("e2fsck -f -n plain.img");
    }

    /// A process whose working directory is in the mount.
    fn process_inside(&self) -> Child {
        let script = ["-c", "cd mount && exec sleep 1000"];
        let child = self.user.program(&tool("sh")).args(script).start();
        let name = format!("/proc/{}/comm", child.id());
        wait_until("it is there", || fs::read_to_string(&name).is_ok_and(|name| name.trim() == "sleep"));
        child
    }

    fn expect_kept(&self) {
        let kept = self.user.atrest("cat volume.img /kept --key-file key").ok();
        assert_eq!(kept.text(), "kept\n");
    }
}

#[test]
fn a_driver_that_is_killed_is_told_by_status_and_cleared_by_close() {
    let Some(desk) = mounted("--driver") else { return };
    let status = desk.status().expect("it is open");
    kill(driver_pid(&status), "-9");
    let server = status["process"]["pid"].as_i64().expect("the server's process");
    wait_until("the server has closed the volume", || !is_running(server));
    let told = desk.user.atrest("status").ok().text();
    assert!(
        told.contains("driver fuse2fs ended (killed by signal 9)") && told.contains("clears this"),
        "{told}"
    );
    // The dead mount keeps programs from writing to the directory below.
    assert!(desk.user.try_shell("echo lost > mount/lost").code != Some(0));
    let closed = desk.close().run().expect_code(4);
    assert!(closed.messages().contains("not in order: the driver fuse2fs ended"), "{}", closed.messages());
    assert!(!desk.has_mounts() && desk.status().is_none());
    desk.user.shell("test -z \"$(ls mount)\" && test -z \"$(ls run/atrest)\"");
    let again = desk.close().run().expect_code(4);
    assert!(again.messages().contains("no open volume is called"), "{}", again.messages());
    // What is left is what a disk has after the power has failed: the checker mends it, and it can be mounted again.
    desk.user
        .atrest("open volume.img --key-file key --fuse mount --run sh -c")
        .arg("e2fsck -fy $ATREST_PATH; test $? -le 1")
        .ok();
    desk.mount("--driver").ok();
    desk.close().ok();
    desk.expect_clean();
}

#[test]
fn a_server_that_is_killed_leaves_a_driver_with_errors_and_close_clears_both() {
    let Some(desk) = mounted("--driver") else { return };
    let status = desk.status().expect("it is open");
    let (server, driver) = (status["process"]["pid"].as_i64().expect("a process"), driver_pid(&status));
    kill(server, "-9");
    wait_until("the server is dead", || !is_running(server));
    assert!(is_running(driver), "the driver lives on");
    assert!(
        desk.user.try_shell("echo lost > mount/lost; sync mount/lost").code != Some(0),
        "a write without a volume"
    );
    let told = desk.user.atrest("status").ok().text();
    assert!(told.contains(&format!("process {server}, which served it, was killed")), "{told}");
    assert!(is_running(driver) && desk.has_mounts(), "looking changes nothing");
    let closed = desk.close().run().expect_code(4);
    assert!(closed.messages().contains("was killed"), "{}", closed.messages());
    wait_until("the driver has ended", || !is_running(driver));
    assert!(!desk.has_mounts() && desk.status().is_none());
    desk.user.shell("test -z \"$(ls mount)\" && test -z \"$(ls run/atrest)\"");
}

#[test]
fn a_directory_that_is_unmounted_by_hand_closes_the_volume() {
    let Some(desk) = mounted("--driver") else { return };
    desk.user.shell("fusermount3 -u mount");
    wait_until("the volume is closed", || desk.status().is_none());
    let closed = desk.close().run().expect_code(4);
    assert!(closed.messages().contains("no open volume is called"), "{}", closed.messages());
    desk.expect_clean();
    desk.expect_kept();
}

#[test]
fn a_directory_that_is_unmounted_by_hand_can_be_closed_at_once() {
    let Some(desk) = mounted("--driver") else { return };
    desk.user.shell("dd if=/dev/urandom of=mount/big bs=1M count=20 2> log && fusermount3 -u mount");
    // Either it is being closed, or it is closed already.
    let closed = desk.close().run();
    assert!(
        closed.is_ok() || closed.messages().contains("no open volume is called"),
        "{}",
        closed.messages()
    );
    desk.expect_clean();
    desk.expect_kept();
}

#[test]
fn a_driver_whose_files_are_in_use_stays_until_they_are_not() {
    let Some(desk) = mounted("--driver") else { return };
    let mut user = desk.process_inside();
    let refused = desk.close().run().expect_code(5);
    assert!(refused.messages().contains("sleep"), "{}", refused.messages());
    assert!(desk.status().is_some());
    user.kill().expect("end it");
    user.wait().expect("it has ended");
    desk.close().ok();
    desk.expect_clean();
    desk.expect_kept();
}

#[test]
fn sigterm_ends_the_driver_first_and_saves_what_was_written() {
    let Some(desk) = mounted("--driver") else { return };
    let server = desk.status().expect("it is open")["process"]["pid"].as_i64().expect("a process");
    desk.user.shell("head -c 20000000 /dev/urandom | tee mount/big > big");
    kill(server, "-TERM");
    wait_until("the server has ended", || !is_running(server));
    desk.expect_clean();
    desk.user.atrest("cat volume.img /big --key-file key").ok();
    desk.user.shell("debugfs -R 'dump /big out' plain.img 2> log && cmp out big");
}

#[test]
fn a_second_signal_has_the_driver_write_back_although_its_files_are_in_use() {
    let Some(desk) = mounted("--driver") else { return };
    let status = desk.status().expect("it is open");
    let server = status["process"]["pid"].as_i64().expect("a process");
    let mut user = desk.process_inside();
    kill(server, "-TERM");
    wait_until("it is out of sight", || desk.user.try_shell("test -z \"$(ls mount)\"").is_ok());
    assert!(is_running(server));
    kill(server, "-TERM");
    wait_until("the server has ended", || !is_running(server));
    user.kill().expect("end it");
    user.wait().expect("it has ended");
    desk.expect_clean();
    desk.expect_kept();
}

#[test]
fn a_command_finds_the_files_and_its_status_is_the_end() {
    let user = User::new();
    if done_with_usual_devices(&user) {
        return;
    }
    let desk = Desk::new(user, "48M", EXT4);
    let script = "echo kept > $ATREST_PATH/kept; exit 7";
    desk.user
        .atrest("mount volume.img mount --key-file key --driver=fuse2fs --run sh -c")
        .arg(script)
        .run()
        .expect_code(7);
    desk.expect_clean();
    desk.expect_kept();
    let refused = desk.mount("--driver=ntfs-3g").run().expect_code(1);
    assert!(refused.messages().contains("ext4 is no filesystem of ntfs-3g"), "{}", refused.messages());
}

#[test]
fn what_a_driver_says_is_told_when_it_does_not_start() {
    let user = User::new();
    if done_with_usual_devices(&user) {
        return;
    }
    // A feature that no driver knows.
    let desk = Desk::new(
        user,
        "48M",
        "mkfs.ext4 -q $ATREST_PATH && debugfs -w -R 'feature FEATURE_I31' $ATREST_PATH",
    );
    let refused = desk.mount("--driver").run().expect_code(4);
    let said = refused.messages();
    assert!(said.contains("fuse2fs could not mount it (exit code"), "{said}");
    assert!(said.contains("unsupported"), "the driver's own words: {said}");
    assert!(!desk.has_mounts() && desk.status().is_none());
    desk.user.shell("test -z \"$(ls run/atrest)\"");
}

#[test]
fn another_driver_is_found_in_the_path_and_called_without_a_shell() {
    let user = User::new();
    if done_with_usual_devices(&user) {
        return;
    }
    let desk = Desk::new(user, "48M", EXT4);
    // What the Linux Kernel Library's program would be called with, and a driver for it.
    let script = "#!/bin/sh\necho \"$#: $1 $2 $3\" > called\nexec fuse2fs -f -o fakeroot \"$4\" \"$5\"\n";
    let script = script.replace("called", desk.user.path("called").to_str().expect("plain letters"));
    let program = desk.user.path("bin/lklfuse");
    fs::write(&program, script).expect("write the program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("chmod");
    let path = format!("{}:{}", desk.user.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    let option = "noatime;touch$IFS'x'";
    desk.mount("--driver=lklfuse --driver-options").arg(option).env("PATH", path).ok();
    let called = fs::read_to_string(desk.user.path("called")).expect("it was called");
    assert_eq!(called.trim(), format!("5: -f -o type=ext4,rw,nosuid,nodev,{option}"));
    desk.user.shell("echo kept > mount/kept");
    desk.close().ok();
    desk.expect_clean();
    desk.expect_kept();
}

#[test]
fn a_driver_that_is_not_installed_is_named_with_its_package() {
    needs::root("hiding a program");
    for (program, make) in [("fuse2fs", EXT4), ("ntfs-3g", "mkfs.ntfs -q -F -Q $ATREST_PATH")] {
        let desk = Desk::new(User::root(), "48M", make);
        let script = "mount --bind key \"$(readlink -f \"$(command -v $0)\")\" && exec \"$@\"";
        let hidden = Program::named("unshare")
            .args(["--mount", "sh", "-c", script, program])
            .arg(desk.user.path("bin/atrest"))
            .words("mount volume.img mount --key-file key --driver")
            .current_dir(desk.user.path(""))
            .run()
            .expect_code(4);
        let said = hidden.messages();
        assert!(said.contains(&format!("{program} is not installed")), "{said}");
        assert!(said.contains(&format!("apt install {program}")), "{said}");
    }
}

#[test]
fn a_signal_ends_the_wait_for_a_driver_that_mounts_nothing() {
    let user = User::new();
    if done_with_usual_devices(&user) {
        return;
    }
    let desk = Desk::new(user, "48M", EXT4);
    let called = desk.user.path("called");
    let script =
        format!("#!/bin/sh\necho $$ > {0}.new && mv {0}.new {0}\nexec sleep 1000\n", called.display());
    let program = desk.user.path("bin/lklfuse");
    fs::write(&program, script).expect("write the program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("chmod");
    let path = format!("{}:{}", desk.user.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    let words = "mount volume.img mount --key-file key --driver=lklfuse";
    let mut command = desk.user.atrest(words).env("PATH", path).into_command();
    let server = command.stderr(Stdio::piped()).spawn().expect("start it");
    wait_until("the driver runs", || called.exists());
    let driver: i64 = fs::read_to_string(&called).expect("its id").trim().parse().expect("a number");
    kill(server.id().into(), "-TERM");
    let ended = server.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(4) && said.contains("interrupted before it was mounted"), "{said}");
    assert!(!is_running(driver));
    desk.expect_clean();
}
