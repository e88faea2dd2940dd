//! A sealed volume on the desk: on an image or card, with its trusted store in a file, or read without it.

use atrest_cipher::aead::Aead;
use atrest_device::{
    FlashCause, FlashDevice, FlashError, FlashGeometry, FlashRegion, TRUSTED_RECORD_LEN, TrustedStore,
};
use atrest_flash::FoundHeader;
use atrest_flash::sealed::{
    BlockState, SealedError, SealedFlash, SealedKey, SealedLayout, SealedMedium, SealedOptions, SealedReader,
    UnitState, Verdict, Verify,
};
use atrest_keyslot::flash::{FlashKey, Freshness, Params, Protection};
use atrest_secret::{Locked, OsRandom};

use super::aead::{WithAead, with_aead};
use super::any::{AnyFlash, AnyStore};
use super::memory::check_room;
use super::peek::{MemoryStore, PeekFlash};
use super::volume::{FlashOpenError, FlashVolume, data_geometry};
use crate::TrustedFile;

/// The plaintext of a sealed volume.
///
/// Dropped, it closes the volume in good order. If that fails the next opening finds what the last sync has left, as after a power
/// loss; of a volume that is being made its [`MemoryStore`] tells.
pub struct SealedPlain {
    volume: Box<dyn Volume>,
    /// Erase blocks of the medium before those that are sealed.
    first_block: u64,
    is_card: bool,
    /// Of a volume that is being made, who is told if it can't be closed.
    new: Option<MemoryStore>,
}

/// A volume whose cipher nobody needs to know any more.
pub(super) trait Volume: Send {
    fn flash(&mut self) -> &mut dyn FlashDevice;
    fn geometry(&self) -> FlashGeometry;
    fn close(&mut self) -> Result<(), FlashCause>;
    /// Whether units failed when the volume was opened.
    fn is_damaged(&self) -> bool;
    /// Units of an erase block that are not as they were stored.
    fn failed_units(&mut self, block: u32) -> Result<Vec<(u32, UnitState)>, FlashCause>;
    /// Reads a unit that fails with one bit put right, if that is enough.
    fn correct(&mut self, block: u32, unit: u32, out: &mut [u8]) -> Result<bool, FlashCause>;
    /// Of one that can be written.
    fn power_losses_left(&self) -> Option<u64>;
}

/// Memory that a volume works in.
type Table = Vec<BlockState>;
type Writing<A> = SealedFlash<A, AnyFlash, AnyStore, Table, Vec<u8>>;
type Reading<A> = SealedReader<A, AnyFlash, Table, Vec<u8>>;

/// Makes an empty volume behind a new header, with its record in memory: put it into the trusted store, once the plaintext was dropped and
/// the medium is what it is to be. A file is made blank first, as a new chip is.
///
/// # Errors
/// [`FlashOpenError::NotSealed`] if the header is of another volume, [`FlashOpenError::NotEnoughMemory`] for
/// a table of all blocks, [`FlashOpenError::Header`] if the medium can't be erased,
/// [`FlashOpenError::Sealed`] if the volume can't be made.
pub fn make_sealed(
    volume: FlashVolume,
    key: &FlashKey,
) -> Result<(SealedPlain, MemoryStore), FlashOpenError> {
    let mut parts = Parts::of(volume)?;
    let size = parts.data.geometry().size();
    parts.data.erase(0, size).map_err(|error| FlashOpenError::Header(error.into()))?;
    let store = MemoryStore::default();
    let mut plain = parts.run(key, Opens::writing(store.clone(), How::Make))?;
    plain.new = Some(store.clone());
    Ok((plain, store))
}

