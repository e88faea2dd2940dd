//! `atrest header pin`, and what other commands know of pinned headers and policies.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use atrest_device::Media;
use atrest_secret::{Passphrase, VolumeKey};
use atrest_volume::luks2::{HeaderPolicy, Luks2, NewPin, PinError, VolumeKeyId};
use atrest_volume::{ChangeError, Credential, LockedVolume, UnlockError, UnlockOptions};
use serde_json::json;

use super::fresh;
use super::target::{Target, replace_private, with_passphrase};
use super::tokens::volume_key_by;
use crate::args::header::HeaderPinArgs;
use crate::args::open::ExpectArgs;
use crate::args::secrets::PassphraseArgs;
use crate::failure::{Code, Failure};
use crate::output::{Output, path_text};
use crate::secrets::Source;

/// No policy is longer: a header has 32 keyslots, segments and tokens.
const MAX_POLICY: u64 = 1 << 20;

pub fn pin(args: &HeaderPinArgs, output: &Output) -> Result<(), Failure> {
    args.by.tokens.check(&args.by.secret)?;
    let mut target = Target::to_pin(&args.target)?;
    let store = args.target.store.as_deref().map(fresh::new_store).transpose()?;
    let key = volume_key(args, &target, output)?;
    let luks2 = luks2(&target)?;
    match luks2.check_pin(&key) {
        Ok(()) => {}
        Err(UnlockError::Pin(changed)) if args.accept => {
            output.confirm(&format!("{}: {changed}; it is pinned as it is now", target.path.display()))?;
        }
        Err(error) => {
            return Err(Failure::from(error).at(target.path).hint(
                "`atrest header pin --accept` shows what was changed, and pins the header as it is now",
            ));
        }
    }
    let new = match &store {
        Some(store) => store.pin(luks2, &key, args.accept, output)?,
        None => NewPin { accept: args.accept, ..NewPin::default() },
    };
    if let Some(file) = args.policy.as_deref().filter(|file| file.exists()) {
        output.confirm(&format!("{} is replaced", file.display()))?;
    }
    let new = match &store {
        Some(store) => store.make(luks2, new)?,
        None => new,
    };
    let path = target.path;
    let luks2 = target.locked.luks2_mut();
    let pinned = luks2.and_then(|luks2| luks2.pin(&target.device, &key, &new));
    let pinned = pinned.map_err(|error| Failure::from(error).at(path))?;
    if let Some(store) = store {
        store.put(self::luks2(&target)?, &key)?;
    }
    if let Some(file) = &args.policy {
        replace_private(file, format!("{}\n", pinned.policy.to_json()).as_bytes())?;
    }
    output.done(
        &json!({
            "token": pinned.token,
            "key": pinned.key.to_string(),
            "counter": pinned.counter,
            "policy": args.policy.as_deref().map(path_text),
        }),
        &format!(
            "{}: the header is pinned (token {}); its key is {}",
            path.display(),
            pinned.token,
            pinned.key
        ),
    )
}

fn luks2<'t>(target: &'t Target<'_>) -> Result<&'t Luks2, Failure> {
    let luks2 = target.locked.luks2().ok_or(ChangeError::NotInFormat);
    luks2.map_err(|error| Failure::from(error).at(target.path))
}

/// The key, also of a header that is not as it was pinned.
fn volume_key(args: &HeaderPinArgs, target: &Target<'_>, output: &Output) -> Result<VolumeKey, Failure> {
    let luks2 = luks2(target)?;
    volume_key_by(target, &args.by, output, |passphrase, slot| {
        luks2.volume_key_of_any_header(&target.device, passphrase, slot).map(|(_, key)| key)
    })
}

/// The identifier of the key that a passphrase opens.
pub fn key_id(target: &Target<'_>, args: &PassphraseArgs, output: &Output) -> Result<VolumeKeyId, Failure> {
    with_passphrase(&Source::from(args), target.path, output, |passphrase| {
        let opened = target.locked.volume_key(&target.device, passphrase, None);
        opened.map(|(_, key)| VolumeKeyId::of(&key))
    })
}

/// Asks for a passphrase if the header is pinned, so that the change that follows renews the pin.
pub fn authorize(target: &mut Target<'_>, args: &PassphraseArgs, output: &Output) -> Result<(), Failure> {
    let Target { path, device, locked, .. } = target;
    let Ok(luks2) = locked.luks2_mut() else { return Ok(()) };
    if !luks2.is_pinned() || luks2.is_authorized() {
        return Ok(());
    }
    with_passphrase(&Source::from(args), path, output, |passphrase| {
        luks2.authorize(device, Credential::Passphrase(passphrase, None))
    })
}

/// Refuses to open what has neither header nor volume key of LUKS2, where something is expected of these.
pub fn refuse(args: &ExpectArgs, path: &Path) -> Result<(), Failure> {
    match args.is_there() {
        true => Err(Failure::from(UnlockError::Pin(PinError::NotLuks2)).at(path)),
        false => Ok(()),
    }
}

/// Which keyslot a passphrase opens. It authorizes changes of a pinned header, too, so that nobody is asked twice.
pub fn tested(
    locked: &mut LockedVolume,
    device: &dyn Media,
    passphrase: &Passphrase,
) -> Result<u32, UnlockError> {
    let slot = locked.test_passphrase(device, passphrase, None)?;
    if let Ok(luks2) = locked.luks2_mut()
        && luks2.is_pinned()
    {
        luks2.authorize(device, Credential::Passphrase(passphrase, None))?;
    }
    Ok(slot)
}

/// Adds to the options what is expected of the volume.
pub fn expected(args: &ExpectArgs, options: UnlockOptions) -> Result<UnlockOptions, Failure> {
    let policy = args.policy.as_deref().map(read).transpose()?;
    Ok(UnlockOptions { policy: policy.map(Arc::new), expected_key: args.expect_key, ..options })
}

fn read(path: &Path) -> Result<HeaderPolicy, Failure> {
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_POLICY).read_to_string(&mut text));
    read.map_err(|error| Failure::io(&error).at(path))?;
    if text.trim().is_empty() {
        return Err(Failure::parameters("the header policy is empty")
            .at(path)
            .hint("`atrest header pin --policy FILE` writes one"));
    }
    HeaderPolicy::parse(&text).map_err(|error| {
        Failure::new(Code::Parameters, format!("it is no header policy: {error}"))
            .at(path)
            .hint("`atrest header pin --policy FILE` writes one")
    })
}
