//! `atrest key …`.

use atrest_engine::Access;
use atrest_open::token::{Factor, Token};
use atrest_secret::{OsRandom, Passphrase, VolumeKey};
use atrest_volume::luks2::PinError;
use atrest_volume::{
    ChangeError, Credential, Devices, KeyslotOptions, PbkdfOptions, UnlockError, UnlockOptions,
};
use serde_json::json;

use super::passphrase::write_secret;
use super::target::{Target, header_path, open_device, with_passphrase, write_private};
use super::tokens::{self, with_tokens_or_passphrase};
use super::{enrol, flash, foreign, fresh, link, options, pin, text, veracrypt};
use crate::args::enrol::EnrolArgs;
use crate::args::key::{
    KeyAddArgs, KeyChangeArgs, KeyExportArgs, KeyKillArgs, KeyListArgs, KeyPriorityArgs, KeyRemoveArgs,
    KeyTestArgs,
};
use crate::args::secrets::{PassphraseArgs, TokenArgs};
use crate::failure::{Code, Failure};
use crate::output::{Output, Questions, path_text};
use crate::progress;
use crate::secrets::{self, Source, refuse_sharing_stdin};

pub fn add(args: &KeyAddArgs, output: &Output) -> Result<(), Failure> {
    if flash::is_flash(&args.target) {
        flash::refuse_tokens(&args.tokens, args.new_token_id)?;
        if args.enrol.is_there() {
            return Err(Failure::parameters("encrypted flash opens with passphrases alone")
                .hint("leave --tpm2, --fido2, --tang, --pkcs11, --recovery and --any out"));
        }
        return flash::key::add(args, output);
    }
    let mut options = options::keyslot(&args.pbkdf, args.new_key_slot, args.priority)?;
    args.tokens.check(&args.secret)?;
    args.enrol.check()?;
    let mut target = Target::change(&args.target)?;
    let cost = options.pbkdf.clone();
    if args.enrol.is_there() {
        target.locked.luks2_mut().map_err(|error| Failure::from(error).at(target.path))?;
        options = enrol::keyslot_options(options);
    }
    let mut new = New::of(args, &target, cost, output)?;
    let mut token = None;
    let slot = if args.unbound {
        let key = match (secrets::volume_key(&args.secret, output)?, options::key_len(args.key_size)) {
            (Some(key), _) => key,
            (None, Some(len)) => VolumeKey::generate(len, &mut OsRandom).map_err(ChangeError::from)?,
            (None, None) => {
                return Err(Failure::parameters(
                    "an unbound keyslot needs --key-size BITS, --volume-key-file FILE or --volume-key-keyring KEY",
                ));
            }
        };
        pin::authorize(&mut target, &PassphraseArgs::default(), output)?;
        let passphrase = new.read("Passphrase for the unbound keyslot", None, output)?;
        let spinner = progress::spinner("deriving the key", output);
        let luks2 = target.locked.luks2_mut();
        let added =
            luks2.and_then(|luks2| luks2.add_unbound_key(&target.device, &key, &passphrase, &options));
        spinner.finish_and_clear();
        added.map_err(|error| Failure::from(error).at(target.path))?
    } else if let Some(key) = secrets::volume_key(&args.secret, output)? {
        let passphrase = new.read("New passphrase", Some(&key), output)?;
        let spinner = progress::spinner("deriving the key", output);
        let added = new.add(&mut target, Credential::VolumeKey(&key), &passphrase, &options);
        spinner.finish_and_clear();
        let (slot, stored) = added.map_err(|error| new.failure(error).at(target.path))?;
        token = stored;
        slot
    } else {
        let existing = Source::from(&args.secret.passphrase);
        match &new {
            New::Asked(new) => refuse_sharing_stdin(&existing, new)?,
            New::ToEnrol(args, ..) => {
                if let Some(file) = &args.factor.pin_file {
                    refuse_sharing_stdin(&existing, &Source::key_file(file))?;
                }
            }
            New::Enrolled(_) | New::Token(_) => {}
        }
        // Derived once: what it opens is the credential for the new keyslot.
        // Nothing is asked of a TPM or a security key before that is known to be right.
        let key = match existing.is_prompt() || args.tokens.are_named() || args.enrol.is_there() {
            true => Existing::Key(volume_key(&existing, &target, args, output)?),
            false => Existing::Passphrase(existing.read("Existing passphrase", output)?),
        };
        let known = match &key {
            Existing::Key(key) => Some(key),
            Existing::Passphrase(_) => None,
        };
        let passphrase = new.read("New passphrase", known, output)?;
        let spinner = progress::spinner("deriving the key", output);
        let credential = match &key {
            Existing::Key(key) => Credential::VolumeKey(key),
            Existing::Passphrase(passphrase) => Credential::Passphrase(passphrase, args.key_slot),
        };
        let added = new.add(&mut target, credential, &passphrase, &options);
        spinner.finish_and_clear();
        let (slot, stored) = added.map_err(|error| new.failure(error).at(target.path))?;
        token = stored;
        slot
    };
    if let (New::Enrolled(enrolled), Some(token)) = (&new, token) {
        // Before the trusted store, which may fail: a recovery key is nowhere else.
        let told = tell(slot, token, enrolled, output);
        // Of the keyslot the store is told, whether or not anybody has read what was said.
        let renewed = target.renew();
        return told.and(renewed);
    }
    let assigned = args.new_token_id.map_or(Ok(()), |token| {
        let luks2 = target.locked.luks2_mut();
        let assigned = luks2.and_then(|luks2| luks2.assign_token(&target.device, token, slot, true));
        assigned.map_err(|error| {
            let made = format!("keyslot {slot} is made, but token {token} is not said to open it");
            Failure::from(error).within(&made).at(target.path)
        })
    });
    let renewed = target.renew();
    assigned.and(renewed)?;
    output.done(&json!({ "keyslot": slot }), &format!("keyslot {slot} opens with the new passphrase"))
}

