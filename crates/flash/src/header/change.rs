//! Changes to the header. All work and all checks come first; then one copy, then the other.

use core::borrow::BorrowMut;

use atrest_device::FlashError;
use atrest_keyslot::flash::{
    Derive, Derived, DeviceSecret, FlashCipher, FlashKey, Freshness, HEADER_LEN, Header, HeaderEdit, KdfCost,
    Params, Protection, SLOTS, SlotBytes, SlotError, SlotKdf, check_passphrase, seal_slot,
};
use atrest_secret::Random;

use super::copies::Copies;
use super::{FlashDevice, FlashHeader};
use crate::header::{
    AnchorHeader, CopyState, FlashHeaderError, FoundHeader, HeaderMark, HeaderNotOpened, sizes_of,
};

/// What a new volume is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// Cipher of the data.
    pub cipher: FlashCipher,
    /// Bytes in the volume key.
    pub key_len: u8,
    /// Bytes under one tweak; of sealed media, bytes of content in a unit.
    pub data_unit: u32,
    /// Whether data is authenticated.
    pub protection: Protection,
    /// What to do with what is there.
    pub existing: Existing,
}

/// What formatting does with what it finds in the header's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Refuses unless the blocks are blank, or, on media that have no blank blocks, unless there is no header of ours.
    Refuse,
    /// Overwrites it. The keys of a volume that was there are gone for ever.
    Replace,
}

/// How a new keyslot is to open.
pub struct NewSlot<'a> {
    /// The passphrase, 1 to 4096 bytes.
    pub passphrase: &'a [u8],
    /// What deriving is to cost.
    pub cost: KdfCost,
    /// The program's derivations, of which `cost` names one.
    pub kdf: &'a mut dyn Derive,
    /// The chip's own secret, without which the keyslot is not to open.
    pub device: Option<&'a mut dyn DeviceSecret>,
    /// For salts, and for the key of a new volume.
    pub random: &'a mut dyn Random,
}

impl NewSlot<'_> {
    pub(super) fn seal(&mut self, params: &Params, key: &FlashKey) -> Result<SlotBytes, SlotError> {
        if !self.cost.is_acceptable() {
            return Err(SlotError::Cost(self.cost));
        }
        check_passphrase(self.passphrase)?;
        let kdf = SlotKdf::generate(self.cost, self.random)?;
        let mut derived = Derived::zeroed();
        kdf.derive(self.passphrase, self.kdf, &mut derived)?;
        let device: Option<&mut dyn DeviceSecret> = match &mut self.device {
            Some(device) => Some(&mut **device),
            None => None,
        };
        seal_slot(params, &kdf, &derived, device, key)
    }
}

impl<D: FlashDevice, B: AsMut<[u8]>> FlashHeader<D, B> {
    /// Makes a volume with one keyslot, number 0, and a fresh key, which `key` holds afterwards.
    ///
    /// Nothing is written before key, salt and wrapping are there. A power loss leaves what was there before, nothing, or the new volume.
    ///
    /// # Errors
    /// [`FlashHeaderError::ScratchTooSmall`] or [`FlashHeaderError::CutInSize`] if buffer or medium have no
    /// room, [`FlashHeaderError::Header`] if the options do not go together, [`FlashHeaderError::Slot`] if
    /// `first` can't be made, and [`FlashHeaderError::NotBlank`] if something is there that the options do
    /// not give up. Nothing was written then.
    ///
    /// Later only the medium can fail. After [`FlashHeaderError::NotDestroyed`] nothing new was written, and
    /// what was there may still open, or not. After [`FlashHeaderError::NotRewritten`] what was there is gone,
    /// and the new volume is in the other copy, or nowhere.
    pub fn format(
        device: D,
        scratch: B,
        options: &FormatOptions,
        first: NewSlot<'_>,
        key: &mut FlashKey,
    ) -> Result<Self, FlashHeaderError> {
        Self::try_format(device, scratch, options, first, key).map_err(FlashHeaderError::from)
    }

