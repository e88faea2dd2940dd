//! Whether there is a flash header on a file or device, and which sizes it was made for. FORMATS.md, "Flash header".

use atrest_device::{BlockDevice, DeviceError};
use atrest_keyslot::flash::{FlashSizes, HEADER_LEN, Header, HeaderError, MAGIC};

/// Why no header was found.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetectError {
    /// The media failed.
    Device(DeviceError),
    /// Something else is there, or nothing.
    NotFlash,
    /// There is the start of a header, and not all of it.
    Truncated {
        /// Bytes in all.
        len: u64,
    },
    /// A header is there, and neither copy of it is whole or acceptable.
    Header(HeaderError),
}

/// The sizes that a header names, from either copy. The first one may be damaged: the second lies at an erase size,
/// which is tried if it is a power of two or `erase_size`.
///
/// # Errors
/// [`DetectError::NotFlash`] if there is no header at all, [`DetectError::Header`] if there is one and
/// neither copy is good, [`DetectError::Truncated`] if the device ends inside one, [`DetectError::Device`] if
/// reading fails.
pub fn detect(device: &dyn BlockDevice, erase_size: Option<u32>) -> Result<FlashSizes, DetectError> {
    if is_cut_off(device)? {
        return Err(DetectError::Truncated { len: device.size() });
    }
    let first = match look(device, 0)? {
        Ok(sizes) => return Ok(sizes),
        Err(error) => error,
    };
    let powers = (9..=24).map(|bits| 1_u64 << bits);
    let mut second = None;
    for start in erase_size.map(second_copy).into_iter().chain(powers) {
        match look(device, start)? {
            Ok(sizes) if second_copy(sizes.erase_size) == start => return Ok(sizes),
            Err(HeaderError::Blank | HeaderError::Foreign) | Ok(_) => {}
            Err(error) => second = second.or(Some(error)),
        }
    }
    match (first, second) {
        (HeaderError::Blank | HeaderError::Foreign, None) => Err(DetectError::NotFlash),
        (HeaderError::Blank | HeaderError::Foreign, Some(error)) | (error, _) => {
            Err(DetectError::Header(error))
        }
    }
}

/// Whether a file begins as a header does and ends within it.
fn is_cut_off(device: &dyn BlockDevice) -> Result<bool, DetectError> {
    if !(MAGIC.len() as u64..HEADER_LEN as u64).contains(&device.size()) {
        return Ok(false);
    }
    let mut start = [0; MAGIC.len()];
    device.read_at(0, &mut start).map_err(DetectError::Device)?;
    Ok(start == MAGIC)
}

fn look(device: &dyn BlockDevice, start: u64) -> Result<Result<FlashSizes, HeaderError>, DetectError> {
    // intended: what overflows lies behind the end.
    if start.saturating_add(HEADER_LEN as u64) > device.size() {
        return Ok(Err(HeaderError::Foreign));
    }
    let mut bytes = [0; HEADER_LEN];
    device.read_at(start, &mut bytes).map_err(DetectError::Device)?;
    Ok(Header::parse(&bytes).map(|header| header.params().sizes))
}

/// Where the second copy lies: behind the whole erase blocks of the first.
fn second_copy(erase_size: u32) -> u64 {
    (HEADER_LEN as u64).next_multiple_of(u64::from(erase_size.max(1)))
}
