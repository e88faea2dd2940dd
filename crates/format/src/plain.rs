//! Plain mode: no header at all. What a header would say, the caller has to say, and to remember.
//!
//! This follows dm-crypt's table line (kernel, Documentation/admin-guide/device-mapper/dm-crypt.rst) and
//! cryptsetup(8), `open --type plain`: offset, skip and size count 512-byte sectors whatever the data unit is.

use core::fmt;

use atrest_cipher::CipherSpec;

/// Bytes in the sectors that offset, skip and size count.
const SECTOR: u64 = 512;

/// Everything about a plain volume but its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainOptions {
    /// Cipher.
    pub cipher: CipherSpec,
    /// Bytes in the key.
    pub key_len: usize,
    /// First sector of the data on the device.
    pub offset: u64,
    /// Number of sectors that is added to the IVs: the position in some larger encrypted whole.
    pub skip: u64,
    /// Sectors of data; `None` is up to the device's end.
    pub size: Option<u64>,
    /// Bytes in a data unit: 512, 1024, 2048 or 4096.
    pub data_unit: u32,
    /// IVs count data units instead of sectors.
    pub iv_large: bool,
}

impl PlainOptions {
    /// A cipher and a key length, with everything else as dm-crypt has it by default.
    pub fn new(cipher: CipherSpec, key_len: usize) -> Self {
        Self { cipher, key_len, offset: 0, skip: 0, size: None, data_unit: 512, iv_large: false }
    }

    /// Where the data lies on a device of `device_size` bytes, if the options fit together and fit the device.
    ///
    /// # Errors
    /// [`PlainError::BeyondDevice`] if the data does not lie inside the device or nothing is left of it
    /// behind the offset, [`PlainError::Empty`] for a size of 0. The others say which option is impossible,
    /// or which two do not go together.
    pub fn layout(&self, device_size: u64) -> Result<PlainLayout, PlainError> {
        if self.cipher.is_null() {
            return Err(PlainError::NullCipher);
        }
        if !self.cipher.key_len_is_valid(self.key_len) {
            return Err(PlainError::KeyLen { bytes: self.key_len, takes: self.cipher.key_lens() });
        }
        if !matches!(self.data_unit, 512 | 1024 | 2048 | 4096) {
            return Err(PlainError::DataUnit { bytes: self.data_unit });
        }
        if self.iv_large && self.data_unit == 512 {
            return Err(PlainError::NothingLarge);
        }
        let unit = u64::from(self.data_unit);
        let unit_sectors = unit / SECTOR;
        let device = device_size / SECTOR;
        let beyond = PlainError::BeyondDevice {
            first: self.offset,
            // intended: for people; what overflows is beyond every device.
            end: self.offset.saturating_add(self.size.unwrap_or(unit_sectors)),
            device,
        };
        let rest = device.checked_sub(self.offset).ok_or(beyond)?;
        let sectors = self.size.unwrap_or(rest);
        if sectors > rest || rest == 0 {
            return Err(beyond);
        }
        if sectors == 0 {
            return Err(PlainError::Empty);
        }
        for (what, value) in [(PlainField::Size, sectors), (PlainField::Skip, self.skip)] {
            if !value.is_multiple_of(unit_sectors) {
                return Err(PlainError::Misaligned { field: what, sectors: value, multiple: unit_sectors });
            }
        }
        let iv_offset = match self.iv_large {
            // cannot be divided by 0: a data unit has one sector at least.
            true => self.skip.checked_div(unit_sectors).unwrap_or(0),
            false => self.skip,
        };
        Ok(PlainLayout {
            // cannot overflow: it lies inside the device, whose size in bytes is a u64.
            media_offset: self.offset.saturating_mul(SECTOR),
            // cannot overflow: it lies inside the device, too.
            len: sectors.saturating_mul(SECTOR),
            iv_offset,
        })
    }
}

/// Where a plain volume's data lies and how its IVs count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainLayout {
    /// First byte on the device.
    pub media_offset: u64,
    /// Bytes, a multiple of the data unit.
    pub len: u64,
    /// IV number of the first data unit: in data units if IVs count those, otherwise in sectors.
    pub iv_offset: u64,
}

