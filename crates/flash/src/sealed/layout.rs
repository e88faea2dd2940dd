//! Where units and tickets lie in an erase block. FORMATS.md, "Sealed flash".

use core::fmt;

use atrest_device::{FlashCause, FlashGeometry, GeometryError};

use super::serial::{SALT_LEN, SALTS_LEN, SERIAL_LEN};

/// Where an erase is announced before it destroys what says which units a block held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tickets {
    /// In the blocks themselves, each of which keeps a slot for one ticket: one more small program for each erase of a block
    /// that holds something.
    #[default]
    Slot,
    /// In the trusted store: one more trusted write for each such erase. For media whose pages have to be programmed in order,
    /// and for stores that do not mind.
    Store,
}

/// Sizes of a sealed medium.
///
/// An erase block holds units one after the other, each of `stride` bytes (payload, serial, tag, filling up to a
/// prog unit of the medium), and at its end, with [`Tickets::Slot`], the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedLayout {
    medium: FlashGeometry,
    geometry: FlashGeometry,
    stride: u32,
    slot: u32,
    head: u32,
    tag_len: u32,
}

/// Why a medium can't be sealed in this layout.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// Not one unit fits into an erase block.
    UnitTooLarge {
        /// Bytes that a unit and the slot take.
        needs: u32,
        /// Bytes in an erase block.
        erase_size: u32,
    },
    /// More units in an erase block than can be counted. Take a larger payload.
    TooManyUnits {
        /// Units that would fit.
        units: u32,
        /// Units that can be counted.
        most: u32,
    },
    /// More erase blocks than can be numbered with 32 bits.
    TooManyBlocks {
        /// Erase blocks of the medium.
        blocks: u64,
    },
    /// The payload would not make a medium, or the medium has no room behind its header.
    Geometry(GeometryError),
    /// The header names another payload than its sizes lead to.
    OtherPayload {
        /// Bytes that the header names.
        header: u32,
        /// Bytes that units have in this layout.
        layout: u32,
    },
    /// The header is not of a sealed volume.
    NotSealed,
}

/// Bytes in the plaintext of a ticket: block, epoch, fill, salt.
pub(crate) const TICKET_LEN: usize = 11 + SALT_LEN;

/// Payloads are multiples of this, and none is 0.
const LEAST_PAYLOAD: usize = 4;

/// Bytes that a block may lose to its salt however small it is; a larger one may lose a 64th.
const HEAD: u32 = 32;

/// Units in a block at most: fills share 16 bits with two flags.
pub(crate) const MOST_UNITS: u32 = (1 << 14) - 1;

impl SealedLayout {
    /// For units of about `payload` bytes: as many as fit are made as long as they then can be, in multiples of 4. What comes of a
    /// multiple of 4 gives the same layout again.
    ///
    /// `tag_len` is [`Aead::TAG_LEN`](atrest_cipher::aead::Aead::TAG_LEN).
    ///
    /// # Errors
    /// [`LayoutError::UnitTooLarge`] if not one unit fits into an erase block, [`LayoutError::TooManyUnits`]
    /// or [`LayoutError::TooManyBlocks`] if there are more than can be numbered, [`LayoutError::Geometry`] if
    /// the payload is no unit that flash can have.
    pub const fn new(
        medium: FlashGeometry,
        payload: u32,
        tag_len: usize,
        tickets: Tickets,
    ) -> Result<Self, LayoutError> {
        // A sum that does not fit is larger than any erase block: saturated, it is refused with the largest number there is.
        let (granule, erase_size) = (medium.prog_size(), medium.erase_size());
        let tag_len = tag_len as u32;
        // intended: what is larger than any block is refused with the largest number there is.
        let overhead = tag_len.saturating_add(SERIAL_LEN as u32);
        let slot = match tickets {
            // intended: what is larger than any block is refused with the largest number there is.
            Tickets::Slot => whole(overhead.saturating_add(TICKET_LEN as u32), granule),
            Tickets::Store => 0,
        };
        // Behind unit 0 stands the salt of the block: in prog units of its own, or, where those are large, within the stride.
        let head = whole(SALTS_LEN as u32, granule);
        let (head, overhead) = match head > HEAD && head > erase_size / 64 {
            // intended: what is larger than any block is refused with the largest number there is.
            true => (0, overhead.saturating_add(SALTS_LEN as u32)),
            false => (head, overhead),
        };
        // intended: what is larger than any block is refused with the largest number there is.
        let room = erase_size.saturating_sub(slot).saturating_sub(head);
        let wanted = whole(payload.saturating_add(overhead), granule);
        // intended: what is larger than any block is refused with the largest number there is.
        let needs = wanted.saturating_add(slot).saturating_add(head);
        let too_large = LayoutError::UnitTooLarge { needs, erase_size };
        let units = match room.checked_div(wanted) {
            None | Some(0) => return Err(too_large),
            Some(units) => units,
        };
        if units > MOST_UNITS {
            return Err(LayoutError::TooManyUnits { units, most: MOST_UNITS });
        }
        if medium.block_count() > u32::MAX as u64 {
            return Err(LayoutError::TooManyBlocks { blocks: medium.block_count() });
        }
        let Some(stride) = room.checked_div(units) else { return Err(too_large) };
        let Some(over) = stride.checked_rem(granule) else { return Err(too_large) };
        // The remainder is not larger; nor is what is wanted, which the overhead is part of.
        // cannot overflow: the bytes of the medium are counted by 64 bits, and those of a block by 32.
        let stride = stride.saturating_sub(over);
        let payload = stride.saturating_sub(overhead) & !3;
        if payload == 0 {
            return Err(too_large);
        }
        // cannot overflow: the bytes of the medium are counted by 64 bits, and those of a block by 32.
        match FlashGeometry::new(payload, payload, payload.saturating_mul(units), medium.block_count()) {
            Ok(geometry) => Ok(Self { medium, geometry, stride, slot, head, tag_len }),
            Err(error) => Err(LayoutError::Geometry(error)),
        }
    }

