//! Every mode on every backend against the readable reference that the cipher room's tests use.

#[path = "../../crates/cipher/tests/reference/mod.rs"]
mod reference;

use atrest_cipher::{BackendChoice, DataUnitIndex, Mapper, MapperOptions, VectorChoice};

use crate::Reader;
use crate::random::Random;

/// The most bytes in a run: the reference works bit by bit.
const MAX_RUN: usize = 8 << 10;

/// Specifications, and the bytes in their keys.
const CASES: &[(&str, &[usize])] = &[
    ("aes-xts-plain64", &[32, 48, 64]),
    ("aes-xts-plain64be", &[64]),
    ("aes-xts-essiv:sha256", &[32, 64]),
    ("aes-cbc-plain64", &[16, 24, 32]),
    ("aes-cbc-essiv:sha256", &[16, 32]),
    ("aes-cbc-benbi", &[32]),
    ("aes-cbc-null", &[16]),
    ("aes-cbc-plain", &[24]),
    ("aes-cbc-eboiv", &[16, 32]),
    ("aes-cbc-elephant", &[32, 48, 64]),
    ("aes-cbc-tcw", &[48, 56, 64]),
    ("aes:64-cbc-lmk", &[64 * 16, 65 * 16, 64 * 32, 65 * 32]),
    ("aes-ctr-plain64", &[16, 32]),
    ("aes-ecb", &[16, 24, 32]),
    ("aes-lrw-benbi", &[32, 40, 48]),
    ("aes-lrw-plain64", &[32]),
    ("aes-xex1-plain64", &[16, 24, 32]),
    ("aes-hctr2-plain64", &[16, 24, 32]),
    ("capi:cts(cbc(aes))-plain64", &[16, 32]),
    ("capi:cts(cbc(aes))-essiv:sha256", &[32]),
    ("xchacha12,aes-adiantum-plain64", &[32]),
    ("xchacha20,aes-adiantum-plain64be", &[32]),
    ("xchacha12,aes-hpolyc-plain64be", &[32]),
    ("xchacha20,aes-hpolyc-plain64", &[32]),
    ("chacha12-stream-plain64", &[32]),
    ("chacha20-stream-plain64", &[32]),
    ("capi:chacha20-plain64be", &[32]),
    ("serpent-xts-plain64", &[32, 64]),
    ("twofish-lrw-benbi", &[32]),
    ("camellia-cbc-essiv:sha256", &[16, 32]),
    ("speck128-xts-plain64", &[32, 48, 64]),
    ("noekeon-xts-plain64", &[32]),
    ("speck128-hctr2-plain64be", &[32]),
];

/// How many specifications there are; the first byte of an input chooses one.
pub const CIPHERS: usize = CASES.len();

/// Encrypts and decrypts a run as the input describes it, on every choice of backend and vectors.
pub fn cipher_modes(data: &[u8]) {
    let mut reader = Reader(data);
    let (spec, key_lens) = CASES[usize::from(reader.u8()) % CASES.len()];
    let key_len = key_lens[usize::from(reader.u8()) % key_lens.len()];
    let data_unit = match spec {
        // The rules of old disk encryption want sectors.
        "aes:64-cbc-lmk" | "aes-cbc-tcw" => 512,
        "aes-cbc-elephant" => 512 * (1 + usize::from(reader.u8()) % 8),
        _ => 16 * (1 + usize::from(reader.u16()) % 260),
    };
    let units = (1 + usize::from(reader.u8()) % 70).min(MAX_RUN / data_unit).max(1);
    let options = MapperOptions {
        data_unit,
        iv_offset: reader.u64(),
        iv_large: reader.u8() % 2 == 0,
        allow_equal_xts_halves: true,
        single_snapshot: true,
        ..MapperOptions::default()
    };
    let first = reader.u64();
    let shift = usize::from(reader.u8()) % 64;
    let key = filled(&mut reader, key_len);
    let plain = filled(&mut reader, units * data_unit);

    let step = if options.iv_large { 1 } else { (data_unit / 512).max(1) as u64 };
    let number = |unit: usize| {
        let index = first.wrapping_add(unit as u64);
        options.iv_offset.wrapping_add(index.wrapping_mul(step))
    };
    let wanted = |encrypt: bool| -> Vec<u8> {
        let unit = |(i, unit)| reference::whole::data_unit(encrypt, parts(spec), &key, number(i), unit);
        plain.chunks(data_unit).enumerate().flat_map(unit).collect()
    };
    let (encrypted, decrypted) = (wanted(true), wanted(false));
    let parsed = spec.parse().expect(spec);
    for backend in BackendChoice::detected() {
        for vectors in VectorChoice::detected() {
            let options = MapperOptions { backend: Some(backend), vectors: Some(vectors), ..options };
            let mapper = Mapper::new(&parsed, &key, &options).expect(spec);
            let what =
                || format!("{spec}, {units} units of {data_unit} from {first}, {}", mapper.backend_name());
            let mut here = vec![0; shift + plain.len()];
            let mut there = vec![0; plain.len()];
            for (encrypt, wanted) in [(true, &encrypted), (false, &decrypted)] {
                here[shift..].copy_from_slice(&plain);
                let first = DataUnitIndex(first);
                let results = if encrypt {
                    [mapper.encrypt(first, &mut here[shift..]), mapper.encrypt_to(first, &plain, &mut there)]
                } else {
                    [mapper.decrypt(first, &mut here[shift..]), mapper.decrypt_to(first, &plain, &mut there)]
                };
                assert_eq!(results, [Ok(()), Ok(())], "{}", what());
                assert!(here[shift..] == wanted[..], "in place, encrypt: {encrypt}: {}", what());
                assert!(there == *wanted, "between buffers, encrypt: {encrypt}: {}", what());
            }
            if !uses_vectors(spec) {
                break;
            }
        }
    }
}

/// Zeros, ones or noise; then bytes of the input on top.
fn filled(reader: &mut Reader, len: usize) -> Vec<u8> {
    let kind = reader.u8();
    let mut noise = Random(reader.u64());
    let mut bytes: Vec<u8> = (0..len)
        .map(|_| match kind % 4 {
            0 => 0,
            1 => 0xff,
            _ => noise.next() as u8,
        })
        .collect();
    let given = usize::from(reader.u8());
    bytes.iter_mut().zip(reader.bytes(given)).for_each(|(byte, given)| *byte ^= given);
    bytes
}

/// Cipher, mode and IV rule, as the reference calls them.
fn parts(spec: &'static str) -> (&'static str, &'static str, &'static str) {
    if let Some(rule) = spec.strip_prefix("capi:cts(cbc(aes))-") {
        return ("aes", "cts", rule);
    }
    if let Some((cipher, rule)) = spec.strip_prefix("capi:").and_then(|stream| stream.split_once('-')) {
        return (cipher, "stream", rule);
    }
    let mut parts = spec.splitn(3, '-');
    let mut part = || parts.next().unwrap_or("");
    let (cipher, mode, rule) = (part(), part(), part());
    (cipher.split(':').next().unwrap_or(cipher), mode, rule)
}

fn uses_vectors(spec: &str) -> bool {
    spec.contains("chacha")
}
