//! A header as a view of its 512 bytes, checked in place, and the changes to them.

use atrest_codec::{Reader, decode, split, split_mut};
use atrest_secret::constant_time_eq;
use sha2::block_api::compress256;

use super::cost::KdfCost;
use super::params::Params;
#[cfg(feature = "rotate")]
use super::params::Protection;
use super::slot::SlotBytes;
use super::{
    CHECKSUM_LEN, HEADER_LEN, HeaderError, MAGIC, PARAMS_LEN, SLOT_LEN, SLOT_SALT_LEN, SLOTS, VERSION,
};

/// A checked header in the bytes that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    params: Params,
    sequence: u64,
    slots: &'a [u8; SLOTS_LEN],
}

/// A keyslot in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot<'a> {
    /// How its key is derived.
    pub kdf: KdfCost,
    /// Whether the chip's own secret is needed too.
    pub needs_device: bool,
    /// Salt of the derivation.
    pub salt: &'a [u8; SLOT_SALT_LEN],
    /// The wrapped volume key, 8 bytes longer than it.
    pub wrapped: &'a [u8],
    /// What the wrapping key depends on: all before the salt, and the salt.
    pub(super) bound: &'a [u8; BOUND_LEN],
}

/// Bytes before the checksum.
const BODY_LEN: usize = HEADER_LEN - CHECKSUM_LEN;
/// Bytes of all keyslots.
const SLOTS_LEN: usize = SLOTS * SLOT_LEN;
/// Bytes of a keyslot before the wrapped key.
pub(super) const BOUND_LEN: usize = 32;

/// State of a keyslot that is used. One that is not is zeros from the first byte to the last.
pub(super) const IN_USE: u8 = 1;
/// Flag: the chip's own secret is needed.
pub(super) const NEEDS_DEVICE: u8 = 1;
/// State of a keyslot that holds the volume key of before, while that is rotated.
pub(super) const PREVIOUS: u8 = 2;

/// Whether bytes are those of flash that was erased.
pub fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0xff)
}

impl<'a> Header<'a> {
    /// Checks a header.
    ///
    /// Magic, version and checksum have their places in every version, so that a newer one is told from damage.
    ///
    /// # Errors
    /// [`HeaderError::Blank`], [`HeaderError::Foreign`], [`HeaderError::Checksum`] and
    /// [`HeaderError::Version`] tell erased flash, something else, damage and a newer program's header apart.
    /// The others name the field of a whole header that is not acceptable.
    pub fn parse(bytes: &'a [u8; HEADER_LEN]) -> Result<Self, HeaderError> {
        if is_blank(bytes) {
            return Err(HeaderError::Blank);
        }
        let (magic, rest): (&[u8; 8], &[u8; HEADER_LEN - 8]) = split(bytes);
        if *magic != MAGIC {
            return Err(HeaderError::Foreign);
        }
        let (version, _): (&[u8; 2], &[u8; HEADER_LEN - 10]) = split(rest);
        let version = u16::from_le_bytes(*version);
        if !is_whole(bytes) {
            return Err(HeaderError::Checksum);
        }
        if version != VERSION {
            return Err(HeaderError::Version { version });
        }
        Self::fields(bytes)
    }

    /// What a whole header says, if that is acceptable.
    #[inline(never)] // see `is_whole`
    fn fields(bytes: &'a [u8; HEADER_LEN]) -> Result<Self, HeaderError> {
        let (body, _checksum): (&[u8; BODY_LEN], &[u8; CHECKSUM_LEN]) = split(bytes);
        let (start, slots) = split(body);
        let (params, sequence) = Params::decode(start).map_err(HeaderError::Params)?;
        let header = Self { params, sequence, slots };
        for number in 0..SLOTS {
            header.checked_slot(number)?;
        }
        #[cfg(feature = "rotate")]
        header.check_previous()?;
        Ok(header)
    }

    /// The number of the keyslot that holds the volume key of before, while that is rotated, and that key as it is wrapped.
    #[cfg(feature = "rotate")]
    pub fn previous(&self) -> Option<(usize, &'a [u8])> {
        let slots: &'a [[u8; SLOT_LEN]] = self.slots.as_chunks::<SLOT_LEN>().0;
        let (number, slot) = slots.iter().enumerate().find(|(_, [state, ..])| *state == PREVIOUS)?;
        let (_, wrapped): (&'a [u8; BOUND_LEN], &'a [u8; SLOT_LEN - BOUND_LEN]) = split(slot);
        Some((number, wrapped.get(..wrapped_len(&self.params))?))
    }