    /// Sizes as the user of the sealed medium sees them: reads and programs are of whole payloads.
    pub const fn geometry(&self) -> FlashGeometry {
        self.geometry
    }

    /// Sizes of the medium below.
    pub const fn medium(&self) -> FlashGeometry {
        self.medium
    }

    /// Bytes in a unit that the user sees.
    pub const fn payload(&self) -> u32 {
        self.geometry.prog_size()
    }

    /// Bytes in the buffer that a sealed device works in: for unit 0 with the salt. A ticket is never longer.
    pub const fn buffer_len(&self) -> u32 {
        const { assert!(TICKET_LEN <= LEAST_PAYLOAD + SALTS_LEN, "a ticket is longer than the least unit 0") };
        // cannot overflow: a unit lies in an erase block, whose bytes 32 bits count.
        self.stride.saturating_add(self.head)
    }

    /// Bytes that a unit takes on the medium, but for what unit 0 takes more.
    pub const fn stride(&self) -> u32 {
        self.stride
    }

    /// Units in an erase block.
    pub const fn units(&self) -> u32 {
        self.geometry.units_per_block()
    }

    /// Bytes in the slot for a ticket, 0 without.
    pub const fn slot(&self) -> u32 {
        self.slot
    }

    /// Bytes that unit 0 takes more than the others, for the salt of its block. 0 if there is room in the stride.
    pub const fn head(&self) -> u32 {
        self.head
    }

    /// Bytes in a tag.
    pub const fn tag_len(&self) -> u32 {
        self.tag_len
    }

    /// Fails unless the medium has such a unit.
    pub(crate) fn check_unit(&self, block: u32, unit: u32) -> Result<(), FlashCause> {
        if u64::from(block) < self.medium.block_count() && unit < self.units() {
            return Ok(());
        }
        Err(FlashCause::OutOfBounds { size: self.geometry.size() })
    }

    // The medium's addresses fit into 64 bits, which its geometry has checked: nothing below saturates for a block of it.

    /// Address of a unit on the medium.
    pub fn unit_address(&self, block: u32, unit: u32) -> u64 {
        let head = if unit == 0 { 0 } else { self.head };
        // cannot overflow: the bytes of the medium are counted by 64 bits, and those of a block by 32.
        let units = u64::from(unit).saturating_mul(self.stride.into());
        self.block_address(block).saturating_add(units).saturating_add(head.into())
    }

    /// Bytes that this unit takes on the medium.
    pub(crate) fn unit_len(&self, unit: u32) -> u32 {
        // cannot overflow: a unit lies in an erase block, whose bytes 32 bits count.
        if unit == 0 { self.stride.saturating_add(self.head) } else { self.stride }
    }

    /// Address of a block's slot on the medium.
    pub(crate) fn slot_address(&self, block: u32) -> u64 {
        // cannot overflow: the bytes of the medium are counted by 64 bits, and those of a block by 32.
        let end = self.block_address(block).saturating_add(self.medium.erase_size().into());
        end.saturating_sub(self.slot.into())
    }

    /// Address of a block on the medium.
    pub(crate) fn block_address(&self, block: u32) -> u64 {
        // cannot overflow: the bytes of the medium are counted by 64 bits, and those of a block by 32.
        u64::from(block).saturating_mul(self.medium.erase_size().into())
    }

    /// Block and unit at an address as the user sees it, which was checked. No size of a geometry is 0, so each division has a result, and
    /// both fit into 32 bits.
    pub(crate) fn place(&self, address: u64) -> (u32, u32) {
        let erase = u64::from(self.geometry.erase_size());
        let (block, byte) = (address.checked_div(erase), address.checked_rem(erase));
        let unit = byte.and_then(|byte| byte.checked_div(self.payload().into()));
        // cannot overflow: the bytes of the medium are counted by 64 bits, and those of a block by 32.
        (block.unwrap_or(0) as u32, unit.unwrap_or(0) as u32)
    }
}

