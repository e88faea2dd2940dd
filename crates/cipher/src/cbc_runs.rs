//! CBC over runs of data units with IVs that the caller gives, one per unit: what eCryptfs encrypts files with, whose IVs are
//! hashes that no rule of dm-crypt's makes.

use core::fmt;

#[cfg(feature = "serpent")]
use crate::backend::Serpent;
#[cfg(feature = "twofish")]
use crate::backend::Twofish;
#[cfg(any(feature = "serpent", feature = "twofish"))]
use crate::backend::VectorChoice;
use crate::backend::{AnyAes, BackendChoice, MadeOfAes, for_any_aes, make_with_aes};
use crate::block::{BlockCipher, Direction};
#[cfg(any(feature = "blowfish", feature = "cast5", feature = "des"))]
use crate::block64::Chained64;
use crate::key_error::KeyError;
#[cfg(feature = "cast6")]
use crate::library::Cast6;
use crate::mode::AnyMode;
use crate::mode::cbc::CbcBackend;
use crate::run::{Run, without_traces};
#[cfg(any(feature = "blowfish", feature = "cast5", feature = "des"))]
use crate::spec::Cipher;
use crate::tweak::Units;

/// A block cipher for [`CbcRuns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CbcCipher {
    /// FIPS 197, with keys of 16, 24 and 32 bytes.
    Aes,
    /// Serpent, with keys of 16 to 32 bytes.
    Serpent,
    /// Twofish, with keys of 16, 24 and 32 bytes.
    Twofish,
    /// RFC 2612, with keys of 16, 20, 24, 28 and 32 bytes.
    Cast6,
    /// Blowfish, with blocks of eight bytes and keys of 4 to 56.
    Blowfish,
    /// Blowfish whose words are little-endian, as TrueCrypt had it: each half of a block has its bytes in the other order.
    BlowfishLe,
    /// RFC 2144, with blocks of eight bytes and keys of 5 to 16.
    Cast5,
    /// Triple DES, with blocks of eight bytes and keys of 24.
    Des3Ede,
}

impl CbcCipher {
    /// Bytes in a cipher block.
    pub fn block_len(self) -> usize {
        match self {
            Self::Aes | Self::Serpent | Self::Twofish | Self::Cast6 => 16,
            Self::Blowfish | Self::BlowfishLe | Self::Cast5 | Self::Des3Ede => 8,
        }
    }

    /// The cargo feature that brings it. AES has none, and is always there.
    fn feature(self) -> &'static str {
        match self {
            Self::Aes => "",
            Self::Serpent => "serpent",
            Self::Twofish => "twofish",
            Self::Cast6 => "cast6",
            Self::Blowfish | Self::BlowfishLe => "blowfish",
            Self::Cast5 => "cast5",
            Self::Des3Ede => "des",
        }
    }
}

/// Why a run was refused. Nothing was written.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CbcRunsError {
    /// The run is not as many whole data units as there are IVs.
    Length {
        /// Bytes in the run.
        len: usize,
        /// IVs given.
        ivs: usize,
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
    /// Single blocks: the bytes are not a whole number of them.
    PartialBlock {
        /// Bytes given.
        len: usize,
    },
}

impl fmt::Display for CbcRunsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { len, ivs, data_unit } => {
                write!(
                    f,
                    "a run of {len} bytes is not {ivs} data units of {data_unit} bytes, as many as there are IVs"
                )
            }
            Self::LengthMismatch { src, dst } => {
                write!(f, "the source has {src} bytes but the destination has {dst}")
            }
            Self::PartialBlock { len } => write!(f, "{len} bytes are not a whole number of cipher blocks"),
        }
    }
}

impl core::error::Error for CbcRunsError {}

/// A keyed cipher in CBC. Each data unit is a chain of its own; many go side by side. Wipes itself on drop, can be shared by
/// threads.
pub struct CbcRuns {
    chained: Chained,
    cipher: CbcCipher,
    data_unit: usize,
}

