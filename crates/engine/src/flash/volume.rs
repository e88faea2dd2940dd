//! A volume on flash: header and data of one file or card.

use std::sync::Arc;

use atrest_cipher::{CipherSpec, DataUnitCipher, DataUnitIndex, KeyError, Mapper, MapperOptions, RunError};
use atrest_device::{
    BlockDevice, FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation, FlashRegion,
    GeometryError,
};
use atrest_flash::sealed::{LayoutError, SealedError};
use atrest_flash::{CryptFlash, CryptFlashError, FlashHeader, FlashHeaderError, FormatOptions, NewSlot};
use atrest_keyslot::flash::{FlashCipher, FlashKey, FlashSizes, MAX_KEY_LEN, Params, Protection};
use atrest_secret::Locked;

use super::detect::{DetectError, detect};
use super::file::FileFlash;
use super::memory::{MOST_ERASE, MOST_PROG, check_room, check_units};
use super::sealed::sealed_layout;
use crate::{FileDevice, TrustedFileError};

/// Bytes encrypted in one run at least.
const BOUNCE: usize = 16 << 10;

/// The header of encrypted flash, and the medium behind it.
pub type FlashVolume = FlashHeader<FileFlash, Vec<u8>>;

/// The plaintext of encrypted flash.
pub type PlainFlash = CryptFlash<FlashRegion<FileFlash>, LockedMapper, Vec<u8>>;

/// A mapper in locked memory.
pub struct LockedMapper(Locked<Mapper>);

impl DataUnitCipher for LockedMapper {
    fn data_unit(&self) -> usize {
        self.0.data_unit()
    }

    fn granularity(&self) -> usize {
        self.0.granularity()
    }

    fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.0.encrypt(first, run)
    }

    fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.0.decrypt(first, run)
    }

    fn encrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        self.0.encrypt_at(unit, offset, bytes)
    }

    fn decrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        self.0.decrypt_at(unit, offset, bytes)
    }
}

/// Why a volume on flash was not made or opened.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashOpenError {
    /// There is no header to open.
    Detect(DetectError),
    /// The sizes make no medium.
    Geometry(GeometryError),
    /// The file or card is not as large as the medium would be.
    TooSmall(FlashError),
    /// Prog units or erase blocks are larger than those of any flash.
    UnitsTooLarge {
        /// Bytes in a prog unit.
        prog_size: u32,
        /// Bytes in an erase block.
        erase_size: u32,
    },
    /// A medium of these sizes can't be opened in the memory that there is.
    NotEnoughMemory {
        /// Bytes needed.
        needs: u64,
        /// Bytes that can be had.
        has: u64,
    },
    /// The header, or one of its keyslots.
    Header(FlashHeaderError),
    /// The cipher does not take the key.
    Key(KeyError),
    /// Cipher and medium do not go together.
    Layer(CryptFlashError),
    /// The volume is sealed, which asks for its trusted store.
    StoreNeeded,
    /// The volume is anchored in a place that is not here: a counter in a chip, or none.
    StoreElsewhere,
    /// The file that should be the trusted store is none.
    Store(TrustedFileError),
    /// The sealed volume and its trusted store do not go together, or one of them is not as it should be.
    Sealed(SealedError),
    /// The volume is encrypted only, and has no trusted store.
    NotSealed,
}

/// Opens the header on a file or card, with the sizes that it names.
///
/// # Errors
/// [`FlashOpenError::Detect`] if there is no header, [`FlashOpenError::Header`] if neither copy is good or
/// the device ends before the volume does. [`FlashOpenError::Geometry`], [`FlashOpenError::UnitsTooLarge`] or
/// [`FlashOpenError::NotEnoughMemory`] if its sizes are none that can be opened here.
pub fn open(device: Arc<FileDevice>) -> Result<FlashVolume, FlashOpenError> {
    let sizes = detect(&*device, None).map_err(FlashOpenError::Detect)?;
    let (needs, has) = (sizes.size(), device.size());
    if needs > has {
        return Err(FlashOpenError::Header(FlashHeaderError::CutInSize { needs, has }));
    }
    let geometry = FlashGeometry::new(sizes.read_size, sizes.prog_size, sizes.erase_size, sizes.block_count)
        .map_err(FlashOpenError::Geometry)?;
    let scratch = scratch(geometry)?;
    let flash = FileFlash::new(device, geometry).map_err(FlashOpenError::TooSmall)?;
    FlashHeader::open(flash, scratch).map_err(FlashOpenError::Header)
}

