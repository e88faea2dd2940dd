//! The factors of which any few open a keyslot together.

use std::path::PathBuf;
#[cfg(feature = "whole")]
use std::str::FromStr;

use clap::Args;

#[cfg(feature = "whole")]
use atrest_open::token::Thing;

#[cfg(feature = "whole")]
use crate::failure::Failure;

/// What is said of new factors beside their names.
#[derive(Args, Clone, Debug, Default)]
pub struct NewFactorArgs {
    /// PCRs of the TPM that must keep the values that they have now, as in 7+11; `none` for none [default: 7].
    #[arg(long, value_name = "LIST", value_parser = parse_pcrs)]
    pub pcrs: Option<u32>,
    /// Trust a tang server without a question if a key with this thumbprint has signed its list of keys. May be given several times.
    // One of 64 begins with a hyphen.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub thumbprint: Vec<String>,
    /// Take the PIN from this file, every byte of it: that of the TPM or the security key, or of a smart card, also among several factors.
    #[arg(long, value_name = "FILE")]
    pub pin_file: Option<PathBuf>,
}

#[cfg(feature = "whole")]
impl NewFactorArgs {
    /// Fails if one of them says something of another factor than this one.
    ///
    /// # Errors
    /// The option and what it goes with.
    pub fn check(&self, factor: &FactorArg) -> Result<(), Failure> {
        let refused = |text: &str| Err(Failure::parameters(text));
        if self.pin_file.is_some() && !matches!(factor, FactorArg::Pkcs11(_)) {
            return refused(
                "--pin-file goes with the factor pkcs11=URI; others are told so: tpm2-pin=FILE, fido2-pin=FILE",
            );
        }
        if self.pcrs.is_some() && !matches!(factor, FactorArg::Tpm2(_)) {
            return refused("--pcrs goes with the factors tpm2 and tpm2-pin");
        }
        if !self.thumbprint.is_empty() && !matches!(factor, FactorArg::Tang(_)) {
            return refused("--thumbprint goes with the factor tang=URL");
        }
        Ok(())
    }
}

/// Where what somebody knows comes from: it is asked for, or in a file.
#[cfg(feature = "whole")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    Asked,
    File(PathBuf),
}

/// One of several factors.
#[cfg(feature = "whole")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactorArg {
    Tpm2(Option<Known>),
    Fido2(Option<Known>),
    Tang(String),
    Pkcs11(String),
    Passphrase(Known),
    Recovery,
}

#[cfg(feature = "whole")]
impl FactorArg {
    /// What it is, where another factor may be the same.
    pub fn thing(&self) -> Option<Thing> {
        match self {
            Self::Tpm2(_) => Some(Thing::Tpm),
            Self::Tang(url) => Some(Thing::server(url)),
            Self::Pkcs11(uri) => Some(Thing::Card(uri.clone())),
            Self::Recovery => Some(Thing::Recovery),
            Self::Fido2(_) | Self::Passphrase(_) => None,
        }
    }
}

#[cfg(feature = "whole")]
impl FromStr for FactorArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once('=') {
            Some((_, "" | "-")) => return Err(unknown(text)()),
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let known = || value.map_or(Known::Asked, |file| Known::File(file.into()));
        match (name, value) {
            ("tpm2", None) => Ok(Self::Tpm2(None)),
            ("tpm2-pin", _) => Ok(Self::Tpm2(Some(known()))),
            ("fido2", None) => Ok(Self::Fido2(None)),
            ("fido2-pin", _) => Ok(Self::Fido2(Some(known()))),
            ("tang", Some(url)) => Ok(Self::Tang(url.into())),
            ("pkcs11", Some(uri)) => Ok(Self::Pkcs11(uri.into())),
            ("passphrase", _) => Ok(Self::Passphrase(known())),
            ("recovery", None) => Ok(Self::Recovery),
            _ => Err(unknown(text)()),
        }
    }
}

#[cfg(feature = "whole")]
fn unknown(text: &str) -> impl Fn() -> String {
    move || {
        format!(
            "{text:?} is no factor; those are tpm2, tpm2-pin[=FILE], fido2, fido2-pin[=FILE], tang=URL, pkcs11=URI, passphrase[=FILE] and recovery"
        )
    }
}

/// Several factors, and how many of them open the keyslot.
#[cfg(feature = "whole")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factors {
    pub needed: u8,
    pub factors: Vec<FactorArg>,
}

