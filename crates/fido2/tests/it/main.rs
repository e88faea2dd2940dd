//! The client against a security key that shares no code with it, with faults.

use std::time::{Duration, Instant};

use atrest_fido2::{Device, Fido2Error, Request, SecurityKey};
use atrest_secret::{Passphrase, SecretBytes};
use atrest_testkit::{SecurityKeyKind, SoftKey};

const RP: &str = "io.systemd.cryptsetup";

fn open(key: &SoftKey) -> Result<SecurityKey, Fido2Error> {
    SecurityKey::open(&Device::parse(&key.place())?)
}

fn pin(text: &str) -> Passphrase {
    Passphrase::copy_from(text.as_bytes())
}

fn made(key: &SoftKey, pin: Option<&Passphrase>) -> Result<Vec<u8>, Fido2Error> {
    let mut key = open(key)?;
    let credential =
        key.make_credential((RP, "Encrypted Volume"), (&[7; 32], "a volume"), pin, &mut || {})?;
    Ok(credential.id)
}

/// A secret, and how often somebody was told to touch the key.
fn asked(key: &SoftKey, request: &Request<'_>) -> Result<(SecretBytes, u32), Fido2Error> {
    let mut touches = 0;
    let secret = open(key)?.secret(request, &mut || touches += 1)?;
    Ok((secret, touches))
}

const SALT: [u8; 32] = [3; 32];

fn request(credential: &[u8]) -> Request<'_> {
    Request { rp: RP, credential, salt: &SALT, touch: Some(true), verification: false, pin: None }
}

#[test]
fn a_secret_is_that_of_one_key_one_credential_one_salt_and_whether_somebody_was_verified() {
    let other = SoftKey::new(&SecurityKeyKind { pin: Some("1234"), ..SecurityKeyKind::default() });
    {
        for (protocols, permissions) in
            [(vec![1], false), (vec![2], true), (vec![2, 1], false), (vec![1, 2], true)]
        {
            let with_pin = SecurityKeyKind {
                pin: Some("1234"),
                protocols: protocols.clone(),
                options: vec![("up", true), ("pinUvAuthToken", permissions)],
                ..SecurityKeyKind::default()
            };
            let mut key = SoftKey::new(&with_pin);
            assert_eq!(made(&key, None).err(), Some(Fido2Error::PinNeeded));
            let (right, wrong) = (pin("1234"), pin("4321"));
            let credential = made(&key, Some(&right)).expect("it is made");
            assert_eq!(open(&key).and_then(|mut key| key.has(RP, &credential)), Ok(true));
            assert_eq!(open(&other).and_then(|mut key| key.has(RP, &credential)), Ok(false));
            assert_eq!(open(&key).and_then(|mut key| key.has("another", &credential)), Ok(false));
            let plain = request(&credential);
            let (first, touches) = asked(&key, &plain).expect("its secret");
            assert_eq!((first.len(), touches), (32, 1));
            let verified = Request { pin: Some(&right), ..plain };
            let (second, _) = asked(&key, &verified).expect("its secret");
            assert!(*first != *second, "a PIN makes it another secret");
            let salted = Request { salt: &[4; 32], ..plain };
            assert!(*asked(&key, &salted).expect("its secret").0 != *first);
            assert_eq!(asked(&other, &plain).err(), Some(Fido2Error::NotThis));
            assert_eq!(
                asked(&key, &Request { pin: Some(&wrong), ..plain }).err(),
                Some(Fido2Error::WrongPin)
            );
            assert_eq!(
                asked(&key, &Request { pin: Some(&pin("123")), ..plain }).err(),
                Some(Fido2Error::BadPin)
            );
            // It is the same after it was away.
            key.replugged(&with_pin);
            assert!(*asked(&key, &plain).expect("its secret").0 == *first);
            assert!(*asked(&key, &verified).expect("its secret").0 == *second);
        }
    }
}

#[test]
fn a_pin_that_is_wrong_too_often_locks_and_then_blocks_the_key() {
    let with_pin = SecurityKeyKind { pin: Some("1234"), ..SecurityKeyKind::default() };
    let mut key = SoftKey::new(&with_pin);
    let (right, wrong) = (pin("1234"), pin("4321"));
    let credential = made(&key, Some(&right)).expect("it is made");
    let mut told = Vec::new();
    for _ in 0..3 {
        for _ in 0..3 {
            told.extend(asked(&key, &Request { pin: Some(&wrong), ..request(&credential) }).err());
        }
        key.replugged(&with_pin);
    }
    let (wrong, locked, blocked) = (Fido2Error::WrongPin, Fido2Error::PinLocked, Fido2Error::PinBlocked);
    let expected =
        [&wrong, &wrong, &locked, &wrong, &wrong, &locked, &wrong, &blocked, &blocked].map(Clone::clone);
    assert_eq!(told, expected);
    let right = Request { pin: Some(&right), ..request(&credential) };
    assert_eq!(asked(&key, &right).err(), Some(Fido2Error::PinBlocked));
}