    /// At most one key of before stands there, and only in the header of a sealed volume.
    #[cfg(feature = "rotate")]
    fn check_previous(&self) -> Result<(), HeaderError> {
        let slots = self.slots.as_chunks::<SLOT_LEN>().0;
        let mut found = (0..SLOTS).zip(slots).filter(|(_, [state, ..])| *state == PREVIOUS);
        let first = found.next();
        let sealed = matches!(self.params.protection, Protection::Sealed { .. });
        match found.next().or(first.filter(|_| !sealed)) {
            Some((slot, _)) => Err(HeaderError::Rotating { slot }),
            None => Ok(()),
        }
    }

    /// What is encrypted and how.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Counts the changes: the higher one of two copies is newer.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// A keyslot, if there is one of that number and it holds a key that a passphrase opens.
    pub fn slot(&self, number: usize) -> Option<Slot<'a>> {
        self.checked_slot(number).ok().flatten()
    }

    /// Whether a key can be put into a keyslot: it holds none, nor, during a rotation, the volume key of before.
    pub fn is_free(&self, number: usize) -> bool {
        let slots = self.slots.as_chunks::<SLOT_LEN>().0;
        slots.get(number).is_some_and(|[state, ..]| *state == 0)
    }

    /// Numbers of the keyslots that hold a key.
    pub fn slots_in_use(&self) -> impl Iterator<Item = usize> + use<'a> {
        let header = *self;
        (0..SLOTS).filter(move |number| header.slot(*number).is_some())
    }

    fn checked_slot(&self, number: usize) -> Result<Option<Slot<'a>>, HeaderError> {
        let slots: &'a [[u8; SLOT_LEN]] = self.slots.as_chunks::<SLOT_LEN>().0;
        let Some(slot) = slots.get(number) else { return Ok(None) };
        let junk = HeaderError::SlotJunk { slot: number };
        let (bound, wrapped): (&'a [u8; BOUND_LEN], &'a [u8; SLOT_LEN - BOUND_LEN]) = split(slot);
        let (derivation, salt): (&[u8; BOUND_LEN - SLOT_SALT_LEN], &[u8; SLOT_SALT_LEN]) = split(bound);
        let ([state, flags], kdf, [zero]): ([u8; 2], [u8; 13], [u8; 1]) = decode(derivation);
        match state {
            0 if slot.iter().all(|byte| *byte == 0) => return Ok(None),
            0 => return Err(junk),
            #[cfg(feature = "rotate")]
            PREVIOUS => {
                let (_, behind) = wrapped.split_at_checked(wrapped_len(&self.params)).ok_or(junk)?;
                let [_, before @ ..] = bound;
                let zeros = before.iter().chain(behind).all(|byte| *byte == 0);
                return if zeros { Ok(None) } else { Err(junk) };
            }
            #[cfg(not(feature = "rotate"))]
            PREVIOUS => return Err(HeaderError::Rotating { slot: number }),
            IN_USE => {}
            _ => return Err(HeaderError::SlotState { slot: number, state }),
        }
        let needs_device = match flags {
            0 => false,
            NEEDS_DEVICE => true,
            _ => return Err(HeaderError::SlotFlags { slot: number, flags }),
        };
        let [kdf_number, ..] = kdf;
        let kdf = KdfCost::decode(&kdf).ok_or(HeaderError::SlotKdf { slot: number, kdf: kdf_number })?;
        if !kdf.is_acceptable() {
            return Err(HeaderError::SlotCost { slot: number, cost: kdf });
        }
        let mut reader = Reader::new(wrapped);
        let wrapped = reader.bytes(wrapped_len(&self.params)).map_err(|_| junk)?;
        reader.finish_zeros().map_err(|_| junk)?;
        if zero != 0 {
            return Err(junk);
        }
        Ok(Some(Slot { kdf, needs_device, salt, wrapped, bound }))
    }
}

/// Whether the checksum fits. Not inlined, so that what hashing needs of a small stack is gone when the rest is looked at.
#[inline(never)]
fn is_whole(bytes: &[u8; HEADER_LEN]) -> bool {
    let sum = checksum(bytes);
    let (_, stored): (&[u8; BODY_LEN], &[u8; CHECKSUM_LEN]) = split(bytes);
    constant_time_eq(sum.as_flattened(), stored)
}

