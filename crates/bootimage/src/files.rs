//! Files in and out: whole, and replaced in one step.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// A file's content, in memory that is wiped, and its permissions. Read into a buffer that does not grow, so that no part of it stays behind.
///
/// # Errors
/// The errors of the system. [`io::ErrorKind::InvalidData`] if it is no regular file or grows while it is
/// read, [`io::ErrorKind::UnexpectedEof`] if it shrinks.
pub fn read(path: &Path) -> io::Result<(Zeroizing<Vec<u8>>, u32)> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    if !metadata.is_file() {
        return Err(invalid("it is not a regular file"));
    }
    let len = usize::try_from(metadata.len()).map_err(|_| invalid("it is too large"))?;
    let mut data = Zeroizing::new(vec![0; len]);
    file.read_exact(&mut data)?;
    if file.read(&mut [0])? != 0 {
        return Err(invalid("it grew while it was read"));
    }
    Ok((data, metadata.permissions().mode() & 0o7777))
}

/// Puts `bytes` where `path` is, in one step: whoever opens it sees the old file or the new one, also after a loss of
/// power. A link is followed. The new file has `mode` as far as the umask lets it; an old one's owner and permissions
/// stay, but for what `mode` does not have.
///
/// # Errors
/// The errors of the system. The old file, if there was one, is as it was then.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
    let name = target.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
    let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let old = match fs::metadata(&target) {
        Ok(metadata) if metadata.is_file() => Some(metadata),
        Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.new", std::process::id()));
    let temporary = directory.join(temporary);
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        if let Some(old) = old {
            let new = file.metadata()?;
            if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
                fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
            file.set_permissions(Permissions::from_mode(old.mode() & mode & 0o777))?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, &target)?;
        File::open(directory)?.sync_all()
    })();
    if written.is_err() {
        // It may never have been made.
        let _ = fs::remove_file(&temporary);
    }
    written
}
