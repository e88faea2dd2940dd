//! A header that was decrypted, and the volume that it describes.

use atrest_cipher::{CipherSpec, DataUnitIndex, Mapper, MapperOptions};
use atrest_format::tcrypt::{Chain, ENCRYPTED_LEN, Header, HeaderError, Layout, Mode, Place};
use atrest_kdf::tcrypt::Derivation;
use atrest_secret::{Locked, SecretArray};

use super::TcryptError;
use crate::data_mapper::data_mapper;
use crate::{
    Cascade, CryptTarget, Protection, Segment, UnlockError, UnlockOptions, Volume, VolumeFormat, VolumeKey,
};

/// What opened: a header, and by which derivation and ciphers.
#[derive(Debug)]
pub struct Opened {
    header: Header,
    chain: Chain,
    derivation: Derivation,
    place: Place,
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
            Ok(Some(header)) => return Ok(Some(Opened { header, chain: *chain, derivation, place })),
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
        return in_cbc(chain, material, unit);
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

/// A header in CBC is one chain: the IV is the beginning of the seed, and eight of its bytes whiten the ciphertext.
fn in_cbc(
    chain: &Chain,
    material: &[u8],
    mut unit: SecretArray<ENCRYPTED_LEN>,
) -> Result<SecretArray<ENCRYPTED_LEN>, UnlockError> {
    let part = |range| material.get(range).ok_or(UnlockError::UnsupportedType);
    let (iv, whitening, key) = (part(0..16)?, part(8..16)?, part(32..64)?);
    let name = chain.ciphers.first().ok_or(UnlockError::UnsupportedType)?;
    let spec: CipherSpec = format!("{name}-cbc-null").parse().map_err(UnlockError::UnsupportedCipher)?;
    let options = MapperOptions { data_unit: ENCRYPTED_LEN, ..MapperOptions::default() };
    let mapper = Locked::try_new_with(|| Mapper::new(&spec, key, &options)).map_err(UnlockError::Key)?;
    for (byte, white) in unit.iter_mut().zip(whitening.iter().cycle()) {
        *byte ^= white;
    }
    // cannot fail: it is one data unit.
    mapper.decrypt(DataUnitIndex(0), &mut *unit).map_err(|_| UnlockError::UnsupportedType)?;
    // The IV of the mapper is zero.
    for (byte, iv) in unit.iter_mut().zip(iv) {
        *byte ^= iv;
    }
    Ok(unit)
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

    /// The volume on a device of so many bytes.
    ///
    /// # Errors
    /// [`TcryptError::Layout`] if the data can't be where the header says or is not all encrypted, [`UnlockError::Key`] for keys that
    /// nobody should use.
    pub fn volume(&self, device: u64, options: &UnlockOptions) -> Result<Volume, UnlockError> {
        let layout = self.header.layout(self.place, self.chain.mode, device).map_err(TcryptError::Layout)?;
        let mut mappers = Vec::new();
        let mut targets = Vec::new();
        let mut weak = false;
        for index in 0..self.chain.ciphers.len() {
            let (spec, key) = cipher(&self.chain, index, &*self.header.keys)?;
            let mapper = MapperOptions { iv_offset: layout.first_unit, ..MapperOptions::default() };
            let (mapper, for_reading) =
                data_mapper(&spec, &key, options, mapper).map_err(UnlockError::Key)?;
            mappers.push(mapper);
            weak |= for_reading;
            if options.keep_key {
                targets.push(target(&spec, key, layout));
            }
        }
        let protection = match <[_; 1]>::try_from(mappers) {
            Ok([only]) => Protection::Mapper(only),
            // cannot fail: each has data units of 512 bytes, and there are some.
            Err(several) => {
                Protection::Cascade(Cascade::new(several).map_err(|_| UnlockError::UnsupportedType)?)
            }
        };
        let segment = Segment { start: 0, len: layout.len, media_offset: layout.start, protection };
        Ok(Volume::new(VolumeFormat::Tcrypt, vec![segment])
            .with_targets(targets)
            .with_read_only(options.read_only || weak))
    }
}

fn target(spec: &CipherSpec, key: VolumeKey, layout: Layout) -> CryptTarget {
    CryptTarget {
        start: 0,
        len: layout.len,
        media_offset: layout.start,
        cipher: spec.to_string(),
        key,
        digest: None,
        iv_offset: layout.first_unit,
        data_unit: 512,
        iv_large: false,
        tags: None,
    }
}
