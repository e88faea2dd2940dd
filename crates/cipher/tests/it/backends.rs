//! Every backend against the reference, over awkward lengths, alignments and run positions.

use crate::emulated::sample;
use crate::random::Random;
use crate::recording::{Start, record};
use crate::reference;
use atrest_cipher::{
    BackendChoice, Cipher, CipherSpec, DataUnitIndex, KeyError, Mapper, MapperOptions, RunError,
    VectorChoice, Xts, XtsError,
};

fn mapper(spec: &str, key: &[u8], options: &MapperOptions) -> Mapper {
    Mapper::new(&spec.parse().expect(spec), key, options).expect(spec)
}

/// What the reference makes of a run of units.
fn expected(
    encrypt: bool,
    (cipher, mode, iv): (&str, &str, &str),
    key: &[u8],
    (first, step, data_unit): (u64, u64, usize),
    run: &[u8],
) -> Vec<u8> {
    let units = run.chunks(data_unit).enumerate();
    let number = |i: usize| first.wrapping_add(step.wrapping_mul(i as u64));
    units
        .flat_map(|(i, unit)| {
            let iv = reference::iv(iv, cipher, key, number(i));
            reference::unit(encrypt, cipher, mode, key, iv, unit)
        })
        .collect()
}

fn parts(spec: &str) -> (&str, &str, &str) {
    let mut parts = spec.splitn(3, '-');
    (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap_or(""))
}

/// In place and from buffer to buffer, both ways, at some offset from alignment.
fn check(spec: &str, key: &[u8], options: &MapperOptions, first: u64, units: usize, noise: &mut Random) {
    let mapper = mapper(spec, key, options);
    let step = if options.iv_large { 1 } else { (options.data_unit / 512).max(1) as u64 };
    let number = options.iv_offset.wrapping_add(first.wrapping_mul(step));
    let what = format!("{spec} on {} with {options:?}, {units} units from {first}", mapper.backend_name());
    let plain = noise.bytes(options.data_unit * units);
    let shift = noise.index(16);
    let place = shift..shift + plain.len();
    for encrypt in [true, false] {
        let wanted = expected(encrypt, parts(spec), key, (number, step, options.data_unit), &plain);
        if options.backend == Some(BackendChoice::portable()) {
            record(spec, key, options, Start::Unit(first), encrypt, (&plain, &wanted));
        }
        let mut in_place = vec![0xa5; plain.len() + 32];
        in_place[place.clone()].copy_from_slice(&plain);
        let mut other = vec![0x5a; plain.len() + 32];
        if encrypt {
            mapper.encrypt(DataUnitIndex(first), &mut in_place[place.clone()]).expect(&what);
            mapper.encrypt_to(DataUnitIndex(first), &plain, &mut other[place.clone()]).expect(&what);
        } else {
            mapper.decrypt(DataUnitIndex(first), &mut in_place[place.clone()]).expect(&what);
            mapper.decrypt_to(DataUnitIndex(first), &plain, &mut other[place.clone()]).expect(&what);
        }
        assert!(in_place[place.clone()] == wanted, "in place, encrypt: {encrypt}: {what}");
        assert!(other[place.clone()] == wanted, "between buffers, encrypt: {encrypt}: {what}");
        for (buffer, filler) in [(&in_place, 0xa5), (&other, 0x5a)] {
            let outside = buffer[..place.start].iter().chain(&buffer[place.end..]);
            assert!(outside.into_iter().all(|b| *b == filler), "wrote outside the run: {what}");
        }
    }
}

const AES_SPECS: [(&str, &[usize]); 10] = [
    ("aes-xts-plain64", &[32, 48, 64]),
    ("aes-xts-plain", &[64]),
    ("aes-xts-essiv:sha256", &[32, 64]),
    ("aes-xts-benbi", &[32]),
    ("aes-cbc-plain64be", &[16, 24, 32]),
    ("aes-cbc-essiv:sha256", &[16, 32]),
    ("aes-cbc-null", &[32]),
    ("aes-lrw-benbi", &[32, 40, 48]),
    ("aes-lrw-plain64", &[32]),
    ("aes-ecb", &[16, 24, 32]),
];

