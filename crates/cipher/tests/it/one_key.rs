//! XEX with one key: ours against its definition, and why the form that starts with x^0 is unsound.

use crate::recording::{Start, record};
use crate::reference;
use crate::reference::{Block, cipher, double, xor};
#[allow(dead_code, reason = "Xts has no part here")]
use atrest_cipher::{BackendChoice, CipherSpec, DataUnitIndex, Mapper, MapperOptions};

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i + 3) * (seed + 7) + i / 256 * 31 + (i * i) % 251) as u8).collect()
}

/// The tweak of block `j` of a data unit whose IV is encrypted under the data's own key: from x^`first` on.
fn tweak(key: &[u8], iv: Block, first: usize, j: usize) -> Block {
    (0..first + j).fold(cipher("aes", key).encrypt(iv), |tweak, _| double(tweak))
}

fn xex(encrypt: bool, key: &[u8], iv: Block, first: usize, unit: &[u8]) -> Vec<u8> {
    let blocks = unit.as_chunks::<16>().0.iter().enumerate();
    blocks
        .flat_map(|(j, block)| {
            let tweak = tweak(key, iv, first, j);
            let block = xor(*block, tweak);
            let cipher = cipher("aes", key);
            xor(if encrypt { cipher.encrypt(block) } else { cipher.decrypt(block) }, tweak)
        })
        .collect()
}

#[test]
fn xex_with_one_key_agrees_with_its_definition_on_every_backend() {
    for backend in BackendChoice::detected() {
        for (key_len, data_unit, units) in [
            (16, 512, 3),
            (24, 48, 9),
            (32, 512, 35),
            (32, 16, 19),
            (32, 144, 5),
            (16, 4096, 2),
            (24, 1024, 18),
        ] {
            let key = bytes(key_len, key_len);
            let options =
                MapperOptions { data_unit, iv_large: true, backend: Some(backend), ..Default::default() };
            let spec: CipherSpec = "aes-xex1-plain64".parse().expect("a good specification");
            let mapper = Mapper::new(&spec, &key, &options).expect("a good key");
            let plain = bytes(data_unit, data_unit * units);
            for encrypt in [true, false] {
                let wanted: Vec<u8> = plain
                    .chunks(data_unit)
                    .zip(7..)
                    .flat_map(|(unit, number)| {
                        xex(encrypt, &key, reference::iv("plain64", "aes", &key, number), 1, unit)
                    })
                    .collect();
                if backend == BackendChoice::portable() {
                    let spec = spec.to_string();
                    record(&spec, &key, &options, Start::Unit(7), encrypt, (&plain, &wanted));
                }
                let (mut run, mut other) = (plain.clone(), vec![0; plain.len()]);
                if encrypt {
                    mapper.encrypt(DataUnitIndex(7), &mut run).expect("whole units");
                    mapper.encrypt_to(DataUnitIndex(7), &plain, &mut other).expect("whole units");
                } else {
                    mapper.decrypt(DataUnitIndex(7), &mut run).expect("whole units");
                    mapper.decrypt_to(DataUnitIndex(7), &plain, &mut other).expect("whole units");
                }
                assert!(run == wanted, "{} {key_len} {data_unit}, encrypt: {encrypt}", mapper.backend_name());
                assert!(other == wanted, "{} {key_len} {data_unit}, between buffers", mapper.backend_name());
            }
        }
    }
}

/// Whoever can write ciphertext and see what is made of it gets the difference of two units' tweaks out of a form that
/// starts with x^0, and moves any block from one unit to the other: it decrypts to its plaintext xor a known value.
/// Returns whether that prediction came true.
fn relocation_succeeds(first_power: usize) -> bool {
    let key = bytes(1, 32);
    let salt = bytes(2, 16);
    // The article's IV: the number of the sector, salted. The attacker knows neither key nor salt.
    let iv = |number: u64| -> Block {
        let mut iv: Block = salt.clone().try_into().expect("16 bytes");
        iv.iter_mut().zip(number.to_le_bytes()).for_each(|(byte, number)| *byte ^= number);
        iv
    };
    let decrypted = |number, ciphertext: &[u8]| xex(false, &key, iv(number), first_power, ciphertext);
    let (from, to) = (12, 345);
    let secret = bytes(99, 64);
    let stolen = xex(true, &key, iv(from), first_power, &secret);

    // With x^0, a block of zeros decrypts to D(0 ^ T) ^ T = IV ^ T, where T = E(IV) is the tweak.
    let read = |number| -> Block { decrypted(number, &[0; 16]).try_into().expect("a block") };
    let numbers: Block = ((from ^ to) as u128).to_le_bytes();
    let mut difference = xor(xor(read(from), read(to)), numbers);
    for j in 0..4 {
        let block: Block = stolen[16 * j..][..16].try_into().expect("a block");
        let mut planted = vec![0; 16 * j];
        planted.extend(xor(block, difference));
        let seen: Block = decrypted(to, &planted)[16 * j..].try_into().expect("a block");
        let wanted: Block = secret[16 * j..][..16].try_into().expect("a block");
        if seen != xor(wanted, difference) {
            return false;
        }
        difference = double(difference);
    }
    true
}

#[test]
fn blocks_can_be_relocated_if_the_powers_start_at_zero_but_not_in_ours() {
    assert!(relocation_succeeds(0), "the attack on the unsound form");
    assert!(!relocation_succeeds(1), "the same attack on the form that users may choose");
}
