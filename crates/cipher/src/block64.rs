//! Ciphers with blocks of eight bytes: Blowfish, CAST5 and triple DES, for old volumes only.
//!
//! All come from library crates and read tables at secret indices, so they are not constant-time. After 2^32 blocks
//! (32 GiB) under one key, equal ciphertext blocks are likely and tell about the plaintext.

#[cfg(feature = "blowfish")]
use blowfish::cipher;
#[cfg(all(feature = "cast5", not(feature = "blowfish")))]
use cast5::cipher;
#[cfg(all(feature = "des", not(any(feature = "blowfish", feature = "cast5"))))]
use des::cipher;

use cipher::consts::U8;
use cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};

use crate::block::Direction;
use crate::key_error::KeyError;
use crate::mode::Mode;
use crate::run::{Position, Run};
use crate::spec::{Cipher, CipherSpec};
use crate::tweak::{Iv, NumberForm};

/// A cipher block.
type Half = [u8; 8];

/// A keyed cipher.
#[allow(clippy::large_enum_variant, reason = "there is no heap to put the large one on")]
enum Short {
    #[cfg(feature = "blowfish")]
    Blowfish(blowfish::Blowfish),
    /// With the bytes of each half of a block in the other order, as TrueCrypt has it.
    #[cfg(feature = "blowfish")]
    BlowfishLe(blowfish::BlowfishLE),
    #[cfg(feature = "cast5")]
    Cast5(cast5::Cast5),
    #[cfg(feature = "des")]
    Des3Ede(des::TdesEde3),
}

/// Calls the same on whichever cipher it is.
macro_rules! for_short {
    ($short:expr, $cipher:ident => $call:expr) => {
        match $short {
            #[cfg(feature = "blowfish")]
            Short::Blowfish($cipher) => $call,
            #[cfg(feature = "blowfish")]
            Short::BlowfishLe($cipher) => $call,
            #[cfg(feature = "cast5")]
            Short::Cast5($cipher) => $call,
            #[cfg(feature = "des")]
            Short::Des3Ede($cipher) => $call,
        }
    };
}

impl Short {
    fn new(cipher: Cipher, key: &[u8]) -> Option<Self> {
        match cipher {
            #[cfg(feature = "blowfish")]
            Cipher::Blowfish => blowfish::Blowfish::new_from_slice(key).ok().map(Self::Blowfish),
            #[cfg(feature = "cast5")]
            Cipher::Cast5 => cast5::Cast5::new_from_slice(key).ok().map(Self::Cast5),
            #[cfg(feature = "des")]
            Cipher::Des3Ede => des::TdesEde3::new_from_slice(key).ok().map(Self::Des3Ede),
            _ => None,
        }
    }
}

/// One such cipher in CBC with IVs from the caller.
pub(crate) struct Chained64(Short);

impl Chained64 {
    /// Expands `key`; nothing if the cipher takes none of that length, or has longer blocks.
    pub(crate) fn new(cipher: Cipher, key: &[u8]) -> Option<Self> {
        Short::new(cipher, key).map(Self)
    }

    /// Expands `key` for Blowfish that reads its words in little-endian order; nothing if it takes none of that length.
    #[cfg(feature = "blowfish")]
    pub(crate) fn blowfish_le(key: &[u8]) -> Option<Self> {
        blowfish::BlowfishLE::new_from_slice(key).ok().map(Short::BlowfishLe).map(Self)
    }

    /// Encrypts or decrypts units of `unit_blocks` blocks of 16 bytes, each under the first half of its IV.
    pub(crate) fn run(&self, direction: Direction, ivs: &[Iv], unit_blocks: usize, run: Run<'_>) {
        for (unit, iv) in run.into_blocks().chunks_mut(unit_blocks.max(1)).zip(ivs) {
            let blocks = unit.as_flattened_mut().as_chunks_mut().0;
            let iv = *iv.first_chunk().unwrap_or(&[0; 8]);
            for_short!(&self.0, cipher => match direction {
                Direction::Encrypt => encrypt_chain(cipher, iv, blocks),
                Direction::Decrypt => decrypt_chain(cipher, iv, blocks),
            });
        }
    }

