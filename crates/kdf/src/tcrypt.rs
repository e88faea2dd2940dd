//! What TrueCrypt and VeraCrypt do before and around PBKDF2: key files are mixed into the password, and a header does not say by which
//! of several derivations its key was made.
//!
//! Sources: "VeraCrypt Documentation", chapters "Header Key Derivation, Salt, and Iteration Count", "PIM" and "Keyfiles (technical details)", and
//! those of "TrueCrypt User's Guide" 7.1a.

use core::fmt;

use atrest_secret::SecretArray;

use crate::{Hash, KdfError, pbkdf2};

/// Bytes of salt at the beginning of a header.
pub const SALT_LEN: usize = 64;
/// Bytes that are derived, whatever the cipher: three keys of 32 bytes and as many for tweaks.
pub const KEY_LEN: usize = 192;
/// Largest PIM, by VeraCrypt's own bound.
pub const MAX_PIM: u32 = 2_147_468;
/// Bytes of a key file that count.
pub const MAX_KEY_FILE: usize = 1 << 20;

/// Bytes that a password can have in TrueCrypt, and the pool of key files for those that are no longer.
const SHORT: usize = 64;
/// Bytes that a password can have in VeraCrypt.
const LONG: usize = 128;

/// The two programs, whose volumes differ in the derivation and four letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// TrueCrypt, all versions.
    TrueCrypt,
    /// VeraCrypt, all versions.
    VeraCrypt,
}

/// One of the derivations that a header may need: PBKDF2-HMAC with a hash and a number of iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Derivation {
    /// Whose it is.
    pub family: Family,
    /// The hash of HMAC.
    pub hash: Hash,
    /// Iterations, without a PIM.
    pub iterations: u32,
    /// Whether the system that was encrypted boots by it: other volumes have other numbers of iterations.
    pub boot: bool,
}

const fn truecrypt(hash: Hash, iterations: u32, boot: bool) -> Derivation {
    Derivation { family: Family::TrueCrypt, hash, iterations, boot }
}

const fn veracrypt(hash: Hash, iterations: u32, boot: bool) -> Derivation {
    Derivation { family: Family::VeraCrypt, hash, iterations, boot }
}

/// All of them: TrueCrypt's, which cost next to nothing, and then VeraCrypt's, whose default is the first. The last takes the longest.
const DERIVATIONS: [Derivation; 14] = [
    truecrypt(Hash::Ripemd160, 2000, false),
    truecrypt(Hash::Ripemd160, 1000, true),
    truecrypt(Hash::Sha512, 1000, false),
    truecrypt(Hash::Whirlpool, 1000, false),
    truecrypt(Hash::Sha1, 2000, false),
    veracrypt(Hash::Sha256, 200_000, true),
    veracrypt(Hash::Blake2s256, 200_000, true),
    veracrypt(Hash::Ripemd160, 327_661, true),
    veracrypt(Hash::Sha512, 500_000, false),
    veracrypt(Hash::Sha256, 500_000, false),
    veracrypt(Hash::Blake2s256, 500_000, false),
    veracrypt(Hash::Whirlpool, 500_000, false),
    veracrypt(Hash::Ripemd160, 655_331, false),
    veracrypt(Hash::Streebog512, 500_000, false),
];

/// Why there is no derivation, or no password for it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcryptKdfError {
    /// The PIM is larger than [`MAX_PIM`].
    Pim {
        /// It.
        pim: u32,
    },
    /// The password has more bytes than the program takes.
    TooLong {
        /// Bytes it has.
        len: usize,
        /// Bytes it can have.
        most: usize,
    },
}

/// The derivations that a header may need: those for booting if it is of an encrypted `system` too. With a PIM, which TrueCrypt does not have,
/// VeraCrypt's alone, with the iterations that follow from it. A PIM of 0 is none.
///
/// # Errors
/// [`TcryptKdfError::Pim`] if the PIM is larger than VeraCrypt takes.
pub fn derivations(
    system: bool,
    pim: Option<u32>,
) -> Result<impl Iterator<Item = Derivation>, TcryptKdfError> {
    let pim = pim.filter(|pim| *pim != 0);
    match pim {
        Some(pim) if pim > MAX_PIM => return Err(TcryptKdfError::Pim { pim }),
        _ => {}
    }
    Ok(DERIVATIONS.into_iter().filter(move |one| system || !one.boot).filter_map(move |one| match pim {
        None => Some(one),
        Some(pim) if one.family == Family::VeraCrypt => {
            Some(Derivation { iterations: by_pim(pim, one.boot)?, ..one })
        }
        Some(_) => None,
    }))
}

