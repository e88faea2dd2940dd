//! ChaCha alone against its publications and the reference, with every kind of vectors.

use crate::random::Random;
use crate::reference::wide_block as wide_reference;
use atrest_cipher::{
    BackendChoice, CipherSpec, DataUnitIndex, KeyError, Mapper, MapperOptions, RunError, SpecError,
    VectorChoice,
};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let digit = |d: u8| (d as char).to_digit(16).expect("a hexadecimal digit") as u8;
    digits.as_chunks().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    Random::new(seed).bytes(len)
}

fn mapper(spec: &str, key: &[u8], options: MapperOptions) -> Mapper {
    let options = MapperOptions { single_snapshot: true, ..options };
    Mapper::new(&spec.parse().expect(spec), key, &options).expect(spec)
}

/// The first `keystream` bytes of some unit's keystream, after `skipped` bytes.
fn check(spec: &str, key: &[u8], number: u64, skipped: usize, keystream: &[u8]) {
    let data_unit = (skipped + keystream.len()).next_multiple_of(16);
    for vectors in VectorChoice::detected() {
        let options = MapperOptions { data_unit, vectors: Some(vectors), ..MapperOptions::default() };
        let mut unit = vec![0; data_unit];
        mapper(spec, key, options).encrypt(DataUnitIndex(number), &mut unit).expect("a whole unit");
        assert_eq!(unit[skipped..][..keystream.len()], *keystream, "{spec} with {}", vectors.name());
    }
}

/// Source: RFC 8439, 2.4.2, whose counter starts with 1 and whose nonce is 00…00 4a 00 00 00 00.
#[test]
fn chacha20_encrypts_what_rfc_8439_does() {
    let key: Vec<u8> = (0..32).collect();
    let text = b"Ladies and Gentlemen of the class of '99: \
        If I could offer you only one tip for the future, sunscreen would be it.";
    let published = bytes(
        "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b
        f91b65c5524733ab8f593dabcd62b3571639d624e65152ab8f530c359f0861d8
        07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736
        5af90bbf74a35be6b40b8eedf2785e42874d",
    );
    let keystream: Vec<u8> = published.iter().zip(text).map(|(a, b)| a ^ b).collect();
    check("chacha20-stream-plain64", &key, 0x4a00_0000, 64, &keystream);
    // The kernel's layout, by the rule that puts the number into the nonce: big-endian, so the bytes turn round.
    check("capi:chacha20-plain64be", &key, 0x4a << 32, 64, &keystream);
    check("chacha20-stream-plain64be", &key, 0x4a << 32, 64, &keystream);
}

/// Source: draft-strombergson-chacha-test-vectors-01, TC1 and TC3 with keys of 256 bits.
#[test]
fn both_ciphers_agree_with_the_draft_of_vectors_for_chacha() {
    let zeros = [0; 32];
    let twelve = bytes(
        "9bf49a6a0755f953811fce125f2683d50429c3bb49e074147e0089a52eae155f
        0564f879d27ae3c02ce82834acfa8c793a629f2ca0de6919610be82f411326be
        0bd58841203e74fe86fc71338ce0173dc628ebb719bdcbcc151585214cc089b4
        42258dcda14cf111c602b8971b8cc843e91e46ca905151c02744a6b017e69316",
    );
    let twenty = bytes(
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7
        da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586
        9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed
        29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    );
    check("chacha12-stream-plain64", &zeros, 0, 0, &twelve);
    check("chacha20-stream-plain64", &zeros, 0, 0, &twenty);
    // TC2: one bit of the key.
    let mut key = zeros;
    key[0] = 1;
    let twelve = bytes(
        "12056e595d56b0f6eef090f0cd25a20949248c2790525d0f930218ff0b4ddd10
        a6002239d9a454e29e107a7d06fefdfef0210feba044f9f29b1772c960dc29c0",
    );
    check("chacha12-stream-plain64", &key, 0, 0, &twelve);
}

