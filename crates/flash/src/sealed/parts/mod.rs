//! Several sealed volumes on one chip, behind one trusted store. FORMATS.md, "Parts of a sealed chip"; why it holds:
//! docs/SEALED-FLASH.md, "Parts".

mod log;

use core::cell::RefCell;
use core::fmt;

use atrest_device::{FlashDevice, FlashRegion, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError};
use atrest_kdf::Prf;

use self::log::{Records, entry_len};
use super::SealedKey;

/// Erase blocks that the records of the parts take at least: one holds what counts while another is erased.
pub const PARTS_LOG_BLOCKS: u64 = 2;

/// A chip with `P` parts, each a sealed volume of its own, and one [`TrustedStore`] for all of them.
///
/// The parts lie one behind the other, and the blocks behind them hold a log of their records, for which the one record in the store
/// vouches. `D` is the chip, `S` the store, `B` a buffer of [`buffer_len`](Self::buffer_len) bytes.
///
/// ```
/// use atrest_cipher::aead::AsconAead128;
/// use atrest_device::{FlashDevice, TrustedStore};
/// use atrest_flash::sealed::{BlockState, SealedFlash, SealedKey, SealedOptions, SealedParts};
/// use atrest_secret::Random;
///
/// # fn example(chip: impl FlashDevice, store: impl TrustedStore, key: &SealedKey<'_>, random: &mut dyn Random)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// // 16 blocks for settings, 200 for a log, and the rest for the records.
/// let parts = SealedParts::new(chip, store, key, [16, 200], [0; 256])?;
/// let settings = parts.part(0).ok_or("there are two")?;
/// let (table, buffer) = ([BlockState::default(); 16], [0; 320]);
/// type Volume<D, S, T, B> = SealedFlash<AsconAead128, D, S, T, B>;
/// let volume =
///     Volume::mount(settings.device, settings.store, &settings.key, SealedOptions::default(), table, buffer, random)?;
/// # Ok(())
/// # }
/// ```
pub struct SealedParts<'k, D, S, B, const P: usize> {
    device: RefCell<D>,
    records: RefCell<Records<S, B, P>>,
    volume_key: &'k [u8],
    ranges: [Range; P],
    uuids: [[u8; 16]; P],
}

/// A part: what [`SealedFlash`](super::SealedFlash) takes.
pub struct Part<'p, D, S, B, const P: usize> {
    /// Its blocks.
    pub device: FlashRegion<&'p RefCell<D>>,
    /// Its record.
    pub store: PartStore<'p, D, S, B, P>,
    /// Its key: the volume key, and an identifier of its own.
    pub key: SealedKey<'p>,
}

/// The record of a part, as a [`TrustedStore`] of its own.
pub struct PartStore<'p, D, S, B, const P: usize> {
    device: &'p RefCell<D>,
    records: &'p RefCell<Records<S, B, P>>,
    part: usize,
}

/// Why a chip can't be divided like that.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartsError {
    /// A part has no blocks, or there are no parts, or more than 255.
    Empty,
    /// Parts and log take more blocks than the chip has.
    TooManyBlocks {
        /// Blocks that are needed.
        needs: u64,
        /// Blocks that there are.
        has: u64,
    },
    /// The records of so many parts do not fit into an erase block.
    TooManyParts,
    /// The buffer has no room for the records.
    BufferTooSmall {
        /// Bytes that are needed.
        needs: usize,
        /// Bytes that there are.
        has: usize,
    },
    /// The volume key is empty or all zeros, or the identifier is nil.
    NoKey,
}

/// First block and number of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Range {
    first: u32,
    blocks: u32,
}

/// What the identifiers of parts are expanded for.
const LABEL: &[u8] = b"atrest sealed part 1";

