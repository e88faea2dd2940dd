//! Who may use the file that replaces a trusted store: whoever could use the old one, and nobody else.

use std::fs::File;

use rustix::fs::{Gid, Mode, Uid};
use rustix::io::Errno;

use super::TrustedFileError;

const GROUP: u32 = 0o070;
const OTHERS: u32 = 0o007;

/// Gives a new file, which its maker alone can use, the owner and the permissions of the old one.
pub(super) fn hand_on(old: &File, new: &File) -> Result<(), TrustedFileError> {
    let (from, to) = (rustix::fs::fstat(old)?, rustix::fs::fstat(new)?);
    let refused = TrustedFileError::Owner { uid: from.st_uid, gid: from.st_gid };
    let mut mode = from.st_mode & 0o777;
    // What these bits say of a file with a list is how far the list goes; lists are not handed on.
    if has_list(old)? || has_list(new)? {
        mode &= !GROUP;
    }
    if from.st_gid != to.st_gid {
        match rustix::fs::fchown(new, None, Some(Gid::from_raw(from.st_gid))) {
            Ok(()) => {}
            Err(Errno::PERM | Errno::INVAL) if mode & GROUP == (mode & OTHERS) << 3 => {
                // Which group it is means nothing.
            }
            Err(Errno::PERM | Errno::INVAL) => return Err(refused),
            Err(errno) => return Err(errno.into()),
        }
    }
    // Not before the group is the right one. Some filesystems know one mode only, and refuse to set any.
    if mode != to.st_mode & 0o777 {
        rustix::fs::fchmod(new, Mode::from_raw_mode(mode))?;
    }
    if from.st_uid != to.st_uid {
        match rustix::fs::fchown(new, Some(Uid::from_raw(from.st_uid)), None) {
            Ok(()) => {}
            Err(Errno::PERM | Errno::INVAL) => return Err(refused),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Whether an access control list says more than the mode.
fn has_list(file: &File) -> Result<bool, TrustedFileError> {
    match rustix::fs::fgetxattr_query(file, "system.posix_acl_access") {
        Ok(len) => Ok(len > 0),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
