//! What lies between the plaintext of a segment and its media.

use core::fmt;

use core::ops::Range;

use atrest_cipher::{DataUnitCipher, DataUnitIndex, Mapper, NarrowLrw, RunError, Tagged, WhitenedCbc};
use atrest_device::SECTOR_SIZE;
use atrest_secret::Locked;

/// What lies between the plaintext of a segment and its media.
///
/// A run is a whole number of data units; the first one is counted from the start of the segment.
pub enum Protection {
    /// One cipher under one key.
    Mapper(Locked<Mapper>),
    /// Several ciphers, one over the other.
    Cascade(Cascade),
    /// None: the media holds the plaintext. What encryption costs is measured against this.
    Identity,
    /// Each data unit reads as these bytes, whatever the media has there, and none can be written: a place that a format keeps for itself.
    Shown(Box<[u8]>),
    /// Each data unit has a tag, which dm-integrity's layout keeps. The segment's place on the media is the one of its superblock.
    Tagged(Box<dyn Tagged>),
    /// What encrypts lies elsewhere, as that of [`Tagged`](Self::Tagged) units does once their layout is open. Whoever asks here is refused.
    Elsewhere {
        /// Bytes in a data unit.
        data_unit: usize,
    },
}

/// Bytes of a run that go through all ciphers of a cascade before the next ones do: they stay in a processor's nearest cache meanwhile.
const AT_ONCE: usize = 16 << 10;

/// Ciphers one over the other, each with a key of its own, all over the same data units.
pub struct Cascade {
    /// Encrypts the plaintext.
    innermost: Layer,
    /// Each encrypts what the one before it made.
    outer: Vec<Layer>,
}

/// A cipher of a cascade.
pub enum Layer {
    /// In any mode that dm-crypt has.
    Mapper(Locked<Mapper>),
    /// In CBC, with other ciphers in the same chain or alone.
    Whitened(Locked<WhitenedCbc>),
    /// In LRW, with blocks of eight bytes.
    Narrow(Locked<NarrowLrw>),
}

/// Why mappers make no cascade.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CascadeError {
    /// There is none.
    Empty,
    /// One has other data units than the first.
    DataUnits {
        /// Bytes in a data unit of the first.
        first: usize,
        /// Bytes in a data unit of the other.
        other: usize,
    },
}

/// Why a run was neither encrypted nor decrypted.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectionError {
    /// The cipher refused it.
    Run(RunError),
    /// The run has tags, without which nothing can be done.
    Tags,
    /// The place is the format's own, and can't be written.
    Reserved,
}

impl Cascade {
    /// The first layer encrypts the plaintext, each other one what the one before it made.
    ///
    /// # Errors
    /// [`CascadeError`] unless there is a layer, and all have data units of one size.
    pub fn new<L: Into<Layer>>(layers: Vec<L>) -> Result<Self, CascadeError> {
        let mut layers = layers.into_iter().map(Into::into);
        let innermost: Layer = layers.next().ok_or(CascadeError::Empty)?;
        let (first, outer) = (innermost.data_unit(), layers.collect::<Vec<_>>());
        match outer.iter().map(Layer::data_unit).find(|unit| *unit != first) {
            Some(other) => Err(CascadeError::DataUnits { first, other }),
            None => Ok(Self { innermost, outer }),
        }
    }

    /// Calls `layers` for each part of a run of `len` bytes: with its first data unit, and where it is. All ciphers see one part before the
    /// next one is touched.
    fn in_parts(
        &self,
        first: DataUnitIndex,
        len: usize,
        mut layers: impl FnMut(DataUnitIndex, Range<usize>) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let data_unit = self.innermost.data_unit();
        if !len.is_multiple_of(data_unit) {
            return Err(RunError::PartialDataUnit { len, data_unit });
        }
        // cannot be none: a data unit has bytes. A large one is a part of its own.
        let units = AT_ONCE.checked_div(data_unit).unwrap_or(1).max(1);
        let mut unit = first;
        let mut start = 0;
        while start < len {
            // cannot overflow: it is no more than the run has.
            let end = start.saturating_add(units.saturating_mul(data_unit)).min(len);
            layers(unit, start..end)?;
            // intended: numbers wrap, as they do in the ciphers.
            unit = DataUnitIndex(unit.0.wrapping_add(units as u64));
            start = end;
        }
        Ok(())
    }

    fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.in_parts(first, run.len(), |unit, range| {
            let part = within(run, range)?;
            self.innermost.encrypt(unit, part)?;
            self.outer.iter().try_for_each(|layer| layer.encrypt(unit, part))
        })
    }

    fn encrypt_to(&self, first: DataUnitIndex, src: &[u8], dst: &mut [u8]) -> Result<(), RunError> {
        equally_long(src, dst)?;
        self.in_parts(first, src.len(), |unit, range| {
            let (from, part) = between(src, dst, range)?;
            self.innermost.encrypt_to(unit, from, part)?;
            self.outer.iter().try_for_each(|layer| layer.encrypt(unit, part))
        })
    }

    fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.in_parts(first, run.len(), |unit, range| {
            let part = within(run, range)?;
            self.outer.iter().rev().try_for_each(|layer| layer.decrypt(unit, part))?;
            self.innermost.decrypt(unit, part)
        })
    }

    fn decrypt_to(&self, first: DataUnitIndex, src: &[u8], dst: &mut [u8]) -> Result<(), RunError> {
        equally_long(src, dst)?;
        self.in_parts(first, src.len(), |unit, range| {
            let (from, part) = between(src, dst, range)?;
            let Some((outermost, between)) = self.outer.split_last() else {
                return self.innermost.decrypt_to(unit, from, part);
            };
            outermost.decrypt_to(unit, from, part)?;
            between.iter().rev().try_for_each(|layer| layer.decrypt(unit, part))?;
            self.innermost.decrypt(unit, part)
        })
    }
}

/// A part of a run.
fn within(run: &mut [u8], range: Range<usize>) -> Result<&mut [u8], RunError> {
    let len = run.len();
    // cannot be none: parts lie in the run.
    run.get_mut(range).ok_or(RunError::LengthMismatch { src: len, dst: len })
}

fn between<'a>(
    src: &'a [u8],
    dst: &'a mut [u8],
    range: Range<usize>,
) -> Result<(&'a [u8], &'a mut [u8]), RunError> {
    let lens = RunError::LengthMismatch { src: src.len(), dst: dst.len() };
    // cannot be none: parts lie in both.
    Ok((src.get(range.clone()).ok_or(lens)?, dst.get_mut(range).ok_or(lens)?))
}

fn equally_long(src: &[u8], dst: &[u8]) -> Result<(), RunError> {
    if src.len() == dst.len() {
        return Ok(());
    }
    Err(RunError::LengthMismatch { src: src.len(), dst: dst.len() })
}

impl Layer {
    fn data_unit(&self) -> usize {
        match self {
            Self::Mapper(mapper) => mapper.data_unit(),
            Self::Whitened(cbc) => cbc.data_unit(),
            Self::Narrow(lrw) => lrw.data_unit(),
        }
    }

    fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        match self {
            Self::Mapper(mapper) => mapper.encrypt(first, run),
            Self::Whitened(cbc) => cbc.encrypt(first, run),
            Self::Narrow(lrw) => lrw.encrypt(first, run),
        }
    }

    fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        match self {
            Self::Mapper(mapper) => mapper.decrypt(first, run),
            Self::Whitened(cbc) => cbc.decrypt(first, run),
            Self::Narrow(lrw) => lrw.decrypt(first, run),
        }
    }

    /// Source and destination are equally long.
    fn encrypt_to(&self, first: DataUnitIndex, src: &[u8], dst: &mut [u8]) -> Result<(), RunError> {
        match self {
            Self::Mapper(mapper) => mapper.encrypt_to(first, src, dst),
            Self::Whitened(cbc) => {
                dst.copy_from_slice(src);
                cbc.encrypt(first, dst)
            }
            Self::Narrow(lrw) => {
                dst.copy_from_slice(src);
                lrw.encrypt(first, dst)
            }
        }
    }

    /// Source and destination are equally long.
    fn decrypt_to(&self, first: DataUnitIndex, src: &[u8], dst: &mut [u8]) -> Result<(), RunError> {
        match self {
            Self::Mapper(mapper) => mapper.decrypt_to(first, src, dst),
            Self::Whitened(cbc) => {
                dst.copy_from_slice(src);
                cbc.decrypt(first, dst)
            }
            Self::Narrow(lrw) => {
                dst.copy_from_slice(src);
                lrw.decrypt(first, dst)
            }
        }
    }
}