#[allow(clippy::large_enum_variant, reason = "there is no heap to put the large ones on")]
enum Chained {
    Aes(AnyAes<Plain>),
    #[cfg(feature = "serpent")]
    Serpent(Serpent),
    #[cfg(feature = "twofish")]
    Twofish(Twofish),
    #[cfg(feature = "cast6")]
    Cast6(Cast6),
    #[cfg(any(feature = "blowfish", feature = "cast5", feature = "des"))]
    Short(Chained64),
}

/// The cipher alone, with whichever AES.
struct Plain;

impl MadeOfAes for Plain {
    type With<C: AnyMode> = C;
}

/// Calls the same on whatever cipher with long blocks it is.
macro_rules! for_chained {
    ($chained:expr, $cipher:ident => $call:expr, $short:ident => $on_short:expr) => {
        match $chained {
            Chained::Aes(aes) => for_any_aes!(aes, $cipher => $call),
            #[cfg(feature = "serpent")]
            Chained::Serpent($cipher) => $call,
            #[cfg(feature = "twofish")]
            Chained::Twofish($cipher) => $call,
            #[cfg(feature = "cast6")]
            Chained::Cast6($cipher) => $call,
            #[cfg(any(feature = "blowfish", feature = "cast5", feature = "des"))]
            Chained::Short($short) => $on_short,
        }
    };
}

impl CbcRuns {
    /// Expands a key for data units of `data_unit` bytes, a multiple of 16. `backend` forces an implementation of AES; `None`
    /// is the best there is. The caller wipes its copy of the key.
    ///
    /// # Errors
    ///
    /// * [`KeyError::DataUnit`] if a data unit has no bytes, or no multiple of 16.
    /// * [`KeyError::Length`] if the cipher takes no key of this length.
    pub fn new(
        cipher: CbcCipher,
        key: &[u8],
        data_unit: usize,
        backend: Option<BackendChoice>,
    ) -> Result<Self, KeyError> {
        if data_unit == 0 || !data_unit.is_multiple_of(16) {
            return Err(KeyError::DataUnit { len: data_unit });
        }
        let wrong_length = KeyError::Length { len: key.len() };
        #[cfg(any(feature = "blowfish", feature = "cast5", feature = "des"))]
        let short = |cipher| Chained64::new(cipher, key).map(Chained::Short).ok_or(wrong_length);
        let chained = match cipher {
            CbcCipher::Aes => {
                let backend = backend.unwrap_or_else(BackendChoice::best);
                let aes = make_with_aes!(backend, expand => expand(key).ok_or(wrong_length)?);
                Chained::Aes(aes)
            }
            #[cfg(feature = "serpent")]
            CbcCipher::Serpent => {
                Chained::Serpent(Serpent::new(key, VectorChoice::best()).ok_or(wrong_length)?)
            }
            #[cfg(feature = "twofish")]
            CbcCipher::Twofish => {
                Chained::Twofish(Twofish::new(key, VectorChoice::best()).ok_or(wrong_length)?)
            }
            #[cfg(feature = "cast6")]
            CbcCipher::Cast6 => Chained::Cast6(Cast6::new(key).ok_or(wrong_length)?),
            #[cfg(feature = "blowfish")]
            CbcCipher::Blowfish => short(Cipher::Blowfish)?,
            #[cfg(feature = "blowfish")]
            CbcCipher::BlowfishLe => Chained64::blowfish_le(key).map(Chained::Short).ok_or(wrong_length)?,
            #[cfg(feature = "cast5")]
            CbcCipher::Cast5 => short(Cipher::Cast5)?,
            #[cfg(feature = "des")]
            CbcCipher::Des3Ede => short(Cipher::Des3Ede)?,
            #[allow(unreachable_patterns, reason = "in a build with all of them")]
            missing => return Err(KeyError::NotBuilt { feature: missing.feature() }),
        };
        Ok(Self { chained, cipher, data_unit })
    }

    /// The cipher.
    pub fn cipher(&self) -> CbcCipher {
        self.cipher
    }

    /// Bytes under one IV.
    pub fn data_unit(&self) -> usize {
        self.data_unit
    }

