//! `atrest hand-over`: another trusted store for a sealed volume.

use std::sync::Arc;

use atrest_device::LockMode;
use atrest_engine::flash::{FlashOpenError, HandedOver, open};
use atrest_engine::{TrustedFile, is_same};
use serde_json::json;

use super::{LockedHeader, unlock_keeping};
use crate::args::flash::HandOverArgs;
use crate::failure::Failure;
use crate::output::Output;

pub fn hand_over(args: &HandOverArgs, output: &Output) -> Result<(), Failure> {
    let HandOverArgs { path, store, to, secret } = args;
    for (one, other, what) in
        [(store, path, "--store names the volume itself"), (to, path, "--to names the volume itself")]
    {
        if is_same(one, other) {
            return Err(Failure::parameters(what).at(one).hint("a store is a file of its own"));
        }
    }
    if is_same(to, store) {
        return Err(Failure::parameters("--to names the old store")
            .at(to)
            .hint("the new one is another file, best on another device"));
    }
    let locked = LockedHeader::change(path)?;
    if !super::store::is_sealed(&locked.volume).map_err(|error| error.at(path))? {
        return Err(Failure::from(FlashOpenError::NotSealed).at(path));
    }
    let at = |error| Failure::from(FlashOpenError::Store(error));
    let mut old = TrustedFile::open(store, LockMode::Exclusive).map_err(|error| at(error).at(store))?;
    let mut new = TrustedFile::open_or_new(to).map_err(|error| at(error).at(to))?;
    let (slot, key, passphrase) = unlock_keeping(&locked.volume, path, None, secret, output)?;
    let volume = || open(Arc::clone(&locked.device));
    let done = atrest_engine::flash::hand_over(volume, (slot, &key, &passphrase), &mut old, &mut new)
        .map_err(|error| Failure::from(error).at(path))?;
    let finished = done == HandedOver::Finished;
    let before = if finished { "an earlier hand-over is finished: " } else { "" };
    let (shown, store, to) = (path.display(), store.display(), to.display());
    output.done(
        &json!({ "store": to.to_string(), "finished": finished }),
        &format!("{shown}: {before}it opens with {to} from now on, and no more with {store}"),
    )
}
