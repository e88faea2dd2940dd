//! Keys made of passphrases, and the signatures by which headers and names ask for them.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use atrest_cipher::CbcRuns;
use atrest_secret::{Locked, Passphrase, SecretArray, with_wiped_stack};
use sha2::{Digest, Sha512};

use super::{EcryptfsError, FileCipher};

/// Longest passphrase in bytes (`ECRYPTFS_MAX_PASSWORD_LENGTH`).
pub const MAX_PASSPHRASE: usize = 64;
/// The salt of keys for contents, unless another is chosen.
pub const DEFAULT_SALT: [u8; 8] = [0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77];
/// The salt of keys for names (`ecryptfs-add-passphrase --fnek`): ecryptfs-utils take the digits of 9988776655443322 for the salt
/// itself, as many of them as fit.
pub const DEFAULT_NAME_SALT: [u8; 8] = *b"99887766";

const ROUNDS: u32 = 65536;

/// Names a key without telling it: eight bytes of a hash of the key, printed as 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signature(pub [u8; 8]);

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A signature is 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSignature;

impl fmt::Display for NoSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a signature is 16 hexadecimal digits")
    }
}

impl core::error::Error for NoSignature {}

impl FromStr for Signature {
    type Err = NoSignature;

    fn from_str(text: &str) -> Result<Self, NoSignature> {
        if text.len() != 16 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NoSignature);
        }
        u64::from_str_radix(text, 16).map(|value| Self(value.to_be_bytes())).map_err(|_| NoSignature)
    }
}

/// A key made of a passphrase: it wraps the keys of files, or encrypts names.
pub struct Token {
    signature: Signature,
    salt: [u8; 8],
    /// Ciphers use its first bytes, as many as they want.
    key: Locked<SecretArray<64>>,
}

impl Token {
    /// SHA-512, 65536 times, over salt and passphrase; the signature is of one more. Takes some 50 ms.
    ///
    /// # Errors
    /// [`EcryptfsError::PassphraseTooLong`] beyond [`MAX_PASSPHRASE`] bytes.
    pub fn derive(passphrase: &Passphrase, salt: [u8; 8]) -> Result<Self, EcryptfsError> {
        let passphrase = passphrase.expose();
        if passphrase.len() > MAX_PASSPHRASE {
            return Err(EcryptfsError::PassphraseTooLong { len: passphrase.len() });
        }
        let mut key = Locked::new(SecretArray::zeroed());
        let signature = with_wiped_stack(|| {
            let mut digest = Sha512::new().chain_update(salt).chain_update(passphrase).finalize();
            for _ in 1..ROUNDS {
                digest = Sha512::digest(digest);
            }
            key.copy_from_slice(&digest);
            let signature = Sha512::digest(digest);
            atrest_secret::wipe(&mut digest);
            Signature(*signature.first_chunk().unwrap_or(&[0; 8]))
        });
        Ok(Self { signature, salt, key })
    }

    /// By which it is asked for.
    pub fn signature(&self) -> Signature {
        self.signature
    }

    /// What it was derived with.
    pub fn salt(&self) -> [u8; 8] {
        self.salt
    }

    /// The whole key.
    pub(super) fn expose(&self) -> &[u8; 64] {
        &self.key
    }

    /// A cipher under this key, to be used block by block.
    pub(super) fn block_cipher(&self, cipher: FileCipher, key_len: usize) -> Result<CbcRuns, EcryptfsError> {
        let wrong = EcryptfsError::KeyLength { cipher, len: key_len };
        let key = match self.key.get(..key_len) {
            Some(key) if cipher.takes_key_of(key_len) => key,
            _ => return Err(wrong),
        };
        CbcRuns::new(cipher.block_cipher(), key, 16, None).map_err(|_| wrong)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.signature)
    }
}

/// Keys at hand, several at once.
#[derive(Clone, Debug, Default)]
pub struct Keys(Vec<Arc<Token>>);

impl Keys {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key; one that is there already is not there twice.
    pub fn add(&mut self, token: Token) -> Signature {
        let signature = token.signature;
        if self.find(signature).is_none() {
            self.0.push(Arc::new(token));
        }
        signature
    }

    /// Adds the key for contents and the key for names that `ecryptfs-add-passphrase --fnek` makes of a passphrase, and
    /// returns their signatures in this order.
    ///
    /// # Errors
    /// Fails where [`Token::derive`] does. No key was added then.
    pub fn add_passphrase(&mut self, passphrase: &Passphrase) -> Result<[Signature; 2], EcryptfsError> {
        Ok([
            self.add(Token::derive(passphrase, DEFAULT_SALT)?),
            self.add(Token::derive(passphrase, DEFAULT_NAME_SALT)?),
        ])
    }

    /// The key of this signature.
    pub fn find(&self, signature: Signature) -> Option<&Arc<Token>> {
        self.0.iter().find(|token| token.signature == signature)
    }

    /// All of them, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Token>> {
        self.0.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_has_one_spelling_of_16_digits() {
        let signature: Signature = "ffd652511eaff04a".parse().expect("16 digits");
        assert_eq!(signature.0, [0xff, 0xd6, 0x52, 0x51, 0x1e, 0xaf, 0xf0, 0x4a]);
        for text in ["", "ffd652511eaff04", "ffd652511eaff04a0", "+fd652511eaff04a", "ffd652511eaff04g"] {
            assert_eq!(text.parse::<Signature>(), Err(NoSignature), "{text}");
        }
    }

    #[test]
    fn a_passphrase_has_64_bytes_at_most() {
        let derive = |len| Token::derive(&Passphrase::copy_from(&vec![b'x'; len]), DEFAULT_SALT);
        derive(MAX_PASSPHRASE).expect("64 bytes");
        match derive(MAX_PASSPHRASE + 1) {
            Err(EcryptfsError::PassphraseTooLong { len: 65 }) => {}
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn keys_are_found_by_their_signatures_and_are_there_once() {
        let mut keys = Keys::new();
        assert!(keys.is_empty());
        let passphrase = Passphrase::copy_from(b"correct horse");
        let signatures = keys.add_passphrase(&passphrase).expect("short");
        assert!(!keys.is_empty());
        let token = Token::derive(&passphrase, DEFAULT_SALT).expect("short");
        assert_eq!(token.salt(), DEFAULT_SALT);
        assert_eq!(keys.add(token), signatures[0]);
        let all: Vec<_> = keys.iter().map(|token| (token.signature(), token.salt())).collect();
        assert_eq!(all, [(signatures[0], DEFAULT_SALT), (signatures[1], DEFAULT_NAME_SALT)]);
        for signature in signatures {
            assert_eq!(keys.find(signature).map(|token| token.signature()), Some(signature));
        }
        assert!(keys.find(Signature([0; 8])).is_none());
    }
}
