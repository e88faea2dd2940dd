//! Keyslots that open with something else than a passphrase that somebody chose: `atrest key add --tpm2`, `--fido2`, `--tang`, `--pkcs11`,
//! `--recovery`, `--any`.

#[cfg(feature = "whole")]
use std::path::Path;

use atrest_kdf::Hash;
#[cfg(feature = "whole")]
use atrest_open::token::clevis::{self, Bound};
#[cfg(feature = "whole")]
use atrest_open::token::fido2::{self, Fido2Error};
#[cfg(feature = "pkcs11")]
use atrest_open::token::pkcs11;
use atrest_open::token::tpm2::{self, Enrolment};
use atrest_open::token::{Enrolled, TokenError, recovery};
use atrest_secret::{Passphrase, VolumeKey};
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
    Fido2(Enrolled),
    #[cfg(feature = "pkcs11")]
    Card(Enrolled),
    #[cfg(feature = "whole")]
    Tang(Bound),
    #[cfg(feature = "whole")]
    Shares(super::factors::Made),
}

impl New {
    /// What the options ask for, for the volume with this UUID. Nothing is written to the volume. A TPM without a storage root key
    /// keeps one from now on.
    pub fn of(args: &EnrolArgs, on: &Volume<'_>, output: &Output) -> Result<Self, Failure> {
        #[cfg(feature = "whole")]
        if let Some(factors) = args.factors()? {
            return super::factors::make(&factors, &args.factor, on, output);
        }
        if args.recovery {
            let key = recovery::generate().map_err(|error| Failure::new(Code::Device, error))?;
            return Ok(Self::Recovery(key));
        }
        if let Some(url) = &args.tang {
            return tang(url, &args.factor.thumbprint, output);
        }
        #[cfg(feature = "whole")]
        if let Some(uri) = &args.pkcs11 {
            return card(uri, args.factor.pin_file.as_deref(), output);
        }
        if args.fido2 {
            return security_key(args, on.name, output);
        }
        tpm2::answers().map_err(refused)?;
        let pin = pin(args, true, output)?;
        if pin.as_ref().is_some_and(|pin| pin.expose().is_empty()) {
            return Err(Failure::parameters("a new PIN must not be empty"));
        }
        // intended: those that are sealed to where nobody says.
        let mask = args.factor.pcrs.unwrap_or(PCRS);
        let enrolment = Enrolment { mask, pin: pin.as_ref(), for_old_systemd: args.old_systemd };
        tpm2::enrol(&enrolment).map(Self::Tpm).map_err(refused)
    }

    /// The passphrase of the keyslot.
    pub fn passphrase(&self) -> &Passphrase {
        match self {
            Self::Tpm(enrolled) => &enrolled.passphrase,
            Self::Recovery(key) => key,
            #[cfg(feature = "whole")]
            Self::Fido2(enrolled) => &enrolled.passphrase,
            #[cfg(feature = "pkcs11")]
            Self::Card(enrolled) => &enrolled.passphrase,
            #[cfg(feature = "whole")]
            Self::Tang(bound) => &bound.passphrase,
            #[cfg(feature = "whole")]
            Self::Shares(made) => made.passphrase(),
        }
    }

    /// The token, for the keyslot that was made.
    pub fn token(&self, keyslot: u32) -> String {
        match self {
            Self::Tpm(enrolled) => enrolled.token(keyslot),
            Self::Recovery(_) => recovery::token(keyslot),
            #[cfg(feature = "whole")]
            Self::Fido2(enrolled) => enrolled.token(keyslot),
            #[cfg(feature = "pkcs11")]
            Self::Card(enrolled) => enrolled.token(keyslot),
            #[cfg(feature = "whole")]
            Self::Tang(bound) => bound.token(keyslot),
            #[cfg(feature = "whole")]
            Self::Shares(made) => made.token(keyslot),
        }
    }
}

/// PCR 7, the state of secure boot, which systemd takes, too.
pub const PCRS: u32 = 1 << 7;

/// For which volume something is enrolled.
pub struct Volume<'a> {
    /// Its UUID.
    pub name: &'a str,
    /// Its key.
    #[cfg_attr(not(feature = "whole"), expect(dead_code, reason = "several factors alone need it"))]
    pub key: &'a VolumeKey,
    /// What deriving a passphrase is to cost.
    #[cfg_attr(not(feature = "whole"), expect(dead_code, reason = "several factors alone need it"))]
    pub cost: &'a PbkdfOptions,
}

/// The PIN that is in a file or is typed: a new one twice.
fn pin(args: &EnrolArgs, is_new: bool, output: &Output) -> Result<Option<Passphrase>, Failure> {
    let prompt = Source::Prompt { words: false, verify: is_new, instead: "--pin-file FILE" };
    match &args.factor.pin_file {
        Some(file) => Source::key_file(file).read("", output).map(Some),
        None if args.pin && is_new => prompt.read_new("New PIN", output).map(Some),
        None if args.pin => prompt.read("PIN of the security key", output).map(Some),
        None => Ok(None),
    }
}

