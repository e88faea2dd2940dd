//! The plaintext of an unlocked volume as a block device.
//!
//! Bytes of any range can be read and written. What covers whole data units goes straight through: read and decrypted
//! in the caller's buffer, or encrypted into a scratch buffer of the thread and written. A request of at least
//! [`SPLIT_MIN`] bytes is cut into one contiguous piece per core; the pieces share nothing. Inside a piece, and for
//! all smaller requests, [`CHUNK`] bytes at a time are handled while they are in the core's own cache.
//!
//! A range that covers a data unit in part needs a read-modify-write of that unit, from which every other access to
//! the unit must be kept away: [`Units`] says how, and what the aligned path pays for it (one uncontended atomic
//! increment per chunk).
//!
//! A hole in the media is data: it reads as the decryption of zeros, as with dm-crypt, and zeros are written
//! encrypted. Otherwise whoever holds the media could tell, or choose, what reads as zeros.

mod bytes;
mod error;
mod guard;
pub(crate) mod parallel;
mod region;
#[cfg(all(test, shuttle))]
mod schedules;
mod stream;
#[cfg(all(test, not(shuttle)))]
mod tests;
pub(crate) mod units;

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use atrest_cipher::Mapper;
use atrest_device::{
    BlockDevice, Cause, DeviceError, Durability, Extent, Geometry, Operation, StoreRequests,
};
use atrest_secret::Locked;
use atrest_volume::{Protection, Segment, Volume};

use crate::integrity::{Integrity, Mode, OpenOptions};
pub use error::DiskError;
use guard::Guard;
use parallel::Helpers;
use region::Region;
use stream::Stream;
use units::Units;

/// Bytes handled at a time: a quarter of a typical core's private cache, and long enough to hide a system call.
const CHUNK: usize = 256 << 10;
/// Requests of at least this many bytes are split over the cores. Starting a thread costs some 40 µs, decrypting
/// this much about ten times that.
const SPLIT_MIN: usize = 2 << 20;
/// Runs of at least this many bytes are decrypted from where the media has them in memory. A shorter one is read faster than its
/// pages are found.
const LENT_MIN: usize = 32 << 10;
/// A range without a buffer is worked on in steps of this many bytes, to fit in a `usize` everywhere.
const MAX_STEP: u64 = 1 << 30;
/// Bytes of each segment in [`Disk::likeness`].
const LIKENESS: usize = 64;
/// Longest data unit that a disk can serve.
const MAX_DATA_UNIT: usize = 1 << 20;

/// How a [`Disk`] behaves.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DiskOptions {
    /// Threads that one large request may use, the caller's included; 0 stands for all cores.
    pub threads: usize,
    /// Pass discards to the media, which shows whoever holds it what is in use. Otherwise they do nothing.
    pub allow_discards: bool,
    /// Refuse writes.
    pub read_only: bool,
    /// How data units with tags are written.
    pub integrity: Mode,
}

/// The plaintext of an unlocked volume.
pub struct Disk {
    media: Arc<dyn BlockDevice>,
    /// Held open for its lock.
    header: Option<Arc<dyn BlockDevice>>,
    /// What the volume is only as long as it is locked by, if it is in the middle of its re-encryption.
    lock: Option<Arc<dyn core::any::Any + Send + Sync>>,
    regions: Vec<Region>,
    size: u64,
    unit: usize,
    uuid: Option<String>,
    read_only: bool,
    guard: Option<Guard>,
    allow_discards: bool,
    durability: Durability,
    units: Units,
    helpers: Helpers,
    stream: Stream,
}