#[test]
fn runs_agree_with_the_reference_at_every_unit_and_number_with_all_vectors() {
    for (spec, rounds, big_endian) in [
        ("chacha12-stream-plain64", 12, false),
        ("chacha20-stream-plain64", 20, false),
        ("capi:chacha20-plain64be", 20, true),
        ("capi:chacha12-plain64be", 12, true),
    ] {
        for (data_unit, units) in [
            (16, 1),
            (16, 40),
            (48, 17),
            (64, 33),
            (80, 16),
            (144, 5),
            (512, 1),
            (512, 35),
            (528, 18),
            (1024, 17),
            (4096, 3),
            (5008, 2),
        ] {
            let key = noise(data_unit as u64, 32);
            let data = noise(7, data_unit * units);
            for first in [0, 1 << 40 | 9, u64::MAX - 2] {
                let wanted: Vec<u8> = data
                    .chunks(data_unit)
                    .enumerate()
                    .flat_map(|(i, unit)| {
                        let number = first.wrapping_add(i as u64);
                        let nonce = if big_endian { number.to_be_bytes() } else { number.to_le_bytes() };
                        wide_reference::chacha_stream(rounds, &key, nonce, unit)
                    })
                    .collect();
                for vectors in VectorChoice::detected() {
                    let options = MapperOptions {
                        data_unit,
                        iv_large: true,
                        iv_offset: first,
                        vectors: Some(vectors),
                        ..MapperOptions::default()
                    };
                    let mapper = mapper(spec, &key, options);
                    let what = format!("{spec}, {units} units of {data_unit}, {}", vectors.name());
                    assert_eq!(mapper.backend_name(), vectors.name());
                    let shift = units % 16;
                    let place = shift..shift + data.len();
                    let mut here = vec![0xa5; data.len() + 16];
                    here[place.clone()].copy_from_slice(&data);
                    mapper.encrypt(DataUnitIndex(0), &mut here[place.clone()]).expect(&what);
                    assert!(here[place.clone()] == wanted, "in place: {what}");
                    let outside = here[..place.start].iter().chain(&here[place.end..]);
                    assert!(outside.into_iter().all(|byte| *byte == 0xa5), "wrote outside the run: {what}");
                    let mut other = vec![0x5a; data.len()];
                    mapper.decrypt_to(DataUnitIndex(0), &wanted, &mut other).expect(&what);
                    assert!(other == data, "between buffers: {what}");
                }
            }
        }
    }
}

#[test]
fn a_stream_cipher_is_for_a_single_snapshot() {
    for name in ["chacha12-stream-plain64", "chacha20-stream-plain64", "capi:chacha20-plain64be"] {
        let spec: CipherSpec = name.parse().expect(name);
        assert!(spec.is_single_snapshot(), "{name}");
        assert_eq!(spec.key_lens(), [32], "{name}");
        let reader = Mapper::new(&spec, &[1; 32], &MapperOptions::default()).expect("a good key");
        let mut data = [9; 512];
        assert_eq!(reader.encrypt(DataUnitIndex(0), &mut data), Err(RunError::SingleSnapshot));
        assert_eq!(data, [9; 512], "nothing was written");
        reader.decrypt(DataUnitIndex(0), &mut data).expect("reading is free");
        assert_eq!(
            Mapper::new(&spec, &[1; 16], &MapperOptions::default()).err(),
            Some(KeyError::Length { len: 16 })
        );
        assert!(reader.is_constant_time());
    }
}

/// In the kernel's form the first bytes of the IV count blocks of keystream: with `plain64` there, sector n starts where
/// block n of any other is, and neighbours share all but 64 bytes of their keystream.
#[test]
fn rules_that_would_use_a_keystream_twice_are_refused() {
    for spec in [
        "capi:chacha20-plain64",
        "capi:chacha20-plain",
        "capi:chacha20-null",
        "capi:chacha12-benbi",
        "chacha20-stream-null",
        "chacha20-stream-plain",
        "chacha12-stream-benbi",
    ] {
        assert_eq!(spec.parse::<CipherSpec>(), Err(SpecError::Keystream), "{spec}");
    }
}

#[test]
fn the_portable_backend_takes_no_vectors_along() {
    let options = MapperOptions { backend: Some(BackendChoice::portable()), ..MapperOptions::default() };
    assert_eq!(mapper("chacha12-stream-plain64", &[2; 32], options).backend_name(), "portable");
}
