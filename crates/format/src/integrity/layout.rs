//! Where things lie: the superblock, the journal, and then *areas*, each a run of tags with the data they belong to behind it. With a
//! device of its own for the data, the tags of all of it follow the journal. Offsets are bytes from the superblock.

use core::fmt;

use super::{CommitIds, Flags, SUPERBLOCK_LEN, Superblock};

const SECTOR: u64 = 512;
/// Sectors of a section of the journal that hold its entries; data is behind them.
pub(super) const ENTRY_SECTORS: u64 = 8;
/// Bytes of a sector of entries: the rest is the commit id. A keyed hash takes as many again.
const ENTRY_SPACE: u64 = 504;
const MAC_SPACE: u64 = 8;
/// The end of the device that the kernel leaves alone.
const PADDING: u64 = 4096;
/// Sectors of tags that the kernel reads at a time, at most; with a device for the data it rounds the place of the tags up to it.
const LOG2_BUFFER: u32 = 7;
const DEFAULT_INTERLEAVE: u32 = 32_768;
const LOG2_SECTORS_PER_BIT: u32 = 15;
const MAX_JOURNAL_SECTORS: u64 = 131_072;

/// The places of everything behind a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    unit: u64,
    tag: u64,
    units: u64,
    sections: u32,
    entry: u64,
    entries_per_sector: u64,
    initial: u64,
    /// Units of an area, and bytes of its run of tags. `None` if the data is on a device of its own.
    area: Option<(u64, u64)>,
    mac: bool,
    ids: CommitIds,
}

/// Consecutive data units whose data lies in one piece, and whose tags do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Units.
    pub count: u64,
    /// First byte of the data. From the superblock; from the start of the device for the data, if there is one.
    pub data: u64,
    /// First byte of the tags, from the superblock.
    pub tags: u64,
}

/// What a new device is to be like.
#[derive(Clone, Copy, Debug)]
pub struct NewLayout {
    /// Bytes in a data unit: 512, 1024, 2048 or 4096.
    pub data_unit: u32,
    /// Bytes of tag beside each.
    pub tag_len: u16,
    /// Sectors of data between runs of tags; 0 stands for 32768. Powers of two count, and the rest is cut off.
    pub interleave: u32,
    /// Sectors of the journal; `None` for the 128th part of the device, 64 MiB at most. At least one section is made.
    pub journal: Option<u32>,
    /// Which of `journal_mac`, `fixed_padding` and `fixed_hmac` are set. The others must not be.
    pub flags: Flags,
    /// The salt, for `fixed_hmac`.
    pub salt: [u8; 16],
    /// Bytes of the device, from the superblock on.
    pub size: u64,
    /// Bytes of the device for the data, if there is one.
    pub data_size: Option<u64>,
}

/// Why nothing can be laid out so.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// The device ends before its tags or its data do.
    TooSmall {
        /// Bytes of the device, from the superblock on.
        has: u64,
    },
    /// The device for the data is shorter than the data.
    DataTooSmall {
        /// Bytes of data.
        needs: u64,
        /// Bytes of the device.
        has: u64,
    },
    /// The journal ends behind the device, or is longer than the kernel takes.
    Journal {
        /// Its sections.
        sections: u32,
    },
    /// A tag is so long that an entry of the journal with it does not fit.
    Tag(u16),
    /// The data unit is not 512, 1024, 2048 or 4096 bytes.
    DataUnit(u32),
    /// The tags are said to be on a device of their own, or with the data, and it is the other way round.
    Separate {
        /// Whether the superblock says that the data is elsewhere.
        stored: bool,
    },
    /// Areas are so short and runs of tags so long that the kernel's tags overlap.
    Interleave {
        /// Base-2 logarithm of the sectors of an area.
        log2: u8,
    },
}

