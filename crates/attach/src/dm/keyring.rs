//! The key of a LUKS2 volume in the kernel's keyring: dm-crypt reads it there, and no table shows it.

use std::ffi::CString;
use std::io;

use super::sys;

/// What the key is called in a table: cryptsetup's name for it.
pub fn description(uuid: &str, digest: u32) -> String {
    format!("cryptsetup:{uuid}-d{digest}")
}

/// Puts a key where dm-crypt finds it while this thread loads a table. It goes with the thread. `false` if the kernel has no keyrings.
pub fn add(description: &str, key: &[u8]) -> io::Result<bool> {
    let description = CString::new(description).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    match sys::add_logon_key(&description, key) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(false),
        Err(error) => Err(error),
    }
}
