//! Wrapped passphrases (`ecryptfs-utils`, `~/.ecryptfs/wrapped-passphrase`): the passphrase of a tree, encrypted under another
//! one, usually that of a login.
//!
//! Version 1 is a signature, 16 digits, and the encrypted passphrase; its salt is the same for everybody. Version 2 has `:`, the
//! version and a salt of its own before these. The passphrase is filled up with zeros to whole blocks, each encrypted with
//! AES-128 on its own.

use core::fmt;

use atrest_cipher::AesBlock;
use atrest_secret::{Passphrase, Random, RandomError, SecretBytes, with_wiped_stack};

use super::{DEFAULT_SALT, EcryptfsError, MAX_PASSPHRASE, Signature, Token};

const BLOCK: usize = 16;
const KEY_LEN: usize = 16;

/// The form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrappedVersion {
    /// Without a salt of its own: who guesses passphrases guesses for everybody at once.
    V1,
    /// With a random salt.
    V2,
}

/// Why a wrapped passphrase could not be used or made.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrappedError {
    /// The file has a length that no wrapped passphrase has.
    Length {
        /// Bytes in it.
        len: usize,
    },
    /// It says a version that is not 2.
    Version(u8),
    /// Where the signature must be there are no 16 hexadecimal digits.
    NoSignature,
    /// The passphrase does not open it.
    WrongPassphrase {
        /// The signature of the one that would.
        wanted: Signature,
    },
    /// It opens, but what is in it is no passphrase: empty, or with a zero inside.
    Damaged,
    /// A passphrase has more than 64 bytes, or none, or a zero in it.
    Unusable {
        /// Bytes in it.
        len: usize,
    },
    /// The random source failed.
    Random(RandomError),
}

impl fmt::Display for WrappedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { len } => write!(f, "{len} bytes are no wrapped passphrase"),
            Self::Version(version) => write!(f, "wrapped passphrases of version {version} are not known"),
            Self::NoSignature => f.write_str("there is no signature where a wrapped passphrase has one"),
            Self::WrongPassphrase { .. } => {
                f.write_str("the passphrase does not open the wrapped passphrase")
            }
            Self::Damaged => f.write_str("the wrapped passphrase is damaged"),
            Self::Unusable { len } => {
                write!(
                    f,
                    "{len} bytes are no passphrase for eCryptfs, which takes 1 to 64 and no zero among them"
                )
            }
            Self::Random(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for WrappedError {}

/// A wrapped passphrase as its file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedPassphrase {
    version: WrappedVersion,
    salt: [u8; 8],
    signature: Signature,
    encrypted: Vec<u8>,
}

impl WrappedPassphrase {
    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// [`WrappedError::Length`] if no wrapped passphrase has so many bytes, [`WrappedError::Version`] if its
    /// version is not known, [`WrappedError::NoSignature`] if there are no digits where the signature must be.
    pub fn parse(bytes: &[u8]) -> Result<Self, WrappedError> {
        let wrong_length = WrappedError::Length { len: bytes.len() };
        let (version, salt, rest) = match bytes {
            [b':', 2, rest @ ..] => {
                let (salt, rest) = rest.split_first_chunk().ok_or(wrong_length)?;
                (WrappedVersion::V2, *salt, rest)
            }
            [b':', version, ..] => return Err(WrappedError::Version(*version)),
            _ => (WrappedVersion::V1, DEFAULT_SALT, bytes),
        };
        let (digits, encrypted) = rest.split_at_checked(16).ok_or(wrong_length)?;
        let signature = core::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or(WrappedError::NoSignature)?;
        let fits = (BLOCK..=MAX_PASSPHRASE).contains(&encrypted.len());
        if !fits || !encrypted.len().is_multiple_of(BLOCK) {
            return Err(wrong_length);
        }
        Ok(Self { version, salt, signature, encrypted: encrypted.to_vec() })
    }