/// Says what was enrolled.
fn tell(slot: u32, token: u32, new: &enrol::New, output: &Output) -> Result<(), Failure> {
    match new {
        enrol::New::Tpm(_) => output.done(
            &json!({ "keyslot": slot, "token": token }),
            &format!("keyslot {slot} opens with this machine's TPM (token {token})"),
        ),
        #[cfg(feature = "pkcs11")]
        enrol::New::Card(_) => output.done(
            &json!({ "keyslot": slot, "token": token }),
            &format!("keyslot {slot} opens with the smart card (token {token})"),
        ),
        #[cfg(feature = "whole")]
        enrol::New::Fido2(_) => output.done(
            &json!({ "keyslot": slot, "token": token }),
            &format!("keyslot {slot} opens with the security key (token {token})"),
        ),
        #[cfg(feature = "whole")]
        enrol::New::Tang(_) => output.done(
            &json!({ "keyslot": slot, "token": token }),
            &format!("keyslot {slot} opens with the help of the server (token {token})"),
        ),
        #[cfg(feature = "whole")]
        enrol::New::Shares(made) => super::factors::tell(slot, token, made, output),
        enrol::New::Recovery(key) => {
            output.note(format_args!(
                "keyslot {slot} opens with this recovery key: write it down (token {token})"
            ));
            tell_recovery(slot, token, key, output)
        }
    }
}

/// Prints a recovery key that belongs to a keyslot.
pub fn tell_recovery(slot: u32, token: u32, key: &Passphrase, output: &Output) -> Result<(), Failure> {
    let rest = format!("\",\"keyslot\":{slot},\"token\":{token}}}\n");
    match output.is_json() {
        true => write_secret(&[b"{\"recovery_key\":\"", key.expose(), rest.as_bytes()]),
        false => write_secret(&[key.expose(), b"\n"]),
    }
}

/// Where the passphrase of a new keyslot comes from.
enum New<'a> {
    Asked(Source),
    /// It will be made, for the volume with this UUID, and a passphrase in it at this cost.
    ToEnrol(&'a EnrolArgs, String, PbkdfOptions),
    /// It was made, and is in a TPM or on paper.
    Enrolled(enrol::New),
    /// From a token of the header, which opens the keyslot afterwards.
    Token(Token),
}

