//! The ciphers of a volume, alone or one over the other, and how a header's key material becomes their keys.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::iter;
use core::ops::Range;

use atrest_secret::SecretArray;

/// Bytes in each key of each cipher whose blocks have 16 bytes.
const KEY: usize = 32;
/// Bytes in front of the keys in the old modes: in LRW the first 16 are the tweak's key; in CBC they are the seeds of IVs and whitening.
const SEED: usize = 32;

/// How a cipher's blocks are tied to their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// XTS: VeraCrypt, and TrueCrypt from 5.0 on. The tweak is the data unit's place on the device.
    Xts,
    /// LRW: TrueCrypt 4.1 to 4.3a. The tweak counts cipher blocks from the beginning of the data.
    Lrw,
    /// CBC with whitening of the ciphertext: TrueCrypt 1.0 to 4.0. IVs and whitening are the data unit's place on the device. Several ciphers are in one chain,
    /// unless their blocks differ in length: then each is in CBC of its own over what the one before it made.
    Cbc,
}

/// Ciphers one over the other. The first encrypts the plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Names of the ciphers, as dm-crypt has them.
    pub ciphers: &'static [&'static str],
    /// Their mode.
    pub mode: Mode,
}

const fn xts(ciphers: &'static [&'static str]) -> Chain {
    Chain { ciphers, mode: Mode::Xts }
}

const fn lrw(ciphers: &'static [&'static str]) -> Chain {
    Chain { ciphers, mode: Mode::Lrw }
}

const fn cbc(ciphers: &'static [&'static str]) -> Chain {
    Chain { ciphers, mode: Mode::Cbc }
}

/// All that volumes have, but for GOST 89.
pub const CHAINS: [Chain; 39] = [
    xts(&["aes"]),
    xts(&["serpent"]),
    xts(&["twofish"]),
    xts(&["camellia"]),
    xts(&["twofish", "aes"]),
    xts(&["serpent", "twofish", "aes"]),
    xts(&["aes", "serpent"]),
    xts(&["aes", "twofish", "serpent"]),
    xts(&["serpent", "twofish"]),
    xts(&["serpent", "camellia"]),
    xts(&["kuznyechik"]),
    xts(&["kuznyechik", "camellia"]),
    xts(&["twofish", "kuznyechik"]),
    xts(&["aes", "kuznyechik"]),
    xts(&["camellia", "serpent", "kuznyechik"]),
    lrw(&["aes"]),
    lrw(&["serpent"]),
    lrw(&["twofish"]),
    lrw(&["twofish", "aes"]),
    lrw(&["serpent", "twofish", "aes"]),
    lrw(&["aes", "serpent"]),
    lrw(&["aes", "twofish", "serpent"]),
    lrw(&["serpent", "twofish"]),
    lrw(&["cast5"]),
    lrw(&["des3_ede"]),
    lrw(&["blowfish_le"]),
    cbc(&["aes"]),
    cbc(&["serpent"]),
    cbc(&["twofish"]),
    cbc(&["twofish", "aes"]),
    cbc(&["serpent", "twofish", "aes"]),
    cbc(&["aes", "serpent"]),
    cbc(&["aes", "twofish", "serpent"]),
    cbc(&["serpent", "twofish"]),
    cbc(&["cast5"]),
    cbc(&["des3_ede"]),
    cbc(&["blowfish_le"]),
    cbc(&["blowfish_le", "aes"]),
    cbc(&["serpent", "blowfish_le", "aes"]),
];

/// Bytes in a block of a cipher, and in its key.
fn sizes(cipher: &str) -> (usize, usize) {
    match cipher {
        "cast5" => (8, 16),
        "des3_ede" => (8, 24),
        "blowfish_le" => (8, 56),
        _ => (16, KEY),
    }
}

impl Chain {
    /// The ciphers' names, joined by dashes, in the order in which they encrypt.
    pub fn name(&self) -> String {
        self.ciphers.join("-")
    }