/// Opens a volume to be changed. After anything but a close in good order what is on the medium is taken over, if the store confirms
/// that the volume was in such a state since the store was written.
///
/// # Errors
/// [`FlashOpenError::NotSealed`] or [`FlashOpenError::StoreElsewhere`] if the volume has no store that is a
/// file, [`FlashOpenError::Store`] if this one can't be read, [`FlashOpenError::NotEnoughMemory`] for a table
/// of all blocks. [`FlashOpenError::Sealed`] if volume and store do not go together: then nothing was
/// changed.
pub fn open_sealed(
    volume: FlashVolume,
    key: &FlashKey,
    store: TrustedFile,
) -> Result<SealedPlain, FlashOpenError> {
    let parts = Parts::with_record(volume)?;
    // Looked at for its own sake: the volume only knows that a store failed.
    store.record().map_err(FlashOpenError::Store)?;
    parts.run(key, Opens::writing(store, How::Mount))
}

/// Opens a volume to be read, with the same checks. Nothing is written: after anything but a close in good order, the next
/// opening may find another state that the volume had since the store was written.
///
/// # Errors
/// Fails where [`open_sealed`] does.
pub fn open_sealed_to_read(
    volume: FlashVolume,
    key: &FlashKey,
    store: &TrustedFile,
) -> Result<SealedPlain, FlashOpenError> {
    let parts = Parts::with_record(volume)?;
    let record = store.record().map_err(FlashOpenError::Store)?;
    parts.run(key, Opens::peeking(record, How::Mount))
}

/// Opens a volume without its store, to be read. Whether it is as it was left, or as it was at any time before, nobody knows.
///
/// `assume_torn`: a unit that does not verify, the first of its block or behind all that do, counts as never written, as a power loss
/// leaves it. Otherwise reading there fails, as it does for one that was changed. On cards those go unnoticed either way.
///
/// # Errors
/// [`FlashOpenError::NotSealed`], [`FlashOpenError::NotEnoughMemory`], or [`FlashOpenError::Sealed`] if the
/// medium can't be read.
pub fn open_without_freshness(
    volume: FlashVolume,
    key: &FlashKey,
    assume_torn: bool,
) -> Result<SealedPlain, FlashOpenError> {
    Parts::of(volume)?.run(key, ReadsOnly { assume_torn })
}

/// Units that are not as they were sealed. On a chip's image a program that a power loss has torn is among them, too; on a card only
/// units between others that are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unverified<const N: usize> {
    /// The first ones: erase block of the medium and unit in it. The others are none.
    pub first: [Option<(u64, u32)>; N],
    /// All of them: as many as the medium has, if somebody wishes.
    pub count: u64,
}

/// Looks for them on the whole medium.
///
/// # Errors
/// Fails where [`open_without_freshness`] does.
pub fn unverified<const N: usize>(
    volume: FlashVolume,
    key: &FlashKey,
) -> Result<Unverified<N>, FlashOpenError> {
    let parts = Parts::of(volume)?;
    with_aead(&parts.params.clone(), Run { parts, key, work: Lists::<N> })
}

/// How a header's volume is laid out behind it.
///
/// # Errors
/// [`FlashOpenError::NotSealed`] if the volume is not sealed. [`FlashOpenError::Geometry`],
/// [`FlashOpenError::UnitsTooLarge`] or [`FlashOpenError::Sealed`] if the sizes that the header names are no
/// medium, or have no room for its units.
pub fn sealed_layout(params: &Params) -> Result<SealedLayout, FlashOpenError> {
    data_geometry(params)?;
    Ok(SealedLayout::of(params)?)
}

/// The payload that a new header of these parameters has to name, whose own is about as large.
///
/// # Errors
/// Fails where [`sealed_layout`] does.
pub fn sealed_payload(params: &Params) -> Result<u32, FlashOpenError> {
    data_geometry(params)?;
    Ok(SealedLayout::planned(params)?.payload())
}

/// What a header leads to.
pub(super) struct Parts {
    params: Params,
    options: SealedOptions,
    layout: SealedLayout,
    /// The header itself: the store says whether it is the newest.
    found: FoundHeader,
    /// The erase blocks that are sealed.
    data: AnyFlash,
}

