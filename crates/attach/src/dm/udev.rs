//! Waiting for udev, as libdevmapper does: a "cookie" goes to udev's rules with the event, and they take one from a semaphore
//! that is named by it once the links below `/dev` are made.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use atrest_secret::{OsRandom, Random};

use super::error::DmError;
use super::sys;

/// Upper half of a semaphore's key.
const MAGIC: u32 = 0x0d4d;
/// The event is of the process that changes the mapping, not one that udev was told to repeat.
const PRIMARY_SOURCE: u32 = 0x0040;
/// Nobody but the mapping above is to look at it: no links for its content, no scan for other things in it.
const PRIVATE: u32 = 0x0002 | 0x0004 | 0x0008;
/// There while udev runs.
const SOCKET: &str = "/run/udev/control";
/// How long udev may take.
const LIMIT: Duration = Duration::from_secs(30);
/// How often it is asked whether it is done.
const PAUSE: Duration = Duration::from_millis(5);
const TRIES: u32 = 64;

/// For whom a mapping is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Whoever looks for file systems.
    Everybody,
    /// A mapping above it.
    Mapping,
}

/// A semaphore that udev's rules know by its number; none where udev does not run.
pub struct Cookie {
    semaphore: Option<(u16, i32)>,
    audience: Audience,
}

impl Cookie {
    pub fn new(audience: Audience) -> Result<Self, DmError> {
        if !Path::new(SOCKET).exists() {
            return Ok(Self { semaphore: None, audience });
        }
        let failed = |error| DmError::System { request: "semaphore for udev", error };
        for _ in 0..TRIES {
            let mut number = [0_u8; 2];
            OsRandom.fill(&mut number).map_err(|_| failed(io::ErrorKind::Other.into()))?;
            let number = u16::from_ne_bytes(number);
            if number == 0 {
                continue;
            }
            match sys::semaphore((MAGIC << 16 | u32::from(number)) as i32) {
                Ok(id) => {
                    let cookie = Self { semaphore: Some((number, id)), audience };
                    sys::semaphore_add(id, 1).map_err(failed)?;
                    return Ok(cookie);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(io::ErrorKind::AlreadyExists.into()))
    }

    /// What is sent along with the request; 0 without udev.
    pub fn event(&self) -> u32 {
        let flags = match self.audience {
            Audience::Everybody => PRIMARY_SOURCE,
            Audience::Mapping => PRIMARY_SOURCE | PRIVATE,
        };
        self.semaphore.map_or(0, |(number, _)| flags << 16 | u32::from(number))
    }

    /// Waits until udev is done, if it was told of anything.
    pub fn wait(self, told: bool) -> Result<(), DmError> {
        let Some((_, id)) = self.semaphore else { return Ok(()) };
        let failed = |error| DmError::System { request: "wait for udev", error };
        if !told {
            sys::semaphore_add(id, -1).map_err(failed)?;
        }
        sys::semaphore_add(id, -1).map_err(failed)?;
        let begun = Instant::now();
        while sys::semaphore_value(id).map_err(failed)? > 0 {
            if begun.elapsed() > LIMIT {
                return Err(DmError::Udev { seconds: LIMIT.as_secs() });
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

impl Drop for Cookie {
    fn drop(&mut self) {
        if let Some((_, id)) = self.semaphore {
            sys::remove_semaphore(id);
        }
    }
}
