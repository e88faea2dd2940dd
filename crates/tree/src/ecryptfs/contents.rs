//! Runs of extents under a file's key.

use atrest_cipher::{CbcCipher, CbcRuns, Direction};
use atrest_secret::{Locked, Random, SecretArray, SecretBytes};
use md5::{Digest, Md5};

use super::packet::WrappedKey;
use super::{EcryptfsError, FileCipher, Token};

/// Bytes under one IV.
pub const EXTENT: usize = 4096;

/// Bytes that are worth another core. A megabyte of AES is done before it wakes, and then it looks for more work for a while, which
/// keeps it from those who copy what was decrypted. The other ciphers take ten times as long at least.
const WORTH_A_CORE_AES: usize = 2 << 20;
const WORTH_A_CORE: usize = 64 << 10;
/// Digits of the largest 64-bit number are more than an IV's hash has room for; the kernel cuts them.
const DIGITS: usize = 15;

/// A file's key, expanded, and what its IVs are made of.
pub(super) struct Contents {
    cipher: Locked<CbcRuns>,
    /// MD5 of the key.
    root: SecretArray<16>,
}

impl Contents {
    /// Unwraps a file's key. The token has the signature that the packet asks for.
    pub(super) fn unwrap(packet: &WrappedKey, token: &Token) -> Result<Self, EcryptfsError> {
        let key_len = packet.key_len();
        let wrapping = token.block_cipher(packet.cipher, key_len)?;
        let mut key = SecretBytes::copy_from(&packet.wrapped);
        let wrong = EcryptfsError::KeyLength { cipher: packet.cipher, len: key_len };
        wrapping.decrypt_blocks(&mut key).map_err(|_| wrong)?;
        key.truncate(key_len);
        Self::new(packet.cipher, &key)
    }

    /// A fresh key, and itself wrapped under each of the tokens.
    pub(super) fn generate(
        cipher: FileCipher,
        key_len: usize,
        tokens: &[&Token],
        random: &mut dyn Random,
    ) -> Result<(Self, Vec<WrappedKey>), EcryptfsError> {
        let wrong = || EcryptfsError::KeyLength { cipher, len: key_len };
        if !cipher.takes_key_of(key_len) {
            return Err(wrong());
        }
        let mut key = SecretBytes::zeroed(key_len);
        random.fill(&mut key)?;
        let mut packets = Vec::new();
        for token in tokens {
            let mut wrapped = vec![0; cipher.wrapped_len(key_len)];
            wrapped.iter_mut().zip(key.iter()).for_each(|(to, from)| *to = *from);
            token.block_cipher(cipher, key_len)?.encrypt_blocks(&mut wrapped).map_err(|_| wrong())?;
            packets.push(WrappedKey { signature: token.signature(), cipher, salt: token.salt(), wrapped });
        }
        Ok((Self::new(cipher, &key)?, packets))
    }

    fn new(cipher: FileCipher, key: &[u8]) -> Result<Self, EcryptfsError> {
        let runs = CbcRuns::new(cipher.block_cipher(), key, EXTENT, None)
            .map_err(|_| EcryptfsError::KeyLength { cipher, len: key.len() })?;
        let mut digest = Md5::digest(key);
        let mut root = SecretArray::zeroed();
        root.copy_from_slice(&digest);
        atrest_secret::wipe(&mut digest);
        Ok(Self { cipher: Locked::new(runs), root })
    }

    /// Encrypts whole extents in place, of which the first has this number; on several cores if they are many.
    pub(super) fn encrypt(&self, first: u64, run: &mut [u8]) {
        self.apply(Direction::Encrypt, first, run);
    }

    /// Decrypts whole extents in place. One of zeros stays so: it is a hole of the lower file, which no ciphertext is.
    pub(super) fn decrypt(&self, first: u64, run: &mut [u8]) {
        self.apply(Direction::Decrypt, first, run);
    }

    /// Whether so many bytes are to be cut in two, for two cores.
    pub(super) fn worth_two_cores(&self, len: usize) -> bool {
        let worth_one = match self.cipher.cipher() {
            CbcCipher::Aes => WORTH_A_CORE_AES,
            _ => WORTH_A_CORE,
        };
        len / 2 >= worth_one && rayon_core::current_num_threads() > 1
    }

    fn apply(&self, direction: Direction, first: u64, run: &mut [u8]) {
        let extents = run.len() / EXTENT;
        if self.worth_two_cores(run.len()) {
            let half = extents / 2;
            // cannot overflow: half of the extents that are there.
            let (left, right) = run.split_at_mut(half.saturating_mul(EXTENT));
            rayon_core::join(
                || self.apply(direction, first, left),
                // cannot overflow: files have less than 2^51 extents.
                || self.apply(direction, first.saturating_add(half as u64), right),
            );
            return;
        }
        // The lengths match: whole extents, and an IV for each.
        // cannot overflow: a constant.
        for (chunk, at) in run.chunks_mut(IVS.saturating_mul(EXTENT)).zip((first..).step_by(IVS)) {
            let mut ivs = [[0; 16]; IVS];
            let mut holes = 0_u64;
            let mut count = 0_u32;
            for ((extent, iv), number) in chunk.as_chunks::<EXTENT>().0.iter().zip(&mut ivs).zip(at..) {
                *iv = self.iv(number);
                if direction == Direction::Decrypt && is_zero(extent) {
                    holes |= 1_u64 << count;
                }
                // cannot overflow: at most IVS.
                count = count.saturating_add(1);
            }
            // cannot be out of range: at most IVS.
            let ivs = ivs.get(..count as usize).unwrap_or(&[]);
            let done = match direction {
                Direction::Encrypt => self.cipher.encrypt(ivs, chunk),
                Direction::Decrypt => self.cipher.decrypt(ivs, chunk),
            };
            debug_assert!(done.is_ok(), "a run is not whole extents");
            if holes != 0 {
                for (i, extent) in chunk.chunks_mut(EXTENT).enumerate() {
                    if holes >> i & 1 == 1 {
                        extent.fill(0);
                    }
                }
            }
        }
    }

    /// MD5 of the key's MD5 and the extent's number in decimal digits, filled up with zeros.
    fn iv(&self, extent: u64) -> [u8; 16] {
        let mut message = [0; 32];
        let (root, digits) = message.split_at_mut(16);
        root.copy_from_slice(&self.root[..]);
        write_decimal(extent, digits);
        let iv = Md5::digest(message).into();
        atrest_secret::wipe(&mut message);
        iv
    }
}

/// IVs made at once; a bit of a word for each.
const IVS: usize = 64;

fn is_zero(extent: &[u8; EXTENT]) -> bool {
    extent.first_chunk() == Some(&[0; 16]) && extent.iter().all(|byte| *byte == 0)
}

/// The first digits of a number, as `snprintf` writes them into 16 bytes.
fn write_decimal(mut number: u64, out: &mut [u8]) {
    let mut digits = [0; 20];
    let mut len = 0_usize;
    for digit in digits.iter_mut().rev() {
        // cannot overflow: a digit.
        *digit = b'0'.saturating_add((number % 10) as u8);
        number /= 10;
        // cannot overflow: at most 20 digits.
        len = len.saturating_add(1);
        if number == 0 {
            break;
        }
    }
    // cannot be less: at most 20 digits.
    let digits = digits.iter().skip(20_usize.saturating_sub(len)).take(DIGITS);
    out.iter_mut().zip(digits).for_each(|(to, from)| *to = *from);
}
