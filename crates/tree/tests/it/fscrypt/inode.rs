//! The keyring and the ciphers of inodes, asked as a filesystem asks them: what they refuse, what they keep and what they forget.

use std::sync::Arc;

use atrest_filetree::{
    EncryptedFilesystem, EncryptedInode, Encryption, EncryptionFault, InodeCipher, KeyName, Kind, Opened,
};
use atrest_secret::SecretBytes;
use atrest_tree::fscrypt::{Context, EncryptionMode as Mode, KeyUse, Keyring, Padding, Policy};

use crate::fscrypt::common::master_key;

const PADDINGS: [Padding; 4] = [Padding::Four, Padding::Eight, Padding::Sixteen, Padding::ThirtyTwo];
const NONCE: [u8; 16] = *b"defghijklmnopqrs";

fn secret(bytes: &[u8]) -> SecretBytes {
    SecretBytes::copy_from(bytes)
}

fn policy(key: KeyName) -> Policy {
    let (contents, names) = (Mode::Aes256Xts, Mode::Aes256Cts);
    let (padding, key_use) = (Padding::Four, KeyUse::PerFile);
    Policy { contents, names, padding, key_use, log2_data_unit: None, key }
}

/// An inode of a filesystem.
#[derive(Clone, Copy)]
struct Of {
    number: u64,
    kind: Kind,
    casefolded: bool,
    uuid: u8,
    block_size: u32,
}

const FILE: Of = Of { number: 12, kind: Kind::File, casefolded: false, uuid: 1, block_size: 4096 };
const DIRECTORY: Of = Of { number: 13, kind: Kind::Directory, ..FILE };
const LINK: Of = Of { number: 14, kind: Kind::Link, ..FILE };

fn open(keyring: &Keyring, policy: Policy, of: Of) -> Result<Opened, EncryptionFault> {
    let filesystem =
        EncryptedFilesystem { uuid: [of.uuid; 16], block_size: of.block_size, stable_inodes: true };
    let context = Context { policy, nonce: NONCE }.to_bytes();
    keyring.open(&EncryptedInode {
        number: of.number,
        kind: of.kind,
        casefolded: of.casefolded,
        context: &context,
        filesystem: &filesystem,
    })
}

fn cipher(keyring: &Keyring, policy: Policy, of: Of) -> Arc<dyn InodeCipher> {
    match open(keyring, policy, of).expect("a policy") {
        Opened::Unlocked(cipher) => cipher,
        Opened::Locked(name) => panic!("{name} is locked"),
    }
}

fn keyring() -> (Keyring, KeyName) {
    let keyring = Keyring::new();
    let [identifier, _] = keyring.add(secret(&master_key(64))).expect("a master key");
    (keyring, identifier)
}

#[test]
fn names_and_targets_of_every_length_come_back_and_hide_their_lengths() {
    let (keyring, key) = keyring();
    for (contents, names) in [
        (Mode::Aes256Xts, Mode::Aes256Cts),
        (Mode::Aes256Xts, Mode::Aes256Hctr2),
        (Mode::Adiantum, Mode::Adiantum),
    ] {
        for padding in PADDINGS {
            let policy = Policy { contents, names, padding, ..policy(key) };
            let (directory, link) = (cipher(&keyring, policy, DIRECTORY), cipher(&keyring, policy, LINK));
            for len in (1..=255_usize).step_by(7).chain([1, 15, 16, 17, 31, 32, 33, 254, 255]) {
                let name: Vec<u8> = (0..len).map(|i| b'a' + (i % 26) as u8).collect();
                let stored = directory.encrypt_name(&name).expect("short enough");
                let expected = len.max(16).next_multiple_of(padding.bytes()).min(255);
                assert_eq!(stored.len(), expected, "{names:?} {padding:?} {len}");
                assert_ne!(stored[..len.min(16)], name[..len.min(16)]);
                assert_eq!(
                    directory.decrypt_names(&[&stored]),
                    Ok(vec![name.clone()]),
                    "{names:?} {padding:?}"
                );
                let stored = link.encrypt_link(&name).expect("short enough");
                let expected = len.max(16).next_multiple_of(padding.bytes());
                assert_eq!(stored[..2], (expected as u16).to_le_bytes(), "{padding:?} {len}");
                assert_eq!(stored.len(), 2 + expected);
                assert_eq!(link.decrypt_link(&stored), Ok(name), "{names:?} {padding:?}");
            }
        }
    }
}