/// Rounds up to whole granules, which are not 0.
const fn whole(bytes: u32, granule: u32) -> u32 {
    match bytes.checked_next_multiple_of(granule) {
        Some(whole) => whole,
        None => u32::MAX,
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnitTooLarge { needs, erase_size } => {
                write!(
                    f,
                    "a unit takes {needs} bytes, and an erase block has {erase_size}: take a smaller payload"
                )
            }
            Self::TooManyUnits { units, most } => {
                write!(f, "{units} units in an erase block are more than {most}: take a larger payload")
            }
            Self::TooManyBlocks { blocks } => write!(f, "{blocks} erase blocks are too many to be sealed"),
            Self::Geometry(error) => error.fmt(f),
            Self::OtherPayload { header, layout } => write!(
                f,
                "the header names units of {header} bytes, and its sizes lead to units of {layout}: it was not made by this program"
            ),
            Self::NotSealed => f.write_str("the volume is not sealed"),
        }
    }
}

impl core::error::Error for LayoutError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn nor(prog: u32, erase: u32) -> FlashGeometry {
        FlashGeometry::new(1, prog, erase, 4096).expect("a geometry")
    }

    /// Payload, units, bytes of 10,000 that are lost.
    fn figures(medium: FlashGeometry, payload: u32, tag: usize, tickets: Tickets) -> (u32, u32, u32) {
        let layout = SealedLayout::new(medium, payload, tag, tickets).expect("a layout");
        let (used, all) = (layout.payload() * layout.units(), medium.erase_size());
        assert!(layout.stride() * layout.units() + layout.head() + layout.slot() <= all, "it fits");
        assert!(layout.stride().is_multiple_of(medium.prog_size()), "whole granules");
        (layout.payload(), layout.units(), ((all - used) as u64 * 10_000 / all as u64) as u32)
    }

    #[test]
    fn units_of_about_256_bytes_cost_at_most_eight_percent() {
        assert_eq!(figures(nor(1, 4096), 292, 16, Tickets::Store), (292, 13, 732));
        assert_eq!(figures(nor(1, 4096), 252, 12, Tickets::Slot), (252, 15, 771));
        assert_eq!(figures(nor(1, 4096), 288, 16, Tickets::Slot), (288, 13, 859));
        assert_eq!(figures(nor(1, 4096), 316, 16, Tickets::Slot), (344, 11, 761));
        assert_eq!(figures(nor(1, 65536), 256, 16, Tickets::Slot), (256, 236, 781));
    }

    #[test]
    fn the_payload_of_a_layout_gives_it_again() {
        for (prog, erase) in [(1, 512), (1, 4096), (2, 4096), (4, 65536), (16, 4096), (512, 32768)] {
            for (payload, tickets) in (16..2000)
                .step_by(4)
                .flat_map(|payload| [Tickets::Slot, Tickets::Store].map(|tickets| (payload, tickets)))
            {
                let laid_out = |payload| SealedLayout::new(nor(prog, erase), payload, 16, tickets);
                if let Ok(layout) = laid_out(payload) {
                    assert!(layout.payload() >= payload);
                    assert_eq!(laid_out(layout.payload()), Ok(layout), "{prog} {erase} {payload}");
                }
            }
        }
    }

    #[test]
    fn granules_slots_and_limits_are_kept() {
        assert_eq!(figures(nor(512, 32768), 488, 16, Tickets::Slot), (488, 62, 766));
        // A sector for the salt would be an eighth of the block: it goes behind unit 0, and all units are twelve bytes shorter.
        assert_eq!(figures(nor(512, 4096), 476, 16, Tickets::Slot), (476, 7, 1865));
        assert_eq!(figures(nor(512, 16384), 476, 16, Tickets::Slot).0, 476);
        assert_eq!(figures(nor(16, 2048), 200, 12, Tickets::Slot).0, 220);
        assert_eq!(
            SealedLayout::new(nor(16, 512), 500, 16, Tickets::Slot).map(|_| ()),
            Err(LayoutError::UnitTooLarge { needs: 592, erase_size: 512 })
        );
        assert_eq!(
            SealedLayout::new(nor(1, 1 << 20), 16, 16, Tickets::Store).map(|_| ()),
            Err(LayoutError::TooManyUnits { units: 28339, most: 16383 })
        );
        let huge = FlashGeometry::new(1, 1, 4096, 1 << 32).expect("a geometry");
        assert_eq!(
            SealedLayout::new(huge, 252, 16, Tickets::Slot).map(|_| ()),
            Err(LayoutError::TooManyBlocks { blocks: 1 << 32 })
        );
    }
}
