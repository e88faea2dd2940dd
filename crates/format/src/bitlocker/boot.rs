//! Sector 0 of a volume: which edition encrypted it, and where the metadata is.

use core::fmt;

use atrest_codec::Record;

use super::guid::Guid;

/// Bytes of it that are looked at.
pub const BOOT_LEN: usize = 512;

/// What kind of volume it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    /// Of Windows Vista.
    Vista,
    /// Of Windows 7 and later.
    Seven,
    /// A drive to be carried, with a FAT file system in front (BitLocker To Go).
    ToGo,
}

/// What the boot sector says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Kind of volume.
    pub edition: Edition,
    /// Bytes in a sector: the data unit.
    pub sector_size: u32,
    /// Bytes in a cluster (Vista); 0 elsewhere.
    pub cluster_size: u64,
    /// Where copies of the metadata begin: all three, or the first one alone (Vista).
    places: [u64; 3],
    /// Encryption on write: what is encrypted and what is not, only a bitmap says.
    pub on_write: bool,
}

/// Why a boot sector with BitLocker's signature can't be used.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootError {
    /// A GUID that is not known, where the one for BitLocker is.
    Guid(Guid),
    /// Sectors that are no power of two from 512 to 4096.
    SectorSize(u16),
    /// Clusters of no sectors, or whose place does not fit 64 bits (Vista).
    Clusters,
    /// The first bytes are those of no known edition.
    Jump([u8; 3]),
}

const SIGNATURE: &[u8; 8] = b"-FVE-FS-";
const TO_GO: &[u8; 8] = b"MSWIN4.1";
/// 4967d63b-2e29-4ad8-8399-f6a339e3d001.
const BITLOCKER: Guid =
    Guid([0x3b, 0xd6, 0x67, 0x49, 0x29, 0x2e, 0xd8, 0x4a, 0x83, 0x99, 0xf6, 0xa3, 0x39, 0xe3, 0xd0, 0x01]);
/// 92a84d3b-dd80-4d0e-9e4e-b1e3284eaed8.
const ON_WRITE: Guid =
    Guid([0x3b, 0x4d, 0xa8, 0x92, 0x80, 0xdd, 0x0e, 0x4d, 0x9e, 0x4e, 0xb1, 0xe3, 0x28, 0x4e, 0xae, 0xd8]);

impl Boot {
    /// Reads a boot sector; `None` if it is not BitLocker's.
    ///
    /// # Errors
    /// [`BootError`] if it is, and names something that is not known.
    pub fn read(sector: &[u8; BOOT_LEN]) -> Result<Option<Self>, BootError> {
        let record = Record::new(sector);
        let (jump, signature) = (*record.array::<0, 3>(), record.array::<3, 8>());
        let (edition, guid, places) = match signature {
            SIGNATURE if jump == [0xeb, 0x52, 0x90] => (Edition::Vista, BITLOCKER, [0; 3]),
            SIGNATURE if jump == [0xeb, 0x58, 0x90] => {
                let places = [record.le64::<176>(), record.le64::<184>(), record.le64::<192>()];
                (Edition::Seven, Guid(*record.array::<160, 16>()), places)
            }
            SIGNATURE => return Err(BootError::Jump(jump)),
            TO_GO => {
                let guid = Guid(*record.array::<424, 16>());
                if guid != BITLOCKER && guid != ON_WRITE {
                    // It is FAT.
                    return Ok(None);
                }
                let places = [record.le64::<440>(), record.le64::<448>(), record.le64::<456>()];
                (Edition::ToGo, guid, places)
            }
            _ => return Ok(None),
        };
        if guid != BITLOCKER && guid != ON_WRITE {
            return Err(BootError::Guid(guid));
        }
        let sector_size = match record.le16::<11>() {
            // Some have none (exFAT, Windows 10 1903).
            0 => 512,
            bytes if bytes.is_power_of_two() && (512..=4096).contains(&bytes) => bytes,
            bytes => return Err(BootError::SectorSize(bytes)),
        };
        let mut boot = Self {
            edition,
            sector_size: sector_size.into(),
            cluster_size: 0,
            places,
            on_write: guid == ON_WRITE,
        };
        if edition == Edition::Vista {
            let [sectors] = *record.array::<13, 1>();
            let cluster = u64::from(sectors).checked_mul(sector_size.into()).filter(|bytes| *bytes > 0);
            let cluster = cluster.ok_or(BootError::Clusters)?;
            let first = record.le64::<56>().checked_mul(cluster).ok_or(BootError::Clusters)?;
            (boot.cluster_size, boot.places) = (cluster, [first, 0, 0]);
        }
        Ok(Some(boot))
    }

    /// Where copies of the metadata begin: three, or the first alone, which has the places of the others (Vista).
    pub fn places(&self) -> &[u64] {
        match self.edition {
            Edition::Vista => self.places.first_chunk::<1>().map_or(&[], |first| first),
            Edition::Seven | Edition::ToGo => &self.places,
        }
    }
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guid(guid) => write!(f, "the boot sector has the unknown GUID {guid}"),
            Self::SectorSize(bytes) => write!(f, "the boot sector has sectors of {bytes} bytes"),
            Self::Clusters => f.write_str("the boot sector has no place for the metadata"),
            Self::Jump([a, b, c]) => {
                write!(f, "the boot sector begins with {a:02x} {b:02x} {c:02x}, as no known edition's does")
            }
        }
    }
}

impl core::error::Error for BootError {}
