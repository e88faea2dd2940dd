//! One segment as the disk uses it: positions inside it, its protection, and its media's errors in plaintext positions.
//!
//! Where units have tags, both are read and written by `integrity`, and the ways here for ciphertext alone are not taken.

use atrest_cipher::DataUnitIndex;
use atrest_device::{BlockDevice, Cause, DeviceError, Operation};
use atrest_volume::{Protection, ProtectionError, Segment};

use super::bytes::Cut;
use super::{CHUNK, DiskError, MAX_DATA_UNIT};
use crate::integrity::Integrity;

/// A segment. Offsets called `at` count from its start.
pub struct Region {
    pub start: u64,
    pub len: u64,
    pub media_offset: u64,
    pub protection: Protection,
    /// The data units with their tags, where they have tags. Then `protection` refuses: nothing may ask it.
    pub tagged: Option<Integrity>,
}

impl Region {
    pub fn from_segment(segment: Segment) -> Self {
        let Segment { start, len, media_offset, protection } = segment;
        Self { start, len, media_offset, protection, tagged: None }
    }

    /// The first `len` bytes of data units with tags, from byte `start` of the plaintext on.
    pub fn of_integrity(start: u64, len: u64, media_offset: u64, tagged: Integrity) -> Self {
        let (len, data_unit) = (len.min(tagged.size()), tagged.data_unit());
        let protection = Protection::Elsewhere { data_unit };
        Self { start, len, media_offset, protection, tagged: Some(tagged) }
    }

    pub fn identity(size: u64) -> Self {
        let len = size / atrest_device::SECTOR_SIZE * atrest_device::SECTOR_SIZE;
        Self { start: 0, len, media_offset: 0, protection: Protection::Identity, tagged: None }
    }

    /// Holds the segment against its predecessor's end and the media.
    pub fn check(&self, expected_start: u64, media_size: u64) -> Result<(), DiskError> {
        let Self { start, len, media_offset, .. } = *self;
        if start != expected_start {
            return Err(DiskError::Gap { expected: expected_start, found: start });
        }
        let data_unit = self.unit();
        if data_unit > MAX_DATA_UNIT {
            return Err(DiskError::DataUnitTooLong { data_unit, limit: MAX_DATA_UNIT });
        }
        if data_unit == 0 || len % data_unit as u64 != 0 {
            return Err(DiskError::PartialDataUnit { len, data_unit });
        }
        let overflow = DiskError::Overflow { media_offset, len };
        start.checked_add(len).ok_or(overflow)?;
        if self.tagged.is_some() {
            // Its places were held against the media when it was opened.
            return Ok(());
        }
        let needs = media_offset.checked_add(len).ok_or(overflow)?;
        if needs > media_size {
            return Err(DiskError::MediaTooSmall { needs, has: media_size });
        }
        Ok(())
    }

    pub fn end(&self) -> u64 {
        self.start + self.len
    }

    /// Bytes in a data unit.
    pub fn unit(&self) -> usize {
        self.protection.data_unit()
    }

    /// Bytes handled at a time, a multiple of the data unit.
    pub fn chunk(&self) -> usize {
        let unit = self.unit();
        (CHUNK / unit * unit).max(unit)
    }

    pub fn cut(&self, at: u64, len: usize) -> Cut {
        let (_, skip) = self.unit_of(at);
        Cut::new(self.unit(), skip, len)
    }

    /// The whole data units inside a range: where they begin, and how many bytes they are. None: 0 bytes.
    pub fn whole_units(&self, at: u64, len: u64) -> (u64, u64) {
        let unit = self.unit() as u64;
        let start = at.next_multiple_of(unit);
        let end = (at + len) / unit * unit;
        // intended: a range inside one unit has no whole one.
        (start, end.saturating_sub(start))
    }

    /// Where the data unit that holds byte `at` begins, and how far into it that byte is.
    pub fn unit_of(&self, at: u64) -> (u64, usize) {
        let skip = at % self.unit() as u64;
        (at - skip, skip as usize)
    }

    /// Reads whole data units, and decrypts them.
    pub fn load(&self, media: &dyn BlockDevice, at: u64, run: &mut [u8]) -> Result<(), DeviceError> {
        if let Some(tagged) = &self.tagged {
            return tagged.read(at, run).map_err(|error| self.moved(error));
        }
        self.read(media, at, run)?;
        self.decrypt(at, run)
    }

