//! What boot sectors have in common, whatever file system they begin.

use atrest_device::BlockDevice;
use atrest_filetree::TreeError;

use crate::fault::{Damage, Field};

/// Reads a boot sector: the first 512 bytes.
pub(crate) fn read(device: &dyn BlockDevice) -> Result<[u8; 512], TreeError> {
    let mut sector = [0; 512];
    device.read_at(0, &mut sector)?;
    Ok(sector)
}

/// A field of it is impossible.
pub(crate) fn bad(field: Field) -> TreeError {
    Damage::Superblock(field).into()
}

/// Bytes in so many sectors, as far as they can lie on a device.
pub(crate) fn bytes(sectors: u64, sector_size: u64) -> Option<u64> {
    sectors.checked_mul(sector_size).filter(|bytes| *bytes <= i64::MAX as u64)
}

/// Checks that the device has all the bytes that the file system takes.
pub(crate) fn check_fits(needs: u64, device: &dyn BlockDevice) -> Result<(), TreeError> {
    let has = device.size();
    if needs > has {
        return Err(TreeError::LargerThanDevice { needs, has });
    }
    Ok(())
}