impl Disk {
    /// The plaintext of `volume`, whose ciphertext lies on `media`.
    ///
    /// Discards are passed on if the options say so. The flag in a LUKS2 header does not count: nothing
    /// authenticates it, so whoever can write to the media could set it and then see what is in use.
    ///
    /// # Errors
    /// [`DiskError::MediaTooSmall`] if `media` ends before a segment does, [`DiskError::Integrity`] if there are no tags where a segment
    /// has them. The others say which segment does not go together with those before it, or with its data units.
    pub fn new(media: Arc<dyn BlockDevice>, volume: Volume, options: DiskOptions) -> Result<Self, DiskError> {
        let uuid = volume.uuid().map(str::to_owned);
        let read_only = options.read_only || volume.read_only();
        let guard = volume.protected().cloned().map(Guard::new);
        let lock = volume.lock();
        let options = DiskOptions { read_only, ..options };
        let mut regions = Vec::new();
        for segment in volume.into_segments() {
            let Segment { start, len, media_offset, protection } = segment;
            regions.push(match protection {
                Protection::Tagged(tagged) => {
                    let mut how = OpenOptions::default();
                    (how.mode, how.read_only) = (options.integrity, read_only);
                    let opened = Integrity::open(Arc::clone(&media), media_offset, tagged, how)?;
                    Region::of_integrity(start, len, media_offset, opened)
                }
                protection => Region::from_segment(Segment { start, len, media_offset, protection }),
            });
        }
        let disk = Self::from_regions(media, regions, options, uuid)?;
        Ok(Self { guard, lock, ..disk })
    }

    /// The data of a device with tags, which lies on `media`.
    ///
    /// # Errors
    /// Never: what is open has a place for each data unit. The type is that of [`new`](Self::new).
    pub fn of_integrity(
        media: Arc<dyn BlockDevice>,
        opened: Integrity,
        options: DiskOptions,
    ) -> Result<Self, DiskError> {
        let read_only = options.read_only || opened.is_read_only();
        let region = Region::of_integrity(0, opened.size(), 0, opened);
        Self::from_regions(media, vec![region], DiskOptions { read_only, ..options }, None)
    }

    /// The media itself, by the same code with a mapper that changes nothing: what encryption costs is measured
    /// against this. Bytes beyond the last whole 512-byte sector are left out.
    ///
    /// # Errors
    /// Never: media has room for itself. The type is that of [`new`](Self::new).
    pub fn identity(media: Arc<dyn BlockDevice>, options: DiskOptions) -> Result<Self, DiskError> {
        let region = Region::identity(media.size());
        Self::from_regions(media, vec![region], options, None)
    }

    /// The plaintext of `len` bytes at `media_offset`, with the mapper that the caller chose.
    ///
    /// # Errors
    /// [`DiskError::MediaTooSmall`] or [`DiskError::Overflow`] if the bytes do not lie on the media,
    /// [`DiskError::PartialDataUnit`] or [`DiskError::DataUnitTooLong`] if the mapper's data units do not
    /// fit.
    pub fn of_mapper(
        media: Arc<dyn BlockDevice>,
        mapper: Locked<Mapper>,
        media_offset: u64,
        len: u64,
        options: DiskOptions,
    ) -> Result<Self, DiskError> {
        let region =
            Region { start: 0, len, media_offset, protection: Protection::Mapper(mapper), tagged: None };
        Self::from_regions(media, vec![region], options, None)
    }

    /// Segments of a volume that has more of them, or other ones at other times.
    pub(crate) fn of_segments(
        media: Arc<dyn BlockDevice>,
        segments: Vec<Segment>,
        options: DiskOptions,
    ) -> Result<Self, DiskError> {
        let regions = segments.into_iter().map(Region::from_segment).collect();
        Self::from_regions(media, regions, options, None)
    }

    fn from_regions(
        media: Arc<dyn BlockDevice>,
        regions: Vec<Region>,
        options: DiskOptions,
        uuid: Option<String>,
    ) -> Result<Self, DiskError> {
        let mut size = 0;
        let mut unit = 0;
        for region in &regions {
            region.check(size, media.size())?;
            size = region.end();
            unit = unit.max(region.unit());
        }
        Ok(Self {
            read_only: options.read_only || media.is_read_only(),
            guard: None,
            lock: None,
            media,
            header: None,
            regions,
            size,
            unit: unit.max(atrest_device::SECTOR_SIZE as usize),
            uuid,
            allow_discards: options.allow_discards,
            durability: Durability::new(),
            units: Units::new(),
            helpers: Helpers::new(options.threads),
            stream: Stream::new(),
        })
    }

    /// Keeps open the device that the volume's detached header lies on, and with it the use lock: nobody formats or restores
    /// the header of a volume that is in use.
    #[must_use]
    pub fn with_header(mut self, header: Arc<dyn BlockDevice>) -> Self {
        self.header = Some(header);
        self
    }

