//! The mapper: a cipher specification and a key, made ready to encrypt and decrypt runs of data units.

use core::fmt;

use crate::block::Direction;
use crate::data_unit::{DataUnitCipher, by_inherent_methods};
use crate::key_error::KeyError;
use crate::keyed::AnyKeyed;
use crate::mode::Mode;
use crate::options::{MapperOptions, Numbering};
use crate::run::{DataUnitIndex, Run, RunError};
use crate::spec::CipherSpec;

/// Encrypts and decrypts runs of data units. Holds expanded keys, wipes them on drop, can be shared by threads.
pub struct Mapper {
    keyed: AnyKeyed,
    numbering: Numbering,
    may_encrypt: bool,
    /// Whether a run may begin and end within a data unit, at any multiple of 16 bytes.
    takes_parts: bool,
    /// Whether a run takes little of the stack: those in parts do, but for XEX with one key, which keeps masks for many blocks.
    is_shallow: bool,
    /// Whether that is so of the mode.
    mode_is_constant_time: bool,
}

// It goes into locked memory, of which little may be had.
const _: () = assert!(size_of::<Mapper>() <= 8704);

impl Mapper {
    /// Expands `key` for `spec`. The caller wipes its copy of the key.
    ///
    /// # Errors
    ///
    /// * [`KeyError::DataUnit`] if a data unit has no bytes, or no multiple of 16.
    /// * [`KeyError::IvRuleDataUnit`] if the IV rule does not take data units of this length.
    /// * [`KeyError::NullCipher`] for the null cipher.
    /// * [`KeyError::Length`] if the specification takes no key of this length.
    /// * [`KeyError::EqualXtsHalves`] if both halves of an XTS key are the same and the options do not allow that.
    #[inline] // Without a call in between, what is expanded is copied once less.
    pub fn new(spec: &CipherSpec, key: &[u8], options: &MapperOptions) -> Result<Self, KeyError> {
        let numbering = Numbering::new(options)?;
        if !spec.iv.takes_unit_of(options.data_unit) {
            return Err(KeyError::IvRuleDataUnit { len: options.data_unit });
        }
        let facts = spec.mode.facts();
        let may_encrypt = options.single_snapshot || !facts.single_snapshot;
        let (takes_parts, mode_is_constant_time) = (spec.takes_parts(), facts.constant_time);
        let is_shallow = takes_parts && spec.mode != Mode::Xex1;
        let keyed = AnyKeyed::new(spec, key, options)?;
        Ok(Self { keyed, numbering, may_encrypt, takes_parts, is_shallow, mode_is_constant_time })
    }

    /// Bytes under one tweak.
    pub fn data_unit(&self) -> usize {
        self.numbering.data_unit
    }

    /// What a part of a data unit must begin at and be a multiple of to be encrypted alone: 16 bytes for XTS, XEX and ECB,
    /// the data unit for other modes.
    pub fn granularity(&self) -> usize {
        if self.takes_parts { 16 } else { self.numbering.data_unit }
    }