impl From<Locked<Mapper>> for Layer {
    fn from(mapper: Locked<Mapper>) -> Self {
        Self::Mapper(mapper)
    }
}

impl From<Locked<WhitenedCbc>> for Layer {
    fn from(cbc: Locked<WhitenedCbc>) -> Self {
        Self::Whitened(cbc)
    }
}

impl From<Locked<NarrowLrw>> for Layer {
    fn from(lrw: Locked<NarrowLrw>) -> Self {
        Self::Narrow(lrw)
    }
}

impl Protection {
    /// Bytes in a data unit.
    pub fn data_unit(&self) -> usize {
        match self {
            Self::Mapper(mapper) => mapper.data_unit(),
            Self::Cascade(cascade) => cascade.innermost.data_unit(),
            Self::Identity => SECTOR_SIZE as usize,
            Self::Shown(unit) => unit.len(),
            Self::Tagged(tagged) => tagged.data_unit(),
            Self::Elsewhere { data_unit } => *data_unit,
        }
    }

    /// The cipher, where it is a single one.
    pub fn mapper(&self) -> Option<&Mapper> {
        match self {
            Self::Mapper(mapper) => Some(mapper),
            _ => None,
        }
    }

    /// Encrypts a run in place.
    ///
    /// # Errors
    /// [`ProtectionError::Run`] if it is no whole number of data units, or the cipher may not write;
    /// [`ProtectionError::Tags`] if the units have tags. Then `run` holds nothing of use.
    pub fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), ProtectionError> {
        match self {
            Self::Mapper(mapper) => mapper.encrypt(first, run)?,
            Self::Cascade(cascade) => cascade.encrypt(first, run)?,
            Self::Identity => {}
            Self::Shown(_) => return Err(ProtectionError::Reserved),
            Self::Tagged(_) | Self::Elsewhere { .. } => return Err(ProtectionError::Tags),
        }
        Ok(())
    }

    /// Encrypts a run from one buffer into another of the same length.
    ///
    /// # Errors
    /// Those of [`encrypt`](Self::encrypt), and buffers of different lengths.
    pub fn encrypt_to(
        &self,
        first: DataUnitIndex,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), ProtectionError> {
        match self {
            Self::Mapper(mapper) => mapper.encrypt_to(first, src, dst)?,
            Self::Cascade(cascade) => cascade.encrypt_to(first, src, dst)?,
            Self::Identity => {
                if src.len() != dst.len() {
                    return Err(RunError::LengthMismatch { src: src.len(), dst: dst.len() }.into());
                }
                dst.copy_from_slice(src);
            }
            Self::Shown(_) => return Err(ProtectionError::Reserved),
            Self::Tagged(_) | Self::Elsewhere { .. } => return Err(ProtectionError::Tags),
        }
        Ok(())
    }

    /// Decrypts a run in place.
    ///
    /// # Errors
    /// Those of [`encrypt`](Self::encrypt).
    pub fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), ProtectionError> {
        match self {
            Self::Mapper(mapper) => mapper.decrypt(first, run)?,
            Self::Cascade(cascade) => cascade.decrypt(first, run)?,
            Self::Identity => {}
            Self::Shown(unit) => show(unit, run)?,
            Self::Tagged(_) | Self::Elsewhere { .. } => return Err(ProtectionError::Tags),
        }
        Ok(())
    }

    /// Decrypts a run from one buffer into another of the same length.
    ///
    /// # Errors
    /// Those of [`encrypt`](Self::encrypt), and buffers of different lengths.
    pub fn decrypt_to(
        &self,
        first: DataUnitIndex,
        src: &[u8],
        dst: &mut [u8],
    ) -> Result<(), ProtectionError> {
        match self {
            Self::Mapper(mapper) => mapper.decrypt_to(first, src, dst)?,
            Self::Cascade(cascade) => cascade.decrypt_to(first, src, dst)?,
            Self::Identity => {
                if src.len() != dst.len() {
                    return Err(RunError::LengthMismatch { src: src.len(), dst: dst.len() }.into());
                }
                dst.copy_from_slice(src);
            }
            Self::Shown(unit) => show(unit, dst)?,
            Self::Tagged(_) | Self::Elsewhere { .. } => return Err(ProtectionError::Tags),
        }
        Ok(())
    }
}

