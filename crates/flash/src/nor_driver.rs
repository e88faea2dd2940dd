//! A driver written against embedded-storage's `NorFlash` as a flash device, and what its errors mean.

use core::fmt;

use atrest_device::{FlashCause, FlashError, FlashGeometry, FlashOperation, GeometryError};
use embedded_storage::nor_flash::{NorFlashError, NorFlashErrorKind};

use super::{FlashDevice, NorFlash, twin};
use crate::nor_fault::{ByOperation, NorFault, NorFaults};

/// A driver that implements [`NorFlash`] as a [`FlashDevice`]: what most crates for chips offer.
///
/// `NorFlash` says of an error only whether the range was wrong. File systems need more: they write elsewhere when a block goes bad, skip
/// what a power loss has torn, and stop when the bus fails. `M` tells these apart; [`with_faults`](Self::with_faults) takes a closure that
/// knows the driver's errors. Without one, [`ByOperation`] decides.
///
/// ```
/// # use atrest_device::{FlashCause, FlashOperation};
/// # use atrest_flash::{NorDriver, NorFault};
/// # use embedded_storage::nor_flash::NorFlash;
/// # #[derive(Clone, Copy)] enum ChipError { Ecc, WriteProtected, Timeout }
/// # fn driver<F: NorFlash<Error = ChipError>>(chip: F) -> Option<NorDriver<F, impl FnMut(FlashOperation, &ChipError) -> NorFault>> {
/// let flash = NorDriver::with_faults(chip, |_operation, error: &ChipError| match error {
///     ChipError::Ecc => NorFault::Medium,
///     ChipError::WriteProtected => NorFault::Cause(FlashCause::ReadOnly),
///     ChipError::Timeout => NorFault::Cause(FlashCause::Driver(1)),
/// });
/// # flash.ok() }
/// ```
pub struct NorDriver<F, M = ByOperation> {
    driver: F,
    geometry: FlashGeometry,
    faults: M,
}

/// The driver's error code of a read that fails everywhere.
const BUS: i32 = 1;
/// How often a read is tried that fails for a reason nobody knows.
const READS: usize = 3;

#[twin]
impl<F: NorFlash> NorDriver<F> {
    /// Takes the driver's units, and as many of its erase blocks as are whole. [`ByOperation`] says what its errors mean.
    ///
    /// # Errors
    /// Fails where [`with_faults`](Self::with_faults) does.
    pub fn new(driver: F) -> Result<Self, GeometryError> {
        Self::with_faults(driver, ByOperation)
    }
}

#[twin]
impl<F: NorFlash, M: NorFaults<F::Error>> NorDriver<F, M> {
    /// Takes the driver's units, as many of its erase blocks as are whole, and what says what its errors mean.
    ///
    /// # Errors
    /// [`GeometryError`] if the driver's units are 0 or no multiples of each other, or if it has not one
    /// whole erase block.
    pub fn with_faults(driver: F, faults: M) -> Result<Self, GeometryError> {
        // intended: no unit is 4 GiB, and as 0 it is refused.
        let unit = |bytes: usize| u32::try_from(bytes).unwrap_or(0);
        let blocks = driver.capacity().checked_div(F::ERASE_SIZE).ok_or(GeometryError::Zero)? as u64;
        let geometry =
            FlashGeometry::new(unit(F::READ_SIZE), unit(F::WRITE_SIZE), unit(F::ERASE_SIZE), blocks)?;
        Ok(Self { driver, geometry, faults })
    }

    /// Gives the driver back.
    pub fn into_driver(self) -> F {
        self.driver
    }

    /// The driver's 32-bit address of a range, which is checked.
    fn address(&self, operation: FlashOperation, address: u64, len: u64) -> Result<u32, FlashError> {
        self.geometry.check(operation, address, len)?;
        let outside = FlashCause::OutOfBounds { size: 1 << 32 };
        u32::try_from(address).map_err(|_| FlashError::new(operation, address, len, outside))
    }