impl Parts {
    fn of(volume: FlashVolume) -> Result<Self, FlashOpenError> {
        let params = *volume.header().map_err(FlashOpenError::Header)?.params();
        let layout = sealed_layout(&params)?;
        check_room::<BlockState>(layout.medium().block_count())?;
        let options = SealedOptions::of(&params).ok_or(FlashOpenError::NotSealed)?;
        let found = volume.found().map_err(FlashOpenError::Header)?;
        let behind = volume.into_data().map_err(FlashOpenError::Header)?;
        let data = FlashRegion::new(behind, 0, layout.medium().block_count())
            .map_err(|error| FlashOpenError::Header(error.into()))?;
        // The page cache may write in any order, and reading back would ask it alone.
        let medium = if data.erased_byte().is_none() { SealedMedium::Card } else { SealedMedium::Cached };
        let options = SealedOptions { medium, read_back: false, verify: Verify::AtOpening, ..options };
        Ok(Self { params, options, layout, found, data: Box::new(data) })
    }

    /// What the header of a sealed volume leads to. Fails unless the volume has its record in a store, which can be here.
    pub(super) fn with_record(volume: FlashVolume) -> Result<Self, FlashOpenError> {
        let parts = Self::of(volume)?;
        match parts.params.protection {
            Protection::Sealed { store: Freshness::Record, .. } => Ok(parts),
            _ => Err(FlashOpenError::StoreElsewhere),
        }
    }

    pub(super) fn run<W: Work<Output = Box<dyn Volume>>>(
        self,
        key: &FlashKey,
        work: W,
    ) -> Result<SealedPlain, FlashOpenError> {
        let params = self.params;
        let first_block = params.sizes.first_data_block();
        let is_card = self.options.medium == SealedMedium::Card;
        let volume = with_aead(&params, Run { parts: self, key, work })?;
        Ok(SealedPlain { volume, first_block, is_card, new: None })
    }

    /// A table for all blocks and a buffer for one unit.
    fn memory(&self) -> (Table, Vec<u8>) {
        let blocks = self.layout.medium().block_count() as usize;
        (vec![BlockState::default(); blocks], vec![0; self.layout.buffer_len() as usize])
    }
}

/// One of the ways to use a volume, of any cipher.
pub(super) trait Work {
    type Output;

    fn open<A: Aead + Send + 'static>(
        self,
        parts: Parts,
        key: &SealedKey<'_>,
    ) -> Result<Self::Output, SealedError>;
}

struct Run<'k, W> {
    parts: Parts,
    key: &'k FlashKey,
    work: W,
}

impl<W: Work> WithAead for Run<'_, W> {
    type Output = W::Output;

    fn with<A: Aead + Send + 'static>(self) -> Result<Self::Output, FlashOpenError> {
        let header = Some(self.parts.found);
        let key = SealedKey { volume_key: self.key.expose(), uuid: self.key.uuid(), header };
        let first = self.parts.params.sizes.first_data_block();
        self.work.open::<A>(self.parts, &key).map_err(|error| FlashOpenError::Sealed(told(error, first)))
    }
}

#[derive(Clone, Copy)]
pub(super) enum How {
    Make,
    Mount,
    Adopt,
}

/// Opens a volume with its record.
pub(super) struct Opens {
    /// Nothing is written: what opening changes is changed in memory.
    peeks: bool,
    store: AnyStore,
    how: How,
}

impl Opens {
    pub(super) fn writing(store: impl TrustedStore + Send + 'static, how: How) -> Self {
        Self { peeks: false, store: Box::new(store), how }
    }

    /// With a copy of what the store holds.
    pub(super) fn peeking(record: [u8; TRUSTED_RECORD_LEN], how: How) -> Self {
        Self { peeks: true, store: Box::new(MemoryStore::holding(record)), how }
    }
}