    /// The bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.version == WrappedVersion::V2 {
            bytes.extend([b':', 2]);
            bytes.extend(self.salt);
        }
        bytes.extend(self.signature.to_string().bytes());
        bytes.extend(&self.encrypted);
        bytes
    }

    /// The form that it has.
    pub fn version(&self) -> WrappedVersion {
        self.version
    }

    /// Wraps a passphrase under another one.
    ///
    /// # Errors
    /// [`WrappedError::Unusable`] if `passphrase` is none for eCryptfs, or `wrapping` has more than
    /// [`MAX_PASSPHRASE`] bytes. [`WrappedError::Random`] if there is no salt to be had.
    pub fn wrap(
        passphrase: &Passphrase,
        wrapping: &Passphrase,
        version: WrappedVersion,
        random: &mut dyn Random,
    ) -> Result<Self, WrappedError> {
        let bytes = passphrase.expose();
        if bytes.is_empty() || bytes.len() > MAX_PASSPHRASE || bytes.contains(&0) {
            return Err(WrappedError::Unusable { len: bytes.len() });
        }
        let mut salt = DEFAULT_SALT;
        if version == WrappedVersion::V2 {
            random.fill(&mut salt).map_err(WrappedError::Random)?;
        }
        let token = derive(wrapping, salt)?;
        // It holds the passphrase only until the next lines.
        let mut encrypted = vec![0; bytes.len().next_multiple_of(BLOCK)];
        encrypted.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        with_wiped_stack(|| {
            let aes = block_cipher(&token)?;
            encrypted.as_chunks_mut().0.iter_mut().for_each(|block| aes.encrypt(block));
            Ok::<_, WrappedError>(())
        })?;
        Ok(Self { version, salt, signature: token.signature(), encrypted })
    }

    /// The passphrase inside.
    ///
    /// # Errors
    /// [`WrappedError::WrongPassphrase`] if `wrapping` is another one than it was wrapped under,
    /// [`WrappedError::Unusable`] if it has more than [`MAX_PASSPHRASE`] bytes. [`WrappedError::Damaged`] if what
    /// it opens is no passphrase.
    pub fn unwrap(&self, wrapping: &Passphrase) -> Result<Passphrase, WrappedError> {
        let token = derive(wrapping, self.salt)?;
        if token.signature() != self.signature {
            return Err(WrappedError::WrongPassphrase { wanted: self.signature });
        }
        let mut plain = SecretBytes::copy_from(&self.encrypted);
        with_wiped_stack(|| {
            let aes = block_cipher(&token)?;
            plain.as_chunks_mut().0.iter_mut().for_each(|block| aes.decrypt(block));
            Ok::<_, WrappedError>(())
        })?;
        let len = plain.iter().position(|byte| *byte == 0).unwrap_or(plain.len());
        let padded = plain.iter().skip(len).all(|byte| *byte == 0);
        if len == 0 || !padded {
            return Err(WrappedError::Damaged);
        }
        plain.truncate(len);
        Ok(Passphrase::new(plain))
    }
}

fn derive(wrapping: &Passphrase, salt: [u8; 8]) -> Result<Token, WrappedError> {
    Token::derive(wrapping, salt).map_err(|error| match error {
        EcryptfsError::PassphraseTooLong { len } => WrappedError::Unusable { len },
        _ => WrappedError::Unusable { len: wrapping.expose().len() },
    })
}

