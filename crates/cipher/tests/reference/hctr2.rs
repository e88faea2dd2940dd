//! HCTR2 as its paper writes it, over blocks and bits.

use super::{Block, cipher, xor};

/// Encrypts or decrypts a data unit of at least 16 bytes.
pub fn unit(encrypt: bool, cipher_name: &str, key: &[u8], tweak: &[u8], unit: &[u8]) -> Vec<u8> {
    let cipher = cipher(cipher_name, key);
    let number = |n: usize| (n as u128).to_le_bytes();
    let (hash_key, separator) = (cipher.encrypt(number(0)), cipher.encrypt(number(1)));
    let hash = |bulk: &[u8]| {
        let whole = bulk.len().is_multiple_of(16);
        let mut message = number(2 * 8 * tweak.len() + if whole { 2 } else { 3 }).to_vec();
        message.extend(tweak);
        message.resize(message.len().next_multiple_of(16), 0);
        message.extend(bulk);
        if !whole {
            message.push(1);
            message.resize(message.len().next_multiple_of(16), 0);
        }
        polyval(hash_key, &message)
    };
    let (first, bulk) = unit.split_first_chunk::<16>().expect("at least a block");
    let into = xor(*first, hash(bulk));
    let out = if encrypt { cipher.encrypt(into) } else { cipher.decrypt(into) };
    let nonce = xor(xor(into, out), separator);
    let stream = (1..).flat_map(|i| cipher.encrypt(xor(nonce, number(i))));
    let bulk: Vec<u8> = bulk.iter().zip(stream).map(|(byte, stream)| byte ^ stream).collect();
    [&xor(out, hash(&bulk))[..], &bulk].concat()
}

/// RFC 8452, section 3: a sum of products, each times x^-128.
fn polyval(key: Block, message: &[u8]) -> Block {
    let key = u128::from_le_bytes(key);
    let mut state = 0;
    for block in message.as_chunks().0 {
        state ^= u128::from_le_bytes(*block);
        let mut product = 0u128;
        for bit in 0..128 {
            if state >> bit & 1 == 1 {
                product ^= key;
            }
            // x^-1 times it: the modulus is x^128 + x^127 + x^126 + x^121 + 1.
            let odd = product & 1 == 1;
            product >>= 1;
            if odd {
                product ^= 0b1110_0001 << 120;
            }
        }
        state = product;
    }
    state.to_le_bytes()
}
