//! What the kernel shows of itself, mounted where everybody looks for it.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, makedev, mknodat};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stderr, stdin, stdout};

use crate::mounts::mount_once;

/// File system, place, flags, options.
const ALL: &[(&str, &str, MountFlags, &str)] = &[
    ("proc", "/proc", MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC), ""),
    ("sysfs", "/sys", MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC), ""),
    ("devtmpfs", "/dev", MountFlags::NOSUID, "mode=0755"),
    ("tmpfs", "/run", MountFlags::NOSUID.union(MountFlags::NODEV), "mode=0755"),
];

/// Mounts all of them, those that are there already aside. What is wrong is told by whoever called: there may be no console before.
pub fn mount_all() -> Vec<String> {
    let mut problems = Vec::new();
    for (kind, place, flags, options) in ALL {
        let place = Path::new(place);
        // Each mount of proc is one of its own, and would hide what is there.
        if is_mounted(place) {
            continue;
        }
        let made = match std::fs::create_dir(place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => mount_once(Path::new(kind), place, kind, *flags, options).map_err(io::Error::from),
        };
        match made {
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {}
            Err(error) => problems.push(format!("{} can't be mounted: {error}", place.display())),
            Ok(()) => {}
        }
    }
    // A kernel without devtmpfs: what is needed to say so.
    for (path, major, minor) in [("/dev/console", 5, 1), ("/dev/null", 1, 3)] {
        if !Path::new(path).exists() {
            let _ = mknodat(
                CWD,
                path,
                FileType::CharacterDevice,
                Mode::from_raw_mode(0o600),
                makedev(major, minor),
            );
        }
    }
    if let Err(error) = give_console() {
        problems.push(format!("/dev/console: {error}"));
    }
    problems
}

/// Whether something is mounted there.
fn is_mounted(place: &Path) -> bool {
    let device = |path: &Path| path.metadata().ok().map(|metadata| metadata.dev());
    device(place).is_some_and(|own| Some(own) != device(Path::new("/")))
}

/// Input and output that the kernel could not give, as the initramfs had no console, were opened as `/dev/null`.
fn give_console() -> Result<(), Errno> {
    let null = makedev(1, 3);
    let is_null = |fd: BorrowedFd<'_>| fstat(fd).is_ok_and(|stat| stat.st_rdev == null);
    if [stdin(), stdout(), stderr()].into_iter().any(is_null) {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let console = rustix::fs::open("/dev/console", flags, Mode::empty())?;
        if is_null(stdin()) {
            dup2_stdin(&console)?;
        }
        if is_null(stdout()) {
            dup2_stdout(&console)?;
        }
        if is_null(stderr()) {
            dup2_stderr(&console)?;
        }
    }
    Ok(())
}
