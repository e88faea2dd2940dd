//! Which failures mean that another key may do better, and how keys are tried one after the other.

use core::fmt;

use atrest_flash::FlashHeaderError;
use atrest_kdf::WorkLimit;
use atrest_keyslot::flash::SlotError;
#[cfg(feature = "foreign")]
use atrest_volume::bitlocker::BitLockerError;
#[cfg(feature = "foreign")]
use atrest_volume::fvault2::FileVaultError;
use atrest_volume::luks2::reencrypt::ReencryptError;
use atrest_volume::tcrypt::TcryptError;
use atrest_volume::{ChangeError, UnlockError, UnlockOptions, Volume};

use crate::{Key, KeySource, Locked};

/// An error that may mean that the key was wrong.
pub trait MayBeWrongKey {
    /// Whether another key may open the volume. If all keyslots are damaged, no key can.
    fn is_wrong_key(&self) -> bool;

    /// Whether it says something of the one keyslot that was named, so that another keyslot may do.
    fn is_of_keyslot(&self) -> bool {
        false
    }
}

impl MayBeWrongKey for UnlockError {
    fn is_wrong_key(&self) -> bool {
        #[cfg(feature = "foreign")]
        match self {
            Self::BitLocker(error) => return matches!(error, BitLockerError::NotOpened { .. }),
            Self::FileVault(error) => return matches!(error, FileVaultError::NotOpened { .. }),
            _ => {}
        }
        matches!(
            self,
            Self::WrongPassphrase
                | Self::WrongPassphraseOrDamaged { .. }
                | Self::Tcrypt(TcryptError::NotOpened { .. })
        )
    }

    fn is_of_keyslot(&self) -> bool {
        matches!(self, Self::NoSuchKeyslot { .. } | Self::Unbound { .. } | Self::KeyslotDamaged { .. })
    }
}

impl MayBeWrongKey for ChangeError {
    fn is_wrong_key(&self) -> bool {
        matches!(self, Self::Unlock(error) if error.is_wrong_key())
    }

    fn is_of_keyslot(&self) -> bool {
        matches!(self, Self::Unlock(error) if error.is_of_keyslot())
    }
}

impl MayBeWrongKey for ReencryptError {
    fn is_wrong_key(&self) -> bool {
        matches!(self, Self::Change(error) if error.is_wrong_key())
    }
}

impl MayBeWrongKey for FlashHeaderError {
    fn is_wrong_key(&self) -> bool {
        matches!(self, Self::Slot { error: SlotError::WrongKey, .. })
    }
}

/// Why no key was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused<S, E> {
    /// The source has no key, and never had one.
    NoKey,
    /// The source failed.
    Source(S),
    /// The last attempt failed: its key was wrong and there is no other, or no key would help.
    Attempt(E),
}

/// Tries the keys of a source until one is right, or an attempt fails for another reason than its key. All keyslots
/// together cost no more work than one attempt may.
///
/// # Errors
/// [`Refused`] says whether the source or the last attempt failed.
pub fn try_keys<S: KeySource, T, E: MayBeWrongKey + fmt::Display>(
    source: &mut S,
    mut attempt: impl FnMut(&S::Key) -> Result<T, E>,
) -> Result<T, Refused<S::Error, E>> {
    let mut last = None;
    while let Some(key) = source.next_key().map_err(Refused::Source)? {
        match source.during(|| WorkLimit::default().during(|| attempt(&key))) {
            Ok(opened) => {
                source.right(key);
                return Ok(opened);
            }
            Err(error) if error.is_wrong_key() => {
                source.wrong(&error);
                last = Some(error);
            }
            Err(error) => return Err(Refused::Attempt(error)),
        }
    }
    Err(last.map_or(Refused::NoKey, Refused::Attempt))
}

