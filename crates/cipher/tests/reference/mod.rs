//! The modes once more, as short and plain as they can be: the oracle for every backend. Neither fast nor
//! constant-time, and it shares no code with the crate.
#![allow(dead_code, reason = "each test uses its part")]

pub mod aegis;
pub mod dm_crypt;
pub mod hctr;
pub mod hctr2;
mod kuznyechik;
pub mod lightweight;
pub mod whole;
pub mod wide_block;

use std::sync::LazyLock;

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use sha2::Digest;

/// One cipher block.
pub type Block = [u8; 16];

/// A keyed block cipher.
pub trait BlockCipher {
    /// Encrypts a block.
    fn encrypt(&self, block: Block) -> Block;
    /// Decrypts a block.
    fn decrypt(&self, block: Block) -> Block;
}

/// The cipher of that name under that key.
pub fn cipher(name: &str, key: &[u8]) -> Box<dyn BlockCipher> {
    match name {
        "aes" => Box::new(Aes::new(key)),
        "serpent" => Box::new(Library(serpent::Serpent::new_from_slice(key).expect("a good key"))),
        "twofish" => Box::new(Library(twofish::Twofish::new_from_slice(key).expect("a good key"))),
        "camellia" if key.len() == 16 => {
            Box::new(Library(camellia::Camellia128::new_from_slice(key).expect("16 bytes")))
        }
        "camellia" if key.len() == 24 => {
            Box::new(Library(camellia::Camellia192::new_from_slice(key).expect("24 bytes")))
        }
        "camellia" => Box::new(Library(camellia::Camellia256::new_from_slice(key).expect("32 bytes"))),
        "kuznyechik" => Box::new(kuznyechik::Kuznyechik::new(key)),
        "speck128" => Box::new(lightweight::Speck::new(key)),
        "noekeon" => Box::new(lightweight::Noekeon::new(key)),
        other => panic!("no reference for {other}"),
    }
}

struct Library<C>(C);

impl<C> BlockCipher for Library<C>
where
    C: BlockCipherEncrypt<BlockSize = aes::cipher::consts::U16> + BlockCipherDecrypt,
{
    fn encrypt(&self, block: Block) -> Block {
        let mut block = block.into();
        self.0.encrypt_block(&mut block);
        block.into()
    }

    fn decrypt(&self, block: Block) -> Block {
        let mut block = block.into();
        self.0.decrypt_block(&mut block);
        block.into()
    }
}

/// AES as FIPS 197 writes it.
struct Aes {
    round_keys: Vec<Block>,
}

/// FIPS 197, 5.1.1, and its inverse.
static SBOXES: LazyLock<[[u8; 256]; 2]> = LazyLock::new(|| {
    let mut sboxes = [[0; 256]; 2];
    for x in 0..=255u8 {
        let inverse = (0..=255u8).find(|y| times(x, *y) == 1).unwrap_or(0);
        let substituted = (0..5).fold(0x63, |sum, by| sum ^ inverse.rotate_left(by));
        sboxes[0][usize::from(x)] = substituted;
        sboxes[1][usize::from(substituted)] = x;
    }
    sboxes
});

/// All products of the factors that MixColumns and its inverse use.
static PRODUCTS: LazyLock<[[u8; 256]; 16]> =
    LazyLock::new(|| std::array::from_fn(|a| std::array::from_fn(|b| times(a as u8, b as u8))));

fn times(a: u8, b: u8) -> u8 {
    let (mut a, mut b, mut product) = (u32::from(a), b, 0);
    while b != 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        a <<= 1;
        if a & 0x100 != 0 {
            a ^= 0x11b;
        }
        b >>= 1;
    }
    product as u8
}

impl Aes {
    fn new(key: &[u8]) -> Self {
        let [sbox, _] = &*SBOXES;
        let (nk, mut words) = (key.len() / 4, Vec::<[u8; 4]>::new());
        words.extend(key.as_chunks().0);
        let mut constant = 1;
        for i in nk..4 * (nk + 7) {
            let mut word = words[i - 1];
            if i % nk == 0 {
                word.rotate_left(1);
                word = word.map(|b| sbox[usize::from(b)]);
                word[0] ^= constant;
                constant = times(constant, 2);
            } else if nk == 8 && i % 8 == 4 {
                word = word.map(|b| sbox[usize::from(b)]);
            }
            words.push(std::array::from_fn(|b| word[b] ^ words[i - nk][b]));
        }
        let round_keys = words.as_chunks::<4>().0.iter().map(|w| std::array::from_fn(|i| w[i / 4][i % 4]));
        Self { round_keys: round_keys.collect() }
    }
}

fn mix_columns(state: Block, row: [usize; 4]) -> Block {
    std::array::from_fn(|i| {
        (0..4).fold(0, |sum, k| sum ^ PRODUCTS[row[(k + 4 - i % 4) % 4]][usize::from(state[i / 4 * 4 + k])])
    })
}

impl BlockCipher for Aes {
    fn encrypt(&self, block: Block) -> Block {
        let last = self.round_keys.len() - 1;
        let mut state = xor(block, self.round_keys[0]);
        for (round, key) in self.round_keys.iter().enumerate().skip(1) {
            state = state.map(|b| SBOXES[0][usize::from(b)]);
            state = std::array::from_fn(|i| state[(i + 4 * (i % 4)) % 16]);
            if round != last {
                state = mix_columns(state, [2, 3, 1, 1]);
            }
            state = xor(state, *key);
        }
        state
    }