impl Work for Opens {
    type Output = Box<dyn Volume>;

    fn open<A: Aead + Send + 'static>(
        self,
        parts: Parts,
        key: &SealedKey<'_>,
    ) -> Result<Self::Output, SealedError> {
        let (table, buffer) = parts.memory();
        let medium = if self.peeks { Box::new(PeekFlash::new(parts.data)) } else { parts.data };
        let open = match self.how {
            How::Make => Writing::<A>::format,
            How::Mount => Writing::<A>::mount,
            How::Adopt => Writing::<A>::adopt,
        };
        Ok(Box::new(Locked::try_new_with(|| {
            open(medium, self.store, key, parts.options, table, buffer, &mut OsRandom)
        })?))
    }
}

struct Lists<const N: usize>;

impl<const N: usize> Work for Lists<N> {
    type Output = Unverified<N>;

    fn open<A: Aead + Send + 'static>(
        self,
        parts: Parts,
        key: &SealedKey<'_>,
    ) -> Result<Self::Output, SealedError> {
        let (table, buffer) = parts.memory();
        let (first, layout) = (parts.params.sizes.first_data_block(), parts.layout);
        let mut reader = Locked::try_new_with(|| {
            Reading::<A>::open_without_freshness(parts.data, key, parts.options, table, buffer)
        })?;
        let mut found = Unverified { first: [None; N], count: 0 };
        for block in 0..layout.medium().block_count() as u32 {
            for unit in 0..layout.units() {
                if reader.verdict(block, unit).map_err(SealedError::Medium)? == Verdict::Tampered {
                    if let Some(place) = found.first.iter_mut().find(|place| place.is_none()) {
                        *place = Some((first + u64::from(block), unit));
                    }
                    found.count += 1;
                }
            }
        }
        Ok(found)
    }
}

struct ReadsOnly {
    assume_torn: bool,
}

impl Work for ReadsOnly {
    type Output = Box<dyn Volume>;

    fn open<A: Aead + Send + 'static>(
        self,
        parts: Parts,
        key: &SealedKey<'_>,
    ) -> Result<Self::Output, SealedError> {
        let (table, buffer) = parts.memory();
        Ok(Box::new(Locked::try_new_with(|| {
            let reader = Reading::<A>::open_without_freshness(parts.data, key, parts.options, table, buffer)?;
            Ok::<_, SealedError>(if self.assume_torn { reader.assuming_torn() } else { reader })
        })?))
    }
}

impl<A: Aead + Send> Volume for Locked<Writing<A>> {
    fn flash(&mut self) -> &mut dyn FlashDevice {
        &mut **self
    }

    fn geometry(&self) -> FlashGeometry {
        FlashDevice::geometry(&**self)
    }

    fn close(&mut self) -> Result<(), FlashCause> {
        SealedFlash::close(self)
    }

    fn is_damaged(&self) -> bool {
        SealedFlash::is_damaged(self)
    }

    fn failed_units(&mut self, block: u32) -> Result<Vec<(u32, UnitState)>, FlashCause> {
        let mut failed = Vec::new();
        for unit in 0..self.layout().units() {
            match self.unit_state(block, unit)? {
                UnitState::Whole | UnitState::Absent => {}
                state => failed.push((unit, state)),
            }
        }
        Ok(failed)
    }

    fn correct(&mut self, block: u32, unit: u32, out: &mut [u8]) -> Result<bool, FlashCause> {
        SealedFlash::correct(self, block, unit, out)
    }

    fn power_losses_left(&self) -> Option<u64> {
        Some(SealedFlash::power_losses_left(self))
    }
}

impl<A: Aead + Send> Volume for Locked<Reading<A>> {
    fn flash(&mut self) -> &mut dyn FlashDevice {
        &mut **self
    }

    fn geometry(&self) -> FlashGeometry {
        FlashDevice::geometry(&**self)
    }

