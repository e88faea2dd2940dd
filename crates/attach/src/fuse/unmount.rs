//! Unmounting, as root by the system call and otherwise by `fusermount3`, from the serving process or another.

use core::fmt;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why a directory can't be unmounted.
#[non_exhaustive]
#[derive(Debug)]
pub enum UnmountError {
    /// A file in it is open, or a loop device or mount stands on it.
    Busy,
    /// Nothing is mounted there.
    NotMounted,
    /// The operating system refused.
    System(io::Error),
}

impl fmt::Display for UnmountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnmountError::Busy => f.write_str("the volume's file is in use"),
            UnmountError::NotMounted => f.write_str("nothing is mounted there"),
            UnmountError::System(error) => write!(f, "cannot unmount: {error}"),
        }
    }
}

impl core::error::Error for UnmountError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            UnmountError::System(error) => Some(error),
            UnmountError::Busy | UnmountError::NotMounted => None,
        }
    }
}

/// Unmounts a directory. `lazily`: take it out of sight now, end it when nobody uses it any more.
pub fn unmount(directory: &Path, lazily: bool) -> Result<(), UnmountError> {
    let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(directory, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(UnmountError::Busy),
        Err(Errno::INVAL | Errno::NOENT) => Err(UnmountError::NotMounted),
        Err(Errno::PERM) => unmount_by_program(directory, lazily),
        Err(error) => Err(UnmountError::System(error.into())),
    }
}

fn unmount_by_program(directory: &Path, lazily: bool) -> Result<(), UnmountError> {
    if !is_mounted(directory) {
        return Err(UnmountError::NotMounted);
    }
    let Some(program) = fusermount() else {
        return Err(UnmountError::System(io::ErrorKind::NotFound.into()));
    };
    let mut command = Command::new(program);
    command.args(["-u", "-q"]).args(lazily.then_some("-z")).arg("--").arg(directory);
    // Its messages are translated; what counts is whether the mount is gone.
    let run = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match run {
        Ok(status) if status.success() => Ok(()),
        Ok(_) if is_mounted(directory) => Err(UnmountError::Busy),
        Ok(_) => Ok(()),
        Err(error) => Err(UnmountError::System(error)),
    }
}

/// Whether a FUSE file system is mounted exactly there, dead or alive.
pub fn is_mounted(directory: &Path) -> bool {
    // Resolving `directory` itself would block or fail on a dead mount; its parent is enough.
    let resolved = match (directory.parent().map(Path::canonicalize), directory.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => directory.into(),
    };
    std::fs::read("/proc/self/mountinfo").is_ok_and(|table| lists_fuse_mount(&table, &resolved))
}

/// proc_pid_mountinfo(5): field 5 is the mount point with spaces, tabs, newlines and backslashes as octal escapes;
/// after the lone "-" comes the type.
fn lists_fuse_mount(table: &[u8], directory: &Path) -> bool {
    table.split(|&byte| byte == b'\n').any(|line| {
        let mut fields = line.split(|&byte| byte == b' ');
        let point = fields.nth(4).map(unescaped);
        let kind = fields.skip_while(|field| *field != b"-").nth(1);
        point.is_some_and(|point| point == directory.as_os_str().as_bytes())
            && kind.is_some_and(|kind| kind == b"fuse" || kind.starts_with(b"fuse."))
    })
}

fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] if byte == b'\\' => {
                plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                plain.push(byte);
                rest = after;
            }
        }
    }
    plain
}

/// The setuid program of the package fuse3 that mounts and unmounts for unprivileged users.
pub(super) fn fusermount() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(usual)
        .map(|directory| directory.join(OsStr::new("fusermount3")))
        .find(|file| file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_with_escapes_are_found_and_other_types_are_not() {
        let table = b"36 35 98:0 / /mnt/a\\040b\\134c rw,noatime master:1 - fuse.atrest atrest rw\n\
                      37 35 98:0 / /mnt/disk rw - ext4 /dev/sda rw\n\
                      38 35 98:0 / /mnt/x rw - fuse atrest rw\n";
        assert!(lists_fuse_mount(table, Path::new("/mnt/a b\\c")));
        assert!(lists_fuse_mount(table, Path::new("/mnt/x")));
        assert!(!lists_fuse_mount(table, Path::new("/mnt/disk")));
        assert!(!lists_fuse_mount(table, Path::new("/mnt/a")));
    }
}