#[test]
fn every_backend_agrees_with_the_reference_on_every_mode_and_awkward_lengths() {
    let mut noise = Random::new(0x1234_5678_9abc_def1);
    let mut chosen = sample();
    for backend in BackendChoice::detected() {
        for (spec, key_lens) in AES_SPECS {
            for key_len in key_lens {
                let key = noise.bytes(*key_len);
                for data_unit in [16, 48, 64, 112, 128, 144, 240, 512, 528, 4096] {
                    if !chosen() {
                        continue;
                    }
                    // Around the numbers of units that backends take together. Of long units few: what matters there
                    // is the border between two of them.
                    let counts = match data_unit {
                        ..500 => &[0, 1, 2, 3, 7, 8, 9, 16, 19, 31, 33, 64][..],
                        512 => &[1, 2, 9, 17, 34],
                        528 => &[1, 2, 9, 33],
                        _ => &[1, 2, 9],
                    };
                    for units in counts.iter().copied() {
                        let options = MapperOptions {
                            data_unit,
                            backend: Some(backend),
                            iv_large: noise.below(2) == 0,
                            ..MapperOptions::default()
                        };
                        let first = noise.below(1000);
                        check(spec, &key, &options, first, units, &mut noise);
                    }
                }
            }
        }
    }
}

#[test]
fn every_backend_agrees_with_the_reference_where_numbers_wrap() {
    let mut noise = Random::new(77);
    let mut chosen = sample();
    for backend in BackendChoice::detected() {
        for spec in
            ["aes-xts-plain64", "aes-xts-plain", "aes-xts-benbi", "aes-xts-plain64be", "aes-lrw-benbi"]
        {
            let key = noise.bytes(32);
            for (iv_offset, first) in [
                (0, (1 << 32) - 4),
                ((1 << 32) - 4, 0),
                (u64::MAX - 2, 1),
                (3, u64::MAX - 4),
                (0, (1 << 59) - 3),
                (7, 1 << 63),
            ] {
                for data_unit in [512, 4096].into_iter().filter(|_| chosen()) {
                    let options = MapperOptions {
                        data_unit,
                        iv_offset,
                        backend: Some(backend),
                        ..MapperOptions::default()
                    };
                    check(spec, &key, &options, first, 9, &mut noise);
                }
            }
        }
    }
}

#[test]
fn the_other_ciphers_agree_with_the_reference_in_every_mode() {
    let mut noise = Random::new(4);
    for cipher in ["serpent", "twofish", "camellia", "kuznyechik", "speck128", "noekeon"] {
        for (mode, key_lens) in [
            ("xts-plain64", &[32, 48, 64][..]),
            (if cipher == "noekeon" { "cbc-plain64be" } else { "cbc-essiv:sha256" }, &[16, 24, 32]),
            ("cbc-plain", &[16, 32]),
            ("lrw-benbi", &[32, 40, 48]),
            ("ecb", &[16, 24, 32]),
        ] {
            // NOEKEON has one length only, the shortest, and Kuznyechik the longest.
            let key_lens = match cipher {
                "noekeon" => &key_lens[..1],
                "kuznyechik" => &key_lens[key_lens.len() - 1..],
                _ => key_lens,
            };
            for key_len in key_lens {
                let key = noise.bytes(*key_len);
                // The last is 64 blocks and a few that are left.
                for (data_unit, units) in [(512, 3), (48, 9), (16 * 67, 1)] {
                    // These have code for some kinds of vectors.
                    let kinds =
                        if matches!(cipher, "serpent" | "twofish" | "camellia") { usize::MAX } else { 1 };
                    for vectors in VectorChoice::detected().take(kinds) {
                        let options =
                            MapperOptions { data_unit, vectors: Some(vectors), ..MapperOptions::default() };
                        check(&format!("{cipher}-{mode}"), &key, &options, 5, units, &mut noise);
                    }
                }
            }
        }
    }
}

