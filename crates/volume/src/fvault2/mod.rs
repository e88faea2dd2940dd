//! FileVault 2 on CoreStorage: the metadata of a volume, and the keys that a password opens. Metadata is never written.

mod error;
mod opened;
mod wipekey;

use atrest_cipher::{CipherSpec, DataUnitIndex, Mapper, MapperOptions};
use atrest_device::{BlockDevice, Media};
use atrest_format::fvault2::{
    BLOCK_LEN, Block, Content, Context, Extent, HEADER_LEN, Header, Label, LogicalVolume,
};

use crate::UnlockError;

pub use error::FileVaultError;

/// A volume whose key is not known yet.
#[derive(Debug)]
pub struct LockedFileVault {
    header: Header,
    context: Context,
    volume: LogicalVolume,
    extents: Vec<Extent>,
    /// The encrypted metadata: its first byte on the device, and its length.
    metadata: (u64, u64),
}

/// Blocks of metadata that are read at most: 64 MiB.
const MOST_BLOCKS: u64 = 8192;

/// Whether a device begins with CoreStorage's signature. The rest may still be wrong.
pub fn is_one(header: &dyn Media) -> bool {
    let mut bytes = [0; HEADER_LEN];
    header.read_at(0, &mut bytes).is_ok() && !matches!(Header::read(&bytes), Ok(None))
}

/// The newest of what was found of an object, of which there has to be one.
struct Newest<T> {
    what: &'static str,
    found: Option<(u64, u64, T)>,
}

impl<T> Newest<T> {
    fn of(what: &'static str) -> Self {
        Self { what, found: None }
    }

    fn found(&mut self, (object, transaction): (u64, u64), one: T) -> Result<(), FileVaultError> {
        match &self.found {
            Some((other, _, _)) if *other != object => return Err(FileVaultError::Several(self.what)),
            Some((_, newest, _)) if *newest > transaction => {}
            _ => self.found = Some((object, transaction, one)),
        }
        Ok(())
    }

    fn get(self) -> Result<T, FileVaultError> {
        self.found.map(|(_, _, one)| one).ok_or(FileVaultError::Missing(self.what))
    }
}

impl LockedFileVault {
    /// Reads the header, the disk label and the encrypted metadata, of which 64 MiB at most.
    ///
    /// # Errors
    /// [`FileVaultError`] for what is missing or wrong, [`UnlockError::Device`] if the device can't be read.
    pub fn read(device: &dyn BlockDevice) -> Result<Self, UnlockError> {
        Self::of(device, |_| Err(FileVaultError::Missing("keys").into()))
    }

    /// Reads a device whose keys lie elsewhere: in the file `EncryptedRoot.plist.wipekey` of the recovery partition, where macOS up to
    /// 10.8 has those of the system's volume.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), and [`FileVaultError::KeyFile`] for a file that is none.
    pub fn read_with(device: &dyn BlockDevice, keys: &dyn BlockDevice) -> Result<Self, UnlockError> {
        Self::of(device, |header| wipekey::read(keys, header))
    }

    fn of(
        device: &dyn BlockDevice,
        elsewhere: impl FnOnce(&Header) -> Result<Context, UnlockError>,
    ) -> Result<Self, UnlockError> {
        let read = |offset: u64, bytes: &mut [u8]| {
            let end = offset.checked_add(bytes.len() as u64);
            match end.is_some_and(|end| end <= device.size()) {
                true => device.read_at(offset, bytes).map_err(UnlockError::Device),
                false => Err(FileVaultError::Place { offset }.into()),
            }
        };
        let mut bytes = [0; HEADER_LEN];
        read(0, &mut bytes)?;
        let header = Header::read(&bytes).map_err(FileVaultError::Header)?;
        let header = header.ok_or(FileVaultError::NotFileVault)?;
        let at = |block: u64| {
            let offset = block.checked_mul(header.block_size.into());
            offset.ok_or(FileVaultError::Place { offset: block })
        };
        let mut block = Box::new([0; BLOCK_LEN]);
        let label = at(header.label)?;
        read(label, &mut *block)?;
        let descriptor = Label::read(&block).map_err(FileVaultError::Block)?.descriptor;
        let mut bytes = [0; 40];
        let place = label.checked_add(descriptor.into()).ok_or(FileVaultError::Place { offset: label })?;
        read(place, &mut bytes)?;
        let (first, count) = Label::metadata(&bytes);
        let first = at(first)?;
        let mapper = metadata_mapper(&header)?;
        let (mut context, mut volume, mut extents) =
            (Newest::of("keys"), Newest::of("logical volume"), Newest::of("extents"));
        for number in 0..count {
            if number >= MOST_BLOCKS {
                return Err(FileVaultError::TooLong { blocks: count }.into());
            }
            // cannot overflow: 8192 blocks of 8192 bytes.
            let skip = number.saturating_mul(BLOCK_LEN as u64);
            read(first.checked_add(skip).ok_or(FileVaultError::Place { offset: first })?, &mut *block)?;
            if block.iter().all(|byte| *byte == 0) {
                break;
            }
            // cannot fail: it is one data unit.
            mapper.decrypt(DataUnitIndex(number), &mut *block).map_err(|_| UnlockError::UnsupportedType)?;
            let Block { transaction, object, content } =
                Block::read(&block).map_err(FileVaultError::Block)?;
            match content {
                Content::Context(found) => context.found((object, transaction), found)?,
                Content::Volume(found) => volume.found((object, transaction), found)?,
                Content::Extents(found) => extents.found((object, transaction), found)?,
                Content::Other => {}
            }
        }
        Ok(Self {
            header,
            // cannot overflow: 8192 blocks of 8192 bytes.
            metadata: (first, count.min(MOST_BLOCKS).saturating_mul(BLOCK_LEN as u64)),
            context: match context.found {
                Some((_, _, found)) => found,
                None => elsewhere(&header)?,
            },
            volume: volume.get()?,
            extents: extents.get()?,
        })
    }

    /// The header of the physical volume.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The keys.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The logical volume.
    pub fn logical_volume(&self) -> &LogicalVolume {
        &self.volume
    }

    /// The first byte of the data on the device.
    pub fn data_offset(&self) -> u64 {
        // intended: without extents it is opened by nobody.
        let first = self.extents.first().map_or(0, |extent| extent.physical);
        // intended: what does not fit is refused when it is opened.
        first.saturating_mul(self.header.block_size.into())
    }
}

/// What encrypts the metadata: with keys that stand in the header. It only hides.
fn metadata_mapper(header: &Header) -> Result<Mapper, UnlockError> {
    let spec: CipherSpec = "aes-xts-plain64".parse().map_err(UnlockError::UnsupportedCipher)?;
    let key = [header.metadata_key, header.uuid.0].concat();
    let options = MapperOptions {
        data_unit: BLOCK_LEN,
        iv_large: true,
        allow_equal_xts_halves: true,
        ..MapperOptions::default()
    };
    Mapper::new(&spec, &key, &options).map_err(UnlockError::Key)
}
