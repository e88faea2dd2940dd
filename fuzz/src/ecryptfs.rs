//! Lower files, names and wrapped passphrases of eCryptfs.

use std::io;
use std::sync::OnceLock;

use atrest_secret::Passphrase;
use atrest_tree::ecryptfs::{
    EncryptedFile, Header, Keys, LowerFile, MetadataPlace, NameCipher, PacketSet, WrappedPassphrase,
};

/// Those that the seeds were made with; deriving them takes a while.
fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| {
        let mut keys = Keys::new();
        keys.add_passphrase(&Passphrase::copy_from(b"correct horse")).expect("short enough");
        keys
    })
}

/// A lower file, which is its own attribute, too.
struct Bytes<'a>(&'a [u8], bool);

impl LowerFile for Bytes<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let file = if self.1 { self.0 } else { &[] };
        let from = usize::try_from(offset).ok().and_then(|offset| file.get(offset..)).unwrap_or(&[]);
        let len = from.len().min(buf.len());
        buf[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        panic!("reading writes");
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        panic!("reading cuts");
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn xattr(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(Some(self.0.to_vec()))
    }

    fn set_xattr(&self, _: &[u8]) -> io::Result<()> {
        panic!("reading writes");
    }
}

/// A header with its packets, in the file or beside it; and what follows it, read with the key.
pub fn ecryptfs_header(data: &[u8]) {
    let _ = PacketSet::parse(data);
    for place in [MetadataPlace::File, MetadataPlace::Xattr] {
        if let Ok(header) = Header::parse(data, place) {
            assert!(!header.packets.0.is_empty(), "a header without a packet");
            assert!(i64::try_from(header.size).is_ok());
        }
    }
    for in_file in [true, false] {
        if let Ok(file) = EncryptedFile::open(Bytes(data, in_file), keys()) {
            let mut piece = vec![0; 9000];
            for offset in [0, 4000, file.len().saturating_sub(10), u64::MAX] {
                if let Ok(read) = file.read_at(offset, &mut piece) {
                    assert!(read as u64 <= file.len().saturating_sub(offset), "more than the file has");
                }
            }
        }
    }
}

/// An encrypted name. One that is decrypted was encrypted with this very key: encrypted again it has the same packet.
pub fn ecryptfs_name(data: &[u8]) {
    let _ = NameCipher::parse(data);
    static NAMES: OnceLock<NameCipher> = OnceLock::new();
    let names = NAMES.get_or_init(|| NameCipher::reading(keys()));
    if let Ok(name) = names.decode(data) {
        assert!(!name.is_empty() && !name.contains(&0));
        let (signature, cipher, encrypted) = NameCipher::parse(data).expect("it was parsed before");
        let again = cipher.key_lens().iter().any(|key_len| {
            let cipher = NameCipher::new(keys(), signature, cipher, *key_len).expect("a good key");
            let text = cipher.encode(&name).expect("it came from no more");
            NameCipher::parse(&text).is_ok_and(|(_, _, bytes)| bytes == encrypted)
        });
        assert!(again, "another name than it was");
    }
}

/// A file with a wrapped passphrase: what is read is written the same, but for the case of its signature.
pub fn ecryptfs_wrapped(data: &[u8]) {
    if let Ok(wrapped) = WrappedPassphrase::parse(data) {
        assert!(wrapped.to_bytes().eq_ignore_ascii_case(data));
    }
}
