//! Adiantum and HPolyC against their authors' implementation, as data units by themselves and in runs.

use atrest_cipher::{
    Adiantum, BackendChoice, Cipher, DataUnitIndex, HPolyC, KeyError, Mapper, MapperOptions, WideBlockError,
};

/// A line of `tests/vectors`.
struct Vector {
    cipher: Cipher,
    key: Vec<u8>,
    tweak: Vec<u8>,
    plain: Vec<u8>,
    encrypted: Vec<u8>,
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |d: u8| (d as char).to_digit(16).expect("a hexadecimal digit") as u8;
    hex.as_bytes().as_chunks().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

fn vectors(text: &str) -> Vec<Vector> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [rounds, key, tweak, plain, encrypted] = fields[..] else { panic!("five fields: {line}") };
        Vector {
            cipher: if rounds == "12" { Cipher::XChaCha12Aes } else { Cipher::XChaCha20Aes },
            key: bytes(key),
            tweak: bytes(tweak.trim_matches('-')),
            plain: bytes(plain),
            encrypted: bytes(encrypted),
        }
    };
    let vectors: Vec<Vector> = text.lines().filter(|line| !line.starts_with('#')).map(line).collect();
    assert!(vectors.len() > 40, "vectors are missing");
    vectors
}

fn options(backend: BackendChoice) -> MapperOptions {
    MapperOptions { backend: Some(backend), ..MapperOptions::default() }
}

/// Both directions, in place and between buffers, on every backend.
macro_rules! agrees {
    ($cipher:ident, $file:literal) => {
        for vector in vectors(include_str!($file)) {
            for backend in BackendChoice::detected() {
                let cipher = $cipher::new(vector.cipher, &vector.key, &options(backend)).expect("32 bytes");
                let what = format!(
                    "{:?}, tweak of {}, unit of {} bytes, {}",
                    vector.cipher,
                    vector.tweak.len(),
                    vector.plain.len(),
                    cipher.backend_name()
                );
                let mut unit = vector.plain.clone();
                cipher.encrypt(&vector.tweak, &mut unit).expect(&what);
                assert!(unit == vector.encrypted, "encrypt: {what}");
                cipher.decrypt(&vector.tweak, &mut unit).expect(&what);
                assert!(unit == vector.plain, "decrypt: {what}");
                let mut other = vec![0xa5; unit.len()];
                cipher.encrypt_to(&vector.tweak, &unit, &mut other).expect(&what);
                assert!(other == vector.encrypted, "encrypt between buffers: {what}");
                cipher.decrypt_to(&vector.tweak, &other, &mut unit).expect(&what);
                assert!(unit == vector.plain, "decrypt between buffers: {what}");
            }
        }
    };
}

#[test]
fn adiantum_agrees_with_its_authors_implementation() {
    agrees!(Adiantum, "vectors/adiantum.txt");
}

#[test]
fn hpolyc_agrees_with_its_authors_implementation() {
    agrees!(HPolyC, "vectors/hpolyc.txt");
}

/// The tweaks of dm-crypt: the unit's number in as many bytes as the cipher has for an IV.
#[test]
fn a_run_is_its_units_under_their_numbers() {
    let key: Vec<u8> = (7..39).collect();
    for (name, iv, tweak_len, place) in [
        ("adiantum", "plain64", 32, 0..8),
        ("adiantum", "plain64be", 32, 24..32),
        ("adiantum", "null", 32, 0..0),
        ("hpolyc", "plain64", 12, 0..8),
        ("hpolyc", "plain64be", 12, 4..12),
    ] {
        for (data_unit, units) in [(512, 19), (4096, 3), (16, 9), (528, 17)] {
            let run_options = MapperOptions { data_unit, iv_large: true, ..MapperOptions::default() };
            let spec = format!("xchacha12,aes-{name}-{iv}").parse().expect("a good specification");
            let mapper = Mapper::new(&spec, &key, &run_options).expect("32 bytes");
            let plain: Vec<u8> = (0..data_unit * units).map(|i| (i * 7 + i / 256) as u8).collect();
            let first = 0x1_0000_0005u64;
            let mut expected = plain.clone();
            for (i, unit) in expected.chunks_mut(data_unit).enumerate() {
                let number = first + i as u64;
                let number = if iv == "plain64" { number.to_le_bytes() } else { number.to_be_bytes() };
                let mut tweak = vec![0; tweak_len];
                tweak[place.clone()].copy_from_slice(&number[..place.len()]);
                if name == "adiantum" {
                    let cipher = Adiantum::new(Cipher::XChaCha12Aes, &key, &run_options).expect("32 bytes");
                    cipher.encrypt(&tweak, unit).expect("long enough");
                } else {
                    let cipher = HPolyC::new(Cipher::XChaCha12Aes, &key, &run_options).expect("32 bytes");
                    cipher.encrypt(&tweak, unit).expect("long enough");
                }
            }
            let mut run = plain.clone();
            mapper.encrypt(DataUnitIndex(first), &mut run).expect("whole units");
            assert!(run == expected, "{name} {iv} {data_unit}");
            mapper.decrypt(DataUnitIndex(first), &mut run).expect("whole units");
            assert!(run == plain, "{name} {iv} {data_unit}");
            let mut other = vec![0; run.len()];
            mapper.encrypt_to(DataUnitIndex(first), &plain, &mut other).expect("whole units");
            assert!(other == expected, "{name} {iv} {data_unit} between buffers");
        }
    }
}

#[test]
fn what_is_too_short_or_mismatched_is_refused_and_left_alone() {
    let options = MapperOptions::default();
    let cipher = Adiantum::new(Cipher::XChaCha12Aes, &[3; 32], &options).expect("32 bytes");
    let mut short = [7; 15];
    assert_eq!(cipher.encrypt(&[], &mut short), Err(WideBlockError::TooShort { len: 15 }));
    assert_eq!(short, [7; 15]);
    let mismatch = WideBlockError::LengthMismatch { src: 17, dst: 16 };
    let mut dst = [9; 16];
    assert_eq!(cipher.decrypt_to(&[], &[0; 17], &mut dst), Err(mismatch));
    assert_eq!(dst, [9; 16]);
}

#[test]
fn keys_and_ciphers_that_do_not_fit_are_refused() {
    let options = MapperOptions::default();
    for len in (0..80).filter(|len| *len != 32) {
        let refused = Adiantum::new(Cipher::XChaCha20Aes, &vec![1; len], &options).err();
        assert_eq!(refused, Some(KeyError::Length { len }));
    }
    assert!(HPolyC::new(Cipher::Aes, &[1; 32], &options).is_err());
    assert!(atrest_cipher::Xts::new(Cipher::XChaCha12Aes, &[1; 32], &options).is_err());
}
