//! The adapters from and to embedded-storage, as blocking code and as asynchronous code in turns.

use atrest_device::{FlashDevice, GeometryError};
use atrest_flash::{ByOperation, NorDriver, NorDriverError, NorError, NorFaults, NorStorage, asynchronous};
use embedded_storage::nor_flash::{ErrorType, NorFlash, ReadNorFlash};
use embedded_storage_async::nor_flash as nor_async;

use crate::faces::{Faces, is_asynchronous};
use crate::waits::{Waits, between_pauses, block_on};

/// [`NorDriver`] in either face.
pub type AnyDriver<F, M = ByOperation> = Faces<NorDriver<F, M>, asynchronous::NorDriver<Waits<F>, M>>;

impl<F: NorFlash> AnyDriver<F> {
    pub fn new(driver: F) -> Result<Self, GeometryError> {
        if is_asynchronous() {
            asynchronous::NorDriver::new(Waits(driver)).map(Self::Asynchronous)
        } else {
            NorDriver::new(driver).map(Self::Blocking)
        }
    }
}

impl<F: NorFlash, M: NorFaults<F::Error>> AnyDriver<F, M> {
    pub fn with_faults(driver: F, faults: M) -> Result<Self, GeometryError> {
        if is_asynchronous() {
            asynchronous::NorDriver::with_faults(Waits(driver), faults).map(Self::Asynchronous)
        } else {
            NorDriver::with_faults(driver, faults).map(Self::Blocking)
        }
    }
}

/// [`NorStorage`] in either face.
#[derive(Debug)]
pub struct AnyStorage<D, const READ: usize, const PROG: usize, const ERASE: usize>(
    Faces<NorStorage<D, READ, PROG, ERASE>, asynchronous::NorStorage<Waits<D>, READ, PROG, ERASE>>,
);

impl<D: FlashDevice, const READ: usize, const PROG: usize, const ERASE: usize>
    AnyStorage<D, READ, PROG, ERASE>
{
    pub fn new(device: D) -> Result<Self, NorError> {
        Ok(Self(if is_asynchronous() {
            Faces::Asynchronous(asynchronous::NorStorage::new(Waits(device))?)
        } else {
            Faces::Blocking(NorStorage::new(device)?)
        }))
    }
}

impl<D, const READ: usize, const PROG: usize, const ERASE: usize> ErrorType
    for AnyStorage<D, READ, PROG, ERASE>
{
    type Error = NorDriverError;
}

impl<D: FlashDevice, const READ: usize, const PROG: usize, const ERASE: usize> ReadNorFlash
    for AnyStorage<D, READ, PROG, ERASE>
{
    const READ_SIZE: usize = READ;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), NorDriverError> {
        match &mut self.0 {
            Faces::Blocking(nor) => nor.read(offset, bytes),
            Faces::Asynchronous(nor) => block_on(nor_async::ReadNorFlash::read(nor, offset, bytes)),
        }
    }

    fn capacity(&self) -> usize {
        match &self.0 {
            Faces::Blocking(nor) => nor.capacity(),
            Faces::Asynchronous(nor) => nor_async::ReadNorFlash::capacity(nor),
        }
    }
}

impl<D: FlashDevice, const READ: usize, const PROG: usize, const ERASE: usize> NorFlash
    for AnyStorage<D, READ, PROG, ERASE>
{
    const WRITE_SIZE: usize = PROG;
    const ERASE_SIZE: usize = ERASE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), NorDriverError> {
        match &mut self.0 {
            Faces::Blocking(nor) => nor.erase(from, to),
            Faces::Asynchronous(nor) => block_on(nor_async::NorFlash::erase(nor, from, to)),
        }
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), NorDriverError> {
        match &mut self.0 {
            Faces::Blocking(nor) => nor.write(offset, bytes),
            Faces::Asynchronous(nor) => block_on(nor_async::NorFlash::write(nor, offset, bytes)),
        }
    }
}

impl<F: ErrorType> ErrorType for Waits<F> {
    type Error = F::Error;
}

impl<F: ReadNorFlash> nor_async::ReadNorFlash for Waits<F> {
    const READ_SIZE: usize = F::READ_SIZE;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), F::Error> {
        between_pauses(async { self.0.read(offset, bytes) }).await
    }

    fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl<F: NorFlash> nor_async::NorFlash for Waits<F> {
    const WRITE_SIZE: usize = F::WRITE_SIZE;
    const ERASE_SIZE: usize = F::ERASE_SIZE;

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), F::Error> {
        between_pauses(async { self.0.erase(from, to) }).await
    }

    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), F::Error> {
        between_pauses(async { self.0.write(offset, bytes) }).await
    }
}
