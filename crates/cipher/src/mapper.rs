//! The mapper: a cipher specification and a key, made ready to encrypt and decrypt runs of data units.

use core::fmt;

use crate::backend::{BackendChoice, VectorChoice};
use crate::block::Direction;
use crate::keyed::AnyKeyed;
use crate::run::{DataUnitIndex, Position, Run, RunError};
use crate::spec::CipherSpec;

/// What a mapper is told beside cipher and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapperOptions {
    /// Bytes under one tweak: a multiple of 16, at least 16.
    pub data_unit: usize,
    /// Added to the IV number of every data unit, in the unit in which IVs count.
    pub iv_offset: u64,
    /// Whether IVs count data units. Otherwise they count 512-byte sectors, as LUKS wants it; data units below 512
    /// bytes count as one each.
    pub iv_large: bool,
    /// Whether an XTS key with two equal halves is accepted. For reading what others wrote, never for new volumes.
    pub allow_equal_xts_halves: bool,
    /// Whether a cipher that is safe for one snapshot only may encrypt
    /// ([`CipherSpec::is_single_snapshot`]). It always decrypts.
    pub single_snapshot: bool,
    /// Which implementation of AES to use; `None` is the best there is.
    pub backend: Option<BackendChoice>,
    /// Which vector instructions ChaCha and the wide-block ciphers use beside AES; `None` is the best there are, or none where
    /// `backend` asks for the portable AES.
    pub vectors: Option<VectorChoice>,
}

impl Default for MapperOptions {
    /// 512-byte data units numbered from 0, nothing relaxed, the best backend.
    fn default() -> Self {
        Self {
            data_unit: 512,
            iv_offset: 0,
            iv_large: false,
            allow_equal_xts_halves: false,
            single_snapshot: false,
            backend: None,
            vectors: None,
        }
    }
}

impl MapperOptions {
    /// The vector instructions to use: none beside the portable AES, if nothing else is said.
    pub(crate) fn vectors_or_best(&self) -> VectorChoice {
        match (self.vectors, self.backend) {
            (Some(vectors), _) => vectors,
            (None, Some(backend)) if backend == BackendChoice::portable() => VectorChoice::portable(),
            (None, _) => VectorChoice::best(),
        }
    }
}

/// Why no mapper could be made of a specification and a key.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The specification takes no key of this length.
    Length {
        /// Bytes in the key.
        len: usize,
    },
    /// Both halves of an XTS key are the same, which makes XTS weaker than its proof.
    EqualXtsHalves,
    /// The null cipher encrypts nothing.
    NullCipher,
    /// A data unit must be a multiple of 16 bytes, and at least 16.
    DataUnit {
        /// Bytes asked for.
        len: usize,
    },
    /// The IV rule was made for data units of 512 bytes, or for multiples of that.
    IvRuleDataUnit {
        /// Bytes asked for.
        len: usize,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { len } => write!(f, "the cipher takes no key of {len} bytes"),
            Self::EqualXtsHalves => f.write_str("the two halves of the XTS key are equal"),
            Self::NullCipher => f.write_str("the null cipher does not encrypt"),
            Self::DataUnit { len } => write!(f, "a data unit of {len} bytes is not a multiple of 16 bytes"),
            Self::IvRuleDataUnit { len } => write!(f, "the IV rule does not take data units of {len} bytes"),
        }
    }
}

impl core::error::Error for KeyError {}

/// Encrypts and decrypts runs of data units. Holds expanded keys, wipes them on drop, can be shared by threads.
pub struct Mapper {
    keyed: AnyKeyed,
    numbering: Numbering,
    may_encrypt: bool,
}

// It goes into locked memory, of which little may be had.
const _: () = assert!(size_of::<Mapper>() <= 8704);

impl Mapper {
    /// Expands `key` for `spec`. The caller wipes its copy of the key.
    pub fn new(spec: &CipherSpec, key: &[u8], options: &MapperOptions) -> Result<Self, KeyError> {
        let numbering = Numbering::new(options)?;
        if !spec.iv.takes_unit_of(options.data_unit) {
            return Err(KeyError::IvRuleDataUnit { len: options.data_unit });
        }
        let keyed = AnyKeyed::new(spec, key, options)?;
        Ok(Self { keyed, numbering, may_encrypt: options.single_snapshot || !spec.is_single_snapshot() })
    }

    /// Bytes under one tweak.
    pub fn data_unit(&self) -> usize {
        self.numbering.data_unit
    }

    /// What a part of a data unit must begin at and be a multiple of to be encrypted alone: 16 bytes for XTS, XEX and ECB,
    /// the data unit for other modes.
    pub fn granularity(&self) -> usize {
        if self.keyed.takes_parts() { 16 } else { self.numbering.data_unit }
    }

