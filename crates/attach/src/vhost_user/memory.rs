//! The guest's memory: which files it lies in, and where the front-end has it in its own address space.

use std::fs::File;
use std::io;
use std::sync::Arc;
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vhost::vhost_user::{Error, Result};
use vm_memory::{GuestAddress, GuestMemoryMmap, GuestRegionMmap};

/// Memory that a guest may change at any time.
pub(super) type Memory = GuestMemoryMmap<()>;

/// The regions of a guest.
#[derive(Default)]
pub(super) struct Table {
    pub memory: Arc<Memory>,
    regions: Vec<Region>,
}

struct Region {
    /// First byte in the front-end's address space.
    user: u64,
    len: u64,
    guest: u64,
}

impl Table {
    /// Maps what the front-end has sent. A file that is too short is refused.
    pub fn map(sent: &[VhostUserMemoryRegion], files: Vec<File>) -> Result<Self> {
        let (mut maps, mut regions) = (Vec::new(), Vec::new());
        for (region, file) in sent.iter().zip(files) {
            // The fields of a packed structure are copied, not borrowed.
            let (user, len, guest) = (region.user_addr, region.memory_size, region.guest_phys_addr);
            // Where a file ends before its map, every access to the rest would end this process.
            let file_len = file.metadata().map_err(Error::ReqHandlerError)?.len();
            if region.mmap_offset.checked_add(len).is_none_or(|end| end > file_len) {
                return Err(Error::InvalidParam);
            }
            let map = GuestRegionMmap::new(region.mmap_region(file)?, GuestAddress(guest));
            maps.push(map.ok_or(Error::InvalidParam)?);
            regions.push(Region { user, len, guest });
        }
        let memory =
            Memory::from_regions(maps).map_err(|error| Error::ReqHandlerError(io::Error::other(error)))?;
        Ok(Self { memory: Arc::new(memory), regions })
    }

    /// Where the guest has an address of the front-end.
    pub fn guest_address(&self, user: u64) -> Option<GuestAddress> {
        self.regions.iter().find_map(|region| {
            let inside = user.checked_sub(region.user).filter(|&inside| inside < region.len)?;
            region.guest.checked_add(inside).map(GuestAddress)
        })
    }
}
