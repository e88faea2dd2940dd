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
    assert_eq!(pbkdf2.count(), Hash::ALL.len());
    assert_eq!(rows.iter().filter(|row| matches!(row.cost, KdfCost::Argon2(_))).count(), 4);
    assert_eq!(rows.iter().filter(|row| matches!(row.cost, KdfCost::Scrypt(_))).count(), 1);
}

#[test]
fn the_table_of_the_slides_has_every_row() {
    let mut rows = Vec::new();
    adiantum(&short(), &mut |row| rows.push(row)).expect("measured");
    let found: Vec<_> =
        rows.iter().map(|row| (row.name, row.speeds.map(|speed| speed.source_cycles))).collect();
    let expected = [
        ("Adiantum-XChaCha12-AES", [10.6, 15.8]),
        ("HPolyC-XChaCha12-AES", [13.6, 18.7]),
        ("Adiantum-XChaCha20-AES", [14.7, 20.2]),
        ("Speck128/256-XTS", [15.8, 16.9]),
        ("HPolyC-XChaCha20-AES", [17.8, 23.4]),
        ("NOEKEON-XTS", [26.9, 27.9]),
        ("AES-128-XTS (decryption)", [42.7, 43.9]),
        ("AES-256-XTS (decryption)", [58.6, 60.1]),
    ];
    assert_eq!(found, expected);
    for row in rows {
        assert_eq!(row.speeds.map(|speed| speed.data_unit), [4096, 512]);
        for speed in row.speeds {
            let clock = speed.cycles / speed.nanoseconds;
            assert!(speed.nanoseconds > 0.001 && speed.nanoseconds < 1e5, "{row:?}");
            assert!(clock > 0.01 && clock < 100.0, "a clock of {clock} GHz");
        }
    }
}

#[test]
fn the_table_of_the_article_has_every_row() {
    let mut rows = Vec::new();
    esp32(&short(), &mut |row| rows.push(row)).expect("measured");
    assert!(rows.iter().all(|row| row.milliseconds > 0.1 && row.milliseconds < 1e6), "{rows:?}");
    let cell = |mode, blocks, keys| {
        let mut found =
            rows.iter().filter(|row| (row.mode, row.sector_blocks, row.keys) == (mode, blocks, keys));
        let source = found.next().expect("a row").source_milliseconds;
        assert_eq!(found.next(), None);
        source
    };
    assert_eq!(cell(Esp32Mode::Ecb, None, None), Some(744.0));
    let mut cells = 1;
    for keys in [Esp32Key::One, Esp32Key::Two] {
        for blocks in [8, 16, 32, 64] {
            assert_eq!(cell(Esp32Mode::Ours, Some(blocks), Some(keys)), None);
            for way in Multiply::ALL {
                let source =
                    cell(Esp32Mode::Xts(way), Some(blocks), Some(keys)).expect("a figure of the article");
                assert!((2357.0..=2775.0).contains(&source), "{source}");
                cells += 1;
            }
            cells += 1;
        }
    }
    assert_eq!(rows.len(), cells);
    let of = |way, blocks, keys| cell(Esp32Mode::Xts(way), Some(blocks), Some(keys));
    assert_eq!(of(Multiply::Words, 64, Esp32Key::One), Some(2357.0));
    assert_eq!(of(Multiply::UnalignedBigEndian, 16, Esp32Key::Two), Some(2775.0));
}
