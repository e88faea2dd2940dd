//! Replacing a copy of the header, or what lies in its place.

use atrest_device::{FlashCause, FlashError};
use atrest_keyslot::flash::{HEADER_LEN, HeaderError};

use super::FlashDevice;
use super::copies::{Copies, room};
use crate::header::Found;

impl<D: FlashDevice, B: AsMut<[u8]>> Copies<D, B> {
    /// Whether there is something in a copy that looks like a header, whole or not. What can't be read may be one.
    pub(super) fn holds_a_header(
        &mut self,
        copy: usize,
        bytes: &mut [u8; HEADER_LEN],
    ) -> Result<bool, FlashError> {
        match self.look(copy, bytes) {
            Found::Bad(HeaderError::Blank | HeaderError::Foreign) => Ok(false),
            Found::Unreadable(error) => Err(error),
            Found::Bad(_) | Found::Whole { .. } => Ok(true),
        }
    }

    /// Whether a copy's blocks are blank; None where that can't be asked.
    pub(super) fn is_blank(&mut self, copy: usize) -> Result<Option<bool>, FlashError> {
        let (start, len) = (self.start(copy), self.copy_len());
        match self.device.is_blank(start, len, self.scratch.as_mut()) {
            Ok(blank) => Ok(Some(blank)),
            Err(FlashError { cause: FlashCause::Unsupported, .. }) => Ok(None),
            Err(FlashError { cause: FlashCause::Uncorrectable, .. }) => Ok(Some(false)),
            Err(error) => Err(error),
        }
    }

    /// Makes what a copy holds go away: erases it, or fills it with zeros where erasing is left to the medium. True if it
    /// was seen to be gone.
    pub(super) fn destroy(&mut self, copy: usize) -> Result<bool, FlashError> {
        self.erase(copy)?;
        self.device.sync()?;
        match self.is_blank(copy)? {
            Some(blank) => Ok(blank),
            None => {
                let zeros = [0; HEADER_LEN];
                self.program(copy, &zeros)?;
                self.holds(copy, &zeros)
            }
        }
    }

    /// Replaces a copy and makes it durable. True if it reads back.
    pub(super) fn replace(&mut self, copy: usize, bytes: &[u8; HEADER_LEN]) -> Result<bool, FlashError> {
        self.erase(copy)?;
        self.program(copy, bytes)?;
        self.holds(copy, bytes)
    }

    fn erase(&mut self, copy: usize) -> Result<(), FlashError> {
        let (start, len) = (self.start(copy), self.copy_len());
        self.device.erase(start, len)
    }

    fn program(&mut self, copy: usize, bytes: &[u8; HEADER_LEN]) -> Result<(), FlashError> {
        let start = self.start(copy);
        let prog = self.sizes.prog_size as usize;
        for (part, at) in bytes.chunks(self.scratch_len).zip((start..).step_by(self.scratch_len)) {
            let len = part.len().next_multiple_of(prog);
            let units = room(&mut self.scratch, len)?;
            // What is left of the last unit is as if it had not been programmed.
            units.fill(0xff);
            let (used, _) = units.split_at_mut(part.len());
            used.copy_from_slice(part);
            self.device.prog(at, units)?;
        }
        self.device.sync()
    }

    /// Whether that is what a copy reads as.
    fn holds(&mut self, copy: usize, bytes: &[u8; HEADER_LEN]) -> Result<bool, FlashError> {
        let start = self.start(copy);
        let prog = self.sizes.prog_size as usize;
        for (part, at) in bytes.chunks(self.scratch_len).zip((start..).step_by(self.scratch_len)) {
            let units = room(&mut self.scratch, part.len().next_multiple_of(prog))?;
            match self.device.read(at, units) {
                Ok(()) if units.starts_with(part) => {}
                Ok(()) | Err(FlashError { cause: FlashCause::Uncorrectable, .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