fn block_cipher(token: &Token) -> Result<AesBlock, WrappedError> {
    // cannot be out of range: tokens have 64 bytes.
    let key = token.expose().get(..KEY_LEN).unwrap_or(&[]);
    AesBlock::new(key).map_err(|_| WrappedError::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What somebody wrapped who does not fill up with zeros.
    fn wrapped(plain: &[u8; 2 * BLOCK]) -> Result<Passphrase, WrappedError> {
        let wrapping = Passphrase::copy_from(b"login passphrase");
        let token = derive(&wrapping, DEFAULT_SALT).expect("a token");
        let mut encrypted = plain.to_vec();
        let aes = block_cipher(&token).expect("a cipher");
        encrypted.as_chunks_mut().0.iter_mut().for_each(|block| aes.encrypt(block));
        let (version, signature) = (WrappedVersion::V1, token.signature());
        WrappedPassphrase { version, salt: DEFAULT_SALT, signature, encrypted }.unwrap(&wrapping)
    }

    #[test]
    fn a_passphrase_is_filled_up_with_zeros_and_nothing_else() {
        let plain = |text: &[u8]| std::array::from_fn(|at| text.get(at).copied().unwrap_or(0));
        let is = |found: Result<Passphrase, WrappedError>, text: &[u8]| {
            assert!(found.expect("a passphrase") == Passphrase::copy_from(text));
        };
        is(wrapped(&plain(b"a passphrase")), b"a passphrase");
        let full = b"as long as two blocks together!!";
        is(wrapped(full), full);
        let mut last = plain(b"a passphrase");
        last[2 * BLOCK - 1] = 1;
        for damaged in [plain(b"a passphrase\0x"), last, plain(b""), plain(b"\0passphrase")] {
            assert_eq!(wrapped(&damaged).map(drop), Err(WrappedError::Damaged));
        }
    }

    #[test]
    fn what_is_no_wrapped_passphrase_is_told_apart() {
        let digits = b"ffd652511eaff04a";
        let bytes = |front: &[u8], len: usize| [front, digits, &vec![7; len]].concat();
        let version_2 = [&b":\x02"[..], b"saltsalt"].concat();
        for len in [16, 32, 48, 64] {
            let old = WrappedPassphrase::parse(&bytes(b"", len)).expect("a length");
            assert_eq!(
                (old.version, old.salt, old.to_bytes()),
                (WrappedVersion::V1, DEFAULT_SALT, bytes(b"", len))
            );
            let new = WrappedPassphrase::parse(&bytes(&version_2, len)).expect("a length");
            assert_eq!((new.version, new.salt), (WrappedVersion::V2, *b"saltsalt"));
            assert_eq!(new.to_bytes(), bytes(&version_2, len));
        }
        for len in [0, 1, 15, 17, 33, 63, 65, 80] {
            for front in [&b""[..], &version_2] {
                let bad = bytes(front, len);
                let refused = WrappedPassphrase::parse(&bad);
                assert_eq!(refused, Err(WrappedError::Length { len: bad.len() }), "{len}");
            }
        }
        for len in 0..version_2.len() {
            let refused = WrappedPassphrase::parse(&version_2[..len]);
            assert!(matches!(refused, Err(WrappedError::Length { .. } | WrappedError::Version(_))), "{len}");
        }
        for version in [0, 1, 3, b'f'] {
            let refused = WrappedPassphrase::parse(&bytes(&[b':', version], 16));
            assert_eq!(refused, Err(WrappedError::Version(version)));
        }
        for (at, byte) in [(0, b'g'), (15, b' '), (3, b'+'), (7, 0xff)] {
            let mut bad = bytes(b"", 16);
            bad[at] = byte;
            assert_eq!(WrappedPassphrase::parse(&bad), Err(WrappedError::NoSignature), "{at}");
        }
    }

    #[test]
    fn each_wrapping_has_a_salt_of_its_own() {
        let (secret, wrapping) = (Passphrase::copy_from(b"secret"), Passphrase::copy_from(b"login"));
        let wrap = |version| {
            WrappedPassphrase::wrap(&secret, &wrapping, version, &mut atrest_secret::OsRandom).expect("short")
        };
        let [one, other] = [WrappedVersion::V2; 2].map(wrap);
        assert_ne!(one.salt, other.salt);
        assert_ne!(one.salt, DEFAULT_SALT);
        assert_ne!((one.signature, &one.encrypted), (other.signature, &other.encrypted));
        assert_eq!(wrap(WrappedVersion::V1).salt, DEFAULT_SALT);
        let long = Passphrase::copy_from(&[b'x'; MAX_PASSPHRASE]);
        let longest = WrappedPassphrase::wrap(&long, &long, WrappedVersion::V1, &mut atrest_secret::OsRandom);
        assert!(longest.and_then(|wrapped| wrapped.unwrap(&long)).expect("64 bytes") == long);
        let over = Passphrase::copy_from(&[b'x'; MAX_PASSPHRASE + 1]);
        assert_eq!(one.unwrap(&over).map(drop), Err(WrappedError::Unusable { len: 65 }));
        let other = Passphrase::copy_from(b"logim");
        let wrong = WrappedError::WrongPassphrase { wanted: one.signature };
        assert_eq!(one.unwrap(&other).map(drop), Err(wrong));
    }
}