/// Options that do not fit together or do not fit the device.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainError {
    /// A null cipher keeps nothing secret.
    NullCipher,
    /// The cipher has no keys of this length.
    KeyLen {
        /// Bytes.
        bytes: usize,
        /// Bytes that its keys can have, shortest first.
        takes: &'static [usize],
    },
    /// A data unit is 512, 1024, 2048 or 4096 bytes.
    DataUnit {
        /// Bytes.
        bytes: u32,
    },
    /// IVs that count data units differ from IVs that count sectors only where data units are larger than sectors.
    NothingLarge,
    /// A number of sectors is not a multiple of the data unit.
    Misaligned {
        /// Which number.
        field: PlainField,
        /// Its value in sectors.
        sectors: u64,
        /// Sectors in a data unit.
        multiple: u64,
    },
    /// The data does not lie inside the device.
    BeyondDevice {
        /// First sector of the data.
        first: u64,
        /// First sector behind the data, or behind its first data unit if no size was given.
        end: u64,
        /// Sectors in the device.
        device: u64,
    },
    /// No data at all.
    Empty,
}

/// A number of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainField {
    /// The size of the data.
    Size,
    /// The IV offset.
    Skip,
}

/// Lengths of keys in bytes, shown in bits: "128, 192 or 256".
#[derive(Clone, Copy, Debug)]
pub struct KeySizes<'a>(pub &'a [usize]);

impl fmt::Display for KeySizes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // intended: no keys, no last one.
        let last = self.0.len().saturating_sub(1);
        for (i, bytes) in self.0.iter().enumerate() {
            let before = match i {
                0 => "",
                i if i == last => " or ",
                _ => ", ",
            };
            // cannot overflow: for people; keys in memory are shorter.
            write!(f, "{before}{}", bytes.saturating_mul(8))?;
        }
        Ok(())
    }
}

impl fmt::Display for PlainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NullCipher => f.write_str("a null cipher keeps nothing secret"),
            Self::KeyLen { bytes, takes } => write!(
                f,
                "the cipher has no keys of {} bits; it takes {} bits",
                // cannot overflow: for people; keys in memory are shorter.
                bytes.saturating_mul(8),
                KeySizes(takes)
            ),
            Self::DataUnit { bytes } => {
                write!(f, "sectors of {bytes} bytes are not possible (512, 1024, 2048 or 4096)")
            }
            Self::NothingLarge => {
                f.write_str("IVs can count large sectors only if sectors are larger than 512 bytes")
            }
            Self::Misaligned { field, sectors, multiple } => {
                let name = match field {
                    PlainField::Size => "size",
                    PlainField::Skip => "skip",
                };
                write!(
                    f,
                    "the {name} of {sectors} sectors is not a multiple of the {multiple} in a data unit"
                )
            }
            Self::BeyondDevice { first, end, device } => {
                write!(f, "the data from sector {first} to {end} does not fit the device of {device} sectors")
            }
            Self::Empty => f.write_str("the volume would have no sectors"),
        }
    }
}

