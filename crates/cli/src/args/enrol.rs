//! What a keyslot opens with instead of a passphrase that somebody chose.

use clap::{ArgGroup, Args};

#[cfg(feature = "whole")]
use super::factor::Factors;
use super::factor::NewFactorArgs;
use crate::failure::Failure;

/// What opens the new keyslot instead of a passphrase.
#[derive(Args, Clone, Debug, Default)]
#[command(group = ArgGroup::new("takes_pin").args(TAKE_PIN))]
#[command(next_help_heading = "Instead of a new passphrase (LUKS2)")]
pub struct EnrolArgs {
    /// Seal a random key in this machine's TPM, in a token that systemd-cryptsetup opens as well.
    #[arg(long, conflicts_with_all = ENROLS)]
    pub tpm2: bool,
    /// Let any N of these factors open the keyslot together: `--any 2 tpm2 fido2 tang=URL`. Factors are `tpm2`, `fido2`, `tang=URL`, `pkcs11=URI`,
    /// `passphrase` and `recovery`; `tpm2-pin` and `fido2-pin` ask for a PIN as well. `=FILE` behind a PIN or a passphrase takes it from
    /// the file. The volume stands before this option.
    #[cfg(feature = "whole")]
    #[arg(long, num_args = 3.., value_names = ["N", "FACTOR"], conflicts_with_all = ENROLS_ANY)]
    #[arg(conflicts_with_all = ["tpm2", "fido2", "tang", "recovery", "pkcs11"])]
    pub any: Vec<String>,
    #[command(flatten)]
    pub factor: NewFactorArgs,
    /// Take a secret from the FIDO2 security key that is plugged in, in a token that systemd-cryptsetup opens as well.
    #[arg(long, conflicts_with_all = ENROLS, conflicts_with = "tpm2")]
    pub fido2: bool,
    /// Encrypt a random key to the RSA key of a smart card (PKCS#11), in a token that systemd-cryptsetup opens as well. The URI says which card and
    /// key, as in `pkcs11:token=NAME;object=KEY`; `auto` is the only one there is. The PIN of the card is asked for now.
    #[cfg(feature = "whole")]
    #[arg(long, value_name = "URI", conflicts_with_all = ENROLS, conflicts_with_all = ["tpm2", "fido2", "tang", "recovery"])]
    pub pkcs11: Option<String>,
    /// Let the TPM ask for a PIN as well, which is made now, or the security key for its PIN, which it has already. It is asked for now.
    #[arg(long, requires = "takes_pin", conflicts_with = "pin_file")]
    pub pin: bool,
    /// Make a token that systemd before version 254 opens, too.
    #[arg(long, requires = "tpm2")]
    pub old_systemd: bool,
    /// Bind to this tang server, in a token that clevis opens as well.
    #[arg(long, value_name = "URL", conflicts_with_all = ENROLS, conflicts_with_all = ["tpm2", "fido2"])]
    pub tang: Option<String>,
    /// Make a recovery key, which is printed to be written down, in a token that systemd knows.
    #[arg(long, conflicts_with_all = ENROLS, conflicts_with_all = ["tpm2", "fido2", "tang"])]
    pub recovery: bool,
}

/// What takes a PIN.
const TAKE_PIN: &[&str] =
    if cfg!(feature = "whole") { &["tpm2", "fido2", "pkcs11"] } else { &["tpm2", "fido2"] };

impl EnrolArgs {
    /// Whether one of them is asked for.
    pub fn is_there(&self) -> bool {
        self.tpm2 || self.fido2 || self.recovery || self.tang.is_some() || self.has_more()
    }

    #[cfg(feature = "whole")]
    fn has_more(&self) -> bool {
        self.pkcs11.is_some() || !self.any.is_empty()
    }

    #[cfg(not(feature = "whole"))]
    fn has_more(&self) -> bool {
        false
    }

    /// How many of which factors, if that is asked for.
    ///
    /// # Errors
    /// The words of `--any` are none.
    #[cfg(feature = "whole")]
    pub fn factors(&self) -> Result<Option<Factors>, Failure> {
        if self.any.is_empty() { Ok(None) } else { Factors::parse(&self.any).map(Some) }
    }

    /// Fails if an option says something of what is not asked for, or the words of `--any` are none.
    ///
    /// # Errors
    /// The option and what it goes with.
    pub fn check(&self) -> Result<(), Failure> {
        #[cfg(feature = "whole")]
        let (card, any) = {
            self.factors()?;
            (self.pkcs11.is_some(), &self.any[..])
        };
        #[cfg(not(feature = "whole"))]
        let (card, any): (bool, &[String]) = (false, &[]);
        let has = |name: &str| any.iter().any(|factor| factor.starts_with(name));
        if self.factor.pin_file.is_some() && !(self.tpm2 || self.fido2 || card || has("pkcs11")) {
            return Err(Failure::parameters(
                "--pin-file goes with --tpm2, --fido2 and --pkcs11, or with the factor pkcs11=URI of --any",
            ));
        }
        if self.factor.pcrs.is_some() && !self.tpm2 && !has("tpm2") {
            return Err(Failure::parameters("--pcrs goes with --tpm2, or with the factor tpm2 of --any"));
        }
        if !self.factor.thumbprint.is_empty() && self.tang.is_none() && !has("tang") {
            return Err(Failure::parameters(
                "--thumbprint goes with --tang, or with the factor tang=URL of --any",
            ));
        }
        Ok(())
    }
}

/// Options that say something else of the new passphrase.
const ENROLS: &[&str] = &[
    "new_key_file",
    "new_passphrase_fd",
    "new_words",
    "new_token_id",
    "unbound",
    "pbkdf",
    "iter_time",
    "pbkdf_force_iterations",
    "pbkdf_memory",
    "for_memory",
    "for_time",
    "pbkdf_parallel",
    "hash",
    "garlic",
];

/// Options that say something else of the new passphrase than what a passphrase among several factors costs.
#[cfg(feature = "whole")]
const ENROLS_ANY: &[&str] = &[
    "new_key_file",
    "new_passphrase_fd",
    "new_words",
    "new_token_id",
    "unbound",
    "pbkdf",
    "hash",
    "garlic",
    "pin",
    "old_systemd",
];
