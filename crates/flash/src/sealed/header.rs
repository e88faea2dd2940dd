//! The header under the record: a volume opens with the header that its store names, and with no older one.
//!
//! The header itself is not sealed: keyslots have to be read before there is a key. So the record has a digest of it. While a header is
//! being replaced the record has two, of the header that stands and of the one that comes: wherever power fails, the medium holds one of
//! them. docs/SEALED-FLASH.md, "The header".

use atrest_device::TrustedStore;

use super::error::SealedError;
use super::record::Stored;
use super::serial::SERIAL_END;
use crate::header::{AnchorError, AnchorHeader, DIGEST_LEN, FoundHeader, HeaderMark};

/// What a record says of the header. All zeros: the volume has none, and its key comes from somewhere else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnchoredHeader {
    /// Of the header that stands.
    pub(crate) sequence: u64,
    pub(crate) digest: [u8; DIGEST_LEN],
    /// Of the header that may stand as well: the one that comes, or the same again.
    pub(crate) next: [u8; DIGEST_LEN],
}

impl AnchoredHeader {
    /// Only this one.
    pub(crate) fn settled(found: Option<FoundHeader>) -> Result<Self, SealedError> {
        let Some(FoundHeader { mark, .. }) = found else { return Ok(Self::default()) };
        if mark.sequence >= SERIAL_END {
            return Err(SealedError::WornOut);
        }
        Ok(Self { sequence: mark.sequence, digest: mark.digest, next: mark.digest })
    }

    /// What a record is to say after an opening with this header.
    ///
    /// # Errors
    /// If it is not one of those that the record allows.
    pub(crate) fn after(self, found: Option<FoundHeader>) -> Result<Self, SealedError> {
        let other = |found| SealedError::HeaderOther { anchored: self.sequence, found };
        let Some(found) = found else {
            return if self == Self::default() { Ok(self) } else { Err(other(0)) };
        };
        let FoundHeader { mark, in_both } = found;
        if mark.digest != self.digest && mark.digest != self.next {
            return Err(match mark.sequence < self.sequence {
                true => SealedError::HeaderOlder { anchored: self.sequence, found: mark.sequence },
                false => other(mark.sequence),
            });
        }
        // As long as the copies differ either may be what is read next time.
        if in_both { Self::settled(Some(found)) } else { Ok(self) }
    }
}

/// Anchors a header that is being replaced. The volume is not open meanwhile: an open one would write over what is anchored.
#[derive(Debug)]
pub struct HeaderAnchor<S>(S);

impl<S: TrustedStore> HeaderAnchor<S> {
    /// In the store of the volume.
    pub const fn new(store: S) -> Self {
        Self(store)
    }

    /// The store back.
    pub fn into_store(self) -> S {
        self.0
    }

    /// Looks whether the header that stands is anchored. Nothing is written.
    ///
    /// # Errors
    /// [`SealedError::HeaderOlder`], [`SealedError::HeaderOther`] or [`SealedError::HandedOver`] if it is not
    /// anchored here. [`SealedError::StoreEmpty`], [`SealedError::Store`], or another version's record if the
    /// store can't tell.
    pub fn check(&mut self, present: FoundHeader) -> Result<(), SealedError> {
        load(&mut self.0)?.header.after(Some(present)).map(drop)
    }

    /// Anchors the header that stands, if both copies hold it: no change is under way any more.
    ///
    /// # Errors
    /// Fails where [`check`](Self::check) does, or with [`SealedError::Store`] if the store can't be written.
    /// Nothing has changed then.
    pub fn confirm(&mut self, present: FoundHeader) -> Result<(), SealedError> {
        let mut stored = load(&mut self.0)?;
        let header = stored.header.after(Some(present))?;
        if header == stored.header {
            return Ok(());
        }
        stored.header = header;
        self.0.store(&stored.to_bytes()).map_err(SealedError::Store)
    }

    /// Anchors the header that stands, whatever was anchored before: its owner has said so. Passphrases that were removed may open the volume
    /// again.
    ///
    /// # Errors
    /// [`SealedError::StoreEmpty`] or [`SealedError::Store`] if there is no record, or the store fails,
    /// [`SealedError::HandedOver`] if another store has the volume. [`SealedError::WornOut`] if the header's
    /// number is too large.
    pub fn adopt(&mut self, present: FoundHeader) -> Result<(), SealedError> {
        let stored = load(&mut self.0)?;
        let header = AnchoredHeader::settled(Some(present))?;
        self.0.store(&Stored { header, ..stored }.to_bytes()).map_err(SealedError::Store)
    }