    /// Encrypts whole data units, and writes them. Afterwards `run` holds nothing of use.
    pub fn store(&self, media: &dyn BlockDevice, at: u64, run: &mut [u8]) -> Result<(), DeviceError> {
        if let Some(tagged) = &self.tagged {
            return tagged.write(at, run).map_err(|error| self.moved(error));
        }
        self.encrypt(at, run)?;
        self.write(media, at, run)
    }

    /// An error in positions of the segment, in those of the plaintext.
    pub fn moved(&self, error: DeviceError) -> DeviceError {
        DeviceError { offset: self.start + error.offset, ..error }
    }

    pub fn encrypt(&self, at: u64, run: &mut [u8]) -> Result<(), DeviceError> {
        let done = self.protection.encrypt(self.index(at), run);
        done.map_err(|error| self.refused(error, Operation::Write, at, run.len()))
    }

    pub fn encrypt_to(&self, at: u64, src: &[u8], dst: &mut [u8]) -> Result<(), DeviceError> {
        let done = self.protection.encrypt_to(self.index(at), src, dst);
        done.map_err(|error| self.refused(error, Operation::Write, at, src.len()))
    }

    pub fn decrypt(&self, at: u64, run: &mut [u8]) -> Result<(), DeviceError> {
        let done = self.protection.decrypt(self.index(at), run);
        done.map_err(|error| self.refused(error, Operation::Read, at, run.len()))
    }

    pub fn decrypt_to(&self, at: u64, src: &[u8], dst: &mut [u8]) -> Result<(), DeviceError> {
        let done = self.protection.decrypt_to(self.index(at), src, dst);
        done.map_err(|error| self.refused(error, Operation::Read, at, src.len()))
    }

    /// Decrypts a run from where the media has it in memory. False if it must be read.
    pub fn decrypt_lent(
        &self,
        media: &dyn BlockDevice,
        at: u64,
        run: &mut [u8],
    ) -> Result<bool, DeviceError> {
        let mut decrypted = Ok(());
        let lent = media.lend(self.media_offset + at, run.len(), &mut |stored| {
            decrypted = self.decrypt_to(at, stored, run);
        });
        decrypted.map(|()| lent)
    }

    pub fn read(&self, media: &dyn BlockDevice, at: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        media.read_at(self.media_offset + at, buf).map_err(|error| self.located(error))
    }

    pub fn read_if_cached(
        &self,
        media: &dyn BlockDevice,
        at: u64,
        buf: &mut [u8],
    ) -> Result<bool, DeviceError> {
        media.read_if_cached(self.media_offset + at, buf).map_err(|error| self.located(error))
    }

    pub fn write(&self, media: &dyn BlockDevice, at: u64, data: &[u8]) -> Result<(), DeviceError> {
        media.write_at(self.media_offset + at, data).map_err(|error| self.located(error))
    }

    pub fn discard(&self, media: &dyn BlockDevice, at: u64, len: u64) -> Result<(), DeviceError> {
        media.discard(self.media_offset + at, len).map_err(|error| self.located(error))
    }

    fn index(&self, at: u64) -> DataUnitIndex {
        DataUnitIndex(at / self.unit() as u64)
    }

    /// A cipher refuses runs that are no whole number of data units, and writes that it was not made for.
    fn refused(&self, error: ProtectionError, operation: Operation, at: u64, len: usize) -> DeviceError {
        let cause = match error {
            ProtectionError::Run(_) => Cause::Misaligned { multiple: self.unit() as u32 },
            _ => Cause::Unsupported,
        };
        DeviceError::new(operation, self.start + at, len as u64, cause)
    }

    /// A media's error, in positions of the plaintext.
    fn located(&self, error: DeviceError) -> DeviceError {
        // cannot be less: the error is about this segment, which begins at media_offset.
        let offset = error.offset.saturating_sub(self.media_offset) + self.start;
        let cause = match error.cause {
            // The segment lay inside the media when the disk was made.
            Cause::OutOfBounds { .. } => Cause::UnexpectedEnd,
            cause => cause,
        };
        DeviceError { offset, cause, ..error }
    }
}