    /// Encrypts a run in place: whole data units, of which the first has index `first`.
    pub fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Encrypt, first, run.len(), Run::in_place(run))
    }

    /// Decrypts a run in place: whole data units, of which the first has index `first`.
    pub fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Decrypt, first, run.len(), Run::in_place(run))
    }

    /// Encrypts in place what begins at byte `offset` of data unit `unit` and may go on into the units after it. Offset
    /// and length are multiples of [`Mapper::granularity`], the offset lies in the unit.
    pub fn encrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        self.apply_at(Direction::Encrypt, unit, offset, bytes)
    }

    /// Decrypts in place what [`Mapper::encrypt_at`] encrypts.
    pub fn decrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        self.apply_at(Direction::Decrypt, unit, offset, bytes)
    }

    /// Encrypts a run from `src` to `dst`, which are equally long.
    pub fn encrypt_to(&self, first: DataUnitIndex, src: &[u8], dst: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Encrypt, first, src.len(), Run::between(src, dst)?)
    }

    /// Decrypts a run from `src` to `dst`, which are equally long.
    pub fn decrypt_to(&self, first: DataUnitIndex, src: &[u8], dst: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Decrypt, first, src.len(), Run::between(src, dst)?)
    }

    /// Name of the implementation in use: `portable`, `vaes-512`, `aes-ni` …, as [`BackendChoice::name`] lists them; for
    /// ChaCha and the wide-block ciphers `avx512`, `neon` …, as [`VectorChoice::name`] does.
    pub fn backend_name(&self) -> &'static str {
        self.keyed.backend_name()
    }

    /// Whether time and memory accesses are independent of key and data. False for Twofish, Camellia,
    /// Blowfish, CAST5 and triple DES, whose implementations read tables at secret indices.
    pub fn is_constant_time(&self) -> bool {
        self.keyed.is_constant_time()
    }

    fn apply(
        &self,
        direction: Direction,
        first: DataUnitIndex,
        len: usize,
        run: Run<'_>,
    ) -> Result<(), RunError> {
        self.permit(direction)?;
        if let Some(position) = self.numbering.position(first, len)? {
            self.keyed.run_without_traces(direction, position, run)?;
        }
        Ok(())
    }

    fn apply_at(
        &self,
        direction: Direction,
        unit: DataUnitIndex,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<(), RunError> {
        self.permit(direction)?;
        let granularity = self.granularity();
        if let Some(position) = self.numbering.position_at(unit, offset, bytes.len(), granularity)? {
            self.keyed.run_without_traces(direction, position, Run::in_place(bytes))?;
        }
        Ok(())
    }

    fn permit(&self, direction: Direction) -> Result<(), RunError> {
        let refused = direction == Direction::Encrypt && !self.may_encrypt;
        if refused { Err(RunError::SingleSnapshot) } else { Ok(()) }
    }
}

/// How the data units of a segment are numbered.
pub(crate) struct Numbering {
    pub(crate) data_unit: usize,
    first: u64,
    step: u64,
}

impl Numbering {
    /// Of nothing yet: zeros, so that a `static` takes no room in flash.
    pub(crate) const EMPTY: Self = Self { data_unit: 0, first: 0, step: 0 };

    /// As the options say.
    pub(crate) fn new(options: &MapperOptions) -> Result<Self, KeyError> {
        let data_unit = options.data_unit;
        if data_unit == 0 || !data_unit.is_multiple_of(16) {
            return Err(KeyError::DataUnit { len: data_unit });
        }
        let step = if options.iv_large { 1 } else { (data_unit / 512).max(1) as u64 };
        Ok(Self { data_unit, first: options.iv_offset, step })
    }

    /// Where a run of `len` bytes from unit `first` on is. Nothing, if there are no bytes.
    pub(crate) fn position(&self, first: DataUnitIndex, len: usize) -> Result<Option<Position>, RunError> {
        if !len.is_multiple_of(self.data_unit) {
            return Err(RunError::PartialDataUnit { len, data_unit: self.data_unit });
        }
        Ok((len > 0).then(|| self.start(first, 0)))
    }

    /// Where `len` bytes from byte `offset` of unit `unit` on are, for a cipher of this granularity.
    pub(crate) fn position_at(
        &self,
        unit: DataUnitIndex,
        offset: usize,
        len: usize,
        granularity: usize,
    ) -> Result<Option<Position>, RunError> {
        RunError::check_part(offset, len, self.data_unit, granularity)?;
        Ok((len > 0).then(|| self.start(unit, offset / 16)))
    }

    fn start(&self, unit: DataUnitIndex, skipped: usize) -> Position {
        // dm-crypt's numbers wrap at 2^64 as well.
        let number = self.first.wrapping_add(unit.0.wrapping_mul(self.step));
        Position { number, step: self.step, unit_blocks: self.data_unit / 16, skipped }
    }
}

impl fmt::Debug for Mapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapper")
            .field("backend", &self.backend_name())
            .field("data_unit", &self.data_unit())
            .finish_non_exhaustive()
    }
}