impl<'a> New<'a> {
    fn of(
        args: &'a KeyAddArgs,
        target: &Target<'_>,
        cost: PbkdfOptions,
        output: &Output,
    ) -> Result<Self, Failure> {
        if args.enrol.is_there() {
            return Ok(Self::ToEnrol(&args.enrol, target.locked.info().uuid, cost));
        }
        let Some(id) = args.new_token_id else {
            return Ok(Self::Asked(Source::from(&args.new)));
        };
        let meant = TokenArgs { token_id: Some(id), token_only: true, ..TokenArgs::default() };
        let tokens = tokens::chosen(Token::all(&target.locked), &meant, output);
        let token = tokens.map_err(|failure| failure.at(target.path))?.into_iter().next();
        // cannot fail: one of that number is there.
        token.map(Self::Token).ok_or_else(|| ChangeError::NoSuchToken { token: id }.into())
    }

    fn read(
        &mut self,
        prompt: &str,
        key: Option<&VolumeKey>,
        output: &Output,
    ) -> Result<Passphrase, Failure> {
        if let (Self::ToEnrol(args, name, cost), Some(key)) = (&*self, key) {
            *self = Self::Enrolled(enrol::New::of(args, &enrol::Volume { name, key, cost }, output)?);
        }
        match self {
            // cannot be: it was enrolled.
            Self::ToEnrol(..) => Err(Failure::new(Code::Refused, "nothing was enrolled")),
            Self::Enrolled(new) => Ok(Passphrase::copy_from(new.passphrase().expose())),
            Self::Asked(source) => source.read_new(prompt, output),
            Self::Token(token) => {
                token.passphrase(None).map_err(|error| tokens::refused(&[(token.clone(), error)]))
            }
        }
    }
}

impl New<'_> {
    /// Adds the keyslot, and if it was enrolled, its token with it, of which the number is returned, too.
    fn add(
        &self,
        target: &mut Target<'_>,
        credential: Credential<'_>,
        passphrase: &Passphrase,
        options: &KeyslotOptions,
    ) -> Result<(u32, Option<u32>), ChangeError> {
        match self {
            Self::Enrolled(new) => {
                let token = |slot| new.token(slot);
                let luks2 = target.locked.luks2_mut()?;
                let added = luks2.add_key_with_token(&target.device, credential, passphrase, options, &token);
                added.map(|(slot, token)| (slot, Some(token)))
            }
            _ => {
                let added = target.locked.add_key(&target.device, credential, passphrase, options);
                added.map(|slot| (slot, None))
            }
        }
    }
}

impl New<'_> {
    fn failure(&self, error: ChangeError) -> Failure {
        match (self, &error) {
            (Self::Enrolled(_), ChangeError::TokenInUse) => {
                Failure::from(error).within("no keyslot is made, as no token can say what opens it")
            }
            _ => error.into(),
        }
    }
}

/// What proves that a passphrase may be added.
enum Existing {
    /// What a typed passphrase opened, before the new one was asked for.
    Key(VolumeKey),
    /// One that is tried together with the change.
    Passphrase(Passphrase),
}

/// The key that a token or a typed passphrase opens. A wrong one is told before the new one is asked for.
fn volume_key(
    source: &Source,
    target: &Target<'_>,
    args: &KeyAddArgs,
    output: &Output,
) -> Result<VolumeKey, Failure> {
    // Tokens that nobody has named prove nothing here, as with cryptsetup.
    let output = output.asking(Questions { tokens_first: false, ..output.questions() });
    with_tokens_or_passphrase(target, &args.tokens, (source, args.key_slot), &output, |passphrase, slot| {
        target.locked.volume_key(&target.device, passphrase, slot).map(|(_, key)| key)
    })
}

/// The existing passphrase. Somebody who types it learns that it is wrong before he types the new one twice.
fn existing_passphrase(
    source: &Source,
    target: &Target<'_>,
    slot: Option<u32>,
    output: &Output,
) -> Result<Passphrase, Failure> {
    if !source.is_prompt() {
        return source.read("Existing passphrase", output);
    }
    let mut typed = None;
    with_passphrase(source, target.path, output, |passphrase| {
        let opened = target.locked.test_passphrase(&target.device, passphrase, slot);
        typed = opened.is_ok().then(|| Passphrase::copy_from(passphrase.expose()));
        opened
    })?;
    typed.ok_or_else(|| Failure::new(Code::Refused, "no passphrase was given"))
}

