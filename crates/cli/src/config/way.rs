//! Who could put another file in the place of the configuration: each directory on the way to it is looked at, and so is each
//! symlink, which leads on to more of them. OpenSSH does that for its files (StrictModes).

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::file::{believe, owned};
use crate::failure::Failure;

/// As many symlinks as the kernel follows.
const LINKS: usize = 40;

/// Fails if anybody but this user and root can write a directory on the way, and so rename what is in it.
pub fn check(path: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error, at: &Path| Failure::io(&error).at(at);
    let from = std::path::absolute(path).map_err(|error| failed(error, path))?;
    let mut left = words(&from);
    let mut place = PathBuf::from("/");
    let mut links = 0;
    while let Some(word) = left.pop_front() {
        if word == ".." {
            place.pop();
            continue;
        }
        let found = place.metadata().map_err(|error| failed(error, &place))?;
        let next = place.join(&word);
        let entry = next.symlink_metadata().map_err(|error| failed(error, &next))?;
        // The directory that holds the file is the user's own, even where strangers of another namespace own those above.
        let is_last = left.is_empty() && !entry.is_symlink();
        directory(&found, is_last).map_err(|failure| failure.at(&place))?;
        if is_sticky(&found) && !is_foreign(&entry) {
            owned(&entry, "this part of the way to the configuration")
                .map_err(|failure| failure.at(&next))?;
        }
        if !entry.is_symlink() {
            place = next;
            continue;
        }
        links += 1;
        if links > LINKS {
            return Err(failed(rustix::io::Errno::LOOP.into(), path));
        }
        let target = fs::read_link(&next).map_err(|error| failed(error, &next))?;
        if target.is_absolute() {
            place = PathBuf::from("/");
        }
        let mut onward = words(&target);
        onward.append(&mut left);
        left = onward;
    }
    Ok(())
}

/// The names on a path, without those that mean nothing.
fn words(path: &Path) -> VecDeque<OsString> {
    let named = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    named.map(|part| part.as_os_str().to_owned()).collect()
}

/// Whether what is in a directory stays what it is, but for the user and root.
fn directory(found: &Metadata, is_last: bool) -> Result<(), Failure> {
    if !is_last && is_foreign(found) {
        return Ok(());
    }
    let what =
        if is_last { "the directory of the configuration" } else { "a directory above the configuration" };
    if is_sticky(found) { owned(found, what) } else { believe(found, what) }
}

/// Whether an entry is renamed by nobody but its owner and that of the directory.
fn is_sticky(found: &Metadata) -> bool {
    found.mode() & 0o1000 != 0
}

/// Whether its owner is unknown in our user namespace, as root of the system is in a container without root. Where the number that
/// stands for such owners is also somebody's own, it is held to be that.
fn is_foreign(found: &Metadata) -> bool {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u32>().ok();
    if number("/proc/sys/kernel/overflowuid") != Some(found.uid()) || found.mode() & 0o022 != 0 {
        return false;
    }
    // Every number is mapped where there is no such namespace.
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !is_mapped(&map, found.uid()))
}

/// Whether a user of our namespace has this number, by a map of the kernel. Each line has the first number here, the first one
/// outside, and how many there are.
fn is_mapped(map: &str, uid: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Option<Vec<u64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
        match numbers.as_deref() {
            Some([first, _, count]) => u64::from(uid).checked_sub(*first).is_some_and(|at| at < *count),
            // What is not understood takes nobody for a stranger.
            _ => true,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::is_mapped;

    #[test]
    fn a_number_is_mapped_where_a_line_covers_it() {
        let whole = "         0          0 4294967295\n";
        let one = "         0       1000          1\n";
        let container = "0 1000 1\n1 100000 65536\n";
        assert!(is_mapped(whole, 0) && is_mapped(whole, 65534));
        assert!(is_mapped(one, 0) && !is_mapped(one, 1) && !is_mapped(one, 65534));
        assert!(is_mapped(container, 65534) && is_mapped(container, 65536) && !is_mapped(container, 65537));
        // The number outside says nothing.
        assert!(!is_mapped("0 65534 1\n", 65534) && is_mapped("65534 0 1\n", 65534));
        assert!(!is_mapped("65535 0 1\n", 65534) && !is_mapped("", 65534));
        assert!(is_mapped("0 1000\n", 65534) && is_mapped("no map\n", 65534));
    }
}
