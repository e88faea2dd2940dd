//! The directory `.fscrypt` as somebody may have left it: records that are no records, and protectors that could be several.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use atrest_cipher::AesBlock;
use atrest_filetree::{KeyName, TreePath};
use atrest_secret::SecretBytes;
use atrest_testkit::Scratch;
use atrest_testkit::oracle::Program;
use atrest_tree::ecryptfs::{Keys, LowerTree};
use atrest_tree::fscrypt::Keyring;
use atrest_tree::fscrypt::metadata::{ChooseError, Metadata, MetadataError, RecordDamage, UnlockError};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const RAW: [u8; 32] = [0x42; 32];

/// Fields of a message, all of them bytes; numbers below 128 are written as they are.
fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, bytes) in fields {
        out.push(number << 3 | 2);
        assert!(bytes.len() < 1 << 14);
        out.extend([bytes.len() as u8 | 0x80, (bytes.len() >> 7) as u8]);
        out.extend(*bytes);
    }
    out
}

/// AES-256-CTR and HMAC-SHA256 under keys from HKDF-SHA256, as google/fscrypt has them; a short reference of our own.
fn wrapped(key: &[u8], wrapping: &[u8]) -> Vec<u8> {
    let hmac = |key: &[u8], parts: &[&[u8]]| -> Vec<u8> {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().to_vec()
    };
    let extracted = hmac(&[0; 32], &[wrapping]);
    let cipher_key = hmac(&extracted, &[&[1]]);
    let mac_key = hmac(&extracted, &[&cipher_key, &[2]]);
    let (aes, iv) = (AesBlock::new(&cipher_key).expect("32 bytes"), [0x30; 16]);
    let mut encrypted = key.to_vec();
    for (at, chunk) in encrypted.chunks_mut(16).enumerate() {
        let mut pad = iv;
        pad[15] += at as u8;
        aes.encrypt(&mut pad);
        chunk.iter_mut().zip(pad).for_each(|(byte, pad)| *byte ^= pad);
    }
    let tag = hmac(&mac_key, &[&iv, &encrypted]);
    message(&[(1, &iv), (2, &encrypted), (3, &tag)])
}

fn protector(descriptor: &str, name: &str, key: &[u8; 32]) -> Vec<u8> {
    let fields = message(&[(1, descriptor.as_bytes()), (3, name.as_bytes()), (7, &wrapped(key, &RAW))]);
    // A raw key: source 3.
    [&fields[..], &[0x10, 3]].concat()
}

/// A policy of version 2 and the slots that it has: descriptors, and what is wrapped for them under which key.
fn policy(name: &KeyName, slots: &[(&str, &[u8], &[u8; 32])]) -> Vec<u8> {
    let descriptor = name.to_string();
    let mut fields = message(&[(1, descriptor.as_bytes()), (2, &[0x08, 32, 0x10, 1, 0x18, 4, 0x20, 2])]);
    for (protector, key, wrapping) in slots {
        let slot = message(&[(1, protector.as_bytes()), (2, &wrapped(key, &wrapping[..]))]);
        fields.extend(message(&[(3, &slot)]));
    }
    fields
}

fn name_of(key: &[u8]) -> KeyName {
    Keyring::new().add(SecretBytes::copy_from(key)).expect("a master key")[0]
}

const A: &str = "00000000000000aa";
const B: &str = "00000000000000bb";

/// A directory as a filesystem's root. Files are read as they are.
fn read(root: &Path) -> Result<Metadata, MetadataError> {
    Metadata::read(&LowerTree::open(root, Keys::new(), true).expect("a directory"))
}

fn set_up() -> Scratch {
    let scratch = Scratch::new();
    scratch.directory(".fscrypt/policies");
    scratch.directory(".fscrypt/protectors");
    scratch
}

fn put(scratch: &Scratch, directory: &str, name: &str, bytes: &[u8]) {
    scratch.file(Path::new(".fscrypt").join(directory).join(name), bytes);
}

fn damaged(metadata: &Metadata) -> Vec<(String, RecordDamage)> {
    let of = |path: &TreePath| path.to_string().trim_start_matches("/.fscrypt/").to_owned();
    metadata.damaged().iter().map(|damaged| (of(&damaged.path), damaged.damage.clone())).collect()
}

