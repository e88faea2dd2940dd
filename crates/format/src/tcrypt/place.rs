//! Where headers are, and where the data of a header's volume lies.

use core::fmt;

use super::{HEADER_LEN, Header, Mode};

/// Bytes in front of the hidden volume's header, and of each header's area.
const AREA: u64 = 65_536;
/// Where a drive has the header of its encrypted system.
const SYSTEM: u64 = 31_744;
/// Bytes from the header of a hidden volume of TrueCrypt before 6.0 to the end.
const OLD_HIDDEN: u64 = 1536;

/// Where a header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the beginning.
    Normal,
    /// Behind the normal one's area.
    Hidden,
    /// Three sectors before the end: a hidden volume of TrueCrypt before 6.0.
    OldHidden,
    /// Near the end: a copy of the normal one.
    Backup,
    /// Near the end: a copy of the hidden one.
    HiddenBackup,
    /// In the last sector of the first track of a drive whose system is encrypted.
    System,
}

/// Where data lies on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// First byte of it.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// Number of the first data unit's tweak, in units of 512 bytes.
    pub first_unit: u64,
}

/// Why there is no place for the data.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// The data of an intact header would not lie on the device, or not in whole data units.
    Outside {
        /// First byte of it.
        start: u64,
        /// Bytes.
        len: u64,
        /// Bytes of the device.
        device: u64,
    },
    /// The program was interrupted while it encrypted in place: only a part of the data is encrypted.
    Unfinished {
        /// Bytes that are.
        encrypted: u64,
        /// Bytes in all.
        size: u64,
    },
    /// The volume is a system that boots, whose header was not looked for.
    System,
    /// The partition is no part of the encrypted system whose header the drive has.
    Partition {
        /// First byte of the partition on its drive, if that is known.
        start: Option<u64>,
        /// Bytes of it.
        len: u64,
        /// First byte of the system on the drive.
        system: u64,
        /// Bytes of that.
        size: u64,
    },
}

impl Place {
    /// First byte of the header on a device of so many bytes; `None` if it is too small.
    pub fn offset(self, device: u64) -> Option<u64> {
        let behind =
            |offset: u64| offset.checked_add(HEADER_LEN as u64).filter(|end| *end <= device).map(|_| offset);
        match self {
            Self::Normal => behind(0),
            Self::System => behind(SYSTEM),
            Self::Hidden => behind(AREA),
            Self::OldHidden => device.checked_sub(OLD_HIDDEN),
            Self::Backup => device.checked_sub(AREA.saturating_mul(2)), // cannot overflow: a constant
            Self::HiddenBackup => device.checked_sub(AREA),
        }
    }

    /// The places of the header and of its copy, of which this is one; `None` of headers that have no copy.
    pub fn pair(self) -> Option<[Self; 2]> {
        match self {
            Self::Normal | Self::Backup => Some([Self::Normal, Self::Backup]),
            Self::Hidden | Self::HiddenBackup => Some([Self::Hidden, Self::HiddenBackup]),
            Self::OldHidden | Self::System => None,
        }
    }

    /// Whether the volume is a hidden one.
    pub fn is_hidden(self) -> bool {
        matches!(self, Self::Hidden | Self::OldHidden | Self::HiddenBackup)
    }
}