    /// Shows another number of bytes, from the same first one on. What is not shown any more stays on the media.
    ///
    /// # Errors
    /// [`DiskError::Fixed`] if there are several segments, or tags. [`DiskError::MediaTooSmall`], [`DiskError::PartialDataUnit`] or
    /// [`DiskError::Overflow`] for a size that it can't have. Then it keeps the one that it has.
    pub fn resize(&mut self, size: u64) -> Result<(), DiskError> {
        let [region] = self.regions.as_mut_slice() else { return Err(DiskError::Fixed) };
        if region.tagged.is_some() {
            return Err(DiskError::Fixed);
        }
        let before = core::mem::replace(&mut region.len, size);
        if let Err(error) = region.check(0, self.media.size()) {
            region.len = before;
            return Err(error);
        }
        self.size = size;
        Ok(())
    }

    /// The device that holds the ciphertext.
    pub fn media(&self) -> &Arc<dyn BlockDevice> {
        &self.media
    }

    /// Bytes in the largest data unit: requests aligned to it need no read-modify-write.
    pub fn data_unit(&self) -> usize {
        self.unit
    }

    /// Bytes in what the media stores as one, where its bytes are the plaintext; otherwise 0.
    pub fn media_block(&self) -> usize {
        let is_plain = self.regions.iter().all(|region| matches!(region.protection, Protection::Identity));
        if is_plain { self.media.geometry().physical_block as usize } else { 0 }
    }

    /// UUID of the volume, where it has one.
    pub fn uuid(&self) -> Option<&str> {
        self.uuid.as_deref()
    }

    /// Whether discards reach the media.
    pub fn passes_discards(&self) -> bool {
        self.allow_discards
    }

    /// Threads that one request may use.
    pub fn threads(&self) -> usize {
        self.helpers.threads()
    }

    /// What zeros would be on the media in the first data unit of each segment, of which the first 64 bytes count. With another key,
    /// cipher or place in the volume it is something else, and it tells nothing of the key. Behind it is what nobody may write.
    ///
    /// # Errors
    /// [`DeviceError`] if a data unit can't be encrypted.
    pub fn likeness(&self) -> Result<Vec<u8>, DeviceError> {
        let mut all = Vec::new();
        for region in self.regions.iter().filter(|region| region.len > 0) {
            let unit = self.ciphertext(region.start, &vec![0; region.unit()])?;
            all.extend(unit.into_iter().take(LIKENESS));
        }
        all.extend(self.guard.iter().flat_map(Guard::likeness));
        Ok(all)
    }

    /// Where on the media the plaintext begins, and the length of a data unit, if all of it lies there in order.
    pub(crate) fn lies_in_order(&self) -> Option<(u64, u64)> {
        match self.regions.as_slice() {
            [region] if region.tagged.is_none() => Some((region.media_offset, region.unit() as u64)),
            _ => None,
        }
    }

    /// Reads like [`BlockDevice::read_at`], on the calling thread alone.
    ///
    /// # Errors
    /// [`DeviceError`] for a range that does not lie in the plaintext, or the error of the media.
    pub fn read_alone(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        for (region, at, range) in self.parts(offset, buf.len()) {
            let buf = &mut buf[range];
            self.read_range(region, at, buf, |at, whole| self.read_piece(region, at, whole))?;
        }
        Ok(())
    }

    /// What the media would hold if `data` were written at `offset`, which must be a multiple of the data unit. The
    /// last data unit is filled up with zeros, and a random IV is zeros.
    pub(crate) fn ciphertext(&self, offset: u64, data: &[u8]) -> Result<Vec<u8>, DeviceError> {
        self.check_range(Operation::Read, offset, data.len() as u64)?;
        let mut out = data.to_vec();
        for (region, at, range) in self.parts(offset, data.len()) {
            if range.end == data.len() {
                out.resize(range.start + range.len().next_multiple_of(region.unit()), 0);
            }
            let end = if range.end == data.len() { out.len() } else { range.end };
            let run = &mut out[range.start..end];
            match &region.tagged {
                Some(tagged) => tagged.ciphertext(at, run).map_err(|error| region.moved(error))?,
                None => region.encrypt(at, run)?,
            }
        }
        Ok(out)
    }

