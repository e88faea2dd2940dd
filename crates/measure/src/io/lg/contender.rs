//! The kinds of encryption that are compared, each on files of its own, all by the same code: [`Disk`] with other mappers.

use std::str::FromStr;

use atrest_cipher::{CipherSpec, Mapper, MapperOptions};
use atrest_secret::{Locked, OsRandom, Random, SecretBytes};

use super::super::MIB;
use super::super::medium::{Medium, Target};
use super::super::sequential::fill;
use super::FILES;
use crate::BenchError;
use atrest_engine::{Disk, DiskOptions};

/// How files are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Not at all.
    Plain,
    /// As files on a dm-crypt volume of the slides: aes-cbc-essiv:sha256, 128 bits, data units of 512 bytes, one key for all.
    VolumeCbc,
    /// As files on a LUKS2 volume: aes-xts-plain64, 512 bits, data units of 512 bytes, one key for all.
    VolumeXts,
    /// As fscrypt does, policy version 2: AES-256-XTS, data units of 4096 bytes, a key for each file.
    Fscrypt,
    /// In the manner of eCryptfs: AES-128-CBC, extents of 4096 bytes, a key for each file, a header of 8 KiB. IVs are ESSIV's, one block
    /// of AES where eCryptfs has one of MD5.
    Ecryptfs,
}

impl Contender {
    /// In the order of the slides.
    pub const ALL: [Self; 5] = [Self::Plain, Self::VolumeCbc, Self::VolumeXts, Self::Fscrypt, Self::Ecryptfs];

    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::VolumeCbc => "volume CBC",
            Self::VolumeXts => "volume XTS",
            Self::Fscrypt => "fscrypt",
            Self::Ecryptfs => "eCryptfs",
        }
    }

    /// Cipher, bytes of its key, bytes of a data unit.
    fn cipher(self) -> Option<(&'static str, usize, usize)> {
        match self {
            Self::Plain => None,
            Self::VolumeCbc => Some(("aes-cbc-essiv:sha256", 16, 512)),
            Self::VolumeXts => Some(("aes-xts-plain64", 64, 512)),
            Self::Fscrypt => Some(("aes-xts-plain64", 64, 4096)),
            Self::Ecryptfs => Some(("aes-cbc-essiv:sha256", 16, 4096)),
        }
    }

    fn one_key_for_all(self) -> bool {
        matches!(self, Self::VolumeCbc | Self::VolumeXts)
    }

    /// Bytes in front of the contents.
    fn header(self) -> u64 {
        if self == Self::Ecryptfs { 8 << 10 } else { 0 }
    }
}

/// The files of one contender.
pub struct Files {
    contender: Contender,
    targets: Vec<Target>,
    keys: Vec<SecretBytes>,
    /// Bytes of contents in each.
    size: u64,
}

impl Files {
    /// Makes them, `size` bytes each, and fills them.
    pub fn new(medium: &Medium, contender: Contender, size: u64, data: &[u8]) -> Result<Self, BenchError> {
        let mut files = Self { contender, targets: Vec::new(), keys: Vec::new(), size };
        for index in 0..FILES {
            files.targets.push(medium.target(contender.header() + size)?);
            let mut key = SecretBytes::zeroed(contender.cipher().map_or(0, |(_, len, _)| len));
            match files.keys.first() {
                Some(first) if contender.one_key_for_all() => key.copy_from_slice(first),
                _ => OsRandom.fill(&mut key).map_err(|_| BenchError::Random)?,
            }
            files.keys.push(key);
            fill(&files.open_one(index, 0)?, size / MIB, data)?;
        }
        Ok(files)
    }

    /// Their plaintexts, worked on by so many threads each.
    pub fn open(&self, threads: usize) -> Result<Vec<Disk>, BenchError> {
        (0..self.targets.len()).map(|index| self.open_one(index, threads)).collect()
    }

    fn open_one(&self, index: usize, threads: usize) -> Result<Disk, BenchError> {
        let (Some(target), Some(key)) = (self.targets.get(index), self.keys.get(index)) else {
            return Err(BenchError::Random);
        };
        let mut options = DiskOptions::default();
        options.threads = threads;
        let Some((spec, _, data_unit)) = self.contender.cipher() else {
            return Disk::identity(target.plain.clone(), options).map_err(BenchError::Disk);
        };
        let spec = CipherSpec::from_str(spec).map_err(|_| BenchError::Random)?;
        // In a volume the files lie one behind the other.
        let before =
            if self.contender.one_key_for_all() { index as u64 * self.size / data_unit as u64 } else { 0 };
        let mapping =
            MapperOptions { data_unit, iv_offset: before, iv_large: true, ..MapperOptions::default() };
        let mapper = Locked::try_new_with(|| Mapper::new(&spec, key, &mapping)).map_err(BenchError::Key)?;
        Disk::of_mapper(target.plain.clone(), mapper, self.contender.header(), self.size, options)
            .map_err(BenchError::Disk)
    }

    /// Has the kernel forget what it knows of their contents, and read ahead in them from now on or not.
    pub fn forget(&self, read_ahead: bool) -> Result<(), BenchError> {
        for target in &self.targets {
            match read_ahead {
                true => target.plain.expect_usual_reads(),
                false => target.plain.expect_random_reads(),
            }
            target.forget_pages()?;
        }
        Ok(())
    }
}