impl Layout {
    /// Computes the places, and holds them against the device: `size` bytes from the superblock on, and `data_size` bytes of a device for the
    /// data, if there is one.
    ///
    /// # Errors
    /// [`LayoutError`] says what does not fit.
    pub fn new(superblock: &Superblock, size: u64, data_size: Option<u64>) -> Result<Self, LayoutError> {
        let separate = superblock.log2_interleave == 0;
        if separate != data_size.is_some() {
            return Err(LayoutError::Separate { stored: separate });
        }
        let too_small = LayoutError::TooSmall { has: size };
        let layout = Self::places(superblock).ok_or(too_small)??;
        if layout.initial.checked_add(PADDING).is_none_or(|end| end >= size) {
            return Err(LayoutError::Journal { sections: superblock.journal_sections });
        }
        let ends = match data_size {
            Some(has) if superblock.provided > has => {
                return Err(LayoutError::DataTooSmall { needs: superblock.provided, has });
            }
            Some(_) => layout.units.checked_mul(layout.tag).and_then(|tags| tags.checked_add(layout.initial)),
            None => layout.last_end(),
        };
        match ends {
            Some(end) if end <= size && layout.units > 0 => Ok(layout),
            _ => Err(too_small),
        }
    }

    /// `None` if a sum is too large.
    fn places(superblock: &Superblock) -> Option<Result<Self, LayoutError>> {
        let (unit, tag) = (u64::from(superblock.data_unit), u64::from(superblock.tag_len));
        let sections = superblock.journal_sections;
        let entry = entry_len(unit, tag)?;
        let mac = superblock.flags.journal_mac;
        let space = if mac { ENTRY_SPACE.checked_sub(MAC_SPACE)? } else { ENTRY_SPACE };
        let entries_per_sector = space.checked_div(entry)?;
        if entries_per_sector == 0 {
            return Some(Err(LayoutError::Tag(superblock.tag_len)));
        }
        let mut layout = Self {
            unit,
            tag,
            units: superblock.provided.checked_div(unit)?,
            sections,
            entry,
            entries_per_sector,
            initial: 0,
            area: None,
            mac,
            ids: CommitIds::default(),
        };
        let journal = layout.section_len().checked_mul(sections.into())?;
        layout.initial = journal.checked_add(SUPERBLOCK_LEN as u64)?;
        // The kernel counts these sectors in 32 bits.
        if layout.initial >> 9 > u64::from(u32::MAX) {
            return Some(Err(LayoutError::Journal { sections }));
        }
        if superblock.log2_interleave > 0 {
            let log2 = superblock.log2_interleave;
            let units = 1_u64.checked_shl(log2.into())?.checked_mul(SECTOR)?.checked_div(unit)?;
            let multiple = if superblock.flags.fixed_padding { PADDING } else { SECTOR << 8 };
            let run = units.checked_mul(tag)?.checked_next_multiple_of(multiple)?;
            // The kernel counts in buffers as long as the run allows, and areas have to begin at one.
            if (run >> 9).trailing_zeros().min(LOG2_BUFFER) > log2.into() {
                return Some(Err(LayoutError::Interleave { log2 }));
            }
            layout.area = Some((units, run));
        }
        Some(Ok(layout))
    }

    /// Where the last area with data ends.
    fn last_end(&self) -> Option<u64> {
        let (area_units, run) = self.area?;
        let last = self.units.checked_sub(1)?;
        let (area, in_area) = (last.checked_div(area_units)?, last.checked_rem(area_units)?);
        let len = area_units.checked_mul(self.unit)?.checked_add(run)?;
        let start = area.checked_mul(len)?.checked_add(self.initial)?.checked_add(run)?;
        in_area.checked_add(1)?.checked_mul(self.unit)?.checked_add(start)
    }

    /// Lays out a new device.
    ///
    /// # Errors
    /// [`LayoutError`] if there is no room, or what is asked for can't be.
    pub fn create(new: &NewLayout) -> Result<Superblock, LayoutError> {
        if !matches!(new.data_unit, 512 | 1024 | 2048 | 4096) {
            return Err(LayoutError::DataUnit(new.data_unit));
        }
        let separate = new.data_size.is_some();
        let log2_interleave = match (separate, new.interleave) {
            (true, _) => 0,
            (false, 0) => DEFAULT_INTERLEAVE.ilog2() as u8,
            (false, sectors) => (sectors.ilog2() as u8).clamp(3, 31),
        };
        let flags = Flags { fixed_padding: new.flags.fixed_padding && !separate, ..new.flags };
        let mut superblock = Superblock {
            version: Superblock::version_of(flags, separate),
            log2_interleave,
            tag_len: new.tag_len,
            journal_sections: 1,
            provided: 0,
            flags,
            data_unit: new.data_unit,
            log2_units_per_bit: 0,
            recalculate: 0,
            salt: new.salt,
        };
        let too_small = LayoutError::TooSmall { has: new.size };
        let probe = Self::places(&superblock).ok_or(too_small)??;
        let device = match new.data_size {
            Some(size) => size,
            None => new.size,
        };
        let sectors = match new.journal {
            Some(sectors) => u64::from(sectors),
            None => (device >> 9 >> 7).min(MAX_JOURNAL_SECTORS),
        };
        let sections = sectors.checked_div(probe.section_len() >> 9).ok_or(too_small)?.max(1);
        let sections = u32::try_from(sections).map_err(|_| LayoutError::Journal { sections: u32::MAX })?;
        match new.data_size {
            Some(data_size) => Self::beside(&mut superblock, sections, (new.size, data_size))?,
            None => {
                superblock.journal_sections = sections;
                Self::largest(&mut superblock, new.size);
            }
        }
        let layout = Self::new(&superblock, new.size, new.data_size)?;
        superblock.log2_units_per_bit = layout.log2_units_per_bit(None).ok_or(too_small)?;
        Ok(superblock)
    }

