//! The records of all parts: entries of a log on the chip, of which the one that counts is named by the record in the store.
//!
//! An entry is programmed and synced before the store names it, and it stays where it is until the store names the next one. So the
//! store's own promise, "the old one or the new one", holds for the records of all parts at once.

use atrest_codec::{Le, decode, encode};
use atrest_device::{
    FlashCause, FlashDevice, FlashError, FlashGeometry, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError,
};
use atrest_kdf::Prf;
use atrest_secret::constant_time_eq;

type Record = [u8; TRUSTED_RECORD_LEN];

/// What stands in the store: mark, version, parts, number of the entry, its HMAC, zeros.
type Root = ([u8; 2], [u8; 1], [u8; 1], Le<u64>, [u8; 32], [u8; 36]);

/// None that a sealed volume alone writes: it takes it for one of a later version.
const VERSION: u8 = 129;
/// Bytes of an entry before the records: its number.
const NUMBER_LEN: usize = 8;
/// A part that has never stored a record.
const NONE: Record = [0; TRUSTED_RECORD_LEN];
const MAC_LABEL: &[u8] = b"atrest sealed parts 1";

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    block: u64,
    entry: u32,
}

pub(super) struct Records<S, B, const P: usize> {
    store: S,
    buffer: B,
    mac: Prf,
    mark: [u8; 2],
    /// First block of the log, and blocks in it.
    first: u64,
    blocks: u64,
    /// Bytes of an entry, whole prog units.
    len: u32,
    entries: u32,
    erase_size: u32,
    /// What the store named when it was last looked at. None before that, and after anything that leaves it unknown.
    known: Option<Known<P>>,
    /// Where the next entry goes, if that is blank.
    next: Option<Place>,
}

#[derive(Clone, Copy)]
struct Known<const P: usize> {
    root: Option<Record>,
    number: u64,
    records: [Record; P],
    place: Option<Place>,
}

/// Bytes of an entry, if it fits into an erase block.
pub(super) fn entry_len(geometry: &FlashGeometry, parts: usize) -> Option<u32> {
    let len = parts.checked_mul(TRUSTED_RECORD_LEN)?.checked_add(NUMBER_LEN)?;
    let len = u32::try_from(len).ok()?.checked_next_multiple_of(geometry.prog_size())?;
    (len <= geometry.erase_size()).then_some(len)
}

impl<S: TrustedStore, B: AsMut<[u8]>, const P: usize> Records<S, B, P> {
    /// The log takes all blocks from `first` on. It was found to have room, and the buffer to be large enough for an entry of `len` bytes.
    pub(super) fn new(
        store: S,
        buffer: B,
        extracted: &Prf,
        first: u64,
        len: u32,
        geometry: &FlashGeometry,
    ) -> Self {
        let mac = Prf::new(&extracted.expand::<32>(&[MAC_LABEL, &[P as u8], &(first as u32).to_le_bytes()]));
        let [one, two, ..] = mac.tag(&[]);
        let erase_size = geometry.erase_size();
        Self {
            store,
            buffer,
            mac,
            mark: [one, two],
            first,
            // cannot underflow: the log lies on the chip.
            blocks: geometry.block_count().saturating_sub(first),
            len,
            // cannot be zero: an entry has a number and records.
            entries: erase_size.checked_div(len).unwrap_or(0),
            erase_size,
            known: None,
            next: None,
        }
    }

    pub(super) fn store(&mut self) -> &mut S {
        &mut self.store
    }

    pub(super) fn into_store(self) -> S {
        self.store
    }

    /// The record of a part.
    pub(super) fn load(
        &mut self,
        device: &mut impl FlashDevice,
        part: usize,
    ) -> Result<Option<Record>, TrustedStoreError> {
        let known = self.look(device)?;
        Ok(known.records.get(part).copied().filter(|record| *record != NONE))
    }

    /// Stores the record of a part, and those of the others as they were.
    pub(super) fn put(
        &mut self,
        device: &mut impl FlashDevice,
        part: usize,
        record: &Record,
    ) -> Result<(), TrustedStoreError> {
        let before = match self.known {
            Some(known) => known,
            None => self.look(device)?,
        };
        let number = before.number.checked_add(1).ok_or(TrustedStoreError::WornOut)?;
        let mut records = before.records;
        *records.get_mut(part).ok_or(TrustedStoreError::Driver(-1))? = *record;
        let place = self.append(device, number, &records, before.place)?;
        device.sync().map_err(driver)?;
        let root = self.root(number, &records);
        // Whatever comes of this, the store is looked at before anything is written over.
        self.known = None;
        self.store.store(&root)?;
        self.known = Some(Known { root: Some(root), number, records, place: Some(place) });
        Ok(())
    }

    /// What the store names now.
    fn look(&mut self, device: &mut impl FlashDevice) -> Result<Known<P>, TrustedStoreError> {
        let root = self.store.load()?;
        if let Some(known) = self.known.filter(|known| known.root == root) {
            return Ok(known);
        }
        let known = match root {
            None => Known { root, number: 0, records: [NONE; P], place: None },
            Some(bytes) => self.find(device, &bytes)?,
        };
        self.known = Some(known);
        Ok(known)
    }