#[test]
fn what_nobody_stores_is_refused() {
    use EncryptionFault::{CiphertextLength, PlaintextLength};
    let (keyring, key) = keyring();
    let (directory, link) = (cipher(&keyring, policy(key), DIRECTORY), cipher(&keyring, policy(key), LINK));
    let long = vec![b'n'; 5000];
    for bad in [&b""[..], b"a\0b", &long[..256]] {
        assert_eq!(directory.encrypt_name(bad), Err(PlaintextLength { len: bad.len() }));
    }
    for len in [0, 1, 15, 17, 18, 254, 256, 4096] {
        let refused = directory.decrypt_names(&[&long[..len]]);
        assert_eq!(refused, Err(CiphertextLength { len }), "{len}");
    }
    // A block has room for a link's length, and the kernel counts a NUL.
    for (block_size, longest) in [(4096, 4093), (1024, 1021)] {
        let number = u64::from(block_size);
        let link = cipher(&keyring, policy(key), Of { number, block_size, ..LINK });
        let stored = link.encrypt_link(&long[..longest]).expect("it fits");
        assert_eq!(stored.len(), 2 + longest);
        assert_eq!(link.decrypt_link(&stored), Ok(long[..longest].to_vec()));
        let refused = link.encrypt_link(&long[..=longest]);
        assert_eq!(refused, Err(PlaintextLength { len: longest + 1 }));
        let mut stored = ((longest + 1) as u16).to_le_bytes().to_vec();
        stored.extend(&long[..=longest]);
        assert_eq!(link.decrypt_link(&stored), Err(CiphertextLength { len: longest + 1 }));
    }
    for bad in [&b""[..], b"a\0b"] {
        assert_eq!(link.encrypt_link(bad), Err(PlaintextLength { len: bad.len() }));
    }
    for len in [0_u16, 15, 17] {
        let stored = [&len.to_le_bytes()[..], &long[..usize::from(len)]].concat();
        assert_eq!(link.decrypt_link(&stored), Err(CiphertextLength { len: len.into() }));
    }
    // Nor does a name hold what no directory can.
    let slash = directory.encrypt_name(b"a/b").expect("the filesystem has seen to that");
    assert_eq!(directory.decrypt_names(&[&slash]), Err(EncryptionFault::Implausible(key)));
}

#[test]
fn an_inode_has_a_cipher_for_what_it_holds_and_for_nothing_else() {
    let (keyring, key) = keyring();
    let (file, directory) = (cipher(&keyring, policy(key), FILE), cipher(&keyring, policy(key), DIRECTORY));
    assert_eq!((file.data_unit(), directory.data_unit()), (4096, 4096));
    let small = Policy { log2_data_unit: Some(9), ..policy(key) };
    assert_eq!(cipher(&keyring, small, FILE).data_unit(), 512);
    assert_eq!(cipher(&keyring, small, DIRECTORY).data_unit(), 4096);
    let name = directory.encrypt_name(b"name").expect("short");
    assert_eq!(file.encrypt_name(b"name"), Err(EncryptionFault::Cipher));
    assert_eq!(file.decrypt_names(&[&name]), Err(EncryptionFault::Cipher));
    let mut unit = [7; 4096];
    assert_eq!(directory.encrypt_contents(0, &mut unit), Err(EncryptionFault::Run));
    assert_eq!(directory.decrypt_contents(0, &mut unit), Err(EncryptionFault::Run));
    assert_eq!(unit, [7; 4096]);
    assert_eq!(file.encrypt_contents(0, &mut unit[..4000]), Err(EncryptionFault::Run));
    file.encrypt_contents(3, &mut unit).expect("a unit");
    assert_ne!(unit, [7; 4096]);
    let stored = unit;
    file.decrypt_contents(4, &mut unit).expect("a unit");
    assert_ne!(unit, [7; 4096], "the index is part of the IV");
    unit = stored;
    file.decrypt_contents(3, &mut unit).expect("a unit");
    assert_eq!(unit, [7; 4096]);
    // Indices of 32 bits end.
    let by_inode = Policy { key_use: KeyUse::InodeLblk64, ..policy(key) };
    let file = cipher(&keyring, by_inode, FILE);
    file.encrypt_contents(u64::from(u32::MAX), &mut unit).expect("the last unit");
    assert_eq!(file.encrypt_contents(1 << 32, &mut unit), Err(EncryptionFault::Run));
    assert_eq!(file.encrypt_contents(u64::from(u32::MAX), &mut [0; 8192]), Err(EncryptionFault::Run));
}