#[test]
fn random_runs_agree_between_all_backends() {
    let mut noise = Random::new(0xfeed);
    for _ in 0..300 {
        let (spec, key_lens) = *noise.pick(&AES_SPECS);
        let key_len = *noise.pick(key_lens);
        let key = noise.bytes(key_len);
        let data_unit = 16 * (1 + noise.index(80));
        let units = noise.index(40);
        let first = DataUnitIndex(noise.draw());
        let plain = noise.bytes(data_unit * units);
        let mut results = BackendChoice::detected().map(|backend| {
            let options = MapperOptions { data_unit, backend: Some(backend), ..MapperOptions::default() };
            let mapper = mapper(spec, &key, &options);
            let mut encrypted = plain.clone();
            mapper.encrypt(first, &mut encrypted).expect("whole units");
            let mut decrypted = plain.clone();
            mapper.decrypt(first, &mut decrypted).expect("whole units");
            let mut back = encrypted.clone();
            mapper.decrypt(first, &mut back).expect("whole units");
            assert!(back == plain, "{spec} on {} does not come back", mapper.backend_name());
            (encrypted, decrypted)
        });
        let first_result = results.next().expect("the portable backend is always there");
        assert!(results.all(|result| result == first_result), "{spec}, {units} units of {data_unit} bytes");
    }
}

#[test]
fn xts_with_stealing_agrees_with_the_reference_at_every_length() {
    let mut noise = Random::new(9);
    for backend in BackendChoice::detected() {
        for key_len in [32, 48, 64] {
            let key = noise.bytes(key_len);
            let options = MapperOptions { backend: Some(backend), ..MapperOptions::default() };
            let xts = Xts::new(Cipher::Aes, &key, &options).expect("a good key");
            for len in (16..=300).chain([511, 513, 4095, 4097, 5003]) {
                let tweak: [u8; 16] = noise.bytes(16).try_into().expect("16 bytes");
                let plain = noise.bytes(len);
                let wanted = reference::unit(true, "aes", "xts", &key, tweak, &plain);
                if backend == BackendChoice::portable() {
                    record("aes", &key, &options, Start::Tweak(tweak), true, (&plain, &wanted));
                    record("aes", &key, &options, Start::Tweak(tweak), false, (&wanted, &plain));
                }
                let mut data = plain.clone();
                xts.encrypt(&tweak, &mut data).expect("long enough");
                assert!(data == wanted, "{} {len}", xts.backend_name());
                xts.decrypt(&tweak, &mut data).expect("long enough");
                assert!(data == plain, "{} {len}", xts.backend_name());
                let mut other = vec![0; len];
                xts.encrypt_to(&tweak, &plain, &mut other).expect("long enough");
                assert!(other == wanted, "{} {len}", xts.backend_name());
                xts.decrypt_to(&tweak, &wanted, &mut other).expect("long enough");
                assert!(other == plain, "{} {len}", xts.backend_name());
            }
        }
    }
}

#[test]
fn what_xts_cannot_encrypt_is_refused_and_left_alone() {
    let key: Vec<u8> = (0..32).collect();
    let xts = Xts::new(Cipher::Aes, &key, &MapperOptions::default()).expect("a good key");
    let mut short = [7; 15];
    assert_eq!(xts.encrypt(&[0; 16], &mut short), Err(XtsError::TooShort { len: 15 }));
    assert_eq!(short, [7; 15]);
    let mismatch = XtsError::LengthMismatch { src: 17, dst: 16 };
    assert_eq!(xts.decrypt_to(&[0; 16], &[0; 17], &mut [0; 16]), Err(mismatch));
}

#[test]
fn a_run_that_is_not_whole_data_units_is_refused_and_left_alone() {
    let key: Vec<u8> = (0..64).collect();
    let options = MapperOptions { data_unit: 1024, ..MapperOptions::default() };
    let mapper = mapper("aes-xts-plain64", &key, &options);
    let mut run = [1; 1536];
    let partial = RunError::PartialDataUnit { len: 1536, data_unit: 1024 };
    assert_eq!(mapper.encrypt(DataUnitIndex(0), &mut run), Err(partial));
    assert_eq!(run, [1; 1536]);
    let mismatch = RunError::LengthMismatch { src: 1024, dst: 2048 };
    assert_eq!(mapper.decrypt_to(DataUnitIndex(0), &[0; 1024], &mut [0; 2048]), Err(mismatch));
}