/// Makes a volume over a whole medium, and returns its key beside it. What was there is lost; who calls has asked.
///
/// # Errors
/// [`FlashOpenError::TooSmall`] if the device is smaller than the medium, [`FlashOpenError::UnitsTooLarge`]
/// or [`FlashOpenError::NotEnoughMemory`] for its units, what [`sealed_layout`] refuses of a sealed volume,
/// and [`FlashOpenError::Header`] if the options are refused, or the header can't be written.
pub fn format(
    device: Arc<FileDevice>,
    geometry: FlashGeometry,
    options: &FormatOptions,
    first: NewSlot<'_>,
) -> Result<(FlashVolume, FlashKey), FlashOpenError> {
    let scratch = scratch(geometry)?;
    let flash = FileFlash::new(device, geometry).map_err(FlashOpenError::TooSmall)?;
    if options.protection != Protection::Encrypted {
        sealed_layout(&params(options, geometry))?;
    }
    let mut key = FlashKey::empty();
    let made = FlashHeader::format(flash, scratch, options, first, &mut key);
    Ok((made.map_err(FlashOpenError::Header)?, key))
}

/// What the header of a new volume will say, but for its identifier.
pub fn params(options: &FormatOptions, geometry: FlashGeometry) -> Params {
    let FormatOptions { cipher, key_len, data_unit, protection, .. } = *options;
    let sizes = FlashSizes {
        read_size: geometry.read_size(),
        prog_size: geometry.prog_size(),
        erase_size: geometry.erase_size(),
        block_count: geometry.block_count(),
    };
    Params { cipher, key_len, protection, uuid: [0; 16], sizes, data_unit }
}

/// The plaintext of a volume whose key is known. If it is `new`, all of a file behind the header is made blank first, as a
/// new chip is.
///
/// # Errors
/// [`FlashOpenError::StoreNeeded`] if the volume is sealed, [`FlashOpenError::Key`] or
/// [`FlashOpenError::Layer`] if cipher, key and medium do not go together, [`FlashOpenError::Header`] if the
/// medium can't be erased.
pub fn plaintext(volume: FlashVolume, key: &FlashKey, new: bool) -> Result<PlainFlash, FlashOpenError> {
    let params = *volume.header().map_err(FlashOpenError::Header)?.params();
    if params.protection != Protection::Encrypted {
        return Err(FlashOpenError::StoreNeeded);
    }
    let cipher = cipher(&params, key)?;
    let mut data = volume.into_data().map_err(FlashOpenError::Header)?;
    if new {
        let size = data.geometry().size();
        data.erase(0, size).map_err(|error| FlashOpenError::Header(error.into()))?;
    }
    CryptFlash::new(data, cipher, bounce(&params)).map_err(FlashOpenError::Layer)
}

/// Sizes of the plaintext that a header with these parameters would lead to. Asked before a volume is made, so that
/// nothing is written in vain.
///
/// # Errors
/// Fails where [`plaintext`] or [`sealed_layout`] would, whatever the key is.
pub fn plain_geometry(params: &Params) -> Result<FlashGeometry, FlashOpenError> {
    if params.protection != Protection::Encrypted {
        return Ok(sealed_layout(params)?.geometry());
    }
    let data = data_geometry(params)?;
    let options = MapperOptions { data_unit: params.data_unit as usize, ..MapperOptions::default() };
    // No key of anybody's: units are the same with each, and this one has no equal halves.
    let key: [u8; MAX_KEY_LEN] = core::array::from_fn(|index| index as u8);
    // intended: a length that is too large leaves no bytes, which the cipher refuses.
    let key = key.get(..params.key_len.into()).unwrap_or_default();
    let mapper = Mapper::new(&spec(params.cipher)?, key, &options).map_err(FlashOpenError::Key)?;
    CryptFlash::new(NoMedium(data), mapper, bounce(params))
        .map(|plain| plain.geometry())
        .map_err(FlashOpenError::Layer)
}

