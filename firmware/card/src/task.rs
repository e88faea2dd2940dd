//! What the host wants done: 256 bytes that the emulator puts behind the medium.

use atrest_secret::{Random, RandomError};

use crate::medium::BASE;

/// What a button or a terminal would tell the program.
pub struct Task {
    /// What to do.
    pub verb: u8,
    /// The passphrase.
    pub passphrase: &'static [u8],
    /// The one that it is changed to.
    pub new_passphrase: &'static [u8],
    /// A board's random source.
    pub entropy: Entropy,
}

/// Random bytes from the host. Fails when they are used up.
pub struct Entropy(&'static [u8]);

const AT: usize = BASE + (1 << 20);
const TEXT_LEN: usize = 31;

/// Reads the task: verb, two texts of 31 bytes behind their lengths, random bytes.
pub fn task() -> Task {
    // SAFETY: RAM of the board that nothing writes to.
    let bytes: &'static [u8; 256] = unsafe { &*(AT as *const [u8; 256]) };
    let text = |at: usize| &bytes[at + 1..][..usize::from(bytes[at]).min(TEXT_LEN)];
    Task {
        verb: bytes[0],
        passphrase: text(1),
        new_passphrase: text(1 + 1 + TEXT_LEN),
        entropy: Entropy(&bytes[1 + 2 * (1 + TEXT_LEN)..]),
    }
}

impl Random for Entropy {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        let (now, later) = self.0.split_at_checked(out.len()).ok_or(RandomError)?;
        out.copy_from_slice(now);
        self.0 = later;
        Ok(())
    }
}
