//! dm-crypt's rules that use parts of the key or touch the data, several keys in turn, CTR, and ciphers with short
//! blocks: every backend against the reference. (The kernel itself is asked in testkit's `kernel/dmcrypt.rs`.)

use crate::emulated::sample;
use crate::random::Random;
use crate::recording::{Start, record};
use crate::reference;
use crate::reference::dm_crypt::{cbc_unit, ctr_unit};
#[allow(dead_code, reason = "Xts has no part here")]
use atrest_cipher::{BackendChoice, CipherSpec, DataUnitIndex, KeyError, Mapper, MapperOptions, RunError};

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    Random::new(seed).bytes(len)
}

/// What the mapper makes of a run, in place and between buffers, both ways, must be what the reference makes of each
/// unit. The reference gets the direction, the index of the unit in the run, and the unit.
fn check(
    spec: &str,
    key: &[u8],
    options: &MapperOptions,
    (first, units): (u64, usize),
    reference: impl Fn(bool, u64, &[u8]) -> Vec<u8>,
) {
    for backend in BackendChoice::detected() {
        let options = MapperOptions { backend: Some(backend), single_snapshot: true, ..*options };
        let parsed: CipherSpec = spec.parse().expect(spec);
        let mapper = Mapper::new(&parsed, key, &options).expect(spec);
        let data = bytes(first + units as u64, units * options.data_unit);
        let what =
            format!("{spec} on {} with {options:?}, {units} units from {first}", mapper.backend_name());
        for encrypt in [true, false] {
            let wanted: Vec<u8> = data
                .chunks(options.data_unit)
                .zip(0..)
                .flat_map(|(unit, i)| reference(encrypt, i, unit))
                .collect();
            // Where the cipher is a library's, a backend has no part.
            if backend == BackendChoice::portable() && spec.starts_with("aes") {
                record(spec, key, &options, Start::Unit(first), encrypt, (&data, &wanted));
            }
            let (mut in_place, mut other) = (data.clone(), vec![0; data.len()]);
            if encrypt {
                mapper.encrypt(DataUnitIndex(first), &mut in_place).expect(&what);
                mapper.encrypt_to(DataUnitIndex(first), &data, &mut other).expect(&what);
            } else {
                mapper.decrypt(DataUnitIndex(first), &mut in_place).expect(&what);
                mapper.decrypt_to(DataUnitIndex(first), &data, &mut other).expect(&what);
            }
            assert!(in_place == wanted, "in place, encrypt: {encrypt}: {what}");
            assert!(other == wanted, "between buffers, encrypt: {encrypt}: {what}");
        }
    }
}

#[test]
fn rules_that_use_the_key_or_the_data_agree_with_the_reference() {
    let mut chosen = sample();
    for (cipher, rule, key_lens, data_units) in [
        ("aes", "eboiv", &[16, 24, 32][..], &[512, 4096, 48][..]),
        ("serpent", "eboiv", &[32], &[512]),
        ("aes", "elephant", &[32, 48, 64], &[512, 1024, 4096]),
        ("aes", "tcw", &[48, 56, 64], &[512]),
        ("twofish", "tcw", &[64], &[512]),
    ] {
        for key_len in key_lens {
            let key = bytes(*key_len as u64, *key_len);
            for data_unit in data_units {
                let options =
                    MapperOptions { data_unit: *data_unit, iv_large: true, ..MapperOptions::default() };
                for (first, units) in [(0, 1), (7, 3), (1 << 33, 16), (99, 35)] {
                    if !chosen() {
                        continue;
                    }
                    let spec = format!("{cipher}-cbc-{rule}");
                    check(&spec, &key, &options, (first, units), |encrypt, i, unit| {
                        cbc_unit(encrypt, cipher, rule, &key, first + i, unit)
                    });
                }
            }
        }
    }
}

#[test]
fn loop_aes_keys_agree_with_the_reference_with_and_without_a_seed() {
    for (cipher, key_len) in [("aes", 64 * 16), ("aes", 65 * 16), ("aes", 65 * 32), ("serpent", 64 * 32)] {
        let key = bytes(key_len as u64, key_len);
        for (first, units) in [(0, 1), (60, 9), ((1 << 57) + 3, 200)] {
            let options = MapperOptions::default();
            check(&format!("{cipher}:64-cbc-lmk"), &key, &options, (first, units), |encrypt, i, unit| {
                cbc_unit(encrypt, cipher, "lmk", &key, first + i, unit)
            });
        }
    }
}

