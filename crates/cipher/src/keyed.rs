//! A cipher in a mode with its key: what a mapper holds, for every cipher and backend.

use atrest_secret::{SecretArray, constant_time_eq, with_wiped_stack};

use crate::backend::{AnyAes, BackendChoice, MadeOfAes, VectorChoice, for_any_aes, make_with_aes};
use crate::block::Direction;
#[cfg(any(feature = "blowfish", feature = "cast5", feature = "des"))]
use crate::block64::Keyed64;
use crate::chacha::{ChaChaRounds, StreamKey};
use crate::data_rule::DataRule;
use crate::data_rule::elephant::Elephant;
use crate::data_rule::tcw::Tcw;
use crate::key_error::KeyError;
use crate::mode::adiantum::{HashKeys, WideBlock};
use crate::mode::hctr2::{self, Hctr2Key};
use crate::mode::lrw::LrwKey;
use crate::mode::stream::StreamKeyed;
use crate::mode::xts::{self, XtsUnits};
use crate::mode::{AnyMode, Mode, cts};
use crate::multi::{MultiKeyed, OneKey};
use crate::options::MapperOptions;
#[cfg(feature = "other-ciphers")]
use crate::other::{Name, OtherCipher};
use crate::run::{Position, Run, RunError, without_traces_by_depth};
use crate::spec::{Cipher, CipherSpec, KeyedRule};
use crate::tweak::{Iv, TweakRule, Units};

/// Expanded keys of one block cipher in one mode.
pub(crate) struct Keyed<C: AnyMode> {
    data: C,
    mode: KeyedMode<C>,
    rule: TweakRule<C>,
}

#[allow(clippy::large_enum_variant, reason = "there is no heap to put the large one on")]
enum KeyedMode<C: AnyMode> {
    Ecb,
    Cbc,
    /// CBC with IVs of zeros, and a rule that adds its own.
    CbcWith(DataRule<C>),
    /// CBC with ciphertext stealing.
    CbcCts,
    Ctr,
    Xts {
        tweak: C,
    },
    /// With one key, of `data`.
    Xex1,
    Lrw(LrwKey),
    Hctr2(Hctr2Key<C::Hash>),
    /// Adiantum and HPolyC, whose block cipher is `data`.
    WideBlock(WideBlock<VectorChoice>),
}

impl<C: AnyMode> Keyed<C> {
    /// `expand` makes a key schedule, or says that the cipher takes no key of that length.
    fn new(
        spec: &CipherSpec,
        (key, essiv_key): (&[u8], &[u8]),
        options: &MapperOptions,
        expand: impl Fn(&[u8]) -> Option<C>,
    ) -> Result<Self, KeyError> {
        let wrong_length = KeyError::Length { len: key.len() };
        if !spec.key_len_is_valid(key.len()) {
            return Err(wrong_length);
        }
        let expand = |key: &[u8]| expand(key).ok_or(wrong_length);
        let (key, rule_key) = key.split_at(key.len() - spec.iv.key_len(key.len()));
        let (data, mode) = match spec.mode {
            Mode::Ecb => (expand(key)?, KeyedMode::Ecb),
            Mode::Cbc => (expand(key)?, Self::cbc(spec, key, rule_key, expand)?),
            Mode::CbcCts => (expand(key)?, KeyedMode::CbcCts),
            Mode::Ctr => (expand(key)?, KeyedMode::Ctr),
            Mode::Xex1 => (expand(key)?, KeyedMode::Xex1),
            Mode::Xts => {
                let (data, tweak) = key.split_at(key.len() / 2);
                if !options.allow_equal_xts_halves && constant_time_eq(data, tweak) {
                    return Err(KeyError::EqualXtsHalves);
                }
                (expand(data)?, KeyedMode::Xts { tweak: expand(tweak)? })
            }
            Mode::Lrw => {
                let (data, tweak) = key.split_last_chunk::<16>().ok_or(wrong_length)?;
                (expand(data)?, KeyedMode::Lrw(LrwKey::new(tweak)))
            }
            Mode::Hctr2 => {
                let cipher = expand(key)?;
                let key = Hctr2Key::new(&cipher);
                (cipher, KeyedMode::Hctr2(key))
            }
            // Not of a block cipher.
            Mode::Stream => return Err(wrong_length),
            Mode::Adiantum | Mode::HPolyC => {
                let key = key.first_chunk().ok_or(wrong_length)?;
                let backend = options.vectors_or_best();
                let stream = StreamKey::new(key, chacha_rounds(spec.cipher));
                let mut block_key = SecretArray::<32>::zeroed();
                let hash = match spec.mode {
                    Mode::HPolyC => HashKeys::hpolyc(&stream, &mut block_key),
                    _ => HashKeys::adiantum(&stream, &mut block_key),
                };
                (expand(&block_key[..])?, KeyedMode::WideBlock(WideBlock { stream, hash, backend }))
            }
        };
        let rule = match spec.iv.essiv {
            None => TweakRule::Number(spec.iv.number),
            Some(hash) => TweakRule::Encrypted(spec.iv.number, hash.digest_then(essiv_key, expand)?),
        };
        Ok(Self { data, mode, rule })
    }

