//! ChaCha20 for contents, an experiment of ours: held against OpenSSL, refused for writing unless that is acknowledged, and broken by
//! two snapshots, as whoever proposed it for the kernel said it would be.

use std::sync::Arc;

use atrest_filetree::{
    EncryptedFilesystem, EncryptedInode, Encryption, EncryptionFault, InodeCipher, Kind, Opened,
};
use atrest_secret::SecretBytes;
use atrest_testkit::oracle::Program;
use atrest_tree::fscrypt::{Context, EncryptionMode, KeyUse, Keyring, Padding, Policy};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha512;

const MASTER: [u8; 64] = [0x5a; 64];
const NONCE: [u8; 16] = *b"a nonce of 16 B.";
const UNIT: usize = 4096;

fn opened(keyring: &Keyring) -> Arc<dyn InodeCipher> {
    let names = keyring.add(SecretBytes::copy_from(&MASTER)).expect("64 bytes");
    let policy = Policy {
        contents: EncryptionMode::ChaCha20,
        names: EncryptionMode::Aes256Cts,
        padding: Padding::ThirtyTwo,
        key_use: KeyUse::PerFile,
        log2_data_unit: None,
        key: names[0],
    };
    let context = Context { policy, nonce: NONCE }.to_bytes();
    let filesystem = EncryptedFilesystem { uuid: [1; 16], block_size: 4096, stable_inodes: false };
    let inode = EncryptedInode {
        number: 12,
        kind: Kind::File,
        casefolded: false,
        context: &context,
        filesystem: &filesystem,
    };
    match keyring.open(&inode).expect("a policy of ours") {
        Opened::Unlocked(cipher) => cipher,
        Opened::Locked(name) => panic!("{name} is locked"),
    }
}

fn writable() -> Arc<dyn InodeCipher> {
    let keyring = Keyring::new();
    keyring.acknowledge_single_snapshot();
    opened(&keyring)
}

/// The keystream of a data unit by OpenSSL, under the key that version 2 derives for the file (RFC 5869, a short reference of our own).
fn keystream(unit: u64) -> Vec<u8> {
    let hmac = |key: &[u8], parts: &[&[u8]]| {
        let mut mac = Hmac::<Sha512>::new_from_slice(key).expect("any length");
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes()
    };
    let key = hmac(&hmac(&[0; 64], &[&MASTER]), &[b"fscrypt\0\x02", &NONCE, &[1]]);
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    // A counter of eight bytes from 0 on, then the nonce.
    let iv = [[0; 8], unit.to_le_bytes()].concat();
    let openssl =
        Program::named("openssl").words("enc -chacha20 -K").arg(hex(&key[..32])).arg("-iv").arg(hex(&iv));
    openssl.stdin(vec![0; UNIT]).ok().stdout
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

#[test]
fn contents_are_what_openssl_makes_of_them() {
    let cipher = writable();
    let plain: Vec<u8> = (0..3 * UNIT).map(|i| (i / 7) as u8).collect();
    let mut stored = plain.clone();
    cipher.encrypt_contents(5, &mut stored).expect("it is acknowledged");
    for (index, unit) in (5..).zip(stored.chunks(UNIT)) {
        let at = (index as usize - 5) * UNIT;
        assert_eq!(xor(unit, &keystream(index)), plain[at..at + UNIT], "unit {index}");
    }
    cipher.decrypt_contents(5, &mut stored).expect("it is read");
    assert_eq!(stored, plain);
}

#[test]
fn without_an_acknowledgement_it_is_only_read() {
    let mut stored = vec![7; UNIT];
    writable().encrypt_contents(0, &mut stored).expect("it is acknowledged");
    let ciphertext = stored.clone();
    let keyring = Keyring::new();
    let reader = opened(&keyring);
    assert_eq!(reader.encrypt_contents(0, &mut stored), Err(EncryptionFault::SingleSnapshot));
    assert_eq!(stored, ciphertext, "something was encrypted");
    reader.decrypt_contents(0, &mut stored).expect("it is read");
    assert_eq!(stored, vec![7; UNIT]);
    // What was opened before is not kept.
    keyring.acknowledge_single_snapshot();
    opened(&keyring).encrypt_contents(0, &mut stored).expect("it is acknowledged");
}

/// The attack: a backup from before a write, the medium from after it, and no key.
#[test]
fn two_snapshots_of_a_unit_give_the_difference_of_its_plaintexts() {
    let cipher = writable();
    let mut before = vec![0; UNIT];
    before[..24].copy_from_slice(b"Salary of Alice: 40000.\n");
    let mut after = before.clone();
    after[17..22].copy_from_slice(b"95000");
    let difference = xor(&before, &after);
    let mut guess = before.clone();
    cipher.encrypt_contents(3, &mut before).expect("it is acknowledged");
    cipher.encrypt_contents(3, &mut after).expect("it is acknowledged");
    assert_eq!(xor(&before, &after), difference);
    // Whoever can guess one of them has the other.
    guess = xor(&guess, &xor(&before, &after));
    assert_eq!(&guess[..24], b"Salary of Alice: 95000.\n");
}

#[test]
fn it_goes_with_keys_of_each_file_only_and_with_no_policy_of_version_1() {
    let policy = Policy {
        contents: EncryptionMode::ChaCha20,
        names: EncryptionMode::Aes256Cts,
        padding: Padding::Four,
        key_use: KeyUse::PerFile,
        log2_data_unit: None,
        key: atrest_filetree::KeyName::Identifier([0; 16]),
    };
    assert_eq!(policy.check(), Ok(()));
    for key_use in [KeyUse::Direct, KeyUse::InodeLblk64, KeyUse::InodeLblk32] {
        assert!(Policy { key_use, ..policy }.check().is_err(), "{key_use:?}");
    }
    assert!(Policy { key: atrest_filetree::KeyName::Descriptor([0; 8]), ..policy }.check().is_err());
    assert!(Policy { names: EncryptionMode::ChaCha20, ..policy }.check().is_err());
}