    /// The entry that a record of the store names.
    fn find(&mut self, device: &mut impl FlashDevice, root: &Record) -> Result<Known<P>, TrustedStoreError> {
        let (mark, [version], [parts], Le(number), _, _): Root = decode(root);
        // Saves a search: no entry has the HMAC of another one's.
        if mark != self.mark || version != VERSION || usize::from(parts) != P {
            return Err(TrustedStoreError::Damaged);
        }
        for block in 0..self.blocks {
            for entry in 0..self.entries {
                let place = Place { block, entry };
                let Some((found, records)) = self.read(device, place)? else { continue };
                // The number saves time: the HMAC is over it as well.
                if found == number && constant_time_eq(&self.root(number, &records), root) {
                    self.next = self.after(place);
                    return Ok(Known { root: Some(*root), number, records, place: Some(place) });
                }
            }
        }
        Err(TrustedStoreError::Damaged)
    }

    /// Programs an entry where nothing is lost by it, and reads it back.
    fn append(
        &mut self,
        device: &mut impl FlashDevice,
        number: u64,
        records: &[Record; P],
        current: Option<Place>,
    ) -> Result<Place, TrustedStoreError> {
        let kept = current.map(|place| place.block);
        if let Some(place) = self.next.take()
            && self.is_blank(device, place)?
            && self.write(device, place, number, records).is_ok()
        {
            self.next = self.after(place);
            return Ok(place);
        }
        // Each block but the one with the entry that counts, the one behind that first.
        let start = kept.map_or(0, |block| block.saturating_add(1)); // cannot overflow: blocks of a chip
        for step in 0..self.blocks {
            let block = start.saturating_add(step).checked_rem(self.blocks).unwrap_or(0); // cannot overflow: as before
            let place = Place { block, entry: 0 };
            if Some(block) == kept || device.erase(self.address(place), self.erase_size.into()).is_err() {
                continue;
            }
            if self.write(device, place, number, records).is_ok() {
                self.next = self.after(place);
                return Ok(place);
            }
        }
        Err(TrustedStoreError::WornOut)
    }

    fn write(
        &mut self,
        device: &mut impl FlashDevice,
        place: Place,
        number: u64,
        records: &[Record; P],
    ) -> Result<(), TrustedStoreError> {
        let address = self.address(place);
        let bytes = used(&mut self.buffer, self.len);
        bytes.fill(0);
        let content = number.to_le_bytes().into_iter().chain(records.as_flattened().iter().copied());
        bytes.iter_mut().zip(content).for_each(|(to, from)| *to = from);
        device.prog(address, bytes).map_err(driver)?;
        match self.read(device, place)? {
            Some(read) if read == (number, *records) => Ok(()),
            _ => Err(TrustedStoreError::WornOut),
        }
    }

    /// What stands at a place, if it can be read.
    fn read(
        &mut self,
        device: &mut impl FlashDevice,
        place: Place,
    ) -> Result<Option<(u64, [Record; P])>, TrustedStoreError> {
        let address = self.address(place);
        let bytes = used(&mut self.buffer, self.len);
        match device.read(address, bytes) {
            Err(error) if error.cause == FlashCause::Uncorrectable => return Ok(None),
            done => done.map_err(driver)?,
        }
        let Some((number, rest)) = bytes.split_first_chunk::<NUMBER_LEN>() else { return Ok(None) };
        let mut records = [NONE; P];
        let to = records.as_flattened_mut();
        to.iter_mut().zip(rest.iter()).for_each(|(to, from)| *to = *from);
        Ok(Some((u64::from_le_bytes(*number), records)))
    }

    fn is_blank(&mut self, device: &mut impl FlashDevice, place: Place) -> Result<bool, TrustedStoreError> {
        let address = self.address(place);
        match device.is_blank(address, self.len.into(), used(&mut self.buffer, self.len)) {
            Err(error) if matches!(error.cause, FlashCause::Uncorrectable | FlashCause::Unsupported) => {
                Ok(false)
            }
            answer => answer.map_err(driver),
        }
    }

    fn root(&self, number: u64, records: &[Record; P]) -> Record {
        let mac = self.mac.whole(&[&number.to_le_bytes(), records.as_flattened()]);
        encode::<Root, TRUSTED_RECORD_LEN>((self.mark, [VERSION], [P as u8], Le(number), *mac, [0; 36]))
    }

    fn after(&self, place: Place) -> Option<Place> {
        let entry = place.entry.checked_add(1)?;
        (entry < self.entries).then_some(Place { entry, ..place })
    }

    fn address(&self, place: Place) -> u64 {
        // cannot overflow: the log lies on the chip, whose size fits.
        let block = self.first.saturating_add(place.block);
        let within = u64::from(place.entry).saturating_mul(self.len.into());
        block.saturating_mul(self.erase_size.into()).saturating_add(within)
    }
}

/// The part of the buffer that an entry takes.
fn used<B: AsMut<[u8]>>(buffer: &mut B, len: u32) -> &mut [u8] {
    // cannot be empty: the buffer was found to have room.
    buffer.as_mut().get_mut(..len as usize).unwrap_or(&mut [])
}

fn driver(error: FlashError) -> TrustedStoreError {
    match error.cause {
        FlashCause::Driver(code) => TrustedStoreError::Driver(code),
        _ => TrustedStoreError::Driver(-1),
    }
}