    /// The media's own bytes under `len` bytes of plaintext at `offset`, both rounded to whole data units.
    pub(crate) fn stored_ciphertext(&self, offset: u64, len: usize) -> Result<Vec<u8>, DeviceError> {
        self.check_range(Operation::Read, offset, len as u64)?;
        let mut out = Vec::new();
        for (region, at, range) in self.parts(offset, len) {
            let unit = region.unit() as u64;
            let start = at / unit * unit;
            let end = (at + range.len() as u64).next_multiple_of(unit);
            let mut run = vec![0; (end - start) as usize];
            match &region.tagged {
                Some(tagged) => tagged.stored(start, &mut run).map_err(|error| region.moved(error))?,
                None => region.read(&*self.media, start, &mut run)?,
            }
            out.append(&mut run);
        }
        Ok(out)
    }

    /// The regions that a range touches: each with the offset inside it and the part of the range.
    fn parts(&self, offset: u64, len: usize) -> impl Iterator<Item = (&Region, u64, Range<usize>)> {
        self.spans(offset, len as u64).map(move |(region, at, len)| {
            let skip = (region.start + at - offset) as usize;
            (region, at, skip..skip + len as usize)
        })
    }

    /// The regions that a range touches: each with the offset inside it and the bytes of the range that lie in it.
    fn spans(&self, offset: u64, len: u64) -> impl Iterator<Item = (&Region, u64, u64)> {
        let end = offset + len;
        self.regions
            .iter()
            .skip_while(move |region| region.end() <= offset)
            .take_while(move |region| region.start < end)
            .map(move |region| {
                let from = region.start.max(offset);
                (region, from - region.start, region.end().min(end) - from)
            })
    }

    /// Notes a read, and has the media read ahead if it was one of several in order.
    fn read_ahead(&self, offset: u64, len: u64) {
        if let Some((from, len)) = self.stream.ahead(offset, len, self.size) {
            self.prefetch(from, len);
        }
    }

    /// Reads whole data units on this thread.
    fn read_piece(&self, region: &Region, at: u64, piece: &mut [u8]) -> Result<(), DeviceError> {
        for (index, chunk) in piece.chunks_mut(region.chunk()).enumerate() {
            self.load(region, at + (index * region.chunk()) as u64, chunk)?;
        }
        Ok(())
    }

    /// Reads whole data units, no more than a chunk, from where the media has them in memory if it has.
    fn load(&self, region: &Region, at: u64, run: &mut [u8]) -> Result<(), DeviceError> {
        {
            let _shared = self.units.share(region.start + at, run.len());
            if region.tagged.is_some() {
                return region.load(&*self.media, at, run);
            }
            if run.len() >= LENT_MIN && region.decrypt_lent(&*self.media, at, run)? {
                return Ok(());
            }
            region.read(&*self.media, at, run)?;
        }
        region.decrypt(at, run)
    }

    /// Writes whole data units, no more than a chunk. Afterwards `run` holds nothing of use.
    fn store(&self, region: &Region, at: u64, run: &mut [u8]) -> Result<(), DeviceError> {
        if region.tagged.is_some() {
            let _shared = self.units.share(region.start + at, run.len());
            return region.store(&*self.media, at, run);
        }
        region.encrypt(at, run)?;
        let _shared = self.units.share(region.start + at, run.len());
        region.write(&*self.media, at, run)
    }

    /// Writes whole data units on this thread.
    fn write_piece(&self, region: &Region, at: u64, piece: &[u8]) -> Result<(), DeviceError> {
        with_scratch(region.chunk().min(piece.len()), |scratch| {
            for (index, chunk) in piece.chunks(region.chunk()).enumerate() {
                let at = at + (index * region.chunk()) as u64;
                let stored = match region.protection {
                    Protection::Identity => chunk,
                    _ => {
                        let run = &mut scratch[..chunk.len()];
                        if region.tagged.is_some() {
                            run.copy_from_slice(chunk);
                            self.store(region, at, run)?;
                            continue;
                        }
                        region.encrypt_to(at, chunk, run)?;
                        &*run
                    }
                };
                let _shared = self.units.share(region.start + at, chunk.len());
                region.write(&*self.media, at, stored)?;
            }
            Ok(())
        })
    }

