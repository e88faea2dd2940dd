//! A cipher in a mode with its key: what a mapper holds, for every cipher and backend.

use atrest_secret::{SecretArray, constant_time_eq};

#[cfg(target_arch = "x86_64")]
use crate::backend::{AesNiAvx, AesNiSse, Wide};
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
use crate::backend::{ArmCe, Wide};
use crate::backend::{BackendChoice, Kind, PortableAes};
use crate::block::{BlockCipher, Direction};
use crate::chacha::{ChaChaRounds, StreamKey};
use crate::hash::Hash;
use crate::library::{Camellia, Serpent, Twofish};
use crate::mapper::KeyError;
use crate::mode::adiantum::{self, HashKeys};
use crate::mode::lrw::{self, LrwKey};
use crate::mode::xts::{self, XtsUnits};
use crate::run::Run;
use crate::spec::{Cipher, CipherSpec, Mode};
use crate::tweak::{Iv, TweakRule, Units};

/// Where the data units of a run are.
#[derive(Clone, Copy)]
pub(crate) struct Position {
    /// IV number of the first unit.
    pub(crate) number: u64,
    /// What the number grows by from unit to unit.
    pub(crate) step: u64,
    /// Cipher blocks in a unit.
    pub(crate) unit_blocks: usize,
}

/// Expanded keys of one block cipher in one mode.
pub(crate) struct Keyed<C> {
    data: C,
    mode: KeyedMode<C>,
    rule: TweakRule<C>,
}

#[allow(clippy::large_enum_variant, reason = "there is no heap to put the large one on")]
enum KeyedMode<C> {
    Ecb,
    Cbc,
    Xts {
        tweak: C,
    },
    Lrw(LrwKey),
    /// Adiantum and HPolyC, whose block cipher is `data`.
    WideBlock {
        stream: StreamKey,
        hash: HashKeys,
    },
}

impl<C: BlockCipher> Keyed<C> {
    /// `expand` makes a key schedule, or says that the cipher takes no key of that length.
    fn new(
        spec: &CipherSpec,
        key: &[u8],
        allow_equal_xts_halves: bool,
        expand: impl Fn(&[u8]) -> Option<C>,
    ) -> Result<Self, KeyError> {
        let wrong_length = KeyError::Length { len: key.len() };
        if !spec.key_len_is_valid(key.len()) {
            return Err(wrong_length);
        }
        let expand = |key: &[u8]| expand(key).ok_or(wrong_length);
        let (data, mode) = match spec.mode {
            Mode::Ecb => (expand(key)?, KeyedMode::Ecb),
            Mode::Cbc => (expand(key)?, KeyedMode::Cbc),
            Mode::Xts => {
                let (data, tweak) = key.split_at(key.len() / 2);
                if !allow_equal_xts_halves && constant_time_eq(data, tweak) {
                    return Err(KeyError::EqualXtsHalves);
                }
                (expand(data)?, KeyedMode::Xts { tweak: expand(tweak)? })
            }
            Mode::Lrw => {
                let (data, tweak) = key.split_last_chunk::<16>().ok_or(wrong_length)?;
                (expand(data)?, KeyedMode::Lrw(LrwKey::new(tweak)))
            }
            Mode::Adiantum | Mode::HPolyC => {
                let key = key.first_chunk().ok_or(wrong_length)?;
                let rounds = match spec.cipher {
                    Cipher::XChaCha20Aes => ChaChaRounds::Twenty,
                    _ => ChaChaRounds::Twelve,
                };
                let stream = StreamKey::new(key, rounds);
                let mut block_key = SecretArray::<32>::zeroed();
                let hash = match spec.mode {
                    Mode::HPolyC => HashKeys::hpolyc(&stream, &mut block_key),
                    _ => HashKeys::adiantum(&stream, &mut block_key),
                };
                (expand(&block_key[..])?, KeyedMode::WideBlock { stream, hash })
            }
        };
        let rule = match spec.iv.essiv {
            None => TweakRule::Number(spec.iv.number),
            Some(hash) => {
                let mut salt = SecretArray::<{ Hash::MAX_LEN }>::zeroed();
                hash.digest(key, &mut salt);
                TweakRule::Encrypted(spec.iv.number, expand(&salt[..hash.output_len().min(Hash::MAX_LEN)])?)
            }
        };
        Ok(Self { data, mode, rule })
    }

    fn run(&self, direction: Direction, position: Position, run: Run<'_>) {
        let units = Units::new(&self.rule, position.number, position.step, position.unit_blocks);
        match &self.mode {
            KeyedMode::Ecb => self.data.ecb(direction, run),
            KeyedMode::Cbc => self.data.cbc(direction, units, run),
            KeyedMode::Xts { tweak } => {
                self.data.xts(direction, XtsUnits { tweak_cipher: tweak, units }, run);
            }
            KeyedMode::Lrw(key) => lrw::run(&self.data, key, direction, units, run),
            KeyedMode::WideBlock { stream, hash } => {
                adiantum::run(&self.data, stream, hash, direction, units, run);
            }
        }
    }

