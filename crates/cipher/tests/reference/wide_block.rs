//! Adiantum and HPolyC once more, as the paper writes them (Crowley and Biggers, IACR ToSC 2018(4), sections 2 and 3):
//! numbers of any size, one function per line of the paper; and ChaCha alone. Neither fast nor constant-time.

use super::Block;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    Adiantum,
    HPolyC,
}

/// Encrypts or decrypts a data unit of at least 16 bytes.
pub fn unit(encrypt: bool, design: Design, rounds: usize, key: &[u8], tweak: &[u8], unit: &[u8]) -> Vec<u8> {
    let nh_key_len = if design == Design::Adiantum { 16 + 1072 } else { 0 };
    let derived = xchacha(rounds, key, &[&[1][..], &[0; 23]].concat(), 32 + 16 + nh_key_len);
    let (block_key, hash_key) = derived.split_at(32);
    let cipher = super::cipher("aes", block_key);
    let hash = |bulk: &[u8]| match design {
        Design::Adiantum => {
            let length = (bulk.len() as u128 * 8).to_le_bytes();
            let header = poly1305(&hash_key[..16], &[&length[..], tweak].concat());
            let hashed: Vec<u8> = bulk.chunks(1024).flat_map(|chunk| nh(&hash_key[32..], chunk)).collect();
            header.wrapping_add(poly1305(&hash_key[16..32], &hashed))
        }
        Design::HPolyC => {
            let mut header = [&(tweak.len() as u32 * 8).to_le_bytes()[..], tweak].concat();
            header.resize(header.len().next_multiple_of(16), 0);
            poly1305(hash_key, &[&header[..], bulk].concat())
        }
    };
    let stream = |bulk: &[u8], nonce: Block| {
        let nonce = [&nonce[..], &[1, 0, 0, 0, 0, 0, 0, 0]].concat();
        let keystream = xchacha(rounds, key, &nonce, bulk.len());
        bulk.iter().zip(keystream).map(|(byte, key)| byte ^ key).collect::<Vec<u8>>()
    };
    let (bulk, last) = unit.split_last_chunk::<16>().expect("at least a block");
    let first_sum = u128::from_le_bytes(*last).wrapping_add(hash(bulk)).to_le_bytes();
    let (bulk, middle) = if encrypt {
        let middle = cipher.encrypt(first_sum);
        (stream(bulk, middle), middle)
    } else {
        (stream(bulk, first_sum), cipher.decrypt(first_sum))
    };
    let last = u128::from_le_bytes(middle).wrapping_sub(hash(&bulk)).to_le_bytes();
    [&bulk[..], &last].concat()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// ChaCha alone, from block 0 on, under a nonce of 8 bytes (RFC 8439, 2.4, with a counter of 64 bits).
pub fn chacha_stream(rounds: usize, key: &[u8], nonce: [u8; 8], data: &[u8]) -> Vec<u8> {
    let mut start = [words(b"expand 32-byte k"), words(key), vec![0, 0], words(&nonce)].concat();
    let mut out = Vec::new();
    for piece in data.chunks(64) {
        let block = chacha(rounds, &start);
        let keystream = block.iter().zip(&start).flat_map(|(a, b)| a.wrapping_add(*b).to_le_bytes());
        out.extend(piece.iter().zip(keystream).map(|(byte, key)| byte ^ key));
        start[12] += 1;
    }
    out
}

/// The first `len` bytes of the keystream under a nonce of 24 bytes.
fn xchacha(rounds: usize, key: &[u8], nonce: &[u8], len: usize) -> Vec<u8> {
    let constants = words(b"expand 32-byte k");
    let hashed = chacha(rounds, &[&constants[..], &words(key), &words(&nonce[..16])].concat());
    let subkey = [&hashed[..4], &hashed[12..]].concat();
    let mut keystream = Vec::new();
    for counter in 0u64.. {
        if keystream.len() >= len {
            break;
        }
        let position = [words(&counter.to_le_bytes()), words(&nonce[16..])].concat();
        let start = [&constants[..], &subkey, &position].concat();
        let block = chacha(rounds, &start);
        keystream.extend(block.iter().zip(start).flat_map(|(a, b)| a.wrapping_add(b).to_le_bytes()));
    }
    keystream.truncate(len);
    keystream
}

fn chacha(rounds: usize, start: &[u32]) -> Vec<u32> {
    let mut x = start.to_vec();
    for round in 0..rounds {
        for column in 0..4 {
            let row = |i: usize| 4 * i + (column + if round % 2 == 1 { i } else { 0 }) % 4;
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            for (first, second) in [(16, 12), (8, 7)] {
                x[a] = x[a].wrapping_add(x[b]);
                x[d] = (x[d] ^ x[a]).rotate_left(first);
                x[c] = x[c].wrapping_add(x[d]);
                x[b] = (x[b] ^ x[c]).rotate_left(second);
            }
        }
    }
    x
}

/// NH with four passes over at most 1024 bytes: 32 bytes.
fn nh(key: &[u8], chunk: &[u8]) -> Vec<u8> {
    let mut chunk = chunk.to_vec();
    chunk.resize(chunk.len().next_multiple_of(16), 0);
    let (key, message) = (words(key), words(&chunk));
    let pass = |pass: usize| {
        let sum = |i: usize| u64::from(message[i].wrapping_add(key[4 * pass + i]));
        let strides = (0..message.len()).step_by(4);
        strides.fold(0u64, |total, i| {
            total
                .wrapping_add(sum(i).wrapping_mul(sum(i + 2)))
                .wrapping_add(sum(i + 1).wrapping_mul(sum(i + 3)))
        })
    };
    (0..4).flat_map(|number| pass(number).to_le_bytes()).collect()
}

/// Poly1305 without its final addition, modulo 2^128, bit by bit.
fn poly1305(key: &[u8], message: &[u8]) -> u128 {
    let r =
        u128::from_le_bytes(key.try_into().expect("16 bytes")) & 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff;
    let mut hash = (0u128, 0u128);
    for block in message.chunks(16) {
        let mut bytes = [0; 17];
        bytes[..block.len()].copy_from_slice(block);
        bytes[block.len()] = 1;
        let (low, high) = bytes.split_first_chunk::<16>().expect("17 bytes");
        hash = add(hash, (u128::from_le_bytes(*low), high[0].into()));
        let mut product = (0, 0);
        for bit in (0..128).rev() {
            product = add(product, product);
            if r >> bit & 1 == 1 {
                product = add(product, hash);
            }
        }
        hash = product;
    }
    hash.0
}

/// The sum modulo 2^130 - 5 of two numbers below it, or little above, as low 128 bits and what is over them.
fn add(a: (u128, u128), b: (u128, u128)) -> (u128, u128) {
    let (low, carry) = a.0.overflowing_add(b.0);
    let (mut low, mut high) = (low, a.1 + b.1 + u128::from(carry));
    // 2^130 is 5; then at most one modulus is left to take away.
    let (folded, carry) = low.overflowing_add(5 * (high >> 2));
    (low, high) = (folded, (high & 3) + u128::from(carry));
    if high > 3 || (high == 3 && low >= u128::MAX - 4) {
        (low, high) = (low.wrapping_add(5), 0);
    }
    (low, high)
}
