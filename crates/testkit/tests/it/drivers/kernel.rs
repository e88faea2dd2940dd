//! `atrest mount --loop`: the kernel's own file system over our file. And which partition is meant.

use atrest_testkit::needs;
use atrest_testkit::oracle::Program;

use super::{Desk, EXT4, done_where_others_may_look};
use crate::unprivileged::{User, done_with_usual_devices};

#[test]
fn the_kernel_mounts_what_is_inside_over_a_loop_device() {
    needs::root("the kernel's own file systems");
    let user = User::root();
    if done_where_others_may_look(&user) {
        return;
    }
    let desk = Desk::new(user, "64M", EXT4);
    desk.mount("--loop --driver-options noatime").ok();
    let table = std::fs::read_to_string("/proc/self/mounts").expect("the mount table");
    let home = desk.user.path("mount").canonicalize().expect("the directory");
    let line =
        table.lines().find(|line| line.contains(&format!(" {} ", home.display()))).expect("it is mounted");
    assert!(line.starts_with("/dev/loop") && line.contains(" ext4 rw,nosuid,nodev,noatime"), "{line}");
    let expected = desk.python("make mount 1 200");
    assert!(desk.user.atrest("status").ok().text().contains("(by the kernel)"));
    desk.close().ok();
    assert!(!desk.has_mounts() && desk.status().is_none());
    desk.decrypted();
    desk.user.shell("e2fsck -f -n plain.img");
    // Another driver sees the same files.
    desk.mount("--driver --read-only").ok();
    assert_eq!(desk.python("list mount"), expected);
    desk.close().ok();
    // Unmounted by hand.
    desk.mount("--loop --read-only").ok();
    desk.user.shell("umount mount");
    atrest_testkit::wait_until("the volume is closed", || desk.status().is_none());
    assert!(!desk.has_mounts());
}

#[test]
fn the_partition_that_is_meant_is_the_one_that_a_driver_gets() {
    let user = User::new();
    if done_with_usual_devices(&user) {
        return;
    }
    let make = "printf 'label: gpt\\nsize=20M\\nsize=20M\\n' | sfdisk -q $ATREST_PATH && \
                mkfs.ext4 -q -F -E offset=$((2048*512)) $ATREST_PATH 20M && \
                mkfs.ext4 -q -F -E offset=$(((2048+40960)*512)) -L second $ATREST_PATH 20M";
    let desk = Desk::new(user, "64M", make);
    let refused = desk.mount("--driver").run();
    assert!(refused.messages().contains("--partition"), "{}", refused.messages());
    desk.mount("--driver --partition 2").ok();
    desk.user.shell("echo second > mount/which");
    desk.close().ok();
    desk.decrypted();
    desk.user.shell("dd if=plain.img of=one bs=512 skip=2048 count=40960 2> log && e2fsck -f -n one");
    desk.user.shell("dd if=plain.img of=two bs=512 skip=43008 count=40960 2> log && e2fsck -f -n two");
    desk.user.shell("test -z \"$(debugfs -R 'cat /which' one 2> log)\"");
    assert_eq!(desk.user.shell("debugfs -R 'cat /which' two 2> log").text(), "second\n");
}

#[test]
fn a_driver_on_a_loop_device_that_is_killed_is_told_and_cleared() {
    needs::root("a loop device");
    let user = User::root();
    if done_where_others_may_look(&user) {
        return;
    }
    let desk = Desk::new(user, "48M", "mkfs.exfat $ATREST_PATH");
    desk.mount("").ok();
    let status = desk.status().expect("it is open");
    let driver = status["kind"]["fuse"]["driver"]["process"]["pid"].as_i64().expect("the driver's process");
    Program::named("kill").args(["-9", &driver.to_string()]).ok();
    // The kernel holds the loop device as long as the dead mount is there, and the server waits for it.
    atrest_testkit::wait_until("it is told", || {
        desk.status()
            .is_some_and(|status| status["failed"].as_str().is_some_and(|why| why.contains("exfat-fuse")))
    });
    assert!(desk.user.try_shell("echo lost > mount/lost").code != Some(0), "a write without a driver");
    let closed = desk.close().run().expect_code(4);
    assert!(closed.messages().contains("killed by signal 9"), "{}", closed.messages());
    assert!(!desk.has_mounts() && desk.status().is_none());
    let file = status["kind"]["fuse"]["directory"].as_str().expect("the directory of our file");
    let loops = Program::named("losetup").arg("-l").ok().text();
    assert!(!loops.contains(file), "{loops}");
    desk.user.shell("test -z \"$(ls mount)\"");
    desk.mount("").ok();
    desk.close().ok();
}