    /// Encrypts or decrypts each block of eight bytes on its own.
    pub(crate) fn ecb(&self, direction: Direction, bytes: &mut [u8]) {
        for_short!(&self.0, cipher => ecb(cipher, direction, bytes.as_chunks_mut().0));
    }
}

/// Expanded keys of one such cipher in CBC or ECB.
pub(crate) struct Keyed64 {
    data: Short,
    chained: bool,
    form: NumberForm,
    /// Encrypts IVs (ESSIV).
    iv_cipher: Option<Short>,
}

impl Keyed64 {
    /// Expands `key` for `spec`.
    pub(crate) fn new(spec: &CipherSpec, key: &[u8]) -> Result<Self, KeyError> {
        let wrong_length = KeyError::Length { len: key.len() };
        if !spec.key_len_is_valid(key.len()) {
            return Err(wrong_length);
        }
        let iv_cipher = match spec.iv.essiv {
            None => None,
            Some(hash) => {
                Some(hash.digest_then(key, |salt| Short::new(spec.cipher, salt)).ok_or(wrong_length)?)
            }
        };
        let data = Short::new(spec.cipher, key).ok_or(wrong_length)?;
        Ok(Self { data, chained: spec.mode == Mode::Cbc, form: spec.iv.number, iv_cipher })
    }

    /// Encrypts or decrypts a run.
    pub(crate) fn run(&self, direction: Direction, position: Position, run: Run<'_>) {
        let units = run.into_blocks();
        for (i, unit) in units.chunks_mut(position.unit_blocks).enumerate() {
            let blocks = unit.as_flattened_mut().as_chunks_mut().0;
            let iv = self.iv(position.after(i).number);
            for_short!(&self.data, cipher => match (direction, self.chained) {
                (_, false) => ecb(cipher, direction, blocks),
                (Direction::Encrypt, true) => encrypt_chain(cipher, iv, blocks),
                (Direction::Decrypt, true) => decrypt_chain(cipher, iv, blocks),
            });
        }
    }

    fn iv(&self, number: u64) -> Half {
        let mut iv = self.form.short_iv(number);
        if let Some(cipher) = &self.iv_cipher {
            for_short!(cipher, cipher => cipher.encrypt_block(Array::<u8, U8>::cast_from_core_mut(&mut iv)));
        }
        iv
    }
}

fn ecb<C>(cipher: &C, direction: Direction, blocks: &mut [Half])
where
    C: BlockCipherEncrypt<BlockSize = U8> + BlockCipherDecrypt<BlockSize = U8>,
{
    let blocks = Array::<u8, U8>::cast_slice_from_core_mut(blocks);
    match direction {
        Direction::Encrypt => cipher.encrypt_blocks(blocks),
        Direction::Decrypt => cipher.decrypt_blocks(blocks),
    }
}

fn encrypt_chain<C: BlockCipherEncrypt<BlockSize = U8>>(cipher: &C, iv: Half, blocks: &mut [Half]) {
    let mut previous = iv;
    for block in blocks {
        *block = xor(*block, previous);
        cipher.encrypt_block(Array::<u8, U8>::cast_from_core_mut(block));
        previous = *block;
    }
}

fn decrypt_chain<C: BlockCipherDecrypt<BlockSize = U8>>(cipher: &C, iv: Half, blocks: &mut [Half]) {
    let mut previous = iv;
    for block in blocks {
        let encrypted = *block;
        cipher.decrypt_block(Array::<u8, U8>::cast_from_core_mut(block));
        *block = xor(*block, previous);
        previous = encrypted;
    }
}

fn xor(a: Half, b: Half) -> Half {
    (u64::from_ne_bytes(a) ^ u64::from_ne_bytes(b)).to_ne_bytes()
}
