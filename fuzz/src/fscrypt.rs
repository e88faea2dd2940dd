//! What fscrypt stores in an ext4: contexts, encrypted names, link targets and contents.

use std::path::Path;
use std::sync::Arc;

use atrest_filetree::{
    EncryptedFilesystem, EncryptedInode, Encryption, InodeCipher, KeyName, Kind, Opened, Timestamp, TreePath,
};
use atrest_inside::{Access, BuildOptions, Encrypt, NewPolicy, Source, build_image, open_tree_with};
use atrest_secret::SecretBytes;
use atrest_tree::fscrypt::{Context, Keyring, PolicyText};

use crate::trees::exhaust;
use crate::{Image, Reader};

/// That of the seeds. Its halves differ, as an XTS key's must.
const KEY: [u8; 64] = *b"The master key of the seeds: sixty-four bytes, no two halves be=";
/// Bytes read of each file.
const BYTES: i64 = 64 << 10;
/// Largest contents that are encrypted.
const CONTENTS: usize = 128 << 10;

/// A keyring with the key of the seeds, and its names.
pub fn fscrypt_keyring() -> (Arc<Keyring>, [KeyName; 2]) {
    let keyring = Keyring::new();
    let names = keyring.add(SecretBytes::copy_from(&KEY)).expect("64 bytes are a key");
    (Arc::new(keyring), names)
}

/// One inode: flags, the block size, the number and the length of the context lead, then comes the context, and then what its
/// cipher works on. With flag 1 the context names our key, with flag 2 ours is given for whatever descriptor it names.
pub fn fscrypt_context(data: &[u8]) {
    let mut reader = Reader(data);
    let flags = reader.u8();
    let block_size = 1024 << (reader.u8() % 7);
    let number = reader.u64();
    let len = reader.u8();
    let mut stored = reader.bytes(len.into()).to_vec();
    let (keyring, names) = fscrypt_keyring();
    if let Ok(mut context) = Context::parse(&stored) {
        assert_eq!(context.to_bytes(), stored, "a context changes");
        match context.policy.key {
            KeyName::Descriptor(descriptor) if flags & 2 != 0 => {
                keyring.add_descriptor(descriptor, SecretBytes::copy_from(&KEY)).expect("64 bytes are a key");
            }
            KeyName::Descriptor(_) if flags & 1 != 0 => context.policy.key = names[1],
            KeyName::Identifier(_) if flags & 1 != 0 => context.policy.key = names[0],
            _ => {}
        }
        stored = context.to_bytes();
        let child = keyring.child_context(&stored).expect("a context has children");
        assert!(keyring.same_policy(&stored, &child), "a child has another policy");
    }
    if flags & 4 != 0 {
        keyring.acknowledge_single_snapshot();
    }
    let filesystem = EncryptedFilesystem { uuid: [7; 16], block_size, stable_inodes: flags & 8 != 0 };
    let kind = [Kind::File, Kind::Directory, Kind::Link, Kind::File][usize::from(flags >> 6)];
    let casefolded = flags & 16 != 0;
    let inode = EncryptedInode { number, kind, casefolded, context: &stored, filesystem: &filesystem };
    let Ok(Opened::Unlocked(cipher)) = keyring.open(&inode) else { return };
    let sure = !Context::parse(&stored).is_ok_and(|context| {
        matches!(context.policy.key, KeyName::Descriptor(_)) && context.policy.key != names[1]
    });
    if kind == Kind::File {
        contents(&*cipher, reader);
    } else {
        names_and_links(&*cipher, reader, sure);
    }
}

fn contents(cipher: &dyn InodeCipher, mut reader: Reader<'_>) {
    let unit = cipher.data_unit();
    assert!(unit.is_power_of_two() && (512..=64 << 10).contains(&unit), "data units of {unit} bytes");
    let first = reader.u64();
    let mut units = reader.0[..reader.0.len().min(CONTENTS)].to_vec();
    let _ = cipher.decrypt_contents(first, &mut units.clone());
    units.resize(units.len().next_multiple_of(unit).max(unit), 0);
    let plain = units.clone();
    if cipher.encrypt_contents(first, &mut units).is_ok() {
        assert_ne!(units, plain, "contents are not encrypted");
        cipher.decrypt_contents(first, &mut units).expect("what can be encrypted can be decrypted");
        assert!(units == plain, "contents are decrypted to others");
    }
}

