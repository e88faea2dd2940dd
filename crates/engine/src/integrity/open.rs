//! From a device to data units with tags: superblock, checks, journal.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use atrest_cipher::Tagged;
use atrest_device::BlockDevice;
use atrest_format::integrity::{Bitmap, Layout, Superblock};
use atrest_secret::SecretBytes;
use atrest_volume::integrity::{Hash, JournalCipherSpec};

use super::begin::{Change, Gap, Stored};
use super::bitmap::{FLUSH_TIME, Marks};
use super::commit::{Journal, JournalMac, Ring};
use super::missing::Missing;
use super::places::Places;
use super::{Integrity, IntegrityError, Shared, Way};
use crate::disk::units::Units;

/// How units and tags get to their places together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Through the journal: a crash leaves either the old unit or the new one.
    #[default]
    Journal,
    /// One after the other: a crash can leave units whose tags are wrong. Twice as fast.
    Direct,
    /// One after the other, in regions that a bitmap marks: a crash leaves units whose tags are wrong, and the next opening computes them.
    Bitmap,
}

/// Whether tags are to be computed from the data as it is. For hashes alone, which encrypt nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recalculate {
    /// Where the superblock or its bitmap say that they are missing.
    #[default]
    Missing,
    /// All, unless that has been done or begun before.
    Start,
    /// All.
    Again,
}

/// What is said when a device with tags is opened.
#[derive(Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// How it is written.
    pub mode: Mode,
    /// The device for the data, if it is another one.
    pub data: Option<Arc<dyn BlockDevice>>,
    /// The keyed hash of the journal, where it has one.
    pub journal_hash: Option<Hash>,
    /// The cipher of the journal and its key, where it has one. The superblock does not say.
    pub journal_cipher: Option<(JournalCipherSpec, SecretBytes)>,
    /// The tags are hashes without a key. Where tags are missing, data is read unchecked until they have been computed.
    ///
    /// An attacker who can write to the media can say so of all data. So with a key, that is refused as the kernel refuses it:
    /// unless the superblock is authenticated, by the journal's keyed hash.
    pub unkeyed: bool,
    /// Compute missing tags also where an attacker could have asked for it.
    pub legacy_recalculate: bool,
    /// Which tags are computed.
    pub recalculate: Recalculate,
    /// Sectors of data for which a bit of the bitmap stands; `None` for 32768.
    pub sectors_per_bit: Option<u32>,
    /// How long a region stays marked; `None` for 10 seconds.
    pub flush_time: Option<Duration>,
    /// Write nothing. What is in the journal is read from there.
    pub read_only: bool,
}

/// Reads the superblock at a place of a device.
///
/// # Errors
/// [`IntegrityError::Superblock`] if there is none that can be used, [`IntegrityError::Device`] if it can't be read.
pub fn read_superblock(media: &dyn BlockDevice, at: u64) -> Result<Superblock, IntegrityError> {
    Ok(Superblock::parse(&read_sector(media, at)?)?)
}

/// The superblock's sector; zeros if the device ends before it does, which are no superblock.
fn read_sector(media: &dyn BlockDevice, at: u64) -> Result<[u8; 512], IntegrityError> {
    let mut bytes = [0; 512];
    if media.size().checked_sub(at).is_some_and(|rest| rest >= bytes.len() as u64) {
        media.read_at(at, &mut bytes)?;
    }
    Ok(bytes)
}

