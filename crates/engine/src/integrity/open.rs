//! From a device to data units with tags: superblock, checks, journal.

use std::sync::{Arc, Mutex};

use atrest_cipher::Tagged;
use atrest_device::BlockDevice;
use atrest_format::integrity::{Layout, Superblock};
use atrest_volume::integrity::Hash;

use super::commit::{Journal, JournalMac, Ring};
use super::places::Places;
use super::replay::Found;
use super::{Integrity, IntegrityError, Shared};
use crate::disk::units::Units;

/// How units and tags get to their places together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Through the journal: a crash leaves either the old unit or the new one.
    #[default]
    Journal,
    /// One after the other: a crash can leave units whose tags are wrong. Twice as fast.
    Direct,
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
    /// Read data without a check where the superblock says that tags are missing. For checksums only: whoever can write to the media can
    /// say so of all data.
    pub unchecked: bool,
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
        let mac = options.journal_hash.map(|hash| JournalMac { hash, salt });
        if mac.as_ref().is_some_and(|mac| !mac.fits(&sector)) {
            return Err(IntegrityError::SuperblockMac);
        }
        if flags.dirty_bitmap {
            return Err(IntegrityError::DirtyBitmap);
        }
        let mut unchecked_from = layout.units();
        if flags.recalculating && superblock.recalculate << 9 < superblock.provided {
            if !options.unchecked {
                return Err(IntegrityError::Recalculating { sector: superblock.recalculate });
            }
            unchecked_from = (superblock.recalculate << 9) / u64::from(superblock.data_unit);
        }
        let read_only = options.read_only
            || media.is_read_only()
            || options.data.as_ref().is_some_and(|data| data.is_read_only());
        let places = Places { media, at, data: options.data, layout };
        let found = Found::read(&places, mac.as_ref())?;
        let journal = if read_only {
            Some(Journal::of_reader(&layout, found.pending(&places)?))
        } else {
            let (section, round) = found.replay(&places, mac.as_ref(), options.mode == Mode::Journal)?;
            let ring = Ring { section, round, held: 0 };
            (options.mode == Mode::Journal).then(|| Journal::new(&layout, ring, mac))
        };
        let home = Units::new();
        let shared = Shared { places, tagged, home, journal, unchecked_from, read_only };
        Ok(Self { shared: Arc::new(shared), committer: Mutex::new(None), superblock })
    }
}