pub fn change(args: &KeyChangeArgs, output: &Output) -> Result<(), Failure> {
    veracrypt::refuse_others_of_change(args)?;
    if foreign::is_tcrypt(args.foreign.kind) {
        return veracrypt::change(args, output);
    }
    if flash::is_flash(&args.target) {
        return flash::key::change(args, output);
    }
    let options = options::keyslot(&args.pbkdf, args.new_key_slot, None)?;
    let mut target = Target::change(&args.target)?;
    let (old, new) = (Source::from(&args.passphrase), Source::from(&args.new));
    refuse_sharing_stdin(&old, &new)?;
    let old = existing_passphrase(&old, &target, args.key_slot, output)?;
    let new = match args.keep_passphrase {
        true => Passphrase::copy_from(old.expose()),
        false => new.read_new("New passphrase", output)?,
    };
    let spinner = progress::spinner("deriving the key", output);
    let changed = target.locked.change_key(&target.device, &old, args.key_slot, &new, &options);
    spinner.finish_and_clear();
    let slot = changed.map_err(|error| Failure::from(error).at(target.path))?;
    target.renew()?;
    output.done(&json!({ "keyslot": slot }), &changed_text(slot, args.keep_passphrase))
}

/// What there is to say of a keyslot that was made anew.
pub fn changed_text(slot: impl std::fmt::Display, kept: bool) -> String {
    match kept {
        true => format!("keyslot {slot} opens with the same passphrase, which is derived anew"),
        false => format!("keyslot {slot} opens with the new passphrase"),
    }
}

pub fn remove(args: &KeyRemoveArgs, output: &Output) -> Result<(), Failure> {
    if flash::is_flash(&args.target) {
        return flash::key::remove(args, output);
    }
    let mut target = Target::change(&args.target)?;
    if !args.kind.is_empty() {
        return remove_kinds(args, &mut target, output);
    }
    let Target { path, device, locked, .. } = &mut target;
    let mut last = None;
    let mut slot = with_passphrase(&Source::from(&args.passphrase), path, output, |passphrase| {
        match locked.remove_key(device, passphrase, false) {
            // A question that only somebody who has the passphrase is asked.
            Err(ChangeError::LastKeyslot { slot }) => {
                last = Some(Passphrase::copy_from(passphrase.expose()));
                Ok(slot)
            }
            removed => removed,
        }
    })?;
    if let Some(passphrase) = last {
        confirm_last(&target, output)?;
        // Tried again: meanwhile somebody else may have changed the keyslots.
        let removed = target.locked.remove_key(&target.device, &passphrase, true);
        slot = removed.map_err(|error| Failure::from(error).at(target.path))?;
    }
    target.renew()?;
    output.done(&json!({ "keyslot": slot }), &format!("keyslot {slot} is removed"))
}

/// Wipes the keyslots of some kinds.
fn remove_kinds(args: &KeyRemoveArgs, target: &mut Target<'_>, output: &Output) -> Result<(), Failure> {
    let path = header_path(&args.target);
    let at = |error: ChangeError| Failure::from(error).at(path);
    target.locked.luks2_mut().map_err(at)?;
    let kinds: Vec<Factor> = args.kind.iter().copied().map(options::factor).collect();
    let slots = Factor::keyslots(&kinds, &target.locked);
    if slots.is_empty() {
        return Err(Failure::parameters("no keyslot is of this kind")
            .at(path)
            .hint("`atrest key list` shows what opens each"));
    }
    let opening: Vec<u32> = {
        let info = target.locked.info();
        let ids = info.keyslots.iter().map(|keyslot| keyslot.id);
        ids.filter(|slot| target.locked.opens_data(*slot)).collect()
    };
    let goes = opening.iter().copied().find(|slot| slots.contains(slot));
    let last = goes.is_some() && opening.iter().all(|slot| slots.contains(slot));
    let source = Source::from(&args.passphrase);
    if last {
        confirm_last(target, output)?;
    } else if !output.says_yes() || !source.is_prompt() {
        let Target { path, device, locked, .. } = target;
        let opened =
            with_passphrase(&source, path, output, |passphrase| pin::tested(locked, device, passphrase))?;
        if slots.contains(&opened) {
            return Err(Failure::parameters(format!(
                "the passphrase is that of keyslot {opened}, which would go"
            ))
            .hint("give one of a keyslot that stays, or pass --yes alone"));
        }
        if let Some(slot) = goes {
            check_other(target, opened, slot)?;
        }
    }
    if !last {
        pin::authorize(target, &args.passphrase, output)?;
    }
    let luks2 = target.locked.luks2_mut().map_err(at)?;
    let tokens = luks2.remove_keyslots(&target.device, &slots, last).map_err(at)?;
    target.renew()?;
    let numbers: Vec<String> = slots.iter().map(u32::to_string).collect();
    output.done(
        &json!({ "keyslots": slots, "tokens": tokens }),
        &format!("wiped: keyslots {}, and {} of their tokens", numbers.join(", "), tokens.len()),
    )
}

