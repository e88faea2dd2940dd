//! How much memory this process may still take: what the kernel calls available, cut by control groups and limits.

use std::fs;
use std::path::{Path, PathBuf};
use std::string::String;

use rustix::process::{Resource, getrlimit};

use crate::KdfError;

/// Bytes that can be allocated and used without swapping or being killed, as far as the system tells: the least of
/// `MemAvailable`, what every memory control group above this process has left (v1 and v2, page cache counted as
/// free) and the address space under `RLIMIT_AS`. `None` if nothing is known.
pub fn available_memory() -> Option<u64> {
    Probe { root: Path::new("/") }.available()
}

/// Fails if a work area of `needs` bytes can't be had.
pub(crate) fn check(needs: u64) -> Result<(), KdfError> {
    match available_memory() {
        Some(has) if has < needs => Err(KdfError::NotEnoughMemory { needs, has }),
        _ => Ok(()),
    }
}

/// Half of the machine's memory, in bytes: the most that calibration asks for.
pub(crate) fn half_of_physical() -> Option<u64> {
    Probe { root: Path::new("/") }.meminfo("MemTotal:").map(|total| total / 2)
}

/// Reads the files of a system whose root is `root`, so that tests can show it others.
struct Probe<'a> {
    root: &'a Path,
}

impl Probe<'_> {
    fn available(&self) -> Option<u64> {
        [self.meminfo("MemAvailable:"), self.control_groups(), self.address_space()]
            .into_iter()
            .flatten()
            .min()
    }

    fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.root.join(path.as_ref())).ok()
    }

    fn meminfo(&self, field: &str) -> Option<u64> {
        let kib: u64 = labelled(&self.text("proc/meminfo")?, field)?;
        kib.checked_mul(1024)
    }

    /// What the tightest control group from this process's own up to the root leaves.
    fn control_groups(&self) -> Option<u64> {
        let memberships = self.text("proc/self/cgroup")?;
        memberships.lines().filter_map(|line| self.hierarchy(line)).min()
    }

    /// One line of `/proc/self/cgroup`: `id:controllers:path`, with no controllers for version 2.
    fn hierarchy(&self, line: &str) -> Option<u64> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let version2 = controllers.is_empty();
        if !version2 && !controllers.split(',').any(|name| name == "memory") {
            return None;
        }
        let mount = PathBuf::from(if version2 { "sys/fs/cgroup" } else { "sys/fs/cgroup/memory" });
        // In a container the path may name the group as the host sees it while the mount shows only our part of the
        // tree; then the mount's root is our own group.
        let own = mount.join(path.trim_start_matches('/'));
        own.ancestors()
            .take_while(|group| group.starts_with(&mount))
            .filter_map(|group| if version2 { self.group_v2(group) } else { self.group_v1(group) })
            .min()
    }

    fn group_v2(&self, group: &Path) -> Option<u64> {
        let limit = self.number(group.join("memory.max"))?;
        let used = self.number(group.join("memory.current"))?;
        let stat = self.text(group.join("memory.stat")).unwrap_or_default();
        let cache: u64 = ["inactive_file", "active_file"].iter().filter_map(|f| labelled(&stat, f)).sum();
        Some(limit.saturating_sub(used.saturating_sub(cache)))
    }

    fn group_v1(&self, group: &Path) -> Option<u64> {
        // No limit is a huge number here, which the minimum ignores.
        let limit = self.number(group.join("memory.limit_in_bytes"))?;
        let used = self.number(group.join("memory.usage_in_bytes"))?;
        let stat = self.text(group.join("memory.stat")).unwrap_or_default();
        let cache: u64 =
            ["total_inactive_file", "total_active_file"].iter().filter_map(|f| labelled(&stat, f)).sum();
        Some(limit.saturating_sub(used.saturating_sub(cache)))
    }

    /// A file that holds one number; `max` is none.
    fn number(&self, path: PathBuf) -> Option<u64> {
        self.text(path)?.trim().parse().ok()
    }

    fn address_space(&self) -> Option<u64> {
        let limit = getrlimit(Resource::As).current?;
        let used_kib: u64 = labelled(&self.text("proc/self/status")?, "VmSize:")?;
        Some(limit.saturating_sub(used_kib.saturating_mul(1024)))
    }
}

/// The first number on the line that starts with `label`.
fn labelled(text: &str, label: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some(label)).then(|| words.next()?.parse().ok())?
    })
}