/// Fills a run of whole data units with what each is shown as.
fn show(unit: &[u8], run: &mut [u8]) -> Result<(), RunError> {
    let (len, data_unit) = (run.len(), unit.len());
    if data_unit == 0 || !len.is_multiple_of(data_unit) {
        return Err(RunError::PartialDataUnit { len, data_unit });
    }
    run.chunks_mut(data_unit).for_each(|shown| shown.copy_from_slice(unit));
    Ok(())
}

impl From<RunError> for ProtectionError {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl From<Locked<Mapper>> for Protection {
    fn from(mapper: Locked<Mapper>) -> Self {
        Self::Mapper(mapper)
    }
}

impl fmt::Debug for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mapper(_) => "Mapper(..)",
            Self::Cascade(_) => "Cascade(..)",
            Self::Identity => "Identity",
            Self::Shown(_) => "Shown(..)",
            Self::Tagged(_) => "Tagged(..)",
            Self::Elsewhere { .. } => "Elsewhere",
        })
    }
}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Layer(..)")
    }
}

impl fmt::Debug for Cascade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cascade(..)")
    }
}

impl fmt::Display for CascadeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a cascade needs at least one cipher"),
            Self::DataUnits { first, other } => {
                write!(f, "ciphers over data units of {first} and of {other} bytes make no cascade")
            }
        }
    }
}

impl fmt::Display for ProtectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(error) => error.fmt(f),
            Self::Tags => f.write_str("the data units have tags, which were not given"),
            Self::Reserved => {
                f.write_str("the format keeps this place for itself, and nothing can be written there")
            }
        }
    }
}

impl core::error::Error for CascadeError {}

crate::error::source! { ProtectionError: Run; }

#[cfg(test)]
mod tests {
    use atrest_cipher::{CipherSpec, MapperOptions};

    use super::*;

    fn mapper(cipher: &str, key: u8, data_unit: usize) -> Locked<Mapper> {
        let spec: CipherSpec = cipher.parse().expect("known");
        let key: Vec<u8> = (0..64).map(|byte: u8| byte ^ key).collect();
        let options = MapperOptions { data_unit, ..MapperOptions::default() };
        Locked::new(Mapper::new(&spec, &key, &options).expect("it fits"))
    }

    const CIPHERS: [&str; 3] = ["aes-xts-plain64", "twofish-xts-plain64", "serpent-xts-plain64"];

    fn mappers() -> Vec<Locked<Mapper>> {
        CIPHERS.iter().zip(1..).map(|(cipher, key)| mapper(cipher, key, 512)).collect()
    }

    #[test]
    fn a_cascade_is_each_cipher_over_what_the_one_before_it_made() {
        let plain: Vec<u8> = (0..2048_u32).map(|i| (i * 7) as u8).collect();
        let mut expected = plain.clone();
        for mapper in mappers() {
            mapper.encrypt(DataUnitIndex(5), &mut expected).expect("whole units");
        }
        let cascade = Protection::Cascade(Cascade::new(mappers()).expect("one size"));
        let mut run = plain.clone();
        cascade.encrypt(DataUnitIndex(5), &mut run).expect("whole units");
        assert_eq!(run, expected);
        let mut copied = vec![0; plain.len()];
        cascade.encrypt_to(DataUnitIndex(5), &plain, &mut copied).expect("whole units");
        assert_eq!(copied, expected);
        for count in 1..=3 {
            let some = Cascade::new(mappers().into_iter().take(count).collect()).expect("one size");
            let some = Protection::Cascade(some);
            some.encrypt_to(DataUnitIndex(5), &plain, &mut copied).expect("whole units");
            let mut back = vec![0; plain.len()];
            some.decrypt_to(DataUnitIndex(5), &copied, &mut back).expect("whole units");
            assert_eq!(back, plain, "{count} ciphers");
        }
        cascade.decrypt(DataUnitIndex(5), &mut run).expect("whole units");
        assert_eq!(run, plain);
    }

