//! CBC with IVs from the caller: CAST6 against RFC 2612, every cipher against the mapper (which kernels judge) where that has
//! the cipher, and against chains of single blocks.

use crate::emulated::sample;
use crate::random::Random;
use atrest_cipher::{
    BackendChoice, CbcCipher, CbcRuns, CbcRunsError, CipherSpec, DataUnitIndex, KeyError, Mapper,
    MapperOptions,
};

const CIPHERS: [(CbcCipher, &str, &[usize]); 8] = [
    (CbcCipher::Aes, "aes-cbc-plain64", &[16, 24, 32]),
    (CbcCipher::Serpent, "serpent-cbc-plain64", &[16, 32]),
    (CbcCipher::Twofish, "twofish-cbc-plain64", &[16, 24, 32]),
    (CbcCipher::Cast6, "", &[16, 20, 24, 28, 32]),
    (CbcCipher::Blowfish, "blowfish-cbc-plain64", &[16, 56]),
    (CbcCipher::BlowfishLe, "", &[16, 56]),
    (CbcCipher::Cast5, "cast5-cbc-plain64", &[5, 16]),
    (CbcCipher::Des3Ede, "des3_ede-cbc-plain64", &[24]),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |d: u8| (d as char).to_digit(16).expect("a hexadecimal digit") as u8;
    hex.as_bytes().as_chunks().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    Random::new(seed).bytes(len)
}

/// Source: RFC 2612, Appendix A.
#[test]
fn cast6_agrees_with_rfc_2612() {
    for (key, encrypted) in [
        ("2342bb9efa38542c0af75647f29f615d", "c842a08972b43d20836c91d1b7530f6b"),
        ("2342bb9efa38542cbed0ac83940ac298bac77a7717942863", "1b386c0210dcadcbdd0e41aa08a7a7e8"),
        (
            "2342bb9efa38542cbed0ac83940ac2988d7c47ce264908461cc1b5137ae6b604",
            "4f6a2038286897b9c9870136553317fa",
        ),
    ] {
        let cast6 = CbcRuns::new(CbcCipher::Cast6, &bytes(key), 16, None).expect("a good key");
        let mut block = [0; 16];
        cast6.encrypt(&[[0; 16]], &mut block).expect("one unit");
        assert_eq!(block[..], bytes(encrypted));
        cast6.decrypt_blocks(&mut block).expect("one block");
        assert_eq!(block, [0; 16]);
    }
}

/// With the IVs that the mapper makes, the same bytes as the mapper's, for runs around every width of a batch.
#[test]
fn with_numbers_for_ivs_it_is_what_the_mapper_does() {
    let mut chosen = sample();
    for (cipher, name, key_lens) in CIPHERS.into_iter().filter(|(_, name, _)| !name.is_empty()) {
        let spec: CipherSpec = name.parse().expect("a specification");
        let backends: Vec<_> = match cipher {
            CbcCipher::Aes => BackendChoice::detected().map(Some).collect(),
            _ => vec![None],
        };
        for (key_len, backend) in key_lens.iter().flat_map(|len| backends.iter().map(move |b| (*len, *b))) {
            let key = noise(key_len, 7);
            let options = MapperOptions { data_unit: 4096, iv_large: true, backend, ..Default::default() };
            let mapper = Mapper::new(&spec, &key, &options).expect("a good key");
            let runs = CbcRuns::new(cipher, &key, 4096, backend).expect("a good key");
            for units in [1, 2, 3, 8, 9, 31, 33, 70].into_iter().filter(|_| chosen()) {
                let first = 0x1_2345_6789;
                let ivs: Vec<[u8; 16]> =
                    (0..units as u64).map(|i| u128::from(first + i).to_le_bytes()).collect();
                let plain = noise(units * 4096, 9);
                let mut expected = plain.clone();
                mapper.encrypt(DataUnitIndex(first), &mut expected).expect("whole units");
                let what = format!("{name}, {units} units, {}", mapper.backend_name());
                let mut encrypted = vec![0; plain.len()];
                runs.encrypt_to(&ivs, &plain, &mut encrypted).expect("whole units");
                assert!(encrypted == expected, "{what}");
                let mut back = vec![0; plain.len()];
                runs.decrypt_to(&ivs, &encrypted, &mut back).expect("whole units");
                assert!(back == plain, "{what}");
                runs.decrypt(&ivs, &mut encrypted).expect("whole units");
                assert!(encrypted == plain, "{what}");
            }
        }
    }
}

/// IVs that no rule makes: each unit is a chain of single blocks that begins with its own IV.
#[test]
fn each_unit_is_a_chain_of_blocks_that_begins_with_its_iv() {
    for (cipher, _, key_lens) in CIPHERS {
        for (key_len, units) in key_lens.iter().flat_map(|len| [1, 5, 40].map(|units| (*len, units))) {
            let runs = CbcRuns::new(cipher, &noise(key_len, 3), 64, None).expect("a good key");
            let flat = noise(units * 16, 5);
            let ivs = flat.as_chunks::<16>().0;
            let mut run = noise(units * 64, 4);
            let mut expected = run.clone();
            for (unit, iv) in expected.chunks_mut(64).zip(ivs) {
                let mut previous = iv[..cipher.block_len()].to_vec();
                for block in unit.chunks_mut(cipher.block_len()) {
                    block.iter_mut().zip(&previous).for_each(|(byte, mask)| *byte ^= mask);
                    runs.encrypt_blocks(block).expect("one block");
                    previous = block.to_vec();
                }
            }
            runs.encrypt(ivs, &mut run).expect("whole units");
            assert!(run == expected, "{cipher:?}, {key_len} bytes of key, {units} units");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_and_left_alone() {
    let error = |key: usize, unit| CbcRuns::new(CbcCipher::Aes, &noise(key, 1), unit, None).err();
    assert_eq!(error(17, 16), Some(KeyError::Length { len: 17 }));
    assert_eq!(error(16, 24), Some(KeyError::DataUnit { len: 24 }));
    let runs = CbcRuns::new(CbcCipher::Aes, &noise(16, 1), 32, None).expect("a good key");
    let mut run = noise(64, 2);
    let before = run.clone();
    assert_eq!(
        runs.encrypt(&[[0; 16]; 3], &mut run),
        Err(CbcRunsError::Length { len: 64, ivs: 3, data_unit: 32 })
    );
    assert_eq!(runs.decrypt_blocks(&mut run[..17]), Err(CbcRunsError::PartialBlock { len: 17 }));
    assert_eq!(
        runs.decrypt_to(&[[0; 16]; 2], &before, &mut run[..32]),
        Err(CbcRunsError::LengthMismatch { src: 64, dst: 32 })
    );
    assert_eq!(run, before);
}
