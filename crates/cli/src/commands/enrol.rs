//! Keyslots that open with something else than a passphrase that somebody chose: `atrest key add --tpm2`, `--tang`, `--recovery`.

use atrest_kdf::Hash;
#[cfg(feature = "whole")]
use atrest_open::token::clevis::{self, Bound};
use atrest_open::token::tpm2::{Enrolled, Enrolment, enrol};
use atrest_open::token::{TokenError, recovery};
use atrest_secret::Passphrase;
use atrest_volume::{KeyslotOptions, PbkdfKind, PbkdfOptions};

use crate::args::enrol::EnrolArgs;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::secrets::Source;

/// What a new keyslot opens with, and the token that says so.
pub enum New {
    Tpm(Enrolled),
    Recovery(Passphrase),
    #[cfg(feature = "whole")]
    Tang(Bound),
}

impl New {
    /// What the options ask for, if they ask for any. Nothing is written to the volume. A TPM without a storage root key
    /// keeps one from now on.
    pub fn of(args: &EnrolArgs, output: &Output) -> Result<Option<Self>, Failure> {
        if args.recovery {
            let key = recovery::generate().map_err(|error| Failure::new(Code::Device, error))?;
            return Ok(Some(Self::Recovery(key)));
        }
        if let Some(url) = &args.tang {
            return tang(url, args.thumbprint.as_deref(), output).map(Some);
        }
        if !args.tpm2 {
            return Ok(None);
        }
        let pin = match &args.pin_file {
            Some(file) => Some(Source::key_file(file).read("", output)?),
            None if args.pin => {
                let instead = "--pin-file FILE";
                let source = Source::Prompt { words: false, verify: true, instead };
                Some(source.read_new("New PIN", output)?)
            }
            None => None,
        };
        if pin.as_ref().is_some_and(|pin| pin.expose().is_empty()) {
            return Err(Failure::parameters("a new PIN must not be empty"));
        }
        // intended: PCR 7, the state of secure boot, is what systemd takes, too.
        let mask = args.pcrs.unwrap_or(1 << 7);
        let enrolment = Enrolment { mask, pin: pin.as_ref(), for_old_systemd: args.old_systemd };
        enrol(&enrolment).map(Self::Tpm).map(Some).map_err(refused)
    }

    /// The passphrase of the keyslot.
    pub fn passphrase(&self) -> &Passphrase {
        match self {
            Self::Tpm(enrolled) => &enrolled.passphrase,
            Self::Recovery(key) => key,
            #[cfg(feature = "whole")]
            Self::Tang(bound) => &bound.passphrase,
        }
    }

    /// The token, for the keyslot that was made.
    pub fn token(&self, keyslot: u32) -> String {
        match self {
            Self::Tpm(enrolled) => enrolled.token(keyslot),
            Self::Recovery(_) => recovery::token(keyslot),
            #[cfg(feature = "whole")]
            Self::Tang(bound) => bound.token(keyslot),
        }
    }
}

/// Asks a server for its keys, and somebody whether they are its.
#[cfg(feature = "whole")]
fn tang(url: &str, thumbprint: Option<&str>, output: &Output) -> Result<New, Failure> {
    let advertised = clevis::advertised(url).map_err(refused)?;
    let prints = advertised.thumbprints();
    match thumbprint {
        Some(thumbprint) if prints.iter().any(|print| print == thumbprint) => {}
        Some(_) => {
            return Err(Failure::new(Code::Refused, format!("no key of {url} has this thumbprint")).hint(
                "somebody else may answer in its place; `tang-show-keys` on the server prints the thumbprints",
            ));
        }
        None => output.confirm(&format!(
            "{url} has keys with these thumbprints, which `tang-show-keys` prints on the server: {}",
            prints.join(", ")
        ))?,
    }
    clevis::bind(url, &advertised).map(New::Tang).map_err(refused)
}

#[cfg(not(feature = "whole"))]
fn tang(url: &str, _: Option<&str>, _: &Output) -> Result<New, Failure> {
    Err(Failure::parameters(format!("this program was built without clevis, and can't bind to {url}"))
        .hint("the whole `atrest` does"))
}

fn refused(error: TokenError) -> Failure {
    Failure::new(Code::Device, format!("no keyslot is made: {error}"))
}

/// How a keyslot is made whose passphrase nobody can guess: as systemd does.
pub fn keyslot_options(options: KeyslotOptions) -> KeyslotOptions {
    let pbkdf = PbkdfOptions {
        kind: Some(PbkdfKind::Pbkdf2),
        hash: Some(Hash::Sha512),
        forced_iterations: Some(1000),
        ..PbkdfOptions::default()
    };
    KeyslotOptions { pbkdf, af_hash: Some(Hash::Sha512), ..options }
}