    fn decrypt(&self, block: Block) -> Block {
        let last = self.round_keys.len() - 1;
        let mut state = block;
        for (round, key) in self.round_keys.iter().enumerate().skip(1).rev() {
            state = xor(state, *key);
            if round != last {
                state = mix_columns(state, [14, 11, 13, 9]);
            }
            state = std::array::from_fn(|i| state[(i + 16 - 4 * (i % 4)) % 16]);
            state = state.map(|b| SBOXES[1][usize::from(b)]);
        }
        xor(state, self.round_keys[0])
    }
}

/// Exclusive or.
pub fn xor(a: Block, b: Block) -> Block {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// x times a block as XTS reads it, bit by bit.
pub fn double(block: Block) -> Block {
    let mut doubled = [0; 16];
    for bit in 0..127 {
        if block[bit / 8] >> (bit % 8) & 1 == 1 {
            doubled[(bit + 1) / 8] |= 1 << ((bit + 1) % 8);
        }
    }
    if block[15] & 0x80 != 0 {
        doubled[0] ^= 0x87;
    }
    doubled
}

/// The IV of a number under a rule of dm-crypt; `key` is the whole key.
pub fn iv(rule: &str, cipher_name: &str, key: &[u8], number: u64) -> Block {
    let mut iv = [0; 16];
    match rule {
        "" | "null" => {}
        "plain" => iv[..4].copy_from_slice(&(number as u32).to_le_bytes()),
        "plain64" => iv[..8].copy_from_slice(&number.to_le_bytes()),
        "plain64be" => iv[8..].copy_from_slice(&number.to_be_bytes()),
        "benbi" => iv[8..].copy_from_slice(&number.wrapping_mul(32).wrapping_add(1).to_be_bytes()),
        "essiv:sha256" => {
            iv[..8].copy_from_slice(&number.to_le_bytes());
            iv = cipher(cipher_name, &sha2::Sha256::digest(key)).encrypt(iv);
        }
        other => panic!("no reference for {other}"),
    }
    iv
}

/// Encrypts or decrypts one data unit. In XTS it may end in part of a block.
pub fn unit(encrypt: bool, cipher_name: &str, mode: &str, key: &[u8], iv: Block, unit: &[u8]) -> Vec<u8> {
    let (blocks, rest) = unit.as_chunks::<16>();
    let apply = |cipher: &dyn BlockCipher, block| {
        if encrypt { cipher.encrypt(block) } else { cipher.decrypt(block) }
    };
    let mut out = Vec::new();
    match mode {
        "ecb" => {
            let cipher = cipher(cipher_name, key);
            out.extend(blocks.iter().flat_map(|block| apply(&*cipher, *block)));
        }
        "cbc" => {
            let cipher = cipher(cipher_name, key);
            let mut previous = iv;
            for block in blocks {
                if encrypt {
                    previous = cipher.encrypt(xor(*block, previous));
                    out.extend(previous);
                } else {
                    out.extend(xor(cipher.decrypt(*block), previous));
                    previous = *block;
                }
            }
        }
        // NIST SP 800-38A addendum, CBC-CS3, of whole blocks: the last two change places.
        "cts" => {
            let exchanged = |mut bytes: Vec<u8>| {
                if let Some(last_two) = bytes.len().checked_sub(32) {
                    bytes[last_two..].rotate_left(16);
                }
                bytes
            };
            let cbc = |bytes: &[u8]| self::unit(encrypt, cipher_name, "cbc", key, iv, bytes);
            out = if encrypt { exchanged(cbc(unit)) } else { cbc(&exchanged(unit.to_vec())) };
        }
        "lrw" => {
            let (key, tweak_key) = key.split_last_chunk::<16>().expect("a tweak key");
            let cipher = cipher(cipher_name, key);
            for (i, block) in blocks.iter().enumerate() {
                let index = u128::from_be_bytes(iv).wrapping_add(i as u128);
                let mut power = u128::from_be_bytes(*tweak_key);
                let mut tweak = 0;
                for bit in 0..128 {
                    if index >> bit & 1 == 1 {
                        tweak ^= power;
                    }
                    power = if power >> 127 == 1 { power << 1 ^ 0x87 } else { power << 1 };
                }
                let tweak = tweak.to_be_bytes();
                out.extend(xor(apply(&*cipher, xor(*block, tweak)), tweak));
            }
        }
        // XEX with one key: as XTS, with that key for both, and the powers from x on.
        "xex1" => {
            let cipher = cipher(cipher_name, key);
            let mut tweak = cipher.encrypt(iv);
            for block in blocks {
                tweak = double(tweak);
                out.extend(xor(apply(&*cipher, xor(*block, tweak)), tweak));
            }
        }
        "xts" => {
            let (key, tweak_key) = key.split_at(key.len() / 2);
            let data = cipher(cipher_name, key);
            let mut tweaks = vec![cipher(cipher_name, tweak_key).encrypt(iv)];
            for i in 0..blocks.len() {
                tweaks.push(double(tweaks[i]));
            }
            let masked = |block, tweak| xor(apply(&*data, xor(block, tweak)), tweak);
            let last = blocks.len() - 1;
            for (i, block) in blocks.iter().enumerate() {
                let decrypt_last = !encrypt && i == last && !rest.is_empty();
                out.extend(masked(*block, tweaks[if decrypt_last { last + 1 } else { i }]));
            }
            if !rest.is_empty() {
                let stolen: Block = out[16 * last..].try_into().unwrap();
                let mut filled = stolen;
                filled[..rest.len()].copy_from_slice(rest);
                out.truncate(16 * last);
                out.extend(masked(filled, tweaks[if encrypt { last + 1 } else { last }]));
                out.extend(&stolen[..rest.len()]);
            }
        }
        other => panic!("no reference for {other}"),
    }
    out
}
