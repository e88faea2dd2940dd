//! Encrypted names and link targets: tag 70 packets, spelled in six bits a character behind a prefix.
//!
//! A name is encrypted block by block, behind 16 bytes or more that depend on the key alone and a zero. They make the same name
//! the same everywhere under a key, and here they prove that a name was decrypted with the right key.

use core::fmt;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use atrest_cipher::CbcRuns;
use atrest_codec::Reader;
use atrest_secret::{Locked, wipe};
use md5::{Digest, Md5};

use super::packet::{TAG_70, body, write_len};
use super::{EcryptfsError, FileCipher, Keys, Signature, Token, alphabet};

/// What an encrypted name begins with.
pub const NAME_PREFIX: &[u8] = b"ECRYPTFS_FNEK_ENCRYPTED.";
/// What names under a file's own key were to begin with, which no kernel ever wrote.
const FILE_KEY_PREFIX: &[u8] = b"ECRYPTFS_FEK_ENCRYPTED.";
/// Bytes before the zero that precedes a name, at least.
const PREPENDED: usize = 16;
/// What stands for a zero among them.
const NOT_ZERO: u8 = 0x42;
/// The longest packet whose length two bytes can say.
const MAX_BODY: usize = 8383;

/// Why a name could not be decrypted.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// It is not encrypted.
    Plain,
    /// It is encrypted under a key that is not at hand.
    NoKey {
        /// The key's signature.
        wanted: Signature,
    },
    /// It is not what an encrypted name can be, or was not encrypted under the key that it names.
    Damaged,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("the name is not encrypted"),
            Self::NoKey { wanted } => {
                write!(f, "the name is encrypted under the key with signature {wanted}, which is not at hand")
            }
            Self::Damaged => f.write_str("the encrypted name is damaged"),
        }
    }
}

impl core::error::Error for NameError {}

/// Encrypts names and link targets under one key, and decrypts those under any key at hand. Can be shared by threads.
pub struct NameCipher {
    keys: Keys,
    writing: Option<Writing>,
    reading: Mutex<HashMap<Which, Arc<Locked<CbcRuns>>>>,
}

/// A key, a cipher, and how much of the key it uses.
type Which = (Signature, FileCipher, usize);

struct Writing {
    token: Arc<Token>,
    cipher: FileCipher,
    key_len: usize,
}

impl NameCipher {
    /// To decrypt only.
    pub fn reading(keys: &Keys) -> Self {
        Self { keys: keys.clone(), writing: None, reading: Mutex::default() }
    }

    /// To encrypt under the key of this signature (`ecryptfs_fnek_sig`), with this cipher (`ecryptfs_fn_cipher`) and so many
    /// bytes of the key (`ecryptfs_fn_key_bytes`), and to decrypt.
    ///
    /// # Errors
    /// [`EcryptfsError::NoKey`] if the key is not at hand, [`EcryptfsError::KeyLength`] if the cipher takes no key
    /// of this length.
    pub fn new(
        keys: &Keys,
        signature: Signature,
        cipher: FileCipher,
        key_len: usize,
    ) -> Result<Self, EcryptfsError> {
        let token = keys.find(signature).ok_or(EcryptfsError::NoKey { wanted: vec![signature] })?;
        token.block_cipher(cipher, key_len)?;
        let writing = Some(Writing { token: Arc::clone(token), cipher, key_len });
        Ok(Self { writing, ..Self::reading(keys) })
    }

    /// Whether it can encrypt.
    pub fn encrypts(&self) -> bool {
        self.writing.is_some()
    }

    /// The name, or link target, as it stands in the lower directory. It may be longer than a lower filesystem allows: of 143
    /// bytes comes a name of at most 255.
    ///
    /// # Errors
    /// [`EcryptfsError::NoNameKey`] if this can only decrypt, [`EcryptfsError::NameTooLong`] if the name has more
    /// bytes than its format can say.
    pub fn encode(&self, name: &[u8]) -> Result<Vec<u8>, EcryptfsError> {
        let writing = self.writing.as_ref().ok_or(EcryptfsError::NoNameKey)?;
        let too_long = || EcryptfsError::NameTooLong { len: name.len() };
        let block = writing.cipher.block_cipher().block_len();
        // cannot overflow: names are shorter than 256 bytes.
        let unpadded = name.len().saturating_add(PREPENDED).saturating_add(1);
        let len = unpadded.checked_next_multiple_of(block).ok_or_else(too_long)?;
        // cannot be less: padding makes names longer.
        let mut encrypted = prepended(&writing.token, len.saturating_sub(name.len()));
        encrypted.extend(name);
        // cannot overflow: names are shorter than 256 bytes.
        let body_len = len.saturating_add(9);
        if body_len > MAX_BODY {
            wipe(&mut encrypted);
            return Err(too_long());
        }
        let cipher = self.cipher(&writing.token, writing.cipher, writing.key_len)?;
        cipher.encrypt_blocks(&mut encrypted).map_err(|_| too_long())?;
        let mut packet = vec![TAG_70];
        write_len(body_len, &mut packet);
        packet.extend(writing.token.signature().0);
        packet.push(writing.cipher.code());
        packet.extend(encrypted);
        let mut text = NAME_PREFIX.to_vec();
        alphabet::encode(&packet, &mut text);
        Ok(text)
    }