    /// Returns the base-2 logarithm of the units for which a bit of a bitmap stands, which takes the place of the journal: of as many
    /// sectors as are wanted, or 16 MiB of data, or more so that it fits. `None` if it never does.
    pub fn log2_units_per_bit(&self, sectors_per_bit: Option<u32>) -> Option<u8> {
        let bits = self.section_len().checked_mul(self.sections.into())?.checked_mul(8)?.min(u32::MAX.into());
        let sectors = self.units.checked_mul(self.unit >> 9)?;
        let wanted =
            sectors_per_bit.map_or(LOG2_SECTORS_PER_BIT, |sectors| sectors.checked_ilog2().unwrap_or(0)); // intended: as the kernel takes 0
        let wanted = wanted.max((self.unit >> 9).trailing_zeros());
        let log2 = (wanted..63).find(|log2| sectors.div_ceil(1 << log2) <= bits)?;
        u8::try_from(log2.checked_sub((self.unit >> 9).trailing_zeros())?).ok()
    }

    /// Returns how many bytes of data there would be at most behind a superblock on devices of these sizes. `None` if there is no room
    /// for any.
    pub fn room(superblock: &Superblock, size: u64, data_size: Option<u64>) -> Option<u64> {
        let mut most = Superblock { provided: 0, ..*superblock };
        match data_size {
            None => Self::largest(&mut most, size),
            Some(data_size) => {
                let unit = u64::from(superblock.data_unit);
                most.provided = data_size.checked_div(unit)?.checked_mul(unit)?;
            }
        }
        Self::new(&most, size, data_size).ok().map(|_| most.provided)
    }

    /// Provides as much as fits, in steps of eight sectors, as the kernel does.
    fn largest(superblock: &mut Superblock, size: u64) {
        for bit in (3..55).rev() {
            let before = superblock.provided;
            superblock.provided |= SECTOR << bit;
            if Self::new(superblock, size, None).is_err() {
                superblock.provided = before;
            }
        }
    }

    /// Provides the whole device for the data, and takes as much journal as is left beside the tags, as the kernel does.
    fn beside(
        superblock: &mut Superblock,
        sections: u32,
        (size, data_size): (u64, u64),
    ) -> Result<(), LayoutError> {
        let unit = u64::from(superblock.data_unit);
        // cannot fail: a data unit is not 0.
        let units = data_size.checked_div(unit).unwrap_or(0);
        superblock.provided = units.checked_mul(unit).ok_or(LayoutError::TooSmall { has: size })?;
        for log2_buffer in (3..=LOG2_BUFFER).rev() {
            let fits = |sections: u32| {
                let superblock = Superblock { journal_sections: sections, ..*superblock };
                let layout = Self::new(&superblock, size, Some(data_size)).ok()?;
                let tags =
                    layout.units.checked_mul(layout.tag)?.checked_next_multiple_of(SECTOR << log2_buffer)?;
                (layout.initial.checked_add(tags)? <= size).then_some(())
            };
            let mut most = 0;
            // cannot be more: a logarithm of 32 bits is 31 at most.
            for bit in (0..sections.ilog2().saturating_add(1)).rev() {
                let more = most | 1 << bit;
                if more <= sections && fits(more).is_some() {
                    most = more;
                }
            }
            if most > 0 {
                superblock.journal_sections = most;
                return Ok(());
            }
        }
        Err(LayoutError::TooSmall { has: size })
    }

    /// Bytes in a data unit.
    pub fn data_unit(&self) -> usize {
        self.unit as usize
    }