impl Integrity {
    /// Opens what lies at byte `at` of `media`: the place of a superblock. What is in the journal is put in its place, unless this is for
    /// reading only.
    ///
    /// # Errors
    /// [`IntegrityError`] says what does not fit. Nothing was written then, unless the media failed while the journal was replayed.
    pub fn open(
        media: Arc<dyn BlockDevice>,
        at: u64,
        tagged: Box<dyn Tagged>,
        options: OpenOptions,
    ) -> Result<Self, IntegrityError> {
        let sector = read_sector(&*media, at)?;
        let superblock = Superblock::parse(&sector)?;
        let (stored, wanted) = (superblock.data_unit as usize, tagged.data_unit());
        if stored != wanted {
            return Err(IntegrityError::DataUnit { stored, wanted });
        }
        let (stored, wanted) = (usize::from(superblock.tag_len), tagged.tag_len());
        if stored != wanted {
            return Err(IntegrityError::Tags { stored, wanted });
        }
        // cannot be less: the superblock was read from there.
        let size = media.size().saturating_sub(at);
        let layout = Layout::new(&superblock, size, options.data.as_ref().map(|data| data.size()))?;
        let flags = superblock.flags;
        if flags.journal_mac != options.journal_hash.is_some() {
            return Err(IntegrityError::JournalKey { stored: flags.journal_mac });
        }
        let salt = flags.fixed_hmac.then_some(superblock.salt);
        let mac = options.journal_hash.map(|hash| Arc::new(JournalMac { hash, salt }));
        if mac.as_ref().is_some_and(|mac| !mac.fits(&sector)) {
            return Err(IntegrityError::SuperblockMac);
        }
        let read_only = options.read_only
            || media.is_read_only()
            || options.data.as_ref().is_some_and(|data| data.is_read_only());
        let places = Places { media, at, data: options.data, layout, cipher: None };
        let cipher = options.journal_cipher.as_ref().map(|(spec, key)| (*spec, &key[..]));
        let places = places.with_cipher(cipher)?;
        let layout = places.layout;
        if cipher.is_some() && (flags.dirty_bitmap || options.mode == Mode::Bitmap) {
            return Err(IntegrityError::BitmapCipher);
        }
        let stored = Stored::read(&places, mac.as_deref(), &superblock)?;
        let recalculate = if read_only { Recalculate::Missing } else { options.recalculate };
        let gap = stored.gap(&superblock, layout.units(), recalculate);
        let keyed = !options.unkeyed;
        let exposed = if flags.fixed_hmac { keyed && mac.is_none() } else { keyed || mac.is_some() };
        if let Some(first) = gap.first(layout.units())
            && exposed
            && !options.legacy_recalculate
            // Whoever says that it is written in bitmap mode takes what that leaves after a crash.
            && !(flags.dirty_bitmap && options.mode == Mode::Bitmap && recalculate == Recalculate::Missing)
        {
            return Err(match flags.dirty_bitmap {
                true => IntegrityError::DirtyBitmap,
                false => {
                    IntegrityError::Recalculating { sector: first * u64::from(superblock.data_unit >> 9) }
                }
            });
        }
        let wanted = match (read_only, options.mode) {
            (false, Mode::Bitmap) => Some(
                layout
                    .log2_units_per_bit(options.sectors_per_bit)
                    .and_then(|log2_units| Bitmap::clear(&layout, log2_units))
                    .ok_or(IntegrityError::Bitmap)?,
            ),
            _ => None,
        };
        let opening = Opening { places, mac, superblock, stored, gap };
        let (opening, way) = match read_only {
            true => opening.reader()?,
            false => opening.writer(options.mode, wanted, options.flush_time.unwrap_or(FLUSH_TIME))?,
        };
        let Opening { places, mac, superblock, gap, .. } = opening;
        let missing = Missing::new(gap.from, layout.units(), gap.marked);
        let (home, superblock) = (Units::new(), Mutex::new(superblock));
        let shared = Shared { places, tagged, home, way, mac, missing, superblock, read_only };
        let opened = Self::new(Arc::new(shared));
        if !read_only {
            opened.start_recalculating();
        }
        Ok(opened)
    }
}

/// A device that has passed all checks.
struct Opening {
    places: Places,
    mac: Option<Arc<JournalMac>>,
    superblock: Superblock,
    stored: Stored,
    gap: Gap,
}

impl Opening {
    /// Writes nothing.
    fn reader(self) -> Result<(Self, Way), IntegrityError> {
        let way = match &self.stored {
            Stored::Journal(found) => {
                Way::Journal(Journal::of_reader(&self.places.layout, found.pending(&self.places)?))
            }
            Stored::Bitmap(_) => Way::Direct,
        };
        Ok((self, way))
    }

    /// Does what is in the journal, and makes the media as the way to write wants it: with a bitmap if one is given.
    fn writer(
        mut self,
        mode: Mode,
        bitmap: Option<Bitmap>,
        flush_time: Duration,
    ) -> Result<(Self, Way), IntegrityError> {
        let Self { places, mac, superblock, stored, gap } = &mut self;
        let (layout, mac) = (&places.layout, mac.as_ref());
        let before = *superblock;
        let mut change = Change { places, mac: mac.map(|mac| &**mac), superblock };
        let first = gap.first(layout.units());
        change.note(first, layout.units());
        let ring = |(section, round)| Ring { section, round, held: 0 };
        let way = match (stored, bitmap) {
            (Stored::Journal(found), bitmap) => {
                let goes_on = bitmap.is_some() || mode == Mode::Journal;
                let next = found.replay(places, change.mac, goes_on)?;
                match bitmap {
                    Some(mut marked) => {
                        marked.set(first.unwrap_or(layout.units())..layout.units());
                        change.lay_bitmap(&marked)?;
                        gap.marked = Some(marked.clone());
                        Way::Bitmap(Marks::new(marked, flush_time))
                    }
                    None => {
                        if *change.superblock != before {
                            change.write()?;
                        }
                        match mode {
                            Mode::Journal => Way::Journal(Journal::new(layout, ring(next), mac.cloned())),
                            _ => Way::Direct,
                        }
                    }
                }
            }
            (Stored::Bitmap(_), Some(mut marked)) => {
                let same = gap.marked.as_ref().is_some_and(|gap| gap.log2_units() == marked.log2_units());
                match &gap.marked {
                    None => marked.set(0..layout.units()),
                    Some(gap) => marked.keep(gap, 0),
                }
                if !same {
                    change.lay_bitmap(&marked)?;
                } else if *change.superblock != before {
                    change.write()?;
                }
                gap.marked = Some(marked.clone());
                Way::Bitmap(Marks::new(marked, flush_time))
            }
            (Stored::Bitmap(_), None) => {
                change.lay_journal(first.is_some())?;
                match mode {
                    Mode::Journal => Way::Journal(Journal::new(layout, ring((0, 1)), mac.cloned())),
                    _ => Way::Direct,
                }
            }
        };
        Ok((self, way))
    }
}