    /// The plain name, or link target.
    ///
    /// # Errors
    /// [`NameError::Plain`] if it is not encrypted, [`NameError::NoKey`] if its key is not at hand,
    /// [`NameError::Damaged`] if it can't be decrypted with the key that it names.
    pub fn decode(&self, text: &[u8]) -> Result<Vec<u8>, NameError> {
        let (signature, cipher, encrypted) = Self::parse(text)?;
        let token = self.keys.find(signature).ok_or(NameError::NoKey { wanted: signature })?;
        // The packet does not tell the length of the key; the bytes before the name do.
        let usual = self.writing.as_ref().filter(|writing| writing.cipher == cipher).map(|w| w.key_len);
        for key_len in usual.into_iter().chain(cipher.key_lens().iter().copied()) {
            let keyed = self.cipher(token, cipher, key_len).map_err(|_| NameError::Damaged)?;
            let mut plain = encrypted.clone();
            keyed.decrypt_blocks(&mut plain).map_err(|_| NameError::Damaged)?;
            if let Some(name) = strip(token, &plain) {
                let name = name.to_vec();
                wipe(&mut plain);
                return Ok(name);
            }
        }
        Err(NameError::Damaged)
    }

    /// Signature, cipher and what is encrypted, of a name that is.
    ///
    /// # Errors
    /// [`NameError::Plain`] if it does not begin with [`NAME_PREFIX`], [`NameError::Damaged`] if what follows is
    /// not what an encrypted name can be.
    pub fn parse(text: &[u8]) -> Result<(Signature, FileCipher, Vec<u8>), NameError> {
        if text.starts_with(FILE_KEY_PREFIX) {
            return Err(NameError::Damaged);
        }
        let text = text.strip_prefix(NAME_PREFIX).ok_or(NameError::Plain)?;
        let packet = alphabet::decode(text).ok_or(NameError::Damaged)?;
        let mut packet = Reader::new(&packet);
        if packet.u8() != Ok(TAG_70) {
            return Err(NameError::Damaged);
        }
        let mut body = Reader::new(body(&mut packet, 0).map_err(|_| NameError::Damaged)?);
        // Characters stand for three bytes each time, so there may be two more; not three.
        if packet.remaining() > 2 {
            return Err(NameError::Damaged);
        }
        let (signature, [code]): ([u8; 8], [u8; 1]) = body.field().map_err(|_| NameError::Damaged)?;
        let encrypted = body.rest();
        let cipher = FileCipher::from_code(code).ok_or(NameError::Damaged)?;
        let whole = encrypted.len().is_multiple_of(cipher.block_cipher().block_len());
        if encrypted.is_empty() || !whole {
            return Err(NameError::Damaged);
        }
        Ok((Signature(signature), cipher, encrypted.to_vec()))
    }

    fn cipher(
        &self,
        token: &Token,
        cipher: FileCipher,
        key_len: usize,
    ) -> Result<Arc<Locked<CbcRuns>>, EcryptfsError> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let which = (token.signature(), cipher, key_len);
        if let Some(keyed) = reading.get(&which) {
            return Ok(Arc::clone(keyed));
        }
        let keyed = Arc::new(Locked::new(token.block_cipher(cipher, key_len)?));
        reading.insert(which, Arc::clone(&keyed));
        Ok(keyed)
    }
}

impl fmt::Debug for NameCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameCipher").field("encrypts", &self.encrypts()).finish_non_exhaustive()
    }
}

/// The bytes before a name, so many with the zero: hashes of the key, of that, and so on.
fn prepended(token: &Token, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    let mut hash = Md5::digest(token.expose());
    for _ in 0..len.div_ceil(hash.len()) {
        bytes.extend(hash.iter().map(|byte| if *byte == 0 { NOT_ZERO } else { *byte }));
        hash = Md5::digest(hash);
    }
    // cannot be less: there is a byte at the end.
    bytes.truncate(len.saturating_sub(1));
    bytes.push(0);
    bytes
}

