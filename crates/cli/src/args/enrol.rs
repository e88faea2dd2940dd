//! What a keyslot opens with instead of a passphrase that somebody chose.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

/// What opens the new keyslot instead of a passphrase.
#[derive(Args, Clone, Debug, Default)]
#[command(group = ArgGroup::new("takes_pin").args(["tpm2", "fido2"]))]
#[command(next_help_heading = "Instead of a new passphrase (LUKS2)")]
pub struct EnrolArgs {
    /// Seal a random key in this machine's TPM, in a token that systemd-cryptsetup opens as well.
    #[arg(long, conflicts_with_all = ENROLS)]
    pub tpm2: bool,
    /// PCRs of the TPM that must keep the values that they have now, as in 7+11; `none` for none [default: 7].
    #[arg(long, value_name = "LIST", value_parser = parse_pcrs, requires = "tpm2")]
    pub pcrs: Option<u32>,
    /// Take a secret from the FIDO2 security key that is plugged in, in a token that systemd-cryptsetup opens as well.
    #[arg(long, conflicts_with_all = ENROLS, conflicts_with = "tpm2")]
    pub fido2: bool,
    /// Let the TPM ask for a PIN as well, which is made now, or the security key for its PIN, which it has already. It is asked for now.
    #[arg(long, requires = "takes_pin")]
    pub pin: bool,
    /// Take that PIN from this file, every byte of it.
    #[arg(long, value_name = "FILE", requires = "takes_pin", conflicts_with = "pin")]
    pub pin_file: Option<PathBuf>,
    /// Make a token that systemd before version 254 opens, too.
    #[arg(long, requires = "tpm2")]
    pub old_systemd: bool,
    /// Bind to this tang server, in a token that clevis opens as well.
    #[arg(long, value_name = "URL", conflicts_with_all = ENROLS, conflicts_with_all = ["tpm2", "fido2"])]
    pub tang: Option<String>,
    /// Trust the tang server without a question if a key with this thumbprint has signed its list of keys.
    #[arg(long, value_name = "TEXT", requires = "tang")]
    pub thumbprint: Option<String>,
    /// Make a recovery key, which is printed to be written down, in a token that systemd knows.
    #[arg(long, conflicts_with_all = ENROLS, conflicts_with_all = ["tpm2", "fido2", "tang"])]
    pub recovery: bool,
}

impl EnrolArgs {
    /// Whether one of them is asked for.
    pub fn is_there(&self) -> bool {
        self.tpm2 || self.fido2 || self.recovery || self.tang.is_some()
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

/// A mask of PCRs, from numbers that are joined by `+` or by commas.
pub fn parse_pcrs(text: &str) -> Result<u32, String> {
    if text == "none" {
        return Ok(0);
    }
    text.split(['+', ',']).try_fold(0, |mask, pcr| match pcr.parse::<u32>() {
        Ok(pcr @ 0..=23) => Ok(mask | 1 << pcr),
        _ => Err(String::from("PCRs are numbers from 0 to 23, as in 7+11")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pcrs_are_numbers_and_nothing_else() {
        assert_eq!(parse_pcrs("7"), Ok(0x80));
        assert_eq!(parse_pcrs("0+7+11"), Ok(0x881));
        assert_eq!(parse_pcrs("7,11"), Ok(0x880));
        assert_eq!(parse_pcrs("none"), Ok(0));
        for bad in ["", "24", "7+", "-1", "7 11", "a"] {
            assert!(parse_pcrs(bad).is_err(), "{bad}");
        }
    }
}
