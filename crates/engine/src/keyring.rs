//! Keys of type `user` in the kernel's keyrings (the kernel's `security/keys/core.rst`).

use std::ffi::CString;
use std::io;

use atrest_secret::SecretBytes;

use crate::sys;

/// The payload of the key of type `user` with this description, searched for in the keyrings of this thread, process and session.
/// Nobody is asked to make one that is not there.
///
/// # Errors
/// `NotFound` if there is none, or if the kernel has no keyrings. Otherwise as the kernel says: the key has expired, was revoked, or may
/// not be read.
pub fn user_key(description: &str) -> io::Result<SecretBytes> {
    let description = CString::new(description).map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
    let found = sys::request_user_key(&description).and_then(payload);
    found.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOKEY | libc::ENOSYS) => io::ErrorKind::NotFound.into(),
        _ => error,
    })
}

/// What a key holds. It may be updated meanwhile: then the length that was told first is not the one that is read.
fn payload(key: i32) -> io::Result<SecretBytes> {
    let mut payload = SecretBytes::zeroed(0);
    loop {
        let has = sys::read_key(key, &mut payload)?;
        if has == payload.len() {
            return Ok(payload);
        }
        payload = SecretBytes::zeroed(has);
    }
}