/// `sure`: nothing but the format itself says whether the key is right.
fn names_and_links(cipher: &dyn InodeCipher, mut reader: Reader<'_>, sure: bool) {
    let len = usize::from(reader.u8());
    let rest = reader.0;
    let stored: Vec<&[u8]> = rest.chunks(len.max(1)).take(64).collect();
    let _ = cipher.decrypt_names(&stored);
    let _ = cipher.decrypt_link(rest);
    let name = &rest[..rest.len().min(len)];
    let _ = cipher.name_hash(name);
    // These can't be names, and are refused when they are read.
    let possible = !name.iter().any(|byte| [0, b'/'].contains(byte)) && name != b"." && name != b"..";
    if let Ok(stored) = cipher.encrypt_name(name) {
        match cipher.decrypt_names(&[&stored]) {
            Ok(back) => assert_eq!(back, [name], "a name is decrypted to another"),
            Err(fault) => assert!(!sure || !possible, "{fault}"),
        }
    }
    if let Ok(stored) = cipher.encrypt_link(name) {
        match cipher.decrypt_link(&stored) {
            Ok(back) => assert_eq!(back, name, "a link is decrypted to another"),
            Err(fault) => assert!(!sure || !possible, "{fault}"),
        }
    }
}

/// An ext4 whose files are encrypted: listed and read, without the key with flag 1, and overwritten first with flag 2.
pub fn ext4_encrypted(data: &[u8]) {
    let (flags, image) = Image::decode(data);
    let keyring = if flags & 1 != 0 { Arc::new(Keyring::new()) } else { fscrypt_keyring().0 };
    let Ok(tree) = open_tree_with(image.clone(), Access::ReadWrite, Some(keyring)) else { return };
    if flags & 2 != 0 {
        for file in ["secret/file", "secret/inner/a long name for a file.text", "top"] {
            let file = TreePath::parse(file).expect("a path");
            let _ = tree.write_at(&file, 10, &[7; 3000]);
            let _ = tree.set_modified(&file, Timestamp { seconds: 1 << 31, nanoseconds: 1 });
        }
        let _ = tree.flush();
    }
    exhaust(&*tree, BYTES);
    drop(tree);
    assert!(flags & 2 != 0 || image.writes() == 0, "reading has written");
}

/// Builds the image `path` with a directory `secret` that is encrypted by `policy`; `work` is for what goes into it.
pub fn ext4_encrypted_seed(work: &Path, path: &Path, policy: &str) {
    let inner = work.join("secret/inner");
    std::fs::create_dir_all(&inner).expect("writable");
    for (name, len) in
        [("secret/file", 3000), ("secret/inner/a long name for a file.text", 9000), ("top", 40)]
    {
        std::fs::write(work.join(name), vec![b'x'; len]).expect("writable");
    }
    std::os::unix::fs::symlink("inner/a long name for a file.text", work.join("secret/link"))
        .expect("links can be made");
    let (encryption, names) = fscrypt_keyring();
    let text: PolicyText = policy.parse().expect("a policy");
    let policy = NewPolicy {
        encryption,
        context: text.with_key(&names).expect("our key").to_template(),
        stable_inodes: text.needs_stable_inodes(),
    };
    let secret = TreePath::parse("secret").expect("a path");
    let encrypt = Encrypt::Below(vec![(secret, Arc::new(policy))]);
    let options = BuildOptions { encrypt, ..BuildOptions::default() };
    let source = Source::scan(work, None).expect("readable");
    build_image(&source, path, &options, &mut ()).expect("it can be built");
}

/// One input of [`fscrypt_context`] for a policy of our key: a directory's, a link's or a file's.
pub fn fscrypt_context_seed(policy: &str, flags: u8) -> Vec<u8> {
    let (_, names) = fscrypt_keyring();
    let text: PolicyText = policy.parse().expect("a policy");
    let context = text.with_key(&names).expect("our key").to_template();
    let mut seed = vec![flags, 2];
    seed.extend_from_slice(&12_u64.to_le_bytes());
    seed.push(context.len() as u8);
    seed.extend_from_slice(&context);
    if flags >> 6 == 0 {
        seed.extend_from_slice(&3_u64.to_le_bytes());
    } else {
        seed.push(27);
    }
    seed.extend_from_slice(b"a long name for a file.text and what comes after it");
    seed
}