    /// Formats as [`format`](Self::format) does. If that fails, device and memory come back.
    ///
    /// # Errors
    /// [`HeaderNotOpened`], with the error of [`format`](Self::format).
    pub fn try_format(
        device: D,
        scratch: B,
        options: &FormatOptions,
        first: NewSlot<'_>,
        key: &mut FlashKey,
    ) -> Result<Self, HeaderNotOpened<D, B>> {
        key.clear();
        let mut copies = Copies::new(device, scratch)?;
        let mut bytes = [0; HEADER_LEN];
        match copies.make(&mut bytes, options, first, key) {
            Ok(()) => Ok(Self { copies, bytes, current: 0, states: [CopyState::Current; 2], in_step: true }),
            Err(error) => Err(copies.not_opened(error)),
        }
    }
}

impl<D: FlashDevice, B: AsMut<[u8]>> Copies<D, B> {
    /// Draws a volume key, and makes both copies a header that opens with `first`.
    fn make(
        &mut self,
        bytes: &mut [u8; HEADER_LEN],
        options: &FormatOptions,
        mut first: NewSlot<'_>,
        key: &mut FlashKey,
    ) -> Result<(), FlashHeaderError> {
        let copies = self;
        let order = match copies.load(bytes) {
            Ok((1, _)) => [0, 1],
            _ => [1, 0],
        };
        if options.existing == Existing::Refuse {
            for copy in 0..2 {
                // Where nobody can say what is blank, as on a card, only a header keeps its place.
                let is_free = copies.is_blank(copy)?.unwrap_or(true);
                if !is_free || copies.holds_a_header(copy, bytes)? {
                    return Err(FlashHeaderError::NotBlank);
                }
            }
        }
        let params = Params {
            cipher: options.cipher,
            key_len: options.key_len,
            protection: options.protection,
            uuid: fresh_uuid(first.random)?,
            sizes: sizes_of(copies.geometry()),
            data_unit: options.data_unit,
        };
        params.check().map_err(|error| FlashHeaderError::Header(error.into()))?;
        key.generate(&params, first.random)?;
        let slot = first.seal(&params, key).map_err(|error| FlashHeaderError::Slot { slot: 0, error })?;
        let mut edit = HeaderEdit::create(bytes, &params).map_err(FlashHeaderError::Header)?;
        let _exists = edit.put_slot(0, Some(&slot));
        edit.finish(1);
        // Both copies of what was there go before the first new one comes, so that no two volumes ever stand side by side; the
        // newer one goes last, so that keys that were removed from it do not come back.
        for copy in order {
            done(copies.destroy(copy)).map_err(|error| FlashHeaderError::NotDestroyed { copy, error })?;
        }
        for copy in [0, 1] {
            done(copies.replace(copy, bytes)).map_err(|error| FlashHeaderError::NotRewritten {
                copy,
                in_other: copy == 1,
                error,
            })?;
        }
        Ok(())
    }
}

/// The trusted store of a sealed volume, in the changes of its header; None of a volume that has none.
///
/// One that is passed is used, whatever the volume.
pub type Anchor<'a> = Option<&'a mut dyn AnchorHeader>;

