//! `atrest key remember` and `forget`: a passphrase in a keyring, from which `--passphrase-from` takes it.

use atrest_engine::keyring::{self, Place};
use atrest_secret::Passphrase;
use atrest_volume::UnlockError;
use serde_json::json;

use super::target::{Target, with_passphrase};
use crate::args::key::{KeyForgetArgs, KeyRememberArgs, Keyring};
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::secrets::{Source, service};

/// The name of the passphrase of a volume, in each keyring.
fn name(keyring: Keyring, given: Option<&str>, uuid: &str) -> String {
    match (keyring, given) {
        (_, Some(given)) => given.to_owned(),
        (Keyring::Keyring, None) => format!("atrest:{uuid}"),
        (Keyring::SecretService, None) => uuid.to_owned(),
    }
}

pub fn remember(args: &KeyRememberArgs, output: &Output) -> Result<(), Failure> {
    let target = Target::read(&args.target)?;
    let uuid = target.locked.info().uuid;
    let name = name(args.keyring, args.id.as_deref(), &uuid);
    let source = Source::from(&args.passphrase);
    // One that opens nothing would be of no use, and looked for in vain.
    let mut right = None;
    let slot = with_passphrase(&source, target.path, output, |passphrase| {
        let slot = target.locked.test_passphrase(&target.device, passphrase, args.key_slot)?;
        right = Some(Passphrase::copy_from(passphrase.expose()));
        Ok::<_, UnlockError>(slot)
    })?;
    let Some(passphrase) = right else { return Err(Failure::parameters("there is no passphrase")) };
    match args.keyring {
        Keyring::Keyring => put(&name, &passphrase)?,
        Keyring::SecretService => {
            let label = format!("Encryption passphrase for {}", target.path.display());
            service::store(&name, &label, &passphrase)?;
        }
    }
    let place = match args.keyring {
        Keyring::Keyring => format!("keyring:{name}"),
        Keyring::SecretService => format!("secret-service:{name}"),
    };
    output.done(
        &json!({ "keyslot": slot, "passphrase_from": place }),
        &format!(
            "{}: the passphrase of keyslot {slot} is stored; --passphrase-from {} takes it",
            target.path.display(),
            if args.id.is_some() { &*place } else { args.keyring.word() }
        ),
    )
}

fn put(name: &str, passphrase: &Passphrase) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(Code::Device, format!("the kernel's keyring does not take the passphrase: {error}"))
            .hint("`cat /proc/key-users` shows how many keys this user has, and may have")
    };
    keyring::reach_user();
    let place: Place = format!("@u::%user:{name}").parse().map_err(Failure::parameters)?;
    let found = place.find().map_err(failed)?;
    found.put(passphrase.expose()).map_err(failed)?.keep();
    Ok(())
}

pub fn forget(args: &KeyForgetArgs, output: &Output) -> Result<(), Failure> {
    let uuid = match &args.id {
        Some(id) => id.clone(),
        None => Target::read(&args.target)?.locked.info().uuid,
    };
    let (mut gone, mut failed) = (Vec::new(), None);
    for keyring in [Keyring::Keyring, Keyring::SecretService] {
        if args.keyring.is_some_and(|only| only != keyring) {
            continue;
        }
        let name = name(keyring, args.id.as_deref(), &uuid);
        let removed = match keyring {
            Keyring::Keyring => keyring::forget_user(&name).map_err(|error| {
                Failure::new(
                    Code::Device,
                    format!("the kernel's keyring does not let go of the passphrase: {error}"),
                )
            }),
            Keyring::SecretService => service::clear(&name),
        };
        match removed {
            Ok(true) => gone.push(keyring.word()),
            Ok(false) => {}
            Err(failure) => failed = Some(failure),
        }
    }
    // Where no service can run nothing is forgotten by it, unless it was named.
    if let Some(failure) = failed.filter(|_| args.keyring.is_some() || service::may_run()) {
        if !gone.is_empty() {
            output.warn(format_args!("the passphrase is gone from {} alone", gone.join(", ")));
        }
        return Err(failure);
    }
    let text = match &*gone {
        [] => String::from("no passphrase was stored for this volume"),
        gone => format!("the passphrase is gone from: {}", gone.join(", ")),
    };
    output.done(&json!({ "forgotten": gone }), &text)
}
