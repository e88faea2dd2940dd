//! The lock that whoever goes on with a re-encryption holds, so that nobody else does, nor opens the volume as it was a moment ago.
//!
//! It is cryptsetup's: `/run/cryptsetup/LN_LUKS2-reencryption-UUID`, `flock`ed exclusively and removed by its holder. Nobody waits for it:
//! a re-encryption takes hours. The threads of one process share it. Where that directory can't be used (no root) there is none, as for
//! cryptsetup; the lock on the volume's file or device keeps our own processes apart all the same.

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use atrest_device::Cause;

use super::lock::{LOCK_DIRECTORY, Lock, is_unusable, lock_resource_at_once};
use crate::sys;

/// Those that this process holds.
static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

struct Held {
    name: String,
    /// How many share it.
    holders: usize,
    /// None where the directory can't be used.
    lock: Option<Lock>,
}

/// The lock on the re-encryption of one volume, held as long as this lives.
#[derive(Debug)]
pub struct ReencryptionLock {
    name: String,
}

impl ReencryptionLock {
    /// Takes the lock of the volume with this UUID, or shares it with this process. `None` if another process holds it.
    ///
    /// # Errors
    /// The lock file can't be made.
    pub fn take(uuid: &str) -> Result<Option<Self>, Cause> {
        let name = file_name(uuid);
        let mut held = held();
        if let Some(mine) = held.iter_mut().find(|held| held.name == name) {
            mine.holders += 1;
            return Ok(Some(Self { name }));
        }
        let lock = match lock_resource_at_once(&Path::new(LOCK_DIRECTORY).join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if is_unusable(&error) => None,
            lock => Some(lock.map_err(|error| sys::cause(&error))?),
        };
        held.push(Held { name: name.clone(), holders: 1, lock });
        Ok(Some(Self { name }))
    }
}

impl Drop for ReencryptionLock {
    fn drop(&mut self) {
        let mut held = held();
        let Some(at) = held.iter().position(|held| held.name == self.name) else { return };
        held[at].holders -= 1;
        if held[at].holders == 0
            && let Some(lock) = held.swap_remove(at).lock
        {
            lock.release();
        }
    }
}

/// Whoever takes one waits for who gives it back.
fn held() -> MutexGuard<'static, Vec<Held>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A header can have anything for a UUID, which must name no file elsewhere.
fn file_name(uuid: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    format!("LN_LUKS2-reencryption-{}", uuid.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_of_a_hostile_header_names_a_file_of_that_directory() {
        assert_eq!(file_name("../../etc/x"), "LN_LUKS2-reencryption-______etc_x");
        let usual = "2cb54a5c-2c9c-4d0d-b0b5-6a0d0d6f5d33";
        assert_eq!(file_name(usual), format!("LN_LUKS2-reencryption-{usual}"));
    }

    /// Needs root, as the tests do: elsewhere there is no such lock.
    #[test]
    fn one_process_has_it_and_its_threads_share_it() {
        let uuid = format!("test-{}", std::process::id());
        let path = Path::new(LOCK_DIRECTORY).join(file_name(&uuid));
        let first = ReencryptionLock::take(&uuid).expect("a lock").expect("nobody else's");
        let second = ReencryptionLock::take(&uuid).expect("a lock").expect("this process's");
        let other = || {
            let file = std::fs::File::open(&path).expect("the lock file");
            rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        };
        drop(first);
        assert_eq!(other(), Err(rustix::io::Errno::WOULDBLOCK));
        drop(second);
        assert!(!path.exists(), "the lock file is left");
        // Another process holds it.
        let file = std::fs::File::create(&path).expect("the lock file");
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("locked");
        assert!(ReencryptionLock::take(&uuid).expect("looks").is_none());
        drop(file);
        assert!(ReencryptionLock::take(&uuid).expect("a lock").is_some());
        assert!(!path.exists(), "the lock file is left");
    }
}
