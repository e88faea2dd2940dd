//! Keyslots that any few of several factors open: `atrest key add --any`, `atrest key replace`.

use atrest_kdf::{Argon2Cost, Argon2Kind, calibrate};
use atrest_open::token::clevis::{self, Bound, Pin};
use atrest_open::token::shares::{self, NewFactor};
use atrest_open::token::tpm2::{self, Enrolment};
use atrest_open::token::{Enrolled, Token, TokenError, fido2, recovery};
use atrest_secret::{Passphrase, VolumeKey};
use atrest_volume::{ChangeError, Credential, KdfInfo, KeyslotOptions, PbkdfKind, PbkdfOptions};
use serde_json::json;

use crate::args::factor::{FactorArg, Factors, Known, NewFactorArgs};
use crate::args::format::PbkdfArgs;
use crate::args::key::KeyReplaceArgs;
use crate::commands::enrol::{self, New, PCRS, Volume, refused};
use crate::commands::key::tell_recovery;
use crate::commands::target::Target;
use crate::commands::tokens::volume_key_by;
use crate::commands::{options, pin};
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::secrets::Source;

/// What was made of several factors.
pub struct Made {
    by: By,
    /// The recovery key that is one of them.
    recovery: Option<Passphrase>,
}

enum By {
    Shares(Enrolled),
    Clevis(Bound),
}

impl Made {
    /// The passphrase of the keyslot.
    pub fn passphrase(&self) -> &Passphrase {
        match &self.by {
            By::Shares(enrolled) => &enrolled.passphrase,
            By::Clevis(bound) => &bound.passphrase,
        }
    }

    /// The token, for the keyslot that was made.
    pub fn token(&self, keyslot: u32) -> String {
        match &self.by {
            By::Shares(enrolled) => enrolled.token(keyslot),
            By::Clevis(bound) => bound.token(keyslot),
        }
    }
}

/// Says what was made.
pub fn tell(slot: u32, token: u32, made: &Made, output: &Output) -> Result<(), Failure> {
    let format = match &made.by {
        By::Shares(_) => "only atrest opens this token",
        By::Clevis(_) => "clevis opens this token, too",
    };
    let text = format!("keyslot {slot} opens with these factors (token {token}); {format}");
    match &made.recovery {
        None => output.done(&json!({ "keyslot": slot, "token": token }), &text),
        Some(key) => {
            output.note(text);
            output.note("this recovery key is one of the factors: write it down");
            tell_recovery(slot, token, key, output)
        }
    }
}

/// Enrols the factors one after the other. If clevis knows them all, it opens what is made.
pub fn make(
    factors: &Factors,
    args: &NewFactorArgs,
    on: &Volume<'_>,
    output: &Output,
) -> Result<New, Failure> {
    let Factors { needed, factors } = factors;
    // Before somebody types anything for nothing.
    factors.iter().try_for_each(is_there)?;
    if factors.iter().all(|factor| matches!(factor, FactorArg::Tpm2(None) | FactorArg::Tang(_))) {
        let pins = factors.iter().filter_map(|factor| pin_of(factor, args, output));
        let pins = pins.collect::<Result<Vec<_>, _>>()?;
        let by = By::Clevis(clevis::bind_threshold(*needed, &pins).map_err(refused)?);
        return Ok(New::Shares(Made { by, recovery: None }));
    }
    let mut recovery = None;
    let mut new = Vec::new();
    for (number, factor) in (1..).zip(factors) {
        let (factor, key) = enrolled(number, factor, args, on, output)?;
        recovery = recovery.or(key);
        new.push(factor);
    }
    let by = By::Shares(shares::make(*needed, new, on.key).map_err(refused)?);
    Ok(New::Shares(Made { by, recovery }))
}

fn is_there(factor: &FactorArg) -> Result<(), Failure> {
    match factor {
        FactorArg::Tpm2(_) => tpm2::answers(),
        FactorArg::Fido2(pin) => fido2::is_there(pin.is_some()),
        #[cfg(feature = "pkcs11")]
        FactorArg::Pkcs11(uri) => atrest_open::token::pkcs11::is_there(uri),
        #[cfg(not(feature = "pkcs11"))]
        FactorArg::Pkcs11(_) => return Err(enrol::no_cards()),
        FactorArg::Tang(_) | FactorArg::Passphrase(_) | FactorArg::Recovery => Ok(()),
    }
    .map_err(refused)
}

