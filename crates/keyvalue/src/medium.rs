//! Entries on the medium: read unit by unit and verified, programmed, moved.

use atrest_codec::split;
use atrest_device::{FlashCause, FlashDevice, FlashError, FlashOperation};
use atrest_kdf::PrfMessage;
use atrest_secret::{constant_time_eq, wipe};

use crate::MapError;
use crate::head::{FIELDS_LEN, HEAD_LEN, Head, Kind, TAG_LEN};
use crate::key::Keys;
use crate::shape::Shape;

/// The place of an entry, which its tag is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) block: u8,
    /// Number of the block's beginning.
    pub(crate) sequence: u32,
    pub(crate) unit: u16,
}

pub(crate) struct Medium<D, B> {
    pub(crate) device: D,
    pub(crate) shape: Shape,
    pub(crate) keys: Keys,
    /// A unit of it is used.
    buffer: B,
}

impl<D: FlashDevice, B: AsMut<[u8]>> Medium<D, B> {
    pub(crate) fn new(device: D, shape: Shape, keys: Keys, mut buffer: B) -> Result<Self, MapError> {
        let (needs, has) = (shape.unit as usize, buffer.as_mut().len());
        if has < needs {
            return Err(MapError::BufferTooSmall { needs, has });
        }
        Ok(Self { device, shape, keys, buffer })
    }

    /// The head of a block, whatever it is the beginning of.
    pub(crate) fn beginning(&mut self, block: u8) -> Result<Option<Head>, FlashError> {
        let (Some(head), tag) = self.head(block, 0)? else { return Ok(None) };
        let Some(beginning) = head.beginning() else { return Ok(None) };
        let place = Place { block, sequence: beginning.sequence, unit: 0 };
        let is_right = constant_time_eq(&self.message(place, &head).tag(), &tag);
        Ok(is_right.then_some(head))
    }

    /// The entry at a place, if one stands there. As much of its value from `offset` on as has room goes to `out`, which is
    /// wiped if the entry is not what was stored.
    pub(crate) fn entry(
        &mut self,
        place: Place,
        offset: usize,
        out: &mut [u8],
    ) -> Result<Option<Head>, FlashError> {
        let read = self.verified(place, offset, out);
        if !matches!(read, Ok(Some(_))) {
            wipe(out);
        }
        read
    }

    fn verified(&mut self, place: Place, offset: usize, out: &mut [u8]) -> Result<Option<Head>, FlashError> {
        let (Some(head), tag) = self.head(place.block, place.unit)? else { return Ok(None) };
        if !self.fits(place, &head) {
            return Ok(None);
        }
        let mut message = self.message(place, &head);
        // Of the value, from here on: bytes of it that come before `out`, and what has no place in it yet.
        let (mut before, mut out) = (offset, out);
        let whole = self.value_pieces(place, &head, |piece| {
            message.update(piece);
            let skipped = before.min(piece.len());
            // cannot underflow: it is the smaller one.
            before = before.saturating_sub(skipped);
            let wanted = piece.get(skipped..).unwrap_or(&[]);
            let room = wanted.len().min(out.len());
            let (to, rest) = core::mem::take(&mut out).split_at_mut(room);
            to.iter_mut().zip(wanted).for_each(|(to, from)| *to = *from);
            out = rest;
        })?;
        Ok((whole && constant_time_eq(&message.tag(), &tag)).then_some(head))
    }

    /// Programs an entry and reads it back. Its unit and those behind it are blank.
    pub(crate) fn store(&mut self, place: Place, head: &Head, value: &[u8]) -> Result<(), FlashError> {
        self.program(place, head, value)?;
        self.read_back(place, head)
    }

    /// Fails if a medium did not store what it took, as worn-out ones do.
    fn read_back(&mut self, place: Place, head: &Head) -> Result<(), FlashError> {
        if self.entry(place, 0, &mut [])? == Some(*head) {
            return Ok(());
        }
        let (address, len) = (self.shape.address(place.block, place.unit), self.shape.unit.into());
        let cause = FlashCause::BadBlock { block: place.block.into() };
        Err(FlashError::new(FlashOperation::Prog, address, len, cause))
    }

    fn program(&mut self, place: Place, head: &Head, value: &[u8]) -> Result<(), FlashError> {
        let mut message = self.message(place, head);
        message.update(value);
        let tag = message.tag();
        let mut rest = value;
        let mut at = self.shape.address(place.block, place.unit);
        let mut is_first = true;
        while is_first || !rest.is_empty() {
            let unit = unit_of(&mut self.buffer, &self.shape);
            unit.fill(0);
            let room = if is_first { put_head(unit, head, &tag) } else { &mut *unit };
            let (now, later) = rest.split_at(rest.len().min(room.len()));
            room.iter_mut().zip(now).for_each(|(to, from)| *to = *from);
            let programmed = self.device.prog(at, unit);
            wipe(unit);
            programmed?;
            (rest, is_first) = (later, false);
            // cannot overflow: within the block, which has room for the entry.
            at = at.saturating_add(self.shape.unit.into());
        }
        Ok(())
    }