    fn close(&mut self) -> Result<(), FlashCause> {
        Ok(())
    }

    fn is_damaged(&self) -> bool {
        false
    }

    fn failed_units(&mut self, _block: u32) -> Result<Vec<(u32, UnitState)>, FlashCause> {
        Ok(Vec::new())
    }

    fn correct(&mut self, _block: u32, _unit: u32, _out: &mut [u8]) -> Result<bool, FlashCause> {
        Ok(false)
    }

    fn power_losses_left(&self) -> Option<u64> {
        None
    }
}

impl SealedPlain {
    /// Whether the medium is a card, which knows no blank units.
    pub fn is_card(&self) -> bool {
        self.is_card
    }

    /// Whether units failed when it was opened. Those with one wrong bit are read all the same; the others fail.
    pub fn is_damaged(&self) -> bool {
        self.volume.is_damaged()
    }

    /// Power losses that it still survives, if it can be written.
    pub fn power_losses_left(&self) -> Option<u64> {
        self.volume.power_losses_left()
    }

    /// Units of an erase block behind the header that are not as they were stored.
    pub(super) fn failed_units(&mut self, block: u32) -> Result<Vec<(u32, UnitState)>, FlashOpenError> {
        let failed = self.volume.failed_units(block);
        failed
            .map_err(|cause| FlashOpenError::Sealed(SealedError::Medium(told_cause(cause, self.first_block))))
    }

    /// Reads a range unit by unit. A unit that fails is read if it verifies with one bit put right.
    fn read_past(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        let unit = self.volume.geometry().read_size();
        for (out, at) in buf.chunks_mut(unit as usize).zip((address..).step_by(unit as usize)) {
            let Err(error) = self.volume.flash().read(at, out) else { continue };
            let corrected = match error.cause {
                FlashCause::Tampered { block, unit } => self
                    .volume
                    .correct(block as u32, unit, out)
                    .map_err(|cause| FlashError { cause, ..error })?,
                _ => false,
            };
            if !corrected {
                return Err(error);
            }
        }
        Ok(())
    }

    fn told<T>(&self, result: Result<T, FlashError>) -> Result<T, FlashError> {
        result.map_err(|error| FlashError { cause: told_cause(error.cause, self.first_block), ..error })
    }
}

/// Erase blocks are numbered from the first of the medium for whoever reads about them, and the volume begins at this one.
fn told_cause(cause: FlashCause, first: u64) -> FlashCause {
    match cause {
        FlashCause::Tampered { block, unit } => FlashCause::Tampered { block: block + first, unit },
        FlashCause::Void { block } => FlashCause::Void { block: block + first },
        FlashCause::Closed { block } => FlashCause::Closed { block: block + first },
        FlashCause::BadBlock { block } => FlashCause::BadBlock { block: block + first },
        cause => cause,
    }
}

fn told(error: SealedError, first: u64) -> SealedError {
    match error {
        SealedError::Medium(cause) => SealedError::Medium(told_cause(cause, first)),
        SealedError::KeyInUse { block } => {
            // cannot overflow: blocks of sealed media have numbers of 32 bits.
            SealedError::KeyInUse { block: block.saturating_add(first as u32) }
        }
        error => error,
    }
}

impl FlashDevice for SealedPlain {
    fn geometry(&self) -> FlashGeometry {
        self.volume.geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        let read = match self.volume.flash().read(address, buf) {
            Err(FlashError { cause: FlashCause::Tampered { .. }, .. }) => self.read_past(address, buf),
            read => read,
        };
        self.told(read)
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        let done = self.volume.flash().prog(address, data);
        self.told(done)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        let done = self.volume.flash().erase(address, len);
        self.told(done)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        let done = self.volume.flash().sync();
        self.told(done)
    }

    fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        let blank = self.volume.flash().is_blank(address, len, scratch);
        self.told(blank)
    }
}

