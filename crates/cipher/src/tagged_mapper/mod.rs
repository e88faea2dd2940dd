//! Authenticated ciphers over runs of data units with a tag beside each, as dm-crypt with dm-integrity has them (kernel,
//! `drivers/md/dm-crypt.c`, "AEAD"; FORMATS.md).
//!
//! Each unit is a message of its own. What is authenticated beside it is its place: the number of its first sector of 512 bytes, from
//! the start of the segment, and its IV.

mod aegis;
mod authenc;
mod ccm;
mod chacha;
mod gcm;
mod hmac;
mod spec;
mod units;

use core::fmt;

use atrest_secret::constant_time_eq;

use self::aegis::Aegis;
use self::authenc::Authenc;
use self::ccm::{Ccm, InCcm};
use self::chacha::ChaCha20Poly1305;
use self::hmac::KeyedMac;
use self::spec::{IvSource, Kind};
pub use self::spec::{TaggedSpec, TaggedSpecError};
use self::units::{AnyIv, AnyTag, MOST, UnitsWithTags};
use crate::aegis::AegisKey;
use crate::backend::{AnyAes, BackendChoice, for_any_aes, make_with_aes};
use crate::block::Direction;
use crate::gcm::{Gcm, InGcm};
use crate::key_error::KeyError;
use crate::keyed::AnyKeyed;
use crate::options::MapperOptions;
#[cfg(feature = "other-ciphers")]
use crate::other::{Name, OtherCipher};
use crate::run::{DataUnitIndex, RunError, without_traces};
use crate::spec::Cipher;
use crate::tagged::Tagged;

/// An authenticated cipher with its key. Holds expanded keys, wipes them on drop, can be shared by threads.
///
/// ```
/// use atrest_cipher::{DataUnitIndex, MapperOptions, Tagged, TaggedMapper, TaggedSpec};
///
/// let spec = TaggedSpec::new("aegis128-random", "aead")?;
/// let key = [7; 16]; // a secret, in earnest
/// let options = MapperOptions { data_unit: 4096, ..MapperOptions::default() };
/// let cipher = TaggedMapper::new(&spec, &key, None, &options)?;
/// let mut run = vec![0; 2 * 4096];
/// let mut tags = vec![0; 2 * cipher.tag_len()];
/// // In earnest, the end of each tag is filled with random bytes.
/// cipher.seal(DataUnitIndex(17), &mut run, &mut tags)?;
/// run[5000] ^= 1;
/// let mut forged = Vec::new();
/// cipher.open(DataUnitIndex(17), &mut run, &tags, &mut |unit| forged.push(unit))?;
/// assert_eq!(forged, [DataUnitIndex(18)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TaggedMapper {
    keyed: KeyedKind,
    iv: IvSource,
    iv_len: usize,
    mac_len: usize,
    data_unit: usize,
    iv_offset: u64,
}

// It goes into locked memory, of which little may be had.
const _: () = assert!(size_of::<TaggedMapper>() <= 9728);

#[allow(clippy::large_enum_variant, reason = "there is no heap to put the large ones on")]
enum KeyedKind {
    Gcm(AnyAes<InGcm>),
    Ccm(AnyAes<InCcm>),
    #[cfg(feature = "other-ciphers")]
    OtherGcm(Gcm<OtherCipher>),
    ChaCha20Poly1305(ChaCha20Poly1305),
    Aegis128(Aegis<5>),
    Aegis256(Aegis<6>),
    Authenc(Authenc),
}

impl TaggedMapper {
    /// Expands `key` for `spec`: the cipher's key and, where there is one, the MAC's behind it, which has `mac_key_len` bytes (`None`:
    /// [`TaggedSpec::mac_key_len`]). The caller wipes its copy of the key. Of the options, those of data units, of `iv_offset`, of
    /// backends, of vectors and of equal halves of keys count.
    ///
    /// # Errors
    /// * [`KeyError::DataUnit`] if a data unit is not 512, 1024, 2048 or 4096 bytes.
    /// * [`KeyError::Length`] if the specification takes no key of this length.
    /// * [`KeyError::NotBuilt`] if this build was made without the cipher or its hash.
    /// * [`KeyError::EqualXtsHalves`] as of a [`Mapper`](crate::Mapper).
    pub fn new(
        spec: &TaggedSpec,
        key: &[u8],
        mac_key_len: Option<usize>,
        options: &MapperOptions,
    ) -> Result<Self, KeyError> {
        let data_unit = options.data_unit;
        if !matches!(data_unit, 512 | 1024 | 2048 | 4096) {
            return Err(KeyError::DataUnit { len: data_unit });
        }
        if !spec.key_len_is_valid(key.len(), mac_key_len) {
            return Err(KeyError::Length { len: key.len() });
        }
        let keyed = KeyedKind::new(spec, key, mac_key_len, options)?;
        let (iv, iv_len, mac_len) = (spec.iv, spec.iv_len(), spec.mac_len());
        Ok(Self { keyed, iv, iv_len, mac_len, data_unit, iv_offset: options.iv_offset })
    }

