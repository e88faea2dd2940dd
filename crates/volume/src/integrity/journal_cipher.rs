//! The cipher of a journal (`create_journal` of the kernel's `drivers/md/dm-integrity.c`): AES in CBC, a chain for each section, or in
//! CTR, one key stream for the whole journal.
//!
//! With CTR, a section is encrypted with the same key stream each time round: whoever keeps two images of a device learns the difference of what
//! the journal held. That is the format's.

use core::fmt;
use core::str::FromStr;

use atrest_cipher::{CbcCipher, CbcRuns};
use atrest_secret::Locked;

const BLOCK: usize = 16;
/// Bytes of key stream that are made at a time.
const STREAM: usize = 4096;
/// The kernel's pages, in which it counts the journal.
const PAGE: u64 = 4096;

/// A cipher of journals, by `integritysetup`'s name: `cbc-aes` or `ctr-aes`. The kernel's `cbc(aes)` is understood, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalCipherSpec {
    /// AES in CBC. The IV of a section is its encrypted number.
    Cbc,
    /// AES in CTR, from counter 0 at the journal's first byte on.
    Ctr,
}

/// Why there is no such cipher.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalCipherError {
    /// The name is not known.
    Name,
    /// AES has keys of 16, 24 and 32 bytes.
    Key {
        /// Bytes of the key.
        len: usize,
    },
}

/// A journal's cipher with its key, for sections of one length.
pub struct JournalCipher {
    spec: JournalCipherSpec,
    section_len: usize,
    aes: Locked<CbcRuns>,
}

impl JournalCipherSpec {
    /// The kernel's name.
    pub fn kernel_name(self) -> &'static str {
        match self {
            Self::Cbc => "cbc(aes)",
            Self::Ctr => "ctr(aes)",
        }
    }
}

impl FromStr for JournalCipherSpec {
    type Err = JournalCipherError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "cbc-aes" | "cbc(aes)" => Ok(Self::Cbc),
            "ctr-aes" | "ctr(aes)" => Ok(Self::Ctr),
            _ => Err(JournalCipherError::Name),
        }
    }
}

impl JournalCipher {
    /// Expands a key for sections of `section_len` bytes, a multiple of 16.
    ///
    /// # Errors
    /// [`JournalCipherError::Key`] if AES has no such keys.
    pub fn new(spec: JournalCipherSpec, key: &[u8], section_len: usize) -> Result<Self, JournalCipherError> {
        let error = JournalCipherError::Key { len: key.len() };
        let aes = Locked::try_new_with(|| CbcRuns::new(CbcCipher::Aes, key, section_len, None));
        Ok(Self { spec, section_len, aes: aes.map_err(|_| error)? })
    }

    /// Encrypts a section, whose number this is. False, and nothing done, if it has another length.
    #[must_use]
    pub fn encrypt(&self, number: u32, section: &mut [u8]) -> bool {
        match self.spec {
            JournalCipherSpec::Cbc => self.aes.encrypt(&[self.iv(number)], section).is_ok(),
            JournalCipherSpec::Ctr => self.stream_section(number, section),
        }
    }

    /// Decrypts a section.
    #[must_use]
    pub fn decrypt(&self, number: u32, section: &mut [u8]) -> bool {
        match self.spec {
            JournalCipherSpec::Cbc => self.aes.decrypt(&[self.iv(number)], section).is_ok(),
            JournalCipherSpec::Ctr => self.stream_section(number, section),
        }
    }

    /// Returns what the bases of commit ids are combined with, if they are: the key stream behind a journal of this many sections.
    pub fn mask(&self, sections: u32) -> Option<[u8; 32]> {
        let journal =
            (self.section_len as u64).checked_mul(sections.into())?.checked_next_multiple_of(PAGE)?;
        let mut mask = [0; 32];
        match self.spec {
            JournalCipherSpec::Cbc => None,
            JournalCipherSpec::Ctr => self.stream(journal, &mut mask).then_some(mask),
        }
    }

    /// A section's IV: its number, encrypted.
    fn iv(&self, number: u32) -> [u8; BLOCK] {
        let mut iv = [0; BLOCK];
        iv.iter_mut().zip(number.to_le_bytes()).for_each(|(byte, number)| *byte = number);
        let done = self.aes.encrypt_blocks(&mut iv);
        debug_assert!(done.is_ok(), "one block");
        iv
    }

    fn stream_section(&self, number: u32, section: &mut [u8]) -> bool {
        let at = (self.section_len as u64).checked_mul(number.into());
        section.len() == self.section_len && at.is_some_and(|at| self.stream(at, section))
    }

    /// Combines bytes with the key stream from a byte of the journal on, a multiple of 16.
    fn stream(&self, at: u64, bytes: &mut [u8]) -> bool {
        let mut counter = u128::from(at) >> 4;
        let mut stream = [0; STREAM];
        for run in bytes.chunks_mut(STREAM) {
            for block in stream.as_chunks_mut::<BLOCK>().0 {
                *block = counter.to_be_bytes();
                counter = counter.wrapping_add(1);
            }
            if self.aes.encrypt_blocks(&mut stream).is_err() {
                return false;
            }
            run.iter_mut().zip(stream).for_each(|(byte, key)| *byte ^= key);
        }
        true
    }
}

impl fmt::Debug for JournalCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalCipher").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl fmt::Display for JournalCipherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("the journal's cipher is unknown: there are cbc-aes and ctr-aes"),
            Self::Key { len } => {
                write!(f, "the journal's cipher has keys of 16, 24 or 32 bytes, and not of {len}")
            }
        }
    }
}

impl core::error::Error for JournalCipherError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// By OpenSSL: `head -c 16 /dev/zero | openssl enc -aes-128-ctr -K 2b7e151628aed2a6abf7158809cf4f3c -iv 00`.
    #[test]
    fn the_stream_begins_with_counter_zero_and_a_chain_with_its_encrypted_number() {
        let key: [u8; 16] =
            [0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c];
        let cipher =
            |name: &str| JournalCipher::new(name.parse().expect("known"), &key, 512).expect("a key of AES");
        let ctr = cipher("ctr-aes");
        let mut section = [0; 512];
        assert!(ctr.encrypt(0, &mut section));
        // AES-128 of zeros with that key.
        assert_eq!(section[..4], [0x7d, 0xf7, 0x6b, 0x0c]);
        let mut second = [0; 512];
        assert!(ctr.encrypt(1, &mut second));
        assert_ne!(second, section);
        assert!(ctr.mask(8).is_some_and(|mask| mask == ctr.mask(1).unwrap_or_default()), "the same page");
        assert_ne!(ctr.mask(9), ctr.mask(8));
        let cbc = cipher("cbc(aes)");
        assert_eq!(cbc.iv(0)[..4], [0x7d, 0xf7, 0x6b, 0x0c]);
        assert_eq!(cbc.mask(1), None);
        for cipher in [ctr, cbc] {
            let mut section = [7; 512];
            assert!(cipher.encrypt(3, &mut section) && section != [7; 512]);
            assert!(cipher.decrypt(3, &mut section) && section == [7; 512]);
            assert!(!cipher.encrypt(3, &mut section[..496]) && section == [7; 512]);
        }
        assert_eq!("xts-aes".parse::<JournalCipherSpec>(), Err(JournalCipherError::Name));
        let short = JournalCipher::new(JournalCipherSpec::Cbc, &key[..15], 512);
        assert_eq!(short.err(), Some(JournalCipherError::Key { len: 15 }));
    }
}
