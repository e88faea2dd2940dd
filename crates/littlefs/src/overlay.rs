//! Changes that stay in memory: what a power loss left is put in order for a reader without touching the medium.

use core::ops::Range;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};

/// A device whose programs and erases go to copies of its blocks, or, without those, to the device.
pub(crate) struct Overlay<D> {
    device: D,
    /// Changed blocks by their number; none where changes go to the device.
    blocks: Option<BTreeMap<u64, Vec<u8>>>,
}

const ERASED: u8 = 0xff;

impl<D: FlashDevice> Overlay<D> {
    pub fn new(device: D, in_memory: bool) -> Self {
        Self { device, blocks: in_memory.then(BTreeMap::new) }
    }

    pub fn into_device(self) -> D {
        self.device
    }

    /// The block that a transfer lies in, and the bytes in it. littlefs has none that reaches over a block's end.
    fn place(
        &self,
        operation: FlashOperation,
        address: u64,
        len: u64,
    ) -> Result<(u64, Range<usize>), FlashError> {
        let geometry = self.geometry();
        let erase = geometry.erase_size();
        let within = |number: u64| usize::try_from(number).ok();
        let place = address.checked_div(erase.into()).zip(address.checked_rem(erase.into()));
        let place = place.and_then(|(block, start)| {
            let end = start.checked_add(len).filter(|end| *end <= erase.into())?;
            Some((block, within(start)?..within(end)?))
        });
        let cause = FlashCause::OutOfBounds { size: geometry.size() };
        place.ok_or_else(|| FlashError::new(operation, address, len, cause))
    }
}

impl<D: FlashDevice> FlashDevice for Overlay<D> {
    fn geometry(&self) -> FlashGeometry {
        self.device.geometry()
    }

    /// As littlefs does, within one block.
    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        let Some(blocks) = &self.blocks else { return self.device.read(address, buf) };
        let (block, bytes) = self.place(FlashOperation::Read, address, buf.len() as u64)?;
        match blocks.get(&block).and_then(|copy| copy.get(bytes)) {
            Some(copy) => {
                buf.copy_from_slice(copy);
                Ok(())
            }
            None => self.device.read(address, buf),
        }
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        if self.blocks.is_none() {
            return self.device.prog(address, data);
        }
        let (block, bytes) = self.place(FlashOperation::Prog, address, data.len() as u64)?;
        let geometry = self.geometry();
        let blocks = self.blocks.get_or_insert_default();
        geometry.check(FlashOperation::Prog, address, data.len() as u64)?;
        let copy = match blocks.entry(block) {
            Entry::Occupied(copied) => copied.into_mut(),
            Entry::Vacant(place) => {
                let mut copy = vec![ERASED; geometry.erase_size() as usize];
                // cannot overflow: the block lies on the medium.
                self.device.read(block.saturating_mul(geometry.erase_size().into()), &mut copy)?;
                place.insert(copy)
            }
        };
        let cause = FlashCause::OutOfBounds { size: geometry.size() };
        let place = copy.get_mut(bytes);
        let place =
            place.ok_or_else(|| FlashError::new(FlashOperation::Prog, address, data.len() as u64, cause))?;
        place.copy_from_slice(data);
        Ok(())
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        let Some(blocks) = &mut self.blocks else { return self.device.erase(address, len) };
        let geometry = self.device.geometry();
        geometry.check(FlashOperation::Erase, address, len)?;
        let erase = u64::from(geometry.erase_size());
        // cannot overflow: the range lies on the medium, whose erase blocks have bytes.
        let first = address.checked_div(erase).unwrap_or(0);
        let count = len.checked_div(erase).unwrap_or(0);
        for block in (first..).zip(0..count).map(|(block, _)| block) {
            blocks.insert(block, vec![ERASED; geometry.erase_size() as usize]);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        match self.blocks {
            Some(_) => Ok(()),
            None => self.device.sync(),
        }
    }

    fn erased_byte(&self) -> Option<u8> {
        self.device.erased_byte()
    }

    fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        let Some(blocks) = &self.blocks else { return self.device.is_blank(address, len, scratch) };
        let (block, bytes) = self.place(FlashOperation::BlankQuery, address, len)?;
        match blocks.get(&block).and_then(|copy| copy.get(bytes)) {
            Some(copy) => Ok(copy.iter().all(|byte| *byte == ERASED)),
            None => self.device.is_blank(address, len, scratch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atrest_testkit::flash::EmulatedFlash;

    #[test]
    fn no_change_is_lost_that_reaches_over_a_block() {
        let geometry = FlashGeometry::new(16, 16, 128, 4).expect("sizes of a flash medium");
        let mut flash = EmulatedFlash::new(geometry);
        flash.erase(0, 512).expect("erased");
        let mut overlay = Overlay::new(flash, true);
        overlay.prog(112, &[1; 16]).expect("programmed");
        // It would lie in two copies: none of it is written, and what was programmed before stays.
        let cause = FlashCause::OutOfBounds { size: 512 };
        assert_eq!(overlay.prog(112, &[2; 32]), Err(FlashError::new(FlashOperation::Prog, 112, 32, cause)));
        let mut buf = [0; 32];
        assert_eq!(overlay.read(112, &mut buf), Err(FlashError::new(FlashOperation::Read, 112, 32, cause)));
        let (first, second) = buf.split_at_mut(16);
        overlay.read(112, first).expect("read");
        overlay.read(128, second).expect("read");
        assert_eq!((&*first, &*second), (&[1; 16][..], &[ERASED; 16][..]));
        // The medium has none of it.
        let mut device = overlay.into_device();
        device.read(112, &mut buf[..16]).expect("read");
        assert_eq!(buf[..16], [ERASED; 16]);
    }
}
