//! Commands to a TPM and their answers, and the handles that are given back at the end.

use core::time::Duration;

use crate::device::{Device, Transport};
use crate::wire::{self, Answer, Bytes};
use crate::{TpmError, commands};

/// How often a TPM may say that it is busy. With the pause between these are some ten seconds.
const BUSY_LIMIT: u32 = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// A TPM. What it made for this client is given back when this is dropped.
pub struct Tpm {
    transport: Box<dyn Transport>,
    /// Objects and sessions that it holds for us.
    held: Vec<u32>,
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
        Self { transport, held: Vec::new(), dead: false }
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
        for _ in 0..BUSY_LIMIT {
            let bytes = match self.dead {
                true => Err(TpmError::Slow),
                false => self.transport.transmit(&command),
            };
            let bytes = bytes.inspect_err(|_| self.dead = true)?;
            match wire::answer(&bytes, makes, auth.is_some())? {
                Ok(answer) => {
                    self.held.extend(answer.handle);
                    return Ok(answer);
                }
                // TPM_RC_RETRY, YIELDED, TESTING
                Err(0x922 | 0x908 | 0x90a) => std::thread::sleep(PAUSE),
                Err(answered) => return Err(meaning(code, answered)),
            }
        }
        Err(TpmError::Slow)
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
        0x8e if command == commands::UNSEAL => TpmError::WrongPin,
        0x8e | 0xa2 => TpmError::OwnerAuth,
        0x921 => TpmError::LockedOut,
        0x9d => TpmError::PolicyUnmet,
        0x128 => TpmError::Restless,
        0x9f if command == commands::LOAD => TpmError::OtherTpm,
        _ => TpmError::Code { command, code },
    }
}
