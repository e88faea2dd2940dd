//! What the operations have in common on the media: the header's bytes, wiping that is verified.

use atrest_device::{DeviceError, Media};
use atrest_keyslot::luks1::{HEADER_LEN, Header, HeaderError};
use atrest_secret::{OsRandom, Random};

use crate::wiped::first_difference;
use crate::{ChangeError, OpenError};

/// Bytes at the device's start that belong to the header alone: areas start behind them.
pub(crate) const HEADER_AREA: usize = 4096;

/// The header's bytes, not checked. Fails if the device is too small for any.
pub(super) fn header_bytes(device: &dyn Media) -> Result<[u8; HEADER_LEN], OpenError> {
    let mut bytes = [0; HEADER_LEN];
    if device.size() < HEADER_LEN as u64 {
        return Err(OpenError::NotLuks);
    }
    device.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// The header, checked.
pub(crate) fn read_header(device: &dyn Media) -> Result<Header, OpenError> {
    parse(&header_bytes(device)?)
}

/// The header in `bytes`, checked.
pub(super) fn parse(bytes: &[u8]) -> Result<Header, OpenError> {
    Header::parse(bytes).map_err(open_error)
}

pub(super) fn open_error(error: HeaderError) -> OpenError {
    match error {
        HeaderError::Magic => OpenError::NotLuks,
        HeaderError::Version { version } => OpenError::UnknownVersion { version },
        other => OpenError::Luks1(other),
    }
}

/// Writes the header and makes it durable.
pub(crate) fn write_header(device: &dyn Media, header: &Header) -> Result<(), DeviceError> {
    device.write_at(0, &header.encode())?;
    device.flush()
}

/// Overwrites a range with random bytes, makes that durable and reads it back from the media.
pub(super) fn wipe(device: &dyn Media, offset: u64, len: usize) -> Result<(), ChangeError> {
    let mut noise = vec![0; len];
    OsRandom.fill(&mut noise)?;
    device.write_at(offset, &noise)?;
    device.flush()?;
    match first_difference(device, offset, &noise, 1)? {
        Some(offset) => Err(ChangeError::WipeNotVerified { offset }),
        None => Ok(()),
    }
}

/// Position of the first 512-byte sector in a keyslot area that is one byte over and over. Ciphertext never is.
pub(super) fn repeated_byte(area: &[u8]) -> Option<u64> {
    let sector = area.chunks_exact(512).position(|sector| {
        let first = sector.first();
        sector.iter().all(|byte| Some(byte) == first)
    })?;
    // cannot overflow: a place in a slice.
    Some((sector as u64).saturating_mul(512))
}