    /// Bytes of tag beside each data unit.
    pub fn tag_len(&self) -> usize {
        self.tag as usize
    }

    /// Data units that there are.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Sections of the journal.
    pub fn sections(&self) -> u32 {
        self.sections
    }

    /// Data units that a section of the journal takes.
    pub fn entries(&self) -> u64 {
        // cannot overflow: at most 21 entries fit in a sector.
        self.entries_per_sector.saturating_mul(ENTRY_SECTORS)
    }

    /// Bytes of a section of the journal: at most 700 KiB.
    pub fn section_len(&self) -> u64 {
        // cannot overflow: at most 168 entries of at most 4096 bytes.
        self.entries().saturating_mul(self.unit).saturating_add(ENTRY_SECTORS.saturating_mul(SECTOR))
    }

    /// Where a section of the journal begins.
    pub fn section_at(&self, section: u32) -> u64 {
        // cannot overflow: the end of the journal was computed.
        self.section_len().saturating_mul(section.into()).saturating_add(SUPERBLOCK_LEN as u64)
    }

    /// Sets what commit ids are made of, which depends on the journal's cipher.
    #[must_use]
    pub fn with_commit_ids(self, ids: CommitIds) -> Self {
        Self { ids, ..self }
    }

    pub(super) fn commit_ids(&self) -> CommitIds {
        self.ids
    }

    /// Whether sections of the journal have a keyed hash.
    pub fn has_mac(&self) -> bool {
        self.mac
    }

    /// Bytes of an entry of the journal, and how many there are in a sector.
    pub(super) fn entry(&self) -> (usize, usize) {
        (self.entry as usize, self.entries_per_sector as usize)
    }

    /// Places the first of `count` data units, with as many of those behind it as lie in one piece. `None` unless `first` is one of
    /// [`units`](Self::units).
    pub fn span(&self, first: u64, count: u64) -> Option<Span> {
        let left = self.units.checked_sub(first).filter(|left| *left > 0)?;
        let (area, in_area, left) = match self.area {
            None => (0, first, left),
            Some((units, _)) => {
                let in_area = first.checked_rem(units)?;
                (first.checked_div(units)?, in_area, left.min(units.checked_sub(in_area)?))
            }
        };
        let tags = in_area.checked_mul(self.tag)?.checked_add(self.initial)?;
        let data = in_area.checked_mul(self.unit)?;
        let count = count.min(left);
        let Some((units, run)) = self.area else { return Some(Span { count, data, tags }) };
        let start = units.checked_mul(self.unit)?.checked_add(run)?.checked_mul(area)?;
        let data = data.checked_add(self.initial)?.checked_add(run)?.checked_add(start)?;
        Some(Span { count, data, tags: tags.checked_add(start)? })
    }
}

/// Sector number, the last eight bytes of each sector of the unit, the tag; rounded up to eight bytes.
fn entry_len(unit: u64, tag: u64) -> Option<u64> {
    let last = unit.checked_div(SECTOR)?.checked_mul(8)?;
    last.checked_add(8)?.checked_add(tag)?.checked_next_multiple_of(8)
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { has } => {
                write!(f, "dm-integrity's device of {has} bytes has no room for its tags and its data")
            }
            Self::DataTooSmall { needs, has } => {
                write!(
                    f,
                    "the device for the data has {has} bytes, and dm-integrity's superblock asks for {needs}"
                )
            }
            Self::Journal { sections } => {
                write!(f, "dm-integrity's journal of {sections} sections does not fit on the device")
            }
            Self::Tag(len) => {
                write!(f, "a tag of {len} bytes does not fit in an entry of dm-integrity's journal")
            }
            Self::DataUnit(len) => {
                write!(f, "data units of {len} bytes can't be: dm-integrity has 512, 1024, 2048 and 4096")
            }
            Self::Separate { stored: true } => f.write_str(
                "dm-integrity's superblock says that the data is on another device, which was not named",
            ),
            Self::Separate { stored: false } => f.write_str(
                "dm-integrity's superblock says that the data is behind it, and not on another device",
            ),
            Self::Interleave { log2 } => {
                write!(f, "areas of 2^{log2} sectors are shorter than what the kernel reads of their tags")
            }
        }
    }
}