    /// Encrypts a run in place: as many data units as there are IVs. A cipher with blocks of eight bytes uses the first half
    /// of each IV.
    ///
    /// # Errors
    ///
    /// [`CbcRunsError::Length`] if the run is not as many whole data units as there are IVs.
    pub fn encrypt(&self, ivs: &[[u8; 16]], run: &mut [u8]) -> Result<(), CbcRunsError> {
        self.apply(Direction::Encrypt, ivs, run.len(), Run::in_place(run))
    }

    /// Decrypts in place what [`Self::encrypt`] encrypts.
    ///
    /// # Errors
    ///
    /// [`CbcRunsError::Length`] if the run is not as many whole data units as there are IVs.
    pub fn decrypt(&self, ivs: &[[u8; 16]], run: &mut [u8]) -> Result<(), CbcRunsError> {
        self.apply(Direction::Decrypt, ivs, run.len(), Run::in_place(run))
    }

    /// Encrypts from `src` to `dst`, which are equally long.
    ///
    /// # Errors
    ///
    /// * [`CbcRunsError::LengthMismatch`] if source and destination differ in length.
    /// * [`CbcRunsError::Length`] if the run is not as many whole data units as there are IVs.
    pub fn encrypt_to(&self, ivs: &[[u8; 16]], src: &[u8], dst: &mut [u8]) -> Result<(), CbcRunsError> {
        self.apply(Direction::Encrypt, ivs, src.len(), between(src, dst)?)
    }

    /// Decrypts from `src` to `dst`, which are equally long.
    ///
    /// # Errors
    ///
    /// * [`CbcRunsError::LengthMismatch`] if source and destination differ in length.
    /// * [`CbcRunsError::Length`] if the run is not as many whole data units as there are IVs.
    pub fn decrypt_to(&self, ivs: &[[u8; 16]], src: &[u8], dst: &mut [u8]) -> Result<(), CbcRunsError> {
        self.apply(Direction::Decrypt, ivs, src.len(), between(src, dst)?)
    }

    /// Encrypts each cipher block on its own: for wrapped keys and names, which eCryptfs encrypts so.
    ///
    /// # Errors
    ///
    /// [`CbcRunsError::PartialBlock`] if the bytes are not a whole number of cipher blocks.
    pub fn encrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), CbcRunsError> {
        self.apply_blocks(Direction::Encrypt, blocks)
    }

    /// Decrypts each cipher block on its own.
    ///
    /// # Errors
    ///
    /// [`CbcRunsError::PartialBlock`] if the bytes are not a whole number of cipher blocks.
    pub fn decrypt_blocks(&self, blocks: &mut [u8]) -> Result<(), CbcRunsError> {
        self.apply_blocks(Direction::Decrypt, blocks)
    }

    fn apply(
        &self,
        direction: Direction,
        ivs: &[[u8; 16]],
        len: usize,
        run: Run<'_>,
    ) -> Result<(), CbcRunsError> {
        if ivs.len().checked_mul(self.data_unit) != Some(len) {
            return Err(CbcRunsError::Length { len, ivs: ivs.len(), data_unit: self.data_unit });
        }
        let unit_blocks = self.data_unit / 16;
        if len > 0 {
            without_traces(|| {
                for_chained!(&self.chained,
                    cipher => cipher.cbc(direction, Units::listed(ivs, unit_blocks), run),
                    short => short.run(direction, ivs, unit_blocks, run));
            });
        }
        Ok(())
    }

    fn apply_blocks(&self, direction: Direction, blocks: &mut [u8]) -> Result<(), CbcRunsError> {
        if !blocks.len().is_multiple_of(self.cipher.block_len()) {
            return Err(CbcRunsError::PartialBlock { len: blocks.len() });
        }
        without_traces(|| {
            for_chained!(&self.chained,
                cipher => cipher.apply(direction, blocks.as_chunks_mut().0),
                short => short.ecb(direction, blocks));
        });
        Ok(())
    }
}

fn between<'a>(src: &'a [u8], dst: &'a mut [u8]) -> Result<Run<'a>, CbcRunsError> {
    let mismatch = CbcRunsError::LengthMismatch { src: src.len(), dst: dst.len() };
    Run::between(src, dst).map_err(|_| mismatch)
}

impl fmt::Debug for CbcRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CbcRuns").field("cipher", &self.cipher).finish_non_exhaustive()
    }
}