#[test]
fn a_protector_gives_the_keys_of_its_policies_and_of_no_other() {
    let scratch = set_up();
    let keys: [Vec<u8>; 4] = std::array::from_fn(|i| (i as u8..).take(64).collect());
    let names: Vec<KeyName> = keys.iter().map(|key| name_of(key)).collect();
    let (of_a, of_b) = ([0xaa; 32], [0xbb; 32]);
    put(&scratch, "protectors", A, &protector(A, "a", &of_a));
    put(&scratch, "protectors", B, &protector(B, "b", &of_b));
    put(&scratch, "protectors", "00000000000000cc", &protector("00000000000000cc", "c", &[0xcc; 32]));
    let add = |i: usize, slots: &[(&str, &[u8], &[u8; 32])]| {
        put(&scratch, "policies", &names[i].to_string(), &policy(&names[i], slots));
    };
    add(0, &[(A, &keys[0], &of_a), (B, &keys[0], &of_b)]);
    add(1, &[(A, &keys[1], &of_a)]);
    // Authentic, and another policy's; and one that was changed.
    add(2, &[(A, &keys[0], &of_a), (B, &keys[2], &of_a)]);
    add(3, &[("00000000000000cc", &keys[3], &of_a)]);
    let metadata = read(scratch.as_path()).expect("it is set up");
    assert_eq!(damaged(&metadata), []);
    let unlock = |name: &str, secret: &[u8]| {
        metadata.unlock(metadata.choose(Some(name)).expect("there"), secret).map(|mut unlocked| {
            unlocked.keys.sort_by_key(|key| key.name);
            let found = unlocked.keys.iter().map(|key| (key.name, key.key.to_vec()));
            (found.collect::<Vec<_>>(), unlocked.damaged)
        })
    };
    let mut both = vec![(names[0], keys[0].clone()), (names[1], keys[1].clone())];
    both.sort_by_key(|(name, _)| *name);
    assert_eq!(unlock("a", &RAW), Ok((both, vec![names[2]])));
    assert_eq!(unlock(B, &RAW), Ok((vec![(names[0], keys[0].clone())], vec![names[2]])));
    // Nothing of it opens: which policy is damaged is told, rather than nothing.
    assert_eq!(unlock("c", &RAW), Err(UnlockError::DamagedPolicyKey { policy: names[3] }));
    let a = metadata.choose(Some("a")).expect("there").descriptor;
    assert_eq!(unlock("a", &[0x43; 32]), Err(UnlockError::WrongSecret { protector: a }));
    for len in [0, 31, 33, 64] {
        assert_eq!(unlock("a", &vec![0x42; len]), Err(UnlockError::RawKeyLen { len }));
    }
}

#[test]
fn files_that_are_no_records_are_named_and_take_nothing_along() {
    let scratch = set_up();
    let key: Vec<u8> = (0..64).collect();
    let name = name_of(&key);
    let of_a = [0xaa; 32];
    let good = policy(&name, &[(A, &key, &of_a)]);
    put(&scratch, "policies", &name.to_string(), &good);
    put(&scratch, "policies", "0011223344556677", &good);
    put(&scratch, "policies", ".tmp1234", b"unfinished");
    put(&scratch, "protectors", A, &protector(A, "a", &of_a));
    put(&scratch, "protectors", B, &protector(A, "a", &of_a));
    put(&scratch, "protectors", "00000000000000cc", b"\xff");
    put(&scratch, "protectors", ".tmp5678", b"unfinished");
    put(&scratch, "protectors", "00000000000000dd.link", b"UUID=1234\nPATH=/\n");
    put(&scratch, "protectors", "00000000000000DD.link", b"UUID=1234");
    put(&scratch, "protectors", "00000000000000ee.link", b"\xff");
    scratch.directory(".fscrypt/protectors/directory");
    symlink(A, scratch.path(".fscrypt/protectors/link")).expect("room");
    Program::named("mkfifo").arg(scratch.path(".fscrypt/policies/pipe")).ok();
    let unknown = |len: usize| {
        let mut bytes = protector("00000000000000ff", "f", &of_a);
        let more = len - bytes.len() - 3;
        bytes.push(15 << 3 | 2);
        bytes.extend([more as u8 | 0x80, (more >> 7) as u8]);
        bytes.resize(len, 0);
        bytes
    };
    put(&scratch, "protectors", "00000000000000ff", &unknown(16 << 10));
    let metadata = read(scratch.as_path()).expect("it is set up");
    let mut found = damaged(&metadata);
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let mut expected = vec![
        ("policies/0011223344556677".into(), RecordDamage::NameMismatch),
        ("policies/pipe".into(), RecordDamage::NotAFile),
        (format!("protectors/{B}"), RecordDamage::NameMismatch),
        ("protectors/00000000000000DD.link".into(), RecordDamage::Name),
        ("protectors/00000000000000cc".into(), RecordDamage::Malformed),
        ("protectors/00000000000000ee.link".into(), RecordDamage::Malformed),
        ("protectors/directory".into(), RecordDamage::NotAFile),
        ("protectors/link".into(), RecordDamage::NotAFile),
    ];
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(found, expected);
    assert_eq!((metadata.policies().len(), metadata.protectors().len(), metadata.links().len()), (1, 2, 1));
    let link = &metadata.links()[0];
    assert_eq!(
        (link.descriptor.to_string().as_str(), link.target.as_str()),
        ("00000000000000dd", "UUID=1234\nPATH=/")
    );
    put(&scratch, "protectors", "00000000000000ff", &unknown((16 << 10) + 1));
    let metadata = read(scratch.as_path()).expect("it is set up");
    let damage = RecordDamage::TooLarge { size: 16385, limit: 16384 };
    assert!(damaged(&metadata).contains(&("protectors/00000000000000ff".into(), damage)));
}