/// The factor as a pin of clevis; `None` if it has none for it.
fn pin_of(factor: &FactorArg, args: &NewFactorArgs, output: &Output) -> Option<Result<Pin, Failure>> {
    match factor {
        // intended: those that are sealed to where nobody says.
        FactorArg::Tpm2(None) => Some(Ok(Pin::Tpm2(args.pcrs.unwrap_or(PCRS)))),
        FactorArg::Tang(url) => {
            let advertised = enrol::advertised(url, &args.thumbprint, output);
            Some(advertised.map(|advertised| Pin::Tang(url.clone(), Box::new(advertised))))
        }
        _ => None,
    }
}

/// A factor with its secret, and the recovery key if it is one.
fn enrolled(
    number: u8,
    factor: &FactorArg,
    args: &NewFactorArgs,
    on: &Volume<'_>,
    output: &Output,
) -> Result<(NewFactor, Option<Passphrase>), Failure> {
    let ask = |known: &Known, what: &str, verify, instead| match known {
        Known::File(file) => Source::key_file(file).read("", output),
        Known::Asked => {
            let prompt = Source::Prompt { words: false, verify, instead };
            let text = format!("{what} of factor {number}");
            if verify { prompt.read_new(&text, output) } else { prompt.read(&text, output) }
        }
    };
    let new = match factor {
        FactorArg::Tpm2(pin) => {
            let pin = pin.as_ref().map(|pin| ask(pin, "New PIN", true, "tpm2-pin=FILE")).transpose()?;
            if let Some(pin) = &pin {
                refuse_empty(pin, "PIN")?;
            }
            // intended: those that are sealed to where nobody says.
            let mask = args.pcrs.unwrap_or(PCRS);
            let enrolment = Enrolment { mask, pin: pin.as_ref(), for_old_systemd: false };
            NewFactor::enrolled(&tpm2::enrol(&enrolment).map_err(refused)?)
        }
        FactorArg::Fido2(pin) => {
            let pin = pin.as_ref().map(|pin| ask(pin, "PIN of the security key", false, "fido2-pin=FILE"));
            let pin = pin.transpose()?;
            let enrolled = enrol::security_key_with(pin.as_ref(), on.name, output);
            NewFactor::enrolled(&enrolled.map_err(refused)?)
        }
        #[cfg(feature = "pkcs11")]
        FactorArg::Pkcs11(uri) => {
            NewFactor::enrolled(&enrol::enrolled_card(uri, args.pin_file.as_deref(), output)?)
        }
        #[cfg(not(feature = "pkcs11"))]
        FactorArg::Pkcs11(_) => return Err(enrol::no_cards()),
        FactorArg::Tang(url) => {
            let advertised = enrol::advertised(url, &args.thumbprint, output)?;
            NewFactor::tang(&clevis::bind(url, &advertised).map_err(refused)?)
        }
        FactorArg::Passphrase(known) => {
            let typed = ask(known, "New passphrase", true, "passphrase=FILE")?;
            refuse_empty(&typed, "passphrase")?;
            NewFactor::passphrase(&typed, &cost(on.cost)?).map_err(refused)?
        }
        FactorArg::Recovery => {
            let key = recovery::generate().map_err(|error| Failure::new(Code::Device, error))?;
            return Ok((NewFactor::recovery(&key), Some(key)));
        }
    };
    Ok((new, None))
}

fn refuse_empty(typed: &Passphrase, what: &str) -> Result<(), Failure> {
    match typed.expose().is_empty() {
        true => Err(Failure::parameters(format!("a new {what} must not be empty"))),
        false => Ok(()),
    }
}

/// What deriving a passphrase costs: what the options say of a keyslot.
fn cost(wanted: &PbkdfOptions) -> Result<Argon2Cost, Failure> {
    if wanted.kind.is_some_and(|kind| kind != PbkdfKind::Argon2id) {
        return Err(Failure::parameters("the passphrase among several factors is derived by Argon2id alone"));
    }
    let mut most = calibrate::default_argon2_limit(Argon2Kind::Id);
    if let Some(memory) = wanted.memory_kib {
        most.memory_kib = memory;
    }
    if let Some(lanes) = wanted.lanes {
        most.lanes = lanes;
    }
    match wanted.forced_iterations {
        Some(time) => Ok(Argon2Cost { time, ..most }),
        None => calibrate::argon2_cost(Argon2Kind::Id, most, wanted.time)
            .map_err(|error| Failure::new(Code::Memory, error)),
    }
}

