//! AEGIS-128 and AEGIS-256 as their specifications are written, a block at a time, with AES from FIPS 197's own words.

type Block = [u8; 16];

/// FIPS 197, 5.1.1: the inverse in GF(2^8), then an affine map.
fn sbox(byte: u8) -> u8 {
    let inverse = (1..=255).find(|other| times(byte, *other) == 1).unwrap_or(0);
    let turned = |by: u32| inverse.rotate_left(by);
    inverse ^ turned(1) ^ turned(2) ^ turned(3) ^ turned(4) ^ 0x63
}

fn times(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        product ^= a * (b & 1);
        a = (a << 1) ^ (0x1b * (a >> 7));
        b >>= 1;
    }
    product
}

fn xor(a: Block, b: Block) -> Block {
    core::array::from_fn(|i| a[i] ^ b[i])
}

/// SubBytes, ShiftRows, MixColumns, AddRoundKey.
fn aes_round(table: &[u8; 256], block: Block, key: Block) -> Block {
    let shifted: Block =
        core::array::from_fn(|i| table[usize::from(block[(4 * (i / 4 + i % 4) + i % 4) % 16])]);
    let mixed: Block = core::array::from_fn(|i| {
        let at = |below: usize| shifted[i / 4 * 4 + (i + below) % 4];
        times(at(0), 2) ^ times(at(1), 3) ^ at(2) ^ at(3)
    });
    xor(mixed, key)
}

/// Ciphertext and tag of 16 bytes. A key of 16 bytes is AEGIS-128's, of 32 AEGIS-256's.
pub fn aegis(key: &[u8], nonce: &[u8], associated: &[u8], plain: &[u8]) -> (Vec<u8>, Block) {
    let table: [u8; 256] = core::array::from_fn(|byte| sbox(byte as u8));
    let fibonacci: Vec<u8> = {
        let (mut a, mut b) = (0u8, 1u8);
        let mut next = || {
            let this = a;
            (a, b) = (b, a.wrapping_add(b));
            this
        };
        (0..32).map(|_| next()).collect()
    };
    let block = |bytes: &[u8]| {
        let mut block = [0; 16];
        block[..bytes.len()].copy_from_slice(bytes);
        block
    };
    let (c0, c1) = (block(&fibonacci[..16]), block(&fibonacci[16..]));
    let k: Vec<Block> = key.chunks(16).map(block).collect();
    let kn: Vec<Block> = k.iter().zip(nonce.chunks(16)).map(|(k, n)| xor(*k, block(n))).collect();
    let mut state = match k[..] {
        [k] => vec![kn[0], c1, c0, xor(k, c0), xor(k, c1)],
        _ => vec![kn[0], kn[1], c1, c0, xor(k[0], c0), xor(k[1], c1)],
    };
    let update = |state: &mut Vec<Block>, message: Block| {
        let old = state.clone();
        for i in 0..old.len() {
            let before = old[(i + old.len() - 1) % old.len()];
            state[i] = aes_round(&table, before, old[i]);
        }
        state[0] = xor(state[0], message);
    };
    for _ in 0..if k.len() == 1 { 5 } else { 4 } {
        k.iter().chain(&kn).for_each(|message| update(&mut state, *message));
    }
    associated.chunks(16).for_each(|bytes| update(&mut state, block(bytes)));
    let mut out = Vec::new();
    for bytes in plain.chunks(16) {
        let and: Block = core::array::from_fn(|i| state[2][i] & state[3][i]);
        let mut z = xor(xor(state[1], state[4]), and);
        if k.len() == 2 {
            z = xor(z, state[5]);
        }
        out.extend(bytes.iter().zip(z).map(|(byte, z)| byte ^ z));
        update(&mut state, block(bytes));
    }
    let lengths = [associated, plain].map(|bytes| (8 * bytes.len() as u64).to_le_bytes()).concat();
    let last = xor(block(&lengths), state[3]);
    (0..7).for_each(|_| update(&mut state, last));
    (out, state.into_iter().fold([0; 16], xor))
}
