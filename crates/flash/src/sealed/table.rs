//! What a sealed device knows of each erase block, in fourteen bytes of the caller's.

use super::layout::MOST_UNITS;
use super::serial::{self, Epoch, SALT_LEN, SERIAL_LEN, Salt};

/// The state of an erase block: its epoch and how many units it holds. An array of these, one for each block, is all that a
/// sealed device needs beside a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockState {
    epoch: [u8; SERIAL_LEN],
    /// The fill, and two flags above it.
    fill: [u8; 2],
    /// Of the session that began the block. Read from the medium at opening, and never again: somebody may exchange a block for that of a
    /// copy, with the same epoch.
    salt: [u8; SALT_LEN],
}

/// A block takes no more units before it is erased. Of a void one: it was not erased since power-on.
const CLOSED: u16 = 1 << 15;
/// The sum does not contain the block: something in it is newer than the anchor.
const IN_FLIGHT: u16 = 1 << 14;
/// What is left for the fill.
const UNITS: u16 = !(CLOSED | IN_FLIGHT);
/// To a reader, who knows of no anchor: something stands behind the units, or instead of the first, that does not verify.
const UNVERIFIED: u16 = IN_FLIGHT;

impl BlockState {
    /// Holds nothing, and was not erased since power-on. A firmware's table is a `static` of these before a volume is opened.
    pub const VOID: Self = Self { epoch: [0; SERIAL_LEN], fill: CLOSED.to_le_bytes(), salt: [0; SALT_LEN] };
    /// Holds nothing and was erased.
    pub(crate) const ERASED: Self = Self { epoch: [0; SERIAL_LEN], fill: [0; 2], salt: [0; SALT_LEN] };

    pub(crate) fn holding(epoch: Epoch, fill: u32) -> Self {
        let fill = fill.min(MOST_UNITS) as u16;
        if fill == 0 {
            return Self::VOID;
        }
        Self { epoch: serial::to_bytes(epoch.serial), fill: fill.to_le_bytes(), salt: epoch.salt }
    }

    /// Serial of unit 0 and salt, zeros in a void block.
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch { serial: serial::from_bytes(self.epoch), salt: self.salt }
    }

    /// Units that the block holds.
    pub(crate) fn fill(&self) -> u32 {
        (u16::from_le_bytes(self.fill) & UNITS).into()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.has(CLOSED)
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        self.has(IN_FLIGHT)
    }

    pub(crate) fn close(&mut self) {
        self.set(CLOSED, true);
    }

    pub(crate) fn set_in_flight(&mut self, in_flight: bool) {
        self.set(IN_FLIGHT, in_flight);
    }

    pub(crate) fn is_unverified(&self) -> bool {
        self.has(UNVERIFIED)
    }

    pub(crate) fn set_unverified(&mut self, unverified: bool) {
        self.set(UNVERIFIED, unverified);
    }

    /// Counts a unit more; the first one gives the block its epoch. Flags stay.
    pub(crate) fn append(&mut self, serial: u64, salt: Salt) {
        if self.fill() == 0 {
            (self.epoch, self.salt) = (serial::to_bytes(serial), salt);
        }
        // A block has fewer units than reach the flags.
        self.fill = u16::from_le_bytes(self.fill).wrapping_add(1).to_le_bytes();
    }

    fn has(&self, flag: u16) -> bool {
        u16::from_le_bytes(self.fill) & flag != 0
    }

    fn set(&mut self, flag: u16, on: bool) {
        let present = u16::from_le_bytes(self.fill);
        self.fill = (if on { present | flag } else { present & !flag }).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch { serial: 0x05_0403_0201, salt: [1, 2, 3, 4, 5, 6, 7] };

    #[test]
    fn a_block_keeps_its_epoch_and_its_units_whatever_its_flags() {
        for fill in [1, 2, 0x1234, MOST_UNITS] {
            let whole = BlockState::holding(EPOCH, fill);
            assert!(!whole.is_closed() && !whole.is_in_flight());
            let mut state = whole;
            for _ in 0..2 {
                // Said twice it is as if it were said once.
                state.close();
                state.set_in_flight(true);
                assert!(state.is_closed() && state.is_in_flight() && state.is_unverified());
                assert_eq!((state.epoch(), state.fill()), (EPOCH, fill));
            }
            for _ in 0..2 {
                state.set_in_flight(false);
                assert!(state.is_closed() && !state.is_in_flight() && state.fill() == fill);
            }
            state.set_unverified(true);
            assert!(state.is_unverified());
        }
        assert_eq!(BlockState::holding(EPOCH, MOST_UNITS + 1), BlockState::holding(EPOCH, MOST_UNITS));
        assert_eq!(BlockState::holding(EPOCH, 0), BlockState::VOID);
    }

    #[test]
    fn the_first_unit_gives_a_block_its_epoch_and_later_ones_do_not() {
        let mut state = BlockState::ERASED;
        assert!(!state.is_closed() && state.fill() == 0 && BlockState::VOID.is_closed());
        state.append(EPOCH.serial, EPOCH.salt);
        assert_eq!((state.epoch(), state.fill()), (EPOCH, 1));
        state.set_in_flight(true);
        state.append(EPOCH.serial + 1, [9; SALT_LEN]);
        assert_eq!((state.epoch(), state.fill(), state.is_in_flight()), (EPOCH, 2, true));
    }
}