    /// dm-crypt's name of the cipher at `index`, mode and IVs included. `None` if there are not so many, or no kernel has it: little-endian Blowfish, several ciphers in CBC,
    /// and LRW with blocks of eight bytes.
    pub fn spec(&self, index: usize) -> Option<String> {
        let cipher = self.ciphers.get(index)?;
        match self.mode {
            Mode::Xts => Some(format!("{cipher}-xts-plain64")),
            Mode::Lrw if self.is_narrow() => None,
            Mode::Lrw => Some(format!("{cipher}-lrw-benbi")),
            Mode::Cbc if *self.ciphers == ["blowfish_le"] || self.ciphers.len() > 1 => None,
            Mode::Cbc => Some(format!("{cipher}-cbc-tcw")),
        }
    }

    /// The mode, as cryptsetup calls it in its dump.
    pub fn mode_name(&self) -> &'static str {
        match self.mode {
            Mode::Xts => "xts-plain64",
            Mode::Lrw => "lrw-benbi",
            Mode::Cbc if self.spec(0).is_some() => "cbc-tcw",
            Mode::Cbc if self.in_one_chain() && self.ciphers.len() > 1 => "cbci-tcrypt",
            Mode::Cbc => "cbc-tcrypt",
        }
    }

    /// Whether it is LRW with blocks of eight bytes: then there is one cipher, and eight bytes are the tweak's key.
    pub fn is_narrow(&self) -> bool {
        self.mode == Mode::Lrw && self.ciphers.iter().any(|cipher| sizes(cipher).0 == 8)
    }

    /// Whether all ciphers are in one chain of CBC.
    fn in_one_chain(&self) -> bool {
        let mut blocks = self.ciphers.iter().map(|cipher| sizes(cipher).0);
        let first = blocks.next();
        self.mode == Mode::Cbc && blocks.all(|len| Some(len) == first)
    }

    /// The chains of CBC, of which the first encrypts the plaintext: for each the indexes of its ciphers. None in other modes.
    pub fn in_cbc(&self) -> Vec<Range<usize>> {
        let all = self.ciphers.len();
        match (self.mode, self.in_one_chain()) {
            (Mode::Xts | Mode::Lrw, _) => Vec::new(),
            (Mode::Cbc, true) => iter::once(0..all).collect(),
            // cannot be cut off: there are three at most.
            (Mode::Cbc, false) => (0..all).map(|at| at..at.saturating_add(1)).collect(),
        }
    }

    /// In CBC, the seed of IVs and whitening. `None` if the material is too short.
    pub fn seed<'a>(&self, material: &'a [u8]) -> Option<&'a [u8; SEED]> {
        material.first_chunk()
    }

    /// The key of the cipher at `index` alone. `None` if there are not so many, or the material is too short.
    pub fn bare_key<'a>(&self, index: usize, material: &'a [u8]) -> Option<&'a [u8]> {
        let (_, len) = sizes(self.ciphers.get(index)?);
        let seed = if self.mode == Mode::Xts { 0 } else { SEED };
        let mut before = self.ciphers.iter().take(index).map(|cipher| sizes(cipher).1);
        let start = before.try_fold(seed, usize::checked_add)?;
        material.get(start..start.checked_add(len)?)
    }

    /// The key of the cipher at `index` as dm-crypt takes it, and its length: key, and what the mode has beside it. `None` if there are not so many ciphers, or the
    /// material is too short.
    pub fn key(&self, index: usize, material: &[u8]) -> Option<(SecretArray<96>, usize)> {
        let key = self.bare_key(index, material)?;
        let tweak = match self.mode {
            // All keys, and then the tweaks' of all.
            Mode::Xts => {
                let start = self.ciphers.len().checked_add(index)?.checked_mul(KEY)?;
                material.get(start..start.checked_add(KEY)?)?
            }
            Mode::Lrw => material.get(..16)?,
            // The seeds of an IV and of the whitening, behind the last of the keys.
            Mode::Cbc if index.checked_add(1)? == self.ciphers.len() => {
                let (block, _) = sizes(self.ciphers.get(index)?);
                material.get(..block.checked_add(16)?)?
            }
            Mode::Cbc => &[],
        };
        let mut joined = SecretArray::zeroed();
        for (to, from) in joined.iter_mut().zip(key.iter().chain(tweak)) {
            *to = *from;
        }
        Some((joined, key.len().checked_add(tweak.len())?))
    }
}
