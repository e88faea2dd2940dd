//! Runs of data units: where they start, and the buffers they come from and go to.

use core::fmt;

use crate::block::Block;

/// Index of a data unit (the bytes under one tweak), counted from the start of the mapped segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataUnitIndex(pub u64);

/// Where the data units of a run are.
#[derive(Clone, Copy)]
pub struct Position {
    /// IV number of the first unit.
    pub(crate) number: u64,
    /// What the number grows by from unit to unit.
    pub(crate) step: u64,
    /// Cipher blocks in a unit.
    pub(crate) unit_blocks: usize,
    /// Cipher blocks of the first unit that come before the run.
    pub(crate) skipped: usize,
}

impl Position {
    /// That of a run which starts so many units later.
    pub(crate) fn after(self, units: usize) -> Self {
        let number = self.number.wrapping_add(self.step.wrapping_mul(units as u64));
        Self { number, skipped: 0, ..self }
    }
}

/// Why a run was refused. Nothing was written, unless an engine failed or a key was refused.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The run is not a whole number of data units.
    PartialDataUnit {
        /// Bytes in the run.
        len: usize,
        /// Bytes in a data unit.
        data_unit: usize,
    },
    /// A part of a data unit does not begin or end where this cipher can begin or end.
    Granularity {
        /// Bytes of the data unit before the part.
        offset: usize,
        /// Bytes in the part.
        len: usize,
        /// What both have to be multiples of.
        granularity: usize,
    },
    /// The part begins behind the data unit.
    BehindDataUnit {
        /// Bytes asked for to lie before the part.
        offset: usize,
        /// Bytes in a data unit.
        data_unit: usize,
    },
    /// Source and destination differ in length.
    LengthMismatch {
        /// Bytes in the source.
        src: usize,
        /// Bytes in the destination.
        dst: usize,
    },
    /// One of several keys was refused that was accepted when it was set up. What was encrypted is worthless.
    KeyRefused,
    /// The cipher is safe for one snapshot only, and nobody has said that there will be no other.
    SingleSnapshot,
    /// The run does not begin where the AES engine can take it.
    Alignment {
        /// What addresses have to be multiples of.
        alignment: usize,
    },
    /// The AES engine failed. What it had of the run is zeros now.
    Engine,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PartialDataUnit { len, data_unit } => {
                write!(f, "a run of {len} bytes is not a whole number of {data_unit}-byte data units")
            }
            Self::Granularity { offset, len, granularity } => write!(
                f,
                "{len} bytes from byte {offset} of a data unit on: the cipher takes multiples of {granularity} bytes only"
            ),
            Self::BehindDataUnit { offset, data_unit } => {
                write!(f, "byte {offset} is behind the end of a data unit of {data_unit} bytes")
            }
            Self::LengthMismatch { src, dst } => {
                write!(f, "the source has {src} bytes but the destination has {dst}")
            }
            Self::KeyRefused => f.write_str("a key was refused that was accepted before"),
            Self::SingleSnapshot => f.write_str(
                "the cipher is safe for a single snapshot only: writing again would show how the data changed",
            ),
            Self::Alignment { alignment } => {
                write!(f, "the AES engine takes buffers at multiples of {alignment} bytes only")
            }
            Self::Engine => f.write_str("the AES engine failed"),
        }
    }
}

impl core::error::Error for RunError {}

impl RunError {
    /// Looks whether `len` bytes from byte `offset` of a data unit on are a part that a cipher of this granularity takes.
    pub(crate) fn check_part(
        offset: usize,
        len: usize,
        data_unit: usize,
        granularity: usize,
    ) -> Result<(), Self> {
        if !offset.is_multiple_of(granularity) || !len.is_multiple_of(granularity) {
            return Err(Self::Granularity { offset, len, granularity });
        }
        if offset >= data_unit {
            return Err(Self::BehindDataUnit { offset, data_unit });
        }
        Ok(())
    }
}

