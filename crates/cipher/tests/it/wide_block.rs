//! Adiantum and HPolyC against their authors' implementation and a reference of our own, on every AES and all vectors, as
//! data units by themselves and in runs.

use crate::random::Random;
use crate::recording::{Start, record};
use crate::reference::wide_block::{self as wide_reference, Design};
#[allow(dead_code, reason = "Xts has no part here")]
use atrest_cipher::{
    Adiantum, AdiantumPlain64, AesCbcEssiv, BackendChoice, Cipher, DataUnitIndex, HPolyC, HPolyCPlain64,
    Hctr2Plain64, KeyError, KeyPlace, Keys, Mapper, MapperOptions, Plain64, RunError, VectorChoice,
    WideBlockError,
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

/// Every AES with all vectors.
fn choices() -> impl Iterator<Item = MapperOptions> {
    VectorChoice::detected().flat_map(|vectors| {
        BackendChoice::detected().map(move |backend| MapperOptions {
            backend: Some(backend),
            vectors: Some(vectors),
            ..MapperOptions::default()
        })
    })
}

/// Both directions, in place and between buffers, on every backend.
macro_rules! agrees {
    ($cipher:ident, $file:literal) => {
        for vector in vectors(include_str!($file)) {
            for options in choices() {
                let cipher = $cipher::new(vector.cipher, &vector.key, &options).expect("32 bytes");
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
    agrees!(Adiantum, "../vectors/adiantum.txt");
}

#[test]
fn hpolyc_agrees_with_its_authors_implementation() {
    agrees!(HPolyC, "../vectors/hpolyc.txt");
}

const CIPHERS: [(Design, &str, Cipher, usize); 4] = [
    (Design::Adiantum, "xchacha12,aes-adiantum", Cipher::XChaCha12Aes, 12),
    (Design::Adiantum, "xchacha20,aes-adiantum", Cipher::XChaCha20Aes, 20),
    (Design::HPolyC, "xchacha12,aes-hpolyc", Cipher::XChaCha12Aes, 12),
    (Design::HPolyC, "xchacha20,aes-hpolyc", Cipher::XChaCha20Aes, 20),
];

/// The tweak of a unit: its number in as many bytes as the kernel's Adiantum has for an IV, and in twelve for HPolyC.
fn tweak(design: Design, iv: &str, number: u64) -> Vec<u8> {
    let mut tweak = vec![0; if design == Design::Adiantum { 32 } else { 12 }];
    let end = tweak.len() - 8;
    match iv {
        "null" => {}
        "plain" => tweak[..4].copy_from_slice(&(number as u32).to_le_bytes()),
        "plain64" => tweak[..8].copy_from_slice(&number.to_le_bytes()),
        "plain64be" => tweak[end..].copy_from_slice(&number.to_be_bytes()),
        "benbi" => tweak[end..].copy_from_slice(&number.wrapping_mul(32).wrapping_add(1).to_be_bytes()),
        other => panic!("no tweak for {other}"),
    }
    tweak
}

/// A run in place and between buffers, both ways, at some offset from alignment, on every choice.
fn check_run(which: usize, iv: &str, data_unit: usize, units: usize, first: u64, noise: &mut Random) {
    let (design, spec, _, rounds) = CIPHERS[which];
    let key = noise.bytes(32);
    let plain = noise.bytes(data_unit * units);
    let shift = noise.index(64);
    let place = shift..shift + plain.len();
    for encrypt in [true, false] {
        let reference = |(i, unit)| {
            let number = first.wrapping_add(i as u64);
            wide_reference::unit(encrypt, design, rounds, &key, &tweak(design, iv, number), unit)
        };
        let wanted: Vec<u8> = plain.chunks(data_unit).enumerate().flat_map(reference).collect();
        let options =
            MapperOptions { data_unit, iv_large: true, iv_offset: first, ..MapperOptions::default() };
        record(&format!("{spec}-{iv}"), &key, &options, Start::Unit(0), encrypt, (&plain, &wanted));
        for choice in choices() {
            let options = MapperOptions { data_unit, iv_large: true, iv_offset: first, ..choice };
            let spec = format!("{spec}-{iv}").parse().expect("a good specification");
            let mapper = Mapper::new(&spec, &key, &options).expect("32 bytes");
            let what = format!("{spec}, {units} units of {data_unit} from {first}, {choice:?}");
            let (mut here, mut other) = (vec![0xa5; plain.len() + 64], vec![0x5a; plain.len() + 64]);
            here[place.clone()].copy_from_slice(&plain);
            let (in_place, between) = (&mut here[place.clone()], &mut other[place.clone()]);
            if encrypt {
                mapper.encrypt(DataUnitIndex(0), in_place).expect(&what);
                mapper.encrypt_to(DataUnitIndex(0), &plain, between).expect(&what);
            } else {
                mapper.decrypt(DataUnitIndex(0), in_place).expect(&what);
                mapper.decrypt_to(DataUnitIndex(0), &plain, between).expect(&what);
            }
            assert!(*in_place == wanted, "in place, encrypt: {encrypt}: {what}");
            assert!(*between == wanted, "between buffers, encrypt: {encrypt}: {what}");
            for (buffer, filler) in [(&here, 0xa5), (&other, 0x5a)] {
                let mut outside = buffer[..place.start].iter().chain(&buffer[place.end..]);
                assert!(outside.all(|byte| *byte == filler), "wrote outside the run: {what}");
            }
        }
    }
}

#[test]
fn runs_agree_with_the_reference_at_every_unit_and_number() {
    let mut noise = Random::new(0x5eed);
    for which in 0..CIPHERS.len() {
        for (data_unit, counts) in [
            (16, &[0, 1, 17, 40][..]),
            (32, &[3, 33]),
            (80, &[1, 2, 16]),
            (144, &[5]),
            (512, &[1, 2, 3, 15, 16, 17, 35]),
            (528, &[7, 18]),
            (1024, &[2, 17]),
            (1040, &[1, 16]),
            (2048, &[1, 9]),
            (4096, &[1, 3, 5]),
            (5008, &[4]),
        ] {
            for units in counts {
                let first = noise.draw();
                check_run(which, "plain64", data_unit, *units, first, &mut noise);
            }
        }
        for iv in ["null", "plain", "plain64be", "benbi"] {
            check_run(which, iv, 512, 3, 1 << 33 | 7, &mut noise);
        }
        check_run(which, "plain64", 512, 5, u64::MAX - 2, &mut noise);
    }
}

#[test]
fn random_units_and_tweaks_of_any_length_agree_with_the_reference() {
    let mut noise = Random::new(0xad1a);
    for round in 0..240 {
        let (design, _, cipher, rounds) = CIPHERS[round % 4];
        let key = noise.bytes(32);
        let len = 16 + if round < 200 { noise.index(300) } else { noise.index(5000) };
        let (tweak_len, plain) = (noise.index(70), noise.bytes(len));
        let tweak = noise.bytes(tweak_len);
        let encrypted = wide_reference::unit(true, design, rounds, &key, &tweak, &plain);
        let decrypted = wide_reference::unit(false, design, rounds, &key, &tweak, &plain);
        for options in choices() {
            let what = format!("{design:?} {rounds}, {len} bytes, tweak of {tweak_len}, {options:?}");
            let (mut there, mut back) = (plain.clone(), plain.clone());
            if design == Design::Adiantum {
                let cipher = Adiantum::new(cipher, &key, &options).expect("32 bytes");
                cipher.encrypt(&tweak, &mut there).expect("long enough");
                cipher.decrypt(&tweak, &mut back).expect("long enough");
            } else {
                let cipher = HPolyC::new(cipher, &key, &options).expect("32 bytes");
                cipher.encrypt(&tweak, &mut there).expect("long enough");
                cipher.decrypt(&tweak, &mut back).expect("long enough");
            }
            assert!(there == encrypted, "encrypt: {what}");
            assert!(back == decrypted, "decrypt: {what}");
        }
    }
}

/// Bulk and keys of all ones and zeros drive the hash's sums to where they wrap.
#[test]
fn extreme_bytes_agree_with_the_reference() {
    for (design, _, cipher, rounds) in CIPHERS {
        for (key, byte) in [(0, 0), (0, 0xff), (0xff, 0), (0xff, 0xff)] {
            let (key, plain) = ([key; 32], vec![byte; 1536]);
            let wanted = wide_reference::unit(true, design, rounds, &key, &[byte; 32], &plain);
            for options in choices() {
                let mut unit = plain.clone();
                if design == Design::Adiantum {
                    let cipher = Adiantum::new(cipher, &key, &options).expect("32 bytes");
                    cipher.encrypt(&[byte; 32], &mut unit).expect("long enough");
                } else {
                    let cipher = HPolyC::new(cipher, &key, &options).expect("32 bytes");
                    cipher.encrypt(&[byte; 32], &mut unit).expect("long enough");
                }
                assert!(unit == wanted, "{design:?} {rounds} {byte} {options:?}");
            }
        }
    }
}

#[test]
fn vectors_are_found_by_their_names_and_tell_the_backend() {
    for vectors in VectorChoice::detected() {
        assert_eq!(VectorChoice::named(vectors.name()), Some(vectors));
        let options = MapperOptions { vectors: Some(vectors), ..MapperOptions::default() };
        let cipher = Adiantum::new(Cipher::XChaCha12Aes, &[1; 32], &options).expect("32 bytes");
        assert_eq!(cipher.backend_name(), vectors.name());
    }
    assert_eq!(VectorChoice::named("abacus"), None);
    assert_eq!(VectorChoice::detected().next(), Some(VectorChoice::best()));
    assert_eq!(VectorChoice::detected().last(), Some(VectorChoice::portable()));
    let options = MapperOptions { backend: Some(BackendChoice::portable()), ..MapperOptions::default() };
    let cipher = Adiantum::new(Cipher::XChaCha12Aes, &[1; 32], &options).expect("32 bytes");
    assert_eq!(cipher.backend_name(), "portable");
}

/// [`Plain64`] against the mapper of that name, the key expanded in place and moved.
fn check_alone<K: Keys>(mut place: KeyPlace<Plain64<K>>, spec: &str) {
    let mut noise = Random::new(3);
    let spec = spec.parse().expect("a good specification");
    for (data_unit, units) in [(16, 5), (512, 11), (4096, 3), (528, 9)] {
        let key = noise.bytes(32);
        let options = MapperOptions { data_unit, iv_offset: 9, ..MapperOptions::default() };
        let mapper = Mapper::new(&spec, &key, &options).expect("32 bytes");
        let alone = place.expand(&key, &options).expect("32 bytes");
        let plain = noise.bytes(data_unit * units);
        let first = DataUnitIndex(noise.draw());
        let (mut ours, mut theirs) = (plain.clone(), plain.clone());
        alone.encrypt(first, &mut ours).expect("whole units");
        mapper.encrypt(first, &mut theirs).expect("whole units");
        assert!(ours == theirs, "{spec}, {units} units of {data_unit}");
        let moved = Plain64::<K>::new(&key, &options).expect("32 bytes");
        moved.decrypt(first, &mut ours).expect("whole units");
        assert!(ours == plain, "{spec}, {units} units of {data_unit}");
    }
    let options = MapperOptions::default();
    let refused = |key: &[u8]| Plain64::<K>::new(key, &options).map(drop).err();
    assert_eq!(refused(&[1; 31]), Some(KeyError::Length { len: 31 }));
    assert_eq!(refused(&[1; 33]), Some(KeyError::Length { len: 33 }));
    let alone = place.expand(&[1; 32], &options).expect("32 bytes");
    let partial = RunError::PartialDataUnit { len: 511, data_unit: 512 };
    assert_eq!(alone.encrypt(DataUnitIndex(0), &mut [0; 511]), Err(partial));
}

#[test]
fn a_cipher_alone_gives_the_bytes_of_the_mapper() {
    check_alone(KeyPlace::<AdiantumPlain64<12>>::empty(), "xchacha12,aes-adiantum-plain64");
    check_alone(KeyPlace::<AdiantumPlain64<20>>::empty(), "xchacha20,aes-adiantum-plain64");
    check_alone(KeyPlace::<HPolyCPlain64<12>>::empty(), "xchacha12,aes-hpolyc-plain64");
    check_alone(KeyPlace::<HPolyCPlain64<20>>::empty(), "xchacha20,aes-hpolyc-plain64");
    check_alone(KeyPlace::<Hctr2Plain64>::empty(), "aes-hctr2-plain64");
    check_alone(KeyPlace::<AesCbcEssiv>::empty(), "aes-cbc-essiv:sha256");
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
