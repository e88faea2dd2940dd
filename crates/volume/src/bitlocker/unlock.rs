//! From a key that somebody has to the key of the data: derived key, volume master key, key of the data.

use atrest_format::bitlocker::{KEY_LEN, Protection, Protector, StartupKey, Wrapped, recovery_key};
use atrest_kdf::bitlocker::{of_password, of_recovery, stretch};
use atrest_secret::{SecretArray, SecretBytes, constant_time_eq};

use super::error::BitLockerError;
use super::{LockedBitLocker, Opened, ccm};
use crate::{Passphrase, UnlockError, VolumeKey};

/// Bytes before the key in what is wrapped: its size, its type, the type of its value, a version and a method.
const DATUM: usize = 12;
/// Method of what holds the hash of the metadata.
const HASH_METHOD: u32 = 0x2005;

/// What was given, as far as it is understood.
struct Given {
    password: Option<SecretArray<32>>,
    recovery: Option<SecretArray<32>>,
    startup: Option<StartupKey>,
}

impl Given {
    fn new(bytes: &[u8]) -> Self {
        Self {
            password: of_password(bytes),
            recovery: recovery_key(bytes).map(|key| of_recovery(&key)),
            startup: StartupKey::read(bytes),
        }
    }

    /// What a protector's key may be; `None` if nothing that was given is for it.
    fn key(&self, protector: &Protector) -> Result<Option<SecretArray<KEY_LEN>>, UnlockError> {
        let initial = match protector.protection {
            Protection::Password => self.password.as_ref(),
            Protection::RecoveryPassword => self.recovery.as_ref(),
            Protection::StartupKey => {
                let startup = self.startup.as_ref().filter(|startup| startup.protector == protector.guid);
                return Ok(startup.map(|startup| copied(&startup.key)));
            }
            _ => None,
        };
        match (initial, &protector.salt) {
            (Some(initial), Some(salt)) => Ok(Some(stretch(initial, salt)?)),
            _ => Ok(None),
        }
    }
}

fn copied(key: &[u8; KEY_LEN]) -> SecretArray<KEY_LEN> {
    let mut copy = SecretArray::zeroed();
    copy.copy_from_slice(key);
    copy
}

/// The method and the bytes of a key that was wrapped; `None` if the tag is wrong.
fn unwrap(key: &[u8; KEY_LEN], wrapped: &Wrapped) -> Result<Option<(u32, SecretBytes)>, UnlockError> {
    let Some(plain) = ccm::open(key, &wrapped.nonce, &wrapped.tag, &wrapped.ciphertext) else {
        return Ok(None);
    };
    let mut reader = atrest_codec::Reader::new(&plain);
    let fields = (|| {
        let (size, _, value) = (reader.le16()?, reader.le16()?, reader.le16()?);
        let (_, method) = (reader.le16()?, reader.le32()?);
        Ok((size, value, method, reader.rest()))
    })();
    // The tag is right: whoever wrapped it wrote something else than a key.
    let damaged = |_: atrest_codec::ReadError| BitLockerError::Datum;
    let (size, value, method, bytes) = fields.map_err(damaged)?;
    if usize::from(size) != plain.len() || value != 1 {
        return Err(BitLockerError::Datum.into());
    }
    const { assert!(DATUM == 2 + 2 + 2 + 2 + 4) };
    Ok(Some((method, SecretBytes::copy_from(bytes))))
}

impl LockedBitLocker {
    /// Opens it with a password, a recovery password or a startup key, whichever the bytes are. Every protector that they may be for is
    /// tried, or the one with the number `only`.
    ///
    /// # Errors
    /// [`BitLockerError::NotOpened`] if no protector opens, [`BitLockerError::NoneToTry`] if none could be tried here at all.
    /// [`BitLockerError::Datum`], [`BitLockerError::KeyLen`] or [`BitLockerError::Validation`] if what opens is not right.
    /// [`UnlockError::Kdf`] if a derivation is cancelled or takes too long.
    pub fn unlock(&self, given: &Passphrase, only: Option<u32>) -> Result<Opened, UnlockError> {
        let given = Given::new(given.expose());
        let protectors = &self.metadata.protectors;
        let numbered =
            || protectors.iter().zip(0..).filter(|(_, number)| only.is_none_or(|one| one == *number));
        if let Some(slot) = only.filter(|_| numbered().next().is_none()) {
            return Err(UnlockError::NoSuchKeyslot { slot });
        }
        for (protector, number) in numbered() {
            if let Some(key) = given.key(protector)?
                && let Some(opened) = self.open(protector, number, &key)?
            {
                return Ok(opened);
            }
        }
        let usable = [Protection::Password, Protection::RecoveryPassword, Protection::StartupKey];
        let kinds: Vec<_> = numbered().map(|(protector, _)| protector.protection).collect();
        Err(match kinds.iter().any(|kind| usable.contains(kind)) {
            true => BitLockerError::NotOpened { protectors: kinds },
            false => BitLockerError::NoneToTry { protectors: kinds },
        }
        .into())
    }

