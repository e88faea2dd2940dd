//! Changes that stay in memory: what a power loss left is put in order for a reader without touching the medium.

use std::collections::BTreeMap;

use atrest_device::{FlashDevice, FlashError, FlashGeometry, FlashOperation};

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

    /// Block and byte in it.
    fn place(&self, address: u64) -> (u64, usize) {
        let erase = u64::from(self.geometry().erase_size());
        let byte = address.checked_rem(erase).unwrap_or(0);
        (address.checked_div(erase).unwrap_or(0), usize::try_from(byte).unwrap_or(usize::MAX))
    }

    /// The copy of a block that is in memory, and the range of it that a transfer within one block means.
    fn copied(&mut self, address: u64, len: usize) -> Option<&mut [u8]> {
        let (block, byte) = self.place(address);
        self.blocks.as_mut()?.get_mut(&block)?.get_mut(byte..byte.checked_add(len)?)
    }
}

impl<D: FlashDevice> FlashDevice for Overlay<D> {
    fn geometry(&self) -> FlashGeometry {
        self.device.geometry()
    }

    /// As littlefs does, within one block.
    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        match self.copied(address, buf.len()) {
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
        self.geometry().check(FlashOperation::Prog, address, data.len() as u64)?;
        if self.copied(address, data.len()).is_none() {
            let (block, _) = self.place(address);
            let erase = self.geometry().erase_size();
            let mut copy = vec![ERASED; erase as usize];
            self.device.read(block.saturating_mul(u64::from(erase)), &mut copy)?;
            self.blocks.get_or_insert_default().insert(block, copy);
        }
        if let Some(copy) = self.copied(address, data.len()) {
            copy.copy_from_slice(data);
        }
        Ok(())
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        let Some(blocks) = &mut self.blocks else { return self.device.erase(address, len) };
        let geometry = self.device.geometry();
        geometry.check(FlashOperation::Erase, address, len)?;
        let erase = geometry.erase_size();
        for at in (address..address.saturating_add(len)).step_by(erase as usize) {
            blocks.insert(at.checked_div(u64::from(erase)).unwrap_or(0), vec![ERASED; erase as usize]);
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
        let whole = usize::try_from(len).unwrap_or(usize::MAX);
        match self.copied(address, whole) {
            Some(copy) => Ok(copy.iter().all(|byte| *byte == ERASED)),
            None => self.device.is_blank(address, len, scratch),
        }
    }
}
