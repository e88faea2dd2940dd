//! FUSE over io_uring, which the kernel offers only where root has said so.

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::needs::skipped;

/// The parameter of Linux 6.14 and later that lets new mounts have rings.
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// Runs `mount` while the kernel offers rings to new mounts. Mounts keep them; the machine's setting is put back. True if there
/// were any to be had: otherwise the test is told as skipped.
///
/// # Panics
/// When the parameter is there and can't be set: tests of FUSE's rings need root.
pub fn with_rings<T>(mount: impl FnOnce() -> T) -> (T, bool) {
    if !Path::new(PARAMETER).exists() {
        skipped("the kernel has no FUSE over io_uring (Linux 6.14), so requests came by /dev/fuse");
        return (mount(), false);
    }
    let _turn = turn();
    let _before = Setting(fs::read_to_string(PARAMETER).expect("a setting"));
    fs::write(PARAMETER, "Y").expect("run the tests as root");
    (mount(), true)
}

/// Runs `meanwhile` while rings are allowed and forbidden, each for so long, again and again. The machine's setting is put back.
///
/// # Panics
/// Where [`with_rings`] does.
pub fn while_turning<T>(each: Duration, meanwhile: impl FnOnce() -> T) -> T {
    if !Path::new(PARAMETER).exists() {
        skipped("the kernel has no FUSE over io_uring (Linux 6.14), so nothing was turned");
        return meanwhile();
    }
    let _turn = turn();
    let _before = Setting(fs::read_to_string(PARAMETER).expect("a setting"));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for setting in ["Y", "N"].iter().cycle().take_while(|_| !ended.load(Ordering::Relaxed)) {
                fs::write(PARAMETER, setting).expect("run the tests as root");
                std::thread::sleep(each);
            }
        });
        let _end = AtEnd(&ended);
        meanwhile()
    })
}

/// The right to change the setting: another test, also of another program, would put it back too early.
fn turn() -> File {
    let turn = File::create(std::env::temp_dir().join("atrest-fuse-rings.lock")).expect("a lock file");
    turn.lock().expect("a turn");
    turn
}

/// Says so however what it stands in ends.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A setting that is put back.
struct Setting(String);

impl Drop for Setting {
    fn drop(&mut self) {
        fs::write(PARAMETER, self.0.trim()).expect("run the tests as root");
    }
}