/// Names of random bytes without padding say nothing, so that a key that has its name from nowhere is not believed.
#[test]
fn a_key_that_only_its_giver_named_is_believed_on_evidence_alone() {
    let key = master_key(64);
    let usual = Keyring::new().add(secret(&key)).expect("a master key")[1];
    let KeyName::Descriptor(descriptor) = usual else { panic!("{usual:?}") };
    let says_nothing = [0xff; 16];
    for (name, given, doubtful) in
        [(descriptor, false, false), (descriptor, true, false), ([9; 8], true, true)]
    {
        let keyring = Keyring::new();
        if given {
            keyring.add_descriptor(name, secret(&key)).expect("a master key");
        } else {
            keyring.add(secret(&key)).expect("a master key");
        }
        let policy = policy(KeyName::Descriptor(name));
        let (directory, link) = (cipher(&keyring, policy, DIRECTORY), cipher(&keyring, policy, LINK));
        let stored = directory.encrypt_name(&says_nothing).expect("a name");
        let target = link.encrypt_link(&says_nothing).expect("a target");
        let wrong = EncryptionFault::Implausible(policy.key);
        let expected = if doubtful { Err(wrong) } else { Ok(says_nothing.to_vec()) };
        assert_eq!(directory.decrypt_names(&[&stored]), expected.clone().map(|name| vec![name]));
        assert_eq!(link.decrypt_link(&target), expected);
        // With one that speaks for the key, the others are believed as well.
        let text = directory.encrypt_name(b"text").expect("a name");
        let both = Ok(vec![says_nothing.to_vec(), b"text".to_vec()]);
        assert_eq!(directory.decrypt_names(&[&stored, &text]), both);
        let two = link.encrypt_link(&[0xff; 14]).expect("a target");
        assert_eq!(link.decrypt_link(&two), Ok(vec![0xff; 14]), "two bytes of padding are enough");
        let one = link.encrypt_link(&[0xff; 15]).expect("a target");
        assert_eq!(link.decrypt_link(&one).is_ok(), !doubtful, "one is not");
    }
    // Another key under the same name.
    let (right, wrong) = (Keyring::new(), Keyring::new());
    right.add_descriptor([9; 8], secret(&key)).expect("a master key");
    wrong.add_descriptor([9; 8], secret(&[&key[1..], &key[..1]].concat())).expect("a master key");
    let policy = policy(KeyName::Descriptor([9; 8]));
    let stored = cipher(&right, policy, DIRECTORY).encrypt_name(b"a name of a file").expect("a name");
    let refused = cipher(&wrong, policy, DIRECTORY).decrypt_names(&[&stored]);
    assert_eq!(refused, Err(EncryptionFault::Implausible(policy.key)));
    let target = cipher(&right, policy, LINK).encrypt_link(b"a target").expect("a target");
    let refused = cipher(&wrong, policy, LINK).decrypt_link(&target);
    assert_eq!(refused, Err(EncryptionFault::Implausible(policy.key)));
}

/// Computed with Python: HKDF as above, SipHash-2-4 after its paper, over the nonce's own key.
#[test]
fn casefolded_directories_have_a_hash_under_a_key_of_their_own() {
    let (keyring, key) = keyring();
    let folded = Of { casefolded: true, ..DIRECTORY };
    let directory = cipher(&keyring, policy(key), folded);
    assert_eq!(directory.name_hash(b"folded name"), Some((0x4e63_8dce, 0x43e0_4bb6)));
    assert_eq!(directory.name_hash(b"another one"), Some((0x2921_7418, 0x62f4_9f5b)));
    // The context tells the two apart, not the flag.
    assert_eq!(cipher(&keyring, policy(key), Of { number: 15, ..DIRECTORY }).name_hash(b"folded name"), None);
    let old = policy(KeyName::Descriptor([9; 8]));
    assert_eq!(open(&keyring, old, folded).map(drop), Err(EncryptionFault::Casefolded));
}

#[test]
fn a_keyring_knows_its_keys_and_says_when_they_change() {
    let keyring = Keyring::new();
    assert_eq!(keyring.names(), []);
    let mut generations = vec![keyring.generation()];
    let mut changed = |what: &str| {
        let now = keyring.generation();
        assert!(!generations.contains(&now), "{what}");
        generations.push(now);
    };
    let names = keyring.add(secret(&master_key(64))).expect("a master key");
    changed("a key came");
    keyring.add_descriptor([9; 8], secret(&master_key(64))).expect("a master key");
    changed("a key came");
    let mut all = vec![names[0], names[1], KeyName::Descriptor([9; 8])];
    all.sort_unstable();
    assert_eq!(keyring.names(), all);
    assert!(all.iter().all(|name| keyring.has(name)));
    assert!(!keyring.has(&KeyName::Descriptor([8; 8])));
    assert!(!keyring.remove(&KeyName::Descriptor([8; 8])));
    // Under both of its names; what was given apart stays.
    assert!(keyring.remove(&names[1]));
    changed("a key went");
    assert_eq!(keyring.names(), [KeyName::Descriptor([9; 8])]);
    assert!(matches!(open(&keyring, policy(names[0]), FILE), Ok(Opened::Locked(name)) if name == names[0]));
    assert!(!keyring.remove(&names[0]));
    keyring.acknowledge_single_snapshot();
    changed("more may be written");
    for len in [0, 15, 65] {
        let refused = keyring.add_descriptor([7; 8], SecretBytes::zeroed(len)).expect_err("no master key");
        assert_eq!(refused.len, len);
    }
    assert!(!keyring.has(&KeyName::Descriptor([7; 8])));
}