/// Stack below a run that is wiped after it. The deepest run takes 12 KiB in a release, and less than this in a build for tests.
/// `tests/stack.rs` fails if one goes below it.
pub(crate) const WIPED_STACK: usize = 24 << 10;

/// Stack below a run in XTS or ECB that is wiped after it. Those runs take 11 KiB at most. A short run must not wait for
/// a wipe that takes longer than itself: 24 KiB take 215 ns, and 512 bytes of AES-XTS take 120 ns.
pub(crate) const WIPED_SHALLOW: usize = 12 << 10;

/// Runs a cipher and wipes the stack that it used, where there is `std`.
///
/// Compilers spill round keys to the stack, and the first round keys of AES are the key. They must not lie there while a
/// thread waits for its next request.
#[inline(always)]
pub(crate) fn without_traces<R>(cipher: impl FnOnce() -> R) -> R {
    atrest_secret::with_wiped_stack_up_to::<WIPED_STACK, R>(cipher)
}

/// Runs a cipher and wipes the stack that it used, where there is `std`: [`WIPED_SHALLOW`] bytes if `is_shallow`, otherwise
/// [`WIPED_STACK`].
#[inline(always)]
pub(crate) fn without_traces_by_depth<R>(is_shallow: bool, cipher: impl FnOnce() -> R) -> R {
    atrest_secret::with_wiped_stack_by_depth::<WIPED_SHALLOW, WIPED_STACK, R>(is_shallow, cipher)
}

/// Cipher blocks to be turned into as many others, in place or from a source.
///
/// Invariant: `src`, if there is one, is as long as `dst`.
pub struct Run<'a> {
    src: Option<&'a [Block]>,
    dst: &'a mut [Block],
}

impl<'a> Run<'a> {
    /// In place. Bytes after the last whole block are left alone.
    pub(crate) fn in_place(bytes: &'a mut [u8]) -> Self {
        Self { src: None, dst: bytes.as_chunks_mut().0 }
    }

    /// Blocks in place.
    pub(crate) fn of_blocks(blocks: &'a mut [Block]) -> Self {
        Self { src: None, dst: blocks }
    }

    /// From `src` to `dst`. Bytes after the last whole block are left alone.
    pub(crate) fn between(src: &'a [u8], dst: &'a mut [u8]) -> Result<Self, RunError> {
        if src.len() != dst.len() {
            return Err(RunError::LengthMismatch { src: src.len(), dst: dst.len() });
        }
        Ok(Self { src: Some(src.as_chunks().0), dst: dst.as_chunks_mut().0 })
    }

    /// The destination, with what the source holds already in it.
    pub(crate) fn into_place(self) -> &'a mut [u8] {
        self.into_blocks().as_flattened_mut()
    }

    /// The destination likewise, in blocks.
    pub(crate) fn into_blocks(self) -> &'a mut [Block] {
        if let Some(src) = self.src {
            self.dst.copy_from_slice(src);
        }
        self.dst
    }

    /// Number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.dst.len()
    }

    /// Reads the blocks from number `at` on.
    #[inline(always)]
    pub(crate) fn load(&self, at: usize, into: &mut [Block]) {
        let from = self.src.unwrap_or(self.dst);
        for (to, from) in into.iter_mut().zip(from.iter().skip(at)) {
            *to = *from;
        }
    }

    /// Writes the blocks from number `at` on.
    #[inline(always)]
    pub(crate) fn store(&mut self, at: usize, from: &[Block]) {
        for (to, from) in self.dst.iter_mut().skip(at).zip(from) {
            *to = *from;
        }
    }

    /// Start of the source and of the destination for a backend: both valid for [`Run::blocks`] blocks, and either
    /// the same or disjoint.
    #[allow(dead_code, reason = "only backends with intrinsics ask for it")]
    pub(crate) fn pointers(&mut self) -> (*const u8, *mut u8) {
        let dst: *mut u8 = self.dst.as_mut_ptr().cast();
        match self.src {
            Some(src) => (src.as_ptr().cast(), dst),
            None => (dst.cast_const(), dst),
        }
    }
}
