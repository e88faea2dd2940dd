//! `atrest hand-over URL`: another trusted store for a sealed volume.

use std::path::Path;

use atrest_device::{TRUSTED_RECORD_LEN, TrustedStore as _};
use atrest_engine::flash::FlashOpenError;
use atrest_engine::{TrustedFile, TrustedFileError, is_same};
use atrest_sealedvolume::format::Record;
use atrest_sealedvolume::volume::Freshness;
use serde_json::json;

use super::trusted;
use crate::args::flash::HandOverArgs;
use crate::args::open::UnlockArgs;
use crate::args::secrets::SecretArgs;
use crate::commands::unlock::{Use, open_if};
use crate::failure::{Code, Failure};
use crate::flash_errors::of_trusted;
use crate::output::Output;

/// 1. The volume is opened with the old store and closed, so that the old store names its newest state.
/// 2. The new store gets that record.
/// 3. The volume is opened with the new store and closed. Its newest state is one that the old store, and every copy of it, does not know.
///
/// Between 2 and 3 both open it, and in the middle of 3 the new one alone may. Then 3 alone is done when the command runs again.
pub fn hand_over(args: &HandOverArgs, output: &Output) -> Result<(), Failure> {
    let HandOverArgs { path, store, to, secret } = args;
    if is_same(to, store) {
        return Err(Failure::parameters("--to names the old store")
            .at(to)
            .hint("the new one is another file, best on another device"));
    }
    let unlock = UnlockArgs {
        secret: SecretArgs { passphrase: secret.clone(), ..SecretArgs::default() },
        ..UnlockArgs::default()
    };
    let failed = |error: TrustedFileError| Failure::from(FlashOpenError::Store(error)).at(to);
    let mut new = TrustedFile::open_or_new(to).map_err(failed)?;
    let before = match new.record() {
        Ok(record) => Some(record),
        Err(TrustedFileError::Empty | TrustedFileError::Missing) => None,
        Err(error) => return Err(failed(error)),
    };
    let at = |failure: Failure| failure.at(path);
    let wanted = Use { write: true, ..Use::default() };
    let (held, volume) = open_if(path, &unlock, wanted, output, || Ok(()))?;
    let (Some(device), Some(key)) = (held.media().sealed(), volume.sealed()) else {
        return Err(at(atrest_open::sealed::SealedError::NoStore.into()));
    };
    let _lock = device.store().hold().map_err(|error| at(error.into()))?;
    let session = |file: TrustedFile| -> Result<(), Failure> {
        let freshness = Freshness::Record(Box::new(file));
        let opened = device.volume(
            key,
            freshness,
            atrest_sealedvolume::volume::Access::Write,
            atrest_sealedvolume::volume::Settings::default(),
        );
        opened.map_err(|error| at(error.into()))?.close().map_err(|error| at(error.into()))
    };
    let finishes = match before {
        None => false,
        Some(record) if is_later(&record, &record_of(store)?) => true,
        Some(_) => {
            return Err(Failure::new(Code::Busy, "it is the trusted store of a volume already")
                .at(to)
                .hint("name a file that does not exist, or is empty"));
        }
    };
    if !finishes {
        session(trusted(store, true)?)?;
        new.store(&record_of(store)?).map_err(|error| of_trusted(error).at(to))?;
    }
    session(new)?;
    let (shown, store, to) = (path.display(), store.display(), to.display());
    let before = if finishes { "an earlier hand-over is finished: " } else { "" };
    output.done(
        &json!({ "store": to.to_string(), "finished": finishes }),
        &format!("{shown}: {before}it opens with {to} from now on, and no more with {store}"),
    )
}

/// Whether a record names a state of the same volume as another one, and none before it.
fn is_later(record: &[u8; TRUSTED_RECORD_LEN], other: &[u8; TRUSTED_RECORD_LEN]) -> bool {
    match (Record::decode(record), Record::decode(other)) {
        (Ok(record), Ok(other)) => record.format == other.format && record.number >= other.number,
        _ => false,
    }
}

fn record_of(store: &Path) -> Result<[u8; TRUSTED_RECORD_LEN], Failure> {
    let failed = |error: TrustedFileError| Failure::from(FlashOpenError::Store(error)).at(store);
    TrustedFile::peek(store).map_err(failed)
}
