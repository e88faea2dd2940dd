//! HCTR2 against its authors' vectors and the reference, as data units by themselves and in runs.

use crate::emulated::sample;
use crate::random::Random;
use crate::recording::{Start, record};
use crate::reference;
#[allow(dead_code, reason = "Xts has no part here")]
use atrest_cipher::{
    BackendChoice, Cipher, CipherSpec, DataUnitIndex, Hctr2, Mapper, MapperOptions, WideBlockError,
};

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |d: u8| (d as char).to_digit(16).expect("a hexadecimal digit") as u8;
    hex.as_bytes().as_chunks().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    Random::new(seed).bytes(len)
}

fn options(backend: BackendChoice) -> MapperOptions {
    MapperOptions { backend: Some(backend), ..MapperOptions::default() }
}

/// Both directions, in place and between buffers.
fn agrees(cipher: &Hctr2, tweak: &[u8], plain: &[u8], encrypted: &[u8]) {
    let what = format!("tweak of {}, unit of {} bytes, {}", tweak.len(), plain.len(), cipher.backend_name());
    let mut unit = plain.to_vec();
    cipher.encrypt(tweak, &mut unit).expect(&what);
    assert!(unit == encrypted, "encrypt: {what}");
    cipher.decrypt(tweak, &mut unit).expect(&what);
    assert!(unit == plain, "decrypt: {what}");
    let mut other = vec![0xa5; unit.len()];
    cipher.encrypt_to(tweak, plain, &mut other).expect(&what);
    assert!(other == encrypted, "encrypt between buffers: {what}");
    cipher.decrypt_to(tweak, encrypted, &mut other).expect(&what);
    assert!(other == plain, "decrypt between buffers: {what}");
}

/// Source: google/hctr2, commit 0b0b537, `test_vectors`: a ninth of them.
#[test]
fn hctr2_agrees_with_its_authors_vectors() {
    let text = include_str!("../vectors/hctr2.txt");
    let vectors: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(vectors.len(), 62, "vectors are missing");
    for vector in vectors {
        let fields: Vec<Vec<u8>> = vector.split(' ').map(|field| bytes(field.trim_matches('-'))).collect();
        let [key, tweak, plain, encrypted] = &fields[..] else { panic!("four fields: {vector}") };
        for backend in BackendChoice::detected() {
            let cipher = Hctr2::new(Cipher::Aes, key, &options(backend)).expect("a good key");
            agrees(&cipher, tweak, plain, encrypted);
        }
        assert!(reference::hctr2::unit(true, "aes", key, tweak, plain) == *encrypted, "the reference itself");
    }
}

#[test]
fn units_and_tweaks_of_any_length_agree_with_the_reference() {
    for (name, cipher) in [("aes", Cipher::Aes), ("camellia", Cipher::Camellia)] {
        for backend in BackendChoice::detected() {
            for (i, key_len) in [16, 24, 32].into_iter().enumerate() {
                let key = noise(3, key_len);
                let hctr2 = Hctr2::new(cipher, &key, &options(backend)).expect("a good key");
                for len in (16..=330).step_by(3 + i).chain([272, 511, 512, 513, 4096, 5003]) {
                    let (tweak, plain) = (noise(len as u64, len * 7 % 67), noise(len as u64 + 1, len));
                    let encrypted = reference::hctr2::unit(true, name, &key, &tweak, &plain);
                    agrees(&hctr2, &tweak, &plain, &encrypted);
                }
            }
        }
    }
}

/// The tweaks of dm-crypt: the unit's number in 32 bytes.
#[test]
fn a_run_is_its_units_under_their_numbers() {
    let mut chosen = sample();
    for backend in BackendChoice::detected() {
        for (iv, place, key_len) in
            [("plain64", 0..8, 32), ("plain64be", 24..32, 16), ("null", 0..0, 24), ("plain64", 0..8, 16)]
        {
            let key = noise(9, key_len);
            for (data_unit, units) in [
                (512, 1),
                (512, 19),
                (512, 50),
                (4096, 3),
                (4096, 8),
                (16, 9),
                (48, 17),
                (1040, 8),
                (144, 25),
                (128, 40),
                (256, 37),
                (1024, 21),
                (2048, 9),
                (8192, 3),
                (640, 18),
            ]
            .into_iter()
            .filter(|_| chosen())
            {
                let options = MapperOptions { data_unit, iv_large: true, ..options(backend) };
                let spec: CipherSpec = format!("aes-hctr2-{iv}").parse().expect("a good specification");
                let mapper = Mapper::new(&spec, &key, &options).expect("a good key");
                let plain = noise(data_unit as u64, data_unit * units);
                let first = 0x1_0000_0005u64;
                let expected: Vec<u8> = plain
                    .chunks(data_unit)
                    .zip(first..)
                    .flat_map(|(unit, number)| {
                        let number =
                            if iv == "plain64" { number.to_le_bytes() } else { number.to_be_bytes() };
                        let mut tweak = [0; 32];
                        tweak[place.clone()].copy_from_slice(&number[..place.len()]);
                        reference::hctr2::unit(true, "aes", &key, &tweak, unit)
                    })
                    .collect();
                let what = format!("{iv}, units of {data_unit} bytes, {}", mapper.backend_name());
                if backend == BackendChoice::portable() {
                    let (name, start) = (spec.to_string(), || Start::Unit(first));
                    record(&name, &key, &options, start(), true, (&plain, &expected));
                    record(&name, &key, &options, start(), false, (&expected, &plain));
                }
                let mut run = plain.clone();
                mapper.encrypt(DataUnitIndex(first), &mut run).expect("whole units");
                assert!(run == expected, "{what}");
                mapper.decrypt(DataUnitIndex(first), &mut run).expect("whole units");
                assert!(run == plain, "{what}");
                let mut other = vec![0; run.len()];
                mapper.encrypt_to(DataUnitIndex(first), &plain, &mut other).expect("whole units");
                assert!(other == expected, "between buffers: {what}");
                mapper.decrypt_to(DataUnitIndex(first), &expected, &mut other).expect("whole units");
                assert!(other == plain, "between buffers: {what}");
            }
        }
    }
}

#[test]
fn what_hctr2_cannot_encrypt_is_refused_and_left_alone() {
    let hctr2 = Hctr2::new(Cipher::Aes, &[1; 16], &MapperOptions::default()).expect("a good key");
    let mut short = [7; 15];
    assert_eq!(hctr2.encrypt(b"", &mut short), Err(WideBlockError::TooShort { len: 15 }));
    assert_eq!(short, [7; 15]);
    let mismatch = WideBlockError::LengthMismatch { src: 17, dst: 16 };
    assert_eq!(hctr2.decrypt_to(b"", &[0; 17], &mut [0; 16]), Err(mismatch));
    assert!(Hctr2::new(Cipher::Aes, &[1; 64], &MapperOptions::default()).is_err());
    assert!(Hctr2::new(Cipher::Blowfish, &[1; 16], &MapperOptions::default()).is_err());
}
