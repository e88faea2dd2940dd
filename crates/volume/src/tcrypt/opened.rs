//! A header that was decrypted, and the volume that it describes.

use core::ops::Range;

use atrest_cipher::{
    CbcCipher, CipherSpec, DataUnitIndex, KeyError, Mapper, MapperOptions, NarrowLrw, WhitenedCbc,
};
use atrest_format::tcrypt::{Chain, ENCRYPTED_LEN, Header, HeaderError, Layout, Mode, Place};
use atrest_kdf::tcrypt::Derivation;
use atrest_secret::{Locked, SecretArray};

use super::TcryptError;
use crate::data_mapper::data_mapper;
use crate::{
    Cascade, CryptTarget, Layer, Protection, Segment, UnlockError, UnlockOptions, Volume, VolumeFormat,
    VolumeKey,
};

/// What opened: a header, and by which derivation and ciphers.
#[derive(Debug)]
pub struct Opened {
    header: Header,
    chain: Chain,
    derivation: Derivation,
    place: Place,
    /// Where the partition begins on the drive, if that is what is opened of a system.
    partition: Option<u64>,
}

/// The cipher of a chain at `index`, with its key out of `material`.
fn cipher(chain: &Chain, index: usize, material: &[u8]) -> Result<(CipherSpec, VolumeKey), UnlockError> {
    let (key, len) = chain.key(index, material).ok_or(UnlockError::UnsupportedType)?;
    let spec = chain.spec(index).ok_or(UnlockError::UnsupportedType)?;
    let key = VolumeKey::copy_from(key.get(..len).ok_or(UnlockError::UnsupportedType)?);
    Ok((spec.parse().map_err(UnlockError::UnsupportedCipher)?, key))
}

/// Decrypts a header with each of `chains`; the first that yields one.
pub(super) fn find(
    chains: &[Chain],
    material: &[u8],
    encrypted: &[u8],
    derivation: Derivation,
    place: Place,
) -> Result<Option<Opened>, UnlockError> {
    for chain in chains {
        let decrypted = decrypt(chain, material, encrypted)?;
        match Header::read(&decrypted) {
            Ok(None) => {}
            // Four letters come out by chance once in a while.
            Err(HeaderError::Checksum) => {}
            Err(error) => return Err(TcryptError::Header(error).into()),
            Ok(Some(header)) => {
                return Ok(Some(Opened { header, chain: *chain, derivation, place, partition: None }));
            }
        }
    }
    Ok(None)
}

/// The header is one data unit of its own, with the number 0.
fn decrypt(
    chain: &Chain,
    material: &[u8],
    encrypted: &[u8],
) -> Result<SecretArray<ENCRYPTED_LEN>, UnlockError> {
    let mut unit = SecretArray::zeroed();
    for (to, from) in unit.iter_mut().zip(encrypted) {
        *to = *from;
    }
    let options =
        MapperOptions { data_unit: ENCRYPTED_LEN, allow_equal_xts_halves: true, ..MapperOptions::default() };
    if chain.mode == Mode::Cbc {
        for chain in in_cbc(chain, material, 0)?.iter().rev() {
            // cannot fail: it is one chain of whole blocks.
            chain.decrypt_unnumbered(&mut *unit).map_err(|_| UnlockError::UnsupportedType)?;
        }
        return Ok(unit);
    }
    if chain.is_narrow() {
        let narrow = in_narrow_lrw(chain, material, 0)?;
        // cannot fail: it is less than a data unit of whole blocks.
        narrow.decrypt_unnumbered(&mut *unit).map_err(|_| UnlockError::UnsupportedType)?;
        return Ok(unit);
    }
    for index in (0..chain.ciphers.len()).rev() {
        let (spec, key) = cipher(chain, index, material)?;
        let mapper =
            Locked::try_new_with(|| Mapper::new(&spec, key.expose(), &options)).map_err(UnlockError::Key)?;
        // cannot fail: it is one data unit.
        mapper.decrypt(DataUnitIndex(0), &mut *unit).map_err(|_| UnlockError::UnsupportedType)?;
    }
    Ok(unit)
}

