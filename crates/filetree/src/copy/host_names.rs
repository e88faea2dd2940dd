//! What is in a directory of the host.

use std::ffi::CString;
use std::os::fd::AsFd;

use rustix::fs::Dir;
use rustix::io::Errno;

/// The names in a directory of the host, without `.` and `..`, in the same order every time.
///
/// # Errors
/// The host can't read the directory.
pub fn host_names(dir: impl AsFd) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort();
    Ok(names)
}