    #[test]
    fn ciphers_over_other_data_units_make_no_cascade() {
        assert_eq!(Cascade::new(Vec::<Layer>::new()).expect_err("none"), CascadeError::Empty);
        let mixed = vec![mapper(CIPHERS[0], 1, 512), mapper(CIPHERS[1], 2, 4096)];
        let error = Cascade::new(mixed).expect_err("two sizes");
        assert_eq!(error, CascadeError::DataUnits { first: 512, other: 4096 });
        let one_size = vec![mapper(CIPHERS[0], 1, 4096), mapper(CIPHERS[1], 2, 4096)];
        assert_eq!(Protection::Cascade(Cascade::new(one_size).expect("one size")).data_unit(), 4096);
    }

    #[test]
    fn what_is_encrypted_elsewhere_is_not_encrypted_here() {
        let elsewhere = Protection::Elsewhere { data_unit: 4096 };
        let (mut run, mut other) = ([7; 4096], [0; 4096]);
        assert_eq!(elsewhere.encrypt(DataUnitIndex(0), &mut run), Err(ProtectionError::Tags));
        assert_eq!(elsewhere.decrypt(DataUnitIndex(0), &mut run), Err(ProtectionError::Tags));
        assert_eq!(elsewhere.encrypt_to(DataUnitIndex(0), &run, &mut other), Err(ProtectionError::Tags));
        assert_eq!(elsewhere.decrypt_to(DataUnitIndex(0), &run, &mut other), Err(ProtectionError::Tags));
        assert_eq!((elsewhere.data_unit(), run, other), (4096, [7; 4096], [0; 4096]));
    }

    #[test]
    fn a_place_of_the_format_itself_reads_as_what_it_is_shown_as_and_is_never_written() {
        let unit: Vec<u8> = (0..=255).cycle().take(512).collect();
        let shown = Protection::Shown(unit.clone().into());
        let (mut run, mut other) = ([7; 1024], [9; 1024]);
        assert_eq!(shown.encrypt(DataUnitIndex(0), &mut run), Err(ProtectionError::Reserved));
        assert_eq!(shown.encrypt_to(DataUnitIndex(0), &run, &mut other), Err(ProtectionError::Reserved));
        assert_eq!((shown.data_unit(), run, other), (512, [7; 1024], [9; 1024]));
        shown.decrypt_to(DataUnitIndex(0), &run, &mut other).expect("whole units");
        shown.decrypt(DataUnitIndex(0), &mut run).expect("whole units");
        assert_eq!((&run[..], &other[..]), (&unit.repeat(2)[..], &unit.repeat(2)[..]));
        let partial = shown.decrypt(DataUnitIndex(0), &mut run[..100]);
        assert_eq!(partial, Err(RunError::PartialDataUnit { len: 100, data_unit: 512 }.into()));
    }

    #[test]
    fn without_protection_a_run_stays_as_it_is() {
        let (mut run, mut copy) = ([7; 1024], [0; 1024]);
        Protection::Identity.encrypt(DataUnitIndex(0), &mut run).expect("nothing to do");
        Protection::Identity.decrypt(DataUnitIndex(0), &mut run).expect("nothing to do");
        Protection::Identity.encrypt_to(DataUnitIndex(0), &run, &mut copy).expect("a copy");
        assert_eq!((run, copy), ([7; 1024], [7; 1024]));
        copy.fill(0);
        Protection::Identity.decrypt_to(DataUnitIndex(0), &run, &mut copy).expect("a copy");
        assert_eq!(copy, [7; 1024]);
        let short = Protection::Identity.decrypt_to(DataUnitIndex(0), &run, &mut copy[..512]);
        assert!(matches!(short, Err(ProtectionError::Run(RunError::LengthMismatch { .. }))), "{short:?}");
        let short = Protection::Identity.encrypt_to(DataUnitIndex(0), &run, &mut copy[..512]);
        assert!(matches!(short, Err(ProtectionError::Run(RunError::LengthMismatch { .. }))), "{short:?}");
    }
}
