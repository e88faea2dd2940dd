//! New `systemd-tpm2` tokens, which systemd opens as well.

use atrest_kdf::Hash;
use atrest_secret::{OsRandom, Passphrase, Random, SecretArray};
use atrest_tpm::{Device, Pcrs, Policy, Template, Tpm, TpmError};
use base64ct::{Base64, Encoding};
use serde_json::json;

use super::pin::Derivation;
use crate::token::TokenError;
use crate::token::enrolled::{Enrolled, encoded};

/// The type of the tokens.
pub const KIND_NAME: &str = "systemd-tpm2";

/// What a new token asks of the machine and of its user.
#[derive(Clone, Copy, Debug, Default)]
pub struct Enrolment<'a> {
    /// PCRs that must have the values that they have now: bit n is PCR n.
    pub mask: u32,
    /// A PIN.
    pub pin: Option<&'a Passphrase>,
    /// systemd before 254 opens it, too: its key is made anew each time instead of kept by the TPM, and a PIN has no salt.
    pub for_old_systemd: bool,
}

/// Seals a fresh secret, and unseals it again to see that it can be done.
///
/// # Errors
/// [`TokenError::Tpm`]: there is no TPM, the PCRs are not in use, the owner has a password, or whatever else the TPM says.
pub fn enrol(enrolment: &Enrolment<'_>) -> Result<Enrolled, TokenError> {
    let mut tpm = Tpm::open(&Device::from_environment()?)?;
    let pcrs = match enrolment.mask {
        0 => None,
        mask => Some(Pcrs { bank: tpm.bank_in_use(mask)?, mask }),
    };
    let parent = match enrolment.for_old_systemd {
        true => tpm.create_primary(Template::Ecc(Hash::Sha256))?,
        false => tpm.storage_root()?,
    };
    let random = |_| TokenError::from(TpmError::NoRandom);
    let mut salt = None;
    let auth = match enrolment.pin {
        None => SecretArray::zeroed(),
        Some(pin) if enrolment.for_old_systemd => Derivation::Hash.derive(pin)?.auth,
        Some(pin) => {
            let mut bytes = vec![0; 32];
            OsRandom.fill(&mut bytes).map_err(random)?;
            salt = Some(Base64::encode_string(&bytes));
            Derivation::Pbkdf2 { salt: bytes }.derive(pin)?.auth
        }
    };
    let mut secret = SecretArray::<32>::zeroed();
    OsRandom.fill(&mut *secret).map_err(random)?;
    let policy = Policy { signed: None, pcrs, pin: enrolment.pin.is_some() };
    let made = tpm.seal(&parent, &policy, &auth, &*secret)?;
    let hex: String = made.policy.iter().map(|byte| format!("{byte:02x}")).collect();
    let list: Vec<u32> = (0..24).filter(|pcr| enrolment.mask >> pcr & 1 == 1).collect();
    let mut fields = json!({
        "type": KIND_NAME,
        "keyslots": [],
        "tpm2-blob": Base64::encode_string(&made.sealed.to_bytes()?),
        "tpm2-pcrs": list,
        "tpm2-policy-hash": hex,
        "tpm2-primary-alg": "ecc",
        "tpm2-pin": policy.pin,
    });
    let mut say = |name: &str, value: Option<String>| {
        if let (Some(object), Some(value)) = (fields.as_object_mut(), value) {
            object.insert(name.into(), value.into());
        }
    };
    say("tpm2-pcr-bank", pcrs.map(|pcrs| pcrs.bank.name().into()));
    say("tpm2_salt", salt);
    if !enrolment.for_old_systemd {
        say("tpm2_srk", Some(Base64::encode_string(&parent.serialised()?)));
    }
    Ok(Enrolled { passphrase: encoded(&*secret)?, fields })
}
