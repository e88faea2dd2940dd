//! From a passphrase to the volume key and back, on buffers of the caller (specification, figures 3 to 5).

use atrest_cipher::CipherSpec;
use atrest_kdf::{Hash, pbkdf2};
use atrest_secret::{Random, SecretArray, constant_time_eq, wipe};

use super::{DIGEST_LEN, Header, MAX_KEY_LEN, SALT_LEN, SlotError, SlotState};
use crate::{af, area};

/// Opens a keyslot: derives its key, decrypts and merges the area, checks the digest.
///
/// `area` holds the keyslot's area as read from the media ([`Header::area`] gives place and length); it is used as the
/// work area and wiped. `key` has [`Header::key_len`] bytes; it is wiped unless the digest agrees.
///
/// # Errors
/// [`SlotError::WrongKey`] if the passphrase is wrong or the area is damaged: LUKS1 can't tell which.
///
/// Before any work, [`SlotError::NotInUse`], [`SlotError::UnsupportedHash`],
/// [`SlotError::UnsupportedCipher`], [`SlotError::NullCipher`], [`SlotError::KeyLenForCipher`] or
/// [`SlotError::BufferLen`]. [`SlotError::Kdf`] if the derivation was refused or cancelled.
pub fn open(
    header: &Header,
    number: usize,
    passphrase: &[u8],
    area: &mut [u8],
    key: &mut [u8],
) -> Result<(), SlotError> {
    let opened = open_unwiped(header, number, passphrase, area, key);
    wipe(area);
    if opened.is_err() {
        wipe(key);
    }
    opened
}

fn open_unwiped(
    header: &Header,
    number: usize,
    passphrase: &[u8],
    area: &mut [u8],
    key: &mut [u8],
) -> Result<(), SlotError> {
    let slot =
        header.slot(number).filter(|slot| slot.state == SlotState::InUse).ok_or(SlotError::NotInUse)?;
    let (hash, cipher) = algorithms(header)?;
    check_buffers(header, number, area, key.len())?;
    let mut wrapping = SecretArray::<MAX_KEY_LEN>::zeroed();
    let bytes = header.key_len();
    let wrapping = wrapping.get_mut(..bytes).ok_or(SlotError::KeyLenForCipher { bytes })?;
    pbkdf2(hash, passphrase, &slot.salt, slot.iterations, wrapping)?;
    area::decrypt(&cipher, wrapping, area)?;
    af::merge(hash, area, slot.stripes, key)?;
    check_key(header, key)
}

/// Checks a key against the header's digest.
///
/// # Errors
/// [`SlotError::WrongKey`] if it is not the volume's, [`SlotError::BufferLen`] if it has another length,
/// [`SlotError::UnsupportedHash`] if this build does not know the hash, [`SlotError::Kdf`] if the digest's
/// derivation was refused or cancelled.
pub fn check_key(header: &Header, key: &[u8]) -> Result<(), SlotError> {
    let hash = header.known_hash()?;
    if key.len() != header.key_len() {
        return Err(SlotError::BufferLen { has: key.len(), needs: header.key_len() });
    }
    let mut digest = [0; DIGEST_LEN];
    pbkdf2(hash, key, header.digest_salt(), header.digest_iterations(), &mut digest)?;
    if constant_time_eq(&digest, header.digest()) { Ok(()) } else { Err(SlotError::WrongKey) }
}

/// The digest of a volume key for a new header.
///
/// # Errors
/// [`SlotError::Kdf`] for 0 iterations, or if the derivation was refused or cancelled.
pub fn new_digest(
    hash: Hash,
    key: &[u8],
    salt: &[u8; SALT_LEN],
    iterations: u32,
) -> Result<[u8; DIGEST_LEN], SlotError> {
    let mut digest = [0; DIGEST_LEN];
    pbkdf2(hash, key, salt, iterations, &mut digest)?;
    Ok(digest)
}

/// Makes the area of a keyslot that opens with `passphrase`, with this salt and these iterations. The header is not
/// changed: [`Header::use_slot`] does that once the area is on the media.
///
/// `area` is filled with what has to be written ([`Header::area`] gives place and length). On failure it is wiped.
///
/// # Errors
/// [`SlotError::NotInUse`] if the header has no keyslot of that number. [`SlotError::Af`] if `random` fails.
/// Hash, cipher, buffers and derivation are refused as in [`open`].
pub fn seal(
    header: &Header,
    number: usize,
    passphrase: &[u8],
    derivation: (u32, &[u8; SALT_LEN]),
    key: &[u8],
    random: &mut dyn Random,
    area: &mut [u8],
) -> Result<(), SlotError> {
    let sealed = seal_unwiped(header, number, passphrase, derivation, key, random, area);
    if sealed.is_err() {
        wipe(area);
    }
    sealed
}

fn seal_unwiped(
    header: &Header,
    number: usize,
    passphrase: &[u8],
    (iterations, salt): (u32, &[u8; SALT_LEN]),
    key: &[u8],
    random: &mut dyn Random,
    area: &mut [u8],
) -> Result<(), SlotError> {
    let slot = header.slot(number).ok_or(SlotError::NotInUse)?;
    let (hash, cipher) = algorithms(header)?;
    check_buffers(header, number, area, key.len())?;
    let mut wrapping = SecretArray::<MAX_KEY_LEN>::zeroed();
    let bytes = header.key_len();
    let wrapping = wrapping.get_mut(..bytes).ok_or(SlotError::KeyLenForCipher { bytes })?;
    pbkdf2(hash, passphrase, salt, iterations, wrapping)?;
    area.fill(0);
    af::split(hash, key, slot.stripes, random, area)?;
    Ok(area::encrypt(&cipher, wrapping, area)?)
}

/// Hash and cipher, if both are known, the cipher keeps secrets and has keys of the header's length.
fn algorithms(header: &Header) -> Result<(Hash, CipherSpec), SlotError> {
    let hash = header.known_hash()?;
    let cipher = header.cipher().map_err(SlotError::UnsupportedCipher)?;
    if cipher.is_null() {
        return Err(SlotError::NullCipher);
    }
    if !cipher.key_len_is_valid(header.key_len()) {
        return Err(SlotError::KeyLenForCipher { bytes: header.key_len() });
    }
    Ok((hash, cipher))
}

fn check_buffers(header: &Header, number: usize, area: &[u8], key_len: usize) -> Result<(), SlotError> {
    let (_, area_len) = header.area(number).ok_or(SlotError::NotInUse)?;
    for (has, needs) in [(area.len(), area_len), (key_len, header.key_len())] {
        if has != needs {
            return Err(SlotError::BufferLen { has, needs });
        }
    }
    Ok(())
}
