//! `atrest key …` on encrypted flash.

use atrest_flash::{FlashHeaderError, NewSlot};
use atrest_keyslot::flash::{AnyKdf, FlashKey, KdfCost};
use atrest_secret::{OsRandom, Passphrase};
use serde_json::json;

use super::store::HeldStore;
use super::{LockedHeader, info, store, unlock_keeping};
use crate::args::format::PbkdfArgs;
use crate::args::key::{
    KeyAddArgs, KeyChangeArgs, KeyKillArgs, KeyListArgs, KeyRemoveArgs, KeyTestArgs, TargetArgs,
};
use crate::args::secrets::PassphraseArgs;
use crate::commands::flash::options::cost;
use crate::commands::key::changed_text;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress;
use crate::secrets::{Source, refuse_sharing_stdin};

/// A volume whose keyslots may be changed.
struct Unlocked {
    /// The keyslot that the passphrase has opened.
    slot: usize,
    key: FlashKey,
    passphrase: Passphrase,
    store: HeldStore,
}

/// Asks for the passphrase. The trusted store of a sealed volume is held before, and held against the volume before anything is done.
fn unlocked(
    locked: &LockedHeader,
    target: &TargetArgs,
    slot: Option<u32>,
    secret: &PassphraseArgs,
    output: &Output,
) -> Result<Unlocked, Failure> {
    let store = held(locked, target, false)?;
    unlocked_with(locked, target, slot, (secret, store), output)
}

fn unlocked_with(
    locked: &LockedHeader,
    target: &TargetArgs,
    slot: Option<u32>,
    (secret, store): (&PassphraseArgs, HeldStore),
    output: &Output,
) -> Result<Unlocked, Failure> {
    let path = &target.path;
    let (slot, key, passphrase) = unlock_keeping(&locked.volume, path, slot, secret, output)?;
    let store = store.check(path, &key)?;
    Ok(Unlocked { slot, key, passphrase, store })
}

/// The trusted store for a change. One that removes the last passphrase needs none.
fn held(locked: &LockedHeader, target: &TargetArgs, destroys: bool) -> Result<HeldStore, Failure> {
    let store = target.store.as_deref();
    HeldStore::hold(&locked.volume, store, destroys).map_err(|error| error.at(&target.path))
}

fn keyslots(locked: &LockedHeader, target: &TargetArgs) -> Result<Vec<usize>, Failure> {
    let header = locked.volume.header().map_err(|error| Failure::from(error).at(&target.path))?;
    Ok(header.slots_in_use().collect())
}

