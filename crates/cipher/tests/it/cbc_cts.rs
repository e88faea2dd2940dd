//! CBC with ciphertext stealing against RFC 3962's vectors and against plain CBC.

use crate::reference;
use atrest_cipher::{BackendChoice, CbcCts, Cipher, CtsError, DataUnitIndex, Mapper, MapperOptions};

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |d: u8| (d as char).to_digit(16).expect("a hexadecimal digit") as u8;
    hex.as_bytes().as_chunks().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

fn check(cipher: Cipher, key: &[u8], iv: &[u8; 16], plain: &[u8], encrypted: &[u8]) {
    for backend in BackendChoice::detected() {
        let options = MapperOptions { backend: Some(backend), ..MapperOptions::default() };
        let cts = CbcCts::new(cipher, key, &options).expect("a good key");
        let what = format!("{} bytes on {}", plain.len(), cts.backend_name());
        let mut unit = plain.to_vec();
        cts.encrypt(iv, &mut unit).expect("long enough");
        assert!(unit == encrypted, "encrypt: {what}");
        cts.decrypt(iv, &mut unit).expect("long enough");
        assert!(unit == plain, "decrypt: {what}");
    }
}

/// Source: RFC 3962, Appendix B.
#[test]
fn stealing_agrees_with_rfc_3962() {
    let plain = b"I would like the General Gau's Chicken, please, and wonton soup.";
    let key = b"chicken teriyaki";
    for (len, published) in [
        (17, "c6353568f2bf8cb4d8a580362da7ff7f97"),
        (31, "fc00783e0efdb2c1d445d4c8eff7ed2297687268d6ecccc0c07b25e25ecfe5"),
        (32, "39312523a78662d5be7fcbcc98ebf5a897687268d6ecccc0c07b25e25ecfe584"),
        (
            47,
            "97687268d6ecccc0c07b25e25ecfe584b3fffd940c16a18c1b5549d2f838029e39312523a78662d5be7fcbcc98ebf5",
        ),
        (
            48,
            "97687268d6ecccc0c07b25e25ecfe5849dad8bbb96c4cdc03bc103e1a194bbd839312523a78662d5be7fcbcc98ebf5a8",
        ),
        (
            64,
            "97687268d6ecccc0c07b25e25ecfe58439312523a78662d5be7fcbcc98ebf5a8\
             4807efe836ee89a526730dbc2f7bc8409dad8bbb96c4cdc03bc103e1a194bbd8",
        ),
    ] {
        check(Cipher::Aes, key, &[0; 16], &plain[..len], &bytes(published));
        if len.is_multiple_of(16) {
            // Through a mapper, with IVs of zeros.
            let spec = "capi:cts(cbc(aes))-null".parse().expect("a good specification");
            let options = MapperOptions { data_unit: len, ..MapperOptions::default() };
            let mapper = Mapper::new(&spec, key, &options).expect("a good key");
            let mut run = plain[..len].repeat(2);
            mapper.encrypt(DataUnitIndex(3), &mut run).expect("whole units");
            assert!(run == bytes(published).repeat(2), "{len}");
            mapper.decrypt(DataUnitIndex(3), &mut run).expect("whole units");
            assert!(run == plain[..len].repeat(2), "{len}");
        }
    }
}

/// CBC of the unit filled up with zeros, its last two blocks exchanged, cut to length (SP 800-38A addendum).
#[test]
fn stealing_is_cbc_with_its_last_blocks_exchanged_at_every_length() {
    for (name, cipher, key_len) in [("aes", Cipher::Aes, 32), ("serpent", Cipher::Serpent, 16)] {
        let key: Vec<u8> = (5..).take(key_len).collect();
        let iv: [u8; 16] = core::array::from_fn(|i| (i * 11) as u8);
        for len in (16_usize..200).chain([255, 256, 4095, 4096]) {
            let plain: Vec<u8> = (0..len).map(|i| (i * 13 + i / 256) as u8).collect();
            let mut filled = plain.clone();
            filled.resize(len.next_multiple_of(16), 0);
            let mut expected = reference::unit(true, name, "cbc", &key, iv, &filled);
            if let Some(at) = expected.len().checked_sub(32) {
                expected[at..].rotate_left(16);
            }
            expected.truncate(len);
            check(cipher, &key, &iv, &plain, &expected);
        }
    }
}

#[test]
fn what_is_too_short_is_refused_and_left_alone() {
    let cts = CbcCts::new(Cipher::Aes, &[1; 32], &MapperOptions::default()).expect("a good key");
    let mut short = [7; 15];
    assert_eq!(cts.encrypt(&[0; 16], &mut short), Err(CtsError::TooShort { len: 15 }));
    assert_eq!(cts.decrypt(&[0; 16], &mut short), Err(CtsError::TooShort { len: 15 }));
    assert_eq!(short, [7; 15]);
    assert!(CbcCts::new(Cipher::Blowfish, &[1; 16], &MapperOptions::default()).is_err());
    assert!(CbcCts::new(Cipher::XChaCha12Aes, &[1; 32], &MapperOptions::default()).is_err());
}
