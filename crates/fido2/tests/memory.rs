//! After a security key was asked, neither the hash of its PIN nor what it derived lies in memory outside of secrets' own pages. A program of its own:
//! other tests in the same process leave their keys there.

use atrest_fido2::{Device, Request, SecurityKey};
use atrest_kdf::{Hash, digest};
use atrest_secret::{Passphrase, SecretBytes, with_wiped_stack};
use atrest_testkit::memory::{found_outside, pieces};
use atrest_testkit::{SecurityKeyKind, SoftKey};

const PIN: &str = "1234";

#[test]
fn neither_the_hash_of_the_pin_nor_the_secret_is_left_in_memory() {
    for protocols in [vec![1], vec![2]] {
        let key = SoftKey::new(&SecurityKeyKind { pin: Some(PIN), protocols, ..SecurityKeyKind::default() });
        let device = Device::parse(&key.place()).expect("a name");
        let pin = Passphrase::copy_from(PIN.as_bytes());
        let mut key = SecurityKey::open(&device).expect("it is there");
        let credential = key.make_credential(("a", "b"), (&[1], "c"), Some(&pin), &mut || {});
        let credential = credential.expect("it is made").id;
        let request = Request {
            rp: "a",
            credential: &credential,
            salt: &[5; 32],
            touch: Some(true),
            verification: false,
            pin: Some(&pin),
        };
        let secret = key.secret(&request, &mut || {}).expect("a secret");
        let mut hash = SecretBytes::zeroed(32);
        with_wiped_stack(|| digest(Hash::Sha256, &[pin.expose()], &mut hash));
        for (what, bytes) in [("secret", &secret[..]), ("hash of the PIN", &hash[..16])] {
            assert!(found_outside(&pieces(bytes)).is_empty(), "{what}");
        }
        let held = Vec::from(&secret[..16]);
        assert_eq!(found_outside(&pieces(&held)).len(), 1, "the search finds what is there");
        drop(held);
    }
}
