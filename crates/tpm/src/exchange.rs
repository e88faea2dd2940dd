//! Commands to a TPM and their answers, and the handles that are given back at the end.

use core::time::Duration;
use std::time::Instant;

use crate::device::{Device, Transport};
use crate::wire::{self, Answer, Bytes};
use crate::{TpmError, commands};

/// How often a TPM may say that it is busy, in all, but for counters that are raised. With the pause between these are some ten seconds.
const BUSY_LIMIT: u32 = 200;
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 50 });

/// After this no command is begun any more: the slowest TPM has made its keys by then.
const LIMIT: Duration = Duration::from_secs(180);

/// A TPM. What it made for this client is given back when this is dropped.
pub struct Tpm {
    transport: Box<dyn Transport>,
    /// Objects and sessions that it holds for us.
    held: Vec<u32>,
    /// How often it may still be busy, and since when it is asked.
    busy_left: u32,
    begun: Instant,
    /// Whether it failed to answer: nothing is asked of it then.
    dead: bool,
}

impl core::fmt::Debug for Tpm {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tpm").field("held", &self.held).finish_non_exhaustive()
    }
}

impl Tpm {
    /// Opens the TPM at this place.
    ///
    /// # Errors
    /// Those of [`Device::open`].
    pub fn open(device: &Device) -> Result<Self, TpmError> {
        Ok(Self::over(device.open()?))
    }
}

/// Who may give a command: nobody is asked, an empty password, or sessions.
pub enum Auth<'a> {
    Nobody,
    Empty,
    Sessions(&'a [u8]),
}

impl Tpm {
    /// The TPM at the other end of this.
    pub fn over(transport: Box<dyn Transport>) -> Self {
        Self { transport, held: Vec::new(), busy_left: BUSY_LIMIT, begun: Instant::now(), dead: false }
    }

    pub(crate) fn exchange(
        &mut self,
        code: u32,
        handles: &[u32],
        auth: &Auth<'_>,
        parameters: &[u8],
    ) -> Result<Answer, TpmError> {
        let empty;
        let auth = match auth {
            Auth::Nobody => None,
            Auth::Sessions(sessions) => Some(*sessions),
            Auth::Empty => {
                // TPM_RS_PW, no nonce, no attributes, a password of no bytes.
                empty = Bytes::default().u32(0x4000_0009).u16(0).u8(0).u16(0).0;
                Some(&empty[..])
            }
        };
        let command = wire::command(code, handles, auth, parameters)?;
        let makes = commands::MAKES_A_HANDLE.contains(&code);
        loop {
            let bytes = match self.dead || self.begun.elapsed() > LIMIT {
                true => Err(TpmError::Slow),
                false => self.transport.transmit(&command),
            };
            let bytes = bytes.inspect_err(|_| self.dead = true)?;
            match wire::answer(&bytes, makes, auth.is_some())? {
                Ok(answer) => {
                    self.held.extend(answer.handle);
                    return Ok(answer);
                }
                // TPM_RC_RETRY, YIELDED, TESTING, NV_RATE
                Err(0x922 | 0x908 | 0x90a | 0x920) => {
                    self.busy_left = self.busy_left.checked_sub(1).ok_or(TpmError::Slow)?;
                    std::thread::sleep(PAUSE);
                }
                Err(answered) => return Err(meaning(code, answered)),
            }
        }
    }

    /// Each of many commands may be as busy as one. The limit of the time is that of all.
    pub(crate) fn may_be_busy_again(&mut self) {
        self.busy_left = BUSY_LIMIT;
    }

    /// Gives an object or a session back.
    pub(crate) fn flush(&mut self, handle: u32) -> Result<(), TpmError> {
        self.held.retain(|held| *held != handle);
        self.exchange(commands::FLUSH_CONTEXT, &[], &Auth::Nobody, &handle.to_be_bytes()).map(drop)
    }
}

impl Drop for Tpm {
    fn drop(&mut self) {
        while let Some(handle) = self.held.pop() {
            // intended: the kernel gives back what is left when the device is closed.
            let _ = self.flush(handle);
        }
    }
}

