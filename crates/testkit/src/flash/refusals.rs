//! An adversary on the bus who answers operations with errors, and keeps what was sent.

use atrest_device::{FlashCause, FlashOperation};

use crate::Random;

/// Which operations are refused, and the programs that were.
#[derive(Clone, Debug)]
pub struct Refusals {
    /// Programs to refuse, from the next one on.
    pub programs: u32,
    /// Erases to refuse.
    pub erases: u32,
    /// Syncs to refuse.
    pub syncs: u32,
    /// Beside these any operation, one in so many.
    pub at_random: Option<(Random, u64)>,
    /// What is reported.
    pub cause: FlashCause,
    /// Addresses and bytes of all programs that were refused.
    pub withheld: Vec<Withheld>,
    /// Operations that were refused.
    pub count: u64,
}

/// A program that was refused: address and bytes.
pub type Withheld = (u64, Vec<u8>);

impl Default for Refusals {
    fn default() -> Self {
        Self {
            programs: 0,
            erases: 0,
            syncs: 0,
            at_random: None,
            // What an adapter makes of a driver's error that it does not know.
            cause: FlashCause::Driver(0),
            withheld: Vec::new(),
            count: 0,
        }
    }
}

impl Refusals {
    /// Whether this one is refused.
    pub(super) fn take(&mut self, operation: FlashOperation) -> Result<(), FlashCause> {
        let planned = match operation {
            FlashOperation::Prog => &mut self.programs,
            FlashOperation::Erase => &mut self.erases,
            _ => &mut self.syncs,
        };
        let at_random = self.at_random.as_mut().is_some_and(|(random, one_in)| random.below(*one_in) == 0);
        if *planned == 0 && !at_random {
            return Ok(());
        }
        *planned = planned.saturating_sub(1);
        self.count += 1;
        Err(self.cause)
    }
}