/// Hands a new keyslot for a passphrase to `work`.
fn with_new<T>(
    passphrase: &Passphrase,
    cost: KdfCost,
    target: &TargetArgs,
    output: &Output,
    work: impl FnOnce(NewSlot<'_>) -> Result<T, FlashHeaderError>,
) -> Result<T, Failure> {
    let spinner = progress::spinner("deriving the key", output);
    let result = work(NewSlot {
        passphrase: passphrase.expose(),
        cost,
        kdf: &mut AnyKdf,
        device: None,
        random: &mut OsRandom,
    });
    spinner.finish_and_clear();
    result.map_err(|error| Failure::from(error).at(&target.path))
}

pub fn add(args: &KeyAddArgs, output: &Output) -> Result<(), Failure> {
    if args.unbound || args.priority.is_some() || args.secret.has_volume_key() {
        return Err(Failure::parameters(
            "encrypted flash has no --unbound, --priority and --volume-key-file",
        ));
    }
    refuse_sharing_stdin(&Source::from(&args.secret.passphrase), &Source::from(&args.new))?;
    let path = &args.target.path;
    let mut locked = LockedHeader::change(path)?;
    let Unlocked { key, mut store, .. } =
        unlocked(&locked, &args.target, args.key_slot, &args.secret.passphrase, output)?;
    let slot = args.new_key_slot.map(|slot| slot as usize);
    let cost = cost(&args.pbkdf)?;
    let passphrase = Source::from(&args.new).read_new("New passphrase", output)?;
    let added = with_new(&passphrase, cost, &args.target, output, |new| {
        locked.volume.add_key(slot, &key, new, store.anchor())
    })?;
    output.done(&json!({ "keyslot": added }), &format!("keyslot {added} opens with the new passphrase"))
}

pub fn change(args: &KeyChangeArgs, output: &Output) -> Result<(), Failure> {
    if args.new_key_slot.is_some() {
        return Err(Failure::parameters(
            "a passphrase of encrypted flash is changed in its keyslot, in one step",
        )
        .hint("leave --new-key-slot out"));
    }
    if args.keep_passphrase && is_default(&args.pbkdf) {
        return Err(Failure::parameters("--keep-passphrase alone would change nothing that was asked for")
            .hint("say what deriving is to cost: --garlic, or --kdf and its options"));
    }
    refuse_sharing_stdin(&Source::from(&args.passphrase), &Source::from(&args.new))?;
    let path = &args.target.path;
    let mut locked = LockedHeader::change(path)?;
    let Unlocked { slot, key, passphrase: old, mut store } =
        unlocked(&locked, &args.target, args.key_slot, &args.passphrase, output)?;
    let cost = cost(&args.pbkdf)?;
    let passphrase = match args.keep_passphrase {
        true => old,
        false => Source::from(&args.new).read_new("New passphrase", output)?,
    };
    let failed = |error: FlashHeaderError| Failure::from(error).at(path);
    let before = locked.volume.header().map_err(failed)?.slot(slot).map(|slot| slot.kdf);
    if let Some(before) = before.filter(|before| before.name() == cost.name() && before.work() > cost.work())
    {
        output.warn(format_args!("{before} was dearer for whoever guesses than {cost}"));
    }
    with_new(&passphrase, cost, &args.target, output, |new| {
        locked.volume.change_key(slot, &key, new, store.anchor())
    })?;
    output.done(&json!({ "keyslot": slot }), &changed_text(slot, args.keep_passphrase))
}

/// Whether nothing was said of the derivation.
fn is_default(args: &PbkdfArgs) -> bool {
    let PbkdfArgs { pbkdf, pbkdf_memory, pbkdf_parallel, pbkdf_force_iterations, garlic, .. } = args;
    pbkdf.is_none()
        && pbkdf_memory.is_none()
        && pbkdf_parallel.is_none()
        && pbkdf_force_iterations.is_none()
        && garlic.is_none()
}

pub fn remove(args: &KeyRemoveArgs, output: &Output) -> Result<(), Failure> {
    if !args.kind.is_empty() {
        return Err(Failure::parameters("encrypted flash opens with passphrases alone: leave --kind out"));
    }
    let path = &args.target.path;
    let mut locked = LockedHeader::change(path)?;
    let is_last = keyslots(&locked, &args.target)?.len() == 1;
    let store = held(&locked, &args.target, is_last)?;
    let opened = unlocked_with(&locked, &args.target, None, (&args.passphrase, store), output)?;
    let (slot, store) = (opened.slot, opened.store);
    destroy(&mut locked, &args.target, slot, store, output)?;
    output.done(&json!({ "keyslot": slot }), &format!("keyslot {slot} is removed"))
}

pub fn kill(args: &KeyKillArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.target.path;
    let mut locked = LockedHeader::change(path)?;
    let slot = args.slot as usize;
    let failed = |error: FlashHeaderError| Failure::from(error).at(path);
    let used = keyslots(&locked, &args.target)?;
    if !used.contains(&slot) {
        return Err(failed(FlashHeaderError::SlotNotInUse { slot }));
    }
    let mut store = held(&locked, &args.target, used.len() == 1)?;
    let asks = !output.says_yes() || !Source::from(&args.passphrase).is_prompt();
    if used.len() > 1 && asks {
        let found = unlocked_with(&locked, &args.target, None, (&args.passphrase, store), output)?;
        let opened = found.slot;
        store = found.store;
        if opened == slot {
            return Err(Failure::parameters(format!("the passphrase is that of keyslot {opened} itself"))
                .hint("give one of another keyslot, use `atrest key remove`, or pass --yes alone"));
        }
    } else {
        store = store.check_header(&locked.volume).map_err(|error| error.at(path))?;
    }
    destroy(&mut locked, &args.target, slot, store, output)?;
    output.done(&json!({ "keyslot": slot }), &format!("keyslot {slot} is wiped"))
}

/// Removes a keyslot; the last one only if that is meant.
fn destroy(
    locked: &mut LockedHeader,
    target: &TargetArgs,
    slot: usize,
    mut store: HeldStore,
    output: &Output,
) -> Result<(), Failure> {
    let path = &target.path;
    let removed = match locked.volume.remove_key(slot, store.anchor()) {
        Err(FlashHeaderError::LastKey { .. }) => {
            let shown = path.display();
            output.confirm(&format!(
                "this is the last passphrase of {shown}; its data can't be read afterwards"
            ))?;
            locked.volume.erase_keys(store.anchor())
        }
        removed => removed,
    };
    removed.map_err(|error| Failure::from(error).at(path))
}

pub fn test(args: &KeyTestArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.target.path;
    let locked = LockedHeader::read(path)?;
    store::look(&locked.volume, args.target.store.as_deref()).map_err(|error| error.at(path))?;
    let secret = &args.secret.passphrase;
    let (slot, key, _) = unlock_keeping(&locked.volume, path, args.key_slot, secret, output)?;
    store::check(path, &key, args.target.store.as_deref())?;
    output.done(&json!({ "keyslot": slot }), &format!("keyslot {slot} opens with this passphrase"))
}

pub fn list(args: &KeyListArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.target.path;
    let locked = LockedHeader::read(path)?;
    store::refuse(&locked.volume, args.target.store.as_deref()).map_err(|error| error.at(path))?;
    let info = info::Info::of(&locked.volume, None).map_err(|error| error.at(path))?;
    output.report(&info.keyslots, &info::keyslots_text(&info.keyslots))
}
