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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use atrest_secret::{OsRandom, Passphrase, RandomError};

    use super::super::{DEFAULT_SALT, Keys};
    use super::*;

    /// Gives the bytes 0, 1, 2 and so on, or fails.
    struct Counting(Cell<u8>, bool);

    impl Random for Counting {
        fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomError> {
            bytes.fill_with(|| self.0.replace(self.0.get().wrapping_add(1)));
            if self.1 { Err(RandomError) } else { Ok(()) }
        }
    }

    fn token() -> Token {
        Token::derive(&Passphrase::copy_from(b"correct horse"), DEFAULT_SALT).expect("a token")
    }

    fn contents(cipher: FileCipher) -> Contents {
        let key: Vec<u8> = (0..cipher.key_lens()[0] as u8).collect();
        Contents::new(cipher, &key).expect("a key")
    }

    /// Computed with Python's `hashlib`: MD5 of the key's MD5 and of `snprintf(16, "%lld")`.
    #[test]
    fn the_iv_of_an_extent_is_a_hash_of_key_and_number() {
        let contents = contents(FileCipher::Aes128);
        for (extent, iv) in [
            (0, 0xcd09_6e1d_b464_e9b4_c91e_5141_9090_606b),
            (1, 0x41e2_d33e_4f39_f1b9_0c7b_306f_c13c_b684),
            (10, 0x5ce0_66bc_daf9_ef30_ca01_ce59_2e8d_196e),
            (4095, 0xc5c7_89cd_6f1e_e54a_e949_db26_0ef6_170f),
            (1234567890, 0xd53a_e4b5_bf19_2bda_8fdc_c5e6_8157_4f33),
            (999999999999999, 0xd02b_11fe_773a_55f3_351a_66c9_e47a_8ea1),
            (2251799813685248, 0x0933_bd98_5481_14cc_711f_4dad_53fb_1224),
        ] {
            assert_eq!(contents.iv(extent), u128::to_be_bytes(iv), "{extent}");
        }
        let mut digits = [0; 16];
        write_decimal(u64::MAX, &mut digits);
        assert_eq!(&digits, b"184467440737095\0");
        let mut digits = [0; 16];
        write_decimal(0, &mut digits);
        assert_eq!(&digits, b"0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn each_extent_is_on_its_own_however_long_the_run() {
        for (cipher, extents) in [(FileCipher::Aes128, 1025), (FileCipher::Blowfish, 70)] {
            let contents = contents(cipher);
            let plain: Vec<u8> = (0..extents * EXTENT).map(|i| (i / 1000) as u8 | 1).collect();
            let mut run = plain.clone();
            contents.encrypt(1_000_000, &mut run);
            assert!(run.chunks(EXTENT).zip(plain.chunks(EXTENT)).all(|(run, plain)| run != plain));
            for (number, (extent, plain)) in
                (1_000_000..).zip(run.as_chunks::<EXTENT>().0.iter().zip(plain.as_chunks::<EXTENT>().0))
            {
                let mut one = *plain;
                contents.encrypt(number, &mut one);
                assert!(one == *extent, "{cipher:?} {number}");
            }
            // Holes among them stay holes, and their neighbours are decrypted.
            let holes = [0, 1, 63, 64, 65, extents - 1];
            for hole in holes {
                run[hole * EXTENT..(hole + 1) * EXTENT].fill(0);
            }
            contents.decrypt(1_000_000, &mut run);
            for (at, (extent, plain)) in
                run.as_chunks::<EXTENT>().0.iter().zip(plain.as_chunks::<EXTENT>().0).enumerate()
            {
                let expected = if holes.contains(&at) { &[0; EXTENT] } else { plain };
                assert!(extent == expected, "{cipher:?} {at}");
            }
        }
    }

    #[test]
    fn an_extent_is_a_hole_only_if_all_of_it_is_zeros() {
        let mut extent = [0; EXTENT];
        assert!(is_zero(&extent));
        for at in [0, 15, 16, 100, EXTENT - 1] {
            extent[at] = 1;
            assert!(!is_zero(&extent), "{at}");
            extent[at] = 0;
        }
    }

    #[test]
    fn long_runs_are_for_two_cores() {
        let many = rayon_core::current_num_threads() > 1;
        for (cipher, worth) in [(FileCipher::Aes256, WORTH_A_CORE_AES), (FileCipher::Cast6, WORTH_A_CORE)] {
            let contents = contents(cipher);
            assert_eq!(contents.worth_two_cores(2 * worth), many, "{cipher:?}");
            assert!(!contents.worth_two_cores(2 * worth - 1), "{cipher:?}");
        }
    }

    /// The key of a file comes from the random source, is another one for each file, and is what every token unwraps.
    #[test]
    fn a_file_has_a_key_of_its_own_that_each_of_its_tokens_gives() {
        let mut keys = Keys::new();
        keys.add_passphrase(&Passphrase::copy_from(b"correct horse")).expect("a passphrase");
        let tokens: Vec<&Token> = keys.iter().map(|token| &**token).collect();
        for cipher in (0..=255).filter_map(FileCipher::from_code) {
            for key_len in cipher.key_lens() {
                let mut random = Counting(Cell::new(0), false);
                let (made, packets) =
                    Contents::generate(cipher, *key_len, &tokens, &mut random).expect("a key");
                let key: Vec<u8> = (0..*key_len as u8).collect();
                let mut run = [3; EXTENT];
                made.encrypt(5, &mut run);
                let mut expected = [3; EXTENT];
                Contents::new(cipher, &key).expect("a key").encrypt(5, &mut expected);
                assert!(run == expected, "{cipher:?} {key_len}");
                assert_eq!(packets.len(), 2);
                for (packet, token) in packets.iter().zip(&tokens) {
                    assert_eq!((packet.signature, packet.salt), (token.signature(), token.salt()));
                    assert_eq!((packet.cipher, packet.key_len()), (cipher, *key_len));
                    assert!(!packet.wrapped.windows(8).any(|window| window == &key[..8]));
                    let mut back = run;
                    Contents::unwrap(packet, token).expect("its token").decrypt(5, &mut back);
                    assert!(back == [3; EXTENT], "{cipher:?} {key_len}");
                }
            }
        }
        let random = || Contents::generate(FileCipher::Aes128, 16, &tokens, &mut OsRandom).expect("a key");
        let [mut one, mut other] = [[3; EXTENT]; 2];
        random().0.encrypt(0, &mut one);
        random().0.encrypt(0, &mut other);
        assert!(one != other, "two files would share a key");
    }

    #[test]
    fn no_key_is_made_of_a_length_that_the_cipher_does_not_take_or_of_bytes_that_did_not_come() {
        let token = token();
        for (cipher, len) in [(FileCipher::Aes128, 32), (FileCipher::Aes256, 16), (FileCipher::Cast5, 15)] {
            let refused = Contents::generate(cipher, len, &[&token], &mut OsRandom).map(drop);
            assert!(matches!(refused, Err(EcryptfsError::KeyLength { .. })), "{cipher:?} {len}");
            let refused = token.block_cipher(cipher, len).map(drop);
            assert!(matches!(refused, Err(EcryptfsError::KeyLength { .. })), "{cipher:?} {len}");
        }
        let mut failing = Counting(Cell::new(0), true);
        let refused = Contents::generate(FileCipher::Aes128, 16, &[&token], &mut failing).map(drop);
        assert!(matches!(refused, Err(EcryptfsError::Random(_))), "{refused:?}");
    }
}