    /// CBC with or without a rule that adds its own IVs. `key` and `rule_key` are the whole key.
    fn cbc(
        spec: &CipherSpec,
        key: &[u8],
        rule_key: &[u8],
        expand: impl Fn(&[u8]) -> Result<C, KeyError>,
    ) -> Result<KeyedMode<C>, KeyError> {
        Ok(KeyedMode::CbcWith(match spec.iv.keyed {
            Some(KeyedRule::Eboiv) => DataRule::Eboiv(expand(key)?),
            Some(KeyedRule::Elephant) => {
                DataRule::Elephant { ivs: expand(key)?, diffuser: Elephant::new(expand(rule_key)?) }
            }
            Some(KeyedRule::Tcw) => {
                let wrong_length = KeyError::Length { len: key.len() + rule_key.len() };
                let (seed, whitening) = rule_key.as_chunks().0.split_first().ok_or(wrong_length)?;
                DataRule::Tcw(Tcw::new(seed, whitening.first().ok_or(wrong_length)?))
            }
            // loop-AES's rule belongs to all of its keys together.
            Some(KeyedRule::Lmk) | None => return Ok(KeyedMode::Cbc),
        }))
    }

    fn run(&self, direction: Direction, position: Position, run: Run<'_>) {
        let units = Units::new(self.rule.by_ref(), position.number, position.step, position.unit_blocks);
        match &self.mode {
            KeyedMode::Ecb => self.data.ecb(direction, run),
            KeyedMode::Cbc => self.data.cbc(direction, units, run),
            KeyedMode::CbcWith(rule) => rule.around(direction, position, run, |position, run| {
                let units =
                    Units::new(self.rule.by_ref(), position.number, position.step, position.unit_blocks);
                self.data.cbc(direction, units, run);
            }),
            KeyedMode::Xex1 => self.data.xex1_from(direction, units, position.skipped, run),
            KeyedMode::CbcCts => cts::run(&self.data, direction, units, run),
            KeyedMode::Ctr => self.data.ctr(units, run),
            KeyedMode::Xts { tweak } => {
                let units = XtsUnits { tweak_cipher: tweak, units };
                self.data.xts_from(direction, units, position.skipped, run);
            }
            KeyedMode::Hctr2(key) => self.data.hctr2(key, direction, units, run),
            KeyedMode::Lrw(key) => self.data.lrw(key, direction, units, run),
            KeyedMode::WideBlock(wide) => wide.run(&self.data, direction, units, run),
        }
    }

    fn ivs(&self, number: u64, step: u64, ivs: &mut [Iv]) {
        Units::new(self.rule.by_ref(), number, step, 1).fill(ivs);
    }

    fn run_listed(&self, direction: Direction, ivs: &[Iv], unit_blocks: usize, run: Run<'_>) {
        let units = Units::listed(ivs, unit_blocks);
        match &self.mode {
            KeyedMode::Cbc => self.data.cbc(direction, units, run),
            KeyedMode::Xts { tweak } => {
                self.data.xts(direction, XtsUnits { tweak_cipher: tweak, units }, run);
            }
            _ => {}
        }
    }

    fn xts_unit(&self, direction: Direction, iv: &Iv, src: Option<&[u8]>, dst: &mut [u8]) {
        if let KeyedMode::Xts { tweak } = &self.mode {
            xts::unit(&self.data, tweak, direction, iv, src, dst);
        }
    }

    fn cts_unit(&self, direction: Direction, iv: &Iv, unit: &mut [u8]) {
        if let KeyedMode::Cbc = &self.mode {
            cts::unit(&self.data, direction, iv, unit);
        }
    }

    fn wide_unit(&self, direction: Direction, tweak: &[u8], src: Option<&[u8]>, dst: &mut [u8]) {
        match &self.mode {
            KeyedMode::WideBlock(wide) => wide.unit(&self.data, direction, tweak, src, dst),
            KeyedMode::Hctr2(key) => hctr2::unit(&self.data, key, direction, tweak, src, dst),
            _ => {}
        }
    }
}