    /// Opens it with the key that lies beside the volume master key while protection is suspended; `None` if there is none.
    ///
    /// # Errors
    /// As [`unlock`](Self::unlock), once there is one.
    pub fn unlock_with_clear_key(&self) -> Result<Option<Opened>, UnlockError> {
        for (protector, number) in self.metadata.protectors.iter().zip(0..) {
            let Some(key) = &protector.clear_key else { continue };
            // If it does not open, a password may.
            if let Some(opened) = self.open(protector, number, key)? {
                return Ok(Some(opened));
            }
        }
        Ok(None)
    }

    /// With the key of the data itself, which nothing verifies.
    ///
    /// # Errors
    /// [`BitLockerError::KeyLen`] if the cipher has no keys of such a length.
    pub fn unlock_with_key(&self, key: &VolumeKey) -> Result<Opened, UnlockError> {
        let method = self.metadata.method.map_err(BitLockerError::Method)?;
        let (has, needs) = (key.len(), method.key_len());
        match has == needs {
            true => Ok(Opened::new(method, VolumeKey::copy_from(key.expose()), None)),
            false => Err(BitLockerError::KeyLen { has, needs }.into()),
        }
    }

    /// Follows the chain from a protector's key; `None` if it does not open the protector.
    fn open(
        &self,
        protector: &Protector,
        number: u32,
        key: &[u8; KEY_LEN],
    ) -> Result<Option<Opened>, UnlockError> {
        let Some(wrapped) = &protector.wrapped else { return Ok(None) };
        let Some((_, master)) = unwrap(key, wrapped)? else { return Ok(None) };
        let (has, needs) = (master.len(), KEY_LEN);
        let master: &[u8; KEY_LEN] = master.as_array().ok_or(BitLockerError::KeyLen { has, needs })?;
        self.validate(master)?;
        let (number_of_method, data) =
            unwrap(master, &self.metadata.data_key)?.ok_or(BitLockerError::Datum)?;
        let method = self.metadata.method.map_err(BitLockerError::Method)?;
        // What is above 16 bits is not always zero.
        let inner = atrest_format::bitlocker::Method::numbered((number_of_method & 0xffff) as u16);
        if inner != Some(method) {
            return Err(BitLockerError::Datum.into());
        }
        let wrong = BitLockerError::KeyLen { has: data.len(), needs: method.key_len() };
        let [first, second] = method.key(&data).ok_or(wrong)?;
        // cannot overflow: keys have 64 bytes at most.
        let mut whole = SecretBytes::zeroed(first.len().saturating_add(second.len()));
        for (to, from) in whole.iter_mut().zip(first.iter().chain(second)) {
            *to = *from;
        }
        Ok(Some(Opened::new(method, VolumeKey::new(whole), Some(number))))
    }

    /// Whether the metadata is what Windows wrote, by its hash under the volume master key. That of Vista has none.
    fn validate(&self, master: &[u8; KEY_LEN]) -> Result<(), UnlockError> {
        let Some(wrapped) = &self.metadata.validation else {
            return match self.metadata.version {
                1 => Ok(()),
                _ => Err(BitLockerError::Validation.into()),
            };
        };
        let opened = unwrap(master, wrapped)?;
        let is_right = opened.is_some_and(|(method, hash)| {
            method & 0xffff == HASH_METHOD && constant_time_eq(&hash, &self.hash)
        });
        is_right.then_some(()).ok_or(BitLockerError::Validation.into())
    }
}