/// The kernel counts 512-byte sectors to find the key, whatever IVs count.
#[test]
fn several_keys_take_turns_by_sector() {
    for (spec, mode, count) in [("aes:8-cbc-plain64", "cbc", 8), ("aes:2-xts-plain64", "xts", 2)] {
        let key_len = if mode == "xts" { 64 } else { 32 };
        let key = bytes(5, key_len * count);
        for (data_unit, iv_large) in [(512, false), (1024, false), (1024, true), (4096, true)] {
            let options = MapperOptions { data_unit, iv_large, ..MapperOptions::default() };
            let first = 5;
            check(spec, &key, &options, (first, 21), |encrypt, i, unit| {
                let sectors = data_unit as u64 / 512;
                let sector = (first + i) * sectors;
                let part = &key[(sector as usize % count) * key_len..][..key_len];
                let number = if iv_large { first + i } else { sector };
                let iv = reference::iv("plain64", "aes", part, number);
                reference::unit(encrypt, "aes", mode, part, iv, unit)
            });
        }
    }
}

#[test]
fn stolen_ciphertext_in_runs_agrees_with_the_reference() {
    for (data_unit, key_len) in [(16, 16), (32, 24), (48, 32), (144, 16), (512, 32), (4096, 32)] {
        let key = bytes(data_unit as u64, key_len);
        let options = MapperOptions { data_unit, iv_large: true, ..MapperOptions::default() };
        for (first, units) in [(0, 1), (7, 9), (1 << 33, 35)] {
            check("capi:cts(cbc(aes))-plain64", &key, &options, (first, units), |encrypt, i, unit| {
                let iv = reference::iv("plain64", "aes", &key, first + i);
                reference::unit(encrypt, "aes", "cts", &key, iv, unit)
            });
            if key_len != 24 {
                let spec = "capi:essiv(cts(cbc(serpent)),sha256)-plain64";
                check(spec, &key, &options, (first, units), |encrypt, i, unit| {
                    let iv = reference::iv("essiv:sha256", "serpent", &key, first + i);
                    reference::unit(encrypt, "serpent", "cts", &key, iv, unit)
                });
            }
        }
    }
}

#[test]
fn ctr_agrees_with_the_reference_also_where_the_counter_wraps() {
    let key = bytes(3, 32);
    for (data_unit, first) in [(512, 0), (48, 1 << 40), (4096, 9), (528, 77), (1040, 1)] {
        let options = MapperOptions { data_unit, iv_large: true, ..MapperOptions::default() };
        for (units, key_len) in [(5, 32), (1, 16), (37, 24)] {
            let key = &key[..key_len];
            check("aes-ctr-plain64", key, &options, (first, units), |_, i, unit| {
                ctr_unit("aes", key, reference::iv("plain64", "aes", key, first + i), unit)
            });
        }
        check("serpent-ctr-essiv:sha256", &key, &options, (first, 5), |_, i, unit| {
            ctr_unit("serpent", &key, reference::iv("essiv:sha256", "serpent", &key, first + i), unit)
        });
    }
    // The number is the counter's low half, so that its carry shows, wherever in a batch it comes.
    for before in [0, 1, 8, 31, 32, 100] {
        let number = u64::MAX - before;
        for data_unit in [512, 2048] {
            let options =
                MapperOptions { iv_offset: number, data_unit, iv_large: true, ..MapperOptions::default() };
            check("aes-ctr-plain64be", &key, &options, (0, 2), |_, i, unit| {
                let number = number.wrapping_add(i);
                ctr_unit("aes", &key, reference::iv("plain64be", "aes", &key, number), unit)
            });
        }
    }
}

#[test]
fn a_cipher_for_a_single_snapshot_decrypts_but_encrypts_only_when_that_is_asked_for() {
    let spec: CipherSpec = "aes-ctr-plain64".parse().expect("a good specification");
    assert!(spec.is_single_snapshot());
    let reader = Mapper::new(&spec, &[1; 16], &MapperOptions::default()).expect("a good key");
    let mut data = [9; 512];
    assert_eq!(reader.encrypt(DataUnitIndex(0), &mut data), Err(RunError::SingleSnapshot));
    assert_eq!(reader.encrypt_to(DataUnitIndex(0), &[3; 512], &mut data), Err(RunError::SingleSnapshot));
    assert_eq!(data, [9; 512], "nothing was written");
    let options = MapperOptions { single_snapshot: true, ..MapperOptions::default() };
    let writer = Mapper::new(&spec, &[1; 16], &options).expect("a good key");
    writer.encrypt(DataUnitIndex(0), &mut data).expect("it was asked for");
    reader.decrypt(DataUnitIndex(0), &mut data).expect("whole units");
    assert_eq!(data, [9; 512]);
    for durable in ["aes-xts-plain64", "aes-cbc-essiv:sha256", "aes-ecb"] {
        assert!(!durable.parse::<CipherSpec>().expect(durable).is_single_snapshot(), "{durable}");
    }
}

