use atrest_cipher::KeyError;

use super::*;

fn short() -> BenchOptions {
    BenchOptions {
        cache: 8 << 10,
        memory: 32 << 10,
        threads: vec![1, 2],
        time: Duration::from_micros(100),
        ..BenchOptions::default()
    }
}

#[test]
fn every_listed_cipher_gives_a_row_for_each_unit_memory_and_number_of_threads() {
    for (spec, key_bits) in CIPHERS {
        let spec = spec.parse().expect("a cipher");
        let mut rows = Vec::new();
        cipher(&spec, key_bits, &short(), &mut |row| rows.push(row)).expect("measured");
        let mut expected = Vec::new();
        for memory in [Memory::Cache(8 << 10), Memory::Main(32 << 10)] {
            for data_unit in [512, 4096] {
                for threads in [1, 2] {
                    expected.push((memory, data_unit, threads));
                }
            }
        }
        let found: Vec<_> = rows.iter().map(|row| (row.memory, row.data_unit, row.threads)).collect();
        assert_eq!(found, expected);
        for row in rows {
            assert!(row.encrypt > 1e4 && row.decrypt > 1e4 && row.encrypt < 1e12, "{row:?}");
            assert_eq!((row.cipher.to_string(), row.key_bits), (spec.to_string(), key_bits));
        }
    }
}

#[test]
fn rows_can_be_left_out_and_impossible_ones_are_refused() {
    let spec: CipherSpec = "aes-xts-plain64".parse().expect("a cipher");
    let mut rows = 0;
    let options = BenchOptions { memory: 0, data_units: vec![512], threads: vec![1], ..short() };
    cipher(&spec, 512, &options, &mut |_| rows += 1).expect("measured");
    assert_eq!(rows, 1);
    let mut ignore = |_| ();
    assert_eq!(cipher(&spec, 200, &options, &mut ignore), Err(BenchError::Key(KeyError::Length { len: 25 })));
    let options = BenchOptions { cache: 100, ..options };
    assert_eq!(cipher(&spec, 512, &options, &mut ignore), Err(BenchError::Run { buffer: 0, data_unit: 512 }));
}

#[test]
fn every_key_derivation_gives_a_row() {
    let mut rows = Vec::new();
    kdfs(&short(), &mut |row| rows.push(row)).expect("measured");
    let pbkdf2 = rows.iter().filter(|row| row.iterations_per_second().is_some_and(|speed| speed > 100.0));
    assert_eq!(pbkdf2.count(), atrest_kdf::Hash::ALL.len());
    assert_eq!(rows.iter().filter(|row| matches!(row.cost, KdfCost::Argon2(_))).count(), 4);
    assert_eq!(rows.iter().filter(|row| matches!(row.cost, KdfCost::Scrypt(_))).count(), 1);
}