pub fn replace(args: &KeyReplaceArgs, output: &Output) -> Result<(), Failure> {
    args.by.tokens.check(&args.by.secret)?;
    args.new.check(&args.factor)?;
    let options = options::keyslot(&args.pbkdf, None, None)?;
    let mut target = Target::change(&args.target)?;
    let at = |error: ChangeError| Failure::from(error).at(&args.target.path);
    target.locked.luks2_mut().map_err(at)?;
    let token = of(&target, args.of).map_err(|failure| failure.at(target.path))?;
    check(args, &token).map_err(|failure| failure.at(target.path))?;
    is_there(&args.factor)?;
    match token.has_factors() {
        true => replace_share(args, &mut target, &token, options, output),
        false => replace_in_clevis(args, &mut target, &token, output),
    }
}

/// Fails if an option would do nothing for a token of this kind, or for the factor.
fn check(args: &KeyReplaceArgs, token: &Token) -> Result<(), Failure> {
    let PbkdfArgs { hash, garlic, .. } = &args.pbkdf;
    if hash.is_some() || garlic.is_some() {
        return Err(Failure::parameters("--hash and --garlic do not go with factors"));
    }
    if args.pbkdf.has_cost() && !matches!(args.factor, FactorArg::Passphrase(_)) {
        return Err(Failure::parameters("what a derivation costs is said of the factor passphrase alone"));
    }
    if token.has_factors() {
        return Ok(());
    }
    let what = if args.by.secret.has_volume_key() {
        "--volume-key-file and --volume-key-keyring do"
    } else if args.by.key_slot.is_some() {
        "--key-slot does"
    } else if args.by.tokens.are_named() {
        "--token-id, --token-type, --token-only, --token-pin-file and --factor-file do"
    } else if args.pbkdf.has_area() {
        "--keyslot-cipher and --keyslot-key-size do"
    } else {
        return Ok(());
    };
    Err(Failure::parameters(format!("{what} not go with a token of clevis: its other shares open it"))
        .hint("--of N names the token"))
}

/// The token whose factor is meant.
fn of(target: &Target<'_>, number: Option<u32>) -> Result<Token, Failure> {
    let several = |token: &Token| token.has_factors() || clevis::shares(&token.text).is_some();
    let mut tokens: Vec<_> = Token::all(&target.locked).into_iter().filter(several).collect();
    tokens.retain(|token| number.is_none_or(|number| number == token.info.id));
    match (tokens.pop(), &tokens[..]) {
        (Some(token), []) => Ok(token),
        (Some(_), _) => Err(Failure::parameters("several tokens have factors")
            .hint("name one by --of N; `atrest token list` shows them")),
        (None, _) => Err(match number {
            Some(number) => Failure::parameters(format!("the volume has no token {number} with several factors"))
                .hint("`atrest key list` shows what opens each keyslot"),
            None => Failure::parameters("the volume has no token with several factors").hint(
                "`atrest key add --any 2 tpm2 fido2 passphrase` makes one; `atrest key change` replaces a passphrase",
            ),
        }),
    }
}

fn replace_share(
    args: &KeyReplaceArgs,
    target: &mut Target<'_>,
    token: &Token,
    options: KeyslotOptions,
    output: &Output,
) -> Result<(), Failure> {
    let path = target.path;
    let at = |error: ChangeError| Failure::from(error).at(path);
    let [old] = token.info.keyslots[..] else {
        return Err(Failure::parameters("the token opens no keyslot, or several").at(path));
    };
    let numbers = shares::factors(&token.text).map_err(|error| refused(error).at(path))?;
    if !numbers.iter().any(|(number, _)| *number == args.number) {
        return Err(Failure::parameters(format!("token {} has no factor {}", token.info.id, args.number))
            .at(path)
            .hint("`atrest key list` shows the factors"));
    }
    refuse_twin(args, token).map_err(|failure| failure.at(path))?;
    refuse_foreign(target, old).map_err(|failure| failure.at(path))?;
    output.note(format_args!("keyslot {old} will be wiped when the new one is made"));
    let key = volume_key(args, target, output)?;
    let name = target.locked.info().uuid;
    let on = Volume { name: &name, key: &key, cost: &options.pbkdf };
    let (new, recovery) = enrolled(args.number, &args.factor, &args.new, &on, output)?;
    let made =
        shares::replace(&token.text, args.number, new, &key).map_err(|error| refused(error).at(path))?;
    let luks2 = target.locked.luks2_mut().map_err(at)?;
    if luks2.is_pinned() {
        let shown = luks2.authorize(&target.device, Credential::VolumeKey(&key));
        shown.map_err(|error| Failure::from(error).at(path))?;
    }
    let options = enrol::keyslot_options(options);
    let text = |slot| made.token(slot);
    let credential = Credential::VolumeKey(&key);
    let added = luks2.add_key_with_token(&target.device, credential, &made.passphrase, &options, &text);
    let (slot, number) = added.map_err(at)?;
    if let Some(key) = &recovery {
        output.note(format_args!("this recovery key is the new factor {}: write it down", args.number));
        // Whoever has not seen it needs the old keyslot.
        tell_recovery(slot, number, key, output).map_err(|failure| {
            let made =
                format!("keyslot {slot} is made, but its recovery key is not shown; keyslot {old} stays");
            failure
                .within(&made)
                .at(path)
                .hint(format!("wipe it with `atrest key kill`, keyslot {slot}, and try again"))
        })?;
    }
    // Not before the new one is on the media.
    luks2.remove_keyslots(&target.device, &[old], false).map_err(|error| {
        let made = format!("keyslot {slot} is made, but keyslot {old} is not wiped");
        Failure::from(error).within(&made).at(path)
    })?;
    target.renew()?;
    let text = format!(
        "keyslot {slot} opens with the new factor {} and the others (token {number}); keyslot {old} is wiped",
        args.number
    );
    match recovery {
        None => output.done(&json!({ "keyslot": slot, "token": number, "wiped": old }), &text),
        Some(_) => {
            output.note(text);
            Ok(())
        }
    }
}