/// Encrypts a header, in XTS.
pub(super) fn encrypted(
    chain: &Chain,
    material: &[u8],
    mut unit: SecretArray<ENCRYPTED_LEN>,
) -> Result<SecretArray<ENCRYPTED_LEN>, UnlockError> {
    let options = MapperOptions { data_unit: ENCRYPTED_LEN, ..MapperOptions::default() };
    for index in 0..chain.ciphers.len() {
        let (spec, key) = cipher(chain, index, material)?;
        let mapper =
            Locked::try_new_with(|| Mapper::new(&spec, key.expose(), &options)).map_err(UnlockError::Key)?;
        // cannot fail: it is one data unit.
        mapper.encrypt(DataUnitIndex(0), &mut *unit).map_err(|_| UnlockError::UnsupportedType)?;
    }
    Ok(unit)
}

/// Each chain of CBC that the ciphers are in; the first encrypts the plaintext.
fn in_cbc(chain: &Chain, material: &[u8], first_unit: u64) -> Result<Vec<Locked<WhitenedCbc>>, UnlockError> {
    let seed = chain.seed(material).ok_or(UnlockError::UnsupportedType)?;
    let cipher = |index: usize| {
        let name = chain.ciphers.get(index).ok_or(UnlockError::UnsupportedType)?;
        Ok((named(name)?, chain.bare_key(index, material).ok_or(UnlockError::UnsupportedType)?))
    };
    let joined = |indexes: Range<usize>| {
        let keys: Vec<_> = indexes.map(cipher).collect::<Result<_, UnlockError>>()?;
        let made: Result<_, KeyError> = Locked::try_new_with(|| WhitenedCbc::new(&keys, seed, first_unit));
        made.map_err(UnlockError::Key)
    };
    chain.in_cbc().into_iter().map(joined).collect()
}

/// The only cipher of a chain in LRW whose blocks have eight bytes.
fn in_narrow_lrw(chain: &Chain, material: &[u8], first_unit: u64) -> Result<Locked<NarrowLrw>, UnlockError> {
    let [name] = chain.ciphers else { return Err(UnlockError::UnsupportedType) };
    let cipher = named(name)?;
    let key = chain.bare_key(0, material).ok_or(UnlockError::UnsupportedType)?;
    let tweak_key = material.first_chunk().ok_or(UnlockError::UnsupportedType)?;
    let made: Result<_, KeyError> =
        Locked::try_new_with(|| NarrowLrw::new(cipher, key, tweak_key, first_unit));
    made.map_err(UnlockError::Key)
}

fn named(cipher: &str) -> Result<CbcCipher, UnlockError> {
    Ok(match cipher {
        "aes" => CbcCipher::Aes,
        "serpent" => CbcCipher::Serpent,
        "twofish" => CbcCipher::Twofish,
        "blowfish_le" => CbcCipher::BlowfishLe,
        "cast5" => CbcCipher::Cast5,
        "des3_ede" => CbcCipher::Des3Ede,
        _ => return Err(UnlockError::UnsupportedType),
    })
}

impl Opened {
    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The ciphers.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// How the header's key was derived.
    pub fn derivation(&self) -> Derivation {
        self.derivation
    }

    /// Where the header was.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Makes it one of a partition, whose place on the drive is known.
    pub(super) fn of_partition(self, partition: Option<u64>) -> Self {
        Self { partition, ..self }
    }

    /// Where the data is on a device of so many bytes.
    fn layout(&self, device: u64) -> Result<Layout, TcryptError> {
        let system = self.place == Place::System;
        // A drive is longer than its system, in front of which there is the header at least.
        let layout = if system && (self.partition.is_some() || device == self.header.size) {
            self.header.layout_of_partition(self.chain.mode, self.partition, device)
        } else {
            self.header.layout(self.place, self.chain.mode, device)
        };
        layout.map_err(TcryptError::Layout)
    }

