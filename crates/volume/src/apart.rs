//! Header and data must not share a byte. A header that describes data on another device says that the data begins at
//! byte 0; served as if it were the volume itself, its first write destroys it. So each format asks here before it
//! gives out a segment or writes data, whatever paths the devices were opened by.

use core::fmt;

use atrest_device::{Media, Storage};

use crate::{Devices, OptionError, UnlockError};

/// Data that would lie over the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlap {
    /// First byte of the data on the data device.
    pub(crate) data: u64,
    /// End of the header on its device.
    pub(crate) header: u64,
}

impl<'a> Devices<'a> {
    /// Header and data on one device, or the header on a device of its own. A header device that is the data device
    /// under another name counts as one device.
    pub fn with_header(header: Option<&'a dyn Media>, data: &'a dyn Media) -> Self {
        let detached = header.map(|header| Self::detached(header, data));
        match detached {
            Some(devices) if devices.places() != Some((0, 0)) => devices,
            _ => Self::together(data),
        }
    }

    /// Fails if `len` bytes of data at `offset` reach into the header, which takes the first `header` bytes of its
    /// device. An empty run is judged by where it begins.
    pub(crate) fn check_apart(&self, header: u64, offset: u64, len: u64) -> Result<(), Overlap> {
        let Some((header_at, data_at)) = self.places() else { return Ok(()) };
        let [header_at, data_at] = [header_at, data_at].map(u128::from);
        // cannot overflow: sums of three numbers of 64 bits fit in 128.
        let header_end = header_at.saturating_add(header.into());
        let from = data_at.saturating_add(offset.into());
        let to = from.saturating_add(len.max(1).into());
        match from < header_end && header_at < to {
            true => Err(Overlap { data: offset, header }),
            false => Ok(()),
        }
    }

    /// Where header device and data device begin in the storage that they share; `None` if they share none.
    fn places(&self) -> Option<(u64, u64)> {
        let same = !self.detached || core::ptr::addr_eq(self.header, self.data);
        if same {
            return Some((0, 0));
        }
        let (header, data): (Storage, Storage) = (self.header.storage()?, self.data.storage()?);
        (header.id == data.id).then_some((header.offset, data.offset))
    }
}

impl From<Overlap> for UnlockError {
    fn from(Overlap { data, header }: Overlap) -> Self {
        Self::DataOverHeader { data, header }
    }
}

impl From<Overlap> for OptionError {
    fn from(Overlap { data, header }: Overlap) -> Self {
        Self::DataOverHeader { data, header }
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, header } = self;
        write!(
            f,
            "header and data are on one device, and data at byte {data} would lie over the header, which ends at byte {header}"
        )
    }
}

#[cfg(test)]
mod tests {
    use atrest_testkit::FaultDevice;

    use super::*;

    #[test]
    fn data_touches_the_header_from_its_first_byte_to_its_last() {
        let (device, other) = (FaultDevice::zeroed(8192), FaultDevice::zeroed(8192));
        let together = Devices::together(&device);
        for (header, offset, len, touches) in [
            (4096, 0, 8192, true),
            (4096, 4095, 1, true),
            (4096, 4096, 4096, false),
            (4096, 0, 0, true),
            (4096, 4096, 0, false),
            (0, 0, 8192, false),
            (4096, u64::MAX, u64::MAX, false),
        ] {
            let expected = if touches { Err(Overlap { data: offset, header }) } else { Ok(()) };
            assert_eq!(together.check_apart(header, offset, len), expected, "{header} {offset} {len}");
            let twice = Devices::detached(&device, &device);
            assert_eq!(twice.check_apart(header, offset, len), expected, "one device under two names");
            assert_eq!(Devices::detached(&other, &device).check_apart(header, offset, len), Ok(()));
        }
    }
}