/// What a code means. Errors of format one have the number of a handle, parameter or session in them, which is left out.
fn meaning(command: u32, code: u32) -> TpmError {
    let plain = if code & 0x80 == 0 { code } else { code & 0xbf };
    match plain {
        0x8e | 0xa2 if command == commands::UNSEAL => TpmError::WrongPin,
        0x8e | 0xa2
            if matches!(
                command,
                commands::CREATE_PRIMARY | commands::EVICT_CONTROL | commands::NV_DEFINE_SPACE
            ) =>
        {
            TpmError::OwnerAuth
        }
        0x921 => TpmError::LockedOut,
        0x9d => TpmError::PolicyUnmet,
        0x128 => TpmError::Restless,
        0x9f if command == commands::LOAD => TpmError::OtherTpm,
        _ => TpmError::Code { command, code },
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::Template;

    /// Answers each command alike, and counts them.
    struct Stubborn(Result<&'static [u8], TpmError>, Rc<Cell<u32>>);

    impl Transport for Stubborn {
        fn transmit(&mut self, _: &[u8]) -> Result<Vec<u8>, TpmError> {
            self.1.set(self.1.get() + 1);
            self.0.clone().map(<[u8]>::to_vec)
        }
    }

    fn asked(answer: Result<&'static [u8], TpmError>) -> (TpmError, u32) {
        let count = Rc::new(Cell::new(0));
        let mut tpm = Tpm::over(Box::new(Stubborn(answer, count.clone())));
        tpm.held.push(0x8000_0001);
        let error = tpm.create_primary(Template::StorageRoot).expect_err("no key");
        drop(tpm);
        (error, count.get())
    }

    #[test]
    fn a_tpm_that_is_busy_for_ever_is_left() {
        let busy = &[0x80, 1, 0, 0, 0, 10, 0, 0, 9, 0x22];
        // The last one is that which gives a key back.
        assert_eq!(asked(Ok(busy)), (TpmError::Slow, BUSY_LIMIT + 2));
    }

    #[test]
    fn one_that_slows_its_writes_down_may_be_busy_before_each() {
        let count = Rc::new(Cell::new(0));
        let busy = Ok(&[0x80, 1, 0, 0, 0, 10, 0, 0, 9, 0x20][..]);
        let mut tpm = Tpm::over(Box::new(Stubborn(busy, count.clone())));
        for write in 1..=3 {
            tpm.may_be_busy_again();
            assert_eq!(tpm.create_primary(Template::StorageRoot).err(), Some(TpmError::Slow));
            assert_eq!(count.get(), write * (BUSY_LIMIT + 1));
        }
    }

    #[test]
    fn one_that_has_failed_is_not_asked_again() {
        assert_eq!(asked(Err(TpmError::Slow)), (TpmError::Slow, 1));
    }

    #[test]
    fn answers_have_their_meaning() {
        let of = |command, code| meaning(command, code);
        assert_eq!(of(commands::UNSEAL, 0x98e), TpmError::WrongPin);
        assert_eq!(of(commands::UNSEAL, 0x9a2), TpmError::WrongPin);
        assert_eq!(of(commands::CREATE_PRIMARY, 0x9a2), TpmError::OwnerAuth);
        assert_eq!(of(commands::EVICT_CONTROL, 0x98e), TpmError::OwnerAuth);
        // The password of a storage key is not that of the owner.
        assert_eq!(of(commands::LOAD, 0x9a2), TpmError::Code { command: commands::LOAD, code: 0x9a2 });
        assert_eq!(of(commands::UNSEAL, 0x921), TpmError::LockedOut);
        assert_eq!(of(commands::UNSEAL, 0x99d), TpmError::PolicyUnmet);
        assert_eq!(of(commands::UNSEAL, 0x128), TpmError::Restless);
        assert_eq!(of(commands::LOAD, 0x1df), TpmError::OtherTpm);
        assert_eq!(of(commands::LOAD, 0x101), TpmError::Code { command: commands::LOAD, code: 0x101 });
    }
}
