//! What Windows shows of a volume, piece by piece: where it lies on the medium, and what is done with it.

use alloc::vec::Vec;
use core::fmt;

use super::boot::{Boot, Edition};
use super::metadata::{Metadata, REGION_LEN, State};

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Encrypted data.
    Encrypted,
    /// Data that is not encrypted (yet, or any more).
    Clear,
    /// BitLocker's own: zeros are shown, and nothing can be written.
    Reserved,
    /// The first sector of a volume of Vista, shown as NTFS's, which can't be written.
    BootSector,
}

/// A piece of a volume. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins in what is shown.
    pub start: u64,
    /// How long it is.
    pub len: u64,
    /// Where it lies on the medium.
    pub place: u64,
    /// What it is.
    pub part: Part,
}

/// The pieces of a volume, in order and without gaps.
pub type Layout = Vec<Piece>;

/// Why the pieces don't fit.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// More bytes are encrypted than the medium has.
    Size {
        /// Bytes that are encrypted.
        encrypted: u64,
        /// Bytes of the medium.
        device: u64,
    },
    /// A piece begins or ends inside a sector, or behind the end of the medium.
    Place {
        /// Where it begins.
        offset: u64,
    },
    /// A conversion was interrupted inside of this piece: what of it is encrypted is not known.
    Converting {
        /// Where it begins.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// Two pieces are in one place.
    Overlap {
        /// Where the second one begins.
        offset: u64,
    },
}

/// Sectors of 512 bytes at the start of a volume of Vista that are never encrypted: the boot loader's.
const VISTA_CLEAR: u64 = 16 * 512;
/// Bytes of a copy of the metadata of Vista, before they are rounded up to clusters.
const VISTA_REGION: u64 = 16384;

/// Adds pieces one behind the other.
struct Pieces {
    pieces: Layout,
    encrypted: u64,
}

impl Pieces {
    fn end(&self) -> u64 {
        // cannot overflow: pieces lie inside the medium.
        self.pieces.last().map_or(0, |last| last.start.saturating_add(last.len))
    }

    fn push(&mut self, len: u64, place: u64, part: Part) {
        if len > 0 {
            self.pieces.push(Piece { start: self.end(), len, place, part });
        }
    }

    /// Data in its own place up to `end`: encrypted as far as the volume is.
    fn data_up_to(&mut self, end: u64) {
        let start = self.end();
        let boundary = self.encrypted.clamp(start, end.max(start));
        // cannot be less: of the three, start is first and end last.
        self.push(boundary.saturating_sub(start), start, Part::Encrypted);
        self.push(end.saturating_sub(boundary), boundary, Part::Clear);
    }
}

impl Metadata {
    /// The pieces of this volume on a medium of `device` bytes.
    ///
    /// # Errors
    /// [`LayoutError`] if they don't lie on it, one behind the other.
    pub fn layout(&self, boot: &Boot, device: u64) -> Result<Layout, LayoutError> {
        let sector = u64::from(boot.sector_size);
        let size = LayoutError::Size { encrypted: self.encrypted_size, device };
        if self.encrypted_size > device {
            return Err(size);
        }
        if self.states.0 == State::Converting && self.converting != 0 {
            return Err(LayoutError::Converting { offset: self.encrypted_size, len: self.converting });
        }
        let whole = |offset: u64, len: u64| {
            let end = offset.checked_add(len).filter(|end| *end <= device);
            let fits = offset.is_multiple_of(sector) && len.is_multiple_of(sector);
            end.filter(|_| fits).ok_or(LayoutError::Place { offset })
        };
        whole(0, self.encrypted_size)?;
        let region = match boot.edition {
            Edition::Vista => VISTA_REGION.checked_next_multiple_of(boot.cluster_size).ok_or(size)?,
            Edition::Seven | Edition::ToGo => REGION_LEN as u64,
        };
        let mut reserved: Vec<(u64, u64)> = self.copies.iter().map(|offset| (*offset, region)).collect();
        let mut pieces = Pieces { pieces: Vec::new(), encrypted: self.encrypted_size };
        match boot.edition {
            Edition::Vista => {
                pieces.push(sector, 0, Part::BootSector);
                // cannot be less: a sector has 4096 bytes at most.
                pieces.push(VISTA_CLEAR.saturating_sub(sector), sector, Part::Clear);
            }
            Edition::Seven | Edition::ToGo => {
                let (place, len) = self.relocated;
                reserved.push(self.relocated);
                // Behind what is encrypted, what was moved is not encrypted, either.
                // intended: nothing of it lies before that.
                let encrypted = self.encrypted_size.saturating_sub(place).min(len);
                pieces.push(encrypted, place, Part::Encrypted);
                // cannot be less: part of a length. cannot overflow: `whole` refuses the place below.
                pieces.push(len.saturating_sub(encrypted), place.saturating_add(encrypted), Part::Clear);
            }
        }
        reserved.sort_unstable();
        for (offset, len) in reserved {
            let end = whole(offset, len)?;
            if offset < pieces.end() {
                return Err(LayoutError::Overlap { offset });
            }
            pieces.data_up_to(offset);
            // cannot be less: it lies inside the medium.
            pieces.push(end.saturating_sub(offset), offset, Part::Reserved);
        }
        // A medium may end with part of a sector.
        // cannot be less: a remainder is no more than the whole.
        let device = device.checked_rem(512).map_or(device, |rest| device.saturating_sub(rest));
        pieces.data_up_to(device);
        Ok(pieces.pieces)
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { encrypted, device } => {
                write!(f, "{encrypted} bytes are encrypted, and the device has {device}")
            }
            Self::Place { offset } => {
                write!(f, "what is at byte {offset} ends behind the device, or is no whole number of sectors")
            }
            Self::Converting { offset, len } => {
                write!(
                    f,
                    "the {len} bytes from byte {offset} on were being converted when that was interrupted"
                )
            }
            Self::Overlap { offset } => {
                write!(f, "what is at byte {offset} lies over something else of the volume")
            }
        }
    }
}

impl core::error::Error for LayoutError {}