/// Does `work` in a frame of its own. Keys and tweaks that it keeps on the stack would make the frame of whoever calls it too deep for
/// the other modes: what is wiped after them would not reach down to their own traces.
#[inline(never)]
fn apart<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Of ChaCha, or of XChaCha.
fn chacha_rounds(cipher: Cipher) -> ChaChaRounds {
    match cipher {
        Cipher::ChaCha20 | Cipher::XChaCha20Aes => ChaChaRounds::Twenty,
        _ => ChaChaRounds::Twelve,
    }
}

/// [`Keyed`] with whichever AES.
pub(crate) struct InMode;

impl MadeOfAes for InMode {
    type With<C: AnyMode> = Keyed<C>;
}

/// [`Keyed`] for whichever cipher and backend was chosen at key set-up.
#[allow(clippy::large_enum_variant, reason = "there is no heap to put the large ones on")]
pub(crate) enum AnyKeyed {
    Aes(AnyAes<InMode>),
    #[cfg(feature = "other-ciphers")]
    Other(Keyed<OtherCipher>),
    /// Ciphers with short blocks.
    #[cfg(any(feature = "blowfish", feature = "cast5", feature = "des"))]
    Short(Keyed64),
    /// A stream cipher.
    Stream(StreamKeyed<VectorChoice>),
    /// Several keys in turn.
    Multi(MultiKeyed),
}

/// Calls the same on whatever is inside, but for what the last three are asked.
macro_rules! for_any {
    ($any:expr, $keyed:ident => $call:expr, Short($short:pat) => $on_short:expr, Stream($stream:pat) => $on_stream:expr, Multi($multi:pat) => $on_multi:expr) => {
        match $any {
            #[cfg(any(feature = "blowfish", feature = "cast5", feature = "des"))]
            AnyKeyed::Short($short) => $on_short,
            AnyKeyed::Stream($stream) => $on_stream,
            AnyKeyed::Multi($multi) => $on_multi,
            AnyKeyed::Aes(aes) => for_any_aes!(aes, $keyed => $call),
            #[cfg(feature = "other-ciphers")]
            AnyKeyed::Other($keyed) => $call,
        }
    };
}

impl AnyKeyed {
    /// Expands `key` for `spec`.
    pub(crate) fn new(spec: &CipherSpec, key: &[u8], options: &MapperOptions) -> Result<Self, KeyError> {
        Self::with_essiv_key(spec, (key, key), options)
    }

    /// Expands a key for `spec`. The second is the one that ESSIV hashes.
    pub(crate) fn with_essiv_key(
        spec: &CipherSpec,
        (key, essiv_key): (&[u8], &[u8]),
        options: &MapperOptions,
    ) -> Result<Self, KeyError> {
        if spec.key_count() > 1 {
            return MultiKeyed::new::<Self>(spec, key, options).map(Self::Multi);
        }
        Ok(match spec.cipher {
            Cipher::Null => return Err(KeyError::NullCipher),
            #[cfg(any(feature = "blowfish", feature = "cast5", feature = "des"))]
            Cipher::Blowfish | Cipher::Cast5 | Cipher::Des3Ede => Self::Short(Keyed64::new(spec, key)?),
            Cipher::ChaCha12 | Cipher::ChaCha20 => {
                let key = key.as_array().ok_or(KeyError::Length { len: key.len() })?;
                let key = StreamKey::new(key, chacha_rounds(spec.cipher));
                let backend = options.vectors_or_best();
                Self::Stream(StreamKeyed { key, form: spec.iv.number, backend })
            }
            Cipher::Aes | Cipher::XChaCha12Aes | Cipher::XChaCha20Aes => {
                let backend = options.backend.unwrap_or_else(BackendChoice::best);
                Self::Aes(
                    make_with_aes!(backend, expand => Keyed::new(spec, (key, essiv_key), options, expand)?),
                )
            }
            cipher => {
                let not_built = KeyError::NotBuilt { feature: cipher.feature() };
                #[cfg(not(feature = "other-ciphers"))]
                return Err(not_built);
                #[cfg(feature = "other-ciphers")]
                {
                    let name = Name::of(cipher).ok_or(not_built)?;
                    let expand = |key: &[u8]| OtherCipher::new(name, key, options.vectors_or_best());
                    Self::Other(Keyed::new(spec, (key, essiv_key), options, expand)?)
                }
            }
        })
    }

    /// Encrypts or decrypts a run.
    pub(crate) fn run(&self, direction: Direction, position: Position, run: Run<'_>) -> Result<(), RunError> {
        for_any!(self, keyed => keyed.run(direction, position, run),
            Short(keyed) => apart(|| keyed.run(direction, position, run)),
            Stream(keyed) => keyed.run(position, run),
            Multi(keyed) => return apart(|| keyed.run::<Self>(direction, position, run)));
        Ok(())
    }