impl Drop for SealedPlain {
    fn drop(&mut self) {
        // What was synced is anchored; an unclean end is what the next opening is made for.
        if let (Err(cause), Some(store)) = (self.volume.close(), &self.new) {
            store.not_closed(told_cause(cause, self.first_block));
        }
    }
}

impl core::fmt::Debug for SealedPlain {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SealedPlain").field("geometry", &self.geometry()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use atrest_flash::sealed::LayoutError;
    use atrest_flash::{Existing, FlashHeader, FormatOptions, NewSlot};
    use atrest_keyslot::flash::{AnyKdf, FlashCipher, KdfCost, TicketPolicy};
    use atrest_testkit::Scratch;

    use super::*;
    use crate::flash::{FileFlash, format, open};
    use crate::{Access, FileDevice, NewFile};

    #[test]
    fn a_header_whose_units_are_not_those_of_its_layout_is_refused() {
        let directory = Scratch::new();
        let path = directory.path("image");
        NewFile::create(&path, 65536).and_then(NewFile::appear).expect("made");
        let device = || Arc::new(FileDevice::open(&path, Access::ReadWriteExclusive).expect("open"));
        let geometry = FlashGeometry::new(1, 16, 4096, 16).expect("a geometry");
        let protection =
            Protection::Sealed { tag_len: 16, store: Freshness::Record, tickets: TicketPolicy::Slot };
        let options = FormatOptions {
            cipher: FlashCipher::ChaCha20Poly1305,
            key_len: 32,
            data_unit: 252,
            protection,
            existing: Existing::Replace,
        };
        let cost = KdfCost::Pbkdf2 { iterations: 1000 };
        let layout = LayoutError::OtherPayload { header: 252, layout: 264 };
        let refused = FlashOpenError::Sealed(SealedError::Layout(layout));
        let (mut kdf, mut random) = (AnyKdf, OsRandom);
        let slot = NewSlot { passphrase: b"x", cost, kdf: &mut kdf, device: None, random: &mut random };
        assert_eq!(format(device(), geometry, &options, slot).map(drop).expect_err("refused"), refused);
        assert!(std::fs::read(&path).expect("read").iter().all(|byte| *byte == 0), "nothing was written");
        // One that somebody else has made, or changed who knows the passphrase.
        let flash = FileFlash::new(device(), geometry).expect("a medium");
        let slot = NewSlot { passphrase: b"x", cost, kdf: &mut kdf, device: None, random: &mut random };
        let mut key = FlashKey::empty();
        FlashHeader::format(flash, vec![0; 512], &options, slot, &mut key).expect("a header");
        let before = std::fs::read(&path).expect("read");
        let volume = || open(device()).expect("a header");
        assert_eq!(make_sealed(volume(), &key).map(drop).expect_err("refused"), refused);
        assert_eq!(open_without_freshness(volume(), &key, false).map(drop).expect_err("refused"), refused);
        let store = TrustedFile::open_or_new(directory.path("store")).expect("a place");
        assert_eq!(open_sealed(volume(), &key, store).map(drop).expect_err("refused"), refused);
        assert!(std::fs::read(&path).expect("read") == before, "nothing was written");
    }

    #[test]
    fn blocks_are_numbered_from_the_first_of_the_medium() {
        let cause = told_cause(FlashCause::Tampered { block: 3, unit: 1 }, 2);
        assert_eq!(cause, FlashCause::Tampered { block: 5, unit: 1 });
        let bad = SealedError::Medium(FlashCause::BadBlock { block: 3 });
        assert_eq!(told(bad, 2), SealedError::Medium(FlashCause::BadBlock { block: 5 }));
        assert_eq!(told(SealedError::KeyInUse { block: 3 }, 2), SealedError::KeyInUse { block: 5 });
        assert_eq!(told(SealedError::WornOut, 2), SealedError::WornOut);
    }
}
