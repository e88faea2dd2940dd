//! A log on the medium itself, for which a counter vouches that can only rise. docs/SEALED-FLASH.md has why it holds.

use core::fmt;

use atrest_device::{
    FlashCause, FlashDevice, FlashError, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError,
};

use crate::sealed::SealedKey;
use crate::sealed::keys::{self, Prf};

/// Bytes of an entry in the log of a [`CounterStore`].
pub const ENTRY_LEN: usize = SIGNED + TAG;

/// Record and number.
const SIGNED: usize = TRUSTED_RECORD_LEN + 8;
const TAG: usize = 16;

/// A number that nobody can lower: of a secure element, a TPM, an eMMC's protected partition, a row of fuses.
pub trait MonotonicCounter {
    /// What it shows.
    fn value(&mut self) -> Result<u64, TrustedStoreError>;

    /// Adds one, and returns when that is durable. A power loss leaves the old value or the new one, and whichever is read then
    /// stays.
    fn increment(&mut self) -> Result<(), TrustedStoreError>;
}

/// A [`TrustedStore`] of which nothing is trusted but a [`MonotonicCounter`] that nothing else increments. The records lie in the first two
/// erase blocks of any flash, that of the volume for instance: in entries of 64 bytes, rounded up to prog units, one behind
/// the other; when a block is full the other one is erased. `N` is at least that many bytes.
///
/// A record takes one increment, and every [`load`](TrustedStore::load) two.
pub struct CounterStore<C, D, const N: usize = ENTRY_LEN> {
    counter: C,
    log: D,
    key: Prf,
    /// Where the next entry goes: block and index in it.
    next: (u64, u32),
    /// What the counter shows, if it was us who incremented it to that: nobody has written for its next value then.
    own: Option<u64>,
    /// Whether there has been a record since this was made.
    seen: bool,
}

type Record = [u8; TRUSTED_RECORD_LEN];

/// What is found in the log.
enum Found {
    /// The one record that counts.
    Record(Record),
    /// None, and there may never have been one.
    Nothing,
    /// None, but something else.
    Damaged,
}

impl<C: MonotonicCounter, D: FlashDevice, const N: usize> CounterStore<C, D, N> {
    /// Reads nothing yet. The key is that of the volume.
    pub fn new(log: D, counter: C, key: &SealedKey<'_>) -> Result<Self, TrustedStoreError> {
        let store = Self { counter, log, key: keys::log(key), next: (0, 0), own: None, seen: false };
        let (stride, geometry) = (store.stride(), store.log.geometry());
        if (N as u64) < u64::from(stride) {
            return Err(TrustedStoreError::TooSmall { needs: stride, has: N as u64 });
        }
        if store.per_block() == 0 || geometry.block_count() < 2 {
            let needs = stride.saturating_mul(2);
            return Err(TrustedStoreError::TooSmall { needs, has: geometry.size() });
        }
        Ok(store)
    }

    /// Log and counter back.
    pub fn into_parts(self) -> (D, C) {
        (self.log, self.counter)
    }

    /// Bytes from one entry to the next.
    fn stride(&self) -> u32 {
        let prog = self.log.geometry().prog_size();
        (ENTRY_LEN as u32).checked_next_multiple_of(prog).unwrap_or(u32::MAX)
    }

    fn per_block(&self) -> u32 {
        self.log.geometry().erase_size().checked_div(self.stride()).unwrap_or(0)
    }

    fn address(&self, block: u64, index: u32) -> u64 {
        let start = block.saturating_mul(self.log.geometry().erase_size().into());
        start.saturating_add(u64::from(index).saturating_mul(self.stride().into()))
    }

    /// Looks for the record that counts while the counter shows `number`, and for the place behind everything in its block.
    fn look(&mut self, number: u64) -> Result<Found, TrustedStoreError> {
        let (mut found, mut free) = (None, [0, 0]);
        for (block, free) in (0..2).zip(&mut free) {
            for index in 0..self.per_block() {
                let mut bytes = [0; N];
                let cell = self.read(block, index, &mut bytes)?;
                let erased = self.log.erased_byte().unwrap_or(0xff);
                if cell.is_some_and(|cell| cell.iter().all(|byte| *byte == erased)) {
                    continue;
                }
                *free = index.saturating_add(1);
                let entry = cell.and_then(|cell| cell.first_chunk());
                if let Some(record) = entry.and_then(|entry| self.open(entry, number)) {
                    found = Some((block, record));
                }
            }
        }
        let [first, second] = free;
        let Some((block, record)) = found else {
            self.next = if free == [0, 0] { (0, 0) } else { (1, u32::MAX) };
            // A first record that was cut is none.
            return Ok(if first <= 1 && second <= 1 { Found::Nothing } else { Found::Damaged });
        };
        self.next = (block, if block == 0 { first } else { second });
        Ok(Found::Record(record))
    }

