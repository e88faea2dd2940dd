//! [`NorStorage`] for executors: embedded-storage-async's traits. The device below blocks, so every future is ready at once.

use atrest_device::FlashDevice;
use embedded_storage_async::nor_flash::{NorFlash, ReadNorFlash};

use crate::nor::{NorDriverError, NorStorage};

impl<D: FlashDevice, const READ: usize, const PROG: usize, const ERASE: usize> ReadNorFlash
    for NorStorage<D, READ, PROG, ERASE>
{
    const READ_SIZE: usize = READ;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), NorDriverError> {
        self.device_mut().read(u64::from(offset), bytes).map_err(NorDriverError)
    }

    fn capacity(&self) -> usize {
        self.size()
    }
}

impl<D: FlashDevice, const READ: usize, const PROG: usize, const ERASE: usize> NorFlash
    for NorStorage<D, READ, PROG, ERASE>
{
    const WRITE_SIZE: usize = PROG;
    const ERASE_SIZE: usize = ERASE;

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), NorDriverError> {
        self.erase_range(from, to)
    }

    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), NorDriverError> {
        self.device_mut().prog(u64::from(offset), bytes).map_err(NorDriverError)
    }
}
