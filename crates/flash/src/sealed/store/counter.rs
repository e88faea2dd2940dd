//! A log on the medium itself, for which a counter vouches that can only rise. docs/SEALED-FLASH.md has why it holds.

use core::fmt;

use atrest_codec::{Le, decode, encode};
use atrest_device::{TRUSTED_RECORD_LEN, TrustedStoreError};

use super::log::{Contents, Log};
use super::{FlashDevice, TrustedStore, twin};
use crate::sealed::SealedKey;
use crate::sealed::keys::{self, Prf};

/// Bytes of an entry in the log of a [`CounterStore`].
pub const ENTRY_LEN: usize = SIGNED + TAG;

/// Record and number.
const SIGNED: usize = TRUSTED_RECORD_LEN + 8;
const TAG: usize = 16;

/// A number that nobody can lower, and whose answers nobody can forge or put back: of a secure element, a TPM, an eMMC's protected
/// partition, a row of fuses.
///
/// All that a [`CounterStore`] says rests on what `value` returns. If the counter is in the controller itself, reading it is enough. If
/// there is a bus between, whoever can change transfers shows an old value with an old medium, and everything is put back
/// unseen. Then the implementation authenticates each answer and makes sure that it is new: a challenge drawn for
/// this very call and a MAC over challenge and value under a key shared with the part (an eMMC's authenticated read, a TPM
/// session with HMAC, a secure element's MAC command). Plain reads of such parts do not keep this contract.
#[twin]
#[allow(async_fn_in_trait, reason = "executors of microcontrollers have one thread")]
pub trait MonotonicCounter {
    /// What it shows. An answer that is not authentic and fresh is an error, never a value.
    ///
    /// # Errors
    /// [`TrustedStoreError`] if there is no answer, or none that is authentic and fresh.
    async fn value(&mut self) -> Result<u64, TrustedStoreError>;

    /// Adds one, and returns when that is durable. A power loss leaves the old value or the new one, and whichever is read then
    /// stays; an error, too. A counter that is used up answers [`WornOut`](TrustedStoreError::WornOut) for ever.
    ///
    /// # Errors
    /// [`TrustedStoreError::WornOut`] if the counter is used up, another one if the part fails. The counter
    /// may have gone up all the same.
    async fn increment(&mut self) -> Result<(), TrustedStoreError>;
}

/// A [`TrustedStore`] of which nothing is trusted but a [`MonotonicCounter`] that nothing else increments. The records lie in all erase
/// blocks of any flash, two at least, a part of that of the volume for instance: in entries of 104 bytes, rounded up to prog units, one behind
/// the other; when a block is full the next one is erased. `N` is at least that many bytes. What can't be written in one place goes to
/// another; it takes three blocks to survive that one goes bad.
///
/// A record takes one increment, the first after [`load`](TrustedStore::load) and every [`claim`](TrustedStore::claim) two. When the counter is used up, or the log worn out, nothing is stored
/// any more, which is [`WornOut`](TrustedStoreError::WornOut), and the volume opens without freshness only, as each opening takes two
/// increments: copy it to a new one before.
///
/// Whoever can write the log can make it blank: that [`load`](TrustedStore::load) returns none is no proof that nothing was ever stored.
pub struct CounterStore<C, D, const N: usize = ENTRY_LEN> {
    counter: C,
    log: Log<D, N>,
    key: Prf,
    /// What the counter shows, if it was us who incremented it to that: nobody has written for its next value then.
    own: Option<u64>,
    /// What counts.
    held: Option<Entry>,
    /// What was written last, and may count.
    written: Option<Entry>,
}

type Record = [u8; TRUSTED_RECORD_LEN];

/// A record that counts while the counter shows a number, and the block of the log that holds it.
#[derive(Clone, Copy)]
struct Entry {
    number: u64,
    record: Record,
    block: u64,
}

#[twin]
impl<C: MonotonicCounter, D: FlashDevice, const N: usize> CounterStore<C, D, N> {
    /// Reads nothing yet. The key is that of the volume; one that was never filled in is refused.
    ///
    /// # Errors
    /// [`TrustedStoreError::NoKey`] if the key was not filled in, [`TrustedStoreError::TooSmall`] if `log`
    /// has fewer than two blocks or none that holds an entry, or `N` is too small.
    pub fn new(log: D, counter: C, key: &SealedKey<'_>) -> Result<Self, TrustedStoreError> {
        if !key.is_filled_in() {
            return Err(TrustedStoreError::NoKey);
        }
        let (log, key) = (Log::new(log, ENTRY_LEN)?, keys::log(key));
        Ok(Self { counter, log, key, own: None, held: None, written: None })
    }

    /// Makes the log blank, if no record counts that lies there: on a card, or on a chip that held something else or has a bad block from
    /// the start, a volume can be made then, with this very object: what stands in a block that can't be erased or read is taken for nothing
    /// until the first record is written, by nobody else. Two blocks have to be good. If a record counts nothing is changed. Not for
    /// opening: what was damaged is lost for good.
    ///
    /// # Errors
    /// The errors of the counter. The log's last one, if fewer than two of its blocks can be made blank.
    pub async fn prepare(&mut self) -> Result<(), TrustedStoreError> {
        let shown = self.counter.value().await?;
        match self.look(shown).await? {
            Contents::Found(_) => Ok(()),
            Contents::Nothing | Contents::Other => self.log.clear().await,
        }
    }

