//! `atrest-shares`: any t of some factors open a keyslot. Each factor has a share of its key (Shamir), encrypted so that the factor's secret
//! alone opens it. How that secret is had is said by a token of another type, or it is a passphrase.
//!
//! Other programs keep these tokens and pass them over. Everything that is read here is hostile.

mod enrol;
mod layout;
mod sealed;

use atrest_kdf::{Argon2Cost, Argon2Kind, WorkLimit, argon2};
use atrest_secret::{Passphrase, SecretBytes};
use base64ct::{Base64, Encoding};
use serde_json::Value;

pub use enrol::{NewFactor, make, replace};
pub use layout::MAX_FACTORS;
use layout::{Factor, Set};

use super::enrolled::encoded;
use super::{Help, KINDS, Kind, Person, Question, Thing, TokenError, Wanted, recovery, shamir};

/// The type of the tokens.
pub const KIND_NAME: &str = "atrest-shares";

/// How the secret of a factor is had that somebody types.
const PASSPHRASE: &str = "passphrase";

pub(super) const KIND: Kind = Kind { name: KIND_NAME, passphrase };

/// How often somebody is asked for what he knows.
const TRIES: u32 = 3;

/// Checks what can be checked of a token's text without its factors. For fuzzing.
#[doc(hidden)]
pub fn check(text: &str) -> Result<(), TokenError> {
    let set = Set::parse(text)?;
    let again = Set::parse(&set.fields()?.to_string())?;
    assert_eq!((set.list()?, set.mac), (again.list()?, again.mac));
    let _ = needs(text);
    for factor in &set.factors {
        let _ = cost(&factor.how);
    }
    Ok(())
}

/// What opens it, in words.
pub(super) fn needs(text: &str) -> String {
    let Ok(set) = Set::parse(text) else { return "several factors, in a way that is not known here".into() };
    let factors = set.factors.iter().map(|factor| format!("{} {}", factor.number, factor.needs()));
    format!("{} of these factors: ({})", set.needed, factors.collect::<Vec<_>>().join("; "))
}

/// Numbers of the factors, and what each needs, in words.
///
/// # Errors
/// [`TokenError`]: it is no such token.
pub fn factors(text: &str) -> Result<Vec<(u8, String)>, TokenError> {
    Ok(Set::parse(text)?.factors.iter().map(|factor| (factor.number, factor.needs())).collect())
}

/// The number of the factor, beside this one, that is the same thing.
///
/// # Errors
/// [`TokenError`]: it is no such token.
pub fn twin(text: &str, beside: u8, thing: &Thing) -> Result<Option<u8>, TokenError> {
    Ok(twin_in(&Set::parse(text)?, beside, thing))
}

fn twin_in(set: &Set, beside: u8, thing: &Thing) -> Option<u8> {
    let mut others = set.factors.iter().filter(|factor| factor.number != beside);
    let twin = others.find(|factor| Thing::of(&factor.how).is_some_and(|other| other.is_same(thing)));
    twin.map(|factor| factor.number)
}

/// The number of the factor, beside this one, that a security key which is plugged in says it is. Nobody touches it.
///
/// # Errors
/// [`TokenError`]: it is no such token, or the security key does not answer.
#[cfg(feature = "fido2")]
pub fn plugged_in(text: &str, beside: u8) -> Result<Option<u8>, TokenError> {
    for factor in Set::parse(text)?.factors {
        let is_key = factor.kind() == super::fido2::KIND_NAME && factor.number != beside;
        if is_key && super::fido2::is_plugged_in(&factor.how.to_string())? {
            return Ok(Some(factor.number));
        }
    }
    Ok(None)
}

fn passphrase(text: &str, help: Help<'_>) -> Result<Passphrase, TokenError> {
    let set = Set::parse(text)?;
    let shares =
        Opening { set: &set, list: set.list()?, opened: Vec::new(), missing: Vec::new() }.open(help)?;
    let key = shamir::Field::of(&shamir::PRIME)?.value(&shares, &[0; shamir::LEN])?;
    keyslot_passphrase(&key)
}

fn keyslot_passphrase(key: &[u8; 32]) -> Result<Passphrase, TokenError> {
    encoded(&*atrest_kdf::Prf::extract(&[0; 32], key).expand::<32>(&[b"atrest shares keyslot 1"]))
}

/// How far the factors have been asked.
struct Opening<'a> {
    set: &'a Set,
    list: [u8; 32],
    opened: Vec<SecretBytes>,
    /// The factors that have not given their share, with their places in the list, and why.
    missing: Vec<(usize, TokenError)>,
}