#[cfg(feature = "whole")]
fn security_key(args: &EnrolArgs, volume: &str, output: &Output) -> Result<New, Failure> {
    let hinted = |error: TokenError| match error {
        TokenError::Fido2(Fido2Error::PinNeeded) => {
            refused(error).hint("give --pin, and the security key asks for its PIN each time")
        }
        TokenError::Fido2(Fido2Error::NoPin) => {
            refused(error).hint("leave --pin out, or set a PIN as with `fido2-token -S`")
        }
        error => refused(error),
    };
    fido2::is_there(args.pin || args.factor.pin_file.is_some()).map_err(hinted)?;
    let pin = pin(args, false, output)?;
    security_key_with(pin.as_ref(), volume, output).map(New::Fido2).map_err(hinted)
}

#[cfg(feature = "whole")]
pub fn security_key_with(
    pin: Option<&Passphrase>,
    volume: &str,
    output: &Output,
) -> Result<Enrolled, TokenError> {
    let mut touch = || output.note(format_args!("touch the security key"));
    fido2::enrol(volume, pin, &mut touch)
}

#[cfg(not(feature = "whole"))]
fn security_key(_: &EnrolArgs, _: &str, _: &Output) -> Result<New, Failure> {
    Err(Failure::parameters("this program was built without FIDO2, and can't enrol a security key")
        .hint("the whole `atrest` does"))
}

#[cfg(feature = "pkcs11")]
fn card(uri: &str, pin_file: Option<&Path>, output: &Output) -> Result<New, Failure> {
    enrolled_card(uri, pin_file, output).map(New::Card)
}

/// Has a smart card enrolled, whose PIN is in a file or is typed.
#[cfg(feature = "pkcs11")]
pub fn enrolled_card(uri: &str, pin_file: Option<&Path>, output: &Output) -> Result<Enrolled, Failure> {
    pkcs11::is_there(uri).map_err(refused)?;
    match pkcs11::enrol(uri, None) {
        Err(TokenError::PinNeeded) => {}
        done => return done.map_err(refused),
    }
    let is_last = pkcs11::is_last_try_of(uri).map_err(refused)?;
    let source = match pin_file {
        // It is for somebody who looks at what he types.
        Some(_) if is_last => return Err(refused(pkcs11::Pkcs11Error::LastTry.into())),
        Some(file) => Source::key_file(file),
        None => Source::Prompt { words: false, verify: false, instead: "--pin-file FILE" },
    };
    let what = if is_last { "PIN of the smart card (its last try)" } else { "PIN of the smart card" };
    let pin = source.read(what, output)?;
    pkcs11::enrol(uri, Some(&pin)).map_err(refused)
}

#[cfg(all(feature = "whole", not(feature = "pkcs11")))]
fn card(_: &str, _: Option<&Path>, _: &Output) -> Result<New, Failure> {
    Err(no_cards())
}

/// Smart cards need a library of somebody else's.
#[cfg(all(feature = "whole", not(feature = "pkcs11")))]
pub fn no_cards() -> Failure {
    Failure::parameters("this program can't load the library of a smart card")
        .hint("a static program can't; `atrest` as `make build` makes it for this system does")
}

/// Asks a server for its keys, and somebody whether they are its.
#[cfg(feature = "whole")]
fn tang(url: &str, thumbprints: &[String], output: &Output) -> Result<New, Failure> {
    let advertised = advertised(url, thumbprints, output)?;
    clevis::bind(url, &advertised).map(New::Tang).map_err(refused)
}

/// What a server says of its keys, if a thumbprint or somebody says that they are its.
#[cfg(feature = "whole")]
pub fn advertised(url: &str, thumbprints: &[String], output: &Output) -> Result<clevis::Advertised, Failure> {
    let advertised = clevis::advertised(url).map_err(refused)?;
    let prints = advertised.thumbprints();
    match thumbprints {
        _ if prints.iter().any(|print| thumbprints.contains(print)) => {}
        [_, ..] => {
            return Err(Failure::new(Code::Refused, format!("no key of {url} has this thumbprint")).hint(
                "somebody else may answer in its place; `tang-show-keys` on the server prints the thumbprints",
            ));
        }
        [] => output.confirm(&format!(
            "{url} has keys with these thumbprints, which `tang-show-keys` prints on the server: {}",
            prints.join(", ")
        ))?,
    }
    Ok(advertised)
}

#[cfg(not(feature = "whole"))]
fn tang(url: &str, _: &[String], _: &Output) -> Result<New, Failure> {
    Err(Failure::parameters(format!("this program was built without clevis, and can't bind to {url}"))
        .hint("the whole `atrest` does"))
}

pub fn refused(error: TokenError) -> Failure {
    let failure = Failure::new(Code::Device, format!("no keyslot is made: {error}"));
    match error {
        TokenError::Unreachable { url, .. } => failure.hint(format!(
            "see that the server runs and is asked by its right address: `curl {url}/adv` asks it, too"
        )),
        TokenError::BadUrl { .. } => failure.hint("as in --tang http://10.0.0.1:7500"),
        _ => failure,
    }
}

/// Iterations of PBKDF2 where nobody can guess the passphrase.
pub const ITERATIONS: u32 = 1000;

/// How a keyslot is made whose passphrase nobody can guess: as systemd does.
pub fn keyslot_options(options: KeyslotOptions) -> KeyslotOptions {
    let pbkdf = PbkdfOptions {
        kind: Some(PbkdfKind::Pbkdf2),
        hash: Some(Hash::Sha512),
        forced_iterations: Some(ITERATIONS),
        ..PbkdfOptions::default()
    };
    KeyslotOptions { pbkdf, af_hash: Some(Hash::Sha512), ..options }
}