    /// What stands in a place; none if the medium's own code refuses to read it.
    fn read<'a>(
        &mut self,
        block: u64,
        index: u32,
        bytes: &'a mut [u8; N],
    ) -> Result<Option<&'a [u8]>, TrustedStoreError> {
        let (address, stride) = (self.address(block, index), self.stride());
        let cell = bytes.get_mut(..stride as usize).unwrap_or_default();
        match self.log.read(address, cell) {
            Ok(()) => Ok(Some(cell)),
            Err(FlashError { cause: FlashCause::Uncorrectable | FlashCause::BadBlock { .. }, .. }) => {
                Ok(None)
            }
            Err(error) => Err(super::failed(error)),
        }
    }

    /// Writes a record for the next value of the counter, reads it back, and increments the counter.
    fn put(&mut self, record: &Record, shown: u64) -> Result<u64, TrustedStoreError> {
        // Whatever comes of this, nothing else is ever written for that value: the next attempt claims another one first.
        self.own = None;
        let number = shown.checked_add(1).ok_or(TrustedStoreError::WornOut)?;
        let (mut block, mut index) = self.next;
        if index >= self.per_block() {
            (block, index) = (u64::from(block == 0), 0);
            let erase_size = self.log.geometry().erase_size();
            self.log.erase(self.address(block, 0), erase_size.into()).map_err(super::failed)?;
        }
        self.next = (block, index.saturating_add(1));
        let (entry, mut bytes) = (self.seal(record, number), [0; N]);
        bytes.iter_mut().zip(entry).for_each(|(to, from)| *to = from);
        let cell = bytes.get(..self.stride() as usize).unwrap_or_default();
        self.log.prog(self.address(block, index), cell).map_err(super::failed)?;
        self.log.sync().map_err(super::failed)?;
        // The entry for the present value does not count any more in a moment.
        if self.read(block, index, &mut bytes)?.and_then(|cell| cell.first_chunk()) != Some(&entry) {
            return Err(TrustedStoreError::Damaged);
        }
        self.counter.increment()?;
        if self.counter.value()? != number {
            return Err(TrustedStoreError::Busy);
        }
        (self.own, self.seen) = (Some(number), true);
        Ok(number)
    }

    fn seal(&self, record: &Record, number: u64) -> [u8; ENTRY_LEN] {
        let number = number.to_le_bytes();
        let tag = self.key.tag(&[record, &number]);
        let mut entry = [0; ENTRY_LEN];
        entry.iter_mut().zip(record.iter().chain(&number).chain(&tag)).for_each(|(to, from)| *to = *from);
        entry
    }

    fn open(&self, entry: &[u8; ENTRY_LEN], number: u64) -> Option<Record> {
        let (record, rest) = entry.split_first_chunk()?;
        let (found, tag) = rest.split_first_chunk::<8>()?;
        let good = u64::from_le_bytes(*found) == number
            && atrest_secret::constant_time_eq(&self.key.tag(&[record, found]), tag);
        good.then_some(*record)
    }
}

impl<C: MonotonicCounter, D: FlashDevice, const N: usize> TrustedStore for CounterStore<C, D, N> {
    /// What counts; from now on it alone does. Written again under the next number first, and after that nobody else can have written for
    /// the number behind; then under that one.
    fn load(&mut self) -> Result<Option<Record>, TrustedStoreError> {
        self.own = None;
        let shown = self.counter.value()?;
        let record = match self.look(shown)? {
            Found::Record(record) => record,
            Found::Nothing => return Ok(None),
            Found::Damaged => return Err(TrustedStoreError::Damaged),
        };
        self.seen = true;
        let claimed = self.put(&record, shown)?;
        self.put(&record, claimed)?;
        Ok(Some(record))
    }

    fn store(&mut self, record: &Record) -> Result<(), TrustedStoreError> {
        let shown = match self.own {
            Some(shown) => shown,
            None => self.claim()?,
        };
        self.put(record, shown).map(|_| ())
    }
}

impl<C: MonotonicCounter, D: FlashDevice, const N: usize> CounterStore<C, D, N> {
    /// Makes the next number ours: what counts now goes on to do so under it.
    fn claim(&mut self) -> Result<u64, TrustedStoreError> {
        let shown = self.counter.value()?;
        if let Found::Record(record) = self.look(shown)? {
            return self.put(&record, shown);
        }
        if self.seen {
            // What there was is gone: to increment the counter would lose it for good.
            return Err(TrustedStoreError::Damaged);
        }
        let number = shown.checked_add(1).ok_or(TrustedStoreError::WornOut)?;
        self.counter.increment()?;
        if self.counter.value()? == number { Ok(number) } else { Err(TrustedStoreError::Busy) }
    }
}

impl<C, D, const N: usize> fmt::Debug for CounterStore<C, D, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CounterStore")
            .field("next", &self.next)
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}