#[cfg(feature = "whole")]
impl Factors {
    /// From the words behind `--any`.
    ///
    /// # Errors
    /// The first word is no number, there are fewer factors than that, too many, or two of which one would do.
    pub fn parse(words: &[String]) -> Result<Self, Failure> {
        let example = "as in --any 2 tpm2 fido2 passphrase, after the volume";
        let (needed, rest) =
            words.split_first().ok_or_else(|| Failure::parameters("--any names no factors"))?;
        let needed = needed.parse::<u8>().ok().filter(|needed| *needed > 0);
        let needed = needed.ok_or_else(|| {
            Failure::parameters("--any begins with how many factors are needed").hint(example)
        })?;
        let factors: Result<Vec<_>, _> = rest.iter().map(|text| FactorArg::from_str(text)).collect();
        let factors =
            factors.map_err(|error| Failure::parameters(format!("--any: {error}")).hint(example))?;
        if usize::from(needed) > factors.len() || factors.len() > 16 {
            return Err(Failure::parameters(format!(
                "--any: {needed} of {} factors can't be: name as many as are needed, and 16 at most",
                factors.len()
            )));
        }
        let count = |is: fn(&FactorArg) -> bool| factors.iter().filter(|factor| is(factor)).count();
        if count(|factor| matches!(factor, FactorArg::Tpm2(_))) > 1 {
            return Err(Failure::parameters("--any: this machine has one TPM, which is one factor"));
        }
        if count(|factor| matches!(factor, FactorArg::Fido2(_))) > 1 {
            return Err(Failure::parameters("--any: one security key is plugged in, which is one factor")
                .hint("give another factor in its place, and exchange that by `atrest key replace` for the second key"));
        }
        if count(|factor| matches!(factor, FactorArg::Recovery)) > 1 {
            return Err(Failure::parameters(
                "--any: one recovery key is enough; a passphrase may be another factor",
            ));
        }
        for (at, factor) in factors.iter().enumerate() {
            let same = |thing: &Thing| {
                let mut others = factors.iter().skip(at + 1).filter_map(FactorArg::thing);
                others.any(|other| other.is_same(thing))
            };
            let what = if matches!(factor, FactorArg::Tang(_)) { "server" } else { "card" };
            if factor.thing().as_ref().is_some_and(same) {
                return Err(Failure::parameters(format!("--any: the same {what} twice is one factor")));
            }
        }
        Ok(Self { needed, factors })
    }
}

/// The file with what a factor asks for: `2=FILE`.
pub fn parse_factor_file(text: &str) -> Result<(u8, PathBuf), String> {
    let parsed = text.split_once('=').and_then(|(number, file)| Some((number.parse().ok()?, file)));
    match parsed {
        Some((number, file)) if number != 0 && !matches!(file, "" | "-") => Ok((number, file.into())),
        _ => Err("it is the number of a factor and a file, as in 2=pin.txt".into()),
    }
}

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

    #[cfg(feature = "whole")]
    #[test]
    fn factors_are_named_and_counted() {
        let parse = |line: &str| Factors::parse(&line.split(' ').map(String::from).collect::<Vec<_>>());
        let parsed = parse("2 tpm2 fido2-pin=pin tang=http://a tang=http://b passphrase recovery")
            .expect("six factors");
        let file = |name: &str| Known::File(name.into());
        assert_eq!(parsed.needed, 2);
        assert_eq!(
            parsed.factors,
            [
                FactorArg::Tpm2(None),
                FactorArg::Fido2(Some(file("pin"))),
                FactorArg::Tang("http://a".into()),
                FactorArg::Tang("http://b".into()),
                FactorArg::Passphrase(Known::Asked),
                FactorArg::Recovery,
            ]
        );
        for bad in [
            "0 tpm2 fido2",
            "tpm2 fido2 passphrase",
            "3 tpm2 fido2",
            "256 tpm2 fido2",
            "1 tpm2 tpm2-pin",
            "1 fido2 fido2",
            "1 tang=a tang=a",
            "1 tang=http://a tang=http://A/",
            "1 pkcs11=auto pkcs11=auto",
            "1 pkcs11=pkcs11:token=a pkcs11=pkcs11:token=a",
            "1 tpm2 tang",
            "1 tpm2 tang=",
            "1 tpm2 pkcs11",
            "1 tpm2=7 fido2",
            "1 recovery=file tpm2",
            "1 tpm2 vol.img",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_factor_file("2=a=b"), Ok((2, "a=b".into())));
        for bad in ["2", "=a", "2=", "2=-", "0=a", "256=a", "a=b"] {
            assert!(parse_factor_file(bad).is_err(), "{bad}");
        }
    }
}