impl Opening<'_> {
    /// Asks machines and servers first, then what has to be touched, then people; and no longer than it must.
    fn open(mut self, help: Help<'_>) -> Result<Vec<SecretBytes>, TokenError> {
        let person = help.person;
        let mut order: Vec<_> = self.set.factors.iter().enumerate().collect();
        order.sort_by_key(|(_, factor)| factor.effort());
        let mut asking = Vec::new();
        for (at, factor) in order {
            if self.is_enough() {
                break;
            }
            match factor.wants() {
                Some(wanted) => asking.push((at, factor, wanted)),
                None => match factor.secret(Help { pin: None, person: &mut *person }) {
                    Err(TokenError::PinNeeded) => asking.push((at, factor, Wanted::Pin)),
                    secret => self.take(at, factor, secret),
                },
            }
        }
        for (at, factor, wanted) in asking {
            if self.is_enough() {
                break;
            }
            match self.asked(factor, wanted, &mut *person) {
                Ok(share) => self.opened.push(share),
                Err(error) => self.missing.push((at, error)),
            }
        }
        if self.is_enough() { Ok(self.opened) } else { Err(self.too_few()) }
    }

    /// The share of a factor for which somebody types something.
    fn asked(
        &self,
        factor: &Factor,
        wanted: Wanted,
        person: &mut dyn Person,
    ) -> Result<SecretBytes, TokenError> {
        let mut last = match wanted {
            Wanted::Pin => TokenError::PinNeeded,
            Wanted::Passphrase => TokenError::NothingTyped,
        };
        for wrong in 0..TRIES {
            let question = Question { factor: factor.number, wanted, needs: factor.needs(), wrong };
            let Some(typed) = person.answer(&question) else { break };
            let secret = factor.secret(Help { pin: Some(&typed), person: &mut *person });
            match secret.and_then(|secret| sealed::open(self.set, &self.list, factor, &secret)) {
                Err(TokenError::OtherFactor) if wanted == Wanted::Passphrase => {
                    last = TokenError::WrongPassphrase;
                }
                Err(TokenError::WrongPin) => last = TokenError::WrongPin,
                done => return done,
            }
        }
        Err(last)
    }

    fn is_enough(&self) -> bool {
        self.opened.len() >= usize::from(self.set.needed)
    }

    fn take(&mut self, at: usize, factor: &Factor, secret: Result<Passphrase, TokenError>) {
        match secret.and_then(|secret| sealed::open(self.set, &self.list, factor, &secret)) {
            Ok(share) => self.opened.push(share),
            Err(error) => self.missing.push((at, error)),
        }
    }

    fn too_few(mut self) -> TokenError {
        self.missing.sort_by_key(|(at, _)| *at);
        let why = |(at, error): &(usize, TokenError)| {
            let factor = self.set.factors.get(*at)?;
            Some(format!("factor {} ({}): {error}", factor.number, factor.needs()))
        };
        let missing = self.missing.iter().filter_map(why).collect();
        TokenError::FactorsMissing { opened: self.opened.len(), needed: self.set.needed.into(), missing }
    }
}

impl Factor {
    /// What it is, in words.
    fn needs(&self) -> String {
        match self.kind() {
            PASSPHRASE => "a passphrase".into(),
            kind => super::needs::of(kind, &self.how.to_string(), None),
        }
    }

    /// Who is bothered least comes first.
    fn effort(&self) -> u32 {
        match self.kind() {
            "clevis" | "systemd-tpm2" => 0,
            PASSPHRASE | recovery::KIND_NAME => 2,
            _ => 1,
        }
    }

    /// What somebody has to type in any case.
    fn wants(&self) -> Option<Wanted> {
        matches!(self.kind(), PASSPHRASE | recovery::KIND_NAME).then_some(Wanted::Passphrase)
    }

    fn secret(&self, help: Help<'_>) -> Result<Passphrase, TokenError> {
        match (self.kind(), help.pin) {
            (PASSPHRASE, Some(typed)) => derived(typed, &self.how),
            (recovery::KIND_NAME, Some(typed)) => {
                // intended: it is typed as it was made, or it is none.
                Ok(recovery::normal_form(typed).unwrap_or_else(|| Passphrase::copy_from(typed.expose())))
            }
            (PASSPHRASE | recovery::KIND_NAME, None) => Err(TokenError::PinNeeded),
            (kind, _) => {
                let known = KINDS.iter().find(|known| known.name == kind && kind != KIND_NAME);
                (known.ok_or_else(|| TokenError::unknown(kind))?.passphrase)(&self.how.to_string(), help)
            }
        }
    }
}

/// The salt and the cost of a passphrase's derivation.
fn cost(how: &Value) -> Result<(Vec<u8>, Argon2Cost), TokenError> {
    let bad = TokenError::Malformed;
    let number = |name: &str| {
        let number = how.get(name).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
        number.ok_or(bad.clone())
    };
    if how.get("kdf").and_then(Value::as_str) != Some("argon2id") {
        return Err(TokenError::UnknownField { name: "kdf".into() });
    }
    let salt = how.get("salt").and_then(Value::as_str).and_then(|text| Base64::decode_vec(text).ok());
    let salt = salt.filter(|salt| (16..=64).contains(&salt.len())).ok_or(bad.clone())?;
    let cost = Argon2Cost {
        kind: Argon2Kind::Id,
        time: number("time")?,
        memory_kib: number("memory")?,
        lanes: number("lanes")?,
    };
    Ok((salt, cost))
}

fn derived(typed: &Passphrase, how: &Value) -> Result<Passphrase, TokenError> {
    let (salt, cost) = cost(how)?;
    let mut key = SecretBytes::zeroed(32);
    let derived = WorkLimit::default().during(|| argon2(&cost, typed.expose(), &salt, &mut key));
    derived.map_err(|error| TokenError::Derivation { error: error.to_string() })?;
    Ok(Passphrase::new(key))
}

#[cfg(test)]
mod tests;
