//! What a table names and the kernel takes out of its keyring: the key of a LUKS2 volume, and the signature of a root hash.

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
    match sys::add_key(c"logon", &description, key) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Puts a signature where dm-verity finds it while this thread loads a table. It goes with the thread.
pub fn add_signature(description: &str, signature: &[u8]) -> io::Result<()> {
    let description = CString::new(description).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    sys::add_key(c"user", &description, signature)
}