    /// Writes zeros over whole data units on this thread.
    fn zero_piece(&self, region: &Region, at: u64, len: usize) -> Result<(), DeviceError> {
        let step = region.chunk().min(len);
        with_scratch(step, |scratch| {
            for skip in (0..len).step_by(step.max(1)) {
                let at = at + skip as u64;
                let chunk = &mut scratch[..step.min(len - skip)];
                chunk.fill(0);
                self.store(region, at, chunk)?;
            }
            Ok(())
        })
    }

    /// The first byte of the plaintext at which a hidden volume is protected, if one is. Nothing from there on may be written.
    pub fn protected_from(&self) -> Option<u64> {
        self.guard.as_ref().map(|guard| guard.range().start)
    }

    fn check_writable(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        if self.read_only {
            return Err(DeviceError::new(operation, offset, len, Cause::ReadOnly));
        }
        self.durability.check(operation, offset, len)?;
        self.check_range(operation, offset, len)?;
        match &self.guard {
            Some(guard) => guard.permit(operation, offset, len, self.unit as u64),
            None => Ok(()),
        }
    }
}

impl BlockDevice for Disk {
    fn size(&self) -> u64 {
        self.size
    }

    /// The logical block is the data unit, as dm-crypt has it: partition tables inside count in it.
    fn geometry(&self) -> Geometry {
        let media = self.media.geometry();
        let unit = (self.unit as u32).next_power_of_two();
        Geometry {
            logical_block: unit.max(media.logical_block),
            physical_block: unit.max(media.physical_block),
            optimal_alignment: unit.max(media.optimal_alignment),
            alignment_offset: 0,
        }
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        self.read_ahead(offset, buf.len() as u64);
        for (region, at, range) in self.parts(offset, buf.len()) {
            let buf = &mut buf[range];
            self.read_range(region, at, buf, |at, whole| {
                self.helpers.split_mut(whole, region.unit(), |skip, piece| {
                    self.read_piece(region, at + skip as u64, piece)
                })
            })?;
        }
        Ok(())
    }

    /// Answers for whole data units of one region, which is what small requests ask for.
    fn read_if_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DeviceError> {
        self.check_range(Operation::Read, offset, buf.len() as u64)?;
        let Some((region, at, len)) = self.spans(offset, buf.len() as u64).next() else { return Ok(true) };
        let cut = region.cut(at, buf.len());
        if len < buf.len() as u64 || cut.whole < buf.len() || cut.whole > region.chunk() {
            return Ok(false);
        }
        {
            let Some(_shared) = self.units.try_share(region.start + at, buf.len()) else { return Ok(false) };
            if let Some(tagged) = &region.tagged {
                let cached = tagged.read_if_cached(at, buf).map_err(|error| region.moved(error))?;
                if cached {
                    self.read_ahead(offset, buf.len() as u64);
                }
                return Ok(cached);
            }
            if !region.read_if_cached(&*self.media, at, buf)? {
                return Ok(false);
            }
        }
        region.decrypt(at, buf)?;
        // A read that is not at hand comes again, by the other way, and is noted there.
        self.read_ahead(offset, buf.len() as u64);
        Ok(true)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.check_writable(Operation::Write, offset, data.len() as u64)?;
        for (region, at, range) in self.parts(offset, data.len()) {
            let data = &data[range];
            let cut = region.cut(at, data.len());
            let (head, rest) = data.split_at(cut.head);
            let (whole, tail) = rest.split_at(cut.whole);
            self.write_run(region, at, head)?;
            let at = at + head.len() as u64;
            if !whole.is_empty() {
                self.helpers.split(whole, region.unit(), |skip, piece| {
                    self.write_piece(region, at + skip as u64, piece)
                })?;
            }
            self.write_run(region, at + whole.len() as u64, tail)?;
        }
        // A flush that failed meanwhile may have been about these bytes.
        self.durability.check(Operation::Write, offset, data.len() as u64)
    }