    /// Log and counter back.
    pub fn into_parts(self) -> (D, C) {
        (self.log.into_device(), self.counter)
    }

    /// Looks for the record that counts while the counter shows `number`.
    async fn look(&mut self, number: u64) -> Result<Contents, TrustedStoreError> {
        (self.own, self.held, self.written) = (None, None, None);
        let (key, mut found) = (&self.key, None);
        let contents = self
            .log
            .look(|cell| {
                let record = cell.first_chunk().and_then(|entry| open(key, entry, number));
                found = record.or(found);
                record.is_some()
            })
            .await?;
        if let (Contents::Found(block), Some(record)) = (contents, found) {
            self.held = Some(Entry { number, record, block });
        }
        Ok(contents)
    }

    /// Writes a record for the next value of the counter and increments the counter.
    async fn put(&mut self, record: &Record, shown: u64) -> Result<u64, TrustedStoreError> {
        // Whatever comes of this, nothing else is ever written for that value: the next attempt claims another one first.
        self.own = None;
        if self.counter.value().await? != shown {
            return Err(TrustedStoreError::Busy);
        }
        let number = shown.checked_add(1).ok_or(TrustedStoreError::WornOut)?;
        let entry = seal(&self.key, record, number);
        // What counts now has to stay until the counter says otherwise.
        let block = self.log.append(&entry, self.held.map(|held| held.block)).await?;
        self.written = Some(Entry { number, record: *record, block });
        self.step(number).await?;
        self.held = self.written;
        Ok(number)
    }

    /// Increments the counter to `number`.
    async fn step(&mut self, number: u64) -> Result<(), TrustedStoreError> {
        self.counter.increment().await?;
        if self.counter.value().await? != number {
            return Err(TrustedStoreError::Busy);
        }
        self.own = Some(number);
        Ok(())
    }

    /// Makes the next number ours: what counts now goes on to do so under it.
    async fn claim_once(&mut self) -> Result<u64, TrustedStoreError> {
        let shown = self.counter.value().await?;
        let mut known = [self.held, self.written].into_iter().flatten();
        self.held = match known.find(|entry| entry.number == shown) {
            Some(entry) => Some(entry),
            // Somebody else has incremented the counter.
            None if self.held.is_some() => return Err(TrustedStoreError::Busy),
            None => {
                self.look(shown).await?;
                self.held
            }
        };
        if let Some(held) = self.held {
            return self.put(&held.record, shown).await;
        }
        let number = shown.checked_add(1).ok_or(TrustedStoreError::WornOut)?;
        self.step(number).await.map(|()| number)
    }
}

#[twin]
impl<C: MonotonicCounter, D: FlashDevice, const N: usize> TrustedStore for CounterStore<C, D, N> {
    async fn load(&mut self) -> Result<Option<Record>, TrustedStoreError> {
        let shown = self.counter.value().await?;
        match self.look(shown).await? {
            Contents::Found(_) => Ok(self.held.map(|held| held.record)),
            Contents::Nothing => Ok(None),
            Contents::Other => Err(TrustedStoreError::Damaged),
        }
    }

    /// Written again under the next number first: after that nobody else can have written for the number behind. Then under that one.
    async fn claim(&mut self) -> Result<(), TrustedStoreError> {
        for _ in 0..2 {
            let held = self.held.ok_or(TrustedStoreError::Damaged)?;
            self.put(&held.record, held.number).await?;
        }
        Ok(())
    }

    async fn store(&mut self, record: &Record) -> Result<(), TrustedStoreError> {
        let shown = match self.own {
            Some(shown) => shown,
            None => self.claim_once().await?,
        };
        self.put(record, shown).await.map(|_| ())
    }

    /// Each record takes an increment or more.
    async fn stored_at_most(&mut self) -> Result<Option<u64>, TrustedStoreError> {
        match self.own {
            Some(shown) => Ok(Some(shown)),
            None => self.counter.value().await.map(Some),
        }
    }
}

fn seal(key: &Prf, record: &Record, number: u64) -> [u8; ENTRY_LEN] {
    let tag = key.tag(&[record, &number.to_le_bytes()]);
    encode((*record, Le(number), tag))
}

fn open(key: &Prf, entry: &[u8; ENTRY_LEN], number: u64) -> Option<Record> {
    let (record, Le(found), tag): (Record, Le<u64>, [u8; TAG]) = decode(entry);
    let good =
        found == number && atrest_secret::constant_time_eq(&key.tag(&[&record, &found.to_le_bytes()]), &tag);
    good.then_some(record)
}

impl<C, D, const N: usize> fmt::Debug for CounterStore<C, D, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CounterStore").field("own", &self.own).finish_non_exhaustive()
    }
}