impl<D: FlashDevice, B: AsMut<[u8]>, H: BorrowMut<[u8; HEADER_LEN]>> FlashHeader<D, B, H> {
    /// Adds a key: to keyslot `slot`, which is free, or to the first free one. Gives its number.
    ///
    /// # Errors
    /// [`FlashHeaderError::NoFreeSlot`], [`FlashHeaderError::SlotInUse`], or
    /// [`FlashHeaderError::SlotNotInUse`] for a number that no keyslot has. [`FlashHeaderError::Slot`] if
    /// `new` can't be made or `key` is of another volume, [`FlashHeaderError::AnchorNeeded`] for a sealed
    /// volume without `anchor`, [`FlashHeaderError::WornOut`] after 2^64 - 1 changes. Nothing has changed
    /// then.
    ///
    /// All changes of a header end alike. After [`FlashHeaderError::NotAnnounced`],
    /// [`FlashHeaderError::NotWritten`] or [`FlashHeaderError::Flash`] the old state holds. After
    /// [`FlashHeaderError::OldCopyRemains`] or [`FlashHeaderError::NotSettled`] the new one holds, but
    /// somebody can still bring the old one back. [`FlashHeaderError::Reopen`] comes after the first three.
    pub fn add_key(
        &mut self,
        slot: Option<usize>,
        key: &FlashKey,
        mut new: NewSlot<'_>,
        anchor: Anchor<'_>,
    ) -> Result<usize, FlashHeaderError> {
        let header = self.header()?;
        check_anchor(&header, &anchor)?;
        let number = match slot {
            Some(number) => number,
            None => (0..SLOTS).find(|number| header.is_free(*number)).ok_or(FlashHeaderError::NoFreeSlot)?,
        };
        if number >= SLOTS {
            return Err(FlashHeaderError::SlotNotInUse { slot: number });
        }
        if !header.is_free(number) {
            return Err(FlashHeaderError::SlotInUse { slot: number });
        }
        let sealed =
            new.seal(header.params(), key).map_err(|error| FlashHeaderError::Slot { slot: number, error })?;
        self.commit(anchor, |edit| edit.put_slot(number, Some(&sealed)))?;
        Ok(number)
    }

    /// Changes what opens a keyslot, in one step: the old passphrase opens it, or the new one.
    ///
    /// # Errors
    /// [`FlashHeaderError::SlotNotInUse`] if there is no such key. [`FlashHeaderError::Slot`] if `new` can't
    /// be made or `key` is of another volume. Otherwise it fails where [`add_key`](Self::add_key) does.
    pub fn change_key(
        &mut self,
        slot: usize,
        key: &FlashKey,
        mut new: NewSlot<'_>,
        anchor: Anchor<'_>,
    ) -> Result<(), FlashHeaderError> {
        let header = self.header()?;
        check_anchor(&header, &anchor)?;
        if header.slot(slot).is_none() {
            return Err(FlashHeaderError::SlotNotInUse { slot });
        }
        let sealed =
            new.seal(header.params(), key).map_err(|error| FlashHeaderError::Slot { slot, error })?;
        self.commit(anchor, |edit| edit.put_slot(slot, Some(&sealed)))
    }

    /// Removes a key that is not the last one. It is in neither copy when this returns, and of a sealed volume, no older header opens it
    /// from then on.
    ///
    /// # Errors
    /// [`FlashHeaderError::SlotNotInUse`] if there is no such key, [`FlashHeaderError::LastKey`] if it is the
    /// last one. Otherwise it fails where [`add_key`](Self::add_key) does;
    /// [`FlashHeaderError::OldCopyRemains`] means that the key still stands in that copy.
    pub fn remove_key(&mut self, slot: usize, anchor: Anchor<'_>) -> Result<(), FlashHeaderError> {
        let header = self.header()?;
        check_anchor(&header, &anchor)?;
        if header.slot(slot).is_none() {
            return Err(FlashHeaderError::SlotNotInUse { slot });
        }
        if header.slots_in_use().count() == 1 {
            return Err(FlashHeaderError::LastKey { slot });
        }
        self.commit(anchor, |edit| edit.put_slot(slot, None))
    }