impl core::error::Error for PlainError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> PlainOptions {
        PlainOptions::new("aes-cbc-essiv:sha256".parse().expect("known"), 32)
    }

    #[test]
    fn the_whole_device_is_used_by_default_down_to_a_sector() {
        let layout = options().layout(1000 * 512 + 511).expect("fits");
        assert_eq!(layout, PlainLayout { media_offset: 0, len: 1000 * 512, iv_offset: 0 });
    }

    #[test]
    fn offset_moves_the_data_and_skip_moves_the_ivs() {
        let options = PlainOptions { offset: 16, skip: 8, size: Some(40), ..options() };
        let layout = options.layout(1 << 20).expect("fits");
        assert_eq!(layout, PlainLayout { media_offset: 8192, len: 20480, iv_offset: 8 });
        let units = PlainOptions { data_unit: 4096, ..options };
        assert_eq!(units.layout(1 << 20).expect("fits").iv_offset, 8);
        let large = PlainOptions { iv_large: true, ..units };
        assert_eq!(large.layout(1 << 20).expect("fits").iv_offset, 1);
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let refused = |change: fn(&mut PlainOptions), size| {
            let mut options = options();
            change(&mut options);
            options.layout(size).expect_err("refused")
        };
        assert_eq!(refused(|o| o.key_len = 33, 4096), PlainError::KeyLen { bytes: 33, takes: &[16, 24, 32] });
        assert_eq!(refused(|o| o.data_unit = 8192, 1 << 20), PlainError::DataUnit { bytes: 8192 });
        assert_eq!(refused(|o| o.data_unit = 0, 1 << 20), PlainError::DataUnit { bytes: 0 });
        assert_eq!(refused(|o| o.iv_large = true, 4096), PlainError::NothingLarge);
        assert_eq!(refused(|o| o.size = Some(0), 4096), PlainError::Empty);
        let null = |o: &mut PlainOptions| o.cipher = "cipher_null-ecb".parse().expect("known");
        assert_eq!(refused(null, 4096), PlainError::NullCipher);
        let end = PlainError::BeyondDevice { first: 8, end: 9, device: 8 };
        assert_eq!(refused(|o| o.offset = 8, 4096), end);
        assert!(matches!(refused(|o| o.offset = u64::MAX, 4096), PlainError::BeyondDevice { .. }));
        assert!(matches!(refused(|o| o.size = Some(9), 4096), PlainError::BeyondDevice { .. }));
        assert!(matches!(refused(|o| o.size = Some(u64::MAX), 4096), PlainError::BeyondDevice { .. }));
        assert!(matches!(refused(|_| (), 511), PlainError::BeyondDevice { .. }));
        let misaligned = |field, sectors| PlainError::Misaligned { field, sectors, multiple: 8 };
        assert_eq!(refused(|o| o.data_unit = 4096, 4096 + 512), misaligned(PlainField::Size, 9));
        let skip = |o: &mut PlainOptions| (o.data_unit, o.skip) = (4096, 4);
        assert_eq!(refused(skip, 4096), misaligned(PlainField::Skip, 4));
    }

    #[test]
    fn data_may_fill_the_device_to_its_last_sector() {
        let fits = |change: fn(&mut PlainOptions)| {
            let mut options = options();
            change(&mut options);
            options.layout(4096).map(|layout| (layout.media_offset, layout.len, layout.iv_offset))
        };
        assert_eq!(fits(|o| o.size = Some(8)), Ok((0, 4096, 0)));
        assert_eq!(fits(|o| (o.offset, o.size) = (7, Some(1))), Ok((7 * 512, 512, 0)));
        assert_eq!(fits(|o| o.offset = 7), Ok((7 * 512, 512, 0)));
        let end = |first, end| Err(PlainError::BeyondDevice { first, end, device: 8 });
        assert_eq!(fits(|o| (o.offset, o.size) = (7, Some(2))), end(7, 9));
        assert_eq!(fits(|o| (o.offset, o.size) = (8, Some(0))), end(8, 8));
        assert_eq!(fits(|o| (o.offset, o.size) = (9, Some(0))), end(9, 9));
        for data_unit in [512, 1024, 2048, 4096] {
            let options = PlainOptions { data_unit, ..options() };
            assert_eq!(options.layout(4096).map(|layout| layout.len), Ok(4096));
            let large = PlainOptions { iv_large: true, skip: 8, ..options };
            let expected = (data_unit > 512).then_some(8 * 512 / u64::from(data_unit));
            assert_eq!(large.layout(4096).ok().map(|layout| layout.iv_offset), expected, "{data_unit}");
        }
        assert_eq!(fits(|o| o.skip = u64::MAX), Ok((0, 4096, u64::MAX)));
    }

    #[test]
    fn key_sizes_are_listed_in_bits() {
        let text = |sizes: &[usize]| alloc::format!("{}", KeySizes(sizes));
        assert_eq!([text(&[]), text(&[16]), text(&[16, 24])], ["", "128", "128 or 192"]);
        assert_eq!(text(&[16, 24, 32]), "128, 192 or 256");
    }
}
