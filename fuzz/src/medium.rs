//! Flash in memory, strict about what it is asked, whose power can fail.

use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};

/// What a driver reports that has no power any more.
pub(crate) const NO_POWER: FlashCause = FlashCause::Driver(1);

/// What a medium does with programs and erases until the next sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// Each is durable when it returns.
    Order,
    /// A power loss may lose any of them, and with an erase the later ones in its block.
    Cache,
    /// As with a cache. Erasing changes nothing, and what was programmed can be programmed again.
    Card,
}

/// A medium, and what a power loss makes of it.
#[derive(Clone)]
pub(crate) struct Medium {
    pub bytes: Vec<u8>,
    /// Programs and erases so far.
    pub writes: u64,
    /// So many of them are still done, and the next one is torn.
    pub left: Option<u64>,
    pub has_power: bool,
    pub keeps: Keeps,
    geometry: FlashGeometry,
    /// Places, and what was there before, since the last sync.
    unsynced: Vec<Change>,
}

#[derive(Clone)]
struct Change {
    start: usize,
    before: Vec<u8>,
    after: Vec<u8>,
    erases: bool,
}

impl Medium {
    /// Erased.
    pub fn new(geometry: FlashGeometry, keeps: Keeps) -> Self {
        let bytes = vec![0xff; geometry.size() as usize];
        Self { bytes, writes: 0, left: None, has_power: true, keeps, geometry, unsynced: Vec::new() }
    }

    /// A copy with power, and with nothing in a cache.
    pub fn copy(&self) -> Self {
        Self { left: None, has_power: true, unsynced: Vec::new(), ..self.clone() }
    }

    /// Power comes back. Of what was in the cache stays what has its bit set in `kept`; the lowest is the first operation's.
    pub fn restart(&mut self, kept: u64) {
        let changes = core::mem::take(&mut self.unsynced);
        (self.left, self.has_power) = (None, true);
        if self.keeps == Keeps::Order {
            return;
        }
        for change in changes.iter().rev() {
            self.put(change.start, &change.before);
        }
        let mut lost = Vec::new();
        for (number, change) in changes.iter().enumerate() {
            let block = change.start / self.geometry.erase_size() as usize;
            if lost.contains(&block) {
                continue;
            }
            if kept.rotate_right(number as u32 % 64) & 1 == 1 {
                self.put(change.start, &change.after);
            } else if change.erases {
                lost.push(block);
            }
        }
    }

    fn put(&mut self, start: usize, bytes: &[u8]) {
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// One program or erase; torn, half of it happens.
    fn write(&mut self, operation: FlashOperation, address: u64, after: Vec<u8>) -> Result<(), FlashError> {
        let len = after.len() as u64;
        let failed = |cause| FlashError::new(operation, address, len, cause);
        self.geometry.check(operation, address, len)?;
        if !self.has_power {
            return Err(failed(NO_POWER));
        }
        let torn = self.left == Some(0);
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.writes += 1;
        let start = address as usize;
        let after = if torn { after[..after.len() / 2].to_vec() } else { after };
        let before = self.bytes[start..start + after.len()].to_vec();
        self.put(start, &after);
        let erases = operation == FlashOperation::Erase;
        self.unsynced.push(Change { start, before, after, erases });
        if torn {
            self.has_power = false;
            return Err(failed(NO_POWER));
        }
        Ok(())
    }
}

impl FlashDevice for Medium {
    fn geometry(&self) -> FlashGeometry {
        self.geometry
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.geometry.check(FlashOperation::Read, address, buf.len() as u64)?;
        if !self.has_power {
            return Err(FlashError::new(FlashOperation::Read, address, buf.len() as u64, NO_POWER));
        }
        buf.copy_from_slice(&self.bytes[address as usize..][..buf.len()]);
        Ok(())
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.geometry.check(FlashOperation::Prog, address, data.len() as u64)?;
        let place = &self.bytes[address as usize..][..data.len()];
        let blank = self.keeps == Keeps::Card || !self.has_power || place.iter().all(|byte| *byte == 0xff);
        assert!(blank, "{address:#x} is programmed that was not erased");
        self.write(FlashOperation::Prog, address, data.to_vec())
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.geometry.check(FlashOperation::Erase, address, len)?;
        if self.keeps == Keeps::Card {
            return if self.has_power {
                Ok(())
            } else {
                Err(FlashError::new(FlashOperation::Erase, address, len, NO_POWER))
            };
        }
        self.write(FlashOperation::Erase, address, vec![0xff; len as usize])
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        if !self.has_power {
            return Err(FlashError::new(FlashOperation::Sync, 0, 0, NO_POWER));
        }
        self.unsynced.clear();
        Ok(())
    }

    fn erased_byte(&self) -> Option<u8> {
        (self.keeps != Keeps::Card).then_some(0xff)
    }
}
