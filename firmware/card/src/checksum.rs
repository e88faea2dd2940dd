//! FNV-1a: the host tells by it whether a program has read what it should.

use crate::board;

/// Of what was read up to now.
pub struct Checksum {
    sum: u32,
    len: usize,
}

impl Checksum {
    /// Of nothing.
    pub const fn new() -> Self {
        Self { sum: 0x811c_9dc5, len: 0 }
    }

    /// Of what is read next, too.
    pub fn add(&mut self, part: &[u8]) {
        self.len += part.len();
        for byte in part {
            self.sum = (self.sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }

    /// Prints it, and how many bytes it is of.
    pub fn print(&self) {
        board::print("read", self.len, self.sum);
    }
}

impl Default for Checksum {
    fn default() -> Self {
        Self::new()
    }
}
