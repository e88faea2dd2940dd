//! An image of a flash medium, or a card, as a flash device.

use std::sync::Arc;

use atrest_device::{BlockDevice, FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};

use crate::FileDevice;

/// Bytes erased at once.
const PIECE: usize = 64 << 10;
const ERASED: u8 = 0xff;

/// A file that holds what a flash medium holds, or a block device that is a card.
///
/// A file keeps to the rules of NOR flash: erased bytes are 0xFF, and a unit is programmed once between two erases, so
/// that a chip to which it is written takes it as it is. A card erases by itself: erasing does nothing, and there is no
/// notion of a blank unit.
pub struct FileFlash {
    device: Arc<FileDevice>,
    geometry: FlashGeometry,
}

impl FileFlash {
    /// As much of the device as the geometry says.
    ///
    /// # Errors
    /// [`FlashCause::OutOfBounds`] if the device is smaller.
    pub fn new(device: Arc<FileDevice>, geometry: FlashGeometry) -> Result<Self, FlashError> {
        let size = device.size();
        if geometry.size() > size {
            let cause = FlashCause::OutOfBounds { size };
            return Err(FlashError::new(FlashOperation::Read, 0, geometry.size(), cause));
        }
        Ok(Self { device, geometry })
    }

    /// Makes all of it blank, as a new chip is. Cards are left as they are.
    ///
    /// # Errors
    /// [`FlashError`] if the device is read-only or writing fails.
    pub fn erase_all(&mut self) -> Result<(), FlashError> {
        self.erase(0, self.geometry.size())
    }

    fn is_card(&self) -> bool {
        self.device.is_block_device()
    }

    /// The first unit of a range that is not blank.
    fn programmed(&mut self, address: u64, len: usize) -> Result<Option<u64>, FlashError> {
        let mut old = vec![0; len];
        self.read(address, &mut old)?;
        let unit = self.geometry.prog_size() as usize;
        let used = old.chunks(unit).position(|unit| unit.iter().any(|byte| *byte != ERASED));
        Ok(used.map(|index| address + (index * unit) as u64))
    }
}

impl FlashDevice for FileFlash {
    fn geometry(&self) -> FlashGeometry {
        self.geometry
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.geometry.check(FlashOperation::Read, address, buf.len() as u64)?;
        self.device.read_at(address, buf).map_err(|error| FlashError::of_device(FlashOperation::Read, error))
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        let len = data.len() as u64;
        self.geometry.check(FlashOperation::Prog, address, len)?;
        if !self.is_card()
            && let Some(unit) = self.programmed(address, data.len())?
        {
            let cause = FlashCause::AlreadyProgrammed { unit };
            return Err(FlashError::new(FlashOperation::Prog, address, len, cause));
        }
        self.device
            .write_at(address, data)
            .map_err(|error| FlashError::of_device(FlashOperation::Prog, error))
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.geometry.check(FlashOperation::Erase, address, len)?;
        let blank = vec![ERASED; if self.is_card() { 0 } else { PIECE.min(len as usize) }];
        let mut at = address;
        while at < address + len && !blank.is_empty() {
            let piece = &blank[..blank.len().min((address + len - at) as usize)];
            self.device
                .write_at(at, piece)
                .map_err(|error| FlashError::of_device(FlashOperation::Erase, error))?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.device.flush().map_err(|error| FlashError::of_device(FlashOperation::Sync, error))
    }

    fn erased_byte(&self) -> Option<u8> {
        (!self.is_card()).then_some(ERASED)
    }
}

impl core::fmt::Debug for FileFlash {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FileFlash").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use atrest_testkit::Scratch;

    use super::*;
    use crate::NewFile;

    #[test]
    fn a_file_keeps_to_the_rules_of_nor_flash() {
        let dir = Scratch::new();
        let path = dir.path("image");
        NewFile::create(&path, 10_000).and_then(NewFile::appear).expect("made");
        let device = Arc::new(FileDevice::open(&path, crate::Access::ReadWriteExclusive).expect("open"));
        let geometry = |blocks| FlashGeometry::new(16, 16, 4096, blocks).expect("a geometry");
        let small = FileFlash::new(device.clone(), geometry(3)).map(drop).expect_err("too small");
        assert_eq!(small.cause, FlashCause::OutOfBounds { size: 10_000 });
        let mut flash = FileFlash::new(device, geometry(2)).expect("a device");
        let cause = |result: Result<(), FlashError>| result.map_err(|error| error.cause);
        let twice = Err(FlashCause::AlreadyProgrammed { unit: 32 });
        assert_eq!(cause(flash.prog(32, &[1; 32])), twice, "zeros are not blank");
        flash.erase_all().expect("erased");
        assert_eq!(flash.is_blank(0, 8192, &mut [0; 64]), Ok(true));
        flash.prog(32, &[1; 32]).expect("programmed");
        assert_eq!(cause(flash.prog(16, &[1; 32])), twice);
        flash.erase(0, 4096).expect("erased");
        flash.prog(32, &[2; 16]).expect("programmed again");
        assert_eq!(cause(flash.erase(4096, 8192)), Err(FlashCause::OutOfBounds { size: 8192 }));
        flash.sync().expect("durable");
        let bytes = std::fs::read(&path).expect("read");
        assert_eq!(
            (&bytes[..32], &bytes[32..48], &bytes[48..64]),
            (&[0xff; 32][..], &[2; 16][..], &[0xff; 16][..])
        );
        assert_eq!(bytes[8192..], [0; 10_000 - 8192], "what is behind the medium is left alone");
    }
}