    /// Programs an entry a second time. False if it is not what was stored any more: then not all of it was programmed.
    pub(crate) fn copy(&mut self, from: Place, to: Place) -> Result<bool, FlashError> {
        let (Some(head), tag) = self.head(from.block, from.unit)? else { return Ok(false) };
        if !self.fits(from, &head) {
            return Ok(false);
        }
        let (mut old, mut new) = (self.message(from, &head), self.message(to, &head));
        let whole = self.value_pieces(from, &head, |piece| {
            old.update(piece);
            new.update(piece);
        })?;
        if !whole || !constant_time_eq(&old.tag(), &tag) {
            return Ok(false);
        }
        let tag = new.tag();
        for unit in 0..self.units_of(&head) {
            // cannot overflow: both entries fit into their blocks.
            let (source, target) = (from.unit.saturating_add(unit), to.unit.saturating_add(unit));
            if !self.read_unit(from.block, source)? {
                return Ok(false);
            }
            let bytes = unit_of(&mut self.buffer, &self.shape);
            if unit == 0 {
                put_head(bytes, &head, &tag);
            }
            let programmed = self.device.prog(self.shape.address(to.block, target), bytes);
            wipe(bytes);
            programmed?;
        }
        self.read_back(to, &head)?;
        Ok(true)
    }

    pub(crate) fn erase(&mut self, block: u8) -> Result<(), FlashError> {
        self.device.erase(self.shape.address(block, 0), self.shape.erase_size.into())
    }

    /// Whether all units of a block from one on can be programmed.
    pub(crate) fn is_blank(&mut self, block: u8, unit: u16) -> Result<bool, FlashError> {
        let start = self.shape.address(block, unit);
        let end = self.shape.address(block, self.shape.units);
        let buffer = unit_of(&mut self.buffer, &self.shape);
        // cannot underflow: the unit lies in the block.
        match self.device.is_blank(start, end.saturating_sub(start), buffer) {
            Err(error) if is_unknown(error.cause) => Ok(false),
            answer => answer,
        }
    }

    /// Units that an entry takes.
    pub(crate) fn units_of(&self, head: &Head) -> u16 {
        // cannot be cut off: a value of 2^16 bytes takes at most 2^11 units.
        self.shape.units_of(head.value_len()) as u16
    }

    fn fits(&self, place: Place, head: &Head) -> bool {
        let left = self.shape.units.checked_sub(place.unit);
        left.is_some_and(|left| self.units_of(head) <= left)
    }

    /// Head and tag, which is not looked at. None if there is no head, or the medium can't read what there is.
    fn head(&mut self, block: u8, unit: u16) -> Result<(Option<Head>, [u8; TAG_LEN]), FlashError> {
        let whole = self.read_unit(block, unit)?;
        let bytes = unit_of(&mut self.buffer, &self.shape);
        let head = match bytes.first_chunk::<HEAD_LEN>() {
            Some(head) if whole => {
                let (fields, tag): (&[u8; FIELDS_LEN], &[u8; TAG_LEN]) = split(head);
                (Head::from_fields(fields), *tag)
            }
            _ => (None, [0; TAG_LEN]),
        };
        wipe(bytes);
        Ok(head)
    }

    /// Calls with each piece of a value, in order. False if the medium can't read one.
    fn value_pieces(
        &mut self,
        place: Place,
        head: &Head,
        mut each: impl FnMut(&[u8]),
    ) -> Result<bool, FlashError> {
        let mut left = head.value_len();
        let mut unit = place.unit;
        while left > 0 {
            let whole = self.read_unit(place.block, unit)?;
            let bytes = unit_of(&mut self.buffer, &self.shape);
            let skipped = if unit == place.unit { HEAD_LEN } else { 0 };
            let piece = bytes.get(skipped..).unwrap_or(&[]);
            let piece = piece.get(..left).unwrap_or(piece);
            // cannot underflow: a piece is no longer than what is left.
            left = left.saturating_sub(piece.len());
            if whole {
                each(piece);
            }
            wipe(bytes);
            if !whole {
                return Ok(false);
            }
            // cannot overflow: the entry fits into the block.
            unit = unit.saturating_add(1);
        }
        Ok(true)
    }

    /// Reads a unit into the buffer. False if the medium says that nothing can be read there, as power losses leave it.
    fn read_unit(&mut self, block: u8, unit: u16) -> Result<bool, FlashError> {
        let at = self.shape.address(block, unit);
        let buffer = unit_of(&mut self.buffer, &self.shape);
        match self.device.read(at, buffer) {
            Ok(()) => Ok(true),
            Err(error) if is_unknown(error.cause) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn message(&self, place: Place, head: &Head) -> PrfMessage {
        let mut message = self.keys.tags.message();
        message.update(&[place.block]);
        message.update(&place.sequence.to_le_bytes());
        message.update(&place.unit.to_le_bytes());
        message.update(&head.fields());
        message
    }
}

/// What a medium says of units that hold nothing: those of a block that a sealed volume takes for void, and those that a power loss
/// has torn.
fn is_unknown(cause: FlashCause) -> bool {
    matches!(cause, FlashCause::Uncorrectable | FlashCause::Void { .. } | FlashCause::Unsupported)
}

/// The unit that the buffer is long enough for, which was checked.
fn unit_of<'b, B: AsMut<[u8]>>(buffer: &'b mut B, shape: &Shape) -> &'b mut [u8] {
    buffer.as_mut().get_mut(..shape.unit as usize).unwrap_or(&mut [])
}

/// Writes fields and tag, and returns what is behind them. A unit has room for both.
fn put_head<'u>(unit: &'u mut [u8], head: &Head, tag: &[u8; TAG_LEN]) -> &'u mut [u8] {
    let (place, rest) = unit.split_at_mut(HEAD_LEN.min(unit.len()));
    let bytes = head.fields().into_iter().chain(*tag);
    place.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    rest
}

/// Whether an entry of this kind can stand behind the first unit of a block.
pub(crate) fn is_content(kind: Kind) -> bool {
    matches!(kind, Kind::Value | Kind::Removed | Kind::Moved)
}