    /// Encrypts or decrypts a run and wipes the stack that it used, where there is `std`. `is_shallow` says that the run
    /// holds no table or list of tweaks there.
    pub(crate) fn run_without_traces(
        &self,
        is_shallow: bool,
        direction: Direction,
        position: Position,
        run: Run<'_>,
    ) -> Result<(), RunError> {
        match self {
            // Expands keys on the stack, which takes five times what a run takes.
            Self::Multi(_) => with_wiped_stack(|| self.run(direction, position, run)),
            _ => without_traces_by_depth(is_shallow, || self.run(direction, position, run)),
        }
    }

    /// The IVs of units whose numbers are `step` apart, as the cipher gets them. Nothing of a cipher that has no blocks of 16 bytes.
    pub(crate) fn ivs(&self, number: u64, step: u64, ivs: &mut [Iv]) {
        for_any!(self, keyed => keyed.ivs(number, step, ivs), Short(_) => (), Stream(_) => (), Multi(_) => ());
    }

    /// Encrypts or decrypts a run of units of `unit_blocks` cipher blocks, each with the IV that is listed for it. Does nothing in
    /// another mode than XTS and CBC.
    pub(crate) fn run_listed(&self, direction: Direction, ivs: &[Iv], unit_blocks: usize, run: Run<'_>) {
        for_any!(self, keyed => keyed.run_listed(direction, ivs, unit_blocks, run), Short(_) => (), Stream(_) => (), Multi(_) => ());
    }

    /// One XTS data unit of at least 16 bytes, with ciphertext stealing. Does nothing in another mode.
    pub(crate) fn xts_unit(&self, direction: Direction, iv: &Iv, src: Option<&[u8]>, dst: &mut [u8]) {
        for_any!(self, keyed => keyed.xts_unit(direction, iv, src, dst), Short(_) => (), Stream(_) => (), Multi(_) => ());
    }

    /// One data unit of at least 16 bytes in CBC with ciphertext stealing. Does nothing in another mode than CBC.
    pub(crate) fn cts_unit(&self, direction: Direction, iv: &Iv, unit: &mut [u8]) {
        for_any!(self, keyed => keyed.cts_unit(direction, iv, unit), Short(_) => (), Stream(_) => (), Multi(_) => ());
    }

    /// One data unit of at least 16 bytes in a wide-block mode with a tweak of any length. Does nothing in another mode.
    pub(crate) fn wide_unit(&self, direction: Direction, tweak: &[u8], src: Option<&[u8]>, dst: &mut [u8]) {
        for_any!(self, keyed => keyed.wide_unit(direction, tweak, src, dst), Short(_) => (), Stream(_) => (), Multi(_) => ());
    }

    /// Name of the backend.
    pub(crate) fn backend_name(&self) -> &'static str {
        fn vectors<C: AnyMode>(keyed: &Keyed<C>) -> Option<VectorChoice> {
            match &keyed.mode {
                KeyedMode::WideBlock(wide) => Some(wide.backend),
                _ => None,
            }
        }
        let vectors = for_any!(self, keyed => vectors(keyed), Short(_) => None, Stream(keyed) => Some(keyed.backend), Multi(_) => None);
        if let Some(vectors) = vectors {
            return vectors.name();
        }
        match self {
            Self::Aes(aes) => aes.name(),
            Self::Multi(keyed) => keyed.backend_name::<Self>(),
            // Code for any CPU is all that there is of the others.
            _ => "portable",
        }
    }

    /// Whether time and memory accesses are independent of keys and data.
    pub(crate) fn is_constant_time(&self) -> bool {
        fn of<C: AnyMode>(keyed: &Keyed<C>) -> bool {
            keyed.data.is_constant_time()
        }
        for_any!(self, keyed => of(keyed), Short(_) => false, Stream(_) => true, Multi(keyed) => keyed.is_constant_time::<Self>())
    }
}

impl OneKey for AnyKeyed {
    fn new(spec: &CipherSpec, key: &[u8], options: &MapperOptions) -> Result<Self, KeyError> {
        Self::new(spec, key, options)
    }

    fn run(&self, direction: Direction, position: Position, run: Run<'_>) -> Result<(), RunError> {
        self.run(direction, position, run)
    }

    fn backend_name(&self) -> &'static str {
        self.backend_name()
    }

    fn is_constant_time(&self) -> bool {
        self.is_constant_time()
    }
}
