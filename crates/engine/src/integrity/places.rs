//! Units and tags at their places on the media.

use std::sync::Arc;

use atrest_device::{BlockDevice, Cause, DeviceError, Operation};
use atrest_format::integrity::{CommitIds, Layout, Span};
use atrest_volume::integrity::{JournalCipher, JournalCipherError, JournalCipherSpec};

/// The device with the superblock, and the one with the data if that is another.
pub struct Places {
    pub media: Arc<dyn BlockDevice>,
    /// Where the superblock begins.
    pub at: u64,
    pub data: Option<Arc<dyn BlockDevice>>,
    pub layout: Layout,
    /// The cipher of the journal, where it has one.
    pub cipher: Option<JournalCipher>,
}

/// A span, and its parts of the run and of the tags.
struct Piece {
    span: Span,
    run: std::ops::Range<usize>,
    tags: std::ops::Range<usize>,
}

impl Places {
    /// Gives the journal its cipher.
    pub fn with_cipher(
        mut self,
        cipher: Option<(JournalCipherSpec, &[u8])>,
    ) -> Result<Self, JournalCipherError> {
        let Some((spec, key)) = cipher else { return Ok(self) };
        // cannot be more than 700 KiB.
        let cipher = JournalCipher::new(spec, key, self.layout.section_len() as usize)?;
        if let Some(mask) = cipher.mask(self.layout.sections()) {
            self.layout = self.layout.with_commit_ids(CommitIds::default().masked(&mask));
        }
        self.cipher = Some(cipher);
        Ok(self)
    }

    /// Reads a section of the journal.
    pub fn read_section(&self, number: u32, section: &mut [u8]) -> Result<(), DeviceError> {
        self.media.read_at(self.at + self.layout.section_at(number), section)?;
        if let Some(cipher) = &self.cipher {
            let done = cipher.decrypt(number, section);
            debug_assert!(done, "a whole section");
        }
        Ok(())
    }

    /// Writes a section of the journal, which is encrypted in place where there is a cipher.
    pub fn write_section(&self, number: u32, section: &mut [u8]) -> Result<(), DeviceError> {
        let at = self.at + self.layout.section_at(number);
        if let Some(cipher) = &self.cipher
            && !cipher.encrypt(number, section)
        {
            // Never in the clear.
            return Err(DeviceError::new(Operation::Write, at, section.len() as u64, Cause::Unsupported));
        }
        self.media.write_at(at, section)
    }

    fn data(&self) -> (&dyn BlockDevice, u64) {
        match &self.data {
            Some(data) => (&**data, 0),
            None => (&*self.media, self.at),
        }
    }

    pub fn read(&self, first: u64, run: &mut [u8], tags: &mut [u8]) -> Result<(), DeviceError> {
        let (data, at) = self.data();
        for piece in self.pieces(Operation::Read, first, run.len()) {
            let Piece { span, run: part, tags: of_tags } = piece?;
            let located = |error| self.located(error, first, part.clone());
            data.read_at(at + span.data, &mut run[part.clone()]).map_err(located)?;
            self.media.read_at(self.at + span.tags, &mut tags[of_tags]).map_err(located)?;
        }
        Ok(())
    }

    pub fn read_if_cached(&self, first: u64, run: &mut [u8], tags: &mut [u8]) -> Result<bool, DeviceError> {
        let (data, at) = self.data();
        for piece in self.pieces(Operation::Read, first, run.len()) {
            let Piece { span, run: part, tags: of_tags } = piece?;
            let located = |error| self.located(error, first, part.clone());
            if !data.read_if_cached(at + span.data, &mut run[part.clone()]).map_err(located)?
                || !self.media.read_if_cached(self.at + span.tags, &mut tags[of_tags]).map_err(located)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub fn write(&self, first: u64, run: &[u8], tags: &[u8]) -> Result<(), DeviceError> {
        let (data, at) = self.data();
        for piece in self.pieces(Operation::Write, first, run.len()) {
            let Piece { span, run: part, tags: of_tags } = piece?;
            let located = |error| self.located(error, first, part.clone());
            data.write_at(at + span.data, &run[part.clone()]).map_err(located)?;
            self.media.write_at(self.at + span.tags, &tags[of_tags]).map_err(located)?;
        }
        Ok(())
    }

    /// Writes the tags of a run alone, which has `len` bytes of data.
    pub fn write_tags(&self, first: u64, len: usize, tags: &[u8]) -> Result<(), DeviceError> {
        for piece in self.pieces(Operation::Write, first, len) {
            let Piece { span, run: part, tags: of_tags } = piece?;
            let located = |error| self.located(error, first, part.clone());
            self.media.write_at(self.at + span.tags, &tags[of_tags]).map_err(located)?;
        }
        Ok(())
    }

    pub fn flush(&self) -> Result<(), DeviceError> {
        if let Some(data) = &self.data {
            data.flush()?;
        }
        self.media.flush()
    }

    pub fn prefetch(&self, first: u64, count: u64) {
        let (data, at) = self.data();
        if let Some(span) = self.layout.span(first, count) {
            data.prefetch(at + span.data, span.count * self.layout.data_unit() as u64);
            self.media.prefetch(self.at + span.tags, span.count * self.layout.tag_len() as u64);
        }
    }

    /// The pieces of a run, each of which lies together.
    fn pieces(
        &self,
        operation: Operation,
        first: u64,
        len: usize,
    ) -> impl Iterator<Item = Result<Piece, DeviceError>> {
        let (unit, tag) = (self.layout.data_unit(), self.layout.tag_len());
        let units = len / unit;
        let mut done = 0;
        std::iter::from_fn(move || {
            if done == units {
                return None;
            }
            let number = first + done as u64;
            let Some(span) = self.layout.span(number, (units - done) as u64) else {
                done = units;
                let size = self.layout.units() * unit as u64;
                let cause = Cause::OutOfBounds { size };
                return Some(Err(DeviceError::new(operation, number * unit as u64, len as u64, cause)));
            };
            let end = done + span.count as usize;
            let piece = Piece { span, run: done * unit..end * unit, tags: done * tag..end * tag };
            done = end;
            Some(Ok(piece))
        })
    }

    /// A media's error, in positions of the data.
    fn located(&self, error: DeviceError, first: u64, part: std::ops::Range<usize>) -> DeviceError {
        let cause = match error.cause {
            // All places lay inside the device when it was opened.
            Cause::OutOfBounds { .. } => Cause::UnexpectedEnd,
            cause => cause,
        };
        let offset = first * self.layout.data_unit() as u64 + part.start as u64;
        DeviceError { offset, len: part.len() as u64, cause, ..error }
    }
}