/// The name behind the bytes that only the right key gives.
fn strip<'a>(token: &Token, plain: &'a [u8]) -> Option<&'a [u8]> {
    let zero = plain.iter().position(|byte| *byte == 0).filter(|zero| *zero >= PREPENDED)?;
    let (before, name) = plain.split_at_checked(zero.checked_add(1)?)?;
    (before == prepended(token, before.len()) && !name.is_empty() && !name.contains(&0)).then_some(name)
}

#[cfg(test)]
mod tests {
    use atrest_secret::Passphrase;

    use super::*;

    fn keys(passphrase: &[u8]) -> (Keys, Signature) {
        let mut keys = Keys::new();
        let [_, names] = keys.add_passphrase(&Passphrase::copy_from(passphrase)).expect("a passphrase");
        (keys, names)
    }

    #[test]
    fn names_of_every_length_come_back_under_every_cipher() {
        let (keys, signature) = keys(b"correct horse");
        let reading = NameCipher::reading(&keys);
        assert!(!reading.encrypts());
        assert!(matches!(reading.encode(b"name"), Err(EcryptfsError::NoNameKey)));
        for cipher in (0..=255).filter_map(FileCipher::from_code) {
            for key_len in cipher.key_lens() {
                let names = NameCipher::new(&keys, signature, cipher, *key_len).expect("a key");
                assert!(names.encrypts());
                for len in [1, 2, 7, 8, 15, 16, 17, 100, 143, 255, 3000_usize] {
                    let name: Vec<u8> = (0..len).map(|i| 1 + (i % 255) as u8).collect();
                    let text = names.encode(&name).expect("short");
                    assert!(text.starts_with(NAME_PREFIX));
                    assert!(len > 143 || text.len() <= 255, "{cipher:?} {len}");
                    assert_eq!(names.decode(&text), Ok(name.clone()), "{cipher:?} {key_len} {len}");
                    // Whoever has the key needs not know its length.
                    assert_eq!(reading.decode(&text), Ok(name), "{cipher:?} {key_len} {len}");
                    let (found, of, encrypted) = NameCipher::parse(&text).expect("our own");
                    assert_eq!((found, of), (signature, cipher));
                    let block = cipher.block_cipher().block_len();
                    assert_eq!(encrypted.len(), (len + 17).next_multiple_of(block));
                }
            }
        }
        assert!(matches!(
            NameCipher::new(&keys, Signature([0; 8]), FileCipher::Aes128, 16),
            Err(EcryptfsError::NoKey { .. })
        ));
        assert!(matches!(
            NameCipher::new(&keys, signature, FileCipher::Aes128, 32),
            Err(EcryptfsError::KeyLength { .. })
        ));
    }

    #[test]
    fn a_name_is_as_long_as_two_bytes_can_say() {
        let (keys, signature) = keys(b"correct horse");
        let names = NameCipher::new(&keys, signature, FileCipher::Aes128, 16).expect("a key");
        // Signature, cipher, and whole blocks of the name behind 17 bytes.
        let longest = (MAX_BODY - 9) / 16 * 16 - 17;
        let name = vec![b'n'; longest];
        assert_eq!(names.encode(&name).map(|text| names.decode(&text)).expect("it fits"), Ok(name));
        for len in [longest + 1, longest + 17, 100_000] {
            let refused = names.encode(&vec![b'n'; len]);
            assert!(
                matches!(refused, Err(EcryptfsError::NameTooLong { len: found }) if found == len),
                "{len}"
            );
        }
    }

