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

/// Checks that a work area of `needs` bytes can be had, as far as [`available_memory`] tells.
///
/// # Errors
/// [`KdfError::NotEnoughMemory`] if less is available. Where the system tells nothing, every size passes.
pub fn check_memory(needs: u64) -> Result<(), KdfError> {
    compare(needs, available_memory())
}

fn compare(needs: u64, has: Option<u64>) -> Result<(), KdfError> {
    match has {
        Some(has) if has < needs => Err(KdfError::NotEnoughMemory { needs, has }),
        _ => Ok(()),
    }
}

/// Half of the machine's memory, or of what control groups and limits leave of it, in bytes: the most that calibration
/// asks for.
pub(crate) fn half_of_memory() -> Option<u64> {
    Probe { root: Path::new("/") }.half()
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

    fn half(&self) -> Option<u64> {
        let limits = [self.meminfo("MemTotal:"), self.control_groups(), self.address_space()];
        limits.into_iter().flatten().min().map(|least| least / 2)
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
        // intended: without statistics nothing counts as cache.
        let stat = self.text(group.join("memory.stat")).unwrap_or_default();
        let cache: u64 = ["inactive_file", "active_file"].iter().filter_map(|f| labelled(&stat, f)).sum();
        // intended: nothing is left when more is used than may be.
        Some(limit.saturating_sub(used.saturating_sub(cache)))
    }

    fn group_v1(&self, group: &Path) -> Option<u64> {
        // No limit is a huge number here, which the minimum ignores.
        let limit = self.number(group.join("memory.limit_in_bytes"))?;
        let used = self.number(group.join("memory.usage_in_bytes"))?;
        // intended: without statistics nothing counts as cache.
        let stat = self.text(group.join("memory.stat")).unwrap_or_default();
        let cache: u64 =
            ["total_inactive_file", "total_active_file"].iter().filter_map(|f| labelled(&stat, f)).sum();
        // intended: nothing is left when more is used than may be.
        Some(limit.saturating_sub(used.saturating_sub(cache)))
    }

    /// A file that holds one number; `max` is none.
    fn number(&self, path: PathBuf) -> Option<u64> {
        self.text(path)?.trim().parse().ok()
    }

    fn address_space(&self) -> Option<u64> {
        let limit = getrlimit(Resource::As).current?;
        let used_kib: u64 = labelled(&self.text("proc/self/status")?, "VmSize:")?;
        // intended: nothing is left when more is used than may be.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;

    const MIB: u64 = 1 << 20;

    /// A system in a directory of its own, removed when dropped.
    struct System(PathBuf);

    impl System {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(std::format!("atrest-memory-{}-{name}", process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("a parent")).expect("created");
                fs::write(path, text).expect("written");
            }
            Self(root)
        }

        fn available(&self) -> Option<u64> {
            Probe { root: &self.0 }.available()
        }
    }

    impl Drop for System {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal:  2097152 kB\nMemFree: 10 kB\nMemAvailable:  1048576 kB\n");

    #[test]
    fn without_control_groups_it_is_what_the_kernel_calls_available() {
        assert_eq!(System::new("plain", &[MEMINFO]).available(), Some(1024 * MIB));
        assert_eq!(System::new("none", &[("etc/x", "")]).available(), None);
    }

    #[test]
    fn the_tightest_group_of_version_2_counts_with_its_page_cache_free() {
        let system = System::new(
            "v2",
            &[
                MEMINFO,
                ("proc/self/cgroup", "0::/user/unit\n"),
                ("sys/fs/cgroup/user/memory.max", "104857600\n"),
                ("sys/fs/cgroup/user/memory.current", "83886080\n"),
                ("sys/fs/cgroup/user/memory.stat", "anon 1\ninactive_file 10485760\nactive_file 5242880\n"),
                ("sys/fs/cgroup/user/unit/memory.max", "max\n"),
                ("sys/fs/cgroup/user/unit/memory.current", "83886080\n"),
            ],
        );
        assert_eq!(system.available(), Some((100 - 80 + 15) * MIB));
    }

    #[test]
    fn a_group_of_version_1_in_a_container_is_found_at_the_mounts_root() {
        let system = System::new(
            "v1",
            &[
                MEMINFO,
                ("proc/self/cgroup", "4:cpu:/x\n3:memory,hugetlb:/docker/0123\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "67108864\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "33554432\n"),
                ("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 1048576\n"),
            ],
        );
        // What calibration asks for must fit in there as well.
        assert_eq!(Probe { root: &system.0 }.half(), Some((64 - 32 + 1) * MIB / 2));
        assert_eq!(system.available(), Some((64 - 32 + 1) * MIB));
    }

    #[test]
    fn this_machine_has_some_memory_and_not_all_that_there_could_be() {
        let has = available_memory().expect("Linux tells");
        assert!(has > MIB && has < 1 << 50, "{has}");
        assert_eq!(check_memory(1), Ok(()));
        assert!(matches!(check_memory(u64::MAX), Err(KdfError::NotEnoughMemory { needs: u64::MAX, .. })));
    }

    #[test]
    fn all_the_memory_that_there_is_may_be_asked_for_and_not_a_byte_more() {
        assert_eq!(compare(4096, Some(4096)), Ok(()));
        assert_eq!(compare(4097, Some(4096)), Err(KdfError::NotEnoughMemory { needs: 4097, has: 4096 }));
        assert_eq!(compare(u64::MAX, None), Ok(()), "nothing is known");
    }
}
