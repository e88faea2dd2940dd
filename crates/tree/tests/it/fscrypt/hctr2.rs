//! Names under AES-256-HCTR2, which no kernel at hand has: `hctr2.txt` is what `hctr2.py` made of other people's AES and HKDF.

use atrest_filetree::{EncryptedFilesystem, EncryptedInode, Encryption, KeyName, Kind, Opened};
use atrest_secret::SecretBytes;
use atrest_tree::fscrypt::Keyring;

use crate::fscrypt::common::master_key;

fn bytes(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(byte).collect()
}

#[test]
fn names_are_those_of_an_independent_hctr2() {
    let keyring = Keyring::new();
    let [KeyName::Identifier(identifier), _] =
        keyring.add(SecretBytes::copy_from(&master_key(64))).expect("a master key")
    else {
        panic!("the first name is not an identifier")
    };
    // Version 2, AES-256-XTS and AES-256-HCTR2, padding to 32 bytes.
    let mut context = vec![2, 1, 10, 3, 0, 0, 0, 0];
    context.extend(identifier);
    context.extend(0..16_u8);
    let filesystem = EncryptedFilesystem { uuid: [1; 16], block_size: 4096, stable_inodes: true };
    let inode = EncryptedInode {
        number: 12,
        kind: Kind::Directory,
        casefolded: false,
        context: &context,
        filesystem: &filesystem,
    };
    let Ok(Opened::Unlocked(cipher)) = keyring.open(&inode) else { panic!("locked") };
    let vectors = include_str!("hctr2.txt");
    assert_eq!(vectors.lines().count(), 8);
    for line in vectors.lines() {
        let (plain, stored) = line.split_once(' ').expect("two words");
        let (plain, stored) = (bytes(plain), bytes(stored));
        assert_eq!(cipher.encrypt_name(&plain).as_ref(), Ok(&stored), "{line}");
        assert_eq!(cipher.decrypt_names(&[&stored]), Ok(vec![plain]), "{line}");
    }
}