    /// Name of the implementation in use, as [`Mapper::backend_name`](crate::Mapper::backend_name) has it.
    pub fn backend_name(&self) -> &'static str {
        match &self.keyed {
            KeyedKind::Gcm(aes) => aes.name(),
            KeyedKind::Ccm(aes) => aes.name(),
            KeyedKind::Aegis128(aegis) => aegis.backend.name(),
            KeyedKind::Aegis256(aegis) => aegis.backend.name(),
            KeyedKind::Authenc(authenc) => authenc.cipher.backend_name(),
            KeyedKind::ChaCha20Poly1305(cipher) => cipher.vectors.name(),
            #[allow(unreachable_patterns, reason = "in a build with none of them")]
            _ => "portable",
        }
    }

    /// Looks whether run and tags are of as many units.
    fn check(&self, run: usize, tags: usize) -> Result<(), RunError> {
        if !run.is_multiple_of(self.data_unit) {
            return Err(RunError::PartialDataUnit { len: run, data_unit: self.data_unit });
        }
        let expected = run / self.data_unit * self.tag_len();
        if tags != expected {
            return Err(RunError::LengthMismatch { src: tags, dst: expected });
        }
        Ok(())
    }

    /// Takes some units through the cipher. `given` are their tags; of those that the cipher makes, `made` has room for each.
    fn few(
        &self,
        direction: Direction,
        first: DataUnitIndex,
        data: &mut [u8],
        given: &[u8],
        made: &mut [AnyTag],
    ) {
        let step = self.data_unit as u64 / 512;
        let sector = first.0.wrapping_mul(step);
        let mut ivs = [AnyIv::default(); MOST];
        let ivs = &mut ivs[..made.len()];
        for ((iv, made), given) in ivs.iter_mut().zip(&mut *made).zip(given.chunks(self.tag_len())) {
            let (mac, random) = given.split_at(self.mac_len);
            made[..self.mac_len].copy_from_slice(mac);
            iv[..random.len()].copy_from_slice(random);
        }
        let mut number = sector.wrapping_add(self.iv_offset);
        match (self.iv, &self.keyed) {
            (iv, KeyedKind::Authenc(authenc)) => authenc.make_ivs(iv, number, step, ivs),
            (IvSource::Number(form), _) => {
                for iv in &mut *ivs {
                    form.write(number, &mut iv[..self.iv_len]);
                    number = number.wrapping_add(step);
                }
            }
            (IvSource::Random, _) => {}
        }
        let units = UnitsWithTags { direction, sector, unit: self.data_unit, ivs, data, tags: made };
        self.keyed.run(units);
    }
}