/// SHA-256 of what is before the checksum, block by block (FIPS 180-4, sections 5.1.1, 5.3.3 and 6.2): half the stack of a hash that
/// takes any length.
fn checksum(bytes: &[u8; HEADER_LEN]) -> [[u8; 4]; CHECKSUM_LEN / 4] {
    let (body, _): (&[u8; BODY_LEN], &[u8; CHECKSUM_LEN]) = split(bytes);
    let (blocks, rest): (&[u8; BODY_LEN - 32], &[u8; 32]) = split(body);
    let mut state = [
        0x6a09_e667,
        0xbb67_ae85,
        0x3c6e_f372,
        0xa54f_f53a,
        0x510e_527f,
        0x9b05_688c,
        0x1f83_d9ab,
        0x5be0_cd19,
    ];
    // In place, field by field: a record that is made as a whole and copied takes more of a small stack.
    let mut last = [0; 64];
    let (start, padding): (&mut [u8; 32], &mut [u8; 32]) = split_mut(&mut last);
    let ([mark, _zeros @ ..], bits): (&mut [u8; 24], &mut [u8; 8]) = split_mut(padding);
    *start = *rest;
    *mark = 0x80;
    *bits = const { BODY_LEN as u64 * 8 }.to_be_bytes();
    compress256(&mut state, blocks.as_chunks().0);
    compress256(&mut state, &[last]);
    state.map(u32::to_be_bytes)
}

/// Bytes of a wrapped volume key.
pub(super) fn wrapped_len(params: &Params) -> usize {
    // cannot overflow: a length of one byte and a constant.
    usize::from(params.key_len).saturating_add(crate::wrap::OVERHEAD)
}

/// A header that is being made or changed, in the memory that is then programmed.
pub struct HeaderEdit<'a> {
    bytes: &'a mut [u8; HEADER_LEN],
}

impl<'a> HeaderEdit<'a> {
    /// A new header without keys.
    ///
    /// # Errors
    /// [`HeaderError::Params`] if [`Params::check`] refuses `params`. `bytes` is unchanged then.
    pub fn create(bytes: &'a mut [u8; HEADER_LEN], params: &Params) -> Result<Self, HeaderError> {
        params.check().map_err(HeaderError::Params)?;
        let (start, rest): (_, &mut [u8; HEADER_LEN - PARAMS_LEN]) = split_mut(bytes);
        *start = params.encode(0);
        rest.fill(0);
        Ok(Self { bytes })
    }

    /// A header that is there, and is checked.
    ///
    /// # Errors
    /// Fails where [`Header::parse`] does.
    pub fn change(bytes: &'a mut [u8; HEADER_LEN]) -> Result<Self, HeaderError> {
        Header::parse(bytes)?;
        Ok(Self { bytes })
    }

    /// Puts a key into a keyslot; None empties it. False if there is no keyslot of that number.
    #[must_use]
    pub fn put_slot(&mut self, number: usize, slot: Option<&SlotBytes>) -> bool {
        let (body, _): (&mut [u8; BODY_LEN], &mut [u8; CHECKSUM_LEN]) = split_mut(self.bytes);
        let (_, slots): (&mut [u8; PARAMS_LEN], &mut [u8; SLOTS_LEN]) = split_mut(body);
        let Some(place) = slots.as_chunks_mut::<SLOT_LEN>().0.get_mut(number) else { return false };
        *place = slot.map_or([0; SLOT_LEN], |slot| slot.0);
        true
    }

    /// Sets the sequence number and the checksum: now the bytes are a header.
    pub fn finish(self, sequence: u64) {
        let (_, rest): (&mut [u8; SEQUENCE_AT], &mut [u8; HEADER_LEN - SEQUENCE_AT]) = split_mut(self.bytes);
        let (place, _): (_, &mut [u8; HEADER_LEN - SEQUENCE_AT - 8]) = split_mut(rest);
        *place = sequence.to_le_bytes();
        let sum = checksum(self.bytes);
        let (_, place): (&mut [u8; BODY_LEN], &mut [u8; CHECKSUM_LEN]) = split_mut(self.bytes);
        place.copy_from_slice(sum.as_flattened());
    }
}

/// Behind magic, version, cipher, key length and protection.
const SEQUENCE_AT: usize = 16;
