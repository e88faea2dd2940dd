//! Runs short enough for an interpreter, against the references: `scripts/check miri` looks here for undefined behaviour in
//! the code for any CPU (32-bit words, and SSE2) and in what leads to it. Buffers are at odd addresses and just as long
//! as the run, so that an access beside it is an error.

mod reference;

use atrest_cipher::{AesXts, BackendChoice, CipherSpec, DataUnitIndex, Mapper, MapperOptions, VectorChoice};
use reference::wide_block::{self as wide_reference, Design};

const UNIT: usize = 512;

/// Each takes the interpreter a minute.
const UNITS: usize = if cfg!(miri) { 1 } else { 5 };

fn counting(len: usize, start: usize) -> Vec<u8> {
    (start..start + len).map(|i| (i * 7 % 251) as u8).collect()
}

/// Some units by every backend, in place and from a source, must be what `reference` makes of unit after unit.
fn check(name: &str, key_len: usize, reference: impl Fn(&[u8], u64, &[u8]) -> Vec<u8>) {
    let spec: CipherSpec = name.parse().expect(name);
    let key = counting(key_len, 1);
    let plain = counting(UNITS * UNIT, 3);
    let expected: Vec<u8> =
        plain.chunks(UNIT).zip(5..).flat_map(|(unit, number)| reference(&key, number, unit)).collect();
    for backend in BackendChoice::detected() {
        for vectors in VectorChoice::detected() {
            let options = MapperOptions {
                backend: Some(backend),
                vectors: Some(vectors),
                single_snapshot: true,
                ..MapperOptions::default()
            };
            let mapper = Mapper::new(&spec, &key, &options).expect("a good key");
            let mut data = vec![0xee; plain.len() + 1].into_boxed_slice();
            data[1..].copy_from_slice(&plain);
            mapper.encrypt(DataUnitIndex(5), &mut data[1..]).expect("whole units");
            assert_eq!(data[1..], expected, "{name} on {}", mapper.backend_name());
            let source = data.clone();
            mapper.decrypt_to(DataUnitIndex(5), &source[1..], &mut data[1..]).expect("whole units");
            assert_eq!((data[0], &data[1..]), (0xee, &plain[..]), "{name} on {}", mapper.backend_name());
            if !spec.to_string().starts_with("xchacha") {
                break;
            }
        }
    }
}

fn of_aes<'a>(mode: &'a str, rule: &'a str) -> impl Fn(&[u8], u64, &[u8]) -> Vec<u8> + 'a {
    move |key, number, unit| {
        reference::unit(true, "aes", mode, key, reference::iv(rule, "aes", key, number), unit)
    }
}

#[test]
fn xts_agrees_with_the_reference() {
    check("aes-xts-plain64", 32, of_aes("xts", "plain64"));
}

#[test]
fn cbc_agrees_with_the_reference() {
    check("aes-cbc-essiv:sha256", 16, of_aes("cbc", "essiv:sha256"));
}

/// The unit's number in a tweak of `LEN` bytes.
fn tweak<const LEN: usize>(number: u64) -> [u8; LEN] {
    core::array::from_fn(|i| number.to_le_bytes().get(i).copied().unwrap_or(0))
}

#[test]
fn adiantum_agrees_with_the_reference() {
    check("xchacha12,aes-adiantum-plain64", 32, |key, number, unit| {
        wide_reference::unit(true, Design::Adiantum, 12, key, &tweak::<32>(number), unit)
    });
}

#[test]
fn hpolyc_agrees_with_the_reference() {
    check("xchacha20,aes-hpolyc-plain64", 32, |key, number, unit| {
        wide_reference::unit(true, Design::HPolyC, 20, key, &tweak::<12>(number), unit)
    });
}

#[test]
fn hctr2_agrees_with_the_reference() {
    check("aes-hctr2-plain64", 16, |key, number, unit| {
        reference::hctr2::unit(true, "aes", key, &tweak::<32>(number), unit)
    });
}

#[test]
fn aes_xts_by_itself_agrees_with_the_reference() {
    let key = counting(64, 9);
    let plain = counting(UNIT, 4);
    let iv = reference::iv("plain64", "aes", &key, 5);
    let mut data = plain.clone().into_boxed_slice();
    let alone = AesXts::new(&key, &MapperOptions::default()).expect("a good key");
    alone.encrypt(DataUnitIndex(5), &mut data).expect("a whole unit");
    assert_eq!(*data, reference::unit(true, "aes", "xts", &key, iv, &plain));
    alone.decrypt(DataUnitIndex(5), &mut data).expect("a whole unit");
    assert_eq!(*data, plain);
}