    /// Encrypts a run in place: whole data units, of which the first has index `first`.
    ///
    /// # Errors
    ///
    /// * [`RunError::PartialDataUnit`] if the run is not a whole number of data units.
    /// * [`RunError::SingleSnapshot`] if the cipher is safe for one snapshot only and the options do not say that there
    ///   is one.
    /// * [`RunError::KeyRefused`] if one of several keys is refused that was accepted before.
    pub fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Encrypt, first, run.len(), Run::in_place(run))
    }

    /// Decrypts a run in place: whole data units, of which the first has index `first`.
    ///
    /// # Errors
    ///
    /// * [`RunError::PartialDataUnit`] if the run is not a whole number of data units.
    /// * [`RunError::KeyRefused`] if one of several keys is refused that was accepted before.
    pub fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Decrypt, first, run.len(), Run::in_place(run))
    }

    /// Encrypts in place what begins at byte `offset` of data unit `unit` and may go on into the units after it. Offset
    /// and length are multiples of [`Mapper::granularity`], the offset lies in the unit.
    ///
    /// # Errors
    ///
    /// * [`RunError::Granularity`] if offset or length is no multiple of the granularity.
    /// * [`RunError::BehindDataUnit`] if the offset lies behind the data unit.
    /// * [`RunError::SingleSnapshot`] if the cipher is safe for one snapshot only and the options do not say that there
    ///   is one.
    /// * [`RunError::KeyRefused`] if one of several keys is refused that was accepted before.
    pub fn encrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        self.apply_at(Direction::Encrypt, unit, offset, bytes)
    }

    /// Decrypts in place what [`Mapper::encrypt_at`] encrypts.
    ///
    /// # Errors
    ///
    /// * [`RunError::Granularity`] if offset or length is no multiple of the granularity.
    /// * [`RunError::BehindDataUnit`] if the offset lies behind the data unit.
    /// * [`RunError::KeyRefused`] if one of several keys is refused that was accepted before.
    pub fn decrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        self.apply_at(Direction::Decrypt, unit, offset, bytes)
    }

    /// Encrypts a run from `src` to `dst`, which are equally long.
    ///
    /// # Errors
    ///
    /// * [`RunError::LengthMismatch`] if source and destination differ in length.
    /// * [`RunError::PartialDataUnit`] if the run is not a whole number of data units.
    /// * [`RunError::SingleSnapshot`] if the cipher is safe for one snapshot only and the options do not say that there
    ///   is one.
    /// * [`RunError::KeyRefused`] if one of several keys is refused that was accepted before.
    pub fn encrypt_to(&self, first: DataUnitIndex, src: &[u8], dst: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Encrypt, first, src.len(), Run::between(src, dst)?)
    }

    /// Decrypts a run from `src` to `dst`, which are equally long.
    ///
    /// # Errors
    ///
    /// * [`RunError::LengthMismatch`] if source and destination differ in length.
    /// * [`RunError::PartialDataUnit`] if the run is not a whole number of data units.
    /// * [`RunError::KeyRefused`] if one of several keys is refused that was accepted before.
    pub fn decrypt_to(&self, first: DataUnitIndex, src: &[u8], dst: &mut [u8]) -> Result<(), RunError> {
        self.apply(Direction::Decrypt, first, src.len(), Run::between(src, dst)?)
    }

    /// Name of the implementation in use: `portable`, `vaes-512`, `aes-ni` …, as
    /// [`BackendChoice::name`](crate::BackendChoice::name) lists them; for ChaCha and the wide-block ciphers `avx512`,
    /// `neon` …, as [`VectorChoice::name`](crate::VectorChoice::name) does.
    pub fn backend_name(&self) -> &'static str {
        self.keyed.backend_name()
    }

    /// Whether time and memory accesses are independent of key and data. False for Twofish, Camellia, Kuznyechik,
    /// Blowfish, CAST5 and triple DES, whose implementations read tables at secret indices.
    pub fn is_constant_time(&self) -> bool {
        self.mode_is_constant_time && self.keyed.is_constant_time()
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
            self.keyed.run_without_traces(self.is_shallow, direction, position, run)?;
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
            self.keyed.run_without_traces(self.is_shallow, direction, position, Run::in_place(bytes))?;
        }
        Ok(())
    }

    fn permit(&self, direction: Direction) -> Result<(), RunError> {
        let refused = direction == Direction::Encrypt && !self.may_encrypt;
        if refused { Err(RunError::SingleSnapshot) } else { Ok(()) }
    }
}

impl DataUnitCipher for Mapper {
    by_inherent_methods!();
}

impl fmt::Debug for Mapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapper")
            .field("backend", &self.backend_name())
            .field("data_unit", &self.data_unit())
            .finish_non_exhaustive()
    }
}
