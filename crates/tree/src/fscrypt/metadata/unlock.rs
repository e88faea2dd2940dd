//! From a protector and its secret to master keys.

use atrest_filetree::KeyName;
use atrest_kdf::argon2;
use atrest_secret::{SecretArray, SecretBytes};

use super::super::keys::MasterKey;
use super::error::UnlockError;
use super::record::{PROTECTOR_KEY, Policy, Protector, ProtectorSource};

/// The master key of a policy.
#[derive(Debug)]
pub struct PolicyKey {
    /// What the policy calls it, which is what the key calls itself.
    pub name: KeyName,
    /// The key itself: 64 bytes in locked memory, for [`Keyring::add`](crate::fscrypt::Keyring::add).
    pub key: SecretBytes,
}

/// What a protector unlocks.
#[derive(Debug)]
pub struct Unlocked {
    /// Keys, in the order of the policies.
    pub keys: Vec<PolicyKey>,
    /// Policies that the protector protects, but whose wrapped key was changed or is another policy's.
    pub damaged: Vec<KeyName>,
}

/// Whether this key's names for itself include `name`. A record that was put under another policy's name is authentic, too.
fn calls_itself(key: &[u8], name: &KeyName) -> bool {
    let key = MasterKey::new(SecretBytes::copy_from(key));
    [key.identifier(), key.usual_descriptor()].contains(name)
}

/// Unlocks `protector` by a passphrase (the bytes of its text, without the end of the line) or by a raw key, and with it
/// those of `policies` that it protects. Nothing is derived before the costs are known to be accepted, and nothing for a
/// protector that protects no policy.
pub(super) fn unlock(
    protector: &Protector,
    policies: &[Policy],
    secret: &[u8],
) -> Result<Unlocked, UnlockError> {
    let protects = |policy: &&Policy| policy.keys.iter().any(|slot| slot.protector == protector.descriptor);
    if !policies.iter().any(|policy| protects(&policy)) {
        return Err(UnlockError::ProtectsNothing { protector: protector.descriptor });
    }
    let mut wrapping = SecretArray::<PROTECTOR_KEY>::zeroed();
    match &protector.source {
        ProtectorSource::LoginPassphrase { hashing, .. } | ProtectorSource::CustomPassphrase(hashing) => {
            argon2(&hashing.cost, secret, &hashing.salt, &mut wrapping[..]).map_err(UnlockError::Kdf)?;
        }
        ProtectorSource::RawKey if secret.len() == PROTECTOR_KEY => wrapping.copy_from_slice(secret),
        ProtectorSource::RawKey => return Err(UnlockError::RawKeyLen { len: secret.len() }),
    }
    let wrong = UnlockError::WrongSecret { protector: protector.descriptor };
    let unwrapped = protector.key.unwrap_with(&wrapping).map_err(|_| wrong)?;
    let mut protector_key = SecretArray::<PROTECTOR_KEY>::zeroed();
    // The record's length was checked when it was read.
    if unwrapped.len() != PROTECTOR_KEY {
        return Err(wrong);
    }
    protector_key.copy_from_slice(&unwrapped);
    let mut unlocked = Unlocked { keys: Vec::new(), damaged: Vec::new() };
    for policy in policies {
        for slot in policy.keys.iter().filter(|slot| slot.protector == protector.descriptor) {
            match slot.key.unwrap_with(&protector_key) {
                Ok(key) if calls_itself(&key, &policy.key_name) => {
                    unlocked.keys.push(PolicyKey { name: policy.key_name, key });
                }
                _ => unlocked.damaged.push(policy.key_name),
            }
        }
    }
    match (unlocked.keys.first(), unlocked.damaged.first()) {
        // Nothing opens: say why rather than give nothing.
        (None, Some(policy)) => Err(UnlockError::DamagedPolicyKey { policy: *policy }),
        _ => Ok(unlocked),
    }
}