    /// What an error means; none if nobody knows.
    fn known(&mut self, operation: FlashOperation, address: u64, error: &F::Error) -> Option<FlashCause> {
        let multiple = match operation {
            FlashOperation::Read => self.geometry.read_size(),
            FlashOperation::Erase => self.geometry.erase_size(),
            _ => self.geometry.prog_size(),
        };
        match self.faults.fault(operation, error) {
            NorFault::Cause(cause) => Some(cause),
            NorFault::Medium => Some(self.of_medium(operation, address)),
            NorFault::Unknown => match error.kind() {
                NorFlashErrorKind::NotAligned => Some(FlashCause::Misaligned { multiple }),
                NorFlashErrorKind::OutOfBounds => {
                    Some(FlashCause::OutOfBounds { size: self.geometry.size() })
                }
                _ => None,
            },
        }
    }

    /// The medium itself failed at an address.
    fn of_medium(&self, operation: FlashOperation, address: u64) -> FlashCause {
        match (operation, address.checked_div(self.geometry.erase_size().into())) {
            (FlashOperation::Prog | FlashOperation::Erase, Some(block)) => FlashCause::BadBlock { block },
            _ => FlashCause::Uncorrectable,
        }
    }

    fn changed(
        &mut self,
        operation: FlashOperation,
        address: u64,
        len: u64,
        done: Result<(), F::Error>,
    ) -> Result<(), FlashError> {
        done.map_err(|error| {
            let cause = self.known(operation, address, &error);
            let cause = cause.unwrap_or_else(|| self.of_medium(operation, address));
            FlashError::new(operation, address, len, cause)
        })
    }

    /// Whether the driver still reads anything: a unit in the first or last erase block, outside of what just failed.
    async fn answers(&mut self, address: u64, scratch: &mut [u8]) -> bool {
        // cannot overflow: the range was found to lie on the medium, whose addresses 32 bits name.
        let failed = address..address.saturating_add(scratch.len() as u64);
        let Some(unit) = scratch.get_mut(..F::READ_SIZE) else { return false };
        let last = self.geometry.size().checked_sub(F::READ_SIZE as u64);
        for at in [Some(0), last].into_iter().flatten().filter(|at| !failed.contains(at)) {
            if let Ok(at) = u32::try_from(at)
                && self.driver.read(at, unit).await.is_ok()
            {
                return true;
            }
        }
        false
    }
}

#[twin]
impl<F: NorFlash, M: NorFaults<F::Error>> FlashDevice for NorDriver<F, M> {
    fn geometry(&self) -> FlashGeometry {
        self.geometry
    }

    async fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        let len = buf.len() as u64;
        let from = self.address(FlashOperation::Read, address, len)?;
        let failed = |cause| FlashError::new(FlashOperation::Read, address, len, cause);
        for _ in 0..READS {
            let Err(error) = self.driver.read(from, buf).await else { return Ok(()) };
            if let Some(cause) = self.known(FlashOperation::Read, address, &error) {
                return Err(failed(cause));
            }
        }
        let answers = self.answers(address, buf).await;
        // What was read elsewhere is nobody's here.
        buf.fill(0);
        Err(failed(if answers { FlashCause::Uncorrectable } else { FlashCause::Driver(BUS) }))
    }

    async fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        let len = data.len() as u64;
        let from = self.address(FlashOperation::Prog, address, len)?;
        let done = self.driver.write(from, data).await;
        self.changed(FlashOperation::Prog, address, len, done)
    }

    /// One block at a time, so that an error names the right one.
    async fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.address(FlashOperation::Erase, address, len)?;
        let step = self.geometry.erase_size();
        // cannot overflow: the range was found to lie on the medium, whose addresses 32 bits name.
        for at in (address..address.saturating_add(len)).step_by(step as usize) {
            let from = self.address(FlashOperation::Erase, at, step.into())?;
            // The trait can't name the end of 4 GiB.
            // cannot overflow: the block lies on the medium, whose addresses 32 bits name.
            let to = self.address(FlashOperation::Erase, at.saturating_add(step.into()), 0)?;
            let done = self.driver.erase(from, to).await;
            self.changed(FlashOperation::Erase, at, step.into(), done)?;
        }
        Ok(())
    }

    async fn sync(&mut self) -> Result<(), FlashError> {
        Ok(())
    }
}

impl<F, M> fmt::Debug for NorDriver<F, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NorDriver").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}
