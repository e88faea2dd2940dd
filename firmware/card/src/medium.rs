//! Flash: memory of the emulator, with the rules of NOR.

use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};

/// Bytes in a prog unit.
pub const PROG_SIZE: usize = 16;
/// Bytes in an erase block.
pub const BLOCK_SIZE: usize = 4096;
/// Erase blocks.
pub const BLOCK_COUNT: usize = 64;

/// Where the emulator has put the image: RAM behind that of the program.
#[cfg(target_arch = "arm")]
pub const BASE: usize = 0x2100_0000;
/// Where the emulator has put the image: RAM behind that of the program.
#[cfg(target_arch = "riscv32")]
pub const BASE: usize = 0x8200_0000;

/// The medium that everybody can write.
pub type Medium = Flash<BASE, BLOCK_COUNT>;

/// Pages of the chip's own flash, which nobody else can write. The emulator has put them there, too.
pub type Pages = Flash<{ BASE + (3 << 20) }, 2>;

/// Memory that the emulator has filled, from an address on, with so many erase blocks.
pub struct Flash<const AT: usize, const BLOCKS: usize>(&'static mut [u8]);

impl<const AT: usize, const BLOCKS: usize> Flash<AT, BLOCKS> {
    const GEOMETRY: FlashGeometry =
        match FlashGeometry::new(PROG_SIZE as u32, PROG_SIZE as u32, BLOCK_SIZE as u32, BLOCKS as u64) {
            Ok(geometry) => geometry,
            Err(_) => panic!("a geometry"),
        };

    /// Takes it.
    ///
    /// # Safety
    ///
    /// Nobody takes it twice.
    pub unsafe fn take() -> Self {
        // SAFETY: RAM of the board which no section of the program lies in, and the caller's promise.
        Self(unsafe { core::slice::from_raw_parts_mut(AT as *mut u8, BLOCKS * BLOCK_SIZE) })
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

impl<const AT: usize, const BLOCKS: usize> FlashDevice for Flash<AT, BLOCKS> {
    fn geometry(&self) -> FlashGeometry {
        Self::GEOMETRY
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        Self::GEOMETRY.check(FlashOperation::Read, address, buf.len() as u64)?;
        buf.copy_from_slice(self.range(address, buf.len()));
        Ok(())
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        Self::GEOMETRY.check(FlashOperation::Prog, address, data.len() as u64)?;
        let units = self.range(address, data.len());
        if units.iter().any(|byte| *byte != 0xff) {
            let cause = FlashCause::AlreadyProgrammed { unit: address };
            return Err(FlashError::new(FlashOperation::Prog, address, data.len() as u64, cause));
        }
        units.copy_from_slice(data);
        Ok(())
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        Self::GEOMETRY.check(FlashOperation::Erase, address, len)?;
        self.range(address, len as usize).fill(0xff);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        Ok(())
    }
}