impl KeyedKind {
    fn new(
        spec: &TaggedSpec,
        key: &[u8],
        mac_key_len: Option<usize>,
        options: &MapperOptions,
    ) -> Result<Self, KeyError> {
        let wrong_length = KeyError::Length { len: key.len() };
        let backend = options.backend.unwrap_or_else(BackendChoice::best);
        Ok(match &spec.kind {
            Kind::Gcm(Cipher::Aes) => {
                let aes = make_with_aes!(backend, expand => Gcm::new(expand(key).ok_or(wrong_length)?));
                Self::Gcm(aes)
            }
            Kind::Ccm(Cipher::Aes) => {
                let (key, salt) = key.split_last_chunk().ok_or(wrong_length)?;
                let aes =
                    make_with_aes!(backend, expand => Ccm::new(expand(key).ok_or(wrong_length)?, *salt));
                Self::Ccm(aes)
            }
            #[cfg(feature = "other-ciphers")]
            Kind::Gcm(cipher) if let Some(name) = Name::of(*cipher) => {
                let cipher = OtherCipher::new(name, key, options.vectors_or_best()).ok_or(wrong_length)?;
                Self::OtherGcm(Gcm::new(cipher))
            }
            Kind::Gcm(cipher) | Kind::Ccm(cipher) => {
                return Err(KeyError::NotBuilt { feature: cipher.feature() });
            }
            Kind::ChaCha20Poly1305 => {
                let key = key.try_into().map_err(|_| wrong_length)?;
                Self::ChaCha20Poly1305(ChaCha20Poly1305::new(key, options.vectors_or_best()))
            }
            Kind::Aegis128 => Self::Aegis128(Aegis { key: AegisKey::new(key).ok_or(wrong_length)?, backend }),
            Kind::Aegis256 => Self::Aegis256(Aegis { key: AegisKey::new(key).ok_or(wrong_length)?, backend }),
            Kind::Authenc(cipher, mac) => {
                let mac_key = mac_key_len.unwrap_or(mac.tag_len());
                let at = key.len().checked_sub(mac_key).ok_or(wrong_length)?;
                let (cipher_key, mac_key) = key.split_at(at);
                let mac = KeyedMac::new(*mac, mac_key, options.vectors_or_best())?;
                // The kernel's essiv(authenc(…)) hashes both keys.
                let cipher = AnyKeyed::with_essiv_key(cipher, (cipher_key, key), options)?;
                Self::Authenc(Authenc { cipher, mac })
            }
        })
    }

    fn run(&self, units: UnitsWithTags<'_>) {
        match self {
            Self::Gcm(aes) => for_any_aes!(aes, gcm => gcm.run(units)),
            Self::Ccm(aes) => for_any_aes!(aes, ccm => ccm.run(units)),
            #[cfg(feature = "other-ciphers")]
            Self::OtherGcm(gcm) => gcm.run(units),
            Self::ChaCha20Poly1305(cipher) => cipher.run(units),
            Self::Aegis128(aegis) => aegis.run(units),
            Self::Aegis256(aegis) => aegis.run(units),
            Self::Authenc(authenc) => authenc.run(units),
        }
    }
}

impl Tagged for TaggedMapper {
    fn data_unit(&self) -> usize {
        self.data_unit
    }

    fn tag_len(&self) -> usize {
        self.mac_len + self.random_len()
    }

    fn random_len(&self) -> usize {
        match self.iv {
            IvSource::Random => self.iv_len,
            IvSource::Number(_) => 0,
        }
    }

    fn seal(&self, first: DataUnitIndex, run: &mut [u8], tags: &mut [u8]) -> Result<(), RunError> {
        self.check(run.len(), tags.len())?;
        without_traces(|| {
            let mut first = first;
            let (data, beside) = (self.data_unit * MOST, self.tag_len() * MOST);
            for (data, tags) in run.chunks_mut(data).zip(tags.chunks_mut(beside)) {
                let mut made = [[0; 64]; MOST];
                let made = &mut made[..data.len() / self.data_unit];
                self.few(Direction::Encrypt, first, data, tags, made);
                for (tag, made) in tags.chunks_mut(self.tag_len()).zip(made.iter()) {
                    tag[..self.mac_len].copy_from_slice(&made[..self.mac_len]);
                }
                first.0 = first.0.wrapping_add(made.len() as u64);
            }
        });
        Ok(())
    }

    fn open(
        &self,
        first: DataUnitIndex,
        run: &mut [u8],
        tags: &[u8],
        forged: &mut dyn FnMut(DataUnitIndex),
    ) -> Result<(), RunError> {
        self.check(run.len(), tags.len())?;
        without_traces(|| {
            let mut number = first;
            let (data, beside) = (self.data_unit * MOST, self.tag_len() * MOST);
            for (data, tags) in run.chunks_mut(data).zip(tags.chunks(beside)) {
                let mut made = [[0; 64]; MOST];
                let made = &mut made[..data.len() / self.data_unit];
                self.few(Direction::Decrypt, number, data, tags, made);
                let units = data.chunks_mut(self.data_unit).zip(tags.chunks(self.tag_len()));
                for ((unit, tag), made) in units.zip(made.iter()) {
                    if !constant_time_eq(&tag[..self.mac_len], &made[..self.mac_len]) {
                        atrest_secret::wipe(unit);
                        forged(number);
                    }
                    number.0 = number.0.wrapping_add(1);
                }
            }
        });
        Ok(())
    }
}

impl fmt::Debug for TaggedMapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaggedMapper")
            .field("backend", &self.backend_name())
            .field("data_unit", &self.data_unit)
            .finish_non_exhaustive()
    }
}
