//! Published vectors. Each names its source.

use atrest_cipher::{CipherSpec, DataUnitIndex, Mapper, MapperOptions};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let digit = |d: u8| (d as char).to_digit(16).expect("a hexadecimal digit") as u8;
    digits.as_chunks().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

fn mapper(spec: &str, key: &str, options: MapperOptions) -> Mapper {
    let spec: CipherSpec = spec.parse().expect("a good specification");
    Mapper::new(&spec, &bytes(key), &options).expect("a good key")
}

/// Source: IEEE 1619-2018, Annex B, vector 2.
#[test]
fn xts_aes_128_agrees_with_ieee_1619_vector_2() {
    let key = "11111111111111111111111111111111 22222222222222222222222222222222";
    let options = MapperOptions { data_unit: 32, ..MapperOptions::default() };
    let mapper = mapper("aes-xts-plain64", key, options);
    let mut data = bytes("4444444444444444444444444444444444444444444444444444444444444444");
    mapper.encrypt(DataUnitIndex(0x33_3333_3333), &mut data).expect("a whole unit");
    assert_eq!(data, bytes("c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0"));
    mapper.decrypt(DataUnitIndex(0x33_3333_3333), &mut data).expect("a whole unit");
    assert_eq!(data, [0x44; 32]);
}
