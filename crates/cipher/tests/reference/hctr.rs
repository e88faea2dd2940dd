//! HCTR and HCH, which the Adiantum slides name as its forerunners: to compare, and to read. Nothing offers them.

use super::{Block, BlockCipher, cipher, double, xor};

fn number(n: usize) -> Block {
    (n as u128).to_le_bytes()
}

/// A product in the field of XTS, bit by bit.
fn times(a: Block, b: Block) -> Block {
    let (mut power, mut product) = (a, [0; 16]);
    for bit in 0..128 {
        if b[bit / 8] >> (bit % 8) & 1 == 1 {
            product = xor(product, power);
        }
        power = double(power);
    }
    product
}

/// Blocks, of which the last is filled with zeros.
fn padded(bytes: &[u8]) -> Vec<Block> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    bytes.as_chunks().0.to_vec()
}

/// Counter mode over `nonce` xor 1, 2 ….
fn counter(cipher: &dyn BlockCipher, nonce: Block, data: &[u8]) -> Vec<u8> {
    let stream = (1..).flat_map(|i| cipher.encrypt(xor(nonce, number(i))));
    data.iter().zip(stream).map(|(byte, stream)| byte ^ stream).collect()
}

/// HCTR (Wang, Feng and Wu, CISC 2005) of a data unit of at least 16 bytes; the first 16 bytes of the key are the hash's.
pub fn hctr(encrypt: bool, cipher_name: &str, key: &[u8], tweak: &[u8], unit: &[u8]) -> Vec<u8> {
    let (hash_key, key) = key.split_first_chunk::<16>().expect("a hash key");
    let cipher = cipher(cipher_name, key);
    let hash = |bulk: &[u8]| {
        let message = [bulk, tweak].concat();
        if message.is_empty() {
            return *hash_key;
        }
        let blocks = padded(&message).into_iter().chain([number(8 * message.len())]);
        blocks.fold([0; 16], |sum, block| times(xor(sum, block), *hash_key))
    };
    let (first, bulk) = unit.split_first_chunk::<16>().expect("at least a block");
    let into = xor(*first, hash(bulk));
    let out = if encrypt { cipher.encrypt(into) } else { cipher.decrypt(into) };
    let bulk = counter(&*cipher, xor(into, out), bulk);
    [&xor(out, hash(&bulk))[..], &bulk].concat()
}

/// HCH (Chakraborty and Sarkar, Indocrypt 2006, IACR ePrint 2007/028) of a data unit of more than 16 bytes, under a tweak of
/// one block.
pub fn hch(encrypt: bool, cipher_name: &str, key: &[u8], tweak: Block, unit: &[u8]) -> Vec<u8> {
    let cipher = cipher(cipher_name, key);
    let r = cipher.encrypt(tweak);
    let q = cipher.encrypt(xor(r, number(8 * unit.len())));
    // The sum of q, the first block and the others, each times a power of r.
    let hash = |q: Block, first: Block, bulk: &[u8]| {
        let others = padded(bulk).into_iter().rev().fold([0; 16], |sum, block| times(xor(sum, block), r));
        xor(xor(q, first), others)
    };
    let (before, after) = if encrypt { (q, double(q)) } else { (double(q), q) };
    let (first, bulk) = unit.split_first_chunk::<16>().expect("more than a block");
    let into = hash(before, *first, bulk);
    let out = if encrypt { cipher.encrypt(into) } else { cipher.decrypt(into) };
    let bulk = counter(&*cipher, cipher.encrypt(xor(into, out)), bulk);
    [&hash(after, out, &bulk)[..], &bulk].concat()
}
