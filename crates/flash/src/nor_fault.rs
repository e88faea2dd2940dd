//! What the errors of a driver mean that is written against embedded-storage.

use atrest_device::{FlashCause, FlashOperation};

/// What an error of a driver means.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NorFault {
    /// The medium failed at this place. A read is [`Uncorrectable`](FlashCause::Uncorrectable): error-correcting words have more wrong bits
    /// than they correct, as after a power loss. A program or erase is a [`BadBlock`](FlashCause::BadBlock).
    Medium,
    /// This and nothing else: the bus, the driver, write protection.
    Cause(FlashCause),
    /// Nobody knows. [`ByOperation`] has the rule.
    Unknown,
}

/// Says what the errors of a driver mean. Closures do, too.
pub trait NorFaults<E> {
    /// What this error of an operation means.
    fn fault(&mut self, operation: FlashOperation, error: &E) -> NorFault;
}

impl<E, M: FnMut(FlashOperation, &E) -> NorFault> NorFaults<E> for M {
    fn fault(&mut self, operation: FlashOperation, error: &E) -> NorFault {
        self(operation, error)
    }
}

/// Tells errors apart without knowing them, by the operation that failed.
///
/// * A failed program or erase is a bad block. A driver reports one when the chip says so, or when verifying fails.
/// * A failed read is tried twice more. If it fails each time, and another place can be read, the error belongs to the place:
///   `Uncorrectable`. If no other place can be read either, the error belongs to the bus: `Driver(1)`. That difference
///   matters. littlefs answers an unreadable half of its metadata with the older half, so a bus that fails for a
///   moment must not look like a torn word.
/// * A range that the driver calls misaligned or out of bounds stays that, with the sizes of the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByOperation;

impl<E> NorFaults<E> for ByOperation {
    fn fault(&mut self, _: FlashOperation, _: &E) -> NorFault {
        NorFault::Unknown
    }
}
