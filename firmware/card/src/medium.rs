//! The flash: memory of the emulator, with the rules of NOR.

use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};

/// Bytes in a prog unit.
pub const PROG_SIZE: usize = 16;
/// Bytes in an erase block.
pub const BLOCK_SIZE: usize = 4096;
/// Erase blocks.
pub const BLOCK_COUNT: usize = 64;
const LEN: usize = BLOCK_SIZE * BLOCK_COUNT;

/// Where the emulator has put the image: RAM behind that of the program.
#[cfg(target_arch = "arm")]
pub const BASE: usize = 0x2100_0000;
/// Where the emulator has put the image: RAM behind that of the program.
#[cfg(target_arch = "riscv32")]
pub const BASE: usize = 0x8200_0000;

/// Memory that the emulator has filled.
pub struct Medium(&'static mut [u8]);

impl Medium {
    /// Takes it.
    ///
    /// # Safety
    ///
    /// Nobody takes it twice.
    pub unsafe fn take() -> Self {
        // SAFETY: RAM of the board which no section of the program lies in, and the caller's promise.
        Self(unsafe { core::slice::from_raw_parts_mut(BASE as *mut u8, LEN) })
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        self.0
    }

    fn range(&mut self, address: u64, len: usize) -> &mut [u8] {
        let start = address as usize;
        &mut self.0[start..start + len]
    }
}

const GEOMETRY: FlashGeometry =
    match FlashGeometry::new(PROG_SIZE as u32, PROG_SIZE as u32, BLOCK_SIZE as u32, BLOCK_COUNT as u64) {
        Ok(geometry) => geometry,
        Err(_) => panic!("a geometry"),
    };

impl FlashDevice for Medium {
    fn geometry(&self) -> FlashGeometry {
        GEOMETRY
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        GEOMETRY.check(FlashOperation::Read, address, buf.len() as u64)?;
        buf.copy_from_slice(self.range(address, buf.len()));
        Ok(())
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        GEOMETRY.check(FlashOperation::Prog, address, data.len() as u64)?;
        let units = self.range(address, data.len());
        if units.iter().any(|byte| *byte != 0xff) {
            let cause = FlashCause::AlreadyProgrammed { unit: address };
            return Err(FlashError::new(FlashOperation::Prog, address, data.len() as u64, cause));
        }
        units.copy_from_slice(data);
        Ok(())
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        GEOMETRY.check(FlashOperation::Erase, address, len)?;
        self.range(address, len as usize).fill(0xff);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        Ok(())
    }
}