    /// Destroys all keys, and so the volume. What is left is a header without keys.
    ///
    /// Both copies are destroyed before anything is written: this is what one does in a hurry. So the trusted store of a sealed volume
    /// may be missing; if it is here, no copy of an earlier header opens the volume with it afterwards.
    ///
    /// # Errors
    /// [`FlashHeaderError::OldCopyRemains`] if a copy could neither be erased nor written over: its keys may
    /// still be there. [`FlashHeaderError::NotSettled`] if the keys are gone from the medium, but the trusted
    /// store still allows an older copy. [`FlashHeaderError::NotRewritten`] if the keys are gone, from the
    /// trusted store too, but the header without keys is in one copy only, or in none.
    ///
    /// Afterwards this value refuses everything but erasing again, with [`FlashHeaderError::Reopen`], unless
    /// both copies were written.
    pub fn erase_keys(&mut self, anchor: Anchor<'_>) -> Result<(), FlashHeaderError> {
        // What cannot be named has never been anchored.
        let present = HeaderMark::of(self.bytes.borrow());
        // Also if an earlier change failed half-way: what is on the medium goes in any case.
        self.in_step = false;
        // The present state goes last here, too: an older one, with keys that were removed, is never what is left.
        let order = [self.other(), self.current];
        let destroyed = order.map(|copy| done(self.copies.destroy(copy)));
        let sequence = Header::parse(self.bytes.borrow()).map_err(FlashHeaderError::Header)?.sequence();
        let mut edit = HeaderEdit::change(self.bytes.borrow_mut()).map_err(FlashHeaderError::Header)?;
        for number in 0..SLOTS {
            let _exists = edit.put_slot(number, None);
        }
        // intended: at the last number both copies have the same one, and no older copy is left.
        edit.finish(sequence.saturating_add(1));
        let written = order.map(|copy| done(self.copies.replace(copy, self.bytes.borrow())));
        for ((copy, destroyed), written) in order.into_iter().zip(destroyed).zip(written) {
            // In a copy that would not be erased, reading the new header back shows that the keys are gone.
            if let (Err(error), Err(_)) = (destroyed, written) {
                return Err(FlashHeaderError::OldCopyRemains { copy, error });
            }
        }
        if written == [Ok(()); 2] {
            self.in_step = true;
            self.states = [CopyState::Current; 2];
        }
        if let Some(anchor) = anchor {
            let before = present.map_err(FlashHeaderError::Header)?;
            let next = HeaderMark::of(self.bytes.borrow()).map_err(FlashHeaderError::Header)?;
            // The keys are gone, so that allowing both headers for a moment allows nothing.
            anchor
                .announce(FoundHeader { mark: before, in_both: false }, next)
                .and_then(|()| anchor.settle(FoundHeader { mark: next, in_both: true }))
                .map_err(|error| FlashHeaderError::NotSettled { error })?;
        }
        let in_other = written.contains(&Ok(()));
        for (copy, written) in order.into_iter().zip(written) {
            written.map_err(|error| FlashHeaderError::NotRewritten { copy, in_other, error })?;
        }
        Ok(())
    }

    /// Makes both copies whole and equal again, from the one that counts. Does nothing if they are.
    ///
    /// # Errors
    /// [`FlashHeaderError::OldCopyRemains`] if the other copy can't be written, [`FlashHeaderError::Reopen`]
    /// after a change that failed.
    pub fn repair(&mut self) -> Result<(), FlashHeaderError> {
        let _in_step = self.header()?;
        if self.states == [CopyState::Current; 2] {
            return Ok(());
        }
        self.replace(self.other())
            .map_err(|error| FlashHeaderError::OldCopyRemains { copy: self.other(), error })?;
        self.states = [CopyState::Current; 2];
        Ok(())
    }

