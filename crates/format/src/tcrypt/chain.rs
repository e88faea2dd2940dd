//! The ciphers of a volume, alone or one over the other, and how a header's key material becomes their keys.

use alloc::format;
use alloc::string::String;

use atrest_secret::SecretArray;

/// Bytes in each key of each cipher here.
const KEY: usize = 32;
/// Bytes in front of the keys in the old modes: in LRW the first 16 are the tweak's key; in CBC they are the seeds of IVs and whitening.
const SEED: usize = 32;

/// How a cipher's blocks are tied to their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// XTS: VeraCrypt, and TrueCrypt from 5.0 on. The tweak is the data unit's place on the device.
    Xts,
    /// LRW: TrueCrypt 4.1 to 4.3a. The tweak counts from the beginning of the data.
    Lrw,
    /// CBC with whitening of the ciphertext: TrueCrypt 1.0 to 4.0. IVs and whitening are the data unit's place on the device.
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

/// All that volumes have, but for Kuznyechik, GOST 89, and in CBC cascades and ciphers with blocks of eight bytes.
pub const CHAINS: [Chain; 21] = [
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
    lrw(&["aes"]),
    lrw(&["serpent"]),
    lrw(&["twofish"]),
    lrw(&["twofish", "aes"]),
    lrw(&["serpent", "twofish", "aes"]),
    lrw(&["aes", "serpent"]),
    lrw(&["aes", "twofish", "serpent"]),
    lrw(&["serpent", "twofish"]),
    cbc(&["aes"]),
    cbc(&["serpent"]),
    cbc(&["twofish"]),
];

impl Chain {
    /// The ciphers' names, joined by dashes, in the order in which they encrypt.
    pub fn name(&self) -> String {
        self.ciphers.join("-")
    }

    /// dm-crypt's name of the cipher at `index`, mode and IVs included. `None` if there are not so many.
    pub fn spec(&self, index: usize) -> Option<String> {
        let cipher = self.ciphers.get(index)?;
        Some(match self.mode {
            Mode::Xts => format!("{cipher}-xts-plain64"),
            Mode::Lrw => format!("{cipher}-lrw-benbi"),
            Mode::Cbc => format!("{cipher}-cbc-tcw"),
        })
    }

    /// The key of the cipher at `index` as dm-crypt takes it, and its length: key, and what the mode has beside it. `None` if there are not so many ciphers, or the
    /// material is too short.
    pub fn key(&self, index: usize, material: &[u8]) -> Option<(SecretArray<64>, usize)> {
        self.ciphers.get(index)?;
        let at = |start: usize, len: usize| material.get(start..start.checked_add(len)?);
        let own = index.checked_mul(KEY)?;
        let (key, tweak) = match self.mode {
            // All keys, and then the tweaks' of all.
            Mode::Xts => (at(own, KEY)?, at(self.ciphers.len().checked_mul(KEY)?.checked_add(own)?, KEY)?),
            Mode::Lrw => (at(SEED.checked_add(own)?, KEY)?, at(0, 16)?),
            Mode::Cbc => (at(SEED.checked_add(own)?, KEY)?, at(0, SEED)?),
        };
        let mut joined = SecretArray::zeroed();
        for (to, from) in joined.iter_mut().zip(key.iter().chain(tweak)) {
            *to = *from;
        }
        Some((joined, key.len().checked_add(tweak.len())?))
    }
}
