//! What names the contents of a block.

use std::cmp::Ordering;

/// The serial of a block's first unit, and the session that began it, whose salt is in the nonces of all its units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// Counted.
    pub serial: u64,
    /// Drawn: no two openings or makings have the same, of copies neither.
    pub session: u64,
}

impl PartialEq<u64> for Epoch {
    fn eq(&self, serial: &u64) -> bool {
        self.serial == *serial
    }
}

/// Whether it is older than a serial.
impl PartialOrd<u64> for Epoch {
    fn partial_cmp(&self, serial: &u64) -> Option<Ordering> {
        self.serial.partial_cmp(serial)
    }
}
