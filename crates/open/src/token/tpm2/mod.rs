//! `systemd-tpm2`: a TPM has sealed the secret, and unseals it while the machine is as it was, or for a PIN. `systemd-cryptenroll` makes
//! such tokens, and so does [`enrol`].

mod counter;
mod enrol;
mod fields;
mod measure;
mod pin;
mod signatures;

use atrest_secret::{Passphrase, SecretArray, SecretBytes};
use atrest_tpm::{Bank, Device, Parent, Pcrs, Policy, Sealed, SignedPolicy, Template, Tpm, TpmError};

pub use counter::{BadTpmStore, CounterError, Found, TpmStore};
pub use enrol::{Enrolment, KIND_NAME, enrol};
use fields::{Fields, Primary};
pub use measure::{VOLUME_KEY_PCR, fixed, is_there, measure};
use signatures::Signatures;

use super::enrolled::encoded;
use super::{Help, Kind, TokenError};

pub(super) const KIND: Kind = Kind { name: KIND_NAME, passphrase };

/// Checks what can be checked of a token's text without a TPM. For fuzzing.
#[doc(hidden)]
pub fn check(text: &str) -> Result<(), TokenError> {
    Fields::parse(text).map(drop)
}

/// What opens it, in words.
pub(super) fn needs(text: &str) -> String {
    let Ok(fields) = Fields::parse(text) else { return "a TPM, in a way that is not known here".into() };
    let pcrs = |mask: u32| {
        let pcrs = (0..24).filter(|pcr| mask >> pcr & 1 == 1).map(|pcr: u32| pcr.to_string());
        pcrs.collect::<Vec<_>>().join("+")
    };
    let mut conditions = Vec::new();
    if fields.mask != 0 {
        conditions.push(format!("PCR {} as it was", pcrs(fields.mask)));
    }
    if let Some(signer) = &fields.signer {
        conditions.push(format!("PCR {} as somebody signed it", pcrs(signer.mask)));
    }
    if fields.pin {
        conditions.push("a PIN".into());
    }
    match conditions[..] {
        [] => "the TPM of one machine".into(),
        _ => format!("the TPM of one machine, {}", conditions.join(" and ")),
    }
}

/// Asks whether a TPM answers: before somebody types a PIN.
///
/// # Errors
/// [`TokenError::Tpm`]
pub fn answers() -> Result<(), TokenError> {
    Ok(Tpm::open(&Device::from_environment()?).map(drop)?)
}

fn passphrase(text: &str, help: Help<'_>) -> Result<Passphrase, TokenError> {
    let fields = Fields::parse(text)?;
    let pin = match (fields.pin, help.pin) {
        (true, None) => {
            answers()?;
            return Err(TokenError::PinNeeded);
        }
        (true, Some(pin)) => Some(pin),
        (false, _) => None,
    };
    let mut tpm = Tpm::open(&Device::from_environment()?)?;
    let parent = parent(&mut tpm, &fields)?;
    let derived = pin.map(|pin| fields.derivation.derive(pin)).transpose()?;
    let none = SecretArray::zeroed();
    let auth = derived.as_ref().map_or(&none, |derived| &derived.auth);
    let secret = unseal(&mut tpm, &parent, &fields, auth)?;
    match derived.and_then(|derived| derived.lock) {
        Some(lock) => encoded(&lock.unlock(&secret)?),
        None => encoded(&secret),
    }
}

/// The key under which the secret was sealed.
fn parent(tpm: &mut Tpm, fields: &Fields) -> Result<Parent, TpmError> {
    match (&fields.storage_root, fields.primary) {
        (Some(serialised), _) => tpm.persistent_as(serialised),
        (None, Primary::Ecc) => tpm.create_primary(Template::Ecc(atrest_kdf::Hash::Sha256)),
        (None, Primary::Rsa) => tpm.create_primary(Template::Rsa(atrest_kdf::Hash::Sha256)),
    }
}

fn unseal(
    tpm: &mut Tpm,
    parent: &Parent,
    fields: &Fields,
    pin: &SecretArray<32>,
) -> Result<SecretBytes, TokenError> {
    let sealed = Sealed::parse(&fields.blob)?;
    // Where the token does not say, it was sealed to PCRs with one of these.
    let banks = match fields.bank {
        Some(bank) => vec![bank],
        None => [Bank::named("sha256"), Bank::named("sha1")].into_iter().flatten().collect(),
    };
    let signatures = fields.signer.as_ref().map(|_| Signatures::find()).transpose()?;
    let mut last = TpmError::NoBank;
    for bank in banks {
        let pcrs = |mask: u32| Pcrs { bank, mask };
        let find = |approved: &[u8; 32]| {
            let (signer, signatures) = (fields.signer.as_ref()?, signatures.as_ref()?);
            signatures.over(pcrs(signer.mask), &signer.key, approved)
        };
        let signed = fields.signer.as_ref().map(|signer| SignedPolicy {
            key: &signer.key,
            pcrs: pcrs(signer.mask),
            reference: &signer.reference,
            find: &find,
        });
        let policy =
            Policy { signed, pcrs: Some(pcrs(fields.mask)).filter(|pcrs| pcrs.mask != 0), pin: fields.pin };
        match tpm.unseal(parent, &sealed, &policy, &fields.policy, pin) {
            Err(error @ (TpmError::PcrsChanged { .. } | TpmError::PolicyUnmet | TpmError::NoBank)) => {
                last = error
            }
            done => return Ok(done?),
        }
    }
    Err(last.into())
}