    fn allow_both(&mut self, present: FoundHeader, next: HeaderMark) -> Result<(), SealedError> {
        let mut stored = load(&mut self.0)?;
        let allowed = stored.header.after(Some(present))?;
        if next.sequence >= SERIAL_END {
            return Err(SealedError::WornOut);
        }
        stored.header = AnchoredHeader {
            sequence: allowed.sequence.max(present.mark.sequence),
            digest: present.mark.digest,
            next: next.digest,
        };
        self.0.store(&stored.to_bytes()).map_err(SealedError::Store)
    }
}

impl<S: TrustedStore> AnchorHeader for HeaderAnchor<S> {
    fn announce(&mut self, present: FoundHeader, next: HeaderMark) -> Result<(), AnchorError> {
        self.allow_both(present, next).map_err(told)
    }

    fn settle(&mut self, present: FoundHeader) -> Result<(), AnchorError> {
        self.confirm(present).map_err(told)
    }

    #[cfg(feature = "rotate")]
    fn needs_previous_key(&mut self) -> Result<bool, AnchorError> {
        Ok(load(&mut self.0).map_err(told)?.record.rotation.from != 0)
    }
}

/// Hands a volume over from one store to another, with a change of its header: the anchor for that change.
///
/// The new store names the next header alone, the old one the present one alone. So the volume goes over at one moment, when the first copy of
/// the next header is whole: before it opens with the old store only, after it with the new one only. Copies of the old store are void,
/// too. The next header must be one that nobody has made before, as with [`change_key`](crate::FlashHeader::change_key), which draws a salt.
#[derive(Debug)]
pub struct HandOver<O, N> {
    old: O,
    new: N,
}

impl<O: TrustedStore, N: TrustedStore> HandOver<O, N> {
    /// From the store of the volume to an empty one.
    pub const fn new(old: O, new: N) -> Self {
        Self { old, new }
    }

    /// Both stores back, the old one first.
    pub fn into_stores(self) -> (O, N) {
        (self.old, self.new)
    }

    /// Makes the old store void, if the new one names the header that stands. Whoever finds a hand-over interrupted calls this.
    ///
    /// # Errors
    /// [`SealedError::HeaderOlder`] or [`SealedError::HeaderOther`] if the new store names another header:
    /// the volume still belongs to the old one. [`SealedError::Store`] or [`SealedError::StoreEmpty`] if a
    /// store fails or is empty.
    pub fn finish(&mut self, present: FoundHeader) -> Result<(), SealedError> {
        let _allowed = load(&mut self.new)?.header.after(Some(present))?;
        let stored = match load(&mut self.old) {
            Err(SealedError::HandedOver { .. }) => return Ok(()),
            stored => stored?,
        };
        let void = stored.handed_over(present.mark.sequence);
        self.old.store(&void).map_err(SealedError::Store)
    }

    fn prepare(&mut self, present: FoundHeader, next: HeaderMark) -> Result<(), SealedError> {
        let stored = load(&mut self.old)?;
        let _allowed = stored.header.after(Some(present))?;
        match load(&mut self.new) {
            Err(SealedError::StoreEmpty) => {}
            // Of an attempt that was interrupted. The volume was not used since, so that nothing is lost.
            Ok(held) if (held.record, held.tag) == (stored.record, stored.tag) => {}
            Ok(_) => return Err(SealedError::StoreInUse),
            Err(error) => return Err(error),
        }
        let header = AnchoredHeader::settled(Some(FoundHeader { mark: next, in_both: true }))?;
        self.new.store(&Stored { header, ..stored }.to_bytes()).map_err(SealedError::Store)
    }
}

impl<O: TrustedStore, N: TrustedStore> AnchorHeader for HandOver<O, N> {
    fn announce(&mut self, present: FoundHeader, next: HeaderMark) -> Result<(), AnchorError> {
        self.prepare(present, next).map_err(told)
    }

    fn settle(&mut self, present: FoundHeader) -> Result<(), AnchorError> {
        self.finish(present).map_err(told)
    }
}

fn load(store: &mut impl TrustedStore) -> Result<Stored, SealedError> {
    let bytes = store.load().map_err(SealedError::Store)?.ok_or(SealedError::StoreEmpty)?;
    Stored::from_bytes(&bytes)
}

/// For those who know nothing of sealed volumes.
fn told(error: SealedError) -> AnchorError {
    match error {
        SealedError::Store(error) => AnchorError::Store(error),
        SealedError::StoreEmpty => AnchorError::Empty,
        SealedError::StoreInUse => AnchorError::InUse,
        SealedError::HandedOver { header } => AnchorError::HandedOver { header },
        SealedError::HeaderOlder { anchored, found } => AnchorError::Older { anchored, found },
        SealedError::HeaderOther { anchored, found } => AnchorError::Other { anchored, found },
        SealedError::WornOut => AnchorError::WornOut,
        _ => AnchorError::Version,
    }
}
