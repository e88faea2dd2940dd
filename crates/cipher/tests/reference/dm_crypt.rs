//! dm-crypt's rules that use parts of the key or touch the data (kernel, `drivers/md/dm-crypt.c`), plainly.

use super::{Block, cipher, unit, xor};

/// What CBC under `rule` makes of one data unit. `key` is the whole key, `number` what the unit's IV counts.
pub fn cbc_unit(
    encrypt: bool,
    cipher_name: &str,
    rule: &str,
    key: &[u8],
    number: u64,
    data: &[u8],
) -> Vec<u8> {
    let offset = u128::from(number.wrapping_mul(data.len() as u64)).to_le_bytes();
    let cbc = |key: &[u8], iv, data: &[u8]| unit(encrypt, cipher_name, "cbc", key, iv, data);
    match rule {
        "eboiv" => cbc(key, cipher(cipher_name, key).encrypt(offset), data),
        "tcw" => {
            let (key, seed) = key.split_at(key.len() - 32);
            let (seed, whitening) = seed.split_at(16);
            let twice = |half: [u8; 8]| -> Block { [half, half].concat().try_into().unwrap() };
            let sector = twice(number.to_le_bytes());
            let iv = xor(seed.try_into().unwrap(), sector);
            let words = xor(whitening.try_into().unwrap(), sector);
            let words: Vec<[u8; 4]> = words.as_chunks::<4>().0.iter().map(|word| crc32(*word)).collect();
            let mask: Vec<u8> = [(0, 3), (1, 2)]
                .iter()
                .flat_map(|(a, b)| (0..4).map(|i| words[*a][i] ^ words[*b][i]))
                .collect();
            let whiten = |data: &[u8]| -> Vec<u8> {
                data.iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b).collect()
            };
            if encrypt { whiten(&cbc(key, iv, data)) } else { cbc(key, iv, &whiten(data)) }
        }
        "elephant" => {
            let (key, second) = key.split_at(key.len() / 2);
            let iv = cipher(cipher_name, key).encrypt(offset);
            let mut marked = offset;
            marked[15] = 0x80;
            let second = cipher(cipher_name, second);
            let sector_key = [second.encrypt(offset), second.encrypt(marked)].concat();
            let add_key = |data: Vec<u8>| -> Vec<u8> {
                data.iter().zip(sector_key.iter().cycle()).map(|(a, b)| a ^ b).collect()
            };
            if encrypt {
                cbc(key, iv, &diffused(false, &add_key(data.to_vec())))
            } else {
                add_key(diffused(true, &cbc(key, iv, data)))
            }
        }
        "lmk" => {
            // 64 keys, and a 65th if there is a seed.
            let parts = if key.len().is_multiple_of(64) { 64 } else { 65 };
            let keys: Vec<&[u8]> = key.chunks(key.len() / parts).collect();
            let iv = |plain: &[u8]| -> Block {
                let mut message = Vec::new();
                if let Some(seed) = keys.get(64) {
                    message.extend(&seed[..16]);
                    message.extend([0; 48]);
                }
                message.extend(&plain[16..]);
                message.extend(((number & ((1 << 56) - 1)) | 1 << 63).to_le_bytes());
                message.extend(4024u64.to_le_bytes());
                md5_state(&message)
            };
            let key = keys[(number % 64) as usize];
            if encrypt {
                cbc(key, iv(data), data)
            } else {
                let mut plain = cbc(key, [0; 16], data);
                let iv = iv(&plain);
                plain[..16].iter_mut().zip(iv).for_each(|(byte, iv)| *byte ^= iv);
                plain
            }
        }
        other => panic!("no reference for {other}"),
    }
}

/// CRC-32 by long division, of a message that is xored with nothing, before and after.
fn crc32(message: [u8; 4]) -> [u8; 4] {
    let mut rest = u64::from(u32::from_le_bytes(message).reverse_bits()) << 32;
    for bit in (32..64).rev() {
        if rest >> bit & 1 == 1 {
            rest ^= 0x1_04c1_1db7 << (bit - 32);
        }
    }
    (rest as u32).reverse_bits().to_le_bytes()
}

/// The diffusers as the paper writes them: B, then A, in the direction of decryption.
fn diffused(decrypt: bool, data: &[u8]) -> Vec<u8> {
    let mut d: Vec<u32> = data.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let n = d.len();
    let a = |d: &[u32], i: usize| d[(i + n - 2) % n] ^ d[(i + n - 5) % n].rotate_left([9, 0, 13, 0][i % 4]);
    let b = |d: &[u32], i: usize| d[(i + 2) % n] ^ d[(i + 5) % n].rotate_left([0, 10, 0, 25][i % 4]);
    if decrypt {
        for i in 0..3 * n {
            d[i % n] = d[i % n].wrapping_add(b(&d, i % n));
        }
        for i in 0..5 * n {
            d[i % n] = d[i % n].wrapping_add(a(&d, i % n));
        }
    } else {
        for i in (0..5 * n).rev() {
            d[i % n] = d[i % n].wrapping_sub(a(&d, i % n));
        }
        for i in (0..3 * n).rev() {
            d[i % n] = d[i % n].wrapping_sub(b(&d, i % n));
        }
    }
    d.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// RFC 1321, 3.3 and 3.4, without the padding.
fn md5_state(message: &[u8]) -> Block {
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for chunk in message.as_chunks::<64>().0 {
        let x: Vec<u32> = chunk.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let [mut a, mut b, mut c, mut d] = state;
        for i in 0..64 {
            let (f, k, s) = match i / 16 {
                0 => ((b & c) | (!b & d), i, [7, 12, 17, 22]),
                1 => ((b & d) | (c & !d), 5 * i + 1, [5, 9, 14, 20]),
                2 => (b ^ c ^ d, 3 * i + 5, [4, 11, 16, 23]),
                _ => (c ^ (b | !d), 7 * i, [6, 10, 15, 21]),
            };
            let t = (((i + 1) as f64).sin().abs() * f64::from(1u32 << 31) * 2.0) as u32;
            let sum = a.wrapping_add(f).wrapping_add(x[k % 16]).wrapping_add(t).rotate_left(s[i % 4]);
            (a, b, c, d) = (d, b.wrapping_add(sum), b, c);
        }
        state = [
            state[0].wrapping_add(a),
            state[1].wrapping_add(b),
            state[2].wrapping_add(c),
            state[3].wrapping_add(d),
        ];
    }
    let bytes: Vec<u8> = state.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.try_into().unwrap()
}

/// CTR with the IV as a big-endian counter.
pub fn ctr_unit(cipher_name: &str, key: &[u8], iv: Block, data: &[u8]) -> Vec<u8> {
    let cipher = cipher(cipher_name, key);
    let stream = (0..).flat_map(|i| cipher.encrypt(u128::from_be_bytes(iv).wrapping_add(i).to_be_bytes()));
    data.iter().zip(stream).map(|(byte, stream)| byte ^ stream).collect()
}
