//! From what a device was left as to the way in which it is written now, in an order that survives a power loss at any point.
//!
//! Journal and bitmap have one place. Where the one replaces the other while tags are missing, the superblock says meanwhile that there is
//! a bitmap of a kind that nobody has: whoever finds that computes all tags.

use atrest_device::DeviceError;
use atrest_format::integrity::{Bitmap, Flags, Superblock};

use super::commit::JournalMac;
use super::open::Recalculate;
use super::places::Places;
use super::replay::{Found, clear};
use super::{IntegrityError, bitmap};

/// The logarithm that stands in the superblock while the place of journal and bitmap is written over.
const REWRITTEN: u8 = 62;

/// What lies in the place of the journal.
pub enum Stored {
    Journal(Found),
    /// What may have wrong tags; `None` if that is not known.
    Bitmap(Option<Bitmap>),
}

/// Units whose tags are missing: from one on, or those of them in marked regions.
pub struct Gap {
    pub from: u64,
    pub marked: Option<Bitmap>,
}

impl Stored {
    pub fn read(
        places: &Places,
        mac: Option<&JournalMac>,
        superblock: &Superblock,
    ) -> Result<Self, IntegrityError> {
        if !superblock.flags.dirty_bitmap {
            return Ok(Self::Journal(Found::read(places, mac)?));
        }
        match superblock.log2_units_per_bit {
            REWRITTEN => Ok(Self::Bitmap(None)),
            log2_units => Ok(Self::Bitmap(bitmap::read(places, log2_units)?)),
        }
    }

    /// Which tags are missing by what is stored and by what is asked for.
    pub fn gap(&self, superblock: &Superblock, units: u64, recalculate: Recalculate) -> Gap {
        let all = || Gap { from: 0, marked: None };
        let Flags { recalculating, .. } = superblock.flags;
        match (self, recalculate) {
            (_, Recalculate::Again) => all(),
            (Self::Journal(_), Recalculate::Start) if !recalculating => all(),
            (Self::Journal(_), _) if recalculating => {
                let from = (superblock.recalculate << 9) / u64::from(superblock.data_unit);
                Gap { from: from.min(units), marked: None }
            }
            (Self::Journal(_), _) => Gap { from: units, marked: None },
            (Self::Bitmap(None), _) => all(),
            (Self::Bitmap(Some(marked)), _) => Gap { from: 0, marked: Some(marked.clone()) },
        }
    }
}

impl Gap {
    /// The first unit without a tag.
    pub fn first(&self, units: u64) -> Option<u64> {
        match &self.marked {
            None => (self.from < units).then_some(self.from),
            Some(marked) => marked.next(self.from).map(|units| units.start),
        }
    }
}

/// The superblock, and how it is written.
pub struct Change<'a> {
    pub places: &'a Places,
    pub mac: Option<&'a JournalMac>,
    pub superblock: &'a mut Superblock,
}

impl Change<'_> {
    /// Writes the superblock, durably. What was written before is durable, too.
    pub fn write(&self) -> Result<(), DeviceError> {
        let mut sealed = self.superblock.compose();
        if let Some(mac) = self.mac {
            mac.seal(&mut sealed);
        }
        self.places.flush()?;
        self.places.media.write_at(self.places.at, &sealed)?;
        self.places.flush()
    }

    /// Notes which tags are missing. Nothing is written yet.
    pub fn note(&mut self, first: Option<u64>, units: u64) {
        let per_unit = u64::from(self.superblock.data_unit >> 9);
        let flags = self.superblock.flags;
        if first.is_some() || flags.recalculating {
            self.superblock.set_flags(Flags { recalculating: true, ..flags });
            // A finished computation is told as the kernel tells it: by a position at the end.
            self.superblock.recalculate = first.unwrap_or(units) * per_unit;
        }
    }

    /// Puts a bitmap in the place of the journal, which is empty or has nothing that is still to be done, or of another bitmap.
    pub fn lay_bitmap(&mut self, marked: &Bitmap) -> Result<(), DeviceError> {
        let gap = !marked.is_clear();
        let flags = self.superblock.flags;
        self.superblock.set_flags(Flags { dirty_bitmap: true, ..flags });
        self.superblock.log2_units_per_bit = if gap { REWRITTEN } else { marked.log2_units() };
        self.write()?;
        bitmap::write(self.places, marked, 0..marked.bytes().len())?;
        self.places.flush()?;
        if gap {
            self.superblock.log2_units_per_bit = marked.log2_units();
            self.write()?;
        }
        Ok(())
    }

    /// Puts an empty journal in the place of a bitmap. Its next section and round are 0 and 1.
    pub fn lay_journal(&mut self, gap: bool) -> Result<(), DeviceError> {
        let log2_units = match self.superblock.log2_units_per_bit {
            REWRITTEN => self.places.layout.log2_units_per_bit(None).unwrap_or(REWRITTEN), // intended: none fits
            log2_units => log2_units,
        };
        if gap {
            self.superblock.log2_units_per_bit = REWRITTEN;
            self.write()?;
        }
        clear(self.places, self.mac, 0, 0)?;
        let flags = self.superblock.flags;
        self.superblock.set_flags(Flags { dirty_bitmap: false, ..flags });
        self.superblock.log2_units_per_bit = log2_units;
        self.write()
    }
}