impl core::error::Error for LayoutError {}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn new(data_unit: u32, tag_len: u16) -> NewLayout {
        let flags = Flags { fixed_padding: true, ..Flags::default() };
        NewLayout {
            data_unit,
            tag_len,
            interleave: 0,
            journal: None,
            flags,
            salt: [0; 16],
            size: 64 * MIB,
            data_size: None,
        }
    }

    #[test]
    fn units_and_their_tags_never_meet_each_other_or_the_journal() {
        for (unit, tag, interleave) in
            [(512, 4, 128), (4096, 32, 0), (1024, 20, 8), (512, 424, 8), (2048, 64, 4096)]
        {
            let superblock =
                Layout::create(&NewLayout { interleave, ..new(unit, tag) }).expect("there is room");
            let layout = Layout::new(&superblock, 64 * MIB, None).expect("it lies there");
            let mut last = layout.section_at(layout.sections());
            let mut first = 0;
            let mut ends = Vec::new();
            while first < layout.units() {
                let span = layout.span(first, u64::MAX).expect("units");
                let tags_end = span.tags + span.count * u64::from(tag);
                assert!(span.tags >= last && span.data >= tags_end, "{unit} {tag}: {span:?} behind {last}");
                last = span.data + span.count * u64::from(unit);
                first += span.count;
                ends.push(last);
            }
            assert!(last <= 64 * MIB && last + 8192 + 4096 * 32 * 4 > 64 * MIB, "{unit} {tag}: {last}");
            assert_eq!(layout.span(layout.units(), 1), None);
            let second = layout.span(1, 1).expect("a unit");
            let zeroth = layout.span(0, 1).expect("a unit");
            assert_eq!((second.data - zeroth.data, second.tags - zeroth.tags), (unit.into(), tag.into()));
        }
    }

    #[test]
    fn data_on_a_device_of_its_own_begins_there_and_the_tags_follow_the_journal() {
        let request = NewLayout { size: MIB, data_size: Some(32 * MIB + 100), ..new(4096, 32) };
        let superblock = Layout::create(&request).expect("there is room");
        assert_eq!((superblock.provided, superblock.log2_interleave, superblock.version), (32 * MIB, 0, 2));
        let layout = Layout::new(&superblock, MIB, request.data_size).expect("it lies there");
        let span = layout.span(5, 100).expect("units");
        assert_eq!((span.data, span.count), (5 * 4096, 100));
        assert_eq!(span.tags, layout.section_at(layout.sections()) + 5 * 32);
        let missing = Layout::new(&superblock, MIB, None);
        assert_eq!(missing, Err(LayoutError::Separate { stored: true }));
        let short = Layout::new(&superblock, MIB, Some(MIB));
        assert_eq!(short, Err(LayoutError::DataTooSmall { needs: 32 * MIB, has: MIB }));
    }

    #[test]
    fn as_much_room_is_found_as_was_made_and_more_on_a_longer_device() {
        for data_size in [None, Some(32 * MIB)] {
            let request = NewLayout { data_size, size: 8 * MIB, ..new(4096, 32) };
            let superblock = Layout::create(&request).expect("there is room");
            assert_eq!(Layout::room(&superblock, 8 * MIB, data_size), Some(superblock.provided));
            let longer = data_size.map(|size| size + MIB);
            let more = Layout::room(&superblock, 9 * MIB, longer).expect("more");
            assert!(more > superblock.provided + MIB / 2 && more <= superblock.provided + MIB);
            assert_eq!(Layout::room(&superblock, 4096, data_size), None);
        }
    }

    #[test]
    fn what_the_kernel_would_overlap_or_does_not_fit_is_refused() {
        let legacy = NewLayout { flags: Flags::default(), interleave: 8, ..new(512, 4) };
        assert_eq!(Layout::create(&legacy), Err(LayoutError::Interleave { log2: 3 }));
        assert!(Layout::create(&NewLayout { interleave: 128, ..legacy }).is_ok());
        let mac = Flags { journal_mac: true, ..Flags::default() };
        assert!(Layout::create(&new(4096, 424)).is_ok());
        assert_eq!(Layout::create(&NewLayout { flags: mac, ..new(4096, 425) }), Err(LayoutError::Tag(425)));
        assert_eq!(Layout::create(&new(4097, 4)), Err(LayoutError::DataUnit(4097)));
        assert!(matches!(
            Layout::create(&NewLayout { size: 65_536, ..new(512, 4) }),
            Err(LayoutError::Journal { .. })
        ));
    }
}
