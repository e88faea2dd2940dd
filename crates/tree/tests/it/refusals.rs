//! What the encryption of files has to refuse, and what must never be the same twice.

use std::collections::HashSet;

use atrest_filetree::{
    EncryptedFilesystem, EncryptedInode, Encryption, EncryptionFault, KeyName, Kind, Opened,
};
use atrest_secret::SecretBytes;
use atrest_tree::ecryptfs::{EcryptfsError, Header, HeaderDamage, MetadataPlace};
use atrest_tree::fscrypt::{Context, EncryptionMode, KeyUse, Keyring, NONCE_LEN, Padding, Policy};

fn context(key: KeyName, contents: EncryptionMode, names: EncryptionMode) -> Context {
    let padding = Padding::ThirtyTwo;
    let policy = Policy { contents, names, padding, key_use: KeyUse::PerFile, log2_data_unit: None, key };
    Context { policy, nonce: [7; NONCE_LEN] }
}

/// A master key, whose halves differ, as AES-XTS demands.
fn key(from: u8, len: usize) -> SecretBytes {
    let bytes: Vec<u8> = (from..).take(len).collect();
    SecretBytes::copy_from(&bytes)
}

fn open(keyring: &Keyring, context: &Context) -> Result<Opened, EncryptionFault> {
    let filesystem = EncryptedFilesystem { uuid: [1; 16], block_size: 4096, stable_inodes: true };
    let bytes = context.to_bytes();
    keyring.open(&EncryptedInode {
        number: 12,
        kind: Kind::File,
        casefolded: false,
        context: &bytes,
        filesystem: &filesystem,
    })
}

#[test]
fn each_child_has_its_parent_s_policy_and_a_nonce_of_its_own() {
    let parent = context(KeyName::Identifier([3; 16]), EncryptionMode::Aes256Xts, EncryptionMode::Aes256Cts);
    let keyring = Keyring::new();
    let mut nonces = HashSet::from([parent.nonce]);
    for _ in 0..1000 {
        let child = keyring.child_context(&parent.to_bytes()).expect("random bytes");
        let child = Context::parse(&child).expect("a context");
        assert_eq!(child.policy, parent.policy);
        assert!(nonces.insert(child.nonce), "two inodes would share keys");
    }
}

#[test]
fn a_master_key_is_no_shorter_than_its_policy_demands() {
    use EncryptionMode as Mode;
    let descriptor = [9; 8];
    for (contents, names, v1, v2) in [
        (Mode::Aes256Xts, Mode::Aes256Cts, 64, 32),
        (Mode::Adiantum, Mode::Adiantum, 32, 32),
        (Mode::Aes128CbcEssiv, Mode::Aes128Cts, 16, 16),
    ] {
        for len in [16, 17, 31, 32, 63, 64] {
            let new = || key(0x5a, len);
            let keyring = Keyring::new();
            let [identifier, _] = keyring.add(new()).expect("a master key");
            keyring.add_descriptor(descriptor, new()).expect("a master key");
            for (name, needs) in [(identifier, v2), (KeyName::Descriptor(descriptor), v1)] {
                let opened = open(&keyring, &context(name, contents, names)).map(drop);
                let expected =
                    if len < needs { Err(EncryptionFault::KeyTooShort { len, needs }) } else { Ok(()) };
                assert_eq!(opened, expected, "{contents:?}, {len} bytes");
            }
        }
    }
    for len in [0, 15, 65] {
        assert!(Keyring::new().add(SecretBytes::zeroed(len)).is_err(), "{len}");
    }
}

#[test]
fn a_key_that_was_removed_opens_nothing_and_its_successor_has_ciphers_of_its_own() {
    let keyring = Keyring::new();
    let descriptor = [9; 8];
    let context =
        context(KeyName::Descriptor(descriptor), EncryptionMode::Aes256Xts, EncryptionMode::Aes256Cts);
    let contents = |keyring: &Keyring| match open(keyring, &context) {
        Ok(Opened::Unlocked(cipher)) => {
            let mut data = vec![0; 4096];
            cipher.decrypt_contents(0, &mut data).expect("a unit");
            Some(data)
        }
        Ok(Opened::Locked(_)) => None,
        Err(error) => panic!("{error:?}"),
    };
    keyring.add_descriptor(descriptor, key(1, 64)).expect("a master key");
    let first = contents(&keyring).expect("unlocked");
    assert_eq!(contents(&keyring).as_ref(), Some(&first), "again");
    assert!(keyring.remove(&KeyName::Descriptor(descriptor)));
    assert_eq!(contents(&keyring), None);
    keyring.add_descriptor(descriptor, key(2, 64)).expect("a master key");
    assert_ne!(contents(&keyring).expect("unlocked"), first, "the cipher of the key that was removed");
}

/// What is said of a header up to its packets, of which there are none.
fn header(flags: u32, extent: u32, count: u16) -> Result<Header, EcryptfsError> {
    let mut bytes = 5_u64.to_be_bytes().to_vec();
    for word in [0x1234_5678, 0x1234_5678 ^ 0x3c81_b7f5, flags, extent] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend(count.to_be_bytes());
    bytes.resize(4096, 0);
    assert!(Header::is_header(&bytes));
    Header::parse(&bytes, MetadataPlace::File)
}

#[test]
fn a_header_of_ecryptfs_says_what_we_understand_or_is_refused() {
    let (version_3, encrypted) = (3 << 24, 2);
    // Nothing is wrong with these but that packets are missing.
    for (extent, count) in [(4096, 2), (8192, 1), (4096, 3), (1, 8192), (16384, 1)] {
        let read = header(version_3 | encrypted, extent, count);
        assert!(matches!(read, Ok(_) | Err(EcryptfsError::Packets(_))), "{extent} {count}: {read:?}");
    }
    for flags in [version_3 | encrypted | 1, version_3 | 1] {
        assert!(matches!(header(flags, 4096, 2), Err(EcryptfsError::Hmac)), "{flags:#x}");
    }
    assert!(matches!(header(4 << 24 | encrypted, 4096, 2), Err(EcryptfsError::Version(4))));
    let refused = header(version_3, 4096, 2);
    assert!(matches!(refused, Err(EcryptfsError::Header(HeaderDamage::NotEncrypted { .. }))), "{refused:?}");
    // Contents lie behind the header, and begin with a page.
    for (extent, count) in [(4096, 1), (4096, 0), (0, 2), (0, 0), (2048, 3), (8191, 1), (8193, 1), (6000, 2)]
    {
        let refused = header(version_3 | encrypted, extent, count);
        let damage = HeaderDamage::Extents { extent, count };
        assert!(matches!(refused, Err(EcryptfsError::Header(found)) if found == damage), "{extent} {count}");
    }
}