#[test]
fn equal_xts_halves_are_refused_unless_reading_asks_for_them() {
    let spec: CipherSpec = "aes-xts-plain64".parse().expect("a good specification");
    let refused = Mapper::new(&spec, &[3; 64], &MapperOptions::default());
    assert_eq!(refused.err(), Some(KeyError::EqualXtsHalves));
    let options = MapperOptions { allow_equal_xts_halves: true, ..MapperOptions::default() };
    let mut noise = Random::new(1);
    check("aes-xts-plain64", &[3; 64], &options, 0, 4, &mut noise);
}

#[test]
fn keys_and_data_units_of_a_wrong_size_are_refused() {
    let options = MapperOptions::default();
    for (spec, good) in [
        ("aes-xts-plain64", &[32, 48, 64][..]),
        ("aes-cbc-plain", &[16, 24, 32]),
        ("serpent-lrw-benbi", &[32, 40, 48]),
        ("camellia-ecb", &[16, 24, 32]),
        ("kuznyechik-xts-plain64", &[64]),
        ("kuznyechik-cbc-plain", &[32]),
        ("kuznyechik-lrw-benbi", &[48]),
    ] {
        let parsed: CipherSpec = spec.parse().expect(spec);
        assert_eq!(parsed.key_lens(), good, "{spec}");
        for len in 0..100 {
            let key: Vec<u8> = (0..len as u8).collect();
            let made = Mapper::new(&parsed, &key, &options);
            assert_eq!(parsed.key_len_is_valid(len), good.contains(&len), "{spec} {len}");
            assert_eq!(
                made.err(),
                (!good.contains(&len)).then_some(KeyError::Length { len }),
                "{spec} {len}"
            );
        }
    }
    let spec: CipherSpec = "aes-cbc-plain".parse().expect("a good specification");
    for data_unit in [0, 8, 15, 17, 520] {
        let options = MapperOptions { data_unit, ..options };
        let refused = Mapper::new(&spec, &[0; 16], &options).err();
        assert_eq!(refused, Some(KeyError::DataUnit { len: data_unit }));
    }
}

#[test]
fn the_null_cipher_gets_no_mapper() {
    let spec: CipherSpec = "cipher_null-ecb".parse().expect("a good specification");
    assert_eq!(Mapper::new(&spec, &[0; 32], &MapperOptions::default()).err(), Some(KeyError::NullCipher));
}

#[test]
fn mappers_can_be_shared_and_sent_and_say_nothing_of_their_keys() {
    fn shared<T: Send + Sync>(_: &T) {}
    let key: Vec<u8> = (100..164).collect();
    let mapper = mapper("aes-xts-plain64", &key, &MapperOptions::default());
    shared(&mapper);
    assert_eq!(
        format!("{mapper:?}"),
        format!("Mapper {{ backend: {:?}, data_unit: 512, .. }}", mapper.backend_name())
    );
}

#[test]
fn constant_time_is_claimed_for_ciphers_without_tables_only() {
    for (cipher, claimed) in [
        ("aes", true),
        ("serpent", true),
        ("speck128", true),
        ("noekeon", true),
        ("twofish", false),
        ("camellia", false),
        ("kuznyechik", false),
    ] {
        let key: Vec<u8> = (0..if cipher == "kuznyechik" { 32 } else { 16 }).collect();
        let mapper = mapper(&format!("{cipher}-cbc-plain64"), &key, &MapperOptions::default());
        assert_eq!(mapper.is_constant_time(), claimed, "{cipher}");
        let spec: CipherSpec = format!("{cipher}-cbc-plain64").parse().expect(cipher);
        assert_eq!(spec.is_constant_time(), claimed, "{cipher}");
    }
}

#[test]
fn backends_are_found_by_their_names() {
    for backend in BackendChoice::detected() {
        assert_eq!(BackendChoice::named(backend.name()), Some(backend));
    }
    assert_eq!(BackendChoice::named("abacus"), None);
    assert_eq!(BackendChoice::detected().next(), Some(BackendChoice::best()));
    assert_eq!(BackendChoice::detected().last(), Some(BackendChoice::portable()));
}