impl<'k, D: FlashDevice, S: TrustedStore, B: AsMut<[u8]>, const P: usize> SealedParts<'k, D, S, B, P> {
    /// Divides a chip into parts of so many erase blocks, one behind the other from the first block on. What is left, two
    /// blocks at least, is for their records. Nothing is read or written.
    ///
    /// The store is empty, or belongs to these parts. A part with another place or size is another part: to change the division
    /// copies what the parts hold.
    ///
    /// # Errors
    /// [`PartsError`] if the chip can't be divided so, the buffer is too small or there is no key.
    pub fn new(
        device: D,
        store: S,
        key: &SealedKey<'k>,
        quotas: [u32; P],
        mut buffer: B,
    ) -> Result<Self, PartsError> {
        if P == 0 || P > usize::from(u8::MAX) || quotas.contains(&0) {
            return Err(PartsError::Empty);
        }
        if !key.is_filled_in() {
            return Err(PartsError::NoKey);
        }
        let geometry = device.geometry();
        let mut ranges = [Range::default(); P];
        let mut used = 0_u64;
        for (range, blocks) in ranges.iter_mut().zip(quotas) {
            // intended: what does not fit into 32 bits is refused below, as more than the chip has.
            *range = Range { first: u32::try_from(used).unwrap_or(u32::MAX), blocks };
            // cannot overflow: 255 numbers of 32 bits.
            used = used.saturating_add(blocks.into());
        }
        // cannot overflow: 255 numbers of 32 bits, and two.
        let (needs, has) = (used.saturating_add(PARTS_LOG_BLOCKS), geometry.block_count());
        if needs > has || has > u32::MAX.into() {
            return Err(PartsError::TooManyBlocks { needs, has });
        }
        let needs = entry_len(&geometry, P).ok_or(PartsError::TooManyParts)?;
        let has = buffer.as_mut().len();
        if has < needs as usize {
            return Err(PartsError::BufferTooSmall { needs: needs as usize, has });
        }
        let extracted = Prf::extract(key.uuid, key.volume_key);
        let mut uuids = [[0; 16]; P];
        for ((number, range), uuid) in (0_u8..).zip(&ranges).zip(&mut uuids) {
            let place = [range.first, range.blocks].map(u32::to_le_bytes);
            *uuid = *extracted.expand(&[LABEL, &[number], place.as_flattened()]);
        }
        let records = Records::new(store, buffer, &extracted, used, needs, &geometry);
        let volume_key = key.volume_key;
        Ok(Self { device: device.into(), records: records.into(), volume_key, ranges, uuids })
    }

    /// Bytes in the buffer for the records of `P` parts.
    ///
    /// # Errors
    /// [`PartsError::TooManyParts`] if they do not fit into an erase block.
    pub fn buffer_len(device: &D) -> Result<usize, PartsError> {
        entry_len(&device.geometry(), P).map(|len| len as usize).ok_or(PartsError::TooManyParts)
    }

    /// A part, by its number in the quotas. None if there is no such part. Each is mounted once at a time.
    pub fn part(&self, number: usize) -> Option<Part<'_, D, S, B, P>> {
        let (range, uuid) = (self.ranges.get(number)?, self.uuids.get(number)?);
        let device = FlashRegion::new(&self.device, range.first.into(), range.blocks.into()).ok()?;
        let store = PartStore { device: &self.device, records: &self.records, part: number };
        Some(Part { device, store, key: SealedKey { volume_key: self.volume_key, uuid, header: None } })
    }

    /// Chip and store back.
    pub fn into_parts(self) -> (D, S) {
        (self.device.into_inner(), self.records.into_inner().into_store())
    }
}

impl<D: FlashDevice, S: TrustedStore, B: AsMut<[u8]>, const P: usize> TrustedStore
    for PartStore<'_, D, S, B, P>
{
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        self.records.borrow_mut().load(&mut *self.device.borrow_mut(), self.part)
    }

    fn claim(&mut self) -> Result<(), TrustedStoreError> {
        self.records.borrow_mut().store().claim()
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        self.records.borrow_mut().put(&mut *self.device.borrow_mut(), self.part, record)
    }

    fn stored_at_most(&mut self) -> Result<Option<u64>, TrustedStoreError> {
        self.records.borrow_mut().store().stored_at_most()
    }
}

impl<D, S, B, const P: usize> fmt::Debug for SealedParts<'_, D, S, B, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedParts").field("ranges", &self.ranges).finish_non_exhaustive()
    }
}

impl<D, S, B, const P: usize> fmt::Debug for Part<'_, D, S, B, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("part", &self.store.part).finish_non_exhaustive()
    }
}

impl<D, S, B, const P: usize> fmt::Debug for PartStore<'_, D, S, B, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartStore").field("part", &self.part).finish_non_exhaustive()
    }
}

impl fmt::Display for PartsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a part needs a block at least, and there are 1 to 255 parts"),
            Self::TooManyBlocks { needs, has } => {
                write!(f, "parts and their records take {needs} erase blocks, and the chip has {has}")
            }
            Self::TooManyParts => f.write_str("the records of so many parts do not fit into an erase block"),
            Self::BufferTooSmall { needs, has } => {
                write!(f, "the buffer has {has} bytes, the records of the parts take {needs}")
            }
            Self::NoKey => {
                f.write_str("there is no key: the volume key is empty or all zeros, or the identifier is nil")
            }
        }
    }
}

impl core::error::Error for PartsError {}
