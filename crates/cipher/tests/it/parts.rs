//! Parts of data units: what [`DataUnitCipher::encrypt_at`] makes of them is what the whole run has there.

use crate::emulated::sample;
use atrest_cipher::{
    AdiantumPlain64, AesXts, BackendChoice, CipherSpec, DataUnitCipher, DataUnitIndex, Mapper, MapperOptions,
    RunError,
};

const FIRST: DataUnitIndex = DataUnitIndex(0xffff_ffff_ffff_fffe);

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 151 + (i >> 8) * 7) as u8).collect()
}

/// Every start in the first unit, and lengths that end within it, at its end and in later units.
fn check_parts(cipher: &impl DataUnitCipher, units: usize, what: &str) {
    let (unit, step) = (cipher.data_unit(), cipher.granularity());
    let plain = pattern(unit * units);
    let mut whole = plain.clone();
    cipher.encrypt(FIRST, &mut whole).expect("whole units");
    let mut chosen = sample();
    for offset in (0..unit).step_by(step) {
        let to_end = plain.len() - offset;
        for len in [step, 3 * step, unit - offset, unit, unit - offset + step, to_end] {
            if len > to_end || !chosen() {
                continue;
            }
            let range = offset..offset + len;
            // From an odd address on.
            let mut part = vec![0];
            part.extend(&plain[range.clone()]);
            cipher.encrypt_at(FIRST, offset, &mut part[1..]).expect("a part");
            assert!(part[1..] == whole[range.clone()], "{what}: {len} bytes from {offset}");
            cipher.decrypt_at(FIRST, offset, &mut part[1..]).expect("a part");
            assert!(part[1..] == plain[range], "{what}: {len} bytes from {offset}, back");
        }
    }
}

#[test]
fn a_part_is_what_the_whole_run_has_there() {
    let key: [u8; 64] = core::array::from_fn(|i| i as u8);
    for backend in BackendChoice::detected().map(Some) {
        for data_unit in [16, 48, 512, 4096] {
            for iv_large in [false, true] {
                let options = MapperOptions { data_unit, iv_large, backend, ..MapperOptions::default() };
                let xts = AesXts::new(&key[..32], &options).expect("a key");
                assert_eq!(xts.granularity(), 16);
                check_parts(&xts, 4, "AesXts");
            }
            let options = MapperOptions { data_unit, backend, ..MapperOptions::default() };
            for (spec, key_len) in [("aes-xts-plain64", 64), ("aes-xex1-plain64", 32), ("aes-ecb", 32)] {
                let spec: CipherSpec = spec.parse().expect("a specification");
                let mapper = Mapper::new(&spec, &key[..key_len], &options).expect("a key");
                assert_eq!(mapper.granularity(), 16, "{spec}");
                check_parts(&&mapper, 4, &format!("{spec} {backend:?}"));
            }
        }
    }
}

#[test]
fn what_chains_or_is_a_wide_block_takes_whole_units_only() {
    let options = MapperOptions::default();
    let key: [u8; 32] = core::array::from_fn(|i| i as u8);
    let adiantum = AdiantumPlain64::<12>::new(&key, &options).expect("a key");
    assert_eq!(adiantum.granularity(), 512);
    check_parts(&adiantum, 3, "Adiantum");
    for spec in
        ["aes-cbc-essiv:sha256", "xchacha12,aes-adiantum-plain64", "aes-hctr2-plain64", "aes-lrw-benbi"]
    {
        let key = &[&key[..], &key[..16]].concat()[..if spec.contains("lrw") { 48 } else { 32 }];
        let mapper = Mapper::new(&spec.parse().expect("a specification"), key, &options).expect("a key");
        assert_eq!(mapper.granularity(), 512, "{spec}");
        check_parts(&mapper, 3, spec);
        let mut part = [7; 16];
        let refused = RunError::Granularity { offset: 16, len: 16, granularity: 512 };
        assert_eq!(mapper.encrypt_at(FIRST, 16, &mut part), Err(refused));
        assert_eq!(part, [7; 16]);
    }
}

#[test]
fn parts_that_do_not_fit_are_refused_and_left_alone() {
    let key: [u8; 64] = core::array::from_fn(|i| i as u8);
    let xts = AesXts::new(&key, &MapperOptions::default()).expect("a key");
    let refused = |offset, len| {
        let mut part = pattern(len);
        let error = xts.encrypt_at(FIRST, offset, &mut part).expect_err("refused");
        assert_eq!(xts.decrypt_at(FIRST, offset, &mut part), Err(error));
        assert_eq!(part, pattern(len));
        error
    };
    assert_eq!(refused(8, 16), RunError::Granularity { offset: 8, len: 16, granularity: 16 });
    assert_eq!(refused(16, 17), RunError::Granularity { offset: 16, len: 17, granularity: 16 });
    assert_eq!(refused(512, 16), RunError::BehindDataUnit { offset: 512, data_unit: 512 });
    assert_eq!(
        refused(usize::MAX - 15, 16),
        RunError::BehindDataUnit { offset: usize::MAX - 15, data_unit: 512 }
    );
    assert_eq!(xts.encrypt_at(FIRST, 496, &mut []), Ok(()));
}
