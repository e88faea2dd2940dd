//! Keys from files, devices and programs, into locked memory.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use atrest_secret::SecretBytes;
use rustix::fs::SeekFrom;
use rustix::rand::{GetRandomFlags, getrandom};

use super::error::KeyError;
use crate::policy::Entry;

/// cryptsetup's limit for key files.
const MAX_KEY: usize = 8 << 20;
/// Where keys are looked for by the names of their volumes, as systemd does.
const DIRECTORIES: &[&str] = &["/etc/cryptsetup-keys.d", "/run/cryptsetup-keys.d"];

/// Key files that are taken if nothing else is said.
pub fn by_name(name: &str) -> Vec<PathBuf> {
    let files = DIRECTORIES.iter().map(|directory| Path::new(directory).join(format!("{name}.key")));
    files.filter(|file| file.exists()).collect()
}

/// Bytes of a key file or device: every one of them belongs to the key.
pub fn file(path: &Path, offset: u64, size: Option<u64>) -> Result<SecretBytes, KeyError> {
    let failed = |error| KeyError::Read { path: path.into(), error };
    let kind = path.metadata().map_err(failed)?.file_type();
    if kind.is_dir() || kind.is_socket() {
        return Err(KeyError::NoFile { path: path.into() });
    }
    let file = File::open(path).map_err(failed)?;
    if offset > 0 {
        rustix::fs::seek(&file, SeekFrom::Start(offset)).map_err(|error| failed(error.into()))?;
    }
    let limit = match size {
        // A whole device is no key.
        None if kind.is_block_device() => return Err(KeyError::NoSize { path: path.into() }),
        None => MAX_KEY,
        // intended: whatever is longer than a key may be is refused below.
        Some(size) => usize::try_from(size).unwrap_or(usize::MAX).min(MAX_KEY + 1),
    };
    if limit > MAX_KEY {
        return Err(KeyError::TooLong { path: path.into() });
    }
    let key = read(&file, limit).map_err(failed)?;
    if size.is_none() && key.len() == MAX_KEY && read(&file, 1).map_err(failed)?.len() == 1 {
        return Err(KeyError::TooLong { path: path.into() });
    }
    match size {
        _ if key.is_empty() => Err(KeyError::Empty { path: path.into() }),
        Some(size) if (key.len() as u64) < size => {
            Err(KeyError::Short { path: path.into(), has: key.len() as u64, needs: size })
        }
        _ => Ok(key),
    }
}

/// What a program prints. It is told of the volume as Debian's scripts are.
pub fn script(
    program: &str,
    argument: &str,
    entry: &Entry,
    source: &Path,
    tried: u32,
) -> Result<SecretBytes, KeyError> {
    let path = PathBuf::from(program);
    let failed = |error| KeyError::Script { path: PathBuf::from(program), error };
    let mut child = Command::new(program)
        .arg(argument)
        .env("CRYPTTAB_NAME", &entry.name)
        .env("CRYPTTAB_SOURCE", source)
        .env("CRYPTTAB_KEY", argument)
        .env("CRYPTTAB_TRIED", tried.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let key = match &child.stdout {
        Some(output) => read(output, MAX_KEY),
        None => Err(io::ErrorKind::BrokenPipe.into()),
    };
    // Nothing more is wanted of it.
    drop(child.stdout.take());
    let status = child.wait().map_err(failed)?;
    match (status.success(), key.map_err(failed)?) {
        (false, _) => Err(KeyError::ScriptStatus { path, status }),
        (true, key) if key.is_empty() => Err(KeyError::Empty { path }),
        (true, key) => Ok(key),
    }
}

/// Random bytes. `wait` is told when the kernel has none yet, before they are waited for.
pub fn random(len: usize, wait: impl FnOnce()) -> Result<SecretBytes, KeyError> {
    let mut probe = [0_u8; 1];
    if getrandom(&mut probe[..], GetRandomFlags::NONBLOCK) == Err(rustix::io::Errno::AGAIN) {
        wait();
    }
    let mut key = SecretBytes::zeroed(len);
    let mut filled = 0;
    while filled < len {
        match getrandom(&mut key[filled..], GetRandomFlags::empty()) {
            Ok(got) => filled += got,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(KeyError::Random(error.into())),
        }
    }
    Ok(key)
}

/// Up to `limit` bytes.
fn read(fd: impl AsFd, limit: usize) -> io::Result<SecretBytes> {
    let mut key = SecretBytes::zeroed(limit.min(4096));
    let mut filled = 0;
    while filled < limit {
        if filled == key.len() {
            let mut larger = SecretBytes::zeroed((filled * 2).min(limit));
            larger[..filled].copy_from_slice(&key);
            key = larger;
        }
        match rustix::io::read(&fd, &mut key[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    key.truncate(filled);
    Ok(key)
}