impl Header {
    /// Where the data is, by this header, which was found at `place` on a device of so many bytes and decrypted in `mode`.
    ///
    /// # Errors
    /// [`LayoutError`] if it can't be there, is not all encrypted, or belongs to a system.
    pub fn layout(&self, place: Place, mode: Mode, device: u64) -> Result<Layout, LayoutError> {
        // Not every header of a system has the flag.
        if self.flags & Self::SYSTEM != 0 && place != Place::System {
            return Err(LayoutError::System);
        }
        let old_hidden = place.is_hidden() && (mode != Mode::Xts || self.version <= 3);
        let (start, len) = if old_hidden {
            // intended: what does not fit is refused below.
            let behind = self.hidden_size.saturating_add(OLD_HIDDEN);
            (device.checked_sub(behind), Some(self.hidden_size))
        } else if self.version < 4 {
            // These headers have no size of their own.
            let start = if self.data_start == 0 || mode != Mode::Xts || self.version < 3 {
                512
            } else {
                self.data_start
            };
            (Some(start), device.checked_sub(start))
        } else {
            (Some(self.data_start), Some(self.size))
        };
        let outside = |start: Option<u64>, len: Option<u64>| LayoutError::Outside {
            // intended: for people.
            start: start.unwrap_or(0),
            len: len.or(Some(self.size)).unwrap_or(0), // intended: for people
            device,
        };
        let (Some(first), Some(bytes)) = (start, len) else { return Err(outside(start, len)) };
        let fits = first.checked_add(bytes).is_some_and(|end| end <= device);
        let whole = first.is_multiple_of(512) && bytes.is_multiple_of(512);
        // The header itself is no data.
        if !fits || !whole || bytes == 0 || first < HEADER_LEN as u64 {
            return Err(outside(start, len));
        }
        if self.version >= 4 && self.encrypted_size != self.size {
            return Err(LayoutError::Unfinished { encrypted: self.encrypted_size, size: self.size });
        }
        let first_unit = match mode {
            // cannot be none: 512 is not 0.
            Mode::Xts => first.checked_div(512).unwrap_or(0),
            // Also where the data of a hidden volume is elsewhere.
            // cannot be none: 512 is not 0.
            Mode::Cbc => self.data_start.max(512).checked_div(512).unwrap_or(0),
            Mode::Lrw => 0,
        };
        Ok(Layout { start: first, len: bytes, first_unit })
    }

    /// Where the data of one partition of an encrypted system is, counted from the beginning of the partition, which has `len` bytes and begins with byte
    /// `start` of its drive. Where that is not known, it has to be the only one of the system: it begins where the system does.
    ///
    /// # Errors
    /// [`LayoutError`] if the partition lies elsewhere or the system is not all encrypted.
    pub fn layout_of_partition(
        &self,
        mode: Mode,
        start: Option<u64>,
        len: u64,
    ) -> Result<Layout, LayoutError> {
        let outside = LayoutError::Partition { start, len, system: self.data_start, size: self.size };
        // Programs that encrypt systems came with XTS.
        if mode != Mode::Xts || self.version < 4 || (start.is_none() && len != self.size) {
            return Err(outside);
        }
        let first = start.unwrap_or(self.data_start); // intended: it is as long as the system, and so begins with it
        let ends = |start: u64, len: u64| start.checked_add(len);
        let (Some(end), Some(system_end)) = (ends(first, len), ends(self.data_start, self.size)) else {
            return Err(outside);
        };
        let whole = first.is_multiple_of(512) && len.is_multiple_of(512) && len > 0;
        // cannot overflow: constants. The header itself is no data.
        let behind_header = first >= SYSTEM.saturating_add(HEADER_LEN as u64);
        if first < self.data_start || end > system_end || !whole || !behind_header {
            return Err(outside);
        }
        if self.encrypted_size != self.size {
            return Err(LayoutError::Unfinished { encrypted: self.encrypted_size, size: self.size });
        }
        // cannot be none: 512 is not 0.
        Ok(Layout { start: 0, len, first_unit: first.checked_div(512).unwrap_or(0) })
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside { start, len, device } => {
                write!(
                    f,
                    "by its header the volume has {len} bytes from byte {start} on, but the device has {device}"
                )
            }
            Self::Unfinished { encrypted, size } => {
                write!(f, "only {encrypted} of the volume's {size} bytes are encrypted so far")
            }
            Self::System => f.write_str("the volume is an encrypted system"),
            Self::Partition { start, len, system, size } => {
                write!(
                    f,
                    "the encrypted system of the drive has {size} bytes from byte {system} on, and a partition of {len} bytes"
                )?;
                if let Some(start) = start {
                    write!(f, " from byte {start} on")?;
                }
                f.write_str(" is no part of it")
            }
        }
    }
}

impl core::error::Error for LayoutError {}
