//! Laying out a new device: superblock, an empty journal, and zeros with the tags that belong to them.

use std::sync::Arc;

use atrest_cipher::Tagged;
use atrest_device::BlockDevice;
use atrest_format::integrity::{Flags, Layout, NewLayout, SUPERBLOCK_LEN, Superblock};
use atrest_secret::{OsRandom, Random, SecretBytes};
use atrest_volume::integrity::{Hash, JournalCipherSpec};

use super::commit::JournalMac;
use super::places::Places;
use super::replay::clear;
use super::{Integrity, IntegrityError, Mode, OpenOptions};

/// Bytes of zeros that are written at a time.
const STEP: usize = 1 << 20;

/// What is said of a new device.
#[derive(Default)]
#[non_exhaustive]
pub struct NewIntegrity {
    /// Bytes in a data unit.
    pub data_unit: u32,
    /// Bytes of tag beside each.
    pub tag_len: u16,
    /// Sectors of data between runs of tags; 0 for 32768.
    pub interleave: u32,
    /// Sectors of the journal.
    pub journal: Option<u32>,
    /// Bytes from the superblock on that are used; `None` for all.
    pub size: Option<u64>,
    /// The device for the data, if it is another one.
    pub data: Option<Arc<dyn BlockDevice>>,
    /// The keyed hash of the journal.
    pub journal_hash: Option<Hash>,
    /// The cipher of the journal and its key.
    pub journal_cipher: Option<(JournalCipherSpec, SecretBytes)>,
    /// Pad runs of tags to 128 KiB, as kernels before 5.11 do.
    pub legacy_padding: bool,
    /// Hash without a salt, and sections of the journal without their number, as kernels before 5.14 do.
    pub legacy_hmac: bool,
    /// Lay out over what is there. Otherwise the first 4096 bytes must be zeros.
    pub overwrite: bool,
}

/// Writes a superblock at byte `at`, and an empty journal behind it. The data has no tags yet.
///
/// # Errors
/// [`IntegrityError::NotEmpty`] if something else may be there. [`IntegrityError::Layout`] if there is
/// no room. Nothing was written then.
pub fn create(media: Arc<dyn BlockDevice>, at: u64, new: NewIntegrity) -> Result<Superblock, IntegrityError> {
    let mut salt = [0; 16];
    if !new.legacy_hmac {
        OsRandom.fill(&mut salt).map_err(|_| IntegrityError::Random)?;
    }
    let flags = Flags {
        journal_mac: new.journal_hash.is_some(),
        fixed_padding: !new.legacy_padding,
        fixed_hmac: !new.legacy_hmac,
        ..Flags::default()
    };
    // intended: a place behind the end leaves no room, which is refused.
    let rest = media.size().saturating_sub(at);
    let size = new.size.map_or(rest, |size| size.min(rest));
    let data_size = new.data.as_ref().map(|data| data.size());
    let superblock = Layout::create(&NewLayout {
        data_unit: new.data_unit,
        tag_len: new.tag_len,
        interleave: new.interleave,
        journal: new.journal,
        flags,
        salt,
        size,
        data_size,
    })?;
    let layout = Layout::new(&superblock, size, data_size)?;
    let mut area = [0; SUPERBLOCK_LEN];
    media.read_at(at, &mut area)?;
    if !new.overwrite && area.iter().any(|byte| *byte != 0) {
        return Err(IntegrityError::NotEmpty);
    }
    let cipher = new.journal_cipher.as_ref().map(|(spec, key)| (*spec, &key[..]));
    let places = Places { media, at, data: new.data, layout, cipher: None }.with_cipher(cipher)?;
    let salt = superblock.flags.fixed_hmac.then_some(superblock.salt);
    let mac = new.journal_hash.map(|hash| JournalMac { hash, salt });
    clear(&places, mac.as_ref(), 0, 0)?;
    let mut sealed = superblock.compose();
    if let Some(mac) = &mac {
        mac.seal(&mut sealed);
    }
    places.media.write_at(at, &sealed)?;
    places.flush()?;
    Ok(superblock)
}

impl Integrity {
    /// Writes zeros with their tags over all data, and tells how many bytes are done.
    ///
    /// # Errors
    /// The error of the media.
    pub fn wipe(
        media: Arc<dyn BlockDevice>,
        at: u64,
        tagged: Box<dyn Tagged>,
        options: OpenOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), IntegrityError> {
        let direct = OpenOptions { mode: Mode::Direct, ..options };
        let new = Self::open(media, at, tagged, direct)?;
        let mut done = 0;
        let mut zeros = Vec::new();
        while done < new.size() {
            let len = (new.size() - done).min(STEP as u64);
            zeros.clear();
            zeros.resize(len as usize, 0);
            new.write(done, &mut zeros)?;
            done += len;
            progress(done, new.size());
        }
        new.flush()?;
        Ok(())
    }
}