#[test]
fn a_policy_opens_nothing_on_a_filesystem_that_can_not_have_it() {
    let (keyring, key) = keyring();
    let opened = |policy: Policy, block_size, stable_inodes| {
        let filesystem = EncryptedFilesystem { uuid: [1; 16], block_size, stable_inodes };
        let context = Context { policy, nonce: NONCE }.to_bytes();
        let (number, kind, casefolded) = (u64::from(block_size), Kind::File, false);
        let inode = EncryptedInode { number, kind, casefolded, context: &context, filesystem: &filesystem };
        keyring.open(&inode).map(drop)
    };
    let by_inode = Policy { key_use: KeyUse::InodeLblk64, ..policy(key) };
    assert_eq!(opened(by_inode, 4096, true), Ok(()));
    assert_eq!(opened(by_inode, 4096, false), Err(EncryptionFault::UnstableInodes));
    let units = Policy { log2_data_unit: Some(11), ..policy(key) };
    assert_eq!(opened(units, 4096, false), Ok(()));
    assert_eq!(opened(units, 1024, false), Err(EncryptionFault::DataUnit { log2: 11 }));
}

#[test]
fn a_cipher_is_kept_for_its_inode_until_others_push_it_out() {
    let (keyring, key) = keyring();
    let base = policy(key);
    let first = cipher(&keyring, base, FILE);
    assert!(Arc::ptr_eq(&first, &cipher(&keyring, base, FILE)), "it is kept");
    let padded = Policy { padding: Padding::Eight, ..base };
    for (what, other) in [
        ("number", cipher(&keyring, base, Of { number: 13, ..FILE })),
        ("filesystem", cipher(&keyring, base, Of { uuid: 2, ..FILE })),
        ("policy", cipher(&keyring, padded, FILE)),
    ] {
        assert!(!Arc::ptr_eq(&first, &other), "{what}");
    }
    // 64 are kept, and these four are among them.
    (100..160).for_each(|number| drop(cipher(&keyring, base, Of { number, ..FILE })));
    assert!(Arc::ptr_eq(&first, &cipher(&keyring, base, FILE)), "there is room");
    cipher(&keyring, base, Of { number: 160, ..FILE });
    let later = cipher(&keyring, base, Of { number: 13, ..FILE });
    assert!(Arc::ptr_eq(&later, &cipher(&keyring, base, Of { number: 13, ..FILE })));
    assert!(!Arc::ptr_eq(&first, &cipher(&keyring, base, FILE)), "the oldest went");
    // Any change of the keys empties it.
    let again = cipher(&keyring, base, FILE);
    keyring.add_descriptor([9; 8], secret(&master_key(32))).expect("a master key");
    assert!(!Arc::ptr_eq(&again, &cipher(&keyring, base, FILE)));
}

#[test]
fn a_child_and_its_parent_have_the_same_policy_and_others_have_not() {
    let keyring = Keyring::new();
    let policy = policy(KeyName::Identifier([3; 16]));
    let bytes = |policy, nonce| Context { policy, nonce: [nonce; 16] }.to_bytes();
    let parent = bytes(policy, 1);
    assert!(keyring.same_policy(&parent, &parent) && keyring.same_policy(&parent, &bytes(policy, 2)));
    let child = keyring.child_context(&parent).expect("random bytes");
    assert!(keyring.same_policy(&parent, &child) && child != parent);
    for other in [
        Policy { key: KeyName::Identifier([4; 16]), ..policy },
        Policy { padding: Padding::Eight, ..policy },
        Policy { names: Mode::Aes256Hctr2, ..policy },
        Policy { log2_data_unit: Some(9), ..policy },
        Policy { key_use: KeyUse::InodeLblk64, ..policy },
    ] {
        assert!(!keyring.same_policy(&parent, &bytes(other, 1)), "{other:?}");
    }
    // What is no context has no policy, not even that of its like.
    assert!(!keyring.same_policy(b"", b"") && !keyring.same_policy(&parent, &parent[..39]));
    assert!(keyring.child_context(&parent[..39]).is_err());
}
