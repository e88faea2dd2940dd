//! The root file system: found, mounted, and looked at before anything depends on it.

use core::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{MountFlags, UnmountFlags, unmount};

use crate::device::{Events, find, wait_for};
use crate::mounts::mount_with_types;
use crate::policy::{Boot, DeviceSpec};
use crate::unlock::{Level, Outcome};

/// Where the root file system is mounted before it is the root.
pub const PLACE: &str = "/sysroot";
/// What is started if nothing is said, as the kernel does.
const PROGRAMS: &[&str] = &["/sbin/init", "/etc/init", "/bin/init", "/bin/sh"];

/// Why there is no root file system.
#[derive(Debug)]
pub enum RootError {
    /// Nothing says what it is.
    NotSaid,
    /// It has not come.
    Missing { device: DeviceSpec, seconds: u64 },
    /// It can't be mounted.
    Mount { device: PathBuf, error: io::Error },
    /// There is no program on it that could be started.
    NoInit { tried: String },
}

impl fmt::Display for RootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSaid => f.write_str(
                "nothing says where the root file system is: root= is missing on the kernel command line",
            ),
            Self::Missing { device, seconds: 0 } => write!(f, "the root file system {device} is not there"),
            Self::Missing { device, seconds } => {
                write!(f, "the root file system {device} has not come within {seconds} s")
            }
            Self::Mount { device, error } => {
                write!(f, "the root file system {} can't be mounted: {error}", device.display())
            }
            Self::NoInit { tried } => {
                write!(f, "the root file system has no init: {tried} can't be executed")
            }
        }
    }
}

/// Mounts the root file system: what `root=` says, or else the only volume that was opened.
pub fn mount(
    boot: &Boot,
    outcomes: &[Outcome],
    timeout: Option<Duration>,
    say: &dyn Fn(Level, &str),
) -> Result<(), RootError> {
    let opened: Vec<&PathBuf> =
        outcomes.iter().filter_map(|outcome| Some(outcome.result.as_ref().ok()?.path())).collect();
    let spec = match (&boot.root, opened.as_slice()) {
        (Some(spec), _) => spec.clone(),
        (None, [only]) => DeviceSpec::Path((*only).clone()),
        (None, _) => return Err(RootError::NotSaid),
    };
    let events = Events::listen();
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut told = false;
    let found = wait_for(&events, end, || {
        let found = find(&spec);
        if found.is_none() && !told {
            told = true;
            say(Level::Info, &format!("waiting for the root file system {spec}"));
        }
        found
    });
    let seconds = timeout.map_or(0, |timeout| timeout.as_secs());
    let device = found.ok_or(RootError::Missing { device: spec, seconds })?.path;
    let failed = |error| RootError::Mount { device: device.clone(), error };
    let place = Path::new(PLACE);
    std::fs::create_dir_all(place).map_err(failed)?;
    // Of an earlier try.
    let _ = unmount(place, UnmountFlags::DETACH);
    // intended: there need not be flags.
    let (flags, data) = split_flags(boot.flags.as_deref().unwrap_or_default());
    let flags = if boot.writable { flags } else { flags | MountFlags::RDONLY };
    mount_with_types(&device, place, boot.filesystem.as_deref(), flags, &data).map_err(failed)?;
    say(Level::Info, &format!("the root file system is {}", device.display()));
    Ok(())
}

/// What `mount` takes as flags, and the rest for the file system.
fn split_flags(options: &str) -> (MountFlags, String) {
    let known = [
        ("ro", MountFlags::RDONLY),
        ("nosuid", MountFlags::NOSUID),
        ("nodev", MountFlags::NODEV),
        ("noexec", MountFlags::NOEXEC),
        ("sync", MountFlags::SYNCHRONOUS),
        ("dirsync", MountFlags::DIRSYNC),
        ("noatime", MountFlags::NOATIME),
        ("nodiratime", MountFlags::NODIRATIME),
        ("relatime", MountFlags::RELATIME),
        ("strictatime", MountFlags::STRICTATIME),
        ("lazytime", MountFlags::LAZYTIME),
    ];
    let mut flags = MountFlags::empty();
    let mut rest = Vec::new();
    for option in options.split(',').filter(|option| !["", "rw", "defaults"].contains(option)) {
        match known.iter().find(|(name, _)| *name == option) {
            Some((_, flag)) => flags |= *flag,
            None => rest.push(option),
        }
    }
    (flags, rest.join(","))
}

/// The program that is started: one that can be executed, on the root file system itself.
pub fn find_init(boot: &Boot) -> Result<String, RootError> {
    let asked = boot.init.as_deref();
    let candidates: Vec<&str> = asked.map_or_else(|| PROGRAMS.to_vec(), |init| vec![init]);
    let root = File::open(PLACE).map_err(|error| RootError::Mount { device: PLACE.into(), error })?;
    let found = candidates.iter().find(|program| can_be_executed(root.as_fd(), program));
    found.map(|program| (*program).into()).ok_or_else(|| RootError::NoInit { tried: candidates.join(", ") })
}

/// Links on it are followed as they will be once it is the root.
fn can_be_executed(root: impl AsFd, program: &str) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = openat2(root, program, flags, Mode::empty(), ResolveFlags::IN_ROOT).map(File::from);
    let metadata = file.and_then(|file| file.metadata().map_err(|_| rustix::io::Errno::IO));
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use atrest_testkit::Scratch;

    use super::*;

    #[test]
    fn flags_of_the_mount_and_options_of_the_file_system_are_told_apart() {
        let (flags, rest) = split_flags("noatime,data=journal,rw,nodev,subvol=@root");
        assert_eq!(flags, MountFlags::NOATIME | MountFlags::NODEV);
        assert_eq!(rest, "data=journal,subvol=@root");
        assert_eq!(split_flags(""), (MountFlags::empty(), String::new()));
    }

    #[test]
    fn an_init_has_to_be_executable_and_its_links_stay_inside() {
        let root = Scratch::new();
        let at = |path: &str| root.path(path);
        std::fs::create_dir_all(at("sbin")).expect("a directory");
        std::fs::create_dir_all(at("lib/systemd")).expect("a directory");
        std::fs::write(at("lib/systemd/systemd"), "").expect("a file");
        std::fs::write(at("plain"), "").expect("a file");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(at("lib/systemd/systemd"), mode).expect("a mode");
        std::os::unix::fs::symlink("/lib/systemd/systemd", at("sbin/init")).expect("a link");
        std::os::unix::fs::symlink("/bin/true/../../../../../../bin/sh", at("sbin/outside")).expect("a link");
        let directory = File::open(root.as_path()).expect("open");
        assert!(can_be_executed(&directory, "/sbin/init"));
        for program in ["/plain", "/sbin/outside", "/missing", "/lib"] {
            assert!(!can_be_executed(&directory, program), "{program}");
        }
    }
}