    #[test]
    fn what_is_no_encrypted_name_is_told_apart() {
        let (ours, signature) = keys(b"correct horse");
        let (others, wanted) = keys(b"battery staple");
        let names = NameCipher::new(&ours, signature, FileCipher::Aes128, 16).expect("a key");
        let foreign = NameCipher::new(&others, wanted, FileCipher::Aes128, 16).expect("a key");
        for plain in
            [&b""[..], b"name", b"ECRYPTFS", b"ECRYPTFS_FNEK_ENCRYPTED", b"ecryptfs_fnek_encrypted.x"]
        {
            assert_eq!(names.decode(plain), Err(NameError::Plain), "{plain:?}");
        }
        let theirs = foreign.encode(b"name").expect("short");
        assert_eq!(names.decode(&theirs), Err(NameError::NoKey { wanted }));
        assert_eq!(names.decode(b"ECRYPTFS_FEK_ENCRYPTED.abc"), Err(NameError::Damaged));
        let mut packet = Vec::new();
        let good = names.encode(b"a name of 20 letters").expect("short");
        packet.extend(alphabet::decode(&good[NAME_PREFIX.len()..]).expect("our own"));
        let text = |packet: &[u8]| {
            let mut text = NAME_PREFIX.to_vec();
            alphabet::encode(packet, &mut text);
            text
        };
        assert_eq!(names.decode(&text(&packet)), Ok(b"a name of 20 letters".to_vec()));
        // Tag, length, cipher.
        for (at, byte) in [(0, 0x47), (1, packet[1] - 1), (1, packet[1] + 16), (10, 0x05), (10, 0x08)] {
            let mut bad = packet.clone();
            bad[at] = byte;
            assert_eq!(names.decode(&text(&bad)), Err(NameError::Damaged), "byte {at}");
        }
        // Any bit of what is encrypted but those of the last block, which is only the name's.
        for at in 11..packet.len() - 2 {
            let mut bad = packet.clone();
            bad[at] ^= 0x10;
            let found = names.decode(&text(&bad));
            assert!(found != Ok(b"a name of 20 letters".to_vec()), "byte {at}");
            assert!(at >= 11 + 32 || found == Err(NameError::Damaged), "byte {at}: {found:?}");
        }
        for more in [1, 2, 3, 4] {
            let long = [&packet[..packet.len() - packet.len() % 3], &vec![0; more * 3]].concat();
            assert_eq!(names.decode(&text(&long)), Err(NameError::Damaged), "{more}");
        }
        for empty in [&[TAG_70][..], &[TAG_70, 0], &[TAG_70, 9, 1, 2, 3, 4, 5, 6, 7, 8, 7]] {
            assert_eq!(names.decode(&text(empty)), Err(NameError::Damaged), "{empty:?}");
        }
        let mut bad = good;
        bad[NAME_PREFIX.len() + 4] = b'/';
        assert_eq!(names.decode(&bad), Err(NameError::Damaged));
    }

    /// The bytes before a name are there in full, from the right key, and the name has something in it.
    #[test]
    fn only_a_name_behind_the_bytes_of_its_key_is_one() {
        let (keys, signature) = keys(b"correct horse");
        let token = keys.find(signature).expect("it is there");
        let behind = |len: usize, name: &[u8]| [&prepended(token, len)[..], name].concat();
        for len in [17, 18, 32, 40] {
            assert_eq!(strip(token, &behind(len, b"name")), Some(&b"name"[..]), "{len}");
            assert_eq!(prepended(token, len).len(), len);
            assert!(!prepended(token, len)[..len - 1].contains(&0));
        }
        assert_eq!(strip(token, &behind(16, b"name")), None, "too few bytes");
        assert_eq!(strip(token, &behind(17, b"")), None, "no name");
        assert_eq!(strip(token, &behind(17, b"na\0me")), None, "a zero in it");
        assert_eq!(strip(token, &prepended(token, 40)[..39]), None, "no zero");
        let mut wrong = behind(17, b"name");
        wrong[15] ^= 1;
        assert_eq!(strip(token, &wrong), None, "of another key");
    }

    /// Whoever writes under one cipher reads those under all of them.
    #[test]
    fn names_of_another_cipher_than_the_one_for_new_names_are_read() {
        let (keys, signature) = keys(b"correct horse");
        let of = |cipher, len| NameCipher::new(&keys, signature, cipher, len).expect("a key");
        let ours = of(FileCipher::Aes128, 16);
        for (cipher, len) in [(FileCipher::Aes256, 32), (FileCipher::Des3Ede, 24), (FileCipher::Cast5, 8)] {
            let text = of(cipher, len).encode(b"name").expect("short");
            assert_eq!(ours.decode(&text), Ok(b"name".to_vec()), "{cipher:?}");
        }
    }

    #[test]
    fn a_cipher_is_kept_by_key_cipher_and_length() {
        let (keys, signature) = keys(b"correct horse");
        let names = NameCipher::reading(&keys);
        let token = keys.find(signature).expect("it is there");
        let cipher = |cipher, len| names.cipher(token, cipher, len).expect("they go together");
        let one = cipher(FileCipher::Twofish, 16);
        assert!(Arc::ptr_eq(&one, &cipher(FileCipher::Twofish, 16)));
        assert!(!Arc::ptr_eq(&one, &cipher(FileCipher::Twofish, 32)));
        assert!(!Arc::ptr_eq(&one, &cipher(FileCipher::Cast6, 16)));
    }
}