/// The derivation of a new header that boots no system; `None` if the program has none with that hash, or has given it up, as VeraCrypt has RIPEMD-160.
///
/// # Errors
/// [`TcryptKdfError::Pim`] if the PIM is larger than VeraCrypt takes.
pub fn new_derivation(
    family: Family,
    hash: Hash,
    pim: Option<u32>,
) -> Result<Option<Derivation>, TcryptKdfError> {
    let given_up = family == Family::VeraCrypt && hash == Hash::Ripemd160;
    let is_meant = |one: &Derivation| one.family == family && one.hash == hash && !given_up;
    Ok(derivations(false, pim)?.find(is_meant))
}

/// Iterations that a PIM stands for; `None` if they are more than can be counted.
fn by_pim(pim: u32, boot: bool) -> Option<u32> {
    match boot {
        true => pim.checked_mul(2048),
        false => pim.checked_mul(1000)?.checked_add(15_000),
    }
}

impl Derivation {
    /// Derives a header's key.
    ///
    /// # Errors
    /// [`KdfError::TooMuchWork`] or [`KdfError::Cancelled`] under a [`WorkLimit`](crate::WorkLimit).
    pub fn derive(
        &self,
        password: &Password,
        salt: &[u8; SALT_LEN],
    ) -> Result<SecretArray<KEY_LEN>, KdfError> {
        let mut key = SecretArray::zeroed();
        pbkdf2(self.hash, password.bytes(), salt, self.iterations, &mut *key)?;
        Ok(key)
    }
}

/// Key files, mixed. Their order does not matter.
pub struct KeyFiles {
    /// For passwords of at most 64 bytes, and one position for all of a file.
    short: SecretArray<SHORT>,
    long: SecretArray<LONG>,
    count: usize,
}

impl Default for KeyFiles {
    fn default() -> Self {
        Self { short: SecretArray::zeroed(), long: SecretArray::zeroed(), count: 0 }
    }
}

impl Clone for KeyFiles {
    fn clone(&self) -> Self {
        let mut copy = Self { count: self.count, ..Self::default() };
        copy.short.copy_from_slice(&*self.short);
        copy.long.copy_from_slice(&*self.long);
        copy
    }
}

impl KeyFiles {
    /// Mixes in a file. Of its bytes the first [`MAX_KEY_FILE`] count.
    pub fn add(&mut self, file: &[u8]) {
        mix(file, &mut *self.short);
        mix(file, &mut *self.long);
        self.count += 1;
    }

    /// Whether there is none.
    pub fn are_none(&self) -> bool {
        self.count == 0
    }
}

/// Adds the register of a CRC-32, most significant byte first, to the pool after each byte of the file.
fn mix(file: &[u8], pool: &mut [u8]) {
    let mut crc = u32::MAX;
    let mut at = 0;
    for byte in file.iter().take(MAX_KEY_FILE) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            // No branch: key files are secret.
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
        for part in crc.to_be_bytes() {
            pool[at] = pool[at].wrapping_add(part);
            at = (at + 1) % pool.len();
        }
    }
}

/// What a family makes of a password and key files.
pub struct Password {
    bytes: SecretArray<LONG>,
    len: usize,
}

impl Password {
    /// A password, which may be empty, with key files mixed in.
    ///
    /// # Errors
    /// [`TcryptKdfError::TooLong`] if it has more than 64 bytes in TrueCrypt, or 128 in VeraCrypt.
    pub fn new(family: Family, password: &[u8], key_files: &KeyFiles) -> Result<Self, TcryptKdfError> {
        let most = match family {
            Family::TrueCrypt => SHORT,
            Family::VeraCrypt => LONG,
        };
        if password.len() > most {
            return Err(TcryptKdfError::TooLong { len: password.len(), most });
        }
        let pool: &[u8] = match (key_files.are_none(), password.len() <= SHORT) {
            (true, _) => &[],
            (false, true) => &*key_files.short,
            (false, false) => &*key_files.long,
        };
        let mut bytes = SecretArray::zeroed();
        bytes[..password.len()].copy_from_slice(password);
        for (byte, mixed) in bytes.iter_mut().zip(pool) {
            *byte = byte.wrapping_add(*mixed);
        }
        Ok(Self { bytes, len: password.len().max(pool.len()) })
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl fmt::Debug for KeyFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyFiles(..)")
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TrueCrypt => "TrueCrypt",
            Self::VeraCrypt => "VeraCrypt",
        })
    }
}