pub fn kill(args: &KeyKillArgs, output: &Output) -> Result<(), Failure> {
    if flash::is_flash(&args.target) {
        return flash::key::kill(args, output);
    }
    let mut target = Target::change(&args.target)?;
    let at = |error: ChangeError| Failure::from(error).at(header_path(&args.target));
    let last = target.locked.is_last_keyslot(args.slot).map_err(at)?;
    let source = Source::from(&args.passphrase);
    if last {
        confirm_last(&target, output)?;
    }
    if output.says_yes() {
        if let Some(passphrase) = source.read_if_any(output)? {
            let opened = pin::tested(&mut target.locked, &target.device, &passphrase);
            let opened = opened.map_err(|error| Failure::from(error).at(target.path))?;
            if !last {
                check_other(&target, opened, args.slot)?;
            }
        }
    } else if !last {
        let Target { path, device, locked, .. } = &mut target;
        let opened =
            with_passphrase(&source, path, output, |passphrase| pin::tested(locked, device, passphrase))?;
        check_other(&target, opened, args.slot)?;
    }
    if !last {
        pin::authorize(&mut target, &args.passphrase, output)?;
    }
    target.locked.kill_slot(&target.device, args.slot, last).map_err(at)?;
    target.renew()?;
    output.done(&json!({ "keyslot": args.slot }), &format!("keyslot {} is wiped", args.slot))
}

/// Whoever wipes a keyslot has shown a passphrase of another one, so that the volume can still be opened.
fn check_other(target: &Target<'_>, opened: u32, slot: u32) -> Result<(), Failure> {
    if opened == slot {
        return Err(Failure::parameters(format!("the passphrase is that of keyslot {opened} itself"))
            .hint("give one of another keyslot, use `atrest key remove`, or pass --yes alone"));
    }
    if target.locked.opens_data(slot) && !target.locked.opens_data(opened) {
        return Err(Failure::parameters(format!(
            "the passphrase is that of keyslot {opened}, which opens no data"
        ))
        .hint("give one that opens the volume afterwards, or pass --yes alone"));
    }
    Ok(())
}

fn confirm_last(target: &Target<'_>, output: &Output) -> Result<(), Failure> {
    let path = target.path.display();
    output.confirm(&format!("this is the last passphrase of {path}; its data can't be read afterwards"))
}