    fn xts_unit(&self, direction: Direction, iv: &Iv, src: Option<&[u8]>, dst: &mut [u8]) {
        if let KeyedMode::Xts { tweak } = &self.mode {
            xts::unit(&self.data, tweak, direction, iv, src, dst);
        }
    }

    fn wide_unit(&self, direction: Direction, tweak: &[u8], src: Option<&[u8]>, dst: &mut [u8]) {
        if let KeyedMode::WideBlock { stream, hash } = &self.mode {
            adiantum::unit(&self.data, stream, hash, direction, tweak, src, dst);
        }
    }
}

/// [`Keyed`] for whichever cipher and backend was chosen at key set-up.
#[allow(clippy::large_enum_variant, reason = "there is no heap to put the large ones on")]
pub(crate) enum AnyKeyed {
    PortableAes(Keyed<PortableAes>),
    #[cfg(target_arch = "x86_64")]
    AesNiAvx(Keyed<Wide<AesNiAvx>>),
    #[cfg(target_arch = "x86_64")]
    AesNiSse(Keyed<Wide<AesNiSse>>),
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    ArmCe(Keyed<Wide<ArmCe>>),
    Serpent(Keyed<Serpent>),
    Twofish(Keyed<Twofish>),
    Camellia(Keyed<Camellia>),
}

/// Calls the same on whatever is inside.
macro_rules! for_any {
    ($any:expr, $keyed:ident => $call:expr) => {
        match $any {
            AnyKeyed::PortableAes($keyed) => $call,
            #[cfg(target_arch = "x86_64")]
            AnyKeyed::AesNiAvx($keyed) => $call,
            #[cfg(target_arch = "x86_64")]
            AnyKeyed::AesNiSse($keyed) => $call,
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            AnyKeyed::ArmCe($keyed) => $call,
            AnyKeyed::Serpent($keyed) => $call,
            AnyKeyed::Twofish($keyed) => $call,
            AnyKeyed::Camellia($keyed) => $call,
        }
    };
}

impl AnyKeyed {
    /// Expands `key` for `spec`.
    pub(crate) fn new(
        spec: &CipherSpec,
        key: &[u8],
        allow_equal_xts_halves: bool,
        backend: Option<BackendChoice>,
    ) -> Result<Self, KeyError> {
        let equal = allow_equal_xts_halves;
        Ok(match spec.cipher {
            Cipher::Null => return Err(KeyError::NullCipher),
            Cipher::Serpent => Self::Serpent(Keyed::new(spec, key, equal, Serpent::new)?),
            Cipher::Twofish => Self::Twofish(Keyed::new(spec, key, equal, Twofish::new)?),
            Cipher::Camellia => Self::Camellia(Keyed::new(spec, key, equal, Camellia::new)?),
            Cipher::Aes | Cipher::XChaCha12Aes | Cipher::XChaCha20Aes => {
                match backend.unwrap_or_else(BackendChoice::best).kind() {
                    Kind::Portable => Self::PortableAes(Keyed::new(spec, key, equal, PortableAes::new)?),
                    #[cfg(target_arch = "x86_64")]
                    Kind::AesNiAvx(cpu) => {
                        Self::AesNiAvx(Keyed::new(spec, key, equal, |key| Wide::new(cpu, key))?)
                    }
                    #[cfg(target_arch = "x86_64")]
                    Kind::AesNiSse(cpu) => {
                        Self::AesNiSse(Keyed::new(spec, key, equal, |key| Wide::new(cpu, key))?)
                    }
                    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
                    Kind::ArmCe(cpu) => Self::ArmCe(Keyed::new(spec, key, equal, |key| Wide::new(cpu, key))?),
                }
            }
        })
    }

    /// Encrypts or decrypts a run.
    pub(crate) fn run(&self, direction: Direction, position: Position, run: Run<'_>) {
        for_any!(self, keyed => keyed.run(direction, position, run));
    }

    /// One XTS data unit of at least 16 bytes, with ciphertext stealing. Does nothing in another mode.
    pub(crate) fn xts_unit(&self, direction: Direction, iv: &Iv, src: Option<&[u8]>, dst: &mut [u8]) {
        for_any!(self, keyed => keyed.xts_unit(direction, iv, src, dst));
    }

    /// One data unit of at least 16 bytes in a wide-block mode with a tweak of any length. Does nothing in another mode.
    pub(crate) fn wide_unit(&self, direction: Direction, tweak: &[u8], src: Option<&[u8]>, dst: &mut [u8]) {
        for_any!(self, keyed => keyed.wide_unit(direction, tweak, src, dst));
    }

    /// Name of the backend.
    pub(crate) fn backend_name(&self) -> &'static str {
        match self {
            Self::PortableAes(_) | Self::Serpent(_) | Self::Twofish(_) | Self::Camellia(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::AesNiAvx(_) => "aes-ni",
            #[cfg(target_arch = "x86_64")]
            Self::AesNiSse(_) => "aes-ni-sse",
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Self::ArmCe(_) => "armv8-ce",
        }
    }

    /// Whether time and memory accesses are independent of keys and data.
    pub(crate) fn is_constant_time(&self) -> bool {
        fn of<C: BlockCipher>(_: &Keyed<C>) -> bool {
            C::CONSTANT_TIME
        }
        for_any!(self, keyed => of(keyed))
    }
}
