//! Who still uses a mounted file system, as far as /proc and the loop devices tell.

use core::fmt;
use std::path::PathBuf;

use crate::fuse::MountId;

/// Somebody who keeps a mounted file system in use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum User {
    /// A process with an open or mapped file in it, or with its working directory there.
    Process {
        /// Its id.
        pid: i32,
        /// Its name, as in /proc/PID/comm.
        command: String,
    },
    /// A loop device over a file in it.
    LoopDevice(PathBuf),
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, command } => write!(f, "process {pid} ({})", command.escape_debug()),
            Self::LoopDevice(node) => write!(f, "{}", node.display()),
        }
    }
}

/// Names of users, at most [`SHOWN`] of them.
pub(super) struct Names<'a>(pub &'a [User]);

const SHOWN: usize = 8;

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, user) in self.0.iter().take(SHOWN).enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{user}")?;
        }
        match self.0.len().checked_sub(SHOWN) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, " and {more} more"),
        }
    }
}

/// The users of a mounted file system. A process that belongs to another user is not seen.
pub(super) fn users(mount: &MountId) -> Vec<User> {
    let mut users: Vec<User> = processes()
        .filter(|&pid| uses(pid, mount))
        .map(|pid| {
            // intended: a process that has ended since has no name.
            let command = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
            User::Process { pid, command: String::from_utf8_lossy(command.trim_ascii_end()).into_owned() }
        })
        .collect();
    users.extend(atrest_engine::loop_devices_on(mount.device()).into_iter().map(User::LoopDevice));
    users
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn uses(pid: i32, mount: &MountId) -> bool {
    let place = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
    let open = std::fs::read_dir(place("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    ["cwd", "root", "exe"].into_iter().map(place).chain(open).any(|path| mount.holds(&path))
        || std::fs::read(place("maps")).is_ok_and(|maps| mount.is_mapped(&maps))
}