pub fn test(args: &KeyTestArgs, output: &Output) -> Result<(), Failure> {
    if flash::is_flash(&args.target) {
        flash::refuse_tokens(&args.tokens, None)?;
        pin::refuse(&args.expect, &args.target.path)?;
        return flash::key::test(args, output);
    }
    args.tokens.check(&args.secret)?;
    let target = Target::to_look_at(&args.target)?;
    let mut expected =
        pin::expected(&args.expect, UnlockOptions { read_only: true, ..UnlockOptions::default() })?;
    if let Some(store) = &args.target.store {
        let counter = || target.locked.luks2().ok_or(PinError::NotLuks2)?.pin_counter();
        expected.seen = fresh::Seen::by(store, counter)?.record();
    }
    match target.locked.luks2() {
        // Before anybody is asked for a passphrase.
        Some(luks2) => luks2.check_policy(&expected).map_err(|error| Failure::from(error).at(target.path))?,
        None if expected.expects() => {
            return Err(Failure::from(UnlockError::Pin(PinError::NotLuks2)).at(target.path));
        }
        None => {}
    }
    let keyring = link::keyring(args.link_vk_to_keyring.as_ref())?;
    if let Some(key) = secrets::volume_key(&args.secret, output)? {
        let data = open_device(&args.target.path, Access::ReadOnly)?;
        let devices = match &args.target.header {
            Some(_) => Devices::detached(&target.device, &data),
            None => Devices::together(&target.device),
        };
        let tested = target.locked.unlock_with_key(devices, &key, &expected);
        tested.map_err(|error| Failure::from(error).at(target.path))?;
        link::keep(keyring.map(|keyring| link::put_key(&keyring, &key)).transpose()?);
        return output.done(&json!({ "keyslot": null }), "the volume key belongs to the volume");
    }
    let source = Source::from(&args.secret.passphrase);
    let from = (&source, args.key_slot);
    let slot = match keyring {
        keyring if expected.expects() => {
            let opened =
                with_tokens_or_passphrase(&target, &args.tokens, from, output, |passphrase, slot| {
                    let (slot, key) = target.locked.volume_key(&target.device, passphrase, slot)?;
                    expected.check_key(&key)?;
                    if let (Some(seen), Some(luks2)) = (&expected.seen, target.locked.luks2()) {
                        luks2.check_record(&key, seen)?;
                    }
                    Ok::<_, UnlockError>((slot, key))
                });
            let (slot, key) = opened?;
            link::keep(keyring.map(|keyring| link::put_key(&keyring, &key)).transpose()?);
            slot
        }
        None => with_tokens_or_passphrase(&target, &args.tokens, from, output, |passphrase, slot| {
            target.locked.test_passphrase(&target.device, passphrase, slot)
        })?,
        Some(keyring) => {
            let opened =
                with_tokens_or_passphrase(&target, &args.tokens, from, output, |passphrase, slot| {
                    target.locked.volume_key(&target.device, passphrase, slot)
                });
            let (slot, key) = opened?;
            link::keep(Some(link::put_key(&keyring, &key)?));
            slot
        }
    };
    output.done(&json!({ "keyslot": slot }), &format!("keyslot {slot} opens with this passphrase"))
}

pub fn list(args: &KeyListArgs, output: &Output) -> Result<(), Failure> {
    if flash::is_flash(&args.target) {
        return flash::key::list(args, output);
    }
    let target = Target::read(&args.target)?;
    let info = target.locked.info();
    let tokens = Token::all(&target.locked);
    let needs =
        |slot: u32| tokens.iter().filter(move |token| token.info.keyslots.contains(&slot)).map(Token::needs);
    let mut text = text::keyslots(&info);
    let mut keyslots = Vec::new();
    for slot in &info.keyslots {
        let needs: Vec<String> = needs(slot.id).collect();
        for need in &needs {
            text.push_str(&text::opens_with(slot.id, need));
        }
        let mut value = json!(slot);
        if let Some(object) = value.as_object_mut().filter(|_| !needs.is_empty()) {
            object.insert("opens_with".into(), needs.into());
        }
        keyslots.push(value);
    }
    output.report(&keyslots, &text)
}

pub fn export(args: &KeyExportArgs, output: &Output) -> Result<(), Failure> {
    let target = Target::read(&args.target)?;
    let (path, file) = (target.path.display(), args.file.display());
    output
        .confirm(&format!("whoever reads {file} can read {path} for ever, whatever its passphrases are"))?;
    let source = Source::from(&args.passphrase);
    let (slot, key) = with_tokens_or_passphrase(
        &target,
        &args.tokens,
        (&source, args.key_slot),
        output,
        |passphrase, slot| {
            match (args.key_slot, target.locked.luks2()) {
                // A keyslot that is named may be an unbound one.
                (Some(_), Some(luks2)) => luks2.keyslot_key(&target.device, passphrase, slot),
                (None, _) | (_, None) => target.locked.volume_key(&target.device, passphrase, slot),
            }
        },
    )?;
    write_private(&args.file, key.expose())?;
    output.done(
        &json!({ "keyslot": slot, "file": path_text(&args.file), "bytes": key.len() }),
        &format!("{file}: volume key of {} bytes from keyslot {slot}", key.len()),
    )
}

pub fn priority(args: &KeyPriorityArgs, output: &Output) -> Result<(), Failure> {
    let mut target = Target::change(&args.target)?;
    pin::authorize(&mut target, &args.passphrase, output)?;
    let priority = options::priority(args.priority);
    let set = target.locked.set_priority(&target.device, args.slot, priority);
    set.map_err(|error| Failure::from(error).at(target.path))?;
    target.renew()?;
    output.done(
        &json!({ "keyslot": args.slot, "priority": priority }),
        &format!("keyslot {}: priority set", args.slot),
    )
}
