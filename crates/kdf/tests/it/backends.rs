//! Every backend that this CPU has, and every way to cut a derivation into steps, yields what the one definition says.
//! Backends that it lacks run in `tests/emulated-cpu`.

use atrest_kdf::fixed::{self, FixedHash};
use atrest_kdf::{Hash, KdfError, Pbkdf2, Progress, Sha256Backend, pbkdf2, pbkdf2_sha256_with};
use atrest_testkit::Random;

/// RFC 7914, section 11.
#[test]
fn every_backend_agrees_with_rfc_7914() {
    let once = "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc\
                49ca9cccf179b645991664b39d77ef317c71b845b1e30bd509112041d3a19783";
    let often = "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56\
                 a1d425a1225833549adb841b51c9b3176a272bdebba1d078478f62b397f33c8d";
    for backend in Sha256Backend::detected() {
        let derived = |passphrase: &[u8], salt: &[u8], iterations| {
            let mut out = [0; 64];
            pbkdf2_sha256_with(backend, passphrase, salt, iterations, &mut out).expect("valid inputs");
            out.map(|byte| format!("{byte:02x}")).concat()
        };
        assert_eq!(derived(b"passwd", b"salt", 1), once, "{}", backend.name());
        assert_eq!(derived(b"Password", b"NaCl", 80000), often, "{}", backend.name());
    }
}

/// The `pbkdf2` crate, on lengths that fill one to nine blocks and leave the last one cut.
#[test]
fn every_backend_agrees_with_an_independent_implementation() {
    let mut sample = Random::new(1);
    for case in 0..300 {
        let passphrase_len = sample.index(100);
        let salt_len = sample.index(70);
        let (passphrase, salt) = (sample.bytes(passphrase_len), sample.bytes(salt_len));
        let iterations = 1 + sample.index(40) as u32;
        let len = if case % 3 == 0 { 64 } else { 1 + sample.index(280) };
        let mut expected = vec![0; len];
        ::pbkdf2::pbkdf2::<hmac::Hmac<sha2::Sha256>>(&passphrase, &salt, iterations, &mut expected)
            .expect("valid inputs");
        for backend in Sha256Backend::detected() {
            let mut out = vec![0xa5; len];
            pbkdf2_sha256_with(backend, &passphrase, &salt, iterations, &mut out).expect("valid inputs");
            assert_eq!(out, expected, "{}: case {case}, {len} bytes, {iterations} times", backend.name());
        }
        // Which instructions take several blocks of SHA-512 is not asked.
        let len = if case % 3 == 0 { 192 } else { 2 * len };
        let (mut expected, mut out) = (vec![0; len], vec![0xa5; len]);
        ::pbkdf2::pbkdf2::<hmac::Hmac<sha2::Sha512>>(&passphrase, &salt, iterations, &mut expected)
            .expect("valid inputs");
        pbkdf2(Hash::Sha512, &passphrase, &salt, iterations, &mut out).expect("valid inputs");
        assert_eq!(out, expected, "SHA-512: case {case}, {len} bytes, {iterations} times");
    }
}

/// The names under which they can be asked for.
#[test]
fn backends_have_names_of_their_own_and_the_portable_one_is_always_there() {
    let names: Vec<_> = Sha256Backend::detected().map(Sha256Backend::name).collect();
    assert_eq!(names.last(), Some(&"portable"));
    assert_eq!(Some(&Sha256Backend::best().name()), names.first());
    for backend in Sha256Backend::detected() {
        assert_eq!(Sha256Backend::named(backend.name()), Some(backend));
    }
    assert_eq!(Sha256Backend::named("sha-512"), None);
}

/// Runs `H` in steps of sizes that the sample chooses, and checks what each step says is left.
fn in_steps<H: FixedHash>(sample: &mut Random, iterations: u32, len: usize) {
    let mut expected = vec![0; len];
    pbkdf2(H::HASH, b"passphrase", b"salt", iterations, &mut expected).expect("valid inputs");
    let mut out = vec![0xa5; len];
    let mut run = Pbkdf2::<H>::new(b"passphrase", b"salt", iterations, &mut out).expect("valid inputs");
    let mut before = u64::MAX;
    loop {
        let size = sample.index(7) as u32;
        match run.step(size) {
            Progress::Done => break,
            Progress::Unfinished { left } => {
                assert!(left > 0 && left < before, "{}: {left} left after {before}", H::HASH);
                assert!(before == u64::MAX || before - left == u64::from(size.max(1)));
                before = left;
            }
        }
    }
    // More steps change nothing.
    assert_eq!(run.step(5), Progress::Done);
    drop(run);
    assert_eq!(out, expected, "{} {iterations} {len}", H::HASH);
}

#[test]
fn steps_of_any_size_yield_the_same_key() {
    let mut sample = Random::new(2);
    for iterations in [1, 2, 3, 19, 100] {
        for len in [1, 20, 32, 64, 150] {
            in_steps::<fixed::Sha1>(&mut sample, iterations, len);
            in_steps::<fixed::Sha256>(&mut sample, iterations, len);
            in_steps::<fixed::Sha384>(&mut sample, iterations, len);
            in_steps::<fixed::Sha512>(&mut sample, iterations, len);
            in_steps::<fixed::Ripemd160>(&mut sample, iterations, len);
            in_steps::<fixed::Blake2b512>(&mut sample, iterations, len);
        }
    }
}

#[test]
fn a_derivation_that_is_given_up_leaves_zeros() {
    let mut out = [0xa5; 200];
    let mut run = Pbkdf2::<fixed::Sha1>::new(b"passphrase", b"salt", 10, &mut out).expect("valid inputs");
    // Several blocks are final by then.
    assert!(matches!(run.step(55), Progress::Unfinished { left: 45 }));
    drop(run);
    assert_eq!(out, [0; 200]);
}

#[test]
fn what_is_not_defined_is_refused_before_the_output_is_touched() {
    let mut out = [0xa5; 32];
    assert_eq!(Pbkdf2::<fixed::Sha256>::new(b"a", b"b", 0, &mut out).err(), Some(KdfError::NoIterations));
    assert_eq!(out, [0xa5; 32]);
    assert_eq!(
        Pbkdf2::<fixed::Sha256>::new(b"a", b"b", 1, &mut []).err(),
        Some(KdfError::OutputLen { len: 0 })
    );
    assert_eq!(pbkdf2(Hash::Sha256, b"a", b"b", 0, &mut out), Err(KdfError::NoIterations));
}