/// Unlocks a volume with the first key of a source that is right, or with its own if that lies on it in the clear.
///
/// # Errors
/// Those of [`try_keys`]; its attempts are [`Locked::try_key`].
pub fn unlock<S: KeySource<Key = Key>>(
    locked: &dyn Locked,
    source: &mut S,
    options: &UnlockOptions,
) -> Result<Volume, Refused<S::Error, UnlockError>> {
    locked.check_expected(options).map_err(Refused::Attempt)?;
    if let Some(volume) = locked.without_key(options).map_err(Refused::Attempt)? {
        return Ok(volume);
    }
    try_keys(source, |key| locked.try_key(key, options))
}

impl<S: fmt::Display, E: fmt::Display> fmt::Display for Refused<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => f.write_str("there is no key to try"),
            Self::Source(error) => error.fmt(f),
            Self::Attempt(error) => error.fmt(f),
        }
    }
}

impl<S, E> core::error::Error for Refused<S, E>
where
    S: core::error::Error + 'static,
    E: core::error::Error + 'static,
{
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::NoKey => None,
            Self::Source(error) => Some(error),
            Self::Attempt(error) => Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has numbers for keys, and writes down what it hears.
    #[derive(Default)]
    struct Numbers {
        left: Vec<u8>,
        heard: Vec<String>,
    }

    impl KeySource for Numbers {
        type Key = u8;
        type Error = &'static str;

        fn next_key(&mut self) -> Result<Option<u8>, &'static str> {
            match self.left.pop() {
                Some(0) => Err("the file is gone"),
                key => Ok(key),
            }
        }

        fn wrong(&mut self, why: &dyn fmt::Display) {
            self.heard.push(why.to_string());
        }

        fn right(&mut self, key: u8) {
            self.heard.push(format!("{key} is right"));
        }
    }

    fn tried(keys: &[u8]) -> (Result<u8, Refused<&'static str, UnlockError>>, Vec<String>) {
        let mut source = Numbers { left: keys.iter().rev().copied().collect(), heard: Vec::new() };
        let result = try_keys(&mut source, |key| match key {
            7 => Ok(*key),
            8 => Err(UnlockError::KeyslotDamaged { slot: 1, offset: 4096 }),
            9 => Err(UnlockError::WrongPassphraseOrDamaged { slot: 1 }),
            _ => Err(UnlockError::WrongPassphrase),
        });
        (result, source.heard)
    }

    #[test]
    fn keys_are_tried_until_one_is_right_or_no_key_would_help() {
        let wrong = UnlockError::WrongPassphrase.to_string();
        assert_eq!(tried(&[1, 7, 2]), (Ok(7), vec![wrong.clone(), "7 is right".into()]));
        let damaged = UnlockError::WrongPassphraseOrDamaged { slot: 1 };
        assert_eq!(tried(&[9, 7]), (Ok(7), vec![damaged.to_string(), "7 is right".into()]));
        assert_eq!(tried(&[1, 9]).0, Err(Refused::Attempt(damaged)));
        let (result, heard) = tried(&[1, 8, 7]);
        assert_eq!(result, Err(Refused::Attempt(UnlockError::KeyslotDamaged { slot: 1, offset: 4096 })));
        assert_eq!(heard, [wrong]);
        assert_eq!(tried(&[1, 0, 7]).0, Err(Refused::Source("the file is gone")));
        assert_eq!(tried(&[]).0, Err(Refused::NoKey));
    }

    #[test]
    fn a_wrong_key_is_one_wherever_it_is_met() {
        let wrong = UnlockError::WrongPassphrase;
        assert!(ChangeError::Unlock(wrong.clone()).is_wrong_key());
        assert!(ReencryptError::Change(Box::new(ChangeError::Unlock(wrong))).is_wrong_key());
        assert!(FlashHeaderError::Slot { slot: 0, error: SlotError::WrongKey }.is_wrong_key());
        assert!(!ChangeError::Unlock(UnlockError::NoKeyslot).is_wrong_key());
        assert!(!UnlockError::WrongVolumeKey.is_wrong_key());
    }
}