    /// Changes the header and writes it: first over the copy on which the present state does not rest, then over the other.
    /// The anchor hears of it before the first copy is touched, and again after the second one is written.
    pub(super) fn commit(
        &mut self,
        mut anchor: Anchor<'_>,
        change: impl FnOnce(&mut HeaderEdit<'_>) -> bool,
    ) -> Result<(), FlashHeaderError> {
        let present = self.found()?;
        let sequence = self.header()?.sequence().checked_add(1).ok_or(FlashHeaderError::WornOut)?;
        self.in_step = false;
        let mut edit = HeaderEdit::change(self.bytes.borrow_mut()).map_err(FlashHeaderError::Header)?;
        let _exists = change(&mut edit);
        edit.finish(sequence);
        if let Some(anchor) = &mut anchor {
            let next = HeaderMark::of(self.bytes.borrow()).map_err(FlashHeaderError::Header)?;
            anchor.announce(present, next).map_err(|error| FlashHeaderError::NotAnnounced { error })?;
        }
        let (first, second) = (self.other(), self.current);
        self.replace(first).map_err(|error| {
            error.map_or(FlashHeaderError::NotWritten { copy: first }, FlashHeaderError::Flash)
        })?;
        // From here on the change holds.
        (self.current, self.in_step) = (first, true);
        self.states = [CopyState::Outdated; 2];
        if let Some(state) = self.states.get_mut(first) {
            *state = CopyState::Current;
        }
        self.replace(second).map_err(|error| FlashHeaderError::OldCopyRemains { copy: second, error })?;
        self.states = [CopyState::Current; 2];
        let found = self.found()?;
        match anchor {
            Some(anchor) => anchor.settle(found).map_err(|error| FlashHeaderError::NotSettled { error }),
            None => Ok(()),
        }
    }

    /// Replaces a copy by what is in memory.
    fn replace(&mut self, copy: usize) -> Result<(), Option<FlashError>> {
        done(self.copies.replace(copy, self.bytes.borrow()))
    }

    /// The copy on which the present state does not rest.
    fn other(&self) -> usize {
        usize::from(self.current == 0)
    }
}

/// What became of a copy: None as an error where the medium told of none, and the copy does not read as it should.
fn done(reads_as_it_should: Result<bool, FlashError>) -> Result<(), Option<FlashError>> {
    match reads_as_it_should {
        Ok(true) => Ok(()),
        Ok(false) => Err(None),
        Err(error) => Err(Some(error)),
    }
}

/// Fails if the header of this volume is changed with its trusted store only, and that is not here.
pub(super) fn check_anchor(header: &Header<'_>, anchor: &Anchor<'_>) -> Result<(), FlashHeaderError> {
    match header.params().protection {
        Protection::Sealed { store: Freshness::Record | Freshness::Counter, .. } if anchor.is_none() => {
            Err(FlashHeaderError::AnchorNeeded)
        }
        _ => Ok(()),
    }
}

/// A random UUID (RFC 9562, version 4).
fn fresh_uuid(random: &mut dyn Random) -> Result<[u8; 16], SlotError> {
    let mut digits = [0; 16];
    random.fill(&mut digits)?;
    // What a source that is not connected gives, and a good one never does.
    if digits.iter().all(|byte| Some(byte) == digits.first()) {
        return Err(SlotError::Random);
    }
    let uuid = u128::from_be_bytes(digits);
    let version = uuid & !(0xf << 76) | 4 << 76;
    Ok((version & !(3 << 62) | 2 << 62).to_be_bytes())
}

#[cfg(test)]
mod tests {
    use atrest_secret::RandomError;

    use super::*;

    struct Gives(Result<[u8; 16], RandomError>);

    impl Random for Gives {
        fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
            out.copy_from_slice(&self.0?);
            Ok(())
        }
    }

    /// RFC 9562, section 5.4: version 4, variant 0b10, and 122 random bits.
    #[test]
    fn a_fresh_uuid_is_random_but_for_version_and_variant() {
        for (drawn, version, variant) in [(0xff, 0x4f, 0xbf), (0, 0x40, 0x80), (0x55, 0x45, 0x95)] {
            let mut digits = [drawn; 16];
            digits[15] = 0xa5;
            let mut expected = digits;
            (expected[6], expected[8]) = (version, variant);
            assert_eq!(fresh_uuid(&mut Gives(Ok(digits))), Ok(expected), "{drawn:#x}");
            assert_eq!(fresh_uuid(&mut Gives(Ok([drawn; 16]))), Err(SlotError::Random), "no source");
        }
        assert_eq!(fresh_uuid(&mut Gives(Err(RandomError))), Err(SlotError::Random));
    }
}
