//! `atrest token …`.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};

use atrest_volume::ChangeError;
use atrest_volume::luks2::PIN_TOKEN;
use serde_json::json;

use super::pin;
use super::target::{Target, replace_private, write_private};
use crate::args::key::TargetArgs;
use crate::args::secrets::PassphraseArgs;
use crate::args::token::{
    TokenAddArgs, TokenExportArgs, TokenImportArgs, TokenListArgs, TokenRemoveArgs, TokenUnassignArgs,
};
use crate::failure::Failure;
use crate::output::{Output, path_text, plain};

/// The largest LUKS2 metadata area; no token is longer.
const MAX_TOKEN: u64 = 4 << 20;

pub fn list(args: &TokenListArgs, output: &Output) -> Result<(), Failure> {
    let tokens = Target::read(&args.target)?.locked.info().tokens;
    let mut text = String::new();
    for token in &tokens {
        let kind = plain(&token.kind);
        text.push_str(&format!("token {}: {kind}, keyslots {:?}\n", token.id, token.keyslots));
    }
    if tokens.is_empty() {
        text.push_str("no tokens\n");
    }
    output.report(&tokens, &text)
}

pub fn export(args: &TokenExportArgs, output: &Output) -> Result<(), Failure> {
    let target = Target::read(&args.target)?;
    let luks2 = target.locked.luks2().ok_or(ChangeError::NotInFormat).map_err(at(&target))?;
    let token =
        luks2.token(args.id).ok_or(ChangeError::NoSuchToken { token: args.id }).map_err(at(&target))?;
    match &args.file {
        // Byte for byte what the header has: no newline but on a terminal.
        None if io::stdout().is_terminal() => Ok(writeln!(io::stdout(), "{token}")?),
        None => Ok(io::stdout().write_all(token.as_bytes())?),
        Some(file) => {
            match args.overwrite {
                true => replace_private(file, token.as_bytes())?,
                false => write_private(file, token.as_bytes())?,
            }
            output.done(
                &json!({ "token": args.id, "file": path_text(file) }),
                &format!("{}: token {}", file.display(), args.id),
            )
        }
    }
}

pub fn import(args: &TokenImportArgs, output: &Output) -> Result<(), Failure> {
    let mut text = Vec::new();
    match &args.file {
        None => {
            io::stdin().take(MAX_TOKEN).read_to_end(&mut text)?;
        }
        Some(file) => {
            let read = File::open(file).and_then(|open| open.take(MAX_TOKEN).read_to_end(&mut text));
            read.map_err(|error| Failure::io(&error).at(file))?;
        }
    }
    let text = String::from_utf8(text).map_err(|_| Failure::parameters("the token is not UTF-8 text"))?;
    store(&args.target, &args.passphrase, (args.token_id, args.token_replace), &text, output)
}

/// A token of the kind that cryptsetup makes: a key of the kernel's keyring has the passphrase.
pub fn add(args: &TokenAddArgs, output: &Output) -> Result<(), Failure> {
    let slots = match args.key_slot {
        _ if args.unbound => Vec::new(),
        Some(slot) => vec![slot],
        None => Target::read(&args.target)?.locked.info().keyslots.iter().map(|slot| slot.id).collect(),
    };
    let slots: Vec<String> = slots.iter().map(|slot| format!("\"{slot}\"")).collect();
    let description = serde_json::Value::from(args.key_description.as_str());
    let text = format!(
        "{{\"type\":\"luks2-keyring\",\"keyslots\":[{}],\"key_description\":{description}}}",
        slots.join(",")
    );
    let nobody = PassphraseArgs::default();
    store(&args.target, &nobody, (args.token_id, args.token_replace), &text, output)
}

fn store(
    target: &TargetArgs,
    passphrase: &PassphraseArgs,
    (id, replace): (Option<u32>, bool),
    text: &str,
    output: &Output,
) -> Result<(), Failure> {
    let mut target = Target::change(target)?;
    pin::authorize(&mut target, passphrase, output)?;
    let imported = target.locked.luks2_mut().and_then(|luks2| match id {
        Some(id) if replace => luks2.replace_token(&target.device, id, text).map(|()| id),
        id => luks2.import_token(&target.device, id, text),
    });
    let id = imported.map_err(at(&target))?;
    target.renew()?;
    output.done(&json!({ "token": id }), &format!("token {id} is stored"))
}

pub fn unassign(args: &TokenUnassignArgs, output: &Output) -> Result<(), Failure> {
    let mut target = Target::change(&args.target)?;
    pin::authorize(&mut target, &args.passphrase, output)?;
    let (id, slot) = (args.id, args.slot);
    let left =
        target.locked.luks2_mut().and_then(|luks2| luks2.assign_token(&target.device, id, slot, false));
    left.map_err(at(&target))?;
    target.renew()?;
    output.done(
        &json!({ "token": id, "keyslot": slot }),
        &format!("token {id} does not open keyslot {slot} any more"),
    )
}

pub fn remove(args: &TokenRemoveArgs, output: &Output) -> Result<(), Failure> {
    let mut target = Target::change(&args.target)?;
    // The pin itself goes without its key: whoever can write the header can take it away.
    let tokens = target.locked.info().tokens;
    if !tokens.iter().any(|token| token.id == args.id && token.kind == PIN_TOKEN) {
        pin::authorize(&mut target, &args.passphrase, output)?;
    }
    let removed = target.locked.luks2_mut().and_then(|luks2| luks2.remove_token(&target.device, args.id));
    removed.map_err(at(&target))?;
    target.renew()?;
    output.done(&json!({ "token": args.id }), &format!("token {} is removed", args.id))
}

fn at(target: &Target<'_>) -> impl FnOnce(ChangeError) -> Failure {
    let path = target.path.to_path_buf();
    move |error| Failure::from(error).at(&path)
}
