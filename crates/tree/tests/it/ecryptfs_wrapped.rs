//! Wrapped passphrases, both ways between us and ecryptfs-utils; and signatures as its programs print them.

use std::fs;
use std::path::Path;

use atrest_secret::{OsRandom, Passphrase};
use atrest_testkit::Scratch;
use atrest_testkit::oracle::{Program, tool};
use atrest_tree::ecryptfs::{Keys, WrappedError, WrappedPassphrase, WrappedVersion};

fn passphrase(text: &str) -> Passphrase {
    Passphrase::copy_from(text.as_bytes())
}

fn unwrapped_by_utils(file: &Path, wrapping: &str) -> Option<String> {
    let outcome = Program::at(tool("ecryptfs-unwrap-passphrase")).arg(file).arg("-").stdin(wrapping).run();
    outcome.is_ok().then(|| outcome.text().trim_end_matches('\n').to_owned())
}

#[test]
fn what_ecryptfs_utils_wrapped_is_unwrapped() {
    let work = Scratch::new();
    for secret in ["a", "exactly sixteen!", "the passphrase of a tree", &"x".repeat(63)] {
        let file = work.path("wrapped");
        let _ = fs::remove_file(&file);
        let input = format!("{secret}\nlogin passphrase");
        Program::at(tool("ecryptfs-wrap-passphrase")).arg(&file).arg("-").stdin(input).run().expect_code(0);
        let bytes = fs::read(&file).expect("it was made");
        let wrapped = WrappedPassphrase::parse(&bytes).expect("a wrapped passphrase");
        assert_eq!(wrapped.version(), WrappedVersion::V2);
        assert_eq!(wrapped.to_bytes(), bytes);
        let plain = wrapped.unwrap(&passphrase("login passphrase")).expect("the right passphrase");
        assert!(plain == passphrase(secret));
        let wrong = wrapped.unwrap(&passphrase("login Passphrase"));
        assert!(matches!(wrong, Err(WrappedError::WrongPassphrase { .. })), "{wrong:?}");
    }
}

#[test]
fn what_we_wrap_ecryptfs_utils_unwraps() {
    let work = Scratch::new();
    for version in [WrappedVersion::V1, WrappedVersion::V2] {
        for secret in ["a", "exactly sixteen!", "the passphrase of a tree", &"x".repeat(63)] {
            let wrapping = passphrase("login passphrase");
            let wrapped = WrappedPassphrase::wrap(&passphrase(secret), &wrapping, version, &mut OsRandom)
                .expect("a good passphrase");
            // The tool rewrites version 1 as version 2 in place.
            let file = work.path("wrapped");
            fs::write(&file, wrapped.to_bytes()).expect("room");
            assert_eq!(unwrapped_by_utils(&file, "login passphrase").as_deref(), Some(secret), "{version:?}");
            fs::write(&file, wrapped.to_bytes()).expect("room");
            assert_eq!(unwrapped_by_utils(&file, "another"), None);
            let again = WrappedPassphrase::parse(&wrapped.to_bytes()).expect("its own bytes");
            assert!(again.unwrap(&wrapping).expect("the right passphrase") == passphrase(secret));
        }
    }
}

#[test]
fn what_is_no_wrapped_passphrase_is_refused() {
    let error = |bytes: &[u8]| WrappedPassphrase::parse(bytes).expect_err("not one");
    assert_eq!(error(b""), WrappedError::Length { len: 0 });
    assert_eq!(error(b":\x03"), WrappedError::Version(3));
    assert_eq!(error(&[b'g'; 32]), WrappedError::NoSignature);
    assert_eq!(error(&[b'0'; 33]), WrappedError::Length { len: 33 });
    let wrap = |secret: &str| {
        WrappedPassphrase::wrap(&passphrase(secret), &passphrase("w"), WrappedVersion::V2, &mut OsRandom)
    };
    assert_eq!(wrap("").expect_err("empty"), WrappedError::Unusable { len: 0 });
    assert_eq!(wrap(&"x".repeat(65)).expect_err("too long"), WrappedError::Unusable { len: 65 });
    assert_eq!(wrap("a\0b").expect_err("a zero"), WrappedError::Unusable { len: 3 });
}

/// Source: `ecryptfs-add-passphrase --fnek` on Debian 12.
#[test]
fn signatures_are_those_that_ecryptfs_utils_print() {
    let signatures = Keys::new().add_passphrase(&passphrase("correct horse")).expect("short enough");
    assert_eq!(signatures.map(|signature| signature.to_string()), ["ffd652511eaff04a", "ad8196b99942c4eb"]);
}