impl fmt::Display for TcryptKdfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pim { pim } => write!(f, "a PIM of {pim} is more than VeraCrypt takes, which is {MAX_PIM}"),
            Self::TooLong { len, most } => {
                write!(f, "the password has {len} bytes, but at most {most} can be used")
            }
        }
    }
}

impl core::error::Error for TcryptKdfError {}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn a_pim_leaves_veracrypts_derivations_and_counts_their_iterations() {
        let all = |system, pim| derivations(system, pim).expect("in range").collect::<Vec<_>>();
        assert_eq!(all(true, None), DERIVATIONS);
        assert_eq!(all(true, Some(0)), DERIVATIONS);
        assert!(all(false, None).iter().all(|one| !one.boot));
        let some = all(true, Some(485));
        assert!(some.iter().all(|one| one.family == Family::VeraCrypt));
        let iterations = |boot| move |one: &&Derivation| one.boot == boot;
        assert!(some.iter().filter(iterations(false)).all(|one| one.iterations == 500_000));
        assert!(some.iter().filter(iterations(true)).all(|one| one.iterations == 2048 * 485));
        assert_eq!(
            derivations(false, Some(MAX_PIM + 1)).err(),
            Some(TcryptKdfError::Pim { pim: MAX_PIM + 1 })
        );
        // Its iterations fit, but for those of a system.
        assert_eq!(all(false, Some(MAX_PIM)).len(), 6);
        assert_eq!(all(true, Some(MAX_PIM)).len(), 6);
    }

    #[test]
    fn a_new_header_has_a_derivation_that_its_program_still_makes() {
        let iterations = |family, hash, pim| {
            new_derivation(family, hash, pim).expect("in range").map(|one| (one.iterations, one.boot))
        };
        assert_eq!(iterations(Family::VeraCrypt, Hash::Sha512, None), Some((500_000, false)));
        assert_eq!(iterations(Family::VeraCrypt, Hash::Sha256, Some(1)), Some((16_000, false)));
        assert_eq!(iterations(Family::VeraCrypt, Hash::Ripemd160, None), None);
        assert_eq!(iterations(Family::TrueCrypt, Hash::Ripemd160, None), Some((2000, false)));
        assert_eq!(iterations(Family::TrueCrypt, Hash::Sha256, None), None);
        // TrueCrypt has no PIM.
        assert_eq!(iterations(Family::TrueCrypt, Hash::Sha512, Some(1)), None);
    }

    #[test]
    fn passwords_are_as_long_as_their_program_takes_them() {
        let none = KeyFiles::default();
        let len = |family, len| {
            Password::new(family, &[7; 200][..len], &none).map(|password| password.bytes().len())
        };
        assert_eq!(len(Family::TrueCrypt, 64), Ok(64));
        assert_eq!(len(Family::TrueCrypt, 65), Err(TcryptKdfError::TooLong { len: 65, most: 64 }));
        assert_eq!(len(Family::VeraCrypt, 128), Ok(128));
        assert_eq!(len(Family::VeraCrypt, 129), Err(TcryptKdfError::TooLong { len: 129, most: 128 }));
        assert_eq!(len(Family::VeraCrypt, 0), Ok(0));
    }

    #[test]
    fn key_files_fill_a_pool_of_64_bytes_or_128_in_any_order() {
        let files = |names: &[&[u8]]| {
            let mut files = KeyFiles::default();
            names.iter().for_each(|file| files.add(file));
            files
        };
        let password = |len, files: &KeyFiles| {
            Password::new(Family::VeraCrypt, &[1; 128][..len], files).expect("short enough").bytes().to_vec()
        };
        let (one, other) = (files(&[b"first", b"second"]), files(&[b"second", b"first"]));
        assert_eq!(password(3, &one), password(3, &other));
        assert_eq!((password(64, &one).len(), password(65, &one).len()), (64, 128));
        assert_ne!(password(3, &one), password(3, &files(&[b"first"])));
        // The register after the letter a is !0xe8b7be43, by zlib.
        let letter = files(&[b"a"]);
        assert_eq!(password(0, &letter)[..5], [0x17, 0x48, 0x41, 0xbc, 0]);
        assert_eq!(password(2, &letter)[..5], [0x18, 0x49, 0x41, 0xbc, 0]);
        // What lies behind the first megabyte does not count.
        let (exact, more) = (std::vec![9; MAX_KEY_FILE], std::vec![9; MAX_KEY_FILE + 5]);
        assert_eq!(password(0, &files(&[&exact])), password(0, &files(&[&more])));
    }
}