#[test]
fn a_protector_is_meant_only_if_it_is_the_only_one() {
    let scratch = set_up();
    let choose = |metadata: &Metadata, wanted: Option<&str>| {
        metadata.choose(wanted).map(|protector| protector.descriptor.to_string())
    };
    let now = || read(scratch.as_path()).expect("it is set up");
    assert_eq!(choose(&now(), None), Err(ChooseError::None));
    put(&scratch, "protectors", "00000000000000dd.link", b"UUID=1234");
    let metadata = now();
    let linked = Err(ChooseError::Linked(metadata.links()[0].clone()));
    assert_eq!(choose(&metadata, None), linked);
    assert_eq!(choose(&metadata, Some("00000000000000dd")), linked);
    assert_eq!(choose(&metadata, Some("dd")), Err(ChooseError::None));
    put(&scratch, "protectors", A, &protector(A, "mine", &[1; 32]));
    assert_eq!(choose(&now(), None), Ok(A.into()));
    assert_eq!(choose(&now(), Some("mine")), Ok(A.into()));
    assert_eq!(choose(&now(), Some(A)), Ok(A.into()));
    put(&scratch, "protectors", B, &protector(B, "mine", &[1; 32]));
    assert_eq!(choose(&now(), Some(B)), Ok(B.into()));
    for wanted in [None, Some("mine")] {
        assert_eq!(choose(&now(), wanted), Err(ChooseError::Ambiguous { count: 2 }));
    }
    assert_eq!(choose(&now(), Some("yours")), Err(ChooseError::None));
    put(&scratch, "protectors", B, b"\xff");
    let metadata = now();
    assert_eq!(choose(&metadata, Some(B)), Err(ChooseError::Damaged(metadata.damaged()[0].clone())));
    assert_eq!(choose(&metadata, None), Ok(A.into()));
    // Protectors of the filesystem that is linked to.
    let other = set_up();
    put(&other, "protectors", "00000000000000dd", &protector("00000000000000dd", "login", &[1; 32]));
    put(&other, "protectors", "00000000000000ee", &protector("00000000000000ee", "of nobody here", &[1; 32]));
    let (mut metadata, empty) = (now(), read(set_up().as_path()).expect("it is set up"));
    assert_eq!((metadata.follow_links(&empty), metadata.links().len()), (0, 1));
    assert_eq!(metadata.follow_links(&read(other.as_path()).expect("it is set up")), 1);
    assert_eq!((metadata.links().len(), metadata.protectors().len()), (0, 2));
    assert_eq!(choose(&metadata, Some("login")), Ok("00000000000000dd".into()));
}

#[test]
fn a_directory_is_set_up_or_not_and_has_only_so_many_records() {
    let scratch = Scratch::new();
    let now = || read(scratch.as_path()).map(|metadata| metadata.links().len());
    assert_eq!(now(), Err(MetadataError::NotSetUp));
    scratch.file(".fscrypt", b"");
    assert_eq!(now(), Err(MetadataError::NotSetUp));
    fs::remove_file(scratch.path(".fscrypt")).expect("ours");
    // Where an administrator put it.
    scratch.directory("elsewhere/policies");
    symlink("/elsewhere", scratch.path(".fscrypt")).expect("room");
    assert_eq!(now(), Err(MetadataError::NotSetUp));
    scratch.file("elsewhere/protectors", b"");
    assert_eq!(now(), Err(MetadataError::NotSetUp));
    fs::remove_file(scratch.path("elsewhere/protectors")).expect("ours");
    scratch.directory("elsewhere/protectors");
    assert_eq!(now(), Ok(0));
    for i in 0..4096 {
        fs::write(scratch.path(format!("elsewhere/protectors/{i:016x}.link")), b"PATH=/").expect("room");
    }
    assert_eq!(now(), Ok(4096));
    scratch.file("elsewhere/protectors/.tmp", b"");
    assert_eq!(now(), Err(MetadataError::TooManyRecords { limit: 4096 }));
}