    /// The volume on a device of so many bytes.
    ///
    /// # Errors
    /// [`TcryptError::Layout`] if the data can't be where the header says or is not all encrypted, [`UnlockError::Key`] for keys that
    /// nobody should use.
    pub fn volume(&self, device: u64, options: &UnlockOptions) -> Result<Volume, UnlockError> {
        let layout = self.layout(device)?;
        let (protection, weak) = match self.chain.mode {
            Mode::Cbc => {
                let chains = in_cbc(&self.chain, &*self.header.keys, layout.first_unit)?;
                (Protection::Cascade(cascade(chains)?), false)
            }
            Mode::Lrw if self.chain.is_narrow() => {
                let narrow = in_narrow_lrw(&self.chain, &*self.header.keys, layout.first_unit)?;
                (Protection::Cascade(cascade(vec![narrow])?), false)
            }
            Mode::Xts | Mode::Lrw => self.mappers(layout, options)?,
        };
        let targets = if options.keep_key { self.targets(layout)? } else { Vec::new() };
        let segment = Segment { start: 0, len: layout.len, media_offset: layout.start, protection };
        Ok(Volume::new(VolumeFormat::Tcrypt, vec![segment])
            .with_targets(targets)
            .with_read_only(options.read_only || weak))
    }

    /// The outer volume, whose hidden one was opened, too: nobody may write what is the hidden one's.
    ///
    /// # Errors
    /// Those of [`volume`](Self::volume), for either of them. [`TcryptError::NotInside`] if the hidden volume is none, or does not lie in this one.
    pub fn volume_protecting(
        &self,
        hidden: &Self,
        device: u64,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        let outer = self.header.layout(self.place, self.chain.mode, device).map_err(TcryptError::Layout)?;
        let inner =
            hidden.header.layout(hidden.place, hidden.chain.mode, device).map_err(TcryptError::Layout)?;
        let starts = inner.start.checked_sub(outer.start);
        let ends = starts.and_then(|start| start.checked_add(inner.len)).filter(|end| *end <= outer.len);
        let (Some(start), Some(end)) = (starts, ends) else { return Err(TcryptError::NotInside.into()) };
        if !hidden.place.is_hidden() || self.place.is_hidden() {
            return Err(TcryptError::NotInside.into());
        }
        // Before TrueCrypt 6.0 the hidden volume's header is behind it, in the outer one's data.
        let end = if hidden.place == Place::OldHidden { outer.len } else { end };
        Ok(self.volume(device, options)?.with_protected(start..end))
    }

    /// A mapper for each cipher, and whether one of them may only read.
    fn mappers(&self, layout: Layout, options: &UnlockOptions) -> Result<(Protection, bool), UnlockError> {
        let (mut mappers, mut weak) = (Vec::new(), false);
        for index in 0..self.chain.ciphers.len() {
            let (spec, key) = cipher(&self.chain, index, &*self.header.keys)?;
            let mapper = MapperOptions { iv_offset: layout.first_unit, ..MapperOptions::default() };
            let (mapper, for_reading) =
                data_mapper(&spec, &key, options, mapper).map_err(UnlockError::Key)?;
            mappers.push(mapper);
            weak |= for_reading;
        }
        let protection = match <[_; 1]>::try_from(mappers) {
            Ok([only]) => Protection::Mapper(only),
            Err(several) => Protection::Cascade(cascade(several)?),
        };
        Ok((protection, weak))
    }

    /// What the kernel has to be told; nothing of ciphers that it does not have.
    fn targets(&self, layout: Layout) -> Result<Vec<CryptTarget>, UnlockError> {
        let specs = (0..self.chain.ciphers.len()).map(|index| self.chain.spec(index));
        let Some(specs) = specs.collect::<Option<Vec<_>>>() else { return Ok(Vec::new()) };
        let target = |(index, cipher)| {
            let (key, len) = self.chain.key(index, &*self.header.keys).ok_or(UnlockError::UnsupportedType)?;
            let key = VolumeKey::copy_from(key.get(..len).ok_or(UnlockError::UnsupportedType)?);
            Ok(target(cipher, key, layout))
        };
        specs.into_iter().enumerate().map(target).collect()
    }
}

fn cascade<L: Into<Layer>>(layers: Vec<L>) -> Result<Cascade, UnlockError> {
    // cannot fail: each has data units of 512 bytes, and there are some.
    Cascade::new(layers).map_err(|_| UnlockError::UnsupportedType)
}

fn target(cipher: String, key: VolumeKey, layout: Layout) -> CryptTarget {
    CryptTarget {
        start: 0,
        len: layout.len,
        media_offset: layout.start,
        cipher,
        key,
        digest: None,
        iv_offset: layout.first_unit,
        data_unit: 512,
        iv_large: false,
        tags: None,
    }
}