/// CBC and ECB over blocks of eight bytes, on top of the library's own ciphers.
#[test]
fn ciphers_with_short_blocks_chain_them_as_the_reference_does() {
    use blowfish::cipher::{Array, BlockCipherEncrypt, KeyInit};
    let key = bytes(8, 56);
    let cipher = <blowfish::Blowfish>::new_from_slice(&key).expect("56 bytes");
    let encrypt = |block: [u8; 8]| -> [u8; 8] {
        let mut block = Array(block);
        cipher.encrypt_block(&mut block);
        block.0
    };
    let plain = bytes(2, 4 * 512);
    for (spec, iv) in [
        ("blowfish-cbc-plain64", (|n: u64| n.to_le_bytes()) as fn(u64) -> [u8; 8]),
        ("blowfish-cbc-plain", |n| u64::from(n as u32).to_le_bytes()),
        ("blowfish-cbc-plain64be", |n| n.to_be_bytes()),
        ("blowfish-cbc-benbi", |n| (64 * n + 1).to_be_bytes()),
        ("blowfish-cbc-null", |_| [0; 8]),
    ] {
        let first = (1 << 32) - 2;
        let mapper = Mapper::new(&spec.parse().expect(spec), &key, &MapperOptions::default()).expect(spec);
        let mut data = plain.clone();
        mapper.encrypt(DataUnitIndex(first), &mut data).expect("whole units");
        let wanted: Vec<u8> = plain
            .chunks(512)
            .zip(first..)
            .flat_map(|(unit, number)| {
                unit.as_chunks::<8>().0.iter().scan(iv(number), |previous, block| {
                    *previous = encrypt(std::array::from_fn(|i| block[i] ^ previous[i]));
                    Some(*previous)
                })
            })
            .flatten()
            .collect();
        assert!(data == wanted, "{spec}");
        mapper.decrypt(DataUnitIndex(first), &mut data).expect("whole units");
        assert!(data == plain, "{spec}");
    }
}

#[test]
fn keys_and_data_units_that_a_rule_was_not_made_for_are_refused() {
    for (spec, good) in [
        ("aes-cbc-tcw", &[48, 56, 64][..]),
        ("aes-cbc-elephant", &[32, 48, 64]),
        ("aes-cbc-eboiv", &[16, 24, 32]),
        ("aes:64-cbc-lmk", &[1024, 1040, 1536, 1560, 2048, 2080]),
        ("aes:64-cbc-plain", &[1024, 1536, 2048]),
        ("aes:4-xts-plain64", &[128, 192, 256]),
        ("aes-ctr-plain64", &[16, 24, 32]),
        ("des3_ede-cbc-plain64", &[24]),
        ("capi:cts(cbc(aes))-plain64", &[16, 24, 32]),
        ("speck128-xts-plain64", &[32, 48, 64]),
        ("noekeon-xts-plain64", &[32]),
        ("noekeon-lrw-benbi", &[32]),
        ("noekeon-cbc-eboiv", &[16]),
        ("noekeon-cbc-tcw", &[48]),
        ("noekeon:64-cbc-lmk", &[1024, 1040]),
        ("chacha20-stream-plain64", &[32]),
    ] {
        let parsed: CipherSpec = spec.parse().expect(spec);
        assert_eq!(parsed.key_lens(), good, "{spec}");
        for len in (0..2100).step_by(8) {
            let made = Mapper::new(&parsed, &bytes(1, len), &MapperOptions::default()).err();
            assert_eq!(made, (!good.contains(&len)).then_some(KeyError::Length { len }), "{spec} {len}");
        }
    }
    for (spec, key_len, data_unit) in [
        ("aes:64-cbc-lmk", 1024, 4096),
        ("aes-cbc-tcw", 48, 1024),
        ("aes-cbc-tcw", 48, 16),
        ("aes-cbc-elephant", 32, 528),
    ] {
        let options = MapperOptions { data_unit, ..MapperOptions::default() };
        let made = Mapper::new(&spec.parse().expect(spec), &bytes(1, key_len), &options).err();
        assert_eq!(made, Some(KeyError::IvRuleDataUnit { len: data_unit }), "{spec} {data_unit}");
    }
    let xts: CipherSpec = "aes:2-xts-plain64".parse().expect("a good specification");
    let refused = Mapper::new(&xts, &[3; 128], &MapperOptions::default()).err();
    assert_eq!(refused, Some(KeyError::EqualXtsHalves));
}

#[test]
fn constant_time_is_claimed_for_several_keys_of_aes_but_not_for_short_blocks() {
    for (spec, key_len, claimed) in [
        ("aes:64-cbc-lmk", 1024, true),
        ("twofish:64-cbc-plain", 1024, false),
        ("aes-cbc-elephant", 32, true),
        ("blowfish-cbc-plain64", 16, false),
        ("cast5-cbc-plain64", 16, false),
        ("des3_ede-cbc-plain64", 24, false),
    ] {
        let mapper = Mapper::new(&spec.parse().expect(spec), &bytes(1, key_len), &MapperOptions::default())
            .expect(spec);
        assert_eq!(mapper.is_constant_time(), claimed, "{spec}");
        assert_eq!(spec.parse::<CipherSpec>().expect(spec).is_constant_time(), claimed, "{spec}");
    }
}