#[test]
fn what_a_key_needs_is_told_and_what_it_decides_is_left_to_it() {
    let options = |options: &[(&'static str, bool)]| SecurityKeyKind {
        options: options.to_vec(),
        ..SecurityKeyKind::default()
    };
    // One that verifies somebody by itself, and does nothing else.
    let reader = SoftKey::new(&options(&[("up", true), ("uv", true)]));
    let credential = made(&reader, None).expect("it is made");
    let plain = request(&credential);
    let verified = Request { verification: true, ..plain };
    let (first, second) =
        (asked(&reader, &plain).expect("a secret").0, asked(&reader, &verified).expect("a secret").0);
    assert!(*first != *second);
    assert_eq!(asked(&reader, &Request { pin: Some(&pin("1234")), ..plain }).err(), Some(Fido2Error::NoPin));
    let always = SoftKey::new(&options(&[("up", true), ("uv", true), ("alwaysUv", true)]));
    let credential = made(&always, None).expect("it is made");
    assert_eq!(
        open(&always).and_then(|mut key| key.has(RP, &credential)),
        Ok(true),
        "it does not say otherwise"
    );
    assert_eq!(asked(&always, &request(&credential)).err(), Some(Fido2Error::PinNeeded));
    assert!(asked(&always, &Request { verification: true, ..request(&credential) }).is_ok());
    // One that cannot tell whether it is touched, and one that must be.
    let untouched = SoftKey::new(&SecurityKeyKind { touch: false, ..options(&[("up", false)]) });
    let credential = made(&untouched, None).expect("it is made");
    assert_eq!(asked(&untouched, &request(&credential)).expect("a secret").1, 0);
    let key = SoftKey::new(&SecurityKeyKind::default());
    let credential = made(&key, None).expect("it is made");
    let undecided = Request { touch: None, ..request(&credential) };
    assert_eq!(asked(&key, &undecided).expect("a secret").1, 1, "it is asked again with a touch");
    let never = Request { touch: Some(false), ..undecided };
    assert_eq!(asked(&key, &never).err(), Some(Fido2Error::Code(0x2b)));
    let none = asked(&key, &Request { verification: true, ..undecided });
    assert_eq!(none.err(), Some(Fido2Error::NoVerification));
    let useless = SoftKey::new(&SecurityKeyKind { fault: Some("no secrets"), ..SecurityKeyKind::default() });
    assert_eq!(open(&useless).err(), Some(Fido2Error::NoSecrets));
}

#[test]
fn a_key_that_lies_is_refused_and_one_that_never_ends_is_left() {
    let mut key = SoftKey::new(&SecurityKeyKind { pin: Some("1234"), ..SecurityKeyKind::default() });
    let right = pin("1234");
    let credential = made(&key, Some(&right)).expect("it is made");
    let mut with = |fault| {
        key.replugged(&SecurityKeyKind {
            pin: Some("1234"),
            fault: Some(fault),
            ..SecurityKeyKind::default()
        });
        let begun = Instant::now();
        let plain = asked(&key, &request(&credential)).err();
        let verified = asked(&key, &Request { pin: Some(&right), ..request(&credential) }).err();
        assert!(begun.elapsed() < Duration::from_secs(10), "{fault}: {:?}", begun.elapsed());
        (plain, verified)
    };
    let bad = || Some(Fido2Error::Malformed);
    for fault in
        ["off the curve", "garbage", "nothing", "trailing", "oversized", "short secret", "another party"]
    {
        assert_eq!(with(fault), (bad(), bad()), "{fault}");
    }
    let (flipped, verified) = with("flag flipped");
    assert_eq!((flipped, verified), (None, bad()), "it says that it has verified nobody");
    assert!(matches!(with("gone"), (Some(Fido2Error::Io(_)), Some(Fido2Error::Io(_)))));
    assert_eq!(with("silent"), (Some(Fido2Error::Slow), Some(Fido2Error::Slow)));
}