    /// Encrypts in `data` itself.
    fn write_consuming(&self, offset: u64, data: &mut [u8]) -> Result<(), DeviceError> {
        self.check_writable(Operation::Write, offset, data.len() as u64)?;
        for (region, at, range) in self.parts(offset, data.len()) {
            let data = &mut data[range];
            let cut = region.cut(at, data.len());
            let (head, rest) = data.split_at_mut(cut.head);
            let (whole, tail) = rest.split_at_mut(cut.whole);
            self.write_run(region, at, head)?;
            let at = at + head.len() as u64;
            for (index, chunk) in whole.chunks_mut(region.chunk()).enumerate() {
                self.store(region, at + (index * region.chunk()) as u64, chunk)?;
            }
            self.write_run(region, at + whole.len() as u64, tail)?;
        }
        self.durability.check(Operation::Write, offset, data.len() as u64)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.durability.flush(|| {
            let mut tagged = self.regions.iter().filter_map(|region| region.tagged.as_ref()).peekable();
            if tagged.peek().is_none() {
                return self.media.flush();
            }
            tagged.try_for_each(Integrity::flush)?;
            if self.regions.iter().any(|region| region.tagged.is_none()) {
                self.media.flush()
            } else {
                Ok(())
            }
        })
    }

    /// Passes whole data units on if discards are allowed, and otherwise does nothing: a discard is advice, and what
    /// the range holds afterwards is undefined either way.
    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check_writable(Operation::Discard, offset, len)?;
        if !self.allow_discards {
            return Ok(());
        }
        // No exclusion of partial writes is needed: they may at worst bring back what is undefined anyway.
        for (region, at, len) in self.spans(offset, len) {
            let (start, whole) = region.whole_units(at, len);
            // What is discarded would have no tags. What a format keeps for itself stays.
            let is_data = region.tagged.is_none() && !matches!(region.protection, Protection::Shown(_));
            if whole > 0 && is_data {
                region.discard(&*self.media, start, whole)?;
            }
        }
        Ok(())
    }

    /// Encrypts zeros: never a hole.
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check_writable(Operation::Write, offset, len)?;
        for (region, at, len) in self.spans(offset, len) {
            let (start, whole) = region.whole_units(at, len);
            if whole == 0 {
                self.zero_parts(region, at, len)?;
                continue;
            }
            self.zero_parts(region, at, start - at)?;
            let mut done = 0;
            while done < whole {
                let step = (whole - done).min(MAX_STEP / region.unit() as u64 * region.unit() as u64);
                self.helpers.split_len(step as usize, region.unit(), |skip, len| {
                    self.zero_piece(region, start + done + skip as u64, len)
                })?;
                done += step;
            }
            self.zero_parts(region, start + whole, at + len - start - whole)?;
        }
        self.durability.check(Operation::Write, offset, len)
    }

    /// A hole in the media is data, but where the media's bytes are the plaintext.
    fn extent(&self, offset: u64, len: u64) -> Result<Extent, DeviceError> {
        self.check_range(Operation::Read, offset, len)?;
        match self.spans(offset, len).next() {
            Some((region, at, len)) if matches!(region.protection, Protection::Identity) => {
                self.media.extent(region.media_offset + at, len)
            }
            _ => Ok(Extent { len, hole: false }),
        }
    }

    fn store_requests(&self) -> Option<StoreRequests> {
        self.media.store_requests()
    }

    fn prefetch(&self, offset: u64, len: u64) {
        // intended: nothing is read ahead behind the end.
        let len = len.min(self.size.saturating_sub(offset));
        for (region, at, len) in self.spans(offset, len) {
            match &region.tagged {
                Some(tagged) => tagged.prefetch(at, len),
                None => self.media.prefetch(region.media_offset + at, len),
            }
        }
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk")
            .field("size", &self.size)
            .field("data_unit", &self.unit)
            .field("uuid", &self.uuid)
            .field("read_only", &self.read_only)
            .field("allow_discards", &self.allow_discards)
            .field("has_detached_header", &self.header.is_some())
            .field("is_unfinished", &self.lock.is_some())
            .finish_non_exhaustive()
    }
}

/// Lends this thread's scratch buffer, at least `len` bytes long. It is taken out for the time being, so that a disk
/// whose media is another disk gets a second one.
fn with_scratch<T>(len: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local! {
        static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    let mut scratch = SCRATCH.take();
    if scratch.len() < len {
        scratch.resize(len, 0);
    }
    let result = work(&mut scratch);
    SCRATCH.set(scratch);
    result
}