/// Sizes of the blocks behind the header.
pub(super) fn data_geometry(params: &Params) -> Result<FlashGeometry, FlashOpenError> {
    let FlashSizes { read_size, prog_size, erase_size, block_count } = params.sizes;
    // intended: no blocks of data are no medium, as is checked next.
    let blocks = block_count.saturating_sub(params.sizes.first_data_block());
    let data =
        FlashGeometry::new(read_size, prog_size, erase_size, blocks).map_err(FlashOpenError::Geometry)?;
    check_units(data)?;
    Ok(data)
}

/// Sizes without a medium.
struct NoMedium(FlashGeometry);

impl NoMedium {
    fn refused<T>(operation: FlashOperation) -> Result<T, FlashError> {
        Err(FlashError::new(operation, 0, 0, FlashCause::Unsupported))
    }
}

impl FlashDevice for NoMedium {
    fn geometry(&self) -> FlashGeometry {
        self.0
    }

    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), FlashError> {
        Self::refused(FlashOperation::Read)
    }

    fn prog(&mut self, _: u64, _: &[u8]) -> Result<(), FlashError> {
        Self::refused(FlashOperation::Prog)
    }

    fn erase(&mut self, _: u64, _: u64) -> Result<(), FlashError> {
        Self::refused(FlashOperation::Erase)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        Self::refused(FlashOperation::Sync)
    }
}

fn cipher(params: &Params, key: &FlashKey) -> Result<LockedMapper, FlashOpenError> {
    let options = MapperOptions { data_unit: params.data_unit as usize, ..MapperOptions::default() };
    let spec = spec(params.cipher)?;
    let mapper = Locked::try_new_with(|| Mapper::new(&spec, key.expose(), &options));
    mapper.map(LockedMapper).map_err(FlashOpenError::Key)
}

fn spec(cipher: FlashCipher) -> Result<CipherSpec, FlashOpenError> {
    // Every length-preserving cipher of a header is one of ours by that name.
    cipher.name().parse().map_err(|_| FlashOpenError::StoreNeeded)
}

/// Room for a run: a prog unit, which `data_geometry` has bounded, or a data unit if that is larger.
fn bounce(params: &Params) -> Vec<u8> {
    vec![0; BOUNCE.max(params.data_unit as usize).max(params.sizes.prog_size as usize)]
}

fn scratch(geometry: FlashGeometry) -> Result<Vec<u8>, FlashOpenError> {
    check_units(geometry)?;
    let len = geometry.prog_size().max(512);
    check_room::<u8>(len.into())?;
    Ok(vec![0; len as usize])
}

impl From<LayoutError> for FlashOpenError {
    /// Of a header.
    fn from(error: LayoutError) -> Self {
        match error {
            LayoutError::NotSealed => Self::NotSealed,
            LayoutError::Geometry(error) => Self::Geometry(error),
            error => Self::Sealed(SealedError::Layout(error)),
        }
    }
}

impl core::fmt::Display for FlashOpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Detect(DetectError::Device(error)) => error.fmt(f),
            Self::Detect(DetectError::NotFlash) => f.write_str("no flash header was found"),
            Self::Detect(DetectError::Truncated { len }) => {
                write!(f, "the flash header is cut off: there are {len} bytes in all")
            }
            Self::Detect(DetectError::Header(error)) => write!(f, "the flash header can't be used: {error}"),
            Self::Geometry(error) => error.fmt(f),
            Self::TooSmall(error) => error.fmt(f),
            Self::UnitsTooLarge { prog_size, erase_size } => write!(
                f,
                "no flash has prog units of {prog_size} bytes in erase blocks of {erase_size}; {MOST_PROG} and {MOST_ERASE} are the most"
            ),
            Self::NotEnoughMemory { needs, has } => {
                write!(f, "a medium of these sizes takes {needs} bytes of memory, and there are {has}")
            }
            Self::Header(error) => error.fmt(f),
            Self::Key(error) => error.fmt(f),
            Self::Layer(error) => error.fmt(f),
            Self::StoreNeeded => f.write_str("the volume is sealed: its trusted store is needed"),
            Self::StoreElsewhere => {
                f.write_str("the volume is anchored by a counter in a chip, or not at all")
            }
            Self::Store(error) => error.fmt(f),
            Self::Sealed(error) => error.fmt(f),
            Self::NotSealed => f.write_str("the volume is not sealed and has no trusted store"),
        }
    }
}

impl core::error::Error for FlashOpenError {}