/// What stands for a factor that stays can't stand for another one, too. Before somebody types anything for nothing.
fn refuse_twin(args: &KeyReplaceArgs, token: &Token) -> Result<(), Failure> {
    let twin = match (&args.factor, args.factor.thing()) {
        (FactorArg::Fido2(_), _) => shares::plugged_in(&token.text, args.number),
        (_, Some(thing)) => shares::twin(&token.text, args.number, &thing),
        (_, None) => Ok(None),
    };
    match twin.map_err(refused)? {
        Some(number) => Err(refused(TokenError::SameThing { number })),
        None => Ok(()),
    }
}

/// Whether a keyslot derives its key as those do that [`enrol::keyslot_options`] makes.
fn is_for_factors(kdf: &KdfInfo) -> bool {
    kdf.kind == "pbkdf2" && kdf.hash.as_deref() == Some("sha512") && kdf.iterations == enrol::ITERATIONS
}

/// Whoever can write the header says which keyslot the token opens. That of a person is none that factors open.
fn refuse_foreign(target: &Target<'_>, slot: u32) -> Result<(), Failure> {
    let info = target.locked.info();
    let kdf =
        info.keyslots.iter().find(|keyslot| keyslot.id == slot).and_then(|keyslot| keyslot.kdf.as_ref());
    if kdf.is_some_and(is_for_factors) {
        return Ok(());
    }
    Err(Failure::new(
        Code::Refused,
        format!("the token names keyslot {slot}, which would be wiped, and which is not made for factors"),
    )
    .hint("somebody may have changed the token: `atrest key list` shows the keyslots"))
}

fn volume_key(args: &KeyReplaceArgs, target: &Target<'_>, output: &Output) -> Result<VolumeKey, Failure> {
    volume_key_by(target, &args.by, output, |passphrase, slot| {
        target.locked.volume_key(&target.device, passphrase, slot).map(|(_, key)| key)
    })
}

fn replace_in_clevis(
    args: &KeyReplaceArgs,
    target: &mut Target<'_>,
    token: &Token,
    output: &Output,
) -> Result<(), Failure> {
    let path = target.path;
    let pin = pin_of(&args.factor, &args.new, output).ok_or_else(|| {
        Failure::parameters("a token of clevis has servers and TPMs without a PIN alone")
            .at(path)
            .hint("make a new keyslot with `atrest key add --any`, and wipe this one with `atrest key kill`")
    })??;
    pin::authorize(target, &args.by.secret.passphrase, output)?;
    let text = clevis::replace(&token.text, &token.info.keyslots, args.number, &pin);
    let text = text.map_err(|error| {
        Failure::new(Code::Device, format!("the factor is not replaced: {error}")).at(path)
    })?;
    let luks2 = target.locked.luks2_mut();
    let replaced = luks2.and_then(|luks2| luks2.replace_token(&target.device, token.info.id, &text));
    replaced.map_err(|error| Failure::from(error).at(path))?;
    target.renew()?;
    let id = token.info.id;
    output.warn(format_args!(
        "the old factor still counts: to shut it out, make a new keyslot with `atrest key add --any` and wipe the one of token {id}"
    ));
    output.done(
        &json!({ "token": id, "factor": args.number }),
        &format!("factor {} of token {id} is replaced", args.number),
    )
}
