//! [`AesXts`] is the mapper of `aes-xts-plain64`, byte for byte, on every backend.

use atrest_cipher::{
    AesXts, BackendChoice, CipherSpec, DataUnitIndex, KeyError, KeyPlace, Mapper, MapperOptions, RunError,
};

#[test]
fn gives_the_bytes_of_the_mapper() {
    let spec: CipherSpec = "aes-xts-plain64".parse().expect("a cipher");
    let key: [u8; 64] = core::array::from_fn(|i| i as u8);
    let mut place = KeyPlace::<AesXts>::empty();
    for backend in BackendChoice::detected().map(Some) {
        for (key_len, data_unit) in [(32, 16), (32, 512), (48, 4096), (64, 512), (64, 48), (64, 4096)] {
            let options = MapperOptions { data_unit, iv_offset: 3, backend, ..MapperOptions::default() };
            let mapper = Mapper::new(&spec, &key[..key_len], &options).expect("a key");
            let xts = AesXts::new(&key[..key_len], &options).expect("a key");
            // Over a key that other code had expanded.
            let xts_in_place = place.expand(&key[..key_len], &options).expect("a key");
            // Odd numbers of units, from an odd address on.
            for units in [1, 3, 17] {
                let plain: Vec<u8> = (0..units * data_unit + 1).map(|i| (i * 7) as u8).collect();
                let (mut ours, mut theirs) = (plain.clone(), plain.clone());
                xts.encrypt(DataUnitIndex(u64::MAX - 1), &mut ours[1..]).expect("whole units");
                mapper.encrypt(DataUnitIndex(u64::MAX - 1), &mut theirs[1..]).expect("whole units");
                assert_eq!(ours, theirs, "{backend:?} {key_len} {data_unit} {units}");
                let mut back = vec![0; ours.len() - 1];
                xts.decrypt_to(DataUnitIndex(u64::MAX - 1), &ours[1..], &mut back).expect("whole units");
                assert_eq!(back, plain[1..]);
                xts_in_place.decrypt(DataUnitIndex(u64::MAX - 1), &mut theirs[1..]).expect("whole units");
                assert_eq!(theirs, plain);
            }
        }
    }
}

#[test]
fn refuses_what_the_mapper_refuses() {
    let options = MapperOptions::default();
    let key: [u8; 64] = core::array::from_fn(|i| i as u8);
    let refused =
        |key: &[u8], options: &MapperOptions| AesXts::new(key, options).map(drop).expect_err("refused");
    assert_eq!(refused(&key[..31], &options), KeyError::Length { len: 31 });
    assert_eq!(refused(&key[..40], &options), KeyError::Length { len: 40 });
    assert_eq!(refused(&[7; 64], &options), KeyError::EqualXtsHalves);
    assert!(AesXts::new(&[7; 64], &MapperOptions { allow_equal_xts_halves: true, ..options }).is_ok());
    assert_eq!(refused(&key, &MapperOptions { data_unit: 24, ..options }), KeyError::DataUnit { len: 24 });
    let mut place = KeyPlace::<AesXts>::empty();
    assert_eq!(place.expand(&[7; 64], &options).err(), Some(KeyError::EqualXtsHalves));
    let xts = place.expand(&key, &options).expect("a key");
    let partial = RunError::PartialDataUnit { len: 511, data_unit: 512 };
    assert_eq!(xts.encrypt(DataUnitIndex(0), &mut [0; 511]), Err(partial));
    let lengths = RunError::LengthMismatch { src: 512, dst: 1024 };
    assert_eq!(xts.encrypt_to(DataUnitIndex(0), &[0; 512], &mut [0; 1024]), Err(lengths));
}
