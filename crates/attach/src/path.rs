//! Programs of the system, found as a shell finds them.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Looked into after PATH, which may be missing or lack what is for administrators.
const USUAL: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// The file of a program that can be run.
pub fn find(program: &str) -> Option<PathBuf> {
    // intended: without PATH the usual directories have to do.
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(USUAL.map(PathBuf::from))
        .map(|directory| directory.join(program))
        .find(|file| file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0))
}
