//! The data of one zone: read, hashed, decrypted, encrypted, written.

use std::ops::{Deref, DerefMut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use atrest_cipher::{DataUnitIndex, Mapper};
use atrest_device::{BlockDevice, Cause, DeviceError, Operation};
use atrest_kdf::{Hash, digest};
use atrest_secret::wipe;
use atrest_volume::luks2::reencrypt::{ReencryptError, Rewriting, Zone};

use super::RewriteError;
use crate::disk::parallel::Helpers;

/// Bytes handled at a time, a multiple of every data unit: a quarter of a typical core's private cache.
const CHUNK: usize = 256 << 10;
/// What is split over the cores at a time: more than fits in a `usize` everywhere would not do.
const STEP: usize = 1 << 30;

/// A buffer that may hold plaintext, and is wiped when it goes, also after a failure.
pub struct Buffer(Vec<u8>);

impl Buffer {
    fn new(len: usize) -> Self {
        Self(vec![0; len])
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// Does what is to be done with a chunk so many bytes into the zone.
type Work<'a> = &'a (dyn Fn(u64, &mut [u8]) -> Result<(), DeviceError> + Sync);

/// What is done to a zone.
pub struct Transform<'a> {
    media: &'a dyn BlockDevice,
    zone: Zone,
    old: Option<&'a Mapper>,
    new: Option<&'a Mapper>,
    unit: usize,
    helpers: &'a Helpers,
    written: Option<&'a AtomicU64>,
}

impl<'a> Transform<'a> {
    pub fn new(rewriting: &'a Rewriting<'_>, zone: &Zone, helpers: &'a Helpers) -> Self {
        let unit = rewriting.alignment() as usize;
        Self {
            media: rewriting.data(),
            zone: *zone,
            old: rewriting.old(),
            new: rewriting.new_mapper(),
            unit,
            helpers,
            written: None,
        }
    }

    /// Counts there what is written.
    pub fn counting(self, written: Option<&'a AtomicU64>) -> Self {
        Self { written, ..self }
    }

    fn count(&self, len: usize) {
        if let Some(written) = self.written {
            written.fetch_add(len as u64, Ordering::Relaxed);
        }
    }

    /// Announces what the next zone will read.
    pub fn prefetch_behind(&self) {
        self.media.prefetch(self.zone.source + self.zone.len, self.zone.len.min(64 << 20));
    }

    /// Reads, transforms and writes the whole zone.
    pub fn rewrite(&self) -> Result<(), DeviceError> {
        self.each_chunk(&|skip, chunk| {
            self.media.read_at(self.zone.source + skip, chunk)?;
            self.transform(skip, chunk)?;
            self.media.write_at(self.zone.target + skip, chunk)?;
            self.count(chunk.len());
            Ok(())
        })
    }

    /// All of the zone, as it is.
    pub fn read_whole(&self) -> Result<Buffer, DeviceError> {
        let mut whole = Buffer::new(self.zone.len as usize);
        self.helpers.split_mut(&mut whole, self.unit, |skip, piece| {
            self.media.read_at(self.zone.source + skip as u64, piece)
        })?;
        Ok(whole)
    }

    /// Transforms what was read, and writes it.
    pub fn rewrite_read(&self, whole: &mut [u8]) -> Result<(), DeviceError> {
        self.helpers.split_mut(whole, self.unit, |skip, piece| {
            let mut at = skip as u64;
            for chunk in piece.chunks_mut(CHUNK) {
                self.transform(at, chunk)?;
                self.media.write_at(self.zone.target + at, chunk)?;
                self.count(chunk.len());
                at += chunk.len() as u64;
            }
            Ok(())
        })
    }

    /// The hashes of all sectors, one behind the other.
    pub fn hashes(&self, hash: Hash, sector: usize) -> Result<Vec<u8>, DeviceError> {
        let (len, count) = (hash.output_len(), self.zone.len as usize / sector);
        let mut hashes = vec![0; count * len];
        // One hash stands for a sector; pieces must be worth a thread by the bytes that are read.
        self.helpers.split_mut_as(&mut hashes, len, self.zone.len as usize, |skip, piece| {
            let sectors = CHUNK.max(sector) / sector;
            let mut buf = Buffer::new(sectors * sector);
            let mut at = self.zone.source + (skip / len * sector) as u64;
            for part in piece.chunks_mut(sectors * len) {
                let data = &mut buf[..part.len() / len * sector];
                self.media.read_at(at, data)?;
                at += data.len() as u64;
                for (out, sector) in part.chunks_mut(len).zip(data.chunks(sector)) {
                    digest(hash, &[sector], out);
                }
            }
            Ok(())
        })?;
        Ok(hashes)
    }

    /// Transforms and writes the sectors that still are what their hashes say. The others were written already.
    pub fn where_unchanged(
        &self,
        rewriting: &Rewriting<'_>,
        hash: Hash,
        sector: usize,
    ) -> Result<(), RewriteError> {
        let fault: Mutex<Option<ReencryptError>> = Mutex::new(None);
        let len = hash.output_len();
        let outcome = self.each_chunk(&|skip, chunk| {
            let mut hashes = vec![0; chunk.len() / sector * len];
            let area = skip / sector as u64 * len as u64;
            if let Err(error) = rewriting.read_protection(area, &mut hashes) {
                note(&fault, error);
                return Ok(());
            }
            self.media.read_at(self.zone.target + skip, chunk)?;
            let (mut at, mut found) = (skip, vec![0; len]);
            for (data, then) in chunk.chunks_mut(sector).zip(hashes.chunks(len)) {
                digest(hash, &[data], &mut found);
                if found == then {
                    self.transform(at, data)?;
                    self.media.write_at(self.zone.target + at, data)?;
                }
                at += sector as u64;
            }
            Ok(())
        });
        outcome?;
        fault
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .map_or(Ok(()), |e| Err(e.into()))
    }

    /// Transforms what the journal holds, and writes it.
    pub fn rewrite_journal(&self, rewriting: &Rewriting<'_>) -> Result<(), RewriteError> {
        let fault: Mutex<Option<ReencryptError>> = Mutex::new(None);
        self.each_chunk(&|skip, chunk| {
            if let Err(error) = rewriting.read_protection(skip, chunk) {
                note(&fault, error);
                return Ok(());
            }
            self.transform(skip, chunk)?;
            self.media.write_at(self.zone.target + skip, chunk)
        })?;
        fault
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .map_or(Ok(()), |e| Err(e.into()))
    }

    /// Runs `work(skip, buffer)` for the whole zone on every core.
    fn each_chunk(&self, work: Work<'_>) -> Result<(), DeviceError> {
        for (from, step) in steps(self.zone.len, STEP) {
            let unit = self.unit.max(CHUNK.min(step));
            self.helpers.split_len(step, unit, |skip, len| {
                let mut buf = Buffer::new(len.min(CHUNK.max(self.unit)));
                let mut done = 0;
                while done < len {
                    let now = (len - done).min(buf.len());
                    work(from + (skip + done) as u64, &mut buf[..now])?;
                    done += now;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn transform(&self, skip: u64, data: &mut [u8]) -> Result<(), DeviceError> {
        let at = self.zone.offset + skip;
        let len = data.len() as u64;
        let refused = |mapper: &Mapper| {
            let multiple = mapper.data_unit() as u32;
            DeviceError::new(Operation::Write, at, len, Cause::Misaligned { multiple })
        };
        if let Some(old) = self.old {
            old.decrypt(index(old, at), data).map_err(|_| refused(old))?;
        }
        match self.new {
            Some(new) => new.encrypt(index(new, at), data).map_err(|_| refused(new)),
            None => Ok(()),
        }
    }
}

/// Where the pieces of a length begin, and how long they are: `most`, but for the last.
fn steps(len: u64, most: usize) -> impl Iterator<Item = (u64, usize)> {
    // More than fits in a `usize` is more than `most`, too.
    (0..len)
        .step_by(most)
        .map(move |from| (from, usize::try_from(len - from).map_or(most, |left| left.min(most))))
}

fn index(mapper: &Mapper, at: u64) -> DataUnitIndex {
    DataUnitIndex(at / mapper.data_unit() as u64)
}

/// Of several faults the first is reported.
fn note(fault: &Mutex<Option<ReencryptError>>, error: ReencryptError) {
    fault.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
}

#[cfg(test)]
mod tests {
    use atrest_cipher::MapperOptions;
    use atrest_testkit::{FaultDevice, Random};

    use super::*;

    #[test]
    fn what_several_threads_read_of_a_zone_is_what_is_there() {
        let spec = "aes-xts-plain64".parse().expect("a cipher");
        let mapper = Mapper::new(&spec, &Random::new(1).bytes(64), &MapperOptions::default()).expect("a key");
        let image = Random::new(2).bytes(5 << 20);
        let media = FaultDevice::new(image.clone());
        let zone = Zone { offset: 0, len: 3 << 20, source: 1 << 20, target: 0 };
        let helpers = Helpers::new(3);
        let transform = Transform {
            media: &media,
            zone,
            old: None,
            new: Some(&mapper),
            unit: 512,
            helpers: &helpers,
            written: None,
        };
        let read = transform.read_whole().expect("read");
        assert!(read[..] == image[1 << 20..4 << 20]);
    }

    #[test]
    fn the_pieces_of_a_length_are_all_of_it() {
        assert!(steps(0, 4).eq([]));
        assert!(steps(8, 4).eq([(0, 4), (4, 4)]));
        assert!(steps(9, 4).eq([(0, 4), (4, 4), (8, 1)]));
        assert!(steps(5 << 29, STEP).eq([(0, STEP), (1 << 30, STEP), (1 << 31, STEP / 2)]));
    }
}
