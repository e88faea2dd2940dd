//! Volume keys from a chip's own secret: the bytes that Python's `hmac` and OpenSSL's CMAC compute, and what is refused.
//!
//! ```text
//! H = lambda k, m: hmac.new(k, m, "sha256").digest()
//! root = H(bytes(range(0x40, 0x60)), b"atrest device volume v1\0" + H(bytes(range(0x10, 0x20)), b"thermostat, aes-xts"))
//! first = H(root, b"atrest volume key 1" + bytes([64, 1])); second = H(root, first + b"atrest volume key 1" + bytes([64, 2]))
//! ```

use atrest_cipher::{AesEncrypt, LoadAesKey, SoftwareAes};
use atrest_keyslot::flash::{
    AesCmac, CmacSecret, DeviceCmac, DeviceSecret, DeviceSecretError, FlashKey, HmacSecret, SlotError,
};
use atrest_secret::SecretArray;

const UUID: [u8; 16] = [16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31];
const LABEL: &[u8] = b"thermostat, aes-xts";

#[test]
fn a_key_of_each_length_is_the_one_that_python_computes() {
    for (len, expected) in [
        (16, "8fc8dae1a206266b4a7553b5d716a576"),
        (32, "98be98ac698546f9712fa66fb8a1a375365bcf95f6818ff633d245837ba37534"),
        (
            64,
            "3af5429b4554f8be7a316f8fcfad9c4e88453c4697dd6c6f951c94124bffb33d\
             65624293bf5a70ec26ea62e6570f2e2c67940c272c818e10bce79933c7609ca1",
        ),
    ] {
        let mut key = FlashKey::empty();
        key.of_device(&mut chip(), LABEL, &UUID, len).expect("a key");
        assert_eq!((hex(key.expose()), *key.uuid()), (expected.to_owned(), UUID));
    }
}

/// `openssl mac -cipher AES-256-CBC -macopt hexkey:4041…5f -in MESSAGE CMAC` gave what this chip answers.
#[test]
fn a_chip_with_cmac_alone_makes_the_key_of_its_two_halves() {
    struct OpenSsl;
    impl DeviceCmac for OpenSsl {
        fn cmac(&mut self, message: &[u8; 57], out: &mut [u8; 16]) -> Result<(), DeviceSecretError> {
            let [number, rest @ ..] = message;
            assert_eq!(
                hex(rest),
                "6174726573742064657669636520766f6c756d6520763100\
                 ecc434ff1fb50449e2f07306d9e0d08a7795d8739fac1e0d82a418407acf31ea"
            );
            *out = match number {
                1 => 0xc0a9_5be4_cc39_5d85_f07d_8bed_0b7b_3c18_u128,
                2 => 0x0a45_38dd_6d3e_069a_fd2a_d030_59b5_1bf5,
                _ => panic!("a third half"),
            }
            .to_be_bytes();
            Ok(())
        }
    }
    let mut key = FlashKey::empty();
    key.of_device(&mut CmacSecret(OpenSsl), LABEL, &UUID, 32).expect("a key");
    assert_eq!(hex(key.expose()), "c7d15ed6d947527cd634a581a041ec88ed649712b4004f0b5438b9d5351f63ed");

    // The same by AES alone, with the key that OpenSSL had.
    let aes_key: [u8; 32] = std::array::from_fn(|i| 0x40 + i as u8);
    let aes = SoftwareAes::load(&aes_key).expect("a key");
    let mut by_aes = FlashKey::empty();
    by_aes.of_device(&mut CmacSecret(AesCmac(aes)), LABEL, &UUID, 32).expect("a key");
    assert_eq!(by_aes.expose(), key.expose());
}

#[test]
fn a_chip_whose_aes_fails_makes_no_key() {
    struct Broken;
    impl AesEncrypt for Broken {
        type Error = u8;
        fn encrypt(&mut self, _: &mut [[u8; 16]]) -> Result<(), u8> {
            Err(3)
        }
    }
    let mut key = FlashKey::empty();
    let refused = key.of_device(&mut CmacSecret(AesCmac(Broken)), LABEL, &UUID, 32);
    assert_eq!(refused, Err(SlotError::Device(DeviceSecretError)));
    assert!(key.expose().is_empty());
}

#[test]
fn label_volume_length_and_chip_each_make_another_key() {
    let key = |chip: &mut HmacSecret, label: &[u8], uuid, len| {
        let mut key = FlashKey::empty();
        key.of_device(chip, label, uuid, len).expect("a key");
        key.expose()[..16].to_vec()
    };
    let mut other = HmacSecret::new(SecretArray::zeroed());
    let mut keys = vec![
        key(&mut chip(), LABEL, &UUID, 32),
        key(&mut chip(), b"", &UUID, 32),
        key(&mut chip(), LABEL, &[9; 16], 32),
        key(&mut chip(), LABEL, &UUID, 64),
        key(&mut other, LABEL, &UUID, 32),
    ];
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 5);
}

#[test]
fn a_chip_that_does_not_answer_and_a_volume_without_a_name_leave_no_key() {
    struct Answers(Result<u8, DeviceSecretError>);
    impl DeviceSecret for Answers {
        fn mac(&mut self, _: &[u8; 56], out: &mut [u8; 32]) -> Result<(), DeviceSecretError> {
            *out = [self.0?; 32];
            Ok(())
        }
    }
    let mut key = FlashKey::empty();
    for (uuid, len) in [([0; 16], 32), (UUID, 0), (UUID, 65)] {
        key.of_device(&mut chip(), LABEL, &UUID, 32).expect("a key, to be forgotten");
        assert_eq!(key.of_device(&mut chip(), LABEL, &uuid, len), Err(SlotError::OtherVolume));
        assert_eq!((key.expose(), *key.uuid()), (&[][..], [0; 16]));
    }
    for answer in [Err(DeviceSecretError), Ok(0)] {
        key.of_device(&mut chip(), LABEL, &UUID, 32).expect("a key, to be forgotten");
        let refused = key.of_device(&mut Answers(answer), LABEL, &UUID, 32);
        assert_eq!(refused, Err(SlotError::Device(DeviceSecretError)));
        assert_eq!((key.expose(), *key.uuid()), (&[][..], [0; 16]));
    }
    assert_eq!(key.of_device(&mut Answers(Ok(1)), LABEL, &UUID, 64), Ok(()));
    assert_eq!(key.expose().len(), 64);
}

fn chip() -> HmacSecret {
    HmacSecret::new(SecretArray::new(std::array::from_fn(|i| 0x40 + i as u8)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
